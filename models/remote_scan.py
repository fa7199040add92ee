"""A scan of another host's partition, against an insert and moves by the owner (docs/protocols/data-movement.md).

The partition has the keys a < b, both shared, and x between them, which the owner inserts, commits, moves into shared
memory, out again and deletes, in this order, one step at a time (the owner's latch orders its own work, nobody else's).
The scanner reads the shared index, locks what it found one by one, looks at the neighbour bits, looks whether the index
has changed, and believes what it found if both are in order; then it holds its locks for a while. It scans either from a
(then a must vouch for its next key) or from inside the gap (then b must vouch for its previous one).

Fault: the scanner believes a set of keys that is not the partition's. Run: python3 models/remote_scan.py [-v]
"""

import sys

from checker import State, explore, report

ATTEMPTS = 2


def start(from_a):
    return State(
        # The partition: does x exist, is it committed. The index: does it name x, how often did it change.
        x_exists=0, x_committed=0, x_indexed=0, version=0,
        # Neighbour bits in the tuple cells of a, b and x; is x's word live.
        a_next=1, b_prev=1, x_next=0, x_prev=0, x_live=0,
        # What the scanner holds, has seen, believes.
        from_a=from_a, hold_a=0, hold_b=0, hold_x=0, saw_x=0, saw_version=0, saw_bit=0, attempts=0, scanner=0, owner=0,
        # Goals: a scan was believed with x, and without; an insert was refused.
        with_x=0, without_x=0, refused=0,
    )


def scanner(s, v):
    at = s["scanner"]
    if at == 0 and s["attempts"] < ATTEMPTS:
        return [s.but(saw_x=s["x_indexed"], saw_version=s["version"], scanner=1, attempts=s["attempts"] + 1)]
    if at == 1:
        # The bit as it is when the lock is taken; only a mutant uses it.
        return [s.but(hold_a=s["from_a"], saw_bit=s["a_next"], scanner=2)]
    if at == 2:
        if not s["saw_x"]:
            return [s.but(scanner=3)]
        return [s.but(hold_x=1, scanner=3)] if s["x_live"] else [s.but(scanner=0)]
    if at == 3:
        return [s.but(hold_b=1, scanner=4)]
    first, second = (unchanged, proven) if "index before bits" in v else (proven, unchanged)
    if at == 4:
        return [s.but(scanner=5)] if first(s, v) else [s.but(scanner=0)]
    if at == 5:
        if not second(s, v):
            return [s.but(scanner=0)]
        return [s.but(scanner=6, with_x=s["with_x"] | s["saw_x"], without_x=s["without_x"] | (1 - s["saw_x"]))]
    if at == 6:
        return [s.but(scanner=7, hold_a=0, hold_b=0, hold_x=0)]
    return []


def proven(s, v):
    """No key of the partition stands between the rows that were locked, nor before the first one in the range."""
    if "bits not looked at" in v:
        return True
    a_next = s["saw_bit"] if "bits looked at while locking" in v else s["a_next"]
    if s["saw_x"]:
        return (a_next if s["from_a"] else s["x_prev"]) and s["x_next"]
    return a_next if s["from_a"] else s["b_prev"]


def unchanged(s, v):
    return s["version"] == s["saw_version"] or "index not looked at again" in v


def owner(s, v):
    at = s["owner"]
    clears = {} if "insert leaves the bit below" in v else {"a_next": 0}
    held = s["hold_b"] and "insert does not check who holds b" not in v
    check_first = "insert checks b before it clears the bit" in v
    if at == 0:  # Insert x: clear the bit below; check b and clear its bit, in one swap.
        if check_first:
            return [s.but(owner=19, refused=1) if held else s.but(owner=1)]
        return [s.but(owner=1, **clears)]
    if at == 1:
        if "insert checks b in one swap, clears its bit in another" in v:
            return [s.but(owner=19, refused=1) if held else s.but(owner=20)]
        if check_first:
            return [s.but(owner=2, b_prev=0, **clears)]
        return [s.but(owner=19, refused=1) if held else s.but(owner=2, b_prev=0)]
    if at == 20:
        return [s.but(owner=2, b_prev=0)]
    if at == 2:
        return [s.but(owner=3, x_exists=1)]
    if at == 3:
        return [s.but(owner=4, x_committed=1)]
    early = "bits set before the entry" in v
    if at == 4:  # Move x in: word; entry; bits.
        return [s.but(owner=5, x_live=1)]
    if at == 5:
        return [linked(s).but(owner=6) if early else entered(s).but(owner=6)]
    if at == 6:
        return [entered(s).but(owner=7) if early else s.but(owner=7, a_next=1)]
    if at == 7:
        return [s.but(owner=8) if early else linked(s).but(owner=8)]
    late = "bits cleared after the entry is gone" in v
    if at == 8:  # Move x out: only if nobody holds it. Word dead; bits; entry.
        return [s.but(owner=9, x_live=0, x_next=0, x_prev=0)] if not s["hold_x"] else []
    if at == 9:
        return [s.but(owner=11) if late else s.but(owner=10, a_next=0)]
    if at == 10:
        return [s.but(owner=11, b_prev=0)]
    if at == 11:
        return [s.but(owner=12, x_indexed=0, version=s["version"] + 1)]
    if at == 12:  # Only the mutant finds these still set.
        return [s.but(owner=13, a_next=0, b_prev=0)]
    if at == 13:  # Delete x, whose gap becomes b's; then a and b are neighbours again.
        return [s.but(owner=14, x_exists=0, x_committed=0)]
    if at == 14:
        return [s.but(owner=15, a_next=1)]
    if at == 15:
        return [s.but(owner=16, b_prev=1)]
    return []


def entered(s):
    return s.but(x_indexed=1, version=s["version"] + 1)


def linked(s):
    return s.but(a_next=1, x_prev=1, x_next=1, b_prev=1)


def phantom(s):
    return "a phantom" if s["scanner"] == 6 and s["saw_x"] != s["x_exists"] else None


def run(variant):
    """Both kinds of scan; the fault of the first that has one."""
    states, goals = 0, set()
    for from_a in (1, 0):
        names = ["with_x", "without_x", "refused"]
        outcome = explore(start(from_a), [("scan", scanner), ("own", owner)], phantom, names, variant)
        states, goals = states + outcome.states, goals | outcome.goals
        if outcome.fault:
            break
    outcome.states, outcome.goals = states, goals
    return outcome


MUTANTS = [
    "index before bits",
    "index not looked at again",
    "bits not looked at",
    "bits looked at while locking",
    "insert leaves the bit below",
    "insert does not check who holds b",
    "insert checks b before it clears the bit",
    "insert checks b in one swap, clears its bit in another",
    "bits set before the entry",
    "bits cleared after the entry is gone",
]

if __name__ == "__main__":
    sys.exit(report(run, MUTANTS, goals=["with_x", "without_x", "refused"]))
