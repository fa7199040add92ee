"""What is known to be answered otherwise than by PostgreSQL 15: each is an entry here and a line of docs/limitations.md.

An entry is the reason and a test of a `Case`: the statement and both answers. It is as narrow as it can be: it names the words of the
statement and the codes, and not whole kinds of differences."""
import dataclasses
import re
import struct

from client import Answer

ARRAYS = (1000, 1001, 1005, 1007, 1009, 1014, 1015, 1016, 1021, 1022, 1115, 1182, 1183, 1185, 1187, 1231, 2951, 3807, -1)


@dataclasses.dataclass
class Case:
    sql: str
    theirs: Answer
    ours: Answer
    binary: bool
    broken: bool
    ordered: bool


def has(case, words):
    return re.search(words, case.sql, re.I) is not None


def codes(case, theirs, ours):
    return case.theirs.state == theirs and case.ours.state == ours


def without_flags(answer, ordered):
    """The rows, with the flag "may hold NULLs" of arrays taken away."""
    arrays = [of in ARRAYS for _, of, _ in answer.columns]
    rows = [tuple(field[:4] + b"\0\0\0\0" + field[8:] if array and field and len(field) >= 12 and struct.unpack("!i", field[:4])[0] < 7 else field
                         for field, array in zip(row, arrays)) for row in answer.rows]
    return rows if ordered else sorted(rows, key=str)


def same_without_flags(case):
    return without_flags(case.theirs, case.ordered) == without_flags(case.ours, case.ordered)


def only_lengths(case):
    """The same columns but for modifiers that only PostgreSQL gives."""
    pairs = list(zip(case.theirs.columns, case.ours.columns))
    return case.theirs.columns != case.ours.columns and len(case.theirs.columns) == len(case.ours.columns) and not case.theirs.state and not case.ours.state and all(
        theirs[:2] == ours[:2] and ours[2] in (-1, theirs[2]) for theirs, ours in pairs) and same_without_flags(case)


KNOWN = [
    # Which expressions are computed at all, and in which order, is the planner's choice. PostgreSQL's own manual promises nothing.
    ("a data exception in an expression that only PostgreSQL computed", lambda case: case.theirs.state[:2] in ("22", "21") and not case.ours.state),
    ("a data exception in an expression that only Liger computed, of a statement that was made faulty", lambda case: case.broken and case.ours.state[:2] in ("22", "21") and not case.theirs.state),
    ("an array's binary flag for NULLs, which PostgreSQL keeps in a slice without any", lambda case: case.binary and not case.theirs.state and not case.ours.state and same_without_flags(case)),
    ("PostgreSQL gives a constant that grouping sets are over NULL at one of its places only", lambda case: has(case, r"(rollup|cube|sets \() ?\(") and has(case, r"(rollup|cube|sets) \(+('|[a-z]+ '|\d|true|\$\d|\('|\(\d)")),
    ("functions of types that Liger does not have make a call with NULL ambiguous", lambda case: codes(case, "42725", "") and has(case, r"trunc\(null")),
    ("the same for unnest, whose other forms take types that Liger does not have", lambda case: codes(case, "42725", "42804") and has(case, r"unnest\((null|'x'|\$)")),
    ("the length of a CASE that PostgreSQL computes before it describes the columns", lambda case: has(case, "case when") and only_lengths(case)),
]


def known(case):
    """The reason why a difference is known, or None."""
    for reason, applies in KNOWN:
        if applies(case):
            return reason
    return None


# Of random sessions: the reason, whether the difference leaves both servers as they were (then the script goes on), and the test.
def both(found, theirs="", ours=""):
    """Both refuse it, PostgreSQL and Liger with texts like these."""
    return bool(found.theirs.state and found.ours.state) and re.search(theirs, found.theirs.message) is not None and re.search(ours, found.ours.message) is not None


