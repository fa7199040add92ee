//! Functions that read the catalog: names, definitions, comments, privileges, sizes.

use super::activity;
use super::deparse::Style;
use super::privileges;
use super::relations::{self, PG_CLASS, PG_CONSTRAINT, PG_NAMESPACE, PG_TYPE};
use super::server;
use super::{Look, Only, SystemRelation, by_oid};
use crate::bind::Binder;
use crate::catalog::object::{Index, Object, PG_CATALOG};
use crate::encoding::{self, numbered};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::Row;
use crate::exec::privilege;
use crate::exec::signal;
use crate::exec::system::{SessionSystem, oid_of, text_of};
use crate::func::quote_ident;
use crate::missing;
use crate::types::context::{EvalContext, NoSystem, Settings};
use crate::types::value::{Array, Value};
use crate::types::{Oid, Type, oid};

/// Sources of functions with one value.
const ONE: &[&str] = &[
    "pg_table_is_visible",
    "pg_type_is_visible",
    "pg_function_is_visible",
    "pg_operator_is_visible",
    "pg_opclass_is_visible",
    "pg_opfamily_is_visible",
    "pg_collation_is_visible",
    "pg_conversion_is_visible",
    "pg_statistics_obj_is_visible",
    "pg_get_userbyid",
    "PG_encoding_to_char",
    "PG_char_to_encoding",
    "pg_client_encoding",
    "getdatabaseencoding",
    "pg_encoding_max_length_sql",
    "pg_is_in_recovery",
    "pg_get_expr",
    "pg_get_expr_ext",
    "pg_indexam_has_property",
    "pg_get_indexdef",
    "pg_get_indexdef_ext",
    "pg_get_constraintdef",
    "pg_get_constraintdef_ext",
    "pg_get_viewdef",
    "pg_get_viewdef_ext",
    "pg_get_viewdef_wrap",
    "pg_get_viewdef_name",
    "pg_get_viewdef_name_ext",
    "pg_get_triggerdef",
    "pg_get_triggerdef_ext",
    "pg_get_ruledef",
    "pg_get_ruledef_ext",
    "pg_get_partkeydef",
    "pg_get_partition_constraintdef",
    "pg_get_statisticsobjdef",
    "pg_get_statisticsobjdef_columns",
    "pg_get_functiondef",
    "pg_get_function_sqlbody",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_function_result",
    "pg_get_function_arg_default",
    "pg_partition_root",
    "pg_relation_is_publishable",
    "pg_relation_is_updatable",
    "pg_column_is_updatable",
    "pg_sequence_last_value",
    "pg_my_temp_schema",
    "pg_is_other_temp_schema",
    "pg_tablespace_location",
    "pg_collation_for",
    "pg_collation_actual_version",
    "pg_database_collation_actual_version",
    "obj_description/1",
    "obj_description/2",
    "col_description/2",
    "shobj_description/2",
    "pg_size_bytes",
    "pg_relation_size/1",
    "pg_relation_size",
    "pg_total_relation_size",
    "pg_table_size",
    "pg_indexes_size",
    "pg_database_size_name",
    "pg_database_size_oid",
    "pg_tablespace_size_oid",
    "pg_tablespace_size_name",
    "pg_relation_filenode",
    "pg_cancel_backend",
    "pg_terminate_backend",
    "inet_client_addr",
    "inet_client_port",
    "inet_server_addr",
    "inet_server_port",
    "pg_trigger_depth",
    "acldefault_sql",
    "_pg_index_position/2",
    "_pg_char_max_length/2",
    "_pg_char_octet_length/2",
    "_pg_numeric_precision/2",
    "_pg_numeric_precision_radix/2",
    "_pg_numeric_scale/2",
    "_pg_datetime_precision/2",
    "_pg_interval_type/2",
];

