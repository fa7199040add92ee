//! Expressions whose values are kept: of generated columns, and in indexes. They must not be others tomorrow.
//! Those of columns that are added must not be others for each row, or are put into every row.
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
        match self.changes(expr, Volatility::Immutable) {
            false => Ok(()),
            true => Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message)),
        }
    }

    /// Whether an expression may have another value for each row, though it looks at none.
    pub(crate) fn is_volatile(&self, expr: &Expr) -> bool {
        self.changes(expr, Volatility::Stable)
    }

    /// Whether an expression calls what changes more than `most` says.
    fn changes(&self, expr: &Expr, most: Volatility) -> bool {
        let mut is_fixed = true;
        expr.clone().walk(0, &mut |part, _| {
            is_fixed &= self.is_fixed(part, most);
            !is_fixed
        });
        !is_fixed
    }

    /// Whether what this calls itself, without its parts, changes no more than `most`.
    fn is_fixed(&self, expr: &Expr, most: Volatility) -> bool {
        let fixed = |head: &Head| match (head.function.name, &*head.types) {
            // PostgreSQL looks into these two: a value of any type beside a text.
            ("textanycat", [_, any]) | ("anytextcat", [any, _]) => self.is_written_alike(*any, most),
            _ => head.function.volatility <= most,
        };
        match expr {
            Expr::Call { head, .. }
            | Expr::Distinct { head, .. }
            | Expr::NullIf { head, .. }
            | Expr::AnyArray { head, .. }
            | Expr::InList { head, .. } => fixed(head),
            Expr::RowCompare { equals, less, .. } => equals.iter().chain(less).all(fixed),
            Expr::Cast { path, source, target, .. } => self.is_fixed_cast(path, *source, target.oid, most),
            _ => true,
        }
    }

    fn is_fixed_cast(&self, path: &CastPath, source: Oid, target: Oid, most: Volatility) -> bool {
        let types = self.types();
        match path {
            CastPath::Relabel => true,
            CastPath::Function(function) => changes_at_most(*function, most),
            CastPath::InputOutput => self.is_read_alike(target, most) && self.is_written_alike(source, most),
            CastPath::Array(path) => {
                let element = |ty: Oid| types.type_info(types.base_of(ty)).map_or(0, |info| info.element);
                self.is_fixed_cast(path, element(source), element(target), most)
            }
        }
    }

    fn is_read_alike(&self, ty: Oid, most: Volatility) -> bool {
        changes_at_most(self.functions_of(ty)[0], most)
    }

    fn is_written_alike(&self, ty: Oid, most: Volatility) -> bool {
        changes_at_most(self.functions_of(ty)[1], most)
    }

    fn functions_of(&self, ty: Oid) -> [Oid; 4] {
        let types = self.types();
        types.type_info(types.base_of(ty)).map_or([0; 4], |info| info.functions)
    }
}

fn changes_at_most(function: Oid, most: Volatility) -> bool {
    registry::function(function).is_none_or(|function| function.volatility <= most)
}
