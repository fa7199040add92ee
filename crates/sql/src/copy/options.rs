//! The options of COPY, and which of them go together.

use crate::encoding::{self, Encoding};
use crate::error::{Result, SqlError, SqlState};
use crate::session::{CopyShape, Format};

/// The three formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyFormat {
    /// Columns between tabs, backslash escapes.
    #[default]
    Text,
    /// Columns between commas, quotes.
    Csv,
    /// Lengths and binary forms.
    Binary,
}

/// Whether the first line is a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// It is not.
    #[default]
    None,
    /// It is; skipped when read.
    Line,
    /// It is, and must name the columns when read.
    Match,
}

/// The options, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// The format.
    pub format: CopyFormat,
    /// Between columns.
    pub delimiter: u8,
    /// What stands for NULL.
    pub null: String,
    /// Of the first line.
    pub header: Header,
    /// Around CSV fields.
    pub quote: u8,
    /// Before quotes inside of CSV fields.
    pub escape: u8,
    /// Columns to quote always when written; `*` for all.
    pub force_quote: Vec<String>,
    /// Columns whose unquoted NULL text is no NULL.
    pub force_not_null: Vec<String>,
    /// Columns whose quoted NULL text is NULL too.
    pub force_null: Vec<String>,
    /// Of the bytes of the text formats; `None`: the client's.
    pub encoding: Option<&'static Encoding>,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self::of(CopyFormat::Text)
    }
}

fn error(state: SqlState, message: impl Into<String>) -> SqlError {
    SqlError::new(state, message)
}

impl CopyOptions {
    /// The defaults of a format.
    pub fn of(format: CopyFormat) -> Self {
        let csv = format == CopyFormat::Csv;
        Self {
            format,
            delimiter: if csv { b',' } else { b'\t' },
            null: if csv { String::new() } else { "\\N".to_string() },
            header: Header::None,
            quote: b'"',
            escape: b'"',
            force_quote: Vec::new(),
            force_not_null: Vec::new(),
            force_null: Vec::new(),
            encoding: None,
        }
    }

    /// Options as they were written: lower-case names, each with its values.
    ///
    /// # Errors 22023, 42601 and 0A000: a value that an option cannot have, or options that do not go
    /// together. FREEZE is accepted and means nothing.
    pub fn parse(written: &[(String, Vec<String>)]) -> Result<Self> {
        let one = |name: &str| {
            let found = written.iter().rev().find(|(written, _)| written == name);
            found.map(|(_, values)| values.first().map_or("true", String::as_str))
        };
        let format = match one("format") {
            None | Some("text") => CopyFormat::Text,
            Some("csv") => CopyFormat::Csv,
            Some("binary") => CopyFormat::Binary,
            Some(other) => {
                let message = format!("COPY format \"{other}\" not recognized");
                return Err(error(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        };
        let mut options = Self::of(format);
        options.delimiter = one_byte("delimiter", one("delimiter"), options.delimiter)?;
        options.null = one("null").map_or(options.null, str::to_string);
        options.quote = one_byte("quote", one("quote"), options.quote)?;
        options.escape = one_byte("escape", one("escape"), options.quote)?;
        options.header = match one("header").map(str::to_ascii_lowercase).as_deref() {
            None | Some("false" | "off" | "0") => Header::None,
            Some("true" | "on" | "1") => Header::Line,
            Some("match") => Header::Match,
            Some(_) => {
                let message = "header requires a Boolean value or \"match\"";
                return Err(error(SqlState::SYNTAX_ERROR, message));
            }
        };
        for (name, values) in written {
            match name.as_str() {
                "force_quote" => options.force_quote.clone_from(values),
                "force_not_null" => options.force_not_null.clone_from(values),
                "force_null" => options.force_null.clone_from(values),
                "format" | "delimiter" | "null" | "quote" | "escape" | "header" | "freeze" => {}
                "encoding" => options.encoding = Some(encoding_of(values)?),
                other => {
                    let message = format!("option \"{other}\" not recognized");
                    return Err(error(SqlState::SYNTAX_ERROR, message));
                }
            }
        }
        options.check(|name| written.iter().any(|(written, _)| written == name))?;
        Ok(options)
    }

    fn check(&self, is_given: impl Fn(&str) -> bool) -> Result<()> {
        let refused = |message: String| Err(SqlError::refused_by_postgresql(message));
        for (name, upper) in [("delimiter", "DELIMITER"), ("null", "NULL")] {
            if self.format == CopyFormat::Binary && is_given(name) {
                return Err(error(SqlState::SYNTAX_ERROR, format!("cannot specify {upper} in BINARY mode")));
            }
        }
        if self.format == CopyFormat::Binary && self.header != Header::None {
            return refused("cannot specify HEADER in BINARY mode".to_string());
        }
        for name in ["quote", "escape", "force_quote", "force_not_null", "force_null"] {
            if self.format != CopyFormat::Csv && is_given(name) {
                let what = name.replace('_', " ");
                return refused(format!("COPY {what} available only in CSV mode"));
            }
        }
        let wrong = |message: &str| Err(error(SqlState::INVALID_PARAMETER_VALUE, message));
        if matches!(self.delimiter, b'\n' | b'\r') || self.null.contains(['\n', '\r']) {
            return wrong("COPY delimiter and NULL cannot be newline or carriage return");
        }
        let reserved = b"\\.abcdefghijklmnopqrstuvwxyz0123456789";
        if self.format == CopyFormat::Text && reserved.contains(&self.delimiter) {
            let delimiter = char::from(self.delimiter);
            return wrong(&format!("COPY delimiter cannot be \"{delimiter}\""));
        }
        if self.format != CopyFormat::Binary && self.null.as_bytes().contains(&self.delimiter) {
            return wrong("COPY delimiter must not appear in the NULL specification");
        }
        if self.format == CopyFormat::Csv {
            if self.delimiter == self.quote {
                return wrong("COPY delimiter and quote must be different");
            }
            if self.null.as_bytes().contains(&self.quote) {
                return wrong("CSV quote character must not appear in the NULL specification");
            }
        }
        Ok(())
    }

    /// What the client is to be told before the bytes.
    pub fn shape(&self, columns: usize) -> CopyShape {
        let format = if self.format == CopyFormat::Binary { Format::Binary } else { Format::Text };
        CopyShape { format, columns: u16::try_from(columns).expect("at most 1,600 columns") }
    }
}

fn one_byte(name: &str, value: Option<&str>, otherwise: u8) -> Result<u8> {
    match value.map(str::as_bytes) {
        None => Ok(otherwise),
        Some(&[byte]) => Ok(byte),
        Some(_) => {
            let message = format!("COPY {name} must be a single one-byte character");
            Err(SqlError::refused_by_postgresql(message))
        }
    }
}

fn encoding_of(values: &[String]) -> Result<&'static Encoding> {
    let named = values.first().and_then(|name| encoding::named(name)).ok_or_else(|| {
        let message = "argument to option \"encoding\" must be a valid encoding name";
        error(SqlState::INVALID_PARAMETER_VALUE, message)
    })?;
    match named.is_known() {
        true => Ok(named),
        false => {
            let what = format_args!("COPY in encoding {}", named.name);
            Err(SqlError::unsupported(what, "Convert the bytes in the client, and send UTF8."))
        }
    }
}
