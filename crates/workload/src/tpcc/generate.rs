//! Inputs from a seed (TPC-C 2.4.1 to 2.8.1, 5.2.3).
//!
//! 1. Inputs depend on the configuration, the seed and the time stamps handed in, on nothing the database
//!    holds.
//! 2. Transaction types come from a shuffled deck of 100 cards with the specification's minimum of each type
//!    (5.2.4.2 allows a deck or weighted draws): after every 100 transactions the mix is exact, so a short or
//!    simulated run has it too, and the required minimum never depends on luck.
//! 3. A remote warehouse is drawn uniformly from all the others; with one warehouse nothing is remote.
//!
//! A terminal's fixed district for Stock-Level (2.8.1.1) becomes a random one, since workers are not
//! terminals: ten terminals, one for each district, ask for each district equally often.

use serde::{Deserialize, Serialize};

use crate::random::Rng;
use crate::tpcc::input::*;
use crate::tpcc::nurand::{NuRand, last_name};
use crate::tpcc::{DISTRICTS, Scale};

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
    /// Inputs whose home warehouse is drawn from `homes`; `database_seed` is the loader's, `rng` this
    /// worker's own.
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

    /// Home warehouses of later inputs.
    ///
    /// # Panics
    /// When `homes` is empty.
    pub fn move_to(&mut self, homes: Vec<i16>) {
        assert!(!homes.is_empty(), "a worker needs at least one home warehouse");
        self.homes = homes;
    }

    /// The next transaction; `now_us` becomes its date.
    pub fn next(&mut self, now_us: i64) -> Input {
        if self.deck.is_empty() {
            let cards = |kind: Kind| std::iter::repeat_n(kind, kind.cards(self.mix));
            self.deck = Kind::ALL.into_iter().flat_map(cards).collect();
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
            Mix::Artifact | Mix::FirstTwo => {
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
    /// Its own share of those whose partitions the host owns at the time: terminals go where their warehouse
    /// is. Where partitions do not move, as [`Homes::Own`].
    Owned,
}

impl Homes {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Homes::Own => "own",
            Homes::AnyLocal => "any_local",
            Homes::Owned => "owned",
        }
    }

    /// The home warehouses of worker `worker` of `workers`, on a host that holds `of_host`. But under
    /// [`Homes::AnyLocal`] the warehouses are dealt out in turn; where there are fewer than workers, some
    /// workers share one.
    ///
    /// # Panics
    /// When the host has no warehouse, or `worker` is not below `workers`.
    pub fn pick(self, of_host: &[i16], worker: usize, workers: usize) -> Vec<i16> {
        assert!(!of_host.is_empty() && worker < workers, "worker {worker} of {workers}, {of_host:?}");
        match self {
            Homes::AnyLocal => of_host.to_vec(),
            Homes::Own | Homes::Owned if of_host.len() < workers => vec![of_host[worker % of_host.len()]],
            Homes::Own | Homes::Owned => of_host.iter().skip(worker).step_by(workers).copied().collect(),
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
    fn the_first_two_are_half_and_half() {
        for hundred in sample(Mix::FirstTwo, Remote::Spec, 1000).chunks(100) {
            let counts = Kind::ALL.map(|k| hundred.iter().filter(|i| i.kind() == k).count());
            assert_eq!(counts, [50, 50, 0, 0, 0]);
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
    fn a_seed_replays_and_the_stream_is_golden() {
        let inputs = sample(Mix::Spec, Remote::Spec, 500);
        assert_eq!(inputs, sample(Mix::Spec, Remote::Spec, 500));
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let hash = format!("{inputs:?}").bytes().fold(0xcbf2_9ce4_8422_2325, fold);
        // Whoever changes the generator changes what every recorded seed means, and says so here.
        assert_eq!(hash, 16_127_906_589_824_781_021);
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
