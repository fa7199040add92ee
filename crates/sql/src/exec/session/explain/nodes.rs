//! The nodes of a FROM: joins, and what is read that is no table.

use super::build::{Builder, Item};
use super::print::{Prop, text};
use crate::exec::measure::{TABLE, address};
use crate::func::quote_ident;
use crate::plan::{HashKind, Node};
use crate::tree::{Body, Expr, Query, SetCall};
use crate::types::Oid;

impl<'a> Builder<'a> {
    pub(super) fn node(&mut self, node: &'a Node) -> Item {
        self.own = match node {
            Node::Scan(scan) => Some(scan.at),
            Node::System { at, .. } | Node::Cte { at, .. } | Node::Functions { at, .. } => Some(*at),
            Node::Query { query, at, .. } if matches!(query.body, Body::Values(_)) => Some(*at),
            _ => None,
        };
        let joins = matches!(node, Node::Loop { .. } | Node::Hash(_) | Node::Keyed(_) | Node::Filter { .. });
        let reads = !joins && *node != Node::One;
        self.sources += usize::from(reads);
        let mut item = match node {
            Node::One => self.result(),
            Node::Scan(scan) => self.scan(scan),
            Node::System { at, filter, .. } => {
                let (name, alias) = self.entry(*at);
                let mut item = Item { kind: "Seq Scan", ..Item::default() };
                item.title = format!("Seq Scan on {}", aliased(&name, &alias));
                item.about = vec![("Relation Name", text(name)), ("Alias", text(alias))];
                self.condition(&mut item, "Filter", filter.as_ref(), false);
                item
            }
            Node::Query { query, at, filter, memo, .. } => {
                let item = self.derived(query, *at, filter.as_ref());
                self.memoized(item, memo.as_ref())
            }
            Node::Cte { id, at, filter, .. } => {
                let alias = self.entry(*at).1;
                let known = self.ctes.iter().rev().find(|(own, _)| own == id).cloned();
                let (_, name) = known.unwrap_or((0, alias.clone()));
                let kind = if self.recursing.contains(id) { "WorkTable Scan" } else { "CTE Scan" };
                let mut item = Item { kind, ..Item::default() };
                item.title = format!("{kind} on {}", aliased(&quote_ident(&name), &quote_ident(&alias)));
                item.about = vec![("CTE Name", text(name)), ("Alias", text(alias))];
                self.condition(&mut item, "Filter", filter.as_ref(), false);
                item
            }
            Node::Functions { calls, at, filter, .. } => self.functions(calls, *at, filter.as_ref()),
            Node::Loop { outer, inner, on, left, .. } => {
                let (outer, inner) = (self.node(outer), self.node(inner));
                let (kind, join) =
                    if *left { ("Nested Loop Left Join", "Left") } else { ("Nested Loop", "Inner") };
                self.own = None;
                let mut item = joined("Nested Loop", kind, join, 0.0, (outer, inner));
                self.condition(&mut item, "Join Filter", on.as_ref(), false);
                item
            }
            Node::Hash(join) => self.hash(join),
            Node::Keyed(keyed) => self.keyed(keyed),
            Node::Filter { node, filter } => {
                let mut item = self.node(node);
                self.own = None;
                let inner = matches!(**node, Node::Hash(ref join) if join.kind == HashKind::Inner);
                let inner = inner || matches!(**node, Node::Loop { left: false, .. });
                let name = if inner { "Join Filter" } else { "Filter" };
                self.condition(&mut item, name, Some(filter), false);
                item
            }
        };
        self.own = None;
        let sources = self.sources_of.last().map_or(&[][..], Vec::as_slice);
        let estimate = self.context.estimator.node(sources, node);
        (item.rows, item.width) = (estimate.rows, estimate.width as usize);
        (item.startup, item.cost) = (estimate.startup, estimate.total);
        item.measured = Some((address(node), 0));
        item.own = true;
        // A condition over a node drops rows that it gave, besides those that it dropped itself.
        let drops = matches!(node, Node::Filter { .. }) || item.dropping.is_empty();
        if drops && item.details.iter().any(|(name, _)| matches!(*name, "Filter" | "Join Filter")) {
            item.dropping.push((address(node), 0));
        }
        self.semi_joins(item)
    }

