"""The own test suites of drivers and ORMs, each test on a pod and on a PostgreSQL 15: what passes there and fails here.

What PostgreSQL fails or skips is not counted. What fails here only is listed in `known/drivers.tsv`, with its kind and cause:

    feature   Liger says that it lacks something, by a name that docs/limitations.md has
    defect    anything else
    unsteady  it may pass and may fail (conflicts, time)

A test that failed and is not listed is run once more, by itself.
"""
import collections
import concurrent.futures
import json
import pathlib
import re
import shutil
import subprocess
import time

import causes
import suites
from fetch import CannotGet, fetched

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "clients.md"
MARKS = ("<!-- own suites: written by .ci/outside/run --part drivers --shrink -->\n", "<!-- end of own suites -->\n")
HEAD = """# Tests of drivers and ORMs that pass on PostgreSQL 15 and fail here: suite, kind (drivers.py), cause, test.
# The list only shrinks: `.ci/outside/run --part drivers --shrink` takes out what passes now.
"""
Result = collections.namedtuple("Result", "status seconds message raw")
WORST = ("pass", "skip", "fail")


def steady(name):
    """A test's name without what differs from server to server and from run to run."""
    name = re.sub(r"/tmp/([A-Za-z_]+)\d+/", r"/tmp/\1/", name)
    return re.sub(r"\s+", " ", re.sub(r"(_postgresql\+psycopg)_[\d_]+", r"\1", name))


def gather(found, raw, status, seconds, message):
    """One result; a test that is told several times (its steps, its subtests) is as bad as the worst."""
    before = found.get(steady(raw))
    if before is None or WORST.index(status) > WORST.index(before.status):
        lines = (line[:400] for line in message[:200_000].splitlines())
        found[steady(raw)] = Result(status, seconds, "\n".join(lines)[-6000:], raw)


def go_results(text):
    """The tests of `go test -json` that have none below them; those without an end failed."""
    found, said, begun = {}, collections.defaultdict(list), {}
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if "Test" not in event:
            continue
        name = f"{event['Package']} {event['Test']}"
        begun.setdefault(name, True)
        if event["Action"] == "output":
            said[name].append(event["Output"])
        elif event["Action"] in WORST:
            begun[name] = False
            gather(found, name, event["Action"], event.get("Elapsed", 0), "".join(said[name]))
    for name in (name for name, open_ in begun.items() if open_):
        gather(found, name, "fail", 0, "no end\n" + "".join(said[name]))
    above = {name[:at] for name in found for at, letter in enumerate(name) if letter == "/"}
    return {name: result for name, result in found.items() if name not in above or result.status == "fail" and not any(
        other.startswith(name + "/") and more.status == "fail" for other, more in found.items())}


def play(suite, place, python, port, arguments, folder, only=()):
    """Runs a suite against a server: test -> Result, and the seconds; `suite.limit` of them: it was ended."""
    results, begin = folder / f"{suite.name}-{port}.results", time.monotonic()
    results.write_text("")
    with (folder / f"{suite.name}-{port}.log").open("w+") as log:
        child = subprocess.Popen(suites.command(suite, python, port, arguments, only), cwd=place / suite.folder, stdout=log, stderr=subprocess.STDOUT,
                                 stdin=subprocess.DEVNULL, env=suites.environment(suite, port, results))
        try:
            child.wait(suite.limit)
        except subprocess.TimeoutExpired:
            child.terminate()
            child.wait()
        log.seek(0)
        if suite.form == "go":
            found = go_results(log.read())
        else:
            found = {}
            for line in results.read_text().splitlines():
                one = json.loads(line)
                gather(found, one["test"], one["status"], one["seconds"], one["message"])
    return found, time.monotonic() - begin


def tell(port, database, statement, check=False):
    words = ["psql", "-qX", "-h", suites.HOST, "-p", str(port), "-U", suites.USER, "-d", database, "-c", statement]
    subprocess.run(words, capture_output=True, check=check)


def both(start, suite, arguments, folder, got, listed):
    """The results of a suite on PostgreSQL and on a pod, with those that had a second chance."""
    place, python = got
    with start(settings=("max_prepared_transactions=20",)) as servers:
        ports = (servers.oracle_port, servers.pod_ports[0])
        tell(ports[0], "postgres", f"create database {suites.DATABASE}", check=True)
        for port in ports:
            for statement in suite.setup:
                tell(port, suites.DATABASE, statement)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            (theirs, theirs_s), (ours, seconds) = pool.map(lambda port: play(suite, place, python, port, arguments, folder), ports)
        if theirs_s >= suite.limit or not theirs:
            raise CannotGet(f"on PostgreSQL it had no end within {suite.limit} s" if theirs else "on PostgreSQL there was no test")
        failed = (name for name, result in judge(theirs, ours).items() if result.status == "fail" and name not in listed)
        again = [ours[name].raw for name in failed if name in ours]
        if 0 < len(again) <= 40:
            second, more = play(suite, place, python, ports[1], arguments, folder, again)
            ours.update({name: result for name, result in second.items() if ours.get(name, result).status == "fail"})
            seconds += more
    return theirs, ours, seconds


