//! The system behind expressions: sequences, settings, names of objects, who is asking.
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::advisory::{self, Advisory};
use super::notify::{self, Notify};
use super::privilege::{self, Usable};
use super::reg;
use super::session::settings::Variables;
use super::session::{Portal, Prepared};
use super::store::Store;
use super::system_tables::{self, INFORMATION_SCHEMA, calls};
use crate::bind::{Collation, catalog_type};
use crate::catalog::object::Object;
use crate::error::{Result, SqlError, SqlState};
use crate::func::quote_ident;
use crate::session::SessionStart;
use crate::temporary::{TemporaryFiles, TemporaryPlace, TemporaryTotals};
use crate::tree::OutColumn;
use crate::types::context::System;
use crate::types::value::Value;
use crate::types::{Oid, Type, TypeInfo, builtin_by_name, format_builtin, oid};

/// Clock and randomness of the host.
pub trait Surroundings: Send {
    /// Microseconds since 2000-01-01 00:00 UTC.
    fn clock_us(&self) -> i64;
    /// 64 random bits.
    fn random_u64(&self) -> u64;
    /// Where temporary files are.
    fn temporary_place(&self) -> Arc<dyn TemporaryPlace>;
}

/// What a session remembers between statements and functions may look at.
pub(crate) struct Shared {
    pub(crate) variables: RefCell<Variables>,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) process_id: i32,
    /// To be looked at where a statement waits.
    pub(crate) interrupt: Arc<crate::session::Interrupt>,
    /// The other sessions of this host.
    pub(crate) server: Arc<dyn crate::session::ServerView>,
    pub(crate) surroundings: Box<dyn Surroundings>,
    pub(crate) temporary: Arc<TemporaryFiles>,
    pub(crate) notices: RefCell<Vec<SqlError>>,
    /// Random numbers after `setseed`.
    pub(crate) seeded: std::cell::Cell<Option<super::seed::Seeded>>,
    /// Whether the current role is a superuser, at this number of the catalog and of roles.
    pub(crate) superuser: std::cell::Cell<Option<((u64, u64), bool)>>,
    /// The schemas of a search path that the current role may use, at these numbers.
    pub(crate) usable: RefCell<Option<Usable>>,
    /// Last numbers of sequences in this session, and the last sequence.
    pub(crate) current: RefCell<BTreeMap<Oid, i64>>,
    pub(crate) last: RefCell<Option<Oid>>,
    /// Labels that the transaction has added to enum types.
    pub(crate) new_labels: RefCell<Vec<(Oid, String)>>,
    /// Advisory locks.
    pub(crate) advisory: Advisory,
    /// LISTEN and NOTIFY.
    pub(crate) notify: Notify,
    /// Where notifications go.
    pub(crate) client: Arc<dyn crate::session::Client>,
}

impl Shared {
    pub(crate) fn new(
        start: &SessionStart,
        surroundings: Box<dyn Surroundings>,
        written: Arc<TemporaryTotals>,
    ) -> Shared {
        let temporary = TemporaryFiles::new(
            surroundings.temporary_place(),
            start.process_id,
            start.interrupt.clone(),
            written,
        );
        Shared {
            temporary: Arc::new(temporary),
            variables: RefCell::new(Variables::new(&start.user, &start.encoding)),
            user: start.user.clone(),
            database: start.database.clone(),
            process_id: start.process_id,
            interrupt: start.interrupt.clone(),
            server: start.server.clone(),
            surroundings,
            notices: RefCell::default(),
            seeded: std::cell::Cell::new(None),
            superuser: std::cell::Cell::new(None),
            usable: RefCell::default(),
            current: RefCell::default(),
            last: RefCell::default(),
            new_labels: RefCell::default(),
            advisory: Advisory::default(),
            notify: Notify::default(),
            client: start.client.clone(),
        }
    }
}

pub(crate) struct SessionSystem<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) shared: &'a Shared,
    pub(crate) search_path: &'a [String],
    pub(crate) statements: &'a BTreeMap<String, Arc<Prepared>>,
    pub(crate) portals: &'a BTreeMap<String, Portal>,
}

pub(super) fn text_of(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or("")
}

pub(super) fn oid_of(value: Option<&Value>) -> Oid {
    value.and_then(Value::as_i64).unwrap_or(0) as Oid
}

