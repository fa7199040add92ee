//! The same programs as threads over real memory that is slowed down to a profile's pace.

use super::*;
use liger_fabric::native::{Mapping, NativeHost, WorkerPanicked, run_workers};
use liger_fabric::paced::{Clocks, Paced, PacedHost};
use liger_fabric::profile::Profile;

/// Runs one program on each of two hosts at once.
fn pair(profile: &str, first: impl Fn(&Cx<Paced>) + Sync, second: impl Fn(&Cx<Paced>) + Sync) {
    let profile = Profile::built_in(profile).expect("built in");
    let mapping = Mapping::anonymous(LEN).expect("memory");
    let clocks = Clocks::create(&profile, LEN as u64).expect("clocks");
    let host = |host| {
        let below = NativeHost::new(mapping.clone(), profile.sync_words, HostId(host));
        PacedHost::over(below, clocks.clone(), &profile)
    };
    let run = |cx: &Cx<Paced>| if cx.host() == HostId(0) { first(cx) } else { second(cx) };
    let ended: Vec<Result<(), WorkerPanicked>> = run_workers(&[host(0), host(1)], 1, 1, run);
    ended.into_iter().for_each(|worker| worker.expect("no mismatch"));
}

#[test]
fn message_passing_works() {
    for profile in Profile::built_in_names() {
        for len in [8, 64, 1000] {
            pair(profile, |cx| writer(cx, Omit::Nothing, len), |cx| reader(cx, Omit::Nothing, len));
        }
    }
}

/// Where the profile's hardware keeps data coherent, it is, and code may rely on it.
#[test]
fn data_is_coherent_where_the_profile_says_so() {
    let write = |cx: &Cx<Paced>| {
        assert!(cx.coherent_data());
        writer(cx, Omit::WriteBack, 100);
    };
    pair("dram", write, |cx| reader(cx, Omit::Invalidate, 100));
    let none = |cx: &Cx<Paced>| assert!(!cx.coherent_data());
    pair("tigon-osdi25", none, none);
}

#[test]
fn increments_are_not_lost() {
    let count = |cx: &Cx<Paced>| {
        for _ in 0..1000 {
            cx.fetch_add(FLAG, 1);
        }
        cx.fetch_add(OTHER, 1);
        wait_for(cx, OTHER, 2);
        assert_eq!(cx.load(FLAG), 2000);
    };
    for profile in ["tigon-osdi25", "pcc-spr"] {
        pair(profile, count, count);
    }
}
