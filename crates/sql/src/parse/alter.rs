//! ALTER.

use super::ast::{AlterColumn, AlterDomain, AlterRole, AlterTable, ObjectKind, Path, Statement, Storing};
use super::lexer::Tok;
use super::{Parser, Res};
use crate::error::SqlError;
use crate::missing;

impl Parser<'_> {
    pub(super) fn alter(&mut self) -> Res<Statement> {
        self.expect_word("alter")?;
        if self.accept_words(&["default", "privileges"]) {
            return self.default_privileges();
        }
        if let Some(missing) = self.missing("ALTER") {
            return Ok(missing);
        }
        let start = self.at;
        let kind = self.object_kind()?;
        match kind {
            ObjectKind::Role => self.alter_role(),
            ObjectKind::Type | ObjectKind::Domain => self.alter_type(kind),
            ObjectKind::Sequence => self.alter_sequence(),
            ObjectKind::Table | ObjectKind::View | ObjectKind::MaterializedView | ObjectKind::Index => {
                let if_exists = self.if_exists();
                self.accept_word("only");
                let name = self.path()?;
                self.accept_op("*");
                let may_depend = matches!(kind, ObjectKind::MaterializedView | ObjectKind::Index);
                if may_depend && (self.is_word("depends") || self.are_words(&["no", "depends"])) {
                    self.skip_statement();
                    let refusal = SqlError::unsupported("DEPENDS ON EXTENSION", missing::EXTENSIONS);
                    return Ok(Statement::Unsupported(refusal));
                }
                let actions = self.list(Parser::alter_action)?;
                Ok(Statement::AlterTable { kind, name, if_exists, actions })
            }
            ObjectKind::Schema => {
                let name = self.path()?;
                let action = self.alter_action()?;
                Ok(Statement::AlterTable { kind, name, if_exists: false, actions: vec![action] })
            }
            _ => {
                self.at = start;
                self.error()
            }
        }
    }

    fn alter_role(&mut self) -> Res<Statement> {
        let name = self.label()?.text;
        if self.accept_words(&["in", "database"]) {
            self.label()?;
        }
        let change = if self.accept_words(&["rename", "to"]) {
            AlterRole::Rename(self.label()?.text)
        } else if self.accept_word("set") {
            let Statement::Set { name, value, .. } = self.set_rest(false)? else { return self.error() };
            AlterRole::Setting(Some(name), Some(value))
        } else if self.accept_word("reset") {
            let name = if self.accept_word("all") { None } else { Some(self.setting_name()?) };
            AlterRole::Setting(name, None)
        } else if self.is_any(&["add", "drop"]) {
            let adds = self.is_word("add");
            self.advance();
            self.expect_word("user")?;
            AlterRole::Members(self.role_names()?, adds)
        } else {
            AlterRole::Options(self.role_options()?)
        };
        Ok(Statement::AlterRole { name, change })
    }

    /// `ALTER DEFAULT PRIVILEGES [FOR ROLE ..] [IN SCHEMA ..] GRANT ..`.
    fn default_privileges(&mut self) -> Res<Statement> {
        let (mut roles, mut schemas) = (Vec::new(), Vec::new());
        loop {
            if self.accept_words(&["for", "role"]) || self.accept_words(&["for", "user"]) {
                roles = self.role_names()?;
            } else if self.accept_words(&["in", "schema"]) {
                schemas = self.role_names()?;
            } else {
                break;
            }
        }
        let gives = self.is_word("grant");
        if !gives && !self.is_word("revoke") {
            return self.error();
        }
        self.advance();
        self.grant(gives, Some((roles, schemas)))
    }

    fn alter_type(&mut self, kind: ObjectKind) -> Res<Statement> {
        let name = self.path()?;
        if self.accept_words(&["add", "value"]) {
            let if_not_exists = self.if_not_exists();
            let label = self.string()?;
            let place = if self.accept_word("before") {
                Some((true, self.string()?))
            } else if self.accept_word("after") {
                Some((false, self.string()?))
            } else {
                None
            };
            return Ok(Statement::AlterTypeAddValue { name, if_not_exists, label, place });
        }
        if self.accept_words(&["rename", "value"]) {
            let from = self.string()?;
            self.expect_word("to")?;
            let to = self.string()?;
            return Ok(Statement::AlterTypeRenameValue { name, from, to });
        }
        if kind == ObjectKind::Domain
            && let Some(change) = self.domain_change()?
        {
            return Ok(Statement::AlterDomain(name, change));
        }
        if self.are_words(&["rename", "to"])
            || self.are_words(&["owner", "to"])
            || self.are_words(&["set", "schema"])
        {
            let action = self.alter_action()?;
            return Ok(Statement::AlterTable { kind, name, if_exists: false, actions: vec![action] });
        }
        self.skip_statement();
        let what = format_args!("this form of ALTER {}", kind.word().to_uppercase());
        Ok(Statement::Unsupported(SqlError::unsupported(what, missing::REMAKE)))
    }

    fn domain_change(&mut self) -> Res<Option<AlterDomain>> {
        Ok(Some(if self.accept_words(&["set", "default"]) {
            let from = self.pos();
            let expr = self.expr()?;
            AlterDomain::Default(Some((expr, self.text_since(from))))
        } else if self.accept_words(&["drop", "default"]) {
            AlterDomain::Default(None)
        } else if self.accept_words(&["set", "not", "null"]) {
            AlterDomain::NotNull(true)
        } else if self.accept_words(&["drop", "not", "null"]) {
            AlterDomain::NotNull(false)
        } else if self.accept_word("add") {
            match self.table_constraint()? {
                Some(constraint) => AlterDomain::Add(constraint),
                None => return self.error(),
            }
        } else if self.accept_words(&["drop", "constraint"]) {
            let if_exists = self.if_exists();
            let name = self.name()?;
            self.cascade();
            AlterDomain::Drop { if_exists, name }
        } else if self.accept_words(&["validate", "constraint"]) {
            AlterDomain::Validate(self.name()?)
        } else if self.accept_words(&["rename", "constraint"]) {
            let from = self.name()?;
            self.expect_word("to")?;
            AlterDomain::RenameConstraint(from, self.name()?)
        } else {
            return Ok(None);
        }))
    }

    fn alter_sequence(&mut self) -> Res<Statement> {
        let if_exists = self.if_exists();
        let name = self.path()?;
        if self.is_any(&["rename", "owner"]) || self.are_words(&["set", "schema"]) {
            let actions = vec![self.alter_action()?];
            return Ok(Statement::AlterTable { kind: ObjectKind::Sequence, name, if_exists, actions });
        }
        let options = self.sequence_options()?;
        Ok(Statement::AlterSequence { name, if_exists, options })
    }

    fn alter_action(&mut self) -> Res<AlterTable> {
        if self.accept_word("add") {
            if let Some(constraint) = self.table_constraint()? {
                return Ok(AlterTable::AddConstraint(constraint));
            }
            self.accept_word("column");
            let if_not_exists = self.if_not_exists();
            let column = self.column_def()?;
            return Ok(AlterTable::AddColumn { if_not_exists, column });
        }
        if self.accept_word("drop") {
            let constraint = self.accept_word("constraint");
            self.accept_word("column");
            let if_exists = self.if_exists();
            let name = self.name()?;
            let cascade = self.cascade();
            return Ok(match constraint {
                true => AlterTable::DropConstraint { if_exists, name, cascade },
                false => AlterTable::DropColumn { if_exists, name, cascade },
            });
        }
        if self.accept_word("alter") {
            if self.accept_word("constraint") {
                return self.alter_constraint();
            }
            self.accept_word("column");
            let name = self.name()?;
            return Ok(AlterTable::Column(name, self.alter_column()?));
        }
        if self.accept_words(&["validate", "constraint"]) {
            return Ok(AlterTable::ValidateConstraint(self.name()?));
        }
        if self.accept_word("rename") {
            return self.rename();
        }
        if self.accept_words(&["set", "schema"]) {
            return Ok(AlterTable::SetSchema(self.name()?));
        }
        if self.accept_words(&["owner", "to"]) {
            return Ok(AlterTable::Owner(self.label()?));
        }
        self.alter_storage()
    }

    /// What is neither columns nor constraints nor names.
    fn alter_storage(&mut self) -> Res<AlterTable> {
        if self.is_any(&["attach", "detach", "inherit"]) {
            let hint = if self.is_word("inherit") { missing::INHERITANCE } else { missing::PARTITIONS };
            return Err(SqlError::unsupported("partitioned and inheriting tables", hint));
        }
        // To be let in and not kept out would be worse than to be refused.
        if self.are_words(&["enable", "row"]) || self.are_words(&["force", "row"]) {
            return Err(SqlError::unsupported("ROW LEVEL SECURITY", missing::ROW_SECURITY));
        }
        if self.accept_words(&["disable", "row", "level", "security"])
            || self.accept_words(&["no", "force", "row", "level", "security"])
            || self.accept_words(&["set", "without", "oids"])
        {
            return Ok(AlterTable::Nothing);
        }
        if self.accept_words(&["set", "without", "cluster"]) {
            return Ok(AlterTable::WithoutCluster);
        }
        for (word, logged) in [("logged", true), ("unlogged", false)] {
            if self.accept_words(&["set", word]) {
                return Ok(AlterTable::Logged(logged));
            }
        }
        if self.accept_words(&["no", "inherit"]) {
            return Ok(AlterTable::NoInherit(self.path()?));
        }
        if self.accept_words(&["cluster", "on"]) {
            return Ok(AlterTable::ClusterOn(self.name()?));
        }
        if self.accept_words(&["replica", "identity"]) {
            if self.accept_words(&["using", "index"]) {
                self.name()?;
            } else if !self.accept_any(&["default", "full", "nothing"]) {
                return self.error();
            }
            return Ok(AlterTable::Nothing);
        }
        if self.is_any(&["enable", "disable"]) {
            return self.switch();
        }
        if self.accept_word("reset") {
            return Ok(AlterTable::ResetOptions(self.storage_options()?));
        }
        self.expect_word("set")?;
        let mut storing = Storing::default();
        if self.accept_word("tablespace") {
            storing.tablespace = Some(self.name()?.text);
        } else if self.accept_words(&["access", "method"]) {
            storing.method = Some(self.name()?.text);
        } else if self.is('(') {
            storing.options = self.storage_options()?;
        } else {
            return self.error();
        }
        Ok(AlterTable::Store(storing))
    }

    fn switch(&mut self) -> Res<AlterTable> {
        let enable = self.is_word("enable");
        self.advance();
        if enable {
            self.accept_any(&["replica", "always"]);
        }
        if self.accept_word("rule") {
            return Ok(AlterTable::SwitchRule { enable, name: self.name()? });
        }
        self.expect_word("trigger")?;
        let (all, user) = (self.accept_word("all"), self.accept_word("user"));
        let name = if all || user { None } else { Some(self.name()?) };
        Ok(AlterTable::Triggers { enable, name, keys: all })
    }

    fn rename(&mut self) -> Res<AlterTable> {
        if self.accept_word("to") {
            return Ok(AlterTable::Rename(self.name()?));
        }
        let constraint = self.accept_word("constraint");
        self.accept_word("column");
        let from = self.name()?;
        self.expect_word("to")?;
        let to = self.name()?;
        Ok(match constraint {
            true => AlterTable::RenameConstraint(from, to),
            false => AlterTable::RenameColumn(from, to),
        })
    }

    fn alter_column(&mut self) -> Res<AlterColumn> {
        if self.accept_words(&["set", "default"]) {
            let from = self.pos();
            let expr = self.expr()?;
            return Ok(AlterColumn::SetDefault(expr, self.text_since(from)));
        }
        if self.accept_words(&["drop", "default"]) {
            return Ok(AlterColumn::DropDefault);
        }
        if self.accept_words(&["set", "not", "null"]) {
            return Ok(AlterColumn::SetNotNull);
        }
        if self.accept_words(&["drop", "not", "null"]) {
            return Ok(AlterColumn::DropNotNull);
        }
        if self.accept_words(&["drop", "identity"]) {
            return Ok(AlterColumn::DropIdentity { if_exists: self.if_exists() });
        }
        let sets = |parser: &Self| {
            parser.is_word("restart")
                || parser.is_word("set")
                    && ["generated", "increment", "start", "minvalue", "maxvalue", "no", "cycle", "cache"]
                        .iter()
                        .any(|word| parser.are_words(&["set", word]))
        };
        if sets(self) {
            let (mut always, mut options) = (None, Vec::new());
            while sets(self) {
                if self.accept_words(&["set", "generated"]) {
                    always = Some(self.accept_word("always"));
                    if always == Some(false) {
                        self.expect_words(&["by", "default"])?;
                    }
                } else {
                    options.extend(self.sequence_option()?);
                }
            }
            return Ok(AlterColumn::SetIdentity { always, options });
        }
        if self.accept_words(&["add", "generated"]) {
            let always = self.accept_word("always");
            if !always {
                self.expect_words(&["by", "default"])?;
            }
            self.expect_words(&["as", "identity"])?;
            let mut options = Vec::new();
            if self.accept('(') {
                options = self.sequence_options()?;
                self.expect(')')?;
            }
            return Ok(AlterColumn::AddIdentity { always, options });
        }
        if self.accept_words(&["set", "data"]) || self.is_word("type") {
            self.expect_word("type")?;
            let name = self.type_name()?;
            let collation = if self.accept_word("collate") { Some(self.path()?) } else { None };
            let using = if self.accept_word("using") {
                let from = self.pos();
                let expr = self.expr()?;
                Some((expr, self.text_since(from)))
            } else {
                None
            };
            return Ok(AlterColumn::Type { name, collation, using });
        }
        if self.accept_words(&["set", "compression"]) {
            return Ok(AlterColumn::Compression(self.label()?.text));
        }
        if self.accept_words(&["set", "storage"]) {
            return Ok(AlterColumn::Storage(self.label()?.text));
        }
        if self.accept_words(&["set", "statistics"]) {
            return Ok(AlterColumn::Statistics(self.integer()?));
        }
        self.error()
    }

    /// COMMENT ON.
    pub(super) fn comment(&mut self) -> Res<Statement> {
        self.expect_words(&["comment", "on"])?;
        if let Some(missing) = self.missing("COMMENT ON") {
            return Ok(missing);
        }
        let word = match self.peek() {
            Tok::Word(word) => word.clone(),
            _ => String::new(),
        };
        let kind = self.object_kind()?;
        let mut name = self.path()?;
        let (mut of, mut arguments) = (None, None);
        if matches!(kind, ObjectKind::Constraint | ObjectKind::Trigger) {
            self.expect_word("on")?;
            of = Some(self.path()?);
        } else if kind == ObjectKind::Column {
            let column = name.parts.pop().unwrap_or_default();
            of = Some(Path { parts: std::mem::replace(&mut name.parts, vec![column]), pos: name.pos });
        } else if kind == ObjectKind::Function {
            let mut types = Vec::new();
            if self.accept('(') {
                let any = !self.is(')') && !self.accept_op("*");
                types = if any { self.list(Parser::type_name)? } else { types };
                self.expect(')')?;
            }
            arguments = Some((word, types));
        }
        self.expect_word("is")?;
        let text = if self.accept_word("null") { None } else { Some(self.string()?) };
        Ok(Statement::Comment { kind, name, of, arguments, text })
    }
}
