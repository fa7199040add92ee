//! Waiting because a statement asks for it: `pg_sleep` and its relatives.
//!
//! 1. A statement that sleeps is told of a cancel or a time-out within [`LOOK`].
//! 2. Its transaction keeps its locks meanwhile, as in PostgreSQL, and no worker.
use std::sync::mpsc::channel;
use std::time::Duration;

use super::system::SessionSystem;
use crate::error::{Result, SqlError, SqlState};
use crate::types::value::Value;

/// How long nobody looks whether the statement shall end.
const LOOK: Duration = Duration::from_millis(10);
const MICROSECONDS: f64 = 1_000_000.0;
const DAY_US: i64 = 86_400_000_000;

/// Sources of functions.
pub(super) const SOURCES: &[&str] = &["pg_sleep", "pg_sleep_for/1", "pg_sleep_until/1"];

/// Waits.
pub(super) fn nap(rest: Duration) {
    // Nobody ever sends.
    let (_sender, nothing) = channel::<()>();
    let _ = nothing.recv_timeout(rest);
}

/// Waits for as long as the function's argument says.
pub(super) fn call(on: &SessionSystem<'_>, argument: Option<&Value>) -> Result<Value> {
    let us = match argument {
        None | Some(Value::Null) => return Ok(Value::Null),
        Some(Value::Float8(seconds)) => seconds * MICROSECONDS,
        Some(Value::Interval(interval)) => {
            // A month is as long as where intervals are compared.
            let days = i64::from(interval.months) * 30 + i64::from(interval.days);
            (days * DAY_US + interval.micros) as f64
        }
        Some(Value::Timestamptz(until)) => until.saturating_sub(on.shared.surroundings.clock_us()) as f64,
        Some(other) => {
            let message = format!("pg_sleep was called with {other:?}");
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, message));
        }
    };
    // Nobody waits for a century; NaN is no time at all.
    let us = if us.is_nan() { 0.0 } else { us.clamp(0.0, 3.2e15) };
    let mut left = Duration::from_micros(us as u64);
    on.store.rest();
    while !left.is_zero() {
        on.shared.interrupt.check()?;
        let part = left.min(LOOK);
        nap(part);
        left -= part;
    }
    on.shared.interrupt.check()?;
    Ok(Value::Void)
}
