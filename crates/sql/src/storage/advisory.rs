//! Locks that sessions wait for: advisory ones, and those of relations and rows; who holds which, and who
//! waits for which, in rows.
//!
//! ```text
//! key    kind u8 (1: a bigint, 2: two ints, 3: a relation, 4: a row) | lock u64 | host u8 | life u32
//!        | process id u32 | mode u8
//! body   granted u8 | since when it waits, microseconds since 2000, i64
//! ```
//!
//! Every step is a short transaction of its own, so a lock is not undone with the transaction of the session
//! that asked for it; how often a session has taken a lock it counts itself (exec/advisory.rs).
//!
//! Invariants:
//! 1. Of two granted rows of one lock, of different sessions and one of them exclusive, never both count: who
//!    takes a lock reads all rows of it in the same transaction.
//! 2. A row counts as long as the life of its host does (parts.rs): the host is a member of the pod
//!    and has not begun another life. What no longer counts is removed by whoever meets it, and by each host
//!    that opens its catalog.
//! 3. Who waits says so in a row: so that others see it, and that two who wait for each other are found.
//!
//! 4. A relation's rows are for those who wait: what keeps a change and a use of it apart are definitions
//!    (catalog/definition.rs). A request for all of a relation keeps later requests out from the beginning;
//!    users have a row only since they wait for something themselves.
//!
//! 5. Of rows only those are here that somebody has waited for long, by name, and that others who wait have
//!    said they hold: what is held, and by whom, the engine knows.
//!
//! It does not wait. Of advisory locks who comes first when one is free has it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use liger_engine::Key;

use super::access::Access;
use super::classes::{Bound, Classes, Home};
use super::parts;
use super::table::new_row;
use crate::error::Result;
use crate::types::Oid;

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// By one session.
    Exclusive,
    /// By any number of sessions.
    Shared,
}

impl Mode {
    /// As PostgreSQL calls it.
    pub fn name(self, of: Lock) -> &'static str {
        match (of, self) {
            (Lock::Relation(0) | Lock::Row(_), _) => "ExclusiveLock",
            (Lock::One(_) | Lock::Two(..), Self::Exclusive) => "ExclusiveLock",
            (Lock::One(_) | Lock::Two(..), Self::Shared) => "ShareLock",
            (Lock::Relation(_), Self::Exclusive) => "AccessExclusiveLock",
            (Lock::Relation(_), Self::Shared) => "AccessShareLock",
        }
    }
}

/// What is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lock {
    /// `pg_advisory_lock(bigint)`.
    One(i64),
    /// `pg_advisory_lock(int, int)`.
    Two(i32, i32),
    /// A table or view; 0: the catalog, which one transaction at a time changes.
    Relation(Oid),
    /// A row of a table, by its name in the engine.
    Row(u64),
}

impl Lock {
    /// `classid`, `objid` and `objsubid` in `pg_locks`.
    pub fn parts(self) -> (u32, u32, i16) {
        match self {
            Self::One(key) => ((key as u64 >> 32) as u32, key as u32, 1),
            Self::Two(first, second) => (first as u32, second as u32, 2),
            Self::Relation(oid) => (0, oid, 3),
            Self::Row(name) => ((name >> 32) as u32, name as u32, 4),
        }
    }

    fn of(kind: u8, word: u64) -> Lock {
        match kind {
            2 => Self::Two((word >> 32) as i32, word as i32),
            3 => Self::Relation(word as Oid),
            4 => Self::Row(word),
            _ => Self::One(word as i64),
        }
    }

    fn bytes(self) -> [u8; 9] {
        let (high, low, kind) = self.parts();
        let mut bytes = [kind as u8; 9];
        bytes[1..5].copy_from_slice(&high.to_be_bytes());
        bytes[5..].copy_from_slice(&low.to_be_bytes());
        bytes
    }
}

/// A session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Its host.
    pub host: u8,
    /// That host's life.
    pub life: u32,
    /// Its process id.
    pub process_id: i32,
}

