//! Arithmetic of integers, floats and numerics, and casts between them.

use super::{float4, float8, int2, int4, int8, numeric, scalar};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::types::numeric::{Numeric, division_by_zero};
use crate::types::value::Value;

#[cold]
pub(super) fn out_of_range(name: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range"))
}

/// The integer as the type of the function's result.
fn fit2(number: Option<i64>) -> Result<Value> {
    let fits = number.and_then(|n| i16::try_from(n).ok());
    fits.map(Value::Int2).ok_or_else(|| out_of_range("smallint"))
}

fn fit4(number: Option<i64>) -> Result<Value> {
    let fits = number.and_then(|n| i32::try_from(n).ok());
    fits.map(Value::Int4).ok_or_else(|| out_of_range("integer"))
}

fn fit8(number: Option<i64>) -> Result<Value> {
    number.map(Value::Int8).ok_or_else(|| out_of_range("bigint"))
}

#[inline]
fn int(value: &Value) -> i64 {
    match value {
        Value::Int2(n) => i64::from(*n),
        Value::Int4(n) => i64::from(*n),
        Value::Int8(n) => *n,
        other => super::wrong("integer", other),
    }
}

#[inline]
fn divide(a: i64, b: i64) -> Result<Option<i64>> {
    if b == 0 { Err(division_by_zero()) } else { Ok(a.checked_div(b)) }
}

fn remainder(a: i64, b: i64) -> Result<Option<i64>> {
    if b == 0 { Err(division_by_zero()) } else { Ok(Some(a.wrapping_rem(b))) }
}

pub(super) fn find(source: &str) -> Option<Body> {
    integer(source)
        .or_else(|| bits(source))
        .or_else(|| float(source))
        .or_else(|| decimal(source))
        .or_else(|| cast(source))
}

fn integer(source: &str) -> Option<Body> {
    match source {
        "int4pl" => scalar(|_, a| fit4(int(&a[0]).checked_add(int(&a[1])))),
        "int4mi" => scalar(|_, a| fit4(int(&a[0]).checked_sub(int(&a[1])))),
        "int4mul" | "int24mul" | "int42mul" => scalar(|_, a| fit4(int(&a[0]).checked_mul(int(&a[1])))),
        "int24pl" | "int42pl" => scalar(|_, a| fit4(int(&a[0]).checked_add(int(&a[1])))),
        "int24mi" | "int42mi" => scalar(|_, a| fit4(int(&a[0]).checked_sub(int(&a[1])))),
        "int4div" | "int24div" | "int42div" => scalar(|_, a| fit4(divide(int(&a[0]), int(&a[1]))?)),
        "int4mod" => scalar(|_, a| fit4(remainder(int(&a[0]), int(&a[1]))?)),
        "int2pl" => scalar(|_, a| fit2(int(&a[0]).checked_add(int(&a[1])))),
        "int2mi" => scalar(|_, a| fit2(int(&a[0]).checked_sub(int(&a[1])))),
        "int2mul" => scalar(|_, a| fit2(int(&a[0]).checked_mul(int(&a[1])))),
        "int2div" => scalar(|_, a| fit2(divide(int(&a[0]), int(&a[1]))?)),
        "int2mod" => scalar(|_, a| fit2(remainder(int(&a[0]), int(&a[1]))?)),
        "int8pl" | "int48pl" | "int84pl" | "int28pl" | "int82pl" => {
            scalar(|_, a| fit8(int(&a[0]).checked_add(int(&a[1]))))
        }
        "int8mi" | "int48mi" | "int84mi" | "int28mi" | "int82mi" => {
            scalar(|_, a| fit8(int(&a[0]).checked_sub(int(&a[1]))))
        }
        "int8mul" | "int48mul" | "int84mul" | "int28mul" | "int82mul" => {
            scalar(|_, a| fit8(int(&a[0]).checked_mul(int(&a[1]))))
        }
        "int8div" | "int48div" | "int84div" | "int28div" | "int82div" => {
            scalar(|_, a| fit8(divide(int(&a[0]), int(&a[1]))?))
        }
        "int8mod" => scalar(|_, a| fit8(remainder(int(&a[0]), int(&a[1]))?)),
        "int2um" => scalar(|_, a| fit2(int(&a[0]).checked_neg())),
        "int4um" => scalar(|_, a| fit4(int(&a[0]).checked_neg())),
        "int8um" => scalar(|_, a| fit8(int(&a[0]).checked_neg())),
        "int2up" | "int4up" | "int8up" | "float4up" | "float8up" | "numeric_uplus" => {
            scalar(|_, a| Ok(a[0].clone()))
        }
        "int2abs" => scalar(|_, a| fit2(int(&a[0]).checked_abs())),
        "int4abs" => scalar(|_, a| fit4(int(&a[0]).checked_abs())),
        "int8abs" => scalar(|_, a| fit8(int(&a[0]).checked_abs())),
        "int4gcd" => scalar(|_, a| fit4(gcd(int(&a[0]), int(&a[1])))),
        "int8gcd" => scalar(|_, a| fit8(gcd(int(&a[0]), int(&a[1])))),
        "int4lcm" => scalar(|_, a| fit4(lcm(int(&a[0]), int(&a[1])))),
        "int8lcm" => scalar(|_, a| fit8(lcm(int(&a[0]), int(&a[1])))),
        "int8inc" => scalar(|_, a| fit8(int(&a[0]).checked_add(1))),
        _ => None,
    }
}

