//! The tables of functions, operators and casts, read from `data/*.tsv` and joined with their bodies.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::bodies;
use crate::error::{Result, SqlError};
use crate::types::Oid;
use crate::types::context::{EvalContext, SetRows};
use crate::types::value::Value;

/// A function from values to a value. Arguments are of the resolved types; a strict function sees no NULL.
pub type ScalarFn = fn(&EvalContext<'_>, &[Value]) -> Result<Value>;
/// A function that returns a set of rows.
pub type SetFn = fn(&EvalContext<'_>, &[Value]) -> Result<SetRows>;
/// Makes the state of an aggregate; the context tells the types of its arguments.
pub type AggregateFn = fn(&EvalContext<'_>) -> Result<Box<dyn Accumulator>>;

/// The state of an aggregate over one group. It decides by itself what NULLs mean.
pub trait Accumulator: Send {
    /// Takes the arguments of one more row; those of an ordered-set aggregate come in its order, its direct
    /// arguments in front of them.
    fn add(&mut self, ctx: &EvalContext<'_>, arguments: &[Value]) -> Result<()>;

    /// The aggregate over all rows so far; more may be added afterwards (running window frames do).
    fn finish(&self, ctx: &EvalContext<'_>) -> Result<Value>;

    /// Whether it keeps its arguments, all of them.
    fn collects(&self) -> bool {
        false
    }
}

/// Functions that are defined over a window. [`super::window`] evaluates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "SQL's names")]
pub enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
}

/// What is executed for a function.
#[derive(Clone, Copy)]
pub enum Body {
    /// One value from the arguments.
    Scalar(ScalarFn),
    /// A set of rows.
    Set(SetFn),
    /// An aggregate.
    Aggregate(AggregateFn),
    /// A function over a window.
    Window(WindowFunction),
    /// None here: the [`System`](crate::types::context::System) carries it out if it knows it.
    System,
}

/// What kind of function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "SQL's words")]
pub enum FunctionKind {
    Normal,
    Aggregate,
    Window,
}

/// Whether the same arguments give the same result: always, within a statement, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "SQL's words")]
pub enum Volatility {
    Immutable,
    Stable,
    Volatile,
}

/// A function with one signature; fields as in PostgreSQL's `pg_proc`.
pub struct Function {
    /// Its number.
    pub oid: Oid,
    /// Its name.
    pub name: &'static str,
    /// What kind.
    pub kind: FunctionKind,
    /// For an aggregate: `n` normal, `o` ordered-set, `h` hypothetical-set; a blank for other functions.
    pub aggregate_kind: char,
    /// How many arguments of an ordered-set aggregate stand outside of WITHIN GROUP.
    pub direct_arguments: u16,
    /// A NULL argument makes the result NULL without a call.
    pub strict: bool,
    /// How constant it is.
    pub volatility: Volatility,
    /// Whether it returns a set of rows.
    pub returns_set: bool,
    /// Type of the elements of the last argument if that is VARIADIC, or 0.
    pub variadic: Oid,
    /// How many of the last arguments may be left out.
    pub defaults: u16,
    /// Type of the result (of each row's only column, or `record`).
    pub result: Oid,
    /// Types of the arguments.
    pub arguments: Vec<Oid>,
    /// Output columns of a function that has several (name, type); else empty.
    pub columns: Vec<(&'static str, Oid)>,
    /// Names of the arguments, where they have some.
    pub argument_names: Vec<&'static str>,
    /// The name of the implementation (`pg_proc.prosrc`).
    pub source: &'static str,
    /// What is executed.
    pub body: Body,
}

impl Function {
    /// The result of a scalar function, NULL if it is strict and an argument is NULL.
    ///
    /// `ctx` is the context of this call ([`EvalContext::for_call`]) for functions that look at types.
    ///
    /// # Errors
    /// The function's own; 0A000 for a function without a body that the system does not know either.
    #[inline]
    pub fn call(&self, ctx: &EvalContext<'_>, arguments: &[Value]) -> Result<Value> {
        if self.strict && arguments.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        match self.body {
            Body::Scalar(body) => body(ctx, arguments),
            Body::System => ctx.system.call(self.source, self.oid, arguments),
            _ => Err(not_here(self)),
        }
    }

    /// The rows of a function that returns a set; none if it is strict and an argument is NULL.
    ///
    /// # Errors
    /// As [`Function::call`].
    pub fn call_set(&self, ctx: &EvalContext<'_>, arguments: &[Value]) -> Result<SetRows> {
        if self.strict && arguments.iter().any(Value::is_null) {
            return Ok(Box::new(std::iter::empty()));
        }
        match self.body {
            Body::Set(body) => body(ctx, arguments),
            Body::System => ctx.system.call_set(self.source, self.oid, arguments),
            _ => Err(not_here(self)),
        }
    }
}

#[cold]
fn not_here(function: &Function) -> SqlError {
    SqlError::unsupported(format_args!("function {} here", function.name), crate::missing::TYPES)
}

/// An operator; fields as in PostgreSQL's `pg_operator`.
pub struct Operator {
    /// Its number.
    pub oid: Oid,
    /// Its name (`+`, `~~*`).
    pub name: &'static str,
    /// Type of the left side, or 0 for a prefix operator.
    pub left: Oid,
    /// Type of the right side.
    pub right: Oid,
    /// Type of the result.
    pub result: Oid,
    /// The same with its sides exchanged, or 0.
    pub commutator: Oid,
    /// What is true where it is false, or 0.
    pub negator: Oid,
    /// Oid of the function that carries it out.
    pub function: Oid,
    /// Whether it is an equality that hashing can decide.
    pub hashes: bool,
    /// Whether it is an equality that sorting can decide.
    pub merges: bool,
}

/// Where a cast happens by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// Anywhere.
    Implicit,
    /// In assignments to columns.
    Assignment,
    /// Only where it is written.
    Explicit,
}

/// How a cast is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastMethod {
    /// The value stays as it is.
    Relabel,
    /// By this function.
    Function(Oid),
    /// By writing it and reading that.
    InputOutput,
}

/// A cast; fields as in PostgreSQL's `pg_cast`.
#[derive(Clone, Copy, Debug)]
pub struct Cast {
    /// From this type.
    pub source: Oid,
    /// To this type.
    pub target: Oid,
    /// Where it happens by itself.
    pub context: CastContext,
    /// How.
    pub method: CastMethod,
}

struct Registry {
    functions: BTreeMap<Oid, Function>,
    functions_by_name: BTreeMap<&'static str, Vec<Oid>>,
    operators: BTreeMap<Oid, Operator>,
    operators_by_name: BTreeMap<&'static str, Vec<Oid>>,
    /// By name and the types of both sides.
    operators_by_types: BTreeMap<(&'static str, Oid, Oid), Oid>,
    casts: BTreeMap<(Oid, Oid), Cast>,
}

fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let mut functions: BTreeMap<Oid, Function> =
            include_str!("data/functions.tsv").lines().map(parse_function).map(|f| (f.oid, f)).collect();
        for line in include_str!("data/aggregates.tsv").lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            if let Some(function) = functions.get_mut(&number(fields[0])) {
                function.aggregate_kind = fields[1].chars().next().expect("a kind");
                function.direct_arguments = number(fields[2]) as u16;
            }
        }
        // What needs a function that is not in the table is not there either.
        let operators = include_str!("data/operators.tsv").lines().map(parse_operator);
        let operators = operators.filter(|o| functions.contains_key(&o.function));
        let operators: BTreeMap<Oid, Operator> = operators.map(|o| (o.oid, o)).collect();
        let mut functions_by_name: BTreeMap<_, Vec<Oid>> = BTreeMap::new();
        for function in functions.values() {
            functions_by_name.entry(function.name).or_default().push(function.oid);
        }
        let mut operators_by_name: BTreeMap<_, Vec<Oid>> = BTreeMap::new();
        let mut operators_by_types = BTreeMap::new();
        for operator in operators.values() {
            operators_by_types.insert((operator.name, operator.left, operator.right), operator.oid);
            operators_by_name.entry(operator.name).or_default().push(operator.oid);
        }
        let casts = include_str!("data/casts.tsv").lines().map(parse_cast);
        let casts = casts.filter(|cast| match cast.method {
            CastMethod::Function(function) => functions.contains_key(&function),
            _ => true,
        });
        let casts = casts.map(|cast| ((cast.source, cast.target), cast)).collect();
        Registry { functions, functions_by_name, operators, operators_by_name, operators_by_types, casts }
    })
}

