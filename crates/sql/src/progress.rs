//! How far a session's statement is, for those who watch: one fixed record beside its interrupt.
//!
//! ```text
//!   statement --> begin ... enter(phase), add(count) ... drop      look <-- pg_stat_progress_*, pod_progress
//! ```
//!
//! Invariants:
//! 1. One thread at a time writes a record: the session's. Each count is told for many rows at once, with a
//!    load and a store.
//! 2. A statement that fails or is cancelled tells nothing afterwards, as one that has ended.
//! 3. Parts of a statement that change rows tell their counts to the change that began first.
//! 4. Who looks may see counts that are torn, never those of a command that has ended.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Rows that are told of together, and bytes.
pub(crate) const TOLD_TOGETHER: u64 = 64;
const BYTES_TOGETHER: u64 = 8192;

/// What works on many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Command {
    /// INSERT.
    Insert = 1,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
    /// MERGE.
    Merge,
    /// COPY FROM STDIN.
    CopyFrom,
    /// COPY TO STDOUT.
    CopyTo,
    /// CREATE INDEX, also for a constraint.
    CreateIndex,
    /// CREATE INDEX CONCURRENTLY.
    CreateIndexConcurrently,
    /// ALTER TABLE that writes all rows anew.
    AlterTable,
    /// CREATE TABLE AS and SELECT INTO.
    CreateTableAs,
    /// CREATE MATERIALIZED VIEW.
    CreateMaterializedView,
    /// REFRESH MATERIALIZED VIEW.
    RefreshMaterializedView,
    /// ANALYZE, also of VACUUM.
    Analyze,
}

/// The commands, by their names.
const COMMANDS: [(Command, &str); 13] = [
    (Command::Insert, "INSERT"),
    (Command::Update, "UPDATE"),
    (Command::Delete, "DELETE"),
    (Command::Merge, "MERGE"),
    (Command::CopyFrom, "COPY FROM"),
    (Command::CopyTo, "COPY TO"),
    (Command::CreateIndex, "CREATE INDEX"),
    (Command::CreateIndexConcurrently, "CREATE INDEX CONCURRENTLY"),
    (Command::AlterTable, "ALTER TABLE"),
    (Command::CreateTableAs, "CREATE TABLE AS"),
    (Command::CreateMaterializedView, "CREATE MATERIALIZED VIEW"),
    (Command::RefreshMaterializedView, "REFRESH MATERIALIZED VIEW"),
    (Command::Analyze, "ANALYZE"),
];

/// What a command is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// It has just begun.
    Initializing,
    /// It reads the rows that it needs.
    Reading,
    /// It computes new values, or what values tell.
    Computing,
    /// It sorts entries of an index.
    Sorting,
    /// It puts entries into indexes.
    Indexing,
    /// It puts or changes rows.
    Changing,
    /// It removes rows.
    Removing,
    /// It checks constraints, and does what foreign keys ask for.
    Checking,
}

/// The texts of the phases, in their order.
const PHASES: [&str; 8] = [
    "initializing",
    "reading rows",
    "computing",
    "sorting entries",
    "writing entries",
    "changing rows",
    "deleting rows",
    "checking constraints",
];

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Rows read.
    Read,
    /// Rows that are to be read, as far as is known.
    Expected,
    /// Pages of 8 KiB that these would take.
    Pages,
    /// Rows, or entries of an index, that are done.
    Done,
    /// Those that are to be done, as far as is known.
    Total,
    /// Bytes that came from the client or went there.
    Bytes,
    /// Rows that a condition has left out.
    Excluded,
}

/// How many counts there are.
const COUNTS: usize = Count::Excluded as usize + 1;

/// The record of a session.
#[derive(Debug, Default)]
pub struct StatementProgress {
    /// The command in the lowest byte, its table above; 0: there is nothing to tell.
    head: AtomicU64,
    index: AtomicU32,
    since_us: AtomicI64,
    phase: AtomicU8,
    counts: [AtomicU64; COUNTS],
}

/// While it lives, a command tells how far it is.
#[must_use = "the command tells nothing once this is dropped"]
#[derive(Debug)]
pub struct Telling<'a>(Option<&'a StatementProgress>);

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if let Some(progress) = self.0 {
            progress.head.store(0, Ordering::Release);
        }
    }
}

/// What a session's command has told. Counts of 0 may be unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldProgress {
    /// What it is, as PostgreSQL names it.
    pub command: &'static str,
    /// The oid of its table; 0: none.
    pub table: u32,
    /// That of the index that it makes; 0: none.
    pub index: u32,
    /// When it began, in microseconds since 2000-01-01 00:00 UTC.
    pub since_us: i64,
    /// What it does.
    pub phase: &'static str,
    counts: [u64; COUNTS],
}

impl ToldProgress {
    /// A count.
    pub fn count(&self, count: Count) -> u64 {
        self.counts[count as usize]
    }
}

