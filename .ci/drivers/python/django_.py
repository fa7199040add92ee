"""Django: its own migrations (admin, auth, sessions), a migration of ours, the ORM, introspection."""

import datetime
import decimal
import io
import sys

import django
from checks import Checks, same
from django.conf import settings

PORTS = sys.argv[1:]


def database(port):
    return {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "HOST": "127.0.0.1",
            "PORT": port, "OPTIONS": {"options": "-c search_path=django_"}}


apps = ["admin", "auth", "contenttypes", "messages", "sessions", "postgres"]
settings.configure(
    DATABASES={"default": database(PORTS[0]), "other": database(PORTS[1])},
    INSTALLED_APPS=[*[f"django.contrib.{app}" for app in apps], "shop"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
    SECRET_KEY="x",
    MIDDLEWARE=[],
    TEMPLATES=[],
    SILENCED_SYSTEM_CHECKS=["admin", "admin.E403", "admin.E408", "admin.E409", "admin.E410"],
)
django.setup()

from django.contrib.auth.models import Group, User  # noqa: E402
from django.contrib.postgres.aggregates import ArrayAgg, StringAgg  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, connection, connections, models, transaction  # noqa: E402
from django.db.models import Avg, Count, Exists, F, OuterRef, Q, Subquery, Sum, Value, Window  # noqa: E402
from django.db.models.functions import Coalesce, Concat, Lower, Rank, TruncMonth  # noqa: E402
from shop.models import Author, Book  # noqa: E402


def migrations():
    with connection.cursor() as cur:
        cur.execute("drop schema if exists django_ cascade; create schema django_")
    call_command("migrate", verbosity=0)
    call_command("migrate", run_syncdb=True, verbosity=0)
    names = connection.introspection.table_names()
    assert {"django_migrations", "django_admin_log", "auth_user", "shop_book", "shop_book_readers"} <= set(names), names


def changes_of_the_schema():
    field = models.IntegerField(default=7)
    field.set_attributes_from_name("rank")
    with connection.schema_editor() as editor:
        editor.add_field(Author, field)
        wider = models.BigIntegerField(null=True, db_index=True)
        wider.set_attributes_from_name("rank")
        editor.alter_field(Author, field, wider)
        editor.remove_field(Author, wider)
        longer = models.CharField(max_length=60, unique=True, db_comment="the name")
        longer.set_attributes_from_name("name")
        longer.model = Author
        editor.alter_field(Author, Author._meta.get_field("name"), longer)


def users_and_groups():
    user = User.objects.create_superuser("root", "root@x", "secret")
    assert User.objects.using("other").get(username="root").check_password("secret")
    user.groups.add(Group.objects.create(name="writers"))
    same(User.objects.filter(groups__name="writers").count(), 1)
    assert user.has_perm("auth.add_user")
    same(User.objects.get_or_create(username="root")[1], False)


def rows():
    for n in range(5):
        Author.objects.create(name=f"Author {n}", born=datetime.date(1960 + n, 1, 31))
    books = [Book(title=f"Book {n}", author_id=1 + n % 5, price=decimal.Decimal(n) / 4, sold=n, data={"n": n, "l": [n]},
                  words=["a", str(n)], length=datetime.timedelta(days=1, seconds=n), blob=b"\x00" + bytes([n % 256]))
             for n in range(200)]
    made = Book.objects.bulk_create(books)
    same((len(made), made[0].pk), (200, 1))
    made[0].sold = 1000
    Book.objects.bulk_update(made[:10], ["sold"])
    book = Book.objects.using("other").select_related("author").get(pk=4)
    same((book.author.name, book.price, book.words, book.length, bytes(book.blob), book.data), (
        "Author 3", decimal.Decimal("0.75"), ["a", "3"], datetime.timedelta(days=1, seconds=3), b"\x00\x03",
        {"n": 3, "l": [3]}))
    Author.objects.bulk_create([Author(name="Author 1", born=None)], update_conflicts=True, unique_fields=["name"],
                               update_fields=["born"])
    same(Author.objects.get(name="Author 1").born, None)


def queries():
    same(Book.objects.filter(data__n__gt=197, title__istartswith="book", words__contains=["a"]).count(), 2)
    same(Book.objects.filter(words__overlap=["7", "8"]).count(), 2)
    same(Book.objects.filter(title__iregex=r"book 1\d$").count(), 10)
    best = Author.objects.annotate(n=Count("books"), sum=Sum("books__sold"), avg=Avg("books__price")).order_by("-sum")
    same((best[0].name, best[0].n, best[0].sum), ("Author 0", 40, 4900))
    newest = Book.objects.filter(author=OuterRef("pk")).order_by("-pk")
    same(Author.objects.annotate(last=Subquery(newest.values("title")[:1])).get(pk=2).last, "Book 196")
    same(Author.objects.filter(Exists(newest.filter(sold=7))).count(), 1)
    ranked = Book.objects.annotate(r=Window(Rank(), partition_by="author", order_by="-sold")).filter(r=1)
    same(ranked.count(), 5)
    text = Author.objects.annotate(x=Concat(Lower("name"), Value("!"))).order_by("pk").values_list("x", flat=True)
    same(text[0], "author 0!")
    same(Book.objects.annotate(m=TruncMonth("made")).values("m").annotate(n=Count("*")).get()["n"], 200)
    same(Author.objects.aggregate(a=ArrayAgg("name", ordering="name"))["a"][0], "Author 0")
    assert Author.objects.aggregate(a=StringAgg("name", Value(",")))["a"]
    same(Book.objects.filter(pk__lt=5).update(sold=F("sold") + 1), 4)
    same(len(list(Book.objects.iterator(chunk_size=50))), 200)
    same(len(list(Book.objects.filter(pk__lt=4).union(Book.objects.filter(pk__gt=198)))), 5)
    same([len(a.books.all()) for a in Author.objects.prefetch_related("books")], [40] * 5)
    same(Book.objects.aggregate(x=Coalesce(Sum("sold", filter=Q(sold__lt=0)), 0))["x"], 0)
    same(Book.objects.order_by("author", "-price").distinct("author").count(), 5)
    assert Book.objects.filter(pk=1).explain()


def transactions():
    try:
        with transaction.atomic():
            Author.objects.create(name="gone")
            try:
                with transaction.atomic():
                    Author.objects.create(name="gone")
            except IntegrityError:
                pass
            same(Author.objects.filter(name="gone").count(), 1)
            raise KeyError
    except KeyError:
        pass
    same(Author.objects.filter(name="gone").exists(), False)
    with transaction.atomic():
        same(Book.objects.select_for_update(of=("self",)).select_related("author").get(pk=1).pk, 1)
        same(len(Book.objects.select_for_update(skip_locked=True)[:3]), 3)
    try:
        with transaction.atomic():  # the key is checked at the end
            Book.objects.create(title="x", author_id=999, price=1)
        raise AssertionError("no author")
    except IntegrityError:
        pass
    same(Author.objects.get(pk=1).delete()[0] > 40, True)


def introspection():
    out = io.StringIO()
    call_command("inspectdb", "shop_author", "shop_book", stdout=out)
    text = out.getvalue()
    for part in ["models.ForeignKey", "max_digits=8, decimal_places=2", "db_comment='the name'"]:
        assert part in text, (part, text)
    with connection.cursor() as cur:
        found = connection.introspection.get_constraints(cur, "shop_book")
        same(found["price_ok"]["check"], True)
        same((found["by_sold"]["index"], found["by_sold"]["orders"]), (True, ["DESC"]))
        same(len([1 for c in found.values() if c["foreign_key"]]), 1)
    call_command("sqlsequencereset", "auth", stdout=io.StringIO())
    call_command("flush", interactive=False, verbosity=0)
    same(User.objects.count(), 0)
    call_command("migrate", "admin", "zero", verbosity=0)
    with connection.cursor() as cur:
        cur.execute("drop schema django_ cascade")
    connections.close_all()


checks = Checks("Django", django.get_version())
checks.all([
    migrations, changes_of_the_schema, users_and_groups, rows, queries, transactions, introspection,
])
