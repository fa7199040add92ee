//! Aggregates of statistics: variance, regression, percentiles, mode.

use super::float8;
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::{Accumulator, AggregateFn, Body};
use crate::types::context::EvalContext;
use crate::types::numeric::Numeric;
use crate::types::numeric_math;
use crate::types::value::{Interval, Value};
use crate::types::{Oid, Types, oid, order};

pub(super) fn find(name: &str) -> Option<Body> {
    let make: AggregateFn = match name {
        "variance" | "var_samp" => |ctx| spread(ctx, false, true),
        "var_pop" => |ctx| spread(ctx, false, false),
        "stddev" | "stddev_samp" => |ctx| spread(ctx, true, true),
        "stddev_pop" => |ctx| spread(ctx, true, false),
        "corr" => |_| pairs(|s| ratio(s.xy, (s.xx * s.yy).sqrt(), s.xx == 0.0 || s.yy == 0.0)),
        "covar_pop" => |_| pairs(|s| Some(s.xy / s.count)),
        "covar_samp" => |_| pairs(|s| (s.count > 1.0).then(|| s.xy / (s.count - 1.0))),
        "regr_avgx" => |_| pairs(|s| Some(s.x / s.count)),
        "regr_avgy" => |_| pairs(|s| Some(s.y / s.count)),
        "regr_sxx" => |_| pairs(|s| Some(s.xx)),
        "regr_syy" => |_| pairs(|s| Some(s.yy)),
        "regr_sxy" => |_| pairs(|s| Some(s.xy)),
        "regr_slope" => |_| pairs(|s| ratio(s.xy, s.xx, s.xx == 0.0)),
        "regr_intercept" => |_| pairs(|s| ratio(s.y - s.x * s.xy / s.xx, s.count, s.xx == 0.0)),
        "regr_r2" => |_| {
            pairs(|s| match () {
                () if s.xx == 0.0 => None,
                () if s.yy == 0.0 => Some(1.0),
                () => Some(s.xy * s.xy / (s.xx * s.yy)),
            })
        },
        "regr_count" => |_| Ok(Box::new(PairCount(0))),
        "percentile_cont" => {
            |_| Ok(Box::new(Percentile { interpolates: true, wanted: Value::Null, values: vec![] }))
        }
        "percentile_disc" => {
            |_| Ok(Box::new(Percentile { interpolates: false, wanted: Value::Null, values: vec![] }))
        }
        "mode" => {
            |ctx| Ok(Box::new(Mode { ty: last_type(ctx), best: (0, Value::Null), run: (0, Value::Null) }))
        }
        _ => return None,
    };
    Some(Body::Aggregate(make))
}

fn last_type(ctx: &EvalContext<'_>) -> Oid {
    ctx.argument_types.last().copied().unwrap_or(oid::TEXT)
}

fn ratio(above: f64, below: f64, undefined: bool) -> Option<f64> {
    (!undefined).then(|| above / below)
}

fn spread(ctx: &EvalContext<'_>, root: bool, sample: bool) -> Result<Box<dyn Accumulator>> {
    Ok(match last_type(ctx) {
        oid::FLOAT4 | oid::FLOAT8 => {
            Box::new(FloatSpread { root, sample, had_infinity: false, count: 0.0, sum: 0.0, squares: 0.0 })
        }
        _ => Box::new(Spread { root, sample, count: 0, sum: Numeric::ZERO, squares: Numeric::ZERO }),
    })
}

/// Exact sums of integers and numerics.
struct Spread {
    root: bool,
    sample: bool,
    count: i64,
    sum: Numeric,
    squares: Numeric,
}

impl Accumulator for Spread {
    fn add(&mut self, _: &EvalContext<'_>, arguments: &[Value]) -> Result<()> {
        let number = match &arguments[0] {
            Value::Null => return Ok(()),
            Value::Numeric(number) => number.clone(),
            other => Numeric::from_i64(other.as_i64().expect("a number")),
        };
        self.count += 1;
        self.squares = self.squares.add(&number.mul(&number)?);
        self.sum = self.sum.add(&number);
        Ok(())
    }

