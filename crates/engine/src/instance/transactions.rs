//! The transactions of a host that are open: which numbers their locks name, in which round each has begun,
//! how old each is, and whom each waits for.
//!
//! A lock names who holds it by a number below [`Holder::MOST`], a bit of a word. A worker's own session has
//! the worker's number for good. The other numbers go to detached transactions, which have a worker only
//! while they do something (host/detached.rs) and of which there may be many more: one that rests keeps its
//! number only as long as there are plenty, and otherwise its locks name [`Holder::PARKED`] until it goes on.
//!
//! Invariants:
//! 1. A number is one transaction's at a time; of those that rest with one there are so few that every worker
//!    finds a number for what it runs, unless very many wait for locks: then it waits, too.
//! 2. An open transaction is to be seen in `begun` or among the parked ones, without a gap in between.
//! 3. A round only grows. A transaction shows its round before it looks at who owns what; so who closes a
//!    partition and then a round ([`Transactions::close_round`]) sees those that may use the partition, and
//!    waits for nobody who begins later.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use liger_fabric::WorkerId;

use super::wait_graph::WaitGraph;

/// Whom a lock of this host names: the number of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder(u8);

impl Holder {
    /// So many transactions have numbers of their own.
    pub const MOST: u8 = 31;
    /// All transactions that have none.
    pub const PARKED: Holder = Holder(Self::MOST);

    /// The session of a worker.
    #[inline]
    pub fn of(worker: WorkerId) -> Self {
        debug_assert!(worker.0 < Self::MOST, "workers have numbers below {}", Self::MOST);
        Self(worker.0)
    }

    /// Its bit among those who hold.
    #[inline]
    pub fn bit(self) -> u32 {
        1 << self.0
    }

