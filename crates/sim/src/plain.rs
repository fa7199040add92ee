//! The simplest access method: a relation's share of a partition is one map in one block of shared memory,
//! which a transaction of any host holds whole. It shows what a method is, and tests the door
//! (`liger_engine::method`): with rows beside it in the same transactions.
//!
//! ```text
//! word, in the directory  block 0..46   half in force 47   host that holds it, plus one 48..56; 0: not made
//! half of the block        version u64   rows u64   then each row: key, version u64, bytes
//! ```
//!
//! Invariants:
//! 1. Whoever holds the word of a map, and nobody else, reads the half in force and writes the other one.
//! 2. A commit writes the other half, fences, and turns the word to it: all of a map's changes show at once.
//! 3. A map's version is that of its last commit, which is above what it was: a record of a dead host changes
//!    the map if, and only if, it is newer.

mod held;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::{ControlFlow, Deref};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use liger_engine::instance::{Holder, Instance};
use liger_engine::log::record::Op;
use liger_engine::method::{
    Checked, Dead, Opens, Poll, Reached, RowLocation, Running, Serves, Stores, Transacts, Tries, View,
};
use liger_engine::protocol::{Flow, Show, Visitor};
use liger_engine::recovery::replay::RecoveredRow;
use liger_engine::recovery::{CopiedUpTo, RecoveryError, RestoreStep, Stored};
use liger_engine::{At, Conflict, Key, KeyRange, MethodId, Relation, Row, TableId, TxnError};
use liger_fabric::{Cx, DataAddr, Fabric, HostId, LINE, Latch, SyncAddr};
use liger_pod::heap::BlockClass;
use liger_pod::plan::PartitionId;

use held::{HeldMap, Image};

pub use held::PlainHeld;

/// Its number.
pub const PLAIN: MethodId = MethodId(200);
/// Names of the steps that a mutation test can leave out.
pub const SABOTAGE_STEPS: &[&str] =
    &["plain.invalidate", "plain.write-back", "plain.turn-after-fence", "plain.redo", "plain.only-newer"];

const HALF: usize = 4096;
const SECOND: u64 = 1 << 47;
const BLOCK: u64 = SECOND - 1;

/// Which map.
type Name = (PartitionId, TableId);

/// The maps, as one host sees them.
pub struct Plain {
    instance: Arc<Instance>,
    /// Which transactions of this host hold maps.
    holders: Latch<BTreeMap<Name, Holder>>,
    /// Maps of partitions that are not in shared memory: they leave this host, or are about to come.
    kept: Latch<BTreeMap<Name, Image>>,
    /// What could not be restored.
    failed: Latch<Option<RecoveryError>>,
    is_whole: AtomicBool,
}

impl Deref for Plain {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.instance
    }
}

