//! How objects are stored, as definitions say it: storage parameters, access methods, tablespaces, collations
//! and compression of columns.
//!
//! Liger stores everything in its one way, and only how long rows are can be chosen. So what PostgreSQL would
//! keep as a hint is checked as it checks it, kept where a dump asks for it (`pg_class.reloptions`), and
//! changes nothing; what there is not is refused.
use std::sync::Arc;

use crate::bind::{Collation, collation, type_text};
use crate::catalog::object::{Index, Object, Rule, Table};
use crate::error::{Result, Severity, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::session::settings::values::boolean;
use crate::exec::store::Store;
use crate::parse::ast::{AlterTable, ObjectKind, Path, Rebuild, Storing};
use crate::tree::OutColumn;
use crate::types::Oid;

/// Columns that every table has in PostgreSQL, whose names none may have.
pub(super) const SYSTEM_COLUMNS: [&str; 6] = ["tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"];

/// What values a storage parameter may have.
enum Allowed {
    Bool,
    Integer(i64, i64),
    Real(f64, f64),
    /// One of these words; which ones, for whoever gives another.
    Word(&'static [&'static str], &'static str),
}

use Allowed::{Bool, Integer, Real, Word};

/// Values that ANALYZE keeps of a column, at most.
const STATISTICS_MOST: i64 = 10_000;
const MOST: i64 = i32::MAX as i64;
const SWITCH: &str = "\"on\", \"off\", and \"auto\"";

/// Parameters of tables, and (behind `toast.`) of what lies outside of them; the first five are of tables
/// only. `row_bytes` is Liger's own: the length of a row that is to fit without values outside.
const OF_TABLES: &[(&str, Allowed)] = &[
    ("row_bytes", Integer(1, 65_535)),
    ("fillfactor", Integer(10, 100)),
    ("toast_tuple_target", Integer(128, 8160)),
    ("parallel_workers", Integer(0, 1024)),
    ("user_catalog_table", Bool),
    ("autovacuum_enabled", Bool),
    ("autovacuum_vacuum_threshold", Integer(0, MOST)),
    ("autovacuum_vacuum_insert_threshold", Integer(-1, MOST)),
    ("autovacuum_analyze_threshold", Integer(0, MOST)),
    ("autovacuum_vacuum_scale_factor", Real(0.0, 100.0)),
    ("autovacuum_vacuum_insert_scale_factor", Real(0.0, 100.0)),
    ("autovacuum_analyze_scale_factor", Real(0.0, 100.0)),
    ("autovacuum_vacuum_cost_delay", Real(0.0, 100.0)),
    ("autovacuum_vacuum_cost_limit", Integer(1, 10_000)),
    ("autovacuum_freeze_min_age", Integer(0, 1_000_000_000)),
    ("autovacuum_freeze_max_age", Integer(100_000, 2_000_000_000)),
    ("autovacuum_freeze_table_age", Integer(0, 2_000_000_000)),
    ("autovacuum_multixact_freeze_min_age", Integer(0, 1_000_000_000)),
    ("autovacuum_multixact_freeze_max_age", Integer(10_000, 2_000_000_000)),
    ("autovacuum_multixact_freeze_table_age", Integer(0, 2_000_000_000)),
    ("log_autovacuum_min_duration", Integer(-1, MOST)),
    ("vacuum_truncate", Bool),
    ("vacuum_index_cleanup", Word(&["auto", "on", "off", "true", "false", "yes", "no", "1", "0"], SWITCH)),
];
const OF_VIEWS: &[(&str, Allowed)] = &[
    ("security_barrier", Bool),
    ("security_invoker", Bool),
    ("check_option", Word(&["local", "cascaded"], "\"local\" and \"cascaded\"")),
];
const OF_BTREES: &[(&str, Allowed)] = &[("fillfactor", Integer(10, 100)), ("deduplicate_items", Bool)];
const OF_HASHES: &[(&str, Allowed)] = &[("fillfactor", Integer(10, 100))];
const OF_GINS: &[(&str, Allowed)] = &[("fastupdate", Bool), ("gin_pending_list_limit", Integer(64, MOST))];
const OF_BRINS: &[(&str, Allowed)] = &[("pages_per_range", Integer(1, 131_072)), ("autosummarize", Bool)];
const OF_GISTS: &[(&str, Allowed)] =
    &[("fillfactor", Integer(10, 100)), ("buffering", Word(&["auto", "on", "off"], SWITCH))];

#[cold]
fn bad(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

impl Allowed {
    fn check(&self, name: &str, value: &str) -> Result<()> {
        let invalid = |kind: &str| -> Result<()> {
            Err(bad(format!("invalid value for {kind} option \"{name}\": {value}")))
        };
        let outside = |low: String, high: String| {
            let message = format!("value {value} out of bounds for option \"{name}\"");
            Err(bad(message).detail(format!("Valid values are between \"{low}\" and \"{high}\".")))
        };
        match self {
            Bool if value.is_empty() || boolean(value).is_some() => Ok(()),
            Bool => invalid("boolean"),
            Integer(low, high) => match value.parse::<i64>() {
                Ok(number) if (*low..=*high).contains(&number) => Ok(()),
                Ok(_) => outside(low.to_string(), high.to_string()),
                Err(_) => invalid("integer"),
            },
            Real(low, high) => match value.parse::<f64>() {
                Ok(number) if (*low..=*high).contains(&number) => Ok(()),
                Ok(_) => outside(format!("{low:.6}"), format!("{high:.6}")),
                Err(_) => invalid("floating point"),
            },
            Word(words, _) if words.contains(&value.to_ascii_lowercase().as_str()) => Ok(()),
            Word(_, which) => {
                invalid("enum").map_err(|error| error.detail(format!("Valid values are {which}.")))
            }
        }
    }
}

/// Checks storage parameters of an object whose kind, or access method, is named.
pub(super) fn check_options(of: &str, options: &[(String, String)]) -> Result<()> {
    let known = match of {
        "table" => OF_TABLES,
        "view" => OF_VIEWS,
        "btree" => OF_BTREES,
        "hash" => OF_HASHES,
        "gin" => OF_GINS,
        "brin" => OF_BRINS,
        _ => OF_GISTS,
    };
    for (at, (name, value)) in options.iter().enumerate() {
        if options[..at].iter().any(|(other, _)| other == name) {
            return Err(bad(format!("parameter \"{name}\" specified more than once")));
        }
        if of == "table" && name == "oids" {
            match value.as_str() {
                "false" | "off" | "0" => continue,
                _ => {
                    let message = "tables declared WITH OIDS are not supported";
                    return Err(SqlError::refused_by_postgresql(message));
                }
            }
        }
        let (bare, known) = match name.strip_prefix("toast.").filter(|_| of == "table") {
            Some(bare) => (bare, &known[5..]),
            None => (name.as_str(), known),
        };
        match known.iter().find(|(known, _)| *known == bare) {
            Some((_, allowed)) => allowed.check(bare, value)?,
            None => return Err(bad(format!("unrecognized parameter \"{bare}\""))),
        }
    }
    Ok(())
}

/// Refuses an access method that no table has.
pub(crate) fn check_method(method: &str) -> Result<()> {
    match method {
        "heap" => Ok(()),
        "btree" | "hash" | "gist" | "gin" | "spgist" | "brin" => {
            let message = format!("access method \"{method}\" is not of type TABLE");
            Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
        }
        _ => {
            let message = format!("access method \"{method}\" does not exist");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
        }
    }
}

fn check_tablespace(name: &str) -> Result<()> {
    match name {
        "pg_default" => Ok(()),
        "pg_global" => Err(bad("only shared relations can be placed in pg_global tablespace".to_string())),
        _ => {
            let message = format!("tablespace \"{name}\" does not exist");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
        }
    }
}

pub(super) fn check_storing(of: &str, storing: &Storing) -> Result<()> {
    check_options(of, &storing.options)?;
    storing.method.as_deref().map_or(Ok(()), check_method)?;
    storing.tablespace.as_deref().map_or(Ok(()), check_tablespace)
}

/// What a table keeps of its parameters.
pub(super) fn kept(options: &[(String, String)]) -> impl Iterator<Item = (String, String)> {
    let value = |value: &String| if value.is_empty() { "true".to_string() } else { value.clone() };
    let kept = options.iter().filter(|(name, _)| name != "oids");
    kept.map(|(name, text)| (name.clone(), value(text))).collect::<Vec<_>>().into_iter()
}

/// Refuses a name of a column that PostgreSQL's tables have anyway.
pub(super) fn check_column_name(name: &str) -> Result<()> {
    if !SYSTEM_COLUMNS.contains(&name) {
        return Ok(());
    }
    let message = format!("column name \"{name}\" conflicts with a system column name");
    Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message))
}

