//! The same programs as threads over real memory.

use super::*;
use liger_fabric::native::{Mapping, Native};

fn pair(first: impl FnOnce(&Cx<Native>) + Send, second: impl FnOnce(&Cx<Native>) + Send) {
    let mapping = Mapping::anonymous(LEN).expect("memory");
    let cx = |host| {
        let mapping = mapping.clone();
        move || Cx::new(Native::new(mapping), HostId(host), WorkerId(0), 1)
    };
    let (one, two) = (cx(0), cx(1));
    #[expect(clippy::disallowed_methods, reason = "native workers are threads")]
    std::thread::scope(|scope| {
        scope.spawn(move || first(&one()));
        scope.spawn(move || second(&two()));
    });
}

#[test]
fn message_passing_works() {
    for len in [8, 64, 1000] {
        pair(|cx| writer(cx, Omit::Nothing, len), |cx| reader(cx, Omit::Nothing, len));
    }
}

#[test]
fn increments_are_not_lost() {
    let count = |cx: &Cx<Native>| {
        for _ in 0..1000 {
            cx.fetch_add(FLAG, 1);
        }
        cx.fetch_add(OTHER, 1);
        while cx.load(OTHER) < 2 {
            cx.pause();
        }
        assert_eq!(cx.load(FLAG), 2000);
    };
    pair(count, count);
}
