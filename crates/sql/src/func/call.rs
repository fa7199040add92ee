//! How the arguments of a call are laid on the parameters of a function: by place, by name, VARIADIC,
//! defaults.

use super::polymorphic;
use super::registry::Function;
use super::resolve::{FunctionCall, Slot};
use crate::error::Result;
use crate::types::value::Value;
use crate::types::{Oid, Types, oid};

/// Where each parameter's value comes from, before types are known.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// For each parameter in front of a collected VARIADIC one: the argument, or `None` for its default.
    places: Vec<Option<usize>>,
    variadic: Variadic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variadic {
    No,
    /// The arguments from here on become an array.
    Collect(usize),
    /// The arguments from here on are passed one by one.
    Each(usize),
    /// This array's elements are passed one by one.
    Spread(usize),
}

impl Order {
    /// How far the call is from giving exactly what the function declares.
    pub(super) fn effort(&self) -> u32 {
        let defaults = self.places.iter().filter(|place| place.is_none()).count() as u32;
        2 * defaults + u32::from(matches!(self.variadic, Variadic::Collect(_)))
    }
}

/// How `count` arguments fit the function's parameters, if they do.
pub(super) fn order(
    function: &Function,
    count: usize,
    names: &[Option<&str>],
    marked: bool,
) -> Option<Order> {
    let parameters = function.arguments.len();
    let named = names.iter().any(Option::is_some);
    let required = parameters - usize::from(function.defaults);
    if function.variadic == oid::ANY && !named && count >= parameters {
        let fixed = parameters - 1;
        let variadic = if marked { Variadic::Spread(count - 1) } else { Variadic::Each(fixed) };
        return (!marked || count == parameters)
            .then(|| Order { places: (0..fixed).map(Some).collect(), variadic });
    }
    if function.variadic != 0 && !marked && !named {
        let fixed = parameters - 1;
        return (count > fixed)
            .then(|| Order { places: (0..fixed).map(Some).collect(), variadic: Variadic::Collect(fixed) });
    }
    if count > parameters || count < required || (marked && function.variadic == 0) {
        return None;
    }
    let mut places: Vec<Option<usize>> = vec![None; parameters];
    for argument in 0..count {
        let place = match names.get(argument).copied().flatten() {
            None => argument,
            Some(name) => function.argument_names.iter().position(|parameter| *parameter == name)?,
        };
        if places[place].replace(argument).is_some() {
            return None;
        }
    }
    let missing = places.iter().position(Option::is_none).unwrap_or(parameters);
    (missing >= required).then_some(Order { places, variadic: Variadic::No })
}

/// The type that is declared for each given argument.
pub(super) fn declared(function: &Function, order: &Order, count: usize) -> Vec<Oid> {
    let mut declared = vec![oid::ANY; count];
    for (parameter, place) in order.places.iter().enumerate() {
        if let Some(argument) = place {
            declared[*argument] = function.arguments[parameter];
        }
    }
    if let Variadic::Collect(from) = order.variadic {
        declared[from..].fill(function.variadic);
    }
    declared
}

/// The call with its types.
pub(super) fn finish(
    types: &dyn Types,
    function: &'static Function,
    order: Order,
    declared: Vec<Oid>,
    inputs: &[Oid],
) -> Result<FunctionCall> {
    let (resolved, result) = polymorphic::resolve(types, &declared, function.result, inputs)?;
    let mut slots = Vec::new();
    let mut slot_types = Vec::new();
    for (parameter, place) in order.places.iter().enumerate() {
        match place {
            Some(index) => {
                slots.push(Slot::Argument { index: *index, ty: resolved[*index] });
                slot_types.push(resolved[*index]);
            }
            None => {
                slots.push(Slot::Default(default_of(function.arguments[parameter], function, parameter)));
                slot_types.push(function.arguments[parameter]);
            }
        }
    }
    match order.variadic {
        Variadic::No => {}
        Variadic::Collect(from) => {
            let element = resolved[from];
            let array = types.array_of(element);
            slots.push(Slot::Array { from, element, array });
            slot_types.push(array);
        }
        Variadic::Each(from) => {
            for (index, ty) in resolved.iter().enumerate().skip(from) {
                slots.push(Slot::Argument { index, ty: *ty });
                slot_types.push(*ty);
            }
        }
        Variadic::Spread(index) => {
            let element = types.element_of(inputs[index]);
            slots.push(Slot::Spread { index, element });
            slot_types.push(element);
        }
    }
    Ok(FunctionCall { function, slots, types: slot_types, result })
}

/// The default of a parameter: nothing (0, empty, false) for nearly all functions.
fn default_of(ty: Oid, function: &Function, parameter: usize) -> Value {
    let is_true =
        matches!((function.name, parameter), ("jsonb_set" | "jsonb_set_lax", 3) | ("parse_ident", 1));
    match ty {
        oid::BOOL => Value::Bool(is_true),
        oid::INT4 => Value::Int4(0),
        oid::INT8 => Value::Int8(0),
        oid::FLOAT8 => Value::Float8(0.0),
        oid::TEXT if function.name == "jsonb_set_lax" => Value::text("use_json_null"),
        oid::TEXT if function.name == "normalize" || function.name == "is_normalized" => Value::text("NFC"),
        oid::JSONB => Value::Jsonb(crate::types::json::Json::Object(Vec::new()).into()),
        _ => Value::Null,
    }
}
