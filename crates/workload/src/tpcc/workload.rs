//! TPC-C as the driver runs it: its inputs, its transactions, and what they do that the check counts.

use liger_engine::{Transaction, TxnError};

use crate::driver::{Effects, RunWorker, Workload};
use crate::random::Rng;
use crate::tpcc::Scale;
use crate::tpcc::generate::Generator;
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
}

/// A worker's stream of inputs.
#[derive(Debug)]
pub struct Source {
    generator: Generator,
    worker: RunWorker,
    /// Payments drawn.
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
        Source { generator, worker, payments: 0 }
    }

    fn draw(&self, source: &mut Source, now_us: i64) -> Drawn {
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
