//! Keys sort as their values, and are equal exactly if these are.

use std::cmp::Ordering;
use std::sync::Arc;

use super::*;

/// Numbers that follow from a seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash64(&self.0.to_le_bytes())
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Small numbers, numbers at the ends, and any.
    fn int(&mut self) -> i64 {
        match self.below(4) {
            0 => self.below(7) as i64 - 3,
            1 => [i64::MIN, i64::MAX, i64::MIN + 1, 0][self.below(4) as usize],
            _ => self.next() as i64 >> self.below(64),
        }
    }

    fn float(&mut self) -> f64 {
        let special = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.5, -1.5];
        match self.below(2) {
            0 => special[self.below(special.len() as u64) as usize],
            _ => self.int() as f64 / 1000.0,
        }
    }

    fn text(&mut self) -> String {
        let letters = ["", "a", "b", "ab", "a ", "\u{1}", "\u{7f}", "\u{e9}", "zz", "~"];
        (0..self.below(4)).map(|_| letters[self.below(letters.len() as u64) as usize]).collect()
    }
}

fn key_of(how: KeyColumn, values: &[Value]) -> Vec<u8> {
    let mut key = Vec::new();
    values.iter().for_each(|value| how.encode(value, &mut key).expect("it has an order"));
    key
}

/// Checks that pairs of values sort as `compare` says, in all directions, followed by another column or not.
fn check(mut value: impl FnMut(&mut Numbers) -> Value, compare: impl Fn(&Value, &Value) -> Ordering) {
    let mut numbers = Numbers(7);
    for round in 0..4000 {
        let (a, b) = (value(&mut numbers), value(&mut numbers));
        let expected = compare(&a, &b);
        for descending in [false, true] {
            let how = KeyColumn { descending, ..KeyColumn::PRIMARY };
            let found = key_of(how, std::slice::from_ref(&a)).cmp(&key_of(how, std::slice::from_ref(&b)));
            let wanted = if descending { expected.reverse() } else { expected };
            assert_eq!(found, wanted, "round {round}: {a:?} and {b:?}, descending {descending}");
            let (one, two) = (Value::Int2(1), Value::Int2(2));
            let found = key_of(how, &[a.clone(), two]).cmp(&key_of(how, &[b.clone(), one]));
            let last = if descending { Ordering::Less } else { Ordering::Greater };
            assert_eq!(found, wanted.then(last), "round {round}: {a:?} and {b:?} before others");
        }
        let nullable = KeyColumn::default();
        let null = key_of(nullable, &[Value::Null]);
        assert!(key_of(nullable, std::slice::from_ref(&a)) < null, "NULLs come last");
        let first = KeyColumn { nulls_first: true, descending: true, ..nullable };
        assert!(key_of(first, std::slice::from_ref(&a)) > key_of(first, &[Value::Null]), "or first");
    }
}

fn int_of(value: &Value) -> i64 {
    value.as_i64().expect("an integer")
}

#[test]
fn integers() {
    check(|n| Value::Int8(n.int()), |a, b| int_of(a).cmp(&int_of(b)));
    check(|n| Value::Int4(n.int() as i32), |a, b| int_of(a).cmp(&int_of(b)));
    check(|n| Value::Int2(n.int() as i16), |a, b| int_of(a).cmp(&int_of(b)));
    check(|n| Value::Oid(n.int() as u32), |a, b| int_of(a).cmp(&int_of(b)));
}

#[test]
fn floats() {
    let order = |a: f64, b: f64| match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => a.partial_cmp(&b).expect("numbers"),
    };
    let double = |value: &Value| match value {
        Value::Float8(x) => *x,
        Value::Float4(x) => f64::from(*x),
        other => panic!("{other:?}"),
    };
    check(|n| Value::Float8(n.float()), |a, b| order(double(a), double(b)));
    check(|n| Value::Float4(n.float() as f32), |a, b| order(double(a), double(b)));
}

#[test]
fn texts_and_bytes() {
    check(|n| Value::text(n.text()), |a, b| a.as_str().cmp(&b.as_str()));
    let bytes = |value: &Value| match value {
        Value::Bytea(bytes) => bytes.to_vec(),
        other => panic!("{other:?}"),
    };
    let any = |n: &mut Numbers| {
        let bytes: Vec<u8> = (0..n.below(4)).map(|_| [0, 1, 254, 255][n.below(4) as usize]).collect();
        Value::bytea(bytes)
    };
    check(any, |a, b| bytes(a).cmp(&bytes(b)));
    let padded = KeyColumn { padded: true, ..KeyColumn::PRIMARY };
    assert_eq!(key_of(padded, &[Value::text("ab  ")]), key_of(padded, &[Value::text("ab")]));
}

#[test]
fn numerics() {
    let special = |value: &Value| match value {
        Value::Numeric(Numeric::MinusInfinity) => -1,
        Value::Numeric(Numeric::Infinity) => 1,
        Value::Numeric(Numeric::NaN) => 2,
        _ => 0,
    };
    let finite = |value: &Value| match value {
        Value::Numeric(Numeric::Small(unscaled, scale)) => {
            i128::from(*unscaled) * 10i128.pow(12 - u32::from(*scale))
        }
        Value::Numeric(Numeric::Big(big)) => {
            let unscaled = i128::try_from(big.0.clone()).expect("not that big");
            unscaled * 10i128.pow(12 - u32::from(big.1))
        }
        _ => 0,
    };
    let any = |n: &mut Numbers| {
        let scale = n.below(13) as u16;
        let unscaled = n.int() >> n.below(60);
        Value::Numeric(match n.below(12) {
            0 => Numeric::NaN,
            1 => Numeric::Infinity,
            2 => Numeric::MinusInfinity,
            3 => Numeric::Big(Box::new((unscaled.into(), scale))),
            _ => Numeric::Small(unscaled, scale),
        })
    };
    check(any, |a, b| special(a).cmp(&special(b)).then(finite(a).cmp(&finite(b))));
}

#[test]
fn times_and_others() {
    let span = |value: &Value| match value {
        Value::Interval(it) => span_of(it),
        other => panic!("{other:?}"),
    };
    let interval = |n: &mut Numbers| {
        let (months, days) = (n.below(5) as i32 - 2, n.below(99) as i32 - 50);
        Value::Interval(Interval { months, days, micros: n.int() >> 20 })
    };
    check(interval, |a, b| span(a).cmp(&span(b)));
    let elements = |value: &Value| match value {
        Value::Array(array) => array.elements.iter().map(int_of).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let array = |n: &mut Numbers| {
        let elements = (0..n.below(4)).map(|_| Value::Int4(n.below(3) as i32)).collect();
        Value::array(oid::INT4, elements)
    };
    check(array, |a, b| elements(a).cmp(&elements(b)));
    assert!(KeyColumn::PRIMARY.encode(&Value::Json(Arc::from("{}")), &mut Vec::new()).is_err());
}

#[test]
fn long_keys_are_cut_and_still_tell_values_apart() {
    let mut short = vec![7; 24];
    assert!(!fit(&mut short, 24) && short == vec![7; 24]);
    let cut = |last: u8| {
        let mut key = vec![7; 40];
        key[39] = last;
        assert!(fit(&mut key, 24));
        key
    };
    assert_eq!((cut(1).len(), &cut(1)[..16]), (24, &[7; 16][..]));
    assert_ne!(cut(1), cut(2));
    assert_eq!(searchable(&[7; 40], 24), &[7; 16]);
}
