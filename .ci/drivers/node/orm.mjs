// Sequelize, Knex and TypeORM: schemas made and compared, rows, transactions, what they find there. Arguments: which, then ports of two hosts.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(process.cwd() + "/"); // the packages lie where this is run
const name = process.argv[2];
const ports = process.argv.slice(3).map(Number);
const login = { host: "127.0.0.1", user: "postgres", username: "postgres", database: "postgres" };

async function code(promise) {
  try {
    await promise;
    return "no error";
  } catch (error) {
    return error.original?.code ?? error.code ?? error.driverError?.code ?? String(error);
  }
}

function sequelize() {
  const { Sequelize, DataTypes, Op, Transaction } = require("sequelize");
  const open = (host) => new Sequelize("postgres", "postgres", "", { dialect: "postgres", host: "127.0.0.1", port: ports[host], logging: false,
    schema: "seq_", define: { schema: "seq_" } });
  const [db, other] = [open(0), open(1)];
  const models = (base) => {
    const User = base.define("user", {
      name: { type: DataTypes.STRING(40), allowNull: false, unique: true },
      mood: { type: DataTypes.ENUM("sad", "ok"), defaultValue: "ok" },
      balance: { type: DataTypes.DECIMAL(10, 2), defaultValue: 0 },
      key: { type: DataTypes.UUID, defaultValue: DataTypes.UUIDV4 },
      data: DataTypes.JSONB,
      words: { type: DataTypes.ARRAY(DataTypes.TEXT), defaultValue: [] },
      born: DataTypes.DATEONLY,
      big: DataTypes.BIGINT,
      bytes: DataTypes.BLOB,
    }, { version: true, paranoid: true, indexes: [{ fields: ["born", { name: "name", order: "DESC" }] }, { fields: ["balance"], name: "rich", where: { balance: { [Op.gt]: 100 } } }] });
    const Post = base.define("post", { title: DataTypes.TEXT, sold: { type: DataTypes.INTEGER, defaultValue: 0 } }, { timestamps: false });
    const Tag = base.define("tag", { label: { type: DataTypes.STRING, primaryKey: true } }, { timestamps: false });
    User.hasMany(Post, { foreignKey: { name: "author", allowNull: false }, onDelete: "CASCADE" });
    Post.belongsTo(User, { foreignKey: "author" });
    Post.belongsToMany(Tag, { through: "post_tags", timestamps: false });
    Tag.belongsToMany(Post, { through: "post_tags", timestamps: false });
    return { User, Post, Tag };
  };
  const { User, Post, Tag } = models(db);
  const far = models(other);
  return { end: () => Promise.all([db.close(), other.close()]), checks: {
    async "schema synchronized, twice, and altered"() {
      await db.query("drop schema if exists seq_ cascade");
      await db.createSchema("seq_");
      await db.sync();
      await other.sync();
      const wider = open(0);
      wider.define("post", { title: DataTypes.TEXT, sold: { type: DataTypes.BIGINT, allowNull: false, defaultValue: 0 }, rank: DataTypes.INTEGER,
        author: DataTypes.INTEGER }, { timestamps: false, indexes: [{ fields: ["rank"] }] });
      await wider.sync({ alter: true });
      await wider.close();
    },
    async "rows and types"() {
      const sent = { name: "first", balance: "12.50", data: { a: [1, null] }, words: ["x", 'y "z"'], born: "2024-02-29", big: "9007199254740993",
        bytes: Buffer.from([0, 255]) };
      const made = await User.create(sent);
      const seen = await far.User.findByPk(made.id);
      for (const [key, value] of Object.entries(sent)) assert.deepEqual(seen[key], value);
      assert.equal(seen.mood, "ok");
      await User.bulkCreate(Array.from({ length: 100 }, (_, n) => ({ name: `user ${n}`, balance: n })), { returning: true });
      await User.bulkCreate([{ name: "user 1", balance: 500 }], { updateOnDuplicate: ["balance"], conflictAttributes: ["name"] });
      assert.equal((await User.findOne({ where: { name: "user 1" } })).balance, "500.00");
      assert.equal((await User.upsert({ name: "user 2", balance: 7 }, { conflictFields: ["name"] }))[0].balance, "7.00");
      assert.deepEqual((await User.findOrCreate({ where: { name: "user 3" } }))[1], false);
    },
    async "associations and queries"() {
      const user = await User.findOne({ where: { name: "first" } });
      const post = await Post.create({ title: "one", author: user.id, tags: [{ label: "t" }, { label: "u" }] }, { include: Tag });
      await user.createPost({ title: "two" });
      await post.removeTag("u");
      const found = await far.User.findOne({ where: { name: "first" }, include: [{ model: far.Post, include: far.Tag }], order: [[far.Post, "title", "ASC"]] });
      assert.deepEqual(found.posts.map((p) => [p.title, p.tags.length]), [["one", 1], ["two", 0]]);
      const page = await User.findAndCountAll({ where: { [Op.or]: [{ name: { [Op.iLike]: "USER 1%" } }, { words: { [Op.overlap]: ["x", "z"] } }], balance: { [Op.gte]: 10 } },
        order: [["balance", "DESC"]], limit: 3, offset: 1 });
      assert.deepEqual([page.count, page.rows[0].name], [12, "user 19"]);
      assert.equal(await User.count({ where: { words: { [Op.contains]: ["x"] } } }), 1);
      const groups = await Post.findAll({ attributes: ["author", [db.fn("count", db.col("id")), "n"]], group: "author", having: db.literal("count(id) > 1"), raw: true });
      assert.deepEqual(groups, [{ author: user.id, n: "2" }]);
      await post.increment({ sold: 3 });
      assert.equal((await post.reload()).sold, "3");
      await User.destroy({ where: { name: "user 9" } });
      assert.deepEqual([await User.count(), await User.count({ paranoid: false })], [100, 101]);
      assert.equal(await User.sum("balance", { where: { name: ["user 5", "user 6"] } }), 11);
    },
    async "transactions and locks"() {
      await assert.rejects(db.transaction(async (transaction) => {
        await User.create({ name: "gone" }, { transaction });
        await db.transaction({ transaction }, (inner) => User.create({ name: "gone too" }, { transaction: inner }));
        throw new Error("back");
      }), /back/);
      assert.equal(await User.count({ where: { name: { [Op.startsWith]: "gone" } } }), 0);
      await db.transaction({ isolationLevel: Transaction.ISOLATION_LEVELS.SERIALIZABLE }, async (transaction) => {
        const user = await User.findOne({ where: { name: "first" }, transaction, lock: transaction.LOCK.UPDATE });
        await user.update({ balance: 1 }, { transaction });
      });
      const [mine, theirs] = [await User.findOne({ where: { name: "first" } }), await far.User.findOne({ where: { name: "first" } })];
      await mine.update({ balance: 2 });
      await assert.rejects(theirs.update({ balance: 3 }), { name: "SequelizeOptimisticLockError" });
      assert.equal(await code(User.create({ name: "first" })), "23505");
      assert.equal(await code(Post.create({ title: "x", author: 99999 })), "23503");
    },
    async "what is there"() {
      const look = db.getQueryInterface();
      const table = { tableName: "users", schema: "seq_" };
      const columns = await look.describeTable(table);
      assert.deepEqual([columns.id.primaryKey, columns.name.type, columns.balance.type, columns.mood.special, columns.name.allowNull],
        [true, "CHARACTER VARYING(40)", "NUMERIC", ["sad", "ok"], false]);
      const indexes = await look.showIndex(table);
      assert.deepEqual(indexes.map((i) => [i.name, i.unique, i.fields.map((f) => f.attribute)]).sort(), [["rich", false, ["balance"]], ["users_born_name", false, ["born", "name"]],
        ["users_name_key", true, ["name"]], ["users_pkey", true, ["id"]]]);
      const keys = await look.getForeignKeyReferencesForTable({ tableName: "posts", schema: "seq_" });
      assert.deepEqual(keys.map((k) => [k.columnName, k.referencedTableName]), [["author", "users"]]);
      await look.addColumn(table, "later", { type: DataTypes.INTEGER, defaultValue: 5 });
      await look.changeColumn(table, "later", { type: DataTypes.BIGINT, allowNull: false });
      await look.renameColumn(table, "later", "latest");
      await look.addConstraint(table, { type: "check", fields: ["latest"], name: "latest_ok", where: { latest: { [Op.gt]: 0 } } });
      await look.removeColumn(table, "latest");
      await db.drop({ cascade: true });
      await db.query("drop schema seq_ cascade");
    },
  } };
}

