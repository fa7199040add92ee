//! Tables that are read whole or by an index, and the conditions that an index answers.

use super::build::{Builder, Item};
use super::conditions::{conjuncts, joined_by_and};
use super::print::text;
use crate::catalog::object::{Index, Indexed};
use crate::func::quote_ident;
use crate::plan::{KeyPart, Path, Scan};
use crate::tree::{Expr, SubqueryKind};

impl<'a> Builder<'a> {
    pub(super) fn scan(&mut self, scan: &'a Scan) -> Item {
        let table = &scan.table;
        let alias = self.entry(scan.at).1;
        let alias = if alias.is_empty() { table.name.clone() } else { alias };
        let on = self.relation(table.oid, &table.name, &alias);
        let mut item = Item::default();
        let mut parts = Vec::new();
        scan.filter.iter().for_each(|filter| conjuncts(filter, &mut parts));
        if let Path::Elements { array: Expr::Subquery(subquery), .. } = &scan.path {
            self.subplan(&mut item, subquery);
        }
        let (title, kind, indexes) = match &scan.path {
            Path::Full => (format!("Seq Scan on {on}"), "Seq Scan", Vec::new()),
            Path::Index { index, reverse, .. } => {
                let back = if *reverse { " Backward" } else { "" };
                let title = format!("Index Scan{back} using {} on {on}", quote_ident(&index.name));
                let scan_direction = if *reverse { "Backward" } else { "Forward" };
                item.about.push(("Scan Direction", text(scan_direction)));
                (title, "Index Scan", vec![index])
            }
            Path::Points { index, .. } | Path::Elements { index, .. } => {
                item.about.push(("Scan Direction", text("Forward")));
                (format!("Index Scan using {} on {on}", quote_ident(&index.name)), "Index Scan", vec![index])
            }
            Path::Any(_) => (format!("Bitmap Heap Scan on {on}"), "Bitmap Heap Scan", Vec::new()),
        };
        item.kind = kind;
        item.title = title;
        item.about.extend(indexes.iter().map(|index| ("Index Name", text(index.name.as_str()))));
        item.about.extend(self.named(table.oid, &table.name, &alias));
        let before = parts.clone();
        let (found, left) = self.divided(&scan.path, scan, parts);
        match &scan.path {
            Path::Full => {}
            Path::Any(paths) => {
                let (shown, rest): (Vec<&Expr>, Vec<&Expr>) =
                    before.into_iter().partition(|part| matches!(part, Expr::Or(_)));
                self.subplans(&mut item, &shown);
                let recheck = self.all(&shown);
                item.details.extend(recheck.map(|shown| ("Recheck Cond", text(shown))));
                item.children = vec![self.bitmap(paths, scan)];
                self.filter(&mut item, "Filter", &rest);
                return item;
            }
            _ => {
                self.subplans(&mut item, &found);
                let shown = self.all(&found);
                item.details.extend(shown.map(|shown| ("Index Cond", text(shown))));
            }
        }
        self.filter(&mut item, "Filter", &left);
        item
    }

    /// The ways of the alternatives of an OR.
    pub(super) fn bitmap(&mut self, paths: &'a [Path], scan: &'a Scan) -> Item {
        let estimator = &self.context.estimator;
        let source = estimator.table(&scan.table, scan.at);
        let read = estimator.read(&source, &scan.path);
        let mut item = Item {
            kind: "BitmapOr",
            title: "BitmapOr".to_string(),
            relation: Some("Outer"),
            rows: read.rows,
            cost: self.costs().lookup() * paths.len() as f64,
            ..Item::default()
        };
        for path in paths {
            let Some((index, parts)) = key_parts(path) else { continue };
            let conditions: Vec<String> = parts
                .iter()
                .map(|(column, operator, part)| {
                    let name = self.column(scan, *column);
                    format!("({name} {operator} {})", self.shown_operand(&part.expr, part.source))
                })
                .collect();
            let shown = joined_by_and(&conditions);
            item.children.push(Item {
                kind: "Bitmap Index Scan",
                title: format!("Bitmap Index Scan on {}", quote_ident(&index.name)),
                relation: Some("Member"),
                about: vec![("Index Name", text(index.name.as_str()))],
                details: vec![("Index Cond", text(shown))],
                rows: estimator.read(&source, path).rows,
                cost: self.costs().lookup(),
                ..Item::default()
            });
        }
        item
    }

