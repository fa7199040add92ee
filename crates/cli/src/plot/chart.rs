//! Lines over named points, as an SVG picture that needs nothing but itself: what is ours is drawn through,
//! what it is compared with (published, say) is dashed, in the same color.

use std::fmt::Write;

use super::svg::{COLORS, escape, number, tick};

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 230.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 52.0;

/// A line and its published counterpart; a point may be missing in either.
#[derive(Clone, PartialEq, Debug)]
pub struct Pair {
    /// Its name.
    pub name: String,
    /// Ours.
    pub ours: Vec<Option<f64>>,
    /// The published one.
    pub published: Vec<Option<f64>>,
}

/// A picture.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// What x is.
    pub x: String,
    /// What y is, with its unit.
    pub y: String,
    /// The values of x.
    pub xs: Vec<String>,
    /// What is drawn through, and what is dashed.
    pub kinds: [&'static str; 2],
    /// The lines.
    pub lines: Vec<Pair>,
}

fn text(out: &mut String, (x, y): (f64, f64), attributes: &str, text: &str) {
    let text = escape(text);
    let _ = writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" {attributes}>{text}</text>"#);
}

fn rule(out: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64), style: &str) {
    let _ = writeln!(out, r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" {style}/>"#);
}

/// The picture.
pub fn render(chart: &Chart) -> String {
    let all = chart.lines.iter().flat_map(|line| line.ours.iter().chain(&line.published));
    let most = all.flatten().fold(0.0, |a: f64, b| a.max(*b));
    let step = tick(most.max(1e-9));
    let highest = (most / step).ceil().max(1.0) * step;
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let y = |value: f64| bottom - value / highest * (bottom - TOP);
    let gaps = (chart.xs.len().max(2) - 1) as f64;
    let x = |at: usize| LEFT + 20.0 + at as f64 / gaps * (right - LEFT - 40.0);
    let mut out = String::new();
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"
width="{WIDTH}" height="{HEIGHT}"
font-family="Helvetica, Arial, sans-serif" font-size="12" fill="black">"#
    );
    let mut value = 0.0;
    while value <= highest * 1.0001 {
        rule(&mut out, (LEFT, y(value)), (right, y(value)), r##"stroke="#e4e4e4""##);
        let place = (LEFT - 8.0, y(value) + 4.0);
        text(&mut out, place, r#"text-anchor="end" font-size="11""#, &number(value, step));
        value += step;
    }
    rule(&mut out, (LEFT, bottom), (right, bottom), r##"stroke="#444""##);
    rule(&mut out, (LEFT, TOP), (LEFT, bottom), r##"stroke="#444""##);
    for (at, name) in chart.xs.iter().enumerate() {
        rule(&mut out, (x(at), bottom), (x(at), bottom + 5.0), r##"stroke="#444""##);
        text(&mut out, (x(at), bottom + 18.0), r#"text-anchor="middle" font-size="11""#, name);
    }
    text(&mut out, (f64::midpoint(LEFT, right), bottom + 38.0), r#"text-anchor="middle""#, &chart.x);
    let middle = f64::midpoint(TOP, bottom);
    let turned = format!(r#"text-anchor="middle" transform="rotate(-90 16 {middle:.1})""#);
    text(&mut out, (16.0, middle), &turned, &chart.y);
    for (at, line) in chart.lines.iter().enumerate() {
        let color = COLORS[at % COLORS.len()];
        for (values, dashes, radius) in [(&line.published, "5 4", 2.0), (&line.ours, "", 3.0)] {
            let placed: Vec<(f64, f64)> =
                values.iter().enumerate().filter_map(|(at, value)| Some((x(at), y((*value)?)))).collect();
            let points: Vec<String> = placed.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                out,
                r#"<polyline fill="none" stroke="{color}" stroke-width="1.8"
stroke-dasharray="{dashes}" points="{}"/>"#,
                points.join(" ")
            );
            for (x, y) in placed {
                let _ = writeln!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="{color}"/>"#);
            }
        }
        let top = TOP + 8.0 + 20.0 * at as f64;
        let style = format!(r#"stroke="{color}" stroke-width="3""#);
        rule(&mut out, (right + 12.0, top), (right + 32.0, top), &style);
        let here = if line.ours.iter().any(Option::is_some) { "" } else { " (published only)" };
        text(&mut out, (right + 38.0, top + 4.0), "", &format!("{}{here}", line.name));
    }
    if chart.lines.iter().any(|line| line.published.iter().any(Option::is_some)) {
        for (at, (kind, dashes)) in chart.kinds.iter().zip(["", "5 4"]).enumerate() {
            let top = TOP + 18.0 + 20.0 * (chart.lines.len() + at) as f64;
            let style = format!(r##"stroke="#444" stroke-width="1.8" stroke-dasharray="{dashes}""##);
            rule(&mut out, (right + 12.0, top), (right + 32.0, top), &style);
            text(&mut out, (right + 38.0, top + 4.0), "", kind);
        }
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_and_name_is_drawn() {
        let ours = Pair {
            name: "a <b>".into(),
            ours: vec![Some(1.0), None, Some(3.0)],
            published: vec![Some(2.0); 3],
        };
        let theirs = Pair { name: "c".into(), ours: vec![None; 3], published: vec![Some(1.0), None, None] };
        let (x, y, xs) = ("share".into(), "times".into(), ["0", "50", "100"].map(String::from).to_vec());
        let kinds = ["here", "there"];
        let text = render(&Chart { x, y, xs, kinds, lines: vec![ours.clone(), theirs] });
        assert_eq!(text.matches("<circle").count(), 2 + 3 + 1);
        assert_eq!(text.matches("<polyline").count(), 4);
        for part in ["a &lt;b&gt;", "c (published only)", "share", "times", ">100<", ">here<", ">there<"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Nothing is dashed: nothing has to be told apart.
        let alone = Pair { published: Vec::new(), ..ours };
        let (x, y, xs) = (String::new(), String::new(), vec!["0".to_owned()]);
        assert!(!render(&Chart { x, y, xs, kinds, lines: vec![alone] }).contains(">here<"));
    }
}
