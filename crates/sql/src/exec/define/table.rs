//! CREATE TABLE in its forms: columns and their sequences, AS, and SELECT INTO.
use std::sync::Arc;

use super::storing::{check_column_name, store_in};
use crate::catalog::object::{Column, Expression, Identity, Object, OnCommit, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::func::quote_ident;
use crate::func::quote_literal;
use crate::missing;
use crate::parse::ast::{self, ColumnDef, ConstraintKind, Ident, Statement, TableElement};
use crate::progress::Command;
use crate::tree::OutColumn;
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

/// Refuses an identity where there is another value already, or numbers do not fit.
fn check_identity(table: &Table, column: &Column, serial: bool, ast: &ColumnDef) -> Result<()> {
    let (name, own) = (&column.name, &table.name);
    let of = |wanted: &dyn Fn(&ConstraintKind) -> bool| -> Vec<u32> {
        ast.constraints.iter().filter(|one| wanted(&one.kind)).map(|one| one.pos).collect()
    };
    let identities = of(&|kind| matches!(kind, ConstraintKind::Identity { .. }));
    let defaults = of(&|kind| matches!(kind, ConstraintKind::Default(..)));
    let generated = of(&|kind| matches!(kind, ConstraintKind::Generated(..)));
    let syntax = |pos: Option<&u32>, what: &str| {
        let message = format!("{what} specified for column \"{name}\" of table \"{own}\"");
        let error = SqlError::new(SqlState::SYNTAX_ERROR, message);
        Err(pos.map_or(error.clone(), |pos| error.at(pos + 1)))
    };
    let later = |others: &[u32]| identities.iter().chain(others).max().copied();
    match () {
        () if identities.len() > 1 => {
            let message =
                format!("multiple identity specifications for column \"{name}\" of table \"{own}\"");
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(identities[1] + 1))
        }
        () if serial => syntax(None, "both default and identity"),
        () if !defaults.is_empty() => syntax(later(&defaults).as_ref(), "both default and identity"),
        () if !generated.is_empty() => {
            syntax(later(&generated).as_ref(), "both identity and generation expression")
        }
        () => check_identity_type(column.type_oid),
    }
}

pub(super) fn check_identity_type(ty: Oid) -> Result<()> {
    if matches!(ty, oid::INT2 | oid::INT4 | oid::INT8) {
        return Ok(());
    }
    let message = "identity column type must be smallint, integer, or bigint";
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

/// Keys of the same columns, once: the primary key, or the first with a name that any of them has.
fn without_repeats(constraints: Vec<ast::Constraint>) -> Vec<ast::Constraint> {
    let columns = |constraint: &ast::Constraint| match &constraint.kind {
        ConstraintKind::PrimaryKey(list) => Some((list.clone(), false)),
        ConstraintKind::Unique(list, nulls_equal) => Some((list.clone(), *nulls_equal)),
        _ => None,
    };
    let mut kept: Vec<ast::Constraint> = Vec::new();
    for mut constraint in constraints {
        let same = |other: &&mut ast::Constraint| {
            let texts = |list: &[Ident]| list.iter().map(|one| one.text.clone()).collect::<Vec<_>>();
            let (own, its) = (columns(&constraint), columns(other));
            let times = |one: &ast::Constraint| (one.deferrable, one.deferred);
            let is_primary = |one: &ast::Constraint| matches!(one.kind, ConstraintKind::PrimaryKey(_));
            matches!((own, its), (Some(own), Some(its)) if texts(&own.0) == texts(&its.0) && own.1 == its.1)
                && times(&constraint) == times(other)
                && !(is_primary(&constraint) && is_primary(other))
        };
        match kept.iter_mut().find(same) {
            None => kept.push(constraint),
            Some(first) => {
                if matches!(constraint.kind, ConstraintKind::PrimaryKey(_)) {
                    std::mem::swap(first, &mut constraint);
                }
                first.name = first.name.take().or(constraint.name);
            }
        }
    }
    kept
}

pub(super) fn duplicate_column(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_COLUMN, format!("column \"{name}\" specified more than once"))
}

/// Columns that a relation can have, as in PostgreSQL; those that were dropped count.
const COLUMNS_MAX: usize = 1600;

/// Refuses relations of more columns than there can be.
pub(super) fn check_columns(columns: usize) -> Result<()> {
    if columns <= COLUMNS_MAX {
        return Ok(());
    }
    let message = format!("tables can have at most {COLUMNS_MAX} columns");
    Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message))
}

impl<S: Store> LocalSession<S> {
    /// A table without columns.
    pub(super) fn empty_table(&self, schema: Oid, name: &str) -> Result<Table> {
        let table = Table::empty(self.store.new_oid(schema)?, name, schema, self.role());
        let grants = self.first_list(&Object::Table(table.clone()));
        Ok(Table { grants, ..table })
    }

