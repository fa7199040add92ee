//! What a backup is: a folder with copies of a pod's files, and a manifest that names all of them.
//!
//! ```text
//! TARGET/unfinished     until the backup is whole: what it is going to be
//! TARGET/backup         the manifest: a line with its own length and checksum, then JSON
//! TARGET/data/host-N/   copies of manifests, segments and images, as in a pod's directory
//! ```
//!
//! Invariants:
//! 1. The manifest gets its name when everything that it names is on storage: a folder without it is no
//!    backup.
//! 2. Every file has its length and CRC-32C in the manifest, and there are no others: what is missing, cut,
//!    changed or of something else is found, and named.
//! 3. Files are private to their owner: they hold the database's rows.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use liger_server::log::shown_time;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::interrupt::{Left, Registered, register};
use crate::pod::{PodFile, make_folder};
use crate::terminal;

/// Name of the manifest, and of what is there before it.
const MANIFEST: &str = "backup";
const UNFINISHED: &str = "unfinished";
/// How the manifest begins.
const MAGIC: &str = "liger-backup";
const FORMAT: u32 = 1;
/// Bytes that are copied at once.
const BLOCK_BYTES: usize = 1 << 20;

/// A file of a backup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Its path in the backup.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// CRC-32C of all of it.
    pub crc32c: u32,
}

/// A backup, as its manifest describes it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Backup {
    /// The version of the program that took it.
    pub program: String,
    /// The directory of the pod that it was taken of.
    pub of: PathBuf,
    /// When its point was chosen, in milliseconds since 1970.
    pub time_ms: u64,
    /// The pod's generation then.
    pub generation: u64,
    /// Its point: everything up to this epoch is in it, and nothing of a later one.
    pub epoch: u64,
    /// The pod's description.
    pub pod: PodFile,
    /// All files.
    pub files: Vec<Entry>,
}

/// The folder of hosts' files in a backup.
pub fn data_of(backup: &Path) -> PathBuf {
    backup.join("data")
}

/// Whether a folder is a backup, or was to become one.
pub fn is_backup(path: &Path) -> bool {
    path.join(MANIFEST).is_file() || path.join(UNFINISHED).exists()
}

/// Says that this path cannot be used, and why.
pub fn refused(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::Refused(format!("{}: {why}", path.display()))
}

/// Refuses a place that something is in; `then` is what to do.
pub fn check_free(path: &Path, then: &str) -> Result<(), Failure> {
    match std::fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(refused(path, format_args!("it is not empty: {then}"))),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(refused(path, format_args!("{error}: {then}"))),
    }
}

/// A folder that is being filled; what is in it goes with this, unless it is kept.
pub struct Filled {
    path: PathBuf,
    kept: bool,
    /// Also at an interrupt.
    _ends: Registered,
}

impl Filled {
    /// Makes a folder, private to its owner, and those above it.
    pub fn begin(path: &Path) -> Result<Self, Failure> {
        make_folder(path)?;
        Ok(Self { path: path.to_owned(), kept: false, _ends: register(Left::Folder(path.to_owned())) })
    }

    /// It is whole.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        if !self.kept {
            // What cannot be removed is recognised: it has no manifest, or no description.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Makes a file, private to its owner, that holds this text, and brings it to storage.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Makes the names in a folder durable.
pub fn sync_folder(path: &Path) -> Result<(), Failure> {
    let synced = File::open(path).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Failure::Broken(format!("{}: {error}", path.display())))
}

/// Copies `bytes` bytes that `read` gives, from an offset on, to a new file, if there is one, and that to
/// storage; returns their checksum.
pub fn copy(
    bytes: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, Failure>,
    to: Option<&Path>,
    mut progress: impl FnMut(u64),
) -> Result<u32, Failure> {
    let broken = |path: &Path, error: std::io::Error| {
        Failure::Broken(format!("{}: {error}: what was written is removed again", path.display()))
    };
    let create = |path: &Path| {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        file.map_err(|error| broken(path, error))
    };
    let mut file = to.map(|path| Ok::<_, Failure>((path, create(path)?))).transpose()?;
    let mut block = vec![0; BLOCK_BYTES.min(bytes as usize)];
    let (mut at, mut crc) = (0, 0);
    while at < bytes {
        terminal::check_interrupted()?;
        let most = block.len().min((bytes - at) as usize);
        let there = read(at, &mut block[..most])?;
        crc = crc32c::crc32c_append(crc, &block[..there]);
        if let Some((path, file)) = &mut file {
            file.write_all(&block[..there]).map_err(|error| broken(path, error))?;
        }
        at += there as u64;
        progress(there as u64);
    }
    if let Some((path, file)) = file {
        file.sync_all().map_err(|error| broken(path, error))?;
    }
    Ok(crc)
}

impl Backup {
    /// Says in an empty folder that it is to become a backup.
    pub fn announce(target: &Path, of: &Path) -> Result<(), Failure> {
        let path = target.join(UNFINISHED);
        let text = format!("a backup of {} that is not whole\n", of.display());
        write(&path, &text).map_err(|error| Failure::Broken(format!("{}: {error}", path.display())))
    }

