//! `liger probe`: measures this machine through the verbs, and writes what it found as a hardware profile.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use liger_fabric::native::{MemorySpec, NativeReader};
use liger_fabric::probe::{self, Figure, Findings, LEAST_BYTES, Machine, Missing, Partner, Probe};
use liger_fabric::profile::Profile;
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::superblock;
use liger_sql::types::datetime;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::interrupt::{Left, Registered, register};
use crate::pod::Process;
use crate::sizes;
use crate::terminal::{Phase, check_interrupted, note_interrupts};

/// What to measure.
#[derive(Args)]
pub struct Arguments {
    /// The memory to measure beside this host's own: memfd, a new file, /dev/daxN.M, or a PCI resource. Its
    /// contents are destroyed
    #[arg(long, default_value = "memfd")]
    memory: MemorySpec,
    /// Write what was found as a hardware profile, for `liger sim tpcc --profile` and `--backend paced`; a
    /// new file
    #[arg(long)]
    out: Option<PathBuf>,
    /// About how long all of it may take, 1 to 600 seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
    /// Measure a device although it holds a pod, which is destroyed; write over --out
    #[arg(long)]
    force: bool,
    /// The other process of a measurement, on this memory; started by the command itself
    #[arg(long, hide = true)]
    partner: Option<MemorySpec>,
}

