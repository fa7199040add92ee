//! Tables, views, indexes and sequences as rows: `pg_class`, `pg_attribute`, `pg_index`, `pg_constraint` and
//! those that go with them.

use super::{Look, Maker, SystemRelation, letter, nothing, part_oid, privileges, system, texts, vector};
use crate::catalog::object::{
    Action, Column, Constraint, Grant, Index, Indexed, Object, Rule, Sequence, Table, UserTypeKind, View,
};
use crate::exec::Row;
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
}

pub(super) fn method_oid(method: &str) -> Oid {
    let methods = system().fixed.get("pg_am").into_iter().flatten();
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
    };
    Some(match object {
        Object::Table(table) => Class {
            owner: table.owner,
            columns: table.columns.len(),
            row_type: table.row_type,
            method: HEAP,
            rows: table.rows.object.0,
            checks: table.constraints.iter().filter(|c| matches!(c.rule, Rule::Check { .. })).count(),
            indexed: look.objects.iter().any(|o| matches!(&**o, Object::Index(i) if i.table == oid)),
            triggers: table.constraints.iter().any(|c| matches!(c.rule, Rule::ForeignKey { .. }))
                || look.tables().any(|other| refers(other, oid)),
            grants: &table.grants,
            options: &table.options,
            ..plain
        },
        Object::Index(index) => Class {
            owner: look.tables().find(|table| table.oid == index.table).map_or(0, |table| table.owner),
            kind: 'i',
            columns: index.columns.len() + index.include.len(),
            method: method_oid(&index.method),
            rows: index.rows.map_or(oid, |rows| rows.object.0),
            ..plain
        },
        Object::Sequence(sequence) => {
            let (owner, grants) = (sequence.owner, &sequence.grants[..]);
            Class { owner, grants, kind: 'S', columns: 3, rows: oid, ..plain }
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

fn refers(table: &Table, to: Oid) -> bool {
    table.constraints.iter().any(|c| matches!(c.rule, Rule::ForeignKey { table, .. } if table == to))
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
    let row = |class: Class<'_>| {
        let options = class.options.iter().map(|(name, value)| format!("{name}={value}"));
        let options: Vec<String> = options.collect();
        maker.row([
            Value::Oid(class.oid),
            Value::text(class.name),
            Value::Oid(class.schema),
            Value::Oid(class.row_type),
            Value::Oid(class.owner),
            Value::Oid(class.method),
            Value::Oid(class.rows),
            Value::Float4(if class.kind == 'r' { -1.0 } else { 0.0 }),
            Value::Bool(class.indexed),
            letter('p'),
            letter(class.kind),
            Value::Int2(class.columns as i16),
            Value::Int2(class.checks as i16),
            Value::Bool(class.kind == 'v'),
            Value::Bool(class.triggers),
            Value::Bool(true),
            letter(if class.kind == 'r' && class.schema != 11 { 'd' } else { 'n' }),
            privileges::acl(look, class.grants),
            if options.is_empty() { Value::Null } else { texts(options.iter().map(String::as_str)) },
        ])
    };
    let system = system().relations.values().map(system_class);
    let users = look.objects.iter().filter_map(|object| class_of(look, object));
    system.chain(users).map(row).collect()
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
    let Some(table) = look.tables().find(|table| table.oid == index.table) else { return };
    let plain = |column: u16| {
        let column = &table.columns[usize::from(column)];
        (column.name.clone(), column.ty())
    };
    let mut expressions = 0;
    let keys = index.columns.iter().map(|column| match &column.of {
        Indexed::Column(column) => plain(*column),
        Indexed::Expression { type_oid, modifier, .. } => {
            expressions += 1;
            let name = if expressions == 1 { "expr".into() } else { format!("expr{}", expressions - 1) };
            (name, Type { oid: *type_oid, modifier: *modifier })
        }
    });
    let keys: Vec<(String, Type)> = keys.collect();
    let all = keys.into_iter().chain(index.include.iter().map(|column| plain(*column)));
    for (at, (name, ty)) in all.enumerate() {
        to.push(Attribute { relation: index.oid, number: at + 1, name, ty, column: None });
    }
}

pub(super) fn attributes(look: &Look<'_>) -> Vec<Row> {
    let mut all = Vec::new();
    for relation in system().relations.values() {
        match relation {
            SystemRelation::Table(table) => table_attributes(table.oid, &table.columns, &mut all),
            SystemRelation::View(view) => table_attributes(view.oid, &view.columns, &mut all),
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
        ],
    );
    let settings = crate::func::Settings::default();
    let ctx = crate::func::EvalContext::new(&settings, look.system, 0);
    let row = |attribute: &Attribute<'_>| {
        let column = attribute.column;
        let dropped = column.is_some_and(|column| column.dropped);
        let info = ctx.type_info(attribute.ty.oid);
        let is = |what: fn(&Column) -> bool| column.is_some_and(|column| !column.dropped && what(column));
        maker.row([
            Value::Oid(attribute.relation),
            Value::text(attribute.name.as_str()),
            Value::Oid(if dropped { 0 } else { attribute.ty.oid }),
            Value::Int4(if dropped { 0 } else { -1 }),
            Value::Int2(info.as_ref().map_or(-1, |info| info.len)),
            Value::Int2(attribute.number as i16),
            Value::Int4(i32::from(info.as_ref().is_some_and(|info| info.is_array()))),
            Value::Int4(-1),
            Value::Int4(attribute.ty.modifier),
            Value::Bool(info.as_ref().is_some_and(|info| info.by_value)),
            letter(info.as_ref().map_or('i', |info| info.align)),
            letter(info.as_ref().map_or('p', |info| info.storage)),
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
        ])
    };
    all.iter().map(row).collect()
}

/// The collation that a column says, or its type's.
fn collation(column: Option<&Column>, of_type: Oid) -> Oid {
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
                    Value::text(look.system.expression(table, &expression.sql, Some(column.ty()), false)),
                ]));
            }
        }
    }
    rows
}

