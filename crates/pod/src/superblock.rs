//! The first 4 KiB of a pod: what it is and what all hosts agree on. Written once, checked by every host that
//! opens it.
//!
//! Invariants:
//! 1. The state word (a sync word at [`Plan::SUPERBLOCK_STATE`]) says READY only after the superblock was
//!    written back and the sync region is zero; it is the last thing that `format` changes.
//! 2. A superblock is believed only if its checksum is right, its version is one that is read, it has no
//!    feature that is not known, what is reserved is zero, and the plan of its configuration is its region
//!    table. One that is written is so, too.
//! 3. One host formats: the one whose compare-and-swap sets FORMATTING.
//! 4. Whatever version: magic number, version, checksum and state word lie where they lie now.
//!
//! ```text
//! 0      magic        8 bytes     "LigerPod"
//! 8      version      u32
//! 12     checksum     u32         CRC-32C of the superblock with this field 0
//! 16     pod_bytes    u64
//! 24     agreement    u32         CRC-32C of configuration and regions: equal on two hosts that agree
//! 28     regions      u32         how many of the table are used
//! 32     features     u64         what a program has to know to use the pod; none yet
//! 40     reserved     3 x u64     zero
//! 64     configuration            its last 56 bytes are reserved: zero
//! 192    region table 32 x (start, bytes)
//! 704
//! ```
//!
//! It does not clear the data region: whoever allocates there writes before others read.

use std::mem::offset_of;

use liger_fabric::zerocopy::{FromZeros, IntoBytes};
use liger_fabric::{Cx, DataAddr, Fabric, LINE, SyncAddr, SyncMode, layout};

use crate::error::PodError;
use crate::plan::{Plan, PodConfig, SUPERBLOCK_BYTES};

/// Version of everything that lies in a pod. It changes when any layout or protocol word does.
pub const FORMAT_VERSION: u32 = 9;
/// The oldest version that is read.
pub const OLDEST_VERSION: u32 = 9;

/// The features that this program knows.
const FEATURES: u64 = 0;

const MAGIC: u64 = u64::from_le_bytes(*b"LigerPod");
const FORMATTING: u64 = u64::from_le_bytes(*b"LigerFmt");
const READY: u64 = u64::from_le_bytes(*b"LigerRdy");
const SUPERBLOCK: DataAddr = DataAddr::new(0);

// 0 is what nobody has formatted.
const _: () = assert!(FORMATTING != READY && FORMATTING != 0 && READY != 0);
const _: () = assert!(OLDEST_VERSION > 0 && OLDEST_VERSION <= FORMAT_VERSION);
const MAX_REGIONS: usize = 32;

layout! {
    /// A [`PodConfig`] in memory.
    struct ConfigBytes: 128 {
        0 => hosts: u8,
        1 => workers: u8,
        2 => partitions: u16,
        4 => max_tables: u16,
        6 => sync_mode: u8,
        7 => reserved_byte: u8,
        8 => hwcc_bytes: u64,
        16 => cxl_bytes: u64,
        24 => lane_slots: u32,
        28 => lane_slot_bytes: u32,
        32 => retire_entries: u32,
        36 => block_chunk_bytes: u32,
        40 => content_hash: u64,
        48 => log_ring_bytes: u64,
        56 => lease_ns: u64,
        64 => initial_hosts: u64,
        72 => reserved: [u64; 7],
    }
}

layout! {
    /// A region of the plan in memory.
    struct RegionBytes: 16 {
        0 => start: u64,
        8 => bytes: u64,
    }
}

layout! {
    struct Superblock: 704 {
        0 => magic: u64,
        8 => version: u32,
        12 => checksum: u32,
        16 => pod_bytes: u64,
        24 => agreement: u32,
        28 => n_regions: u32,
        32 => features: u64,
        40 => reserved: [u64; 3],
        64 => config: ConfigBytes,
        192 => regions: [RegionBytes; MAX_REGIONS],
    }
}

