//! The settings that there are: PostgreSQL 15's. Most of them mean nothing here; they are taken and kept,
//! so that scripts and tools that set them go on (docs/limitations.md names those that do something).

use std::sync::LazyLock;

use crate::error::{Result, SqlError, SqlState};

/// What a setting's value is.
#[derive(Debug)]
pub(crate) enum Kind {
    Boolean,
    /// In a unit, which may be none; least and greatest.
    Integer(&'static str, i64, i64),
    Real(&'static str, f64, f64),
    /// One of some words.
    Words(Vec<&'static str>),
    Text,
}

/// Who may change it, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// Nobody.
    Internal,
    /// At the start of a server.
    Postmaster,
    /// In a server's file.
    Reload,
    /// When a connection begins.
    Backend,
    Superuser,
    User,
}

impl Context {
    /// As `pg_settings` names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Context::Internal => "internal",
            Context::Postmaster => "postmaster",
            Context::Reload => "sighup",
            Context::Backend => "backend",
            Context::Superuser => "superuser",
            Context::User => "user",
        }
    }

    fn named(name: &str) -> Context {
        let all = [
            Context::Internal,
            Context::Postmaster,
            Context::Reload,
            Context::Backend,
            Context::Superuser,
            Context::User,
        ];
        all.into_iter().find(|context| context.name() == name).expect("the list knows its contexts")
    }
}

/// A setting.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) context: Context,
    /// In the form that SHOW prints.
    pub(crate) start: String,
    /// SHOW ALL and `pg_settings` leave it out.
    pub(crate) is_hidden: bool,
    /// Another value than that of the start changes nothing, and who sets one is told.
    pub(crate) is_unheard: bool,
}

/// Those that clients are told of, at the start and at each change.
pub(crate) const TOLD: &[&str] = &[
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

/// Those by which statements would answer otherwise in PostgreSQL, and not here.
const UNHEARD: &[&str] = &[
    "array_nulls",
    "backslash_quote",
    "default_tablespace",
    "exit_on_error",
    "lc_monetary",
    "lc_numeric",
    "lc_time",
    "quote_all_identifiers",
    "session_replication_role",
    "temp_tablespaces",
    "timezone_abbreviations",
    "transform_null_equals",
];

const HIDDEN: &[&str] = &["is_superuser", "role", "session_authorization"];

/// All, by name in lower case.
static ALL: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let lines = include_str!("postgresql.tsv").lines().filter(|line| !line.starts_with('#'));
    let mut all: Vec<Known> = lines.map(known).collect();
    all.sort_by_key(|known| known.name.to_ascii_lowercase());
    all
});

fn known(line: &'static str) -> Known {
    let fields: Vec<&'static str> = line.split('\t').collect();
    let [name, kind, context, unit, least, greatest, words, start] = fields[..] else {
        unreachable!("a line of the list has eight fields: {line}")
    };
    let whole = |text: &str| text.parse::<i64>().expect("limits are numbers");
    let real = |text: &str| text.parse::<f64>().expect("limits are numbers");
    let kind = match kind {
        "bool" => Kind::Boolean,
        "integer" => Kind::Integer(unit, whole(least), whole(greatest)),
        "real" => Kind::Real(unit, real(least), real(greatest)),
        "enum" => Kind::Words(words.split(',').collect()),
        _ => Kind::Text,
    };
    let start = match &kind {
        Kind::Integer(unit, ..) => super::values::shown_whole(whole(start), unit),
        Kind::Real(unit, ..) => super::values::shown_real(real(start), unit),
        _ => start.to_string(),
    };
    let (is_hidden, is_unheard) = (HIDDEN.contains(&name), UNHEARD.contains(&name));
    Known { name, kind, context: Context::named(context), start, is_hidden, is_unheard }
}

/// The setting with this name, in any case.
pub(crate) fn find(name: &str) -> Option<&'static Known> {
    let lower = name.to_ascii_lowercase();
    let at = ALL.binary_search_by(|known| known.name.to_ascii_lowercase().cmp(&lower)).ok()?;
    Some(&ALL[at])
}

/// All, by name.
pub(crate) fn all() -> &'static [Known] {
    &ALL
}

impl Known {
    /// 55P02 where no statement may change it.
    pub(crate) fn check_settable(&self) -> Result<()> {
        let tail = match self.context {
            Context::User | Context::Superuser => return Ok(()),
            Context::Internal => "cannot be changed",
            Context::Postmaster => "cannot be changed without restarting the server",
            Context::Reload => "cannot be changed now",
            Context::Backend => "cannot be set after connection start",
        };
        let message = format!("parameter \"{}\" {tail}", self.name);
        Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_whole() {
        assert!(all().len() > 300);
        assert!(TOLD.iter().all(|name| find(name).is_some_and(|known| known.name == *name)));
        assert_eq!(find("DATESTYLE").unwrap().start, "ISO, MDY");
        assert_eq!(find("shared_buffers").unwrap().start, "128MB");
        assert_eq!(find("deadlock_timeout").unwrap().start, "1s");
        assert_eq!(find("seq_page_cost").unwrap().start, "1");
        assert!(find("shared_buffers").unwrap().check_settable().is_err());
        assert!(find("nothing").is_none());
    }
}
