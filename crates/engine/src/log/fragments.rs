//! Transactions that are too long for one record: their changes are in several ones, which lie behind each
//! other in the ring of the worker that commits.
//!
//! ```text
//! ring's stream   ... [fragment][fragment][fragment][last] ...       each names where the first one begins
//! ```
//!
//! A fragment has no version, and counts for nothing until the last one is in the ring: that one has the
//! version of all of them, and is the commit point. The shipper takes fragments to storage while more are
//! appended, so a transaction may be as long as the storage is large (host/recording.rs writes them).
//!
//! Invariants:
//! 1. Between two records of such a transaction its ring has no other one. Whatever else follows a fragment
//!    says that its transaction never committed.
//! 2. A segment with a fragment is kept as long as one with the last record: whoever needs that needs all
//!    of them (ship.rs).
//!
//! Not here: who needs the changes of a dead host's last transaction although they are not in its ring any
//! more (method/dead.rs).

use std::collections::BTreeMap;

use super::record::{Extent, Record};

/// What was found of transactions whose last record was not found yet, of one host: its changes, as the
/// caller keeps them.
#[derive(Debug)]
pub struct Unfinished<T> {
    /// By worker: where the first fragment is, and what was kept; nothing if that one was missing.
    open: BTreeMap<u8, (u64, Option<T>)>,
}

impl<T> Default for Unfinished<T> {
    fn default() -> Self {
        Self { open: BTreeMap::new() }
    }
}

/// What a record is to whoever reads a log, record by record.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<'a, T> {
    /// It counts by itself.
    Counts,
    /// It may count later: what is to be kept of it goes here. Nowhere: fragments before it are missing, so
    /// what it changes will not be needed.
    Waits(Option<&'a mut T>),
    /// It counts, and so does what was kept of the fragments before it.
    Ends(T),
    /// It counts, and fragments before it are missing: the log begins behind them.
    LacksFragments,
}

impl<T: Default> Unfinished<T> {
    /// Takes the next record of a log.
    pub fn next(&mut self, record: &Record<'_>) -> Next<'_, T> {
        let worker = record.origin().worker;
        match record.extent() {
            Extent::Whole => {
                self.open.remove(&worker);
                Next::Counts
            }
            Extent::Fragment { first } => {
                let begins = first == record.position();
                let known = self.open.get(&worker).is_some_and(|(open, _)| *open == first);
                if begins || !known {
                    self.open.insert(worker, (first, begins.then(T::default)));
                }
                Next::Waits(self.open.get_mut(&worker).and_then(|(_, kept)| kept.as_mut()))
            }
            Extent::Last { first } => match self.open.remove(&worker) {
                Some((open, Some(kept))) if open == first => Next::Ends(kept),
                _ => Next::LacksFragments,
            },
        }
    }
}

/// What is in the log of one ring that its shipper must keep for a transaction that has not ended yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct OpenFragments {
    /// Where in the stream the first one begins, and its segment.
    from: Option<(u64, u32)>,
}

impl OpenFragments {
    /// The first segment that is needed; transactions that began before `given_up` of the stream end no more.
    pub(super) fn first_needed(&self, given_up: u64) -> Option<u32> {
        self.from.filter(|(first, _)| *first >= given_up).map(|(_, segment)| segment)
    }

    /// A record at `position` of the stream goes to `segment`. If it ends a transaction of several records:
    /// the segment with the first of these.
    pub(super) fn note(&mut self, extent: Extent, position: u64, segment: u32) -> Option<u32> {
        debug_assert!(self.from.is_none_or(|(_, from)| from <= segment), "segment {segment} behind {self:?}");
        match extent {
            Extent::Whole => {
                self.from = None;
                None
            }
            Extent::Fragment { first } => {
                if first == position || self.from.is_none() {
                    self.from = Some((first, segment));
                }
                None
            }
            Extent::Last { .. } => self.from.take().map(|(_, segment)| segment),
        }
    }
}

#[cfg(test)]
mod tests {
    use liger_fabric::HostId;
    use liger_pod::plan::PartitionId;

    use super::super::record::{Op, Origin, RecordWriter, first_of};
    use super::*;
    use crate::tables::key::Key;
    use crate::txn::TableId;

