//! Settings of a session: what SET, SHOW, RESET and set_config change and read.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::func::{DateOrder, Settings};
use crate::session::Timeouts;
use crate::types::datetime::interval_style::IntervalStyle;

/// Name, value at the start, whether clients are told of changes, whether it can be set.
const KNOWN: &[(&str, &str, bool, bool)] = &[
    ("application_name", "", true, true),
    ("array_nulls", "on", false, true),
    ("backslash_quote", "safe_encoding", false, true),
    ("bytea_output", "hex", false, true),
    ("check_function_bodies", "on", false, true),
    ("client_encoding", "UTF8", true, true),
    ("client_min_messages", "notice", false, true),
    ("cursor_tuple_fraction", "0.1", false, true),
    ("DateStyle", "ISO, MDY", true, true),
    ("deadlock_timeout", "1s", false, true),
    ("default_table_access_method", "heap", false, true),
    ("default_tablespace", "", false, true),
    ("default_text_search_config", "pg_catalog.simple", false, true),
    ("default_transaction_deferrable", "off", false, true),
    ("default_transaction_isolation", "serializable", false, true),
    ("default_transaction_read_only", "off", true, true),
    ("enable_bitmapscan", "on", false, true),
    ("enable_hashagg", "on", false, true),
    ("enable_hashjoin", "on", false, true),
    ("enable_indexonlyscan", "on", false, true),
    ("enable_indexscan", "on", false, true),
    ("enable_material", "on", false, true),
    ("enable_mergejoin", "on", false, true),
    ("enable_nestloop", "on", false, true),
    ("enable_seqscan", "on", false, true),
    ("enable_sort", "on", false, true),
    ("escape_string_warning", "on", false, true),
    ("extra_float_digits", "1", false, true),
    ("geqo", "on", false, true),
    ("idle_in_transaction_session_timeout", "0", false, true),
    ("idle_session_timeout", "0", false, true),
    ("in_hot_standby", "off", true, false),
    ("integer_datetimes", "on", true, false),
    ("IntervalStyle", "postgres", true, true),
    ("is_superuser", "on", true, false),
    ("jit", "off", false, true),
    ("lc_collate", "C", false, false),
    ("lc_ctype", "C.UTF-8", false, false),
    ("lc_messages", "C", false, true),
    ("lc_monetary", "C", false, true),
    ("lc_numeric", "C", false, true),
    ("lc_time", "C", false, true),
    ("lock_timeout", "0", false, true),
    ("maintenance_work_mem", "64MB", false, true),
    ("max_connections", "1000", false, false),
    ("max_identifier_length", "63", false, false),
    ("max_index_keys", "32", false, false),
    ("password_encryption", "scram-sha-256", false, true),
    ("plan_cache_mode", "auto", false, true),
    ("quote_all_identifiers", "off", false, true),
    ("random_page_cost", "4", false, true),
    ("role", "none", false, true),
    ("row_security", "on", false, true),
    ("search_path", "\"$user\", public", false, true),
    ("server_encoding", "UTF8", true, false),
    ("server_version", "15.0", true, false),
    ("server_version_num", "150000", false, false),
    ("session_authorization", "postgres", true, true),
    ("session_replication_role", "origin", false, true),
    ("ssl", "on", false, false),
    ("standard_conforming_strings", "on", true, true),
    ("statement_timeout", "0", false, true),
    ("synchronize_seqscans", "on", false, true),
    ("synchronous_commit", "on", false, true),
    ("temp_buffers", "8MB", false, true),
    ("TimeZone", "UTC", true, true),
    ("transaction_deferrable", "off", false, true),
    ("transaction_isolation", "serializable", false, true),
    ("transaction_read_only", "off", false, true),
    ("vacuum_cost_delay", "0", false, true),
    ("wal_level", "replica", false, false),
    ("work_mem", "4MB", false, true),
    ("xmloption", "content", false, true),
];

/// Settings with a unit of time, in milliseconds.
const TIMES: &[&str] = &[
    "statement_timeout",
    "lock_timeout",
    "deadlock_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
];

