//! What the rings of dead hosts hold that their logs may not: found and checked before it is shipped.
//!
//! Invariants:
//! 1. Nothing is taken for a record whose checksum, position, origin and epoch do not fit.
//! 2. What does not fit is an error that names the host, the ring and the place, and never passed over: every
//!    byte between head and tail is one of a whole record, because tails move by whole records and heads to
//!    tails.
//!
//! Not here: proof that the host is dead, and shipping (ship.rs).

use std::ops::RangeInclusive;

use liger_fabric::{Cx, Fabric, HostId, WorkerId};
use liger_pod::plan::Plan;

use super::record::{Extent, Record, epoch_of};
use super::ring::RingReader;

/// A ring that is not what its worker left.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "host {}, ring of worker {}, byte {position} of its stream (byte {byte:#x} of the memory): {why}",
    host.0, worker.0
)]
pub struct DamagedRing {
    /// Whose.
    pub host: HostId,
    /// Which worker's.
    pub worker: WorkerId,
    /// Where in the ring's stream.
    pub position: u64,
    /// Where in the pod's memory.
    pub byte: u64,
    /// What is wrong.
    pub why: String,
}

/// What a ring holds between its head and its tail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rest {
    /// Records.
    pub records: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// Bytes between head and tail; none if these make no sense.
pub fn unshipped<F: Fabric>(cx: &Cx<F>, plan: &Plan, host: HostId, worker: WorkerId) -> u64 {
    let ring = RingReader::new(plan, host, worker);
    let (head, tail, _) = ring.words(cx);
    tail.checked_sub(head).filter(|bytes| *bytes <= ring.ring_bytes()).unwrap_or(0)
}

/// Checks a ring of a memory in which no log was begun.
///
/// # Errors
/// If its words say that something was ever appended.
pub fn check_unused<F: Fabric>(
    cx: &Cx<F>,
    plan: &Plan,
    host: HostId,
    worker: WorkerId,
) -> Result<(), DamagedRing> {
    match RingReader::new(plan, host, worker).words(cx) {
        (0, 0, 0) => Ok(()),
        (head, tail, last) => {
            let why = format!("no log was begun, and its words are {head}, {tail} and {last}");
            let byte = plan.ring_line(host, worker).offset();
            Err(DamagedRing { host, worker, position: tail, byte, why })
        }
    }
}

/// Checks the ring of a worker of a dead host. `epochs`: of which its records can be. `logged`: where the
/// stream ends that the host's log holds, if it holds any of it.
///
/// # Errors
/// The first thing that cannot be what the worker left.
pub fn check<F: Fabric>(
    cx: &Cx<F>,
    plan: &Plan,
    (host, worker): (HostId, WorkerId),
    epochs: &RangeInclusive<u64>,
    logged: Option<u64>,
) -> Result<Rest, DamagedRing> {
    let ring = RingReader::new(plan, host, worker);
    let (bytes, len) = plan.ring_bytes(host, worker);
    let damaged = |position: u64, why: String| {
        let byte = bytes.byte(position & (len - 1)).offset();
        DamagedRing { host, worker, position, byte, why }
    };
    let (head, tail, last) = ring.words(cx);
    let in_line = |why: String| {
        let byte = plan.ring_line(host, worker).offset();
        Err(DamagedRing { host, worker, position: tail, byte, why })
    };
    if !head.is_multiple_of(8) || head > tail || tail - head > len {
        return in_line(format!("its words make no sense: head {head}, tail {tail}, {len} bytes"));
    }
    if last > ring.longest().min(tail) || (last == 0) != (tail == 0) {
        return in_line(format!("its tail makes no sense: a record of {last} bytes ends at {tail}"));
    }
    if let Some(logged) = logged.filter(|logged| !(head..=tail).contains(logged)) {
        let why = format!("the log holds its stream up to {logged}, and its head is {head}, its tail {tail}");
        return in_line(why);
    }
    // Its last record is there also when all were shipped.
    let from = head.min(tail - last);
    assert!(from <= head && tail - from <= len, "bytes {from} to {tail} are in a ring of {len}");
    let mut held = Vec::new();
    ring.read(cx, from, tail, &mut held);
    let read = |position: u64| {
        let record = Record::parse(&held[(position - from) as usize..]);
        let record = record.map_err(|bad| damaged(position, format!("no record: {bad}")))?;
        let (origin, epoch) = (record.origin(), epoch_of(record.llsn()));
        if record.position() != position || (origin.host, origin.worker) != (host, worker.0) {
            let why = format!("a record of {origin:?}, position {}", record.position());
            return Err(damaged(position, why));
        }
        if !epochs.contains(&epoch) && !matches!(record.extent(), Extent::Fragment { .. }) {
            return Err(damaged(position, format!("a record of epoch {epoch}, the pod had {epochs:?}")));
        }
        Ok(record.len() as u64)
    };
    if last > 0 && read(tail - last)? != last {
        return in_line(format!("its tail says that its last record has {last} bytes, and it has not"));
    }
    let (mut at, mut records) = (head, 0);
    while at < tail {
        at += read(at)?;
        records += 1;
    }
    assert_eq!(at, tail, "the last record ends where the tail is");
    assert_eq!(records > 0, tail > head, "{records} records in {} bytes", tail - head);
    Ok(Rest { records, bytes: tail - head })
}

