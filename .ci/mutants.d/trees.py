"""Copies of what is committed, which tests a mutant meets, and what may become of it."""
import io
import os
import pathlib
import signal
import subprocess
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CRATES = ["pod", "store", "engine", "sql", "server"]
BELOW_SQL = ["engine", "pod", "store"]
# What a mutant below SQL meets when the tests of its own crate have not noticed it: packages and tests, in turn.
ABOVE = [("liger-sql", ["logic", "pooled"]),
         ("liger-sim", ["scenarios", "rows", "survival", "durable", "recovery", "restraint"])]
CAUGHT, MISSED, TIMED_OUT, UNVIABLE = "caught", "missed", "timed out", "unviable"


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def committed():
    """The files of the last commit: for each path its content and its mode."""
    with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", "HEAD"))) as archive:
        return {pathlib.Path(member.name): (archive.extractfile(member).read(), member.mode)
                for member in archive if member.isfile()}


def make_tree(tree, files):
    """Makes `tree` these files. Those that are so already stay untouched: cargo need not build them again."""
    wanted = {tree / path for path in files}
    for path, (content, mode) in files.items():
        path = tree / path
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(mode)
    for path in sorted(tree.rglob("*"), reverse=True):
        gone = path not in wanted and not path.relative_to(tree).parts[0].startswith(("target", "mutants.out"))
        if gone and not (path.is_dir() and any(path.iterdir())):
            path.rmdir() if path.is_dir() else path.unlink()


def run(arguments, seconds=None, **more):
    """The exit code of a command, or None if it had no end within this time: then nothing is left of it."""
    child = subprocess.Popen(arguments, start_new_session=True, stdin=subprocess.DEVNULL, **more)
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def tests_of(tree, crate):
    """The names of a crate's tests beside those within it."""
    folder = tree / "crates" / crate / "tests"
    return [path.stem for path in folder.glob("*.rs")] + [path.parent.name for path in folder.glob("*/main.rs")]


def crate_of(mutant):
    return mutant["package"].removeprefix("liger-")


def mutated(text, mutant):
    """The text of a mutant's file with its mistake."""
    begin, end = span_of(text, mutant)
    return text[:begin] + mutant["replacement"] + text[end:]


def span_of(text, mutant):
    """Where a mutant's mistake begins and ends in its file, in characters."""
    lines = text.split("\n")
    return [sum(len(line) + 1 for line in lines[:place["line"] - 1]) + place["column"] - 1
            for place in (mutant["span"]["start"], mutant["span"]["end"])]
