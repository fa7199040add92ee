//! Hosts that join while others ask them for rows, and one that leaves while it is asked: no request waits
//! for an answer that cannot come.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::row::{RowHost, RowSession};
use liger_engine::{Session, TxnError};
use liger_fabric::sim::{Sim, Simulation};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::membership;
use liger_pod::plan::Plan;
use liger_pod::superblock::{self, FormatOver};

use super::rows::{base, between};
use super::{LeftOut, Ran, Scenario};
use crate::pod::{PodSetup, SimPod};
use crate::recorder::Recorder;
use crate::rows::{self, Mix, RowsRun};
use crate::serializability;

/// All hosts join at once, and work; the last one leaves early in odd runs.
pub const SCENARIOS: &[Scenario] = &[Scenario { name: "rows-joining", run: joining }];

/// Verbs after which a run counts as stuck.
const MAX_VERBS: u64 = 1_500_000;

/// What the workers of all hosts share.
struct World {
    run: RowsRun,
    setup: PodSetup,
    plan: Plan,
    recorder: Arc<Recorder>,
    engines: RefCell<Vec<Option<Rc<RowHost>>>>,
    /// Hosts that have not ended their transactions yet, and the one that is to leave before.
    running: Cell<u32>,
    leaver: Option<HostId>,
}

fn joining(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (shape, mut pick) = base(seed);
    let (hosts, keys) = (between(&mut pick, 2, 3) as u8, between(&mut pick, 2, 6) as i32);
    let mix = [Mix::ALL, Mix::GAPS, Mix::CHURN][pick.below(3) as usize];
    let (operations, transactions) = (between(&mut pick, 1, 2), between(&mut pick, 3, 12) as u32);
    let shape =
        RowsRun { hosts, workers: 1, keys, mix, operations, transactions, max_verbs: MAX_VERBS, ..shape };
    let setup = rows::setup(&shape, 1);
    let plan = Plan::new(&setup.config).expect("a valid configuration");
    let mut config = rows::config(&shape, &plan);
    LeftOut::apply(left_out, &mut config);
    let mut sim = Simulation::new(config);
    let (format, bytes) = (setup.config.clone(), plan.len());
    sim.alone(HostId(0), WorkerId(0), move |cx| {
        superblock::format(cx, &format, bytes, FormatOver::Zeros).expect("zeroed memory");
    });
    let world = Rc::new(World {
        leaver: (seed % 2 == 1).then(|| HostId(hosts - 1)),
        run: shape,
        setup,
        plan: plan.clone(),
        recorder: Arc::default(),
        engines: RefCell::new(vec![None; usize::from(hosts)]),
        running: Cell::new(hosts.into()),
    });
    for host in 0..hosts {
        let world = Rc::clone(&world);
        sim.spawn(HostId(host), WorkerId(0), move |cx| live(cx, &world));
    }
    let report = sim.run();
    Ran::new(report, || verdict(sim, &world))
}

/// One host: it joins some time, works, and serves until all have worked, or leaves early.
fn live(cx: &Cx<Sim>, world: &World) {
    let me = cx.host();
    (0..cx.random_below(200)).for_each(|_| cx.pause());
    let joining = membership::join(cx, &world.plan, cx.process()).expect("nobody has its number");
    let options = world.setup.options(&world.plan, me, Some(Arc::clone(&world.recorder)));
    let member = joining.finish(cx).expect("nobody suspects it");
    let catalog = Arc::clone(&world.setup.catalog);
    let engine = Rc::new(RowHost::new(cx, &world.plan, catalog, member, options).expect("there is room"));
    world.engines.borrow_mut()[usize::from(me.0)] = Some(Rc::clone(&engine));
    work(cx, world, &engine);
    world.running.set(world.running.get() - 1);
    if world.leaver == Some(me) {
        world.engines.borrow_mut()[usize::from(me.0)] = None;
        let engine = Rc::into_inner(engine).expect("its only worker");
        return engine.leave(cx).expect("nobody suspects it");
    }
    while world.running.get() > 0 {
        engine.attend(cx);
        cx.pause();
    }
}

fn work(cx: &Cx<Sim>, world: &World, engine: &RowHost) {
    let (mut session, run) = (RowSession::new(cx, engine), &world.run);
    let all_there = || world.engines.borrow().iter().all(Option::is_some);
    let mut left = run.transactions;
    while left > 0 {
        // Who leaves is still asked by those who come later; nobody waits for it to come back.
        left -= u32::from(all_there() || world.leaver.is_some());
        let number = cx.random();
        match session.attempt(|txn| rows::transaction(cx, txn, run, &run.mix, number)) {
            Ok(()) | Err(TxnError::Rollback | TxnError::OutOfMemory { .. }) => {}
            Err(TxnError::Conflict(_)) => session.back_off(1),
            Err(other) => panic!("a transaction failed: {other}"),
        }
    }
}

/// All is as it should be at rest; of a pod that a host has left with its rows, only that all came to an end.
fn verdict(sim: Simulation, world: &World) -> Result<(), String> {
    if world.leaver.is_some() {
        return Ok(());
    }
    let hosts = world.engines.borrow().iter().flatten().cloned().collect();
    let recorder = Some(Arc::clone(&world.recorder));
    let mut pod = SimPod { sim, plan: world.plan.clone(), hosts, recorder };
    let mut problems = pod.check();
    let history = world.run.promised(world.recorder.history(Vec::new()));
    problems.extend(serializability::check(&history).anomalies.iter().map(|anomaly| anomaly.to_string()));
    if problems.is_empty() { Ok(()) } else { Err(problems.swap_remove(0)) }
}
