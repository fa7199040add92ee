//! Plans of slow statements are told as PostgreSQL's auto_explain tells them.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads")]

mod client;
mod databases;
mod support;

use client::{Printed, start};
use databases::with_pod;
use liger_sql::session::{Database, Session};

fn told(session: &mut dyn Session, sql: &str) -> Vec<String> {
    let mut printed = Printed::default();
    session.simple(sql, &mut printed).unwrap_or_else(|error| panic!("{sql}: {error}"));
    printed.notices.iter().map(|notice| notice.replace("\\n", "\n")).collect()
}

#[test]
fn plans_of_slow_statements_are_told() {
    with_pod(1, 2, |databases| {
        let mut session = databases[0].open(start()).expect("a session opens");
        let session = &mut *session;
        told(session, "create table t (a int primary key, b int); set client_min_messages = log");
        assert!(told(session, "select b from t").is_empty(), "nobody has asked");
        told(session, "set auto_explain.log_min_duration = 0");
        let plain = told(session, "select b from t where b > 3");
        let [plan] = &plain[..] else { panic!("{plain:?}") };
        let head = "duration: 0.000 ms  plan:\nQuery Text: select b from t where b > 3\nSeq Scan on t";
        assert!(plan.contains(head), "{plan}");
        assert!(plan.contains("  Filter: (b > 3)") && !plan.contains("actual"), "{plan}");
        told(session, "set auto_explain.log_analyze = on");
        let measured = told(session, "insert into t select g, g from generate_series(1, 5) g");
        assert!(measured[0].contains("Function Scan on generate_series g"), "{measured:?}");
        assert!(measured[0].contains("rows=5 loops=1"), "{measured:?}");
        told(session, "set auto_explain.log_timing = off; set auto_explain.log_format = json");
        let json = told(session, "select b from t");
        assert!(
            json[0].contains("plan:\n{\n  \"Query Text\": \"select b from t\",\n  \"Plan\": {"),
            "{json:?}"
        );
        assert!(json[0].contains("\"Actual Rows\": 5") && !json[0].contains("Actual Total Time"), "{json:?}");
        told(session, "set auto_explain.log_format = xml");
        let xml = told(session, "prepare p as select $1::int; execute p (1)");
        assert!(xml.iter().any(|xml| xml.contains("  <Query-Text>") && xml.contains("  <Plan>")), "{xml:?}");
        // Faster than that they all are.
        told(session, "set auto_explain.log_min_duration = '1h'");
        assert!(told(session, "select b from t").is_empty());
        told(session, "reset auto_explain.log_min_duration");
        assert!(told(session, "select b from t").is_empty());
        let mut refused = |sql: &str| {
            session.simple(sql, &mut Printed::default()).expect_err("it is refused").state.to_string()
        };
        assert_eq!(refused("set auto_explain.log_format = 'html'"), "22023");
        assert_eq!(refused("set auto_explain.log_min_duration = -2"), "22023");
    });
}
