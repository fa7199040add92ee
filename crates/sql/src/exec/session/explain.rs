//! EXPLAIN, and what its options mean.
//!
//! `COHERENCE` is Liger's own: what each node does to shared memory. Options that change nothing here (COSTS,
//! VERBOSE, BUFFERS and their like) are taken.
use std::rc::Rc;

use serde_json::{Value as Json, json};

use crate::error::{Result, SqlError, SqlState};
use crate::exec::measure::{Meter, Spent};
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::exec::system::text_column;
use crate::parse::ast::Statement;
use crate::plan::explain::Line;
use crate::session::Sink;
use crate::storage::access::Traffic;

/// What was asked for.
#[derive(Default)]
struct Options {
    analyze: bool,
    coherence: bool,
    json: bool,
}

const KNOWN: &[&str] = &[
    "analyze",
    "analyse",
    "verbose",
    "costs",
    "settings",
    "buffers",
    "wal",
    "timing",
    "summary",
    "coherence",
];

impl Options {
    fn of(options: &[(String, String)]) -> Result<Options> {
        let (mut read, mut need) = (Options::default(), Vec::new());
        for (name, value) in options {
            let name = name.to_ascii_lowercase();
            if name == "format" {
                read.json = value.eq_ignore_ascii_case("json");
                continue;
            }
            if !KNOWN.contains(&name.as_str()) {
                let message = format!("unrecognized EXPLAIN option \"{name}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            let on = match value.to_ascii_lowercase().as_str() {
                "" | "true" | "on" | "1" => true,
                "false" | "off" | "0" => false,
                _ => {
                    let message = format!("{name} requires a Boolean value");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
            };
            match name.as_str() {
                "analyze" | "analyse" => read.analyze = on,
                "coherence" => read.coherence = on,
                _ => {}
            }
            if on && matches!(name.as_str(), "wal" | "timing" | "coherence") {
                need.push(name.to_ascii_uppercase());
            }
        }
        match need.first().filter(|_| !read.analyze) {
            Some(name) => {
                let message = format!("EXPLAIN option {name} requires ANALYZE");
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
            None => Ok(read),
        }
    }
}

fn numbers(traffic: &Traffic) -> [(&'static str, u64); 6] {
    let counts = traffic.counts;
    let sync = counts.sync_loads + counts.sync_stores + counts.sync_swaps;
    [
        ("Sync Operations", sync),
        ("HWcc Bytes", 8 * sync),
        ("Lines Written Back", counts.lines_written_back),
        ("Lines Invalidated", counts.lines_invalidated),
        ("Fences", counts.fences),
        ("Messages", traffic.requests),
    ]
}

fn words(traffic: &Traffic) -> String {
    let [sync, hwcc, back, invalidated, fences, messages] = numbers(traffic).map(|(_, number)| number);
    format!(
        "sync={sync} hwcc bytes={hwcc} lines written back={back} invalidated={invalidated} fences={fences} \
         messages={messages}"
    )
}

fn object(traffic: &Traffic) -> serde_json::Map<String, Json> {
    numbers(traffic).into_iter().map(|(name, number)| (name.to_string(), json!(number))).collect()
}

/// A node of the plan with what it has done.
fn node_json(line: &Line, spent: Spent) -> Json {
    let mut node = object(&spent.traffic);
    node.insert("Node".to_string(), json!(line.text));
    node.insert("Depth".to_string(), json!(line.depth));
    node.insert("Actual Rows".to_string(), json!(spent.rows));
    node.insert("Actual Loops".to_string(), json!(spent.loops));
    Json::Object(node)
}

impl<S: Store> LocalSession<S> {
    /// Shows the plan of a statement, and runs it with ANALYZE.
    pub(super) fn explain(
        &mut self,
        options: &[(String, String)],
        statement: &Statement,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        let options = Options::of(options)?;
        self.ensure_open()?;
        let (types, values) = self.arguments.clone();
        let (plan, _) = self.plan(statement, types)?;
        self.may_run(&plan)?;
        let meter = options.coherence.then(|| Rc::new(Meter::new(&self.store)));
        let mut count = None;
        if options.analyze {
            count = Some(self.rows_of(&plan, &values, meter.clone())?.1);
            meter.iter().for_each(|meter| meter.end(&self.store));
        }
        let shown = plan.explain();
        let spent = |line: &Line| Some(meter.as_ref()?.of(line.node?));
        let text = |line: &Line| match spent(line) {
            Some(Spent { rows, loops, traffic }) => {
                format!("{} (actual rows={rows} loops={loops}) ({})", line.shown(), words(&traffic))
            }
            None => line.shown(),
        };
        let mut lines: Vec<String> = shown.iter().map(text).collect();
        if let Some(meter) = &meter {
            lines.push(format!("Coherence: {}", words(&meter.total())));
        }
        lines.extend(count.map(|count| format!("Rows: {count}")));
        if options.json {
            let mut plan = json!({ "Lines": lines });
            if let Some(meter) = &meter {
                let nodes = shown.iter().filter_map(|line| Some(node_json(line, spent(line)?)));
                plan["Nodes"] = nodes.collect();
                plan["Coherence"] = Json::Object(object(&meter.total()));
            }
            lines = vec![json!([{ "Plan": plan }]).to_string()];
        }
        let rows: Vec<Vec<String>> = lines.into_iter().map(|line| vec![line]).collect();
        self.tell_rows(&[text_column("QUERY PLAN")], &rows, sink)?;
        Ok("EXPLAIN".to_string())
    }
}
