//! Messages of clients whose encoding is another one, as if it were UTF-8.
//!
//! Invariants:
//! 1. Where a message is malformed, what is left of it stays as it came: whoever reads it then finds out.
//! 2. A message without texts, or whose texts are the same in both encodings, is not copied.

use std::borrow::Cow;

use liger_sql::encoding::Encoding;
use liger_sql::error::SqlError;
use liger_sql::session::{Format, Formats};

use super::frontend::{Fields, MessageError};

/// Why it cannot be told in UTF-8.
enum Stop {
    Malformed,
    Told(SqlError),
}

impl From<MessageError> for Stop {
    fn from(_: MessageError) -> Self {
        Self::Malformed
    }
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Self {
        Self::Told(error)
    }
}

/// The body of a message of this kind with its texts in UTF-8. Binary parameters and the bytes of a COPY stay
/// as they are.
///
/// # Errors
/// 22021 and 22P05, as of [`Encoding::read`].
pub fn to_utf8<'b>(kind: u8, body: &'b [u8], from: &Encoding) -> Result<Cow<'b, [u8]>, SqlError> {
    if body.is_ascii() || !matches!(kind, b'Q' | b'P' | b'B' | b'D' | b'E' | b'C' | b'f') {
        return Ok(Cow::Borrowed(body));
    }
    let mut recoding = Recoding { from, fields: Fields(body), made: Vec::with_capacity(body.len() * 3 / 2) };
    match recoding.message(kind) {
        Err(Stop::Told(error)) => return Err(error),
        Ok(()) | Err(Stop::Malformed) => recoding.made.extend_from_slice(recoding.fields.0),
    }
    Ok(Cow::Owned(recoding.made))
}

struct Recoding<'b> {
    from: &'b Encoding,
    /// What is left of the message.
    fields: Fields<'b>,
    made: Vec<u8>,
}

impl<'b> Recoding<'b> {
    fn message(&mut self, kind: u8) -> Result<(), Stop> {
        match kind {
            b'P' => self.text().and_then(|()| self.text()),
            b'B' => self.bind(),
            b'D' | b'C' => {
                self.keep(1)?;
                self.text()
            }
            _ => self.text(),
        }
    }

    fn keep(&mut self, count: usize) -> Result<&'b [u8], Stop> {
        let kept = self.fields.take(count)?;
        self.made.extend_from_slice(kept);
        Ok(kept)
    }

    fn text(&mut self) -> Result<(), Stop> {
        let mut ahead = Fields(self.fields.0);
        let text = self.from.read(ahead.raw_text()?)?;
        self.made.extend_from_slice(text.as_bytes());
        self.made.push(0);
        self.fields = ahead;
        Ok(())
    }

    fn count(&mut self) -> Result<usize, Stop> {
        let bytes = self.keep(2)?;
        Ok(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    }

    fn bind(&mut self) -> Result<(), Stop> {
        self.text()?;
        self.text()?;
        let codes = 2 * self.count()?;
        let codes = self.keep(codes)?;
        for at in 0..self.count()? {
            let mut ahead = Fields(self.fields.0);
            let length = ahead.i32()?;
            let Ok(length) = usize::try_from(length) else {
                self.keep(4)?;
                continue;
            };
            let value = ahead.take(length)?;
            if Formats(codes).of(at) == Format::Text {
                let text = self.from.read(value)?;
                let length = i32::try_from(text.len()).map_err(|_| Stop::Malformed)?;
                self.made.extend_from_slice(&length.to_be_bytes());
                self.made.extend_from_slice(text.as_bytes());
                self.fields = ahead;
            } else {
                self.keep(4 + length)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use liger_sql::encoding::named;

    use super::*;

    fn recoded(kind: u8, body: &[u8]) -> Vec<u8> {
        to_utf8(kind, body, named("latin1").expect("known")).expect("all are characters").into_owned()
    }

    #[test]
    fn texts_are_recoded_and_nothing_else() {
        assert_eq!(recoded(b'Q', b"a\xe9\0"), b"a\xc3\xa9\0");
        assert_eq!(recoded(b'P', b"\xe9\0\xe8\0\0\0"), b"\xc3\xa9\0\xc3\xa8\0\0\0");
        assert_eq!(recoded(b'D', b"S\xe9\0"), b"S\xc3\xa9\0");
        assert_eq!(recoded(b'd', b"\xe9"), b"\xe9");
        // One text, one binary, one NULL; a result in binary.
        let head = b"\0\0\0\x03\0\0\0\x01\0\0\0\x03";
        let tail = b"\0\0\0\x01\xe9\xff\xff\xff\xff\0\x01\0\x01";
        let body = [&b"\xe9"[..], head, b"\0\0\0\x01\xe9", tail].concat();
        let made = [&b"\xc3\xa9"[..], head, b"\0\0\0\x02\xc3\xa9", tail].concat();
        assert_eq!(recoded(b'B', &body), made);
    }

    #[test]
    fn what_is_malformed_stays_so() {
        for body in [&b"\xe9"[..], b"\xe9\0\xe9", b"\xe9\0\0\0\x01", b"\xe9\0\0\0\0\0\x01\0\0\0\x09\xe9"] {
            for kind in [b'Q', b'P', b'B', b'D', b'E', b'C'] {
                let made = recoded(kind, body);
                assert!(super::super::frontend::Frontend::read(kind, &made).is_err(), "{kind} {body:x?}");
            }
        }
    }
}
