//! Two processes that share a memfd: the parent makes it, the child opens it by the number it inherited.

use std::process::Command;
use std::str::FromStr;
use std::sync::Arc;

use liger_fabric::native::{Mapping, MemorySpec, Native};
use liger_fabric::{Cx, DataAddr, HostId, SyncAddr, WorkerId};

const NUMBER: &str = "LIGER_TEST_INHERITED";
const TURN: SyncAddr = SyncAddr::new(0);
const MESSAGE: DataAddr = DataAddr::new(4096);

fn context(mapping: Arc<Mapping>, host: u8) -> Cx<Native> {
    Cx::new(Native::new(mapping), HostId(host), WorkerId(0), 1)
}

/// Only does something in the child that `a_child_process_shares_the_memory` starts.
#[test]
fn child() {
    let Ok(spec) = std::env::var(NUMBER) else { return };
    let cx = context(MemorySpec::from_str(&spec).expect("spec").open().expect("inherited memory"), 1);
    let mut seen = [0; 4];
    cx.refresh(MESSAGE, &mut seen);
    assert_eq!(&seen, b"ping");
    cx.publish(MESSAGE, b"pong");
    assert_eq!(cx.compare_exchange(TURN, 1, 2), Ok(1));
}

#[test]
fn a_child_process_shares_the_memory() {
    let mapping = MemorySpec::Memfd.create(1 << 16).expect("memory");
    let spec = MemorySpec::Fd(mapping.inherited_fd().expect("a memfd is inherited"));
    let cx = context(mapping, 0);
    cx.publish(MESSAGE, b"ping");
    cx.store(TURN, 1);
    let mut child = Command::new(std::env::current_exe().expect("this test"));
    let status = child.args(["--exact", "child"]).env(NUMBER, spec.to_string()).status().expect("a child");
    assert!(status.success());
    assert_eq!(cx.load(TURN), 2);
    let mut seen = [0; 4];
    cx.refresh(MESSAGE, &mut seen);
    assert_eq!(&seen, b"pong");
}
