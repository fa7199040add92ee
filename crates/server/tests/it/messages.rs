//! Which answers follow which messages.

use std::sync::atomic::Ordering::Relaxed;

use crate::client::{Client, bind, execute, field, kinds, message, named, parse, query, sync};
use crate::start;

#[test]
fn a_query_answers_each_statement_and_is_ready_once() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    assert_eq!(client.run("select 1"), "TDCZI");
    assert_eq!(client.run("rows 2; begin; rows 0"), "TDDCCTCZT");
    assert_eq!(client.run("commit"), "CZI");
    assert_eq!(client.run(""), "IZI");
    assert_eq!(client.run(" ; "), "IZI");
    assert_eq!(client.run("notice here"), "NCZI");
    assert_eq!(client.run("set application_name me"), "CSZI");
}

#[test]
fn rows_are_as_the_columns_say() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    let messages = client.ask(&query("rows 1"));
    assert_eq!(messages[0].1[..10], *b"\0\x02n\0\0\0\0\0\0\0", "two columns, `n` first, of no table");
    assert_eq!(
        messages[0].1[10..20],
        [0, 0, 0, 23, 0, 4, 0xff, 0xff, 0xff, 0xff],
        "int4, 4 bytes, no modifier"
    );
    assert_eq!(messages[1].1, b"\0\x02\0\0\0\x011\0\0\0\x05row 1");
    assert_eq!(messages[2].1, b"SELECT 1\0");
}

#[test]
fn an_error_has_its_fields_and_the_block_has_failed() {
    let (server, address) = start(|_| {});
    let mut client = Client::new(address);
    assert_eq!(client.run("error 42P01 no table"), "EZI");
    client.run("begin");
    let messages = client.ask(&query("select 1; error 23505 twice; select 1"));
    assert_eq!(kinds(&messages), "TDCEZ");
    let error = &messages[3];
    let fields: Vec<_> = "SVCMDHPtcns".chars().map(|code| field(error, code)).collect();
    let expected =
        ["ERROR", "ERROR", "23505", "twice", "d", "h", "7", "t", "c", "n"].map(|s| Some(s.to_string()));
    assert_eq!(fields[..10], expected);
    assert_eq!(fields[10], None);
    assert_eq!(messages[4].1, b"E");
    assert_eq!(client.run("select 1"), "EZE");
    assert_eq!(client.run("rollback"), "CZI");
    let errors: Vec<_> = server.metrics().errors().into_iter().map(|(s, n)| (s.to_string(), n)).collect();
    assert_eq!(errors, [("23505", 1), ("25P02", 1), ("42P01", 1)].map(|(s, n)| (s.to_string(), n)));
}

#[test]
fn a_series_answers_at_sync() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    let series = [
        parse("s", "echo $1 $2"),
        named(b'D', b'S', "s"),
        bind("p", "s", &[Some("a"), None], 0),
        named(b'D', b'P', "p"),
        execute("p", 0),
        named(b'C', b'P', "p"),
        named(b'C', b'S', "s"),
        sync(),
    ];
    let messages = client.ask(&series.concat());
    assert_eq!(kinds(&messages), "1tT2TDC33Z");
    assert_eq!(messages[5].1, b"\0\x02\0\0\0\x01a\xff\xff\xff\xff");
    assert_eq!(kinds(&client.ask(&[named(b'C', b'S', "never"), sync()].concat())), "3Z");
    let empty = [parse("", ""), bind("", "", &[], 0), named(b'D', b'P', ""), execute("", 0), sync()];
    assert_eq!(kinds(&client.ask(&empty.concat())), "12nIZ");
}

#[test]
fn the_execute_before_sync_is_the_last() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    let run = |name: &str, sql: &str| [parse(name, sql), bind(name, name, &[], 0), execute(name, 0)].concat();
    let series = [run("a", "select"), run("b", "select"), run("c", "lasts"), sync()].concat();
    let messages = client.ask(&series);
    let (_, row) = messages.iter().rfind(|(kind, _)| *kind == b'D').expect("a row");
    assert_eq!(&row[6..], b"nny");
}

#[test]
fn texts_and_portals_that_were_run_are_counted() {
    let (server, address) = start(|_| {});
    let mut client = Client::new(address);
    client.run("select");
    client.run("rows 2; rows 2");
    client.ask(&[parse("", "select"), bind("", "", &[], 0), execute("", 0), sync()].concat());
    crate::endings::wait_for(|| server.metrics().statements.load(Relaxed) == 3);
}

#[test]
fn a_row_limit_suspends_the_portal() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    client.run("begin");
    let series = [parse("", "rows 5"), bind("c", "", &[], 1), execute("c", 2), sync()];
    let messages = client.ask(&series.concat());
    assert_eq!(kinds(&messages), "12DDsZ");
    assert_eq!(messages[2].1, b"\0\x02\0\0\0\x04\0\0\0\x01\0\0\0\x05row 1", "the first column is binary");
    assert_eq!(kinds(&client.ask(&[execute("c", 2), execute("c", 2), sync()].concat())), "DDsDCZ");
}

