//! DROP of objects of which there are the built-in ones only, or none: each answer is that what is named is
//! not there, or that it stays.
use crate::bind::type_text;
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::exec::system_tables;
use crate::func::quote_ident;
use crate::func::{FunctionKind, cast, functions, operators};
use crate::missing;
use crate::parse::ast::{Absent, DropAbsent, Path, TypeName};
use crate::types::Oid;

/// Names of built-in objects of kinds that a name says.
const BUILT_IN: &[(&str, &[&str])] = &[
    ("access method", &["heap", "btree", "hash", "gist", "gin", "spgist", "brin"]),
    ("collation", &["default", "C", "POSIX", "ucs_basic", "C.UTF-8", "C.utf8"]),
    ("extension", &["plpgsql"]),
    ("language", &["internal", "c", "sql", "plpgsql"]),
    ("tablespace", &["pg_default", "pg_global"]),
    ("text search configuration", &["simple"]),
    ("text search dictionary", &["simple"]),
    ("text search parser", &["default"]),
    ("text search template", &["simple", "synonym", "ispell", "thesaurus", "snowball"]),
];

/// What is not there: the error, and what a notice says where that is fine.
struct Missing {
    error: SqlError,
    notice: String,
}

impl Missing {
    fn new(state: SqlState, message: String) -> Missing {
        Missing { error: SqlError::new(state, message.clone()), notice: message }
    }

    fn told(self, notice: String) -> Missing {
        Missing { notice, ..self }
    }
}

/// An object that stays.
fn required(what: &str) -> SqlError {
    let message = format!("cannot drop {what} because it is required by the database system");
    SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
}

impl<S: Store> LocalSession<S> {
    pub(super) fn drop_absent(&mut self, drop: &DropAbsent) -> Result<String> {
        for object in &drop.objects {
            let missing = match object {
                Absent::Named(path) => self.no_object(drop.kind, path)?,
                Absent::Routine(path, types) => self.no_routine(drop.kind, path, types.as_deref())?,
                Absent::Operator(path, left, right) => self.no_operator(path, left, right)?,
                Absent::OfTable(name, table) => self.none_of_table(drop.kind, &name.text, table)?,
                Absent::OfMethod(path, method) => {
                    let is_there = BUILT_IN[0].1.contains(&method.text.as_str());
                    if !is_there {
                        let message = format!("access method \"{}\" does not exist", method.text);
                        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
                    }
                    let of = format!("for access method \"{}\"", method.text);
                    self.no_schema(path).unwrap_or_else(|| {
                        let message = format!("{} \"{}\" does not exist {of}", drop.kind, path.last());
                        Missing::new(SqlState::UNDEFINED_OBJECT, message)
                    })
                }
                Absent::Cast(from, to) => self.no_cast(from, to)?,
            };
            match drop.if_exists {
                true => self.notice(format!("{}, skipping", missing.notice)),
                false => return Err(missing.error),
            }
        }
        Ok(format!("DROP {}", drop.kind.to_uppercase()))
    }

    /// The schema of a name that is not there.
    fn no_schema(&self, path: &Path) -> Option<Missing> {
        let schema =
            path.schema().filter(|name| *name != "pg_catalog" && self.store.schema(name).is_none())?;
        let message = format!("schema \"{schema}\" does not exist");
        Some(Missing::new(SqlState::INVALID_SCHEMA_NAME, message))
    }