impl SessionSystem<'_> {
    pub(super) fn schemas(&self) -> Vec<Oid> {
        self.search_path.iter().filter_map(|name| self.store.schema(name)).collect()
    }

    fn relation(&self, name: &str) -> Result<Option<Oid>> {
        if let Ok(number) = name.parse::<Oid>() {
            return Ok(Some(number));
        }
        let path = crate::parse::parse_path(name)
            .map_err(|_| SqlError::new(SqlState::INVALID_NAME, "invalid name syntax"))?;
        if let Some(system) = system_tables::find(path.schema(), path.last(), self.search_path) {
            return Ok(Some(system.oid()));
        }
        Ok(match path.schema() {
            Some(schema) => {
                self.store.schema(schema).and_then(|schema| self.store.relation(schema, path.last()))
            }
            None => self.schemas().into_iter().find_map(|schema| self.store.relation(schema, path.last())),
        }
        .map(|object| object.oid()))
    }

    fn type_by_name(&self, name: &str) -> Result<Option<Oid>> {
        if let Ok(number) = name.parse::<Oid>() {
            return Ok(Some(number));
        }
        let parsed = crate::parse::parse_type(name)?;
        let settings = crate::types::context::Settings::default();
        let ctx = crate::types::context::EvalContext::new(&settings, self, 0);
        let binder = crate::bind::Binder::new(ctx, self.store, self.search_path, Vec::new());
        Ok(binder.resolve_type(&parsed).ok().map(|ty| ty.oid))
    }

    /// Whether the search path finds it by its bare name.
    pub(super) fn is_visible(&self, object: &Object) -> bool {
        let (name, schemas) = (object.name(), self.schemas());
        let first = match object {
            Object::Type(_) if catalog_type(name).is_some() => None,
            Object::Type(_) => schemas.into_iter().find_map(|schema| self.store.type_named(schema, name)),
            Object::Schema(_) | Object::Role(_) => return true,
            _ if system_tables::find(None, name, self.search_path).is_some() => None,
            _ => schemas.into_iter().find_map(|schema| self.store.relation(schema, name)),
        };
        first.is_some_and(|first| first.oid() == object.oid())
    }

    /// A name, qualified where the search path does not find it.
    pub(super) fn shown(&self, oid: Oid) -> Option<String> {
        if let Some(relation) = system_tables::by_oid(oid) {
            let schema = if relation.schema() == INFORMATION_SCHEMA { "information_schema." } else { "" };
            return Some(format!("{schema}{}", quote_ident(relation.name())));
        }
        let object = self.store.object(oid)?;
        let name = match &*object {
            Object::Type(user) if user.array == oid => format!("{}[]", quote_ident(&user.name)),
            other => quote_ident(other.name()),
        };
        let schema = self.store.object(object.schema());
        Some(match (self.is_visible(&object), schema) {
            (false, Some(schema)) => format!("{}.{name}", quote_ident(schema.name())),
            _ => name,
        })
    }

    /// A name with its schema.
    pub(super) fn qualified(&self, schema: Oid, name: &str) -> String {
        match self.store.object(schema) {
            Some(schema) => format!("{}.{}", quote_ident(schema.name()), quote_ident(name)),
            None => quote_ident(name),
        }
    }

    pub(super) fn format_type(&self, ty: Type) -> String {
        if ty.oid == 0 {
            return "-".to_string();
        }
        format_builtin(ty).or_else(|| self.shown(ty.oid)).unwrap_or_else(|| "???".to_string())
    }

    /// A type with its modifier, as it would be written: `character` alone would be read as `character(1)`.
    pub(super) fn written_type(&self, ty: Type) -> String {
        let unlimited = ty.modifier < 0;
        match ty.oid {
            oid::BPCHAR if unlimited => "bpchar".to_string(),
            oid::BPCHAR_ARRAY if unlimited => "bpchar[]".to_string(),
            oid::BIT if unlimited => "\"bit\"".to_string(),
            oid::BIT_ARRAY if unlimited => "\"bit\"[]".to_string(),
            _ => self.format_type(ty),
        }
    }

    fn sequence_name(&self, oid: Oid) -> Result<String> {
        match self.store.object(oid).as_deref() {
            Some(Object::Sequence(sequence)) => Ok(sequence.name.clone()),
            Some(other) => {
                let message = format!("\"{}\" is not a sequence", other.name());
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            None => Err(SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!("relation with OID {oid} does not exist"),
            )),
        }
    }

    /// Refuses functions of sequences: each asks for one of some privileges.
    fn may_use_sequence(&self, source: &str, oid: Oid) -> Result<()> {
        let wanted = match source {
            "nextval_oid" => privilege::USAGE | privilege::UPDATE,
            "currval_oid" | "lastval" => privilege::USAGE | privilege::SELECT,
            _ => privilege::UPDATE,
        };
        if privilege::asks_superuser(self.store, self.shared) {
            return Ok(());
        }
        let Some(object) = self.store.object(oid) else { return Ok(()) };
        let role = privilege::asking(self.store, self.shared);
        if privilege::held(self.store, role, &object, wanted, false) != 0 {
            return Ok(());
        }
        Err(privilege::denied(&object))
    }

    fn sequences(&self, source: &str, arguments: &[Value]) -> Result<Value> {
        let sequence = match source {
            "lastval" => self.shared.last.borrow().unwrap_or(0),
            _ => oid_of(arguments.first()),
        };
        // Of an identity column, whose numbers whoever may insert takes; nobody can write such a call.
        let is_identity = source == "nextval_oid" && arguments.len() > 1;
        if !is_identity {
            self.may_use_sequence(source, sequence)?;
        }
        let writes = match source {
            "nextval_oid" => Some("nextval()"),
            "setval_oid" | "setval3_oid" => Some("setval()"),
            _ => None,
        };
        if let Some(what) = writes.filter(|_| self.shared.variables.borrow().is_read_only())
            && let Some(Object::Sequence(known)) = self.store.object(sequence).as_deref()
            && self.store.own_schema(false).is_ok_and(|own| own != Some(known.schema))
        {
            let message = format!("cannot execute {what} in a read-only transaction");
            return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        match source {
            "nextval_oid" => {
                self.sequence_name(sequence)?;
                let value = self.store.next_value(sequence)?;
                self.shared.current.borrow_mut().insert(sequence, value);
                *self.shared.last.borrow_mut() = Some(sequence);
                Ok(Value::Int8(value))
            }
            "currval_oid" => {
                let name = self.sequence_name(sequence)?;
                self.shared.current.borrow().get(&sequence).map(|value| Value::Int8(*value)).ok_or_else(
                    || {
                        let message =
                            format!("currval of sequence \"{name}\" is not yet defined in this session");
                        SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                    },
                )
            }
            "lastval" => {
                let last = *self.shared.last.borrow();
                let there = last.filter(|last| self.store.object(*last).is_some());
                let value = there.and_then(|last| self.shared.current.borrow().get(&last).copied());
                value.map(Value::Int8).ok_or_else(|| {
                    let message = "lastval is not yet defined in this session";
                    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                })
            }
            _ => {
                self.sequence_name(sequence)?;
                let value = arguments.get(1).and_then(Value::as_i64).unwrap_or(0);
                let called = !matches!(arguments.get(2), Some(Value::Bool(false)));
                if let Some(Object::Sequence(known)) = self.store.object(sequence).as_deref()
                    && !(known.min..=known.max).contains(&value)
                {
                    let (name, min, max) = (&known.name, known.min, known.max);
                    let message = format!(
                        "setval: value {value} is out of bounds for sequence \"{name}\" ({min}..{max})"
                    );
                    return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
                }
                self.store.set_value(sequence, value, called)?;
                if called {
                    self.shared.current.borrow_mut().insert(sequence, value);
                }
                Ok(Value::Int8(value))
            }
        }
    }

    fn serial_sequence(&self, arguments: &[Value]) -> Result<Value> {
        let table = self.reg_in(oid::REGCLASS, text_of(arguments.first()))?;
        let column = text_of(arguments.get(1));
        let Some(Object::Table(table)) = self.store.object(table).as_deref().cloned() else {
            return Ok(Value::Null);
        };
        let Some(at) = table.columns.iter().position(|c| c.name == column) else {
            let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        };
        for object in self.store.sequences_of(table.oid) {
            if let Object::Sequence(sequence) = &*object
                && sequence.owned_by == Some((table.oid, at as u16))
            {
                let schema =
                    self.store.object(sequence.schema).map_or(String::new(), |s| quote_ident(s.name()) + ".");
                return Ok(Value::text(schema + &quote_ident(&sequence.name)));
            }
        }
        Ok(Value::Null)
    }

    fn session(&self, source: &str, arguments: &[Value]) -> Result<Value> {
        let shared = self.shared;
        // By their own names, and without what is looked at besides.
        let listed = privilege::usable_path(self.store, shared);
        let named = |name: &String| Some(self.store.object(self.store.schema(name)?)?.name().to_owned());
        let path = || listed.iter().filter_map(named);
        Ok(match source {
            "current_user" => Value::text(shared.variables.borrow().current_role(&shared.user)),
            "session_user" => Value::text(shared.variables.borrow().session_role(&shared.user)),
            "current_database" => Value::text(shared.database.as_str()),
            "current_schema" => path().next().map_or(Value::Null, Value::text),
            "current_schemas" => {
                let implicit = matches!(arguments.first(), Some(Value::Bool(true)));
                let besides = self.search_path.iter().filter(|name| !listed.contains(name)).filter_map(named);
                let catalog = besides.chain(["pg_catalog".to_owned()]).filter(|_| implicit);
                let names = catalog.chain(path()).map(Value::text).collect();
                Value::array(oid::NAME, names)
            }
            "pgsql_version" => Value::text("PostgreSQL 15.0 (Liger)"),
            "pg_backend_pid" => Value::Int4(shared.process_id),
            "show_config_by_name" => Value::text(shared.variables.borrow().get(text_of(arguments.first()))?),
            "show_config_by_name_missing_ok" => {
                let variables = shared.variables.borrow();
                match variables.get(text_of(arguments.first())) {
                    Ok(value) => Value::text(value),
                    Err(_) if matches!(arguments.get(1), Some(Value::Bool(true))) => Value::Null,
                    Err(error) => return Err(error),
                }
            }
            _ => {
                let (name, value) = (text_of(arguments.first()), text_of(arguments.get(1)));
                let local = matches!(arguments.get(2), Some(Value::Bool(true)));
                privilege::check_setting(self.store, shared, name, value)?;
                shared.variables.borrow_mut().set(name, value, local)?;
                Value::text(shared.variables.borrow().get(name)?)
            }
        })
    }
}

