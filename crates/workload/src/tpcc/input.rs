//! What the terminals ask for: the inputs of the five transactions, from a seed (TPC-C 2.4.1 to 2.8.1, 5.2.3).
//!
//! 1. Inputs depend on the configuration, the seed and the time stamps handed in, on nothing the database holds.
//! 2. Transaction types come from a shuffled deck of 100 cards with the specification's minimum of each type
//!    (5.2.4.2 allows a deck or weighted draws): after every 100 transactions the mix is exact, so a short or simulated
//!    run has it too, and the required minimum never depends on luck.
//! 3. A remote warehouse is drawn uniformly from all the others; with one warehouse nothing is remote.
//!
//! A terminal's fixed district for Stock-Level (2.8.1.1) becomes a random one, since workers are not terminals: ten
//! terminals, one for each district, ask for each district equally often.

use serde::{Deserialize, Serialize};

use crate::random::Rng;
use crate::tpcc::nurand::{NuRand, last_name};
use crate::tpcc::{DISTRICTS, Scale};

/// The five transaction types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Enters an order (2.4).
    NewOrder,
    /// A customer pays (2.5).
    Payment,
    /// A customer asks for the last order (2.6).
    OrderStatus,
    /// The oldest order of each district is delivered (2.7).
    Delivery,
    /// How many recently sold items run low (2.8).
    StockLevel,
}

impl Kind {
    /// All five, in the specification's order.
    pub const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "new_order",
            Kind::Payment => "payment",
            Kind::OrderStatus => "order_status",
            Kind::Delivery => "delivery",
            Kind::StockLevel => "stock_level",
        }
    }

    /// Cards of this type in a deck of 100.
    const fn cards(self) -> usize {
        match self {
            Kind::NewOrder => 45,
            Kind::Payment => 43,
            _ => 4,
        }
    }
}

/// Whose definition of the transactions is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mix {
    /// The specification's.
    Spec,
    /// As the artifact of Tigon has it, for runs side by side: a Delivery serves one district (and still counts as a
    /// transaction), and remote customers are found by number only. Everything else is the specification's.
    Artifact,
}

/// Which share of the transactions touches another warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remote {
    /// The specification's: 1 % of order lines are supplied by another warehouse (so about 10 % of New-Orders touch
    /// one) and 15 % of Payments are by another warehouse's customer.
    Spec,
    /// Tigon's "x/y": `new_order` % of New-Orders have their first line, and no other, from another warehouse;
    /// `payment` % of Payments are by another warehouse's customer.
    Percent {
        /// Share of New-Orders, 0 to 100.
        new_order: u32,
        /// Share of Payments, 0 to 100.
        payment: u32,
    },
}

/// How a terminal names a customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// By number.
    Number(i32),
    /// By last name: the middle one of all who bear it, in order of first names.
    LastName(String),
}

/// One line of an order to enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The item; one that does not exist in the last line of an order to be rolled back.
    pub item: i32,
    /// The warehouse that supplies it.
    pub supply_w: i16,
    /// How many, 1 to 10.
    pub quantity: i16,
}

/// Input of a New-Order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrderInput {
    /// Home warehouse.
    pub w: i16,
    /// District.
    pub d: i16,
    /// Customer.
    pub c: i32,
    /// 5 to 15 lines.
    pub lines: Vec<Line>,
    /// Date of entry, microseconds.
    pub entry_us: i64,
}

/// Input of a Payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentInput {
    /// Home warehouse, which receives the money.
    pub w: i16,
    /// District that receives the money.
    pub d: i16,
    /// The customer's warehouse.
    pub c_w: i16,
    /// The customer's district.
    pub c_d: i16,
    /// Which customer.
    pub who: Who,
    /// Cents, 100 to 500 000.
    pub amount_cents: i64,
    /// Date, microseconds.
    pub date_us: i64,
}

/// Input of an Order-Status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStatusInput {
    /// Home warehouse.
    pub w: i16,
    /// District.
    pub d: i16,
    /// Which customer.
    pub who: Who,
}

/// Input of a Delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryInput {
    /// Home warehouse.
    pub w: i16,
    /// First district to serve.
    pub first_d: i16,
    /// Last district to serve; all ten are served unless the mix is [`Mix::Artifact`].
    pub last_d: i16,
    /// Carrier, 1 to 10.
    pub carrier: i16,
    /// Date of delivery, microseconds.
    pub date_us: i64,
}

