//! Whether all rows of SQL objects fit together: for tests and for whoever suspects damage.
//!
//! It reads everything in one transaction, and so waits for nobody who changes something: it meets conflicts.

use super::{Catalog, Object};
use crate::error::Result;
use crate::storage::access::Access;
use crate::storage::check::{check_edges, check_table};
use crate::storage::parts::PARTS;
use crate::storage::table::Computed;

/// What is wrong, one line each: edges, rows, entries, values outside.
///
/// # Errors
/// Conflicts, and damage that ends the reading.
pub fn problems(tx: &mut dyn Access, catalog: &Catalog, computed: &dyn Computed) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for part in PARTS {
        check_edges(tx, &catalog.home(part)?, &format!("part {} of the catalog", part.object.0), &mut wrong)?;
    }
    let tables = catalog.objects().filter_map(|object| match &**object {
        Object::Table(table) => Some(table.oid),
        _ => None,
    });
    for table in tables {
        check_table(tx, &*catalog.rows(table)?, computed, &mut wrong)?;
    }
    Ok(wrong)
}
