//! Definitions are printed so that they can be read again, and then mean the same: every view and every
//! expression of a table that the logic files make is made once more from what was printed of it.

mod client;

use std::collections::BTreeSet;

use client::{Fixed, answer, files, start, statements};
use liger_sql::exec::LocalSession;
use liger_sql::exec::memory::Memory;

type Local = LocalSession<Memory>;

/// Rows as lines, in any order.
fn rows(session: &mut Local, query: &str) -> Vec<String> {
    let mut lines = answer(session, query);
    lines.sort();
    lines
}

fn one(session: &mut Local, query: &str) -> String {
    answer(session, query).join("\n")
}

/// What differs of a view that is made of another one's definition.
fn view_again(session: &mut Local, oid: &str, name: &str, pretty: bool) -> Option<String> {
    let text = one(session, &format!("select pg_get_viewdef({oid}, {pretty})"));
    answer(session, "drop view if exists pg_temp.made_again");
    let columns = one(
        session,
        &format!(
            "select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute \
             where attrelid = {oid}"
        ),
    );
    let list = if columns == "NULL" { String::new() } else { format!("({columns})") };
    let made = answer(session, &format!("create temporary view made_again {list} as {text}"));
    if made.first().map(String::as_str) != Some("CREATE VIEW") {
        return Some(format!("{name} {made:?}\n{text}"));
    }
    // What is read for the second time stays the same: PostgreSQL's own arrays of constants do not before.
    let printed = format!("select pg_get_viewdef('pg_temp.made_again'::regclass, {pretty})");
    let again = one(session, &printed);
    answer(session, &format!("create or replace temporary view made_again {list} as {again}"));
    let third = one(session, &printed);
    if third != again {
        return Some(format!("{name}\n{text}\n{again}\n{third}"));
    }
    let types = |of: &str| {
        format!("select attnum, format_type(atttypid, -1) from pg_attribute where attrelid = {of}")
    };
    let (old, new) = (rows(session, &types(oid)), rows(session, &types("'pg_temp.made_again'::regclass")));
    if old != new {
        return Some(format!("{name}\n{text}\n{old:?}\n{new:?}"));
    }
    let (old, new) =
        (rows(session, &format!("select * from {name}")), rows(session, "select * from pg_temp.made_again"));
    let random = ["random()", "clock_timestamp", "nextval", "gen_random", "skip locked"];
    (old != new && !random.iter().any(|word| text.to_lowercase().contains(word)))
        .then(|| format!("{name}\n{text}\n{old:?}\n{new:?}"))
}

/// What differs of the checks of a table.
fn check_again(session: &mut Local, oid: &str, table: &str) -> Option<String> {
    let mut texts = vec![one(session, &format!("select pg_get_constraintdef({oid})"))];
    for _ in 0..2 {
        let text = texts.last().expect("one was put there");
        let name = "made_again_check";
        let made = answer(session, &format!("alter table {table} add constraint {name} {text} not valid"));
        let printed = format!("select pg_get_constraintdef(oid) from pg_constraint where conname = '{name}'");
        let again = one(session, &printed).trim_end_matches(" NOT VALID").to_string();
        answer(session, &format!("alter table {table} drop constraint {name}"));
        if made.first().map(String::as_str) != Some("ALTER TABLE") {
            return Some(format!("{table} {made:?}\n{text}"));
        }
        texts.push(again);
    }
    (texts[1] != texts[2]).then(|| format!("{table}\n{}", texts.join("\n")))
}

#[test]
fn what_is_printed_of_views_and_checks_is_the_same_again() {
    let (mut looked_at, mut failed) = (0, Vec::new());
    for (file, path) in files() {
        let session = LocalSession::new(Memory::default(), start(), Box::new(Fixed));
        let mut session = session.expect("a session without settings opens");
        let mut seen = BTreeSet::new();
        for statement in statements(&path) {
            answer(&mut session, &statement);
            let words = statement.to_lowercase();
            if !words.contains("create") && !words.contains("alter") {
                continue;
            }
            let views = "select c.oid, quote_ident(n.nspname) || '.' || quote_ident(c.relname) \
                         from pg_class c \
                         join pg_namespace n on n.oid = c.relnamespace where c.relkind = 'v' \
                         and c.oid >= 16384 and c.relname <> 'made_again'";
            for line in answer(&mut session, views) {
                let Some((oid, name)) = line.split_once('|') else { continue };
                if seen.insert(oid.to_string()) {
                    looked_at += 1;
                    for pretty in [false, true] {
                        let differs = view_again(&mut session, oid, name, pretty);
                        failed.extend(differs.map(|why| format!("{file}: {why}")));
                    }
                    answer(&mut session, "drop view if exists pg_temp.made_again");
                }
            }
            let checks =
                "select oid, conrelid::regclass from pg_constraint where contype = 'c' and conrelid <> 0";
            for line in answer(&mut session, checks) {
                let Some((oid, table)) = line.split_once('|') else { continue };
                if seen.insert(oid.to_string()) {
                    looked_at += 1;
                    let differs = check_again(&mut session, oid, table);
                    failed.extend(differs.map(|why| format!("{file}: {why}")));
                }
            }
        }
    }
    println!("{looked_at} definitions");
    assert!(looked_at > 100 || std::env::var_os("LOGIC_FILE").is_some(), "{looked_at}");
    assert!(failed.is_empty(), "{} of {looked_at}:\n{}", failed.len(), failed.join("\n"));
}
