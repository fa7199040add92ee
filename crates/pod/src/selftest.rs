//! The platform self-test: does this memory do between two hosts what every protocol of Liger relies on?
//!
//! A host that joins (the *joiner*) gives a member (the *responder*) small orders through sync words of their
//! own; both then do the same to the memory at the same time, and the joiner compares what came out with what
//! must come out:
//!
//! | order | both do | promise |
//! |---|---|---|
//! | `Hello` | nothing | sync words reach the other host |
//! | `Add` | add to one word by compare-and-swap | no addition is lost: compare-and-swap is atomic between hosts |
//! | `Publish` | responder publishes a line, joiner refreshes it | `write_back` reaches; later rounds: `invalidate` drops |
//! | `Check` | joiner publishes a line, responder refreshes it | the same, the other way |
//! | `Sequence` | responder stores two words in turn, joiner reads them the other way round | stores stay in order |
//! | `Exclude` | raise own flag, fence, look at the other's flag, count alone | a fence completes the store before it |
//!
//! Invariants:
//! 1. The responder keeps no state: an order is open while its number differs from the one in the reply word.
//! 2. A responder's turn is short and never waits for the joiner; an idle one costs one sync load.
//! 3. Every sync line but the counter's has one writing host at a time; every data line has one, always.
//! 4. The first order is `Hello`: when it is answered, no order of an earlier incarnation is still being
//!    carried out.
//!
//! ```text
//! responder's own pair, line 0:  bell = 0 | joiner's host 8..16, incarnation 16..32, state JOINING, as in
//! a state word
//! pair (joiner, responder)
//!   sync line 0 (joiner)     order: kind 0..8 | amount 8..32 | number 32..64     joiner's flag
//!   sync line 1 (responder)  reply: result 0..32 | number 32..64    responder's flag    first
//!   sync line 2 (both)       counter of additions
//!   sync line 3              tally (the one inside)    second (responder, at another time)
//!   data line 0 (responder), data line 1 (joiner)
//! ```
//!
//! It proves nothing about a pod whose two hosts are tested on one coherent machine, except that this machine
//! is one.

mod effort;

use std::cell::Cell;

use liger_fabric::{Cx, DataAddr, Fabric, HostId, LINE, Latch, SyncAddr};

use crate::bells::{self, Bell};
use crate::membership::{self, Slot};
use crate::plan::Plan;

pub use effort::Effort;

/// Which promise of the memory was broken, with the evidence.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelfTestFailure {
    /// Nobody answered.
    #[error("host {} did not answer within {waited_ns} ns in the self-test ({step}): its service loop is \
        stuck, or sync words do not reach it: see that it runs, and that sync_mode fits this memory", peer.0)]
    NoAnswer {
        /// The member asked.
        peer: HostId,
        /// What it was asked for.
        step: &'static str,
        /// How long the joiner waited.
        waited_ns: u64,
    },
    /// It is no member any more: another one may answer.
    #[error("host {} ended in the middle of the self-test", peer.0)]
    Gone {
        /// The member asked.
        peer: HostId,
    },
    /// Compare-and-swap is not atomic.
    #[error("compare-and-swap is not atomic between this host and host {}: {made} additions were made, \
        {counted} counted ({} lost): this memory cannot hold sync words in this mode; another sync_mode may",
        peer.0, made.saturating_sub(*counted))]
    LostAdditions {
        /// The other host.
        peer: HostId,
        /// Additions that both made.
        made: u64,
        /// What the word counted.
        counted: u64,
    },
    /// Data that was written back did not arrive.
    #[error("write_back by host {} does not reach host {}: {wrong_bytes} of 64 bytes were not what was \
        published, in round 0, on a line not read before: this mapping is not shared memory, or the \
        instruction does nothing",
        writer.0, reader.0)]
    NotWrittenBack {
        /// Who published.
        writer: HostId,
        /// Who refreshed.
        reader: HostId,
        /// Bytes that differ.
        wrong_bytes: u32,
    },
    /// A refresh returned what was cached.
    #[error("invalidate by host {} does not drop what it cached: {wrong_bytes} of 64 bytes were not what \
        host {} published in round {round} of {rounds}: the instruction does nothing, or prefetching is on",
        reader.0, writer.0)]
    NotInvalidated {
        /// Who published.
        writer: HostId,
        /// Who refreshed.
        reader: HostId,
        /// Round of the failure; earlier ones worked.
        round: u32,
        /// Rounds asked for.
        rounds: u32,
        /// Bytes that differ.
        wrong_bytes: u32,
    },
    /// A later store was seen before an earlier one.
    #[error("stores of host {} to two sync words were seen out of order in {out_of_order} of {looks} looks: \
        this memory cannot hold sync words in this mode; another sync_mode may", peer.0)]
    OutOfOrder {
        /// Who stored.
        peer: HostId,
        /// Looks that saw the second store and not the first.
        out_of_order: u64,
        /// Looks.
        looks: u64,
    },
    /// Two hosts were inside at once.
    #[error("a fence does not complete the store before it: this host and host {} were {entered} times \
        inside alone, but counted {counted}: this memory cannot hold sync words in this mode; another \
        sync_mode may", peer.0)]
    FenceLeaks {
        /// The other host.
        peer: HostId,
        /// Times that either believed to be alone.
        entered: u64,
        /// What they counted inside.
        counted: u64,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Hello,
    Add,
    Publish,
    Check,
    Sequence,
    Exclude,
}

