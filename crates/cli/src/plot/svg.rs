//! A figure as an SVG file that needs nothing but itself.

use std::fmt::Write;

use super::{Band, Figure, Moment, Panel, What};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 44.0;
const PANEL: f64 = 210.0;
/// Above each panel: its title, and labels of moments.
const HEAD: f64 = 80.0;
const BOTTOM: f64 = 52.0;
/// Of a band, and above all bands.
const BAND: f64 = 13.0;
const BANDS_HEAD: f64 = 28.0;

/// Colors that people with any color vision tell apart (Okabe and Ito), and that print.
pub(super) const COLORS: [&str; 9] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7a7a00", "#000000", "#8b1a8b"];
const DASHES: [&str; 2] = ["", "6 3"];

/// A round number at least `value / 5`: the distance between two ticks.
pub(super) fn tick(value: f64) -> f64 {
    let rough = (value / 5.0).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough).unwrap_or(10.0);
    factor * power
}

/// A number as an axis shows it.
pub(super) fn number(value: f64, step: f64) -> String {
    let (value, step, unit) = match value.abs() {
        v if v >= 1e6 => (value / 1e6, step / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, step / 1e3, "K"),
        _ => (value, step, ""),
    };
    let digits = (-step.log10().floor()).clamp(0.0, 3.0) as usize;
    let text = format!("{value:.digits$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
    format!("{text}{unit}")
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

struct Canvas<'f> {
    figure: &'f Figure,
    seconds: f64,
    out: String,
}

impl Canvas<'_> {
    fn x(&self, at_s: f64) -> f64 {
        LEFT + at_s / self.seconds * (WIDTH - LEFT - RIGHT)
    }

    fn text(&mut self, (x, y): (f64, f64), attributes: &str, text: &str) {
        let text = escape(text);
        let _ = writeln!(self.out, r#"<text x="{x:.1}" y="{y:.1}" {attributes}>{text}</text>"#);
    }

    fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), style: &str) {
        let _ = writeln!(self.out, r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" {style}/>"#);
    }

    fn panel(&mut self, panel: &Panel, top: f64, is_last: bool) {
        let most = panel.series.iter().flat_map(|series| &series.values).fold(0.0, |a: f64, b| a.max(*b));
        let step = tick(most.max(1e-9));
        let highest = (most / step).ceil().max(1.0) * step;
        let (bottom, right) = (top + PANEL, WIDTH - RIGHT);
        let y = |value: f64| bottom - value / highest * PANEL;
        self.text((LEFT, top - 32.0), r#"font-weight="600" font-size="14""#, &panel.title);
        let mut value = 0.0;
        while value <= highest * 1.0001 {
            self.line((LEFT, y(value)), (right, y(value)), r##"stroke="#e4e4e4""##);
            let at = (LEFT - 8.0, y(value) + 4.0);
            self.text(at, r#"text-anchor="end" class="tick""#, &number(value, step));
            value += step;
        }
        let middle = top + PANEL / 2.0;
        let turned = format!(r#"text-anchor="middle" class="axis" transform="rotate(-90 20 {middle:.1})""#);
        self.text((20.0, middle), &turned, &panel.unit);
        self.time_axis(top, is_last);
        self.moments(top);
        for (at, series) in panel.series.iter().enumerate() {
            self.series(&series.values, at, &y);
        }
        self.legend(panel, top);
    }

    fn time_axis(&mut self, top: f64, is_last: bool) {
        let (bottom, step) = (top + PANEL, tick(self.seconds * 0.6));
        self.line((LEFT, bottom), (WIDTH - RIGHT, bottom), r##"stroke="#444""##);
        self.line((LEFT, top), (LEFT, bottom), r##"stroke="#444""##);
        let mut at_s = 0.0;
        while at_s <= self.seconds * 1.0001 {
            let x = self.x(at_s);
            self.line((x, bottom), (x, bottom + 5.0), r##"stroke="#444""##);
            let place = (x, bottom + 18.0);
            self.text(place, r#"text-anchor="middle" class="tick""#, &number(at_s, step));
            at_s += step;
        }
        if is_last {
            let place = (f64::midpoint(LEFT, WIDTH - RIGHT), bottom + 38.0);
            self.text(place, r#"text-anchor="middle" class="axis""#, "seconds since the clients began");
        }
    }

    fn series(&mut self, values: &[f64], at: usize, y: &impl Fn(f64) -> f64) {
        let mut points = String::new();
        for (bucket, value) in values.iter().enumerate() {
            let x = self.x((bucket as f64 + 0.5) * self.figure.step_s).min(WIDTH - RIGHT);
            let _ = write!(points, "{x:.1},{:.1} ", y(*value));
        }
        let (color, dashes) = (COLORS[at % COLORS.len()], DASHES[at / COLORS.len() % DASHES.len()]);
        let _ = writeln!(
            self.out,
            r#"<polyline fill="none" stroke="{color}" stroke-width="1.6" stroke-linejoin="round"
stroke-dasharray="{dashes}" points="{}"/>"#,
            points.trim_end()
        );
    }

    fn moments(&mut self, top: f64) {
        let bottom = top + PANEL;
        let mut free = [f64::MIN; 2];
        for Moment { at_s, what, hosts } in &self.figure.moments {
            let x = self.x(*at_s);
            let (color, dashes, word) = match what {
                What::Killed => ("#c00000", "", "killed"),
                What::Hung => ("#c00000", "2 3", "hangs"),
                What::Back => ("#2e8b57", "5 4", "back"),
            };
            let style = format!(r#"stroke="{color}" stroke-width="1.2" stroke-dasharray="{dashes}""#);
            self.line((x, top - 4.0), (x, bottom), &style);
            let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
            let label = format!("{} {word}", hosts.join(", "));
            // Labels in two rows, all of them within the picture; one without room is left out, its line is
            // not.
            let width = 7.0 * label.len() as f64;
            let from = (x + 2.0).min(WIDTH - width);
            let Some(row) = free.iter().position(|end| *end < from) else { continue };
            free[row] = from + width;
            let place = (from, top - 6.0 - 11.0 * row as f64);
            self.text(place, &format!(r#"font-size="10" fill="{color}""#), &label);
        }
    }

    /// Bars over the panels' time, a row for each band, and a mark where each bar ends.
    fn bands(&mut self, top: f64) {
        let bands = &self.figure.bands;
        self.text((LEFT, top + 12.0), r#"font-weight="600" font-size="14""#, &self.figure.bands_title);
        for (row, Band { name, spans }) in bands.iter().enumerate() {
            let (y, color) = (top + BANDS_HEAD + BAND * row as f64, COLORS[row % COLORS.len()]);
            self.text((LEFT - 8.0, y + 4.0), r#"text-anchor="end" font-size="11""#, name);
            self.line((LEFT, y), (WIDTH - RIGHT, y), r##"stroke="#eeeeee""##);
            for (from_s, to_s) in spans {
                let (from, to) = (self.x(*from_s), self.x(to_s.min(self.seconds)));
                let style = format!(r#"stroke="{color}" stroke-width="5" stroke-opacity="0.3""#);
                self.line((from, y), (to, y), &style);
                self.line((to, y - 5.0), (to, y + 5.0), &format!(r#"stroke="{color}" stroke-width="1.6""#));
            }
        }
    }

    fn legend(&mut self, panel: &Panel, top: f64) {
        let mut x = WIDTH - RIGHT;
        for (at, series) in panel.series.iter().enumerate().rev() {
            x -= 7.2 * series.name.chars().count() as f64 + 34.0;
            let (color, dashes) = (COLORS[at % COLORS.len()], DASHES[at / COLORS.len() % DASHES.len()]);
            let style = format!(r#"stroke="{color}" stroke-width="3" stroke-dasharray="{dashes}""#);
            self.line((x, top - 36.0), (x + 18.0, top - 36.0), &style);
            self.text((x + 23.0, top - 32.0), r#"font-size="12""#, &series.name);
        }
    }
}

/// The figure.
pub fn render(figure: &Figure) -> String {
    let steps = figure.panels.iter().flat_map(|panel| &panel.series).map(|series| series.values.len()).max();
    let moments = figure.moments.iter().map(|moment| moment.at_s);
    let seconds = moments.fold((steps.unwrap_or(0) as f64 * figure.step_s).max(figure.step_s), f64::max);
    let bands = match figure.bands.len() {
        0 => 0.0,
        n => BANDS_HEAD + BAND * n as f64,
    };
    let height = TOP + figure.panels.len() as f64 * (HEAD + PANEL) + BOTTOM + bands;
    let mut canvas = Canvas { figure, seconds, out: String::new() };
    let _ = writeln!(
        canvas.out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"
width="{WIDTH}" height="{height}" font-family="Helvetica, Arial, sans-serif" font-size="13" fill="black">
<style>.tick {{ font-size: 11px; fill: #333333; }} .axis {{ font-size: 12px; fill: #333333; }}</style>
<rect width="100%" height="100%" fill="white"/>"#
    );
    canvas.text((LEFT, 26.0), r#"font-size="18" font-weight="600""#, &figure.title);
    canvas.text((LEFT, 45.0), r##"font-size="12" fill="#555555""##, &figure.subtitle);
    let mut top = TOP + HEAD;
    for (at, panel) in figure.panels.iter().enumerate() {
        canvas.panel(panel, top, at + 1 == figure.panels.len());
        top += HEAD + PANEL;
    }
    if !figure.bands.is_empty() {
        canvas.bands(top - HEAD + BOTTOM);
    }
    canvas.out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Series;

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!([0.9, 7.0, 12.0, 100.0, 26_000.0].map(tick), [0.2, 2.0, 5.0, 20.0, 10_000.0]);
        let shown = [(0.4, 0.2), (1500.0, 500.0), (20_000.0, 10_000.0), (2.5e6, 5e5), (3.0, 1.0)];
        assert_eq!(shown.map(|(value, step)| number(value, step)), ["0.4", "1.5K", "20K", "2.5M", "3"]);
    }

    #[test]
    fn everything_is_in_the_picture() {
        let series = (0..3).map(|n| Series { name: format!("host {n} <&>"), values: vec![1.0, 0.0, 2.0] });
        let panel = Panel { title: "t".into(), unit: "u".into(), series: series.collect() };
        let moments = vec![Moment { at_s: 0.05, what: What::Killed, hosts: vec![1, 2] }];
        let (title, subtitle) = ("kills".into(), "seed 1".into());
        let bands =
            ["cut off", "taken"].map(|name| Band { name: name.into(), spans: vec![(0.05, 0.1)] }).into();
        let bands_title = "phases".into();
        let figure =
            Figure { title, subtitle, step_s: 0.05, panels: vec![panel], moments, bands, bands_title };
        let text = render(&figure);
        assert_eq!(text.matches("<polyline").count(), 3);
        assert_eq!(text.matches("stroke-opacity").count(), 2, "a bar for each: {text}");
        for part in ["1, 2 killed", "host 1 &lt;&amp;&gt;", "seed 1", "cut off", "phases", "</svg>"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches("<text").count(), text.matches("</text>").count());
    }
}
