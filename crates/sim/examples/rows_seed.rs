//! Replays one seed of the random row-engine runs: `rows_seed SEED [KEY-WORD]` prints its outcome, and the
//! transactions that touched the key.

use liger_sim::rows::{RowsRun, run};

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().expect("a number"));
    let seed = args.next().expect("a seed");
    let plan = RowsRun::from_seed(seed);
    println!("{plan:?}");
    let result = run(&plan);
    println!("{} committed, {} conflicts, moves {:?}", result.committed, result.conflicts, result.moves);
    result.problems.iter().for_each(|problem| println!("{problem}"));
    if let Some(word) = args.next() {
        for txn in &result.history.transactions {
            let text = format!("{txn}");
            if text.contains(&word.to_string()) {
                print!("{text}");
            }
        }
    }
}
