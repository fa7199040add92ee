//! One worker's part of its host's log: room for a record, and then the record itself.
//!
//! 1. Whoever has no room is refused before anything is done; whoever has some can append.
//!
//! Not here: what else a commit does, and in which order (host/commit.rs).

use liger_fabric::{Cx, Fabric};

use super::HostLog;
use super::record::{Origin, RecordWriter};
use super::ring::{AppendError, Ring};
use super::room::Promise;

/// One worker's part of it.
#[derive(Debug)]
pub struct WorkerLog {
    pub(super) ring: Ring,
    pub(super) origin: Origin,
}

impl WorkerLog {
    /// Has room promised for the record in `record`, before anything is done that others could see.
    /// `shrinks`: the transaction leaves less than it found. `serve` is called while space is taken.
    ///
    /// # Errors
    /// If it can never fit into the ring, or nothing may be committed.
    pub fn promise<F: Fabric>(
        &self,
        cx: &Cx<F>,
        log: &HostLog,
        record: &RecordWriter,
        shrinks: bool,
        mut serve: impl FnMut(&Cx<F>),
    ) -> Result<Promise, AppendError> {
        let len = self.ring.check_length(record)?;
        loop {
            if let Some(refusal) = log.room.refusal(shrinks) {
                return Err(AppendError::Refused(refusal));
            }
            let promised = match cx.sabotaged("log.promise") {
                true => log.room.promise_down_to(i64::MIN, len),
                false => log.room.promise(len, shrinks),
            };
            if let Some(promise) = promised {
                return Ok(promise);
            }
            if let Some(refusal) = log.room.refusal(false) {
                // What is kept for those that leave less is in use.
                return Err(AppendError::Refused(refusal));
            }
            log.room.want(len);
            log.clock.want_room(cx);
            serve(cx);
            cx.pause();
        }
    }

    /// Appends the record in `record`, whose changes make version `llsn`, between
    /// [`LogClock::begin_commit`] and [`LogClock::end_commit`]; returns its position in the ring's stream.
    /// `serve` is called while there is no room.
    ///
    /// # Errors
    /// If there is no room in the ring and the log has ended. Nothing was appended then.
    pub fn append<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        log: &HostLog,
        record: &mut RecordWriter,
        promise: Promise,
        llsn: u64,
        mut serve: impl FnMut(&Cx<F>),
    ) -> Result<u64, AppendError> {
        debug_assert!(promise.covers(record.len() as u64), "{promise:?} for {} bytes", record.len());
        let appended = self.ring.append(cx, record, llsn, self.origin, |cx| {
            log.clock.want_room(cx);
            serve(cx);
            cx.pause();
            log.failure().is_none()
        });
        match appended {
            Ok(_) => log.clock.note_record(cx),
            Err(_) => log.room.take_back(promise),
        }
        appended
    }
}