const ORDERS: [Order; 6] = {
    use Order::*;
    [Hello, Add, Publish, Check, Sequence, Exclude]
};

const _: () = {
    let mut code = 0;
    while code < ORDERS.len() {
        assert!(ORDERS[code] as usize == code, "an order's code is its place in the list");
        code += 1;
    }
};

impl Order {
    fn name(self) -> &'static str {
        match self {
            Order::Hello => "hello",
            Order::Add => "compare-and-swap",
            Order::Publish => "publish",
            Order::Check => "refresh",
            Order::Sequence => "order of stores",
            Order::Exclude => "fence",
        }
    }
}

/// Order word: kind, amount, number.
fn order_word(kind: Order, amount: u32, number: u32) -> u64 {
    assert!(amount < 1 << 24);
    kind as u64 | u64::from(amount) << 8 | u64::from(number) << 32
}

/// Number of an order or reply.
fn number_of(word: u64) -> u32 {
    (word >> 32) as u32
}

/// The words and lines of one pair.
struct Lines {
    order: SyncAddr,
    joiner_flag: SyncAddr,
    reply: SyncAddr,
    responder_flag: SyncAddr,
    first: SyncAddr,
    second: SyncAddr,
    counter: SyncAddr,
    tally: SyncAddr,
    from_responder: DataAddr,
    from_joiner: DataAddr,
}

impl Lines {
    fn of(plan: &Plan, joiner: HostId, responder: HostId) -> Self {
        let sync = |line| plan.selftest_sync(joiner, responder, line);
        let data = |line| plan.selftest_data(joiner, responder, line);
        Self {
            order: sync(0),
            joiner_flag: sync(0).word(1),
            reply: sync(1),
            responder_flag: sync(1).word(1),
            first: sync(1).word(2),
            second: sync(3).word(1),
            counter: sync(2),
            tally: sync(3),
            from_responder: data(0),
            from_joiner: data(1),
        }
    }
}

/// The word that a joiner rings a member with.
fn bell(plan: &Plan, responder: HostId) -> SyncAddr {
    plan.selftest_sync(responder, responder, 0)
}

/// The 64 bytes that belong to an order: different in every byte position for different numbers.
fn pattern(number: u32) -> [u8; LINE] {
    std::array::from_fn(|at| {
        (number as u8).wrapping_add((number >> (8 + at % 8)) as u8) ^ (at as u8).wrapping_mul(37)
    })
}

fn wrong_bytes<F: Fabric>(cx: &Cx<F>, at: DataAddr, number: u32) -> u32 {
    let mut seen = [0; LINE];
    cx.refresh(at, &mut seen);
    seen.iter().zip(pattern(number)).filter(|(seen, expected)| **seen != *expected).count() as u32
}

/// Raises `own`, and if `other` is down counts one in `tally`, not atomically: only one may be inside. True
/// when it was.
fn count_alone<F: Fabric>(cx: &Cx<F>, own: SyncAddr, other: SyncAddr, tally: SyncAddr) -> bool {
    cx.store(own, 1);
    cx.fence();
    let alone = cx.load(other) == 0;
    if alone {
        cx.store(tally, cx.load(tally) + 1);
    }
    cx.store(own, 0);
    alone
}

/// A member's side: answers hosts that join.
pub struct Responder {
    plan: Plan,
    /// One worker of the host answers at a time.
    busy: Latch<()>,
}

impl Responder {
    /// The responder of one host, shared by its workers.
    pub fn new(plan: &Plan) -> Self {
        Self { plan: plan.clone(), busy: Latch::new(()) }
    }

