//! Tests of the checker: each anomaly by hand, random serial histories with and without damage, and random
//! interleaved histories against a brute-force search over all serial orders.

use super::*;
use crate::history::{Change, Operation, Outcome, Transaction};

mod random;

const TABLE: u16 = 1;

fn k(word: u64) -> Key {
    Key::new(TABLE, &[word])
}

fn update(previous: Version, new: Version) -> Change {
    Change::Update { previous, new }
}

/// A committed transaction; `order` 0 stands for unknown.
fn t(id: u64, order: u64, fill: impl FnOnce(&mut Transaction)) -> Transaction {
    let mut transaction = Transaction::new(id, 0, 0);
    fill(&mut transaction);
    transaction.commit((order > 0).then_some(order));
    transaction
}

fn history(initial: &[(u64, Version)], transactions: Vec<Transaction>) -> History {
    History { initial: initial.iter().map(|&(word, version)| (k(word), version)).collect(), transactions }
}

/// The classes of the cycles found without looking at the commit order.
fn cycles(history: &History) -> Vec<(CycleClass, usize)> {
    let report = check_graph(history);
    let cycles = report.anomalies.iter().filter_map(|anomaly| match anomaly {
        Anomaly::Cycle { class, edges } => Some((*class, edges.len())),
        _ => None,
    });
    cycles.collect()
}

fn text(history: &History) -> String {
    check(history).to_string()
}

#[test]
fn a_serial_history_passes() {
    let history = history(
        &[(1, 10), (2, 20)],
        vec![
            t(1, 1, |t| {
                t.read(k(1), Some(10));
                t.write(k(1), update(10, 11));
                t.read(k(1), Some(11));
                t.range(k(0), Some(vec![9]), vec![(vec![1], 11), (vec![2], 20)]);
            }),
            t(2, 2, |t| {
                t.write(k(3), Change::Insert { new: 30 });
                t.write(k(2), Change::Delete { previous: 20, new: 21 });
                t.range(k(1), None, vec![(vec![3], 30), (vec![1], 11)]);
            }),
            t(3, 3, |t| {
                t.read(k(2), None);
                t.read(k(7), None);
                t.write(k(2), Change::Insert { new: 22 });
            }),
        ],
    );
    let report = check(&history);
    assert!(report.passed() && report.replayed, "{report}");
    assert_eq!(report.transactions, 3);
    assert!(check_graph(&history).passed());
}

#[test]
fn an_empty_history_passes() {
    assert!(check(&History::default()).passed());
}

#[test]
fn g0_writes_in_opposite_order() {
    let history = history(
        &[(1, 1), (2, 1)],
        vec![
            t(1, 0, |t| {
                t.write(k(1), update(1, 2));
                t.write(k(2), update(2, 3));
            }),
            t(2, 0, |t| {
                t.write(k(2), update(1, 2));
                t.write(k(1), update(2, 3));
            }),
        ],
    );
    assert_eq!(cycles(&history), [(CycleClass::G0, 2)]);
    let expected = "\
2 transactions, commit order unknown, 1 anomalies
  G0 cycle of 2 transactions:
    T1 --ww--> T2   t1[1]: T1 installed v2, T2 replaced it by v3
    T2 --ww--> T1   t1[2]: T2 installed v2, T1 replaced it by v3
";
    assert_eq!(text(&history), expected);
}

#[test]
fn g1c_circular_information_flow() {
    let history = history(
        &[(1, 1), (2, 1)],
        vec![
            t(1, 0, |t| {
                t.write(k(1), update(1, 2));
                t.read(k(2), Some(2));
            }),
            t(2, 0, |t| {
                t.write(k(2), update(1, 2));
                t.read(k(1), Some(2));
            }),
        ],
    );
    assert_eq!(cycles(&history), [(CycleClass::G1c, 2)]);
}

#[test]
fn g_single_read_skew_and_its_replay() {
    let history = history(
        &[(1, 1), (2, 1)],
        vec![
            t(1, 1, |t| {
                t.write(k(1), update(1, 2));
                t.write(k(2), update(1, 2));
            }),
            t(2, 2, |t| {
                t.read(k(1), Some(1));
                t.read(k(2), Some(2));
            }),
        ],
    );
    assert_eq!(cycles(&history), [(CycleClass::GSingle, 2)]);
    let expected = "\
2 transactions, replayed in commit order, 2 anomalies
  stale at commit: T2 (number 2) saw t1[1] v1, but it was v2
  G-single cycle of 2 transactions:
    T1 --wr--> T2   t1[2]: T1 installed v2, T2 saw it
    T2 --rw--> T1   t1[1]: T2 saw v1, T1 replaced it by v2
";
    assert_eq!(text(&history), expected);
}

