//! What the hosts of a pod share below any table: the map of the memory, allocation, reclamation and message
//! lanes.
//!
//! * [`plan`]: where everything lies, computed from one configuration that all hosts agree on;
//! * [`heap`]: sync words and data blocks for whoever asks, with exact accounts;
//! * [`epochs`]: when a block that was unlinked may be used again, on every host;
//! * [`lanes`]: messages from host to host;
//! * [`superblock`]: what the pod is, checked by every host that opens it;
//! * [`membership`]: which hosts are in it; [`watch`]: which of them are dead, and who is their successor;
//! * [`selftest`]: whether its memory keeps the promises that everything above relies on.
//!
//! It knows no table and no transaction (docs/protocols/allocation.md, lanes.md, reclamation.md).

#![forbid(unsafe_code)]

mod admission;
pub mod bells;
pub mod epochs;
mod error;
pub mod heap;
pub mod lanes;
pub mod membership;
pub mod owner;
pub mod plan;
pub mod selftest;
pub mod superblock;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod watch;

pub use error::PodError;

/// Protocol steps of this crate that a test can leave out (see `Cx::sabotaged`).
pub const SABOTAGE_STEPS: &[&str] = &[
    "heap.cells-stay-bound",
    "heap.nodes-keep-their-chunks",
    "heap.room",
    "lanes.spare-unread-slots",
    "bells.ring-for-mail",
    "lanes.keep-early-mail",
    "lanes.own-incarnation-only",
    "epochs.pin",
    "epochs.tag-after-unlinking",
    "epochs.wait-for-readers",
    "epochs.wait-for-drops",
    "epochs.drop-nodes",
    "selftest.hello-first",
    "superblock.clear-sync-region",
    "membership.look-after-naming",
    "membership.look-at-process",
    "watch.wait-for-proof",
    "watch.late-looks-count-little",
    "watch.agree",
    "watch.ended-in-this-incarnation",
    "watch.say-why",
];
