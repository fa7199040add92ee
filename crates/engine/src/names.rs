//! Names of values: one list for each kind of policy, which parses and prints.

use thiserror::Error;

/// No value of that kind has this name.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("there is no {kind} \"{name}\", only {known}")]
pub struct UnknownName {
    /// What kind of thing was named.
    pub kind: &'static str,
    /// The name.
    pub name: String,
    /// The names that there are.
    pub known: String,
}

pub(crate) fn find<T: Copy>(
    kind: &'static str,
    all: &[(&'static str, T)],
    name: &str,
) -> Result<T, UnknownName> {
    let known = || all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let found = all.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    found.ok_or_else(|| UnknownName { kind, name: name.to_owned(), known: known() })
}

/// Gives each value of a type a name.
macro_rules! named {
    ($type:ty, $kind:literal, $($name:literal => $value:expr,)+) => {
        impl $type {
            /// Every value with its name.
            pub const ALL: &[(&str, Self)] = &[$(($name, $value),)+];
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let found = Self::ALL.iter().find(|(_, value)| value == self);
                f.pad(found.expect("every value has a name").0)
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::names::UnknownName;
            fn from_str(name: &str) -> Result<Self, Self::Err> {
                $crate::names::find($kind, Self::ALL, name)
            }
        }
    };
}
pub(crate) use named;
