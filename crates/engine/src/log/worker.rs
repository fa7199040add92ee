//! One worker's part of its host's log: room for a record, and then the record itself.
//!
//! 1. Whoever has no room is refused before anything is done; whoever has some can append.
//! 2. What is too long for the ring goes there in fragments, before the transaction has a version: nobody
//!    waits for an epoch while a long transaction is written (fragments.rs).
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

    /// If the change that was added to `record` last makes it too long for the ring, appends what is in front
    /// of that as a fragment. True if it did. `shrinks` and `serve` as in [`WorkerLog::promise`].
    ///
    /// # Errors
    /// If the change can never fit into the ring, nothing may be committed, or the log has ended: what was
    /// appended counts for nothing then.
    pub fn make_fit<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        log: &HostLog,
        record: &mut RecordWriter,
        shrinks: bool,
        mut serve: impl FnMut(&Cx<F>),
    ) -> Result<bool, AppendError> {
        let (len, most) = (record.len_of_fragment() as u64, self.ring.longest());
        if len <= most && !record.is_full() {
            return Ok(false);
        }
        if !record.can_split() {
            return Err(AppendError::TooLong { len, most });
        }
        let first = record.split(self.ring.position(), |fragment| {
            let promise = self.promise(cx, log, fragment, shrinks, &mut serve)?;
            self.append(cx, log, fragment, promise, 0, &mut serve).map(drop)
        })?;
        debug_assert!(first < self.ring.position(), "the first fragment is before the next record");
        Ok(true)
    }

    /// The transaction whose record this was to be does not commit: fragments of it are not kept.
    pub fn give_up<F: Fabric>(&self, cx: &Cx<F>, log: &HostLog) {
        log.clock.give_up(cx.worker(), self.ring.position());
    }

    /// Appends the record in `record`, whose changes make version `llsn`, between
    /// [`LogClock::begin_commit`] and [`LogClock::end_commit`] (if it is a fragment, `llsn` is 0, and it may
    /// be at any time); returns its position in the ring's stream.
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
