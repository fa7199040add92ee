//! What hosts of a partitioned pod ask of each other. Rows travel in these messages; nothing is shared.
//!
//! A request names the worker that asks and the number of its transaction; the receiver keeps a branch for
//! each worker of each other host. Numbers of held rows count within that branch, on both sides.

use liger_engine::protocol::{In, Out, Requester};
use liger_engine::{Access, Conflict, Key, KeyRange, TableId};
use liger_pod::plan::PartitionId;

/// One thing to do with one row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Takes it and sends it back.
    Take(Access),
    /// Makes its place.
    Insert,
    /// Marks it, which is locked, for removal.
    Delete,
}

/// Single rows, and what to do with each.
pub(super) type Steps = Vec<(TableId, Key, Step)>;

/// What becomes of a held row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Effect {
    /// Number of the held row.
    pub(super) held: u32,
    /// What is written where.
    pub(super) pieces: Vec<(u16, Vec<u8>)>,
}

/// A request, from worker to host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// Single rows, in order; the first conflict undoes the branch.
    Rows(Steps),
    /// The rows of a range, as many as a message holds.
    Range { table: TableId, partition: PartitionId, range: KeyRange, access: Access },
    /// Some of what the transaction has changed here, where all is too long for one message.
    Changes(Vec<Effect>),
    /// Whether it can commit at this time, with the rest of its changes; then they must not be lost.
    Prepare { time: u64, effects: Vec<Effect> },
    /// It has committed; with `answer` somebody waits for that to be done.
    Commit { time: u64, answer: bool },
    /// It has not; what it has locked here was seen as it is at `seen`, if that is not 0.
    Abort { seen: u64 },
}

/// A row as the receiver of a request holds it for the transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sent {
    /// Number of the held row.
    pub(super) held: u32,
    pub(super) version: u64,
    pub(super) bytes: Vec<u8>,
}

/// What came of one step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// The row.
    Row(Sent),
    /// There is none.
    Absent,
    /// The place of a new row, by its number.
    Made(u32),
    /// It is marked.
    Marked,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// All steps were taken; the transaction commits at `floor` or later, and leases run until `until`.
    Rows { floor: u64, until: u64, outcomes: Vec<Outcome> },
    /// The rows of a range up to its end, or up to and with the last one.
    Range { floor: u64, until: u64, complete: bool, rows: Vec<(Key, Sent)> },
    /// The branch is undone.
    Refused(Conflict),
    /// The partition cannot hold another row; the branch is undone.
    NoRoom { needed_bytes: u64 },
    /// The record of its changes, of so many bytes, is longer than the log admits; of none: the log has
    /// failed. The branch is undone.
    Unlogged { bytes: u64, limit_bytes: u64 },
    /// It is done.
    Done,
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    Request { from: Requester, transaction: u64, action: Action },
    Reply { to: Requester, answer: Answer },
}

const ROWS: u8 = 1;
const RANGE: u8 = 2;
const CHANGES: u8 = 3;
const PREPARE: u8 = 4;
const COMMIT: u8 = 5;
const ABORT: u8 = 6;
const ROWS_ANSWER: u8 = 16;
const RANGE_ANSWER: u8 = 17;
const REFUSED: u8 = 18;
const NO_ROOM: u8 = 19;
const DONE: u8 = 20;
const UNLOGGED: u8 = 21;

/// Bytes that a row takes in a message beside its own, at most (its key included).
pub(super) const ROW_OVERHEAD: usize = 8 * liger_engine::MAX_KEY_WORDS + 40;
/// Bytes of a message beside its rows, at most.
pub(super) const MESSAGE_OVERHEAD: usize = 64;

fn access_code(access: Access) -> u64 {
    match access {
        Access::Read => 0,
        Access::Update => 1,
    }
}

fn access_of(code: u64) -> Option<Access> {
    match code {
        0 => Some(Access::Read),
        1 => Some(Access::Update),
        _ => None,
    }
}

