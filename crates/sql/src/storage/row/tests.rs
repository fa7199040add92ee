//! Bodies give back what was put, and change little when little changes.

use super::*;
use crate::types::json::Json;
use crate::types::numeric::Numeric;

fn layout() -> RowLayout {
    let label = |order: f32, label: &str| Arc::new(EnumLabel { oid: 9, order, label: label.into() });
    let stored = vec![
        Stored::Int4,
        Stored::Text,
        Stored::Bool,
        Stored::Tagged,
        Stored::Enum([label(1.0, "low"), label(1.5, "middle"), label(2.0, "high")].into()),
        Stored::Bytea,
        Stored::Timestamptz,
    ];
    RowLayout::new(stored.into_iter().map(|stored| (stored, Value::Null)).collect())
}

fn row(text: &str, number: i64) -> Vec<Value> {
    let label = Arc::new(EnumLabel { oid: 9, order: 1.5, label: "middle".into() });
    let json = Json::Object(vec![("k".to_owned(), Json::Array(vec![Json::Null, Json::Bool(true)]))]);
    let tagged = match number % 3 {
        0 => Value::Numeric(Numeric::Small(number, 2)),
        1 => Value::Jsonb(Arc::new(json)),
        _ => Value::array(oid::TEXT, vec![Value::text("x"), Value::Null]),
    };
    let bytes = Value::bytea(vec![0, 255, 1]);
    let moment = Value::Timestamptz(number * 1_000_000);
    vec![
        Value::Int4(number as i32),
        Value::text(text),
        Value::Bool(true),
        tagged,
        Value::Enum(label),
        bytes,
        moment,
    ]
}

fn decoded(layout: &RowLayout, body: &[u8]) -> Vec<String> {
    let show = |column| match layout.decode(body, column).expect("a sound body") {
        Found::Value(value) => format!("{value:?}"),
        Found::Outside(at) => format!("{at:?}"),
    };
    (0..layout.columns()).map(show).collect()
}

fn shown(values: &[Value]) -> Vec<String> {
    values.iter().map(|value| format!("{value:?}")).collect()
}

#[test]
fn values_come_back() {
    let layout = layout();
    for number in [-1_000_000_000_007, -129, -128, -1, 0, 1, 127, 128, 255, 256, i64::from(i32::MAX)] {
        for null in 0..8 {
            let mut values = row("some text", number);
            if null < values.len() {
                values[null] = Value::Null;
            }
            let body = layout.encode(&values, 256, |_| None).expect("it fits").body;
            assert_eq!(decoded(&layout, &body), shown(&values));
            let mut slot = body.clone();
            slot.resize(256, 0xee);
            assert_eq!(decoded(&layout, &slot), shown(&values), "the rest of the slot means nothing");
        }
    }
}

#[test]
fn earlier_rows_have_the_values_that_columns_came_with() {
    let before = RowLayout::new(vec![(Stored::Text, Value::Null), (Stored::Int2, Value::Null)]);
    let body = before.encode(&[Value::text("t"), Value::Int2(5)], 64, |_| None).expect("it fits").body;
    let columns = vec![
        (Stored::Text, Value::Null),
        (Stored::Int2, Value::Null),
        (Stored::Int8, Value::Int8(7)),
        (Stored::Text, Value::Null),
    ];
    let now = RowLayout::new(columns);
    assert_eq!(decoded(&now, &body), shown(&[Value::text("t"), Value::Int2(5), Value::Int8(7), Value::Null]));
}

#[test]
fn a_change_of_a_column_changes_its_bytes_only() {
    let layout = layout();
    let old = layout.encode(&row("some text", 3), 128, |_| None).expect("it fits").body;
    let mut values = row("some text", 3);
    values[0] = Value::Int4(4);
    let new = layout.encode(&values, 128, |_| None).expect("it fits").body;
    let changed: usize = differences(&old, &new).iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(changed, 1);
    values[1] = Value::text("some test");
    let new = layout.encode(&values, 128, |_| None).expect("it fits").body;
    assert_eq!(differences(&old, &new).len(), 2);
    let mut patched = old.clone();
    for (at, bytes) in differences(&old, &new) {
        patched[at..at + bytes.len()].copy_from_slice(bytes);
    }
    assert_eq!(patched, new);
}

