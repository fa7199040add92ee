//! Ours beside the published: ratios, deviations, and claims.
//!
//! Absolute throughputs of two machines say little, so both sides are divided by the reference line's
//! throughput at the first x where it was published. A deviation is ours over the published, of these ratios,
//! less one.

use serde::Serialize;

use super::measure::Measured;
use super::plan::{Claim, Figure, Quantile};
use super::published;

/// A point of a figure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Judged {
    /// The line.
    pub line: &'static str,
    /// x.
    pub x: &'static str,
    /// Our transactions per second of virtual time; none where nothing ran.
    pub ours: Option<f64>,
    /// Published transactions per second, or ratio.
    pub published: Option<f64>,
    /// Ours, in units of the reference line's first published point.
    pub our_ratio: Option<f64>,
    /// The published one, in the same unit.
    pub published_ratio: Option<f64>,
    /// Ours over the published, less one.
    pub deviation: Option<f64>,
    /// Percentage of our attempts that aborted.
    pub aborted_percent: Option<f64>,
    /// Median and 99th percentile of our latency, milliseconds of virtual time.
    pub latency_ms: (Option<f64>, Option<f64>),
    /// The published ones.
    pub published_latency_ms: (Option<f64>, Option<f64>),
    /// Why nothing ran.
    pub missing: Option<&'static str>,
}

/// A claim and what became of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    /// What is claimed.
    pub claim: String,
    /// What we saw.
    pub seen: String,
    /// Whether that agrees.
    pub holds: bool,
}

/// A figure, judged.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FigureVerdict {
    /// The figure.
    pub id: &'static str,
    /// Its points, line by line.
    pub points: Vec<Judged>,
    /// Its claims.
    pub claims: Vec<Verdict>,
}

fn of<'m>(measured: &'m [Measured], figure: &Figure, line: &str) -> Option<&'m Measured> {
    measured.iter().find(|m| m.of.0 == figure.id && m.of.1 == line)
}

/// Judges one figure.
pub fn judge(figure: &Figure, measured: &[Measured]) -> FigureVerdict {
    let first = figure.lines.iter().find(|line| line.name == figure.reference).expect("a line of the figure");
    // Without a published point both are in units of our own.
    let base_x = first.published.iter().position(Option::is_some).unwrap_or(0);
    let base = first.published[base_x].unwrap_or(f64::NAN);
    let our_base = of(measured, figure, first.name).map_or(f64::NAN, |m| m.points[base_x].committed_per_s);
    let mut points = Vec::new();
    for line in &figure.lines {
        let ours = of(measured, figure, line.name);
        for (at, (x, published)) in figure.xs.iter().zip(line.published).enumerate() {
            let point = ours.map(|m| &m.points[at]);
            let our_ratio = point.map(|p| p.committed_per_s / our_base);
            let published_ratio = published.map(|p| p / base);
            let deviation = our_ratio.zip(published_ratio).map(|(ours, theirs)| ours / theirs - 1.0);
            points.push(Judged {
                line: line.name,
                x,
                ours: point.map(|p| p.committed_per_s),
                published: *published,
                our_ratio,
                published_ratio,
                // The base agrees with itself.
                deviation: deviation.filter(|_| (line.name, at) != (first.name, base_x)),
                aborted_percent: point.map(|p| p.aborted_percent),
                latency_ms: (point.map(|p| p.p50_ms), point.map(|p| p.p99_ms)),
                published_latency_ms: published::latency(figure.id, line.name, at),
                missing: line.curve.err(),
            });
        }
    }
    let claims = figure.claims.iter().map(|claim| verdict(figure, measured, *claim)).collect();
    FigureVerdict { id: figure.id, points, claims }
}

