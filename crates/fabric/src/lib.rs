//! The memory model of a CXL pod, and every backend that implements it.
//!
//! A pod is a few hosts around one shared memory whose hardware coherence covers only its *sync words*. This
//! crate says what code may do to that memory ([`Fabric`], docs/memory-model.md), gives every worker its
//! context ([`Cx`]), declares shared byte layouts ([`layout!`]), and holds the backends:
//!
//! * [`native`]: real memory shared by processes, with the processor's own cache instructions;
//! * [`shadow`]: the same memory behind a software cache for each host, so that real processes disagree;
//! * [`sim`]: a simulated pod in one thread, whose memory is truly incoherent.
//!
//! It is the only crate with `unsafe`. It knows no table, no lock protocol, no message.

extern crate self as liger_fabric;

#[doc(hidden)]
pub use zerocopy;

mod addr;
mod cx;
pub mod disk;
mod fabric;
mod latch;
mod layout;
pub mod native;
mod prefetch;
pub mod shadow;
pub mod sim;
mod sync_mode;

pub use addr::{DataAddr, LINE, SyncAddr, lines};
pub use cx::{Counts, Cx, HostId, WorkerId};
pub use fabric::{CutOff, Fabric, RangeUse, Work};
pub use latch::{Latch, LatchGuard};
pub use layout::Layout;
pub use prefetch::prefetch;
pub use sync_mode::{SyncMode, UnknownSyncMode};
