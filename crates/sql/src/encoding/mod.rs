//! Encodings of texts: their names and numbers, and bytes of one as those of another.
//!
//! Texts are UTF-8 everywhere else. Names, numbers and the tables of the encodings of one byte are
//! PostgreSQL 15's (`func/data/encodings.tsv`); [`wide`] has those of several bytes.
//!
//! Invariants:
//! 1. Bytes that are converted are valid in their encoding (22021), each character has an equivalent (22P05):
//!    nothing is left out or replaced.
//! 2. Bytes below 128 are the same characters in all encodings, but for those that follow another byte of
//!    their character.
//! 3. What all codes mean, and how all characters of Unicode's first plane are written, is what PostgreSQL 15
//!    says: `sums.tsv` has a sum of each, made by `sums.sql`.
//!
//! Not here (0A000): EUC_TW, EUC_JIS_2004, SHIFT_JIS_2004, JOHAB and MULE_INTERNAL, and conversions between
//! two encodings of which neither is UTF-8.

mod client;
mod wide;

pub use client::ClientEncoding;

use std::borrow::Cow;
use std::sync::{LazyLock, OnceLock};

use crate::error::{Result, SqlError, SqlState};
use wide::Kind;

const SQL_ASCII: u8 = 0;
const UTF8: u8 = 6;

/// All of them; each stands at its number.
static ALL: LazyLock<Vec<Encoding>> =
    LazyLock::new(|| include_str!("../func/data/encodings.tsv").lines().map(read).collect());

/// An encoding.
#[derive(Debug)]
pub struct Encoding {
    /// PostgreSQL's number of it.
    pub(crate) number: u8,
    /// As it is shown.
    pub(crate) name: &'static str,
    /// Bytes of a character, at most.
    pub(crate) bytes_max: i32,
    /// What it is called besides, in small letters and digits.
    aliases: Vec<&'static str>,
    /// What the bytes from 128 on are in an encoding of one byte, as the list has it.
    upper: &'static str,
    kind: Option<Kind>,
    table: OnceLock<Table>,
}

impl PartialEq for Encoding {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Encoding {}

/// Codes that are not ASCII's, as numbers whose bytes are theirs.
#[derive(Debug)]
struct Table {
    /// By code.
    chars: Vec<(u32, char)>,
    /// By character.
    codes: Vec<(char, u32)>,
}

impl Table {
    /// Of codes and characters in the order of codes, where each character is written as its first code.
    fn new(chars: Vec<(u32, char)>) -> Table {
        let mut codes: Vec<(char, u32)> = chars.iter().map(|(code, c)| (*c, *code)).collect();
        codes.sort_unstable();
        codes.dedup_by_key(|(c, _)| *c);
        Table { chars, codes }
    }

    fn char_of(&self, code: u32) -> Option<char> {
        let at = self.chars.binary_search_by_key(&code, |(code, _)| *code).ok()?;
        Some(self.chars[at].1)
    }

    fn code_of(&self, c: char) -> Option<u32> {
        let at = self.codes.binary_search_by_key(&c, |(c, _)| *c).ok()?;
        Some(self.codes[at].1)
    }
}

fn read(line: &'static str) -> Encoding {
    let fields: Vec<&str> = line.split('\t').collect();
    let (name, upper) = (fields[1], fields[4]);
    Encoding {
        number: fields[0].parse().expect("a number"),
        name,
        bytes_max: fields[2].parse().expect("a number"),
        aliases: fields[3].split(' ').collect(),
        upper,
        kind: if upper.is_empty() { wide::kind(name) } else { Some(Kind::OneByte) },
        table: OnceLock::new(),
    }
}

/// The encoding with this name; punctuation and capitals mean nothing.
pub fn named(name: &str) -> Option<&'static Encoding> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_ascii_lowercase();
    ALL.iter().find(|encoding| encoding.aliases.contains(&&*plain))
}

/// The encoding with this number.
pub(crate) fn numbered(number: i32) -> Option<&'static Encoding> {
    ALL.get(usize::try_from(number).ok()?)
}

/// UTF-8.
pub fn utf8() -> &'static Encoding {
    &ALL[usize::from(UTF8)]
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

