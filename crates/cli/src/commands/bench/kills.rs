//! `liger bench tpcc --kill-every T`: hosts fail one at a time while TPC-C runs in all of them, and join
//! again.
//!
//! The drivers are inside the hosts. Each host says every few milliseconds what it has acknowledged; that
//! is kept here, outside, and looked for in the database at the end. What a host acknowledged in its last
//! milliseconds and did not live to say is not counted.

#![expect(clippy::disallowed_methods, reason = "hosts are watched in real time, each by a thread")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use liger_engine::Durability;
use liger_workload::Acknowledged;
use liger_workload::WorkerStats;
use liger_workload::tpcc::workload::{NEW_ORDERS, PAYMENTS};
use serde::Serialize;

use super::chaos::{Chaos, Plan, Pod};
use super::shown::{STEP_S, Times, moments, per_second, write_head, write_times};
use crate::control::{Answer, Order};
use crate::failure::Failure;
use crate::job::Job;
use crate::outside::history::History;
use crate::outside::phases::{self, Diaries, Phases};
use crate::outside::timeline::{Kill, Seen, Timeline};
use crate::plot::{Band, Figure, Panel, Series};
use crate::pod::running::{PATIENCE, join_again};
use crate::pod::{Line, PodDir, PodFile, Running};
use crate::telling::LogFormat;
use crate::terminal::{self, Phase};
use crate::verify::check_at_rest;

/// What is left of a run with failures.
#[derive(Serialize)]
pub struct Survived {
    workload: &'static str,
    durability: &'static str,
    hosts: u8,
    seed: u64,
    lease_ms: u64,
    seconds: f64,
    kills: usize,
    kill_mode: &'static str,
    /// Transactions that hosts had said to be acknowledged, by name.
    acknowledged: BTreeMap<String, u64>,
    acknowledged_lost: u64,
    /// New orders and payments.
    acknowledged_per_s: f64,
    survivor_stall: Option<Times>,
    back: Option<Times>,
    /// Of each kill.
    phases: Vec<Phases>,
    consistent: bool,
    failures: Vec<String>,
    #[serde(skip)]
    figure: Option<Figure>,
}

/// What one life of a host has said.
struct Life {
    acknowledged: BTreeMap<String, u64>,
    seen: Seen,
    stats: Option<Box<WorkerStats>>,
}

/// Lives of hosts, each listened to by a thread.
#[derive(Clone)]
struct Lives {
    history: Arc<History>,
    threads: Arc<Mutex<Vec<JoinHandle<Life>>>>,
    /// When hosts are to be done.
    end: Instant,
}

impl Lives {
    /// Lets a host run and listens to it in a thread.
    fn run(&self, dir: &PodDir, host: usize) {
        let (dir, history, end) = (dir.clone(), self.history.clone(), self.end);
        let thread = std::thread::spawn(move || {
            let seen = Seen::new(0, dir.hosts(), 0);
            let mut life = Life { acknowledged: BTreeMap::new(), seen, stats: None };
            // Its end is what this is about; who has caused it knows.
            let _ = listen(&dir, host, end, &history, &mut life);
            life
        });
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    }

    /// Lets a host join again and run for the rest of the time. Its transactions have keys of their own.
    fn join_again(&self, dir: &PodDir, host: usize, join: &Order) -> Result<(), Failure> {
        let mut join = join.clone();
        if let Order::Join { job, .. } = &mut join {
            let lives = self.threads.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
            if let Some(data) = &mut job.data {
                data.generation += lives;
            }
        }
        join_again(dir, host, &join)?;
        self.run(dir, host);
        Ok(())
    }

    fn ended(self) -> Vec<Life> {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        threads.into_iter().map(|thread| thread.join().expect("listeners do not panic")).collect()
    }
}

