//! Litmus tests: small programs that show what the memory model allows and forbids, on every backend.
//!
//! Each program runs under systematic search of the simulator (all schedules and store-buffer choices within a bound) and
//! under random swarms. Correct programs never fail; each broken variant is caught, under the right rule name.

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

/// Dekker: each stores its own word and loads the other's; a fence between them forbids that both see nothing.
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

/// The second writer holds the lock, but changes a part of the line without refreshing it; the rest goes back in time.
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

mod crashes {
    use super::*;
    use liger_fabric::sim::{CrashDomain, Kill, KillAt, Report};

    /// A host writes a line, publishes it and writes it again; it dies at some verb. A survivor reads what is left.
    fn survivor_reads(domain: CrashDomain, step: u64, seed: u64) -> (Report, u8) {
        let mut config = SimConfig::adversarial(2, LEN, seed);
        config.kills.push(Kill { host: HostId(0), at: KillAt::HostStep(step), domain });
        let mut sim = Simulation::new(config);
        sim.spawn(HostId(0), WorkerId(0), |cx| {
            cx.publish(DATA, &[1; 8]);
            cx.write(DATA, &[2; 8]);
            cx.load(FLAG);
        });
        let report = sim.run().expect_completed();
        let left = sim.alone(HostId(1), WorkerId(0), |cx| {
            let mut bytes = [0; 8];
            cx.refresh(DATA, &mut bytes);
            bytes[0]
        });
        (report, left)
    }

    #[test]
    fn each_crash_domain_keeps_what_it_should() {
        let left = |domain, step| (0..40).map(|seed| survivor_reads(domain, step, seed).1).collect::<Vec<_>>();
        for domain in [CrashDomain::Process, CrashDomain::HostPersistent] {
            assert_eq!(left(domain, 1), [0; 40]);
            assert_eq!(left(domain, 2), [1; 40], "a dirty line reaches the memory");
            assert_eq!(left(domain, 5), [2; 40]);
        }
        let after_write = left(CrashDomain::Host, 2);
        assert!(after_write.contains(&0) && after_write.contains(&1), "a dirty line may be lost");
        let after_second = left(CrashDomain::Host, 5);
        assert!(after_second.contains(&1) && after_second.contains(&2) && !after_second.contains(&0));
    }

    #[test]
    fn destructors_of_a_dead_host_run_and_their_verbs_do_nothing() {
        struct Stores<'a, F: Fabric>(&'a Cx<F>);
        impl<F: Fabric> Drop for Stores<'_, F> {
            fn drop(&mut self) {
                self.0.store(OTHER, 1);
                self.0.fence();
            }
        }
        let mut config = SimConfig::adversarial(2, LEN, 5);
        config.kills.push(Kill { host: HostId(0), at: KillAt::Step(50), domain: CrashDomain::Host });
        let mut sim = Simulation::new(config);
        sim.spawn(HostId(0), WorkerId(0), |cx| {
            let _stores = Stores(cx);
            wait_for(cx, FLAG, 1);
        });
        sim.spawn(HostId(1), WorkerId(0), |cx| {
            for _ in 0..100 {
                assert_eq!(cx.load(OTHER), 0);
            }
        });
        let report = sim.run().expect_completed();
        assert_eq!(report.hosts[0].killed, [50]);
    }

    #[test]
    fn a_restarted_process_must_invalidate_what_its_host_cached() {
        for (refresh, rule) in [(true, "other"), (false, "stale-read")] {
            let mut sim = Simulation::new(SimConfig::adversarial(2, LEN, 9));
            sim.spawn(HostId(0), WorkerId(0), |cx| {
                cx.read(DATA, &mut [0; 8]);
                cx.store(OTHER, 1);
                cx.fence();
                wait_for(cx, FLAG, 9);
            });
            sim.spawn(HostId(1), WorkerId(0), |cx| {
                wait_for(cx, OTHER, 1);
                cx.publish(DATA, &[3; 8]);
                cx.store(FLAG, 1);
                cx.fence();
                cx.fabric().kill_host(HostId(0), CrashDomain::Process);
            });
            sim.spawn_after_crash(HostId(0), WorkerId(1), move |cx| {
                wait_for(cx, FLAG, 1);
                let mut bytes = [0; 8];
                if refresh {
                    cx.refresh(DATA, &mut bytes);
                } else {
                    cx.read(DATA, &mut bytes);
                }
                assert_eq!(bytes, [3; 8]);
            });
            assert_eq!(rule_of(&sim.run().outcome), rule);
        }
    }

    #[test]
    fn a_panic_is_a_finding_with_its_place() {
        let mut sim = Simulation::new(SimConfig::adversarial(1, LEN, 0));
        sim.spawn(HostId(0), WorkerId(3), |cx| assert_eq!(cx.load(FLAG), 1, "the flag is up"));
        let outcome = sim.run().outcome;
        let Outcome::Panicked { message, worker, .. } = &outcome else { panic!("{outcome}") };
        assert_eq!(*worker, WorkerId(3));
        assert!(message.contains("the flag is up") && message.contains("litmus.rs"), "{message}");
    }
}

