//! SQL objects on real pods: tables and their rows, seen from several hosts.

#![forbid(unsafe_code)]

mod support;

use liger_sql::catalog::change::NewIndex;
use liger_sql::catalog::check;
use liger_sql::catalog::object::{IndexColumn, Object, PUBLIC, Sequence};
use liger_sql::catalog::sequence;
use liger_sql::storage::access::Access;
use liger_sql::storage::bulk::at_once;
use liger_sql::storage::scan::Range;
use liger_sql::storage::table::{PlainColumns, Row, RowChange, TableRows};
use liger_sql::storage::undo::{UndoLog, Undoing};
use liger_sql::storage::{garbage, overflow};
use liger_sql::types::{Type, oid};
use liger_sql::{Result, SqlState, Value};
use support::{account, accounts, new_table, oid_of, pod, pod_of};

fn all(tx: &mut dyn Access, rows: &TableRows, range: &Range) -> Result<Vec<Row>> {
    let mut scan = rows.scan(tx, range)?;
    let mut found = Vec::new();
    while let Some(row) = scan.next(tx, rows)? {
        found.push(row);
    }
    Ok(found)
}

fn ids(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row.values[0].as_i64().expect("a number")).collect()
}

/// Removes what is left of objects that are gone, `most` rows at once.
fn sweep(host: &mut support::SqlHost, most: usize) {
    let places = host.run(|tx, _| Ok(tx.places()));
    for place in 0..places {
        while host.run(|tx, working| garbage::sweep(tx, working.catalog().classes(), place, most)) {}
    }
}

#[test]
fn a_table_made_on_one_host_is_there_on_the_other_at_once() {
    let (_, mut hosts) = pod(2);
    let [a, b] = &mut hosts[..] else { panic!("two hosts") };
    let table = a.run(|tx, working| accounts(working, tx, "accounts")).oid;
    let numbers = |host: &support::SqlHost| host.catalog.numbers().take();
    assert_ne!(numbers(a) >> 40, numbers(b) >> 40, "hosts give numbers of their own");
    b.run(|_, working| {
        assert_eq!(oid_of(working, "accounts"), Some(table));
        Ok(())
    });
    let catalog = &a.catalog;
    a.host.alone(|session| {
        liger_sql::storage::access::transact(session, |tx| {
            let rows = catalog.begin(tx)?.rows(table)?;
            for id in 0..100 {
                rows.insert(tx, catalog.numbers(), &account(id, &format!("owner {id}"), 10), &PlainColumns)?;
            }
            Ok(())
        })
        .expect("inserted");
    });
    b.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        let found = all(tx, &rows, &Range::default())?;
        assert_eq!(ids(&found), (0..100).collect::<Vec<_>>(), "merged from all places, in order");
        let range = Range { low: Some((Value::Int4(90), false)), backwards: true, ..Range::default() };
        assert_eq!(ids(&all(tx, &rows, &range)?), (91..100).rev().collect::<Vec<_>>());
        let key = rows.key_of(tx, &[&Value::Int4(7)])?;
        let row = rows.get(tx, &key)?.expect("it is there");
        assert_eq!(row.values[1].as_str(), Some("owner 7"));
        Ok(())
    });
    let moved = b.transact(|tx, working| {
        let rows = working.catalog().rows(table)?;
        let key = rows.key_of(tx, &[&Value::Int4(7)])?;
        let row = rows.lock(tx, &key)?.expect("it is there");
        let numbers = liger_sql::storage::numbers::Numbers::default();
        let moved = account(1007, "moved", 11);
        rows.update(tx, &numbers, &RowChange::of(&row, &moved, &[0, 1, 2]), &PlainColumns)
    });
    moved.expect("no numbers are needed for short values");
    a.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        let key = rows.key_of(tx, &[&Value::Int4(7)])?;
        assert!(rows.get(tx, &key)?.is_none());
        let key = rows.key_of(tx, &[&Value::Int4(1007)])?;
        assert_eq!(rows.get(tx, &key)?.expect("it moved").values[2].as_i64(), Some(11));
        Ok(())
    });
    b.run(|tx, working| {
        let indexes: Vec<u32> = working.catalog().indexes_of(table).map(|index| index.oid).collect();
        indexes.into_iter().chain([table]).try_for_each(|oid| working.drop_object(tx, oid))
    });
    a.run(|_, working| {
        assert_eq!(oid_of(working, "accounts"), None);
        assert!(working.catalog().rows(table).is_err());
        Ok(())
    });
    sweep(a, 30);
    a.run(|tx, working| {
        assert_eq!(check::problems(tx, working.catalog(), &PlainColumns)?, Vec::<String>::new());
        Ok(())
    });
}

