//! Encodings whose characters have several bytes: which bytes are a character, and which one.
//!
//! Characters are those of the crate `encoding_rs`, which has them as browsers read them. Where PostgreSQL 15
//! has others, `differences.tsv` says so: encoding, what it has instead or besides (`code=character`,
//! `code-code=first character`), how it writes characters other than by their code
//! (`character=code`), and codes that are no characters there. All numbers are hexadecimal.

use std::collections::BTreeMap;

use super::{Table, number_of};

/// Which bytes make a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Each by itself.
    OneByte,
    /// Two from a1 to fe.
    Euc,
    /// As `Euc`; 8e begins two, and 8f three.
    EucJp,
    /// Two, but for some of one byte.
    Sjis,
    /// Two, the second being anything.
    Pair,
    /// Two, or four.
    Gb18030,
}

/// The kind of an encoding with this name, if its characters are known here.
pub(super) fn kind(name: &str) -> Option<Kind> {
    Some(match name {
        "EUC_CN" | "EUC_KR" => Kind::Euc,
        "EUC_JP" => Kind::EucJp,
        "SJIS" => Kind::Sjis,
        "BIG5" | "GBK" | "UHC" => Kind::Pair,
        "GB18030" => Kind::Gb18030,
        _ => return None,
    })
}

/// Where the crate has the characters.
fn base(name: &str) -> &'static encoding_rs::Encoding {
    match name {
        "EUC_JP" => encoding_rs::EUC_JP,
        "SJIS" => encoding_rs::SHIFT_JIS,
        "BIG5" => encoding_rs::BIG5,
        "EUC_CN" | "GBK" => encoding_rs::GBK,
        "EUC_KR" | "UHC" => encoding_rs::EUC_KR,
        _ => encoding_rs::GB18030,
    }
}

fn is_euc(byte: u8) -> bool {
    (0xa1..=0xfe).contains(&byte)
}

impl Kind {
    /// How many bytes the first ones say that their character has.
    pub(super) fn announced(self, bytes: &[u8]) -> usize {
        match (self, bytes) {
            (Self::OneByte, _) | (_, [] | [0..128, ..]) => 1,
            (Self::Sjis, [0xa1..=0xdf, ..]) => 1,
            (Self::EucJp, [0x8f, ..]) => 3,
            (Self::Gb18030, [_, b'0'..=b'9', ..]) => 4,
            _ => 2,
        }
    }

    /// How many bytes the first character has; `None`: they are none.
    pub(super) fn length(self, bytes: &[u8]) -> Option<usize> {
        let code = bytes.get(..self.announced(bytes))?;
        let is_whole = match (self, code) {
            (_, [byte]) => *byte != 0,
            (Self::EucJp, [0x8e, b]) => (0xa1..=0xdf).contains(b),
            (Self::EucJp, [0x8f, b, c]) => is_euc(*b) && is_euc(*c),
            (Self::Euc | Self::EucJp, [a, b]) => is_euc(*a) && is_euc(*b),
            (Self::Sjis, [a, b]) => {
                matches!(a, 0x81..=0x9f | 0xe0..=0xfc) && matches!(b, 0x40..=0x7e | 0x80..=0xfc)
            }
            // PostgreSQL keeps this one for what is never a character.
            (Self::Pair, [0x8d, 0x20]) => false,
            (Self::Pair, [_, b]) => *b != 0,
            (Self::Gb18030, [a, b]) => (0x81..=0xfe).contains(a) && matches!(b, 0x40..=0x7e | 0x80..=0xfe),
            (Self::Gb18030, [a, _, c, d]) => {
                (0x81..=0xfe).contains(a) && (0x81..=0xfe).contains(c) && d.is_ascii_digit()
            }
            _ => false,
        };
        is_whole.then_some(code.len())
    }
}

fn decoded(name: &str, code: &[u8]) -> Option<char> {
    let text = base(name).decode_without_bom_handling_and_without_replacement(code)?;
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

fn encoded(name: &str, c: char) -> Option<u32> {
    let mut bytes = [0; 4];
    let (code, _, is_replaced) = base(name).encode(c.encode_utf8(&mut bytes));
    (!is_replaced).then(|| number_of(&code))
}

/// The character of a code that no table has: of four bytes there are a million.
pub(super) fn computed_char(name: &str, code: &[u8]) -> Option<char> {
    if code.len() == 4 { decoded(name, code) } else { None }
}

/// The code of such a character.
pub(super) fn computed_code(name: &str, c: char) -> Option<u32> {
    if name == "GB18030" { encoded(name, c).filter(|code| *code > 0xff_ffff) } else { None }
}

fn hex(digits: &str) -> u32 {
    u32::from_str_radix(digits, 16).expect("a number")
}

/// First and last of a range.
fn range(text: &str) -> (u32, u32) {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    (hex(first), hex(last))
}

fn char_of(number: u32) -> char {
    char::from_u32(number).expect("a character")
}

/// The characters of an encoding that have at most three bytes, and others that the crate has otherwise.
pub(super) fn table(name: &str, kind: Kind) -> Table {
    let listed = include_str!("differences.tsv").lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let listed = listed.into_iter().find(|fields| fields[0] == name).expect("each has a line");
    let mut chars: BTreeMap<u32, char> = BTreeMap::new();
    let mut add = |code: &[u8]| {
        if kind.length(code) == Some(code.len())
            && let Some(c) = decoded(name, code)
        {
            chars.insert(number_of(code), c);
        }
    };
    for a in 128..=255u8 {
        add(&[a]);
        for b in 1..=255u8 {
            add(&[a, b]);
            add(&[0x8f, a, b]);
        }
    }
    for lacking in listed[3].split_ascii_whitespace() {
        let (first, last) = range(lacking);
        chars.retain(|code, _| !(first..=last).contains(code));
    }
    for had in listed[1].split_ascii_whitespace() {
        let (codes, c) = had.split_once('=').expect("codes and a character");
        let (first, last) = range(codes);
        chars.extend((first..=last).zip(hex(c)..).map(|(code, c)| (code, char_of(c))));
    }
    let mut made = Table::new(chars.iter().map(|(code, c)| (*code, *c)).collect());
    for (c, code) in &mut made.codes {
        // Of several codes for a character, the crate's.
        *code = encoded(name, *c).filter(|code| chars.get(code) == Some(c)).unwrap_or(*code);
    }
    let mut codes: BTreeMap<char, u32> = made.codes.into_iter().collect();
    for written in listed[2].split_ascii_whitespace() {
        let (c, code) = written.split_once('=').expect("a character and its code");
        codes.insert(char_of(hex(c)), hex(code));
    }
    made.codes = codes.into_iter().collect();
    made
}
