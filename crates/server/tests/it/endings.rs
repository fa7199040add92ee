//! What ends a statement or a connection from outside, and what comes from outside into one.

use std::io::{Read as _, Write as _};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use liger_sql::session::{ActivityState, InterruptReason};

use crate::client::{
    Client, bind, connect, execute, field, kinds, message, named, packet, parse, query, shown, startup, sync,
};
use crate::start;

/// Tries again until it is so, for some seconds.
#[expect(clippy::disallowed_methods, reason = "the server is in real time")]
pub fn wait_for(mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !so() {
        assert!(Instant::now() < end, "it did not happen in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn cancel_packet(client: &Client) -> Vec<u8> {
    let code = 80_877_102i32.to_be_bytes();
    packet(&[&code[..], &client.process_id.to_be_bytes(), &client.secret].concat())
}

fn code(messages: &[crate::client::Message]) -> Option<String> {
    messages.iter().find(|(kind, _)| *kind == b'E').and_then(|error| field(error, 'C'))
}

#[test]
fn a_cancel_with_the_key_stops_the_statement() {
    let (server, address) = start(|config| config.host = 5);
    let mut client = Client::new(address);
    assert_eq!(client.process_id >> 24, 5, "the host is in the process id");
    client.send(&query("sleep 60000"));
    wait_for(|| server.view().activity()[0].state == ActivityState::Active);
    let secret = client.secret.clone();
    let mut changed = secret.clone();
    *changed.last_mut().expect("a secret") ^= 1;
    for wrong in [changed, secret[..2].to_vec(), vec![0; secret.len()]] {
        client.secret = wrong;
        let mut stream = connect(address);
        stream.write_all(&cancel_packet(&client)).expect("written");
        assert_eq!(stream.read(&mut [0]).expect("closed when it is done"), 0);
    }
    client.stream.set_read_timeout(Some(Duration::from_millis(100))).expect("settable");
    assert!(client.stream.peek(&mut [0]).is_err(), "the statement still runs");
    client.stream.set_read_timeout(None).expect("settable");
    client.secret = secret;
    assert_eq!(server.metrics().cancel_requests.load(Relaxed), 3);
    connect(address).write_all(&cancel_packet(&client)).expect("written");
    let messages = client.until_ready();
    assert_eq!(code(&messages).as_deref(), Some("57014"));
    connect(address).write_all(&cancel_packet(&client)).expect("written");
    wait_for(|| server.metrics().cancel_requests.load(Relaxed) == 5);
    assert_eq!(client.run("sleep 2"), "CZI", "a cancel that comes too late hits nobody");
}

#[test]
fn a_secret_is_compared_in_full() {
    let (server, address) = start(|_| {});
    let mut client = Client::over(connect(address));
    client.send(&startup(2, &[("user", "trusty"), ("database", "open")]));
    client.until_ready();
    assert_eq!(client.secret.len(), 32);
    client.send(&query("sleep 300"));
    wait_for(|| server.view().activity()[0].state == ActivityState::Active);
    let whole = std::mem::take(&mut client.secret);
    for wrong in [&whole[..4], &whole[..31], &[&whole[..], &[0]].concat()] {
        client.secret = wrong.to_vec();
        connect(address).write_all(&cancel_packet(&client)).expect("written");
    }
    wait_for(|| server.metrics().cancel_requests.load(Relaxed) == 3);
    assert_eq!(code(&client.until_ready()), None, "none of these is its secret");
    client.send(&query("sleep 60000"));
    wait_for(|| server.view().activity()[0].state == ActivityState::Active);
    client.secret = whole;
    connect(address).write_all(&cancel_packet(&client)).expect("written");
    assert_eq!(code(&client.until_ready()).as_deref(), Some("57014"));
}

#[test]
fn a_cancel_at_another_host_is_sent_on() {
    let (_server, address) = start(|config| config.host = 2);
    let (other, other_address) = start(|config| {
        config.route = Some(std::sync::Arc::new(move |host| (host == 2).then_some(address)));
    });
    let mut client = Client::new(address);
    client.send(&query("sleep 60000"));
    wait_for(|| {
        connect(other_address).write_all(&cancel_packet(&client)).expect("written");
        let mut byte = [0; 1];
        client.stream.set_read_timeout(Some(Duration::from_millis(100))).expect("settable");
        client.stream.peek(&mut byte).is_ok()
    });
    assert_eq!(code(&client.until_ready()).as_deref(), Some("57014"));
    assert!(other.metrics().cancel_requests.load(Relaxed) > 0);
}

#[test]
fn statements_have_a_time_out() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    client.run("set statement_timeout 50");
    assert_eq!(code(&client.ask(&query("sleep 60000"))).as_deref(), Some("57014"));
    let series = [parse("", "sleep 60000"), bind("", "", &[], 0), execute("", 0), sync()];
    let messages = client.ask(&series.concat());
    assert_eq!(kinds(&messages), "12EZ");
    let text = field(&messages[2], 'M').expect("a message");
    assert_eq!(text, "canceling statement due to statement timeout");
    for _ in 0..100 {
        assert_eq!(client.run("select 1"), "TDCZI");
    }
    client.run("set statement_timeout 200");
    client.send(&[parse("", "select 1"), query("select 1")].concat());
    assert_eq!(kinds(&client.until_ready()), "1TDCZ", "a series without its Sync leaves no clock behind");
    client.run("set statement_timeout 0");
    assert_eq!(client.run("sleep 100"), "CZI");
    client.run("set statement_timeout 5000");
    assert_eq!(client.run("sleep 600"), "CZI", "it ends well before its time");
}

#[test]
fn each_statement_of_a_text_has_its_own_time() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    assert_eq!(client.run("set statement_timeout 50; sleep 60000"), "CEZI");
    client.run("set statement_timeout 800");
    assert_eq!(client.run("sleep 500; sleep 500; sleep 500"), "CCCZI");
    assert_eq!(client.run("set statement_timeout 0; sleep 900"), "CCZI");
}

