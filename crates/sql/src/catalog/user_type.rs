//! What the catalog knows of types that users made (object.rs says what holds for all objects).

use serde::{Deserialize, Serialize};

use super::object::{Expression, Grant};
use crate::types::Oid;

/// A type that a user made.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct UserType {
    /// Its number.
    pub oid: Oid,
    /// The type of arrays of it.
    pub array: Oid,
    /// Its name.
    pub name: String,
    /// The schema that it is in.
    pub schema: Oid,
    /// The role that owns it.
    #[serde(default)]
    pub owner: Oid,
    /// What kind of type.
    pub kind: UserTypeKind,
    /// Who may do what.
    #[serde(default)]
    pub grants: Vec<Grant>,
    /// `COMMENT ON`.
    #[serde(default)]
    pub comment: Option<String>,
}

/// What kind of type a user made.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum UserTypeKind {
    /// Labels with their places in the order, in that order.
    Enum(Vec<(f32, String)>),
    /// Another type with conditions.
    Domain {
        /// The other type's oid.
        base: Oid,
        /// Its modifier.
        modifier: i32,
        /// NULL is no value.
        not_null: bool,
        /// What a column gets without a value.
        default: Option<Expression>,
        /// Conditions by name, on `VALUE`.
        checks: Vec<(String, Expression)>,
    },
    /// Fields by name.
    Composite(Vec<(String, Oid, i32)>),
}
