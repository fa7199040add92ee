//! TPC-C as the driver runs it: its inputs, its transactions, and what they do that the check counts.

use liger_engine::{Transaction, TxnError};

use crate::benchmark::Owned;
use crate::driver::{Effects, RunWorker, Workload};
use crate::random::Rng;
use crate::tpcc::Scale;
use crate::tpcc::generate::{Generator, Homes};
use crate::tpcc::input::{Input, Kind, Mix, Remote};
use crate::tpcc::schema::{Tables, history_id};
use crate::tpcc::{delivery, new_order, order_status, payment, stock_level};

/// Name under which `WorkerStats::acknowledged` counts orders entered.
pub const NEW_ORDERS: &str = "new_orders";
/// Name under which it counts payments made.
pub const PAYMENTS: &str = "payments";
/// Name under which it counts orders delivered.
pub const DELIVERIES: &str = "deliveries";
/// Name under which it counts districts that a Delivery found nothing in.
pub const SKIPPED_DISTRICTS: &str = "skipped_districts";

/// What one worker runs. All workers of a run have the same, except for `homes`.
#[derive(Clone, Debug)]
pub struct TpccWorker {
    /// The tables' numbers.
    pub tables: Tables,
    /// The loaded scale.
    pub scale: Scale,
    /// The loader's seed.
    pub database_seed: u64,
    /// Whose transactions.
    pub mix: Mix,
    /// How many of them are remote.
    pub remote: Remote,
    /// This worker's home warehouses (see [`crate::tpcc::generate::Homes`]).
    pub homes: Vec<i16>,
    /// They follow what its host owns.
    pub follows: Option<Follows>,
}

/// A worker whose home warehouses are those of the partitions that its host owns.
#[derive(Clone, Debug)]
pub struct Follows {
    /// What the host owns.
    pub owned: Owned,
    /// Its number among the host's workers.
    pub worker: usize,
    /// Workers of each host.
    pub workers: usize,
}

/// Inputs that are drawn between two looks at what the host owns.
const LOOK_EVERY: u64 = 32;

/// The warehouse of a partition, of so many.
pub(super) fn warehouse_of(partition: u16, warehouses: i16) -> i16 {
    if partition == 0 { warehouses } else { partition as i16 }
}

impl Follows {
    /// Home warehouses now; empty: the host owns none.
    fn homes(&self, warehouses: i16) -> Vec<i16> {
        let owned = self.owned.now().into_iter();
        let mut owned: Vec<i16> = owned.map(|partition| warehouse_of(partition, warehouses)).collect();
        owned.sort_unstable();
        if owned.is_empty() { owned } else { Homes::Owned.pick(&owned, self.worker, self.workers) }
    }
}

/// A worker's stream of inputs.
#[derive(Debug)]
pub struct Source {
    generator: Generator,
    worker: RunWorker,
    /// Inputs and payments drawn.
    inputs: u64,
    payments: u64,
}

/// An input, and the key of the HISTORY row that it may insert.
#[derive(Debug)]
pub struct Drawn {
    input: Input,
    history: i64,
}

impl Workload for TpccWorker {
    type Source = Source;
    type Input = Drawn;