/// Sources of functions with rows.
const ROWS: &[&str] = &[
    "show_all_settings",
    "pg_get_keywords",
    "pg_timezone_names",
    "pg_timezone_abbrevs",
    "pg_lock_status",
    "pg_cursor",
    "pg_prepared_statement",
    "pg_prepared_xact",
    "pg_available_extensions",
    "pg_available_extension_versions",
    "pg_partition_ancestors",
    "pg_partition_tree",
    "pg_options_to_table",
    "aclexplode",
    "pg_listening_channels",
    "pg_config",
    "_pg_expandarray/1",
];

pub(in crate::exec) fn knows(source: &str) -> bool {
    server::knows(source) || ONE.contains(&source) || ROWS.contains(&source) || is_privilege(source)
}

fn is_privilege(source: &str) -> bool {
    source.starts_with("has_") || source.starts_with("pg_has_role")
}

fn is_true(value: Option<&Value>) -> bool {
    matches!(value, Some(Value::Bool(true)))
}

fn number_of(value: Option<&Value>) -> i32 {
    value.and_then(Value::as_i64).unwrap_or(0) as i32
}

fn optional(text: Option<String>) -> Value {
    text.map_or(Value::Null, Value::text)
}

/// The rows of a function.
pub(in crate::exec) fn rows(on: &SessionSystem<'_>, source: &str, arguments: &[Value]) -> Result<Vec<Row>> {
    let first = arguments.first().unwrap_or(&Value::Null);
    Ok(match source {
        "show_all_settings" => activity::settings(on),
        "pg_listening_channels" => activity::channels(on),
        "pg_get_keywords" => activity::keywords(),
        "pg_timezone_names" => activity::time_zones(on),
        "pg_prepared_statement" => activity::statements(on),
        "pg_cursor" => activity::cursors(on),
        "pg_lock_status" => activity::locks(on)?,
        "pg_options_to_table" => activity::options(first),
        "aclexplode" => activity::privileges(on, first),
        "_pg_expandarray/1" => match first {
            Value::Array(array) => expanded(array),
            _ => Vec::new(),
        },
        source if ROWS.contains(&source) => Vec::new(),
        _ => return Err(SqlError::unsupported(format_args!("function {source}"), missing::TYPES)),
    })
}

fn expanded(array: &Array) -> Vec<Row> {
    let elements = array.elements.iter().enumerate();
    elements.map(|(at, element)| vec![element.clone(), Value::Int4(at as i32 + 1)]).collect()
}

