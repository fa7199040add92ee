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
    assert_eq!(ask("1"), ["1"]);
}

#[test]
fn the_stack_holds() {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(all).expect("a thread");
    thread.join().expect("no assertion failed");
}
