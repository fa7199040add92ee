//! Who is in the pod: one sync line per host number, changed by compare-and-swap.
//!
//! Invariants:
//! 1. A host's state changes only along [`HostState::may_become`], by a compare-and-swap of its whole state
//!    word.
//! 2. The state word keeps the number of the last incarnation when the host leaves, and joining takes the
//!    next one: no incarnation is ever used twice.
//! 3. Heartbeat, process and tested words are written only by the incarnation that the state word names; a
//!    process word belongs to that incarnation once the heartbeat does.
//! 4. A host is JOINING before it touches anything shared, and is counted as a reader from then until it has
//!    left or is cut off: nobody reuses what it may still read.
//!
//! ```text
//! word 0  state      0..4 state | 8..16 host | 16..32 incarnation | 32..64 zero
//! word 1  heartbeat  48..64 incarnation | 0..48 count
//! word 2  process    what the host says of itself: the name of its process ^ incarnation << 48
//! word 3  tested     0 = no self-test ran | 63 = 1 | 8..16 peer | 16..32 the peer's incarnation
//! word 4  cut off    the accusation of the last incarnation that was accused (`watch`)
//! word 5  looks      how often the host has looked at the others (`watch`)
//! ```
//!
//! It does not say who tests the memory with a host that joins (`admission`), does not decide that a host is
//! dead (`watch`) and does not recover one (the engine). See docs/protocols/membership.md.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use liger_fabric::{Cx, Fabric, HostId, LINE, SyncAddr};

use crate::bells;
use crate::error::PodError;
use crate::plan::{MAX_HOSTS, Plan};
use crate::watch::{self, Accusation};

/// The state of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostState {
    /// Nobody has this number.
    Free,
    /// It has taken the number and prepares.
    Joining,
    /// It serves.
    Alive,
    /// It gives back what it holds.
    Leaving,
    /// Its heartbeat stopped; it may still be running.
    Suspect,
    /// It can no longer write to the shared memory.
    Fenced,
    /// What it held is recovered.
    Recovered,
}

/// In the order of their codes.
const STATES: [HostState; 7] = {
    use HostState::*;
    [Free, Joining, Alive, Leaving, Suspect, Fenced, Recovered]
};

const _: () = {
    let mut code = 0;
    while code < STATES.len() {
        assert!(STATES[code] as usize == code, "a state's code is its place in the list");
        code += 1;
    }
};

impl HostState {
    /// True when the protocol has a step from this state to `next`.
    pub fn may_become(self, next: HostState) -> bool {
        use HostState::*;
        matches!(
            (self, next),
            (Free, Joining)
                | (Joining, Alive | Free | Suspect)
                | (Alive, Leaving | Suspect)
                | (Leaving, Free | Suspect)
                | (Suspect, Alive | Joining | Leaving | Fenced)
                | (Fenced, Recovered)
                | (Recovered, Free)
        )
    }

    /// True for a host that may hold locks, or has left what nobody has taken over yet.
    pub fn is_member(self) -> bool {
        !matches!(self, HostState::Free | HostState::Recovered)
    }

    /// True for a host that may hold pins or cached lines: reclamation waits for it, and not for one that is
    /// cut off.
    pub fn may_read(self) -> bool {
        self.is_member() && self != HostState::Fenced
    }
}

impl fmt::Display for HostState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_uppercase())
    }
}

/// A state word, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The state of the host.
    pub state: HostState,
    /// Whose slot it is.
    pub host: HostId,
    /// Its incarnation, from 1; 0 before the first.
    pub incarnation: u16,
}

impl Slot {
    /// The state of `host`.
    ///
    /// # Errors
    /// [`PodError::Damaged`] when the word is no state of this host.
    pub fn load<F: Fabric>(cx: &Cx<F>, plan: &Plan, host: HostId) -> Result<Self, PodError> {
        Self::decode(cx.load(plan.membership(host).word(STATE)), host)
    }

    pub(crate) fn encode(self) -> u64 {
        if self.incarnation == 0 {
            // The untouched slot of a new pod.
            assert_eq!(self.state, HostState::Free);
            return 0;
        }
        self.state as u64 | u64::from(self.host.0) << 8 | u64::from(self.incarnation) << 16
    }

