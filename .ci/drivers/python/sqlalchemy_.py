"""SQLAlchemy 2: Core, ORM and reflection, by psycopg2 and by psycopg. Arguments: driver, ports."""

import decimal
import enum
import sys
import uuid

import sqlalchemy as sa
from checks import Checks, same
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql as pg

DRIVER, PORTS = sys.argv[1], sys.argv[2:]
SCHEMA = "sa_" + DRIVER


def engine(host=0, **options):
    return sa.create_engine(f"postgresql+{DRIVER}://postgres@127.0.0.1:{PORTS[host]}/postgres", **options)


class Base(orm.DeclarativeBase):
    metadata = sa.MetaData(schema=SCHEMA)


class Mood(enum.Enum):
    sad = 1
    ok = 2


tags = sa.Table(
    "post_tags",
    Base.metadata,
    sa.Column("post", sa.ForeignKey(f"{SCHEMA}.posts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("tag", sa.String(20), primary_key=True),
)


class User(Base):
    __tablename__ = "users"
    __table_args__ = (
        sa.UniqueConstraint("name", "email", name="users_name_email"),
        sa.CheckConstraint("age >= 0", name="users_age"),
        sa.Index("users_lower", sa.text("lower(name)")),
        sa.Index("users_rich", "balance", postgresql_where=sa.text("balance > 100")),
        {"comment": "who writes"},
    )
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(30), comment="the name")
    email: orm.Mapped[str | None]
    age: orm.Mapped[int] = orm.mapped_column(server_default="18")
    balance: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(10, 2), server_default=sa.text("0"))
    mood: orm.Mapped[Mood] = orm.mapped_column(sa.Enum(Mood, name="mood", schema=SCHEMA), default=Mood.ok)
    key: orm.Mapped[uuid.UUID] = orm.mapped_column(default=uuid.uuid4)
    data: orm.Mapped[dict] = orm.mapped_column(pg.JSONB, default=dict)
    words: orm.Mapped[list] = orm.mapped_column(pg.ARRAY(sa.Text), default=list)
    made: orm.Mapped[object] = orm.mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    posts: orm.Mapped[list["Post"]] = orm.relationship(back_populates="author", cascade="all, delete-orphan")


class Post(Base):
    __tablename__ = "posts"
    id: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, sa.Identity(start=100), primary_key=True)
    title: orm.Mapped[str]
    author_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey(f"{SCHEMA}.users.id"), index=True)
    author: orm.Mapped[User] = orm.relationship(back_populates="posts")


numbers = sa.Sequence("numbers", start=5, increment=5, schema=SCHEMA)
main = engine()


def tables():
    with main.begin() as c:
        c.execute(sa.text(f"drop schema if exists {SCHEMA} cascade"))
        c.execute(sa.schema.CreateSchema(SCHEMA))
    Base.metadata.create_all(main)
    Base.metadata.create_all(main)  # finds that all is there
    with main.begin() as c:
        c.execute(sa.schema.CreateSequence(numbers))
        c.execute(sa.text(f"create view {SCHEMA}.names as select id, name from {SCHEMA}.users"))
        same([c.scalar(numbers), c.scalar(numbers)], [5, 10])


def core():
    users = User.__table__
    with main.begin() as c:
        rows = [{"name": f"n{i}", "email": f"e{i}", "balance": i, "mood": Mood.sad} for i in range(1500)]
        made = c.execute(sa.insert(users).returning(users.c.id, sort_by_parameter_order=True), rows).all()
        same([row.id for row in made], list(range(1, 1501)))
        insert = pg.insert(users).values(id=1, name="x", mood=Mood.ok, key=uuid.uuid4(), data={}, words=[])
        c.execute(insert.on_conflict_do_update(index_elements=["id"], set_={"name": insert.excluded.name}))
        same(c.scalar(sa.select(users.c.name).where(users.c.id == 1)), "x")
        c.execute(sa.update(users).where(users.c.id.in_([1, 2])).values(words=["a", "b"], data={"k": [1]}))
        same(c.execute(sa.select(users.c.data["k"][0].as_integer(), users.c.words[1]).where(users.c.id == 2)).one(),
             (1, "a"))
        same(c.execute(sa.delete(users).where(users.c.balance < 10)).rowcount, 10)
        query = sa.select(sa.func.count(), sa.func.sum(users.c.balance)).where(users.c.mood == Mood.sad)
        same(c.execute(query).one(), (1490, decimal.Decimal(1124205)))
        ranked = sa.select(users.c.id, sa.func.rank().over(order_by=users.c.balance.desc()).label("r")).subquery()
        same(c.scalars(sa.select(ranked.c.id).where(ranked.c.r <= 2).order_by(ranked.c.r)).all(), [1500, 1499])
        streamed = c.execution_options(yield_per=100).execute(sa.select(users.c.id))
        same(sum(1 for _ in streamed), 1490)


def mapper():
    with orm.Session(main) as session:
        user = User(name="writer", email=None, balance=decimal.Decimal("12.34"), data={"a": [1, None]}, words=["x"])
        user.posts = [Post(title="one"), Post(title="two")]
        session.add(user)
        session.commit()
        number = user.id
        same((user.age, [post.id for post in user.posts], user.mood), (18, [100, 101], Mood.ok))
        with session.begin_nested() as nested:
            user.name = "other"
            session.flush()
            nested.rollback()
        same(user.name, "writer")
        session.execute(sa.insert(tags).values(post=100, tag="t"))
        session.commit()
    with orm.Session(engine(1)) as session:
        loaded = orm.selectinload(User.posts)
        user = session.scalars(sa.select(User).options(loaded).where(User.id == number)).one()
        same(([post.title for post in user.posts], user.data), (["one", "two"], {"a": [1, None]}))
        joined = sa.select(User).options(orm.joinedload(User.posts)).where(User.posts.any(Post.title == "two"))
        same([u.id for u in session.scalars(joined).unique()], [number])
        locked = session.scalars(sa.select(Post).where(Post.id == 101).with_for_update()).one()
        locked.title = "changed"
        session.delete(user.posts[0])
        session.commit()
        same(session.scalar(sa.select(sa.func.count()).select_from(tags)), 0)