fn put_sent(out: &mut Out<'_>, sent: &Sent) {
    out.number(sent.held.into(), 4).number(sent.version, 8).bytes(&sent.bytes);
}

fn take_sent(input: &mut In<'_>) -> Option<Sent> {
    let (held, version) = (input.number(4)? as u32, input.number(8)?);
    Some(Sent { held, version, bytes: input.bytes()?.to_vec() })
}

fn put_effects(out: &mut Out<'_>, effects: &[Effect]) {
    out.number(effects.len() as u64, 2);
    for Effect { held, pieces } in effects {
        out.number((*held).into(), 4).number(pieces.len() as u64, 2);
        for (offset, bytes) in pieces {
            out.number((*offset).into(), 2).bytes(bytes);
        }
    }
}

fn take_effects(input: &mut In<'_>) -> Option<Vec<Effect>> {
    let effects = input.number(2)?;
    let piece = |input: &mut In<'_>| Some((input.number(2)? as u16, input.bytes()?.to_vec()));
    let effect = |input: &mut In<'_>| {
        let (held, pieces) = (input.number(4)? as u32, input.number(2)?);
        let pieces = (0..pieces).map(|_| piece(input)).collect::<Option<_>>()?;
        Some(Effect { held, pieces })
    };
    (0..effects).map(|_| effect(input)).collect()
}

impl Message {
    /// Who the message is about: the worker that asks, or that waits for the answer.
    pub(super) fn requester(&self) -> Requester {
        match self {
            Self::Request { from, .. } => *from,
            Self::Reply { to, .. } => *to,
        }
    }

    /// The message's bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128);
        let mut out = Out::new(&mut bytes);
        match self {
            Self::Request { from, transaction, action } => {
                out.number(action.kind().into(), 1).requester(from).number(*transaction, 8);
                action.encode(&mut out);
            }
            Self::Reply { to, answer } => {
                out.number(answer.kind().into(), 1).requester(to);
                answer.encode(&mut out);
            }
        }
        bytes
    }

    /// The message in `bytes`, or `None` if they are not one.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = In::new(bytes);
        let kind = input.number(1)? as u8;
        let requester = input.requester()?;
        let message = if kind < ROWS_ANSWER {
            let transaction = input.number(8)?;
            Self::Request { from: requester, transaction, action: Action::decode(kind, &mut input)? }
        } else {
            Self::Reply { to: requester, answer: Answer::decode(kind, &mut input)? }
        };
        input.is_empty().then_some(message)
    }
}

impl Action {
    fn kind(&self) -> u8 {
        match self {
            Self::Rows(_) => ROWS,
            Self::Range { .. } => RANGE,
            Self::Changes(_) => CHANGES,
            Self::Prepare { .. } => PREPARE,
            Self::Commit { .. } => COMMIT,
            Self::Abort { .. } => ABORT,
        }
    }

    /// True if somebody waits for an answer.
    pub(super) fn is_answered(&self) -> bool {
        !matches!(self, Self::Abort { .. } | Self::Commit { answer: false, .. })
    }

    /// True if the branch may hold locks afterwards that it did not hold before; with `leases`, reads take
    /// none.
    pub(super) fn takes_locks(&self, leases: bool) -> bool {
        match self {
            Self::Rows(steps) => {
                !leases || steps.iter().any(|(_, _, step)| *step != Step::Take(Access::Read))
            }
            Self::Range { access, .. } => !leases || *access == Access::Update,
            Self::Changes(_) | Self::Prepare { .. } | Self::Commit { .. } | Self::Abort { .. } => false,
        }
    }

