//! The client outside the hosts: it numbers its requests, keeps some under way, and remembers what it was
//! told.
//!
//! 1. A number is used for one transfer, however often it is asked for.
//! 2. Everything it was told is kept: that a transfer is done, and a digest of both balances. Whoever tells
//!    it something else later contradicts.

use std::collections::BTreeMap;

use super::{Book, Reply, Request};

/// One client.
#[derive(Debug)]
pub struct Client {
    book: Book,
    id: u32,
    /// Numbers under way, each with the time it was first asked for.
    under_way: BTreeMap<u64, u64>,
    told: Told,
}

/// What a client was told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Told {
    /// By number, from 1: a digest of the balances, 0 for a transfer that was not acknowledged.
    digests: Vec<u64>,
    /// Transfers acknowledged.
    pub acknowledged: u64,
    /// Answers that said that it had been done before.
    pub again: u64,
    /// Answers that differ from an earlier one.
    pub contradictions: u64,
}

/// An answer that the client had waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    /// What it had asked for.
    pub request: Request,
    /// From the first time it asked to now, in nanoseconds.
    pub waited_ns: u64,
}

/// A digest of two balances that is never 0.
pub(super) fn digest(from_cents: i64, to_cents: i64) -> u64 {
    let mixed = (from_cents as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (to_cents as u64).rotate_left(32);
    mixed.max(1)
}

impl Told {
    /// Numbers asked for so far.
    pub fn asked(&self) -> u64 {
        self.digests.len() as u64
    }

    /// The digest that belongs to a number; `None` if it was not acknowledged.
    pub(super) fn digest(&self, number: u64) -> Option<u64> {
        let at = usize::try_from(number.checked_sub(1)?).ok()?;
        self.digests.get(at).copied().filter(|digest| *digest != 0)
    }

    /// Whether a number was acknowledged.
    pub fn is_acknowledged(&self, number: u64) -> bool {
        self.digest(number).is_some()
    }
}

impl Client {
    /// Client `id` of a book, who has asked for nothing.
    pub fn new(book: Book, id: u32) -> Self {
        Self { book, id, under_way: BTreeMap::new(), told: Told::default() }
    }

    /// The next request.
    pub fn next(&mut self, now_ns: u64) -> Request {
        self.told.digests.push(0);
        let number = self.told.asked();
        self.under_way.insert(number, now_ns);
        self.book.request(self.id, number)
    }

    /// Requests under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// When the oldest request under way was first asked for.
    pub fn oldest_ns(&self) -> Option<u64> {
        self.under_way.values().next().copied()
    }

    /// All requests under way, to be asked for again after a connection was lost; oldest first.
    pub fn again(&self) -> impl Iterator<Item = Request> + '_ {
        self.under_way.keys().map(|number| self.book.request(self.id, *number))
    }

    /// Takes an answer; `None` if it is about nothing that is under way.
    pub fn hear(&mut self, reply: &Reply, now_ns: u64) -> Option<Heard> {
        let Reply { client, number, from_cents, to_cents, again } = *reply;
        let told = &mut self.told;
        let slot = number.checked_sub(1).and_then(|at| told.digests.get_mut(usize::try_from(at).ok()?));
        let Some(slot) = slot.filter(|_| client == self.id) else {
            told.contradictions += 1;
            return None;
        };
        told.again += u64::from(again);
        let digest = digest(from_cents, to_cents);
        if *slot != 0 && *slot != digest {
            told.contradictions += 1;
        }
        let asked_ns = self.under_way.remove(&number)?;
        *slot = digest;
        told.acknowledged += 1;
        let request = self.book.request(client, number);
        Some(Heard { request, waited_ns: now_ns.saturating_sub(asked_ns) })
    }

    /// What it was told so far.
    pub fn told(&self) -> &Told {
        &self.told
    }

    /// What it was told.
    pub fn into_told(self) -> Told {
        self.told
    }
}
