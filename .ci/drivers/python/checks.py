"""Counts what a driver can do. Every check runs in a connection of its own; the last line printed is the result."""

import datetime as dt
import decimal
import sys
import traceback
import uuid

# What the types of a row must bring back, as Python's drivers have them: column, SQL type, value.
UTC = dt.timezone.utc
ROW = [
    ("b", "boolean", True),
    ("i2", "smallint", -32768),
    ("i4", "integer", 2147483647),
    ("i8", "bigint", -9223372036854775808),
    ("n", "numeric(20,5)", decimal.Decimal("-12345678901234.50000")),
    ("f8", "double precision", 0.1),
    ("t", "text", "gr\u00fc\u00df \u4e16\u754c ' \" \\ \t\n"),
    ("v", "varchar(10)", ""),
    ("by", "bytea", b"\x00\x01\xff\\'"),
    ("d", "date", dt.date(2024, 2, 29)),
    ("ts", "timestamp", dt.datetime(1999, 12, 31, 23, 59, 59, 999999)),
    ("tz", "timestamptz", dt.datetime(2024, 3, 31, 1, 30, tzinfo=UTC)),
    ("ti", "time", dt.time(12, 34, 56, 789000)),
    ("u", "uuid", uuid.UUID("12345678-1234-5678-1234-567812345678")),
    ("ai", "integer[]", [1, None, 3]),
    ("at", "text[]", ["a", 'b "c"', "NULL", ""]),
    ("nul", "integer", None),
]
NAMES = ", ".join(name for name, _, _ in ROW)
VALUES = [value for _, _, value in ROW]


def create(table):
    return f"create table {table} (id serial primary key, {', '.join(f'{n} {t}' for n, t, _ in ROW)})"


def same(seen, expected):
    assert seen == expected, f"expected {expected!r}, but there is {seen!r}"


class Checks:
    def __init__(self, name, version):
        self.name, self.version, self.passed, self.failed = name, version, 0, 0

    def check(self, title, body):
        try:
            body()
            self.passed += 1
        except Exception as error:  # any failure of a driver is a result
            self.failed += 1
            place = traceback.extract_tb(error.__traceback__)
            lines = [str(frame.lineno) for frame in place if "drivers/python" in (frame.filename or "")]
            text = " ".join(str(error).split())[:400]
            print(f"  FAILED {self.name}: {title} (line {lines[-1:]}): {type(error).__name__}: {text}")

    def all(self, bodies):
        for body in bodies:
            self.check(body.__name__.replace("_", " "), body)
        self.end()

    def end(self):
        print(f"{self.name} {self.version}: {self.passed} passed, {self.failed} failed")
        sys.exit(self.failed > 0)
