//! Texts that outlive the statement that brought them: queries of views, defaults, checks, computed columns,
//! expressions and predicates of indexes.
//!
//! They are kept as text and bound again wherever they are used, under whatever search path is set then.
//! So that a name goes on to mean what it meant:
//!
//! 1. A text is kept with what its names were found to mean: relations and types with their schemas, a
//!    table's own columns without its name, `*` as the columns that it stood for.
//! 2. What it refers to is kept beside it (`Expression::depends`, `Expression::columns`);
//!    catalog/depend.rs looks there when something is dropped.
//! 3. Before something gets another name or schema, every text that refers to it is bound; afterwards it
//!    is written anew with the names that the same things have then. A view goes on to call a table and
//!    its columns as it did: they get aliases, as in PostgreSQL.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::bind::{Binder, CHECKS, Meant, Spelled};
use crate::catalog::object::{Column, Expression, Object, Rule, Table, UserTypeKind};
use crate::error::Result;
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::func::quote_ident;
use crate::func::quote_literal;
use crate::parse::ast;
use crate::parse::{Tok, Token, may_name_column};
use crate::types::{Oid, Type};

/// A text of an object as it was, and what its names mean.
struct Kept {
    holder: Oid,
    sql: String,
    names: Vec<Spelled>,
}

impl<S: Store> LocalSession<S> {
    /// An expression over a table's columns, made for a column of type `target` if that is known. One that
    /// cannot be bound (yet) stays as it is: its first use tells why.
    pub(super) fn lasting(&self, table: &Table, sql: &str, target: Option<Type>) -> Result<Expression> {
        self.with_binder(|binder| {
            let bound = bind_over(binder, table, sql, target);
            Ok(if bound.is_err() { Expression::plain(sql) } else { self.resolved(binder, sql, Some(table)) })
        })
    }

    /// Keeps a table's own texts once all columns are there: they may refer to later ones, or come from
    /// another table.
    pub(super) fn settle_texts(&self, table: &mut Table) -> Result<()> {
        let shared = table.clone();
        let settle = |text: &mut Expression, target: Option<Type>| -> Result<()> {
            let settled = self.lasting(&shared, &text.sql, target)?;
            // What cannot be bound keeps what it depended on.
            if !settled.depends.is_empty() || !settled.columns.is_empty() || text.depends.is_empty() {
                *text = settled;
            }
            Ok(())
        };
        for column in &mut table.columns {
            let target = Some(column.ty());
            let mut texts = column.default.iter_mut().chain(&mut column.generated);
            texts.try_for_each(|text| settle(text, target))?;
        }
        for constraint in &mut table.constraints {
            if let Rule::Check { condition } = &mut constraint.rule {
                settle(condition, None)?;
            }
        }
        Ok(())
    }

    /// A check of a domain over a type, or its default, which is made for that type (`target`, and the
    /// domain's name).
    pub(super) fn lasting_of_domain(
        &self,
        base: Oid,
        sql: &str,
        target: Option<(Type, &str)>,
    ) -> Result<Expression> {
        self.with_binder(|binder| {
            binder.domain_text(base, sql, target)?;
            Ok(self.resolved(binder, sql, None))
        })
    }

    /// The query of a view.
    pub(super) fn lasting_query(&self, sql: &str) -> Result<Expression> {
        self.with_binder(|binder| {
            bind_query(binder, sql)?;
            Ok(self.resolved(binder, sql, None))
        })
    }

    /// What was bound, as it is kept.
    fn resolved(&self, binder: &Binder<'_>, sql: &str, table: Option<&Table>) -> Expression {
        let names = binder.spelled.borrow();
        let mut depends: Vec<Oid> = names.iter().filter_map(|name| depended(&name.meant)).collect();
        depends.extend(binder.grouped.borrow().iter());
        depends.sort_unstable();
        depends.dedup();
        let columns = binder.columns.borrow().iter().copied().collect();
        Expression { sql: self.rewritten(sql, &names, (None, table)), depends, columns }
    }

    /// Carries out a change of names of `object` or what is in it; all texts go on to mean what they mean.
    pub(crate) fn with_names_kept(
        &mut self,
        object: &Object,
        change: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let kept = self.texts_about(object);
        change(self)?;
        let holders: BTreeSet<Oid> = kept.iter().map(|kept| kept.holder).collect();
        for holder in holders {
            let Some(now) = self.store.object(holder) else { continue };
            let own = self.table_of(&now);
            let mut new = Object::clone(&now);
            for text in new.expressions_mut() {
                // By what it said: some of its neighbours may be gone.
                let was = kept.iter().find(|kept| kept.holder == holder && kept.sql == text.sql);
                if let Some(kept) = was {
                    text.sql = self.rewritten(&text.sql, &kept.names, (Some(object), own.as_ref()));
                }
            }
            if *now != new {
                self.store.replace(new)?;
            }
        }
        Ok(())
    }