#[test]
fn indexes_follow_their_rows() {
    let (_, mut hosts) = pod(2);
    let [a, b] = &mut hosts[..] else { panic!("two hosts") };
    let table = a.run(|tx, working| accounts(working, tx, "accounts")).oid;
    let new = |name: &str, columns: Vec<IndexColumn>, unique| NewIndex {
        name: name.to_owned(),
        table,
        columns,
        unique,
        ..NewIndex::default()
    };
    let numbers = liger_sql::storage::numbers::Numbers::default();
    a.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        (0..40).try_for_each(|id| {
            rows.insert(tx, &numbers, &account(id, &format!("o{:02}", id % 10), i64::from(id)), &PlainColumns)
                .map(|_| ())
        })
    });
    let (by_owner, by_balance) = b.run(|tx, working| {
        let owner = IndexColumn { descending: true, nulls_first: true, ..IndexColumn::of(1) };
        let by_owner = working.create_index(tx, new("by_owner", vec![owner, IndexColumn::of(0)], false))?.oid;
        let by_balance = working.create_index(tx, new("by_balance", vec![IndexColumn::of(2)], true))?.oid;
        let rows = working.catalog().rows(table)?;
        for index in [by_owner, by_balance] {
            assert_eq!(rows.fill_index(&at_once(tx), index, &PlainColumns)?, 40);
        }
        Ok((by_owner, by_balance))
    });
    a.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        let range = Range { index: Some(by_owner), equal: vec![Value::text("o03")], ..Range::default() };
        assert_eq!(ids(&all(tx, &rows, &range)?), [3, 13, 23, 33]);
        let range = Range { index: Some(by_balance), high: Some((Value::Int8(3), true)), ..Range::default() };
        assert_eq!(ids(&all(tx, &rows, &range)?), [0, 1, 2, 3]);
        let range = Range { index: Some(by_owner), wanted: Some(3), ..Range::default() };
        let mut scan = rows.scan(tx, &range)?;
        assert_eq!(scan.next(tx, &rows)?.expect("there are rows").values[1].as_str(), Some("o09"));
        Ok(())
    });
    let twice = a.transact(|tx, working| {
        let rows = working.catalog().rows(table)?;
        rows.insert(tx, &numbers, &account(100, "x", 5), &PlainColumns)
    });
    let twice = twice.expect_err("5 is somebody's balance");
    assert_eq!(twice.state, SqlState::UNIQUE_VIOLATION);
    assert_eq!(twice.message, "duplicate key value violates unique constraint \"by_balance\"");
    assert_eq!(twice.detail.as_deref(), Some("Key (balance)=(5) already exists."));
    assert_eq!((twice.constraint.as_deref(), twice.table.as_deref()), (Some("by_balance"), Some("accounts")));
    b.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        let key = rows.key_of(tx, &[&Value::Int4(3)])?;
        let row = rows.lock(tx, &key)?.expect("it is there");
        let mut changed = row.values.clone();
        (changed[1], changed[2]) = (Value::Null, Value::Null);
        rows.update(tx, &numbers, &RowChange::of(&row, &changed, &[1, 2]), &PlainColumns)?;
        let key = rows.key_of(tx, &[&Value::Int4(13)])?;
        let row = rows.lock(tx, &key)?.expect("it is there");
        let mut changed = row.values.clone();
        changed[2] = Value::Null;
        rows.update(tx, &numbers, &RowChange::of(&row, &changed, &[1, 2]), &PlainColumns)?;
        let key = rows.key_of(tx, &[&Value::Int4(23)])?;
        let row = rows.lock(tx, &key)?.expect("it is there");
        assert_eq!(rows.delete(&at_once(tx), &[row], &PlainColumns)?, [true]);
        Ok(())
    });
    a.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        let range = Range { index: Some(by_owner), equal: vec![Value::text("o03")], ..Range::default() };
        assert_eq!(ids(&all(tx, &rows, &range)?), [13, 33]);
        let range = Range { index: Some(by_owner), equal: vec![Value::Null], ..Range::default() };
        assert_eq!(ids(&all(tx, &rows, &range)?), [3]);
        let range = Range { index: Some(by_balance), equal: vec![Value::Null], ..Range::default() };
        assert_eq!(ids(&all(tx, &rows, &range)?), [3, 13], "NULLs are nobody's duplicates");
        assert_eq!(check::problems(tx, working.catalog(), &PlainColumns)?, Vec::<String>::new());
        working.drop_object(tx, by_balance)?;
        working.truncate(tx, table)?;
        let rows = working.catalog().rows(table)?;
        assert!(all(tx, &rows, &Range::default())?.is_empty());
        Ok(())
    });
    sweep(b, 7);
    b.run(|tx, working| {
        assert_eq!(check::problems(tx, working.catalog(), &PlainColumns)?, Vec::<String>::new());
        Ok(())
    });
}

