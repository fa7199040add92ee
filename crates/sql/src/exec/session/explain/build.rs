//! A plan as the nodes that PostgreSQL would name, with their conditions.
//!
//! 1. What a query does behind its FROM (grouping, windows, DISTINCT, sorting, LIMIT) are nodes above it, in
//!    the order in which it is done.
//! 2. A condition is shown once: that of an index or a hash stays in the plan as a predicate too, and is
//!    left out there.

use super::print::{Prop, text};
use super::semi::Semi;
use crate::exec::aggregate::is_ordered;
use crate::exec::measure::{BODY, COMBINED, DISTINCT, GROUPED, SORTED, address};
use crate::exec::rows;
use crate::exec::session::explain::Context;
use crate::exec::system_tables::deparse::direction;
use crate::func::quote_ident;
use crate::parse::ast::SetKind;
use crate::plan::known::{Source, usual_width};
use crate::plan::{Estimate, Node, PlannedStatement};
use crate::tree::{
    Body, BoundStatement, Change, Cte, CteKind, DistinctOn, Expr, From, Names, OutColumn, Query, Select,
    SortKey,
};
use crate::types::Type;
use crate::types::costs::Costs;

/// A node as it is shown.
#[derive(Default)]
pub(super) struct Item {
    /// As tools know it.
    pub(super) kind: &'static str,
    /// As people read it.
    pub(super) title: String,
    /// How it serves the node above.
    pub(super) relation: Option<&'static str>,
    /// What it is a plan of: `CTE x`, `SubPlan 1`.
    pub(super) subplan: Option<String>,
    /// What is a part of the title.
    pub(super) about: Vec<(&'static str, Prop)>,
    /// Conditions and keys.
    pub(super) details: Vec<(&'static str, Prop)>,
    pub(super) rows: f64,
    pub(super) width: usize,
    pub(super) startup: f64,
    pub(super) cost: f64,
    /// By what it is measured, and which of its counts; of a query or of a node of a plan.
    pub(super) measured: Option<(usize, usize)>,
    /// It is a node of the plan, and not a part of a query.
    pub(super) own: bool,
    /// By what it is noted how it sorts or hashes.
    pub(super) noted: Option<usize>,
    /// The nodes whose conditions drop rows.
    pub(super) dropping: Vec<(usize, usize)>,
    pub(super) children: Vec<Item>,
}

/// Makes items of a plan.
pub(super) struct Builder<'a> {
    pub(super) context: &'a Context<'a>,
    /// The levels around, the innermost last.
    pub(super) levels: Vec<(&'a Names, Option<&'a Select>)>,
    /// What the nodes of these levels read.
    pub(super) sources_of: Vec<Vec<Source>>,
    /// WITH queries by number: their names.
    pub(super) ctes: Vec<(usize, String)>,
    /// Equalities that nodes further down have shown.
    pub(super) shown: Vec<(&'a Expr, &'a Expr)>,
    /// Queries within expressions, by cache or address, and what they are called.
    pub(super) plans: Vec<(usize, String)>,
    pub(super) subplans: usize,
    /// The slot of the table whose conditions are shown.
    pub(super) own: Option<usize>,
    /// Recursive queries whose second part is shown.
    pub(super) recursing: Vec<usize>,
    /// How many tables, functions and queries have been read.
    pub(super) sources: usize,
    /// Conditions of the node at hand that are joins above it.
    pub(super) semis: Vec<Semi<'a>>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(context: &'a Context<'a>) -> Builder<'a> {
        let (levels, ctes, shown, plans) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (own, recursing, semis) = (None, Vec::new(), Vec::new());
        let (sources_of, subplans, sources) = (Vec::new(), 0, 0);
        Builder { context, levels, sources_of, ctes, shown, plans, own, recursing, semis, subplans, sources }
    }

    pub(super) fn statement(&mut self, plan: &'a PlannedStatement) -> Item {
        match &plan.statement {
            BoundStatement::Query(query) => self.query(query),
            BoundStatement::Change(change) => self.change(change),
        }
    }

    fn change(&mut self, change: &'a Change) -> Item {
        let (verb, ctes, names, from, source) = match change {
            Change::Insert(insert) => ("Insert", &insert.ctes, None, None, insert.source.as_ref()),
            Change::Update(it) => ("Update", &it.ctes, Some(&it.names), Some(&it.from), None),
            Change::Delete(it) => ("Delete", &it.ctes, Some(&it.names), Some(&it.from), None),
            Change::Merge(it) => ("Merge", &it.ctes, Some(&it.names), Some(&it.from), None),
        };
        let with = self.with(ctes);
        let table = &change.target().table;
        let alias = names.and_then(|names| names.entries.first()).map_or(&table.name, |entry| &entry.name);
        let mut below = match (from, source) {
            (Some(From::Planned(node)), _) => {
                self.levels.extend(names.map(|names| (names, None)));
                let item = self.level(node);
                self.levels.pop();
                item
            }
            (_, Some(query)) => self.query(query),
            _ => self.result(),
        };
        below.relation = Some("Outer");
        let mut item = Item {
            kind: "ModifyTable",
            title: format!("{verb} on {}", self.relation(table.oid, &table.name, alias)),
            about: vec![("Operation", text(verb))],
            cost: below.cost,
            startup: below.startup,
            ..Item::default()
        };
        item.about.extend(self.named(table.oid, &table.name, alias));
        if let Change::Insert(insert) = change
            && let Some(conflict) = &insert.conflict
        {
            let what = if conflict.update.is_some() { "UPDATE" } else { "NOTHING" };
            item.details.push(("Conflict Resolution", text(what)));
            let index = conflict.index.and_then(|oid| self.context.store.object(oid));
            if let Some(index) = index {
                item.details.push(("Conflict Arbiter Indexes", Prop::List(vec![index.name().to_string()])));
            }
        }
        item.children = vec![below];
        item.children.splice(0..0, with);
        item
    }

    /// WITH queries, as plans that the node above everything has.
    fn with(&mut self, ctes: &'a [Cte]) -> Vec<Item> {
        let mut items = Vec::new();
        for cte in ctes {
            let mut item = match &cte.kind {
                CteKind::Query(query) => self.query(query),
                CteKind::Change(change) => self.change(change),
                CteKind::Recursive { base, step, .. } => {
                    let first = self.query(base);
                    self.ctes.push((cte.id, cte.name.clone()));
                    let estimate = self.context.estimator.query(base);
                    self.context.estimator.add_opaque_cte(cte.id, estimate, base.columns.len());
                    self.recursing.push(cte.id);
                    let second = self.query(step);
                    self.recursing.pop();
                    let (estimate, _) = self.context.estimator.recursive(base, step);
                    self.context.estimator.add_opaque_cte(cte.id, estimate, base.columns.len());
                    let (rows, cost) = (estimate.rows, estimate.total);
                    let (width, startup) = (first.width, first.startup);
                    let children = vec![
                        Item { relation: Some("Outer"), ..first },
                        Item { relation: Some("Inner"), ..second },
                    ];
                    let (kind, title) = ("Recursive Union", "Recursive Union".to_string());
                    Item { kind, title, rows, width, startup, cost, children, ..Item::default() }
                }
            };
            item.relation = Some("InitPlan");
            item.subplan = Some(format!("CTE {}", cte.name));
            if let CteKind::Query(query) = &cte.kind {
                self.context.estimator.add_cte(cte.id, query);
            }
            self.ctes.push((cte.id, cte.name.clone()));
            items.push(item);
        }
        items
    }

    pub(super) fn costs(&self) -> &'a Costs {
        self.context.estimator.costs
    }

