//! Which function, operator or cast an expression means (PostgreSQL's manual, chapter 10).
//!
//! Arguments are given by their types; `unknown` is a literal or parameter whose type is still open. The
//! rules and their order are those of PostgreSQL's `parse_func.c`, `parse_oper.c` and `parse_coerce.c`,
//! because clients depend on which candidate wins.

use super::polymorphic::{self, is_polymorphic};
use super::registry::{self, Body, CastContext, CastMethod, Function, Operator};
use crate::error::{Result, SqlError, SqlState};
use crate::types::text_of_types;
use crate::types::value::Value;
use crate::types::{Oid, TypeInfo, TypeKind, Types, oid};

/// Where a parameter of a function gets its value from.
#[derive(Clone, Debug)]
pub enum Slot {
    /// The given argument `index`, coerced to `ty`.
    Argument {
        /// Which given argument.
        index: usize,
        /// The type it is coerced to.
        ty: Oid,
    },
    /// The given arguments `from..`, each coerced to `element`, as an array.
    Array {
        /// The first of the given arguments.
        from: usize,
        /// The type that each is coerced to.
        element: Oid,
        /// The type of the array.
        array: Oid,
    },
    /// The elements of the array that is given as argument `index` (`VARIADIC array` where the function takes
    /// any number of arguments of any type), one by one.
    Spread {
        /// Which given argument.
        index: usize,
        /// The type of its elements.
        element: Oid,
    },
    /// This value, since no argument was given.
    Default(Value),
}

/// A call of a function with its types resolved.
pub struct FunctionCall {
    /// The function.
    pub function: &'static Function,
    /// One for each parameter (for VARIADIC "any", one for each argument).
    pub slots: Vec<Slot>,
    /// Types of the parameters, for [`crate::types::context::EvalContext::argument_types`].
    pub types: Vec<Oid>,
    /// Type of the result.
    pub result: Oid,
}

/// An operator with its types resolved.
pub struct OperatorCall {
    /// The operator.
    pub operator: &'static Operator,
    /// The function that carries it out.
    pub function: &'static Function,
    /// Types that the sides are coerced to (one for a prefix operator), also for
    /// [`crate::types::context::EvalContext::argument_types`].
    pub types: Vec<Oid>,
    /// Type of the result.
    pub result: Oid,
}

/// How a value gets from one type to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CastPath {
    /// It stays as it is.
    Relabel,
    /// By this function (its first argument; modifiers are applied afterwards by
    /// [`crate::types::modifier::apply_modifier`]).
    Function(Oid),
    /// By writing it and reading that.
    InputOutput,
    /// Every element of the array in this way.
    Array(Box<CastPath>),
}

/// The way from type `source` to type `target` in this context, if there is one.
pub fn find_cast(types: &dyn Types, source: Oid, target: Oid, context: CastContext) -> Option<CastPath> {
    let (source, target) = (types.base_of(source), types.base_of(target));
    if source == target {
        return Some(CastPath::Relabel);
    }
    if let Some(cast) = registry::cast(source, target) {
        return (cast.context <= context).then_some(match cast.method {
            CastMethod::Relabel => CastPath::Relabel,
            CastMethod::Function(function) => CastPath::Function(function),
            CastMethod::InputOutput => CastPath::InputOutput,
        });
    }
    let (from, to) = (types.type_info(source)?, types.type_info(target)?);
    if (from.is_array() || matches!(source, oid::INT2VECTOR | oid::OIDVECTOR)) && to.is_array() {
        let element = find_cast(types, from.element, to.element, context)?;
        return Some(match element {
            CastPath::Relabel => CastPath::Relabel,
            other => CastPath::Array(Box::new(other)),
        });
    }
    let by_text = (context >= CastContext::Assignment && to.category == 'S')
        || (context == CastContext::Explicit && from.category == 'S');
    let written = |oid: Oid, kind: TypeKind| kind != TypeKind::Pseudo || oid == oid::CSTRING;
    let writable = written(target, to.kind) && written(source, from.kind);
    let shown = matches!(source, oid::RECORD | oid::VOID) && to.category == 'S';
    (by_text && (writable || shown)).then_some(CastPath::InputOutput)
}