impl StatementProgress {
    /// A command begins, at this time in microseconds since 2000-01-01, with this table and index (0: none).
    /// Within another one it is a part of that.
    pub(crate) fn begin(&self, command: Command, (table, index): (u32, u32), since_us: i64) -> Telling<'_> {
        if self.head.load(Ordering::Relaxed) != 0 {
            return Telling(None);
        }
        self.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        self.phase.store(Phase::Initializing as u8, Ordering::Relaxed);
        self.index.store(index, Ordering::Relaxed);
        self.since_us.store(since_us, Ordering::Relaxed);
        self.head.store(u64::from(table) << 8 | command as u64, Ordering::Release);
        Telling(Some(self))
    }

    /// As [`StatementProgress::begin`]; `None` within another command.
    pub(crate) fn begin_whole(&self, command: Command, table: u32, since_us: i64) -> Option<Telling<'_>> {
        let telling = self.begin(command, (table, 0), since_us);
        telling.0.is_some().then_some(telling)
    }

    /// The command comes to this phase.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Whether the command is in this phase.
    pub(crate) fn is_in(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u8
    }

    /// Adds to a count.
    pub(crate) fn add(&self, count: Count, more: u64) {
        self.set(count, self.count(count) + more);
    }

    /// Sets a count.
    pub(crate) fn set(&self, count: Count, value: u64) {
        self.counts[count as usize].store(value, Ordering::Relaxed);
    }

    /// A count, for who writes it.
    pub(crate) fn count(&self, count: Count) -> u64 {
        self.counts[count as usize].load(Ordering::Relaxed)
    }

    /// What is told now; `None`: nothing.
    pub fn look(&self) -> Option<ToldProgress> {
        let head = self.head.load(Ordering::Acquire);
        let (_, command) = COMMANDS.iter().find(|(command, _)| *command as u64 == head & 0xff)?;
        let told = ToldProgress {
            command,
            table: (head >> 8) as u32,
            index: self.index.load(Ordering::Acquire),
            since_us: self.since_us.load(Ordering::Acquire),
            phase: PHASES[usize::from(self.phase.load(Ordering::Acquire))],
            counts: std::array::from_fn(|at| self.counts[at].load(Ordering::Acquire)),
        };
        (self.head.load(Ordering::Relaxed) == head).then_some(told)
    }
}

/// What changes of rows tell: nothing within a command that counts other rows.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a>(Option<&'a StatementProgress>);

impl<'a> Part<'a> {
    pub(crate) fn new(progress: &'a StatementProgress, tells: bool) -> Part<'a> {
        Part(tells.then_some(progress))
    }

    /// As [`StatementProgress::enter`].
    pub(crate) fn enter(self, phase: Phase) {
        self.0.iter().for_each(|progress| progress.enter(phase));
    }

    /// As [`StatementProgress::add`].
    pub(crate) fn add(self, count: Count, more: u64) {
        self.0.iter().for_each(|progress| progress.add(count, more));
    }

    /// Of the rows that are done.
    pub(crate) fn tally(self) -> Tally<'a> {
        Tally { progress: self.0, count: Count::Done, untold: 0, together: TOLD_TOGETHER }
    }
}

/// What comes bit by bit and is told of together.
pub(crate) struct Tally<'a> {
    progress: Option<&'a StatementProgress>,
    count: Count,
    untold: u64,
    together: u64,
}

impl<'a> Tally<'a> {
    pub(crate) fn new(progress: &'a StatementProgress, count: Count) -> Tally<'a> {
        let together = if count == Count::Bytes { BYTES_TOGETHER } else { TOLD_TOGETHER };
        Tally { progress: Some(progress), count, untold: 0, together }
    }

    /// So many more.
    pub(crate) fn add(&mut self, more: u64) {
        self.untold += more;
        if self.untold >= self.together {
            self.tell();
        }
    }

    fn tell(&mut self) {
        let more = std::mem::take(&mut self.untold);
        self.progress.iter().for_each(|progress| progress.add(self.count, more));
    }
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        self.tell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_tells_to_the_command_around_it() {
        let progress = StatementProgress::default();
        assert_eq!(progress.look(), None);
        let whole = progress.begin(Command::Merge, (u32::MAX, 0), 5);
        progress.add(Count::Done, 3);
        let part = progress.begin(Command::Delete, (7, 0), 6);
        progress.enter(Phase::Removing);
        progress.add(Count::Done, 4);
        drop(part);
        let told = progress.look().expect("the command goes on");
        assert_eq!((told.command, told.table, told.since_us), ("MERGE", u32::MAX, 5));
        assert_eq!((told.phase, told.count(Count::Done)), ("deleting rows", 7));
        drop(whole);
        assert_eq!(progress.look(), None);
        let _next = progress.begin(Command::CreateIndex, (7, 8), 9);
        let told = progress.look().expect("another one has begun");
        assert_eq!((told.table, told.index, told.phase, told.count(Count::Done)), (7, 8, "initializing", 0));
    }

    #[test]
    fn commands_are_known_by_their_numbers() {
        for (at, (command, _)) in COMMANDS.iter().enumerate() {
            assert_eq!(*command as usize, at + 1);
        }
        assert_eq!(PHASES.len(), Phase::Checking as usize + 1);
    }

    #[test]
    fn rows_are_told_of_together_and_the_last_ones_at_the_end() {
        let progress = StatementProgress::default();
        let mut tally = Tally::new(&progress, Count::Done);
        let mut seen = Vec::new();
        for _ in 0..TOLD_TOGETHER + 1 {
            tally.add(1);
            seen.push(progress.count(Count::Done));
        }
        drop(tally);
        assert_eq!(seen.iter().filter(|count| **count == 0).count() as u64, TOLD_TOGETHER - 1);
        assert_eq!(progress.count(Count::Done), TOLD_TOGETHER + 1);
    }
}
