//! From an image and the changes behind it to the rows of one partition. Pure: no files, no row engine.
//!
//! Invariants:
//! 1. Changes of a key are applied in the order of their versions, and each one must replace the version that
//!    is there: a record that is lost, doubled or another row's is an error and never a wrong row.
//! 2. A change that is not newer than the image's row is in the image already.
//! 3. A key that the image lacks may have been deleted before the image passed its place. Then its changes up
//!    to that deletion are in the log, and the deletion ends them; they still must form a chain.
//!
//! Rows come out in the order of tables and keys, each once. A partition need not be replayed at once: a span
//! of keys of one table is enough. Entries of indexes are rows like others.

use std::cmp::Ordering;
use std::ops::Range;

use liger_fabric::HostId;
use liger_pod::plan::PartitionId;

use super::error::{BrokenChain, FileByte, RecoveryError};
use super::image_file::ImageRow;
use crate::catalog::{Catalog, Kind, Relation};
use crate::log::record::{Change, Op, Pieces, u32_at, u64_at};
use crate::tables::key::{Key, MAX_KEY_WORDS};
use crate::txn::TableId;

/// Where a record starts: the file's number and the byte in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordAt {
    /// Whose log.
    pub host: HostId,
    /// Number of the segment.
    pub segment: u32,
    /// Offset in it.
    pub byte: u64,
}

impl RecordAt {
    /// As errors name it.
    pub fn file_byte(&self) -> FileByte {
        FileByte::new(self.host, crate::files::segment_name(self.segment), self.byte)
    }
}

/// Words of a key that a change has at hand: enough for most keys, so that sorting seldom looks elsewhere.
const HEAD_WORDS: usize = 2;

/// A change that waits to be applied. There are millions of them, so it is small.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// The key's first words.
    head: [u64; HEAD_WORDS],
    version: u64,
    /// Where in the arena the rest of it is.
    from: usize,
    /// Bytes of its pieces.
    bytes: u32,
    table: TableId,
    op: Op,
    key_words: u8,
}

/// The changes of one partition, in any order until [`Changes::sort`].
#[derive(Debug, Default)]
pub struct Changes {
    list: Vec<Pending>,
    /// Of each: the words of its key behind the first ones, highest byte first; the version before it u64;
    /// its place: segment u32, byte u64, host u8; its pieces, as records have them.
    arena: Vec<u8>,
}

/// Bytes of a version and a place.
const PLACE_BYTES: usize = 8 + 4 + 8 + 1;

impl Changes {
    /// Adds a change of a record of version `version` that starts at `at`.
    pub fn push(&mut self, change: &Change<'_>, version: u64, at: RecordAt) {
        let (from, mut head) = (self.arena.len(), [0; HEAD_WORDS]);
        head.iter_mut().zip(change.key.words()).for_each(|(to, word)| *to = word);
        let key_words = change.key.width();
        self.arena.extend_from_slice(change.key.bytes_from(HEAD_WORDS));
        self.arena.resize(from + 8 * key_words.saturating_sub(HEAD_WORDS), 0);
        let mut place = [0; PLACE_BYTES];
        place[..8].copy_from_slice(&change.previous.to_le_bytes());
        place[8..12].copy_from_slice(&at.segment.to_le_bytes());
        place[12..20].copy_from_slice(&at.byte.to_le_bytes());
        place[20] = at.host.0;
        self.arena.extend_from_slice(&place);
        let (pieces, Change { table, op, .. }) = (change.pieces.as_bytes(), *change);
        self.arena.extend_from_slice(pieces);
        debug_assert!(self.arena.len() >= from + PLACE_BYTES, "its place is in front of its pieces");
        debug_assert!(pieces.len() <= u32::MAX as usize, "a change is a part of a record");
        let (bytes, key_words) = (pieces.len() as u32, key_words as u8);
        self.list.push(Pending { head, version, from, bytes, table, op, key_words });
    }