const _: () = assert!(size_of::<Superblock>() as u64 <= SUPERBLOCK_BYTES);
// What another version's program looks at before it knows the version (invariant 4).
const _: () = assert!(offset_of!(Superblock, version) == 8 && offset_of!(Superblock, checksum) == 12);

/// What the memory may hold before it is formatted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FormatOver {
    /// Zeros: the system has just made it. Nothing needs clearing.
    Zeros,
    /// Anything but a pod (a device that was used before): the sync region is cleared.
    Unknown,
    /// Anything, even a pod, which is destroyed: no host may be using it.
    OldPod,
}

/// Makes a pod of `config` in memory of `memory_bytes` bytes. When it returns, other hosts can open and join.
///
/// # Errors
/// If the configuration has no plan, does not fit, or `over` forbids it. The memory is unchanged then.
pub fn format<F: Fabric>(
    cx: &Cx<F>,
    config: &PodConfig,
    memory_bytes: u64,
    over: FormatOver,
) -> Result<Plan, PodError> {
    let plan = Plan::new(config)?;
    check_room(memory_bytes, plan.len())?;
    let state = Plan::SUPERBLOCK_STATE;
    let found = cx.load(state);
    match (over, found) {
        (FormatOver::OldPod, _) | (_, 0) => {}
        (_, READY) => return Err(PodError::AlreadyFormatted),
        (_, FORMATTING) => return Err(PodError::StillFormatting),
        (FormatOver::Zeros, _) => return Err(PodError::NotZero { found }),
        (FormatOver::Unknown, _) => {}
    }
    cx.compare_exchange(state, found, FORMATTING).map_err(|_| PodError::StillFormatting)?;
    if over != FormatOver::Zeros && !cx.sabotaged("superblock.clear-sync-region") {
        clear_sync_region(cx, &plan);
    }
    let block = Superblock::of(&plan);
    assert_eq!(block.checked_plan().as_ref(), Ok(&plan), "what is written can be believed");
    cx.publish_layout(SUPERBLOCK, &block);
    cx.compare_exchange(state, FORMATTING, READY).map_err(|_| PodError::StillFormatting)?;
    Ok(plan)
}

/// Reads and checks the pod in memory of `memory_bytes` bytes.
///
/// # Errors
/// What is wrong with it; see [`PodError`].
pub fn open<F: Fabric>(cx: &Cx<F>, memory_bytes: u64) -> Result<Plan, PodError> {
    check_room(memory_bytes, SUPERBLOCK_BYTES + LINE as u64)?;
    match cx.load(Plan::SUPERBLOCK_STATE) {
        READY => {}
        FORMATTING => return Err(PodError::StillFormatting),
        found => return Err(PodError::NotAPod { found }),
    }
    let block: Superblock = cx.refresh_layout(SUPERBLOCK);
    let plan = block.checked_plan()?;
    check_room(memory_bytes, plan.len())?;
    Ok(plan)
}

/// True if nobody has formatted the memory, or somebody has begun to and has not ended: there is no pod in
/// it, and no host has joined one since.
pub fn is_unfinished<F: Fabric>(cx: &Cx<F>) -> bool {
    match cx.load(Plan::SUPERBLOCK_STATE) {
        FORMATTING => true,
        0 => {
            let block: Superblock = cx.refresh_layout(SUPERBLOCK);
            block.magic == 0 && block.checksum == 0
        }
        _ => false,
    }
}

/// As [`open`], for a host that knows what configuration it expects.
///
/// # Errors
/// As `open`, and [`PodError::OtherConfiguration`] with the first field that differs.
pub fn open_as<F: Fabric>(cx: &Cx<F>, memory_bytes: u64, config: &PodConfig) -> Result<Plan, PodError> {
    let plan = open(cx, memory_bytes)?;
    let (found, expected) = (fields(plan.config()), fields(config));
    match found.into_iter().zip(expected).find(|(found, expected)| found != expected) {
        None => Ok(plan),
        Some(((field, found), (_, expected))) => Err(PodError::OtherConfiguration { field, found, expected }),
    }
}

