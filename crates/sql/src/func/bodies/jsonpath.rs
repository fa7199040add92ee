//! Functions and operators that take a path: `jsonb_path_query` and its kin, `@?`, `@@`.

mod ids;
mod item;
mod methods;
mod predicate;
mod run;

use run::{Outcome, Run};

use super::{bool_of, document, invalid_parameter, rows, scalar, set};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::stop;
use crate::types::context::EvalContext;
use crate::types::json::Json;
use crate::types::jsonpath::JsonPath;
use crate::types::value::Value;
use item::{Generated, Item};

fn path_of(value: &Value) -> &JsonPath {
    match value {
        Value::Jsonpath(path) => path,
        other => super::wrong("jsonpath", other),
    }
}

/// The arguments of a function: the document, the path, and unless it is an operator variables and whether
/// it is silent.
struct Call<'a> {
    ctx: &'a EvalContext<'a>,
    document: &'a Json,
    path: &'a JsonPath,
    vars: Option<&'a Json>,
    is_silent: bool,
    /// Whether the session's time zone may be used.
    with_zone: bool,
}

impl<'a> Call<'a> {
    fn new(ctx: &'a EvalContext<'a>, a: &'a [Value], with_zone: bool) -> Result<Call<'a>> {
        let vars = a.get(2).map(document);
        if vars.is_some_and(|vars| !matches!(vars, Json::Object(_))) {
            return Err(invalid_parameter("\"vars\" argument is not an object")
                .detail("Jsonpath parameters should be encoded as key-value pairs of \"vars\" object."));
        }
        let is_silent = a.get(3).is_none_or(bool_of);
        Ok(Call { ctx, document: document(&a[0]), path: path_of(&a[1]), vars, is_silent, with_zone })
    }

    /// The items that the path gives; none beyond an error that is not told.
    fn items(&self) -> Result<Vec<Json>> {
        let generated = Generated::default();
        let mut found = Vec::new();
        Run::new(self, &generated).whole(Some(&mut found))?;
        let json = |item: Item<'_>| {
            stop::check()?;
            item.into_json(self.ctx)
        };
        found.into_iter().map(json).collect()
    }

    fn exists(&self) -> Result<Value> {
        let generated = Generated::default();
        let mut run = Run::new(self, &generated);
        let outcome = if self.path.lax {
            run.whole(None)?
        } else {
            // All items have to be looked at: any of them may be an error.
            let mut found = Vec::new();
            match run.whole(Some(&mut found))? {
                Outcome::Failed => Outcome::Failed,
                _ if found.is_empty() => Outcome::Nothing,
                _ => Outcome::Found,
            }
        };
        Ok(match outcome {
            Outcome::Failed => Value::Null,
            outcome => Value::Bool(outcome == Outcome::Found),
        })
    }

    fn matches(&self) -> Result<Value> {
        match self.items()?.as_slice() {
            [Json::Bool(is_true)] => Ok(Value::Bool(*is_true)),
            [Json::Null] => Ok(Value::Null),
            _ if self.is_silent => Ok(Value::Null),
            _ => {
                let message = "single boolean result is expected";
                Err(SqlError::new(SqlState::SINGLETON_SQL_JSON_ITEM_REQUIRED, message))
            }
        }
    }
}

fn made(document: Json) -> Value {
    Value::Jsonb(document.into())
}

pub(super) fn find(source: &str) -> Option<Body> {
    match source {
        "jsonb_path_exists" | "jsonb_path_exists_opr" => scalar(|ctx, a| Call::new(ctx, a, false)?.exists()),
        "jsonb_path_exists_tz" => scalar(|ctx, a| Call::new(ctx, a, true)?.exists()),
        "jsonb_path_match" | "jsonb_path_match_opr" => scalar(|ctx, a| Call::new(ctx, a, false)?.matches()),
        "jsonb_path_match_tz" => scalar(|ctx, a| Call::new(ctx, a, true)?.matches()),
        "jsonb_path_query" => {
            set(|ctx, a| rows(Call::new(ctx, a, false)?.items()?.into_iter().map(made).collect()))
        }
        "jsonb_path_query_tz" => {
            set(|ctx, a| rows(Call::new(ctx, a, true)?.items()?.into_iter().map(made).collect()))
        }
        "jsonb_path_query_array" => {
            scalar(|ctx, a| Ok(made(Json::Array(Call::new(ctx, a, false)?.items()?))))
        }
        "jsonb_path_query_array_tz" => {
            scalar(|ctx, a| Ok(made(Json::Array(Call::new(ctx, a, true)?.items()?))))
        }
        "jsonb_path_query_first" => scalar(|ctx, a| first(Call::new(ctx, a, false)?.items()?)),
        "jsonb_path_query_first_tz" => scalar(|ctx, a| first(Call::new(ctx, a, true)?.items()?)),
        _ => None,
    }
}

fn first(items: Vec<Json>) -> Result<Value> {
    Ok(items.into_iter().next().map_or(Value::Null, made))
}
