//! What shows only between several workers: contention for a word, and handing a line over.
//!
//! A handover is a store by one and the load by the other that sees it; two of them are a round trip. The
//! partner in another process maps the same memory; each is bound to a processor of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::findings::Recorder;
use super::machine::Machine;
use super::{Partner, context};
use crate::addr::SyncAddr;
use crate::cx::{Cx, HostId};
use crate::fabric::Fabric;
use crate::native::{Mapping, Native, NativeHost, allowed_processors, bind_to, run_workers};
use crate::sync_mode::SyncMode;

/// Whose turn it is: odd the partner's; [`END`] ends the game.
const TURN: SyncAddr = SyncAddr::new(0);
/// The partner has come.
const HERE: SyncAddr = SyncAddr::new(128);
/// The word that all want.
const WANTED: SyncAddr = SyncAddr::new(256);
const END: u64 = u64::MAX;

// Each word has its line and the one beside it, which is fetched with it; the end is the partner's turn.
const _: () = assert!(TURN.offset() + 128 <= HERE.offset() && HERE.offset() + 128 <= WANTED.offset());
const _: () = assert!(END % 2 == 1);

const ROUND_TRIPS: u64 = 500;
/// Calls between two looks at the clock while others want the same word, and the time of one figure.
const CALLS: u64 = 16;
const WINDOW_NS: u64 = 50_000;
/// A partner who is silent for so long is gone.
const PATIENCE_NS: u64 = 5_000_000_000;
/// Loads between two looks at the clock.
const LOOKS: u32 = 1 << 14;

/// Measures what takes two or more.
pub(super) fn measure(memory: &Arc<Mapping>, machine: &Machine, other: &mut dyn Partner, to: &mut Recorder) {
    if machine.processors < 2 {
        let names = ["swap_contended", "pload_contended", "pcas_contended"];
        for name in names.into_iter().chain(["handover_workers", "handover_processes"]) {
            to.missing(name, "this process may use one processor only");
        }
        return;
    }
    let swap = |cx: &Cx<Native>| _ = cx.compare_exchange(WANTED, 0, 0);
    contended("swap_contended", (memory, SyncMode::Hwcc), to, swap);
    contended("pload_contended", (memory, SyncMode::Pcc), to, |cx| _ = cx.load(WANTED));
    contended("pcas_contended", (memory, SyncMode::Pcc), to, swap);
    between_workers(memory, to);
    if let Err(why) = between_processes(memory, other, to) {
        to.missing("handover_processes", why);
    }
}

/// How far a worker is, in a line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Progress(AtomicU64);

/// All processors at one word: what a call of one of them takes meanwhile. Only windows of time count in
/// which the others did about as much: a worker that has lost its processor contends for nothing.
fn contended(
    name: &str,
    (memory, mode): (&Arc<Mapping>, SyncMode),
    to: &mut Recorder,
    verb: impl Fn(&Cx<Native>) + Sync,
) {
    let workers = allowed_processors().len().clamp(2, 31) as u8;
    let host = NativeHost::new(memory.clone(), mode, HostId(0));
    assert!(workers >= 2, "nobody contends with itself");
    let progress: Vec<Progress> = (0..workers).map(|_| Progress::default()).collect();
    let share = to.share().as_nanos() as u64;
    let done = |worker: usize| progress[worker].0.load(Ordering::Relaxed);
    let by_worker = run_workers(&[host], workers, 1, |cx| {
        let me = usize::from(cx.worker().0);
        let (begin, mut windows, mut all) = (cx.now_ns(), 0, Vec::new());
        while windows < 9 || cx.now_ns() - begin < share {
            let before: Vec<u64> = (0..progress.len()).map(done).collect();
            let start = cx.now_ns();
            while cx.now_ns() - start < WINDOW_NS {
                (0..CALLS).for_each(|_| verb(cx));
                progress[me].0.fetch_add(CALLS, Ordering::Relaxed);
            }
            let took_ns = (cx.now_ns() - start) as f64;
            let calls: Vec<u64> = (0..progress.len()).map(|worker| done(worker) - before[worker]).collect();
            windows += 1;
            if calls.iter().all(|others| 2 * others >= calls[me]) {
                all.push(took_ns / calls[me] as f64);
            }
        }
        all
    });
    let all: Vec<f64> = by_worker.into_iter().filter_map(Result::ok).flatten().collect();
    if all.len() < 9 {
        return to.missing(name, "the processors were hardly ever free at the same time");
    }
    to.record(name, "ns", all);
}

