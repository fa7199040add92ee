//! Coming in, and being kept out.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use liger_server::auth::tls::Certificate;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use crate::client::{Client, connect, field, kinds, message, packet, startup};
use crate::start;

const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
const GSS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 48];

fn refused(address: SocketAddr, user: &str, database: &str) -> (String, String) {
    let error = Client::login(address, user, database).err().expect("refused");
    (field(&error, 'C').expect("a code"), field(&error, 'M').expect("a message"))
}

#[test]
fn a_session_begins_with_its_settings_and_its_key() {
    let (_server, address) = start(|_| {});
    let mut client = Client::over(connect(address));
    let wanted = [("user", "trusty"), ("database", "open"), ("application_name", "me"), ("unknown", "x")];
    let messages = client.ask(&startup(0, &wanted));
    assert_eq!(kinds(&messages), "RSSSSSSSSKZ");
    assert_eq!(messages[0].1, [0; 4]);
    assert!(messages.contains(&(b'S', b"application_name\0me\0".to_vec())));
    assert_eq!(client.secret.len(), 4);
    assert_eq!(client.run("select 1"), "TDCZI");
}

#[test]
fn newer_clients_are_met_at_what_both_speak() {
    let (_server, address) = start(|_| {});
    for (minor, options, answer, secret) in [
        (2, &[][..], "RSSSSSSSSKZ", 32),
        (3, &[], "vRSSSSSSSSKZ", 32),
        (9999, &[("_pq_.a", "1")], "vRSSSSSSSSKZ", 32),
        (0, &[("_pq_.b", "1")], "vRSSSSSSSSKZ", 4),
    ] {
        let mut client = Client::over(connect(address));
        let wanted = [&[("user", "trusty"), ("database", "open")], options].concat();
        let messages = client.ask(&startup(minor, &wanted));
        assert_eq!((kinds(&messages).as_str(), client.secret.len()), (answer, secret), "3.{minor}");
        if minor == 9999 {
            assert_eq!(messages[0].1, b"\0\x03\0\x02\0\0\0\x01_pq_.a\0");
        }
    }
}

#[test]
fn the_rules_and_the_catalog_keep_clients_out() {
    let (server, address) = start(|_| {});
    for (user, database, code, part) in [
        ("trusty", "closed", "28000", "pg_hba.conf rejects connection"),
        ("trusty", "other", "28000", "no pg_hba.conf entry for host \"127.0.0.1\", user \"trusty\""),
        ("nobody", "open", "28000", "role \"nobody\" does not exist"),
        ("nologin", "open", "28000", "role \"nologin\" is not permitted to log in"),
        ("trusty", "nowhere", "3D000", "database \"nowhere\" does not exist"),
    ] {
        let (state, message) = refused(address, user, database);
        assert!(state == code && message.contains(part), "{user} {database}: {state} {message}");
    }
    assert_eq!(server.metrics().logins_failed.load(std::sync::atomic::Ordering::Relaxed), 5);
}

#[test]
fn a_password_in_clear_is_checked() {
    let (_server, address) = start(|_| {});
    for (user, password, right) in [
        ("trusty", "secret\0", false),
        ("root", "\0", false),
        ("nobody", "secret\0", false),
        ("clear", "x\0", false),
    ] {
        let mut client = Client::over(connect(address));
        client.send(&startup(0, &[("user", user), ("database", "clear")]));
        assert_eq!(client.next(), Some((b'R', vec![0, 0, 0, 3])));
        let messages = client.ask(&message(b'p', password.as_bytes()));
        assert_eq!(kinds(&messages).ends_with('Z'), right);
        assert_eq!(field(&messages[0], 'C').as_deref(), Some("28P01"));
    }
}

/// Roles that do not exist are asked for a password like those that do, and the same one each time.
#[test]
fn a_stranger_learns_nothing() {
    let (_server, address) = start(|_| {});
    let salt = |user: &str| {
        let mut client = Client::over(connect(address));
        client.send(&startup(0, &[("user", user), ("database", "x")]));
        assert_eq!(client.next(), Some((b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0".to_vec())));
        let first = b"n,,n=,r=abc";
        client.send(&message(b'p', &[b"SCRAM-SHA-256\0\0\0\0\x0b", &first[..]].concat()));
        let (kind, body) = client.next().expect("an answer");
        let body = String::from_utf8(body[4..].to_vec()).expect("text");
        assert!(kind == b'R' && body.starts_with("r=abc"), "{body}");
        body.split(',').nth(1).expect("a salt").to_string()
    };
    assert_eq!(salt("stranger"), salt("stranger"));
    assert_ne!(salt("stranger"), salt("alice"));
}

#[test]
fn a_malformed_proof_is_a_protocol_violation() {
    let (_server, address) = start(|_| {});
    for (first, last) in [
        (&b"MD5\0\0\0\0\0"[..], &b""[..]),
        (b"SCRAM-SHA-256-PLUS\0\0\0\0\x0bp=tls,,n=,r", b""),
        (b"SCRAM-SHA-256\0\0\0\0\x99n", b""),
        (b"SCRAM-SHA-256\0\xff\xff\xff\xff", b""),
        (b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abc", b"c=biws,r=abc,p=AA=="),
        (b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abc", b"nothing"),
    ] {
        let mut client = Client::over(connect(address));
        client.send(&startup(0, &[("user", "alice"), ("database", "x")]));
        client.next().expect("asked");
        client.send(&message(b'p', first));
        client.send(&message(b'p', last));
        let messages = client.until_ready();
        let error = messages.last().expect("an error");
        assert_eq!(field(error, 'C').as_deref(), Some("08P01"), "{messages:?}");
    }
}

#[test]
fn without_a_certificate_there_is_no_encryption() {
    let (_server, address) = start(|_| {});
    let mut stream = connect(address);
    for request in [TLS_REQUEST, GSS_REQUEST] {
        stream.write_all(&request).expect("written");
        let mut answer = [0];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(answer, *b"N");
    }
    let messages = Client::over(stream).ask(&startup(0, &[("user", "trusty"), ("database", "open")]));
    assert_eq!(kinds(&messages), "RSSSSSSSSKZ");
}

/// Believes every certificate.
#[derive(Debug)]
struct Credulous;

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

fn encrypt(
    stream: std::net::TcpStream,
    protocols: &[&[u8]],
) -> StreamOwned<ClientConnection, std::net::TcpStream> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Credulous))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let name = ServerName::try_from("localhost").expect("a name");
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).expect("a client"), stream)
}

