//! The rules of the memory model, checked without luck.
//!
//! The caches of `incoherent.rs` show what *did* happen in one run; a missing `invalidate` shows there only
//! if the line happened to be cached. This file keeps what is *guaranteed* instead, and stops at the first
//! access that is not:
//!
//! 1. A line that a host wrote is *unpublished* until a `write_back` (or `invalidate`) that was started after
//!    the write is completed by the fence of the worker that started it. No other host may read or write it
//!    before.
//! 2. Publishing gives the line a new version. A host is *fresh* up to the version that stood when an
//!    `invalidate` was started that has been completed by its worker's fence (or up to its own publication).
//!    Reading an older line than the current version is a stale read, even if this run's adversary cached no
//!    old copy.
//! 3. With prefetching modelled, any host may hold any line from any time, so not having touched a line is no
//!    excuse. Without it, a host that has not touched a line since it dropped it reads fresh.
//! 4. A partial write over a line that is not fresh spoils the other bytes of the line until they are
//!    written.
//! 5. Every line is sync or data from its first use until it is handed out again.
//!
//! So the only luck that a rule needs is the schedule: some run must order the two accesses the wrong way
//! round.

use std::ops::Range;

use super::explain::{By, Rule};
use crate::addr::LINE;

const CHUNK: usize = 64;
const NO_HOST: u8 = u8::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unused,
    Sync,
    Data,
}

#[derive(Clone, Copy)]
struct Line {
    version: u32,
    /// Host with unpublished changes.
    owner: u8,
    kind: Kind,
    freed: bool,
    /// Bytes that came from a stale copy.
    spoiled: u64,
    /// Bytes ever written.
    written: u64,
    write_step: u64,
    writer: By,
    publisher: By,
    spoiler: By,
    /// First use, or the freeing.
    user: By,
}

const BLANK: Line = Line {
    version: 0,
    owner: NO_HOST,
    kind: Kind::Unused,
    freed: false,
    spoiled: 0,
    written: 0,
    write_step: 0,
    writer: By::NOBODY,
    publisher: By::NOBODY,
    spoiler: By::NOBODY,
    user: By::NOBODY,
};

/// A number per line, zero until it is touched.
struct Sparse(Vec<Option<Box<[u32; CHUNK]>>>);

impl Sparse {
    fn new(lines: usize) -> Self {
        Self((0..lines.div_ceil(CHUNK)).map(|_| None).collect())
    }

    #[inline]
    fn at(&mut self, line: u64) -> &mut u32 {
        let chunk = &mut self.0[line as usize / CHUNK];
        &mut chunk.get_or_insert_with(|| Box::new([0; CHUNK]))[line as usize % CHUNK]
    }

    fn clear(&mut self) {
        self.0.iter_mut().flatten().for_each(|chunk| chunk.fill(0));
    }
}

/// A broken rule, before names are put to it.
pub(crate) struct Broken {
    pub rule: Rule,
    pub line: u64,
    pub there: Option<By>,
}

fn broken<T>(rule: Rule, line: u64, there: By) -> Result<T, Broken> {
    Err(Broken { rule, line, there: Some(there) })
}

/// What is guaranteed about every line.
pub(crate) struct Rules {
    chunks: Vec<Option<Box<[Line; CHUNK]>>>,
    /// Per host and line: with prefetching, the version up to which it is fresh; without, that plus one, 0 =
    /// untouched.
    fresh: Vec<Sparse>,
    lines: usize,
    prefetch: bool,
    unwritten_reads: bool,
    sync: Option<Range<u64>>,
}

impl Rules {
    pub fn new(hosts: usize, len: usize, prefetch: bool, unwritten: bool, sync: Option<Range<u64>>) -> Self {
        assert!(hosts < usize::from(NO_HOST), "{hosts} hosts, and one number that is nobody's");
        let in_memory = |range: &Range<u64>| range.start <= range.end && range.end <= len as u64;
        assert!(sync.as_ref().is_none_or(in_memory), "sync words {sync:?} in {len} bytes");
        let lines = len.div_ceil(LINE);
        Self {
            chunks: (0..lines.div_ceil(CHUNK)).map(|_| None).collect(),
            fresh: (0..hosts).map(|_| Sparse::new(lines)).collect(),
            lines,
            prefetch,
            unwritten_reads: unwritten,
            sync,
        }
    }

    #[inline]
    fn line(&mut self, line: u64) -> &mut Line {
        let chunk = &mut self.chunks[line as usize / CHUNK];
        &mut chunk.get_or_insert_with(|| Box::new([BLANK; CHUNK]))[line as usize % CHUNK]
    }

    /// Is `host` sure to see version `version` of the line?
    #[inline]
    fn is_fresh(&mut self, host: usize, line: u64, version: u32) -> bool {
        let known = self.fresh[host].at(line);
        if self.prefetch {
            return *known >= version;
        }
        if *known == 0 {
            *known = version + 1;
        }
        *known > version
    }

    fn set_fresh(&mut self, host: usize, line: u64, version: u32) {
        debug_assert!(version <= self.line(line).version, "nobody is fresh up to what is not published yet");
        let known = self.fresh[host].at(line);
        *known = (*known).max(version + u32::from(!self.prefetch));
    }

    fn claim(&mut self, line: u64, kind: Kind, by: By) -> Result<(), Broken> {
        debug_assert!(kind != Kind::Unused, "a use says what it takes the line for");
        let fixed = self.sync.as_ref().map(|sync| sync.contains(&(line * LINE as u64)));
        let l = self.line(line);
        if l.freed {
            return broken(Rule::UseAfterFree, line, l.user);
        }
        if l.kind == Kind::Unused {
            l.kind = kind;
            l.user = by;
        }
        match fixed {
            Some(sync) if sync != (kind == Kind::Sync) => {
                Err(Broken { rule: Rule::MixedLine, line, there: None })
            }
            None if l.kind != kind => broken(Rule::MixedLine, line, l.user),
            _ => Ok(()),
        }
    }