const SEQUENCES: &[&str] = &["nextval_oid", "currval_oid", "lastval", "setval_oid", "setval3_oid"];
const SESSION: &[&str] = &[
    "current_user",
    "session_user",
    "current_database",
    "current_schema",
    "current_schemas",
    "pgsql_version",
    "pg_backend_pid",
    "show_config_by_name",
    "show_config_by_name_missing_ok",
    "set_config_by_name",
];
const OTHERS: &[&str] = &[
    "setseed",
    "format_type",
    "pg_get_serial_sequence",
    "to_regclass",
    "to_regtype",
    "pg_notify",
    "pg_notification_queue_usage",
    "pg_export_snapshot",
];

impl System for SessionSystem<'_> {
    fn clock_us(&self) -> i64 {
        self.shared.surroundings.clock_us()
    }

    fn temporary_files(&self) -> Option<Arc<TemporaryFiles>> {
        let (limit_kb, log_kb) = self.shared.variables.borrow().temporary;
        self.shared.temporary.hear(limit_kb, log_kb);
        Some(self.shared.temporary.clone())
    }

    fn random_u64(&self) -> u64 {
        self.shared.surroundings.random_u64()
    }

    fn seeded_u64(&self) -> u64 {
        let Some(seeded) = self.shared.seeded.get() else { return self.random_u64() };
        let (number, next) = seeded.next();
        self.shared.seeded.set(Some(next));
        number
    }

    fn type_info(&self, oid: Oid) -> Option<Cow<'_, TypeInfo>> {
        super::bare::type_info(self.store, oid)
    }

    fn enum_label(&self, oid: Oid, label: &str) -> Option<Value> {
        self.enum_labels(oid).into_iter().find(|value| value.as_str() == Some(label))
    }

    fn is_new_label(&self, oid: Oid, label: &str) -> bool {
        self.shared.new_labels.borrow().iter().any(|(of, new)| *of == oid && new == label)
    }

    fn enum_labels(&self, oid: Oid) -> Vec<Value> {
        super::bare::enum_labels(self.store, oid)
    }

    fn reg_in(&self, kind: Oid, name: &str) -> Result<Oid> {
        if name == "-" && kind != oid::REGOPER {
            return Ok(0);
        }
        let (found, state, what) = match kind {
            oid::REGCLASS => (self.relation(name)?, SqlState::UNDEFINED_TABLE, "relation"),
            oid::REGTYPE => (self.type_by_name(name)?, SqlState::UNDEFINED_OBJECT, "type"),
            oid::REGNAMESPACE if name == "information_schema" => {
                (Some(INFORMATION_SCHEMA), SqlState::INVALID_SCHEMA_NAME, "schema")
            }
            oid::REGNAMESPACE => {
                (self.store.schema(name.trim_matches('"')), SqlState::INVALID_SCHEMA_NAME, "schema")
            }
            oid::REGROLE => (self.store.role(name.trim_matches('"')), SqlState::UNDEFINED_OBJECT, "role"),
            oid::REGPROC | oid::REGPROCEDURE | oid::REGOPER | oid::REGOPERATOR => {
                return reg::read(self, kind, name);
            }
            oid::REGCONFIG => (None, SqlState::UNDEFINED_OBJECT, "text search configuration"),
            oid::REGDICTIONARY => (None, SqlState::UNDEFINED_OBJECT, "text search dictionary"),
            _ => (None, SqlState::UNDEFINED_OBJECT, "object"),
        };
        let named = crate::parse::parse_path(name).ok().filter(|_| kind == oid::REGCLASS);
        let name = named.map_or(name.to_string(), |path| path.shown());
        found.ok_or_else(|| SqlError::new(state, format!("{what} \"{name}\" does not exist")))
    }

    fn reg_out(&self, kind: Oid, oid: Oid) -> Option<String> {
        match kind {
            oid::REGTYPE => Some(self.format_type(Type::of(oid))).filter(|name| name != "???"),
            oid::REGPROC | oid::REGPROCEDURE | oid::REGOPER | oid::REGOPERATOR => {
                reg::written(self, kind, oid)
            }
            oid::REGNAMESPACE if oid == INFORMATION_SCHEMA => Some("information_schema".to_string()),
            _ => self.shown(oid),
        }
    }

    fn call(&self, source: &str, _oid: Oid, arguments: &[Value]) -> Result<Value> {
        if SEQUENCES.contains(&source) {
            return self.sequences(source, arguments);
        }
        if SESSION.contains(&source) {
            return self.session(source, arguments);
        }
        if super::sleep::SOURCES.contains(&source) {
            return super::sleep::call(self, arguments.first());
        }
        if advisory::knows(source) {
            return advisory::call(self, source, arguments);
        }
        let first = arguments.first();
        Ok(match source {
            "pg_notify" => notify::call(self.shared, arguments)?,
            "pg_export_snapshot" => Value::text(self.store.export_snapshot()?.ok_or_else(|| {
                let hint = "Begin it at REPEATABLE READ, with READ ONLY, and without LOCK TABLE.";
                let what = "pg_export_snapshot() of a transaction that does not read one snapshot";
                SqlError::unsupported(what, hint)
            })?),
            // Rows wait for as long as they have to.
            "pg_notification_queue_usage" => Value::Float8(0.0),
            "setseed" => {
                self.shared.seeded.set(Some(super::seed::Seeded::from(first)?));
                Value::Text("".into())
            }
            "format_type" if first.is_none_or(Value::is_null) => Value::Null,
            "format_type" => {
                let given = arguments.get(1).and_then(Value::as_i64);
                let ty = Type { oid: oid_of(first), modifier: given.unwrap_or(-1) as i32 };
                Value::text(if given.is_some() { self.written_type(ty) } else { self.format_type(ty) })
            }
            "pg_get_serial_sequence" => self.serial_sequence(arguments)?,
            "to_regclass" => self.relation(text_of(first))?.map_or(Value::Null, Value::Oid),
            "to_regtype" => match builtin_by_name(text_of(first)) {
                Some(info) => Value::Oid(info.oid),
                None => self.type_by_name(text_of(first)).ok().flatten().map_or(Value::Null, Value::Oid),
            },
            _ => return calls::call(self, source, arguments),
        })
    }

    fn call_set(
        &self,
        source: &str,
        _oid: Oid,
        arguments: &[Value],
    ) -> Result<crate::types::context::SetRows> {
        let rows = calls::rows(self, source, arguments)?;
        Ok(Box::new(rows.into_iter().map(Ok)))
    }

    fn relation_rows(&self, relation: Oid, key: Option<(usize, &Value)>) -> Result<Vec<Vec<Value>>> {
        system_tables::rows(self, relation, key)
    }

    fn has(&self, source: &str) -> bool {
        [SEQUENCES, SESSION, OTHERS, super::sleep::SOURCES].iter().any(|list| list.contains(&source))
            || advisory::knows(source)
            || calls::knows(source)
    }
}

/// A column of a utility's answer.
pub(crate) fn text_column(name: &str) -> OutColumn {
    OutColumn {
        name: name.to_string(),
        ty: Type::of(oid::TEXT),
        table: 0,
        attribute: 0,
        fields: None,
        collation: Collation::Default,
    }
}
