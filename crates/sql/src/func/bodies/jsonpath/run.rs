//! The evaluation of paths.
//!
//! A step is applied to one item and hands what it gives on to the step behind it, so items come in the order
//! of the document and a caller that wants to know only whether there are any stops at the first.
//!
//! Invariants:
//! 1. What does not fit a document fails in strict mode and is passed over in lax mode. A failure is told as
//!    an error where [`Run::tells`] is set, and is [`Outcome::Failed`] where it is not.
//! 2. A missing variable, and a comparison that needs the time zone and may not use it, are always told.
//! 3. Steps nest at most [`DEPTH_MAX`] deep, and the statement's stop is looked at.

use super::Call;
use super::ids::Offsets;
use super::item::{Generated, Item, Node};
use super::predicate::Truth;
use crate::error::{Result, SqlError, SqlState};
use crate::stop;
use crate::types::context::EvalContext;
use crate::types::json::Json;
use crate::types::jsonpath::{LAST_LEVEL, Method, Path, Step};
use crate::types::numeric::Numeric;

/// How deep steps may nest: those of a path within one another and levels of documents.
const DEPTH_MAX: usize = 5000;

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Found,
    Nothing,
    Failed,
}

/// Where items go; `None` if nobody wants to know them.
pub(super) type Found<'f, 'a> = Option<&'f mut Vec<Item<'a>>>;

/// The document that numbers of `.keyvalue()` count in, and its own number.
#[derive(Clone, Copy)]
pub(super) struct Base<'a> {
    pub(super) document: Option<&'a Json>,
    pub(super) number: i64,
}

pub(super) struct Run<'a> {
    pub(super) ctx: &'a EvalContext<'a>,
    pub(super) lax: bool,
    pub(super) with_zone: bool,
    /// What `@` is.
    pub(super) current: Item<'a>,
    /// Whether failures are told.
    pub(super) tells: bool,
    path: &'a Path,
    pub(super) vars: Option<&'a Json>,
    root: &'a Json,
    pub(super) base: Base<'a>,
    pub(super) next_number: i64,
    /// Of the root and of the variables, once they are needed.
    pub(super) places: [Option<Offsets>; 2],
    /// Elements of the array whose subscripts are computed.
    len: usize,
    /// Whether what does not fit the document is passed over.
    passes_over: bool,
    /// Where the next object that is made goes.
    pub(super) generated: &'a std::cell::OnceCell<Box<Node>>,
    depth: usize,
    steps: usize,
}

#[cold]
pub(super) fn error(state: SqlState, message: impl Into<String>) -> SqlError {
    SqlError::new(state, message)
}

