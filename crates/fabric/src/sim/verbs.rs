//! The verbs of the trait on a simulated pod: a turn, then the effect in whichever mode, then the trace.
//!
//! In the adversarial mode a read or write takes one turn per line, so it can be torn at line boundaries.

use std::panic::Location;

use super::explain::Verb;
use super::machine::Memory;
use super::{CrashDomain, Sim};
use crate::addr::{DataAddr, LINE, SyncAddr, lines};
use crate::cx::HostId;
use crate::disk::{DiskAnswer, DiskCall, DiskErrorKind};
use crate::fabric::{CutOff, Fabric, RangeUse, Remote, Work};

impl Sim {
    /// The bytes of a read or write that one turn covers, from `done` on: a line, or (timed) everything.
    fn piece(&self, at: DataAddr, done: usize, len: usize) -> (u64, usize) {
        debug_assert!(done < len, "a piece has bytes");
        let from = at.offset() + done as u64;
        let rest = len - done;
        (from, if self.timed { rest } else { (LINE - from as usize % LINE).min(rest) })
    }

    fn cache_command(&self, verb: Verb, at: DataAddr, len: usize, place: &'static Location<'static>) {
        let Some(mut state) = self.enter(verb, at.offset(), len, place) else { return };
        if !state.site_enabled(verb, place) {
            return;
        }
        let by = state.by(self.me);
        let range = lines(at.offset(), len);
        state.mix(self.me, verb, at.offset(), len as u64);
        let drops = verb == Verb::Invalidate;
        let result = match &mut state.memory {
            Memory::Incoherent(memory) => memory.start(self.me, range, drops, by),
            Memory::Timed(memory) => {
                memory.command(self.me, range, drops);
                Ok(())
            }
        };
        self.leave(state, result);
    }
}

impl Fabric for Sim {
    const CHECKED: bool = true;

    fn load(&self, at: SyncAddr) -> u64 {
        let at = at.offset();
        let Some(mut state) = self.enter(Verb::Load, at, 8, Location::caller()) else { return 0 };
        let by = state.by(self.me);
        let result = match &mut state.memory {
            Memory::Incoherent(memory) => memory.load(self.me, at, by),
            Memory::Timed(memory) => Ok(memory.load(self.me, at)),
        };
        state.mix(self.me, Verb::Load, at, *result.as_ref().unwrap_or(&0));
        self.leave(state, result)
    }

    fn store(&self, at: SyncAddr, value: u64) {
        let at = at.offset();
        let Some(mut state) = self.enter(Verb::Store, at, 8, Location::caller()) else { return };
        let by = state.by(self.me);
        let result = match &mut state.memory {
            Memory::Incoherent(memory) => memory.store(self.me, at, value, by),
            Memory::Timed(memory) => {
                memory.store(self.me, at, value);
                Ok(())
            }
        };
        state.mix(self.me, Verb::Store, at, value);
        state.progress(self.me);
        self.leave(state, result);
    }

    fn compare_exchange(&self, at: SyncAddr, current: u64, new: u64) -> Result<u64, u64> {
        let at = at.offset();
        let place = Location::caller();
        let Some(mut state) = self.enter(Verb::CompareExchange, at, 8, place) else { return Err(!current) };
        let by = state.by(self.me);
        let result = match &mut state.memory {
            Memory::Incoherent(memory) => memory.compare_exchange(self.me, at, current, new, by),
            Memory::Timed(memory) => Ok(memory.compare_exchange(self.me, at, current, new)),
        };
        if let Ok(outcome) = &result {
            let (Ok(seen) | Err(seen)) = *outcome;
            state.mix(self.me, Verb::CompareExchange, at, seen ^ new.rotate_left(32));
            if outcome.is_ok() && seen != new {
                state.progress(self.me);
            }
        }
        self.leave(state, result)
    }

    fn read(&self, at: DataAddr, out: &mut [u8]) {
        let place = Location::caller();
        let mut done = 0;
        while done < out.len() {
            let (from, len) = self.piece(at, done, out.len());
            let Some(mut state) = self.enter(Verb::Read, from, len, place) else { return };
            let (by, host) = (state.by(self.me), state.workers[self.me].host);
            let piece = &mut out[done..done + len];
            debug_assert!(self.timed || lines(from, len).count() == 1, "a turn takes one line");
            let result = match &mut state.memory {
                Memory::Incoherent(memory) => memory.read(self.me, host, from, piece, by),
                Memory::Timed(memory) => {
                    memory.read(self.me, from, piece);
                    Ok(())
                }
            };
            state.mix(self.me, Verb::Read, from, fold(piece));
            self.leave(state, result);
            done += len;
        }
    }

    fn write(&self, at: DataAddr, bytes: &[u8]) {
        let place = Location::caller();
        let mut done = 0;
        while done < bytes.len() {
            let (to, len) = self.piece(at, done, bytes.len());
            let Some(mut state) = self.enter(Verb::Write, to, len, place) else { return };
            let (by, host) = (state.by(self.me), state.workers[self.me].host);
            let piece = &bytes[done..done + len];
            debug_assert!(self.timed || lines(to, len).count() == 1, "a turn takes one line");
            let result = match &mut state.memory {
                Memory::Incoherent(memory) => memory.write(host, to, piece, by),
                Memory::Timed(memory) => {
                    memory.write(self.me, to, piece);
                    Ok(())
                }
            };
            state.mix(self.me, Verb::Write, to, fold(piece));
            state.progress(self.me);
            self.leave(state, result);
            done += len;
        }
    }

