//! Bytes as text: hex, base64 and escape; digests.

use md5::{Digest, Md5};
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::{bytea, invalid_parameter, scalar, text};
use crate::encoding::{self, Encoding, convert};
use crate::error::{Result, SqlError};
use crate::func::registry::Body;
use crate::types::bytea::write_hex;
use crate::types::value::Value;

pub(super) fn find(source: &str) -> Option<Body> {
    match source {
        "binary_encode" => scalar(|_, a| encode(bytea(&a[0]), text(&a[1])).map(Value::text)),
        "binary_decode" => scalar(|_, a| decode(text(&a[0]), text(&a[1])).map(Value::bytea)),
        "md5_text" => scalar(|_, a| Ok(Value::text(hex(&Md5::digest(text(&a[0]).as_bytes()))))),
        "md5_bytea" => scalar(|_, a| Ok(Value::text(hex(&Md5::digest(bytea(&a[0])))))),
        "sha224_bytea" => scalar(|_, a| Ok(Value::bytea(Sha224::digest(bytea(&a[0])).to_vec()))),
        "sha256_bytea" => scalar(|_, a| Ok(Value::bytea(Sha256::digest(bytea(&a[0])).to_vec()))),
        "sha384_bytea" => scalar(|_, a| Ok(Value::bytea(Sha384::digest(bytea(&a[0])).to_vec()))),
        "sha512_bytea" => scalar(|_, a| Ok(Value::bytea(Sha512::digest(bytea(&a[0])).to_vec()))),
        "pg_convert_to" => scalar(|_, a| {
            let to = charset(text(&a[1]), "destination")?;
            Ok(Value::bytea(convert(text(&a[0]).as_bytes(), encoding::utf8(), to)?.into_owned()))
        }),
        "pg_convert_from" => scalar(|_, a| {
            let from = charset(text(&a[1]), "source")?;
            Ok(Value::text(encoding::text(&convert(bytea(&a[0]), from, encoding::utf8())?)?))
        }),
        "to_ascii_default" | "to_ascii_enc" | "to_ascii_encname" => scalar(|_, _| {
            let message = "encoding conversion from UTF8 to ASCII not supported";
            Err(SqlError::refused_by_postgresql(message))
        }),
        "pg_convert" => scalar(|_, a| {
            let (from, to) = (charset(text(&a[1]), "source")?, charset(text(&a[2]), "destination")?);
            Ok(Value::bytea(convert(bytea(&a[0]), from, to)?.into_owned()))
        }),
        _ => None,
    }
}

fn charset(name: &str, side: &str) -> Result<&'static Encoding> {
    let unknown = || invalid_parameter(format!("invalid {side} encoding name \"{name}\""));
    encoding::named(name).ok_or_else(unknown)
}

fn hex(bytes: &[u8]) -> String {
    let mut digits = String::new();
    write_hex(bytes, &mut digits);
    digits
}

#[cold]
fn unknown(format: &str) -> SqlError {
    invalid_parameter(format!("unrecognized encoding: \"{format}\""))
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn encode(bytes: &[u8], format: &str) -> Result<String> {
    Ok(match format.to_ascii_lowercase().as_str() {
        "hex" => hex(bytes),
        "base64" => base64(bytes),
        "escape" => {
            let mut made = String::new();
            for byte in bytes {
                match byte {
                    b'\\' => made.push_str("\\\\"),
                    0 | 128.. => made.push_str(&format!("\\{byte:03o}")),
                    _ => made.push(*byte as char),
                }
            }
            made
        }
        _ => return Err(unknown(format)),
    })
}

/// Lines of 76 characters, as in MIME.
fn base64(bytes: &[u8]) -> String {
    let mut made = String::new();
    for (i, chunk) in bytes.chunks(3).enumerate() {
        if i > 0 && i % 19 == 0 {
            made.push('\n');
        }
        let word =
            chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = BASE64[(word >> (18 - 6 * place)) as usize & 63] as char;
            made.push(if place <= chunk.len() { digit } else { '=' });
        }
    }
    made
}

fn decode(text: &str, format: &str) -> Result<Vec<u8>> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => crate::types::bytea::decode_hex(text),
        "base64" => decode_base64(text),
        "escape" => crate::types::bytea::parse(&text.replace("\\x", "\\\\x").replace("\\\\\\x", "\\\\x")),
        _ => Err(unknown(format)),
    }
}

fn decode_base64(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // How many bytes a group of four gives: from the first padding on as many as that leaves.
    let (mut word, mut digits, mut gives) = (0u32, 0, 3);
    for c in text.chars().filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\r')) {
        let digit = match c {
            '=' => {
                if gives == 3 && digits < 2 {
                    return Err(invalid_parameter("unexpected \"=\" while decoding base64 sequence"));
                } else if gives == 3 {
                    gives = digits - 1;
                }
                0
            }
            c => BASE64.iter().position(|digit| char::from(*digit) == c).ok_or_else(|| {
                invalid_parameter(format!("invalid symbol \"{c}\" found while decoding base64 sequence"))
            })? as u32,
        };
        word = word << 6 | digit;
        digits += 1;
        if digits == 4 {
            let all = [(word >> 16) as u8, (word >> 8) as u8, word as u8];
            bytes.extend(&all[..gives]);
            (word, digits) = (0, 0);
        }
    }
    if digits != 0 {
        return Err(invalid_parameter("invalid base64 end sequence")
            .hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(bytes)
}
