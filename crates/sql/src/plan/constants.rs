//! What can be computed before a statement runs is computed by PostgreSQL when it is planned, and so an
//! error in it is told whether or not a row ever asks for it. Here it is computed then for its error alone.
//!
//! Invariant: what a constant condition rules out is not looked at (a branch of CASE, what follows FALSE in
//! AND or a value in COALESCE).

use crate::error::{Result, SqlError};
use crate::func::cast::cast_value;
use crate::func::{Body, FunctionKind, Volatility};
use crate::tree::{BoundStatement, Const, Expr, Head};
use crate::types::context::EvalContext;
use crate::types::value::Value;

/// The first error among the statement's constant parts.
pub(crate) fn failing(ctx: &EvalContext<'_>, statement: &mut BoundStatement) -> Option<SqlError> {
    let constants = Constants { ctx, takes_stable: false };
    let mut failed = None;
    let mut look = |part: &mut Expr, _depth: u16| {
        if failed.is_none() {
            failed = constants.value(part, None).err();
        }
        true
    };
    match statement {
        BoundStatement::Query(query) => {
            // What nobody reads is not planned by PostgreSQL either; what is read tells its errors then.
            let ctes = std::mem::take(&mut query.ctes);
            query.walk(0, &mut look);
            query.ctes = ctes;
        }
        BoundStatement::Change(change) => change.walk(0, &mut look),
    }
    failed
}

/// The value that an expression has for a statement that runs now, if no row decides it: for estimates.
pub(super) fn known(ctx: &EvalContext<'_>, expr: &Expr) -> Option<Value> {
    if let Expr::Const(Const(value)) = expr.bare() {
        return Some(value.clone());
    }
    if let Expr::Cast { expr, path, source, target, explicit } = expr.bare() {
        let value = known(ctx, expr)?;
        return cast_value(ctx, path, *source, *target, *explicit, &value).ok();
    }
    Constants { ctx, takes_stable: true }.value(&mut expr.bare().clone(), None).ok().flatten()
}

struct Constants<'a> {
    ctx: &'a EvalContext<'a>,
    /// Functions count as constant too that give the same for all of one statement.
    takes_stable: bool,
}

impl Constants<'_> {
    /// The value of an expression that is constant; `operand` is that of the CASE around.
    fn value(&self, expr: &mut Expr, operand: Option<&Value>) -> Result<Option<Value>> {
        match expr {
            Expr::Const(Const(value)) => Ok(Some(value.clone())),
            Expr::CaseOperand => Ok(operand.cloned()),
            Expr::Call { head, args, spread } => {
                let values = self.values(args, operand)?;
                values.filter(|_| !*spread).map_or(Ok(None), |values| self.call(head, &values))
            }
            Expr::And(list) => self.joined(list, operand, false),
            Expr::Or(list) => self.joined(list, operand, true),
            Expr::Not(inner) => Ok(match self.value(inner, operand)? {
                Some(Value::Bool(value)) => Some(Value::Bool(!value)),
                other => other,
            }),
            Expr::IsNull { expr, negated, record: false } => {
                let value = self.value(expr, operand)?;
                Ok(value.map(|value| Value::Bool(value.is_null() != *negated)))
            }
            Expr::Case { operand, whens, otherwise } => self.case(operand.as_deref_mut(), whens, otherwise),
            Expr::Coalesce(list) => {
                let mut first = true;
                for part in list {
                    match self.value(part, operand)? {
                        Some(Value::Null) => {}
                        Some(value) => return Ok(Some(value).filter(|_| first)),
                        None => first = false,
                    }
                }
                Ok(None)
            }
            other => {
                let mut failed = Ok(());
                let mut outermost = true;
                other.walk(0, &mut |part, _| {
                    if std::mem::take(&mut outermost) {
                        return false;
                    }
                    if failed.is_ok() {
                        failed = self.value(part, operand).map(drop);
                    }
                    true
                });
                failed.map(|()| None)
            }
        }
    }

    /// All of them, if all are constant.
    fn values(&self, list: &mut [Expr], operand: Option<&Value>) -> Result<Option<Vec<Value>>> {
        let mut values = Some(Vec::with_capacity(list.len()));
        for part in list {
            let value = self.value(part, operand)?;
            values = values.zip(value).map(|(mut values, value)| {
                values.push(value);
                values
            });
        }
        Ok(values)
    }

    fn call(&self, head: &Head, values: &[Value]) -> Result<Option<Value>> {
        let function = head.function;
        let is_steady = match function.volatility {
            Volatility::Immutable => true,
            Volatility::Stable => self.takes_stable,
            Volatility::Volatile => false,
        };
        if !is_steady || function.kind != FunctionKind::Normal || !matches!(function.body, Body::Scalar(_)) {
            return Ok(None);
        }
        function.call(&self.ctx.for_call(&head.types, head.result), values).map(Some)
    }

    /// AND ends at what is false, OR at what is true.
    fn joined(&self, list: &mut [Expr], operand: Option<&Value>, ends: bool) -> Result<Option<Value>> {
        for part in list {
            if let Some(Value::Bool(value)) = self.value(part, operand)?
                && value == ends
            {
                return Ok(Some(Value::Bool(value)));
            }
        }
        Ok(None)
    }

    fn case(
        &self,
        operand: Option<&mut Expr>,
        whens: &mut [(Expr, Expr)],
        otherwise: &mut Option<Box<Expr>>,
    ) -> Result<Option<Value>> {
        let operand = operand.map(|operand| self.value(operand, None)).transpose()?.flatten();
        let mut first = true;
        for (condition, result) in whens {
            match self.value(condition, operand.as_ref())? {
                Some(Value::Bool(true)) => return Ok(self.value(result, None)?.filter(|_| first)),
                Some(_) => {}
                None => {
                    first = false;
                    self.value(result, None)?;
                }
            }
        }
        match otherwise {
            Some(otherwise) => Ok(self.value(otherwise, None)?.filter(|_| first)),
            None => Ok(Some(Value::Null).filter(|_| first)),
        }
    }
}
