//! Statements that nest deeply or go on for long: an answer or 54001, with the stack of a server's
//! connection.

#![forbid(unsafe_code)]

mod client;

use client::{Fixed, answer, start};
use liger_sql::exec::LocalSession;
use liger_sql::exec::memory::Memory;

/// Bytes; see `liger_server::Config::stack_bytes`.
const STACK: usize = 64 << 20;

fn chain(item: &str, with: &str, times: usize) -> String {
    vec![item; times].join(with)
}

fn nest(open: &str, inner: &str, close: &str, times: usize) -> String {
    format!("{}{inner}{}", open.repeat(times), close.repeat(times))
}

fn all() {
    let mut session = LocalSession::new(Memory::default(), start(), Box::new(Fixed)).expect("it opens");
    let mut ask = |text: &str| answer(&mut session, &format!("select {text}"));
    let too_deep = ["ERROR 54001"];
    assert_eq!(ask(&chain("1", "+", 900)), ["900"]);
    assert_eq!(ask(&chain("1", "+", 20_000)), too_deep);
    assert_eq!(ask(&chain("(1 = 2)", " or ", 20_000)), ["f"]);
    assert_eq!(ask(&nest("(", "1", ")", 200)), ["1"]);
    assert_eq!(ask(&nest("(", "1", ")", 20_000)), too_deep);
    assert_eq!(ask(&nest("not ", "true", "", 20_000)), too_deep);
    assert_eq!(ask(&nest("- ", "1", "", 20_000)), too_deep);
    assert_eq!(ask(&nest("case when true then ", "1", " end", 20_000)), too_deep);
    assert_eq!(ask(&nest("array[", "1", "]", 20_000)), too_deep);
    // A long chain below a long chain below...
    assert_eq!(ask(&nest("(", "1", &format!(")+{}", chain("1", "+", 400)), 100)), too_deep);
    assert_eq!(ask(&chain("1", " union all select ", 900)).len(), 900);
    assert_eq!(ask(&chain("1", " union all select ", 20_000)), too_deep);
    let from = |times| format!("* from {}", nest("(select * from ", "(select 1) a", ") a", times));
    assert_eq!(ask(&from(100)), ["1"]);
    assert_eq!(ask(&from(20_000)), too_deep);
    let joined = |times| format!("count(*) from {}", chain("(select 1) a", " cross join ", times));
    assert_eq!(ask(&joined(20_000)), too_deep);
    assert_eq!(ask(&format!("'{}'::json is null", nest("[", "", "]", 100_000))), too_deep);
    assert_eq!(ask(&format!("'{}'::jsonb is null", nest("[", "", "]", 100_000))), too_deep);
    assert_eq!(ask(&format!("'{}'::int[]", nest("{", "", "}", 100_000))), ["ERROR 54000"]);
    for times in [10_000, 100_000] {
        deeper(&mut ask, times);
    }
    assert_eq!(ask("1"), ["1"]);
    views();
}

