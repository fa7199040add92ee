//! What has to go when an object goes.
//!
//! Dependencies are not stored: they follow from the descriptions, of which there are thousands at most, and
//! are looked for when something is dropped.
//!
//! 1. Each thing that goes is found once, so cycles end; nothing here recurses.
//! 2. What is found comes in the order in which PostgreSQL tells of it (`findDependentObjects`): behind
//!    what it depends on. Removed it is from the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::object::{Constraint, Expression, Index, Indexed, Object, Rule, Table, UserTypeKind};
use crate::types::Oid;

/// A part of a table that can go without the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Part {
    /// A constraint, by its oid.
    Constraint(Oid),
    /// The default of a column, from 0.
    Default(u16),
    /// A column, from 0.
    Column(u16),
}

/// Something that goes with something else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Goes {
    /// A whole object.
    Object(Oid),
    /// A part of a table.
    Part(Oid, Part),
}

/// Something that depends on something that goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) what: Goes,
    /// What it depends on.
    pub(crate) on: Goes,
    /// Nobody would miss it: it is a part of what goes.
    pub(crate) is_part: bool,
}

/// The objects among which it is looked for.
pub(crate) struct Objects(BTreeMap<Oid, Arc<Object>>);

impl Objects {
    pub(crate) fn new(objects: impl IntoIterator<Item = Arc<Object>>) -> Objects {
        Objects(objects.into_iter().map(|object| (object.oid(), object)).collect())
    }

    pub(crate) fn get(&self, oid: Oid) -> Option<&Object> {
        self.0.get(&oid).map(Arc::as_ref)
    }

    pub(crate) fn table(&self, oid: Oid) -> Option<&Table> {
        match self.get(oid) {
            Some(Object::Table(table)) => Some(table),
            _ => None,
        }
    }

    pub(crate) fn constraint(&self, table: Oid, oid: Oid) -> Option<&Constraint> {
        self.table(table)?.constraints.iter().find(|constraint| constraint.oid == oid)
    }

    /// Everything that goes with `first`, but for what is named there.
    pub(crate) fn dependents_of(&self, first: &[Goes]) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        let mut seen: BTreeSet<Goes> = BTreeSet::new();
        let mut parts: BTreeSet<Goes> = BTreeSet::new();
        // What is still to be done, the next one last; true: its dependents are done.
        let mut stack: Vec<(Found, bool)> = Vec::new();
        for &what in first {
            stack.push((Found { what, on: what, is_part: true }, false));
        }
        while let Some((next, is_done)) = stack.pop() {
            if is_done {
                found.push(next);
                continue;
            }
            if next.is_part {
                parts.insert(next.what);
            }
            if !seen.insert(next.what) {
                continue;
            }
            stack.push((next, true));
            let mut below = self.dependents(next.what);
            // The last made are looked at first.
            below.sort_by_key(|(goes, _)| self.order(*goes));
            stack.extend(
                below.into_iter().map(|(what, is_part)| (Found { what, on: next.what, is_part }, false)),
            );
        }
        found.reverse();
        let of_other = |what: &Goes| match what {
            Goes::Part(table, _) if seen.contains(&Goes::Object(*table)) => true,
            Goes::Part(table, Part::Default(column)) => {
                seen.contains(&Goes::Part(*table, Part::Column(*column)))
            }
            _ => false,
        };
        found.retain(|one| !first.contains(&one.what) && !of_other(&one.what));
        found.iter_mut().for_each(|one| one.is_part = parts.contains(&one.what));
        found
    }

    /// By number; columns of one table from the last one on, and behind them from the first one on defaults
    /// and generated columns, whose expressions have numbers of their own.
    fn order(&self, goes: Goes) -> (Oid, i32) {
        let is_generated = |table: Oid, column: u16| {
            self.table(table).is_some_and(|table| table.columns[usize::from(column)].generated.is_some())
        };
        match goes {
            Goes::Object(oid) | Goes::Part(_, Part::Constraint(oid)) => (oid, 0),
            Goes::Part(table, Part::Column(column)) if !is_generated(table, column) => {
                (table, -i32::from(column))
            }
            Goes::Part(table, Part::Default(column) | Part::Column(column)) => (table, i32::from(column)),
        }
    }

    /// What refers to this, and whether it is a part of it that nobody would miss.
    fn dependents(&self, on: Goes) -> Vec<(Goes, bool)> {
        let all = || self.0.values().map(Arc::as_ref);
        match on {
            Goes::Object(oid) => {
                let array = match self.get(oid) {
                    Some(Object::Type(ty)) => Some(ty.array),
                    _ => None,
                };
                let of = |on: Oid| all().flat_map(move |object| of_object(object, on));
                of(oid).chain(array.into_iter().flat_map(of)).collect()
            }
            Goes::Part(table, Part::Constraint(oid)) => {
                // The index of a constraint goes with it, and foreign keys that lean on the index with that.
                let index = self.constraint(table, oid).and_then(|constraint| match constraint.rule {
                    Rule::PrimaryKey { index, .. } | Rule::Unique { index, .. } => Some(index),
                    _ => None,
                });
                // A view may group by a key.
                let groups = |object: &&Object| object.query().is_some_and(|query| mentions(query, oid));
                let views = all().filter(groups).map(|view| (Goes::Object(view.oid()), false));
                index.map(|index| (Goes::Object(index), true)).into_iter().chain(views).collect()
            }
            Goes::Part(table, Part::Column(column)) => {
                all().flat_map(|object| of_column(object, table, column)).collect()
            }
            Goes::Part(_, Part::Default(_)) => Vec::new(),
        }
    }
}

