//! Writers of a log: who writes segments, and what each finds of the one before.

use crate::files::segment_name;
use liger_fabric::disk::Disk;
use liger_fabric::{Cx, Fabric, HostId};

use super::scan::{End, Scan, Scanner};
use super::segment::SegmentHead;
use super::state::LogFailure;

/// Who ships a host's rings: names of writers differ, so that bytes that are shipped again are known by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Writer {
    /// The host itself, in the incarnation of this number.
    Own(u16),
    /// Another host.
    Successor(HostId),
    /// Whoever starts a pod again whose hosts are all dead.
    Salvager,
}

/// Names of writers from here on are those of successors who close a dead host's log.
pub(super) const SUCCESSORS: u16 = liger_pod::membership::MAX_INCARNATION + 1;
/// And from here on those of salvagers.
const SALVAGERS: u16 = SUCCESSORS | SUCCESSORS >> 1;
const _: () = assert!(liger_pod::plan::MAX_HOSTS << 10 <= (SALVAGERS - SUCCESSORS) as usize);

impl Writer {
    /// Its name in the frames that it writes, from segment `first` on.
    pub(super) fn name(self, first: u32) -> u16 {
        let name = match self {
            Self::Own(incarnation) => incarnation,
            // Nothing counts the tries of successors, which a full disk may end in the middle, nor salvagers;
            // each starts a segment, and they are in order.
            Self::Successor(host) => SUCCESSORS | u16::from(host.0) << 10 | first as u16 & 0x3ff,
            Self::Salvager => SALVAGERS | first as u16 & !SALVAGERS,
        };
        assert_eq!(
            name < SUCCESSORS,
            matches!(self, Self::Own(_)),
            "{name:#x}: a host's own incarnations come first"
        );
        assert_eq!(name >= SALVAGERS, self == Self::Salvager, "{name:#x}: salvagers come last");
        name
    }
}

/// How many bytes count of the newest segment that has a head, and the last mark in it or before it. The
/// writer may have died before it could sync them, so that is done now: the next segment will say that
/// they are on storage. (Later ones may have died before their segments had heads.)
pub(super) fn secure_end<F: Fabric>(
    cx: &Cx<F>,
    disk: &Disk,
    (pod, host): (u64, HostId),
    numbers: &[u32],
) -> Result<(u64, u64), LogFailure> {
    assert!(numbers.is_sorted_by(|a, b| a < b), "segments in order: {numbers:?}");
    let mut newest = Vec::new();
    for &number in numbers.iter().rev() {
        let file = disk.open(cx, &segment_name(number))?;
        let mut bytes = vec![0; file.len(cx)? as usize];
        file.read_exact_at(cx, 0, &mut bytes)?;
        let has_head = SegmentHead::decode(&bytes).is_ok();
        newest.push((number, file, bytes));
        if has_head {
            break;
        }
    }
    let mut scanner = Scanner::new(pod, host);
    newest.iter().rev().for_each(|(number, _, bytes)| scanner.segment(*number, bytes, |_, _| ()));
    let Scan { end, counted, marks, .. } = scanner.finish();
    if let End::Damaged { at, why } = end {
        return Err(LogFailure::Damaged { file: segment_name(at.segment), byte: at.byte, why });
    }
    if let Some((_, file, bytes)) = newest.last() {
        assert!(counted <= bytes.len() as u64, "{counted} bytes of {} count", bytes.len());
        // Space that was taken ahead, and is not needed: there may be no other.
        let behind = bytes.get(counted as usize..).unwrap_or_default();
        if behind.iter().all(|byte| *byte == 0) {
            file.truncate(cx, counted)?;
        }
        if !cx.sabotaged("log.sync-last-incarnation") {
            file.sync(cx)?;
        }
    }
    Ok((counted, marks.last))
}
