//! In how many steps a shared row is used.

use crate::names::named;

/// In how many steps a shared row is used. Every value takes and gives back the same locks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Steps {
    /// The default: one swap of the tuple cell takes a row or gives it back, its lines go at once, and a host
    /// remembers where rows of other hosts are.
    #[default]
    Merged,
    /// As many as in Tigon's artifact (OSDI'25, when its raw results were written): a latch around each
    /// step on a row, a reference to a row of another host taken and given back with a search of the shared
    /// index each, and a row's lines thrown out of the cache one after the other when they are read anew
    /// and when they were written. In a budget each row counts for a sync word. For comparison only.
    Artifact,
}

named! {
    Steps, "way to use a shared row",
    "merged" => Steps::Merged,
    "artifact" => Steps::Artifact,
}
