//! Tables, views, indexes and sequences as rows: `pg_class`, `pg_attribute` and those that go with them.

use std::sync::Arc;

use super::deparse::Style;
use super::{Look, Maker, SystemRelation, letter, part_oid, privileges, texts, view_columns};
use crate::catalog::layout::missing_value;
use crate::catalog::object::{
    Column, Expression, Grant, Index, IndexColumn, Indexed, Object, Rule, Sequence,
};
use crate::catalog::statistics::TableStatistics;
use crate::catalog::system;
use crate::exec::Row;
use crate::exec::define::column_names;
use crate::types::value::Value;
use crate::types::{Oid, Type, Types, oid};

/// Of tables: `heap`. What is behind it is not asked.
const HEAP: Oid = 2;
/// Numbers of relations that others name.
pub(super) const PG_CLASS: Oid = 1259;
pub(super) const PG_TYPE: Oid = 1247;
pub(super) const PG_CONSTRAINT: Oid = 2606;
pub(super) const PG_NAMESPACE: Oid = 2615;
pub(super) const PG_ATTRDEF: Oid = 2604;
pub(super) const PG_REWRITE: Oid = 2618;

/// What `pg_class` says of a relation.
struct Class<'o> {
    oid: Oid,
    name: &'o str,
    schema: Oid,
    owner: Oid,
    kind: char,
    columns: usize,
    row_type: Oid,
    method: Oid,
    rows: Oid,
    checks: usize,
    indexed: bool,
    triggers: bool,
    grants: &'o [Grant],
    options: &'o [(String, String)],
    unlogged: bool,
    populated: bool,
}

pub(super) fn method_oid(method: &str) -> Oid {
    let methods = system::fixed_rows("pg_am").iter();
    let found = methods.into_iter().find(|row| row[1] == method);
    found.and_then(|row| row[0].parse().ok()).unwrap_or(403)
}

fn class_of<'o>(look: &Look<'_>, object: &'o Object) -> Option<Class<'o>> {
    let (oid, name, schema) = (object.oid(), object.name(), object.schema());
    let plain = Class {
        oid,
        name,
        schema,
        owner: 0,
        kind: 'r',
        columns: 0,
        row_type: 0,
        method: 0,
        rows: 0,
        checks: 0,
        indexed: false,
        triggers: false,
        grants: &[],
        options: &[],
        unlogged: false,
        populated: true,
    };
    Some(match object {
        Object::Table(table) => Class {
            owner: table.owner,
            kind: if table.materialized.is_some() { 'm' } else { 'r' },
            populated: table.materialized.as_ref().is_none_or(|it| it.populated),
            columns: table.columns.len(),
            row_type: table.row_type,
            method: HEAP,
            rows: table.rows.object.0,
            checks: table.constraints.iter().filter(|c| matches!(c.rule, Rule::Check { .. })).count(),
            indexed: !look.system.store.indexes(oid).is_empty(),
            triggers: table.constraints.iter().any(|c| matches!(c.rule, Rule::ForeignKey { .. }))
                || !look.system.store.referencing(oid).is_empty(),
            grants: &table.grants,
            options: &table.options,
            unlogged: table.unlogged,
            ..plain
        },
        Object::Index(index) => Class {
            owner: look.table(index.table).map_or(0, |table| table.owner),
            unlogged: look.table(index.table).is_some_and(|table| table.unlogged),
            kind: 'i',
            columns: index.columns.len() + index.include.len(),
            method: method_oid(&index.method),
            rows: index.rows.map_or(oid, |rows| rows.object.0),
            ..plain
        },
        Object::Sequence(sequence) => {
            let (owner, grants) = (sequence.owner, &sequence.grants[..]);
            let of = sequence.owned_by.and_then(|(table, _)| look.table(table));
            let unlogged = of.is_some_and(|table| table.unlogged);
            Class { owner, grants, unlogged, kind: 'S', columns: 3, rows: oid, ..plain }
        }
        Object::View(view) => Class {
            owner: view.owner,
            kind: 'v',
            columns: view.columns.len(),
            row_type: view.row_type,
            grants: &view.grants,
            options: &view.options,
            ..plain
        },
        _ => return None,
    })
}