    /// The table that an object's expressions are over.
    fn table_of(&self, object: &Object) -> Option<Table> {
        match object {
            Object::Table(table) => Some(table.clone()).filter(|table| table.materialized.is_none()),
            Object::Index(index) => match self.store.object(index.table).as_deref() {
                Some(Object::Table(table)) => Some(table.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    /// The texts that refer to an object, or to what is in it where it is a schema.
    fn texts_about(&self, object: &Object) -> Vec<Kept> {
        let mut found = Vec::new();
        for holder in self.store.objects() {
            let table = self.table_of(&holder);
            let is_own = table.as_ref().is_some_and(|table| table.oid == object.oid());
            let mut copy = Object::clone(&holder);
            for text in copy.expressions_mut() {
                let in_schema =
                    |oid: &Oid| self.store.object(*oid).is_some_and(|it| it.schema() == object.oid());
                let concerned = is_own
                    || text.depends.iter().any(|oid| *oid == object.oid() || in_schema(oid))
                    || matches!(object, Object::Type(ty) if text.depends.contains(&ty.array));
                if !concerned {
                    continue;
                }
                let names = self.with_binder(|binder| {
                    match (&*holder, &table) {
                        (holder, _) if holder.query().is_some() => bind_query(binder, &text.sql)?,
                        (_, Some(table)) => bind_over(binder, table, &text.sql, None)?,
                        (Object::Type(ty), None) => {
                            if let UserTypeKind::Domain { base, .. } = &ty.kind {
                                binder.domain_text(*base, &text.sql, None)?;
                            }
                        }
                        _ => {}
                    }
                    Ok(binder.spelled.take())
                });
                // What cannot be bound means nothing that could be kept.
                let sql = text.sql.clone();
                found.extend(names.ok().map(|names| Kept { holder: holder.oid(), sql, names }));
            }
        }
        found
    }

    /// The text with the names that its names' meanings have now. `before`: what gets another name, as it
    /// was; `own`: the table that the expression is over, as it is.
    fn rewritten(
        &self,
        sql: &str,
        names: &[Spelled],
        (before, own): (Option<&Object>, Option<&Table>),
    ) -> String {
        let Ok(tokens) = crate::parse::tokens(sql) else { return sql.to_string() };
        let mut text = String::with_capacity(sql.len());
        let mut copied = 0;
        let mut at = 0;
        while at < tokens.len() {
            let (start, end) = (tokens[at].start as usize, path_end(&tokens, at));
            let literal = matches!(tokens[at].tok, Tok::Str(_));
            let star = &sql[start..tokens[end - 1].end as usize];
            let fits = |name: &&Spelled| {
                name.pos == tokens[at].start
                    && matches!(name.meant, Meant::Literal(_) | Meant::Moment(_)) == literal
                    && matches!(name.meant, Meant::Star(_)) == star.ends_with('*')
            };
            let Some(name) = names.iter().find(fits) else {
                at += 1;
                continue;
            };
            let (new, end) = match &name.meant {
                Meant::Star(columns) => (Some(columns.clone()), end),
                Meant::Literal(oid) => (self.full_name(*oid).map(|name| quote_literal(&name)), end),
                Meant::Moment(text) => (Some(quote_literal(text)), end),
                Meant::Type(oid) => (self.full_name(*oid), end),
                Meant::Column(_, number) => (own.and_then(|table| column_name(table, *number)), end),
                Meant::Row(_) => (own.map(|table| quote_ident(&table.name)), end),
                Meant::Relation(oid) => self.in_from(*oid, &tokens, (sql, end), before),
            };
            if let Some(new) = new {
                text.push_str(&sql[copied..start]);
                text.push_str(&new);
                copied = tokens[end - 1].end as usize;
            }
            at = end;
        }
        text + &sql[copied..]
    }

    fn full_name(&self, oid: Oid) -> Option<String> {
        let object = self.store.object(oid)?;
        let schema = self.store.object(object.schema())?;
        Some(format!("{}.{}", quote_ident(schema.name()), quote_ident(object.name())))
    }

    /// A relation of a FROM list, with the aliases that keep names what they were; and the token behind
    /// what that replaces.
    fn in_from(
        &self,
        oid: Oid,
        tokens: &[Token],
        (sql, end): (&str, usize),
        before: Option<&Object>,
    ) -> (Option<String>, usize) {
        let Some(full) = self.full_name(oid) else { return (None, end) };
        let Some(before) = before.filter(|before| before.oid() == oid) else { return (Some(full), end) };
        let Some(now) = self.store.object(oid) else { return (None, end) };
        let (alias, listed, alias_end) = aliases(tokens, end);
        let called = alias.map_or(before.name(), |token| match &token.tok {
            Tok::Word(name) | Tok::Quoted(name) => name,
            _ => unreachable!("an alias is a name"),
        });
        let old = visible(before);
        let name_of = |(number, new): &(usize, &str)| {
            let place = old.iter().position(|(at, _)| at == number);
            let name = place.map(|place| listed.get(place).map_or(old[place].1, |name| name.as_str()));
            name.unwrap_or(new).to_string()
        };
        let new = visible(&now);
        let wanted: Vec<String> = new.iter().map(name_of).collect();
        let differ = wanted.iter().zip(&new).any(|(wanted, (_, name))| wanted != name);
        if differ {
            let list: Vec<String> = wanted.iter().map(|name| quote_ident(name)).collect();
            return (Some(format!("{full} {}({})", quote_ident(called), list.join(", "))), alias_end);
        }
        match alias {
            // An alias with a list that says nothing new stays.
            Some(_) => (
                Some(full + &sql[tokens[end - 1].end as usize..tokens[alias_end - 1].end as usize]),
                alias_end,
            ),
            None if called != now.name() => (Some(format!("{full} {}", quote_ident(called))), end),
            None => (Some(full), end),
        }
    }
}

fn depended(meant: &Meant) -> Option<Oid> {
    match meant {
        Meant::Relation(oid) | Meant::Literal(oid) | Meant::Type(oid) => Some(*oid),
        Meant::Column(..) | Meant::Row(_) | Meant::Star(_) | Meant::Moment(_) => None,
    }
}

fn bind_over(binder: &Binder<'_>, table: &Table, sql: &str, target: Option<Type>) -> Result<()> {
    let ast = crate::parse::parse_expr(sql)?;
    let target = target.map(|ty| (ty, table.name.as_str()));
    binder.table_ast(&Arc::new(table.clone()), &ast, target, CHECKS).map(|_| ())
}

fn bind_query(binder: &Binder<'_>, sql: &str) -> Result<()> {
    match crate::parse::parse(sql)?.pop().map(|parsed| parsed.statement) {
        Some(ast::Statement::Query(query)) => binder.query(None, false, &query).map(|_| ()),
        _ => Ok(()),
    }
}

fn column_name(table: &Table, number: i16) -> Option<String> {
    let column = table.columns.get(usize::try_from(number - 1).ok()?)?;
    (!column.dropped).then(|| quote_ident(&column.name))
}

/// The columns that a relation shows, with their numbers from 0.
fn visible(relation: &Object) -> Vec<(usize, &str)> {
    let columns: &[Column] = match relation {
        Object::Table(table) => &table.columns,
        Object::View(view) => &view.columns,
        _ => &[],
    };
    let all = columns.iter().enumerate().filter(|(_, column)| !column.dropped);
    all.map(|(at, column)| (at, column.name.as_str())).collect()
}

/// The token behind a path that begins at one: names with dots between them, perhaps a star at their end.
fn path_end(tokens: &[Token], at: usize) -> usize {
    let is_name = |tok: &Tok| matches!(tok, Tok::Word(_) | Tok::Quoted(_));
    let mut end = at + 1;
    while is_name(&tokens[end - 1].tok)
        && tokens.get(end).is_some_and(|token| token.tok == Tok::Punct('.'))
        && tokens
            .get(end + 1)
            .is_some_and(|token| is_name(&token.tok) || token.tok == Tok::Op("*".to_string()))
    {
        end += 2;
    }
    end
}

/// The alias behind a relation, the names of its columns, and the token behind them.
fn aliases(tokens: &[Token], mut at: usize) -> (Option<&Token>, Vec<String>, usize) {
    let start = at;
    let is = |at: usize, word: &str| matches!(&tokens[at].tok, Tok::Word(found) if found == word);
    let introduced = is(at, "as");
    at += usize::from(introduced);
    let alias = match &tokens[at].tok {
        Tok::Quoted(_) => Some(&tokens[at]),
        Tok::Word(word) if introduced || may_name_column(word) => Some(&tokens[at]),
        _ => return (None, Vec::new(), start),
    };
    at += 1;
    let mut listed = Vec::new();
    if tokens[at].tok == Tok::Punct('(') {
        at += 1;
        while tokens[at].tok != Tok::Punct(')') {
            match &tokens[at].tok {
                Tok::Word(name) | Tok::Quoted(name) => listed.push(name.clone()),
                _ => {}
            }
            at += 1;
        }
        at += 1;
    }
    (alias, listed, at)
}
