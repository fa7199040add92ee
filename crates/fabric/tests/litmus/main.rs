//! Litmus tests: small programs that show what the memory model allows and forbids, on every backend.
//!
//! Each program runs under systematic search of the simulator (all schedules and store-buffer choices within
//! a bound) and under random swarms. Correct programs never fail; each broken variant is caught, under the
//! right rule name.

mod crashes;
mod mutations;
mod native;
mod paced;
mod shadow;
mod swarms;
mod timed;

use std::cell::RefCell;
use std::rc::Rc;

use liger_fabric::sim::{Adversary, Mode, Outcome, SimConfig, Simulation, explore};
use liger_fabric::{Cx, DataAddr, Fabric, HostId, RangeUse, SyncAddr, WorkerId};

const FLAG: SyncAddr = SyncAddr::new(0);
const OTHER: SyncAddr = SyncAddr::new(64);
const DATA: DataAddr = DataAddr::new(128);
const LEN: usize = 4096;

/// What a broken variant leaves out.
#[derive(Clone, Copy, PartialEq)]
enum Omit {
    Nothing,
    WriteBack,
    WriterFence,
    Invalidate,
    ReaderFence,
}

fn wait_for<F: Fabric>(cx: &Cx<F>, word: SyncAddr, value: u64) {
    while cx.load(word) != value {
        cx.pause();
    }
}

/// Message passing: data is published, then announced by a sync word.
fn writer<F: Fabric>(cx: &Cx<F>, omit: Omit, len: usize) {
    cx.write(DATA, &vec![7; len]);
    if omit != Omit::WriteBack {
        cx.write_back(DATA, len);
    }
    if omit != Omit::WriterFence {
        cx.fence();
    }
    assert_eq!(cx.compare_exchange(FLAG, 0, 1), Ok(0));
}

fn reader<F: Fabric>(cx: &Cx<F>, omit: Omit, len: usize) {
    let mut seen = vec![0; len];
    wait_for(cx, FLAG, 1);
    if omit != Omit::Invalidate {
        cx.invalidate(DATA, len);
    }
    if omit != Omit::ReaderFence {
        cx.fence();
    }
    cx.read(DATA, &mut seen);
    assert_eq!(seen, vec![7; len], "a message arrived torn or stale");
}

fn message_passing(sim: &mut Simulation, omit: Omit, len: usize) {
    sim.spawn(HostId(0), WorkerId(0), move |cx| writer(cx, omit, len));
    sim.spawn(HostId(1), WorkerId(0), move |cx| reader(cx, omit, len));
}

fn rule_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Violation(violation) => violation.rule.name(),
        Outcome::Panicked { .. } => "panic",
        Outcome::Deadlock { .. } => "deadlock",
        _ => "other",
    }
}

/// The rule that some run within the bound breaks, or "none" after all of them.
fn searched(config: &SimConfig, bound: u32, build: impl FnMut(&mut Simulation)) -> &'static str {
    let found = explore(config.clone(), bound, 2_000_000, build);
    match found.failure {
        Some(report) => {
            println!("{}", report.outcome);
            rule_of(&report.outcome)
        }
        None => {
            assert!(found.exhausted, "the bound is too large for a test: {} runs", found.runs);
            "none"
        }
    }
}

fn with(rules: bool, prefetch: bool) -> SimConfig {
    let mut config = SimConfig::adversarial(2, LEN, 1);
    config.mode = Mode::Adversarial(Adversary { rules, prefetch, ..Adversary::default() });
    config
}

#[test]
fn message_passing_needs_all_four_steps() {
    let table = [
        (Omit::Nothing, "none"),
        (Omit::WriteBack, "unpublished-read"),
        (Omit::WriterFence, "unpublished-read"),
        (Omit::Invalidate, "stale-read"),
        (Omit::ReaderFence, "stale-read"),
    ];
    for (omit, rule) in table {
        for len in [8, 64, 130] {
            assert_eq!(searched(&with(true, true), 2, |sim| message_passing(sim, omit, len)), rule);
        }
    }
}

/// Without the rules, the incoherent caches themselves show the same four bugs: the reader's assertion fails.
#[test]
fn the_caches_are_truly_incoherent() {
    for omit in [Omit::WriteBack, Omit::WriterFence, Omit::Invalidate, Omit::ReaderFence] {
        assert_eq!(searched(&with(false, true), 3, |sim| message_passing(sim, omit, 8)), "panic");
    }
    assert_eq!(searched(&with(false, true), 2, |sim| message_passing(sim, Omit::Nothing, 8)), "none");
}