    /// The nodes of a level.
    pub(super) fn level(&mut self, node: &'a Node) -> Item {
        self.sources_of.push(self.context.estimator.sources(node));
        let item = self.node(node);
        self.sources_of.pop();
        item
    }

    pub(super) fn result(&self) -> Item {
        let (kind, title) = ("Result", "Result".to_string());
        Item { kind, title, rows: 1.0, width: 0, cost: self.costs().row, ..Item::default() }
    }

    /// A node over another one.
    pub(super) fn over(&self, kind: &'static str, title: &str, below: Item) -> Item {
        let below = Item { relation: Some("Outer"), ..below };
        Item {
            kind,
            title: title.to_string(),
            rows: below.rows,
            width: below.width,
            startup: below.startup,
            cost: below.cost + below.rows * self.costs().operator,
            measured: below.measured,
            children: vec![below],
            ..Item::default()
        }
    }

    /// A query with all that it does.
    pub(super) fn query(&mut self, query: &'a Query) -> Item {
        let around = self.own.take();
        let item = self.whole_query(query);
        self.own = around;
        item
    }

    fn whole_query(&mut self, query: &'a Query) -> Item {
        let with = self.with(&query.ctes);
        let of_query = |count: usize| Some((address(query), count));
        let mut item = match &query.body {
            Body::Select(select) => {
                self.levels.push((&select.names, Some(&**select)));
                let item = self.select(query, select);
                self.levels.pop();
                item
            }
            Body::Values(rows) => {
                let (kind, title) = match rows.len() {
                    1 => ("Result", "Result".to_string()),
                    _ => ("Values Scan", "Values Scan on \"*VALUES*\"".to_string()),
                };
                let about = if rows.len() == 1 { vec![] } else { vec![("Alias", text("*VALUES*"))] };
                let (rows, width) = (rows.len() as f64, width_of(query));
                Item { kind, title, about, rows, width, cost: rows * self.costs().row, ..Item::default() }
            }
            Body::Set { kind, all, left, right, .. } => {
                let mut item = self.set(*kind, *all, left, right);
                item.noted = (item.kind == "Aggregate").then(|| address(query) + COMBINED);
                item
            }
        };
        item.width = width_of(query);
        if !rows::order_of(query).is_empty() {
            let distinct =
                matches!(&query.body, Body::Select(select) if matches!(select.distinct, DistinctOn::Rows(_)));
            let keys = self.sort_keys(query);
            let (rows, cost) = (item.rows, item.cost);
            let sorting = self.context.estimator.sorting(rows);
            item = self.over("Sort", "Sort", item);
            item.measured = of_query(if distinct { DISTINCT } else { BODY });
            item.details.push(("Sort Key", Prop::List(keys)));
            item.noted = Some(address(query) + SORTED);
            (item.startup, item.cost) = (cost + sorting, cost + sorting + rows * self.costs().operator);
        }
        if let Body::Select(select) = &query.body {
            if let DistinctOn::Columns(_) = &select.distinct {
                item = self.over("Unique", "Unique", item);
                item.rows = (item.rows / 2.0).max(1.0);
            }
            if !select.locks.is_empty() {
                item = self.over("LockRows", "LockRows", item);
            }
        }
        if query.limit.is_some() || query.offset.is_some() {
            let (rows, width) = (item.rows, item.width as f64);
            let all = Estimate { rows, width, startup: item.startup, total: item.cost };
            let some = self.context.estimator.limited(query, all);
            item = self.over("Limit", "Limit", item);
            (item.rows, item.startup, item.cost) = (some.rows, some.startup, some.total);
        }
        // The topmost is what the query gives.
        if !item.own {
            item.measured = of_query(0);
        }
        item.children.splice(0..0, with);
        item
    }

