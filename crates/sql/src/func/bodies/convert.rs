//! What belongs to no other family: booleans, uuids, enums, hashing, input and output functions of types.

use std::sync::Arc;

use super::{bool_of, scalar, text};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::types::Types;
use crate::types::context::EvalContext;
use crate::types::text::{byte_of, char_of, settled_label};
use crate::types::value::Value;
use crate::types::{Oid, Type, binary, oid, order};

/// Hashes of values by their type; each has another one with a seed, whose name goes on with `extended`.
const HASHES: [&str; 25] = [
    "hashint2",
    "hashint4",
    "hashint8",
    "hashfloat4",
    "hashfloat8",
    "hashoid",
    "hashchar",
    "hashname",
    "hashtext",
    "hashbpchar",
    "hashoidvector",
    "hash_aclitem",
    "hashinet",
    "hashmacaddr",
    "hashmacaddr8",
    "hash_numeric",
    "hash_array",
    "hash_record",
    "time_hash",
    "timetz_hash",
    "interval_hash",
    "timestamp_hash",
    "uuid_hash",
    "hashenum",
    "jsonb_hash",
];

fn is_seeded_hash(source: &str) -> bool {
    let of = source.strip_suffix("extended").map(|of| of.strip_suffix('_').unwrap_or(of));
    of.is_some_and(|of| HASHES.contains(&of))
}

pub(super) fn find(source: &str) -> Option<Body> {
    match source {
        "booland_statefunc" => scalar(|_, a| Ok(Value::Bool(bool_of(&a[0]) && bool_of(&a[1])))),
        "boolor_statefunc" => scalar(|_, a| Ok(Value::Bool(bool_of(&a[0]) || bool_of(&a[1])))),
        "gen_random_uuid" => scalar(|ctx, _| {
            let mut uuid = [0; 16];
            uuid[..8].copy_from_slice(&ctx.system.random_u64().to_be_bytes());
            uuid[8..].copy_from_slice(&ctx.system.random_u64().to_be_bytes());
            uuid[6] = uuid[6] & 0x0f | 0x40;
            uuid[8] = uuid[8] & 0x3f | 0x80;
            Ok(Value::Uuid(Arc::new(uuid)))
        }),
        "i4tochar" => scalar(|_, a| {
            let code = super::int4(&a[0]);
            if !(-128..128).contains(&code) {
                return Err(super::numbers::out_of_range("\"char\""));
            }
            Ok(Value::text(char_of(code as u8)))
        }),
        "chartoi4" => scalar(|_, a| Ok(Value::Int4(i32::from(byte_of(text(&a[0])) as i8)))),
        "enum_first" => scalar(|ctx, _| ends(ctx, true)),
        "enum_last" => scalar(|ctx, _| ends(ctx, false)),
        "enum_range_all" => scalar(|ctx, _| {
            let ty = type_of(ctx.argument_types);
            settled_labels(ctx, ty, |_| true)
        }),
        "enum_range_bounds" => scalar(|ctx, a| {
            let ty = type_of(ctx.argument_types);
            let bound = |value: &Value| match value {
                Value::Enum(label) => Some(label.order),
                _ => None,
            };
            let (low, high) = (bound(&a[0]), bound(&a[1]));
            let inside = |label: &Value| {
                let order = bound(label).expect("labels of an enum");
                low.is_none_or(|low| order >= low) && high.is_none_or(|high| order <= high)
            };
            settled_labels(ctx, ty, inside)
        }),
        "boolsend" | "int2send" | "int4send" | "int8send" | "oidsend" | "float4send" | "float8send"
        | "numeric_send" | "textsend" | "varcharsend" | "bpcharsend" | "byteasend" | "date_send"
        | "time_send" | "timestamp_send" | "timestamptz_send" | "interval_send" | "uuid_send"
        | "cash_send" | "inet_send" | "cidr_send" | "macaddr_send" | "macaddr8_send" | "bit_send"
        | "varbit_send" => scalar(|ctx, a| {
            let mut form = Vec::new();
            binary::send(ctx, type_of(ctx.argument_types), &a[0], &mut form)?;
            Ok(Value::Bytea(form.into()))
        }),
        "pg_typeof" => scalar(|ctx, _| Ok(Value::Oid(type_of(ctx.argument_types)))),
        "pg_size_pretty" => scalar(|_, a| Ok(Value::text(size_pretty(super::int8(&a[0]))))),
        source if HASHES.contains(&source) => scalar(|ctx, a| {
            let ty = hashable(ctx, "a")?;
            Ok(Value::Int4(order::hash(ty, &a[0]) as i32))
        }),
        source if is_seeded_hash(source) => scalar(|ctx, a| {
            let (ty, seed) = (hashable(ctx, "an extended")?, a[1].as_i64().expect("a seed"));
            Ok(Value::Int8(order::hash(ty, &a[0]) as i64 ^ seed))
        }),
        "text_regclass" => scalar(|ctx, a| ctx.system.reg_in(oid::REGCLASS, text(&a[0])).map(Value::Oid)),
        "to_regclass" => scalar(|ctx, a| Ok(known(ctx.system.reg_in(oid::REGCLASS, text(&a[0]))))),
        "to_regtype" => scalar(|ctx, a| Ok(known(ctx.system.reg_in(oid::REGTYPE, text(&a[0]))))),
        "to_regproc" => scalar(|ctx, a| Ok(known(ctx.system.reg_in(oid::REGPROC, text(&a[0]))))),
        "to_regnamespace" => scalar(|ctx, a| Ok(known(ctx.system.reg_in(oid::REGNAMESPACE, text(&a[0]))))),
        "to_regrole" => scalar(|ctx, a| Ok(known(ctx.system.reg_in(oid::REGROLE, text(&a[0]))))),
        "int2in" | "int4in" | "int8in" | "boolin" | "numeric_in" | "uuid_in" | "textin" | "float4in"
        | "float8in" | "date_in" | "byteain" | "charin" | "namein" | "oidin" | "json_in" | "jsonb_in" => {
            scalar(|ctx, a| crate::types::text::input(ctx, Type::of(ctx.result_type), text(&a[0])))
        }
        _ => None,
    }
}

