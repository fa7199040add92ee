"""psycopg 3: the extended protocol, text and binary, pipelines, binary COPY."""

import sys
import threading
import time

import psycopg
from checks import NAMES, ROW, VALUES, Checks, create, same
from psycopg import errors
from psycopg.rows import dict_row
from psycopg.types.enum import EnumInfo, register_enum
from psycopg.types.json import Jsonb

PORTS = [int(port) for port in sys.argv[1:]]


def connect(host=0, **options):
    return psycopg.connect(f"host=127.0.0.1 port={PORTS[host]} user=postgres dbname=postgres", **options)


def setup():
    with connect() as c:
        for name in ("p3_types", "p3_t", "p3_m"):
            c.execute(f"drop table if exists {name}")
        c.execute("drop type if exists p3_mood")
        c.execute(create("p3_types"))
        c.execute("create table p3_t (id int primary key, v text, n numeric)")
        c.execute("create type p3_mood as enum ('sad', 'ok')")
        c.execute("create table p3_m (m p3_mood, ms p3_mood[], jb jsonb, i interval)")


def types_round_trip_in_text_and_binary():
    with connect() as c:
        marks = ", ".join(["%s"] * len(ROW))
        c.execute(f"insert into p3_types ({NAMES}) values ({marks})", VALUES)
        c.execute(f"insert into p3_types ({NAMES}) values ({marks.replace('%s', '%b')})", VALUES)
    with connect(1) as c:
        c.execute("set timezone = 'UTC'")
        for binary in (False, True):
            rows = c.cursor(binary=binary).execute(f"select {NAMES} from p3_types order by id").fetchall()
            same([list(row) for row in rows], [VALUES, VALUES])


def json_enums_and_arrays_of_them():
    with connect() as c:
        info = EnumInfo.fetch(c, "p3_mood")
        same(list(info.labels), ["sad", "ok"])
        register_enum(info, c)
        mood = info.enum
        value = {"a": [1, None], "b": "x"}
        row = c.execute(
            "insert into p3_m values (%s, %s, %s, '1 day 02:03') returning m, ms, jb, i",
            (mood.ok, [mood.sad, mood.ok], Jsonb(value)),
        ).fetchone()
        same(row[:3], (mood.ok, [mood.sad, mood.ok], value))
        same(row[3].total_seconds(), 93780.0)


def prepared_statements():
    with connect() as c:
        c.prepare_threshold = 0
        for n in range(5):
            same(c.execute("select %s::int + 1", (n,)).fetchone(), (n + 1,))
        same(c.execute("select count(*) from pg_prepared_statements").fetchone()[0] > 0, True)
        c.execute("create table p3_later (a int)")
        c.execute("select a from p3_later")
        c.execute("alter table p3_later add b int")
        c.execute("drop table p3_later")


def executemany_with_returning():
    with connect() as c, c.cursor() as cur:
        cur.executemany("insert into p3_t values (%s, %s, %s) returning id", [(i, f"v{i}", i) for i in range(300)],
                        returning=True)
        ids = [cur.fetchone()[0]]
        while cur.nextset():
            ids.append(cur.fetchone()[0])
        same(ids, list(range(300)))


def pipelines():
    with connect() as c:
        with c.pipeline() as p:
            cursors = [c.execute("select %s::int * 2", (n,)) for n in range(50)]
            p.sync()
            same([cur.fetchone()[0] for cur in cursors], [n * 2 for n in range(50)])
        try:
            with c.pipeline():
                c.execute("insert into p3_t values (9000)")
                c.execute("select 1 / 0")
                c.execute("insert into p3_t values (9001)")
            raise AssertionError("a pipeline with an error succeeds")
        except errors.DivisionByZero:
            c.rollback()
        same(c.execute("select count(*) from p3_t where id >= 9000").fetchone(), (0,))


def copy_text_and_binary():
    with connect() as c, c.cursor() as cur:
        with cur.copy("copy p3_t from stdin") as copy:
            for i in range(1000, 1100):
                copy.write_row((i, "x\ty" if i % 2 else None, i))
        with cur.copy("copy p3_t from stdin (format binary)") as copy:
            copy.set_types(["int4", "text", "numeric"])
            for i in range(1100, 1200):
                copy.write_row((i, "b", i))
        with cur.copy("copy (select id, v from p3_t where id between 1099 and 1100 order by id) to stdout "
                      "(format binary)") as copy:
            copy.set_types(["int4", "text"])
            same(list(copy.rows()), [(1099, "x\ty"), (1100, "b")])


