//! Settings of a session: what SET, SHOW, RESET and set_config change and read.
//!
//! 1. Kept are only values that differ from those that [`list`] has for the start; [`values`] says what
//!    texts mean.
//! 2. What a transaction has set goes back at its end if that fails, what it has set for itself (SET
//!    LOCAL) in any case; a savepoint gives back what was set behind it.

pub(crate) mod list;
pub(crate) mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::encoding::{self, ClientEncoding};
use crate::error::{Result, Severity, SqlError, SqlState};
use crate::exec::store::IsolationLevel;
use crate::session::Timeouts;
use crate::temporary::KILOBYTE;
use crate::types::context::Settings;
use crate::types::costs::Costs;
use crate::types::datetime::date_style::DateStyle;
use crate::types::datetime::interval_style::IntervalStyle;
pub(crate) use values::{kilobytes, milliseconds};

const SESSION_ROLE: &str = "session_authorization";

/// Settings by name. A transaction's begin copies none of them.
type Values = Arc<BTreeMap<String, String>>;

/// The settings of one session.
#[derive(Clone, Debug)]
pub(crate) struct Variables {
    values: Values,
    /// What RESET goes back to.
    start: Values,
    /// What a transaction's end goes back to: SET LOCAL, and SET in a transaction that fails.
    at_begin: Option<Values>,
    /// What was there before a SET LOCAL; `None`: what the list has.
    local: BTreeMap<String, Option<String>>,
    /// Made of the values, for every statement to look at.
    pub(crate) eval: Arc<Settings>,
    pub(crate) search_path: Arc<[String]>,
    pub(crate) timeouts: Timeouts,
    /// `temp_file_limit` and `log_temp_files`, in kilobytes.
    pub(crate) temporary: (i64, i64),
    /// `auto_explain.log_min_duration`, where plans are told of.
    pub(crate) explain_after_ms: Option<u64>,
    /// Where `client_encoding` is told.
    encoding: Arc<ClientEncoding>,
    user: String,
    /// SET ROLE and SET SESSION AUTHORIZATION, where they say somebody else.
    role: Option<String>,
    session_role: Option<String>,
    /// How often one of them has changed.
    pub(crate) role_changes: u64,
    /// Backslashes escape in plain literals too (`standard_conforming_strings` is off).
    pub(crate) plain_escapes: bool,
    told: BTreeMap<&'static str, String>,
    /// Clients may have to be told of changes.
    is_news: bool,
    /// Something was set since the last end of a transaction.
    is_changed: bool,
}

/// What a savepoint remembers of the settings.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    values: Values,
    local: BTreeMap<String, Option<String>>,
}

impl Point {
    /// Whether the transaction might only read.
    pub(crate) fn is_read_only(&self) -> bool {
        value_in(&self.values, "transaction_read_only") == Some("on")
    }
}

fn canonical(name: &str) -> &str {
    list::find(name).map_or(name, |known| known.name)
}

/// A value, or that of the list.
fn value_in<'v>(values: &'v BTreeMap<String, String>, name: &str) -> Option<&'v str> {
    match values.get(name) {
        Some(value) => Some(value),
        None => list::find(name).map(|known| known.start.as_str()),
    }
}

impl Variables {
    pub(crate) fn new(user: &str, encoding: &Arc<ClientEncoding>) -> Variables {
        let values = Arc::new(BTreeMap::from([(SESSION_ROLE.to_string(), user.to_string())]));
        let mut made = Variables {
            start: values.clone(),
            values,
            at_begin: None,
            local: BTreeMap::new(),
            eval: Arc::new(Settings::default()),
            search_path: Arc::default(),
            timeouts: Timeouts::default(),
            temporary: (-1, -1),
            explain_after_ms: None,
            encoding: encoding.clone(),
            user: user.to_string(),
            role: None,
            session_role: None,
            role_changes: 0,
            plain_escapes: false,
            told: BTreeMap::new(),
            is_news: true,
            is_changed: false,
        };
        made.apply_all();
        made
    }

