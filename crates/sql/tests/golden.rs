//! Expressions whose answers come from PostgreSQL 15 (`golden/*.cases`, `golden/*.expected`,
//! `golden/make.py`).
//!
//! A small reader turns each case into calls of functions, operators and casts, resolved and carried out as
//! the executor does it. All differences are reported at once.

#![forbid(unsafe_code)]

mod expression;

use std::fs;
use std::path::PathBuf;

use expression::Reader;
use liger_sql::types::context::{EvalContext, NoSystem, Settings};
use liger_sql::types::datetime;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn answer(ctx: &EvalContext<'_>, case: &str) -> String {
    let result = match case.split_once(' ') {
        Some(("send", rest)) => Reader::new(ctx, rest).binary(),
        Some(("rows", rest)) => Reader::new(ctx, rest).rows(),
        Some(("agg", rest)) => Reader::new(ctx, rest).aggregate(false),
        Some(("within", rest)) => Reader::new(ctx, rest).aggregate(true),
        _ => Reader::new(ctx, case).all(),
    };
    match result {
        Ok(text) => text.replace('\\', "\\\\").replace('\n', "\\n"),
        Err(error) => format!("!{}", error.state),
    }
}

fn check(family: &str) {
    let read = |ending: &str| fs::read_to_string(folder().join(format!("{family}.{ending}"))).unwrap();
    let settings = Settings {
        time_zone: datetime::zone("America/New_York").unwrap(),
        time_zone_name: "America/New_York".to_string(),
        ..Settings::default()
    };
    let ctx = EvalContext::new(&settings, &NoSystem, 0);
    let (cases, expected) = (read("cases"), read("expected"));
    let cases: Vec<&str> = cases.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let expected: Vec<&str> = expected.lines().collect();
    assert_eq!(cases.len(), expected.len(), "{family}: run golden/make.py");
    let mut differences = Vec::new();
    for (case, expected) in cases.iter().zip(&expected) {
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| answer(&ctx, case)));
        let answer = answer.unwrap_or_else(|_| "panic".to_string());
        if answer != *expected {
            differences.push(format!("{case}\n    expected {expected}\n    answered {answer}"));
        }
    }
    let count = differences.len();
    assert!(
        differences.is_empty(),
        "{family}: {count} of {} differ\n{}",
        cases.len(),
        differences.join("\n")
    );
    println!("{family}: {} cases", cases.len());
}

macro_rules! families {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*
    };
}

families!(aggregates, arrays, binary, documents, formats, numbers, strings, times);
