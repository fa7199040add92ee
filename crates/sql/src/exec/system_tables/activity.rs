//! What goes on: settings, sessions, keywords and time zones, as functions that return rows.

use std::sync::Arc;

use liger_engine::instance::Wait;

use crate::error::Result;
use crate::exec::Row;
use crate::exec::advisory;
use crate::exec::privilege;
use crate::exec::session::settings::list::{self, Kind};
use crate::exec::session::settings::values::{general, plain};
use crate::exec::session::{Portal, Prepared};
use crate::exec::system::SessionSystem;
use crate::exec::system_tables::relations::PG_CLASS;
use crate::session::{Activity, ActivityState, WaitEvent};
use crate::storage::advisory::Lock;
use crate::types::oid;
use crate::types::value::{Interval, Value};

fn text(text: &str) -> Value {
    Value::text(text)
}

fn known(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { Value::text(text) }
}

/// Rows of `show_all_settings()`.
pub(super) fn settings(on: &SessionSystem<'_>) -> Vec<Row> {
    let variables = on.shared.variables.borrow();
    let row = |(name, value): (&str, &str)| {
        let start = variables.start_of(name).unwrap_or(value);
        let source = if start == value { "default" } else { "session" };
        let known = list::find(name);
        let plain = |value: &str| text(&known.map_or(value.to_string(), |known| plain(known, value)));
        let (kind, unit, limits, words) = match known.map(|known| &known.kind) {
            Some(Kind::Boolean) => ("bool", "", None, None),
            Some(Kind::Integer(unit, least, most)) => {
                ("integer", *unit, Some((least.to_string(), most.to_string())), None)
            }
            Some(Kind::Real(unit, least, most)) => {
                ("real", *unit, Some((general(*least), general(*most))), None)
            }
            Some(Kind::Words(words)) => ("enum", "", None, Some(words)),
            Some(Kind::Text) | None => ("string", "", None, None),
        };
        let words = words.map_or(Value::Null, |words| {
            Value::array(oid::TEXT, words.iter().map(|word| text(word)).collect())
        });
        let (least, most) = limits.map_or((Value::Null, Value::Null), |(a, b)| (text(&a), text(&b)));
        vec![
            text(name),
            plain(value),
            self::known(unit),
            text(if known.is_some() { "Settings" } else { "Customized Options" }),
            text(""),
            Value::Null,
            text(known.map_or("user", |known| known.context.name())),
            text(kind),
            text(source),
            least,
            most,
            words,
            plain(known.map_or(start, |known| known.start.as_str())),
            plain(start),
            Value::Null,
            Value::Null,
            Value::Bool(false),
        ]
    };
    variables.all().into_iter().map(row).collect()
}

/// What a session waits for: type and event; empty for nothing.
fn waits_for(on: &SessionSystem<'_>, session: &Activity) -> (&'static str, &'static str) {
    match (session.state, session.place) {
        (ActivityState::Starting, _) => ("", ""),
        (ActivityState::Active, WaitEvent::Here) => ("", ""),
        (ActivityState::Active, WaitEvent::Queue) => ("Pod", "Worker"),
        (ActivityState::Active, WaitEvent::Turn) => ("Pod", "Turn"),
        (ActivityState::Active, WaitEvent::Lock) => ("Lock", "advisory"),
        (ActivityState::Active, WaitEvent::Relation) => ("Lock", "relation"),
        (ActivityState::Active, WaitEvent::Log) => ("Pod", "Log"),
        (ActivityState::Active, WaitEvent::Client) => ("Client", "ClientWrite"),
        (ActivityState::Active, WaitEvent::Running(number)) => {
            match on.store.observed().map_or(Wait::None, |observed| observed.waits_of(number)) {
                Wait::Owner => ("Pod", "MoveIn"),
                Wait::Lock => ("Lock", "Row"),
                Wait::Log => ("Pod", "Log"),
                _ => ("", ""),
            }
        }
        _ => ("Client", "ClientRead"),
    }
}

