//! Logs that are shortened: power lost at every verb meanwhile, and what is said when more is missing than
//! was removed.

#![forbid(unsafe_code)]

use liger_engine::files::segment_name;
use liger_engine::log::segment::{Frame, FrameKind, LogPosition, SegmentHead};
use liger_engine::recovery::directory::replace;
use liger_engine::recovery::manifest::{HOST_MANIFEST, HostManifest};
use liger_engine::recovery::{Identity, Plan, RecoveryError, create};
use liger_fabric::sim::{Outcome, SimConfig, Simulation};
use liger_fabric::{HostId, WorkerId};
use liger_sim::durable::{DurableRun, run};
use liger_sim::pod::directories;
use liger_sim::rows::RowsRun;

/// Two hosts whose checkpointers are busy all the time.
fn small(seed: u64) -> DurableRun {
    let shape = DurableRun::with_short_logs(seed);
    let rows = RowsRun { hosts: 2, workers: 1, keys: 2, operations: 2, transactions: 30, ..shape.rows };
    DurableRun { rows, crashes: 1, checkpoints: 0, replay_bytes: 300, faults: 0, ..shape }
}

/// The usual test takes every so many-th verb; `LIGER_STRIDE=1` takes all.
#[test]
fn power_may_be_lost_at_every_verb() {
    let stride = std::env::var("LIGER_STRIDE").ok().and_then(|s| s.parse().ok()).unwrap_or(23);
    let (mut verb, mut most, mut crashes) = (1, (0, 0), 0u64);
    loop {
        let result = run(&DurableRun { crash_at: Some(verb), ..small(5) });
        assert!(result.problems.is_empty(), "verb {verb}:\n{}", result.problems.join("\n"));
        most = most.max((result.removed, result.checkpoints));
        if matches!(result.report.outcome, Outcome::Completed) {
            break;
        }
        (crashes, verb) = (crashes + 1, verb + stride);
    }
    let (removed, checkpoints) = most;
    println!(
        "{crashes} crashes within {verb} verbs; at most {removed} segments removed, {checkpoints} images"
    );
    assert!(crashes > 20 && most.0 >= 5 && most.1 >= 5, "{crashes} crashes, {most:?}");
}

/// A pod whose only host has removed its log up to segment 3, and has segments up to 5 with a mark in each;
/// what a recovery says when these are gone, too.
fn without(gone: &'static [u32]) -> Result<Plan, RecoveryError> {
    let mut sim = Simulation::new(SimConfig::adversarial(1, 4096, 1));
    sim.alone(HostId(0), WorkerId(0), move |cx| {
        let directories = directories(cx, 1);
        let identity = Identity { pod: 7, configuration: 8, layouts: 9, older_layouts: 10, hosts: 1 };
        create(cx, &directories, &identity)?;
        let (mut previous_end, mut synced) = (0, LogPosition::default());
        for number in 3..=5 {
            let (host, mark) = (HostId(0), u64::from(number) - 1);
            let head =
                SegmentHead { pod: 7, host, incarnation: 1, number, generation: 1, previous_end, mark };
            let mut bytes = head.encode().to_vec();
            let kind = FrameKind::Mark { epoch: mark + 1, pod_durable: mark };
            Frame { kind, synced, payload: &[] }.encode(head.frames(), &mut bytes);
            (previous_end, synced) =
                (bytes.len() as u64, LogPosition { segment: number, byte: bytes.len() as u64 });
            if !gone.contains(&number) {
                replace(cx, &directories[0], &segment_name(number), &bytes)?;
            }
        }
        let manifest = HostManifest { first_segment: 3, ..HostManifest::new(7, HostId(0), 9) };
        replace(cx, &directories[0], HOST_MANIFEST, &manifest.encode())?;
        Plan::make(cx, &directories, &identity)
    })
}

#[test]
fn a_segment_that_is_still_needed_is_missed_by_its_name() {
    let plan = without(&[]).expect("what was removed is not needed");
    assert_eq!((plan.durable_epoch, plan.hosts[0].next_segment().0), (5, 6));
    for gone in [&[3][..], &[3, 4], &[3, 4, 5]] {
        let gone: &'static [u32] = Box::leak(gone.to_vec().into());
        let said = without(gone).expect_err("it is needed").to_string();
        assert_eq!(said, "host 0: log-0000000003 is missing", "{gone:?}");
    }
    let said = without(&[4]).expect_err("it is needed").to_string();
    assert!(said.starts_with("host 0, log-0000000003, byte "), "{said}");
    assert!(said.ends_with("the next segment is missing: log-0000000005 is there"), "{said}");
}
