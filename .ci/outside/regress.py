"""PostgreSQL 15's own regression files, statement by statement through psql, on a pod and on a PostgreSQL 15: what is answered otherwise.

The files come from Debian's source package; nothing of them is kept here but numbers of statements. The classes:

    same      every byte that psql prints
    words     the same SQLSTATE in other words, or other hints and notices
    order     the same rows in another order
    plan      EXPLAIN, which tells how and not what
    feature   Liger says that it lacks something (0A000, a syntax, a type, a function or an object of the system that is not there)
    follows   it speaks of an object on which an earlier statement was already answered otherwise, or its block had failed, or PostgreSQL
              refuses to drop or alter what only an object needs that an earlier statement did not make here
    refused   an error where PostgreSQL has none
    state     an error where PostgreSQL has another
    accepted  taken, though PostgreSQL refuses it
    rows      other rows, tags or notices
    late      no answer within the patience
    gone      the host ended
"""
import hashlib
import pathlib
import re
import subprocess
import tarfile
import tempfile
import time

import psql

CLASSES = ("same", "words", "order", "plan", "feature", "follows", "refused", "state", "accepted", "rows", "late", "gone")
ENVIRONMENT = {"PGTZ": "America/Los_Angeles", "PGDATESTYLE": "Postgres, MDY", "PGAPPNAME": "pg_regress",
               "PGOPTIONS": "-c intervalstyle=postgres_verbose", "LC_MESSAGES": "C", "LANG": "C", "PG_LIBDIR": "/nowhere",
               "PG_DLSUFFIX": ".so"}
MISSING = {"0A000", "42601", "42883", "42704", "42P01", "42703", "42P18", "3F000", "42804", "42846", "22023", "42710", "42P16", "42809"}
PLAIN_MISSING = {"0A000", "42601", "42883", "42704"}
NAMES = re.compile(
    r"\b(?:table|into|from|update|view|index|on|function|procedure|routine|owner\s+to|type|sequence|domain|schema|only|join|aggregate|operator|trigger|rule|policy|"
    r"role|user|group|collation|cast|class|family|statistics|publication|execute|prepare|deallocate|cursor\s+for|declare|fetch|copy|call|cluster|reindex|lock|analyze|vacuum)"
    r"\s+(?:if\s+(?:not\s+)?exists\s+|only\s+|concurrently\s+|all\s+in\s+)*((?:\"[^\"]+\"|[a-z_][\w$]*)(?:\.(?:\"[^\"]+\"|[a-z_][\w$]*))?)", re.I)
LISTS = re.compile(r"\b(?:inherits|partition\s+of|references|like)\s*\(?\s*([a-z_][\w$., ]*)|\\d\S*\s+([\w.\"]+)", re.I)
CALLS = re.compile(r"([a-z_]\w*)\s*\(", re.I)
COMMON = {"select", "if", "not", "exists", "only", "the", "a", "generate_series", "values", "unnest", "lateral", "current_date", "pg_class", "pg_attribute",
          "pg_type", "pg_proc", "pg_namespace", "pg_index", "pg_constraint", "pg_catalog", "information_schema", "each", "public", "in", "where", "set"}


def source(folder):
    """The folder `src/test/regress` of PostgreSQL 15, from Debian's source package: the newest that there is."""
    found = list(pathlib.Path(folder).glob("postgresql-15*/src/test/regress"))
    if found:
        return found[0]
    lists = pathlib.Path(folder) / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    key = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    where = pathlib.Path(folder) / "sources.list"
    where.write_text("".join(f"deb-src {key} http://deb.debian.org/{name}\n" for name in ("debian-security bookworm-security main", "debian bookworm main")))
    options = ["-o", f"Dir::Etc::SourceList={where}", "-o", "Dir::Etc::SourceParts=/dev/null", "-o", f"Dir::State::Lists={lists}"]
    subprocess.run(["apt-get", *options, "update", "-qq"], check=True, stdout=subprocess.DEVNULL)
    known = subprocess.run(["apt-cache", *options, "showsrc", "postgresql-15"], check=True, capture_output=True, text=True).stdout
    versions = list(dict.fromkeys(re.findall(r"^Version: (\S+)$", known, re.M)))
    for version in sorted(versions, key=lambda text: [int(part) for part in re.findall(r"\d+", text)], reverse=True):
        got = subprocess.run(["apt-get", *options, "source", "-qq", "--download-only", f"postgresql-15={version}"], cwd=folder, capture_output=True)
        archive = next(iter(pathlib.Path(folder).glob("*.orig.tar.*")), None)
        if got.returncode == 0 and archive:
            with tarfile.open(archive) as tar:
                tar.extractall(folder, [member for member in tar.getmembers() if "/src/test/regress/" in member.name])
            return source(folder)
    raise SystemExit(f"error: no source package of PostgreSQL 15 can be had ({', '.join(versions)}): this needs Debian's archive")


