"""The log's epochs (docs/protocols/log.md), checked over every interleaving of a small pod.

Two workers commit on one host, one after the other in the same row: the second has the lock only when the first has
released it. Each shows the epoch of its commit in its host's memory, whose stores may wait in a store buffer until a
fence, and reads the pod's epoch again. A shipper reads the epoch, what the workers show, and the tail; writes records
and mark, syncs, and tells the durable epoch. The power may go at any moment: the disk must hold every record of the
durable epoch and before, no worker may commit in an older epoch than the one it depends on, and no mark on the disk
may be in front of a record of its epoch. Each mutant leaves out one step. Run: python3 models/epochs_commit.py
"""

import sys

from checker import State, explore, report

NONE = 99
LAST_EPOCH = 3


def start():
    return State(
        epoch=1, lock=0, ring=(), disk=(), cached=(), durable=0, stated=0, done=False,
        # Workers: program counter, epoch, what is shown, and what waits in the store buffer (-1: nothing).
        a_at=0, a_epoch=0, a_shown=NONE, a_buffer=-1,
        b_at=0, b_epoch=0, b_shown=NONE, b_buffer=-1,
        # Copy of the epoch that worker b's host has, which only a mutant uses.
        b_copy=1,
        # Shipper: program counter, target, tail it saw, how much it has written.
        shipper=0, target=0, tail=0, early=0, written=0,
    )


def worker(name):
    at_, epoch_, shown_, buffer_ = (f"{name}_{what}" for what in ("at", "epoch", "shown", "buffer"))

    def step(s, v):
        at = s[at_]
        pod = s["b_copy"] if "epoch from a copy" in v and name == "b" else s["epoch"]
        if at == 0 and s["lock"] == 0:
            early = "epoch before the lock" in v and name == "b"
            if early and s[epoch_] == 0:
                return []
            return [s.but(**{"lock": 1, at_: 1, epoch_: s[epoch_] if early else pod})]
        if at == 0:
            return []
        if at == 1:
            return [s.but(**{at_: 2} if "show nothing" in v else {buffer_: s[epoch_], at_: 2})]
        if at == 2:  # The fence.
            return [s.but(**{at_: 3})] if s[buffer_] < 0 or "no fence after showing" in v else []
        if at == 3:
            early = "epoch before the lock" in v and name == "b"
            if pod != s[epoch_] and "epoch not read again" not in v and not early:
                return [s.but(**{epoch_: pod, at_: 1})]
            return [s.but(**{at_: 4})]
        if at == 4:  # The record and the tail, fenced.
            return [s.but(**{"ring": s["ring"] + (s[epoch_],), at_: 5})] if s[buffer_] < 0 else []
        if at == 5:  # The lock is released before the worker shows nothing.
            return [s.but(**{"lock": 0, at_: 6})]
        if at == 6:
            return [s.but(**{shown_: NONE, at_: 7})]
        return []

    def drain(s, v):
        return [s.but(**{shown_: s[buffer_], buffer_: -1})] if s[buffer_] >= 0 else []

    return [(name, step), (f"{name}-buffer", drain)]


def early_reader(s, v):
    """Worker b reads its epoch long before it has the lock."""
    if "epoch before the lock" in v and s["b_at"] == 0 and s["b_epoch"] == 0:
        return [s.but(b_epoch=s["epoch"])]
    return []


def ticker(s, v):
    return [s.but(epoch=s["epoch"] + 1)] if s["epoch"] < LAST_EPOCH else []


def shipper(s, v):
    at = s["shipper"]
    if at == 0 and s["durable"] < LAST_EPOCH - 1:
        return [s.but(target=s["epoch"] - 1, early=len(s["ring"]), shipper=1)]
    if at == 1:
        oldest = NONE if "active not heeded" in v else min(s["a_shown"], s["b_shown"])
        return [s.but(target=min(s["target"], oldest - 1), shipper=2)]
    if at == 2:
        tail = s["early"] if "tail before active" in v else len(s["ring"])
        return [s.but(tail=tail, shipper=3) if s["target"] > s["durable"] else s.but(shipper=0)]
    if at == 3:
        records = s["ring"][s["written"]:s["tail"]]
        return [s.but(cached=s["cached"] + records + (-s["target"],), written=s["tail"], shipper=4)]
    if at == 4:
        synced = s if "told before the sync" in v else s.but(disk=s["cached"])
        return [synced.but(shipper=5)]
    if at == 5:
        after = s.but(durable=s["target"], shipper=6)
        return [after.but(done=after["durable"] >= 2 and len(after["disk"]) > 2)]
    if at == 6:
        return [s.but(disk=s["cached"], shipper=0)]
    return []


def fault(s):
    if list(s["ring"]) != sorted(s["ring"]):
        return "a commit in an older epoch than what it depends on"
    on_disk = [record for record in s["disk"] if record > 0]
    due = [record for record in s["ring"] if record <= s["durable"]]
    if len(on_disk) < len(due) or (s["durable"] and -s["durable"] not in s["disk"]):
        return "a durable record is not on the disk"
    for at, mark in enumerate(s["disk"]):
        before = sum(record > 0 for record in s["disk"][:at])
        if mark < 0 and any(record <= -mark for record in s["ring"][before:]):
            return "a record behind the mark of its epoch"
    return None


def run(variant):
    actors = worker("a") + worker("b") + [("early", early_reader), ("tick", ticker), ("ship", shipper)]
    return explore(start(), actors, fault, goals=["done"], variant=variant)


MUTANTS = [
    "show nothing", "no fence after showing", "epoch not read again", "active not heeded", "tail before active",
    "told before the sync", "epoch before the lock", "epoch from a copy",
]

if __name__ == "__main__":
    sys.exit(report(run, MUTANTS, goals=["done"]))
