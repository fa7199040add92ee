"""Many mutants in one tree, each behind a switch: one build, and then only tests are run.

The tool in schemata/ rewrites the sources, switch/ is the crate that they ask. What the compiler refuses with a switch
is taken out and asked without one, all of it together: what it refuses then as well is unviable, and the rest is left
to whoever builds a tree for each mutant. Every test runs in a process of its own. A run without a mutant notes how
long each takes and which switches it comes to; a mutant meets those that come to its switch, the fastest first, until
one fails twice in a row or does not end. The state beside the results holds what was found out, so a run that was
interrupted goes on, and after a change only programs that were built anew are asked again."""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

from trees import ABOVE, BELOW_SQL, CAUGHT, MISSED, ROOT, TIMED_OUT, UNVIABLE
from trees import committed, crate_of, make_tree, run, span_of, tests_of

HERE = pathlib.Path(__file__).resolve().parent
# Tests that go through the logic files, and how they are told to take one: each file counts as a test.
BY_FILE = {("logic", "answers_are_postgresql_s"), ("pooled", "answers_are_postgresql_s"),
           ("definitions", "what_is_printed_of_views_and_checks_is_the_same_again")}
# What a test may take of the machine, so that a mutant without end does not take all of it.
LIMITS = ["prlimit", f"--data={6 << 30}", f"--fsize={16 << 30}", "--core=0"]
SECONDS_LEAST, TIMES = 20, 5
# What compiles, but not with a switch.
ALONE = "alone"


def above():
    """What a mutant below SQL meets beside the tests of its crate: crates and tests."""
    return [(package.removeprefix("liger-"), test) for package, tests in ABOVE for test in tests]