#[test]
fn each_statement_of_a_series_has_its_own_time() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    let one = |text: &str| [parse("", text), bind("", "", &[], 0), execute("", 0)].concat();
    let series = [one("set statement_timeout 50"), one("sleep 60000"), sync()];
    let messages = client.ask(&series.concat());
    assert_eq!((kinds(&messages).as_str(), code(&messages).as_deref()), ("12C12EZ", Some("57014")));
    client.run("set statement_timeout 800");
    assert_eq!(kinds(&client.ask(&[one("sleep 500").repeat(3), sync()].concat())), "12C12C12CZ");
    let series = [one("set statement_timeout 0"), one("sleep 900"), sync()];
    assert_eq!(kinds(&client.ask(&series.concat())), "12C12CZ");
    // The clock that a Parse started is stopped by what another portal sets, and by what it runs.
    client.run("set statement_timeout 300");
    let series = [parse("z", "set statement_timeout 0"), parse("", "sleep 400"), bind("", "z", &[], 0)];
    let after = [execute("", 0), one("sleep 400"), sync()];
    assert_eq!(kinds(&client.ask(&[series.concat(), after.concat()].concat())), "112C12CZ");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the server is in real time")]
fn a_time_that_ends_between_two_messages_is_heard_at_the_next() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    client.run("set statement_timeout 50");
    let pause = || std::thread::sleep(Duration::from_millis(150));
    let later = [
        (named(b'D', b'S', "s"), "1EZI"),
        (named(b'C', b'S', "s"), "1EZI"),
        (bind("", "s", &[], 0), "1EZI"),
        (vec![], "1EZI"),
    ];
    for (message, answers) in later {
        client.send(&parse("s", "select 1"));
        pause();
        client.send(&[message, sync()].concat());
        let messages = client.until_ready();
        assert_eq!((shown(&messages).as_str(), code(&messages).as_deref()), (answers, Some("57014")));
        // What was prepared stays so.
        assert_eq!(kinds(&client.ask(&[bind("", "s", &[], 0), execute("", 0), sync()].concat())), "2DCZ");
    }
    client.run("begin");
    client.send(&parse("s", "select 1"));
    pause();
    assert_eq!(shown(&client.ask(&sync())), "1EZE", "its block has failed");
    client.run("rollback");
    // A portal that is not at its end still has its time; one that is has not.
    client.send(&[parse("", "rows 5"), bind("", "", &[], 0), execute("", 2)].concat());
    pause();
    assert_eq!(shown(&client.ask(&[execute("", 2), sync()].concat())), "12DDsEZI");
    client.send(&[parse("", "rows 2"), bind("", "", &[], 0), execute("", 0)].concat());
    pause();
    client.send(&[named(b'C', b'P', ""), message(b'H', b"")].concat());
    pause();
    assert_eq!(shown(&client.ask(&sync())), "12DDC3ZI");
}

