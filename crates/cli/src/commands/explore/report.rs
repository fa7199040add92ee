//! What an exploration has found: a table, a picture, and the answer in words.

use std::fmt::Write;

use serde_json::{Value, json};

use super::WorkloadName;
use super::measure::{Explored, Point};
use crate::plot::chart::{Chart, Pair, render};
use crate::plot::svg::escape;

const STYLE: &str = "\
    body{font-family:Helvetica,Arial,sans-serif;max-width:980px;margin:2em auto;color:#222;\
    line-height:1.45}table{border-collapse:collapse;margin:.6em 0 1.6em}\
    th,td{padding:.2em .7em;border-bottom:1px solid #ddd;text-align:right}\
    th:first-child,td:first-child{text-align:left}";

/// What was found.
pub struct Found<'a> {
    explored: &'a Explored,
    points: &'a [Point],
    /// Names of lines, in order.
    lines: Vec<&'a str>,
}

impl<'a> Found<'a> {
    /// Of these points, which come line by line.
    pub fn new(explored: &'a Explored, points: &'a [Point]) -> Self {
        let mut lines: Vec<&str> = points.iter().map(|point| point.line.as_str()).collect();
        lines.dedup();
        Self { explored, points, lines }
    }

    fn of(&self, line: &str) -> impl Iterator<Item = &'a Point> {
        self.points.iter().filter(move |point| point.line == line)
    }

    fn title(&self) -> String {
        let Explored { workload, remote, cross, reads, size, profile, .. } = self.explored;
        let what = match workload {
            WorkloadName::Tpcc => format!("TPC-C at {remote}, 1/{} of its size", size.scale_divisor),
            WorkloadName::Ycsb => {
                format!("YCSB, {reads} % reads, {cross} % crossing, {} rows a host", size.keys)
            }
        };
        format!("{what}, {} hosts x {} workers, {}", size.hosts, size.workers, profile.name)
    }

    /// What follows, one sentence a line of the picture, and one for each overtaking.
    fn answers(&self) -> Vec<String> {
        let name = self.explored.x.parameter.name();
        let mut answers = Vec::new();
        for line in &self.lines {
            let points: Vec<&Point> = self.of(line).collect();
            let [first, .., last] = points[..] else { continue };
            let change = 100.0 * (last.committed_per_s / first.committed_per_s - 1.0);
            answers.push(format!(
                "{line}: {name} {} to {} changes throughput by {change:+.1} % ({:.0} to {:.0} K/s)",
                first.x,
                last.x,
                first.committed_per_s / 1000.0,
                last.committed_per_s / 1000.0
            ));
        }
        let mut leader = "";
        for (at, x) in self.explored.x.values.iter().enumerate() {
            let here = self.lines.iter().map(|line| (*line, self.of(line).nth(at)));
            let here = here.filter_map(|(line, point)| Some((line, point?.committed_per_s)));
            let Some((best, _)) = here.max_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
            if best != leader && self.lines.len() > 1 {
                answers.push(format!("{best} leads from {name} {x} on"));
                leader = best;
            }
        }
        answers
    }

    /// For people on a terminal.
    pub fn table(&self) -> String {
        let mut out = format!("{}; everything is virtual time\n\n", self.title());
        let _ = write!(out, "{:<18}", self.explored.x.parameter.title());
        self.lines.iter().for_each(|line| {
            let _ = write!(out, "{:>22}", format!("{line}, K/s"));
        });
        out.push('\n');
        for (at, x) in self.explored.x.values.iter().enumerate() {
            let _ = write!(out, "{x:<18}");
            for line in &self.lines {
                let point = self.of(line).nth(at).expect("every line has every x");
                let _ = write!(out, "{:>22.1}", point.committed_per_s / 1000.0);
            }
            out.push('\n');
        }
        out.push('\n');
        for answer in self.answers() {
            let _ = writeln!(out, "{answer}");
        }
        for problem in self.points.iter().flat_map(|point| &point.problems) {
            let _ = writeln!(out, "WRONG: {problem}");
        }
        out
    }

    /// One file that needs nothing but itself.
    pub fn html(&self) -> String {
        let pair = |line: &&str| Pair {
            name: (*line).to_owned(),
            ours: self.of(line).map(|point| Some(point.committed_per_s)).collect(),
            published: Vec::new(),
        };
        let chart = Chart {
            x: self.explored.x.parameter.title(),
            y: "committed transactions per second (virtual)".to_owned(),
            xs: self.explored.x.values.iter().map(f64::to_string).collect(),
            kinds: ["ours", "published"],
            lines: self.lines.iter().map(pair).collect(),
        };
        let title = escape(&self.title());
        let description = escape(&self.explored.profile.description);
        let mut out = format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
             <style>{STYLE}</style>\n<h1>{title}</h1>\n<p>Everything is <b>virtual time</b> \
             ({description}); seed {}, {} virtual ms a point.</p>\n{}\n<ul>\n",
            self.explored.size.seed,
            self.explored.size.virtual_ms,
            render(&chart)
        );
        for answer in self.answers() {
            let _ = writeln!(out, "<li>{}</li>", escape(&answer));
        }
        let heads =
            ["line", "x", "K/s", "p50, us", "p99, us", "attempts aborted, %", "moves in a transaction"];
        let _ = writeln!(out, "</ul>\n<table><tr><th>{}</th></tr>", heads.join("</th><th>"));
        for point in self.points {
            let _ = writeln!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{:.1}</td><td>{:.1}</td><td>{:.1}</td><td>{:.1}</td>\
                 <td>{:.3}</td></tr>",
                escape(&point.line),
                point.x,
                point.committed_per_s / 1000.0,
                point.p50_us,
                point.p99_us,
                point.aborted_percent,
                point.moves_in
            );
        }
        out + "</table></html>\n"
    }

    /// All numbers.
    pub fn json(&self) -> Value {
        let Explored { x, profile, size, .. } = self.explored;
        let points = self.points.iter().map(Point::json).collect::<Vec<_>>();
        json!({
            "what": self.title(), "time": "virtual", "profile": profile.name, "size": size,
            "x": x.parameter.title(), "answers": self.answers(), "points": points,
        })
    }
}
