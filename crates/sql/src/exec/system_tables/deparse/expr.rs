//! Expressions.

use super::call::is_of_keyword;
use super::query::Heading;
use super::simple::Around;
use super::{Known, Writer};
use crate::func::CastPath;
use crate::func::quote_ident;
use crate::tree::{Const, Expr, Head, RowOp, Subquery, SubqueryKind};
use crate::types::value::Value;
use crate::types::{Oid, Type, Types, oid};

impl<'a> Writer<'a> {
    /// An expression by itself.
    pub(crate) fn alone(mut self, expr: &'a Expr, ty: Type, implicit: bool) -> Option<String> {
        self.expr(expr, ty, implicit)?;
        Some(self.out)
    }

    /// In parentheses, which every operator has unless the style is pretty.
    pub(super) fn wrapped(&mut self, write: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        if self.style.pretty {
            return write(self);
        }
        self.put("(");
        write(self)?;
        self.put(")");
        Some(())
    }

    /// A part that a pretty style puts in parentheses where a reader would need them.
    pub(super) fn part(&mut self, expr: &'a Expr, (ty, implicit): (Oid, bool), around: Around) -> Option<()> {
        let needs = self.style.pretty && !self.is_simple(expr, around);
        self.put(if needs { "(" } else { "" });
        self.expr(expr, Type::of(ty), implicit)?;
        self.put(if needs { ")" } else { "" });
        Some(())
    }

