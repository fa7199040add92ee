//! numeric: decimals of any size.
//!
//! Invariants:
//! 1. A finite number whose unscaled value fits an `i64` is `Small`; so money-like columns never allocate.
//! 2. Scales of results are those of PostgreSQL's `numeric.c` (sums: the larger scale; products: the sum of
//!    both; quotients: at least 16 significant digits), because they are visible.
//! 3. Rounding is half away from zero.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Write};

use num_bigint::{BigInt, Sign};

use crate::error::{Result, SqlError, SqlState};

/// A decimal number, an infinity or NaN. A finite one is `unscaled / 10^scale`; the scale is what is printed
/// and does not take part in comparisons.
#[derive(Clone, Debug)]
pub enum Numeric {
    /// Not a number: equal to itself and greater than everything else.
    NaN,
    /// Greater than all finite numbers.
    Infinity,
    /// Less than all finite numbers.
    MinusInfinity,
    /// A finite number whose digits fit a word: unscaled value, digits behind the point.
    Small(i64, u16),
    /// Any other finite number.
    Big(Box<(BigInt, u16)>),
}

/// Most digits in front of the point.
const DIGITS_MAX: usize = 131_072;
/// Most digits behind the point that a number may have.
pub(crate) const SCALE_MAX: i64 = 16_383;
/// Most digits behind the point that a computation adds.
pub(crate) const RESULT_SCALE_MAX: i64 = 1000;

/// 10 to the `power`.
pub(crate) fn ten(power: u32) -> BigInt {
    if power <= 18 { BigInt::from(10i64.pow(power)) } else { BigInt::from(10).pow(power) }
}

#[cold]
pub(crate) fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

#[cold]
pub(crate) fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// `numerator / denominator`, rounded half away from zero.
pub(crate) fn divide_rounded(numerator: &BigInt, denominator: &BigInt) -> BigInt {
    let (half, sign) = (denominator.magnitude() / 2u32, numerator.sign() * denominator.sign());
    let quotient = (numerator.magnitude() + &half) / denominator.magnitude();
    // With an odd denominator, its half is cut down, but then exact ties cannot occur and nothing is lost.
    BigInt::from_biguint(if sign == Sign::NoSign { Sign::Plus } else { sign }, quotient)
}

fn divide_rounded_small(numerator: i128, denominator: i128) -> i128 {
    let quotient = numerator / denominator;
    let rest = numerator % denominator;
    let away = rest.unsigned_abs() >= denominator.unsigned_abs() - rest.unsigned_abs();
    let sign = if (numerator < 0) == (denominator < 0) { 1 } else { -1 };
    quotient + if away && rest != 0 { sign } else { 0 }
}

impl Numeric {
    /// Zero.
    pub const ZERO: Numeric = Numeric::Small(0, 0);
    /// One.
    pub const ONE: Numeric = Numeric::Small(1, 0);

    /// `unscaled / 10^scale`.
    pub fn new(unscaled: BigInt, scale: u16) -> Numeric {
        match i64::try_from(&unscaled) {
            Ok(small) => Numeric::Small(small, scale),
            Err(_) => Numeric::Big(Box::new((unscaled, scale))),
        }
    }

    pub(crate) fn from_i128(unscaled: i128, scale: u16) -> Numeric {
        match i64::try_from(unscaled) {
            Ok(small) => Numeric::Small(small, scale),
            Err(_) => Numeric::Big(Box::new((BigInt::from(unscaled), scale))),
        }
    }

    /// As [`Numeric::new`], for results of computations.
    ///
    /// # Errors
    /// 22003 for more digits than a numeric has.
    pub fn checked(unscaled: BigInt, scale: i64) -> Result<Numeric> {
        let (unscaled, scale) = match scale {
            ..0 => (unscaled * ten(-scale as u32), 0),
            0..=SCALE_MAX => (unscaled, scale),
            _ => (divide_rounded(&unscaled, &ten((scale - SCALE_MAX) as u32)), SCALE_MAX),
        };
        // A number of `bits` bits has at least (bits - 1) * log10(2) digits.
        let digits_least = unscaled.bits().saturating_sub(1) as usize * 30_102 / 100_000;
        let too_long = digits_least + 8 > DIGITS_MAX
            && unscaled.magnitude().to_str_radix(10).len() > DIGITS_MAX + scale as usize;
        if too_long { Err(overflow()) } else { Ok(Numeric::new(unscaled, scale as u16)) }
    }

