//! Clients whose encoding is not UTF-8, over sessions that run SQL in memory.

use std::net::SocketAddr;
use std::sync::Arc;

use liger_server::auth::hba::Rules;
use liger_server::{Config, Server};
use liger_sql::error::Result;
use liger_sql::exec::memory::Memory;
use liger_sql::exec::{LocalSession, Surroundings};
use liger_sql::session::{Database, LoginRole, Session, SessionStart};
use liger_sql::temporary::{TemporaryDirectory, TemporaryPlace};

use crate::client::{Client, Message, connect, execute, field, kinds, message, named, query, startup, sync};

/// A database in memory for each session.
struct InMemory;

struct Still;

impl Surroundings for Still {
    fn clock_us(&self) -> i64 {
        0
    }

    fn random_u64(&self) -> u64 {
        4
    }

    fn temporary_place(&self) -> Arc<dyn TemporaryPlace> {
        let path = std::env::temp_dir().join("liger-tests");
        Arc::new(TemporaryDirectory::open(&path, "of-servers.").expect("there is a directory for it"))
    }
}

impl Database for InMemory {
    fn login_role(&self, _: &str) -> Result<Option<LoginRole>> {
        let role =
            LoginRole { can_login: true, superuser: true, connection_limit: -1, ..LoginRole::default() };
        Ok(Some(role))
    }

    fn open(&self, start: SessionStart) -> Result<Box<dyn Session + Send>> {
        Ok(Box::new(LocalSession::new(Memory::default(), start, Box::new(Still))?))
    }
}

fn start() -> (Server, SocketAddr) {
    let config = Config {
        addresses: vec!["127.0.0.1:0".parse().expect("an address")],
        rules: Rules::parse("host all all all trust").expect("well formed"),
        ..Config::default()
    };
    let server = Server::start(config, Arc::new(InMemory)).expect("starts");
    let address = server.addresses()[0];
    (server, address)
}

/// A client that says its encoding in its start-up packet, and what it was told then.
fn client(address: SocketAddr, encoding: &str) -> (Client, Vec<Message>) {
    let mut client = Client::over(connect(address));
    let told = client.ask(&startup(0, &[("user", "postgres"), ("client_encoding", encoding)]));
    (client, told)
}

fn asks(client: &mut Client, sql: &[u8]) -> Vec<Message> {
    client.ask(&message(b'Q', &[sql, b"\0"].concat()))
}

/// The values of the rows.
fn rows(messages: &[Message]) -> Vec<Vec<u8>> {
    let rows = messages.iter().filter(|(kind, _)| *kind == b'D');
    rows.map(|(_, body)| body[6..].to_vec()).collect()
}

fn told(messages: &[Message], name: &str) -> Vec<String> {
    let statuses = messages.iter().filter(|(kind, _)| *kind == b'S');
    let pairs = statuses.map(|(_, body)| String::from_utf8_lossy(body).into_owned());
    let start = format!("{name}\0");
    pairs.filter_map(|pair| Some(pair.strip_prefix(&start)?.trim_end_matches('\0').to_string())).collect()
}

/// Code and message of the error.
fn error(messages: &[Message]) -> (String, String) {
    let error = messages.iter().find(|(kind, _)| *kind == b'E').expect("it is refused");
    (field(error, 'C').expect("a code"), field(error, 'M').expect("a message"))
}

#[test]
fn the_encoding_is_told_and_goes_with_its_transaction() {
    let (_server, address) = start();
    let (mut client, begun) = client(address, "iso-8859-1");
    assert_eq!(told(&begun, "client_encoding"), ["LATIN1"]);
    let now = |client: &mut Client, sql: &str| told(&asks(client, sql.as_bytes()), "client_encoding");
    assert_eq!(now(&mut client, "set names 'sjis'"), ["SJIS"]);
    assert_eq!(now(&mut client, "begin; set local client_encoding = 'win-1252'"), ["WIN1252"]);
    assert_eq!(now(&mut client, "savepoint a; set client_encoding to gbk"), ["GBK"]);
    assert_eq!(now(&mut client, "rollback to a"), ["WIN1252"]);
    assert_eq!(now(&mut client, "commit"), ["SJIS"]);
    assert_eq!(rows(&asks(&mut client, b"select pg_client_encoding()")), [b"SJIS"]);
    assert_eq!(now(&mut client, "reset client_encoding"), ["LATIN1"]);
    assert_eq!(now(&mut client, "set client_encoding = 'UNICODE'"), ["UNICODE"]);
    for (name, state) in [("x", "22023"), ("auto", "22023"), ("", "22023"), ("mule_internal", "0A000")] {
        let refused = error(&asks(&mut client, format!("set client_encoding = '{name}'").as_bytes()));
        let message = format!("invalid value for parameter \"client_encoding\": \"{name}\"");
        assert_eq!(refused, (state.to_string(), message));
    }
}

#[test]
fn a_wrong_encoding_ends_the_start() {
    let (_server, address) = start();
    let (_client, begun) = client(address, "x");
    assert_eq!(error(&begun).0, "22023");
}

#[test]
fn names_that_are_no_texts_are_cleaned() {
    let (_server, address) = start();
    let mut client = Client::over(connect(address));
    let mut packet = startup(0, &[("user", "postgres"), ("application_name", "a*")]);
    let at = packet.iter().position(|byte| *byte == b'*').expect("it is there");
    packet[at] = 0xe9;
    assert_eq!(told(&client.ask(&packet), "application_name"), ["a?"]);
}

