//! What came out, as text, as one HTML file that needs nothing but itself, and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::super::report::{STYLE, cell};
use super::measure::{Measured, Measuring};
use super::plan::{ENGINES, Figure, Point, SOURCE};
use crate::plot::chart::{Chart, Pair, render};
use crate::plot::svg::escape;

/// An engine at a point.
struct Cell {
    engine: &'static str,
    /// Least, middle and greatest throughput of the rounds.
    least: f64,
    median: f64,
    greatest: f64,
    /// The artifact's on its machine.
    artifact: Option<f64>,
    /// The simulator's, in virtual time.
    simulated: f64,
    aborted_percent: f64,
    processor_share: f64,
}

/// What the simulator says about who is ahead, and whether that is so.
struct Verdict {
    claim: String,
    seen: String,
    holds: bool,
}

fn cells(figure: &Figure, point: &Point, measured: &Measured) -> Vec<Cell> {
    let cell = |((_, engine, _), artifact): (&(_, &'static str, &'static str), Option<f64>)| {
        let (mut all, simulated) = measured.at(figure, point, engine);
        all.sort_by(f64::total_cmp);
        let last = all.len() - 1;
        Cell {
            engine,
            least: all[0],
            median: f64::midpoint(all[last / 2], all[last.div_ceil(2)]),
            greatest: all[last],
            artifact: artifact.map(|thousands| 1000.0 * thousands),
            simulated: simulated.unwrap_or(f64::NAN),
            aborted_percent: measured.middle(figure, point, engine, |run| run.aborted_percent),
            processor_share: measured.middle(figure, point, engine, |run| run.processor_share),
        }
    };
    ENGINES.iter().zip(point.artifact).map(cell).collect()
}

/// Who is ahead here, as far as the rounds decide it: every pair whose ranges do not overlap must be in the
/// simulator's order.
fn verdict(figure: &Figure, point: &Point, cells: &[Cell]) -> Verdict {
    let mut order: Vec<&Cell> = cells.iter().collect();
    order.sort_by(|a, b| b.simulated.total_cmp(&a.simulated));
    let names: Vec<&str> = order.iter().map(|cell| cell.engine).collect();
    let (mut seen, mut holds) = (Vec::new(), true);
    for (at, ahead) in order.iter().enumerate() {
        for behind in &order[at + 1..] {
            let (simulated, real) = (ahead.simulated / behind.simulated, ahead.median / behind.median);
            let apart = ahead.least > behind.greatest || behind.least > ahead.greatest;
            let word = match (apart, real >= 1.0) {
                (false, _) => ", within the spread",
                (true, true) => "",
                (true, false) => ", the other way round",
            };
            holds &= !apart || real >= 1.0;
            let pair = format!("{} over {}", ahead.engine, behind.engine);
            seen.push(format!("{pair} {real:.2} (simulated {simulated:.2}){word}"));
        }
    }
    let claim = format!("{} at {}: {}", figure.id, point.name, names.join(", then "));
    Verdict { claim, seen: seen.join("; "), holds }
}

fn verdicts(figures: &[Figure], measured: &Measured) -> Vec<Verdict> {
    let of = |figure| move |point| verdict(figure, point, &cells(figure, point, measured));
    figures.iter().flat_map(|figure| figure.points.iter().map(of(figure))).collect()
}

/// What has to be said with every figure.
fn about(measuring: &Measuring) -> String {
    let Measuring { machine, profile, seed, size, .. } = measuring;
    format!(
        "Real time on {machine}: each host is a process with one worker, over shared memory of this \
         machine, whose caches are coherent; no log. Where transactions cross hosts, every row is shared \
         before, as in the published runs. TPC-C at 1/{} of its size, YCSB with {} rows a host; {} rounds \
         of {} s after {} s, engines in turn; medians, with the least and the greatest. Seed {seed}. The \
         artifact's figures are another machine's, so only ratios of engines compare. Processor: part of \
         the time in which workers, which never sleep, had theirs; a run with less than 97 % is tried \
         again, up to {} times, and the least disturbed counts. Simulated: virtual time of the profile \
         {}, {} ms a point.",
        size.scale_divisor,
        size.keys,
        size.rounds,
        size.seconds,
        size.warm_up_s,
        size.attempts,
        profile.name,
        size.virtual_ms
    )
}

