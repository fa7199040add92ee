//! A small client: for the shell of `liger sql`, and for whatever else asks a pod for SQL without a driver.
//!
//! It speaks the simple protocol with values as text, logs in with a password or without, and encrypts where
//! the server can, without asking whose certificate it is (as PostgreSQL's clients do with `sslmode=require`
//! and `prefer`): it is for the machines of a pod, and for looking.
//!
//! Invariants:
//! 1. Every [`Client::query`] reads up to the server's ReadyForQuery, or the client is of no more use.
//! 2. The server proves that it knows the password, too (SCRAM), where it asks for one that way.

mod tls;

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::auth::scram::ClientExchange;

/// Bytes of one message at most.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// How long a server may take to answer the first packet.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The server does not keep to the protocol.
    #[error("the server said something unexpected: {0}")]
    Protocol(String),
    /// It refuses.
    #[error("{0}")]
    Refused(Box<Told>),
    /// A password is asked for, and there is none.
    #[error("the server asks for a password")]
    NoPassword,
    /// Encryption was demanded, and the server has none.
    #[error("the server does not encrypt")]
    NoTls,
}

/// An error or a notice of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// `ERROR`, `NOTICE`...
    pub severity: String,
    /// The SQLSTATE.
    pub state: String,
    /// What it is.
    pub message: String,
    /// More of it; may be empty.
    pub detail: String,
    /// What one may do; may be empty.
    pub hint: String,
    /// The character of the statement, from 1, where it is.
    pub position: Option<usize>,
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:  {}: {}", self.severity, self.state, self.message)
    }
}

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its name.
    pub name: String,
    /// Oid of its type.
    pub ty: u32,
}

/// What comes from a server.
#[derive(Debug)]
pub enum Event {
    /// The columns of the rows that follow.
    Columns(Vec<Head>),
    /// A row; NULL is `None`.
    Row(Vec<Option<String>>),
    /// A statement has ended, with this tag.
    Complete(String),
    /// The statement was empty.
    Empty,
    /// Something to be known.
    Notice(Told),
    /// The statement failed.
    Error(Told),
    /// It wants the bytes of a COPY: [`Taker::copy`] gives them.
    CopyIn,
    /// Bytes of a COPY.
    CopyOut(Vec<u8>),
}

/// Takes what comes, and gives the bytes of COPY FROM STDIN.
pub trait Taker {
    /// Takes the next event.
    fn take(&mut self, event: Event);

    /// The next bytes; `None`: there are no more.
    fn copy(&mut self) -> Option<Vec<u8>> {
        None
    }
}

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encrypt {
    /// If the server can.
    #[default]
    Prefer,
    /// Otherwise there is none.
    Require,
    /// Never.
    Never,
}

/// Where to log in, as whom.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// Name or address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// The role's password.
    pub password: Option<String>,
    /// Whether the connection is encrypted.
    pub encrypt: Encrypt,
}

trait Duplex: Read + Write {}
impl<T: Read + Write> Duplex for T {}

/// A session on a server.
pub struct Client {
    stream: BufReader<Box<dyn Duplex>>,
    out: Vec<u8>,
    /// `I`, `T` or `E`: in no transaction, in one, in a failed one.
    state: u8,
    version: String,
}

fn unexpected<T>(what: impl Into<String>) -> Result<T, ClientError> {
    Err(ClientError::Protocol(what.into()))
}

/// Cuts fields off a message.
struct Body<'b>(&'b [u8]);

