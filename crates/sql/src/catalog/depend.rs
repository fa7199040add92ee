//! What has to go when an object goes.
//!
//! Dependencies are not stored: they follow from the descriptions, of which there are thousands at most, and
//! are looked for when something is dropped.

use std::collections::BTreeSet;

use super::Catalog;
use super::object::{Expression, Indexed, Object, Rule, UserTypeKind};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Oid;

/// A part of a table that can go without the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Part {
    /// A constraint, by its oid.
    Constraint(Oid),
    /// The default of a column.
    Default(u16),
    /// A column.
    Column(u16),
}

/// Something that goes with something else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Goes {
    /// A whole object.
    Object(Oid),
    /// A part of a table.
    Part(Oid, Part),
}

/// Everything that goes when the objects `first` go, these included: what refers to something before it.
///
/// # Errors
/// Without `cascade`, if something that is not a part of these objects refers to them (2BP01).
pub(super) fn closure(catalog: &Catalog, first: &[Oid], cascade: bool) -> Result<Vec<Goes>> {
    let first: Vec<Goes> = first.iter().map(|oid| Goes::Object(*oid)).collect();
    closure_from(catalog, &first, cascade)
}

/// Everything that goes with a column, the column itself not included.
pub(super) fn closure_of_column(
    catalog: &Catalog,
    table: Oid,
    column: u16,
    cascade: bool,
) -> Result<Vec<Goes>> {
    let own = Goes::Part(table, Part::Column(column));
    let mut goes = closure_from(catalog, &[own], cascade)?;
    goes.retain(|goes| *goes != own);
    Ok(goes)
}

fn closure_from(catalog: &Catalog, first: &[Goes], cascade: bool) -> Result<Vec<Goes>> {
    let mut all: BTreeSet<Goes> = first.iter().copied().collect();
    let mut order: Vec<Goes> = all.iter().copied().collect();
    let mut refused: Vec<(Goes, Goes)> = Vec::new();
    let mut at = 0;
    while at < order.len() {
        let gone = order[at];
        at += 1;
        for (goes, is_part) in dependents(catalog, gone) {
            let covered = matches!(goes, Goes::Part(table, _) if all.contains(&Goes::Object(table)));
            if covered || all.contains(&goes) {
                continue;
            }
            if !is_part && !cascade {
                refused.push((goes, gone));
                continue;
            }
            all.insert(goes);
            order.push(goes);
        }
    }
    // What was refused may have come in as a part of something else.
    refused.retain(|(goes, _)| {
        let of_table = matches!(goes, Goes::Part(table, _) if all.contains(&Goes::Object(*table)));
        !all.contains(goes) && !of_table
    });
    if refused.is_empty() {
        order.reverse();
        return Ok(order);
    }
    let what = describe(catalog, first[0]);
    let message = format!("cannot drop {what} because other objects depend on it");
    let line = |(goes, on): &(Goes, Goes)| {
        format!("{} depends on {}", describe(catalog, *goes), describe(catalog, *on))
    };
    let detail: Vec<String> = refused.iter().map(line).collect();
    Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
        .detail(detail.join("\n"))
        .hint("Use DROP ... CASCADE to drop the dependent objects too."))
}

