//! Addresses of hosts and networks: parts, masks, containment and arithmetic.

use super::numbers::out_of_range;
use super::{bytea, int4, int8, invalid_parameter, scalar};
use crate::error::Result;
use crate::func::registry::Body;
use crate::types::inet::{self, Inet};
use crate::types::oid;
use crate::types::value::Value;

pub(super) fn find(source: &str) -> Option<Body> {
    parts(source).or_else(|| relations(source)).or_else(|| arithmetic(source))
}

fn parts(source: &str) -> Option<Body> {
    match source {
        "inet_abbrev" => scalar(|_, a| Ok(shown(oid::INET, of(&a[0])))),
        "cidr_abbrev" => scalar(|_, a| Ok(Value::text(inet::abbreviated(of(&a[0]))))),
        "network_host" => scalar(|_, a| Ok(Value::text(inet::host(of(&a[0]))))),
        "network_show" => scalar(|_, a| Ok(shown(oid::CIDR, of(&a[0])))),
        "network_family" => scalar(|_, a| Ok(Value::Int4(i32::from(of(&a[0]).family())))),
        "network_masklen" => scalar(|_, a| Ok(Value::Int4(i32::from(of(&a[0]).bits)))),
        "network_network" | "inet_to_cidr" => scalar(|_, a| Ok(value(of(&a[0]).network()))),
        "network_netmask" => scalar(|_, a| {
            let own = of(&a[0]);
            let all = if own.is_v6 { u128::MAX } else { u128::from(u32::MAX) };
            Ok(value(Inet { bits: own.width(), address: all & !own.host_mask(), ..own }))
        }),
        "network_hostmask" => scalar(|_, a| {
            let own = of(&a[0]);
            Ok(value(Inet { bits: own.width(), address: own.host_mask(), ..own }))
        }),
        "network_broadcast" => scalar(|_, a| {
            let own = of(&a[0]);
            Ok(value(Inet { address: own.address | own.host_mask(), ..own }))
        }),
        "inet_set_masklen" => scalar(|_, a| Ok(value(masked(of(&a[0]), int4(&a[1]))?))),
        "cidr_set_masklen" => scalar(|_, a| Ok(value(masked(of(&a[0]), int4(&a[1]))?.network()))),
        _ => None,
    }
}

fn relations(source: &str) -> Option<Body> {
    match source {
        "network_sub" => scalar(|_, a| Ok(Value::Bool(lies_in(of(&a[0]), of(&a[1]), false)))),
        "network_subeq" => scalar(|_, a| Ok(Value::Bool(lies_in(of(&a[0]), of(&a[1]), true)))),
        "network_sup" => scalar(|_, a| Ok(Value::Bool(lies_in(of(&a[1]), of(&a[0]), false)))),
        "network_supeq" => scalar(|_, a| Ok(Value::Bool(lies_in(of(&a[1]), of(&a[0]), true)))),
        "network_overlap" => scalar(|_, a| {
            let (one, other) = (of(&a[0]), of(&a[1]));
            Ok(Value::Bool(lies_in(one, other, true) || lies_in(other, one, true)))
        }),
        "inet_same_family" => scalar(|_, a| Ok(Value::Bool(of(&a[0]).is_v6 == of(&a[1]).is_v6))),
        "inet_merge" => scalar(|_, a| {
            let (one, other) = (of(&a[0]), of(&a[1]));
            if one.is_v6 != other.is_v6 {
                return Err(invalid_parameter("cannot merge addresses from different families"));
            }
            let different = 128 - (one.address ^ other.address).leading_zeros() as u8;
            let common = (one.width() - different).min(one.bits).min(other.bits);
            Ok(value(Inet { bits: common, ..one }.network()))
        }),
        _ => None,
    }
}

fn arithmetic(source: &str) -> Option<Body> {
    match source {
        "inetnot" => scalar(|_, a| {
            let own = of(&a[0]);
            let all = if own.is_v6 { u128::MAX } else { u128::from(u32::MAX) };
            Ok(value(Inet { address: own.address ^ all, ..own }))
        }),
        "inetand" => scalar(|_, a| both(&a[0], &a[1], "AND", |a, b| a & b)),
        "inetor" => scalar(|_, a| both(&a[0], &a[1], "OR", |a, b| a | b)),
        "inetpl" => scalar(|_, a| moved(of(&a[0]), i128::from(int8(&a[1])))),
        "int8pl_inet/2" => scalar(|_, a| moved(of(&a[1]), i128::from(int8(&a[0])))),
        "inetmi_int8" => scalar(|_, a| moved(of(&a[0]), -i128::from(int8(&a[1])))),
        "inetmi" => scalar(|_, a| {
            let (one, other) = (of(&a[0]), of(&a[1]));
            if one.is_v6 != other.is_v6 {
                return Err(invalid_parameter("cannot subtract inet values of different sizes"));
            }
            let between = one.address.wrapping_sub(other.address) as i128;
            let is_right = (between < 0) == (one.address < other.address);
            let between = i64::try_from(between).ok().filter(|_| is_right);
            between.map(Value::Int8).ok_or_else(|| out_of_range("result is"))
        }),
        _ => None,
    }
}

fn of(value: &Value) -> Inet {
    Inet::of(bytea(value))
}

fn value(inet: Inet) -> Value {
    Value::bytea(inet.to_bytes())
}

fn shown(ty: crate::types::Oid, inet: Inet) -> Value {
    let mut text = String::new();
    inet::write(ty, inet, &mut text);
    Value::text(text)
}

/// With a mask of another length; -1 stands for that of a single host.
fn masked(inet: Inet, bits: i32) -> Result<Inet> {
    let bits = if bits == -1 { i32::from(inet.width()) } else { bits };
    match u8::try_from(bits) {
        Ok(bits) if bits <= inet.width() => Ok(Inet { bits, ..inet }),
        _ => Err(invalid_parameter(format!("invalid mask length: {bits}"))),
    }
}

/// Whether one network is within another, or (if `equal`) is that one.
fn lies_in(inner: Inet, outer: Inet, equal: bool) -> bool {
    let fits = inner.bits > outer.bits || equal && inner.bits == outer.bits;
    inner.is_v6 == outer.is_v6 && fits && (inner.address ^ outer.address) & !outer.host_mask() == 0
}

fn both(a: &Value, b: &Value, name: &str, op: fn(u128, u128) -> u128) -> Result<Value> {
    let (one, other) = (of(a), of(b));
    if one.is_v6 != other.is_v6 {
        return Err(invalid_parameter(format!("cannot {name} inet values of different sizes")));
    }
    let bits = one.bits.max(other.bits);
    Ok(value(Inet { bits, address: op(one.address, other.address), ..one }))
}

fn moved(inet: Inet, by: i128) -> Result<Value> {
    let moved = inet.address.checked_add_signed(by);
    let fits = |address: &u128| inet.is_v6 || u32::try_from(*address).is_ok();
    let address = moved.filter(fits).ok_or_else(|| out_of_range("result is"))?;
    Ok(value(Inet { address, ..inet }))
}
