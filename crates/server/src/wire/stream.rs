//! A stream of messages over a socket, encrypted or not: what has arrived, what is to be sent.
//!
//! ```text
//!   socket -> (TLS) -> input [start..end] -> message bodies, borrowed, or moved out where they are long
//!   messages -> output, and long values beside it -> (TLS) -> socket, when asked or when much has gathered
//! ```
//!
//! Invariants:
//! 1. The input grows with what has arrived and never by what a length says: a client that announces a
//!    gigabyte has to send it.
//! 2. At `rest`, the buffers of a connection without anything half-read are given back.
//! 3. A long value is not copied: it is read where it is when it is sent ([`Beside`]).

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::ops::Range;
use std::sync::Arc;

use liger_sql::error::{Severity, SqlError, SqlState};
use rustls::ServerConnection;

use super::beside::Beside;
use super::frontend::{FIRST_PACKET_BYTES_MAX, body_limit};
use crate::socket::{Read, Socket};

/// Input and output start with this, bytes.
const BUFFER_BYTES: usize = 8 << 10;
/// Output is sent when it has gathered this much, bytes.
const SEND_BYTES: usize = 64 << 10;
/// An input that has grown beyond this for one message is not kept, bytes.
const LARGE_BYTES: usize = 1 << 20;

/// Why a stream cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The socket failed.
    #[error("the socket failed: {0}")]
    Io(#[from] io::Error),
    /// The bytes are not TLS.
    #[error("TLS failed: {0}")]
    Tls(#[from] rustls::Error),
    /// A message has a length that it cannot have.
    #[error("invalid length {length} of a message of kind {kind}")]
    Length {
        /// Its kind; 0 for the first packet.
        kind: u8,
        /// What it says.
        length: u32,
    },
    /// A message of a kind that does not exist.
    #[error("invalid frontend message type {0}")]
    Kind(u8),
}

impl StreamError {
    /// The FATAL error to tell the client.
    pub fn to_sql(&self) -> SqlError {
        let state = match self {
            Self::Io(_) | Self::Tls(_) => SqlState::CONNECTION_FAILURE,
            Self::Length { .. } | Self::Kind(_) => SqlState::PROTOCOL_VIOLATION,
        };
        SqlError::notice(Severity::Fatal, state, self.to_string())
    }
}

/// What waits in the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// A message of this kind; its body lies there in the input until the next call.
    Message(u8, Range<usize>),
    /// Nothing whole, and the client says nothing.
    Quiet,
    /// The client is gone.
    Closed,
}

/// The stream.
#[derive(Debug)]
pub struct Stream {
    socket: Arc<Socket>,
    tls: Option<Box<ServerConnection>>,
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// What is to be sent: append messages here, then `send` or `send_if_large`.
    pub output: Vec<u8>,
    /// Long values, each with the byte of `output` that it goes before; ascending.
    pub beside: Vec<(usize, Beside)>,
    /// Bytes that came, without TLS's own.
    pub bytes_in: u64,
    /// Bytes that went, without TLS's own.
    pub bytes_out: u64,
    /// The same since the beginning.
    sent: u64,
}

impl Stream {
    /// A stream over a socket, not encrypted.
    pub fn new(socket: Arc<Socket>) -> Self {
        Self {
            socket,
            tls: None,
            input: Vec::new(),
            start: 0,
            end: 0,
            output: Vec::new(),
            beside: Vec::new(),
            bytes_in: 0,
            bytes_out: 0,
            sent: 0,
        }
    }

    /// Bytes that were sent or wait for it, since the beginning.
    pub fn position(&self) -> u64 {
        self.sent + self.waiting()
    }

    /// Bytes that wait to be sent.
    fn waiting(&self) -> u64 {
        let beside: usize = self.beside.iter().map(|(_, value)| value.len()).sum();
        (self.output.len() + beside) as u64
    }

    /// Takes back what was appended behind `position`, which is no place inside of a message, and not sent;
    /// whether that is all of it.
    pub fn take_back(&mut self, position: u64) -> bool {
        let mut kept = position.saturating_sub(self.sent) as usize;
        let mut first_gone = self.beside.len();
        for (number, (at, value)) in self.beside.iter().enumerate() {
            if *at >= kept {
                first_gone = number;
                break;
            }
            kept -= value.len();
        }
        self.beside.truncate(first_gone);
        self.output.truncate(kept);
        position >= self.sent
    }

    /// The socket below.
    pub fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// Whether it is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// What the client and TLS agreed to speak, once its handshake is done.
    pub fn application_protocol(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.alpn_protocol()
    }

    /// Whether bytes have arrived that nobody has read as a message.
    pub fn has_unread(&self) -> bool {
        self.start < self.end
    }