#[test]
fn long_values_lie_outside_and_long_keys_are_cut() {
    let (_, mut hosts) = pod(2);
    let [a, b] = &mut hosts[..] else { panic!("two hosts") };
    let columns = [("name", Type::of(oid::TEXT)), ("n", Type::of(oid::INT4)), ("note", Type::of(oid::TEXT))];
    let made = a.run(|tx, working| working.create_table(tx, new_table("notes", &columns, &[0])));
    let outside = made.overflow.expect("texts may lie outside");
    assert_ne!(outside.object, made.rows.object, "rows of one class are apart by the object's number");
    let table = made.oid;
    let name = |n: i32| format!("{}{n:04}", "a very long name that does not fit the key at all ".repeat(3));
    let text = |n: usize| "0123456789abcdef".repeat(n);
    let numbers = liger_sql::storage::numbers::Numbers::from_life(9);
    a.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        assert!(!rows.is_exact(None)?, "texts may be cut");
        for n in 0..20 {
            let values = [Value::text(name(n)), Value::Int4(n), Value::text(text(n as usize * 100))];
            rows.insert(tx, &numbers, &values, &PlainColumns)?;
        }
        Ok(())
    });
    b.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        for n in 0..20 {
            let key = rows.key_of(tx, &[&Value::text(name(n))])?;
            let row = rows.get(tx, &key)?.expect("found by its cut key");
            assert_eq!(row.values[1].as_i64(), Some(i64::from(n)));
            assert_eq!(row.values[2].as_str(), Some(&*text(n as usize * 100)));
        }
        let low = Some((Value::text(name(5)), true));
        let mut found = ids_of_second(&all(tx, &rows, &Range { low, ..Range::default() })?);
        found.sort_unstable();
        assert!((5..20).all(|n| found.contains(&n)), "a range of cut keys is a superset: {found:?}");
        let key = rows.key_of(tx, &[&Value::text(name(19))])?;
        let row = rows.lock(tx, &key)?.expect("it is there");
        let mut same = row.values.clone();
        same[1] = Value::Int4(190);
        rows.update(tx, &numbers, &RowChange::of(&row, &same, &[1]), &PlainColumns)?;
        let row = rows.get(tx, &key)?.expect("it is there");
        let mut other = row.values.clone();
        other[2] = Value::text(text(2000));
        rows.update(tx, &numbers, &RowChange::of(&row, &other, &[2]), &PlainColumns)?;
        let row = rows.get(tx, &key)?.expect("it is there");
        assert_eq!(row.values[2].as_str().map(str::len), Some(32_000));
        let key = rows.key_of(tx, &[&Value::text(name(18))])?;
        let row = rows.get(tx, &key)?.expect("it is there");
        assert_eq!(rows.delete(&at_once(tx), &[row], &PlainColumns)?, [true]);
        Ok(())
    });
    a.run(|tx, working| {
        assert_eq!(check::problems(tx, working.catalog(), &PlainColumns)?, Vec::<String>::new());
        Ok(())
    });
}