    fn encode(&self, out: &mut Out<'_>) {
        match self {
            Self::Rows(steps) => {
                out.number(steps.len() as u64, 2);
                for (table, key, step) in steps {
                    let code = match step {
                        Step::Take(access) => access_code(*access),
                        Step::Insert => 2,
                        Step::Delete => 3,
                    };
                    out.number(table.0.into(), 2).key(key).number(code, 1);
                }
            }
            Self::Range { table, partition, range, access } => {
                out.place(*table, *partition).number(access_code(*access), 1).key(&range.low);
                out.number(range.high.is_some().into(), 1);
                if let Some(high) = &range.high {
                    out.key(high);
                }
            }
            Self::Changes(effects) => put_effects(out, effects),
            Self::Prepare { time, effects } => put_effects(out.number(*time, 8), effects),
            Self::Commit { time, answer } => _ = out.number(*time, 8).number((*answer).into(), 1),
            Self::Abort { seen } => _ = out.number(*seen, 8),
        }
    }

    fn decode(kind: u8, input: &mut In<'_>) -> Option<Self> {
        Some(match kind {
            ROWS => {
                let steps = input.number(2)?;
                let step = |input: &mut In<'_>| {
                    let (table, key) = (TableId(input.number(2)? as u16), input.key()?);
                    let step = match input.number(1)? {
                        2 => Step::Insert,
                        3 => Step::Delete,
                        code => Step::Take(access_of(code)?),
                    };
                    Some((table, key, step))
                };
                Self::Rows((0..steps).map(|_| step(input)).collect::<Option<_>>()?)
            }
            RANGE => {
                let (table, partition) = input.place()?;
                let (access, low) = (access_of(input.number(1)?)?, input.key()?);
                let high = if input.number(1)? == 1 { Some(input.key()?) } else { None };
                Self::Range { table, partition, range: KeyRange { low, high }, access }
            }
            CHANGES => Self::Changes(take_effects(input)?),
            PREPARE => Self::Prepare { time: input.number(8)?, effects: take_effects(input)? },
            COMMIT => Self::Commit { time: input.number(8)?, answer: input.number(1)? == 1 },
            ABORT => Self::Abort { seen: input.number(8)? },
            _ => return None,
        })
    }
}

impl Answer {
    fn kind(&self) -> u8 {
        match self {
            Self::Rows { .. } => ROWS_ANSWER,
            Self::Range { .. } => RANGE_ANSWER,
            Self::Refused(_) => REFUSED,
            Self::NoRoom { .. } => NO_ROOM,
            Self::Unlogged { .. } => UNLOGGED,
            Self::Done => DONE,
        }
    }

    fn encode(&self, out: &mut Out<'_>) {
        match self {
            Self::Rows { floor, until, outcomes } => {
                out.number(*floor, 8).number(*until, 8).number(outcomes.len() as u64, 2);
                for outcome in outcomes {
                    match outcome {
                        Outcome::Absent => _ = out.number(0, 1),
                        Outcome::Row(sent) => put_sent(out.number(1, 1), sent),
                        Outcome::Made(held) => _ = out.number(2, 1).number((*held).into(), 4),
                        Outcome::Marked => _ = out.number(3, 1),
                    }
                }
            }
            Self::Range { floor, until, complete, rows } => {
                out.number(*floor, 8).number(*until, 8).number((*complete).into(), 1);
                out.number(rows.len() as u64, 4);
                for (key, sent) in rows {
                    put_sent(out.key(key), sent);
                }
            }
            Self::Refused(conflict) => _ = out.number(conflict.index() as u64, 1),
            Self::NoRoom { needed_bytes } => _ = out.number(*needed_bytes, 8),
            Self::Unlogged { bytes, limit_bytes } => _ = out.number(*bytes, 8).number(*limit_bytes, 8),
            Self::Done => {}
        }
    }

