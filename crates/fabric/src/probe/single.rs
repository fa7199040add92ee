//! What one worker's verbs and instructions take; and streams of one worker and of all processors.

use std::hint::black_box;
use std::sync::Arc;

use super::findings::Recorder;
use super::machine::Machine;
use super::{LEAST_BYTES, context};
use crate::addr::{DataAddr, LINE, SyncAddr};
use crate::cx::{Cx, HostId};
use crate::fabric::Fabric;
use crate::native::{LineInstruction, Mapping, Native, NativeHost, run_workers};
use crate::sync_mode::SyncMode;

/// Calls of a batch.
const CALLS: u64 = 512;
/// From one place to the next: another page and another set of the near caches.
const STRIDE: u64 = 4096 + LINE as u64;
/// Bytes that a stream moves with one call, and in one batch.
const BLOCK: usize = 16 << 10;
const STREAMED: u64 = 4 << 20;

/// The place of call number `call`, which is in bounds of the least memory there may be.
// Calls go to places of their own, in the least memory that is measured; a stream is whole blocks.
const _: () = assert!(CALLS * STRIDE <= LEAST_BYTES && STREAMED.is_multiple_of(BLOCK as u64));
const _: () = assert!(STRIDE.is_multiple_of(LINE as u64) && BLOCK.is_multiple_of(LINE));

fn place(call: u64) -> u64 {
    call % CALLS * STRIDE
}

/// A batch of calls on one place (hot) or on as many as calls (spread).
fn batch(cx: &Cx<Native>, spread: bool, verb: impl Fn(u64)) -> (u64, u64) {
    let start = cx.now_ns();
    for call in 0..CALLS {
        verb(if spread { place(call) } else { LINE as u64 });
    }
    (cx.now_ns() - start, CALLS)
}

/// Verbs that are served from the cache.
pub(super) fn words(cx: &Cx<Native>, to: &mut Recorder) {
    to.time_calls("cached_read_64", || {
        batch(cx, false, |at| cx.read(DataAddr::new(at), black_box(&mut [0; 64])))
    });
    to.time_calls("word_load_hit", || batch(cx, false, |at| _ = black_box(cx.load(SyncAddr::new(at)))));
    to.time_calls("swap_owned", || {
        batch(cx, false, |at| _ = black_box(cx.compare_exchange(SyncAddr::new(at), 0, 0)))
    });
    to.time_calls("fence_idle", || batch(cx, false, |_| cx.fence()));
    to.time_calls("pause", || batch(cx, false, |_| std::hint::spin_loop()));
}

/// Sync words past the cache.
pub(super) fn bypassing(cx: &Cx<Native>, to: &mut Recorder) {
    to.time_calls("pload", || batch(cx, true, |at| _ = black_box(cx.load(SyncAddr::new(at)))));
    to.time_calls("pstore_fence", || {
        batch(cx, true, |at| {
            cx.store(SyncAddr::new(at), at);
            cx.fence();
        })
    });
    to.time_calls("pcas", || {
        batch(cx, true, |at| _ = black_box(cx.compare_exchange(SyncAddr::new(at), 0, 0)))
    });
}

/// Name of the figure of an instruction and a fence, on a clean or a dirty line.
pub(super) fn line_figure(instruction: LineInstruction, dirty: bool) -> String {
    let state = if dirty { "dirty" } else { "clean" };
    format!("{instruction:?}_{state}_fence").to_lowercase()
}

/// Instructions that move lines out of the cache, one line and a fence at a time; and only begun.
pub(super) fn lines(cx: &Cx<Native>, machine: &Machine, to: &mut Recorder) {
    for instruction in [LineInstruction::Clwb, LineInstruction::Clflushopt, LineInstruction::Clflush] {
        for dirty in [false, true] {
            let name = line_figure(instruction, dirty);
            if !machine.instructions.contains(&instruction) {
                to.missing(&name, "this processor does not have the instruction");
                continue;
            }
            to.time_calls(&name, || {
                prepare(cx, dirty);
                batch(cx, true, |at| {
                    cx.fabric().run_on_lines(DataAddr::new(at), LINE, instruction);
                    cx.fence();
                })
            });
        }
    }
    to.time_calls("write_back_begun", || {
        prepare(cx, false);
        let timed = batch(cx, true, |at| cx.write_back(DataAddr::new(at), LINE));
        cx.fence();
        timed
    });
    to.time_calls("refresh_64", || {
        prepare(cx, false);
        batch(cx, true, |at| {
            cx.refresh(DataAddr::new(at), black_box(&mut [0; 64]));
            cx.fence();
        })
    });
}

