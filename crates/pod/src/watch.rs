//! Which hosts are dead: heartbeats that stopped, one accusation at a time, and proof
//! (docs/protocols/takeover.md).
//!
//! ```text
//! controller's line   word 0: the accusation (see `Accusation`)
//!                     word 1: the successor        63 = 1 | 0..8 host | 8..24 its incarnation
//! resolved words       of (dead host, by): the incarnation of the dead host that `by` has resolved
//! suspicion words     of (host, by): the heartbeat of the host that stands still for too long, `by` says
//! ```
//!
//! Invariants:
//! 1. At most one host is accused at a time, by a compare-and-swap: of two hosts that take each other for
//!    dead one wins, and the other stops. Everybody but the accused helps to carry it out.
//! 2. A host is FENCED only when its process can no longer change the memory (`Fabric::cut_off`).
//! 3. No clock is compared with another host's. Time in which the observer itself did not look does not
//!    count, but for an eighth of the lease; whose looks come late gives the others more time.
//! 4. Of a pod in which three hosts look at one another, none is accused of silence by one of them alone: a
//!    suspicion names the very heartbeat that stands still, so it is void as soon as the host beats again.
//! 5. Why an incarnation is cut off is said in its membership line before it is SUSPECT, and until the next
//!    incarnation.
//! 6. One host at a time is the successor of all dead ones; a successor that dies is replaced, and is one of
//!    them. So what dead hosts have left is never divided between two who do not know of each other.

use std::fmt;

use liger_fabric::{CutOff, Cx, Fabric, HostId};

use crate::error::PodError;
use crate::membership::{self, HostState, Slot};
use crate::owner::Owner;
use crate::plan::{MAX_HOSTS, Plan};

/// Protocol steps that a mutation test can leave out.
pub const SABOTAGE_STEPS: &[&str] = &[
    "watch.wait-for-proof",
    "watch.late-looks-count-little",
    "watch.agree",
    "watch.ended-in-this-incarnation",
    "watch.say-why",
];

const SET: u64 = 1 << 63;

/// What a late look adds to a watch's lateness; one on time takes 1 away.
const LATE: u32 = 8;
/// The most lateness: such a watch waits for eight leases.
const LATEST: u32 = 7 * LATE;

const _: () = assert!(LATEST.is_multiple_of(LATE) && MAX_HOSTS <= 16, "a host has four bits");

/// Why a host is taken for dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The system says that its process has ended.
    Ended,
    /// Its heartbeat has stood still.
    Silent {
        /// For so many microseconds by the accuser's clock, as far as it looked.
        us: u32,
        /// Who had seen the same; none if nobody else could.
        agreed: Option<HostId>,
    },
}

/// Who is taken for dead, by whom, and why.
///
/// ```text
/// 63 = 1 | 0..4 accused | 4..8 by whom | 8..24 the accused's incarnation | 24..29 who agreed + 1, 0 = nobody
/// 29 its process has ended | 30..62 microseconds of silence
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accusation {
    /// The accused.
    pub host: HostId,
    /// Its incarnation.
    pub incarnation: u16,
    /// The accuser.
    pub by: HostId,
    /// Why.
    pub reason: Reason,
}

impl Accusation {
    /// The one that stands.
    pub fn load<F: Fabric>(cx: &Cx<F>, plan: &Plan) -> Option<Self> {
        Self::decode(cx.load(plan.controller()))
    }

    fn encode(self) -> u64 {
        let reason = match self.reason {
            Reason::Ended => 1 << 29,
            Reason::Silent { us, agreed } => {
                agreed.map_or(0, |host| u64::from(host.0) + 1) << 24 | u64::from(us) << 30
            }
        };
        let hosts = u64::from(self.host.0) | u64::from(self.by.0) << 4;
        let word = SET | hosts | u64::from(self.incarnation) << 8 | reason;
        debug_assert_eq!(Self::decode(word), Some(self), "what is said in one field is read in another");
        word
    }

    fn decode(word: u64) -> Option<Self> {
        let host = |shift: u32| HostId((word >> shift & 0xf) as u8);
        let agreed = (word >> 24 & 0x1f) as u8;
        let reason = match word >> 29 & 1 {
            1 => Reason::Ended,
            _ => Reason::Silent { us: (word >> 30) as u32, agreed: agreed.checked_sub(1).map(HostId) },
        };
        let decoded = Self { host: host(0), incarnation: (word >> 8) as u16, by: host(4), reason };
        (word & SET != 0).then_some(decoded)
    }
}

impl fmt::Display for Accusation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = self.by.0;
        match self.reason {
            Reason::Ended => write!(f, "its process ended, as host {by} noticed"),
            Reason::Silent { us, agreed } => {
                write!(f, "cut off by host {by}: silent for {:.1} s", f64::from(us) / 1e6)?;
                agreed.map_or(Ok(()), |host| write!(f, ", as host {} had seen, too", host.0))
            }
        }
    }
}

