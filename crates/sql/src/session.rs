//! The seam between SQL and whatever carries it to a client: what a session is asked, and what it answers.
//!
//! A server (the wire protocol, a test, an embedding program) opens a [`Session`] of a [`Database`] for
//! each client and calls it from one thread at a time. The calls block: a session that waits for a worker
//! slot, a lock or storage returns when it has its answer. What goes back to the client goes through a
//! [`Sink`], row by row.
//!
//! ```text
//!   server                                   session
//!   parse, bind, describe, execute, simple ->  plans, runs
//!   sync                                   ->  ends the implicit transaction
//!            <- Sink: columns, rows, tags, notices, bytes of COPY (pulled by the session: `copy_read`)
//!            <- Client: notifications, at any time and from any thread
//!   Interrupt: cancel, time-outs, termination ->  looked at by the session wherever it can stop
//! ```
//!
//! Invariants:
//! 1. A session that returns an error has already put its transaction into the state that the error asks
//!    for: the server reads `transaction_state` afterwards and repeats nothing.
//! 2. A session reads no clock for time-outs. It says which it wants (`timeouts`); the server watches the
//!    clock and raises the [`Interrupt`].
//! 3. COPY FROM STDIN pulls. A session in the middle of a statement asks its sink for bytes instead of
//!    being fed by calls: so COPY is an ordinary row source, also as one statement of several, and needs no
//!    suspended state.
//! 4. Names and texts are UTF-8, unchecked for anything else. The session says in which encoding they come
//!    and go ([`ClientEncoding`]); the server converts them. Texts in binary values and the bytes of a COPY
//!    are the session's to convert.
//!
//! It does not know the protocol: no message, no format of a message but text or binary of single values.

use std::sync::Arc;

pub use crate::interrupt::{Interrupt, InterruptReason, WaitEvent};
pub use crate::progress::{Count, StatementProgress, ToldProgress};

use crate::encoding::ClientEncoding;
use crate::error::SqlError;
use crate::types::context::EvalContext;
use crate::types::value::Value;
use crate::types::{Oid, Type};

/// How a value travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// As PostgreSQL's `<type>out` writes it.
    #[default]
    Text,
    /// As PostgreSQL's `<type>send` writes it.
    Binary,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDescription {
    /// As the client shall see it.
    pub name: String,
    /// Type and modifier.
    pub ty: Type,
    /// Bytes of a value of the type, -1 where they differ (`TypeInfo::len`).
    pub len: i16,
    /// Object id of the table that the column comes from unchanged; 0 if none.
    pub table: Oid,
    /// Number of the column in that table, from 1; 0 if none.
    pub attribute: i16,
}

/// What is known of a prepared statement.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// Types of the parameters, given or inferred.
    pub parameters: &'a [Oid],
    /// Columns of the result; `None` for a statement that returns no rows.
    pub columns: Option<&'a [ColumnDescription]>,
}

/// Parameters of a Bind as they arrived: formats and bytes, checked for shape and not for content.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parameters<'a> {
    /// Formats: none (all text), one (for all), or one for each.
    pub formats: Formats<'a>,
    /// Values, each an `i32` length (-1: NULL) and its bytes; the server has checked that they fill it
    /// exactly.
    pub body: &'a [u8],
    /// How many there are.
    pub count: usize,
}

impl<'a> Parameters<'a> {
    /// The parameters in order, `None` for NULL.
    pub fn iter(&self) -> impl Iterator<Item = (Format, Option<&'a [u8]>)> + use<'a> {
        let formats = self.formats;
        let mut rest = self.body;
        (0..self.count).map(move |at| {
            let (length, after) = rest.split_first_chunk::<4>().expect("the server has checked the shape");
            let length = i32::from_be_bytes(*length);
            let bytes = usize::try_from(length).ok();
            let (value, after) = after.split_at(bytes.unwrap_or(0));
            rest = after;
            (formats.of(at), bytes.map(|_| value))
        })
    }
}

/// Format codes as they arrived: big-endian `i16`s, each checked to be 0 or 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Formats<'a>(pub &'a [u8]);

impl Formats<'_> {
    /// How many codes were sent.
    pub fn len(&self) -> usize {
        self.0.len() / 2
    }

    /// Whether none was sent: everything is text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The format of item `at`: no code means text, a single one is for all.
    pub fn of(&self, at: usize) -> Format {
        let at = if self.0.len() == 2 { 0 } else { at };
        match self.0.get(2 * at + 1) {
            Some(1) => Format::Binary,
            _ => Format::Text,
        }
    }
}

/// How an Execute ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The portal is at its end; the sink has been given the tag (or `empty`).
    Complete,
    /// The row limit was reached; the portal can be executed again.
    Suspended,
}