    pub(crate) fn decode(word: u64, host: HostId) -> Result<Self, PodError> {
        let damaged = PodError::Damaged { what: "a host's state word", found: word, expected: 0 };
        let state = *STATES.get((word & 0xff) as usize).ok_or(damaged.clone())?;
        let slot = Self { state, host, incarnation: (word >> 16) as u16 };
        let sane = word == 0 || (slot.incarnation > 0 && slot.encode() == word);
        if sane { Ok(slot) } else { Err(damaged) }
    }

    /// Moves this host's slot on; false when somebody else changed it meanwhile.
    pub(crate) fn change<F: Fabric>(self, cx: &Cx<F>, plan: &Plan, next: Slot) -> bool {
        assert!(self.state.may_become(next.state), "{} to {}", self.state, next.state);
        let is_born = (self.state, next.state) == (HostState::Free, HostState::Joining);
        assert_eq!(next.incarnation, self.incarnation + u16::from(is_born), "joining takes the next number");
        assert_eq!(next.host, self.host, "a slot stays its host's");
        let word = plan.membership(self.host).word(STATE);
        cx.compare_exchange(word, self.encode(), next.encode()).is_ok()
    }
}

/// Protocol steps that a mutation test can leave out.
pub const SABOTAGE_STEPS: &[&str] = &["membership.look-after-naming", "membership.look-at-process"];

const STATE: u64 = 0;
const HEARTBEAT: u64 = 1;
const PROCESS: u64 = 2;
const TESTED: u64 = 3;
const CUT_OFF: u64 = 4;
const LOOKS: u64 = 5;

// The words of one line; a set of hosts is a u16.
const _: () = assert!(LOOKS < LINE as u64 / 8 && MAX_HOSTS <= u16::BITS as usize);

/// The last incarnation that a host number has. (Logs name those who close a dead host's log by greater
/// numbers.)
pub const MAX_INCARNATION: u16 = 0x7fff;

/// Hosts that are members, bit h for host h.
pub fn members<F: Fabric>(cx: &Cx<F>, plan: &Plan) -> u16 {
    hosts_that(cx, plan, HostState::is_member)
}

/// Hosts that reclamation must wait for, bit h for host h.
pub fn readers<F: Fabric>(cx: &Cx<F>, plan: &Plan) -> u16 {
    hosts_that(cx, plan, HostState::may_read)
}

fn hosts_that<F: Fabric>(cx: &Cx<F>, plan: &Plan, count: impl Fn(HostState) -> bool) -> u16 {
    plan.hosts().fold(0, |set, host| {
        // A damaged word counts: waiting for nobody is the lesser harm.
        let counts = Slot::load(cx, plan, host).map_or(true, |slot| count(slot.state));
        set | u16::from(counts) << host.0
    })
}

/// A host's heartbeat, whatever it means.
pub(crate) fn heartbeat_of<F: Fabric>(cx: &Cx<F>, plan: &Plan, host: HostId) -> u64 {
    cx.load(plan.membership(host).word(HEARTBEAT))
}

/// The word that says why a host was cut off.
pub(crate) fn cut_off_word(plan: &Plan, host: HostId) -> SyncAddr {
    plan.membership(host).word(CUT_OFF)
}

/// The word that counts how often a host has looked at the others.
pub(crate) fn looks_word(plan: &Plan, host: HostId) -> SyncAddr {
    plan.membership(host).word(LOOKS)
}

/// The process of this incarnation of a host; none if it has not said it yet, and so has touched nothing.
pub fn name_of<F: Fabric>(cx: &Cx<F>, plan: &Plan, slot: Slot) -> Option<u64> {
    // Its name came before its first heartbeat.
    let has_said = heartbeat_of(cx, plan, slot.host) >> 48 == u64::from(slot.incarnation);
    has_said.then(|| said_of(cx, plan, slot))
}

/// What a host says of its process. Nothing of it is true of an incarnation that has just begun.
pub fn process_of<F: Fabric>(cx: &Cx<F>, plan: &Plan, host: HostId) -> u64 {
    Slot::load(cx, plan, host).map_or(0, |slot| said_of(cx, plan, slot))
}

/// True if the process of this incarnation has surely ended, whatever the pod says of the host.
pub(crate) fn has_ended<F: Fabric>(cx: &Cx<F>, plan: &Plan, slot: Slot) -> bool {
    let is_gone = |process| cx.is_gone(slot.host, process);
    !cx.sabotaged("membership.look-at-process") && name_of(cx, plan, slot).is_some_and(is_gone)
}