/// The type of what is to be hashed, unless it is an array of a type that has no hash function.
fn hashable(ctx: &EvalContext<'_>, function: &str) -> Result<Oid> {
    let ty = type_of(ctx.argument_types);
    let name = match ctx.element_of(ty) {
        oid::MONEY => "money",
        oid::BIT => "bit",
        oid::VARBIT => "bit varying",
        oid::JSON => "json",
        _ => return Ok(ty),
    };
    let message = format!("could not identify {function} hash function for type {name}");
    Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message))
}

fn type_of(types: &[Oid]) -> Oid {
    types.first().copied().unwrap_or(oid::UNKNOWN)
}

fn ends(ctx: &EvalContext<'_>, first: bool) -> Result<Value> {
    let ty = type_of(ctx.argument_types);
    let labels = ctx.system.enum_labels(ty);
    let label = if first { labels.into_iter().next() } else { labels.into_iter().last() };
    let none = || SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "enum contains no values");
    settled_label(ctx, ty, label.ok_or_else(none)?)
}

/// An array of an enum's labels that are wanted.
fn settled_labels(ctx: &EvalContext<'_>, ty: Oid, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
    let labels = ctx.system.enum_labels(ty).into_iter().filter(wanted);
    let labels: Result<Vec<Value>> = labels.map(|label| settled_label(ctx, ty, label)).collect();
    Ok(Value::array(ty, labels?))
}

fn known(found: Result<Oid>) -> Value {
    found.map_or(Value::Null, Value::Oid)
}

fn size_pretty(bytes: i64) -> String {
    let mut size = bytes;
    let units = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let mut unit = 0;
    // Halves are rounded at the last step only; one bit more is kept until then.
    while size.unsigned_abs() >= 10 * 1024 * if unit == 0 { 1 } else { 2 } && unit + 1 < units.len() {
        size /= if unit == 0 { 512 } else { 1024 };
        unit += 1;
    }
    if unit > 0 {
        size = (size + size.signum()) / 2;
    }
    format!("{size} {}", units[unit])
}

/// GREATEST or LEAST: NULLs are passed over.
pub fn extreme(ty: Oid, values: &[Value], greatest: bool) -> Value {
    let known = values.iter().filter(|value| !value.is_null());
    let chosen = known.reduce(|best, other| {
        let order = order::compare(ty, other, best);
        if (greatest && order.is_gt()) || (!greatest && order.is_lt()) { other } else { best }
    });
    chosen.cloned().unwrap_or(Value::Null)
}
