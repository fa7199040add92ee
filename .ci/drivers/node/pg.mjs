// node-postgres: text results, unnamed and named statements, cursors, COPY streams. Arguments: ports of two hosts.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pipeline } from "node:stream/promises";
import { Readable } from "node:stream";

const require = createRequire(process.cwd() + "/"); // the packages lie where this is run
const pg = require("pg");
const Cursor = require("pg-cursor");
const { from: copyFrom, to: copyTo } = require("pg-copy-streams");
const ports = process.argv.slice(2).map(Number);

function settings(host = 0) {
  return { host: "127.0.0.1", port: ports[host], user: "postgres", database: "postgres" };
}

async function using(host, body) {
  const client = new pg.Client(settings(host));
  await client.connect();
  try {
    return await body(client);
  } finally {
    await client.end();
  }
}

async function code(promise) {
  try {
    await promise;
    return "no error";
  } catch (error) {
    return error.code;
  }
}

const checks = {
  async setup(c) {
    await c.query(`drop table if exists node_t, node_types; create table node_t (id int primary key, v text, n int);
      create table node_types (b bool, i2 int2, i4 int4, i8 int8, n numeric, f8 float8, t text, by bytea, d date,
        tz timestamptz, u uuid, ai int[], at text[], j json, jb jsonb, nul int)`);
  },
  async "types round trip"(c) {
    const at = new Date("2024-02-29T12:34:56.789Z");
    const sent = [true, -32768, 1, "9007199254740993", "-12.50", 0.1, "grüß\n\\'", Buffer.from([0, 255]), "2024-02-29",
      at, "12345678-1234-5678-1234-567812345678", [1, null, 3], ["a", 'b "c"', "NULL"], { a: [1] }, { b: null }, null];
    const marks = sent.map((_, at) => `$${at + 1}`).join(", ");
    await c.query(`insert into node_types values (${marks})`, sent);
    await using(1, async (other) => {
      const row = (await other.query({ text: "select * from node_types", rowMode: "array" })).rows[0];
      row[8] = row[8].toLocaleDateString("sv");
      assert.deepEqual(row, sent);
    });
  },
  async "named statements"(c) {
    for (let n = 0; n < 10; n++) {
      const query = { name: "put", text: "insert into node_t values ($1, $2, $3) returning id", values: [n, "x", n] };
      assert.equal((await c.query(query)).rows[0].id, n);
    }
    const result = await c.query("update node_t set v = $1 where id < $2", ["y", 3]);
    assert.deepEqual([result.command, result.rowCount], ["UPDATE", 3]);
    const fields = (await c.query("select id, v, 1.5 as n from node_t limit 0")).fields;
    assert.deepEqual(fields.map((f) => [f.name, f.dataTypeID]), [["id", 23], ["v", 25], ["n", 1700]]);
  },
  async "transactions and savepoints"(c) {
    await c.query("begin isolation level serializable");
    await c.query("insert into node_t values (100)");
    await c.query("savepoint s");
    assert.equal(await code(c.query("insert into node_t values (100)")), "23505");
    assert.equal(await code(c.query("select 1")), "25P02");
    await c.query("rollback to s");
    await c.query("commit");
    assert.equal((await c.query("select count(*)::int as n from node_t where id = 100")).rows[0].n, 1);
  },
  async "several statements in one text"(c) {
    const results = await c.query("select 1 as a; insert into node_t values (200); select 2 as b");
    assert.deepEqual(results.map((r) => r.command), ["SELECT", "INSERT", "SELECT"]);
  },
  async cursors(c) {
    const cursor = c.query(new Cursor("select g from generate_series(1, $1::int) g", [100]));
    let sum = 0;
    for (let rows = await cursor.read(7); rows.length > 0; rows = await cursor.read(7)) {
      for (const row of rows) sum += row.g;
    }
    await cursor.close();
    assert.equal(sum, 5050);
  },
  async "copy both ways"(c) {
    await pipeline(Readable.from(["1000\tx\t1\n", "1001\t\\N\t2\n"]), c.query(copyFrom("copy node_t from stdin")));
    let text = "";
    const out = c.query(copyTo("copy (select * from node_t where id >= 1000 order by id) to stdout (format csv)"));
    for await (const chunk of out) text += chunk;
    assert.equal(text, "1000,x,1\n1001,,2\n");
  },
  async "errors with states"(c) {
    const seen = [];
    for (const sql of ["selec", "select * from nowhere", "select 1/0", "insert into node_t values (null)"]) {
      seen.push(await code(c.query(sql)));
    }
    assert.deepEqual(seen, ["42601", "42P01", "22012", "23502"]);
    assert.equal(await code(c.query("select $1::int", ["x"])), "22P02");
  },
  async "conflicts are retried by pools on two hosts"(c) {
    await c.query("insert into node_t values (7777, '', 0)");
    const pools = [0, 1].map((host) => new pg.Pool({ ...settings(host), max: 3 }));
    await Promise.all(pools.map(async (pool) => {
      for (let n = 0; n < 20; n++) {
        for (;;) {
          const own = await pool.connect();
          try {
            await own.query("begin isolation level serializable");
            const now = (await own.query("select n from node_t where id = 7777")).rows[0].n;
            await own.query("update node_t set n = $1 where id = 7777", [now + 1]);
            await own.query("commit");
            break;
          } catch (error) {
            await own.query("rollback");
            assert.equal(error.code, "40001");
            await new Promise((later) => setTimeout(later, 2));
          } finally {
            own.release();
          }
        }
      }
    }));
    await Promise.all(pools.map((pool) => pool.end()));
    assert.equal((await c.query("select n from node_t where id = 7777")).rows[0].n, 40);
  },
  async "time-out"(c) {
    await c.query("set statement_timeout = 200");
    assert.equal(await code(c.query("select pg_sleep(20)")), "57014");
  },
};

let failed = 0;
for (const [name, body] of Object.entries(checks)) {
  try {
    await using(0, body);
  } catch (error) {
    failed++;
    console.log(`  FAILED node-postgres: ${name}: ${String(error.message).split("\n").join(" ").slice(0, 500)}`);
  }
}
const passed = Object.keys(checks).length - failed;
console.log(`node-postgres ${require("pg/package.json").version}: ${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