fn gcd(a: i64, b: i64) -> Option<i64> {
    let (mut a, mut b) = (i128::from(a).abs(), i128::from(b).abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).ok()
}

fn lcm(a: i64, b: i64) -> Option<i64> {
    if a == 0 || b == 0 {
        return Some(0);
    }
    i64::try_from((i128::from(a) / i128::from(gcd(a, b)?) * i128::from(b)).abs()).ok()
}

fn bits(source: &str) -> Option<Body> {
    match source {
        "int2and" => scalar(|_, a| Ok(Value::Int2(int2(&a[0]) & int2(&a[1])))),
        "int2or" => scalar(|_, a| Ok(Value::Int2(int2(&a[0]) | int2(&a[1])))),
        "int2xor" => scalar(|_, a| Ok(Value::Int2(int2(&a[0]) ^ int2(&a[1])))),
        "int2not" => scalar(|_, a| Ok(Value::Int2(!int2(&a[0])))),
        "int2shl" => {
            scalar(|_, a| Ok(Value::Int2(i32::from(int2(&a[0])).wrapping_shl(int4(&a[1]) as u32) as i16)))
        }
        "int2shr" => {
            scalar(|_, a| Ok(Value::Int2(i32::from(int2(&a[0])).wrapping_shr(int4(&a[1]) as u32) as i16)))
        }
        "int4and" => scalar(|_, a| Ok(Value::Int4(int4(&a[0]) & int4(&a[1])))),
        "int4or" => scalar(|_, a| Ok(Value::Int4(int4(&a[0]) | int4(&a[1])))),
        "int4xor" => scalar(|_, a| Ok(Value::Int4(int4(&a[0]) ^ int4(&a[1])))),
        "int4not" => scalar(|_, a| Ok(Value::Int4(!int4(&a[0])))),
        "int4shl" => scalar(|_, a| Ok(Value::Int4(int4(&a[0]).wrapping_shl(int4(&a[1]) as u32)))),
        "int4shr" => scalar(|_, a| Ok(Value::Int4(int4(&a[0]).wrapping_shr(int4(&a[1]) as u32)))),
        "int8and" => scalar(|_, a| Ok(Value::Int8(int8(&a[0]) & int8(&a[1])))),
        "int8or" => scalar(|_, a| Ok(Value::Int8(int8(&a[0]) | int8(&a[1])))),
        "int8xor" => scalar(|_, a| Ok(Value::Int8(int8(&a[0]) ^ int8(&a[1])))),
        "int8not" => scalar(|_, a| Ok(Value::Int8(!int8(&a[0])))),
        "int8shl" => scalar(|_, a| Ok(Value::Int8(int8(&a[0]).wrapping_shl(int4(&a[1]) as u32)))),
        "int8shr" => scalar(|_, a| Ok(Value::Int8(int8(&a[0]).wrapping_shr(int4(&a[1]) as u32)))),
        _ => None,
    }
}