def schedule(regress, first, last):
    """The files in the order of PostgreSQL's own schedule, those whose names begin with `first` to `last`; behind `test_setup`."""
    names = [name for line in (regress / "parallel_schedule").read_text().splitlines() if line.startswith("test:") for name in line[5:].split()]
    return ["test_setup"] + [name for name in names if first <= name[0] <= last and name != "test_setup"]


class Dirty:
    """The names of what earlier statements have left otherwise on the two sides."""

    def __init__(self):
        self.names = set()
        # All words of statements that made nothing here.
        self.words = set()

    @staticmethod
    def named(text):
        lists = [name for pair in LISTS.findall(text) for part in pair for name in part.split(",")]
        names = (name.strip().lower().replace('"', "").split(".")[-1] for name in NAMES.findall(text) + lists)
        return {name.split(" ")[0] for name in names if name}

    @staticmethod
    def of(text):
        text = re.sub(r"--[^\n]*", "", text)
        return (Dirty.named(text) | {name.lower() for name in CALLS.findall(text)}) - COMMON

    def add(self, text):
        text = re.sub(r"--[^\n]*", "", text)
        self.names |= self.named(text) - COMMON

    def refused(self, text):
        self.words |= set(re.findall(r"[a-z_]\w*", re.sub(r"--[^\n]*", "", text).lower()))

    def was_needed(self, text):
        """Whether what is dropped or altered was named by a statement that made nothing here."""
        found = re.match(r"\s*(?:drop\s+\w+|alter\s+(?:domain|type))\s+(?:if\s+exists\s+|by\s+)?(\w+)", re.sub(r"--[^\n]*", "", text), re.I)
        return bool(found) and found[1].lower() in self.words

    def made_anew(self, text):
        """What is made or dropped alike on both sides is clean."""
        found = re.match(r"(?is)(?:\s|--[^\n]*\n)*(create|drop)\b", text)
        if found:
            self.names -= {name.lower().replace('"', "").split(".")[-1] for name in NAMES.findall(re.sub(r"--[^\n]*", "", text))[:1]}

    def touches(self, text):
        return bool(self.of(text) & self.names)


def judge(unit, number, ours, theirs, dirty, block_failed):
    """The class of one answer."""
    if number in ours.ends:
        return ours.ends[number]
    mine, other = ours.text.get(number, ""), theirs.text.get(number, "")
    if number not in ours.state and number in theirs.state:
        return "follows"  # psql has left the script before it
    if mine == other:
        return "same"
    my_error, other_error = ("ERROR:" in mine or "FATAL:" in mine), ("ERROR:" in other or "FATAL:" in other)
    state, other_state = ours.state.get(number, "00000"), theirs.state.get(number, "00000")
    if my_error and other_error and state == other_state:
        return "words"
    if re.match(r"\s*explain\b", re.sub(r"--[^\n]*", "", unit), re.I) and not other_error and not my_error:
        return "plan"
    if my_error and state == "0A000":
        return "feature"
    if (my_error and state == "25P02" and block_failed) or dirty.touches(unit):
        return "follows"
    if my_error and not other_error:
        return "feature" if state in PLAIN_MISSING else "refused"
    if my_error:
        return "feature" if state in ("42601", "42883", "42704") else "state"
    if other_error:
        ends = re.match(r"\s*(commit|end|savepoint|rollback|release)\b", re.sub(r"--[^\n]*", "", unit), re.I)
        needed = other_state in ("2BP01", "0A000") and dirty.was_needed(unit)
        return "follows" if needed or ends and block_failed else "accepted"
    if sorted(mine.split("\n")) == sorted(other.split("\n")):
        return "order"
    rows, other_rows = (re.sub(r"(?m)^(NOTICE|WARNING|INFO|DETAIL|HINT|LINE \d+|CONTEXT|LOCATION):.*\n?|^ *\^\n", "", text) for text in (mine, other))
    return "words" if rows == other_rows else "rows"


def compare(name, parts, ours, theirs, dirty):
    """(number, class) of each unit of a file."""
    found, failed = [], False
    for number, unit in enumerate(parts):
        kind = judge(unit, number, ours, theirs, dirty, failed)
        bare = re.sub(r"--[^\n]*", "", unit).strip()
        if re.match(r"(begin|start transaction)\b", bare, re.I) or re.match(r"(commit|rollback|end|abort)\b(?!.*\bto\b)", bare, re.I):
            failed = False
        if kind in ("feature", "refused", "state", "accepted", "late", "gone", "follows"):
            failed = failed or kind not in ("accepted",)
            if not re.match(r"(select|explain|show|values|table)\b", bare, re.I) or re.search(r"\binto\b", bare, re.I):
                dirty.add(unit)
                if kind not in ("accepted",):
                    dirty.refused(unit)
        elif kind == "rows" and re.match(r"(insert|update|delete|merge|create|alter|drop|\\copy)\b", bare, re.I):
            dirty.add(unit)
        elif kind in ("same", "words") and ours.state.get(number) == "00000":
            dirty.made_anew(unit)
        found.append((number, kind))
    return found


def ranges(numbers):
    """1,2,3,7 as 1-3,7."""
    out, numbers = [], sorted(numbers)
    for number in numbers:
        if out and out[-1][1] == number - 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in out)


