//! Joins by hash of rows that do not fit in memory.
//!
//! ```text
//! inner rows -> parts in memory, as long as they fit (the largest goes to a file first)
//! outer rows -> joined with the parts that are in memory, or to the file of their part
//! each part in files: a table in memory, or parts by other bits, or a table for one piece after another
//! ```
//!
//! Invariants:
//! 1. A pair of rows with one hash meets once: both are in one part, and in one piece of it.
//! 2. An outer row that nothing matches is given once, by the last piece of its part; an inner one by the
//!    piece that it is in.
//! 3. A part that cannot be divided (one key has most of its rows) is gone through in pieces, each of which
//!    fits in memory, and for each of which the part's outer rows are read.

use std::rc::Rc;

use super::hashed::{Stored, in_slots, put};
use super::join::clear;
use super::measure::{HashUse, Note, TABLE, address};
use super::spill::{LEVELS_MOST, Parts, Place, Space, Tape, TupleStore, kilobytes};
use super::table::{BATCH_FIRST, Next};
use super::{Env, Exec, Row};
use crate::error::Result;
use crate::plan::{HashJoin, HashKind};

/// The inner rows of a join.
pub(super) struct Inner {
    /// One table, or as many as there are parts; `None`: in a file.
    parts: Vec<Option<Stored>>,
    spilled: Option<Parts>,
    bytes: usize,
    peak: usize,
    /// Rows that equal nothing, where they are given too.
    alone: TupleStore,
}

impl Inner {
    fn part(&self, hash: u64) -> usize {
        if self.parts.len() == 1 { 0 } else { Parts::of(hash, 0, self.parts.len()) }
    }

    fn add(&mut self, row: &Row, slots: &[(usize, usize)], hash: u64, space: &Space) -> Result<()> {
        let part = self.part(hash);
        match (&mut self.parts[part], &mut self.spilled) {
            (Some(stored), _) => self.bytes += stored.add(in_slots(row, slots), hash),
            (None, Some(spilled)) => return spilled.push(hash, in_slots(row, slots)),
            (None, None) => unreachable!("a part is in memory or in a file"),
        }
        self.peak = self.peak.max(self.bytes);
        while space.is_full(self.bytes) && self.make_room(slots, space)? {}
        Ok(())
    }

    /// Moves the largest part to its file; whether there was one.
    fn make_room(&mut self, slots: &[(usize, usize)], space: &Space) -> Result<bool> {
        if self.spilled.is_none() {
            self.spilled = Some(Parts::new(space, 0)?);
            let whole = self.parts.pop().flatten().expect("all rows are in memory");
            self.parts.extend((0..Parts::number_in(space)).map(|_| Some(Stored::new(slots))));
            for number in 0..whole.len() {
                space.check()?;
                let (hash, values) = whole.row(number);
                let part = self.part(hash);
                let stored = self.parts[part].as_mut().expect("none is in a file yet");
                stored.add(values.iter(), hash);
            }
        }
        let in_memory = self.parts.iter_mut().filter(|part| part.as_ref().is_some_and(|it| it.len() > 0));
        let largest = in_memory.max_by_key(|part| part.as_ref().map_or(0, Stored::bytes));
        let (Some(stored), Some(spilled)) = (largest.and_then(Option::take), &mut self.spilled) else {
            return Ok(false);
        };
        self.bytes -= stored.bytes();
        for number in 0..stored.len() {
            let (hash, values) = stored.row(number);
            spilled.push(hash, values)?;
        }
        Ok(true)
    }
}

/// A join that runs, and what it is given to.
struct Running<'a, 'e, 'p> {
    join: &'p HashJoin,
    outer: Option<&'a Env<'e>>,
    row: &'a mut Row,
    next: Next<'a>,
    space: Space,
}

/// What came of an outer row.
struct Met {
    matched: bool,
    more: bool,
}

