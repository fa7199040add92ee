//! EXPLAIN, and what its options mean.
//!
//! * `build`: statements and queries as nodes with PostgreSQL's names; `nodes`, `scans`: those of a FROM;
//!   `conditions`: what they test; `notes`: how they sort and hash; `semi`: those that are joins. `print`:
//!   formats that programs read; `slow`: plans that are told without being asked for. Rows, widths and costs
//!   are the planner's (plan/cost.rs).
//!
//! 1. Conditions and keys are printed by the same way as definitions (system_tables/deparse).
//! 2. What ANALYZE shows was counted: rows and loops by node, rows that a condition dropped, and times by a
//!    clock that is looked at whenever control passes between nodes. What a query does behind its FROM has
//!    one time, that of the query. Nodes that nothing counts show no actual figures.
//! 3. `COHERENCE` is Liger's own: what each node does to shared memory. BUFFERS shows temporary files, of the
//!    whole statement; WAL counts nothing, and shows nothing; there are no settings that a plan depends on.

mod build;
mod conditions;
mod nodes;
mod notes;
mod print;
mod scans;
mod semi;
pub(super) mod slow;

use std::rc::Rc;

use build::{Builder, Item};
use print::{Format, Group, Prop, document, number, text};

use crate::error::{Result, SqlError, SqlState};
use crate::exec::measure::{Meter, Spent};
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::exec::system::{SessionSystem, text_column};
use crate::exec::system_tables::deparse::{Style, Writer};
use crate::parse::ast::Statement;
use crate::plan::{Estimator, PlannedStatement};
use crate::session::Sink;
use crate::storage::access::Traffic;
use crate::tree::{Expr, Names, Select};
use crate::types::context::EvalContext;
use crate::types::{Type, oid};

/// What was asked for.
#[derive(Default)]
struct Options {
    analyze: bool,
    verbose: bool,
    costs: bool,
    timing: bool,
    summary: bool,
    coherence: bool,
    buffers: bool,
    format: Format,
}

impl Options {
    fn of(options: &[(String, String)]) -> Result<Options> {
        let mut read = Options { costs: true, ..Options::default() };
        let (mut timing, mut summary, mut need) = (None, None, Vec::new());
        for (name, value) in options {
            let name = name.to_ascii_lowercase();
            if name == "format" {
                read.format = match value.to_ascii_lowercase().as_str() {
                    "text" => Format::Text,
                    "json" => Format::Json,
                    "xml" => Format::Xml,
                    "yaml" => Format::Yaml,
                    _ => {
                        let message =
                            format!("unrecognized value for EXPLAIN option \"format\": \"{value}\"");
                        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
                    }
                };
                continue;
            }
            let known = [
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
            if !known.contains(&name.as_str()) {
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
                "verbose" => read.verbose = on,
                "costs" => read.costs = on,
                "timing" => timing = Some(on),
                "summary" => summary = Some(on),
                "coherence" => read.coherence = on,
                "buffers" => read.buffers = on,
                _ => {}
            }
            if on && matches!(name.as_str(), "wal" | "timing" | "coherence") {
                need.push(name.to_ascii_uppercase());
            }
        }
        read.timing = timing.unwrap_or(read.analyze);
        read.summary = summary.unwrap_or(read.analyze);
        match need.first().filter(|_| !read.analyze) {
            Some(name) => {
                let message = format!("EXPLAIN option {name} requires ANALYZE");
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
            None => Ok(read),
        }
    }
}

/// What a plan is shown with.
pub(super) struct Context<'a> {
    system: &'a SessionSystem<'a>,
    ctx: EvalContext<'a>,
    store: &'a dyn Store,
    estimator: Estimator<'a>,
    verbose: bool,
    /// Columns stand without their table: there is only one.
    bare: bool,
}

impl Context<'_> {
    /// An expression on these levels, of which the names in `plans` are queries by their address.
    fn shown(
        &self,
        levels: &[(&Names, Option<&Select>)],
        expr: &Expr,
        ty: Type,
        (output, plans): (bool, &[(usize, String)]),
        own: Option<usize>,
    ) -> Option<String> {
        // VERBOSE shows whose columns those of conditions are.
        let (bare, own) = match self.verbose && !output {
            true => (false, None),
            false => (self.bare, own),
        };
        let style = Style { pretty: false, lines: false, wrap: 0 };
        let mut writer = Writer::new(self.system, self.ctx, style).with_plans(plans).of_table(own);
        for (names, select) in levels {
            writer = writer.over(names, *select, bare);
        }
        writer.output(output).alone(expr, ty, true)
    }
}