#[test]
fn an_encrypted_session_works_and_rests() {
    let folder = std::env::temp_dir().join(format!("liger-login-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (server, address) = start(|config| config.certificate = Some(Certificate::Folder(folder.clone())));
    let mut stream = connect(address);
    stream.write_all(&TLS_REQUEST).expect("written");
    let mut answer = [0];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer, *b"S");
    let wanted = startup(0, &[("user", "trusty"), ("database", "open")]);
    let mut client = Client::over(encrypt(stream, &[]));
    assert_eq!(kinds(&client.ask(&wanted)), "RSSSSSSSSKZ");
    assert_eq!(client.run("rows 20000").len(), 20_004);
    crate::endings::wait_for(|| server.metrics().rests.load(std::sync::atomic::Ordering::Relaxed) > 0);
    assert_eq!(client.run("select 1"), "TDCZI");
    assert!(server.view().activity()[0].encrypted);

    let mut direct = Client::over(encrypt(connect(address), &[b"postgresql"]));
    assert_eq!(kinds(&direct.ask(&wanted)), "RSSSSSSSSKZ");
    let mut without_name = Client::over(encrypt(connect(address), &[]));
    let messages = without_name.ask(&wanted);
    assert_eq!(field(&messages[0], 'C').as_deref(), Some("08P01"), "TLS at once needs ALPN");
    let other_name = encrypt(connect(address), &[b"h2"]);
    assert_eq!(kinds(&Client::over(other_name).ask(&wanted)), "");

    let mut injected = connect(address);
    injected.write_all(&[&TLS_REQUEST[..], &wanted].concat()).expect("written");
    let messages = Client::over(injected).until_ready();
    assert_eq!(kinds(&messages), "E", "what came in clear behind the request is not believed");
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn old_protocols_and_replication_are_refused() {
    let (_server, address) = start(|_| {});
    let ask = |bytes: &[u8]| {
        let messages = Client::over(connect(address)).ask(bytes);
        messages.first().and_then(|error| field(error, 'C'))
    };
    assert_eq!(ask(&packet(&[0, 2, 0, 0, 0])).as_deref(), Some("0A000"));
    assert_eq!(
        ask(&startup(0, &[("user", "trusty"), ("replication", "database")])).as_deref(),
        Some("0A000")
    );
    assert_eq!(ask(&startup(0, &[("database", "open")])).as_deref(), Some("28000"));
    assert_eq!(ask(&packet(&[0, 3, 0, 0, b'u'])).as_deref(), Some("08P01"));
    assert_eq!(ask(&[0, 0, 0, 7, 0, 0, 0]).as_deref(), Some("08P01"), "too short a length");
    assert_eq!(ask(b"GET / HTTP/1.1\r\n\r\n").as_deref(), Some("08P01"));
}

#[test]
fn connections_have_limits() {
    let (_server, address) = start(|config| (config.connections_max, config.connections_reserved) = (4, 2));
    let _first = Client::login(address, "one", "open").unwrap_or_else(|error| panic!("{error:?}"));
    let (state, message) = refused(address, "one", "open");
    assert_eq!((state.as_str(), message.as_str()), ("53300", "too many connections for role \"one\""));
    let _second = Client::new(address);
    assert_eq!(refused(address, "trusty", "open").0, "53300", "the rest is for superusers");
    let _third = Client::login(address, "root", "open").unwrap_or_else(|error| panic!("{error:?}"));
    let fourth = Client::login(address, "root", "open").unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(refused(address, "root", "open").1, "sorry, too many clients already");
    drop(fourth);
    crate::endings::wait_for(|| Client::login(address, "root", "open").is_ok());
}

#[test]
fn a_log_in_must_not_take_for_ever() {
    let (_server, address) = start(|config| config.login_timeout = std::time::Duration::from_millis(200));
    let mut silent = connect(address);
    assert_eq!(silent.read(&mut [0; 1]).expect("closed"), 0);
    let mut client = Client::over(connect(address));
    client.send(&startup(0, &[("user", "alice"), ("database", "x")]));
    assert_eq!(kinds(&client.until_ready()), "R", "asked, and then it is too late");
}
