//! Bringing expressions to types: literals and parameters take them, others are cast.

use super::types::{full_type_text, type_text};
use super::{Binder, Meant, Typed, fail};
use crate::catalog::object::{Object, UserTypeKind};
use crate::error::{Result, SqlError, SqlState};
pub(crate) use crate::func::CastContext as Context;
use crate::func::{CastPath, find_cast, is_polymorphic, select_common_type};
use crate::tree::{Const, Expr};
use crate::types::value::Value;
use crate::types::{Oid, Type, TypeKind, oid, text};

impl Binder<'_> {
    /// The expression as type `target` (modifier included), if there is a way in this context.
    pub(crate) fn coerce(&self, typed: Typed, target: Type, context: Context) -> Result<Option<Typed>> {
        let explicit = context == Context::Explicit;
        let source = typed.ty;
        if source.oid == oid::UNKNOWN {
            return self.coerce_open(typed, target, explicit).map(Some);
        }
        if source.oid == target.oid || target.oid == oid::ANY {
            return Ok(Some(self.with_modifier(typed, target, explicit)));
        }
        if target.oid == oid::RECORD && self.is_row(source.oid) {
            return Ok(Some(typed));
        }
        let Some(path) = find_cast(self.types(), source.oid, target.oid, context) else {
            if source.oid == oid::RECORD && self.is_row(target.oid) {
                return Ok(Some(Typed { ty: target, ..typed }));
            }
            return Ok(None);
        };
        let collation = self.made(target.oid, typed.collation);
        let expr = Box::new(typed.expr);
        let expr = Expr::Cast { expr, path, source: source.oid, target, explicit };
        Ok(Some(Typed::new(expr, target, typed.pos).collated(collation)))
    }

    fn is_row(&self, oid: Oid) -> bool {
        oid == oid::RECORD || self.types().type_info(oid).is_some_and(|info| info.kind == TypeKind::Composite)
    }

    fn with_modifier(&self, typed: Typed, target: Type, explicit: bool) -> Typed {
        if target.modifier < 0 || typed.ty.modifier == target.modifier {
            return typed;
        }
        let (path, source) = (CastPath::Relabel, typed.ty.oid);
        let expr = Expr::Cast { expr: Box::new(typed.expr), path, source, target, explicit };
        Typed::new(expr, target, typed.pos).collated(typed.collation)
    }

    /// A literal, NULL or parameter whose type was open.
    fn coerce_open(&self, typed: Typed, target: Type, explicit: bool) -> Result<Typed> {
        let pos = typed.pos;
        match typed.expr {
            Expr::Const(Const(Value::Null)) => Ok(Typed::new(Expr::null(), target, pos)),
            Expr::Const(Const(Value::Text(literal))) => {
                if matches!(target.oid, oid::ANY | oid::UNKNOWN) {
                    return Ok(Typed::new(Expr::value(Value::Text(literal)), target, pos));
                }
                let base = self.types().base_of(target.oid);
                // The fields of an interval's type say what its numbers count.
                let modifier = if base == oid::INTERVAL { target.modifier } else { -1 };
                let base = Type { oid: base, modifier };
                let value = text::input(&self.ctx, base, &literal).map_err(|error| error.at(pos + 1))?;
                if let (oid::REGCLASS, Value::Oid(relation)) = (base.oid, &value) {
                    self.spelled(pos, Meant::Literal(*relation));
                }
                if let Some(text) = text::unmistakable(&self.ctx, base.oid, &value) {
                    self.spelled(pos, Meant::Moment(text));
                }
                let bare = Typed::new(Expr::value(value), Type::of(target.oid), pos);
                if target.modifier < 0 || explicit {
                    return self.folded(self.with_modifier(bare, target, explicit));
                }
                Ok(self.with_modifier(bare, target, explicit))
            }
            Expr::Param(number) => {
                let ty = {
                    let mut parameters = self.parameters.borrow_mut();
                    if parameters[number] == 0 || parameters[number] == oid::UNKNOWN {
                        parameters[number] = if target.oid == oid::ANY { oid::TEXT } else { target.oid };
                    }
                    Type::of(parameters[number])
                };
                let typed = Typed::new(Expr::Param(number), ty, pos);
                let context = if explicit { Context::Explicit } else { Context::Implicit };
                match self.coerce(typed, target, context)? {
                    Some(typed) => Ok(typed),
                    None => {
                        let message = format!("inconsistent types deduced for parameter ${}", number + 1);
                        let (a, b) = (type_text(self.types(), ty.oid), type_text(self.types(), target.oid));
                        let error = SqlError::new(SqlState::AMBIGUOUS_PARAMETER, message);
                        Err(error.detail(format!("{a} versus {b}")).at(pos + 1))
                    }
                }
            }
            expr => {
                let text = Typed::new(expr, Type::of(oid::TEXT), pos);
                match self.coerce(text, target, Context::Explicit)? {
                    Some(typed) => Ok(typed),
                    None => Err(self.cannot_cast(oid::UNKNOWN, target.oid, pos)),
                }
            }
        }
    }

    /// A cast of a constant is carried out at once.
    fn folded(&self, typed: Typed) -> Result<Typed> {
        let Expr::Cast { expr, path, source, target, explicit } = &typed.expr else { return Ok(typed) };
        let Expr::Const(Const(value)) = &**expr else { return Ok(typed) };
        let value = crate::func::cast::cast_value(&self.ctx, path, *source, *target, *explicit, value)
            .map_err(|error| error.at(typed.pos + 1))?;
        Ok(Typed::new(Expr::value(value), typed.ty, typed.pos))
    }

    pub(crate) fn cannot_cast(&self, from: Oid, to: Oid, pos: u32) -> SqlError {
        let (from, to) = (type_text(self.types(), from), type_text(self.types(), to));
        SqlError::new(SqlState::CANNOT_COERCE, format!("cannot cast type {from} to {to}")).at(pos + 1)
    }

    /// A cast that is written.
    pub(crate) fn cast(&self, typed: Typed, target: Type) -> Result<Typed> {
        let (source, pos) = (typed.ty.oid, typed.pos);
        match self.coerce_written(typed, target)? {
            Some(typed) => Ok(typed),
            None => Err(self.cannot_cast(source, target.oid, pos)),
        }
    }

    /// A cast that is written, where there is one: to a domain it keeps the domain's length and checks.
    pub(super) fn coerce_written(&self, typed: Typed, target: Type) -> Result<Option<Typed>> {
        let Some(base) = self.under_domain(target.oid) else {
            return match is_polymorphic(target.oid) {
                true => self.coerce_polymorphic(typed, target),
                false => self.coerce(typed, target, Context::Explicit),
            };
        };
        let is_open = matches!(typed.expr, Expr::Param(_)) && typed.ty.oid == oid::UNKNOWN;
        let (typed, context) = match is_open {
            // A parameter whose type nobody has said is one of the domain, and too long a value is no value.
            true => (self.coerce(typed, Type::of(target.oid), Context::Explicit)?, Context::Assignment),
            false => (Some(typed), Context::Explicit),
        };
        let Some(typed) = typed else { return Ok(None) };
        let Some(typed) = self.coerce(typed, base, context)? else { return Ok(None) };
        let checks = self.checks_of(target.oid)?;
        let expr = Expr::Checked { expr: Box::new(typed.expr), domain: target.oid, checks };
        Ok(Some(Typed::new(expr, target, typed.pos).collated(typed.collation)))
    }

    /// A cast to `anyelement` and its kin: what fits them stays what it is.
    fn coerce_polymorphic(&self, typed: Typed, target: Type) -> Result<Option<Typed>> {
        let source = typed.ty.oid;
        let is_open = source == oid::UNKNOWN;
        let kind = |ty| self.types().type_info(ty).map(|info| info.kind);
        let is_array = |ty| self.types().element_of(ty) != 0;
        Ok(match target.oid {
            oid::ANYARRAY | oid::ANYCOMPATIBLEARRAY if is_open => {
                Some(self.coerce_open(typed, target, true)?)
            }
            oid::ANYARRAY | oid::ANYCOMPATIBLEARRAY => {
                let ty = self.under_domain(source).unwrap_or(typed.ty);
                is_array(ty.oid).then_some(Typed { ty, ..typed })
            }
            oid::ANYENUM => (kind(source) == Some(TypeKind::Enum)).then_some(typed),
            oid::ANYNONARRAY | oid::ANYCOMPATIBLENONARRAY => (!is_array(source)).then_some(typed),
            _ => Some(typed),
        })
    }

    /// The type under a domain, with the length that the domain gives it.
    pub(crate) fn under_domain(&self, oid: Oid) -> Option<Type> {
        let Some(Object::Type(user)) = self.store.object(oid).as_deref().cloned() else { return None };
        let UserTypeKind::Domain { base, modifier, .. } = user.kind else { return None };
        if user.oid != oid {
            return None;
        }
        Some(self.under_domain(base).filter(|_| modifier < 0).unwrap_or(Type { oid: base, modifier }))
    }

    /// What is assigned to a domain, or an array of one, that gives its values a length: the type under it.
    pub(super) fn with_length(&self, target: Oid, from: Oid) -> Option<Type> {
        let of_elements = || {
            let Type { oid, modifier } = self.under_domain(self.types().element_of(target))?;
            Some(Type { oid: self.types().array_of(oid), modifier })
        };
        let under = self.under_domain(target).or_else(of_elements);
        under.filter(|base| base.modifier >= 0 && from != target)
    }

    /// An argument whose type was found to fit.
    pub(crate) fn argument(&self, typed: Typed, target: Oid) -> Result<Typed> {
        let (source, pos) = (typed.ty.oid, typed.pos);
        match self.coerce(typed, Type::of(target), Context::Implicit)? {
            Some(typed) => Ok(typed),
            None => Err(self.cannot_cast(source, target, pos)),
        }
    }

    /// A value for a column (`name`) of type `target`.
    pub(crate) fn coerce_assign(&self, typed: Typed, target: Type, name: &str) -> Result<Typed> {
        self.assigned(typed, target, (name, "expression"))
    }

    /// A default, or what a column is generated from, for a column or domain (`name`) of type `target`.
    pub(crate) fn coerce_default(&self, typed: Typed, target: Type, name: &str) -> Result<Typed> {
        self.assigned(typed, target, (name, "default expression")).map_err(SqlError::nowhere)
    }

    fn assigned(&self, typed: Typed, target: Type, (name, what): (&str, &str)) -> Result<Typed> {
        if let Some(base) = self.with_length(target.oid, typed.ty.oid) {
            let typed = self.assigned(typed, base, (name, what))?;
            return Ok(Typed { ty: target, ..typed });
        }
        let (source, pos) = (typed.ty, typed.pos);
        if let Some(typed) = self.coerce(typed, target, Context::Assignment)? {
            return Ok(typed);
        }
        let (to, from) =
            (full_type_text(self.types(), Type::of(target.oid)), type_text(self.types(), source.oid));
        let message = format!("column \"{name}\" is of type {to} but {what} is of type {from}");
        let hint = "You will need to rewrite or cast the expression.";
        Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).hint(hint).at(pos + 1))
    }

    /// A condition.
    pub(crate) fn boolean(&self, typed: Typed, what: &str) -> Result<Expr> {
        let (source, pos) = (typed.ty.oid, typed.pos);
        match self.coerce(typed, Type::of(oid::BOOL), Context::Assignment)? {
            Some(typed) => Ok(typed.expr),
            None => {
                let ty = type_text(self.types(), source);
                let message = format!("argument of {what} must be type boolean, not type {ty}");
                fail(SqlState::DATATYPE_MISMATCH, pos, message)
            }
        }
    }

    /// A number of rows: LIMIT, OFFSET and frame offsets.
    pub(crate) fn bigint(&self, typed: Typed, what: &str) -> Result<Expr> {
        let (source, pos) = (typed.ty.oid, typed.pos);
        match self.coerce(typed, Type::of(oid::INT8), Context::Assignment)? {
            Some(typed) => Ok(typed.expr),
            None => {
                let ty = type_text(self.types(), source);
                let message = format!("argument of {what} must be type bigint, not type {ty}");
                fail(SqlState::DATATYPE_MISMATCH, pos, message)
            }
        }
    }

    /// An output column's expression: what is still open is text.
    pub(crate) fn settled(&self, typed: Typed) -> Result<Typed> {
        if !typed.is_open() {
            return Ok(typed);
        }
        self.argument(typed, oid::TEXT)
    }

    /// All brought to the type that they have in common; `what` names the construct.
    pub(crate) fn common(&self, list: Vec<Typed>, what: &str) -> Result<(Vec<Expr>, Type)> {
        let inputs: Vec<Oid> = list.iter().map(|typed| typed.ty.oid).collect();
        let common = select_common_type(self.types(), &inputs, what);
        let common = common.map_err(|error| match self.odd_one(&list) {
            Some(pos) => error.at(pos + 1),
            None => error,
        })?;
        let first = list.first().map_or(-1, |typed| typed.ty.modifier);
        let same = list.iter().all(|typed| typed.ty == Type { oid: common, modifier: first });
        let ty = Type { oid: common, modifier: if same { first } else { -1 } };
        let mut exprs = Vec::with_capacity(list.len());
        for typed in list {
            let (source, pos) = (typed.ty.oid, typed.pos);
            match self.coerce(typed, Type::of(common), Context::Implicit)? {
                Some(typed) => exprs.push(typed.expr),
                None => {
                    let (to, from) = (type_text(self.types(), common), type_text(self.types(), source));
                    let message = format!("{what} could not convert type {from} to {to}");
                    return fail(SqlState::CANNOT_COERCE, pos, message);
                }
            }
        }
        Ok((exprs, ty))
    }

    /// The first whose category differs from that of those before it.
    fn odd_one(&self, list: &[Typed]) -> Option<u32> {
        let category = |typed: &Typed| self.types().type_info(typed.ty.oid).map_or('U', |info| info.category);
        let known: Vec<&Typed> = list.iter().filter(|typed| !typed.is_open()).collect();
        let first = category(known.first()?);
        known.iter().find(|typed| category(typed) != first).map(|typed| typed.pos)
    }
}
