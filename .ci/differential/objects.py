"""Random statements that make, change and drop objects, from a picture of what there is (picture.py).

Most name what is there and fit its types; some name what is not, or what must not be dropped: how that is refused is compared too."""
import forms
from picture import ROLES, SCHEMAS, name

# How a column's type is written, what its type is called in the catalog, and the form (forms.py) whose constants it takes.
COLUMNS = {
    "int": ("int4", "int"), "bigint": ("int8", "big"), "smallint": ("int2", "int"), "numeric(10,2)": ("numeric", "num"), "numeric": ("numeric", "num"),
    "text": ("text", "text"), "varchar(24)": ("varchar", "text"), "varchar": ("varchar", "text"), "char(5)": ("bpchar", "char"), "boolean": ("bool", "bool"),
    "date": ("date", "date"), "time": ("time", "time"), "time(3)": ("time", "time"), "timestamp": ("timestamp", "stamp"), "timestamptz": ("timestamptz", "tz"), "interval": ("interval", "span"),
    "timestamp(0)": ("timestamp", "stamp"), "uuid": ("uuid", "uuid"), "bytea": ("bytea", "bytes"), "jsonb": ("jsonb", "json"), "json": ("json", "json"), "int[]": ("_int4", "ints"),
    "text[]": ("_text", "texts"), "double precision": ("float8", "float"), "real": ("float4", "float"), "interval(0)": ("interval", "span"), "timetz": ("timetz", "time"),
}
FORM = {catalog: form for catalog, form in COLUMNS.values()}
NAMES = ("t1", "t2", "t3", "t4", "t5", "t6", "Odd Name", "select", "ünï")
FIELDS = ("id", "n", "x", "y", "z", "v", "Mixed", "order")
ACTIONS = ("no action", "restrict", "cascade", "cascade", "set null", "set default")
NUMBERS = ("int2", "int4", "int8", "numeric", "float4", "float8")