fn said_of<F: Fabric>(cx: &Cx<F>, plan: &Plan, slot: Slot) -> u64 {
    process_in(cx.load(plan.membership(slot.host).word(PROCESS)), slot.incarnation)
}

/// The process that an incarnation's process word names; also the word for the name. The word of a process
/// that comes again is another one each time: so no compare-and-swap takes a later incarnation's word for the
/// one before its own.
fn process_in(word: u64, incarnation: u16) -> u64 {
    word ^ u64::from(incarnation) << 48
}

/// What the pod says of one host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostView {
    /// State and incarnation.
    pub slot: Slot,
    /// What it says of itself (its process number).
    pub process: u64,
    /// Nanoseconds on the observer's clock since the observer saw the heartbeat change; 0 at the first look.
    pub heartbeat_age_ns: u64,
    /// The host it ran the self-test with; none for the pod's first member.
    pub tested_with: Option<HostId>,
    /// Who has cut this incarnation off, and why.
    pub cut_off: Option<Accusation>,
}

/// One host's memory of the heartbeats it has seen.
pub struct Observer {
    plan: Plan,
    /// Per host: the last heartbeat and when it was first seen.
    seen: [Option<(u64, u64)>; MAX_HOSTS],
}

impl Observer {
    /// An observer that has seen nothing.
    pub fn new(plan: &Plan) -> Self {
        Self { plan: plan.clone(), seen: [None; MAX_HOSTS] }
    }

    /// Looks at every host once.
    ///
    /// # Errors
    /// [`PodError::Damaged`] when a state word makes no sense.
    pub fn observe<F: Fabric>(&mut self, cx: &Cx<F>) -> Result<Vec<HostView>, PodError> {
        let plan = self.plan.clone();
        plan.hosts().map(|host| self.view(cx, host)).collect()
    }

    fn view<F: Fabric>(&mut self, cx: &Cx<F>, host: HostId) -> Result<HostView, PodError> {
        let slot = Slot::load(cx, &self.plan, host)?;
        let line = self.plan.membership(host);
        let (heartbeat, tested) = (cx.load(line.word(HEARTBEAT)), cx.load(line.word(TESTED)));
        let now_ns = cx.now_ns();
        let last = &mut self.seen[usize::from(host.0)];
        let since_ns = match *last {
            Some((seen, since_ns)) if seen == heartbeat => since_ns,
            _ => now_ns,
        };
        *last = Some((heartbeat, since_ns));
        Ok(HostView {
            slot,
            process: said_of(cx, &self.plan, slot),
            heartbeat_age_ns: now_ns.saturating_sub(since_ns),
            tested_with: (tested != 0).then_some(HostId((tested >> 8) as u8)),
            cut_off: watch::cut_off(cx, &self.plan, slot),
        })
    }
}

/// This host, before it serves.
#[must_use = "a host that stays JOINING blocks its number"]
pub struct Joining {
    own: Own,
}

/// A host's heartbeat, for whoever sends it while the host itself is busy joining or leaving. It must be
/// gone before the host's number is given back.
pub struct Pulse {
    plan: Plan,
    slot: Slot,
}

/// This host, serving.
pub struct Member {
    own: Own,
    /// When it last showed that it lives, and saw that the pod agrees.
    renewed_ns: AtomicU64,
}

/// This host, giving back what it holds.
#[must_use = "a host that stays LEAVING blocks its number"]
pub struct Leaving {
    own: Own,
}

/// Takes the caller's host number. `process` is what others are told of the caller ([`Cx::process`]): by this
/// name they cut it off.
///
/// # Errors
/// If the caller has no name, or the number is not in the pod, is taken, was never left properly, or is used
/// up.
pub fn join<F: Fabric>(cx: &Cx<F>, plan: &Plan, process: u64) -> Result<Joining, PodError> {
    let host = cx.host();
    if host.0 >= plan.config().hosts {
        return Err(PodError::NoSuchHost { host, hosts: plan.config().hosts });
    }
    if process == 0 {
        return Err(PodError::Nameless { host });
    }
    let line = plan.membership(host);
    let found = Slot::load(cx, plan, host)?;
    let Slot { state, incarnation, .. } = found;
    let process_there = || process_of(cx, plan, host);
    match state {
        HostState::Free => {}
        HostState::Joining | HostState::Alive | HostState::Leaving => {
            return Err(PodError::HostInUse { host, state, incarnation, process: process_there() });
        }
        HostState::Suspect | HostState::Fenced | HostState::Recovered => {
            return Err(PodError::HostNotRecovered { host, state, incarnation });
        }
    }
    let before = (cx.load(line.word(PROCESS)), cx.load(line.word(HEARTBEAT)));
    let used_up = PodError::IncarnationsUsedUp { host };
    let incarnation = Some(incarnation).filter(|last| *last < MAX_INCARNATION).ok_or(used_up)? + 1;
    let slot = Slot { state: HostState::Joining, host, incarnation };
    if !found.change(cx, plan, slot) {
        let now = Slot::load(cx, plan, host)?;
        let (state, incarnation) = (now.state, now.incarnation);
        return Err(PodError::HostInUse { host, state, incarnation, process: process_there() });
    }
    let own = Own { plan: plan.clone(), slot };
    own.say_name(cx, process, before)?;
    cx.store(line.word(TESTED), 0);
    bells::clear(cx, plan);
    Ok(Joining { own })
}

