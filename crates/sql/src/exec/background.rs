//! What a host does by itself: tables are analyzed of which many rows have been changed, as PostgreSQL's
//! autovacuum does: after 50 changes and a tenth of the rows, unless the table says otherwise.
//!
//! Each host counts the changes that it has made itself, and takes others to have made as many. Whichever
//! finds a table due first analyzes it for the pod: the others see that, and count anew.

use std::sync::Arc;

use super::pooled::{EngineDatabase, PooledSession};
use crate::catalog::object::{BOOTSTRAP_ROLE, Object, Table};
use crate::catalog::view::CatalogView;
use crate::error::{Result, SqlError};
use crate::exec::engine::EngineStore;
use crate::exec::session::LocalSession;
use crate::session::{
    Activity, Client, ColumnDescription, CopyInput, CopyShape, Formats, Interrupt, InterruptReason,
    NUMBER_BITS, Notification, ServerView, SessionStart, Sink,
};
use crate::types::Oid;
use crate::types::context::EvalContext;
use crate::types::value::Value;

/// Changes after which a table is looked at again: so many, and this share of its rows.
const THRESHOLD: f64 = 50.0;
const SCALE: f64 = 0.1;

/// A session without a client.
struct Nobody;

impl Client for Nobody {
    fn notify(&self, _: Notification) {}
}

impl ServerView for Nobody {
    fn activity(&self) -> Vec<Activity> {
        Vec::new()
    }

    fn started_us(&self) -> i64 {
        0
    }

    fn connections_max(&self) -> usize {
        0
    }

    fn role_of(&self, _: i32, _: Option<InterruptReason>) -> Option<String> {
        None
    }

    fn password_verifier(&self, password: &str) -> String {
        password.to_string()
    }
}

/// Nobody hears what is told.
struct Silent;

impl Sink for Silent {
    fn columns(&mut self, _: &[ColumnDescription], _: Formats<'_>) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, _: &EvalContext<'_>, _: &[Value]) -> Result<()> {
        Ok(())
    }

    fn command_complete(&mut self, _: &str) -> Result<()> {
        Ok(())
    }

    fn empty(&mut self) -> Result<()> {
        Ok(())
    }

    fn notice(&mut self, _: &SqlError) -> Result<()> {
        Ok(())
    }

    fn copy_in(&mut self, _: &CopyShape) -> Result<()> {
        Ok(())
    }

    fn copy_read(&mut self, _: &mut dyn FnMut()) -> Result<CopyInput<'_>> {
        Ok(CopyInput::Done)
    }

    fn copy_out(&mut self, _: &CopyShape) -> Result<()> {
        Ok(())
    }

    fn copy_bytes(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn copy_out_done(&mut self) -> Result<()> {
        Ok(())
    }

    fn next_statement(&mut self, _: u64) {}

    fn told(&self) -> u64 {
        0
    }

    fn unsay(&mut self, _: u64) -> bool {
        true
    }
}

/// What a table says of when it is analyzed: changes and a share of its rows; `None`: never by itself.
fn due_after(table: &Table) -> Option<(f64, f64)> {
    let of = |name: &str| table.options.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
    if of("autovacuum_enabled").is_some_and(|value| matches!(value, "false" | "off" | "no" | "0")) {
        return None;
    }
    let number = |name: &str, start: f64| of(name).and_then(|value| value.parse().ok()).unwrap_or(start);
    Some((
        number("autovacuum_analyze_threshold", THRESHOLD),
        number("autovacuum_analyze_scale_factor", SCALE),
    ))
}

impl EngineDatabase {
    /// Analyzes the tables that are due on this host, which has this number; their names.
    ///
    /// # Errors
    /// If the host ends, or `interrupt` says so.
    pub fn analyze_changed(&self, host: u8, interrupt: &Arc<Interrupt>) -> Result<Vec<String>> {
        let known = self.host.catalog.statistics();
        if known.changed().is_empty() {
            return Ok(Vec::new());
        }
        // Another host may have done it meanwhile.
        self.host.slots.look()?;
        let mut names = Vec::new();
        for (oid, changed) in known.changed() {
            if !self.is_due(oid, changed) {
                continue;
            }
            let mut session = self.own_session(host, interrupt)?;
            let analyzed = session.with_worker(&mut Silent, false, |own, _| own.analyze_alone(oid));
            session.give_turn_back();
            match analyzed {
                Ok(name) => names.extend(name),
                // It is tried again when it is due again.
                Err(error) if interrupt.check().is_err() => return Err(error),
                Err(_) => {}
            }
        }
        Ok(names)
    }

    fn is_due(&self, oid: Oid, changed: u64) -> bool {
        let catalog = self.host.catalog.cached();
        let Some((threshold, scale)) = catalog.table(oid).and_then(due_after) else { return false };
        let known = self.host.catalog.statistics();
        let rows = known.of(oid).map_or(0.0, |known| known.rows);
        let (own, all) = known.places();
        changed as f64 * all as f64 / own.max(1) as f64 > threshold + scale * rows
    }

    fn own_session(&self, host: u8, interrupt: &Arc<Interrupt>) -> Result<PooledSession> {
        let catalog = self.host.catalog.cached();
        let user = catalog.get(BOOTSTRAP_ROLE).map_or(String::new(), |role| role.name().to_string());
        self.pooled(SessionStart {
            database: user.clone(),
            user,
            parameters: Vec::new(),
            // No client of the host gets that number.
            process_id: (i32::from(host) << NUMBER_BITS) | ((1 << NUMBER_BITS) - 1),
            address: None,
            interrupt: interrupt.clone(),
            encoding: Arc::default(),
            client: Arc::new(Nobody),
            server: Arc::new(Nobody),
        })
    }
}

impl LocalSession<EngineStore> {
    /// Analyzes a table in a transaction of its own; its name, if it is still there.
    fn analyze_alone(&mut self, oid: Oid) -> Result<Option<String>> {
        self.ensure_open()?;
        let object = self.store.object(oid);
        let Some(Object::Table(table)) = object.as_deref() else { return self.end(true).map(|()| None) };
        let columns: Vec<usize> = (0..table.columns.len()).filter(|at| !table.columns[*at].dropped).collect();
        let table = Arc::new(table.clone());
        self.analyze(&table, &columns, (false, false))?;
        self.end(true)?;
        Ok(Some(table.name.clone()))
    }
}
