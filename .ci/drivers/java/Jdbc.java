// pgjdbc: binary integers, statements that become named after five uses, batches in one Sync, fetch sizes,
// DatabaseMetaData. Arguments: ports of two hosts.

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.*;
import java.time.*;
import java.util.*;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

public class Jdbc {
    interface Check {
        void run(Connection c) throws Exception;
    }

    static String[] ports;

    static Connection connect(int host, String options) throws SQLException {
        return DriverManager.getConnection(
                "jdbc:postgresql://127.0.0.1:" + ports[host] + "/postgres?sslmode=disable" + options, "postgres", "");
    }

    static void same(Object seen, Object expected) {
        if (!Objects.deepEquals(seen, expected)) {
            throw new AssertionError("expected " + expected + ", but there is " + seen);
        }
    }

    static String state(Connection c, String sql) {
        try (Statement s = c.createStatement()) {
            s.execute(sql);
            return "no error";
        } catch (SQLException error) {
            return error.getSQLState();
        }
    }

    static List<String> names(ResultSet rows, String... columns) throws SQLException {
        List<String> list = new ArrayList<>();
        while (rows.next()) {
            StringJoiner joined = new StringJoiner(" ");
            for (String column : columns) joined.add(String.valueOf(rows.getObject(column)));
            list.add(joined.toString());
        }
        return list;
    }

    static void setup(Connection c) throws Exception {
        try (Statement s = c.createStatement()) {
            s.execute("drop view if exists jdbc_v");
            s.execute("drop table if exists jdbc_child, jdbc_t, jdbc_types");
            s.execute("create table jdbc_t (id serial primary key, v varchar(20) not null default 'x', n numeric(8,2))");
            s.execute("comment on table jdbc_t is 'a table'");
            s.execute("comment on column jdbc_t.v is 'a column'");
            s.execute("create table jdbc_child (a int, b int, t int references jdbc_t on delete cascade, primary key (b, a))");
            s.execute("create unique index jdbc_i on jdbc_t (v, n desc)");
            s.execute("create view jdbc_v as select id, v from jdbc_t");
            s.execute("create table jdbc_types (b bool, i2 int2, i4 int4, i8 int8, n numeric(20,5), f4 float4, f8 float8,"
                    + " t text, by bytea, d date, ti time, ts timestamp, tz timestamptz, u uuid, ai int4[], at text[],"
                    + " jb jsonb, nul int)");
        }
    }

    static void types(Connection c) throws Exception {
        Object[] sent = {
            true, (short) -32768, 1, Long.MIN_VALUE, new BigDecimal("-12345678901234.50000"), 1.5f, 0.1, "grüß\n\\'",
            new byte[] {0, 1, -1}, LocalDate.of(2024, 2, 29), LocalTime.of(1, 2, 3, 4000),
            LocalDateTime.of(1999, 12, 31, 23, 59, 59, 999999000),
            OffsetDateTime.of(2024, 3, 31, 1, 30, 0, 0, ZoneOffset.UTC), UUID.fromString("12345678-1234-5678-1234-567812345678")
        };
        String sql = "insert into jdbc_types values (" + "?, ".repeat(sent.length) + "?, ?, ?::jsonb, ?)";
        for (int round = 0; round < 7; round++) { // named and binary from the sixth on
            try (PreparedStatement s = c.prepareStatement(sql)) {
                for (int i = 0; i < sent.length; i++) s.setObject(i + 1, sent[i]);
                s.setArray(15, c.createArrayOf("int4", new Object[] {1, null, 3}));
                s.setArray(16, c.createArrayOf("text", new Object[] {"a", "b \"c\"", "NULL"}));
                s.setString(17, "{\"a\": [1, null]}");
                s.setNull(18, Types.INTEGER);
                same(s.executeUpdate(), 1);
            }
        }
        try (Connection other = connect(1, ""); PreparedStatement s = other.prepareStatement("select * from jdbc_types where i4 = ?")) {
            for (int round = 0; round < 8; round++) {
                s.setInt(1, 1);
                ResultSet rows = s.executeQuery();
                int count = 0;
                while (rows.next()) {
                    count++;
                    for (int i = 0; i < sent.length; i++) {
                        Object seen = sent[i] instanceof byte[] ? rows.getBytes(i + 1)
                                : sent[i] instanceof Short ? rows.getShort(i + 1) : rows.getObject(i + 1, sent[i].getClass());
                        same(seen, sent[i]);
                    }
                    same((Object[]) rows.getArray(15).getArray(), new Object[] {1, null, 3});
                    same((Object[]) rows.getArray(16).getArray(), new Object[] {"a", "b \"c\"", "NULL"});
                    same(rows.getString(17), "{\"a\": [1, null]}");
                    rows.getInt(18);
                    same(rows.wasNull(), true);
                }
                same(count, 7);
            }
        }
    }