/// Where a session is with its transaction, between messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionState {
    /// In none.
    Idle,
    /// In a transaction block.
    Active,
    /// In a transaction block that failed and waits for its end.
    Failed,
}

/// Time-outs in milliseconds, 0 for none: PostgreSQL's settings of the same names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Of a statement, from the message that starts it.
    pub statement_ms: u64,
    /// Of a client that says nothing inside a transaction block.
    pub idle_in_transaction_ms: u64,
    /// Of a client that says nothing outside of one.
    pub idle_session_ms: u64,
    /// Statements that take at least so long are told of, none at `Some(None)`; `None`: as the server says.
    pub log_after_ms: Option<Option<u64>>,
}

/// The shape of a COPY, told to the client before its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyShape {
    /// Whether the whole stream is PostgreSQL's binary COPY format; otherwise text or CSV.
    pub format: Format,
    /// How many columns.
    pub columns: u16,
}

/// What comes next from a client in COPY FROM STDIN.
#[derive(Debug, PartialEq, Eq)]
pub enum CopyInput<'a> {
    /// Some bytes; where they are cut means nothing.
    Data(&'a [u8]),
    /// The client has sent everything.
    Done,
    /// The client gives up, and says why: the statement is to fail with 57014.
    Fail(String),
}

/// Where the answers of a session go.
///
/// The errors of a sink mean that the client is gone or the session is being ended: the statement stops and
/// hands the error on.
pub trait Sink {
    /// The columns of the rows that follow, and the format codes that the client asked for them in. Called
    /// once before the first row of a statement or of an Execute, also where no row will follow.
    fn columns(&mut self, columns: &[ColumnDescription], formats: Formats<'_>) -> Result<(), SqlError>;

    /// One row, with as many values as there are columns. `context`: what output may look at (time zone,
    /// names of objects).
    fn row(&mut self, context: &EvalContext<'_>, values: &[Value]) -> Result<(), SqlError>;

    /// Sends what rows and bytes have gathered, if that is much: between two of them. `waits` is told each
    /// time that the client has taken nothing for a moment.
    fn send(&mut self, waits: &mut dyn FnMut()) -> Result<(), SqlError> {
        let _ = waits;
        Ok(())
    }

    /// A statement has ended; `tag` as PostgreSQL has it (`INSERT 0 1`).
    fn command_complete(&mut self, tag: &str) -> Result<(), SqlError>;

    /// The statement was empty.
    fn empty(&mut self) -> Result<(), SqlError>;

    /// A notice: a message whose severity is below ERROR.
    fn notice(&mut self, notice: &SqlError) -> Result<(), SqlError>;

    /// Asks the client for the bytes of a COPY FROM STDIN.
    fn copy_in(&mut self, shape: &CopyShape) -> Result<(), SqlError>;

    /// Waits for the next bytes; `waits` is told each time that the client has said nothing for a moment.
    /// After `Done` or `Fail` it is not called again for this COPY.
    fn copy_read(&mut self, waits: &mut dyn FnMut()) -> Result<CopyInput<'_>, SqlError>;

    /// Tells the client that the bytes of a COPY TO STDOUT follow.
    fn copy_out(&mut self, shape: &CopyShape) -> Result<(), SqlError>;

    /// Bytes of a COPY TO STDOUT: one whole row a call (clients expect that), or a header or trailer.
    fn copy_bytes(&mut self, bytes: &[u8]) -> Result<(), SqlError>;

    /// As [`Sink::copy_bytes`], of a buffer that is empty afterwards: a long row need not be copied.
    fn copy_row(&mut self, row: &mut Vec<u8>) -> Result<(), SqlError> {
        let told = self.copy_bytes(row);
        row.clear();
        told
    }

    /// The bytes of a COPY TO STDOUT have ended; `command_complete` follows.
    fn copy_out_done(&mut self) -> Result<(), SqlError>;

    /// Another statement of a text of several begins: its time-out (0: none) counts from now.
    fn next_statement(&mut self, statement_ms: u64);

    /// How much has been told, to be handed to [`Sink::unsay`].
    fn told(&self) -> u64;

    /// Takes back what was told since `told` was asked, as far as the client has not been sent it; whether
    /// that is all of it. A statement that met a conflict and is run again has told nothing then.
    fn unsay(&mut self, told: u64) -> bool;
}

/// A message of LISTEN/NOTIFY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Of the session that notified.
    pub process_id: i32,
    /// The channel listened to.
    pub channel: String,
    /// Its text, may be empty.
    pub payload: String,
}

/// The client of a session, reachable from any thread.
pub trait Client: Send + Sync {
    /// Hands over a notification. It reaches the client when the client is between statements and outside
    /// of a transaction block; never blocks.
    fn notify(&self, notification: Notification);

