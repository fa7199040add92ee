//! The index in memory that is full most of the time: what cannot be done changes nothing, and what stopped
//! half way is done when there is room.

use std::cell::RefCell;

use liger_fabric::{DataAddr, HostId, WorkerId};
use liger_pod::heap::{BlockClass, MAX_BLOCK_BYTES};
use liger_store::bwtree::TreeError;

use super::index::{Shape, Worker, build, config, key, plan, tree};
use super::{LeftOut, Ran, Scenario};

/// One writer, which also takes the memory away and gives it back, and a reader or none.
pub const SCENARIOS: &[Scenario] = &[Scenario { name: "index-full-memory", run: full_memory }];

/// Blocks that leave no room for a record: whole chunks, and all that is free in chunks of small blocks.
struct Hog<'a> {
    worker: &'a Worker<'a>,
    held: RefCell<Vec<(DataAddr, usize)>>,
}

/// Sizes of these blocks in bytes: chunks first, then those of records.
const SIZES: [usize; 9] = [MAX_BLOCK_BYTES, 64, 128, 192, 256, 320, 384, 448, 512];

impl Hog<'_> {
    /// Takes all there is.
    fn take(&self) {
        let (cx, heap) = (self.worker.cx, self.worker.host.heap());
        for len in SIZES {
            let block = || heap.alloc(cx, BlockClass::Scratch, len).ok().map(|at| (at, len));
            self.held.borrow_mut().extend(std::iter::from_fn(block));
        }
    }

    /// Gives so many blocks back, of any sizes.
    fn give(&self, blocks: usize) {
        let (cx, heap) = (self.worker.cx, self.worker.host.heap());
        let mut held = self.held.borrow_mut();
        for _ in 0..blocks.min(held.len()) {
            let any = cx.random_below(held.len() as u64) as usize;
            let (at, len) = held.swap_remove(any);
            heap.free(cx, BlockClass::Scratch, at, len);
        }
    }
}

/// Changes a key, if there is room. A key whose insert failed is absent, one whose removal failed is present.
fn write(worker: &Worker<'_>, number: u64) {
    let (cx, key, state) = (worker.cx, key(worker.shape.width, number), worker.state(number));
    let (round, host) = (state / 4 * 4, worker.host.tree());
    worker.set_state(number, state | 1);
    if state % 4 == 0 {
        match worker.tree.insert(cx, &host, &key, round + 2) {
            Ok(true) => worker.set_state(number, round + 2),
            Err(TreeError::OutOfMemory(_)) => worker.set_state(number, round + 4),
            other => panic!("inserting key {number}: {other:?}"),
        }
    } else {
        match worker.tree.remove(cx, &host, &key) {
            Ok(Some(value)) if value == round + 2 => worker.set_state(number, round + 4),
            Err(TreeError::OutOfMemory(_)) => {}
            other => panic!("removing key {number}: {other:?}"),
        }
    }
}

fn run_writer(worker: &Worker<'_>) {
    let (cx, shape) = (worker.cx, &worker.shape);
    let hog = Hog { worker, held: RefCell::default() };
    for step in 0..shape.steps {
        match cx.random_below(12) {
            0 => hog.take(),
            1 => hog.give(1 + cx.random_below(8) as usize),
            2 => worker.read(cx.random_below(shape.keys)),
            3 => worker.scan(),
            _ => write(worker, (cx.random_below(shape.keys / 2 + 1) + step / 6) % shape.keys),
        }
        if cx.random_below(4) == 0 {
            worker.collect();
        }
    }
    hog.give(usize::MAX);
}

fn full_memory(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let shape = Shape { steps: 120, ..Shape::of_seed(1, (seed % 2) as u8, seed) };
    let (mut sim, notes, hosts) = build(config(&shape, seed, left_out), &shape);
    let tree = tree(&plan(&shape), &shape);
    for (h, host) in hosts.into_iter().enumerate() {
        let (shape, notes) = (shape.clone(), notes.clone());
        sim.spawn(HostId(h as u8), WorkerId(0), move |cx| {
            let worker = Worker { cx, host, tree, shape, notes };
            match h {
                0 => run_writer(&worker),
                _ => worker.run(None),
            }
            worker.finish();
        });
    }
    Ran::new(sim.run(), || Ok(()))
}