/// The value of a function.
pub(in crate::exec) fn call(on: &SessionSystem<'_>, source: &str, arguments: &[Value]) -> Result<Value> {
    let (first, second) = (arguments.first(), arguments.get(1));
    let (number, pretty) = (oid_of(first), is_true(arguments.last()));
    if is_privilege(source) {
        return on.privilege(source, arguments);
    }
    if server::knows(source) {
        return server::call(on, source, arguments);
    }
    Ok(match source {
        "pg_table_is_visible" => on.visible(number),
        "pg_type_is_visible" => on.visible_type(number),
        "pg_get_userbyid" => Value::text(on.user_name(number)),
        "PG_encoding_to_char" => Value::text(numbered(number_of(first)).map_or("", |known| known.name)),
        "PG_char_to_encoding" => {
            Value::Int4(encoding::named(text_of(first)).map_or(-1, |known| i32::from(known.number)))
        }
        "pg_client_encoding" => Value::text(on.shared.variables.borrow().eval.client_encoding.name),
        "getdatabaseencoding" => Value::text("UTF8"),
        "pg_encoding_max_length_sql" => {
            numbered(number_of(first)).map_or(Value::Null, |known| Value::Int4(known.bytes_max))
        }
        "pg_get_expr" | "pg_get_expr_ext" => on.shown_expression(arguments),
        "pg_indexam_has_property" => super::operator_classes::method_property(number, text_of(second)),
        "pg_get_indexdef" => optional(on.index_definition(number, 0, false)),
        "pg_get_indexdef_ext" => {
            let column = second.and_then(Value::as_i64).unwrap_or(0) as usize;
            optional(on.index_definition(number, column, pretty))
        }
        "pg_get_constraintdef" | "pg_get_constraintdef_ext" => {
            optional(on.constraint_definition(number, pretty))
        }
        "pg_get_viewdef" => optional(on.view_text(number, Style::expression(false))),
        "pg_get_viewdef_ext" => optional(on.view_text(number, Style::expression(is_true(second)))),
        "pg_get_viewdef_wrap" => {
            let wrap = second.and_then(Value::as_i64).unwrap_or(0);
            let wrap = usize::try_from(wrap).unwrap_or(usize::MAX);
            optional(on.view_text(number, Style { wrap, ..Style::expression(true) }))
        }
        "pg_get_viewdef_name" | "pg_get_viewdef_name_ext" => {
            let number = crate::types::context::System::reg_in(on, oid::REGCLASS, text_of(first))?;
            optional(on.view_text(number, Style::expression(is_true(second))))
        }
        "pg_get_function_arguments" | "pg_get_function_identity_arguments" => on.function_arguments(number),
        "pg_get_function_result" => on.function_result(number),
        "pg_tablespace_location" => Value::text(""),
        "obj_description/1" => on.comment_on(None, number, 0),
        "obj_description/2" => on.comment_on(Some(text_of(second)), number, 0),
        "col_description/2" => {
            on.comment_on(Some("pg_class"), number, second.and_then(Value::as_i64).unwrap_or(0) as i32)
        }
        "shobj_description/2" => on.role_comment(number),
        source if source.ends_with("_is_visible") => Value::Bool(true),
        "pg_relation_filenode" => Value::Oid(number),
        "pg_relation_is_updatable" => Value::Int4(on.updatable(number)),
        "pg_column_is_updatable" => Value::Bool(on.updatable(number) & 4 != 0),
        "pg_my_temp_schema" => Value::Oid(on.store.own_schema(false)?.unwrap_or(0)),
        "pg_is_other_temp_schema" | "pg_is_in_recovery" => Value::Bool(false),
        "pg_relation_is_publishable" => {
            Value::Bool(matches!(on.store.object(number).as_deref(), Some(Object::Table(_))))
        }
        "pg_sequence_last_value" => match on.store.sequence_state(number)? {
            (last, true) => Value::Int8(last),
            (_, false) => Value::Null,
        },
        "pg_trigger_depth" => Value::Int4(0),
        "pg_column_size" => {
            return Err(SqlError::unsupported(
                source,
                "Use length or octet_length; pg_relation_size tells what a table takes.",
            ));
        }
        "pg_size_bytes" => Value::Int8(super::sizes::bytes_of(text_of(first))?),
        source if source.contains("_size") => on.size(source, first.unwrap_or(&Value::Null))?,
        "pg_cancel_backend" => signal::cancel(on, number_of(first))?,
        "pg_terminate_backend" => {
            signal::terminate(on, number_of(first), second.and_then(Value::as_i64).unwrap_or(0))?
        }
        "pg_collation_for" => Value::text("\"default\""),
        "acldefault_sql" => on.default_privileges(text_of(first), oid_of(second))?,
        "_pg_index_position/2" => on.index_position(number, second.and_then(Value::as_i64).unwrap_or(0)),
        source if source.starts_with("_pg_") => of_type(
            source,
            Type { oid: number, modifier: second.and_then(Value::as_i64).unwrap_or(-1) as i32 },
        ),
        source if ONE.contains(&source) => Value::Null,
        _ => return Err(SqlError::unsupported(format_args!("function {source}"), missing::TYPES)),
    })
}