    fn write_back(&self, at: DataAddr, len: usize) {
        self.cache_command(Verb::WriteBack, at, len, Location::caller());
    }

    fn invalidate(&self, at: DataAddr, len: usize) {
        self.cache_command(Verb::Invalidate, at, len, Location::caller());
    }

    fn fence(&self) {
        let place = Location::caller();
        let Some(mut state) = self.enter(Verb::Fence, 0, 0, place) else { return };
        if state.site_enabled(Verb::Fence, place) {
            let host = state.workers[self.me].host;
            match &mut state.memory {
                Memory::Incoherent(memory) => memory.fence(host, self.me),
                Memory::Timed(memory) => memory.fence(self.me),
            }
            state.mix(self.me, Verb::Fence, 0, 0);
        }
    }

    fn now_ns(&self) -> u64 {
        self.state.borrow().now_ns(self.me)
    }

    fn pause(&self) {
        drop(self.enter(Verb::Pause, 0, 0, Location::caller()));
    }

    fn doze(&self, bell: SyncAddr, look: &mut dyn FnMut() -> u64) {
        self.sleep(bell.offset(), look, Location::caller());
    }

    fn ring(&self, bell: SyncAddr) {
        self.wake(bell.offset(), Location::caller());
    }

    fn process(&self) -> u64 {
        let state = self.state.borrow();
        state.hosts[state.workers[self.me].host].incarnation()
    }

    /// A host that still lives loses its port now, in a crash domain that the seed picks.
    fn cut_off(&self, host: HostId, process: u64) -> CutOff {
        let Some(mut state) = self.enter(Verb::Pause, 0, 0, Location::caller()) else {
            return CutOff::Pending;
        };
        let named = usize::from(host.0);
        if state.hosts[named].incarnation() != process {
            return CutOff::Done;
        }
        if named == state.workers[self.me].host || state.spared {
            return CutOff::Pending;
        }
        if state.random.below(2) == 0 {
            // It takes a while, and the host goes on meanwhile.
            return CutOff::Pending;
        }
        debug_assert!(named != state.workers[self.me].host, "nobody cuts itself off");
        let domains = [CrashDomain::Process, CrashDomain::Host, CrashDomain::HostPersistent];
        let domain = domains[state.random.below(domains.len())];
        state.kill(named, domain);
        drop(state);
        self.suspend();
        CutOff::Done
    }

    fn is_gone(&self, host: HostId, process: u64) -> bool {
        let Some(state) = self.enter(Verb::Pause, 0, 0, Location::caller()) else { return false };
        state.ends_show && state.hosts[usize::from(host.0)].incarnation() != process
    }

    fn spend(&self, work: Work, times: u32) {
        if !self.timed {
            return;
        }
        let mut state = self.state.borrow_mut();
        if state.spend(self.me, work, times) {
            drop(state);
            self.suspend();
        }
    }

    fn range_use(&self, at: DataAddr, len: usize, now: RangeUse) {
        if self.timed {
            return;
        }
        let Some(mut state) = self.enter(Verb::RangeUse, at.offset(), len, Location::caller()) else {
            return;
        };
        let by = state.by(self.me);
        state.progress(self.me);
        if let Memory::Incoherent(memory) = &mut state.memory
            && let Some(rules) = &mut memory.rules
        {
            let touched = lines(at.offset(), len);
            let whole = at.offset().div_ceil(LINE as u64)..(at.offset() + len as u64) / LINE as u64;
            rules.range_use(touched, whole, now == RangeUse::Free, by);
        }
    }

    fn coherent_data(&self) -> bool {
        match &self.state.borrow().memory {
            Memory::Incoherent(memory) => memory.coherent_data(),
            Memory::Timed(memory) => memory.coherent_data(),
        }
    }

    fn has_network(&self) -> bool {
        self.state.borrow().network.is_some()
    }

    fn send_message(&self, to: HostId, message: Vec<u8>) {
        self.send(to, message, Location::caller());
    }

    fn receive_message(&self) -> Option<(HostId, Vec<u8>)> {
        self.receive(Location::caller())
    }

    fn has_remote_memory(&self) -> bool {
        self.state.borrow().adapter.is_some()
    }

    fn remote(&self, moment: Remote) {
        self.remote_access(moment, Location::caller());
    }

    fn begin_unsure(&self) {
        if let Memory::Incoherent(memory) = &mut self.state.borrow_mut().memory {
            memory.begin_unsure(self.me);
        }
    }

    fn end_unsure(&self, relied: bool) {
        let mut state = self.state.borrow_mut();
        let Memory::Incoherent(memory) = &mut state.memory else { return };
        let broken = memory.end_unsure(self.me).filter(|_| relied);
        if !self.is_inert(&mut state) {
            self.leave(state, broken.map_or(Ok(()), Err));
        }
    }

    fn sabotaged(&self, step: &'static str) -> bool {
        self.state.borrow_mut().sabotaged(self.me, step)
    }

    fn simulated_disk(
        &self,
        device: HostId,
        session: u64,
        call: DiskCall<'_>,
    ) -> Result<DiskAnswer, DiskErrorKind> {
        self.disk_call(device, session, call, Location::caller())
    }
}

/// Bytes folded into a word, for the trace hash.
pub(super) fn fold(bytes: &[u8]) -> u64 {
    let mut folded = bytes.len() as u64;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        folded = (folded ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(27);
    }
    rest.iter().fold(folded, |folded, &byte| (folded ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
