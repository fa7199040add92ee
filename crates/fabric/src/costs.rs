//! What verbs cost on the machine of a profile, in whole picoseconds: what timed simulation and `paced` have
//! in common.
//!
//! 1. All times are integers, so results do not depend on the order of floating-point additions.
//! 2. It decides and prices; clocks, tags and memory are its users'.

use crate::addr::LINE;
use crate::fabric::Work;
use crate::profile::{Profile, Quantity};
use crate::sync_mode::SyncMode;

/// A profile's numbers as whole picoseconds.
pub(crate) struct Costs {
    pub read: u64,
    pub write: u64,
    pub link_line: u64,
    pub device_line: u64,
    pub parallel: u64,
    pub hit: u64,
    pub command: u64,
    pub invalidate: u64,
    pub fence: u64,
    pub sync: SyncCosts,
    pub work: [u64; Work::ALL.len()],
    pub pause: (u64, u64),
    pub disk: DiskCosts,
}

/// Those of a host's disk: a call, a byte copied and a byte moved, a sync's wait.
pub(crate) struct DiskCosts {
    pub call: u64,
    pub copied_byte: u64,
    pub moved_byte: u64,
    pub sync: u64,
}

/// Where a profile knows no disk. Own estimates: a data-centre SSD whose cache survives a loss of power.
/// docs/storage.md has what was measured on other devices.
const USUAL_DISK: DiskCosts =
    DiskCosts { call: 1_500_000, copied_byte: 250, moved_byte: 500, sync: 30_000_000 };

/// Those of sync words.
pub(crate) enum SyncCosts {
    Hwcc { hit: u64, swap: u64, core: u64, transfer: u64 },
    Pcc { load: u64, load_service: u64, swap: u64, swap_service: u64, store: u64 },
}

fn ps(ns: &Quantity) -> u64 {
    (ns.value * 1000.0).round() as u64
}

fn line_ps(gb_per_s: &Quantity) -> u64 {
    (LINE as f64 * 1000.0 / gb_per_s.value).round() as u64
}

fn byte_ps(gb_per_s: &Quantity) -> u64 {
    (1000.0 / gb_per_s.value).round() as u64
}

impl Costs {
    pub fn new(profile: &Profile) -> Self {
        let Profile { memory, cache, compute, wait, .. } = profile;
        let hwcc = profile.hwcc.as_ref().map(|s| SyncCosts::Hwcc {
            hit: ps(&s.hit_ns),
            swap: ps(&s.swap_ns),
            core: ps(&s.core_ns),
            transfer: ps(&s.transfer_ns),
        });
        let pcc = profile.pcc.as_ref().map(|s| SyncCosts::Pcc {
            load: ps(&s.load_ns),
            load_service: ps(&s.load_service_ns),
            swap: ps(&s.swap_ns),
            swap_service: ps(&s.swap_service_ns),
            store: ps(&s.store_ns),
        });
        let sync = if profile.sync_words == SyncMode::Hwcc { hwcc } else { pcc };
        let line = [line_ps(&memory.link_gb_per_s), line_ps(&memory.device_gb_per_s)];
        assert!(line.iter().all(|ps| *ps > 0), "a line takes the link and the device a while: {line:?}");
        assert!(wait.pause_ns.value > 0.0, "in virtual time, a pause that takes none waits for ever");
        let work = Work::ALL.map(|work| {
            ps(match work {
                Work::Transaction => &compute.transaction_ns,
                Work::Call => &compute.call_ns,
                Work::IndexNode => &compute.index_node_ns,
                Work::Row => &compute.row_ns,
                Work::DramLine => &compute.dram_line_ns,
                Work::Change => &compute.change_ns,
                Work::Content => &compute.content_ns,
                Work::Message => &compute.message_ns,
            })
        });
        Self {
            read: ps(&memory.read_ns),
            write: ps(&memory.write_ns),
            link_line: line[0],
            device_line: line[1],
            parallel: (memory.parallel_lines.value as u64).max(1),
            hit: ps(&cache.hit_ns),
            command: ps(&cache.command_ns),
            invalidate: ps(&cache.invalidate_ns),
            fence: ps(&cache.fence_ns),
            sync: sync.expect("a checked profile has the section of its sync words"),
            work,
            pause: (ps(&wait.pause_ns), ps(&wait.pause_max_ns)),
            disk: profile.disk.as_ref().map_or(USUAL_DISK, |disk| DiskCosts {
                call: ps(&disk.call_ns),
                copied_byte: byte_ps(&disk.copy_gb_per_s),
                moved_byte: byte_ps(&disk.move_gb_per_s),
                sync: ps(&disk.sync_ns),
            }),
        }
    }

