//! What the system says about the machine: its processor's name, how many there are, its caches.

use std::fs::read_to_string;
use std::path::Path;

use crate::native::{CacheInstructions, LineInstruction, allowed_processors};

/// One data cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheLevel {
    /// 1 is nearest to the core.
    pub level: u32,
    /// Its size.
    pub bytes: u64,
    /// Its associativity; 0 where the system does not say.
    pub ways: u64,
}

/// A machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Data caches of the first of them, from the core outwards; empty where the system does not say.
    pub caches: Vec<CacheLevel>,
    /// Instructions that move a line out of the cache.
    pub instructions: Vec<LineInstruction>,
    /// Which of them the verbs use.
    pub verbs: CacheInstructions,
}

impl Machine {
    /// This one.
    pub fn found() -> Self {
        use LineInstruction::{Clflush, Clflushopt, Clwb};
        let processors = allowed_processors();
        let first = processors.first().copied().unwrap_or(0);
        let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let verbs = CacheInstructions::detect();
        assert!(verbs.write_back.exists() && verbs.invalidate.exists(), "{verbs}: not of this processor");
        Self {
            processor: name.map_or("unknown processor", |(_, name)| name.trim()).to_owned(),
            processors: processors.len().max(1),
            caches: caches_in(Path::new(&format!("/sys/devices/system/cpu/cpu{first}/cache"))),
            instructions: [Clwb, Clflushopt, Clflush].into_iter().filter(|it| it.exists()).collect(),
            verbs,
        }
    }

    /// The cache that is nearest to memory.
    pub fn last_cache(&self) -> Option<&CacheLevel> {
        self.caches.last()
    }
}

fn caches_in(folder: &Path) -> Vec<CacheLevel> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut caches: Vec<CacheLevel> = entries.filter_map(|entry| cache_in(&entry.path())).collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

fn cache_in(folder: &Path) -> Option<CacheLevel> {
    let text = |name| Some(read_to_string(folder.join(name)).ok()?.trim().to_owned());
    if text("type")? == "Instruction" {
        return None;
    }
    let size = text("size")?;
    let kib: u64 = size.strip_suffix('K')?.parse().ok()?;
    let ways = text("ways_of_associativity").and_then(|ways| ways.parse().ok()).unwrap_or(0);
    Some(CacheLevel { level: text("level")?.parse().ok()?, bytes: kib << 10, ways })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_read_as_the_system_writes_them() {
        let folder = std::env::temp_dir().join(format!("liger-caches-{}", std::process::id()));
        let cache = |name: &str, files: [(&str, &str); 4]| {
            let folder = folder.join(name);
            std::fs::create_dir_all(&folder).expect("a temporary folder");
            files.iter().for_each(|(file, text)| {
                std::fs::write(folder.join(file), format!("{text}\n")).expect("a temporary file");
            });
        };
        let of = |level, kind, size, ways| {
            [("level", level), ("type", kind), ("size", size), ("ways_of_associativity", ways)]
        };
        cache("index3", of("3", "Unified", "32768K", "16"));
        cache("index0", of("1", "Data", "32K", "8"));
        cache("index1", of("1", "Instruction", "32K", "8"));
        let level = |level, kib: u64, ways| CacheLevel { level, bytes: kib << 10, ways };
        assert_eq!(caches_in(&folder), [level(1, 32, 8), level(3, 32768, 16)]);
        std::fs::remove_dir_all(&folder).expect("still there");
        assert_eq!(caches_in(&folder), []);
    }

    #[test]
    fn this_machine_has_a_processor() {
        let machine = Machine::found();
        assert!(machine.processors >= 1 && machine.instructions.contains(&LineInstruction::Clflush));
        assert!(machine.instructions.contains(&machine.verbs.write_back));
    }
}