def load(path, names):
    """suite -> test -> (kind, cause)."""
    known = {name: {} for name in names}
    for line in path.read_text().splitlines() if path.exists() else []:
        if line and not line.startswith("#"):
            suite, kind, cause, test = line.split("\t")
            known[suite][test] = (kind, cause)
    return known


def save(path, known, head=HEAD):
    lines = sorted(f"{suite}\t{kind}\t{cause}\t{test}\n" for suite, tests in known.items() for test, (kind, cause) in tests.items())
    path.write_text(head + "".join(lines))


def not_run(name, ours):
    """The result of a test that has none: that of the test above it, without which it does not begin."""
    above = (ours[name[:at]] for at in range(len(name) - 1, 0, -1) if name[at] == "/" and name[:at] in ours)
    return next(above, Result("fail", 0, "not run", name))._replace(raw=name)


def judge(theirs, ours):
    """test -> Liger's result, of the tests that PostgreSQL passes and Liger does not."""
    passing = (name for name, result in theirs.items() if result.status == "pass")
    found = {name: ours.get(name) or not_run(name, ours) for name in passing}
    return {name: result for name, result in found.items() if result.status != "pass"}


def run(start, options, folder, known_path):
    """Runs the suites and prints a table; returns what is new and what is known no longer."""
    known, wrong, better, rows = load(known_path, [suite.name for suite in suites.SUITES]), [], [], []
    if options.out:
        pathlib.Path(options.out).mkdir(parents=True, exist_ok=True)
    sources = pathlib.Path(options.sources or folder)
    print(f"{'suite':12}{'tests':>7}{'both pass':>11}{'feature':>9}{'defect':>8}{'skipped':>9}{'fail there':>12}{'s':>7}")
    chosen = [suite for suite in suites.SUITES if (suite.quick or not options.quick) and (not options.only or suite.name in options.only)]
    asked = {suite.name: suite.quick if options.quick else suite.whole for suite in chosen}
    for suite, got in zip(chosen, fetched(lambda suite: suites.install(suite, sources, asked[suite.name]), chosen)):
        arguments, listed = asked[suite.name], known[suite.name]
        try:
            if isinstance(got, CannotGet):
                raise got
            theirs, ours, seconds = both(start, suite, arguments, folder, got, listed)
        except CannotGet as error:
            wrong.append(f"{suite.name}: not run: {error}")
            continue
        here_only = judge(theirs, ours)
        named = {name: listed.get(name) or causes.of(result) for name, result in here_only.items()}
        passing = sum(result.status == "pass" for result in theirs.values()) - len(here_only)
        skipped, there = (sum(result.status == status for result in theirs.values()) for status in ("skip", "fail"))
        kinds = collections.Counter(kind for kind, _ in named.values())
        rows.append((suite, len(theirs), passing, kinds["feature"], kinds["defect"] + kinds["unsteady"], skipped, there, seconds))
        print("{:12}{:7}{:11}{:9}{:8}{:9}{:12}{:7.0f}".format(suite.name, *rows[-1][1:]))
        if options.out:
            for log in folder.glob(f"{suite.name}-*.log"):
                shutil.copy(log, pathlib.Path(options.out))
            write(pathlib.Path(options.out) / f"{suite.name}.txt", here_only, named)
        gone = [name for name, (kind, _) in listed.items() if theirs.get(name, Result("skip", 0, "", "")).status == "pass"
                and name not in here_only and kind != "unsteady"]
        if options.rewrite:
            known[suite.name] = named
        elif options.shrink:
            known[suite.name] = {name: text for name, text in listed.items() if name not in gone}
        if not options.rewrite:
            wrong += [f"{suite.name} {name}: {' '.join(here_only[name].message.split())[-300:]}" for name in here_only if name not in listed]
            better += [] if options.shrink else [f"{suite.name} {name}" for name in gone]
    if options.shrink or options.rewrite:
        save(known_path, known)
        if not options.quick and not options.only:
            heads = ("suite", "tests", "pass on both", "a feature is missing", "a defect", "skipped", "fail on PostgreSQL too")
            document(MARKS, heads, [(suite.title, *numbers) for suite, *numbers, _ in rows])
    return wrong, better


def write(path, here_only, named):
    counts = collections.Counter(named.values())
    with path.open("w") as out:
        for (kind, cause), count in counts.most_common():
            out.write(f"{count:5} {kind} {cause}\n")
        for name, result in here_only.items():
            out.write(f"\n==== {name}: {': '.join(named[name])}\n{result.message}\n")


def document(marks, heads, rows):
    """Writes the figures of a whole run into docs/clients.md, between these marks."""
    table = [f"| {' | '.join(heads)} |\n", "|---" * len(heads) + "|\n"]
    for title, *numbers in rows:
        table.append(f"| {title} | " + " | ".join(f"{number:,}" if isinstance(number, int) else number for number in numbers) + " |\n")
    before, _, rest = DOCUMENT.read_text().partition(marks[0])
    DOCUMENT.write_text(before + marks[0] + "".join(table) + marks[1] + rest.partition(marks[1])[2])
