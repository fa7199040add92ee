//! Is the whole database right after a run?
//!
//! The initial database is made again and both are summed up in the same way. What no transaction changes is
//! as it was. The flags, data and locations add up to the initial ones and those acknowledged as written,
//! less those acknowledged as replaced. The call forwardings are the initial ones and those inserted, less
//! those deleted. So an update that is lost, or that overwrote one that it had not seen, is found.

use liger_engine::{Row, TableId};

use super::schema::{call_forwarding, special_facility, subscriber};
use super::workload::{DELETED_KEYS, DELETES, INSERTED_KEYS, INSERTS, REPLACED, WRITTEN, forwarding_hash};
use super::{Tables, Tatp};
use crate::benchmark::{Benchmark, Verdict};
use crate::findings::Findings;
use crate::random::Rng;
use crate::snapshot::{Acknowledged, Snapshot};

/// A database summed up.
#[derive(Default)]
struct Sums {
    /// Rows of subscriber, access_info and special_facility.
    rows: [u64; 3],
    /// Hashes of what does not change, by table.
    fixed: [u64; 3],
    /// Flags, data and locations.
    values: u64,
    forwardings: u64,
    forwarding_keys: u64,
    /// Call forwardings that end before they begin, or begin at no such time.
    wrong: u64,
}

/// The row's bytes without those of the columns that transactions change, which begin and end here.
fn hash_without(row: Row<'_>, changing: &[(usize, usize)]) -> u64 {
    let mut bytes = row.bytes().to_vec();
    changing.iter().for_each(|(from, to)| bytes[*from..*to].fill(0));
    let words: Vec<u64> = bytes
        .chunks(8)
        .map(|piece| piece.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)))
        .collect();
    Rng::keyed(0, &words).next_u64()
}

impl Sums {
    fn add(&mut self, tables: &Tables, table: TableId, row: Row<'_>) {
        if table == tables.call_forwarding {
            use call_forwarding::*;
            let (start, end) = (row.get(START_TIME), row.get(END_TIME));
            self.forwardings += 1;
            let hash = forwarding_hash((row.get(P), row.get(S_ID)), row.get(SF_TYPE), start);
            self.forwarding_keys = self.forwarding_keys.wrapping_add(hash);
            self.wrong += u64::from(![0, 8, 16].contains(&start) || !(start + 1..=start + 8).contains(&end));
            return;
        }
        let (place, hash, value) = if table == tables.subscriber {
            use subscriber::*;
            let (bit, vlr) = (BIT_1.offset(), VLR_LOCATION.offset());
            let value = row.get(BIT_1) as u64 + row.get(VLR_LOCATION) as u64;
            (0, hash_without(row, &[(bit, bit + 2), (vlr, vlr + 4)]), value)
        } else if table == tables.access_info {
            (1, hash_without(row, &[]), 0)
        } else {
            use special_facility::*;
            let data = DATA_A.offset();
            (2, hash_without(row, &[(data, data + 2)]), row.get(DATA_A) as u64)
        };
        self.rows[place] += 1;
        self.fixed[place] = self.fixed[place].wrapping_add(hash);
        self.values = self.values.wrapping_add(value);
    }
}

pub(super) fn check(tatp: &Tatp, rows: &dyn Snapshot, told: Acknowledged<'_>) -> Verdict {
    let tables = tatp.tables();
    let (mut initial, mut found) = (Sums::default(), Sums::default());
    for partition in 0..tatp.partitions {
        let loaded = tatp.load_partition(partition, |table, row| {
            initial.add(&tables, table, row.row());
            Ok::<_, std::convert::Infallible>(())
        });
        let Ok(()) = loaded;
    }
    for table in tatp.shared_tables() {
        rows.rows(table, &mut |row| found.add(&tables, table, row));
    }
    let mut findings = Findings::default();
    for (place, name) in ["subscriber", "access_info", "special_facility"].into_iter().enumerate() {
        let (due, there) = (initial.rows[place], found.rows[place]);
        if due != there {
            findings.report("rows", || format!("{name} had {due}, and has {there}"));
        } else if initial.fixed[place] != found.fixed[place] {
            findings.report("rows", || format!("{name} holds what no transaction wrote"));
        }
    }
    if found.wrong > 0 {
        findings.report("rows", || format!("{} call forwardings at impossible times", found.wrong));
    }
    let balance = |before: u64, more: u64, less: u64| before.wrapping_add(more).wrapping_sub(less);
    findings.compare_exact(told, "flags, data and locations", found.values, |told| {
        balance(initial.values, told(WRITTEN), told(REPLACED))
    });
    findings.compare_exact(told, "call forwardings", found.forwardings, |told| {
        balance(initial.forwardings, told(INSERTS), told(DELETES))
    });
    findings.compare_exact(told, "their keys' hashes", found.forwarding_keys, |told| {
        balance(initial.forwarding_keys, told(INSERTED_KEYS), told(DELETED_KEYS))
    });
    findings.verdict()
}