class Objects:
    """`picture` is what there is now: `look` is asked each time it is wanted, with what it was before. A method gives a statement, or None if nothing fits."""

    def __init__(self, random, look):
        self.random, self.look, self.seen = random, look, None

    @property
    def picture(self):
        self.seen = self.look(self.seen)
        return self.seen

    def some(self, *choices):
        return self.random.choice(choices)

    def maybe(self, share, text, other=""):
        return text if self.random.random() < share else other

    def pick(self, things):
        return self.random.choice(things) if things else None

    def quoted(self, *names):
        return name(self.random.choice(names))

    def schema(self):
        return self.random.choice(self.picture.schemas) if self.picture.schemas and self.random.random() < 0.97 else self.some(*SCHEMAS)

    def fresh(self, names=NAMES):
        """A name for something new: qualified or by the search path."""
        return self.maybe(0.35, f"{self.schema()}.") + self.quoted(*names)

    def table(self):
        found = self.pick(self.picture.tables)
        return found.sql if found and self.random.random() < 0.97 else self.fresh()

    def role(self):
        return self.pick(self.picture.roles) if self.picture.roles and self.random.random() < 0.95 else self.some(*ROLES, "postgres", "current_user")

    def constant(self, column):
        """A literal for a column of the picture."""
        kind = column["type"]
        if column["of"] == "e":
            labels = next((one["labels"] or [] for one in self.picture.types if one["name"] == kind and one["schema"] == column["in"]), [])
            return "'" + (self.pick(labels) or "none").replace("'", "''") + "'"
        if column["of"] == "d":
            kind = column["base"]
        form = FORM.get(kind)
        if form in ("int", "big", "num", "float"):
            return forms.constant(self.random, form)
        return f"'{forms.constant(self.random, form)}'" if form else "null"

    # Columns and tables.

    def type(self):
        """How a column is declared, and its constants' form; of users' types None."""
        users = [one for one in self.picture.types]
        if users and self.random.random() < 0.15:
            one = self.pick(users)
            return f"{one['schema']}.{name(one['name'])}", {"type": one["name"], "of": one["kind"], "in": one["schema"], "base": one["base"]}
        word = self.some("int", "int", "text", *COLUMNS)
        return word, {"type": COLUMNS[word][0], "of": "b", "in": "pg_catalog", "base": None}

    def condition(self, column):
        """A condition over a column that its constants meet often."""
        said, kind = name(column["name"]), column["base"] if column["of"] == "d" else column["type"]
        if kind in NUMBERS:
            return self.some(f"{said} > -50", f"{said} <> 3", f"{said} between -90 and 90", f"{said} >= 0", f"{said} in (1, 2, 3, 5, 7, 42)", f"{said} < 1000 or {said} is null", f"not {said} = 2", f"{said} + 1 > 0")
        if kind in ("text", "varchar"):
            return self.some(f"{said} <> 'a'", f"length({said}) < 6", f"{said} like '%a%'", f"lower({said}) = {said}", f"{said} is not null", f"{said} ~ '^[a-z]'", f"{said} = any (array['a', 'b', 'foo'])", f"coalesce({said}, '') <> 'bar'")
        if kind == "bool":
            return self.some(said, f"not {said}", f"{said} is true", f"{said} is not null")
        if column["of"] == "b" and kind not in ("json",) and self.random.random() < 0.6:
            return f"{said} {self.some('<>', '=', '>', '<=')} {self.constant(column)}"
        return self.some(f"{said} is not null", f"{said} is null")

    def default(self, column):
        kind = column["base"] if column["of"] == "d" else column["type"]
        sequence = self.pick(self.picture.sequences)
        if kind in ("int4", "int8") and self.random.random() < 0.4:
            return self.some("1 + 2", "(3 * 4)", "-7", f"nextval('{sequence.sql}')" if sequence else "5", "length('abc')", "'12'", "7.6", "abs(-3)")
        if kind in ("text", "varchar") and self.random.random() < 0.4:
            return self.some("lower('ABC')", "'a' || 'b'", "current_user", "upper('x')", "'it''s'", "'a'::text", "'b'::varchar", "12", "E'\\\\x'", "coalesce(null, 'q')", "substr('abcdef', 2, 3)")
        if kind == "timestamp" and self.random.random() < 0.3:
            return self.some("timestamp '2024-01-02 03:04:05'", "'2024-05-06'::date", "'epoch'")
        return self.some("null", *[self.constant(column)] * 5)

    def references(self):
        """The rest of a foreign key to some key that is there, its columns, or None."""
        keys = [(table, key) for table in self.picture.tables for key in table.constraints if key["type"] in "pu"]
        if not keys:
            return None
        table, key = self.pick(keys)
        where = "" if key["type"] == "p" and self.random.random() < 0.5 else f" ({', '.join(map(name, key['columns']))})"
        match = self.maybe(0.15, self.some(" match full", " match simple"))
        actions = "".join(self.maybe(0.5, f" on {event} {self.some(*ACTIONS)}") for event in ("delete", "update"))
        return f"references {table.sql}{where}{match}{actions}{self.deferrable()}", [column for column in table.columns if column["name"] in key["columns"]]

    def deferrable(self):
        return self.some("", "", "", "", " deferrable", " deferrable initially deferred", " not deferrable", " deferrable initially immediate")

    def column(self, names, earlier=()):
        """A column's definition, and what it is."""
        called = self.pick([one for one in FIELDS if one not in names] or ["w"])
        word, column = self.type()
        column["name"], parts, kind = called, [name(called), word], self.random.random()
        column |= {"required": False, "generated": "", "identity": "", "default": False}
        numbers = [one for one in earlier if one["type"] in ("int4", "int8", "int2") and not one["generated"]]
        if kind < 0.08:
            parts[1:] = [self.some("int", "bigint", "smallint"), f"generated {self.some('always', 'by default')} as identity{self.maybe(0.3, f' (start {self.some(5, 10)} increment {self.some(1, 2, -1)})')}"]
            column |= {"type": "int4", "of": "b"}
        elif kind < 0.13:
            parts[1:] = [self.some("serial", "bigserial", "smallserial")]
            column |= {"type": "int4", "of": "b"}
        elif kind < 0.2 and numbers:
            one = name(self.pick(numbers)["name"])
            parts[1:] = [self.some("int", "bigint", "numeric", "text"), ""]
            parts[2] = f"generated always as ({f'({one})::text' if parts[1] == 'text' else self.some(f'{one} + 1', f'{one} * 2', f'abs({one})', f'coalesce({one}, 0) - 1', f'case when {one} > 2 then 1 else 0 end')}) stored"
            column |= {"type": {"int": "int4", "bigint": "int8"}.get(parts[1], parts[1]), "of": "b", "generated": "s"}
        elif kind < 0.5:
            parts.append(f"default {self.default(column)}")
        if self.random.random() < 0.18:
            parts.append(self.some("not null", "not null", "null", "constraint nn not null"))
        if self.random.random() < 0.13:
            parts.append(f"{self.maybe(0.3, 'constraint chk ')}check ({self.condition(column)})")
        if self.random.random() < 0.1 and column["type"] != "json":
            parts.append(self.some("unique", "unique", "unique nulls not distinct", "unique deferrable" if self.random.random() < 0.2 else "unique"))
        reference = self.references() if self.random.random() < 0.15 else None
        if reference and len(reference[1]) == 1:
            parts[1] = {"int4": "int", "int8": "bigint", "int2": "smallint"}.get(reference[1][0]["type"], reference[1][0]["type"])
            parts[2:] = [self.maybe(0.2, "default null"), reference[0]]
        return " ".join(part for part in parts if part), column

    def constraint(self, columns):
        """A constraint of a table."""
        good = [one for one in columns if one["type"] not in ("json",)] or columns
        called = self.maybe(0.5, f"constraint {self.quoted('k1', 'k2', 'k3', 'Key')} ")
        some = ", ".join(name(one["name"]) for one in self.random.sample(good, min(len(good), self.some(1, 1, 2))))
        kind, reference = self.random.random(), self.references()
        if kind < 0.25:
            return f"{called}unique{self.maybe(0.15, ' nulls not distinct')} ({some})"
        if kind < 0.4:
            return f"{called}primary key ({some})"
        if kind < 0.7 or not reference:
            return f"{called}check ({self.condition(self.pick(columns))}{self.maybe(0.2, ' and ' + self.condition(self.pick(columns)))})"
        mine = []
        for one in reference[1]:
            fits = [column for column in columns if column["type"] == one["type"] and column not in mine]
            mine.append(self.pick(fits) or self.pick(columns))
        return f"{called}foreign key ({', '.join(name(one['name']) for one in mine)}) {reference[0]}"

    def create_table(self):
        temp = self.some("", "", "", "", "", "", "", "temp ", "temporary ", "")
        called = self.quoted(*NAMES) if temp.startswith("temp") else self.fresh()
        head = f"create {temp}table {self.maybe(0.1, 'if not exists ')}{called}"
        kind, from_ = self.random.random(), self.pick(self.picture.tables)
        if kind < 0.06 and from_:
            return f"{head} as {self.query()}{self.maybe(0.3, self.some(' with no data', ' with data'))}"
        columns, sql = [], []
        taken = []
        if kind < 0.14 and from_:
            taken = [one["name"] for one in from_.columns]
            parts = ("all", "defaults", "constraints", "indexes", "identity", "generated", "comments")
            sql.append(f"like {from_.sql}" + "".join(self.maybe(0.4, f" {self.some('including', 'including', 'excluding')} {part}") for part in parts))
        for number in range(self.random.randint(2, 6)):
            if number == 0 and self.random.random() < 0.6 and not taken:
                columns.append({"name": "id", "type": "int4", "of": "b", "generated": "", "base": None})
                sql.append(self.some("id int primary key", "id int primary key", "id int constraint pk primary key", "id int not null primary key", "id int generated by default as identity primary key"))
                continue
            if len(columns) + len(taken) >= len(FIELDS):
                break
            one, column = self.column([each["name"] for each in columns] + taken if taken or self.random.random() < 0.98 else [], columns)
            sql.append(one)
            columns.append(column)
        for _ in range(self.some(0, 0, 0, 1, 1, 2) if columns else 0):
            one = self.constraint(columns)
            if not ("primary key" in one and any("primary key" in each for each in sql)) or self.random.random() < 0.05:
                sql.append(one)
        end = self.maybe(0.4, self.some(" on commit drop", " on commit delete rows", " on commit preserve rows")) if temp.startswith("temp") else self.maybe(0.05, " with (fillfactor = 70)")
        return f"{head} ({', '.join(sql)}){end}"

    def alter_table(self):
        table = self.pick(self.picture.tables)
        if not table or not table.columns:
            return None
        actions = [self.action(table) for _ in range(self.some(1, 1, 1, 1, 1, 2, 3))]
        return f"alter table {self.maybe(0.08, 'if exists ')}{self.maybe(0.05, 'only ')}{table.sql} " + ", ".join(actions)

    def action(self, table):
        """What an ALTER TABLE may do together with others."""
        column = self.pick(table.columns)
        said, kind = name(column["name"]) if self.random.random() < 0.98 else "nosuch", self.random.random()
        key, end = self.pick(table.constraints), self.some("", "", "", " cascade", " cascade", " restrict")
        key = name(key["name"]) if key and self.random.random() < 0.95 else self.quoted("k1", "k9")
        if kind < 0.22:
            return f"add {self.some('', 'column ')}{self.maybe(0.1, 'if not exists ') }{self.column([one['name'] for one in table.columns], table.columns)[0]}".replace("add if not", "add column if not")
        if kind < 0.31:
            return f"drop {self.some('column ', '')}{self.maybe(0.15, 'if exists ')}{said}{end}"
        if kind < 0.42:
            word, other = self.type()
            using = self.some("", f" using {said}::text::{word}", f" using null", f" using ({said})::{word}", f" using {self.constant(other)}")
            return f"alter {self.some('column ', '')}{said} {self.some('type', 'set data type')} {word}{using}"
        if kind < 0.56:
            return f"alter {said} {self.some('drop default', 'set not null', 'drop not null', 'drop not null', f'set default {self.default(column)}', f'set default {self.default(column)}')}"
        if kind < 0.63:
            return f"alter {said} " + self.some("add generated always as identity", "add generated by default as identity (start 50)", "drop identity", "drop identity if exists", "restart", "restart with 30", "set increment 5",
                                                "set statistics 100", "set storage main", "set (n_distinct = 5)")
        if kind < 0.84:
            one = self.constraint(table.columns)
            return f"add {one}" + (self.maybe(0.2, " not valid") if " check " in f" {one}" or "foreign key" in one else "")
        if kind < 0.92:
            return f"drop constraint {self.maybe(0.15, 'if exists ')}{key}{end}"
        index = self.pick([one for one in self.picture.indexes if one.table == table.oid])
        return self.some(f"validate constraint {key}", f"alter constraint {key} {self.some('deferrable', 'not deferrable', 'deferrable initially deferred', 'initially immediate')}", f"owner to {self.role()}",
                         "set (fillfactor = 80)", "reset (fillfactor)", "set logged", "replica identity full", "cluster on " + (index.bare if index else "nosuch"), "set without cluster",
                         f"add {self.maybe(0.5, 'constraint kk ')}{self.some('primary key', 'unique')} using index {index.bare}" if index else "set without oids")

    def rename(self):
        """RENAME and SET SCHEMA, of anything."""
        schema, kind = self.schema(), self.random.random()
        if kind < 0.35:
            one = self.pick(self.picture.tables + self.picture.views)
            if not one or not one.columns:
                return None
            word = "table" if one.kind == "r" or self.random.random() < 0.2 else "view"
            key = self.pick(one.constraints)
            return f"alter {word} {one.sql} " + self.some(f"rename to {self.quoted(*NAMES)}", f"rename {self.some('', 'column ')}{name(self.pick(one.columns)['name'])} to {self.quoted(*FIELDS)}",
                                                          f"rename {self.some('', 'column ')}{name(self.pick(one.columns)['name'])} to {self.quoted(*FIELDS)}", f"set schema {schema}",
                                                          f"rename constraint {name(key['name'])} to {self.quoted('k1', 'k2', 'k4')}" if key and word == "table" else f"rename to {self.quoted(*NAMES)}")
        if kind < 0.55:
            one = self.pick(self.picture.indexes)
            return one and f"alter {self.some('index', 'index', 'table' if self.random.random() < 0.2 else 'index')} {self.maybe(0.1, 'if exists ')}{one.sql} rename to {self.quoted('i1', 'i2', 'i3', 'Idx')}"
        if kind < 0.7:
            one = self.pick(self.picture.sequences)
            return one and f"alter sequence {one.sql} " + self.some(f"rename to {self.quoted('q1', 'q2', 'q3')}", f"set schema {schema}", f"owner to {self.role()}")
        if kind < 0.9:
            one = self.pick(self.picture.types)
            if not one:
                return None
            said, word = f"{one['schema']}.{name(one['name'])}", "type" if one["kind"] == "e" else "domain"
            quote = "'"
            more = f"rename value '{(self.pick(one['labels'] or ['x'])).replace(quote, quote * 2)}' to '{self.some('new', 'sad', 'ok')}'" if one["kind"] == "e" else \
                f"rename constraint {name(self.pick(one['constraints']) if one['constraints'] else 'nosuch')} to dc"
            return f"alter {word} {said} " + self.some(f"rename to {self.quoted('e1', 'e2', 'd1', 'd2')}", f"set schema {schema}", f"owner to {self.role()}", more)
        return f"alter schema {schema} " + self.some(f"rename to {self.some(*SCHEMAS)}", f"owner to {self.role()}")

    # Everything else.

    def create_index(self):
        table = self.pick(self.picture.tables)
        if not table or not table.columns:
            return None
        parts = []
        for column in self.random.sample(table.columns, min(len(table.columns), self.some(1, 1, 2, 3))):
            said, kind = name(column["name"]), column["type"]
            if self.random.random() < 0.25:
                said = {"text": self.some(f"lower({said})", f"({said} || 'x')", f"length({said})"), "int4": self.some(f"({said} + 1)", f"abs({said})", f"(-{said})"), "date": f"date_part('year', {said})",
                        "bool": f"(not {said})"}.get(kind, f"({said} is null)")
            parts.append(said + self.some("", "", "", "", " desc", " asc", " nulls first", " desc nulls last"))
        called = self.maybe(0.7, f" {self.maybe(0.1, 'if not exists ')}{self.quoted('i1', 'i2', 'i3', 'i4', 'Idx')}")
        return f"create {self.maybe(0.25, 'unique ')}index{called} on {self.maybe(0.1, 'only ')}{table.sql} {self.maybe(0.2, 'using btree ')}({', '.join(parts)})" + \
            self.maybe(0.1, f" include ({name(self.pick(table.columns)['name'])})") + self.maybe(0.05, " nulls not distinct") + self.maybe(0.25, f" where {self.condition(self.pick(table.columns))}")

    def query(self):
        """The query of a view."""
        one, other = self.pick(self.picture.tables + self.picture.views), self.pick(self.picture.tables)
        if not one or not one.columns:
            return self.some("select 1 as n, 'a'::text as x", "values (1, 'a'), (2, 'b')")
        columns = self.random.sample(one.columns, min(len(one.columns), self.random.randint(1, 4)))
        list_ = ", ".join(name(column["name"]) + self.maybe(0.15, f" as {self.quoted(*FIELDS)}") for column in columns)
        kind, where = self.random.random(), self.maybe(0.4, f" where {self.condition(self.pick(one.columns))}")
        if kind < 0.2:
            return f"select * from {one.sql}{where}"
        if kind < 0.6:
            return f"select {list_} from {one.sql}{self.maybe(0.2, ' as q')}{where}"
        if kind < 0.7:
            said = name(columns[0]["name"])
            return f"select {said}, count(*) as n from {one.sql}{where} group by {said}{self.maybe(0.3, ' having count(*) > 1')}" if columns[0]["type"] != "json" else "select 1 as one"
        if kind < 0.8:
            return f"select {name(columns[0]['name'])} from {one.sql} union all select {name(columns[0]['name'])} from {one.sql}{where}"
        if other and other.columns and kind < 0.92:
            how = self.some("cross join {}", "left join {} on true", "natural join {}", "join {} on false").format(f"{other.sql} r")
            return f"select l.{name(columns[0]['name'])} as x, r.{name(self.pick(other.columns)['name'])} as y from {one.sql} l {how}"
        return f"with w as (select {list_} from {one.sql}) select * from w"

    def create_view(self):
        temp, view = self.maybe(0.06, "temp "), self.pick(self.picture.views)
        called = self.quoted("v1", "v2", "v3") if temp else self.fresh(("v1", "v2", "v3", "View"))
        again = self.maybe(0.35, "or replace ")
        if again and view and not temp and self.random.random() < 0.6:
            called = view.sql
        columns = self.maybe(0.1, f" ({', '.join(self.random.sample([name(one) for one in FIELDS], self.some(1, 2)))})")
        return f"create {again}{temp}view {called}{columns} as {self.query()}{self.maybe(0.12, self.some(' with check option', ' with local check option', ' with cascaded check option'))}"

    def sequence_options(self):
        number = self.some(1, 2, 5, -1, -3, 10)
        own = self.pick(self.picture.tables)
        return " ".join(self.random.sample([f"increment {number}", f"increment by {self.some(1, 2, 3)}", f"minvalue {self.some(-10, 1, 0)}", f"maxvalue {self.some(4, 20, 100)}", f"start {self.some(1, 2, 3)}", "cycle", "no cycle",
                                            "no minvalue", "as int", "as smallint", "cache 1", f"owned by {own.sql}.{name(own.columns[0]['name'])}" if own and own.columns else "owned by none"], self.some(0, 0, 1, 1, 2, 3)))

    def create_sequence(self):
        temp = self.maybe(0.06, "temp ")
        return f"create {temp}sequence {self.maybe(0.1, 'if not exists ')}{self.quoted('q1', 'q2') if temp else self.fresh(('q1', 'q2', 'q3'))} {self.sequence_options()}".strip()

    def alter_sequence(self):
        one = self.pick(self.picture.sequences)
        return one and f"alter sequence {self.maybe(0.05, 'if exists ')}{one.sql} {self.some('restart', 'restart with 3', f'restart {self.some(1, 7)}', '') or self.sequence_options() or 'no cycle'}"

    def create_type(self):
        if self.random.random() < 0.5:
            labels = self.random.sample(["sad", "ok", "happy", "Very Odd", "it''s", "x"], self.random.randint(0, 4))
            return f"create type {self.fresh(('e1', 'e2', 'Enum'))} as enum ({', '.join(f'{chr(39)}{one}{chr(39)}' for one in labels)})"
        word, base = self.type()
        base |= {"name": "value"}
        parts = [self.maybe(0.3, f"default {self.constant(base)}"), self.maybe(0.15, "not null"), self.maybe(0.5, f"{self.maybe(0.3, 'constraint dk ')}check ({self.condition(base)})"), self.maybe(0.1, f"check ({self.condition(base)})")]
        return " ".join(part for part in [f"create domain {self.fresh(('d1', 'd2'))}{self.some('', ' as')} {word}", *parts] if part)

    def alter_type(self):
        one = self.pick([one for one in self.picture.types if one["kind"] == "e"])
        place = self.some("", f" {self.some('before', 'after')} '{self.pick([label for label in one['labels'] or () if label.isalpha()] or ['x'])}'") if one else ""
        return one and f"alter type {one['schema']}.{name(one['name'])} add value {self.maybe(0.3, 'if not exists ')}'{self.some('new', 'newer', 'sad', 'm')}'{place}"

    def schemas(self):
        return self.some(f"create schema {self.some(*SCHEMAS)}", f"create schema if not exists {self.some(*SCHEMAS)}", f"create schema if not exists {self.some('c', 'd')} authorization {self.role()}",
                         f"create schema {self.some('c', 'd')} create table t9 (id int primary key) create view v9 as select * from t9", f"drop schema {self.maybe(0.3, 'if exists ')}{self.schema()}{self.some('', ' restrict', ' cascade')}")

    def roles(self):
        return self.some(f"create role {self.some(*ROLES)}{self.some('', '', ' login', ' noinherit', ' createdb', ' nologin connection limit 3', ' createrole')}", f"create role {self.some(*ROLES)}",
                         f"drop role {self.maybe(0.3, 'if exists ')}{self.role()}", f"grant {self.some(*ROLES)} to {self.role()}{self.maybe(0.2, ' with admin option')}", f"revoke {self.some(*ROLES)} from {self.role()}",
                         f"alter role {self.role()} {self.some('noinherit', 'inherit', 'login', 'createdb', 'connection limit 5')}".replace("alter role postgres", "alter role r3").replace("alter role current_user", "alter role r3"),
                         f"drop owned by {self.some(*ROLES)}{self.some('', ' cascade')}", f"reassign owned by {self.some(*ROLES)} to {self.some('postgres', *ROLES)}")

    def grant(self):
        one = self.pick(self.picture.tables + self.picture.views)
        sequence, to = self.pick(self.picture.sequences), self.some(*ROLES, "public", *self.picture.roles, *self.picture.roles)
        rights = self.some("all", "select", "select, insert", "update", "insert, update, delete", "references", "truncate", "all privileges", "trigger")
        things = [(rights, f"all tables in schema {self.schema()}"), (self.some("usage", "create", "all"), f"schema {self.schema()}")]
        if one:
            things += [(rights, self.maybe(0.5, "table ") + one.sql)] * 4
        if sequence:
            things.append((self.some("usage", "select", "update", "all"), f"sequence {sequence.sql}"))
        if self.picture.types:
            kind = self.pick(self.picture.types)
            things.append((self.some("usage", "all"), f"{'type' if kind['kind'] == 'e' else 'domain'} {kind['schema']}.{name(kind['name'])}"))
        what, on = self.pick(things)
        if self.random.random() < 0.65:
            return f"grant {what} on {on} to {to}{self.maybe(0.15, ' with grant option')}"
        return f"revoke {self.maybe(0.2, 'grant option for ')}{what} on {on} from {to}{self.some('', '', ' cascade')}"

    def comment(self):
        text = self.some("'a comment'", "'it''s'", "null", "''", "'é'")
        one = self.pick(self.picture.relations)
        if not one or self.random.random() < 0.2:
            kind = self.pick(self.picture.types)
            return f"comment on {self.some('type', 'domain' if kind['kind'] == 'd' else 'type')} {kind['schema']}.{name(kind['name'])} is {text}" if kind else f"comment on schema {self.schema()} is {text}"
        word = {"r": "table", "v": "view", "S": "sequence", "i": "index"}[one.kind]
        if one.kind in "rv" and one.columns and self.random.random() < 0.5:
            return f"comment on column {one.sql}.{name(self.pick(one.columns)['name'])} is {text}"
        if one.kind == "r" and one.constraints and self.random.random() < 0.5:
            return f"comment on constraint {name(self.pick(one.constraints)['name'])} on {one.sql} is {text}"
        return f"comment on {word if self.random.random() < 0.95 else 'table'} {one.sql} is {text}"

    def drop(self):
        kind, end = self.random.random(), self.some("", "", "", " cascade", " cascade", " restrict")
        maybe = self.maybe(0.2, "if exists ")
        things = {"table": self.picture.tables, "view": self.picture.views, "sequence": self.picture.sequences, "index": self.picture.indexes}
        if kind < 0.15:
            one = self.pick(self.picture.types)
            return f"drop {self.some('type', 'domain' if one['kind'] == 'd' else 'type')} {maybe}{one['schema']}.{name(one['name'])}{end}" if one else None
        word = self.some("table", "table", "view", "sequence", "index")
        some = self.random.sample(things[word], min(len(things[word]), self.some(1, 1, 1, 2)))
        listed = ", ".join(one.sql for one in some) if some and self.random.random() < 0.93 else self.fresh()
        return f"drop {word if self.random.random() < 0.97 else 'table'} {maybe}{listed}{end}"

    def truncate(self):
        some = self.random.sample(self.picture.tables, min(len(self.picture.tables), self.some(1, 1, 2)))
        return f"truncate {self.maybe(0.5, 'table ')}{', '.join(one.sql for one in some)}{self.some('', ' restart identity', ' continue identity')}{self.some('', ' cascade', ' restrict')}" if some else None

    def statement(self):
        """Any of these."""
        while True:
            choice = self.random.choices((self.create_table, self.alter_table, self.rename, self.create_index, self.create_view, self.create_sequence, self.alter_sequence, self.create_type, self.alter_type, self.schemas,
                                          self.roles, self.grant, self.comment, self.drop, self.truncate), (14, 22, 9, 8, 8, 3, 3, 5, 2, 2, 3, 5, 4, 7, 3))[0]
            made = choice()
            if made:
                return made