/// Why this incarnation of a host was cut off, or is about to be; none if it is not.
pub fn cut_off<F: Fabric>(cx: &Cx<F>, plan: &Plan, slot: Slot) -> Option<Accusation> {
    let said = Accusation::decode(cx.load(membership::cut_off_word(plan, slot.host)));
    said.filter(|said| (said.host, said.incarnation) == (slot.host, slot.incarnation))
}

/// The processes of the hosts that are watched, but `me`, by their names.
pub fn processes<F: Fabric>(cx: &Cx<F>, plan: &Plan, me: HostId) -> Vec<u64> {
    let of = |host| {
        let slot = Slot::load(cx, plan, host).ok().filter(|slot| is_watched(slot.state))?;
        membership::name_of(cx, plan, slot)
    };
    plan.hosts().filter(|host| *host != me).filter_map(of).collect()
}

fn is_watched(state: HostState) -> bool {
    matches!(state, HostState::Joining | HostState::Alive | HostState::Leaving | HostState::Suspect)
}

/// A word that should change, as an observer sees it.
#[derive(Clone, Copy, Default)]
struct Seen {
    word: u64,
    /// For how long it has stood still.
    still_ns: u64,
}

impl Seen {
    fn look(&mut self, word: u64, passed_ns: u64) {
        let still_ns = if word == self.word { self.still_ns + passed_ns } else { 0 };
        *self = Self { word, still_ns };
    }
}

/// How often this host's own looks come late: it is given too little time then, and so may be the others.
#[derive(Clone, Copy, Default)]
struct Lateness(u32);

impl Lateness {
    /// A look so long after the last one.
    fn look(&mut self, passed_ns: u64, lease_ns: u64) {
        self.0 = match passed_ns > lease_ns / 8 {
            true => (self.0 + LATE).min(LATEST),
            false => self.0.saturating_sub(1),
        };
        debug_assert!((lease_ns..=8 * lease_ns).contains(&self.patience_ns(lease_ns)));
    }

    /// For how long others may be silent.
    fn patience_ns(self, lease_ns: u64) -> u64 {
        lease_ns * u64::from(1 + self.0.div_ceil(LATE))
    }
}

/// One host's eye on the others.
pub struct Watch {
    plan: Plan,
    me: Slot,
    /// Heartbeats.
    heartbeats: [Seen; MAX_HOSTS],
    /// How often others have looked.
    looks: [Seen; MAX_HOSTS],
    looked_ns: u64,
    lateness: Lateness,
    /// A process may have ended.
    doubts: bool,
    /// An accusation stands that could not be carried out yet.
    cutting_off: bool,
    /// What this host has accused another one of, and when.
    accused: Option<(Accusation, u64)>,
    unproven: Option<(HostId, &'static str)>,
}

impl Watch {
    /// The eye of a member.
    pub fn new<F: Fabric>(cx: &Cx<F>, plan: &Plan, me: Slot) -> Self {
        assert_eq!(me.host, cx.host(), "a host watches the others");
        Self {
            plan: plan.clone(),
            me,
            heartbeats: [Seen::default(); MAX_HOSTS],
            looks: [Seen::default(); MAX_HOSTS],
            looked_ns: cx.now_ns(),
            lateness: Lateness::default(),
            doubts: false,
            cutting_off: false,
            accused: None,
            unproven: None,
        }
    }

    /// A host that cannot be proven dead, and why: until it is, nobody else is found dead either.
    pub fn unproven(&self) -> Option<(HostId, &'static str)> {
        self.unproven
    }

    /// Somebody was told that a process has ended: the next look is to ask for each.
    pub fn doubt(&mut self) {
        self.doubts = true;
    }

    /// True while an accusation stands: whoever looks again soon can go on with it.
    pub fn is_cutting_off(&self) -> bool {
        self.cutting_off
    }

    /// The host that this one has accused since the last time, and when, by this host's clock.
    pub fn take_accused(&mut self) -> Option<(Accusation, u64)> {
        self.accused.take()
    }

