//! The map of a pod's memory: one configuration in, the place of everything out.
//!
//! Invariants:
//! 1. The plan is a pure function of [`PodConfig`]; all hosts that agree on the configuration agree on every
//!    address.
//! 2. Regions do not overlap, start on a line, and hold sync words or data, never both.
//! 3. The superblock is at offset 0 and its state word at [`Plan::SUPERBLOCK_STATE`] in every plan, so a host
//!    can read the configuration before it knows the plan.
//!
//! ```text
//! 0            4096                                                  sync_end                             
//! len
//! | superblock | sync region (HWcc, or cache-bypassing words)        | data region (CXL, software coherence) |
//! |   data     | state, membership, epochs, usage, lanes, ..., words | self-test, lane slots, batches, blocks |
//! ```
//!
//! It does not touch memory, and it does not say what the words mean: each region belongs to the module named
//! there.

mod partition;

use std::fmt;

pub use liger_fabric::SyncMode;
use liger_fabric::{DataAddr, HostId, LINE, SyncAddr, WorkerId};

use crate::heap::segments;
pub use partition::PartitionId;

/// Most hosts in a pod.
pub const MAX_HOSTS: usize = 16;
/// Most workers on a host, its failure detector included.
pub const MAX_WORKERS: usize = 32;
/// Bytes of the superblock.
pub const SUPERBLOCK_BYTES: u64 = 4096;
/// Bytes in a chunk of sync words.
pub const WORD_CHUNK_BYTES: u64 = 4096;
/// Named counters in a pod.
pub const COUNTERS: u64 = 64;
/// Sync lines and data lines of the self-test, for each ordered pair of hosts.
pub const SELFTEST_LINES: u64 = 4;

const LINE_BYTES: u64 = LINE as u64;
/// Lines of sync words in which hosts say what they have resolved of one dead host: a word for each host.
const RESOLVED_LINES_PER_HOST: u64 = 2;
/// Lines of sync words in which hosts say which heartbeat of one host has stood still for too long: a word
/// for each host.
const SUSPICION_LINES_PER_HOST: u64 = 2;
/// Lines of sync words that the epochs keep for each host (see `epochs`).
const EPOCH_LINES_PER_HOST: u64 = 4;
/// Lines of sync words that the heap keeps for each host (see `heap`).
const HEAP_LINES_PER_HOST: u64 = 3;
/// Bytes of one entry of a batch of retired blocks.
pub(crate) const RETIRE_ENTRY_BYTES: u64 = 16;
/// A free sync word keeps the next one's number (offset / 8) in its low 32 bits.
const MAX_SYNC_BYTES: u64 = 8 << 32;

// Lines with a word for each host have room for all; a chunk of words is whole lines.
const _: () = assert!(MAX_HOSTS as u64 * 8 <= RESOLVED_LINES_PER_HOST * LINE_BYTES);
const _: () = assert!(MAX_HOSTS as u64 * 8 <= SUSPICION_LINES_PER_HOST * LINE_BYTES);
const _: () = assert!(MAX_HOSTS as u64 * 8 <= (EPOCH_LINES_PER_HOST - 2) * LINE_BYTES);
const _: () = assert!(WORD_CHUNK_BYTES.is_multiple_of(LINE_BYTES) && SUPERBLOCK_BYTES.is_multiple_of(4096));

/// What all hosts of a pod agree on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodConfig {
    /// Most hosts in the pod, 1 to 16.
    pub hosts: u8,
    /// Those that are there from the start, bit h for host h: partitions are made for them. Others may join
    /// later, and get some then.
    pub initial_hosts: u16,
    /// Most workers on each host, 1 to 31.
    pub workers: u8,
    /// Partitions of each table, at least 1.
    pub partitions: u16,
    /// Most tables, at least 1.
    pub max_tables: u16,
    /// How sync words work.
    pub sync_mode: SyncMode,
    /// Bytes of the whole sync region, a multiple of 4096.
    pub hwcc_bytes: u64,
    /// Bytes of the whole data region, a multiple of 4096.
    pub cxl_bytes: u64,
    /// Slots of a message lane, a power of two, at least 4.
    pub lane_slots: u32,
    /// Bytes of a slot, a multiple of 64.
    pub lane_slot_bytes: u32,
    /// Blocks that a host may have waiting for the other hosts' invalidation, at least 1.
    pub retire_entries: u32,
    /// Bytes of a chunk of blocks, a power of two, 64 KiB to 1 MiB.
    pub block_chunk_bytes: u32,
    /// Bytes of each worker's ring of the log, a power of two, 1 KiB to 1 GiB; 0 when the pod keeps no log.
    pub log_ring_bytes: u64,
    /// How long a host may be silent before the others take it for dead, in nanoseconds, at least 1000.
    pub lease_ns: u64,
    /// A hash of whatever the layers above must agree on (their tables); 0 when there is nothing.
    pub content_hash: u64,
}

