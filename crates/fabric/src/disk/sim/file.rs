//! One file of a simulated disk: what it holds now, and what a loss of power may leave of it.
//!
//! Invariants:
//! 1. `unsynced` has every sector whose bytes on the medium are not certainly those of `bytes`, with bytes
//!    that are there if none of the later ones are.
//! 2. A sync makes durable what the file held when it began, not what it holds when it ends.
//! 3. What a failed sync lost stays lost: later syncs pass over it, until it is written again.
//!
//! Lengths are those since the last sync, the durable one first: a loss of power leaves any one of them.

use std::collections::BTreeMap;
use std::sync::Weak;

use crate::disk::SECTOR;
use crate::sim::Random;

/// A file.
pub(super) struct File {
    pub bytes: Vec<u8>,
    unsynced: BTreeMap<u64, Sector>,
    /// With the change that made each.
    lengths: Vec<(u64, u64)>,
    /// A length that a failed sync did not replace.
    lost_length: Option<u64>,
    /// Changes so far.
    changes: u64,
    /// Changes when the latest sync began.
    syncing: Option<u64>,
    /// Its holder has it open.
    pub open: Weak<()>,
    /// Somebody else has: whoever holds the disk may die, the file stays there. (A reader that died may seem
    /// to read for ever; what the file takes is not counted then.)
    pub looked_at: Weak<()>,
    /// Somebody appends to it.
    pub appending: Weak<()>,
}

struct Sector {
    old: [u8; SECTOR],
    change: u64,
    lost: bool,
}

impl File {
    pub fn new() -> Self {
        Self {
            bytes: Vec::new(),
            unsynced: BTreeMap::new(),
            lengths: vec![(0, 0)],
            lost_length: None,
            changes: 0,
            syncing: None,
            open: Weak::new(),
            looked_at: Weak::new(),
            appending: Weak::new(),
        }
    }

    pub fn is_open(&self) -> bool {
        self.open.strong_count() > 0 || self.looked_at.strong_count() > 0
    }

    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Bytes that a sync would move.
    pub fn unsynced_bytes(&self) -> u64 {
        (self.unsynced.len() * SECTOR) as u64
    }

    fn sector(&self, number: u64) -> [u8; SECTOR] {
        let mut sector = [0; SECTOR];
        let there = self.bytes.get(number as usize * SECTOR..).unwrap_or_default();
        let len = there.len().min(SECTOR);
        sector[..len].copy_from_slice(&there[..len]);
        sector
    }

    /// Remembers what the range holds before it changes.
    fn keep(&mut self, from: u64, to: u64, random: &mut Random) {
        debug_assert!(from < to, "a change of bytes {from} to {to}");
        self.changes += 1;
        for number in from / SECTOR as u64..to.div_ceil(SECTOR as u64) {
            let now = self.sector(number);
            let (change, syncing) = (self.changes, self.syncing);
            let kept = self.unsynced.entry(number).or_insert(Sector { old: now, change, lost: false });
            // A sync under way writes what was there when it began; now and then the system writes unasked.
            let written = syncing.is_some_and(|began| kept.change <= began) || random.next() & 7 == 0;
            if written && !kept.lost {
                kept.old = now;
            }
            (kept.change, kept.lost) = (change, false);
        }
    }

    fn resize(&mut self, len: u64) {
        debug_assert_eq!(
            self.lengths.last().map(|last| last.1),
            Some(self.len()),
            "the last length is now's"
        );
        if len != self.len() {
            self.bytes.resize(len as usize, 0);
            self.lengths.push((self.changes, len));
        }
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8], random: &mut Random) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len() as u64;
        self.keep(offset, end, random);
        self.resize(self.len().max(end));
        self.bytes[offset as usize..end as usize].copy_from_slice(bytes);
    }

    pub fn preallocate(&mut self, len: u64) {
        self.changes += 1;
        self.resize(self.len().max(len));
    }

    pub fn truncate(&mut self, len: u64, random: &mut Random) {
        if len < self.len() {
            self.keep(len, self.len(), random);
            self.resize(len);
        }
    }

    pub fn begin_sync(&mut self) -> u64 {
        self.syncing = Some(self.changes);
        self.changes
    }

    /// What was there when the sync `began` is durable.
    pub fn end_sync(&mut self, began: u64) {
        debug_assert!(began <= self.changes, "a sync ends after it began");
        self.unsynced.retain(|_, sector| sector.lost || sector.change > began);
        self.forget_lengths(began);
    }

    fn forget_lengths(&mut self, began: u64) {
        let durable = self.lengths.iter().rposition(|&(change, _)| change <= began);
        self.lengths.drain(..durable.unwrap_or(0));
        debug_assert!(self.lengths.is_sorted_by_key(|&(change, _)| change), "lengths are in their order");
    }

    /// The sync that `began` then failed: some of it reached the medium, the rest never will, and the system
    /// has forgotten which.
    pub fn fail_sync(&mut self, began: u64, random: &mut Random) {
        debug_assert!(began <= self.changes, "a sync ends after it began");
        self.unsynced.retain(|_, sector| {
            let covered = sector.change <= began;
            sector.lost |= covered;
            !covered || random.next() & 1 == 0
        });
        if random.next() & 1 == 0 {
            self.lost_length.get_or_insert(self.lengths[0].1);
        }
        self.forget_lengths(began);
    }

    /// Nobody uses it any more.
    pub fn let_go(&mut self) {
        self.syncing = None;
        self.appending = Weak::new();
        self.open = Weak::new();
    }

    /// The host lost power: one of the possible outcomes, for good.
    pub fn lose_power(&mut self, random: &mut Random) {
        let lengths = self.lengths.iter().map(|&(_, len)| len).chain(self.lost_length);
        let lengths: Vec<u64> = lengths.collect();
        let mood = random.below(4);
        let mut fates = std::mem::take(&mut self.unsynced);
        for (&number, sector) in &mut fates {
            if !sector.lost {
                sector.old = fate(&sector.old, &self.sector(number), mood, random);
            }
        }
        let len = match mood {
            0 => self.len(),
            1 => self.lost_length.unwrap_or(lengths[0]),
            _ => lengths[random.below(lengths.len())],
        } as usize;
        let end = fates.last_key_value().map_or(0, |(&number, _)| (number as usize + 1) * SECTOR);
        self.bytes.resize(self.bytes.len().max(end).max(len), 0);
        for (number, sector) in fates {
            let at = number as usize * SECTOR;
            self.bytes[at..at + SECTOR].copy_from_slice(&sector.old);
        }
        self.bytes.truncate(len);
        self.lengths = vec![(self.changes, len as u64)];
        self.lost_length = None;
        self.let_go();
        debug_assert!(self.unsynced.is_empty() && self.syncing.is_none(), "what power left is all there is");
    }
}

/// What a loss of power leaves of an unsynced sector: new, old, or a mixture of both.
fn fate(old: &[u8; SECTOR], new: &[u8; SECTOR], mood: usize, random: &mut Random) -> [u8; SECTOR] {
    let mut mixed = *old;
    match (mood, random.below(8)) {
        (0, _) => mixed = *new,
        (1, _) => {}
        (_, 0) => {
            let cut = random.below(SECTOR);
            mixed[..cut].copy_from_slice(&new[..cut]);
        }
        (_, 1) => {
            for (mixed, new) in mixed.iter_mut().zip(new) {
                *mixed = if random.next() & 1 == 0 { *new } else { *mixed };
            }
        }
        (_, die) if die & 1 == 0 => mixed = *new,
        _ => {}
    }
    mixed
}