fn system_class(relation: &SystemRelation) -> Class<'_> {
    let (kind, columns) = match relation {
        SystemRelation::Table(table) => ('r', table.columns.len()),
        SystemRelation::View(_) => ('v', 0),
    };
    Class {
        oid: relation.oid(),
        name: relation.name(),
        schema: relation.schema(),
        owner: crate::catalog::object::BOOTSTRAP_ROLE,
        kind,
        columns,
        row_type: 0,
        method: if kind == 'r' { HEAP } else { 0 },
        rows: 0,
        checks: 0,
        indexed: false,
        triggers: false,
        grants: &[],
        options: &[],
        unlogged: false,
        populated: true,
    }
}

impl Look<'_> {
    /// What is known of a table's rows, or of those of an index's table.
    fn known_of(&self, oid: Oid, kind: char) -> Option<Arc<TableStatistics>> {
        match (kind, self.object(oid)) {
            ('r' | 'm', _) => self.system.store.statistics(oid),
            ('i', Some(Object::Index(index))) => self.system.store.statistics(index.table),
            _ => None,
        }
    }
}

pub(super) fn classes(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of(
        "pg_class",
        [
            "oid",
            "relname",
            "relnamespace",
            "reltype",
            "relowner",
            "relam",
            "relfilenode",
            "relpages",
            "reltuples",
            "relhasindex",
            "relpersistence",
            "relkind",
            "relnatts",
            "relchecks",
            "relhasrules",
            "relhastriggers",
            "relispopulated",
            "relreplident",
            "relacl",
            "reloptions",
        ],
    );
    let own_schema = look.system.store.own_schema(false).ok().flatten();
    let row = |class: Class<'_>| {
        let options = class.options.iter().map(|(name, value)| format!("{name}={value}"));
        let options: Vec<String> = options.collect();
        let known = look.known_of(class.oid, class.kind);
        maker.row([
            Value::Oid(class.oid),
            Value::text(class.name),
            Value::Oid(class.schema),
            Value::Oid(class.row_type),
            Value::Oid(class.owner),
            Value::Oid(class.method),
            Value::Oid(class.rows),
            Value::Int4(known.as_ref().map_or(0, |known| known.pages as i32)),
            Value::Float4(match &known {
                Some(known) => known.rows as f32,
                None if matches!(class.kind, 'r' | 'm') => -1.0,
                None => 0.0,
            }),
            Value::Bool(class.indexed),
            letter(match own_schema == Some(class.schema) {
                true => 't',
                false if class.unlogged => 'u',
                false => 'p',
            }),
            letter(class.kind),
            Value::Int2(class.columns as i16),
            Value::Int2(class.checks as i16),
            Value::Bool(matches!(class.kind, 'v' | 'm')),
            Value::Bool(class.triggers),
            Value::Bool(class.populated),
            letter(if matches!(class.kind, 'r' | 'm') && class.schema != 11 { 'd' } else { 'n' }),
            privileges::acl(look, class.grants),
            if options.is_empty() { Value::Null } else { texts(options.iter().map(String::as_str)) },
        ])
    };
    let views = view_columns(look.system);
    let own = |relation: &'static SystemRelation| {
        let columns = views.get(&relation.oid()).map_or(0, Vec::len);
        let class = system_class(relation);
        row(Class { columns: class.columns.max(columns), ..class })
    };
    let mut rows: Vec<Row> = system::all().filter(|it| look.wants(it)).map(own).collect();
    rows.extend(look.objects.iter().filter_map(|object| class_of(look, object)).map(row));
    rows
}

/// A column as `pg_attribute` describes it.
struct Attribute<'o> {
    relation: Oid,
    /// From 1.
    number: usize,
    name: String,
    ty: Type,
    column: Option<&'o Column>,
}

fn table_attributes<'o>(relation: Oid, columns: &'o [Column], to: &mut Vec<Attribute<'o>>) {
    for (at, column) in columns.iter().enumerate() {
        let name = match column.dropped {
            true => format!("........pg.dropped.{}........", at + 1),
            false => column.name.clone(),
        };
        to.push(Attribute { relation, number: at + 1, name, ty: column.ty(), column: Some(column) });
    }
}

fn index_attributes<'o>(look: &Look<'_>, index: &Index, to: &mut Vec<Attribute<'o>>) {
    let Some(table) = look.table(index.table) else { return };
    let plain = |column: &u16| table.columns[usize::from(*column)].ty();
    let key = |column: &IndexColumn| match &column.of {
        Indexed::Column(column) => plain(column),
        Indexed::Expression { type_oid, modifier, .. } => Type { oid: *type_oid, modifier: *modifier },
    };
    let types = index.columns.iter().map(key).chain(index.include.iter().map(plain));
    for (at, (name, ty)) in column_names(table, index).into_iter().zip(types).enumerate() {
        to.push(Attribute { relation: index.oid, number: at + 1, name, ty, column: None });
    }
}

