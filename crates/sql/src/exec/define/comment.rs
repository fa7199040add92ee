//! COMMENT ON.
use crate::catalog::object::Object;
use crate::error::{Result, SqlError, SqlState};
use crate::exec::privilege;
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::func::resolve_function;
use crate::parse::ast::{ObjectKind, Path, TypeName};

fn undefined(what: &str, path: &Path) -> SqlError {
    let message = format!("{what} \"{}\" does not exist", path.shown());
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

impl<S: Store> LocalSession<S> {
    pub(super) fn comment(
        &mut self,
        kind: ObjectKind,
        name: &Path,
        of: Option<&Path>,
        text: Option<String>,
    ) -> Result<()> {
        let path = of.unwrap_or(name);
        let found = match kind {
            ObjectKind::Schema => self.store.schema(path.last()).and_then(|oid| self.store.object(oid)),
            ObjectKind::Role => self.store.role(path.last()).and_then(|oid| self.store.object(oid)),
            ObjectKind::Type | ObjectKind::Domain => {
                let ty = self.user_type(path, "a user's type")?;
                self.store.object(ty.oid)
            }
            ObjectKind::Database | ObjectKind::Extension => return Ok(()),
            ObjectKind::Trigger => {
                let message =
                    format!("trigger \"{}\" for table \"{}\" does not exist", name.last(), path.last());
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
            _ => self.find(path)?,
        };
        let of_relation = matches!(
            kind,
            ObjectKind::Table
                | ObjectKind::View
                | ObjectKind::MaterializedView
                | ObjectKind::Index
                | ObjectKind::Sequence
                | ObjectKind::Column
                | ObjectKind::Constraint
        );
        if found.is_none() && of_relation {
            return self.missing("relation", SqlState::UNDEFINED_TABLE, path, false);
        }
        let mut object = (*found.ok_or_else(|| undefined(kind.word(), path))?).clone();
        match &object {
            Object::Role(role) if !role.superuser && self.makes_roles() => {}
            Object::Role(role) if !role.superuser => {
                return Err(privilege::refused("must have CREATEROLE privilege"));
            }
            _ if kind == ObjectKind::Constraint => self.must_own(&object).map_err(|mut error| {
                error.message = format!("must be owner of relation {}", object.name());
                error
            })?,
            _ => self.must_own(&object)?,
        }
        let is_of_kind = match kind {
            ObjectKind::Table
            | ObjectKind::View
            | ObjectKind::MaterializedView
            | ObjectKind::Index
            | ObjectKind::Sequence => kind.word() == object.kind(),
            _ => true,
        };
        if !is_of_kind {
            let article = if kind == ObjectKind::Index { "an" } else { "a" };
            let message = format!("\"{}\" is not {article} {}", object.name(), kind.word());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let place = match (&mut object, kind) {
            (Object::Table(table), ObjectKind::Column) => {
                let column = table.columns.iter_mut().find(|c| !c.dropped && c.name == name.last());
                column.map(|column| &mut column.comment)
            }
            (Object::View(view), ObjectKind::Column) => {
                let column = view.columns.iter_mut().find(|c| c.name == name.last());
                column.map(|column| &mut column.comment)
            }
            (Object::Table(table), ObjectKind::Constraint) => {
                let constraint = table.constraints.iter_mut().find(|c| c.name == name.last());
                constraint.map(|constraint| &mut constraint.comment)
            }
            (_, ObjectKind::Column | ObjectKind::Constraint) => None,
            (object, _) => Some(object.comment_mut()),
        };
        let Some(place) = place else {
            let (what, of, state) = match kind {
                ObjectKind::Column => ("column", "of relation", SqlState::UNDEFINED_COLUMN),
                _ => ("constraint", "for table", SqlState::UNDEFINED_OBJECT),
            };
            let message = format!("{what} \"{}\" {of} \"{}\" does not exist", name.last(), path.last());
            return Err(SqlError::new(state, message));
        };
        *place = text.filter(|text| !text.is_empty());
        self.store.replace(object)
    }

    /// There are no functions but the built-in ones, which keep their comments.
    pub(super) fn no_comment_on_function(
        &self,
        word: &str,
        name: &Path,
        types: &[TypeName],
    ) -> Result<SqlError> {
        self.with_binder(|binder| {
            let types = types.iter().map(|ty| binder.resolve_type(ty).map(|ty| ty.oid));
            let types = types.collect::<Result<Vec<_>>>()?;
            if resolve_function(binder.types(), name.last(), &types, &[], false).is_ok() {
                return Ok(SqlError::unsupported(
                    "COMMENT on a built-in function",
                    "Comment on what uses it.",
                ));
            }
            let shown: Vec<String> =
                types.iter().map(|ty| crate::bind::type_text(binder.types(), *ty)).collect();
            let message = format!("{word} {}({}) does not exist", name.last(), shown.join(", "));
            Ok(SqlError::new(SqlState::UNDEFINED_FUNCTION, message))
        })
    }
}
