//! The numbers that `.keyvalue()` gives objects: where they would begin in the bytes of PostgreSQL's jsonb.
//!
//! A container is a header of 4 bytes, 4 bytes for each element (of an object for each key and each value),
//! and then what these are: the bytes of texts, numbers and containers at multiples of 4, nothing for the
//! rest. The keys of an object stand in front of its values.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::stop;
use crate::types::binary::send_numeric;
use crate::types::json::Json;
use crate::types::numeric::Numeric;

/// Where the containers of a document begin, by the address at which they are in memory meanwhile.
pub(super) struct Offsets {
    at: usize,
    starts: BTreeMap<usize, usize>,
}

fn address(document: &Json) -> usize {
    std::ptr::from_ref(document).addr()
}

/// Bytes of a number: 2 for each digit in base 10,000, and 6 or 8 in front of them.
fn bytes_of(number: &Numeric) -> usize {
    let mut sent = Vec::new();
    send_numeric(number, &mut sent);
    let weight = i16::from_be_bytes([sent[2], sent[3]]);
    let is_short = number.scale() < 64 && (-64..64).contains(&weight);
    sent.len() - if is_short { 2 } else { 0 }
}

impl Offsets {
    pub(super) fn of(document: &Json) -> Result<Offsets> {
        let mut places = Offsets { at: 0, starts: BTreeMap::new() };
        places.value(document)?;
        Ok(places)
    }

    /// Where a container that is in the document begins; 0 for others.
    pub(super) fn start(&self, container: &Json) -> usize {
        self.starts.get(&address(container)).copied().unwrap_or(0)
    }

    fn align(&mut self) {
        self.at = self.at.next_multiple_of(4);
    }

    fn value(&mut self, value: &Json) -> Result<()> {
        stop::check_at(self.starts.len())?;
        match value {
            Json::Null | Json::Bool(_) => {}
            Json::Number(number) => {
                self.align();
                self.at += bytes_of(number);
            }
            Json::String(text) => self.at += text.len(),
            Json::Array(elements) => {
                self.container(value, elements.len());
                elements.iter().try_for_each(|element| self.value(element))?;
            }
            Json::Object(members) => {
                self.container(value, 2 * members.len());
                self.at += members.iter().map(|(key, _)| key.len()).sum::<usize>();
                members.iter().try_for_each(|(_, value)| self.value(value))?;
            }
        }
        Ok(())
    }

    fn container(&mut self, container: &Json, entries: usize) {
        self.align();
        self.starts.insert(address(container), self.at);
        self.at += 4 + 4 * entries;
    }
}
