"""Schemas of applications, made by their own migrations on a pod and on a PostgreSQL 15: what came of them, and what the applications are answered.

Migrations run on one host of the pod, and the application on the other. Compared are the migrations that were applied; each column, constraint, index,
sequence, enum and view; and the answer to each request (`applications.py`). What is otherwise here is listed in `known/schemas.tsv`, with kinds and causes as
in drivers.py. Where a tool stops at a migration, that is the one thing that is listed: what would have come after it is not there to be compared.
"""
import collections
import concurrent.futures
import pathlib
import subprocess
import time

import applications
import causes
import drivers
from fetch import CannotGet, fetched
from servers import Client

MARKS = ("<!-- schemas: written by .ci/outside/run --part schemas --shrink -->\n", "<!-- end of schemas -->\n")
HEADS = ("application", "migrations applied", "columns", "constraints", "indexes", "sequences and others", "requests answered the same")
HEAD = """# What applications' migrations and requests come to on PostgreSQL 15 and not here: application, kind (drivers.py), cause, item.
# The list only shrinks: `.ci/outside/run --part schemas --shrink` takes out what is mended.
"""
OWN = "n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg_temp%' and n.nspname not like 'pg_toast%'"
# Each gives names and definitions.
PARTS = {
    "column": "select table_schema || '.' || table_name || '.' || column_name, concat_ws(', ', row_number() over (partition by table_schema, table_name "
              "order by ordinal_position), data_type, udt_name, character_maximum_length, numeric_precision, numeric_scale, datetime_precision, 'null: ' || "
              "is_nullable, 'default: ' || column_default, identity_generation, generation_expression) from information_schema.columns "
              "where table_schema not in ('pg_catalog', 'information_schema')",
    "constraint": "select conrelid::regclass || '.' || conname, concat_ws(', ', contype, pg_get_constraintdef(c.oid), case when condeferrable then 'deferrable' end, "
                  f"case when condeferred then 'deferred' end, convalidated) from pg_constraint c join pg_namespace n on n.oid = connamespace where {OWN}",
    "index": "select i.indexrelid::regclass::text, concat_ws(', ', pg_get_indexdef(i.indexrelid), indisunique, indisprimary, indisvalid, indnkeyatts) from pg_index i "
             f"join pg_class c on c.oid = indexrelid join pg_namespace n on n.oid = relnamespace where {OWN}",
    "sequence": "select schemaname || '.' || sequencename, concat_ws(', ', data_type, start_value, min_value, max_value, increment_by, cycle, cache_size, "
                "'of ' || d.refobjid::regclass || '.' || d.refobjsubid, d.deptype) from pg_sequences left join pg_depend d on d.classid = 'pg_class'::regclass and "
                "d.objid = (quote_ident(schemaname) || '.' || quote_ident(sequencename))::regclass and d.deptype in ('a', 'i') and d.refobjsubid > 0",
    "enum": f"select t.oid::regtype::text, string_agg(enumlabel, ', ' order by enumsortorder) from pg_type t join pg_enum on enumtypid = t.oid "
            f"join pg_namespace n on n.oid = typnamespace where {OWN} group by t.oid",
    "view": f"select c.oid::regclass::text, relkind::text from pg_class c join pg_namespace n on n.oid = relnamespace where relkind in ('v', 'm') and {OWN}",
    "comment": f"select c.oid::regclass || '.' || objsubid, description from pg_description d join pg_class c on c.oid = objoid and classoid = 'pg_class'::regclass "
               f"join pg_namespace n on n.oid = relnamespace where {OWN}",
}
OTHERS = ("sequence", "enum", "view", "comment")
Made = collections.namedtuple("Made", "stopped items seconds")  # items: name -> text; stopped: why the migrations did, or ""


def asked(port, query):
    with Client(applications.HOST, port, applications.DATABASE) as client:
        answer = client.run("simple", query)
    if answer.state:
        raise RuntimeError(f"{answer.state} {answer.message}: {query}")
    return [[value if value is None else value.decode() for value in row] for row in answer.rows]


def play(application, words, place, port, http, log):
    """What a command said, with the lines of its requests."""
    done = subprocess.run(applications.command(words, place, port, http), cwd=place, env=applications.environment(application, place, port),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=900, encoding="utf-8", errors="replace")
    log.write(done.stdout)
    told = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line and not line.startswith((" ", "\t")))
    return done, told


