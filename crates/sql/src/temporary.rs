//! Temporary files of a session: what its statements cannot hold in memory.
//!
//! Invariants:
//! 1. A file's bytes count for its session from when it grows until it is dropped: never more than
//!    `temp_file_limit` (53400), and each file once in the host's figures, when it ends.
//! 2. A disk that is full (53100) or fails (58030) ends the statement that writes, and nothing else.
//! 3. Whoever writes or reads hears at each block that the statement shall end.
//! 4. Where files are is the business of whoever opens the database: [`TemporaryPlace`].

use std::fmt::Debug;
use std::io;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use liger_fabric::disk::TemporaryDirectory;
use liger_fabric::disk::TemporaryFile;

use crate::error::{Result, SqlError, SqlState};
use crate::interrupt::Interrupt;

/// Bytes of a kilobyte, in which settings and EXPLAIN count.
pub const KILOBYTE: usize = 1024;
/// Bytes of a page, in which EXPLAIN counts what is read and written.
pub const PAGE: u64 = 8192;

/// Where temporary files are made.
pub trait TemporaryPlace: Send + Sync + Debug {
    /// Makes an empty file that goes with its value.
    ///
    /// # Errors
    /// Whatever the system says.
    fn create(&self, name: &str) -> io::Result<Box<dyn TemporaryBytes>>;

    /// What a file is called in messages.
    fn path_of(&self, name: &str) -> String;
}

/// The bytes of a temporary file.
pub trait TemporaryBytes: Send + Sync {
    /// Writes all of the bytes.
    ///
    /// # Errors
    /// Whatever the system says.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Reads as many bytes as there is room for.
    ///
    /// # Errors
    /// Whatever the system says.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
}

impl TemporaryPlace for TemporaryDirectory {
    fn create(&self, name: &str) -> io::Result<Box<dyn TemporaryBytes>> {
        Ok(Box::new(TemporaryDirectory::create(self, name)?))
    }

    fn path_of(&self, name: &str) -> String {
        TemporaryDirectory::path_of(self, name).display().to_string()
    }
}

impl TemporaryBytes for TemporaryFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        TemporaryFile::write_at(self, offset, bytes)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        TemporaryFile::read_at(self, offset, out)
    }
}

/// What has been written to temporary files, of a host.
#[derive(Debug, Default)]
pub struct TemporaryTotals {
    files: AtomicU64,
    bytes: AtomicU64,
}

impl TemporaryTotals {
    /// Files that have ended.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The temporary files of a session.
#[derive(Debug)]
pub struct TemporaryFiles {
    place: Arc<dyn TemporaryPlace>,
    session: i32,
    interrupt: Arc<Interrupt>,
    totals: Arc<TemporaryTotals>,
    /// In kilobytes; -1: none.
    limit_kb: AtomicI64,
    /// Files of so many kilobytes are told of when they end; -1: none.
    log_kb: AtomicI64,
    used: AtomicU64,
    made: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
    ended: Mutex<Vec<SqlError>>,
}

impl TemporaryFiles {
    /// Those of the session with this number, which is told to stop by `interrupt`.
    pub fn new(
        place: Arc<dyn TemporaryPlace>,
        session: i32,
        interrupt: Arc<Interrupt>,
        totals: Arc<TemporaryTotals>,
    ) -> Self {
        TemporaryFiles {
            place,
            session,
            interrupt,
            totals,
            limit_kb: AtomicI64::new(-1),
            log_kb: AtomicI64::new(-1),
            used: AtomicU64::new(0),
            made: AtomicU64::new(0),
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
            ended: Mutex::default(),
        }
    }

    /// Hears `temp_file_limit` and `log_temp_files`, in kilobytes.
    pub(crate) fn hear(&self, limit_kb: i64, log_kb: i64) {
        self.limit_kb.store(limit_kb, Ordering::Relaxed);
        self.log_kb.store(log_kb, Ordering::Relaxed);
    }

