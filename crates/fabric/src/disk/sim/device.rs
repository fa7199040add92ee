//! One simulated disk: who holds it, its names and files, its faults.
//!
//! Invariants:
//! 1. A failed call changed what docs/storage.md says it may have changed, and nothing else.
//! 2. A call in several steps (a torn write, a sync) is over, and lets go of what it held, when its
//!    [`Progress`] is dropped.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::fault::Faults;
use super::file::File;
use super::names::Names;
use super::{Damage, DiskAnswer, DiskCall, DiskErrorKind, DiskFault, LOOKS};
use crate::cx::HostId;
use crate::sim::Random;

type Answer = Result<DiskAnswer, DiskErrorKind>;

/// A disk.
pub(crate) struct Device {
    random: Random,
    /// For what readers see.
    looks: Random,
    names: Names,
    files: BTreeMap<u64, File>,
    files_made: u64,
    faults: Faults,
    /// Whose memory has what is not synced.
    host: HostId,
    session: u64,
    holder: Weak<()>,
}

/// What a call has done in its steps so far.
#[derive(Default)]
pub(crate) struct Progress {
    /// Calls that are done at once: nobody else can run between their steps.
    pub whole: bool,
    begun: bool,
    /// Bytes written, and from where.
    written: usize,
    start: u64,
    appending: Option<Arc<()>>,
    /// Changes when a sync began, and its steps to come.
    sync: Option<(u64, u32)>,
    /// Bytes that a reader has already, and its steps before it has the others.
    read: Option<(usize, u32)>,
}

/// What a step of a call came to.
pub(crate) enum Step {
    /// It needs another step.
    More,
    /// It needs another step, and somebody else must have had one before.
    Waits,
    /// It is over.
    Over(Answer, Cost),
}

/// What a call moved, for the timed mode.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cost {
    /// Bytes between the caller and the system.
    pub copied_bytes: u64,
    /// Bytes between the system and the device.
    pub moved_bytes: u64,
    /// Syncs: 1, or more if they are slow.
    pub syncs: u32,
}

impl Device {
    pub fn new(number: HostId, seed: u64) -> Self {
        Self {
            random: Random::new(seed ^ 0x6469_736b ^ u64::from(number.0) << 48),
            looks: Random::new(seed ^ 0x6c6f_6f6b ^ u64::from(number.0) << 48),
            names: Names::default(),
            files: BTreeMap::new(),
            files_made: 0,
            faults: Faults::default(),
            host: number,
            session: 0,
            holder: Weak::new(),
        }
    }

    pub fn host(&self) -> HostId {
        self.host
    }

    pub fn plan(&mut self, fault: Option<DiskFault>) {
        match fault {
            Some(fault) => self.faults.plan(fault),
            None => self.faults = Faults::default(),
        }
    }

    /// Ends the session; without power, ends what was not synced, too.
    pub fn holder_died(&mut self, loses_power: bool) {
        assert!(self.session + 1 < LOOKS, "a holder's number is not a looker's");
        self.session += 1;
        self.holder = Weak::new();
        self.files.values_mut().for_each(File::let_go);
        if loses_power {
            self.names.lose_power(&mut self.random);
            for file in self.files.values_mut() {
                file.lose_power(&mut self.random);
            }
        }
        self.forget_files();
    }

    pub fn damage(&mut self, name: &str, damage: Damage) -> Result<(), DiskErrorKind> {
        let number = self.names.now.get(name).ok_or(DiskErrorKind::Missing)?;
        let file = self.files.get_mut(number).expect("named files are kept");
        if damage.apply(&mut file.bytes) { Ok(()) } else { Err(DiskErrorKind::PastEnd) }
    }

    pub fn contents(&self) -> Vec<(String, Vec<u8>)> {
        self.names.now.iter().map(|(name, number)| (name.clone(), self.files[number].bytes.clone())).collect()
    }

    /// One step of a call by a worker of `host`.
    pub fn step(
        &mut self,
        host: HostId,
        session: u64,
        call: &mut DiskCall<'_>,
        progress: &mut Progress,
    ) -> Step {
        if !std::mem::replace(&mut progress.begun, true) && !self.faults.take_call() {
            return Step::Over(Err(DiskErrorKind::Failed), Cost::default());
        }
        let holds = matches!(call, DiskCall::Hold { .. });
        let looks = session == LOOKS && !call.changes();
        assert!(holds || looks || session == self.session, "a disk is used by a holder that died or lost it");
        match *call {
            DiskCall::Write { file, offset, bytes } => {
                progress.start = offset;
                self.write(file, bytes, progress)
            }
            DiskCall::Append { file, bytes } => self.append(file, bytes, progress),
            DiskCall::Sync { file } => self.sync(Some(file), progress),
            DiskCall::SyncNames => self.sync(None, progress),
            DiskCall::Read { file, offset, ref mut out } => {
                let looks = session == LOOKS && !progress.whole;
                self.read(file, offset, out, looks.then_some(progress))
            }
            _ => self.simple(host, session == LOOKS, call),
        }
    }

