//! The tests are tested: every write_back, invalidate, fence and protocol step of the index, left out one at a time,
//! must make some seeded run of the simulator fail.

use std::collections::BTreeSet;

use liger_fabric::sim::{CrashDomain, SimConfig, Site};
use liger_store::bwtree::SABOTAGE_STEPS;

use crate::kill::simulate_death;
use crate::sim::{Shape, config, simulate};

/// Some steps guard against races of three hosts in a few verbs: about one run in 500 shows that they are missing.
const SEEDS: u64 = 10_000;

fn of_seed(seed: u64) -> Shape {
    match seed % 8 {
        0 => Shape::of_seed(1, 1, seed),
        1 => Shape::of_seed(1, 2, seed),
        2 => Shape::of_seed(2, 0, seed),
        3 => Shape::of_seed(3, 0, seed),
        _ => Shape::duel(),
    }
}

/// The first seed that notices, and how.
fn noticed(mutate: impl Fn(&mut SimConfig)) -> Option<(u64, String)> {
    (0..SEEDS).find_map(|seed| {
        // Some steps matter only to those who outlive a host: every third run is one of a death.
        let death = seed % 3 == 2;
        let shape = of_seed(seed);
        let shape = if death { Shape { writers: 2, readers: 0, ..shape } } else { shape };
        let mut config = config(&shape, seed);
        mutate(&mut config);
        let report = if death {
            simulate_death(config, &shape, 1 + seed * 7 % 900, CrashDomain::Host)
        } else {
            simulate(config, &shape)
        };
        let how = report.outcome.to_string();
        (!report.completed()).then(|| (seed, how.lines().next().unwrap_or_default().to_owned()))
    })
}

#[test]
fn every_site_left_out_is_noticed() {
    let mut sites = BTreeSet::<Site>::new();
    for seed in 0..8 {
        let shape = of_seed(seed);
        let report = simulate(config(&shape, seed), &shape);
        sites.extend(report.sites.into_iter().map(|(site, _)| site).filter(|s| s.file.contains("bwtree")));
    }
    assert!(sites.len() >= 6, "{sites:?}");
    for site in sites {
        let found = noticed(|config| config.disabled_site = Some(site.clone()));
        println!("{site}: {found:?}");
        assert!(found.is_some(), "nobody notices that {site} is left out");
    }
}

#[test]
fn every_step_left_out_is_noticed() {
    for &step in SABOTAGE_STEPS {
        let found = noticed(|config| config.sabotage = Some(step));
        println!("{step}: {found:?}");
        assert!(found.is_some(), "nobody notices that {step} is left out");
    }
}
