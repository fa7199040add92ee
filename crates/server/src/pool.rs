//! Threads for connections that are busy.
//!
//! A connection keeps its thread while its client keeps talking, so that a request is read by a thread that
//! waits for just this socket: the shortest way there is without spinning. There are as many threads as
//! there are busy connections; those without work for a while end.
//!
//! Invariants:
//! 1. A connection in the queue is taken: by a thread that waits, or by one that was started for it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::connection::Connection;
use crate::metrics::{Metrics, add};
use crate::peer::lock;

/// A thread without work ends after this.
const IDLE: Duration = Duration::from_secs(10);

/// The threads.
pub(crate) struct Pool {
    metrics: Arc<Metrics>,
    stack_bytes: usize,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Box<Connection>>,
    waiting: usize,
}

impl Pool {
    pub(crate) fn new(metrics: Arc<Metrics>, stack_bytes: usize) -> Self {
        Self { metrics, stack_bytes, state: Mutex::default(), work: Condvar::new() }
    }

    /// Gives a connection to a thread.
    pub(crate) fn run(self: &Arc<Self>, connection: Box<Connection>) {
        let mut state = lock(&self.state);
        state.queue.push_back(connection);
        if state.queue.len() <= state.waiting {
            drop(state);
            self.work.notify_one();
            return;
        }
        let last = state.queue.pop_back().expect("just put there");
        drop(state);
        add(&self.metrics.threads, 1);
        let pool = self.clone();
        let builder = std::thread::Builder::new().name("liger-sql".to_string()).stack_size(self.stack_bytes);
        // Where no thread can be started the connection is dropped, which closes it.
        let _ = builder.spawn(move || {
            last.run();
            pool.serve();
        });
    }

    fn serve(&self) {
        loop {
            let mut state = lock(&self.state);
            state.waiting += 1;
            let waited = self.work.wait_timeout_while(state, IDLE, |state| state.queue.is_empty());
            state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
            state.waiting -= 1;
            let Some(connection) = state.queue.pop_front() else { return };
            drop(state);
            connection.run();
        }
    }
}