/// 4 MiB, or less where all rings together would take more than an eighth of the data.
fn usual_ring_bytes(hosts: u8, workers: u8, cxl_bytes: u64) -> u64 {
    let rings = u64::from(hosts.max(1)) * u64::from(workers.max(1));
    let each = (cxl_bytes / 8 / rings).clamp(1 << 10, 4 << 20);
    1 << each.ilog2()
}

/// So many hosts, from the first one on, bit h for host h.
pub const fn all_hosts(hosts: u8) -> u16 {
    ((1u32 << if hosts < 16 { hosts } else { 16 }) - 1) as u16
}

/// Cells of shared rows (`heap`) in a sync word of a pod of `hosts` hosts: 3 up to 8 hosts, 1 beyond.
pub const fn cells_per_word(hosts: u8) -> u64 {
    if hosts <= 8 { 3 } else { 1 }
}

impl PodConfig {
    /// A pod of `hosts` hosts with `hwcc_bytes` of sync words and `cxl_bytes` of data, everything else as
    /// usual.
    pub fn new(hosts: u8, workers: u8, hwcc_bytes: u64, cxl_bytes: u64) -> Self {
        Self {
            hosts,
            initial_hosts: all_hosts(hosts),
            workers,
            partitions: u16::from(hosts.max(1)),
            max_tables: 16,
            sync_mode: SyncMode::Hwcc,
            hwcc_bytes,
            cxl_bytes,
            lane_slots: 256,
            lane_slot_bytes: 256,
            retire_entries: 1024,
            block_chunk_bytes: 256 << 10,
            log_ring_bytes: usual_ring_bytes(hosts, workers, cxl_bytes),
            lease_ns: 5_000_000_000,
            content_hash: 0,
        }
    }

    /// A pod small enough for simulated tests: few lane slots, small batches, small chunks.
    pub fn small(hosts: u8, workers: u8) -> Self {
        Self {
            lane_slots: 16,
            lane_slot_bytes: 64,
            retire_entries: 16,
            block_chunk_bytes: 64 << 10,
            log_ring_bytes: 4 << 10,
            ..Self::new(hosts, workers, 512 << 10, 8 << 20)
        }
    }

    /// Checks the numbers against their ranges.
    pub fn validate(&self) -> Result<(), PlanError> {
        let range = |name, value: u64, min, max| {
            let ok = (min..=max).contains(&value);
            if ok { Ok(()) } else { Err(PlanError::OutOfRange { name, value, min, max }) }
        };
        let multiple = |name, value: u64, of: u64| {
            if value.is_multiple_of(of) { Ok(()) } else { Err(PlanError::NotMultiple { name, value, of }) }
        };
        let power = |name, value: u64| {
            if value.is_power_of_two() { Ok(()) } else { Err(PlanError::NotPowerOfTwo { name, value }) }
        };
        range("hosts", self.hosts.into(), 1, MAX_HOSTS as u64)?;
        range("initial_hosts", self.initial_hosts.into(), 1, all_hosts(self.hosts).into())?;
        range("workers", self.workers.into(), 1, MAX_WORKERS as u64 - 1)?;
        range("partitions", self.partitions.into(), 1, u16::MAX.into())?;
        range("max_tables", self.max_tables.into(), 1, u16::MAX.into())?;
        range("lane_slots", self.lane_slots.into(), 4, 1 << 20)?;
        range("lane_slot_bytes", self.lane_slot_bytes.into(), LINE_BYTES, 4096)?;
        range("retire_entries", self.retire_entries.into(), 1, 1 << 15)?;
        range("block_chunk_bytes", self.block_chunk_bytes.into(), 64 << 10, 1 << 20)?;
        range("hwcc_bytes", self.hwcc_bytes, 4096, MAX_SYNC_BYTES - SUPERBLOCK_BYTES)?;
        range("cxl_bytes", self.cxl_bytes, 4096, 1 << 40)?;
        multiple("hwcc_bytes", self.hwcc_bytes, 4096)?;
        multiple("cxl_bytes", self.cxl_bytes, 4096)?;
        multiple("lane_slot_bytes", self.lane_slot_bytes.into(), LINE_BYTES)?;
        power("lane_slots", self.lane_slots.into())?;
        power("block_chunk_bytes", self.block_chunk_bytes.into())?;
        range("lease_ns", self.lease_ns, 1000, 1 << 40)?;
        if self.log_ring_bytes == 0 {
            return Ok(());
        }
        range("log_ring_bytes", self.log_ring_bytes, 1 << 10, 1 << 30)?;
        power("log_ring_bytes", self.log_ring_bytes)
    }
}