    /// Gives a version to changes of fragments, which have none.
    pub fn set_version(&mut self, version: u64) {
        debug_assert!(version > 0, "version 0 is that of no change");
        for change in &mut self.list {
            debug_assert_eq!(change.version, 0, "a fragment has no version");
            change.version = version;
        }
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds another worker's share.
    pub fn append(&mut self, other: Changes) {
        if self.is_empty() {
            *self = other;
            return;
        }
        let (shift, count) = (self.arena.len(), self.len() + other.len());
        self.arena.extend_from_slice(&other.arena);
        let shifted = |p: Pending| Pending { from: p.from + shift, ..p };
        self.list.extend(other.list.into_iter().map(shifted));
        assert_eq!(self.len(), count, "no change is lost or doubled");
    }

    /// Puts them in the order of tables, keys and versions.
    pub fn sort(&mut self) {
        let Self { list, arena } = self;
        let place = |change: &Pending| {
            let RecordAt { host, segment, byte } = place_of(arena, change).1;
            (host.0, segment, byte)
        };
        list.sort_unstable_by(|a, b| {
            by_key(arena, a, b).then_with(|| a.version.cmp(&b.version)).then_with(|| place(a).cmp(&place(b)))
        });
    }

    /// Those of a table whose keys are `low` or greater and less than `high` (`None`: all). They are sorted.
    pub fn span(&self, table: TableId, low: Option<&Key>, high: Option<&Key>) -> Range<usize> {
        let before = |change: &Pending, key: &Key| change.table == table && self.key(change) < *key;
        let from = self
            .list
            .partition_point(|change| change.table < table || low.is_some_and(|low| before(change, low)));
        let to = self.list.partition_point(|change| {
            change.table < table || change.table == table && high.is_none_or(|high| before(change, high))
        });
        debug_assert!(from <= to, "changes {from}..{to} of {}", self.len());
        from..to
    }

    /// Checks that each change is of a row that partition `partition`, by its number and the number of all
    /// partitions, may have. They are sorted.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn check(&self, catalog: &Catalog, partition: (PartitionId, u16)) -> Result<(), RecoveryError> {
        let row = OneRow { catalog, partition, changes: self };
        let rows = self.list.chunk_by(|a, b| by_key(&self.arena, a, b).is_eq());
        rows.map(|changes| &changes[0]).try_for_each(|change| row.relation(change).map(drop))
    }

    fn key(&self, change: &Pending) -> Key {
        let mut words = [0; MAX_KEY_WORDS];
        words[..HEAD_WORDS].copy_from_slice(&change.head);
        for (word, bytes) in words[HEAD_WORDS..].iter_mut().zip(rest_of_key(&self.arena, change).chunks(8)) {
            *word = u64::from_be_bytes(bytes.try_into().expect("whole words"));
        }
        Key::from_words(&words[..usize::from(change.key_words)])
    }

    fn pieces(&self, change: &Pending) -> impl Iterator<Item = (usize, &[u8])> {
        let from = change.from + rest_of_key(&self.arena, change).len() + PLACE_BYTES;
        debug_assert!(from + change.bytes as usize <= self.arena.len(), "a change's pieces are kept with it");
        let pieces = Pieces::from_bytes(&self.arena[from..from + change.bytes as usize]);
        pieces.iter().map(|(offset, bytes)| (offset.into(), bytes))
    }

    /// The version before a change.
    fn previous(&self, change: &Pending) -> u64 {
        place_of(&self.arena, change).0
    }

    /// Where the record of a change starts.
    fn place(&self, change: &Pending) -> RecordAt {
        place_of(&self.arena, change).1
    }
}

/// The version before a change, and where its record starts.
fn place_of(arena: &[u8], change: &Pending) -> (u64, RecordAt) {
    let place = &arena[change.from + rest_of_key(arena, change).len()..][..PLACE_BYTES];
    let (host, segment, byte) = (HostId(place[20]), u32_at(place, 8), u64_at(place, 12));
    (u64_at(place, 0), RecordAt { host, segment, byte })
}

/// The bytes of a key's words that are in the arena.
fn rest_of_key<'a>(arena: &'a [u8], change: &Pending) -> &'a [u8] {
    &arena[change.from..][..8 * usize::from(change.key_words).saturating_sub(HEAD_WORDS)]
}

/// The order of tables and keys.
#[inline]
fn by_key(arena: &[u8], a: &Pending, b: &Pending) -> Ordering {
    // Missing words are zeros to the order of keys, and the bytes of zeros come before all others.
    let rest = || match usize::from(a.key_words.max(b.key_words)) {
        ..=HEAD_WORDS => Ordering::Equal,
        _ => rest_of_key(arena, a).cmp(rest_of_key(arena, b)),
    };
    let at_hand = |p: &Pending| (p.table, p.head[0], p.head[1]);
    at_hand(a).cmp(&at_hand(b)).then_with(rest).then(a.key_words.cmp(&b.key_words))
}

