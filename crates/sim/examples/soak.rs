//! Adversarial seeds of the random row-engine runs, one after the other, for a time: `soak SECONDS
//! [FIRST-SEED]`.
//!
//! Prints a line a minute and stops at the first finding, whose seed `rows_seed` replays.

use std::time::{Duration, Instant};

use liger_sim::rows::{RowsRun, run};

#[expect(clippy::disallowed_methods, reason = "an outermost program bounds itself in real time")]
fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().expect("a number"));
    let (seconds, first) = (args.next().unwrap_or(60), args.next().unwrap_or(1));
    let (start, mut told) = (Instant::now(), Instant::now());
    let (mut seed, mut verbs, mut switches, mut committed, mut moves) = (first, 0, 0, 0, 0);
    let line = |seed: u64, verbs: u64, switches: u64, committed: u64, moves: u64| {
        let seconds = start.elapsed().as_secs();
        let runs = seed - first;
        println!(
            "{seconds} s: {runs} runs from seed {first}, {verbs} verbs, {switches} switches, \
                {committed} committed, {moves} moves"
        );
    };
    while start.elapsed() < Duration::from_secs(seconds) {
        let result = run(&RowsRun::from_seed(seed));
        if !result.problems.is_empty() {
            println!("seed {seed}:\n{}", result.problems.join("\n"));
            std::process::exit(1);
        }
        seed += 1;
        verbs += result.report.verbs;
        switches += result.report.switches;
        committed += result.committed;
        moves += result.moves.0 + result.moves.1;
        if told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            line(seed, verbs, switches, committed, moves);
        }
    }
    line(seed, verbs, switches, committed, moves);
}
