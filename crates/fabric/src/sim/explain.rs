//! What the simulator says when a rule of the memory model is broken, and the names it uses for places in the
//! code.
//!
//! A [`Violation`] names the rule, the line, both parties (host, worker, step, source line) and the last
//! events on that line, because a missing instruction leaves no trace of its own: the reader of the report
//! must see what was *not* done between two lines of code.

use std::fmt;
use std::panic::Location;

use crate::cx::{HostId, WorkerId};

/// What a worker did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Verb {
    /// `load` of a sync word.
    Load,
    /// `store` to a sync word.
    Store,
    /// `compare_exchange` of a sync word.
    CompareExchange,
    /// `read` of data.
    Read,
    /// `write` of data.
    Write,
    /// `write_back` of data.
    WriteBack,
    /// `invalidate` of data.
    Invalidate,
    /// `fence`.
    Fence,
    /// `pause`.
    Pause,
    /// `range_use`.
    RangeUse,
    /// A call of a disk.
    Disk,
    /// `sync` of a disk's file, or `sync_names`.
    DiskSync,
    /// `send_message`, `receive_message` or `remote`.
    Network,
    /// `ring`.
    Ring,
}

impl Verb {
    /// The verb's name as the trait spells it.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Load => "load",
            Verb::Store => "store",
            Verb::CompareExchange => "compare_exchange",
            Verb::Read => "read",
            Verb::Write => "write",
            Verb::WriteBack => "write_back",
            Verb::Invalidate => "invalidate",
            Verb::Fence => "fence",
            Verb::Pause => "pause",
            Verb::RangeUse => "range_use",
            Verb::Disk => "disk call",
            Verb::DiskSync => "sync",
            Verb::Network => "message",
            Verb::Ring => "ring",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A call site of `write_back`, `invalidate`, `fence` or a disk's sync: what mutation tests switch off one
/// at a time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Site {
    /// Which of these verbs (a call of `Cx::publish` is a `write_back` and a `fence` at one place).
    pub verb: Verb,
    /// Source file, as the compiler names it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl Site {
    pub(crate) fn new(verb: Verb, at: &Location<'_>) -> Self {
        Self { verb, file: at.file().to_owned(), line: at.line(), column: at.column() }
    }

    pub(crate) fn is(&self, verb: Verb, at: &Location<'_>) -> bool {
        self.line == at.line() && self.verb == verb && self.column == at.column() && self.file == at.file()
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}:{}:{}", self.verb, self.file, self.line, self.column)
    }
}

/// The rules that the simulator checks (docs/memory-model.md lists them under these names).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Rule {
    /// Read of a line that another host published since this host last invalidated it.
    StaleRead,
    /// Read of a line that another host wrote and has not published (written back and fenced).
    UnpublishedRead,
    /// Write to a line that another host wrote and has not published.
    TwoWriters,
    /// Read of bytes that came from a stale copy: somebody wrote a part of the line without refreshing it
    /// first.
    StaleBase,
    /// Sync verb on a data line, or data verb on a sync line.
    MixedLine,
    /// Access to a range that was freed and not handed out again.
    UseAfterFree,
    /// Read of bytes nobody ever wrote (only with `Adversary::unwritten_reads`).
    UnwrittenRead,
    /// Access beyond the pod's memory.
    OutOfBounds,
}