pub(super) fn attributes(look: &Look<'_>) -> Vec<Row> {
    let (mut all, views) = (Vec::new(), view_columns(look.system));
    for relation in system::all().filter(|it| look.wants(it)) {
        match relation {
            SystemRelation::Table(table) => table_attributes(table.oid, &table.columns, &mut all),
            SystemRelation::View(view) => table_attributes(view.oid, &views[&view.oid], &mut all),
        }
    }
    for object in &look.objects {
        match &**object {
            Object::Table(table) => table_attributes(table.oid, &table.columns, &mut all),
            Object::View(view) => table_attributes(view.oid, &view.columns, &mut all),
            Object::Index(index) => index_attributes(look, index, &mut all),
            Object::Sequence(sequence) => {
                let columns = [("last_value", oid::INT8), ("log_cnt", oid::INT8), ("is_called", oid::BOOL)];
                for (at, (name, ty)) in columns.into_iter().enumerate() {
                    let (relation, ty) = (sequence.oid, Type::of(ty));
                    all.push(Attribute { relation, number: at + 1, name: name.into(), ty, column: None });
                }
            }
            _ => {}
        }
    }
    attribute_rows(look, &all)
}

fn attribute_rows(look: &Look<'_>, all: &[Attribute<'_>]) -> Vec<Row> {
    let maker = Maker::of(
        "pg_attribute",
        [
            "attrelid",
            "attname",
            "atttypid",
            "attstattarget",
            "attlen",
            "attnum",
            "attndims",
            "attcacheoff",
            "atttypmod",
            "attbyval",
            "attalign",
            "attstorage",
            "attnotnull",
            "atthasdef",
            "atthasmissing",
            "attidentity",
            "attgenerated",
            "attisdropped",
            "attislocal",
            "attcollation",
            "attmissingval",
        ],
    );
    let settings = crate::types::context::Settings::default();
    let ctx = crate::types::context::EvalContext::new(&settings, look.system, 0);
    let row = |attribute: &Attribute<'_>| {
        let column = attribute.column;
        let dropped = column.is_some_and(|column| column.dropped);
        let info = ctx.type_info(attribute.ty.oid);
        let is = |what: fn(&Column) -> bool| column.is_some_and(|column| !column.dropped && what(column));
        maker.row([
            Value::Oid(attribute.relation),
            Value::text(attribute.name.as_str()),
            Value::Oid(if dropped { 0 } else { attribute.ty.oid }),
            Value::Int4(match column.and_then(|column| column.statistics) {
                _ if dropped => 0,
                Some(target) => i32::from(target),
                None => -1,
            }),
            Value::Int2(info.as_ref().map_or(-1, |info| info.len)),
            Value::Int2(attribute.number as i16),
            Value::Int4(i32::from(info.as_ref().is_some_and(|info| info.is_array()))),
            Value::Int4(-1),
            Value::Int4(attribute.ty.modifier),
            Value::Bool(info.as_ref().is_some_and(|info| info.by_value)),
            letter(info.as_ref().map_or('i', |info| info.align)),
            letter(
                column
                    .and_then(|column| column.storage)
                    .unwrap_or_else(|| info.as_ref().map_or('p', |info| info.storage)),
            ),
            Value::Bool(is(|column| column.not_null)),
            Value::Bool(is(|column| column.default.is_some() || column.generated.is_some())),
            Value::Bool(is(|column| column.missing.is_some())),
            letter(match column.and_then(|column| column.identity) {
                Some(identity) if identity.always => 'a',
                Some(_) => 'd',
                None => ' ',
            }),
            letter(if is(|column| column.generated.is_some()) { 's' } else { ' ' }),
            Value::Bool(dropped),
            Value::Bool(true),
            Value::Oid(collation(column, info.as_ref().map_or(0, |info| info.collation))),
            column.map_or(Value::Null, |column| missing(look, column)),
        ])
    };
    all.iter().map(row).collect()
}

/// What rows have in a column that were written before it was there: an array of this value.
fn missing(look: &Look<'_>, column: &Column) -> Value {
    let value = missing_value(column, |oid| look.system.store.object(oid));
    match value.ok().filter(|value| !value.is_null()) {
        Some(value) => Value::array(column.type_oid, vec![value]),
        None => Value::Null,
    }
}

