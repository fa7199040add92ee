//! What a host notes of its own life and of the deaths of others: a line for each event, in `said`.

use std::fmt::Display;
use std::sync::Arc;

use liger_engine::instance::{Hearer, PodEvent};
use liger_server::log::{Entry, Level};

use crate::telling::Telling;

/// Notes an event.
pub(super) fn note(
    telling: &Telling,
    level: Level,
    event: &'static str,
    fields: &[(&'static str, &dyn Display)],
) {
    telling.logger()(&Entry { level, event, fields });
}

/// Notes what the engine tells of.
pub(super) fn hearer(telling: &Telling) -> Hearer {
    let telling = telling.clone();
    Arc::new(move |event| {
        let (level, name) = match event {
            PodEvent::Accused(_) => (Level::Warning, "host_accused"),
            PodEvent::Fenced(_) => (Level::Error, "host_overruled"),
            PodEvent::TakeoverBegins { .. } => (Level::Info, "takeover_begins"),
            PodEvent::TakeoverEnds { failure: None, .. } => (Level::Info, "takeover_ends"),
            PodEvent::TakeoverEnds { .. } => (Level::Error, "takeover_fails"),
            PodEvent::CheckpointFails { .. } => (Level::Error, "checkpoint_fails"),
            PodEvent::Damaged { .. } => (Level::Error, "memory_damaged"),
            PodEvent::Log { fault: Some(_) } => (Level::Error, "log_refuses"),
            PodEvent::Log { fault: None } => (Level::Info, "log_goes_on"),
        };
        note(&telling, level, name, &[("what", event)]);
    })
}
