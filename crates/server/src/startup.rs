//! From the first byte of a client to the first ReadyForQuery.
//!
//! ```text
//!   [SSLRequest -> S, TLS | N]  [GSSENCRequest -> N]  StartupMessage | CancelRequest
//!   -> rule -> authentication -> AuthenticationOk, ParameterStatus.., BackendKeyData, ReadyForQuery
//! ```
//!
//! Invariants:
//! 1. Until it is encrypted nothing but requests for encryption is believed: bytes that came behind such a
//!    request in clear end the connection.
//! 2. A client learns nothing of a role before it has proved to be it, not even whether it exists.
//! 3. The whole log-in ends after the login time-out, however slowly it goes.

use std::fmt::Display;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use liger_sql::error::{Severity, SqlError, SqlState};
use liger_sql::session::{InterruptReason, LoginRole, SessionStart, host_of};
use rustls::ServerConnection;

use crate::auth::hba::Method;
use crate::auth::scram::{Binding, Exchange, ScramError, Verifier};
use crate::clock;
use crate::connection::Connection;
use crate::log::Level;
use crate::metrics::add;
use crate::peer::SECRET_BYTES;
use crate::wire::backend;
use crate::wire::frontend::{Fields, FirstPacket};
use crate::wire::stream::{Arrived, StreamError};

/// The newest minor version of protocol 3 that is spoken here.
const MINOR_VERSION: u16 = 2;
const ALPN: &[u8] = b"postgresql";
/// Waiting for another host to take a cancel request.
const FORWARD_TIMEOUT: Duration = Duration::from_secs(5);

const AUTH_OK: i32 = 0;
const AUTH_PASSWORD: i32 = 3;
const AUTH_SASL: i32 = 10;
const AUTH_SASL_CONTINUE: i32 = 11;
const AUTH_SASL_FINAL: i32 = 12;

/// What a start-up message asks for.
struct Wanted {
    minor: u16,
    unknown_options: Vec<String>,
    user: String,
    database: String,
    settings: Vec<(String, String)>,
}

/// Why a log-in ends without a session.
enum Refusal {
    /// The client is told.
    Told(SqlError),
    /// There is nobody to tell, or nothing.
    Silent,
    Stream(StreamError),
}

impl From<StreamError> for Refusal {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

fn refuse<T>(state: SqlState, message: impl Into<String>) -> Result<T, Refusal> {
    Err(fatal(SqlError::new(state, message)))
}

fn fatal(mut error: SqlError) -> Refusal {
    error.severity = Severity::Fatal;
    Refusal::Told(error)
}

impl Connection {
    /// Makes a session of a new connection; answers whether there is one.
    pub(crate) fn login(&mut self) -> Result<bool, StreamError> {
        self.stream.socket().set_linger(self.shared.config.linger)?;
        let after = self.shared.config.login_timeout;
        let timer = self.shared.parking.raise_after(&self.peer, after, InterruptReason::Terminate);
        let result = self.try_login();
        self.shared.parking.unset(timer);
        match result {
            Ok(()) => self.ready(),
            Err(Refusal::Silent) => Ok(false),
            Err(Refusal::Stream(error)) => Err(error),
            Err(Refusal::Told(mut error)) => {
                add(&self.shared.metrics.logins_failed, 1);
                error.severity = Severity::Fatal;
                self.show_claim();
                let told: [(_, &dyn Display); 2] = [("sqlstate", &error.state), ("message", &error.message)];
                self.log(Level::Warning, "login_refused", &told);
                self.report(&error);
                Ok(false)
            }
        }
    }

    /// Lets others see who the client is, or says that it is where it is turned away.
    fn show_claim(&mut self) {
        let (user, database) = std::mem::take(&mut self.claimed);
        let mut status = self.peer.status();
        if status.user.is_empty() {
            (status.user, status.database) = (user, database);
        }
        status.encrypted = self.stream.is_encrypted();
    }

