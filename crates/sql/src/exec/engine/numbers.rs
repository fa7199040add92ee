//! Numbers of sequences: in transactions of their own, but for sequences that nobody else can see.
use super::EngineStore;
use crate::error::Result;
use crate::exec::store::lost;
use crate::storage::private::is_private;
use crate::storage::sequence;
use crate::types::Oid;

impl EngineStore {
    /// The next number.
    pub(super) fn next_number(&self, oid: Oid) -> Result<i64> {
        if is_private(oid) {
            return self.next_own_value(oid);
        }
        // Others cannot see a sequence that this transaction made, nor read the catalog while it is changed.
        let own = self.step(|tx, working, _| {
            if !working.is_changed() {
                return Ok(None);
            }
            let catalog = working.catalog().clone();
            let sequence = catalog.sequence(oid).ok_or_else(|| lost(oid))?;
            Ok(sequence::take(tx, &catalog, sequence, 1)?.take())
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
        let own = self.step(|tx, working, _| {
            let catalog = working.catalog().clone();
            catalog.sequence(oid).ok_or_else(|| lost(oid))?;
            if working.is_changed() { sequence::state(tx, &catalog, oid).map(Some) } else { Ok(None) }
        })?;
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
        let own = self.step(|tx, working, _| {
            if working.is_changed() {
                let catalog = working.catalog().clone();
                sequence::set(tx, &catalog, oid, state)?;
            }
            Ok(working.is_changed())
        })?;
        self.host.catalog.sequences().forget(oid);
        if !own {
            self.host.slots.aside(move |r| sequence::set(r.tx, r.catalog.catalog(), oid, state))?;
        }
        Ok(())
    }
}