/// What a replay did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// Rows that came out.
    pub rows: u64,
    /// Rows that the image had.
    pub image_rows: u64,
    /// Changes that were newer than the image.
    pub changes: u64,
}

/// A row that comes out.
#[derive(Clone, Copy, Debug)]
pub struct RecoveredRow<'a> {
    /// Its table.
    pub table: TableId,
    /// Its key.
    pub key: Key,
    /// Its version.
    pub version: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// What is known of the row at hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It exists, in this version.
    Here(u64),
    /// The image lacks it: it did not exist, or was deleted before the image passed its place.
    NotInImage,
    /// The image lacks it because it was deleted then; until that deletion it has this version.
    Leaving(u64),
    /// It does not exist.
    Absent,
}

/// Applies a span of `changes`, which are sorted, to the rows of an image in the same span of keys (none:
/// there is no image, and so no row), and shows what comes out. They are of a partition, by its number and
/// the number of all partitions.
///
/// # Errors
/// If a change does not fit, or `show` fails.
pub fn replay<'r>(
    catalog: &Catalog,
    partition: (PartitionId, u16),
    image: Option<impl Iterator<Item = ImageRow<'r>>>,
    (changes, span): (&Changes, Range<usize>),
    mut show: impl FnMut(RecoveredRow<'_>) -> Result<(), RecoveryError>,
) -> Result<Replayed, RecoveryError> {
    debug_assert!(changes.list.is_sorted_by_key(|p| (p.table, changes.key(p), p.version)), "sorted");
    let absent = if image.is_some() { State::NotInImage } else { State::Absent };
    let mut image = image.into_iter().flatten().peekable();
    let mut done = Replayed::default();
    let mut rest = &changes.list[span];
    let mut last = None;
    let mut bytes = Vec::new();
    loop {
        let in_log = rest.first().map(|change| (change.table, changes.key(change)));
        // Most rows have not changed.
        let is_before = |row: &ImageRow<'_>| in_log.is_none_or(|at| (row.table, row.key) < at);
        while let Some(row) = image.next_if(is_before) {
            let ImageRow { table, key, version, bytes } = row;
            debug_assert!(last < Some((table, key)), "rows come out in order, each once: {key:?}");
            last = Some((table, key));
            done.image_rows += 1;
            done.rows += 1;
            show(RecoveredRow { table, key, version, bytes })?;
        }
        let Some(at) = in_log else { return Ok(done) };
        debug_assert!(last < Some(at), "rows come out in order, each once: {at:?} behind {last:?}");
        last = Some(at);
        let mut state = absent;
        bytes.clear();
        if let Some(row) = image.next_if(|row| (row.table, row.key) == at) {
            bytes.extend_from_slice(row.bytes);
            state = State::Here(row.version);
            done.image_rows += 1;
        }
        let is_mine = |change: &&Pending| by_key(&changes.arena, change, &rest[0]).is_eq();
        let count = rest.iter().take_while(is_mine).count();
        let (mine, behind) = rest.split_at(count);
        rest = behind;
        let newer = &mine[mine.partition_point(|c| matches!(state, State::Here(v) if c.version <= v))..];
        done.changes += newer.len() as u64;
        let row = OneRow { catalog, partition, changes };
        let table = at.0;
        if let Some(version) = row.apply(state, &mut bytes, newer)? {
            show(RecoveredRow { table, key: at.1, version, bytes: &bytes })?;
            done.rows += 1;
        }
    }
}

/// What is needed to apply changes to one row.
struct OneRow<'a> {
    catalog: &'a Catalog,
    partition: (PartitionId, u16),
    changes: &'a Changes,
}

