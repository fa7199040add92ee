"""Host-level epochs (docs/protocols/reclamation.md), checked over every interleaving of a small pod.

Host A has a reader and a collector, host B a retirer that also collects and frees. The reader announces an epoch in its
host's memory, whose stores may be delayed in the reader's store buffer until a fence. Each mutant leaves out one step;
the protocol itself must be safe, every mutant must lead to a use after free. Run: python3 models/epochs_host_level.py
"""

import sys

from checker import State, explore, report

QUIET = 99
LAST_EPOCH = 4
READS = 2


def start():
    return State(
        pod=0, link=1, freed=0, broken=0,
        # Host A: epoch and announcement in its memory, the announcement waiting in the store buffer (-1: none), summary.
        a_now=0, a_announced=QUIET, a_buffer=-1, a_summary=0,
        # Host B: summary (nobody reads there), tag of the retired node (-1: not retired).
        b_summary=0, tag=-1, own=-1,
        # Program counters and registers.
        reader=0, reads=0, seen=-1, node=0, collector=0, epoch=-1, least=-1, retirer=0, b_epoch=-1, b_least=-1,
    )


def reader(s, v):
    at = s["reader"]
    if at == 0 and s["reads"] < READS:
        return [s.but(seen=s["a_now"], reader=1)]
    if at == 1:
        return [s.but(a_buffer=s["seen"], reader=2)]
    if at == 2:
        return [s.but(reader=4)] if s["a_buffer"] < 0 or "no reader fence" in v else []
    if at == 4:
        return [s.but(node=s["link"], reader=5)]
    if at == 5:
        return [s.but(broken=int(s["node"] == 1 and s["freed"]), reader=6)]
    if at == 6:  # Unpinning: a store that the buffer keeps in order behind the announcement.
        done = s.but(node=0, reader=0, reads=s["reads"] + 1, a_announced=QUIET)
        return [done] if s["a_buffer"] < 0 else []
    return []


def buffer(s, v):
    return [s.but(a_announced=s["a_buffer"], a_buffer=-1)] if s["a_buffer"] >= 0 else []


def advance(s, epoch):
    return s.but(pod=epoch + 1) if s["pod"] == epoch and epoch < LAST_EPOCH else s


def collector(s, v):
    at = s["collector"]
    late = "epoch after the look" in v
    if at == 0 and s["epoch"] < LAST_EPOCH:
        return [s.but(least=s["a_announced"], collector=1) if late else s.but(epoch=s["pod"], collector=1)]
    if at == 1:
        return [s.but(epoch=s["pod"], collector=2) if late else s.but(least=s["a_announced"], collector=2)]
    if at == 2:
        return [s.but(a_now=s["epoch"], least=min(s["least"], s["epoch"]), collector=3)]
    if at == 3:
        return [s.but(a_summary=s["least"], collector=4)]
    if at == 4:
        ready = min(s["a_summary"], s["b_summary"]) >= s["epoch"]
        return [(advance(s, s["epoch"]) if ready else s).but(collector=0)]
    return []


def retirer(s, v):
    at = s["retirer"]
    if at == 0:
        return [s.but(own=s["pod"], retirer=1)]
    if at == 1:
        return [s.but(link=0, retirer=2)]
    if at == 2:
        return [s.but(tag=s["own"] if "tag before the unlinking" in v else s["pod"], retirer=3)]
    if at == 3 and s["b_epoch"] < LAST_EPOCH:
        return [s.but(b_epoch=s["pod"], b_summary=s["pod"], retirer=4)]
    if at == 4:
        return [s.but(b_least=min(s["a_summary"], s["b_summary"]), retirer=5)]
    if at == 5:
        s = advance(s, s["b_epoch"]) if s["b_least"] >= s["b_epoch"] else s
        slack = 1 if "free at the tag's epoch" in v else 0
        return [s.but(freed=int(s["tag"] < s["b_least"] + slack), retirer=3)]
    return []


def run(variant):
    actors = [("reader", reader), ("buffer", buffer), ("collector", collector), ("retirer", retirer)]
    fault = lambda s: "use after free" if s["broken"] else None
    return explore(start(), actors, fault, goals=["freed"], variant=variant)


MUTANTS = ["no reader fence", "epoch after the look", "tag before the unlinking", "free at the tag's epoch"]

if __name__ == "__main__":
    sys.exit(report(run, MUTANTS, goals=["freed"]))
