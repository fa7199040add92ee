//! Calls: of functions, by name or in forms with words, of aggregates and over windows.

use super::Writer;
use super::simple::Around;
use crate::func::quote_ident;
use crate::parse::ast::{Bound, Exclusion, FrameUnit};
use crate::tree::{AggregateCall, Expr, Form, Frame, Head, SetCall, SortKey, WindowCall};
use crate::types::value::Value;
use crate::types::{Oid, Type, oid};

impl<'a> Writer<'a> {
    pub(super) fn call(&mut self, head: &'a Head, args: &'a [Expr], spread: bool) -> Option<()> {
        match head.form {
            Form::Keyword(name, _) => {
                self.put(&name.to_uppercase());
                return Some(());
            }
            Form::Words => {
                if let Some(written) = self.in_words(head, args) {
                    return written;
                }
            }
            Form::Plain => {}
        }
        self.put(&format!("{}(", quote_ident(head.function.name)));
        let collected = head.function.variadic != 0 && head.function.variadic != oid::ANY;
        for (at, part) in args.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            if at + 1 == args.len() && (spread || collected) {
                self.put("VARIADIC ");
            }
            self.expr(part, self.type_of(part, argument(head, at)), true)?;
        }
        self.put(")");
        Some(())
    }

    /// The type that a constant has for itself where anything is taken.
    pub(super) fn type_of(&self, part: &Expr, ty: Oid) -> Type {
        let Expr::Const(value) = part else { return Type::of(ty) };
        Type::of(match (ty, &value.0) {
            (oid::ANY, Value::Int4(_)) => oid::INT4,
            (oid::ANY, Value::Int8(_)) => oid::INT8,
            (oid::ANY, Value::Numeric(_)) => oid::NUMERIC,
            (oid::ANY, Value::Bool(_)) => oid::BOOL,
            (ty, _) => ty,
        })
    }

    /// A form that is written with words; `None` where the function has none.
    fn in_words(&mut self, head: &'a Head, args: &'a [Expr]) -> Option<Option<()>> {
        let ty = |at: usize| argument(head, at);
        let words: &[&str] = match (head.function.name, args.len()) {
            ("timezone", 2) => {
                return Some(self.wrapped(|w| {
                    w.part(&args[1], (ty(1), false), Around::Cast)?;
                    w.put(" AT TIME ZONE ");
                    w.part(&args[0], (ty(0), false), Around::Cast)
                }));
            }
            ("overlaps", 4) => {
                return Some(self.pieces(
                    &["((", ", ", ") OVERLAPS (", ", ", "))"],
                    [0, 1, 2, 3],
                    head,
                    args,
                ));
            }
            ("extract", 2) => {
                let Expr::Const(field) = &args[0] else { return None };
                let Value::Text(field) = &field.0 else { return None };
                let plain = field.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
                self.put(&format!(
                    "EXTRACT({} FROM ",
                    if plain { field.to_string() } else { quote_ident(field) }
                ));
                return Some(self.pieces(&["", ")"], [1], head, args));
            }
            ("position", 2) => {
                return Some(self.pieces(&["POSITION((", ") IN (", "))"], [1, 0], head, args));
            }
            ("pg_collation_for", 1) => &["COLLATION FOR (", ")"],
            ("overlay", 3) => &["OVERLAY(", " PLACING ", " FROM ", ")"],
            ("overlay", 4) => &["OVERLAY(", " PLACING ", " FROM ", " FOR ", ")"],
            ("substring", 2) => &["SUBSTRING(", " FROM ", ")"],
            ("substring", 3) if ty(1) == oid::TEXT => &["SUBSTRING(", " SIMILAR ", " ESCAPE ", ")"],
            ("substring", 3) => &["SUBSTRING(", " FROM ", " FOR ", ")"],
            ("btrim", 1) => &["TRIM(BOTH FROM ", ")"],
            ("ltrim", 1) => &["TRIM(LEADING FROM ", ")"],
            ("rtrim", 1) => &["TRIM(TRAILING FROM ", ")"],
            ("btrim", 2) => return Some(self.pieces(&["TRIM(BOTH ", " FROM ", ")"], [1, 0], head, args)),
            ("ltrim", 2) => return Some(self.pieces(&["TRIM(LEADING ", " FROM ", ")"], [1, 0], head, args)),
            ("rtrim", 2) => return Some(self.pieces(&["TRIM(TRAILING ", " FROM ", ")"], [1, 0], head, args)),
            _ => return None,
        };
        Some(self.pieces(words, 0..args.len(), head, args))
    }

    /// Words with these arguments between them.
    fn pieces(
        &mut self,
        words: &[&str],
        order: impl IntoIterator<Item = usize>,
        head: &'a Head,
        args: &'a [Expr],
    ) -> Option<()> {
        self.put(words.first()?);
        for (at, word) in order.into_iter().zip(&words[1..]) {
            self.expr(args.get(at)?, Type::of(argument(head, at)), false)?;
            self.put(word);
        }
        Some(())
    }

    /// A call that returns a set, or stands in FROM.
    pub(super) fn set_call(&mut self, call: &'a SetCall) -> Option<()> {
        match call.args.as_slice() {
            // No call at all, but one value.
            [value] if call.scalar && call.head.types.is_empty() => {
                self.expr(value, Type::of(call.head.result), true)
            }
            args => self.call(&call.head, args, call.spread),
        }
    }

    /// An aggregate of the level on top.
    pub(super) fn aggregate(&mut self, number: usize) -> Option<()> {
        let call = self.levels.last()?.select?.group.as_ref()?.aggregates.get(number)?;
        self.aggregate_call(call)
    }

    fn aggregate_call(&mut self, call: &'a AggregateCall) -> Option<()> {
        self.put(&format!("{}(", quote_ident(call.head.function.name)));
        let ordered_set = call.head.function.aggregate_kind != 'n';
        self.put(if call.distinct.is_empty() { "" } else { "DISTINCT " });
        let args = if ordered_set { &call.args[..call.direct] } else { &call.args[..] };
        if args.is_empty() && !ordered_set {
            self.put("*");
        }
        for (at, part) in args.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.expr(part, self.type_of(part, argument(&call.head, at)), true)?;
        }
        if ordered_set {
            self.put(") WITHIN GROUP (ORDER BY ");
            self.order(&call.order)?;
        } else if !call.order.is_empty() {
            self.put(" ORDER BY ");
            self.order(&call.order)?;
        }
        self.put(")");
        self.filter(call.filter.as_ref())
    }

    fn filter(&mut self, filter: Option<&'a Expr>) -> Option<()> {
        let Some(filter) = filter else { return Some(()) };
        self.put(" FILTER (WHERE ");
        self.expr(filter, Type::of(oid::BOOL), false)?;
        self.put(")");
        Some(())
    }

    fn order(&mut self, order: &'a [(Expr, SortKey)]) -> Option<()> {
        for (at, (expr, key)) in order.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.clause(expr, key.ty)?;
            self.put(direction(key));
        }
        Some(())
    }

    /// An expression to sort or to group by: one that could be taken for something else in parentheses.
    pub(super) fn clause(&mut self, expr: &'a Expr, ty: Oid) -> Option<()> {
        let needs = self.is_call(expr) || (self.style.pretty && !self.is_column(expr));
        self.put(if needs { "(" } else { "" });
        match expr {
            // With its type always: a number alone would be one of a column.
            Expr::Const(value) => {
                self.constant(&value.0, Type::of(ty), false)?;
                let label = self.system.written_type(Type::of(ty));
                self.put(&format!("::{label}"));
            }
            expr => self.expr(expr, Type::of(ty), true)?,
        }
        self.put(if needs { ")" } else { "" });
        Some(())
    }

    pub(super) fn window(&mut self, number: usize) -> Option<()> {
        let call = self.levels.last()?.select?.windows.get(number)?;
        self.put(&format!("{}(", quote_ident(call.head.function.name)));
        if call.args.is_empty() && call.head.function.kind == crate::func::FunctionKind::Aggregate {
            self.put("*");
        }
        for (at, part) in call.args.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.expr(part, self.type_of(part, argument(&call.head, at)), true)?;
        }
        self.put(")");
        self.filter(call.filter.as_ref())?;
        self.put(" OVER ");
        match &call.name {
            Some(name) => {
                self.put(&quote_ident(name));
                Some(())
            }
            None => self.window_definition(call),
        }
    }

    pub(super) fn window_definition(&mut self, call: &'a WindowCall) -> Option<()> {
        self.put("(");
        let mut space = "";
        if !call.partition.is_empty() {
            self.put("PARTITION BY ");
            for (at, (expr, ty)) in call.partition.iter().enumerate() {
                self.put(if at > 0 { ", " } else { "" });
                self.clause(expr, *ty)?;
            }
            space = " ";
        }
        if !call.order.is_empty() {
            self.put(space);
            self.put("ORDER BY ");
            self.order(&call.order)?;
            space = " ";
        }
        self.frame(&call.frame, space)?;
        self.put(")");
        Some(())
    }

    fn frame(&mut self, frame: &'a Frame, space: &str) -> Option<()> {
        let usual = (&frame.start, &frame.end, frame.unit)
            == (&Bound::UnboundedPreceding, &Bound::CurrentRow, FrameUnit::Range);
        if usual && frame.exclusion == Exclusion::None {
            return Some(());
        }
        self.put(space);
        self.put(match frame.unit {
            FrameUnit::Rows => "ROWS ",
            FrameUnit::Range => "RANGE ",
            FrameUnit::Groups => "GROUPS ",
        });
        self.put("BETWEEN ");
        let offset = frame.arithmetic.as_ref().map_or(oid::INT8, |(plus, _)| plus.types[1]);
        self.bound(&frame.start, offset)?;
        self.put(" AND ");
        self.bound(&frame.end, offset)?;
        self.put(match frame.exclusion {
            Exclusion::None => "",
            Exclusion::CurrentRow => " EXCLUDE CURRENT ROW",
            Exclusion::Group => " EXCLUDE GROUP",
            Exclusion::Ties => " EXCLUDE TIES",
        });
        Some(())
    }

    fn bound(&mut self, bound: &'a Bound<Box<Expr>>, ty: Oid) -> Option<()> {
        let (offset, word) = match bound {
            Bound::UnboundedPreceding => (None, "UNBOUNDED PRECEDING"),
            Bound::UnboundedFollowing => (None, "UNBOUNDED FOLLOWING"),
            Bound::CurrentRow => (None, "CURRENT ROW"),
            Bound::Preceding(offset) => (Some(offset), " PRECEDING"),
            Bound::Following(offset) => (Some(offset), " FOLLOWING"),
        };
        if let Some(offset) = offset {
            self.expr(offset, Type::of(ty), false)?;
        }
        self.put(word);
        Some(())
    }
}

fn argument(head: &Head, at: usize) -> Oid {
    head.types.get(at).or(head.types.last()).copied().unwrap_or(oid::TEXT)
}

/// What is said of a direction that is not the usual one.
pub(crate) fn direction(key: &SortKey) -> &'static str {
    match (key.descending, key.nulls_first) {
        (false, false) => "",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
    }
}

/// Whether `CURRENT_DATE` or its kin stands for a call of now() and the cast of it to this type.
pub(super) fn is_of_keyword(inner: &Expr, target: Type) -> bool {
    matches!(inner, Expr::Call { head, .. } if matches!(head.form, Form::Keyword(_, own) if own == target))
}
