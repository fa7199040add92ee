"""Applications whose schemas are made by their own migrations: how each is got, how its migrations are run, what it is asked then.

Each is what its makers publish as a package (pip, Maven, Go modules, npm), at the version that stands here. `scripts/` has what runs it. A script for
requests prints a line for each: its name, a tab, its answer. One for migrations prints such a line for a migration that failed and was passed over.
"""
import dataclasses
import json
import os
import pathlib
import shutil
import zipfile

from fetch import get

SCRIPTS = pathlib.Path(__file__).parent / "scripts"
USER, DATABASE, HOST = "postgres", "application", "127.0.0.1"
LONG_S = 900  # for what no quick run gets


@dataclasses.dataclass(frozen=True)
class Application:
    """In commands, {place} is its folder, {python} its Python, {scripts} ours, {port} the server's and {http} a port of its own."""
    name: str
    title: str  # of the table in docs/clients.md
    form: str  # how it is got: pip, npm, go, maven
    packages: tuple  # what is asked for
    migrate: tuple
    ask: tuple
    done: str  # a query for the names of the migrations that were applied
    tables: str  # that query's table, which need not be there
    quick: bool = False
    environment: dict = dataclasses.field(default_factory=dict)


DJANGO = {"migrate": ("{python}", "{scripts}/django_site.py", "migrate"), "ask": ("{python}", "-W", "ignore", "{scripts}/django_site.py", "ask"),
          "done": "select app || '.' || name from django_migrations", "tables": "django_migrations"}
PSYCOPG = "psycopg[binary]==3.3.9"

APPLICATIONS = (
    Application("django", "Django 5.2.19: admin, auth, sessions, sites, flatpages, redirects", "pip", ("django==5.2.19", PSYCOPG),
                environment={"SITE": "django"}, quick=True, **DJANGO),
    Application("wagtail", "Wagtail 8.0.1", "pip", ("wagtail==8.0.1", "django==5.2.19", PSYCOPG), environment={"SITE": "wagtail"}, **DJANGO),
    Application("oscar", "django-oscar 4.2.1", "pip", ("django-oscar[test]==4.2.1", "django==5.2.19", PSYCOPG), environment={"SITE": "oscar"}, quick=True, **DJANGO),
    Application("keycloak", "Keycloak 26.4.2, its change sets by Liquibase 4.33", "maven", ("org.keycloak:keycloak-quarkus-dist:26.4.2:zip",),
                migrate=("java", "-XX:TieredStopAtLevel=1", "-cp", "{place}/lib/lib/main/*:{place}/lib/lib/boot/*", "{scripts}/Changes.java",
                         "jdbc:postgresql://{host}:{port}/{database}", "{user}"),
                ask=("python3", "{scripts}/keycloak.py", "{place}", "{http}"),
                done="select id || ' ' || author || ' ' || filename from databasechangelog", tables="databasechangelog"),
    Application("umami", "Umami 2.10.0, by Prisma 6.19", "npm",
                ("umami@2.10.0", "prisma@6.19.3", "@prisma/client@6.19.3", "@prisma/adapter-pg@7.10.1"),
                migrate=("node_modules/.bin/prisma", "migrate", "deploy"), ask=("node", "umami.mjs"),
                done="select migration_name from _prisma_migrations where finished_at is not null", tables="_prisma_migrations",
                environment={"DATABASE_URL": "postgresql://{user}@{host}:{port}/{database}", "CHECKPOINT_DISABLE": "1", "PRISMA_HIDE_UPDATE_MESSAGE": "1",
                             # The engines of WebAssembly that come with the packages are used; these are only not to be downloaded.
                             "PRISMA_QUERY_ENGINE_LIBRARY": "/bin/true", "PRISMA_SCHEMA_ENGINE_BINARY": "/bin/true"}),
    Application("miniflux", "Miniflux 2.3.5", "go", ("miniflux.app/v2@v2.3.5",), migrate=("{place}/miniflux", "-migrate"),
                ask=("python3", "{scripts}/miniflux.py", "{place}/miniflux", "{http}"), done="select version::text from schema_version", tables="schema_version",
                environment={"DATABASE_URL": "postgres://{user}@{host}:{port}/{database}?sslmode=disable"}),
    Application("mlflow", "MLflow 3.6.0, by Alembic", "pip",
                ("mlflow==3.6.0", "--", "mlflow-skinny==3.6.0", "alembic==1.16.5", "sqlalchemy==2.0.44", "psycopg2-binary==2.9.13", "cryptography==46.0.3"),
                migrate=("{python}", "{scripts}/mlflow_store.py", "migrate"), ask=("{python}", "{scripts}/mlflow_store.py", "ask"),
                done="select version_num from alembic_version", tables="alembic_version", quick=True),
    Application("n8n", "n8n's database (@n8n/db 1.36.0), by TypeORM", "npm", ("@n8n/db@1.36.0", "pg@8.23.1"), migrate=("node", "n8n.cjs", "migrate"), ask=("node", "n8n.cjs", "ask"),
                done="select name from migrations", tables="migrations",
                environment={"DB_TYPE": "postgresdb", "DB_POSTGRESDB_HOST": "{host}", "DB_POSTGRESDB_PORT": "{port}", "DB_POSTGRESDB_USER": "{user}",
                             "DB_POSTGRESDB_DATABASE": "{database}", "N8N_USER_FOLDER": "{place}/home"}),
)


