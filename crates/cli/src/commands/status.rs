//! `liger status`: the hosts of a pod directory, from the pod's memory, which is only read, and from
//! themselves.

#![expect(clippy::disallowed_methods, reason = "heartbeats are watched for a moment")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use liger_engine::log::epoch::durable_epochs;
use liger_engine::log::ring::RingReader;
use liger_fabric::native::process::number_of;
use liger_fabric::native::{MemorySpec, NativeReader};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::membership::{HostView, Observer};
use liger_pod::superblock;
use liger_pod::watch::Reason;
use serde_json::{Value, json};

use crate::control::Scrubbed;
use crate::failure::Failure;
use crate::leftovers;
use crate::pod::process::Doing;
use crate::pod::{PodDir, Process, Said, ask_host};
use crate::{sizes, terminal};

/// Heartbeats are watched for this time, in so many looks.
const WATCHED: Duration = Duration::from_millis(60);
const LOOKS: u32 = 12;
/// A host that serves answers within this time.
const SOON: Duration = Duration::from_millis(300);

/// How it is told that a partition has no owner.
const UNOWNED: &str = "no host that answers owns partition ";

/// The pod that was asked for is down.
const DOWN: u8 = 3;

/// What to look at.
#[derive(Args)]
#[command(after_help = "Exit code: 0, at least one host has a process; 3, the pod is down.\n\nExamples:\n  \
    liger status ./shop\n  liger status ./shop --json | jq .hosts[0].state")]
pub struct Arguments {
    /// The pod's directory
    dir: PathBuf,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// What is shown of one host.
struct Row {
    /// What the pod's memory says of it; none if there is no memory.
    view: Option<HostView>,
    /// How far its log is on storage; none inside: its successor has closed it.
    durable_epoch: Option<Option<u64>>,
    /// Bytes that its workers have logged in this generation.
    logged_bytes: Option<u64>,
    /// Bytes of its folder.
    stored_bytes: u64,
    process: Option<Process>,
    /// What it says itself.
    said: Option<Said>,
    /// How its process ended, as its supervisor saw it.
    ended: Option<String>,
}

/// Shows a pod.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let dir = PodDir::open(&arguments.dir)?;
    let rows = look(&dir)?;
    if arguments.json {
        println!("{}", json_of(&dir, &rows));
    } else {
        print(&dir, &rows);
    }
    if is_up(&dir) {
        return Ok(ExitCode::SUCCESS);
    }
    leftovers::tell(None);
    let path = dir.path().display();
    terminal::say(format_args!("{path}: the pod is down: `liger recover {path}` starts it"));
    Ok(ExitCode::from(DOWN))
}

fn look(dir: &PodDir) -> Result<Vec<Row>, Failure> {
    let spec: MemorySpec = dir.file.memory.parse()?;
    let mut rows: Vec<Row> = (0..dir.hosts()).map(|host| row_without_memory(dir, host)).collect();
    // A pod that is down has none.
    let Ok(mapping) = spec.open_read_only() else { return Ok(rows) };
    let len = mapping.len() as u64;
    let cx = Cx::new(NativeReader::new(mapping), HostId(0), WorkerId(0), 0);
    let of = |error| Failure::Refused(format!("{spec}: {error}"));
    let plan = superblock::open(&cx, len).map_err(of)?;
    let mut observer = Observer::new(&plan);
    for _ in 1..LOOKS {
        observer.observe(&cx).map_err(of)?;
        std::thread::sleep(WATCHED / LOOKS);
    }
    let logs = dir.file.job.data.is_some().then(|| durable_epochs(&cx, &plan));
    for (row, view) in rows.iter_mut().zip(observer.observe(&cx).map_err(of)?) {
        let host = view.slot.host;
        if let Some(epochs) = &logs {
            let rings =
                (0..plan.config().workers).map(|worker| RingReader::new(&plan, host, WorkerId(worker)));
            row.logged_bytes = Some(rings.map(|ring| ring.tail(&cx)).sum());
            row.durable_epoch = Some(epochs[usize::from(host.0)]);
        }
        row.view = Some(view);
    }
    Ok(rows)
}

/// Whether any host of the pod has a process.
pub fn is_up(dir: &PodDir) -> bool {
    let processes = (0..dir.hosts()).filter_map(|host| Process::read(&dir.process(host)));
    processes.into_iter().any(|process| process.doing() != Doing::Gone)
}

