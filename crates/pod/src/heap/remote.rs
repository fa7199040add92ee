//! Slots freed by other hosts: push-only lists that their owner takes whole.
//!
//! A list runs through the free slots themselves: through the low half of a free word, or the first bytes of
//! a free block.

use liger_fabric::{Cx, DataAddr, Fabric, LINE, LatchGuard, SyncAddr};

use super::chunks::Class;
use super::pool::Pool;
use super::{Heap, Named, with_free};
use crate::error::damaged;

impl Heap {
    /// Pushes a freed slot on its owner's list. Nobody takes one slot off a list, so the head may well return
    /// to an earlier value between load and swap without harm. Where damage hides the owner, the slot is
    /// lost.
    pub(super) fn push<F: Fabric>(&self, cx: &Cx<F>, class: Class, offset: u64, named: Named) {
        let chunk = self.chunks(class).around(offset);
        let Some(word) = self.damage.whole(self.chunks(class).word(cx, chunk)) else { return };
        let owner = word.owner.filter(|_| word.class == Some(class));
        if named == Named::ByCaller {
            assert_eq!(word.class, Some(class), "a {} is freed at {offset:#x} in {word:?}", class.name());
            assert!(owner.is_some(), "{offset:#x} is freed in a free chunk");
        }
        let Some((owner, _)) = owner else {
            return self.damage.note(damaged("the chunk of a slot to give back", offset, 0));
        };
        let head = self.remote_head(owner, class);
        let mut seen = cx.load(head);
        loop {
            self.set_next(cx, class, offset, seen);
            match cx.compare_exchange(head, seen, offset) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    fn set_next<F: Fabric>(&self, cx: &Cx<F>, class: Class, offset: u64, next: u64) {
        if class.is_word() {
            let at = SyncAddr::new(offset);
            let kept = cx.load(at) & !u64::from(u32::MAX);
            cx.store(at, kept | (next / 8));
        } else {
            let at = DataAddr::new(offset);
            with_free(cx, at, LINE, || {
                cx.write(at, &next.to_le_bytes());
                // Not only written back: this host must not keep a line that it no longer owns.
                cx.invalidate(at, 8);
                cx.fence();
            });
        }
    }

    fn next<F: Fabric>(&self, cx: &Cx<F>, class: Class, offset: u64) -> u64 {
        if class.is_word() {
            return (cx.load(SyncAddr::new(offset)) & u64::from(u32::MAX)) * 8;
        }
        let (at, mut next) = (DataAddr::new(offset), [0; 8]);
        with_free(cx, at, LINE, || cx.refresh(at, &mut next));
        u64::from_le_bytes(next)
    }

    /// Takes a whole list: its newest slot, or 0.
    pub(super) fn take_list<F: Fabric>(&self, cx: &Cx<F>, head: SyncAddr) -> u64 {
        let mut at = cx.load(head);
        while at != 0 {
            match cx.compare_exchange(head, at, 0) {
                Ok(_) => break,
                Err(now) => at = now,
            }
        }
        at
    }

    /// The slot behind one on a list; none behind the last. A list that leads out of the heap ends there, and
    /// so does one that is longer than there are slots.
    fn onward<F: Fabric>(&self, cx: &Cx<F>, class: Class, at: u64, count: u64) -> Option<u64> {
        let next = if count == 0 { at } else { self.next(cx, class, at) };
        if next == 0 {
            return None;
        }
        let chunks = self.chunks(class);
        let whole = if class.is_word() { self.has_word(next) } else { chunks.may_hold(next, LINE as u64) };
        if whole && count <= chunks.count * chunks.bytes / 8 {
            return Some(next);
        }
        self.damage.note(damaged("the next slot on a list of free ones", next, 0));
        None
    }

    /// Slots on a list that was taken, and their bytes, as far as they lie in chunks of this host.
    pub(super) fn size_of_list<F: Fabric>(
        &self,
        cx: &Cx<F>,
        class: Class,
        pool: &Pool,
        first: u64,
    ) -> (u64, u64) {
        let (mut slots, mut bytes) = (0, 0);
        let mut here = self.onward(cx, class, first, 0);
        for count in 1.. {
            let Some(at) = here else { break };
            if let Some(chunk) = pool.chunk(self.chunks(class).around(at)) {
                slots += 1;
                bytes += self.slot_bytes(class, chunk.size);
            }
            here = self.onward(cx, class, at, count);
        }
        (slots, bytes)
    }

    /// Takes the whole list of slots that other hosts freed; how many. What lies in a chunk that is no longer
    /// this host's goes on to its owner.
    pub(super) fn drain<F: Fabric>(
        &self,
        cx: &Cx<F>,
        class: Class,
        pool: &mut LatchGuard<'_, Pool>,
    ) -> usize {
        let first = self.take_list(cx, self.remote_head(self.host, class));
        let mut here = self.onward(cx, class, first, 0);
        let mut count = 0;
        while let Some(at) = here {
            here = self.onward(cx, class, at, count + 1);
            if !self.is_in_use(class, pool, at) {
                self.damage.note(damaged("a slot on a list of free ones", at, 0));
                break;
            }
            if pool.chunk(self.chunks(class).around(at)).is_some() {
                self.put(cx, class, pool, at);
            } else {
                self.push(cx, class, at, Named::ByMemory);
            }
            count += 1;
        }
        count as usize
    }
}
