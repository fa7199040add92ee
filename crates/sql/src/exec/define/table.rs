//! CREATE TABLE in its forms: columns and their sequences, LIKE, AS, and SELECT INTO.
use std::sync::Arc;

use crate::catalog::object::{
    Column, Constraint, Expression, Identity, Object, OnCommit, Placing, RowsAt, Rule, Table,
};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::store::{Store, Tolerated};
use crate::exec::system::quoted;
use crate::func::quote_literal;
use crate::parse::ast::{self, ColumnDef, ConstraintKind, Ident, Path, Statement, TableElement};
use crate::storage::classes::{ClassSize, ObjectId};
use crate::types::{Oid, Type, oid};

/// A name of PostgreSQL's form `table_column_suffix`, cut to 63 bytes.
pub(super) fn joined(table: &str, columns: &str, suffix: &str) -> String {
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
        let oid = self.store.new_oid(schema)?;
        let table = Table {
            oid,
            name: name.to_string(),
            schema,
            owner: self.role(),
            columns: Vec::new(),
            key: Vec::new(),
            placing: Placing::default(),
            rows: RowsAt { object: ObjectId(oid), size: ClassSize { words: 2, body: 16 } },
            overflow: None,
            constraints: Vec::new(),
            row_type: 0,
            grants: Vec::new(),
            options: Vec::new(),
            on_commit: OnCommit::default(),
            comment: None,
        };
        let grants = self.first_list(&Object::Table(table.clone()));
        Ok(Table { grants, ..table })
    }

    pub(super) fn create_table(&mut self, ast: &ast::CreateTable) -> Result<()> {
        if let Some(what) = ast.unsupported {
            return Err(SqlError::unsupported(what));
        }
        let schema = self.target_schema(&ast.name, ast.temporary)?;
        self.check_on_commit(schema, ast.on_commit)?;
        if self.relation_exists(schema, ast.name.last(), ast.if_not_exists)? {
            return Ok(());
        }
        let mut table = self.empty_table(schema, ast.name.last())?;
        table.options = ast.options.clone();
        table.on_commit = ast.on_commit.unwrap_or_default();
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
        self.settle_columns(&mut table)?;
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

    fn check_on_commit(&self, schema: Oid, on_commit: Option<OnCommit>) -> Result<()> {
        if on_commit.is_none() || self.is_temporary(schema) {
            return Ok(());
        }
        let message = "ON COMMIT can only be used on temporary tables";
        Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
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
                    table
                        .constraints
                        .push(Constraint { oid: self.store.new_oid(table.oid)?, ..constraint.clone() });
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
            let sql = format!("nextval({}::regclass)", quote_literal(&sequence.1));
            column.default = Some(Expression { depends: vec![sequence.0], ..Expression::plain(sql) });
            column.not_null = true;
        }
        for constraint in &ast.constraints {
            let own = || vec![ast.name.clone()];
            let mut table_constraint = constraint.clone();
            match &constraint.kind {
                ConstraintKind::NotNull => column.not_null = true,
                ConstraintKind::Null => {}
                ConstraintKind::Default(_, sql) => column.default = Some(self.lasting(table, sql)?),
                ConstraintKind::Generated(_, sql) => {
                    column.generated = Some(Expression::plain(sql.clone()));
                }
                ConstraintKind::Identity { always, options } => {
                    let sequence = self.owned_sequence(table, name, at, ty.oid, options)?.0;
                    column.identity = Some(Identity { always: *always, sequence });
                    column.not_null = true;
                }
                ConstraintKind::PrimaryKey(_) => table_constraint.kind = ConstraintKind::PrimaryKey(own()),
                ConstraintKind::Unique(_, equal) => {
                    table_constraint.kind = ConstraintKind::Unique(own(), *equal);
                }
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
                    | ConstraintKind::Unique(..)
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

    pub(super) fn owned_sequence(
        &self,
        table: &Table,
        column: &str,
        at: u16,
        ty: Oid,
        options: &[ast::SequenceOption],
    ) -> Result<(Oid, String)> {
        let told = options.iter().find_map(|option| match option {
            ast::SequenceOption::Name(path) => Some(path),
            _ => None,
        });
        let (in_schema, name) = match told {
            Some(path) => (self.target_schema(path, false)?, path.last().to_string()),
            None => (table.schema, self.free_name(table.schema, &joined(&table.name, column, "seq"))),
        };
        self.relation_exists(in_schema, &name, false)?;
        let mut sequence = self.new_sequence(in_schema, &name, ty, options)?;
        (sequence.owned_by, sequence.owner) = (Some((table.oid, at)), table.owner);
        sequence.grants = self.first_list(&Object::Sequence(sequence.clone()));
        let oid = sequence.oid;
        self.store.create(Object::Sequence(sequence))?;
        let schema = self.store.object(in_schema).map_or(String::new(), |s| quoted(s.name()) + ".");
        Ok((oid, schema + &quoted(&name)))
    }

    pub(super) fn create_table_as(&mut self, statement: &Statement) -> Result<String> {
        let Statement::CreateTableAs { into, columns, if_not_exists, query, with_data, materialized } =
            statement
        else {
            return Err(SqlError::unsupported("this statement"));
        };
        if *materialized {
            return Err(SqlError::unsupported("CREATE MATERIALIZED VIEW"));
        }
        self.fill_table(into, columns, *if_not_exists, query, *with_data)
    }

    /// SELECT .. INTO: CREATE TABLE AS in its older form.
    pub(crate) fn select_into(&mut self, query: &ast::Query) -> Result<String> {
        self.ensure_open()?;
        let mut query = query.clone();
        let ast::Body::Select(select) = &mut query.body else {
            return Err(SqlError::unsupported("INTO here"));
        };
        let Some(into) = select.into.take() else { return Err(SqlError::unsupported("INTO here")) };
        self.fill_table(&into, &[], false, &Statement::Query(query), true)
    }

    fn fill_table(
        &mut self,
        ast::Into { name: path, temporary, on_commit }: &ast::Into,
        names: &[Ident],
        fine: bool,
        query: &Statement,
        with_data: bool,
    ) -> Result<String> {
        let schema = self.target_schema(path, *temporary)?;
        self.check_on_commit(schema, *on_commit)?;
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
        table.on_commit = on_commit.unwrap_or_default();
        for (at, column) in columns.iter().enumerate() {
            let name = names.get(at).map_or(&column.name, |name| &name.text);
            if table.columns.iter().any(|other| other.name == *name) {
                return Err(duplicate_column(name));
            }
            let ty = if column.ty.oid == oid::UNKNOWN { Type::of(oid::TEXT) } else { column.ty };
            table.columns.push(Column::new(name, ty));
        }
        self.allow(&plan.needs)?;
        self.store.create(Object::Table(table.clone()))?;
        if !with_data {
            return Ok("CREATE TABLE AS".to_string());
        }
        let (rows, count) = self.rows_of(&plan, &[], None)?;
        let table = Arc::new(table);
        for row in rows {
            self.store.insert(&table, &row, Tolerated::None)?;
        }
        Ok(format!("SELECT {count}"))
    }
}
