//! What the clients of a ledger saw, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write;

use liger_engine::Durability;
use liger_workload::Histogram;
use liger_workload::ledger::check::Fault;
use serde::Serialize;

use super::super::shown::{STEP_S, Times, moments, per_second, write_head, write_times};
use super::{Homecoming, LedgerArguments};
use crate::outside::Experience;
use crate::outside::timeline::{Class, Kill, Timeline};
use crate::plot::{Figure, Panel, Series};
use crate::pod::PodDir;

/// What was seen.
#[derive(Serialize)]
pub struct Report {
    workload: &'static str,
    hosts: usize,
    workers_per_host: u8,
    clients: usize,
    window: u32,
    remote_percent: u32,
    durability: &'static str,
    lease_ms: u64,
    seed: u64,
    /// From the first request to the last acknowledgement.
    seconds: f64,
    kills: usize,
    killed_by_others: u32,
    kill_mode: &'static str,
    /// Records that only the memory had when all hosts had died, and their bytes.
    salvaged_records: u64,
    salvaged_bytes: u64,
    acknowledged: u64,
    acknowledged_per_s: f64,
    acknowledged_lost: u64,
    doubled: u64,
    /// Answers that said "done before".
    done_before: u64,
    lost_connections: u64,
    /// Requests without an answer at the end.
    unanswered: u64,
    /// Transfers in the database, those of earlier runs included.
    transfers: u64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    /// The longest time without an acknowledgement of each survivor, after each kill.
    survivor_stall: Option<Times>,
    /// The longest wait after each kill, by what the transfer needed of the dead host.
    longest_wait: BTreeMap<&'static str, Option<Times>>,
    /// From the kill until the host was a member again.
    back: Option<Times>,
    consistent: bool,
    failures: Vec<String>,
}

impl Report {
    /// Puts a report together.
    pub fn new(
        arguments: &LedgerArguments,
        dir: &PodDir,
        home: &Homecoming,
        experiences: &[Experience],
        kills: &[Kill],
    ) -> Self {
        let job = &dir.file.job;
        let timeline = Timeline::new(experiences.iter().map(|one| &one.seen).collect(), kills, dir.hosts());
        let mut waited = Histogram::default();
        experiences.iter().for_each(|one| waited.merge(&one.waited_ns));
        let sum = |of: fn(&Experience) -> u64| experiences.iter().map(of).sum();
        let acknowledged: u64 = home.told.iter().map(|told| told.acknowledged).sum();
        let seconds = (timeline.end_ns() as f64 / 1e9).max(1e-3);
        let us = |quantile: f64| waited.quantile(quantile) as f64 / 1e3;
        let failures = home.findings.lines().into_iter().chain(home.problems.iter().cloned()).collect();
        let of_class = |class: &Class| (class.name(), Times::of(&timeline.waits_ns(*class)));
        let has_crashed = arguments.crash_after.is_some();
        Self {
            workload: "ledger",
            hosts: dir.hosts(),
            workers_per_host: job.workers,
            clients: home.told.len(),
            window: arguments.window,
            remote_percent: arguments.remote,
            durability: Durability::from(job.durability).name(),
            lease_ms: dir.file.lease_ms,
            seed: arguments.shape.seed,
            seconds,
            kills: kills.len(),
            killed_by_others: home.killed_by_others,
            salvaged_records: home.found.map_or(0, |found| found.salvaged().records),
            salvaged_bytes: home.found.map_or(0, |found| found.salvaged().bytes),
            kill_mode: if has_crashed { "all at once" } else { arguments.kill_mode.name() },
            acknowledged,
            acknowledged_per_s: acknowledged as f64 / seconds,
            acknowledged_lost: home.findings.count(Fault::Lost),
            doubled: home.findings.count(Fault::Doubled),
            done_before: home.told.iter().map(|told| told.again).sum(),
            lost_connections: sum(|one| one.lost_connections),
            unanswered: sum(|one| one.open),
            transfers: home.findings.transfers,
            p50_us: us(0.5),
            p99_us: us(0.99),
            max_us: waited.max() as f64 / 1e3,
            survivor_stall: Times::of(&timeline.stalls_ns()).filter(|_| !has_crashed),
            longest_wait: Class::ALL.iter().map(of_class).collect(),
            back: Times::back(kills),
            consistent: home.findings.is_right() && home.problems.is_empty(),
            failures,
        }
    }

