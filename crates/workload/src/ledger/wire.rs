//! What a client and a host say to each other, as bytes: frames behind one another on a stream.
//!
//! ```text
//! frame     0 bytes of the message u32   4 the message
//! message   0 kind u8   1 fields, little-endian, no padding
//! transfer  client u32, number u64, from i32, to i32, amount i64
//! done      client u32, number u64, payer's balance i64, payee's balance i64, again u8
//! ping      token u64, which the answer, a pong, repeats
//! ask       nothing: who owns which partition?
//! owners    a byte for each partition: the host's number
//! failed    text: this host cannot serve any more, ask another one
//! ```
//!
//! A client may send any number of requests before it reads an answer. Answers come in any order.

use thiserror::Error;

use super::{Reply, Request};

/// One message, of either side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Make this transfer.
    Transfer(Request),
    /// It is made and durable.
    Done(Reply),
    /// Are you there?
    Ping(u64),
    /// Yes.
    Pong(u64),
    /// Who owns which partition?
    Ask,
    /// The owner of each partition.
    Owners(Vec<u8>),
    /// The host cannot serve any more.
    Failed(String),
}

/// Bytes that are no message.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum WireError {
    /// Longer than any message.
    #[error("a message of {0} bytes, {MESSAGE_MAX} at most are possible")]
    TooLong(u32),
    /// There is no such message.
    #[error("a message of kind {kind} and {bytes} bytes")]
    Unknown {
        /// Its kind.
        kind: u8,
        /// Its bytes, the kind included.
        bytes: usize,
    },
}

/// Bytes of the longest message.
pub const MESSAGE_MAX: usize = 64 << 10;

const TRANSFER: u8 = 1;
const DONE: u8 = 2;
const PING: u8 = 3;
const PONG: u8 = 4;
const ASK: u8 = 5;
const OWNERS: u8 = 6;
const FAILED: u8 = 7;

impl Message {
    /// Appends the message's frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        match self {
            Self::Transfer(Request { client, number, from, to, amount_cents }) => {
                out.push(TRANSFER);
                out.extend_from_slice(&client.to_le_bytes());
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(&from.to_le_bytes());
                out.extend_from_slice(&to.to_le_bytes());
                out.extend_from_slice(&amount_cents.to_le_bytes());
            }
            Self::Done(Reply { client, number, from_cents, to_cents, again }) => {
                out.push(DONE);
                out.extend_from_slice(&client.to_le_bytes());
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(&from_cents.to_le_bytes());
                out.extend_from_slice(&to_cents.to_le_bytes());
                out.push(u8::from(*again));
            }
            Self::Ping(token) | Self::Pong(token) => {
                out.push(if matches!(self, Self::Ping(_)) { PING } else { PONG });
                out.extend_from_slice(&token.to_le_bytes());
            }
            Self::Ask => out.push(ASK),
            Self::Owners(owners) => {
                out.push(OWNERS);
                out.extend_from_slice(owners);
            }
            Self::Failed(why) => {
                out.push(FAILED);
                out.extend_from_slice(&why.as_bytes()[..why.floor_char_boundary(MESSAGE_MAX - 1)]);
            }
        }
        let bytes = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&bytes.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let unknown = || WireError::Unknown { kind: bytes.first().copied().unwrap_or(0), bytes: bytes.len() };
        let (kind, fields) = bytes.split_first().ok_or_else(unknown)?;
        let mut fields = Fields(fields);
        let message = match *kind {
            TRANSFER => fields.transfer().map(Self::Transfer),
            DONE => fields.done().map(Self::Done),
            PING => fields.take().map(u64::from_le_bytes).map(Self::Ping),
            PONG => fields.take().map(u64::from_le_bytes).map(Self::Pong),
            ASK => Some(Self::Ask),
            OWNERS => Some(Self::Owners(std::mem::take(&mut fields.0).to_vec())),
            FAILED => Some(Self::Failed(String::from_utf8_lossy(std::mem::take(&mut fields.0)).into_owned())),
            _ => None,
        };
        message.filter(|_| fields.0.is_empty()).ok_or_else(unknown)
    }
}

/// The fields of a message that are left.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn transfer(&mut self) -> Option<Request> {
        Some(Request {
            client: u32::from_le_bytes(self.take()?),
            number: u64::from_le_bytes(self.take()?),
            from: i32::from_le_bytes(self.take()?),
            to: i32::from_le_bytes(self.take()?),
            amount_cents: i64::from_le_bytes(self.take()?),
        })
    }

    fn done(&mut self) -> Option<Reply> {
        Some(Reply {
            client: u32::from_le_bytes(self.take()?),
            number: u64::from_le_bytes(self.take()?),
            from_cents: i64::from_le_bytes(self.take()?),
            to_cents: i64::from_le_bytes(self.take()?),
            again: self.take::<1>()?[0] != 0,
        })
    }
}

/// Bytes as they come, cut into messages.
#[derive(Default, Debug)]
pub struct Frames {
    bytes: Vec<u8>,
    taken: usize,
}

impl Frames {
    /// Adds bytes that have come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, if it has come.
    ///
    /// # Errors
    /// If the bytes are none: nothing that follows can be read.
    pub fn message(&mut self) -> Result<Option<Message>, WireError> {
        let Some((head, rest)) = self.bytes[self.taken..].split_first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_le_bytes(*head);
        if len as usize > MESSAGE_MAX {
            return Err(WireError::TooLong(len));
        }
        let Some(message) = rest.get(..len as usize) else { return Ok(None) };
        let message = Message::decode(message)?;
        self.taken += 4 + len as usize;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Message> {
        let request = Request { client: 3, number: 1 << 40, from: 7, to: -1, amount_cents: -5 };
        let reply = Reply { client: 3, number: 9, from_cents: i64::MIN, to_cents: 8, again: true };
        vec![
            Message::Transfer(request),
            Message::Done(reply),
            Message::Ping(5),
            Message::Pong(u64::MAX),
            Message::Ask,
            Message::Owners(vec![0, 1, 2]),
            Message::Failed("its log has failed".to_owned()),
        ]
    }

    #[test]
    fn messages_arrive_in_pieces() {
        let mut bytes = Vec::new();
        some().iter().for_each(|message| message.encode(&mut bytes));
        for piece in [1, 3, 7, 1000] {
            let (mut frames, mut arrived) = (Frames::default(), Vec::new());
            for some in bytes.chunks(piece) {
                frames.push(some);
                while let Some(message) = frames.message().expect("whole messages") {
                    arrived.push(message);
                }
            }
            assert_eq!(arrived, some());
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let refused = |bytes: &[u8]| {
            let mut frames = Frames::default();
            frames.push(bytes);
            frames.message().expect_err("no message")
        };
        assert_eq!(refused(&u32::MAX.to_le_bytes()), WireError::TooLong(u32::MAX));
        assert_eq!(refused(&[0, 0, 0, 0]), WireError::Unknown { kind: 0, bytes: 0 });
        assert_eq!(refused(&[2, 0, 0, 0, PING, 0]), WireError::Unknown { kind: PING, bytes: 2 });
        assert_eq!(refused(&[1, 0, 0, 0, 99]), WireError::Unknown { kind: 99, bytes: 1 });
    }
}
