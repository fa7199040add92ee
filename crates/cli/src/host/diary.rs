//! What a host notes of its own life and of the deaths of others: a line for each event, in `said`.

use std::fmt::Display;
use std::sync::Arc;

use liger_engine::instance::{HandOverStep, Hearer, Hosts, PodEvent, TakeoverStep};
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
            PodEvent::Accused { .. } => (Level::Warning, "host_accused"),
            PodEvent::Fenced(_) => (Level::Error, "host_overruled"),
            PodEvent::CutOff { .. } => (Level::Info, "host_cut_off"),
            PodEvent::LocksResolved { .. } => (Level::Info, "locks_resolved"),
            PodEvent::LogClosed { .. } => (Level::Info, "log_closed"),
            PodEvent::TakeoverBegins { .. } => (Level::Info, "takeover_begins"),
            PodEvent::TakeoverReaches { .. } => (Level::Info, "takeover_reaches"),
            PodEvent::TakeoverEnds { failure: None, .. } => (Level::Info, "takeover_ends"),
            PodEvent::TakeoverEnds { .. } => (Level::Error, "takeover_fails"),
            PodEvent::Followed { .. } => (Level::Info, "partitions_followed"),
            PodEvent::FirstRow { .. } => (Level::Info, "first_row"),
            PodEvent::AllRows { .. } => (Level::Info, "all_rows"),
            PodEvent::TakeoverIsKept { .. } => (Level::Info, "takeover_kept"),
            PodEvent::Released { .. } => (Level::Info, "host_released"),
            PodEvent::HandOver { step: step @ HandOverStep::Failed(_), .. } => (Level::Warning, step.name()),
            PodEvent::HandOver { step, .. } => (Level::Info, step.name()),
            PodEvent::CheckpointFails { .. } => (Level::Error, "checkpoint_fails"),
            PodEvent::Damaged { .. } => (Level::Error, "memory_damaged"),
            PodEvent::Log { fault: Some(_) } => (Level::Error, "log_refuses"),
            PodEvent::Log { fault: None } => (Level::Info, "log_goes_on"),
        };
        let figures = figures(event);
        let mut fields: Vec<(&'static str, &dyn Display)> = vec![("what", event)];
        fields.extend(figures.iter().map(|(name, value)| (*name, value as &dyn Display)));
        note(&telling, level, name, &fields);
    })
}

/// What an event says in numbers and names: for programs.
fn figures(event: &PodEvent) -> Vec<(&'static str, String)> {
    let number = |name, value: &dyn Display| (name, value.to_string());
    match event {
        PodEvent::Accused { accusation, ago_ns } => {
            vec![number("host", &accusation.host.0), number("ago_us", &(ago_ns / 1000))]
        }
        PodEvent::CutOff { host } | PodEvent::LocksResolved { host } | PodEvent::Released { host } => {
            vec![number("host", &host.0)]
        }
        PodEvent::LogClosed { host, bytes } => vec![number("host", &host.0), number("bytes", bytes)],
        PodEvent::TakeoverBegins { dead } | PodEvent::TakeoverIsKept { dead } => {
            vec![number("dead", &Hosts(dead))]
        }
        PodEvent::TakeoverReaches { dead, step } => {
            let mut figures = vec![number("dead", &Hosts(dead)), number("step", &step.name())];
            match step {
                TakeoverStep::LogsRead { bytes, segments } => {
                    figures.extend([number("bytes", bytes), number("segments", segments)]);
                }
                TakeoverStep::ImagesOpened { partitions, bytes } => {
                    figures.extend([number("partitions", partitions), number("bytes", bytes)]);
                }
                _ => {}
            }
            figures
        }
        PodEvent::TakeoverEnds { dead, partitions, .. } => {
            vec![number("dead", &Hosts(dead)), number("partitions", partitions)]
        }
        PodEvent::Followed { host, partitions } | PodEvent::HandOver { host, partitions, .. } => {
            vec![number("host", &host.0), number("partitions", partitions)]
        }
        PodEvent::FirstRow { partition } => vec![number("partition", &partition.0)],
        PodEvent::AllRows { bytes } => vec![number("bytes", bytes)],
        PodEvent::Fenced(_)
        | PodEvent::CheckpointFails { .. }
        | PodEvent::Damaged { .. }
        | PodEvent::Log { .. } => Vec::new(),
    }
}