#[test]
fn g2_write_skew() {
    let history = history(
        &[(1, 1), (2, 1)],
        vec![
            t(1, 0, |t| {
                t.read(k(1), Some(1));
                t.write(k(2), update(1, 2));
            }),
            t(2, 0, |t| {
                t.read(k(2), Some(1));
                t.write(k(1), update(1, 2));
            }),
        ],
    );
    assert_eq!(cycles(&history), [(CycleClass::G2, 2)]);
}

#[test]
fn g2_phantom_insert_into_a_range() {
    let counts_then_inserts = |id, new: u64| {
        t(id, 0, move |t| {
            t.range(k(0), Some(vec![100]), vec![]);
            t.write(k(new), Change::Insert { new: 1 });
        })
    };
    let history = history(&[], vec![counts_then_inserts(1, 50), counts_then_inserts(2, 60)]);
    assert_eq!(cycles(&history), [(CycleClass::G2, 2)]);
    let text = text(&history);
    assert!(text.contains("t1[60]: T1 in a range saw absent, T2 replaced it by v1"), "{text}");
}

#[test]
fn a_phantom_delete_is_an_anti_dependency() {
    // T1 scans before T2's delete, and reads what T2 wrote elsewhere.
    let history = history(
        &[(1, 1), (200, 1)],
        vec![
            t(1, 0, |t| {
                t.range(k(0), Some(vec![100]), vec![(vec![1], 1)]);
                t.read(k(200), Some(2));
            }),
            t(2, 0, |t| {
                t.write(k(1), Change::Delete { previous: 1, new: 2 });
                t.write(k(200), update(1, 2));
            }),
        ],
    );
    assert_eq!(cycles(&history), [(CycleClass::GSingle, 2)]);
}

#[test]
fn the_shortest_cycle_is_reported() {
    // A ring of five write skews, with a chord that makes a ring of three.
    let n = 5;
    let ring = (0..n).map(|i| {
        t(i + 1, 0, |t| {
            t.read(k((i + 1) % n), Some(1));
            t.write(k(i), update(1, 2));
            if i == 2 {
                t.read(k(100), Some(1));
            }
            if i == 0 {
                t.write(k(100), update(1, 2));
            }
        })
    });
    let initial: Vec<_> = (0..n).chain([100]).map(|word| (word, 1)).collect();
    assert_eq!(cycles(&history(&initial, ring.collect())), [(CycleClass::G2, 3)]);
}

#[test]
fn lost_update() {
    let bump = |id, order, new| {
        t(id, order, move |t| {
            t.read(k(1), Some(1));
            t.write(k(1), update(1, new));
        })
    };
    let history = history(&[(1, 1)], vec![bump(1, 1, 2), bump(2, 2, 3)]);
    let text = text(&history);
    assert!(text.contains("lost update: T1 and T2 both replaced t1[1] v1"), "{text}");
    assert_eq!(cycles(&history), [(CycleClass::GSingle, 2)]);
}

#[test]
fn two_inserts_of_one_key_are_a_lost_update() {
    let insert = |id, new| t(id, 0, move |t| t.write(k(1), Change::Insert { new }));
    let text = text(&history(&[], vec![insert(1, 1), insert(2, 2)]));
    assert!(text.contains("lost update: T1 and T2 both replaced t1[1] absent"), "{text}");
}

#[test]
fn g1a_aborted_and_g1b_intermediate_reads() {
    let mut aborted = t(1, 0, |t| t.write(k(1), update(1, 5)));
    aborted.abort();
    let history = history(
        &[(1, 1), (2, 1)],
        vec![
            aborted,
            t(2, 1, |t| t.read(k(1), Some(5))),
            t(3, 2, |t| {
                t.write(k(2), update(1, 2));
                t.write(k(2), update(2, 3));
            }),
            t(4, 3, |t| t.range(k(2), None, vec![(vec![2], 2)])),
        ],
    );
    let text = text(&history);
    assert!(text.contains("G1a aborted read: T2 saw t1[1] v5 of T1"), "{text}");
    assert!(text.contains("G1b intermediate read: T4 saw t1[2] v2, which its writer T3"), "{text}");
}

