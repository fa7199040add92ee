//! Addresses of hosts and networks: inet and cidr.
//!
//! A value is bytes that sort as addresses do: by family, then by the network, then by the length of its
//! mask, then by the whole address. They are 4 or 6, the address without what is right of the mask, the
//! length of the mask, and the address.

use std::net::Ipv6Addr;

use super::{Oid, oid};
use crate::error::{Result, SqlError, SqlState};

/// An address with the length of its mask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inet {
    /// IPv6, else IPv4.
    pub is_v6: bool,
    /// Bits of the mask.
    pub bits: u8,
    /// The address, in its last 128 or 32 bits.
    pub address: u128,
}

impl Inet {
    /// Bits of an address.
    pub const fn width(self) -> u8 {
        if self.is_v6 { 128 } else { 32 }
    }

    /// 4 or 6.
    pub const fn family(self) -> u8 {
        if self.is_v6 { 6 } else { 4 }
    }

    /// The bits of an address that are right of the mask.
    pub const fn host_mask(self) -> u128 {
        let host = self.width() - self.bits;
        if host == 128 { u128::MAX } else { (1 << host) - 1 }
    }

    /// Without what is right of the mask.
    pub const fn network(self) -> Inet {
        Inet { address: self.address & !self.host_mask(), ..self }
    }

    /// The bytes of a value.
    pub fn to_bytes(self) -> Vec<u8> {
        let width = usize::from(self.width() / 8);
        let part = |address: u128| address.to_be_bytes()[16 - width..].to_vec();
        let (network, address) = (part(self.network().address), part(self.address));
        [&[self.family()], &network[..], &[self.bits], &address[..]].concat()
    }

    /// The address in the bytes of a value.
    ///
    /// # Panics
    /// If they are of no value.
    pub fn of(bytes: &[u8]) -> Inet {
        let width = (bytes.len() - 2) / 2;
        let address = bytes[width + 2..].iter().fold(0, |address, byte| address << 8 | u128::from(*byte));
        Inet { is_v6: bytes[0] == 6, bits: bytes[width + 1], address }
    }

    /// The bytes of the address itself.
    fn octets(self) -> Vec<u8> {
        self.address.to_be_bytes()[16 - usize::from(self.width() / 8)..].to_vec()
    }
}

/// Reads an address of type inet or cidr.
///
/// # Errors
/// 22P02: it is none, or a cidr has bits right of its mask.
pub fn parse(ty: Oid, text: &str) -> Result<Inet> {
    let is_cidr = ty == oid::CIDR;
    let read = if text.contains(':') { read_v6(text) } else { read_v4(text, is_cidr) };
    let refused = |message| SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message);
    let name = if is_cidr { "cidr" } else { "inet" };
    let found = read.ok_or_else(|| refused(format!("invalid input syntax for type {name}: \"{text}\"")))?;
    if is_cidr && found != found.network() {
        let error = refused(format!("invalid cidr value: \"{text}\""));
        return Err(error.detail("Value has bits set to right of mask."));
    }
    Ok(found)
}

/// The length of a mask behind a slash.
fn mask(text: &str, most: u8) -> Option<u8> {
    let digits = !text.is_empty() && text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    let bits: u16 = if digits { text.parse().ok()? } else { return None };
    u8::try_from(bits).ok().filter(|bits| *bits <= most)
}

fn read_v4(text: &str, is_cidr: bool) -> Option<Inet> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(mask(bits, 32)?)),
        None => (text, None),
    };
    let octet = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if digits { part.parse::<u8>().ok() } else { None }
    };
    let octets = address.split('.').map(octet).collect::<Option<Vec<u8>>>().filter(|all| all.len() <= 4)?;
    let given = octets.len() as u8 * 8;
    let bits = match (bits, is_cidr) {
        (Some(bits), false) if bits / 8 > octets.len() as u8 => return None,
        (Some(bits), _) => bits,
        (None, false) if given == 32 => 32,
        (None, false) => return None,
        // By the classes that networks once had.
        (None, true) => {
            let class = match octets[0] {
                240.. => 32,
                224.. => 8,
                192.. => 24,
                128.. => 16,
                _ => 8,
            };
            let bits = given.max(class);
            if bits == 8 && octets[0] == 224 { 4 } else { bits }
        }
    };
    let shifted = |(i, octet): (usize, &u8)| u128::from(*octet) << (24 - 8 * i);
    let address = octets.iter().enumerate().map(shifted).sum();
    Some(Inet { is_v6: false, bits, address })
}

fn read_v6(text: &str) -> Option<Inet> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, mask(bits, 128)?),
        None => (text, 128),
    };
    let address = u128::from(address.parse::<Ipv6Addr>().ok()?);
    Some(Inet { is_v6: true, bits, address })
}

