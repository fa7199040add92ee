//! A judge: is there a serial order that explains what everybody was told, and what is there in the end?
//!
//! Each order is tried by running the transactions one after the other, in a database in memory that shares
//! no storage, no lock and no transaction with the one that is judged. An order is out if it contradicts time
//! (one had ended before the other began): what is claimed is strict serializability. Transactions that were
//! rolled back, and those that a conflict ended, are in the order too, and change nothing: what they were
//! told until then must be explained as well.

use std::collections::BTreeMap;

use liger_sql::exec::LocalSession;
use liger_sql::exec::memory::Memory;

use super::script::Script;
use super::{End, Ran, lines_of, without_tags};
use crate::client::{Fixed, answer, start};

/// A transaction as far as it went: session, transaction, steps that were answered, whether it committed.
type Played = (usize, usize, Vec<usize>, bool);
/// What the transactions of an order were told, and the state in the end.
type Outcome = (Vec<Vec<Vec<String>>>, Vec<Vec<String>>);

/// Judges runs of one script.
pub struct Judge<'s> {
    script: &'s Script,
    known: BTreeMap<Vec<Played>, Outcome>,
}

fn played(ran: &Ran) -> Played {
    let steps = ran.heard.iter().map(|(step, _)| *step).collect();
    (ran.session, ran.transaction, steps, ran.end == End::Committed)
}

impl<'s> Judge<'s> {
    pub fn new(script: &'s Script) -> Judge<'s> {
        Judge { script, known: BTreeMap::new() }
    }

    /// How many serial runs were made.
    pub fn serial_runs(&self) -> usize {
        self.known.len()
    }

    /// Whether a serial order explains it; if not, what each order would have given.
    pub fn explains(&mut self, ran: &[Ran], state: &[Vec<String>]) -> Result<(), String> {
        let mut why = String::new();
        let all: Vec<&Ran> = ran.iter().filter(|ran| !ran.heard.is_empty()).collect();
        match self.search(&all, &mut Vec::new(), state, &mut why) {
            true => Ok(()),
            false => Err(why),
        }
    }

    fn search(
        &mut self,
        all: &[&Ran],
        order: &mut Vec<usize>,
        state: &[Vec<String>],
        why: &mut String,
    ) -> bool {
        if order.len() == all.len() {
            return self.fits(all, order, state, why);
        }
        for next in 0..all.len() {
            let is_due = |other: usize| order.contains(&other) || all[other].ended >= all[next].began;
            if order.contains(&next) || !(0..all.len()).all(is_due) {
                continue;
            }
            order.push(next);
            if self.search(all, order, state, why) {
                return true;
            }
            order.pop();
        }
        false
    }

    fn fits(&mut self, all: &[&Ran], order: &[usize], state: &[Vec<String>], why: &mut String) -> bool {
        let key: Vec<Played> = order.iter().map(|at| played(all[*at])).collect();
        let script = self.script;
        let (told, wanted) = self.known.entry(key).or_insert_with_key(|key| serially(script, key));
        let mut fits = wanted.as_slice() == state;
        for (at, told) in order.iter().zip(told.iter()) {
            let heard = &all[*at].heard;
            fits &= heard.iter().map(|(_, lines)| lines).eq(told.iter());
        }
        if !fits {
            let names: Vec<String> =
                order.iter().map(|at| format!("{}.{}", all[*at].session, all[*at].transaction)).collect();
            why.push_str(&format!("  {}: told {told:?}, state {wanted:?}\n", names.join(" ")));
        }
        fits
    }
}

/// Runs transactions one after the other.
fn serially(script: &Script, order: &[Played]) -> Outcome {
    let session = LocalSession::new(Memory::default(), start(), Box::new(Fixed));
    let mut session = session.expect("a session without settings opens");
    for sql in script.setup.iter().chain(&script.reset) {
        let lines = answer(&mut session, sql);
        assert!(!lines.iter().any(|line| line.starts_with("ERROR")), "{}: {sql}: {lines:?}", script.name);
    }
    let mut told = Vec::new();
    for (number, transaction, steps, committed) in order {
        let all = &script.sessions[*number][*transaction];
        told.push(steps.iter().map(|step| without_tags(answer(&mut session, &all[*step]))).collect());
        if !committed {
            answer(&mut session, "rollback");
        }
    }
    let state = script.state.iter().map(|sql| lines_of(&mut session, sql)).collect();
    (told, state)
}