    /// Hands over what is to be told to whoever runs the server; never blocks.
    fn log(&self, _told: &SqlError) {}
}

/// What a session is opened with.
pub struct SessionStart {
    /// The role that has logged in.
    pub user: String,
    /// The database that was asked for.
    pub database: String,
    /// Further parameters of the start-up message, in their order: settings (`application_name`,
    /// `DateStyle`, ...) and those of `options` (`-c name=value`). Unknown ones are an error of `open` only
    /// where PostgreSQL has one.
    pub parameters: Vec<(String, String)>,
    /// What `pg_backend_pid()` shall say; unique in the pod.
    pub process_id: i32,
    /// Where the client is: (address, port), `None` for a local socket.
    pub address: Option<(std::net::IpAddr, u16)>,
    /// To be looked at wherever the session can stop.
    pub interrupt: Arc<Interrupt>,
    /// Where the session says in which encoding texts come and go.
    pub encoding: Arc<ClientEncoding>,
    /// Where notifications go.
    pub client: Arc<dyn Client>,
    /// The other sessions of this host.
    pub server: Arc<dyn ServerView>,
}

/// What a session is doing, as `pg_stat_activity` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityState {
    /// Logging in.
    Starting,
    /// Executing.
    Active,
    /// Waiting for the client, in no transaction.
    Idle,
    /// Waiting for the client inside a transaction block.
    IdleInTransaction,
    /// Waiting for the client inside a failed transaction block.
    IdleInTransactionAborted,
}

impl ActivityState {
    /// The text in `pg_stat_activity.state`; empty while it starts.
    pub fn text(self) -> &'static str {
        match self {
            Self::Starting => "",
            Self::Active => "active",
            Self::Idle => "idle",
            Self::IdleInTransaction => "idle in transaction",
            Self::IdleInTransactionAborted => "idle in transaction (aborted)",
        }
    }
}

/// A row of `pg_stat_activity`. Times are microseconds since 1970-01-01 UTC.
#[derive(Clone, Debug)]
pub struct Activity {
    /// Unique in the pod.
    pub process_id: i32,
    /// The role; empty while the client logs in.
    pub user: String,
    /// The database; empty while the client logs in.
    pub database: String,
    /// As the client last said it.
    pub application_name: String,
    /// `None` for a local socket.
    pub address: Option<(std::net::IpAddr, u16)>,
    /// Whether the connection is encrypted.
    pub encrypted: bool,
    /// When the client connected.
    pub backend_start_us: i64,
    /// When its current or last statement began.
    pub query_start_us: i64,
    /// When `state` last changed.
    pub state_change_us: i64,
    /// What it does.
    pub state: ActivityState,
    /// Where its statement is.
    pub place: WaitEvent,
    /// How far its statement is; `None`: it is none that tells.
    pub progress: Option<ToldProgress>,
    /// When its transaction began; 0: it is in none that is known of.
    pub transaction_start_us: i64,
    /// Its current or last statement, its first 1,024 bytes.
    pub query: String,
}

/// Bits of a process id that count the connections of a host.
pub const NUMBER_BITS: u32 = 24;

/// The host whose session has a process id.
pub fn host_of(process_id: i32) -> u8 {
    (process_id.cast_unsigned() >> NUMBER_BITS & 0x7f) as u8
}

/// What sessions may ask of the server that holds them.
pub trait ServerView: Send + Sync {
    /// All connections of this host.
    fn activity(&self) -> Vec<Activity>;

    /// When the server began to take connections, in microseconds since 1970-01-01 00:00 UTC.
    fn started_us(&self) -> i64;

    /// Connections that this host takes at most: `max_connections`.
    fn connections_max(&self) -> usize;

    /// The role that has a session of this host, empty while its client logs in; `None`: there is none. For a
    /// reason its statement is stopped (`pg_cancel_backend`), or the session (`pg_terminate_backend`).
    fn role_of(&self, process_id: i32, stop: Option<InterruptReason>) -> Option<String>;

    /// What is to be stored of a password (`CREATE ROLE .. PASSWORD`): a SCRAM-SHA-256 verifier in
    /// PostgreSQL's notation. A text that is one already stays as it is.
    fn password_verifier(&self, password: &str) -> String;
}

/// What the catalog knows of a role that wants to log in.
#[derive(Clone, Debug, Default)]
pub struct LoginRole {
    /// Its verifier, as [`ServerView::password_verifier`] made it; without one no password fits.
    pub verifier: Option<String>,
    /// Whether it may log in.
    pub can_login: bool,
    /// Whether it may use the connections that are kept back for administrators.
    pub superuser: bool,
    /// `VALID UNTIL` of the password, microseconds since 1970-01-01 UTC.
    pub valid_until_us: Option<i64>,
    /// `CONNECTION LIMIT`, -1 for none.
    pub connection_limit: i32,
}