    /// Makes a folder a backup: all files that this names are in it, and on storage.
    pub fn seal(&self, target: &Path) -> Result<(), Failure> {
        let (new, path) = (target.join(UNFINISHED), target.join(MANIFEST));
        let body = serde_json::to_string_pretty(self).expect("every key is a string") + "\n";
        let crc = crc32c::crc32c(body.as_bytes());
        let text = format!("{MAGIC} {FORMAT} {} {crc:08x}\n{body}", body.len());
        let sealed = write(&new, &text).and_then(|()| std::fs::rename(&new, &path));
        sealed.map_err(|error| Failure::Broken(format!("{}: {error}", path.display())))?;
        sync_folder(target)?;
        target.parent().map_or(Ok(()), sync_folder)
    }

    /// The backup in a folder.
    pub fn read(target: &Path) -> Result<Self, Failure> {
        let path = target.join(MANIFEST);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(_) if target.join(UNFINISHED).exists() => {
                let why =
                    "this backup was interrupted before it was whole: take another one, and remove this";
                return Err(refused(target, why));
            }
            Err(error) => {
                return Err(refused(&path, format_args!("no backup: {error}: name the folder of one")));
            }
        };
        Self::decode(&bytes).map_err(|why| refused(&path, why))
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let damaged = |why: String| format!("the backup's manifest is damaged: {why}: use another backup");
        let text = std::str::from_utf8(bytes).map_err(|error| damaged(error.to_string()))?;
        let (head, body) = text.split_once('\n').ok_or_else(|| damaged("it has no first line".to_owned()))?;
        let words: Vec<&str> = head.split(' ').collect();
        let [MAGIC, format, len, crc] = words[..] else {
            return Err(damaged(format!("it begins with \"{}\"", head.chars().take(40).collect::<String>())));
        };
        if format != FORMAT.to_string() {
            return Err(format!(
                "it is of format {format}, and this program knows {FORMAT}: use the one that took it"
            ));
        }
        if len != body.len().to_string() {
            return Err(damaged(format!("it has {} bytes and says {len}", body.len())));
        }
        let found = format!("{:08x}", crc32c::crc32c(body.as_bytes()));
        if crc != found {
            return Err(damaged(format!("its checksum is {crc}, and its bytes give {found}")));
        }
        let backup: Self = serde_json::from_str(body).map_err(|error| damaged(error.to_string()))?;
        match backup.pod.is_known() {
            true => Ok(backup),
            false => Err("its pod is described in a way that this program does not know".to_owned()),
        }
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Checks that the files are there in their lengths, and no others.
    pub fn check_names(&self, target: &Path) -> Result<(), Failure> {
        let mut there = BTreeMap::new();
        list(target, "", &mut there)?;
        there.remove(MANIFEST);
        for Entry { name, bytes, .. } in &self.files {
            let path = target.join(name);
            match there.remove(name) {
                None => return Err(refused(&path, "missing: use another backup")),
                Some(found) if found != *bytes => {
                    let why =
                        format!("damaged: it has {found} bytes, the backup had {bytes}: use another backup");
                    return Err(refused(&path, why));
                }
                Some(_) => {}
            }
        }
        match there.first_key_value() {
            None => Ok(()),
            Some((name, _)) => Err(refused(&target.join(name), "no file of this backup: take it away")),
        }
    }

    /// Reads all files, each to its end, and checks them; copies them to the same names in the folder `to`,
    /// if there is one.
    pub fn read_files(
        &self,
        target: &Path,
        to: Option<&Path>,
        mut progress: impl FnMut(u64),
    ) -> Result<(), Failure> {
        for Entry { name, bytes, crc32c } in &self.files {
            let path = target.join(name);
            let file = File::open(&path).map_err(|error| refused(&path, error))?;
            let read = |at, out: &mut [u8]| match file.read_at(out, at) {
                Ok(0) => Err(refused(&path, "it has become shorter")),
                there => there.map_err(|error| refused(&path, error)),
            };
            let copied_to = to.map(|to| to.join(name));
            let found = copy(*bytes, read, copied_to.as_deref(), &mut progress)?;
            if found != *crc32c {
                let why = format!(
                    "damaged: its checksum is {found:08x}, the backup's manifest says {crc32c:08x}: use \
                     another backup"
                );
                return Err(refused(&path, why));
            }
        }
        Ok(())
    }

    /// When its point was, for people.
    pub fn time(&self) -> String {
        shown_time(self.time_ms as i64 * 1000)
    }
}

/// Lists the files below a folder, with their lengths, by their paths from it.
fn list(folder: &Path, within: &str, out: &mut BTreeMap<String, u64>) -> Result<(), Failure> {
    let of = |error: std::io::Error| refused(folder, error);
    for entry in std::fs::read_dir(folder).map_err(of)? {
        let entry = entry.map_err(of)?;
        let name = format!("{within}{}", entry.file_name().to_string_lossy());
        let found = entry.metadata().map_err(of)?;
        if found.is_dir() {
            list(&entry.path(), &format!("{name}/"), out)?;
        } else {
            out.insert(name, found.len());
        }
    }
    Ok(())
}