mod mutations {
    use super::*;
    use liger_fabric::sim::Verb;

    /// Switching off any one cache instruction of message passing is caught; the report lists the sites.
    #[test]
    fn every_site_of_message_passing_matters() {
        let program = |sim: &mut Simulation| message_passing(sim, Omit::Nothing, 100);
        let mut sim = Simulation::new(SimConfig::adversarial(2, LEN, 1));
        program(&mut sim);
        let sites = sim.run().expect_completed().sites;
        let verbs: Vec<_> = sites.iter().map(|(site, _)| site.verb).collect();
        assert_eq!(verbs, [Verb::WriteBack, Verb::Fence, Verb::Invalidate, Verb::Fence]);
        for (site, count) in sites {
            assert_eq!(count, 1);
            let mut config = with(true, true);
            config.disabled_site = Some(site.clone());
            assert_ne!(searched(&config, 2, program), "none", "{site} can go");
        }
    }

    #[test]
    fn named_steps_are_listed_and_left_out() {
        let program = |sim: &mut Simulation| {
            sim.spawn(HostId(0), WorkerId(0), |cx| {
                let raised = !cx.sabotaged("litmus.raise") && cx.compare_exchange(FLAG, 0, 1).is_ok();
                assert!(raised);
            });
        };
        let mut sim = Simulation::new(with(true, true));
        program(&mut sim);
        assert_eq!(sim.run().expect_completed().steps_asked, ["litmus.raise"]);
        let mut config = with(true, true);
        config.sabotage = Some("litmus.raise");
        assert_eq!(searched(&config, 0, program), "panic");
    }
}

mod on_native {
    use super::*;
    use liger_fabric::native::{Mapping, Native};

    fn pair(first: impl FnOnce(&Cx<Native>) + Send, second: impl FnOnce(&Cx<Native>) + Send) {
        let mapping = Mapping::anonymous(LEN).expect("memory");
        let cx = |host| {
            let mapping = mapping.clone();
            move || Cx::new(Native::new(mapping), HostId(host), WorkerId(0), 1)
        };
        let (one, two) = (cx(0), cx(1));
        #[expect(clippy::disallowed_methods, reason = "native workers are threads")]
        std::thread::scope(|scope| {
            scope.spawn(move || first(&one()));
            scope.spawn(move || second(&two()));
        });
    }

    #[test]
    fn message_passing_works() {
        for len in [8, 64, 1000] {
            pair(|cx| writer(cx, Omit::Nothing, len), |cx| reader(cx, Omit::Nothing, len));
        }
    }

    #[test]
    fn increments_are_not_lost() {
        let count = |cx: &Cx<Native>| {
            for _ in 0..1000 {
                cx.fetch_add(FLAG, 1);
            }
            cx.fetch_add(OTHER, 1);
            while cx.load(OTHER) < 2 {
                cx.pause();
            }
            assert_eq!(cx.load(FLAG), 2000);
        };
        pair(count, count);
    }
}