SESSIONS = [
    ("of several faults of one statement another is told", True, lambda found: both(found) and re.match(r"alter table .*(, |add )(add|alter|drop|set|reset|owner|validate|replica|cluster|column|foreign|constraint)\b", found.sql)),
    ("which of several rows that a change of type cannot read is told", True, lambda found: found.what == "message" and both(found) and found.theirs.state == found.ours.state and found.ours.state[:2] == "22"
     and re.match(r"alter table .* type ", found.sql) is not None),
    ("which of several generated columns, or of INSERT's and its ON CONFLICT's, is told", True, lambda found: both(found) and (found.theirs.state, found.ours.state) in (("428C9", "428C9"), ("0A000", "0A000"))
     and "a generated column" in found.ours.message + found.ours.detail),
    ("a new column refers to a key that the same statement drops and adds", False, lambda found: found.ours.message.startswith("there is no primary key for referenced table") and "drop constraint" in found.sql and "add primary key" in found.sql),
    ("a new column's NULLs are told before its duplicates", True, lambda found: (found.theirs.state, found.ours.state) == ("23505", "23502") and "alter table" in found.sql and "nulls not distinct" in found.sql),
    ("the type of a column matters to an identity that the same statement drops", False, lambda found: found.theirs.state == "22023" and "drop identity" in found.sql and not found.ours.state),
    ("a view that refers to itself is told where another one is made of it", False, lambda found: not found.theirs.state and found.ours.message.startswith("infinite recursion") and found.sql.startswith("create")),
    ("a view that refers to itself refers to a name", False, lambda found: found.theirs.message.startswith("infinite recursion") and found.ours.state == "42P01"),
    ("temporary views of other sessions are not looked at", False, lambda found: found.theirs.state == "2BP01" and "pg_temp." in found.theirs.detail),
    ("the same of INSERT into a view", True, lambda found: both(found, "^INSERT has more", "^cannot insert into view")),
    ("a constant is brought to its column's type where a row gets it", False, lambda found: found.theirs.state[:2] == "22" and not found.ours.state and re.match("update ", found.sql) is not None and [tag[-2:] for tag in found.ours.tags] == [" 0"]),
    ("a statement that failed has drawn numbers, or has not", True, lambda found: "lastval" in found.sql and found.ours.message.startswith("lastval is not yet defined")),
    ("a name in a text does not ask for USAGE of its schema", True, lambda found: both(found, "^permission denied for schema", "^permission denied for") or found.theirs.message.startswith("permission denied for schema") and "regclass" in found.sql),
    ("REPEATABLE READ is serializable: it sees what was committed before it came to the table", False, lambda found: found.theirs.state + found.ours.state == "" and found.what in ("tags", "rows") and any("isolation level repeatable read" in sql for sql in found.before)),
    ("the same of what only reads, which is told first", True, lambda found: both(found) and found.ours.state == "25006"),
    ("the same of CREATE INDEX", True, lambda found: both(found) and re.match("create (unique )?index ", found.sql)),
    ("expressions of an index are not spelled out where they are told", True, lambda found: found.what == "detail" and both(found) and found.ours.detail.startswith("Key (expression")),
    ("which of several duplicates is told", True, lambda found: found.what == "detail" and both(found, "^could not create unique index", "^could not create unique index")),
    ("which of several rows that break a constraint is told: PostgreSQL looks at rows in the order of its heap, where an update puts them last", True, lambda found: found.what == "detail"
     and both(found, "violates", "violates") and found.theirs.state in ("23502", "23503", "23505", "23514") and re.match("(update|delete|insert into .* select|alter table) ", found.sql) is not None),
    ("deferred checks that wait keep a table from being emptied or changed, whatever they would find", False, lambda found: not found.theirs.state and found.ours.message.endswith("because it has pending trigger events")),
    ("in which order the rows that are there get numbers of a new column", False, lambda found: found.what in ("rows", "rows left") and len(found.theirs.rows) == len(found.ours.rows) and any(re.match("alter table .* add .*(serial|as identity)", sql) for sql in found.before)),
    ("the same of CREATE TABLE, whose sequences and constraints PostgreSQL makes before it looks for the table's own name", True, lambda found: both(found) and re.match(
        r"create (temp |temporary )?table ", found.sql) and re.search(r"already exists|START value|specified more than once|conflicting NULL|multiple primary keys|may reference only|does not exist|cannot be implemented|invalid input syntax",
                                                                      found.theirs.message + found.ours.message)),
    ("the same of what is not there", True, lambda found: both(found, "does not exist", "does not exist|read-only transaction")),
    ("the same of CREATE OR REPLACE VIEW", True, lambda found: both(found) and found.sql.startswith("create or replace")),
    ("a token that does not end is told of before anything else", True, lambda found: both(found, "syntax error", "^unterminated")),
    ("which of several constraints that a change breaks is told", True, lambda found: both(found, "^(duplicate key|.* violates)", "^(duplicate key|.* violates)") and found.what == "message"),
    ("storage of columns is not looked at", False, lambda found: "can only have storage PLAIN" in found.theirs.message),
    ("ON CONFLICT without a target is refused where a constraint of the table is deferrable, though the row meets another one before", False, lambda found: not found.theirs.state and "deferrable unique constraints" in found.ours.message
     and re.search("on conflict do nothing", found.sql) is not None),
    ("SET (n_distinct = ..) of a column is not there", False, lambda found: "n_distinct" in found.sql and found.ours.state == "42601"),
    ("the default level is the one that there is", False, lambda found: "default_transaction_isolation" in found.sql and [row[0] for row in found.ours.rows] == [b"serializable"]),
    ("PostgreSQL does not count the parameters of a prepared statement that takes none", False, lambda found: found.sql.startswith("execute") and found.ours.message.startswith("wrong number of parameters") and found.ours.detail.startswith("Expected 0 ")),
    ("a number alone that is no date", True, lambda found: (found.theirs.state, found.ours.state) == ("22008", "22007")),
    ("in which order dependent objects are told", True, lambda found: found.what == "detail" and found.theirs.state == "2BP01" and sorted(found.theirs.detail.split("\n")) == sorted(found.ours.detail.split("\n"))),
    ("PostgreSQL finds no conversion where it expects one", True, lambda found: found.theirs.state == "XX000" and bool(found.ours.state)),
    ("temporary tables of other sessions are not looked at", False, lambda found: found.what == "notices" and ("pg_temp." in str(found.theirs.notices) + found.theirs.detail or re.match("(drop|alter table) .* cascade", found.sql) is not None
     and told(found.theirs.notices) > told(found.ours.notices) and any(re.match("create (or replace )?temp", sql) for sql in found.before))),
    ("a table may change while a cursor of the session reads it", False, lambda found: "being used by active queries" in found.theirs.message),
    ("SET LOCAL outside of a block looks at nothing", True, lambda found: found.sql.startswith("set local") and not found.ours.state and found.ours.notices == found.theirs.notices),
    ("in which order the rows of a sorted query draw numbers", False, lambda found: "nextval" in found.sql and "order by g desc" in found.sql),
    ("PostgreSQL tells a domain's default with the names that its maker could leave the schemas of", False, lambda found: found.what in ("types", "information_schema.domains")
     and sorted(unqualified(found.theirs.rows), key=str) == sorted(unqualified(found.ours.rows), key=str)),
    ("texts of conditions and defaults are written otherwise", True, lambda found: found.at < 0 and found.what in ("columns", "constraints", "types", "indexes", "information_schema.columns", "information_schema.domains") and written(found.theirs.rows) == written(found.ours.rows)),
]


def unqualified(rows):
    """Rows of the catalog without the schemas of types in casts."""
    return [tuple(field and re.sub(rb"::[abcd]\.", b"::", field) for field in row) for row in rows]


def told(notices):
    """Of how many dependent objects DROP .. CASCADE tells."""
    counts = [re.match(r"drop cascades to (\d+) other objects|drop cascades to ", text) for _, _, text in notices]
    return sum(int(count[1] or 1) for count in counts if count)


def written(rows):
    """Rows of the catalog without what only looks otherwise in its expressions: spaces, parentheses, casts, letters' case."""
    plain = lambda field: field and re.sub(rb"::[a-z ]+(\(\d+\))?(\[\])?|[\s()]|(?<=[ (])E(?=')|\\\\", b"", field).lower()  # noqa: E731
    return sorted((tuple(plain(field) for field in row) for row in rows), key=str)


def known_session(found):
    """Why a difference of random sessions is known, and whether it leaves both as they were; the reason is None if it is not known."""
    for reason, harmless, applies in SESSIONS:
        if applies(found):
            return reason, harmless
    return None, False
