//! What statements look at: rows visited, as a host counts them.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads")]

mod client;
mod databases;
mod support;

use client::{Fixed, Printed, start};
use databases::with_hosts;
use liger_sql::exec::EngineDatabase;
use liger_sql::session::{Database, Session};

fn answer(session: &mut (dyn Session + Send), sql: &str) -> String {
    let mut printed = Printed::default();
    session.simple(sql, &mut printed).unwrap_or_else(|error| panic!("{sql}: {error} {:?}", error.detail));
    printed.lines.join(" ")
}

/// Each EXISTS leaves a scan behind that found what it looked for and is not at its end.
#[test]
fn a_scan_goes_on_where_it_is_however_many_were_begun_since() {
    with_hosts(1, 2, |hosts| {
        let database = EngineDatabase::new(hosts[0].clone(), || Box::new(Fixed));
        let mut session = database.open(start()).expect("a session opens");
        answer(&mut *session, "create table a (k int primary key)");
        answer(&mut *session, "create table b (x int, y int, primary key (x, y))");
        answer(&mut *session, "insert into a select g from generate_series(1, 4000) g");
        answer(&mut *session, "insert into b select g / 2, g from generate_series(1, 8001) g");
        let mut visited = |most: u64| {
            let before = hosts[0].slots.observed().rows_visited();
            let exists = "exists (select 1 from b where b.x = a.k)";
            let sql = format!("select count(*) from a where k <= {most} and {exists}");
            assert_eq!(answer(&mut *session, &sql), most.to_string());
            hosts[0].slots.observed().rows_visited() - before
        };
        for rows in [500, 1000, 2000, 4000] {
            let visits = visited(rows);
            assert!((2 * rows..4 * rows).contains(&visits), "{visits} for {rows} rows of each table");
        }
    });
}
