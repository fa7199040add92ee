//! LISTEN, UNLISTEN and NOTIFY of a session: what its transaction has asked for, and what holds.
//!
//! Invariants:
//! 1. Nothing of it happens before the commit: the session is entered just before, and taken out again if the
//!    commit fails; what it leaves and what it sends happens with the commit.
//! 2. Equal notifications of a transaction are one.
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use super::SqlHost;
use super::store::Store;
use super::system::{Shared, text_of};
use crate::error::{Result, SqlError, SqlState};
use crate::storage::notices::{self, Notice};
use crate::types::value::Value;

/// Bytes of a channel's name and of a payload are less.
const CHANNEL_BYTES: usize = 64;
const PAYLOAD_BYTES: usize = 8000;

/// What a transaction does with a channel.
#[derive(Clone, Debug)]
enum Action {
    Listen(String),
    Unlisten(String),
    UnlistenAll,
}

/// What a session listens to, and what its transaction will do.
#[derive(Default)]
pub(crate) struct Notify {
    channels: RefCell<BTreeSet<String>>,
    actions: RefCell<Vec<Action>>,
    /// In their order; and as a set of (channel, payload).
    notices: RefCell<Vec<Notice>>,
    known: RefCell<BTreeSet<(String, String)>>,
    /// The channels that the running commit adds.
    added: RefCell<Vec<String>>,
    /// Its notifications are on their way to somebody.
    sent: Cell<bool>,
}

/// How far a transaction had come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    actions: usize,
    notices: usize,
}

impl Notify {
    /// Where the transaction is.
    pub(crate) fn point(&self) -> Point {
        Point { actions: self.actions.borrow().len(), notices: self.notices.borrow().len() }
    }

    /// Back to there.
    pub(crate) fn back_to(&self, point: Point) {
        self.actions.borrow_mut().truncate(point.actions);
        let (mut notices, mut known) = (self.notices.borrow_mut(), self.known.borrow_mut());
        while notices.len() > point.notices {
            if let Some(Notice { channel, payload, .. }) = notices.pop() {
                known.remove(&(channel, payload));
            }
        }
    }

    /// LISTEN.
    pub(crate) fn listen(&self, channel: &str) {
        self.actions.borrow_mut().push(Action::Listen(channel.to_owned()));
    }

    /// UNLISTEN; `None`: all channels.
    pub(crate) fn unlisten(&self, channel: Option<&str>) {
        let action = channel.map_or(Action::UnlistenAll, |channel| Action::Unlisten(channel.to_owned()));
        self.actions.borrow_mut().push(action);
    }

    /// NOTIFY.
    pub(crate) fn notify(&self, process_id: i32, channel: &str, payload: &str) -> Result<()> {
        let refuse = |message: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        if channel.is_empty() {
            return refuse("channel name cannot be empty");
        }
        if channel.len() >= CHANNEL_BYTES {
            return refuse("channel name too long");
        }
        if payload.len() >= PAYLOAD_BYTES {
            return refuse("payload string too long");
        }
        if self.known.borrow_mut().insert((channel.to_owned(), payload.to_owned())) {
            let (channel, payload) = (channel.to_owned(), payload.to_owned());
            self.notices.borrow_mut().push(Notice { process_id, channel, payload });
        }
        Ok(())
    }

    /// What the session listens to.
    pub(crate) fn channels(&self) -> Vec<String> {
        self.channels.borrow().iter().cloned().collect()
    }

    /// What it will listen to.
    fn wanted(&self) -> BTreeSet<String> {
        let mut channels = self.channels.borrow().clone();
        for action in &*self.actions.borrow() {
            match action {
                Action::Listen(channel) => _ = channels.insert(channel.clone()),
                Action::Unlisten(channel) => _ = channels.remove(channel),
                Action::UnlistenAll => channels.clear(),
            }
        }
        channels
    }

    /// Before the commit: enters the session for what it begins to listen to, and sends.
    pub(crate) fn before_commit(&self, store: &dyn Store, shared: &Shared) -> Result<()> {
        if !self.actions.borrow().is_empty()
            && let Some(host) = store.host()
        {
            let wanted = self.wanted();
            let added: Vec<String> = wanted.difference(&self.channels.borrow()).cloned().collect();
            let listeners = host.slots.listeners();
            if !added.is_empty() {
                // What has committed before is not for this session.
                host.slots.deliver();
            }
            added.iter().for_each(|channel| listeners.listen(channel, shared.process_id, &shared.client));
            let any = !added.is_empty();
            *self.added.borrow_mut() = added;
            if any {
                announce(host)?;
            }
        }
        let notices = self.notices.borrow();
        if !notices.is_empty() {
            self.sent.set(store.notify(&notices)?);
        }
        Ok(())
    }

    /// The transaction has ended.
    pub(crate) fn after_end(&self, store: &dyn Store, shared: &Shared, committed: bool) {
        let added = std::mem::take(&mut *self.added.borrow_mut());
        if let Some(host) = store.host() {
            let now = if committed { self.wanted() } else { self.channels.borrow().clone() };
            let before: BTreeSet<String> = self.channels.borrow().iter().cloned().chain(added).collect();
            leave(host, before.difference(&now), shared.process_id);
            if self.sent.take() && committed && host.slots.listeners().is_wanted() {
                // What it has sent to itself, and to others of its host, comes with its answer.
                host.slots.deliver();
            }
        }
        if committed && !self.actions.borrow().is_empty() {
            let wanted = self.wanted();
            *self.channels.borrow_mut() = wanted;
        }
        self.actions.borrow_mut().clear();
        self.notices.borrow_mut().clear();
        self.known.borrow_mut().clear();
    }

    /// The session ends.
    pub(crate) fn leave(&self, host: &SqlHost, process_id: i32) {
        leave(host, std::mem::take(&mut *self.channels.borrow_mut()).iter(), process_id);
    }
}

/// Tells all hosts that sessions of this one listen.
fn announce(host: &SqlHost) -> Result<()> {
    let classes = host.catalog.classes().clone();
    host.slots.beside(None, move |running| notices::set_listening(running.tx, &classes, true))
}

fn leave<'a>(host: &SqlHost, channels: impl Iterator<Item = &'a String>, process_id: i32) {
    let mut any = false;
    for channel in channels {
        host.slots.listeners().unlisten(channel, process_id);
        any = true;
    }
    if any && !host.slots.listeners().is_wanted() {
        host.slots.fall_silent(host.catalog.classes().clone());
    }
}

/// `pg_notify`.
pub(super) fn call(shared: &Shared, arguments: &[Value]) -> Result<Value> {
    let text = |at: usize| text_of(arguments.get(at));
    shared.notify.notify(shared.process_id, text(0), text(1))?;
    Ok(Value::Void)
}