class AtOnce:
    def __init__(self, mutants, environment, options):
        self.numbered = {number: mutant for number, mutant in enumerate(mutants, 1)}
        self.options, self.tree, self.files = options, options.out / "switched", committed()
        self.environment = {**environment, "RUST_BACKTRACE": "0"}
        self.crates = sorted({crate_of(mutant) for mutant in mutants})
        self.path = options.out / f"sample-{options.seed}.json"
        self.state = {"without": {}, "reach": {}}
        if self.path.exists():
            self.state = json.loads(self.path.read_text())
        self.tests, self.lock = {}, threading.Lock()

    def save(self):
        self.path.with_suffix(".new").write_text(json.dumps(self.state, indent=1))
        self.path.with_suffix(".new").rename(self.path)

    # Building.

    def tool(self):
        """The program that rewrites sources."""
        target = ROOT / "target" / "tools" / "schemata"
        command = ["cargo", "build", "--quiet", "--locked", "--manifest-path", HERE / "schemata" / "Cargo.toml", "--target-dir", target]
        if subprocess.run(command).returncode:
            sys.exit("what puts mutants behind switches cannot be built")
        return target / "debug" / "schemata"

    def switched(self, numbers):
        """The files of the tree with the switches of these mutants, and where they stand."""
        folder = self.options.out / "rewritten"
        make_tree(folder, {path: self.files[path] for path in {pathlib.Path(self.numbered[n]["file"]) for n in numbers}})
        asked = json.dumps([{"number": number, **self.numbered[number]} for number in numbers])
        answer = subprocess.run([self.tool(), folder], input=asked, capture_output=True, text=True)
        if answer.returncode:
            sys.exit(answer.stderr)
        answer, files = json.loads(answer.stdout), dict(self.files)
        for path in folder.rglob("*.rs"):
            files[path.relative_to(folder)] = (path.read_bytes(), 0o644)
        for path in [pathlib.Path("Cargo.toml"), pathlib.Path("src/lib.rs")]:
            files["crates/mutant" / path] = ((HERE / "switch" / path).read_bytes(), 0o644)
        for crate in {crate_of(self.numbered[number]) for number in numbers}:
            path = pathlib.Path("crates", crate, "Cargo.toml")
            content, mode = files[path]
            assert content.count(b"\n[dependencies]\n") == 1
            added = content.replace(b"\n[dependencies]\n", b"\n[dependencies]\nliger-mutant = { path = \"../mutant\" }\n")
            files[path] = (added, mode)
        return files, answer["places"], answer["without"]

    def plain(self, numbers):
        """The files of the tree with these mutants as they are, and where they stand; not those within others."""
        files, places, left = dict(self.files), [], []
        for number in sorted(numbers, key=lambda number: self.numbered[number]["name"]):
            mutant = self.numbered[number]
            path, text = pathlib.Path(mutant["file"]), self.files[pathlib.Path(mutant["file"])][0].decode()
            begin, end = (len(text[:at].encode()) for at in span_of(text, mutant))
            if any(place["file"] == mutant["file"] and begin < place["to"] and place["from"] < end for place in places):
                left.append(number)
                continue
            places.append({"number": number, "file": mutant["file"], "from": begin, "to": end})
        for path in {place["file"] for place in places}:
            content, mode = self.files[pathlib.Path(path)]
            for place in sorted((p for p in places if p["file"] == path), key=lambda place: -place["from"]):
                replacement = self.numbered[place["number"]]["replacement"].encode()
                content = content[:place["from"]] + replacement + content[place["to"]:]
                for later in places:
                    if later["file"] == path and later["from"] > place["from"]:
                        shift = len(replacement) - (place["to"] - place["from"])
                        later["begin"], later["end"] = later["begin"] + shift, later["end"] + shift
                place["begin"], place["end"] = place["from"], place["from"] + max(1, len(replacement))
            files[pathlib.Path(path)] = (content, mode)
        return files, places, left

    def cargo(self, arguments):
        """What a cargo command tells: programs that it made, and the compiler's errors."""
        command = ["cargo", *arguments, "--offline", "--message-format=json"]
        told = subprocess.run(command, cwd=self.tree, env=self.environment, capture_output=True, text=True)
        lines = [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]
        errors = [line["message"] for line in lines if line["reason"] == "compiler-message" and line["message"]["level"] == "error"]
        errors = [error for error in errors if error["spans"]]
        if told.returncode and not errors:
            sys.exit(told.stderr)
        return lines, errors

    def refused(self, arguments, files, places):
        """What cargo tells, and which of the mutants in the tree its errors are about."""
        make_tree(self.tree, files)
        lines, errors = self.cargo(arguments)
        numbers = {}
        for error in errors:
            numbers.setdefault(self.about(error, places), error["message"])
        return lines, numbers

    def about(self, error, places):
        """The mutant that an error of the compiler is about: where it points to, or else what is next to that."""
        spans = sorted(error["spans"], key=lambda span: not span["is_primary"])
        spans += [span for child in error["children"] for span in child["spans"]]
        for span in spans:
            around = [place for place in places if place["file"] == span["file_name"]
                      and place["begin"] < span["byte_end"] and span["byte_start"] < place["end"]]
            if around:
                return min(around, key=lambda place: place["end"] - place["begin"])["number"]
        near = [(abs(place["begin"] - span["byte_start"]), place["number"]) for span in spans for place in places
                if place["file"] == span["file_name"]]
        if not near:
            sys.exit(f"an error of no mutant: {error['rendered']}")
        return min(near)[1]

    def build(self):
        """The tree with every mutant that can have a switch. Which have none is in the state then."""
        without = self.state["without"]
        check = ["check", "--lib", *(word for crate in self.crates for word in ("-p", f"liger-{crate}"))]
        kept, asked = [number for number, mutant in self.numbered.items() if mutant["name"] not in without], []
        while True:
            files, places, formless = self.switched(kept)
            _, numbers = self.refused(check, files, places)
            print(f"{len(places)} mutants with a switch, {len(numbers) + len(formless)} cannot have one")
            asked += [*numbers, *formless]
            kept = [number for number in kept if number not in asked]
            if not numbers:
                break
        while asked:
            alone, there, left = self.plain(asked)
            _, numbers = self.refused(check, alone, there)
            print(f"{len(there)} of these without a switch, {len(numbers)} of them do not compile")
            for number in numbers or [place["number"] for place in there]:
                without[self.numbered[number]["name"]] = UNVIABLE if numbers else ALONE
            asked = [number for number in asked if number not in numbers] if numbers else left
        self.save()
        return files, places

    def programs(self, files, places):
        """All programs of tests: under what it is called, where each is, and its package's folder."""
        wanted = {(crate, test) for crate in self.crates for test in ["lib", *tests_of(self.tree, crate)]}
        wanted |= {(crate, test) for crate, test in above() if set(self.crates) & set(BELOW_SQL) and not self.options.own}
        command = ["test", "--no-run", "--lib"]
        command += [word for crate in sorted({crate for crate, _ in wanted}) for word in ("-p", f"liger-{crate}")]
        command += [word for test in sorted({test for _, test in wanted} - {"lib"}) for word in ("--test", test)]
        lines, numbers = self.refused(command, files, places)
        if numbers:
            sys.exit(f"the tests cannot be built with {[self.numbered[number]['name'] for number in numbers]}: {numbers}")
        made = {}
        for line in lines:
            if line["reason"] == "compiler-artifact" and line["executable"] and line["profile"]["test"]:
                folder = pathlib.Path(line["manifest_path"]).parent
                label = folder.name, "lib" if "lib" in line["target"]["kind"] else line["target"]["name"]
                if label in wanted:
                    made[" ".join(label)] = (line["executable"], folder)
        return made

    # Running.

    def run_test(self, test, variables, seconds=None):
        """The exit code of one test with these variables, or None if it did not end in time, and its seconds."""
        (program, folder), name, logic_file = test["program"], test["name"], test["file"]
        variables = {**self.environment, **variables, "CARGO_MANIFEST_DIR": str(folder)}
        variables |= {"LOGIC_FILE": logic_file} if logic_file else {}
        with tempfile.TemporaryDirectory(prefix="lm", ignore_cleanup_errors=True) as scratch:
            begun = time.monotonic()
            code = run([*LIMITS, program, "--exact", name], seconds, cwd=folder, env={**variables, "TMPDIR": scratch},
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return code, time.monotonic() - begun

    def list_tests(self, programs):
        """All tests there are: under its name each, how it is run."""
        logic = sorted(path.stem for path in (self.tree / "crates/sql/tests/logic").glob("*.slt"))
        for label, program in programs.items():
            skipped = [word for name in self.options.skip for word in ("--skip", name)]
            listed = subprocess.run([program[0], "--list", "--format", "terse", *skipped], capture_output=True, text=True, check=True)
            for line in listed.stdout.splitlines():
                name, _, kind = line.rpartition(": ")
                if kind == "test":
                    for logic_file in logic if (label.split()[1], name) in BY_FILE else [None]:
                        full = f"{label} {name}" + (f" {logic_file}" if logic_file else "")
                        self.tests[full] = {"label": label, "program": program, "name": name, "file": logic_file}

    def measure(self):
        """Runs every test without a mutant, unless that is known of its program as it is."""
        reach = self.state["reach"]
        for label, program in {test["label"]: test["program"] for test in self.tests.values()}.items():
            made = os.stat(program[0]).st_mtime_ns
            if reach.get(label, {}).get("made") != made:
                reach[label] = {"made": made, "tests": {}}
        left = [name for name, test in self.tests.items() if name not in reach[test["label"]]["tests"]]
        print(f"{len(self.tests)} tests; {len(left)} are measured")

        def one(name):
            with tempfile.NamedTemporaryFile(prefix="lm") as file:
                code, seconds = self.run_test(self.tests[name], {"LIGER_MUTANT_REACHED": file.name}, 1800)
                numbers = sorted({int(line) for line in file.read().split()})
            with self.lock:
                names = [self.numbered[number]["name"] for number in numbers]
                reach[self.tests[name]["label"]]["tests"][name] = {"sound": code == 0, "seconds": seconds, "reached": names}
                if time.monotonic() - self.saved > 30:
                    self.save()
                    self.saved = time.monotonic()

        self.saved = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            list(pool.map(one, left))
        self.save()
        known = {name: reach[test["label"]]["tests"][name] for name, test in self.tests.items()}
        for name in [name for name in known if not known[name]["sound"]]:
            print(f"fails without a mutant and is left out: {name}")
        print(f"all of them take {sum(test['seconds'] for test in known.values()):.0f} s, one after the other")
        return {name: test for name, test in known.items() if test["sound"]}

    def meet(self, number, tests):
        """What becomes of a mutant under these tests, and which of them said so; if none did, those that failed once."""
        unsteady = []
        for seconds, name in sorted(tests):
            for _ in range(2):
                limit = max(SECONDS_LEAST, TIMES * seconds)
                code, _ = self.run_test(self.tests[name], {"LIGER_MUTANT": str(number)}, limit)
                if code is None:
                    return TIMED_OUT, name
                if code == 0:
                    break
                unsteady.append(name)
            else:
                return CAUGHT, name
        return MISSED, "".join(f"; failed once: {name}" for name in unsteady)

    def try_all(self, known, note):
        """Tries all mutants without a known result; `note` takes what becomes of each."""
        files, places = self.build()
        for mutant in self.numbered.values():
            if self.state["without"].get(mutant["name"]) == UNVIABLE and mutant["name"] not in known:
                note(mutant, UNVIABLE, "")
        self.list_tests(self.programs(files, places))
        measured = self.measure()
        wanted = [(place["number"], self.numbered[place["number"]]) for place in places]
        left = [(number, mutant) for number, mutant in wanted if mutant["name"] not in known]
        # Those that their own crate's tests notice come first: they are soon done.
        left = self.stage([(number, mutant, "") for number, mutant in left], measured, True, note)
        for number, mutant, why in self.stage(left, measured, False, note):
            reached = sum(mutant["name"] in test["reached"] for test in measured.values())
            note(mutant, MISSED, f"switch {number}, {reached} tests come to it{why}")
        return [mutant for mutant in self.numbered.values() if self.state["without"].get(mutant["name"]) == ALONE]

    def meeting(self, mutant, measured, own):
        """The tests that come to a mutant: those of its crate, or those of the crates above."""
        crate, met = crate_of(mutant), []
        for name, test in measured.items():
            folder, target = self.tests[name]["label"].split()
            among = folder == crate if own else crate in BELOW_SQL and not self.options.own and (folder, target) in above()
            if among and mutant["name"] in test["reached"]:
                met.append((test["seconds"], name))
        return met

    def stage(self, mutants, measured, own, note):
        """Tries these mutants under tests of their crate or above, and returns those that none of them noticed."""
        missed = []

        def one(number, mutant, before):
            begun = time.monotonic()
            result, why = self.meet(number, self.meeting(mutant, measured, own))
            with self.lock:
                if result == MISSED:
                    missed.append((number, mutant, before + why))
                else:
                    note(mutant, result, why, time.monotonic() - begun)

        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            list(pool.map(lambda mutant: one(*mutant), mutants))
        return missed