/// Settings that are one of some words.
const WORDS: &[(&str, &[&str])] = &[
    ("backslash_quote", &["safe_encoding", "on", "off"]),
    ("bytea_output", &["escape", "hex"]),
    (
        "client_min_messages",
        &["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"],
    ),
    ("default_transaction_isolation", LEVELS),
    ("IntervalStyle", &["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
    ("password_encryption", &["md5", "scram-sha-256"]),
    ("plan_cache_mode", &["auto", "force_generic_plan", "force_custom_plan"]),
    ("session_replication_role", &["origin", "replica", "local"]),
    ("synchronous_commit", &["local", "remote_write", "remote_apply", "on", "off"]),
    ("transaction_isolation", LEVELS),
    ("xmloption", &["content", "document"]),
];

const LEVELS: &[&str] = &["serializable", "repeatable read", "read committed", "read uncommitted"];

const SESSION_ROLE: &str = "session_authorization";

const BOOLEANS: &[&str] = &["on", "off"];

/// The settings of one session.
#[derive(Clone, Debug)]
pub(crate) struct Variables {
    values: Values,
    /// What RESET goes back to.
    start: Values,
    /// What a transaction's end goes back to: SET LOCAL, and SET in a transaction that fails.
    at_begin: Option<Values>,
    local: BTreeMap<String, String>,
    /// Made of the values, for every statement to look at.
    pub(crate) eval: Arc<Settings>,
    pub(crate) search_path: Arc<[String]>,
    pub(crate) timeouts: Timeouts,
    user: String,
    /// SET ROLE and SET SESSION AUTHORIZATION, where they say somebody else.
    role: Option<String>,
    session_role: Option<String>,
    /// How often one of them has changed.
    pub(crate) role_changes: u64,
    told: BTreeMap<String, String>,
    /// Clients may have to be told of changes.
    is_news: bool,
    /// Something was set since the last end of a transaction.
    is_changed: bool,
}

/// Settings by name. A transaction's begin copies none of them.
type Values = Arc<BTreeMap<String, String>>;

fn known(name: &str) -> Option<&'static (&'static str, &'static str, bool, bool)> {
    KNOWN.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name))
}

fn canonical(name: &str) -> String {
    known(name).map_or_else(|| name.to_string(), |(name, ..)| (*name).to_string())
}

impl Variables {
    pub(crate) fn new(user: &str) -> Variables {
        let mut values: BTreeMap<String, String> =
            KNOWN.iter().map(|(name, value, ..)| ((*name).to_string(), (*value).to_string())).collect();
        values.insert("session_authorization".to_string(), user.to_string());
        let values = Arc::new(values);
        let mut made = Variables {
            start: values.clone(),
            values,
            at_begin: None,
            local: BTreeMap::new(),
            eval: Arc::new(Settings::default()),
            search_path: Arc::default(),
            timeouts: Timeouts::default(),
            user: user.to_string(),
            role: None,
            session_role: None,
            role_changes: 0,
            told: BTreeMap::new(),
            is_news: true,
            is_changed: false,
        };
        made.apply_all();
        made
    }

    fn put(&mut self, name: &str, value: String) {
        Arc::make_mut(&mut self.values).insert(name.to_string(), value);
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
        self.put(name, value.to_string());
    }