    /// Looks at every host, and takes the next steps against one that is dead. A few loads a call; often
    /// enough if it is done a few times in an eighth of a lease.
    ///
    /// # Errors
    /// [`PodError::Fenced`] when this host is the accused: it must stop at once.
    pub fn look<F: Fabric>(&mut self, cx: &Cx<F>) -> Result<(), PodError> {
        let lease_ns = self.plan.config().lease_ns;
        let now_ns = cx.now_ns();
        let mut passed_ns = now_ns.saturating_sub(self.looked_ns);
        self.looked_ns = now_ns;
        self.lateness.look(passed_ns, lease_ns);
        if !cx.sabotaged("watch.late-looks-count-little") {
            passed_ns = passed_ns.min(lease_ns / 8);
        }
        let own_looks = membership::looks_word(&self.plan, self.me.host);
        cx.store(own_looks, cx.load(own_looks).wrapping_add(1));
        if let Some(accusation) = Accusation::load(cx, &self.plan) {
            return self.carry_out(cx, accusation);
        }
        (self.unproven, self.cutting_off) = (None, false);
        let doubts = std::mem::take(&mut self.doubts);
        let patience_ns = self.lateness.patience_ns(lease_ns);
        let (mut ended, mut silent) = (None, Vec::new());
        for host in self.plan.hosts().filter(|host| *host != self.me.host) {
            let slot = Slot::load(cx, &self.plan, host)?;
            let (heartbeat, looks) =
                (&mut self.heartbeats[usize::from(host.0)], &mut self.looks[usize::from(host.0)]);
            looks.look(cx.load(membership::looks_word(&self.plan, host)), passed_ns);
            heartbeat.look(membership::heartbeat_of(cx, &self.plan, host), passed_ns);
            if !is_watched(slot.state) {
                heartbeat.still_ns = 0;
                continue;
            }
            let heartbeat = *heartbeat;
            if (doubts || heartbeat.still_ns > lease_ns / 4) && self.has_ended(cx, slot)? {
                ended = ended.or(Some((slot, Reason::Ended)));
            } else if heartbeat.still_ns > patience_ns {
                cx.store(self.plan.suspicion(host, self.me.host), heartbeat.word);
                silent.push((slot, heartbeat));
            }
        }
        let mut dead = ended;
        for (slot, heartbeat) in silent.iter().filter(|_| ended.is_none()) {
            let us = u32::try_from(heartbeat.still_ns / 1000).unwrap_or(u32::MAX);
            let agreed = self.agreed(cx, slot.host, heartbeat.word, patience_ns)?;
            dead = dead.or(agreed.map(|agreed| (*slot, Reason::Silent { us, agreed })));
        }
        let Some((Slot { host, incarnation, .. }, reason)) = dead else { return Ok(()) };
        assert_ne!(host, self.me.host, "nobody accuses itself");
        let accusation = Accusation { host, incarnation, by: self.me.host, reason };
        match cx.compare_exchange(self.plan.controller(), 0, accusation.encode()) {
            Ok(_) => {
                self.accused = Some((accusation, now_ns));
                self.carry_out(cx, accusation)
            }
            // Somebody else was quicker; the next look deals with that.
            Err(_) => Ok(()),
        }
    }

    /// True if the process of this incarnation has surely ended.
    fn has_ended<F: Fabric>(&self, cx: &Cx<F>, slot: Slot) -> Result<bool, PodError> {
        let name = match cx.sabotaged("watch.ended-in-this-incarnation") {
            true => Some(membership::process_of(cx, &self.plan, slot.host)),
            false => membership::name_of(cx, &self.plan, slot),
        };
        let is_gone = name.is_some_and(|name| cx.is_gone(slot.host, name));
        // It may have been the name of a later incarnation.
        Ok(is_gone && Slot::load(cx, &self.plan, slot.host)? == slot)
    }

    /// Who else has seen this heartbeat of a host standing still; the outer none: somebody looks, and nobody
    /// has.
    fn agreed<F: Fabric>(
        &self,
        cx: &Cx<F>,
        accused: HostId,
        heartbeat: u64,
        patience_ns: u64,
    ) -> Result<Option<Option<HostId>>, PodError> {
        let mut alone = true;
        for host in self.plan.hosts().filter(|host| ![self.me.host, accused].contains(host)) {
            let state = Slot::load(cx, &self.plan, host)?.state;
            // Who does not look need not agree: it may hang, too, or not have begun to look.
            let looks = self.looks[usize::from(host.0)].still_ns <= patience_ns;
            if state != HostState::Alive || !looks {
                continue;
            }
            if cx.load(self.plan.suspicion(accused, host)) == heartbeat {
                return Ok(Some(Some(host)));
            }
            alone = false;
        }
        Ok((alone || cx.sabotaged("watch.agree")).then_some(None))
    }

    /// Goes on with an accusation, as far as that is possible now.
    fn carry_out<F: Fabric>(&mut self, cx: &Cx<F>, accusation: Accusation) -> Result<(), PodError> {
        if accusation.host == self.me.host {
            let Slot { state: expected, host, incarnation } = self.me;
            return Err(PodError::Fenced { host, incarnation, expected, found: HostState::Suspect });
        }
        self.cutting_off = true;
        while self.take_step(cx, accusation)? {}
        Ok(())
    }