impl<'p> Exec<'p> {
    /// All inner rows by their keys.
    fn inner(&self, join: &'p HashJoin, row: &Row, outer: Option<&Env<'_>>) -> Result<Inner> {
        let (space, slots) = (self.hash_space(), &join.inner_slots);
        let (parts, spilled) = (vec![Some(Stored::new(slots))], None);
        let mut inner = Inner { parts, spilled, bytes: 0, peak: 0, alone: self.kept_rows() };
        let mut scratch = row.clone();
        let before = self.first_batch.replace(BATCH_FIRST);
        let ended = self.run_node(&join.inner, &mut scratch, outer, &mut |found| {
            let env = Env { row: found, outer };
            match self.hash_of(&join.keys, |key| (&key.inner, key.inner_type), &env)? {
                Some(hash) => inner.add(found, slots, hash, &space)?,
                None if join.kind == HashKind::Full => {
                    inner.alone.push(in_slots(found, slots).cloned().collect())?;
                }
                None => {}
            }
            Ok(true)
        });
        self.first_batch.set(before);
        ended?;
        self.note_use(address(join) + TABLE, || {
            let lists = inner.parts.iter().flatten().map(Stored::lists).max().unwrap_or(0);
            Note::Hash(HashUse {
                buckets: lists as u64,
                batches: inner.parts.len() as u64,
                memory_kb: kilobytes(inner.peak as u64),
                disk_kb: inner.spilled.as_ref().map_or(0, |parts| kilobytes(parts.size())),
            })
        });
        Ok(inner)
    }

    fn inner_of(&self, join: &'p HashJoin, row: &Row, outer: Option<&Env<'_>>) -> Result<Rc<Inner>> {
        let known = join.cache.and_then(|cache| self.caches.borrow()[cache].inner.clone());
        if let Some(known) = known {
            return Ok(known);
        }
        let inner = Rc::new(self.inner(join, row, outer)?);
        if let Some(cache) = join.cache {
            self.caches.borrow_mut()[cache].inner = Some(inner.clone());
        }
        Ok(inner)
    }

