//! A host that is a process and is killed: what it published is there, what it only wrote is lost.

#![expect(clippy::disallowed_methods, reason = "a process is killed in real time")]

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use liger_fabric::native::{HostMemory, Mapping, MemorySpec, NativeHost};
use liger_fabric::shadow::{Shadow, ShadowConfig, ShadowHost};
use liger_fabric::{Cx, DataAddr, HostId, SyncAddr, SyncMode, WorkerId};

const NUMBER: &str = "LIGER_TEST_KILLED_HOST";
const READY: SyncAddr = SyncAddr::new(0);
const PUBLISHED: DataAddr = DataAddr::new(4096);
const WRITTEN: DataAddr = DataAddr::new(8192);

fn context(mapping: Arc<Mapping>, host: u8) -> Cx<Shadow> {
    // Nothing is written back unasked: whether an unpublished line survives is not left to luck here.
    let config = ShadowConfig { write_backs_per_1024: 0, drops_per_1024: 0, ..ShadowConfig::new(1) };
    let below = NativeHost::new(mapping, SyncMode::Hwcc, HostId(host));
    ShadowHost::over(below, config).cx(WorkerId(0), 1)
}

/// Only does something in the child that the test below starts.
#[test]
fn child() {
    let Ok(spec) = std::env::var(NUMBER) else { return };
    let memory = spec.parse::<MemorySpec>().expect("spec").open().expect("inherited memory");
    let cx = context(memory, 1);
    cx.publish(PUBLISHED, b"published");
    cx.write(WRITTEN, b"written");
    let mut own = [0; 7];
    cx.read(WRITTEN, &mut own);
    assert_eq!(&own, b"written");
    cx.store(READY, 1);
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_process_loses_its_dirty_lines() {
    let mapping = MemorySpec::Memfd.create(1 << 16).expect("memory");
    let spec = MemorySpec::Fd(mapping.inherited_fd().expect("a memfd is inherited"));
    let cx = context(mapping, 0);
    let mut child = Command::new(std::env::current_exe().expect("this test"));
    let mut child = child.args(["--exact", "child"]).env(NUMBER, spec.to_string()).spawn().expect("a child");
    while cx.load(READY) == 0 {
        assert!(child.try_wait().expect("our child").is_none(), "the child ended early");
        cx.pause();
    }
    child.kill().expect("our child");
    child.wait().expect("our child");
    let (mut published, mut written) = ([0; 9], [0; 7]);
    cx.refresh(PUBLISHED, &mut published);
    cx.refresh(WRITTEN, &mut written);
    assert_eq!((&published, written), (b"published", [0; 7]));
}