/// The result of an operation on floats, which may overflow or underflow only if its inputs did.
pub(super) fn checked(result: f64, infinite_inputs: bool, zero_is_right: bool) -> Result<f64> {
    if result.is_infinite() && !infinite_inputs {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
    }
    if result == 0.0 && !zero_is_right {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow"));
    }
    Ok(result)
}

#[derive(Clone, Copy)]
enum Op {
    Add,
    Sub,
    Mul,
    Div,
}

fn wide(value: &Value) -> f64 {
    match value {
        Value::Float4(f) => f64::from(*f),
        other => float8(other),
    }
}

fn operate(op: Op, a: f64, b: f64, single: bool) -> Result<f64> {
    let narrow = |x: f64| if single { f64::from(x as f32) } else { x };
    let infinite = a.is_infinite() || b.is_infinite();
    match op {
        Op::Add => checked(narrow(a + b), infinite, true),
        Op::Sub => checked(narrow(a - b), infinite, true),
        Op::Mul => checked(narrow(a * b), infinite, a == 0.0 || b == 0.0),
        Op::Div if b == 0.0 && !a.is_nan() => Err(division_by_zero()),
        Op::Div => checked(narrow(a / b), a.is_infinite(), a == 0.0 || b.is_infinite()),
    }
}

fn double(op: Op, a: &[Value]) -> Result<Value> {
    operate(op, wide(&a[0]), wide(&a[1]), false).map(Value::Float8)
}

fn single(op: Op, a: &[Value]) -> Result<Value> {
    operate(op, wide(&a[0]), wide(&a[1]), true).map(|f| Value::Float4(f as f32))
}

fn float(source: &str) -> Option<Body> {
    match source {
        "float8pl" | "float48pl" | "float84pl" => scalar(|_, a| double(Op::Add, a)),
        "float8mi" | "float48mi" | "float84mi" => scalar(|_, a| double(Op::Sub, a)),
        "float8mul" | "float48mul" | "float84mul" => scalar(|_, a| double(Op::Mul, a)),
        "float8div" | "float48div" | "float84div" => scalar(|_, a| double(Op::Div, a)),
        "float4pl" => scalar(|_, a| single(Op::Add, a)),
        "float4mi" => scalar(|_, a| single(Op::Sub, a)),
        "float4mul" => scalar(|_, a| single(Op::Mul, a)),
        "float4div" => scalar(|_, a| single(Op::Div, a)),
        "float8um" => scalar(|_, a| Ok(Value::Float8(-float8(&a[0])))),
        "float4um" => scalar(|_, a| Ok(Value::Float4(-float4(&a[0])))),
        "float8abs" => scalar(|_, a| Ok(Value::Float8(float8(&a[0]).abs()))),
        "float4abs" => scalar(|_, a| Ok(Value::Float4(float4(&a[0]).abs()))),
        _ => None,
    }
}

fn decimal(source: &str) -> Option<Body> {
    match source {
        "numeric_add" => scalar(|_, a| Ok(Value::Numeric(numeric(&a[0]).add(numeric(&a[1]))))),
        "numeric_sub" => scalar(|_, a| Ok(Value::Numeric(numeric(&a[0]).sub(numeric(&a[1]))))),
        "numeric_mul" => scalar(|_, a| numeric(&a[0]).mul(numeric(&a[1])).map(Value::Numeric)),
        "numeric_div" => scalar(|_, a| numeric(&a[0]).div(numeric(&a[1])).map(Value::Numeric)),
        "numeric_mod" => scalar(|_, a| numeric(&a[0]).rem(numeric(&a[1])).map(Value::Numeric)),
        "numeric_div_trunc" => scalar(|_, a| numeric(&a[0]).div_trunc(numeric(&a[1])).map(Value::Numeric)),
        "numeric_uminus" => scalar(|_, a| Ok(Value::Numeric(numeric(&a[0]).neg()))),
        "numeric_abs" => scalar(|_, a| Ok(Value::Numeric(numeric(&a[0]).abs()))),
        "numeric_inc" => scalar(|_, a| Ok(Value::Numeric(numeric(&a[0]).add(&Numeric::ONE)))),
        _ => None,
    }
}