/// Input of a Stock-Level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockLevelInput {
    /// Home warehouse.
    pub w: i16,
    /// District.
    pub d: i16,
    /// Stock below this is low, 10 to 20.
    pub threshold: i32,
}

/// Input of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// See [`NewOrderInput`].
    NewOrder(NewOrderInput),
    /// See [`PaymentInput`].
    Payment(PaymentInput),
    /// See [`OrderStatusInput`].
    OrderStatus(OrderStatusInput),
    /// See [`DeliveryInput`].
    Delivery(DeliveryInput),
    /// See [`StockLevelInput`].
    StockLevel(StockLevelInput),
}

impl Input {
    /// Its type.
    pub fn kind(&self) -> Kind {
        match self {
            Input::NewOrder(_) => Kind::NewOrder,
            Input::Payment(_) => Kind::Payment,
            Input::OrderStatus(_) => Kind::OrderStatus,
            Input::Delivery(_) => Kind::Delivery,
            Input::StockLevel(_) => Kind::StockLevel,
        }
    }

    /// True when it touches a warehouse other than its home.
    pub fn is_remote(&self) -> bool {
        match self {
            Input::NewOrder(order) => order.lines.iter().any(|line| line.supply_w != order.w),
            Input::Payment(payment) => payment.c_w != payment.w,
            _ => false,
        }
    }
}

/// One worker's stream of inputs.
#[derive(Debug)]
pub struct Generator {
    scale: Scale,
    mix: Mix,
    remote: Remote,
    homes: Vec<i16>,
    nurand: NuRand,
    rng: Rng,
    deck: Vec<Kind>,
}

impl Generator {
    /// Inputs whose home warehouse is drawn from `homes`; `database_seed` is the loader's, `rng` this worker's own.
    ///
    /// # Panics
    /// When `homes` is empty.
    pub fn new(
        scale: Scale,
        database_seed: u64,
        mix: Mix,
        remote: Remote,
        homes: Vec<i16>,
        rng: Rng,
    ) -> Self {
        assert!(!homes.is_empty(), "a worker needs at least one home warehouse");
        Self { scale, mix, remote, homes, nurand: NuRand::run(database_seed), rng, deck: Vec::new() }
    }

    /// The next transaction; `now_us` becomes its date.
    pub fn next(&mut self, now_us: i64) -> Input {
        if self.deck.is_empty() {
            self.deck = Kind::ALL.into_iter().flat_map(|k| std::iter::repeat_n(k, k.cards())).collect();
            self.rng.shuffle(&mut self.deck);
        }
        let kind = self.deck.pop().expect("the deck was refilled");
        self.of_kind(kind, now_us)
    }

    /// An input of the type asked for, outside the deck.
    pub fn of_kind(&mut self, kind: Kind, now_us: i64) -> Input {
        let w = self.homes[self.rng.below(self.homes.len() as u64) as usize];
        match kind {
            Kind::NewOrder => Input::NewOrder(self.new_order(w, now_us)),
            Kind::Payment => Input::Payment(self.payment(w, now_us)),
            Kind::OrderStatus => {
                Input::OrderStatus(OrderStatusInput { w, d: self.district(), who: self.who(true) })
            }
            Kind::Delivery => Input::Delivery(self.delivery(w, now_us)),
            Kind::StockLevel => {
                let threshold = self.rng.between(10, 20) as i32;
                Input::StockLevel(StockLevelInput { w, d: self.district(), threshold })
            }
        }
    }

    fn district(&mut self) -> i16 {
        self.rng.between(1, i64::from(DISTRICTS)) as i16
    }

    /// Any warehouse but `w`, or `w` itself where there is no other.
    fn other_warehouse(&mut self, w: i16) -> i16 {
        if self.scale.warehouses == 1 {
            return w;
        }
        let drawn = self.rng.between(1, i64::from(self.scale.warehouses) - 1) as i16;
        drawn + i16::from(drawn >= w)
    }

    /// 60 % by last name where that is possible, else by number.
    fn who(&mut self, by_name_possible: bool) -> Who {
        if self.rng.percent(60) && by_name_possible {
            Who::LastName(last_name(self.nurand.last_number(&mut self.rng, &self.scale)))
        } else {
            Who::Number(self.nurand.customer(&mut self.rng, &self.scale))
        }
    }

