//! BEGIN, COMMIT, ROLLBACK, savepoints and SET TRANSACTION; what is put off to the commit.
//!
//! 1. A savepoint remembers where everything was that a statement can change: the store, the list of
//!    waiting checks, settings with the role among them, SET CONSTRAINTS, cursors, locks, what will be
//!    told to others. ROLLBACK TO takes all of it back.
//! 2. Every check that waits is made before the commit, or becomes due by SET CONSTRAINTS .. IMMEDIATE.
use std::collections::BTreeMap;

use super::run::warning;
use crate::catalog::object::{Constraint, Object};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::advisory::Counts;
use crate::exec::notify::Point;
use crate::exec::session::LocalSession;
use crate::exec::session::settings;
use crate::exec::store::{IsolationLevel, Mark, Store};
use crate::exec::{Exec, Waiting};
use crate::missing;
use crate::parse::ast::{Ident, Path, Transaction, TransactionMode};
use crate::session::TransactionState;
use crate::types::Oid;

/// A savepoint: its name, where it is, and what was set then.
pub(crate) struct Savepoint {
    pub(crate) name: String,
    pub(crate) mark: Mark,
    pub(crate) waiting: usize,
    /// The checks that waited, where SET CONSTRAINTS .. IMMEDIATE has made some of them since.
    pub(crate) were_waiting: Option<Vec<Waiting>>,
    pub(crate) constraints: Constraints,
    pub(crate) settings: settings::Point,
    /// Advisory locks of the transaction.
    pub(crate) locks: Counts,
    /// What it will tell others.
    pub(crate) told: Point,
}

/// What SET CONSTRAINTS has said: of all, and by oid; which of them are checked at the commit.
#[derive(Clone, Default)]
pub(crate) struct Constraints {
    pub(crate) all: Option<bool>,
    pub(crate) own: BTreeMap<Oid, bool>,
}

impl Constraints {
    /// Whether a constraint that can be put off is.
    fn defer(&self, constraint: &Constraint) -> bool {
        self.own.get(&constraint.oid).copied().or(self.all).unwrap_or(constraint.deferred)
    }
}

impl<S: Store> LocalSession<S> {
    pub(crate) fn is_deferred(&self, constraint: &Constraint) -> bool {
        if !constraint.deferrable {
            return false;
        }
        self.constraints.defer(constraint)
    }

    /// Checks what was put off to the commit.
    pub(crate) fn check_waiting(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        self.check_some(waiting, &|_| false).map(|_| ())
    }

    fn check_some(
        &mut self,
        waiting: Vec<Waiting>,
        deferred: &dyn Fn(&Constraint) -> bool,
    ) -> Result<Vec<Waiting>> {
        self.with_context(|ctx, path| {
            let exec = Exec::new(&self.store, ctx, &[], &self.start.interrupt, path, (0, 0));
            *exec.waiting.borrow_mut() = waiting;
            exec.check_constraints(deferred)
        })
    }