    pub(super) fn create_table(&mut self, ast: &ast::CreateTable) -> Result<()> {
        if let Some(refusal) = &ast.unsupported {
            return Err(refusal.clone());
        }
        let schema = self.target_schema(&ast.name, ast.temporary)?;
        self.check_on_commit(schema, ast.on_commit)?;
        if self.relation_exists(schema, ast.name.last(), ast.if_not_exists)? {
            return Ok(());
        }
        let mut table = self.empty_table(schema, ast.name.last())?;
        store_in(&mut table, &ast.storing)?;
        table.on_commit = ast.on_commit.unwrap_or_default();
        let (mut constraints, mut likes) = (Vec::new(), Vec::new());
        for element in &ast.elements {
            match element {
                TableElement::Column(column) => self.add_column(&mut table, column, &mut constraints)?,
                TableElement::Constraint(constraint) => constraints.push(constraint.clone()),
                TableElement::Like(path, options) => {
                    let source = self.like(&mut table, path, options, &mut constraints)?;
                    likes.extend(source);
                }
            }
        }
        for constraint in &constraints {
            if let ConstraintKind::PrimaryKey(names) = &constraint.kind {
                let columns = self.columns_named(&table, names)?;
                columns.iter().for_each(|at| table.columns[usize::from(*at)].not_null = true);
                if !constraint.deferrable {
                    table.key = columns;
                }
            }
        }
        self.settle_texts(&mut table)?;
        self.store.create(Object::Table(table.clone()))?;
        self.check_values(&table, &ast.elements)?;
        let mut constraints = without_repeats(constraints);
        // One may refer to the table's own key, which may be written behind it.
        constraints.sort_by_key(|constraint| matches!(constraint.kind, ConstraintKind::ForeignKey(..)));
        for constraint in &constraints {
            self.add_constraint(&mut table, constraint, false)?;
        }
        for source in &likes {
            self.copy_indexes(&table, source)?;
        }
        self.with_binder(|binder| {
            let table = Arc::new(table.clone());
            binder.target(&table)?;
            (0..table.columns.len()).try_for_each(|at| binder.default_of(&table, at).map(|_| ()))
        })
    }

