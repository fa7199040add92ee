//! The catalog that a host has, and how a transaction knows that it is current.
//!
//! Invariants:
//! 1. Every transaction reads the catalog's version first and holds that read lock to its end: no statement
//!    runs on an old catalog, and changes of the catalog are serializable with everything else.
//! 2. What is cached here was committed: a transaction that changes the catalog keeps its picture to itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use liger_engine::row::RowSession;
use liger_fabric::Fabric;

use super::first::first_objects;
use super::{Catalog, saved};
use crate::error::{Result, SqlError, SqlState};
use crate::storage::access::{Access, transact};
use crate::storage::advisory;
use crate::storage::classes::Classes;
use crate::storage::sequence::Blocks;
use crate::storage::{notices, signals};

/// The catalog of one host.
pub struct HostCatalog {
    classes: Arc<Classes>,
    cached: Mutex<Arc<Catalog>>,
    numbers: Numbers,
    sequences: Blocks,
}

/// Numbers that no other host, and no other life of this one, ever gives: hidden row numbers and numbers of
/// values outside of rows. A life's number in the upper bits, then a count: rows of one life sort in the
/// order in which they were put.
#[derive(Debug, Default)]
pub struct Numbers {
    next: AtomicU64,
}

/// Bits of a number that count within a life.
const COUNT_BITS: u32 = 40;

impl Numbers {
    /// The numbers of a life.
    pub fn from_life(life: u64) -> Numbers {
        Numbers { next: AtomicU64::new(life << COUNT_BITS) }
    }

    /// The life that the numbers are of.
    pub fn life(&self) -> u64 {
        self.next.load(Ordering::Relaxed) >> COUNT_BITS
    }

    /// The next number.
    pub fn take(&self) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        assert!(number >> COUNT_BITS != 0, "a number was asked for before the catalog was opened");
        number
    }
}

impl HostCatalog {
    /// The catalog of a host that has not looked yet.
    ///
    /// # Errors
    /// If the pod was made without the tables that SQL needs.
    pub fn new(classes: Classes) -> Result<HostCatalog> {
        if saved::OWN_SIZES.iter().any(|size| classes.table(*size).is_none()) {
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
        }
        let life = saved::take_life(tx, &self.classes)?;
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
        self.numbers.next.store(life << COUNT_BITS, Ordering::Relaxed);
    }

    /// Numbers that nobody else gives.
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Numbers of sequences that this host has taken and not given yet.
    pub fn sequences(&self) -> &Blocks {
        &self.sequences
    }

    /// The classes of the pod.
    pub fn classes(&self) -> &Arc<Classes> {
        &self.classes
    }

    /// The picture that this host has at present, current or not.
    pub fn cached(&self) -> Arc<Catalog> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The catalog as the transaction `tx` sees it: its first step.
    ///
    /// # Errors
    /// Conflicts, if somebody changes the catalog; damage.
    pub fn begin(&self, tx: &mut dyn Access) -> Result<Arc<Catalog>> {
        let cached = self.cached();
        if tx.is_left_out("catalog.read-version") && cached.version() > 0 {
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
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = loaded.clone();
        Ok(loaded)
    }
}
