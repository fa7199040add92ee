//! PostgreSQL's protocol, version 3: what comes (`frontend`), what goes (`backend`), and the bytes on their
//! way (`stream`), long ones from where they lie (`beside`); `recode` is for clients of other encodings.
//!
//! Written here and not taken from a crate because of the shape of this server, not because of the bytes:
//! sessions block, a thread serves one busy connection, and a row is encoded straight into the buffer that
//! is sent. The crates for servers are asynchronous and hold every message and row in buffers of its own.
//! `docs/server.md` has the comparison.

pub mod backend;
pub(crate) mod beside;
pub mod frontend;
pub mod recode;
pub(crate) mod stream;
