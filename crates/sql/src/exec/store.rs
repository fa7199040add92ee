//! What execution needs of catalog and storage: one narrow trait, so that statements run the same over the
//! engine's tables and over plain maps in memory.
//!
//! 1. All calls of a statement happen in the session's transaction; a conflict with another is 40001.
//! 2. A scan may return more rows than its bounds ask for, never fewer: the caller checks its predicates
//!    again. It returns them in the index's order where [`Store::ordered`] says so.
//! 3. The catalog's calls see what this transaction has changed.
//! 4. A scan's state is its cursor's: however many are open, each goes on where it is.
use std::sync::Arc;

use liger_engine::{Key, MAX_KEY_WORDS};

use super::SqlHost;
use crate::catalog::object::{Index, Object, Table};
use crate::catalog::statistics::TableStatistics;
use crate::catalog::view::CatalogView;
use crate::error::{Result, SqlError, SqlState};
use crate::observe::Observed;
use crate::progress::{Count, StatementProgress};
use crate::storage::access::Traffic;
use crate::storage::ahead::Coming;
use crate::storage::census::TableCensus;
use crate::storage::notices::Notice;
use crate::storage::scan::Scan;
use crate::storage::table::RowChange;
use crate::types::Oid;
use crate::types::value::Value;

/// Names a row of a table for the transaction that has read it.
pub type RowKey = Key;

/// A row's name as a value, which goes with the row to those who change or lock it.
pub(super) fn name_of(key: &RowKey) -> Value {
    Value::Bytea(key.words().iter().flat_map(|word| word.to_be_bytes()).collect())
}

/// The row that a value names, if it is a name.
pub(super) fn named(value: &Value) -> Option<RowKey> {
    let Value::Bytea(bytes) = value else { return None };
    let mut words = [0; MAX_KEY_WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_be_bytes(bytes.try_into().expect("chunks of 8"));
    }
    Some(Key::from_words(&words[..bytes.len() / 8]))
}

/// One side of a range.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The value of the first column after those that are equal.
    pub value: Value,
    /// Whether the value itself is within.
    pub inclusive: bool,
}

/// Which rows a scan asks for.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// The index; `None`: all rows of the table, in any order.
    pub index: Option<Arc<Index>>,
    /// Values of its first columns.
    pub equal: Vec<Value>,
    /// From there.
    pub low: Option<Edge>,
    /// To there.
    pub high: Option<Edge>,
    /// Backwards.
    pub reverse: bool,
    /// The columns that are wanted: others may be NULL in what is found. `None`: all.
    pub columns: Option<Arc<[bool]>>,
    /// Rows of this host's places are enough, if it has some.
    pub own: bool,
}

/// A row as a scan finds it; NULL in columns that were not asked for.
pub type Found = crate::storage::table::Row;

/// A scan between two calls. A new one stands before the first row; it is good for one statement.
#[derive(Default)]
pub struct Cursor {
    /// It has given all rows.
    pub done: bool,
    /// How the store goes on, behind the first row.
    pub(super) suspended: Option<Suspended>,
}

impl Cursor {
    /// Takes back the values of a row that was found: another one gets their place.
    pub(super) fn reuse(&mut self, values: Vec<Value>) {
        if let Some(Suspended::Scan(scan)) = &mut self.suspended {
            scan.reuse(values);
        }
    }
}

/// What a store needs to go on with a scan.
pub(super) enum Suspended {
    /// The last row that was given.
    Behind(RowKey),
    /// The scan of the tables below.
    Scan(Box<Scan>),
}

/// What rows are read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reading, as the level of the transaction has it.
    Read,
    /// Reading what has to stay so, whatever the level: a constraint depends on it.
    Hold,
    /// They will be changed, or FOR UPDATE says so.
    Change,
    /// Looking at those that nobody else is changing, without holding them: SKIP LOCKED takes some of them.
    Free,
}

/// How a transaction is kept apart from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IsolationLevel {
    /// SERIALIZABLE.
    #[default]
    Serializable,
    /// REPEATABLE READ.
    RepeatableRead,
    /// READ COMMITTED, and READ UNCOMMITTED.
    ReadCommitted,
}

impl IsolationLevel {
    /// As settings say it.
    pub fn name(self) -> &'static str {
        match self {
            IsolationLevel::Serializable => "serializable",
            IsolationLevel::RepeatableRead => "repeatable read",
            IsolationLevel::ReadCommitted => "read committed",
        }
    }

    /// The level that a setting names.
    pub(crate) fn named(name: &str) -> Option<IsolationLevel> {
        match name {
            "serializable" => Some(IsolationLevel::Serializable),
            "repeatable read" => Some(IsolationLevel::RepeatableRead),
            "read committed" | "read uncommitted" => Some(IsolationLevel::ReadCommitted),
            _ => None,
        }
    }
}

/// A point of the transaction to return to.
pub type Mark = usize;

/// The rows of tables and the numbers of sequences, as the session's transaction sees them.
pub trait Rows {
    /// Whether something has been asked of rows in this transaction.
    fn has_rows_at_hand(&self) -> bool {
        true
    }