#[cfg(test)]
mod tests {
    use liger_fabric::native::Native;
    use liger_pod::plan::{PartitionId, PodConfig};
    use liger_pod::testing::TestPod;

    use super::*;
    use crate::log::record::{Op, Origin, RecordWriter, first_of};
    use crate::log::ring::Ring;
    use crate::tables::key::Key;
    use crate::txn::TableId;

    const EPOCH: u64 = 9;
    const RING: (HostId, WorkerId) = (HostId(1), WorkerId(0));

    /// A ring with `records` records of different lengths, of which `shipped` have been shipped.
    fn ring(records: u64, shipped: u64) -> (TestPod, Vec<u64>) {
        let pod = TestPod::new(&PodConfig::small(2, 1));
        let cx = pod.cx(1, 0);
        let (mut ring, mut writer) = (Ring::new(&cx, &pod.plan, RING.1), RecordWriter::default());
        let origin = Origin { host: RING.0, incarnation: 1, worker: 0 };
        let mut ends = vec![0];
        for number in 0..records {
            writer.begin();
            writer.change(
                (TableId(0), PartitionId(0)),
                Op::Update,
                &Key::build().i32(number as i32).finish(),
                1,
            );
            writer.piece(0, &vec![7; 8 + 16 * (number % 3) as usize]);
            let appended = ring.append(&cx, &mut writer, first_of(EPOCH) + number, origin, |_| false);
            ends.push(appended.expect("there is room") + writer.len() as u64);
        }
        RingReader::new(&pod.plan, RING.0, RING.1).release(&cx, ends[shipped as usize]);
        (pod, ends)
    }

    fn look(pod: &TestPod, logged: Option<u64>) -> Result<Rest, DamagedRing> {
        check::<Native>(&pod.cx(0, 0), &pod.plan, RING, &(1..=EPOCH), logged)
    }

    #[test]
    fn what_was_not_shipped_is_counted() {
        let (pod, ends) = ring(7, 3);
        let rest = Rest { records: 4, bytes: ends[7] - ends[3] };
        for logged in [None, Some(ends[3]), Some(ends[7])] {
            assert_eq!(look(&pod, logged), Ok(rest));
        }
        assert_eq!(look(&ring(7, 7).0, None), Ok(Rest::default()));
        assert_eq!(look(&ring(0, 0).0, None), Ok(Rest::default()));
    }

    #[test]
    fn every_flipped_bit_is_found_and_named() {
        let (pod, ends) = ring(7, 3);
        let (cx, (bytes, _)) = (pod.cx(1, 0), pod.plan.ring_bytes(RING.0, RING.1));
        for at in ends[3]..ends[7] {
            let mut byte = [0];
            cx.read(bytes.byte(at), &mut byte);
            cx.write(bytes.byte(at), &[byte[0] ^ 1 << (at % 8)]);
            let damaged = look(&pod, None).expect_err("a byte has changed");
            assert_eq!((damaged.host, damaged.worker), RING, "{damaged}");
            assert!((ends[3]..=at).contains(&damaged.position), "{damaged}");
            cx.write(bytes.byte(at), &byte);
        }
        let line = pod.plan.ring_line(RING.0, RING.1);
        for (word, bit) in (0..2).flat_map(|word| (0..64).map(move |bit| (word, bit))) {
            let value = cx.load(line.word(word));
            cx.store(line.word(word), value ^ 1 << bit);
            match look(&pod, Some(ends[3])) {
                Err(damaged) => assert_eq!((damaged.host, damaged.worker), RING, "{damaged}"),
                // From an earlier record on: that is shipped again.
                Ok(rest) => assert!(word == 1 && rest.bytes > ends[7] - ends[3], "{rest:?}, bit {bit}"),
            }
            cx.store(line.word(word), value);
        }
        assert!(look(&pod, Some(ends[3])).is_ok());
        assert!(check::<Native>(&cx, &pod.plan, RING, &(1..=EPOCH - 1), None).is_err(), "too new an epoch");
    }
}
