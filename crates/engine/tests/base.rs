//! Keys, layouts and rows against plain models.

use liger_engine::{
    ColumnType, IndexLayout, Key, KeyRange, NewRow, PatchRange, Patches, Row, SchemaError, TableSchema,
    row_len, table,
};
use liger_pod::testing::Numbers;

/// Small numbers often, any number sometimes.
fn number(numbers: &mut Numbers) -> i64 {
    let shift = numbers.below(64);
    numbers.draw() as i64 >> shift
}

fn text(numbers: &mut Numbers, most: u64) -> String {
    let len = numbers.below(most + 1);
    (0..len).map(|_| (b'A' + numbers.below(3) as u8) as char).collect()
}

table! {
    /// One column of every kind.
    mod all: "all" {
        SMALL: SmallInt,
        TEXT: Text<13>,
        INT: Null<Int>,
        BIG: BigInt,
        FLAG: Bool,
        RAW: Null<Bytes<5>>,
        AMOUNT: Decimal<2>,
        AT: Null<Timestamp>,
    }
    primary key (SMALL, TEXT, BIG);
    partition by (BIG);
    replicated;
    index "all_by_int" (INT desc, RAW, FLAG);
    unique index "all_by_amount" (AMOUNT desc, BIG desc);
}

type Values = (i16, String, Option<i32>, i64, bool, Option<Vec<u8>>, i64);

fn values(numbers: &mut Numbers) -> Values {
    let raw: Vec<u8> = (0..numbers.below(6)).map(|_| (numbers.below(2)) as u8).collect();
    (
        number(numbers) as i16,
        text(numbers, 13),
        (!numbers.draw().is_multiple_of(3)).then(|| number(numbers) as i32),
        number(numbers),
        numbers.draw().is_multiple_of(2),
        (!numbers.draw().is_multiple_of(3)).then_some(raw),
        number(numbers),
    )
}

fn row_of(row: &mut NewRow, v: &Values) {
    row.reset(all::ROW_LEN).set(all::SMALL, v.0).set(all::TEXT, &v.1).set(all::INT, v.2);
    row.set(all::BIG, v.3).set(all::FLAG, v.4).set(all::RAW, v.5.as_deref()).set(all::AMOUNT, v.6);
}

#[test]
fn keys_sort_like_their_values() {
    let layout = all::schema().layout().expect("valid");
    let (mut numbers, mut row) = (Numbers(1), NewRow::default());
    let rows: Vec<(Values, Vec<u8>)> = (0..400)
        .map(|_| {
            let v = values(&mut numbers);
            row_of(&mut row, &v);
            (v, row.bytes().to_vec())
        })
        .collect();
    // NULL sorts behind every value.
    let nulls_last = |v: Option<i64>| (v.is_none(), v);
    for (a, a_row) in &rows {
        for (b, b_row) in &rows {
            let primary = |row| layout.primary.key_of(row);
            assert_eq!(primary(a_row).cmp(&primary(b_row)), (a.0, &a.1, a.3).cmp(&(b.0, &b.1, b.3)));
            let by_int = |v: &Values| (nulls_last(v.2.map(i64::from)), v.5.is_none(), v.5.clone(), v.4);
            let (x, y) = (by_int(a), by_int(b));
            let expected = y.0.cmp(&x.0).then((x.1, x.2, x.3).cmp(&(y.1, y.2, y.3)));
            let expected = expected.then((a.0, &a.1, a.3).cmp(&(b.0, &b.1, b.3)));
            let index = |row| layout.indexes[0].key.key_of(row);
            assert_eq!(index(a_row).cmp(&index(b_row)), expected, "{a:?} {b:?}");
        }
    }
}

#[test]
fn typed_and_schema_keys_are_the_same_bytes() {
    let layout = all::schema().layout().expect("valid");
    let (mut numbers, mut row) = (Numbers(2), NewRow::default());
    for _ in 0..500 {
        let v = values(&mut numbers);
        row_of(&mut row, &v);
        let key = Key::build().col(all::SMALL, v.0).col(all::TEXT, &v.1).col(all::BIG, v.3);
        assert_eq!(key.finish(), layout.primary.key_of(row.bytes()));
        let key = Key::build()
            .descending(|key| key.col(all::INT, v.2))
            .col(all::RAW, v.5.as_deref())
            .bool(v.4)
            .col(all::SMALL, v.0)
            .col(all::TEXT, &v.1)
            .i64(v.3);
        assert_eq!(key.finish(), layout.indexes[0].key.key_of(row.bytes()));
        let entry = &mut vec![0; layout.indexes[0].row_len];
        layout.indexes[0].write_primary(&layout.primary.key_of(row.bytes()), entry);
        assert_eq!(layout.indexes[0].read_primary(entry), layout.primary.key_of(row.bytes()));
    }
}