    fn select(&mut self, query: &'a Query, select: &'a Select) -> Item {
        let of_query = |count: usize| Some((address(query), count));
        let mut item = match &select.from {
            From::Planned(node) => self.level(node),
            _ => self.result(),
        };
        let groups = self.groups(select, item.rows);
        if let Some(group) = &select.group {
            let shown = |at: &usize| self.shown_expr(&group.keys[*at].0, group.keys[*at].1);
            let lists: Vec<Vec<String>> =
                group.sets.iter().map(|set| set.iter().map(shown).collect()).collect();
            let is_sorted = group.aggregates.iter().any(is_ordered);
            let (kind, strategy) = match group.keys.is_empty() {
                true => ("Aggregate", "Plain"),
                false if is_sorted => ("GroupAggregate", "Sorted"),
                false if group.sets.iter().any(Vec::is_empty) => ("MixedAggregate", "Mixed"),
                false => ("HashAggregate", "Hashed"),
            };
            if kind == "GroupAggregate" {
                item = self.over("Sort", "Sort", item);
                item.details.push(("Sort Key", Prop::List(lists[0].clone())));
                item.noted = Some(address(group) + SORTED);
                item.startup = item.cost;
            }
            let work = (group.keys.len() + group.aggregates.len()) as f64 * self.costs().operator;
            let work = item.rows * work * group.sets.len() as f64;
            item = self.over("Aggregate", kind, item);
            item.cost = item.children[0].cost + work;
            item.about = vec![("Strategy", text(strategy)), ("Partial Mode", text("Simple"))];
            let named = |keys: Vec<String>| match keys.is_empty() {
                true => vec![("Group Keys", Prop::List(vec!["()".to_string()]))],
                false => vec![("Hash Keys", Prop::List(keys))],
            };
            if lists.len() > 1 {
                let sets = lists.into_iter().map(named).collect();
                item.details.push(("Grouping Sets", Prop::Groups("Grouping Set", sets)));
            } else {
                let keys = lists.into_iter().filter(|keys| !keys.is_empty());
                item.details.extend(keys.map(|keys| ("Group Key", Prop::List(keys))));
            }
            item.rows = groups;
            item.startup = item.cost;
            item.cost += item.rows * self.costs().row;
            if select.having.is_some() {
                item.rows = (item.rows / 3.0).max(1.0);
            }
            item.measured = of_query(GROUPED);
            item.noted = matches!(strategy, "Hashed" | "Mixed").then(|| address(query) + GROUPED);
            self.condition(&mut item, "Filter", select.having.as_ref(), true);
        }
        let mut sorted = None;
        for call in &select.windows {
            let by = Some((&call.partition, &call.order));
            if sorted == by {
                continue;
            }
            sorted = by;
            let partition = call.partition.iter().map(|(expr, ty)| self.output_expr(expr, *ty));
            let order = call
                .order
                .iter()
                .map(|(expr, key)| format!("{}{}", self.output_expr(expr, key.ty), direction(key)));
            let keys: Vec<String> = partition.chain(order).collect();
            if !keys.is_empty() {
                item = self.over("Sort", "Sort", item);
                item.details.push(("Sort Key", Prop::List(keys)));
                item.noted = Some(address(call) + SORTED);
                item.startup = item.cost;
            }
            item = self.over("WindowAgg", "WindowAgg", item);
            item.measured = of_query(BODY);
        }
        if !select.sets.is_empty() {
            item = self.over("ProjectSet", "ProjectSet", item);
            item.rows *= 10.0;
            item.measured = of_query(BODY);
        }
        if let DistinctOn::Rows(_) = &select.distinct {
            let visible = query.columns.iter().zip(&select.targets);
            let keys = visible.map(|(column, target)| self.output_expr(target, column.ty.oid)).collect();
            item = self.over("Aggregate", "HashAggregate", item);
            item.about = vec![("Strategy", text("Hashed")), ("Partial Mode", text("Simple"))];
            item.details.push(("Group Key", Prop::List(keys)));
            item.rows = self.distinct(query, select, item.rows);
            item.startup = item.cost;
            item.measured = of_query(DISTINCT);
            item.noted = Some(address(query) + DISTINCT);
        }
        let targets: Vec<&'a Expr> = select.targets.iter().collect();
        self.subplans(&mut item, &targets);
        if self.context.verbose {
            let visible = query.columns.iter().zip(&select.targets);
            let list = visible.map(|(column, target)| self.output_expr(target, column.ty.oid)).collect();
            item.details.insert(0, ("Output", Prop::List(list)));
        }
        item
    }

