//! Tests of `superblock` on native memory, one process.

use liger_fabric::native::{Mapping, Native, run_hosts};
use liger_fabric::{HostId, WorkerId};

use super::*;

struct Memory {
    cx: Cx<Native>,
    bytes: u64,
}

impl Memory {
    fn new(config: &PodConfig) -> Self {
        let bytes = Plan::new(config).expect("plan").len();
        let mapping = Mapping::anonymous(bytes as usize).expect("memory");
        Self { cx: Cx::new(Native::new(mapping), HostId(0), WorkerId(0), 1), bytes }
    }

    fn formatted(config: &PodConfig) -> Self {
        let memory = Self::new(config);
        memory.format(config, FormatOver::Zeros).expect("format");
        memory
    }

    fn format(&self, config: &PodConfig, over: FormatOver) -> Result<Plan, PodError> {
        format(&self.cx, config, self.bytes, over)
    }

    fn open(&self) -> Result<Plan, PodError> {
        open(&self.cx, self.bytes)
    }

    /// Changes the superblock and makes its checksum right again if `seal`.
    fn change(&self, seal: bool, change: impl Fn(&mut Superblock)) {
        let mut block: Superblock = self.cx.refresh_layout(SUPERBLOCK);
        change(&mut block);
        if seal {
            block.checksum = block.computed_checksum();
        }
        self.cx.publish_layout(SUPERBLOCK, &block);
    }
}

#[test]
fn what_is_formatted_can_be_opened() {
    for hosts in [1, 3, 16] {
        let config = PodConfig { sync_mode: SyncMode::Pcc, ..PodConfig::new(hosts, 2, 1 << 20, 64 << 20) };
        let memory = Memory::formatted(&config);
        let plan = memory.open().expect("open");
        assert_eq!(plan, Plan::new(&config).expect("plan"));
        assert_eq!(open_as(&memory.cx, memory.bytes, &config), Ok(plan));
    }
}

#[test]
fn memory_without_a_pod_is_told_from_one_that_is_being_made() {
    let memory = Memory::new(&PodConfig::small(2, 1));
    assert_eq!(memory.open(), Err(PodError::NotAPod { found: 0 }));
    memory.cx.store(Plan::SUPERBLOCK_STATE, 77);
    assert_eq!(memory.open(), Err(PodError::NotAPod { found: 77 }));
    memory.cx.store(Plan::SUPERBLOCK_STATE, FORMATTING);
    assert_eq!(memory.open(), Err(PodError::StillFormatting));
}

#[test]
fn a_pod_is_not_formatted_over_by_mistake() {
    let config = PodConfig::small(2, 1);
    let memory = Memory::formatted(&config);
    assert_eq!(memory.format(&config, FormatOver::Zeros), Err(PodError::AlreadyFormatted));
    assert_eq!(memory.format(&config, FormatOver::Unknown), Err(PodError::AlreadyFormatted));
    let dirty = Plan::new(&config).expect("plan").membership(HostId(1)).word(3);
    memory.cx.store(dirty, 9);
    let other = PodConfig { lane_slots: 32, ..config };
    memory.format(&other, FormatOver::OldPod).expect("format");
    assert_eq!(memory.cx.load(dirty), 0, "old sync words are cleared");
    assert_eq!(memory.open().expect("open").config(), &other);
}

#[test]
fn memory_of_unknown_contents_is_cleared() {
    let config = PodConfig::small(2, 1);
    let memory = Memory::new(&config);
    for offset in (4096..Plan::new(&config).expect("plan").sync_end()).step_by(8) {
        memory.cx.store(SyncAddr::new(offset), offset);
    }
    assert_eq!(memory.format(&config, FormatOver::Zeros), Err(PodError::NotZero { found: 4096 }));
    let plan = memory.format(&config, FormatOver::Unknown).expect("format");
    let words = (4104..plan.sync_end()).step_by(8);
    assert!(words.map(SyncAddr::new).all(|word| memory.cx.load(word) == 0));
    assert_eq!(memory.open(), Ok(plan));
}

#[test]
fn a_format_that_was_cut_short_can_be_repeated() {
    let config = PodConfig::small(2, 1);
    let memory = Memory::new(&config);
    memory.cx.store(Plan::SUPERBLOCK_STATE, FORMATTING);
    assert_eq!(memory.format(&config, FormatOver::Unknown), Err(PodError::StillFormatting));
    memory.format(&config, FormatOver::OldPod).expect("format");
    memory.open().expect("open");
}

#[test]
fn small_memory_is_refused_before_it_is_touched() {
    let config = PodConfig::small(2, 1);
    let memory = Memory::formatted(&config);
    let needed = memory.bytes;
    let short = needed - 64;
    assert_eq!(open(&memory.cx, short), Err(PodError::TooSmall { len: short, needed }));
    assert_eq!(open(&memory.cx, 4096), Err(PodError::TooSmall { len: 4096, needed: 4160 }));
    let format = format(&memory.cx, &config, short, FormatOver::OldPod);
    assert_eq!(format, Err(PodError::TooSmall { len: short, needed }));
    memory.open().expect("untouched");
}

