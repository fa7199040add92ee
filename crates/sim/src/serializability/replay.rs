//! Replay: the transactions applied one at a time in commit order to a model of the tables.
//!
//! Where this finds nothing, every dependency points forward in the commit order: the writer of a seen
//! version had committed before the reader, its replacement comes after the reader, and versions are
//! installed in their order. So the dependency graph has no cycle, and the commit order is a serial order.

use std::collections::BTreeSet;

use super::index::{Index, Node, Scan};
use super::{Anomaly, Report};
use crate::history::Version;

struct Model {
    /// What a reader sees, by rank.
    states: Vec<Option<Version>>,
    /// The ranks that have a row.
    rows: BTreeSet<u32>,
}

/// What kind of operation saw something, for the report.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Read,
    Range,
    Write,
}

/// Replays the nodes of `index` and adds what differs from the state at a commit to `report`.
pub(super) fn replay(index: &Index<'_>, report: &mut Report) {
    let mut model = Model::loaded(index);
    for node in &index.nodes {
        let mut differs = |rank: u32, expected: Option<Version>, seen: Option<Version>, by: By| {
            report.add(Anomaly::StaleAtCommit {
                transaction: node.id,
                order: node.order,
                key: index.key(rank),
                expected,
                seen,
                by_range: by == By::Range,
                by_write: by == By::Write,
            });
        };
        model.check_reads(node, &mut differs);
        for scan in &node.scans {
            model.check_scan(scan, &mut differs);
        }
        for install in &node.installs {
            let state = &mut model.states[install.rank as usize];
            if *state != install.previous {
                differs(install.rank, *state, install.previous, By::Write);
            }
            *state = install.visible();
            match install.alive {
                true => model.rows.insert(install.rank),
                false => model.rows.remove(&install.rank),
            };
        }
    }
}

impl Model {
    fn loaded(index: &Index<'_>) -> Self {
        let states: Vec<Option<Version>> = (0..index.keys.len() as u32)
            .map(|rank| {
                let chain = index.chain(rank);
                let first = index.entries[chain].iter().find(|e| e.writer.is_none());
                first.and_then(|e| e.visible())
            })
            .collect();
        let rows = (0..states.len() as u32).filter(|&rank| states[rank as usize].is_some()).collect();
        Self { states, rows }
    }

    fn check_reads(&self, node: &Node, differs: &mut impl FnMut(u32, Option<Version>, Option<Version>, By)) {
        for &(rank, seen) in &node.reads {
            let expected = self.states[rank as usize];
            if expected != seen {
                differs(rank, expected, seen, By::Read);
            }
        }
    }

    /// Merges the rows of the model with the rows seen; absent keys cost nothing.
    fn check_scan(&self, scan: &Scan, differs: &mut impl FnMut(u32, Option<Version>, Option<Version>, By)) {
        let mut seen = scan.seen.iter().copied().peekable();
        let present =
            self.rows.range(scan.low..scan.high).filter(|rank| scan.own.binary_search(rank).is_err());
        for &rank in present {
            while let Some((ghost, version)) = seen.next_if(|&(r, _)| r < rank) {
                differs(ghost, None, Some(version), By::Range);
            }
            let expected = self.states[rank as usize];
            let found = seen.next_if(|&(r, _)| r == rank).map(|(_, version)| version);
            if expected != found {
                differs(rank, expected, found, By::Range);
            }
        }
        for (ghost, version) in seen {
            differs(ghost, None, Some(version), By::Range);
        }
    }
}