    static void batches(Connection c) throws Exception {
        for (String options : new String[] {"", "&reWriteBatchedInserts=true"}) {
            try (Connection own = connect(0, options)) {
                own.setAutoCommit(false);
                try (PreparedStatement s = own.prepareStatement("insert into jdbc_t (v, n) values (?, ?)", Statement.RETURN_GENERATED_KEYS)) {
                    for (int i = 0; i < 300; i++) {
                        s.setString(1, "b" + options.length() + i);
                        s.setBigDecimal(2, BigDecimal.valueOf(i));
                        s.addBatch();
                    }
                    same(s.executeBatch().length, 300);
                    ResultSet keys = s.getGeneratedKeys();
                    same(names(keys, "id").size(), 300);
                }
                own.commit();
                try (Statement s = own.createStatement()) {
                    s.addBatch("insert into jdbc_t (v) values ('once')");
                    s.addBatch("select 1 / 0");
                    s.executeBatch();
                    throw new AssertionError("a batch with an error succeeds");
                } catch (BatchUpdateException error) {
                    same(error.getSQLState(), "22012");
                }
                own.rollback();
            }
        }
    }

    static void transactions(Connection c) throws Exception {
        c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        c.setAutoCommit(false);
        try (Statement s = c.createStatement()) {
            s.executeUpdate("insert into jdbc_t (id, v) values (5000, 'a')");
            Savepoint point = c.setSavepoint("p");
            same(state(c, "insert into jdbc_t (id, v) values (5000, 'b')"), "23505");
            same(state(c, "select 1"), "25P02");
            c.rollback(point);
            s.executeUpdate("insert into jdbc_t (id, v) values (5001, 'b')");
            Savepoint other = c.setSavepoint();
            c.releaseSavepoint(other);
            c.commit();
            s.executeUpdate("delete from jdbc_t");
            c.rollback();
            ResultSet rows = s.executeQuery("select count(*) from jdbc_t where id in (5000, 5001)");
            rows.next();
            same(rows.getInt(1), 2);
            c.rollback();
        }
        c.setReadOnly(true);
        same(state(c, "delete from jdbc_t"), "25006");
        c.rollback();
    }

    static void fetchSize(Connection c) throws Exception {
        c.setAutoCommit(false);
        try (PreparedStatement s = c.prepareStatement("select g from generate_series(1, ?) g")) {
            s.setFetchSize(50);
            s.setInt(1, 1000);
            int sum = 0;
            ResultSet rows = s.executeQuery();
            while (rows.next()) sum += rows.getInt(1);
            same(sum, 500500);
        }
        c.rollback();
        c.setAutoCommit(true);
        try (Statement s = c.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
            ResultSet rows = s.executeQuery("select id, v from jdbc_t where id < 10 order by id");
            rows.last();
            rows.updateString("v", "updated");
            rows.updateRow();
            rows.absolute(2);
            same(rows.getInt(1), 2);
        }
    }

    static void copy(Connection c) throws Exception {
        CopyManager copy = c.unwrap(PGConnection.class).getCopyAPI();
        same(copy.copyIn("copy jdbc_t (id, v) from stdin", new StringReader("8000\tx\n8001\ty\\n\n")), 2L);
        StringWriter out = new StringWriter();
        copy.copyOut("copy (select id, v from jdbc_t where id >= 8000 order by id) to stdout", out);
        same(out.toString(), "8000\tx\n8001\ty\\n\n");
    }

