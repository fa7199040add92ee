//! Savepoints: rows, catalog and own objects as they were.
use super::EngineStore;
use crate::catalog::HostCatalog;
use crate::catalog::change::Working;
use crate::error::{Result, SqlError, SqlState};
use crate::exec::store::Mark;
use crate::session::InterruptReason;
use crate::storage::undo::Undoing;

impl EngineStore {
    /// The point where the transaction is.
    pub(super) fn save_point(&self) -> Mark {
        let slot = self.slot.borrow_mut();
        let slot = slot.as_ref().expect("savepoints are made on a worker");
        let marked = slot.call(|running| Ok((running.undo.mark(), running.catalog.keep())));
        let mut points = self.points.borrow_mut();
        let at = points.len();
        // Where the worker was taken away there is nothing to go back to.
        points.extend(marked);
        at
    }

    /// Undoes what the transaction has done since.
    pub(super) fn back_to(&self, mark: Mark) -> Result<()> {
        if self.broken.get() {
            let message = "could not serialize access due to concurrent update";
            let detail = "The transaction met a conflict; it can only be rolled back as a whole.";
            return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, message).detail(detail));
        }
        let point = self.points.borrow().get(mark).cloned();
        let Some((undo, kept)) = point else { return Err(InterruptReason::Terminate.error()) };
        let undo = |tx: &mut Undoing<'_>, working: &mut Working, _: &HostCatalog| {
            tx.undo_to(undo)?;
            working.restore(&kept);
            Ok(())
        };
        match (self.changes.get(), self.own_changed.get()) {
            // Plans stay good where only rows have changed.
            (0, false) => self.step(undo)?,
            (pods, _) => self.change(pods == 0, undo)?,
        }
        self.points.borrow_mut().truncate(mark + 1);
        Ok(())
    }
}
