//! Checks of the row engine's invariants in a pod at rest: no transaction runs, no message is under way.
//!
//! Checked: every lock is free; nothing uncommitted is left; the shared index holds exactly the shared rows,
//! under their keys and words; words are live and lead to a block that names the row; neighbour bits tell the
//! truth; checksums of blocks; the index's own structure; and the heap: what is in use is what can be
//! reached from here.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use liger_fabric::{Cx, Fabric};
use liger_pod::plan::PartitionId;
use liger_store::bwtree::{Entries, Trace, TreeError};

use super::block::{RowHead, block_is};
use super::moves::sentinel_key;
use super::partition::{RowId, TablePart};
use super::rows::Rows;
use crate::method::Checked;
use crate::protocol::relational::each_key;
use crate::tables::key::Key;
use crate::txn::TableId;

impl Rows {
    /// Checks this host's partitions, and adds the shared memory that they use.
    pub(super) fn check_rows<F: Fabric>(
        &self,
        cx: &Cx<F>,
        checked: &mut Checked,
        reachable: &mut BTreeSet<u64>,
    ) {
        self.reach_old_blocks(cx, reachable);
        self.copies.lock(cx).reach(reachable);
        let damaged = self.moves.rows_damaged.load(Ordering::Relaxed);
        if damaged > 0 {
            checked.problems.push(format!("{damaged} blocks of shared rows were found damaged"));
        }
        for partition in self.own_partitions() {
            for relation in self.relations() {
                let part = self.part(cx, (partition, relation.id));
                self.check_part(cx, &part, (partition, relation.id), checked, reachable);
            }
        }
    }

    /// Shared memory in use in this host's chunks: see [`Heap::used`].
    ///
    /// [`Heap::used`]: liger_pod::heap::Heap::used
    pub fn used<F: Fabric>(&self, cx: &Cx<F>) -> (u64, u64) {
        self.heap.tidy(cx);
        self.heap.used(cx)
    }

    fn check_part<F: Fabric>(
        &self,
        cx: &Cx<F>,
        part: &TablePart,
        place: (PartitionId, TableId),
        checked: &mut Checked,
        reachable: &mut BTreeSet<u64>,
    ) {
        part.tree.check();
        let (partition, table) = place;
        let mut rows: Vec<(Key, RowId)> = Vec::new();
        each_key(&part.tree, |key, row| rows.push((key, row)));
        checked.rows += rows.len() as u64;
        rows.push((sentinel_key(part.key_words), part.sentinel));
        let Checked { problems, trusting_hosts, shared_rows, .. } = checked;
        let mut wrong = |what: String| {
            problems.push(format!("table {table} partition {partition}: {what}"));
        };
        if part.rows.len() != rows.len() {
            wrong(format!("{} rows in the slab, {} in the tree", part.rows.len(), rows.len()));
        }
        let mut shared = Vec::new();
        for (i, (key, row)) in rows.iter().enumerate() {
            let holders = part.rows.holders(*row);
            if holders.readers != 0 || holders.writer != 0 || holders.gap != 0 || part.is_uncommitted(*row) {
                wrong(format!("{key:?} is held by its owner: {holders:?}"));
            }
            let Some(at) = part.address(*row) else { continue };
            let word = self.shared.peek(cx, at);
            shared.push((*key, at.raw()));
            reachable.insert(at.block().offset());
            if !word.is_live() || !word.is_free() {
                self.shared.freshen(cx, at.block(), part.block_len());
                let head: RowHead = cx.read_layout(at.block());
                wrong(format!("{key:?} at rest has the word {word:?}, and the version {:#x}", head.llsn));
                continue;
            }
            let trusting = word.valid().count_ones();
            *trusting_hosts = trusting.max(*trusting_hosts);
            if !self.shared.is_fresh(cx, word) {
                self.shared.freshen(cx, at.block(), part.block_len());
            }
            match block_is(cx, at.block(), place, key) {
                None => wrong(format!("{key:?}: its block holds another row")),
                Some(head) if !word.is_modified() && head.llsn != part.rows.version(*row) => wrong(format!(
                    "{key:?}: version {} in DRAM, {} shared, but unmodified",
                    part.rows.version(*row),
                    head.llsn
                )),
                Some(_) => {}
            }
            if !self.shared.is_sound(cx, at.block(), part.shape()) {
                wrong(format!("{key:?}: the checksum of its block does not fit"));
            }
            let neighbour =
                |row: Option<&(Key, RowId)>| row.is_some_and(|(_, row)| part.address(*row).is_some());
            if word.next_real() && !neighbour(rows.get(i + 1)) {
                wrong(format!("{key:?} vouches for a next key that is not shared"));
            }
            if word.prev_real() && i > 0 && !neighbour(rows.get(i - 1)) {
                wrong(format!("{key:?} vouches for a previous key that is not shared"));
            }
        }
        *shared_rows += shared.len() as u64;
        // Freed when their entries go.
        self.check_index(cx, part, &shared, &mut wrong, reachable);
    }

    fn check_index<F: Fabric>(
        &self,
        cx: &Cx<F>,
        part: &TablePart,
        shared: &[(Key, u64)],
        wrong: &mut impl FnMut(String),
        reachable: &mut BTreeSet<u64>,
    ) {
        match part.index.check(cx, &self.tree_env()) {
            Ok(census) => {
                reachable.extend(census.words.iter().map(|word| word.offset()));
                reachable.extend(census.records.iter().map(|(at, _)| at.offset()));
            }
            // There was no room for it, and no row is in it.
            Err(TreeError::NotFormatted { .. }) if part.lacks_index && shared.is_empty() => return,
            Err(broken) => wrong(format!("shared index: {broken}")),
        }
        let (mut entries, mut trace) = (Entries::default(), Trace::new());
        let from = Key::zero(part.key_words);
        let scanned =
            part.index.scan(cx, &self.tree_env(), from.words(), None, usize::MAX, &mut entries, &mut trace);
        if let Err(broken) = scanned {
            return wrong(format!("shared index: {broken}"));
        }
        let indexed: Vec<(Key, u64)> = entries.iter().map(|(k, v)| (Key::from_words(k), v)).collect();
        // Entries that could not be taken out yet lead nowhere, but they are there.
        let mut expected = shared.to_vec();
        expected.extend(part.stale.iter().map(|(key, at)| (*key, at.raw())));
        expected.sort_unstable();
        if indexed != expected {
            wrong(format!(
                "{} rows are shared, {} entries are stale, and {} are in the shared index, or other ones",
                shared.len(),
                part.stale.len(),
                indexed.len()
            ));
        }
    }
}