    fn finish(&self, _: &EvalContext<'_>) -> Result<Value> {
        if self.count <= i64::from(self.sample) {
            return Ok(Value::Null);
        }
        if self.sum.is_nan() || !self.sum.is_finite() {
            return Ok(Value::Numeric(Numeric::NaN));
        }
        let count = Numeric::from_i64(self.count);
        let above = count.mul(&self.squares)?.sub(&self.sum.mul(&self.sum)?);
        if above.signum() <= 0 {
            return Ok(Value::Numeric(Numeric::ZERO));
        }
        let below = count.mul(&Numeric::from_i64(self.count - i64::from(self.sample)))?;
        let variance = above.div(&below)?;
        // The root has as many digits behind the point as the quotient.
        let root = || numeric_math::sqrt_at(&variance, i64::from(variance.scale()));
        Ok(Value::Numeric(if self.root { root()? } else { variance }))
    }
}

/// Youngs and Cramer's way, which loses few digits (as in PostgreSQL's `float8_accum`).
struct FloatSpread {
    root: bool,
    had_infinity: bool,
    sample: bool,
    count: f64,
    sum: f64,
    squares: f64,
}

impl Accumulator for FloatSpread {
    fn add(&mut self, _: &EvalContext<'_>, arguments: &[Value]) -> Result<()> {
        let number = match arguments[0] {
            Value::Null => return Ok(()),
            Value::Float4(float) => f64::from(float),
            ref other => float8(other),
        };
        self.count += 1.0;
        self.had_infinity |= number.is_infinite();
        self.sum += number;
        if self.count > 1.0 {
            let step = number * self.count - self.sum;
            self.squares += step * step / (self.count * (self.count - 1.0));
            if !self.squares.is_finite() && number.is_finite() && !self.squares.is_nan()
                || self.sum.is_infinite()
            {
                super::numbers::checked(f64::INFINITY, !number.is_finite() || self.had_infinity, true)?;
                self.squares = f64::NAN;
            }
        } else if !number.is_finite() {
            self.squares = f64::NAN;
        }
        Ok(())
    }

    fn finish(&self, _: &EvalContext<'_>) -> Result<Value> {
        let below = self.count - f64::from(u8::from(self.sample));
        if self.count == 0.0 || below == 0.0 {
            return Ok(Value::Null);
        }
        let variance = self.squares / below;
        Ok(Value::Float8(if self.root { variance.sqrt() } else { variance }))
    }
}

/// Sums over pairs (y, x) of floats; `xx`, `yy` and `xy` are of deviations from the means.
#[derive(Default)]
struct Sums {
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

struct Pairs {
    sums: Sums,
    result: fn(&Sums) -> Option<f64>,
}

fn pairs(result: fn(&Sums) -> Option<f64>) -> Result<Box<dyn Accumulator>> {
    Ok(Box::new(Pairs { sums: Sums::default(), result }))
}

impl Accumulator for Pairs {
    fn add(&mut self, _: &EvalContext<'_>, arguments: &[Value]) -> Result<()> {
        if arguments.iter().any(Value::is_null) {
            return Ok(());
        }
        let (y, x) = (float8(&arguments[0]), float8(&arguments[1]));
        let s = &mut self.sums;
        let was_finite = s.x.is_finite() && s.y.is_finite();
        s.count += 1.0;
        s.x += x;
        s.y += y;
        if s.count > 1.0 {
            let (dx, dy) = (x * s.count - s.x, y * s.count - s.y);
            let scale = 1.0 / (s.count * (s.count - 1.0));
            s.xx += dx * dx * scale;
            s.yy += dy * dy * scale;
            s.xy += dx * dy * scale;
        }
        // Where a value is no number, nothing is known of deviations; where all are, a sum is too large.
        if !(x.is_finite() && s.x.is_finite()) {
            (s.xx, s.xy) = (f64::NAN, f64::NAN);
        }
        if !(y.is_finite() && s.y.is_finite()) {
            (s.yy, s.xy) = (f64::NAN, f64::NAN);
        }
        let sums = [s.x, s.y, s.xx, s.yy, s.xy];
        if was_finite && x.is_finite() && y.is_finite() && sums.iter().any(|sum| !sum.is_finite()) {
            let message = "value out of range: overflow";
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        Ok(())
    }

    fn finish(&self, _: &EvalContext<'_>) -> Result<Value> {
        if self.sums.count == 0.0 {
            return Ok(Value::Null);
        }
        Ok((self.result)(&self.sums).map_or(Value::Null, Value::Float8))
    }
}

struct PairCount(i64);

impl Accumulator for PairCount {
    fn add(&mut self, _: &EvalContext<'_>, arguments: &[Value]) -> Result<()> {
        self.0 += i64::from(!arguments.iter().any(Value::is_null));
        Ok(())
    }

