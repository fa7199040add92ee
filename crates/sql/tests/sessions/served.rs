//! The server of a host, as its sessions see it: who is connected, what they do, and how they are stopped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use liger_sql::session::{Activity, ActivityState, Interrupt, InterruptReason, ServerView};

/// A server that shows its sessions.
#[derive(Default)]
pub struct Sessions(pub Mutex<BTreeMap<i32, (String, Arc<Interrupt>)>>);

impl ServerView for Sessions {
    fn connections_max(&self) -> usize {
        100
    }

    fn activity(&self) -> Vec<Activity> {
        let shown = |(process_id, (user, interrupt)): (&i32, &(String, Arc<Interrupt>))| Activity {
            process_id: *process_id,
            user: user.clone(),
            database: "shop".to_string(),
            application_name: String::new(),
            address: None,
            encrypted: false,
            backend_start_us: 0,
            query_start_us: 0,
            state_change_us: 0,
            state: ActivityState::Active,
            place: interrupt.place(),
            progress: interrupt.progress().look(),
            transaction_start_us: 0,
            query: String::new(),
        };
        self.0.lock().expect("no panic").iter().map(shown).collect()
    }

    fn started_us(&self) -> i64 {
        0
    }

    fn role_of(&self, process_id: i32, stop: Option<InterruptReason>) -> Option<String> {
        let sessions = self.0.lock().expect("no panic");
        let (user, interrupt) = sessions.get(&process_id)?;
        stop.into_iter().for_each(|reason| interrupt.raise(reason));
        Some(user.clone())
    }

    fn password_verifier(&self, password: &str) -> String {
        password.to_string()
    }
}
