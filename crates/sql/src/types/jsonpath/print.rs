//! The text of paths.

use std::fmt::{self, Write};

use super::{JsonPath, LAST_LEVEL, Path, RegexFlags, Step};
use crate::types::json::write_string;

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(false))
    }
}

impl JsonPath {
    /// A text that is read as this path.
    pub fn exact(&self) -> String {
        self.text(true)
    }

    fn text(&self, exact: bool) -> String {
        let mut printer = Printer { to: String::new(), exact };
        printer.to.push_str(if self.lax { "" } else { "strict " });
        printer.path(&self.path, true);
        printer.to
    }
}

impl RegexFlags {
    fn given(self) -> String {
        let flags = [
            (self.ignores_case, 'i'),
            (self.dot_all, 's'),
            (self.multiline, 'm'),
            (self.expanded, 'x'),
            (self.quoted, 'q'),
        ];
        flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, letter)| letter).collect()
    }
}

impl Step {
    /// How tightly it binds; what is no operator binds most.
    fn priority(&self) -> u8 {
        match self {
            Step::Binary(operator, ..) => operator.priority(),
            Step::Sign(..) => 5,
            _ => 6,
        }
    }
}

struct Printer {
    to: String,
    /// Operators in front of accessors have their parentheses.
    exact: bool,
}

impl Printer {
    fn number(&mut self, level: u32) {
        match level {
            LAST_LEVEL => self.to.push_str("last"),
            level => write!(self.to, "{level}").expect("a string takes it"),
        }
    }

    /// A path; `brackets`: in parentheses, if it is an operator.
    fn path(&mut self, path: &Path, brackets: bool) {
        let brackets = brackets || self.exact && path.len() > 1;
        self.first(&path[0], brackets, path.len() > 1);
        path[1..].iter().for_each(|step| self.accessor(step));
    }

    fn side(&mut self, side: &Path, of: &Step) {
        self.path(side, side[0].priority() <= of.priority());
    }

    fn first(&mut self, step: &Step, brackets: bool, is_followed: bool) {
        let is_operator = matches!(step, Step::Binary(..) | Step::Sign(..) | Step::LikeRegex(..));
        let is_number = matches!(step, Step::Literal(crate::types::json::Json::Number(_)));
        // `exists` and the like take no accessors without parentheses.
        let is_predicate = matches!(step, Step::Not(_) | Step::IsUnknown(_) | Step::Exists(_));
        let brackets = is_operator && brackets || is_followed && (is_number || self.exact && is_predicate);
        self.to.push_str(if brackets { "(" } else { "" });
        match step {
            Step::Literal(literal) => literal.write(&mut self.to),
            Step::Variable(name) => {
                self.to.push('$');
                write_string(name, &mut self.to);
            }
            Step::Root => self.to.push('$'),
            Step::Current => self.to.push('@'),
            Step::Last => self.to.push_str("last"),
            Step::Binary(operator, left, right) => {
                self.side(left, step);
                write!(self.to, " {} ", operator.symbol()).expect("a string takes it");
                self.side(right, step);
            }
            Step::Sign(is_minus, of) => {
                self.to.push(if *is_minus { '-' } else { '+' });
                self.side(of, step);
            }
            Step::Not(of) => self.within("!(", of, ")"),
            Step::IsUnknown(of) => self.within("(", of, ") is unknown"),
            Step::Exists(of) => self.within("exists (", of, ")"),
            Step::LikeRegex(of, pattern, flags) => {
                self.side(of, step);
                self.to.push_str(" like_regex ");
                write_string(pattern, &mut self.to);
                if *flags != RegexFlags::default() {
                    write!(self.to, " flag \"{}\"", flags.given()).expect("a string takes it");
                }
            }
            accessor => self.accessor(accessor),
        }
        self.to.push_str(if brackets { ")" } else { "" });
    }

    fn within(&mut self, opening: &str, of: &Path, closing: &str) {
        self.to.push_str(opening);
        self.path(of, false);
        self.to.push_str(closing);
    }

    fn accessor(&mut self, step: &Step) {
        match step {
            Step::Key(key) => {
                self.to.push('.');
                write_string(key, &mut self.to);
            }
            Step::AnyKey => self.to.push_str(".*"),
            Step::AnyElement => self.to.push_str("[*]"),
            Step::Elements(subscripts) => {
                self.to.push('[');
                for (i, (from, to)) in subscripts.iter().enumerate() {
                    self.to.push_str(if i == 0 { "" } else { "," });
                    self.path(from, false);
                    if let Some(to) = to {
                        self.to.push_str(" to ");
                        self.path(to, false);
                    }
                }
                self.to.push(']');
            }
            Step::Descend(0, LAST_LEVEL) => self.to.push_str(".**"),
            Step::Descend(first, last) => {
                self.to.push_str(".**{");
                self.number(*first);
                if first != last {
                    self.to.push_str(" to ");
                    self.number(*last);
                }
                self.to.push('}');
            }
            Step::Filter(of) => self.within("?(", of, ")"),
            Step::Method(method) => write!(self.to, ".{}()", method.name()).expect("a string takes it"),
            Step::Datetime(template) => {
                self.to.push_str(".datetime(");
                if let Some(template) = template {
                    write_string(template, &mut self.to);
                }
                self.to.push(')');
            }
            first => unreachable!("no accessor: {first:?}"),
        }
    }
}