/// Without prefetching, a host that never touched the line needs no invalidate; one that did, does.
#[test]
fn without_prefetching_an_untouched_line_is_fresh() {
    let config = with(true, false);
    assert_eq!(searched(&config, 2, |sim| message_passing(sim, Omit::Invalidate, 8)), "none");
    let build = |sim: &mut Simulation| {
        sim.spawn(HostId(0), WorkerId(0), |cx| {
            wait_for(cx, OTHER, 1);
            writer(cx, Omit::Nothing, 8);
        });
        sim.spawn(HostId(1), WorkerId(0), |cx| {
            cx.read(DATA, &mut [0; 8]);
            cx.store(OTHER, 1);
            reader(cx, Omit::Invalidate, 8);
        });
    };
    assert_eq!(searched(&config, 2, build), "stale-read");
}

/// Dekker: each stores its own word and loads the other's; a fence between them forbids that both see
/// nothing.
#[test]
fn store_buffering_needs_a_fence() {
    for (fence, expected) in [(true, "none"), (false, "panic")] {
        let build = move |sim: &mut Simulation| {
            let seen = Rc::new(RefCell::new(Vec::new()));
            for (host, mine, other) in [(0, FLAG, OTHER), (1, OTHER, FLAG)] {
                let seen = Rc::clone(&seen);
                sim.spawn(HostId(host), WorkerId(0), move |cx| {
                    cx.store(mine, 1);
                    if fence {
                        cx.fence();
                    }
                    let value = cx.load(other);
                    seen.borrow_mut().push(value);
                    assert_ne!(*seen.borrow(), [0, 0], "both entered");
                });
            }
        };
        assert_eq!(searched(&with(true, true), 4, build), expected);
    }
}

#[test]
fn buffered_stores_become_visible_in_order_and_are_seen_by_their_worker() {
    let build = |sim: &mut Simulation| {
        sim.spawn(HostId(0), WorkerId(0), |cx| {
            cx.store(FLAG, 1);
            cx.store(OTHER, 1);
            assert_eq!(cx.load(FLAG), 1);
        });
        sim.spawn(HostId(1), WorkerId(0), |cx| {
            let second = cx.load(OTHER);
            let first = cx.load(FLAG);
            assert!(first >= second, "stores overtook each other");
        });
    };
    assert_eq!(searched(&with(true, true), 4, build), "none");
}

#[test]
fn compare_exchange_loses_no_increment() {
    let build = |sim: &mut Simulation| {
        let sum = Rc::new(RefCell::new(0));
        for host in 0..2 {
            let sum = Rc::clone(&sum);
            sim.spawn(HostId(host), WorkerId(0), move |cx| {
                cx.fetch_add(FLAG, 1);
                cx.fetch_add(FLAG, 1);
                *sum.borrow_mut() += 2;
                if *sum.borrow() == 4 {
                    assert_eq!(cx.load(FLAG), 4);
                }
            });
        }
    };
    assert_eq!(searched(&with(true, true), 4, build), "none");
}

/// Two hosts write different words of one line, each publishing properly.
#[test]
fn two_writers_of_one_line_are_caught() {
    let build = |sim: &mut Simulation| {
        for host in 0..2 {
            let at = DATA.byte(u64::from(host) * 8);
            sim.spawn(HostId(host), WorkerId(0), move |cx| cx.publish(at, &[1; 8]));
        }
    };
    assert_eq!(searched(&with(true, true), 2, build), "two-writers");
}

/// The second writer holds the lock, but changes a part of the line without refreshing it; the rest goes back
/// in time.
#[test]
fn a_partial_write_needs_a_fresh_base() {
    for (refresh, rule) in [(true, "none"), (false, "stale-base")] {
        let build = move |sim: &mut Simulation| {
            sim.spawn(HostId(0), WorkerId(0), |cx| {
                cx.publish(DATA, &[1; 64]);
                cx.store(FLAG, 1);
                wait_for(cx, FLAG, 2);
                let mut all = [0; 64];
                cx.refresh(DATA, &mut all);
                assert_eq!(all[8..], [1; 56]);
            });
            sim.spawn(HostId(1), WorkerId(0), move |cx| {
                wait_for(cx, FLAG, 1);
                if refresh {
                    cx.invalidate(DATA, 64);
                    cx.fence();
                }
                cx.publish(DATA, &[2; 8]);
                cx.store(FLAG, 2);
            });
        };
        assert_eq!(searched(&with(true, true), 2, build), rule);
    }
}