def transactions_and_savepoints():
    with connect() as c:
        with c.transaction():
            c.execute("insert into p3_t values (2000)")
            try:
                with c.transaction():
                    c.execute("insert into p3_t values (2001)")
                    c.execute("insert into p3_t values (2000)")
            except errors.UniqueViolation:
                pass
            with c.transaction():
                c.execute("insert into p3_t values (2002)")
        try:
            with c.transaction():
                c.execute("delete from p3_t")
                raise psycopg.Rollback()
        except psycopg.Rollback:
            pass
        same(c.execute("select array_agg(id order by id) from p3_t where id between 2000 and 3000").fetchone(),
             ([2000, 2002],))


def errors_with_states():
    with connect(autocommit=True) as c:
        for sql, state in [("insert into p3_t values (0)", "23505"), ("select * from nowhere", "42P01"),
                           ("select %s::date", "22007"), ("select 99999999999::int", "22003")]:
            try:
                c.execute(sql, ("x",) if "%s" in sql else None)
                raise AssertionError(f"{sql} succeeds")
            except psycopg.Error as error:
                same(error.sqlstate, state)


def cursors():
    with connect() as c:
        with c.cursor("numbers") as cur:
            cur.itersize = 10
            cur.execute("select g from generate_series(1, %s) g", (100,))
            same(sum(row[0] for row in cur), 5050)
        with c.cursor("scrolls", scrollable=True, withhold=True) as cur:
            cur.execute("select id from p3_t order by id limit 10")
            c.commit()
            cur.scroll(5)
            same(cur.fetchone(), (5,))
        rows = [row["g"] for row in c.cursor(row_factory=dict_row).stream("select g from generate_series(1, 1000) g")]
        same(len(rows), 1000)


def cancel_and_time_out():
    with connect(autocommit=True) as c:
        threading.Timer(0.3, c.cancel_safe).start()
        start = time.monotonic()
        try:
            c.execute("select pg_sleep(20)")
            raise AssertionError("nobody cancelled")
        except errors.QueryCanceled:
            pass
        c.execute("set statement_timeout = 200")
        try:
            c.execute("with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t")
            raise AssertionError("no time-out")
        except errors.QueryCanceled:
            pass
        assert time.monotonic() - start < 5, "slow to end"


def notifications_between_hosts():
    with connect(autocommit=True) as c, connect(1, autocommit=True) as d, connect(1) as other:
        c.execute("listen p3_news")
        d.execute("listen p3_news")
        other.execute("select pg_notify('p3_news', 'hello')")
        other.execute("notify p3_news, 'again'")
        other.commit()
        for listener in (c, d):
            came = list(listener.notifies(timeout=5, stop_after=2))
            same([(n.channel, n.payload, n.pid) for n in came],
                 [("p3_news", text, other.info.backend_pid) for text in ("hello", "again")])


def advisory_locks_between_hosts():
    with connect(autocommit=True) as c, connect(1, autocommit=True) as d:
        c.execute("select pg_advisory_lock(%s)", [4711])
        same(d.execute("select pg_try_advisory_lock(4711)").fetchone(), (False,))
        waits = threading.Thread(target=d.execute, args=("select pg_advisory_lock(4711)",))
        waits.start()
        time.sleep(0.2)
        assert waits.is_alive(), "nobody waited"
        same(c.execute("select pg_advisory_unlock(4711)").fetchone(), (True,))
        waits.join(5)
        same(d.execute("select pg_advisory_unlock(4711)").fetchone(), (True,))


checks = Checks("psycopg", psycopg.__version__)
checks.all([
    setup, types_round_trip_in_text_and_binary, json_enums_and_arrays_of_them, prepared_statements,
    executemany_with_returning, pipelines, copy_text_and_binary, transactions_and_savepoints, errors_with_states,
    cursors, cancel_and_time_out, notifications_between_hosts, advisory_locks_between_hosts,
])
