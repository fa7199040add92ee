//! A connection after its start-up: which message may come when, and what happens then.
//!
//! ```text
//!             Query, Sync                         Parse Bind Describe Execute Close
//!   ready ----------------> answer, ReadyForQuery   |  in a series: answers gather, nothing is sent
//!     ^                                             v  until Sync, SendNow or much output
//!     +---- Sync --- skipping <---- error ------- series
//! ```
//!
//! Invariants:
//! 1. After an error in a series everything up to the next Sync is read and thrown away, as PostgreSQL does
//!    it.
//! 2. ReadyForQuery is sent once for each Query and each Sync, also where they fail, unless the connection
//!    ends.
//! 3. A panic of a session ends its connection and no other.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use liger_sql::encoding;
use liger_sql::error::{Severity, SqlError, SqlState};
use liger_sql::panics::caught;
use liger_sql::session::{ActivityState, InterruptReason, Progress, Session, TransactionState};
use liger_sql::types::Oid;

use crate::clock;
use crate::log::{Entry, Level};
use crate::metrics::{OwnHistogram, add};
use crate::peer::Peer;
use crate::server::Shared;
use crate::sink::{RowShape, WireSink, message_error};
use crate::timer::StatementTimer;
use crate::wire::backend;
use crate::wire::frontend::{Frontend, Target};
use crate::wire::recode;
use crate::wire::stream::{Arrived, Stream, StreamError};

/// A buffer for messages larger than this is not kept, bytes.
const BODY_BYTES_KEPT: usize = 1 << 20;

/// A client and its session.
pub(crate) struct Connection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) peer: Arc<Peer>,
    pub(crate) stream: Stream,
    pub(crate) session: Option<Box<dyn Session + Send>>,
    /// The body of the message that is being carried out.
    body: Vec<u8>,
    types: Vec<Oid>,
    /// The role and the database that the client names, until it has proved to be that role.
    pub(crate) claimed: (String, String),
    shape: RowShape,
    /// Extended messages have come since the last Sync.
    in_series: bool,
    /// One of them failed.
    skipping: bool,
    timer: StatementTimer,
    messages: u64,
    statements: u64,
    latency: OwnHistogram,
    /// When the statement or series began that is being carried out.
    begun_us: Option<i64>,
    /// Whether its socket has been given to the parking before.
    watched: bool,
}

