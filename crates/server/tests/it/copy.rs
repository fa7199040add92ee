//! COPY in both directions.

use crate::client::{Client, bind, execute, field, kinds, message, parse, query, sync};
use crate::start;

#[test]
fn rows_come_from_the_client() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    client.send(&query("copy in; select 1"));
    assert_eq!(client.next().expect("asked for bytes"), (b'G', vec![0, 0, 1, 0, 0]));
    for _ in 0..100 {
        client.send(&message(b'd', b"a line\nand another\n"));
    }
    client.send(&message(b'c', b""));
    let messages = client.until_ready();
    assert_eq!(kinds(&messages), "CTDCZ");
    assert_eq!(messages[0].1, b"COPY 200\0");
}

#[test]
fn a_series_may_copy_and_its_sync_may_come_early() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    let series = [parse("", "copy in"), bind("", "", &[], 0), execute("", 0), sync()];
    client.send(&series.concat());
    let begun: Vec<_> = (0..3).filter_map(|_| client.next()).collect();
    assert_eq!(kinds(&begun), "12G");
    client.send(&[message(b'd', b"1\n"), message(b'H', b""), message(b'c', b""), sync()].concat());
    assert_eq!(kinds(&client.until_ready()), "CZ");
}

#[test]
fn the_client_may_give_up() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    client.send(&[query("copy in"), message(b'd', b"1\n"), message(b'f', b"no more\0")].concat());
    let messages = client.until_ready();
    assert_eq!(kinds(&messages), "GEZ");
    assert_eq!(field(&messages[1], 'C').as_deref(), Some("57014"));
    assert_eq!(field(&messages[1], 'M').as_deref(), Some("COPY from stdin failed: no more"));
}

#[test]
fn what_the_client_still_sends_after_an_error_is_dropped() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    let rest = [message(b'd', b"2\n").repeat(10), message(b'c', b"")].concat();
    let messages = client.ask(&[query("copy in"), message(b'd', b"bad\n"), rest].concat());
    assert_eq!(kinds(&messages), "GEZ");
    assert_eq!(client.run("select 1"), "TDCZI");
    let series = [parse("", "copy in"), bind("", "", &[], 0), execute("", 0), message(b'd', b"bad\n")];
    let rest = [message(b'd', b"2\n"), message(b'c', b""), sync()].concat();
    assert_eq!(kinds(&client.ask(&[series.concat(), rest].concat())), "12GEZ");
    assert_eq!(client.run("select 1"), "TDCZI");
}

#[test]
fn a_query_in_the_middle_ends_the_connection() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    let messages = client.ask(&[query("copy in"), query("select 1")].concat());
    assert_eq!(kinds(&messages), "GE");
    assert_eq!(field(&messages[1], 'C').as_deref(), Some("08P01"));
}

#[test]
fn rows_go_to_the_client() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    let messages = client.ask(&query("copy out 3"));
    assert_eq!(kinds(&messages), "HdddcCZ");
    assert_eq!(messages[3].1, b"3\n");
    assert_eq!(client.ask(&query("copy out 100000")).len(), 100_004);
}
