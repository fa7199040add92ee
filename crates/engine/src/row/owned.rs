//! A worker that belongs to no thread: what runs a transaction for one caller after the other.
//!
//! [`RowSession`] borrows its worker's context and its host, so it lives on the stack of one thread. Who
//! serves clients on threads of their own lends them an [`OwnedSession`] instead: it owns all of that, may
//! be sent to another thread, and its transaction may rest between two calls.
//!
//! Invariants:
//! 1. One thread uses it at a time, as one thread uses a worker: it is `Send` and not `Sync`.
//! 2. A transaction that is open when it is dropped is rolled back.
//! 3. What a transaction holds is with the session or in `state`, also after a panic of whoever uses it.
//!
//! It serves nobody while it rests: some other worker of the host has to.

use std::sync::Arc;

use liger_fabric::{Cx, Fabric};

use super::host::RowHost;
use super::session::{Resting, RowSession};

/// A session of a worker with all that it needs.
pub struct OwnedSession<F: Fabric> {
    cx: Cx<F>,
    host: Arc<RowHost>,
    state: Option<Resting>,
}

/// A session in use: its state goes back when the use ends, however that is.
struct InUse<'s, F: Fabric> {
    session: Option<RowSession<'s, F>>,
    state: &'s mut Option<Resting>,
}

impl<F: Fabric> Drop for InUse<'_, F> {
    fn drop(&mut self) {
        *self.state = self.session.take().map(RowSession::rest);
    }
}

impl<F: Fabric> OwnedSession<F> {
    /// The session of the worker that `cx` is the context of.
    pub fn new(cx: Cx<F>, host: Arc<RowHost>) -> Self {
        let state = Some(RowSession::new(&cx, &host).rest());
        Self { cx, host, state }
    }

    /// Whether a transaction has begun and not ended.
    pub fn is_open(&self) -> bool {
        self.state.as_ref().is_some_and(Resting::is_open)
    }

    /// Uses it on the calling thread.
    pub fn with<R>(&mut self, work: impl FnOnce(&mut RowSession<'_, F>) -> R) -> R {
        let Self { cx, host, state } = self;
        let session = RowSession::resume(cx, host, state.take().expect("it is back after each use"));
        let mut used = InUse { session: Some(session), state };
        work(used.session.as_mut().expect("taken when it is dropped"))
    }
}

impl<F: Fabric> Drop for OwnedSession<F> {
    fn drop(&mut self) {
        if self.is_open() {
            self.with(|session| session.roll_back());
        }
    }
}
