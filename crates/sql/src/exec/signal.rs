//! Stopping another session: `pg_cancel_backend` and `pg_terminate_backend`, for all sessions of the pod.
//!
//! 1. Who may: superusers; for sessions of others, members of the session's role and of `pg_signal_backend`.
//!    Only superusers stop superusers.
//! 2. A process id names its host. Another host is asked which role has the session, and, when that may be,
//!    to stop it (storage/signals.rs). Who waits for an answer hears a cancel; a host that is ruled out
//!    meanwhile has no sessions.
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use super::SqlHost;
use super::privilege;
use super::sleep::nap;
use super::system::SessionSystem;
use crate::catalog::object::SIGNAL_ROLE;
use crate::error::{Result, Severity, SqlError, SqlState};
use crate::session::{InterruptReason, host_of};
use crate::slots::Bell;
use crate::storage::signals::{self, Kind, Signal};
use crate::types::value::Value;

/// How long nobody looks whether the statement shall end.
const LOOK: Duration = Duration::from_millis(10);
/// After so many looks without an answer it is worth looking whether the host is still there.
const LOOKS: u32 = 25;
/// So many of these and the host does not answer.
const PATIENCE: u32 = 40;

/// `pg_cancel_backend`.
pub(super) fn cancel(on: &SessionSystem<'_>, process_id: i32) -> Result<Value> {
    stop(on, process_id, InterruptReason::Cancel).map(Value::Bool)
}

/// `pg_terminate_backend`: waits for so long for the session's end.
pub(super) fn terminate(on: &SessionSystem<'_>, process_id: i32, timeout_ms: i64) -> Result<Value> {
    if timeout_ms < 0 {
        let message = "\"timeout\" must not be negative";
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    let begun = on.shared.surroundings.clock_us();
    let found = stop(on, process_id, InterruptReason::Terminate)?;
    if !found || timeout_ms == 0 {
        return Ok(Value::Bool(found));
    }
    while role_of(on, process_id, None)?.is_some() {
        if on.shared.surroundings.clock_us() - begun >= timeout_ms.saturating_mul(1000) {
            let unit = if timeout_ms == 1 { "millisecond" } else { "milliseconds" };
            warn(on, format!("backend with PID {process_id} did not terminate within {timeout_ms} {unit}"));
            return Ok(Value::Bool(false));
        }
        on.shared.interrupt.check()?;
        // The session that ends may want the worker.
        on.store.rest();
        nap(LOOK);
    }
    Ok(Value::Bool(true))
}

fn warn(on: &SessionSystem<'_>, message: String) {
    let warning = SqlError::notice(Severity::Warning, SqlState::WARNING, message);
    on.shared.notices.borrow_mut().push(warning);
}

/// Stops a session if that may be; false, and a warning, if there is none.
fn stop(on: &SessionSystem<'_>, process_id: i32, reason: InterruptReason) -> Result<bool> {
    if let Some(role) = role_of(on, process_id, None)? {
        may(on, &role, reason)?;
        if role_of(on, process_id, Some(reason))?.is_some() {
            return Ok(true);
        }
    }
    warn(on, format!("PID {process_id} is not a PostgreSQL backend process"));
    Ok(false)
}

/// 42501 if the session of this role is not the asking one's to stop.
fn may(on: &SessionSystem<'_>, role: &str, reason: InterruptReason) -> Result<()> {
    let (store, shared) = (on.store, on.shared);
    if privilege::asks_superuser(store, shared) {
        return Ok(());
    }
    let role = store.role(role).unwrap_or(0);
    let own = privilege::roles_of(store, privilege::asking(store, shared), true);
    let message = match (reason, privilege::is_superuser(store, role)) {
        (InterruptReason::Terminate, true) => "must be a superuser to terminate superuser process",
        (_, true) => "must be a superuser to cancel superuser query",
        _ if own.contains(&role) || own.contains(&SIGNAL_ROLE) => return Ok(()),
        (InterruptReason::Terminate, _) => {
            "must be a member of the role whose process is being terminated or member of pg_signal_backend"
        }
        _ => "must be a member of the role whose query is being canceled or member of pg_signal_backend",
    };
    Err(privilege::refused(message))
}

/// The role that has a session of the pod, which shall stop if there is a reason; `None`: there is none.
fn role_of(on: &SessionSystem<'_>, process_id: i32, stop: Option<InterruptReason>) -> Result<Option<String>> {
    match on.store.host() {
        Some(host) if host_of(process_id) != host_of(on.shared.process_id) => ask(on, host, process_id, stop),
        _ => Ok(on.shared.server.role_of(process_id, stop)),
    }
}

/// As [`role_of`], of another host.
fn ask(
    on: &SessionSystem<'_>,
    host: &Arc<SqlHost>,
    process_id: i32,
    stop: Option<InterruptReason>,
) -> Result<Option<String>> {
    let (to, from) = (host_of(process_id), host_of(on.shared.process_id));
    let is_member = || host.slots.beside(None, move |running| Ok(running.tx.is_member(to)));
    if process_id < 0 || !is_member()? {
        return Ok(None);
    }
    let number = host.catalog.numbers().take();
    let asked = host.slots.directory().ask(number);
    let question = Signal { process_id, number, kind: Kind::Question { from, stop } };
    let classes = host.catalog.classes().clone();
    host.slots.later(Some(Bell::Signals), move |running| {
        signals::put(running.tx, &classes, running.host.numbers(), (to, &question)).map(drop)
    });
    for _ in 0..PATIENCE {
        for _ in 0..LOOKS {
            match asked.answer.recv_timeout(LOOK) {
                Ok(role) => return Ok(role),
                Err(RecvTimeoutError::Timeout) => on.shared.interrupt.check()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
        if !is_member()? {
            return Ok(None);
        }
    }
    let message = format!("host {to}, which serves PID {process_id}, does not answer");
    Err(SqlError::new(SqlState::CANNOT_CONNECT_NOW, message).hint("Try again."))
}