    fn set(&mut self, kind: SetKind, all: bool, left: &'a Query, right: &'a Query) -> Item {
        let mut parts = Vec::new();
        for side in [left, right] {
            let mut part = self.query(side);
            // Chains of one kind are one list.
            let flat = kind == SetKind::Union && part.kind == "Append" && part.subplan.is_none();
            match flat {
                true => parts.append(&mut part.children),
                false => parts.push(Item { relation: Some("Member"), ..part }),
            }
        }
        let (rows, cost): (f64, f64) = parts.iter().fold((0.0, 0.0), |(r, c), p| (r + p.rows, c + p.cost));
        let width = parts.first().map_or(0, |part| part.width);
        let append = Item {
            kind: "Append",
            title: "Append".to_string(),
            rows,
            width,
            cost: cost + rows * self.costs().row / 2.0,
            children: parts,
            ..Item::default()
        };
        match (kind, all) {
            (SetKind::Union, true) => append,
            (SetKind::Union, false) => {
                let mut item = self.over("Aggregate", "HashAggregate", append);
                item.about = vec![("Strategy", text("Hashed")), ("Partial Mode", text("Simple"))];
                let keys = self.columns_of(left);
                item.details.push(("Group Key", Prop::List(keys)));
                item.startup = item.cost;
                item
            }
            (kind, all) => {
                let word = if kind == SetKind::Intersect { "Intersect" } else { "Except" };
                let command = if all { format!("{word} All") } else { word.to_string() };
                let mut item = self.over("SetOp", &format!("HashSetOp {command}"), append);
                item.about = vec![("Strategy", text("Hashed")), ("Command", text(command))];
                item.rows = (item.rows / 2.0).max(1.0);
                item.startup = item.cost;
                item
            }
        }
    }