fn numbers(traffic: &Traffic) -> [(&'static str, u64); 7] {
    let counts = traffic.counts;
    let sync = counts.sync_loads + counts.sync_stores + counts.sync_swaps;
    [
        ("Sync Operations", sync),
        ("HWcc Bytes", 8 * sync),
        ("Lines Written Back", counts.lines_written_back),
        ("Lines Invalidated", counts.lines_invalidated),
        ("Fences", counts.fences),
        ("Messages", traffic.requests),
        ("Message Waits", traffic.waits),
    ]
}

fn words(traffic: &Traffic) -> String {
    let [sync, hwcc, back, invalidated, fences, messages, waits] = numbers(traffic).map(|(_, number)| number);
    format!(
        "sync={sync} hwcc bytes={hwcc} lines written back={back} invalidated={invalidated} fences={fences} \
         messages={messages} waits={waits}"
    )
}

fn group(traffic: &Traffic) -> Group {
    numbers(traffic).into_iter().map(|(name, count)| (name, number(count))).collect()
}

/// What has been measured, for those who show it.
struct Shown<'a> {
    options: &'a Options,
    meter: Option<&'a Meter>,
}

fn milliseconds(us: f64) -> String {
    format!("{:.3}", us / 1000.0)
}

impl Shown<'_> {
    fn spent(&self, item: &Item) -> Option<Spent> {
        Some(self.meter?.of(item.measured?))
    }

    /// Microseconds with those of all below it, for one loop: until its first row, and to its end.
    fn times(spent: &Spent) -> (f64, f64) {
        let loops = spent.loops.max(1) as f64;
        let first = if spent.rows > 0 { spent.first_us } else { spent.total_us };
        (first as f64 / loops, spent.total_us as f64 / loops)
    }

    fn removed(&self, item: &Item, spent: &Spent) -> Option<(&'static str, u64)> {
        let is_join = item.details.iter().any(|(name, _)| *name == "Join Filter");
        let name = if is_join { "Rows Removed by Join Filter" } else { "Rows Removed by Filter" };
        let meter = self.meter?;
        let own: u64 = item.dropping.iter().map(|node| meter.of(*node).removed).sum();
        (!item.dropping.is_empty() && own > 0).then(|| (name, own / spent.loops.max(1)))
    }

    fn title(&self, item: &Item) -> String {
        let mut line = item.title.clone();
        if self.options.costs {
            let (startup, cost) = (item.startup, item.cost.max(item.startup));
            let rows = if item.kind == "ModifyTable" { 0.0 } else { item.rows.max(1.0).round() };
            line += &format!("  (cost={startup:.2}..{cost:.2} rows={rows:.0} width={})", item.width);
        }
        let Some(spent) = self.spent(item).filter(|_| self.options.analyze) else { return line };
        if spent.loops == 0 {
            return line + " (never executed)";
        }
        let rows = spent.rows / spent.loops;
        let time = match self.options.timing {
            true => {
                let (first, total) = Self::times(&spent);
                format!("time={}..{} ", milliseconds(first), milliseconds(total))
            }
            false => String::new(),
        };
        line += &format!(" (actual {time}rows={rows} loops={})", spent.loops);
        match self.options.coherence && item.own {
            true => format!("{line} ({})", words(&spent.traffic)),
            false => line,
        }
    }

    fn lines(&self, item: &Item, indent: usize, lines: &mut Vec<String>) {
        let blanks = |indent: usize| "  ".repeat(indent);
        let mut indent = indent;
        if let Some(name) = &item.subplan {
            lines.push(format!("{}{name}", blanks(indent)));
            indent += 1;
        }
        let arrow = if indent > 0 { "->  " } else { "" };
        lines.push(format!("{}{arrow}{}", blanks(indent), self.title(item)));
        indent += if indent > 0 { 3 } else { 1 };
        let details = blanks(indent);
        for (name, prop) in &item.details {
            match prop {
                Prop::List(list) => lines.push(format!("{details}{name}: {}", list.join(", "))),
                Prop::Text(text) => lines.push(format!("{details}{name}: {text}")),
                Prop::Groups(_, groups) => {
                    for (name, prop) in groups.iter().flatten() {
                        let Prop::List(list) = prop else { continue };
                        lines.push(format!("{details}{}: {}", name.trim_end_matches('s'), list.join(", ")));
                    }
                }
                _ => {}
            }
        }
        lines.extend(notes::line(item, self.meter).map(|line| format!("{details}{line}")));
        if let Some(spent) = self.spent(item).filter(|spent| spent.loops > 0)
            && let Some((name, rows)) = self.removed(item, &spent)
        {
            lines.push(format!("{details}{name}: {rows}"));
        }
        for child in &item.children {
            self.lines(child, indent, lines);
        }
    }

    fn group(&self, item: &Item) -> Group {
        let mut group = vec![("Node Type", text(item.kind))];
        group.extend(item.about.iter().filter(|(name, _)| before_parent(name)).cloned());
        group.extend(item.relation.map(|relation| ("Parent Relationship", text(relation))));
        group.extend(item.subplan.as_ref().map(|name| ("Subplan Name", text(name.as_str()))));
        group.push(("Parallel Aware", Prop::Bool(false)));
        group.push(("Async Capable", Prop::Bool(false)));
        group.extend(item.about.iter().filter(|(name, _)| !before_parent(name)).cloned());
        if self.options.costs {
            let rows = if item.kind == "ModifyTable" { 0.0 } else { item.rows.max(1.0).round() };
            group.push(("Startup Cost", number(format!("{:.2}", item.startup))));
            group.push(("Total Cost", number(format!("{:.2}", item.cost.max(item.startup)))));
            group.push(("Plan Rows", number(rows)));
            group.push(("Plan Width", number(item.width)));
        }
        let spent = self.spent(item).filter(|_| self.options.analyze);
        if let Some(spent) = spent {
            if self.options.timing {
                let (first, total) = Self::times(&spent);
                group.push(("Actual Startup Time", number(milliseconds(first))));
                group.push(("Actual Total Time", number(milliseconds(total))));
            }
            group.push(("Actual Rows", number(spent.rows / spent.loops.max(1))));
            group.push(("Actual Loops", number(spent.loops)));
        }
        group.extend(item.details.iter().cloned());
        group.extend(notes::group(item, self.meter));
        if let Some(spent) = spent {
            group.extend(self.removed(item, &spent).map(|(name, rows)| (name, number(rows))));
            if self.options.coherence && item.own {
                group.extend(self::group(&spent.traffic));
            }
        }
        if !item.children.is_empty() {
            let children = item.children.iter().map(|child| self.group(child)).collect();
            group.push(("Plans", Prop::Groups("Plan", children)));
        }
        group
    }
}