#[test]
fn every_key_of_a_row_names_one_partition() {
    let layout = all::schema().layout().expect("valid");
    // A search by its own columns must know where to go; that its keys end with the primary key does not
    // help.
    assert!(!layout.indexes[0].unique && !layout.indexes[0].colocated);
    assert!(layout.indexes[1].unique && layout.indexes[1].colocated);
    let (mut numbers, mut row) = (Numbers(3), NewRow::default());
    for _ in 0..500 {
        let v = values(&mut numbers);
        row_of(&mut row, &v);
        let partitions = 1 + (numbers.below(300)) as u16;
        let partition = layout.partition_of(&layout.primary.key_of(row.bytes()), partitions);
        assert_eq!(partition.0 as i128, (v.3 as i128).rem_euclid(partitions as i128));
        let [global, local] = &layout.indexes[..] else { panic!("two indexes") };
        let of = |index: &IndexLayout, row: &NewRow| {
            index.partitioning.partition_of(&index.key.key_of(row.bytes()), partitions)
        };
        assert_eq!(of(local, &row), partition);
        let at = of(global, &row);
        row_of(&mut row, &(v.0, String::new(), v.2, 7, !v.4, None, v.6));
        assert_eq!(of(global, &row), at, "its first column alone places it");
    }
}

#[test]
fn hashed_partitions_are_even_and_fixed() {
    let schema = TableSchema::new("t").column("name", ColumnType::Text { max: 20 }).primary_key(&[0]);
    let layout = schema.layout().expect("valid");
    let mut counts = [0u32; 7];
    for i in 0..7000 {
        let key = Key::build().text(&format!("name {i}"), 20).finish();
        counts[layout.partition_of(&key, 7).index()] += 1;
    }
    assert!(counts.iter().all(|&count| (850..1150).contains(&count)), "{counts:?}");
    // The hash places data that outlives a process: it must never change.
    assert_eq!(layout.partition_of(&Key::build().text("liger", 20).finish(), 60_000).0, 44_258);
}

#[test]
fn ranges_hold_what_they_say() {
    let mut numbers = Numbers(4);
    for _ in 0..2000 {
        let (a, b, c) = (number(&mut numbers) as i16, number(&mut numbers) as i32, number(&mut numbers));
        let (x, y, z) = (number(&mut numbers) as i16, number(&mut numbers) as i32, number(&mut numbers));
        let x = if numbers.draw().is_multiple_of(2) { a } else { x };
        let y = if numbers.draw().is_multiple_of(2) { b } else { y };
        let key = Key::build().i16(x).i32(y).i64(z).finish();
        assert_eq!(key.width(), 2);
        assert_eq!(KeyRange::prefix(Key::build().i16(a), 2).contains(&key), x == a);
        assert_eq!(KeyRange::prefix(Key::build().i16(a).i32(b), 2).contains(&key), (x, y) == (a, b));
        let point = KeyRange::point(Key::build().i16(a).i32(b).i64(c).finish());
        assert_eq!(point.contains(&key), (x, y, z) == (a, b, c));
        let (from, to) = (Key::build().i16(a), Key::build().i16(a).i32(b));
        assert_eq!(KeyRange::from_to(from, to, 2).contains(&key), x == a && y < b);
        assert_eq!(KeyRange::from_through(from, to, 2).contains(&key), x == a && y <= b);
        assert!(KeyRange::all(2).contains(&key));
    }
    assert_eq!(KeyRange::prefix(Key::build().i16(i16::MAX), 1).high, None);
    assert_eq!(Key::build().i16(3).i64(i64::MAX).behind(2), Some(Key::build().i16(4).first(2)));
    assert!(KeyRange::between(Key::zero(2), Key::zero(2)).is_empty());
}

