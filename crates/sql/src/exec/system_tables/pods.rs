//! The pod and this host as rows: `pod_hosts`, `pod_memory`, `pod_tables`, `pod_activity`, `pod_progress`,
//! `pg_stat_statements`. Their columns are in `data/own.tsv`.
//!
//! 1. Hosts and memory are the whole pod's as this host saw it last; everything else is this host's own.

use super::roles::DATABASE;
use super::{Look, Maker};
use crate::error::Result;
use crate::exec::Row;
use crate::exec::privilege;
use crate::exec::system::SessionSystem;
use crate::observe::Observed;
use crate::session::{Activity, Count, host_of};
use crate::types::value::Value;

fn big(count: u64) -> Value {
    Value::Int8(count.cast_signed())
}

fn optional(count: Option<u64>) -> Value {
    count.map_or(Value::Null, big)
}

pub(super) fn hosts(observed: &Observed) -> Vec<Row> {
    let maker = Maker::of(
        "pod_hosts",
        [
            "host",
            "state",
            "incarnation",
            "is_self",
            "process",
            "port",
            "lease_ms",
            "silent_ms",
            "durable_epoch",
            "pod_epoch",
            "log_state",
            "partitions",
        ],
    );
    let snapshot = observed.snapshot();
    let row = |host: &crate::observe::HostStatus| {
        maker.row([
            Value::Int4(host.host.into()),
            Value::text(host.state.as_str()),
            Value::Int4(host.incarnation.into()),
            Value::Bool(host.host == snapshot.me),
            if host.process == 0 { Value::Null } else { Value::Int4(host.process.cast_signed()) },
            host.port.map_or(Value::Null, |port| Value::Int4(port.into())),
            big(snapshot.lease_ms),
            host.silent_ms.map_or(Value::Null, Value::Float8),
            optional(host.durable_epoch),
            optional(snapshot.log.as_ref().map(|log| log.epoch)),
            host.log_state.map_or(Value::Null, Value::text),
            Value::Int4(host.partitions.into()),
        ])
    };
    snapshot.hosts.iter().map(row).collect()
}

pub(super) fn memory(observed: &Observed) -> Vec<Row> {
    let maker = Maker::of(
        "pod_memory",
        [
            "region",
            "size_bytes",
            "max_bytes",
            "budget_bytes",
            "used_bytes",
            "row_bytes",
            "index_bytes",
            "claimed_bytes",
            "retired",
        ],
    );
    let snapshot = observed.snapshot();
    let row = |memory: &crate::observe::MemoryStatus| {
        maker.row([
            Value::text(memory.region),
            big(memory.size_bytes),
            big(memory.max_bytes),
            big(memory.budget_bytes),
            big(memory.row_bytes + memory.index_bytes),
            big(memory.row_bytes),
            big(memory.index_bytes),
            big(memory.claimed_bytes),
            big(snapshot.retired),
        ])
    };
    snapshot.memory.iter().map(row).collect()
}

pub(super) fn tables(look: &Look<'_>, observed: &Observed) -> Result<Vec<Row>> {
    let maker = Maker::of(
        "pod_tables",
        [
            "relid",
            "schemaname",
            "relname",
            "host",
            "places",
            "rows_local",
            "rows_shared",
            "table_bytes",
            "index_bytes",
        ],
    );
    let (store, me) = (look.system.store, observed.snapshot().me);
    let mut rows = Vec::new();
    for table in look.tables() {
        let census = store.census(table.oid)?;
        let schema = store.object(table.schema);
        rows.push(maker.row([
            Value::Oid(table.oid),
            schema.map_or(Value::Null, |schema| Value::text(schema.name())),
            Value::text(table.name.as_str()),
            Value::Int4(me.into()),
            Value::Int4(census.own_places.into()),
            big(census.rows),
            big(census.shared_rows),
            big(census.table_bytes),
            big(census.index_bytes()),
        ]));
    }
    Ok(rows)
}