impl<'b> Body<'b> {
    fn take(&mut self, bytes: usize) -> Result<&'b [u8], ClientError> {
        let Some((first, rest)) = self.0.split_at_checked(bytes) else {
            return unexpected("a message that is too short");
        };
        self.0 = rest;
        Ok(first)
    }

    fn u16(&mut self) -> Result<u16, ClientError> {
        self.take(2).map(|bytes| u16::from_be_bytes(bytes.try_into().expect("two")))
    }

    fn i32(&mut self) -> Result<i32, ClientError> {
        self.take(4).map(|bytes| i32::from_be_bytes(bytes.try_into().expect("four")))
    }

    fn text(&mut self) -> Result<String, ClientError> {
        let Some(end) = self.0.iter().position(|byte| *byte == 0) else {
            return unexpected("a text without an end");
        };
        let text = String::from_utf8_lossy(self.take(end)?).into_owned();
        self.take(1)?;
        Ok(text)
    }

    fn told(mut self) -> Result<Told, ClientError> {
        let mut told = Told::default();
        while let kind @ 1.. = self.take(1)?[0] {
            let text = self.text()?;
            match kind {
                b'S' => told.severity = text,
                b'C' => told.state = text,
                b'M' => told.message = text,
                b'D' => told.detail = text,
                b'H' => told.hint = text,
                b'P' => told.position = text.parse().ok(),
                _ => {}
            }
        }
        Ok(told)
    }

    fn columns(mut self) -> Result<Vec<Head>, ClientError> {
        let count = self.u16()?;
        let mut columns = Vec::new();
        for _ in 0..count {
            let name = self.text()?;
            self.take(6)?;
            let ty = self.i32()?.cast_unsigned();
            self.take(8)?;
            columns.push(Head { name, ty });
        }
        Ok(columns)
    }

    fn row(mut self) -> Result<Vec<Option<String>>, ClientError> {
        let count = self.u16()?;
        let mut row = Vec::new();
        for _ in 0..count {
            row.push(match usize::try_from(self.i32()?) {
                Ok(bytes) => Some(String::from_utf8_lossy(self.take(bytes)?).into_owned()),
                Err(_) => None,
            });
        }
        Ok(row)
    }
}

impl Client {
    /// Connects and logs in.
    pub fn connect(login: &Login) -> Result<Self, ClientError> {
        let mut socket = TcpStream::connect((login.host.as_str(), login.port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(CONNECT_WITHIN))?;
        let mut endpoint = None;
        let stream: Box<dyn Duplex> = match login.encrypt {
            Encrypt::Never => Box::new(socket.try_clone()?),
            _ => {
                socket.write_all(&[0, 0, 0, 8, 4, 210, 22, 47])?;
                let mut answer = [0];
                socket.read_exact(&mut answer)?;
                match (answer[0], login.encrypt) {
                    (b'S', _) => {
                        let (stream, binding) = tls::start(&login.host, socket.try_clone()?)?;
                        endpoint = binding;
                        stream
                    }
                    (_, Encrypt::Require) => return Err(ClientError::NoTls),
                    _ => Box::new(socket.try_clone()?),
                }
            }
        };
        let (out, version) = (Vec::new(), String::new());
        let mut client = Self { stream: BufReader::new(stream), out, state: b'I', version };
        client.log_in(login, endpoint.as_deref())?;
        socket.set_read_timeout(None)?;
        Ok(client)
    }

    /// Whether it is in a transaction (`T`), in a failed one (`E`), or in none (`I`).
    pub fn state(&self) -> char {
        self.state.into()
    }

    /// The server's version as it says it.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Runs a text, and hands over all that comes of it.
    pub fn query(&mut self, sql: &str, taker: &mut dyn Taker) -> Result<(), ClientError> {
        let mut text = sql.replace('\0', " ").into_bytes();
        text.push(0);
        self.put(b'Q', &text);
        self.send()?;
        loop {
            let (kind, body) = self.message()?;
            let body = Body(&body);
            match kind {
                b'T' => taker.take(Event::Columns(body.columns()?)),
                b'D' => taker.take(Event::Row(body.row()?)),
                b'C' => taker.take(Event::Complete({ body }.text()?)),
                b'I' => taker.take(Event::Empty),
                b'N' => taker.take(Event::Notice(body.told()?)),
                b'E' => taker.take(Event::Error(body.told()?)),
                b'G' => {
                    taker.take(Event::CopyIn);
                    while let Some(bytes) = taker.copy() {
                        self.put(b'd', &bytes);
                        self.send()?;
                    }
                    self.put(b'c', &[]);
                    self.send()?;
                }
                b'd' => taker.take(Event::CopyOut(body.0.to_vec())),
                b'S' => self.note(body)?,
                b'Z' => {
                    self.state = body.0.first().copied().unwrap_or(b'I');
                    return Ok(());
                }
                // Beginnings and ends of COPY TO, notifications.
                b'H' | b'c' | b'A' => {}
                kind => return unexpected(format!("message {:?}", char::from(kind))),
            }
        }
    }

    fn note(&mut self, mut body: Body<'_>) -> Result<(), ClientError> {
        if body.text()? == "server_version" {
            self.version = body.text()?;
        }
        Ok(())
    }

    fn put(&mut self, kind: u8, body: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        self.out.extend_from_slice(body);
    }

    fn send(&mut self) -> Result<(), ClientError> {
        let stream = self.stream.get_mut();
        stream.write_all(&self.out)?;
        stream.flush()?;
        self.out.clear();
        Ok(())
    }

    fn message(&mut self) -> Result<(u8, Vec<u8>), ClientError> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let bytes = (u32::from_be_bytes(length) as usize).wrapping_sub(4);
        if bytes > MESSAGE_BYTES_MAX {
            return unexpected(format!("a message of {bytes} bytes"));
        }
        let mut body = vec![0; bytes];
        self.stream.read_exact(&mut body)?;
        Ok((kind, body))
    }

