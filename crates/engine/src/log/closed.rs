//! Segments of a host's log that are no longer written: how much they hold, and which may go.
//!
//! Invariants:
//! 1. They are in the order of their numbers, and their newest epochs rise: those that may go are the first.
//! 2. Nothing here touches a file. Who takes segments off this list has raised the manifest's first segment
//!    before, and removes them afterwards (recovery/checkpointer.rs).

use std::collections::VecDeque;

/// A segment that is no longer written.
#[derive(Debug)]
struct Closed {
    number: u32,
    /// None of its records is of a later epoch.
    newest: u64,
    bytes: u64,
}

/// The segments of a host's log before the one that is being written.
#[derive(Default)]
pub(super) struct ClosedSegments {
    list: VecDeque<Closed>,
    bytes: u64,
}

impl ClosedSegments {
    /// Adds the next one; none of its records is of an epoch later than `newest`.
    pub(super) fn push(&mut self, number: u32, newest: u64, bytes: u64) {
        let last = self.list.back();
        let follows = last.is_none_or(|last| last.number < number && last.newest <= newest);
        assert!(follows, "segment {number} with records up to epoch {newest} behind {last:?}");
        self.list.push_back(Closed { number, newest, bytes });
        self.bytes += bytes;
    }

    /// Bytes in all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first that may hold a record of `epoch` or later.
    pub(super) fn first_needed(&self, epoch: u64) -> Option<u32> {
        let needed = self.list.iter().position(|closed| closed.newest >= epoch)?;
        debug_assert!(self.list.iter().skip(needed).all(|closed| closed.newest >= epoch), "epochs rise");
        Some(self.list[needed].number)
    }

    /// Those from segment `first` on have something that counts in `epoch`.
    pub(super) fn raise(&mut self, first: u32, epoch: u64) {
        let from = self.list.partition_point(|closed| closed.number < first);
        self.list.iter_mut().skip(from).for_each(|closed| closed.newest = closed.newest.max(epoch));
        debug_assert!(self.list.iter().is_sorted_by_key(|closed| closed.newest), "epochs rise");
    }

    /// Takes those before segment `first` off the list: their numbers and lengths.
    pub(super) fn take_below(&mut self, first: u32) -> Vec<(u32, u64)> {
        let count = self.list.partition_point(|closed| closed.number < first);
        let taken: Vec<_> = self.list.drain(..count).map(|closed| (closed.number, closed.bytes)).collect();
        self.bytes -= taken.iter().map(|(_, bytes)| bytes).sum::<u64>();
        assert!(self.list.front().is_none_or(|left| left.number >= first), "those that may go are the first");
        assert!(!self.list.is_empty() || self.bytes == 0, "{} bytes of no segment", self.bytes);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_later_is_kept_longer() {
        let mut closed = ClosedSegments::default();
        for (number, newest) in [(3, 10), (4, 10), (5, 12), (7, 15)] {
            closed.push(number, newest, 100);
        }
        closed.raise(4, 14);
        assert_eq!(
            (closed.first_needed(10), closed.first_needed(11), closed.first_needed(15)),
            (Some(3), Some(4), Some(7))
        );
        closed.push(8, 15, 100);
    }

    #[test]
    fn the_first_ones_go() {
        let mut closed = ClosedSegments::default();
        for (number, newest) in [(3, 10), (4, 10), (5, 12), (7, 15)] {
            closed.push(number, newest, 100);
        }
        assert_eq!(
            (closed.bytes(), closed.first_needed(10), closed.first_needed(11)),
            (400, Some(3), Some(5))
        );
        assert_eq!((closed.first_needed(15), closed.first_needed(16)), (Some(7), None));
        assert_eq!(closed.take_below(5), [(3, 100), (4, 100)]);
        assert_eq!((closed.take_below(5), closed.bytes()), (Vec::new(), 200));
        assert_eq!(closed.take_below(u32::MAX), [(5, 100), (7, 100)]);
    }
}
