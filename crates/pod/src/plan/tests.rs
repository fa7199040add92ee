//! Plans of small pods, and of numbers that have none.

use super::*;

#[test]
fn a_small_pod_of_three_hosts() {
    let plan = Plan::new(&PodConfig::small(3, 2)).unwrap();
    let expected = "
         0       4096 Data  Superblock
      1000         64 Sync  SuperblockState
      1040         64 Sync  Controller
      1080       1024 Sync  Membership
      1480        384 Sync  Resolved
      1600        384 Sync  Suspicions
      1780         64 Sync  Owners
      17c0        832 Sync  Epochs
      1b00        640 Sync  HeapLines
      1d80       1152 Sync  LaneWords
      2200        192 Sync  Bells
      22c0       2304 Sync  SelftestWords
      2bc0        640 Sync  LogWords
      2e40       4096 Sync  Counters
      3e40        384 Sync  Directory
      3fc0       1024 Sync  WordChunks
      43c0       1024 Sync  BlockChunks
      47c0       1024 Sync  Bonds
      4bc0     507904 Sync  WordHeap
     81000       2304 Data  SelftestData
     81900       9216 Data  LaneSlots
     83d00        768 Data  RetireBatches
     84000      24576 Data  LogRings
     8a000    8323072 Data  BlockHeap
    881000";
    assert_eq!(format!("\n{plan}"), expected);
}

#[test]
fn regions_are_in_order_aligned_and_of_one_kind_on_each_side() {
    for hosts in 1..=16 {
        for config in [
            PodConfig::new(hosts, 31, 200 << 20, 4 << 30),
            PodConfig::new(hosts, 1, 1 << 20, 64 << 20),
            PodConfig { partitions: 64, max_tables: 100, ..PodConfig::new(hosts, 8, 4 << 20, 256 << 20) },
        ] {
            let plan = Plan::new(&config).unwrap();
            assert_eq!(Plan::SUPERBLOCK_STATE.offset(), plan.region(Part::SuperblockState).start);
            let mut end = 0;
            for r in plan.regions() {
                assert!(r.start >= end && r.start.is_multiple_of(64), "{plan}");
                end = r.start + r.bytes;
                let sync = r.start >= SUPERBLOCK_BYTES && r.start < plan.sync_end();
                assert_eq!(r.kind == RegionKind::Sync, sync, "{plan}");
                assert!(r.start >= plan.sync_end() || end <= plan.sync_end(), "{plan}");
            }
            assert!(end <= plan.len());
            let last = plan.directory(config.max_tables - 1, PartitionId(config.partitions - 1));
            assert!(last.offset() < plan.region(Part::WordChunks).start);
        }
    }
}

#[test]
fn rings_follow_one_another_and_a_pod_without_a_log_has_none() {
    let config = PodConfig::small(3, 2);
    let plan = Plan::new(&config).unwrap();
    let (words, rings) = (plan.region(Part::LogWords), plan.region(Part::LogRings));
    let (first, last) = ((HostId(0), WorkerId(0)), (HostId(2), WorkerId(1)));
    assert_eq!(plan.epoch_word().offset(), words.start);
    assert_eq!(plan.log_line(HostId(0)), plan.epoch_word().line(1));
    assert_eq!(plan.ring_line(first.0, first.1), plan.log_line(HostId(2)).line(1));
    assert_eq!(plan.ring_line(last.0, last.1).line(1).offset(), words.start + words.bytes);
    assert_eq!(plan.ring_bytes(first.0, first.1), (DataAddr::new(rings.start), 4096));
    assert_eq!(plan.ring_bytes(last.0, last.1).0.offset() + 4096, rings.start + rings.bytes);
    let without = Plan::new(&PodConfig { log_ring_bytes: 0, ..config }).unwrap();
    assert!(!without.has_log());
    assert_eq!([Part::LogWords, Part::LogRings].map(|part| without.region(part).bytes), [0, 0]);
}

#[test]
fn bad_numbers_are_named() {
    let good = PodConfig::small(2, 2);
    let error = |config: PodConfig| Plan::new(&config).unwrap_err().to_string();
    assert_eq!(error(PodConfig { hosts: 17, ..good.clone() }), "hosts is 17, must be 1 to 16");
    assert_eq!(
        error(PodConfig { lane_slots: 12, ..good.clone() }),
        "lane_slots is 12, must be a power of two"
    );
    assert_eq!(
        error(PodConfig { hwcc_bytes: 5000, ..good.clone() }),
        "hwcc_bytes is 5000, must be a multiple of 4096"
    );
    assert_eq!(
        error(PodConfig { cxl_bytes: 4096, ..good.clone() }),
        "cxl_bytes is 4096 bytes, at least 155648 are needed"
    );
    assert_eq!(
        error(PodConfig { log_ring_bytes: 3000, ..good.clone() }),
        "log_ring_bytes is 3000, must be a power of two"
    );
    assert_eq!(
        error(PodConfig { log_ring_bytes: 512, ..good.clone() }),
        "log_ring_bytes is 512, must be 1024 to 1073741824"
    );
    let needed = match Plan::new(&PodConfig { hwcc_bytes: 4096, ..good.clone() }) {
        Err(PlanError::TooSmall { needed, .. }) => needed,
        other => panic!("{other:?}"),
    };
    assert!(Plan::new(&PodConfig { hwcc_bytes: needed, ..good }).is_ok());
}

#[test]
fn every_number_has_a_range_and_its_ends_are_in_it() {
    type Set = fn(&mut PodConfig, u64);
    const KIB: u64 = 1 << 10;
    let ranges: [(&str, Set, u64, u64); 13] = [
        ("hosts", |config, n| (config.hosts, config.initial_hosts) = (n as u8, 1), 1, 16),
        ("initial_hosts", |config, n| config.initial_hosts = n as u16, 1, 3),
        ("workers", |config, n| config.workers = n as u8, 1, 31),
        ("partitions", |config, n| config.partitions = n as u16, 1, 65_535),
        ("max_tables", |config, n| config.max_tables = n as u16, 1, 65_535),
        ("lane_slots", |config, n| config.lane_slots = n as u32, 4, 1_048_576),
        ("lane_slot_bytes", |config, n| config.lane_slot_bytes = n as u32, 64, 4096),
        ("retire_entries", |config, n| config.retire_entries = n as u32, 1, 32_768),
        ("block_chunk_bytes", |config, n| config.block_chunk_bytes = n as u32, 64 * KIB, KIB * KIB),
        ("hwcc_bytes", |config, n| config.hwcc_bytes = n, 4096, MAX_SYNC_BYTES - SUPERBLOCK_BYTES),
        ("cxl_bytes", |config, n| config.cxl_bytes = n, 4096, KIB * KIB * KIB * KIB),
        ("lease_ns", |config, n| config.lease_ns = n, 1000, KIB * KIB * KIB * KIB),
        ("log_ring_bytes", |config, n| config.log_ring_bytes = n, 1024, KIB * KIB * KIB),
    ];
    for (name, set, min, max) in ranges {
        let with = |value| {
            let mut config = PodConfig::small(2, 2);
            set(&mut config, value);
            config.validate()
        };
        assert_eq!((with(min), with(max)), (Ok(()), Ok(())), "{name}");
        // No bytes for rings are no rings, and a field of 16 bits holds nothing above its greatest number.
        let below = if name == "log_ring_bytes" { 1 } else { min - 1 };
        let above = (max != u64::from(u16::MAX)).then_some(max + 1);
        for value in [Some(below), above].into_iter().flatten() {
            assert_eq!(with(value), Err(PlanError::OutOfRange { name, value, min, max }));
        }
    }
}
