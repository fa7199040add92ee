//! What of a file a mutant is about, and how it is put behind a switch there.
//!
//! Invariants:
//! 1. Ranges of edits lie apart or one in the other: they are nodes of one syntax tree, or empty.
//! 2. A mutant whose form with a switch is not known gets no edit; nothing is guessed.

use std::collections::HashMap;
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, ExprBinary, ExprMatch, ExprStruct, ExprUnary, ReturnType, Signature};

use crate::rewrite::Edit;
use crate::{Mutant, Position};

/// What the mutants do to a file, those of them that can stand behind a switch.
pub fn edits(text: &str, mutants: &[&Mutant]) -> syn::Result<Vec<Edit>> {
    let lines: Vec<usize> =
        std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let mut wanted: HashMap<_, Vec<&Mutant>> = HashMap::new();
    for mutant in mutants {
        let at = byte(text, &lines, &mutant.span.start)..byte(text, &lines, &mutant.span.end);
        wanted.entry((mutant.genre.as_str(), at)).or_default().push(mutant);
    }
    let mut finder = Finder { text, wanted, chain: None, edits: Vec::new() };
    finder.visit_file(&syn::parse_file(text)?);
    Ok(finder.edits)
}

fn byte(text: &str, lines: &[usize], position: &Position) -> usize {
    let line = lines[position.line - 1];
    let column = text[line..].char_indices().nth(position.column - 1);
    column.map_or(text.len(), |(at, _)| line + at)
}

struct Finder<'a> {
    text: &'a str,
    wanted: HashMap<(&'a str, Range<usize>), Vec<&'a Mutant>>,
    /// The outermost of the operators whose operand is visited next.
    chain: Option<Range<usize>>,
    edits: Vec<Edit>,
}

impl<'a> Finder<'a> {
    fn take(&mut self, genre: &'static str, at: &Range<usize>) -> Vec<&'a Mutant> {
        self.wanted.remove(&(genre, at.clone())).unwrap_or_default()
    }

    fn put(&mut self, number: u32, range: Range<usize>, before: String, behind: &str) {
        self.edits.push(Edit { number, range, before, behind: behind.to_string() });
    }

    /// An expression in two forms: with this replacement at this place, and as it is.
    fn either(&mut self, mutant: &Mutant, range: Range<usize>, place: &Range<usize>) {
        let (head, tail) = (&self.text[range.start..place.start], &self.text[place.end..range.end]);
        let on = on(mutant);
        let before = format!("(if {on} {{ ({head}{}{tail}) }} else {{ (", mutant.replacement);
        self.put(mutant.number, range, before, ") })");
    }

    fn function(&mut self, signature: &Signature, block: &syn::Block) {
        let (Some(first), Some(last)) = (block.stmts.first(), block.stmts.last()) else { return };
        let body = first.span().byte_range().start..last.span().byte_range().end;
        for mutant in self.take("FnValue", &body) {
            let (on, value) = (on(mutant), &mutant.replacement);
            match &signature.output {
                ReturnType::Type(_, of) if let syn::Type::ImplTrait(of) = &**of => {
                    // Both values have one type only behind a pointer.
                    let bounds = &self.text[of.bounds.span().byte_range()];
                    let before = format!(
                        "let either: ::std::boxed::Box<dyn {bounds}> = if {on} {{ \
                         ::std::boxed::Box::new({value}) }} else {{ ::std::boxed::Box::new({{ "
                    );
                    self.put(mutant.number, body.clone(), before, " }) }; either");
                }
                _ => {
                    let before = format!("if {on} {{ return {value}; }} ");
                    self.put(mutant.number, body.start..body.start, before, "");
                }
            }
        }
    }
}

fn on(mutant: &Mutant) -> String {
    format!("::liger_mutant::on({})", mutant.number)
}

/// Whether a condition binds names, which it can do only outside of parentheses.
fn binds(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => binds(&binary.left) || binds(&binary.right),
        _ => false,
    }
}

/// How closely an operator binds its operands, of those in expressions.
fn closeness(operator: &str) -> u32 {
    match operator.trim() {
        "*" | "/" | "%" => 7,
        "+" | "-" => 6,
        "<<" | ">>" => 5,
        "&" => 4,
        "^" => 3,
        "|" => 2,
        "&&" => 1,
        "||" => 0,
        // Comparisons, and assignments, neither of which become anything else.
        _ => 8,
    }
}

