//! Do secondary indexes say the same as their tables? For a pod at rest.

use liger_fabric::{Cx, Fabric};

use super::Host;
use crate::catalog::{Kind, Relation};
use crate::method::Method;
use crate::protocol::engine::HostEngine;
use crate::tables::key::Key;
use crate::tables::layout::IndexLayout;
use crate::txn::{IndexId, TxnError};

/// An entry: its key, and the primary key it leads to.
type Entry = (Key, Key);

impl<M: Method> Host<M> {
    /// Compares the indexes of this host's rows with the rows, entry by entry; returns what is wrong, in
    /// words. Indexes whose entries may live on other hosts than their rows are passed over.
    ///
    /// # Errors
    /// A conflict when a transaction holds a row.
    pub fn check_entries<F: Fabric>(&self, cx: &Cx<F>) -> Result<Vec<String>, TxnError> {
        let mut problems = Vec::new();
        for table in self.catalog.relations().iter() {
            let Kind::Table { layout, indexes } = &table.kind else { continue };
            for (index, id) in layout.indexes.iter().zip(indexes).filter(|(index, _)| index.colocated) {
                let (due, found) = self.entries(cx, table, index, *id)?;
                let name = &self.catalog.relation(id.0)?.name;
                problems.extend(difference(&due, &found).map(|what| format!("index {name}: {what}")));
            }
        }
        Ok(problems)
    }

    /// The entries that the rows ask for, and those that are there, both sorted.
    fn entries<F: Fabric>(
        &self,
        cx: &Cx<F>,
        table: &Relation,
        index: &IndexLayout,
        id: IndexId,
    ) -> Result<(Vec<Entry>, Vec<Entry>), TxnError> {
        let (mut due, mut found) = (Vec::new(), Vec::new());
        self.each_row(cx, table.id, |primary, row| due.push((index.key.key_of(row.bytes()), *primary)))?;
        self.each_row(cx, id.0, |key, row| found.push((*key, index.read_primary(row.bytes()))))?;
        due.sort_unstable();
        found.sort_unstable();
        Ok((due, found))
    }
}

/// What two sorted lists of entries differ in, if they do.
fn difference(due: &[Entry], found: &[Entry]) -> Option<String> {
    if due == found {
        return None;
    }
    let same = due.iter().zip(found).take_while(|(a, b)| a == b).count();
    let (rows, entries) = (due.len(), found.len());
    Some(format!(
        "{rows} rows, {entries} entries; the first that differ: due {:?}, found {:?}",
        due.get(same),
        found.get(same)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_foreign_entries_are_told() {
        let entry = |n: i32| (Key::build().i32(n).finish(), Key::build().i32(100 + n).finish());
        let due: Vec<Entry> = (0..5).map(entry).collect();
        assert_eq!(difference(&due, &due), None);
        let told = difference(&due, &due[..4]).expect("one is missing");
        assert!(told.starts_with("5 rows, 4 entries"), "{told}");
        let mut other = due.clone();
        other[2].1 = other[3].1;
        assert!(difference(&due, &other).is_some());
    }
}
