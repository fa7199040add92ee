//! Making a dead host's partitions anew while the pod goes on (docs/protocols/takeover.md).
//!
//! Invariants:
//! 1. Everything up to an epoch counts that began after the dead host was cut off: all of its own records,
//!    and of the others' all that changed rows which were not shared when it died.
//! 2. Partitions are opened that nobody uses yet. What is not shared is made as after a restart, when
//!    somebody wants it (row/unrestored.rs): from the images and logs of then, for it has not changed since.

use std::collections::BTreeSet;
use std::sync::Arc;

use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::plan::PartitionId;

use super::directory::{Directory, PodFiles};
use super::error::RecoveryError;
use super::image::REPLICAS;
use super::loading::load_replicated;
use super::reading::ReadsAlong;
use super::recoverable::RestoresRows;
use super::replay::Changes;
use super::sources::{Sorted, Sorting, Sources};
use super::{Identity, Plan};
use crate::instance::events::TakeoverStep;
use crate::log::record::Record;
use crate::log::segment::LogPosition;

/// Fills a host's copies of replicated tables from the newest image of them, while the pod goes on. Returns
/// how many rows there are.
///
/// # Errors
/// If a file is missing or damaged.
pub fn load_replicas<F: Fabric>(
    cx: &Cx<F>,
    host: &impl RestoresRows,
    directories: &[Directory],
    identity: &Identity,
) -> Result<u64, RecoveryError> {
    let (catalog, partitions) = (host.catalog(), host.partition_count());
    // No record changes such a table: logs are not read. Whose image it is may take the next checkpoint.
    let open = |_: &mut _| {
        let plan = Plan::of_begun(cx, directories, identity)?;
        let sources = Sources { plan: &plan, directories, catalog, partitions };
        let is_there = plan.image_of(REPLICAS).is_some();
        is_there.then(|| sources.open(cx, REPLICAS, host.id(), Changes::default())).transpose()
    };
    let Some(stored) = anew(&mut || _ = host.attend(cx), open)? else { return Ok(0) };
    load_replicated(cx, host, &stored, || _ = host.attend(cx))
}

/// How often files are read anew because a log was shortened meanwhile.
const TRIES: u32 = 8;

/// Reads files, anew if one is gone that was there before.
fn anew<Turn: FnMut(), T>(
    turn: &mut Turn,
    mut read: impl FnMut(&mut Turn) -> Result<T, RecoveryError>,
) -> Result<T, RecoveryError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match read(turn) {
            Err(RecoveryError::Missing { .. }) if tries < TRIES => turn(),
            read => return read,
        }
    }
}

/// Bytes of a log that are read between two turns.
const TURN_BYTES: u64 = 1 << 20;

/// Sorts the changes of logs while they are read and checked, and gives others their turns.
struct Along<'a, F: Fabric, B, T> {
    cx: &'a Cx<F>,
    turn: &'a mut T,
    /// Begins to sort what a plan says that counts.
    begin: B,
    sorting: Option<Sorting>,
    turned_at: LogPosition,
}

impl<F, B, T> ReadsAlong for Along<'_, F, B, T>
where
    F: Fabric,
    B: FnMut(&Plan) -> Sorting,
    T: FnMut(),
{
    fn begins(&mut self, plan: &Plan) {
        self.sorting = Some((self.begin)(plan));
    }

    fn record(&mut self, host: HostId, record: &Record<'_>, at: LogPosition) {
        let sorting = self.sorting.as_mut().expect("it has begun");
        sorting.take(self.cx, host, record, at);
        if at.segment != self.turned_at.segment || at.byte >= self.turned_at.byte + TURN_BYTES {
            self.turned_at = at;
            self.turn();
        }
    }

    fn turn(&mut self) {
        (self.turn)();
    }
}

/// What a successor rebuilds.
pub(crate) struct Rebuilding<'a, R> {
    pub host: &'a R,
    pub files: &'a PodFiles,
    pub identity: &'a Identity,
    /// The partitions, which the host holds and nobody uses.
    pub partitions: &'a BTreeSet<PartitionId>,
    /// Up to here records count.
    pub upto: u64,
    /// Hears how far it has come.
    pub reaches: &'a dyn Fn(TakeoverStep),
}

impl<R: RestoresRows> Rebuilding<'_, R> {
    /// Opens what the partitions are made from; `turn` is called often. Rows are made when they are wanted.
    /// Returns the bytes of the images.
    pub fn run<F: Fabric>(&self, cx: &Cx<F>, mut turn: impl FnMut()) -> Result<u64, RecoveryError> {
        assert!(!self.partitions.contains(&REPLICAS), "each host has its own copies of replicated tables");
        let mut bytes = 0;
        let directories = (0..self.identity.hosts).map(|host| self.files.look(HostId(host)));
        let directories = directories.collect::<Result<Vec<_>, _>>()?;
        let (plan, mut changes) = anew(&mut turn, |turn| self.read(cx, &directories, turn))?;
        let sources = self.sources(&plan, &directories);
        for &partition in self.partitions {
            let changes = changes.take(partition);
            let stored = sources.open(cx, partition, self.host.home(partition), changes)?;
            bytes += stored.image_bytes();
            self.host.mark_unrestored(cx, partition, &Arc::new(stored));
            turn();
        }
        (self.reaches)(TakeoverStep::ImagesOpened { partitions: self.partitions.len(), bytes });
        assert!(changes.is_empty(), "changes were read of partitions that are rebuilt, and of no other");
        Ok(bytes)
    }

    fn read<F: Fabric>(
        &self,
        cx: &Cx<F>,
        directories: &[Directory],
        turn: &mut impl FnMut(),
    ) -> Result<(Plan, Sorted), RecoveryError> {
        let wanted = |partition: PartitionId| self.partitions.contains(&partition);
        let begin = |plan: &Plan| Sorting::new(plan, self.host.partition_count(), wanted);
        let mut along = Along { cx, turn, begin, sorting: None, turned_at: LogPosition::default() };
        let plan = Plan::of_living(cx, directories, self.identity, self.upto, &mut along)?;
        let changes = along.sorting.expect("a plan was made").finish()?;
        let (bytes, segments) = (plan.log_bytes(), plan.hosts.iter().map(|it| it.segments.len()).sum());
        (self.reaches)(TakeoverStep::LogsRead { bytes, segments });
        Ok((plan, changes))
    }

    fn sources<'s>(&'s self, plan: &'s Plan, directories: &'s [Directory]) -> Sources<'s> {
        let partitions = self.host.partition_count();
        Sources { plan, directories, catalog: self.host.catalog(), partitions }
    }
}
