//! Indexes and constraints as rows, and which object goes with which.

use super::deparse::Style;
use super::operator_classes::default_class;
use super::relations::{PG_ATTRDEF, PG_CLASS, PG_CONSTRAINT, PG_NAMESPACE, PG_REWRITE, collation};
use super::{Look, Maker, letter, part_oid, vector};
use crate::catalog::object::{Action, Constraint, Indexed, Object, Rule, Table, UserTypeKind};
use crate::exec::Row;
use crate::types::value::Value;
use crate::types::{Oid, Types, oid};

fn column_number(column: &Indexed) -> Value {
    Value::Int2(match column {
        Indexed::Column(column) => *column as i16 + 1,
        Indexed::Expression { .. } => 0,
    })
}

fn numbers(columns: &[u16]) -> Value {
    Value::array(oid::INT2, columns.iter().map(|column| Value::Int2(*column as i16 + 1)).collect())
}

pub(super) fn indexes(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of(
        "pg_index",
        [
            "indexrelid",
            "indrelid",
            "indnatts",
            "indnkeyatts",
            "indisunique",
            "indnullsnotdistinct",
            "indisprimary",
            "indimmediate",
            "indisclustered",
            "indisvalid",
            "indisready",
            "indislive",
            "indkey",
            "indcollation",
            "indclass",
            "indoption",
            "indexprs",
            "indpred",
        ],
    );
    let settings = crate::types::context::Settings::default();
    let ctx = crate::types::context::EvalContext::new(&settings, look.system, 0);
    let mut rows = Vec::new();
    for object in &look.objects {
        let Object::Index(index) = &**object else { continue };
        let Some(table) = look.table(index.table) else { continue };
        let ty = |of: &Indexed| match of {
            Indexed::Column(column) => table.columns[usize::from(*column)].type_oid,
            Indexed::Expression { type_oid, .. } => *type_oid,
        };
        let collation = |of: &Indexed| {
            let own = ctx.type_info(ty(of)).map_or(0, |info| info.collation);
            match of {
                Indexed::Column(column) => collation(Some(&table.columns[usize::from(*column)]), own),
                Indexed::Expression { .. } => own,
            }
        };
        let option = |column: &crate::catalog::object::IndexColumn| {
            Value::Int2(i16::from(column.descending) | (i16::from(column.nulls_first) << 1))
        };
        let class = |column: &crate::catalog::object::IndexColumn| {
            Value::Oid(column.class.unwrap_or_else(|| default_class(&ctx, &index.method, ty(&column.of))))
        };
        let of = || index.columns.iter().map(|column| &column.of);
        let included = index.include.iter().map(|column| Value::Int2(*column as i16 + 1));
        let expressions = of().filter_map(|of| match of {
            Indexed::Expression { expression, .. } => {
                Some(look.system.expression(table, &expression.sql, None, Style::expression(false)))
            }
            Indexed::Column(_) => None,
        });
        let expressions: Vec<String> = expressions.collect();
        let predicate = index.predicate.as_ref();
        let predicate =
            predicate.map(|it| look.system.expression(table, &it.sql, None, Style::expression(false)));
        let waits = table.constraints.iter().any(|c| c.deferrable && index_of(c) == Some(index.oid));
        rows.push(maker.row([
            Value::Oid(index.oid),
            Value::Oid(index.table),
            Value::Int2((index.columns.len() + index.include.len()) as i16),
            Value::Int2(index.columns.len() as i16),
            Value::Bool(index.unique),
            Value::Bool(index.nulls_not_distinct),
            Value::Bool(index.primary),
            Value::Bool(!waits),
            Value::Bool(index.clustered),
            Value::Bool(index.valid),
            Value::Bool(true),
            Value::Bool(true),
            vector(oid::INT2, of().map(column_number).chain(included).collect()),
            vector(oid::OID, of().map(|of| Value::Oid(collation(of))).collect()),
            vector(oid::OID, index.columns.iter().map(class).collect()),
            vector(oid::INT2, index.columns.iter().map(option).collect()),
            if expressions.is_empty() { Value::Null } else { Value::text(expressions.join(", ")) },
            predicate.map_or(Value::Null, Value::text),
        ]));
    }
    rows
}