    /// Whether a Sync has arrived already and is the next message.
    pub fn is_sync_next(&self) -> bool {
        self.input[self.start..self.end].starts_with(&[b'S', 0, 0, 0, 4])
    }

    /// Bytes of the input.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.input[range]
    }

    /// Puts the bytes of a message into `body`, and says where they begin there. Those of a long one are not
    /// copied: `body` becomes what was the input.
    pub fn move_out(&mut self, range: Range<usize>, body: &mut Vec<u8>) -> usize {
        body.clear();
        if range.len() <= LARGE_BYTES || self.has_unread() {
            body.extend_from_slice(&self.input[range]);
            return 0;
        }
        *body = std::mem::take(&mut self.input);
        (self.start, self.end) = (0, 0);
        body.truncate(range.end);
        range.start
    }

    /// Whether the client begins with TLS at once: a record of a handshake instead of a packet.
    pub fn begins_with_tls(&self) -> bool {
        self.input[self.start..self.end].first() == Some(&0x16)
    }

    /// From here on everything is encrypted. What was read before belongs to the handshake; it may only be
    /// the client's that began with TLS at once.
    pub fn start_tls(&mut self, mut tls: Box<ServerConnection>) -> Result<(), StreamError> {
        let mut early = &self.input[self.start..self.end];
        while !early.is_empty() {
            tls.read_tls(&mut early)?;
            tls.process_new_packets()?;
        }
        (self.start, self.end) = (0, 0);
        write_tls(&mut tls, &self.socket, &mut || ())?;
        self.tls = Some(tls);
        Ok(())
    }

    /// Waits for a first packet: no kind, and short.
    pub fn first_packet(&mut self) -> Result<Arrived, StreamError> {
        if let Some(missing) = self.fill(4)? {
            return Ok(missing);
        }
        if self.begins_with_tls() && self.tls.is_none() {
            return Ok(Arrived::Message(0x16, self.start..self.start));
        }
        let length =
            u32::from_be_bytes(self.input[self.start..self.start + 4].try_into().expect("four bytes"));
        if !(8..=FIRST_PACKET_BYTES_MAX).contains(&(length as usize)) {
            return Err(StreamError::Length { kind: 0, length });
        }
        self.whole(0, 4, length as usize)
    }

    /// Waits for a message. `large`: how many bytes the body of one with texts or data may have.
    pub fn message(&mut self, large: usize) -> Result<Arrived, StreamError> {
        if let Some(missing) = self.fill(5)? {
            return Ok(missing);
        }
        let head = &self.input[self.start..self.start + 5];
        let (kind, length) = (head[0], u32::from_be_bytes(head[1..].try_into().expect("four bytes")));
        let limit = body_limit(kind, large).ok_or(StreamError::Kind(kind))?;
        let body = (length as usize).checked_sub(4).filter(|body| *body <= limit);
        let body = body.ok_or(StreamError::Length { kind, length })?;
        self.whole(kind, 5, body + 5)
    }

    /// The message of `length` bytes in the input, its head included, once it is whole.
    fn whole(&mut self, kind: u8, head: usize, length: usize) -> Result<Arrived, StreamError> {
        if let Some(missing) = self.fill(length)? {
            return Ok(missing);
        }
        let body = self.start + head..self.start + length;
        self.start += length;
        Ok(Arrived::Message(kind, body))
    }

    /// Waits until `wanted` bytes are in the input; answers with what there is instead if they do not come.
    fn fill(&mut self, wanted: usize) -> Result<Option<Arrived>, StreamError> {
        while self.end - self.start < wanted {
            self.make_room(wanted);
            match self.read()? {
                Read::Bytes(bytes) => {
                    self.end += bytes;
                    self.bytes_in += bytes as u64;
                }
                Read::Quiet => return Ok(Some(Arrived::Quiet)),
                Read::Closed => return Ok(Some(Arrived::Closed)),
            }
        }
        Ok(None)
    }

    fn make_room(&mut self, wanted: usize) {
        if self.start == self.end && self.input.len() > LARGE_BYTES && wanted <= BUFFER_BYTES {
            self.input = Vec::new();
            (self.start, self.end) = (0, 0);
        }
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.input.len() {
            let grown = (2 * self.input.len()).clamp(BUFFER_BYTES, wanted.max(BUFFER_BYTES));
            self.input.resize(grown, 0);
        }
    }

    fn read(&mut self) -> Result<Read, StreamError> {
        let room = &mut self.input[self.end..];
        let Some(tls) = &mut self.tls else { return Ok(self.socket.read(room)?) };
        loop {
            match tls.reader().read(room) {
                Ok(0) => return Ok(Read::Closed),
                Ok(bytes) => return Ok(Read::Bytes(bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Read::Closed),
                Err(error) => return Err(error.into()),
            }
            match tls.read_tls(&mut Raw(&self.socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Read::Quiet),
                Err(error) => return Err(error.into()),
            }
            let processed = tls.process_new_packets();
            // Also what went wrong is to be told to the client, in an alert.
            write_tls(tls, &self.socket, &mut || ())?;
            processed?;
        }
    }

    /// Sends what has gathered.
    pub fn send(&mut self) -> Result<(), StreamError> {
        self.send_all(&mut || ())
    }

    fn send_all(&mut self, waits: &mut dyn FnMut()) -> Result<(), StreamError> {
        if self.output.is_empty() {
            debug_assert!(self.beside.is_empty(), "a value is part of a message");
            return Ok(());
        }
        let bytes = self.waiting();
        self.bytes_out += bytes;
        self.sent += bytes;
        let (socket, tls) = (&self.socket, &mut self.tls);
        let mut write = |bytes: &[u8]| write_all(socket, tls, bytes, waits);
        let mut from = 0;
        for (at, value) in self.beside.drain(..) {
            write(&self.output[from..at])?;
            from = at;
            value.write(&mut write)?;
        }
        write(&self.output[from..])?;
        self.output.clear();
        if self.output.capacity() > 2 * SEND_BYTES {
            self.output.shrink_to(SEND_BYTES);
        }
        Ok(())
    }

    /// Sends what has gathered if it is much; `waits` is told each time that the client takes nothing.
    #[inline]
    pub fn send_if_large(&mut self, waits: &mut dyn FnMut()) -> Result<(), StreamError> {
        let is_much = self.output.len() >= SEND_BYTES || !self.beside.is_empty();
        if is_much { self.send_all(waits) } else { Ok(()) }
    }

    /// Gives buffers back before a long wait.
    pub fn rest(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.input = Vec::new();
        }
        if self.output.is_empty() {
            self.output = Vec::new();
        }
    }

    /// Tells the client that nothing more comes, and closes.
    pub fn finish(&mut self) {
        let _ = self.send();
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = write_tls(tls, &self.socket, &mut || ());
        }
        self.socket.close(std::net::Shutdown::Both);
    }
}

