//! A pod in a directory: what it is, its hosts' processes, and how they are talked to.
//!
//! ```text
//! DIR/pod.json          what the pod is
//! DIR/control           the supervisor's socket
//! DIR/data/host-N/      its log and checkpoints
//! DIR/host-N/control    its socket for orders
//! DIR/host-N/clients    its socket for clients
//! DIR/host-N/process    its process: number and start time
//! DIR/host-N/said       what it wrote to its standard error output
//! DIR/host-N/ended      how its last process ended, until the next one starts
//! ```
//!
//! The shared memory is a file elsewhere, in memory if there is a place for that. It is removed when the
//! pod ends in order; if its processes die, it stays for whoever starts the pod again. `data` always stays.

pub mod directory;
pub mod hosts;
pub mod line;
pub mod process;
pub mod running;

pub use directory::{PodDir, PodFile, make_folder};
pub use hosts::Hosts;
pub use line::{Line, Said, ask_host, order_all};
pub use process::Process;
pub use running::{Running, bytes_of, log_bytes};