    /// Whether nothing is lost, doubled or wrong.
    pub fn is_good(&self) -> bool {
        self.consistent
    }

    /// As one JSON object.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("every key is a string and every number finite")
    }

    /// As text.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{} hosts, {} clients with {} requests under way each, {} % remote, durability {}, seed {}, \
             {:.1} s\n",
            self.hosts,
            self.clients,
            self.window,
            self.remote_percent,
            self.durability,
            self.seed,
            self.seconds
        );
        let counts = [
            ("kills", self.kills as u64),
            ("of them, by hosts that took one for dead", self.killed_by_others.into()),
            ("acknowledged", self.acknowledged),
            ("acknowledged and lost", self.acknowledged_lost),
            ("doubled", self.doubled),
            ("asked again, done before", self.done_before),
            ("connections lost", self.lost_connections),
            ("requests without an answer", self.unanswered),
        ];
        for (name, count) in counts {
            let _ = writeln!(text, "{name:<40}{count:>12}");
        }
        let _ = writeln!(text, "{:<40}{:>12.0}", "acknowledged per second", self.acknowledged_per_s);
        for (name, us) in [("p50", self.p50_us), ("p99", self.p99_us), ("longest", self.max_us)] {
            let _ = writeln!(text, "{:<40}{us:>12.0} us", format!("from request to answer, {name}"));
        }
        if self.kills > 0 {
            self.write_times(&mut text);
        }
        for failure in &self.failures {
            let _ = writeln!(text, "  {failure}");
        }
        let verdict =
            "exactly once: every acknowledged transfer is there, none twice, and the money is right";
        text + if self.consistent { verdict } else { "NOT right" }
    }

    fn write_times(&self, text: &mut String) {
        write_head(text);
        write_times(text, "a survivor acknowledges nothing for", self.survivor_stall);
        for class in Class::ALL {
            write_times(text, &format!("waits for {class}"), self.longest_wait[class.name()]);
        }
        write_times(text, "until the host is a member again", self.back);
    }

    /// The run as a picture.
    pub fn figure(&self, experiences: &[Experience], kills: &[Kill], hosts: usize) -> Figure {
        let timeline = Timeline::new(experiences.iter().map(|one| &one.seen).collect(), kills, hosts);
        let unit = "acknowledged per second".to_owned();
        let of_host =
            |host| Series { name: format!("host {host}"), values: per_second(&timeline.of_host(host)) };
        let title = "Transfers by the host that answered".to_owned();
        let mut panels = vec![Panel { title, unit: unit.clone(), series: (0..hosts).map(of_host).collect() }];
        if !kills.is_empty() {
            let of_class = |class: Class| (class, timeline.of_class(class));
            let seen =
                Class::ALL.into_iter().map(of_class).filter(|(_, counts)| counts.iter().any(|n| *n > 0));
            let series =
                seen.map(|(class, counts)| Series { name: class.to_string(), values: per_second(&counts) });
            let title = "By what they need".to_owned();
            panels.push(Panel { title, unit, series: series.collect() });
        }
        let failures = match self.kill_mode {
            _ if self.kills == 0 => "none fails".to_owned(),
            "hang" => format!("{} times one hangs", self.kills),
            "kill" => format!("{} times one is killed", self.kills),
            all => format!("killed {all}"),
        };
        let (lost, doubled) = (self.acknowledged_lost, self.doubled);
        let title = format!("{hosts} hosts, {failures}: {lost} transfers lost, {doubled} doubled");
        let subtitle = format!(
            "{} acknowledged transfers, {} % remote, durability {}, lease {} ms, seed {}; points are \
             {:.0} ms",
            self.acknowledged,
            self.remote_percent,
            self.durability,
            self.lease_ms,
            self.seed,
            STEP_S * 1e3
        );
        let (bands, bands_title) = Default::default();
        Figure { title, subtitle, step_s: STEP_S, panels, moments: moments(kills), bands, bands_title }
    }
}
