//! Rows of SQL objects as rows of the engine.
//!
//! * [`classes`]: the fixed family of engine tables, and where an object's rows lie in one;
//! * [`key`], [`row`], `codec`: keys that sort like values, bodies that hold them;
//! * [`access`]: what is asked of a transaction; [`undo`]: savepoints over it; [`private`]: a session's own
//!   rows beside it;
//! * [`table`], [`scan`], `index`: rows of a table with their index entries; [`bulk`]: many of them at once;
//!   [`ahead`]: those that are needed next; [`overflow`]: values that do not fit a row; `check`: whether they
//!   fit together;
//! * [`parts`]: the objects that are there before the first table, and what lies in them: [`garbage`]: rows
//!   of objects that are gone; [`advisory`]: locks that sessions name; [`notices`], [`signals`]: what they
//!   tell one another;
//! * [`numbers`]: numbers that are never given twice.
//!
//! It does NOT know descriptions of objects: the catalog makes the way to a table's rows of one.

pub mod access;
pub mod advisory;
pub mod ahead;
pub mod bulk;
pub mod census;
pub(crate) mod check;
pub mod classes;
pub mod codec;
mod free;
pub mod garbage;
pub(crate) mod index;
pub mod key;
pub mod notices;
pub mod numbers;
pub mod overflow;
pub mod parts;
pub mod private;
mod reading;
pub mod row;
pub mod scan;
pub mod signals;
pub mod table;
pub mod undo;