/// What the information schema says of a type: lengths, precisions, scales.
fn of_type(source: &str, ty: Type) -> Value {
    let Type { oid, modifier } = ty;
    let length = match oid {
        oid::BPCHAR | oid::VARCHAR if modifier >= 0 => Some(modifier - 4),
        oid::BIT | oid::VARBIT if modifier >= 0 => Some(modifier),
        _ => None,
    };
    let numeric = ty.precision_scale().filter(|_| oid == oid::NUMERIC);
    let bits = match oid {
        oid::INT2 => Some(16),
        oid::INT4 => Some(32),
        oid::INT8 => Some(64),
        oid::FLOAT4 => Some(24),
        oid::FLOAT8 => Some(53),
        _ => None,
    };
    let found = match source {
        "_pg_char_max_length/2" => length,
        "_pg_char_octet_length/2" => match (oid, length) {
            (oid::TEXT | oid::BPCHAR | oid::VARCHAR, None) => Some(1 << 30),
            (oid::BIT | oid::VARBIT, _) => None,
            (_, length) => length.map(|length| length * 4),
        },
        "_pg_numeric_precision/2" => bits.or(numeric.map(|(precision, _)| precision)),
        "_pg_numeric_precision_radix/2" => bits.map(|_| 2).or((oid == oid::NUMERIC).then_some(10)),
        "_pg_numeric_scale/2" => match oid {
            oid::INT2 | oid::INT4 | oid::INT8 => Some(0),
            _ => numeric.map(|(_, scale)| scale & 0xffff),
        },
        "_pg_datetime_precision/2" => match oid {
            oid::DATE => Some(0),
            oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::TIMETZ if modifier < 0 => Some(6),
            oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::TIMETZ => Some(modifier),
            oid::INTERVAL if modifier < 0 || modifier & 0xffff == 0xffff => Some(6),
            oid::INTERVAL => Some(modifier & 0xffff),
            _ => None,
        },
        _ => None,
    };
    found.map_or(Value::Null, Value::Int4)
}

