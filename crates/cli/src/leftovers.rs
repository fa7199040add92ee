//! Memory of pods that have ended: what is left of them in the memory of the machine, and who still needs it.
//!
//! A pod that ends in order takes its memory along. One whose launcher was killed leaves it: what was
//! acknowledged at durability "pod" may be nowhere else, and `liger recover` looks there. It stays until
//! somebody recovers the pod or says that it may go.
//!
//! Invariants:
//! 1. Memory that a process has mapped, or that a host uses which may live, is not left.
//! 2. Memory is needed while a pod directory names it that could be recovered from it.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use liger_fabric::native::MemorySpec;

use crate::job::Durable;
use crate::memory::is_in_use;
use crate::pod::PodDir;
use crate::sizes;
use crate::terminal::say;

/// Where memory of pods is made, if there is such a place.
pub const SHARED: &str = "/dev/shm";

/// Memory that no process uses.
pub struct Left {
    /// The file.
    pub path: PathBuf,
    /// Bytes that it takes.
    pub bytes: u64,
    /// The directory of its pod, if that is known.
    pub of: Option<PathBuf>,
    /// The pod of that directory could be recovered from it.
    pub needed: bool,
}

impl Left {
    /// What it is, in words.
    pub fn what(&self) -> String {
        let (path, bytes) = (self.path.display(), sizes::show(self.bytes));
        match &self.of {
            Some(dir) => format!("{path}: {bytes} of pod {}, which has ended", dir.display()),
            None => format!("{path}: {bytes} of a pod that has ended"),
        }
    }
}

/// The file that says which directory the pod of a memory has.
pub fn note_of(memory: &Path) -> PathBuf {
    let mut name = memory.as_os_str().to_owned();
    name.push(".pod");
    name.into()
}

/// Everything that ended pods have left.
pub fn find() -> Vec<Left> {
    let entries = std::fs::read_dir(SHARED).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path()).filter(|path| is_name(path.file_name()));
    let mut left: Vec<Left> = paths.filter_map(|path| look(&path, None)).collect();
    left.sort_by(|a, b| a.path.cmp(&b.path));
    left
}

/// What the pod of a directory has left.
pub fn of_pod(dir: &PodDir) -> Option<Left> {
    match dir.file.memory.parse() {
        Ok(MemorySpec::File(path)) => look(&path, Some(dir)),
        _ => None,
    }
}

/// Tells what ended pods have left, but for `except`.
pub fn tell(except: Option<&PodDir>) {
    let own = except.map(|dir| dir.file.memory.as_str());
    for left in find().iter().filter(|left| own.is_none_or(|own| Path::new(own) != left.path)) {
        let then = match (&left.of, left.needed) {
            (Some(dir), true) => {
                let dir = dir.display();
                format!(
                    "`liger recover {dir}` goes on from it, `liger clean {dir} --discard-memory` removes it"
                )
            }
            _ => "`liger clean` removes it".to_owned(),
        };
        say(format_args!("{}: {then}", left.what()));
    }
}

/// True for the name that `liger up` gives to memory: `liger-<process>-<time>`.
fn is_name(name: Option<&OsStr>) -> bool {
    let parts = name.and_then(OsStr::to_str).and_then(|name| name.strip_prefix("liger-")?.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    parts.is_some_and(|(process, time)| is_number(process) && is_number(time))
}

/// Looks at one file; none if it is not there, or in use.
fn look(path: &Path, of: Option<&PodDir>) -> Option<Left> {
    let bytes = std::fs::metadata(path).ok().filter(|found| found.is_file())?.blocks() * 512;
    if is_mapped(path) || is_in_use(&MemorySpec::File(path.to_owned())) {
        return None;
    }
    let named = std::fs::read_to_string(note_of(path)).ok().map(|text| PathBuf::from(text.trim_end()));
    let of = of.map(|dir| dir.path().to_owned()).or(named);
    let needed = of.as_ref().and_then(|dir| PodDir::open(dir).ok()).is_some_and(|dir| {
        let job = &dir.file.job;
        Path::new(&dir.file.memory) == path && job.data.is_some() && job.durability != Durable::Storage
    });
    Some(Left { path: path.to_owned(), bytes, of, needed })
}

/// Whether a process has mapped it to write to it, as far as this user may see: its launcher, before hosts
/// are there. (Who only looks, as this does, has mapped it, too.) The process that has just made it, if its
/// name says so, is about to.
fn is_mapped(path: &Path) -> bool {
    let Some(text) = path.to_str() else { return false };
    let maker = path.file_name().and_then(OsStr::to_str).and_then(|name| name.split('-').nth(1));
    if maker.is_some_and(|process| Path::new("/proc").join(process).exists()) {
        return true;
    }
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut maps = processes.filter_map(|process| std::fs::read_to_string(process.path().join("maps")).ok());
    maps.any(|maps| maps.lines().any(|line| line.ends_with(text) && may_write(line)))
}

/// Whether a line of a process's list of mappings says that it may write there.
fn may_write(line: &str) -> bool {
    line.split_ascii_whitespace().nth(1).is_some_and(|rights| rights.contains('w'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_only_looks_uses_nothing() {
        let path = std::env::temp_dir().join(format!("liger-looked-at-{}", std::process::id()));
        std::fs::write(&path, [0; 4096]).expect("a temporary file");
        let spec = MemorySpec::File(path.clone());
        let looker = spec.open_read_only().expect("a file");
        assert!(!is_mapped(&path));
        let user = spec.open().expect("a file");
        assert!(is_mapped(&path));
        drop((looker, user));
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn names_of_memory_are_told_from_others() {
        let is = |name: &str| is_name(Some(OsStr::new(name)));
        assert!(is("liger-17-1780000000"));
        for other in ["liger-17-1780000000.pod", "liger-cli-7", "liger-17-", "liger--3", "liger-17", "x-1-2"]
        {
            assert!(!is(other), "{other}");
        }
    }
}
