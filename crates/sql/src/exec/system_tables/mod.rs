//! The relations of `pg_catalog` and `information_schema`: tables whose rows are made from the catalog's
//! objects when they are read, and views over them.
//!
//! * `relations`: tables and columns; `keys`: indexes and constraints; `types`: types, functions, operators;
//!   `roles`: roles, schemas, the database; `activity`: what sessions do;
//! * `calls`: functions that read the catalog; `deparse`: expressions as PostgreSQL writes them;
//! * `operator_classes`: those of indexes;
//! * `pods`: the pod, this host and its statements (columns in `data/own.tsv`);
//! * `data/relations.tsv` names the tables' columns and `data/rows.tsv` rows that never change (both made by
//!   `data/make.py` from PostgreSQL's own description); `data/views.sql`, `data/statistics.sql` and
//!   `data/standard.sql` have the views, and `data/empty.tsv` the columns of those that have no rows here
//!   (made by `data/make_empty.sh`);
//! * `server`: how the server is.
//!
//! 1. Names, order and types of columns are PostgreSQL 15's (of `routines` and `parameters` only the first
//!    ones), and oids of its tables, types, functions and operators are its own; those of views are given
//!    here by their place among them.
//! 2. Rows come in the order of the objects' numbers and name nothing that the transaction does not see.
//! 3. A column that nothing is known for is NULL, or 0, false or empty where PostgreSQL has no NULL.
//!
//! Not here: changes. The relations cannot be written.

mod activity;
pub(super) mod calls;
pub(super) mod deparse;
mod keys;
pub(super) mod operator_classes;
mod pods;
mod privileges;
mod relations;
pub(crate) mod roles;
mod server;
mod sizes;
mod types;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::Row;
use super::system::{SessionSystem, quoted};
use crate::bind::Binder;
use crate::catalog::object::{
    BOOTSTRAP_ROLE, Column, Expression, Object, PG_CATALOG, Placing, RowsAt, Sequence, Table, View,
};
use crate::error::Result;
use crate::storage::classes::{ClassSize, ObjectId};
use crate::types::value::{Array, Dimension, Value};
use crate::types::{Oid, Type, oid};

/// The schema `information_schema`.
pub(crate) const INFORMATION_SCHEMA: Oid = 12_000;
const FIRST_VIEW: Oid = 12_001;

/// A relation of the system.
#[derive(Clone)]
pub(crate) enum SystemRelation {
    Table(Arc<Table>),
    View(Arc<View>),
}

impl SystemRelation {
    pub(crate) fn oid(&self) -> Oid {
        match self {
            SystemRelation::Table(table) => table.oid,
            SystemRelation::View(view) => view.oid,
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            SystemRelation::Table(table) => &table.name,
            SystemRelation::View(view) => &view.name,
        }
    }

    /// Whether only superusers may read it: what passwords are checked against.
    pub(crate) fn is_secret(&self) -> bool {
        matches!(self.name(), "pg_authid" | "pg_shadow")
    }

    pub(crate) fn schema(&self) -> Oid {
        match self {
            SystemRelation::Table(table) => table.schema,
            SystemRelation::View(view) => view.schema,
        }
    }
}

struct System {
    relations: BTreeMap<Oid, SystemRelation>,
    names: BTreeMap<(Oid, &'static str), Oid>,
    /// Rows that never change, by relation.
    fixed: BTreeMap<&'static str, Vec<Vec<&'static str>>>,
}

fn system() -> &'static System {
    static SYSTEM: OnceLock<System> = OnceLock::new();
    SYSTEM.get_or_init(|| {
        let (mut names, mut fixed) = (BTreeMap::new(), BTreeMap::new());
        let mut relations: BTreeMap<Oid, Table> = BTreeMap::new();
        let own = include_str!("data/own.tsv");
        for line in include_str!("data/relations.tsv").lines().chain(own.lines()) {
            let fields: Vec<&'static str> = line.split('\t').collect();
            let [name, number, column, ty, present] = fields[..] else { panic!("a column of {line}") };
            let number: Oid = number.parse().expect("a relation's oid");
            names.insert((PG_CATALOG, name), number);
            let relation = relations.entry(number).or_insert_with(|| system_table(number, name));
            let column = Column::new(column, Type::of(ty.parse().expect("a type's oid")));
            relation.columns.push(if present == "t" { column.not_null() } else { column });
        }
        let tables = relations.into_iter();
        let mut relations: BTreeMap<Oid, SystemRelation> =
            tables.map(|(oid, table)| (oid, SystemRelation::Table(Arc::new(table)))).collect();
        for ((schema, name), sql) in views() {
            let schema = if schema == "pg_catalog" { PG_CATALOG } else { INFORMATION_SCHEMA };
            let oid = FIRST_VIEW + names.len() as Oid;
            names.insert((schema, name), oid);
            let query = Expression::plain(&sql);
            let (name, owner) = (name.to_string(), BOOTSTRAP_ROLE);
            let view = View { oid, name, schema, owner, query, ..View::default() };
            relations.insert(oid, SystemRelation::View(Arc::new(view)));
        }
        for line in include_str!("data/rows.tsv").lines() {
            let mut fields = line.split('\t');
            let relation = fields.next().expect("a relation's name");
            fixed.entry(relation).or_insert_with(Vec::new).push(fields.collect());
        }
        System { relations, names, fixed }
    })
}