    pub(super) fn hash_join(
        &self,
        join: &'p HashJoin,
        row: &mut Row,
        outer: Option<&Env<'_>>,
        next: Next<'_>,
    ) -> Result<bool> {
        let inner = self.inner_of(join, row, outer)?;
        let (space, full) = (self.hash_space(), join.kind == HashKind::Full);
        let parts = inner.parts.len();
        let mut asked = inner.spilled.as_ref().map(|_| Parts::beside(&space, parts, 0)).transpose()?;
        let unused =
            |part: &Option<Stored>| vec![false; part.as_ref().filter(|_| full).map_or(0, Stored::len)];
        let mut used: Vec<Vec<bool>> = inner.parts.iter().map(unused).collect();
        let more = self.run_node(&join.outer, row, outer, &mut |row| {
            self.yield_point()?;
            let hash = self.hash_of(&join.keys, |key| (&key.outer, key.outer_type), &Env { row, outer })?;
            let part = hash.map_or(0, |hash| inner.part(hash));
            let mut met = Met { matched: false, more: true };
            match (hash, &inner.parts[part], &mut asked) {
                (Some(hash), None, Some(asked)) => {
                    asked.push(hash, in_slots(row, &join.outer_slots))?;
                    return Ok(true);
                }
                (Some(hash), Some(stored), _) => {
                    met = self.match_row(join, (stored, &mut used[part]), hash, row, outer, next)?;
                }
                _ => {}
            }
            if met.more && !met.matched && join.kind != HashKind::Inner {
                clear(row, &join.inner_slots);
                return next(row);
            }
            Ok(met.more)
        })?;
        if !more {
            return Ok(false);
        }
        let mut running = Running { join, outer, row, next, space };
        for (stored, used) in inner.parts.iter().zip(&used) {
            if let Some(stored) = stored
                && !running.give_unused(stored, used)?
            {
                return Ok(false);
            }
        }
        if !inner.alone.is_empty() {
            clear(running.row, &join.outer_slots);
            let more = inner.alone.each(|values| {
                put(&join.inner_slots, values, running.row);
                (running.next)(running.row)
            })?;
            if !more {
                return Ok(false);
            }
        }
        let (Some(spilled), Some(asked)) = (&inner.spilled, asked) else { return Ok(true) };
        for (stored, (inner, outer)) in inner.parts.iter().zip(spilled.tapes().iter().zip(asked.tapes())) {
            if stored.is_none() && !self.join_part(&mut running, 1, inner, outer)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gives an outer row with each inner one that it matches.
    fn match_row(
        &self,
        join: &'p HashJoin,
        (stored, used): (&Stored, &mut Vec<bool>),
        hash: u64,
        row: &mut Row,
        outer: Option<&Env<'_>>,
        next: Next<'_>,
    ) -> Result<Met> {
        let mut matched = false;
        for number in stored.of(hash) {
            stored.put(number, row);
            if !self.holds(join.residual.as_ref(), &Env { row, outer })? {
                continue;
            }
            matched = true;
            if let Some(used) = used.get_mut(number) {
                *used = true;
            }
            if !next(row)? {
                return Ok(Met { matched, more: false });
            }
        }
        Ok(Met { matched, more: true })
    }

    /// Joins a part that is in files.
    fn join_part(
        &self,
        of: &mut Running<'_, '_, 'p>,
        level: u32,
        inner: &Tape,
        outer: &Tape,
    ) -> Result<bool> {
        let (join, full) = (of.join, of.join.kind == HashKind::Full);
        if (outer.rows() == 0 && !full) || (inner.rows() == 0 && join.kind == HashKind::Inner) {
            return Ok(true);
        }
        let mut place = Place::default();
        // Of each outer row, whether an earlier piece has matched it.
        let mut matched = Vec::new();
        for piece in 0.. {
            let mut stored = Stored::new(&join.inner_slots);
            let is_one_key = self.fill(&mut stored, &mut place, inner, &of.space)?;
            let is_last = place.at() >= inner.end();
            if piece == 0 && !is_last {
                if !is_one_key && level < LEVELS_MOST {
                    drop(stored);
                    return self.divide(of, level, inner, outer);
                }
                matched.resize(if join.kind == HashKind::Inner { 0 } else { outer.rows() as usize }, false);
            }
            let mut used = vec![false; if full { stored.len() } else { 0 }];
            if !self.join_piece(of, (&stored, &mut used), outer, &mut matched, is_last)? {
                return Ok(false);
            }
            if !of.give_unused(&stored, &used)? {
                return Ok(false);
            }
            if is_last {
                break;
            }
        }
        Ok(true)
    }

    fn join_piece(
        &self,
        of: &mut Running<'_, '_, 'p>,
        (stored, used): (&Stored, &mut Vec<bool>),
        outer: &Tape,
        matched: &mut [bool],
        is_last: bool,
    ) -> Result<bool> {
        let join = of.join;
        let (mut place, mut values) = (Place::default(), Row::new());
        for number in 0.. {
            self.yield_point()?;
            values.clear();
            let Some(hash) = place.read(outer, &mut values)? else { break };
            put(&join.outer_slots, &values, of.row);
            let met = self.match_row(join, (stored, used), hash, of.row, of.outer, of.next)?;
            if !met.more {
                return Ok(false);
            }
            let before = matched.get(number).copied().unwrap_or(false);
            if let Some(matched) = matched.get_mut(number) {
                *matched |= met.matched;
            }
            if is_last && !before && !met.matched && join.kind != HashKind::Inner {
                clear(of.row, &join.inner_slots);
                if !(of.next)(of.row)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Reads rows into a table until it is full; whether all of them have one hash.
    fn fill(&self, stored: &mut Stored, place: &mut Place, tape: &Tape, space: &Space) -> Result<bool> {
        let (mut first, mut is_one) = (None, true);
        let mut values = Row::new();
        while !space.is_full(stored.bytes()) {
            self.yield_point()?;
            values.clear();
            let Some(hash) = place.read(tape, &mut values)? else { break };
            stored.add(values.iter(), hash);
            is_one &= *first.get_or_insert(hash) == hash;
        }
        Ok(is_one)
    }

    /// Divides a part, and joins each of its parts.
    fn divide(&self, of: &mut Running<'_, '_, 'p>, level: u32, inner: &Tape, outer: &Tape) -> Result<bool> {
        let mut parts = [Parts::new(&of.space, level)?, Parts::new(&of.space, level)?];
        for (parts, tape) in parts.iter_mut().zip([inner, outer]) {
            let (mut place, mut values) = (Place::default(), Row::new());
            while let Some(hash) = place.read(tape, &mut values)? {
                self.yield_point()?;
                parts.push(hash, &values)?;
                values.clear();
            }
        }
        let [inner, outer] = parts;
        for (inner, outer) in inner.tapes().iter().zip(outer.tapes()) {
            if !self.join_part(of, level + 1, inner, outer)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Running<'_, '_, '_> {
    /// Gives the inner rows that nothing has matched, where these are wanted.
    fn give_unused(&mut self, stored: &Stored, used: &[bool]) -> Result<bool> {
        if used.is_empty() {
            return Ok(true);
        }
        clear(self.row, &self.join.outer_slots);
        for number in (0..stored.len()).filter(|number| !used[*number]) {
            stored.put(number, self.row);
            if !(self.next)(self.row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
