//! Plans of statements that took long, for whoever runs the server: what `auto_explain` tells in PostgreSQL.
//!
//! 1. A statement is measured from where it runs to its last row; what fails is not told.
//! 2. With `auto_explain.log_analyze` all statements are measured node by node, slow or not.

use std::rc::Rc;

use super::print::{Format, Group, alone, text};
use super::{Options, milliseconds};
use crate::error::{Result, Severity, SqlError, SqlState};
use crate::exec::measure::Meter;
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::plan::PlannedStatement;

/// A statement that may turn out to be slow.
pub(in crate::exec::session) struct Watch {
    least_ms: u64,
    begun_us: i64,
    pub(in crate::exec::session) meter: Option<Rc<Meter>>,
}

impl<S: Store> LocalSession<S> {
    /// Notes the text of a statement that is watched.
    pub(in crate::exec::session) fn note_text(&mut self, sql: &str) {
        if self.shared.variables.borrow().explain_after_ms.is_some() {
            self.text = sql.trim_end_matches(';').into();
        }
    }

    /// Begins to watch a statement, if slow ones are told of.
    pub(in crate::exec::session) fn watch(&self) -> Option<Watch> {
        let variables = self.shared.variables.borrow();
        let least_ms = variables.explain_after_ms?;
        let is = |name: &str| variables.get(name).is_ok_and(|value| value == "on");
        let timed = is("auto_explain.log_timing");
        let meter = is("auto_explain.log_analyze").then(|| Rc::new(Meter::new(&self.store, timed)));
        Some(Watch { least_ms, begun_us: self.shared.surroundings.clock_us(), meter })
    }

    /// It has ended.
    pub(in crate::exec::session) fn watched(&self, watch: Watch, plan: &PlannedStatement) -> Result<()> {
        let took_us = self.shared.surroundings.clock_us() - watch.begun_us;
        if let Some(meter) = &watch.meter {
            meter.end(&self.store);
        }
        if took_us.max(0).cast_unsigned() < watch.least_ms.saturating_mul(1000) {
            return Ok(());
        }
        let (options, query) = (self.slow_options()?, [("Query Text", text(&*self.text))]);
        let shown = match options.format {
            Format::Text => {
                let lines = self.explained(plan, &options, (watch.meter.as_deref(), None), [0, 0])?;
                format!("Query Text: {}\n{}", self.text, lines.join("\n"))
            }
            format => {
                let group: Group =
                    query.into_iter().chain(self.group_of(plan, &options, watch.meter.as_deref())?).collect();
                alone(format, &group)
            }
        };
        let message = format!("duration: {} ms  plan:\n{shown}", milliseconds(took_us as f64));
        self.tell(SqlError::notice(Severity::Log, SqlState::SUCCESSFUL_COMPLETION, message));
        Ok(())
    }

    fn slow_options(&self) -> Result<Options> {
        let variables = self.shared.variables.borrow();
        let value = |name: &str| variables.get(name).map(str::to_owned);
        let mut given = vec![("format".to_owned(), value("auto_explain.log_format")?)];
        let analyze = value("auto_explain.log_analyze")?;
        if analyze == "on" {
            given.push(("timing".to_owned(), value("auto_explain.log_timing")?));
        }
        given.push(("analyze".to_owned(), analyze));
        given.push(("verbose".to_owned(), value("auto_explain.log_verbose")?));
        given.push(("summary".to_owned(), "off".to_owned()));
        Options::of(&given)
    }
}
