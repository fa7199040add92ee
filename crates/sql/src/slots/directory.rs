//! The directory of a host: which sessions it serves, and what its sessions have asked about those of others.
//!
//! Invariants:
//! 1. A session is entered while it lives.
//! 2. An answer goes to who asked, or, if that one waits no longer, to nobody.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use super::lock;
use crate::session::ServerView;
use crate::storage::signals::{Kind, Signal};

/// Sessions, by process id, and questions, by number.
#[derive(Default)]
pub struct Directory {
    sessions: Mutex<BTreeMap<i32, Arc<dyn ServerView>>>,
    asked: Mutex<BTreeMap<u64, Sender<Option<String>>>>,
}

/// A question that is not answered yet.
pub struct Asked<'a> {
    directory: &'a Directory,
    number: u64,
    /// The answer comes here.
    pub answer: Receiver<Option<String>>,
}

impl Directory {
    /// A session begins; `server` serves it.
    pub fn enter(&self, process_id: i32, server: &Arc<dyn ServerView>) {
        lock(&self.sessions).insert(process_id, server.clone());
    }

    /// A session has ended.
    pub fn leave(&self, process_id: i32) {
        lock(&self.sessions).remove(&process_id);
    }

    /// Something is asked by this number.
    pub fn ask(&self, number: u64) -> Asked<'_> {
        let (said, answer) = channel();
        lock(&self.asked).insert(number, said);
        Asked { directory: self, number, answer }
    }

    /// Does what a signal for this host says; the answer, and for which host.
    pub(super) fn receive(&self, signal: &Signal) -> Option<(u8, Signal)> {
        let Signal { process_id, number, kind } = signal;
        match kind {
            Kind::Answer(role) => {
                if let Some(said) = lock(&self.asked).remove(number) {
                    // Who waits no longer needs no answer.
                    let _ = said.send(role.clone());
                }
                None
            }
            Kind::Question { from, stop } => {
                let server = lock(&self.sessions).get(process_id).cloned();
                let role = server.and_then(|server| server.role_of(*process_id, *stop));
                Some((*from, Signal { kind: Kind::Answer(role), ..*signal }))
            }
        }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        lock(&self.directory.asked).remove(&self.number);
    }
}
