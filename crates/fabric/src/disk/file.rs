//! One open file of a [`Disk`].
//!
//! Invariants:
//! 1. No call but `len` reaches a distrusted file.
//! 2. A call either did all of what it says or returns an error; what a failed call leaves is said there.

use std::sync::Arc;

use super::error::{DiskErrorKind, DiskOp, Failure};
use super::{Disk, DiskAnswer, DiskCall, DiskError, native};
use crate::cx::Cx;
use crate::fabric::Fabric;

/// An open file. Keeps hold of its directory.
pub struct DiskFile {
    disk: Disk,
    name: String,
    inner: Inner,
}

pub(super) enum Inner {
    Native(native::NativeFile),
    Simulated {
        file: u64,
        /// While it lives, the file is kept.
        _open: Arc<()>,
    },
}

impl Inner {
    pub fn simulated(answer: DiskAnswer) -> Self {
        let (file, open) = answer.opened();
        Self::Simulated { file, _open: open }
    }
}

impl DiskFile {
    pub(super) fn new(disk: &Disk, name: &str, inner: Inner) -> Self {
        assert!(!name.is_empty() && !name.contains('/'), "{name:?} is no name in the directory");
        Self { disk: disk.clone(), name: name.to_owned(), inner }
    }

    pub(super) fn number(&self) -> u64 {
        match &self.inner {
            Inner::Native(file) => file.number(),
            Inner::Simulated { file, .. } => *file,
        }
    }

    /// The name it was opened by (a rename does not change it).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Writes at `offset`; a gap behind the end so far becomes zeros.
    ///
    /// # Errors
    /// `Full`, `Failed`, `Distrusted` or whatever the system says; the range holds anything then, and the
    /// file may have grown.
    #[track_caller]
    pub fn write_at<F: Fabric>(&self, cx: &Cx<F>, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.check_trusted(DiskOp::Write, Some(offset))?;
        let written = match &self.inner {
            Inner::Native(native) => native.write_at(offset, bytes),
            Inner::Simulated { file, .. } => {
                self.disk.call(cx, DiskCall::Write { file: *file, offset, bytes }).map(drop)
            }
        };
        written.map_err(|failure| self.error(DiskOp::Write, Some(offset), failure))
    }

    /// Writes behind the end of the file and says at which offset. Appends of several workers do not mix.
    ///
    /// # Errors
    /// As [`Self::write_at`], but the length is what it was.
    #[track_caller]
    pub fn append<F: Fabric>(&self, cx: &Cx<F>, bytes: &[u8]) -> Result<u64, DiskError> {
        self.check_trusted(DiskOp::Append, None)?;
        let appended = match &self.inner {
            Inner::Native(native) => native.append(bytes),
            Inner::Simulated { file, .. } => {
                self.disk.call(cx, DiskCall::Append { file: *file, bytes }).map(DiskAnswer::number)
            }
        };
        appended.map_err(|failure| self.error(DiskOp::Append, None, failure))
    }

    /// Reads from `offset` and returns how many bytes there were: fewer than asked for only at the end.
    ///
    /// # Errors
    /// `Failed`, `Distrusted` or whatever the system says.
    #[track_caller]
    pub fn read_at<F: Fabric>(&self, cx: &Cx<F>, offset: u64, out: &mut [u8]) -> Result<usize, DiskError> {
        self.check_trusted(DiskOp::Read, Some(offset))?;
        let read = match &self.inner {
            Inner::Native(native) => native.read_at(offset, out),
            Inner::Simulated { file, .. } => {
                let call = DiskCall::Read { file: *file, offset, out };
                self.disk.call(cx, call).map(|answer| answer.number() as usize)
            }
        };
        let read = read.map_err(|failure| self.error(DiskOp::Read, Some(offset), failure))?;
        assert!(read <= out.len(), "{read} bytes were read into {}", out.len());
        Ok(read)
    }

