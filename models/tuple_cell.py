"""The tuple cell (docs/protocols/shared-rows.md): locks, valid bits and the modified bit of one shared row.

Host 0 owns the row and has one worker, host 1 has two. Each operation reads the row or adds one to the host's own counter
in it; both counters share one line, so whoever changes one rewrites the other from the host's copy. Either host's cache
may fetch, write back or drop the line at any moment, and host 1 begins with an old copy of a line that was recycled. Once,
the owner moves the row out and another one in, into the same place, which host 1's hint still names. (Cells of other rows in the same word only make swaps
fail, which then begin again.)

A reader's valid bit is set by the swap that takes the lock, before the host invalidates; host 1's latch is held from
there until the copy is fresh. Faults: a host uses a counter that is not the newest, or takes the other row for its own.
Run: python3 models/tuple_cell.py [-v]
"""

import sys

from checker import State, explore, report

OLD = (9, -1, -1, 0)  # Row, counter of host 0, counter of host 1, dirty: what a recycled line held.


def start():
    return State(
        # The line in memory; what the counters should be; the owner's DRAM copy. Row 0, later row 1.
        memory=(0, 0, 0), truth=(0, 0, 0), dram=(0, 0),
        cache=((0, 0, 0, 0), OLD),
        # The cell: alive, reader hosts and valid hosts as bitmaps, writing host (-1: none), modified.
        live=1, readers=0, valid=1, writer=-1, modified=0,
        # Host 1's lock table: latch (worker or -1), readers as bitmap, writer (-1: none).
        latch=-1, local_readers=0, local_writer=-1,
        # Workers o (owner), a and b (host 1): place in the program, operations left, was the copy fresh at the lock.
        o=0, o_left=2, o_fresh=0, a=0, a_left=2, a_fresh=0, b=0, b_left=1, b_fresh=0, recycled=0,
        bad="", owner_read_dram=0, shared_hold=0, hint_was_wrong=0, trusted=0,
    )


def set_cache(s, host, line):
    cache = list(s["cache"])
    cache[host] = line
    return tuple(cache)


def fetched(s, host):
    """The host's copy, fetched if it has none."""
    return s if s["cache"][host] else s.but(cache=set_cache(s, host, (*s["memory"], 0)))


def dropped(s, host):
    line = s["cache"][host]
    memory = line[:3] if line and line[3] else s["memory"]
    return s.but(memory=memory, cache=set_cache(s, host, None))


def written_back(s, host):
    line = s["cache"][host]
    return s.but(memory=line[:3], cache=set_cache(s, host, (*line[:3], 0))) if line and line[3] else s


def caches(s, v):
    return [dropped(s, host) if s["cache"][host] else fetched(s, host) for host in (0, 1)]


def read_lock(s, v, host):
    """The state with the cell read-locked and the valid bit set, or None."""
    if not s["live"] or s["writer"] >= 0 or s["readers"] & 1 << host:
        return None
    valid = s["valid"] if "valid bit set after the unlock" in v else s["valid"] | 1 << host
    return s.but(readers=s["readers"] | 1 << host, valid=valid)


def write_lock(s, v, host):
    readers = 0 if "writer does not look at readers" in v else s["readers"]
    return s.but(writer=host) if s["live"] and s["writer"] < 0 and not readers else None


def write_unlock(s, v, host, behind):
    valid = s["valid"] | 1 << host if "writer keeps the others' valid bits" in v else 1 << host
    behind = behind and "remote writer does not set modified" not in v
    return s.but(writer=-1, valid=valid, modified=s["modified"] | behind)


def added(s, host):
    """The host's counter one higher, in its copy; a fault if the copy was not the newest."""
    s = used(fetched(s, host), host)
    line = list(s["cache"][host])
    truth = list(s["truth"])
    line[1 + host] += 1
    truth[1 + host] += 1
    line[3] = 1
    return s.but(truth=tuple(truth), cache=set_cache(s, host, tuple(line)))


def used(s, host):
    s = fetched(s, host)
    return s if s["cache"][host][:3] == s["truth"] else s.but(bad="a copy that is not the newest")