/// The collation that a column says, or its type's.
pub(super) fn collation(column: Option<&Column>, of_type: Oid) -> Oid {
    match column.and_then(|column| column.collation.as_deref()) {
        Some("C" | "ucs_basic") => 950,
        Some("POSIX") => 951,
        _ => of_type,
    }
}

pub(super) fn defaults(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of("pg_attrdef", ["oid", "adrelid", "adnum", "adbin"]);
    let mut rows = Vec::new();
    for table in look.tables() {
        for (at, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.dropped) {
            let expression = column.default.as_ref().or(column.generated.as_ref());
            if let Some(expression) = expression {
                rows.push(maker.row([
                    Value::Oid(part_oid(table.oid, at)),
                    Value::Oid(table.oid),
                    Value::Int2(at as i16 + 1),
                    Value::text(look.system.expression(
                        table,
                        &expression.sql,
                        Some(column.ty()),
                        Style::expression(false),
                    )),
                ]));
            }
        }
    }
    rows
}

pub(super) fn sequences(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of(
        "pg_sequence",
        ["seqrelid", "seqtypid", "seqstart", "seqincrement", "seqmax", "seqmin", "seqcache", "seqcycle"],
    );
    let row = |sequence: &Sequence| {
        maker.row([
            Value::Oid(sequence.oid),
            Value::Oid(sequence.type_oid),
            Value::Int8(sequence.start),
            Value::Int8(sequence.increment),
            Value::Int8(sequence.max),
            Value::Int8(sequence.min),
            Value::Int8(sequence.cache),
            Value::Bool(sequence.cycle),
        ])
    };
    let sequences = look.objects.iter().filter_map(|object| match &**object {
        Object::Sequence(sequence) => Some(row(sequence)),
        _ => None,
    });
    sequences.collect()
}

/// All comments: (relation of the object, object, column, text).
pub(super) fn comments(look: &Look<'_>) -> Vec<(Oid, Oid, i32, String)> {
    let mut comments = Vec::new();
    let mut add = |class: Oid, object: Oid, part: usize, text: &Option<String>| {
        comments.extend(text.iter().map(|text| (class, object, part as i32, text.clone())));
    };
    for object in &look.objects {
        let oid = object.oid();
        let columns = match &**object {
            Object::Table(it) => &it.columns[..],
            Object::View(it) => &it.columns[..],
            _ => &[],
        };
        match &**object {
            Object::Schema(it) => add(PG_NAMESPACE, oid, 0, &it.comment),
            Object::Table(it) => {
                add(PG_CLASS, oid, 0, &it.comment);
                it.constraints.iter().for_each(|c| add(PG_CONSTRAINT, c.oid, 0, &c.comment));
            }
            Object::Index(it) => add(PG_CLASS, oid, 0, &it.comment),
            Object::Sequence(it) => add(PG_CLASS, oid, 0, &it.comment),
            Object::View(it) => add(PG_CLASS, oid, 0, &it.comment),
            Object::Type(it) => add(PG_TYPE, oid, 0, &it.comment),
            Object::Role(_) => {}
        }
        columns.iter().enumerate().for_each(|(at, c)| add(PG_CLASS, oid, at + 1, &c.comment));
    }
    comments
}

pub(super) fn descriptions(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of("pg_description", ["objoid", "classoid", "objsubid", "description"]);
    let row = |(class, object, part, text): (Oid, Oid, i32, String)| {
        maker.row([Value::Oid(object), Value::Oid(class), Value::Int4(part), Value::text(text)])
    };
    comments(look).into_iter().map(row).collect()
}

pub(super) fn rules(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of(
        "pg_rewrite",
        ["oid", "rulename", "ev_class", "ev_type", "ev_enabled", "is_instead", "ev_qual", "ev_action"],
    );
    let row = |view: Oid, query: &Expression| {
        maker.row([
            Value::Oid(part_oid(view, 0)),
            Value::text("_RETURN"),
            Value::Oid(view),
            letter('1'),
            letter('O'),
            Value::Bool(true),
            Value::text("<>"),
            Value::text(query.sql.as_str()),
        ])
    };
    let views = look.objects.iter();
    views.filter_map(|object| object.query().map(|query| row(object.oid(), query))).collect()
}