    fn new_order(&mut self, w: i16, entry_us: i64) -> NewOrderInput {
        let d = self.district();
        let c = self.nurand.customer(&mut self.rng, &self.scale);
        let count = self.rng.between(5, 15) as usize;
        let roll_back = self.rng.percent(1);
        let first_remote = match self.remote {
            Remote::Spec => false,
            Remote::Percent { new_order, .. } => self.rng.percent(new_order),
        };
        let mut lines = Vec::with_capacity(count);
        for number in 0..count {
            let item = self.nurand.item(&mut self.rng, &self.scale);
            let away = match self.remote {
                Remote::Spec => self.rng.percent(1),
                Remote::Percent { .. } => first_remote && number == 0,
            };
            let supply_w = if away { self.other_warehouse(w) } else { w };
            lines.push(Line { item, supply_w, quantity: self.rng.between(1, 10) as i16 });
        }
        if roll_back {
            lines[count - 1].item = self.scale.unused_item();
        }
        NewOrderInput { w, d, c, lines, entry_us }
    }

    fn payment(&mut self, w: i16, date_us: i64) -> PaymentInput {
        let d = self.district();
        let share = match self.remote {
            Remote::Spec => 15,
            Remote::Percent { payment, .. } => payment,
        };
        let away = self.rng.percent(share) && self.scale.warehouses > 1;
        let (c_w, c_d) = if away { (self.other_warehouse(w), self.district()) } else { (w, d) };
        let who = self.who(!away || self.mix == Mix::Spec);
        PaymentInput { w, d, c_w, c_d, who, amount_cents: self.rng.between(100, 500_000), date_us }
    }

    fn delivery(&mut self, w: i16, date_us: i64) -> DeliveryInput {
        let (first_d, last_d) = match self.mix {
            Mix::Spec => (1, DISTRICTS),
            Mix::Artifact => {
                let d = self.district();
                (d, d)
            }
        };
        DeliveryInput { w, first_d, last_d, carrier: self.rng.between(1, 10) as i16, date_us }
    }
}

/// Which of its host's warehouses a worker serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Homes {
    /// Its own share of them, as the specification's terminals are bound to one warehouse.
    Own,
    /// A random one of the host's warehouses for every transaction, as the artifact of Tigon does.
    AnyLocal,
}

