//! Transactions of several sessions, step by step, in every order; and a judge.
//!
//! ```text
//!   isolation/*.spec --> Script --> orders of its steps --> play (sessions of different hosts) --> judge
//! ```
//!
//! 1. A step is sent when the one before it has been answered, or has not been for [`PATIENCE`]: then its
//!    session waits for somebody, and the others go on.
//! 2. A transaction that fails is rolled back at once, unless a savepoint follows.
//! 3. The judge knows no list of expected answers: see `judge`.

#![allow(dead_code, reason = "every test uses a part of it")]

pub mod judge;
pub mod orders;
pub mod script;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use liger_sql::session::{Session, TransactionState};

use crate::client::{Printed, answer};
use script::Script;

/// How long a step may take before its session counts as one that waits.
const PATIENCE: Duration = Duration::from_millis(40);
/// How long all sessions may wait for nobody.
const STUCK: Duration = Duration::from_secs(30);

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum End {
    Committed,
    /// By itself, or by an error that another order would not spare it.
    RolledBack,
    /// By a conflict (40001, 55P03).
    Refused,
}

/// A transaction that has run.
#[derive(Clone, Debug)]
pub struct Ran {
    pub session: usize,
    pub transaction: usize,
    /// The steps that were answered, and how.
    pub heard: Vec<(usize, Vec<String>)>,
    pub end: End,
    /// The SQLSTATE that it failed with.
    pub error: Option<String>,
    /// Places in the sequence of all events.
    pub began: usize,
    pub ended: usize,
}

type Connected<'c> = Box<dyn Session + Send + 'c>;
type Answered = (usize, Vec<String>, TransactionState);

/// Sessions, each on a thread, that do as they are told.
pub struct Players {
    tell: Vec<Sender<String>>,
    said: Receiver<Answered>,
}

impl Players {
    pub fn new<'scope>(
        scope: &'scope std::thread::Scope<'scope, '_>,
        sessions: Vec<Connected<'scope>>,
    ) -> Players {
        let (to, said) = channel();
        let start = |(number, mut session): (usize, Connected<'scope>)| {
            let ((tell, told), to) = (channel::<String>(), to.clone());
            scope.spawn(move || {
                for step in told {
                    let lines = answer(&mut *session, &step);
                    if to.send((number, lines, session.transaction_state())).is_err() {
                        return;
                    }
                }
            });
            tell
        };
        Players { tell: sessions.into_iter().enumerate().map(start).collect(), said }
    }

    /// One statement, whose answer is waited for.
    #[track_caller]
    pub fn run(&self, session: usize, sql: &str) -> Vec<String> {
        self.tell[session].send(sql.to_owned()).expect("the session's thread runs");
        let (_, lines, _) = self.said.recv_timeout(STUCK).unwrap_or_else(|_| panic!("stuck: {sql}"));
        lines
    }

    /// Plays the steps of a script's transactions in this order of sessions.
    pub fn play(&self, script: &Script, order: &[usize]) -> Vec<Ran> {
        let mut game = Game::new(script);
        let mut queue: VecDeque<usize> = order.iter().copied().collect();
        loop {
            let next = queue.iter().position(|session| game.parts[*session].waits.is_none());
            let heard = match next {
                Some(at) => {
                    let session = queue.remove(at).expect("it was found");
                    let Some(step) = game.next_step(session) else { continue };
                    self.tell[session].send(step).expect("the session's thread runs");
                    self.said.recv_timeout(PATIENCE).ok()
                }
                None if game.parts.iter().all(|part| part.waits.is_none()) => return game.ran,
                None => Some(self.said.recv_timeout(STUCK).unwrap_or_else(|_| {
                    panic!("{}: everybody waits after {order:?}", script.name);
                })),
            };
            let mut heard = heard;
            while let Some((session, lines, state)) = heard {
                if game.take_note(session, lines, state) {
                    self.tell[session].send("rollback".to_owned()).expect("the session's thread runs");
                }
                heard = self.said.try_recv().ok();
            }
        }
    }
}