/// The index that a constraint of its table leans on.
pub(super) fn index_of(constraint: &Constraint) -> Option<Oid> {
    match constraint.rule {
        Rule::PrimaryKey { index, .. } | Rule::Unique { index, .. } => Some(index),
        _ => None,
    }
}

const fn action(action: Action) -> char {
    match action {
        Action::NoAction => 'a',
        Action::Restrict => 'r',
        Action::Cascade => 'c',
        Action::SetNull => 'n',
        Action::SetDefault => 'd',
    }
}

/// What a constraint is in `pg_constraint`: its letter, its columns, and what goes with a foreign key:
/// (other table, its columns, on update, on delete, match).
type Shape = (char, Vec<u16>, Option<(Oid, Vec<u16>, char, char, char)>, Oid);

fn shape(look: &Look<'_>, table: &Table, constraint: &Constraint) -> Shape {
    match &constraint.rule {
        Rule::PrimaryKey { columns, index } => ('p', columns.clone(), None, *index),
        Rule::Unique { columns, index } => ('u', columns.clone(), None, *index),
        Rule::Check { condition } => ('c', look.system.columns_in(table, &condition.sql), None, 0),
        Rule::ForeignKey { columns, table, references, index, on_delete, on_update, full, .. } => {
            let matching = if *full { 'f' } else { 's' };
            let other = (*table, references.clone(), action(*on_update), action(*on_delete), matching);
            ('f', columns.clone(), Some(other), *index)
        }
    }
}

pub(super) fn constraints(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of(
        "pg_constraint",
        [
            "oid",
            "conname",
            "connamespace",
            "contype",
            "condeferrable",
            "condeferred",
            "convalidated",
            "conrelid",
            "contypid",
            "conindid",
            "confrelid",
            "confupdtype",
            "confdeltype",
            "confmatchtype",
            "conislocal",
            "connoinherit",
            "conkey",
            "confkey",
            "confdelsetcols",
            "conbin",
        ],
    );
    let mut rows = Vec::new();
    for table in look.tables() {
        for constraint in &table.constraints {
            let (kind, columns, other, index) = shape(look, table, constraint);
            let (to, references, update, delete, matching) = other.unwrap_or((0, vec![], ' ', ' ', ' '));
            let condition = match &constraint.rule {
                Rule::Check { condition } => {
                    Value::text(look.system.expression(table, &condition.sql, None, Style::expression(false)))
                }
                _ => Value::Null,
            };
            rows.push(maker.row([
                Value::Oid(constraint.oid),
                Value::text(constraint.name.as_str()),
                Value::Oid(table.schema),
                letter(kind),
                Value::Bool(constraint.deferrable),
                Value::Bool(constraint.deferred),
                Value::Bool(!constraint.not_valid),
                Value::Oid(table.oid),
                Value::Oid(0),
                Value::Oid(index),
                Value::Oid(to),
                blank(update),
                blank(delete),
                blank(matching),
                Value::Bool(true),
                Value::Bool(kind != 'c' || constraint.no_inherit),
                if columns.is_empty() { Value::Null } else { numbers(&columns) },
                if kind == 'f' { numbers(&references) } else { Value::Null },
                match &constraint.rule {
                    Rule::ForeignKey { set, .. } if !set.is_empty() => numbers(set),
                    _ => Value::Null,
                },
                condition,
            ]));
        }
    }
    for object in &look.objects {
        let Object::Type(ty) = &**object else { continue };
        let UserTypeKind::Domain { checks, .. } = &ty.kind else { continue };
        for (at, (name, condition)) in checks.iter().enumerate() {
            let none = || letter(' ');
            rows.push(maker.row([
                Value::Oid(part_oid(ty.oid, at)),
                Value::text(name.as_str()),
                Value::Oid(ty.schema),
                letter('c'),
                Value::Bool(false),
                Value::Bool(false),
                Value::Bool(true),
                Value::Oid(0),
                Value::Oid(ty.oid),
                Value::Oid(0),
                Value::Oid(0),
                none(),
                none(),
                none(),
                Value::Bool(true),
                Value::Bool(false),
                Value::Null,
                Value::Null,
                Value::Null,
                Value::text(condition.sql.as_str()),
            ]));
        }
    }
    rows
}