/// Appends an address: a cidr with its mask, an inet with one that is not of a single host.
pub fn write(ty: Oid, inet: Inet, to: &mut String) {
    to.push_str(&host(inet));
    if ty == oid::CIDR || inet.bits != inet.width() {
        to.push_str(&format!("/{}", inet.bits));
    }
}

/// The address without its mask.
pub fn host(inet: Inet) -> String {
    if !inet.is_v6 {
        return inet.octets().iter().map(u8::to_string).collect::<Vec<_>>().join(".");
    }
    let words = words(inet);
    let (start, length) = zeros(&words);
    let holds_v4 =
        start == 0 && (length == 6 || length == 7 && words[7] != 1 || length == 5 && words[5] == 0xffff);
    let mut text = String::new();
    for (i, word) in words.iter().enumerate() {
        if length > 1 && (start..start + length).contains(&i) {
            if i == start {
                text.push(':');
            }
            continue;
        }
        if i > 0 {
            text.push(':');
        }
        if i == 6 && holds_v4 && length > 1 {
            let octets = inet.octets();
            text += &octets[12..].iter().map(u8::to_string).collect::<Vec<_>>().join(".");
            return text;
        }
        text += &format!("{word:x}");
    }
    if length > 1 && start + length == words.len() {
        text.push(':');
    }
    text
}

fn words(inet: Inet) -> Vec<u16> {
    (0..8).rev().map(|i| (inet.address >> (16 * i)) as u16).collect()
}

/// The first of the longest runs of zeros: where it starts and its length.
fn zeros(words: &[u16]) -> (usize, usize) {
    let (mut best, mut run) = ((0, 0), 0);
    for (i, word) in words.iter().enumerate() {
        run = if *word == 0 { run + 1 } else { 0 };
        if run > best.1 {
            best = (i + 1 - run, run);
        }
    }
    best
}

/// A cidr as short as it can be: only what the mask covers.
pub fn abbreviated(cidr: Inet) -> String {
    let (bits, octets) = (cidr.bits, cidr.octets());
    if !cidr.is_v6 {
        let shown = octets[..usize::from(bits.div_ceil(8).max(1))].iter().map(u8::to_string);
        return format!("{}/{bits}", shown.collect::<Vec<_>>().join("."));
    }
    if bits == 0 {
        return "::/0".to_string();
    }
    let all = words(cidr.network());
    let count = usize::from(bits.div_ceil(16)).max(2);
    let words = &all[..count];
    let (start, length) = zeros(words);
    let holds_v4 = length != count
        && start == 0
        && (length == 6
            || length == 5 && all[5] == 0xffff
            || length == 7 && all[7] >> 8 != 0 && all[7] & 0xff != 1);
    let mut text = String::new();
    for (i, word) in words.iter().enumerate() {
        if length > 0 && (start..start + length).contains(&i) {
            text.push_str(if i == start { ":" } else { "" });
            text.push_str(if i == count - 1 { ":" } else { "" });
        } else if holds_v4 && i > 5 {
            text.push(if i == 6 { ':' } else { '.' });
            text += &(word >> 8).to_string();
            if i != 7 || bits > 120 {
                text += &format!(".{}", word & 0xff);
            }
        } else {
            text.push_str(if text.is_empty() { "" } else { ":" });
            text += &format!("{word:x}");
        }
    }
    format!("{text}/{bits}")
}

/// Appends the binary form: family, mask, whether it is a cidr, how many bytes, and these.
pub fn send(ty: Oid, inet: Inet, to: &mut Vec<u8>) {
    let octets = inet.octets();
    let family = if inet.is_v6 { 3 } else { 2 };
    to.extend([family, inet.bits, u8::from(ty == oid::CIDR), octets.len() as u8]);
    to.extend(octets);
}

/// The address of a binary form.
///
/// # Errors
/// 22P03: it is none.
pub fn received(ty: Oid, bytes: &[u8]) -> Result<Inet> {
    let name = if ty == oid::CIDR { "cidr" } else { "inet" };
    let refused = |what: &str| {
        let message = format!("{what} in external \"{name}\" value");
        Err(SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message))
    };
    let [family, bits, _, length, address @ ..] = bytes else { return refused("invalid length") };
    let is_v6 = match family {
        2 => false,
        3 => true,
        _ => return refused("invalid address family"),
    };
    let inet = Inet { is_v6, bits: *bits, address: 0 };
    if *bits > inet.width() {
        return refused("invalid bits");
    }
    if usize::from(inet.width() / 8) != address.len() || usize::from(*length) != address.len() {
        return refused("invalid length");
    }
    let address = address.iter().fold(0, |address, byte| address << 8 | u128::from(*byte));
    let inet = Inet { address, ..inet };
    if ty == oid::CIDR && inet != inet.network() {
        let message = "invalid external \"cidr\" value";
        let error = SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message);
        return Err(error.detail("Value has bits set to right of mask."));
    }
    Ok(inet)
}
