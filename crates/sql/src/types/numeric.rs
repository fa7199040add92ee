//! numeric: decimals of any size.

use num_bigint::BigInt;

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

impl PartialEq for Numeric {
    fn eq(&self, other: &Numeric) -> bool {
        matches!((self, other), (Numeric::Small(a, s), Numeric::Small(b, t)) if a == b && s == t)
    }
}