    pub(super) fn column(&self, scan: &Scan, column: usize) -> String {
        let name = quote_ident(&scan.table.columns[column].name);
        match self.context.bare || self.own == Some(scan.at) {
            true => name,
            false => {
                let alias = self.entry(scan.at).1;
                format!("{}.{name}", quote_ident(if alias.is_empty() { &scan.table.name } else { &alias }))
            }
        }
    }

    /// The conditions that an index answers, and those that are left.
    pub(super) fn divided(
        &self,
        path: &'a Path,
        scan: &Scan,
        parts: Vec<&'a Expr>,
    ) -> (Vec<&'a Expr>, Vec<&'a Expr>) {
        let answers = |conjunct: &&Expr| match (path, *conjunct) {
            (Path::Elements { index, .. }, Expr::AnyArray { left, all: false, .. }) => {
                is_indexed(index, scan, left)
            }
            (Path::Elements { index, .. }, Expr::Subquery(subquery)) => match &subquery.kind {
                SubqueryKind::Any { left, negated: false, all: false, .. } => {
                    left.iter().all(|left| is_indexed(index, scan, left))
                }
                _ => false,
            },
            (Path::Points { index, .. }, Expr::InList { left, negated: false, .. }) => {
                is_indexed(index, scan, left)
            }
            (Path::Points { .. }, Expr::Or(_)) => true,
            (path, Expr::Call { head, args, .. }) => {
                let Some((index, parts)) = key_parts(path) else { return false };
                let [left, right] = args.as_slice() else { return false };
                let compared =
                    head.operator.is_some_and(|it| matches!(it.name, "=" | "<" | "<=" | ">" | ">="));
                let with = |column: &Expr, other: &Expr| {
                    is_indexed(index, scan, column) && parts.iter().any(|(.., part)| part.expr == *other)
                };
                compared && (with(left, right) || with(right, left))
            }
            _ => false,
        };
        parts.into_iter().partition(answers)
    }
}

/// An index, and which of its columns are compared how, with what.
type KeyParts<'p> = (&'p Index, Vec<(usize, &'static str, &'p KeyPart)>);

fn key_parts(path: &Path) -> Option<KeyParts<'_>> {
    let (index, equal) = match path {
        Path::Index { index, equal, .. } | Path::Elements { index, equal, .. } => (index, equal.as_slice()),
        Path::Points { index, keys } => (index, keys.first().map_or(&[][..], Vec::as_slice)),
        Path::Full | Path::Any(_) => return None,
    };
    let columns = columns(index);
    let mut parts: Vec<_> = columns.iter().zip(equal).map(|(column, part)| (*column, "=", part)).collect();
    if let Path::Index { low, high, .. } = path {
        let next = columns.get(equal.len()).copied().unwrap_or(0);
        let bound = |bound: &'_ (KeyPart, bool), words: [&'static str; 2]| words[usize::from(bound.1)];
        parts.extend(low.as_ref().map(|it| (next, bound(it, [">", ">="]), &it.0)));
        parts.extend(high.as_ref().map(|it| (next, bound(it, ["<", "<="]), &it.0)));
    }
    Some((index, parts))
}

fn columns(index: &Index) -> Vec<usize> {
    let plain = index.columns.iter().map_while(|column| match column.of {
        Indexed::Column(number) => Some(usize::from(number)),
        Indexed::Expression { .. } => None,
    });
    plain.collect()
}

/// Whether an expression is a column that an index begins with.
fn is_indexed(index: &Index, scan: &Scan, expr: &Expr) -> bool {
    columns(index).iter().any(|column| *expr.bare() == Expr::slot(scan.at + column))
}