impl Homes {
    /// The home warehouses of worker `worker` of `workers`, on a host that holds `of_host`. Under [`Homes::Own`] the
    /// warehouses are dealt out in turn; where there are fewer than workers, some workers share one.
    ///
    /// # Panics
    /// When the host has no warehouse, or `worker` is not below `workers`.
    pub fn pick(self, of_host: &[i16], worker: usize, workers: usize) -> Vec<i16> {
        assert!(!of_host.is_empty() && worker < workers, "worker {worker} of {workers}, {of_host:?}");
        match self {
            Homes::AnyLocal => of_host.to_vec(),
            Homes::Own if of_host.len() < workers => vec![of_host[worker % of_host.len()]],
            Homes::Own => of_host.iter().skip(worker).step_by(workers).copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generator(mix: Mix, remote: Remote, warehouses: i16) -> Generator {
        Generator::new(Scale::full(warehouses), 5, mix, remote, vec![1, 2], Rng::new(9))
    }

    fn sample(mix: Mix, remote: Remote, n: usize) -> Vec<Input> {
        let mut generator = generator(mix, remote, 24);
        (0..n).map(|at| generator.next(at as i64)).collect()
    }

    fn share(inputs: &[Input], kind: Kind, test: impl Fn(&Input) -> bool) -> f64 {
        let of_kind: Vec<&Input> = inputs.iter().filter(|i| i.kind() == kind).collect();
        of_kind.iter().filter(|i| test(i)).count() as f64 / of_kind.len() as f64
    }

    #[test]
    fn every_hundred_transactions_hold_the_mix() {
        for hundred in sample(Mix::Spec, Remote::Spec, 1000).chunks(100) {
            let counts = Kind::ALL.map(|k| hundred.iter().filter(|i| i.kind() == k).count());
            assert_eq!(counts, [45, 43, 4, 4, 4]);
        }
    }

    #[test]
    fn spec_shares() {
        let inputs = sample(Mix::Spec, Remote::Spec, 60_000);
        // 1 % of 10 lines on average: 1 - 0.99^10 = 9.56 %, averaged over 5 to 15 lines 9.5 %.
        let remote = share(&inputs, Kind::NewOrder, Input::is_remote);
        assert!((remote - 0.095).abs() < 0.01, "{remote}");
        let remote = share(&inputs, Kind::Payment, Input::is_remote);
        assert!((remote - 0.15).abs() < 0.01, "{remote}");
        let by_name = |i: &Input| matches!(i, Input::Payment(p) if matches!(p.who, Who::LastName(_)));
        let named = share(&inputs, Kind::Payment, by_name);
        assert!((named - 0.60).abs() < 0.015, "{named}");
        assert!(inputs.iter().any(|i| i.is_remote() && by_name(i)), "remote customers are named too");
        let unused = Scale::full(24).unused_item();
        let rolled = share(
            &inputs,
            Kind::NewOrder,
            |i| matches!(i, Input::NewOrder(o) if o.lines.last().unwrap().item == unused),
        );
        assert!((rolled - 0.01).abs() < 0.003, "{rolled}");
    }

    #[test]
    fn percent_shares_and_artifact_rules() {
        let remote = Remote::Percent { new_order: 60, payment: 90 };
        let inputs = sample(Mix::Artifact, remote, 40_000);
        for (kind, expected) in [(Kind::NewOrder, 0.60), (Kind::Payment, 0.90)] {
            let got = share(&inputs, kind, Input::is_remote);
            assert!((got - expected).abs() < 0.015, "{kind:?} {got}");
        }
        for input in &inputs {
            match input {
                Input::NewOrder(o) => assert!(o.lines[1..].iter().all(|l| l.supply_w == o.w)),
                Input::Payment(p) if p.c_w != p.w => assert!(matches!(p.who, Who::Number(_))),
                Input::Delivery(d) => assert_eq!(d.first_d, d.last_d),
                _ => (),
            }
        }
        let none = sample(Mix::Spec, Remote::Percent { new_order: 0, payment: 0 }, 5000);
        assert!(!none.iter().any(Input::is_remote));
    }

    #[test]
    fn other_warehouses_are_uniform_and_one_has_no_other() {
        let mut generator_24 = generator(Mix::Spec, Remote::Spec, 24);
        let mut seen = [0u32; 25];
        (0..230_000).for_each(|_| seen[generator_24.other_warehouse(7) as usize] += 1);
        assert_eq!((seen[0], seen[7]), (0, 0));
        assert!((1..25).filter(|w| *w != 7).all(|w| seen[w].abs_diff(10_000) < 600), "{seen:?}");
        let mut alone = Generator::new(Scale::full(1), 5, Mix::Spec, Remote::Spec, vec![1], Rng::new(9));
        assert!((0..3000).all(|n| !alone.next(n).is_remote()));
    }

    #[test]
    fn values_stay_in_their_ranges() {
        let scale = Scale::reduced(3, 100);
        let mut generator = Generator::new(scale, 5, Mix::Spec, Remote::Spec, vec![3], Rng::new(9));
        for at in 0..20_000 {
            match generator.next(at) {
                Input::NewOrder(o) => {
                    assert!((5..=15).contains(&o.lines.len()) && (1..=10).contains(&o.d));
                    assert!((1..=scale.customers).contains(&o.c) && o.entry_us == at);
                    let (last, others) = o.lines.split_last().unwrap();
                    assert!(others.iter().all(|l| (1..=scale.items).contains(&l.item)));
                    assert!((1..=scale.unused_item()).contains(&last.item));
                    assert!(o.lines.iter().all(|l| (1..=3).contains(&l.supply_w)));
                }
                Input::Payment(p) => {
                    assert!((100..=500_000).contains(&p.amount_cents));
                    assert!((1..=10).contains(&p.c_d) && (1..=3).contains(&p.c_w));
                }
                Input::OrderStatus(s) => assert!((1..=10).contains(&s.d)),
                Input::Delivery(d) => assert_eq!((d.first_d, d.last_d), (1, 10)),
                Input::StockLevel(s) => assert!((10..=20).contains(&s.threshold)),
            }
        }
    }

    #[test]
    fn a_seed_replays() {
        assert_eq!(sample(Mix::Spec, Remote::Spec, 500), sample(Mix::Spec, Remote::Spec, 500));
    }

    #[test]
    fn homes_are_dealt_out() {
        let of_host = [4, 5, 6, 7, 8];
        assert_eq!(Homes::Own.pick(&of_host, 0, 2), [4, 6, 8]);
        assert_eq!(Homes::Own.pick(&of_host, 1, 2), [5, 7]);
        assert_eq!(Homes::Own.pick(&of_host[..1], 2, 3), [4]);
        assert_eq!(Homes::AnyLocal.pick(&of_host, 1, 2), of_host);
    }
}