#[test]
fn idle_clients_have_time_outs() {
    let (_server, address) = start(|_| {});
    let mut client = Client::new(address);
    client.run("set idle_session_timeout 100");
    assert_eq!(code(&client.until_ready()).as_deref(), Some("57P05"));
    let mut client = Client::new(address);
    client.run("set idle_in_transaction_session_timeout 100");
    client.run("begin");
    let messages = client.until_ready();
    assert_eq!((kinds(&messages).as_str(), code(&messages).as_deref()), ("E", Some("25P03")));
    let mut client = Client::new(address);
    client.run("set idle_in_transaction_session_timeout 60");
    wait_for(|| client.run("select 1") == "TDCZI");
}

#[test]
fn a_silent_client_has_no_thread_and_comes_back() {
    let (server, address) = start(|config| config.linger = Duration::from_millis(5));
    let mut clients: Vec<_> = (0..50).map(|_| Client::new(address)).collect();
    wait_for(|| server.metrics().rests.load(Relaxed) >= 50);
    for _ in 0..3 {
        clients.iter_mut().for_each(|client| assert_eq!(client.run("select 1"), "TDCZI"));
    }
    let bytes = query("select 1");
    let client = &mut clients[0];
    for byte in &bytes {
        client.send(&[*byte]);
        let before = server.metrics().rests.load(Relaxed);
        wait_for(|| server.metrics().rests.load(Relaxed) > before);
    }
    assert_eq!(kinds(&client.until_ready()), "TDCZ", "also when it fell silent in the middle of a message");
}

#[test]
fn notifications_come_between_statements() {
    let (server, address) = start(|_| {});
    let (mut listener, mut speaker) = (Client::new(address), Client::new(address));
    listener.run("listen news");
    speaker.run("notify news first");
    let (kind, body) = listener.next().expect("a notification");
    let expected = [&speaker.process_id.to_be_bytes()[..], b"news\0first\0"].concat();
    assert_eq!((kind, body), (b'A', expected), "to a client that waits");
    let rests = server.metrics().rests.load(Relaxed);
    wait_for(|| server.metrics().rests.load(Relaxed) >= rests);
    assert_eq!(listener.run("begin"), "CZT");
    speaker.run("notify news second");
    assert_eq!(listener.run("select 1"), "TDCZT", "not inside of a block");
    assert_eq!(listener.run("commit"), "CAZI");
    assert_eq!(listener.run("notify news own"), "CAZI");
}

