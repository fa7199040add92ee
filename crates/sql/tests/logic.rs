//! Statements whose answers PostgreSQL 15 gave (`logic/make.py`), run over a store in memory.
//!
//! `LOGIC_FILE=name` runs one file, `LOGIC_ALL=1` shows every difference instead of the first twenty.

mod client;

use client::{Fixed, files, run, start};
use liger_sql::exec::LocalSession;
use liger_sql::exec::memory::Memory;

#[test]
fn answers_are_postgresql_s() {
    let (mut total, mut failed) = (0, Vec::new());
    for (name, path) in files() {
        let session = LocalSession::new(Memory::default(), start(), Box::new(Fixed));
        let mut session = session.expect("a session without settings opens");
        let mut report = String::new();
        let (good, all) = run(&path, &mut session, &mut report);
        total += good;
        println!("{name}: {good} of {all}");
        if std::env::var_os("LOGIC_ALL").is_some() {
            println!("{report}");
        }
        if good < all {
            failed.push(format!("{name}: {} differences\n{report}", all - good));
        }
    }
    println!("{total} statements answered as PostgreSQL does");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
