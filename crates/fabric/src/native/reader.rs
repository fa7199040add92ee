//! A view of a pod's memory that cannot change it: for tools that look at a pod from outside.

use std::sync::Arc;

use super::{Mapping, Native};
use crate::addr::{DataAddr, SyncAddr};
use crate::fabric::Fabric;

/// A view for reading. Its memory may be mapped without the right to write.
///
/// # Panics
/// In every verb that changes memory: a tool that looks has called code that writes.
pub struct NativeReader {
    native: Native,
}

impl NativeReader {
    /// A view of `mapping`. Sync words are read as on any coherent machine.
    pub fn new(mapping: Arc<Mapping>) -> Self {
        Self { native: Native::over(mapping) }
    }
}

#[cold]
fn refuse(verb: &str, offset: u64) -> ! {
    panic!("{verb} at {offset:#x} through a view for reading");
}

impl Fabric for NativeReader {
    const CHECKED: bool = false;

    fn load(&self, at: SyncAddr) -> u64 {
        self.native.load(at)
    }
    fn store(&self, at: SyncAddr, _value: u64) {
        refuse("store", at.offset())
    }
    fn compare_exchange(&self, at: SyncAddr, _current: u64, _new: u64) -> Result<u64, u64> {
        refuse("compare_exchange", at.offset())
    }
    fn read(&self, at: DataAddr, out: &mut [u8]) {
        self.native.read(at, out);
    }
    fn write(&self, at: DataAddr, _bytes: &[u8]) {
        refuse("write", at.offset())
    }
    fn write_back(&self, _at: DataAddr, _len: usize) {}
    fn invalidate(&self, at: DataAddr, len: usize) {
        self.native.invalidate(at, len);
    }
    fn fence(&self) {
        self.native.fence();
    }
    fn now_ns(&self) -> u64 {
        self.native.now_ns()
    }
    fn pause(&self) {
        self.native.pause();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::MemorySpec;

    #[test]
    fn looks_at_a_file_and_leaves_it_alone() {
        let path = std::env::temp_dir().join(format!("liger-reader-{}", std::process::id()));
        let bytes: Vec<u8> = (0..4096u32).map(|n| n as u8).collect();
        std::fs::write(&path, &bytes).expect("a temporary file");
        let reader = NativeReader::new(MemorySpec::File(path.clone()).open_read_only().expect("a file"));
        assert_eq!(reader.load(SyncAddr::new(8)), u64::from_le_bytes([8, 9, 10, 11, 12, 13, 14, 15]));
        let mut found = [0; 64];
        reader.read(DataAddr::new(128), &mut found);
        assert_eq!(found, bytes[128..192]);
        let writes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            reader.store(SyncAddr::new(0), 1);
        }));
        assert!(writes.is_err());
        drop(reader);
        assert_eq!(std::fs::read(&path).expect("still there"), bytes);
        std::fs::remove_file(&path).expect("still there");
    }
}
