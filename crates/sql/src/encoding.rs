//! Encodings of texts: their names and numbers, and bytes of one as those of another.
//!
//! Texts are UTF-8 everywhere else. Names, numbers and the tables of the encodings of one byte are
//! PostgreSQL 15's (`func/data/encodings.tsv`).
//!
//! Invariants:
//! 1. Bytes that are converted are valid in their encoding (22021), each character has an equivalent (22P05):
//!    nothing is left out or replaced.
//!
//! Not here: characters of several bytes other than UTF-8's, and conversions between two encodings of which
//! neither is UTF-8 (0A000).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::error::{Result, SqlError, SqlState};
use crate::func::bad_bytes;

const SQL_ASCII: i32 = 0;
const UTF8: i32 = 6;

static ALL: LazyLock<Vec<Encoding>> =
    LazyLock::new(|| include_str!("func/data/encodings.tsv").lines().map(read).collect());

/// An encoding.
pub(crate) struct Encoding {
    /// PostgreSQL's number of it.
    pub(crate) number: i32,
    /// As it is shown.
    pub(crate) name: &'static str,
    /// Bytes of a character, at most.
    pub(crate) bytes_max: i32,
    /// What it is called besides, in small letters and digits.
    aliases: Vec<&'static str>,
    table: Option<Table>,
}

/// The upper half of an encoding of one byte.
struct Table {
    chars: Vec<Option<char>>,
    bytes: BTreeMap<char, u8>,
}

fn read(line: &'static str) -> Encoding {
    let fields: Vec<&str> = line.split('\t').collect();
    let char_of = |code: &str| u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
    let table = (!fields[4].is_empty()).then(|| {
        let chars: Vec<Option<char>> = fields[4].split(' ').map(char_of).collect();
        let bytes = chars.iter().zip(128..=255).filter_map(|(c, byte)| Some(((*c)?, byte))).collect();
        Table { chars, bytes }
    });
    Encoding {
        number: fields[0].parse().expect("a number"),
        name: fields[1],
        bytes_max: fields[2].parse().expect("a number"),
        aliases: fields[3].split(' ').collect(),
        table,
    }
}

/// The encoding with this name; punctuation and capitals mean nothing.
pub(crate) fn named(name: &str) -> Option<&'static Encoding> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_ascii_lowercase();
    ALL.iter().find(|encoding| encoding.aliases.contains(&&*plain))
}

/// The encoding with this number.
pub(crate) fn numbered(number: i32) -> Option<&'static Encoding> {
    ALL.iter().find(|encoding| encoding.number == number)
}

/// UTF-8.
pub(crate) fn utf8() -> &'static Encoding {
    numbered(UTF8).expect("it is in the list")
}

fn shown(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("0x{byte:02x}")).collect::<Vec<_>>().join(" ")
}

fn no_equivalent(bytes: &[u8], from: &Encoding, to: &Encoding) -> SqlError {
    let (bytes, from, to) = (shown(bytes), from.name, to.name);
    let message = format!(
        "character with byte sequence {bytes} in encoding \"{from}\" has no equivalent in encoding \"{to}\""
    );
    SqlError::new(SqlState::UNTRANSLATABLE_CHARACTER, message)
}

impl Encoding {
    /// 22021 if bytes are none of this encoding.
    fn verify(&self, bytes: &[u8]) -> Result<()> {
        if self.number == UTF8 {
            return text(bytes).map(drop);
        }
        match bytes.contains(&0) {
            true => {
                let message = format!("invalid byte sequence for encoding \"{}\": 0x00", self.name);
                Err(SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message))
            }
            false => Ok(()),
        }
    }

    fn table(&self) -> Result<&Table> {
        let hint = "Convert the bytes in the client, and send UTF8.";
        let unsupported =
            || SqlError::unsupported(format_args!("conversion of encoding {}", self.name), hint);
        self.table.as_ref().ok_or_else(unsupported)
    }

    fn decode(&self, bytes: &[u8]) -> Result<String> {
        let table = self.table()?;
        let char_of = |byte: &u8| match byte {
            0..128 => Ok(char::from(*byte)),
            _ => table.chars[usize::from(*byte - 128)].ok_or_else(|| no_equivalent(&[*byte], self, utf8())),
        };
        bytes.iter().map(char_of).collect()
    }

    fn encode(&self, text: &str) -> Result<Vec<u8>> {
        let table = self.table()?;
        let byte_of = |c: char| match u8::try_from(c) {
            Ok(byte) if byte < 128 => Ok(byte),
            _ => table.bytes.get(&c).copied().ok_or_else(|| {
                let mut bytes = [0; 4];
                no_equivalent(c.encode_utf8(&mut bytes).as_bytes(), utf8(), self)
            }),
        };
        text.chars().map(byte_of).collect()
    }
}

/// Bytes as a text.
///
/// # Errors
/// 22021 if they are not UTF-8, or have a zero.
pub(crate) fn text(bytes: &[u8]) -> Result<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        Ok(_) => Err(bad_bytes(&[0])),
        Err(error) => Err(bad_bytes(&bytes[error.valid_up_to()..])),
    }
}

/// Bytes of an encoding as those of another. Bytes of SQL_ASCII are whatever the other one takes.
///
/// # Errors
/// 22021 for bytes that are none of their encoding, 22P05 for a character that the other one lacks, 42883 and
/// 0A000 for encodings between which nothing is converted.
pub(crate) fn convert<'b>(bytes: &'b [u8], from: &Encoding, to: &Encoding) -> Result<Cow<'b, [u8]>> {
    from.verify(bytes)?;
    Ok(match (from.number, to.number) {
        (a, b) if a == b => Cow::Borrowed(bytes),
        (_, SQL_ASCII) => Cow::Borrowed(bytes),
        (SQL_ASCII, _) => {
            to.verify(bytes)?;
            Cow::Borrowed(bytes)
        }
        (UTF8, _) => Cow::Owned(to.encode(text(bytes)?)?),
        (_, UTF8) => Cow::Owned(from.decode(bytes)?.into_bytes()),
        _ => {
            let what = format_args!("conversion of encoding {} to {}", from.name, to.name);
            return Err(SqlError::unsupported(what, "Convert to UTF8 and from there."));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        for encoding in ALL.iter() {
            let Some(table) = &encoding.table else { continue };
            assert_eq!(table.chars.len(), 128, "{}", encoding.name);
            for byte in 1..=255u8 {
                let one = [byte];
                let Ok(bytes) = convert(&one, encoding, utf8()) else { continue };
                let back = convert(&bytes, utf8(), encoding).expect("it has an equivalent");
                assert_eq!(*back, [byte], "{}", encoding.name);
            }
        }
    }
}
