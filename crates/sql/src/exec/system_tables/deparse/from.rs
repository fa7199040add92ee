//! FROM: tables, functions, queries and joins, with the names that they and their columns have.

use super::Writer;
use super::query::Heading;
use crate::catalog::object::{Column, Object};
use crate::catalog::system::{SystemRelation, by_oid, of_sequence};
use crate::func::quote_ident;
use crate::parse::ast::JoinKind;
use crate::tree::{Entry, From, Joined, SetCall};
use crate::types::{Oid, Type, oid};

impl<'a> Writer<'a> {
    /// The whole clause.
    pub(super) fn tables(&mut self, from: &'a From) -> Option<()> {
        let mut items = Vec::new();
        let mut next = from;
        while let From::Join { left, right, written: Joined { comma: true, .. }, .. } = next {
            items.push(&**right);
            next = left;
        }
        items.push(next);
        for (at, item) in items.into_iter().rev().enumerate() {
            match (at, item) {
                (0, From::One) => return Some(()),
                (0, item) => {
                    self.keyword(" FROM ", (-super::STEP, super::STEP, 2));
                    self.item(item)?;
                }
                (_, item) => {
                    self.put(", ");
                    let text = self.apart(|w| w.item(item))?;
                    self.next(&text, (false, false));
                }
            }
        }
        Some(())
    }

    /// The entry of the level on top that begins at a slot.
    fn entry(&self, at: usize) -> Option<(&'a Entry, String)> {
        let level = self.levels.last()?;
        let names: &'a [Entry] = level.names;
        let mut found =
            names.iter().zip(&level.called).filter(|(entry, _)| entry.at == at && !entry.written.using);
        let first = found.next()?;
        // Tables without columns begin where the next one does.
        found.next().is_none().then(|| (first.0, first.1.clone()))
    }

    fn item(&mut self, from: &'a From) -> Option<()> {
        match from {
            From::Table { at, .. } | From::System { at, .. } => self.relation(*at),
            From::Query { query, at, .. } => {
                let (entry, called) = self.entry(*at)?;
                if entry.written.relation != 0 {
                    return self.relation(*at);
                }
                let lateral = matches!(from, From::Query { lateral: true, .. });
                self.put(if lateral { "LATERAL (" } else { "(" });
                self.query(query, Heading::shown(), false)?;
                self.put(&format!(") {}", quote_ident(&called)));
                self.columns(entry, entry.written.listed)
            }
            From::Cte { at, .. } => {
                let (entry, called) = self.entry(*at)?;
                let name = entry.written.cte.as_deref()?;
                self.put(&quote_ident(name));
                if entry.written.alias || called != name || entry.written.listed {
                    self.put(&format!(" {}", quote_ident(&called)));
                }
                self.columns(entry, entry.written.listed)
            }
            From::Functions { calls, ordinality, at, .. } => self.functions(calls, *ordinality, *at),
            From::Join { kind, left, right, on, written } => {
                let bare = self.style.pretty && written.alias.is_none();
                self.put(if bare { "" } else { "(" });
                let hidden = self.levels.last()?.hidden.len();
                self.levels.last_mut()?.hidden.extend(written.alias);
                self.item(left)?;
                let word = match (kind, on) {
                    (JoinKind::Inner | JoinKind::Cross, Some(_)) => " JOIN ",
                    (JoinKind::Inner | JoinKind::Cross, None) => " CROSS JOIN ",
                    (JoinKind::Left, _) => " LEFT JOIN ",
                    (JoinKind::Right, _) => " RIGHT JOIN ",
                    (JoinKind::Full, _) => " FULL JOIN ",
                };
                self.keyword(word, (-super::STEP, super::STEP, super::JOIN));
                let nested = self.style.pretty
                    && matches!(&**right, From::Join { written: Joined { alias: None, .. }, .. });
                self.put(if nested { "(" } else { "" });
                self.item(right)?;
                self.put(if nested { ")" } else { "" });
                match (written.using.is_empty(), on) {
                    (false, _) => {
                        let names: Vec<String> = written.using.iter().map(|name| quote_ident(name)).collect();
                        self.put(&format!(" USING ({})", names.join(", ")));
                        if let Some(alias) = &written.using_alias {
                            self.put(&format!(" AS {}", quote_ident(alias)));
                        }
                    }
                    (true, Some(on)) => {
                        self.put(if self.style.pretty { " ON " } else { " ON (" });
                        self.expr(on, Type::of(oid::BOOL), false)?;
                        self.put(if self.style.pretty { "" } else { ")" });
                    }
                    (true, None) if !matches!(kind, JoinKind::Inner | JoinKind::Cross) => {
                        self.put(" ON TRUE");
                    }
                    (true, None) => {}
                }
                self.put(if bare { "" } else { ")" });
                self.levels.last_mut()?.hidden.truncate(hidden);
                let Some(alias) = written.alias else { return Some(()) };
                let level = self.levels.last()?;
                let names: &'a [Entry] = level.names;
                let (entry, called) = (names.get(alias)?, level.called[alias].clone());
                self.put(&format!(" {}", quote_ident(&called)));
                self.columns(entry, entry.written.listed)
            }
            From::One | From::Planned(_) => None,
        }
    }

