//! Roots, exponentials and logarithms of numerics.
//!
//! Computed with integers scaled by a power of ten and some digits to spare, then rounded to the scale that
//! PostgreSQL's `numeric.c` chooses (at least 16 significant digits).

use num_bigint::{BigInt, BigUint, Sign};

use super::numeric::{Numeric, RESULT_SCALE_MAX, divide_rounded, overflow, ten};
use crate::error::{Result, SqlError, SqlState};
use crate::stop;

/// Digits computed beyond those of the result.
const SPARE: i64 = 12;
/// Significant digits of a result, at least.
const DIGITS: i64 = 16;

#[cold]
fn error(state: SqlState, message: &str) -> SqlError {
    SqlError::new(state, message)
}

/// The finite number times 10^`digits`.
fn fixed(number: &Numeric, digits: i64) -> BigInt {
    let rounded = number.round(digits);
    let (unscaled, scale) = rounded.parts().expect("a finite number has parts");
    &*unscaled * ten((digits - i64::from(scale)).max(0) as u32)
}

/// 2 artanh(numerator / denominator), times 10^`digits`.
fn twice_artanh(numerator: &BigInt, denominator: &BigInt, digits: i64) -> Result<BigInt> {
    let one = ten(digits as u32);
    let z: BigInt = numerator * &one / denominator;
    let square = &z * &z / &one;
    let (mut term, mut sum, mut odd) = (z.clone(), z, 1u32);
    while term.sign() != Sign::NoSign {
        stop::check()?;
        term = term * &square / &one;
        odd += 2;
        sum += &term / odd;
    }
    Ok(sum * 2)
}

/// ln(2) times 10^`digits`.
fn ln_2(digits: i64) -> Result<BigInt> {
    twice_artanh(&BigInt::from(1), &BigInt::from(3), digits)
}

/// ln of a positive number, times 10^`digits`.
fn ln_fixed(number: &Numeric, digits: i64) -> Result<BigInt> {
    let (unscaled, scale) = number.parts().expect("finite");
    let denominator = ten(u32::from(scale));
    // number = m * 2^k with m between 0.7 and 1.5.
    let mut k = unscaled.bits() as i64 - denominator.bits() as i64;
    let shift = |n: &BigInt, by: i64| if by > 0 { n << by } else { n.clone() };
    let (mut above, mut below) = (shift(&unscaled, -k), shift(&denominator, k));
    if &above * 10 > &below * 14 {
        below <<= 1;
        k += 1;
    } else if &above * 10 < &below * 7 {
        above <<= 1;
        k -= 1;
    }
    Ok(twice_artanh(&(&above - &below), &(&above + &below), digits)? + ln_2(digits)? * k)
}

/// e to the `exponent` (times 10^`digits`), times 10^`digits`.
fn exp_fixed(exponent: &BigInt, digits: i64) -> Result<BigInt> {
    const HALVINGS: u32 = 8;
    let one = ten(digits as u32);
    let ln_2 = ln_2(digits)?;
    let twos = i64::try_from(&divide_rounded(exponent, &ln_2)).expect("the exponent was checked");
    let rest: BigInt = (exponent - &ln_2 * twos) >> HALVINGS;
    let (mut term, mut sum, mut n) = (one.clone(), one.clone(), 0u32);
    while term.sign() != Sign::NoSign {
        n += 1;
        stop::check()?;
        term = term * &rest / &one / n;
        if term == BigInt::from(-1) {
            break;
        }
        sum += &term;
    }
    for _ in 0..HALVINGS {
        sum = &sum * &sum / &one;
    }
    Ok(if twos >= 0 { sum << twos } else { sum >> -twos })
}

fn at_scale(fixed: BigInt, digits: i64, scale: i64) -> Result<Numeric> {
    Numeric::checked(divide_rounded(&fixed, &ten((digits - scale) as u32)), scale)
}

/// How many decimal places in front of the point ln(number) has, about (`estimate_ln_dweight`).
fn ln_weight(number: &Numeric) -> i64 {
    let near = number.sub(&Numeric::ONE);
    let float = number.to_f64();
    if (0.9..=1.1).contains(&float) {
        let (weight, first) = near.base_10000();
        return if near.signum() == 0 { 0 } else { 4 * weight + (first as f64).log10() as i64 };
    }
    let (weight, first) = number.base_10000();
    let ln = (first as f64).ln() + weight as f64 * 4.0 * std::f64::consts::LN_10;
    let ln = if float.is_normal() { float.ln() } else { ln };
    ln.abs().log10() as i64
}

fn result_scale(wanted: i64, least: i64) -> i64 {
    wanted.max(least).clamp(0, RESULT_SCALE_MAX)
}

/// The square root.
///
/// # Errors
/// 2201F for a negative number.
pub fn sqrt(number: &Numeric) -> Result<Numeric> {
    if number.signum() < 0 {
        let message = "cannot take square root of a negative number";
        return Err(error(SqlState::INVALID_ARGUMENT_FOR_POWER, message));
    }
    if !number.is_finite() {
        return Ok(number.clone());
    }
    let weight = (number.base_10000().0 + 1) * 4 / 2 - 1;
    sqrt_at(number, result_scale(DIGITS - weight, i64::from(number.scale())))
}