fn mentions(expression: &Expression, oid: Oid) -> bool {
    expression.depends.contains(&oid)
}

/// Whether an object refers to another one, or to arrays of it.
pub(super) fn refers(object: &Object, on: &Object) -> bool {
    let arrays = match on {
        Object::Type(ty) => !of_object(object, ty.array).is_empty(),
        _ => false,
    };
    arrays || !of_object(object, on.oid()).is_empty()
}

fn is_expression(index: &Index, test: impl Fn(&Expression) -> bool) -> bool {
    let in_column = |part: &super::object::IndexColumn| match &part.of {
        Indexed::Column(_) => false,
        Indexed::Expression { expression, .. } => test(expression),
    };
    index.columns.iter().any(in_column) || index.predicate.as_ref().is_some_and(test)
}

/// What of `object` refers to `on`.
fn of_object(object: &Object, on: Oid) -> Vec<(Goes, bool)> {
    let own = object.oid();
    let mut found = Vec::new();
    // Indexes and sequences that a column owns go with their tables.
    let is_owned = match object {
        Object::Index(_) => true,
        Object::Sequence(sequence) => sequence.owned_by.is_some(),
        _ => false,
    };
    if object.schema() == on && own != on && !is_owned {
        found.push((Goes::Object(own), false));
    }
    match object {
        Object::Schema(_) | Object::Role(_) => {}
        Object::Index(index) => {
            let of_type = |part: &super::object::IndexColumn| match part.of {
                Indexed::Expression { type_oid, .. } => type_oid == on,
                Indexed::Column(_) => false,
            };
            if index.table == on {
                found.push((Goes::Object(own), true));
            } else if is_expression(index, |text| mentions(text, on)) || index.columns.iter().any(of_type) {
                found.push((Goes::Object(own), false));
            }
        }
        Object::Sequence(sequence) => {
            if sequence.owned_by.is_some_and(|(table, _)| table == on) {
                found.push((Goes::Object(own), true));
            }
        }
        Object::View(view) => {
            let reads = mentions(&view.query, on) && own != on;
            if reads || view.columns.iter().any(|column| column.type_oid == on) {
                found.push((Goes::Object(own), false));
            }
        }
        Object::Type(ty) => {
            let uses = match &ty.kind {
                UserTypeKind::Enum(_) => false,
                UserTypeKind::Domain { base, default, checks, .. } => {
                    let mut texts = default.iter().chain(checks.iter().map(|(_, check)| check));
                    *base == on || texts.any(|text| mentions(text, on))
                }
                UserTypeKind::Composite(fields) => fields.iter().any(|field| field.1 == on),
            };
            if uses {
                found.push((Goes::Object(own), false));
            }
        }
        Object::Table(table) => of_table(table, on, &mut found),
    }
    found
}

