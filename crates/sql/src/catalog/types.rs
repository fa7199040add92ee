//! Types that users have made, as the functions of SQL ask for them: enums, domains, composites, the rows of
//! tables and views, and arrays of these.

use std::borrow::Cow;
use std::sync::Arc;

use super::Catalog;
use super::object::{Object, UserTypeKind};
use crate::types::value::Value;
use crate::types::{Oid, TypeInfo, TypeKind, Types, builtin};

/// Functions of PostgreSQL that read and write values of such types: input, output, receive, send.
const ENUM_FUNCTIONS: [Oid; 4] = [3506, 3507, 3532, 3533];
const DOMAIN_FUNCTIONS: [Oid; 4] = [2597, 0, 2598, 0];
const RECORD_FUNCTIONS: [Oid; 4] = [2290, 2291, 2402, 2403];
const ARRAY_FUNCTIONS: [Oid; 4] = [750, 751, 2400, 2401];

/// What enums, composites and arrays have in common.
fn info(oid: Oid, name: &str, kind: TypeKind, functions: [Oid; 4]) -> TypeInfo {
    let (len, by_value, align, storage, category) = match kind {
        TypeKind::Enum => (4, true, 'i', 'p', 'E'),
        TypeKind::Composite => (-1, false, 'd', 'x', 'C'),
        _ => (-1, false, 'i', 'x', 'A'),
    };
    TypeInfo {
        oid,
        name: Cow::Owned(name.to_owned()),
        len,
        by_value,
        kind,
        category,
        preferred: false,
        delimiter: ',',
        element: 0,
        array: 0,
        align,
        storage,
        collation: 0,
        base: 0,
        functions,
    }
}

impl Catalog {
    /// The labels of an enum, in its order; empty if there is no such enum.
    pub fn enum_labels(&self, oid: Oid) -> Vec<Value> {
        let Some(UserTypeKind::Enum(labels)) = self.type_of(oid).map(|ty| &ty.kind) else {
            return Vec::new();
        };
        let value = |(order, label): &(f32, String)| {
            let label = label.as_str().into();
            Value::Enum(Arc::new(crate::types::value::EnumLabel { oid, order: *order, label }))
        };
        labels.iter().map(value).collect()
    }
}

/// What is to be known of the type with number `oid` if `object` is the reason that it exists; `under` finds
/// the type under a domain.
pub(crate) fn type_of_object(
    object: &Object,
    oid: Oid,
    under: impl Fn(Oid) -> Option<TypeInfo>,
) -> Option<TypeInfo> {
    match object {
        Object::Type(ty) if ty.oid == oid => {
            let made = match &ty.kind {
                UserTypeKind::Enum(_) => info(oid, &ty.name, TypeKind::Enum, ENUM_FUNCTIONS),
                UserTypeKind::Composite(_) => info(oid, &ty.name, TypeKind::Composite, RECORD_FUNCTIONS),
                UserTypeKind::Domain { base, .. } => {
                    let under = under(*base)?;
                    let [input, _, receive, _] = DOMAIN_FUNCTIONS;
                    let functions = [input, under.functions[1], receive, under.functions[3]];
                    let (name, kind) = (Cow::Owned(ty.name.clone()), TypeKind::Domain);
                    TypeInfo { oid, name, kind, base: *base, functions, preferred: false, ..under }
                }
            };
            Some(TypeInfo { array: ty.array, ..made })
        }
        Object::Type(ty) if ty.array == oid => Some(array_info(oid, &ty.name, ty.oid)),
        Object::Table(it) if it.row_type == oid => Some(row_info(oid, &it.name)),
        Object::Table(it) if it.row_type + 1 == oid => Some(array_info(oid, &it.name, it.row_type)),
        Object::View(it) if it.row_type == oid && oid != 0 => Some(row_info(oid, &it.name)),
        _ => None,
    }
}

/// The type of a relation's rows. The number behind it is that of arrays of them.
fn row_info(oid: Oid, name: &str) -> TypeInfo {
    TypeInfo { array: oid + 1, ..info(oid, name, TypeKind::Composite, RECORD_FUNCTIONS) }
}

fn array_info(oid: Oid, element: &str, of: Oid) -> TypeInfo {
    TypeInfo { element: of, ..info(oid, &format!("_{element}"), TypeKind::Base, ARRAY_FUNCTIONS) }
}

impl Types for Catalog {
    fn type_info(&self, oid: Oid) -> Option<Cow<'_, TypeInfo>> {
        if let Some(info) = builtin(oid) {
            return Some(Cow::Borrowed(info));
        }
        let under = |base| self.type_info(base).map(Cow::into_owned);
        let of = |object: &Arc<Object>| type_of_object(object, oid, under);
        // Types are found by their numbers, arrays and rows of relations by those that they are of.
        let found = self.objects.get(&oid).and_then(of).or_else(|| of(self.holder(oid)?));
        found.map(Cow::Owned)
    }
}