/// What a connection does next.
enum Next {
    /// It waits for its client without a thread.
    Rest,
    End,
}

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>, peer: Arc<Peer>) -> Self {
        let stream = Stream::new(peer.socket.clone());
        let timer = StatementTimer::new(shared.parking.clone(), peer.clone());
        Self {
            shared,
            peer,
            stream,
            session: None,
            body: Vec::new(),
            types: Vec::new(),
            claimed: Default::default(),
            shape: RowShape::default(),
            in_series: false,
            skipping: false,
            timer,
            messages: 0,
            statements: 0,
            latency: OwnHistogram::default(),
            begun_us: None,
            watched: false,
        }
    }

    pub(crate) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// Whether its socket is known to the parking; from now on it is.
    pub(crate) fn take_watched(&mut self) -> bool {
        std::mem::replace(&mut self.watched, true)
    }

    /// Serves the client until it falls silent or goes.
    pub(crate) fn run(mut self: Box<Self>) {
        match caught(|| self.serve()) {
            Ok(Next::Rest) => {
                self.stream.rest();
                add(&self.shared.metrics.rests, 1);
                let shared = self.shared.clone();
                let idle = self.idle_deadline();
                shared.parking.park(self, idle);
            }
            Ok(Next::End) => {}
            Err(_) => {
                add(&self.shared.metrics.panics, 1);
                let message = "internal error: the session has ended";
                self.report(&SqlError::notice(Severity::Fatal, SqlState::INTERNAL_ERROR, message));
            }
        }
    }

    fn serve(&mut self) -> Next {
        if self.session.is_none() {
            match self.login() {
                Ok(true) => {}
                Ok(false) => return Next::End,
                Err(error) => return self.broken(&error),
            }
        }
        loop {
            if let Some(farewell) = self.farewell() {
                return farewell;
            }
            let handled = match self.stream.message(self.shared.config.message_bytes_max) {
                Ok(Arrived::Message(kind, body)) => self.handle(kind, body),
                Ok(Arrived::Quiet) => {
                    if let Err(error) = self.deliver_mail() {
                        return self.broken(&error);
                    }
                    return Next::Rest;
                }
                Ok(Arrived::Closed) => return self.farewell().unwrap_or(Next::End),
                Err(error) => Err(error),
            };
            match handled {
                Ok(true) => {}
                Ok(false) => return Next::End,
                Err(error) => return self.broken(&error),
            }
        }
    }

    /// Ends the connection if somebody wants that.
    fn farewell(&mut self) -> Option<Next> {
        let reason = self.peer.interrupt.raised()?;
        let error = reason.error();
        (error.severity >= Severity::Fatal).then(|| {
            self.report(&error);
            Next::End
        })
    }

    /// Ends the connection because of what came over it, or did not.
    fn broken(&mut self, error: &StreamError) -> Next {
        self.report(&error.to_sql());
        Next::End
    }

    /// Tells the client of an error; answers whether the connection ends by it.
    pub(crate) fn report(&mut self, error: &SqlError) -> bool {
        self.shared.metrics.count_error(error);
        backend::error(&mut self.stream.output, error, self.peer.encoding.get());
        error.severity >= Severity::Fatal
    }

    /// Carries out a message; answers whether the connection goes on.
    fn handle(&mut self, kind: u8, range: Range<usize>) -> Result<bool, StreamError> {
        self.messages += 1;
        // Bytes of a COPY that has failed come until the client knows that it has.
        if matches!(kind, b'd' | b'c' | b'f') || (self.skipping && !matches!(kind, b'S' | b'X')) {
            return Ok(true);
        }
        // The session may read further messages (COPY) while this one is carried out: it moves aside.
        let mut body = std::mem::take(&mut self.body);
        let mut begin = self.stream.move_out(range, &mut body);
        let encoding = self.peer.encoding.get();
        if !encoding.is_utf8() {
            match recode::to_utf8(kind, &body[begin..], encoding) {
                Ok(Cow::Borrowed(_)) => {}
                Ok(Cow::Owned(recoded)) => (body, begin) = (recoded, 0),
                Err(error) => return self.unreadable(kind, &error),
            }
        }
        let goes_on = match Frontend::read(kind, &body[begin..]) {
            Ok(message) => self.answer(message)?,
            Err(error) => self.unreadable(kind, &message_error(&error))?,
        };
        if body.capacity() <= BODY_BYTES_KEPT {
            self.body = body;
        }
        Ok(goes_on)
    }

    /// Tells of a message that cannot be read.
    fn unreadable(&mut self, kind: u8, error: &SqlError) -> Result<bool, StreamError> {
        self.session().fail();
        self.failed(error, !matches!(kind, b'Q' | b'F'))
    }

    /// Tells that there was something to say with characters that the client's encoding lacks.
    fn unsayable(&mut self, mut lacking: SqlError) {
        lacking.severity = Severity::Warning;
        let told = backend::notice(&mut self.stream.output, &lacking, encoding::utf8());
        told.expect("UTF-8 has all characters");
    }

    fn answer(&mut self, message: Frontend<'_>) -> Result<bool, StreamError> {
        match message {
            Frontend::Query(sql) => {
                self.begin();
                self.run_timer();
                let shown = sql.floor_char_boundary(1024);
                self.statements += 1;
                self.begun_us = Some(self.peer.begin(Some(Arc::from(&sql[..shown]))));
                let (session, mut sink) = self.session_and_sink(true);
                match session.simple(sql, &mut sink) {
                    Ok(()) => self.ready(),
                    Err(error) => self.failed(&error, false),
                }
            }
            Frontend::Sync => {
                self.skipping = false;
                if self.peer.interrupt.raised() == Some(InterruptReason::StatementTimeout) {
                    self.session().fail();
                    return self.failed(&InterruptReason::StatementTimeout.error(), false);
                }
                match self.session().sync() {
                    Ok(()) => self.ready(),
                    Err(error) => self.failed(&error, false),
                }
            }
            Frontend::SendNow => self.stream.send().map(|()| true),
            Frontend::Terminate => Ok(false),
            Frontend::Password(_) => Err(StreamError::Kind(b'p')),
            Frontend::FunctionCall => {
                self.session().fail();
                self.failed(
                    &SqlError::unsupported("the function call protocol", "Call the function in a SELECT."),
                    false,
                )
            }
            series => {
                if !self.in_series {
                    self.in_series = true;
                    self.begin();
                    self.begun_us = Some(self.peer.begin(None));
                }
                // What was raised between two messages is heard here.
                if let Err(error) = self.peer.interrupt.check() {
                    self.session().fail();
                    return self.failed(&error, true);
                }
                match self.extended(series) {
                    Ok(()) => self.stream.send_if_large(&mut || ()).map(|()| true),
                    Err(error) => self.failed(&error, true),
                }
            }
        }
    }

    /// A message of a series.
    fn extended(&mut self, message: Frontend<'_>) -> Result<(), SqlError> {
        if !matches!(message, Frontend::Close(_)) {
            self.run_timer();
        }
        match message {
            Frontend::Parse { name, sql, types } => {
                let mut given = std::mem::take(&mut self.types);
                given.clear();
                given.extend(types.iter());
                let parsed = self.session().parse(name, sql, &given);
                self.types = given;
                parsed?;
                backend::bare(&mut self.stream.output, b'1');
            }
            Frontend::Bind { portal, statement, parameters, result_formats } => {
                let text = self.session().statement_text(statement);
                self.peer.begin(text);
                self.session().bind(portal, statement, parameters, result_formats)?;
                backend::bare(&mut self.stream.output, b'2');
            }
            Frontend::Describe(target) => self.describe(target)?,
            Frontend::Execute { portal, max_rows } => {
                let last = self.stream.is_sync_next();
                self.statements += 1;
                let (session, mut sink) = self.session_and_sink(false);
                match session.execute(portal, max_rows, last, &mut sink)? {
                    Progress::Suspended => backend::bare(&mut self.stream.output, b's'),
                    Progress::Complete => self.timer.stop(),
                }
            }
            Frontend::Close(target) => {
                match target {
                    Target::Statement(name) => self.session().close_statement(name)?,
                    Target::Portal(name) => self.session().close_portal(name)?,
                }
                backend::bare(&mut self.stream.output, b'3');
            }
            other => unreachable!("not a message of a series: {other:?}"),
        }
        Ok(())
    }

    fn describe(&mut self, target: Target<'_>) -> Result<(), SqlError> {
        let session = self.session.as_mut().expect("logged in");
        let output = &mut self.stream.output;
        let columns = match target {
            Target::Statement(name) => {
                let described = session.describe_statement(name)?;
                backend::parameter_description(output, described.parameters);
                described.columns.map(|columns| (columns, liger_sql::session::Formats::default()))
            }
            Target::Portal(name) => session.describe_portal(name)?,
        };
        match columns {
            Some((columns, formats)) => {
                backend::row_description(output, columns, formats, self.peer.encoding.get())?;
            }
            None => backend::bare(output, b'n'),
        }
        Ok(())
    }

    /// Tells of a failed message: what follows in a series is skipped, everything else is at its end.
    fn failed(&mut self, error: &SqlError, series: bool) -> Result<bool, StreamError> {
        if self.report(error) {
            return Ok(false);
        }
        if series {
            self.skipping = true;
            self.timer.stop();
            // Whoever asks to be sent what there is (asyncpg) would wait: that message is skipped with
            // the others.
            return self.stream.send().map(|()| true);
        }
        self.ready()
    }

    /// Before a statement or a series: a cancel that came for an earlier one is void.
    fn begin(&mut self) {
        self.peer.interrupt.rearm();
        self.shared.parking.look_soon();
        self.timer.stop();
    }

    fn run_timer(&mut self) {
        let statement_ms = self.session().timeouts().statement_ms;
        self.timer.run(statement_ms);
    }

    /// After a statement or a series: tells the client that it is its turn.
    pub(crate) fn ready(&mut self) -> Result<bool, StreamError> {
        self.timer.stop();
        self.in_series = false;
        let session = self.session.as_mut().expect("logged in");
        let (changed, state) = (session.changed_parameters(), session.transaction_state());
        self.tell_parameters(changed);
        self.append_mail(state);
        backend::ready_for_query(&mut self.stream.output, state);
        let now_us = self.peer.wait_in(match state {
            TransactionState::Idle => ActivityState::Idle,
            TransactionState::Active => ActivityState::IdleInTransaction,
            TransactionState::Failed => ActivityState::IdleInTransactionAborted,
        });
        if let Some(begun_us) = self.begun_us.take() {
            let took_us = (now_us - begun_us).max(0).cast_unsigned();
            self.latency.take(took_us);
            self.note_slow(took_us);
        }
        for told in self.peer.take_told() {
            self.log(Level::Info, "statement", &[("message", &told)]);
        }
        self.stream.send()?;
        self.count();
        if state == TransactionState::Idle && self.shared.draining.load(Ordering::Relaxed) {
            self.peer.raise(InterruptReason::Terminate);
        }
        Ok(true)
    }

    /// Tells the client of settings.
    pub(crate) fn tell_parameters(&mut self, changed: Vec<(&'static str, String)>) {
        let to = self.peer.encoding.get();
        for (name, value) in changed {
            if let Err(lacking) = backend::parameter_status(&mut self.stream.output, name, &value, to) {
                self.unsayable(lacking);
            }
            if name == "application_name" {
                self.peer.status().application_name = value;
            }
        }
    }

    /// Tells of a statement that took long.
    fn note_slow(&self, took_us: u64) {
        let of_server = self.shared.config.log_slower_than;
        let own = self.session.as_ref().and_then(|session| session.timeouts().log_after_ms);
        let Some(most) = own.map_or(of_server, |own| own.map(Duration::from_millis)) else { return };
        if u128::from(took_us) >= most.as_micros() {
            let (query, ms) = (self.peer.status().query.clone(), took_us as f64 / 1e3);
            let secret = query.to_ascii_lowercase().contains("password");
            let shown = if secret { "(a statement with a password)" } else { &*query };
            self.log(Level::Info, "slow_statement", &[("duration_ms", &ms), ("query", &shown)]);
        }
    }

    /// Tells whoever runs the server of an event of this connection.
    pub(crate) fn log(&self, level: Level, event: &'static str, more: &[(&'static str, &dyn Display)]) {
        let Some(log) = &self.shared.config.log else { return };
        let (user, database) = {
            let status = self.peer.status();
            (status.user.clone(), status.database.clone())
        };
        let (pid, host) = (self.peer.process_id, self.shared.config.host);
        let address = self.peer.address.map_or("local".to_string(), |(address, _)| address.to_string());
        let mut fields: Vec<(&'static str, &dyn Display)> = vec![
            ("host", &host),
            ("pid", &pid),
            ("user", &user),
            ("database", &database),
            ("address", &address),
        ];
        fields.extend_from_slice(more);
        log(&Entry { level, event, fields: &fields });
    }

    fn count(&mut self) {
        let metrics = &self.shared.metrics;
        add(&metrics.ready, 1);
        add(&metrics.statements, std::mem::take(&mut self.statements));
        metrics.latency.add(&mut self.latency);
        add(&metrics.messages, std::mem::take(&mut self.messages));
        add(&metrics.bytes_in, std::mem::take(&mut self.stream.bytes_in));
        add(&metrics.bytes_out, std::mem::take(&mut self.stream.bytes_out));
    }

    fn append_mail(&mut self, state: TransactionState) {
        if state == TransactionState::Idle && self.peer.has_mail() {
            for mail in self.peer.take_mail() {
                let (output, to) = (&mut self.stream.output, self.peer.encoding.get());
                let said = (&*mail.channel, &*mail.payload);
                if let Err(lacking) = backend::notification(output, mail.process_id, said, to) {
                    self.unsayable(lacking);
                }
            }
        }
    }

    /// Sends the notifications that came while the client is silent.
    fn deliver_mail(&mut self) -> Result<(), StreamError> {
        if !self.in_series && self.peer.has_mail() {
            let state = self.session().transaction_state();
            self.append_mail(state);
            self.stream.send()?;
        }
        Ok(())
    }

    /// When this silent client has been silent for too long.
    fn idle_deadline(&mut self) -> Option<(Instant, InterruptReason)> {
        let session = self.session();
        let (timeouts, state) = (session.timeouts(), session.transaction_state());
        let (timeout_ms, reason) = if state == TransactionState::Idle {
            (timeouts.idle_session_ms, InterruptReason::IdleSessionTimeout)
        } else {
            (timeouts.idle_in_transaction_ms, InterruptReason::IdleInTransactionTimeout)
        };
        let after = Duration::from_millis(timeout_ms).saturating_sub(self.shared.config.linger);
        (timeout_ms > 0).then(|| (clock::now() + after, reason))
    }

    fn session(&mut self) -> &mut dyn Session {
        self.session.as_mut().expect("logged in").as_mut()
    }

    fn session_and_sink(&mut self, describes: bool) -> (&mut dyn Session, WireSink<'_>) {
        let sink = WireSink {
            stream: &mut self.stream,
            shape: &mut self.shape,
            peer: &self.peer,
            timer: &mut self.timer,
            describes,
            message_bytes_max: self.shared.config.message_bytes_max,
        };
        (self.session.as_mut().expect("logged in").as_mut(), sink)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.timer.stop();
        // First the session: when the client sees the end, its transaction has ended.
        let session = self.session.take();
        if caught(|| drop(session)).is_err() {
            add(&self.shared.metrics.panics, 1);
        }
        self.stream.finish();
        self.count();
        add(&self.shared.metrics.connections_closed, 1);
        self.shared.peers.leave(self.peer.process_id);
    }
}
