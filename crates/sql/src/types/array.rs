//! The text form of arrays and rows.

use std::sync::Arc;

use super::context::EvalContext;
use super::text;
use super::value::{Array, Dimension, Record, Value};
use super::{Oid, Type, Types};
use crate::error::{Result, SqlError, SqlState};

/// Most dimensions of an array.
pub const DIMENSIONS_MAX: usize = 6;

/// The error about an array of more.
#[cold]
pub fn too_many_dimensions(count: usize) -> SqlError {
    let message =
        format!("number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

fn malformed(text: &str, detail: &str) -> SqlError {
    let message = format!("malformed array literal: \"{text}\"");
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).detail(detail)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    delimiter: char,
    /// Lengths of the dimensions, known once each has ended.
    lengths: Vec<Option<i32>>,
    /// Texts of the elements, `None` for NULL.
    elements: Vec<Option<String>>,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_whitespace()).len();
    }

    fn next(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn eat(&mut self, c: char) -> bool {
        self.blanks();
        let eats = self.next() == Some(c);
        self.at += if eats { c.len_utf8() } else { 0 };
        eats
    }

    /// Reads `{...}` at this depth.
    fn level(&mut self, depth: usize) -> Result<()> {
        if depth >= DIMENSIONS_MAX {
            return Err(too_many_dimensions(depth + 1));
        }
        if self.lengths.len() == depth {
            self.lengths.push(None);
        }
        let mut len = 0;
        if self.eat('}') {
            // No array but the whole one is empty.
            if depth > 0 {
                return Err(malformed(self.text, "Unexpected \"}\" character."));
            }
        } else {
            loop {
                self.blanks();
                if self.next() == Some('{') {
                    if self.lengths.len() == depth + 1 && !(self.elements.is_empty() && len == 0) {
                        return Err(self.ragged());
                    }
                    self.at += 1;
                    self.level(depth + 1)?;
                } else {
                    if self.lengths.len() > depth + 1 {
                        return Err(self.ragged());
                    }
                    let element = self.element()?;
                    self.elements.push(element);
                }
                len += 1;
                if self.eat('}') {
                    break;
                }
                if !self.eat(self.delimiter) {
                    return Err(malformed(self.text, "Unexpected array element."));
                }
            }
        }
        match self.lengths[depth] {
            Some(other) if other != len => Err(self.ragged()),
            _ => {
                self.lengths[depth] = Some(len);
                Ok(())
            }
        }
    }

    fn ragged(&self) -> SqlError {
        malformed(self.text, "Multidimensional arrays must have sub-arrays with matching dimensions.")
    }

    fn element(&mut self) -> Result<Option<String>> {
        let mut element = String::new();
        let mut keep = 0;
        let mut quoted = false;
        loop {
            let Some(c) = self.next() else {
                return Err(malformed(self.text, "Unexpected end of input."));
            };
            if c == self.delimiter || c == '}' {
                break;
            }
            self.at += c.len_utf8();
            match c {
                '"' => {
                    if quoted || !element.trim().is_empty() {
                        return Err(malformed(self.text, "Unexpected array element."));
                    }
                    quoted = true;
                    element.clear();
                    self.quoted(&mut element)?;
                    keep = element.len();
                }
                '{' => return Err(malformed(self.text, "Unexpected \"{\" character.")),
                '\\' => {
                    let Some(escaped) = self.next() else {
                        return Err(malformed(self.text, "Unexpected end of input."));
                    };
                    self.at += escaped.len_utf8();
                    element.push(escaped);
                    keep = element.len();
                }
                c if c.is_ascii_whitespace() && quoted => {}
                _ if quoted => return Err(malformed(self.text, "Unexpected array element.")),
                c => {
                    element.push(c);
                    if !c.is_ascii_whitespace() {
                        keep = element.len();
                    }
                }
            }
        }
        element.truncate(keep);
        if !quoted && element.is_empty() {
            let c = self.next().unwrap_or(' ');
            return Err(malformed(self.text, &format!("Unexpected \"{c}\" character.")));
        }
        Ok(if !quoted && element.eq_ignore_ascii_case("null") { None } else { Some(element) })
    }

    fn quoted(&mut self, element: &mut String) -> Result<()> {
        loop {
            let Some(c) = self.next() else {
                return Err(malformed(self.text, "Unexpected end of input."));
            };
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(()),
                '\\' => {
                    if let Some(escaped) = self.next() {
                        self.at += escaped.len_utf8();
                        element.push(escaped);
                    }
                }
                c => element.push(c),
            }
        }
    }

    /// `[0:2][1:3]=` in front of the braces.
    fn bounds(&mut self) -> Result<Vec<Dimension>> {
        let mut bounds = Vec::new();
        while self.eat('[') {
            let bad = || malformed(self.text, "Missing array dimension value.");
            let end = self.text[self.at..].find(']').ok_or_else(bad)? + self.at;
            let (lower, upper) = match self.text[self.at..end].split_once(':') {
                Some((lower, upper)) => (lower.parse::<i32>(), upper.parse::<i32>()),
                None => (Ok(1), self.text[self.at..end].parse::<i32>()),
            };
            let (Ok(lower), Ok(upper)) = (lower, upper) else { return Err(bad()) };
            if upper < lower {
                let message = "upper bound cannot be less than lower bound";
                return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
            }
            bounds.push(Dimension { len: upper - lower + 1, lower });
            self.at = end + 1;
        }
        if !bounds.is_empty() && !self.eat('=') {
            return Err(malformed(self.text, "Missing \"=\" after array dimensions."));
        }
        Ok(bounds)
    }
}

