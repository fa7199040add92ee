//! The memory self-test against good memory, and against memory that breaks one promise each.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use liger_fabric::native::{Mapping, Native, run_hosts};
use liger_fabric::sim::{SimConfig, Simulation};
use liger_fabric::{Cx, DataAddr, Fabric, HostId, LINE, SyncAddr, SyncMode, WorkerId, lines};
use liger_pod::PodError;
use liger_pod::membership::{self, HostState, Slot};
use liger_pod::plan::{Plan, PodConfig};
use liger_pod::selftest::{Effort, Responder, SelfTestFailure};
use liger_pod::superblock::{self, FormatOver};

const MEMBER: HostId = HostId(0);
const JOINER: HostId = HostId(1);

/// The promise that a host's memory breaks.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    None,
    /// Compare-and-swap reads, then writes.
    Swap,
    /// What the host writes stays in its cache for ever.
    WriteBack,
    /// What the host has read once it reads for ever.
    Invalidate,
    /// A store becomes visible after the next one.
    StoreOrder,
    /// Stores become visible some loads later, in order, fence or not.
    Fence,
}

/// One host's memory, with a fault.
struct Faulty<'a, F> {
    inner: &'a F,
    fault: Fault,
    /// Lines as this host sees them (faults of data).
    cache: RefCell<BTreeMap<u64, [u8; LINE]>>,
    /// Stores that are not visible yet, oldest first (faults of sync words).
    delayed: RefCell<VecDeque<(SyncAddr, u64)>>,
    loads: Cell<u64>,
    swaps: Cell<u64>,
}

impl<'a, F: Fabric> Faulty<'a, F> {
    fn new(inner: &'a F, fault: Fault) -> Self {
        Self {
            inner,
            fault,
            cache: RefCell::default(),
            delayed: RefCell::default(),
            loads: Cell::new(0),
            swaps: Cell::new(0),
        }
    }

    /// In the middle of every 64th swap of real threads: time for the other host, even on one processor.
    #[expect(clippy::disallowed_methods, reason = "a backend waits here")]
    fn dawdle(&self) {
        self.swaps.set(self.swaps.get() + 1);
        if !F::CHECKED && self.swaps.get() % 64 == 1 {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    }

    /// Makes the oldest delayed store visible.
    fn drain_one(&self) {
        let oldest = self.delayed.borrow_mut().pop_front();
        oldest.into_iter().for_each(|(at, value)| self.inner.store(at, value));
    }

    fn drain(&self) {
        while !self.delayed.borrow().is_empty() {
            self.drain_one();
        }
    }

    fn uses_cache(&self) -> bool {
        matches!(self.fault, Fault::WriteBack | Fault::Invalidate)
    }

    /// A line as this host caches it; fresh from memory if it does not.
    fn line(&self, number: u64) -> [u8; LINE] {
        let cached = self.cache.borrow().get(&number).copied();
        cached.unwrap_or_else(|| {
            let (at, mut bytes) = (DataAddr::new(number * LINE as u64), [0; LINE]);
            self.inner.invalidate(at, LINE);
            self.inner.fence();
            self.inner.read(at, &mut bytes);
            bytes
        })
    }
}

impl<F: Fabric> Fabric for Faulty<'_, F> {
    const CHECKED: bool = false;

    fn load(&self, at: SyncAddr) -> u64 {
        self.loads.set(self.loads.get() + 1);
        if self.loads.get().is_multiple_of(4) {
            self.drain_one();
        }
        let own = self.delayed.borrow().iter().rev().find(|(delayed, _)| *delayed == at).copied();
        own.map_or_else(|| self.inner.load(at), |(_, value)| value)
    }

    fn store(&self, at: SyncAddr, value: u64) {
        match self.fault {
            Fault::Fence => {
                if self.delayed.borrow().len() == 8 {
                    self.drain_one();
                }
                self.delayed.borrow_mut().push_back((at, value));
            }
            Fault::StoreOrder if self.delayed.borrow().front().is_some_and(|(delayed, _)| *delayed != at) => {
                self.inner.store(at, value);
                self.drain();
            }
            Fault::StoreOrder => {
                self.drain();
                self.delayed.borrow_mut().push_back((at, value));
            }
            _ => self.inner.store(at, value),
        }
    }

    fn compare_exchange(&self, at: SyncAddr, current: u64, new: u64) -> Result<u64, u64> {
        self.drain();
        if self.fault != Fault::Swap {
            return self.inner.compare_exchange(at, current, new);
        }
        let seen = self.inner.load(at);
        if seen != current {
            return Err(seen);
        }
        self.dawdle();
        self.inner.store(at, new);
        Ok(seen)
    }

