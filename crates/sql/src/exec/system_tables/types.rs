//! Types, functions, operators and casts as rows.

use super::{Look, Maker, letter, part_oid, privileges, texts, vector};
use crate::catalog::object::{Object, PG_CATALOG, Table, UserType, UserTypeKind, View};
use crate::exec::Row;
use crate::func::{CastContext, CastMethod, Function, FunctionKind, Volatility};
use crate::types::value::Value;
use crate::types::{Oid, Type, TypeInfo, Types, builtin_types, oid};

const INTERNAL: Oid = 12;
const OWNER: Oid = crate::catalog::object::BOOTSTRAP_ROLE;
/// `array_subscript_handler`.
const ARRAY_SUBSCRIPT: Oid = 6179;

/// What `pg_type` says beyond [`TypeInfo`].
#[derive(Default)]
struct More {
    schema: Oid,
    owner: Oid,
    relation: Oid,
    not_null: bool,
    modifier: Option<i32>,
    default: Option<String>,
    acl: Option<Value>,
}

pub(super) fn types(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of(
        "pg_type",
        [
            "oid",
            "typname",
            "typnamespace",
            "typowner",
            "typlen",
            "typbyval",
            "typtype",
            "typcategory",
            "typispreferred",
            "typisdefined",
            "typdelim",
            "typrelid",
            "typsubscript",
            "typelem",
            "typarray",
            "typinput",
            "typoutput",
            "typreceive",
            "typsend",
            "typalign",
            "typstorage",
            "typnotnull",
            "typbasetype",
            "typtypmod",
            "typcollation",
            "typdefault",
            "typdefaultbin",
            "typacl",
        ],
    );
    let row = |info: &TypeInfo, more: More| {
        let text = |letter: char| Value::text(letter.to_string());
        maker.row([
            Value::Oid(info.oid),
            Value::text(&*info.name),
            Value::Oid(more.schema),
            Value::Oid(more.owner),
            Value::Int2(info.len),
            Value::Bool(info.by_value),
            text(info.kind.letter()),
            text(info.category),
            Value::Bool(info.preferred),
            Value::Bool(true),
            text(info.delimiter),
            Value::Oid(more.relation),
            // A domain over an array is none itself.
            Value::Oid(if info.is_array() && info.base == 0 { ARRAY_SUBSCRIPT } else { 0 }),
            Value::Oid(if info.base == 0 { info.element } else { 0 }),
            Value::Oid(info.array),
            Value::Oid(info.functions[0]),
            Value::Oid(info.functions[1]),
            Value::Oid(info.functions[2]),
            Value::Oid(info.functions[3]),
            text(info.align),
            text(info.storage),
            Value::Bool(more.not_null),
            Value::Oid(info.base),
            Value::Int4(more.modifier.unwrap_or(-1)),
            Value::Oid(info.collation),
            more.default.clone().map_or(Value::Null, Value::text),
            more.default.map_or(Value::Null, Value::text),
            more.acl.unwrap_or(Value::Null),
        ])
    };
    let built_in = |info: &TypeInfo| row(info, More { schema: PG_CATALOG, owner: OWNER, ..More::default() });
    let built_ins = builtin_types().filter(|info| look.wants_oid(info.oid));
    let mut rows: Vec<Row> = built_ins.map(built_in).collect();
    let settings = crate::types::context::Settings::default();
    let ctx = crate::types::context::EvalContext::new(&settings, look.system, 0);
    for object in &look.objects {
        for (ty, more) in types_of(look, object) {
            rows.extend(ctx.type_info(ty).map(|info| row(&info, more)));
        }
    }
    rows
}

/// The types that an object brings along.
fn types_of(look: &Look<'_>, object: &Object) -> Vec<(Oid, More)> {
    let (oid, array, mut own) = match object {
        Object::Type(ty) => (ty.oid, ty.array, user_type(look, ty)),
        Object::Table(Table { oid, row_type, schema, owner, .. })
        | Object::View(View { oid, row_type, schema, owner, .. })
            if *row_type != 0 =>
        {
            let own = More { schema: *schema, owner: *owner, relation: *oid, ..More::default() };
            (*row_type, *row_type + 1, own)
        }
        _ => return Vec::new(),
    };
    own.schema = object.schema();
    let arrays = More { schema: own.schema, owner: own.owner, ..More::default() };
    vec![(oid, own), (array, arrays)]
}

fn user_type(look: &Look<'_>, ty: &UserType) -> More {
    let acl = Some(privileges::acl(look, &ty.grants));
    let own = More { owner: ty.owner, acl, ..More::default() };
    match &ty.kind {
        UserTypeKind::Domain { base, modifier, not_null, default, .. } => {
            let base = Type { oid: *base, modifier: *modifier };
            let default = default.as_ref().map(|it| look.system.default_of_domain(&it.sql, base));
            More { modifier: Some(*modifier), not_null: *not_null, default, ..own }
        }
        _ => own,
    }
}

pub(super) fn labels(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of("pg_enum", ["oid", "enumtypid", "enumsortorder", "enumlabel"]);
    let mut rows = Vec::new();
    for object in &look.objects {
        let Object::Type(UserType { oid, kind: UserTypeKind::Enum(labels), .. }) = &**object else {
            continue;
        };
        for (at, (order, label)) in labels.iter().enumerate() {
            rows.push(maker.row([
                Value::Oid(part_oid(*oid, at)),
                Value::Oid(*oid),
                Value::Float4(*order),
                Value::text(label.as_str()),
            ]));
        }
    }
    rows
}

fn oids(list: &[Oid]) -> Vec<Value> {
    list.iter().map(|oid| Value::Oid(*oid)).collect()
}