/// A database that sessions can be opened on: one for each host.
pub trait Database: Send + Sync {
    /// The role of that name, `None` if there is none.
    fn login_role(&self, user: &str) -> Result<Option<LoginRole>, SqlError>;

    /// Opens a session for a client that has proved who it is. Fails (FATAL: 3D000, 42704, ...) where
    /// PostgreSQL would.
    fn open(&self, start: SessionStart) -> Result<Box<dyn Session + Send>, SqlError>;
}

/// One client's session. Dropping it rolls back what is open and releases everything it holds.
pub trait Session {
    /// Executes all statements of a text, as one implicit transaction where they contain no transaction
    /// commands, and ends it: commits before it returns.
    fn simple(&mut self, sql: &str, sink: &mut dyn Sink) -> Result<(), SqlError>;

    /// Prepares one statement. An empty `name` is the unnamed statement, which is replaced; a named one
    /// that exists is 42P05. `parameter_types`: 0 for a type to be inferred; may be shorter than the list
    /// of parameters.
    fn parse(&mut self, name: &str, sql: &str, parameter_types: &[Oid]) -> Result<(), SqlError>;

    /// Binds parameters to a prepared statement. `result_formats` stay with the portal.
    fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        parameters: Parameters<'_>,
        result_formats: Formats<'_>,
    ) -> Result<(), SqlError>;

    /// Describes a prepared statement.
    fn describe_statement(&mut self, name: &str) -> Result<Described<'_>, SqlError>;

    /// Describes a portal: its columns, `None` if it returns no rows, and the formats of its Bind.
    fn describe_portal(
        &mut self,
        name: &str,
    ) -> Result<Option<(&[ColumnDescription], Formats<'_>)>, SqlError>;

    /// Runs a portal for at most `max_rows` rows (0: all). `last`: the next call is `sync`, so what that
    /// would end may end here, with its error.
    fn execute(
        &mut self,
        portal: &str,
        max_rows: u32,
        last: bool,
        sink: &mut dyn Sink,
    ) -> Result<Progress, SqlError>;

    /// Closes a prepared statement and its portals; one that is not there is no error.
    fn close_statement(&mut self, name: &str) -> Result<(), SqlError>;

    /// Closes a portal; one that is not there is no error.
    fn close_portal(&mut self, name: &str) -> Result<(), SqlError>;

    /// Ends the implicit transaction of the messages since the last `sync`: commits, or rolls back if one
    /// failed.
    fn sync(&mut self) -> Result<(), SqlError>;

    /// The text of a prepared statement, for those who watch; `None` if there is none.
    fn statement_text(&self, name: &str) -> Option<Arc<str>>;

    /// Takes note of an error that happened outside of the session (a malformed message): as if a statement
    /// had failed.
    fn fail(&mut self);

    /// Where it is with its transaction.
    fn transaction_state(&self) -> TransactionState;

    /// The settings that clients are told of (`server_version`, `client_encoding`, `DateStyle`, `TimeZone`,
    /// ...) and that have changed since the last call; at the first call all of them.
    fn changed_parameters(&mut self) -> Vec<(&'static str, String)>;

    /// The time-outs in force now.
    fn timeouts(&self) -> Timeouts;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Severity, SqlState};

    #[test]
    fn one_format_code_is_for_all() {
        let of = |codes: &'static [u8]| [Formats(codes).of(0), Formats(codes).of(1)];
        assert_eq!(of(&[]), [Format::Text, Format::Text]);
        assert_eq!(of(&[0, 1]), [Format::Binary, Format::Binary]);
        assert_eq!(of(&[0, 0, 0, 1]), [Format::Text, Format::Binary]);
    }

    #[test]
    fn parameters_are_read_in_order() {
        let body = [0, 0, 0, 1, b'a', 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        let parameters = Parameters { formats: Formats(&[0, 1]), body: &body, count: 3 };
        let values: Vec<_> = parameters.iter().map(|(_, value)| value).collect();
        assert_eq!(values, [Some(&b"a"[..]), None, Some(&b""[..])]);
        assert!(parameters.iter().all(|(format, _)| format == Format::Binary));
    }

    #[test]
    fn a_late_cancel_is_forgotten_and_a_termination_is_not() {
        let interrupt = Interrupt::default();
        assert_eq!(interrupt.check(), Ok(()));
        interrupt.raise(InterruptReason::StatementTimeout);
        interrupt.raise(InterruptReason::Cancel);
        assert_eq!(interrupt.raised(), Some(InterruptReason::StatementTimeout));
        interrupt.rearm();
        assert_eq!(interrupt.raised(), None);
        interrupt.raise(InterruptReason::Terminate);
        interrupt.rearm();
        let error = interrupt.check().expect_err("raised");
        assert_eq!((error.state, error.severity), (SqlState::ADMIN_SHUTDOWN, Severity::Fatal));
    }
}