def owner(s, v):
    """o: 0 idle, 1 to 3 read, 4 to 8 write, 9 to 11 another row in the same place."""
    at, fresh = s["o"], s["o_fresh"]
    if at == 0:
        steps = []
        if s["o_left"]:
            if "owner copies back before it locks" in v and s["modified"]:
                return [copied_back(dropped(s, 0)).but(o=12, modified=1)]
            begun = s.but(o_left=s["o_left"] - 1, o_fresh=s["valid"] & 1)
            steps += [t.but(o=1) for t in [read_lock(begun, v, 0)] if t]
            steps += [t.but(o=4) for t in [write_lock(begun, v, 0)] if t]
        free = s["readers"] == 0 and s["writer"] < 0 or "row leaves although it is held" in v
        if free and not s["recycled"]:
            steps.append(s.but(live=0, recycled=1, o=9, o_fresh=s["valid"] & 1))
        return steps
    if at == 1 or at == 4:
        return [(s if fresh or "owner does not invalidate" in v else dropped(s, 0)).but(o=at + 1)]
    if at == 2 or at == 5:
        return [(copied_back(s) if s["modified"] else s).but(o=at + 1)]
    if at == 3:
        wrong = s["dram"] != s["truth"][1:]
        s = s.but(o=0, owner_read_dram=1, readers=s["readers"] & ~1)
        return [s.but(bad="a DRAM copy that is behind") if wrong else s]
    if at == 6:
        s = added(s, 0).but(o=7)
        return [s if "owner writes the block only" in v else s.but(dram=s["truth"][1:])]
    if at == 7:
        late = "released before the write-back" in v
        return [(write_unlock(s, v, 0, 0) if late else written_back(s, 0)).but(o=8)]
    if at == 8:
        late = "released before the write-back" in v
        return [(written_back(s, 0) if late else write_unlock(s, v, 0, 0)).but(o=0)]
    if at == 9:  # The word is dead: nobody can lock it. The block and the word go to another row.
        return [s.but(o=10, truth=(1, 0, 0), dram=(0, 0), cache=set_cache(s, 0, (1, 0, 0, 1)))]
    if at == 10:
        return [written_back(s, 0).but(o=11)]
    if at == 11:
        valid = s["valid"] | 1 if "valid bits outlive the row" in v else 1
        return [s.but(o=0, live=1, readers=0, writer=-1, valid=valid, modified=0)]
    if at == 12:  # Only the mutant that copies before it locks.
        return [s.but(o=0, modified=0)]
    return []


def copied_back(s):
    s = fetched(s, 0)
    return s.but(dram=s["cache"][0][1:3], modified=0)


def remote(name, can_write):
    """A worker of host 1. 0 idle, 1 fresh?, 2 whose row?, 3 read, 4 end; 11 to 15 the same for writing."""
    me = {"a": 1, "b": 2}[name]

    def step(s, v):
        at, fresh = s[name], s[name + "_fresh"]
        if at == 0:
            return begin(s, v) if s[name + "_left"] and s["latch"] < 0 else []
        if at in (1, 11):
            skip = fresh or "reader does not invalidate" in v and at == 1 or "writer does not invalidate" in v and at == 11
            return [(s if skip else dropped(s, 1)).but(**{name: at + 1})]
        if at in (2, 12):
            s = fetched(s, 1)
            if s["cache"][1][0] == 0 or "key not compared" in v:
                return [s.but(latch=-1, **{name: at + 1})]
            return [give_back(s, v, at == 12).but(hint_was_wrong=1, latch=-1, **{name: 0, name + "_left": 0})]
        if at == 3:
            wrong = s["cache"][1] and s["cache"][1][0] != 0 and s["recycled"]
            s = used(s, 1).but(**{name: 4}, trusted=s["trusted"] | fresh)
            return [s.but(bad="another row taken for this one") if wrong else s]
        if at == 4:
            if s["latch"] >= 0:
                return []
            s = s.but(local_readers=s["local_readers"] & ~me, **{name: 0})
            if s["local_readers"]:
                return [s]
            late = "valid bit set after the unlock" in v
            return [give_back(s, v, False).but(**{name: 5 if late else 0})]
        if at == 5:
            return [s.but(valid=s["valid"] | 2, **{name: 0})]
        if at == 13:
            return [added(s, 1).but(**{name: 14})]
        if at in (14, 15):
            first = at == 14
            unlock = first == ("released before the write-back" in v)
            if not unlock:
                return [written_back(s, 1).but(**{name: 15 if first else 0})]
            return [write_unlock(s.but(local_writer=-1), v, 1, 1).but(**{name: 15 if first else 0})]
        return []

    def begin(s, v):
        begun = s.but(latch=me, **{name + "_left": s[name + "_left"] - 1, name + "_fresh": s["valid"] >> 1 & 1})
        steps = []
        if s["local_writer"] < 0:
            held = s["local_readers"]
            locked = begun if held else read_lock(begun, v, 1)
            if locked:
                fields = {name: 2 if held else 1, "local_readers": held | me, "shared_hold": s["shared_hold"] | bool(held)}
                latch = -1 if "latch given back before the copy is fresh" in v else me
                steps.append(locked.but(latch=latch, **fields))
            locked = write_lock(begun, v, 1) if can_write and not held else None
            if locked:
                steps.append(locked.but(local_writer=me, **{name: 11}))
        return steps

    def give_back(s, v, wrote):
        if wrote:
            return s.but(writer=-1, valid=s["valid"] | 2, local_writer=-1)
        return s.but(readers=s["readers"] & ~2, local_readers=s["local_readers"] & ~me)

    return step


GOALS = ["owner_read_dram", "shared_hold", "hint_was_wrong", "trusted"]


def run(variant):
    actors = [("caches", caches), ("owner", owner), ("a", remote("a", True)), ("b", remote("b", False))]
    return explore(start(), actors, lambda s: s["bad"] or None, GOALS, variant)


MUTANTS = [
    "reader does not invalidate",
    "writer does not invalidate",
    "owner does not invalidate",
    "valid bit set after the unlock",
    "latch given back before the copy is fresh",
    "writer does not look at readers",
    "released before the write-back",
    "writer keeps the others' valid bits",
    "remote writer does not set modified",
    "owner copies back before it locks",
    "owner writes the block only",
    "row leaves although it is held",
    "valid bits outlive the row",
    "key not compared",
]

if __name__ == "__main__":
    sys.exit(report(run, MUTANTS, GOALS))
