//! Who may come in, and how they prove who they are.
//!
//! `hba` has the rules (which method for whom from where), `scram` the proof without sending the password,
//! `tls` the encryption. The order in which a connection uses them is in `startup`.

pub mod hba;
pub mod scram;
pub mod tls;
