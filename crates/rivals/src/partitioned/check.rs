//! Checking a host of a partitioned pod that is at rest.

use liger_fabric::{Cx, Fabric};

use super::host::PartHost;
use liger_engine::Key;
use liger_engine::protocol::each_key;

impl PartHost {
    /// What is wrong with this host, of a pod at rest: locks that nobody gave back, rows that no key leads
    /// to, leases that end before they begin.
    pub fn check<F: Fabric>(&self, cx: &Cx<F>) -> Vec<String> {
        let mut problems = Vec::new();
        for partition in self.own_partitions() {
            for part in self.partition(cx, partition).tables.iter().flatten() {
                let mut known = 1;
                let mut look = |key: Option<Key>, row: u32| {
                    let (writer, readers) = (part.rows.aux(row), part.rows.stamp(row));
                    let mut wrong = |what: String| problems.push(format!("{partition} {key:?}: {what}"));
                    if writer != 0 {
                        wrong(format!("locked by {writer}"));
                    }
                    match self.rules.protocol {
                        super::Protocol::Ds2pl if readers != 0 => wrong(format!("{readers} readers")),
                        super::Protocol::Sundial
                            if part.rows.version(row).max(readers) > part.rows.shared(row) =>
                        {
                            wrong("a lease that ends before it begins".to_owned());
                        }
                        _ => {}
                    }
                };
                look(None, part.sentinel);
                each_key(&part.tree, |key, row| {
                    known += 1;
                    look(Some(key), row);
                });
                if known != part.rows.len() {
                    problems.push(format!("{partition}: {known} rows by key, {} in all", part.rows.len()));
                }
            }
        }
        problems
    }
}
