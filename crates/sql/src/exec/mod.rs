//! Running statements: sessions, plans, changes of rows and of the catalog.

mod advisory;
mod aggregate;
mod ahead;
mod background;
mod bare;
mod change;
mod computed;
mod constraint;
mod copy;
mod define;
mod distinct;
mod engine;
mod eval;
mod hash_join;
mod hashed;
mod join;
mod kept;
mod lookup;
mod measure;
pub mod memory;
mod notify;
mod own;
mod pooled;
pub(crate) mod privilege;
mod query;
mod reg;
mod rows;
mod seed;
mod session;
mod set_operation;
mod signal;
mod sleep;
mod spill;
pub mod store;
mod subquery;
mod system;
pub(crate) mod system_tables;
mod table;
mod window;

pub use engine::SqlHost;
pub use pooled::EngineDatabase;
pub use session::LocalSession;
pub use store::IsolationLevel;
pub use system::Surroundings;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::error::Result;
use crate::progress::Telling;
use crate::session::Interrupt;
use crate::tree::{Cte, Expr};
use crate::types::context::EvalContext;
use crate::types::value::Value;
use spill::{Space, TupleStore};
use store::Store;
use table::BATCH_FIRST;

/// Values of a row.
pub(crate) type Row = Vec<Value>;
/// Takes a row; false: no more are wanted.
pub(crate) type Emit<'e> = &'e mut dyn FnMut(Row) -> Result<bool>;

/// The rows that an expression may look at: its level's and those around.
#[derive(Clone, Copy)]
pub(crate) struct Env<'e> {
    pub(crate) row: &'e [Value],
    pub(crate) outer: Option<&'e Env<'e>>,
}

impl Env<'static> {
    pub(crate) const EMPTY: Env<'static> = Env { row: &[], outer: None };
}

/// Checks of foreign keys and deferrable keys that wait: for the statement's end, or for the transaction's.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// The table with the constraint.
    pub(crate) table: u32,
    pub(crate) constraint: u32,
    /// The row to check: of the table itself (`child`), or a row that went from the table it refers to.
    pub(crate) child: bool,
    pub(crate) row: Row,
    /// What became of a row that others refer to; `None`: it was deleted.
    pub(crate) new: Option<Row>,
}

/// One execution of a plan.
pub(crate) struct Exec<'p> {
    pub(crate) store: &'p dyn Store,
    pub(crate) ctx: EvalContext<'p>,
    pub(crate) params: &'p [Value],
    pub(crate) interrupt: &'p Interrupt,
    pub(crate) search_path: &'p [String],
    caches: RefCell<Vec<kept::Kept>>,
    /// Lists that IN and ANY search, by their addresses in the plan.
    searched: RefCell<BTreeMap<usize, subquery::Searched>>,
    cte_rows: RefCell<Vec<Option<kept::Rows>>>,
    ctes: RefCell<Vec<Option<&'p Cte>>>,
    case: RefCell<Vec<Value>>,
    sets: RefCell<Vec<Value>>,
    pub(crate) waiting: RefCell<Vec<Waiting>>,
    /// How many rows a scan that begins now asks for first: no more than its query is known to need.
    first_batch: Cell<usize>,
    /// What runs now may be run again: in a query within an expression, for each row of a join.
    repeats: Cell<bool>,
    /// What it has changed itself.
    own: own::OwnChanges,
    /// How deep actions of foreign keys call one another.
    depth: Cell<usize>,
    looked_at: constraint::LookedAt,
    /// Functions called and conditions checked.
    calls: Cell<u64>,
    /// It tells how far it is, if it changes rows.
    telling: OnceCell<Telling<'p>>,
    /// What the nodes do is charged to them.
    pub(crate) meter: Option<Rc<measure::Meter>>,
}

impl<'p> Exec<'p> {
    pub(crate) fn new(
        store: &'p dyn Store,
        ctx: EvalContext<'p>,
        params: &'p [Value],
        interrupt: &'p Interrupt,
        search_path: &'p [String],
        sizes: (usize, usize),
    ) -> Exec<'p> {
        Exec {
            store,
            ctx,
            params,
            interrupt,
            search_path,
            caches: RefCell::new(vec![kept::Kept::default(); sizes.0]),
            searched: RefCell::default(),
            cte_rows: RefCell::new(vec![None; sizes.1]),
            ctes: RefCell::new(vec![None; sizes.1]),
            case: RefCell::default(),
            sets: RefCell::default(),
            waiting: RefCell::default(),
            first_batch: Cell::new(BATCH_FIRST),
            repeats: Cell::new(false),
            own: own::OwnChanges::default(),
            depth: Cell::new(0),
            looked_at: constraint::LookedAt::default(),
            calls: Cell::new(0),
            telling: OnceCell::new(),
            meter: None,
        }
    }

    /// At every row of every loop: learns that the statement shall end, and lets others have its worker.
    #[inline]
    fn yield_point(&self) -> Result<()> {
        self.calls.set(self.calls.get() + 1);
        self.store.lend();
        self.interrupt.check()
    }

    /// Whether a condition is true (NULL is not). Every row of every loop passes here.
    pub(crate) fn holds(&self, condition: Option<&'p Expr>, env: &Env<'_>) -> Result<bool> {
        self.yield_point()?;
        match condition {
            None => Ok(true),
            Some(condition) => {
                let holds = matches!(self.eval(condition, env)?, Value::Bool(true));
                if !holds && let Some(meter) = &self.meter {
                    meter.removed();
                }
                Ok(holds)
            }
        }
    }

    /// Microseconds, where they are measured.
    pub(crate) fn clock(&self, meter: &measure::Meter) -> i64 {
        if meter.timed { self.ctx.system.clock_us() } else { 0 }
    }

    /// Runs what may be run again.
    fn repeating<T>(&self, run: impl FnOnce() -> T) -> T {
        let before = self.repeats.replace(true);
        let made = run();
        self.repeats.set(before);
        made
    }

    /// What a sort, or rows that are kept as they are, may take in memory.
    pub(crate) fn space(&self) -> Space {
        Space::of(&self.ctx)
    }

    /// What a hash table may take.
    fn hash_space(&self) -> Space {
        Space { bytes: self.ctx.settings.hash_mem(), files: self.ctx.system.temporary_files() }
    }

    /// An empty place for rows that are kept.
    fn kept_rows(&self) -> TupleStore {
        TupleStore::new(self.space())
    }

    /// Notes how a part has sorted or hashed, where that is measured.
    fn note_use(&self, part: usize, note: impl FnOnce() -> measure::Note) {
        if let Some(meter) = &self.meter {
            meter.note(part, note());
        }
    }

    /// Counts a row of a part of a query, where that is measured.
    pub(crate) fn count(&self, query: &crate::tree::Query, part: usize) {
        if let Some(meter) = &self.meter {
            meter.count(measure::address(query) + part);
        }
    }
}

impl Drop for Exec<'_> {
    fn drop(&mut self) {
        if let Some(observed) = self.store.observed() {
            observed.called(self.calls.get());
        }
    }
}
