//! One file per command.

pub mod bench;
pub mod hosts;
pub mod inspect;
pub mod sim;
pub mod status;
pub mod up;
pub mod verify;
