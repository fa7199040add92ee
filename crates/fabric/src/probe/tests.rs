//! A probe of this machine, short: what it finds is whole, and a profile.

use super::*;
use crate::native::NativeHost;
use crate::paced::{Clocks, PacedHost};
use crate::profile::Profile;
use crate::{DataAddr, native::HostMemory};

/// No second process: the thread that plays it is enough for the protocol.
struct Thread {
    memory: Arc<Mapping>,
    running: Option<std::thread::JoinHandle<()>>,
}

impl Partner for Thread {
    #[expect(clippy::disallowed_methods, reason = "it stands for a process")]
    fn start(&mut self) -> Result<(), String> {
        let memory = self.memory.clone();
        self.running = Some(std::thread::spawn(move || partner(&memory)));
        Ok(())
    }

    fn has_ended(&mut self) -> bool {
        self.running.as_ref().is_none_or(std::thread::JoinHandle::is_finished)
    }
}

/// Nobody comes.
struct Nobody;

impl Partner for Nobody {
    fn start(&mut self) -> Result<(), String> {
        Err("nobody is there".to_owned())
    }

    fn has_ended(&mut self) -> bool {
        true
    }
}

fn probe() -> Probe {
    let memory = Mapping::anonymous(LEAST_BYTES as usize).expect("memory");
    Probe { memory, time: Duration::from_millis(400) }
}

#[test]
fn every_number_is_found_or_its_lack_explained() {
    let probe = probe();
    let mut thread = Thread { memory: probe.memory.clone(), running: None };
    let found = probe.run(&mut thread);
    for figure in &found.figures {
        let Figure { name, median, low, high, batches, .. } = figure;
        assert!(*median > 0.0 && low <= median && median <= high && *batches >= 9, "{name}: {figure:?}");
        assert!(found.missing.iter().all(|missing| missing.name != *name), "{name} both ways");
    }
    let both = found.figures.len() + found.missing.len();
    assert_eq!(both, 28, "{:?} {:?}", found.figures, found.missing);
    let median = |name: &str| found.figure(name).expect(name).median;
    assert!(median("pload") > 3.0 * median("word_load_hit"), "a load past the cache costs more than a hit");
    assert!(median("clflush_dirty_fence") > median("fence_idle"));
    if found.machine.processors > 1 {
        let handover = median("handover_processes");
        assert!(handover > 2.0 * median("word_load_hit"), "a line that moves costs more: {handover}");
        thread.running.expect("it was started").join().expect("it ends with the measurement");
    }
    if found.machine.instructions.len() < 3 {
        assert!(!found.missing.is_empty());
    }
}

#[test]
fn what_is_missing_is_taken_from_a_profile_that_is_named() {
    let found = probe().run(&mut Nobody);
    let why = found.why_not("handover_processes");
    assert!(why == "nobody is there" || found.machine.processors == 1, "{why}");
    let profile = profile_of(&found, "mine", "2026-01-02", true);
    let again = Profile::parse("mine", &profile.to_toml()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again, profile);
    let transfer = &profile.hwcc.as_ref().expect("measured").transfer_ns;
    let source = format!("not measured ({why}); taken from profile dram: ");
    assert!(transfer.source.starts_with(&source), "{}", transfer.source);
    let read = &profile.memory.read_ns.source;
    let measured = format!("measured by liger probe on {}, 2026-01-02, median of ", found.machine.processor);
    assert!(read.starts_with(&measured), "{read}");
    for (section, field, quantity) in profile.entries() {
        let source = &quantity.source;
        let known = ["measured by liger probe", "not measured (", "as the system says of"];
        assert!(known.iter().any(|head| source.starts_with(head)), "{section}.{field}: {source}");
    }
    // It is one to run by.
    let memory = Mapping::anonymous(1 << 16).expect("memory");
    let clocks = Clocks::create(&profile, 1 << 16).expect("clocks");
    let host = PacedHost::over(NativeHost::new(memory, profile.sync_words, HostId(0)), clocks, &profile);
    host.cx(WorkerId(0), 1).publish(DataAddr::new(0), &[1; 64]);
}
