//! What checkpoints and recovery need of a host's directory, and files that are replaced as a whole.
//!
//! Invariants:
//! 1. Contents are on storage after a sync of the file, names after a sync of the names.
//! 2. `rename` replaces its target in one step.

use liger_fabric::{Cx, Fabric, HostId};

use super::error::{FileByte, RecoveryError};

/// A host's directory of files.
pub trait Directory {
    /// An open file.
    type File;

    /// Whose directory it is.
    fn host(&self) -> HostId;

    /// The names of all files, sorted.
    ///
    /// # Errors
    /// Whatever the storage says.
    fn names<F: Fabric>(&self, cx: &Cx<F>) -> Result<Vec<String>, RecoveryError>;

    /// Opens a file; `None` if there is none of this name.
    ///
    /// # Errors
    /// Whatever the storage says.
    fn open<F: Fabric>(&self, cx: &Cx<F>, name: &str) -> Result<Option<Self::File>, RecoveryError>;

    /// Makes an empty file that was not there.
    ///
    /// # Errors
    /// Whatever the storage says.
    fn create<F: Fabric>(&self, cx: &Cx<F>, name: &str) -> Result<Self::File, RecoveryError>;

    /// Reads from an offset; fewer bytes than asked for only at the end of the file.
    ///
    /// # Errors
    /// Whatever the storage says.
    fn read<F: Fabric>(
        &self,
        cx: &Cx<F>,
        file: &Self::File,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize, RecoveryError>;

    /// Writes behind the end of a file.
    ///
    /// # Errors
    /// Whatever the storage says.
    fn append<F: Fabric>(&self, cx: &Cx<F>, file: &Self::File, bytes: &[u8]) -> Result<(), RecoveryError>;

    /// Makes a file's contents durable.
    ///
    /// # Errors
    /// Whatever the storage says: nothing is known of the file then.
    fn sync<F: Fabric>(&self, cx: &Cx<F>, file: &Self::File) -> Result<(), RecoveryError>;

    /// Gives a file another name, which may be taken: that file is gone then.
    ///
    /// # Errors
    /// Whatever the storage says.
    fn rename<F: Fabric>(&self, cx: &Cx<F>, from: &str, to: &str) -> Result<(), RecoveryError>;

    /// Removes a file.
    ///
    /// # Errors
    /// Whatever the storage says.
    fn remove<F: Fabric>(&self, cx: &Cx<F>, name: &str) -> Result<(), RecoveryError>;

    /// Makes names durable.
    ///
    /// # Errors
    /// Whatever the storage says.
    fn sync_names<F: Fabric>(&self, cx: &Cx<F>) -> Result<(), RecoveryError>;
}

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;

/// All of a file.
///
/// # Errors
/// If it is missing, or whatever the storage says.
pub fn read_whole<F: Fabric, D: Directory>(
    cx: &Cx<F>,
    directory: &D,
    name: &str,
) -> Result<Vec<u8>, RecoveryError> {
    let missing = || RecoveryError::Missing { host: directory.host(), file: name.to_owned() };
    let file = directory.open(cx, name)?.ok_or_else(missing)?;
    let mut bytes = Vec::new();
    loop {
        let from = bytes.len();
        bytes.resize(from + READ_BYTES, 0);
        let there = directory.read(cx, &file, from as u64, &mut bytes[from..])?;
        bytes.truncate(from + there);
        if there < READ_BYTES {
            return Ok(bytes);
        }
    }
}

/// Makes a file hold `bytes`: whoever dies in between leaves what was there, or this.
///
/// # Errors
/// Whatever the storage says.
pub fn replace<F: Fabric, D: Directory>(
    cx: &Cx<F>,
    directory: &D,
    name: &str,
    bytes: &[u8],
) -> Result<(), RecoveryError> {
    let new = format!("{name}.new");
    let file = create_anew(cx, directory, &new)?;
    directory.append(cx, &file, bytes)?;
    directory.sync(cx, &file)?;
    directory.rename(cx, &new, name)?;
    directory.sync_names(cx)
}

/// Makes an empty file in place of one that an earlier try may have left.
///
/// # Errors
/// Whatever the storage says.
pub fn create_anew<F: Fabric, D: Directory>(
    cx: &Cx<F>,
    directory: &D,
    name: &str,
) -> Result<D::File, RecoveryError> {
    if directory.open(cx, name)?.is_some() {
        directory.remove(cx, name)?;
    }
    directory.create(cx, name)
}

/// An error of the storage beneath.
pub fn storage_failed(host: HostId, file: &str, byte: u64, why: impl ToString) -> RecoveryError {
    RecoveryError::Storage { at: FileByte::new(host, file, byte), why: why.to_string() }
}
