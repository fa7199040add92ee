//! A row that has gone, and one with its key in its place: host 2 deletes a row of host 0, host 1 makes it
//! again, and host 0 dies, before host 2 has found out that what it had deleted is gone. So its successor
//! hears of the deleted row again, and meets the new one, which host 2 may be changing at that moment.
//!
//! Arranged by hand, because random runs meet it once in ten thousand times (see [`crate::survival`], whose
//! checks these are).

use std::cell::Cell;

use liger_engine::row::{RowHost, RowSession, RowTxn};
use liger_engine::{Session, Transaction, TxnError};
use liger_fabric::sim::{CrashDomain, Sim};
use liger_fabric::{Cx, HostId};
use liger_pod::owner::Owner;
use liger_pod::plan::PartitionId;

use super::{LeftOut, Ran};
use crate::rows::{ITEMS, RowsRun, item_key, new_row, set_value};
use crate::survival::world::{Script, World};
use crate::survival::{SurvivalRun, run_script};

/// Where the row is: in the part of the table that host 0 owns.
const PART: i16 = 0;
const ID: i32 = 0;
/// Turns of a wait for what may never come: hosts that were too slow die, too.
const PATIENCE: u32 = 20_000;
/// Turns that host 2 takes after the new owner has come, and in its transaction; powers of two.
const MOST_TURNS: u64 = 7;

pub(super) fn again(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = SurvivalRun::from_seed(seed);
    let rows = RowsRun { hosts: 3, workers: 1, keys: 1, budget_rows: 400, ..run.rows };
    let domain = run.deaths[0].domain;
    let run = SurvivalRun { rows, deaths: Vec::new(), ..run };
    let play = |run: &_| run_script(run, Box::new(Again { domain, stage: Cell::new(Stage::Deletes) }));
    super::survival::ran_by(play, run, left_out)
}

/// What is done next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    /// Host 2 deletes the row.
    Deletes,
    /// Host 1 makes it again.
    Makes,
    /// Host 0 dies.
    Dies,
    /// Host 2 changes it, and its owner hears of the deleted one.
    Changes,
    /// Nothing.
    Done,
}

struct Again {
    domain: CrashDomain,
    stage: Cell<Stage>,
}

/// A worker.
struct Actor<'a> {
    cx: &'a Cx<Sim>,
    world: &'a World,
    engine: &'a RowHost,
    session: RowSession<'a, Sim>,
}

impl<'a> Actor<'a> {
    /// Runs a transaction until it commits.
    fn does(&mut self, body: impl Fn(&mut RowTxn<'a, Sim>, i64) -> Result<bool, TxnError>) {
        for _ in 0..PATIENCE {
            let value = self.cx.random() as i64;
            match self.world.attempt(&mut self.session, value, |txn| body(txn, value)) {
                Ok(true) | Err(TxnError::Fenced) => return,
                Ok(false) | Err(TxnError::Conflict(_) | TxnError::OutOfMemory { .. }) => {
                    self.session.back_off(3);
                }
                Err(other) => panic!("a transaction failed: {other}"),
            }
        }
    }

    /// Waits for something; false if it does not come.
    fn waits(&mut self, serves: bool, is_there: impl Fn() -> bool) -> bool {
        for _ in 0..PATIENCE {
            if is_there() {
                return true;
            }
            if self.engine.is_fenced() {
                return false;
            }
            match serves {
                true => self.session.pause(),
                false => self.cx.pause(),
            }
        }
        false
    }
}

impl Again {
    /// Host 0: owns the row, and dies.
    fn owns(&self, actor: &mut Actor<'_>) {
        if actor.waits(true, || self.stage.get() == Stage::Dies) {
            self.stage.set(Stage::Changes);
            actor.cx.fabric().kill_host(actor.cx.host(), self.domain);
        }
    }

    /// Host 1: makes the row again, and hears of nothing from then on until host 2 has it.
    fn makes(&self, actor: &mut Actor<'_>) {
        if actor.waits(true, || self.stage.get() == Stage::Makes) {
            actor.does(|txn, value| match txn.insert(ITEMS, &new_row(PART, ID, value)) {
                Err(TxnError::DuplicateKey { .. }) => Ok(false),
                made => made.map(|()| true),
            });
            self.stage.set(Stage::Dies);
            actor.waits(false, || self.stage.get() == Stage::Done);
        }
    }

    /// Host 2: deletes the row, and changes the next one when it has an owner again.
    fn changes(&self, actor: &mut Actor<'_>) {
        let (key, plan, cx) = (item_key(PART, ID), actor.world.plan.clone(), actor.cx);
        actor.does(|txn, _| txn.delete(ITEMS, &key));
        self.stage.set(Stage::Makes);
        let has_successor =
            || Owner::load(cx, &plan, PartitionId(PART as u16)).is_some_and(|owner| owner.host != HostId(0));
        if !actor.waits(true, has_successor) {
            return;
        }
        let some_turns = || cx.random_below(1 << cx.random_below(MOST_TURNS));
        (0..some_turns()).for_each(|_| cx.pause());
        actor.does(|txn, value| {
            let found = txn.update(ITEMS, &key, |row| set_value(row, value))?;
            self.stage.set(Stage::Done);
            (0..some_turns()).for_each(|_| cx.pause());
            Ok(found.is_some())
        });
    }
}

impl Script for Again {
    fn work(&self, cx: &Cx<Sim>, world: &World, engine: &RowHost) {
        let mut actor = Actor { cx, world, engine, session: RowSession::new(cx, engine) };
        match cx.host().0 {
            0 => self.owns(&mut actor),
            1 => self.makes(&mut actor),
            _ => self.changes(&mut actor),
        }
        self.stage.set(self.stage.get().max(if cx.host().0 == 2 { Stage::Done } else { Stage::Deletes }));
    }

    fn beats(&self) -> bool {
        true
    }

    fn returns(&self) -> u16 {
        0
    }
}
