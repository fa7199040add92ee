//! Where statements end: at semicolons that are in no text, name, comment or parentheses.

/// Within what a character is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Within {
    #[default]
    Nothing,
    /// `'..'`; with escapes by backslashes: `E'..'`.
    Text(bool),
    /// `".."`.
    Name,
    /// `$tag$..$tag$`.
    Dollars(String),
    /// To the end of the line.
    Line,
    /// `/* .. */`, so deep.
    Comment(u32),
}

/// Gathers lines until they hold whole statements.
#[derive(Default)]
pub struct Splitter {
    text: String,
    /// Bytes that have been looked at.
    at: usize,
    within: Within,
    parentheses: u32,
}

impl Splitter {
    /// Whether nothing has been begun.
    pub fn is_empty(&self) -> bool {
        self.within == Within::Nothing && self.text.trim().is_empty()
    }

    /// What was begun and has no end.
    pub fn rest(&mut self) -> String {
        std::mem::take(self).text
    }

    /// Adds a line; the statements that are whole now.
    pub fn add(&mut self, line: &str) -> Vec<String> {
        self.text.push_str(line);
        let mut whole = Vec::new();
        while let Some(c) = self.text[self.at..].chars().next() {
            let rest = &self.text[self.at..];
            let mut step = c.len_utf8();
            match &mut self.within {
                Within::Nothing => match c {
                    ';' if self.parentheses == 0 => {
                        let after = self.text.split_off(self.at + 1);
                        whole.push(std::mem::replace(&mut self.text, after));
                        self.at = 0;
                        continue;
                    }
                    '(' => self.parentheses += 1,
                    ')' => self.parentheses = self.parentheses.saturating_sub(1),
                    '"' => self.within = Within::Name,
                    '\'' => {
                        let before = &self.text.as_bytes()[..self.at];
                        let escapes = before.last().is_some_and(|c| c.eq_ignore_ascii_case(&b'e'))
                            && !before.iter().rev().nth(1).is_some_and(u8::is_ascii_alphanumeric);
                        self.within = Within::Text(escapes);
                    }
                    '-' if rest.starts_with("--") => self.within = Within::Line,
                    '/' if rest.starts_with("/*") => (self.within, step) = (Within::Comment(1), 2),
                    '$' => {
                        if let Some(tag) = dollar_tag(rest) {
                            step = tag.len();
                            self.within = Within::Dollars(tag.to_owned());
                        }
                    }
                    _ => {}
                },
                Within::Text(true) if c == '\\' => step += rest[1..].chars().next().map_or(0, char::len_utf8),
                Within::Text(_) if c == '\'' => self.within = Within::Nothing,
                Within::Name if c == '"' => self.within = Within::Nothing,
                Within::Dollars(tag) if rest.starts_with(&*tag) => {
                    step = tag.len();
                    self.within = Within::Nothing;
                }
                Within::Line if c == '\n' => self.within = Within::Nothing,
                Within::Comment(depth) if rest.starts_with("*/") => {
                    (*depth, step) = (*depth - 1, 2);
                    if *depth == 0 {
                        self.within = Within::Nothing;
                    }
                }
                Within::Comment(depth) if rest.starts_with("/*") => (*depth, step) = (*depth + 1, 2),
                _ => {}
            }
            self.at += step;
        }
        whole
    }
}

/// `$tag$` at the beginning of a text.
fn dollar_tag(text: &str) -> Option<&str> {
    let end = text[1..].find('$')? + 1;
    let tag = &text[1..end];
    let is_name = tag.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_name && !tag.starts_with(|c: char| c.is_ascii_digit())).then(|| &text[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons() {
        let mut splitter = Splitter::default();
        assert_eq!(splitter.add("select 1; select\n"), ["select 1;"]);
        assert!(!splitter.is_empty());
        assert_eq!(splitter.add("2;\n"), [" select\n2;"]);
        assert!(splitter.is_empty());
        for one in [
            "select ';', \"a;b\", E'\\';', $$;$$, $x$ ; $$ ; $x$ -- ;\n /* ; /* ; */ ; */;",
            "create rule a as (select 1; select 2);",
            "select 'it''s; fine', $1;",
            "select type'\\';",
        ] {
            assert_eq!(Splitter::default().add(one), [one], "{one}");
        }
        let mut splitter = Splitter::default();
        assert_eq!(splitter.add("select 'a\n"), Vec::<String>::new());
        assert_eq!(splitter.add(";'"), Vec::<String>::new());
        assert_eq!(splitter.rest(), "select 'a\n;'");
    }
}
