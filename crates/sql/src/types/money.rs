//! Amounts of money as texts, in the locale C: dollars with two decimals. A value counts cents.

use crate::error::{Result, SqlError, SqlState};

/// What is left of a text, read by characters of one byte.
struct Rest<'t>(&'t [u8]);

impl Rest<'_> {
    fn accept(&mut self, byte: u8) -> bool {
        let found = self.0.first() == Some(&byte);
        self.0 = &self.0[usize::from(found)..];
        found
    }

    fn spaces(&mut self) {
        while self.0.first().is_some_and(|byte| byte.is_ascii_whitespace() || *byte == 0x0b) {
            self.0 = &self.0[1..];
        }
    }

    /// Spaces with a sign of the currency among them.
    fn currency(&mut self) {
        self.spaces();
        self.accept(b'$');
        self.spaces();
    }
}

/// The cents of an amount: `$1,234.56`, `(1)`, `-1`.
///
/// # Errors
/// 22P02: not an amount; 22003: too large.
pub fn parse(text: &str) -> Result<i64> {
    let too_large = || {
        let message = format!("value \"{text}\" is out of range for type money");
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
    };
    let mut rest = Rest(text.as_bytes());
    rest.currency();
    let mut negative = rest.accept(b'-') || rest.accept(b'(');
    let _ = negative || rest.accept(b'+');
    rest.currency();
    // Counted below zero, where there is one more amount.
    let (mut cents, mut decimals) = (0_i64, None);
    while let Some(&byte) = rest.0.first() {
        match (byte, decimals) {
            (b'0'..=b'9', None | Some(..2)) => {
                let more = cents.checked_mul(10).and_then(|c| c.checked_sub(i64::from(byte - b'0')));
                cents = more.ok_or_else(too_large)?;
                decimals = decimals.map(|count| count + 1);
            }
            (b'.', None) => decimals = Some(0),
            (b',', _) => {}
            _ => break,
        }
        rest.0 = &rest.0[1..];
    }
    if rest.0.first().is_some_and(|byte| (b'5'..=b'9').contains(byte)) {
        cents = cents.checked_sub(1).ok_or_else(too_large)?;
    }
    for _ in decimals.unwrap_or(0)..2 {
        cents = cents.checked_mul(10).ok_or_else(too_large)?;
    }
    while rest.0.first().is_some_and(u8::is_ascii_digit) {
        rest.0 = &rest.0[1..];
    }
    rest.spaces();
    while !rest.0.is_empty() {
        if rest.accept(b'-') {
            negative = true;
        } else if !(rest.accept(b')') || rest.accept(b'+') || rest.accept(b'$')) {
            let message = format!("invalid input syntax for type money: \"{text}\"");
            return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
        }
        rest.spaces();
    }
    if negative { Ok(cents) } else { cents.checked_neg().ok_or_else(too_large) }
}

/// Appends an amount: `-$1,234.56`.
pub fn write(cents: i64, to: &mut String) {
    let amount = cents.unsigned_abs();
    let dollars = (amount / 100).to_string();
    to.push_str(if cents < 0 { "-$" } else { "$" });
    for (i, digit) in dollars.chars().enumerate() {
        if i > 0 && (dollars.len() - i).is_multiple_of(3) {
            to.push(',');
        }
        to.push(digit);
    }
    to.push_str(&format!(".{:02}", amount % 100));
}

/// An amount in English words.
pub fn words(cents: i64) -> String {
    const SCALES: [&str; 6] = ["quadrillion ", "trillion ", "billion ", "million ", "thousand ", ""];
    let amount = cents.unsigned_abs();
    let (dollars, rest) = (amount / 100, amount % 100);
    let mut words = String::from(if cents < 0 { "minus " } else { "" });
    let start = words.len();
    for (place, scale) in SCALES.iter().enumerate() {
        let hundreds = dollars / 1000_u64.pow(5 - place as u32) % 1000;
        if hundreds > 0 {
            let space = if scale.is_empty() { "" } else { " " };
            words += &(below_thousand(hundreds as usize) + space + scale);
        }
    }
    if words.len() == start {
        words += "zero";
    }
    words += if dollars == 1 { " dollar and " } else { " dollars and " };
    words += &below_thousand(rest as usize);
    words += if rest == 1 { " cent" } else { " cents" };
    words[..1].to_uppercase() + &words[1..]
}

fn below_thousand(number: usize) -> String {
    const SMALL: [&str; 21] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
    ];
    const TENS: [&str; 8] = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
    let (hundreds, rest) = (number / 100, number % 100);
    let tens = |rest: usize| match (rest, rest % 10) {
        (..20, _) => SMALL[rest].to_string(),
        (_, 0) => TENS[rest / 10 - 2].to_string(),
        (_, ones) => format!("{} {}", TENS[rest / 10 - 2], SMALL[ones]),
    };
    match (hundreds, rest) {
        (0, _) => tens(rest),
        (_, 0) => format!("{} hundred", SMALL[hundreds]),
        (_, ..20) => format!("{} hundred and {}", SMALL[hundreds], tens(rest)),
        _ => format!("{} hundred {}", SMALL[hundreds], tens(rest)),
    }
}