    /// Bytes of all files that are open.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that were read from files and written to them.
    pub(crate) fn traffic(&self) -> [u64; 2] {
        [self.read.load(Ordering::Relaxed), self.written.load(Ordering::Relaxed)]
    }

    /// What is to be told of files that have ended since this was asked last.
    pub(crate) fn take_ended(&self) -> Vec<SqlError> {
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a file.
    pub(crate) fn create(self: &Arc<Self>) -> Result<Temporary> {
        let name = format!("{}.{}", self.session, self.made.fetch_add(1, Ordering::Relaxed));
        let bytes = self.place.create(&name).map_err(|error| {
            let path = self.place.path_of(&name);
            failed(&error, &format!("could not create temporary file \"{path}\""))
        })?;
        Ok(Temporary { of: self.clone(), name, bytes, size: AtomicU64::new(0) })
    }

    /// Hears whether the statement shall end.
    pub(crate) fn check(&self) -> Result<()> {
        self.interrupt.check()
    }

    /// Takes room for more bytes of a file.
    fn grow(&self, more: u64) -> Result<()> {
        let used = self.used.fetch_add(more, Ordering::Relaxed) + more;
        let limit = self.limit_kb.load(Ordering::Relaxed);
        match u64::try_from(limit) {
            Ok(most) if used > most.saturating_mul(KILOBYTE as u64) => {
                self.used.fetch_sub(more, Ordering::Relaxed);
                let message = format!("temporary file size exceeds temp_file_limit ({limit}kB)");
                Err(SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message))
            }
            _ => Ok(()),
        }
    }
}

/// The error of a call of the system.
fn failed(error: &io::Error, what: &str) -> SqlError {
    let (state, said) = match error.kind() {
        io::ErrorKind::StorageFull => (SqlState::DISK_FULL, "No space left on device".to_string()),
        io::ErrorKind::QuotaExceeded => (SqlState::DISK_FULL, "Disk quota exceeded".to_string()),
        _ => (SqlState::IO_ERROR, error.to_string()),
    };
    SqlError::new(state, format!("{what}: {said}"))
}

/// A temporary file.
pub(crate) struct Temporary {
    of: Arc<TemporaryFiles>,
    name: String,
    bytes: Box<dyn TemporaryBytes>,
    size: AtomicU64,
}

impl Temporary {
    fn about(&self, error: &io::Error, what: &str) -> SqlError {
        failed(error, &format!("could not {what} file \"{}\"", self.of.place.path_of(&self.name)))
    }

    pub(crate) fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.of.check()?;
        let end = offset + bytes.len() as u64;
        let before = self.size.load(Ordering::Relaxed);
        if end > before {
            self.of.grow(end - before)?;
            self.size.store(end, Ordering::Relaxed);
        }
        self.of.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.bytes.write_at(offset, bytes).map_err(|error| self.about(&error, "write to"))
    }

    pub(crate) fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        assert!(offset + out.len() as u64 <= self.size(), "what was not written is not read");
        self.of.check()?;
        self.of.read.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.bytes.read_at(offset, out).map_err(|error| self.about(&error, "read from"))
    }

    pub(crate) fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let size = self.size();
        self.of.used.fetch_sub(size, Ordering::Relaxed);
        self.of.totals.files.fetch_add(1, Ordering::Relaxed);
        self.of.totals.bytes.fetch_add(size, Ordering::Relaxed);
        let least = u64::try_from(self.of.log_kb.load(Ordering::Relaxed));
        if least.is_ok_and(|least| size / KILOBYTE as u64 >= least) {
            let path = self.of.place.path_of(&self.name);
            let message = format!("temporary file: path \"{path}\", size {size}");
            let told = SqlError::notice(crate::Severity::Log, SqlState::SUCCESSFUL_COMPLETION, message);
            self.of.ended.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        }
    }
}
