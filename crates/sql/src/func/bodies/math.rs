//! Mathematical functions of floats and numerics.

use super::numbers::checked;
use super::{float8, int4, numeric, scalar};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::types::numeric::Numeric;
use crate::types::numeric_math;
use crate::types::value::Value;

#[cold]
fn input_out_of_range() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")
}

/// A function of one float that is defined everywhere and cannot overflow.
fn plain(a: &[Value], f: fn(f64) -> f64) -> Result<Value> {
    Ok(Value::Float8(f(float8(&a[0]))))
}

/// A function that is defined where `holds`.
fn within(a: &[Value], f: fn(f64) -> f64, holds: fn(f64) -> bool) -> Result<Value> {
    let x = float8(&a[0]);
    if !x.is_nan() && !holds(x) {
        return Err(input_out_of_range());
    }
    Ok(Value::Float8(f(x)))
}

/// A function whose result may overflow.
fn growing(a: &[Value], f: fn(f64) -> f64) -> Result<Value> {
    let x = float8(&a[0]);
    checked(f(x), x.is_infinite(), true).map(Value::Float8)
}

fn logarithm(a: &[Value], f: fn(f64) -> f64) -> Result<Value> {
    let x = float8(&a[0]);
    let message = match () {
        () if x == 0.0 => "cannot take logarithm of zero",
        () if x < 0.0 => "cannot take logarithm of a negative number",
        () => return Ok(Value::Float8(f(x))),
    };
    Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOG, message))
}

/// The right angles exactly: functions of degrees.
fn degrees(a: &[Value], f: fn(f64) -> f64) -> Result<Value> {
    let x = float8(&a[0]);
    if x.is_infinite() {
        return Err(input_out_of_range());
    }
    Ok(Value::Float8(f(x)))
}

fn sind(x: f64) -> f64 {
    let x = x % 360.0;
    let (sign, x) = if x < 0.0 { (-1.0, -x) } else { (1.0, x) };
    let (sign, x) = if x > 180.0 { (-sign, 360.0 - x) } else { (sign, x) };
    let x = if x > 90.0 { 180.0 - x } else { x };
    let sin = |x: f64| x.to_radians().sin();
    sign * if x <= 30.0 { sin(x) / sin(30.0) / 2.0 } else { cosd_quadrant(90.0 - x) }
}

fn cosd_quadrant(x: f64) -> f64 {
    let one_minus_cos = |x: f64| 1.0 - x.to_radians().cos();
    if x <= 60.0 {
        1.0 - one_minus_cos(x) / one_minus_cos(60.0) / 2.0
    } else {
        let sin = |x: f64| x.to_radians().sin();
        sin(90.0 - x) / sin(30.0) / 2.0
    }
}

fn cosd(x: f64) -> f64 {
    let x = (x % 360.0).abs();
    let x = if x > 180.0 { 360.0 - x } else { x };
    let (sign, x) = if x > 90.0 { (-1.0, 180.0 - x) } else { (1.0, x) };
    sign * cosd_quadrant(x)
}

fn asind(x: f64) -> f64 {
    let half = 0.5f64.asin();
    if x.abs() <= 0.5 {
        x.asin() / half * 30.0
    } else {
        (90.0 - x.abs().acos() / 0.5f64.acos() * 60.0).copysign(x)
    }
}

fn acosd(x: f64) -> f64 {
    90.0 - asind(x)
}

fn power(base: f64, exponent: f64) -> Result<f64> {
    if base == 0.0 && exponent < 0.0 {
        let message = "zero raised to a negative power is undefined";
        return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER, message));
    }
    if base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER, message));
    }
    let result = base.powf(exponent);
    checked(
        result,
        base.is_infinite() || exponent.is_infinite(),
        base == 0.0 || exponent.is_infinite() || base.is_infinite(),
    )
}

pub(super) fn find(source: &str) -> Option<Body> {
    float(source).or_else(|| trigonometry(source)).or_else(|| decimal(source)).or_else(|| buckets(source))
}

fn float(source: &str) -> Option<Body> {
    match source {
        "dround" => scalar(|_, a| plain(a, f64::round_ties_even)),
        "dceil" => scalar(|_, a| plain(a, f64::ceil)),
        "dfloor" => scalar(|_, a| plain(a, f64::floor)),
        "dtrunc" => scalar(|_, a| plain(a, f64::trunc)),
        "dsign" => scalar(|_, a| plain(a, |x| f64::from(i8::from(x > 0.0) - i8::from(x < 0.0)))),
        "dsqrt" => scalar(|_, a| {
            let x = float8(&a[0]);
            if x < 0.0 {
                let message = "cannot take square root of a negative number";
                return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER, message));
            }
            Ok(Value::Float8(x.sqrt()))
        }),
        "dcbrt" => scalar(|_, a| plain(a, f64::cbrt)),
        "dpow" => scalar(|_, a| power(float8(&a[0]), float8(&a[1])).map(Value::Float8)),
        "dexp" => scalar(|_, a| {
            let x = float8(&a[0]);
            checked(x.exp(), x.is_infinite(), x.is_infinite()).map(Value::Float8)
        }),
        "dlog1" => scalar(|_, a| logarithm(a, f64::ln)),
        "dlog10" | "log10" => scalar(|_, a| logarithm(a, f64::log10)),
        "degrees" => scalar(|_, a| growing(a, |x| x / (std::f64::consts::PI / 180.0))),
        "radians" => scalar(|_, a| plain(a, |x| x * (std::f64::consts::PI / 180.0))),
        "dpi" => scalar(|_, _| Ok(Value::Float8(std::f64::consts::PI))),
        "drandom" => {
            scalar(|ctx, _| Ok(Value::Float8((ctx.system.seeded_u64() >> 12) as f64 / (1u64 << 52) as f64)))
        }
        _ => None,
    }
}