/// What refers to this, and whether it is a part of it that nobody would miss.
fn dependents(catalog: &Catalog, on: Goes) -> Vec<(Goes, bool)> {
    match on {
        Goes::Object(oid) => catalog.objects().flat_map(|object| of_object(object, oid)).collect(),
        Goes::Part(table, Part::Constraint(oid)) => {
            // The index of a constraint goes with it, and foreign keys that lean on the index with that.
            let of_constraint = |rule: &Rule| match rule {
                Rule::PrimaryKey { index, .. } | Rule::Unique { index, .. } => Some(*index),
                _ => None,
            };
            let constraints = catalog.table(table).into_iter().flat_map(|table| &table.constraints);
            let index = constraints.filter(|c| c.oid == oid).find_map(|c| of_constraint(&c.rule));
            index.map(|index| (Goes::Object(index), true)).into_iter().collect()
        }
        Goes::Part(table, Part::Column(column)) => of_column(catalog, table, column),
        Goes::Part(_, Part::Default(_)) => Vec::new(),
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

/// What of `object` refers to `on`.
fn of_object(object: &Object, on: Oid) -> Vec<(Goes, bool)> {
    let own = object.oid();
    let mut found = Vec::new();
    if object.schema() == on && own != on {
        found.push((Goes::Object(own), false));
    }
    match object {
        Object::Schema(_) | Object::Role(_) => {}
        Object::Index(index) => {
            let in_column = |column: &super::object::IndexColumn| match &column.of {
                Indexed::Column(_) => false,
                Indexed::Expression { expression, type_oid, .. } => {
                    mentions(expression, on) || *type_oid == on
                }
            };
            if index.table == on {
                found.push((Goes::Object(own), true));
            } else if index.columns.iter().any(in_column)
                || index.predicate.as_ref().is_some_and(|predicate| mentions(predicate, on))
            {
                found.push((Goes::Object(own), false));
            }
        }
        Object::Sequence(sequence) => {
            if sequence.owned_by.is_some_and(|(table, _)| table == on) {
                found.push((Goes::Object(own), true));
            }
        }
        Object::View(view) => {
            if mentions(&view.query, on) || view.columns.iter().any(|column| column.type_oid == on) {
                found.push((Goes::Object(own), false));
            }
        }
        Object::Type(ty) => {
            let uses = match &ty.kind {
                UserTypeKind::Enum(_) => false,
                UserTypeKind::Domain { base, .. } => *base == on,
                UserTypeKind::Composite(fields) => fields.iter().any(|field| field.1 == on),
            };
            if uses {
                found.push((Goes::Object(own), false));
            }
        }
        Object::Table(table) => {
            for (number, column) in (0..).zip(&table.columns).filter(|(_, column)| !column.dropped) {
                if column.type_oid == on {
                    found.push((Goes::Part(own, Part::Column(number)), false));
                }
                let in_default = column.default.as_ref().is_some_and(|default| mentions(default, on));
                let in_identity = column.identity.is_some_and(|identity| identity.sequence == on);
                if in_default || in_identity {
                    found.push((Goes::Part(own, Part::Default(number)), false));
                }
            }
            for constraint in &table.constraints {
                let uses = match &constraint.rule {
                    Rule::PrimaryKey { index, .. } | Rule::Unique { index, .. } => *index == on,
                    Rule::Check { condition } => mentions(condition, on),
                    Rule::ForeignKey { table: other, index, .. } => {
                        (*other == on && own != on) || *index == on
                    }
                };
                if uses {
                    found.push((Goes::Part(own, Part::Constraint(constraint.oid)), false));
                }
            }
        }
    }
    found
}

/// What refers to a column: indexes and constraints of its table go with it, other tables' foreign keys and
/// views are asked about.
fn of_column(catalog: &Catalog, table: Oid, column: u16) -> Vec<(Goes, bool)> {
    let mut found = Vec::new();
    for index in catalog.indexes_of(table) {
        let is_it = |part: &super::object::IndexColumn| part.of == Indexed::Column(column);
        if index.columns.iter().any(is_it) || index.include.contains(&column) {
            found.push((Goes::Object(index.oid), true));
        }
    }
    for object in catalog.objects() {
        match &**object {
            Object::Sequence(sequence) if sequence.owned_by == Some((table, column)) => {
                found.push((Goes::Object(sequence.oid), true));
            }
            Object::Table(other) => {
                for constraint in &other.constraints {
                    let (own, others) = match &constraint.rule {
                        Rule::PrimaryKey { columns, .. } | Rule::Unique { columns, .. } => {
                            (other.oid == table && columns.contains(&column), false)
                        }
                        Rule::Check { .. } => (false, false),
                        Rule::ForeignKey { columns, table: to, references, .. } => (
                            other.oid == table && columns.contains(&column),
                            *to == table && references.contains(&column),
                        ),
                    };
                    if own || others {
                        found.push((Goes::Part(other.oid, Part::Constraint(constraint.oid)), own));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// As messages name it.
pub(super) fn describe(catalog: &Catalog, what: Goes) -> String {
    let named = |oid: Oid| match catalog.get(oid) {
        Some(object) => format!("{} {}", object.kind(), object.name()),
        None => format!("object {oid}"),
    };
    match what {
        Goes::Object(oid) => named(oid),
        Goes::Part(table, part) => {
            let of = catalog.table(table);
            match part {
                Part::Constraint(oid) => {
                    let constraints = of.into_iter().flat_map(|table| &table.constraints);
                    let name = constraints.filter(|c| c.oid == oid).map(|c| c.name.as_str()).next();
                    format!("constraint {} on {}", name.unwrap_or("?"), named(table))
                }
                Part::Default(column) | Part::Column(column) => {
                    let name = of.and_then(|table| table.columns.get(usize::from(column)));
                    let name = name.map_or("?", |column| column.name.as_str());
                    let what =
                        if matches!(part, Part::Default(_)) { "default value for column" } else { "column" };
                    format!("{what} {name} of {}", named(table))
                }
            }
        }
    }
}