impl<S: Store> LocalSession<S> {
    /// What `SET STATISTICS` says; `None`: what the setting says.
    pub(super) fn statistics_target(&self, target: i64) -> Result<Option<u16>> {
        if target < -1 {
            let message = format!("statistics target {target} is too low");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        if target > STATISTICS_MOST {
            let message = format!("lowering statistics target to {STATISTICS_MOST}");
            let warning = SqlError::notice(Severity::Warning, SqlState::INVALID_PARAMETER_VALUE, message);
            self.shared.notices.borrow_mut().push(warning);
        }
        Ok(u16::try_from(target.min(STATISTICS_MOST)).ok())
    }

    /// The collation that a query's column has as one of a table.
    pub(super) fn kept_collation(&self, name: &str, column: &OutColumn) -> Result<Option<String>> {
        if let Collation::Conflict(..) = column.collation {
            let shown = self.with_binder(|binder| Ok(type_text(binder.types(), column.ty.oid)))?;
            return Err(collation::not_derived(name, &shown));
        }
        Ok(kept_name(column.collation.name()))
    }

    /// What a column keeps of a collation that was said; refuses one that there is not, or of a type that has
    /// none.
    pub(super) fn check_collation(&self, ty: Oid, collation: Option<&Path>) -> Result<Option<String>> {
        let Some(collation) = collation else { return Ok(None) };
        self.with_binder(|binder| binder.check_collation(ty, collation, collation.pos))
            .map(|name| kept_name(Some(name)))
    }

    pub(super) fn check_compression(&self, ty: Oid, method: Option<&str>) -> Result<()> {
        let Some(method) = method.filter(|method| *method != "default") else { return Ok(()) };
        self.with_binder(|binder| {
            let is_long = binder.types().type_info(ty).is_some_and(|info| info.len < 0);
            if !is_long {
                let shown = crate::bind::type_text(binder.types(), ty);
                let message = format!("column data type {shown} does not support compression");
                return Err(SqlError::refused_by_postgresql(message));
            }
            if !matches!(method, "pglz" | "lz4") {
                return Err(bad(format!("invalid compression method \"{method}\"")));
            }
            Ok(())
        })
    }

    /// The letter of a way to store values, as `SET STORAGE` names it; none: their type's own.
    pub(super) fn storage_of(&self, ty: Oid, way: &str) -> Result<Option<char>> {
        let letter = match way {
            "plain" => 'p',
            "external" => 'e',
            "extended" => 'x',
            "main" => 'm',
            _ => return Err(bad(format!("invalid storage type \"{way}\""))),
        };
        self.with_binder(|binder| {
            let info = binder.types().type_info(ty);
            if letter != 'p' && info.as_ref().is_some_and(|info| info.len >= 0) {
                let shown = type_text(binder.types(), ty);
                let message = format!("column data type {shown} can only have storage PLAIN");
                return Err(SqlError::refused_by_postgresql(message));
            }
            Ok(info.is_none_or(|info| info.storage != letter).then_some(letter))
        })
    }

    /// Carries out what ALTER TABLE says of how a relation is stored; false: it says something else.
    pub(super) fn alter_storing(&mut self, object: &Object, action: &AlterTable) -> Result<bool> {
        match action {
            AlterTable::Store(storing) => {
                let of = match object {
                    Object::View(_) => "view",
                    Object::Index(index) => index.method.as_str(),
                    _ => "table",
                };
                check_storing(of, storing)?;
                self.set_options(object, |options| {
                    for (name, value) in kept(&storing.options) {
                        options.retain(|(other, _)| *other != name);
                        options.push((name, value));
                    }
                })?;
            }
            AlterTable::ResetOptions(names) => {
                self.set_options(object, |options| {
                    options.retain(|(own, _)| !names.iter().any(|(name, _)| name == own));
                })?;
            }
            AlterTable::Logged(logged) => {
                let Object::Table(table) = object else { return Ok(false) };
                if self.is_temporary(table.schema) {
                    let message = format!(
                        "cannot change logged status of table \"{}\" because it is temporary",
                        table.name
                    );
                    return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
                }
                self.refuse_mixed_keys(table, *logged)?;
                self.store.replace(Object::Table(Table { unlogged: !logged, ..table.clone() }))?;
            }
            AlterTable::ClusterOn(name) => {
                let index = self.index_of_table(object, &name.text)?;
                if index.predicate.is_some() {
                    let message = format!("cannot cluster on partial index \"{}\"", name.text);
                    return Err(SqlError::refused_by_postgresql(message));
                }
                self.cluster_on(object, Some(&name.text))?;
            }
            AlterTable::WithoutCluster => self.cluster_on(object, None)?,
            AlterTable::Triggers { name: Some(name), .. } => {
                let message =
                    format!("trigger \"{}\" for table \"{}\" does not exist", name.text, object.name());
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
            AlterTable::Triggers { enable: false, keys: true, .. } => {
                let message = "foreign keys go on to be checked: they are no triggers";
                let warning = crate::exec::session::run::warning(SqlState::WARNING, message);
                self.shared.notices.borrow_mut().push(warning);
            }
            AlterTable::SwitchRule { name, .. } => {
                let message =
                    format!("rule \"{}\" for relation \"{}\" does not exist", name.text, object.name());
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
            AlterTable::NoInherit(parent) => {
                let parent = self.with_binder(|binder| binder.target_table(parent))?;
                let message =
                    format!("relation \"{}\" is not a parent of relation \"{}\"", parent.name, object.name());
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
            }
            AlterTable::Triggers { .. } | AlterTable::Nothing => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_options(&self, object: &Object, change: impl FnOnce(&mut Vec<(String, String)>)) -> Result<()> {
        let mut new = object.clone();
        match &mut new {
            Object::Table(table) => change(&mut table.options),
            Object::View(view) => change(&mut view.options),
            _ => return Ok(()),
        }
        self.store.replace(new)
    }

    /// An index of a table, by its name.
    fn index_of_table(&self, table: &Object, name: &str) -> Result<Arc<Index>> {
        let found = self.store.indexes(table.oid()).into_iter().find(|index| index.name == name);
        found.ok_or_else(|| {
            let message = format!("index \"{name}\" for table \"{}\" does not exist", table.name());
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })
    }

    /// CLUSTER and REINDEX, for which there is nothing to do: rows lie in the order of their keys, and
    /// indexes are never bloated. What they name has to be there.
    pub(crate) fn rebuild(&self, rebuild: &Rebuild) -> Result<()> {
        if rebuild.system && rebuild.concurrently {
            let message = "cannot reindex system catalogs concurrently";
            return Err(SqlError::refused_by_postgresql(message));
        }
        let Some(path) = &rebuild.name else { return Ok(()) };
        match rebuild.kind {
            ObjectKind::Schema if self.store.schema(path.last()).is_none() => {
                let message = format!("schema \"{}\" does not exist", path.last());
                Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message))
            }
            ObjectKind::Database if path.last() != self.shared.database => {
                let message = "can only reindex the currently open database";
                Err(SqlError::refused_by_postgresql(message))
            }
            ObjectKind::Schema => {
                let schema = self.store.schema(path.last()).and_then(|oid| self.store.object(oid));
                schema.map_or(Ok(()), |schema| self.must_own(&schema))
            }
            ObjectKind::Database => Ok(()),
            ObjectKind::Index => match self.find(path)?.as_deref() {
                Some(Object::Index(_)) => Ok(()),
                Some(_) => {
                    let message = format!("\"{}\" is not an index", path.last());
                    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
                }
                None => self.missing("relation", SqlState::UNDEFINED_TABLE, path, false),
            },
            _ => {
                let object = self.find(path)?;
                let Some(object) = object else {
                    return self.missing("relation", SqlState::UNDEFINED_TABLE, path, false);
                };
                self.must_own(&object)?;
                if let Some(index) = &rebuild.index {
                    self.index_of_table(&object, &index.text)?;
                    return self.cluster_on(&object, Some(&index.text));
                }
                let indexes = self.store.indexes(object.oid());
                if rebuild.tag == "REINDEX" && indexes.is_empty() {
                    let which = if rebuild.concurrently {
                        "that can be reindexed concurrently"
                    } else {
                        "to reindex"
                    };
                    self.notice(format!("table \"{}\" has no indexes {which}", path.last()));
                }
                let clustered = indexes.iter().any(|index| index.clustered);
                if rebuild.tag == "CLUSTER" && !clustered {
                    let message =
                        format!("there is no previously clustered index for table \"{}\"", object.name());
                    return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
                }
                Ok(())
            }
        }
    }

    /// Takes note of the index by which a table is said to lie; none without a name.
    fn cluster_on(&self, table: &Object, name: Option<&str>) -> Result<()> {
        for index in self.store.indexes(table.oid()).iter() {
            let clustered = name == Some(index.name.as_str());
            if index.clustered != clustered {
                self.store.replace(Object::Index(Index { clustered, ..(**index).clone() }))?;
            }
        }
        Ok(())
    }

    /// Refuses a table that is logged and refers to one that is not.
    fn refuse_mixed_keys(&self, table: &Table, logged: bool) -> Result<()> {
        let referring = if logged { vec![] } else { self.store.referencing(table.oid) };
        let mut others: Vec<Arc<Object>> =
            referring.iter().filter_map(|child| self.store.object(child.oid)).collect();
        for constraint in table.constraints.iter().filter(|_| logged) {
            if let Rule::ForeignKey { table: parent, .. } = constraint.rule {
                others.extend(self.store.object(parent));
            }
        }
        let is_other = |object: &Arc<Object>| match &**object {
            Object::Table(other) => other.oid != table.oid && other.unlogged == logged,
            _ => false,
        };
        let Some(other) = others.iter().find(|object| is_other(object)) else { return Ok(()) };
        let (to, kind) = if logged { ("logged", "unlogged") } else { ("unlogged", "logged") };
        let message = format!(
            "could not change table \"{}\" to {to} because it references {kind} table \"{}\"",
            table.name,
            other.name()
        );
        Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
    }
}

/// Adds the parameters of a definition to a new table.
pub(super) fn store_in(table: &mut Table, storing: &Storing) -> Result<()> {
    check_storing("table", storing)?;
    table.options = kept(&storing.options).collect();
    table.unlogged = storing.unlogged;
    Ok(())
}

/// The default collation is kept as none.
fn kept_name(collation: Option<&str>) -> Option<String> {
    collation.filter(|name| *name != "default").map(str::to_string)
}