    fn no_object(&self, kind: &str, path: &Path) -> Result<Missing> {
        if let Some(missing) = self.no_schema(path) {
            return Ok(missing);
        }
        let name = path.last();
        let built_in = BUILT_IN.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, names)| *names);
        if built_in.contains(&name) {
            let is_own = matches!(kind, "extension" | "tablespace") || kind.starts_with("text");
            let what = format_args!("DROP {} of a built-in one", kind.to_uppercase());
            return Err(match is_own {
                true => SqlError::unsupported(what, missing::REMAKE),
                false => required(&format!("{kind} {}", quote_ident(name))),
            });
        }
        let what = match kind {
            "foreign data wrapper" => "foreign-data wrapper",
            "statistics" => "statistics object",
            kind => kind,
        };
        let message = format!("{what} \"{}\" does not exist", path.shown());
        Ok(match kind {
            "collation" => {
                let error = format!("collation \"{}\" for encoding \"UTF8\" does not exist", path.shown());
                Missing::new(SqlState::UNDEFINED_OBJECT, error).told(message)
            }
            _ => Missing::new(SqlState::UNDEFINED_OBJECT, message),
        })
    }

    /// The types, or the first of them that is not there.
    fn types_named(&self, types: &[&TypeName]) -> Result<std::result::Result<Vec<Oid>, Missing>> {
        let mut found = Vec::new();
        for ty in types {
            if let Some(missing) = self.no_schema(&ty.name) {
                return Ok(Err(missing));
            }
            match self.with_binder(|binder| binder.resolve_type(ty)) {
                Ok(ty) => found.push(ty.oid),
                Err(error) if error.state == SqlState::UNDEFINED_OBJECT => {
                    let notice = error.message.clone();
                    return Ok(Err(Missing { error: error.nowhere(), notice }));
                }
                Err(error) => return Err(error.nowhere()),
            }
        }
        Ok(Ok(found))
    }

    fn shown_types(&self, types: &[Oid], between: &str) -> Result<String> {
        self.with_binder(|binder| {
            let shown: Vec<String> = types.iter().map(|ty| type_text(binder.types(), *ty)).collect();
            Ok(shown.join(between))
        })
    }

    fn no_routine(&self, kind: &str, path: &Path, types: Option<&[TypeName]>) -> Result<Missing> {
        if let Some(missing) = self.no_schema(path) {
            return Ok(missing);
        }
        let written = |ty: &TypeName| ty.name.parts.join(".") + if ty.array { "[]" } else { "" };
        let listed: Vec<String> = types.unwrap_or_default().iter().map(written).collect();
        let notice = format!("{kind} {}({}) does not exist", path.shown(), listed.join(","));
        let named = functions(path.last());
        let shown = if kind == "routine" { "function" } else { kind };
        let Some(types) = types else {
            if !named.is_empty() {
                let message = format!("{shown} name \"{}\" is not unique", path.shown());
                let hint = format!("Specify the argument list to select the {shown} unambiguously.");
                return match named.len() {
                    1 => Err(required(&self.signature(named[0].name, &named[0].arguments)?)),
                    _ => Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message).hint(hint)),
                };
            }
            let message = format!("could not find a {shown} named \"{}\"", path.shown());
            return Ok(Missing::new(SqlState::UNDEFINED_FUNCTION, message).told(notice));
        };
        let found = match self.types_named(&types.iter().collect::<Vec<_>>())? {
            Ok(found) => found,
            Err(missing) => return Ok(missing),
        };
        let in_catalog = path.schema().is_none_or(|schema| schema == "pg_catalog");
        if let Some(function) = named.iter().find(|function| in_catalog && function.arguments == found) {
            let is_aggregate = function.kind == FunctionKind::Aggregate;
            let signature = self.signature(path.last(), &found)?;
            let wrong = |message: String| Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            return match kind {
                "function" if is_aggregate => {
                    let message = format!("\"{}\" is an aggregate function", path.last());
                    let hint = "Use DROP AGGREGATE to drop aggregate functions.";
                    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint))
                }
                "aggregate" if !is_aggregate => wrong(format!("{signature} is not an aggregate")),
                "procedure" => {
                    wrong(format!("{} is not a procedure", signature.trim_start_matches("function ")))
                }
                _ => Err(required(&signature)),
            };
        }
        let star = kind == "aggregate" && found.is_empty();
        let listed = if star { "*".to_string() } else { self.shown_types(&found, ", ")? };
        let message = format!("{shown} {}({listed}) does not exist", path.shown());
        Ok(Missing::new(SqlState::UNDEFINED_FUNCTION, message).told(notice))
    }

    fn signature(&self, name: &str, types: &[Oid]) -> Result<String> {
        Ok(format!("function {name}({})", self.shown_types(types, ",")?))
    }

    fn no_operator(&self, path: &Path, left: &Option<TypeName>, right: &Option<TypeName>) -> Result<Missing> {
        let Some(right) = right else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "postfix operators are not supported"));
        };
        if let Some(missing) = self.no_schema(path) {
            return Ok(missing);
        }
        let sides: Vec<&TypeName> = left.iter().chain([right]).collect();
        let types = match self.types_named(&sides)? {
            Ok(types) => types,
            Err(missing) => return Ok(missing),
        };
        let ends = |oid: Oid| if oid == 0 { None } else { Some(oid) };
        let is_there = operators(path.last()).iter().any(|operator| {
            let own: Vec<Oid> = ends(operator.left).into_iter().chain(ends(operator.right)).collect();
            own == types
        });
        let name = path.parts.join(".");
        if is_there {
            let listed = match types.as_slice() {
                [only] => format!("NONE,{}", self.shown_types(&[*only], ",")?),
                both => self.shown_types(both, ",")?,
            };
            return Err(required(&format!("operator {name}({listed})")));
        }
        let shown = match types.as_slice() {
            [left, right] => {
                format!("{} {name} {}", self.shown_types(&[*left], "")?, self.shown_types(&[*right], "")?)
            }
            only => format!("{name} {}", self.shown_types(only, "")?),
        };
        let error = format!("operator does not exist: {shown}");
        let notice = format!("operator {name} does not exist");
        Ok(Missing::new(SqlState::UNDEFINED_FUNCTION, error).told(notice))
    }

    fn none_of_table(&self, kind: &str, name: &str, table: &Path) -> Result<Missing> {
        let path = self.search_path();
        let object = self.find(table)?;
        let is_system = system_tables::find(table.schema(), table.last(), &path).is_some();
        if object.is_none() && !is_system {
            return Ok(self.no_schema(table).unwrap_or_else(|| {
                let message = format!("relation \"{}\" does not exist", table.shown());
                Missing::new(SqlState::UNDEFINED_TABLE, message)
            }));
        }
        if let Some(object) = object.filter(|object| object.kind() == "view" && name == "_RETURN") {
            let view = self.spelled(&object);
            let message = format!("cannot drop rule _RETURN on {view} because {view} requires it");
            let error = SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message);
            return Err(error.hint(format!("You can drop {view} instead.")));
        }
        let notice = format!("{kind} \"{name}\" for relation \"{}\" does not exist", table.last());
        let of = if kind == "rule" { "relation" } else { "table" };
        let error = format!("{kind} \"{name}\" for {of} \"{}\" does not exist", table.last());
        Ok(Missing::new(SqlState::UNDEFINED_OBJECT, error).told(notice))
    }

    fn no_cast(&self, from: &TypeName, to: &TypeName) -> Result<Missing> {
        let types = match self.types_named(&[from, to])? {
            Ok(types) => types,
            Err(missing) => return Ok(missing),
        };
        let (from, to) = (self.shown_types(&types[..1], "")?, self.shown_types(&types[1..], "")?);
        if cast(types[0], types[1]).is_some() {
            return Err(required(&format!("cast from {from} to {to}")));
        }
        let message = format!("cast from type {from} to type {to} does not exist");
        Ok(Missing::new(SqlState::UNDEFINED_OBJECT, message))
    }
}