    pub(super) fn hash(&mut self, join: &'a crate::plan::HashJoin) -> Item {
        let (title, kind) = match join.kind {
            HashKind::Inner => ("Hash Join", "Inner"),
            HashKind::Left => ("Hash Left Join", "Left"),
            HashKind::Full => ("Hash Full Join", "Full"),
        };
        let (outer, inner) = (self.node(&join.outer), self.node(&join.inner));
        self.own = None;
        let noted = Some(address(join) + TABLE);
        let inner = Item { startup: inner.cost, noted, ..self.over("Hash", "Hash", inner) };
        let mut item = joined("Hash Join", title, kind, 0.0, (outer, inner));
        item.details.extend(self.hash_cond(&join.keys));
        self.shown.extend(join.keys.iter().map(|key| (&key.outer, &key.inner)));
        self.condition(&mut item, "Join Filter", join.residual.as_ref(), false);
        item
    }

    pub(super) fn derived(&mut self, query: &'a Query, at: usize, filter: Option<&'a Expr>) -> Item {
        let alias = self.entry(at).1;
        let inner = self.query(query);
        if inner.kind == "Values Scan" && inner.children.is_empty() {
            let mut item = inner;
            item.title = format!("Values Scan on {}", quote_ident(&alias));
            item.about = vec![("Alias", text(alias))];
            self.condition(&mut item, "Filter", filter, false);
            return item;
        }
        let mut item =
            self.over("Subquery Scan", &format!("Subquery Scan on {}", quote_ident(&alias)), inner);
        item.children[0].relation = Some("Subquery");
        item.about = vec![("Alias", text(alias))];
        self.condition(&mut item, "Filter", filter, false);
        item
    }

    pub(super) fn functions(&mut self, calls: &'a [SetCall], at: usize, filter: Option<&'a Expr>) -> Item {
        let alias = self.entry(at).1;
        let name = match calls {
            [call] => call.head.function.name,
            _ => "",
        };
        let mut item = Item { kind: "Function Scan", ..Item::default() };
        let shown = if name.is_empty() {
            quote_ident(&alias)
        } else {
            aliased(&quote_ident(name), &quote_ident(&alias))
        };
        item.title = format!("Function Scan on {shown}");
        if !name.is_empty() {
            item.about.push(("Function Name", text(name)));
        }
        item.about.push(("Alias", text(alias)));
        self.condition(&mut item, "Filter", filter, false);
        item
    }

    /// The name of the relation at a slot, and what it is called.
    pub(super) fn entry(&self, at: usize) -> (String, String) {
        let entries = self.levels.last().map_or(&[][..], |(names, _)| &names.entries);
        let entry = entries.iter().find(|entry| entry.at == at && !entry.written.using);
        let alias = entry.map_or(String::new(), |entry| entry.name.clone());
        let relation = entry.map_or(0, |entry| entry.written.relation);
        let name = self.context.system.shown(relation).unwrap_or_else(|| alias.clone());
        (name, alias)
    }

    pub(super) fn qualified(&self, oid: Oid, name: &str) -> String {
        match self.context.store.object(oid) {
            Some(object) => self.context.system.qualified(object.schema(), name),
            None => quote_ident(name),
        }
    }

    pub(super) fn relation(&self, oid: Oid, table: &str, alias: &str) -> String {
        let name = match self.context.verbose {
            true => self.qualified(oid, table),
            false => quote_ident(table),
        };
        aliased(&name, if alias == table { "" } else { alias })
    }

    pub(super) fn named(&self, oid: Oid, name: &str, alias: &str) -> Vec<(&'static str, Prop)> {
        let mut named = vec![("Relation Name", text(name))];
        if self.context.verbose
            && let Some(schema) =
                self.context.store.object(oid).and_then(|it| self.context.store.object(it.schema()))
        {
            named.push(("Schema", text(schema.name())));
        }
        named.push(("Alias", text(alias)));
        named
    }
}

pub(super) fn aliased(name: &str, alias: &str) -> String {
    if name == alias || alias.is_empty() { name.to_string() } else { format!("{name} {alias}") }
}

pub(super) fn joined(
    kind: &'static str,
    title: &str,
    join: &str,
    rows: f64,
    (outer, inner): (Item, Item),
) -> Item {
    Item {
        kind,
        title: title.to_string(),
        about: vec![("Join Type", text(join))],
        rows,
        width: outer.width + inner.width,
        children: vec![Item { relation: Some("Outer"), ..outer }, Item { relation: Some("Inner"), ..inner }],
        ..Item::default()
    }
}
