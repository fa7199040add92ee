"""Snapshots by moments (docs/protocols/snapshots.md), checked over every interleaving of a small pod.

Two workers of two hosts. One transaction writes rows x and y, another reads x and writes y, so their order shows both
in what is read and in what is overwritten. Each locks what it touches and shows the pod's epoch as its own; if the epoch's
word says that old versions are kept, it says that it commits, takes the pod's moment, makes its versions, gives its locks
back, and says that it is done. Without, its versions are of the first moment of its epoch. A reader tells in a slot the
moment that it finds, has old versions kept, ends the moment, waits for those who commit, and reads the two rows, one after
the other, without locks. Who overwrites a version forgets those before it that no snapshot can want.

What a snapshot shows is a prefix of the order in which transactions had their locks; it has all that was acknowledged
before it was opened, and nothing that it wants is forgotten. Each mutant leaves out one step.
Run: python3 models/snapshot_cut.py
"""

import sys

from checker import State, explore, report

NONE = 99
# Moments of an epoch.
MOMENTS = 10

FIRST = State(
    epoch=1, keeps=False, since=NONE, moment=MOMENTS, slot=NONE,
    # Rows: versions, the present one first, as (moment, number of the transaction in the order of locks).
    x=((0, 0),), y=((0, 0),), locked="",
    # The order of transactions: names.
    order=(),
    # Workers: program counter, the epoch that it shows, its moment, whether it keeps, how often it has said that it
    # commits or is done, and up to where versions go.
    a_at=0, a_shown=NONE, a_moment=0, a_keeps=False, a_said=0, a_bound=0,
    b_at=0, b_shown=NONE, b_moment=0, b_keeps=False, b_said=0, b_bound=0,
    # The reader: program counter, what it reads as of, what must be in it, what it has seen and waits for.
    at=0, of=0, due=frozenset(), saw_x=-1, saw_said=-1, fault="", opened=False, read_old=False, kept_two=False,
)

WRITES = {"a": "xy", "b": "y"}
DONE = 12


def overwritten(s, v, name, row, number):
    """The versions of a row when a transaction has made its own."""
    moment, versions = s[f"{name}_moment"], s[row]
    kept = versions if s[f"{name}_keeps"] else ()
    # Between versions of one moment there is no snapshot.
    if versions[0][0] == moment:
        kept = kept[1:]
    # The newest one that a snapshot of the bound wants, and all later ones.
    wanted = [at for at, (made, _) in enumerate(kept) if made <= s[f"{name}_bound"]]
    if wanted:
        kept = kept[:wanted[0] + ("the newest wanted one goes too" not in v)]
    return ((moment, number),) + kept


def worker(name):
    at_, shown_, moment_, keeps_, said_, bound_ = (
        f"{name}_{it}" for it in ("at", "shown", "moment", "keeps", "said", "bound"))

    def taken(s):
        """Takes the pod's moment, or raises it."""
        moment = max(s["moment"], s[shown_] * MOMENTS)
        return s.but(**{moment_: moment, "moment": moment})

    def step(s, v):
        at, number = s[at_], s["order"].index(name) + 1 if name in s["order"] else 0
        if at == 0:
            if "the moment before the locks" in v and not s[moment_]:
                return [s.but(**{moment_: max(s["moment"], s["epoch"] * MOMENTS)})]
            return [] if s["locked"] else [s.but(**{"locked": name, "order": s["order"] + (name,), at_: 1})]
        if at == 1:
            return [s.but(**{shown_: s["epoch"], at_: 2})]
        if at == 2:  # Shown, the word is read again.
            if s[shown_] != s["epoch"]:
                return [s.but(**{shown_: s["epoch"]})]
            if s["keeps"]:
                return [s.but(**{keeps_: True, at_: 3})]
            return [s.but(**{moment_: s[shown_] * MOMENTS, at_: 5})]
        if at == 3:
            if "the moment before it says" in v:
                return [taken(s).but(**{at_: 4})]
            return [s.but(**{said_: s[said_] + ("it says nothing" not in v), at_: 4})]
        if at == 4:
            if "the moment before it says" in v:
                return [s.but(**{said_: s[said_] + 1, at_: 5})]
            if "the moment before the locks" in v:
                return [s.but(**{at_: 5})]
            return [taken(s).but(**{at_: 5})]
        if at == 5:  # The pod's moment is read before the slots.
            return [s.but(**{bound_: s["moment"], at_: 6})]
        if at == 6:
            slot = NONE if "slots are not heeded" in v else s["slot"]
            return [s.but(**{bound_: min(s[bound_], slot), at_: 8})]
        if at in (8, 9):
            row = WRITES[name][at - 8:at - 7]
            if not row:
                return [s.but(**{at_: at + 1})]
            early = at == 8 and s[keeps_] and "it is done before its changes are" in v
            grown = s.but(**{row: overwritten(s, v, name, row, number), said_: s[said_] + early, at_: at + 1})
            return [grown.but(kept_two=s["kept_two"] or any(len(grown[it]) > 2 for it in "xy"))]
        if at == 10:
            return [s.but(**{"locked": "", at_: 11})]
        if at == 11:
            return [s.but(**{shown_: NONE, said_: s[said_] + s[said_] % 2, at_: DONE})]
        return []

    return name, step