    /// When `misses` lines are there that one access asked for at `now`, the last of which has come through
    /// link and device at `passed`.
    #[inline]
    pub fn misses_done(&self, now: u64, passed: u64, misses: u64) -> u64 {
        debug_assert!(
            misses > 0 && passed >= now,
            "{misses} misses came through at {passed}, asked at {now}"
        );
        (now + self.read * misses.div_ceil(self.parallel)).max(passed + self.read)
    }

    /// Until when the worker itself is held up by misses that are done at `done`: by those of a read to their
    /// end; those of a write are left to the store buffer, which holds about as many lines as can be
    /// outstanding.
    #[inline]
    pub fn held_up(&self, done: u64, dirties: bool) -> u64 {
        if dirties { done.saturating_sub(self.read) } else { done + self.hit }
    }

    /// What getting a hardware-coherent line from `source` costs.
    #[inline]
    pub fn fetch(&self, source: Source) -> u64 {
        match (&self.sync, source) {
            (SyncCosts::Hwcc { core, .. }, Source::Core) => *core,
            (SyncCosts::Hwcc { transfer, .. }, Source::Host) => *transfer,
            _ => self.read,
        }
    }
}

/// The queue of compare-and-swaps that a line belongs to, of so many.
#[inline]
pub(crate) fn swap_queue(line: u64, queues: usize) -> usize {
    let hash = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let queue = ((hash * queues as u64) >> 32) as usize;
    debug_assert!(queue < queues, "line {line} belongs to one of {queues} queues");
    queue
}

/// Where a hardware-coherent line comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The memory: nobody holds it.
    Memory,
    /// Another core of this host.
    Core,
    /// Another host.
    Host,
}

/// Hosts that a line's entry has a bit for: the most of a pod.
pub(crate) const MAX_HOSTS: usize = u16::BITS as usize;

/// A hardware-coherent sync line: which hosts share it, who owns it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Directory {
    sharers: u16,
    /// Worker + 1 that holds it alone.
    owner: u16,
}

impl Directory {
    pub fn unpack(packed: u64) -> Self {
        Self { sharers: packed as u16, owner: (packed >> 16) as u16 }
    }

    pub fn pack(self) -> u64 {
        debug_assert!(self.owner == 0 || self.sharers.count_ones() == 1, "an owner is alone: {self:?}");
        u64::from(self.sharers) | u64::from(self.owner) << 16
    }

    /// After worker `me` (a number of the whole pod) of `host` has loaded from it, and where it came from;
    /// `None` if it is there already.
    #[inline]
    pub fn shared_with(self, host: usize, me: usize) -> Option<(Self, Source)> {
        debug_assert!(host < MAX_HOSTS, "host {host} has no bit");
        let here = self.sharers & 1 << host != 0;
        if here && (self.owner == 0 || usize::from(self.owner) == me + 1) {
            return None;
        }
        let source = match (here, self.owner) {
            (true, _) => Source::Core,
            (false, 0) => Source::Memory,
            (false, _) => Source::Host,
        };
        Some((Self { sharers: self.sharers | 1 << host, owner: 0 }, source))
    }

    /// As [`Directory::shared_with`], after the worker has become its only holder.
    #[inline]
    pub fn owned_by(self, host: usize, me: usize) -> Option<(Self, Source)> {
        debug_assert!(host < MAX_HOSTS && me < u16::MAX.into(), "worker {me} of host {host}");
        if usize::from(self.owner) == me + 1 {
            return None;
        }
        let source = match self.sharers {
            0 => Source::Memory,
            own if own == 1 << host => Source::Core,
            _ => Source::Host,
        };
        Some((Self { sharers: 1 << host, owner: me as u16 + 1 }, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_from_whoever_has_it() {
        let nobody = Directory::default();
        let (shared, from) = nobody.shared_with(0, 5).expect("not there");
        assert_eq!((from, shared.shared_with(0, 6)), (Source::Memory, None), "a host shares what it has");
        let (owned, from) = shared.owned_by(0, 5).expect("not owned");
        assert_eq!((from, owned.owned_by(0, 5), owned.shared_with(0, 5)), (Source::Core, None, None));
        assert_eq!(owned.shared_with(0, 6).expect("owned by another").1, Source::Core);
        let (both, from) = owned.shared_with(1, 9).expect("not here");
        assert_eq!((from, both.owned_by(0, 5).expect("shared").1), (Source::Host, Source::Host));
        assert_eq!(Directory::unpack(both.pack()), both);
    }

    #[test]
    fn a_worker_overlaps_only_so_many_misses() {
        let costs = Costs::new(&Profile::built_in("polar-xconn").expect("built in"));
        assert_eq!(costs.misses_done(1000, 1000, 10), 1000 + 549_000);
        assert_eq!(costs.misses_done(1000, 1000, 11), 1000 + 2 * 549_000);
        assert_eq!(costs.misses_done(1000, 2_000_000, 1), 2_549_000, "the link was busy");
        assert_eq!(costs.held_up(549_000, false), 553_000);
        assert_eq!(costs.held_up(549_000, true), 0);
    }
}
