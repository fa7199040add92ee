//! Switching off one instruction or step at a time.

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