#[test]
fn another_configuration_is_named_field_by_field() {
    let config = PodConfig::small(3, 2);
    let memory = Memory::formatted(&config);
    let refused = |other: PodConfig| match open_as(&memory.cx, memory.bytes, &other) {
        Err(PodError::OtherConfiguration { field, found, expected }) => (field, found, expected),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(PodConfig { hosts: 2, ..config.clone() }), ("hosts", 3, 2));
    assert_eq!(refused(PodConfig { partitions: 7, ..config.clone() }), ("partitions", 3, 7));
    assert_eq!(refused(PodConfig { sync_mode: SyncMode::Pcc, ..config.clone() }), ("sync_mode", 1, 2));
    assert_eq!(refused(PodConfig { content_hash: 9, ..config.clone() }), ("content_hash", 0, 9));
    let message = open_as(&memory.cx, memory.bytes, &PodConfig { lane_slots: 32, ..config }).unwrap_err();
    assert_eq!(
        message.to_string(),
        "this pod has lane_slots = 16, this host is configured with 32: configure all hosts alike"
    );
}

#[test]
fn every_damaged_bit_is_noticed() {
    let memory = Memory::formatted(&PodConfig::small(2, 1));
    for bit in 0..size_of::<Superblock>() * 8 {
        let flip = |block: &mut Superblock| block.as_mut_bytes()[bit / 8] ^= 1 << (bit % 8);
        memory.change(false, flip);
        match memory.open() {
            Err(PodError::Damaged { .. }) => {}
            Err(PodError::OtherVersion { .. }) => assert!((64..96).contains(&bit)),
            other => panic!("bit {bit}: {other:?}"),
        }
        memory.change(false, flip);
    }
    memory.open().expect("whole again");
}

#[test]
fn other_versions_and_layouts_are_refused() {
    let memory = Memory::formatted(&PodConfig::small(2, 1));
    memory.change(false, |block| block.version = FORMAT_VERSION + 1);
    let (oldest, newest) = (OLDEST_VERSION, FORMAT_VERSION);
    assert_eq!(memory.open(), Err(PodError::OtherVersion { found: newest + 1, oldest, newest }));
    memory.change(false, |block| block.version = OLDEST_VERSION - 1);
    assert_eq!(memory.open(), Err(PodError::OtherVersion { found: oldest - 1, oldest, newest }));
    memory.change(true, |block| {
        block.version = FORMAT_VERSION;
        block.regions[3].bytes += 64;
    });
    let refused = memory.open().unwrap_err().to_string();
    assert!(refused.contains("the end of Membership"), "{refused}");
    memory.change(true, |block| {
        block.regions[3].bytes -= 64;
        block.config.hosts = 0;
    });
    assert!(matches!(memory.open(), Err(PodError::Plan(_))));
}

#[test]
fn what_is_reserved_and_features_that_are_not_known_are_refused() {
    let memory = Memory::formatted(&PodConfig::small(2, 1));
    memory.change(true, |block| block.features = 1 << 9);
    assert_eq!(memory.open(), Err(PodError::UnknownFeatures { unknown: 1 << 9 }));
    type Change = fn(&mut Superblock, u64);
    let reserved: [Change; 4] = [
        |block, value| block.reserved[2] = value,
        |block, value| block.config.reserved_byte = value as u8,
        |block, value| block.config.reserved[0] = value,
        |block, value| block.config.reserved[6] = value,
    ];
    memory.change(true, |block| block.features = 0);
    for change in reserved {
        memory.change(true, |block| change(block, 5));
        let what = "what the superblock reserves";
        assert_eq!(memory.open(), Err(PodError::Damaged { what, found: 5, expected: 0 }));
        memory.change(true, |block| change(block, 0));
    }
    memory.open().expect("whole again");
}

/// It changes with the version, and with nothing else.
#[test]
fn the_bytes_of_a_superblock_are_those_of_its_version() {
    let config = PodConfig { content_hash: 0x1234_5678, ..PodConfig::small(3, 2) };
    let block = Superblock::of(&Plan::new(&config).expect("plan"));
    assert_eq!((FORMAT_VERSION, block.agreement, block.checksum), (9, 0x70e5_e10d, 0x8d2c_9495));
}

#[test]
fn of_several_formatters_one_wins() {
    let config = PodConfig::small(2, 1);
    let bytes = Plan::new(&config).expect("plan").len();
    for seed in 0..20 {
        let mapping = Mapping::anonymous(bytes as usize).expect("memory");
        let outcome = run_hosts(&mapping, SyncMode::Hwcc, 2, 2, seed, |cx| {
            let made = format(cx, &config, bytes, FormatOver::Zeros);
            loop {
                match open(cx, bytes) {
                    Ok(_) => return made.is_ok(),
                    Err(PodError::StillFormatting) => cx.pause(),
                    Err(other) => panic!("{other}"),
                }
            }
        });
        let winners = outcome.into_iter().filter(|won| *won.as_ref().expect("no panic")).count();
        assert_eq!(winners, 1);
    }
}
