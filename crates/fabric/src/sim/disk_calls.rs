//! Calls of disks: a turn as for a verb, or several, then the effect, then its time.

use std::panic::Location;

use super::Sim;
use super::explain::Verb;
use super::machine::{Memory, State};
use super::verbs::fold;
use crate::cx::HostId;
use crate::disk::{Cost, DiskAnswer, DiskCall, DiskErrorKind, Progress, Step};

type Answer = Result<DiskAnswer, DiskErrorKind>;

impl Sim {
    pub(super) fn disk_call(
        &self,
        device: HostId,
        session: u64,
        mut call: DiskCall<'_>,
        place: &'static Location<'static>,
    ) -> Answer {
        let mut progress = Progress::default();
        let sync = matches!(call, DiskCall::Sync { .. } | DiskCall::SyncNames);
        let own = if sync { Verb::DiskSync } else { Verb::Disk };
        let (mut verb, mut first) = (own, sync);
        loop {
            // The adversary strikes before each turn, so also in the middle of a call.
            let Some(mut state) = self.enter(verb, 0, 0, place) else { return Err(DiskErrorKind::Failed) };
            if std::mem::take(&mut first) && !state.site_enabled(own, place) {
                return Ok(DiskAnswer::Done);
            }
            progress.whole = self.timed || state.quiet;
            let host = HostId(state.workers[self.me].host as u8);
            let step = state.disks.device(device).step(host, session, &mut call, &mut progress);
            match step {
                Step::More => {
                    debug_assert!(!progress.whole, "a whole call has one step");
                    verb = own;
                }
                Step::Waits => verb = Verb::Pause,
                Step::Over(answer, cost) => {
                    state.mix(self.me, Verb::Disk, u64::from(device.0), value(&call, &answer));
                    if call.changes() {
                        state.progress(self.me);
                    }
                    if state.spend_on_disk(self.me, device, cost) {
                        drop(state);
                        self.suspend();
                    }
                    return answer;
                }
            }
        }
    }
}

impl State {
    /// Timed: the call takes its time, and others run meanwhile. True when the worker must give control back.
    fn spend_on_disk(&mut self, me: usize, device: HostId, cost: Cost) -> bool {
        let Memory::Timed(memory) = &mut self.memory else { return false };
        memory.disk(me, device, cost);
        let next = if self.quiet { me } else { memory.next_in_host(me) };
        self.current = next;
        self.switches += u64::from(next != me);
        next != me
    }
}

/// For the trace.
fn value(call: &DiskCall<'_>, answer: &Answer) -> u64 {
    match (call, answer) {
        (DiskCall::Read { out, .. }, Ok(_)) => fold(out),
        (_, Ok(DiskAnswer::Number(number) | DiskAnswer::Opened(number, _))) => *number,
        (_, Ok(DiskAnswer::Names(names))) => names.iter().fold(0, |sum, name| sum ^ fold(name.as_bytes())),
        (_, Ok(DiskAnswer::Done)) => 0,
        (_, Err(kind)) => !(*kind as u64),
    }
}
