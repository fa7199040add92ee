//! Checks of a pod at rest: no transaction runs.
//!
//! Checked: every row is unlocked, and alive unless its entry waits to be taken out; its bytes are not
//! younger than its word; every partition ends; the indexes' own structure; and the heap: what is in use is
//! what can be reached.

use std::collections::BTreeSet;

use liger_fabric::{Cx, Fabric};
use liger_store::bwtree::{Entries, Trace};

use super::host::ShmHost;
use super::rows::RowAt;
use super::word::State;
use liger_engine::protocol::tree_error;
use liger_engine::{At, Key, TxnError};

/// What a check of the pod from one host found.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Entries in the whole pod that lead to dead words: rows were removed, and there was no memory to take
    /// them out.
    pub dead_entries: usize,
    /// As many of them as this host knows of and will take out.
    pub known_here: usize,
    /// Everything that is wrong, in words.
    pub problems: Vec<String>,
}

/// Entries of an index that are read at once.
const BATCH: usize = 64;

impl ShmHost {
    /// What is wrong with the pod, and with this host's chunks of its memory. Reclamation should have caught
    /// up; what is still waiting for a grace period is reported as a leak.
    ///
    /// # Errors
    /// If an index cannot be read.
    pub fn check<F: Fabric>(&self, cx: &Cx<F>) -> Result<Checked, TxnError> {
        let mut reachable = BTreeSet::new();
        let known_here = self.leftovers.lock(cx).len();
        let mut checked = Checked { known_here, ..Checked::default() };
        for relation in self.catalog.relations().iter().filter(|relation| !relation.replicated) {
            for partition in self.plan.partitions() {
                self.check_part(cx, At::new(relation, partition), &mut checked, &mut reachable)?;
            }
        }
        for class in self.heap.audit(cx, &reachable).classes {
            let (leaked, dangling) = (class.leaked.len(), class.dangling.len());
            if leaked + dangling > 0 {
                let class = class.class;
                checked.problems.push(format!("{class}: {leaked} leaked, {dangling} dangling"));
            }
        }
        Ok(checked)
    }

    /// Shows the rows of a relation in a partition, with their places, from the first to the end's entry.
    pub(super) fn each_entry<F: Fabric>(
        &self,
        cx: &Cx<F>,
        at: At<'_>,
        mut show: impl FnMut(&Key, RowAt),
    ) -> Result<(), TxnError> {
        let (mut entries, mut trace) = (Entries::default(), Trace::new());
        let mut from = Some(Key::zero(at.relation.key_words));
        while let Some(low) = from {
            entries.clear();
            trace.clear();
            let index = self.index(at);
            let read = index.scan(cx, &self.tree_env(), low.words(), None, BATCH, &mut entries, &mut trace);
            read.map_err(|error| tree_error(at.table(), error))?;
            from = None;
            for (words, entry) in entries.iter() {
                let key = Key::from_words(words);
                show(&key, RowAt::of_entry(entry));
                from = key.next();
            }
        }
        Ok(())
    }

    fn check_part<F: Fabric>(
        &self,
        cx: &Cx<F>,
        at: At<'_>,
        checked: &mut Checked,
        reachable: &mut BTreeSet<u64>,
    ) -> Result<(), TxnError> {
        let At { relation, partition } = at;
        let Checked { dead_entries, problems, .. } = checked;
        let mut wrong = |what: String| problems.push(format!("{}, {partition}: {what}", relation.name));
        let end = Key::greatest(relation.key_words);
        let (mut ends, mut bytes) = (false, Vec::new());
        self.each_entry(cx, at, |key, row| {
            let word = self.look(cx, row);
            reachable.insert(row.word.offset());
            if word.state() == State::Dead {
                *dead_entries += 1;
                reachable.insert(row.block.offset());
                return;
            }
            if word.state() != State::Live || word.lease().writer != 0 {
                wrong(format!("{key:?} at rest has the word {word:?}"));
            }
            if *key == end {
                ends = true;
                return;
            }
            reachable.insert(row.block.offset());
            bytes.clear();
            match self.read(cx, row, relation.row_len, &mut bytes) {
                Ok((lease, version)) if version > lease.wts => {
                    wrong(format!("{key:?}: bytes of {version}, word of {}", lease.wts));
                }
                Ok(_) => {}
                Err(refusal) => wrong(format!("{key:?} cannot be read: {refusal:?}")),
            }
        })?;
        if !ends {
            wrong("it has no end".to_owned());
        }
        match self.index(at).check(cx, &self.tree_env()) {
            Ok(census) => {
                reachable.extend(census.words.iter().map(|word| word.offset()));
                reachable.extend(census.records.iter().map(|(at, _)| at.offset()));
            }
            Err(broken) => wrong(format!("index: {broken}")),
        }
        Ok(())
    }
}