impl<'a> Run<'a> {
    pub(super) fn new(call: &Call<'a>, generated: &'a Generated) -> Run<'a> {
        Run {
            ctx: call.ctx,
            lax: call.path.lax,
            with_zone: call.with_zone,
            current: Item::Part(call.document),
            tells: !call.is_silent,
            path: &call.path.path,
            vars: call.vars,
            root: call.document,
            base: Base { document: None, number: 0 },
            next_number: if call.vars.is_some() { 2 } else { 1 },
            places: [None, None],
            len: 0,
            passes_over: call.path.lax,
            generated: &generated.first,
            depth: 0,
            steps: 0,
        }
    }

    /// The whole path.
    pub(super) fn whole(&mut self, found: Found<'_, 'a>) -> Result<Outcome> {
        self.run(self.path, &Item::Part(self.root), found)
    }

    /// A failure, told or not.
    pub(super) fn fail(&self, state: SqlState, message: impl FnOnce() -> String) -> Result<Outcome> {
        if self.tells { Err(error(state, message())) } else { Ok(Outcome::Failed) }
    }

    /// What does not fit the document.
    pub(super) fn misfit(&self, state: SqlState, message: impl FnOnce() -> String) -> Result<Outcome> {
        if self.passes_over { Ok(Outcome::Nothing) } else { self.fail(state, message) }
    }

    /// Applies the steps of a path to an item; arrays are unwrapped in lax mode where a step wants no array.
    pub(super) fn run(&mut self, path: &'a [Step], item: &Item<'a>, found: Found<'_, 'a>) -> Result<Outcome> {
        self.apply(path, item, found, self.lax)
    }

    fn apply(
        &mut self,
        path: &'a [Step],
        item: &Item<'a>,
        found: Found<'_, 'a>,
        unwraps: bool,
    ) -> Result<Outcome> {
        stop::check_at(self.steps)?;
        self.steps += 1;
        if self.depth >= DEPTH_MAX {
            return Err(error(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded"));
        }
        self.depth += 1;
        let outcome = if unwraps && item.is_array() && path[0].wants_no_array() {
            let array = item.container().expect("an array is a part of a document");
            self.descend(path, array, found, Levels { at: 1, first: 1, last: 1 }, false)
        } else {
            self.step(path, item, found)
        };
        self.depth -= 1;
        outcome
    }

    /// Hands an item to the steps behind the first one, or to the caller where there are none.
    pub(super) fn next(&mut self, path: &'a [Step], item: Item<'a>, found: Found<'_, 'a>) -> Result<Outcome> {
        match (&path[1..], found) {
            ([], None) => Ok(Outcome::Found),
            ([], Some(found)) => {
                found.push(item);
                Ok(Outcome::Found)
            }
            (rest, found) => self.run(rest, &item, found),
        }
    }

    fn step(&mut self, path: &'a [Step], item: &Item<'a>, found: Found<'_, 'a>) -> Result<Outcome> {
        match &path[0] {
            Step::Binary(operator, left, right) if operator.is_arithmetic() => {
                self.arithmetic(path, (*operator, left, right), item, found)
            }
            Step::Binary(..) | Step::Not(_) | Step::IsUnknown(_) | Step::Exists(_) | Step::LikeRegex(..) => {
                let truth = self.truth(&path[0], item)?;
                let made = match truth {
                    Truth::Unknown => Json::Null,
                    truth => Json::Bool(truth == Truth::True),
                };
                self.next(path, Item::Made(made), found)
            }
            Step::Sign(is_minus, of) => self.sign(path, *is_minus, of, item, found),
            Step::Literal(literal) => self.next(path, Item::Part(literal), found),
            Step::Variable(name) => self.variable(path, name, found),
            Step::Root => {
                let base = Base { document: Some(self.root), number: 0 };
                self.with_base(base, path, Item::Part(self.root), found)
            }
            Step::Current => self.next(path, self.current.clone(), found),
            Step::Last => {
                let last = Json::Number(Numeric::from_i64(self.len as i64 - 1));
                self.next(path, Item::Made(last), found)
            }
            Step::Key(key) => self.key(path, key, item, found),
            Step::AnyKey => match item.members() {
                Some(_) => self.children(path, item, found),
                None => self.misfit(SqlState::SQL_JSON_OBJECT_NOT_FOUND, || {
                    "jsonpath wildcard member accessor can only be applied to an object".to_string()
                }),
            },
            Step::AnyElement => match item.elements() {
                Some(_) => self.children(path, item, found),
                None if self.lax => self.next(path, item.clone(), found),
                None => self.misfit(SqlState::SQL_JSON_ARRAY_NOT_FOUND, || {
                    "jsonpath wildcard array accessor can only be applied to an array".to_string()
                }),
            },
            Step::Elements(subscripts) => self.subscripts(path, subscripts, item, found),
            Step::Descend(first, last) => self.any(path, *first, *last, item, found),
            Step::Filter(condition) => {
                let outer = std::mem::replace(&mut self.current, item.clone());
                let truth = self.truth(&condition[0], item);
                self.current = outer;
                match truth? {
                    Truth::True => self.next(path, item.clone(), found),
                    _ => Ok(Outcome::Nothing),
                }
            }
            Step::Method(method) => self.method(path, *method, item, found),
            Step::Datetime(template) => self.datetime(path, template.as_deref(), item, found),
        }
    }

    /// As [`Run::next`], with another document that numbers of `.keyvalue()` count in.
    pub(super) fn with_base(
        &mut self,
        base: Base<'a>,
        path: &'a [Step],
        item: Item<'a>,
        found: Found<'_, 'a>,
    ) -> Result<Outcome> {
        let outer = std::mem::replace(&mut self.base, base);
        let outcome = self.next(path, item, found);
        self.base = outer;
        outcome
    }

    fn variable(&mut self, path: &'a [Step], name: &str, found: Found<'_, 'a>) -> Result<Outcome> {
        let Some(value) = self.vars.and_then(|vars| vars.get(name)) else {
            let message = format!("could not find jsonpath variable \"{name}\"");
            return Err(error(SqlState::UNDEFINED_OBJECT, message));
        };
        self.with_base(Base { document: self.vars, number: 1 }, path, Item::Part(value), found)
    }

    fn key(&mut self, path: &'a [Step], key: &str, item: &Item<'a>, found: Found<'_, 'a>) -> Result<Outcome> {
        match item.container() {
            Some(container @ Json::Object(_)) => match container.get(key) {
                Some(value) => self.next(path, Item::Part(value), found),
                None => self.misfit(SqlState::SQL_JSON_MEMBER_NOT_FOUND, || {
                    format!("JSON object does not contain key \"{key}\"")
                }),
            },
            _ => self.misfit(SqlState::SQL_JSON_MEMBER_NOT_FOUND, || {
                "jsonpath member accessor can only be applied to an object".to_string()
            }),
        }
    }

    /// Hands the elements or the values of a container to the steps behind the first one.
    fn children(&mut self, path: &'a [Step], item: &Item<'a>, found: Found<'_, 'a>) -> Result<Outcome> {
        let container = item.container().expect("an array or an object");
        self.descend(&path[1..], container, found, Levels { at: 1, first: 1, last: 1 }, self.lax)
    }

    fn any(
        &mut self,
        path: &'a [Step],
        first: u32,
        last: u32,
        item: &Item<'a>,
        mut found: Found<'_, 'a>,
    ) -> Result<Outcome> {
        let outer = std::mem::replace(&mut self.passes_over, true);
        let mut outcome = Outcome::Nothing;
        if first == 0 {
            outcome = self.next(path, item.clone(), found.as_deref_mut())?;
        }
        let is_enough = outcome == Outcome::Found && found.is_none();
        if let Some(container) = item.container().filter(|_| !is_enough) {
            outcome = self.descend(&path[1..], container, found, Levels { at: 1, first, last }, self.lax)?;
        }
        self.passes_over = outer;
        Ok(outcome)
    }

    /// Hands what is in a container, on these levels, to `steps`, or to the caller where there are none.
    fn descend(
        &mut self,
        steps: &'a [Step],
        container: &'a Json,
        mut found: Found<'_, 'a>,
        levels: Levels,
        unwraps: bool,
    ) -> Result<Outcome> {
        let mut outcome = Outcome::Nothing;
        if levels.at > levels.last {
            return Ok(outcome);
        }
        let leaves_only = levels.first == LAST_LEVEL && levels.last == LAST_LEVEL;
        for child in children_of(container) {
            let item = Item::Part(child);
            let is_inner = item.container().is_some();
            if levels.at >= levels.first || leaves_only && !is_inner {
                if !steps.is_empty() {
                    outcome = self.apply(steps, &item, found.as_deref_mut(), unwraps)?;
                    if outcome == Outcome::Failed || outcome == Outcome::Found && found.is_none() {
                        break;
                    }
                } else if let Some(found) = found.as_deref_mut() {
                    stop::check_at(found.len())?;
                    found.push(item);
                } else {
                    return Ok(Outcome::Found);
                }
            }
            if levels.at < levels.last && is_inner {
                let levels = Levels { at: levels.at + 1, ..levels };
                outcome = self.descend(steps, child, found.as_deref_mut(), levels, unwraps)?;
                if outcome == Outcome::Failed || outcome == Outcome::Found && found.is_none() {
                    break;
                }
            }
        }
        Ok(outcome)
    }

    fn subscripts(
        &mut self,
        path: &'a [Step],
        subscripts: &'a [(Path, Option<Path>)],
        item: &Item<'a>,
        mut found: Found<'_, 'a>,
    ) -> Result<Outcome> {
        let elements = item.elements();
        if elements.is_none() && !self.lax {
            return self.misfit(SqlState::SQL_JSON_ARRAY_NOT_FOUND, || {
                "jsonpath array accessor can only be applied to an array".to_string()
            });
        }
        let len = elements.map_or(1, <[Json]>::len);
        let mut outcome = Outcome::Nothing;
        for (from, to) in subscripts {
            let outer = std::mem::replace(&mut self.len, len);
            let bounds = self.bounds(from, to.as_ref(), item);
            self.len = outer;
            let Some((first, last)) = bounds? else { return Ok(Outcome::Failed) };
            let is_outside = first < 0 || first > last || last >= len as i64;
            if is_outside && !self.passes_over {
                return self.fail(SqlState::INVALID_SQL_JSON_SUBSCRIPT, || {
                    "jsonpath array subscript is out of bounds".to_string()
                });
            }
            outcome = Outcome::Nothing;
            for at in first.max(0)..=last.min(len as i64 - 1) {
                let element = elements.map_or_else(|| item.clone(), |all| Item::Part(&all[at as usize]));
                let outer = std::mem::replace(&mut self.len, len);
                let next = self.next(path, element, found.as_deref_mut());
                self.len = outer;
                outcome = next?;
                if outcome == Outcome::Failed || outcome == Outcome::Found && found.is_none() {
                    return Ok(outcome);
                }
            }
        }
        Ok(outcome)
    }

    /// First and last place that a subscript means; none if it failed without being told.
    fn bounds(
        &mut self,
        from: &'a Path,
        to: Option<&'a Path>,
        item: &Item<'a>,
    ) -> Result<Option<(i64, i64)>> {
        let Some(first) = self.place(from, item)? else { return Ok(None) };
        let Some(to) = to else { return Ok(Some((first, first))) };
        Ok(self.place(to, item)?.map(|last| (first, last)))
    }

    fn place(&mut self, path: &'a Path, item: &Item<'a>) -> Result<Option<i64>> {
        let mut found = Vec::new();
        if self.run(path, item, Some(&mut found))? == Outcome::Failed {
            return Ok(None);
        }
        let number = match found.as_slice() {
            [only] => only.number(),
            _ => None,
        };
        let message = match number.map(|number| number.trunc(0).to_i64()) {
            Some(Some(place)) if i32::try_from(place).is_ok() => return Ok(Some(place)),
            Some(_) => "jsonpath array subscript is out of integer range",
            None => "jsonpath array subscript is not a single numeric value",
        };
        self.fail(SqlState::INVALID_SQL_JSON_SUBSCRIPT, || message.to_string()).map(|_| None)
    }

    /// The items of a path; arrays among them give their elements in lax mode if `unwraps`. None if it failed
    /// without being told.
    pub(super) fn sequence(
        &mut self,
        path: &'a Path,
        item: &Item<'a>,
        unwraps: bool,
    ) -> Result<Option<Vec<Item<'a>>>> {
        let mut found = Vec::new();
        if self.run(path, item, Some(&mut found))? == Outcome::Failed {
            return Ok(None);
        }
        if !(unwraps && self.lax && found.iter().any(Item::is_array)) {
            return Ok(Some(found));
        }
        let mut unwrapped = Vec::new();
        for item in found {
            stop::check_at(unwrapped.len())?;
            match item.elements() {
                Some(elements) => unwrapped.extend(elements.iter().map(Item::Part)),
                None => unwrapped.push(item),
            }
        }
        Ok(Some(unwrapped))
    }
}

/// Which levels below a container are meant, and the one that its elements are on.
#[derive(Clone, Copy)]
struct Levels {
    at: u32,
    first: u32,
    last: u32,
}

/// The elements of an array, the values of an object.
fn children_of(container: &Json) -> impl Iterator<Item = &Json> {
    let (elements, members): (&[Json], &[(String, Json)]) = match container {
        Json::Array(elements) => (elements, &[]),
        Json::Object(members) => (&[], members),
        _ => (&[], &[]),
    };
    elements.iter().chain(members.iter().map(|(_, value)| value))
}

impl Step {
    /// Whether it looks into an array for what it wants, in lax mode.
    fn wants_no_array(&self) -> bool {
        match self {
            Step::Key(_) | Step::AnyKey | Step::Filter(_) | Step::Datetime(_) => true,
            Step::Method(method) => !matches!(method, Method::Type | Method::Size),
            _ => false,
        }
    }
}
