"""asyncpg (binary in and out, cursors) and pg8000 (a Sync after every message) against `examples/made_up`.

Usage: pip install asyncpg pg8000; python others_made_up.py 127.0.0.1 5433 [password of alice: SCRAM]
Not part of `cargo test`: it needs packages from PyPI.
"""

import asyncio
import sys

import asyncpg
import pg8000.native


async def with_asyncpg(host, port, user, password):
    conn = await asyncpg.connect(host=host, port=port, user=user, password=password, database="x")
    assert await conn.fetchval("select 1") == 1
    rows = await conn.fetch("rows 500")
    assert tuple(rows[499]) == (500, "row 500")
    assert await conn.fetchval("echo $1", "x") == "[120]"  # the parameter came in binary
    async with conn.transaction():
        seen = [row["n"] async for row in conn.cursor("rows 120")]  # 50 rows at a time
        assert seen == list(range(1, 121))
    await conn.executemany("echo $1", [(str(n),) for n in range(1000)])
    try:
        await conn.execute("error 23505 twice")
        raise AssertionError("no error")
    except asyncpg.UniqueViolationError as error:
        assert error.constraint_name == "n"
    try:
        await asyncio.wait_for(conn.execute("sleep 60000"), 0.2)  # sends a cancel request
        raise AssertionError("not cancelled")
    except asyncio.TimeoutError:
        pass
    assert await conn.fetchval("select 1") == 1
    await conn.close()


def with_pg8000(host, port, user, password):
    conn = pg8000.native.Connection(user, host=host, port=int(port), password=password, database="x")
    assert conn.run("select 1") == [[1]]
    assert len(conn.run("rows 500")) == 500
    assert conn.run("echo :a", a="x") == [["x"]]
    prepared = conn.prepare("echo :a")
    assert [prepared.run(a=str(n)) for n in range(20)] == [[[str(n)]] for n in range(20)]
    conn.close()


def main(host, port, password=None):
    user = "alice" if password else "trusty"
    asyncio.run(with_asyncpg(host, port, user, password))
    with_pg8000(host, port, user, password)
    print("ok", asyncpg.__version__, pg8000.__version__)


if __name__ == "__main__":
    main(*sys.argv[1:])
