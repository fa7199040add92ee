"""A small explicit-state checker: tries every interleaving of a few actors and reports the shortest way to a fault.

A state is a `State`: named values, all hashable. An actor is a name and a function `step(state, variant)` that returns the
states it can go to with one atomic step; none if it is done or waits. A variant is a set of names of steps that are left
out or done in another order. "Safe" means: no fault in any reachable state of this small configuration; it is no proof
for larger ones. So that a model cannot be safe because nothing happens in it, every run must also reach its goals.
"""

from collections import deque
import sys


class State(dict):
    """Named values; the names never change, so that states compare by the tuple of their values."""

    def but(self, **changes):
        successor = State(self)
        successor.update(changes)
        return successor

    def key(self):
        return tuple(self.values())


class Outcome:
    """What a search found: states seen, the first fault and the way to it, goals that were reached."""

    def __init__(self, states, fault, path, goals):
        self.states, self.fault, self.path, self.goals = states, fault, path, goals


def explore(first, actors, fault, goals=(), variant=frozenset()):
    """Searches breadth first, so the way to a fault is a shortest one. `fault(state)` is a text or None; `goals` are
    names of values that must become true somewhere."""
    came_from = {first.key(): (None, None)}
    todo, reached = deque([first]), set()
    while todo:
        state = todo.popleft()
        reached.update(goal for goal in goals if state[goal])
        wrong = fault(state)
        if wrong:
            return Outcome(len(came_from), wrong, way_to(state.key(), came_from), reached)
        for name, step in actors:
            for successor in step(state, variant):
                key = successor.key()
                if key not in came_from:
                    came_from[key] = (state.key(), name)
                    todo.append(successor)
    return Outcome(len(came_from), None, [], reached)


def way_to(key, came_from):
    names = []
    while came_from[key][0] is not None:
        key, name = came_from[key]
        names.append(name)
    return names[::-1]


def report(run, mutants, goals=()):
    """Runs the protocol, which must be safe and reach its goals, and every mutant, which must not be safe. `mutants` are
    names; `run(variant)` is an `Outcome`. Prints a line for each; with -v the actors' order in each counterexample.
    Returns how many lines are not as they should be."""
    wrong = 0
    for name in (None, *mutants):
        outcome = run(frozenset() if name is None else frozenset([name]))
        as_it_should = (outcome.fault is None and outcome.goals == set(goals)) if name is None else bool(outcome.fault)
        wrong += not as_it_should
        verdict = f"UNSAFE: {outcome.fault}, in {len(outcome.path)} steps" if outcome.fault else "safe"
        mark = "" if as_it_should else "   <- NOT AS IT SHOULD BE"
        print(f"{name or 'the protocol':52} {outcome.states:8} states  {verdict}{mark}")
        if outcome.fault and "-v" in sys.argv:
            print("    " + " ".join(outcome.path))
    return wrong
