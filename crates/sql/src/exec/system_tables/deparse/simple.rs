//! Which parts a reader understands without parentheses.

use super::{Known, Writer};
use crate::func::CastPath;
use crate::tree::{Expr, Form, Subquery, SubqueryKind};

/// What a part stands in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Around {
    /// An operator (of two operands; else without its name), and whether it is the first of them.
    Operator(&'static str, bool),
    And,
    Or,
    Not,
    /// A cast, or a form with words.
    Cast,
    /// A field is taken of it.
    Field,
    Other,
}

/// How tightly an operator binds, of those whose order everybody knows.
fn strength(operator: &str) -> Option<u8> {
    match operator {
        "+" | "-" => Some(1),
        "*" | "/" | "%" => Some(2),
        _ => None,
    }
}

impl Writer<'_> {
    pub(super) fn is_simple(&self, expr: &Expr, around: Around) -> bool {
        match expr {
            Expr::Column { depth, .. } => {
                let known = self.level_of(*depth).and_then(|at| self.known(at, expr));
                match known {
                    Some(Known::Key(key, _)) if !matches!(key, Expr::Column { .. }) => {
                        self.is_simple(key, around)
                    }
                    _ => true,
                }
            }
            Expr::Cast { expr, path: CastPath::Relabel | CastPath::InputOutput, target, .. }
                if target.modifier < 0 =>
            {
                self.is_simple(expr, around)
            }
            Expr::Checked { expr, .. } => self.is_simple(expr, around),
            Expr::Call { head, args, .. } => match (head.operator, args.len()) {
                (None, _) => {
                    head.form != Form::Words || !matches!(head.function.name, "timezone" | "overlaps")
                }
                (Some(operator), count) => match around {
                    Around::Operator(outer, first) if count == 2 => {
                        match (strength(operator.name), strength(outer)) {
                            (Some(own), Some(outer)) => own > outer || (own == outer && first),
                            _ => false,
                        }
                    }
                    around => in_condition(around),
                },
            },
            Expr::Subquery(subquery) if matches!(subquery.kind, SubqueryKind::Array(_)) => true,
            Expr::Subquery(subquery) if is_negated(subquery) => matches!(around, Around::And | Around::Or),
            Expr::InList { list, .. } if list.len() == 1 => in_condition(around),
            Expr::Subquery(_)
            | Expr::IsNull { .. }
            | Expr::IsTruth { .. }
            | Expr::Distinct { negated: false, .. } => in_condition(around),
            Expr::And(_) | Expr::Not(_) | Expr::Distinct { .. } => {
                matches!(around, Around::And | Around::Or)
            }
            Expr::Or(_) => matches!(around, Around::Or),
            Expr::AnyArray { .. } | Expr::RowCompare { .. } | Expr::InList { .. } | Expr::Replaced { .. } => {
                false
            }
            Expr::Field { .. } => around != Around::Field,
            _ => true,
        }
    }
}

fn in_condition(around: Around) -> bool {
    matches!(around, Around::And | Around::Or | Around::Not)
}

fn is_negated(subquery: &Subquery) -> bool {
    matches!(subquery.kind, SubqueryKind::Any { negated: true, .. })
}
