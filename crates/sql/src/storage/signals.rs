//! Signals: how a session stops one that another host serves (`pg_cancel_backend`).
//!
//! ```text
//! object 6, beside the inbox of host h, in place h
//!     key     128 + host u8 | number u64
//!     body    process id i32 | number of the question u64 | kind u8 | bytes of the text u8 | text
//! ```
//!
//! A session's host puts a question for the host that the process id names. That one carries it out, and puts
//! the answer for the first.
//!
//! Invariants:
//! 1. Rows for a host are removed by the transaction in which that host reads them; those that nobody will
//!    read by a host that opens its catalog: its own, and those of hosts that are no members.
//! 2. A question's number is given once in the life of the pod: an answer that comes late, also to a host
//!    that has come again, answers nothing else.
//!
//! Not here: who may stop whom. The host that asks knows that, from the role that the first answer names.

use std::ops::ControlFlow;

use super::access::Access;
use super::classes::Classes;
use super::codec;
use super::notices::place_of;
use super::numbers::Numbers;
use super::parts;
use super::table::new_row;
use crate::error::Result;
use crate::session::InterruptReason;

/// Signals that are read in one transaction, at most.
const BATCH: usize = 64;
const HEAD: usize = 14;
/// Bytes of a role's name are less.
const NAME_BYTES: usize = 64;

/// What is asked about a session, or answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Host `from` asks which role has it; and it shall stop, if there is a reason.
    Question {
        /// The host that waits for the answer.
        from: u8,
        /// Why the session shall stop.
        stop: Option<InterruptReason>,
    },
    /// The role that has it, empty while its client logs in; `None`: there is no such session.
    Answer(Option<String>),
}

/// A signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Of the session that it is about.
    pub process_id: i32,
    /// Of the question.
    pub number: u64,
    /// What it says.
    pub kind: Kind,
}

/// Reasons that travel, by their numbers.
const REASONS: [Option<InterruptReason>; 3] =
    [None, Some(InterruptReason::Cancel), Some(InterruptReason::Terminate)];

fn body(signal: &Signal) -> Vec<u8> {
    let (kind, text) = match &signal.kind {
        Kind::Question { from, stop } => {
            let reason = REASONS.iter().position(|reason| reason == stop).unwrap_or(0);
            (2 + reason as u8, vec![*from])
        }
        Kind::Answer(None) => (0, Vec::new()),
        Kind::Answer(Some(user)) => (1, user.as_bytes()[..user.floor_char_boundary(NAME_BYTES - 1)].to_vec()),
    };
    let mut body = signal.process_id.to_le_bytes().to_vec();
    body.extend_from_slice(&signal.number.to_le_bytes());
    body.extend_from_slice(&[kind, text.len() as u8]);
    body.extend_from_slice(&text);
    body
}

fn read(body: &[u8]) -> Result<Signal> {
    let (head, rest) = body.split_at(HEAD);
    let process_id = i32::from_le_bytes(head[..4].try_into().expect("4 bytes"));
    let number = u64::from_le_bytes(head[4..12].try_into().expect("8 bytes"));
    let text = rest.get(..usize::from(head[13])).unwrap_or(&[0xff]);
    let kind = match head[12] {
        0 => Kind::Answer(None),
        1 => Kind::Answer(Some(codec::text(text)?.to_string())),
        kind => Kind::Question {
            from: text.first().copied().unwrap_or(u8::MAX),
            stop: REASONS.get(usize::from(kind - 2)).copied().flatten(),
        },
    };
    Ok(Signal { process_id, number, kind })
}

fn whose(host: u8) -> u8 {
    128 + host
}

/// Puts a signal for a host; false if that is no member.
///
/// # Errors
/// Conflicts, and those of the engine; so do all that follow.
pub fn put(
    tx: &mut dyn Access,
    classes: &Classes,
    numbers: &Numbers,
    (to, signal): (u8, &Signal),
) -> Result<bool> {
    if !tx.is_member(to) {
        return Ok(false);
    }
    let body = body(signal);
    let home = parts::inbox(classes, body.len())?;
    let mut key = vec![whose(to)];
    key.extend_from_slice(&numbers.take().to_be_bytes());
    tx.insert(home.table, &new_row(&home, &home.key(place_of(tx, to), &key), &body))?;
    Ok(true)
}

/// Takes signals for a host out, and whether these were all.
fn take_of(tx: &mut dyn Access, classes: &Classes, host: u8) -> Result<(Vec<Signal>, bool)> {
    let home = parts::inbox(classes, 0)?;
    let range = home.range_of_prefix(place_of(tx, host), &[whose(host)]);
    let mut rows = Vec::new();
    tx.scan(home.table, &range, &mut |key, row| {
        rows.push((*key, row[home.size.body_at()..].to_vec()));
        if rows.len() < BATCH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    for (key, _) in &rows {
        tx.delete(home.table, key)?;
    }
    let signals = rows.iter().map(|(_, body)| read(body)).collect::<Result<Vec<_>>>()?;
    let is_all = signals.len() < BATCH;
    Ok((signals, is_all))
}

/// Takes the oldest signals for this host out, and whether these were all.
///
/// # Errors
/// As [`put`]; damage.
pub fn take(tx: &mut dyn Access, classes: &Classes) -> Result<(Vec<Signal>, bool)> {
    let own = tx.host();
    take_of(tx, classes, own)
}

/// This host begins a life: removes what nobody will read.
///
/// # Errors
/// As [`take`].
pub fn forget(tx: &mut dyn Access, classes: &Classes) -> Result<()> {
    for host in (0..16).filter(|host| *host == tx.host() || !tx.is_member(*host)).collect::<Vec<u8>>() {
        while !take_of(tx, classes, host)?.1 {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_its_signal() {
        let answers = [None, Some(String::new()), Some("\u{fc}".repeat(31))].map(Kind::Answer);
        let questions = REASONS.map(|stop| Kind::Question { from: 15, stop });
        for kind in answers.into_iter().chain(questions) {
            let signal = Signal { process_id: -7, number: u64::MAX - 1, kind };
            let mut bytes = body(&signal);
            bytes.resize(192, 0);
            assert_eq!(read(&bytes).expect("it is whole"), signal);
        }
        let long = Signal { process_id: 1, number: 1, kind: Kind::Answer(Some("x".repeat(200))) };
        assert_eq!(read(&body(&long)).expect("it is whole").kind, Kind::Answer(Some("x".repeat(63))));
        assert!(read(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 9, b'x']).is_err());
    }
}