    /// A sync verb on a word of the line.
    #[inline]
    pub fn sync(&mut self, line: u64, by: By) -> Result<(), Broken> {
        self.claim(line, Kind::Sync, by)?;
        let l = self.line(line);
        if l.owner != NO_HOST {
            return broken(Rule::MixedLine, line, l.writer);
        }
        Ok(())
    }

    /// A read of the bytes `mask` of a line.
    #[inline]
    pub fn read(&mut self, host: usize, line: u64, mask: u64, by: By) -> Result<(), Broken> {
        self.claim(line, Kind::Data, by)?;
        debug_assert!(mask != 0, "a read is of bytes");
        let unwritten_reads = self.unwritten_reads;
        let l = *self.line(line);
        let own = usize::from(l.owner) == host;
        if l.owner != NO_HOST && !own {
            return broken(Rule::UnpublishedRead, line, l.writer);
        }
        if !own && !self.is_fresh(host, line, l.version) {
            return broken(Rule::StaleRead, line, l.publisher);
        }
        if l.spoiled & mask != 0 {
            return broken(Rule::StaleBase, line, l.spoiler);
        }
        if unwritten_reads && l.written & mask != mask {
            return Err(Broken { rule: Rule::UnwrittenRead, line, there: None });
        }
        Ok(())
    }

    /// A write of the bytes `mask` of a line.
    #[inline]
    pub fn write(&mut self, host: usize, line: u64, mask: u64, by: By) -> Result<(), Broken> {
        self.claim(line, Kind::Data, by)?;
        let l = *self.line(line);
        let first = l.owner == NO_HOST;
        if !first && usize::from(l.owner) != host {
            return broken(Rule::TwoWriters, line, l.writer);
        }
        let spoils = first && mask != u64::MAX && !self.is_fresh(host, line, l.version);
        let l = self.line(line);
        l.owner = host as u8;
        if spoils {
            l.spoiled = u64::MAX;
            l.spoiler = by;
        }
        debug_assert!(mask != 0 && l.write_step <= by.step, "writes of a line come in the order of steps");
        l.spoiled &= !mask;
        l.written |= mask;
        l.write_step = by.step;
        l.writer = by;
        Ok(())
    }

    /// A write_back or invalidate of the line starts: the version that an invalidate is sure to see.
    pub fn start(&mut self, line: u64, by: By) -> Result<u32, Broken> {
        self.claim(line, Kind::Data, by)?;
        Ok(self.line(line).version)
    }

    /// A write_back (or the write-back part of an invalidate) that started at `by.step` is complete.
    pub fn written_back(&mut self, host: usize, line: u64, by: By) {
        let l = self.line(line);
        if usize::from(l.owner) == host && l.write_step < by.step {
            debug_assert!(l.publisher.step <= l.write_step, "what is published was written since");
            l.owner = NO_HOST;
            l.version += 1;
            l.publisher = by;
            let version = l.version;
            self.set_fresh(host, line, version);
        }
    }

    /// An invalidate that started at version `seen` is complete.
    pub fn invalidated(&mut self, host: usize, line: u64, seen: u32, by: By) {
        debug_assert!(seen <= self.line(line).version, "a version is seen when it is there");
        self.written_back(host, line, by);
        if self.prefetch {
            self.set_fresh(host, line, seen);
        } else {
            *self.fresh[host].at(line) = 0;
        }
    }

    /// The range was handed out or taken back.
    pub fn range_use(&mut self, lines: Range<u64>, whole: Range<u64>, free: bool, by: By) {
        let inside = whole.is_empty() || (lines.start <= whole.start && whole.end <= lines.end);
        debug_assert!(inside, "whole lines {whole:?} of those touched, {lines:?}");
        for line in if free { whole } else { lines } {
            let l = self.line(line);
            l.freed = free;
            l.kind = Kind::Unused;
            l.user = by;
        }
    }

    /// The host lost its cache or had it drained: nothing of it is unpublished any more.
    pub fn crash(&mut self, host: usize, by: By, cache_survives: bool) {
        for (index, chunk) in self.chunks.iter_mut().enumerate() {
            let Some(chunk) = chunk else { continue };
            for (within, l) in chunk.iter_mut().enumerate().take(self.lines - index * CHUNK) {
                let lost = usize::from(l.owner) == host;
                if lost {
                    l.owner = NO_HOST;
                    l.version += 1;
                    l.publisher = by;
                }
                debug_assert_ne!(usize::from(l.owner), host, "a dead host has no change to publish");
                let known = self.fresh[host].at((index * CHUNK + within) as u64);
                if !cache_survives && !self.prefetch {
                    *known = 0;
                } else if lost || !cache_survives {
                    *known = l.version + u32::from(!self.prefetch);
                }
            }
        }
    }

    /// Forgets history: everybody is fresh, nothing is unpublished (after a setup).
    pub fn quiesce(&mut self) {
        for chunk in self.chunks.iter_mut().flatten() {
            for l in chunk.iter_mut() {
                l.owner = NO_HOST;
                l.version = 0;
            }
        }
        self.fresh.iter_mut().for_each(Sparse::clear);
    }
}

impl Broken {
    /// An access beyond the pod's memory.
    pub fn out_of_bounds(at: u64) -> Self {
        Broken { rule: Rule::OutOfBounds, line: at / LINE as u64, there: None }
    }
}
