"""A reader of a snapshot at a shared row's block (docs/protocols/snapshots.md), checked over every interleaving of memory.

The block has two lines, a head (the version, and where the version before it is) and a body; versions before it lie in
blocks of their own, which never change. A host that has locked the row changes it twice, and then the row leaves, and the
block becomes another row's. Its cache may write a changed line back at any time, and has done so behind a fence. The reader
locks nothing and looks at no lock. Its cache may fetch a line at any time, and fetches one that is not there, or that
it has invalidated; so it may have lines of any moment since then.

Whatever the reader takes as the row as of its epoch is that. Each mutant leaves out one step.
Run: python3 models/snapshot_block.py
"""

import sys

from checker import State, explore, report

DEAD, OTHER = 98, 99
# Lines: head and body of the block, and the bodies of two old versions.
LINES = ("head", "body", "old1", "old2")
EMPTY = "?"

FIRST = State(
    # Memory: the head is (epoch of the version, which old version is before it), a body names the version whose it is.
    memory=((1, None), 1, EMPTY, EMPTY),
    # The writer's changed lines, the reader's cache.
    dirty=(None,) * 4, cache=(None,) * 4,
    writer=0, reader=0, of=0, first=None, value=None, old=None, fault="", took_old=False, took_present=False,
)


def with_line(lines, name, value):
    at = LINES.index(name)
    return lines[:at] + (value,) + lines[at + 1:]


def writes(s, **lines):
    dirty = s["dirty"]
    for name, value in lines.items():
        dirty = with_line(dirty, name, value)
    return s.but(dirty=dirty, writer=s["writer"] + 1)


def is_clean(s, *names):
    return all(s["dirty"][LINES.index(name)] is None for name in names)


# What the writer does, step by step: lines that it changes, or lines that it waits for to be in memory.
STEPS = (
    {"old1": 1}, ("old1",), {"head": (2, "old1")}, ("head",), {"body": 2}, ("body",),
    {"old2": 2}, ("old2",), {"head": (3, "old2")}, ("head",), {"body": 3}, ("body",),
    # The row leaves; the block is another row's, whose lines come in any order.
    {"head": (DEAD, None)}, ("head",), {"body": OTHER, "head": (OTHER, None)}, ("head", "body"),
)
LEFT_OUT = {
    "the old version is not fenced": (1, 7),
    "the head is not fenced": (3, 9),
    "the head is not dead before": (12, 13),
}


def writer(s, v):
    at = s["writer"]
    if at == len(STEPS):
        return []
    step = STEPS[at]
    if any(at in LEFT_OUT[name] for name in v if name in LEFT_OUT):
        return [s.but(writer=at + 1)]
    if "the body comes first" in v and at in (2, 8):
        return [writes(s, body=STEPS[at + 2]["body"])]
    if "the body comes first" in v and at in (4, 10):
        return [writes(s, head=STEPS[at - 2]["head"])]
    if isinstance(step, dict):
        return [writes(s, **step)]
    waits = ("head", "body") if "the body comes first" in v and at in (3, 5, 9, 11) else step
    return [s.but(writer=at + 1)] if is_clean(s, *waits) else []


def writes_back(s, v):
    steps = []
    for name, value in zip(LINES, s["dirty"]):
        if value is not None:
            memory = with_line(s["memory"], name, value)
            steps.append(s.but(memory=memory, dirty=with_line(s["dirty"], name, None)))
    return steps


def fetches(s, v):
    return [s.but(cache=with_line(s["cache"], name, s["memory"][at])) for at, name in enumerate(LINES) if s["cache"][at] is None]


def invalidated(s, name, v):
    return s["cache"] if f"{name} is not invalidated" in v else with_line(s["cache"], name, None)


def loads(s, name):
    """The line, and the cache that has it now."""
    at = LINES.index(name)
    value = s["cache"][at] if s["cache"][at] is not None else s["memory"][at]
    return value, with_line(s["cache"], name, value)


def reader(s, v):
    at = s["reader"]
    if at == 0:
        # A snapshot of a version is opened when that one is whole.
        whole = {1: 0, 2: 6, 3: 12}
        return [s.but(reader=1, of=of) for of in whole if s["writer"] >= whole[of]]
    if at == 1:
        return [s.but(reader=2, cache=invalidated(s, "head", v))]
    if at == 2:
        head, cache = loads(s, "head")
        return [s.but(reader=3, first=head, cache=cache)]
    if at == 3:
        made, before = s["first"]
        if made in (DEAD, OTHER):
            return [s.but(reader=9)]  # Whoever has the row's place now is asked.
        if made > s["of"]:
            return [s.but(reader=7, old=before, cache=invalidated(s, before, v))]
        return [s.but(reader=4, cache=invalidated(s, "body", v))]
    if at == 4:
        body, cache = loads(s, "body")
        return [s.but(reader=5, value=body, cache=cache)]
    if at == 5:
        if "the head is not looked at again" in v:
            return [taken(s, s["value"], False)]
        return [s.but(reader=6, cache=invalidated(s, "head", v))]
    if at == 6:
        head, cache = loads(s, "head")
        if head == s["first"]:
            return [taken(s.but(cache=cache), s["value"], False)]
        return [s.but(reader=3, first=head, value=None, cache=cache)]
    if at == 7:
        body, cache = loads(s, s["old"])
        # The head of the old version is in the same line: it says which one is before that.
        if body in (1, 2) and body > s["of"]:
            return [s.but(old="old1", cache=with_line(cache, "old1", None))]
        return [taken(s.but(cache=cache), body, True)]
    return []


def taken(s, value, old):
    right = value == s["of"]
    kind = {"took_old": True} if old else {"took_present": True}
    return s.but(reader=9, fault="" if right else f"{value} is taken as the row of epoch {s['of']}", **kind)


ACTORS = [("writer", writer), ("writes-back", writes_back), ("fetches", fetches), ("reader", reader)]
MUTANTS = [
    *LEFT_OUT,
    "the body comes first",
    "the head is not looked at again",
    "head is not invalidated",
    "body is not invalidated",
    "old1 is not invalidated",
]
GOALS = ("took_old", "took_present")


def run(variant):
    return explore(FIRST, ACTORS, lambda s: s["fault"], GOALS, variant)


if __name__ == "__main__":
    sys.exit(report(run, MUTANTS, GOALS))