    pub(super) fn list(&mut self, list: &'a [Expr], ty: impl Fn(usize) -> Oid) -> Option<()> {
        for (at, part) in list.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.expr(part, Type::of(ty(at)), true)?;
        }
        Some(())
    }

    /// A constant; `labelled`: with the type that its text would not tell.
    pub(super) fn constant(&mut self, value: &Value, ty: Type, labelled: bool) -> Option<()> {
        let (text, plain) = match value {
            Value::Null => ("NULL".to_string(), false),
            Value::Bool(value) => (value.to_string(), true),
            Value::Int4(number) if *number >= 0 => (number.to_string(), true),
            value => {
                let text = crate::types::text::output(&self.ctx, ty.oid, value).ok()?;
                let digits = text.starts_with(|c: char| c.is_ascii_digit());
                let number = ty.oid == oid::NUMERIC && digits && text.contains(['.', 'e', 'E']);
                let plain = number || matches!(ty.oid, oid::UNKNOWN | oid::ANY);
                (if number { text } else { self.literal(&text) }, plain)
            }
        };
        self.put(&text);
        if labelled && !plain {
            let label = self.system.written_type(ty);
            self.put(&format!("::{label}"));
        }
        Some(())
    }

    /// A literal as this session reads it.
    fn literal(&self, text: &str) -> String {
        let text = text.replace('\'', "''");
        match self.system.shared.variables.borrow().plain_escapes {
            true => format!("'{}'", text.replace('\\', "\\\\")),
            false => format!("'{text}'"),
        }
    }

    fn joined(&mut self, list: &'a [Expr], word: &str, around: Around) -> Option<()> {
        self.wrapped(|w| {
            for (at, part) in list.iter().enumerate() {
                w.put(if at > 0 { word } else { "" });
                w.part(part, (oid::BOOL, false), around)?;
            }
            Some(())
        })
    }

    /// A cast as it is shown, of whatever `write` writes.
    fn cast(&mut self, expr: &'a Expr, source: Oid, target: Type) -> Option<()> {
        match expr {
            // It says its type itself.
            Expr::Const(Const(value)) if source == target.oid => {
                self.constant(value, Type::of(source), false)?;
            }
            _ => self.wrapped(|w| w.part(expr, (source, false), Around::Cast))?,
        }
        let label = self.system.written_type(target);
        self.put(&format!("::{label}"));
        Some(())
    }

    /// A cast to a domain, which stands for the one to the type that it is over, too.
    fn checked(&mut self, expr: &'a Expr, domain: Oid) -> Option<()> {
        let base = self.ctx.base_of(domain);
        let (inner, source) = match expr {
            Expr::Cast { expr, source, target, .. }
                if target.oid == base && !is_of_keyword(expr, *target) =>
            {
                (&**expr, *source)
            }
            _ => (expr, base),
        };
        self.wrapped(|w| w.part(inner, (source, false), Around::Cast))?;
        let label = self.system.written_type(Type::of(domain));
        self.put(&format!("::{label}"));
        Some(())
    }

    pub(super) fn operator(&mut self, head: &'a Head, args: &'a [Expr]) -> Option<()> {
        let name = head.operator?.name;
        let ty = |at: usize| head.types.get(at).copied().unwrap_or(oid::TEXT);
        self.wrapped(|w| match args {
            [right] => {
                w.put(&format!("{name} "));
                w.part(right, (ty(0), true), Around::Operator("", true))
            }
            [left, right] => {
                w.part(left, (ty(0), true), Around::Operator(name, true))?;
                w.put(&format!(" {name} "));
                w.part(right, (ty(1), true), Around::Operator(name, false))
            }
            _ => None,
        })
    }

    /// A column, or what stands at its place behind grouping.
    fn column(&mut self, depth: u16, expr: &Expr, implicit: bool) -> Option<()> {
        let at = self.level_of(depth)?;
        match self.known(at, expr)? {
            Known::Column(table, name) => {
                if let Some(table) = table {
                    self.put(&format!("{}.", quote_ident(&table)));
                }
                self.put(&quote_ident(name));
                Some(())
            }
            Known::Key(key, ty) => self.within(at, false, |w| w.expr(key, Type::of(ty), implicit)),
            Known::Aggregate(number) => self.within(at, false, |w| w.aggregate(number)),
            Known::Window(number) => self.within(at, true, |w| w.window(number)),
        }
    }

    /// `implicit`: casts that nobody wrote are shown.
    pub(super) fn expr(&mut self, expr: &'a Expr, ty: Type, implicit: bool) -> Option<()> {
        match expr {
            Expr::Const(Const(value)) => self.constant(value, ty, true),
            Expr::Param(number) => {
                self.put(&format!("${}", number + 1));
                Some(())
            }
            Expr::Column { depth, .. } => self.column(*depth, expr, implicit),
            Expr::Coalesce(_) | Expr::Cast { .. } if self.is_merged(expr) => self.column(0, expr, implicit),
            Expr::CaseOperand => {
                self.put("VALUE");
                Some(())
            }
            Expr::Call { head, args, spread } => match head.operator {
                Some(_) => self.operator(head, args),
                None => self.call(head, args, *spread),
            },
            Expr::And(list) => self.joined(list, " AND ", Around::And),
            Expr::Or(list) => self.joined(list, " OR ", Around::Or),
            Expr::Not(expr) => self.wrapped(|w| {
                w.put("NOT ");
                w.part(expr, (oid::BOOL, false), Around::Not)
            }),
            Expr::IsNull { expr, negated, .. } => {
                self.test(expr, oid::TEXT, if *negated { " IS NOT NULL" } else { " IS NULL" })
            }
            Expr::IsTruth { expr, truth, negated } => {
                let word = match truth {
                    Some(true) => "TRUE",
                    Some(false) => "FALSE",
                    None => "UNKNOWN",
                };
                self.test(expr, oid::BOOL, &format!(" IS {}{word}", if *negated { "NOT " } else { "" }))
            }
            Expr::Distinct { head, left, right, negated } => self.distinct(head, [left, right], *negated),
            Expr::Case { operand, whens, otherwise } => {
                self.case(operand.as_deref(), whens, otherwise.as_deref(), ty)
            }
            Expr::Coalesce(list) => self.named("COALESCE(", list, ty.oid),
            Expr::Extreme { greatest, list, ty } => {
                self.named(if *greatest { "GREATEST(" } else { "LEAST(" }, list, *ty)
            }
            Expr::NullIf { head, left, right } => {
                self.put("NULLIF(");
                self.expr(left, Type::of(head.types[0]), true)?;
                self.put(", ");
                self.expr(right, Type::of(head.types[1]), true)?;
                self.put(")");
                Some(())
            }
            Expr::Cast { expr: inner, source, target, explicit, .. } => match *explicit || implicit {
                true if *explicit && is_of_keyword(inner, *target) => {
                    self.expr(inner, Type::of(*source), false)?;
                    if target.modifier >= 0 {
                        self.put(&format!("({})", target.modifier));
                    }
                    Some(())
                }
                true => self.cast(inner, *source, *target),
                // A constant has the modifier that it was made with.
                false if *source == oid::INTERVAL && target.oid == oid::INTERVAL => {
                    self.expr(inner, *target, false)
                }
                false => self.expr(inner, Type::of(*source), false),
            },
            Expr::Checked { expr, domain, .. } => self.checked(expr, *domain),
            other => self.further(other, ty),
        }
    }

    /// The rarer kinds.
    fn further(&mut self, expr: &'a Expr, ty: Type) -> Option<()> {
        match expr {
            Expr::AnyArray { head, left, array, all, .. } => self.any_array(head, left, array, *all),
            Expr::InList { head, left, list, negated } => self.in_list(head, left, list, *negated),
            Expr::RowCompare { op, equals, less, left, right } => {
                self.row_compare(*op, [equals, less], [left, right])
            }
            Expr::Row { values, types, .. } => {
                self.put("ROW(");
                self.list(values, |at| types.get(at).copied().unwrap_or(oid::TEXT))?;
                self.put(")");
                if ty.oid >= crate::catalog::object::FIRST_USER_OID {
                    let label = self.system.written_type(ty);
                    self.put(&format!("::{label}"));
                }
                Some(())
            }
            Expr::Array { elements, element, nested } => {
                self.put("ARRAY[");
                let array = self.ctx.array_of(*element);
                self.list(elements, |_| if *nested { array } else { *element })?;
                self.put("]");
                if elements.is_empty() {
                    let label = self.system.written_type(Type::of(array));
                    self.put(&format!("::{label}"));
                }
                Some(())
            }
            Expr::Subscript { base, indexes } => {
                self.base(base)?;
                for index in indexes {
                    self.put("[");
                    self.expr(index, Type::of(oid::INT4), false)?;
                    self.put("]");
                }
                Some(())
            }
            Expr::Slice { base, bounds } => {
                self.base(base)?;
                for (low, high) in bounds {
                    self.put("[");
                    low.iter().try_for_each(|low| self.expr(low, Type::of(oid::INT4), false))?;
                    self.put(":");
                    high.iter().try_for_each(|high| self.expr(high, Type::of(oid::INT4), false))?;
                    self.put("]");
                }
                Some(())
            }
            Expr::Field { base, index } => self.field(base, *index),
            Expr::WholeRow { depth, from, .. } => {
                let at = self.level_of(*depth)?;
                let level = &self.levels[at];
                let is_it = |entry: &crate::tree::Entry| entry.at == *from && !entry.written.using;
                let place = level.names.iter().position(is_it)?;
                let name = quote_ident(&level.called[place]);
                self.put(&name);
                self.put(".*");
                Some(())
            }
            Expr::Subquery(subquery) => self.subquery(subquery),
            Expr::SetResult(number) => {
                let select = self.levels.last()?.select?;
                self.set_call(select.sets.get(*number)?)
            }
            Expr::Grouping(numbers) => {
                let group = self.levels.last()?.select?.group.as_ref()?;
                self.put("GROUPING(");
                // The last is where it is read from.
                for (at, number) in numbers[..numbers.len().checked_sub(1)?].iter().enumerate() {
                    self.put(if at > 0 { ", " } else { "" });
                    let (key, ty) = group.keys.get(*number)?;
                    self.rows(false, |w| w.expr(key, Type::of(*ty), true))?;
                }
                self.put(")");
                Some(())
            }
            _ => None,
        }
    }

    fn is_merged(&self, expr: &Expr) -> bool {
        let Some(at) = self.levels.len().checked_sub(1) else { return false };
        let level = &self.levels[at];
        let over_tables = !level.output || level.select.is_none_or(|select| select.group.is_none());
        over_tables && matches!(self.known(at, expr), Some(Known::Column(..)))
    }

    fn named(&mut self, name: &str, list: &'a [Expr], ty: Oid) -> Option<()> {
        self.put(name);
        self.list(list, |_| ty)?;
        self.put(")");
        Some(())
    }

    fn test(&mut self, expr: &'a Expr, ty: Oid, words: &str) -> Option<()> {
        self.wrapped(|w| {
            w.part(expr, (ty, ty != oid::BOOL), Around::Other)?;
            w.put(words);
            Some(())
        })
    }

    fn distinct(&mut self, head: &'a Head, [left, right]: [&'a Expr; 2], negated: bool) -> Option<()> {
        let plain = |w: &mut Self| {
            w.wrapped(|w| {
                w.part(left, (head.types[0], true), Around::Other)?;
                w.put(" IS DISTINCT FROM ");
                w.part(right, (head.types[1], true), Around::Other)
            })
        };
        if !negated {
            return plain(self);
        }
        self.wrapped(|w| {
            w.put("NOT ");
            plain(w)
        })
    }

    fn case(
        &mut self,
        operand: Option<&'a Expr>,
        whens: &'a [(Expr, Expr)],
        otherwise: Option<&'a Expr>,
        ty: Type,
    ) -> Option<()> {
        let space = if self.style.lines { "" } else { " " };
        self.keyword("CASE", (0, super::VARIABLE, 0));
        let mut compared = oid::TEXT;
        if let Some(operand) = operand {
            if let Some((Expr::Call { head, .. }, _)) = whens.first() {
                compared = head.types[0];
            }
            self.put(" ");
            self.expr(operand, Type::of(compared), true)?;
        }
        for (when, then) in whens {
            self.put(space);
            self.keyword("WHEN ", (0, 0, 0));
            match (operand, when) {
                (None, when) => self.expr(when, Type::of(oid::BOOL), false)?,
                (Some(_), Expr::Call { head, args, .. }) if args.first()?.bare() == &Expr::CaseOperand => {
                    self.expr(args.get(1)?, Type::of(*head.types.get(1)?), false)?;
                }
                _ => return None,
            }
            self.put(" THEN ");
            self.expr(then, ty, true)?;
        }
        if let Some(otherwise) = otherwise {
            self.put(space);
            self.keyword("ELSE ", (0, 0, 0));
            self.expr(otherwise, ty, true)?;
        }
        self.put(space);
        self.keyword("END", (-super::VARIABLE, 0, 0));
        Some(())
    }

    fn any_array(&mut self, head: &'a Head, left: &'a Expr, array: &'a Expr, all: bool) -> Option<()> {
        let name = head.operator?.name;
        let of = self.ctx.array_of(head.types[1]);
        self.wrapped(|w| {
            w.part(left, (head.types[0], true), Around::Other)?;
            w.put(&format!(" {name} {} (", if all { "ALL" } else { "ANY" }));
            // A query alone in the parentheses would be one of rows.
            let alone = matches!(array, Expr::Subquery(_));
            w.part(array, (of, true), Around::Other)?;
            if alone {
                let label = w.system.written_type(Type::of(of));
                w.put(&format!("::{label}"));
            }
            w.put(")");
            Some(())
        })
    }

    /// Constants are compared as an array, what looks at columns one by one.
    fn in_list(&mut self, head: &'a Head, left: &'a Expr, list: &'a [Expr], negated: bool) -> Option<()> {
        let has_columns = |expr: &Expr| {
            let mut found = false;
            expr.clone().walk(0, &mut |part, within| {
                found |= matches!(part, Expr::Column { depth, .. } | Expr::WholeRow { depth, .. }
                    if *depth == within);
                found
            });
            found
        };
        let (columns, others): (Vec<&Expr>, Vec<&Expr>) = list.iter().partition(|item| has_columns(item));
        let (operator, word) = if negated { ("<>", "ALL") } else { ("=", "ANY") };
        let one = |w: &mut Self, item: &'a Expr| {
            w.wrapped(|w| {
                w.part(left, (head.types[0], true), Around::Operator(operator, true))?;
                w.put(&format!(" {operator} "));
                w.part(item, (head.types[1], true), Around::Operator(operator, false))
            })
        };
        let array = |w: &mut Self| {
            w.wrapped(|w| {
                w.part(left, (head.types[0], true), Around::Other)?;
                w.put(&format!(" {operator} {word} ("));
                w.array_of_constants(left, head.types[1], &others)?;
                w.put(")");
                Some(())
            })
        };
        if others.len() > 1 && columns.is_empty() {
            return array(self);
        }
        let singles = if others.len() > 1 { columns } else { list.iter().collect() };
        if others.len() <= 1 && singles.len() == 1 {
            return one(self, singles[0]);
        }
        let join = if negated { " AND " } else { " OR " };
        self.wrapped(|w| {
            if others.len() > 1 {
                array(w)?;
            }
            for (at, item) in singles.into_iter().enumerate() {
                w.put(if at > 0 || others.len() > 1 { join } else { "" });
                one(w, item)?;
            }
            Some(())
        })
    }

    /// `ARRAY[..]`: of the type that the left side was before it was made comparable.
    fn array_of_constants(&mut self, left: &'a Expr, ty: Oid, list: &[&'a Expr]) -> Option<()> {
        let constant = |expr: &&Expr| matches!(expr, Expr::Const(_));
        let before = match left {
            Expr::Cast { path: CastPath::Relabel, source, explicit: false, target, .. }
                if target.oid == ty && list.iter().all(constant) =>
            {
                Some(*source)
            }
            _ => None,
        };
        let element = before.unwrap_or(ty);
        let open = if before.is_some() && !self.style.pretty { "(ARRAY[" } else { "ARRAY[" };
        self.put(open);
        for (at, item) in list.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.expr(item, Type::of(element), true)?;
        }
        self.put("]");
        if before.is_some() {
            let label = self.system.written_type(Type::of(self.ctx.array_of(ty)));
            self.put(&format!("{}::{label}", if self.style.pretty { "" } else { ")" }));
        }
        Some(())
    }

    fn row_compare(
        &mut self,
        op: RowOp,
        [equals, less]: [&'a [Head]; 2],
        [left, right]: [&'a [Expr]; 2],
    ) -> Option<()> {
        let (word, name) = match op {
            RowOp::Equal => (" AND ", "="),
            RowOp::NotEqual => (" OR ", "<>"),
            RowOp::Less => ("", "<"),
            RowOp::LessEqual => ("", "<="),
            RowOp::Greater => ("", ">"),
            RowOp::GreaterEqual => ("", ">="),
        };
        if less.is_empty() {
            let each = |w: &mut Self| {
                for (at, (head, (left, right))) in equals.iter().zip(left.iter().zip(right)).enumerate() {
                    w.put(if at > 0 { word } else { "" });
                    w.wrapped(|w| {
                        w.part(left, (head.types[0], true), Around::Operator(name, true))?;
                        w.put(&format!(" {name} "));
                        w.part(right, (head.types[1], true), Around::Operator(name, false))
                    })?;
                }
                Some(())
            };
            return if equals.len() > 1 { self.wrapped(each) } else { each(self) };
        }
        self.put("(ROW(");
        self.list(left, |at| equals[at].types[0])?;
        self.put(&format!(") {name} ROW("));
        self.list(right, |at| equals[at].types[1])?;
        self.put("))");
        Some(())
    }

    /// What a subscript is of.
    fn base(&mut self, base: &'a Expr) -> Option<()> {
        let plain = matches!(base, Expr::Column { .. } | Expr::Field { .. });
        self.put(if plain { "" } else { "(" });
        self.expr(base, Type::of(oid::TEXT), false)?;
        self.put(if plain { "" } else { ")" });
        Some(())
    }

    fn field(&mut self, base: &'a Expr, index: usize) -> Option<()> {
        let name = match base {
            Expr::Row { names, .. } | Expr::WholeRow { names, .. } => names.get(index)?.to_string(),
            Expr::Call { head, .. } => head.function.columns.get(index)?.0.to_string(),
            Expr::Column { depth, slot } => {
                let level = &self.levels[self.level_of(*depth)?];
                let mut columns = level.names.iter().flat_map(|entry| &entry.columns);
                let column = columns.find(|column| column.expr == Expr::slot(*slot))?;
                column.fields.as_ref()?.get(index)?.0.to_string()
            }
            _ => return None,
        };
        let plain = matches!(base, Expr::Subscript { .. } | Expr::Field { .. });
        self.put(if plain { "" } else { "(" });
        self.expr(base, Type::of(oid::RECORD), false)?;
        self.put(if plain { "." } else { ")." });
        self.put(&quote_ident(&name));
        Some(())
    }

    fn subquery(&mut self, subquery: &'a Subquery) -> Option<()> {
        match subquery.kind {
            SubqueryKind::Any { negated: true, .. } => self.wrapped(|w| {
                w.put("NOT ");
                w.one_subquery(subquery)
            }),
            _ => self.one_subquery(subquery),
        }
    }

    fn one_subquery(&mut self, subquery: &'a Subquery) -> Option<()> {
        let key = super::key_of(subquery);
        let plan = self.plans.iter().find(|(known, _)| *known == key).map(|(_, name)| name.as_str());
        // Of one that is searched by hash PostgreSQL does not show what is looked up.
        let compared = matches!(subquery.kind, SubqueryKind::Any { .. });
        if let Some(name) = plan.filter(|name| !compared || name.starts_with("(hashed")) {
            self.put(name);
            return Some(());
        }
        let array = matches!(subquery.kind, SubqueryKind::Array(_));
        self.put(if array { "ARRAY(" } else { "(" });
        let mut closing = ")";
        match &subquery.kind {
            SubqueryKind::Exists => {
                self.put("EXISTS (");
                closing = "))";
            }
            SubqueryKind::Any { left, heads, all, .. } => {
                let name = heads.first()?.operator?.name;
                if left.len() > 1 {
                    self.put("(");
                    self.list(left, |at| heads[at].types[0])?;
                    self.put(")");
                } else {
                    self.expr(left.first()?, Type::of(heads[0].types[0]), true)?;
                }
                match (name, all) {
                    ("=", false) if plan.is_none() => self.put(" IN ("),
                    (_, false) => self.put(&format!(" {name} ANY (")),
                    (_, true) => self.put(&format!(" {name} ALL (")),
                }
                closing = "))";
            }
            SubqueryKind::Scalar(0) | SubqueryKind::Array(_) => {}
            SubqueryKind::Scalar(_) => return None,
        }
        if let Some(name) = plan {
            self.put(name);
            self.put(closing);
            return Some(());
        }
        let brought = matches!(subquery.kind, SubqueryKind::Any { .. });
        self.query(&subquery.query, Heading::hidden(), brought)?;
        self.put(closing);
        Some(())
    }
}
