//! A pod's directory that goes with the run.

#![expect(clippy::disallowed_methods, reason = "names of temporary folders differ by time")]

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::interrupt::{Left, Registered, register};

/// A directory that is removed in the end, if it was made for the run.
pub struct Temporary(Option<(PathBuf, Registered)>);

impl Temporary {
    /// Nothing to remove.
    pub fn none() -> Self {
        Self(None)
    }

    /// The directory that was asked for, or a new name for one that is removed in the end.
    pub fn unless(asked: Option<&PathBuf>) -> (PathBuf, Self) {
        if let Some(path) = asked {
            return (path.clone(), Self(None));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let path = std::env::temp_dir().join(format!("liger-{}-{now}", std::process::id()));
        (path.clone(), Self(Some((path.clone(), register(Left::Folder(path))))))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some((path, _)) = &self.0 {
            // Nothing to be done about what somebody else removed first.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}
