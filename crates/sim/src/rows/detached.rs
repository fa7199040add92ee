//! Transactions that have a worker only while they do something, as those of SQL's sessions: there are more
//! of them than workers, and than numbers for their locks.

use std::rc::Rc;

use liger_engine::host::{DetachedTxn, Host, HostSession};
use liger_engine::instance::{Step, WorkerPool, WorkerToken};
use liger_engine::method::Method;
use liger_engine::{Durability, Session, TxnError};
use liger_fabric::sim::Sim;
use liger_fabric::{Cx, HostId, WorkerId};

use super::{RowsRun, Tally, operation};
use crate::Picker;
use crate::pod::{Kept, SimPod};

/// What a session's open transaction is to do: how many operations, of which sort, and what it writes.
struct Plan {
    pick: Picker,
    operations: u64,
    value: i64,
}

/// Starts worker 0 of all hosts, which answers other hosts, and the sessions that share the others.
pub(super) fn start<M: Kept>(
    pod: &mut SimPod<M>,
    run: &RowsRun,
    (sessions, resting): (u8, u8),
    tally: &Rc<Tally>,
) {
    assert!(run.workers > 1 && run.duel.is_none(), "worker 0 is not lent");
    tally.running.set(u32::from(run.hosts) * u32::from(sessions));
    for host in 0..run.hosts {
        let (engine, own) = (Rc::clone(&pod.hosts[usize::from(host)]), Rc::clone(tally));
        let (pool, workers) = (Rc::new(WorkerPool::default()), 1..run.workers);
        engine.lend(&workers, resting);
        pod.sim.spawn(HostId(host), WorkerId(0), {
            let (pool, engine) = (Rc::clone(&pool), Rc::clone(&engine));
            move |cx| {
                let tokens = workers.map(|worker| WorkerToken::new(cx, &engine, WorkerId(worker)));
                pool.fill(tokens.collect());
                own.attend(cx, &mut HostSession::new(cx, &engine));
            }
        });
        for session in 1..=sessions {
            let (engine, tally, pool, run) =
                (engine.clone(), Rc::clone(tally), Rc::clone(&pool), run.clone());
            pod.sim.spawn(HostId(host), WorkerId(session), move |cx| {
                work(cx, &engine, &pool, (&run, &tally));
                tally.running.set(tally.running.get() - 1);
            });
        }
    }
}

/// A session: one step after the other, each as whatever worker it is lent.
fn work<M: Method>(cx: &Cx<Sim>, host: &Host<M>, pool: &WorkerPool, (run, tally): (&RowsRun, &Tally)) {
    let (mut txn, mut plan, mut left) =
        (DetachedTxn::new(cx, host, Durability::default()), None, run.transactions);
    while left > 0 || plan.is_some() {
        let wanted = if txn.is_open() { Step::Next } else { Step::First };
        let mut token = loop {
            match pool.try_take(wanted) {
                None => cx.pause(),
                token => break token,
            }
        };
        // Some steps follow each other on one worker, as those of one statement.
        for _ in 0..=cx.random_below(2) {
            txn.attach((cx, host), (pool, &mut token), |session| step(cx, session, run, &mut plan, tally));
            if plan.is_none() {
                left -= 1;
                break;
            }
        }
        txn.rest(cx, host);
        pool.give(token.expect("it is back"));
        (0..=cx.random_below(run.think + 1)).for_each(|_| cx.pause());
    }
}

/// Begins a session's next transaction, does its next operation, or ends it.
fn step<M: Method>(
    cx: &Cx<Sim>,
    session: &mut HostSession<'_, Sim, M>,
    run: &RowsRun,
    plan: &mut Option<Plan>,
    tally: &Tally,
) {
    let done = match plan {
        None => {
            let number = cx.random();
            let mut pick = Picker::new(number);
            let operations = 1 + pick.below(run.operations);
            *plan = Some(Plan { pick, operations, value: number as i64 });
            session.begin()
        }
        Some(Plan { pick, operations: 0, .. }) => {
            let ended = if pick.below(8) == 0 { Err(TxnError::Rollback) } else { session.commit() };
            if ended == Err(TxnError::Rollback) {
                session.roll_back();
            }
            *plan = None;
            ended
        }
        Some(Plan { pick, operations, value }) => {
            *operations -= 1;
            let done = operation(session.opened(), run, &run.mix, pick, *value);
            if done.is_err() {
                session.roll_back();
                *plan = None;
            }
            done
        }
    };
    match done {
        Ok(()) | Err(TxnError::Rollback | TxnError::OutOfMemory { .. }) => {}
        Err(TxnError::Conflict(_)) => {
            tally.conflicts.set(tally.conflicts.get() + 1);
            session.back_off(1);
        }
        Err(other) => panic!("a transaction failed: {other}"),
    }
}