/// Reads an array of elements of type `element`.
pub(super) fn input(ctx: &EvalContext<'_>, element: Type, literal: &str) -> Result<Value> {
    let delimiter = ctx.type_info(element.oid).map_or(',', |info| info.delimiter);
    let mut reader = Reader { text: literal, at: 0, delimiter, lengths: Vec::new(), elements: Vec::new() };
    let bounds = reader.bounds()?;
    if !reader.eat('{') {
        let detail = "Array value must start with \"{\" or dimension information.";
        return Err(malformed(literal, detail));
    }
    reader.level(0)?;
    reader.blanks();
    if reader.at < literal.len() {
        return Err(malformed(literal, "Junk after closing right brace."));
    }
    let Reader { lengths, elements, .. } = reader;
    let lengths: Vec<i32> = lengths.into_iter().map(|len| len.unwrap_or(0)).collect();
    if !bounds.is_empty() && !bounds.iter().map(|bound| bound.len).eq(lengths.iter().copied()) {
        return Err(malformed(literal, "Specified array dimensions do not match array contents."));
    }
    let elements: Result<Vec<Value>> = elements
        .into_iter()
        .map(|text| text.map_or(Ok(Value::Null), |text| text::input(ctx, element, &text)))
        .collect();
    let dimensions = match (bounds.is_empty(), lengths.contains(&0)) {
        (_, true) => Vec::new(),
        (false, _) => bounds,
        _ => lengths.into_iter().map(|len| Dimension { len, lower: 1 }).collect(),
    };
    Ok(Value::Array(Arc::new(Array { element: element.oid, dimensions, elements: elements? })))
}

/// Appends the text of an array.
pub(super) fn write(ctx: &EvalContext<'_>, array: &Array, to: &mut String) -> Result<()> {
    let delimiter = ctx.type_info(array.element).map_or(',', |info| info.delimiter);
    if array.dimensions.is_empty() {
        to.push_str("{}");
        return Ok(());
    }
    if array.dimensions.iter().any(|dimension| dimension.lower != 1) {
        for Dimension { len, lower } in &array.dimensions {
            to.push_str(&format!("[{lower}:{}]", lower + len - 1));
        }
        to.push('=');
    }
    let mut elements = array.elements.iter();
    write_level(ctx, array, &array.dimensions, &mut elements, delimiter, to)
}

fn write_level(
    ctx: &EvalContext<'_>,
    array: &Array,
    dimensions: &[Dimension],
    elements: &mut std::slice::Iter<'_, Value>,
    delimiter: char,
    to: &mut String,
) -> Result<()> {
    to.push('{');
    for i in 0..dimensions[0].len {
        if i > 0 {
            to.push(delimiter);
        }
        if dimensions.len() > 1 {
            write_level(ctx, array, &dimensions[1..], elements, delimiter, to)?;
            continue;
        }
        match elements.next().expect("as many elements as the dimensions say") {
            Value::Null => to.push_str("NULL"),
            value => {
                let element = text::output(ctx, array.element, value)?;
                let plain = !element.is_empty()
                    && !element.eq_ignore_ascii_case("null")
                    && !element.contains(|c: char| {
                        matches!(c, '"' | '\\' | '{' | '}')
                            || c == delimiter
                            || c.is_ascii_whitespace()
                            || c == '\x0b'
                    });
                if plain { to.push_str(&element) } else { write_quoted(&element, '\\', to) }
            }
        }
    }
    to.push('}');
    Ok(())
}

/// Quotes, with `"` and `\` behind `escape` (an array) or doubled (a row).
fn write_quoted(text: &str, escape: char, to: &mut String) {
    to.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            to.push(if escape == '\\' { '\\' } else { c });
        }
        to.push(c);
    }
    to.push('"');
}

/// Appends the text of a row: `(1,"a b",)`.
pub(super) fn write_record(ctx: &EvalContext<'_>, record: &Record, to: &mut String) -> Result<()> {
    to.push('(');
    for (i, value) in record.values.iter().enumerate() {
        if i > 0 {
            to.push(',');
        }
        if value.is_null() {
            continue;
        }
        let field = text::output(ctx, record.types[i], value)?;
        let quotes = field.is_empty()
            || field.contains(|c: char| matches!(c, '"' | '\\' | '(' | ')' | ',') || c.is_ascii_whitespace());
        if quotes { write_quoted(&field, '"', to) } else { to.push_str(&field) }
    }
    to.push(')');
    Ok(())
}

/// The texts of the fields of a row literal, `None` for NULL.
///
/// # Errors
/// 22P02 if it is none.
pub fn record_fields(literal: &str) -> Result<Vec<Option<String>>> {
    let bad = |detail: &str| {
        let message = format!("malformed record literal: \"{literal}\"");
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).detail(detail)
    };
    let inner = literal.trim().strip_prefix('(').ok_or_else(|| bad("Missing left parenthesis."))?;
    let inner = inner.strip_suffix(')').ok_or_else(|| bad("Unexpected end of input."))?;
    let mut fields = Vec::new();
    let (mut field, mut quoted, mut seen) = (String::new(), false, false);
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => (quoted, seen) = (!quoted, true),
            '\\' => field.push(chars.next().ok_or_else(|| bad("Unexpected end of input."))?),
            ',' if !quoted => {
                fields.push((seen || !field.is_empty()).then(|| std::mem::take(&mut field)));
                seen = false;
            }
            c => field.push(c),
        }
    }
    fields.push((seen || !field.is_empty()).then_some(field));
    Ok(fields)
}

/// Type of the elements of an array type, 0 if it is none (also for int2vector and oidvector).
pub(crate) fn element_of(types: &dyn Types, oid: Oid) -> Oid {
    match oid {
        super::oid::INT2VECTOR => super::oid::INT2,
        super::oid::OIDVECTOR => super::oid::OID,
        _ => types.element_of(oid),
    }
}
