//! What verbs really take on the paced backend, against what their profile says.
//!
//! Medians of single verbs (write_back and invalidate with their fence), so that a worker that loses its
//! processor now and then spoils nothing: at least what the profile says, and at most [`OVER_NS`] and
//! [`OVER_PERCENT`] more, or what this machine takes without pacing, if that is longer. One test runs at a
//! time, and of a few medians the least counts: other programs can only make it longer.

#![expect(clippy::disallowed_methods, reason = "tests start processes, and read the system's clock")]

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use liger_fabric::native::{HostMemory, Mapping, MemorySpec, Native, NativeHost};
use liger_fabric::paced::{Clocks, Paced, PacedHost};
use liger_fabric::profile::Profile;
use liger_fabric::{Cx, DataAddr, Fabric, HostId, SyncAddr, SyncMode, WorkerId};

const BYTES: u64 = 8 << 20;
const CALLS: u64 = 1000;
const ROUNDS: usize = 15;
const OVER_NS: u64 = 150;
const OVER_PERCENT: u64 = 15;

/// Held by a test that measures.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn profile(name: &str) -> Profile {
    Profile::built_in(name).expect("built in")
}

/// Two hosts of a new pod, paced, and a third that is not.
fn pod(profile: &Profile) -> (Vec<Cx<Paced>>, Cx<Native>) {
    let memory = Mapping::anonymous(BYTES as usize).expect("memory");
    let clocks = Clocks::create(profile, BYTES).expect("this machine has a counter");
    let below = |host| NativeHost::new(memory.clone(), profile.sync_words, HostId(host));
    let paced = |host| PacedHost::over(below(host), clocks.clone(), profile).cx(WorkerId(0), 1);
    let cxs = vec![paced(0), paced(1)];
    // The first touch of a page is the system's cost.
    (0..BYTES / 4096).for_each(|page| below(2).cx(WorkerId(0), 1).write(DataAddr::new(page * 4096), &[1]));
    (cxs, below(2).cx(WorkerId(0), 1))
}