    /// Carries out the open order, if there is one. Call it from the service loop of a host that is ALIVE;
    /// idle it costs one sync load. True when an order was carried out.
    pub fn poll<F: Fabric>(&self, cx: &Cx<F>) -> bool {
        let ring = cx.load(bell(&self.plan, cx.host()));
        let joiner = HostId((ring >> 8) as u8);
        if ring == 0 || joiner.0 >= self.plan.config().hosts || joiner == cx.host() {
            return false;
        }
        let Some(_busy) = self.busy.try_lock() else { return false };
        let lines = Lines::of(&self.plan, joiner, cx.host());
        let order = cx.load(lines.order);
        if number_of(order) == number_of(cx.load(lines.reply)) {
            return false;
        }
        let Some(kind) = ORDERS.get((order & 0xff) as usize) else { return false };
        let result = carry_out(cx, &lines, *kind, (order >> 8) as u32 & 0xff_ffff, number_of(order));
        // Stores are seen in order, so what was done before the reply; the fence makes it seen at once.
        cx.store(lines.reply, u64::from(number_of(order)) << 32 | u64::from(result));
        cx.fence();
        cx.ring(bells::bell(&self.plan, joiner, Bell::Work));
        true
    }
}

/// The responder's part of an order; what it returns goes into the reply.
fn carry_out<F: Fabric>(cx: &Cx<F>, lines: &Lines, kind: Order, amount: u32, number: u32) -> u32 {
    match kind {
        Order::Hello => 0,
        Order::Add => {
            (0..amount).for_each(|_| _ = cx.fetch_add(lines.counter, 1));
            amount
        }
        Order::Publish => {
            cx.publish(lines.from_responder, &pattern(number));
            0
        }
        Order::Check => wrong_bytes(cx, lines.from_joiner, number),
        Order::Sequence => {
            for step in 1..=u64::from(amount) {
                cx.store(lines.first, u64::from(number) << 32 | step);
                cx.store(lines.second, u64::from(number) << 32 | step);
            }
            amount
        }
        Order::Exclude => {
            let alone = |_: &u32| count_alone(cx, lines.responder_flag, lines.joiner_flag, lines.tally);
            (0..amount).filter(alone).count() as u32
        }
    }
}

/// The joiner's side, against the member `peer`. `own` is the caller's state: JOINING.
///
/// # Errors
/// The first broken promise.
pub fn run<F: Fabric>(
    cx: &Cx<F>,
    plan: &Plan,
    own: Slot,
    peer: Slot,
    effort: &Effort,
) -> Result<(), SelfTestFailure> {
    assert_eq!(own.host, cx.host());
    let lines = Lines::of(plan, own.host, peer.host);
    let number = number_of(cx.load(lines.order));
    let beat_ns = Cell::new(cx.now_ns());
    let mut joiner = Joiner { cx, plan, own, peer, effort, lines, number, beat_ns };
    let mine = own.encode();
    joiner.ring(mine)?;
    let outcome = joiner.all_tests();
    // Fails only if somebody took this host for dead and the bell from it.
    let _ = cx.compare_exchange(bell(plan, peer.host), mine, 0);
    outcome
}

/// True while another host is being tested by this member.
pub(crate) fn is_engaged<F: Fabric>(cx: &Cx<F>, plan: &Plan, own: Slot, peer: Slot) -> bool {
    ringer(cx, plan, own, cx.load(bell(plan, peer.host))).is_some()
}

/// The other host that has rung a member's bell, if it still joins in that incarnation.
fn ringer<F: Fabric>(cx: &Cx<F>, plan: &Plan, own: Slot, ring: u64) -> Option<Slot> {
    let host = HostId((ring >> 8) as u8);
    if ring == 0 || host == own.host || host.0 >= plan.config().hosts {
        return None;
    }
    Slot::load(cx, plan, host).ok().filter(|slot| slot.encode() == ring)
}

struct Joiner<'a, F: Fabric> {
    cx: &'a Cx<F>,
    plan: &'a Plan,
    own: Slot,
    peer: Slot,
    effort: &'a Effort,
    lines: Lines,
    /// Number of the last order.
    number: u32,
    /// When this host last showed that it lives.
    beat_ns: Cell<u64>,
}