fn of_table(table: &Table, on: Oid, found: &mut Vec<(Goes, bool)>) {
    let own = table.oid;
    if let Some(it) = &table.materialized {
        let reads = mentions(&it.query, on) && own != on;
        if reads || table.columns.iter().any(|column| column.type_oid == on) {
            found.push((Goes::Object(own), false));
        }
        return;
    }
    for (number, column) in (0..).zip(&table.columns).filter(|(_, column)| !column.dropped) {
        let in_text = |text: &Option<Expression>| text.as_ref().is_some_and(|text| mentions(text, on));
        if column.type_oid == on || in_text(&column.generated) {
            found.push((Goes::Part(own, Part::Column(number)), false));
        }
        let in_identity = column.identity.is_some_and(|identity| identity.sequence == on);
        if in_text(&column.default) || in_identity {
            found.push((Goes::Part(own, Part::Default(number)), false));
        }
    }
    for constraint in &table.constraints {
        let uses = match &constraint.rule {
            Rule::PrimaryKey { index, .. } | Rule::Unique { index, .. } => *index == on,
            Rule::Check { condition } => mentions(condition, on),
            Rule::ForeignKey { table: other, index, .. } => (*other == on && own != on) || *index == on,
        };
        if uses {
            found.push((Goes::Part(own, Part::Constraint(constraint.oid)), false));
        }
    }
}

/// What of `object` refers to a column: indexes, constraints and sequences of its table go with it; other
/// tables' foreign keys, computed columns and views are asked about.
fn of_column(object: &Object, table: Oid, column: u16) -> Vec<(Goes, bool)> {
    let mut found = Vec::new();
    let uses = |text: &Expression| text.has_column(table, column);
    match object {
        Object::Schema(_) | Object::Role(_) | Object::Type(_) => {}
        Object::Index(index) if index.table == table => {
            let is_it = |part: &super::object::IndexColumn| part.of == Indexed::Column(column);
            let named = index.columns.iter().any(is_it) || index.include.contains(&column);
            if named || is_expression(index, uses) {
                found.push((Goes::Object(index.oid), true));
            }
        }
        Object::Index(_) => {}
        Object::Sequence(sequence) => {
            if sequence.owned_by == Some((table, column)) {
                found.push((Goes::Object(sequence.oid), true));
            }
        }
        Object::View(view) => {
            if uses(&view.query) {
                found.push((Goes::Object(view.oid), false));
            }
        }
        Object::Table(other) => {
            if other.materialized.as_ref().is_some_and(|it| uses(&it.query)) {
                found.push((Goes::Object(other.oid), false));
            }
            for constraint in &other.constraints {
                let (own, others) = match &constraint.rule {
                    Rule::PrimaryKey { columns, .. } | Rule::Unique { columns, .. } => {
                        (other.oid == table && columns.contains(&column), false)
                    }
                    Rule::Check { condition } => (other.oid == table && uses(condition), false),
                    Rule::ForeignKey { columns, table: to, references, .. } => (
                        other.oid == table && columns.contains(&column),
                        *to == table && references.contains(&column),
                    ),
                };
                if own || others {
                    found.push((Goes::Part(other.oid, Part::Constraint(constraint.oid)), own));
                }
            }
            let computed =
                |of: &super::object::Column| !of.dropped && of.generated.as_ref().is_some_and(uses);
            for (number, _) in (0..).zip(&other.columns).filter(|(_, of)| other.oid == table && computed(of))
            {
                if number != column {
                    found.push((Goes::Part(table, Part::Column(number)), false));
                }
            }
        }
    }
    found
}