/// The square root of a number that has one and is finite, with `scale` digits behind the point.
///
/// # Errors
/// 22003 if it has too many digits.
pub fn sqrt_at(number: &Numeric, scale: i64) -> Result<Numeric> {
    let digits = scale + SPARE;
    let root = fixed(number, 2 * digits).sqrt();
    at_scale(root, digits, scale)
}

/// Where PostgreSQL gives up on exponents (`NUMERIC_MAX_RESULT_SCALE * 3`).
const EXPONENT_MAX: f64 = 6000.0;

/// e to the number.
///
/// # Errors
/// 22003 if it is too large.
pub fn exp(number: &Numeric) -> Result<Numeric> {
    match number {
        Numeric::NaN | Numeric::Infinity => return Ok(number.clone()),
        Numeric::MinusInfinity => return Ok(Numeric::ZERO),
        _ => {}
    }
    let places = number.to_f64() * std::f64::consts::LOG10_E;
    // The bound is PostgreSQL's: it does not try larger ones.
    if number.to_f64().abs() >= EXPONENT_MAX && places > 0.0 {
        return Err(overflow());
    }
    let scale = result_scale(DIGITS - places.clamp(-2000.0, 2000.0) as i64, i64::from(number.scale()));
    if places < -(scale as f64) - 5.0 {
        return Numeric::checked(BigInt::ZERO, scale);
    }
    let digits = scale + SPARE + places.max(0.0) as i64;
    at_scale(exp_fixed(&fixed(number, digits), digits)?, digits, scale)
}

fn check_ln(number: &Numeric) -> Result<()> {
    let message = match number.signum() {
        0 => "cannot take logarithm of zero",
        -1 => "cannot take logarithm of a negative number",
        _ => return Ok(()),
    };
    Err(error(SqlState::INVALID_ARGUMENT_FOR_LOG, message))
}

/// The natural logarithm.
///
/// # Errors
/// 2201E for a number that is not positive.
pub fn ln(number: &Numeric) -> Result<Numeric> {
    if !number.is_nan() {
        check_ln(number)?;
    }
    if !number.is_finite() {
        return Ok(number.clone());
    }
    let scale = result_scale(DIGITS - ln_weight(number), i64::from(number.scale()));
    let digits = scale + SPARE;
    at_scale(ln_fixed(number, digits)?, digits, scale)
}

/// The logarithm to a base.
///
/// # Errors
/// 2201E for numbers that are not positive, 22012 for the base 1.
pub fn log(base: &Numeric, number: &Numeric) -> Result<Numeric> {
    if base.is_nan() || number.is_nan() {
        return Ok(Numeric::NaN);
    }
    check_ln(base)?;
    check_ln(number)?;
    if !base.is_finite() || !number.is_finite() {
        return Ok(match (base.is_finite(), number.is_finite()) {
            (true, false) => Numeric::Infinity,
            (false, true) => Numeric::ZERO,
            _ => Numeric::NaN,
        });
    }
    if *base == Numeric::ONE {
        return Err(super::numeric::division_by_zero());
    }
    let weight = ln_weight(number) - ln_weight(base);
    let scale = result_scale(DIGITS - weight, i64::from(base.scale().max(number.scale())));
    let digits = scale + 2 * SPARE + ln_weight(base).abs();
    let quotient = ln_fixed(number, digits)? * ten(digits as u32) / ln_fixed(base, digits)?;
    at_scale(quotient, digits, scale)
}

/// `base` to the power `exponent`.
///
/// # Errors
/// 2201F for zero to a negative power and a negative number to a fraction, 22003 if it is too large.
pub fn power(base: &Numeric, exponent: &Numeric) -> Result<Numeric> {
    if let Some(special) = special_power(base, exponent) {
        return Ok(special);
    }
    if base.is_finite() && base.signum() == 0 && exponent.signum() < 0 {
        let message = "zero raised to a negative power is undefined";
        return Err(error(SqlState::INVALID_ARGUMENT_FOR_POWER, message));
    }
    let whole = exponent.is_finite() && *exponent == exponent.trunc(0);
    if base.signum() < 0 && !whole && exponent.is_finite() {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(error(SqlState::INVALID_ARGUMENT_FOR_POWER, message));
    }
    if !base.is_finite() || !exponent.is_finite() {
        return Ok(infinite_power(base, exponent, whole));
    }
    let least = i64::from(base.scale().max(exponent.scale()));
    if let Some(n) = whole.then(|| exponent.to_i64().and_then(|n| i32::try_from(n).ok())).flatten() {
        return power_int(base, n, least);
    }
    if base.signum() == 0 {
        return Numeric::checked(BigInt::ZERO, DIGITS);
    }
    let positive = base.abs();
    let places = positive.to_f64().ln() * exponent.to_f64() * std::f64::consts::LOG10_E;
    if places > 131_072.0 {
        return Err(overflow());
    }
    let scale = result_scale(DIGITS - places.clamp(-2000.0, 2000.0) as i64, least);
    if places < -(scale as f64) - 5.0 {
        return Numeric::checked(BigInt::ZERO, scale);
    }
    let digits = scale + 2 * SPARE + places.abs() as i64;
    let product = ln_fixed(&positive, digits)? * fixed(exponent, digits) / ten(digits as u32);
    at_scale(exp_fixed(&product, digits)?, digits, scale)
}

