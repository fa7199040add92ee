//! Numbers of sequences: in transactions of their own, but for sequences that nobody else can take one from.
use super::EngineStore;
use crate::catalog::change::Working;
use crate::catalog::sequence;
use crate::error::Result;
use crate::exec::store::lost;
use crate::storage::access::Access;
use crate::storage::private::is_private;
use crate::types::Oid;

impl EngineStore {
    /// Does something with a sequence's numbers in this transaction, if they are its own; no savepoint takes
    /// it back.
    fn with_numbers<R>(
        &self,
        oid: Oid,
        work: impl FnOnce(&mut dyn Access, &Working) -> Result<R>,
    ) -> Result<Option<R>> {
        self.on_worker(|running, _| {
            let own = running.catalog.has_numbers(oid);
            own.then(|| work(&mut *running.tx, running.catalog)).transpose()
        })
    }

    /// The next number.
    pub(super) fn next_number(&self, oid: Oid) -> Result<i64> {
        if is_private(oid) {
            return self.next_own_value(oid);
        }
        let own = self.with_numbers(oid, |tx, working| {
            let sequence = working.catalog().sequence(oid).ok_or_else(|| lost(oid))?;
            sequence::take(tx, working.catalog(), sequence, 1)?.take().ok_or_else(|| lost(oid))
        })?;
        match own {
            Some(number) => Ok(number),
            None => self.host.slots.next_number(&self.host.catalog, oid),
        }
    }

    /// The last number, and whether it was given.
    pub(super) fn last_number(&self, oid: Oid) -> Result<(i64, bool)> {
        if is_private(oid) {
            let state = self.with_own_sequence(|tx, catalog| sequence::state(tx, catalog, oid))?;
            return Ok((state.last, state.called));
        }
        let own = self.with_numbers(oid, |tx, working| sequence::state(tx, working.catalog(), oid))?;
        let state = match own {
            Some(state) => state,
            None => self.host.slots.aside(move |r| sequence::state(r.tx, r.catalog.catalog(), oid))?,
        };
        let start = self.catalog().sequence(oid).map_or(0, |sequence| sequence.start);
        Ok(self.host.catalog.sequences().given(oid, state, start))
    }

    /// Says where a sequence goes on.
    pub(super) fn set_number(&self, oid: Oid, state: sequence::State) -> Result<()> {
        if is_private(oid) {
            return self.with_own_sequence(|tx, catalog| sequence::set(tx, catalog, oid, state));
        }
        let own = self.with_numbers(oid, |tx, working| sequence::set(tx, working.catalog(), oid, state))?;
        self.host.catalog.sequences().forget(oid);
        match own {
            Some(()) => Ok(()),
            None => self.host.slots.aside(move |r| sequence::set(r.tx, r.catalog.catalog(), oid, state)),
        }
    }

    /// From here on the numbers go with this transaction.
    pub(super) fn take_numbers(&self, oid: Oid, first: Option<i64>) -> Result<()> {
        self.step(|tx, working, _| {
            let catalog = working.catalog().clone();
            // What hosts have taken counts as given.
            let to = match first {
                Some(last) => sequence::State { last, called: false },
                None => sequence::state(tx, &catalog, oid)?,
            };
            working.begin_numbers(oid);
            sequence::begin_anew(tx, &catalog, oid, to)
        })?;
        self.host.catalog.sequences().forget(oid);
        Ok(())
    }
}