/// Judges a pod that is up: every member answers, and every partition has one owner among them.
pub fn verify_members(dir: &PodDir, json: bool) -> Result<ExitCode, Failure> {
    let mut problems = members_problems(dir)?;
    // A partition that goes to another host has no owner for a moment.
    for _ in 0..LOOKS {
        if !problems.iter().any(|problem| problem.starts_with(UNOWNED)) {
            break;
        }
        std::thread::sleep(SOON);
        problems = members_problems(dir)?;
    }
    if json {
        println!("{}", json!({ "dir": dir.path().display().to_string(), "up": true, "problems": problems }));
    } else {
        problems.iter().for_each(|problem| println!("{problem}"));
        let verdict = if problems.is_empty() { "whole: every partition has one owner" } else { "NOT whole" };
        println!("{}: the pod is up; {verdict}", dir.path().display());
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is wrong with a pod that is up.
fn members_problems(dir: &PodDir) -> Result<Vec<String>, Failure> {
    let rows = look(dir)?;
    let mut problems = Vec::new();
    let mut owners = vec![Vec::new(); usize::from(dir.file.job.pod_config().partitions)];
    for (host, row) in rows.iter().enumerate() {
        let is_member = row.view.is_some_and(|view| view.slot.state.is_member());
        match &row.said {
            None if is_member => problems.push(format!("host {host} is {} and does not answer", row.state())),
            None => {}
            Some(said) => {
                problems.extend(said.troubles.iter().map(|trouble| format!("host {host} {trouble}")));
                for partition in &said.partitions {
                    if let Some(of) = owners.get_mut(usize::from(*partition)) {
                        of.push(host);
                    }
                }
            }
        }
        let (process, of_pod) =
            (row.process.map(Process::number), row.view.map(|view| number_of(view.process)));
        if let (true, Some(number), Some(of_pod)) = (is_member, process, of_pod)
            && number != of_pod
        {
            problems.push(format!(
                "host {host} is process {of_pod} to the pod, and process {number} to its folder"
            ));
        }
    }
    for (partition, owners) in owners.iter().enumerate().filter(|(_, owners)| owners.len() != 1) {
        problems.push(match owners[..] {
            [] => format!("{UNOWNED}{partition}"),
            _ => format!("the hosts {owners:?} own partition {partition}"),
        });
    }
    Ok(problems)
}

fn row_without_memory(dir: &PodDir, host: usize) -> Row {
    let entries = std::fs::read_dir(dir.data_of(host)).into_iter().flatten();
    let bytes = entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len()));
    let process = Process::read(&dir.process(host));
    Row {
        view: None,
        durable_epoch: None,
        logged_bytes: None,
        stored_bytes: bytes.sum(),
        process,
        said: ask_host(dir, host, SOON).ok(),
        ended: dir.how_it_ended(host),
    }
}

impl Row {
    fn state(&self) -> String {
        self.view.map_or("-".to_owned(), |view| view.slot.state.to_string())
    }

    fn doing(&self) -> String {
        self.process.map_or("gone".to_owned(), |process| process.doing().to_string())
    }

    /// Why it does not run, as far as anybody knows: the pod says why it was cut off, its supervisor how its
    /// process ended.
    fn down(&self) -> Option<String> {
        let cut_off = self.view.and_then(|view| view.cut_off);
        let runs = self.process.is_some_and(|process| process.doing() != Doing::Gone);
        if runs && cut_off.is_none() {
            return None;
        }
        match (&self.ended, cut_off) {
            (Some(ended), Some(why)) if matches!(why.reason, Reason::Ended) => {
                Some(format!("{ended} ({why})"))
            }
            // It says that already.
            (Some(ended), _) => Some(ended.clone()),
            (None, why) => why.map(|why| why.to_string()),
        }
    }

    /// Milliseconds without a heartbeat, as far as it was watched.
    fn silent_ms(&self) -> Option<f64> {
        self.view.filter(|view| view.slot.state.is_member()).map(|view| view.heartbeat_age_ns as f64 / 1e6)
    }
}

