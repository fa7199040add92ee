//! What statements keep of rows, in memory as far as `work_mem` goes and in temporary files beyond.
//!
//! * `flat`: rows one after the other in memory; `tape`: rows one after the other in blocks of a file;
//!   `tuples`: rows that are appended and read again, in order or by number; `sorter`: rows in an order, made
//!   of `chunk`s; `parts`: rows told apart by the hashes of their keys.
//!
//! Invariants:
//! 1. Each of them holds about the bytes that its [`Space`] gives, and a block for each tape that is written
//!    or read. What it holds is counted row by row ([`footprint`]), never asked of an allocator.
//! 2. Rows come back from a file as they went into it, to the bit.
//! 3. Without a place for files nothing is bounded: so constants are evaluated.

mod chunk;
mod flat;
mod parts;
mod sorter;
mod tape;
mod tuples;

use std::sync::Arc;

pub(crate) use flat::FlatRows;
pub(super) use parts::{LEVELS_MOST, Parts};
pub(super) use sorter::{SortMethod, Sorter};
pub(super) use tape::{Place, Tape, TapeFile};
pub(crate) use tuples::{Reading, TupleStore};

use crate::error::Result;
use crate::temporary::{KILOBYTE, TemporaryFiles};
use crate::types::context::EvalContext;
use crate::types::json::Json;
use crate::types::numeric::Numeric;
use crate::types::value::Value;

/// How much memory something has, and where more goes.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    pub(crate) bytes: usize,
    pub(crate) files: Option<Arc<TemporaryFiles>>,
}

impl Space {
    /// `work_mem` of a session.
    pub(super) fn of(ctx: &EvalContext<'_>) -> Space {
        Space { bytes: ctx.settings.work_mem, files: ctx.system.temporary_files() }
    }

    /// Whether so many bytes are too many to be held.
    pub(super) fn is_full(&self, bytes: usize) -> bool {
        bytes > self.bytes && self.files.is_some()
    }

    /// Hears whether the statement shall end.
    pub(super) fn check(&self) -> Result<()> {
        self.files.as_ref().map_or(Ok(()), |files| files.check())
    }

    /// A new file, with blocks that fit the space.
    pub(super) fn file(&self) -> Result<Arc<TapeFile>> {
        let files = self.files.as_ref().expect("a space that is full has a place for files");
        let block = if self.bytes >= 1024 * KILOBYTE { 32 * KILOBYTE } else { 8 * KILOBYTE };
        Ok(Arc::new(TapeFile::new(files.create()?, block)))
    }

    /// How many tapes may be open at once: each takes a block.
    pub(super) fn tapes(&self, least: usize, most: usize) -> usize {
        let block = if self.bytes >= 1024 * KILOBYTE { 32 * KILOBYTE } else { 8 * KILOBYTE };
        (self.bytes / (2 * block)).clamp(least, most)
    }
}

/// Kilobytes, rounded up, as EXPLAIN shows them.
pub(super) fn kilobytes(bytes: u64) -> u64 {
    bytes.div_ceil(KILOBYTE as u64)
}

/// What an allocation takes besides its bytes.
const ALLOCATION: usize = 16;

/// Bytes that a value takes outside of its row.
fn outside(value: &Value) -> usize {
    ALLOCATION
        + match value {
            Value::Text(text) | Value::Json(text) => 16 + text.len(),
            Value::Bytea(bytes) => 16 + bytes.len(),
            Value::Numeric(Numeric::Big(big)) => 64 + big.0.bits() as usize / 8,
            Value::Uuid(_) => 32,
            Value::Array(array) => {
                80 + array.elements.iter().map(|it| size_of_val(it) + outside(it)).sum::<usize>()
            }
            Value::Record(record) => {
                80 + record.values.iter().map(|it| size_of_val(it) + outside(it)).sum::<usize>()
            }
            Value::Jsonb(json) => 16 + document(json),
            Value::Jsonpath(path) => 64 + path.exact().len(),
            _ => return 0,
        }
}

fn document(json: &Json) -> usize {
    let own = size_of::<Json>();
    own + match json {
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
        Json::String(text) => ALLOCATION + text.len(),
        Json::Array(elements) => ALLOCATION + elements.iter().map(document).sum::<usize>(),
        Json::Object(members) => {
            let member = |(key, value): &(String, Json)| 24 + ALLOCATION + key.len() + document(value);
            ALLOCATION + members.iter().map(member).sum::<usize>()
        }
    }
}

/// Bytes that values take in memory.
pub(super) fn footprint(values: &[Value]) -> usize {
    size_of_val(values) + values.iter().map(outside).sum::<usize>()
}

/// Bytes that a row takes in memory.
pub(in crate::exec) fn row_footprint(row: &[Value]) -> usize {
    size_of::<Vec<Value>>() + ALLOCATION + footprint(row)
}

#[cfg(test)]
pub(super) mod tests;
