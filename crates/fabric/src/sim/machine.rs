//! The state of a simulated pod: workers, memory, clock, and what happens before each verb.
//!
//! Invariants:
//! 1. Exactly one worker runs at a time; it gives control back only in `before` (or `pause`, or `spend`), so
//!    a verb is one step.
//! 2. Whatever stops the run is recorded once, first come; after that every worker is unwound.
//! 3. The trace hash covers worker, verb, address and value of every step, and nothing that differs between
//!    builds.

use std::collections::BTreeMap;
use std::panic::Location;

use super::call_sites::CallSites;
use super::config::{Adversary, KillAt, Mode, SimConfig};
use super::coroutine::End;
use super::explain::{Actor, By, Recent, Rule, Verb, Violation};
use super::incoherent::{CrashDomain, Incoherent};
use super::network::Network;
use super::remote::Adapter;
use super::report::{HostReport, Outcome, Report, TimeUse};
use super::rules::{Broken, Rules};
use super::schedule::{Picker, Random, Scheduler, Script};
use super::timed::Timed;
use crate::cx::{HostId, WorkerId};
use crate::disk::SimDisks;
use crate::fabric::Work;

/// Virtual time of one verb in the adversarial mode.
const VERB_NS: u64 = 20;
/// First and longest virtual time of a fruitless pause.
const PAUSE_NS: (u64, u64) = (100, 100_000);
/// Timed pauses are short: so many times more of them are in vain before a run counts as a deadlock.
const TIMED_PATIENCE: u64 = 200;
/// Verbs that destructors of a dying worker may call before we call it a loop.
const INERT_VERBS: u32 = 1_000_000;

pub(crate) struct Worker {
    pub host: usize,
    pub id: WorkerId,
    /// Its host died or the run stopped: unwind it when it is resumed.
    pub killed: bool,
    /// It is unwinding: its verbs do nothing.
    pub inert: bool,
    pub done: bool,
    /// Starts when this host has died.
    pub waits_for_crash: bool,
    last: By,
    inert_verbs: u32,
    /// Pauses since the progress of this number.
    pauses: u64,
    pauses_since: u64,
    /// After so many verbs it gives away so many turns.
    pub stall: Option<(u32, u32)>,
    /// How often it has left a step out.
    pub left_out: usize,
}

/// One host's clock in the adversarial mode.
struct Clock {
    skew_ns: u64,
    drift_ppm: i64,
}

impl Clock {
    fn read(&self, ns: u64) -> u64 {
        debug_assert!(self.drift_ppm.abs() < 1_000_000, "a clock goes on");
        let drifted = i128::from(ns) * i128::from(1_000_000 + self.drift_ppm) / 1_000_000;
        self.skew_ns + drifted as u64
    }
}

/// The pod's shared memory, in one of the two modes.
pub(crate) enum Memory {
    Incoherent(Box<Incoherent>),
    Timed(Box<Timed>),
}

pub(crate) struct State {
    pub config: SimConfig,
    pub adversary: Adversary,
    pub workers: Vec<Worker>,
    pub hosts: Vec<HostReport>,
    pub memory: Memory,
    pub disks: SimDisks,
    /// None if its costs are not known.
    pub network: Option<Network>,
    /// The way to memory servers; none if its costs are not known.
    pub adapter: Option<Adapter>,
    pub picker: Picker,
    pub random: Random,
    pub script: Option<Script>,
    pub step: u64,
    pub switches: u64,
    pub hash: u64,
    pub stop: Option<Outcome>,
    /// Workers to unwind before anybody runs on.
    pub victims: Vec<usize>,
    pub current: usize,
    /// One worker alone, no adversary.
    pub quiet: bool,
    clocks: Vec<Clock>,
    /// Timed: when the present `run` began.
    origin_ps: u64,
    paused_ns: u64,
    /// Pauses of all workers since somebody made progress.
    idle_pauses: u64,
    /// Number of times somebody made progress, and how many workers have lost patience since.
    progress: u64,
    impatient: usize,
    pub kills: Vec<(HostId, KillAt, CrashDomain)>,
    /// How often each bell has been rung.
    pub rings: BTreeMap<u64, u64>,
    /// Nobody is killed now.
    pub spared: bool,
    /// See `SimConfig::ends_show`.
    pub ends_show: bool,
    recent: Recent,
    pub call_sites: CallSites,
}