fn number_of(code: &[u8]) -> u32 {
    code.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

impl Encoding {
    /// Whether texts are themselves in it.
    pub fn is_utf8(&self) -> bool {
        self.number == UTF8
    }

    /// Whether texts become other bytes in it.
    pub(crate) fn is_foreign(&self) -> bool {
        !matches!(self.number, UTF8 | SQL_ASCII)
    }

    /// Whether anything is converted from it and to it.
    pub(crate) fn is_known(&self) -> bool {
        self.kind.is_some() || matches!(self.number, UTF8 | SQL_ASCII)
    }

    /// Bytes of this encoding as a text. Those of SQL_ASCII have to be UTF-8.
    ///
    /// # Errors
    /// 22021 for bytes that are none of the encoding, 22P05 for a code that is no character.
    pub fn read<'b>(&self, bytes: &'b [u8]) -> Result<Cow<'b, str>> {
        match self.number {
            UTF8 | SQL_ASCII => text(bytes).map(Cow::Borrowed),
            // The same in all encodings.
            _ if bytes.is_ascii() => text(bytes).map(Cow::Borrowed),
            _ => self.decode(bytes, true).map(|(text, _)| Cow::Owned(text)),
        }
    }

    /// As [`Encoding::read`], of bytes that may end within a character; and how many bytes were read.
    ///
    /// # Errors
    /// As of `read`.
    pub(crate) fn read_start(&self, bytes: &[u8]) -> Result<(String, usize)> {
        self.decode(bytes, false)
    }

    /// A text as bytes of this encoding. For SQL_ASCII it stays as it is.
    ///
    /// # Errors
    /// 22P05 for a character that the encoding lacks.
    pub fn write<'t>(&self, text: &'t str) -> Result<Cow<'t, [u8]>> {
        match self.number {
            UTF8 | SQL_ASCII => Ok(Cow::Borrowed(text.as_bytes())),
            _ if text.is_ascii() => Ok(Cow::Borrowed(text.as_bytes())),
            _ => self.encode(text).map(Cow::Owned),
        }
    }

    fn invalid(&self, bytes: &[u8]) -> SqlError {
        let message = format!("invalid byte sequence for encoding \"{}\": {}", self.name, shown(bytes));
        SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
    }

    /// 22021 if bytes are none of this encoding.
    fn verify(&self, bytes: &[u8]) -> Result<()> {
        match (self.number, self.kind) {
            (UTF8, _) => return text(bytes).map(drop),
            (SQL_ASCII, _) | (_, None) if !bytes.contains(&0) => return Ok(()),
            (_, None) => return Err(self.invalid(&[0])),
            _ => {}
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = &rest[self.length(rest)?..];
        }
        Ok(())
    }

    /// How many bytes the first character has.
    fn length(&self, bytes: &[u8]) -> Result<usize> {
        let kind = self.kind.unwrap_or(Kind::OneByte);
        let wrong = || self.invalid(&bytes[..kind.announced(bytes).min(bytes.len())]);
        kind.length(bytes).ok_or_else(wrong)
    }

    fn table(&self) -> Result<&Table> {
        let hint = "Convert the bytes in the client, and send UTF8.";
        let what = format_args!("conversion of encoding {}", self.name);
        let unsupported = || SqlError::unsupported(what, hint);
        let kind = self.kind.ok_or_else(unsupported)?;
        Ok(self.table.get_or_init(|| match kind {
            Kind::OneByte => {
                let char_of = |code: &str| u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
                let chars = self.upper.split(' ').map(char_of).zip(128..);
                Table::new(chars.filter_map(|(c, code)| Some((code, c?))).collect())
            }
            _ => wide::table(self.name, kind),
        }))
    }

    /// Bytes as a text, and how many: where they are not `whole` a last character may lack some of its.
    fn decode(&self, bytes: &[u8], whole: bool) -> Result<(String, usize)> {
        let table = self.table()?;
        let (mut made, mut rest) = (String::with_capacity(bytes.len()), bytes);
        while let Some(first) = rest.first() {
            if (1..128).contains(first) {
                made.push(char::from(*first));
                rest = &rest[1..];
                continue;
            }
            if !whole && self.kind.is_some_and(|kind| kind.announced(rest) > rest.len()) {
                break;
            }
            let (code, after) = rest.split_at(self.length(rest)?);
            let found = table.char_of(number_of(code)).or_else(|| wide::computed_char(self.name, code));
            made.push(found.ok_or_else(|| no_equivalent(code, self, utf8()))?);
            rest = after;
        }
        Ok((made, bytes.len() - rest.len()))
    }

    fn encode(&self, text: &str) -> Result<Vec<u8>> {
        let table = self.table()?;
        let mut made = Vec::with_capacity(text.len());
        for c in text.chars() {
            if c.is_ascii() {
                made.push(c as u8);
                continue;
            }
            let code = table.code_of(c).or_else(|| wide::computed_code(self.name, c));
            let code = code.ok_or_else(|| {
                let mut bytes = [0; 4];
                no_equivalent(c.encode_utf8(&mut bytes).as_bytes(), utf8(), self)
            })?;
            let bytes = code.to_be_bytes();
            made.extend_from_slice(&bytes[code.leading_zeros() as usize / 8..]);
        }
        Ok(made)
    }
}