    /// The next rows of the range, at most `limit`. What is not asked for is not locked.
    fn scan(
        &self,
        table: &Arc<Table>,
        range: &Range,
        purpose: Purpose,
        cursor: &mut Cursor,
        limit: usize,
    ) -> Result<Vec<Found>>;

    /// Looks at these columns of a row without holding it; `None` if it is gone or somebody is changing it.
    fn look_at(&self, table: &Arc<Table>, key: &RowKey, columns: &[bool]) -> Result<Option<Found>>;

    /// Locks a row that was looked at, as it is now; `None` if it is gone or somebody else holds it.
    fn take_if_free(&self, _table: &Arc<Table>, row: &Found) -> Result<Option<Found>> {
        Ok(Some(row.clone()))
    }

    /// Whether rows of the range that are to be changed are read first as others are, and locked when they
    /// are known to be wanted ([`Rows::lock_found`]); else they are locked as they are read. `waits`: for who
    /// holds them.
    fn locks_found(&self, _table: &Arc<Table>, _range: &Range, _waits: bool) -> Result<bool> {
        Ok(false)
    }

    /// Locks such a row, as it is now; `None` if it is gone.
    fn lock_found(&self, _table: &Arc<Table>, row: &Found, _waits: bool) -> Result<Option<Found>> {
        Ok(Some(row.clone()))
    }

    /// Whether rows are with other hosts, too, so that it is worth while to say which come.
    fn is_spread(&self, _table: &Arc<Table>) -> Result<bool> {
        Ok(false)
    }

    /// Says which rows of a table come next; a hint.
    fn announce(&self, _table: &Arc<Table>, _coming: &Coming<'_>) -> Result<()> {
        Ok(())
    }

    /// Adds a row. 23505 if a unique index has its key already; of the indexes in `tolerated` that is told as
    /// `Ok(Err(the other row))`.
    fn insert(&self, table: &Arc<Table>, row: &[Value], tolerated: Tolerated) -> Result<Inserted>;

    /// Changes a row that was read in this transaction; its name now. 23505 as for `insert`.
    fn update(&self, table: &Arc<Table>, change: &RowChange<'_>) -> Result<RowKey>;

    /// Removes rows that were read in this transaction; of each: false if it is gone already.
    fn delete(&self, table: &Arc<Table>, rows: &[Found]) -> Result<Vec<bool>>;

    /// Removes all rows.
    fn truncate(&self, table: &Arc<Table>) -> Result<()>;

    /// Fills an index that was created over a table with rows. 23505 if it is unique and they are not.
    fn build(&self, table: &Arc<Table>, index: &Arc<Index>) -> Result<()>;

    /// Writes all rows of a table anew, each as `change` makes it; of columns that `old` has not it may have
    /// the values or not.
    fn rewrite(
        &self,
        old: &Arc<Table>,
        new: &Arc<Table>,
        change: &mut dyn FnMut(Vec<Value>) -> Result<Vec<Value>>,
    ) -> Result<()>;

    /// The next number of a sequence.
    fn next_value(&self, sequence: Oid) -> Result<i64>;

    /// The last number of a sequence that this host knows of, and whether it has been given.
    fn sequence_state(&self, sequence: Oid) -> Result<(i64, bool)>;

    /// Sets a sequence; `called`: the next number is the one after it.
    fn set_value(&self, sequence: Oid, value: i64, called: bool) -> Result<()>;

    /// From here on the numbers of a sequence go with this transaction and its savepoints, and back with
    /// them: it begins anew with `first`, or goes on where it is.
    fn begin_numbers(&self, sequence: Oid, first: Option<i64>) -> Result<()>;

    /// How many rows of a table this host has.
    fn census(&self, _table: Oid) -> Result<TableCensus> {
        Ok(TableCensus::default())
    }
}

/// The host on which the session is, as far as statements see it; all of it may be missing.
pub trait SessionHost {
    /// What is known of this host; nothing without one.
    fn observed(&self) -> Option<&Observed> {
        None
    }

    /// The statement waits for something that is no row: others may have its worker meanwhile.
    fn rest(&self) {}

    /// The statement is at a point where others may have its worker, if they have waited for one for a while;
    /// whether anybody waits.
    fn lend(&self) -> bool {
        false
    }

    /// The host, for what is of all its sessions; nothing without one.
    fn host(&self) -> Option<&Arc<SqlHost>> {
        None
    }

    /// What this transaction's worker has done to shared memory.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// Leaves notifications for all who listen when this transaction commits; whether there is anybody.
    fn notify(&self, _notices: &[Notice]) -> Result<bool> {
        Ok(false)
    }
}

/// Transactions that read what has committed when they begin, as of one moment (a snapshot): they lock
/// nothing, and can change nothing but the session's own rows. A store that has none goes on as it is.
pub trait Snapshots {
    /// At which level transactions are that ask for none.
    fn usual_isolation(&self) -> IsolationLevel {
        IsolationLevel::default()
    }

    /// At which level the transaction is kept apart from others.
    fn isolation(&self) -> IsolationLevel {
        IsolationLevel::Serializable
    }

