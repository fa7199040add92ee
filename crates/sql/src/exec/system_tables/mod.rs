//! The relations of `pg_catalog` and `information_schema` (catalog/system.rs describes them): the rows of the
//! tables are made from the catalog's objects when they are read; the views are over them.
//!
//! * `look`: the objects that rows are made of;
//! * `relations`: tables and columns; `keys`: indexes and constraints; `types`: types, functions, operators;
//!   `roles`: roles, schemas, the database; `activity`: what sessions do;
//! * `calls`: functions that read the catalog; `deparse`: expressions as PostgreSQL writes them;
//! * `operator_classes`: those of indexes;
//! * `pods`: the pod, this host and its statements;
//! * `server`: how the server is; `statistics`: what is known of the rows of tables.
//!
//! 1. Rows come in the order of the objects' numbers and name nothing that the transaction does not see.
//! 2. A column that nothing is known for is NULL, or 0, false or empty where PostgreSQL has no NULL.
//!
//! Not here: changes. The relations cannot be written.

mod activity;
pub(super) mod calls;
pub(super) mod deparse;
mod keys;
mod look;
pub(super) mod operator_classes;
mod pods;
mod privileges;
mod relations;
pub(crate) mod roles;
mod server;
mod sizes;
mod statistics;
mod types;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use look::{Look, Only};

use super::Row;
use super::system::SessionSystem;
use crate::bind::Binder;
use crate::catalog::object::{Column, Table, View};
use crate::catalog::part_oid;
pub(crate) use crate::catalog::system::{INFORMATION_SCHEMA, SystemRelation, by_oid, find};
use crate::error::Result;
use crate::types::value::{Array, Dimension, Value};
use crate::types::{Oid, oid};

/// The rows of a table of the system; with a key, at least those with this value in this column.
pub(super) fn rows(on: &SessionSystem<'_>, oid: Oid, key: Option<(usize, &Value)>) -> Result<Vec<Row>> {
    let Some(SystemRelation::Table(table)) = by_oid(oid) else {
        let (last, called) = on.store.sequence_state(oid)?;
        return Ok(vec![vec![Value::Int8(last), Value::Int8(0), Value::Bool(called)]]);
    };
    let look = key.and_then(|(column, value)| Look::by(on, table, column, value));
    let look = look.unwrap_or_else(|| Look { system: on, objects: on.store.objects(), only: Only::All });
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
        "pg_statistic" => statistics::rows(&look),
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
    let settings = crate::types::context::Settings::default();
    let ctx = crate::types::context::EvalContext::new(&settings, on, 0);
    let value = |(column, text): (&Column, &&str)| match *text {
        "\\N" => Ok(Value::Null),
        text if column.type_oid == oid::REGPROC => Ok(Value::Oid(text.parse().unwrap_or(0))),
        text => crate::types::text::input(&ctx, column.ty(), text),
    };
    let rows = crate::catalog::system::fixed_rows(name).iter();
    rows.map(|row| table.columns.iter().zip(row).map(value).collect()).collect()
}

/// The columns of the views, which their queries tell.
fn view_columns(on: &SessionSystem<'_>) -> &'static BTreeMap<Oid, Vec<Column>> {
    static COLUMNS: OnceLock<BTreeMap<Oid, Vec<Column>>> = OnceLock::new();
    COLUMNS.get_or_init(|| {
        let settings = crate::types::context::Settings::default();
        let ctx = crate::types::context::EvalContext::new(&settings, on, 0);
        let binder = Binder::new(ctx, on.store, &[], Vec::new());
        let views = crate::catalog::system::all().filter_map(|relation| match relation {
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
