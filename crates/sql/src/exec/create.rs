//! CREATE TABLE, CREATE INDEX, CREATE TABLE AS: tables with their sequences, indexes and constraints.

use std::sync::Arc;

use super::session::LocalSession;
use super::store::Store;
use crate::catalog::object::{
    Action, BOOTSTRAP_ROLE, Column, Constraint, Expression, Identity, Index, IndexColumn, Indexed, Object,
    Placing, RowsAt, Rule, Table,
};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::ast::{self, ColumnDef, ConstraintKind, Ident, Path, Statement, TableElement};
use crate::session::Sink;
use crate::storage::classes::{ClassSize, ObjectId};
use crate::types::{Oid, Type, oid};

/// A name of PostgreSQL's form `table_column_suffix`, cut to 63 bytes.
fn joined(table: &str, columns: &str, suffix: &str) -> String {
    let (mut table, mut columns) = (table.to_string(), columns.to_string());
    let between = 1 + usize::from(!columns.is_empty());
    while table.len() + columns.len() + between + suffix.len() > 63 {
        if table.len() > columns.len() {
            table.pop()
        } else {
            columns.pop()
        };
    }
    if columns.is_empty() { format!("{table}_{suffix}") } else { format!("{table}_{columns}_{suffix}") }
}

pub(super) fn duplicate_column(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_COLUMN, format!("column \"{name}\" specified more than once"))
}

impl<S: Store> LocalSession<S> {
    /// A table without columns.
    fn empty_table(&self, schema: Oid, name: &str) -> Result<Table> {
        let oid = self.store.new_oid()?;
        Ok(Table {
            oid,
            name: name.to_string(),
            schema,
            owner: BOOTSTRAP_ROLE,
            columns: Vec::new(),
            key: Vec::new(),
            placing: Placing::default(),
            rows: RowsAt { object: ObjectId(oid), size: ClassSize { words: 2, body: 16 } },
            overflow: None,
            constraints: Vec::new(),
            row_type: 0,
            grants: Vec::new(),
            options: Vec::new(),
            comment: None,
        })
    }

    pub(super) fn create_table(&mut self, ast: &ast::CreateTable) -> Result<()> {
        if let Some(what) = ast.unsupported {
            return Err(SqlError::unsupported(what));
        }
        let schema = self.target_schema(&ast.name)?;
        if self.relation_exists(schema, ast.name.last(), ast.if_not_exists)? {
            return Ok(());
        }
        let mut table = self.empty_table(schema, ast.name.last())?;
        table.options = ast.options.clone();
        let mut constraints = Vec::new();
        for element in &ast.elements {
            match element {
                TableElement::Column(column) => self.add_column(&mut table, column, &mut constraints)?,
                TableElement::Constraint(constraint) => constraints.push(constraint.clone()),
                TableElement::Like(path, options) => self.like(&mut table, path, options)?,
            }
        }
        for constraint in constraints.iter().filter(|c| matches!(c.kind, ConstraintKind::PrimaryKey(_))) {
            if let ConstraintKind::PrimaryKey(names) = &constraint.kind {
                let columns = self.columns_named(&table, names)?;
                columns.iter().for_each(|at| table.columns[usize::from(*at)].not_null = true);
                table.key = columns;
            }
        }
        self.store.create(Object::Table(table.clone()))?;
        for constraint in &constraints {
            self.add_constraint(&mut table, constraint, false)?;
        }
        self.with_binder(|binder| {
            let table = Arc::new(table.clone());
            binder.target(&table)?;
            (0..table.columns.len()).try_for_each(|at| binder.default_of(&table, at).map(|_| ()))
        })
    }

