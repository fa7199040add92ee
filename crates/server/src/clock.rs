//! The clocks of the server: it is part of the outermost shell, whose clients live in real time.
//!
//! Nothing below this crate gets its time from here.
#![expect(clippy::disallowed_methods, reason = "sockets and their time-outs are in real time")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// For time-outs.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// For people: microseconds since 1970-01-01 UTC.
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
