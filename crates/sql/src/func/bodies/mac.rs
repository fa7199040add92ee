//! Addresses of network cards.

use super::{bytea, scalar};
use crate::error::{SqlError, SqlState};
use crate::func::registry::Body;
use crate::types::mac::widened;
use crate::types::value::Value;

pub(super) fn find(source: &str) -> Option<Body> {
    match source {
        "macaddr_not" | "macaddr8_not" => {
            scalar(|_, a| Ok(Value::bytea(bytea(&a[0]).iter().map(|byte| !byte).collect::<Vec<_>>())))
        }
        "macaddr_and" | "macaddr8_and" => scalar(|_, a| Ok(both(a, |a, b| a & b))),
        "macaddr_or" | "macaddr8_or" => scalar(|_, a| Ok(both(a, |a, b| a | b))),
        "macaddr_trunc" | "macaddr8_trunc" => scalar(|_, a| {
            let mut bytes = bytea(&a[0]).to_vec();
            bytes[3..].fill(0);
            Ok(Value::bytea(bytes))
        }),
        "macaddr8_set7bit" => scalar(|_, a| {
            let mut bytes = bytea(&a[0]).to_vec();
            bytes[0] |= 2;
            Ok(Value::bytea(bytes))
        }),
        "macaddrtomacaddr8" => {
            scalar(|_, a| Ok(Value::bytea(widened(bytea(&a[0])).expect("a macaddr has six bytes"))))
        }
        "macaddr8tomacaddr" => scalar(|_, a| match bytea(&a[0]) {
            [a, b, c, 0xff, 0xfe, d, e, f] => Ok(Value::bytea([*a, *b, *c, *d, *e, *f].as_slice())),
            _ => {
                let message = "macaddr8 data out of range to convert to macaddr";
                let error = SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message);
                Err(error.hint(
                    "Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, \
                     for example xx:xx:xx:ff:fe:xx:xx:xx, are eligible to be converted from macaddr8 to \
                     macaddr.",
                ))
            }
        }),
        _ => None,
    }
}

fn both(arguments: &[Value], op: fn(u8, u8) -> u8) -> Value {
    let pairs = bytea(&arguments[0]).iter().zip(bytea(&arguments[1]));
    Value::bytea(pairs.map(|(a, b)| op(*a, *b)).collect::<Vec<_>>())
}