/// The class of operators that keeps an index of this type in order: the default one of btrees.
fn operator_class(types: &dyn Types, ty: Oid) -> Oid {
    let base = types.base_of(ty);
    let asked = match types.type_info(base) {
        _ if base == oid::VARCHAR => oid::TEXT,
        Some(info) if info.is_array() => oid::ANYARRAY,
        Some(info) if info.kind == crate::types::TypeKind::Enum => oid::ANYENUM,
        Some(info) if info.kind == crate::types::TypeKind::Composite => oid::RECORD,
        _ => base,
    };
    let asked = asked.to_string();
    let classes = system().fixed.get("pg_opclass").into_iter().flatten();
    let found = classes.into_iter().find(|row| row[1] == "403" && row[6] == asked && row[7] == "t");
    found.and_then(|row| row[0].parse().ok()).unwrap_or(0)
}

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
    let settings = crate::func::Settings::default();
    let ctx = crate::func::EvalContext::new(&settings, look.system, 0);
    let mut rows = Vec::new();
    for object in &look.objects {
        let Object::Index(index) = &**object else { continue };
        let Some(table) = look.tables().find(|table| table.oid == index.table) else { continue };
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
        let of = || index.columns.iter().map(|column| &column.of);
        let included = index.include.iter().map(|column| Value::Int2(*column as i16 + 1));
        let expressions = of().filter_map(|of| match of {
            Indexed::Expression { expression, .. } => {
                Some(look.system.expression(table, &expression.sql, None, false))
            }
            Indexed::Column(_) => None,
        });
        let expressions: Vec<String> = expressions.collect();
        let predicate = index.predicate.as_ref();
        let predicate = predicate.map(|it| look.system.expression(table, &it.sql, None, false));
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
            Value::Bool(index.valid),
            Value::Bool(true),
            Value::Bool(true),
            vector(oid::INT2, of().map(column_number).chain(included).collect()),
            vector(oid::OID, of().map(|of| Value::Oid(collation(of))).collect()),
            vector(oid::OID, of().map(|of| Value::Oid(operator_class(&ctx, ty(of)))).collect()),
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
        Rule::ForeignKey { columns, table, references, index, on_delete, on_update, full } => {
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
                    Value::text(look.system.expression(table, &condition.sql, None, false))
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
                Value::Bool(kind != 'c'),
                if columns.is_empty() { Value::Null } else { numbers(&columns) },
                if kind == 'f' { numbers(&references) } else { Value::Null },
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

pub(super) fn sequences(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of(
        "pg_sequence",
        [
            "seqrelid",
            "seqtypid",
            "seqstart",
            "seqincrement",
            "seqmax",
            "seqmin",
            "seqcache",
            "seqcycle",
        ],
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
        match &**object {
            Object::Sequence(it) => {
                let Some((table, column)) = it.owned_by else { continue };
                let owner = look.tables().find(|owner| owner.oid == table);
                let identity = owner.and_then(|owner| owner.columns.get(usize::from(column)));
                let identity = identity.is_some_and(|column| column.identity.is_some());
                let kind = if identity { 'i' } else { 'a' };
                rows.push(row(PG_CLASS, it.oid, (PG_CLASS, table, usize::from(column) + 1), kind));
            }
            Object::Index(it) => {
                let owner = look.tables().find(|owner| owner.oid == it.table);
                let constraint =
                    owner.and_then(|owner| owner.constraints.iter().find(|c| index_of(c) == Some(it.oid)));
                match constraint {
                    Some(constraint) => {
                        rows.push(row(PG_CLASS, it.oid, (PG_CONSTRAINT, constraint.oid, 0), 'i'));
                    }
                    None => rows.push(row(PG_CLASS, it.oid, (PG_CLASS, it.table, 0), 'a')),
                }
            }
            Object::View(it) => {
                let rule = part_oid(it.oid, 0);
                rows.push(row(PG_REWRITE, rule, (PG_CLASS, it.oid, 0), 'i'));
                let to = it.query.depends.iter();
                rows.extend(to.map(|to| row(PG_REWRITE, rule, (PG_CLASS, *to, 0), 'n')));
            }
            Object::Table(it) => rows.extend(table_dependencies(look, it, &row)),
            _ => {}
        }
    }
    rows
}

const PG_REWRITE: Oid = 2618;

fn table_dependencies(
    look: &Look<'_>,
    table: &Table,
    row: &dyn Fn(Oid, Oid, (Oid, Oid, usize), char) -> Row,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for constraint in &table.constraints {
        let (_, columns, other, _) = shape(look, table, constraint);
        let own = columns.iter().map(|column| (table.oid, *column, 'a'));
        let others = other.iter().flat_map(|(to, columns, ..)| columns.iter().map(|c| (*to, *c, 'n')));
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

pub(super) fn rules(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of(
        "pg_rewrite",
        ["oid", "rulename", "ev_class", "ev_type", "ev_enabled", "is_instead", "ev_qual", "ev_action"],
    );
    let row = |view: &View| {
        maker.row([
            Value::Oid(part_oid(view.oid, 0)),
            Value::text("_RETURN"),
            Value::Oid(view.oid),
            letter('1'),
            letter('O'),
            Value::Bool(true),
            Value::text("<>"),
            Value::text(view.query.sql.as_str()),
        ])
    };
    let views = look.objects.iter().filter_map(|object| match &**object {
        Object::View(view) => Some(row(view)),
        _ => None,
    });
    views.collect()
}
