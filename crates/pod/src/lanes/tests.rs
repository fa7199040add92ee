//! Tests of `lanes` on native memory, one process.

use super::*;
use crate::plan::PodConfig;
use crate::testing::{Numbers, TestPod};

fn config() -> PodConfig {
    PodConfig::small(3, 4)
}

fn to_host(host: u8, incarnation: u16) -> Addressee {
    Addressee::of(HostId(host), incarnation)
}

fn message(number: u32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (number as usize * 31 + i) as u8).collect()
}

#[test]
fn messages_arrive_in_order_over_many_laps() {
    let pod = TestPod::new(&config());
    let (a, b) = (pod.cx(0, 0), pod.cx(2, 0));
    let (sending, receiving) = (Lanes::new(&a, &pod.plan, 1), Lanes::new(&b, &pod.plan, 1));
    let (mut sent, mut received) = (0, 0);
    while received < 500 {
        while a.random_below(4) > 0 {
            let len = a.random_below(sending.max_message() as u64 + 1) as usize;
            match sending.try_send(&a, to_host(2, 1), &message(sent, len)) {
                Ok(()) => sent += 1,
                Err(SendError::Full { .. }) => break,
                Err(e) => panic!("{e}"),
            }
        }
        receiving.poll(&b, |from, bytes| {
            assert_eq!(from, (HostId(0), 1));
            assert_eq!(bytes, message(received, bytes.len()));
            received += 1;
        });
        assert!(!receiving.has_mail(&b));
        assert_eq!(sent, received);
    }
}

#[test]
fn a_full_lane_says_so_and_works_again() {
    let pod = TestPod::new(&config());
    let (a, b) = (pod.cx(0, 0), pod.cx(1, 0));
    let (sending, receiving) = (Lanes::new(&a, &pod.plan, 1), Lanes::new(&b, &pod.plan, 1));
    // 16 slots of 64 bytes; each message takes 3.
    let sent = (0..).take_while(|&i| sending.try_send(&a, to_host(1, 1), &message(i, 130)).is_ok()).count();
    assert_eq!(sent, 5);
    let error = sending.try_send(&a, to_host(1, 1), &message(0, 130)).unwrap_err();
    assert_eq!(error.to_string(), "lane to host 1 is full: 3 slots needed, 1 free");
    assert!(sending.try_send(&a, to_host(1, 1), b"fits").is_ok());
    assert!(receiving.has_mail(&b));
    assert_eq!(receiving.poll(&b, |_, _| ()), 6);
    assert!(sending.try_send(&a, to_host(1, 1), &message(0, 130)).is_ok());
    let error = sending.try_send(&a, to_host(1, 1), &[0; 501]).unwrap_err();
    assert_eq!(error, SendError::TooLong { len: 501, max: 500 });
}

#[test]
fn idle_polls_cost_one_load_per_other_host() {
    let pod = TestPod::new(&config());
    let (a, b) = (pod.cx(0, 0), pod.cx(1, 0));
    let (sending, receiving) = (Lanes::new(&a, &pod.plan, 1), Lanes::new(&b, &pod.plan, 1));
    let before = b.counts();
    receiving.poll(&b, |_, _| ());
    let idle = b.counts().since(&before);
    assert_eq!((idle.sync_loads, idle.sync_stores, idle.fences), (2, 0, 0));
    let before = a.counts();
    (0..3).for_each(|i| sending.try_send(&a, to_host(1, 1), &message(i, 40)).unwrap());
    let sent = a.counts().since(&before);
    assert_eq!((sent.sync_loads, sent.sync_stores, sent.sync_swaps), (0, 3, 0));
    let before = b.counts();
    assert_eq!(receiving.poll(&b, |_, _| ()), 3);
    let batch = b.counts().since(&before);
    assert_eq!((batch.sync_stores, batch.fences, batch.lines_invalidated), (1, 2, 3));
}

#[test]
fn an_earlier_life_neither_speaks_nor_is_spoken_to() {
    let pod = TestPod::new(&config());
    let (a, b) = (pod.cx(0, 0), pod.cx(1, 0));
    let (old, receiving) = (Lanes::new(&a, &pod.plan, 0xffff), Lanes::new(&b, &pod.plan, 1));
    old.try_send(&a, to_host(1, 1), b"old").unwrap();
    let new = Lanes::new(&a, &pod.plan, 0);
    new.try_send(&a, to_host(1, 1), b"new").unwrap();
    receiving.drop_before(HostId(0), 0);
    let mut got = Vec::new();
    assert_eq!(receiving.poll(&b, |_, m| got.push(m.to_vec())), 1);
    assert_eq!(got, [b"new"]);
    receiving.try_send(&b, to_host(0, 6), b"to the dead").unwrap();
    let newer = Lanes::new(&a, &pod.plan, 7);
    assert_eq!(newer.poll(&a, |_, _| ()), 0);
    receiving.try_send(&b, to_host(0, 7), b"to the living").unwrap();
    assert_eq!(newer.poll(&a, |_, m| assert_eq!(m, b"to the living")), 1);
    receiving.try_send(&b, to_host(0, 6), b"to the dead").unwrap();
    receiving.try_send(&b, to_host(0, 8), b"to who comes next").unwrap();
    assert_eq!(newer.poll(&a, |_, _| ()), 0, "each incarnation has its own mail");
}

