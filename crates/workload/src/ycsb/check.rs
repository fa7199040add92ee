//! Is the whole table right after a run?
//!
//! 1. Every row that was loaded is there once, and every row is whole: all its bytes are of one version.
//! 2. The rows' counters add up to the updates acknowledged. So none is lost and none was made twice, except
//!    as many of one as of the other.
//! 3. The rows that are there beyond the loaded ones are those inserted and not deleted: as many, and with
//!    the same sum of hashes of their keys.

use liger_engine::TableId;

use super::Ycsb;
use super::row::{self, Id};
use super::workload::{DELETED_KEYS, DELETES, INSERTED_KEYS, INSERTS, UPDATES};
use crate::benchmark::Verdict;
use crate::findings::Findings;
use crate::snapshot::{Acknowledged, Snapshot};

pub(super) fn check(ycsb: &Ycsb, table: TableId, rows: &dyn Snapshot, told: Acknowledged<'_>) -> Verdict {
    let mut findings = Findings::default();
    let keys = ycsb.keys as usize;
    let mut seen = vec![false; keys * usize::from(ycsb.homes)];
    let (mut updates, mut inserted, mut hashes) = (0u64, 0u64, 0u64);
    rows.rows(table, &mut |row| {
        let placed = row::id_of(row).and_then(|id| Some((id, ycsb.placing().home_of(id)?)));
        let Some((id, home)) = placed else {
            findings.report("keys", || format!("{:?} is of no partition", &row.bytes()[..6]));
            return;
        };
        let Id { partition, number } = id;
        if !row::read(id, ycsb.change_bytes, row, true) {
            findings.report("rows", || format!("row {number} of partition {partition} is not one version"));
        }
        updates += u64::from(row::updates(row));
        if (number as usize) < keys {
            let place = &mut seen[usize::from(home) * keys + number as usize];
            if std::mem::replace(place, true) {
                findings.report("keys", || format!("row {number} of partition {partition} is there twice"));
            }
        } else {
            inserted += 1;
            hashes += id.hash();
        }
    });
    for at in seen.iter().enumerate().filter(|(_, seen)| !**seen).map(|(at, _)| at) {
        findings.report("keys", || format!("row {} of home {} is missing", at % keys, at / keys));
    }
    findings.compare(told, UPDATES, updates, |told| told(UPDATES));
    findings.compare_exact(told, "rows inserted and not deleted", inserted, |told| {
        told(INSERTS).wrapping_sub(told(DELETES))
    });
    findings.compare_exact(told, "their keys' hashes", hashes, |told| {
        told(INSERTED_KEYS).wrapping_sub(told(DELETED_KEYS))
    });
    findings.verdict()
}