fn verdict(figure: &Figure, measured: &[Measured], claim: Claim) -> Verdict {
    let value = |line: &str, at: usize| {
        of(measured, figure, line).map_or(f64::NAN, |measured| measured.points[at].committed_per_s)
    };
    let latency = |line: &str, at: usize| {
        let point = of(measured, figure, line).map(|measured| &measured.points[at]);
        point.map_or([f64::NAN; 2], |point| [point.p50_ms, point.p99_ms])
    };
    let time = |at: usize| figure.xs[at].parse().unwrap_or(f64::NAN);
    let last = figure.xs.len() - 1;
    match claim {
        Claim::Leads(first, second, at, least) => {
            let ratio = value(first, at) / value(second, at);
            Verdict {
                claim: format!("at {}, {first} has at least {least:.2} x {second}", figure.xs[at]),
                seen: format!("{ratio:.3} x"),
                holds: ratio >= least,
            }
        }
        Claim::Loses(line, least, most) => {
            let loss = 100.0 * (1.0 - value(line, last) / value(line, 0));
            let (from, to) = (figure.xs[0], figure.xs[last]);
            Verdict {
                claim: format!("from {from} to {to}, {line} loses {least:.0} to {most:.0} %"),
                seen: format!("{loss:.1} %"),
                holds: (least..=most).contains(&loss),
            }
        }
        Claim::Grows(line, least, most) => {
            let times = value(line, last) / value(line, 0);
            let (from, to) = (figure.xs[0], figure.xs[last]);
            Verdict {
                claim: format!("from {from} to {to}, {line} grows {least:.1} to {most:.1} times"),
                seen: format!("{times:.2} times"),
                holds: (least..=most).contains(&times),
            }
        }
        Claim::Costs(line, (from, to), (least, most)) => {
            let loss = 100.0 * (1.0 - value(line, to) / value(line, from));
            let (from, to) = (figure.xs[from], figure.xs[to]);
            Verdict {
                claim: format!("from {from} to {to}, {line} loses {least:.0} to {most:.0} %"),
                seen: format!("{loss:.1} %"),
                holds: (least..=most).contains(&loss),
            }
        }
        Claim::Follows(line, quantile, (from, to), (least, most)) => {
            let (at, name) = match quantile {
                Quantile::Median => (0, "the median latency"),
                Quantile::Hundredth => (1, "the 99th percentile of latency"),
            };
            let grown = latency(line, to)[at] - latency(line, from)[at];
            let part = grown / (time(to) - time(from));
            let (from, to) = (figure.xs[from], figure.xs[to]);
            Verdict {
                claim: format!("from {from} to {to} ms, {name} of {line} grows by {least} to {most} of that"),
                seen: format!("{part:.2}"),
                holds: (least..=most).contains(&part),
            }
        }
        Claim::Waits(line, x, (least, most)) => {
            let times = latency(line, x)[0] / time(x);
            Verdict {
                claim: format!(
                    "at {} ms, the median latency of {line} is {least} to {most} times that",
                    figure.xs[x]
                ),
                seen: format!("{times:.2} times"),
                holds: (least..=most).contains(&times),
            }
        }
        Claim::Overtakes(line, other) => {
            let ahead = |at| value(line, at) / value(other, at);
            Verdict {
                claim: format!("{line} is behind {other} at {}, ahead at {}", figure.xs[0], figure.xs[last]),
                seen: format!("{:.2} x, {:.2} x", ahead(0), ahead(last)),
                holds: ahead(0) < 1.0 && ahead(last) > 1.0,
            }
        }
    }
}

/// The median of the absolute deviations of all points that have one (of two in the middle, their mean); none
/// if no point has.
pub fn median_deviation(verdicts: &[FigureVerdict]) -> Option<f64> {
    let points = verdicts.iter().flat_map(|verdict| &verdict.points);
    let mut all: Vec<f64> = points.filter_map(|point| point.deviation).map(f64::abs).collect();
    all.sort_by(f64::total_cmp);
    let last = all.len().checked_sub(1)?;
    Some(f64::midpoint(all[last / 2], all[last.div_ceil(2)]))
}

#[cfg(test)]
mod tests {
    use super::super::measure::{Point, Size};
    use super::super::plan;
    use super::*;

    /// Table 1 with these throughputs and latencies.
    fn table(points: [(f64, f64, f64); 7]) -> FigureVerdict {
        let figures = plan::tigon();
        let figure = figures.iter().find(|figure| figure.id == "table1-tpcc").expect("in the plan");
        let point = |(x, (committed_per_s, p50_ms, p99_ms)): (&&str, (f64, f64, f64))| Point {
            x: (*x).to_owned(),
            committed_per_s,
            aborted_percent: 0.0,
            p50_ms,
            p99_ms,
            trace_hash: String::new(),
        };
        let size = Size { scale_divisor: 1, keys: 1, virtual_ms: 1, hosts: 8 };
        let measured = Measured {
            profile: String::new(),
            seed: 1,
            size,
            of: (figure.id.to_owned(), "Tigon".to_owned()),
            points: figure.xs.iter().zip(points).map(point).collect(),
            problems: Vec::new(),
        };
        judge(figure, &[measured])
    }

    /// Whoever sees what was published agrees with it.
    #[test]
    fn the_published_table_holds_its_claims() {
        let published = [
            (558.5e3, 0.1, 0.2),
            (508e3, 17.7, 345.0),
            (525e3, 22.6, 54.9),
            (532e3, 26.0, 57.0),
            (535e3, 31.6, 64.7),
            (537e3, 37.3, 75.2),
            (540e3, 43.3, 86.8),
        ];
        let verdict = table(published);
        assert_eq!(verdict.claims.len(), 5);
        assert!(verdict.claims.iter().all(|claim| claim.holds), "{:?}", verdict.claims);
        let tigon = || verdict.points.iter().filter(|point| point.line == "Tigon");
        assert!(tigon().filter_map(|point| point.deviation).all(|deviation| deviation.abs() < 1e-9));
        assert!(tigon().skip(1).all(|point| point.latency_ms == point.published_latency_ms));
        assert_eq!(tigon().next().map(|point| point.published_latency_ms), Some((None, None)));
        let seen: Vec<&str> = verdict.claims.iter().map(|claim| claim.seen.as_str()).collect();
        assert_eq!(seen, ["6.0 %", "-2.9 %", "0.52", "0.80", "2.26 times"]);
        // Group commit that costs nothing and does not wait for its epochs.
        let verdict = table(published.map(|(_, p50, p99)| (558.5e3, p50.min(1.0), p99.min(1.0))));
        let holds: Vec<bool> = verdict.claims.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [false, true, false, false, false]);
    }
}
