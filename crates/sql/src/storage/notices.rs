//! Notifications on their way: rows that a transaction leaves for the hosts that listen.
//!
//! ```text
//! listening   row 512 of the catalog's state: bit h for host h, while a session of it listens to something
//! inbox       objects 6 (short) and 7 (long), in place h
//!     key     host u8 | number u64 | which of its transaction u32
//!     body    process id i32 | bytes of the channel u8, of the payload u16 | channel | payload
//! ```
//!
//! Invariants:
//! 1. A transaction puts its notifications as its last step, for every host that listens: so they are there
//!    if it has committed and only then, and nobody who listens misses them.
//! 2. The numbers of a host grow: what one session sends arrives in the order of its commits.
//! 3. Rows for a host are removed by the transaction in which that host reads them; those that nobody will
//!    read by a host that opens its catalog: its own, and those of hosts that are no members.
//! 4. Only worker 0 of a host changes its bit. It clears it in the transaction that empties the inbox.

use std::ops::ControlFlow;

use liger_engine::Key;

use super::access::Access;
use super::classes::{Classes, Home};
use super::codec;
use super::numbers::Numbers;
use super::parts;
use super::table::new_row;
use crate::error::Result;

/// Notifications that are read in one transaction, at most.
const BATCH: usize = 64;
const HEAD: usize = 7;

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Of the session that sends it.
    pub process_id: i32,
    /// At most 63 bytes.
    pub channel: String,
    /// Less than 8000 bytes.
    pub payload: String,
}

fn body(notice: &Notice) -> Vec<u8> {
    let mut body = notice.process_id.to_le_bytes().to_vec();
    body.push(notice.channel.len() as u8);
    body.extend_from_slice(&(notice.payload.len() as u16).to_le_bytes());
    body.extend_from_slice(notice.channel.as_bytes());
    body.extend_from_slice(notice.payload.as_bytes());
    body
}

fn read(body: &[u8]) -> Result<Notice> {
    let (head, rest) = body.split_at(HEAD);
    let process_id = i32::from_le_bytes(head[..4].try_into().expect("4 bytes"));
    let (channel, payload) = (usize::from(head[4]), usize::from(u16::from_le_bytes([head[5], head[6]])));
    let text = |bytes: Option<&[u8]>| codec::text(bytes.unwrap_or(&[0xff])).map(|text| text.to_string());
    let (channel, payload) = (text(rest.get(..channel))?, text(rest.get(channel..channel + payload))?);
    Ok(Notice { process_id, channel, payload })
}

/// Puts notifications for all hosts that listen; whether there is one.
///
/// # Errors
/// Conflicts, and those of the engine; so do all that follow.
pub fn put(tx: &mut dyn Access, classes: &Classes, numbers: &Numbers, notices: &[Notice]) -> Result<bool> {
    let listening = parts::listening(tx, classes)?;
    let hosts: Vec<u8> = (0..64).filter(|host| listening & (1 << host) != 0 && tx.is_member(*host)).collect();
    if hosts.is_empty() {
        return Ok(false);
    }
    let number = numbers.take();
    for (which, notice) in notices.iter().enumerate() {
        let body = body(notice);
        let home = parts::inbox(classes, body.len())?;
        for host in &hosts {
            let mut key = vec![*host];
            key.extend_from_slice(&number.to_be_bytes());
            key.extend_from_slice(&(which as u32).to_be_bytes());
            tx.insert(home.table, &new_row(&home, &home.key(place_of(tx, *host), &key), &body))?;
        }
    }
    Ok(true)
}

pub(super) fn place_of(tx: &dyn Access, host: u8) -> u16 {
    u16::from(host) % tx.places()
}

/// Says whether a session of this host listens to something.
///
/// # Errors
/// As [`put`].
pub fn set_listening(tx: &mut dyn Access, classes: &Classes, listens: bool) -> Result<()> {
    let (before, bit) = (parts::listening(tx, classes)?, 1u64 << tx.host());
    let now = if listens { before | bit } else { before & !bit };
    if now == before { Ok(()) } else { parts::set_listening(tx, classes, now) }
}

/// Rows of a host's inbox, the first ones of each kind, by key.
fn inbox(tx: &mut dyn Access, classes: &Classes, host: u8) -> Result<Vec<(Home, Key, Vec<u8>)>> {
    let mut found = Vec::new();
    for home in parts::inboxes(classes)? {
        let range = home.range_of_prefix(place_of(tx, host), &[host]);
        let mut count = 0;
        tx.scan(home.table, &range, &mut |key, row| {
            found.push((home, *key, row[home.size.body_at()..].to_vec()));
            count += 1;
            if count < BATCH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    // Behind the word that says whose rows they are, keys of both kinds are alike.
    let name = |key: &Key| key.words()[1..].to_vec();
    let mut order: Vec<(Vec<u64>, usize)> =
        found.iter().enumerate().map(|(at, one)| (name(&one.1), at)).collect();
    order.sort();
    order.truncate(BATCH);
    Ok(order.into_iter().map(|(_, at)| found[at].clone()).collect())
}

/// Takes the oldest notifications for this host out of its inbox, and whether that was all.
///
/// # Errors
/// As [`put`]; damage.
pub fn take(tx: &mut dyn Access, classes: &Classes) -> Result<(Vec<Notice>, bool)> {
    let own = tx.host();
    let rows = inbox(tx, classes, own)?;
    for (home, key, _) in &rows {
        tx.delete(home.table, key)?;
    }
    let notices = rows.iter().map(|(.., body)| read(body)).collect::<Result<Vec<_>>>()?;
    let is_all = notices.len() < BATCH;
    Ok((notices, is_all))
}

/// This host begins a life, in which nobody listens yet: removes what nobody will read.
///
/// # Errors
/// As [`put`].
pub fn forget(tx: &mut dyn Access, classes: &Classes) -> Result<()> {
    set_listening(tx, classes, false)?;
    for host in (0..16).filter(|host| *host == tx.host() || !tx.is_member(*host)).collect::<Vec<u8>>() {
        loop {
            let rows = inbox(tx, classes, host)?;
            for (home, key, _) in &rows {
                tx.delete(home.table, key)?;
            }
            if rows.len() < BATCH {
                break;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_its_notification() {
        for payload in ["", "\u{fc}", &"x".repeat(7999)] {
            let (channel, payload) = ("c".repeat(63), payload.to_string());
            let notice = Notice { process_id: -7, channel, payload };
            let mut bytes = body(&notice);
            bytes.resize(8192, 0);
            assert_eq!(read(&bytes).expect("it is whole"), notice);
        }
        assert!(read(&[0, 0, 0, 0, 9, 0, 0, b'x']).is_err());
    }
}