const HEADS: [&str; 8] = [
    "engine",
    "this machine",
    "least-greatest",
    "artifact",
    "over row",
    "artifact's",
    "simulated",
    "processor",
];

fn thousands(value: f64) -> String {
    format!("{:.1}", value / 1000.0)
}

fn row(cell: &Cell, base: &Cell) -> [String; 8] {
    let ratio = cell.artifact.zip(base.artifact).map(|(own, base)| own / base);
    [
        cell.engine.to_owned(),
        thousands(cell.median),
        format!("{}-{}", thousands(cell.least), thousands(cell.greatest)),
        self::cell(cell.artifact.map(|value| value / 1000.0), 1, ""),
        format!("{:.2}", cell.median / base.median),
        self::cell(ratio, 2, ""),
        format!("{} ({:.2})", thousands(cell.simulated), cell.simulated / base.simulated),
        format!("{:.0} %", 100.0 * cell.processor_share),
    ]
}

/// Tables and verdicts for people.
pub fn summary(measuring: &Measuring, figures: &[Figure], measured: &Measured) -> String {
    let mut out = format!("{}\n", about(measuring));
    for figure in figures {
        let _ = writeln!(out, "\n{}: {}; K transactions a second", figure.id, figure.title);
        for point in &figure.points {
            let cells = cells(figure, point, measured);
            let _ = writeln!(out, "  {}", point.name);
            let line = |texts: [String; 8]| {
                let [name, rest @ ..] = texts;
                rest.iter().fold(format!("    {name:<10}"), |line, text| line + &format!("{text:>16}"))
            };
            let _ = writeln!(out, "{}", line(HEADS.map(str::to_owned)));
            for cell in &cells {
                let _ = writeln!(out, "{}", line(row(cell, &cells[0])));
            }
        }
    }
    out.push_str("\nthe simulator's order of engines, and this machine's:\n");
    for verdict in verdicts(figures, measured) {
        let word = if verdict.holds { "agrees" } else { "DOES NOT AGREE" };
        let _ = writeln!(out, "  {word}: {} (seen: {})", verdict.claim, verdict.seen);
    }
    for problem in measured.runs.iter().flat_map(|run| &run.problems) {
        let _ = writeln!(out, "WRONG: {problem}");
    }
    out
}

/// Two pictures: beside the artifact; and beside the simulator, in units of `row` at the first point.
fn charts(figure: &Figure, measured: &Measured) -> [Chart; 2] {
    let all: Vec<Vec<Cell>> = figure.points.iter().map(|point| cells(figure, point, measured)).collect();
    let chart = |dashed, y: &str, pair: &dyn Fn(usize) -> Pair| Chart {
        x: figure.x.to_owned(),
        y: y.to_owned(),
        xs: figure.points.iter().map(|point| point.name.to_owned()).collect(),
        kinds: ["this machine", dashed],
        lines: (0..ENGINES.len()).map(pair).collect(),
    };
    let of = |at: usize, value: fn(&Cell) -> Option<f64>| all.iter().map(|cells| value(&cells[at])).collect();
    let beside_artifact = |at: usize| {
        let (_, name, counterpart) = ENGINES[at];
        let ours = of(at, |cell| Some(cell.median / 1000.0));
        let published = of(at, |cell| Some(cell.artifact? / 1000.0));
        Pair { name: format!("{name} / {counterpart}"), ours, published }
    };
    let (real, simulated) = (all[0][0].median, all[0][0].simulated);
    let beside_simulator = |at: usize| {
        let name = ENGINES[at].1.to_owned();
        let ours = all.iter().map(|cells| Some(cells[at].median / real)).collect();
        let published = all.iter().map(|cells| Some(cells[at].simulated / simulated)).collect();
        Pair { name, ours, published }
    };
    let first = format!("throughput, row at {} = 1", figure.points[0].name);
    [
        chart("the artifact, elsewhere", "K transactions / s", &beside_artifact),
        chart("simulated, virtual time", &first, &beside_simulator),
    ]
}

