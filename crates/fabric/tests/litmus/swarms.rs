//! Correct programs under many seeds.

use super::*;

/// Correct programs complete on every seed, with the rules watching and without (then only the program's own
/// assertions watch, over memory that really is incoherent).
#[test]
fn correct_programs_complete_on_every_seed() {
    for seed in 0..2_000 {
        let mut config = SimConfig::swarm(2, LEN, seed);
        if let Mode::Adversarial(adversary) = &mut config.mode {
            adversary.rules = seed % 2 == 0;
        }
        let mut sim = Simulation::new(config);
        message_passing(&mut sim, Omit::Nothing, 8 + seed as usize % 500);
        sim.run().expect_completed();
    }
}

/// A record under a lock, changed in turn by two hosts: mutual exclusion, publication and refreshing
/// together.
#[test]
fn a_locked_record_keeps_every_change() {
    for seed in 0..500 {
        let mut sim = Simulation::new(SimConfig::swarm(2, LEN, seed));
        for host in 0..2 {
            sim.spawn(HostId(host), WorkerId(0), |cx| {
                for _ in 0..5 {
                    while cx.compare_exchange(FLAG, 0, 1).is_err() {
                        cx.pause();
                    }
                    let mut record = [0; 100];
                    cx.refresh(DATA, &mut record);
                    assert!(record.iter().all(|&byte| byte == record[0]), "torn");
                    record = [record[0] + 1; 100];
                    cx.publish(DATA, &record);
                    cx.store(FLAG, 0);
                }
            });
        }
        sim.run().expect_completed();
        let total = sim.alone(HostId(0), WorkerId(0), |cx| {
            let mut byte = [0];
            cx.read(DATA, &mut byte);
            byte[0]
        });
        assert_eq!(total, 10, "seed {seed}");
    }
}
