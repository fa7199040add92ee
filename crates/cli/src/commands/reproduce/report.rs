//! The report of a reproduction: one HTML file that needs nothing but itself, and a JSON file for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use super::judge::{FigureVerdict, Judged, median_deviation};
use super::measure::{Common, Measured, Size};
use super::plan::{Axis, Figure};
use crate::plot::chart::{Chart, Pair, render};
use crate::plot::svg::escape;

pub(super) const STYLE: &str = "\
    body{font-family:Helvetica,Arial,sans-serif;max-width:980px;margin:2em auto;color:#222;\
    line-height:1.45}table{border-collapse:collapse;margin:.6em 0 1.6em}\
    th,td{padding:.2em .7em;border-bottom:1px solid #ddd;text-align:right}\
    th:first-child,td:first-child{text-align:left}.no{color:#b00020;font-weight:600}\
    .yes{color:#1b6e3c}.note{color:#555;font-size:90%}";

fn chart(figure: &Figure, verdict: &FigureVerdict) -> Chart {
    let of = |name: &str, value: fn(&Judged) -> Option<f64>| {
        verdict.points.iter().filter(|point| point.line == name).map(value).collect()
    };
    let pair = |line: &super::plan::Line| Pair {
        name: line.name.to_owned(),
        ours: of(line.name, |point| point.our_ratio),
        published: of(line.name, |point| point.published_ratio),
    };
    let base = figure.reference;
    let reference = figure.lines.iter().find(|line| line.name == base).expect("a line of the figure");
    let at = reference.published.iter().position(Option::is_some).unwrap_or(0);
    Chart {
        x: figure.x.to_owned(),
        y: format!("throughput, {base} at {} = 1", figure.xs[at]),
        xs: figure.xs.iter().map(|x| (*x).to_owned()).collect(),
        kinds: ["ours", "published"],
        lines: figure.lines.iter().map(pair).collect(),
    }
}

pub(super) fn cell(value: Option<f64>, digits: usize, unit: &str) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}{unit}"))
}

fn table(out: &mut String, verdict: &FigureVerdict) {
    let heads = [
        "line",
        "x",
        "ours, K/s (virtual)",
        "published, K/s",
        "our ratio",
        "published ratio",
        "deviation",
        "attempts aborted",
    ];
    let _ = writeln!(out, "<table><tr><th>{}</th></tr>", heads.join("</th><th>"));
    for point in &verdict.points {
        let Judged { line, x, ours, published, our_ratio, published_ratio, deviation, .. } = point;
        let thousands = |value: &Option<f64>| value.map(|value| value / 1000.0).filter(|value| *value > 0.01);
        let ours = match point.missing {
            Some(why) => format!("<span class=\"note\">not run: {}</span>", escape(why)),
            None => cell(thousands(ours), 1, ""),
        };
        let cells = [
            escape(line),
            (*x).to_owned(),
            ours,
            cell(thousands(published), 1, ""),
            cell(*our_ratio, 3, ""),
            cell(*published_ratio, 3, ""),
            cell(deviation.map(|deviation| 100.0 * deviation), 0, " %"),
            cell(point.aborted_percent, 1, " %"),
        ];
        let _ = writeln!(out, "<tr><td>{}</td></tr>", cells.join("</td><td>"));
    }
    out.push_str("</table>\n");
}

/// Latencies, where a figure is about them. They count in no deviation: they are times of two disks.
fn latencies(out: &mut String, verdict: &FigureVerdict) {
    let heads = ["line", "x", "p50, ms (virtual)", "published", "p99, ms (virtual)", "published"];
    let _ = writeln!(out, "<table><tr><th>{}</th></tr>", heads.join("</th><th>"));
    for point in &verdict.points {
        let (ours, published) = (point.latency_ms, point.published_latency_ms);
        let cells = [
            escape(point.line),
            point.x.to_owned(),
            cell(ours.0, 2, ""),
            cell(published.0, 1, ""),
            cell(ours.1, 2, ""),
            cell(published.1, 1, ""),
        ];
        let _ = writeln!(out, "<tr><td>{}</td></tr>", cells.join("</td><td>"));
    }
    out.push_str("</table>\n");
}

/// The report.
pub fn html(title: &str, common: &Common, figures: &[Figure], verdicts: &[FigureVerdict]) -> String {
    let mut out = String::new();
    let Common { profile, seed, size } = common;
    let claims = verdicts.iter().flat_map(|verdict| &verdict.claims);
    let (held, all) = (claims.clone().filter(|claim| claim.holds).count(), claims.count());
    let (title, name, description) = (escape(title), escape(&profile.name), escape(&profile.description));
    let median = cell(median_deviation(verdicts).map(|median| 100.0 * median), 1, " %");
    let Size { scale_divisor, keys, virtual_ms, hosts } = size;
    let _ = writeln!(
        out,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
         <style>{STYLE}</style>\n<h1>{title}</h1>\n\
         <p>All throughputs of ours are <b>virtual time</b> of the profile <b>{name}</b> ({description}). \
         {hosts} hosts; TPC-C at 1/{scale_divisor} of its size, YCSB with {keys} rows a host; {virtual_ms} \
         virtual ms a point; seed {seed}. Every row that other hosts may touch is shared before a point \
         that crosses hosts, as in the published runs; a worker that met a conflict waits up to 100 us. \
         Both sides are divided by the reference line's first published point: pictures and deviations \
         compare these ratios.</p>\n\
         <p><b>Median deviation {median}; {held} of {all} claims hold.</b></p>",
    );
    for (figure, verdict) in figures.iter().zip(verdicts) {
        let _ = writeln!(
            out,
            "<h2 id=\"{}\">{}</h2>\n{}",
            figure.id,
            escape(figure.title),
            render(&chart(figure, verdict))
        );
        out.push_str("<ul>\n");
        for claim in &verdict.claims {
            let (class, word) = if claim.holds { ("yes", "holds") } else { ("no", "does not hold") };
            let (what, seen) = (escape(&claim.claim), escape(&claim.seen));
            let _ = writeln!(out, "<li>{what}: <span class=\"{class}\">{word}</span> ({seen})</li>");
        }
        let _ = writeln!(out, "</ul>\n<p class=\"note\">Published: {}.</p>", escape(figure.source));
        table(&mut out, verdict);
        if figure.axis == Axis::EpochMs {
            latencies(&mut out, verdict);
        }
    }
    out + "</html>\n"
}

/// All numbers.
pub fn json(what: &str, common: &Common, verdicts: &[FigureVerdict], measured: &[Measured]) -> Value {
    let failed: Vec<&str> = verdicts
        .iter()
        .flat_map(|verdict| &verdict.claims)
        .filter(|claim| !claim.holds)
        .map(|claim| claim.claim.as_str())
        .collect();
    let problems: Vec<&String> = measured.iter().flat_map(|line| &line.problems).collect();
    json!({
        "what": what, "profile": common.profile.name, "seed": common.seed, "size": common.size,
        "time": "virtual", "median_ratio_error": median_deviation(verdicts), "shapes_failed": failed.len(),
        "failed": failed, "problems": problems, "figures": verdicts, "lines": measured,
    })
}