    fn log_in(&mut self, login: &Login, endpoint: Option<&[u8]>) -> Result<(), ClientError> {
        let mut first = 196_608u32.to_be_bytes().to_vec();
        let settings =
            [("user", &login.user[..]), ("database", &login.database), ("application_name", "liger sql")];
        for (name, value) in settings {
            first.extend_from_slice(format!("{name}\0{value}\0").as_bytes());
        }
        first.push(0);
        self.out.extend_from_slice(&(first.len() as u32 + 4).to_be_bytes());
        self.out.extend_from_slice(&first);
        self.send()?;
        let mut exchange: Option<ClientExchange> = None;
        let password = || login.password.as_deref().ok_or(ClientError::NoPassword);
        loop {
            let (kind, body) = self.message()?;
            let mut body = Body(&body);
            match kind {
                b'E' => return Err(ClientError::Refused(Box::new(body.told()?))),
                b'S' => self.note(body)?,
                b'Z' => return Ok(()),
                b'N' | b'K' | b'v' => {}
                b'R' => match (body.i32()?, &mut exchange) {
                    (0, None) => {}
                    (0, Some(exchange)) if exchange.is_proved() => {}
                    (0, Some(_)) => return unexpected("it did not prove that it knows the password"),
                    (3, _) => self.put(b'p', format!("{}\0", password()?).as_bytes()),
                    (10, _) => {
                        let begun = ClientExchange::begin(password()?, endpoint);
                        let (mechanism, said) = (begun.mechanism(), begun.first());
                        let mut answer = format!("{mechanism}\0").into_bytes();
                        answer.extend_from_slice(&(said.len() as u32).to_be_bytes());
                        answer.extend_from_slice(said.as_bytes());
                        self.put(b'p', &answer);
                        exchange = Some(begun);
                    }
                    (11, Some(exchange)) => match exchange.answer(&String::from_utf8_lossy(body.0)) {
                        Ok(answer) => self.put(b'p', answer.as_bytes()),
                        Err(error) => return unexpected(error.to_string()),
                    },
                    (12, Some(exchange)) => exchange.check(&String::from_utf8_lossy(body.0)),
                    (other, _) => return unexpected(format!("authentication {other}")),
                },
                kind => return unexpected(format!("message {:?}", char::from(kind))),
            }
            if !self.out.is_empty() {
                self.send()?;
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.put(b'X', &[]);
        // It may be gone already.
        let _ = self.send();
    }
}