    fn like(&self, table: &mut Table, path: &Path, options: &[(bool, String)]) -> Result<()> {
        let source = self.with_binder(|binder| binder.target_table(path))?;
        let including = |what: &str| {
            let last = options.iter().rev().find(|(_, name)| name == what || name == "all");
            last.is_some_and(|(including, _)| *including)
        };
        for column in source.columns.iter().filter(|column| !column.dropped) {
            let mut copy = Column::new(&column.name, column.ty());
            copy.not_null = column.not_null;
            if including("defaults") {
                copy.default = column.default.clone();
            }
            if including("generated") {
                copy.generated = column.generated.clone();
            }
            table.columns.push(copy);
        }
        if including("constraints") {
            for constraint in &source.constraints {
                if let Rule::Check { .. } = constraint.rule {
                    table.constraints.push(Constraint { oid: self.store.new_oid()?, ..constraint.clone() });
                }
            }
        }
        Ok(())
    }

    /// Adds a column; what its definition says about keys and checks goes to `constraints`.
    pub(super) fn add_column(
        &self,
        table: &mut Table,
        ast: &ColumnDef,
        constraints: &mut Vec<ast::Constraint>,
    ) -> Result<()> {
        let name = &ast.name.text;
        if table.columns.iter().any(|column| !column.dropped && column.name == *name) {
            return Err(duplicate_column(name));
        }
        let (ty, serial) = self.column_type(&ast.type_name)?;
        if crate::types::builtin(ty.oid).is_some_and(|info| info.kind == crate::types::TypeKind::Pseudo) {
            let shown = crate::types::format_builtin(ty).unwrap_or_default();
            let message = format!("column \"{name}\" has pseudo-type {shown}");
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        let mut column = Column::new(name, ty);
        let at = table.columns.len() as u16;
        if serial {
            let sequence = self.owned_sequence(table, name, at, ty.oid, &[])?;
            let sql = format!("nextval('{}'::regclass)", sequence.1.replace('\'', "''"));
            column.default = Some(Expression { sql, depends: vec![sequence.0] });
            column.not_null = true;
        }
        for constraint in &ast.constraints {
            let own = || vec![ast.name.clone()];
            let mut table_constraint = constraint.clone();
            match &constraint.kind {
                ConstraintKind::NotNull => column.not_null = true,
                ConstraintKind::Null => {}
                ConstraintKind::Default(expr, sql) => {
                    column.default = Some(Expression { sql: sql.clone(), depends: self.depends(expr) });
                }
                ConstraintKind::Generated(_, sql) => {
                    column.generated = Some(Expression { sql: sql.clone(), depends: Vec::new() });
                }
                ConstraintKind::Identity { always, options } => {
                    let sequence = self.owned_sequence(table, name, at, ty.oid, options)?.0;
                    column.identity = Some(Identity { always: *always, sequence });
                    column.not_null = true;
                }
                ConstraintKind::PrimaryKey(_) => table_constraint.kind = ConstraintKind::PrimaryKey(own()),
                ConstraintKind::Unique(_) => table_constraint.kind = ConstraintKind::Unique(own()),
                ConstraintKind::ForeignKey(_, references) => {
                    table_constraint.kind = ConstraintKind::ForeignKey(own(), references.clone());
                }
                ConstraintKind::Check(..) | ConstraintKind::UsingIndex { .. } => {
                    if table_constraint.name.is_none() {
                        let taken = |c: &ast::Constraint, name: &str| c.name.as_deref() == Some(name);
                        let base = joined(&table.name, name, "check");
                        let mut unique = base.clone();
                        let mut number = 0;
                        while constraints.iter().any(|other| taken(other, &unique)) {
                            number += 1;
                            unique = format!("{base}{number}");
                        }
                        table_constraint.name = Some(unique);
                    }
                }
            }
            let whole = matches!(
                constraint.kind,
                ConstraintKind::PrimaryKey(_)
                    | ConstraintKind::Unique(_)
                    | ConstraintKind::ForeignKey(..)
                    | ConstraintKind::Check(..)
            );
            if whole {
                constraints.push(table_constraint);
            }
        }
        table.columns.push(column);
        Ok(())
    }

    /// Sequences that an expression names.
    fn depends(&self, expr: &ast::Expr) -> Vec<Oid> {
        let ast::Kind::Func(call) = &expr.kind else { return Vec::new() };
        let Some(arg) = call.args.first().filter(|_| call.name.last() == "nextval") else {
            return Vec::new();
        };
        let literal = match &arg.expr.kind {
            ast::Kind::Str(text) => text,
            ast::Kind::Cast(inner, _) => match &inner.kind {
                ast::Kind::Str(text) => text,
                _ => return Vec::new(),
            },
            _ => return Vec::new(),
        };
        let found = crate::parse::parse_path(literal).ok().and_then(|path| self.find(&path).ok().flatten());
        found.map(|object| object.oid()).into_iter().collect()
    }

    fn owned_sequence(
        &self,
        table: &Table,
        column: &str,
        at: u16,
        ty: Oid,
        options: &[ast::SequenceOption],
    ) -> Result<(Oid, String)> {
        let name = self.free_name(table.schema, &joined(&table.name, column, "seq"));
        let mut sequence = self.new_sequence(table.schema, &name, ty, options)?;
        sequence.owned_by = Some((table.oid, at));
        let oid = sequence.oid;
        self.store.create(Object::Sequence(sequence))?;
        Ok((oid, super::system::quoted(&name)))
    }

    pub(super) fn columns_named(&self, table: &Table, names: &[Ident]) -> Result<Vec<u16>> {
        let mut numbers = Vec::new();
        for name in names {
            let Some(at) = table.columns.iter().position(|c| !c.dropped && c.name == name.text) else {
                let message = format!("column \"{}\" named in key does not exist", name.text);
                return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message).at(name.pos + 1));
            };
            if numbers.contains(&(at as u16)) {
                let message = format!("column \"{}\" appears twice in primary key constraint", name.text);
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message).at(name.pos + 1));
            }
            numbers.push(at as u16);
        }
        Ok(numbers)
    }

    fn constraint_name(
        &self,
        table: &Table,
        given: Option<&String>,
        columns: &str,
        suffix: &str,
    ) -> Result<String> {
        if let Some(name) = given {
            if table.constraints.iter().any(|constraint| constraint.name == *name) {
                let message = format!("constraint \"{name}\" for relation \"{}\" already exists", table.name);
                return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
            }
            return Ok(name.clone());
        }
        let base = joined(&table.name, columns, suffix);
        let mut name = base.clone();
        let mut number = 0;
        let taken = |name: &str| {
            table.constraints.iter().any(|constraint| constraint.name == name)
                || (suffix != "check"
                    && suffix != "fkey"
                    && self.store.relation(table.schema, name).is_some())
        };
        while taken(&name) {
            number += 1;
            name = format!("{base}{number}");
        }
        Ok(name)
    }

    /// Adds a constraint to a table that is in the catalog; `check`: its rows are looked at.
    pub(super) fn add_constraint(
        &mut self,
        table: &mut Table,
        ast: &ast::Constraint,
        check: bool,
    ) -> Result<()> {
        let names = |table: &Table, columns: &[u16]| {
            columns
                .iter()
                .map(|at| table.columns[usize::from(*at)].name.as_str())
                .collect::<Vec<_>>()
                .join("_")
        };
        let oid = self.store.new_oid()?;
        let (name, rule) = match &ast.kind {
            ConstraintKind::PrimaryKey(list) | ConstraintKind::Unique(list) => {
                let primary = matches!(ast.kind, ConstraintKind::PrimaryKey(_));
                let has = |c: &Constraint| matches!(c.rule, Rule::PrimaryKey { .. });
                if primary && table.constraints.iter().any(has) {
                    let message =
                        format!("multiple primary keys for table \"{}\" are not allowed", table.name);
                    return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
                }
                let columns = self.columns_named(table, list)?;
                let shown = if primary { String::new() } else { names(table, &columns) };
                let suffix = if primary { "pkey" } else { "key" };
                let name = self.constraint_name(table, ast.name.as_ref(), &shown, suffix)?;
                if self.store.relation(table.schema, &name).is_some() {
                    let message = format!("relation \"{name}\" already exists");
                    return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
                }
                if primary {
                    for at in &columns {
                        if check {
                            self.check_not_null(table, usize::from(*at))?;
                        }
                        table.columns[usize::from(*at)].not_null = true;
                    }
                    self.store.replace(Object::Table(table.clone()))?;
                }
                let parts = columns.iter().map(|at| IndexColumn::of(*at)).collect();
                let index = self.new_index(table, &name, parts, true, primary)?;
                let rule = match primary {
                    true => Rule::PrimaryKey { columns, index },
                    false => Rule::Unique { columns, index },
                };
                (name, rule)
            }
            ConstraintKind::Check(expr, sql) => {
                let shown = self.only_column(table, expr);
                let name = self.constraint_name(table, ast.name.as_ref(), &shown, "check")?;
                let condition = Expression { sql: sql.clone(), depends: Vec::new() };
                (name, Rule::Check { condition })
            }
            ConstraintKind::ForeignKey(list, references) => self.foreign_key(table, ast, list, references)?,
            ConstraintKind::UsingIndex { .. } => return Err(SqlError::unsupported("USING INDEX")),
            _ => return Ok(()),
        };
        let (deferrable, deferred) = (ast.deferrable, ast.deferred);
        let constraint =
            Constraint { oid, name, rule, deferrable, deferred, not_valid: ast.not_valid, comment: None };
        table.constraints.push(constraint.clone());
        self.store.replace(Object::Table(table.clone()))?;
        if check && !ast.not_valid {
            self.check_rows(table, &constraint)?;
        } else if let Rule::Check { .. } = constraint.rule {
            self.with_binder(|binder| binder.target(&Arc::new(table.clone())).map(|_| ()))?;
        }
        Ok(())
    }

    /// The column that a check is about, if it is about one.
    fn only_column(&self, table: &Table, expr: &ast::Expr) -> String {
        let mut found = Vec::new();
        let shared = Arc::new(table.clone());
        let bound = self.with_binder(|binder| binder.table_ast(&shared, expr, None));
        if let Ok(mut bound) = bound {
            bound.expr.walk(0, &mut |part, _| {
                if let crate::bind::tree::Expr::Column { slot, .. } = part
                    && !found.contains(slot)
                {
                    found.push(*slot);
                }
                false
            });
        }
        match found.as_slice() {
            [only] => table.columns[*only].name.clone(),
            _ => String::new(),
        }
    }

    fn foreign_key(
        &self,
        table: &Table,
        ast: &ast::Constraint,
        list: &[Ident],
        references: &ast::References,
    ) -> Result<(String, Rule)> {
        let mut columns = Vec::new();
        for name in list {
            let found = table.columns.iter().position(|c| !c.dropped && c.name == name.text);
            columns.push(found.map(|at| at as u16).ok_or_else(|| {
                let message =
                    format!("column \"{}\" referenced in foreign key constraint does not exist", name.text);
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            })?);
        }
        let parent = self.with_binder(|binder| binder.target_table(&references.table))?;
        let parent = if parent.oid == table.oid { Arc::new(table.clone()) } else { parent };
        let (wanted, index) = self.referenced(&parent, &references.columns)?;
        if wanted.len() != columns.len() {
            let message = "number of referencing and referenced columns for foreign key disagree";
            return Err(SqlError::new(SqlState::INVALID_FOREIGN_KEY, message));
        }
        let shown = columns
            .iter()
            .map(|at| table.columns[usize::from(*at)].name.as_str())
            .collect::<Vec<_>>()
            .join("_");
        let name = self.constraint_name(table, ast.name.as_ref(), &shown, "fkey")?;
        for (own, other) in columns.iter().zip(&wanted) {
            let (own, other) = (&table.columns[usize::from(*own)], &parent.columns[usize::from(*other)]);
            if self.with_binder(|binder| binder.head("=", other.type_oid, own.type_oid, 0)).is_err() {
                let message = format!("foreign key constraint \"{name}\" cannot be implemented");
                let shown = |ty: Type| {
                    self.with_binder(|b| Ok(crate::bind::type_text(b.types(), ty.oid))).unwrap_or_default()
                };
                let detail = format!(
                    "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                    own.name,
                    other.name,
                    shown(own.ty()),
                    shown(other.ty())
                );
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).detail(detail));
            }
        }
        let action = |action: ast::Action| match action {
            ast::Action::Nothing => Action::NoAction,
            ast::Action::Restrict => Action::Restrict,
            ast::Action::Cascade => Action::Cascade,
            ast::Action::SetNull => Action::SetNull,
            ast::Action::SetDefault => Action::SetDefault,
        };
        let (on_delete, on_update) = (action(references.on_delete), action(references.on_update));
        let (table, references, full) = (parent.oid, wanted, references.match_full);
        Ok((name, Rule::ForeignKey { columns, table, references, index, on_delete, on_update, full }))
    }

    /// The columns that a foreign key refers to, and the unique index over them.
    fn referenced(&self, parent: &Table, names: &[Ident]) -> Result<(Vec<u16>, Oid)> {
        if names.is_empty() {
            let key = parent.constraints.iter().find_map(|constraint| match &constraint.rule {
                Rule::PrimaryKey { columns, index } => Some((columns.clone(), *index)),
                _ => None,
            });
            return key.ok_or_else(|| {
                let message = format!("there is no primary key for referenced table \"{}\"", parent.name);
                SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            });
        }
        let mut wanted = Vec::new();
        for name in names {
            let found = parent.columns.iter().position(|c| !c.dropped && c.name == name.text);
            wanted.push(found.map(|at| at as u16).ok_or_else(|| {
                let message =
                    format!("column \"{}\" referenced in foreign key constraint does not exist", name.text);
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            })?);
        }
        let mut sorted = wanted.clone();
        sorted.sort_unstable();
        for index in self.store.indexes(parent.oid) {
            let mut columns: Vec<u16> = Vec::new();
            for column in &index.columns {
                if let Indexed::Column(at) = column.of {
                    columns.push(at);
                }
            }
            let plain = columns.len() == index.columns.len();
            columns.sort_unstable();
            if index.unique && index.predicate.is_none() && plain && columns == sorted {
                return Ok((wanted, index.oid));
            }
        }
        let message = format!(
            "there is no unique constraint matching given keys for referenced table \"{}\"",
            parent.name
        );
        Err(SqlError::new(SqlState::INVALID_FOREIGN_KEY, message))
    }

    /// Makes an index over a table of the catalog and fills it.
    pub(super) fn new_index(
        &self,
        table: &Table,
        name: &str,
        columns: Vec<IndexColumn>,
        unique: bool,
        primary: bool,
    ) -> Result<Oid> {
        let oid = self.store.new_oid()?;
        let index = Index {
            oid,
            name: name.to_string(),
            schema: table.schema,
            table: table.oid,
            columns,
            include: Vec::new(),
            unique,
            nulls_not_distinct: false,
            primary,
            predicate: None,
            method: "btree".to_string(),
            rows: None,
            valid: true,
            comment: None,
        };
        self.install_index(table, index)?;
        Ok(oid)
    }

    fn install_index(&self, table: &Table, index: Index) -> Result<()> {
        self.store.create(Object::Index(index.clone()))?;
        self.store.build(&Arc::new(table.clone()), &Arc::new(index))
    }

    pub(super) fn create_index(&mut self, ast: &ast::CreateIndex) -> Result<()> {
        let table = self.with_binder(|binder| binder.target_table(&ast.table))?;
        let mut parts = Vec::new();
        let mut shown = Vec::new();
        for column in &ast.columns {
            let nulls_first = column.nulls_first.unwrap_or(column.descending);
            let of = match (&column.text, &column.expr.kind) {
                (None, ast::Kind::Column(names)) => {
                    let found = table.columns.iter().position(|c| !c.dropped && c.name == names[0]);
                    let Some(at) = found else {
                        let message = format!("column \"{}\" does not exist", names[0]);
                        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
                    };
                    shown.push(names[0].clone());
                    Indexed::Column(at as u16)
                }
                (text, _) => {
                    let typed = self.with_binder(|binder| {
                        binder.table_ast(&table, &column.expr, None).and_then(|typed| binder.settled(typed))
                    })?;
                    shown.push(match &column.expr.kind {
                        ast::Kind::Func(call) => call.name.last().to_string(),
                        _ => "expr".to_string(),
                    });
                    let expression =
                        Expression { sql: text.clone().unwrap_or_default(), depends: Vec::new() };
                    Indexed::Expression { expression, type_oid: typed.ty.oid, modifier: typed.ty.modifier }
                }
            };
            parts.push(IndexColumn { of, descending: column.descending, nulls_first });
        }
        let name = match &ast.name {
            Some(name) => {
                if self.relation_exists(table.schema, &name.text, ast.if_not_exists)? {
                    return Ok(());
                }
                name.text.clone()
            }
            None => self.free_name(table.schema, &joined(&table.name, &shown.join("_"), "idx")),
        };
        let predicate = match &ast.filter {
            None => None,
            Some((expr, sql)) => {
                self.with_binder(|binder| {
                    let typed = binder.table_ast(&table, expr, None)?;
                    binder.boolean(typed, "WHERE").map(|_| ())
                })?;
                Some(Expression { sql: sql.clone(), depends: Vec::new() })
            }
        };
        let index = Index {
            oid: self.store.new_oid()?,
            name,
            schema: table.schema,
            table: table.oid,
            columns: parts,
            include: self.columns_named(&table, &ast.include)?,
            unique: ast.unique,
            nulls_not_distinct: false,
            primary: false,
            predicate,
            method: ast.method.clone(),
            rows: None,
            valid: true,
            comment: None,
        };
        self.install_index(&table, index)
    }

    pub(super) fn create_table_as(&mut self, statement: &Statement, _sink: &mut dyn Sink) -> Result<String> {
        let Statement::CreateTableAs { name, columns, if_not_exists, query, with_data, materialized, .. } =
            statement
        else {
            return Err(SqlError::unsupported("this statement"));
        };
        if *materialized {
            return Err(SqlError::unsupported("CREATE MATERIALIZED VIEW"));
        }
        self.fill_table(name, columns, *if_not_exists, query, *with_data)
    }

    /// SELECT .. INTO: CREATE TABLE AS in its older form.
    pub(super) fn select_into(&mut self, query: &ast::Query) -> Result<String> {
        self.ensure_open()?;
        let mut query = query.clone();
        let ast::Body::Select(select) = &mut query.body else {
            return Err(SqlError::unsupported("INTO here"));
        };
        let Some(name) = select.into.take() else { return Err(SqlError::unsupported("INTO here")) };
        self.fill_table(&name, &[], false, &Statement::Query(query), true)
    }

    fn fill_table(
        &mut self,
        path: &Path,
        names: &[Ident],
        fine: bool,
        query: &Statement,
        with_data: bool,
    ) -> Result<String> {
        let schema = self.target_schema(path)?;
        if self.relation_exists(schema, path.last(), fine)? {
            return Ok("CREATE TABLE AS".to_string());
        }
        let (plan, _) = self.plan(query, Vec::new())?;
        let columns = plan.columns().unwrap_or_default().to_vec();
        if names.len() > columns.len() {
            let message = "too many column names were specified";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let mut table = self.empty_table(schema, path.last())?;
        for (at, column) in columns.iter().enumerate() {
            let name = names.get(at).map_or(&column.name, |name| &name.text);
            if table.columns.iter().any(|other| other.name == *name) {
                return Err(duplicate_column(name));
            }
            let ty = if column.ty.oid == oid::UNKNOWN { Type::of(oid::TEXT) } else { column.ty };
            table.columns.push(Column::new(name, ty));
        }
        self.store.create(Object::Table(table.clone()))?;
        if !with_data {
            return Ok("CREATE TABLE AS".to_string());
        }
        let (rows, count) = self.rows_of(&plan, &[])?;
        let table = Arc::new(table);
        for row in rows {
            self.store.insert(&table, &row, super::store::Tolerated::None)?;
        }
        Ok(format!("SELECT {count}"))
    }
}
