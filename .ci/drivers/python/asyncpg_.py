"""asyncpg: binary everywhere, prepared statements, introspection of types."""

import asyncio
import json
import sys

import asyncpg
from checks import NAMES, ROW, VALUES, Checks, create, same

PORTS = [int(port) for port in sys.argv[1:]]


async def connect(host=0):
    return await asyncpg.connect(host="127.0.0.1", port=PORTS[host], user="postgres", database="postgres")


def plain(body):
    """A check with a connection, and a minute."""

    async def whole():
        c = await connect()
        try:
            await asyncio.wait_for(body(c), 60)
        finally:
            await c.close(timeout=5)

    def run():
        asyncio.run(whole())

    run.__name__ = body.__name__
    return run


@plain
async def setup(c):
    await c.execute("drop table if exists ap_types, ap_t, ap_m; drop type if exists ap_mood; drop domain if exists ap_dom")
    await c.execute(create("ap_types"))
    await c.execute("create table ap_t (id int primary key, v text, n numeric)")
    await c.execute("create type ap_mood as enum ('sad', 'ok'); create domain ap_dom as int check (value > 0)")
    await c.execute("create table ap_m (m ap_mood, ms ap_mood[], jb jsonb, d ap_dom, x char(5))")


@plain
async def types_round_trip(c):
    marks = ", ".join(f"${n + 1}" for n in range(len(ROW)))
    await c.execute(f"insert into ap_types ({NAMES}) values ({marks})", *VALUES)
    other = await connect(1)
    same(list(await other.fetchrow(f"select {NAMES} from ap_types")), VALUES)
    await other.close()


@plain
async def types_that_are_looked_up(c):
    await c.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
    await c.execute("insert into ap_m values ($1, $2, $3, $4, $5)", "ok", ["sad", "ok"], {"a": [1, None]}, 5, "ab")
    same(tuple(await c.fetchrow("select * from ap_m")), ("ok", ["sad", "ok"], {"a": [1, None]}, 5, "ab   "))
    same(await c.fetchval("select array_agg(g) from generate_series(1, 3) g"), [1, 2, 3])
    same(await c.fetchval("select array_agg(relname order by relname) from pg_class where relname = 'ap_t'"), ["ap_t"])
    same(await c.fetchval("select $1::oid[]", [1, 2]), [1, 2])
    same(tuple(await c.fetchval("select row(1, 'x'::text)")), (1, "x"))


@plain
async def many_rows(c):
    await c.executemany("insert into ap_t values ($1, $2, $3)", [(i, f"v{i}", i) for i in range(1000)])
    same(tuple(await c.fetchrow("select count(*), sum(n) from ap_t")), (1000, 499500))
    rows = await c.fetchmany("insert into ap_t values ($1, 'm', 0) returning id", [(i,) for i in range(5000, 5010)])
    same([row["id"] for row in rows], list(range(5000, 5010)))


@plain
async def prepared_statements(c):
    statement = await c.prepare("select id, v from ap_t where id = $1 or v = $2")
    same([(a.name, a.type.name) for a in statement.get_attributes()], [("id", "int4"), ("v", "text")])
    same([p.name for p in statement.get_parameters()], ["int4", "text"])
    same(len(await statement.fetch(1, "v2")), 2)
    await c.execute("alter table ap_t add column extra int")
    same((await c.fetchrow("select * from ap_t where id = 1"))["extra"], None)
    await c.execute("alter table ap_t drop column extra")
    same(len(await c.fetchrow("select * from ap_t where id = 1")), 3)


@plain
async def copy_both_ways(c):
    tag = await c.copy_records_to_table("ap_t", records=[(i, None, i) for i in range(2000, 2100)])
    same(tag, "COPY 100")
    import io

    out = io.BytesIO()
    await c.copy_from_query("select id, v, n from ap_t where id >= $1 and id < 2003", 2001, output=out, format="csv")
    same(out.getvalue(), b"2001,,2001\n2002,,2002\n")


@plain
async def cursors(c):
    async with c.transaction():
        same(sum([r[0] async for r in c.cursor("select id from ap_t where id < 100", prefetch=9)]), 4950)
        cursor = await c.cursor("select id from ap_t order by id")
        await cursor.forward(10)
        same([r[0] for r in await cursor.fetch(3)], [10, 11, 12])


@plain
async def transactions_and_savepoints(c):
    try:
        async with c.transaction(isolation="serializable"):
            await c.execute("insert into ap_t values (3000)")
            try:
                async with c.transaction():
                    await c.execute("insert into ap_t values (3001)")
                    await c.execute("insert into ap_t values (3000)")
            except asyncpg.UniqueViolationError:
                pass
            same(await c.fetchval("select count(*) from ap_t where id between 3000 and 3999"), 1)
            raise KeyError
    except KeyError:
        pass
    same(await c.fetchval("select count(*) from ap_t where id between 3000 and 3999"), 0)


@plain
async def errors_with_states(c):
    for sql, kind in [("insert into ap_t values (1)", asyncpg.UniqueViolationError),
                      ("select * from nowhere", asyncpg.UndefinedTableError),
                      ("insert into ap_m (d) values (-1)", asyncpg.CheckViolationError),
                      ("insert into ap_m (m) values ('none')", asyncpg.InvalidTextRepresentationError)]:
        try:
            await c.execute(sql)
            raise AssertionError(f"{sql} succeeds")
        except kind:
            pass


@plain
async def pools_and_conflicts(c):
    await c.execute("insert into ap_t values (7777, '', 0)")
    pools = [await asyncpg.create_pool(host="127.0.0.1", port=port, user="postgres", database="postgres", min_size=1,
                                       max_size=2) for port in PORTS]

    async def add(pool):
        for _ in range(10):
            for tries in range(1000):
                try:
                    async with pool.acquire() as own, own.transaction(isolation="serializable"):
                        n = await own.fetchval("select n from ap_t where id = 7777")
                        await own.execute("update ap_t set n = $1 where id = 7777", n + 1)
                    break
                except asyncpg.SerializationError:
                    await asyncio.sleep(0.002 * (tries % 7))

    await asyncio.gather(*[add(pool) for pool in pools])
    same(await c.fetchval("select n from ap_t where id = 7777"), 20)
    for pool in pools:
        await pool.close()


@plain
async def cancel_and_time_out(c):
    for sql in ["select pg_sleep(20)", "select count(*) from pg_class a, pg_class b, pg_class c, pg_class d"]:
        try:
            await c.fetch(sql, timeout=0.3)
            raise AssertionError("no time-out")
        except asyncio.TimeoutError:
            pass
    same(await c.fetchval("select 1"), 1)


@plain
async def listeners(c):
    other, came = await connect(1), asyncio.Queue()

    def put(_, pid, channel, payload):
        came.put_nowait((pid, channel, payload))

    await c.add_listener("ap_news", put)
    async with other.transaction():
        await other.execute("select pg_notify('ap_news', $1)", "one")
    same(await asyncio.wait_for(came.get(), 5), (other.get_server_pid(), "ap_news", "one"))
    await c.remove_listener("ap_news", put)
    await other.close()


@plain
async def reset_and_settings(c):
    await c.execute("set application_name = 'x'")
    await c.reset()
    same(c.get_server_version().major, 15)
    same(c.get_settings().server_encoding, "UTF8")


checks = Checks("asyncpg", asyncpg.__version__)
checks.all([
    setup, types_round_trip, types_that_are_looked_up, many_rows, prepared_statements, copy_both_ways, cursors,
    transactions_and_savepoints, errors_with_states, pools_and_conflicts, cancel_and_time_out, listeners,
    reset_and_settings,
])
