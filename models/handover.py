"""A partition goes from a living host to another one (docs/protocols/handover.md): every interleaving of one row of it.

Host a owns the partition and hands it to b; c uses the row when it is shared, and takes over from who dies. The row's
value counts its changes. A change is in a ring when it commits, and in files later; whoever recovers needs an image and
all changes behind it, in files. A dead host's ring is filed by its successor. Files are shortened up to the newest image
that is not needed any more; an image is needed, wherever it is, until another host has a newer one, also if its host was dead
in between.

No committed change is lost, whoever dies when; nobody changes the row who is not its owner, nor an old value of it.
Each mutant leaves out one step. Run: python3 models/handover.py
"""

import sys

from checker import State, explore, report

CHANGES = 2
RELEASES = 2

FIRST = State(
    # The owner's word: owner, next owner, whether it is released, which release; whether its owner has an image of it.
    owner="a", next="", released=False, release=0, unsaved=False,
    # What is so: changes that have committed.
    committed=0,
    # Memory of hosts: the row's value in DRAM, if the host keeps it; what b has read, and of which release.
    a=0, b=None, c=None, read=None, is_open=True,
    # The row's value in shared memory, if it is there, and whose memory that is.
    shared=None, chunk="",
    # Changes in files, and up to which change files were shortened; images.
    filed=0, short=0, image_a=0, image_b=None, image_c=None,
    dead=frozenset(), back=False, fault="", moved=False, returned=False, inherited=False,
)


def change(s, host):
    """A change of the row by a host that has it."""
    value = s["shared"] if s["shared"] is not None else s[host]
    fault = "" if value == s["committed"] else f"{host} changes value {value} of {s['committed']}"
    if s["committed"] == CHANGES:
        return s.but(fault=fault)
    new = s["committed"] + 1
    place = {"shared": new} if s["shared"] is not None else {host: new}
    return s.but(committed=new, fault=fault, **place)


def recovered(s):
    """The value that images and files have, and what is wrong with that."""
    images = [s[f"image_{host}"] for host in "abc" if s[f"image_{host}"] is not None]
    if not images or max(images) < s["short"]:
        return 0, "changes behind the newest image are missing"
    return max(s["filed"], *images), ""


def a_works(s, v):
    if "a" in s["dead"] or s["back"]:
        return []
    steps = []
    mine = s["owner"] == "a" and not s["released"]
    if mine and s["is_open"]:
        steps.append(change(s, "a"))
        if s["shared"] is None:
            steps.append(s.but(shared=s["a"], chunk="a"))
        if s["next"]:
            steps.append(s.but(is_open=False))
    if s["owner"] == "a" and s["shared"] is not None and not s["released"]:
        steps.append(s.but(a=s["shared"], shared=None))
    if mine and not s["is_open"]:
        out = s["shared"] is None or "rows stay shared" in v
        filed = s["filed"] == s["committed"] or "logs are not waited for" in v
        if out and filed and s["release"] < RELEASES:
            steps.append(s.but(released=True, release=s["release"] + 1))
    if s["owner"] == "a" and s["released"]:
        steps.append(s.but(released=False, is_open=True))
    if "the word is stored" in v and s["owner"] == "b" and s["a"] is not None:
        steps.append(s.but(owner="a", released=False, is_open=True))
    if s["owner"] != "a" and s["a"] is not None and "the word is stored" not in v:
        steps.append(s.but(a=None))
    # A checkpoint: of the partition, or of what else it has.
    if mine and s["shared"] is None:
        steps.append(s.but(image_a=s["a"], short=max(s["short"], min(s["a"], s["filed"]))))
    # Files are shortened up to the earliest checkpoint of all hosts, the owner's of the partition among them.
    if s["owner"] != "a" and "begin is raised while unsaved" in v:
        steps.append(s.but(short=s["filed"]))
    if s["owner"] != "a" and not s["unsaved"]:
        steps.append(s.but(short=max(s["short"], min(s["filed"], s[f"image_{s['owner']}"]))))
    return steps


def b_works(s, v):
    if "b" in s["dead"]:
        return []
    steps = []
    if s["owner"] == "a" and not s["next"]:
        steps.append(s.but(next="b"))
    if s["released"] and s["owner"] == "a":
        value, fault = recovered(s)
        steps.append(s.but(read=(value, s["release"]), fault=fault))
        if s["read"]:
            value, release = s["read"]
            if release == s["release"] or "the word names no release" in v:
                steps.append(s.but(owner="b", next="", released=False, unsaved=True, b=value, read=None, moved=True))
    if s["owner"] == "b":
        steps.append(change(s, "b"))
        shared = s["shared"] is not None
        steps.append(s.but(b=s["shared"], shared=None) if shared else s.but(shared=s["b"], chunk="b"))
        image = s["shared"] if shared else s["b"]
        short = s["short"] if s["unsaved"] else max(s["short"], min(image, s["filed"]))
        steps.append(s.but(image_b=image, unsaved=False, short=short))
    return steps


def c_works(s, v):
    steps = []
    if s["shared"] is not None and s["owner"] not in s["dead"]:
        steps.append(change(s, "c"))
    # It takes over from a dead owner, whose ring it files first.
    if s["owner"] in s["dead"]:
        closed = s.but(filed=s["committed"])
        value, fault = recovered(closed)
        value = s["shared"] if s["shared"] is not None else value
        if value != s["committed"]:
            fault = fault or f"the successor has value {value} of {s['committed']}"
        # What it adopts are the chunks of the dead owner.
        chunk = "c" if s["chunk"] == s["owner"] else s["chunk"]
        taken = closed.but(owner="c", next="", released=False, unsaved=True, c=value, chunk=chunk)
        steps.append(taken.but(fault=fault, inherited=True))
    if s["owner"] == "c":
        steps.append(change(s, "c"))
        if s["shared"] is not None:
            steps.append(s.but(c=s["shared"], shared=None))
        elif s["unsaved"]:
            steps.append(s.but(image_c=s["c"], unsaved=False))
    return steps


def storage(s, v):
    """Files take what rings hold."""
    return [s.but(filed=s["committed"])] if s["filed"] < s["committed"] else []


def death(s, v):
    steps = []
    for host in "ab":
        if host not in s["dead"] and not (host == "a" and s["back"]):
            lost = {"a": {"a": None}, "b": {"b": None, "read": None}}[host]
            steps.append(s.but(dead=s["dead"] | {host}, **lost))
    # A dead host comes back; its image stays as long as somebody needs it.
    if "a" in s["dead"] and s["owner"] != "a":
        lost = "a row lies in memory that is given back" if s["shared"] is not None and s["chunk"] == "a" else ""
        needed = s["unsaved"] and "a host that is back drops its image" not in v
        image = s["image_a"] if needed else None
        steps.append(s.but(dead=s["dead"] - {"a"}, back=True, image_a=image, returned=True, fault=lost))
    return steps


def explored(variant):
    actors = [("a", a_works), ("b", b_works), ("c", c_works), ("storage", storage), ("death", death)]
    goals = ["moved", "returned", "inherited"]
    return explore(FIRST, actors, lambda s: s["fault"], goals=goals, variant=variant)


if __name__ == "__main__":
    MUTANTS = [
        "rows stay shared",
        "logs are not waited for",
        "the word is stored",
        "the word names no release",
        "begin is raised while unsaved",
        "a host that is back drops its image",
    ]
    sys.exit(report(explored, MUTANTS, goals=["moved", "returned", "inherited"]))
