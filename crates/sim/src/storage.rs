//! A host's directory in memory that can lose power: for checkpoints and recovery in the simulator.
//!
//! Invariants:
//! 1. After [`MemoryDirectory::lose_power`] a file has the contents of its last sync, and the directory the
//!    names of its last sync of names.
//! 2. With a fuse set, the call that burns it and all later ones fail, and change nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use liger_engine::recovery::RecoveryError;
use liger_engine::recovery::directory::{Directory, storage_failed};
use liger_fabric::{Cx, Fabric, HostId};

/// One file: what is there, and what is on storage.
#[derive(Default)]
pub struct Contents {
    now: RefCell<Vec<u8>>,
    synced: RefCell<Vec<u8>>,
}

type Names = BTreeMap<String, Rc<Contents>>;

/// A directory of one host. Clones are the same directory.
#[derive(Clone)]
pub struct MemoryDirectory {
    host: HostId,
    now: Rc<RefCell<Names>>,
    synced: Rc<RefCell<Names>>,
    /// Changes that still succeed, over all directories that share it.
    fuse: Rc<Cell<u64>>,
}

impl MemoryDirectory {
    /// Empty directories of `hosts` hosts with one fuse, which is long.
    pub fn of_hosts(hosts: u8) -> Vec<Self> {
        let fuse = Rc::new(Cell::new(u64::MAX));
        let directory = |host| Self {
            host: HostId(host),
            now: Rc::default(),
            synced: Rc::default(),
            fuse: Rc::clone(&fuse),
        };
        (0..hosts).map(directory).collect()
    }

    /// Lets the next `changes` calls that change something succeed, and no more.
    pub fn set_fuse(&self, changes: u64) {
        self.fuse.set(changes);
    }

    /// True if the fuse has burnt.
    pub fn is_burnt(&self) -> bool {
        self.fuse.get() == 0
    }

    /// Forgets what was not synced.
    pub fn lose_power(&self) {
        *self.now.borrow_mut() = self.synced.borrow().clone();
        for file in self.now.borrow().values() {
            *file.now.borrow_mut() = file.synced.borrow().clone();
        }
    }

    /// Makes a file with these contents, on storage.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let file = Rc::new(Contents { now: RefCell::new(bytes.clone()), synced: RefCell::new(bytes) });
        self.now.borrow_mut().insert(name.to_owned(), Rc::clone(&file));
        self.synced.borrow_mut().insert(name.to_owned(), file);
    }

    /// A file's contents.
    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.now.borrow().get(name).map(|file| file.now.borrow().clone())
    }

    /// The names of all files.
    pub fn list(&self) -> Vec<String> {
        self.now.borrow().keys().cloned().collect()
    }

    fn burn(&self, name: &str) -> Result<(), RecoveryError> {
        match self.fuse.get() {
            0 => Err(storage_failed(self.host, name, 0, "the power is lost")),
            left => {
                self.fuse.set(left - 1);
                Ok(())
            }
        }
    }
}

impl Directory for MemoryDirectory {
    type File = Rc<Contents>;

    fn host(&self) -> HostId {
        self.host
    }

    fn names<F: Fabric>(&self, _cx: &Cx<F>) -> Result<Vec<String>, RecoveryError> {
        Ok(self.list())
    }

    fn open<F: Fabric>(&self, _cx: &Cx<F>, name: &str) -> Result<Option<Self::File>, RecoveryError> {
        Ok(self.now.borrow().get(name).cloned())
    }

    fn create<F: Fabric>(&self, _cx: &Cx<F>, name: &str) -> Result<Self::File, RecoveryError> {
        self.burn(name)?;
        let file = Rc::<Contents>::default();
        let before = self.now.borrow_mut().insert(name.to_owned(), Rc::clone(&file));
        assert!(before.is_none(), "{name} is there already");
        Ok(file)
    }

    fn read<F: Fabric>(
        &self,
        _cx: &Cx<F>,
        file: &Self::File,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize, RecoveryError> {
        let bytes = file.now.borrow();
        let rest = bytes.get(offset as usize..).unwrap_or(&[]);
        let there = rest.len().min(out.len());
        out[..there].copy_from_slice(&rest[..there]);
        Ok(there)
    }

    fn append<F: Fabric>(&self, _cx: &Cx<F>, file: &Self::File, bytes: &[u8]) -> Result<(), RecoveryError> {
        self.burn("a file")?;
        file.now.borrow_mut().extend_from_slice(bytes);
        Ok(())
    }

    fn sync<F: Fabric>(&self, _cx: &Cx<F>, file: &Self::File) -> Result<(), RecoveryError> {
        self.burn("a file")?;
        *file.synced.borrow_mut() = file.now.borrow().clone();
        Ok(())
    }

    fn rename<F: Fabric>(&self, _cx: &Cx<F>, from: &str, to: &str) -> Result<(), RecoveryError> {
        self.burn(from)?;
        let mut names = self.now.borrow_mut();
        let file = names.remove(from).expect("a file that is renamed is there");
        names.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove<F: Fabric>(&self, _cx: &Cx<F>, name: &str) -> Result<(), RecoveryError> {
        self.burn(name)?;
        self.now.borrow_mut().remove(name);
        Ok(())
    }

    fn sync_names<F: Fabric>(&self, _cx: &Cx<F>) -> Result<(), RecoveryError> {
        self.burn("names")?;
        *self.synced.borrow_mut() = self.now.borrow().clone();
        Ok(())
    }
}