#[test]
fn a_value_of_some_megabytes_comes_back_and_goes_as_a_whole() {
    let (_, mut hosts) = pod(2);
    let [a, b] = &mut hosts[..] else { panic!("two hosts") };
    let columns =
        [("n", Type::of(oid::INT4)), ("text", Type::of(oid::TEXT)), ("bytes", Type::of(oid::BYTEA))];
    let made = a.run(|tx, working| working.create_table(tx, new_table("long", &columns, &[0])));
    let (table, outside) = (made.oid, made.overflow.expect("texts may lie outside"));
    let text: String = (0..400_000).map(|n| format!("{n:07}\u{e9}")).collect();
    let bytes: Vec<u8> = (0..3_000_001u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let numbers = liger_sql::storage::numbers::Numbers::from_life(9);
    let values = [Value::Int4(1), Value::text(text.as_str()), Value::bytea(&bytes[..])];
    a.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        rows.insert(tx, &numbers, &values, &PlainColumns).map(drop)
    });
    b.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        let key = rows.key_of(tx, &[&Value::Int4(1)])?;
        let row = rows.lock(tx, &key)?.expect("it is there");
        assert!(row.values[1].as_str() == Some(&*text), "the text comes back");
        assert!(matches!(&row.values[2], Value::Bytea(read) if **read == bytes[..]), "the bytes come back");
        // What stays the same stays where it is; what is replaced goes.
        let mut other = row.values.clone();
        other[1] = Value::text("short");
        rows.update(tx, &numbers, &RowChange::of(&row, &other, &[1]), &PlainColumns).map(drop)
    });
    a.run(|tx, working| {
        assert_eq!(check::problems(tx, working.catalog(), &PlainColumns)?, Vec::<String>::new());
        let rows = working.catalog().rows(table)?;
        let key = rows.key_of(tx, &[&Value::Int4(1)])?;
        let row = rows.get(tx, &key)?.expect("it is there");
        assert_eq!(row.values[1].as_str(), Some("short"));
        assert!(matches!(&row.values[2], Value::Bytea(read) if **read == bytes[..]));
        rows.delete(&at_once(tx), std::slice::from_ref(&row), &PlainColumns)?;
        assert_eq!(check::problems(tx, working.catalog(), &PlainColumns)?, Vec::<String>::new());
        // A value of a gigabyte is refused before any of it is put.
        let home = working.catalog().classes().home(outside)?;
        let refused = overflow::put(tx, &home, 0, 1, &vec![0; overflow::VALUE_MAX + 1]);
        let refused = refused.expect_err("it is too long");
        assert_eq!((refused.state.as_str(), &*refused.message), ("54000", "out of memory"));
        Ok(())
    });
}

fn ids_of_second(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row.values[1].as_i64().expect("a number")).collect()
}

#[test]
fn savepoints_undo_rows_and_objects() {
    let (_, mut hosts) = pod(1);
    let a = &mut hosts[0];
    let table = a.run(|tx, working| accounts(working, tx, "accounts")).oid;
    let numbers = liger_sql::storage::numbers::Numbers::from_life(9);
    a.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        (0..4).try_for_each(|id| rows.insert(tx, &numbers, &account(id, "o", 1), &PlainColumns).map(|_| ()))
    });
    a.run(|tx, working| {
        let mut log = UndoLog::default();
        let mut tx = Undoing::new(tx, &mut log);
        let (mark, kept) = (tx.mark(), working.keep());
        let rows = working.catalog().rows(table)?;
        let row = |tx: &mut Undoing<'_>, id| {
            let key = rows.key_of(tx, &[&Value::Int4(id)])?;
            rows.lock(tx, &key)
        };
        let (zero, one) = (row(&mut tx, 0)?.expect("there"), row(&mut tx, 1)?.expect("there"));
        assert_eq!(rows.delete(&at_once(&mut tx), &[zero.clone(), zero], &PlainColumns)?, [true, false]);
        let changed = account(1, "changed", 2);
        rows.update(&mut tx, &numbers, &RowChange::of(&one, &changed, &[1, 2]), &PlainColumns)?;
        rows.insert(&mut tx, &numbers, &account(0, "again", 3), &PlainColumns)?;
        rows.insert(&mut tx, &numbers, &account(9, "new", 3), &PlainColumns)?;
        accounts(working, &mut tx, "more")?;
        assert!(oid_of(working, "more").is_some());
        tx.undo_to(mark)?;
        working.restore(&kept);
        assert!(oid_of(working, "more").is_none());
        let found = all(&mut tx, &rows, &Range::default())?;
        assert_eq!(ids(&found), [0, 1, 2, 3]);
        assert!(found.iter().all(|row| row.values[1].as_str() == Some("o")));
        accounts(working, &mut tx, "more")?;
        Ok(())
    });
    a.run(|tx, working| {
        assert!(oid_of(working, "more").is_some());
        let rows = working.catalog().rows(table)?;
        assert_eq!(ids(&all(tx, &rows, &Range::default())?), [0, 1, 2, 3]);
        assert_eq!(check::problems(tx, working.catalog(), &PlainColumns)?, Vec::<String>::new());
        Ok(())
    });
}