#[test]
fn the_longest_values_move_out_first() {
    let layout = layout();
    let mut values = row(&"t".repeat(300), 3);
    values[5] = Value::bytea(vec![5; 40]);
    let encoded = layout.encode(&values, 128, |_| None).expect("the rest fits");
    let lengths = |moved: &[(usize, Cow<'_, [u8]>)]| -> Vec<(usize, usize)> {
        moved.iter().map(|(column, bytes)| (*column, bytes.len())).collect()
    };
    assert_eq!(lengths(&encoded.outside.tail), [(1, 300)]);
    assert!(encoded.outside.alone.is_empty(), "it is short");
    let mut body = encoded.body;
    let reference = Reference { number: 77, len: 300, tail: Some(0) };
    layout.refer(&mut body, 1, reference);
    assert_eq!(layout.outside(&body).expect("a sound body"), [(1, reference)]);
    let again = layout.encode(&values, 128, |column| (column == 1).then_some(reference)).expect("it fits");
    assert_eq!(lengths(&again.outside.tail), [(1, 300)], "a tail is written anew");
    values[1] = Value::text("t".repeat(3000));
    let encoded = layout.encode(&values, 128, |_| None).expect("the rest fits");
    assert_eq!((lengths(&encoded.outside.alone), encoded.outside.tail.len()), (vec![(1, 3000)], 0));
    let mut body = encoded.body;
    let reference = Reference { number: 77, len: 3000, tail: None };
    layout.refer(&mut body, 1, reference);
    let kept = layout.encode(&values, 128, |column| (column == 1).then_some(reference)).expect("it fits");
    let moved = kept.outside;
    assert!(moved.alone.is_empty() && moved.tail.is_empty() && kept.body == body, "it stays where it is");
    let refused = layout.encode(&values, 50, |_| None).expect_err("not even all outside");
    assert_eq!(refused.state, SqlState::PROGRAM_LIMIT_EXCEEDED);
}

#[test]
fn damaged_bodies_are_errors() {
    let layout = layout();
    let body = layout.encode(&row("some text", 4), 128, |_| None).expect("it fits").body;
    for at in 0..body.len() {
        for bit in 0..8 {
            let mut damaged = body.clone();
            damaged[at] ^= 1 << bit;
            (0..layout.columns()).for_each(|column| drop(layout.decode(&damaged, column)));
        }
        (0..layout.columns()).for_each(|column| drop(layout.decode(&body[..at], column)));
    }
}

#[test]
fn columns_with_places_are_set_where_they_are() {
    let layout = layout();
    let (old, mut new) = (row("some text", 7), row("some text", 7));
    let body = layout.encode(&old, 256, |_| None).expect("it fits").body;
    (new[0], new[2], new[6]) = (Value::Int4(8), Value::Null, Value::Timestamptz(5));
    let patch = layout.patch(&new, &[0, 2, 6]).expect("they are of their types").expect("they have places");
    let wanted = layout.encode(&new, 256, |_| None).expect("it fits").body;
    assert_eq!(patch.applied_to(&body), wanted);
    assert_eq!(patch.missing_in(&body).count(), 4, "three values and the bits of those that are NULL");
    assert_eq!(patch.missing_in(&wanted).count(), 0);
    let back = layout.patch(&old, &[6, 0, 2]).expect("they are of their types").expect("they have places");
    assert_eq!(back.applied_to(&wanted), body);
    assert!(layout.patch(&new, &[0, 1]).expect("they are of their types").is_none(), "a text moves others");
}