fn lock_row(session: i32, kind: &str, mode: &str, granted: bool) -> Row {
    let own = format!("{}/{}", session >> 24, session & 0x00ff_ffff);
    let mut row = vec![Value::Null; 16];
    row[0] = text(kind);
    row[1] = Value::Oid(super::roles::DATABASE);
    row[5] = if kind == "virtualxid" { text(&own) } else { Value::Null };
    row[10] = text(&own);
    row[11] = Value::Int4(session);
    (row[12], row[13], row[14]) = (text(mode), Value::Bool(granted), Value::Bool(false));
    row
}

/// Rows of `pg_lock_status()`: each transaction's lock on itself, and rows that are waited for, of this host;
/// advisory locks of all.
pub(super) fn locks(on: &SessionSystem<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for session in on.shared.server.activity().iter().filter(|session| session.transaction_start_us != 0) {
        rows.push(lock_row(session.process_id, "virtualxid", "ExclusiveLock", true));
        if waits_for(on, session) == ("Lock", "Row") {
            rows.push(lock_row(session.process_id, "tuple", "ExclusiveLock", false));
        }
    }
    let own_host = on.shared.process_id >> 24;
    let is_own = |process_id: i32| process_id >> 24 == own_host;
    for entry in advisory::all(on.store)? {
        let request = entry.request;
        let mode = request.mode.name(request.lock);
        let row_of = |kind| lock_row(request.holder.process_id, kind, mode, entry.granted);
        let mut row = match request.lock {
            // Of this host who waits is there already.
            Lock::Row(_) if !entry.granted && is_own(request.holder.process_id) => continue,
            Lock::Row(_) => row_of("tuple"),
            Lock::Relation(oid) => {
                let mut row = row_of("relation");
                row[2] = Value::Oid(if oid == 0 { PG_CLASS } else { oid });
                row
            }
            lock => {
                let (class, object, sub) = lock.parts();
                let mut row = row_of("advisory");
                (row[7], row[8], row[9]) = (Value::Oid(class), Value::Oid(object), Value::Int2(sub));
                row
            }
        };
        if !entry.granted {
            row[15] = Value::Timestamptz(entry.since_us);
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Rows of `pg_stat_activity`, in the order of its columns.
pub(super) fn sessions(on: &SessionSystem<'_>) -> Vec<Row> {
    let time = |us: i64| match us {
        0 => Value::Null,
        us => Value::Timestamptz(us - EPOCH_SECONDS * 1_000_000),
    };
    let all = privilege::asks_superuser(on.store, on.shared);
    let own = privilege::roles_of(on.store, privilege::asking(on.store, on.shared), true);
    let row = |mut session: crate::session::Activity| {
        if !all && !on.store.role(&session.user).is_some_and(|role| own.contains(&role)) {
            session.query = "<insufficient privilege>".to_string();
        }
        let wait = waits_for(on, &session);
        let (address, port) = match session.address {
            Some((address, port)) => (Value::text(address.to_string()), Value::Int4(i32::from(port))),
            None => (Value::Null, Value::Int4(-1)),
        };
        vec![
            Value::Oid(super::roles::DATABASE),
            known(&session.database),
            Value::Int4(session.process_id),
            Value::Null,
            on.store.role(&session.user).map_or(Value::Null, Value::Oid),
            known(&session.user),
            text(&session.application_name),
            address,
            Value::Null,
            port,
            time(session.backend_start_us),
            time(session.transaction_start_us),
            time(session.query_start_us),
            time(session.state_change_us),
            known(wait.0),
            known(wait.1),
            known(session.state.text()),
            Value::Null,
            Value::Null,
            Value::Null,
            text(&session.query),
            text("client backend"),
        ]
    };
    on.shared.server.activity().into_iter().map(row).collect()
}

/// Rows of `pg_prepared_statement()`. When they were prepared is not known.
pub(super) fn statements(on: &SessionSystem<'_>) -> Vec<Row> {
    let named = on.statements.iter().filter(|(name, _)| !name.is_empty());
    let row = |(name, prepared): (&String, &Arc<Prepared>)| {
        let types = prepared.parameters.iter().map(|ty| Value::Oid(*ty)).collect();
        vec![
            text(name),
            text(&prepared.sql),
            Value::Null,
            Value::array(oid::REGTYPE, types),
            Value::Bool(false),
            Value::Int8(0),
            Value::Int8(0),
        ]
    };
    named.map(row).collect()
}

/// Rows of `pg_cursor()`.
pub(super) fn cursors(on: &SessionSystem<'_>) -> Vec<Row> {
    let row = |(name, portal): (&String, &Portal)| {
        let flags = [portal.hold, false, !portal.forward].map(Value::Bool);
        let mut row = vec![text(name), text(&portal.prepared.sql)];
        row.extend(flags);
        row.push(Value::Null);
        row
    };
    on.portals.iter().filter(|(name, _)| !name.is_empty()).map(row).collect()
}

/// Rows of `pg_listening_channels()`.
pub(super) fn channels(on: &SessionSystem<'_>) -> Vec<Row> {
    on.shared.notify.channels().into_iter().map(|channel| vec![Value::text(channel)]).collect()
}

/// Rows of `pg_get_keywords()`: those words that are more than names.
pub(super) fn keywords() -> Vec<Row> {
    let row = |(word, class, bare): (&'static str, char, bool)| {
        let meaning = match class {
            'C' => "unreserved (cannot be function or type name)",
            'T' => "reserved (can be function or type name)",
            _ => "reserved",
        };
        let label = if bare { "can be bare label" } else { "requires AS" };
        vec![text(word), Value::text(class.to_string()), Value::Bool(bare), text(meaning), text(label)]
    };
    crate::parse::keywords().map(row).collect()
}

/// Rows of `pg_timezone_names()` as of now.
pub(super) fn time_zones(on: &SessionSystem<'_>) -> Vec<Row> {
    let seconds = on.shared.surroundings.clock_us().div_euclid(1_000_000) + EPOCH_SECONDS;
    let Ok(now) = jiff::Timestamp::from_second(seconds) else { return Vec::new() };
    let row = |name: jiff::tz::TimeZoneName<'_>| {
        let zone = jiff::tz::TimeZone::get(name.as_str()).ok()?;
        let info = zone.to_offset_info(now);
        let micros = i64::from(info.offset().seconds()) * 1_000_000;
        Some(vec![
            text(name.as_str()),
            text(info.abbreviation()),
            Value::Interval(Interval { months: 0, days: 0, micros }),
            Value::Bool(info.dst().is_dst()),
        ])
    };
    jiff::tz::db().available().filter_map(row).collect()
}

/// 2000-01-01 in seconds since 1970.
pub(super) const EPOCH_SECONDS: i64 = 946_684_800;

/// Rows of `pg_options_to_table(..)`.
pub(super) fn options(list: &Value) -> Vec<Row> {
    let Value::Array(list) = list else { return Vec::new() };
    let row = |option: &Value| {
        let option = option.as_str().unwrap_or("");
        match option.split_once('=') {
            Some((name, value)) => vec![text(name), text(value)],
            None => vec![text(option), Value::Null],
        }
    };
    list.elements.iter().map(row).collect()
}

/// Rows of `aclexplode(..)`: grantor, grantee, privilege, whether it may be given on.
pub(super) fn privileges(on: &SessionSystem<'_>, list: &Value) -> Vec<Row> {
    let Value::Array(list) = list else { return Vec::new() };
    debug_assert_eq!(list.element, oid::ACLITEM);
    let mut rows = Vec::new();
    for item in &list.elements {
        let Some((grantee, rest)) = item.as_str().and_then(|item| item.split_once('=')) else { continue };
        let Some((letters, grantor)) = rest.split_once('/') else { continue };
        let role = |name: &str| Value::Oid(on.store.role(name.trim_matches('"')).unwrap_or(0));
        let letters: Vec<char> = letters.chars().collect();
        for (at, letter) in letters.iter().enumerate() {
            let name = super::privileges::name(*letter);
            let option = letters.get(at + 1) == Some(&'*');
            rows.extend(name.map(|name| vec![role(grantor), role(grantee), text(name), Value::Bool(option)]));
        }
    }
    rows
}
