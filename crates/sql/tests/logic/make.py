#!/usr/bin/env python3
"""Writes the expected answers of the logic files: sends each statement of *.sql here to a PostgreSQL 15 server and
writes *.slt beside it. Statements are separated by lines that end with a semicolon; several on a line are one message.
Usage: PGHOST=... PGPORT=... make.py [file]. A fresh database is made for each file.

An answer is the rows (fields with bars between them), the tags of what is no query, the notices, and the error: its
code, the character it points to, its message, detail, hint and context. The client's own role is `postgres`, without a
password."""
import os, pathlib, socket, struct, sys

here = pathlib.Path(__file__).parent
SILENT = ("SELECT ", "FETCH", "SHOW", "EXPLAIN", "COPY")


class Server:
    """A connection that speaks version 3 of the protocol, simple queries only."""

    def __init__(self, database):
        host, port = os.environ.get("PGHOST", "localhost"), int(os.environ.get("PGPORT", "5432"))
        if host.startswith("/"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(f"{host}/.s.PGSQL.{port}")
        else:
            self.socket = socket.create_connection((host, port))
        self.stream = self.socket.makefile("rb")
        body = struct.pack("!i", 196608) + b"user\0postgres\0database\0" + database.encode() + b"\0\0"
        self.socket.sendall(struct.pack("!i", len(body) + 4) + body)
        for kind, body in self.messages():
            assert kind != b"E", body

    def messages(self):
        """What the server says until it is ready for the next query."""
        while True:
            kind, length = struct.unpack("!ci", self.stream.read(5))
            body = self.stream.read(length - 4)
            if kind == b"Z":
                return
            yield kind, body

    def answer(self, statement):
        self.socket.sendall(b"Q" + struct.pack("!i", len(statement.encode()) + 5) + statement.encode() + b"\0")
        lines, tags, notices, error, fields = [], [], [], [], 0
        for kind, body in self.messages():
            if kind == b"T":
                fields = struct.unpack("!h", body[:2])[0]
            elif kind == b"D":
                lines.append(row(body))
            elif kind == b"d":
                lines.append(body.decode().removesuffix("\n"))
            elif kind == b"G":
                self.socket.sendall(b"c\0\0\0\4")
            elif kind == b"C":
                tag = body[:-1].decode()
                if not tag.startswith(SILENT) or (tag.startswith("SELECT ") and not fields):
                    tags.append(tag)
            elif kind == b"N":
                notices += told(body)
            elif kind == b"E":
                error = told(body)
        return "\n".join(lines + tags + notices + error).split("\n") if lines + tags + notices + error else []


def row(body):
    count, at, fields = struct.unpack("!h", body[:2])[0], 2, []
    for _ in range(count):
        length = struct.unpack("!i", body[at:at + 4])[0]
        at += 4
        fields.append("NULL" if length < 0 else body[at:at + length].decode())
        at += max(length, 0)
    return "|".join(fields)


def told(body):
    """An error or a notice, in as many lines as it has parts."""
    parts = {field[:1]: field[1:].decode() for field in body.split(b"\0") if field}
    at = f" at {parts[b'P']}" if b"P" in parts else ""
    lines = [f"{parts[b'S']} {parts[b'C']}{at}: {parts[b'M']}"]
    lines += [f"{name}: {parts[key]}" for key, name in ((b"D", "DETAIL"), (b"H", "HINT"), (b"W", "CONTEXT")) if key in parts]
    return [line.replace("\n", "\\n") for line in lines]


for path in sorted(here.glob("*.sql")):
    if sys.argv[1:] and path.stem not in sys.argv[1:]:
        continue
    statements, lines = [], []
    for line in path.read_text().splitlines():
        if not lines and (not line.strip() or line.startswith("--")):
            continue
        lines.append(line)
        if line.rstrip().endswith(";"):
            statements.append("\n".join(lines))
            lines = []
    first = Server("postgres")
    for sql in ("drop database if exists logic with (force)", "create database logic",
                "alter database logic set default_transaction_isolation = 'serializable'"):
        first.answer(sql)
    server, out = Server("logic"), []
    for statement in statements:
        answer = server.answer(statement)
        out.append(statement + "\n----\n" + "".join(line + "\n" for line in answer) + "====\n")
    (here / (path.stem + ".slt")).write_text("".join(out))
    print(path.stem, len(statements))