fn listen(
    dir: &PodDir,
    host: usize,
    end: Instant,
    history: &History,
    life: &mut Life,
) -> Result<(), Failure> {
    let mut line = Line::connect(dir, host, PATIENCE)?;
    let left = end.saturating_duration_since(Instant::now());
    line.order(&Order::Run { seconds: left.as_secs_f64().max(0.001) })?;
    let mut before = 0;
    loop {
        match line.next()? {
            (Answer::Acknowledged { counts }, _) => {
                let of = |name: &str| counts.get(name).copied().unwrap_or(0);
                let now = of(NEW_ORDERS) + of(PAYMENTS);
                life.seen.counted(history.now_ns(), host, (now - before) as u32);
                before = now;
                life.acknowledged = counts;
            }
            (Answer::Ran { stats, .. }, _) => {
                life.acknowledged = stats.acknowledged.clone();
                life.stats = Some(stats);
                return Ok(());
            }
            _ => {}
        }
    }
}

/// Runs, kills, and checks. The pod's directory is `path`; its memory the file `memory`.
pub fn run(
    mut job: Job,
    (path, memory): (&Path, String),
    lease: Duration,
    plan: Plan,
    svg: Option<&PathBuf>,
) -> Result<Survived, Failure> {
    terminal::note_interrupts()?;
    assert!(job.data.is_some(), "who is to survive keeps a log");
    // Everything counts.
    (job.watched, job.warm_up_s) = (true, 0.0);
    // What happens after each kill is read from there.
    job.telling.log_format = LogFormat::Json;
    let dir = PodDir::create(path, PodFile::new(memory, lease.as_millis() as u64, job))?;
    let running = Running::start(dir.clone())?;
    let phase = Phase::start(&format!("running for {:?}", plan.time));
    let lives = Lives { history: Arc::default(), threads: Arc::default(), end: Instant::now() + plan.time };
    (0..dir.hosts()).for_each(|host| lives.run(&dir, host));
    let again = lives.clone();
    let rejoin = Arc::new(move |dir: &PodDir, host: usize, join: &Order| again.join_again(dir, host, join));
    let mut chaos = Chaos::new(Pod::Own(Box::new(running)), plan, rejoin);
    let history = lives.history.clone();
    chaos.run(&history)?;
    let by_others = chaos.killed_by_others();
    let pod = chaos.into_pod();
    let lives = lives.ended();
    let kills = history.kills();
    phase.done(&format!("{} kills, {by_others} of them by hosts that took one for dead", kills.len()));
    // Before hosts do what checking asks of them.
    let phases = phases::of(&Diaries::read(&dir, &history), &kills);
    let mut survived = judge(&dir, plan, &lives, (&kills, phases))?;
    // What is wrong is told whether or not the pod can still end.
    if let Pod::Own(running) = pod
        && let Err(failure) = running.end()
    {
        survived.failures.push(format!("the pod did not end well: {failure}"));
        survived.consistent = false;
    }
    if let (Some(path), Some(figure)) = (svg, &survived.figure) {
        super::write_svg(path, figure)?;
    }
    Ok(survived)
}