/// Name of a view, with its schema.
type ViewName = (&'static str, &'static str);

/// The views: those with a query, and then those that have no rows.
fn views() -> Vec<(ViewName, String)> {
    let files = [
        include_str!("data/views.sql"),
        include_str!("data/statistics.sql"),
        include_str!("data/standard.sql"),
    ];
    let query = |text: &'static str| {
        let (head, sql) = text.split_once('\n').expect("a view has a query");
        let name = head.strip_prefix("-- ").and_then(|head| head.split_once('.')).expect("its name");
        (name, sql.trim_end().trim_end_matches(';').to_string())
    };
    let mut views: Vec<_> = files.into_iter().flat_map(|file| file.split("\n\n")).map(query).collect();
    let lines = include_str!("data/empty.tsv").lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let lines: Vec<_> = lines.collect();
    for columns in lines.chunk_by(|a, b| a[..2] == b[..2]) {
        let columns_sql: Vec<String> =
            columns.iter().map(|column| format!("null::{} as {}", column[3], quoted(column[2]))).collect();
        let sql = format!("select {} where false", columns_sql.join(", "));
        views.push(((columns[0][0], columns[0][1]), sql));
    }
    views
}

fn system_table(oid: Oid, name: &str) -> Table {
    Table {
        oid,
        name: name.to_string(),
        schema: PG_CATALOG,
        owner: BOOTSTRAP_ROLE,
        columns: Vec::new(),
        key: Vec::new(),
        placing: Placing::default(),
        rows: RowsAt { object: ObjectId(oid), size: ClassSize { words: 2, body: 16 } },
        overflow: None,
        constraints: Vec::new(),
        row_type: 0,
        grants: Vec::new(),
        options: Vec::new(),
        unlogged: false,
        on_commit: Default::default(),
        materialized: None,
        comment: None,
    }
}

/// A sequence as a table of one row.
pub(crate) fn of_sequence(sequence: &Sequence) -> Table {
    let columns = [("last_value", oid::INT8), ("log_cnt", oid::INT8), ("is_called", oid::BOOL)];
    let columns = columns.map(|(name, ty)| Column::new(name, Type::of(ty)).not_null());
    let (schema, owner, columns) = (sequence.schema, sequence.owner, columns.to_vec());
    Table { schema, owner, columns, ..system_table(sequence.oid, &sequence.name) }
}

/// The system's relation of this name; `pg_catalog` is looked at first where no schema is told.
pub(crate) fn find(schema: Option<&str>, name: &str, search_path: &[String]) -> Option<SystemRelation> {
    let schema = match schema {
        None | Some("pg_catalog") => PG_CATALOG,
        Some("information_schema") => INFORMATION_SCHEMA,
        Some(_) => return None,
    };
    let system = system();
    let found = |schema: Oid| system.names.get(&(schema, name)).map(|oid| system.relations[oid].clone());
    found(schema).or_else(|| {
        let listed = search_path.iter().any(|name| name == "information_schema");
        (schema == PG_CATALOG && listed).then(|| found(INFORMATION_SCHEMA)).flatten()
    })
}

/// The system's relation with this number.
pub(crate) fn by_oid(oid: Oid) -> Option<&'static SystemRelation> {
    system().relations.get(&oid)
}

/// The rows of a table of the system.
pub(super) fn rows(on: &SessionSystem<'_>, oid: Oid) -> Result<Vec<Row>> {
    let Some(SystemRelation::Table(table)) = by_oid(oid) else {
        let (last, called) = on.store.sequence_state(oid)?;
        return Ok(vec![vec![Value::Int8(last), Value::Int8(0), Value::Bool(called)]]);
    };
    let look = Look { system: on, objects: on.store.objects() };
    let made = match table.name.as_str() {
        "pg_class" => relations::classes(&look),
        "pg_attribute" => relations::attributes(&look),
        "pg_attrdef" => relations::defaults(&look),
        "pg_index" => keys::indexes(&look),
        "pg_constraint" => keys::constraints(&look),
        "pg_sequence" => relations::sequences(&look),
        "pg_description" => relations::descriptions(&look),
        "pg_depend" => keys::dependencies(&look),
        "pg_rewrite" => relations::rules(&look),
        "pg_type" => types::types(&look),
        "pg_enum" => types::labels(&look),
        "pg_proc" => types::functions(),
        "pg_operator" => types::operators(),
        "pg_cast" => types::casts(),
        "pg_aggregate" => types::aggregates(),
        "pg_stat_activity" => activity::sessions(on),
        "pg_stat_ssl" => server::encryption(on),
        "pg_namespace" => roles::schemas(&look),
        "pg_init_privs" => roles::first_privileges(&look),
        "pg_authid" => roles::roles(&look),
        "pg_auth_members" => roles::members(&look),
        "pg_database" => roles::databases(&look),
        "pg_db_role_setting" => roles::settings(&look),
        name => match pods::rows(&look, name) {
            Some(rows) => rows?,
            None => fixed(on, table, name)?,
        },
    };
    debug_assert!(made.iter().all(|row| row.len() == table.columns.len()), "{}", table.name);
    Ok(made)
}