/// Types, modes and names of all arguments, those of the output too; NULL where the plain ones say it all.
fn arguments(function: &Function) -> [Value; 3] {
    let inputs = function.arguments.len();
    let mut names: Vec<&str> = function.argument_names.clone();
    if function.columns.is_empty() {
        let names = if names.is_empty() { Value::Null } else { texts(names.into_iter()) };
        let variadic = match function.variadic {
            0 => [Value::Null, Value::Null],
            _ => {
                let modes = (0..inputs).map(|at| Value::text(if at + 1 == inputs { "v" } else { "i" }));
                [Value::array(oid::OID, oids(&function.arguments)), Value::array(oid::CHAR, modes.collect())]
            }
        };
        let [types, modes] = variadic;
        return [types, modes, names];
    }
    names.resize(inputs, "");
    let output = if function.returns_set { "t" } else { "o" };
    let types: Vec<Oid> =
        function.arguments.iter().copied().chain(function.columns.iter().map(|c| c.1)).collect();
    let modes = (0..types.len()).map(|at| Value::text(if at < inputs { "i" } else { output })).collect();
    let names = names.into_iter().chain(function.columns.iter().map(|column| column.0));
    [Value::array(oid::OID, oids(&types)), Value::array(oid::CHAR, modes), texts(names)]
}

pub(super) fn functions() -> Vec<Row> {
    let maker = Maker::of(
        "pg_proc",
        [
            "oid",
            "proname",
            "pronamespace",
            "proowner",
            "prolang",
            "procost",
            "prorows",
            "provariadic",
            "prokind",
            "proisstrict",
            "proretset",
            "provolatile",
            "proparallel",
            "pronargs",
            "pronargdefaults",
            "prorettype",
            "proargtypes",
            "proallargtypes",
            "proargmodes",
            "proargnames",
            "prosrc",
        ],
    );
    let row = |function: &&Function| {
        let [types, modes, names] = arguments(function);
        maker.row([
            Value::Oid(function.oid),
            Value::text(function.name),
            Value::Oid(PG_CATALOG),
            Value::Oid(OWNER),
            Value::Oid(INTERNAL),
            Value::Float4(1.0),
            Value::Float4(if function.returns_set { 1000.0 } else { 0.0 }),
            Value::Oid(function.variadic),
            letter(match function.kind {
                FunctionKind::Normal => 'f',
                FunctionKind::Aggregate => 'a',
                FunctionKind::Window => 'w',
            }),
            Value::Bool(function.strict),
            Value::Bool(function.returns_set),
            letter(match function.volatility {
                Volatility::Immutable => 'i',
                Volatility::Stable => 's',
                Volatility::Volatile => 'v',
            }),
            letter('s'),
            Value::Int2(function.arguments.len() as i16),
            Value::Int2(function.defaults as i16),
            Value::Oid(function.result),
            vector(oid::OID, oids(&function.arguments)),
            types,
            modes,
            names,
            Value::text(function.source),
        ])
    };
    crate::func::functions("").iter().map(row).collect()
}

pub(super) fn operators() -> Vec<Row> {
    let maker = Maker::of(
        "pg_operator",
        [
            "oid",
            "oprname",
            "oprnamespace",
            "oprowner",
            "oprkind",
            "oprcanmerge",
            "oprcanhash",
            "oprleft",
            "oprright",
            "oprresult",
            "oprcom",
            "oprnegate",
            "oprcode",
        ],
    );
    let row = |operator: &&crate::func::Operator| {
        maker.row([
            Value::Oid(operator.oid),
            Value::text(operator.name),
            Value::Oid(PG_CATALOG),
            Value::Oid(OWNER),
            letter(if operator.left == 0 { 'l' } else { 'b' }),
            Value::Bool(operator.merges),
            Value::Bool(operator.hashes),
            Value::Oid(operator.left),
            Value::Oid(operator.right),
            Value::Oid(operator.result),
            Value::Oid(operator.commutator),
            Value::Oid(operator.negator),
            Value::Oid(operator.function),
        ])
    };
    crate::func::operators("").iter().map(row).collect()
}

/// Numbers of casts begin here, as in PostgreSQL: one above 16383 would be a user's, and be dumped.
const FIRST_CAST: Oid = 10_000;

pub(super) fn casts() -> Vec<Row> {
    let maker =
        Maker::of("pg_cast", ["oid", "castsource", "casttarget", "castfunc", "castcontext", "castmethod"]);
    let row = |(at, cast): (usize, &crate::func::Cast)| {
        let (function, method) = match cast.method {
            CastMethod::Relabel => (0, 'b'),
            CastMethod::Function(function) => (function, 'f'),
            CastMethod::InputOutput => (0, 'i'),
        };
        maker.row([
            Value::Oid(FIRST_CAST + at as Oid),
            Value::Oid(cast.source),
            Value::Oid(cast.target),
            Value::Oid(function),
            letter(match cast.context {
                CastContext::Implicit => 'i',
                CastContext::Assignment => 'a',
                CastContext::Explicit => 'e',
            }),
            letter(method),
        ])
    };
    crate::func::casts().enumerate().map(row).collect()
}

pub(super) fn aggregates() -> Vec<Row> {
    let maker = Maker::of(
        "pg_aggregate",
        ["aggfnoid", "aggkind", "aggnumdirectargs", "aggfinalmodify", "aggmfinalmodify"],
    );
    let all = crate::func::functions("");
    let aggregates = all.iter().filter(|function| function.kind == FunctionKind::Aggregate);
    let row = |function: &&Function| {
        maker.row([
            Value::Oid(function.oid),
            letter(function.aggregate_kind),
            Value::Int2(function.direct_arguments as i16),
            letter('r'),
            letter('r'),
        ])
    };
    aggregates.map(row).collect()
}