/// A session's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// What it wants.
    pub lock: Lock,
    /// How.
    pub mode: Mode,
    /// Who wants it.
    pub holder: Holder,
}

/// A row: a request that is granted, or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The request.
    pub request: Request,
    /// Whether it is granted.
    pub granted: bool,
    /// Since when it waits.
    pub since_us: i64,
}

impl Entry {
    fn of(home: &Home, key: &Key, row: &[u8]) -> Entry {
        let mut bytes = Vec::new();
        home.bytes_of(key, &mut bytes);
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let lock = Lock::of(bytes[0], u64::from(word(1)) << 32 | u64::from(word(5)));
        let holder = Holder { host: bytes[9], life: word(10), process_id: word(14) as i32 };
        let mode = if bytes[18] == Mode::Shared as u8 { Mode::Shared } else { Mode::Exclusive };
        let at = home.size.body_at();
        let since_us = i64::from_le_bytes(row[at + 1..at + 9].try_into().expect("8 bytes"));
        Entry { request: Request { lock, mode, holder }, granted: row[at] != 0, since_us }
    }

    fn body(&self) -> [u8; 9] {
        let mut body = [u8::from(self.granted); 9];
        body[1..].copy_from_slice(&self.since_us.to_le_bytes());
        body
    }

    /// Whether it keeps another session, which waits since then, from having `wanted`.
    fn is_in_the_way(&self, wanted: &Request, since_us: i64) -> bool {
        let is_first = || (self.since_us, self.request.holder) < (since_us, wanted.holder);
        let is_relation = matches!(wanted.lock, Lock::Relation(_));
        self.request.lock == wanted.lock
            && self.request.holder != wanted.holder
            && (self.request.mode == Mode::Exclusive || wanted.mode == Mode::Exclusive)
            && (self.granted || is_relation && self.request.mode == Mode::Exclusive && is_first())
    }
}

/// Which holders are of hosts that live, each asked once.
#[derive(Default)]
struct Living(BTreeMap<(u8, u32), bool>);

impl Living {
    fn counts(&mut self, tx: &mut dyn Access, classes: &Classes, holder: Holder) -> Result<bool> {
        let life = (holder.host, holder.life);
        if let Some(known) = self.0.get(&life) {
            return Ok(*known);
        }
        let lives = parts::lives(tx, classes, holder.host, u64::from(holder.life))?;
        self.0.insert(life, lives);
        Ok(lives)
    }
}

fn place_of(tx: &dyn Access, lock: Lock) -> u16 {
    let (high, low, _) = lock.parts();
    let mixed = (u64::from(high) << 32 | u64::from(low)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed >> 32) % u64::from(tx.places())) as u16
}

fn key(tx: &dyn Access, home: &Home, request: &Request) -> Key {
    let mut bytes = request.lock.bytes().to_vec();
    bytes.push(request.holder.host);
    bytes.extend_from_slice(&request.holder.life.to_be_bytes());
    bytes.extend_from_slice(&request.holder.process_id.to_be_bytes());
    bytes.push(request.mode as u8);
    home.key(place_of(tx, request.lock), &bytes)
}

/// Rows of a range that count; those that do not are removed.
fn living(
    tx: &mut dyn Access,
    classes: &Classes,
    home: &Home,
    ranges: impl Iterator<Item = liger_engine::KeyRange>,
) -> Result<Vec<Entry>> {
    let mut found = Vec::new();
    for range in ranges {
        tx.scan(home.table, &range, &mut |key, row| {
            found.push((*key, Entry::of(home, key, row)));
            ControlFlow::Continue(())
        })?;
    }
    let (mut lives, mut counting) = (Living::default(), Vec::new());
    for (key, entry) in found {
        if lives.counts(tx, classes, entry.request.holder)? {
            counting.push(entry);
        } else {
            tx.delete(home.table, &key)?;
        }
    }
    Ok(counting)
}