impl<'a, 'ast> Visit<'ast> for Finder<'a> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        let (own, place) = (binary.span().byte_range(), binary.op.span().byte_range());
        let root = self.chain.take().unwrap_or_else(|| own.clone());
        let binds = binds(&binary.left) || binds(&binary.right);
        for mutant in self.take("BinaryOperator", &place) {
            let same = closeness(&self.text[place.clone()]) == closeness(&mutant.replacement);
            if !binds {
                self.either(mutant, if same { own.clone() } else { root.clone() }, &place);
            }
        }
        for operand in [&*binary.left, &*binary.right] {
            self.chain = (matches!(operand, Expr::Binary(_)) && !binds).then(|| root.clone());
            self.visit_expr(operand);
        }
        self.chain = None;
    }

    fn visit_expr_unary(&mut self, unary: &'ast ExprUnary) {
        let place = unary.op.span().byte_range();
        for mutant in self.take("UnaryOperator", &place) {
            self.either(mutant, unary.span().byte_range(), &place);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_match(&mut self, matched: &'ast ExprMatch) {
        for arm in &matched.arms {
            for mutant in self.take("MatchArm", &arm.span().byte_range()) {
                let end = arm.pat.span().byte_range().end;
                self.put(mutant.number, end..end, format!(" if !{}", on(mutant)), "");
            }
            let Some((_, guard)) = &arm.guard else { continue };
            for mutant in self.take("MatchArmGuard", &guard.span().byte_range()) {
                let range = guard.span().byte_range();
                let on = on(mutant);
                match (mutant.replacement.as_str(), binds(guard)) {
                    ("true", false) => self.put(mutant.number, range, format!("{on} || ("), ")"),
                    ("false", false) => self.put(mutant.number, range, format!("!{on} && ("), ")"),
                    ("false", true) => self.put(mutant.number, range, format!("!{on} && "), ""),
                    _ => {}
                }
            }
        }
        visit::visit_expr_match(self, matched);
    }

    fn visit_expr_struct(&mut self, made: &'ast ExprStruct) {
        for pair in made.fields.pairs() {
            let field = pair.value().span().byte_range();
            let end = pair.punct().map_or(field.end, |comma| comma.span().byte_range().end);
            for mutant in self.take("StructField", &(field.start..end)) {
                self.either(mutant, made.span().byte_range(), &(field.start..end));
            }
        }
        visit::visit_expr_struct(self, made);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Span, rewrite::rewrite};

    /// The file with one mutant, whose place is the first occurrence of some text.
    fn with(text: &str, genre: &str, place: &str, replacement: &str) -> String {
        let at = text.find(place).expect("the place is there");
        let position = |at: usize| {
            let line = text[..at].matches('\n').count() + 1;
            let column = text[..at].chars().rev().take_while(|c| *c != '\n').count() + 1;
            Position { line, column }
        };
        let mutant = Mutant {
            number: 7,
            file: String::new(),
            genre: genre.to_string(),
            replacement: replacement.to_string(),
            span: Span { start: position(at), end: position(at + place.len()) },
        };
        let edits = edits(text, &[&mutant]).expect("the file is Rust");
        syn::parse_file(&rewrite(text, &edits).0).expect("what comes of it is Rust");
        rewrite(text, &edits).0.replace("::liger_mutant::on(7)", "ON")
    }

    #[test]
    fn operators_stand_beside_those_that_were_there() {
        let plus = with("fn f() -> u8 { a + b - c }", "BinaryOperator", "+", "-");
        assert_eq!(plus, "fn f() -> u8 { (if ON { (a - b) } else { (a + b) }) - c }");
        let minus = with("fn f() { (a + b - c) }", "BinaryOperator", "-", "/");
        assert_eq!(minus, "fn f() { ((if ON { (a + b / c) } else { (a + b - c) })) }");
        let umlaut = with("fn f() { g(\"\u{e4}\") && h }", "BinaryOperator", "&&", "||");
        assert!(umlaut.starts_with("fn f() { (if ON { (g(\"\u{e4}\") || h) }"), "{umlaut}");
    }

    #[test]
    fn conditions_that_bind_names_stay_conditions() {
        let text = "fn f() { if a == b && let Some(c) = d {} }";
        assert_eq!(with(text, "BinaryOperator", "&&", "||"), text);
        let equal = with(text, "BinaryOperator", "==", "!=");
        assert!(equal.contains("if (if ON { (a != b) } else { (a == b) }) && let"), "{equal}");
    }

    #[test]
    fn arms_and_guards_are_left_out_by_guards() {
        let text = "fn f() { match a { B => c, D if e => g, _ => h } }";
        let arm = with(text, "MatchArm", "B => c,", "");
        assert!(arm.contains("B if !ON => c,"), "{arm}");
        assert!(with(text, "MatchArmGuard", "e", "true").contains("if ON || (e) =>"));
        assert!(with(text, "MatchArmGuard", "e", "false").contains("if !ON && (e) =>"));
    }

    #[test]
    fn results_come_before_all_else() {
        let text = "fn f() -> Option<u8> { let a = b; a }";
        let early = with(text, "FnValue", "let a = b; a", "None");
        assert_eq!(early, "fn f() -> Option<u8> { if ON { return None; } let a = b; a }");
        let hidden = with("fn f() -> impl Sized { a }", "FnValue", "a ", "b");
        assert_eq!(hidden, "fn f() -> impl Sized { a }");
        let text = "fn f() -> impl Iterator<Item = u8> { x() }";
        let both = with(text, "FnValue", "x()", "y()");
        assert!(
            both.contains("Box<dyn Iterator<Item = u8>> = if ON { ::std::boxed::Box::new(y())"),
            "{both}"
        );
    }

    #[test]
    fn fields_and_signs_are_left_out() {
        let field = with("fn f() -> A { A { b: 1, c: 2, ..d } }", "StructField", "b: 1,", "");
        assert!(field.contains("(if ON { (A {  c: 2, ..d }) } else { (A { b: 1, c: 2, ..d }) })"), "{field}");
        assert!(with("fn f() { !a }", "UnaryOperator", "!", "").contains("(if ON { (a) } else { (!a) })"));
    }
}
