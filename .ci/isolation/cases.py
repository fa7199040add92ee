"""What sessions do to each other, as (name, steps). A step is (session, SQL). Before each case table `test` has (1, 10) and (2, 20), `child`
refers to it and is empty, and `wide` has 60 rows of 10. The anomalies are those of Adya and of Hermitage, which gave them their names."""


def case(name, *steps):
    return name, [(int(step[0]) - 1, step[2:]) for step in steps]


def begun(name, *steps):
    """In blocks, of all sessions that take part."""
    sessions = sorted({step[0] for step in steps})
    return case(name, *(f"{session} begin" for session in sessions), *steps)


ANOMALIES = (
    begun("G0: write cycles", "1 update test set value = 11 where id = 1", "2 update test set value = 12 where id = 1",
          "1 update test set value = 21 where id = 2", "1 commit", "3 select * from test order by id",
          "2 update test set value = 22 where id = 2", "2 commit", "3 select * from test order by id", "3 commit"),
    begun("G1a: aborted reads", "1 update test set value = 101 where id = 1", "2 select * from test order by id", "1 rollback",
          "2 select * from test order by id", "2 commit"),
    begun("G1b: intermediate reads", "1 update test set value = 101 where id = 1", "2 select * from test order by id",
          "1 update test set value = 11 where id = 1", "1 commit", "2 select * from test order by id", "2 commit"),
    begun("G1c: circular information flow", "1 update test set value = 11 where id = 1", "2 update test set value = 22 where id = 2",
          "1 select * from test where id = 2", "2 select * from test where id = 1", "1 commit", "2 commit"),
    begun("OTV: observed transaction vanishes", "1 update test set value = 11 where id = 1", "1 update test set value = 19 where id = 2",
          "2 update test set value = 12 where id = 1", "1 commit", "3 select * from test order by id", "2 update test set value = 18 where id = 2",
          "3 select * from test order by id", "2 commit", "3 select * from test order by id", "3 commit"),
    begun("PMP: predicate-many-preceders", "1 select * from test where value = 30", "2 insert into test (id, value) values (3, 30)", "2 commit",
          "1 select * from test where value % 3 = 0", "1 commit"),
    begun("PMP: for write predicates", "1 update test set value = value + 10", "2 select * from test where value = 20 order by id",
          "2 delete from test where value = 20", "1 commit", "2 select * from test order by id", "2 commit"),
    begun("P4: lost update", "1 select * from test where id = 1", "2 select * from test where id = 1", "1 update test set value = 11 where id = 1",
          "2 update test set value = 11 where id = 1", "1 commit", "2 commit"),
    begun("G-single: read skew", "1 select * from test where id = 1", "2 select * from test where id = 1", "2 select * from test where id = 2",
          "2 update test set value = 12 where id = 1", "2 update test set value = 18 where id = 2", "2 commit", "1 select * from test where id = 2",
          "1 commit"),
    begun("G-single: with a predicate", "1 select * from test where value % 5 = 0 order by id", "2 update test set value = 12 where value = 10",
          "2 commit", "1 select * from test where value % 3 = 0", "1 commit"),
    begun("G-single: with a write predicate", "1 select * from test where id = 1", "2 select * from test order by id",
          "2 update test set value = 12 where id = 1", "2 update test set value = 18 where id = 2", "2 commit",
          "1 delete from test where value = 20", "1 select * from test order by id", "1 commit"),
    begun("G-single: interleaved", "1 select * from test where id = 1", "2 select * from test order by id", "2 update test set value = 12 where id = 1",
          "1 delete from test where value = 20 returning id", "2 update test set value = 18 where id = 2", "1 rollback", "2 commit"),
    begun("G2-item: write skew", "1 select * from test where id in (1, 2) order by id", "2 select * from test where id in (1, 2) order by id",
          "1 update test set value = 11 where id = 1", "2 update test set value = 21 where id = 2", "1 commit", "2 commit"),
    begun("G2: anti-dependency cycles", "1 select * from test where value % 3 = 0", "2 select * from test where value % 3 = 0",
          "1 insert into test (id, value) values (3, 30)", "2 insert into test (id, value) values (4, 42)", "1 commit", "2 commit",
          "3 select * from test where value % 3 = 0 order by id", "3 commit"),
    begun("G2: two edges", "1 select * from test order by id", "2 update test set value = value + 5 where id = 2", "2 commit",
          "3 select * from test order by id", "3 commit", "1 update test set value = 0 where id = 1", "1 commit"),
)

