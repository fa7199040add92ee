//! Reads of memory beyond the caches: one after the other, and several at once.
//!
//! All lines of the memory form one ring in random order, so that no prefetcher knows the next one. A chase
//! follows the ring; several chases of one worker start at different places of it.

use std::hint::black_box;
use std::sync::Arc;

use super::context;
use super::findings::Recorder;
use crate::addr::{LINE, SyncAddr};
use crate::cx::Cx;
use crate::native::{Mapping, Native};
use crate::sync_mode::SyncMode;

/// Reads of one batch, of all chases together.
const STEPS: u64 = 4096;
/// More chases than this are not tried.
const MOST: usize = 32;
/// Another chase has to bring so much more; else it is the bandwidth, or the core has no room for more.
const WORTH: f64 = 1.05;

/// Makes the ring: the first word of each line is the place of the next.
fn tie(memory: &Arc<Mapping>) -> Cx<Native> {
    let cx = context(memory, SyncMode::Hwcc);
    let lines = memory.len() / LINE;
    assert!((2..=u32::MAX as usize).contains(&lines), "a ring of {lines} lines");
    // Sattolo's shuffle: one ring, every one of them equally likely.
    let mut order: Vec<u32> = (0..lines as u32).collect();
    for last in (1..lines).rev() {
        order.swap(last, cx.random_below(last as u64) as usize);
    }
    let place = |line: u32| u64::from(line) * LINE as u64;
    for (at, next) in order.iter().zip(order.iter().cycle().skip(1)) {
        cx.store(SyncAddr::new(place(*at)), place(*next));
    }
    cx
}

/// Latency of dependent reads.
pub(super) fn dependent(name: &str, memory: &Arc<Mapping>, to: &mut Recorder) {
    let cx = tie(memory);
    let mut at = 0;
    to.time_calls(name, || {
        let start = cx.now_ns();
        for _ in 0..STEPS {
            at = cx.load(SyncAddr::new(at));
        }
        debug_assert!(at.is_multiple_of(LINE as u64), "the ring is of lines' starts");
        black_box(at);
        (cx.now_ns() - start, STEPS)
    });
}

/// How many reads one worker has under way at most: chases are added until another brings nothing. The ring
/// is that of [`dependent`].
pub(super) fn parallel(memory: &Arc<Mapping>, to: &mut Recorder) {
    let cx = context(memory, SyncMode::Hwcc);
    let alone = to.median("memory_read").expect("it is measured before");
    let mut best: Option<(usize, f64)> = None;
    let counts = [1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, MOST];
    for chases in counts {
        let rates = rates(&cx, memory.len(), chases, to.share().as_nanos() as u64 / counts.len() as u64);
        let rate = rates[rates.len() / 2];
        if best.is_some_and(|(_, before)| rate < before * WORTH) {
            break;
        }
        best = Some((chases, rate));
        if chases == MOST {
            break;
        }
    }
    let (chases, _) = best.expect("one chase at least");
    // What is under way at a time, by Little's law; a batch's rate times the latency of one alone.
    let under_way = rates(&cx, memory.len(), chases, to.share().as_nanos() as u64);
    to.record("parallel_reads", "lines", under_way.into_iter().map(|rate| (rate * alone).max(1.0)).collect());
}

/// Reads a nanosecond of so many chases, by batch, sorted.
fn rates(cx: &Cx<Native>, len: usize, chases: usize, budget_ns: u64) -> Vec<f64> {
    let lines = (len / LINE) as u64;
    assert!((1..=MOST).contains(&chases) && chases as u64 <= lines, "{chases} chases in {lines} lines");
    let mut at: Vec<u64> = (0..chases as u64).map(|n| n * (lines / chases as u64) * LINE as u64).collect();
    let (begin, mut all) = (cx.now_ns(), Vec::new());
    while all.len() < 9 || cx.now_ns() - begin < budget_ns {
        let steps = STEPS / chases as u64;
        let start = cx.now_ns();
        for _ in 0..steps {
            for place in &mut at {
                *place = cx.load(SyncAddr::new(*place));
            }
        }
        black_box(&at);
        all.push((steps * chases as u64) as f64 / (cx.now_ns() - start).max(1) as f64);
    }
    all.sort_by(f64::total_cmp);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_visits_every_line_once() {
        let memory = Mapping::anonymous(1 << 16).expect("memory");
        let cx = tie(&memory);
        let lines = (1 << 16) / LINE;
        let (mut at, mut seen) = (0, vec![false; lines]);
        for _ in 0..lines {
            at = cx.load(SyncAddr::new(at));
            assert!(!std::mem::replace(&mut seen[at as usize / LINE], true), "twice at {at}");
        }
        assert_eq!(at, 0, "it closes");
    }
}
