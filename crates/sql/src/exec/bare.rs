//! The system behind expressions that no session evaluates: entries of indexes. It knows the catalog's types
//! and labels of enums, and has neither a clock nor settings.

use std::borrow::Cow;
use std::sync::Arc;

use super::store::Store;
use crate::catalog::object::{Object, UserTypeKind};
use crate::error::{Result, SqlError};
use crate::missing;
use crate::types::context::System;
use crate::types::value::{EnumLabel, Value};
use crate::types::{Oid, TypeInfo, builtin};

/// A catalog without a session.
pub(crate) struct BareSystem<'s>(pub(crate) &'s dyn Store);

impl System for BareSystem<'_> {
    fn clock_us(&self) -> i64 {
        0
    }

    fn random_u64(&self) -> u64 {
        0
    }

    fn type_info(&self, oid: Oid) -> Option<Cow<'_, TypeInfo>> {
        type_info(self.0, oid)
    }

    fn enum_label(&self, oid: Oid, label: &str) -> Option<Value> {
        self.enum_labels(oid).into_iter().find(|value| value.as_str() == Some(label))
    }

    fn enum_labels(&self, oid: Oid) -> Vec<Value> {
        enum_labels(self.0, oid)
    }

    fn reg_in(&self, _reg: Oid, name: &str) -> Result<Oid> {
        Err(SqlError::unsupported(format_args!("looking up \"{name}\" in an index"), missing::BARE))
    }

    fn reg_out(&self, _reg: Oid, _oid: Oid) -> Option<String> {
        None
    }

    fn call(&self, source: &str, _oid: Oid, _arguments: &[Value]) -> Result<Value> {
        Err(SqlError::unsupported(format_args!("function {source} in an index"), missing::BARE))
    }
}

/// A type, built in or of the catalog.
pub(crate) fn type_info(store: &dyn Store, oid: Oid) -> Option<Cow<'static, TypeInfo>> {
    if let Some(info) = builtin(oid) {
        return Some(Cow::Borrowed(info));
    }
    let object = store.object(oid)?;
    let under = |base| type_info(store, base).map(Cow::into_owned);
    crate::catalog::type_of_object(&object, oid, under).map(Cow::Owned)
}

/// The labels of an enum type, in its order.
pub(crate) fn enum_labels(store: &dyn Store, oid: Oid) -> Vec<Value> {
    let Some(Object::Type(user)) = store.object(oid).as_deref().cloned() else { return Vec::new() };
    let UserTypeKind::Enum(labels) = user.kind else { return Vec::new() };
    let value =
        |(order, label): (f32, String)| Value::Enum(Arc::new(EnumLabel { oid, order, label: label.into() }));
    labels.into_iter().map(value).collect()
}