impl Joining {
    /// This incarnation's number.
    pub fn incarnation(&self) -> u16 {
        self.own.slot.incarnation
    }

    /// This incarnation's heartbeat.
    pub fn pulse(&self) -> Pulse {
        Pulse { plan: self.own.plan.clone(), slot: self.own.slot }
    }

    /// This incarnation, and the pod that it joins.
    pub(crate) fn slot(&self) -> (&Plan, Slot) {
        (&self.own.plan, self.own.slot)
    }

    /// Notes with whom the memory was tested.
    pub(crate) fn record_tested<F: Fabric>(&self, cx: &Cx<F>, peer: Slot) {
        assert_ne!(peer.host, self.own.slot.host, "the memory is tested between two hosts");
        let record = 1 << 63 | u64::from(peer.host.0) << 8 | u64::from(peer.incarnation) << 16;
        cx.store(self.own.plan.membership(self.own.slot.host).word(TESTED), record);
    }

    /// Starts serving.
    ///
    /// # Errors
    /// [`PodError::Fenced`] when the host was suspected meanwhile.
    pub fn finish<F: Fabric>(self, cx: &Cx<F>) -> Result<Member, PodError> {
        let renewed_ns = AtomicU64::new(cx.now_ns());
        Ok(Member { own: self.own.become_state(cx, HostState::Alive)?, renewed_ns })
    }

    /// Gives the number back.
    ///
    /// # Errors
    /// [`PodError::Fenced`] when the host was suspected meanwhile.
    pub fn abandon<F: Fabric>(self, cx: &Cx<F>) -> Result<(), PodError> {
        self.own.become_state(cx, HostState::Free).map(|_| ())
    }
}

impl Pulse {
    /// Shows that this incarnation goes on; call it several times in a lease.
    ///
    /// # Errors
    /// [`PodError::Fenced`] when the pod no longer says that it does.
    pub fn beat<F: Fabric>(&self, cx: &Cx<F>) -> Result<(), PodError> {
        let found = Slot::load(cx, &self.plan, self.slot.host)?;
        let goes_on = matches!(found.state, HostState::Joining | HostState::Alive | HostState::Leaving);
        if !goes_on || found.incarnation != self.slot.incarnation {
            return Err(fenced(self.slot, found));
        }
        beat(cx, &self.plan, self.slot);
        Ok(())
    }
}

impl Member {
    /// This incarnation's number.
    pub fn incarnation(&self) -> u16 {
        self.own.slot.incarnation
    }

    /// This incarnation, as the pod's state word shows it.
    pub fn slot(&self) -> Slot {
        self.own.slot
    }

    /// Shows that this host lives; call it several times in a lease.
    ///
    /// # Errors
    /// [`PodError::Fenced`] when the pod no longer says that it does: stop at once.
    pub fn heartbeat<F: Fabric>(&self, cx: &Cx<F>) -> Result<(), PodError> {
        let now_ns = cx.now_ns();
        beat(cx, &self.own.plan, self.own.slot);
        match Slot::load(cx, &self.own.plan, self.own.slot.host)? {
            slot if slot == self.own.slot => {
                self.renewed_ns.store(now_ns, Ordering::Relaxed);
                Ok(())
            }
            slot => Err(fenced(self.own.slot, slot)),
        }
    }