    /// As [`Self::read_at`], for ranges that have to be there.
    ///
    /// # Errors
    /// Also `PastEnd`.
    #[track_caller]
    pub fn read_exact_at<F: Fabric>(&self, cx: &Cx<F>, offset: u64, out: &mut [u8]) -> Result<(), DiskError> {
        let there = self.read_at(cx, offset, out)?;
        if there == out.len() {
            return Ok(());
        }
        Err(self.error(DiskOp::Read, Some(offset + there as u64), DiskErrorKind::PastEnd.into()))
    }

    /// Bytes in the file.
    ///
    /// # Errors
    /// `Failed` or whatever the system says.
    #[track_caller]
    pub fn len<F: Fabric>(&self, cx: &Cx<F>) -> Result<u64, DiskError> {
        let len = match &self.inner {
            Inner::Native(native) => native.len(),
            Inner::Simulated { file, .. } => {
                self.disk.call(cx, DiskCall::Len { file: *file }).map(DiskAnswer::number)
            }
        };
        len.map_err(|failure| self.error(DiskOp::Len, None, failure))
    }

    /// Takes the space of the first `len` bytes and makes the file at least so long, with zeros: writes there
    /// find their space. It makes syncs hardly faster (docs/storage.md).
    ///
    /// # Errors
    /// `Full`, `Failed`, `Distrusted` or whatever the system says; the length is what it was.
    #[track_caller]
    pub fn preallocate<F: Fabric>(&self, cx: &Cx<F>, len: u64) -> Result<(), DiskError> {
        self.check_trusted(DiskOp::Preallocate, Some(len))?;
        let taken = match &self.inner {
            Inner::Native(native) => native.preallocate(len),
            Inner::Simulated { file, .. } => {
                self.disk.call(cx, DiskCall::Preallocate { file: *file, len }).map(drop)
            }
        };
        taken.map_err(|failure| self.error(DiskOp::Preallocate, Some(len), failure))
    }

    /// Cuts the file to `len` bytes if it is longer. Durable after the next [`Self::sync`]; until then a
    /// crash may bring the tail back.
    ///
    /// # Errors
    /// `Failed`, `Distrusted` or whatever the system says.
    #[track_caller]
    pub fn truncate<F: Fabric>(&self, cx: &Cx<F>, len: u64) -> Result<(), DiskError> {
        self.check_trusted(DiskOp::Truncate, Some(len))?;
        let cut = match &self.inner {
            Inner::Native(native) => native.truncate(len),
            Inner::Simulated { file, .. } => {
                self.disk.call(cx, DiskCall::Truncate { file: *file, len }).map(drop)
            }
        };
        cut.map_err(|failure| self.error(DiskOp::Truncate, Some(len), failure))
    }

    /// Makes everything that was written before this call durable, with the length.
    ///
    /// # Errors
    /// `Failed` or whatever the system says. The file is distrusted from then on: there is no second try (see
    /// the head of the module).
    #[track_caller]
    pub fn sync<F: Fabric>(&self, cx: &Cx<F>) -> Result<(), DiskError> {
        self.check_trusted(DiskOp::Sync, None)?;
        let synced = match &self.inner {
            Inner::Native(native) => native.sync(),
            Inner::Simulated { file, .. } => self.disk.call(cx, DiskCall::Sync { file: *file }).map(drop),
        };
        synced.map_err(|failure| {
            self.disk.distrusted().insert(self.number());
            self.error(DiskOp::Sync, None, failure)
        })
    }

    /// True after a failed sync of this file through this `Disk`.
    pub fn is_distrusted(&self) -> bool {
        self.disk.distrusted().contains(&self.number())
    }

    fn check_trusted(&self, op: DiskOp, offset: Option<u64>) -> Result<(), DiskError> {
        if self.is_distrusted() {
            return Err(self.error(op, offset, DiskErrorKind::Distrusted.into()));
        }
        Ok(())
    }

    fn error(&self, op: DiskOp, offset: Option<u64>, failure: Failure) -> DiskError {
        self.disk.error(op, &self.name, offset, failure)
    }
}