/// Whether an argument of type `input` may stand where `target` is declared, without a cast written.
fn coerces(types: &dyn Types, input: Oid, target: Oid) -> bool {
    input == target
        || target == oid::ANY
        || is_polymorphic(target)
        || input == oid::UNKNOWN
        || find_cast(types, input, target, CastContext::Implicit).is_some()
        || (target == oid::RECORD && is_composite(types, input))
}

fn is_composite(types: &dyn Types, oid: Oid) -> bool {
    types.type_info(oid).is_some_and(|info| info.kind == TypeKind::Composite)
}

/// A function or operator that may be meant: what it is, and the types it declares for the given arguments.
struct Candidate<T> {
    what: T,
    declared: Vec<Oid>,
}

impl<T> Candidate<T> {
    fn accepts(&self, types: &dyn Types, inputs: &[Oid]) -> bool {
        self.declared.iter().zip(inputs).all(|(declared, input)| coerces(types, *input, *declared))
            && polymorphic::consistent(types, &self.declared, inputs)
    }
}

/// Keeps the candidates for which `count` is largest.
fn keep_best<T>(candidates: &mut Vec<Candidate<T>>, count: impl Fn(&Candidate<T>) -> usize) {
    let best = candidates.iter().map(&count).max().unwrap_or(0);
    candidates.retain(|candidate| count(candidate) == best);
}

/// The one candidate that the rules prefer (`func_select_candidate`).
fn select<T>(types: &dyn Types, mut all: Vec<Candidate<T>>, inputs: &[Oid]) -> Option<Candidate<T>> {
    let based: Vec<Oid> = inputs.iter().map(|input| types.base_of(*input)).collect();
    let info = |oid: Oid| types.type_info(oid);
    let known = |i: &usize| inputs[*i] != oid::UNKNOWN;
    let places = 0..inputs.len();
    keep_best(&mut all, |c| places.clone().filter(known).filter(|&i| c.declared[i] == based[i]).count());
    if all.len() == 1 {
        return all.pop();
    }
    let preferred = |declared: Oid, category: char| {
        info(declared).is_some_and(|info| info.preferred && info.category == category)
    };
    keep_best(&mut all, |c| {
        let fits = |i: &usize| {
            let category = info(based[*i]).map_or('U', |info| info.category);
            c.declared[*i] == based[*i] || preferred(c.declared[*i], category)
        };
        places.clone().filter(known).filter(fits).count()
    });
    if all.len() == 1 || !inputs.contains(&oid::UNKNOWN) {
        return if all.len() == 1 { all.pop() } else { None };
    }
    if let Some(slots) = unknown_categories(types, &all, inputs) {
        let fits = |c: &Candidate<T>| {
            slots.iter().all(|&(i, category, must_be_preferred)| {
                info(c.declared[i])
                    .is_some_and(|t| t.category == category && (t.preferred || !must_be_preferred))
            })
        };
        if all.iter().any(fits) {
            all.retain(fits);
        }
        if all.len() == 1 {
            return all.pop();
        }
    }
    let mut known_types = places.filter(known).map(|i| based[i]);
    let first = known_types.next()?;
    if known_types.any(|other| other != first) {
        return None;
    }
    let same = vec![first; inputs.len()];
    all.retain(|c| c.accepts(types, &same));
    if all.len() == 1 { all.pop() } else { None }
}

