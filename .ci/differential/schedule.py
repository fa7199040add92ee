"""Random sessions beside each other: their statements one at a time, in an order that the seed gives.

A schedule is fair to a server whose transactions are serializable by locks: sessions with open blocks keep to tables of their own (`claims`), and
objects are made and changed while no other session has a block open. So neither server has to wait or to refuse anything."""
import dataclasses

import scripts
from objects import Objects
from picture import ROLES, name

# Types whose equal values may look different: rows in their order are not in one order.
UNSTEADY = ("numeric", "interval", "jsonb", "json", "float4", "float8")
UNORDERED = ("json",)
SETTINGS = {
    "search_path": ("a", "b, a", "b", "c, a", "''", "a, pg_catalog", '"$user", a', "d"), "timezone": ("'UTC'", "'America/New_York'", "'Asia/Kolkata'", "'EST5EDT'", "3"),
    "datestyle": ("iso", "german", "'sql, dmy'", "'postgres, mdy'", "ymd"), "intervalstyle": ("postgres", "postgres_verbose", "iso_8601", "sql_standard"),
    "bytea_output": ("hex", "escape"), "extra_float_digits": ("0", "1", "-3", "3"), "default_transaction_read_only": ("on", "off"), "default_transaction_isolation": ("'serializable'", "'read committed'"),
    "nosuch.setting": ("'x'",), "default_transaction_deferrable": ("off",), "standard_conforming_strings": ("on",), "statement_timeout": ("'10s'", "30000"), "application_name": ("'x'", "default"),
    "work_mem": ("'4MB'", "1"), "extra_float": ("1",), "check_function_bodies": ("on",), "client_min_messages": ("notice", "warning", "error"),
}


@dataclasses.dataclass
class Step:
    """One statement of a session, sent in a mode of client.py. `changes` says that it may change the catalog, `ordered` that its rows come in one order."""
    session: int
    sql: str
    mode: str = "simple"
    changes: bool = False
    ordered: bool = False


class Session:
    def __init__(self):
        self.status, self.claims, self.before, self.changed, self.touched = "I", None, set(), False, False