    pub(crate) fn get(&self, name: &str) -> Result<String> {
        let name = canonical(name);
        match self.values.get(&name) {
            Some(value) => Ok(value.clone()),
            None => {
                let message = format!("unrecognized configuration parameter \"{name}\"");
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
            }
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&String, &String)> {
        self.values.iter()
    }

    /// What RESET goes back to.
    pub(crate) fn start_of(&self, name: &str) -> Option<&String> {
        self.start.get(name)
    }

    pub(crate) fn may_set(&self, name: &str) -> bool {
        known(name).is_none_or(|(.., settable)| *settable)
    }

    pub(crate) fn set(&mut self, name: &str, value: &str, local: bool) -> Result<()> {
        let given = name;
        let name = canonical(name);
        let value = self.checked(&name, given, value)?;
        if local {
            let before = self.values.get(&name).cloned().unwrap_or_default();
            self.local.entry(name.clone()).or_insert(before);
        } else {
            self.local.remove(&name);
        }
        self.put(&name, value);
        self.apply(&name);
        Ok(())
    }

    pub(crate) fn reset(&mut self, name: &str) -> Result<()> {
        let name = canonical(name);
        match self.start.get(&name).cloned() {
            Some(value) => self.set(&name, &value, false),
            None if name.contains('.') => {
                Arc::make_mut(&mut self.values).remove(&name);
                self.is_changed = true;
                Ok(())
            }
            None => self.get(&name).map(|_| ()),
        }
    }

    pub(crate) fn reset_all(&mut self) {
        self.values = self.start.clone();
        (self.is_news, self.is_changed) = (true, true);
        self.apply_all();
    }

    /// What is set now is what RESET goes back to.
    pub(crate) fn keep_as_start(&mut self) {
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
        for which in ["isolation", "read_only"] {
            let default = self.values[&format!("default_transaction_{which}")].clone();
            self.put(&format!("transaction_{which}"), default);
        }
        self.is_changed = false;
        self.apply_all();
    }

    /// The value in the form that is kept; errors name the setting as it was `given`, or by its own name
    /// where PostgreSQL looks at the value itself.
    fn checked(&self, name: &str, given: &str, value: &str) -> Result<String> {
        let invalid = || {
            let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        };
        let Some((_, start, _, settable)) = known(name) else {
            if name.contains('.') {
                return Ok(value.to_string());
            }
            let message = format!("unrecognized configuration parameter \"{name}\"");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        };
        if !settable {
            let message = format!("parameter \"{name}\" cannot be changed");
            return Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message));
        }
        if TIMES.contains(&name) {
            return milliseconds(value).map(shown_time).ok_or_else(invalid);
        }
        if let Some((_, words)) = WORDS.iter().find(|(known, _)| *known == name) {
            let word = value.to_ascii_lowercase();
            // A switch with more than two positions takes the other spellings of those two as well.
            let switch = boolean(value).map(|on| if on { "on" } else { "off" });
            return match words.iter().find(|known| **known == word || Some(**known) == switch) {
                Some(known) => Ok((*known).to_string()),
                None => {
                    let message = format!("invalid value for parameter \"{given}\": \"{value}\"");
                    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                        .hint(format!("Available values: {}.", words.join(", "))))
                }
            };
        }
        match name {
            "client_encoding" => {
                // As PostgreSQL compares names of encodings: some clients send them in quotes.
                let plain: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
                let plain = plain.to_ascii_lowercase();
                if plain == "utf8" || plain == "unicode" || plain.is_empty() {
                    Ok("UTF8".to_string())
                } else {
                    Err(invalid())
                }
            }
            "standard_conforming_strings" if !is_true(value) => {
                Err(SqlError::unsupported("standard_conforming_strings = off"))
            }
            "TimeZone" => zone(value).map(|(name, _)| name).ok_or_else(invalid),
            "DateStyle" => date_style(value, &self.values["DateStyle"]).ok_or_else(invalid),
            "extra_float_digits" => match value.parse::<i32>() {
                Ok(-15..=3) => Ok(value.to_string()),
                _ => Err(invalid()),
            },
            _ if BOOLEANS.contains(start) => {
                boolean(value).map(|on| if on { "on" } else { "off" }.to_string()).ok_or_else(|| {
                    let message = format!("parameter \"{given}\" requires a Boolean value");
                    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                })
            }
            _ => Ok(value.to_string()),
        }
    }

    fn apply_all(&mut self) {
        let applied = [
            "TimeZone",
            "DateStyle",
            "IntervalStyle",
            "bytea_output",
            "extra_float_digits",
            "role",
            SESSION_ROLE,
        ];
        applied.iter().chain(TIMES).for_each(|name| self.apply(name));
    }

    fn apply(&mut self, name: &str) {
        let value = self.values.get(name).cloned().unwrap_or_default();
        let eval = Arc::make_mut(&mut self.eval);
        match name {
            "TimeZone" => {
                if let Some((name, zone)) = zone(&value) {
                    (eval.time_zone_name, eval.time_zone) = (name, zone);
                }
            }
            "DateStyle" => {
                eval.date_order = match () {
                    () if value.contains("DMY") => DateOrder::Dmy,
                    () if value.contains("YMD") => DateOrder::Ymd,
                    () => DateOrder::Mdy,
                }
            }
            "IntervalStyle" => eval.interval_style = IntervalStyle::named(&value),
            "bytea_output" => eval.bytea_escape = value == "escape",
            "extra_float_digits" => eval.extra_float_digits = value.parse().unwrap_or(1),
            "search_path" => self.search_path = schemas_of(&value, self.current_role(&self.user)),
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
                let role = Some(value).filter(|name| self.start.get(SESSION_ROLE) != Some(name));
                self.role_changes += u64::from(role != self.session_role);
                self.session_role = role;
                self.apply("search_path");
            }
            _ => {}
        }
    }

    /// Those that clients are told of and that have changed since the last call.
    pub(crate) fn changed(&mut self) -> Vec<(&'static str, String)> {
        let mut changed = Vec::new();
        if !std::mem::take(&mut self.is_news) {
            return changed;
        }
        for (name, _, told, _) in KNOWN {
            let value = &self.values[*name];
            if *told && self.told.get(*name) != Some(value) {
                changed.push((*name, value.clone()));
                self.told.insert((*name).to_string(), value.clone());
            }
        }
        changed
    }
}

