//! Parts of objects that have numbers of their own: by them they are found in the catalog's tables.

use super::object::{Object, Table, UserTypeKind};
use crate::types::Oid;

/// The number of a part of an object that is given none: a default, a label, a rule.
pub(crate) fn part_oid(object: Oid, part: usize) -> Oid {
    0x8000_0000 | (object << 11) | (part as Oid & 0x7ff)
}

impl Object {
    /// The numbers of its parts: constraints, defaults, rules, checks, labels, types of rows and arrays.
    pub fn parts(&self) -> Vec<Oid> {
        let own = |part| part_oid(self.oid(), part);
        let mut parts: Vec<Oid> = self.query().map(|_| own(0)).into_iter().collect();
        let row_type = match self {
            Object::Table(Table { columns, constraints, row_type, .. }) => {
                parts.extend(constraints.iter().map(|constraint| constraint.oid));
                let has = |at: &usize| columns[*at].default.is_some() || columns[*at].generated.is_some();
                parts.extend((0..columns.len()).filter(has).map(own));
                *row_type
            }
            Object::View(view) => view.row_type,
            Object::Type(ty) => {
                let count = match &ty.kind {
                    UserTypeKind::Enum(labels) => labels.len(),
                    UserTypeKind::Domain { checks, .. } => checks.len(),
                    UserTypeKind::Composite(_) => 0,
                };
                parts.push(ty.array);
                parts.extend((0..count).map(own));
                0
            }
            _ => 0,
        };
        if row_type != 0 {
            parts.extend([row_type, row_type + 1]);
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::object::View;

    #[test]
    fn parts_have_numbers_of_their_own() {
        let view = View { oid: 20_000, row_type: 20_001, ..View::default() };
        assert_eq!(Object::View(view).parts(), [part_oid(20_000, 0), 20_001, 20_002]);
        assert!(Object::Table(Table::empty(20_003, "t", 1, 1)).parts().is_empty());
    }
}