/// A letter, or a blank: PostgreSQL has no empty ones there.
fn blank(letter: char) -> Value {
    Value::text(letter.to_string())
}

/// Which object goes with which: sequences with columns, indexes with constraints and tables, rules with
/// views, constraints with their columns, defaults with theirs.
pub(super) fn dependencies(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of(
        "pg_depend",
        ["classid", "objid", "objsubid", "refclassid", "refobjid", "refobjsubid", "deptype"],
    );
    let row = |class: Oid, object: Oid, to: (Oid, Oid, usize), kind: char| {
        let (to_class, to, part) = to;
        maker.row([
            Value::Oid(class),
            Value::Oid(object),
            Value::Int4(0),
            Value::Oid(to_class),
            Value::Oid(to),
            Value::Int4(part as i32),
            letter(kind),
        ])
    };
    let mut rows = Vec::new();
    for object in &look.objects {
        if let Some(query) = object.query() {
            let rule = part_oid(object.oid(), 0);
            rows.push(row(PG_REWRITE, rule, (PG_CLASS, object.oid(), 0), 'i'));
            if matches!(**object, Object::Table(_)) {
                // By it pg_dump finds in which order materialized views are refreshed.
                rows.push(row(PG_CLASS, object.oid(), (PG_NAMESPACE, object.schema(), 0), 'n'));
            }
            rows.extend(query.depends.iter().map(|to| row(PG_REWRITE, rule, (PG_CLASS, *to, 0), 'n')));
        }
        match &**object {
            Object::Sequence(it) => {
                let Some((table, column)) = it.owned_by else { continue };
                let owner = look.table(table);
                let identity = owner.and_then(|owner| owner.columns.get(usize::from(column)));
                let identity = identity.and_then(|column| column.identity);
                let identity = identity.is_some_and(|own| own.sequence == it.oid);
                let kind = if identity { 'i' } else { 'a' };
                rows.push(row(PG_CLASS, it.oid, (PG_CLASS, table, usize::from(column) + 1), kind));
            }
            Object::Index(it) => {
                let owner = look.table(it.table);
                let constraint =
                    owner.and_then(|owner| owner.constraints.iter().find(|c| index_of(c) == Some(it.oid)));
                match constraint {
                    Some(constraint) => {
                        rows.push(row(PG_CLASS, it.oid, (PG_CONSTRAINT, constraint.oid, 0), 'i'));
                    }
                    None => rows.push(row(PG_CLASS, it.oid, (PG_CLASS, it.table, 0), 'a')),
                }
            }
            Object::Table(it) => rows.extend(table_dependencies(look, it, &row)),
            _ => {}
        }
    }
    rows
}

fn table_dependencies(
    look: &Look<'_>,
    table: &Table,
    row: &dyn Fn(Oid, Oid, (Oid, Oid, usize), char) -> Row,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for constraint in &table.constraints {
        let (_, columns, other, index) = shape(look, table, constraint);
        if other.is_some() {
            // By it pg_restore knows with several jobs what has to be there before.
            rows.push(row(PG_CONSTRAINT, constraint.oid, (PG_CLASS, index, 0), 'n'));
        }
        let own = columns.iter().map(|column| (table.oid, *column, 'a'));
        let others = other.iter().flat_map(|(to, columns, ..)| columns.iter().map(move |c| (*to, *c, 'n')));
        for (to, column, kind) in own.chain(others) {
            rows.push(row(PG_CONSTRAINT, constraint.oid, (PG_CLASS, to, usize::from(column) + 1), kind));
        }
    }
    for (at, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.dropped) {
        if let Some(default) = column.default.as_ref().or(column.generated.as_ref()) {
            let own = part_oid(table.oid, at);
            rows.push(row(PG_ATTRDEF, own, (PG_CLASS, table.oid, at + 1), 'a'));
            rows.extend(default.depends.iter().map(|to| row(PG_ATTRDEF, own, (PG_CLASS, *to, 0), 'n')));
        }
    }
    rows
}
