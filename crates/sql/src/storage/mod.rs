//! SQL objects as rows of the engine.
//!
//! * [`classes`]: the fixed family of engine tables, and where an object's rows lie in one;
//! * [`key`], [`row`], `codec`: keys that sort like values, bodies that hold them;
//! * [`access`]: what is asked of a transaction; [`undo`]: savepoints over it; [`private`]: a session's own
//!   rows beside it;
//! * [`table`], [`scan`], `index`: rows of a table with their index entries; [`sizing`]: the classes that
//!   they get;
//! * [`overflow`]: values that do not fit a row; [`sequence`]: numbers; [`garbage`]: rows of objects that are
//!   gone; [`check`]: whether all of it fits together;
//! * [`slots`]: workers that run transactions for sessions; [`advisory`]: locks that sessions name;
//!   [`notices`]: what they tell one another.

pub mod access;
pub mod advisory;
pub mod census;
pub mod check;
pub mod classes;
pub mod codec;
mod free;
pub mod garbage;
mod index;
pub mod key;
pub mod notices;
pub mod overflow;
pub mod private;
mod reading;
pub mod row;
pub mod scan;
pub mod sequence;
pub mod signals;
pub mod sizing;
pub mod slots;
pub mod table;
pub mod undo;