def make(application, place, ports, http, log_path):
    """Migrations, schema and requests on one server: of a pod, the last port is the one that requests go to."""
    items, begin = {}, time.monotonic()
    with log_path.open("w") as log:
        migrated, told = play(application, application.migrate, place, ports[0], http, log)
        if asked(ports[0], f"select 1 from pg_class where relname = '{application.tables}'"):
            items |= {f"migration {name}": "applied" for (name,) in asked(ports[0], application.done)}
        items |= {f"migration {name}": text for name, text in told.items() if text.startswith("failed: ")}
        if migrated.returncode:
            return Made(" ".join(migrated.stdout[-3000:].split()) or "no words", items, time.monotonic() - begin)
        for part, query in PARTS.items():
            items |= {f"{part} {name}": text for name, text in asked(ports[-1], query)}
        _, told = play(application, application.ask, place, ports[-1], http, log)
        items |= {f"request {name}": text for name, text in told.items()}
    return Made("", items, time.monotonic() - begin)


def both(start, application, folder, place):
    with start() as servers:
        tell = f"create database {applications.DATABASE}"
        with Client(applications.HOST, servers.oracle_port) as client:
            client.run("simple", tell)
        ports = ([servers.oracle_port], servers.pod_ports)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(make, application, place, each, servers.oracle_port + 10 * (number + 1), folder / f"{application.name}-{number}.log")
                       for number, each in enumerate(ports)]
            return [future.result() for future in futures]


def judge(theirs, ours):
    """item -> what it is here, of what is otherwise; if the migrations stopped, that alone."""
    if theirs.stopped:
        raise RuntimeError(f"the migrations stop on PostgreSQL too: {theirs.stopped}")
    if ours.stopped:
        return {"migrations": ours.stopped}
    return {item: ours.items.get(item, "missing") for item in theirs.items | ours.items if ours.items.get(item) != theirs.items.get(item)}


def cause(item, text, theirs, wrong):
    """After a migration that was passed over, what is missing, columns that have moved up, and requests follow from that."""
    kind, found = causes.of(drivers.Result("fail", 0, f"expected: {theirs.items.get(item)}\nGot: {text}", item))
    failed = [(item, text) for item, text in wrong.items() if item.startswith("migration ")]
    if failed and not item.startswith("migration ") and (text == "missing" or item.startswith(("request ", "column "))):
        return causes.of(drivers.Result("fail", 0, failed[0][1], failed[0][0]))
    return kind, found


def row(application, theirs, ours, wrong):
    """The line of the table: how many of each there are, and how many are the same."""
    def same(*parts):
        of = [item for item in theirs.items if item.partition(" ")[0] in parts]
        return f"{sum(ours.items.get(item) == theirs.items[item] for item in of):,} of {len(of):,}" if not ours.stopped or parts == ("migration",) else "-"
    return application.title, *(same(part) for part in ("migration", "column", "constraint", "index")), same(*OTHERS), same("request")


def run(start, options, folder, known_path):
    """Runs the applications and prints a table; returns what is new and what is known no longer."""
    known, wrong, better, rows = drivers.load(known_path, [one.name for one in applications.APPLICATIONS]), [], [], []
    sources = pathlib.Path(options.sources or folder)
    if options.out:
        pathlib.Path(options.out).mkdir(parents=True, exist_ok=True)
    chosen = [one for one in applications.APPLICATIONS if (one.quick or not options.quick) and (not options.only or one.name in options.only)]
    for application, place in zip(chosen, fetched(lambda one: applications.install(one, sources), chosen)):
        if isinstance(place, CannotGet):
            wrong.append(f"{application.name}: not run: {place}")
            continue
        theirs, ours = both(start, application, folder, place)
        here, listed = judge(theirs, ours), known[application.name]
        named = {item: listed.get(item) or cause(item, text, theirs, here) for item, text in here.items()}
        rows.append(row(application, theirs, ours, here))
        print(" | ".join((*rows[-1], f"{theirs.seconds:.0f} and {ours.seconds:.0f} s")))
        if options.out:
            write(pathlib.Path(options.out), application, theirs, here, named, folder)
        gone = [item for item, (kind, _) in listed.items() if item not in here and kind != "unsteady"]
        if options.rewrite:
            known[application.name] = named
            continue
        if options.shrink:
            known[application.name] = {item: text for item, text in listed.items() if item not in gone}
        wrong += [f"{application.name} {item}: {text[-300:]}" for item, text in here.items() if item not in listed]
        better += [] if options.shrink else [f"{application.name} {item}" for item in gone]
    if options.shrink or options.rewrite:
        drivers.save(known_path, known, HEAD)
        if not options.quick and not options.only:
            drivers.document(MARKS, HEADS, rows)
    return wrong, better


def write(out, application, theirs, here, named, folder):
    for log in folder.glob(f"{application.name}-?.log"):
        (out / log.name).write_text(log.read_text())
    with (out / f"{application.name}.txt").open("w") as file:
        for item, text in here.items():
            file.write(f"==== {item}: {', '.join(named[item])}\nPostgreSQL: {theirs.items.get(item)}\nLiger:      {text}\n")
