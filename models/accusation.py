"""Who is taken for dead (docs/protocols/takeover.md), checked over every interleaving of a small pod.

Silence: hosts a and b watch each other and host d. Time goes in ticks; in each tick each of the three is scheduled once,
in any order, or not at all: so each may stand still for any time, the accuser too, and all at once. d beats when it is
scheduled. The clock of a runs twice as fast as it should now and then; the one of b is right. Whoever finds d silent
for a lease says which heartbeat stands still, and accuses d if the other has said the same or does not look. An
accusation must rest on looks of the accuser's own, and on what the other has seen for a lease, unless that one hangs.

Ends: the process of d ends and is started again, and a, which reads its name first and then asks whether such a process
runs, accuses the incarnation that it has asked for. No incarnation is accused that runs.

Each mutant leaves out one step. Run: python3 models/accusation.py
"""

import sys

from checker import State, explore, report

LEASE = 3
# Looks in which a lease passes by the clock of each: two fast ones are enough.
LOOKS = {"a": 2, "b": 3}


def silence():
    watcher = {}
    for me in "ab":
        watcher.update({
            # Its memory: for how long d's heartbeat stands still, and the other's count of looks; ticks without a look.
            f"{me}_still": 0, f"{me}_blind": 0, f"{me}_late": 0,
            # Words that have changed since its last look: d's heartbeat, the other's count of looks.
            f"{me}_beaten": True, f"{me}_looked": True,
            # Its suspicion: none, of the heartbeat that counts, of an earlier one.
            f"{me}_suspects": "none",
            # What is so: its looks since d's last beat, and the other's looks since its own last one.
            f"{me}_ran": 0, f"{me}_hangs": 0,
        })
    return State(acted=frozenset(), fault="", agreed=False, alone=False, **watcher)


def watch(me, other):
    """One look of a watcher, or its missing one."""

    def step(s, v):
        if me in s["acted"]:
            return []
        lateness = "own lateness counts" in v
        missed = s.but(**{"acted": s["acted"] | {me}, f"{me}_late": min(s[f"{me}_late"] + lateness, LEASE)})
        successors = [missed]
        for speed in ((1, 2) if me == "a" else (1,)):
            passed = speed * (1 + s[f"{me}_late"])
            looked = s.but(**{
                "acted": s["acted"] | {me}, f"{me}_late": 0,
                f"{me}_still": 0 if s[f"{me}_beaten"] else min(s[f"{me}_still"] + passed, LEASE),
                f"{me}_blind": 0 if s[f"{me}_looked"] else min(s[f"{me}_blind"] + passed, LEASE),
                f"{me}_beaten": False, f"{me}_looked": False, f"{other}_looked": True,
                f"{me}_ran": min(s[f"{me}_ran"] + 1, LEASE), f"{me}_hangs": 0,
                f"{other}_hangs": min(s[f"{other}_hangs"] + 1, LEASE),
            })
            if looked[f"{me}_still"] >= LEASE:
                looked = looked.but(**{f"{me}_suspects": "this"})
                successors += accuse(looked, v, me, other)
            successors.append(looked)
        return successors

    return step


def accuse(s, v, me, other):
    """An accusation of silence, if the other one agrees or does not look."""
    agrees = s[f"{other}_suspects"] in (("this", "earlier") if "any suspicion counts" in v else ("this",))
    alone = s[f"{me}_blind"] >= LEASE
    if not (agrees or alone or "no agreement" in v):
        return []
    fault = ""
    if s[f"{me}_ran"] < LOOKS[me]:
        fault = f"{me} accuses after {s[f'{me}_ran']} looks"
    elif s[f"{other}_ran"] < LOOKS[other] and s[f"{other}_hangs"] < LOOKS[me]:
        fault = f"{other} looks and has not seen the silence"
    return [s.but(fault=fault, **{"agreed" if agrees else "alone": True})]


def beats(s, v):
    if "d" in s["acted"]:
        return []
    skipped = s.but(acted=s["acted"] | {"d"})
    earlier = {f"{me}_suspects": "earlier" for me in "ab" if s[f"{me}_suspects"] != "none"}
    return [skipped, skipped.but(a_ran=0, b_ran=0, a_beaten=True, b_beaten=True, **earlier)]


def tick(s, v):
    return [s.but(acted=frozenset())] if len(s["acted"]) == 3 else []


def of_silence(variant):
    actors = [("a", watch("a", "b")), ("b", watch("b", "a")), ("d", beats), ("tick", tick)]
    return explore(silence(), actors, lambda s: s["fault"], goals=["agreed", "alone"], variant=variant)


def ask(s, v):
    """Reads the name of d's process; behind that, asks whether such a process runs, and accuses."""
    if s["asked"] == 0:
        return [s.but(asked=s["incarnation"])]
    over = s["asked"] < s["incarnation"] or not s["runs"]
    accused = s["incarnation"] if "end believed of a later incarnation" in v else s["asked"]
    # An accusation of an incarnation that is over, whose number has another one, is void.
    hits = over and accused == s["incarnation"]
    return [s.but(asked=0, ended=s["ended"] or hits, fault="an incarnation is accused that runs" if hits and s["runs"] else "")]


def live(s, v):
    if s["runs"]:
        return [s.but(runs=False)]
    return [s.but(incarnation=s["incarnation"] + 1, runs=True)] if s["incarnation"] < 3 else []


def of_ends(variant):
    first = State(incarnation=1, runs=True, asked=0, ended=False, fault="")
    return explore(first, [("a", ask), ("d", live)], lambda s: s["fault"], goals=["ended"], variant=variant)


if __name__ == "__main__":
    MUTANTS = ["own lateness counts", "no agreement", "any suspicion counts"]
    wrong = report(of_silence, MUTANTS, goals=["agreed", "alone"])
    sys.exit(wrong + report(of_ends, ["end believed of a later incarnation"], goals=["ended"]))