    static void errors(Connection c) throws Exception {
        same(state(c, "selec"), "42601");
        same(state(c, "select * from nowhere"), "42P01");
        same(state(c, "insert into jdbc_child values (1, 1, -1)"), "23503");
        same(state(c, "insert into jdbc_t (v) values (null)"), "23502");
        same(state(c, "insert into jdbc_t (v) values ('" + "x".repeat(21) + "')"), "22001");
    }

    static void cancel(Connection c) throws Exception {
        long start = System.nanoTime();
        try (Statement s = c.createStatement()) {
            s.setQueryTimeout(1);
            s.execute("select pg_sleep(20)");
            throw new AssertionError("no time-out");
        } catch (SQLException error) {
            same(error.getSQLState(), "57014");
        }
        same(System.nanoTime() - start < 5_000_000_000L, true);
        same(c.isValid(2), true);
    }

    static void alteredTable(Connection c) throws Exception {
        try (PreparedStatement s = c.prepareStatement("select * from jdbc_child where a = ?"); Statement other = c.createStatement()) {
            for (int round = 0; round < 8; round++) {
                s.setInt(1, 1);
                s.executeQuery().close();
            }
            other.execute("alter table jdbc_child add later int");
            s.executeQuery().close();
            other.execute("alter table jdbc_child drop later");
            s.executeQuery().close();
        }
    }

    static void conflicts(Connection c) throws Exception {
        try (Statement s = c.createStatement()) {
            s.execute("insert into jdbc_t values (7777, 'n', 0)");
        }
        List<Thread> threads = new ArrayList<>();
        for (int host = 0; host < 2; host++) {
            int at = host;
            threads.add(new Thread(() -> {
                try (Connection own = connect(at, ""); Statement s = own.createStatement()) {
                    own.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
                    own.setAutoCommit(false);
                    for (int n = 0; n < 20; n++) {
                        while (true) {
                            try {
                                ResultSet rows = s.executeQuery("select n from jdbc_t where id = 7777");
                                rows.next();
                                s.executeUpdate("update jdbc_t set n = " + (rows.getInt(1) + 1) + " where id = 7777");
                                own.commit();
                                break;
                            } catch (SQLException error) {
                                own.rollback();
                                if (!"40001".equals(error.getSQLState())) throw error;
                                Thread.sleep(2);
                            }
                        }
                    }
                } catch (Exception error) {
                    System.out.println("  " + error);
                }
            }));
        }
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
        try (Statement s = c.createStatement()) {
            ResultSet rows = s.executeQuery("select n::int as n from jdbc_t where id = 7777");
            same(names(rows, "n"), List.of("40"));
        }
    }

    static void metaDataOfTables(Connection c) throws Exception {
        DatabaseMetaData m = c.getMetaData();
        same(m.getDatabaseMajorVersion(), 15);
        same(names(m.getTables(null, "public", "jdbc\\_%", new String[] {"TABLE", "VIEW"}), "TABLE_NAME", "TABLE_TYPE", "REMARKS"),
                List.of("jdbc_child TABLE null", "jdbc_t TABLE a table", "jdbc_types TABLE null", "jdbc_v VIEW null"));
        same(names(m.getColumns(null, "public", "jdbc_t", "%"), "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE",
                "DECIMAL_DIGITS", "IS_NULLABLE", "COLUMN_DEF", "REMARKS", "IS_AUTOINCREMENT"), List.of(
                "id 4 serial 10 0 NO nextval('jdbc_t_id_seq'::regclass) null YES",
                "v 12 varchar 20 0 NO 'x'::character varying a column NO", "n 2 numeric 8 2 YES null null NO"));
        same(names(m.getSchemas(), "TABLE_SCHEM").contains("public"), true);
        same(names(m.getCatalogs(), "TABLE_CAT").contains("postgres"), true);
        same(names(m.getTypeInfo(), "TYPE_NAME").contains("int4"), true);
        same(names(m.getTableTypes(), "TABLE_TYPE").contains("TABLE"), true);
        names(m.getTablePrivileges(null, "public", "jdbc_t"), "GRANTEE", "PRIVILEGE");
        names(m.getColumnPrivileges(null, "public", "jdbc_t", "%"), "GRANTEE", "PRIVILEGE");
        names(m.getFunctions(null, null, "lower"), "FUNCTION_NAME");
        names(m.getProcedures(null, null, "%"), "PROCEDURE_NAME");
        names(m.getUDTs(null, null, "%", null), "TYPE_NAME");
        names(m.getClientInfoProperties(), "NAME");
        same(m.getSQLKeywords().isEmpty(), false);
        same(m.getMaxColumnNameLength(), 63);
    }