/// Where a session is in its script.
#[derive(Default)]
struct Part {
    transaction: usize,
    step: usize,
    /// The step that it waits for.
    waits: Option<Wait>,
    open: Option<Ran>,
}

#[derive(Clone, Copy)]
enum Wait {
    Step(usize),
    Rollback,
}

struct Game<'s> {
    script: &'s Script,
    parts: Vec<Part>,
    ran: Vec<Ran>,
    clock: usize,
}

impl<'s> Game<'s> {
    fn new(script: &'s Script) -> Game<'s> {
        let parts = script.sessions.iter().map(|_| Part::default()).collect();
        Game { script, parts, ran: Vec::new(), clock: 0 }
    }

    /// The next step of a session; none where its transaction has ended before its time.
    fn next_step(&mut self, session: usize) -> Option<String> {
        let part = &mut self.parts[session];
        let transaction = &self.script.sessions[session][part.transaction];
        let step = part.step;
        part.step += 1;
        let is_last = part.step == transaction.len();
        if step == 0 {
            self.clock += 1;
            part.open = Some(Ran {
                session,
                transaction: part.transaction,
                heard: Vec::new(),
                end: End::Committed,
                error: None,
                began: self.clock,
                ended: 0,
            });
        }
        let skipped = part.open.is_none();
        if is_last {
            part.transaction += 1;
            part.step = 0;
        }
        if skipped {
            return None;
        }
        part.waits = Some(Wait::Step(step));
        Some(transaction[step].clone())
    }

    /// Takes note of an answer; true if the session is to roll back now.
    fn take_note(&mut self, session: usize, lines: Vec<String>, state: TransactionState) -> bool {
        self.clock += 1;
        let part = &mut self.parts[session];
        let waited = part.waits.take().expect("it was asked");
        let mut open = part.open.take().expect("a transaction runs");
        let Wait::Step(step) = waited else {
            open.ended = self.clock;
            self.ran.push(open);
            return false;
        };
        let error = lines.iter().find_map(|line| line.strip_prefix("ERROR ")).map(str::to_owned);
        open.error = error.clone();
        let transaction = &self.script.sessions[session][open.transaction];
        let is_rolled_back = lines.iter().any(|line| line == "ROLLBACK");
        let is_refused = matches!(error.as_deref(), Some("40001" | "55P03"));
        if is_refused {
            open.end = End::Refused;
        } else {
            open.heard.push((step, without_tags(lines)));
        }
        let savepoint = transaction[step..].iter().position(|step| step.starts_with("rollback to"));
        match (error.is_some(), state) {
            (true, TransactionState::Failed) if savepoint.is_some() && !is_refused => {
                // The steps up to there are skipped, with their places in the order.
                part.step = step + savepoint.expect("just looked at");
                part.open = Some(open);
                false
            }
            (failed, TransactionState::Idle) if failed || step + 1 == transaction.len() => {
                let undone = failed || is_rolled_back;
                if undone && !is_refused {
                    open.end = End::RolledBack;
                }
                open.ended = self.clock;
                self.ran.push(open);
                false
            }
            (true, _) => {
                if !is_refused {
                    open.end = End::RolledBack;
                }
                part.waits = Some(Wait::Rollback);
                part.open = Some(open);
                true
            }
            (false, _) => {
                part.open = Some(open);
                false
            }
        }
    }
}

/// An answer without what only says where transactions begin and end.
pub fn without_tags(mut lines: Vec<String>) -> Vec<String> {
    lines.retain(|line| !matches!(line.as_str(), "BEGIN" | "COMMIT" | "ROLLBACK" | "SET"));
    lines
}

/// What a query answers now.
pub fn lines_of(session: &mut dyn Session, sql: &str) -> Vec<String> {
    let mut printed = Printed::default();
    session.simple(sql, &mut printed).unwrap_or_else(|error| panic!("{sql}: {error}"));
    printed.lines
}
