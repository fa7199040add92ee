"""Getting what others publish: each command of a package's client has an end, and one that fails says so in words."""
import concurrent.futures
import subprocess
import time


class CannotGet(Exception):
    """What could not be had or run, and why."""


def get(what, words, seconds=240, **more):
    """Runs a command that gets `what`; what it printed."""
    try:
        done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=seconds, **more)
    except FileNotFoundError:
        raise CannotGet(f"{what} cannot be had: there is no program {words[0]}") from None
    except subprocess.TimeoutExpired:
        raise CannotGet(f"{what} cannot be had: {words[0]} had no end after {seconds} s") from None
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise CannotGet(f"{what} cannot be had: " + "\n    ".join(said[-4:] or [f"{words[0]} ended with {done.returncode}"]))
    return done.stdout


def fetched(install, them):
    """What `install` gives for each of these, or why one cannot be had: two at a time, and all before a test that is about time begins."""
    def one(it):
        try:
            return install(it)
        except CannotGet as error:
            return error

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        got = list(pool.map(one, them))
    print(f"{len(them)} got in {time.monotonic() - begin:.0f} s")
    return got