/// Properties that stand before those of a node's place.
fn before_parent(name: &str) -> bool {
    matches!(name, "Strategy" | "Partial Mode" | "Operation" | "Command")
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
        let statement = match statement {
            Statement::CreateTableAs { query, .. } if !options.analyze => query,
            Statement::Refresh { .. } if options.format == Format::Text => {
                let line = "Utility statements have no plan structure".to_string();
                self.tell_rows(&[text_column("QUERY PLAN")], &[vec![line]], sink)?;
                return Ok("EXPLAIN".to_string());
            }
            other => other,
        };
        let (types, values) = self.arguments.clone();
        let begun = self.shared.surroundings.clock_us();
        let (plan, _) = self.plan(statement, types)?;
        self.may_run(&plan)?;
        let planned = self.shared.surroundings.clock_us();
        let (mut meter, before) = (None, self.shared.temporary.traffic());
        if options.analyze {
            let new = Rc::new(Meter::new(&self.store, options.timing));
            self.run_into(&plan, &values, Some(new.clone()), &mut |_| Ok(true))?;
            new.end(&self.store);
            meter = Some(new);
        }
        let ended = self.shared.surroundings.clock_us();
        let times = [planned - begun, ended - planned];
        let after = self.shared.temporary.traffic();
        let pages = notes::pages([after[0] - before[0], after[1] - before[1]]);
        let pages = (options.buffers && options.analyze).then_some(pages);
        let lines = self.explained(&plan, &options, (meter.as_deref(), pages), times)?;
        let ty = match options.format {
            Format::Json => oid::JSON,
            // There is no type xml.
            _ => oid::TEXT,
        };
        let mut column = text_column("QUERY PLAN");
        column.ty = Type::of(ty);
        let rows: Vec<Vec<String>> = lines.into_iter().map(|line| vec![line]).collect();
        self.tell_rows(&[column], &rows, sink)?;
        Ok("EXPLAIN".to_string())
    }

    /// A plan as nodes with PostgreSQL's names.
    fn item(&self, plan: &PlannedStatement, options: &Options) -> Result<Item> {
        self.with_system(|ctx, system| {
            let verbose = options.verbose;
            let built = |bare| {
                let mut estimator = Estimator::new(&self.store, ctx);
                estimator.counts = true;
                let context = Context { system, ctx, store: &self.store, estimator, verbose, bare };
                let mut builder = Builder::new(&context);
                let item = builder.statement(plan);
                (item, builder.sources)
            };
            // Columns of the only table stand without its name.
            Ok(match built(false) {
                (_, 0 | 1) => built(true).0,
                (item, _) => item,
            })
        })
    }

    /// A plan as properties.
    fn group_of(&self, plan: &PlannedStatement, options: &Options, meter: Option<&Meter>) -> Result<Group> {
        let item = self.item(plan, options)?;
        Ok(vec![("Plan", Prop::Group(Shown { options, meter }.group(&item)))])
    }

    /// The rows of the answer.
    fn explained(
        &self,
        plan: &PlannedStatement,
        options: &Options,
        (meter, pages): (Option<&Meter>, Option<[u64; 2]>),
        [planning, execution]: [i64; 2],
    ) -> Result<Vec<String>> {
        let item = self.item(plan, options)?;
        let shown = Shown { options, meter };
        let coherence = meter.filter(|_| options.coherence).map(Meter::total);
        let times = [
            ("Planning Time", planning, options.summary),
            ("Execution Time", execution, options.summary && options.analyze),
        ];
        if options.format == Format::Text {
            let mut lines = Vec::new();
            shown.lines(&item, 0, &mut lines);
            if let Some([read, written]) = pages.filter(|pages| *pages != [0, 0]) {
                // As PostgreSQL has it: with the topmost node, whose figures are those of all.
                let at = lines.iter().position(|line| line.contains("->")).unwrap_or(lines.len());
                lines.insert(at, format!("  Buffers: temp read={read} written={written}"));
            }
            lines.extend(coherence.map(|traffic| format!("Coherence: {}", words(&traffic))));
            for (name, us, _) in times.into_iter().filter(|(.., wanted)| *wanted) {
                lines.push(format!("{name}: {} ms", milliseconds(us as f64)));
            }
            return Ok(lines);
        }
        let mut plan = shown.group(&item);
        if let Some([read, written]) = pages {
            let at = plan.iter().position(|(name, _)| *name == "Plans").unwrap_or(plan.len());
            let pages = [("Temp Read Blocks", number(read)), ("Temp Written Blocks", number(written))];
            plan.splice(at..at, pages);
        }
        let mut query: Group = vec![("Plan", Prop::Group(plan))];
        query.extend(coherence.map(|traffic| ("Coherence", Prop::Group(group(&traffic)))));
        for (name, us, wanted) in times {
            query.extend(wanted.then(|| (name, number(milliseconds(us as f64)))));
            if name == "Planning Time" && options.analyze {
                query.push(("Triggers", Prop::Groups("Trigger", Vec::new())));
            }
        }
        Ok(vec![document(options.format, &query)])
    }
}
