//! Checking a whole pod: what its transactions saw and did, and whether that could have happened one at a
//! time.
//!
//! * [`history`]: a recorded history of transactions, printable and storable as JSON;
//! * [`serializability`]: the exact check of such a history.
//!
//! Nothing here touches shared memory or knows which backend the history came from.

#![forbid(unsafe_code)]

pub mod history;
pub mod serializability;