impl State {
    pub fn new(config: SimConfig, disks: SimDisks) -> Self {
        let mut random = Random::new(config.seed);
        let (hosts, len) = (config.hosts, config.len);
        let (network, adapter) = (Network::new(&config), Adapter::new(&config));
        let (memory, adversary) = match &config.mode {
            Mode::Adversarial(a) => {
                let sync = config.sync.clone();
                let rules = (a.rules && !a.coherent_data)
                    .then(|| Rules::new(hosts, len, a.prefetch, a.unwritten_reads, sync));
                let memory = Incoherent::new(hosts, len, rules, a.coherent_data);
                (Memory::Incoherent(Box::new(memory)), a.clone())
            }
            Mode::Timed(profile) => {
                let calm = Adversary { scheduler: Scheduler::Scripted, ..Adversary::default() };
                (Memory::Timed(Box::new(Timed::new(profile, hosts, len))), calm)
            }
        };
        let kills = config.kills.iter().map(|kill| match kill.at {
            KillAt::RandomStep(n) => (kill.host, KillAt::Step(1 + random.next() % n.max(1)), kill.domain),
            at => (kill.host, at, kill.domain),
        });
        let kills = kills.collect();
        let drift = i64::from(adversary.clock_drift_ppm);
        let clock = |_| Clock {
            skew_ns: random.next() % (adversary.clock_skew_ns + 1),
            drift_ppm: (random.next() % (2 * drift + 1) as u64) as i64 - drift,
        };
        let clocks = (0..config.hosts).map(clock).collect();
        Self {
            memory,
            disks,
            network,
            adapter,
            workers: Vec::new(),
            hosts: vec![HostReport::default(); config.hosts],
            picker: Picker::new(adversary.scheduler, &mut random),
            random,
            script: None,
            step: 0,
            switches: 0,
            hash: 0,
            stop: None,
            victims: Vec::new(),
            current: 0,
            quiet: false,
            clocks,
            origin_ps: 0,
            paused_ns: 0,
            idle_pauses: 0,
            progress: 0,
            impatient: 0,
            kills,
            rings: BTreeMap::new(),
            spared: false,
            ends_show: config.ends_show,
            recent: Recent::new(),
            call_sites: CallSites::new(),
            adversary,
            config,
        }
    }

    pub fn add_worker(&mut self, host: HostId, id: WorkerId, waits_for_crash: bool) -> usize {
        let index = self.workers.len();
        assert!(index < usize::from(u16::MAX), "a run has fewer workers");
        let host = usize::from(host.0);
        assert!(host < self.config.hosts, "host {host} is not in this pod");
        let last = By { worker: index as u16, ..By::NOBODY };
        self.workers.push(Worker {
            host,
            id,
            killed: false,
            inert: false,
            done: false,
            waits_for_crash,
            last,
            inert_verbs: 0,
            pauses: 0,
            pauses_since: 0,
            stall: None,
            left_out: 0,
        });
        match &mut self.memory {
            Memory::Incoherent(memory) => memory.add_worker(),
            Memory::Timed(memory) => memory.add_worker(host),
        }
        index
    }

    pub fn now_ns(&self, me: usize) -> u64 {
        match &self.memory {
            Memory::Incoherent(_) => {
                self.clocks[self.workers[me].host].read(self.step * VERB_NS + self.paused_ns)
            }
            Memory::Timed(memory) => memory.clock(me) / 1000,
        }
    }

