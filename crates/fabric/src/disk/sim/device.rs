//! One simulated disk: names, files, who holds it.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::{DiskAnswer, DiskCall, DiskErrorKind};

type Answer = Result<DiskAnswer, DiskErrorKind>;

/// A disk.
#[derive(Default)]
pub(crate) struct Device {
    names: BTreeMap<String, u64>,
    files: BTreeMap<u64, File>,
    files_made: u64,
    session: u64,
    holder: Weak<()>,
}

#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    open: Weak<()>,
}

impl Device {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn call(&mut self, session: u64, call: DiskCall<'_>) -> Answer {
        if let DiskCall::Hold { token } = call {
            return self.hold(token);
        }
        assert_eq!(session, self.session, "a disk is used by a holder that lost it");
        match call {
            DiskCall::Hold { .. } => unreachable!("done above"),
            DiskCall::Create { name } => return self.create(name),
            DiskCall::Open { name } => {
                let number = *self.names.get(name).ok_or(DiskErrorKind::Missing)?;
                return Ok(self.opened(number));
            }
            DiskCall::List => return Ok(DiskAnswer::Names(self.names.keys().cloned().collect())),
            DiskCall::Remove { name } => {
                self.names.remove(name).ok_or(DiskErrorKind::Missing)?;
            }
            DiskCall::Rename { from, to } => {
                let file = self.names.remove(from).ok_or(DiskErrorKind::Missing)?;
                self.names.insert(to.to_owned(), file);
            }
            DiskCall::SyncNames => {}
            DiskCall::Write { file, offset, bytes } => self.file(file).write(offset as usize, bytes),
            DiskCall::Append { file, bytes } => {
                let file = self.file(file);
                let end = file.bytes.len();
                file.write(end, bytes);
                return Ok(DiskAnswer::Number(end as u64));
            }
            DiskCall::Read { file, offset, out } => {
                let bytes = &self.file(file).bytes;
                let there = bytes.get(offset as usize..).unwrap_or_default();
                let count = there.len().min(out.len());
                out[..count].copy_from_slice(&there[..count]);
                return Ok(DiskAnswer::Number(count as u64));
            }
            DiskCall::Len { file } => return Ok(DiskAnswer::Number(self.file(file).bytes.len() as u64)),
            DiskCall::Preallocate { file, len } => {
                let bytes = &mut self.file(file).bytes;
                bytes.resize(bytes.len().max(len as usize), 0);
            }
            DiskCall::Truncate { file, len } => self.file(file).bytes.truncate(len as usize),
            DiskCall::Sync { .. } => {}
        }
        Ok(DiskAnswer::Done)
    }

    fn hold(&mut self, token: &Arc<()>) -> Answer {
        if self.holder.strong_count() > 0 {
            return Err(DiskErrorKind::Locked);
        }
        self.session += 1;
        self.holder = Arc::downgrade(token);
        Ok(DiskAnswer::Number(self.session))
    }

    fn create(&mut self, name: &str) -> Answer {
        if self.names.contains_key(name) {
            return Err(DiskErrorKind::Exists);
        }
        self.files_made += 1;
        self.files.insert(self.files_made, File::default());
        self.names.insert(name.to_owned(), self.files_made);
        Ok(self.opened(self.files_made))
    }

    fn opened(&mut self, number: u64) -> DiskAnswer {
        let file = self.file(number);
        let open = file.open.upgrade().unwrap_or_default();
        file.open = Arc::downgrade(&open);
        DiskAnswer::Opened(number, open)
    }

    fn file(&mut self, number: u64) -> &mut File {
        self.files.get_mut(&number).expect("an open file is kept")
    }
}

impl File {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[offset..end].copy_from_slice(bytes);
    }
}
