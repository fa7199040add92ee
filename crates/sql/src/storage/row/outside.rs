//! What does not fit its row: which values lie outside, and what is left of them in the row.
//!
//! ```text
//! reference   number u64 | u32: bit 31 clear: bytes
//!                               bit 31 set: part of the row's tail: bits 11-30 where, bits 0-10 bytes
//! ```
//!
//! Invariants:
//! 1. A long value lies by itself, under a number of its own. The short ones of a row lie together, one
//!    behind the other, in its *tail*: each by itself would take a whole piece (overflow.rs).
//! 2. A row has one tail at most, and its last value ends where the tail does: the tail is written anew
//!    whenever the row is encoded anew.

use std::borrow::Cow;

use crate::error::{Result, SqlError, SqlState};

/// Bytes of a reference to a value that lies outside.
pub const REFERENCE_BYTES: usize = 12;

/// The longest value that a tail has.
const TAIL_VALUE_MAX: usize = 1024;
/// The longest tail.
const TAIL_MAX: usize = 1 << 20;

const IN_TAIL: u32 = 1 << 31;
const LEN_BITS: u32 = 11;
// Length and place of a value have room in front of the bit.
const _: () = assert!(TAIL_VALUE_MAX < 1 << LEN_BITS && TAIL_MAX << LEN_BITS <= IN_TAIL as usize);

/// Where a value lies that is not in its row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Reference {
    /// Its number, or that of the row's tail.
    pub number: u64,
    /// Its bytes.
    pub len: u32,
    /// Where it begins in the tail; `None`: it lies by itself.
    pub tail: Option<u32>,
}

/// Values of a row that lie outside, by column.
pub type Outside = Vec<(usize, Reference)>;

impl Reference {
    pub(super) fn to_bytes(self) -> [u8; REFERENCE_BYTES] {
        let mut bytes = [0; REFERENCE_BYTES];
        let place = self.tail.map_or(self.len, |at| IN_TAIL | at << LEN_BITS | self.len);
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..].copy_from_slice(&place.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; REFERENCE_BYTES]) -> Reference {
        let number = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
        let place = u32::from_le_bytes(bytes[8..].try_into().expect("4 bytes"));
        match place & IN_TAIL {
            0 => Reference { number, len: place, tail: None },
            _ => {
                let (at, len) = ((place & !IN_TAIL) >> LEN_BITS, place & ((1 << LEN_BITS) - 1));
                Reference { number, len, tail: Some(at) }
            }
        }
    }
}

/// What was put for a row outside of it: values by themselves, and its tail as one.
pub fn wholes(outside: &Outside) -> Vec<Reference> {
    let mut wholes: Vec<Reference> = Vec::with_capacity(outside.len());
    let mut tail: Option<Reference> = None;
    for (_, reference) in outside {
        match reference.tail {
            None => wholes.push(*reference),
            Some(at) => {
                let whole = tail.get_or_insert(Reference { len: 0, tail: None, ..*reference });
                whole.len = whole.len.max(at + reference.len);
            }
        }
    }
    wholes.extend(tail);
    wholes
}

/// Values that did not fit a body, with their columns.
#[derive(Clone, Debug, Default)]
pub struct MovedOut<'v> {
    /// Those that lie by themselves.
    pub alone: Vec<(usize, Cow<'v, [u8]>)>,
    /// Those of the tail.
    pub tail: Vec<(usize, Cow<'v, [u8]>)>,
}

/// A value of a variable length on its way into a body.
pub(super) struct Variable<'v> {
    pub(super) column: usize,
    /// Its bytes; of one that lies outside, where it lies.
    pub(super) bytes: Cow<'v, [u8]>,
    pub(super) is_outside: bool,
}

/// Puts the longest values outside until the rest fits the slot. What is left of one is its reference.
pub(super) fn move_out<'v>(
    variable: &mut [Variable<'v>],
    head: usize,
    slot: usize,
    keep: impl Fn(usize) -> Option<Reference>,
) -> Result<MovedOut<'v>> {
    let mut moved = MovedOut::default();
    let mut size = head + variable.iter().map(|value| 2 + value.bytes.len()).sum::<usize>();
    if size <= slot {
        return Ok(moved);
    }
    let mut longest: Vec<usize> = (0..variable.len()).collect();
    longest.sort_by_key(|n| variable[*n].bytes.len());
    let mut tail = 0;
    while size > slot {
        let next = longest.pop().filter(|n| variable[*n].bytes.len() > REFERENCE_BYTES);
        let Some(value) = next.map(|n| &mut variable[n]) else {
            let message = format!("row is too big: size {size}, maximum size {slot}");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        };
        let len = value.bytes.len();
        size -= len - REFERENCE_BYTES;
        let kept = keep(value.column).filter(|kept| kept.tail.is_none() && kept.len as usize == len);
        let reference = kept.map_or([0; REFERENCE_BYTES], Reference::to_bytes);
        value.is_outside = true;
        let bytes = std::mem::replace(&mut value.bytes, Cow::Owned(reference.to_vec()));
        match kept {
            Some(_) => {}
            None if len <= TAIL_VALUE_MAX && tail + len < TAIL_MAX => {
                tail += len;
                moved.tail.push((value.column, bytes));
            }
            None => moved.alone.push((value.column, bytes)),
        }
    }
    Ok(moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_says_what_it_was_told() {
        let tail = [None, Some(0), Some(77), Some(TAIL_MAX as u32 - 1)];
        for (tail, len) in tail.into_iter().flat_map(|tail| [0, 1, 1024].map(|len| (tail, len))) {
            let reference = Reference { number: u64::MAX - 5, len, tail };
            assert_eq!(Reference::from_bytes(reference.to_bytes()), reference);
        }
        let long = Reference { number: 1, len: (1 << 30) - 1, tail: None };
        assert_eq!(Reference::from_bytes(long.to_bytes()), long);
    }

    #[test]
    fn a_tail_is_one_whole() {
        let of = |number, len, tail| Reference { number, len, tail };
        let outside = vec![(0, of(5, 10, Some(3))), (1, of(4, 9000, None)), (2, of(5, 3, Some(0)))];
        assert_eq!(wholes(&outside), [of(4, 9000, None), of(5, 13, None)]);
    }
}