    static void metaDataOfKeys(Connection c) throws Exception {
        DatabaseMetaData m = c.getMetaData();
        same(names(m.getPrimaryKeys(null, "public", "jdbc_child"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"),
                List.of("b 1 jdbc_child_pkey", "a 2 jdbc_child_pkey"));
        same(names(m.getImportedKeys(null, "public", "jdbc_child"), "PKTABLE_NAME", "PKCOLUMN_NAME", "FKCOLUMN_NAME", "DELETE_RULE"),
                List.of("jdbc_t id t 0"));
        same(names(m.getExportedKeys(null, "public", "jdbc_t"), "FKTABLE_NAME"), List.of("jdbc_child"));
        same(names(m.getCrossReference(null, "public", "jdbc_t", null, "public", "jdbc_child"), "FK_NAME"), List.of("jdbc_child_t_fkey"));
        same(names(m.getIndexInfo(null, "public", "jdbc_t", false, true), "INDEX_NAME", "COLUMN_NAME", "ORDINAL_POSITION", "ASC_OR_DESC", "NON_UNIQUE"),
                List.of("jdbc_i v 1 A false", "jdbc_i n 2 D false", "jdbc_t_pkey id 1 A false"));
        same(names(m.getBestRowIdentifier(null, "public", "jdbc_t", 1, true), "COLUMN_NAME"), List.of("id"));
        try (PreparedStatement s = c.prepareStatement("select id, v from jdbc_t where n > ?")) {
            same(s.getParameterMetaData().getParameterTypeName(1), "numeric");
            ResultSetMetaData r = s.getMetaData();
            same(r.getTableName(1) + " " + r.isAutoIncrement(1) + " " + r.isNullable(2) + " " + r.getPrecision(2), "jdbc_t true 0 20");
        }
    }

    public static void main(String[] arguments) throws Exception {
        ports = arguments;
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("setup", Jdbc::setup);
        checks.put("types round trip", Jdbc::types);
        checks.put("batches", Jdbc::batches);
        checks.put("transactions and savepoints", Jdbc::transactions);
        checks.put("fetch sizes and updatable results", Jdbc::fetchSize);
        checks.put("copy both ways", Jdbc::copy);
        checks.put("errors with states", Jdbc::errors);
        checks.put("cancel", Jdbc::cancel);
        checks.put("a table changes under a prepared statement", Jdbc::alteredTable);
        checks.put("conflicts are retried", Jdbc::conflicts);
        checks.put("metadata of tables", Jdbc::metaDataOfTables);
        checks.put("metadata of keys and indexes", Jdbc::metaDataOfKeys);
        int failed = 0;
        for (Map.Entry<String, Check> check : checks.entrySet()) {
            try (Connection c = connect(0, "")) {
                check.getValue().run(c);
            } catch (Throwable error) {
                failed++;
                System.out.println("  FAILED pgjdbc: " + check.getKey() + ": " + String.valueOf(error.getMessage()).replace('\n', ' '));
            }
        }
        String version = org.postgresql.util.DriverInfo.DRIVER_VERSION;
        System.out.println("pgjdbc " + version + ": " + (checks.size() - failed) + " passed, " + failed + " failed");
        System.exit(failed > 0 ? 1 : 0);
    }
}