/// Takes a lock if nobody is in the way; `waits_since`: otherwise says that the session waits for it.
///
/// # Errors
/// Conflicts, and those of the engine; so do all that follow.
pub fn acquire(
    tx: &mut dyn Access,
    classes: &Classes,
    wanted: &Request,
    waits_since: Option<i64>,
) -> Result<bool> {
    let home = parts::advisory(classes)?;
    let range = home.range_of_prefix(place_of(tx, wanted.lock), &wanted.lock.bytes());
    let entries = living(tx, classes, &home, std::iter::once(range))?;
    let own = entries.iter().find(|entry| entry.request == *wanted);
    let since_us = in_line(&entries, own, waits_since.unwrap_or(i64::MAX));
    let granted = !entries.iter().any(|entry| entry.is_in_the_way(wanted, since_us));
    if granted || waits_since.is_some() {
        write(tx, &home, own, &Entry { request: *wanted, granted, since_us })?;
    }
    Ok(granted)
}

/// Since when a request waits: behind all that are there, whatever the clocks of their hosts say, so that who
/// is first stays first.
fn in_line(entries: &[Entry], own: Option<&Entry>, since_us: i64) -> i64 {
    let behind = entries.iter().filter(|entry| !entry.granted).map(|entry| entry.since_us.saturating_add(1));
    own.map_or_else(|| behind.fold(since_us, i64::max), |own| own.since_us)
}

/// Puts a row, in place of the one that is there.
fn write(tx: &mut dyn Access, home: &Home, own: Option<&Entry>, now: &Entry) -> Result<()> {
    let (key, at) = (key(tx, home, &now.request), home.size.body_at());
    match own {
        Some(own) if own.granted == now.granted => {}
        Some(_) => _ = tx.update(home.table, &key, &mut |row| row.put_bytes(at, &now.body()))?,
        None => _ = tx.insert(home.table, &new_row(home, &key, &now.body()))?,
    }
    Ok(())
}

/// Says that a session has a lock, or (`waits_since`) that it waits for it, whoever is in the way; whether
/// nobody is.
///
/// # Errors
/// As [`acquire`].
pub fn note(
    tx: &mut dyn Access,
    classes: &Classes,
    request: &Request,
    waits_since: Option<i64>,
) -> Result<bool> {
    let home = parts::advisory(classes)?;
    let range = home.range_of_prefix(place_of(tx, request.lock), &request.lock.bytes());
    let entries = living(tx, classes, &home, std::iter::once(range))?;
    let own = entries.iter().find(|entry| entry.request == *request);
    let since_us = in_line(&entries, own, waits_since.unwrap_or(0));
    write(tx, &home, own, &Entry { request: *request, granted: waits_since.is_none(), since_us })?;
    Ok(!entries.iter().any(|entry| entry.is_in_the_way(request, since_us)))
}

/// For who waits for a row: says so (`waits`: which, and since when, in place of `before`), and that it holds
/// these that others have asked for. The rows that others wait for now; or, if it waits for itself around
/// others, the cycle, as [`stop_in_cycle`].
///
/// # Errors
/// As [`acquire`].
pub fn look(
    tx: &mut dyn Access,
    classes: &Classes,
    own: &Holder,
    (before, waits): (Option<u64>, Option<(u64, i64)>),
    held: &[u64],
) -> Result<Looked> {
    let of = |name| Request { lock: Lock::Row(name), mode: Mode::Exclusive, holder: *own };
    for name in held {
        note(tx, classes, &of(*name), None)?;
    }
    if let Some(before) = before.filter(|before| waits.is_none_or(|(name, _)| name != *before)) {
        release(tx, classes, &of(before))?;
    }
    if let Some((name, since_us)) = waits {
        note(tx, classes, &of(name), Some(since_us))?;
        if let Some(cycle) = stop_in_cycle(tx, classes, &of(name))? {
            return Ok(Looked::Cycle(cycle));
        }
    }
    let others = all(tx, classes)?.into_iter().filter(|it| !it.granted && it.request.holder != *own);
    let rows = others.filter_map(|it| match it.request.lock {
        Lock::Row(name) => Some(name),
        _ => None,
    });
    Ok(Looked::Asked(rows.collect()))
}

