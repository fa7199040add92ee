//! One file per command.

pub mod bench;
pub mod inspect;
pub mod sim;