fn trigonometry(source: &str) -> Option<Body> {
    match source {
        "dsin" => scalar(|_, a| within(a, f64::sin, f64::is_finite)),
        "dcos" => scalar(|_, a| within(a, f64::cos, f64::is_finite)),
        "dtan" => scalar(|_, a| within(a, f64::tan, f64::is_finite)),
        "dcot" => scalar(|_, a| within(a, |x| 1.0 / x.tan(), f64::is_finite)),
        "dasin" => scalar(|_, a| within(a, f64::asin, |x| x.abs() <= 1.0)),
        "dacos" => scalar(|_, a| within(a, f64::acos, |x| x.abs() <= 1.0)),
        "datan" => scalar(|_, a| plain(a, f64::atan)),
        "datan2" => scalar(|_, a| Ok(Value::Float8(float8(&a[0]).atan2(float8(&a[1]))))),
        "dsinh" => scalar(|_, a| plain(a, f64::sinh)),
        "dcosh" => scalar(|_, a| plain(a, f64::cosh)),
        "dtanh" => scalar(|_, a| plain(a, f64::tanh)),
        "dasinh" => scalar(|_, a| plain(a, f64::asinh)),
        "dacosh" => scalar(|_, a| within(a, f64::acosh, |x| x >= 1.0)),
        "datanh" => scalar(|_, a| within(a, f64::atanh, |x| x.abs() <= 1.0)),
        "dsind" => scalar(|_, a| degrees(a, sind)),
        "dcosd" => scalar(|_, a| degrees(a, cosd)),
        "dtand" => scalar(|_, a| degrees(a, |x| sind(x) / cosd(x) + 0.0)),
        "dcotd" => scalar(|_, a| degrees(a, |x| cosd(x) / sind(x) + 0.0)),
        "dasind" => scalar(|_, a| within(a, asind, |x| x.abs() <= 1.0)),
        "dacosd" => scalar(|_, a| within(a, acosd, |x| x.abs() <= 1.0)),
        "datand" => scalar(|_, a| plain(a, |x| x.atan() / 1f64.atan() * 45.0)),
        "datan2d" => {
            scalar(|_, a| Ok(Value::Float8(float8(&a[0]).atan2(float8(&a[1])) / 1f64.atan() * 45.0)))
        }
        _ => None,
    }
}

fn one(a: &[Value], f: fn(&Numeric) -> Result<Numeric>) -> Result<Value> {
    f(numeric(&a[0])).map(Value::Numeric)
}

fn places(a: &[Value]) -> i64 {
    a.get(1).map_or(0, |places| i64::from(int4(places)))
}

fn decimal(source: &str) -> Option<Body> {
    match source {
        "numeric_round" | "round/1" => scalar(|_, a| Ok(Value::Numeric(numeric(&a[0]).round(places(a))))),
        "numeric_trunc" | "trunc/1" => scalar(|_, a| Ok(Value::Numeric(numeric(&a[0]).trunc(places(a))))),
        "numeric_ceil" => scalar(|_, a| one(a, |n| Ok(n.ceil()))),
        "numeric_floor" => scalar(|_, a| one(a, |n| Ok(n.floor()))),
        "numeric_sign" => scalar(|_, a| {
            one(a, |n| Ok(if n.is_nan() { Numeric::NaN } else { Numeric::from_i64(i64::from(n.signum())) }))
        }),
        "numeric_sqrt" => scalar(|_, a| one(a, numeric_math::sqrt)),
        "numeric_exp" => scalar(|_, a| one(a, numeric_math::exp)),
        "numeric_ln" => scalar(|_, a| one(a, numeric_math::ln)),
        "numeric_log" => scalar(|_, a| numeric_math::log(numeric(&a[0]), numeric(&a[1])).map(Value::Numeric)),
        "log/1" => scalar(|_, a| common_logarithm(&a[0], "log")),
        "log10/1" => scalar(|_, a| common_logarithm(&a[0], "log10")),
        "numeric_power" => {
            scalar(|_, a| numeric_math::power(numeric(&a[0]), numeric(&a[1])).map(Value::Numeric))
        }
        "numeric_scale" => scalar(|_, a| {
            let n = numeric(&a[0]);
            Ok(if n.is_finite() { Value::Int4(i32::from(n.scale())) } else { Value::Null })
        }),
        "numeric_min_scale" => scalar(|_, a| {
            let n = numeric(&a[0]);
            Ok(if n.is_finite() { Value::Int4(i32::from(n.trim_scale().scale())) } else { Value::Null })
        }),
        "numeric_trim_scale" => scalar(|_, a| one(a, |n| Ok(n.trim_scale()))),
        "numeric_fac" => scalar(|_, a| factorial(super::int8(&a[0]))),
        "numeric_gcd" => scalar(|_, a| gcd(numeric(&a[0]), numeric(&a[1])).map(Value::Numeric)),
        "numeric_lcm" => scalar(|_, a| {
            let (x, y) = (numeric(&a[0]), numeric(&a[1]));
            if x.signum() == 0 || y.signum() == 0 {
                return Ok(Value::Numeric(Numeric::ZERO.round(i64::from(x.scale().max(y.scale())))));
            }
            let divided = x.div_trunc(&gcd(x, y)?)?;
            Ok(Value::Numeric(divided.mul(y)?.abs().round(i64::from(x.scale().max(y.scale())))))
        }),
        _ => None,
    }
}