#[test]
fn after_an_error_everything_is_skipped_up_to_sync() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    let series = [
        parse("", "select 1"),
        bind("", "", &[], 0),
        execute("", 0),
        parse("", "wrong"),
        bind("", "", &[], 0),
        execute("", 0),
        query("select 1"),
        message(b'H', b""),
        sync(),
        query("select 1"),
    ];
    client.send(&series.concat());
    assert_eq!(kinds(&client.until_ready()), "12DCEZ");
    assert_eq!(kinds(&client.until_ready()), "TDCZ");
}

#[test]
fn output_comes_before_sync_when_it_is_asked_for() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    client.send(&[parse("", "select 1"), named(b'D', b'S', ""), message(b'H', b"")].concat());
    let first: Vec<_> = (0..3).filter_map(|_| client.next()).collect();
    assert_eq!(kinds(&first), "1tT");
    assert_eq!(kinds(&client.ask(&[bind("", "", &[], 0), execute("", 0), sync()].concat())), "2DCZ");
}

#[test]
fn an_error_of_a_series_comes_before_sync() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    client.send(&[parse("", "wrong"), named(b'D', b'S', ""), message(b'H', b"")].concat());
    assert_eq!(kinds(&client.next().into_iter().collect::<Vec<_>>()), "E");
    assert_eq!(kinds(&client.ask(&sync())), "Z");
}

#[test]
fn a_long_pipeline_holds() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    client.ask(&[parse("s", "echo $1"), sync()].concat());
    let one = [bind("", "s", &[Some(&"x".repeat(100))], 0), execute("", 0)].concat();
    let mut series = one.repeat(3_000);
    series.extend(sync());
    let mut writer = client.stream.try_clone().expect("a second handle");
    let sender = std::thread::Builder::new().spawn(move || std::io::Write::write_all(&mut writer, &series));
    assert_eq!(kinds(&client.until_ready()), format!("{}Z", "2DC".repeat(3_000)));
    sender.expect("a thread").join().expect("no panic").expect("written");
}

#[test]
fn many_rows_and_large_ones_arrive_whole() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    let messages = client.ask(&query("rows 200000"));
    assert_eq!(messages.len(), 200_003);
    assert_eq!(messages[200_000].1, b"\0\x02\0\0\0\x06200000\0\0\0\x0arow 200000");
    let large = "y".repeat(5_000_000);
    let series = [parse("", "echo $1"), bind("", "", &[Some(&large)], 0), execute("", 0), sync()];
    let messages = client.ask(&series.concat());
    assert_eq!(kinds(&messages), "12DCZ");
    assert!(messages[2].1.ends_with(large.as_bytes()));
    assert_eq!(client.run("select 1"), "TDCZI");
}

#[test]
fn long_values_stand_between_short_ones_where_they_belong() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    let long = |n: usize, c: &str| c.repeat(n);
    let rows = [
        [Some("a".to_string()), Some(long(70_000, "b")), None, Some(long(200_000, "c"))],
        [
            Some(long(65_536, "\u{e9}")),
            Some(String::new()),
            Some(long(3_000_000, "d")),
            Some("e".to_string()),
        ],
    ];
    for format in [0, 1] {
        let mut series = parse("", "echo $1 $2 $3 $4");
        for row in &rows {
            let values: Vec<Option<&str>> = row.iter().map(Option::as_deref).collect();
            series.extend([bind("", "", &values, format), execute("", 0)].concat());
        }
        series.extend(sync());
        let messages = client.ask(&series);
        assert_eq!(kinds(&messages), "12DC2DCZ");
        for (message, row) in [&messages[2], &messages[5]].into_iter().zip(&rows) {
            let mut expected = vec![0, 4];
            for value in row {
                let length = value.as_ref().map_or(-1, |value| value.len() as i32);
                expected.extend(length.to_be_bytes());
                expected.extend(value.as_deref().unwrap_or_default().as_bytes());
            }
            assert!(message.1 == expected, "a row of {} bytes, {} expected", message.1.len(), expected.len());
        }
    }
}

#[test]
fn function_calls_are_refused_and_go_on() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    let messages = client.ask(&message(b'F', &[0; 12]));
    assert_eq!(kinds(&messages), "EZ");
    assert_eq!(field(&messages[0], 'C').as_deref(), Some("0A000"));
    assert_eq!(client.run("select 1"), "TDCZI");
}

#[test]
fn a_panic_ends_one_session() {
    let (server, address) = start(|_| {});
    let (mut client, mut other) = (Client::new(address), Client::new(address));
    let messages = client.ask(&query("panic"));
    assert_eq!(field(&messages[0], 'C').as_deref(), Some("XX000"));
    assert_eq!(kinds(&messages), "E", "and then it is closed");
    assert_eq!(other.run("select 1"), "TDCZI");
    assert_eq!(server.metrics().panics.load(std::sync::atomic::Ordering::Relaxed), 1);
}