    /// The next step against the accused: SUSPECT, then FENCED when there is proof. True if there is another
    /// one.
    fn take_step<F: Fabric>(&mut self, cx: &Cx<F>, accusation: Accusation) -> Result<bool, PodError> {
        let Accusation { host, incarnation, .. } = accusation;
        debug_assert_ne!(host, self.me.host, "the accused stops, and does not help");
        let slot = Slot::load(cx, &self.plan, host)?;
        let over = slot.incarnation != incarnation
            || matches!(slot.state, HostState::Free | HostState::Fenced | HostState::Recovered);
        if over {
            let _ = cx.compare_exchange(self.plan.controller(), accusation.encode(), 0);
            self.cutting_off = false;
            return Ok(false);
        }
        if slot.state != HostState::Suspect {
            self.say_why(cx, accusation);
            slot.change(cx, &self.plan, Slot { state: HostState::Suspect, ..slot });
            return Ok(true);
        }
        let name = membership::name_of(cx, &self.plan, slot);
        if Slot::load(cx, &self.plan, host)? != slot {
            // It may have been the name of a later incarnation.
            return Ok(true);
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
        let proven = cx.sabotaged("watch.wait-for-proof") || cut_off == CutOff::Done;
        if proven {
            slot.change(cx, &self.plan, Slot { state: HostState::Fenced, ..slot });
        }
        Ok(proven)
    }

    /// Says why an incarnation is cut off, for whoever asks later. All who help say the same.
    fn say_why<F: Fabric>(&self, cx: &Cx<F>, accusation: Accusation) {
        let word = membership::cut_off_word(&self.plan, accusation.host);
        let before = cx.load(word);
        // One that stood still since it read the accusation must not say it of a later incarnation: if it
        // stands now, what it read before is of this incarnation or an earlier one, and the swap fails behind
        // a later one's.
        if Accusation::load(cx, &self.plan) == Some(accusation) && !cx.sabotaged("watch.say-why") {
            let _ = cx.compare_exchange(word, before, accusation.encode());
        }
    }
}

/// Says that `by` has resolved a dead incarnation: it listens to it no more, and its own rows are free of it.
pub fn mark_resolved<F: Fabric>(cx: &Cx<F>, plan: &Plan, dead: Slot, by: HostId) {
    assert_ne!(by, dead.host, "a dead host resolves nothing");
    let word = plan.resolved(dead.host, by);
    // Seen at once, behind all that was swept. Nobody else changes it.
    let _ = cx.compare_exchange(word, cx.load(word), dead.incarnation.into());
}

/// True if nobody can meet a lock of a dead incarnation any more, but its successor: every other host has
/// resolved it, or is dead and owns nothing any more.
///
/// # Errors
/// [`PodError::Damaged`] when a state word makes no sense.
pub fn is_resolved<F: Fabric>(cx: &Cx<F>, plan: &Plan, dead: Slot) -> Result<bool, PodError> {
    for host in plan.hosts().filter(|host| *host != dead.host) {
        let slot = Slot::load(cx, plan, host)?;
        let matters = match slot.state {
            HostState::Free | HostState::Joining | HostState::Recovered => false,
            HostState::Alive | HostState::Leaving | HostState::Suspect => true,
            HostState::Fenced => plan
                .partitions()
                .any(|partition| Owner::load(cx, plan, partition).is_some_and(|owner| owner.host == host)),
        };
        if matters && cx.load(plan.resolved(dead.host, host)) != u64::from(dead.incarnation) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes `me` the successor of all dead hosts, unless another living one is it; true if `me` is.
///
/// # Errors
/// [`PodError::Damaged`] when a state word makes no sense.
pub fn become_successor<F: Fabric>(cx: &Cx<F>, plan: &Plan, me: Slot) -> Result<bool, PodError> {
    assert_eq!(me.host, cx.host(), "nobody makes another host the successor");
    let word = plan.controller().word(1);
    let mine = SET | u64::from(me.host.0) | u64::from(me.incarnation) << 8;
    let seen = cx.load(word);
    if seen == mine {
        return Ok(true);
    }
    if seen & SET != 0 {
        let successor = Slot::load(cx, plan, HostId(seen as u8))?;
        let lives = successor.incarnation == (seen >> 8) as u16
            && matches!(successor.state, HostState::Alive | HostState::Suspect | HostState::Leaving);
        if lives {
            return Ok(false);
        }
    }
    Ok(cx.compare_exchange(word, seen, mine).is_ok())
}

/// Ends the recovery of a dead incarnation: its number may be used again.
pub fn release<F: Fabric>(cx: &Cx<F>, plan: &Plan, dead: Slot) {
    assert!(matches!(dead.state, HostState::Fenced | HostState::Recovered), "{} is not cut off", dead.state);
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

#[cfg(test)]
mod tests;