fn factorial(n: i64) -> Result<Value> {
    if n < 0 {
        let message = "factorial of a negative number is undefined";
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    if n > 32_177 {
        return Err(crate::types::numeric::overflow());
    }
    let mut product = num_bigint::BigInt::from(1);
    for factor in 2..=n {
        crate::stop::check()?;
        product *= factor;
    }
    Ok(Value::Numeric(Numeric::new(product, 0)))
}

fn gcd(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    if !a.is_finite() || !b.is_finite() {
        return Ok(Numeric::NaN);
    }
    let scale = i64::from(a.scale().max(b.scale()));
    let (mut a, mut b) = (a.abs(), b.abs());
    while b.signum() != 0 {
        let rest = a.rem(&b)?;
        a = std::mem::replace(&mut b, rest);
    }
    Ok(a.round(scale))
}

fn buckets(source: &str) -> Option<Body> {
    fn bad(message: &str) -> SqlError {
        SqlError::new(SqlState::INVALID_ARGUMENT_FOR_WIDTH_BUCKET, message)
    }
    match source {
        "width_bucket_array" => scalar(|_, a| {
            let bounds = super::array(&a[1]);
            if bounds.dimensions.len() > 1 {
                let message = "thresholds must be one-dimensional array";
                return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
            }
            if bounds.elements.iter().any(Value::is_null) {
                let message = "thresholds array must not contain NULLs";
                return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
            }
            let order = |bound: &Value| crate::types::order::compare(bounds.element, bound, &a[0]);
            Ok(Value::Int4(bounds.elements.partition_point(|bound| order(bound).is_le()) as i32))
        }),
        "width_bucket_float8" => scalar(|_, a| {
            let (x, low, high, count) = (float8(&a[0]), float8(&a[1]), float8(&a[2]), int4(&a[3]));
            if count <= 0 {
                return Err(bad("count must be greater than zero"));
            }
            if x.is_nan() || low.is_nan() || high.is_nan() {
                return Err(bad("operand, lower bound, and upper bound cannot be NaN"));
            }
            if low == high {
                return Err(bad("lower bound cannot equal upper bound"));
            }
            let part = (x - low) / (high - low);
            Ok(Value::Int4(match () {
                () if part < 0.0 => 0,
                () if part >= 1.0 => count + 1,
                () => (part * f64::from(count)).floor() as i32 + 1,
            }))
        }),
        "width_bucket_numeric" => scalar(|_, a| {
            let (x, low, high, count) = (numeric(&a[0]), numeric(&a[1]), numeric(&a[2]), int4(&a[3]));
            if count <= 0 {
                return Err(bad("count must be greater than zero"));
            }
            if low == high {
                return Err(bad("lower bound cannot equal upper bound"));
            }
            let up = low < high;
            let (before, behind) = if up { (x < low, x >= high) } else { (x > low, x <= high) };
            if before || behind {
                return Ok(Value::Int4(if before { 0 } else { count + 1 }));
            }
            let part = x.sub(low).mul(&Numeric::from_i64(i64::from(count)))?.div_trunc(&high.sub(low))?;
            Ok(Value::Int4(part.to_i64().expect("a bucket is a small number") as i32 + 1))
        }),
        _ => None,
    }
}

/// To base 10, by functions that PostgreSQL writes in SQL, which its errors tell.
fn common_logarithm(value: &Value, name: &str) -> Result<Value> {
    let made = numeric_math::log(&Numeric::from_i64(10), numeric(value));
    made.map(Value::Numeric).map_err(|error| error.context(|| format!("SQL function \"{name}\" statement 1")))
}
