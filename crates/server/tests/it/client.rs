//! A client that sends what it is told to, byte by byte, and keeps what it gets.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A message of the server: kind and body.
pub type Message = (u8, Vec<u8>);

/// The client.
pub struct Client<S = TcpStream> {
    pub stream: S,
    /// Of BackendKeyData.
    pub process_id: i32,
    /// Of BackendKeyData.
    pub secret: Vec<u8>,
}

/// A start-up packet.
pub fn startup(minor: u16, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = (3i32 << 16 | i32::from(minor)).to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
    }
    body.push(0);
    packet(&body)
}

/// A packet without a kind.
pub fn packet(body: &[u8]) -> Vec<u8> {
    [&(body.len() as i32 + 4).to_be_bytes(), body].concat()
}

/// A message.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &packet(body)[..]].concat()
}

/// A query.
pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &[sql.as_bytes(), b"\0"].concat())
}

/// A Parse without types.
pub fn parse(name: &str, sql: &str) -> Vec<u8> {
    message(b'P', &[name.as_bytes(), b"\0", sql.as_bytes(), b"\0\0\0"].concat())
}

/// A Bind of text parameters; results in one format.
pub fn bind(portal: &str, statement: &str, values: &[Option<&str>], format: u8) -> Vec<u8> {
    let mut body = [portal.as_bytes(), b"\0", statement.as_bytes(), b"\0\0\0"].concat();
    body.extend((values.len() as i16).to_be_bytes());
    for value in values {
        body.extend(value.map_or(-1, |value| value.len() as i32).to_be_bytes());
        body.extend(value.unwrap_or_default().as_bytes());
    }
    body.extend([0, 1, 0, format]);
    message(b'B', &body)
}

/// A Describe, Close or other message of a kind and a name.
pub fn named(kind: u8, target: u8, name: &str) -> Vec<u8> {
    message(kind, &[&[target], name.as_bytes(), b"\0"].concat())
}

/// An Execute.
pub fn execute(portal: &str, max_rows: i32) -> Vec<u8> {
    message(b'E', &[portal.as_bytes(), b"\0", &max_rows.to_be_bytes()].concat())
}

/// A Sync.
pub fn sync() -> Vec<u8> {
    message(b'S', b"")
}

/// The fields of an ErrorResponse.
pub fn field(error: &Message, code: char) -> Option<String> {
    let fields = error.1.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let found = fields.map(|field| field.into_owned()).find(|field| field.starts_with(code));
    found.map(|field| field[1..].to_string())
}

/// The kinds of messages as a text.
pub fn kinds(messages: &[Message]) -> String {
    messages.iter().map(|(kind, _)| char::from(*kind)).collect()
}

/// Connects to a socket; everything it waits for has to come within some seconds.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("settable");
    stream.set_nodelay(true).expect("settable");
    stream
}

/// The kinds of messages, and the state that the last one tells where it is ReadyForQuery.
pub fn shown(messages: &[Message]) -> String {
    let state = messages.last().filter(|(kind, _)| *kind == b'Z').map(|(_, body)| char::from(body[0]));
    format!("{}{}", kinds(messages), state.map_or(String::new(), String::from))
}

impl Client {
    /// A session of `trusty`.
    pub fn new(address: SocketAddr) -> Self {
        Self::login(address, "trusty", "open").unwrap_or_else(|error| panic!("refused: {error:?}"))
    }

    /// A session of somebody who needs no password, or the error.
    pub fn login(address: SocketAddr, user: &str, database: &str) -> Result<Self, Message> {
        let mut client = Client::over(connect(address));
        client.send(&startup(0, &[("user", user), ("database", database)]));
        match client.until_ready() {
            messages if messages.last().is_some_and(|(kind, _)| *kind == b'Z') => Ok(client),
            mut messages => Err(messages.pop().unwrap_or_default()),
        }
    }
}

impl<S: Read + Write> Client<S> {
    /// A client over a stream.
    pub fn over(stream: S) -> Self {
        Self { stream, process_id: 0, secret: Vec::new() }
    }

    /// Sends bytes. The server may have closed: what it said before can still be read.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
    }

    /// The next message, `None` at the end.
    pub fn next(&mut self) -> Option<Message> {
        let mut head = [0; 5];
        match self.stream.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("nothing came in time"),
            Err(_) => return None,
        }
        let length = i32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; length as usize - 4];
        self.stream.read_exact(&mut body).ok()?;
        if head[0] == b'K' {
            self.process_id = i32::from_be_bytes(body[..4].try_into().expect("four bytes"));
            self.secret = body[4..].to_vec();
        }
        Some((head[0], body))
    }

    /// All messages up to ReadyForQuery or the end.
    pub fn until_ready(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(message) = self.next() {
            let ready = message.0 == b'Z';
            messages.push(message);
            if ready {
                break;
            }
        }
        messages
    }

    /// The next message of a kind.
    pub fn until_told(&mut self, kind: u8) -> Message {
        loop {
            let message = self.next().expect("it comes before the end");
            if message.0 == kind {
                return message;
            }
        }
    }

    /// Sends, and waits for ReadyForQuery or the end.
    pub fn ask(&mut self, bytes: &[u8]) -> Vec<Message> {
        self.send(bytes);
        self.until_ready()
    }

    /// Runs a query: the kinds of the answers and the state in ReadyForQuery.
    pub fn run(&mut self, sql: &str) -> String {
        shown(&self.ask(&query(sql)))
    }
}