fn fixed(on: &SessionSystem<'_>, table: &Table, name: &str) -> Result<Vec<Row>> {
    let settings = crate::func::Settings::default();
    let ctx = crate::func::EvalContext::new(&settings, on, 0);
    let value = |(column, text): (&Column, &&str)| match *text {
        "\\N" => Ok(Value::Null),
        text if column.type_oid == oid::REGPROC => Ok(Value::Oid(text.parse().unwrap_or(0))),
        text => crate::types::text::input(&ctx, column.ty(), text),
    };
    let rows = system().fixed.get(name).into_iter().flatten();
    rows.map(|row| table.columns.iter().zip(row).map(value).collect()).collect()
}

/// The catalog as rows are made from it.
pub(super) struct Look<'a> {
    pub(super) system: &'a SessionSystem<'a>,
    /// In the order of their numbers.
    pub(super) objects: Vec<Arc<Object>>,
}

impl Look<'_> {
    fn tables(&self) -> impl Iterator<Item = &Table> {
        self.objects.iter().filter_map(|object| match &**object {
            Object::Table(table) => Some(table),
            _ => None,
        })
    }
}

/// The columns of the views, which their queries tell.
fn view_columns(on: &SessionSystem<'_>) -> &'static BTreeMap<Oid, Vec<Column>> {
    static COLUMNS: OnceLock<BTreeMap<Oid, Vec<Column>>> = OnceLock::new();
    COLUMNS.get_or_init(|| {
        let settings = crate::func::Settings::default();
        let ctx = crate::func::EvalContext::new(&settings, on, 0);
        let binder = Binder::new(ctx, on.store, &[], Vec::new());
        let views = system().relations.values().filter_map(|relation| match relation {
            SystemRelation::View(view) => Some(view),
            SystemRelation::Table(_) => None,
        });
        let columns = |view: &Arc<View>| {
            let bound = binder.view_query(view).expect("a view of the system has a query");
            let columns = Binder::output_columns(&bound);
            (view.oid, columns.iter().map(|(name, ty)| Column::new(name, *ty)).collect())
        };
        views.map(columns).collect()
    })
}

/// Makes rows of a relation from some of its columns' values.
struct Maker<const N: usize> {
    blank: Row,
    places: [usize; N],
}

impl<const N: usize> Maker<N> {
    fn of(relation: &str, columns: [&str; N]) -> Maker<N> {
        let Some(SystemRelation::Table(table)) = find(None, relation, &[]) else {
            panic!("{relation} is a table of the system")
        };
        let place = |name: &str| {
            let found = table.columns.iter().position(|column| column.name == name);
            found.unwrap_or_else(|| panic!("{relation} has a column {name}"))
        };
        let blank = table.columns.iter().map(nothing).collect();
        Maker { blank, places: columns.map(place) }
    }

    fn row(&self, values: [Value; N]) -> Row {
        let mut row = self.blank.clone();
        for (place, value) in self.places.iter().zip(values) {
            row[*place] = value;
        }
        row
    }
}

/// What a column has that nothing is known for.
fn nothing(column: &Column) -> Value {
    if !column.not_null {
        return Value::Null;
    }
    match column.type_oid {
        oid::BOOL => Value::Bool(false),
        oid::INT2 => Value::Int2(0),
        oid::INT4 => Value::Int4(0),
        oid::INT8 => Value::Int8(0),
        oid::FLOAT4 => Value::Float4(0.0),
        oid::FLOAT8 => Value::Float8(0.0),
        oid::OID | oid::REGPROC | oid::XID | oid::REGTYPE => Value::Oid(0),
        oid::INT2VECTOR => vector(oid::INT2, Vec::new()),
        oid::OIDVECTOR => vector(oid::OID, Vec::new()),
        oid::TIMESTAMPTZ => Value::Timestamptz(0),
        _ => Value::text(""),
    }
}

/// An int2vector or oidvector: its subscripts begin at 0.
fn vector(element: Oid, elements: Vec<Value>) -> Value {
    let dimensions = vec![Dimension { len: elements.len() as i32, lower: 0 }];
    let dimensions = if elements.is_empty() { Vec::new() } else { dimensions };
    Value::Array(Arc::new(Array { element, dimensions, elements }))
}

fn letter(letter: char) -> Value {
    Value::text(if letter == ' ' { String::new() } else { letter.to_string() })
}

fn texts<'t>(list: impl Iterator<Item = &'t str>) -> Value {
    Value::array(oid::TEXT, list.map(Value::text).collect())
}

/// The number of a part of an object that has none of its own: a default, a label, a rule.
fn part_oid(object: Oid, part: usize) -> Oid {
    0x8000_0000 | (object << 11) | (part as Oid & 0x7ff)
}
