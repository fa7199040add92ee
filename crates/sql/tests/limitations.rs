//! Each line of the SQL parts of docs/limitations.md, held against statements (`limitations.tsv`).
//!
//! A line of that file has three fields: the first words of a line of the page; what a session answers, which
//! is a SQLSTATE, or `=` and rows, then tags, with ` / ` between them; and the statements. Or `-`, and why no
//! statement shows it.

mod client;

use std::collections::BTreeMap;

use client::{Fixed, Printed, answer, start};
use liger_sql::exec::LocalSession;
use liger_sql::exec::memory::Memory;
use liger_sql::session::Session;

const PAGE: &str = include_str!("../../../docs/limitations.md");
const STATEMENTS: &str = include_str!("limitations.tsv");

/// The lines of the page's parts about SQL, in one line each.
fn promises() -> Vec<String> {
    let parts = PAGE.split("\n## ").filter(|part| part.starts_with("SQL"));
    let lines = parts.flat_map(|part| part.split("\n* ").skip(1));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// First words, answer and statements.
fn cases() -> impl Iterator<Item = [&'static str; 3]> {
    let lines = STATEMENTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        fields.try_into().unwrap_or_else(|_| panic!("three fields: {line}"))
    })
}

fn session() -> LocalSession<Memory> {
    LocalSession::new(Memory::default(), start(), Box::new(Fixed)).expect("a session without settings opens")
}

#[test]
fn each_line_of_the_page_has_statements_and_each_statement_a_line() {
    let promises = promises();
    assert!(promises.len() > 50, "the page has lines about SQL");
    let mut told: BTreeMap<&str, usize> = promises.iter().map(|line| (line.as_str(), 0)).collect();
    for [words, ..] in cases() {
        let fitting: Vec<&String> = promises.iter().filter(|line| line.starts_with(words)).collect();
        assert_eq!(fitting.len(), 1, "a line of the page that begins with: {words}");
        *told.get_mut(fitting[0].as_str()).expect("it was found") += 1;
    }
    let silent: Vec<_> = told.into_iter().filter(|(_, cases)| *cases == 0).map(|(line, _)| line).collect();
    assert!(
        silent.is_empty(),
        "lines without a statement, or a reason why there is none:\n{}",
        silent.join("\n")
    );
}

#[test]
fn the_page_is_true() {
    let mut wrong = Vec::new();
    for [words, wanted, sql] in cases().filter(|[_, wanted, _]| *wanted != "-") {
        let mut session = session();
        let got = match wanted.strip_prefix("= ") {
            Some(_) => format!("= {}", answer(&mut session, sql).join(" / ")),
            None => refusal(&mut session, sql),
        };
        if got != wanted {
            wrong.push(format!("{words}\n  {sql}\n  wanted {wanted}\n  got    {got}"));
        }
    }
    assert!(wrong.is_empty(), "{} of the statements:\n{}", wrong.len(), wrong.join("\n"));
}

/// The code of a statement's error; of Liger's own refusals only with what to do instead.
fn refusal(session: &mut dyn Session, sql: &str) -> String {
    match session.simple(sql, &mut Printed::default()) {
        Ok(()) => "no error".to_string(),
        Err(error) if error.state.as_str() == "0A000" && error.hint.is_none() => {
            format!("0A000 without a hint: {}", error.message)
        }
        Err(error) => error.state.to_string(),
    }
}
