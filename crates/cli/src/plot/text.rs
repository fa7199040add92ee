//! A figure for a terminal: a line of bars for each series, and a line of moments below.

use std::fmt::Write;

use super::{Figure, What};

/// Bars of a line.
const COLUMNS: usize = 72;
/// Eighths of a block.
const BARS: [char; 9] =
    [' ', '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];

/// The first panel of the figure. A bar is the least value of its time, so that a gap shows however short
/// it is.
pub fn render(figure: &Figure) -> String {
    let Some(panel) = figure.panels.first() else { return String::new() };
    let steps = panel.series.iter().map(|series| series.values.len()).max().unwrap_or(0);
    if steps == 0 {
        return String::new();
    }
    let most = panel.series.iter().flat_map(|series| &series.values).fold(0.0, |a: f64, b| a.max(*b));
    let columns = COLUMNS.min(steps);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} ({}, up to {most:.0}; a bar is the least of {:.0} ms)",
        panel.title,
        panel.unit,
        steps as f64 * figure.step_s * 1e3 / columns as f64
    );
    for series in &panel.series {
        let bars: String = (0..columns)
            .map(|column| {
                let (from, to) =
                    (column * steps / columns, ((column + 1) * steps / columns).min(series.values.len()));
                let of = series.values.get(from..to).unwrap_or(&[]);
                let least = of.iter().copied().fold(f64::INFINITY, f64::min);
                let eighths = if least.is_finite() { (least / most.max(1.0) * 8.0).ceil() } else { 0.0 };
                BARS[(eighths as usize).min(8)]
            })
            .collect();
        let _ = writeln!(text, "{:<10}|{bars}|", series.name);
    }
    if !figure.moments.is_empty() {
        let mut line = vec![' '; columns];
        for moment in &figure.moments {
            let column = (moment.at_s / figure.step_s / steps as f64 * columns as f64) as usize;
            let mark = match moment.what {
                What::Killed => 'x',
                What::Hung => 'o',
                What::Back => '+',
            };
            line[column.min(columns - 1)] = mark;
        }
        let _ = writeln!(text, "{:<10}|{}|", "x o +", line.into_iter().collect::<String>());
        let _ = writeln!(text, "{:<10} x a host killed, o stopped, + a member again", "");
    }
    let end_s = steps as f64 * figure.step_s;
    let _ = writeln!(
        text,
        "{:<10} 0 s{:>width$}",
        "",
        format!("{end_s:.1} s"),
        width = columns.saturating_sub(3)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::super::{Moment, Panel, Series};
    use super::*;

    #[test]
    fn a_gap_shows() {
        let mut values = vec![10.0; 720];
        values[100] = 0.0;
        let series = vec![Series { name: "host 0".into(), values }];
        let panel = Panel { title: "t".into(), unit: "u".into(), series };
        let moments = vec![Moment { at_s: 5.0, what: What::Killed, hosts: vec![0] }];
        let (title, subtitle) = Default::default();
        let text = render(&Figure {
            title,
            subtitle,
            step_s: 0.05,
            panels: vec![panel],
            moments,
            bands: Vec::new(),
            bands_title: String::new(),
        });
        let bars: Vec<char> = text.lines().nth(1).expect("a line").chars().skip(11).take(72).collect();
        assert_eq!(bars.iter().filter(|bar| **bar == ' ').count(), 1);
        assert_eq!(bars[10], ' ');
        assert_eq!(text.lines().nth(2).expect("moments").chars().position(|c| c == 'x'), Some(0));
        assert_eq!(text.lines().nth(2).expect("moments").chars().skip(11).position(|c| c == 'x'), Some(10));
    }
}