    /// Binds what columns say of their values as it stands there: errors point into the statement.
    fn check_values(&self, table: &Table, elements: &[TableElement]) -> Result<()> {
        let shared = Arc::new(table.clone());
        let columns = elements.iter().filter_map(|element| match element {
            TableElement::Column(column) => Some(column),
            _ => None,
        });
        for constraint in columns.flat_map(|column| &column.constraints) {
            match &constraint.kind {
                ConstraintKind::Default(expr, _) => self.with_binder(|binder| {
                    binder.table_ast(&shared, expr, None, crate::bind::DEFAULTS).map(|_| ())
                })?,
                ConstraintKind::Generated(expr, _) => self.check_generated(&shared, expr)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Binds what a generated column is made of as it stands there.
    pub(super) fn check_generated(&self, table: &Arc<Table>, expr: &ast::Expr) -> Result<()> {
        self.with_binder(|binder| {
            let bound = binder.table_ast(table, expr, None, crate::bind::GENERATION)?.expr;
            binder.immutable(&bound, "generation expression is not immutable")
        })
    }

    fn check_on_commit(&self, schema: Oid, on_commit: Option<OnCommit>) -> Result<()> {
        if on_commit.is_none() || self.is_temporary(schema) {
            return Ok(());
        }
        let message = "ON COMMIT can only be used on temporary tables";
        Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
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
        check_column_name(name)?;
        let (ty, serial) = self.column_type(&ast.type_name)?;
        let collation = self.check_collation(ty.oid, ast.collation.as_ref())?;
        self.check_compression(ty.oid, ast.compression.as_deref())?;
        if crate::types::builtin(ty.oid).is_some_and(|info| info.kind == crate::types::TypeKind::Pseudo) {
            let shown = crate::types::format_builtin(ty).unwrap_or_default();
            let message = format!("column \"{name}\" has pseudo-type {shown}");
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        check_columns(table.columns.len() + 1)?;
        let mut column = Column::new(name, ty);
        column.collation = collation;
        let at = table.columns.len() as u16;
        let mut says_null = None;
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
                ConstraintKind::Null => says_null = Some(constraint.pos),
                ConstraintKind::Default(expr, sql) => column.default = self.default(table, expr, sql, ty)?,
                ConstraintKind::Generated(_, sql) => {
                    column.generated = Some(Expression::plain(sql.clone()));
                }
                ConstraintKind::Identity { always, options } => {
                    check_identity(table, &column, serial, ast)?;
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
                ConstraintKind::Check(..) | ConstraintKind::UsingIndex { .. } => {}
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
        if let Some(pos) = says_null.filter(|_| column.not_null) {
            let message = format!(
                "conflicting NULL/NOT NULL declarations for column \"{name}\" of table \"{}\"",
                table.name
            );
            let error = SqlError::new(SqlState::SYNTAX_ERROR, message);
            let later = ast.constraints.iter().rfind(|c| matches!(c.kind, ConstraintKind::NotNull));
            let pos = later.map_or(pos, |later| later.pos.max(pos));
            return Err(if serial { error } else { error.at(pos + 1) });
        }
        table.columns.push(column);
        Ok(())
    }

    /// What a column says about its default. A plain NULL is as good as none, unless it hides a domain's, or
    /// is fitted to a length or precision as any other value.
    pub(super) fn default(
        &self,
        table: &Table,
        expr: &ast::Expr,
        sql: &str,
        ty: Type,
    ) -> Result<Option<Expression>> {
        let is_domain = self.with_binder(|binder| Ok(binder.types().base_of(ty.oid) != ty.oid))?;
        let mut value = expr;
        while let ast::Kind::Cast(inner, ..) = &value.kind {
            value = inner;
        }
        let is_fitted = ty.modifier >= 0 && ty.oid != oid::INTERVAL;
        if matches!(value.kind, ast::Kind::Null) && !is_domain && !is_fitted {
            return Ok(None);
        }
        self.lasting(table, sql, Some(ty)).map(Some)
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
        let schema = self.store.object(in_schema).map_or(String::new(), |s| quote_ident(s.name()) + ".");
        Ok((oid, schema + &quote_ident(&name)))
    }

    pub(super) fn create_table_as(&mut self, statement: &Statement) -> Result<String> {
        let Statement::CreateTableAs { into, columns, if_not_exists, query, with_data, materialized } =
            statement
        else {
            return Err(SqlError::unsupported("this statement", missing::STATEMENTS));
        };
        if let Statement::Query(ast::Query { body: ast::Body::Select(select), .. }) = &**query
            && let Some(into) = &select.into
        {
            let error = SqlError::new(SqlState::SYNTAX_ERROR, "SELECT ... INTO is not allowed here");
            return Err(error.at(into.name.pos + 1));
        }
        if let Some(text) = materialized {
            let (named, query) = ((&columns[..], *if_not_exists), (&**query, text.as_str()));
            return self.create_materialized(into, named, query, *with_data);
        }
        self.fill_table(into, columns, *if_not_exists, query, *with_data)
    }

    /// SELECT .. INTO: CREATE TABLE AS in its older form.
    pub(crate) fn select_into(&mut self, query: &ast::Query) -> Result<String> {
        self.ensure_open()?;
        let mut query = query.clone();
        let ast::Body::Select(select) = &mut query.body else {
            return Err(SqlError::unsupported("INTO here", "Use CREATE TABLE .. AS."));
        };
        let Some(into) = select.into.take() else {
            return Err(SqlError::unsupported("INTO here", "Use CREATE TABLE .. AS."));
        };
        self.fill_table(&into, &[], false, &Statement::Query(query), true)
    }

    fn fill_table(
        &mut self,
        ast::Into { name: path, temporary, on_commit, storing }: &ast::Into,
        names: &[Ident],
        fine: bool,
        query: &Statement,
        with_data: bool,
    ) -> Result<String> {
        let (plan, _) = self.plan(query, Vec::new())?;
        let schema = self.target_schema(path, *temporary)?;
        self.check_on_commit(schema, *on_commit)?;
        if self.relation_exists(schema, path.last(), fine)? {
            return Ok("CREATE TABLE AS".to_string());
        }
        let mut table =
            self.table_of_query(schema, path.last(), plan.columns().unwrap_or_default(), names)?;
        table.on_commit = on_commit.unwrap_or_default();
        store_in(&mut table, storing)?;
        self.may_run(&plan)?;
        self.store.create(Object::Table(table.clone()))?;
        if !with_data {
            return Ok("CREATE TABLE AS".to_string());
        }
        let interrupt = self.start.interrupt.clone();
        let _telling = self.tells(&interrupt, Command::CreateTableAs, table.oid);
        let (rows, count) = self.rows_of(&plan, &[])?;
        self.put_all(&Arc::new(table), &rows)?;
        Ok(format!("SELECT {count}"))
    }

    /// A table for the rows of a query with these columns, the first of which are called `names`.
    pub(super) fn table_of_query(
        &self,
        schema: Oid,
        name: &str,
        columns: &[OutColumn],
        names: &[Ident],
    ) -> Result<Table> {
        if names.len() > columns.len() {
            let message = "too many column names were specified";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        check_columns(columns.len())?;
        let mut table = self.empty_table(schema, name)?;
        for (at, column) in columns.iter().enumerate() {
            let name = names.get(at).map_or(&column.name, |name| &name.text);
            if table.columns.iter().any(|other| other.name == *name) {
                return Err(duplicate_column(name));
            }
            let ty = if column.ty.oid == oid::UNKNOWN { Type::of(oid::TEXT) } else { column.ty };
            check_column_name(name)?;
            let mut kept = Column::new(name, ty);
            kept.collation = self.kept_collation(name, column)?;
            table.columns.push(kept);
        }
        Ok(table)
    }
}