#[test]
fn malformed_histories_are_named() {
    let history = history(
        &[(1, 5), (2, 1), (2, 2)],
        vec![
            t(1, 1, |t| {
                t.write(k(1), update(5, 4));
                t.read(k(1), Some(5));
            }),
            t(2, 1, |t| t.range(k(0), Some(vec![2]), vec![(vec![2], 1), (vec![1], 4), (vec![1], 4)])),
            t(3, 2, |t| {
                t.read(k(2), Some(77));
                t.read(k(2), None);
                t.write(k(3), Change::Insert { new: 9 });
            }),
            t(4, 3, |t| t.write(k(3), update(8, 9))),
            t(5, 4, |t| t.write(k(3), update(8, 10))),
        ],
    );
    let text = text(&history);
    for expected in [
        "duplicate order: T1 and T2 both committed as number 1",
        "version not increasing: T1 replaced t1[1] v5 by v4",
        "own write missed: T1 made t1[1] v4, then saw v5",
        "malformed range: T2 lists t1[2] twice, or it lies outside",
        "malformed range: T2 lists t1[1] twice, or it lies outside",
        "duplicate version: t1[2] v2 was installed by the load and by the load",
        "duplicate version: t1[3] v9 was installed by T3 and by T4",
        "unknown version: T3 saw t1[2] v77, which nobody installed",
        "unknown version: T3 saw no row t1[2], which was never deleted",
        "unknown version: T5 saw t1[3] v8, which nobody installed",
    ] {
        assert!(text.contains(expected), "{expected:?} not in:\n{text}");
    }
}

#[test]
fn a_skipped_version_is_a_wrong_previous() {
    let history = history(
        &[(1, 1)],
        vec![t(1, 0, |t| t.write(k(1), update(1, 2))), t(2, 0, |t| t.write(k(1), Change::Insert { new: 3 }))],
    );
    let text = text(&history);
    assert!(text.contains("unknown version: T2 saw no row t1[1]"), "{text}");
    let deleted = self::history(
        &[(1, 1)],
        vec![
            t(1, 0, |t| t.write(k(1), Change::Delete { previous: 1, new: 2 })),
            t(2, 0, |t| t.write(k(1), update(1, 3))),
            t(3, 0, |t| t.write(k(1), Change::Insert { new: 4 })),
        ],
    );
    let text = self::text(&deleted);
    assert!(text.contains("lost update: T1 and T2 both replaced t1[1] v1"), "{text}");
    assert!(
        text.contains("wrong previous version: T3 replaced t1[1] absent, but v3 was the latest"),
        "{text}"
    );
}

#[test]
fn an_unknown_delete_counts_as_committed_once_a_row_is_inserted_in_its_place() {
    let delete = |previous, new| Change::Delete { previous, new };
    let mut in_doubt = t(1, 1, |t| t.write(k(1), delete(1, 2)));
    in_doubt.outcome = Outcome::Unknown;
    // A later delete of the same key, by somebody who was told, takes the absence's only suspect away.
    let insert = t(2, 2, |t| t.write(k(1), Change::Insert { new: 3 }));
    let again = t(3, 3, |t| t.write(k(1), delete(3, 4)));
    let history = |first| history(&[(1, 1)], vec![first, insert.clone(), again.clone()]);
    let report = check(&history(in_doubt.clone()));
    assert!(report.passed() && report.transactions == 3, "{report}");
    // It saw another version, so it cannot have deleted this one.
    in_doubt.operations.clear();
    in_doubt.write(k(1), delete(0, 2));
    assert!(!check(&history(in_doubt)).passed());
}

#[test]
fn an_unknown_delete_counts_as_committed_once_a_row_of_this_run_is_missed() {
    let insert = t(1, 2, |t| t.write(k(1), Change::Insert { new: 5 }));
    let mut in_doubt = t(2, 3, |t| t.write(k(1), Change::Delete { previous: 5, new: 6 }));
    (in_doubt.outcome, in_doubt.order) = (Outcome::Unknown, None);
    let history = |looks: [Transaction; 2]| {
        let [first, second] = looks;
        history(&[], vec![first, insert.clone(), in_doubt.clone(), second])
    };
    let missed = |id, order| t(id, order, |t| t.read(k(1), None));
    let skipped = t(4, 4, |t| t.range(k(0), None, vec![]));
    for gone in [missed(4, 4), skipped] {
        let report = check(&history([missed(3, 1), gone]));
        assert!(report.passed() && report.transactions == 4, "{report}");
    }
    // Who missed it before it was made proves nothing.
    let report = check(&history([missed(3, 1), t(4, 4, |t| t.read(k(1), Some(5)))]));
    assert!(report.passed() && report.transactions == 3, "{report}");
}

