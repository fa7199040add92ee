//! Polymorphic types: what `anyelement`, `anyarray` and their relatives stand for in a call.
//!
//! Two families (PostgreSQL's manual, 38.2.5): in the first (`anyelement`...) all arguments have to agree
//! exactly, in the second (`anycompatible`...) they are brought to their common type.

use super::resolve::select_common_type;
use crate::error::{Result, SqlError, SqlState};
use crate::types::text_of_types;
use crate::types::{Oid, Types, oid};

/// Whether it is one of the polymorphic types.
pub fn is_polymorphic(ty: Oid) -> bool {
    is_simple(ty) || is_compatible(ty)
}

fn is_simple(ty: Oid) -> bool {
    matches!(ty, oid::ANYELEMENT | oid::ANYARRAY | oid::ANYNONARRAY | oid::ANYENUM)
}

fn is_compatible(ty: Oid) -> bool {
    matches!(ty, oid::ANYCOMPATIBLE | oid::ANYCOMPATIBLEARRAY | oid::ANYCOMPATIBLENONARRAY)
}

fn is_array_kind(ty: Oid) -> bool {
    matches!(ty, oid::ANYARRAY | oid::ANYCOMPATIBLEARRAY)
}

/// The element types that the arguments of one family ask for; unknown where an argument is open. `None` if
/// an argument that has to be an array is none, or the reverse.
fn elements(
    types: &dyn Types,
    declared: &[Oid],
    inputs: &[Oid],
    family: fn(Oid) -> bool,
) -> Option<Vec<Oid>> {
    let mut found = Vec::new();
    for (declared, input) in declared.iter().zip(inputs).filter(|(declared, _)| family(**declared)) {
        let input = types.base_of(*input);
        if input == oid::UNKNOWN {
            found.push(input);
        } else if is_array_kind(*declared) {
            match (input, types.element_of(input)) {
                (oid::ANYARRAY, _) => found.push(oid::ANYELEMENT),
                (oid::INT2VECTOR, _) => found.push(oid::INT2),
                (oid::OIDVECTOR, _) => found.push(oid::OID),
                (_, 0) => return None,
                (_, element) => found.push(element),
            }
        } else {
            let is_array = types.element_of(input) != 0;
            let is_enum = || types.type_info(input).is_some_and(|info| info.category == 'E');
            let fits = match *declared {
                oid::ANYNONARRAY | oid::ANYCOMPATIBLENONARRAY => !is_array,
                oid::ANYENUM => is_enum(),
                _ => true,
            };
            if !fits {
                return None;
            }
            found.push(input);
        }
    }
    Some(found)
}

/// The one element type of the first family, unknown if all are open.
fn simple_element(types: &dyn Types, declared: &[Oid], inputs: &[Oid]) -> Option<Oid> {
    let found = elements(types, declared, inputs, is_simple)?;
    let mut known = found.iter().copied().filter(|ty| *ty != oid::UNKNOWN);
    let first = known.next().unwrap_or(oid::UNKNOWN);
    known.all(|other| other == first).then_some(first)
}

/// Whether arguments of these types fit the polymorphic ones among the declared types.
pub fn consistent(types: &dyn Types, declared: &[Oid], inputs: &[Oid]) -> bool {
    if !declared.iter().any(|ty| is_polymorphic(*ty)) {
        return true;
    }
    let compatible = elements(types, declared, inputs, is_compatible);
    // A literal alone is no label of any enumeration.
    let open = |element: Oid| element == oid::UNKNOWN && declared.contains(&oid::ANYENUM);
    simple_element(types, declared, inputs).is_some_and(|element| !open(element))
        && compatible.is_some_and(|found| common(types, &found).is_ok())
}

fn common(types: &dyn Types, found: &[Oid]) -> Result<Oid> {
    let common = select_common_type(types, found, "arguments of anycompatible family")?;
    let reaches = |input: &Oid| {
        *input == oid::UNKNOWN
            || super::find_cast(types, *input, common, super::CastContext::Implicit).is_some()
    };
    if found.iter().all(reaches) {
        return Ok(common);
    }
    let message = "arguments of anycompatible family cannot be cast to a common type";
    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
}

/// The declared types and the result type with the polymorphic ones replaced by what they stand for.
///
/// # Errors
/// 42804 if it cannot be told.
pub fn resolve(types: &dyn Types, declared: &[Oid], result: Oid, inputs: &[Oid]) -> Result<(Vec<Oid>, Oid)> {
    if !declared.iter().any(|ty| is_polymorphic(*ty)) {
        let resolved = declared.iter().zip(inputs).map(|(declared, input)| plain(*declared, *input));
        return Ok((resolved.collect(), result));
    }
    let mismatch = || {
        let message = format!("arguments {} do not fit together", text_of_types(types, inputs));
        SqlError::new(SqlState::DATATYPE_MISMATCH, message)
    };
    let simple = simple_element(types, declared, inputs).ok_or_else(mismatch)?;
    let found = elements(types, declared, inputs, is_compatible).ok_or_else(mismatch)?;
    let compatible = common(types, &found)?;
    let uses_simple = declared.iter().any(|ty| is_simple(*ty));
    if uses_simple && simple == oid::UNKNOWN {
        let message = "could not determine polymorphic type because input has type unknown";
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    let replace = |declared: Oid, input: Oid| -> Result<Oid> {
        let element = if is_simple(declared) { simple } else { compatible };
        if is_array_kind(declared) {
            if matches!(input, oid::INT2VECTOR | oid::OIDVECTOR | oid::ANYARRAY) {
                return Ok(input);
            }
            return match types.array_of(element) {
                0 => {
                    let name = text_of_types(types, &[element]);
                    let message = format!("could not find array type for data type {name}");
                    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
                }
                array => Ok(array),
            };
        }
        Ok(if is_polymorphic(declared) { element } else { plain(declared, input) })
    };
    let resolved: Result<Vec<Oid>> = declared.iter().zip(inputs).map(|(d, i)| replace(*d, *i)).collect();
    // What a call returns has no input type that could stay as it is.
    Ok((resolved?, replace(result, oid::UNKNOWN)?))
}

/// What an argument is coerced to that is declared as a type that is not polymorphic.
fn plain(declared: Oid, input: Oid) -> Oid {
    match (declared, input) {
        (oid::ANY, oid::UNKNOWN) => oid::TEXT,
        (oid::ANY, input) => input,
        (oid::RECORD, input) if input != oid::UNKNOWN => input,
        (declared, _) => declared,
    }
}