fn print(dir: &PodDir, rows: &[Row]) {
    let file = &dir.file;
    let holds = file.job.holds();
    println!("{}: {holds}, memory {}, lease {} ms", dir.path().display(), file.memory, file.lease_ms);
    if !file.job.engine.has_row_checksums() {
        println!("rows in shared memory have no checksums: damage of them is not noticed");
    }
    println!(
        "\n{:>4}  {:<10}{:>11}{:>9}  {:<8}{:>10}{:>9}{:>11}{:>11}{:>14}  partitions",
        "host",
        "state",
        "incarnation",
        "process",
        "is",
        "silent ms",
        "durable",
        "logged",
        "stored",
        "transactions"
    );
    for (host, row) in rows.iter().enumerate() {
        let or_none = |text: Option<String>| text.unwrap_or("-".to_owned());
        let incarnation = or_none(row.view.map(|view| view.slot.incarnation.to_string()));
        let process = or_none(row.process.map(|process| process.number().to_string()));
        let silent = or_none(row.silent_ms().map(|ms| format!("{ms:.1}")));
        let epoch = |epoch: Option<u64>| epoch.map_or("closed".to_owned(), |epoch| epoch.to_string());
        let durable = or_none(row.durable_epoch.map(epoch));
        let logged = or_none(row.logged_bytes.map(sizes::show));
        let transactions = or_none(row.said.as_ref().map(|said| said.transactions.to_string()));
        let partitions = or_none(row.said.as_ref().map(|said| ranges(&said.partitions)));
        let (state, doing, stored) = (row.state(), row.doing(), sizes::show(row.stored_bytes));
        println!(
            "{host:>4}  {state:<10}{incarnation:>11}{process:>9}  {doing:<8}{silent:>10}{durable:>9}\
             {logged:>11}{stored:>11}{transactions:>14}  {partitions}"
        );
    }
    for (host, why) in rows.iter().enumerate().filter_map(|(host, row)| Some((host, row.down()?))) {
        println!("host {host} is down: {why}");
    }
    for (host, said) in rows.iter().enumerate().filter_map(|(host, row)| Some((host, row.said.as_ref()?))) {
        if let Some((made, all)) = said.restored {
            println!("host {host} is restoring: {} of {}", sizes::show(made), sizes::show(all));
        }
        let Scrubbed { damaged, healed, .. } = said.scrubbed;
        if damaged > 0 {
            println!("host {host} has found {damaged} shared rows damaged, and made {healed} of them good");
        }
        said.troubles.iter().for_each(|trouble| println!("host {host} {trouble}"));
    }
}

/// Numbers as people write them: `0-3, 7`.
fn ranges(numbers: &[u16]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < numbers.len() {
        let run = numbers[at..].iter().zip(numbers[at]..).take_while(|(found, next)| *found == next).count();
        let (first, last) = (numbers[at], numbers[at + run - 1]);
        let comma = if text.is_empty() { "" } else { ", " };
        text += &if first == last { format!("{comma}{first}") } else { format!("{comma}{first}-{last}") };
        at += run;
    }
    if text.is_empty() { "none".to_owned() } else { text }
}

fn json_of(dir: &PodDir, rows: &[Row]) -> Value {
    let hosts = rows.iter().enumerate().map(|(host, row)| {
        json!({
            "host": host,
            "state": row.state(),
            "incarnation": row.view.map(|view| view.slot.incarnation),
            "process": row.process.map(Process::number),
            "doing": row.doing(),
            "silent_ms": row.silent_ms(),
            "down": row.down(),
            "durable_epoch": row.durable_epoch.flatten(),
            "log_closed": row.durable_epoch == Some(None),
            "logged_bytes": row.logged_bytes,
            "stored_bytes": row.stored_bytes,
            "transactions": row.said.as_ref().map(|said| said.transactions),
            "partitions": row.said.as_ref().map(|said| &said.partitions),
            "troubles": row.said.as_ref().map(|said| &said.troubles),
            "restored_bytes": row.said.as_ref().and_then(|said| said.restored).map(|restored| restored.0),
            "rows_scrubbed": row.said.as_ref().map(|said| said.scrubbed.looks),
            "rows_damaged": row.said.as_ref().map(|said| said.scrubbed.damaged),
            "rows_healed": row.said.as_ref().map(|said| said.scrubbed.healed),
            "restore_bytes": row.said.as_ref().and_then(|said| said.restored).map(|restored| restored.1),
        })
    });
    json!({
        "dir": dir.path().display().to_string(),
        "tables": dir.file.job.holds(),
        "memory": dir.file.memory,
        "lease_ms": dir.file.lease_ms,
        "row_checksums": dir.file.job.engine.has_row_checksums(),
        "hosts": hosts.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_ranges() {
        let shown: [(&[u16], &str); 4] =
            [(&[], "none"), (&[3], "3"), (&[0, 1, 2, 3, 7], "0-3, 7"), (&[0, 2, 4, 5], "0, 2, 4-5")];
        shown.into_iter().for_each(|(numbers, text)| assert_eq!(ranges(numbers), text));
    }
}
