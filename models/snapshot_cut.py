"""Snapshots by the log's epochs (docs/protocols/snapshots.md), checked over every interleaving of a small pod.

Two hosts with a worker each. One transaction writes rows x and y, another reads x and writes y, so their order shows both
in what is read and in what is overwritten. Each locks what it touches, shows the pod's epoch as its own, makes its versions,
and gives its locks back before it shows nothing. A host's closed epoch is below all that its worker shows. A third host
opens a snapshot of the least closed epoch, tells in a slot which one it reads, and reads the two rows, one after the other,
without locks. Who overwrites a version keeps it beside the row if the pod keeps old versions, which somebody has to ask
for, and forgets those that no snapshot can want.

What a snapshot shows is a prefix of the order in which transactions had their locks; it has all that was acknowledged
before it was opened, and nothing that it wants is forgotten. Each mutant leaves out one step.
Run: python3 models/snapshot_cut.py
"""

import sys

from checker import State, explore, report

NONE = 99
LAST_EPOCH = 3

FIRST = State(
    epoch=1, keeps=False, slot=NONE,
    # Rows: versions, the present one first, as (epoch, number of the transaction in the order of locks).
    x=((0, 0),), y=((0, 0),), locked="",
    # The order of transactions: names.
    order=(),
    # Workers: program counter, epoch, what is shown, whether old versions are kept; and the closed epoch of each host.
    a_at=0, a_epoch=0, a_shown=NONE, a_keeps=False, a_pruned=0,
    b_at=0, b_epoch=0, b_shown=NONE, b_keeps=False, b_pruned=0,
    a_closed=0, b_closed=0, a_target=-1, b_target=-1,
    # The reader: program counter, what it reads as of, what must be in it, what it has seen.
    at=0, of=0, least=0, due=frozenset(), saw_x=-1, fault="", opened=False, read_old=False, kept_two=False,
)

WRITES = {"a": "xy", "b": "y"}


def closed(s):
    return min(s["a_closed"], s["b_closed"])


def told(s):
    """Transactions that were acknowledged: their epoch is closed."""
    return frozenset(name for name in "ab" if s[f"{name}_at"] == 8 and s[f"{name}_epoch"] <= closed(s))


def overwritten(s, v, name, row, number):
    """The versions of a row when a transaction has made its own."""
    epoch, versions = s[f"{name}_epoch"], s[row]
    kept = versions if s[f"{name}_keeps"] else ()
    # Between versions of one epoch there is no snapshot.
    if versions[0][0] == epoch and "versions of an epoch are kept" not in v:
        kept = kept[1:]
    if "only the last version is kept" in v:
        kept = kept[:1]
    # The newest one that a snapshot of the pruned epoch wants, and all later ones.
    wanted = [at for at, (made, _) in enumerate(kept) if made <= s[f"{name}_pruned"]]
    if wanted:
        kept = kept[:wanted[0] + ("the newest wanted one goes too" not in v)]
    return ((epoch, number),) + kept


def worker(name):
    at_, epoch_, shown_, keeps_, pruned_ = (f"{name}_{it}" for it in ("at", "epoch", "shown", "keeps", "pruned"))

    def step(s, v):
        at, number = s[at_], s["order"].index(name) + 1 if name in s["order"] else 0
        if at == 0:
            steps = []
            if "epoch before the locks" in v and s[epoch_] == 0:
                steps.append(s.but(**{epoch_: s["epoch"], shown_: s["epoch"]}))
            if not s["locked"] and (s[epoch_] or "epoch before the locks" not in v):
                steps.append(s.but(**{"locked": name, "order": s["order"] + (name,), at_: 1}))
            return steps
        if at == 1:
            if "epoch before the locks" in v:
                return [s.but(**{at_: 2})]
            early = {keeps_: s["keeps"]} if "keeps is read before the epoch" in v else {}
            return [s.but(**{epoch_: s["epoch"], shown_: s["epoch"], at_: 2}, **early)]
        if at == 2:  # Shown, the epoch is read again.
            if s[epoch_] != s["epoch"] and "epoch before the locks" not in v:
                return [s.but(**{epoch_: s["epoch"], shown_: s["epoch"]})]
            return [s.but(**{at_: 3})]
        if at == 3:
            keeps = s[keeps_] if "keeps is read before the epoch" in v else s["keeps"]
            # What is closed is read before the slots.
            return [s.but(**{keeps_: keeps, pruned_: closed(s), at_: 4})]
        if at == 4:
            slot = NONE if "slots are not heeded" in v else s["slot"]
            pruned = slot if "pruned up to the slots alone" in v and slot != NONE else min(s[pruned_], slot)
            if "pruned up to the epoch" in v:
                pruned = min(s["epoch"], slot)
            return [s.but(**{pruned_: pruned, at_: 5})]
        if at in (5, 6):
            row = WRITES[name][at - 5:at - 4]
            if not row:
                return [s.but(**{at_: at + 1})]
            made = {row: overwritten(s, v, name, row, number)}
            shown = {shown_: NONE} if at == 5 and "shows nothing before it is done" in v else {}
            grown = s.but(**made, **shown, **{at_: at + 1})
            return [grown.but(kept_two=s["kept_two"] or any(len(grown[it]) > 2 for it in "xy"))]
        if at == 7:
            return [s.but(**{"locked": "", shown_: NONE, keeps_: False, pruned_: 0, at_: 8})]
        return []

    return name, step