def ticker(s, v):
    return [s.but(epoch=s["epoch"] + 1)] if s["epoch"] < 3 else []


def shown_of(row, of):
    """The number of the transaction that made what a snapshot shows of a row; none if that is not there."""
    return next((number for made, number in row if made <= of), None)


def reader(s, v):
    at = s["at"]
    if at == 0:
        due = frozenset(name for name in "ab" if s[f"{name}_at"] == DONE)
        late = "it tells behind taking" in v
        return [s.but(at=1, due=due, slot=NONE if late else s["moment"])]
    if at == 1:  # From the next epoch on all who commit keep.
        epoch = s["epoch"] + ("keepers in the same epoch" not in v)
        return [s.but(at=2, keeps=True, epoch=epoch, of=epoch)]
    if at in (2, 3):  # Nobody commits in an epoch before that.
        shown = s[f"{'ab'[at - 2]}_shown"]
        waits = shown < s["of"] and "the first snapshot does not wait" not in v
        return [] if waits else [s.but(at=at + 1)]
    if at == 4:
        since = max(s["moment"], s["of"] * MOMENTS)
        return [s.but(at=5, since=since, moment=since)]
    if at == 5:
        if (s["moment"] + 1) % MOMENTS == 0:
            return []
        ended = s["moment"] + ("the moment is not ended" not in v)
        return [s.but(at=6, of=s["moment"], moment=ended)]
    if at in (6, 7):
        said = s[f"{'ab'[at - 6]}_said"]
        if s["saw_said"] < 0 and said % 2 and "commits are not awaited" not in v:
            return [s.but(saw_said=said)]
        waits = s["saw_said"] >= 0 and said == s["saw_said"]
        return [] if waits else [s.but(at=at + 1, saw_said=-1)]
    if at == 8:
        late = {"slot": s["of"]} if "it tells behind taking" in v else {}
        return [s.but(at=9, opened=True, **late)]
    if at == 9:
        saw = shown_of(s["x"], s["of"])
        if saw is None:
            return [s.but(fault=f"x as of {s['of']} is forgotten: {s['x']}")]
        return [s.but(at=10, saw_x=saw)]
    if at == 10:
        saw_y = shown_of(s["y"], s["of"])
        if saw_y is None:
            return [s.but(fault=f"y as of {s['of']} is forgotten: {s['y']}")]
        old = s["x"][0][1] != s["saw_x"] or s["y"][0][1] != saw_y
        return [s.but(at=11, slot=NONE, read_old=old, fault=judged(s, saw_y))]
    return []


def judged(s, saw_y):
    """What is wrong with what was seen: it is what some prefix of the order has made, with all that is due."""
    first = max((s["order"].index(name) + 1 for name in s["due"]), default=0)
    for length in range(first, len(s["order"]) + 1):
        last = {"x": 0, "y": 0}
        for number, name in enumerate(s["order"][:length], 1):
            for row in WRITES[name]:
                last[row] = number
        if (last["x"], last["y"]) == (s["saw_x"], saw_y):
            return ""
    return f"x of {s['saw_x']} and y of {saw_y} as of {s['of']}, order {s['order']}, due {set(s['due'])}"


ACTORS = [worker("a"), worker("b"), ("ticker", ticker), ("reader", reader)]
MUTANTS = [
    "the moment before the locks",
    "it says nothing",
    "the moment before it says",
    "it is done before its changes are",
    "the moment is not ended",
    "commits are not awaited",
    "keepers in the same epoch",
    "the first snapshot does not wait",
    "it tells behind taking",
    "slots are not heeded",
    "the newest wanted one goes too",
]
GOALS = ("opened", "read_old")


def run(variant):
    return explore(FIRST, ACTORS, lambda s: s["fault"], GOALS, variant)


if __name__ == "__main__":
    sys.exit(report(run, MUTANTS, GOALS))
