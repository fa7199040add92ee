"""Scripts of one session over what needs tables of a certain shape: foreign keys with all their actions, sequences and identity columns, cursors.

A script is a list of statements, which make their own tables (s0, s1, s2, s3). schedule.py takes one of them now and then."""
ACTIONS = ("", "no action", "restrict", "cascade", "cascade", "set null", "set default")


class Script:
    def __init__(self, random):
        self.random = random
        self.steps = random.choice((self.keys, self.keys, self.sequences, self.cursors))()

    def some(self, *choices):
        return self.random.choice(choices)

    def small(self):
        return self.some("0", "1", "2", "3", "4", "5", "null") if self.random.random() < 0.3 else str(self.random.randint(0, 4))

    def blocks(self, step, count, names=("a", "b")):
        """Steps, in blocks or by themselves, with savepoints."""
        random, out, inside, points = self.random, [], False, []
        for _ in range(count):
            kind = random.random()
            if not inside and kind < 0.3:
                out.append("begin")
                inside, points = True, []
            elif inside and kind < 0.12:
                out.append(self.some("commit", "commit", "rollback"))
                inside = False
            elif inside and kind < 0.18:
                points.append(random.choice(names))
                out.append(f"savepoint {points[-1]}")
            elif inside and points and kind < 0.27:
                out.append(f"{self.some('rollback to', 'rollback to', 'release')} {random.choice(points)}")
            else:
                out.append(step())
        return out + (["commit"] if inside else [])

    # Foreign keys.

    def action(self):
        """ON DELETE and ON UPDATE, and when the key is checked."""
        out = []
        for event in ("delete", "update"):
            action = self.some(*ACTIONS)
            if action:
                out.append(f"on {event} {action}")
        when = self.some("", "", "deferrable", "deferrable initially deferred", "deferrable initially deferred", "not deferrable", "initially immediate")
        return " ".join(out + [when])

    def keys(self):
        pair = self.some("", "match full ", "match simple ")
        setup = [
            "create table s0 (a int primary key, b int, c int unique, unique (a, b))",
            f"create table s1 (id int primary key, a int default 1 constraint k1 references s0 {self.action()}, n int)",
            f"create table s2 (id int primary key, a int default {self.some('0', '1', 'null')}, b int default {self.some('0', '1', 'null')}, "
            f"constraint k2 foreign key (a, b) references s0 (a, b) {pair}{self.action()}{self.some('', ', constraint k3 foreign key (a) references s1')})",
            f"create table s3 (id int primary key, up int default 0 constraint k4 references s3 {self.action()}, c int constraint k5 references s0 (c) {self.action()})",
        ]
        for row in range(4):
            setup.append(f"insert into s0 values ({row}, {row % 2}, {row})")
        for row in range(3):
            setup.append(f"insert into s1 values ({row}, {self.random.randint(0, 3)}, {row})")
        setup.append("insert into s2 values (0, 0, 0), (1, 1, 1), (2, null, null)")
        setup.append("insert into s3 values (0, 0, 0), (1, 0, 1), (2, 1, null)")
        looks = [f"select * from s{i} order by 1" for i in range(4)]
        return setup + self.blocks(self.key_step, self.random.randint(6, 18)) + looks

    def key_step(self):
        random, small = self.random, self.small
        table = random.randint(0, 3)
        first = ("a", "id", "id", "id")[table]
        columns = (("a", "b", "c"), ("a", "n"), ("a", "b"), ("up", "c"))[table]
        where = self.some(f" where {first} = {small()}", f" where {first} = {small()}", f" where {first} > {small()}", f" where {random.choice(columns)} = {small()}", "")
        tail = self.some("", "", "", f" returning *")
        kind = random.random()
        if kind < 0.3:
            rows = ", ".join("(" + ", ".join([str(random.randint(0, 6))] + [self.some(small(), small(), "default") for _ in range(2)]) + ")" for _ in range(self.some(1, 1, 2, 3)))
            conflict = self.some("", "", "", f" on conflict ({first}) do update set {columns[-1]} = excluded.{columns[-1]}", " on conflict do nothing")
            return f"insert into s{table} values {rows}{conflict}{tail}"
        if kind < 0.65:
            column = self.some(first, *columns)
            value = self.some(small(), f"{column} + 1", f"{column} + 10", f"- {column}", f"{random.randint(0, 4)} - {column}", "default", "null")
            more = f", {random.choice(columns)} = {small()}" if random.random() < 0.2 else ""
            if more.startswith(f", {column} "):
                more = ""
            return f"update s{table} set {column} = {value}{more}{where}{tail}"
        if kind < 0.9:
            return f"delete from s{table}{where}{tail}"
        return self.some(f"set constraints {self.some('all', 'k1', 'k2', 'k4', 'k5', 'k1, k5')} {self.some('deferred', 'immediate')}", f"set constraints all {self.some('deferred', 'immediate')}",
                         f"truncate s{table}{self.some('', ' cascade', ', s3', ' restrict')}",
                         f"alter table s{table} {self.some('drop constraint if exists k1', 'drop constraint if exists k4', 'add constraint k9 foreign key (' + columns[-1] + ') references s0 (c)')}",
                         f"select * from s{table} order by 1",
                         f"update s{table} as x set {columns[-1]} = y.{first} from s{table} as y where y.{first} = x.{first} - 1{tail and ' returning x.*'}",
                         f"delete from s{table} as x using s0 as y where y.a = x.{first} + 1{tail and ' returning x.*'}",
                         f"insert into s{table} ({first}) select a + 3 from s0 where a < 3{tail}")

    # Sequences.

    def sequence(self, typed=True):
        """Options of a sequence, which may not fit each other."""
        random, out = self.random, []
        if typed and random.random() < 0.4:
            out.append(f"as {self.some('smallint', 'int', 'bigint')}")
        if random.random() < 0.5:
            out.append(f"increment {self.some('', 'by ')}{self.some(1, 2, 3, -1, -2, 0 if random.random() < 0.1 else 5)}")
        if random.random() < 0.5:
            out.append(self.some(f"minvalue {self.some(-5, 0, 1, 2)}", "no minvalue"))
        if random.random() < 0.5:
            out.append(self.some(f"maxvalue {self.some(3, 5, 7, 32767, -1)}", "no maxvalue"))
        if random.random() < 0.4:
            out.append(f"start {self.some('', 'with ')}{self.some(1, 2, 3, 5, -1)}")
        out.append(self.some("", "", "cycle", "no cycle"))
        random.shuffle(out)
        return " ".join(part for part in out if part)

    def sequences(self):
        options = [self.some("", f" (increment 1 {self.sequence(False)})".replace("increment 1 increment", "increment")) for _ in range(2)]
        setup = [
            f"create sequence q0 {self.sequence()}", "create sequence q1",
            f"create table s0 (id {self.some('serial', 'bigserial', 'smallserial')}, n int, m int default nextval('q1') * 10)",
            f"create table s1 (id int generated always as identity{options[0]}, n int)",
            f"create table s2 (id {self.some('smallint', 'int', 'bigint')} generated by default as identity{options[1]} primary key, n int)",
        ]
        looks = [f"select * from s{i} order by 1, 2" for i in range(3)]
        return setup + self.blocks(self.sequence_step, self.random.randint(6, 22)) + looks

    def sequence_step(self):
        random = self.random
        name = self.some("q0", "q0", "q0", "q1", "s0_id_seq", "s1_id_seq", "s2_id_seq")
        number = self.some(1, 2, 3, 5, 7, 100, -1, 0)
        table = random.randint(0, 2)
        kind = random.random()
        if kind < 0.35:
            return self.some(f"select nextval('{name}')", f"select nextval('{name}')", f"select nextval('{name}'), nextval('{name}'), currval('{name}')", f"select currval('{name}')", "select lastval()",
                             f"select nextval('{name}') from generate_series(1, 4)", f"select g, nextval('{name}') from generate_series(1, 5) as g where g % 2 = 0 order by g desc", f"select nextval(pg_get_serial_sequence('s{table}', 'id'))")
        if kind < 0.47:
            return self.some(f"select setval('{name}', {number})", f"select setval('{name}', {number}, false)", f"select setval('{name}', {number}, true)", f"select setval('{name}', (select max(n) from s{table}))",
                             f"alter sequence {name} restart", f"alter sequence {name} restart {self.some('', 'with ')}{number}", f"alter sequence {name} {self.sequence()}", f"alter sequence if exists {name} owned by none",
                             f"truncate s{table} {self.some('restart identity', 'continue identity', '')}")
        if kind < 0.8:
            columns = self.some("(n)", "(n)", "(n)", "(id, n)", "")
            overriding = self.some("", "", "", " overriding system value", " overriding user value")
            value = self.some("default", number) if columns != "(n)" else None
            row = lambda: f"({value}, {number})" if value is not None else f"({random.randint(1, 9)})"  # noqa: E731
            conflict = self.some("", "", " on conflict (id) do nothing", " on conflict (id) do update set n = excluded.n + 100") if table == 2 else ""
            source = self.some(f" values {', '.join(row() for _ in range(self.some(1, 2)))}", " default values" if columns == "" else f" values {row()}", f" select {'g, ' if value is not None else ''}g from generate_series(1, 2) as g")
            return f"insert into s{table} {columns}{overriding}{source}{conflict}{self.some('', ' returning id', ' returning *')}"
        if kind < 0.9:
            return self.some(f"update s{table} set id = default where n = {number}", f"update s{table} set id = {number} where n = {random.randint(1, 9)}", f"update s{table} set n = nextval('q1') where id = {number}",
                             f"delete from s{table} where id = {number}", f"select is_called from {name}" if name[0] == "q" and name == "q1" else f"select count(*) from {name}", f"drop sequence {name}",
                             "select seqstart, seqincrement, seqmax, seqmin, seqcycle from pg_sequence where seqrelid = 'q0'::regclass",
                             f"select data_type, start_value, min_value, max_value, increment_by, cycle from pg_sequences where sequencename = '{name}'")
        return self.some(f"alter table s{table} alter id restart with {number}", f"alter table s{table} alter id drop identity", f"alter table s{table} alter id drop default", f"alter table s{table} alter id set default 7",
                         f"alter table s{table} add extra serial", f"alter table s{table} alter id add generated by default as identity", f"alter table s{table} alter n set default nextval('q1')",
                         f"alter table s{table} drop column id", f"alter table s{table} alter id drop identity if exists")

    # Cursors.

    def cursors(self):
        setup = ["create table s0 (id int primary key, n int, t text)", "insert into s0 select g, g % 3, 'row ' || g from generate_series(1, 9) as g"]
        return setup + self.blocks(self.cursor_step, self.random.randint(8, 26)) + ["select * from s0 order by 1", "close all"]

    def cursor_step(self):
        random, name = self.random, self.some("u", "u", "u", "v")
        kind = random.random()
        count = self.some(0, 1, 2, 3, 5, 20, -1, -2, -20)
        if kind < 0.22:
            query = self.some("select * from s0 order by id", "select id, t from s0 where n = 1 order by id", "select * from generate_series(1, 6) as g", "values (1, 'a'), (2, 'b'), (3, 'c')", "select n, count(*) from s0 group by n order by n",
                              "select x.id, y.id from s0 x join s0 y on y.id = x.id + 1 order by 1", "select id from s0 order by id desc limit 4", "select id from s0 where false", "select id from s0 union select 100 order by 1",
                              "select id, lag(id) over (order by id) from s0 order by 1", "select id from s0 order by n, id")
            return f"declare {name} {self.some('scroll', 'scroll', 'no scroll', 'no scroll', 'insensitive scroll', 'asensitive no scroll')} cursor {self.some('', '', '', 'with hold ', 'without hold ')}for {query}"
        if kind < 0.75:
            where = self.some("next", "prior", "first", "last", f"absolute {count}", f"absolute {count}", f"relative {count}", f"relative {count}", f"{count}", "all", "forward", f"forward {count}", "forward all", "backward",
                              f"backward {count}", "backward all", "")
            return " ".join(part for part in (self.some("fetch", "fetch", "fetch", "move"), where, self.some("from", "in", "from") if where not in ("", ) else self.some("", "from"), name) if part)
        if kind < 0.85:
            return self.some(f"close {name}", f"close {name}", "close all", "select name, is_holdable, is_binary, is_scrollable from pg_cursors order by name", f"close nosuch")
        return self.some(f"insert into s0 values ({random.randint(1, 15)}, 1, 'new')", f"update s0 set t = t || '!' where id = {random.randint(1, 9)}", f"delete from s0 where id = {random.randint(1, 9)}",
                         f"update s0 set n = n + 1", "select count(*) from s0", f"discard {self.some('plans', 'sequences', 'temp')}", "select 1 / 0")
