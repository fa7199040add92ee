//! The listeners of a host: which sessions listen to which channels, and handing them what has come.
//!
//! Invariants:
//! 1. A session is entered before the transaction commits in which it begins to listen, and before this host
//!    says that it listens: so it misses nothing that commits later.
//! 2. Handing over never blocks, and says nothing to sessions that do not listen.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::session::{Client, Notification};
use crate::storage::notices::Notice;

/// Sessions by process id, by channel.
type Channels = BTreeMap<String, BTreeMap<i32, Arc<dyn Client>>>;

/// Who listens.
#[derive(Default)]
pub struct Listeners {
    channels: Mutex<Channels>,
    is_wanted: AtomicBool,
}

impl Listeners {
    fn channels(&self) -> MutexGuard<'_, Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session listens to a channel from now on.
    pub fn listen(&self, channel: &str, process_id: i32, client: &Arc<dyn Client>) {
        self.channels().entry(channel.to_owned()).or_default().insert(process_id, client.clone());
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// It listens to this channel no longer.
    pub fn unlisten(&self, channel: &str, process_id: i32) {
        let mut channels = self.channels();
        if let Some(sessions) = channels.get_mut(channel) {
            sessions.remove(&process_id);
            if sessions.is_empty() {
                channels.remove(channel);
            }
        }
        self.is_wanted.store(!channels.is_empty(), Ordering::Relaxed);
    }

    /// Whether any session listens to anything.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Hands notifications over, in their order.
    pub(super) fn hand_over(&self, notices: &[Notice]) {
        let channels = self.channels();
        for Notice { process_id, channel, payload } in notices {
            for client in channels.get(channel).into_iter().flat_map(BTreeMap::values) {
                let (channel, payload) = (channel.clone(), payload.clone());
                client.notify(Notification { process_id: *process_id, channel, payload });
            }
        }
    }
}
