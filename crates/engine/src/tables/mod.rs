//! Tables as bytes: keys that compare like their values, rows that are read and patched in place, and how
//! declared tables become both.
//!
//! Not here: which tables a pod has (catalog.rs), and who holds what of them.

pub(crate) mod column;
pub(crate) mod key;
pub(crate) mod layout;
mod macros;
pub(crate) mod record;
pub(crate) mod schema;
