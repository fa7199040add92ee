//! Messages from clients: bytes in, borrowed views out.
//!
//! ```text
//!   first packet      i32 length, i32 code, body            length counts itself
//!   every later one   u8 kind, i32 length, body             length counts itself, not the kind
//! ```
//!
//! Invariants:
//! 1. Nothing here panics or allocates in proportion to a number that a client sent.
//! 2. A body is accepted only if it is used up exactly: what follows the last field is an error.
//! 3. Texts are checked to be UTF-8 here and nowhere else; those of clients whose encoding is another one
//!    have been converted before ([`recode`](super::recode)).
//!
//! Source: PostgreSQL's manual, chapter "Frontend/Backend Protocol", sections "Message Formats" and
//! "Message Flow". It does not read from a socket and knows no state: which message may come when is for
//! `connection`.

use liger_sql::encoding;
use liger_sql::session::{Formats, Parameters};

/// Why a message cannot be read. All are errors of the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Fewer bytes than its fields say.
    #[error("insufficient data left in message")]
    Short,
    /// More bytes than its fields need.
    #[error("invalid message format: {0} bytes left over")]
    LeftOver(usize),
    /// A text without its end.
    #[error("invalid string in message")]
    NoTerminator,
    /// Not UTF-8; which bytes are not.
    #[error("{0}")]
    NotUtf8(String),
    /// A format code that is neither 0 nor 1.
    #[error("unsupported format code: {0}")]
    FormatCode(i16),
    /// A number of things that cannot be.
    #[error("invalid count or length {0} in message")]
    Count(i32),
    /// Format codes that are neither none, nor one, nor one for each parameter.
    #[error("bind message has {formats} parameter formats but {parameters} parameters")]
    FormatCount {
        /// Codes sent.
        formats: usize,
        /// Parameters sent.
        parameters: usize,
    },
    /// A Describe or Close of something that is neither a statement nor a portal.
    #[error("invalid message subtype {0}")]
    Subtype(u8),
    /// A kind of message that does not exist.
    #[error("invalid frontend message type {0}")]
    Kind(u8),
}

/// What a Describe or Close is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A prepared statement of this name.
    Statement(&'a str),
    /// A portal of this name.
    Portal(&'a str),
}

/// Object ids of parameter types as they arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeOids<'a>(&'a [u8]);

impl TypeOids<'_> {
    /// The ids in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.chunks_exact(4).map(|oid| u32::from_be_bytes(oid.try_into().expect("chunks of four")))
    }
}