#[test]
fn mail_that_is_sent_before_a_life_has_lanes_waits_for_it() {
    let pod = TestPod::new(&config());
    let (a, b) = (pod.cx(0, 0), pod.cx(1, 0));
    let sending = Lanes::new(&a, &pod.plan, 1);
    for (to, text) in [(1, "to the incarnation before"), (2, "early"), (1, "late"), (2, "early, too")] {
        sending.try_send(&a, to_host(1, to), text.as_bytes()).unwrap();
    }
    sending.try_send(&a, Addressee::any(HostId(1)), b"to whoever comes").unwrap();
    let receiving = Lanes::new(&b, &pod.plan, 2);
    let mut got = Vec::new();
    assert_eq!(receiving.poll(&b, |_, m| got.push(String::from_utf8(m.to_vec()).unwrap())), 3);
    assert_eq!(got, ["early", "early, too", "to whoever comes"]);
    assert!(!receiving.has_mail(&b));
}

/// Real threads: two workers per host, each sends numbered messages to both other hosts and counts what
/// arrives.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test on the native backend runs real threads")]
fn many_threads_lose_and_duplicate_nothing() {
    const EACH: u64 = 2000;
    let pod = TestPod::new(&config());
    let lanes: Vec<Lanes> = (0..3).map(|h| Lanes::new(&pod.cx(h, 0), &pod.plan, 1)).collect();
    let seen: Vec<Latch<Vec<u64>>> = (0..3).map(|_| Latch::default()).collect();
    std::thread::scope(|scope| {
        for worker in 0..6u8 {
            let (pod, lanes, seen) = (&pod, &lanes, &seen);
            scope.spawn(move || {
                let cx = pod.cx(worker / 2, worker % 2);
                let mine = &lanes[cx.host().0 as usize];
                let drain = || {
                    mine.poll(&cx, |_, m| {
                        let number = u64::from_le_bytes(m[..8].try_into().unwrap());
                        assert!(m[8..].iter().all(|&b| b == number as u8));
                        seen[cx.host().0 as usize].lock(&cx).push(number);
                    })
                };
                for i in 0..EACH {
                    let number = u64::from(worker) << 32 | i;
                    let mut bytes = number.to_le_bytes().to_vec();
                    bytes.resize(8 + cx.random_below(200) as usize, number as u8);
                    for to in mine.others() {
                        while mine.try_send(&cx, Addressee::any(to), &bytes).is_err() {
                            drain();
                            cx.pause();
                        }
                    }
                }
                while seen[cx.host().0 as usize].lock(&cx).len() < 4 * EACH as usize {
                    drain();
                    cx.pause();
                }
            });
        }
    });
    for (host, seen) in seen.into_iter().enumerate() {
        let mut seen = seen.into_inner();
        seen.sort_unstable();
        let others = (0..6u64).filter(|w| *w as usize / 2 != host);
        let expected: Vec<u64> = others.flat_map(|w| (0..EACH).map(move |i| w << 32 | i)).collect();
        assert_eq!(seen, expected);
    }
}

#[test]
fn damaged_frames_and_words_lose_mail_and_nothing_else() {
    let mut numbers = Numbers(3);
    for round in 0..2000 {
        let pod = TestPod::new(&config());
        let (a, b, c) = (pod.cx(0, 0), pod.cx(1, 0), pod.cx(2, 0));
        let (sending, receiving) = (Lanes::new(&a, &pod.plan, 1), Lanes::new(&b, &pod.plan, 1));
        let other = Lanes::new(&c, &pod.plan, 1);
        let laps = numbers.below(40);
        for number in 0..laps as u32 {
            sending.try_send(&a, to_host(1, 1), &message(number, 40)).expect("the lane is empty");
            assert_eq!(receiving.poll(&b, |_, _| ()), 1);
        }
        for number in 0..3 {
            sending.try_send(&a, to_host(1, 1), &message(number, 100)).expect("there is room");
        }
        other.try_send(&c, to_host(1, 1), b"whole").expect("there is room");
        let (tail, head) =
            (tail_word(&pod.plan, HostId(0), HostId(1)), head_word(&pod.plan, HostId(0), HostId(1)));
        let which = numbers.below(3);
        let slot = laps + 2 * which;
        let [(frame, _), _] = receiving.pieces(HostId(0), HostId(1), slot, FRAME_BYTES);
        let bad = numbers.draw() >> numbers.below(64);
        let is_noticed = match round % 4 {
            // The length: what it hides is dropped.
            0 => {
                b.write(frame, &(bad as u32).to_le_bytes());
                // A length of whole messages hides them.
                let slots = (FRAME_BYTES as u64 + u64::from(bad as u32)).div_ceil(64);
                slots % 2 == 1 || slots > 2 * (3 - which)
            }
            1 => {
                b.write(frame.byte(8), &(bad as u32).to_le_bytes());
                u64::from(bad as u32) != slot / 16
            }
            2 => {
                b.store(tail, bad);
                bad.wrapping_sub(laps) > 16
            }
            _ => {
                b.store(head, bad);
                false
            }
        };
        let mut got = Vec::new();
        receiving.poll(&b, |_, bytes| got.push(bytes.to_vec()));
        assert!(got.iter().any(|bytes| bytes == b"whole"), "round {round}: another lane's mail");
        assert!(!is_noticed || receiving.damage().is_some(), "round {round}: {bad:#x}");
        // Whatever the head says, the sender goes on; and whoever reads finds what it has written over.
        (0..40).for_each(|n| _ = sending.try_send(&a, to_host(1, 1), &message(n, 40)));
        receiving.poll(&b, |_, _| ());
        assert!(Lanes::new(&a, &pod.plan, 2).try_send(&a, to_host(1, 1), &[]).is_ok() || round % 4 > 1);
    }
}