    /// As [`Numeric::new`], with a scale that may be larger than a number's; it is rounded afterwards.
    pub(crate) fn checked_exact(unscaled: BigInt, scale: i64) -> Numeric {
        if scale <= i64::from(u16::MAX) {
            return Numeric::new(unscaled, scale as u16);
        }
        let cut = scale - SCALE_MAX;
        Numeric::new(divide_rounded(&unscaled, &ten(cut as u32)), SCALE_MAX as u16)
    }

    /// The unscaled value and the scale of a finite number.
    pub fn parts(&self) -> Option<(Cow<'_, BigInt>, u16)> {
        match self {
            Numeric::Small(unscaled, scale) => Some((Cow::Owned(BigInt::from(*unscaled)), *scale)),
            Numeric::Big(big) => Some((Cow::Borrowed(&big.0), big.1)),
            _ => None,
        }
    }

    /// Digits behind the point; 0 for NaN and infinities.
    pub fn scale(&self) -> u16 {
        match self {
            Numeric::Small(_, scale) => *scale,
            Numeric::Big(big) => big.1,
            _ => 0,
        }
    }

    /// Whether it is NaN.
    pub fn is_nan(&self) -> bool {
        matches!(self, Numeric::NaN)
    }

    /// Whether it is neither NaN nor infinite.
    pub fn is_finite(&self) -> bool {
        matches!(self, Numeric::Small(..) | Numeric::Big(_))
    }

    /// -1, 0 or 1; NaN counts as positive.
    pub fn signum(&self) -> i32 {
        match self {
            Numeric::NaN | Numeric::Infinity => 1,
            Numeric::MinusInfinity => -1,
            Numeric::Small(unscaled, _) => unscaled.signum() as i32,
            Numeric::Big(big) => match big.0.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
        }
    }