    pub(super) fn set_constraints(&mut self, names: &[Path], deferred: bool) -> Result<()> {
        if self.state == TransactionState::Idle {
            let message = "SET CONSTRAINTS can only be used in transaction blocks";
            self.tell(warning(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
            // The names are looked at, and what was said ends with the statement.
            let before = self.constraints.clone();
            let said = self.say_constraints(names, deferred);
            self.constraints = before;
            return said;
        }
        self.say_constraints(names, deferred)
    }

    /// All constraints of a name, and whether they may be deferred: of a schema, or of the first one of the
    /// search path that has any.
    fn constraints_named(&self, path: &Path) -> Result<Vec<(Oid, bool)>> {
        let schemas = match path.schema() {
            None => self.with_binder(|binder| Ok(binder.schemas()))?,
            Some(name) => vec![self.store.schema(name).ok_or_else(|| {
                SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
            })?],
        };
        let objects = self.store.objects();
        let within = |schema: Oid| -> Vec<(Oid, bool)> {
            let tables = objects.iter().filter_map(|object| match &**object {
                Object::Table(table) if table.schema == schema => Some(table),
                _ => None,
            });
            let all = tables.flat_map(|table| &table.constraints);
            let named = all.filter(|constraint| constraint.name == path.last());
            named.map(|constraint| (constraint.oid, constraint.deferrable)).collect()
        };
        schemas.into_iter().map(within).find(|found| !found.is_empty()).ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("constraint \"{}\" does not exist", path.last()),
            )
        })
    }

    fn say_constraints(&mut self, names: &[Path], deferred: bool) -> Result<()> {
        if names.is_empty() {
            self.constraints = Constraints { all: Some(deferred), own: BTreeMap::new() };
        }
        for path in names {
            for (oid, deferrable) in self.constraints_named(path)? {
                if deferred && !deferrable {
                    let message = format!("constraint \"{}\" is not deferrable", path.last());
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
                if deferrable {
                    self.constraints.own.insert(oid, deferred);
                }
            }
        }
        if !deferred {
            if let Some(savepoint) = self.savepoints.last_mut().filter(|one| one.were_waiting.is_none()) {
                savepoint.were_waiting = Some(self.waiting[..savepoint.waiting].to_vec());
            }
            let waiting = std::mem::take(&mut self.waiting);
            let constraints = self.constraints.clone();
            let still = move |constraint: &Constraint| constraint.deferrable && constraints.defer(constraint);
            self.waiting = self.check_some(waiting, &still)?;
        }
        Ok(())
    }

    pub(super) fn transaction(&mut self, transaction: &Transaction) -> Result<&'static str> {
        let block = self.state != TransactionState::Idle;
        match transaction {
            Transaction::Begin { start, modes } => {
                if block {
                    self.tell(warning(
                        SqlState::ACTIVE_SQL_TRANSACTION,
                        "there is already a transaction in progress",
                    ));
                } else {
                    self.ensure_open()?;
                    self.state = TransactionState::Active;
                    self.set_modes(modes, false)?;
                }
                Ok(if *start { "START TRANSACTION" } else { "BEGIN" })
            }
            Transaction::Commit { chain } | Transaction::Rollback { chain } => {
                let commit = matches!(transaction, Transaction::Commit { .. });
                if !block {
                    let message = "there is no transaction in progress";
                    if *chain {
                        let words = if commit { "COMMIT" } else { "ROLLBACK" };
                        let message = format!("{words} AND CHAIN can only be used in transaction blocks");
                        return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
                    }
                    self.tell(warning(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
                }
                let works = commit && self.state != TransactionState::Failed;
                let modes = chain.then(|| self.modes());
                self.end(works)?;
                if let Some(modes) = modes {
                    self.ensure_open()?;
                    self.state = TransactionState::Active;
                    let mut variables = self.shared.variables.borrow_mut();
                    for (name, value) in modes {
                        variables.set(name, &value, true)?;
                    }
                }
                Ok(if works { "COMMIT" } else { "ROLLBACK" })
            }
            Transaction::Savepoint(name) => {
                self.require_block(block, "SAVEPOINT")?;
                let made = Savepoint {
                    name: name.text.clone(),
                    mark: self.store.mark(),
                    waiting: self.waiting.len(),
                    were_waiting: None,
                    constraints: self.constraints.clone(),
                    settings: self.shared.variables.borrow().point(),
                    locks: self.shared.advisory.of_transaction(),
                    told: self.shared.notify.point(),
                };
                self.savepoints.push(made);
                Ok("SAVEPOINT")
            }
            Transaction::Release(name) => {
                self.require_block(block, "RELEASE SAVEPOINT")?;
                let at = self.savepoint(name)?;
                self.release(at);
                Ok("RELEASE")
            }
            Transaction::RollbackTo(name) => {
                self.require_block(block, "ROLLBACK TO SAVEPOINT")?;
                let at = self.savepoint(name)?;
                self.roll_back_to(at)?;
                Ok("ROLLBACK")
            }
            Transaction::Prepared(name) => Err(SqlError::unsupported(name, missing::PREPARED)),
        }
    }

    /// Takes back what happened behind a savepoint, which stays.
    fn roll_back_to(&mut self, at: usize) -> Result<()> {
        self.store.undo_to(self.savepoints[at].mark)?;
        let were_waiting = self.savepoints[at..].iter_mut().find_map(|one| one.were_waiting.take());
        self.waiting = were_waiting.unwrap_or_else(|| std::mem::take(&mut self.waiting));
        self.savepoints.truncate(at + 1);
        let savepoint = &self.savepoints[at];
        self.waiting.truncate(savepoint.waiting);
        self.constraints = savepoint.constraints.clone();
        self.shared.variables.borrow_mut().back_to(&savepoint.settings);
        self.shared.advisory.end_transaction(Some(&savepoint.locks));
        self.shared.notify.back_to(savepoint.told);
        self.portals.retain(|_, portal| portal.depth <= at);
        self.state = TransactionState::Active;
        Ok(())
    }

    /// Forgets a savepoint and those behind it; what happened since belongs to the one before.
    fn release(&mut self, at: usize) {
        let were_waiting = self.savepoints[at..].iter_mut().find_map(|one| one.were_waiting.take());
        self.shared.variables.borrow_mut().release_to(&self.savepoints[at].settings);
        self.savepoints.truncate(at);
        if let (Some(before), Some(mut were)) = (self.savepoints.last_mut(), were_waiting)
            && before.were_waiting.is_none()
        {
            were.truncate(before.waiting);
            before.were_waiting = Some(were);
        }
        self.portals.values_mut().for_each(|portal| portal.depth = portal.depth.min(at));
    }

    /// The modes of the transaction, for one that is chained to it.
    fn modes(&self) -> [(&'static str, String); 3] {
        let variables = self.shared.variables.borrow();
        ["transaction_isolation", "transaction_read_only", "transaction_deferrable"]
            .map(|name| (name, variables.get(name).expect("every session has them").to_string()))
    }

    /// 25001 where it is too late for a mode of the transaction.
    pub(super) fn check_mode(&self, name: &str, value: &str) -> Result<()> {
        let variables = self.shared.variables.borrow();
        let late = self.has_asked || self.store.reads_snapshot();
        let nested = !self.savepoints.is_empty();
        // To say once more what holds comes too late for this one mode only.
        let same = name != "transaction_deferrable" && variables.get(name).is_ok_and(|now| now == value);
        if !self.open || same {
            return Ok(());
        }
        let message = match (name, value) {
            ("transaction_read_only", "off") => {
                let outer = self.savepoints.last().is_some_and(|one| one.settings.is_read_only());
                match () {
                    () if outer => "cannot set transaction read-write mode inside a read-only transaction",
                    () if late => "transaction read-write mode must be set before any query",
                    () => return Ok(()),
                }
            }
            ("transaction_isolation", _) if late => {
                "SET TRANSACTION ISOLATION LEVEL must be called before any query"
            }
            ("transaction_isolation", _) if nested => {
                "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction"
            }
            ("transaction_deferrable", _) if nested => {
                "SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction"
            }
            ("transaction_deferrable", _) if late => {
                "SET TRANSACTION [NOT] DEFERRABLE must be called before any query"
            }
            _ => return Ok(()),
        };
        Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message))
    }

    fn require_block(&self, block: bool, what: &str) -> Result<()> {
        if block {
            return Ok(());
        }
        let message = format!("{what} can only be used in transaction blocks");
        Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message))
    }

    fn savepoint(&self, name: &Ident) -> Result<usize> {
        self.savepoints.iter().rposition(|savepoint| savepoint.name == name.text).ok_or_else(|| {
            let message = format!("savepoint \"{}\" does not exist", name.text);
            SqlError::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, message)
        })
    }

    /// SET TRANSACTION SNAPSHOT.
    pub(super) fn set_snapshot(&mut self, name: &str) -> Result<()> {
        if self.state == TransactionState::Idle {
            let message = "SET TRANSACTION can only be used in transaction blocks";
            self.tell(warning(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
            return Ok(());
        }
        if self.has_asked || !self.savepoints.is_empty() || self.store.reads_snapshot() {
            let message = "SET TRANSACTION SNAPSHOT must be called before any query";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        if !self.shared.variables.borrow().is_read_only() {
            let what = "SET TRANSACTION SNAPSHOT in a transaction that may write";
            return Err(SqlError::unsupported(what, "Begin it with READ ONLY."));
        }
        if self.shared.variables.borrow().level() == IsolationLevel::ReadCommitted {
            let what = "SET TRANSACTION SNAPSHOT at READ COMMITTED";
            return Err(SqlError::unsupported(what, "Begin it at REPEATABLE READ or SERIALIZABLE."));
        }
        self.store.import_snapshot(name)
    }

    pub(super) fn set_modes(&mut self, modes: &[TransactionMode], session: bool) -> Result<()> {
        let prefix = if session { "default_transaction" } else { "transaction" };
        let on = |value: bool| if value { "on" } else { "off" };
        for mode in modes {
            let (name, value) = match mode {
                TransactionMode::Isolation(level) => ("isolation", *level),
                TransactionMode::ReadOnly(value) => ("read_only", on(*value)),
                TransactionMode::Deferrable(value) => ("deferrable", on(*value)),
            };
            let name = format!("{prefix}_{name}");
            self.check_mode(&name, value)?;
            self.shared.variables.borrow_mut().set(&name, value, !session)?;
        }
        Ok(())
    }
}
