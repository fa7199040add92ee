//! Tests of `memory` on native memory, one process.

use super::*;
use crate::addr::{DataAddr, SyncAddr};
use crate::cx::{Cx, HostId, WorkerId};
use crate::native::Native;

/// A path of this process that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(folder: &str, name: &str) -> Self {
        let path = PathBuf::from(folder).join(format!("liger-memory-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Self(path)
    }

    fn spec(&self) -> MemorySpec {
        MemorySpec::File(self.0.clone())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn worker(mapping: &Arc<Mapping>, host: u8) -> Cx<Native> {
    Cx::new(Native::new(mapping.clone()), HostId(host), WorkerId(0), 1)
}

fn say(error: Result<Arc<Mapping>, MemoryError>) -> String {
    error.err().expect("an error").to_string()
}

#[test]
fn specs_survive_being_written_and_read() {
    for text in ["memfd", "fd:7", "file:/dev/shm/pod", "file:pod", "dax:/dev/dax0.0", "pci:/sys/x/resource2"]
    {
        assert_eq!(text.parse::<MemorySpec>().expect(text).to_string(), text);
    }
    let inferred = |text: &str| text.parse::<MemorySpec>().expect(text).to_string();
    assert_eq!(inferred("/dev/shm/pod"), "file:/dev/shm/pod");
    assert_eq!(inferred("./pod"), "file:./pod");
    assert_eq!(inferred("/dev/dax1.0"), "dax:/dev/dax1.0");
    assert_eq!(inferred("/sys/bus/pci/devices/0/resource2"), "pci:/sys/bus/pci/devices/0/resource2");
    for text in ["", "fd:", "fd:-1", "fd:x", "file:", "tape:/dev/st0", "pod"] {
        assert!(matches!(text.parse::<MemorySpec>(), Err(MemoryError::Unknown { .. })), "{text}");
    }
}

#[test]
fn two_mappings_of_a_file_share_their_bytes() {
    for folder in ["/dev/shm", "/tmp"] {
        let scratch = Scratch::new(folder, "share");
        let made = scratch.spec().create(1 << 16).expect("create");
        let opened = scratch.spec().open().expect("open");
        assert_eq!((made.len(), opened.len()), (1 << 16, 1 << 16));
        let (a, b) = (worker(&made, 0), worker(&opened, 1));
        a.publish(DataAddr::new(100), b"fjord");
        a.store(SyncAddr::new(64 * 10), 5);
        assert_eq!(b.compare_exchange(SyncAddr::new(64 * 10), 5, 6), Ok(5));
        let mut seen = [0; 5];
        b.refresh(DataAddr::new(100), &mut seen);
        assert_eq!(&seen, b"fjord");
        assert!(say(scratch.spec().create(1 << 16)).contains("exists already"));
    }
}

#[test]
fn a_memfd_is_opened_by_its_number() {
    let made = MemorySpec::Memfd.create(1 << 16).expect("create");
    let number = made.inherited_fd().expect("kept open");
    let opened = MemorySpec::Fd(number).open().expect("open");
    worker(&made, 0).store(SyncAddr::new(0), 9);
    assert_eq!(worker(&opened, 1).load(SyncAddr::new(0)), 9);
    assert_eq!(opened.len(), 1 << 16);
    assert!(say(MemorySpec::Memfd.open()).contains("fd:NUMBER"));
    assert!(say(MemorySpec::Fd(number).create(64)).contains("exists already"));
    assert!(matches!(MemorySpec::Fd(9_999).open(), Err(MemoryError::NotFound { .. })));
    assert!(MemorySpec::Fd(0).open().is_err(), "standard input is no memory");
}

#[test]
fn a_file_system_without_the_space_is_an_error_and_leaves_no_file() {
    let scratch = Scratch::new("/dev/shm", "space");
    let error = scratch.spec().create(1 << 50).err().expect("a petabyte");
    assert!(
        matches!(error, MemoryError::Promised { needed, free, .. } if needed == 1 << 50 && free < 1 << 50)
    );
    assert!(!scratch.0.exists());
}

#[test]
fn memory_is_taken_when_it_is_used() {
    let scratch = Scratch::new("/dev/shm", "grows");
    let made = scratch.spec().create(64 << 20).expect("create");
    let taken = || std::fs::metadata(&scratch.0).expect("metadata").blocks() * 512;
    assert_eq!((taken(), scratch.spec().grows()), (0, true));
    let cx = worker(&scratch.spec().open().expect("open"), 0);
    cx.publish(DataAddr::new(1 << 20), b"fjord");
    assert!((1..=4 << 20).contains(&taken()), "{} bytes", taken());
    drop(made);
}

#[test]
fn what_was_promised_to_one_file_is_refused_to_another() {
    // A folder of its own: others make memory, too.
    let folder = Scratch::new("/dev/shm", "promised");
    std::fs::create_dir(&folder.0).expect("folder");
    let [first, second] = ["first", "second"].map(|name| Scratch(folder.0.join(name)));
    let file = File::create(&first.0).expect("file");
    // More than there is, but nothing of it taken: a file of somebody who does not ask.
    file.set_len(1 << 50).expect("length");
    let error = second.spec().create(1 << 16).err().expect("nothing is left");
    let MemoryError::Promised { needed, promised, .. } = error else { panic!("{error}") };
    assert!(needed == 1 << 16 && promised >= 1 << 50, "{promised} of {needed}");
    assert!(!second.0.exists());
}

#[test]
fn holes_are_filled_when_opening() {
    let scratch = Scratch::new("/tmp", "holes");
    let file = File::create_new(&scratch.0).expect("file");
    file.set_len(1 << 16).expect("length");
    assert_eq!(file.metadata().expect("metadata").blocks(), 0);
    scratch.spec().open().expect("open");
    assert_eq!(file.metadata().expect("metadata").blocks() * 512, 1 << 16);
}

#[test]
fn what_is_no_memory_says_what_it_is() {
    let open = |text: &str| say(text.parse::<MemorySpec>().expect(text).open());
    assert_eq!(open("file:/tmp"), "file:/tmp is a folder, not a file or device");
    assert_eq!(open("file:/dev/null"), "file:/dev/null is a character device, not a file");
    assert!(open("file:/tmp/no-such-pod").contains("does not exist"));
    assert!(open("dax:/dev/dax9.9").contains("does not exist"));
    // A character device without a dax folder in sysfs, and a file where a device should be.
    assert!(open("dax:/dev/null").contains("does not exist"));
    let scratch = Scratch::new("/tmp", "kind");
    std::fs::write(&scratch.0, b"x").expect("file");
    assert!(open(&format!("dax:{}", scratch.0.display())).contains("is a file, not a devdax"));
    let misaligned = scratch.spec().open();
    assert!(matches!(misaligned, Err(MemoryError::TooSmall { len: 1, needed: 64, .. })));
    std::fs::write(&scratch.0, [0; 100]).expect("file");
    let misaligned = scratch.spec().open();
    assert!(matches!(misaligned, Err(MemoryError::Misaligned { len: 100, unit: 64, rounded: 128, .. })));
    assert!(matches!(scratch.spec().create(0), Err(MemoryError::Misaligned { .. })));
}

#[test]
fn a_pci_resource_file_gives_its_size_and_must_be_large_enough() {
    let scratch = Scratch::new("/tmp", "resource2");
    std::fs::write(&scratch.0, vec![0; 1 << 16]).expect("file");
    let spec = MemorySpec::Pci(scratch.0.clone());
    assert_eq!(spec.open().expect("open").len(), 1 << 16);
    assert_eq!(spec.create(4096).expect("part of it").len(), 4096);
    assert!(matches!(spec.create(1 << 17), Err(MemoryError::TooSmall { len: 65536, needed: 131072, .. })));
}

#[test]
fn a_devdax_extent_comes_from_sysfs() {
    let scratch = Scratch::new("/tmp", "dax0.0");
    std::fs::create_dir(&scratch.0).expect("folder");
    let spec = MemorySpec::Dax("/dev/dax0.0".into());
    let write = |name: &str, text: &str| std::fs::write(scratch.0.join(name), text).expect("file");
    assert!(matches!(spec.dax_extent(&scratch.0), Err(MemoryError::NotFound { .. })));
    write("align", "2097152\n");
    write("size", "268435456\n");
    assert_eq!(spec.dax_extent(&scratch.0).expect("extent"), (256 << 20, 2 << 20));
    write("size", "268435520\n");
    assert!(matches!(spec.dax_extent(&scratch.0), Err(MemoryError::Misaligned { unit: 0x20_0000, .. })));
    write("align", "soon\n");
    assert!(matches!(spec.dax_extent(&scratch.0), Err(MemoryError::System { .. })));
}
