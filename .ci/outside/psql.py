"""A script of psql, cut into what psql sends one by one, and run so that each answer is known by its number."""
import os
import pathlib
import re
import selectors
import signal
import subprocess
import tempfile
import time

MARK = re.compile(r"=unit (\d+)= (\S+)\n")
FROM_STDIN = re.compile(r"^\s*copy\b[^;]*?\bfrom\s+stdin\b", re.I)
TAG = re.compile(r"\$([A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)?\$")
GONE = ("server closed the connection unexpectedly", "connection to server was lost", "terminating connection", "could not connect", "Connection refused")


SET_FILE = re.compile(r"^\\set (\w+) :abs_srcdir '([^']+)'\s*$", re.M)
FROM_FILE = re.compile(r"^\s*copy\b([^;]*?)\bfrom\s+:'(\w+)'([^;]*);\s*$", re.I)


def units(text, folder, sources=""):
    """The statements and commands of a script, in order. Rows that follow a COPY FROM STDIN go to a file, so that they are not taken for
    statements where the COPY is refused; a COPY from a file of the server is one from a file of the client on both sides, so that what
    follows it has rows to look at."""
    sets = list(SET_FILE.finditer(text))
    found, start, at, lines = [], 0, 0, 0
    depth = blocks = 0
    while at < len(text):
        here = text[at]
        if here == "'":
            escapes = at > 0 and text[at - 1] in "eE" and not text[at - 2:at - 1].isalnum()
            at = end_of_quote(text, at, "'", escapes)
        elif here == '"':
            at = end_of_quote(text, at, '"', False)
        elif text.startswith("--", at):
            at = (text + "\n").index("\n", at)
        elif text.startswith("/*", at):
            at = end_of_comment(text, at)
        elif here == "$" and not (at and (text[at - 1].isalnum() or text[at - 1] == "_")) and (tag := TAG.match(text, at)):
            end = text.find(tag[0], tag.end())
            at = len(text) if end < 0 else end + len(tag[0])
        elif here == "\\":
            if text.startswith("\\;", at):
                at += 2
                continue
            at = (text + "\n").index("\n", at) + 1
            found.append(text[start:at])
            start, depth, blocks = at, 0, 0
        elif here.isalpha() or here == "_":
            word = re.compile(r"[\w$]+").match(text, at)
            # A body of SQL (CREATE FUNCTION .. BEGIN ATOMIC .. END) holds semicolons.
            if re.match(r"\s*create\b", text[start:at], re.I) and not depth:
                low = word[0].lower()
                if low == "begin" and re.match(r"\s+atomic\b", text[word.end():], re.I) or low == "case" and blocks:
                    blocks += 1
                elif low == "end" and blocks:
                    blocks -= 1
            at = word.end()
        else:
            depth += (here == "(") - (here == ")")
            at += 1
            if here == ";" and depth <= 0 and not blocks:
                unit, start, depth = text[start:at], at, 0
                bare = re.sub(r"--[^\n]*", "", unit)
                if FROM_STDIN.match(bare) and (end := re.compile(r"^\\\.[ \t]*$", re.M).search(text, at)):
                    rows = pathlib.Path(folder) / f"rows-{lines}"
                    lines += 1
                    rows.write_text(text[text.index("\n", at) + 1:end.start()])
                    unit = "\\" + re.sub(r"(?i)\bfrom\s+stdin\b", f"from '{rows}'", " ".join(bare.split()), 1).rstrip(";") + "\n"
                    start = at = end.end()
                elif copy := FROM_FILE.match(bare):
                    file = next((set_[2] for set_ in reversed(sets) if set_.start() < at and set_[1] == copy[2]), None)
                    unit = f"\\copy {' '.join(copy[1].split())} from '{sources}{file}' {' '.join(copy[3].split())}\n" if file else unit
                found.append(unit)
    if text[start:].strip():
        found.append(text[start:] + "\n")
    return [unit for unit in found if unit.strip()]


def end_of_quote(text, at, quote, escapes):
    at += 1
    while at < len(text):
        if escapes and text[at] == "\\":
            at += 2
        elif text[at] == quote:
            if text[at + 1:at + 2] != quote:
                return at + 1
            at += 2
        else:
            at += 1
    return at


def end_of_comment(text, at):
    depth = 0
    for found in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if found[0] == "/*" else -1
        if not depth:
            return found.end()
    return len(text)


class Answers:
    """What psql printed for each unit, and the SQLSTATE of the last statement then (00000: it went well). `ends` says what is beyond an
    answer: `late` (no answer in time), `gone` (the server ended)."""

    def __init__(self):
        self.text, self.state, self.ends = {}, {}, {}


def run(port, parts, environment, patience=30.0, again=lambda: True):
    """Runs the units on a server. After one without an end, or a server that ended, psql is started anew behind it."""
    answers, start = Answers(), 0
    while start < len(parts):
        reached, text, why = once(port, parts, start, environment, patience, answers)
        if reached >= len(parts):
            break
        if why:
            answers.text[reached], answers.ends[reached] = text, why
        if why == "gone" and not again():
            for left in range(reached + 1, len(parts)):
                answers.text[left], answers.ends[left] = "", "gone"
            break
        start = reached + 1
    return answers


def once(port, parts, start, environment, patience, answers):
    """Runs psql from unit `start` on: the unit that it came to, what that printed, and why it did not come to its end."""
    with tempfile.NamedTemporaryFile("w+", prefix="units-") as script:
        for number in range(start, len(parts)):
            part = parts[number]
            script.write(part if part.endswith("\n") else part + "\n")
            script.write(f"\\echo '=unit {number}=' :SQLSTATE\n")
        script.flush()
        script.seek(0)
        psql = subprocess.Popen(["psql", "-X", "-q", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "-d", "postgres",
                                 "-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on"],
                                stdin=script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **environment})
        begun, pending, number, last = b"", "", start, time.monotonic()
        with selectors.DefaultSelector() as ready:
            ready.register(psql.stdout, selectors.EVENT_READ)
            while True:
                if ready.select(0.5):
                    more = os.read(psql.stdout.fileno(), 1 << 16)
                    if not more:
                        break
                    begun += more
                    cut = begun.rfind(b"\n") + 1
                    pending, begun = pending + begun[:cut].decode("utf-8", "replace"), begun[cut:]
                    while found := MARK.search(pending):
                        number = int(found[1])
                        answers.text[number], answers.state[number] = pending[:found.start()], found[2]
                        pending, number, last = pending[found.end():], number + 1, time.monotonic()
                if time.monotonic() - last > patience:
                    psql.send_signal(signal.SIGINT)
                    try:
                        psql.wait(2)
                    except subprocess.TimeoutExpired:
                        psql.kill()
                        psql.wait()
                    return number, pending, "late"
        psql.wait()
        pending += begun.decode("utf-8", "replace")
        if number < len(parts) and any(words in pending for words in GONE):
            return number, pending, "gone"
        if number == start == 0 and "connection to server" in pending:
            raise SystemExit(f"error: psql cannot connect: {pending}")
        # psql may end a script by itself (\\q).
        return (len(parts) if number >= len(parts) or not pending else number), pending, ""
