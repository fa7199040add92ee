//! The relations of `pg_catalog` and `information_schema`: their numbers, names, columns, and the queries of
//! those that are views. The rows are made where they are read (exec/system_tables).
//!
//! * `data/relations.tsv` names the tables' columns and `data/rows.tsv` rows that never change (both made by
//!   `data/make.py` from PostgreSQL's own description), `data/own.tsv` the columns of what PostgreSQL does
//!   not have; `data/views.sql`, `data/statistics.sql` and `data/standard.sql` have the views, and
//!   `data/empty.tsv` the columns of those that have no rows here (made by `data/make_empty.sh`).
//!
//! Names, order and types of columns are PostgreSQL 15's (of `routines` and `parameters` only the first
//! ones), and oids of its tables, types, functions and operators are its own; those of views are given here
//! by their place among them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::object::{BOOTSTRAP_ROLE, Column, Expression, PG_CATALOG, Sequence, Table, View};
use crate::func::quote_ident;
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

/// Rows of a relation that never change, column by column as text.
pub(crate) fn fixed_rows(relation: &str) -> &'static [Vec<&'static str>] {
    system().fixed.get(relation).map_or(&[], Vec::as_slice)
}

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = &'static SystemRelation> {
    system().relations.values()
}

fn system() -> &'static System {
    static SYSTEM: OnceLock<System> = OnceLock::new();
    SYSTEM.get_or_init(|| {
        let (mut names, mut fixed) = (BTreeMap::new(), BTreeMap::new());
        let mut relations: BTreeMap<Oid, Table> = BTreeMap::new();
        let own = include_str!("system/data/own.tsv");
        for line in include_str!("system/data/relations.tsv").lines().chain(own.lines()) {
            let fields: Vec<&'static str> = line.split('\t').collect();
            let [name, number, column, ty, present] = fields[..] else { panic!("a column of {line}") };
            let number: Oid = number.parse().expect("a relation's oid");
            names.insert((PG_CATALOG, name), number);
            let relation = relations
                .entry(number)
                .or_insert_with(|| Table::empty(number, name, PG_CATALOG, BOOTSTRAP_ROLE));
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
        for line in include_str!("system/data/rows.tsv").lines() {
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
        include_str!("system/data/views.sql"),
        include_str!("system/data/statistics.sql"),
        include_str!("system/data/standard.sql"),
    ];
    let query = |text: &'static str| {
        let (head, sql) = text.split_once('\n').expect("a view has a query");
        let name = head.strip_prefix("-- ").and_then(|head| head.split_once('.')).expect("its name");
        (name, sql.trim_end().trim_end_matches(';').to_string())
    };
    let mut views: Vec<_> = files.into_iter().flat_map(|file| file.split("\n\n")).map(query).collect();
    let lines =
        include_str!("system/data/empty.tsv").lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let lines: Vec<_> = lines.collect();
    for columns in lines.chunk_by(|a, b| a[..2] == b[..2]) {
        let columns_sql: Vec<String> = columns
            .iter()
            .map(|column| format!("null::{} as {}", column[3], quote_ident(column[2])))
            .collect();
        let sql = format!("select {} where false", columns_sql.join(", "));
        views.push(((columns[0][0], columns[0][1]), sql));
    }
    views
}

/// A sequence as a table of one row.
pub(crate) fn of_sequence(sequence: &Sequence) -> Table {
    let columns = [("last_value", oid::INT8), ("log_cnt", oid::INT8), ("is_called", oid::BOOL)];
    let columns = columns.map(|(name, ty)| Column::new(name, Type::of(ty)).not_null());
    let empty = Table::empty(sequence.oid, &sequence.name, sequence.schema, sequence.owner);
    Table { columns: columns.to_vec(), ..empty }
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

/// Columns of the system's tables whose values lead to their rows, as PostgreSQL's indexes do.
const KEYS: &[(&str, &[&str])] = &[
    ("pg_attrdef", &["oid", "adrelid"]),
    ("pg_attribute", &["attrelid"]),
    ("pg_class", &["oid", "relname"]),
    ("pg_constraint", &["oid", "conrelid", "confrelid", "conindid", "contypid"]),
    ("pg_depend", &["objid"]),
    ("pg_description", &["objoid"]),
    ("pg_enum", &["oid", "enumtypid"]),
    ("pg_index", &["indexrelid", "indrelid"]),
    ("pg_rewrite", &["oid", "ev_class"]),
    ("pg_sequence", &["seqrelid"]),
    ("pg_statistic", &["starelid"]),
    ("pg_type", &["oid"]),
];

/// Whether the values of a column of the system's table with this number lead to its rows.
pub(crate) fn is_key(relation: Oid, column: usize) -> bool {
    let Some(SystemRelation::Table(table)) = by_oid(relation) else { return false };
    let keys = KEYS.iter().find(|(name, _)| *name == table.name).map_or(&[][..], |(_, keys)| keys);
    table.columns.get(column).is_some_and(|column| keys.contains(&column.name.as_str()))
}

/// The system's relation with this number.
pub(crate) fn by_oid(oid: Oid) -> Option<&'static SystemRelation> {
    system().relations.get(&oid)
}
