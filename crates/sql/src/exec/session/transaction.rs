//! BEGIN, COMMIT, ROLLBACK, savepoints and SET TRANSACTION; what is put off to the commit.
//!
//! 1. A savepoint remembers where the store and the list of waiting checks were; ROLLBACK TO takes both back.
//! 2. Every check that waits is made before the commit, or becomes due by SET CONSTRAINTS .. IMMEDIATE.
use super::run::warning;
use crate::catalog::object::{Constraint, Object};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::{LocalSession, Savepoint};
use crate::exec::store::Store;
use crate::exec::{Exec, Waiting};
use crate::parse::ast::{Ident, Path, Transaction, TransactionMode};
use crate::session::TransactionState;

impl<S: Store> LocalSession<S> {
    pub(crate) fn is_deferred(&self, constraint: &Constraint) -> bool {
        if !constraint.deferrable {
            return false;
        }
        let own = self.deferred.get(&constraint.oid).copied();
        own.or(self.deferred_all).unwrap_or(constraint.deferred)
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
            exec.settle_constraints(deferred)
        })
    }

    pub(super) fn set_constraints(&mut self, names: &[Path], deferred: bool) -> Result<()> {
        if names.is_empty() {
            self.deferred.clear();
            self.deferred_all = Some(deferred);
        }
        for path in names {
            let mut found = false;
            for object in self.store.objects() {
                let Object::Table(table) = &*object else { continue };
                for constraint in table.constraints.iter().filter(|constraint| constraint.name == path.last())
                {
                    if !constraint.deferrable {
                        let message = format!("constraint \"{}\" is not deferrable", path.last());
                        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                    }
                    found = true;
                    self.deferred.insert(constraint.oid, deferred);
                }
            }
            if !found {
                let message = format!("constraint \"{}\" does not exist", path.last());
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
        }
        if !deferred {
            let waiting = std::mem::take(&mut self.waiting);
            let (all, own) = (self.deferred_all, self.deferred.clone());
            let still =
                move |c: &Constraint| c.deferrable && own.get(&c.oid).copied().or(all).unwrap_or(c.deferred);
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
                self.end(works)?;
                if *chain {
                    self.ensure_open()?;
                    self.state = TransactionState::Active;
                }
                Ok(if works { "COMMIT" } else { "ROLLBACK" })
            }
            Transaction::Savepoint(name) => {
                self.require_block(block, "SAVEPOINT")?;
                let mark = self.store.mark();
                let waiting = self.waiting.len();
                let (locks, told) = (self.shared.advisory.of_transaction(), self.shared.notify.point());
                let name = name.text.clone();
                self.savepoints.push(Savepoint { name, mark, waiting, locks, told });
                Ok("SAVEPOINT")
            }
            Transaction::Release(name) => {
                self.require_block(block, "RELEASE SAVEPOINT")?;
                let at = self.savepoint(name)?;
                self.savepoints.truncate(at);
                Ok("RELEASE")
            }
            Transaction::RollbackTo(name) => {
                self.require_block(block, "ROLLBACK TO SAVEPOINT")?;
                let at = self.savepoint(name)?;
                let (mark, waiting) = (self.savepoints[at].mark, self.savepoints[at].waiting);
                self.store.undo_to(mark)?;
                self.waiting.truncate(waiting);
                self.shared.advisory.end_transaction(Some(&self.savepoints[at].locks));
                self.shared.notify.back_to(self.savepoints[at].told);
                self.savepoints.truncate(at + 1);
                self.state = TransactionState::Active;
                Ok("ROLLBACK")
            }
            Transaction::Prepared(name) => Err(SqlError::unsupported(name)),
        }
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

    pub(super) fn set_modes(&mut self, modes: &[TransactionMode], session: bool) -> Result<()> {
        let prefix = if session { "default_transaction" } else { "transaction" };
        let on = |value: bool| if value { "on" } else { "off" };
        let mut variables = self.shared.variables.borrow_mut();
        for mode in modes {
            let (name, value) = match mode {
                TransactionMode::Isolation(level) => ("isolation", *level),
                TransactionMode::ReadOnly(value) => ("read_only", on(*value)),
                TransactionMode::Deferrable(value) => ("deferrable", on(*value)),
            };
            variables.set(&format!("{prefix}_{name}"), value, !session)?;
        }
        Ok(())
    }
}