/// Why a configuration has no plan.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A number outside its range.
    #[error("{name} is {value}, must be {min} to {max}")]
    OutOfRange {
        /// Field of the configuration.
        name: &'static str,
        /// What it says.
        value: u64,
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
    },
    /// A number that must be a multiple of another.
    #[error("{name} is {value}, must be a multiple of {of}")]
    NotMultiple {
        /// Field of the configuration.
        name: &'static str,
        /// What it says.
        value: u64,
        /// The unit.
        of: u64,
    },
    /// A number that must be a power of two.
    #[error("{name} is {value}, must be a power of two")]
    NotPowerOfTwo {
        /// Field of the configuration.
        name: &'static str,
        /// What it says.
        value: u64,
    },
    /// A region is too small for its fixed parts and the least heap.
    #[error("{name} is {given} bytes, at least {needed} are needed")]
    TooSmall {
        /// Field of the configuration.
        name: &'static str,
        /// What it says.
        given: u64,
        /// The least that works.
        needed: u64,
    },
}

/// What a region holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegionKind {
    /// Sync words.
    Sync,
    /// Data.
    Data,
}

/// A named range of the pod's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Which part it is.
    pub part: Part,
    /// What it holds.
    pub kind: RegionKind,
    /// First byte, a multiple of 64.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// The parts of a pod's memory, in address order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Part {
    /// Format and configuration of the pod (`superblock`).
    Superblock,
    /// One sync line: state of the format.
    SuperblockState,
    /// One sync line: who is accused of being dead (`watch`).
    Controller,
    /// One sync line per host (`membership`).
    Membership,
    /// A line of words for each dead host: who has resolved what (`watch`).
    Resolved,
    /// A line of words for each host: who has seen it silent (`watch`).
    Suspicions,
    /// A word for each partition: the host that owns it (`ownership`).
    Owners,
    /// The pod's epoch and each host's lines (`epochs`).
    Epochs,
    /// Usage and remote-free heads of each host (`heap`).
    HeapLines,
    /// Tail and head line of every lane (`lanes`).
    LaneWords,
    /// A line of bells for each host (`bells`).
    Bells,
    /// Sync lines of the memory self-test (`selftest`).
    SelftestWords,
    /// The log's epoch, a line for each host, and a line for each ring (the engine's log).
    LogWords,
    /// Named counters, a line each.
    Counters,
    /// Root words of the shared indexes, one per table and partition.
    Directory,
    /// One word per chunk of sync words (`heap`).
    WordChunks,
    /// One word per chunk of blocks (`heap`).
    BlockChunks,
    /// Where the cells of each chunk of blocks are (`heap`).
    Bonds,
    /// Chunks of sync words (`heap`).
    WordHeap,
    /// Data lines of the memory self-test (`selftest`).
    SelftestData,
    /// Slots of the lanes (`lanes`).
    LaneSlots,
    /// Batches of retired blocks, one per host (`epochs`).
    RetireBatches,
    /// Rings of the log, one per worker (the engine's log).
    LogRings,
    /// Chunks of blocks (`heap`).
    BlockHeap,
}

const PARTS: usize = Part::BlockHeap as usize + 1;

/// Where everything in a pod lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    config: PodConfig,
    regions: [Region; PARTS],
}

/// Lays regions one after the other.
struct Layer {
    at: u64,
    regions: Vec<Region>,
}

impl Layer {
    fn put(&mut self, part: Part, kind: RegionKind, bytes: u64) {
        assert_eq!(part as usize, self.regions.len(), "parts are laid in order");
        assert!(self.at.is_multiple_of(LINE_BYTES), "{part:?} shares a line with the part before it");
        let bytes = bytes.next_multiple_of(LINE_BYTES);
        self.regions.push(Region { part, kind, start: self.at, bytes });
        self.at += bytes;
    }
}

