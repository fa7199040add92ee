//! What hosts say to each other about rows: requests to the owner of a partition, and its replies.
//!
//! Data never travels in a message: a reply says where the row is, and the requester goes there itself. The
//! encoding is a kind byte and then the fields in order, little-endian; decoding checks every length and
//! kind, and what does not decode is `None`, never trusted.

use liger_pod::heap::TupleAddr;
use liger_pod::plan::PartitionId;

use crate::files::{StoredAt, StoredFile};
use crate::protocol::failure::Failure;
use crate::protocol::mail::{In, Out, Requester};
use crate::tables::key::{Key, KeyRange};
use crate::txn::TableId;

/// A request or a reply between two hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Asks the owner to do something and to answer.
    Request {
        /// Who waits for the answer.
        from: Requester,
        /// The table.
        table: TableId,
        /// The partition, owned by the receiver.
        partition: PartitionId,
        /// What to do.
        action: Action,
    },
    /// The sender's host holds the write lock of a row that must go: undo of an insert, or a committed
    /// delete.
    Remove {
        /// The table.
        table: TableId,
        /// The partition, owned by the receiver.
        partition: PartitionId,
        /// The row's key.
        key: Key,
        /// Which of the rows that have, or had, this key.
        which: Removal,
    },
    /// The pod is beyond its budget, and the sender has nothing left to move out: the receiver looks at its
    /// own rows.
    Evict,
    /// The owner's answer.
    Reply {
        /// Who waits for it.
        to: Requester,
        /// What came of it.
        answer: Answer,
    },
}

/// Which row must go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Removal {
    /// Where the row is, if the sender knows.
    pub at: Option<TupleAddr>,
    /// Or whatever it is, if the row was made for this sender's insert and is not its own yet (nobody told
    /// the sender, for the owner died).
    pub uncommitted: bool,
    /// The owner before this one was told, too, and may have removed the row: only one of its time is meant.
    pub again: bool,
    /// Version of the removal, 0 for the undo of an insert: a later row with this key gets a greater one.
    pub llsn: u64,
}

/// What a requester wants of the owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Share the row with this key.
    MoveIn(Key),
    /// Share up to `limit` rows of the range, the row before it and the first beyond it.
    MoveInRange {
        /// Which keys.
        range: KeyRange,
        /// Most rows of the range.
        limit: u32,
    },
    /// Make room for a new row, write-locked for the requester's host.
    Create(Key),
    /// Copy rows as they were.
    Copy(Copies),
}

/// Rows that are to be copied as they were, each with its key, its version and its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copies {
    /// Which keys.
    pub range: KeyRange,
    /// When.
    pub moment: u64,
    /// The requester's block that they go to: offset.
    pub at: u64,
    /// Its bytes.
    pub len: u32,
}

/// What the owner says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The row is shared and lies here.
    Shared(TupleAddr),
    /// The range is shared now.
    RangeShared,
    /// There is no such row.
    Absent,
    /// The new row, write-locked for the requester's host.
    Created {
        /// Where it is.
        at: TupleAddr,
        /// The next row and its key, if the requester's host holds it: the requester must prove that it is
        /// its own lock.
        next: Option<(TupleAddr, Key)>,
        /// The new row's version must be greater than this.
        llsn: u64,
    },
    /// A row with this key exists.
    Duplicate,
    /// So many rows were copied.
    Copied {
        /// How many.
        rows: u32,
        /// The key that the next ones begin with; `None`: that was all.
        next: Option<Key>,
    },
    /// What was overwritten since then is not kept any more.
    TooOld,
    /// Somebody holds the row with this key, or the gap before it.
    Held(Key),
    /// The requester, or who is asked, is not what it was when that was sent; or it cannot be told yet.
    Conflict,
    /// Shared memory is full, but rows have left, and what they took will be free.
    RoomLater,
    /// It cannot be done, and running the transaction again will not help.
    Failed(Failure),
}

