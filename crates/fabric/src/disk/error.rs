//! What storage calls say when they fail: which call, which file, where, and what kind of failure.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// A storage call that failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{path}: cannot {op}{}: {kind}{}", at(*.offset), os(*.os_error))]
#[non_exhaustive]
pub struct DiskError {
    /// Which call.
    pub op: DiskOp,
    /// Directory, or directory and file.
    pub path: String,
    /// Where in the file, in bytes, for calls that say where.
    pub offset: Option<u64>,
    /// What happened.
    pub kind: DiskErrorKind,
    /// The system's number, if it was the system that failed.
    pub os_error: Option<i32>,
}

fn at(offset: Option<u64>) -> String {
    offset.map_or_else(String::new, |offset| format!(" at byte {offset}"))
}

fn os(number: Option<i32>) -> String {
    number.map_or_else(String::new, |number| format!(" ({})", io::Error::from_raw_os_error(number)))
}

impl DiskError {
    pub(super) fn new(op: DiskOp, path: &str, offset: Option<u64>, failure: Failure) -> Self {
        Self { op, path: path.to_owned(), offset, kind: failure.kind, os_error: failure.os_error }
    }
}

/// A call of [`super::Disk`] or [`super::DiskFile`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DiskOp {
    /// Taking hold of a directory.
    Hold,
    /// `create`
    Create,
    /// `open`
    Open,
    /// `list`
    List,
    /// `remove`
    Remove,
    /// `rename`
    Rename,
    /// `sync_names`
    SyncNames,
    /// `free_bytes`
    Free,
    /// `write_at`
    Write,
    /// `append`
    Append,
    /// `read_at` and `read_exact_at`
    Read,
    /// `len`
    Len,
    /// `preallocate`
    Preallocate,
    /// `truncate`
    Truncate,
    /// `sync`
    Sync,
}

impl fmt::Display for DiskOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hold => "take hold of it",
            Self::Create => "create it",
            Self::Open => "open it",
            Self::List => "list it",
            Self::Remove => "remove it",
            Self::Rename => "rename it",
            Self::SyncNames => "sync its names",
            Self::Free => "ask for its free space",
            Self::Write => "write",
            Self::Append => "append",
            Self::Read => "read",
            Self::Len => "ask for its length",
            Self::Preallocate => "preallocate",
            Self::Truncate => "truncate",
            Self::Sync => "sync it",
        })
    }
}

/// What went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskErrorKind {
    /// No space (or quota, or the largest size of a file) is left. An append changed nothing; the range of a
    /// `write_at` holds anything.
    #[error("no space is left: free some, or give it more")]
    Full,
    /// The device or its file system is broken.
    #[error("the device failed")]
    Failed,
    /// No such file.
    #[error("it does not exist")]
    Missing,
    /// A file of this name exists.
    #[error("it exists already")]
    Exists,
    /// Not allowed.
    #[error("no permission: run as its owner, or change its mode")]
    Permission,
    /// Another process holds the directory.
    #[error("another process holds it: stop that one first")]
    Locked,
    /// The name is empty, too long, begins with a dot, or has characters other than printable ASCII.
    #[error("a name is 1 to 200 printable ASCII characters without a slash and without a dot in front")]
    BadName,
    /// The file ends before the range does.
    #[error("the file ends before that")]
    PastEnd,
    /// An earlier sync failed: see the head of the module.
    #[error("an earlier sync of it failed, so nobody knows what it holds: start a new file")]
    Distrusted,
    /// The path is something else than expected (a file for a directory, or the reverse).
    #[error("it is another kind of thing than expected")]
    WrongKind,
    /// The file system has no such call.
    #[error("its file system cannot do that")]
    Unsupported,
    /// Anything else the system says.
    #[error("the system refused")]
    Other,
}

/// A failure before the caller's names are put to it.
#[derive(Debug)]
pub(super) struct Failure {
    pub kind: DiskErrorKind,
    pub os_error: Option<i32>,
}

impl From<DiskErrorKind> for Failure {
    fn from(kind: DiskErrorKind) -> Self {
        Self { kind, os_error: None }
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        let kind = match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => DiskErrorKind::Full,
            // A file system that met an error makes itself read-only.
            Errno::IO | Errno::NXIO | Errno::NODEV | Errno::ROFS => DiskErrorKind::Failed,
            Errno::NOENT => DiskErrorKind::Missing,
            Errno::EXIST => DiskErrorKind::Exists,
            Errno::ACCESS | Errno::PERM => DiskErrorKind::Permission,
            Errno::WOULDBLOCK => DiskErrorKind::Locked,
            Errno::NOTDIR | Errno::ISDIR | Errno::LOOP => DiskErrorKind::WrongKind,
            Errno::OPNOTSUPP | Errno::NOSYS => DiskErrorKind::Unsupported,
            _ => DiskErrorKind::Other,
        };
        Self { kind, os_error: Some(errno.raw_os_error()) }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(errno) => errno.into(),
            None if error.kind() == io::ErrorKind::WriteZero => DiskErrorKind::Full.into(),
            None => DiskErrorKind::Other.into(),
        }
    }
}
