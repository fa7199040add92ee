//! What the transactions of a run do, and which access methods keep their tables.

use liger_engine::{Catalog, TableId};

use super::{BY_GROUP, ITEMS, items};
use crate::plain::PLAIN;

/// How often transactions do what, relative to the sum.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Looks a row up.
    pub get: u64,
    /// Changes a row.
    pub update: u64,
    /// Inserts a row.
    pub insert: u64,
    /// Deletes a row.
    pub delete: u64,
    /// Reads some rows from a key on.
    pub scan: u64,
    /// Changes some rows from a key on.
    pub update_range: u64,
    /// Reads some rows through the secondary index.
    pub scan_index: u64,
    /// Reads all rows from a key to the end of its partition.
    pub scan_rest: u64,
    /// Looks at some rows from a key on that nobody holds, and changes those of them that are still free.
    pub take: u64,
    /// Deletes some rows from a key on one after the other, which must be there.
    pub deliver: u64,
}

impl Mix {
    /// Everything.
    pub const ALL: Mix = Mix {
        get: 3,
        update: 4,
        insert: 2,
        delete: 2,
        scan: 2,
        update_range: 1,
        scan_index: 1,
        scan_rest: 1,
        take: 0,
        deliver: 0,
    };
    pub(crate) const NONE: Mix = Mix {
        get: 0,
        update: 0,
        insert: 0,
        delete: 0,
        scan: 0,
        update_range: 0,
        scan_index: 0,
        scan_rest: 0,
        take: 0,
        deliver: 0,
    };
    /// Rows come and go under the eyes of scanners.
    pub const GAPS: Mix = Mix { get: 1, insert: 5, delete: 5, scan: 4, scan_rest: 3, ..Mix::NONE };
    /// Points only: nothing but row locks.
    pub const POINTS: Mix = Mix { get: 3, update: 5, ..Mix::NONE };
    /// Rows come and go.
    pub const CHURN: Mix = Mix { insert: 1, delete: 1, ..Mix::NONE };
    /// Who wants a row that is taken goes on with the next.
    pub const QUEUE: Mix = Mix { get: 1, update: 1, insert: 3, delete: 2, scan: 1, take: 6, ..Mix::NONE };
    /// Ranges are read.
    pub const SCANS: Mix = Mix { get: 1, scan: 4, scan_rest: 2, ..Mix::NONE };

    /// True if rows come and go.
    pub(crate) fn churns(&self) -> bool {
        self.insert + self.delete + self.deliver > 0
    }

    /// The number of the operation that a ticket stands for.
    pub(crate) fn choose(&self, pick: &mut crate::Picker) -> usize {
        let Mix { get, update, insert, delete, scan, update_range, scan_index, .. } = *self;
        let Mix { scan_rest, take, deliver, .. } = *self;
        let weights = [get, update, insert, delete, scan, update_range, scan_index, scan_rest, take, deliver];
        let mut ticket = pick.below(weights.iter().sum());
        let passes = |weight: &u64| {
            let here = ticket < *weight;
            ticket = ticket.wrapping_sub(*weight);
            here
        };
        weights.iter().position(passes).expect("the ticket is below the sum")
    }
}

/// What is kept in plain maps: the second access method, beside rows in the same transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlainTables {
    /// Nothing.
    None,
    /// The table.
    Table,
    /// Its index.
    Index,
    /// Both.
    Both,
}

impl PlainTables {
    /// Something.
    pub(crate) fn some(pick: &mut crate::Picker) -> Self {
        [Self::Table, Self::Index, Self::Both][pick.below(3) as usize]
    }

    pub(super) fn catalog(self) -> Catalog {
        let plain = match self {
            Self::None => [].as_slice(),
            Self::Table => &[ITEMS],
            Self::Index => &[BY_GROUP.0],
            Self::Both => &[ITEMS, BY_GROUP.0],
        };
        let all = Catalog::new(&[items::schema()]).expect("a valid schema");
        let keep = |all: Catalog, table: &TableId| all.kept_by(*table, PLAIN);
        plain.iter().try_fold(all, keep).expect("both have partitions")
    }
}