fn number(text: &str) -> u32 {
    text.parse().expect("a number in a table of the catalog")
}

fn numbers(text: &str) -> Vec<Oid> {
    text.split_whitespace().map(number).collect()
}

fn parse_function(line: &'static str) -> Function {
    let fields: Vec<&'static str> = line.split('\t').collect();
    let (all, modes): (Vec<Oid>, Vec<&str>) = (numbers(fields[10]), fields[11].split_whitespace().collect());
    let names: Vec<&'static str> = fields[12].split(' ').filter(|_| !fields[12].is_empty()).collect();
    let outputs = (0..all.len()).filter(|&i| matches!(modes[i], "o" | "b" | "t"));
    let columns = outputs.map(|i| (names.get(i).copied().unwrap_or(""), all[i])).collect();
    let is_input = |i: &usize| modes.get(*i).is_none_or(|mode| matches!(*mode, "i" | "b" | "v"));
    let (name, source, arguments) = (fields[1], fields[13], numbers(fields[9]));
    let kind = match fields[2] {
        "a" => FunctionKind::Aggregate,
        "w" => FunctionKind::Window,
        _ => FunctionKind::Normal,
    };
    Function {
        oid: number(fields[0]),
        name,
        kind,
        aggregate_kind: if kind == FunctionKind::Aggregate { 'n' } else { ' ' },
        direct_arguments: 0,
        strict: fields[3] == "t",
        volatility: match fields[4] {
            "i" => Volatility::Immutable,
            "s" => Volatility::Stable,
            _ => Volatility::Volatile,
        },
        returns_set: fields[5] == "t",
        variadic: number(fields[6]),
        defaults: number(fields[7]) as u16,
        result: number(fields[8]),
        columns,
        argument_names: (0..names.len()).filter(is_input).map(|i| names[i]).collect(),
        source,
        body: bodies::body(kind, name, source),
        arguments,
    }
}

