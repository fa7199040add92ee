//! Hosts that take longer than a lease to join or to leave: they are busy, not dead.

mod kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kit::Opened;
use liger_engine::db::{Host, JoinOptions, PodConfig};
use liger_engine::{Session, TxnError, table};
use liger_fabric::native::{HostMemory, Native, NativeHost};
use liger_fabric::{CutOff, Cx, DataAddr, Fabric, HostId, SyncAddr, WorkerId};
use liger_pod::membership::{self, HostState, Observer, Slot};

table! {
    /// Something to own.
    pub mod things: "things" {
        ID: Int,
    }
    primary key (ID);
}

const LEASE_NS: u64 = 200_000_000;

/// Real memory, in which a host takes long over every change of one word: as if it waited for its disk there.
#[derive(Clone)]
struct SlowAt {
    host: NativeHost,
    word: SyncAddr,
    changes: Arc<AtomicU64>,
}

struct View(Native, SlowAt);

impl HostMemory for SlowAt {
    type View = View;

    fn host(&self) -> HostId {
        self.host.host()
    }

    fn view(&self) -> View {
        View(self.host.view(), self.clone())
    }
}

impl View {
    #[expect(clippy::disallowed_methods, reason = "stands for a disk that is slow")]
    fn change(&self, at: SyncAddr) {
        if at == self.1.word {
            self.1.changes.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_nanos(3 * LEASE_NS));
        }
    }
}

impl Fabric for View {
    const CHECKED: bool = false;

    fn load(&self, at: SyncAddr) -> u64 {
        self.0.load(at)
    }

    fn store(&self, at: SyncAddr, value: u64) {
        self.change(at);
        self.0.store(at, value);
    }

    fn compare_exchange(&self, at: SyncAddr, current: u64, new: u64) -> Result<u64, u64> {
        if new == u64::MAX {
            self.change(at);
        }
        self.0.compare_exchange(at, current, new)
    }

    fn read(&self, at: DataAddr, out: &mut [u8]) {
        self.0.read(at, out);
    }

    fn write(&self, at: DataAddr, bytes: &[u8]) {
        self.0.write(at, bytes);
    }

    fn write_back(&self, at: DataAddr, len: usize) {
        self.0.write_back(at, len);
    }

    fn invalidate(&self, at: DataAddr, len: usize) {
        self.0.invalidate(at, len);
    }

    fn fence(&self) {
        self.0.fence();
    }

    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    fn pause(&self) {
        self.0.pause();
    }

    fn process(&self) -> u64 {
        self.0.process()
    }

    fn cut_off(&self, _: HostId, _: u64) -> CutOff {
        panic!("no host of these tests is to be cut off");
    }
}

fn opened(name: &str, hosts: u8) -> Opened {
    let config = PodConfig { lease_ns: LEASE_NS, ..PodConfig::new(hosts, 1, 4 << 20, 64 << 20) };
    kit::opened(name, &config, things::schema())
}

impl Opened {
    /// Joins with storage, slowly wherever a word is changed.
    fn join(&self, host: u8, word: SyncAddr) -> (Host<SlowAt>, Arc<AtomicU64>) {
        let (id, changes) = (HostId(host), Arc::<AtomicU64>::default());
        let mut options = JoinOptions::new(self.pod.plan());
        options.storage = Some(self.data.hold(&self.pod.control(), id).expect("nobody holds it"));
        let slow = |host| SlowAt { host, word, changes: changes.clone() };
        (self.pod.join_through(id, options, slow).expect("it is only slow"), changes)
    }

    fn state(&self, host: u8) -> HostState {
        Slot::load(&self.pod.control(), self.pod.plan(), HostId(host)).expect("an intact word").state
    }
}

/// No word of the pod's.
const NOWHERE: SyncAddr = SyncAddr::new(0);

#[test]
fn a_host_may_take_longer_than_a_lease_to_begin_and_to_end_its_log() {
    let opened = opened("slow", 3);
    let log_word = |host| opened.pod.plan().log_line(HostId(host));
    let (watching, _) = opened.join(0, NOWHERE);
    // Word 1 is cleared when the log is opened.
    let (begun, changes) = opened.join(1, log_word(1).word(1));
    assert!(changes.load(Ordering::Relaxed) > 0, "it was slow");
    assert_eq!(opened.state(1), HostState::Alive);
    // Word 0 says in the end that the log is closed.
    let (ended, changes) = opened.join(2, log_word(2));
    ended.leave().expect("nobody suspects it");
    assert!(changes.load(Ordering::Relaxed) > 0, "it was slow");
    assert_eq!(opened.state(2), HostState::Free);
    begun.leave().expect("it was only slow");
    watching.leave().expect("it was never suspected");
}

/// Its failure detector panics over a host that joins and goes no further.
#[test]
fn a_host_whose_failure_detector_has_panicked_is_silent() {
    let opened = opened("fuse", 2);
    let (mut host, _) = opened.join(0, NOWHERE);
    assert_eq!(host.failure(), None);
    // Host 1 of the same memory.
    let cx = Cx::new(host.memory().view().0, HostId(1), WorkerId(0), 1);
    let _silent = membership::join(&cx, opened.pod.plan(), 1).expect("the number is free");
    while host.failure().is_none() {
        cx.pause();
    }
    let mut observer = Observer::new(opened.pod.plan());
    let mut age_ns = || observer.observe(&cx).expect("intact words")[0].heartbeat_age_ns;
    let start_ns = cx.now_ns();
    while age_ns() <= LEASE_NS {
        assert!(cx.now_ns() - start_ns < 20 * LEASE_NS, "it shows that it lives");
        cx.pause();
    }
    let refused = host.alone(|session| session.transact(|_| Ok(())));
    assert_eq!(refused, Err(TxnError::Fenced));
    let why = host.leave().expect_err("it is dead").to_string();
    assert_eq!(why, "the failure detector has panicked: no host of these tests is to be cut off");
}