/// Whoever has no memory for more can still take back what he has done, and keep the rest.
#[test]
fn a_transaction_without_memory_for_more_goes_back_to_its_savepoint() {
    let (_, mut hosts) = pod_of(1, |options| options.engine.transaction_bytes = 1 << 20);
    let a = &mut hosts[0];
    let table = a.run(|tx, working| accounts(working, tx, "accounts")).oid;
    let numbers = liger_sql::storage::numbers::Numbers::from_life(9);
    let insert = |tx: &mut dyn Access, rows: &TableRows, id| {
        rows.insert(tx, &numbers, &account(id, "o", 1), &PlainColumns).map(|_| ())
    };
    a.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        (0..200).try_for_each(|id| insert(tx, &rows, id))
    });
    a.run(|tx, working| {
        let mut log = UndoLog::default();
        let mut tx = Undoing::new(tx, &mut log);
        let rows = working.catalog().rows(table)?;
        insert(&mut tx, &rows, 1000)?;
        let mark = tx.mark();
        for id in 0..200 {
            let key = rows.key_of(&tx, &[&Value::Int4(id)])?;
            let row = rows.lock(&mut tx, &key)?.expect("there");
            if id < 100 {
                rows.delete(&at_once(&mut tx), &[row], &PlainColumns)?;
            } else {
                let changed = account(id, "changed", 2);
                rows.update(&mut tx, &numbers, &RowChange::of(&row, &changed, &[1, 2]), &PlainColumns)?;
            }
        }
        let refused = (2000..1_000_000).try_for_each(|id| insert(&mut tx, &rows, id));
        let error = refused.expect_err("there is no memory for so many");
        assert_eq!(error.state, SqlState::OUT_OF_MEMORY);
        assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("--transaction-memory")));
        assert_eq!(all(&mut tx, &rows, &Range::default())?[0].values[0].as_i64(), Some(100), "reads go on");
        tx.undo_to(mark)?;
        let again = insert(&mut tx, &rows, 2000).map_err(|error| error.state);
        assert_eq!(again, Err(SqlState::OUT_OF_MEMORY), "what was taken back counts until the end");
        Ok(())
    });
    a.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        let found = all(tx, &rows, &Range::default())?;
        assert_eq!(ids(&found), (0..200).chain([1000]).collect::<Vec<i64>>());
        assert!(found.iter().all(|row| row.values[1].as_str() == Some("o")));
        insert(tx, &rows, 2000)?;
        assert_eq!(check::problems(tx, working.catalog(), &PlainColumns)?, Vec::<String>::new());
        Ok(())
    });
}

#[test]
fn names_and_dependencies_are_checked() {
    let (_, mut hosts) = pod(1);
    let a = &mut hosts[0];
    let table = a.run(|tx, working| accounts(working, tx, "accounts")).oid;
    let twice = a.transact(|tx, working| accounts(working, tx, "accounts")).expect_err("the name is taken");
    assert_eq!(
        (twice.state, &*twice.message),
        (SqlState::DUPLICATE_TABLE, "relation \"accounts\" already exists")
    );
    let serial = a.run(|tx, working| {
        let sequence = Sequence {
            oid: 0,
            name: "s".to_owned(),
            schema: PUBLIC,
            owner: 10,
            type_oid: oid::INT8,
            start: 1,
            increment: 1,
            min: 1,
            max: 70,
            cache: 32,
            cycle: false,
            owned_by: None,
            grants: Vec::new(),
            comment: None,
        };
        let made = working.create_sequence(tx, sequence)?;
        let mut table = working.catalog().table(table).expect("made above").clone();
        let text = liger_sql::catalog::object::Expression::plain("nextval('s'::regclass)");
        let depends = vec![made.oid];
        table.columns[0].default = Some(liger_sql::catalog::object::Expression { depends, ..text });
        working.replace(tx, Object::Table(table))?;
        Ok(made)
    });
    let blocks: Vec<(i64, i64)> = (0..3)
        .map(|_| a.run(|tx, working| sequence::take(tx, working.catalog(), &serial, 32)))
        .map(|block| (block.first, block.count))
        .collect();
    assert_eq!(blocks, [(1, 32), (33, 32), (65, 6)]);
    let over = a.transact(|tx, working| sequence::take(tx, working.catalog(), &serial, 32));
    assert_eq!(over.expect_err("no more").state, SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED);
    a.run(|tx, working| {
        working.drop_object(tx, serial.oid)?;
        assert!(working.catalog().get(serial.oid).is_none());
        Ok(())
    });
}