#[test]
fn sync_words_and_data_do_not_share_a_line() {
    for fixed in [None, Some(0..128)] {
        let mut config = with(true, true);
        config.sync = fixed;
        let build = |sim: &mut Simulation| {
            sim.spawn(HostId(0), WorkerId(0), |cx| {
                cx.store(FLAG, 1);
                cx.write(DataAddr::new(8), &[1]);
            });
        };
        assert_eq!(searched(&config, 2, build), "mixed-line");
        let build = |sim: &mut Simulation| {
            sim.spawn(HostId(0), WorkerId(0), |cx| {
                cx.publish(DATA, &[1]);
                cx.load(SyncAddr::new(DATA.offset()));
            });
        };
        assert_eq!(searched(&config, 2, build), "mixed-line");
    }
}

#[test]
fn freed_memory_is_not_used() {
    let build = |sim: &mut Simulation| {
        sim.spawn(HostId(0), WorkerId(0), |cx| {
            cx.range_use(DATA, 64, RangeUse::Allocated);
            cx.publish(DATA, &[1; 64]);
            cx.range_use(DATA, 64, RangeUse::Free);
            cx.store(FLAG, 1);
        });
        sim.spawn(HostId(1), WorkerId(0), |cx| {
            wait_for(cx, FLAG, 1);
            cx.refresh(DATA, &mut [0; 8]);
        });
    };
    assert_eq!(searched(&with(true, true), 1, build), "use-after-free");
}

/// A run that waits for a store nobody makes ends, and says where everybody stands.
#[test]
fn a_deadlock_ends_the_run() {
    let mut sim = Simulation::new(SimConfig::adversarial(2, LEN, 3));
    for host in 0..2 {
        sim.spawn(HostId(host), WorkerId(0), |cx| wait_for(cx, FLAG, 1));
    }
    let report = sim.run();
    assert!(
        matches!(&report.outcome, Outcome::Deadlock { workers } if workers.len() == 2),
        "{}",
        report.outcome
    );
}

#[test]
fn a_seed_replays_to_the_same_trace() {
    let run = |seed| {
        let mut sim = Simulation::new(SimConfig::swarm(2, LEN, seed));
        message_passing(&mut sim, Omit::Nothing, 1000);
        let report = sim.run().expect_completed();
        (report.trace_hash, report.verbs, report.switches)
    };
    let all: Vec<_> = (0..200).map(run).collect();
    assert_eq!(all, (0..200).map(run).collect::<Vec<_>>());
    assert!(all.iter().any(|one| *one != all[0]), "seeds differ");
}

/// The same numbers in every build and on every machine: a change here means that old seeds replay
/// differently.
#[test]
fn traces_do_not_depend_on_the_build() {
    let mut sim = Simulation::new(SimConfig::adversarial(2, LEN, 42));
    message_passing(&mut sim, Omit::Nothing, 1000);
    let report = sim.run().expect_completed();
    assert_eq!((report.trace_hash, report.verbs), (8_641_309_436_227_107_347, 46));
}

/// A worker that reads for long while others wait for it (it holds a latch, say) is no deadlock.
#[test]
fn waiting_for_a_reader_is_no_deadlock() {
    let mut sim = Simulation::new(SimConfig::adversarial(2, LEN, 1));
    sim.spawn(HostId(0), WorkerId(0), |cx| {
        (0..20_000).for_each(|_| _ = cx.load(OTHER));
        cx.store(FLAG, 1);
    });
    (0..3).for_each(|n| sim.spawn(HostId(1), WorkerId(n), |cx| wait_for(cx, FLAG, 1)));
    sim.run().expect_completed();
}

#[test]
fn other_rules() {
    let mut config = with(true, true);
    config.mode = Mode::Adversarial(Adversary { unwritten_reads: true, ..Adversary::default() });
    let lone = |body: fn(&Cx<liger_fabric::sim::Sim>)| {
        move |sim: &mut Simulation| sim.spawn(HostId(0), WorkerId(0), body)
    };
    let half = lone(|cx| {
        cx.write(DATA, &[1; 8]);
        cx.read(DATA, &mut [0; 9]);
    });
    assert_eq!(searched(&config, 0, half), "unwritten-read");
    let beyond = lone(|cx| cx.read(DataAddr::new(LEN as u64 - 8), &mut [0; 9]));
    assert_eq!(searched(&with(true, true), 0, beyond), "out-of-bounds");
}

#[test]
fn the_document_lists_every_rule() {
    let document = include_str!("../../../../docs/memory-model.md");
    for rule in liger_fabric::sim::Rule::ALL {
        assert!(document.contains(&format!("| `{rule}` |")), "docs/memory-model.md lacks {rule}");
    }
}
