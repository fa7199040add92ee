//! The whole database of all hosts, for the workload's check.

use std::cell::RefCell;
use std::time::Duration;

use liger_engine::{Catalog, Row, TableId};
use liger_workload::Snapshot;

use crate::control::{Answer, Order};
use crate::failure::Failure;
use crate::fleet::Fleet;
use crate::pod::{Line, PodDir, order_all};

/// A host hands over a piece of a table within this time.
const PATIENCE: Duration = Duration::from_secs(120);
/// So often all rows are read while partitions move.
const TRIES: u32 = 5;

/// All rows of all hosts, fetched table by table.
pub struct AllRows<'a> {
    fleet: RefCell<&'a mut Fleet>,
    catalog: &'a Catalog,
    failure: RefCell<Option<Failure>>,
}

impl<'a> AllRows<'a> {
    /// The rows of these hosts, which are at rest.
    pub fn new(fleet: &'a mut Fleet, catalog: &'a Catalog) -> Self {
        Self { fleet: RefCell::new(fleet), catalog, failure: RefCell::new(None) }
    }

    /// What went wrong while rows were fetched; the check has not seen all of them then.
    pub fn into_failure(self) -> Option<Failure> {
        self.failure.into_inner()
    }

    fn fetch(&self, table: TableId, visit: &mut dyn FnMut(Row<'_>)) -> Result<(), Failure> {
        let relation = self.catalog.relation(table).expect("a table of the catalog");
        let mut fleet = self.fleet.borrow_mut();
        // Every host has all of a replicated table.
        let hosts = if relation.replicated { 1 } else { fleet.len() };
        for host in 0..hosts {
            fleet.order(host, &Order::Dump { table: table.0 })?;
            while let (_, Answer::Rows { .. }, rows) = fleet.next(PATIENCE)? {
                assert!(rows.len().is_multiple_of(relation.row_len), "hosts hand over whole rows");
                rows.chunks_exact(relation.row_len).for_each(|row| visit(Row::new(row)));
            }
        }
        Ok(())
    }
}

impl Snapshot for AllRows<'_> {
    fn rows(&self, table: TableId, visit: &mut dyn FnMut(Row<'_>)) {
        let mut failure = self.failure.borrow_mut();
        if failure.is_none() {
            *failure = self.fetch(table, visit).err();
        }
    }
}

/// Lets a pod come to rest, has its hosts check themselves, and shows all of its rows to `check`: what that
/// returned, and what the hosts found.
///
/// Somebody may move partitions meanwhile (`liger rebalance`): then all of them are shown again.
///
/// # Errors
/// If a host does not answer, or partitions move each time.
pub fn check_at_rest<T>(
    dir: &PodDir,
    patience: Duration,
    check: impl Fn(&PodRows<'_>) -> T,
) -> Result<(T, Vec<String>), Failure> {
    let checked = check_while_they_rest(dir, patience, check);
    // Whatever came of it; a host that is gone asks for nothing.
    let went_on = order_all(dir, 0..dir.hosts(), |_| Order::GoOn, patience, |_| ());
    let checked = checked?;
    went_on.map(|_| checked)
}

fn check_while_they_rest<T>(
    dir: &PodDir,
    patience: Duration,
    check: impl Fn(&PodRows<'_>) -> T,
) -> Result<(T, Vec<String>), Failure> {
    let all = |order: Order| order_all(dir, 0..dir.hosts(), |_| order.clone(), patience, |_| ());
    let catalog = dir.file.job.catalog();
    for _ in 0..TRIES {
        for _ in 0..2 {
            all(Order::Quiesce)?;
        }
        let answers = all(Order::Check)?;
        if answers.contains(&Answer::Unsettled) {
            continue;
        }
        let mut problems = Vec::new();
        for (host, answer) in answers.into_iter().enumerate() {
            let Answer::Checked { problems: found } = answer else { return Err(answer.unasked()) };
            problems.extend(found.into_iter().map(|problem| format!("host {host}: {problem}")));
        }
        let rows = PodRows::new(dir, &catalog);
        let checked = check(&rows);
        match rows.failure.into_inner() {
            None => return Ok((checked, problems)),
            Some(Unseen::Moved) => {}
            Some(Unseen::Failed(failure)) => return Err(failure),
        }
    }
    Err(Failure::Broken(
        "partitions went to other hosts, or were to go, each time that all rows were read: nothing is known \
         about them; check again when nobody rebalances"
            .to_owned(),
    ))
}

/// All rows of all hosts of a pod directory, fetched table by table.
pub struct PodRows<'a> {
    dir: &'a PodDir,
    catalog: &'a Catalog,
    failure: RefCell<Option<Unseen>>,
}

/// Why not all rows were seen.
enum Unseen {
    /// A partition has been seen twice, not at all, or in part: it went from one host to another.
    Moved,
    Failed(Failure),
}

impl From<Failure> for Unseen {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl<'a> PodRows<'a> {
    fn new(dir: &'a PodDir, catalog: &'a Catalog) -> Self {
        Self { dir, catalog, failure: RefCell::new(None) }
    }

    fn fetch(&self, table: TableId, visit: &mut dyn FnMut(Row<'_>)) -> Result<(), Unseen> {
        let relation = self.catalog.relation(table).expect("a table of the catalog");
        let hosts = if relation.replicated { 1 } else { self.dir.hosts() };
        let mut seen = Vec::new();
        for host in 0..hosts {
            let mut line = Line::connect(self.dir, host, PATIENCE)?;
            line.order(&Order::Dump { table: table.0 })?;
            let mut show = |row: &[u8]| visit(Row::new(row));
            match line.last(|_, rows| rows.chunks_exact(relation.row_len).for_each(&mut show))? {
                Answer::Dumped { of } => seen.extend(of),
                Answer::Unsettled => return Err(Unseen::Moved),
                answer => return Err(Unseen::Failed(answer.unasked())),
            }
        }
        seen.sort_unstable();
        match relation.replicated || seen.into_iter().eq(0..self.dir.file.job.pod_config().partitions) {
            true => Ok(()),
            false => Err(Unseen::Moved),
        }
    }
}

impl Snapshot for PodRows<'_> {
    fn rows(&self, table: TableId, visit: &mut dyn FnMut(Row<'_>)) {
        let mut failure = self.failure.borrow_mut();
        if failure.is_none() {
            *failure = self.fetch(table, visit).err();
        }
    }
}