#[test]
fn rows_without_a_key_come_in_the_order_in_which_they_were_put() {
    let (_, mut hosts) = pod(2);
    let [a, _] = &mut hosts[..] else { panic!("two hosts") };
    let table =
        a.run(|tx, working| working.create_table(tx, new_table("log", &[("n", Type::of(oid::INT4))], &[])));
    let numbers = liger_sql::storage::numbers::Numbers::from_life(9);
    a.run(|tx, working| {
        let rows = working.catalog().rows(table.oid)?;
        (0..300).try_for_each(|n| rows.insert(tx, &numbers, &[Value::Int4(n)], &PlainColumns).map(|_| ()))?;
        assert_eq!(ids(&all(tx, &rows, &Range::default())?), (0..300).collect::<Vec<_>>());
        Ok(())
    });
    // A column that the table gets later has its default in the rows that are there.
    a.run(|tx, working| {
        let mut table = working.catalog().table(table.oid).expect("made above").clone();
        let mut bytes = Vec::new();
        liger_sql::storage::codec::write(&Value::Int8(77), &mut bytes)?;
        let mut column = liger_sql::catalog::object::Column::new("more", Type::of(oid::INT8));
        column.missing = Some(bytes);
        table.columns.push(column);
        assert!(!working.replace_columns(tx, table.clone())?, "there is room to spare");
        let rows = working.catalog().rows(table.oid)?;
        let found = all(tx, &rows, &Range::default())?;
        assert!(found.iter().all(|row| row.values[1].as_i64() == Some(77)));
        let changed = RowChange::of(&found[0], &[Value::Int4(0), Value::Null], &[1]);
        rows.update(tx, &numbers, &changed, &PlainColumns)?;
        assert!(rows.get(tx, &found[0].key)?.expect("there").values[1].is_null());
        Ok(())
    });
}

#[test]
fn the_last_rows_are_found_from_the_end() {
    let (_, mut hosts) = pod(2);
    let [a, b] = &mut hosts[..] else { panic!("two hosts") };
    let table = a.run(|tx, working| accounts(working, tx, "accounts")).oid;
    let numbers = liger_sql::storage::numbers::Numbers::from_life(9);
    let spread = |n: i32| if n < 2000 { n * n } else { n * n + 7 };
    for some in 0..6 {
        a.run(|tx, working| {
            let rows = working.catalog().rows(table)?;
            (some * 500..(some + 1) * 500).try_for_each(|n| {
                rows.insert(tx, &numbers, &account(spread(n), "o", i64::from(n)), &PlainColumns).map(|_| ())
            })
        });
    }
    let expected: Vec<i64> = (0..3000).rev().map(|n| i64::from(spread(n))).collect();
    b.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        let backwards = Range { backwards: true, wanted: Some(3), ..Range::default() };
        let mut scan = rows.scan(tx, &backwards)?;
        for id in &expected[..20] {
            let row = scan.next(tx, &rows)?.expect("there are more");
            assert_eq!(row.values[0].as_i64(), Some(*id));
        }
        assert_eq!(ids(&all(tx, &rows, &backwards)?), expected);
        let high = Some((Value::Int4(spread(1000)), false));
        let some = all(tx, &rows, &Range { high, low: Some((Value::Int4(spread(990)), true)), ..backwards })?;
        assert_eq!(ids(&some), (990..1000).rev().map(|n| i64::from(spread(n))).collect::<Vec<_>>());
        Ok(())
    });
}