    /// Accounts for the verb and lets the adversary act; true when the worker must give control back first.
    #[inline]
    pub fn before(&mut self, me: usize, verb: Verb, at: u64, location: &'static Location<'static>) -> bool {
        debug_assert!(
            self.quiet || self.current == me,
            "worker {me} runs while it is {}'s turn",
            self.current
        );
        self.step += 1;
        let by = By { step: self.step, location: Some(location), at, worker: me as u16, verb };
        let host = self.workers[me].host;
        self.hosts[host].verbs += 1;
        self.workers[me].last = by;
        if let Memory::Incoherent(_) = self.memory {
            self.recent.note(by);
        }
        if verb == Verb::Pause && self.gives_up(me) {
            return true;
        }
        if self.step > self.config.max_verbs {
            self.stop(Outcome::OutOfVerbs { workers: self.last_places() });
            return true;
        }
        if self.quiet {
            return false;
        }
        if let Memory::Incoherent(_) = self.memory {
            self.call_sites.note(me, host, (self.hosts[host].verbs, self.step), verb, location);
        }
        if !self.kills.is_empty() {
            self.planned_kills();
            if self.workers[me].killed {
                return true;
            }
        }
        let pauses = verb == Verb::Pause;
        let next = match &mut self.memory {
            // These concern nobody but the worker (and its host's tags): no need to wait for slower clocks.
            Memory::Timed(_) if matches!(verb, Verb::Fence | Verb::Invalidate) => me,
            Memory::Timed(memory) => memory.next_worker(me),
            Memory::Incoherent(_) if self.script.is_some() => self.scripted_choices(me, pauses),
            Memory::Incoherent(memory) => {
                Self::random_event(&self.adversary, memory, &self.workers, &mut self.random);
                if pauses {
                    self.picker.yield_from(me, &mut self.random)
                } else {
                    self.picker.preempt(me, self.step, &mut self.random)
                }
            }
        };
        self.current = next;
        self.switches += u64::from(next != me);
        next != me || !self.victims.is_empty()
    }

    /// Timed: computation takes its time, and if a worker of this host is behind, others run meanwhile
    /// (without this, nobody could see the locks that a worker holds between two verbs). True when the worker
    /// must give control back first.
    pub fn spend(&mut self, me: usize, work: Work, times: u32) -> bool {
        let Memory::Timed(memory) = &mut self.memory else { return false };
        if self.workers[me].inert {
            return false;
        }
        debug_assert!(
            self.quiet || self.current == me,
            "worker {me} works while it is {}'s turn",
            self.current
        );
        memory.spend(me, work, times);
        if self.quiet {
            return false;
        }
        let next = memory.next_in_host(me);
        self.current = next;
        self.switches += u64::from(next != me);
        next != me
    }

    /// Counts a pause; true when every worker has paused in vain for too long.
    fn gives_up(&mut self, me: usize) -> bool {
        let runnable = self.picker.runnable().len().max(1);
        let mut patience = self.config.max_idle_pauses;
        match &mut self.memory {
            Memory::Incoherent(memory) => {
                let rounds = self.idle_pauses / runnable as u64;
                self.paused_ns += (PAUSE_NS.0 << rounds.min(10)).min(PAUSE_NS.1);
                if (self.idle_pauses + 1).is_multiple_of(2 * runnable as u64) {
                    (0..self.workers.len()).for_each(|w| memory.drain(w));
                }
            }
            Memory::Timed(memory) => {
                memory.pause(me);
                patience = patience.saturating_mul(TIMED_PATIENCE);
            }
        }
        self.idle_pauses += 1;
        let worker = &mut self.workers[me];
        if worker.pauses_since != self.progress {
            (worker.pauses_since, worker.pauses) = (self.progress, 0);
        }
        worker.pauses += 1;
        self.impatient += usize::from(worker.pauses == patience);
        debug_assert!(self.impatient <= self.workers.len(), "a worker loses its patience once");
        if self.impatient >= runnable {
            self.stop(Outcome::Deadlock { workers: self.last_places() });
        }
        self.stop.is_some()
    }

    /// Somebody changed something: waiting may be over.
    #[inline]
    pub fn progress(&mut self, me: usize) {
        self.anybody_progressed();
        if let Memory::Timed(memory) = &mut self.memory {
            memory.progress(me);
        }
    }

    fn anybody_progressed(&mut self) {
        self.idle_pauses = 0;
        self.impatient = 0;
        self.progress += 1;
    }

    /// Everything reaches the shared memory (before and after a lone worker).
    pub fn quiesce(&mut self) {
        if let Memory::Incoherent(memory) = &mut self.memory {
            memory.quiesce();
        }
    }

    pub fn is_timed(&self) -> bool {
        matches!(self.memory, Memory::Timed(_))
    }

    pub fn by(&self, me: usize) -> By {
        self.workers[me].last
    }