const MOVE_IN: u8 = 1;
const MOVE_IN_RANGE: u8 = 2;
const CREATE: u8 = 3;
const REMOVE: u8 = 4;
const EVICT: u8 = 5;
const SHARED: u8 = 16;
const RANGE_SHARED: u8 = 17;
const ABSENT: u8 = 18;
const CREATED: u8 = 19;
const DUPLICATE: u8 = 20;
const CONFLICT: u8 = 21;
const SHARED_MEMORY_FULL: u8 = 22;
const ROWS_FULL: u8 = 23;
const INDEX_NODE_DAMAGED: u8 = 24;
const INDEX_DIRECTORY_DAMAGED: u8 = 25;
const IMAGE_UNREADABLE: u8 = 26;
const LOG_UNREADABLE: u8 = 27;
const ROOM_LATER: u8 = 28;
const COPY: u8 = 6;
const COPIED: u8 = 29;
const TOO_OLD: u8 = 30;
const ROW_DAMAGED: u8 = 31;
const HELD: u8 = 32;

impl Message {
    /// The message's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        self.encode(&mut bytes);
        bytes
    }

    /// Appends the message's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut out = Out::new(out);
        match self {
            Self::Request { from, table, partition, action } => {
                let kind = match action {
                    Action::MoveIn(_) => MOVE_IN,
                    Action::MoveInRange { .. } => MOVE_IN_RANGE,
                    Action::Create(_) => CREATE,
                    Action::Copy(_) => COPY,
                };
                out.number(kind.into(), 1).requester(from).place(*table, *partition);
                match action {
                    Action::MoveIn(key) | Action::Create(key) => out.key(key),
                    Action::MoveInRange { range, limit } => {
                        out.number((*limit).into(), 4).key(&range.low).number(range.high.is_some().into(), 1);
                        if let Some(high) = &range.high { out.key(high) } else { &mut out }
                    }
                    Action::Copy(Copies { range, moment, at, len }) => {
                        out.number(*moment, 8).number(*at, 8).number((*len).into(), 4);
                        out.key(&range.low).number(range.high.is_some().into(), 1);
                        if let Some(high) = &range.high { out.key(high) } else { &mut out }
                    }
                };
            }
            Self::Remove { table, partition, key, which: Removal { at, uncommitted, again, llsn } } => {
                out.number(REMOVE.into(), 1).place(*table, *partition).key(key);
                let flags = u64::from(*uncommitted) | u64::from(*again) << 1;
                out.number(at.map_or(0, TupleAddr::raw), 8).number(flags, 1).number(*llsn, 8);
            }
            Self::Evict => {
                out.number(EVICT.into(), 1);
            }
            Self::Reply { to, answer } => encode_answer(&mut out, to, answer),
        }
    }

    /// The message in `bytes`, or `None` if they are not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = In::new(bytes);
        let kind = input.number(1)? as u8;
        let message = match kind {
            MOVE_IN | MOVE_IN_RANGE | CREATE | COPY => {
                let from = input.requester()?;
                let (table, partition) = input.place()?;
                let action = match kind {
                    MOVE_IN => Action::MoveIn(input.key()?),
                    CREATE => Action::Create(input.key()?),
                    COPY => {
                        let (moment, at) = (input.number(8)?, input.number(8)?);
                        let (len, low) = (input.number(4)? as u32, input.key()?);
                        let high = if input.number(1)? == 1 { Some(input.key()?) } else { None };
                        Action::Copy(Copies { range: KeyRange { low, high }, moment, at, len })
                    }
                    _ => {
                        let limit = input.number(4)? as u32;
                        let low = input.key()?;
                        let high = if input.number(1)? == 1 { Some(input.key()?) } else { None };
                        Action::MoveInRange { range: KeyRange { low, high }, limit }
                    }
                };
                Self::Request { from, table, partition, action }
            }
            REMOVE => {
                let ((table, partition), key) = (input.place()?, input.key()?);
                let at = match input.number(8)? {
                    0 => None,
                    raw => Some(TupleAddr::from_raw(raw)?),
                };
                let (flags, llsn) = (input.number(1)?, input.number(8)?);
                let which = Removal { at, uncommitted: flags & 1 != 0, again: flags & 2 != 0, llsn };
                Self::Remove { table, partition, key, which }
            }
            EVICT => Self::Evict,
            _ => Self::Reply { to: input.requester()?, answer: decode_answer(kind, &mut input)? },
        };
        input.is_empty().then_some(message)
    }
}