/// Brings the lines of a batch into the cache, changed or as they are.
fn prepare(cx: &Cx<Native>, dirty: bool) {
    for call in 0..CALLS {
        let mut word = [0; 8];
        cx.read(DataAddr::new(place(call)), &mut word);
        black_box(&word);
        if dirty {
            cx.write(DataAddr::new(place(call)), &call.to_le_bytes());
        }
    }
    cx.fence();
}

/// Bandwidth of sequential reads and writes.
pub(super) fn streams(memory: &Arc<Mapping>, to: &mut Recorder) {
    let processors = crate::native::allowed_processors().len().clamp(1, 32) as u8;
    for (what, writes) in [("read", false), ("write", true)] {
        let one = format!("stream_{what}_one_core");
        let (cx, mut at) = (context(memory, SyncMode::Hwcc), 0);
        to.repeat(&one, "GB/s", || {
            let start = cx.now_ns();
            at = stream(&cx, at, (0, memory.len() as u64), writes, STREAMED);
            STREAMED as f64 / (cx.now_ns() - start).max(1) as f64
        });
        let all = format!("stream_{what}_all_cores");
        if processors == 1 {
            to.missing(&all, "this process may use one processor only: one core is all");
            continue;
        }
        let batches = together(memory, processors, writes, to.share().as_nanos() as u64);
        to.record(&all, "GB/s", batches);
    }
}

/// Moves `bytes` from `at` on, round and round in a part of the memory; returns where it ended.
fn stream<F: Fabric>(cx: &Cx<F>, mut at: u64, part: (u64, u64), writes: bool, bytes: u64) -> u64 {
    assert!(part.0 <= at && at <= part.1 && part.1 - part.0 >= BLOCK as u64, "{at} in {part:?}");
    let mut block = [7; BLOCK];
    for _ in 0..bytes / BLOCK as u64 {
        if at + BLOCK as u64 > part.1 {
            at = part.0;
        }
        if writes {
            cx.write(DataAddr::new(at), black_box(&block));
        } else {
            cx.read(DataAddr::new(at), &mut block);
            black_box(&block);
        }
        at += BLOCK as u64;
    }
    at
}

/// Bandwidth of all processors together, by batch: each is a moment in which all of them are at work.
fn together(memory: &Arc<Mapping>, processors: u8, writes: bool, budget_ns: u64) -> Vec<f64> {
    let host = NativeHost::new(memory.clone(), SyncMode::Hwcc, HostId(0));
    let share = memory.len() as u64 / u64::from(processors) / 4096 * 4096;
    assert!(share >= BLOCK as u64, "{processors} parts of {} bytes", memory.len());
    let by_worker = run_workers(&[host], processors, 1, |cx| {
        let first = u64::from(cx.worker().0) * share;
        let (part, mut at, begin, mut rates) = ((first, first + share), first, cx.now_ns(), Vec::new());
        while rates.len() < 9 || cx.now_ns() - begin < budget_ns {
            let start = cx.now_ns();
            at = stream(cx, at, part, writes, STREAMED);
            rates.push(STREAMED as f64 / (cx.now_ns() - start).max(1) as f64);
        }
        rates
    });
    let by_worker: Vec<Vec<f64>> = by_worker.into_iter().filter_map(Result::ok).collect();
    let batches = by_worker.iter().map(Vec::len).min().unwrap_or(0);
    // The workers' batches of one number are about of one time.
    (0..batches).map(|batch| by_worker.iter().map(|rates| rates[batch]).sum()).collect()
}