def numbers(text):
    return {number for part in text.split(",") if part for a, _, b in [part.partition("-")] for number in range(int(a), int(b or a) + 1)}


def load(path):
    """What is known: file -> (checksum of its text, {number: class})."""
    known = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        if line and not line.startswith("#"):
            name, checksum, kind, where = line.split("\t")
            known.setdefault(name, (checksum, {}))[1].update({number: kind for number in numbers(where)})
    return known


def save(path, results, head):
    lines = [head]
    for name in sorted(results):
        checksum, found = results[name]
        for kind in CLASSES[1:]:
            of_kind = [number for number, other in found if other == kind]
            if of_kind:
                lines.append(f"{name}\t{checksum}\t{kind}\t{ranges(of_kind)}\n")
    path.write_text("".join(lines))


HEAD = """# What PostgreSQL 15's regression files meet otherwise here: file, checksum of its text, class (regress.py), numbers of its statements.
# The list only shrinks: `.ci/outside/run --shrink` takes out what is answered as by PostgreSQL now.
"""


def run(start, options, folder, known_path):
    """Runs the files and prints a table; returns what is new and what is known no longer."""
    with start(locale="C") as servers:
        return run_files(servers, options, folder, known_path)


def run_files(servers, options, folder, known_path):
    regress = source(options.sources or folder)
    environment = {**ENVIRONMENT, "PG_ABS_SRCDIR": str(regress), "PG_ABS_BUILDDIR": str(folder)}
    known, results, wrong, better = load(known_path), {}, [], []
    dirty, begin = Dirty(), time.monotonic()
    print(f"{'file':24}{'all':>6}" + "".join(f"{kind:>9}" for kind in CLASSES) + f"{'s':>7}")
    for name in schedule(regress, *options.files.split("-")):
        if options.only and name not in options.only and name != "test_setup":
            continue
        text = (regress / "sql" / f"{name}.sql").read_text(errors="surrogateescape").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        checksum = hashlib.sha256(text.encode()).hexdigest()[:8]
        with tempfile.TemporaryDirectory(prefix="rows-") as rows:
            parts = psql.units(text, rows, regress)
            theirs = psql.run(servers.oracle_port, parts, environment, 60)
            start = time.monotonic()
            ours = psql.run(servers.pod_ports[0], parts, environment, options.patience, lambda: servers.wait(0))
        found = compare(name, parts, ours, theirs, dirty)
        results[name] = (checksum, found)
        counts = {kind: sum(1 for _, other in found if other == kind) for kind in CLASSES}
        print(f"{name:24}{len(parts):6}" + "".join(f"{counts[kind] or '':>9}" for kind in CLASSES) + f"{time.monotonic() - start:7.1f}")
        if options.out:
            write_differences(pathlib.Path(options.out) / f"{name}.txt", parts, found, ours, theirs)
        if options.shrink or name not in known and not known:
            continue
        listed = known.get(name, (checksum, {}))
        if listed[0] != checksum:
            print(f"  (its text is another than that of the list: {checksum}, not {listed[0]})")
            continue
        for number, kind in found:
            before = listed[1].get(number, "same")
            if CLASSES.index(kind) > CLASSES.index(before):
                wrong.append(f"{name} {number}: {kind} (before: {before})\n{show(parts, number, ours, theirs)}")
            elif kind == "same" != before:
                better.append(f"{name} {number}")
    totals = {kind: sum(1 for _, found in results.values() for _, other in found if other == kind) for kind in CLASSES}
    every = sum(totals.values())
    print(f"{'all':24}{every:6}" + "".join(f"{totals[kind] or '':>9}" for kind in CLASSES) + f"{time.monotonic() - begin:7.1f}")
    print(f"same: {totals['same'] / every:.1%} of {every}; with the same SQLSTATE or rows in other words or order: "
          f"{(totals['same'] + totals['words'] + totals['order']) / every:.1%}")
    if options.shrink:
        kept = load(known_path)
        for name, (checksum, found) in results.items():
            before = kept.get(name)
            if before and before[0] == checksum and not options.rewrite:
                found = [(number, min(kind, before[1].get(number, "same"), key=CLASSES.index)) for number, kind in found]
            kept[name] = (checksum, dict(found))
        save(known_path, {name: (checksum, sorted(found.items())) for name, (checksum, found) in kept.items()}, HEAD)
    return wrong, better


def show(parts, number, ours, theirs):
    def cut(text):
        lines = text.rstrip().split("\n")
        return "\n".join(f"    {line[:180]}" for line in lines[:14]) + ("\n    .." if len(lines) > 14 else "")
    return f"{cut(parts[number].strip())}\n  PostgreSQL:\n{cut(theirs.text.get(number, ''))}\n  Liger:\n{cut(ours.text.get(number, ''))}\n"


def write_differences(path, parts, found, ours, theirs):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as out:
        for number, kind in found:
            if kind != "same":
                out.write(f"==== {number} {kind} {ours.state.get(number, '')} {theirs.state.get(number, '')}\n{show(parts, number, ours, theirs)}")