fn parse_operator(line: &'static str) -> Operator {
    let fields: Vec<&'static str> = line.split('\t').collect();
    Operator {
        oid: number(fields[0]),
        name: fields[1],
        left: number(fields[2]),
        right: number(fields[3]),
        result: number(fields[4]),
        commutator: number(fields[5]),
        negator: number(fields[6]),
        function: number(fields[7]),
        hashes: fields[8] == "t",
        merges: fields[9] == "t",
    }
}

fn parse_cast(line: &'static str) -> Cast {
    let fields: Vec<&'static str> = line.split('\t').collect();
    Cast {
        source: number(fields[0]),
        target: number(fields[1]),
        context: match fields[3] {
            "i" => CastContext::Implicit,
            "a" => CastContext::Assignment,
            _ => CastContext::Explicit,
        },
        method: match fields[4] {
            "f" => CastMethod::Function(number(fields[2])),
            "i" => CastMethod::InputOutput,
            _ => CastMethod::Relabel,
        },
    }
}

/// The built-in function with this oid.
pub fn function(oid: Oid) -> Option<&'static Function> {
    registry().functions.get(&oid)
}

/// The built-in functions with this name (all of them for an empty name), in the order of their oids.
pub fn functions(name: &str) -> Vec<&'static Function> {
    let registry = registry();
    match name {
        "" => registry.functions.values().collect(),
        _ => named(&registry.functions_by_name, &registry.functions, name),
    }
}

/// The built-in operator with this oid.
pub fn operator(oid: Oid) -> Option<&'static Operator> {
    registry().operators.get(&oid)
}

/// The built-in operators with this name (all of them for an empty name), in the order of their oids.
pub fn operators(name: &str) -> Vec<&'static Operator> {
    let registry = registry();
    match name {
        "" => registry.operators.values().collect(),
        _ => named(&registry.operators_by_name, &registry.operators, name),
    }
}

/// The built-in operator with this name between just these types; `left` is 0 for a prefix operator.
pub fn operator_of(name: &str, left: Oid, right: Oid) -> Option<&'static Operator> {
    let registry = registry();
    let by_types: &BTreeMap<(&str, Oid, Oid), Oid> = &registry.operators_by_types;
    registry.operators.get(by_types.get(&(name, left, right))?)
}

fn named<T>(names: &BTreeMap<&str, Vec<Oid>>, all: &'static BTreeMap<Oid, T>, name: &str) -> Vec<&'static T> {
    names.get(name).map(|oids| oids.iter().map(|oid| &all[oid]).collect()).unwrap_or_default()
}

/// The cast from `source` to `target` that the catalog lists, if any.
pub fn cast(source: Oid, target: Oid) -> Option<&'static Cast> {
    registry().casts.get(&(source, target))
}

/// All casts of the catalog.
pub fn casts() -> impl Iterator<Item = &'static Cast> {
    registry().casts.values()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fit_together() {
        assert!(functions("").len() > 1500 && operators("").len() > 400);
        for operator in operators("") {
            let function = function(operator.function).expect("an operator has its function");
            let sides = if operator.left == 0 { 1 } else { 2 };
            assert_eq!(function.arguments.len(), sides, "{} {}", operator.name, function.name);
            let found = operator_of(operator.name, operator.left, operator.right);
            assert_eq!(found.map(|found| found.oid), Some(operator.oid), "one with these types");
        }
        for cast in casts() {
            if let CastMethod::Function(oid) = cast.method {
                assert!(function(oid).is_some(), "a cast has its function");
            }
        }
    }
}