    /// A transaction of `changes` changes as records, each of at most `most` bytes, from `position` on.
    fn records(changes: u64, most: usize, position: u64) -> Vec<Vec<u8>> {
        let origin = Origin { host: HostId(0), incarnation: 1, worker: 2 };
        let (mut writer, mut records, mut at) = (RecordWriter::default(), Vec::<Vec<u8>>::new(), position);
        writer.begin();
        for number in 0..changes {
            writer.change((TableId(1), PartitionId(0)), Op::Update, &Key::from_words(&[number]), 7);
            writer.piece(0, &number.to_le_bytes());
            if writer.len_of_fragment() > most {
                let split: Result<u64, ()> = writer.split(at, |fragment| {
                    records.push(fragment.finish(0, at, origin).to_vec());
                    Ok(())
                });
                at += records[records.len() - 1].len() as u64;
                assert_eq!(split, Ok(position), "all name the first one");
            }
        }
        records.push(writer.finish(first_of(9), at, origin).to_vec());
        records
    }

    /// What counts, of the records at these places.
    fn read(records: &[Vec<u8>]) -> Vec<Result<Vec<u64>, ()>> {
        let mut unfinished = Unfinished::<Vec<u64>>::default();
        let mut counts = Vec::new();
        for bytes in records {
            let record = Record::parse(bytes).expect("a whole record");
            let keys: Vec<u64> =
                record.changes().map(|change| change.expect("sane").key().words()[0]).collect();
            match unfinished.next(&record) {
                Next::Counts => counts.push(Ok(keys)),
                Next::Waits(kept) => kept.into_iter().for_each(|kept| kept.extend(&keys)),
                Next::Ends(kept) => counts.push(Ok(kept.into_iter().chain(keys).collect())),
                Next::LacksFragments => counts.push(Err(())),
            }
        }
        counts
    }

    #[test]
    fn all_of_it_counts_or_nothing() {
        for most in [80, 128, 1000] {
            let all = records(20, most, 4096);
            assert!(all.iter().all(|bytes| bytes.len() <= most), "as long as they may be");
            assert_eq!(read(&all), [Ok((0..20).collect::<Vec<_>>())], "records of {most} bytes");
            let unfinished = read(&all[..all.len() - 1]);
            assert_eq!(unfinished, [], "without the last one");
        }
    }

    #[test]
    fn what_follows_fragments_ends_them() {
        let (long, short) = (records(20, 128, 0), records(1, 128, 4096));
        let mut broken = long[..3].to_vec();
        broken.extend(short.clone());
        broken.extend(records(9, 128, 8192));
        assert_eq!(read(&broken), [Ok(vec![0]), Ok((0..9).collect::<Vec<_>>())]);
        // And so do those of another one.
        let mut again = long[..3].to_vec();
        again.extend(records(9, 128, 8192));
        assert_eq!(read(&again), [Ok((0..9).collect::<Vec<_>>())]);
    }

    #[test]
    fn fragments_that_are_missing_are_noticed() {
        let mut cut = records(20, 128, 0)[1..].to_vec();
        cut.extend(records(1, 128, 4096));
        assert_eq!(read(&cut), [Err(()), Ok(vec![0])]);
    }

    #[test]
    fn segments_are_kept_from_the_first_fragment_on() {
        let mut open = OpenFragments::default();
        let fragment = Extent::Fragment { first: 100 };
        assert_eq!((open.note(fragment, 100, 3), open.first_needed(0)), (None, Some(3)));
        assert_eq!((open.note(fragment, 200, 4), open.first_needed(0)), (None, Some(3)));
        assert_eq!((open.note(Extent::Last { first: 100 }, 300, 5), open.first_needed(0)), (Some(3), None));
        assert_eq!((open.note(fragment, 400, 5), open.first_needed(0)), (None, Some(5)), "begun before");
        assert_eq!((open.note(Extent::Whole, 500, 5), open.first_needed(0)), (None, None), "given up");
        open.note(Extent::Fragment { first: 600 }, 600, 6);
        open.note(Extent::Fragment { first: 700 }, 700, 7);
        assert_eq!(open.first_needed(0), Some(7), "another one has begun");
        assert_eq!((open.first_needed(700), open.first_needed(701)), (Some(7), None), "it was given up");
    }
}