    fn put(&mut self, name: &str, value: Option<String>) {
        let values = Arc::make_mut(&mut self.values);
        match value {
            Some(value) => values.insert(name.to_string(), value),
            None => values.remove(name),
        };
        (self.is_news, self.is_changed) = (true, true);
    }

    /// The role whose rights count, where `user` has logged in.
    pub(crate) fn current_role<'v>(&'v self, user: &'v str) -> &'v str {
        self.role.as_deref().unwrap_or_else(|| self.session_role(user))
    }

    /// The role of SET SESSION AUTHORIZATION, otherwise the one that has logged in.
    pub(crate) fn session_role<'v>(&'v self, user: &'v str) -> &'v str {
        self.session_role.as_deref().unwrap_or(user)
    }

    /// Puts a value where SET may not.
    pub(crate) fn force(&mut self, name: &str, value: &str) {
        self.put(name, Some(value.to_string()));
    }

    pub(crate) fn get(&self, name: &str) -> Result<&str> {
        let name = canonical(name);
        value_in(&self.values, name).ok_or_else(|| {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })
    }

    /// Names and values, but for those that lists of them leave out, by name.
    pub(crate) fn all(&self) -> Vec<(&str, &str)> {
        let known = list::all().iter().filter(|known| !known.is_hidden);
        let known = known.map(|known| (known.name, value_in(&self.values, known.name).unwrap_or_default()));
        let own = self.values.iter().filter(|(name, _)| list::find(name).is_none());
        known.chain(own.map(|(name, value)| (name.as_str(), value.as_str()))).collect()
    }

    /// Whether the client wants notices of this severity (`client_min_messages`).
    pub(crate) fn shows(&self, severity: Severity) -> bool {
        let least = match value_in(&self.values, "client_min_messages") {
            Some("notice") | None => Severity::Notice,
            Some("warning") => Severity::Warning,
            Some("log") => Severity::Log,
            Some(debug) if debug.starts_with("debug") => Severity::Debug,
            Some(_) => Severity::Error,
        };
        severity == Severity::Info || severity >= least
    }

    /// What RESET goes back to.
    pub(crate) fn start_of(&self, name: &str) -> Option<&str> {
        value_in(&self.start, name)
    }

    pub(crate) fn set(&mut self, name: &str, value: &str, local: bool) -> Result<()> {
        let given = name;
        let name = canonical(name).to_string();
        let value = self.checked(&name, given, value)?;
        if local {
            let before = self.values.get(&name).cloned();
            self.local.entry(name.clone()).or_insert(before);
        } else {
            self.local.remove(&name);
        }
        self.put(&name, Some(value));
        self.apply(&name);
        Ok(())
    }

    pub(crate) fn reset(&mut self, name: &str) -> Result<()> {
        let name = canonical(name).to_string();
        match list::find(&name) {
            Some(known) => known.check_settable()?,
            None => check_custom(&name)?,
        }
        self.local.remove(&name);
        // One of an application's own is there from now on, and says nothing.
        let own = || list::find(&name).is_none().then(String::new);
        self.put(&name, self.start.get(&name).cloned().or_else(own));
        self.apply(&name);
        Ok(())
    }

    pub(crate) fn reset_all(&mut self) {
        // What the transaction is stays as it is, and who the session is.
        let stay = |name: &str| {
            matches!(name, "is_superuser" | "role" | SESSION_ROLE) || name.starts_with("transaction_")
        };
        let kept: Vec<_> =
            self.values.iter().filter(|(name, _)| stay(name)).map(|(n, v)| (n.clone(), v.clone())).collect();
        self.values = self.start.clone();
        for (name, value) in kept {
            self.put(&name, Some(value));
        }
        (self.is_news, self.is_changed) = (true, true);
        self.apply_all();
    }

    /// What is set now is what RESET goes back to.
    pub(crate) fn keep_as_start(&mut self) {
        self.modes_as_default();
        self.start = self.values.clone();
    }

    pub(crate) fn begin(&mut self) {
        self.at_begin.get_or_insert_with(|| self.values.clone());
    }

