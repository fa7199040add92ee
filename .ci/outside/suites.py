"""The suites of drivers and ORMs: how each is got, what its database needs, how it is run against a server, and how it tells its results.

A suite is a folder of files that its makers publish with their package: an sdist (`pip download`) or a Go module (`go mod download`), at the version
that stands here. psycopg 3 is not among them: neither its sdist nor a package of Debian's that can be had carries its tests; those of psycopg2 are.
"""
import dataclasses
import json
import os
import pathlib
import shutil
import tarfile

from fetch import get

PLUGINS = pathlib.Path(__file__).parent / "plugins"
USER, DATABASE, HOST = "postgres", "suite", "127.0.0.1"


@dataclasses.dataclass(frozen=True)
class Suite:
    """`form` is what runs it: pytest, django (its own runtests.py) or go."""
    name: str
    title: str  # of the table in docs/clients.md
    source: str  # what `pip download` or `go mod download` is asked for
    form: str
    whole: tuple  # arguments of a whole run: files, labels, packages
    quick: tuple = ()  # and of a quick one; none: not in it
    packages: tuple = ()  # for pip, to run it
    folder: str = "."  # where it is run, in its source
    setup: tuple = ()  # SQL before it, on both servers; what a server refuses it lacks
    environment: dict = dataclasses.field(default_factory=dict)  # with {port}
    options: tuple = ()  # with {port}; in front of the arguments
    limit: int = 400  # seconds for one server
    left_out: tuple = ()  # expressions for pytest's -k, or whole names of tests


PYTEST = ("pytest==9.2.0", "pytest-timeout==2.4.0", "pytest-xdist==3.8.0")
PG = {"PGHOST": HOST, "PGPORT": "{port}", "PGUSER": USER, "PGDATABASE": DATABASE}

SUITES = (
    Suite("sqlalchemy", "SQLAlchemy 2.1.9, with psycopg: its suite for dialects, and its tests of PostgreSQL's", "sqlalchemy==2.1.9", "pytest",
          whole=("test/dialect/test_suite.py", "test/dialect/postgresql"),
          quick=tuple(f"test/dialect/postgresql/test_{name}.py" for name in ("reflection", "query", "on_conflict", "dialect")),
          packages=("sqlalchemy==2.1.9", "psycopg[binary]==3.3.9", *PYTEST),
          setup=("create schema test_schema", "create schema test_schema_2", "create extension hstore", "create extension citext"),
          options=("-p", "sqlalchemy_lacks", "--maxfail=100000", "--dburi", f"postgresql+psycopg://{USER}@{HOST}:{{port}}/{DATABASE}"),
          # Ranges are not there; each of these is 1,228 tests, most of them of pure Python.
          left_out=("not RangeRoundTrip",)),
    Suite("psycopg2", "psycopg2 2.9.13", "psycopg2==2.9.13", "pytest", whole=("tests",),
          quick=tuple(f"tests/test_{name}.py" for name in (
              "connection", "cursor", "async", "copy", "errcodes", "extras_dictcursor", "fast_executemany", "types_basic", "types_extras", "dates",
              "transaction", "psycopg2_dbapi20", "quote", "with")),
          packages=("psycopg2-binary==2.9.13", *PYTEST), setup=("create extension hstore",),
          environment={"PSYCOPG2_TESTDB": DATABASE, **PG},
          # A wait in libpq is ended with its process only: a worker of xdist.
          options=("-n", "1", "--timeout-method", "thread")),
    Suite("asyncpg", "asyncpg 0.32.0", "asyncpg==0.32.0", "pytest", whole=("tests",),
          quick=tuple(f"tests/test_{name}.py" for name in (
              "prepare", "cursor", "copy", "record", "introspection", "cache_invalidation", "codecs", "listeners", "execute")),
          packages=("asyncpg==0.32.0", "distro==1.9.0", *PYTEST),
          environment=PG,
          # Rows without an order come by their primary key here: the first leaves its table to all that follow. The second asks for 100 connections
          # one behind the other, and its client complains of some of them at about every second run, with PostgreSQL too.
          left_out=("not Standby and not standby and not test_executemany_client_failure_in_transaction and not test_pool_config_persistence",)),
    Suite("pgx", "pgx 5.12.0", "github.com/jackc/pgx/v5@v5.12.0", "go", whole=("./...",), quick=(".", "./stdlib/..."),
          setup=("create extension hstore", "create extension ltree", "create domain uint64 as numeric(20,0)",
                 "create user \" tricky, ' } \"\" \\ test user \" superuser password 'secret'"),
          environment={"PGX_TEST_DATABASE": f"host={HOST} port={{port}} user={USER} dbname={DATABASE}",
                       "PGX_TEST_TCP_CONN_STRING": f"host={HOST} port={{port}} user={USER} dbname={DATABASE}", "PGX_TEST_STRESS_FACTOR": "1"}),
    Suite("pq", "lib/pq 1.12.3", "github.com/lib/pq@v1.12.3", "go", whole=(".", "./hstore"), quick=(".", "./hstore"),
          setup=("create extension hstore", "create role pqgo superuser login"), environment={**PG, "PGUSER": "pqgo", "PGSSLMODE": "disable"},
          # These give a server 100 ms to answer, and panic otherwise: then nothing behind them is run.
          left_out=tuple(f"TestListener{name}" for name in ("Listen", "Unlisten", "UnlistenAll", "FailedQuery", "Reconnect", "Close", "Ping"))),
    Suite("django", "Django 5.2.19, with psycopg: its tests of the database", "django==5.2.19", "django", folder="tests",
          whole=("backends", "transactions", "transaction_hooks", "queries", "aggregation", "aggregation_regress", "annotations", "schema", "migrations",
                 "introspection", "inspectdb", "indexes", "constraints", "expressions", "expressions_case", "expressions_window", "lookup", "ordering",
                 "model_fields", "select_for_update", "bulk_create", "db_functions", "prefetch_related", "dates", "datetimes",
                 "timezones", "delete", "update", "get_or_create", "raw_query", "composite_pk", "db_utils", "custom_lookups", "many_to_many",
                 "model_inheritance", "sessions_tests", "contenttypes_tests", "fixtures", "serializers", "migrate_signals", "distinct_on_fields"),
          quick=("backends", "transactions", "select_for_update", "bulk_create", "get_or_create"),
          packages=("django==5.2.19", "psycopg[binary]==3.3.9", "jinja2==3.1.6", "pyyaml==6.0.4"), environment=PG,
          options=("--settings=django_settings", "--keepdb", "--noinput", "--parallel=1", "-v0"), limit=900,
          # Two transactions of these write to the same rows, and stay open: all that follow in their class meet conflicts (40001).
          left_out=("queries.test_bulk_update.BulkUpdateTests.test_database_routing",
                    "queries.test_bulk_update.BulkUpdateTests.test_database_routing_batch_atomicity")),
)