WAITS = (
    begun("increments add up", "1 update test set value = value + 1 where id = 1", "2 update test set value = value + 2 where id = 1 returning value",
          "1 commit", "2 commit"),
    begun("a rollback leaves what was there", "1 update test set value = 99 where id = 1", "2 update test set value = value + 2 where value < 15 returning id, value",
          "1 rollback", "2 commit"),
    begun("a row that fits no more is passed over", "1 update test set value = 99 where id = 1", "2 update test set value = 0 where value < 50 returning id",
          "1 commit", "2 commit"),
    begun("a row that comes to fit is not found", "1 update test set value = 5 where id = 2", "2 update test set value = 0 where value < 15 returning id",
          "1 commit", "2 select * from test order by id", "2 commit"),
    begun("a row that was deleted", "1 delete from test where id = 1", "2 update test set value = 0 where id = 1 returning id", "1 commit", "2 commit"),
    begun("a deletion that is rolled back", "1 delete from test where id = 1", "2 delete from test where id = 1 returning id", "1 rollback", "2 commit"),
    begun("a condition on another row", "1 update test set value = 50 where id = 2", "2 update test set value = value + 1 where id = 1 and exists (select 1 from test where id = 2 and value = 20) returning id",
          "1 commit", "2 commit"),
    begun("a join, whose other row has changed", "1 update test set value = 21 where id = 2", "1 update test set value = 11 where id = 1",
          "2 update test a set value = a.value + b.value from test b where a.id = 1 and b.id = 2 returning a.value", "1 commit", "2 commit"),
    begun("for update", "1 select value from test where id = 1 for update", "2 select value from test where id = 1", "2 select value from test where id = 1 for update",
          "1 update test set value = 11 where id = 1", "1 commit", "2 commit"),
    begun("for update of what is ordered", "1 update test set value = 25 where id = 1", "2 select id, value from test order by value limit 1 for update",
          "1 commit", "2 commit"),
    begun("for update nowait", "1 update test set value = 11 where id = 1", "2 select value from test where id = 2 for update nowait",
          "2 select value from test where id = 1 for update nowait", "1 commit", "2 rollback"),
    begun("for update skip locked", "1 update test set value = 11 where id = 1", "2 select id from test for update skip locked", "1 commit", "2 commit"),
    begun("a duplicate that commits", "1 insert into test values (3, 1)", "2 insert into test values (3, 2)", "1 commit", "2 rollback"),
    begun("a duplicate that is rolled back", "1 insert into test values (3, 1)", "2 insert into test values (3, 2)", "1 rollback", "2 commit"),
    begun("a duplicate of what goes", "1 delete from test where id = 1", "2 insert into test values (1, 2)", "1 commit", "2 commit"),
    begun("on conflict, nothing", "1 insert into test values (3, 1)", "2 insert into test values (3, 2) on conflict do nothing", "1 commit", "2 rollback"),
    begun("on conflict, an update", "1 insert into test values (3, 1)", "2 insert into test values (3, 2) on conflict (id) do update set value = test.value + 10 returning value",
          "1 rollback", "2 commit"),
    begun("on conflict with what changes", "1 update test set value = 11 where id = 1",
          "2 insert into test values (1, 2) on conflict (id) do update set value = test.value + 10 returning value", "1 commit", "2 rollback"),
    begun("lock_timeout", "2 set local lock_timeout = 100", "1 update test set value = 11 where id = 1", "2 savepoint a", "2 update test set value = 0 where id = 1",
          "2 rollback to a", "2 update test set value = 0 where id = 2", "1 commit", "2 commit"),
    begun("a savepoint behind a wait", "1 update test set value = 11 where id = 1", "2 savepoint a", "2 update test set value = value + 1 where id = 1", "1 commit",
          "2 rollback to a", "2 select value from test where id = 1", "2 commit"),
    begun("one by one", "1 update test set value = value + 1 where id = 1", "2 update test set value = value + 10 where id = 1", "1 commit",
          "3 update test set value = value + 100 where id = 1 returning value", "2 commit", "3 commit"),
    begun("the parent goes", "1 insert into child values (1, 1)", "2 delete from test where id = 1", "1 commit", "2 rollback"),
    begun("the parent has gone", "1 delete from test where id = 1", "2 insert into child values (1, 1)", "1 commit", "2 rollback"),
    begun("the parent stays", "1 delete from test where id = 1", "2 insert into child values (1, 1)", "1 rollback", "2 commit"),
    begun("a deadlock", "1 update test set value = 11 where id = 1", "2 update test set value = 22 where id = 2", "1 update test set value = 12 where id = 2",
          "2 update test set value = 21 where id = 1", "1 rollback", "2 rollback"),
    begun("a deadlock of three", "1 update wide set v = 1 where id = 1", "2 update wide set v = 2 where id = 2", "3 update wide set v = 3 where id = 3",
          "1 update wide set v = 1 where id = 2", "2 update wide set v = 2 where id = 3", "3 update wide set v = 3 where id = 1",
          "1 rollback", "2 rollback", "3 rollback"),
    begun("no deadlock, but a queue", "1 update wide set v = 1 where id = 1", "2 update wide set v = 2 where id = 2", "2 update wide set v = v + 2 where id = 1 returning v",
          "1 update wide set v = v + 1 where id = 3", "1 commit", "2 commit"),
)