    /// How many of so many rows of a level differ.
    fn distinct(&self, query: &Query, select: &Select, rows: f64) -> f64 {
        let estimator = &self.context.estimator;
        match &select.from {
            From::Planned(node) if select.group.is_none() => {
                let keys: Vec<&Expr> = select.targets.iter().take(query.columns.len()).collect();
                estimator.groups(&estimator.sources(node), rows, &keys)
            }
            _ => rows.max(1.0),
        }
    }

    /// How many groups so many rows of a level make.
    fn groups(&self, select: &Select, rows: f64) -> f64 {
        let estimator = &self.context.estimator;
        let From::Planned(node) = &select.from else { return 1.0 };
        estimator.grouped(&estimator.sources(node), rows, select)
    }

    /// What the columns of a set operation are in its first part.
    fn columns_of(&self, query: &'a Query) -> Vec<String> {
        match &query.body {
            Body::Set { left, .. } => self.columns_of(left),
            Body::Values(_) => query.columns.iter().map(|column| quote_ident(&column.name)).collect(),
            Body::Select(select) => {
                let mut levels = self.levels.clone();
                levels.push((&select.names, Some(&**select)));
                let shown = |(column, target): (&OutColumn, &Expr)| {
                    let shown = self.context.shown(&levels, target, column.ty, (true, &self.plans), None);
                    shown.unwrap_or_else(|| quote_ident(&column.name))
                };
                query.columns.iter().zip(&select.targets).map(shown).collect()
            }
        }
    }

    fn sort_keys(&self, query: &'a Query) -> Vec<String> {
        let key = |key: &SortKey| {
            let name = match &query.body {
                Body::Select(select) => {
                    // The level is no longer in sight.
                    let mut levels = self.levels.clone();
                    levels.push((&select.names, Some(&**select)));
                    let ty = Type::of(key.ty);
                    self.context.shown(&levels, &select.targets[key.column], ty, (true, &self.plans), None)
                }
                _ => Some(
                    query.columns.get(key.column).map_or(String::new(), |column| quote_ident(&column.name)),
                ),
            };
            let name = name.unwrap_or_else(|| format!("column{}", key.column + 1));
            // What is computed below stands in parentheses.
            let computed = match &query.body {
                Body::Select(select) => !is_column(select, &select.targets[key.column]),
                _ => false,
            };
            format!("{}{}", if computed { format!("({name})") } else { name }, direction(key))
        };
        rows::order_of(query).iter().map(key).collect()
    }
}

/// Bytes of a query's row.
fn width_of(query: &Query) -> usize {
    query.columns.iter().map(|column| usual_width(column.ty.oid)).sum::<f64>() as usize
}

/// Whether a target is a column of the tables of its level.
fn is_column(select: &Select, target: &Expr) -> bool {
    let Expr::Column { depth: 0, slot } = target else { return false };
    match &select.group {
        Some(group) => group.keys.get(*slot).is_some_and(|(key, _)| matches!(key, Expr::Column { .. })),
        None => *slot < select.slots,
    }
}