/// Checks the whole database, and puts together what was seen.
fn judge(
    dir: &PodDir,
    plan: Plan,
    lives: &[Life],
    (kills, phases): (&[Kill], Vec<Phases>),
) -> Result<Survived, Failure> {
    let job = &dir.file.job;
    let mut acknowledged = BTreeMap::<String, u64>::new();
    let mut failures = Vec::new();
    for life in lives {
        for (name, count) in &life.acknowledged {
            *acknowledged.entry(name.clone()).or_default() += count;
        }
        let stopped = life.stats.iter().flat_map(|stats| &stats.stopped);
        failures.extend(stopped.map(|error| format!("a worker was stopped: {error}")));
    }
    let phase = Phase::start("checking every row");
    let told = Acknowledged::AtLeast(&acknowledged);
    let mut lost = 0;
    match check_at_rest(dir, PATIENCE, |rows| job.bench.check(rows, told)) {
        Ok((verdict, problems)) => {
            lost = verdict.lost;
            failures.extend(problems);
            failures.extend(verdict.failures);
        }
        // What was found before tells why.
        Err(failure) if failures.is_empty() => return Err(failure),
        Err(failure) => failures.push(failure.to_string()),
    }
    phase.done(if failures.is_empty() { "all conditions hold" } else { "NOT consistent" });
    let timeline = Timeline::new(lives.iter().map(|life| &life.seen).collect(), kills, dir.hosts());
    let of = |name: &str| acknowledged.get(name).copied().unwrap_or(0);
    let seconds = (timeline.end_ns() as f64 / 1e9).max(1e-3);
    let mut survived = Survived {
        workload: "tpcc",
        durability: Durability::from(job.durability).name(),
        hosts: job.hosts,
        seed: job.seed,
        lease_ms: dir.file.lease_ms,
        seconds,
        kills: kills.len(),
        kill_mode: plan.mode.name(),
        acknowledged_lost: lost,
        acknowledged_per_s: (of(NEW_ORDERS) + of(PAYMENTS)) as f64 / seconds,
        acknowledged,
        survivor_stall: Times::of(&timeline.stalls_ns()),
        back: Times::back(kills),
        phases,
        consistent: failures.is_empty(),
        failures,
        figure: None,
    };
    survived.figure = Some(survived.draw(&timeline, kills));
    Ok(survived)
}

impl Survived {
    /// Whether nothing is lost or wrong.
    pub fn is_good(&self) -> bool {
        self.consistent && self.acknowledged_lost == 0
    }

    /// As one JSON object.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("every key is a string")
    }

    /// As text, with a plot.
    pub fn table(&self) -> String {
        let mut text = self.figure.as_ref().map(crate::plot::text::render).unwrap_or_default();
        let _ = writeln!(text, "\n{} hosts, {} kills, {:.1} s", self.hosts, self.kills, self.seconds);
        for (name, count) in &self.acknowledged {
            let _ = writeln!(text, "{:<40}{count:>12}", format!("acknowledged {}", name.replace('_', " ")));
        }
        let _ = writeln!(text, "{:<40}{:>12}", "acknowledged and lost", self.acknowledged_lost);
        if self.kills > 0 {
            write_head(&mut text);
            write_times(&mut text, "a survivor acknowledges nothing for", self.survivor_stall);
            write_times(&mut text, "until the host is a member again", self.back);
            text += &phases::table(&self.phases);
        }
        for failure in &self.failures {
            let _ = writeln!(text, "  {failure}");
        }
        text + if self.consistent { "consistent: all conditions hold" } else { "NOT consistent" }
    }

    fn draw(&self, timeline: &Timeline<'_>, kills: &[Kill]) -> Figure {
        let of_host =
            |host| Series { name: format!("host {host}"), values: per_second(&timeline.of_host(host)) };
        let panel = Panel {
            title: "New orders and payments, by host".to_owned(),
            unit: "acknowledged per second".to_owned(),
            series: (0..usize::from(self.hosts)).map(of_host).collect(),
        };
        let band = |(name, spans): (&str, _)| Band { name: name.to_owned(), spans };
        let Self { hosts, acknowledged_lost, durability, lease_ms, seed, .. } = self;
        Figure {
            title: format!("TPC-C on {hosts} hosts, {} kills: {acknowledged_lost} lost", self.kills),
            subtitle: format!(
                "durability {durability}, lease {lease_ms} ms, seed {seed}; points are {:.0} ms",
                STEP_S * 1e3
            ),
            step_s: STEP_S,
            panels: vec![panel],
            moments: moments(kills),
            bands: phases::spans(&self.phases)
                .into_iter()
                .filter(|(_, spans)| !spans.is_empty())
                .map(band)
                .collect(),
            bands_title: "After each kill: a bar ends when its phase is reached".to_owned(),
        }
    }
}