    /// Calls of a single step.
    fn simple(&mut self, host: HostId, looks: bool, call: &mut DiskCall<'_>) -> Step {
        let answer = match call {
            DiskCall::Hold { token } => self.hold(host, token),
            DiskCall::Create { name } => self.create(name),
            DiskCall::Open { name } => {
                let number = self.names.now.get(*name).copied().ok_or(DiskErrorKind::Missing);
                number.map(|number| self.opened(number, looks))
            }
            DiskCall::Free => Ok(DiskAnswer::Number(self.free_bytes())),
            DiskCall::List => Ok(DiskAnswer::Names(self.names.now.keys().cloned().collect())),
            DiskCall::Remove { name } => self.if_named(name, |names, name| names.unlink(name)),
            DiskCall::Rename { from, to } => self.if_named(from, |names, from| names.rename(from, to)),
            DiskCall::Len { file } => Ok(DiskAnswer::Number(self.file(*file).len())),
            DiskCall::Preallocate { file, len } => self.preallocate(*file, *len),
            DiskCall::Truncate { file, len } => {
                let file = self.files.get_mut(file).expect("open files are kept");
                file.truncate(*len, &mut self.random);
                Ok(DiskAnswer::Done)
            }
            _ => unreachable!("calls of several steps are elsewhere"),
        };
        Step::Over(answer, Cost::default())
    }

    /// What is there. Whoever looks at a file that its holder has open (`looks`) may have some bytes sooner
    /// than those behind them, and these may be written meanwhile: the system reads one page after the other.
    fn read(&mut self, number: u64, offset: u64, out: &mut [u8], looks: Option<&mut Progress>) -> Step {
        let file = &self.files[&number];
        let there = file.bytes.get(offset as usize..).unwrap_or_default();
        let count = there.len().min(out.len());
        let there = &there[..count];
        let mut seen = 0;
        if let Some(progress) = looks.filter(|_| file.open.strong_count() > 0) {
            let steps;
            (seen, steps) = progress.read.unwrap_or_else(|| {
                let (seen, steps) = tear(there, &mut self.looks);
                out[..seen].copy_from_slice(&there[..seen]);
                (seen, steps)
            });
            if steps > 0 {
                progress.read = Some((seen, steps - 1));
                return Step::More;
            }
        }
        debug_assert!(seen <= out.len(), "{seen} bytes were seen before, of {}", out.len());
        let seen = seen.min(count);
        out[seen..count].copy_from_slice(&there[seen..]);
        let cost = Cost { copied_bytes: count as u64, moved_bytes: count as u64, syncs: 0 };
        Step::Over(Ok(DiskAnswer::Number(count as u64)), cost)
    }

    fn hold(&mut self, host: HostId, token: &Arc<()>) -> Answer {
        if self.holder.strong_count() > 0 {
            return Err(DiskErrorKind::Locked);
        }
        // What another host had in its memory is not on the disk that was moved.
        self.holder_died(host != self.host);
        debug_assert_eq!(self.holder.strong_count(), 0, "one holder at a time");
        self.host = host;
        self.holder = Arc::downgrade(token);
        Ok(DiskAnswer::Number(self.session))
    }

    fn create(&mut self, name: &str) -> Answer {
        if self.names.now.contains_key(name) {
            return Err(DiskErrorKind::Exists);
        }
        self.files_made += 1;
        let before = self.files.insert(self.files_made, File::new());
        assert!(before.is_none(), "file {} is made twice", self.files_made);
        debug_assert!(!self.names.refer_to(self.files_made), "a new file has no name yet");
        self.names.link(name, self.files_made);
        Ok(self.opened(self.files_made, false))
    }

    fn if_named(&mut self, name: &str, then: impl FnOnce(&mut Names, &str)) -> Answer {
        if !self.names.now.contains_key(name) {
            return Err(DiskErrorKind::Missing);
        }
        then(&mut self.names, name);
        Ok(DiskAnswer::Done)
    }

    fn opened(&mut self, number: u64, looks: bool) -> DiskAnswer {
        let file = self.file(number);
        let by = if looks { &mut file.looked_at } else { &mut file.open };
        let open = by.upgrade().unwrap_or_default();
        *by = Arc::downgrade(&open);
        DiskAnswer::Opened(number, open)
    }

    fn file(&mut self, number: u64) -> &mut File {
        self.files.get_mut(&number).expect("open files are kept")
    }

    /// `u64::MAX` if it never becomes full.
    fn free_bytes(&self) -> u64 {
        self.faults.size_bytes.map_or(u64::MAX, |size| size.saturating_sub(self.used_bytes()))
    }