    /// Below SERIALIZABLE: what the statement reads from here on is as of now.
    fn begin_reading(&self) -> Result<()> {
        Ok(())
    }

    /// There, in a statement that reads little: it locks what it reads and does not wait, and gives it back
    /// unless it is all of its transaction. False if that is not possible.
    fn read_with_locks(&self, _is_alone: bool) -> Result<bool> {
        Ok(false)
    }

    /// The transaction, if it has done nothing yet, reads a snapshot to its end.
    fn read_snapshot(&self) -> Result<()> {
        Ok(())
    }

    /// Whether it does.
    fn reads_snapshot(&self) -> bool {
        false
    }

    /// The name by which other sessions can read the same snapshot, if it does.
    fn export_snapshot(&self) -> Result<Option<String>> {
        Ok(None)
    }

    /// The transaction, which has done nothing yet, reads the snapshot of this name. 22023 if that is no
    /// name, 55000 if nobody reads it any more, or the catalog has changed since.
    fn import_snapshot(&self, name: &str) -> Result<()> {
        let message = format!("invalid snapshot identifier: \"{name}\"");
        Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
    }
}

/// All of it: a transaction, and the definitions that it changes.
pub trait Store: CatalogView + Rows + SessionHost + Snapshots {
    /// Keeps what has been found out of a table's rows, with this transaction.
    fn keep_statistics(&self, table: Oid, found: TableStatistics) -> Result<()>;

    /// Counts changes of statistics as this session sees them: plans made at another number may be worse
    /// than new ones.
    fn statistics_version(&self) -> u64;

    /// Uses these relations from here on, waiting for those who change them; true if the catalog is newer
    /// than before, and what was made of it has to be made again.
    fn hold(&self, _relations: &[Oid]) -> Result<bool> {
        Ok(false)
    }

    /// Has these relations for itself to the end of the transaction, waiting for those who use them unless it
    /// is told not to.
    fn lock(&self, _relations: &[Oid], _nowait: bool) -> Result<()> {
        Ok(())
    }

    /// A number for a new object; `near`: what it will be in or belong to, a schema or a table.
    fn new_oid(&self, near: Oid) -> Result<Oid>;

    /// The schema of the session's temporary objects, made if there is none and `make` says so. It is also
    /// found under the name `pg_temp`.
    fn own_schema(&self, make: bool) -> Result<Option<Oid>>;

    /// What is in that schema, and the schema itself.
    fn own_objects(&self) -> Vec<Arc<Object>>;

    /// Drops all temporary objects.
    fn discard_own(&self) -> Result<()>;

    /// Adds an object; room for its rows is made.
    fn create(&self, object: Object) -> Result<()>;

    /// Replaces the description of an object (not its rows). In columns that a table gets at its end its rows
    /// have what the description says is missing there.
    fn replace(&self, object: Object) -> Result<()>;

    /// Removes an object and its rows.
    fn remove(&self, oid: Oid) -> Result<()>;

    /// A point of this transaction.
    fn mark(&self) -> Mark;

    /// Undoes everything since the mark.
    fn undo_to(&self, mark: Mark) -> Result<()>;

    /// Begins a transaction if none is open.
    fn begin(&self) -> Result<()>;

    /// Commits; what it changed is durable as the host is configured.
    fn commit(&self) -> Result<()>;

    /// Rolls back.
    fn rollback(&self);
}

/// Which unique indexes a row may meet without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tolerated {
    /// None.
    None,
    /// Any.
    Any,
    /// This one.
    Index(Oid),
}

/// What became of an insertion.
#[derive(Clone, Debug)]
pub enum Inserted {
    /// It is there.
    Done(RowKey),
    /// A tolerated unique index has this row with its key.
    Met(Found),
}

/// Tells how many rows of a table are to be read, and how many pages they would take, as far as is known
/// without looking at them.
pub(super) fn expect_rows(view: &dyn CatalogView, progress: &StatementProgress, table: Oid) {
    let rows = view.present(table, false).map_or(0.0, |present| present.rows);
    let known = view.statistics(table).filter(|known| known.rows > 0.0);
    progress.set(Count::Expected, rows as u64);
    progress.set(Count::Pages, known.map_or(0.0, |known| (known.pages * rows / known.rows).ceil()) as u64);
}

/// The error of an object that should be there.
pub(crate) fn lost(oid: Oid) -> SqlError {
    SqlError::new(crate::error::SqlState::INTERNAL_ERROR, format!("object {oid} is not in the catalog"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is copied by itself allocates nothing: a name is allocated where it becomes a value.
    fn is_copied<T: Copy>(_: &T) {}

    #[test]
    fn a_name_is_a_value_only_where_it_goes_with_a_row() {
        for width in 1..=MAX_KEY_WORDS {
            let words: Vec<u64> = (0..width as u64).map(|n| (n << 60) | (7 * n)).collect();
            let key: RowKey = Key::from_words(&words);
            is_copied(&key);
            assert_eq!(named(&name_of(&key)), Some(key));
        }
        assert_eq!(named(&Value::Null), None);
    }
}