impl OneRow<'_> {
    /// Applies the changes of one row in order, and returns its last version if it exists.
    fn apply(
        &self,
        mut state: State,
        bytes: &mut Vec<u8>,
        changes: &[Pending],
    ) -> Result<Option<u64>, RecoveryError> {
        let Some(first) = changes.first() else { return Ok(version_of(state)) };
        let relation = self.relation(first)?;
        let mut last = None;
        for change in changes {
            if last == Some(change.version) {
                return Err(self.broken(change, "another record makes the same version"));
            }
            debug_assert!(last < Some(change.version), "changes are applied in the order of their versions");
            last = Some(change.version);
            self.check_previous(change, state)?;
            state = match change.op {
                Op::Delete => State::Absent,
                Op::Insert => {
                    self.insert(relation, change, bytes)?;
                    State::Here(change.version)
                }
                Op::Update if matches!(state, State::Here(_)) => {
                    self.update(relation, change, bytes)?;
                    State::Here(change.version)
                }
                Op::Update => State::Leaving(change.version),
            };
        }
        if let State::Leaving(_) = state {
            let change = changes.last().expect("there is a first one");
            return Err(self.broken(change, "there is no such row, and no later record deletes it"));
        }
        debug_assert!(
            state == State::Absent || version_of(state) == last,
            "the last change counts: {state:?}"
        );
        Ok(version_of(state))
    }

    /// Checks that a change replaces what is there.
    fn check_previous(&self, change: &Pending, state: State) -> Result<(), RecoveryError> {
        match (change.op, state) {
            (Op::Insert, State::NotInImage | State::Absent) if self.changes.previous(change) == 0 => Ok(()),
            (Op::Insert, State::NotInImage | State::Absent) => {
                Err(self.broken(change, "an insert replaces nothing"))
            }
            (Op::Update | Op::Delete, State::NotInImage) => Ok(()),
            (Op::Update | Op::Delete, State::Here(v) | State::Leaving(v))
                if v == self.changes.previous(change) =>
            {
                Ok(())
            }
            (_, State::Here(v) | State::Leaving(v)) => {
                Err(self.broken(change, format!("version {v:#x} is there")))
            }
            (Op::Update | Op::Delete, State::Absent) => Err(self.broken(change, "there is no such row")),
        }
    }

    fn insert(
        &self,
        relation: &Relation,
        change: &Pending,
        bytes: &mut Vec<u8>,
    ) -> Result<(), RecoveryError> {
        bytes.clear();
        bytes.resize(relation.row_len, 0);
        let mut pieces = self.changes.pieces(change);
        match (pieces.next(), pieces.next()) {
            (Some((0, row)), None) if row.len() <= bytes.len() => bytes[..row.len()].copy_from_slice(row),
            _ => return Err(self.broken(change, format!("it holds no row of {} bytes", bytes.len()))),
        }
        self.check_key(relation, change, bytes)
    }

    fn update(&self, relation: &Relation, change: &Pending, bytes: &mut [u8]) -> Result<(), RecoveryError> {
        debug_assert_eq!(bytes.len(), relation.row_len, "a row of {}", relation.name);
        for (offset, piece) in self.changes.pieces(change) {
            let Some(place) = bytes.get_mut(offset..offset + piece.len()) else {
                let (from, len, row) = (offset, piece.len(), bytes.len());
                let why = format!("it changes {len} bytes from byte {from} of a row of {row}");
                return Err(self.broken(change, why));
            };
            place.copy_from_slice(piece);
        }
        self.check_key(relation, change, bytes)
    }

    fn check_key(&self, relation: &Relation, change: &Pending, bytes: &[u8]) -> Result<(), RecoveryError> {
        // What an index's entry leads to says nothing of its key.
        let Kind::Table { layout, .. } = &relation.kind else { return Ok(()) };
        let key = layout.primary.key_of(bytes);
        if key == self.changes.key(change) {
            return Ok(());
        }
        Err(self.broken(change, format!("the row's columns give {key:?}")))
    }

    /// The table of a change, of whose kind records may be.
    fn relation(&self, change: &Pending) -> Result<&Relation, RecoveryError> {
        let Ok(relation) = self.catalog.relation(change.table) else {
            return Err(self.broken(change, "there is no such table"));
        };
        if relation.replicated {
            return Err(self.broken(change, "records do not change such a table"));
        }
        let found = self.changes.key(change);
        if found.width() != relation.key_words {
            return Err(self.broken(change, format!("keys have {} words", relation.key_words)));
        }
        let (here, partitions) = self.partition;
        match relation.partition_of(&found, partitions) {
            there if there == here => Ok(relation),
            there => Err(self.broken(change, format!("the key belongs to partition {there}"))),
        }
    }

    fn broken(&self, change: &Pending, why: impl Into<String>) -> RecoveryError {
        RecoveryError::Chain(Box::new(BrokenChain {
            at: self.changes.place(change).file_byte(),
            table: change.table,
            partition: self.partition.0,
            key: self.changes.key(change),
            version: change.version,
            previous: self.changes.previous(change),
            why: why.into(),
        }))
    }
}

fn version_of(state: State) -> Option<u64> {
    match state {
        State::Here(version) => Some(version),
        _ => None,
    }
}