    fn relation(&mut self, at: usize) -> Option<()> {
        let (entry, called) = self.entry(at)?;
        let relation = entry.written.relation;
        let shown = self.system.shown(relation)?;
        self.put(&shown);
        let (name, columns) = self.declared(relation)?;
        let renamed = !columns.iter().eq(entry.columns.iter().map(|column| &column.name));
        if entry.written.alias || renamed || called != name {
            self.put(&format!(" {}", quote_ident(&called)));
        }
        self.columns(entry, renamed)
    }

    /// What a relation and its columns are called by themselves.
    fn declared(&self, relation: Oid) -> Option<(String, Vec<String>)> {
        let visible = |columns: &[Column]| {
            columns.iter().filter(|column| !column.dropped).map(|column| column.name.clone()).collect()
        };
        match by_oid(relation) {
            Some(SystemRelation::Table(table)) => return Some((table.name.clone(), visible(&table.columns))),
            Some(SystemRelation::View(view)) => return Some((view.name.clone(), visible(&view.columns))),
            None => {}
        }
        Some(match self.system.store.object(relation).as_deref()? {
            Object::Table(table) => (table.name.clone(), visible(&table.columns)),
            Object::View(view) => (view.name.clone(), visible(&view.columns)),
            Object::Sequence(sequence) => (sequence.name.clone(), visible(&of_sequence(sequence).columns)),
            _ => return None,
        })
    }

    /// The list of names of an entry's columns.
    fn columns(&mut self, entry: &Entry, listed: bool) -> Option<()> {
        if listed && !entry.columns.is_empty() {
            let names: Vec<String> = entry.columns.iter().map(|column| quote_ident(&column.name)).collect();
            self.put(&format!("({})", names.join(", ")));
        }
        Some(())
    }

    fn functions(&mut self, calls: &'a [SetCall], ordinality: bool, at: usize) -> Option<()> {
        let (entry, called) = self.entry(at)?;
        match calls {
            [call] => self.set_call(call)?,
            calls => {
                let unnest = calls.iter().all(|call| call.head.function.name == "unnest");
                self.put(if unnest { "UNNEST(" } else { "ROWS FROM(" });
                for (at, call) in calls.iter().enumerate() {
                    self.put(if at > 0 { ", " } else { "" });
                    match unnest {
                        true => self.list(&call.args, |_| call.head.types[0])?,
                        false => self.set_call(call)?,
                    }
                }
                self.put(")");
            }
        }
        self.put(if ordinality { " WITH ORDINALITY" } else { "" });
        self.put(&format!(" {}", quote_ident(&called)));
        let told = &calls.first()?.told;
        if told.is_empty() {
            return self.columns(entry, true);
        }
        if calls.len() > 1 || ordinality {
            return None;
        }
        let told: Vec<String> = told
            .iter()
            .map(|(name, ty)| format!("{} {}", quote_ident(name), self.system.format_type(*ty)))
            .collect();
        self.put(&format!("({})", told.join(", ")));
        Some(())
    }
}