type Txn<'t, 'h, F> = (&'t mut Running<'h, F>, &'t mut PlainHeld);

impl Plain {
    /// The maps of a host's partitions, made if there are none.
    pub fn new<F: Fabric>(cx: &Cx<F>, instance: Arc<Instance>) -> Self {
        let (holders, kept, failed) = (Latch::default(), Latch::default(), Latch::default());
        let plain = Self { instance, holders, kept, failed, is_whole: AtomicBool::new(true) };
        plain.own_partitions().for_each(|partition| plain.make_maps(cx, partition));
        plain
    }

    fn relations(&self) -> impl Iterator<Item = &Relation> {
        self.catalog().relations().iter().filter(|relation| relation.is_kept_by(PLAIN))
    }

    fn make_maps<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) {
        for name in self.relations().map(|relation| (partition, relation.id)) {
            if cx.load(self.word(name)) == 0 {
                let block = self.heap().alloc(cx, BlockClass::Scratch, 2 * HALF).expect("room for a map");
                let image = self.kept.lock(cx).remove(&name).unwrap_or_default();
                Self::write(cx, block.offset() | SECOND, &image);
                cx.fence();
                cx.store(self.word(name), block.offset());
                cx.fence();
            }
        }
    }

    fn word(&self, (partition, table): Name) -> SyncAddr {
        self.plan().directory(table.0, partition)
    }

    fn me(&self) -> u64 {
        (u64::from(self.id().0) + 1) << 48
    }

    /// Reads the half in force. The caller has the word, or nobody can have it.
    fn read<F: Fabric>(&self, cx: &Cx<F>, (_, table): Name, word: u64) -> Image {
        let at = DataAddr::new((word & BLOCK) + if word & SECOND != 0 { HALF as u64 } else { 0 });
        if !cx.sabotaged("plain.invalidate") {
            cx.invalidate(at, HALF);
            cx.fence();
        }
        let mut bytes = vec![0; HALF];
        cx.read(at, &mut bytes);
        let relation = self.catalog().relation(table).expect("a map is of a relation");
        let mut words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8")));
        let (version, count) = (words.next().expect("a word"), words.next().expect("a word"));
        let (key_bytes, each) = (8 * relation.key_words, 8 * relation.key_words + 8 + relation.row_len);
        assert!(16 + count as usize * each <= HALF, "a map of {count} rows");
        let row = |bytes: &[u8]| {
            let words = bytes[..key_bytes + 8].chunks_exact(8);
            let words: Vec<u64> = words.map(|w| u64::from_ne_bytes(w.try_into().expect("8"))).collect();
            let (key, version) = (Key::from_words(&words[..relation.key_words]), words[relation.key_words]);
            (key, (version, bytes[key_bytes + 8..].to_vec()))
        };
        let rows = bytes[16..].chunks_exact(each).take(count as usize).map(row).collect();
        Image { version, rows }
    }

    /// Writes the half that is not in force, and starts to write it back.
    fn write<F: Fabric>(cx: &Cx<F>, word: u64, image: &Image) {
        let mut bytes = Vec::with_capacity(HALF);
        bytes.extend(image.version.to_ne_bytes());
        bytes.extend((image.rows.len() as u64).to_ne_bytes());
        for (key, (version, row)) in &image.rows {
            key.words().iter().chain([version]).for_each(|word| bytes.extend(word.to_ne_bytes()));
            bytes.extend(row);
        }
        // Whole lines: what a cache has of the rest is old.
        bytes.resize(bytes.len().next_multiple_of(LINE), 0);
        let at = DataAddr::new((word & BLOCK) + if word & SECOND == 0 { HALF as u64 } else { 0 });
        cx.write(at, &bytes);
        if !cx.sabotaged("plain.write-back") {
            cx.write_back(at, bytes.len());
        }
    }

    /// Holds a map for a transaction, which holds it to its end; its number among those.
    fn hold<F: Fabric>(
        &self,
        (txn, held): (&mut Running<'_, F>, &mut PlainHeld),
        at: At<'_>,
    ) -> Result<usize, TxnError> {
        let (cx, name) = (txn.seat.cx, at.ids());
        if let Some(known) = held.0.iter().position(|map| map.name == name) {
            return Ok(known);
        }
        self.check_open(at.partition)?;
        let mut holders = self.holders.lock(cx);
        if let Some(other) = holders.get(&name) {
            txn.state.in_the_way = other.bit();
            return Err(Conflict::WriteLocked.into());
        }
        let word = cx.load(self.word(name));
        if word == 0 {
            return Err(Conflict::Partition.into());
        }
        if word >> 48 != 0 || cx.compare_exchange(self.word(name), word, word | self.me()).is_err() {
            return Err(Conflict::WriteLocked.into());
        }
        holders.insert(name, txn.state.me);
        drop(holders);
        let image = self.read(cx, name, word);
        txn.state.llsn = txn.state.llsn.max(image.version);
        held.0.push(HeldMap { name, word, image, keys: Vec::new(), made: BTreeMap::new(), wrote: false });
        Ok(held.0.len() - 1)
    }

    fn give_back<F: Fabric>(&self, cx: &Cx<F>, map: &HeldMap, word: u64) {
        let mut holders = self.holders.lock(cx);
        cx.store(self.word(map.name), word);
        holders.remove(&map.name);
    }

    /// As [`Plain::hold`]; waits for others.
    fn wait_for<F: Fabric>(
        &self,
        (txn, held): (&mut Running<'_, F>, &mut PlainHeld),
        at: At<'_>,
        view: View,
    ) -> Result<usize, TxnError> {
        let mut tries = Tries::default();
        loop {
            txn.state.in_the_way = 0;
            match self.hold((&mut *txn, &mut *held), at) {
                Err(TxnError::Conflict(conflict)) if view == View::Locked => {
                    tries.wait(self, (&mut *txn.state, &mut txn.seat), conflict)?;
                }
                ended => return ended,
            }
        }
    }
}

impl Transacts for Plain {
    type Held = PlainHeld;

    fn keeps(&self, method: MethodId) -> bool {
        method == PLAIN
    }

    fn point<F: Fabric>(
        &self,
        (txn, held): Txn<'_, '_, F>,
        at: At<'_>,
        key: &Key,
        view: View,
        visitor: &mut Visitor<'_>,
    ) -> Result<bool, TxnError> {
        let map = self.wait_for((&mut *txn, &mut *held), at, view)?;
        let map = &mut held.0[map];
        let Some((version, bytes)) = map.row(key) else {
            txn.state.note_read(at.table(), key, None);
            return Ok(false);
        };
        let (place, is_new) = map.number(key);
        if is_new {
            txn.state.note_read(at.table(), key, Some(version));
        }
        let row = (at.relation, place);
        Ok(txn.state.show(txn.seat.cx, row, key, (&bytes, version), visitor)?.is_some())
    }

    fn range<F: Fabric>(
        &self,
        (txn, held): Txn<'_, '_, F>,
        at: At<'_>,
        range: &KeyRange,
        view: View,
        visitor: &mut Visitor<'_>,
    ) -> Flow {
        let before = held.0.len();
        let map = self.wait_for((&mut *txn, &mut *held), at, view)?;
        // Of what is only looked at nothing is recorded, and nothing kept.
        let is_kept = view == View::Locked || map < before;
        let map = &mut held.0[map];
        let all: BTreeSet<Key> = map.image.rows.keys().chain(map.made.keys()).copied().collect();
        let (mut found, mut seen) = (Vec::new(), *range);
        let mut flow = ControlFlow::Continue(());
        for key in all.into_iter().filter(|key| range.contains(key)) {
            let (version, bytes) = map.row(&key).expect("a key of the map");
            if !map.made.contains_key(&key) {
                found.push((key, version));
            }
            let row = (at.relation, map.number(&key).0);
            let shown = txn.state.show(txn.seat.cx, row, &key, (&bytes, version), visitor)?;
            if shown.is_some_and(|flow| flow.is_break()) {
                (flow, seen.high) = (ControlFlow::Break(()), key.next());
                break;
            }
        }
        if is_kept {
            txn.state.note_range(at.table(), seen, found);
        } else {
            held.0.pop().into_iter().for_each(|map| self.give_back(txn.seat.cx, &map, map.word));
        }
        Ok(flow)
    }

    fn insert<F: Fabric>(
        &self,
        (txn, held): Txn<'_, '_, F>,
        at: At<'_>,
        key: &Key,
        bytes: &[u8],
    ) -> Result<bool, TxnError> {
        let map = self.wait_for((&mut *txn, &mut *held), at, View::Locked)?;
        let map = &mut held.0[map];
        let found = map.row(key);
        let (place, is_new) = map.number(key);
        match found {
            Some(_) if txn.state.core.work.revive(place, bytes) => Ok(true),
            Some((version, _)) => {
                if is_new {
                    txn.state.note_read(at.table(), key, Some(version));
                }
                Ok(false)
            }
            None => {
                map.made.insert(*key, bytes.to_vec());
                txn.state.core.work.begin_insert(place, at.table(), key, Some(bytes));
                Ok(true)
            }
        }
    }

    fn prepare<F: Fabric>(&self, (_, held): Txn<'_, '_, F>) -> Result<(), TxnError> {
        for map in &held.0 {
            let relation = self.catalog().relation(map.name.1)?;
            let rows = map.image.rows.len() + map.made.len();
            let needed = 16 + rows * (8 * relation.key_words + 8 + relation.row_len);
            if needed > HALF {
                return Err(TxnError::OutOfMemory { what: "a plain map", needed_bytes: needed as u64 });
            }
        }
        Ok(())
    }

    fn apply<F: Fabric>(&self, (txn, held): Txn<'_, '_, F>) -> bool {
        let (work, llsn) = (&txn.state.core.work, txn.state.llsn);
        for map in &mut held.0 {
            let is_its =
                |place: &RowLocation| place.method == PLAIN && (place.partition, place.table) == map.name;
            for change in work.changes.iter().filter(|change| is_its(&change.place)) {
                map.wrote = true;
                if change.deleted {
                    map.image.rows.remove(&change.key);
                    continue;
                }
                let mut bytes = match change.image {
                    Some((start, end)) => work.images[start as usize..end as usize].to_vec(),
                    None => map.image.rows[&change.key].1.clone(),
                };
                work.patches.apply(change.patches, &mut bytes);
                map.image.rows.insert(change.key, (llsn, bytes));
            }
            if map.wrote {
                map.image.version = llsn;
                Self::write(txn.seat.cx, map.word, &map.image);
                if txn.seat.cx.sabotaged("plain.turn-after-fence") {
                    txn.seat.cx.store(self.word(map.name), map.word ^ SECOND);
                }
            }
        }
        held.0.iter().any(|map| map.wrote)
    }

    fn release<F: Fabric>(&self, (txn, held): Txn<'_, '_, F>, committed: bool) {
        for map in held.0.drain(..) {
            let turned = if committed && map.wrote { SECOND } else { 0 };
            self.give_back(txn.seat.cx, &map, map.word ^ turned);
        }
    }

    fn park<F: Fabric>(&self, (txn, held): Txn<'_, '_, F>) {
        let mut holders = self.holders.lock(txn.seat.cx);
        held.0.iter().for_each(|map| _ = holders.insert(map.name, Holder::PARKED));
    }

    fn unpark<F: Fabric>(&self, (txn, held): Txn<'_, '_, F>) {
        let mut holders = self.holders.lock(txn.seat.cx);
        held.0.iter().for_each(|map| _ = holders.insert(map.name, txn.state.me));
    }
}

impl Serves for Plain {
    fn faults<F: Fabric>(&self, cx: &Cx<F>) -> Vec<String> {
        self.failed.lock(cx).iter().map(ToString::to_string).collect()
    }

    fn resolve<F: Fabric>(
        &self,
        cx: &Cx<F>,
        dead: &Dead,
        partition: PartitionId,
        _: bool,
        poll: Poll<'_>,
    ) -> Result<(), RecoveryError> {
        let (redoes, takes_all) = (!cx.sabotaged("plain.redo"), cx.sabotaged("plain.only-newer"));
        for relation in self.relations() {
            let name = (partition, relation.id);
            let word = cx.load(self.word(name));
            if word >> 48 != u64::from(dead.slot.host.0) + 1 {
                continue;
            }
            let free = word & (BLOCK | SECOND);
            let mut image = self.read(cx, name, free);
            let (before, mut redone) = (image.version, false);
            let is_newer = |llsn: u64| llsn > before || takes_all;
            let is_here = |key: &Key| relation.partition_of(key, self.partition_count()) == partition;
            let changes = dead.last_changes(relation.id);
            for (key, change) in changes.filter(|(key, change)| is_here(key) && is_newer(change.llsn)) {
                redone = redoes;
                image.version = image.version.max(change.llsn);
                if change.op == Op::Delete {
                    image.rows.remove(key);
                    continue;
                }
                let row = image.rows.entry(*key).or_insert_with(|| (0, vec![0; relation.row_len]));
                row.0 = change.llsn;
                for (offset, bytes) in &change.pieces {
                    row.1[usize::from(*offset)..][..bytes.len()].copy_from_slice(bytes);
                }
            }
            if redone {
                Self::write(cx, free, &image);
                cx.fence();
            }
            // A successor before this one may have done it.
            let _ = cx.compare_exchange(self.word(name), word, if redone { free ^ SECOND } else { free });
            poll();
        }
        Ok(())
    }

    fn lies_in<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        is_theirs: &dyn Fn(Option<(HostId, u16)>) -> bool,
    ) -> Result<bool, RecoveryError> {
        let words = self.relations().map(|relation| cx.load(self.word((partition, relation.id))));
        let mut blocks = words.filter(|word| *word != 0).map(|word| DataAddr::new(word & BLOCK));
        Ok(blocks.any(|block| is_theirs(self.heap().owner_of_block(cx, block))))
    }

    fn reach<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partitions: &BTreeSet<PartitionId>,
        in_use: &mut BTreeSet<u64>,
        then: Reached<'_>,
    ) -> Result<(), RecoveryError> {
        for &partition in partitions {
            let words = self.relations().map(|relation| cx.load(self.word((partition, relation.id))));
            in_use.extend(words.filter(|word| *word != 0).map(|word| word & BLOCK));
        }
        then(in_use)
    }

    fn make<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) {
        self.kept.lock(cx).retain(|name, _| name.0 != partition);
    }

    fn open<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId, _: Opens) -> Result<(), RecoveryError> {
        self.make_maps(cx, partition);
        Ok(())
    }

    fn withdraw<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        _: Poll<'_>,
    ) -> Result<bool, RecoveryError> {
        for name in self.relations().map(|relation| (partition, relation.id)) {
            let word = cx.load(self.word(name));
            if word == 0 {
                continue;
            }
            if word >> 48 != 0 || cx.compare_exchange(self.word(name), word, word | self.me()).is_err() {
                return Ok(false);
            }
            let image = self.read(cx, name, word);
            self.kept.lock(cx).insert(name, image);
            cx.store(self.word(name), 0);
            self.heap().free(cx, BlockClass::Scratch, DataAddr::new(word & BLOCK), 2 * HALF);
        }
        Ok(true)
    }
}

