//! What a statement keeps while it runs: results that are asked for again.
//!
//! 1. What is kept under a number is always the same while the statement runs: it looks at no row around it,
//!    or is found by the values that it looks at. The rounds of a recursive query begin anew.
//! 2. Values that results are found by are told apart by what they are, and not by what is equal: 1.0 and
//!    1.00, 0 and -0 may give other results.
//! 3. Results by values take no more room than a hash table may: when they would, all of them go. A query
//!    that is hardly ever asked the same again keeps none, and a result that is in a file is not kept.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::hash_join::Inner;
use super::hashed::Members;
use super::lookup::Lookup;
use super::spill::TupleStore;
use crate::types::numeric::Numeric;
use crate::types::value::Value;

/// Rows that several hold.
pub(super) type Rows = Rc<TupleStore>;

/// All that is kept under a number.
#[derive(Clone, Default)]
pub(super) struct Kept {
    /// Rows of a query.
    pub(super) rows: Option<Rows>,
    /// The same, to be searched; inside, `None` where hashes do not decide.
    pub(super) members: Option<Option<Rc<Members>>>,
    /// The same as an array.
    pub(super) array: Option<Value>,
    /// Rows by the hashes of keys.
    pub(super) stored: Stages,
    /// Inner rows of a join.
    pub(super) inner: Option<Rc<Inner>>,
    /// Results by values.
    pub(super) memo: Memory,
}

/// How far rows that are found by keys have come.
#[derive(Clone, Default)]
pub(super) enum Stages {
    /// Nobody has asked.
    #[default]
    New,
    /// Somebody has: the next one finds it worth to keep them.
    Asked,
    /// They cannot be kept.
    Unfit,
    /// They are.
    Is(Rc<Lookup>),
}

/// About what a result takes besides its rows.
const RESULT: usize = 96;
/// After so many questions it is seen whether they are worth being kept.
const MEMO_TRIAL: u32 = 512;

/// Results by values.
#[derive(Clone, Default)]
pub(super) struct Memory {
    results: Rc<BTreeMap<Box<[u8]>, Rows>>,
    bytes: usize,
    asked: u32,
    found: u32,
}

impl Memory {
    /// Whether it is worth asking: one of sixteen was found.
    pub(super) fn is_worth(&self) -> bool {
        self.asked < MEMO_TRIAL || self.found > self.asked / 16
    }

    pub(super) fn find(&mut self, key: &[u8]) -> Option<Rows> {
        self.asked = self.asked.saturating_add(1);
        let found = self.results.get(key).cloned();
        self.found += u32::from(found.is_some());
        found
    }

    /// Keeps a result, if it has room in so many bytes.
    pub(super) fn keep(&mut self, key: Box<[u8]>, rows: &Rows, most: usize) {
        let results = Rc::make_mut(&mut self.results);
        let bytes = RESULT + key.len() + rows.bytes();
        if self.bytes + bytes > most || !(self.asked < MEMO_TRIAL || self.found > self.asked / 16) {
            results.clear();
            self.bytes = 0;
        }
        if bytes <= most && !rows.is_in_file() {
            self.bytes += bytes;
            results.insert(key, rows.clone());
        }
    }
}

/// Adds what a value is to a key; false for values that are not told apart.
pub(super) fn tell(value: &Value, key: &mut Vec<u8>) -> bool {
    let mut put = |tag: u8, bytes: &[u8]| {
        key.push(tag);
        key.extend((bytes.len() as u32).to_le_bytes());
        key.extend(bytes);
    };
    match value {
        Value::Null => put(0, &[]),
        Value::Bool(it) => put(1, &[u8::from(*it)]),
        Value::Int2(it) => put(2, &it.to_le_bytes()),
        Value::Int4(it) => put(3, &it.to_le_bytes()),
        Value::Int8(it) => put(4, &it.to_le_bytes()),
        Value::Oid(it) => put(5, &it.to_le_bytes()),
        Value::Float4(it) => put(6, &it.to_bits().to_le_bytes()),
        Value::Float8(it) => put(7, &it.to_bits().to_le_bytes()),
        Value::Numeric(Numeric::Small(unscaled, scale)) => {
            put(8, &[&unscaled.to_le_bytes()[..], &scale.to_le_bytes()].concat());
        }
        Value::Text(it) => put(9, it.as_bytes()),
        Value::Bytea(it) => put(10, it),
        Value::Date(it) => put(11, &it.to_le_bytes()),
        Value::Time(it) => put(12, &it.to_le_bytes()),
        Value::Timestamp(it) => put(13, &it.to_le_bytes()),
        Value::Timestamptz(it) => put(14, &it.to_le_bytes()),
        Value::Uuid(it) => put(15, &it[..]),
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(values: &[Value]) -> Vec<u8> {
        let mut key = Vec::new();
        assert!(values.iter().all(|value| tell(value, &mut key)));
        key
    }

    #[test]
    fn values_are_told_apart_by_what_they_are() {
        let numeric = |unscaled, scale| Value::Numeric(Numeric::Small(unscaled, scale));
        assert_ne!(key(&[numeric(10, 1)]), key(&[numeric(100, 2)]));
        assert_ne!(key(&[Value::Float8(0.0)]), key(&[Value::Float8(-0.0)]));
        assert_ne!(key(&[Value::text("a"), Value::text("bc")]), key(&[Value::text("ab"), Value::text("c")]));
        assert_eq!(key(&[Value::Null, Value::Int4(1)]), key(&[Value::Null, Value::Int4(1)]));
    }

    fn rows(count: usize) -> Rows {
        let mut rows = TupleStore::none();
        (0..count).for_each(|_| rows.push(vec![Value::Int4(1)]).expect("nothing is written"));
        Rc::new(rows)
    }

    #[test]
    fn memory_is_bounded_and_given_up_where_nothing_is_asked_twice() {
        const MOST: usize = 1 << 16;
        let (mut memory, one) = (Memory::default(), rows(1));
        for at in 0..MEMO_TRIAL {
            assert!(memory.is_worth());
            let key: Box<[u8]> = at.to_le_bytes().into();
            assert!(memory.find(&key).is_none());
            memory.keep(key, &one, MOST);
        }
        assert!(!memory.is_worth());
        let (mut memory, many) = (Memory::default(), rows(1000));
        assert!((MOST / 4..MOST / 2).contains(&many.bytes()), "{} bytes", many.bytes());
        for at in 0..10u32 {
            memory.keep(Box::new(at.to_le_bytes()), &many, MOST);
            assert!(memory.bytes <= MOST && (1..4).contains(&memory.results.len()));
        }
        memory.keep(Box::new([]), &rows(3000), MOST);
        assert!(memory.find(&[]).is_none());
    }
}
