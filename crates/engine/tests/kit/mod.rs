//! A pod with files, for tests: both are gone with it.

use std::path::{Path, PathBuf};

use liger_engine::TableSchema;
use liger_engine::db::{DataDirectory, Pod, PodConfig};
use liger_fabric::native::MemorySpec;

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A pod that has files, and no host yet.
pub struct Opened {
    pub pod: Pod,
    pub data: DataDirectory,
    _folder: Folder,
}

pub fn opened(name: &str, config: &PodConfig, table: TableSchema) -> Opened {
    let pod = Pod::create(&MemorySpec::Memfd, config, &[table]).expect("memory");
    // In memory, if there is such a place: tests count on time and not on disks.
    let memory = Path::new("/dev/shm");
    let place = if memory.exists() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = Folder(place.join(format!("liger-{name}-{}", std::process::id())));
    let _ = std::fs::remove_dir_all(&folder.0);
    let data = DataDirectory::create(&pod.control(), &folder.0, pod.identity(7)).expect("a new pod");
    Opened { pod, data, _folder: folder }
}
