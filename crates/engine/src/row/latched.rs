//! The latches of tables' shares that one worker holds at a time.
//!
//! Invariant: nobody waits for a latch while it has another; so workers that want the same two never wait for
//! each other, in whatever order they come to them.

use liger_fabric::{Cx, Fabric, Latch, LatchGuard};
use liger_pod::plan::PartitionId;

use super::partition::TablePart;
use crate::txn::TableId;

/// Shares that one worker goes between, a row here and a row there: it keeps the latches of the last few, so
/// that tables that take turns cost no latch a row.
#[derive(Default)]
pub struct Latched<'h> {
    held: [Option<LatchGuard<'h, TablePart>>; 4],
    next: usize,
}

impl<'h> Latched<'h> {
    /// A table's share of a partition, latched. If another worker has it, all that are held are given back
    /// before this one waits: nobody waits for a latch while it has another.
    pub fn reach<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        place: (PartitionId, TableId),
        share: impl FnOnce((PartitionId, TableId)) -> &'h Latch<TablePart>,
    ) -> &mut TablePart {
        let held =
            |guard: &Option<LatchGuard<'h, TablePart>>| guard.as_ref().is_some_and(|g| g.place == place);
        let at = match self.held.iter().position(held) {
            Some(at) => at,
            None => self.take(cx, share(place)),
        };
        self.held[at].as_mut().expect("found or taken above")
    }

    /// Takes a latch in the place of the one taken longest ago.
    fn take<F: Fabric>(&mut self, cx: &Cx<F>, latch: &'h Latch<TablePart>) -> usize {
        let at = self.next;
        self.held[at] = None;
        let guard = latch.try_lock().unwrap_or_else(|| {
            self.give_back();
            latch.lock(cx)
        });
        self.held[at] = Some(guard);
        self.next = (at + 1) % self.held.len();
        at
    }

    /// Gives all latches back.
    pub fn give_back(&mut self) {
        self.held = [const { None }; 4];
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a worker that waits is a thread, and time passes")]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use liger_fabric::native::{Mapping, Native};
    use liger_fabric::{HostId, SyncAddr, WorkerId};

    use super::*;

    const PARTITION: PartitionId = PartitionId(0);

    fn parts() -> Vec<Latch<TablePart>> {
        let part = |table| TablePart::new((PARTITION, TableId(table)), (1, 8), SyncAddr::new(0));
        (0..6).map(|table| Latch::new(part(table))).collect()
    }

    fn cx() -> Cx<Native> {
        Cx::new(Native::new(Mapping::anonymous(4096).expect("memory")), HostId(0), WorkerId(0), 0)
    }

    fn reach<'h>(latched: &mut Latched<'h>, cx: &Cx<Native>, parts: &'h [Latch<TablePart>], table: u16) {
        let place = (PARTITION, TableId(table));
        let part = latched.reach(cx, place, |(_, table)| &parts[table.index()]);
        assert_eq!(part.place, place);
    }

    fn held(parts: &[Latch<TablePart>]) -> Vec<usize> {
        (0..parts.len()).filter(|i| parts[*i].try_lock().is_none()).collect()
    }

    #[test]
    fn the_last_four_are_kept_until_they_are_given_back() {
        let (cx, parts) = (cx(), parts());
        let mut latched = Latched::default();
        for table in [0, 1, 0, 2, 1, 3, 0] {
            reach(&mut latched, &cx, &parts, table);
        }
        assert_eq!(held(&parts), [0, 1, 2, 3]);
        reach(&mut latched, &cx, &parts, 4);
        reach(&mut latched, &cx, &parts, 5);
        assert_eq!(held(&parts), [2, 3, 4, 5], "the oldest went first");
        latched.give_back();
        assert!(held(&parts).is_empty());
        reach(&mut latched, &cx, &parts, 1);
        drop(latched);
        assert!(held(&parts).is_empty());
    }

    #[test]
    fn who_waits_has_given_back_what_it_had() {
        let parts = parts();
        let theirs = parts[2].try_lock().expect("free");
        let (tell, told) = mpsc::channel();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let cx = cx();
                let mut latched = Latched::default();
                reach(&mut latched, &cx, &parts, 0);
                reach(&mut latched, &cx, &parts, 1);
                tell.send(()).expect("the test waits");
                reach(&mut latched, &cx, &parts, 2);
            });
            told.recv().expect("it has two");
            let free = |table: usize| {
                (0..1000).any(|_| {
                    std::thread::sleep(Duration::from_millis(10));
                    parts[table].try_lock().is_some()
                })
            };
            let gave_back = free(0) && free(1);
            drop(theirs);
            assert!(gave_back, "it waits and has the other two");
        });
    }
}
