"""pg8000: pure Python, "flush" behind every message."""

import io
import sys

import pg8000.dbapi
import pg8000.native
from checks import NAMES, ROW, VALUES, Checks, create, same
from importlib.metadata import version

PORTS = [int(port) for port in sys.argv[1:]]


def connect(host=0):
    return pg8000.native.Connection("postgres", host="127.0.0.1", port=PORTS[host], database="postgres")


def state(error):
    return error.args[0]["C"]


def setup():
    c = connect()
    c.run("drop table if exists p8_types, p8_t")
    c.run(create("p8_types"))
    c.run("create table p8_t (id int primary key, v text, jb jsonb)")
    c.close()


def types_round_trip():
    c = connect()
    values = {name: value for name, _, value in ROW}
    c.run(f"insert into p8_types ({NAMES}) values ({', '.join(':' + name for name, _, _ in ROW)})", **values)
    other = connect(1)
    same(other.run(f"select {NAMES} from p8_types"), [VALUES])
    same([column["name"] for column in other.columns][:2], ["b", "i2"])


def prepared_statements():
    c = connect()
    statement = c.prepare("insert into p8_t values (:id, :v, :jb) returning id, jb")
    for n in range(20):
        same(statement.run(id=n, v=f"v{n}", jb='{"a": 1}'), [[n, {"a": 1}]])
    statement.close()


def transactions_savepoints_and_errors():
    c = connect()
    c.run("start transaction")
    c.run("insert into p8_t values (100)")
    c.run("savepoint s")
    try:
        c.run("insert into p8_t values (100)")
        raise AssertionError("a key twice")
    except pg8000.native.DatabaseError as error:
        same(state(error), "23505")
    try:
        c.run("select 1")
        raise AssertionError("a failed transaction goes on")
    except pg8000.native.DatabaseError as error:
        same(state(error), "25P02")
    c.run("rollback to s")
    c.run("insert into p8_t values (101)")
    c.run("commit")
    same(c.run("select id from p8_t where id >= 100 order by 1"), [[100], [101]])


def copy_both_ways():
    c = connect()
    c.run("copy p8_t (id, v) from stdin", stream=io.BytesIO(b"200\tx\n201\t\\N\n"))
    out = io.BytesIO()
    c.run("copy (select id, v from p8_t where id >= 200 order by id) to stdout", stream=out)
    same(out.getvalue(), b"200\tx\n201\t\\N\n")


def dbapi():
    c = pg8000.dbapi.connect("postgres", host="127.0.0.1", port=PORTS[0], database="postgres")
    cur = c.cursor()
    cur.executemany("insert into p8_t (id, v) values (%s, %s)", [(n, "d") for n in range(300, 310)])
    c.rollback()
    cur.execute("select count(*) from p8_t where id between %s and %s", (300, 399))
    same(cur.fetchone(), [0])
    same([column[0] for column in cur.description], ["count"])


def time_out():
    c = connect()
    c.run("set statement_timeout = 200")
    try:
        c.run("select pg_sleep(20)")
        raise AssertionError("no time-out")
    except pg8000.native.DatabaseError as error:
        same(state(error), "57014")


checks = Checks("pg8000", version("pg8000"))
checks.all([
    setup, types_round_trip, prepared_statements, transactions_savepoints_and_errors, copy_both_ways, dbapi, time_out,
])