def install(application, folder):
    """The application's folder below this one, with what was got."""
    place = folder.absolute() / f"application-{application.name}"
    if not (place / "complete").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        {"pip": from_pip, "npm": from_npm, "go": from_go, "maven": from_maven}[application.form](application, place)
        (place / "complete").touch()
    if application.form == "npm":
        for script in SCRIPTS.glob("*.?js"):
            shutil.copy(script, place)  # Node looks for packages beside the script
    return place


def from_pip(application, place):
    """Packages in front of `--` come without what they ask for: MLflow's would be a gigabyte."""
    get("a Python of its own", ["python3", "-m", "venv", place / "python"])
    bare = application.packages[:application.packages.index("--")] if "--" in application.packages else ()
    for options, packages in ((("--no-deps",), bare), ((), [package for package in application.packages if package not in (*bare, "--")])):
        if packages:
            get(" ".join(packages), [place / "python" / "bin" / "python", "-m", "pip", "install", "-q", *options, *packages])


def from_npm(application, place):
    """Umami's package is its source: unpacked and not installed."""
    source, *packages = application.packages if application.name == "umami" else (None, *application.packages)
    get(" ".join(packages), ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", place, *packages], LONG_S, cwd=place)
    if source:
        packed = get(source, ["npm", "pack", "--silent", source], cwd=place).strip()
        get(source, ["tar", "xzf", packed], cwd=place)
        shutil.copy(SCRIPTS / "prisma.config.ts", place)
        schema = place / "package" / "db" / "postgresql" / "schema.prisma"
        schema.write_text(schema.read_text().replace('"prisma-client-js"', '"prisma-client-js"\n  engineType = "client"', 1))
        get("Prisma's client", ["node_modules/.bin/prisma", "generate"], cwd=place, env=environment(application, place, 0))


def from_go(application, place):
    told = json.loads(get(application.title, ["go", "mod", "download", "-json", *application.packages], cwd=place))
    get(application.title, ["go", "build", "-o", place / application.name, "."], LONG_S, cwd=told["Dir"])


def from_maven(application, place):
    get(application.title, ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={application.packages[0]}", f"-DoutputDirectory={place}"], LONG_S)
    archive = next(place.glob("*.zip"))
    with zipfile.ZipFile(archive) as files:
        files.extractall(place)
    archive.unlink()
    inner = next(path for path in place.iterdir() if path.is_dir())
    for path in inner.iterdir():
        path.rename(place / path.name)
    (place / "bin" / "kc.sh").chmod(0o755)
    get(application.title, [place / "bin" / "kc.sh", "build", "--db=postgres"], LONG_S)


def names(place, port, http=0):
    return {"place": place, "python": place / "python" / "bin" / "python", "scripts": SCRIPTS, "port": port, "http": http, "host": HOST, "user": USER,
            "database": DATABASE}


def command(words, place, port, http):
    return [word.format(**names(place, port, http)) for word in words]


def environment(application, place, port):
    own = {name: text.format(**names(place, port)) for name, text in application.environment.items()}
    clean = {name: text for name, text in os.environ.items() if not name.startswith("PG")}
    return {**clean, "PGHOST": HOST, "PGPORT": str(port), "PGUSER": USER, "PGDATABASE": DATABASE, "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8", **own}
