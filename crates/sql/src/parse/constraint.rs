//! Constraints of columns and tables.
use super::ast::{Action, AlterTable, Constraint, ConstraintKind, Ident, References};
use super::lexer::Tok;
use super::{Parser, Res};
use crate::error::{SqlError, SqlState};

impl Parser<'_> {
    /// DEFERRABLE and its kin after a constraint.
    pub(super) fn constraint_attribute(&mut self, constraint: Option<&mut Constraint>) -> Res<bool> {
        let (deferrable, deferred, invalid) = if self.accept_words(&["not", "deferrable"]) {
            (Some(false), None, None)
        } else if self.accept_word("deferrable") {
            (Some(true), None, None)
        } else if self.accept_words(&["initially", "deferred"]) {
            (Some(true), Some(true), None)
        } else if self.accept_words(&["initially", "immediate"]) {
            (None, Some(false), None)
        } else if self.accept_words(&["not", "valid"]) {
            (None, None, Some(true))
        } else if self.accept_words(&["no", "inherit"]) {
            let Some(constraint) = constraint else { return self.error() };
            constraint.no_inherit = true;
            return Ok(true);
        } else {
            return Ok(false);
        };
        let Some(constraint) = constraint else { return self.error() };
        constraint.deferrable = deferrable.unwrap_or(constraint.deferrable);
        constraint.deferred = deferred.unwrap_or(constraint.deferred);
        constraint.not_valid = invalid.unwrap_or(constraint.not_valid);
        Ok(true)
    }

    fn constraint_name(&mut self) -> Res<Option<String>> {
        if self.accept_word("constraint") { Ok(Some(self.name()?.text)) } else { Ok(None) }
    }

    pub(super) fn column_constraint(&mut self) -> Res<Option<Constraint>> {
        let start = self.at;
        let name = self.constraint_name()?;
        let pos = self.pos();
        if self.is_word("not") && !self.is_word_at(1, "null") && !self.is_word_at(1, "deferrable") {
            self.advance();
            return self.error();
        }
        let kind = if self.accept_words(&["not", "null"]) {
            ConstraintKind::NotNull
        } else if self.accept_word("null") {
            ConstraintKind::Null
        } else if self.accept_word("default") {
            let from = self.pos();
            let expr = self.simple_expr()?;
            ConstraintKind::Default(expr, self.text_since(from))
        } else if self.accept_words(&["primary", "key"]) {
            self.index_parameters()?;
            ConstraintKind::PrimaryKey(Vec::new())
        } else if self.accept_word("unique") {
            let equal = self.nulls_clause();
            self.index_parameters()?;
            ConstraintKind::Unique(Vec::new(), equal)
        } else if self.accept_word("check") {
            self.check()?
        } else if self.accept_word("references") {
            ConstraintKind::ForeignKey(Vec::new(), self.references()?)
        } else if self.accept_word("generated") {
            self.generated()?
        } else {
            self.at = start;
            return if name.is_some() { self.error() } else { Ok(None) };
        };
        let (deferrable, deferred, not_valid, no_inherit) = (false, false, false, false);
        Ok(Some(Constraint { name, kind, deferrable, deferred, not_valid, no_inherit, pos }))
    }

    /// `NULLS NOT DISTINCT`: whether NULLs are equal to one another.
    pub(super) fn nulls_clause(&mut self) -> bool {
        let equal = self.accept_words(&["nulls", "not", "distinct"]);
        self.accept_words(&["nulls", "distinct"]);
        equal
    }

    pub(super) fn alter_constraint(&mut self) -> Res<AlterTable> {
        let name = self.name()?;
        let (kind, pos) = (ConstraintKind::Null, name.pos);
        let (deferrable, deferred, not_valid, no_inherit) = (false, false, false, false);
        let mut said = Constraint { name: None, kind, deferrable, deferred, not_valid, no_inherit, pos };
        let from = self.at;
        while self.constraint_attribute(Some(&mut said))? {}
        let words = |parser: &Self, words: [&str; 2]| {
            (from..parser.at).find(|at| {
                let is =
                    |at: usize, word: &str| matches!(&parser.tokens[at].tok, Tok::Word(own) if own == word);
                is(*at, words[0]) && is(*at + 1, words[1])
            })
        };
        let deferred = words(self, ["initially", "deferred"]);
        if let (Some(_), Some(at)) = (words(self, ["not", "deferrable"]), deferred) {
            let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(self.tokens[at].start + 1));
        }
        for (is_said, what) in [(said.not_valid, "NOT VALID"), (said.no_inherit, "NO INHERIT")] {
            if is_said {
                return Err(marked("FOREIGN KEY", what));
            }
        }
        Ok(AlterTable::AlterConstraint { name, deferrable: said.deferrable, deferred: said.deferred })
    }

    fn index_parameters(&mut self) -> Res<()> {
        if self.accept_word("include") {
            self.names_in_parens()?;
        }
        if self.accept_word("with") {
            self.storage_options()?;
        }
        if self.accept_words(&["using", "index", "tablespace"]) {
            self.name()?;
        }
        Ok(())
    }

    fn check(&mut self) -> Res<ConstraintKind> {
        self.expect('(')?;
        let from = self.pos();
        let expr = self.expr()?;
        let text = self.text_since(from);
        self.expect(')')?;
        Ok(ConstraintKind::Check(expr, text))
    }

    fn generated(&mut self) -> Res<ConstraintKind> {
        let always = self.accept_word("always");
        if !always {
            self.expect_words(&["by", "default"])?;
        }
        self.expect_word("as")?;
        if self.accept_word("identity") {
            let options = if self.accept('(') {
                let options = self.sequence_options()?;
                self.expect(')')?;
                options
            } else {
                Vec::new()
            };
            return Ok(ConstraintKind::Identity { always, options });
        }
        self.expect('(')?;
        let from = self.pos();
        let expr = self.expr()?;
        let text = self.text_since(from);
        self.expect(')')?;
        self.expect_word("stored")?;
        Ok(ConstraintKind::Generated(expr, text))
    }

    fn references(&mut self) -> Res<References> {
        let table = self.path()?;
        let columns = if self.is('(') { self.names_in_parens()? } else { Vec::new() };
        let (on_delete, on_update) = (Action::Nothing, Action::Nothing);
        let set_columns = Vec::new();
        let mut references =
            References { table, columns, on_delete, on_update, set_columns, match_full: false };
        loop {
            if self.accept_word("match") {
                references.match_full = self.accept_word("full");
                if !references.match_full {
                    self.expect_word("simple")?;
                }
            } else if self.accept_words(&["on", "delete"]) {
                references.on_delete = self.action()?;
                references.set_columns = self.set_columns(references.on_delete)?;
            } else if self.are_words(&["on", "update"]) {
                let at = self.pos() + 1;
                self.expect_words(&["on", "update"])?;
                references.on_update = self.action()?;
                if !self.set_columns(references.on_update)?.is_empty() {
                    let what =
                        if references.on_update == Action::SetNull { "SET NULL" } else { "SET DEFAULT" };
                    let message =
                        format!("a column list with {what} is only supported for ON DELETE actions");
                    return Err(SqlError::refused_by_postgresql(message).at(at));
                }
            } else {
                return Ok(references);
            }
        }
    }

    /// `SET NULL (a, b)`: which columns are set.
    fn set_columns(&mut self, action: Action) -> Res<Vec<Ident>> {
        let sets = matches!(action, Action::SetNull | Action::SetDefault);
        if sets && self.is('(') { self.names_in_parens() } else { Ok(Vec::new()) }
    }

    fn action(&mut self) -> Res<Action> {
        if self.accept_words(&["no", "action"]) {
            Ok(Action::Nothing)
        } else if self.accept_word("restrict") {
            Ok(Action::Restrict)
        } else if self.accept_word("cascade") {
            Ok(Action::Cascade)
        } else if self.accept_words(&["set", "null"]) {
            Ok(Action::SetNull)
        } else {
            self.expect_words(&["set", "default"])?;
            Ok(Action::SetDefault)
        }
    }

    pub(super) fn table_constraint(&mut self) -> Res<Option<Constraint>> {
        let (start, pos) = (self.at, self.pos());
        let name = self.constraint_name()?;
        let kind = if self.accept_words(&["primary", "key"]) {
            match self.using_index(true)? {
                Some(kind) => kind,
                None => ConstraintKind::PrimaryKey(self.names_in_parens()?),
            }
        } else if self.is_word("unique") {
            self.advance();
            let equal = self.nulls_clause();
            match self.using_index(false)? {
                Some(kind) => kind,
                None => ConstraintKind::Unique(self.names_in_parens()?, equal),
            }
        } else if self.accept_word("check") {
            self.check()?
        } else if self.accept_words(&["foreign", "key"]) {
            let columns = self.names_in_parens()?;
            self.expect_word("references")?;
            ConstraintKind::ForeignKey(columns, self.references()?)
        } else if self.is_word("exclude") && (name.is_some() || self.is_word_at(1, "using")) {
            let hint = "Look for rows that exclude the new one in the transaction that adds it.";
            return Err(SqlError::unsupported("EXCLUDE constraints", hint));
        } else {
            self.at = start;
            return if name.is_some() { self.error() } else { Ok(None) };
        };
        self.index_parameters()?;
        let (deferrable, deferred, not_valid, no_inherit) = (false, false, false, false);
        let mut constraint = Constraint { name, kind, deferrable, deferred, not_valid, no_inherit, pos };
        while self.constraint_attribute(Some(&mut constraint))? {}
        cannot_be_marked(&constraint).map_or(Ok(Some(constraint)), Err)
    }

    fn using_index(&mut self, primary: bool) -> Res<Option<ConstraintKind>> {
        if !self.accept_words(&["using", "index"]) {
            return Ok(None);
        }
        Ok(Some(ConstraintKind::UsingIndex { primary, index: self.name()? }))
    }
}

fn marked(kind: &str, what: &str) -> SqlError {
    SqlError::refused_by_postgresql(format!("{kind} constraints cannot be marked {what}"))
}

/// What is said of a table's constraint that such constraints do not know.
fn cannot_be_marked(constraint: &Constraint) -> Option<SqlError> {
    let Constraint { deferrable, not_valid, no_inherit, .. } = *constraint;
    let (kind, checked_later, inherited, deferred) = match &constraint.kind {
        ConstraintKind::Check(..) => ("CHECK", false, false, deferrable || constraint.deferred),
        ConstraintKind::ForeignKey(..) => ("FOREIGN KEY", false, no_inherit, false),
        ConstraintKind::PrimaryKey(..) => ("PRIMARY KEY", not_valid, no_inherit, false),
        ConstraintKind::UsingIndex { primary: true, .. } => ("PRIMARY KEY", not_valid, no_inherit, false),
        _ => ("UNIQUE", not_valid, no_inherit, false),
    };
    let said = [(deferred, "DEFERRABLE"), (checked_later, "NOT VALID"), (inherited, "NO INHERIT")];
    said.into_iter().find(|(is_said, _)| *is_said).map(|(_, what)| marked(kind, what))
}