def failures():
    with orm.Session(main) as session:
        for row in (User(id=20, name="x"), User(name="y", age=-1), Post(title="p", author_id=-5)):
            session.add(row)
            try:
                session.commit()
                raise AssertionError("a constraint does not hold")
            except sa.exc.IntegrityError:
                session.rollback()


def reflection_of_tables():
    look = sa.inspect(main)
    same(sorted(look.get_table_names(schema=SCHEMA)), ["post_tags", "posts", "users"])
    same(look.get_view_names(schema=SCHEMA), ["names"])
    assert "users" in look.get_view_definition("names", schema=SCHEMA)
    same(look.get_sequence_names(schema=SCHEMA).count("numbers"), 1)
    assert SCHEMA in look.get_schema_names()
    same(look.get_table_comment("users", schema=SCHEMA), {"text": "who writes"})
    same(look.has_table("users", schema=SCHEMA), True)
    same(look.has_table("nobody", schema=SCHEMA), False)
    enums = [(e["name"], e["labels"]) for e in look.get_enums(schema=SCHEMA)]
    same(enums, [("mood", ["sad", "ok"])])


def reflection_of_columns():
    columns = {c["name"]: c for c in sa.inspect(main).get_columns("users", schema=SCHEMA)}
    same({name: str(c["type"]) for name, c in columns.items()}, {
        "id": "INTEGER", "name": "VARCHAR(30)", "email": "VARCHAR", "age": "INTEGER", "balance": "NUMERIC(10, 2)",
        "mood": "VARCHAR(3)", "key": "UUID", "data": "JSONB", "words": "ARRAY", "made": "TIMESTAMP",
    })
    same(columns["id"]["default"], f"nextval('{SCHEMA}.users_id_seq'::regclass)")
    same((columns["age"]["default"], columns["balance"]["default"], columns["made"]["default"]), ("18", "0", "now()"))
    same((columns["name"]["comment"], columns["name"]["nullable"], columns["email"]["nullable"]), ("the name", False, True))
    same((columns["made"]["type"].timezone, str(columns["words"]["type"].item_type)), (True, "TEXT"))
    number = sa.inspect(main).get_columns("posts", schema=SCHEMA)[0]
    same((number["identity"]["start"], number["identity"]["always"]), (100, False))


def reflection_of_constraints():
    look = sa.inspect(main)
    same(look.get_pk_constraint("post_tags", schema=SCHEMA)["constrained_columns"], ["post", "tag"])
    keys = look.get_foreign_keys("post_tags", schema=SCHEMA)
    same([(k["constrained_columns"], k["referred_table"], k["referred_columns"], k["options"]) for k in keys],
         [(["post"], "posts", ["id"], {"ondelete": "CASCADE"})])
    unique = look.get_unique_constraints("users", schema=SCHEMA)
    same([(u["name"], u["column_names"]) for u in unique], [("users_name_email", ["name", "email"])])
    checks = look.get_check_constraints("users", schema=SCHEMA)
    same([(c["name"], c["sqltext"]) for c in checks], [("users_age", "age >= 0")])
    indexes = {i["name"]: i for i in look.get_indexes("users", schema=SCHEMA)}
    same(sorted(indexes), ["users_lower", "users_name_email", "users_rich"])
    same(indexes["users_lower"]["expressions"], ["lower(name::text)"])
    same(indexes["users_rich"]["dialect_options"]["postgresql_where"], "(balance > (100)::numeric)")
    same([i["column_names"] for i in look.get_indexes("posts", schema=SCHEMA)], [["author_id"]])


def reflection_as_a_whole():
    found = sa.MetaData()
    found.reflect(engine(1), schema=SCHEMA, views=True)
    same(len(found.tables), 4)
    users = found.tables[f"{SCHEMA}.users"]
    with engine(1).begin() as c:
        c.execute(users.insert().values(name="reflected", mood="ok", key=uuid.uuid4(), data={}, words=[]))
    copied = sa.MetaData(schema=SCHEMA + "_copy")
    for table in found.sorted_tables:
        if table.name != "names":
            table.to_metadata(copied, schema=copied.schema, referred_schema_fn=lambda *_: copied.schema)
    with main.begin() as c:
        c.execute(sa.text(f"drop schema if exists {copied.schema} cascade"))
        c.execute(sa.text(f"create schema {copied.schema}"))
    for table in copied.tables.values():  # made with sequences of their own
        if "id" in table.c and table.name == "users":
            table.c.id.server_default = None
    copied.create_all(main)
    with main.begin() as c:
        c.execute(sa.text(f"drop view {SCHEMA}.names"))
    Base.metadata.drop_all(main)
    with main.begin() as c:
        c.execute(sa.text(f"drop schema {copied.schema} cascade"))
        c.execute(sa.text(f"drop schema {SCHEMA} cascade"))


checks = Checks(f"SQLAlchemy with {DRIVER}", sa.__version__)
checks.all([
    tables, core, mapper, failures, reflection_of_tables, reflection_of_columns, reflection_of_constraints,
    reflection_as_a_whole,
])