    pub(crate) fn end(&mut self, committed: bool) {
        let before = self.at_begin.take();
        if !self.is_changed {
            return;
        }
        if let Some(before) = before.filter(|_| !committed) {
            self.values = before;
        }
        for (name, value) in std::mem::take(&mut self.local) {
            self.put(&name, value);
        }
        self.modes_as_default();
        self.is_changed = false;
        self.apply_all();
    }

    /// The next transaction is what the defaults say.
    fn modes_as_default(&mut self) {
        for which in ["isolation", "read_only", "deferrable"] {
            let default = value_in(&self.values, &format!("default_transaction_{which}")).map(str::to_string);
            self.put(&format!("transaction_{which}"), default);
        }
    }

    /// Where a savepoint is.
    pub(crate) fn point(&self) -> Point {
        Point { values: self.values.clone(), local: self.local.clone() }
    }

    /// Takes back what was set behind a savepoint.
    pub(crate) fn back_to(&mut self, point: &Point) {
        if !Arc::ptr_eq(&self.values, &point.values) {
            self.values = point.values.clone();
            self.local = point.local.clone();
            (self.is_news, self.is_changed) = (true, true);
            self.apply_all();
        }
    }

    /// A transaction within another does not make that one read-only: what it was at the savepoint counts
    /// again when that is released.
    pub(crate) fn release_to(&mut self, point: &Point) {
        let name = "transaction_read_only";
        if self.values.get(name) != point.values.get(name) {
            self.put(name, point.values.get(name).cloned());
        }
    }

    /// The value in the form that is kept; errors name the setting as it was `given`, or by its own name
    /// where PostgreSQL looks at the value itself.
    fn checked(&self, name: &str, given: &str, value: &str) -> Result<String> {
        let invalid = || {
            let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        };
        let Some(known) = list::find(name) else {
            return check_custom(name).map(|()| value.to_string());
        };
        known.check_settable()?;
        match name {
            "client_encoding" => match encoding::named(value) {
                None => Err(invalid()),
                // Old clients want to see the name that they have said.
                Some(_) if value == "UNICODE" => Ok(value.to_string()),
                Some(known) if known.is_known() => Ok(known.name.to_string()),
                Some(other) => {
                    let detail = format!("Conversion between {} and UTF8 is not supported.", other.name);
                    let error = SqlError::refused_by_postgresql(invalid().message.clone());
                    Err(error.detail(detail).hint("Use UTF8."))
                }
            },
            "application_name" => {
                let plain = |byte: u8| if (32..127).contains(&byte) { char::from(byte) } else { '?' };
                Ok(value.bytes().map(plain).collect())
            }
            "TimeZone" => values::zone(value).map(|(name, _)| name).ok_or_else(invalid),
            "DateStyle" => {
                let style = values::date_style(value, self.eval.date_style);
                style.map(values::shown_date_style).map_err(|detail| invalid().detail(detail))
            }
            _ => values::checked(known, given, value),
        }
    }

    fn apply_all(&mut self) {
        let applied = [
            "client_encoding",
            "TimeZone",
            "DateStyle",
            "IntervalStyle",
            "bytea_output",
            "extra_float_digits",
            "role",
            SESSION_ROLE,
            "standard_conforming_strings",
            "statement_timeout",
            "idle_session_timeout",
            "idle_in_transaction_session_timeout",
            "work_mem",
            "hash_mem_multiplier",
            "temp_file_limit",
            "log_temp_files",
            "log_min_duration_statement",
            "auto_explain.log_min_duration",
        ];
        applied.iter().chain(&Costs::NAMES).for_each(|name| self.apply(name));
    }