// The report of a run finds a rule by its number.
const _: () = {
    let mut number = 0;
    while number < Rule::ALL.len() {
        assert!(Rule::ALL[number] as usize == number, "rules are listed in their order");
        number += 1;
    }
};

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 8] = [
        Rule::StaleRead,
        Rule::UnpublishedRead,
        Rule::TwoWriters,
        Rule::StaleBase,
        Rule::MixedLine,
        Rule::UseAfterFree,
        Rule::UnwrittenRead,
        Rule::OutOfBounds,
    ];

    /// The name that is printed and that tests match.
    pub fn name(self) -> &'static str {
        match self {
            Rule::StaleRead => "stale-read",
            Rule::UnpublishedRead => "unpublished-read",
            Rule::TwoWriters => "two-writers",
            Rule::StaleBase => "stale-base",
            Rule::MixedLine => "mixed-line",
            Rule::UseAfterFree => "use-after-free",
            Rule::UnwrittenRead => "unwritten-read",
            Rule::OutOfBounds => "out-of-bounds",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Rule::StaleRead => {
                "the reader's host may still hold a copy from before the other host's write: \
                 invalidate the range and fence after the sync word says so, before the read"
            }
            Rule::UnpublishedRead => {
                "the writer's change may still sit in its own cache: \
                 write_back the range and fence before the sync word that lets others read it"
            }
            Rule::TwoWriters => {
                "two hosts hold changes of one line, and the later eviction wins the whole line: \
                 the first writer must write_back and fence before it gives the line away"
            }
            Rule::StaleBase => {
                "the bytes around a partial write came from a stale copy: \
                 invalidate and fence before the partial write, or write the whole line"
            }
            Rule::MixedLine => "sync words and data must not share a 64-byte line",
            Rule::UseAfterFree => "the range was taken back and not handed out again",
            Rule::UnwrittenRead => "nobody ever wrote these bytes",
            Rule::OutOfBounds => "the address lies beyond the pod's memory",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One party of a violation, or one event before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Actor {
    /// Its host.
    pub host: HostId,
    /// Its number in the host.
    pub worker: WorkerId,
    /// The step of the run: verbs of all workers, from 1; 0 is the setup.
    pub step: u64,
    /// What it did.
    pub verb: Verb,
    /// Address it did it to (0 for verbs without one).
    pub at: u64,
    /// Where in the source; `None` is the crash of the host.
    pub location: Option<&'static Location<'static>>,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Actor { host, worker, step, verb, at, .. } = self;
        let Some(place) = self.location else {
            return write!(f, "step {step}: crash of host {}", host.0);
        };
        write!(f, "step {step}: host {} worker {} {verb} ", host.0, worker.0)?;
        if !matches!(verb, Verb::Fence | Verb::Pause) {
            write!(f, "{at:#x} ")?;
        }
        write!(f, "at {place}")
    }
}

/// A broken rule of the memory model.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which rule.
    pub rule: Rule,
    /// First byte of the line concerned.
    pub line: u64,
    /// Who broke it, where.
    pub here: Actor,
    /// The other party: who wrote, published, freed or first used the line.
    pub there: Option<Actor>,
    /// The last events on this line, oldest first.
    pub history: Vec<Actor>,
    /// Seed that replays the run (with the same configuration).
    pub seed: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "broken rule: {} (line {:#x})", self.rule, self.line)?;
        writeln!(f, "  here:  {}", self.here)?;
        if let Some(there) = &self.there {
            writeln!(f, "  there: {there}")?;
        }
        writeln!(f, "  why:   {}", self.rule.advice())?;
        if !self.history.is_empty() {
            writeln!(f, "  last events on the line:")?;
            for event in &self.history {
                writeln!(f, "    {event}")?;
            }
        }
        write!(f, "  replay: seed {}", self.seed)
    }
}

/// A compact note of who did something, kept per line.
#[derive(Clone, Copy)]
pub(crate) struct By {
    pub step: u64,
    pub location: Option<&'static Location<'static>>,
    pub at: u64,
    pub worker: u16,
    pub verb: Verb,
}

impl By {
    pub const NOBODY: By = By { step: 0, location: None, at: 0, worker: 0, verb: Verb::Pause };
}

/// The last few events of the run, for the history in a violation.
pub(crate) struct Recent {
    ring: Vec<By>,
    next: usize,
}

const RECENT: usize = 512;
const SHOWN: usize = 12;

const _: () = assert!(0 < SHOWN && SHOWN <= RECENT);

impl Recent {
    pub fn new() -> Self {
        Self { ring: Vec::with_capacity(RECENT), next: 0 }
    }

    #[inline]
    pub fn note(&mut self, event: By) {
        let last = (self.next + RECENT - 1) % RECENT;
        debug_assert!(self.ring.get(last).is_none_or(|last| last.step <= event.step), "in order of time");
        if self.ring.len() < RECENT {
            self.ring.push(event);
        } else {
            self.ring[self.next] = event;
        }
        self.next = (self.next + 1) % RECENT;
    }

    /// The last events that touch `line` (a line number), and fences of the workers that do, oldest first.
    pub fn on_line(&self, line: u64, parties: &[u16]) -> Vec<By> {
        debug_assert!(self.next < RECENT && self.ring.len() <= RECENT, "the ring's next place is in it");
        let (new, old) = self.ring.split_at(if self.ring.len() < RECENT { 0 } else { self.next });
        let relevant = |e: &&By| match e.verb {
            Verb::Fence => parties.contains(&e.worker),
            Verb::Pause | Verb::Disk | Verb::DiskSync | Verb::Network | Verb::Ring => false,
            _ => e.at / crate::LINE as u64 == line,
        };
        let all: Vec<By> = old.iter().chain(new).filter(relevant).copied().collect();
        all[all.len().saturating_sub(SHOWN)..].to_vec()
    }
}