    fn try_login(&mut self) -> Result<(), Refusal> {
        let Some(wanted) = self.first_packets()? else { return Err(Refusal::Silent) };
        self.claimed = (wanted.user.clone(), wanted.database.clone());
        if wanted.minor > MINOR_VERSION || !wanted.unknown_options.is_empty() {
            let unknown: Vec<_> = wanted.unknown_options.iter().map(String::as_str).collect();
            let minor = wanted.minor.min(MINOR_VERSION);
            backend::negotiate_protocol_version(&mut self.stream.output, minor, &unknown);
        }
        if self.shared.draining.load(Ordering::SeqCst) {
            return refuse(
                SqlState::CANNOT_CONNECT_NOW,
                "the host is about to leave: ask another one of the pod",
            );
        }
        let connections_max = self.shared.config.connections_max;
        if self.shared.peers.count() > connections_max {
            add(&self.shared.metrics.connections_refused, 1);
            return refuse(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already");
        }
        let role = self.authenticate(&wanted)?;
        self.show_claim();
        self.check_limits(&wanted, &role)?;
        backend::authentication(&mut self.stream.output, AUTH_OK, &[]);
        self.open(wanted)
    }

    fn open(&mut self, wanted: Wanted) -> Result<(), Refusal> {
        let secret_bytes = if wanted.minor >= 2 { SECRET_BYTES } else { 4 };
        let start = SessionStart {
            user: wanted.user,
            database: wanted.database,
            parameters: wanted.settings,
            process_id: self.peer.process_id,
            address: self.peer.address,
            interrupt: self.peer.interrupt.clone(),
            encoding: self.peer.encoding.clone(),
            client: self.peer.clone(),
            server: self.shared.clone(),
        };
        let mut session = self.shared.database.open(start).map_err(Refusal::Told)?;
        self.tell_parameters(session.changed_parameters());
        let output = &mut self.stream.output;
        let secret = self.peer.tell_secret(secret_bytes);
        backend::backend_key_data(output, self.peer.process_id, secret);
        self.session = Some(session);
        Ok(())
    }

    /// Everything up to the start-up message; `None` if the client wanted something else, and has got it.
    fn first_packets(&mut self) -> Result<Option<Wanted>, Refusal> {
        let mut direct = false;
        loop {
            let range = match self.stream.first_packet()? {
                Arrived::Quiet if self.peer.interrupt.raised().is_none() => continue,
                Arrived::Quiet | Arrived::Closed => return Ok(None),
                Arrived::Message(0x16, _) => {
                    direct = true;
                    self.start_tls()?;
                    continue;
                }
                Arrived::Message(_, range) => range,
            };
            if direct && self.stream.application_protocol() != Some(ALPN) {
                let message =
                    "received direct SSL connection request without ALPN protocol negotiation extension";
                return refuse(SqlState::PROTOCOL_VIOLATION, message);
            }
            let packet = readable(self.stream.bytes(range));
            let packet = FirstPacket::read(&packet)
                .map_err(|error| protocol_violation(format!("invalid startup packet: {error}")))?;
            match packet {
                FirstPacket::Tls if self.shared.tls.is_some() && !self.stream.is_encrypted() => {
                    if self.stream.has_unread() {
                        let message = "received unencrypted data after SSL request";
                        return refuse(SqlState::PROTOCOL_VIOLATION, message);
                    }
                    self.stream.output.push(b'S');
                    self.stream.send()?;
                    self.start_tls()?;
                }
                FirstPacket::Tls | FirstPacket::Gss => {
                    self.stream.output.push(b'N');
                    self.stream.send()?;
                }
                FirstPacket::Cancel { process_id, secret } => {
                    self.cancel(process_id, secret);
                    return Ok(None);
                }
                FirstPacket::Startup { version, parameters } => {
                    return wanted(version, &parameters).map(Some);
                }
            }
        }
    }

    fn start_tls(&mut self) -> Result<(), Refusal> {
        let Some(tls) = &self.shared.tls else { return Err(Refusal::Silent) };
        let tls = ServerConnection::new(tls.config.clone()).map_err(StreamError::from)?;
        Ok(self.stream.start_tls(Box::new(tls))?)
    }

    /// Stops another client's statement. The client that asks is never told whether there was one.
    fn cancel(&self, process_id: i32, secret: &[u8]) {
        add(&self.shared.metrics.cancel_requests, 1);
        let host = host_of(process_id);
        if host == self.shared.config.host {
            let peer = self.shared.peers.find(process_id).filter(|peer| peer.knows(secret));
            if let Some(peer) = peer {
                peer.raise(InterruptReason::Cancel);
            }
            return;
        }
        let address = self.shared.config.route.as_ref().and_then(|route| route(host));
        let stream = address.and_then(|address| TcpStream::connect_timeout(&address, FORWARD_TIMEOUT).ok());
        if let Some(mut stream) = stream {
            let length = 12 + secret.len() as u32;
            let code = 80_877_102u32;
            let mut packet = [length.to_be_bytes(), code.to_be_bytes(), process_id.to_be_bytes()].concat();
            packet.extend_from_slice(secret);
            // The other host closes when it has done it: then so do we.
            let _ = stream.set_read_timeout(Some(FORWARD_TIMEOUT));
            let _ = stream.write_all(&packet).and_then(|()| stream.read(&mut [0]));
        }
    }

    /// Lets the client prove that it is the role.
    fn authenticate(&mut self, wanted: &Wanted) -> Result<LoginRole, Refusal> {
        let (user, database) = (&wanted.user, &wanted.database);
        let encrypted = self.stream.is_encrypted();
        let address = self.peer.address.map(|(address, _)| address);
        let method = self.shared.config.rules.method(address, encrypted, database, user);
        let place = || {
            let from = address.map_or("[local]".to_string(), |address| address.to_string());
            let how = if encrypted { "SSL encryption" } else { "no encryption" };
            format!("for host \"{from}\", user \"{user}\", database \"{database}\", {how}")
        };
        let method = match method {
            Some(Method::Reject) => {
                let message = format!("pg_hba.conf rejects connection {}", place());
                return refuse(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message);
            }
            None => {
                let message = format!("no pg_hba.conf entry {}", place());
                return refuse(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message);
            }
            Some(method) => method,
        };
        let role = self.shared.database.login_role(user).map_err(Refusal::Told)?;
        let proved = match method {
            Method::Trust => true,
            Method::Password => self.ask_password(role.as_ref())?,
            Method::Scram => self.ask_scram(user, role.as_ref())?,
            Method::Reject => unreachable!("answered above"),
        };
        if !proved {
            let message = format!("password authentication failed for user \"{user}\"");
            return refuse(SqlState::INVALID_PASSWORD, message);
        }
        match role {
            Some(role) if role.can_login => Ok(role),
            Some(_) => {
                let message = format!("role \"{user}\" is not permitted to log in");
                refuse(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message)
            }
            None => {
                let message = format!("role \"{user}\" does not exist");
                refuse(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message)
            }
        }
    }

    fn ask_password(&mut self, role: Option<&LoginRole>) -> Result<bool, Refusal> {
        backend::authentication(&mut self.stream.output, AUTH_PASSWORD, &[]);
        let answer = self.password_message()?;
        let password = Fields(&answer).text().map_err(|error| protocol_violation(error.to_string()))?;
        Ok(verifier_of(role).is_some_and(|verifier| verifier.fits(password)))
    }

    fn ask_scram(&mut self, user: &str, role: Option<&LoginRole>) -> Result<bool, Refusal> {
        let endpoint = self.shared.tls.as_ref().filter(|_| self.stream.is_encrypted());
        let endpoint = endpoint.and_then(|tls| tls.endpoint.clone());
        let verifier = verifier_of(role);
        let known = verifier.is_some();
        let verifier = verifier.unwrap_or_else(|| Verifier::mock(user, &self.shared.mock_secret));
        let mechanisms: &[u8] = match endpoint {
            Some(_) => b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0",
            None => b"SCRAM-SHA-256\0\0",
        };
        backend::authentication(&mut self.stream.output, AUTH_SASL, mechanisms);
        let answer = self.password_message()?;
        let mut fields = Fields(&answer);
        let malformed = |error: crate::wire::frontend::MessageError| protocol_violation(error.to_string());
        let mechanism = fields.text().map_err(malformed)?;
        let length = fields.i32().map_err(malformed)?;
        let first = fields.take(usize::try_from(length).unwrap_or(0)).map_err(malformed)?;
        let binding = match (mechanism, &endpoint) {
            ("SCRAM-SHA-256", _) => Binding::Without { offered: endpoint.is_some() },
            ("SCRAM-SHA-256-PLUS", Some(hash)) => Binding::Certificate(hash),
            _ => return Err(protocol_violation("client selected an invalid SASL authentication mechanism")),
        };
        let scram = |error: ScramError| protocol_violation(error.to_string());
        let exchange = Exchange::begin(verifier, binding, first).map_err(scram)?;
        let server_first = exchange.server_first().as_bytes();
        backend::authentication(&mut self.stream.output, AUTH_SASL_CONTINUE, server_first);
        let answer = self.password_message()?;
        match exchange.finish(&answer).map_err(scram)?.filter(|_| known) {
            Some(last) => {
                backend::authentication(&mut self.stream.output, AUTH_SASL_FINAL, last.as_bytes());
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Sends the request and waits for the answer.
    fn password_message(&mut self) -> Result<Vec<u8>, Refusal> {
        self.stream.send()?;
        loop {
            match self.stream.message(0)? {
                Arrived::Message(b'p', body) => return Ok(self.stream.bytes(body).to_vec()),
                Arrived::Message(kind, _) => {
                    return Err(protocol_violation(format!(
                        "expected SASL response, got message type {kind}"
                    )));
                }
                Arrived::Quiet if self.peer.interrupt.raised().is_none() => {}
                Arrived::Quiet | Arrived::Closed => return Err(Refusal::Silent),
            }
        }
    }

    fn check_limits(&self, wanted: &Wanted, role: &LoginRole) -> Result<(), Refusal> {
        let config = &self.shared.config;
        let reserved_from = config.connections_max.saturating_sub(config.connections_reserved);
        let limit = usize::try_from(role.connection_limit).ok();
        let message = if role.superuser {
            return Ok(());
        } else if self.shared.peers.count() > reserved_from {
            "remaining connection slots are reserved for superuser connections".to_string()
        } else if limit.is_some_and(|limit| self.shared.peers.count_of(&wanted.user) > limit) {
            format!("too many connections for role \"{}\"", wanted.user)
        } else {
            return Ok(());
        };
        add(&self.shared.metrics.connections_refused, 1);
        refuse(SqlState::TOO_MANY_CONNECTIONS, message)
    }
}

fn protocol_violation(message: impl Into<String>) -> Refusal {
    Refusal::Told(SqlError::notice(Severity::Fatal, SqlState::PROTOCOL_VIOLATION, message))
}

/// The role's verifier if its password still counts.
fn verifier_of(role: Option<&LoginRole>) -> Option<Verifier> {
    let role = role?;
    let valid = role.valid_until_us.is_none_or(|until_us| clock::now_us() < until_us);
    role.verifier.as_deref().filter(|_| valid).and_then(Verifier::parse)
}

/// A packet as it came, but for bytes in the texts of a start-up message that are not UTF-8: nobody knows yet
/// in which encoding they are.
fn readable(packet: &[u8]) -> Vec<u8> {
    match packet {
        [0, 3, _, _, texts @ ..] => {
            let mut made = packet[..4].to_vec();
            for chunk in texts.utf8_chunks() {
                made.extend_from_slice(chunk.valid().as_bytes());
                made.resize(made.len() + chunk.invalid().len(), b'?');
            }
            made
        }
        _ => packet.to_vec(),
    }
}

/// What the parameters of a start-up message ask for.
fn wanted(version: (u16, u16), parameters: &[(&str, &str)]) -> Result<Wanted, Refusal> {
    let (major, minor) = version;
    if major != 3 {
        let message = format!(
            "unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.{MINOR_VERSION}"
        );
        return Err(fatal(SqlError::refused_by_postgresql(message)));
    }
    let (mut user, mut database) = (String::new(), String::new());
    let (mut options, mut settings) = (Vec::new(), Vec::new());
    let mut unknown_options = Vec::new();
    for &(name, value) in parameters {
        match name {
            "user" => user = value.to_string(),
            "database" => database = value.to_string(),
            "options" => options = read_options(value)?,
            "replication" if matches!(value, "false" | "off" | "no" | "0") => {}
            "replication" => {
                let hint = "Hosts of a pod see the same rows; `liger backup` copies them.";
                return Err(fatal(SqlError::unsupported("a replication connection", hint)));
            }
            name if name.starts_with("_pq_.") => unknown_options.push(name.to_string()),
            name => settings.push((name.to_string(), value.to_string())),
        }
    }
    if user.is_empty() {
        let message = "no PostgreSQL user name specified in startup packet";
        return refuse(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message);
    }
    if database.is_empty() {
        database.clone_from(&user);
    }
    options.append(&mut settings);
    Ok(Wanted { minor, unknown_options, user, database, settings: options })
}

/// The settings in `options`: `-c name=value`, `--name=value`; a backslash takes the meaning from what
/// follows.
fn read_options(text: &str) -> Result<Vec<(String, String)>, Refusal> {
    let mut words: Vec<String> = Vec::new();
    let mut in_word = false;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c.is_ascii_whitespace() {
            in_word = false;
            continue;
        }
        if !std::mem::replace(&mut in_word, true) {
            words.push(String::new());
        }
        let c = if c == '\\' { characters.next().unwrap_or(c) } else { c };
        words.last_mut().expect("just begun").push(c);
    }
    let mut settings = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let setting = match (word.strip_prefix("--"), word.strip_prefix("-c")) {
            (Some(setting), _) => setting.to_string(),
            (None, Some("")) => words.next().unwrap_or_default(),
            (None, Some(setting)) => setting.to_string(),
            (None, None) => String::new(),
        };
        let Some((name, value)) = setting.split_once('=') else {
            let message = format!("invalid command-line argument for server process: {word}");
            return refuse(SqlState::SYNTAX_ERROR, message);
        };
        settings.push((name.replace('-', "_"), value.to_string()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_settings() {
        let read = |text| read_options(text).unwrap_or_else(|_| panic!("{text}"));
        let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
        assert_eq!(
            read("-c geqo=off --statement-timeout=5min"),
            [pair("geqo", "off"), pair("statement_timeout", "5min")]
        );
        assert_eq!(read(r" -csearch_path=a\ b "), [pair("search_path", "a b")]);
        assert!(read_options("-c").is_err() && read_options("geqo=off").is_err());
    }

    #[test]
    fn a_database_is_named_like_the_user_if_not_otherwise() {
        let Ok(wanted) = wanted((3, 0), &[("user", "u"), ("extra", "1"), ("_pq_.x", "y")]) else {
            panic!("refused");
        };
        assert_eq!((wanted.database.as_str(), wanted.unknown_options.len()), ("u", 1));
        assert_eq!(wanted.settings, [("extra".to_string(), "1".to_string())]);
    }

    #[test]
    fn what_is_refused() {
        assert!(matches!(wanted((2, 0), &[("user", "u")]), Err(Refusal::Told(_))));
        assert!(matches!(wanted((3, 0), &[]), Err(Refusal::Told(_))));
        assert!(matches!(wanted((3, 0), &[("user", "u"), ("replication", "true")]), Err(Refusal::Told(_))));
    }
}