fn special_power(base: &Numeric, exponent: &Numeric) -> Option<Numeric> {
    if exponent.is_finite() && exponent.signum() == 0 && !base.is_finite()
        || *base == Numeric::ONE && !exponent.is_finite()
    {
        return Some(Numeric::ONE);
    }
    (base.is_nan() || exponent.is_nan()).then_some(Numeric::NaN)
}

fn infinite_power(base: &Numeric, exponent: &Numeric, whole: bool) -> Numeric {
    let grows = if exponent.is_finite() {
        exponent.signum() > 0
    } else {
        let above_one = base.abs() > Numeric::ONE;
        if base.abs() == Numeric::ONE {
            return Numeric::ONE;
        }
        above_one == (exponent.signum() > 0)
    };
    let odd = whole && exponent.rem(&Numeric::from_i64(2)).is_ok_and(|rest| rest.signum() != 0);
    match (grows, base.signum() < 0 && odd) {
        (false, _) => Numeric::ZERO,
        (true, true) => Numeric::MinusInfinity,
        (true, false) => Numeric::Infinity,
    }
}

fn power_int(base: &Numeric, exponent: i32, least: i64) -> Result<Numeric> {
    let magnitude = base.abs();
    let log10 = match magnitude.signum() {
        0 => 0.0,
        _ => {
            let (weight, first) = magnitude.base_10000();
            let float = magnitude.to_f64();
            if float.is_normal() { float.log10() } else { (first as f64).log10() + 4.0 * weight as f64 }
        }
    };
    let places = f64::from(exponent) * log10;
    if places > 131_072.0 {
        return Err(overflow());
    }
    let scale = result_scale(DIGITS, least);
    let (unscaled, own) = base.parts().expect("finite");
    if exponent >= 0 && places < 5000.0 && i64::from(own) * i64::from(exponent) < 20_000 {
        let exact = unscaled.pow(exponent as u32);
        return Ok(Numeric::checked_exact(exact, i64::from(own) * i64::from(exponent)).round(scale));
    }
    if places < -(scale as f64) - 5.0 {
        return Numeric::checked(BigInt::ZERO, scale);
    }
    if exponent < 0 && -places < 5000.0 && i64::from(own) * -i64::from(exponent) < 20_000 {
        // 1 / (u / 10^s)^n = 10^(s n) / u^n
        let above = ten(u32::from(own) * exponent.unsigned_abs()) * ten(scale as u32);
        return Numeric::checked(divide_rounded(&above, &unscaled.pow(exponent.unsigned_abs())), scale);
    }
    // (u / 10^s)^n by squaring, with as many bits as the result has, and some for what is cut off on the way.
    let digits = scale + SPARE + places.max(0.0) as i64;
    let bits = (digits as f64 * std::f64::consts::LOG2_10) as u64 + 64;
    let number = Truncated::power(unscaled.magnitude(), exponent.unsigned_abs(), bits)?;
    let point = Truncated::power(ten(u32::from(own)).magnitude(), exponent.unsigned_abs(), bits)?;
    let (above, below) = if exponent < 0 { (point, number) } else { (number, point) };
    let positive = at_scale(above.quotient(&below, digits), digits, scale)?;
    Ok(if base.signum() < 0 && exponent % 2 != 0 { positive.neg() } else { positive })
}

/// A number as its first bits, times 2 to the `shift`.
struct Truncated {
    bits: BigUint,
    shift: i64,
}

impl Truncated {
    fn times(&self, other: &Truncated, most: u64) -> Truncated {
        let product = &self.bits * &other.bits;
        let over = product.bits().saturating_sub(most);
        Truncated { bits: product >> over, shift: self.shift + other.shift + over as i64 }
    }

    fn power(base: &BigUint, exponent: u32, most: u64) -> Result<Truncated> {
        let mut square = Truncated { bits: base.clone(), shift: 0 };
        let mut made = Truncated { bits: BigUint::from(1u32), shift: 0 };
        let mut left = exponent;
        while left > 0 {
            if left & 1 == 1 {
                made = made.times(&square, most);
            }
            stop::check()?;
            left >>= 1;
            if left > 0 {
                square = square.times(&square, most);
            }
        }
        Ok(made)
    }

    /// `self / below`, times 10^`digits`.
    fn quotient(self, below: &Truncated, digits: i64) -> BigInt {
        let shift = self.shift - below.shift;
        let above = BigInt::from(self.bits) * ten(digits as u32);
        match shift >= 0 {
            true => divide_rounded(&(above << shift), &below.bits.clone().into()),
            false => divide_rounded(&above, &(BigInt::from(below.bits.clone()) << -shift)),
        }
    }
}
