//! CREATE VIEW. A view is kept as the text of its query, which is bound again wherever it is used.
use super::storing::check_options;
use super::table::check_columns;
use crate::bind::Binder;
use crate::catalog::object::{Column, Expression, Object, View};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::parse::ast::{self, Path};
use crate::types::Oid;

impl<S: Store> LocalSession<S> {
    pub(super) fn create_view(
        &self,
        (path, temporary): (&Path, bool),
        replace: bool,
        names: &[ast::Ident],
        options: &[(String, String)],
        (query, text): (&ast::Query, &str),
    ) -> Result<()> {
        check_options("view", options)?;
        if query.changes_rows() {
            let message = "views must not contain data-modifying statements in WITH";
            return Err(SqlError::refused_by_postgresql(message));
        }
        let columns = self.with_names(|binder| {
            binder.query(None, false, query).map(|bound| Binder::output_columns(&bound))
        })?;
        check_columns(columns.len())?;
        let kept = self.lasting_query(text)?;
        let mut made: Vec<Column> = columns.iter().map(|(name, ty)| Column::new(name, *ty)).collect();
        if options.iter().any(|(name, _)| name == "check_option") {
            self.refuse_check_option(path.last(), &made, &kept)?;
        }
        if names.len() > columns.len() {
            let message = "CREATE VIEW specifies more column names than columns";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let of_own = |oid: &Oid| self.store.object(*oid).is_some_and(|it| self.is_temporary(it.schema()));
        let becomes_own = !temporary && kept.depends.iter().any(of_own);
        if becomes_own {
            self.notice(format!("view \"{}\" will be a temporary view", path.last()));
        }
        let schema = self.target_schema(path, temporary || becomes_own);
        let schema = if becomes_own { schema.map_err(SqlError::nowhere)? } else { schema? };
        for (column, name) in made.iter_mut().zip(names) {
            column.name = name.text.clone();
        }
        for (at, column) in made.iter().enumerate() {
            if made[at + 1..].iter().any(|other| other.name == column.name) {
                let message = format!("column \"{}\" specified more than once", column.name);
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
        }
        let query = kept;
        let existing = self.store.relation(schema, path.last());
        if let (true, Some(Object::View(old))) = (replace, existing.as_deref()) {
            self.must_own(&Object::View(old.clone()))?;
            for (at, column) in old.columns.iter().enumerate() {
                match made.get(at) {
                    None => {
                        let message = "cannot drop columns from view";
                        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
                    }
                    Some(new) if new.name != column.name => {
                        let message = format!(
                            "cannot change name of view column \"{}\" to \"{}\"",
                            column.name, new.name
                        );
                        let hint =
                            "Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.";
                        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message).hint(hint));
                    }
                    Some(new) if new.ty() != column.ty() => {
                        let shown = |column: &Column| {
                            self.with_binder(|binder| {
                                Ok(crate::bind::full_type_text(binder.types(), column.ty()))
                            })
                        };
                        let message = format!(
                            "cannot change data type of view column \"{}\" from {} to {}",
                            column.name,
                            shown(column)?,
                            shown(new)?
                        );
                        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
                    }
                    Some(_) => {}
                }
            }
            return self.store.replace(Object::View(View {
                columns: made,
                query,
                options: options.to_vec(),
                ..old.clone()
            }));
        }
        self.relation_exists(schema, path.last(), false)?;
        let view = View {
            oid: self.store.new_oid(schema)?,
            name: path.last().to_string(),
            schema,
            owner: self.role(),
            columns: made,
            query,
            options: options.to_vec(),
            ..View::default()
        };
        self.store.create(self.own(Object::View(view)))
    }

    /// WITH CHECK OPTION of a view through which nothing is changed.
    fn refuse_check_option(&self, name: &str, columns: &[Column], query: &Expression) -> Result<()> {
        let (name, columns, query) = (name.to_string(), columns.to_vec(), query.clone());
        let view = View { name, columns, query, ..View::default() };
        self.with_binder(|binder| match binder.why_not_updatable(&view) {
            Some(why) => {
                let message = "WITH CHECK OPTION is supported only on automatically updatable views";
                Err(SqlError::refused_by_postgresql(message).hint(why))
            }
            None => Ok(()),
        })
    }
}
