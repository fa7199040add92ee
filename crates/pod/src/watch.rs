//! Which hosts are dead: heartbeats that stopped, one accusation at a time, and proof
//! (docs/protocols/takeover.md).
//!
//! ```text
//! controller's line   word 0: the accusation   63 = 1 | 0..8 accused | 8..24 its incarnation | 24..32 by
//! whom word 1: the heir        63 = 1 | 0..8 host | 8..24 its incarnation
//! settled words       of (dead host, by): the incarnation of the dead host that `by` has settled
//! ```
//!
//! Invariants:
//! 1. At most one host is accused at a time, by a compare-and-swap: of two hosts that take each other for
//!    dead one wins, and the other stops. Everybody but the accused helps to carry it out.
//! 2. A host is FENCED only when its process can no longer change the memory (`Fabric::cut_off`).
//! 3. No clock is compared with another host's. Time in which the observer itself did not look does not
//!    count, but for a quarter of the lease.
//! 4. One host at a time is the heir of all dead ones; an heir that dies is replaced, and is one of them. So
//!    what dead hosts have left is never divided between two who do not know of each other.

use liger_fabric::{CutOff, Cx, Fabric, HostId};

use crate::error::PodError;
use crate::membership::{self, HostState, Slot};
use crate::plan::{MAX_HOSTS, Plan};

/// Protocol steps that a mutation test can leave out.
pub const SABOTAGE_STEPS: &[&str] = &["watch.wait-for-proof"];

const SET: u64 = 1 << 63;

/// Who is taken for dead, and by whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accusation {
    /// The accused.
    pub host: HostId,
    /// Its life.
    pub incarnation: u16,
    /// The accuser.
    pub by: HostId,
}

impl Accusation {
    /// The one that stands.
    pub fn load<F: Fabric>(cx: &Cx<F>, plan: &Plan) -> Option<Self> {
        Self::decode(cx.load(plan.controller()))
    }

    fn encode(self) -> u64 {
        SET | u64::from(self.host.0) | u64::from(self.incarnation) << 8 | u64::from(self.by.0) << 24
    }

    fn decode(word: u64) -> Option<Self> {
        let (host, incarnation) = (HostId(word as u8), (word >> 8) as u16);
        (word & SET != 0).then_some(Self { host, incarnation, by: HostId((word >> 24) as u8) })
    }
}

/// What an observer remembers of a host.
#[derive(Clone, Copy, Default)]
struct Seen {
    heartbeat: u64,
    silent_ns: u64,
}

/// One host's eye on the others.
pub struct Watch {
    plan: Plan,
    me: Slot,
    seen: [Seen; MAX_HOSTS],
    looked_ns: u64,
    unproven: Option<(HostId, &'static str)>,
}

impl Watch {
    /// The eye of a member.
    pub fn new<F: Fabric>(cx: &Cx<F>, plan: &Plan, me: Slot) -> Self {
        Self {
            plan: plan.clone(),
            me,
            seen: [Seen::default(); MAX_HOSTS],
            looked_ns: cx.now_ns(),
            unproven: None,
        }
    }

    /// A host that cannot be proven dead, and why: until it is, nobody else is found dead either.
    pub fn unproven(&self) -> Option<(HostId, &'static str)> {
        self.unproven
    }

    /// Looks at every host, and takes the next step against one that is dead. A few loads a call; often
    /// enough if it is done a few times in a lease.
    ///
    /// # Errors
    /// [`PodError::Overruled`] when this host is the accused: it must stop at once.
    pub fn look<F: Fabric>(&mut self, cx: &Cx<F>) -> Result<(), PodError> {
        let now_ns = cx.now_ns();
        let passed_ns = now_ns.saturating_sub(self.looked_ns).min(self.plan.config().lease_ns / 4);
        self.looked_ns = now_ns;
        if let Some(accusation) = Accusation::load(cx, &self.plan) {
            return self.carry_out(cx, accusation);
        }
        self.unproven = None;
        let mut dead = None;
        for host in self.plan.hosts().filter(|host| *host != self.me.host) {
            let slot = Slot::load(cx, &self.plan, host)?;
            let heartbeat = membership::heartbeat_of(cx, &self.plan, host);
            let seen = &mut self.seen[usize::from(host.0)];
            let watched = matches!(
                slot.state,
                HostState::Joining | HostState::Alive | HostState::Leaving | HostState::Suspect
            );
            if heartbeat != seen.heartbeat || !watched {
                *seen = Seen { heartbeat, silent_ns: 0 };
                continue;
            }
            seen.silent_ns += passed_ns;
            if seen.silent_ns > self.plan.config().lease_ns {
                dead = dead.or(Some(slot));
            }
        }
        let Some(Slot { host, incarnation, .. }) = dead else { return Ok(()) };
        let accusation = Accusation { host, incarnation, by: self.me.host };
        match cx.compare_exchange(self.plan.controller(), 0, accusation.encode()) {
            Ok(_) => self.carry_out(cx, accusation),
            // Somebody else was quicker; the next look deals with that.
            Err(_) => Ok(()),
        }
    }

