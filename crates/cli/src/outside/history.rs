//! What happened to hosts, and when, on one clock for everybody who watches.

#![expect(clippy::disallowed_methods, reason = "what is watched happens in real time")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::timeline::Kill;

/// Kills and returns, in their order.
pub struct History {
    /// When time begins.
    start: Instant,
    /// The same as the hosts' diaries have it: in microseconds since 1970.
    start_us: i64,
    kills: Mutex<Vec<Kill>>,
}

impl Default for History {
    fn default() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), start_us: since.as_micros() as i64, kills: Mutex::default() }
    }
}

impl History {
    /// Nanoseconds since the beginning.
    pub fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// The nanosecond since the beginning at which a diary's microsecond since 1970 ends; none before it.
    /// So what a host has noted after a kill is not before it here.
    pub fn ns_of(&self, us: i64) -> Option<u64> {
        u64::try_from(us + 1 - self.start_us).ok().map(|us| us * 1000)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kill>> {
        self.kills.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a host with these partitions fails now; times of waiting count from here on.
    pub fn note_kill(&self, host: usize, hangs: bool, partitions: Vec<u16>) {
        let mut kills = self.lock();
        kills.push(Kill { at_ns: self.now_ns(), host, hangs, partitions, back_ns: None });
    }

    /// Notes that a host is a member again.
    pub fn note_return(&self, host: usize) {
        let now_ns = self.now_ns();
        for kill in self.lock().iter_mut().filter(|kill| kill.host == host && kill.back_ns.is_none()) {
            kill.back_ns = Some(now_ns);
        }
    }

    /// What was killed so far.
    pub fn kills(&self) -> Vec<Kill> {
        self.lock().clone()
    }

    /// Number and time of the last kill.
    pub fn last_kill(&self) -> Option<(usize, u64)> {
        let kills = self.lock();
        kills.last().map(|kill| (kills.len() - 1, kill.at_ns))
    }
}