def closer(name):
    """A host closes epochs: first it reads the pod's, then what its worker shows."""
    closed_, target_, shown_ = f"{name}_closed", f"{name}_target", f"{name}_shown"

    def step(s, v):
        if s[target_] < 0:
            return [s.but(**{target_: s["epoch"] - 1})] if s[closed_] < s["epoch"] - 1 else []
        target = min(s[target_], s[shown_] - 1)
        if "what workers show is not heeded" in v:
            target = s[target_]
        return [s.but(**{closed_: max(s[closed_], target), target_: -1})]

    return f"{name}-closes", step


def ticker(s, v):
    return [s.but(epoch=s["epoch"] + 1)] if s["epoch"] < LAST_EPOCH else []


def shown_of(row, of):
    """The number of the transaction that made what a snapshot shows of a row; none if that is not there."""
    return next((number for made, number in row if made <= of), None)


def reader(s, v):
    at = s["at"]
    if at == 0:  # Old versions are kept from an epoch on that is read behind this.
        return [s.but(at=1, keeps=True)]
    if at == 1:
        least = 0 if "the first snapshot does not wait" in v else s["epoch"]
        return [s.but(at=2, least=least)]
    if at == 2:
        if closed(s) < s["least"]:
            return []
        of = s["b_closed"] if "the closed epoch of one host" in v else closed(s)
        return [s.but(at=3, of=of, due=told(s))]
    if at == 3:
        return [s.but(at=4, slot=s["of"])]
    if at == 4:
        if closed(s) > s["of"] and "the slot is not looked behind" not in v:
            return [s.but(at=3, of=closed(s))]
        return [s.but(at=5, opened=True)]
    if at == 5:
        saw = shown_of(s["x"], s["of"])
        if saw is None:
            return [s.but(fault=f"x as of {s['of']} is forgotten: {s['x']}")]
        return [s.but(at=6, saw_x=saw)]
    if at == 6:
        saw_y = shown_of(s["y"], s["of"])
        if saw_y is None:
            return [s.but(fault=f"y as of {s['of']} is forgotten: {s['y']}")]
        old = s["x"][0][1] != s["saw_x"] or s["y"][0][1] != saw_y
        return [s.but(at=7, slot=NONE, read_old=old, fault=judged(s, saw_y))]
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


ACTORS = [worker("a"), worker("b"), closer("a"), closer("b"), ("ticker", ticker), ("reader", reader)]
MUTANTS = [
    "epoch before the locks",
    "shows nothing before it is done",
    "what workers show is not heeded",
    "the closed epoch of one host",
    "keeps is read before the epoch",
    "the first snapshot does not wait",
    "slots are not heeded",
    "pruned up to the epoch",
    "the slot is not looked behind",
    "the newest wanted one goes too",
]
GOALS = ("opened", "read_old", "kept_two")


def run(variant):
    return explore(FIRST, ACTORS, lambda s: s["fault"], GOALS, variant)


if __name__ == "__main__":
    sys.exit(report(run, MUTANTS, GOALS))