class Schedule:
    """`next` gives a step, `told` takes what PostgreSQL answered to it; the picture that statements are made from is PostgreSQL's."""

    def __init__(self, random, look):
        """`look` gives the picture as a session sees it."""
        self.random, self.objects, self.look, self.eyes = random, Objects(random, self.picture), look, None
        self.sessions = [Session() for _ in range(random.choice((1, 1, 1, 2, 2, 3)))]
        self.left, self.setup, self.turn = random.randint(22, 48), ["create schema a", "create schema b"], 0
        self.stale = True
        self.first = random.randint(3, 8)
        if random.random() < 0.12:
            self.sessions, self.left, self.first = [Session()], 0, 0
            self.setup += scripts.Script(random).steps
        self.ends = None

    def picture(self, seen):
        """The picture now, as the session sees it that changes it, or the first that can; `seen` if it is still so, or nobody can look."""
        able = [at for at, one in enumerate(self.sessions) if one.status != "E"]
        eyes = next((at for at in able if self.sessions[at].changed), able[0] if able else None)
        if not able or eyes == self.eyes and not self.stale:
            return seen
        self.eyes, self.stale = eyes, False
        return self.look(eyes)

    def some(self, *choices):
        return self.random.choice(choices)

    def others(self, at):
        return [one for number, one in enumerate(self.sessions) if number != at and one.status != "I"]

    def free(self, at, things):
        """Those of the things (relations of the picture) that a session may read and change now."""
        mine, groups, out = self.sessions[at], self.objects.picture.groups, []
        taken = set().union(*(one.claims for one in self.others(at))) if self.others(at) else set()
        for thing in things:
            members = [oid for oid, group in groups.items() if group == groups[thing.oid]]
            if any(oid in taken for oid in members) or mine.claims is not None and any(oid in mine.before and oid not in mine.claims for oid in members):
                continue
            out.append(thing)
        return out

    def next(self):
        if self.setup:
            sql = self.setup.pop(0)
            return Step(0, sql, changes=not sql.startswith(("insert", "select")))
        if self.first:
            self.first -= 1
            return Step(0, self.objects.create_table() if self.random.random() < 0.8 or not self.objects.picture.tables else self.insert(0), changes=True)
        if self.left:
            self.left -= 1
            return self.move()
        if self.ends is None:
            first = sorted(range(len(self.sessions)), key=lambda at: not self.sessions[at].changed)
            self.ends = [Step(at, sql) for at in first for sql in ("rollback", "reset role", "reset all")]
            self.ends += [Step(at, "select count(*) from pg_class where relpersistence = 't' and pg_table_is_visible(oid) and relkind in ('r', 'v', 'S')") for at in range(len(self.sessions))]
        return self.ends.pop(0) if self.ends else None

    def told(self, step, answer, status):
        session = self.sessions[step.session]
        before, session.status = session.status, status
        if status == "I" or (before != "I" and " chain" in step.sql):
            session.changed = False
        if before == "I" and status != "I":
            self.claim(step.session)
        if status == "I":
            session.claims = None
        if step.changes:
            self.stale, session.changed, session.touched = self.stale or not answer.state, status != "I", True
        if before != status or step.sql.startswith("rollback"):
            self.stale = self.stale or session.touched
        session.touched = session.touched and status != "I"

    def claim(self, at):
        """What a block that has begun keeps for itself: some of what nobody else has."""
        session, groups = self.sessions[at], self.objects.picture.groups
        free = sorted({groups[one.oid] for one in self.free(at, self.objects.picture.relations)})
        mine = set(free if len(self.sessions) == 1 else self.random.sample(free, (len(free) + 1) // 2))
        session.claims, session.before = {oid for oid, group in groups.items() if group in mine}, set(groups)

    def move(self):
        busy = [at for at, one in enumerate(self.sessions) if one.changed and one.status != "I"]
        if busy:
            self.turn = busy[0]
        elif self.random.random() < 0.6:
            self.turn = self.random.randrange(len(self.sessions))
        at, kind = self.turn, self.random.random()
        session = self.sessions[at]
        if session.status == "E" and kind < 0.5:
            return Step(at, self.some("rollback", "rollback", "commit", "rollback to s1", "rollback to s1", "rollback to s2"))
        if kind < 0.17:
            return Step(at, self.block(session))
        if kind < 0.29:
            return self.around(at)
        if kind < 0.62 and not self.others(at):
            return Step(at, self.objects.statement(), changes=True)
        return self.rows(at)

    # Blocks.

    def block(self, session):
        random = self.random
        if session.status == "I":
            level = self.some("", "", "", " isolation level read committed", " isolation level repeatable read", " isolation level serializable")
            more = self.some("", "", "", "", " read only", " read write", " not deferrable", " read write, deferrable")
            return self.some(f"begin{level}{',' if level and more else ''}{more}", f"begin{level}", "begin", "begin", f"start transaction{level}{more}" if not level else f"start transaction{level}", self.some("commit", "rollback", "savepoint s1"))
        points, end = self.some("s1", "s1", "s2", "S3"), self.some("", "", "", "", " and chain", " and no chain")
        if random.random() < 0.35:
            return self.some("commit", "commit", "rollback", "end", "abort") + end
        return self.some(f"savepoint {points}", f"savepoint {points}", f"release {self.some('', 'savepoint ')}{points}", f"rollback to {self.some('', 'savepoint ')}{points}", f"rollback to {points}", "begin",
                         f"set constraints {self.some('all', 'all', 'k1', 'k2')} {self.some('deferred', 'immediate')}", "set transaction read only", f"savepoint {points}")

    def around(self, at):
        """What belongs to the session: settings, roles, prepared statements, cursors, notifications."""
        random, kind = self.random, self.random.random()
        if kind < 0.27:
            setting = self.some(*SETTINGS)
            value = self.some(*SETTINGS[setting])
            return Step(at, self.some(f"set {setting} = {value}", f"set {setting} to {value}", f"set local {setting} = {value}", f"set session {setting} = {value}", f"reset {setting}", f"show {setting}", "reset all",
                                      f"select current_setting('{setting}', true)", f"select set_config('{setting}', 'x', {self.some('true', 'false')})", "show search_path", "select current_schemas(false)"))
        if kind < 0.35:
            role = self.some(*ROLES, *self.objects.picture.roles, *self.objects.picture.roles)
            return Step(at, self.some(f"set role {role}", f"set local role {role}", "reset role", "set role none", "reset role", "select current_user, session_user", f"set session authorization {role}", "reset session authorization", "show role"))
        if kind < 0.55:
            statement = self.rows(at)
            if self.others(at):  # what was prepared earlier may be about what another block keeps to itself
                return Step(at, self.some("execute p2(1, 'a')", "execute p2('3', 4)", "select count(*) from pg_prepared_statements"))
            return Step(at, self.some(f"prepare p1 as {statement.sql}", f"prepare p2 (int, text) as select $1 + 1 as n, upper($2) as x", "prepare p1 (int) as select g from generate_series(1, $1) g", f"prepare p1 as {statement.sql}",
                                      "execute p1", "execute p1", "execute p1(2)", "execute p2(1, 'a')", "execute p2('3', 4)", "deallocate p1", "deallocate all", "select name, parameter_types::text from pg_prepared_statements order by name"))
        if kind < 0.88:
            return self.cursor(at)
        if self.others(at):
            return Step(at, "select 1 as one")
        channel = self.some("ch1", "ch2")
        return Step(at, self.some(f"listen {channel}", f"listen {channel}", f"unlisten {channel}", "unlisten *", f"notify {channel}", f"notify {channel}, 'p{random.randint(1, 3)}'", f"notify {channel}, 'p{random.randint(1, 3)}'",
                                  f"select pg_notify('{channel}', 'q')", "select pg_listening_channels() order by 1"))

    def cursor(self, at):
        called, table = self.some("u", "u", "w"), self.select(at)
        query = table.sql if table.ordered and self.random.random() < 0.6 else self.some("select g, g * 2 as h from generate_series(1, 7) g", "values (1, 'a'), (2, 'b'), (3, null)")
        count = self.some(0, 1, 2, 3, 10, -1, -2)
        where = self.some("", "next", "prior", "first", "last", f"absolute {count}", f"relative {count}", f"{count}", "all", "forward", f"forward {count}", "backward", f"backward {count}", "forward all", "backward all")
        if self.random.random() < 0.4:
            return Step(at, f"declare {called} {self.some('scroll', 'scroll', 'no scroll', 'insensitive scroll')} cursor {self.some('', '', 'with hold ')}for {query}", ordered=True)
        return Step(at, self.some(f"fetch {where} {self.some('from', 'in')} {called}", f"fetch {where} from {called}", f"fetch {where} from {called}", f"move {where} from {called}", f"close {called}", "close all",
                                  "select name, statement, is_holdable, is_scrollable from pg_cursors order by name"), ordered=True)

    # Rows.

    def rows(self, at):
        kind, picture = self.random.random(), self.objects.picture
        mode = "simple" if self.random.random() < 0.75 else self.some("extended", "binary", "prepared")
        if kind < 0.42:
            return Step(at, self.insert(at), mode)
        if kind < 0.55:
            return Step(at, self.update(at), mode)
        if kind < 0.62:
            return Step(at, self.delete(at), mode)
        if kind < 0.7 and picture.sequences and not self.sessions[at].changed:
            one = self.some(*picture.sequences).sql
            return Step(at, self.some(f"select nextval('{one}')", f"select nextval('{one}')", f"select currval('{one}')", "select lastval()", f"select setval('{one}', {self.some(1, 3, 7, 0)})", f"select setval('{one}', 4, false)",
                                      f"select last_value, is_called from {one}"), mode)
        one = self.select(at)
        one.mode = mode
        return one

    def target(self, at, writes=False):
        picture = self.objects.picture
        free = self.free(at, picture.tables + (picture.views if self.random.random() < 0.3 else []))
        if writes and self.sessions[at].changed:  # numbers that a block takes after it has changed the catalog are given again if it is rolled back
            free = [one for one in free if one.kind == "r" and not any(column["identity"] or column["default"] for column in one.columns)]
        return self.some(*free) if free else None

    def insert(self, at):
        one = self.target(at, True)
        if not one or not one.columns:
            return "select 1 as none"
        columns = one.writable() if self.random.random() < 0.95 else one.columns
        if self.random.random() < 0.4 and columns:
            columns = [column for column in columns if column["required"] or self.random.random() < 0.6] or columns
        listed = f" ({', '.join(name(column['name']) for column in columns)})" if len(columns) < len(one.columns) or self.random.random() < 0.5 else ""

        def value(column):
            if column["identity"] == "a" and self.random.random() < 0.9 or self.random.random() < 0.12:
                return "default"
            return "null" if self.random.random() < (0.02 if column["required"] else 0.12) else self.objects.constant(column)

        row = lambda: f"({', '.join(value(column) for column in columns)})"  # noqa: E731
        kind = self.random.random()
        if kind < 0.05 or not columns:
            source = " default values"
            listed = ""
        elif kind < 0.12:
            source = f" select {', '.join(name(column['name']) for column in columns)} from {one.sql} limit 0"
        else:
            source = f" values {', '.join(row() for _ in range(self.some(1, 1, 1, 2, 4)))}"
        keys = [key for key in one.constraints if key["type"] in "pu"]
        conflict = ""
        if keys and self.random.random() < 0.25:
            key = self.some(*keys)
            on = self.some(f" ({', '.join(map(name, key['columns']))})", f" on constraint {name(key['name'])}", "")
            set_ = self.some(*columns)["name"] if columns else "id"
            conflict = f" on conflict{on} do {'nothing' if not on or self.random.random() < 0.5 else f'update set {name(set_)} = excluded.{name(set_)}'}"
        overriding = self.objects.maybe(0.05, self.some(" overriding system value", " overriding user value")) if "values" in source and "default" not in source[:9] else ""
        return f"insert into {one.sql}{listed}{overriding}{source}{conflict}{self.objects.maybe(0.2, self.some(' returning *', ' returning ' + name(self.some(*one.columns)['name'])))}"

    def where(self, one, share=0.85):
        return self.objects.maybe(share, f" where {self.objects.condition(self.some(*one.columns))}")

    def update(self, at):
        one = self.target(at, True)
        if not one or not one.columns:
            return "select 2 as none"
        sets = []
        for column in self.random.sample(one.columns, min(len(one.columns), self.some(1, 1, 2))):
            said = name(column["name"])
            value = self.some("default", "null", said, *[self.objects.constant(column)] * 6)
            drawn = value == "default" and (column["identity"] or column["default"])  # in the order in which the rows happen to lie
            sets.append(f"{said} = {said if drawn else value}")
        return f"update {one.sql} set {', '.join(sets)}{self.where(one)}{self.objects.maybe(0.2, ' returning *')}"

    def delete(self, at):
        one = self.target(at, True)
        return f"delete from {one.sql}{self.where(one)}{self.objects.maybe(0.2, ' returning *')}" if one and one.columns else "select 3 as none"

    def select(self, at):
        one = self.target(at)
        if not one or not one.columns:
            return Step(at, "select 4 as none")
        kind, columns = self.random.random(), one.columns
        base = lambda column: column["base"] if column["of"] == "d" else column["type"]  # noqa: E731
        if kind < 0.55:
            by = [name(column["name"]) for column in columns if base(column) not in UNORDERED]
            steady = not any(base(column) in UNSTEADY for column in columns)
            order = f" order by {', '.join(by)}" if by else ""
            limit = self.objects.maybe(0.15, f" limit {self.some(1, 2, 3)}{self.some('', ' offset 1')}") if steady else ""
            lock = self.objects.maybe(0.08, self.some(" for update", " for share", " for no key update")) if one.kind == "r" else ""
            return Step(at, f"select * from {one.sql}{self.where(one, 0.4)}{order}{limit}{lock}", ordered=steady and bool(by))
        said = name(self.some(*columns)["name"])
        if kind < 0.7:
            return Step(at, f"select count(*), count({said}), count(distinct {said}::text) from {one.sql}{self.where(one, 0.5)}")
        if kind < 0.85:
            return Step(at, f"select {said}, count(*) as n from {one.sql}{self.where(one, 0.4)} group by {said}")
        other = self.target(at)
        if not other or not other.columns:
            return Step(at, f"select {said} from {one.sql}")
        return Step(at, f"select l.{said}, r.{name(self.some(*other.columns)['name'])} from {one.sql} l {self.some('join', 'left join', 'full join', 'right join')} {other.sql} r "
                        f"on l.{name(self.some(*columns)['name'])}::text = r.{name(self.some(*other.columns)['name'])}::text")


