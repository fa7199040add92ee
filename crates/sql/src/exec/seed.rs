//! Random numbers of a session that chose a seed (`setseed`): PostgreSQL's generator, xoroshiro128**, so that
//! the numbers after a seed are PostgreSQL's too.

use crate::error::{Result, SqlError, SqlState};
use crate::types::value::Value;

/// The generator's state.
#[derive(Clone, Copy)]
pub(crate) struct Seeded(u64, u64);

impl Seeded {
    /// From the argument of `setseed`.
    pub(crate) fn from(seed: Option<&Value>) -> Result<Seeded> {
        let Some(Value::Float8(seed)) = seed else { return Ok(Seeded(0, 0)) };
        if seed.is_nan() || !(-1.0..=1.0).contains(seed) {
            let message = format!("setseed parameter {seed} is out of allowed range [-1,1]");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let mut state = (((1u64 << 52) - 1) as f64 * seed) as i64 as u64;
        let mut split_mix = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^ (mixed >> 31)
        };
        Ok(Seeded(split_mix(), split_mix()))
    }

    /// The next number, and the state after it.
    pub(crate) fn next(self) -> (u64, Seeded) {
        let Seeded(first, second) = self;
        let mixed = second ^ first;
        let number = first.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        (number, Seeded(first.rotate_left(24) ^ mixed ^ (mixed << 16), mixed.rotate_left(37)))
    }
}
