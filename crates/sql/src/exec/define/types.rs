//! CREATE TYPE and the labels of enums.
use crate::bind::type_text;
use crate::catalog::object::{Object, UserType, UserTypeKind};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::parse::ast::{self, CreateType, Path};
use crate::types::Oid;

impl<S: Store> LocalSession<S> {
    pub(super) fn create_type(&self, path: &Path, kind: &CreateType) -> Result<()> {
        let kind = match kind {
            CreateType::Enum(labels) => {
                for (at, label) in labels.iter().enumerate() {
                    check_label(label)?;
                    if labels[..at].contains(label) {
                        let message = format!("enum label \"{label}\" used more than once");
                        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
                    }
                }
                let number = |(at, label): (usize, &String)| (at as f32 + 1.0, label.clone());
                UserTypeKind::Enum(labels.iter().enumerate().map(number).collect())
            }
            CreateType::Composite(_) => {
                return Err(SqlError::unsupported(
                    "CREATE TYPE of a row",
                    "Use columns, or a value of type jsonb.",
                ));
            }
            CreateType::Other(refusal) => return Err(refusal.clone()),
        };
        self.add_type(path, kind)
    }

    pub(super) fn add_type(&self, path: &Path, kind: UserTypeKind) -> Result<()> {
        let schema = self.target_schema(path, false)?;
        let name = path.last().to_string();
        if self.store.type_named(schema, &name).is_some() {
            let message = format!("type \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        let (oid, array) = (self.store.new_oid(schema)?, self.store.new_oid(schema)?);
        let (owner, grants) = (self.role(), Vec::new());
        self.store.create(self.own(Object::Type(UserType {
            oid,
            array,
            name,
            schema,
            owner,
            kind,
            grants,
            comment: None,
        })))
    }

    pub(super) fn user_type(&self, path: &Path, kind: &str) -> Result<UserType> {
        let name = ast::TypeName {
            name: path.clone(),
            modifiers: Vec::new(),
            array: false,
            setof: false,
            fields: None,
        };
        let ty = self.with_binder(|binder| binder.resolve_type(&name))?;
        match self.store.object(ty.oid).as_deref() {
            Some(Object::Type(user)) => Ok(user.clone()),
            _ => Err(self.wrong_kind(ty.oid, kind)),
        }
    }

    pub(super) fn wrong_kind(&self, ty: Oid, wanted: &str) -> SqlError {
        let shown = self.with_binder(|binder| Ok(type_text(binder.types(), ty))).unwrap_or_default();
        SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("{shown} is not {wanted}"))
    }

    pub(super) fn add_label(
        &self,
        path: &Path,
        fine: bool,
        label: &str,
        place: Option<&(bool, String)>,
    ) -> Result<()> {
        let mut user = self.user_type(path, "an enum")?;
        check_label(label)?;
        let UserTypeKind::Enum(labels) = &mut user.kind else {
            return Err(self.wrong_kind(user.oid, "an enum"));
        };
        if labels.iter().any(|(_, known)| known == label) {
            if fine {
                self.notice_of(
                    SqlState::DUPLICATE_OBJECT,
                    format!("enum label \"{label}\" already exists, skipping"),
                );
                return Ok(());
            }
            let message = format!("enum label \"{label}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        let at = match place {
            None => labels.len(),
            Some((before, other)) => match labels.iter().position(|(_, known)| known == other) {
                Some(at) => at + usize::from(!before),
                None => {
                    let message = format!("\"{other}\" is not an existing enum label");
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
                }
            },
        };
        let order = match (at.checked_sub(1).map(|i| labels[i].0), labels.get(at).map(|l| l.0)) {
            (Some(low), Some(high)) => (low + high) / 2.0,
            (Some(low), None) => low + 1.0,
            (None, Some(high)) => high - 1.0,
            (None, None) => 1.0,
        };
        labels.insert(at, (order, label.to_string()));
        self.shared.new_labels.borrow_mut().push((user.oid, label.to_string()));
        self.store.replace(Object::Type(user))
    }

    pub(super) fn rename_label(&self, path: &Path, from: &str, to: &str) -> Result<()> {
        let mut user = self.user_type(path, "an enum")?;
        let UserTypeKind::Enum(labels) = &mut user.kind else {
            return Err(self.wrong_kind(user.oid, "an enum"));
        };
        if labels.iter().any(|(_, label)| label == from) && labels.iter().any(|(_, label)| label == to) {
            let message = format!("enum label \"{to}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        match labels.iter_mut().find(|(_, label)| label == from) {
            Some((_, label)) => *label = to.to_string(),
            None => {
                let message = format!("\"{from}\" is not an existing enum label");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        }
        self.store.replace(Object::Type(user))
    }
}

fn check_label(label: &str) -> Result<()> {
    if label.len() < 64 {
        return Ok(());
    }
    let error = SqlError::new(SqlState::INVALID_NAME, format!("invalid enum label \"{label}\""));
    Err(error.detail("Labels must be 63 bytes or less."))
}
