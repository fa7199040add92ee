//! Rows to bytes, in the three formats.

use super::binary::SIGNATURE;
use super::{CopyFormat, CopyOptions, Field, Header};

/// Writes rows.
#[derive(Debug)]
pub struct Writer {
    options: CopyOptions,
    columns: Vec<String>,
    force_quote: Vec<bool>,
}

impl Writer {
    /// A writer of rows of columns with these names.
    pub fn new(options: CopyOptions, columns: Vec<String>) -> Self {
        let all = options.force_quote.iter().any(|name| name == "*");
        let force_quote = columns.iter().map(|name| all || options.force_quote.contains(name)).collect();
        Self { options, columns, force_quote }
    }

    /// Appends what stands before the rows; nothing if nothing does.
    pub fn begin(&self, out: &mut Vec<u8>) {
        if self.options.format == CopyFormat::Binary {
            out.extend_from_slice(SIGNATURE);
            out.extend_from_slice(&[0; 8]);
        } else if self.options.header != Header::None {
            let names: Vec<_> = self.columns.iter().map(|name| Field::Text(name)).collect();
            self.line(&names, &vec![false; names.len()], out);
        }
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If it has another number of fields than there are columns, or fields in the other format's form.
    pub fn row(&self, fields: &[Field<'_>], out: &mut Vec<u8>) {
        assert_eq!(fields.len(), self.columns.len(), "a row has a field for each column");
        if self.options.format != CopyFormat::Binary {
            return self.line(fields, &self.force_quote, out);
        }
        let count = i16::try_from(fields.len()).expect("at most 1,600 columns");
        out.extend_from_slice(&count.to_be_bytes());
        for field in fields {
            match field {
                Field::Null => out.extend_from_slice(&[0xff; 4]),
                Field::Binary(bytes) => {
                    let length = i32::try_from(bytes.len()).expect("a field is shorter than 2 GiB");
                    out.extend_from_slice(&length.to_be_bytes());
                    out.extend_from_slice(bytes);
                }
                Field::Text(text) => panic!("binary COPY wants binary forms, not \"{text}\""),
            }
        }
    }

    /// Appends what stands behind the rows; nothing if nothing does.
    pub fn end(&self, out: &mut Vec<u8>) {
        if self.options.format == CopyFormat::Binary {
            out.extend_from_slice(&(-1i16).to_be_bytes());
        }
    }

    fn line(&self, fields: &[Field<'_>], force_quote: &[bool], out: &mut Vec<u8>) {
        for (at, field) in fields.iter().enumerate() {
            if at > 0 {
                out.push(self.options.delimiter);
            }
            match field {
                Field::Null => out.extend_from_slice(self.options.null.as_bytes()),
                Field::Text(text) if self.options.format == CopyFormat::Text => self.escaped(text, out),
                Field::Text(text) => {
                    let alone = fields.len() == 1 && *text == "\\.";
                    self.quoted(text, force_quote[at] || alone, out);
                }
                Field::Binary(_) => panic!("COPY in text wants texts"),
            }
        }
        out.push(b'\n');
    }

    fn escaped(&self, text: &str, out: &mut Vec<u8>) {
        let escape = |byte: u8| match byte {
            8 => Some(b'b'),
            12 => Some(b'f'),
            b'\n' => Some(b'n'),
            b'\r' => Some(b'r'),
            b'\t' => Some(b't'),
            11 => Some(b'v'),
            b'\\' => Some(b'\\'),
            other => (other == self.options.delimiter).then_some(other),
        };
        let mut rest = text.as_bytes();
        while let Some((at, escape)) =
            rest.iter().enumerate().find_map(|(at, byte)| Some((at, escape(*byte)?)))
        {
            out.extend_from_slice(&rest[..at]);
            out.extend_from_slice(&[b'\\', escape]);
            rest = &rest[at + 1..];
        }
        out.extend_from_slice(rest);
    }

    fn quoted(&self, text: &str, force: bool, out: &mut Vec<u8>) {
        let CopyOptions { delimiter, quote, escape, .. } = self.options;
        let special = |byte: u8| byte == delimiter || byte == quote || byte == b'\n' || byte == b'\r';
        if !force && text != self.options.null && !text.bytes().any(special) {
            return out.extend_from_slice(text.as_bytes());
        }
        out.push(quote);
        for &byte in text.as_bytes() {
            if byte == quote || byte == escape {
                out.push(escape);
            }
            out.push(byte);
        }
        out.push(quote);
    }
}
