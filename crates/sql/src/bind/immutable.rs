//! Expressions whose values are kept: of generated columns, and in indexes. They must not be others tomorrow.
//!
//! What counts is what PostgreSQL's catalog says of functions, those of operators, of casts and of texts' way
//! in and out of types included.

use super::Binder;
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::{self, Volatility};
use crate::func::resolve::CastPath;
use crate::tree::{Expr, Head};
use crate::types::Oid;

impl Binder<'_> {
    /// Refuses an expression that calls what is not immutable; `message` says of what.
    ///
    /// # Errors
    /// 42P17.
    pub(crate) fn immutable(&self, expr: &Expr, message: &str) -> Result<()> {
        let mut is_immutable = true;
        expr.clone().walk(0, &mut |part, _| {
            is_immutable &= self.is_fixed(part);
            !is_immutable
        });
        if is_immutable { Ok(()) } else { Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message)) }
    }

    /// Whether what this calls itself, without its parts, is immutable.
    fn is_fixed(&self, expr: &Expr) -> bool {
        let fixed = |head: &Head| match (head.function.name, &*head.types) {
            // PostgreSQL looks into these two: a value of any type beside a text.
            ("textanycat", [_, any]) | ("anytextcat", [any, _]) => self.is_written_alike(*any),
            _ => head.function.volatility == Volatility::Immutable,
        };
        match expr {
            Expr::Call { head, .. }
            | Expr::Distinct { head, .. }
            | Expr::NullIf { head, .. }
            | Expr::AnyArray { head, .. }
            | Expr::InList { head, .. } => fixed(head),
            Expr::RowCompare { equals, less, .. } => equals.iter().chain(less).all(fixed),
            Expr::Cast { path, source, target, .. } => self.is_fixed_cast(path, *source, target.oid),
            _ => true,
        }
    }

    fn is_fixed_cast(&self, path: &CastPath, source: Oid, target: Oid) -> bool {
        let types = self.types();
        match path {
            CastPath::Relabel => true,
            CastPath::Function(function) => is_immutable(*function),
            CastPath::InputOutput => self.is_read_alike(target) && self.is_written_alike(source),
            CastPath::Array(path) => {
                let element = |ty: Oid| types.type_info(types.base_of(ty)).map_or(0, |info| info.element);
                self.is_fixed_cast(path, element(source), element(target))
            }
        }
    }
    fn is_read_alike(&self, ty: Oid) -> bool {
        is_immutable(self.functions_of(ty)[0])
    }

    fn is_written_alike(&self, ty: Oid) -> bool {
        is_immutable(self.functions_of(ty)[1])
    }

    fn functions_of(&self, ty: Oid) -> [Oid; 4] {
        let types = self.types();
        types.type_info(types.base_of(ty)).map_or([0; 4], |info| info.functions)
    }
}

fn is_immutable(function: Oid) -> bool {
    registry::function(function).is_none_or(|function| function.volatility == Volatility::Immutable)
}