impl SessionSystem<'_> {
    /// Sizes of tables and indexes, from what this host has of them.
    fn size(&self, source: &str, what: &Value) -> Result<Value> {
        let of = |table: Oid| {
            let census = self.store.census(table)?;
            let own = census.of_pod(census.table_bytes);
            Ok::<_, SqlError>((own, census.of_pod(census.index_bytes()), census))
        };
        if source.starts_with("pg_database") || source.starts_with("pg_tablespace") {
            let mut all = 0;
            for object in self.store.objects() {
                if let Object::Table(table) = &*object {
                    let (own, indexes, _) = of(table.oid)?;
                    all += own + indexes;
                }
            }
            return Ok(Value::Int8(all as i64));
        }
        let number = oid_of(Some(what));
        let (own, indexes) = match self.store.object(number).as_deref() {
            Some(Object::Table(_)) => {
                let (own, indexes, _) = of(number)?;
                (own, indexes)
            }
            Some(Object::Index(index)) => {
                let (_, _, census) = of(index.table)?;
                let own = census.indexes.iter().find(|(oid, _)| *oid == number);
                (census.of_pod(own.map_or(0, |(_, bytes)| *bytes)), 0)
            }
            Some(_) => (0, 0),
            None if by_oid(number).is_some() => (0, 0),
            None => return Ok(Value::Null),
        };
        Ok(Value::Int8(match source {
            "pg_indexes_size" => indexes,
            "pg_total_relation_size" => own + indexes,
            _ => own,
        } as i64))
    }

    fn visible(&self, number: Oid) -> Value {
        if let Some(relation) = by_oid(number) {
            return Value::Bool(relation.schema() == PG_CATALOG);
        }
        self.store.object(number).map_or(Value::Null, |object| Value::Bool(self.is_visible(&object)))
    }

    fn visible_type(&self, number: Oid) -> Value {
        if crate::types::builtin(number).is_some() {
            return Value::Bool(true);
        }
        self.store.object(number).map_or(Value::Null, |object| Value::Bool(self.is_visible(&object)))
    }

    fn user_name(&self, number: Oid) -> String {
        match self.store.object(number).as_deref() {
            Some(Object::Role(role)) => role.name.clone(),
            _ => format!("unknown (OID={number})"),
        }
    }

    /// `pg_get_expr`: what is kept is text already; `pretty` writes it again.
    fn shown_expression(&self, arguments: &[Value]) -> Value {
        let text = text_of(arguments.first());
        let table = self.store.object(oid_of(arguments.get(1)));
        match (table.as_deref(), is_true(arguments.get(2))) {
            (Some(Object::Table(table)), true) => {
                Value::text(self.expression(table, text, None, Style::expression(true)))
            }
            _ => arguments.first().cloned().unwrap_or(Value::Null),
        }
    }

    fn function_arguments(&self, number: Oid) -> Value {
        let Some(function) = crate::func::function(number) else { return Value::Null };
        let one = |(at, ty): (usize, &Oid)| {
            let name = function.argument_names.get(at).filter(|name| !name.is_empty());
            let name = name.map_or(String::new(), |name| format!("{} ", quote_ident(name)));
            let last = function.variadic != 0 && at + 1 == function.arguments.len();
            let variadic = if last { "VARIADIC " } else { "" };
            format!("{variadic}{name}{}", self.format_type(Type::of(*ty)))
        };
        let inputs = function.arguments.iter().enumerate().map(one);
        let outputs = function
            .columns
            .iter()
            .map(|(name, ty)| format!("OUT {} {}", quote_ident(name), self.format_type(Type::of(*ty))));
        Value::text(inputs.chain(outputs).collect::<Vec<_>>().join(", "))
    }

    fn function_result(&self, number: Oid) -> Value {
        let Some(function) = crate::func::function(number) else { return Value::Null };
        let set = if function.returns_set { "SETOF " } else { "" };
        Value::text(format!("{set}{}", self.format_type(Type::of(function.result))))
    }

    fn comment_on(&self, class: Option<&str>, number: Oid, part: i32) -> Value {
        let class = match class {
            None => None,
            Some("pg_class") => Some(PG_CLASS),
            Some("pg_type") => Some(PG_TYPE),
            Some("pg_constraint") => Some(PG_CONSTRAINT),
            Some("pg_namespace") => Some(PG_NAMESPACE),
            Some(_) => return Value::Null,
        };
        // A constraint is a part of its table.
        let objects = self.store.object(number).or_else(|| self.store.holder(number)).into_iter().collect();
        let look = Look { system: self, objects, only: Only::All };
        let mut comments = relations::comments(&look).into_iter();
        let found = comments.find(|(own, object, at, _)| {
            *object == number && *at == part && class.is_none_or(|class| class == *own)
        });
        optional(found.map(|(.., text)| text))
    }

    fn role_comment(&self, number: Oid) -> Value {
        match self.store.object(number).as_deref() {
            Some(Object::Role(role)) => optional(role.comment.clone()),
            _ => Value::Null,
        }
    }

    /// Bits of what may be done to a relation's rows: 4 UPDATE, 8 INSERT, 16 DELETE.
    fn updatable(&self, number: Oid) -> i32 {
        match self.store.object(number).as_deref() {
            Some(Object::Table(table)) if table.materialized.is_none() => 28,
            Some(Object::View(view)) => {
                let settings = Settings::default();
                let ctx = EvalContext::new(&settings, &NoSystem, 0);
                let binder = Binder::new(ctx, self.store, self.search_path, Vec::new());
                if binder.is_updatable(view) { 28 } else { 0 }
            }
            _ => 0,
        }
    }

    fn index_position(&self, index: Oid, column: i64) -> Value {
        let Some(Object::Index(Index { columns, .. })) = self.store.object(index).as_deref().cloned() else {
            return Value::Null;
        };
        let is = |of: &crate::catalog::object::IndexColumn| match of.of {
            crate::catalog::object::Indexed::Column(own) => i64::from(own) + 1 == column,
            crate::catalog::object::Indexed::Expression { .. } => false,
        };
        columns.iter().position(is).map_or(Value::Null, |at| Value::Int4(at as i32 + 1))
    }

    /// What an access list that is NULL stands for.
    fn default_privileges(&self, kind: &str, owner: Oid) -> Result<Value> {
        let owner = quote_ident(&self.user_name(owner));
        let (own, everybody) = match kind {
            "r" => ("arwdDxt", ""),
            "s" => ("rwU", ""),
            "d" => ("CTc", "Tc"),
            "f" => ("X", "X"),
            "l" | "T" => ("U", "U"),
            "n" => ("UC", ""),
            "t" => ("C", ""),
            "F" | "S" => ("U", ""),
            "L" => ("rw", ""),
            "p" => ("sA", ""),
            "c" => ("", ""),
            _ => {
                let message = format!("unrecognized objtype abbreviation: {kind}");
                return Err(SqlError::new(SqlState::INTERNAL_ERROR, message));
            }
        };
        let mut items = Vec::new();
        if !everybody.is_empty() {
            items.push(Value::text(format!("={everybody}/{owner}")));
        }
        if !own.is_empty() {
            items.push(Value::text(format!("{owner}={own}/{owner}")));
        }
        Ok(Value::array(oid::ACLITEM, items))
    }

    fn role_named(&self, value: &Value) -> Result<Oid> {
        match value {
            Value::Oid(number) => Ok(*number),
            value => {
                let name = value.as_str().unwrap_or("");
                if name == "public" {
                    return Ok(0);
                }
                self.store.role(name).ok_or_else(|| {
                    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
                })
            }
        }
    }

    /// `has_table_privilege` and its kin: [who,] on what, [column,] which.
    fn privilege(&self, source: &str, arguments: &[Value]) -> Result<Value> {
        let column = source.starts_with("has_column_privilege");
        let others = if column { 3 } else { 2 };
        let (role, rest) = match arguments.split_first() {
            Some((role, rest)) if arguments.len() > others => (self.role_named(role)?, rest),
            _ => (privilege::asking(self.store, self.shared), arguments),
        };
        let (Some(what), Some(wanted)) = (rest.first(), rest.last()) else { return Ok(Value::Null) };
        if source.starts_with("pg_has_role") {
            let other = self.role_named(what)?;
            privileges::check(source, wanted.as_str().unwrap_or(""))?;
            let inherits = wanted.as_str().is_some_and(|word| word.to_ascii_uppercase().starts_with("USAGE"));
            let member = privilege::roles_of(self.store, role, inherits).contains(&other);
            return Ok(Value::Bool(member || privilege::is_superuser(self.store, role)));
        }
        let reg = match source {
            s if s.starts_with("has_schema") => Some(oid::REGNAMESPACE),
            s if s.starts_with("has_type") => Some(oid::REGTYPE),
            s if s.starts_with("has_table") || s.starts_with("has_sequence") || s.contains("column") => {
                Some(oid::REGCLASS)
            }
            _ => None,
        };
        let Some(reg) = reg else {
            privileges::check(source, wanted.as_str().unwrap_or(""))?;
            return Ok(Value::Bool(true));
        };
        let number = match what {
            Value::Oid(number) => *number,
            name => crate::types::context::System::reg_in(self, reg, name.as_str().unwrap_or(""))?,
        };
        privileges::check(source, wanted.as_str().unwrap_or(""))?;
        Ok(match self.store.object(number) {
            Some(object) => Value::Bool(privileges::has(self, role, &object, wanted.as_str().unwrap_or(""))),
            // What is the system's may be read by everybody.
            None if number < crate::catalog::object::FIRST_USER_OID => {
                let secret = super::by_oid(number).is_some_and(SystemRelation::is_secret);
                Value::Bool(!secret || privilege::is_superuser(self.store, role))
            }
            None => Value::Null,
        })
    }
}