impl Stores for Plain {
    fn copy_rows<F: Fabric>(
        &self,
        cx: &Cx<F>,
        name: Name,
        from: &Key,
        most: usize,
        mut copy: impl FnMut(&Key, u64, &[u8]),
    ) -> CopiedUpTo {
        let word = cx.load(self.word(name));
        if word >> 48 != 0 || cx.compare_exchange(self.word(name), word, word | self.me()).is_err() {
            return CopiedUpTo::Locked(*from);
        }
        let image = self.read(cx, name, word);
        cx.store(self.word(name), word);
        let mut rows = image.rows.range(from..);
        rows.by_ref().take(most).for_each(|(key, (version, bytes))| copy(key, *version, bytes));
        rows.next().map_or(CopiedUpTo::End, |(key, _)| CopiedUpTo::Before(*key))
    }

    fn mark_unrestored<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId, stored: &Arc<Stored>) {
        for relation in self.relations() {
            let (name, mut image) = ((partition, relation.id), Image::default());
            let word = cx.load(self.word(name));
            // What is in shared memory is newer than what is stored.
            if word == 0 || self.owns(partition) {
                let mut spans = 0..stored.spans(relation.id);
                let made = spans.try_for_each(|span| {
                    let put = |row: RecoveredRow<'_>| {
                        image.version = image.version.max(row.version);
                        image.rows.insert(row.key, (row.version, row.bytes.to_vec()));
                        Ok(())
                    };
                    stored.make(cx, self.catalog(), (relation.id, span), put).map(drop)
                });
                if word == 0 && made.is_ok() {
                    self.kept.lock(cx).insert(name, image);
                    continue;
                }
                Self::write(cx, word, &image);
                cx.fence();
                // A map that is not whole is nobody's.
                cx.store(self.word(name), if made.is_ok() { word ^ SECOND } else { 0 });
                // When this has returned, all hosts may use it.
                cx.fence();
                if let Err(why) = made {
                    *self.failed.lock(cx) = Some(why);
                    self.is_whole.store(false, Ordering::Relaxed);
                }
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Relaxed)
    }

    fn restore_some<F: Fabric>(&self, cx: &Cx<F>) -> Result<RestoreStep, RecoveryError> {
        self.failed.lock(cx).clone().map_or(Ok(RestoreStep::Whole), Err)
    }

    fn restore_all<F: Fabric>(&self, cx: &Cx<F>, _: Poll<'_>) -> Result<(), RecoveryError> {
        self.failed.lock(cx).clone().map_or(Ok(()), Err)
    }

    fn put<F: Fabric>(&self, cx: &Cx<F>, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<(), TxnError> {
        let word = cx.load(self.word(at.ids()));
        let mut image = self.read(cx, at.ids(), word);
        if image.rows.insert(*key, (0, bytes.to_vec())).is_some() {
            return Err(TxnError::DuplicateKey { index: at.table() });
        }
        Self::write(cx, word, &image);
        cx.fence();
        cx.store(self.word(at.ids()), word ^ SECOND);
        cx.fence();
        Ok(())
    }

    fn each<F: Fabric>(
        &self,
        cx: &Cx<F>,
        of: &Relation,
        partition: PartitionId,
        show: Show<'_>,
    ) -> Result<(), TxnError> {
        let image = self.read(cx, (partition, of.id), cx.load(self.word((partition, of.id))));
        image.rows.iter().for_each(|(key, (_, bytes))| show(key, Row::new(bytes)));
        Ok(())
    }

    fn check<F: Fabric>(&self, cx: &Cx<F>, checked: &mut Checked, in_use: &mut BTreeSet<u64>) {
        for partition in self.own_partitions() {
            for relation in self.relations() {
                let word = cx.load(self.word((partition, relation.id)));
                if word == 0 || word >> 48 != 0 {
                    checked.problems.push(format!("map of {partition}, {} has {word:x}", relation.name));
                    continue;
                }
                in_use.insert(word & BLOCK);
                checked.rows += self.read(cx, (partition, relation.id), word).rows.len() as u64;
            }
        }
    }
}
