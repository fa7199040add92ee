"""What tools ask when they connect and when somebody browses (`tools/NAME.sql`), on a pod and on a PostgreSQL 15, over the same objects.

Each query has to be answered, with the same names and types of columns. Where `-- rows` stands above it, the answer is about what `tools/setup.sql` has
made, and the rows are compared, numbers of users' objects aside. What is otherwise is in `known/tools.tsv`, with kinds and causes as in drivers.py.
"""
import collections
import hashlib
import pathlib
import re
import time

import causes
import drivers
from servers import Client

FOLDER = pathlib.Path(__file__).parent / "tools"
MARKS = ("<!-- tools: written by .ci/outside/run --part tools --shrink -->\n", "<!-- end of tools -->\n")
HEADS = ("what asks", "queries", "answered the same", "a feature is missing", "a defect")
HEAD = """# What tools ask and are answered otherwise than by PostgreSQL 15: file, kind (drivers.py), cause, query (its beginning, and a hash of it).
# The list only shrinks: `.ci/outside/run --part tools --shrink` takes out what is mended.
"""
FIRST_OWN = 16384
Query = collections.namedtuple("Query", "text rows")


def queries(path):
    """The statements of a file: each ends with a line that ends with a semicolon."""
    found, lines, rows = [], [], False
    for line in path.read_text().splitlines():
        if line.startswith("--"):
            rows |= line == "-- rows"
            continue
        lines.append(line)
        if line.endswith(";"):
            found.append(Query("\n".join(lines)[:-1], rows))
            lines, rows = [], False
    return found


def name_of(query):
    return f"{' '.join(query.text.split())[:80]} {hashlib.sha256(query.text.encode()).hexdigest()[:8]}"


def plain(rows):
    """Rows without the numbers of users' objects, in an order of their own."""
    def value(field):
        text = "NULL" if field is None else field.decode("utf-8", "replace")
        return re.sub(r"\b\d+\b", lambda number: "#" if FIRST_OWN <= int(number[0]) < 2**32 else number[0], text)
    return sorted(tuple(value(field) for field in row) for row in rows)


def difference(query, theirs, ours, types):
    """What is otherwise, in words; empty if nothing is."""
    if theirs.state:
        raise RuntimeError(f"PostgreSQL refuses a query: {theirs.message}: {query.text}")
    if ours.state:
        return f"{ours.state} {ours.message}"
    def shown(columns):
        return [f"{name} {types.get(oid, oid)}" for name, oid, _ in columns]
    expected, got = shown(theirs.columns), shown(ours.columns)
    if expected != got:
        apart = [f"{left}, not {right}" for left, right in zip(expected, got) if left != right]
        return f"columns: {'; '.join(apart) or f'{len(expected)}, not {len(got)}'}"
    if query.rows:
        expected, got = plain(theirs.rows), plain(ours.rows)
        if expected != got:
            left, right = ([row for row in one if row not in other] for one, other in ((expected, got), (got, expected)))
            return f"rows: expected {left[:3]}, got {right[:3]}"
    return ""


def run(start, options, folder, known_path):
    """Sends the queries and prints a table; returns what is new and what is known no longer."""
    paths = sorted(path for path in FOLDER.glob("*.sql") if path.stem != "setup" and (not options.only or path.stem in options.only))
    known = drivers.load(known_path, sorted(path.stem for path in FOLDER.glob("*.sql")))
    wrong, better, rows, told, begin = [], [], [], [], time.monotonic()
    with start() as servers:
        clients = [Client("127.0.0.1", port) for port in (servers.oracle_port, servers.pod_ports[0])]
        for query in queries(FOLDER / "setup.sql"):
            for client in clients:
                answer = client.run("simple", query.text)
                if answer.state:
                    raise RuntimeError(f"{answer.message}: {query.text}")
        types = {int(row[0]): row[1].decode() for row in clients[0].run("simple", "select oid, typname from pg_type").rows}
        clients[1].close()
        clients[1] = Client("127.0.0.1", servers.pod_ports[1])
        for path in paths:
            listed, named, count = known[path.stem], {}, 0
            for query in queries(path):
                count += 1
                text = difference(query, *(client.run("extended", query.text) for client in clients), types)
                if text:
                    name = name_of(query)
                    named[name] = listed.get(name) or causes.of(drivers.Result("fail", 0, text, name))
                    told.append(f"==== {path.stem}: {name}: {', '.join(named[name])}\n{text}\n")
                    wrong += [f"{path.stem} {name}: {text[:300]}"] if name not in listed else []
            kinds = collections.Counter(kind for kind, _ in named.values())
            rows.append((path.stem.replace("_", " and ") if path.stem.startswith("grafana") else path.stem, count, count - len(named), kinds["feature"], kinds["defect"]))
            gone = [name for name in listed if name not in named]
            better += [f"{path.stem} {name}" for name in gone]
            if options.rewrite:
                known[path.stem] = named
            elif options.shrink:
                known[path.stem] = {name: text for name, text in listed.items() if name not in gone}
        for client in clients:
            client.close()
    for row in rows:
        print("{:20} {:4} queries, {:4} the same, {:3} lack a feature, {:3} defects".format(*row))
    print(f"{time.monotonic() - begin:.0f} s")
    if options.out:
        pathlib.Path(options.out).mkdir(parents=True, exist_ok=True)
        (pathlib.Path(options.out) / "tools.txt").write_text("".join(told))
    if options.shrink or options.rewrite:
        drivers.save(known_path, {name: tests for name, tests in known.items()}, HEAD)
        if not options.only:
            drivers.document(MARKS, HEADS, rows)
    return [] if options.rewrite else wrong, [] if options.shrink or options.rewrite else better