fn encode_answer(out: &mut Out<'_>, to: &Requester, answer: &Answer) {
    let kind = match answer {
        Answer::Shared(_) => SHARED,
        Answer::RangeShared => RANGE_SHARED,
        Answer::Absent => ABSENT,
        Answer::Created { .. } => CREATED,
        Answer::Duplicate => DUPLICATE,
        Answer::Held(_) => HELD,
        Answer::Conflict => CONFLICT,
        Answer::RoomLater => ROOM_LATER,
        Answer::Copied { .. } => COPIED,
        Answer::TooOld => TOO_OLD,
        Answer::Failed(Failure::SharedMemory { .. }) => SHARED_MEMORY_FULL,
        Answer::Failed(Failure::Rows { .. }) => ROWS_FULL,
        Answer::Failed(Failure::Row { .. }) => ROW_DAMAGED,
        Answer::Failed(Failure::IndexNode { .. }) => INDEX_NODE_DAMAGED,
        Answer::Failed(Failure::IndexDirectory { .. }) => INDEX_DIRECTORY_DAMAGED,
        Answer::Failed(Failure::NotRestored { at }) => match at.file {
            StoredFile::Image { .. } => IMAGE_UNREADABLE,
            StoredFile::Log { .. } => LOG_UNREADABLE,
        },
    };
    out.number(kind.into(), 1).requester(to);
    match answer {
        Answer::Shared(at) => {
            out.number(at.raw(), 8);
        }
        Answer::Created { at, next, llsn } => {
            out.number(at.raw(), 8).number(next.map_or(0, |(at, _)| at.raw()), 8).number(*llsn, 8);
            if let Some((_, key)) = next {
                out.key(key);
            }
        }
        Answer::Held(key) => _ = out.key(key),
        Answer::Failed(
            Failure::SharedMemory { needed_bytes: number }
            | Failure::Rows { needed_bytes: number }
            | Failure::Row { offset: number }
            | Failure::IndexNode { offset: number }
            | Failure::IndexDirectory { root: number },
        ) => {
            out.number(*number, 8);
        }
        Answer::Failed(Failure::NotRestored { at: StoredAt { host, file, byte } }) => {
            let (number, partition) = match *file {
                StoredFile::Image { checkpoint, partition } => (checkpoint, partition),
                StoredFile::Log { segment } => (segment, PartitionId(0)),
            };
            out.number((*host).into(), 1).number(number.into(), 4).number(partition.0.into(), 2);
            out.number(*byte, 8);
        }
        Answer::Copied { rows, next } => {
            out.number((*rows).into(), 4).number(next.is_some().into(), 1);
            if let Some(next) = next {
                out.key(next);
            }
        }
        Answer::RangeShared
        | Answer::Absent
        | Answer::Duplicate
        | Answer::Conflict
        | Answer::TooOld
        | Answer::RoomLater => {}
    }
}