pub(super) fn activity(observed: &Observed) -> Vec<Row> {
    let maker = Maker::of(
        "pod_activity",
        [
            "host",
            "committed",
            "rolled_back",
            "conflicts",
            "moves_in",
            "moves_out",
            "shared_rows",
            "messages",
            "partitions_taken_over",
            "log_appended_bytes",
            "log_held_bytes",
            "log_lag_seconds",
            "checkpoint_age_seconds",
            "troubles",
            "temporary_files",
            "temporary_bytes",
        ],
    );
    let snapshot = observed.snapshot();
    let (log, [moved_in, moved_out, shared]) = (snapshot.log.as_ref(), snapshot.moves);
    let troubles = snapshot.troubles.join("; ");
    vec![maker.row([
        Value::Int4(snapshot.me.into()),
        big(observed.committed()),
        big(observed.rolled_back()),
        big(observed.conflicts().map(|(_, count)| count).sum()),
        big(moved_in),
        big(moved_out),
        big(shared),
        big(snapshot.messages),
        big(snapshot.taken_over),
        optional(log.map(|log| log.appended_bytes)),
        optional(log.map(|log| log.held_bytes)),
        log.map_or(Value::Null, |log| Value::Float8(log.lag_seconds)),
        log.map_or(Value::Null, |log| Value::Float8(log.checkpoint_age_seconds)),
        if troubles.is_empty() { Value::Null } else { Value::text(troubles) },
        big(observed.temporary().files()),
        big(observed.temporary().bytes()),
    ])]
}

/// How far statements of this host's sessions are. Of those of others one is told what they are, no more.
pub(super) fn progress(on: &SessionSystem<'_>) -> Vec<Row> {
    let maker = Maker::of(
        "pod_progress",
        [
            "host",
            "pid",
            "datid",
            "datname",
            "command",
            "relid",
            "index_relid",
            "phase",
            "rows_read",
            "rows_expected",
            "rows_done",
            "rows_total",
            "rows_excluded",
            "bytes_done",
            "pages_expected",
            "since",
        ],
    );
    let all = privilege::asks_superuser(on.store, on.shared);
    let own = privilege::roles_of(on.store, privilege::asking(on.store, on.shared), true);
    let row = |session: Activity| {
        let told = session.progress?;
        let shown = all || on.store.role(&session.user).is_some_and(|role| own.contains(&role));
        let shown = |value: Value| if shown { value } else { Value::Null };
        let counted = |count| shown(big(told.count(count)));
        let known = |count| shown(optional(Some(told.count(count)).filter(|count| *count > 0)));
        Some(maker.row([
            Value::Int4(host_of(session.process_id).into()),
            Value::Int4(session.process_id),
            Value::Oid(DATABASE),
            Value::text(session.database.as_str()),
            Value::text(told.command),
            shown(Value::Oid(told.table)),
            shown(Value::Oid(told.index)),
            shown(Value::text(told.phase)),
            counted(Count::Read),
            known(Count::Expected),
            counted(Count::Done),
            known(Count::Total),
            counted(Count::Excluded),
            counted(Count::Bytes),
            known(Count::Pages),
            shown(Value::Timestamptz(told.since_us)),
        ]))
    };
    on.shared.server.activity().into_iter().filter_map(row).collect()
}

pub(super) fn statements(on: &SessionSystem<'_>, observed: &Observed) -> Vec<Row> {
    let maker = Maker::of(
        "pg_stat_statements",
        [
            "userid",
            "dbid",
            "toplevel",
            "queryid",
            "query",
            "calls",
            "total_exec_time",
            "min_exec_time",
            "max_exec_time",
            "mean_exec_time",
            "rows",
        ],
    );
    let all = privilege::asks_superuser(on.store, on.shared);
    let own = privilege::roles_of(on.store, privilege::asking(on.store, on.shared), true);
    let ms = |us: u64| us as f64 / 1e3;
    let row = |one: crate::observe::StatementFigures| {
        let shown = all || own.contains(&one.user);
        maker.row([
            Value::Oid(one.user),
            Value::Oid(DATABASE),
            Value::Bool(true),
            if shown { big(one.id) } else { Value::Null },
            Value::text(if shown { &*one.query } else { "<insufficient privilege>" }),
            big(one.calls),
            Value::Float8(ms(one.total_us)),
            Value::Float8(ms(one.min_us)),
            Value::Float8(ms(one.max_us)),
            Value::Float8(ms(one.total_us) / one.calls.max(1) as f64),
            big(one.rows),
        ])
    };
    observed.statements().figures().into_iter().map(row).collect()
}

/// The rows of one of these tables; `None`: it is another one.
pub(super) fn rows(look: &Look<'_>, table: &str) -> Option<Result<Vec<Row>>> {
    let nothing = Observed::default();
    let observed = look.system.store.observed().unwrap_or(&nothing);
    Some(match table {
        "pod_hosts" => Ok(hosts(observed)),
        "pod_memory" => Ok(memory(observed)),
        "pod_tables" => tables(look, observed),
        "pod_activity" => Ok(activity(observed)),
        "pod_progress" => Ok(progress(look.system)),
        "pg_stat_statements" => Ok(statements(look.system, observed)),
        _ => return None,
    })
}
