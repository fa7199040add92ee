//! A host's detector, as a thread: it looks at the other hosts now and then, and at once when the system says
//! that one of their processes has ended.

use std::sync::{Arc, Once, OnceLock};

use liger_fabric::WorkerId;
use liger_fabric::native::{DeathWatch, HostMemory, Nudge, Service, process};
use liger_pod::plan::Plan;
use liger_pod::watch;

use super::worker_group::Fuse;
use crate::row::RowHost;

/// The detector, and what wakes it; both end when this is dropped.
pub(super) struct Eye {
    detector: Service,
    _deaths: Arc<Option<DeathWatch>>,
}

impl Eye {
    /// Opens it, for a host that has become a member.
    pub(super) fn open<M: HostMemory>(memory: &M, plan: &Plan, engine: &Arc<RowHost>, seed: u64) -> Self {
        let nudge = Arc::<OnceLock<Nudge>>::default();
        let (told, wakes) = (engine.clone(), nudge.clone());
        let notice = move || {
            told.notice_end();
            if let Some(nudge) = wakes.get() {
                nudge.nudge();
            }
        };
        let deaths = Arc::new(DeathWatch::start(notice));
        let (kept, watched, plan) = (engine.clone(), deaths.clone(), plan.clone());
        let worker = WorkerId(plan.config().workers);
        let first = Once::new();
        let keep = move |cx: &_| {
            // Deaths are to be noticed in time, also on a busy machine.
            first.call_once(process::prefer_this_thread);
            let _fuse = Fuse(&*kept);
            let worked = kept.keep(cx);
            if let Some(deaths) = &*watched {
                deaths.watch(&watch::processes(cx, &plan, kept.id()));
            }
            if worked > 0 { 0 } else { kept.detector_rest_ns(cx) }
        };
        let detector = Service::start(memory, worker, seed, None, keep);
        assert!(nudge.set(detector.nudge()).is_ok(), "an eye is opened once");
        Self { detector, _deaths: deaths }
    }

    /// The failure detector's thread.
    pub(super) fn detector(&self) -> &Service {
        &self.detector
    }
}