    /// Makes sure that the pod has counted this host among the living within half a lease, before something
    /// that only a living host may do. Costs a look at the clock; after a long silence, a heartbeat.
    ///
    /// # Errors
    /// As [`Member::heartbeat`].
    #[inline]
    pub fn confirm<F: Fabric>(&self, cx: &Cx<F>) -> Result<(), PodError> {
        let silent_ns = cx.now_ns().saturating_sub(self.renewed_ns.load(Ordering::Relaxed));
        if silent_ns <= self.own.plan.config().lease_ns / 2 { Ok(()) } else { self.heartbeat(cx) }
    }

    /// A heartbeat, if the last one is an eighth of a lease ago.
    ///
    /// # Errors
    /// As [`Member::heartbeat`].
    pub fn keep_alive<F: Fabric>(&self, cx: &Cx<F>) -> Result<(), PodError> {
        let silent_ns = cx.now_ns().saturating_sub(self.renewed_ns.load(Ordering::Relaxed));
        if silent_ns < self.own.plan.config().lease_ns / 8 { Ok(()) } else { self.heartbeat(cx) }
    }

    /// Stops serving. The host still counts as a member until [`Leaving::finish`].
    ///
    /// # Errors
    /// [`PodError::Fenced`] when the host was suspected meanwhile.
    pub fn leave<F: Fabric>(self, cx: &Cx<F>) -> Result<Leaving, PodError> {
        Ok(Leaving { own: self.own.become_state(cx, HostState::Leaving)? })
    }
}

impl Leaving {
    /// Gives the number back. The host holds nothing any more: no pin, no lock, no mail it owes an answer to.
    ///
    /// # Errors
    /// [`PodError::Fenced`] when the host was suspected meanwhile.
    pub fn finish<F: Fabric>(self, cx: &Cx<F>) -> Result<(), PodError> {
        self.own.become_state(cx, HostState::Free).map(|_| ())
    }
}

/// Counts the heartbeat of `own` up by one; two workers that do it at once may count one, which shows as
/// well that the host lives.
pub(crate) fn beat<F: Fabric>(cx: &Cx<F>, plan: &Plan, own: Slot) {
    assert_eq!(cx.host(), own.host, "a heartbeat is its own host's");
    let word = plan.membership(own.host).word(HEARTBEAT);
    let count = cx.load(word).wrapping_add(1) & ((1 << 48) - 1);
    cx.store(word, u64::from(own.incarnation) << 48 | count);
}

fn fenced(own: Slot, found: Slot) -> PodError {
    let Slot { state: expected, host, incarnation } = own;
    PodError::Fenced { host, incarnation, expected, found: found.state }
}

/// The slot this process owns.
struct Own {
    plan: Plan,
    slot: Slot,
}

impl Own {
    fn become_state<F: Fabric>(self, cx: &Cx<F>, state: HostState) -> Result<Own, PodError> {
        assert_eq!(cx.host(), self.slot.host, "a host says itself that it serves and leaves");
        let next = Slot { state, ..self.slot };
        // The swap completes this host's earlier stores: whoever sees its new state sees what it says of
        // itself.
        if self.slot.change(cx, &self.plan, next) {
            return Ok(Own { slot: next, ..self });
        }
        Err(fenced(self.slot, Slot::load(cx, &self.plan, self.slot.host)?))
    }

    /// Says by which name this incarnation can be cut off; `before` is what the two words held before it
    /// began. If the pod has ruled against it meanwhile, because nobody knew its name, it stops here: it has
    /// touched nothing yet, and may be taken for cut off as it is.
    fn say_name<F: Fabric>(&self, cx: &Cx<F>, process: u64, before: (u64, u64)) -> Result<(), PodError> {
        let Slot { host, incarnation, state } = self.slot;
        assert!(state == HostState::Joining && incarnation > 0 && process != 0, "{state} of {process:#x}");
        let line = self.plan.membership(host);
        // By compare-and-swap: a process that stood still here for an incarnation or two changes nothing.
        let name = process_in(process, incarnation);
        let said = cx.compare_exchange(line.word(PROCESS), before.0, name).is_ok()
            && cx.compare_exchange(line.word(HEARTBEAT), before.1, u64::from(incarnation) << 48).is_ok();
        let found = Slot::load(cx, &self.plan, host)?;
        if cx.sabotaged("membership.look-after-naming") || (said && found == self.slot) {
            return Ok(());
        }
        if found == self.slot {
            // Such a process came in between; the next try finds what it said.
            self.slot.change(cx, &self.plan, Slot { state: HostState::Free, ..self.slot });
        }
        Err(fenced(self.slot, found))
    }
}
