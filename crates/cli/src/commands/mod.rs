//! One file per command.

pub mod backup;
pub mod bench;
pub mod clean;
pub mod explore;
pub mod grow;
pub mod hosts;
pub mod inspect;
pub mod probe;
pub mod rebalance;
pub mod reproduce;
pub mod restart;
pub mod restore;
pub mod sim;
pub mod status;
pub mod supervise;
pub mod up;
pub mod upkeep;
pub mod verify;
