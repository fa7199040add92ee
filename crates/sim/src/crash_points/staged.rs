//! How an operation is staged: who does what when, and when the killer looks.

use std::cell::Cell;
use std::rc::Rc;

use liger_engine::host::{Host, HostSession, Txn};
use liger_engine::row::Rows;
use liger_engine::{Session, TxnError};
use liger_fabric::sim::{CrashDomain, Sim};
use liger_fabric::{Cx, HostId};

use super::operations::{A, Operation, Part, Subject};
use super::words::prove;
use crate::pod::Kept;
use crate::survival::world::{Script, World};

/// Who is killed, before which of its verbs from the begin of the window on, and how much of it survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CrashAt {
    /// The host.
    pub host: HostId,
    /// The verb, from 1.
    pub verb: u64,
    /// What survives.
    pub domain: CrashDomain,
}

/// What all hosts know of how far the operation is.
#[derive(Default)]
pub(super) struct Scene {
    /// Parts of the preparation that are done; beyond their number: the operation is over.
    stage: Cell<usize>,
    crash: Cell<Option<CrashAt>>,
    returned: Cell<bool>,
    successor: Cell<Option<HostId>>,
    /// How A is to die in its next commit.
    pub doom: Cell<Option<CrashDomain>>,
    /// Verbs are listed where nobody is killed.
    lists: bool,
}

impl Scene {
    pub fn new(crash: Option<CrashAt>) -> Self {
        Self { lists: crash.is_none(), crash: Cell::new(crash), ..Self::default() }
    }

    /// The successor, where the operation was a takeover.
    pub fn successor(&self) -> Option<HostId> {
        self.successor.get()
    }

    pub fn found_successor(&self, host: HostId) {
        self.successor.set(Some(host));
    }

    pub fn has_returned(&self) -> bool {
        self.returned.get()
    }

    /// From here on every verb counts.
    fn open(&self, cx: &Cx<Sim>) {
        match self.crash.take() {
            Some(crash) => cx.fabric().kill_before(crash.host, crash.verb, crash.domain),
            None if self.lists => cx.fabric().list_verbs(u16::MAX),
            None => {}
        }
    }

    fn close(&self, cx: &Cx<Sim>) {
        cx.fabric().list_verbs(0);
    }
}

/// One worker while it plays its part.
pub struct Actor<'a, M: Kept = Rows> {
    pub(super) cx: &'a Cx<Sim>,
    pub(super) world: &'a World<M>,
    pub(super) engine: &'a Host<M>,
    pub(super) scene: &'a Scene,
    session: HostSession<'a, Sim, M>,
    /// Transactions that have ended here.
    done: i64,
}

impl<'a, M: Kept> Actor<'a, M> {
    /// One turn of waiting for somebody.
    pub(super) fn turn(&mut self) {
        self.engine.attend(self.cx);
        self.cx.pause();
    }

    pub(super) fn idles(&mut self, turns: u64) {
        (0..turns).for_each(|_| self.turn());
    }

    /// The killer looks from now on.
    pub(super) fn watched(&self) {
        self.scene.open(self.cx);
    }

    /// The value of this worker's next transaction, which is nobody else's.
    fn value(&self) -> i64 {
        let life = self.cx.fabric().incarnation(self.cx.host()) as i64;
        (i64::from(self.cx.host().0) + 1) << 40 | life << 32 | (self.done + 1)
    }

    /// Runs a transaction until it commits.
    pub(super) fn does(&mut self, body: impl Fn(&mut Txn<'a, Sim, M>, i64) -> Result<(), TxnError>) {
        let value = self.value();
        loop {
            match self.world.attempt(&mut self.session, value, |txn| body(txn, value)) {
                Ok(()) => break,
                Err(TxnError::Conflict(_) | TxnError::OutOfMemory { .. }) => {
                    self.engine.attend(self.cx);
                    self.session.back_off(3);
                }
                Err(TxnError::Fenced) => return,
                Err(other) => panic!("a transaction failed: {other}"),
            }
        }
        self.done += 1;
    }

    /// Runs a transaction and takes it back.
    pub(super) fn does_in_vain(&mut self, body: impl Fn(&mut Txn<'a, Sim, M>, i64) -> Result<(), TxnError>) {
        let value = self.value();
        let in_vain = |txn: &mut Txn<'a, Sim, M>| {
            body(txn, value)?;
            Err::<(), TxnError>(TxnError::Rollback)
        };
        while let Err(TxnError::Conflict(_)) = self.world.attempt(&mut self.session, value, in_vain) {
            self.session.back_off(3);
        }
    }

    /// Waits until this worker's last transaction is durable.
    pub(super) fn waits(&mut self) {
        let ticket = self.session.ticket();
        while !self.engine.is_fenced() && !self.session.is_durable(ticket).expect("good disks") {
            self.session.pause();
        }
    }
}

/// An operation as the script of a pod.
pub(super) struct Staged<M: Kept> {
    pub operation: &'static Operation<M>,
    pub scene: Rc<Scene>,
}

impl<M: Kept> Staged<M> {
    /// True when the act has ended, or who was to act is dead.
    fn is_over(&self, cx: &Cx<Sim>) -> bool {
        self.scene.stage.get() > self.operation.prepare.len()
            || cx.fabric().incarnation(self.operation.act.0) > 1
            || self.prepares().is_some_and(|host| cx.fabric().incarnation(host) > 1)
    }

    /// Whose part of the preparation is next.
    fn prepares(&self) -> Option<HostId> {
        self.operation.prepare.get(self.scene.stage.get()).map(|part| part.0)
    }

    fn play(&self, actor: &mut Actor<'_, M>) {
        let (me, prepare) = (actor.cx.host(), self.operation.prepare);
        while !self.is_over(actor.cx) {
            let stage = self.scene.stage.get();
            let is_mine = |(host, _): &&(HostId, Part<M>)| *host == me;
            match prepare.get(stage) {
                Some((host, part)) if *host == me => {
                    part(actor);
                    self.scene.stage.set(stage + 1);
                }
                Some(_) => actor.turn(),
                None if self.operation.act.0 == me => {
                    // Where somebody has to die first, the act says when.
                    if !self.operation.opens_later {
                        actor.watched();
                    }
                    (self.operation.act.1)(actor);
                    self.scene.close(actor.cx);
                    self.scene.stage.set(stage + 1);
                }
                None => match self.operation.meanwhile.iter().find(is_mine) {
                    Some((_, part)) => {
                        part(actor);
                        actor.turn();
                    }
                    None => actor.turn(),
                },
            }
        }
    }
}

impl<M: Kept> Script<M> for Staged<M> {
    fn work(&self, cx: &Cx<Sim>, world: &World<M>, engine: &Host<M>) {
        let session = HostSession::new(cx, engine);
        let mut actor = Actor { cx, world, engine, scene: &self.scene, session, done: 0 };
        match self.operation.comes_back {
            Some(part) if cx.fabric().incarnation(cx.host()) > 1 => {
                part(&mut actor);
                self.scene.close(cx);
                self.scene.returned.set(true);
            }
            _ => self.play(&mut actor),
        }
        prove(&mut actor, self.operation.keys);
    }

    fn joins(&self, cx: &Cx<Sim>) {
        if self.operation.subject == Subject::Host(A) {
            self.scene.open(cx);
        }
    }

    fn beats(&self) -> bool {
        true
    }

    fn returns(&self) -> u16 {
        if self.operation.comes_back.is_some() { 1 << A.0 } else { 0 }
    }
}