function knex() {
  const open = (host) => require("knex")({ client: "pg", connection: { ...login, port: ports[host] }, searchPath: ["knex_"] });
  const [db, other] = [open(0), open(1)];
  const steps = {
    one: {
      async up(k) {
        await k.schema.createTable("users", (t) => {
          t.increments("id");
          t.string("name", 40).notNullable().unique();
          t.enu("mood", ["sad", "ok"], { useNative: true, enumName: "mood" }).defaultTo("ok");
          t.decimal("balance", 10, 2).defaultTo(1).checkPositive("balance_ok");
          t.uuid("key").defaultTo(k.fn.uuid());
          t.jsonb("data");
          t.specificType("words", "text[]");
          t.timestamps(true, true);
          t.comment("who writes");
        });
        await k.schema.createTable("posts", (t) => {
          t.bigIncrements("id");
          t.integer("author").references("id").inTable("users").onDelete("cascade").index();
          t.text("title");
        });
        await k.schema.createView("titles", (v) => v.as(k("posts").select("title")));
      },
      async down(k) {
        await k.schema.dropView("titles").dropTable("posts").dropTable("users").raw("drop type mood");
      },
    },
    two: {
      async up(k) {
        await k.schema.alterTable("posts", (t) => {
          t.integer("rank").notNullable().defaultTo(3);
          t.index(["author", "rank"], "by_rank");
        });
        await k.schema.alterTable("posts", (t) => {
          t.bigInteger("rank").notNullable().defaultTo(3).alter();
          t.renameColumn("title", "headline");
        });
      },
      async down(k) {
        await k.schema.alterTable("posts", (t) => {
          t.renameColumn("headline", "title");
          t.dropIndex([], "by_rank");
          t.dropColumn("rank");
        });
      },
    },
  };
  const migrations = { migrationSource: { getMigrations: async () => Object.keys(steps), getMigrationName: (step) => step, getMigration: async (step) => steps[step] },
    schemaName: "knex_" };
  return { end: () => Promise.all([db.destroy(), other.destroy()]), checks: {
    async "migrations up, down and up"() {
      await db.raw("drop schema if exists knex_ cascade; create schema knex_");
      await db.migrate.latest(migrations);
      await db.migrate.down(migrations);
      await db.migrate.rollback(migrations, true);
      assert.equal(await other.schema.hasTable("users"), false);
      await other.migrate.latest(migrations);
      assert.deepEqual((await db.migrate.list(migrations))[0].map((m) => m.name), ["one", "two"]);
      assert.equal(await db.schema.hasColumn("posts", "headline"), true);
    },
    async "rows"() {
      const [made] = await db("users").insert({ name: "first", data: JSON.stringify({ a: [1] }), words: ["x"] }).returning(["id", "mood"]);
      assert.deepEqual(made, { id: 1, mood: "ok" });
      await db.batchInsert("posts", Array.from({ length: 250 }, (_, n) => ({ author: 1, headline: `post ${n}` })), 100);
      await db("users").insert({ name: "first", balance: 5 }).onConflict("name").merge(["balance"]);
      await db("users").insert({ name: "first" }).onConflict("name").ignore();
      assert.deepEqual(await other("users").where("name", "first").pluck("balance"), ["5.00"]);
      const rows = await other("posts as p").join("users as u", "u.id", "p.author").select("p.headline", other.raw("row_number() over (order by p.id) as n"))
        .whereRaw("u.data @> ?", [JSON.stringify({ a: [1] })]).orderBy("p.id", "desc").limit(1);
      assert.deepEqual(rows, [{ headline: "post 249", n: "250" }]);
      assert.equal(await db("posts").where("id", ">", 240).update({ rank: db.raw("rank + 1") }), 10);
      assert.deepEqual(await db("posts").count("* as n").groupBy("rank").orderBy("rank"), [{ n: "240" }, { n: "10" }]);
      const few = db.with("few", db("posts").where("rank", 4)).from("few").select("id").union(db("posts").select("id").where("id", 1));
      assert.equal((await few).length, 11);
      let streamed = 0;
      for await (const _ of db("posts").select().stream()) streamed++;
      assert.equal(streamed, 250);
    },
    async "transactions"() {
      await assert.rejects(db.transaction(async (t) => {
        await t("users").insert({ name: "gone" });
        assert.equal(await code(t.transaction((inner) => inner("users").insert({ name: "gone" }))), "23505");
        assert.equal((await t("users").where("name", "gone")).length, 1);
        throw new Error("back");
      }), /back/);
      await db.transaction(async (t) => {
        await t("users").where("id", 1).forUpdate().first();
        await t("users").where("id", 1).increment("balance", 1);
      }, { isolationLevel: "serializable" });
      const only = db.transaction((t) => t("users").delete(), { readOnly: true });
      assert.equal(await code(only), "25006");
      assert.deepEqual(await other("users").pluck("balance"), ["6.00"]);
      assert.equal(await code(db("users").insert({ name: "poor", balance: -1 })), "23514");
    },
    async "what is there"() {
      const columns = await db("posts").columnInfo();
      assert.deepEqual([columns.rank.type, columns.rank.nullable, columns.headline.type], ["bigint", false, "text"]);
      await db.migrate.rollback(migrations, true);
      await db.raw("drop schema knex_ cascade");
    },
  } };
}

