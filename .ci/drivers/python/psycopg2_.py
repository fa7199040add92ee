"""psycopg2: the simple protocol only."""

import io
import sys
import threading
import time

import psycopg2
import psycopg2.extensions
import psycopg2.extras
from checks import NAMES, ROW, VALUES, Checks, create, same
from psycopg2 import errors

PORTS = [int(port) for port in sys.argv[1:]]


def connect(host=0, **options):
    return psycopg2.connect(host="127.0.0.1", port=PORTS[host], user="postgres", dbname="postgres", **options)


def setup():
    with connect() as c, c.cursor() as cur:
        cur.execute("drop table if exists p2_types, p2_t, p2_j, p2_m; drop type if exists p2_mood")
        cur.execute(create("p2_types"))
        cur.execute("create table p2_t (id int primary key, v text, n int check (n < 1000))")
        cur.execute("create type p2_mood as enum ('sad', 'ok')")
        cur.execute("create table p2_m (m p2_mood, j json, jb jsonb)")


def types_round_trip():
    with connect() as c, c.cursor() as cur:
        psycopg2.extras.register_uuid()
        marks = ", ".join(f"cast(%s as {ty})" for _, ty, _ in ROW)
        cur.execute(f"insert into p2_types ({NAMES}) values ({marks}) returning id", VALUES)
        same(cur.fetchone(), (1,))
    with connect(1) as c, c.cursor() as cur:
        cur.execute(f"select {NAMES} from p2_types")
        row = [bytes(v) if isinstance(v, memoryview) else v for v in cur.fetchone()]
        same(row, VALUES)


def json_and_enums():
    with connect() as c, c.cursor() as cur:
        value = {"a": [1, None, "x"], "b": {"c": 1.5}}
        cur.execute("insert into p2_m values (%s, %s, %s) returning m, j, jb", ("ok", *[psycopg2.extras.Json(value)] * 2))
        same(cur.fetchone(), ("ok", value, value))
        cur.execute("select m from p2_m where m > 'sad'")
        same(cur.fetchall(), [("ok",)])


def many_rows():
    with connect() as c, c.cursor() as cur:
        psycopg2.extras.execute_values(cur, "insert into p2_t values %s", [(i, f"v{i}", i) for i in range(500)])
        cur.executemany("update p2_t set v = %s where id = %s", [(f"w{i}", i) for i in range(20)])
        psycopg2.extras.execute_batch(cur, "delete from p2_t where id = %s", [(i,) for i in range(490, 500)])
        cur.execute("select count(*), sum(n), min(v), max(v) from p2_t")
        same(cur.fetchone(), (490, 119805, "v100", "w9"))


def copy_both_ways():
    with connect() as c, c.cursor() as cur:
        cur.copy_expert("copy p2_t from stdin", io.StringIO("1000\tline\\nfeed\t1\n1001\t\\N\t\\N\n"))
        out = io.StringIO()
        cur.copy_expert("copy (select * from p2_t where id >= 1000 order by id) to stdout with (format csv)", out)
        same(out.getvalue(), '1000,"line\nfeed",1\n1001,,\n')


def transactions_and_savepoints():
    c = connect()
    cur = c.cursor()
    cur.execute("insert into p2_t values (2000, 'a', 1); savepoint s; insert into p2_t values (2001, 'b', 1)")
    cur.execute("rollback to savepoint s; insert into p2_t values (2002, 'c', 1); release savepoint s")
    c.commit()
    cur.execute("delete from p2_t")
    c.rollback()
    cur.execute("select array_agg(id order by id) from p2_t where id >= 2000")
    same(cur.fetchone(), ([2000, 2002],))
    c.rollback()
    c.set_session(readonly=True, isolation_level="SERIALIZABLE")
    try:
        cur.execute("insert into p2_t values (3000)")
        raise AssertionError("a read-only transaction writes")
    except errors.ReadOnlySqlTransaction:
        c.rollback()