/// A message after the start-up.
#[derive(Clone, Copy, Debug)]
pub enum Frontend<'a> {
    /// `Q`: statements to run at once.
    Query(&'a str),
    /// `P`: a statement to prepare.
    Parse {
        /// Its name, empty for the unnamed one.
        name: &'a str,
        /// Its text.
        sql: &'a str,
        /// Types of its first parameters, 0 where not given.
        types: TypeOids<'a>,
    },
    /// `B`: parameters for a prepared statement.
    Bind {
        /// Name of the portal to make.
        portal: &'a str,
        /// Name of the statement.
        statement: &'a str,
        /// The parameters.
        parameters: Parameters<'a>,
        /// Formats of the results.
        result_formats: Formats<'a>,
    },
    /// `D`.
    Describe(Target<'a>),
    /// `E`: run a portal.
    Execute {
        /// Its name.
        portal: &'a str,
        /// How many rows at most; 0 for all.
        max_rows: u32,
    },
    /// `C`.
    Close(Target<'a>),
    /// `S`: the end of a series of extended messages.
    Sync,
    /// `H`: send what there is (the protocol's "flush").
    SendNow,
    /// `X`: good-bye.
    Terminate,
    /// `d`: bytes of a COPY.
    CopyData(&'a [u8]),
    /// `c`: the end of a COPY.
    CopyDone,
    /// `f`: the client gives a COPY up.
    CopyFail(&'a str),
    /// `p`: a password or a step of SASL.
    Password(&'a [u8]),
    /// `F`: a function call, which servers need not support.
    FunctionCall,
}

/// Largest body (bytes) that a message of this kind may have where the limit for texts and data is `large`.
/// `None` for a kind that does not exist.
pub fn body_limit(kind: u8, large: usize) -> Option<usize> {
    const SMALL: usize = 10_000;
    match kind {
        b'Q' | b'P' | b'B' | b'd' | b'F' => Some(large),
        b'D' | b'E' | b'C' | b'S' | b'H' | b'X' | b'c' | b'f' => Some(SMALL),
        b'p' => Some(65_535),
        _ => None,
    }
}

impl<'a> Frontend<'a> {
    /// Reads the body of a message of this kind.
    pub fn read(kind: u8, body: &'a [u8]) -> Result<Self, MessageError> {
        let mut fields = Fields(body);
        let message = match kind {
            b'Q' => Self::Query(fields.text()?),
            b'P' => Self::Parse { name: fields.text()?, sql: fields.text()?, types: fields.oids()? },
            b'B' => read_bind(&mut fields)?,
            b'D' => Self::Describe(fields.target()?),
            b'E' => {
                let (portal, max_rows) = (fields.text()?, fields.i32()?);
                Self::Execute { portal, max_rows: u32::try_from(max_rows).unwrap_or(0) }
            }
            b'C' => Self::Close(fields.target()?),
            b'S' => Self::Sync,
            b'H' => Self::SendNow,
            b'X' => Self::Terminate,
            b'd' => Self::CopyData(fields.rest()),
            b'c' => Self::CopyDone,
            b'f' => Self::CopyFail(fields.text()?),
            b'p' => Self::Password(fields.rest()),
            b'F' => {
                fields.rest();
                Self::FunctionCall
            }
            other => return Err(MessageError::Kind(other)),
        };
        fields.end()?;
        Ok(message)
    }
}

fn read_bind<'a>(fields: &mut Fields<'a>) -> Result<Frontend<'a>, MessageError> {
    let (portal, statement) = (fields.text()?, fields.text()?);
    let formats = fields.formats()?;
    let count = fields.count()?;
    if formats.len() > 1 && formats.len() != count {
        return Err(MessageError::FormatCount { formats: formats.len(), parameters: count });
    }
    let before = fields.0;
    for _ in 0..count {
        match fields.i32()? {
            -1 => {}
            length => drop(fields.take(usize::try_from(length).map_err(|_| MessageError::Count(length))?)?),
        }
    }
    let body = &before[..before.len() - fields.0.len()];
    let parameters = Parameters { formats, body, count };
    Ok(Frontend::Bind { portal, statement, parameters, result_formats: fields.formats()? })
}

/// The fields of a body that are still to be read.
#[derive(Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], MessageError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(MessageError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A big-endian `i32`.
    pub fn i32(&mut self) -> Result<i32, MessageError> {
        let bytes = self.take(4)?;
        Ok(i32::from_be_bytes(bytes.try_into().expect("four bytes")))
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// A text ended by a zero byte.
    pub fn text(&mut self) -> Result<&'a str, MessageError> {
        let text = self.raw_text()?;
        encoding::text(text).map_err(|error| MessageError::NotUtf8(error.message.clone()))
    }

    /// As [`Fields::text`], in whatever encoding it is.
    pub fn raw_text(&mut self) -> Result<&'a [u8], MessageError> {
        let end = self.0.iter().position(|&byte| byte == 0).ok_or(MessageError::NoTerminator)?;
        let text = self.take(end)?;
        self.take(1)?;
        Ok(text)
    }

    /// Checks that nothing is left.
    pub fn end(&self) -> Result<(), MessageError> {
        if self.0.is_empty() { Ok(()) } else { Err(MessageError::LeftOver(self.0.len())) }
    }

    /// A count of two bytes. PostgreSQL reads it as signed but since version 14 takes up to 65,535
    /// parameters.
    fn count(&mut self) -> Result<usize, MessageError> {
        let bytes = self.take(2)?;
        Ok(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    }

    fn formats(&mut self) -> Result<Formats<'a>, MessageError> {
        let count = self.count()?;
        let codes = self.take(2 * count)?;
        for code in codes.chunks_exact(2) {
            let code = i16::from_be_bytes([code[0], code[1]]);
            if !(0..=1).contains(&code) {
                return Err(MessageError::FormatCode(code));
            }
        }
        Ok(Formats(codes))
    }

    fn oids(&mut self) -> Result<TypeOids<'a>, MessageError> {
        let count = self.count()?;
        Ok(TypeOids(self.take(4 * count)?))
    }

    fn target(&mut self) -> Result<Target<'a>, MessageError> {
        match self.take(1)?[0] {
            b'S' => Ok(Target::Statement(self.text()?)),
            b'P' => Ok(Target::Portal(self.text()?)),
            other => Err(MessageError::Subtype(other)),
        }
    }
}

/// The first packet of a connection, or the one after an answered request for encryption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstPacket<'a> {
    /// The client asks for TLS.
    Tls,
    /// The client asks for GSSAPI encryption.
    Gss,
    /// The client of another connection wants its statement stopped.
    Cancel {
        /// What BackendKeyData named.
        process_id: i32,
        /// The secret that came with it.
        secret: &'a [u8],
    },
    /// A session is to start.
    Startup {
        /// Of the protocol: (major, minor).
        version: (u16, u16),
        /// Names and values, in their order.
        parameters: Vec<(&'a str, &'a str)>,
    },
}

/// Largest first packet, bytes: PostgreSQL's limit.
pub const FIRST_PACKET_BYTES_MAX: usize = 10_000;

impl<'a> FirstPacket<'a> {
    /// Reads a packet without its length.
    pub fn read(packet: &'a [u8]) -> Result<Self, MessageError> {
        let mut fields = Fields(packet);
        let first = match fields.i32()? {
            80_877_102 => {
                let process_id = fields.i32()?;
                let secret = fields.rest();
                if secret.is_empty() || secret.len() > 256 {
                    return Err(MessageError::Short);
                }
                Self::Cancel { process_id, secret }
            }
            80_877_103 => Self::Tls,
            80_877_104 => Self::Gss,
            version => {
                let version = version.cast_unsigned();
                let version = ((version >> 16) as u16, (version & 0xffff) as u16);
                let mut parameters = Vec::new();
                while version.0 == 3 && fields.0 != [0] {
                    parameters.push((fields.text()?, fields.text()?));
                }
                fields.rest();
                Self::Startup { version, parameters }
            }
        };
        fields.end()?;
        Ok(first)
    }
}