async function typeorm() {
  require("reflect-metadata");
  const { DataSource, EntitySchema, In, MoreThan, Table, TableColumn, TableForeignKey } = require("typeorm");
  const user = (more) => new EntitySchema({ name: "User", tableName: "users", columns: {
    id: { type: Number, primary: true, generated: true },
    name: { type: "varchar", length: 40, unique: true },
    mood: { type: "enum", enum: ["sad", "ok"], default: "ok" },
    balance: { type: "numeric", precision: 10, scale: 2, default: 0 },
    key: { type: "uuid", generated: "uuid" },
    data: { type: "jsonb", nullable: true },
    words: { type: "text", array: true, default: [] },
    made: { type: "timestamptz", createDate: true },
    version: { type: Number, version: true },
    ...more,
  }, checks: [{ name: "balance_ok", expression: "balance >= 0" }], indices: [{ name: "rich", columns: ["balance", "name"] }],
  relations: { posts: { type: "one-to-many", target: "Post", inverseSide: "author", cascade: true } } });
  const post = new EntitySchema({ name: "Post", tableName: "posts", columns: {
    id: { type: "bigint", primary: true, generated: "identity" },
    title: { type: "text", comment: "the title" },
    sold: { type: Number, default: 0 },
  }, relations: {
    author: { type: "many-to-one", target: "User", inverseSide: "posts", onDelete: "CASCADE", nullable: false },
    tags: { type: "many-to-many", target: "Tag", joinTable: true, cascade: true },
  } });
  const tag = new EntitySchema({ name: "Tag", tableName: "tags", columns: { id: { type: "uuid", primary: true, generated: "uuid" }, label: { type: String } } });
  const open = (host, more = {}) => new DataSource({ type: "postgres", ...login, port: ports[host], schema: "torm_", entities: [user(more), post, tag],
    uuidExtension: "pgcrypto", installExtensions: false });
  const [db, other] = [open(0), open(1)];
  await db.initialize();
  await other.initialize();
  const pending = async (source) => (await source.driver.createSchemaBuilder().log()).upQueries.map((q) => q.query);
  return { end: () => Promise.all([db.destroy(), other.destroy()]), checks: {
    async "schema synchronized, and nothing is left to do"() {
      await db.query("drop schema if exists torm_ cascade");
      await db.query("create schema torm_");
      await db.synchronize();
      assert.deepEqual(await pending(other), []);
    },
    async "rows, relations, queries"() {
      const users = db.getRepository("User");
      const made = await users.save({ name: "first", balance: "12.50", data: { a: [1] }, words: ["x", "y"], posts: [{ title: "one", tags: [{ label: "t" }] }, { title: "two" }] });
      const seen = await other.getRepository("User").findOne({ where: { id: made.id }, relations: { posts: { tags: true } }, order: { posts: { title: "ASC" } } });
      assert.deepEqual([seen.balance, seen.mood, seen.data, seen.words, seen.version, seen.posts.map((p) => p.tags.length)], ["12.50", "ok", { a: [1] }, ["x", "y"], 1, [1, 0]]);
      await users.save(Array.from({ length: 100 }, (_, n) => ({ name: `user ${n}`, balance: n })), { chunk: 30 });
      await users.upsert([{ name: "user 1", balance: 500 }], ["name"]);
      assert.equal(await users.countBy({ balance: MoreThan(90), name: In(["user 1", "user 95", "user 3"]) }), 2);
      const [page, count] = await users.findAndCount({ order: { balance: "DESC" }, skip: 1, take: 2, relations: { posts: true } });
      assert.deepEqual([page.map((u) => u.name), count], [["user 99", "user 98"], 101]);
      const query = db.getRepository("Post").createQueryBuilder("p").innerJoin("p.author", "u").select("u.name", "name").addSelect("count(*)", "n")
        .where((q) => "p.id in " + q.subQuery().select("x.id").from("Post", "x").where("x.sold < :n").getQuery(), { n: 1 }).groupBy("u.name");
      assert.deepEqual(await query.getRawMany(), [{ name: "first", n: "2" }]);
      await db.getRepository("Post").increment({ title: "one" }, "sold", 2);
      assert.equal((await db.createQueryBuilder().update("Post").set({ sold: 9 }).where("sold = 2").returning("id").execute()).affected, 1);
      assert.equal((await users.delete({ name: "user 7" })).affected, 1);
    },
    async "transactions and locks"() {
      const failing = db.transaction("SERIALIZABLE", async (m) => {
        await m.insert("User", { name: "gone" });
        assert.equal(await code(m.transaction((inner) => inner.insert("User", { name: "gone" }))), "23505");
        assert.equal(await m.countBy("User", { name: "gone" }), 1);
        throw new Error("back");
      });
      await assert.rejects(failing, /back/);
      assert.equal(await db.getRepository("User").countBy({ name: "gone" }), 0);
      await db.transaction(async (m) => {
        const first = await m.findOne("User", { where: { name: "first" }, lock: { mode: "pessimistic_write" } });
        await m.update("User", first.id, { balance: 1 });
      });
      assert.equal((await other.getRepository("User").findOneBy({ name: "first" })).version, 2);
    },
    async "what is there, and a schema that grows"() {
      const wider = await open(1, { nick: { type: "varchar", length: 20, nullable: true, unique: true }, balance: { type: "numeric", precision: 14, scale: 2, default: 0 } }).initialize();
      assert.ok((await pending(wider)).length >= 2);
      await wider.synchronize();
      assert.deepEqual(await pending(wider), []);
      await wider.destroy();
      const run = db.createQueryRunner();
      const table = await run.getTable("torm_.users");
      assert.deepEqual([table.findColumnByName("id").isGenerated, table.findColumnByName("mood").enum, table.findColumnByName("nick").length, table.checks.length,
        table.findColumnByName("balance").precision], [true, ["sad", "ok"], "20", 1, 14]);
      assert.deepEqual((await run.getTable("torm_.posts")).foreignKeys.map((k) => [k.columnNames, k.referencedTableName, k.onDelete]), [[["authorId"], "torm_.users", "CASCADE"]]);
      await run.createTable(new Table({ name: "torm_.extra", columns: [{ name: "id", type: "int", isPrimary: true }, { name: "who", type: "int" }] }), true);
      await run.createForeignKey("torm_.extra", new TableForeignKey({ columnNames: ["who"], referencedColumnNames: ["id"], referencedTableName: "torm_.users" }));
      await run.addColumn("torm_.extra", new TableColumn({ name: "more", type: "text", default: "'x'" }));
      await run.renameColumn("torm_.extra", "more", "most");
      await run.dropTable("torm_.extra");
      await run.release();
      await db.query("drop schema torm_ cascade");
    },
  } };
}

const { checks, end } = await { sequelize, knex, typeorm }[name]();
const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`));
let failed = 0;
for (const [title, body] of Object.entries(checks)) {
  try {
    await body();
  } catch (error) {
    failed++;
    console.log(`  FAILED ${name}: ${title}: ${String(error.message + " " + (error.sql ?? error.query ?? "")).split("\n").join(" ").slice(0, 600)}`);
  }
}
await end();
console.log(`${name} ${version}: ${Object.keys(checks).length - failed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