/// For each open argument the category that the candidates agree on (strings win), and whether one of them
/// has the preferred type there; `None` if they do not agree.
fn unknown_categories<T>(
    types: &dyn Types,
    all: &[Candidate<T>],
    inputs: &[Oid],
) -> Option<Vec<(usize, char, bool)>> {
    let unknown = (0..inputs.len()).filter(|&i| inputs[i] == oid::UNKNOWN);
    let mut slots = Vec::new();
    for i in unknown {
        let mut category = None;
        let mut preferred = false;
        let mut conflict = false;
        for candidate in all {
            let info = types.type_info(candidate.declared[i])?;
            match category {
                None => (category, preferred) = (Some(info.category), info.preferred),
                Some(agreed) if agreed == info.category => preferred |= info.preferred,
                Some(_) if info.category == 'S' => (category, preferred) = (Some('S'), info.preferred),
                Some('S') => {}
                Some(_) => conflict = true,
            }
        }
        if conflict && category != Some('S') {
            return None;
        }
        slots.push((i, category?, preferred));
    }
    Some(slots)
}

/// The function that a call means.
///
/// `inputs` are the types of the arguments, `names` the names of those given by name (empty if none is),
/// `variadic` whether the last argument is marked VARIADIC.
///
/// # Errors
/// 42883 if there is none, 42725 if several fit equally well, 42804 if polymorphic types cannot be told.
pub fn resolve_function(
    types: &dyn Types,
    name: &str,
    inputs: &[Oid],
    names: &[Option<&str>],
    variadic: bool,
) -> Result<FunctionCall> {
    let mut candidates = Vec::new();
    for function in registry::functions(name) {
        if let Some(order) = super::call::order(function, inputs.len(), names, variadic) {
            let declared = super::call::declared(function, &order, inputs.len());
            candidates.push(Candidate { what: (function, order), declared });
        }
    }
    let exact = candidates.iter().position(|c| c.declared == inputs);
    let chosen = match exact {
        Some(at) => Some(candidates.swap_remove(at)),
        None => {
            candidates.retain(|c| c.accepts(types, inputs));
            prefer_fixed(&mut candidates);
            match candidates.len() {
                0 => return Err(no_function(types, name, inputs)),
                1 => candidates.pop(),
                _ => select(types, candidates, inputs),
            }
        }
    };
    let Some(Candidate { what: (function, order), declared }) = chosen else {
        let message = format!("function {name}({}) is not unique", text_of_types(types, inputs));
        let hint = "Could not choose a best candidate function. You might need to add explicit type casts.";
        return Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message).hint(hint));
    };
    super::call::finish(types, function, order, declared, inputs)
}

/// Among candidates that declare the same types, those that need no VARIADIC expansion and no defaults.
fn prefer_fixed(candidates: &mut Vec<Candidate<(&'static Function, super::call::Order)>>) {
    let effort = |c: &Candidate<(&'static Function, super::call::Order)>| c.what.1.effort();
    let best: Vec<(Vec<Oid>, u32)> = candidates.iter().map(|c| (c.declared.clone(), effort(c))).collect();
    let beaten = |c: &Candidate<_>, own: u32| {
        best.iter().any(|(declared, other)| *declared == c.declared && *other < own)
    };
    let keep: Vec<bool> = candidates.iter().map(|c| !beaten(c, effort(c))).collect();
    let mut keep = keep.into_iter();
    candidates.retain(|_| keep.next().expect("one for each"));
}

#[cold]
fn no_function(types: &dyn Types, name: &str, inputs: &[Oid]) -> SqlError {
    let message = format!("function {name}({}) does not exist", text_of_types(types, inputs));
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message).hint(
        "No function matches the given name and argument types. You might need to add explicit type casts.",
    )
}

/// The operator that an expression means; `left` is `None` for a prefix operator.
///
/// # Errors
/// 42883 if there is none, 42725 if several fit equally well, 42804 if polymorphic types cannot be told.
pub fn resolve_operator(
    types: &dyn Types,
    name: &str,
    left: Option<Oid>,
    right: Oid,
) -> Result<OperatorCall> {
    let inputs: Vec<Oid> = left.into_iter().chain([right]).collect();
    // A literal beside a known type is first taken to be of that type.
    let known = inputs.iter().copied().find(|oid| *oid != oid::UNKNOWN).unwrap_or(oid::UNKNOWN);
    let assumed = |oid: Oid| if oid == oid::UNKNOWN { known } else { oid };
    let of = |change: &dyn Fn(Oid) -> Oid| registry::operator_of(name, left.map_or(0, change), change(right));
    let exact = of(&assumed).or_else(|| match inputs.contains(&oid::UNKNOWN) {
        true => of(&|oid| types.base_of(assumed(oid))),
        false => None,
    });
    let candidate = |what: &'static Operator| {
        let declared = [what.left, what.right].into_iter().filter(|oid| *oid != 0).collect();
        Candidate { what, declared }
    };
    let chosen = match exact {
        Some(operator) => Some(candidate(operator)),
        None => {
            let named = registry::operators(name).into_iter().filter(|o| (o.left == 0) == left.is_none());
            let mut candidates: Vec<_> = named.map(candidate).collect();
            candidates.retain(|c| c.accepts(types, &inputs));
            match candidates.len() {
                0 => return Err(no_operator(types, name, left, right)),
                1 => candidates.pop(),
                _ => select(types, candidates, &inputs),
            }
        }
    };
    let Some(Candidate { what: operator, declared }) = chosen else {
        let message = format!("operator is not unique: {}", spelled(types, name, left, right));
        let hint = "Could not choose a best candidate operator. You might need to add explicit type casts.";
        return Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message).hint(hint));
    };
    let function = registry::function(operator.function).expect("an operator's function is in the table");
    let (resolved, result) = polymorphic::resolve(types, &declared, operator.result, &inputs)?;
    Ok(OperatorCall { operator, function, types: resolved, result })
}

