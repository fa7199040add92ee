//! Exact decimals as PostgreSQL sends them: `numeric` in its binary form, read and written as integers.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// Base of a digit of a `numeric`.
const BASE: i64 = 10_000;
const NEGATIVE: u16 = 0x4000;

/// A number in units of 10^-SCALE, with SCALE at most 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decimal<const SCALE: u32>(pub i64);

/// An amount of money, in cents.
pub type Cents = Decimal<2>;
/// A tax or a discount, in 1/10000.
pub type Rate = Decimal<4>;

impl<const SCALE: u32> Decimal<SCALE> {
    /// What a unit is in 1/10000.
    const UNIT: i64 = 10i64.pow(4 - SCALE);
}

impl<const SCALE: u32> ToSql for Decimal<SCALE> {
    fn to_sql(&self, _ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let mut left = self.0.unsigned_abs() * Self::UNIT as u64;
        // From the last digit, which is the one behind the point.
        let (mut digits, mut weight) = (Vec::new(), -2i16);
        while left > 0 {
            digits.push((left % BASE as u64) as i16);
            left /= BASE as u64;
            weight += 1;
        }
        let zeros = digits.iter().take_while(|digit| **digit == 0).count();
        digits.drain(..zeros);
        out.put_i16(digits.len() as i16);
        out.put_i16(if digits.is_empty() { 0 } else { weight });
        out.put_u16(if self.0 < 0 { NEGATIVE } else { 0 });
        out.put_u16(SCALE as u16);
        digits.iter().rev().for_each(|digit| out.put_i16(*digit));
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::NUMERIC
    }

    to_sql_checked!();
}

impl<'a, const SCALE: u32> FromSql<'a> for Decimal<SCALE> {
    fn from_sql(_ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let mut words = raw.chunks_exact(2).map(|pair| i16::from_be_bytes([pair[0], pair[1]]));
        let mut word = || words.next().ok_or("a numeric ends early");
        let (count, weight, sign, _scale) = (word()?, word()?, word()?, word()?);
        let mut value = 0i64;
        for at in 0..count {
            let digit = i64::from(word()?);
            // In 1/10000, the first digit behind the point counts once.
            let power = u32::try_from(weight - at + 1).map_err(|_| "too many digits behind the point")?;
            let part = BASE.checked_pow(power).and_then(|power| power.checked_mul(digit));
            value = part.and_then(|part| value.checked_add(part)).ok_or("too large a number")?;
        }
        if value % Self::UNIT != 0 {
            return Err("too many digits behind the point".into());
        }
        let value = value / Self::UNIT;
        Ok(Decimal(if sign as u16 == NEGATIVE { -value } else { value }))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::NUMERIC
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent<const SCALE: u32>(value: i64) -> BytesMut {
        let mut out = BytesMut::new();
        Decimal::<SCALE>(value).to_sql(&Type::NUMERIC, &mut out).expect("it can be sent");
        out
    }

    #[test]
    fn what_is_sent_is_read_again() {
        for value in [0, 1, -1, 99, 100, 12_345, -100_000_000, 999_999, 1_000_000, i64::from(i32::MAX)] {
            let cents = Cents::from_sql(&Type::NUMERIC, &sent::<2>(value)).expect("it is a number");
            let rate = Rate::from_sql(&Type::NUMERIC, &sent::<4>(value)).expect("it is a number");
            assert_eq!((cents.0, rate.0), (value, value));
        }
    }

    #[test]
    fn bytes_are_those_of_postgresql() {
        // -1.05: two digits, weight 0, negative, two places; 1 and 0500.
        assert_eq!(sent::<2>(-105)[..], [0, 2, 0, 0, 0x40, 0, 0, 2, 0, 1, 1, 0xf4]);
        assert_eq!(sent::<2>(0)[..], [0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(sent::<4>(1)[..], [0, 1, 0xff, 0xff, 0, 0, 0, 4, 0, 1]);
    }
}
