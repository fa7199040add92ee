//! What is where: the audit of a host's chunks, and the takeover of a dead host's chunks.
//!
//! Both compare chunks with a set of offsets that the caller knows to be in use.

use std::collections::BTreeSet;

use liger_fabric::{Cx, DataAddr, Fabric, HostId, SyncAddr};

use super::chunks::{ChunkWord, Class};
use super::pool::{Chunk, Pool, Shape};
use super::sizes::bytes_of_size;
use super::{BlockClass, Heap, WordClass};
use crate::error::PodError;

/// What is in one host's chunks of one class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassAudit {
    /// Name of the class.
    pub class: &'static str,
    /// Chunks.
    pub chunks: u64,
    /// Slots in use.
    pub live: u64,
    /// Slots free.
    pub free: u64,
    /// Offsets in use that are not among the reachable ones.
    pub leaked: Vec<u64>,
    /// Reachable offsets in these chunks that are not in use (or not the start of a slot).
    pub dangling: Vec<u64>,
}

/// What is in one host's chunks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Audit {
    /// One entry per class: tuple words, mapping words, rows, nodes, scratch blocks, cells, loose rows.
    pub classes: Vec<ClassAudit>,
}

impl Audit {
    /// True when what is in use is exactly what is reachable.
    pub fn is_clean(&self) -> bool {
        self.classes.iter().all(|c| c.leaked.is_empty() && c.dangling.is_empty())
    }
}

/// A slot of a dead host's chunk that nothing reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Orphan {
    /// A block: class, address, length in bytes.
    Block(BlockClass, DataAddr, usize),
    /// A sync word.
    Word(WordClass, SyncAddr),
}

impl Heap {
    /// Compares this host's chunks with the offsets (words and blocks, of any host) that the caller can
    /// reach. Means something only while nobody allocates or frees.
    pub fn audit<F: Fabric>(&self, cx: &Cx<F>, reachable: &BTreeSet<u64>) -> Audit {
        self.tidy(cx);
        let classes = Class::ALL.map(|class| self.audit_class(cx, class, reachable)).into();
        Audit { classes }
    }

    /// Bytes in use in this host's chunks, of words and blocks, and rows with a cell each. Of all hosts it is
    /// what their accounts say ([`Heap::usage`]), once each has taken back what the others freed
    /// ([`Heap::tidy`]), and while nobody allocates or frees.
    pub fn used<F: Fabric>(&self, cx: &Cx<F>) -> (u64, u64) {
        let of_class = |class: Class| -> u64 {
            let pool = self.pools[class as usize].lock(cx);
            let bytes = |chunk: &Chunk| u64::from(chunk.live_count()) * self.slot_bytes(class, chunk.size);
            pool.chunks().map(|(_, chunk)| bytes(chunk)).sum()
        };
        let rows =
            self.pools[Class::Row as usize].lock(cx).chunks().map(|(_, c)| u64::from(c.live_count())).sum();
        (Class::ALL.into_iter().map(of_class).sum(), rows)
    }

    fn audit_class<F: Fabric>(&self, cx: &Cx<F>, class: Class, reachable: &BTreeSet<u64>) -> ClassAudit {
        let pool = self.pools[class as usize].lock(cx);
        let (mut chunks, mut live, mut free) = (0, 0, 0);
        let (mut leaked, mut dangling) = (Vec::new(), Vec::new());
        for (number, chunk) in pool.chunks() {
            chunks += 1;
            live += u64::from(chunk.live_count());
            free += u64::from(chunk.slot_count() - chunk.live_count());
            let offsets = chunk.live().map(|slot| self.offset_of(class, chunk.stride, number, slot));
            leaked.extend(offsets.filter(|o| !reachable.contains(o)));
            let start = self.chunks(class).offset(number);
            let inside = reachable.range(start..start + self.chunks(class).bytes).copied();
            dangling.extend(inside.filter(|&o| {
                let slot = self.slot_at(class, chunk.stride, o - start);
                !chunk.is_live(slot) || self.offset_of(class, chunk.stride, number, slot) != o
            }));
        }
        ClassAudit { class: class.name(), chunks, live, free, leaked, dangling }
    }