/// The report.
pub fn html(measuring: &Measuring, figures: &[Figure], measured: &Measured) -> String {
    let mut out = String::new();
    let verdicts = verdicts(figures, measured);
    let held = verdicts.iter().filter(|verdict| verdict.holds).count();
    let title = "Tigon's comparison in small, on this machine";
    let _ = writeln!(
        out,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
         <style>{STYLE}</style>\n<h1>{title}</h1>\n<p>{}</p>\n<p><b>The simulator's order of engines is \
         this machine's at {held} of {} points.</b></p>",
        escape(&about(measuring)),
        verdicts.len()
    );
    for figure in figures {
        let _ = writeln!(out, "<h2 id=\"{}\">{}</h2>", figure.id, escape(figure.title));
        for chart in charts(figure, measured) {
            let _ = writeln!(out, "{}", render(&chart));
        }
        let heads = HEADS.join("</th><th>");
        let _ = writeln!(out, "<table><tr><th>point</th><th>{heads}</th><th>attempts aborted</th></tr>");
        for point in &figure.points {
            let cells = cells(figure, point, measured);
            for cell in &cells {
                let texts = row(cell, &cells[0]).map(|text| escape(&text)).join("</td><td>");
                let (name, aborted) = (point.name, cell.aborted_percent);
                let _ = writeln!(out, "<tr><td>{name}</td><td>{texts}</td><td>{aborted:.1} %</td></tr>");
            }
        }
        out.push_str("</table>\n");
    }
    let _ = writeln!(out, "<h2>Who is ahead: simulated, and here</h2>\n<ul>");
    for verdict in &verdicts {
        let (class, word) = if verdict.holds { ("yes", "agrees") } else { ("no", "does not agree") };
        let (claim, seen) = (escape(&verdict.claim), escape(&verdict.seen));
        let _ = writeln!(out, "<li>{claim}: <span class=\"{class}\">{word}</span> ({seen})</li>");
    }
    let _ = writeln!(out, "</ul>\n<p class=\"note\">Artifact: {}.</p>\n</html>", escape(SOURCE));
    out
}

/// All numbers.
pub fn json(measuring: &Measuring, figures: &[Figure], measured: &Measured) -> Value {
    let point = |figure: &Figure, point: &Point| {
        let engines: Vec<Value> = cells(figure, point, measured)
            .iter()
            .map(|cell| {
                json!({
                    "engine": cell.engine, "median_per_s": cell.median, "least_per_s": cell.least,
                    "greatest_per_s": cell.greatest, "artifact_per_s": cell.artifact,
                    "simulated_per_s": cell.simulated, "aborted_percent": cell.aborted_percent,
                    "processor_share": cell.processor_share,
                })
            })
            .collect();
        json!({ "point": point.name, "hosts": point.hosts, "engines": engines })
    };
    let figure = |figure: &Figure| {
        let points: Vec<Value> = figure.points.iter().map(|at| point(figure, at)).collect();
        json!({ "figure": figure.id, "points": points })
    };
    let verdicts = verdicts(figures, measured);
    let failed = verdicts.iter().filter(|verdict| !verdict.holds).count();
    let claims: Vec<Value> = verdicts
        .iter()
        .map(|verdict| json!({ "claim": verdict.claim, "seen": verdict.seen, "holds": verdict.holds }))
        .collect();
    let problems: Vec<&String> = measured.runs.iter().flat_map(|run| &run.problems).collect();
    json!({
        "what": "native", "time": "real", "machine": measuring.machine, "profile": measuring.profile.name,
        "seed": measuring.seed, "size": measuring.size, "source": SOURCE,
        "figures": figures.iter().map(figure).collect::<Vec<_>>(), "claims": claims, "claims_failed": failed,
        "problems": problems, "runs": measured.runs,
    })
}