#[test]
fn an_unknown_outcome_counts_as_committed_once_seen() {
    let mut in_doubt = t(1, 1, |t| {
        t.write(k(1), update(1, 2));
        t.write(k(2), Change::Delete { previous: 1, new: 2 });
    });
    in_doubt.outcome = Outcome::Unknown;
    let unseen = history(&[(1, 1), (2, 1)], vec![in_doubt.clone(), t(2, 2, |t| t.read(k(1), Some(1)))]);
    let report = check(&unseen);
    assert!(report.passed() && report.transactions == 1, "{report}");

    let by_version = history(&[(1, 1), (2, 1)], vec![in_doubt.clone(), t(2, 2, |t| t.read(k(1), Some(2)))]);
    let by_absence = history(&[(1, 1), (2, 1)], vec![in_doubt.clone(), t(2, 2, |t| t.read(k(2), None))]);
    let by_scan =
        history(&[(1, 1), (2, 1)], vec![in_doubt.clone(), t(2, 2, |t| t.range(k(2), Some(vec![3]), vec![]))]);
    for seen in [by_version, by_absence, by_scan] {
        let report = check(&seen);
        assert!(report.passed() && report.replayed && report.transactions == 2, "{report}");
    }

    let torn = t(2, 2, |t| {
        t.read(k(1), Some(2));
        t.read(k(2), Some(1));
    });
    assert!(!check(&history(&[(1, 1), (2, 1)], vec![in_doubt, torn])).passed(), "half of it was seen");
}

#[test]
fn a_row_that_died_twice_gives_no_dependency_but_is_replayed() {
    let live_and_die = |id, order, new| {
        t(id, order, move |t| {
            t.write(k(1), Change::Insert { new });
            t.write(k(1), Change::Delete { previous: new, new: new + 1 });
        })
    };
    let born = t(3, 3, |t| t.write(k(1), Change::Insert { new: 9 }));
    let history = history(
        &[],
        vec![live_and_die(1, 1, 1), live_and_die(2, 2, 3), born, t(4, 4, |t| t.read(k(1), None))],
    );
    let graph = check_graph(&history);
    assert!(graph.passed() && graph.ambiguous_absences == 1, "{graph}");
    let report = check(&history);
    assert!(report.to_string().contains("T4 (number 4) saw t1[1] absent, but it was v9"), "{report}");
}

#[test]
fn tables_and_key_widths_do_not_mix() {
    let wide = |table, words: &[u64]| Key::new(table, words);
    let history = History {
        initial: vec![(wide(1, &[1, 2, 3]), 1), (wide(1, &[1, 3, 0]), 1), (wide(2, &[1, 2, 4]), 1)],
        transactions: vec![t(1, 1, |t| {
            t.range(wide(1, &[1, 2]), Some(vec![1, 3]), vec![(vec![1, 2, 3], 1)]);
            t.range(wide(1, &[1, 2, 4]), None, vec![(vec![1, 3, 0], 1)]);
            t.range(wide(2, &[]), None, vec![(vec![1, 2, 4], 1)]);
            t.range(wide(3, &[]), None, vec![]);
        })],
    };
    let report = check(&history);
    assert!(report.passed(), "{report}");
}

#[test]
fn a_history_survives_json_and_prints() {
    let history = history(
        &[(1, 1)],
        vec![t(7, 1, |t| {
            t.range(k(0), Some(vec![9]), vec![(vec![1], 1)]);
            t.read(k(5), None);
            t.write(k(1), update(1, 2));
        })],
    );
    assert_eq!(History::from_json(&history.to_json()).expect("own output"), history);
    assert!(History::from_json("{\"initial\": []}").is_err());
    let expected = "\
1 rows loaded, 1 transactions
T7 (host 0, worker 0) committed as number 1
    range  t1[0]..[9] = { [1] v1 }
    read   t1[5] = absent
    update t1[1] v1 -> v2
";
    assert_eq!(history.to_string(), expected);
}