    fn read(&self, at: DataAddr, out: &mut [u8]) {
        if !self.uses_cache() {
            return self.inner.read(at, out);
        }
        for (distance, byte) in out.iter_mut().enumerate() {
            let offset = at.offset() + distance as u64;
            let number = offset / LINE as u64;
            let bytes = self.line(number);
            if self.fault == Fault::Invalidate {
                self.cache.borrow_mut().insert(number, bytes);
            }
            *byte = bytes[offset as usize % LINE];
        }
    }

    fn write(&self, at: DataAddr, bytes: &[u8]) {
        if self.fault != Fault::WriteBack {
            self.inner.write(at, bytes);
        }
        if self.uses_cache() {
            for number in lines(at.offset(), bytes.len()) {
                let line = self.line(number);
                self.cache.borrow_mut().insert(number, line);
            }
            for (distance, byte) in bytes.iter().enumerate() {
                let offset = at.offset() + distance as u64;
                let mut cache = self.cache.borrow_mut();
                cache.get_mut(&(offset / LINE as u64)).expect("cached")[offset as usize % LINE] = *byte;
            }
        }
    }

    fn write_back(&self, at: DataAddr, len: usize) {
        self.inner.write_back(at, len);
    }

    fn invalidate(&self, at: DataAddr, len: usize) {
        self.inner.invalidate(at, len);
    }

    fn fence(&self) {
        if self.fault != Fault::Fence {
            self.drain();
        }
        self.inner.fence();
    }

    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }

    fn pause(&self) {
        self.drain();
        self.inner.pause();
    }
}

/// The member: alive and answering until `over`.
fn serve<F: Fabric>(cx: &Cx<F>, plan: &Plan, over: impl Fn() -> bool) {
    let _member = membership::join(cx, plan, 1).expect("join").finish(cx).expect("finish");
    let responder = Responder::new(plan);
    while !over() {
        responder.poll(cx);
        cx.pause();
    }
}

/// Waits for the member, and is tested with it.
fn be_tested<F: Fabric>(cx: &Cx<F>, plan: &Plan, effort: &Effort) -> Result<Option<HostId>, PodError> {
    while Slot::load(cx, plan, MEMBER).expect("sane").state != HostState::Alive {
        cx.pause();
    }
    let joining = membership::join(cx, plan, 1).expect("join");
    let outcome = joining.self_test(cx, effort);
    joining.abandon(cx).expect("abandoned");
    outcome
}

/// What a joiner with fault `joiner` learns from a member with fault `member`, with threads as hosts.
fn on_threads(
    mode: SyncMode,
    member: Fault,
    joiner: Fault,
    effort: Effort,
) -> Result<Option<HostId>, PodError> {
    let config = PodConfig { sync_mode: mode, ..PodConfig::small(2, 1) };
    let bytes = Plan::new(&config).expect("plan").len();
    let mapping = Mapping::anonymous(bytes as usize).expect("memory");
    let formatter = Cx::new(Native::with_sync_mode(mapping.clone(), mode), MEMBER, WorkerId(0), 1);
    let plan = superblock::format(&formatter, &config, bytes, FormatOver::Zeros).expect("format");
    let over = AtomicBool::new(false);
    let mut outcomes = run_hosts(&mapping, mode, 2, 1, 1, |cx| {
        let fault = if cx.host() == MEMBER { member } else { joiner };
        let cx = Cx::new(Faulty::new(cx.fabric(), fault), cx.host(), WorkerId(0), 1);
        if cx.host() == MEMBER {
            serve(&cx, &plan, || over.load(Ordering::Acquire));
            return Ok(None);
        }
        let outcome = be_tested(&cx, &plan, &effort);
        over.store(true, Ordering::Release);
        outcome
    });
    outcomes.pop().expect("two hosts").expect("no panic")
}

/// The same in the simulator: every interleaving is a matter of the seed.
fn in_simulator(seed: u64, member: Fault, joiner: Fault) -> Result<Option<HostId>, PodError> {
    let config = PodConfig { hwcc_bytes: 64 << 10, cxl_bytes: 256 << 10, ..PodConfig::small(2, 1) };
    let plan = Plan::new(&config).expect("plan");
    let bytes = plan.len();
    let mut sim = Simulation::new(SimConfig::adversarial(2, bytes as usize, seed));
    sim.alone(MEMBER, WorkerId(0), move |cx| {
        superblock::format(cx, &config, bytes, FormatOver::Zeros).expect("format");
    });
    let outcome = Rc::new(RefCell::new(None));
    let (result, over, plans) = (outcome.clone(), outcome.clone(), plan.clone());
    sim.spawn(MEMBER, WorkerId(0), move |cx| {
        let cx = Cx::new(Faulty::new(cx.fabric(), member), MEMBER, WorkerId(0), 1);
        serve(&cx, &plans, || over.borrow().is_some());
    });
    sim.spawn(JOINER, WorkerId(0), move |cx| {
        let cx = Cx::new(Faulty::new(cx.fabric(), joiner), JOINER, WorkerId(0), 1);
        let effort = Effort { rounds: 8, repeats: 40, ..Effort::SMALL };
        *result.borrow_mut() = Some(be_tested(&cx, &plan, &effort));
    });
    sim.run().expect_completed();
    outcome.take().expect("an outcome")
}