    fn decode(kind: u8, input: &mut In<'_>) -> Option<Self> {
        Some(match kind {
            ROWS_ANSWER => {
                let (floor, until, outcomes) = (input.number(8)?, input.number(8)?, input.number(2)?);
                let outcome = |input: &mut In<'_>| {
                    Some(match input.number(1)? {
                        0 => Outcome::Absent,
                        1 => Outcome::Row(take_sent(input)?),
                        2 => Outcome::Made(input.number(4)? as u32),
                        3 => Outcome::Marked,
                        _ => return None,
                    })
                };
                let outcomes = (0..outcomes).map(|_| outcome(input)).collect::<Option<_>>()?;
                Self::Rows { floor, until, outcomes }
            }
            RANGE_ANSWER => {
                let (floor, until, complete) = (input.number(8)?, input.number(8)?, input.number(1)? == 1);
                let count = input.number(4)?;
                let row = |input: &mut In<'_>| Some((input.key()?, take_sent(input)?));
                let rows = (0..count).map(|_| row(input)).collect::<Option<_>>()?;
                Self::Range { floor, until, complete, rows }
            }
            REFUSED => Self::Refused(*Conflict::ALL.get(input.number(1)? as usize)?),
            NO_ROOM => Self::NoRoom { needed_bytes: input.number(8)? },
            UNLOGGED => Self::Unlogged { bytes: input.number(8)?, limit_bytes: input.number(8)? },
            DONE => Self::Done,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use liger_fabric::WorkerId;

    use super::*;

    fn examples() -> Vec<Message> {
        let key = Key::from_words(&[7, 1 << 60]);
        let requester = Requester { worker: WorkerId(3), request: 99 };
        let request = |action| Message::Request { from: requester, transaction: 1 << 40, action };
        let reply = |answer| Message::Reply { to: requester, answer };
        let table = TableId(5);
        let sent = Sent { held: 9, version: 3, bytes: vec![1, 2, 3] };
        let steps = [Step::Take(Access::Read), Step::Take(Access::Update), Step::Insert, Step::Delete];
        let range = KeyRange { low: key, high: Some(Key::from_words(&[8, 0])) };
        let open = KeyRange { low: key, high: None };
        let (floor, until) = (17, 18);
        let effects = vec![
            Effect { held: 0, pieces: vec![] },
            Effect { held: 1, pieces: vec![(4, vec![1]), (900, vec![0; 70])] },
        ];
        vec![
            request(Action::Rows(steps.map(|step| (table, key, step)).to_vec())),
            request(Action::Range { table, partition: PartitionId(600), range, access: Access::Read }),
            request(Action::Range { table, partition: PartitionId(0), range: open, access: Access::Update }),
            request(Action::Changes(effects.clone())),
            request(Action::Prepare { time: 5, effects }),
            request(Action::Commit { time: 5, answer: true }),
            request(Action::Commit { time: 5, answer: false }),
            request(Action::Abort { seen: 5 }),
            reply(Answer::Rows {
                floor,
                until,
                outcomes: vec![
                    Outcome::Absent,
                    Outcome::Row(sent.clone()),
                    Outcome::Made(4),
                    Outcome::Marked,
                ],
            }),
            reply(Answer::Range { floor, until, complete: true, rows: vec![] }),
            reply(Answer::Range { floor, until, complete: false, rows: vec![(key, sent)] }),
            reply(Answer::Refused(Conflict::Validation)),
            reply(Answer::NoRoom { needed_bytes: 12 }),
            reply(Answer::Unlogged { bytes: 900, limit_bytes: 512 }),
            reply(Answer::Done),
        ]
    }

    #[test]
    fn messages_survive_the_way_and_damage_is_noticed() {
        for message in examples() {
            let bytes = message.encode();
            assert_eq!(Message::decode(&bytes).as_ref(), Some(&message));
            for len in 0..bytes.len() {
                assert_eq!(Message::decode(&bytes[..len]), None, "{message:?} cut to {len}");
            }
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(Message::decode(&longer), None, "{message:?} with a byte more");
        }
        assert_eq!(Message::decode(&[99, 0, 0, 0, 0, 0]), None);
    }
}