    /// Reads a numeric; `None` if the text is none. Blanks around it are allowed.
    pub fn parse(text: &str) -> Option<Result<Numeric>> {
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
        let (negative, digits) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        match digits.to_ascii_lowercase().as_str() {
            "nan" if digits.len() == text.len() => return Some(Ok(Numeric::NaN)),
            "inf" | "infinity" if negative => return Some(Ok(Numeric::MinusInfinity)),
            "inf" | "infinity" => return Some(Ok(Numeric::Infinity)),
            _ => {}
        }
        let (mantissa, exponent) = match digits.find(['e', 'E']) {
            Some(at) => (&digits[..at], digits[at + 1..].parse::<i64>().ok()?),
            None => (digits, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        if exponent.abs() > 200_000 {
            return Some(Err(overflow()));
        }
        let scale = fraction.len() as i64 - exponent;
        if whole.len() + fraction.len() <= 18 && (0..=SCALE_MAX).contains(&scale) {
            let digits = whole.bytes().chain(fraction.bytes());
            let unscaled = digits.fold(0i64, |n, digit| n * 10 + i64::from(digit - b'0'));
            return Some(Ok(Numeric::Small(if negative { -unscaled } else { unscaled }, scale as u16)));
        }
        let unscaled = BigInt::parse_bytes(format!("{whole}{fraction}").as_bytes(), 10)?;
        Some(Numeric::checked(if negative { -unscaled } else { unscaled }, scale))
    }

    /// The integer, in PostgreSQL's scale for one: 0.
    pub fn from_i64(number: i64) -> Numeric {
        Numeric::Small(number, 0)
    }

    /// The number with 15 significant digits, as PostgreSQL converts a float8.
    pub fn from_f64(number: f64) -> Numeric {
        Numeric::from_float(number, 15)
    }

    /// The number with 6 significant digits, as PostgreSQL converts a float4.
    pub fn from_f32(number: f32) -> Numeric {
        Numeric::from_float(f64::from(number), 6)
    }

    fn from_float(number: f64, digits: usize) -> Numeric {
        if number.is_nan() {
            return Numeric::NaN;
        }
        if number.is_infinite() {
            return if number > 0.0 { Numeric::Infinity } else { Numeric::MinusInfinity };
        }
        // "%.15g" prints no zeros at the end, so neither does the scale count them.
        let text = format!("{number:.*e}", digits - 1);
        let (mantissa, exponent) = text.split_once('e').expect("an exponent was asked for");
        let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
        let read = Numeric::parse(&format!("{mantissa}e{exponent}")).expect("digits are a number");
        read.expect("a float's range is within a numeric's")
    }

    /// The nearest float8.
    pub fn to_f64(&self) -> f64 {
        match self {
            Numeric::NaN => f64::NAN,
            Numeric::Infinity => f64::INFINITY,
            Numeric::MinusInfinity => f64::NEG_INFINITY,
            Numeric::Small(unscaled, 0) => *unscaled as f64,
            _ => self.to_string().parse().expect("a numeric's text is a float's"),
        }
    }

    /// The nearest integer, if it is finite and fits.
    pub fn to_i64(&self) -> Option<i64> {
        match self {
            Numeric::Small(unscaled, 0) => Some(*unscaled),
            _ => {
                let rounded = self.round(0);
                let (unscaled, _) = rounded.parts()?;
                i64::try_from(&*unscaled).ok()
            }
        }
    }

    /// Rounded to `scale` digits behind the point (in front of it, if negative); `scale` zeros are kept.
    #[must_use]
    pub fn round(&self, scale: i64) -> Numeric {
        self.rescale(scale, divide_rounded)
    }

    /// Cut to `scale` digits behind the point (in front of it, if negative).
    #[must_use]
    pub fn trunc(&self, scale: i64) -> Numeric {
        self.rescale(scale, |numerator, denominator| numerator / denominator)
    }

    fn rescale(&self, scale: i64, divide: fn(&BigInt, &BigInt) -> BigInt) -> Numeric {
        let scale = scale.clamp(-(DIGITS_MAX as i64) - 2, SCALE_MAX);
        if let Numeric::Small(unscaled, own) = self {
            if i64::from(*own) == scale {
                return self.clone();
            }
            let more = scale - i64::from(*own);
            if (0..=18).contains(&more) {
                return Numeric::from_i128(i128::from(*unscaled) * 10i128.pow(more as u32), scale as u16);
            }
        }
        let Some((unscaled, own)) = self.parts() else { return self.clone() };
        let more = scale - i64::from(own);
        let rescaled =
            if more >= 0 { &*unscaled * ten(more as u32) } else { divide(&unscaled, &ten(-more as u32)) };
        match scale {
            ..0 => Numeric::new(rescaled * ten(-scale as u32), 0),
            _ => Numeric::new(rescaled, scale as u16),
        }
    }

    /// The largest integer that is not greater.
    #[must_use]
    pub fn floor(&self) -> Numeric {
        let cut = self.trunc(0);
        if self.signum() < 0 && cut != *self { cut.sub(&Numeric::ONE) } else { cut }
    }

    /// The smallest integer that is not less.
    #[must_use]
    pub fn ceil(&self) -> Numeric {
        self.neg().floor().neg()
    }

    /// The number without its sign.
    #[must_use]
    pub fn abs(&self) -> Numeric {
        if self.signum() < 0 { self.neg() } else { self.clone() }
    }

    /// The number with the other sign.
    #[must_use]
    pub fn neg(&self) -> Numeric {
        match self {
            Numeric::NaN => Numeric::NaN,
            Numeric::Infinity => Numeric::MinusInfinity,
            Numeric::MinusInfinity => Numeric::Infinity,
            Numeric::Small(unscaled, scale) => Numeric::from_i128(-i128::from(*unscaled), *scale),
            Numeric::Big(big) => Numeric::new(-&big.0, big.1),
        }
    }

    /// The sum.
    #[must_use]
    pub fn add(&self, other: &Numeric) -> Numeric {
        if let (Numeric::Small(a, s), Numeric::Small(b, t)) = (self, other)
            && s.abs_diff(*t) <= 18
        {
            let scale = *s.max(t);
            let raise = |n: i64, own: u16| i128::from(n) * 10i128.pow(u32::from(scale - own));
            return Numeric::from_i128(raise(*a, *s) + raise(*b, *t), scale);
        }
        match (self.parts(), other.parts()) {
            (Some((a, s)), Some((b, t))) => {
                let scale = s.max(t);
                let sum = &*a * ten(u32::from(scale - s)) + &*b * ten(u32::from(scale - t));
                Numeric::new(sum, scale)
            }
            _ => match (self, other) {
                (Numeric::NaN, _) | (_, Numeric::NaN) => Numeric::NaN,
                (Numeric::Infinity, Numeric::MinusInfinity) => Numeric::NaN,
                (Numeric::MinusInfinity, Numeric::Infinity) => Numeric::NaN,
                _ if self.is_finite() => other.clone(),
                _ => self.clone(),
            },
        }
    }

    /// The difference.
    #[must_use]
    pub fn sub(&self, other: &Numeric) -> Numeric {
        self.add(&other.neg())
    }

    /// The product.
    ///
    /// # Errors
    /// 22003 if it has too many digits.
    pub fn mul(&self, other: &Numeric) -> Result<Numeric> {
        if let (Numeric::Small(a, s), Numeric::Small(b, t)) = (self, other)
            && i64::from(s + t) <= SCALE_MAX
        {
            return Ok(Numeric::from_i128(i128::from(*a) * i128::from(*b), s + t));
        }
        match (self.parts(), other.parts()) {
            (Some((a, s)), Some((b, t))) => Numeric::checked(&*a * &*b, i64::from(s) + i64::from(t)),
            _ if self.is_nan() || other.is_nan() => Ok(Numeric::NaN),
            _ => Ok(match self.signum() * other.signum() {
                0 => Numeric::NaN,
                1 => Numeric::Infinity,
                _ => Numeric::MinusInfinity,
            }),
        }
    }

    /// Place of the first digit in base 10000, and that digit (`weight` and `digits[0]` in `numeric.c`).
    pub(crate) fn base_10000(&self) -> (i64, i64) {
        let Some((unscaled, scale)) = self.parts() else { return (0, 0) };
        if unscaled.sign() == Sign::NoSign {
            return (0, 0);
        }
        let digits = unscaled.magnitude().to_str_radix(10);
        let exponent = digits.len() as i64 - 1 - i64::from(scale);
        let leading = exponent.rem_euclid(4) as usize + 1;
        let mut first: i64 = digits[..leading.min(digits.len())].parse().expect("digits");
        first *= 10i64.pow(leading.saturating_sub(digits.len()) as u32);
        (exponent.div_euclid(4), first)
    }

    /// The quotient with at least 16 significant digits (`select_div_scale`).
    ///
    /// # Errors
    /// 22012 for a division by zero, 22003 if it has too many digits.
    pub fn div(&self, other: &Numeric) -> Result<Numeric> {
        if let Some(special) = self.special_division(other)? {
            return Ok(special);
        }
        let ((weight, first), (other_weight, other_first)) = (self.base_10000(), other.base_10000());
        let quotient_weight = weight - other_weight - i64::from(first <= other_first);
        let least = i64::from(self.scale().max(other.scale()));
        let scale = (16 - 4 * quotient_weight).max(least).clamp(0, RESULT_SCALE_MAX);
        self.div_at(other, scale)
    }

    /// The quotient of finite numbers, rounded to `scale` digits.
    pub(crate) fn div_at(&self, other: &Numeric, scale: i64) -> Result<Numeric> {
        let more = scale + i64::from(other.scale()) - i64::from(self.scale());
        if let (Numeric::Small(a, _), Numeric::Small(b, _)) = (self, other)
            && (0..=37).contains(&more)
            && let Some(numerator) = i128::from(*a).checked_mul(10i128.pow(more as u32))
        {
            return Ok(Numeric::from_i128(divide_rounded_small(numerator, i128::from(*b)), scale as u16));
        }
        let ((a, _), (b, _)) = (self.parts().expect("finite"), other.parts().expect("finite"));
        Numeric::checked(
            match more {
                0.. => divide_rounded(&(&*a * ten(more as u32)), &b),
                _ => divide_rounded(&a, &(&*b * ten(-more as u32))),
            },
            scale,
        )
    }

    fn special_division(&self, other: &Numeric) -> Result<Option<Numeric>> {
        if self.is_nan() || other.is_nan() {
            return Ok(Some(Numeric::NaN));
        }
        match (self.is_finite(), other.is_finite()) {
            (_, true) if other.signum() == 0 => Err(division_by_zero()),
            (true, true) => Ok(None),
            (false, false) => Ok(Some(Numeric::NaN)),
            (true, false) => Ok(Some(Numeric::ZERO)),
            (false, true) if self.signum() == other.signum() => Ok(Some(Numeric::Infinity)),
            (false, true) => Ok(Some(Numeric::MinusInfinity)),
        }
    }

    /// The quotient cut to an integer (`div(a, b)`).
    ///
    /// # Errors
    /// 22012 for a division by zero.
    pub fn div_trunc(&self, other: &Numeric) -> Result<Numeric> {
        if let Some(special) = self.special_division(other)? {
            return Ok(special);
        }
        let ((a, s), (b, t)) = (self.parts().expect("finite"), other.parts().expect("finite"));
        let scale = s.max(t);
        let raise = |n: &BigInt, own: u16| n * ten(u32::from(scale - own));
        Ok(Numeric::new(raise(&a, s) / raise(&b, t), 0))
    }

    /// The rest of a division that is cut to an integer; it has the sign of `self`.
    ///
    /// # Errors
    /// 22012 for a division by zero.
    pub fn rem(&self, other: &Numeric) -> Result<Numeric> {
        if self.is_finite() && !other.is_finite() && !other.is_nan() {
            return Ok(self.clone());
        }
        if let Some(special) = self.special_division(other)? {
            return Ok(if special.is_finite() { special } else { Numeric::NaN });
        }
        let ((a, s), (b, t)) = (self.parts().expect("finite"), other.parts().expect("finite"));
        let scale = s.max(t);
        let raise = |n: &BigInt, own: u16| n * ten(u32::from(scale - own));
        Ok(Numeric::new(raise(&a, s) % raise(&b, t), scale))
    }

    /// Without zeros at the end of the digits behind the point.
    #[must_use]
    pub fn trim_scale(&self) -> Numeric {
        let Some((unscaled, mut scale)) = self.parts() else { return self.clone() };
        let mut unscaled = unscaled.into_owned();
        while scale > 0 && &unscaled % 10 == BigInt::ZERO {
            unscaled /= 10;
            scale -= 1;
        }
        Numeric::new(unscaled, scale)
    }

    /// Brought to `numeric(precision, scale)`.
    ///
    /// # Errors
    /// 22003 if it has too many digits in front of the point.
    pub fn fit(&self, precision: i32, scale: i32) -> Result<Numeric> {
        let too_large = |detail: &str| {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow")
                .detail(format!("A field with precision {precision}, scale {scale} {detail}"))
        };
        if self.is_nan() {
            return Ok(Numeric::NaN);
        }
        if !self.is_finite() {
            return Err(too_large("cannot hold an infinite value."));
        }
        let rounded = self.round(i64::from(scale));
        let digits = precision - scale;
        let limit = Numeric::new(ten(digits.max(0) as u32), 0);
        let reached = match digits {
            0.. => rounded.abs() >= limit,
            _ => rounded.signum() != 0 && rounded.abs().shift(-digits) >= Numeric::ONE,
        };
        if reached {
            let bound = if digits == 0 { "1".to_string() } else { format!("10^{digits}") };
            return Err(too_large(&format!("must round to an absolute value less than {bound}.")));
        }
        Ok(rounded)
    }

    /// Times 10 to the `power` (not negative).
    fn shift(&self, power: i32) -> Numeric {
        match self.parts() {
            Some((unscaled, scale)) => Numeric::new(&*unscaled * ten(power as u32), scale),
            None => self.clone(),
        }
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Numeric) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Numeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Numeric {
    fn cmp(&self, other: &Numeric) -> Ordering {
        if let (Numeric::Small(a, s), Numeric::Small(b, t)) = (self, other)
            && s.abs_diff(*t) <= 18
        {
            let scale = *s.max(t);
            let raise = |n: i64, own: u16| i128::from(n) * 10i128.pow(u32::from(scale - own));
            return raise(*a, *s).cmp(&raise(*b, *t));
        }
        let rank = |n: &Numeric| match n {
            Numeric::MinusInfinity => 0,
            Numeric::Infinity => 2,
            Numeric::NaN => 3,
            _ => 1,
        };
        match (self.parts(), other.parts()) {
            (Some((a, s)), Some((b, t))) => {
                let scale = s.max(t);
                (&*a * ten(u32::from(scale - s))).cmp(&(&*b * ten(u32::from(scale - t))))
            }
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (negative, digits, scale) = match self {
            Numeric::NaN => return f.write_str("NaN"),
            Numeric::Infinity => return f.write_str("Infinity"),
            Numeric::MinusInfinity => return f.write_str("-Infinity"),
            Numeric::Small(unscaled, scale) => {
                (*unscaled < 0, unscaled.unsigned_abs().to_string(), usize::from(*scale))
            }
            Numeric::Big(big) => {
                (big.0.sign() == Sign::Minus, big.0.magnitude().to_str_radix(10), usize::from(big.1))
            }
        };
        if negative {
            f.write_char('-')?;
        }
        if scale == 0 {
            return f.write_str(&digits);
        }
        if digits.len() > scale {
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            return write!(f, "{whole}.{fraction}");
        }
        write!(f, "0.{digits:0>scale$}")
    }
}