fn spelled(types: &dyn Types, name: &str, left: Option<Oid>, right: Oid) -> String {
    let left = left.map_or(String::new(), |left| text_of_types(types, &[left]) + " ");
    format!("{left}{name} {}", text_of_types(types, &[right]))
}

#[cold]
fn no_operator(types: &dyn Types, name: &str, left: Option<Oid>, right: Oid) -> SqlError {
    let message = format!("operator does not exist: {}", spelled(types, name, left, right));
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message).hint(match left {
        Some(_) => {
            "No operator matches the given name and argument types. You might need to add explicit type \
             casts."
        }
        None => {
            "No operator matches the given name and argument type. You might need to add an explicit type \
             cast."
        }
    })
}

/// The type that the branches of a CASE, COALESCE, VALUES, UNION or array constructor have in common; text if
/// all are open. `what` names the construct in the error.
///
/// # Errors
/// 42804 if there is none.
pub fn select_common_type(types: &dyn Types, inputs: &[Oid], what: &str) -> Result<Oid> {
    let first = inputs.first().copied().unwrap_or(oid::UNKNOWN);
    if first != oid::UNKNOWN && inputs.iter().all(|input| *input == first) {
        return Ok(first);
    }
    let based = inputs.iter().map(|input| types.base_of(*input));
    let mut common: Option<(Oid, TypeInfo)> = None;
    for input in based.filter(|input| *input != oid::UNKNOWN) {
        let Some(info) = types.type_info(input) else { continue };
        let Some((so_far, so_far_info)) = &common else {
            common = Some((input, info.into_owned()));
            continue;
        };
        if input == *so_far {
            continue;
        }
        if info.category != so_far_info.category {
            let (a, b) = (text_of_types(types, &[*so_far]), text_of_types(types, &[input]));
            let message = format!("{what} types {a} and {b} cannot be matched");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        let widens =
            !so_far_info.preferred && coerces(types, *so_far, input) && !coerces(types, input, *so_far);
        if widens {
            common = Some((input, info.into_owned()));
        }
    }
    Ok(common.map_or(oid::TEXT, |(oid, _)| oid))
}

/// Whether the function can be carried out: it has a body here, or the system knows it.
pub fn is_callable(system: &dyn crate::types::context::System, function: &Function) -> bool {
    !matches!(function.body, Body::System) || system.has(function.source)
}
