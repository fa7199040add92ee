//! Sizes as people write them.

use num_bigint::BigInt;

use crate::error::{Result, SqlError, SqlState};
use crate::types::numeric::Numeric;
use crate::types::text::number_end;

/// Units in bytes, as a shift.
const UNITS: &[(&str, u32)] =
    &[("bytes", 0), ("b", 0), ("kb", 10), ("mb", 20), ("gb", 30), ("tb", 40), ("pb", 50)];

fn invalid(text: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid size: \"{text}\""))
}

/// `pg_size_bytes`: a number with a unit.
///
/// # Errors
/// 22023 for what is none; 22003 if it is too large.
pub(super) fn bytes_of(text: &str) -> Result<i64> {
    let plain = text.trim();
    let (_, end) = number_end(plain);
    // PostgreSQL wants a digit before it looks further.
    if !plain[..end].contains(|c: char| c.is_ascii_digit()) {
        return Err(invalid(text));
    }
    let number = Numeric::parse(&plain[..end]).unwrap_or_else(|| Err(invalid(text)))?;
    let unit = plain[end..].trim();
    let known = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let shift = match known {
        Some((_, shift)) => *shift,
        None if unit.is_empty() => 0,
        None => {
            return Err(invalid(text)
                .detail(format!("Invalid size unit: \"{unit}\"."))
                .hint("Valid units are \"bytes\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\"."));
        }
    };
    let size = number.mul(&Numeric::checked(BigInt::from(1) << shift, 0)?)?.round(0);
    size.to_i64().ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes() {
        let bytes = |text| super::bytes_of(text).map_err(|error| error.message.clone());
        assert_eq!(bytes("1 kB"), Ok(1024));
        assert_eq!(bytes(" -1.5MB "), Ok(-1_572_864));
        assert_eq!(bytes("1e3"), Ok(1000));
        assert_eq!(bytes("3 bytes"), Ok(3));
        assert!(
            ["", "kb", "..", "-.", "+912+ kB", "++1", "1 AB", "1 byte"]
                .iter()
                .all(|text| bytes(text).is_err())
        );
        assert_eq!(bytes("1e100"), Err("bigint out of range".to_string()));
    }
}