/// Bytes as a text.
///
/// # Errors
/// 22021 if they are not UTF-8, or have a zero.
pub fn text(bytes: &[u8]) -> Result<&str> {
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
        (_, UTF8) => Cow::Owned(from.decode(bytes, true)?.0.into_bytes()),
        _ => {
            let what = format_args!("conversion of encoding {} to {}", from.name, to.name);
            return Err(SqlError::unsupported(what, "Convert to UTF8 and from there."));
        }
    })
}

/// What begins with these bytes is no text: as many are shown as the first one announces.
pub(crate) fn bad_bytes(bytes: &[u8]) -> SqlError {
    let announced = match bytes.first() {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => 1,
    };
    let shown: Vec<String> = bytes.iter().take(announced).map(|byte| format!("0x{byte:02x}")).collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
    SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use sha2::{Digest, Sha256};

    use super::*;

    /// What `sums.sql` sums up: bytes in hex, `-` for a code that is no character and `!` for none of the
    /// encoding.
    fn told(made: Result<Cow<'_, [u8]>>) -> String {
        match made {
            Ok(bytes) => hex(&bytes),
            Err(error) if error.state == SqlState::UNTRANSLATABLE_CHARACTER => "-".to_string(),
            Err(error) => {
                assert_eq!(error.state, SqlState::CHARACTER_NOT_IN_REPERTOIRE);
                "!".to_string()
            }
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().fold(String::new(), |mut made, byte| {
            write!(made, "{byte:02x}").expect("a string takes it");
            made
        })
    }

    fn codes(name: &str) -> Vec<Vec<u8>> {
        let mut codes: Vec<Vec<u8>> = (1..=255u8).map(|byte| vec![byte]).collect();
        let pairs = |from: u8| (from..=255).flat_map(|a| (1..=255u8).map(move |b| [a, b]));
        codes.extend(pairs(128).map(|pair| pair.to_vec()));
        if name == "EUC_JP" {
            codes.extend(pairs(128).filter(|[_, b]| *b >= 128).map(|[a, b]| vec![0x8f, a, b]));
        }
        if name == "GB18030" {
            for a in [129, 130, 131, 132, 143, 144, 227] {
                let ends = (48..=57).flat_map(|b| (129..=254u8).map(move |c| (b, c)));
                codes.extend(ends.flat_map(|(b, c)| (48..=57u8).map(move |d| vec![a, b, c, d])));
            }
        }
        codes.sort();
        codes
    }

    #[test]
    fn all_codes_and_characters_are_those_of_postgresql() {
        let lines: Vec<&str> = include_str!("sums.tsv").lines().collect();
        assert_eq!(lines.len(), ALL.iter().filter(|encoding| encoding.kind.is_some()).count());
        for line in lines {
            let fields: Vec<&str> = line.split('\t').collect();
            let encoding = named(fields[0]).expect("a name");
            let texts = codes(fields[0]);
            let texts =
                texts.iter().map(|code| format!("{} {}", hex(code), told(convert(code, encoding, utf8()))));
            let chars = (1..=0x11000).filter_map(char::from_u32).map(|c| {
                let text = c.to_string();
                format!("{:x} {}", u32::from(c), told(convert(text.as_bytes(), utf8(), encoding)))
            });
            let sum = |lines: Vec<String>| hex(&Sha256::digest(lines.join("\n")));
            assert_eq!(sum(texts.collect()), fields[1], "codes of {}", fields[0]);
            assert_eq!(sum(chars.collect()), fields[2], "characters in {}", fields[0]);
        }
    }

    #[test]
    fn where_bytes_are_cut_makes_no_difference() {
        for (name, whole) in [
            ("EUC_JP", "a\u{ff71}\u{4e02}\u{65e5}"),
            ("GB18030", "a\u{4e2d}\u{10000}\u{e9}"),
            ("SJIS", "\u{ff71}\u{8868}a"),
        ] {
            let encoding = named(name).expect("a name");
            let bytes = encoding.write(whole).expect("it has them").into_owned();
            for cut in 0..=bytes.len() {
                let (start, used) = encoding.read_start(&bytes[..cut]).expect("a start");
                let rest = encoding.read(&bytes[used..]).expect("a rest");
                assert_eq!(start + &rest, whole, "{name} {cut}");
            }
        }
    }
}