#[test]
fn others_see_what_a_connection_does() {
    let (server, address) = start(|_| {});
    let mut client = Client::new(address);
    client.run("set application_name watched");
    client.run("begin");
    let view = server.view();
    let seen = view.activity().remove(0);
    assert_eq!((seen.user.as_str(), seen.database.as_str()), ("trusty", "open"));
    assert_eq!((seen.query.as_str(), seen.application_name.as_str()), ("begin", "watched"));
    assert_eq!(seen.state, ActivityState::IdleInTransaction);
    assert!(seen.backend_start_us <= seen.query_start_us && seen.query_start_us <= seen.state_change_us);
    client.run("error 42601 x");
    assert_eq!(view.activity()[0].state, ActivityState::IdleInTransactionAborted);
    client.run("rollback");
    let series = [parse("s", "sleep 60000"), bind("", "s", &[], 0), execute("", 0), sync()];
    client.send(&series.concat());
    wait_for(|| view.activity()[0].query == "sleep 60000");
    assert!(view.role_of(client.process_id, Some(InterruptReason::Cancel)).is_some());
    assert!(view.role_of(client.process_id + 1, Some(InterruptReason::Cancel)).is_none());
    assert_eq!(code(&client.until_ready()).as_deref(), Some("57014"));
    assert!(client.run("activity").starts_with("TDCZ"));
    assert!(view.role_of(client.process_id, Some(InterruptReason::Terminate)).is_some());
    assert_eq!(code(&client.until_ready()).as_deref(), Some("57P01"));
    drop(client);
    wait_for(|| view.activity().is_empty());
}

#[test]
fn the_end_of_the_server_is_told() {
    let (server, address) = start(|_| {});
    let (mut idle, mut busy, mut copying) =
        (Client::new(address), Client::new(address), Client::new(address));
    let mut resting = Client::new(address);
    wait_for(|| server.metrics().rests.load(Relaxed) >= 4);
    idle.run("select 1");
    busy.send(&query("sleep 60000"));
    copying.send(&query("copy in"));
    assert_eq!(copying.next().map(|(kind, _)| kind), Some(b'G'));
    wait_for(|| server.view().activity().iter().any(|seen| seen.query.starts_with("sleep")));
    assert!(server.stop(Duration::from_secs(10)), "all end by themselves");
    for client in [&mut idle, &mut busy, &mut copying, &mut resting] {
        let messages = client.until_ready();
        assert_eq!((kinds(&messages).as_str(), code(&messages).as_deref()), ("E", Some("57P01")));
    }
    assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens");
}

#[test]
fn a_client_that_does_not_listen_is_cut_off() {
    let (server, address) = start(|_| {});
    let mut client = Client::new(address);
    client.send(&query("rows 100000000"));
    let sent = || server.view().activity().iter().any(|seen| seen.query.starts_with("rows"));
    wait_for(sent);
    server.view().role_of(client.process_id, Some(InterruptReason::Terminate));
    wait_for(|| server.view().activity().is_empty());
}

#[test]
fn a_client_that_goes_leaves_nothing() {
    let (server, address) = start(|_| {});
    let mut polite = Client::new(address);
    polite.send(&message(b'X', b""));
    assert_eq!(kinds(&polite.until_ready()), "");
    drop(Client::new(address));
    let mut rude = Client::new(address);
    rude.send(&query("rows 10000000"));
    drop(rude);
    wait_for(|| server.view().activity().is_empty());
    let metrics = server.metrics();
    assert_eq!(metrics.connections.load(Relaxed), 3);
    assert_eq!(metrics.connections_closed.load(Relaxed), 3);
    assert!(metrics.render().contains("liger_sql_connections_total 3\n"));
}

#[test]
fn a_statement_ends_when_its_client_has_gone() {
    let (server, address) = start(|_| {});
    let mut client = Client::new(address);
    let mut other = Client::new(address);
    client.send(&query("begin; sleep 60000"));
    other.send(&query("sleep 500"));
    wait_for(|| server.view().activity().iter().all(|one| one.state == ActivityState::Active));
    drop(client);
    wait_for(|| server.view().activity().len() == 1);
    assert_eq!(kinds(&other.until_ready()), "CZ", "whose client is there goes on");
}