/// The float rounded to an integer (ties to even, as C's `rint` does).
fn from_float(float: f64) -> Option<i64> {
    let rounded = float.round_ties_even();
    // The largest i64 is no float; 2^63 is the first that is too large.
    (rounded >= i64::MIN as f64 && rounded < -(i64::MIN as f64)).then_some(rounded as i64)
}

fn from_numeric(value: &Value, name: &str) -> Result<Option<i64>> {
    let number = numeric(value);
    if !number.is_finite() {
        let what = if number.is_nan() { "NaN" } else { "infinity" };
        return Err(SqlError::refused_by_postgresql(format!("cannot convert {what} to {name}")));
    }
    Ok(number.to_i64())
}

fn to_single(wide: f64) -> Result<Value> {
    let single = wide as f32;
    checked(f64::from(single), wide.is_infinite(), wide == 0.0)?;
    Ok(Value::Float4(single))
}

fn cast(source: &str) -> Option<Body> {
    match source {
        "i2toi4" => scalar(|_, a| Ok(Value::Int4(i32::from(int2(&a[0]))))),
        "i4toi2" => scalar(|_, a| fit2(Some(int(&a[0])))),
        "int28" | "int48" => scalar(|_, a| Ok(Value::Int8(int(&a[0])))),
        "int82" => scalar(|_, a| fit2(Some(int(&a[0])))),
        "int84" => scalar(|_, a| fit4(Some(int(&a[0])))),
        "i2tod" | "i4tod" | "i8tod" => scalar(|_, a| Ok(Value::Float8(int(&a[0]) as f64))),
        "i2tof" | "i4tof" | "i8tof" => scalar(|_, a| Ok(Value::Float4(int(&a[0]) as f32))),
        "dtoi2" | "ftoi2" => scalar(|_, a| fit2(from_float(wide(&a[0])))),
        "dtoi4" | "ftoi4" => scalar(|_, a| fit4(from_float(wide(&a[0])))),
        "dtoi8" | "ftoi8" => scalar(|_, a| fit8(from_float(wide(&a[0])))),
        "ftod" => scalar(|_, a| Ok(Value::Float8(f64::from(float4(&a[0]))))),
        "dtof" => scalar(|_, a| to_single(float8(&a[0]))),
        "int2_numeric" | "int4_numeric" | "int8_numeric" => {
            scalar(|_, a| Ok(Value::Numeric(Numeric::from_i64(int(&a[0])))))
        }
        "numeric_int2" => scalar(|_, a| fit2(from_numeric(&a[0], "smallint")?)),
        "numeric_int4" => scalar(|_, a| fit4(from_numeric(&a[0], "integer")?)),
        "numeric_int8" => scalar(|_, a| fit8(from_numeric(&a[0], "bigint")?)),
        "float8_numeric" => scalar(|_, a| Ok(Value::Numeric(Numeric::from_f64(float8(&a[0]))))),
        "float4_numeric" => scalar(|_, a| Ok(Value::Numeric(Numeric::from_f32(float4(&a[0]))))),
        "numeric_float8" => scalar(|_, a| {
            let number = numeric(&a[0]);
            checked(number.to_f64(), !number.is_finite(), true)
                .map(Value::Float8)
                .map_err(|_| too_large(number, "double precision"))
        }),
        "numeric_float4" => scalar(|_, a| {
            let number = numeric(&a[0]);
            to_single(number.to_f64()).map_err(|_| too_large(number, "real"))
        }),
        // The modifier is applied after the cast.
        "numeric" => scalar(|_, a| Ok(a[0].clone())),
        "int4_bool" => scalar(|_, a| Ok(Value::Bool(int4(&a[0]) != 0))),
        "bool_int4" => scalar(|_, a| Ok(Value::Int4(i32::from(super::bool_of(&a[0]))))),
        "i8tooid" => {
            scalar(|_, a| u32::try_from(int(&a[0])).map(Value::Oid).map_err(|_| out_of_range("OID")))
        }
        "oidtoi8" => scalar(|_, a| Ok(Value::Int8(a[0].as_i64().expect("an oid is a number")))),
        _ => None,
    }
}

fn too_large(number: &Numeric, ty: &str) -> SqlError {
    let message = format!("\"{number}\" is out of range for type {ty}");
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}