fn between_workers(memory: &Arc<Mapping>, to: &mut Recorder) {
    let host = NativeHost::new(memory.clone(), SyncMode::Hwcc, HostId(0));
    clear(&context(memory, SyncMode::Hwcc));
    let share = to.share().as_nanos() as u64;
    let mut played = run_workers(&[host], 2, 1, |cx| {
        if cx.worker().0 == 1 {
            answer(cx);
            return Ok(Vec::new());
        }
        let rounds = play(cx, share, || false);
        cx.store(TURN, END);
        rounds
    });
    match played.swap_remove(0) {
        Ok(Ok(all)) => _ = to.record("handover_workers", "ns", all),
        Ok(Err(why)) => to.missing("handover_workers", why),
        Err(panicked) => to.missing("handover_workers", panicked.to_string()),
    }
}

fn between_processes(
    memory: &Arc<Mapping>,
    other: &mut dyn Partner,
    to: &mut Recorder,
) -> Result<(), String> {
    let cx = context(memory, SyncMode::Hwcc);
    clear(&cx);
    other.start()?;
    let before = rustix::thread::sched_getaffinity(None);
    bind_to(allowed_processors()[0]);
    let rounds = play(&cx, to.share().as_nanos() as u64, || other.has_ended());
    cx.store(TURN, END);
    if let Ok(before) = before {
        // It was allowed before; if it no longer is, the rest runs on one processor.
        let _ = rustix::thread::sched_setaffinity(None, &before);
    }
    to.record("handover_processes", "ns", rounds?);
    Ok(())
}

fn clear(cx: &Cx<Native>) {
    cx.store(TURN, 0);
    cx.store(HERE, 0);
    cx.fence();
}

/// Round trips with a partner: nanoseconds of a handover, by batch.
fn play<F: Fabric>(
    cx: &Cx<F>,
    share_ns: u64,
    mut has_ended: impl FnMut() -> bool,
) -> Result<Vec<f64>, String> {
    await_word(cx, HERE, &mut has_ended, |seen| seen > 0).ok_or("the other process did not come")?;
    let (begin, mut all, mut turn) = (cx.now_ns(), Vec::new(), 0);
    while all.len() < 9 || cx.now_ns() - begin < share_ns {
        let start = cx.now_ns();
        for _ in 0..ROUND_TRIPS {
            debug_assert!(turn % 2 == 0 && turn + 1 != END, "the partner's turns are odd");
            cx.store(TURN, turn + 1);
            turn += 2;
            await_word(cx, TURN, &mut has_ended, |seen| seen == turn)
                .ok_or("the other process ended early")?;
        }
        all.push((cx.now_ns() - start) as f64 / (2 * ROUND_TRIPS) as f64);
    }
    Ok(all)
}

/// Gives every turn back, until the game ends or the other player is gone.
fn answer<F: Fabric>(cx: &Cx<F>) {
    cx.store(HERE, 1);
    while let Some(turn) = await_word(cx, TURN, &mut || false, |seen| seen % 2 == 1) {
        if turn == END {
            return;
        }
        cx.store(TURN, turn + 1);
    }
}

/// The word once it is as wanted; `None` if nobody changes it for long, or the partner has ended.
fn await_word<F: Fabric>(
    cx: &Cx<F>,
    word: SyncAddr,
    has_ended: &mut impl FnMut() -> bool,
    wanted: impl Fn(u64) -> bool,
) -> Option<u64> {
    let start = cx.now_ns();
    loop {
        for _ in 0..LOOKS {
            let seen = cx.load(word);
            if wanted(seen) {
                return Some(seen);
            }
        }
        if has_ended() || cx.now_ns() - start > PATIENCE_NS {
            return None;
        }
        // Perhaps it waits for this processor.
        cx.pause();
    }
}

/// The partner's part, in a process of its own, on the memory of the probe. Ends with the measurement, or
/// when it hears nothing for some seconds.
pub fn partner(memory: &Arc<Mapping>) {
    let processors = allowed_processors();
    if let Some(second) = processors.get(1) {
        bind_to(*second);
    }
    answer(&context(memory, SyncMode::Hwcc));
}
