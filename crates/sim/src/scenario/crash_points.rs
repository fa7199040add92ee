//! A host that dies before a verb of a small operation, both picked by the seed (see
//! [`crate::crash_points`]).

use liger_fabric::HostId;
use liger_fabric::sim::CrashDomain;

use super::{LeftOut, Ran, Scenario};
use crate::Picker;
use crate::crash_points::{CrashAt, CrashRun, OPERATIONS, Subject, run};

/// One operation each.
pub const SCENARIOS: &[Scenario] = &[Scenario { name: "crash-points", run: one }];

fn one(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let mut pick = Picker::new(seed ^ 0x6372_6173);
    let operation = &OPERATIONS[pick.below(OPERATIONS.len() as u64) as usize];
    let host = match operation.subject {
        Subject::Host(host) => host,
        Subject::Successor | Subject::Bystander => HostId(1 + pick.below(2) as u8),
    };
    let domains = [CrashDomain::Process, CrashDomain::Host, CrashDomain::HostPersistent];
    let domain = domains[pick.below(3) as usize];
    let reach = 64 << pick.below(6);
    let verb = 1 + pick.below(reach);
    let crash = Some(CrashAt { host, verb, domain });
    let ran = run(&CrashRun { operation, seed, crash, left_out });
    Ran { report: ran.survival.report, problem: ran.survival.problems.into_iter().next() }
}
