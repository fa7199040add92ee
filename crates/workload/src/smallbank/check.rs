//! Is all the money there after a run?
//!
//! 1. Every customer has one savings and one checking account.
//! 2. All balances add up to the initial ones, the deposits acknowledged, less the withdrawals acknowledged.
//! 3. The rows' counters of changes add up to the changes acknowledged: two wrongs that cancel each other out
//!    in money do not in number.

use liger_engine::Row;

use super::workload::{CHANGES, DEPOSITED, WITHDRAWN};
use super::{START_CENTS, SmallBank, checking, savings};
use crate::benchmark::Verdict;
use crate::findings::Findings;
use crate::snapshot::{Acknowledged, Snapshot};

pub(super) fn check(bank: &SmallBank, rows: &dyn Snapshot, told: Acknowledged<'_>) -> Verdict {
    let mut findings = Findings::default();
    let tables = bank.tables();
    let (mut cents, mut changes) = (0i64, 0u64);
    type Columns = fn(Row<'_>) -> (i16, i32, i64, i32);
    let of_savings: Columns = |row| {
        (row.get(savings::P), row.get(savings::ID), row.get(savings::BALANCE), row.get(savings::CHANGES))
    };
    let of_checking: Columns = |row| {
        (row.get(checking::P), row.get(checking::ID), row.get(checking::BALANCE), row.get(checking::CHANGES))
    };
    for (name, table, columns) in
        [("savings", tables.savings, of_savings), ("checking", tables.checking, of_checking)]
    {
        let customers = bank.customers as usize;
        let mut seen = vec![false; customers * usize::from(bank.partitions)];
        rows.rows(table, &mut |row| {
            let (p, id, balance, changed) = columns(row);
            let number = usize::try_from(id).ok().filter(|id| *id < customers);
            let partition = usize::try_from(p).ok().filter(|p| *p < usize::from(bank.partitions));
            let Some((number, partition)) = number.zip(partition) else {
                findings.report("accounts", || format!("{name} {id} of partition {p} is nobody's"));
                return;
            };
            if std::mem::replace(&mut seen[partition * customers + number], true) {
                findings.report("accounts", || format!("{name} {id} of partition {p} is there twice"));
            }
            cents = cents.wrapping_add(balance);
            changes += u64::from(changed as u32);
        });
        let missing = seen.iter().filter(|seen| !**seen).count();
        if missing > 0 {
            findings.report("accounts", || format!("{missing} of {name} are missing"));
        }
    }
    let initial = 2 * START_CENTS * bank.all_customers() as i64;
    // Compared modulo 2^64, as balances may be negative.
    findings.compare_exact(told, "cents", cents as u64, |told| {
        (initial as u64).wrapping_add(told(DEPOSITED)).wrapping_sub(told(WITHDRAWN))
    });
    findings.compare(told, "changes of accounts", changes, |told| told(CHANGES));
    findings.verdict()
}
