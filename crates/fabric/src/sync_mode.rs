//! How a pod makes its sync words visible to every host: a property of the pod, chosen when it is formatted.

use std::fmt;
use std::str::FromStr;

/// How the pod makes sync words visible to every host at once.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum SyncMode {
    /// The hardware keeps the sync words coherent: ordinary atomics.
    #[default]
    Hwcc,
    /// Nothing is coherent: every sync access goes past the cache.
    ///
    /// The native backend does so on an ordinary write-back mapping: load = drop the line, fence, load; store
    /// and compare-and-swap = drop, fence, change, drop, fence. That is the best such a mapping can do. The
    /// processor swaps atomically in its own cache, so two hosts whose caches are not coherent can still both
    /// win, and can overwrite another word of the same line; only a device that swaps by itself closes that
    /// gap. The pod's self-test at join finds out which it is.
    Pcc,
}

impl FromStr for SyncMode {
    type Err = UnknownSyncMode;

    fn from_str(text: &str) -> Result<Self, UnknownSyncMode> {
        match text {
            "hwcc" => Ok(Self::Hwcc),
            "pcc" => Ok(Self::Pcc),
            _ => Err(UnknownSyncMode(text.to_owned())),
        }
    }
}

impl fmt::Display for SyncMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hwcc => "hwcc",
            Self::Pcc => "pcc",
        })
    }
}

/// The text names no sync mode.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is no sync mode: write hwcc (sync words are coherent) or pcc (they bypass the cache)")]
pub struct UnknownSyncMode(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_being_written_and_read() {
        for mode in [SyncMode::Hwcc, SyncMode::Pcc] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert!("both".parse::<SyncMode>().is_err_and(|e| e.to_string().contains("hwcc")));
    }
}
