//! Arithmetic of money, which counts cents, and casts from and to numbers.

use super::numbers::out_of_range;
use super::{float4, float8, int8, numeric, scalar};
use crate::error::Result;
use crate::func::registry::Body;
use crate::types::money;
use crate::types::numeric::{Numeric, division_by_zero};
use crate::types::value::Value;

pub(super) fn find(source: &str) -> Option<Body> {
    match source {
        "cash_pl" => scalar(|_, a| add(&a[0], &a[1])),
        "cash_mi" => scalar(|_, a| fit(int8(&a[0]).checked_sub(int8(&a[1])))),
        "cash_mul_int8" | "cash_mul_int4" | "cash_mul_int2" => scalar(|_, a| times(&a[0], &a[1])),
        "int8_mul_cash" | "int4_mul_cash" | "int2_mul_cash" => scalar(|_, a| times(&a[1], &a[0])),
        "cash_div_int8" | "cash_div_int4" | "cash_div_int2" => scalar(|_, a| match whole(&a[1]) {
            0 => Err(division_by_zero()),
            divisor => fit(int8(&a[0]).checked_div(divisor)),
        }),
        "cash_mul_flt8" => scalar(|_, a| scaled(&a[0], float8(&a[1]))),
        "cash_mul_flt4" => scalar(|_, a| scaled(&a[0], f64::from(float4(&a[1])))),
        "flt8_mul_cash" => scalar(|_, a| scaled(&a[1], float8(&a[0]))),
        "flt4_mul_cash" => scalar(|_, a| scaled(&a[1], f64::from(float4(&a[0])))),
        "cash_div_flt8" => scalar(|_, a| divided(&a[0], float8(&a[1]))),
        "cash_div_flt4" => scalar(|_, a| divided(&a[0], f64::from(float4(&a[1])))),
        "cash_div_cash" => scalar(|_, a| match int8(&a[1]) {
            0 => Err(division_by_zero()),
            divisor => Ok(Value::Float8(int8(&a[0]) as f64 / divisor as f64)),
        }),
        "cash_words" => scalar(|_, a| Ok(Value::text(money::words(int8(&a[0]))))),
        "int4_cash" | "int8_cash" => scalar(|_, a| cents(whole(&a[0]).checked_mul(100))),
        "numeric_cash" => scalar(|_, a| {
            let number = numeric(&a[0]).mul(&Numeric::from_i64(100))?;
            cents(number.round(0).to_i64())
        }),
        "cash_numeric" => scalar(|_, a| Ok(Value::Numeric(Numeric::from_i128(int8(&a[0]).into(), 2)))),
        _ => None,
    }
}

/// The sum of two amounts.
pub(super) fn add(a: &Value, b: &Value) -> Result<Value> {
    fit(int8(a).checked_add(int8(b)))
}

fn fit(cents: Option<i64>) -> Result<Value> {
    cents.map(Value::Int8).ok_or_else(|| out_of_range("money"))
}

/// What a number is as money: PostgreSQL reckons it as a bigint.
fn cents(cents: Option<i64>) -> Result<Value> {
    cents.map(Value::Int8).ok_or_else(|| out_of_range("bigint"))
}

fn whole(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| super::wrong("integer", value))
}

fn times(amount: &Value, factor: &Value) -> Result<Value> {
    fit(int8(amount).checked_mul(whole(factor)))
}

fn scaled(amount: &Value, factor: f64) -> Result<Value> {
    rounded(int8(amount) as f64 * factor)
}

fn divided(amount: &Value, divisor: f64) -> Result<Value> {
    if divisor == 0.0 {
        return Err(division_by_zero());
    }
    rounded(int8(amount) as f64 / divisor)
}

fn rounded(cents: f64) -> Result<Value> {
    let cents = cents.round_ties_even();
    let fits = (-(2_f64.powi(63))..2_f64.powi(63)).contains(&cents);
    fit(fits.then_some(cents as i64))
}