#[test]
fn changes_are_seen_merged_and_applied() {
    let (mut numbers, mut patches) = (Numbers(5), Patches::new());
    for _ in 0..300 {
        patches.clear();
        let mut models: Vec<NewRow> = (0..3).map(|_| NewRow::default()).collect();
        for model in &mut models {
            row_of(model, &values(&mut numbers));
        }
        let mut bases: Vec<Vec<u8>> = models.iter().map(|model| model.bytes().to_vec()).collect();
        let mut ranges = [PatchRange::default(); 3];
        for _ in 0..20 {
            let i = (numbers.below(3)) as usize;
            let v = values(&mut numbers);
            let (mut row, model) = (patches.row(&bases[i], &mut ranges[i]), &mut models[i]);
            match numbers.below(5) {
                0 => (row.set(all::INT, v.2), model.set(all::INT, v.2)).0,
                1 => (row.set(all::TEXT, &v.1), model.set(all::TEXT, &v.1)).0,
                2 => (row.set(all::RAW, v.5.as_deref()), model.set(all::RAW, v.5.as_deref())).0,
                3 => (row.set(all::AT, Some(v.3)), model.set(all::AT, Some(v.3))).0,
                _ => (row.set(all::FLAG, v.4), model.set(all::FLAG, v.4)).0,
            }
            let model = model.row();
            assert_eq!(row.get(all::INT), model.get(all::INT));
            assert_eq!(row.get(all::TEXT), model.get(all::TEXT));
            assert_eq!(row.get(all::RAW), model.get(all::RAW));
            assert_eq!(row.get(all::AT), model.get(all::AT));
            assert_eq!((row.get(all::FLAG), row.get(all::BIG)), (model.get(all::FLAG), model.get(all::BIG)));
        }
        let layout = all::schema().layout().expect("valid");
        for (i, base) in bases.iter_mut().enumerate() {
            assert!(ranges[i].len() <= 6, "one entry per column and one for the presence bits");
            let key = |row: &[u8]| layout.indexes[0].key.key_of(row);
            let before = key(base);
            let changed = layout.indexes[0].key.is_changed(base, &patches, ranges[i]);
            patches.apply(ranges[i], base);
            assert!(changed || key(base) == before, "a change of the key was overlooked");
            let (row, model) = (Row::new(base), models[i].row());
            assert_eq!(
                (row.get(all::INT), row.get(all::TEXT), row.get(all::RAW), row.get(all::AT)),
                (model.get(all::INT), model.get(all::TEXT), model.get(all::RAW), model.get(all::AT))
            );
        }
    }
}

#[test]
fn damaged_rows_read_as_something() {
    let bytes = vec![0xff; all::ROW_LEN];
    let row = Row::new(&bytes);
    assert_eq!((row.get(all::TEXT), row.get(all::RAW)), ("", Some(&[0xff; 5][..])));
    assert_eq!(row.get(all::INT), Some(-1));
    let layout = all::schema().layout().expect("valid");
    layout.indexes[0].key.key_of(&bytes);
}

#[test]
fn a_macro_table_is_its_schema() {
    let schema = all::schema();
    assert_eq!((schema.name.as_str(), all::NAME), ("all", "all"));
    assert_eq!(schema.column_number("raw"), Some(all::RAW.index()));
    assert!(schema.replicated && schema.columns[2].nullable && !schema.columns[3].nullable);
    assert_eq!(schema.primary_key, [0, 1, 3]);
    let layout = schema.layout().expect("valid");
    assert_eq!(layout.row_len, all::ROW_LEN);
    assert_eq!(layout.row_len, 1 + 2 + 15 + 4 + 8 + 1 + 7 + 8 + 8);
    assert_eq!(layout.columns[all::AT.index()].offset, all::AT.offset());
    assert_eq!(layout.columns[all::AT.index()].presence, Some(all::AT.presence()));
    assert_eq!(row_len(&[]), 0);
}

#[test]
fn wrong_schemas_are_refused() {
    let int = ColumnType::Int;
    let good = || TableSchema::new("t").column("a", int).nullable_column("b", int).primary_key(&[0]);
    assert_eq!(good().validate(), Ok(()));
    let wrong = |schema: TableSchema| schema.validate().expect_err("a wrong schema");
    assert!(matches!(wrong(good().column("a", int)), SchemaError::DuplicateName { what: "columns", .. }));
    assert!(matches!(wrong(good().column("", int)), SchemaError::NoName { what: "column", .. }));
    assert!(matches!(wrong(good().primary_key(&[])), SchemaError::EmptyKey { .. }));
    assert!(matches!(wrong(good().primary_key(&[2])), SchemaError::NoSuchColumn { column: 2, .. }));
    assert!(matches!(wrong(good().primary_key(&[0, 0])), SchemaError::RepeatedColumn { .. }));
    assert!(matches!(wrong(good().primary_key(&[1])), SchemaError::NullableKey { .. }));
    assert!(matches!(wrong(good().partition_by(&[1])), SchemaError::PartitionNotInKey { .. }));
    assert!(matches!(wrong(good().index("i", true, &[(1, false)])), SchemaError::NullableKey { .. }));
    assert_eq!(good().index("i", false, &[(1, true)]).validate(), Ok(()));
    let wide = good().column("c", ColumnType::Text { max: 57 }).index("i", true, &[(2, false), (0, false)]);
    assert_eq!(wide.validate(), Ok(()), "61 bytes");
    let wide = wide.index("j", false, &[(2, false), (1, false)]);
    assert_eq!(wrong(wide).to_string(), "table \"t\": \"j\" is 66 bytes wide, at most 64 are possible");
    let long = good().column("c", ColumnType::Bytes { max: u16::MAX });
    assert!(matches!(wrong(long), SchemaError::RowTooLong { bytes: 65546, .. }));
}