def install(suite, folder, arguments):
    """(the suite's source in a folder of its own, the Python that runs it), so that these arguments need nothing else."""
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    place, python = folder / suite.name, folder / f"{suite.name}-python" / "bin" / "python"
    if suite.form == "go":
        if not place.exists():
            told = get(suite.source, ["go", "mod", "download", "-json", suite.source], cwd=folder)
            # The module cache is read-only, and some tests write beside themselves.
            shutil.copytree(json.loads(told)["Dir"], place, copy_function=shutil.copyfile)
            for path in [place, *place.rglob("*")]:
                path.chmod(0o755)
        # Both servers' runs would build them at the same time otherwise.
        get(f"what the tests of {suite.source} need", ["go", "test", "-vet=off", "-exec", "true", *arguments], 400, cwd=place)
        return place, None
    complete = python.parent.parent / "complete"
    if not complete.exists():
        get("a Python of its own", ["python3", "-m", "venv", python.parent.parent])
        get(" ".join(suite.packages), [python, "-m", "pip", "install", "-q", *suite.packages])
        complete.touch()
    if not place.exists():
        name = suite.source.partition("==")[0]
        sdist = folder / f"{name}-sdist"
        get(f"the source of {suite.source}", [python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name, "-d", sdist, suite.source])
        with tarfile.open(next(sdist.glob("*.tar.gz"))) as tar:
            tar.extractall(sdist, filter="data")
        source = next(path for path in sdist.iterdir() if path.is_dir())
        if suite.name == "asyncpg":
            shutil.rmtree(source / "asyncpg")  # not compiled: the installed one is
        source.rename(place)
    return place, python


def command(suite, python, port, arguments, only):
    """The words to run these arguments, or of them these tests only (by the names that the suite gave them)."""
    options = [word.format(port=port) for word in suite.options]
    if suite.form == "go":
        run = ["-run", "^(" + "|".join(sorted({test.partition(" ")[2].partition("/")[0] for test in only})) + ")$"] if only else []
        skip = ["-skip", "^(" + "|".join(suite.left_out) + ")$"] if suite.left_out else []
        return ["go", "test", "-vet=off", "-count=1", "-json", "-p", "1", "-timeout=100s", *run, *skip, *arguments]
    if suite.form == "django":
        return [python, "runtests.py", *options, *(only or arguments)]
    choice = ["-k", suite.left_out[0]] if suite.left_out and not only else []
    return [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "results", "--timeout", "20", *options, *choice, *(only or arguments)]


def environment(suite, port, results):
    own = {name: text.format(port=port) for name, text in suite.environment.items()}
    clean = {name: text for name, text in os.environ.items() if not name.startswith("PG")}
    return {**clean, **own, "PYTHONPATH": str(PLUGINS), "PYTHONDONTWRITEBYTECODE": "1", "OUTSIDE_RESULTS": str(results),
            "OUTSIDE_LEFT_OUT": " ".join(suite.left_out), "LC_ALL": "C.UTF-8"}