/// A number that is equal on two hosts if they agree on the configuration and on where everything lies.
pub fn agreement(plan: &Plan) -> u32 {
    Superblock::of(plan).agreement
}

fn check_room(len: u64, needed: u64) -> Result<(), PodError> {
    if len >= needed { Ok(()) } else { Err(PodError::TooSmall { len, needed }) }
}

/// Zeroes every sync word but the state word; words that are zero already are left alone. The fence of the
/// superblock's publication completes these stores.
fn clear_sync_region<F: Fabric>(cx: &Cx<F>, plan: &Plan) {
    let first = Plan::SUPERBLOCK_STATE.offset() + 8;
    for offset in (first..plan.sync_end()).step_by(8) {
        let word = SyncAddr::new(offset);
        if cx.load(word) != 0 {
            cx.store(word, 0);
        }
    }
}

/// Every field of a configuration, by name. Exhaustive by construction: a new field does not compile until it
/// is here.
fn fields(config: &PodConfig) -> [(&'static str, u64); 15] {
    let PodConfig {
        hosts,
        initial_hosts,
        workers,
        partitions,
        max_tables,
        sync_mode,
        hwcc_bytes,
        cxl_bytes,
        lane_slots,
        lane_slot_bytes,
        retire_entries,
        block_chunk_bytes,
        log_ring_bytes,
        lease_ns,
        content_hash,
    } = *config;
    [
        ("hosts", hosts.into()),
        ("initial_hosts", initial_hosts.into()),
        ("workers", workers.into()),
        ("partitions", partitions.into()),
        ("max_tables", max_tables.into()),
        ("sync_mode", sync_mode_code(sync_mode).into()),
        ("hwcc_bytes", hwcc_bytes),
        ("cxl_bytes", cxl_bytes),
        ("lane_slots", lane_slots.into()),
        ("lane_slot_bytes", lane_slot_bytes.into()),
        ("retire_entries", retire_entries.into()),
        ("block_chunk_bytes", block_chunk_bytes.into()),
        ("log_ring_bytes", log_ring_bytes),
        ("lease_ns", lease_ns),
        ("content_hash", content_hash),
    ]
}

/// Zero means nothing, so that forgotten bytes are noticed.
fn sync_mode_code(mode: SyncMode) -> u8 {
    match mode {
        SyncMode::Hwcc => 1,
        SyncMode::Pcc => 2,
    }
}

impl ConfigBytes {
    fn of(config: &PodConfig) -> Self {
        Self {
            hosts: config.hosts,
            initial_hosts: config.initial_hosts.into(),
            workers: config.workers,
            partitions: config.partitions,
            max_tables: config.max_tables,
            sync_mode: sync_mode_code(config.sync_mode),
            reserved_byte: 0,
            reserved: [0; 7],
            hwcc_bytes: config.hwcc_bytes,
            cxl_bytes: config.cxl_bytes,
            lane_slots: config.lane_slots,
            lane_slot_bytes: config.lane_slot_bytes,
            retire_entries: config.retire_entries,
            block_chunk_bytes: config.block_chunk_bytes,
            content_hash: config.content_hash,
            log_ring_bytes: config.log_ring_bytes,
            lease_ns: config.lease_ns,
        }
    }

    fn config(&self) -> Result<PodConfig, PodError> {
        let sync_mode = match self.sync_mode {
            1 => SyncMode::Hwcc,
            2 => SyncMode::Pcc,
            other => {
                return Err(PodError::Damaged { what: "the sync mode", found: other.into(), expected: 1 });
            }
        };
        Ok(PodConfig {
            hosts: self.hosts,
            initial_hosts: u16::try_from(self.initial_hosts).map_err(|_| {
                let what = "the hosts that are there from the start";
                PodError::Damaged { what, found: self.initial_hosts, expected: u16::MAX.into() }
            })?,
            workers: self.workers,
            partitions: self.partitions,
            max_tables: self.max_tables,
            sync_mode,
            hwcc_bytes: self.hwcc_bytes,
            cxl_bytes: self.cxl_bytes,
            lane_slots: self.lane_slots,
            lane_slot_bytes: self.lane_slot_bytes,
            retire_entries: self.retire_entries,
            block_chunk_bytes: self.block_chunk_bytes,
            log_ring_bytes: self.log_ring_bytes,
            lease_ns: self.lease_ns,
            content_hash: self.content_hash,
        })
    }
}

impl Superblock {
    fn of(plan: &Plan) -> Self {
        let mut block = Self::new_zeroed();
        block.magic = MAGIC;
        block.version = FORMAT_VERSION;
        block.pod_bytes = plan.len();
        block.config = ConfigBytes::of(plan.config());
        block.n_regions = plan.regions().len() as u32;
        for (slot, region) in block.regions.iter_mut().zip(plan.regions()) {
            *slot = RegionBytes { start: region.start, bytes: region.bytes };
        }
        assert!(plan.regions().len() <= MAX_REGIONS, "the superblock's table has {MAX_REGIONS} places");
        block.agreement =
            crc32c::crc32c_append(crc32c::crc32c(block.config.as_bytes()), block.regions.as_bytes());
        block.checksum = block.computed_checksum();
        block
    }

    fn computed_checksum(&self) -> u32 {
        crc32c::crc32c(Self { checksum: 0, ..*self }.as_bytes())
    }

    fn checked_plan(&self) -> Result<Plan, PodError> {
        let same = |what, found: u64, expected: u64| {
            if found == expected { Ok(()) } else { Err(PodError::Damaged { what, found, expected }) }
        };
        same("the superblock's magic number", self.magic, MAGIC)?;
        // Before the checksum: another version may keep it elsewhere.
        if !(OLDEST_VERSION..=FORMAT_VERSION).contains(&self.version) {
            let (found, oldest, newest) = (self.version, OLDEST_VERSION, FORMAT_VERSION);
            return Err(PodError::OtherVersion { found, oldest, newest });
        }
        let checksum = self.computed_checksum();
        same("the superblock's checksum", self.checksum.into(), checksum.into())?;
        let unknown = self.features & !FEATURES;
        if unknown != 0 {
            return Err(PodError::UnknownFeatures { unknown });
        }
        let reserved = self.reserved.iter().chain(&self.config.reserved);
        let used = reserved.copied().chain([self.config.reserved_byte.into()]).find(|word| *word != 0);
        same("what the superblock reserves", used.unwrap_or(0), 0)?;
        let plan = Plan::new(&self.config.config()?)?;
        self.same_regions(&plan)?;
        same("the pod's length", self.pod_bytes, plan.len())?;
        same("the superblock's agreement", self.agreement.into(), Self::of(&plan).agreement.into())?;
        Ok(plan)
    }

    fn same_regions(&self, plan: &Plan) -> Result<(), PodError> {
        let ours = Self::of(plan);
        if self.n_regions != ours.n_regions {
            let (found, expected) = (self.n_regions.into(), ours.n_regions.into());
            return Err(PodError::OtherLayout { part: "the end of the table".to_owned(), found, expected });
        }
        let differs = |at: &usize| self.regions[*at] != ours.regions[*at];
        let Some(at) = (0..plan.regions().len()).find(differs) else { return Ok(()) };
        let (found, expected) = (self.regions[at], ours.regions[at]);
        // The same start and another length shows as another end.
        let end = if found.start == expected.start { 1 } else { 0 };
        Err(PodError::OtherLayout {
            part: format!("{} of {:?}", ["the start", "the end"][end], plan.regions()[at].part),
            found: found.start + end as u64 * found.bytes,
            expected: expected.start + end as u64 * expected.bytes,
        })
    }
}

#[cfg(test)]
mod tests;