    #[inline]
    pub fn mix(&mut self, me: usize, verb: Verb, at: u64, value: u64) {
        debug_assert!(at < 1 << 48, "an address leaves room for verb and worker: {at:#x}");
        let event = (me as u64) << 56 ^ (verb as u64) << 48 ^ at;
        let h = (self.hash ^ event).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        self.hash = (h ^ value).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31);
    }

    /// Perhaps one event of the memory system.
    fn random_event(a: &Adversary, memory: &mut Incoherent, workers: &[Worker], random: &mut Random) {
        let die = random.next();
        if die & 1023 >= u64::from(a.events_per_1024) {
            return;
        }
        let prefetches = if a.prefetch { a.prefetches } else { 0 };
        let weights = [a.write_backs, a.drops, prefetches, a.drains, a.completions].map(u32::from);
        let total: u32 = weights.iter().sum();
        let mut ticket = (((die >> 32) * u64::from(total)) >> 32) as u32;
        let pick = (die >> 10) as usize & 0xffff;
        let (host, worker) = (pick % memory.hosts(), pick % workers.len());
        for (kind, weight) in weights.into_iter().enumerate() {
            if ticket < weight {
                match kind {
                    0 => memory.evict_dirty(host, random),
                    1 => memory.evict_clean(host, random),
                    2 => memory.prefetch(host, random),
                    3 => memory.drain_one(worker),
                    _ => memory.complete_one(workers[worker].host, worker, random),
                }
                return;
            }
            ticket -= weight;
        }
    }

    fn planned_kills(&mut self) {
        let due = |state: &Self, (host, at, _): &(HostId, KillAt, CrashDomain)| match at {
            KillAt::Step(n) | KillAt::RandomStep(n) => state.step >= *n,
            KillAt::HostStep(n) => state.hosts[usize::from(host.0)].verbs >= *n,
        };
        while !self.spared
            && let Some(index) = self.kills.iter().position(|kill| due(self, kill))
        {
            let (host, _, domain) = self.kills.remove(index);
            self.kill(usize::from(host.0), domain);
        }
    }

    /// The host dies now: its workers will run no more, its restarted ones may.
    pub fn kill(&mut self, host: usize, domain: CrashDomain) {
        assert!(host < self.config.hosts, "host {host} is not in this pod");
        let step = self.step;
        let all = 0..self.workers.len();
        let own: Vec<usize> =
            all.filter(|&w| self.workers[w].host == host && !self.workers[w].waits_for_crash).collect();
        let by = By { step, worker: own.first().map_or(0, |&w| w as u16), ..By::NOBODY };
        match &mut self.memory {
            Memory::Incoherent(memory) => memory.crash(host, &own, domain, by, &mut self.random),
            Memory::Timed(memory) => memory.crash(host),
        }
        self.disks.host_died(HostId(host as u8), domain != CrashDomain::Process);
        if let Some(network) = &mut self.network {
            network.host_died(host);
        }
        for worker in own {
            if !self.workers[worker].done && !self.workers[worker].killed {
                self.retire(worker);
                self.victims.push(worker);
            }
        }
        let is_over = |worker: &Worker| worker.waits_for_crash || worker.done || worker.killed;
        debug_assert!(
            self.workers.iter().filter(|worker| worker.host == host).all(is_over),
            "nobody is left"
        );
        for worker in 0..self.workers.len() {
            if self.workers[worker].host == host && std::mem::take(&mut self.workers[worker].waits_for_crash)
            {
                self.picker.add(worker, &mut self.random);
                if let Memory::Timed(memory) = &mut self.memory {
                    memory.start(worker, memory.clock(self.current));
                }
            }
        }
        debug_assert!(
            self.hosts[host].killed.last().is_none_or(|last| *last <= step),
            "incarnations end in order"
        );
        self.hosts[host].killed.push(step);
        self.mix(usize::from(u8::MAX), Verb::Pause, host as u64, step);
        self.anybody_progressed();
    }

    /// Records why the run ends (the first reason counts).
    pub fn stop(&mut self, outcome: Outcome) {
        self.stop.get_or_insert(outcome);
    }

    pub fn violation(&mut self, me: usize, broken: &Broken) {
        let is_inside = (broken.line as usize) < self.config.len / crate::LINE;
        debug_assert!(
            is_inside || broken.rule == Rule::OutOfBounds,
            "{} of line {}",
            broken.rule,
            broken.line
        );
        let here = self.workers[me].last;
        let there = broken.there;
        let parties = [here.worker, there.map_or(here.worker, |by| by.worker)];
        let history = self.recent.on_line(broken.line, &parties);
        let violation = Violation {
            rule: broken.rule,
            line: broken.line * crate::LINE as u64,
            here: self.actor(here),
            there: there.map(|by| self.actor(by)),
            history: history.into_iter().map(|by| self.actor(by)).collect(),
            seed: self.config.seed,
        };
        self.stop(Outcome::Violation(Box::new(violation)));
    }

    pub fn actor(&self, by: By) -> Actor {
        let worker = &self.workers[usize::from(by.worker)];
        Actor {
            host: HostId(worker.host as u8),
            worker: worker.id,
            step: by.step,
            verb: by.verb,
            at: by.at,
            location: by.location,
        }
    }

    /// Where every worker that has not ended was last seen.
    pub fn last_places(&self) -> Vec<Actor> {
        self.workers.iter().filter(|w| !w.done && !w.killed).map(|w| self.actor(w.last)).collect()
    }

    /// A verb called while its worker unwinds.
    pub fn inert_verb(&mut self, me: usize) {
        self.workers[me].inert_verbs += 1;
        assert!(self.workers[me].inert_verbs < INERT_VERBS, "a destructor loops over verbs of a dead worker");
    }
}

