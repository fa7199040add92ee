//! Files that nobody needs after the process that made them: what a query cannot hold in memory.
//!
//! Invariants:
//! 1. A file has no name as soon as it is open: its bytes go with its last handle, however the process ends.
//! 2. What a process left that died between the two is removed when the directory is opened again.
//! 3. Files are private to their owner (mode 0600): they hold the database's rows.
//!
//! Nothing of it is durable or simulated, so that it takes no context: no answer depends on what a crash
//! leaves of it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A directory of temporary files.
#[derive(Clone, Debug)]
pub struct TemporaryDirectory {
    path: PathBuf,
    prefix: String,
}

impl TemporaryDirectory {
    /// Opens the directory, making it if it is not there, and removes what is left in it of files whose names
    /// begin with `prefix`.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn open(path: &Path, prefix: &str) -> io::Result<Self> {
        assert!(!prefix.is_empty() && !prefix.contains('/'), "others' files are not removed");
        if !path.is_dir() {
            std::fs::DirBuilder::new().mode(0o700).create(path)?;
        }
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                // What is another user's stays.
                match std::fs::remove_file(entry.path()) {
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                    removed => absent_is_fine(removed)?,
                }
            }
        }
        Ok(Self { path: path.to_owned(), prefix: prefix.to_owned() })
    }

    /// Where the file of this name would be found, if it had kept it.
    #[must_use]
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(format!("{}{name}", self.prefix))
    }

    /// Makes an empty file; its name is gone when this returns.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn create(&self, name: &str) -> io::Result<TemporaryFile> {
        let path = self.path_of(name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        // Who opens the directory in this moment takes the name for one that was left behind.
        absent_is_fine(std::fs::remove_file(&path))?;
        Ok(TemporaryFile { file })
    }
}

fn absent_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// A file without a name.
#[derive(Debug)]
pub struct TemporaryFile {
    file: File,
}

impl TemporaryFile {
    /// Writes all of the bytes.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Reads as many bytes as there is room for.
    ///
    /// # Errors
    /// Whatever the system says; it is an error if there are fewer.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(path).expect("it can be listed");
        entries.map(|it| it.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_temporary_file_has_no_name_and_keeps_its_bytes() {
        let path = std::env::temp_dir().join(format!("liger-temporary-{}", std::process::id()));
        let directory = TemporaryDirectory::open(&path, "own.").expect("it opens");
        let file = directory.create("1").expect("a file");
        assert_eq!(names(&path), Vec::<String>::new());
        file.write_at(8192, b"later").expect("room");
        file.write_at(0, b"first").expect("room");
        let mut found = [0; 5];
        file.read_at(8192, &mut found).expect("it is there");
        assert_eq!(&found, b"later");
        assert!(file.read_at(8193, &mut found).is_err());
        // What a process left behind goes when the next one begins; what is another's stays.
        std::fs::write(path.join("own.2"), b"left").expect("room");
        std::fs::write(path.join("other.2"), b"kept").expect("room");
        TemporaryDirectory::open(&path, "own.").expect("it opens");
        assert_eq!(names(&path), ["other.2"]);
        std::fs::remove_dir_all(&path).expect("it goes");
    }
}
