//! Tables of as many columns as PostgreSQL's can have, and queries of as many: over a pod of two hosts.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads, and time passes")]

mod client;
mod databases;
mod sessions;
mod support;

use sessions::{Connected, ask, connect, error_of, with_pod};

/// `n` of what `item` makes of a number from 1 on, with commas between.
fn list(n: usize, item: impl Fn(usize) -> String) -> String {
    (1..=n).map(item).collect::<Vec<_>>().join(", ")
}

fn columns(n: usize, ty: &str) -> String {
    list(n, |n| format!("c{n} {ty}"))
}

#[test]
fn a_table_has_at_most_1600_columns() {
    with_pod(1, 3, |databases| {
        let mut session = connect(&databases[0]);
        let told = "54011 tables can have at most 1600 columns";
        let too_many = columns(1601, "int");
        assert_eq!(error_of(&mut session, &format!("create table t ({too_many})")), told);
        ask(&mut session, &format!("create table t ({})", columns(1599, "int")));
        ask(&mut session, "alter table t add column last int, drop column c1");
        // A column that was dropped keeps its number.
        assert_eq!(error_of(&mut session, "alter table t add column more int"), told);
        let wider = format!("create table s as select {}", list(1601, |n| format!("{n} as c{n}")));
        assert_eq!(error_of(&mut session, &wider), told);
        assert_eq!(error_of(&mut session, "create table s (like t, a int, b int)"), told);
        let view = format!("create view v as select {}", list(1601, |n| format!("{n} as c{n}")));
        assert_eq!(error_of(&mut session, &view), told);
        let indexed = format!("create index on t ({})", list(33, |n| format!("c{}", n + 1)));
        let told = "54011 cannot use more than 32 columns in an index";
        assert_eq!(error_of(&mut session, &indexed), told);
    });
}

#[test]
fn a_query_gives_at_most_1664_columns() {
    with_pod(1, 3, |databases| {
        let mut session = connect(&databases[0]);
        let row = ask(&mut session, &format!("select {}", list(1664, |n| n.to_string())));
        assert_eq!(row.split('|').count(), 1664);
        let told = "54011 target lists can have at most 1664 entries";
        let more = list(1665, |n| n.to_string());
        assert_eq!(error_of(&mut session, &format!("select {more}")), told);
        assert_eq!(error_of(&mut session, &format!("values ({more})")), told);
        ask(&mut session, &format!("create table t ({})", columns(833, "int")));
        assert_eq!(error_of(&mut session, "select * from t a, t b"), told);
        let told = "54011 ROW expressions can have at most 1664 entries";
        assert_eq!(error_of(&mut session, &format!("select row({more})")), told);
    });
}

/// Fills, reads and changes a table of 1,600 columns of a type, from two hosts.
fn fill(one: &mut Connected, other: &mut Connected, ty: &str, value: impl Fn(usize) -> String) {
    let table = format!("t_{}", ty.split('(').next().expect("a word"));
    ask(one, &format!("create table {table} ({})", columns(1600, ty)));
    ask(one, &format!("insert into {table} values ({})", list(1600, &value)));
    ask(one, &format!("insert into {table} (c7, c1600) values ({}, {})", value(7), value(1600)));
    let read = ask(other, &format!("select * from {table} where c1 is not null"));
    let expected = (1..=1600).map(|n| value(n).trim_matches('\'').to_string()).collect::<Vec<_>>().join("|");
    assert!(read == expected, "{table}: {read}");
    ask(other, &format!("update {table} set c1600 = {}, c2 = null where c1 is null", value(800)));
    ask(other, &format!("update {table} set c1599 = {} where c1 is not null", value(3)));
    let read = ask(one, &format!("select c2, c7, c1600 from {table} where c1 is null"));
    let plain = |n| value(n).trim_matches('\'').to_string();
    assert_eq!(read, format!("NULL|{}|{}", plain(7), plain(800)));
    let read = ask(one, &format!("select c1598, c1599, c1600 from {table} where c1 is not null"));
    assert_eq!(read, [plain(1598), plain(3), plain(1600)].join("|"));
}

#[test]
fn tables_of_1600_columns_of_any_type_are_filled_read_and_changed() {
    with_pod(2, 3, |databases| {
        let (mut one, mut other) = (connect(&databases[0]), connect(&databases[1]));
        fill(&mut one, &mut other, "int", |n| n.to_string());
        fill(&mut one, &mut other, "bigint", |n| (n as i64 * 1_000_000_007).to_string());
        fill(&mut one, &mut other, "uuid", |n| format!("'00000000-0000-0000-0000-{n:012}'"));
        // Short ones have room in the row, long ones lie outside.
        fill(&mut one, &mut other, "text", |n| format!("'{n}'"));
        fill(&mut one, &mut other, "varchar(100)", |n| format!("'{n:050}'"));
        fill(&mut one, &mut other, "numeric", |n| format!("{n}.5"));
        assert_eq!(ask(&mut one, "drop table t_uuid, t_text, t_varchar, t_bigint"), "");
        let described = "select count(*) from pg_attribute where attrelid = 't_int'::regclass and attnum > 0";
        assert_eq!(ask(&mut other, described), "1600");
    });
}
