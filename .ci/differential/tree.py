"""Statements as trees of text, so that one that is answered differently can be made smaller without a parser.

A node is a piece of SQL that has a type, where it is an expression; an `Optional` may be left out, of a `Several` any item but the
last `least`, and an expression may become one of the same type that it contains, or a plain constant."""
import re


class Node:
    def __init__(self, type_, parts, plain=None):
        self.type, self.parts, self.plain = type_, list(parts), plain


class Literal:
    """A constant; as a parameter where the protocol has them and `bound` asks for it."""

    def __init__(self, type_, written, value, sql_type, bound):
        self.type, self.written, self.value, self.sql_type, self.bound = type_, written, value, sql_type, bound


class Optional(Node):
    def __init__(self, *parts):
        super().__init__(None, parts)
        self.there = True


class Several(Node):
    def __init__(self, separator, parts, least=1):
        super().__init__(None, parts)
        self.separator, self.least = separator, least


def render(tree, bound):
    """The statement's text and its parameters."""
    places, values, out = {}, [], []

    def write(part):
        if isinstance(part, str):
            out.append(part)
        elif isinstance(part, Literal):
            if not (bound and part.bound):
                out.append(part.written)
                return
            if id(part) not in places:
                values.append(part.value)
                places[id(part)] = len(values)
            out.append(f"${places[id(part)]}::{part.sql_type}")
        elif isinstance(part, Several):
            for i, item in enumerate(part.parts):
                out.append(part.separator if i else "")
                write(item)
        elif not isinstance(part, Optional) or part.there:
            for item in part.parts:
                write(item)

    write(tree)
    return "".join(out), values


def fill(template, type_, make, plain=None):
    """A node from a template such as "({int} + {int})": `make` gives what stands in the braces."""
    pieces = re.split(r"(?<!{){(\w+)}(?!})", template)
    parts = [make(part) if i % 2 else part.replace("{{", "{").replace("}}", "}") for i, part in enumerate(pieces)]
    return Node(type_, parts, plain)


def holders(tree):
    """Every (list, index) at which something stands, outermost first."""
    queue = [tree]
    while queue:
        node = queue.pop(0)
        if isinstance(node, Node):
            for i, part in enumerate(node.parts):
                if not isinstance(part, str):
                    yield node.parts, i
                    queue.append(part)


def inner(node, type_):
    """The nearest expressions of a type below a node."""
    queue, found = list(node.parts), []
    while queue and len(found) < 6:
        part = queue.pop(0)
        if isinstance(part, (Node, Literal)) and part.type == type_:
            found.append(part)
        elif isinstance(part, Node) and not part.type == "query":
            queue.extend(part.parts)
    return found


def reduce(tree, still, tries=2500):
    """Makes a tree smaller for as long as `still()` holds. The tree changes in place."""
    changed = True
    while changed and tries > 0:
        changed = False
        for parts, i in list(holders(tree)):
            if i >= len(parts):
                continue
            node = parts[i]
            if isinstance(node, Optional) and node.there:
                node.there, tries = False, tries - 1
                if still():
                    changed = True
                    continue
                node.there = True
            if isinstance(node, Several):
                at = 0
                while len(node.parts) > node.least and at < len(node.parts):
                    kept, tries = node.parts.pop(at), tries - 1
                    if still():
                        changed = True
                    else:
                        node.parts.insert(at, kept)
                        at += 1
            if isinstance(node, Node) and node.type:
                plain = [Literal(node.type, node.plain, None, "", False)] if node.plain else []
                for smaller in plain + inner(node, node.type):
                    parts[i], tries = smaller, tries - 1
                    if still():
                        changed = True
                        break
                    parts[i] = node
            if tries <= 0:
                break
