//! Where a run has been: call sites, named steps, and on request every single verb of some hosts.
//!
//! Invariants:
//! 1. What lone workers do (`Simulation::alone`), where nothing is at stake, and timed runs, where no
//!    instruction can be missing, do not count.
//! 2. Nothing here depends on addresses of the program: the report is sorted by names, or in order of time.

use std::collections::BTreeMap;
use std::panic::Location;

use super::explain::{Site, Verb};
use super::machine::State;
use crate::cx::HostId;

type CallSite = &'static Location<'static>;

/// One verb of a host that was listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The host.
    pub host: HostId,
    /// Which verb of the host this is, from 1 (see `KillAt::HostStep`).
    pub number: u64,
    /// Which verb of everybody.
    pub step: u64,
    /// Where it was called.
    pub site: Site,
    /// The named steps that its worker asked for since the verb before.
    pub named: Vec<&'static str>,
}

/// A verb as it is noted.
struct Noted {
    host: usize,
    number: u64,
    step: u64,
    verb: Verb,
    place: CallSite,
    named: Vec<&'static str>,
}

/// Slots of a [`Known`].
const SLOTS: usize = 1024;

/// The places noted last, so that a verb costs a comparison; by address, which decides nothing else.
struct Known(Box<[(usize, Verb); SLOTS]>);

impl Known {
    /// True if this may be the first time.
    fn is_new(&mut self, verb: Verb, place: CallSite) -> bool {
        let address = std::ptr::from_ref(place) as usize;
        let slot = &mut self.0[(address >> 3 ^ (verb as usize) << 6) % SLOTS];
        let known = *slot == (address, verb);
        *slot = (address, verb);
        !known
    }
}

/// All of it.
pub(super) struct CallSites {
    known: Known,
    reached: BTreeMap<(usize, Verb), CallSite>,
    site_of: BTreeMap<(usize, Verb), usize>,
    sites: Vec<(Site, u64)>,
    steps_asked: Vec<&'static str>,
    /// Hosts whose verbs are listed, bit h for host h.
    listening_to: u16,
    list: Vec<Noted>,
    /// Named steps that workers have asked for since their last verb.
    asked: Vec<(usize, &'static str)>,
}

impl CallSites {
    pub fn new() -> Self {
        Self {
            known: Known(Box::new([(0, Verb::Load); SLOTS])),
            reached: BTreeMap::new(),
            site_of: BTreeMap::new(),
            sites: Vec::new(),
            steps_asked: Vec::new(),
            listening_to: 0,
            list: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// From now on lists every verb of these hosts, and of no others.
    pub fn list(&mut self, hosts: u16) {
        self.listening_to = hosts;
        self.asked.clear();
    }

    /// A verb is about to happen.
    #[inline]
    pub fn note(
        &mut self,
        worker: usize,
        host: usize,
        (number, step): (u64, u64),
        verb: Verb,
        place: CallSite,
    ) {
        debug_assert!(host < 16, "host {host} has no bit among those that are listened to");
        if self.known.is_new(verb, place) {
            self.reached.insert((std::ptr::from_ref(place) as usize, verb), place);
        }
        if self.listening_to >> host & 1 != 0 {
            let mut named = Vec::new();
            self.asked.retain(|&(by, step)| {
                if by == worker {
                    named.push(step);
                }
                by != worker
            });
            debug_assert!(
                self.list.last().is_none_or(|last| last.step < step),
                "verbs come in order of time"
            );
            self.list.push(Noted { host, number, step, verb, place, named });
        }
    }

    /// Counts a call site that can be left out.
    fn count(&mut self, verb: Verb, place: CallSite) {
        let key = (std::ptr::from_ref(place) as usize, verb);
        let index = match self.site_of.get(&key) {
            Some(&index) => index,
            None => {
                let known = self.sites.iter().position(|(site, _)| site.is(verb, place));
                let index = known.unwrap_or_else(|| {
                    self.sites.push((Site::new(verb, place), 0));
                    self.sites.len() - 1
                });
                self.site_of.insert(key, index);
                index
            }
        };
        self.sites[index].1 += 1;
    }

    fn ask(&mut self, worker: usize, host: usize, step: &'static str) {
        if !self.steps_asked.contains(&step) {
            self.steps_asked.push(step);
        }
        if self.listening_to >> host & 1 != 0 && !self.asked.contains(&(worker, step)) {
            self.asked.push((worker, step));
        }
    }

    /// Call sites of write_back, invalidate and fence, with how often each was reached, in order of first
    /// use.
    pub fn sites(&self) -> Vec<(Site, u64)> {
        self.sites.clone()
    }

    /// Names that were asked for, in order of first use.
    pub fn steps_asked(&self) -> Vec<&'static str> {
        self.steps_asked.clone()
    }

    /// Call sites of all verbs, sorted.
    pub fn reached(&self) -> Vec<Site> {
        let mut sites: Vec<Site> =
            self.reached.iter().map(|(&(_, verb), place)| Site::new(verb, place)).collect();
        sites.sort_unstable();
        sites.dedup();
        sites
    }

    /// What was listed, in order of time.
    pub fn listed(&self) -> Vec<Listed> {
        let listed = |noted: &Noted| Listed {
            host: HostId(noted.host as u8),
            number: noted.number,
            step: noted.step,
            site: Site::new(noted.verb, noted.place),
            named: noted.named.clone(),
        };
        self.list.iter().map(listed).collect()
    }
}

impl State {
    /// Counts the call site; false when it is the one to leave out.
    pub fn site_enabled(&mut self, verb: Verb, place: CallSite) -> bool {
        let enabled = !self.config.disabled_site.as_ref().is_some_and(|site| site.is(verb, place));
        if !self.quiet && !self.is_timed() {
            self.call_sites.count(verb, place);
        }
        enabled
    }

    /// Whether the step is left out. Then its worker may stall at one of its next verbs: what a step prevents
    /// often takes others' whole transactions between two verbs.
    pub fn sabotaged(&mut self, me: usize, step: &'static str) -> bool {
        if !self.quiet && !self.is_timed() {
            self.call_sites.ask(me, self.workers[me].host, step);
        }
        let left_out = self.config.sabotage == Some(step);
        if left_out && !self.quiet && !self.is_timed() {
            let worker = &mut self.workers[me];
            debug_assert!(!worker.done, "a step is asked for by a worker that runs");
            worker.left_out += 1;
            // Runs of steps that are asked for all the time must not become much longer.
            if self.random.below(4 + worker.left_out / 16) == 0 {
                worker.stall = Some((self.random.below(24) as u32, 1 << self.random.below(8)));
            }
        }
        left_out
    }

    /// Turns that the worker gives away before its verb, because of a step that was left out.
    pub fn stall(&mut self, me: usize) -> u32 {
        match &mut self.workers[me].stall {
            Some((0, _)) => self.workers[me].stall.take().map_or(0, |(_, turns)| turns),
            Some((verbs, _)) => {
                *verbs -= 1;
                0
            }
            None => 0,
        }
    }
}
