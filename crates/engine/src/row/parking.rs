//! Locks of transactions that rest without a number: they name [`Holder::PARKED`], and count.
//!
//! Invariants:
//! 1. A row names `PARKED` as a reader (or reader of its gap) exactly while some parked transaction is one,
//!    and says how many are: in the row's `aux` word, or in its entry. A writer is alone.
//! 2. A row is renamed under one hold of its latch: whoever looks sees a row that is held before, in between
//!    and afterwards, and the host's part of the lock (the tuple cell) is not touched.

use liger_fabric::Fabric;

use super::latched::Latched;
use super::partition::{RowId, TablePart};
use super::remote::Entry;
use super::work::{Spot, Work};
use crate::instance::Holder;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["parking.count-readers", "parking.keep-gap"];

/// How long who waits without a number rests, at least.
const PARKED_NS: u64 = 5_000_000;

/// What a transaction has of a row that it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hold {
    reads: bool,
    gap: bool,
    writes: bool,
}

/// The locks of a row, wherever they are kept.
struct Locks<'a> {
    readers: &'a mut u32,
    gap: &'a mut u32,
    writer: &'a mut u8,
    /// Of parked transactions.
    parked_readers: &'a mut u16,
    parked_gap: &'a mut u16,
}

impl Locks<'_> {
    fn park(&mut self, me: Holder, keeps_gap: bool) -> Hold {
        let (mine, parked) = (me.bit(), Holder::PARKED.bit());
        let hold = Hold {
            reads: *self.readers & mine != 0,
            gap: *self.gap & mine != 0 && keeps_gap,
            writes: *self.writer == me.writer(),
        };
        debug_assert!(hold.reads || hold.writes, "it holds the row");
        let pairs = [
            (&mut *self.readers, &mut *self.parked_readers, hold.reads),
            (&mut *self.gap, &mut *self.parked_gap, hold.gap),
        ];
        for (bits, count, has) in pairs {
            if has {
                *bits = *bits & !mine | parked;
                *count = count.checked_add(1).expect("fewer than 65,536 transactions are open");
            }
        }
        // Only where it is to be forgotten.
        *self.gap &= !mine;
        if hold.writes {
            *self.writer = Holder::PARKED.writer();
        }
        hold
    }

    fn take_over(&mut self, me: Holder, hold: Hold, counts: bool) {
        let (mine, parked) = (me.bit(), Holder::PARKED.bit());
        let pairs = [
            (&mut *self.readers, &mut *self.parked_readers, hold.reads),
            (self.gap, self.parked_gap, hold.gap),
        ];
        for (bits, count, has) in pairs {
            if has {
                debug_assert!(*count > 0 && *bits & mine == 0, "it is parked here");
                debug_assert!(*bits & parked != 0 || !counts, "others are parked here");
                *count -= 1;
                let others = counts && *count > 0;
                *bits = (if others { *bits } else { *bits & !parked }) | mine;
            }
        }
        if hold.writes {
            debug_assert_eq!(*self.writer, Holder::PARKED.writer(), "it writes the row");
            *self.writer = me.writer();
        }
    }
}

/// The locks of a row of this host.
fn of_row<R>(part: &mut TablePart, row: RowId, work: impl FnOnce(&mut Locks<'_>) -> R) -> R {
    let (mut holders, aux) = (part.rows.holders(row), part.rows.aux(row));
    let (mut parked_readers, mut parked_gap) = (aux as u16, (aux >> 16) as u16);
    let done = work(&mut Locks {
        readers: &mut holders.readers,
        gap: &mut holders.gap,
        writer: &mut holders.writer,
        parked_readers: &mut parked_readers,
        parked_gap: &mut parked_gap,
    });
    part.rows.set_holders(row, holders);
    part.rows.set_aux(row, u32::from(parked_readers) | u32::from(parked_gap) << 16);
    done
}

/// The locks of this host's transactions on a row of another host.
fn of_entry<R>(entry: &mut Entry, work: impl FnOnce(&mut Locks<'_>) -> R) -> R {
    // Its gap is the owner's.
    let (mut gap, mut parked_gap) = (0, 0);
    work(&mut Locks {
        readers: &mut entry.readers,
        gap: &mut gap,
        writer: &mut entry.writer,
        parked_readers: &mut entry.parked,
        parked_gap: &mut parked_gap,
    })
}

impl<F: Fabric> Work<'_, '_, F> {
    /// Its locks name its number no more; what it has of each row is noted.
    pub(super) fn park(&mut self) {
        debug_assert!(self.mine.parked.is_empty(), "it is parked once");
        let (me, mut holds) = (self.state.me, Vec::with_capacity(self.mine.held.len()));
        let keeps_gap = !self.cx.sabotaged("parking.keep-gap");
        self.each_held(|_, locks| holds.push(locks.park(me, keeps_gap)));
        self.mine.parked = holds;
    }

    /// Its locks name its number again.
    pub(super) fn unpark(&mut self) {
        let (me, holds) = (self.state.me, std::mem::take(&mut self.mine.parked));
        assert_eq!(holds.len(), self.mine.held.len(), "a transaction that is parked takes no locks");
        let counts = !self.cx.sabotaged("parking.count-readers");
        self.each_held(|i, locks| locks.take_over(me, holds[i], counts));
    }

    /// Rests in the middle of a step that waits for a lock, without a number: the more others do, the longer.
    pub(super) fn rest_parked(&mut self) {
        let (open, round) = (&self.host.transactions, self.state.round);
        debug_assert!(
            self.seat.pool.is_some() && self.seat.token.is_some(),
            "a step of a detached transaction"
        );
        let rest_ns = PARKED_NS * (1 + open.count_parked() as u64 / 16);
        self.park();
        open.park(self.state.me, round);
        self.seat.rest_without_worker(self.state, rest_ns, true);
        while !open.unpark(round, &mut self.state.me) {
            self.seat.rest_without_worker(self.state, PARKED_NS / 5, true);
        }
        self.unpark();
        debug_assert_ne!(self.state.me, Holder::PARKED, "it has a number");
    }

    fn each_held(&self, mut work: impl FnMut(usize, &mut Locks<'_>)) {
        let (cx, host) = (self.cx, self.host);
        let mut latched = Latched::default();
        for (i, place) in self.mine.held.iter().enumerate() {
            match Spot::of(*place) {
                Spot::Own { partition, table, row } => {
                    let part = latched.reach(cx, (partition, table), |place| host.latch(place));
                    of_row(part, row, |locks| work(i, locks));
                }
                Spot::Foreign(row) => {
                    latched.give_back();
                    let hash = self.mine.foreign[row].hash;
                    let mut shard = host.remote.shard(cx, hash);
                    let entry = shard.get_mut(&hash).expect("a held row has its entry");
                    of_entry(entry, |locks| work(i, locks));
                }
            }
        }
    }
}
