//! What a check has found, in words, and no more of it than somebody reads.

use std::collections::BTreeMap;

use crate::benchmark::Verdict;
use crate::snapshot::Acknowledged;

/// Findings of each kind that are kept in full.
const KEPT: usize = 20;

/// Collects findings.
#[derive(Default, Debug)]
pub(crate) struct Findings {
    lines: Vec<String>,
    counts: BTreeMap<&'static str, usize>,
    lost: u64,
}

impl Findings {
    /// Something of this kind is wrong.
    pub fn report(&mut self, kind: &'static str, line: impl FnOnce() -> String) {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        if *count <= KEPT {
            self.lines.push(format!("{kind}: {}", line()));
        }
    }

    /// What was acknowledged must be there: `due` is computed from the acknowledged effects by their names.
    pub fn compare(
        &mut self,
        told: Acknowledged<'_>,
        kind: &'static str,
        found: u64,
        due: impl FnOnce(&dyn Fn(&str) -> u64) -> u64,
    ) {
        let (effects, exactly) = match told {
            Acknowledged::Unknown => return,
            Acknowledged::Exactly(effects) => (effects, true),
            Acknowledged::AtLeast(effects) => (effects, false),
        };
        let due = due(&|name| effects.get(name).copied().unwrap_or(0));
        if found < due || exactly && found != due {
            self.lost += due.saturating_sub(found);
            self.report(kind, || format!("{due} acknowledged, {found} found"));
        }
    }

    /// As [`Self::compare`], for what says nothing unless all effects were acknowledged.
    pub fn compare_exact(
        &mut self,
        told: Acknowledged<'_>,
        kind: &'static str,
        found: u64,
        due: impl FnOnce(&dyn Fn(&str) -> u64) -> u64,
    ) {
        if let Acknowledged::Exactly(_) = told {
            self.compare(told, kind, found, due);
        }
    }

    /// All of it.
    pub fn verdict(self) -> Verdict {
        let beyond = self.counts.iter().filter(|(_, n)| **n > KEPT);
        let more = beyond.map(|(kind, n)| format!("{kind}: {n} findings in all"));
        Verdict { failures: self.lines.into_iter().chain(more).collect(), lost: self.lost }
    }
}
