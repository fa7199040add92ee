"""Random tables, and random statements over them, as trees (tree.py) of the forms in forms.py."""
import forms
from tree import Literal, Node, Optional, Several, fill


class Table:
    def __init__(self, name, columns):
        self.name, self.columns = name, columns


class Item:
    """What stands in a FROM: its alias and its columns. `key` are those that make its rows different."""

    def __init__(self, alias, columns, key=None):
        self.alias, self.columns = alias, columns
        self.key = key if key is not None else [name for name, _ in columns]


class Generator:
    def __init__(self, random):
        self.random, self.count = random, 0
        self.tables, self.setup = [], []

    # Tables.

    def schema(self):
        """Statements that make the tables; afterwards `tables` says what there is."""
        random = self.random
        self.setup = ["create type mood as enum ('sad', 'ok', 'happy')"]
        for number in range(4):
            columns = [("id", "int", "int not null")]
            types = random.sample(forms.EVERY, random.randint(5, 9))
            for type_ in ["int", "text"] + types:
                columns.append((f"c{len(columns)}", type_, random.choice(forms.TYPES[type_][1])))
            name = f"t{number}"
            self.tables.append(Table(name, [(column, type_) for column, type_, _ in columns]))
            declared = ", ".join(f"{column} {sql}" for column, _, sql in columns)
            key = "primary key (id)" if number != 1 else "primary key (id, c1)"
            if number == 1:
                declared = declared.replace("c1 int", "c1 int default 0").replace("c1 smallint", "c1 smallint default 1")
            self.setup.append(f"create table {name} ({declared}, {key})")
            self.setup += self.indexes(name, columns)
            for row in range(random.choice((0, 7, 12, 20)) if number == 3 else random.randint(6, 22)):
                values = [str(row)] + [self.value(type_, column == "c1" and number == 1) for column, type_, _ in columns[1:]]
                self.setup.append(f"insert into {name} values ({', '.join(values)})")
        self.setup.append("create view v0 as select id, c1, c2, c3, c4 from t0 where id % 3 <> 1")
        self.tables.append(Table("v0", self.tables[0].columns[:5]))
        return self.setup

    def value(self, type_, required=False):
        if not required and self.random.random() < 0.2:
            return "NULL"
        return f"'{forms.constant(self.random, type_)}'"

    def indexes(self, name, columns):
        """Of one column and several, partial, over expressions; unique ones only where the rows made here keep them."""
        random, out = self.random, []
        names = [column for column, type_, _ in columns if type_ not in ("json",)]
        for number in range(random.randint(1, 4)):
            chosen = random.sample(names, min(len(names), random.randint(1, 3)))
            keys = ", ".join(column + random.choice(("", "", " desc", " nulls first")) for column in chosen)
            where = random.choice(("", "", " where id > 5", " where c1 is not null", " where c1 > 0"))
            out.append(f"create index {name}_i{number} on {name} ({keys}){where}")
        out.append(random.choice((
            f"create unique index {name}_u on {name} (id, c1)", f"create unique index {name}_u on {name} (id) where c1 > 0", f"create unique index {name}_u on {name} ((id + 1))",
            f"create index {name}_u on {name} (lower(c2))", f"create index {name}_u on {name} ((c1 + 1), c2)")))
        return out

    # Expressions.

    def chance(self, probability):
        return self.random.random() < probability

    def literal(self, type_):
        random, sql = self.random, forms.TYPES[type_][0]
        if self.chance(0.06):
            return Literal(type_, random.choice(("null", f"null::{sql}")), None, sql, False)
        value = forms.constant(random, type_)
        plain = value if type_ in ("int", "num") and not value.startswith("-") else f"'{value}'::{sql}"
        return Literal(type_, plain, value.replace("''", "'"), sql, self.chance(0.3))

    def leaf(self, type_, scope):
        found = [f"{item.alias}.{name}" for item in scope for name, of in item.columns if of == type_]
        if found and self.chance(0.8):
            return Node(type_, [self.random.choice(found)], forms.PLAIN[type_])
        return self.literal(type_)

    def expression(self, type_, scope, depth=3, subqueries=True):
        if type_ == "any":
            type_ = self.random.choice(forms.EVERY)
        real = type_ in forms.TYPES
        if real and (depth <= 0 or self.chance(0.3)):
            return self.leaf(type_, scope)
        if real and subqueries and depth > 1 and self.chance(0.05):
            return self.subquery(type_, scope)
        template = self.random.choice(forms.FORMS[type_])
        last = {}

        def part(name):
            if not name.endswith("0"):
                last[name] = self.expression(name, scope, depth - 1, subqueries)
            return last[name.removesuffix("0")]

        return fill(template, type_ if real else None, part, forms.PLAIN.get(type_))

    def subquery(self, type_, scope):
        """A scalar subquery, EXISTS or IN, correlated or not."""
        random = self.random
        own, items = self.tables_in_from(scope if self.chance(0.2) else [], random.choice((1, 1, 2)))
        both = items + scope
        where = Optional(" where ", self.expression("bool", both, 2, self.chance(0.3)))
        if type_ == "bool":
            form = random.choice(("exists", "in", "not in", "any", "not exists"))
            if form in ("exists", "not exists"):
                return Node("bool", [f"{form} (select 1 from ", own, where, ")"], "true")
            of = random.choice(("int", "text", "date", "num"))
            sign = {"any": f"{random.choice(('=', '>', '<>'))} {random.choice(('any', 'all'))}"}.get(form, form)
            left = self.expression(of, scope, 1, False)
            if self.chance(0.2):
                return Node("bool", ["((", left, ", ", self.expression("int", scope, 1, False), f") {'in' if sign != 'not in' else sign} (select ", self.expression(of, both, 1, False),
                                     ", ", self.expression("int", both, 1, False), " from ", own, where, "))"], "true")
            return Node("bool", ["(", left, f" {sign} (select ", self.expression(of, both, 1, False), " from ", own, where, "))"], "true")
        if self.chance(0.5) and forms.AGGREGATES.get(type_):
            return Node(type_, ["(select ", self.aggregate(type_, items, 1), " from ", own, where, ")"], forms.PLAIN[type_])
        return Node(type_, ["(select ", self.expression(type_, both, 1, False), " from ", own, where, " order by 1 limit 1)"], forms.PLAIN[type_])

    def aggregate(self, type_, scope, depth):
        last = {}

        def part(name):
            if name.endswith("0"):
                return last[name[:-1]]
            last[name] = self.expression(name, scope, depth, False)
            if isinstance(last[name], Literal):
                last[name].bound = False
            return last[name]

        template = self.random.choice(forms.AGGREGATES[type_])
        node = fill(template, None, part)
        for literal in literals(node):
            literal.bound = False
        aggregates_alone = template.endswith(")") and template.count("(") == 1 and "over" not in template and not template.startswith("(")
        tail = Optional(" filter (where ", self.expression("bool", scope, 1, False), ")") if aggregates_alone and self.chance(0.25) else ""
        return Node(type_, [node, tail], forms.PLAIN[type_])

    # FROM.

    def name(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def source(self, outer, lateral):
        """One item of a FROM: a table, a subquery, a function that gives rows, VALUES."""
        random, kind = self.random, self.random.random()
        if kind < 0.72:
            table, alias = random.choice(self.tables), self.name("a")
            key = {"t1": ["id", "c1"], "w": None}.get(table.name if table.name[0] != "w" else "w", ["id"])
            return Node("source", [f"{table.name} as {alias}"]), Item(alias, table.columns, key)
        alias = self.name("s")
        word = "lateral " if lateral else ""
        if kind < 0.88:
            query, columns = self.query(outer if lateral else [], 1)
            return Node("source", [word, "(", query, f") as {alias}"]), Item(alias, columns)
        if kind < 0.92:
            return Node("source", [f"generate_series({random.randint(0, 2)}, {random.randint(2, 6)}) as {alias}(g)"]), Item(alias, [("g", "int")])
        if kind < 0.95:
            array = self.expression("ints", outer if lateral else [], 1, False)
            return Node("source", ["unnest(", array, f") with ordinality as {alias}(e, n)"]), Item(alias, [("e", "int"), ("n", "big")])
        types = [random.choice(("int", "text", "date", "num")) for _ in range(2)]
        rows = [Node(None, ["(", self.typed(types[0]), ", ", self.typed(types[1]), ")"]) for _ in range(random.randint(1, 4))]
        return Node("source", ["(values ", Several(", ", rows), f") as {alias}(x, y)"]), Item(alias, [("x", types[0]), ("y", types[1])])

    def typed(self, type_):
        return Literal(type_, f"{self.value(type_)}::{forms.TYPES[type_][0]}", None, "", False)

    def tables_in_from(self, outer, count):
        """A FROM of joins, and its items."""
        node, item = self.source(outer, False)
        items = [item]
        for _ in range(count - 1):
            kind = self.random.choice(("join", "join", "left join", "left join", "right join", "full join", "cross join", ",lateral", "using"))
            lateral = kind == ",lateral" or (kind in ("join", "left join") and self.chance(0.15))
            right, item = self.source(items + outer, lateral)
            if kind == ",lateral" or kind == "cross join":
                node = Node("source", [node, " cross join ", right])
            elif kind == "using" and all("id" in [name for name, _ in each.columns] for each in (items[0], item)) and len(items) == 1:
                node = Node("source", [node, self.random.choice((" join ", " left join ", " full join ")), right, " using (id)"])
            elif kind == "full join":
                pair = self.pair(items, item)
                node = Node("source", [node, " full join ", right, " on ", pair])
            else:
                kind = "join" if kind == "using" else kind
                on = self.pair(items, item) if self.chance(0.6) else self.expression("bool", items + [item], 2, self.chance(0.2))
                if self.chance(0.3):
                    on = Node("bool", ["(", on, " and ", self.expression("bool", items + [item], 1, False), ")"], "true")
                node = Node("source", [node, f" {kind} ", right, " on ", on])
            items.append(item)
        return node, items

    def pair(self, items, item):
        """An equality that both sides of a join have part in."""
        own = [(name, type_) for name, type_ in item.columns if type_ != "json"]
        self.random.shuffle(own)
        for name, type_ in own:
            found = [f"{other.alias}.{column}" for other in items for column, of in other.columns if of == type_]
            if found:
                return Node("bool", [f"{self.random.choice(found)} = {item.alias}.{name}"], "true")
        return Node("bool", ["true"], "true")

    # Queries.

    def some_types(self, count):
        return [self.random.choice(forms.EVERY) for _ in range(count)]

    def query(self, outer, depth, types=None):
        """A SELECT that can stand anywhere, and its columns."""
        kind = self.random.random()
        types = types or self.some_types(self.random.randint(1, 4))
        columns = [(f"c{i + 1}", type_) for i, type_ in enumerate(types)]
        if depth > 0 and kind < 0.12:
            parts = [self.query(outer, depth - 1, types)[0]]
            for _ in range(self.random.choice((1, 1, 2))):
                word = self.random.choice(("union", "union all", "intersect", "except", "intersect all", "except all"))
                parts += [f" {word} (", self.query(outer, depth - 1, types)[0], ")"]
            return Node("query", ["(", parts[0], ")"] + parts[1:]), columns
        if kind < 0.35 and all(forms.AGGREGATES.get(type_) for type_ in types):
            return self.grouped(outer, depth, types), columns
        source, items = self.tables_in_from(outer, self.random.choice((1, 1, 1, 2, 2, 3)))
        scope = items + outer
        windows = self.chance(0.2)
        selected = []
        for (name, type_) in columns:
            if windows and self.chance(0.6) and (type_ in forms.WINDOWS_TOTAL or type_ in forms.WINDOWS_PEERS):
                expression = self.window(type_, items, scope)
            else:
                expression = self.expression(type_, scope, 3, depth > 0)
            selected.append(Node(None, [expression, f" as {name}"]))
        distinct = "distinct " if self.chance(0.1) else ""
        where = Optional(" where ", self.expression("bool", scope, 3, depth > 0)) if self.chance(0.75) else ""
        end = ""
        if self.chance(0.12):
            end = Optional(" order by " + self.order(len(columns)) + self.limit())
        return Node("query", [f"select {distinct}", Several(", ", selected, len(selected)), " from ", source, where, end]), columns

    def order(self, count):
        return ", ".join(f"{i + 1}{self.random.choice(('', '', ' desc', ' nulls first', ' desc nulls last'))}" for i in range(count))

    def limit(self):
        return self.random.choice((" limit 3", " limit 5 offset 2", " offset 1", " fetch first 2 rows only", " limit 0", " limit all", " limit 10"))

    def grouped(self, outer, depth, types):
        random = self.random
        source, items = self.tables_in_from(outer, random.choice((1, 1, 2)))
        scope = items + outer
        groups = []
        for _ in range(random.choice((0, 1, 1, 2, 3))):
            type_ = random.choice(forms.COMPARED)
            expression = self.leaf(type_, items) if self.chance(0.6) else self.expression(type_, items, 1, False)
            for literal in [expression] if isinstance(expression, Literal) else literals(expression):
                literal.bound = False
            if not isinstance(expression, Literal):
                groups.append((type_, Node(None, [expression])))
        selected = []
        for i, type_ in enumerate(types):
            same = [node for of, node in groups if of == type_]
            node = random.choice(same) if same and self.chance(0.6) else self.aggregate(type_, items, 2)
            selected.append(Node(None, [node, f" as c{i + 1}"]))
        parts = ["select ", Several(", ", selected, len(selected)), " from ", source]
        if self.chance(0.6):
            parts.append(Optional(" where ", self.expression("bool", scope, 2, depth > 0)))
        if groups:
            keys = Several(", ", [node for _, node in groups])
            form = random.choice(("plain",) * 5 + ("rollup", "cube", "sets"))
            if form == "sets":
                parts += [" group by grouping sets ((", keys, "), (", groups[0][1], "), ())"]
            elif form in ("rollup", "cube"):
                parts += [f" group by {form} (", keys, ")"]
            else:
                parts += [" group by ", keys]
        if self.chance(0.3):
            kind = random.choice(("int", "big", "num", "text"))
            parts.append(Optional(" having (", self.aggregate(kind, items, 1), random.choice((" > ", " <> ", " <= ")), self.literal(kind), ")", random.choice((" is not false", "", " is true"))))
        return Node("query", parts)

    def window(self, type_, items, scope):
        total = [f"{item.alias}.{name}" for item in items for name in item.key]
        order = self.expression(self.random.choice(forms.COMPARED), items, 1, False)
        whole = type_ in forms.WINDOWS_TOTAL and (self.chance(0.6) or type_ not in forms.WINDOWS_PEERS)
        templates = (forms.WINDOWS_TOTAL if whole else forms.WINDOWS_PEERS)[type_]
        partition = Optional("partition by ", self.expression(self.random.choice(forms.COMPARED), items, 1, False), " ") if self.chance(0.6) else ""
        frame = ""

        def part(name):
            nonlocal frame
            if name == "over_rows":
                exclude = self.random.choice(("", "", " exclude current row", " exclude ties", " exclude group"))
                start = self.random.choice(("unbounded preceding", "1 preceding", "2 preceding", "current row"))
                end = self.random.choice(("current row", "1 following", "unbounded following", "2 following"))
                frame = f" {self.random.choice(('rows', 'rows', 'groups'))} between {start} and {end}{exclude}"
            if name.startswith("over"):
                end = self.random.choice(("", " desc", " nulls first", " desc nulls last"))
                order_by = ["order by ", order, end] + ([", " + ", ".join(total)] if whole else [])
                return Node(None, ["over (", partition, *order_by, frame, ")"])
            return self.expression(name, scope, 1, False)

        return fill(self.random.choice(templates), type_, part, forms.PLAIN[type_])

    def select(self):
        """A whole statement, and whether its rows come in an order that says all."""
        random = self.random
        kind = random.random()
        types = self.some_types(random.randint(1, 5))
        head = ""
        if kind < 0.15:
            head = self.with_()
        query, columns = self.query([], 2, types)
        if head:
            self.tables.pop()
        if kind > 0.9:
            return Node(None, [head, "select count(*) as n, ", Several(", ", [f"count({name})" for name, _ in columns]), " from (", query, ") as q"]), True
        if kind > 0.85:
            return Node(None, ["select * from (", query, ") as q order by 1 ", random.choice(("fetch first 3 rows with ties", "", "desc fetch next 5 rows with ties"))]), False
        if kind > 0.82:
            return Node(None, ["select distinct on (1) * from (", query, ") as q order by ", self.order(len(columns))]), True
        if kind > 0.5:
            return Node(None, [head, "select * from (", query, ") as q order by ", self.order(len(columns)), random.choice(("", self.limit()))]), True
        return Node(None, [head, query]), False

    def with_(self):
        """A common table expression, which is a table from now on; the caller takes it away again."""
        random, name = self.random, self.name("w")
        if self.chance(0.25):
            last = random.randint(3, 8)
            self.tables.append(Table(name, [("id", "int"), ("c1", "int"), ("c2", "text")]))
            return Node(None, [f"with recursive {name}(id, c1, c2) as (select 1, 1, 'a'::text {random.choice(('union all', 'union'))} select id + 1, c1 * 2 % 7, c2 || id from {name} where id < {last}) "])
        query, columns = self.query([], 1, ["int", "int"] + self.some_types(2))
        columns = [("id", "int"), ("c1", "int")] + [(f"c{i + 2}", type_) for i, (_, type_) in enumerate(columns[2:])]
        self.tables.append(Table(name, columns))
        word = random.choice(("", "", "materialized ", "not materialized "))
        names = ", ".join(column for column, _ in columns)
        return Node(None, [f"with {name}({names}) as {word}(", query, ") "])

    # Changes.

    def assigned(self, table, scope, unique=()):
        columns = [(name, type_) for name, type_ in table.columns if name not in ("id",) and name not in unique]
        chosen = self.random.sample(columns, self.random.randint(1, min(3, len(columns))))
        out = []
        for name, type_ in chosen:
            value = self.expression(type_, scope, 2, self.chance(0.2)) if self.chance(0.9) else "default"
            out.append(Node(None, [f"{name} = ", self.cut(type_, value)]))
        return Several(", ", out)

    def cut(self, type_, value):
        """What fits into a column of the type for certain."""
        if isinstance(value, str):
            return value
        form = {"int": "(({}) % 100)", "big": "(({}) % 1000000)", "num": "round(mod({}, 1000), 2)", "text": "left({}, 20)", "float": "({} - 0.5)", "char": "({})::char(5)", "ints": "({})[1:4]", "texts": "({})[1:4]"}.get(type_)
        if form is None:
            return value
        before, after = form.split("{}")
        return Node(None, [before, value, after])

    def returning(self, items):
        if self.chance(0.4):
            return ""
        if self.chance(0.3):
            return " returning *"
        outputs = [Node(None, [self.expression(self.random.choice(forms.EVERY), items, 2, False), f" as r{i}"]) for i in range(self.random.randint(1, 3))]
        return Optional(" returning ", Several(", ", outputs))

    def change(self):
        """An INSERT, UPDATE or DELETE, and the table that it changes."""
        random = self.random
        table = random.choice(self.tables[:4])
        kind = random.choice(("insert", "insert", "upsert", "upsert", "update", "update", "update from", "delete", "delete using", "view"))
        alias = self.name("x")
        own = Item(alias, table.columns, ["id"])
        if kind == "view":
            view = self.tables[4]
            own = Item(alias, view.columns, ["id"])
            where = Optional(" where ", self.expression("bool", [own], 2))
            return Node(None, [f"update v0 as {alias} set ", self.assigned(view, [own]), where, self.returning([own])]), self.tables[0]
        if kind in ("insert", "upsert"):
            return self.insert(table, own, kind == "upsert"), table
        unique = ("c1",) if table.name == "t1" else ()
        if kind == "update":
            where = Optional(" where ", self.expression("bool", [own], 2))
            return Node(None, [f"update {table.name} as {alias} set ", self.assigned(table, [own], unique), where, self.returning([own])]), table
        if kind == "delete":
            where = Node("bool", ["(", self.expression("bool", [own], 2), f" and {alias}.id % {random.randint(2, 4)} = {random.randint(0, 1)})"])
            return Node(None, [f"delete from {table.name} as {alias} where ", where, self.returning([own])]), table
        other = self.tables[random.choice((0, 2, 3))]
        item = Item(self.name("y"), other.columns, ["id"])
        pair = f"{alias}.id = {item.alias}.id"
        more = Optional(" and ", self.expression("bool", [own, item], 2))
        if kind == "update from":
            return Node(None, [f"update {table.name} as {alias} set ", self.assigned(table, [own, item], unique), f" from {other.name} as {item.alias} where {pair}", more, self.returning([own, item])]), table
        odd = f" and {alias}.id % 3 = {random.randint(0, 2)}"
        return Node(None, [f"delete from {table.name} as {alias} using {other.name} as {item.alias} where {pair}{odd}", more, self.returning([own])]), table

    def insert(self, table, own, upsert):
        random = self.random
        names = [name for name, _ in table.columns]
        if self.chance(0.3):
            source, items = self.tables_in_from([], random.choice((1, 1, 2)))
            selected = [Node(None, [self.cut(type_, self.expression(type_, items, 2, False))]) for _, type_ in table.columns]
            selected[0] = Node(None, [f"({random.randint(0, 60)} + {items[0].alias}.{items[0].key[0]})" if items[0].columns[0][0] == "id" else str(random.randint(0, 60))])
            if table.name == "t1":
                selected[1] = Node(None, ["1"])
            order = f" order by {', '.join(str(i + 1) for i in range(len(names)))} limit 4"
            values = Node(None, ["select ", Several(", ", selected, len(selected)), " from ", source, order])
        else:
            rows = []
            for _ in range(random.choice((1, 1, 2, 3))):
                cells = [self.cut(type_, self.expression(type_, [], 1)) if self.chance(0.5) else self.value(type_) for _, type_ in table.columns]
                cells[0] = str(random.randint(0, 40))
                if table.name == "t1":
                    cells[1] = str(random.randint(0, 5))
                rows.append(Node(None, ["(", Several(", ", cells, len(cells)), ")"]))
            values = Node(None, ["values ", Several(", ", rows)])
        parts = [f"insert into {table.name} as {own.alias} ({', '.join(names)}) ", values]
        if upsert:
            excluded = Item("excluded", table.columns, ["id"])
            target = "(id, c1)" if table.name == "t1" else "(id)"
            where = Optional(" where ", self.expression("bool", [own, excluded], 1, False)) if self.chance(0.4) else ""
            unique = ("c1",) if table.name == "t1" else ()
            if self.chance(0.3):
                parts.append(random.choice((" on conflict do nothing", f" on conflict {target} do nothing")))
            else:
                parts += [f" on conflict {target} do update set ", self.assigned(table, [own, excluded], unique), where]
        return Node(None, parts + [self.returning([own])])

    def spoil(self, tree):
        """Gives a statement one fault: what it is answered with is an error, mostly. Of several, another might be told first."""
        places = list(places_of(tree))
        if places:
            parts, i = self.random.choice(places)
            parts[i] = self.random.choice((
                    lambda: self.expression("any", [], 1), lambda: Node(None, ["nosuch"]), lambda: Node(None, ["count(*)"]), lambda: Node(None, ["'x'"]), lambda: Node(None, ["null"]),
                    lambda: Node(None, ["nosuch(", parts[i], ")"]), lambda: Node(None, ["(select 1, 2)"]), lambda: Node(None, ["row(", parts[i], ")"]), lambda: Node(None, ["(", parts[i], ")::nosuch"]),
                    lambda: Node(None, ["sum(", parts[i], ") over ()"]), lambda: Node(None, ["max(", parts[i], ")"]), lambda: Node(None, ["(", parts[i], " + 1)"]), lambda: Node(None, ["(", parts[i], " || 'x')"]),
                    lambda: Node(None, ["lower(", parts[i], ")"]), lambda: Node(None, ["(", parts[i], ")::int"]), lambda: Node(None, ["a1.c1"]), lambda: Node(None, ["id"]), lambda: Node(None, ["(", parts[i], " = '')"]),
                    lambda: Node(None, ["unnest(", parts[i], ")"]), lambda: Node(None, ["(", parts[i], ")[1]"]), lambda: Node(None, ["generate_series(1, ", parts[i], ")"]), lambda: Node(None, ["(", parts[i], " is true)"]),
                    lambda: Node(None, ["abs(", parts[i], ")"]), lambda: Node(None, ["coalesce(", parts[i], ", 'x')"]), lambda: Node(None, ["coalesce(", parts[i], ", 1)"]), lambda: Node(None, ["(", parts[i], " in (1, 2))"]),
                ))()


def literals(tree):
    if isinstance(tree, Node):
        for part in tree.parts:
            if isinstance(part, Literal):
                yield part
            elif isinstance(part, Node):
                yield from literals(part)


def places_of(tree):
    """Where expressions stand."""
    for i, part in enumerate(tree.parts):
        if isinstance(part, (Node, Literal)) and part.type in forms.TYPES:
            yield tree.parts, i
        if isinstance(part, Node):
            yield from places_of(part)
