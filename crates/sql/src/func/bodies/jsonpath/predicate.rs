//! Predicates: true, false, or unknown where an operand failed or could not be compared.
//!
//! Operands are sequences of items. A predicate over them is true if it is for any pair; in strict mode it is
//! unknown if any pair before that is. Failures within operands are never told.

use std::cmp::Ordering;

use super::item::{Item, compare, is_null_beside_other};
use super::run::{Outcome, Run};
use crate::error::Result;
use crate::regex;
use crate::stop;
use crate::types::jsonpath::{Operator, Path, Step};

/// What a predicate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    False,
    True,
    Unknown,
}

impl From<bool> for Truth {
    fn from(is_true: bool) -> Truth {
        if is_true { Truth::True } else { Truth::False }
    }
}

impl<'a> Run<'a> {
    pub(super) fn truth(&mut self, predicate: &'a Step, item: &Item<'a>) -> Result<Truth> {
        Ok(match predicate {
            Step::Binary(Operator::And, left, right) => match self.truth(&left[0], item)? {
                Truth::False => Truth::False,
                left => match self.truth(&right[0], item)? {
                    Truth::True => left,
                    right => right,
                },
            },
            Step::Binary(Operator::Or, left, right) => match self.truth(&left[0], item)? {
                Truth::True => Truth::True,
                left => match self.truth(&right[0], item)? {
                    Truth::False => left,
                    right => right,
                },
            },
            Step::Not(of) => match self.truth(&of[0], item)? {
                Truth::Unknown => Truth::Unknown,
                truth => Truth::from(truth == Truth::False),
            },
            Step::IsUnknown(of) => Truth::from(self.truth(&of[0], item)? == Truth::Unknown),
            Step::Binary(Operator::StartsWith, whole, start) => {
                self.pairs(whole, Some((start, false)), item, |_, whole, start| {
                    let both = whole.string().zip(start.and_then(Item::string));
                    Ok(both.map_or(Truth::Unknown, |(whole, start)| whole.starts_with(start).into()))
                })?
            }
            Step::Binary(operator, left, right) => {
                let operator = *operator;
                self.pairs(left, Some((right, true)), item, |run, left, right| {
                    let right = right.expect("a comparison has two sides");
                    if is_null_beside_other(left, right) {
                        return Ok((operator == Operator::NotEqual).into());
                    }
                    let order = compare(run.ctx, run.with_zone, left, right)?;
                    Ok(order.map_or(Truth::Unknown, |order| holds(operator, order).into()))
                })?
            }
            Step::LikeRegex(of, pattern, flags) => {
                let flags = flags.letters();
                self.pairs(of, None, item, |_, item, _| match item.string() {
                    None => Ok(Truth::Unknown),
                    Some(text) => regex::is_match(text, pattern, &flags).map(Truth::from),
                })?
            }
            Step::Exists(of) => self.exists(of, item)?,
            other => unreachable!("no predicate: {other:?}"),
        })
    }

    fn exists(&mut self, of: &'a Path, item: &Item<'a>) -> Result<Truth> {
        let outer = std::mem::replace(&mut self.tells, false);
        let truth = if self.lax {
            self.run(of, item, None).map(|outcome| match outcome {
                Outcome::Failed => Truth::Unknown,
                outcome => (outcome == Outcome::Found).into(),
            })
        } else {
            // All items have to be looked at: any of them may be an error.
            let items = self.sequence(of, item, false);
            items.map(|items| items.map_or(Truth::Unknown, |items| Truth::from(!items.is_empty())))
        };
        self.tells = outer;
        truth
    }

    /// A predicate over each pair of items of the two sides, or over each item where there is one side. The
    /// flag of the right one says whether it is unwrapped, as the left one is.
    fn pairs(
        &mut self,
        left: &'a Path,
        right: Option<(&'a Path, bool)>,
        item: &Item<'a>,
        holds: impl Fn(&Run<'a>, &Item<'a>, Option<&Item<'a>>) -> Result<Truth>,
    ) -> Result<Truth> {
        let outer = std::mem::replace(&mut self.tells, false);
        let lefts = self.sequence(left, item, true);
        let rights = match (&lefts, right) {
            (Ok(Some(_)), Some((right, unwraps))) => self.sequence(right, item, unwraps),
            _ => Ok(Some(Vec::new())),
        };
        self.tells = outer;
        let (Some(lefts), Some(rights)) = (lefts?, rights?) else { return Ok(Truth::Unknown) };
        let (mut is_true, mut is_unknown) = (false, false);
        let mut steps = 0;
        for left in &lefts {
            let alone = right.is_none().then_some(None);
            for right in rights.iter().map(Some).chain(alone) {
                stop::check_at(steps)?;
                steps += 1;
                match holds(self, left, right)? {
                    Truth::True if self.lax => return Ok(Truth::True),
                    Truth::Unknown if !self.lax => return Ok(Truth::Unknown),
                    Truth::True => is_true = true,
                    Truth::Unknown => is_unknown = true,
                    Truth::False => {}
                }
            }
        }
        Ok(if is_true {
            Truth::True
        } else if is_unknown {
            Truth::Unknown
        } else {
            Truth::False
        })
    }
}

/// Whether a comparison holds for items in this order.
fn holds(operator: Operator, order: Ordering) -> bool {
    match operator {
        Operator::Equal => order.is_eq(),
        Operator::NotEqual => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::Greater => order.is_gt(),
        Operator::LessOrEqual => order.is_le(),
        _ => order.is_ge(),
    }
}
