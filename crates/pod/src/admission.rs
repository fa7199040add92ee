//! Who tests the memory with a host that joins (docs/protocols/membership.md).
//!
//! Invariants:
//! 1. At most one host joins untested: the founder, while the pod has no member.
//! 2. Nobody is waited for who is dead: whose process has ended, or whom the pod takes for dead.
//! 3. A member that does not answer soon is set aside for the others, and tried again for longer.
//!
//! Not here: the test itself (`selftest`).

use liger_fabric::{Cx, Fabric, HostId, SyncAddr};

use crate::error::PodError;
use crate::membership::{self, HostState, Joining, Slot};
use crate::plan::Plan;
use crate::selftest::{self, Effort, SelfTestFailure};

/// Who the pod's first member is to be, while it has none: host and incarnation, packed as in a state word.
/// Every other host waits for it, so that at most one joins untested.
const FOUNDER: SyncAddr = Plan::SUPERBLOCK_STATE.word(1);

/// How long an answer of a member is waited for at first, if another one may be quicker; twice as long in
/// each round.
const FIRST_NS: u64 = 500_000_000;

impl Joining {
    /// Checks the memory together with a member, waiting for the pod's first member if there is none yet.
    /// Returns the member; none if this host is to be the first, which has nobody to test with.
    ///
    /// # Errors
    /// Which promise of the memory was broken, or who did not answer, or that all members are dead. The
    /// caller abandons then.
    pub fn self_test<F: Fabric>(&self, cx: &Cx<F>, effort: &Effort) -> Result<Option<HostId>, PodError> {
        let (plan, own) = self.slot();
        let (start_ns, mut silent) = (cx.now_ns(), None);
        for round in 0u32.. {
            let members = members_beside(cx, plan, own.host)?;
            let (mut living, ended): (Vec<Slot>, Vec<Slot>) =
                members.into_iter().partition(|peer| !membership::has_ended(cx, plan, *peer));
            living.sort_by_key(|peer| selftest::is_engaged(cx, plan, own, *peer));
            let answer_ns = match living.len() {
                1 => effort.answer_ns,
                _ => (FIRST_NS << round.min(16)).min(effort.answer_ns),
            };
            for peer in &living {
                match selftest::run(cx, plan, own, *peer, &Effort { answer_ns, ..*effort }) {
                    Ok(()) => {
                        self.record_tested(cx, *peer);
                        return Ok(Some(peer.host));
                    }
                    Err(SelfTestFailure::Gone { .. }) => {}
                    Err(failure @ SelfTestFailure::NoAnswer { .. }) => silent = Some(failure),
                    Err(failure) => return Err(failure.into()),
                }
            }
            let waited_ns = cx.now_ns() - start_ns;
            if let Some(failure) = silent.clone().filter(|_| waited_ns > effort.answer_ns) {
                return Err(failure.into());
            }
            if !living.is_empty() {
                continue;
            }
            if let Some(dead) = ended.first() {
                return Err(PodError::NobodyLives { host: own.host, dead: dead.host });
            }
            let founder = founder(cx, plan, own)?;
            // Looked at once more: somebody may have become a member while this host became the founder.
            if founder == own.host && members_beside(cx, plan, own.host)?.is_empty() {
                return Ok(None);
            }
            if waited_ns > effort.answer_ns {
                return Err(PodError::FounderSilent { host: own.host, founder, waited_ns });
            }
            membership::beat(cx, plan, own);
            effort.wait(cx);
        }
        unreachable!("a round takes longer than a nanosecond")
    }
}

/// The other hosts that the pod counts as serving.
fn members_beside<F: Fabric>(cx: &Cx<F>, plan: &Plan, me: HostId) -> Result<Vec<Slot>, PodError> {
    let mut members = Vec::new();
    for host in plan.hosts().filter(|host| *host != me) {
        let slot = Slot::load(cx, plan, host)?;
        if slot.state == HostState::Alive {
            members.push(slot);
        }
    }
    Ok(members)
}

/// The host that is to be the first member; this one, if the last founder is no longer joining.
fn founder<F: Fabric>(cx: &Cx<F>, plan: &Plan, own: Slot) -> Result<HostId, PodError> {
    let seen = cx.load(FOUNDER);
    let named = HostId((seen >> 8) as u8);
    if seen != 0 && named != own.host && named.0 < plan.config().hosts {
        let then = Slot::decode(seen, named)?;
        let now = Slot::load(cx, plan, named)?;
        let awaited = matches!(now.state, HostState::Joining | HostState::Alive);
        if awaited && now.incarnation == then.incarnation && !membership::has_ended(cx, plan, now) {
            return Ok(named);
        }
    }
    match cx.compare_exchange(FOUNDER, seen, own.encode()) {
        Ok(_) => Ok(own.host),
        Err(now) => Ok(HostId((now >> 8) as u8)),
    }
}