    /// The next step against the accused: SUSPECT, then FENCED when there is proof.
    fn carry_out<F: Fabric>(&mut self, cx: &Cx<F>, accusation: Accusation) -> Result<(), PodError> {
        let Accusation { host, incarnation, .. } = accusation;
        if host == self.me.host {
            let Slot { state: expected, host, incarnation } = self.me;
            return Err(PodError::Overruled { host, incarnation, expected, found: HostState::Suspect });
        }
        let slot = Slot::load(cx, &self.plan, host)?;
        let over = slot.incarnation != incarnation
            || matches!(slot.state, HostState::Free | HostState::Fenced | HostState::Recovered);
        if over {
            let _ = cx.compare_exchange(self.plan.controller(), accusation.encode(), 0);
            return Ok(());
        }
        if slot.state != HostState::Suspect {
            slot.change(cx, &self.plan, Slot { state: HostState::Suspect, ..slot });
            return Ok(());
        }
        let name = membership::name_of(cx, &self.plan, slot);
        if Slot::load(cx, &self.plan, host)? != slot {
            // It may have been the name of a later life.
            return Ok(());
        }
        let cut_off = match name {
            Some(process) => cx.cut_off(host, process),
            // Before it touches anything it says its name and looks at its state: it will find this one.
            None => CutOff::Done,
        };
        self.unproven = match cut_off {
            CutOff::Unknown(why) => Some((host, why)),
            CutOff::Done | CutOff::Pending => None,
        };
        if cx.sabotaged("watch.wait-for-proof") || cut_off == CutOff::Done {
            slot.change(cx, &self.plan, Slot { state: HostState::Fenced, ..slot });
            let _ = cx.compare_exchange(self.plan.controller(), accusation.encode(), 0);
        }
        Ok(())
    }
}

/// Says that `by` has settled a dead life: it listens to it no more, and its own rows are free of it.
pub fn settle<F: Fabric>(cx: &Cx<F>, plan: &Plan, dead: Slot, by: HostId) {
    let word = plan.settled(dead.host, by);
    // Seen at once, behind all that was swept. Nobody else changes it.
    let _ = cx.compare_exchange(word, cx.load(word), dead.incarnation.into());
}

/// True if nobody can meet a lock of a dead life any more, but its heir: every other host has settled it, or
/// is dead and owns nothing any more.
///
/// # Errors
/// [`PodError::Damaged`] when a state word makes no sense.
pub fn is_settled<F: Fabric>(cx: &Cx<F>, plan: &Plan, dead: Slot) -> Result<bool, PodError> {
    for host in plan.hosts().filter(|host| *host != dead.host) {
        let slot = Slot::load(cx, plan, host)?;
        let matters = match slot.state {
            HostState::Free | HostState::Joining | HostState::Recovered => false,
            HostState::Alive | HostState::Leaving | HostState::Suspect => true,
            HostState::Fenced => (0..plan.config().partitions)
                .any(|partition| Owner::load(cx, plan, partition).is_some_and(|owner| owner.host == host)),
        };
        if matters && cx.load(plan.settled(dead.host, host)) != u64::from(dead.incarnation) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes `me` the heir of all dead hosts, unless another living one is it; true if `me` is.
///
/// # Errors
/// [`PodError::Damaged`] when a state word makes no sense.
pub fn inherit<F: Fabric>(cx: &Cx<F>, plan: &Plan, me: Slot) -> Result<bool, PodError> {
    let word = plan.controller().word(1);
    let mine = SET | u64::from(me.host.0) | u64::from(me.incarnation) << 8;
    let seen = cx.load(word);
    if seen == mine {
        return Ok(true);
    }
    if seen & SET != 0 {
        let heir = Slot::load(cx, plan, HostId(seen as u8))?;
        let lives = heir.incarnation == (seen >> 8) as u16
            && matches!(heir.state, HostState::Alive | HostState::Suspect | HostState::Leaving);
        if lives {
            return Ok(false);
        }
    }
    Ok(cx.compare_exchange(word, seen, mine).is_ok())
}

/// Ends the recovery of a dead life: its number may be used again.
pub fn release<F: Fabric>(cx: &Cx<F>, plan: &Plan, dead: Slot) {
    let recovered = Slot { state: HostState::Recovered, ..dead };
    if dead.state == HostState::Fenced {
        dead.change(cx, plan, recovered);
    }
    recovered.change(cx, plan, Slot { state: HostState::Free, ..dead });
}

/// The hosts that are cut off and not recovered.
///
/// # Errors
/// [`PodError::Damaged`] when a state word makes no sense.
pub fn fenced<F: Fabric>(cx: &Cx<F>, plan: &Plan) -> Result<Vec<Slot>, PodError> {
    let mut fenced = Vec::new();
    for host in plan.hosts() {
        let slot = Slot::load(cx, plan, host)?;
        if matches!(slot.state, HostState::Fenced | HostState::Recovered) {
            fenced.push(slot);
        }
    }
    Ok(fenced)
}

/// A host that owns a partition, in one life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The host.
    pub host: HostId,
    /// Its life.
    pub incarnation: u16,
}

impl Owner {
    /// The owner of a partition; none before the host that it was made for has come.
    pub fn load<F: Fabric>(cx: &Cx<F>, plan: &Plan, partition: u16) -> Option<Self> {
        let word = cx.load(plan.owner(partition));
        (word != 0).then_some(Self { host: HostId(word as u8), incarnation: (word >> 8) as u16 })
    }

    /// Makes this the owner. Only the host itself, of a partition that is nobody's or a dead host's whose
    /// heir it is.
    pub fn publish<F: Fabric>(self, cx: &Cx<F>, plan: &Plan, partition: u16) {
        let seen = cx.load(plan.owner(partition));
        let word = SET | u64::from(self.host.0) | u64::from(self.incarnation) << 8;
        let swapped = cx.compare_exchange(plan.owner(partition), seen, word);
        assert!(swapped.is_ok(), "partition {partition} has two heirs: {swapped:x?}, not {seen:x}");
    }
}