/// What a look at who waits for whom came to.
#[derive(Debug)]
pub enum Looked {
    /// These rows are waited for by others.
    Asked(BTreeSet<u64>),
    /// Whoever looked waited for itself.
    Cycle(Vec<(Request, Holder)>),
}

/// Whether somebody else wants or has all of a relation. What is not committed is not seen, and what is may
/// be of a host that is gone.
///
/// # Errors
/// As [`acquire`].
pub fn is_wanted(tx: &mut dyn Access, classes: &Classes, lock: Lock, own: &Holder) -> Result<bool> {
    let (home, mut found) = (parts::advisory(classes)?, false);
    let range = home.range_of_prefix(place_of(tx, lock), &lock.bytes());
    tx.peek(home.table, &range, &mut |key, row| {
        let request = Entry::of(&home, key, row).request;
        found |= request.mode == Mode::Exclusive && request.holder != *own;
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Gives a lock back, or waits no longer.
///
/// # Errors
/// As [`acquire`].
pub fn release(tx: &mut dyn Access, classes: &Classes, request: &Request) -> Result<()> {
    let home = parts::advisory(classes)?;
    tx.delete(home.table, &key(tx, &home, request)).map(|_| ())
}

/// All that is held and waited for.
///
/// # Errors
/// As [`acquire`].
pub fn all(tx: &mut dyn Access, classes: &Classes) -> Result<Vec<Entry>> {
    let home = parts::advisory(classes)?;
    let ranges: Vec<_> = (0..tx.places()).map(|p| home.range(p, Bound::Open, Bound::Open)).collect();
    living(tx, classes, &home, ranges.into_iter())
}

/// If a session waits for itself around others, stops its waiting: the requests of the cycle and of whom each
/// waits for, its own first. As this is one transaction, one session of a cycle stops and not two.
///
/// # Errors
/// As [`acquire`].
pub fn stop_in_cycle(
    tx: &mut dyn Access,
    classes: &Classes,
    wanted: &Request,
) -> Result<Option<Vec<(Request, Holder)>>> {
    let entries = all(tx, classes)?;
    let own = entries.iter().find(|entry| entry.request == *wanted);
    let found = cycle(&entries, (wanted, own.map_or(0, |own| own.since_us)));
    if found.is_some() {
        release(tx, classes, wanted)?;
    }
    Ok(found)
}

/// A way from whoever is in the way of `wanted`, which waits since then, back to its holder.
fn cycle(entries: &[Entry], (wanted, since_us): (&Request, i64)) -> Option<Vec<(Request, Holder)>> {
    let blockers = |request: &Request, since_us: i64| -> Vec<Holder> {
        let in_the_way = entries.iter().filter(|entry| entry.is_in_the_way(request, since_us));
        in_the_way.map(|entry| entry.request.holder).collect()
    };
    // Whoever has been reached, by which request, and whose request that was.
    let mut reached: BTreeMap<Holder, (Request, Option<Holder>)> = BTreeMap::new();
    let mut next: Vec<(Holder, Request)> =
        blockers(wanted, since_us).into_iter().map(|b| (b, *wanted)).collect();
    while let Some((holder, by)) = next.pop() {
        if reached.contains_key(&holder) {
            continue;
        }
        let from = Some(by.holder).filter(|from| *from != wanted.holder);
        reached.insert(holder, (by, from));
        if holder == wanted.holder {
            let (mut way, mut at) = (Vec::new(), Some(holder));
            while let Some(blocker) = at {
                let (request, from) = reached[&blocker];
                way.push((request, blocker));
                at = from;
            }
            way.reverse();
            return Some(way);
        }
        let waits = entries.iter().filter(|entry| !entry.granted && entry.request.holder == holder);
        for entry in waits {
            let behind = blockers(&entry.request, entry.since_us);
            next.extend(behind.into_iter().map(|b| (b, entry.request)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(process_id: i32, lock: i64, mode: Mode, granted: bool) -> Entry {
        let holder = Holder { host: 0, life: 1, process_id };
        Entry { request: Request { lock: Lock::One(lock), mode, holder }, granted, since_us: 0 }
    }

    #[test]
    fn a_cycle_is_found_and_a_queue_is_none() {
        use Mode::{Exclusive, Shared};
        let held = [entry(1, 1, Exclusive, true), entry(2, 2, Shared, true), entry(3, 2, Shared, true)];
        let request = entry(3, 1, Exclusive, false);
        let queue = [&held[..], &[request]].concat();
        assert_eq!(cycle(&queue, (&request.request, 0)), None);
        let other = entry(1, 2, Exclusive, false);
        let round = [&queue[..], &[other]].concat();
        let found = cycle(&round, (&request.request, 0)).expect("3 waits for 1, which waits for 3");
        let ids: Vec<_> = found.iter().map(|(r, by)| (r.holder.process_id, by.process_id)).collect();
        assert_eq!(ids, [(3, 1), (1, 3)]);
        // 2 holds what 1 wants, and waits for nothing: only who is in a cycle has one.
        let beside = entry(2, 1, Shared, false);
        let more = [&queue[..], &[beside]].concat();
        assert_eq!(cycle(&more, (&beside.request, 0)), None);
    }

    #[test]
    fn who_wants_all_of_a_relation_keeps_later_ones_out() {
        use Mode::{Exclusive, Shared};
        let of = |process_id, mode, granted, since_us| {
            let mut entry = entry(process_id, 0, mode, granted);
            (entry.request.lock, entry.since_us) = (Lock::Relation(7), since_us);
            entry
        };
        let waits = of(1, Exclusive, false, 10);
        assert!(waits.is_in_the_way(&of(2, Shared, false, 11).request, 11));
        assert!(waits.is_in_the_way(&of(2, Exclusive, false, 11).request, 11));
        assert!(!waits.is_in_the_way(&of(2, Shared, false, 9).request, 9), "who came first goes first");
        // Whose clock is behind comes behind all the same.
        assert_eq!(in_line(&[waits], None, 3), 11);
        assert_eq!(in_line(&[waits], None, 50), 50);
        assert_eq!(in_line(&[waits], Some(&waits), 50), 10);
        assert!(!of(1, Shared, false, 1).is_in_the_way(&waits.request, 10), "a use that only waits");
        assert!(of(2, Shared, true, 0).is_in_the_way(&waits.request, 10));
        // Who uses 7 and waits for 8, which somebody has who waits for 7.
        let mut has = of(1, Exclusive, true, 0);
        let mut request = of(2, Shared, false, 12);
        (has.request.lock, request.request.lock) = (Lock::Relation(8), Lock::Relation(8));
        let all = [waits, has, of(2, Shared, true, 0), request];
        assert!(cycle(&all, (&request.request, 12)).is_some());
        assert!(cycle(&all[..3], (&waits.request, 10)).is_none());
    }

    #[test]
    fn a_lock_is_its_parts() {
        assert_eq!(Lock::One(-1).parts(), (u32::MAX, u32::MAX, 1));
        assert_eq!(Lock::Two(-2, 7).parts(), (u32::MAX - 1, 7, 2));
        let (one, row) = (Lock::One(i64::MIN), Lock::Row(u64::MAX - 5));
        for lock in [one, row, Lock::Two(3, -4), Lock::One(5 << 40), Lock::Relation(1 << 31)] {
            let bytes = lock.bytes();
            assert_eq!(Lock::of(bytes[0], u64::from_be_bytes(bytes[1..].try_into().expect("8"))), lock);
        }
    }
}