    const KINDS: &'static [&'static str] = &[
        Kind::NewOrder.name(),
        Kind::Payment.name(),
        Kind::OrderStatus.name(),
        Kind::Delivery.name(),
        Kind::StockLevel.name(),
    ];
    const EFFECTS: &'static [&'static str] = &[NEW_ORDERS, PAYMENTS, DELIVERIES, SKIPPED_DISTRICTS];

    fn has(&self, kind: usize) -> bool {
        Kind::ALL[kind].cards(self.mix) > 0
    }

    /// # Panics
    /// When the scale does not validate, or there is no home warehouse.
    fn source(&self, worker: RunWorker, rng: Rng) -> Source {
        self.scale.validate().expect("the configuration's scale");
        let Self { scale, database_seed, mix, remote, ref homes, .. } = *self;
        let generator = Generator::new(scale, database_seed, mix, remote, homes.clone(), rng);
        Source { generator, worker, inputs: 0, payments: 0 }
    }

    fn draw(&self, source: &mut Source, now_us: i64) -> Drawn {
        if let Some(follows) = self.follows.as_ref().filter(|_| source.inputs.is_multiple_of(LOOK_EVERY)) {
            let homes = follows.homes(self.scale.warehouses);
            // Who owns nothing goes on where it was, from afar.
            if !homes.is_empty() {
                source.generator.move_to(homes);
            }
        }
        source.inputs += 1;
        let input = source.generator.next(now_us);
        source.payments += u64::from(input.kind() == Kind::Payment);
        let RunWorker { run, host, worker } = source.worker;
        Drawn { input, history: history_id(run, host, worker, source.payments) }
    }

    fn kind(&self, input: &Drawn) -> usize {
        input.input.kind() as usize
    }

    fn run<T: Transaction>(&self, _: &mut Source, txn: &mut T, input: &Drawn) -> Result<Effects, TxnError> {
        let Self { tables, .. } = self;
        Ok(match &input.input {
            Input::NewOrder(input) => {
                new_order::run(txn, tables, input)?;
                Effects::NONE.with(0, 1)
            }
            Input::Payment(payment) => {
                payment::run(txn, tables, payment, input.history)?;
                Effects::NONE.with(1, 1)
            }
            Input::OrderStatus(input) => {
                order_status::run(txn, tables, input)?;
                Effects::NONE
            }
            Input::Delivery(input) => {
                let output = delivery::run(txn, tables, input)?;
                Effects::NONE.with(2, output.delivered.len() as u64).with(3, output.skipped.into())
            }
            Input::StockLevel(input) => {
                stock_level::run(txn, tables, input)?;
                Effects::NONE
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    use liger_fabric::{HostId, WorkerId};

    use super::*;
    use crate::benchmark::{Benchmark, WorkerInfo};
    use crate::tpcc::benchmark::Tpcc;

    /// Home warehouses of the next inputs.
    fn homes(worker: &TpccWorker, source: &mut Source) -> BTreeSet<i16> {
        let home = |drawn: Drawn| match drawn.input {
            Input::NewOrder(input) => input.w,
            Input::Payment(input) => input.w,
            Input::OrderStatus(input) => input.w,
            Input::Delivery(input) => input.w,
            Input::StockLevel(input) => input.w,
        };
        (0..8 * LOOK_EVERY).map(|_| home(worker.draw(source, 0))).collect()
    }

    #[test]
    fn terminals_go_where_their_warehouse_is() {
        let partitions = Arc::new(Mutex::new(vec![0, 2]));
        let now = Arc::clone(&partitions);
        let owned = Owned::new(move || now.lock().expect("nobody panicked").clone());
        let scale = Scale::reduced(4, 100);
        for (kind, then) in [(Homes::Owned, [1, 2, 3]), (Homes::Own, [2, 4, 4])] {
            *partitions.lock().expect("nobody panicked") = vec![0, 2];
            let tpcc = Tpcc { scale, seed: 1, mix: Mix::Spec, remote: Remote::Spec, homes: kind };
            let info = WorkerInfo { partitions: &[0, 2], owned: Some(&owned), worker: 0, workers: 1 };
            let worker = tpcc.worker(info);
            let who = RunWorker { run: 1, host: HostId(0), worker: WorkerId(0) };
            let mut source = worker.source(who, Rng::new(3));
            assert_eq!(homes(&worker, &mut source), BTreeSet::from([2, 4]), "{kind:?}");
            *partitions.lock().expect("nobody panicked") = vec![1, 2, 3];
            assert_eq!(homes(&worker, &mut source), BTreeSet::from(then), "{kind:?}");
            // Who owns nothing goes on with what it had.
            partitions.lock().expect("nobody panicked").clear();
            assert_eq!(homes(&worker, &mut source), BTreeSet::from(then), "{kind:?}");
        }
    }
}