/// Which side has the fault: the member, the joiner, or both.
fn sides(fault: Fault) -> [(Fault, Fault); 3] {
    [(fault, Fault::None), (Fault::None, fault), (fault, fault)]
}

/// Asserts that `outcome` is a failure that `is_right` recognises.
fn assert_refused(
    outcome: Result<Option<HostId>, PodError>,
    what: &str,
    is_right: impl Fn(&SelfTestFailure) -> bool,
) {
    match outcome {
        Err(PodError::SelfTest(failure)) if is_right(&failure) => println!("{what}: {failure}"),
        other => panic!("{what}: {other:?}"),
    }
}

/// Asserts that `fault` is refused on every side, on threads and under many schedules.
fn assert_found(fault: Fault, seeds: u64, is_right: impl Fn(&SelfTestFailure, Fault) -> bool) {
    for (member, joiner) in sides(fault) {
        let what = format!("member {member:?}, joiner {joiner:?}");
        let outcome = on_threads(SyncMode::Hwcc, member, joiner, Effort::USUAL);
        assert_refused(outcome, &what, |failure| is_right(failure, member));
        for seed in 0..seeds {
            let outcome = in_simulator(seed, member, joiner);
            assert_refused(outcome, &format!("{what}, seed {seed}"), |failure| is_right(failure, member));
        }
    }
}

#[test]
fn good_memory_passes() {
    for mode in [SyncMode::Hwcc, SyncMode::Pcc] {
        for effort in [Effort::USUAL, Effort::SMALL] {
            assert_eq!(on_threads(mode, Fault::None, Fault::None, effort), Ok(Some(MEMBER)));
        }
    }
    for seed in 0..20 {
        assert_eq!(in_simulator(seed, Fault::None, Fault::None), Ok(Some(MEMBER)), "seed {seed}");
    }
}

#[test]
fn a_swap_that_is_not_atomic_is_refused() {
    assert_found(
        Fault::Swap,
        10,
        |f, _| matches!(f, SelfTestFailure::LostAdditions { made, counted, .. } if counted < made),
    );
}

#[test]
fn a_write_back_that_does_not_reach_is_refused() {
    assert_found(Fault::WriteBack, 5, |failure, member| {
        let expected = if member == Fault::WriteBack { (MEMBER, JOINER) } else { (JOINER, MEMBER) };
        matches!(failure, SelfTestFailure::NotWrittenBack { writer, reader, wrong_bytes: 1.. }
            if (*writer, *reader) == expected)
    });
}

#[test]
fn an_invalidate_that_does_not_drop_is_refused() {
    // The joiner reads first, so its fault shows first.
    for ((member, joiner), expected) in
        sides(Fault::Invalidate).into_iter().zip([(JOINER, MEMBER), (MEMBER, JOINER), (MEMBER, JOINER)])
    {
        let is_right = |failure: &SelfTestFailure| {
            matches!(failure, SelfTestFailure::NotInvalidated { writer, reader, round: 1, .. }
                if (*writer, *reader) == expected)
        };
        assert_refused(on_threads(SyncMode::Hwcc, member, joiner, Effort::USUAL), "threads", is_right);
        for seed in 0..5 {
            assert_refused(in_simulator(seed, member, joiner), &format!("seed {seed}"), is_right);
        }
    }
}

/// On threads this fault shows only while both run at the same instant, which a busy machine does not
/// promise.
#[test]
fn stores_out_of_order_are_refused() {
    for seed in 0..10 {
        let outcome = in_simulator(seed, Fault::StoreOrder, Fault::None);
        assert_refused(outcome, &format!("seed {seed}"), |failure| {
            matches!(failure, SelfTestFailure::OutOfOrder { out_of_order: 1.., .. })
        });
    }
}

/// As above.
#[test]
fn a_fence_that_completes_nothing_is_refused() {
    for seed in 0..10 {
        for (member, joiner) in sides(Fault::Fence) {
            assert_refused(in_simulator(seed, member, joiner), &format!("seed {seed}"), |failure| {
                matches!(failure, SelfTestFailure::FenceLeaks { .. })
            });
        }
    }
}
