//! The catalog that a host has, and how a transaction knows that it is current.
//!
//! Invariants:
//! 1. A picture is the whole catalog at one version, as it was committed: a transaction that changes the
//!    catalog keeps its own to itself.
//! 2. A statement begins with the newest picture whose commit was over before it. That is not read-locked:
//!    what a transaction must not lose sight of are the relations that it uses (catalog/definition.rs).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use liger_engine::row::RowSession;
use liger_fabric::Fabric;

use super::first::first_objects;
use super::sequence::Blocks;
use super::statistics::HostStatistics;
use super::{Catalog, definition, saved};
use crate::error::{Result, SqlError, SqlState};
use crate::storage::access::{Access, transact};
use crate::storage::classes::Classes;
use crate::storage::numbers::Numbers;
use crate::storage::{advisory, notices, parts, signals};

/// The catalog of one host.
pub struct HostCatalog {
    classes: Arc<Classes>,
    cached: Mutex<Arc<Catalog>>,
    numbers: Numbers,
    sequences: Blocks,
    statistics: HostStatistics,
    /// What the counter of announced changes was when the picture was looked at last.
    seen: AtomicU64,
    in_vain: AtomicU64,
}

impl HostCatalog {
    /// The catalog of a host that has not looked yet.
    ///
    /// # Errors
    /// If the pod was made without the tables that SQL needs.
    pub fn new(classes: Classes) -> Result<HostCatalog> {
        if parts::SIZES.iter().any(|size| classes.table(*size).is_none()) {
            let message = "the pod was made without SQL: it has none of the tables that SQL keeps rows in";
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        let classes = Arc::new(classes);
        let empty = Catalog::new(0, classes.clone(), Default::default());
        Ok(HostCatalog {
            classes,
            cached: Mutex::new(Arc::new(empty)),
            numbers: Numbers::default(),
            sequences: Blocks::default(),
            statistics: HostStatistics::default(),
            // No counter ever has that value.
            seen: AtomicU64::new(u64::MAX),
            in_vain: AtomicU64::new(u64::MAX),
        })
    }

    /// Makes the catalog if this is a new pod, and takes numbers for this life of the host. In a transaction
    /// of its own, before any other; `verifier`: what the password of the first role is checked against in a
    /// new pod; `life` goes to [`HostCatalog::opened`] once that has committed.
    ///
    /// # Errors
    /// Conflicts, and those of the engine.
    pub fn open(&self, tx: &mut dyn Access, verifier: Option<&str>) -> Result<u64> {
        if saved::version(tx, &self.classes)?.is_none() {
            saved::create(tx, &self.classes, &first_objects(verifier))?;
        } else {
            saved::complete(tx, &self.classes)?;
            let now = self.begin(tx)?;
            definition::complete(tx, &now)?;
        }
        let life = parts::take_life(tx, &self.classes)?;
        // Those of earlier lives of this host, and of hosts that are gone, are removed by looking at them.
        advisory::all(tx, &self.classes)?;
        notices::forget(tx, &self.classes)?;
        signals::forget(tx, &self.classes)?;
        Ok(life)
    }

    /// Opens the catalog for a host that has just joined, and takes a first picture of it: who takes the
    /// picture as it is (log-ins, for one) finds the roles there.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn enter<F: Fabric>(&self, session: &mut RowSession<'_, F>, verifier: Option<&str>) -> Result<()> {
        // A host that starts on a full disk serves reads.
        session.set_needed(true);
        let opened = transact(session, |tx| self.open(tx, verifier));
        session.set_needed(false);
        self.opened(opened?);
        transact(session, |tx| self.begin(tx).map(drop))
    }

    /// From here on the host gives numbers of this life.
    pub fn opened(&self, life: u64) {
        self.numbers.begin(life);
    }

    /// Numbers that nobody else gives.
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Numbers of sequences that this host has taken and not given yet.
    pub fn sequences(&self) -> &Blocks {
        &self.sequences
    }

    /// What this host knows of the rows of tables.
    pub fn statistics(&self) -> &HostStatistics {
        &self.statistics
    }

    /// The classes of the pod.
    pub fn classes(&self) -> &Arc<Classes> {
        &self.classes
    }

    /// The picture that this host has at present, current or not.
    pub fn cached(&self) -> Arc<Catalog> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The newest catalog, in a transaction: its first step. One that finds a newer one than the host had
    /// holds all descriptions to its end, and so has to be short.
    ///
    /// # Errors
    /// Conflicts, if somebody's change of the catalog is being committed; damage.
    pub fn begin(&self, tx: &mut dyn Access) -> Result<Arc<Catalog>> {
        let cached = self.cached();
        if cached.version() > 0 && saved::peek_version(tx, &self.classes)? == Some(cached.version()) {
            return Ok(cached);
        }
        let Some(version) = saved::version(tx, &self.classes)? else {
            return Err(SqlError::new(SqlState::CANNOT_CONNECT_NOW, "the pod has no catalog yet"));
        };
        if version == cached.version() {
            return Ok(cached);
        }
        let loaded = Arc::new(saved::load(tx, &self.classes, version, &cached)?);
        // What was read is committed and stays locked until this transaction ends.
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.version() < loaded.version() {
            *cached = loaded.clone();
        }
        Ok(loaded)
    }

    /// Whether the picture is the newest whose commit is over; that may change at once.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn is_current(&self, tx: &mut dyn Access) -> Result<bool> {
        // Who is changing it hides it.
        Ok(self.version_in(tx)?.is_none_or(|version| version == self.cached().version()))
    }

    /// The catalog's version as a transaction sees it; `None` if somebody is changing it, and it reads no
    /// snapshot.
    pub(crate) fn version_in(&self, tx: &mut dyn Access) -> Result<Option<u64>> {
        saved::peek_version(tx, &self.classes)
    }

    /// Whether somebody may have changed the catalog since the picture was taken; `announced`: the pod's
    /// counter of announced changes as it is now.
    pub(crate) fn may_be_old(&self, announced: u64) -> bool {
        announced as u32 != 0
            || announced != self.seen.load(Ordering::Relaxed)
            || self.cached().version() == 0
    }

    /// Somebody has waited in vain to see the catalog while the counter had this value.
    pub(crate) fn is_in_vain(&self, announced: u64) {
        self.in_vain.store(announced, Ordering::Relaxed);
    }

    /// Whether somebody has.
    pub(crate) fn was_in_vain(&self, announced: u64) -> bool {
        self.in_vain.load(Ordering::Relaxed) == announced
    }

    /// The picture is not older than that moment at which the counter had this value.
    pub(crate) fn has_seen(&self, announced: u64) {
        self.seen.store(announced, Ordering::Relaxed);
    }
}
