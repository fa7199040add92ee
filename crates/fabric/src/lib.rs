//! The memory model of a CXL pod, and every backend that implements it.
//!
//! A pod is a few hosts around one shared memory whose hardware coherence covers only its *sync words*. This
//! crate says what code may do to that memory ([`Fabric`], docs/memory-model.md), gives every worker its
//! context ([`Cx`]), declares shared byte layouts ([`layout!`]), and holds the backends:
//!
//! * [`native`]: real memory shared by processes, with the processor's own cache instructions;
//! * [`paced`]: the same memory, slowed down to the latencies and bandwidth of a hardware profile;
//! * [`shadow`]: the same memory behind a software cache for each host, so that real processes disagree;
//! * [`sim`]: a simulated pod in one thread, whose memory is truly incoherent.
//!
//! It is the only crate with `unsafe`. It knows no table, no lock protocol, no message.

extern crate self as liger_fabric;

#[doc(hidden)]
pub use zerocopy;

mod addr;
mod costs;
mod cx;
pub mod disk;
mod fabric;
mod latch;
mod layout;
pub mod native;
pub mod paced;
mod prefetch;
pub mod probe;
pub mod profile;
pub mod shadow;
mod shared_text;
pub mod sim;
mod sync_mode;
mod tags;

pub use addr::{DataAddr, LINE, SyncAddr, lines};
pub use cx::{Counts, Cx, HostId, WorkerId};
pub use fabric::{CutOff, Fabric, RangeUse, Remote, UNTIL_RUNG, Work};
pub use latch::{Latch, LatchGuard};
pub use layout::Layout;
pub use prefetch::prefetch;
pub use shared_text::shared_text;
pub use sync_mode::{SyncMode, UnknownSyncMode};