READS = (
    begun("each statement by itself", "1 select sum(v) from wide", "2 update wide set v = 11", "1 select sum(v) from wide", "2 commit", "1 select sum(v) from wide", "1 commit"),
    begun("own changes among others'", "1 update wide set v = v + 1 where id % 2 = 0", "1 delete from wide where id = 3", "1 insert into wide values (100, 7)",
          "2 update wide set v = 0 where id = 5", "2 insert into wide values (101, 8)", "1 select count(*), sum(v) from wide", "2 commit",
          "1 select count(*), sum(v) from wide", "1 select id, v from wide where id in (3, 5, 100, 101) order by id", "1 commit"),
    begun("rows that come and go", "1 select count(*) from wide where v = 10", "2 delete from wide where id < 10", "2 insert into wide select g, 10 from generate_series(200, 205) g",
          "1 select count(*) from wide where v = 10", "2 commit", "1 select count(*) from wide where v = 10", "1 select max(id) from wide", "1 commit"),
    begun("an aggregate and a row", "2 update wide set v = 100 where id = 7", "1 select v, (select sum(v) from wide) from wide where id = 7", "2 commit",
          "1 select v, (select sum(v) from wide) from wide where id = 7", "1 commit"),
    begun("a cursor", "1 declare c cursor for select v from wide order by id", "2 update wide set v = 0", "2 commit", "1 fetch 2 from c", "1 select sum(v) from wide", "1 commit"),
    begun("savepoints", "1 update wide set v = 20 where id = 1", "1 savepoint a", "1 update wide set v = 30 where id = 1", "1 select v from wide where id = 1",
          "2 select v from wide where id = 1", "1 rollback to a", "1 select v, (select count(*) from wide where v = 20) from wide where id = 1", "1 commit",
          "2 select v from wide where id = 1", "2 commit"),
    begun("insert from a select", "2 update wide set v = 0 where id <= 30", "1 insert into wide select id + 1000, v from wide", "2 commit",
          "1 select count(*), sum(v) from wide", "1 commit"),
    begun("read only", "1 set transaction read only", "1 select sum(v) from wide", "2 update wide set v = 11", "2 commit", "1 select sum(v) from wide", "1 commit"),
)

ALL = ANOMALIES + WAITS + READS