    /// What its files take. What is removed and not open has given its space back, whatever a loss of power
    /// brings back.
    pub fn used_bytes(&self) -> u64 {
        debug_assert!(
            self.names.now.values().all(|number| self.files.contains_key(number)),
            "named files stay"
        );
        let is_named = |number: &u64| self.names.now.values().any(|named| named == number);
        let is_there = |number: &u64, file: &File| file.open.strong_count() > 0 || is_named(number);
        let there = self.files.iter().filter(|(number, file)| is_there(number, file));
        there.map(|(_, file)| file.len()).sum()
    }

    /// How long the file may become.
    fn room(&mut self, number: u64) -> u64 {
        let len = self.file(number).len();
        self.free_bytes().saturating_add(len)
    }

    fn preallocate(&mut self, file: u64, len: u64) -> Answer {
        if self.faults.takes_nothing_ahead {
            return Err(DiskErrorKind::Unsupported);
        }
        if len > self.room(file) {
            return Err(DiskErrorKind::Full);
        }
        self.file(file).preallocate(len);
        Ok(DiskAnswer::Done)
    }

    /// All of the rest, or (once in a call, now and then) a part of it: a process may die in between.
    fn write(&mut self, number: u64, bytes: &[u8], progress: &mut Progress) -> Step {
        debug_assert!(progress.written < bytes.len().max(1), "a write goes on where it stopped");
        let rest = &bytes[progress.written..];
        let at = progress.start + progress.written as u64;
        let room = self.room(number).saturating_sub(at).min(rest.len() as u64) as usize;
        let torn = !progress.whole && progress.written == 0 && room > 1 && self.random.next() & 1 == 0;
        let count = if torn { 1 + self.random.below(room - 1) } else { room };
        let file = self.files.get_mut(&number).expect("open files are kept");
        file.write(at, &rest[..count], &mut self.random);
        if torn {
            progress.written = count;
            return Step::More;
        }
        let copied = Cost { copied_bytes: bytes.len() as u64, ..Cost::default() };
        let fits = count == rest.len();
        Step::Over(if fits { Ok(DiskAnswer::Done) } else { Err(DiskErrorKind::Full) }, copied)
    }

    fn append(&mut self, number: u64, bytes: &[u8], progress: &mut Progress) -> Step {
        if progress.appending.is_none() {
            let file = self.file(number);
            if file.appending.strong_count() > 0 {
                return Step::Waits;
            }
            let alone = Arc::new(());
            file.appending = Arc::downgrade(&alone);
            (progress.start, progress.appending) = (file.len(), Some(alone));
        }
        debug_assert!(self.file(number).appending.strong_count() > 0, "who appends does so alone");
        match self.write(number, bytes, progress) {
            Step::Over(Ok(_), cost) => Step::Over(Ok(DiskAnswer::Number(progress.start)), cost),
            Step::Over(Err(error), cost) => {
                let file = self.files.get_mut(&number).expect("open files are kept");
                file.truncate(progress.start, &mut self.random);
                Step::Over(Err(error), cost)
            }
            unfinished => unfinished,
        }
    }

    /// A sync of a file, or of the names: its first step decides what it covers, its last one does it.
    fn sync(&mut self, file: Option<u64>, progress: &mut Progress) -> Step {
        let Some((began, steps)) = progress.sync else {
            let began = match file {
                Some(number) => self.file(number).begin_sync(),
                None => self.names.made(),
            };
            progress.sync = Some((began, if progress.whole { 0 } else { self.faults.sync_times }));
            return if progress.whole { self.sync(file, progress) } else { Step::More };
        };
        if steps > 1 {
            progress.sync = Some((began, steps - 1));
            return Step::More;
        }
        let mut cost = Cost { syncs: self.faults.sync_times, ..Cost::default() };
        let works = self.faults.take_sync();
        let Some(number) = file else {
            if works {
                self.names.sync(began)
            } else {
                self.names.fail_sync(&mut self.random)
            }
            self.forget_files();
            return Step::Over(done_if(works), cost);
        };
        let file = self.files.get_mut(&number).expect("open files are kept");
        cost.moved_bytes = file.unsynced_bytes();
        if works {
            file.end_sync(began)
        } else {
            file.fail_sync(began, &mut self.random)
        }
        Step::Over(done_if(works), cost)
    }

    /// Frees files that nobody can reach any more.
    fn forget_files(&mut self) {
        let names = &self.names;
        self.files.retain(|&number, file| file.is_open() || names.refer_to(number));
    }
}

/// How many of these bytes are read at first, most often a little of what is not written yet, and after how
/// many steps the others are.
fn tear(there: &[u8], random: &mut Random) -> (usize, u32) {
    if there.is_empty() || random.next() & 1 == 0 {
        return (0, 0);
    }
    let written = there.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let near = (written + random.below(512)).min(there.len());
    let seen = if random.next() & 3 == 0 { random.below(there.len()) } else { near };
    let reach = 1 << random.below(12);
    (seen, 1 + random.below(reach) as u32)
}

fn done_if(works: bool) -> Answer {
    if works { Ok(DiskAnswer::Done) } else { Err(DiskErrorKind::Failed) }
}