/// What nests so deeply is told so, or computed.
fn deeper(ask: &mut dyn FnMut(&str) -> Vec<String>, times: usize) {
    let texts = [
        nest("(", "1", ")", times),
        nest("not ", "true", "", times),
        nest("- ", "1", "", times),
        nest("case when true then ", "1", " end", times),
        nest("case 1 when 1 then ", "1", " else 2 end", times),
        nest("coalesce(", "1", ")", times),
        nest("abs(", "1", ")", times),
        nest("array[", "1", "]", times),
        nest("row(", "1", ")", times),
        nest("(select ", "1", ")", times),
        nest("exists (select ", "1", ")", times),
        nest("1 in (select ", "1", ")", times),
        nest("cast(", "1", " as int)", times),
        nest("", "1", "::int", times),
        nest("", "array[1]", "[1:1]", times),
        nest("", "'{}'::jsonb", "->'a'", times),
        nest("", "'a'", " || 'b'", times),
        nest("", "1", " is null", times),
        nest("", "'a'", " collate \"C\"", times),
        nest("", "now()", " at time zone 'UTC'", times),
        nest("1 = any (array[", "1", "])", times),
        nest("", "'a'", " like 'a'", times),
        chain("true", " and ", times),
        format!("1 {}", chain("union select 1", " ", times)),
        format!("1 {}", chain("except all select 1", " ", times)),
        nest("1 union (select ", "1", ")", times),
        format!("1 from {}", nest("(", "(select 1) a cross join (select 1) b", ")", times)),
        format!("1 from (select 1) a {}", nest("join (select 1) x on true ", "", "", times)),
        format!("1 from {}", nest("lateral (select * from ", "(select 1) a", ") a", times)),
        format!(
            "1 from {}",
            nest("(with w as (select * from ", "(select 1) a", ") select * from w) a", times)
        ),
        format!("1 order by {}", nest("(", "1", ")", times)),
        format!("1 group by {}", nest("rollup(", "1", ")", times)),
        format!("sum(1) over (order by {})", nest("(", "1", ")", times)),
        format!("'a' ~ '{}'", nest("(", "a", ")", times)),
        format!("'a' similar to '{}'", nest("(", "a", ")", times)),
        format!("'{}'::json is null", nest("{\"a\":", "1", "}", times)),
        format!("'{}'::jsonb is null", nest("{\"a\":", "1", "}", times)),
        format!("'{}'::jsonpath is null", nest("(", "1", ")", times)),
        format!("'{}'::jsonpath is null", nest("-", "$", "", times)),
        format!("'{}'::jsonpath is null", nest("1 + ", "1", "", times)),
        format!("'{}'::jsonpath is null", nest("$ ? (@.a == ", "1", ")", times)),
        format!("jsonb_path_exists('1', '{}')", nest("$", "", "[0]", times)),
        format!("jsonb_path_query('[1]', 'strict {}')", nest("$", "", "[*]", times)),
        format!("jsonb_path_query('1', '{}')", nest("$", "", ".type()", times)),
        format!("jsonb_path_query('1', '{}')", nest("$", "", " ? (@ == 1)", times)),
        format!("'{}'::interval is null", chain("1 day", " ", times)),
        format!("'{}'::int[] is null", nest("{", "1", "}", times)),
        format!("to_char(1, '{}') is null", chain("9", ",", times)),
        format!("$x${}$x$", nest("/*", "", "*/", times)),
        format!("{} 1", nest("/*", "", "*/", times)),
    ];
    for text in texts {
        let got = ask(&text);
        let last = got.last().cloned().unwrap_or_default();
        let shown: String = text.chars().take(60).collect();
        let known = ["ERROR 54001", "ERROR 54000", "ERROR 2201B", "ERROR 42", "ERROR 22"];
        let fine = !last.starts_with("ERROR") || known.iter().any(|code| last.starts_with(code));
        println!("{times} {} {shown}", last.chars().take(30).collect::<String>());
        assert!(fine, "{last}: {shown}");
        assert_eq!(ask("1"), ["1"], "after {shown}");
    }
}

/// Views on views, and tables whose rows go with those of others.
fn views() {
    let mut session = LocalSession::new(Memory::default(), start(), Box::new(Fixed)).expect("it opens");
    let mut ask = |sql: &str| answer(&mut session, sql);
    ask("create view v0 as select 1 as a");
    let mut last = 0;
    while last < 2_000
        && ask(&format!("create view v{} as select a from v{last}", last + 1)) == ["CREATE VIEW"]
    {
        last += 1;
    }
    assert!(last >= 50, "{last}");
    let next = ask(&format!("create view v{} as select a from v{last}", last + 1));
    assert!(last == 2_000 || next == ["ERROR 54001"], "{last}: {next:?}");
    let got = ask(&format!("select * from v{last}"));
    assert!(got == ["1", "SELECT 1"] || got == ["1"] || got == ["ERROR 54001"], "{got:?}");
    ask("create table t (a int primary key, b int references t on delete cascade)");
    ask("insert into t select g, nullif(g - 1, 0) from generate_series(1, 2000) g");
    let got = ask("delete from t where a = 1");
    assert!(got == ["DELETE 1"] || got == ["ERROR 54001"], "{got:?}");
    assert_eq!(ask("select 1"), ["1"]);
}

#[test]
fn the_stack_holds() {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(all).expect("a thread");
    thread.join().expect("no assertion failed");
}
