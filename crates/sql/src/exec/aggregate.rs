//! GROUP BY and aggregates.

use super::rows::{RowMap, compare_values, sort};
use super::{Env, Exec, Row};
use crate::error::{Result, SqlError};
use crate::func::{Accumulator, Body};
use crate::missing;
use crate::plan::Node;
use crate::tree::{AggregateCall, Group};
use crate::types::value::Value;

/// An aggregate over the rows of one group so far.
pub(super) struct Running {
    state: Box<dyn Accumulator>,
    /// Rows that wait for their order: (sort values, arguments).
    waiting: Vec<(Row, Row)>,
    seen: Option<RowMap>,
}

impl<'p> Exec<'p> {
    pub(super) fn running(&self, call: &'p AggregateCall) -> Result<Running> {
        let Body::Aggregate(make) = call.head.function.body else {
            let message = format!("aggregate function {}", call.head.function.name);
            return Err(SqlError::unsupported(message, missing::TYPES));
        };
        let state = make(&self.ctx.for_call(&call.head.types, call.head.result))?;
        let seen = (!call.distinct.is_empty()).then(|| RowMap::new(call.distinct.clone()));
        Ok(Running { state, waiting: Vec::new(), seen })
    }

    pub(super) fn add(&self, call: &'p AggregateCall, running: &mut Running, env: &Env<'_>) -> Result<()> {
        if call.filter.is_some() && !self.holds(call.filter.as_ref(), env)? {
            return Ok(());
        }
        if call.order.is_empty() && call.distinct.is_empty() {
            let ctx = self.ctx.for_call(&call.head.types, call.head.result);
            return match call.args.as_slice() {
                [] => running.state.add(&ctx, &[]),
                [one] => running.state.add(&ctx, &[self.eval(one, env)?]),
                all => running.state.add(&ctx, &self.eval_list(all, env)?),
            };
        }
        let args = self.eval_list(&call.args, env)?;
        if running.seen.as_mut().is_some_and(|seen| !seen.number(&args).1) {
            return Ok(());
        }
        let keys = call.order.iter().map(|(expr, _)| self.eval(expr, env)).collect::<Result<Row>>()?;
        running.waiting.push((keys, args));
        Ok(())
    }

    pub(super) fn finish(&self, call: &'p AggregateCall, mut running: Running) -> Result<Value> {
        let ctx = self.ctx.for_call(&call.head.types, call.head.result);
        let keys = || call.order.iter().map(|(_, key)| key);
        if call.order.is_empty() && !call.distinct.is_empty() {
            // DISTINCT gives its values in their order, as PostgreSQL's sorting does.
            let key =
                |ty: &u32| crate::tree::SortKey { column: 0, ty: *ty, descending: false, nulls_first: false };
            let keys: Vec<_> = call.distinct.iter().map(key).collect();
            sort(self.interrupt, &mut running.waiting, |a, b| compare_values(keys.iter(), &a.1, &b.1))?;
        } else {
            sort(self.interrupt, &mut running.waiting, |a, b| compare_values(keys(), &a.0, &b.0))?;
        }
        for (_, args) in &running.waiting {
            self.yield_point()?;
            running.state.add(&ctx, args)?;
        }
        running.state.finish(&ctx)
    }

    /// Rows of `keys | aggregates | which keys are absent`.
    pub(super) fn group(
        &self,
        node: &'p Node,
        group: &'p Group,
        row: &mut Row,
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>> {
        let types: Vec<u32> = group.keys.iter().map(|(_, ty)| *ty).collect();
        let mut maps: Vec<RowMap> = group.sets.iter().map(|_| RowMap::new(types.clone())).collect();
        let mut groups: Vec<Vec<Vec<Running>>> = group.sets.iter().map(|_| Vec::new()).collect();
        let fresh = || group.aggregates.iter().map(|call| self.running(call)).collect::<Result<Vec<_>>>();
        let one = types.is_empty() && group.sets.len() == 1;
        self.run_node(node, row, outer, &mut |row| {
            self.yield_point()?;
            let env = Env { row, outer };
            if one && let [all] = groups[0].as_mut_slice() {
                return group
                    .aggregates
                    .iter()
                    .zip(all)
                    .try_for_each(|(call, it)| self.add(call, it, &env))
                    .map(|()| true);
            }
            let keys = group.keys.iter().map(|(expr, _)| self.eval(expr, &env)).collect::<Result<Row>>()?;
            for (at, set) in group.sets.iter().enumerate() {
                let number = if set.len() == keys.len() {
                    maps[at].number(&keys)
                } else {
                    let part = |(key, value): (usize, &Value)| {
                        if set.contains(&key) { value.clone() } else { Value::Null }
                    };
                    maps[at].number(&keys.iter().enumerate().map(part).collect::<Row>())
                };
                if number.1 {
                    groups[at].push(fresh()?);
                }
                for (call, running) in group.aggregates.iter().zip(&mut groups[at][number.0]) {
                    self.add(call, running, &env)?;
                }
            }
            Ok(true)
        })?;
        let mut rows = Vec::new();
        for ((set, map), states) in group.sets.iter().zip(maps).zip(groups) {
            let absent: i64 =
                (0..types.len()).filter(|key| !set.contains(key)).map(|key| 1i64 << key.min(62)).sum();
            let mut keys = map.into_rows();
            let mut states = states;
            if set.is_empty() && keys.is_empty() {
                keys.push(vec![Value::Null; types.len()]);
                states.push(fresh()?);
            }
            for (mut row, states) in keys.into_iter().zip(states) {
                for (call, running) in group.aggregates.iter().zip(states) {
                    row.push(self.finish(call, running)?);
                }
                row.push(Value::Int8(absent));
                rows.push(row);
            }
        }
        Ok(rows)
    }
}

/// The error of a body that is no window function.
pub(super) fn not_a_window(name: &str) -> SqlError {
    SqlError::unsupported(format_args!("window function {name}"), missing::TYPES)
}