impl Plan {
    /// State word of the superblock, in a sync line of its own; the same in every plan.
    pub const SUPERBLOCK_STATE: SyncAddr = SyncAddr::new(SUPERBLOCK_BYTES);

    /// The plan of a configuration.
    pub fn new(config: &PodConfig) -> Result<Self, PlanError> {
        config.validate()?;
        let c = config;
        let hosts = u64::from(c.hosts);
        let pairs = hosts * hosts;
        let mut l = Layer { at: 0, regions: Vec::with_capacity(PARTS) };
        l.put(Part::Superblock, RegionKind::Data, SUPERBLOCK_BYTES);
        let sync_end = SUPERBLOCK_BYTES + c.hwcc_bytes;
        l.put(Part::SuperblockState, RegionKind::Sync, LINE_BYTES);
        l.put(Part::Controller, RegionKind::Sync, LINE_BYTES);
        l.put(Part::Membership, RegionKind::Sync, MAX_HOSTS as u64 * LINE_BYTES);
        l.put(Part::Resolved, RegionKind::Sync, hosts * RESOLVED_LINES_PER_HOST * LINE_BYTES);
        l.put(Part::Suspicions, RegionKind::Sync, hosts * SUSPICION_LINES_PER_HOST * LINE_BYTES);
        l.put(Part::Owners, RegionKind::Sync, u64::from(c.partitions) * 8);
        l.put(Part::Epochs, RegionKind::Sync, (1 + hosts * EPOCH_LINES_PER_HOST) * LINE_BYTES);
        l.put(Part::HeapLines, RegionKind::Sync, (1 + hosts * HEAP_LINES_PER_HOST) * LINE_BYTES);
        l.put(Part::LaneWords, RegionKind::Sync, pairs * 2 * LINE_BYTES);
        l.put(Part::Bells, RegionKind::Sync, hosts * LINE_BYTES);
        l.put(Part::SelftestWords, RegionKind::Sync, pairs * SELFTEST_LINES * LINE_BYTES);
        let rings = if c.log_ring_bytes == 0 { 0 } else { hosts * u64::from(c.workers) };
        let log_lines = if rings == 0 { 0 } else { 1 + hosts + rings };
        l.put(Part::LogWords, RegionKind::Sync, log_lines * LINE_BYTES);
        l.put(Part::Counters, RegionKind::Sync, COUNTERS * LINE_BYTES);
        l.put(Part::Directory, RegionKind::Sync, u64::from(c.max_tables) * u64::from(c.partitions) * 8);

        let selftest = pairs * SELFTEST_LINES * LINE_BYTES;
        let slots = pairs * u64::from(c.lane_slots) * u64::from(c.lane_slot_bytes);
        let batch = (u64::from(c.retire_entries) * RETIRE_ENTRY_BYTES).next_multiple_of(LINE_BYTES);
        let fixed_data = (selftest + slots + hosts * batch + rings * c.log_ring_bytes).next_multiple_of(4096);
        let chunk = u64::from(c.block_chunk_bytes);
        let block_chunks = c.cxl_bytes.saturating_sub(fixed_data) / chunk;
        if block_chunks < hosts {
            let needed = fixed_data + hosts * chunk;
            return Err(PlanError::TooSmall { name: "cxl_bytes", given: c.cxl_bytes, needed });
        }
        let block_table = (block_chunks * 8).next_multiple_of(LINE_BYTES);

        // Each chunk of words costs itself and a word of the table; a line of slack covers the rounding of
        // the table.
        let bonds = (block_chunks * segments(c) * 8).next_multiple_of(LINE_BYTES);
        let fixed_sync = l.at - SUPERBLOCK_BYTES + block_table + bonds + LINE_BYTES;
        let word_chunks = c.hwcc_bytes.saturating_sub(fixed_sync) / (WORD_CHUNK_BYTES + 8);
        if word_chunks < 2 * hosts {
            let needed = (fixed_sync + 2 * hosts * (WORD_CHUNK_BYTES + 8)).next_multiple_of(4096);
            return Err(PlanError::TooSmall { name: "hwcc_bytes", given: c.hwcc_bytes, needed });
        }
        l.put(Part::WordChunks, RegionKind::Sync, word_chunks * 8);
        l.put(Part::BlockChunks, RegionKind::Sync, block_table);
        l.put(Part::Bonds, RegionKind::Sync, bonds);
        l.put(Part::WordHeap, RegionKind::Sync, word_chunks * WORD_CHUNK_BYTES);
        assert!(l.at <= sync_end, "sync region overflows: {} > {sync_end}", l.at);

        l.at = sync_end;
        l.put(Part::SelftestData, RegionKind::Data, selftest);
        l.put(Part::LaneSlots, RegionKind::Data, slots);
        l.put(Part::RetireBatches, RegionKind::Data, hosts * batch);
        l.put(Part::LogRings, RegionKind::Data, rings * c.log_ring_bytes);
        l.at = sync_end + fixed_data;
        l.put(Part::BlockHeap, RegionKind::Data, block_chunks * chunk);
        let regions = l.regions.try_into().expect("every part was laid");
        let plan = Self { config: config.clone(), regions };
        assert!(plan.region(Part::BlockHeap).start + block_chunks * chunk <= plan.len());
        Ok(plan)
    }