impl<F: Fabric> Joiner<'_, F> {
    /// Takes the member's bell, from a joiner that is gone if need be.
    fn ring(&self, mine: u64) -> Result<(), SelfTestFailure> {
        let (cx, plan) = (self.cx, self.plan);
        let bell = bell(plan, self.peer.host);
        let start_ns = cx.now_ns();
        loop {
            let seen = cx.load(bell);
            let looks = self.is_time_to_look();
            let has_ended = |ringer| looks && membership::has_ended(cx, plan, ringer);
            let is_free = ringer(cx, plan, self.own, seen).is_none_or(has_ended);
            if is_free && cx.compare_exchange(bell, seen, mine).is_ok() {
                return Ok(());
            }
            self.still_time("waiting for its turn", start_ns)?;
            self.effort.wait(self.cx);
        }
    }

    /// True if an order that was given `round` times, from `start_ns` on, was given often enough.
    fn is_enough(&self, round: u32, start_ns: u64) -> bool {
        round >= self.effort.least_rounds && self.cx.now_ns().saturating_sub(start_ns) >= self.effort.time_ns
    }

    fn is_time_to_look(&self) -> bool {
        self.cx.now_ns().saturating_sub(self.beat_ns.get()) >= self.effort.look_ns
    }

    fn all_tests(&mut self) -> Result<(), SelfTestFailure> {
        if !self.cx.sabotaged("selftest.hello-first") {
            self.order(Order::Hello, 0);
            self.wait(Order::Hello)?;
        }
        self.additions()?;
        self.lines_from_responder()?;
        self.lines_to_responder()?;
        self.order_of_stores()?;
        self.exclusion()
    }

    /// Gives an order and makes it visible at once.
    fn order(&mut self, kind: Order, amount: u32) {
        self.number = self.number.wrapping_add(1);
        self.cx.store(self.lines.order, order_word(kind, amount, self.number));
        self.cx.fence();
        self.cx.ring(bells::bell(self.plan, self.peer.host, Bell::Work));
    }

    /// The result of the last order, if it is there.
    fn answer(&self) -> Option<u32> {
        let reply = self.cx.load(self.lines.reply);
        (number_of(reply) == self.number).then_some(reply as u32)
    }

    /// Sends a heartbeat now and then, and ends a wait that is too long.
    fn still_time(&self, step: &'static str, start_ns: u64) -> Result<(), SelfTestFailure> {
        let now_ns = self.cx.now_ns();
        if self.is_time_to_look() {
            membership::beat(self.cx, self.plan, self.own);
            self.beat_ns.set(now_ns);
            // It may have died, or have been taken for dead, in the middle of this.
            let is_member = Slot::load(self.cx, self.plan, self.peer.host) == Ok(self.peer);
            if !is_member || membership::has_ended(self.cx, self.plan, self.peer) {
                return Err(SelfTestFailure::Gone { peer: self.peer.host });
            }
        }
        let waited_ns = now_ns.saturating_sub(start_ns);
        if waited_ns <= self.effort.answer_ns {
            return Ok(());
        }
        Err(SelfTestFailure::NoAnswer { peer: self.peer.host, step, waited_ns })
    }

    fn wait(&self, kind: Order) -> Result<u32, SelfTestFailure> {
        self.meanwhile(kind, 0, || {})
    }

    /// Does `action` until the answer comes, at least `repeats` times and at most eight times as often: the
    /// two hosts act at the same time for as long as the slower one takes.
    fn meanwhile(&self, kind: Order, repeats: u32, mut action: impl FnMut()) -> Result<u32, SelfTestFailure> {
        let start_ns = self.cx.now_ns();
        let awake = repeats.saturating_mul(8);
        let mine = bells::bell(self.plan, self.cx.host(), Bell::Work);
        let mut done = 0;
        loop {
            let answer = self.answer();
            match answer {
                Some(result) if done >= repeats => return Ok(result),
                _ if done < awake => action(),
                _ => bells::pass(self.cx, mine, done - awake, || self.answer().is_some()),
            }
            done = done.saturating_add(1);
            if answer.is_none() {
                self.still_time(kind.name(), start_ns)?;
            }
        }
    }

    fn additions(&mut self) -> Result<(), SelfTestFailure> {
        let (cx, counter, repeats) = (self.cx, self.lines.counter, self.effort.repeats);
        let before = cx.load(counter);
        let mut made = 0;
        let start_ns = cx.now_ns();
        for round in 0..self.effort.rounds {
            if self.is_enough(round, start_ns) {
                break;
            }
            self.order(Order::Add, repeats);
            let mut own = 0;
            let theirs = self.meanwhile(Order::Add, repeats, || {
                cx.fetch_add(counter, 1);
                own += 1;
            })?;
            made += own + u64::from(theirs);
        }
        let counted = cx.load(counter).wrapping_sub(before);
        if counted == made {
            return Ok(());
        }
        Err(SelfTestFailure::LostAdditions { peer: self.peer.host, made, counted })
    }

    /// Round 0 reads a line for the first time, so it must have been written back; before every later round
    /// the line lies in this host's cache, so it must be dropped.
    fn lines_from_responder(&mut self) -> Result<(), SelfTestFailure> {
        let (writer, reader, at) = (self.peer.host, self.cx.host(), self.lines.from_responder);
        let start_ns = self.cx.now_ns();
        for round in 0..self.effort.rounds {
            if self.is_enough(round, start_ns) {
                break;
            }
            self.order(Order::Publish, 0);
            self.wait(Order::Publish)?;
            self.judge(writer, reader, round, wrong_bytes(self.cx, at, self.number))?;
            // Into the cache, where the next round must not find it.
            self.cx.read(at, &mut [0; LINE]);
        }
        Ok(())
    }

    fn lines_to_responder(&mut self) -> Result<(), SelfTestFailure> {
        let (writer, reader, at) = (self.cx.host(), self.peer.host, self.lines.from_joiner);
        let start_ns = self.cx.now_ns();
        for round in 0..self.effort.rounds {
            if self.is_enough(round, start_ns) {
                break;
            }
            self.cx.publish(at, &pattern(self.number.wrapping_add(1)));
            self.order(Order::Check, 0);
            let wrong = self.wait(Order::Check)?;
            self.judge(writer, reader, round, wrong)?;
        }
        Ok(())
    }

    fn judge(
        &self,
        writer: HostId,
        reader: HostId,
        round: u32,
        wrong_bytes: u32,
    ) -> Result<(), SelfTestFailure> {
        let rounds = self.effort.rounds;
        match (wrong_bytes, round) {
            (0, _) => Ok(()),
            (_, 0) => Err(SelfTestFailure::NotWrittenBack { writer, reader, wrong_bytes }),
            _ => Err(SelfTestFailure::NotInvalidated { writer, reader, round, rounds, wrong_bytes }),
        }
    }

    fn order_of_stores(&mut self) -> Result<(), SelfTestFailure> {
        let (cx, first, second) = (self.cx, self.lines.first, self.lines.second);
        let (mut looks, mut out_of_order) = (0, 0);
        let start_ns = cx.now_ns();
        for round in 0..self.effort.rounds {
            if self.is_enough(round, start_ns) {
                break;
            }
            self.order(Order::Sequence, self.effort.repeats);
            let number = self.number;
            self.meanwhile(Order::Sequence, self.effort.repeats, || {
                let later = cx.load(second);
                let earlier = cx.load(first);
                looks += 1;
                // Words of earlier orders count as nothing.
                let step = |word| if number_of(word) == number { word as u32 } else { 0 };
                out_of_order += u64::from(step(earlier) < step(later));
            })?;
        }
        if out_of_order == 0 {
            return Ok(());
        }
        Err(SelfTestFailure::OutOfOrder { peer: self.peer.host, out_of_order, looks })
    }

    fn exclusion(&mut self) -> Result<(), SelfTestFailure> {
        let (cx, own, other) = (self.cx, self.lines.joiner_flag, self.lines.responder_flag);
        let tally = self.lines.tally;
        // A host that died inside leaves its flag up; nobody is inside now.
        cx.store(own, 0);
        let before = cx.load(tally);
        let mut entered = 0;
        let start_ns = cx.now_ns();
        for round in 0..self.effort.rounds {
            if self.is_enough(round, start_ns) {
                break;
            }
            self.order(Order::Exclude, self.effort.repeats);
            let mut alone = 0;
            let theirs = self.meanwhile(Order::Exclude, self.effort.repeats, || {
                alone += u64::from(count_alone(cx, own, other, tally));
            })?;
            entered += alone + u64::from(theirs);
        }
        let counted = cx.load(tally).wrapping_sub(before);
        if counted == entered {
            return Ok(());
        }
        Err(SelfTestFailure::FenceLeaks { peer: self.peer.host, entered, counted })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn lines_of_different_orders_differ() {
        let lines: BTreeSet<[u8; LINE]> = (0..5000).map(pattern).collect();
        assert_eq!(lines.len(), 5000);
    }
}
