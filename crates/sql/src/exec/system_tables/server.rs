//! Functions and rows that say how the server is: since when, where its log has come to, who is encrypted.
//!
//! There is no log of the whole pod with one position in it, no standby, and no number of transactions that
//! could run out: positions are NULL, and ages 0.

use super::Maker;
use super::activity::EPOCH_SECONDS;
use crate::error::{Result, SqlError, SqlState};
use crate::exec::Row;
use crate::exec::system::SessionSystem;
use crate::types::oid;
use crate::types::value::Value;

/// Sources of these functions.
const SOURCES: &[&str] = &[
    "pg_postmaster_start_time",
    "pg_conf_load_time",
    "pg_blocking_pids",
    "pg_relation_filepath",
    "pg_last_wal_receive_lsn",
    "pg_last_wal_replay_lsn",
    "pg_last_xact_replay_timestamp",
    "pg_is_wal_replay_paused",
    "pg_get_wal_replay_pause_state",
    "xid_age",
    "mxid_age",
];
/// And the beginnings of several: positions in the log, and what was counted of a table.
const POSITIONS: &str = "pg_current_wal_";
const COUNTS: &str = "pg_stat_get_";

pub(super) fn knows(source: &str) -> bool {
    SOURCES.contains(&source) || source.starts_with(POSITIONS) || source.starts_with(COUNTS)
}

/// The value of a function.
///
/// # Errors
/// 55000 where only a standby has an answer.
pub(super) fn call(on: &SessionSystem<'_>, source: &str, arguments: &[Value]) -> Result<Value> {
    if let (Some(what), Some(Value::Oid(table))) = (source.strip_prefix(COUNTS), arguments.first()) {
        return Ok(super::statistics::counted(on, what, *table));
    }
    Ok(match source {
        // What is set in files is read when the server starts.
        "pg_postmaster_start_time" | "pg_conf_load_time" => {
            Value::Timestamptz(on.shared.server.started_us() - EPOCH_SECONDS * 1_000_000)
        }
        "pg_blocking_pids" => Value::array(oid::INT4, Vec::new()),
        "xid_age" | "mxid_age" => Value::Int4(0),
        "pg_is_wal_replay_paused" | "pg_get_wal_replay_pause_state" => {
            let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
            let error = SqlError::new(state, "recovery is not in progress");
            return Err(error.hint("Recovery control functions can only be executed during recovery."));
        }
        source if source.starts_with(COUNTS) && !source.ends_with("_time") => Value::Int8(0),
        _ => Value::Null,
    })
}

/// Rows of `pg_stat_ssl`.
pub(super) fn encryption(on: &SessionSystem<'_>) -> Vec<Row> {
    let maker = Maker::of("pg_stat_ssl", ["pid", "ssl"]);
    let sessions = on.shared.server.activity().into_iter();
    sessions.map(|one| maker.row([Value::Int4(one.process_id), Value::Bool(one.encrypted)])).collect()
}
