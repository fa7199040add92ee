//! Tests of `native` on native memory, one process.

use super::*;
use crate::cx::{Cx, HostId, WorkerId};

const MODES: [SyncMode; 2] = [SyncMode::Hwcc, SyncMode::Pcc];

fn context(mapping: &Arc<Mapping>, mode: SyncMode) -> Cx<Native> {
    Cx::new(Native::with_sync_mode(mapping.clone(), mode), HostId(0), WorkerId(0), 7)
}

#[test]
fn sync_words_behave_alike_in_both_modes() {
    for mode in MODES {
        let cx = context(&Mapping::anonymous(4096).expect("memory"), mode);
        let word = SyncAddr::new(128);
        assert_eq!(cx.load(word), 0);
        cx.store(word, 4);
        assert_eq!(cx.compare_exchange(word, 3, 9), Err(4));
        assert_eq!(cx.compare_exchange(word, 4, 9), Ok(4));
        assert_eq!(cx.fetch_add(word, 1), 9);
        assert_eq!((cx.load(word), cx.load(word.word(1))), (10, 0));
    }
}

#[test]
fn swaps_of_two_workers_are_not_lost_in_either_mode() {
    for mode in MODES {
        let mapping = Mapping::anonymous(4096).expect("memory");
        let add = |cx: &Cx<Native>| {
            for _ in 0..2000 {
                cx.fetch_add(SyncAddr::new(0), 1);
            }
        };
        let ended = run_hosts(&mapping, mode, 1, 2, 1, add);
        assert!(ended.iter().all(Result::is_ok));
        assert_eq!(context(&mapping, mode).load(SyncAddr::new(0)), 4000, "{mode}");
    }
}

#[test]
fn a_published_message_arrives_whole() {
    const ROUNDS: u64 = 500;
    for mode in MODES {
        let mapping = Mapping::anonymous(1 << 16).expect("memory");
        let (turn, data) = (SyncAddr::new(0), DataAddr::new(4096 + 17));
        let play = |cx: &Cx<Native>| {
            let me = u64::from(cx.worker().0);
            for round in 0..ROUNDS {
                while cx.load(turn) != 2 * round + me {
                    cx.pause();
                }
                let mut seen = [0; 300];
                if me == 1 {
                    cx.refresh(data, &mut seen);
                    assert_eq!(seen, [round as u8; 300]);
                } else {
                    cx.publish(data, &[round as u8; 300]);
                }
                cx.store(turn, 2 * round + me + 1);
            }
        };
        for ended in run_hosts(&mapping, mode, 1, 2, 1, play) {
            ended.expect("no mismatch");
        }
    }
}

#[test]
fn copies_of_every_length_and_alignment_are_exact() {
    let cx = context(&Mapping::anonymous(4096).expect("memory"), SyncMode::Hwcc);
    let pattern: Vec<u8> = (0..200).map(|i| i as u8 ^ 0x5a).collect();
    for len in 0..=pattern.len() {
        for start in [0, 1, 7, 63] {
            cx.write(DataAddr::new(start), &[0; 300]);
            cx.publish(DataAddr::new(start + 2), &pattern[..len]);
            let mut out = vec![0xff; len + 4];
            cx.refresh(DataAddr::new(start), &mut out);
            assert_eq!(out[..2], [0, 0]);
            assert_eq!(out[2..len + 2], pattern[..len]);
            assert_eq!(out[len + 2..], [0, 0]);
        }
    }
}

#[test]
fn an_access_beyond_the_memory_is_stopped() {
    let mapping = Mapping::anonymous(4096).expect("memory");
    let beyond = |access: &(dyn Fn(&Cx<Native>) + Sync)| {
        let ended = run_hosts(&mapping, SyncMode::Hwcc, 1, 1, 1, |cx| access(cx));
        ended[0].as_ref().is_err_and(|panic| panic.message.contains("beyond the pod's 0x1000 bytes"))
    };
    assert!(beyond(&|cx| cx.store(SyncAddr::new(4096), 1)));
    assert!(beyond(&|cx| cx.write(DataAddr::new(4090), &[0; 7])));
    assert!(beyond(&|cx| cx.read(DataAddr::new(u64::MAX - 3), &mut [0; 8])));
    assert!(beyond(&|cx| cx.write_back(DataAddr::new(4095), 2)));
    assert!(beyond(&|cx| cx.invalidate(DataAddr::new(0), usize::MAX)));
    assert!(!beyond(&|cx| cx.write(DataAddr::new(4090), &[0; 6])));
}

#[test]
fn time_goes_forward_across_workers() {
    let cx = context(&Mapping::anonymous(64).expect("memory"), SyncMode::Hwcc);
    let before = cx.now_ns();
    for _ in 0..200 {
        cx.pause();
    }
    assert!(cx.now_ns() > before);
}