def errors_with_states():
    c = connect()
    c.autocommit = True
    cur = c.cursor()
    for sql, kind in [
        ("insert into p2_t values (0)", errors.UniqueViolation),
        ("insert into p2_t values (null)", errors.NotNullViolation),
        ("insert into p2_t values (5000, '', 1000)", errors.CheckViolation),
        ("select * from nowhere", errors.UndefinedTable),
        ("select nothing from p2_t", errors.UndefinedColumn),
        ("selec 1", errors.SyntaxError),
        ("select 1 / 0", errors.DivisionByZero),
        ("select 'x'::int", errors.InvalidTextRepresentation),
    ]:
        try:
            cur.execute(sql)
            raise AssertionError(f"{sql} succeeds")
        except kind as error:
            if kind is errors.UniqueViolation:
                same((error.diag.table_name, error.diag.constraint_name), ("p2_t", "p2_t_pkey"))
    c.autocommit = False
    try:
        cur.execute("select 1 / 0")
    except errors.DivisionByZero:
        pass
    try:
        cur.execute("select 1")
        raise AssertionError("a failed transaction goes on")
    except errors.InFailedSqlTransaction:
        c.rollback()


def conflicts_are_retried():
    """Two clients on two hosts add to one row; each tries again after 40001."""
    with connect() as c, c.cursor() as cur:
        cur.execute("insert into p2_t values (7777, '', 0)")
    failures = []

    def add(host):
        c = connect(host)
        c.set_session(isolation_level="SERIALIZABLE")
        for _ in range(20):
            for _ in range(1000):
                try:
                    with c, c.cursor() as cur:
                        cur.execute("select n from p2_t where id = 7777")
                        cur.execute("update p2_t set n = %s where id = 7777", (cur.fetchone()[0] + 1,))
                    break
                except errors.SerializationFailure:
                    time.sleep(0.002)
            else:
                failures.append("no success in 1000 tries")

    threads = [threading.Thread(target=add, args=(host,)) for host in (0, 1)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    with connect(1) as c, c.cursor() as cur:
        cur.execute("select n from p2_t where id = 7777")
        same((cur.fetchone(), failures), ((40,), []))


def named_cursors():
    with connect() as c:
        with c.cursor("numbers") as cur:
            cur.itersize = 7
            cur.execute("select g from generate_series(1, 100) g")
            same(sum(row[0] for row in cur), 5050)
        with c.cursor("scrolls", scrollable=True) as cur:
            cur.execute("select id from p2_t order by id limit 10")
            same([r[0] for r in cur.fetchmany(3)], [0, 1, 2])
            cur.scroll(-2)
            same(cur.fetchone(), (1,))


def cancel_and_time_out():
    c = connect()
    cur = c.cursor()
    timer = threading.Timer(0.3, c.cancel)
    timer.start()
    start = time.monotonic()
    try:
        cur.execute("select pg_sleep(20)")
        raise AssertionError("nobody cancelled")
    except errors.QueryCanceled:
        c.rollback()
    cur.execute("set statement_timeout = 200")
    try:
        cur.execute("select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b")
        raise AssertionError("no time-out")
    except errors.QueryCanceled:
        c.rollback()
    assert time.monotonic() - start < 5, "slow to end"


def notices_and_notifications_or_a_refusal():
    c = connect()
    c.autocommit = True
    cur = c.cursor()
    try:
        cur.execute("listen p2_news; notify p2_news, 'hello'")
        c.poll()
        same([(n.channel, n.payload) for n in c.notifies], [("p2_news", "hello")])
    except errors.FeatureNotSupported:
        pass
    cur.execute("drop table if exists p2_none")
    assert "p2_none" in c.notices[-1], c.notices


checks = Checks("psycopg2", psycopg2.__version__.split()[0])
checks.all([
    setup, types_round_trip, json_and_enums, many_rows, copy_both_ways, transactions_and_savepoints,
    errors_with_states, conflicts_are_retried, named_cursors, cancel_and_time_out,
    notices_and_notifications_or_a_refusal,
])