    /// Takes over the chunks that `dead` owned in its `incarnation` (a dead host, or an earlier
    /// incarnation of this one). `in_use` is everything in these chunks that is in use, retired things
    /// included; nobody else may allocate from them or free into them meanwhile. Everything else in them is
    /// in use from now on, too, and added to `orphans`: readers of other hosts may still be looking at it, so
    /// it has to be retired ([`Epochs::adopt`](crate::epochs::Epochs::adopt) does both). The accounts go over
    /// with the chunks: they are exact if all that the dead host freed lay in its own, and all that others
    /// freed in these after its death. May be repeated if the adopter dies, too.
    ///
    /// # Errors
    /// [`PodError::Damaged`] if words that say whose a chunk is, or where its cells are, make no sense: such
    /// chunks stay as they are, all others have been taken over.
    pub fn adopt<F: Fabric>(
        &self,
        cx: &Cx<F>,
        dead: HostId,
        incarnation: u16,
        in_use: &BTreeSet<u64>,
        orphans: &mut Vec<Orphan>,
    ) -> Result<(), PodError> {
        let (mut rows, mut found) = (0, Ok(()));
        for class in [Class::BLOCKS.as_slice(), &[Class::Tuple, Class::Mapping]].concat() {
            let mut pool = self.pools[class as usize].lock(cx);
            let chunks = self.chunks(class);
            let (mut live, mut reserved) = (0, 0);
            for chunk in 0..chunks.count as u32 {
                let theirs = (Some((dead, incarnation)), Some(class));
                let word = match chunks.word(cx, chunk) {
                    Ok(word) if (word.owner, word.class) == theirs => word,
                    Ok(_) => continue,
                    Err(damage) => {
                        found = Err(damage);
                        continue;
                    }
                };
                let bond = if class == Class::Row { self.bond(cx, chunk) } else { Ok(None) };
                let bond = match bond {
                    Ok(bond) => bond,
                    Err(damage) => {
                        found = Err(damage);
                        continue;
                    }
                };
                if class == Class::Row && bond.is_none() {
                    // It died before its cells were complete: nothing was handed out.
                    chunks.hand_over(cx, chunk, word, ChunkWord { owner: None, ..word });
                    continue;
                }
                chunks.hand_over(cx, chunk, word, self.my_word(class, word.size));
                let shape = self.shape(class, word.size, bond);
                let slots = self.fill(&mut pool, class, shape, chunk, in_use, orphans);
                live += u64::from(slots) * self.slot_bytes(class, word.size);
                rows += if class == Class::Row { u64::from(slots) } else { 0 };
                reserved += chunks.bytes;
            }
            // What others had freed is among the orphans: in use once more.
            let freed = self.take_list(cx, self.remote_head(dead, class));
            let (slots, bytes) = self.size_of_list(cx, class, &pool, freed);
            rows += if class == Class::Row { slots } else { 0 };
            self.account(cx, class, &mut pool, (live + bytes) as i64, reserved as i64);
            if dead != self.host {
                self.clear_accounts(cx, dead, class);
            }
        }
        let cells = self.adopt_cells(cx, (dead, incarnation), rows);
        // There may be words for cells again.
        self.pools[Class::Row as usize].lock(cx).exhausted_at = None;
        found.and(cells)
    }

    /// Forgets what a dead host has put into the accounts of a class; its chunks are another host's now.
    pub(super) fn clear_accounts<F: Fabric>(&self, cx: &Cx<F>, dead: HostId, class: Class) {
        let at = self.plan.heap_lines(dead).word(class as u64);
        for at in [at, at.line(1)] {
            let seen = cx.load(at);
            let _ = cx.compare_exchange(at, seen, 0);
        }
    }

    /// Adds a chunk all of whose slots are in use, and lists those that nothing reaches; how many it has.
    fn fill(
        &self,
        pool: &mut Pool,
        class: Class,
        shape: Shape,
        chunk: u32,
        in_use: &BTreeSet<u64>,
        orphans: &mut Vec<Orphan>,
    ) -> u32 {
        let Shape { size, slots, stride, .. } = shape;
        pool.add(chunk, shape);
        for _ in 0..slots {
            let slot = pool.take_from(chunk).expect("as many as it has");
            let at = self.offset_of(class, stride, chunk, slot);
            if in_use.contains(&at) {
                continue;
            }
            let block = |class| Orphan::Block(class, DataAddr::new(at), bytes_of_size(size));
            orphans.push(match class {
                Class::Tuple => Orphan::Word(WordClass::Tuple, SyncAddr::new(at)),
                Class::Mapping => Orphan::Word(WordClass::Mapping, SyncAddr::new(at)),
                Class::Row => block(BlockClass::Row),
                Class::Loose => block(BlockClass::Loose),
                Class::Node => block(BlockClass::Node),
                Class::Scratch => block(BlockClass::Scratch),
                Class::Cells => unreachable!("cells have no slots"),
            });
        }
        slots
    }
}