/// The schemas of a search path.
fn schemas_of(path: &str, user: &str) -> Arc<[String]> {
    let parts = path.split(',').map(|part| part.trim().trim_matches('"')).filter(|part| !part.is_empty());
    parts.map(|part| if part == "$user" { user } else { part }.to_string()).collect()
}

fn boolean(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some(true),
        "off" | "false" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

fn is_true(value: &str) -> bool {
    boolean(value) == Some(true)
}

pub(crate) fn milliseconds(value: &str) -> Option<u64> {
    let value = value.trim();
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let number: u64 = value[..digits].parse().ok()?;
    let unit = match value[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

fn shown_time(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];
    match units.iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", ms / unit),
        None if ms == 0 => "0".to_string(),
        None => format!("{ms}ms"),
    }
}

fn zone(value: &str) -> Option<(String, jiff::tz::TimeZone)> {
    let plain = value.trim();
    if plain.eq_ignore_ascii_case("utc")
        || plain.eq_ignore_ascii_case("gmt")
        || plain.eq_ignore_ascii_case("zulu")
    {
        return Some((plain.to_ascii_uppercase(), jiff::tz::TimeZone::UTC));
    }
    let offset = plain.strip_prefix('+').unwrap_or(plain);
    let (negative, digits) = offset.strip_prefix('-').map_or((false, offset), |rest| (true, rest));
    let (hours, minutes) = digits.split_once(':').unwrap_or((digits, "0"));
    if let (Ok(hours), Ok(minutes)) = (hours.parse::<f64>(), minutes.parse::<f64>()) {
        let seconds = (hours * 3600.0 + minutes * 60.0) as i32;
        let seconds = if negative { -seconds } else { seconds };
        let zone = jiff::tz::TimeZone::fixed(jiff::tz::Offset::from_seconds(seconds).ok()?);
        let (h, m) = (seconds.abs() / 3600, seconds.abs() % 3600 / 60);
        let sign = if seconds < 0 { ('-', '+') } else { ('+', '-') };
        let tail = if m == 0 { String::new() } else { format!(":{m:02}") };
        return Some((format!("<{}{h:02}{tail}>{}{h:02}{tail}", sign.0, sign.1), zone));
    }
    if let Some(shown) = plain.strip_prefix('<') {
        return zone(shown.split('>').next()?);
    }
    let zone = jiff::tz::TimeZone::get(plain).ok()?;
    Some((zone.iana_name().unwrap_or(plain).to_string(), zone))
}

fn date_style(value: &str, before: &str) -> Option<String> {
    let mut order = before.split(", ").nth(1).unwrap_or("MDY").to_string();
    for part in value.split(',') {
        match part.trim().to_ascii_lowercase().as_str() {
            "iso" | "" => {}
            "dmy" | "european" | "euro" => order = "DMY".to_string(),
            "mdy" | "us" | "noneuropean" => order = "MDY".to_string(),
            "ymd" => order = "YMD".to_string(),
            "default" => order = "MDY".to_string(),
            _ => return None,
        }
    }
    Some(format!("ISO, {order}"))
}