fn decode_answer(kind: u8, input: &mut In<'_>) -> Option<Answer> {
    Some(match kind {
        SHARED => Answer::Shared(TupleAddr::from_raw(input.number(8)?)?),
        RANGE_SHARED => Answer::RangeShared,
        ABSENT => Answer::Absent,
        CREATED => {
            let at = TupleAddr::from_raw(input.number(8)?)?;
            let (next, llsn) = (input.number(8)?, input.number(8)?);
            let next = match next {
                0 => None,
                raw => Some((TupleAddr::from_raw(raw)?, input.key()?)),
            };
            Answer::Created { at, next, llsn }
        }
        DUPLICATE => Answer::Duplicate,
        HELD => Answer::Held(input.key()?),
        CONFLICT => Answer::Conflict,
        ROOM_LATER => Answer::RoomLater,
        TOO_OLD => Answer::TooOld,
        COPIED => {
            let (rows, has_next) = (input.number(4)? as u32, input.number(1)? == 1);
            Answer::Copied { rows, next: if has_next { Some(input.key()?) } else { None } }
        }
        SHARED_MEMORY_FULL => Answer::Failed(Failure::SharedMemory { needed_bytes: input.number(8)? }),
        ROWS_FULL => Answer::Failed(Failure::Rows { needed_bytes: input.number(8)? }),
        ROW_DAMAGED => Answer::Failed(Failure::Row { offset: input.number(8)? }),
        INDEX_NODE_DAMAGED => Answer::Failed(Failure::IndexNode { offset: input.number(8)? }),
        INDEX_DIRECTORY_DAMAGED => Answer::Failed(Failure::IndexDirectory { root: input.number(8)? }),
        IMAGE_UNREADABLE | LOG_UNREADABLE => {
            let (host, number) = (input.number(1)? as u8, input.number(4)? as u32);
            let (partition, byte) = (PartitionId(input.number(2)? as u16), input.number(8)?);
            let file = match kind {
                IMAGE_UNREADABLE => StoredFile::Image { checkpoint: number, partition },
                _ => StoredFile::Log { segment: number },
            };
            Answer::Failed(Failure::NotRestored { at: StoredAt { byte, file, host } })
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use liger_fabric::{DataAddr, SyncAddr, WorkerId};

    fn examples() -> Vec<Message> {
        let key = Key::from_words(&[7, 1 << 60]);
        let row = |block| TupleAddr::new(DataAddr::new(block), SyncAddr::new(block / 8), 2);
        let from = Requester { worker: WorkerId(3), request: 99 };
        let request =
            |action| Message::Request { from, table: TableId(5), partition: PartitionId(600), action };
        let range = KeyRange { low: key, high: Some(Key::from_words(&[8, 0])) };
        let answers = [
            Answer::Shared(row(4096)),
            Answer::RangeShared,
            Answer::Absent,
            Answer::Created { at: row(64), next: None, llsn: 12 },
            Answer::Created { at: row(64), next: Some((row(128), key)), llsn: 12 },
            Answer::Held(key),
            Answer::Duplicate,
            Answer::Conflict,
            Answer::RoomLater,
            Answer::Copied { rows: 77, next: None },
            Answer::Copied { rows: 0, next: Some(key) },
            Answer::TooOld,
            Answer::Failed(Failure::SharedMemory { needed_bytes: 1 << 40 }),
            Answer::Failed(Failure::Rows { needed_bytes: 100 }),
            Answer::Failed(Failure::Row { offset: 1 << 34 }),
            Answer::Failed(Failure::IndexNode { offset: 1 << 33 }),
            Answer::Failed(Failure::IndexDirectory { root: 4160 }),
            Answer::Failed(Failure::NotRestored {
                at: StoredAt {
                    byte: 1 << 40,
                    file: StoredFile::Image { checkpoint: 70_000, partition: PartitionId(600) },
                    host: 3,
                },
            }),
            Answer::Failed(Failure::NotRestored {
                at: StoredAt { byte: 9, file: StoredFile::Log { segment: 70_000 }, host: 15 },
            }),
        ];
        let mut all = vec![
            request(Action::MoveIn(key)),
            request(Action::MoveInRange { range, limit: 12 }),
            request(Action::MoveInRange { range: KeyRange { low: key, high: None }, limit: 1 }),
            request(Action::Create(key)),
            request(Action::Copy(Copies { range, moment: 1 << 50, at: 1 << 33, len: 65_536 })),
            Message::Evict,
        ];
        let at = Some(row(64));
        let removals = [
            Removal { at, uncommitted: false, again: false, llsn: u64::MAX },
            Removal { at, uncommitted: true, again: true, llsn: 7 },
            Removal { at, uncommitted: false, again: true, llsn: 7 },
            Removal { at: None, uncommitted: true, again: false, llsn: 0 },
        ];
        all.extend(removals.map(|which| Message::Remove {
            table: TableId(1),
            partition: PartitionId(2),
            key,
            which,
        }));
        all.extend(answers.map(|answer| Message::Reply { to: from, answer }));
        all
    }

    #[test]
    fn every_message_survives_the_trip_and_no_prefix_of_it_does() {
        for message in examples() {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert_eq!(Message::decode(&bytes), Some(message.clone()));
            for cut in 0..bytes.len() {
                assert_eq!(Message::decode(&bytes[..cut]), None, "{message:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn unknown_kinds_and_addresses_of_nothing_are_refused() {
        assert_eq!(Message::decode(&[77, 0, 0, 0, 0, 0]), None);
        assert_eq!(Message::decode(&[SHARED, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