    /// The configuration that this is the plan of.
    pub fn config(&self) -> &PodConfig {
        &self.config
    }

    /// Bytes of the whole pod.
    #[expect(clippy::len_without_is_empty, reason = "a pod is never empty")]
    pub fn len(&self) -> u64 {
        self.sync_end() + self.config.cxl_bytes
    }

    /// One past the last byte of the sync region, which starts behind the superblock.
    pub fn sync_end(&self) -> u64 {
        SUPERBLOCK_BYTES + self.config.hwcc_bytes
    }

    /// Where a part lies.
    pub fn region(&self, part: Part) -> Region {
        self.regions[part as usize]
    }

    /// Every part, in address order.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Hosts of the pod, in order.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.config.hosts).map(HostId)
    }

    /// Partitions of the pod, in order.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.config.partitions).map(PartitionId)
    }

    /// The controller's sync line.
    pub fn controller(&self) -> SyncAddr {
        self.sync(Part::Controller)
    }

    /// The word in which `by` says which incarnation of `dead` it has resolved.
    pub fn resolved(&self, dead: HostId, by: HostId) -> SyncAddr {
        assert!(by.0 < self.config.hosts && dead.0 < self.config.hosts, "hosts {} and {}", dead.0, by.0);
        self.sync(Part::Resolved).line(u64::from(dead.0) * RESOLVED_LINES_PER_HOST).word(by.0.into())
    }

    /// The word in which `by` says which heartbeat of `of` has stood still for too long.
    pub fn suspicion(&self, of: HostId, by: HostId) -> SyncAddr {
        assert!(by.0 < self.config.hosts && of.0 < self.config.hosts, "hosts {} and {}", of.0, by.0);
        self.sync(Part::Suspicions).line(u64::from(of.0) * SUSPICION_LINES_PER_HOST).word(by.0.into())
    }

    /// The word that names a partition's owner.
    pub fn owner(&self, partition: PartitionId) -> SyncAddr {
        self.sync(Part::Owners).word(self.checked(partition).into())
    }

    /// The membership line of `host` (any of the 16 numbers).
    pub fn membership(&self, host: HostId) -> SyncAddr {
        assert!(usize::from(host.0) < MAX_HOSTS, "host {} of {MAX_HOSTS}", host.0);
        self.sync(Part::Membership).line(host.0.into())
    }

    /// The line of the bells of `host`.
    pub(crate) fn bells(&self, host: HostId) -> SyncAddr {
        assert!(host.0 < self.config.hosts, "host {} of {}", host.0, self.config.hosts);
        self.sync(Part::Bells).line(host.0.into())
    }

    /// Sync line `line` (0 to 3) of the self-test of the ordered pair.
    pub fn selftest_sync(&self, from: HostId, to: HostId, line: u64) -> SyncAddr {
        assert!(line < SELFTEST_LINES, "self-test line {line} of {SELFTEST_LINES}");
        self.sync(Part::SelftestWords).line(self.pair(from, to) * SELFTEST_LINES + line)
    }

    /// Data line `line` (0 to 3) of the self-test of the ordered pair.
    pub fn selftest_data(&self, from: HostId, to: HostId, line: u64) -> DataAddr {
        assert!(line < SELFTEST_LINES, "self-test line {line} of {SELFTEST_LINES}");
        let nth = self.pair(from, to) * SELFTEST_LINES + line;
        self.data(Part::SelftestData).byte(nth * LINE_BYTES)
    }

    /// True if the pod keeps a log; the log's places exist only then.
    pub fn has_log(&self) -> bool {
        self.config.log_ring_bytes != 0
    }

    /// The log's epoch, in a sync line of its own.
    pub fn epoch_word(&self) -> SyncAddr {
        assert!(self.has_log(), "this pod keeps no log");
        self.sync(Part::LogWords)
    }

    /// The log's sync line of `host`; its first word is the host's durable epoch.
    pub fn log_line(&self, host: HostId) -> SyncAddr {
        assert!(host.0 < self.config.hosts, "host {} of {}", host.0, self.config.hosts);
        self.epoch_word().line(1 + u64::from(host.0))
    }

    /// The sync line of a worker's ring: its tail, then its head.
    pub fn ring_line(&self, host: HostId, worker: WorkerId) -> SyncAddr {
        self.epoch_word().line(1 + u64::from(self.config.hosts) + self.ring(host, worker))
    }

    /// The bytes of a worker's ring, and how many there are.
    pub fn ring_bytes(&self, host: HostId, worker: WorkerId) -> (DataAddr, u64) {
        assert!(self.has_log(), "this pod keeps no log");
        let len = self.config.log_ring_bytes;
        (self.data(Part::LogRings).byte(self.ring(host, worker) * len), len)
    }

    /// Number of a ring.
    fn ring(&self, host: HostId, worker: WorkerId) -> u64 {
        let (hosts, workers) = (self.config.hosts, self.config.workers);
        assert!(host.0 < hosts, "host {} of {hosts}", host.0);
        assert!(worker.0 < workers, "worker {} of {workers}", worker.0);
        u64::from(host.0) * u64::from(workers) + u64::from(worker.0)
    }

    /// Named counter `counter` (0 to 63), in a sync line of its own.
    pub fn counter(&self, counter: u64) -> SyncAddr {
        assert!(counter < COUNTERS, "counter {counter} of {COUNTERS}");
        self.sync(Part::Counters).line(counter)
    }

    /// Root word of the shared index of one partition of one table.
    pub fn directory(&self, table: u16, partition: PartitionId) -> SyncAddr {
        let c = &self.config;
        assert!(table < c.max_tables, "table {table} of {}", c.max_tables);
        let partition = u64::from(self.checked(partition));
        self.sync(Part::Directory).word(u64::from(table) * u64::from(c.partitions) + partition)
    }

    /// The number of a partition, which must be one of this pod.
    fn checked(&self, partition: PartitionId) -> u16 {
        assert!(partition.0 < self.config.partitions, "partition {partition} of {}", self.config.partitions);
        partition.0
    }

    /// Number of an ordered pair of hosts.
    pub(crate) fn pair(&self, from: HostId, to: HostId) -> u64 {
        let hosts = self.config.hosts;
        assert!(from.0 < hosts && to.0 < hosts, "hosts {} and {} of {hosts}", from.0, to.0);
        u64::from(from.0) * u64::from(hosts) + u64::from(to.0)
    }

    /// First word of the lines that the epochs keep for `host`.
    pub(crate) fn epoch_lines(&self, host: HostId) -> SyncAddr {
        assert!(host.0 < self.config.hosts);
        self.sync(Part::Epochs).line(1 + u64::from(host.0) * EPOCH_LINES_PER_HOST)
    }

    /// First word of the lines that the heap keeps for `host`.
    pub(crate) fn heap_lines(&self, host: HostId) -> SyncAddr {
        assert!(host.0 < self.config.hosts);
        self.sync(Part::HeapLines).line(1 + u64::from(host.0) * HEAP_LINES_PER_HOST)
    }

    /// First word of the table that says where cells are.
    pub(crate) fn bonds(&self) -> SyncAddr {
        self.sync(Part::Bonds)
    }

    /// First word of a sync region.
    pub(crate) fn sync(&self, part: Part) -> SyncAddr {
        let region = self.region(part);
        assert_eq!(region.kind, RegionKind::Sync);
        SyncAddr::new(region.start)
    }

    /// First byte of a data region.
    pub(crate) fn data(&self, part: Part) -> DataAddr {
        let region = self.region(part);
        assert_eq!(region.kind, RegionKind::Data);
        DataAddr::new(region.start)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for r in &self.regions {
            writeln!(f, "{:>10x} {:>10} {:<5} {:?}", r.start, r.bytes, format!("{:?}", r.kind), r.part)?;
        }
        write!(f, "{:>10x}", self.len())
    }
}

#[cfg(test)]
mod tests;
