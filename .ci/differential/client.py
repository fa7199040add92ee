"""A connection that speaks version 3 of PostgreSQL's protocol over a plain socket, in each of the ways that a client can send a
statement, and says what came back, byte by byte."""
import dataclasses
import socket
import struct

MODES = ("simple", "extended", "binary", "prepared", "portal")


@dataclasses.dataclass
class Answer:
    """What a statement was answered. `columns` are (name, type, modifier); types that users made are all -1."""
    columns: tuple = ()
    parameters: tuple = ()
    rows: list = dataclasses.field(default_factory=list)
    tags: list = dataclasses.field(default_factory=list)
    state: str = ""
    message: str = ""
    detail: str = ""
    hint: str = ""
    notices: list = dataclasses.field(default_factory=list)


class Lost(Exception):
    """The server closed the connection, or did not answer in time."""


class Client:
    """`status` is the state of its transaction after the last answer: I (none), T or E. `notified` are notifications, as (channel, payload).
    `marked` is for whoever uses it."""

    def __init__(self, host, port, database="postgres", user="postgres", patience=30.0, settings=None):
        self.place, self.status, self.notified, self.marked = f"{host}:{port}", "I", [], False
        if host.startswith("/"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(f"{host}/.s.PGSQL.{port}")
        else:
            self.socket = socket.create_connection((host, port), timeout=patience)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(patience)
        self.stream = self.socket.makefile("rb")
        settings = {"user": user, "database": database} | (settings or {})
        body = struct.pack("!i", 196608) + "".join(f"{name}\0{value}\0" for name, value in settings.items()).encode() + b"\0"
        self.socket.sendall(struct.pack("!i", len(body) + 4) + body)
        answer = self.receive()
        if answer.state:
            raise Lost(f"{self.place}: {answer.state} {answer.message}")

    def close(self):
        self.stream.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def messages(self):
        """What the server says, up to ReadyForQuery."""
        while True:
            try:
                head = self.stream.read(5)
                if len(head) < 5:
                    raise Lost(f"{self.place} closed the connection")
                kind, length = struct.unpack("!ci", head)
                body = self.stream.read(length - 4)
            except TimeoutError as error:
                raise Lost(f"{self.place} gave no answer in time") from error
            if kind == b"Z":
                self.status = body.decode()
                return
            yield kind, body

    def receive(self):
        answer = Answer()
        for kind, body in self.messages():
            if kind == b"T":
                answer.columns = columns_of(body)
            elif kind == b"t":
                count = struct.unpack("!h", body[:2])[0]
                answer.parameters = tuple(own(oid) for oid in struct.unpack(f"!{count}I", body[2:]))
            elif kind == b"D":
                answer.rows.append(fields_of(body))
            elif kind == b"C":
                answer.tags.append(body[:-1].decode())
            elif kind == b"E":
                parts = parts_of(body)
                answer.state, answer.message, answer.detail, answer.hint = parts["C"], parts["M"], parts.get("D", ""), parts.get("H", "")
            elif kind == b"N":
                parts = parts_of(body)
                answer.notices.append((parts["S"], parts["C"], parts["M"]))
            elif kind == b"A":
                channel, payload = body[4:-1].decode().split("\0")
                self.notified.append((channel, payload))
        return answer

    def run(self, mode, sql, values=()):
        """Runs one statement. `values` are texts for $1, $2 and so on (None for NULL); the simple protocol takes none."""
        self.send(mode, sql, values)
        return self.receive()

    def send(self, mode, sql, values=()):
        """Sends a statement; each that is sent has its own `receive`, in order."""
        if mode == "simple":
            self.socket.sendall(message(b"Q", text(sql)))
            return
        name = "differential" if mode == "prepared" else ""
        form = 1 if mode == "binary" else 0
        values = [None if value is None else value.encode() for value in values]
        parse = message(b"P", text(name) + text(sql) + struct.pack("!h", 0))
        bind = message(b"B", text("") + text(name) + struct.pack("!hh", 0, len(values)) + b"".join(
            struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value for value in values)
            + struct.pack("!hh", 1, form))
        describe = message(b"D", b"S" + text(name))
        if mode == "portal":
            executes = b"".join(message(b"E", text("") + struct.pack("!i", rows)) for rows in (1, 2, 7, 0))
        else:
            executes = message(b"E", text("") + struct.pack("!i", 0))
        end = message(b"S", b"")
        close = message(b"C", b"S" + text(name)) if mode == "prepared" else b""
        self.socket.sendall(close + parse + describe + bind + executes + end)


def parts_of(body):
    return {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}


def own(oid):
    return oid if oid < 16384 else -1


def text(value):
    return value.encode() + b"\0"


def message(kind, body):
    return kind + struct.pack("!i", len(body) + 4) + body


def columns_of(body):
    count, at, columns = struct.unpack("!h", body[:2])[0], 2, []
    for _ in range(count):
        end = body.index(b"\0", at)
        _, _, oid, _, modifier, _ = struct.unpack("!IhIhih", body[end + 1:end + 19])
        columns.append((body[at:end].decode(), own(oid), modifier))
        at = end + 19
    return tuple(columns)


def fields_of(body):
    count, at, fields = struct.unpack("!h", body[:2])[0], 2, []
    for _ in range(count):
        length = struct.unpack("!i", body[at:at + 4])[0]
        at += 4
        fields.append(None if length < 0 else body[at:at + length])
        at += max(length, 0)
    return tuple(fields)