    fn finish(&self, _: &EvalContext<'_>) -> Result<Value> {
        Ok(Value::Int8(self.0))
    }
}

/// percentile_cont and percentile_disc; rows come sorted.
struct Percentile {
    interpolates: bool,
    wanted: Value,
    values: Vec<Value>,
}

impl Percentile {
    fn at(&self, fraction: &Value) -> Result<Value> {
        if fraction.is_null() || self.values.is_empty() {
            return Ok(Value::Null);
        }
        let fraction = float8(fraction);
        if !(0.0..=1.0).contains(&fraction) {
            let message = format!("percentile value {fraction} is not between 0 and 1");
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        let count = self.values.len();
        if !self.interpolates {
            let place = (fraction * count as f64).ceil().max(1.0) as usize;
            return Ok(self.values[place - 1].clone());
        }
        let place = fraction * (count - 1) as f64;
        let (low, high) = (&self.values[place.floor() as usize], &self.values[place.ceil() as usize]);
        let part = place - place.floor();
        Ok(match (low, high) {
            _ if place.floor() == place.ceil() => low.clone(),
            (Value::Interval(low), Value::Interval(high)) => {
                let negated = Interval { months: -low.months, days: -low.days, micros: -low.micros };
                Value::Interval(low.plus(high.plus(negated)?.scale(part)?)?)
            }
            (low, high) => {
                let (low, high) = (float8(low), float8(high));
                Value::Float8(low + part * (high - low))
            }
        })
    }
}

impl Accumulator for Percentile {
    fn add(&mut self, _: &EvalContext<'_>, arguments: &[Value]) -> Result<()> {
        self.wanted = arguments[0].clone();
        if !arguments[1].is_null() {
            self.values.push(arguments[1].clone());
        }
        Ok(())
    }

    fn finish(&self, ctx: &EvalContext<'_>) -> Result<Value> {
        match &self.wanted {
            Value::Array(wanted) => {
                let values: Result<Vec<Value>> =
                    wanted.elements.iter().map(|wanted| self.at(wanted)).collect();
                Ok(Value::array(ctx.element_of(ctx.result_type), values?))
            }
            wanted => self.at(wanted),
        }
    }
}

/// The most frequent value, the first of several; rows come sorted.
struct Mode {
    ty: Oid,
    best: (u64, Value),
    run: (u64, Value),
}

impl Accumulator for Mode {
    fn add(&mut self, _: &EvalContext<'_>, arguments: &[Value]) -> Result<()> {
        let value = &arguments[0];
        if value.is_null() {
            return Ok(());
        }
        let same = self.run.0 > 0 && order::compare(self.ty, value, &self.run.1).is_eq();
        self.run = if same { (self.run.0 + 1, value.clone()) } else { (1, value.clone()) };
        if self.run.0 > self.best.0 {
            self.best = self.run.clone();
        }
        Ok(())
    }

    fn finish(&self, _: &EvalContext<'_>) -> Result<Value> {
        Ok(self.best.1.clone())
    }
}