impl State {
    /// Whom `run` starts with.
    pub fn choose_first(&mut self) {
        if let Memory::Timed(memory) = &mut self.memory {
            self.origin_ps = memory.latest();
            memory.count_afresh();
            for &worker in self.picker.runnable() {
                memory.start(usize::from(worker), self.origin_ps);
            }
        }
        self.choose_after(self.workers.len());
    }

    /// Chooses somebody else if the chosen worker cannot run any more.
    pub fn choose_if_gone(&mut self) {
        let current = self.current;
        if !self.picker.runnable().contains(&(current as u16)) {
            self.choose_after(current);
        }
    }

    fn choose_after(&mut self, gone: usize) {
        let next = match &mut self.memory {
            Memory::Incoherent(_) => self.picker.successor(gone, &mut self.random),
            Memory::Timed(memory) => memory.next(),
        };
        let runs = |worker: usize| !self.workers[worker].done && !self.workers[worker].killed;
        debug_assert!(next.is_none_or(runs), "{next:?} is chosen, and has ended");
        self.current = next.unwrap_or(0);
    }

    /// The run is over for this worker.
    pub fn retire(&mut self, worker: usize) {
        assert!(!self.workers[worker].done, "worker {worker} has ended and is killed");
        self.workers[worker].killed = true;
        self.picker.remove(worker);
        if let Memory::Timed(memory) = &mut self.memory {
            memory.remove(worker);
        }
    }

    /// The worker's coroutine has ended.
    pub fn ended(&mut self, worker: usize, end: End) {
        assert!(!self.workers[worker].done, "worker {worker} ends twice");
        self.workers[worker].done = true;
        if let Memory::Timed(memory) = &mut self.memory {
            memory.ended(worker);
        }
        if let End::Panicked(message) = end {
            let host = HostId(self.workers[worker].host as u8);
            self.stop(Outcome::Panicked { host, worker: self.workers[worker].id, message });
        }
        if !self.workers[worker].killed {
            self.picker.remove(worker);
            self.anybody_progressed();
            self.choose_after(worker);
        }
    }

    pub fn report(&mut self) -> Report {
        assert!(self.victims.is_empty(), "whoever was killed is unwound before the run is over");
        Report {
            outcome: self.stop.take().unwrap_or(Outcome::Completed),
            seed: self.config.seed,
            trace_hash: self.hash,
            verbs: self.step,
            switches: self.switches,
            virtual_ns: match &self.memory {
                Memory::Incoherent(_) => self.step * VERB_NS + self.paused_ns,
                Memory::Timed(memory) => (memory.latest() - self.origin_ps) / 1000,
            },
            time_use: match &self.memory {
                Memory::Incoherent(_) => TimeUse::default(),
                Memory::Timed(memory) => memory.time_use(),
            },
            sites: self.call_sites.sites(),
            steps_asked: self.call_sites.steps_asked(),
            reached: self.call_sites.reached(),
            listed: self.call_sites.listed(),
            hosts: self.hosts.clone(),
        }
    }
}
