//! Checks of a pod at rest: no transaction runs.
//!
//! Checked: every row is alive and unlocked, and its bytes are not younger than its word; every partition
//! ends; the indexes' own structure; and the heap: what is in use is what can be reached.

use std::collections::BTreeSet;

use liger_fabric::{Cx, Fabric};

use super::host::ShmHost;
use super::word::State;
use crate::catalog::Relation;
use crate::key::Key;
use crate::txn::TxnError;

impl ShmHost {
    /// What is wrong with the pod, and with this host's chunks of its memory. Reclamation should have caught
    /// up; what is still waiting for a grace period is reported as a leak.
    ///
    /// # Errors
    /// If an index cannot be read.
    pub fn check<F: Fabric>(&self, cx: &Cx<F>) -> Result<Vec<String>, TxnError> {
        let (mut problems, mut reachable) = (Vec::new(), BTreeSet::new());
        for relation in self.catalog.relations().iter().filter(|relation| !relation.replicated) {
            for partition in 0..self.partition_count() {
                self.check_part(cx, (relation, partition), &mut problems, &mut reachable)?;
            }
        }
        for class in self.heap.audit(cx, &reachable).classes {
            let (leaked, dangling) = (class.leaked.len(), class.dangling.len());
            if leaked + dangling > 0 {
                problems.push(format!("{}: {leaked} leaked, {dangling} dangling", class.class));
            }
        }
        Ok(problems)
    }

    fn check_part<F: Fabric>(
        &self,
        cx: &Cx<F>,
        (relation, partition): (&Relation, u16),
        problems: &mut Vec<String>,
        reachable: &mut BTreeSet<u64>,
    ) -> Result<(), TxnError> {
        let mut wrong = |what: String| problems.push(format!("{}, {partition}: {what}", relation.name));
        let end = Key::greatest(relation.key_words);
        let (mut ends, mut bytes) = (false, Vec::new());
        self.each_entry(cx, (relation, partition), |key, at| {
            let word = self.look(cx, at);
            reachable.insert(at.word.offset());
            if word.state() != State::Live || word.lease().writer != 0 {
                wrong(format!("{key:?} at rest has the word {word:?}"));
            }
            if *key == end {
                ends = true;
                return;
            }
            reachable.insert(at.block.offset());
            bytes.clear();
            match self.read(cx, at, relation.row_len, &mut bytes) {
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
        match self.index(relation, partition).check(cx, &self.tree_env()) {
            Ok(census) => {
                reachable.extend(census.words.iter().map(|word| word.offset()));
                reachable.extend(census.records.iter().map(|(at, _)| at.offset()));
            }
            Err(broken) => wrong(format!("index: {broken}")),
        }
        Ok(())
    }
}
