//! Rows that are looked up by the hashes of their keys, in any order of questions: what IN asks, and what
//! queries that look at rows around them do.
//!
//! Invariants:
//! 1. As long as there is room they are in memory. Otherwise they are on a tape, in the order of their
//!    hashes, and of every few kilobytes the first hash is known: a question reads as much, however large
//!    the table is.
//! 2. Rows of one hash come in the order in which they were added.

use std::cell::RefCell;

use super::Row;
use super::aggregate::plain_key;
use super::hashed::{Stored, in_slots, put};
use super::spill::{Place, Sorter, Space, Tape};
use crate::error::Result;
use crate::session::Interrupt;
use crate::types::oid;
use crate::types::value::Value;

/// Bytes between two places whose hashes are known.
const STEP: u64 = 4096;

/// A table that is filled.
pub(super) struct Looking<'p> {
    slots: Vec<(usize, usize)>,
    space: Space,
    interrupt: &'p Interrupt,
    stored: Stored,
    /// Rows behind their hashes.
    sorter: Option<Sorter<'p>>,
}

/// A table that is asked.
pub(super) enum Lookup {
    Memory(Stored),
    Tape(OnTape),
}

/// Rows in the order of their hashes.
pub(super) struct OnTape {
    slots: Vec<(usize, usize)>,
    tape: Tape,
    /// First rows of their hashes, and where they are.
    fences: Vec<(i64, u64)>,
    /// Where the last question has read.
    place: RefCell<Place>,
}

impl<'p> Looking<'p> {
    pub(super) fn new(slots: &[(usize, usize)], space: Space, interrupt: &'p Interrupt) -> Looking<'p> {
        let stored = Stored::new(slots);
        Looking { slots: slots.to_vec(), space, interrupt, stored, sorter: None }
    }

    /// Adds the row that is at its slots of the level's.
    pub(super) fn add(&mut self, row: &[Value], hash: u64) -> Result<()> {
        if let Some(sorter) = &mut self.sorter {
            return sorter.push(behind(hash, in_slots(row, &self.slots)));
        }
        self.stored.add(in_slots(row, &self.slots), hash);
        if self.space.is_full(self.stored.bytes()) {
            let mut sorter = Sorter::new(vec![plain_key(0, oid::INT8)], self.space.clone(), self.interrupt);
            let stored = std::mem::replace(&mut self.stored, Stored::new(&self.slots));
            for number in 0..stored.len() {
                self.space.check()?;
                let (hash, values) = stored.row(number);
                sorter.push(behind(hash, values.iter()))?;
            }
            self.sorter = Some(sorter);
        }
        Ok(())
    }

    pub(super) fn done(self) -> Result<Lookup> {
        let Some(sorter) = self.sorter else { return Ok(Lookup::Memory(self.stored)) };
        let mut tape = Tape::new(&self.space.file()?);
        let (mut sorted, mut fences) = (sorter.sorted()?, Vec::<(i64, u64)>::new());
        let mut last = None;
        while let Some(row) = sorted.next()? {
            let hash = row[0].as_i64().expect("a row stands behind its hash");
            let is_far = fences.last().is_none_or(|(_, at)| tape.end() - at >= STEP);
            if is_far && last != Some(hash) {
                fences.push((hash, tape.end()));
            }
            last = Some(hash);
            tape.push(hash as u64, &row[1..])?;
        }
        Ok(Lookup::Tape(OnTape { slots: self.slots, tape, fences, place: RefCell::default() }))
    }
}

fn behind<'v>(hash: u64, values: impl Iterator<Item = &'v Value>) -> Row {
    std::iter::once(Value::Int8(hash as i64)).chain(values.cloned()).collect()
}

impl Lookup {
    /// Puts each row of this hash at its slots; false if no more are wanted.
    pub(super) fn each(
        &self,
        hash: u64,
        row: &mut Row,
        take: &mut dyn FnMut(&mut Row) -> Result<bool>,
    ) -> Result<bool> {
        match self {
            Lookup::Memory(stored) => {
                for number in stored.of(hash) {
                    stored.put(number, row);
                    if !take(row)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Lookup::Tape(rows) => rows.each(hash as i64, row, take),
        }
    }
}

impl OnTape {
    fn each(&self, hash: i64, row: &mut Row, take: &mut dyn FnMut(&mut Row) -> Result<bool>) -> Result<bool> {
        let behind = self.fences.partition_point(|(first, _)| *first <= hash);
        let Some((_, at)) = behind.checked_sub(1).map(|fence| self.fences[fence]) else { return Ok(true) };
        // Whoever takes a row may ask again: he reads at a place of his own.
        let mut place = self.place.take();
        place.seek(at);
        let (mut more, mut found) = (true, Row::new());
        loop {
            let at = place.at();
            match place.skip(&self.tape)?.map(|tag| tag as i64) {
                Some(other) if other < hash => continue,
                Some(other) if other == hash => place.seek(at),
                _ => break,
            }
            found.clear();
            place.read(&self.tape, &mut found)?;
            put(&self.slots, &found, row);
            more = take(row)?;
            if !more {
                break;
            }
        }
        self.place.replace(place);
        Ok(more)
    }
}