/// Measures.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if let Some(memory) = &arguments.partner {
        probe::partner(&memory.open()?);
        return Ok(ExitCode::SUCCESS);
    }
    let out = arguments.out.as_deref();
    note_interrupts()?;
    let (memory, named, _made) = memory_for(&arguments.memory, &Machine::found(), arguments.force)?;
    let name = out.map_or(Ok("probe".to_owned()), |out| name_of(out, arguments.force))?;
    let bytes = memory.len() as u64;
    let phase = Phase::start(&format!("measuring {} of {}", sizes::show(bytes), arguments.memory));
    let mut other = Other { memory: named, child: None };
    let probe = Probe { memory, time: Duration::from_secs(arguments.seconds) };
    let found = probe.run(&mut other);
    drop(other);
    check_interrupted()?;
    phase.done(&format!("{} numbers, {} missing", found.figures.len(), found.missing.len()));
    // Processes of one machine are coherent through its caches; hosts around a device are not.
    let coherent = !matches!(arguments.memory, MemorySpec::Dax(_) | MemorySpec::Pci(_));
    let profile = probe::profile_of(&found, &name, &today(), coherent);
    let text = profile.to_toml();
    if let Some(out) = out {
        std::fs::write(out, &text).map_err(|error| unwritable(out, &error))?;
    }
    if arguments.json {
        println!("{}", json_of(&found, &profile, &arguments.memory, bytes));
    } else {
        print!("{}", table(&found, &arguments.memory, bytes));
        match out {
            Some(out) => println!("\nprofile {name}: {}", out.display()),
            None => println!("\n--out FILE.toml writes this as a hardware profile"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The profile's name, if its file can be written: found out before anything is measured.
fn name_of(out: &Path, force: bool) -> Result<String, Failure> {
    let is_there = out.exists();
    if is_there && !force {
        let message = "exists already: name a new file, or add --force to write over it";
        return Err(Failure::Refused(format!("--out {}: {message}", out.display())));
    }
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(out)
        .map_err(|error| unwritable(out, &error))?;
    if !is_there {
        // Nothing is left behind if measuring ends early; if this fails, an empty file is.
        let _ = std::fs::remove_file(out);
    }
    let stem = out.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    stem.ok_or_else(|| Failure::Refused(format!("--out {}: name a file", out.display())))
}

fn unwritable(out: &Path, error: &std::io::Error) -> Failure {
    Failure::Refused(format!("--out {}: {error}: name a file that can be written", out.display()))
}

/// A file of the probe's own, removed with this.
struct Made(Option<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // Nothing to be done about a file that somebody else removed first.
            let _ = std::fs::remove_file(path);
        }
    }
}

type Mapped = std::sync::Arc<liger_fabric::native::Mapping>;

/// The memory, by which name another process opens it, and what to remove afterwards.
fn memory_for(
    spec: &MemorySpec,
    machine: &Machine,
    force: bool,
) -> Result<(Mapped, MemorySpec, Made), Failure> {
    let wanted = probe::wanted_bytes(machine);
    match spec {
        MemorySpec::Memfd => {
            let memory = spec.create(wanted)?;
            let number = memory.inherited_fd().expect("a memfd is inherited");
            Ok((memory, MemorySpec::Fd(number), Made(None)))
        }
        MemorySpec::File(path) => {
            let memory = spec.create(wanted)?;
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            Ok((memory, MemorySpec::File(path.clone()), Made(Some(path))))
        }
        MemorySpec::Dax(_) | MemorySpec::Pci(_) => {
            let there = spec.open_read_only()?;
            let len = there.len() as u64;
            let cx = Cx::new(NativeReader::new(there), HostId(0), WorkerId(0), 0);
            if superblock::open(&cx, len).is_ok() && !force {
                return Err(Failure::Refused(format!(
                    "{spec} holds a pod, which measuring destroys: name other memory, or add --force"
                )));
            }
            let bytes = len.min(wanted);
            if bytes < LEAST_BYTES {
                return Err(Failure::Refused(format!(
                    "{spec} has {}, at least {} are needed: name larger memory",
                    sizes::show(len),
                    sizes::show(LEAST_BYTES)
                )));
            }
            Ok((spec.create(bytes)?, spec.clone(), Made(None)))
        }
        MemorySpec::Fd(_) => Err(Failure::Refused(format!(
            "{spec} is another process's memory: name memfd, a new file or a device"
        ))),
    }
}

/// A second process of this program.
struct Other {
    memory: MemorySpec,
    /// It ends with this process, also at an interrupt.
    child: Option<(Child, Option<Registered>)>,
}

impl Partner for Other {
    fn start(&mut self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("a second process cannot be started: {error}");
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.args(["probe", "--partner", &self.memory.to_string()]);
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = quiet.spawn().map_err(failed)?;
        let ends = Process::of_child(&child).map(|process| register(Left::Process(process)));
        self.child = Some((child, ends));
        Ok(())
    }

    fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|(child, _)| !matches!(child.try_wait(), Ok(None)))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.child {
            // It ends with the measurement; if that failed, it is of no more use.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Today, as `2026-01-31`, in UTC.
#[expect(clippy::disallowed_methods, reason = "a profile says when it was measured")]
fn today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since_2000 = (now.as_secs() / 86_400) as i32 - 10_957;
    let mut text = String::new();
    datetime::date_style::write_date(since_2000, Default::default(), &mut text);
    text
}

fn about(machine: &Machine) -> String {
    let caches = machine.caches.iter().map(|cache| match cache.ways {
        0 => format!("L{} {}", cache.level, sizes::show(cache.bytes)),
        ways => format!("L{} {} {ways}-way", cache.level, sizes::show(cache.bytes)),
    });
    let caches: Vec<String> = caches.collect();
    let caches = if caches.is_empty() { "caches not told".to_owned() } else { caches.join(", ") };
    format!("{}, {} processors, {caches}; {}", machine.processor, machine.processors, machine.verbs)
}

fn table(found: &Findings, memory: &MemorySpec, bytes: u64) -> String {
    let mut text = format!("{}\nmemory: {} of {memory}\n\n", about(&found.machine), sizes::show(bytes));
    text += &format!(
        "{:<26} {:>9} {:>9} {:>9}  {:<6}{:>8}\n",
        "measured", "median", "p10", "p90", "unit", "batches"
    );
    for Figure { name, unit, median, low, high, batches } in &found.figures {
        text += &format!("{name:<26} {median:>9.1} {low:>9.1} {high:>9.1}  {unit:<6}{batches:>8}\n");
    }
    for Missing { name, why } in &found.missing {
        text += &format!("{name:<26} not measured: {why}\n");
    }
    text
}

fn json_of(found: &Findings, profile: &Profile, memory: &MemorySpec, bytes: u64) -> Value {
    let Machine { processor, processors, caches, instructions, verbs } = &found.machine;
    let caches: Vec<Value> = caches
        .iter()
        .map(|cache| json!({ "level": cache.level, "bytes": cache.bytes, "ways": cache.ways }))
        .collect();
    let instructions: Vec<String> =
        instructions.iter().map(|instruction| format!("{instruction:?}").to_lowercase()).collect();
    let figure = |figure: &Figure| {
        let Figure { name, unit, median, low, high, batches } = figure;
        let value = json!({
            "median": median, "p10": low, "p90": high, "unit": unit, "batches": batches,
        });
        (name.clone(), value)
    };
    let missing = |missing: &Missing| (missing.name.clone(), json!(missing.why));
    json!({
        "processor": processor,
        "processors": processors,
        "caches": caches,
        "instructions": instructions,
        "verbs": verbs.to_string(),
        "memory": memory.to_string(),
        "memory_bytes": bytes,
        "figures": found.figures.iter().map(figure).collect::<serde_json::Map<_, _>>(),
        "missing": found.missing.iter().map(missing).collect::<serde_json::Map<_, _>>(),
        "profile": profile.to_toml(),
    })
}