/// Median nanoseconds of `verb(call)`, after `before(call)`, which is not measured.
fn median<F: Fabric>(cx: &Cx<F>, before: impl Fn(&Cx<F>, u64), verb: impl Fn(&Cx<F>, u64)) -> u64 {
    let one = |call| {
        before(cx, call);
        let start = cx.now_ns();
        verb(cx, call);
        cx.now_ns() - start
    };
    let median = |_| {
        let mut all: Vec<u64> = (0..CALLS).map(one).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    (0..ROUNDS).map(median).min().expect("there are rounds")
}

/// Places of call number `call`: another page each time, data and words apart.
fn data(call: u64) -> DataAddr {
    DataAddr::new((call % 1000) * 4096 + 64 * (call % 63))
}

fn word(call: u64) -> SyncAddr {
    SyncAddr::new(BYTES / 2 + (call % 1000) * 4096)
}

/// `seen` is what a verb took, `modelled` what the profile says, `real` what it takes without pacing.
#[track_caller]
fn as_modelled(what: &str, seen: u64, modelled: u64, real: u64) {
    let most = modelled.max(real) * (100 + OVER_PERCENT) / 100 + OVER_NS;
    // The two readings of the clock may be a few nanoseconds off.
    let least = (modelled * 98 / 100).saturating_sub(5);
    println!("{what}: {seen} ns, modelled {modelled}, unpaced {real}");
    assert!((least..=most).contains(&seen), "{what}: {seen} ns; modelled {modelled}, unpaced {real}");
}

#[test]
fn data_takes_what_the_profile_says() {
    let _alone = alone();
    let (cxs, native) = pod(&profile("polar-xconn"));
    let cx = &cxs[0];
    fn drop_it<F: Fabric>(cx: &Cx<F>, call: u64) {
        cx.invalidate(data(call), 640);
        cx.fence();
    }
    fn read<F: Fabric>(cx: &Cx<F>, call: u64, len: usize) {
        cx.read(data(call), &mut [0; 640][..len]);
    }
    fn dirty<F: Fabric>(cx: &Cx<F>, call: u64) {
        read(cx, call, 64);
        cx.fence();
        cx.write(data(call), &[7; 64]);
    }
    fn write_back<F: Fabric>(cx: &Cx<F>, call: u64) {
        cx.write_back(data(call), 64);
        cx.fence();
    }
    fn invalidate<F: Fabric>(cx: &Cx<F>, call: u64) {
        cx.invalidate(data(call), 64);
        cx.fence();
    }
    let miss = median(cx, drop_it, |cx, call| read(cx, call, 64));
    as_modelled("a miss", miss, 549, median(&native, drop_it, |cx, call| read(cx, call, 64)));
    let ten = median(cx, drop_it, |cx, call| read(cx, call, 640));
    as_modelled(
        "ten misses at once",
        ten,
        549 + 13,
        median(&native, drop_it, |cx, call| read(cx, call, 640)),
    );
    let hit = median(cx, |cx, call| read(cx, call, 64), |cx, call| read(cx, call, 64));
    let real = median(&native, |cx, call| read(cx, call, 64), |cx, call| read(cx, call, 64));
    as_modelled("a hit", hit, 4, real);
    let back = median(cx, dirty, write_back);
    as_modelled("a write-back", back, 549, median(&native, dirty, write_back));
    let dropped = median(cx, |cx, call| read(cx, call, 64), invalidate);
    let real = median(&native, |cx, call| read(cx, call, 64), invalidate);
    as_modelled("an invalidate", dropped, 160, real);
}

#[test]
fn cache_bypassing_words_take_what_the_profile_says() {
    let _alone = alone();
    fn load<F: Fabric>(cx: &Cx<F>, call: u64) {
        cx.load(word(call));
    }
    fn store<F: Fabric>(cx: &Cx<F>, call: u64) {
        cx.store(word(call), 3);
        cx.fence();
    }
    fn swap<F: Fabric>(cx: &Cx<F>, call: u64) {
        let _ = cx.compare_exchange(word(call), 0, 1);
    }
    for (name, [of_load, of_swap, of_store]) in
        [("polar-xconn", [549, 549, 549]), ("pcc-spr", [311, 474, 383])]
    {
        let (cxs, native) = pod(&profile(name));
        let cx = &cxs[0];
        fn nothing<F: Fabric>(_: &Cx<F>, _: u64) {}
        as_modelled("pLoad", median(cx, nothing, load), of_load, median(&native, nothing, load));
        as_modelled("pCAS", median(cx, nothing, swap), of_swap, median(&native, nothing, swap));
        as_modelled("pStore", median(cx, nothing, store), of_store, median(&native, nothing, store));
    }
}

#[test]
fn coherent_words_take_what_the_profile_says() {
    let _alone = alone();
    let (cxs, native) = pod(&profile("tigon-back-invalidate"));
    let [cx, other] = [&cxs[0], &cxs[1]];
    let swap = |cx: &Cx<Paced>, call| _ = cx.compare_exchange(word(call), 0, 1);
    let native_swap = median(&native, |_, _| (), |cx, call| _ = cx.compare_exchange(word(call), 0, 1));
    let own = median(cx, swap, swap);
    as_modelled("a swap on an owned line", own, 8, native_swap);
    let moved = median(cx, |_, call| swap(other, call), swap);
    as_modelled("a swap on another host's line", moved, 1036 + 8, native_swap);
    let seen = median(cx, |_, call| swap(other, call), |cx, call| _ = cx.load(word(call)));
    as_modelled("a load of another host's line", seen, 1036, native_swap);
    let again = median(cx, |cx, call| _ = cx.load(word(call)), |cx, call| _ = cx.load(word(call)));
    as_modelled("a load of a line that is here", again, 2, native_swap);
}

/// Hosts map a whole device, of which the pod, and its clocks, may be a part.
#[test]
fn a_pod_may_be_a_part_of_its_memory() {
    let profile = profile("tigon-osdi25");
    let clocks = Clocks::create(&profile, 4096).expect("clocks");
    assert_eq!(clocks.memory_bytes(), 4096);
    let below = NativeHost::new(Mapping::anonymous(8192).expect("memory"), SyncMode::Hwcc, HostId(0));
    let cx = PacedHost::over(below, clocks, &profile).cx(WorkerId(0), 1);
    cx.publish(DataAddr::new(0), &[1; 64]);
    assert_eq!(cx.fetch_add(SyncAddr::new(4088), 1), 0);
    let beyond = std::panic::AssertUnwindSafe(|| cx.load(SyncAddr::new(4096)));
    assert!(std::panic::catch_unwind(beyond).is_err(), "no clock, no access");
}

const CHILD: &str = "LIGER_TEST_PACED_CHILD";
const LINES: u64 = 20_000;

fn sweep(memory: std::sync::Arc<Mapping>, clocks: std::sync::Arc<Clocks>, host: u8) {
    let below = NativeHost::new(memory, SyncMode::Pcc, HostId(host));
    let cx = PacedHost::over(below, clocks, &profile("pcc-spr")).cx(WorkerId(0), 1);
    let meeting = SyncAddr::new(BYTES - 64);
    cx.fetch_add(meeting, 1);
    while cx.load(meeting) < 2 {
        cx.pause();
    }
    let from = u64::from(host) * LINES * 64;
    for line in (0..LINES).step_by(10) {
        cx.read(DataAddr::new(from + line * 64), &mut [0; 640]);
    }
    cx.fetch_add(meeting, 1);
    while cx.load(meeting) < 4 {
        cx.pause();
    }
}

/// Only does something in the child that the test below starts.
#[test]
fn child() {
    let Ok(names) = std::env::var(CHILD) else { return };
    let (memory, clocks) = names.split_once(' ').expect("two names");
    let memory = memory.parse::<MemorySpec>().expect("spec").open().expect("inherited memory");
    let clocks = Clocks::open(&clocks.parse().expect("spec"), &profile("pcc-spr")).expect("inherited clocks");
    sweep(memory, clocks, 1);
}

/// Two processes read through one device: together they are no faster than it is.
#[test]
fn processes_share_the_device() {
    let _alone = alone();
    let memory = MemorySpec::Memfd.create(BYTES).expect("memory");
    let clocks = Clocks::create(&profile("pcc-spr"), BYTES).expect("clocks");
    let inherited = MemorySpec::Fd(memory.inherited_fd().expect("a memfd is inherited"));
    let mut child = Command::new(std::env::current_exe().expect("this test"));
    let names = format!("{inherited} {}", clocks.inherited());
    let mut child = child.args(["--exact", "child"]).env(CHILD, names).spawn().expect("a child");
    let meeting = Cx::new(Native::new(memory.clone()), HostId(0), WorkerId(0), 1);
    while meeting.load(SyncAddr::new(BYTES - 64)) < 1 {
        assert!(child.try_wait().expect("our child").is_none(), "the child ended early");
        meeting.pause();
    }
    let start = Instant::now();
    sweep(memory, clocks, 0);
    let took_ns = start.elapsed().as_nanos() as f64;
    assert!(child.wait().expect("our child").success());
    let gb_per_s = (2 * LINES * 64) as f64 / took_ns;
    assert!(gb_per_s <= 0.285, "{gb_per_s} GB/s of 0.28");
    // Both may have lost their processors for some of the time, but not for fifty times of it.
    assert!(gb_per_s > 0.005, "{gb_per_s} GB/s: far too slow");
}