    /// As the writer of a row, where 0 is nobody.
    #[inline]
    pub fn writer(self) -> u8 {
        self.0 + 1
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// So few numbers are hardly enough for those that do something.
const SHORT: u32 = 4;
/// What stands for the round of a transaction that is in none.
const NO_ROUND: u64 = u64::MAX;

/// The round in which a number's transaction has begun; 0: it runs none. A line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Begun(AtomicU64);

/// The numbers for detached transactions. Apart from what every transaction reads.
#[repr(align(64))]
struct Numbers {
    /// Bit n: number n is in use.
    taken: AtomicU32,
    /// So many transactions rest with a number, and so many may.
    resting: AtomicU32,
    may_rest: AtomicU32,
}

/// A host's open transactions.
pub(crate) struct Transactions {
    begun: [Begun; Holder::MOST as usize],
    round: AtomicU64,
    /// How many are parked, by the round in which they began.
    parked: Mutex<BTreeMap<u64, u32>>,
    numbers: Numbers,
    /// For whom each waits.
    pub(crate) wait_graph: WaitGraph,
    /// Since when each is tried.
    pub(crate) ages: Ages,
}

impl Transactions {
    /// None is open, and no worker is lent.
    pub(crate) fn new() -> Self {
        let (taken, resting) = (AtomicU32::new(u32::MAX), AtomicU32::new(0));
        Self {
            begun: Default::default(),
            round: AtomicU64::new(1),
            parked: Mutex::default(),
            numbers: Numbers { taken, resting, may_rest: AtomicU32::new(0) },
            wait_graph: WaitGraph::new(Holder::MOST + 1),
            ages: Ages::new(),
        }
    }

    /// These workers are lent: their numbers, and those that no worker has, are for detached transactions. Of
    /// those that rest at most `may_rest` keep one, and at most half of what every worker leaves: the other
    /// half is for those that wait in the middle of a step.
    pub(crate) fn lend(&self, workers: &Range<u8>, may_rest: u8) {
        assert!(workers.start > 0 && workers.end <= Holder::MOST, "workers {workers:?}");
        let (own, numbers) = ((1 << workers.start) - 1, Holder::MOST - workers.start);
        debug_assert_eq!(self.numbers.resting.load(Ordering::Relaxed), 0, "lent transactions are open");
        let may_rest = may_rest.min((numbers - workers.len() as u8) / 2);
        self.numbers.may_rest.store(may_rest.into(), Ordering::Relaxed);
        self.numbers.taken.store(own | Holder::PARKED.bit(), Ordering::Release);
    }

    /// Takes a number for a transaction that a lent worker runs; false if there is none now.
    pub(crate) fn take_number(&self, number: &mut Holder) -> bool {
        let lowest = |taken: u32| (taken != u32::MAX).then(|| taken | (taken + 1));
        let Ok(taken) = self.numbers.taken.fetch_update(Ordering::Acquire, Ordering::Relaxed, lowest) else {
            return false;
        };
        *number = Holder(taken.trailing_ones() as u8);
        true
    }

    /// Whether so few numbers are left that who waits long had better leave its own to others: whoever it
    /// waits for needs one to go on.
    pub(crate) fn is_short(&self) -> bool {
        self.numbers.taken.load(Ordering::Relaxed).count_zeros() <= SHORT || !self.could_rest()
    }

    /// The number is nobody's any more.
    pub(crate) fn give_number(&self, number: Holder) {
        debug_assert_eq!(self.begun[number.index()].0.load(Ordering::Relaxed), 0, "its transaction is open");
        let before = self.numbers.taken.fetch_and(!number.bit(), Ordering::Release);
        debug_assert!(before & number.bit() != 0, "a number is given back once");
    }

    /// Whether a transaction that rests may keep its number; [`Transactions::go_on`] is for when it goes on.
    pub(crate) fn may_rest(&self) -> bool {
        let most = self.numbers.may_rest.load(Ordering::Relaxed);
        let one_more = |resting: u32| (resting < most).then_some(resting + 1);
        self.numbers.resting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Whether [`Transactions::may_rest`] would hold now.
    pub(crate) fn could_rest(&self) -> bool {
        self.numbers.resting.load(Ordering::Relaxed) < self.numbers.may_rest.load(Ordering::Relaxed)
    }

    /// A transaction that rested with its number goes on.
    pub(crate) fn go_on(&self) {
        let before = self.numbers.resting.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "it rested");
    }

    /// A transaction begins; the round.
    pub(crate) fn begin(&self, holder: Holder) -> u64 {
        let round = self.round.load(Ordering::SeqCst);
        let before = self.begun[holder.index()].0.swap(round, Ordering::SeqCst);
        debug_assert_eq!(before, 0, "a number runs one transaction at a time");
        round
    }

    /// A transaction begins that looks at who owns what whenever it reads, and holds nothing: nobody waits
    /// for it.
    pub(crate) fn begin_free(&self, holder: Holder) -> u64 {
        let before = self.begun[holder.index()].0.swap(NO_ROUND, Ordering::SeqCst);
        debug_assert_eq!(before, 0, "a number runs one transaction at a time");
        NO_ROUND
    }

    /// It has ended.
    pub(crate) fn end(&self, holder: Holder) {
        let round = self.begun[holder.index()].0.swap(0, Ordering::SeqCst);
        debug_assert!(round != 0 || std::thread::panicking(), "a transaction ends once");
    }

    /// A transaction that began in `round` gives its number away.
    pub(crate) fn park(&self, holder: Holder, round: u64) {
        let mut parked = self.parked();
        *parked.entry(round).or_default() += 1;
        self.end(holder);
        drop(parked);
        self.give_number(holder);
    }

    /// It goes on with another number; false if there is none now.
    pub(crate) fn unpark(&self, round: u64, number: &mut Holder) -> bool {
        if !self.take_number(number) {
            return false;
        }
        let mut parked = self.parked();
        let others = parked.remove(&round).expect("it is parked") - 1;
        if others > 0 {
            parked.insert(round, others);
        }
        self.begun[number.index()].0.store(round, Ordering::SeqCst);
        true
    }

    fn parked(&self) -> MutexGuard<'_, BTreeMap<u64, u32>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Transactions that are parked.
    pub(crate) fn count_parked(&self) -> usize {
        self.parked().values().map(|count| *count as usize).sum()
    }

    /// Begins a new round; the one that ends.
    pub(crate) fn close_round(&self) -> u64 {
        self.round.fetch_add(1, Ordering::SeqCst)
    }

    /// Whether every transaction that began in `round` or before has ended.
    pub(crate) fn have_ended(&self, round: u64) -> bool {
        // In the middle of it none becomes parked, or goes on.
        let parked = self.parked();
        let began_later = |begun: &Begun| {
            let begun = begun.0.load(Ordering::SeqCst);
            begun == 0 || begun > round
        };
        parked.first_key_value().is_none_or(|(first, _)| *first > round) && self.begun.iter().all(began_later)
    }
}

/// Since when each holder of a host tries the transaction that it runs, by this host's clock.
#[derive(Debug)]
pub(crate) struct Ages([AtomicU64; Holder::MOST as usize]);

impl Ages {
    /// None has begun.
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(u64::MAX)))
    }

    /// A transaction begins.
    pub fn begin(&self, holder: Holder, now_ns: u64) {
        self.0[holder.index()].store(now_ns, Ordering::Relaxed);
    }

    /// True if the holder's transaction is older than those of all these, a bit each. Of two that began
    /// together that of the lower number is the older one; those that are parked are older than all others.
    pub fn is_oldest(&self, holder: Holder, among: u32) -> bool {
        let age = |of: u8| (self.0[usize::from(of)].load(Ordering::Relaxed), of);
        let mine = age(holder.0);
        among & Holder::PARKED.bit() == 0
            && (0..Holder::MOST).filter(|other| among & 1 << other != 0).all(|other| mine < age(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_one_began_first() {
        let ages = Ages::new();
        ages.begin(Holder(1), 20);
        ages.begin(Holder(0), 10);
        assert!(ages.is_oldest(Holder(0), 0b110) && ages.is_oldest(Holder(1), 0b100));
        assert!(!ages.is_oldest(Holder(1), 0b101) && !ages.is_oldest(Holder(2), 0b010));
        assert!(!ages.is_oldest(Holder(0), Holder::PARKED.bit()));
        ages.begin(Holder(1), 10);
        assert!(ages.is_oldest(Holder(0), 0b010) && !ages.is_oldest(Holder(1), 0b001));
    }

    fn number(of: &Transactions) -> Holder {
        let mut number = Holder::PARKED;
        assert!(of.take_number(&mut number), "there is one");
        number
    }

    #[test]
    fn a_lent_worker_finds_a_number_however_many_rest() {
        for lent in [1..2, 1..4, 2..31] {
            let all = Transactions::new();
            all.lend(&lent, u8::MAX);
            let mut parked = Vec::new();
            for _ in 0..3 * Holder::MOST {
                let running: Vec<(Holder, u64)> =
                    lent.clone().map(|_| number(&all)).map(|holder| (holder, all.begin(holder))).collect();
                for (holder, round) in running {
                    assert!(holder.0 >= lent.start && holder.0 < Holder::MOST);
                    if !all.may_rest() {
                        all.park(holder, round);
                        parked.push(round);
                    }
                }
            }
            assert_eq!(all.count_parked(), parked.len());
            assert!(parked.len() > usize::from(Holder::MOST));
        }
    }

    #[test]
    fn a_round_ends_with_the_last_transaction_that_began_in_it() {
        let all = Transactions::new();
        all.lend(&(1..4), u8::MAX);
        assert!(all.have_ended(0), "nobody has begun");
        let own = Holder::of(WorkerId(0));
        assert_eq!(all.begin(own), 1);
        let first = number(&all);
        let round = all.begin(first);
        all.park(first, round);
        assert_eq!(all.close_round(), 1);
        let later = number(&all);
        assert_eq!((all.begin(later), all.have_ended(1), all.have_ended(0)), (2, false, true));
        all.end(own);
        assert!(!all.have_ended(1), "one is parked");
        let mut again = first;
        assert!(all.unpark(round, &mut again));
        assert!(again != later && !all.have_ended(1) && all.count_parked() == 0);
        all.end(again);
        assert!(all.have_ended(1) && !all.have_ended(2));
    }
}