/// Sends bytes, encrypted or not.
fn write_all(
    socket: &Socket,
    tls: &mut Option<Box<ServerConnection>>,
    bytes: &[u8],
    waits: &mut dyn FnMut(),
) -> Result<(), StreamError> {
    let Some(tls) = tls else { return Ok(socket.write_all(bytes, waits)?) };
    let mut rest = bytes;
    while !rest.is_empty() {
        let taken = tls.writer().write(rest)?;
        rest = &rest[taken..];
        write_tls(tls, socket, waits)?;
    }
    Ok(())
}

/// Sends what TLS has to send.
fn write_tls(tls: &mut ServerConnection, socket: &Socket, waits: &mut dyn FnMut()) -> io::Result<()> {
    while tls.wants_write() {
        socket.write(waits, |mut writer| tls.write_tls(&mut writer))?;
    }
    Ok(())
}

/// The socket as rustls wants to read it.
struct Raw<'a>(&'a Socket);

impl io::Read for Raw<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            Read::Bytes(bytes) => Ok(bytes),
            Read::Closed => Ok(0),
            Read::Quiet => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_taken_back_is_not_sent_and_the_rest_is_in_order() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        let mut stream = Stream::new(Arc::new(Socket::Local(ours)));
        let row = |stream: &mut Stream, short: &str, long: &str| {
            stream.output.extend_from_slice(short.as_bytes());
            stream.beside.push((stream.output.len(), Beside::Text(long.into())));
        };
        row(&mut stream, "a", "bcd");
        stream.output.extend_from_slice(b"e");
        let second = stream.position();
        assert_eq!(second, 5);
        row(&mut stream, "f", "gh");
        let third = stream.position();
        row(&mut stream, "i", "jklm");
        assert_eq!(stream.position(), third + 5);
        assert!(stream.take_back(third), "nothing of it was sent");
        assert_eq!(stream.position(), third);
        row(&mut stream, "n", "op");
        assert!(stream.take_back(second));
        assert_eq!(stream.position(), second);
        row(&mut stream, "q", "rs");
        stream.send().expect("somebody reads");
        assert_eq!(stream.position(), 8);
        assert!(!stream.take_back(second), "it was sent");
        stream.finish();
        let mut read = String::new();
        theirs.read_to_string(&mut read).expect("it was closed");
        assert_eq!(read, "abcdeqrs");
    }
}
