//! Long values on their way to a client, which are sent from where they are: a message of a gigabyte takes no
//! second gigabyte of memory.

use std::sync::Arc;

use liger_sql::session::Format;
use liger_sql::types::value::Value;
use liger_sql::types::{Oid, oid};

/// Values from this length on lie beside the output, bytes.
const LONG_BYTES: usize = 64 << 10;
/// Bytes of a value that are written in hexadecimal digits at once.
const STEP_BYTES: usize = 16 << 10;

/// What is sent of a value.
#[derive(Clone, Debug)]
pub enum Beside {
    /// These characters.
    Text(Arc<str>),
    /// These bytes.
    Bytes(Arc<[u8]>),
    /// The text form of a bytea: `\\x` and two digits for each byte.
    Hexadecimal(Arc<[u8]>),
    /// These bytes, which are nobody else's.
    Whole(Vec<u8>),
}

impl Beside {
    /// How a value is sent, if it is long and its form says itself how long that is. `escapes`: bytea is
    /// written in its escape form; `is_utf8`: texts go as they are.
    pub fn of(value: &Value, ty: Oid, format: Format, escapes: bool, is_utf8: bool) -> Option<Beside> {
        match value {
            Value::Text(text) if text.len() >= LONG_BYTES && is_utf8 => {
                matches!(ty, oid::TEXT | oid::VARCHAR | oid::BPCHAR).then(|| Beside::Text(text.clone()))
            }
            Value::Json(text) if text.len() >= LONG_BYTES && is_utf8 => Some(Beside::Text(text.clone())),
            Value::Bytea(bytes) if bytes.len() >= LONG_BYTES && ty == oid::BYTEA => match format {
                Format::Binary => Some(Beside::Bytes(bytes.clone())),
                Format::Text => (!escapes).then(|| Beside::Hexadecimal(bytes.clone())),
            },
            _ => None,
        }
    }

    /// The bytes of a buffer, if they are many; it is empty then.
    pub fn take(bytes: &mut Vec<u8>) -> Option<Beside> {
        (bytes.len() >= LONG_BYTES).then(|| Beside::Whole(std::mem::take(bytes)))
    }

    /// Bytes that are sent.
    pub fn len(&self) -> usize {
        match self {
            Beside::Text(text) => text.len(),
            Beside::Bytes(bytes) => bytes.len(),
            Beside::Hexadecimal(bytes) => 2 + 2 * bytes.len(),
            Beside::Whole(bytes) => bytes.len(),
        }
    }

    /// Gives the bytes to `write`, some at a time.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn write<E>(&self, write: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        match self {
            Beside::Text(text) => write(text.as_bytes()),
            Beside::Bytes(bytes) => write(bytes),
            Beside::Whole(bytes) => write(bytes),
            Beside::Hexadecimal(bytes) => {
                write(b"\\x")?;
                let mut digits = Vec::with_capacity(2 * STEP_BYTES);
                for step in bytes.chunks(STEP_BYTES) {
                    digits.clear();
                    for byte in step {
                        digits.extend_from_slice(&HEXADECIMAL[usize::from(*byte)]);
                    }
                    write(&digits)?;
                }
                Ok(())
            }
        }
    }
}

/// The two digits of each byte.
static HEXADECIMAL: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &Beside) -> Vec<u8> {
        let mut all = Vec::new();
        let taken: Result<(), ()> = value.write(&mut |bytes| {
            all.extend_from_slice(bytes);
            Ok(())
        });
        taken.expect("everything is taken");
        assert_eq!(all.len(), value.len(), "it is as long as it says");
        all
    }

    #[test]
    fn a_long_value_is_sent_as_a_short_one_would_be() {
        let bytes: Arc<[u8]> = (0..100_001u32).map(|n| (n % 251) as u8).collect();
        let value = Value::Bytea(bytes.clone());
        let sent = |format, escapes| Beside::of(&value, oid::BYTEA, format, escapes, true);
        let binary = sent(Format::Binary, true).expect("it is long");
        assert_eq!(written(&binary), &bytes[..]);
        let text = sent(Format::Text, false).expect("it is long");
        let expected: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written(&text), format!("\\x{expected}").into_bytes());
        assert!(sent(Format::Text, true).is_none(), "the escape form has a length of its own");
        let short = Value::bytea(&b"abc"[..]);
        assert!(Beside::of(&short, oid::BYTEA, Format::Binary, false, true).is_none());
        let text = Value::text("\u{e9}".repeat(50_000));
        let sent = |is_utf8| Beside::of(&text, oid::TEXT, Format::Text, false, is_utf8);
        assert_eq!(written(&sent(true).expect("it is long")).len(), 100_000);
        assert!(sent(false).is_none(), "it is converted");
    }
}