    fn apply(&mut self, name: &str) {
        let value = value_in(&self.values, name).unwrap_or_default().to_string();
        let eval = Arc::make_mut(&mut self.eval);
        match name {
            "client_encoding" => {
                eval.client_encoding = encoding::named(&value).unwrap_or_else(encoding::utf8);
                self.encoding.set(eval.client_encoding);
            }
            "TimeZone" => {
                if let Some((name, zone)) = values::zone(&value) {
                    (eval.time_zone_name, eval.time_zone) = (name, zone);
                }
            }
            "DateStyle" => {
                if let Ok(style) = values::date_style(&value, DateStyle::default()) {
                    eval.date_style = style;
                }
            }
            "IntervalStyle" => eval.interval_style = IntervalStyle::named(&value),
            "bytea_output" => eval.bytea_escape = value == "escape",
            "extra_float_digits" => eval.extra_float_digits = value.parse().unwrap_or(1),
            "work_mem" => eval.work_mem = kilobytes(&value).unwrap_or(64) as usize * KILOBYTE,
            "hash_mem_multiplier" => eval.hash_mem_multiplier = value.parse().unwrap_or(1.0),
            "temp_file_limit" | "log_temp_files" => {
                let of = |name| kilobytes(value_in(&self.values, name).unwrap_or_default()).unwrap_or(-1);
                self.temporary = (of("temp_file_limit"), of("log_temp_files"));
            }
            "standard_conforming_strings" => self.plain_escapes = value == "off",
            "search_path" => self.search_path = schemas_of(&value, self.current_role(&self.user)),
            "auto_explain.log_min_duration" => self.explain_after_ms = milliseconds(&value),
            "log_min_duration_statement" => {
                let is_set = self.values.contains_key(name);
                self.timeouts.log_after_ms = is_set.then(|| milliseconds(&value));
            }
            "statement_timeout" => self.timeouts.statement_ms = milliseconds(&value).unwrap_or(0),
            "idle_session_timeout" => self.timeouts.idle_session_ms = milliseconds(&value).unwrap_or(0),
            "idle_in_transaction_session_timeout" => {
                self.timeouts.idle_in_transaction_ms = milliseconds(&value).unwrap_or(0);
            }
            "role" => {
                let role = Some(value).filter(|name| name != "none");
                self.role_changes += u64::from(role != self.role);
                self.role = role;
                self.apply("search_path");
            }
            SESSION_ROLE => {
                let start = self.start.get(SESSION_ROLE);
                let role = Some(value).filter(|name| start != Some(name));
                self.role_changes += u64::from(role != self.session_role);
                self.session_role = role;
                self.apply("search_path");
            }
            name => eval.costs.apply(name, &value),
        }
    }

    /// At which level the transaction is kept apart from others.
    pub(crate) fn level(&self) -> IsolationLevel {
        let named = value_in(&self.values, "transaction_isolation").and_then(IsolationLevel::named);
        named.expect("only levels are set")
    }

    /// Whether the transaction may only read.
    pub(crate) fn is_read_only(&self) -> bool {
        value_in(&self.values, "transaction_read_only") == Some("on")
    }

    /// Those that clients are told of and that have changed since the last call.
    pub(crate) fn changed(&mut self) -> Vec<(&'static str, String)> {
        let mut changed = Vec::new();
        if !std::mem::take(&mut self.is_news) {
            return changed;
        }
        for name in list::TOLD {
            let value = value_in(&self.values, name).unwrap_or_default();
            if self.told.get(name).map(String::as_str) != Some(value) {
                changed.push((*name, value.to_string()));
                self.told.insert(name, value.to_string());
            }
        }
        changed
    }
}

/// A setting of an application's own: two or more names with dots between them.
fn check_custom(name: &str) -> Result<()> {
    if !name.contains('.') {
        let message = format!("unrecognized configuration parameter \"{name}\"");
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
    }
    let is_name = |part: &str| {
        let mut letters = part.chars();
        letters.next().is_some_and(|first| first.is_alphabetic() || first == '_' || !first.is_ascii())
            && letters.all(|c| c.is_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii())
    };
    if name.split('.').all(is_name) {
        return Ok(());
    }
    let message = format!("invalid configuration parameter name \"{name}\"");
    Err(SqlError::new(SqlState::INVALID_NAME, message)
        .detail("Custom parameter names must be two or more simple identifiers separated by dots."))
}

/// The schemas of a search path.
fn schemas_of(path: &str, user: &str) -> Arc<[String]> {
    let parts = path.split(',').map(|part| part.trim().trim_matches('"')).filter(|part| !part.is_empty());
    parts.map(|part| if part == "$user" { user } else { part }.to_string()).collect()
}