#[test]
fn texts_come_and_go_in_it() {
    let (_server, address) = start();
    let (mut client, _) = client(address, "latin1");
    let answer = asks(&mut client, b"select '\xe9' as \"\xe8\", length('\xe9')");
    assert!(answer[0].1[2..].starts_with(b"\xe8\0"));
    assert!(rows(&answer)[0].starts_with(b"\xe9"));
    assert_eq!(error(&asks(&mut client, b"select * from \"\xe9\"")).0, "42P01");
    let refused = asks(&mut client, b"select * from \"\xe9\"");
    assert!(refused[0].1.windows(3).any(|part| part == b"\"\xe9\""), "the message has the name");
    asks(&mut client, b"create table t (a text)");
    let copied = [query("copy t from stdin"), message(b'd', b"\xe9\n"), message(b'c', b"")].concat();
    assert_eq!(kinds(&client.ask(&copied)), "GCZ");
    assert_eq!(rows(&asks(&mut client, b"select a::bytea from t")), [b"\\xc3a9"]);
    let copied = asks(&mut client, b"copy t to stdout");
    assert_eq!(copied[1], (b'd', b"\xe9\n".to_vec()));
    assert_eq!(error(&asks(&mut client, b"copy t to stdout (encoding 'x')")).0, "22023");
    let copied = asks(&mut client, b"copy t to stdout (encoding 'utf8')");
    assert_eq!(copied[1], (b'd', b"\xc3\xa9\n".to_vec()));
    let copied =
        [query("copy t from stdin (encoding 'sjis')"), message(b'd', b"\x83"), message(b'd', b"\\\n")];
    assert_eq!(kinds(&client.ask(&[copied.concat(), message(b'c', b"")].concat())), "GCZ");
    assert_eq!(rows(&asks(&mut client, "select count(*) from t where a = U&'\\30bd'".as_bytes())), [b"1"]);
}

/// A statement with a text and a binary parameter that are the same; the result is in one format.
fn series(value: &[u8], format: u8) -> Vec<u8> {
    let sized = [&(value.len() as i32).to_be_bytes()[..], value].concat();
    let parse = message(b'P', b"\xe9\0select $1 || $2, '\xe9'\0\0\x02\0\0\0\x19\0\0\0\x19");
    let head = b"\xe8\0\xe9\0\0\x02\0\0\0\x01\0\x02";
    let bind = message(b'B', &[&head[..], &sized, &sized, &[0, 1, 0, format]].concat());
    let rest =
        [message(b'D', b"P\xe8\0"), message(b'E', b"\xe8\0\0\0\0\0"), message(b'C', b"S\xe9\0"), sync()];
    [parse, bind, rest.concat()].concat()
}

#[test]
fn parameters_and_names_of_a_series_are_in_it() {
    let (_server, address) = start();
    let (mut client, _) = client(address, "latin1");
    for format in [0, 1] {
        let answer = client.ask(&series(b"\xe9", format));
        assert_eq!(kinds(&answer), "12TDC3Z");
        assert_eq!(rows(&answer), [b"\xe9\xe9\0\0\0\x01\xe9"]);
    }
    let missing = client.ask(&[named(b'D', b'S', "a"), execute("", 0), sync()].concat());
    assert_eq!(error(&missing).0, "26000");
    asks(&mut client, b"set names 'euc_jp'");
    let bad = client.ask(&[message(b'P', b"\0select '\xe9'\0\0\0"), sync()].concat());
    let message = "invalid byte sequence for encoding \"EUC_JP\": 0xe9 0x27";
    assert_eq!(error(&bad), ("22021".to_string(), message.to_string()));
    assert_eq!(kinds(&asks(&mut client, b"select 1")), "TDCZ");
}

#[test]
fn what_it_lacks_is_an_error_and_no_loop() {
    let (_server, address) = start();
    let (mut client, _) = client(address, "latin1");
    let lacking = "character with byte sequence 0xe4 0xb8 0xad in encoding \"UTF8\" has no equivalent in \
                   encoding \"LATIN1\"";
    let lacking = ("22P05".to_string(), lacking.to_string());
    for sql in ["select U&'\\4e2d'", "select 1 as U&\"\\4e2d\"", "select U&'\\4e2d'::int"] {
        assert_eq!(error(&asks(&mut client, sql.as_bytes())), lacking, "{sql}");
        assert_eq!(kinds(&asks(&mut client, b"select 1")), "TDCZ");
    }
    assert_eq!(error(&asks(&mut client, b"copy (select U&'\\4e2d') to stdout")), lacking);
    // Bytes of SQL_ASCII are UTF-8.
    asks(&mut client, b"set client_encoding = sql_ascii");
    assert_eq!(rows(&asks(&mut client, b"select '\xc3\xa9'")), [b"\xc3\xa9"]);
    let message = "invalid byte sequence for encoding \"UTF8\": 0xe9 0x27".to_string();
    assert_eq!(error(&asks(&mut client, b"select '\xe9'")), ("22021".to_string(), message));
}

#[test]
fn notifications_that_it_lacks_are_warned_of() {
    let (_server, address) = crate::start(|_| {});
    let mut client = Client::new(address);
    assert_eq!(client.run("set client_encoding latin1"), "CZI");
    assert_eq!(client.run("listen a"), "CZI");
    let answer = asks(&mut client, b"notify a \xe9");
    let notified = answer.iter().find(|(kind, _)| *kind == b'A').expect("it is told");
    assert!(notified.1.ends_with(b"a\0\xe9\0"));
    asks(&mut client, b"set client_encoding utf8");
    let mut other = Client::new(address);
    other.run("set client_encoding latin1");
    other.run("listen b");
    client.ask(&query("notify b \u{4e2d}"));
    let answer = other.until_told(b'N');
    assert_eq!(field(&answer, 'C').as_deref(), Some("22P05"));
    assert_eq!(other.run("select 1"), "TDCZI");
}
