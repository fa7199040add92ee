//! A database that knows a dozen made-up statements: enough to see every path of the protocol.
//!
//! ```text
//!   select 1              one int4                 rows N       N rows (int4, text)
//!   echo $1 $2 ..         its parameters           activity     rows of ServerView
//!   error S text, fatal S text, panic              notice text
//!   sleep MS              looks at its interrupt   set NAME V   a setting
//!   begin, commit, rollback                        listen C, notify C TEXT
//!   copy in               counts lines             copy out N   N lines
//!   types                 a value of each of some types
//! ```
//!
//! Roles: `trusty` (no password), `alice` (password `secret`), `root` (superuser), `nologin`, `one` (one
//! connection).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use liger_server::auth::scram::Verifier;
use liger_sql::error::{Result, Severity, SqlError, SqlState};
use liger_sql::session::{
    Client, ColumnDescription, CopyInput, CopyShape, Database, Described, Format, Formats, LoginRole,
    Notification, Parameters, Progress, Session, SessionStart, Sink, Timeouts, TransactionState,
};
use liger_sql::types::context::{EvalContext, NoSystem, Settings};
use liger_sql::types::value::Value;
use liger_sql::types::{Oid, Type, oid};

/// Sessions that listen, by channel.
type Listeners = Arc<Mutex<Vec<(String, Arc<dyn Client>)>>>;

/// The database.
#[derive(Default)]
pub struct FakeDatabase {
    listeners: Listeners,
}

impl Database for FakeDatabase {
    fn login_role(&self, user: &str) -> Result<Option<LoginRole>> {
        let role = LoginRole { can_login: true, connection_limit: -1, ..LoginRole::default() };
        Ok(Some(match user {
            "alice" => LoginRole { verifier: Some(Verifier::new("secret").to_string()), ..role },
            "expired" => {
                let verifier = Some(Verifier::new("secret").to_string());
                LoginRole { verifier, valid_until_us: Some(0), ..role }
            }
            "root" => LoginRole { superuser: true, ..role },
            "nologin" => LoginRole { can_login: false, ..role },
            "one" => LoginRole { connection_limit: 1, ..role },
            "trusty" | "postgres" => role,
            _ => return Ok(None),
        }))
    }

    fn open(&self, start: SessionStart) -> Result<Box<dyn Session + Send>> {
        if start.database == "nowhere" {
            let message = "database \"nowhere\" does not exist";
            return Err(SqlError::notice(Severity::Fatal, SqlState::INVALID_CATALOG_NAME, message));
        }
        let mut changed = vec![
            ("server_version", "15.0".to_string()),
            ("server_encoding", "UTF8".to_string()),
            ("client_encoding", "UTF8".to_string()),
            ("DateStyle", "ISO, MDY".to_string()),
            ("TimeZone", "UTC".to_string()),
            ("integer_datetimes", "on".to_string()),
            ("standard_conforming_strings", "on".to_string()),
        ];
        let name = start.parameters.iter().find(|(name, _)| name == "application_name");
        changed.push(("application_name", name.map_or(String::new(), |(_, value)| value.clone())));
        Ok(Box::new(FakeSession {
            start,
            listeners: self.listeners.clone(),
            statements: BTreeMap::new(),
            portals: BTreeMap::new(),
            state: TransactionState::Idle,
            changed,
            timeouts: Timeouts::default(),
            settings: Settings::default(),
            lasts: String::new(),
        }))
    }
}

struct Statement {
    text: Arc<str>,
    parameters: Vec<Oid>,
    columns: Vec<ColumnDescription>,
}

struct Portal {
    text: Arc<str>,
    values: Vec<Value>,
    columns: Vec<ColumnDescription>,
    formats: Vec<u8>,
    done: usize,
}

struct FakeSession {
    start: SessionStart,
    listeners: Listeners,
    statements: BTreeMap<String, Statement>,
    portals: BTreeMap<String, Portal>,
    state: TransactionState,
    changed: Vec<(&'static str, String)>,
    timeouts: Timeouts,
    settings: Settings,
    /// For each Execute whether a Sync was known to come next: `y` or `n`.
    lasts: String,
}

fn column(name: &str, ty: Oid, len: i16) -> ColumnDescription {
    ColumnDescription { name: name.to_string(), ty: Type::of(ty), len, table: 0, attribute: 0 }
}

fn columns_of(text: &str, parameters: usize) -> Vec<ColumnDescription> {
    match text.split_whitespace().next().unwrap_or_default().to_lowercase().as_str() {
        "select" => vec![column("?column?", oid::INT4, 4)],
        "rows" => vec![column("n", oid::INT4, 4), column("text", oid::TEXT, -1)],
        "types" => types().iter().map(|(ty, _)| column("v", *ty, -1)).collect(),
        "echo" => (0..parameters).map(|at| column(&format!("p{at}"), oid::TEXT, -1)).collect(),
        "lasts" => vec![column("lasts", oid::TEXT, -1)],
        "activity" => ["user", "state", "query"].map(|name| column(name, oid::TEXT, -1)).into(),
        _ => Vec::new(),
    }
}

/// A value of each of some types.
fn types() -> Vec<(Oid, Value)> {
    vec![
        (oid::BOOL, Value::Bool(true)),
        (oid::INT2, Value::Int2(-2)),
        (oid::INT4, Value::Int4(i32::MIN)),
        (oid::INT8, Value::Int8(i64::MAX)),
        (oid::OID, Value::Oid(u32::MAX)),
        (oid::FLOAT4, Value::Float4(0.1)),
        (oid::FLOAT8, Value::Float8(-1e300)),
        (oid::TEXT, Value::text("text")),
        (oid::BYTEA, Value::bytea([0, 255, b'a'])),
        (oid::TIMESTAMP, Value::Timestamp(1_000_000)),
        (oid::INT4_ARRAY, Value::array(oid::INT4, vec![Value::Int4(1), Value::Null, Value::Int4(3)])),
        (oid::INT4, Value::Null),
    ]
}

fn number(word: Option<&str>) -> usize {
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

impl FakeSession {
    /// Runs a statement from row `from` on; answers how many rows it gave and whether it is at its end.
    fn run(&mut self, portal: &Portal, max_rows: usize, sink: &mut dyn Sink) -> Result<(usize, Progress)> {
        let text = portal.text.clone();
        let mut words = text.split_whitespace();
        let verb = words.next().unwrap_or_default().to_lowercase();
        if self.state == TransactionState::Failed && !matches!(verb.as_str(), "rollback" | "commit" | "end") {
            let message = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(SqlError::new(SqlState::IN_FAILED_SQL_TRANSACTION, message));
        }
        if !portal.columns.is_empty() {
            sink.columns(&portal.columns, Formats(&portal.formats))?;
            return self.run_query(portal, &verb, number(words.next()), max_rows, sink);
        }
        let rest: Vec<&str> = words.collect();
        let tag = self.run_command(&verb, &rest, sink)?;
        match tag.as_str() {
            "" => sink.empty()?,
            tag => sink.command_complete(tag)?,
        }
        Ok((0, Progress::Complete))
    }

    fn run_query(
        &mut self,
        portal: &Portal,
        verb: &str,
        count: usize,
        max_rows: usize,
        sink: &mut dyn Sink,
    ) -> Result<(usize, Progress)> {
        let context = EvalContext::new(&self.settings, &NoSystem, 0);
        let rows: Box<dyn Iterator<Item = Vec<Value>>> = match verb {
            "rows" => {
                Box::new((1..=count).map(|n| vec![Value::Int4(n as i32), Value::text(format!("row {n}"))]))
            }
            "echo" => Box::new(std::iter::once(portal.values.clone())),
            "lasts" => Box::new(std::iter::once(vec![Value::text(self.lasts.clone())])),
            "types" => Box::new(std::iter::once(types().into_iter().map(|(_, value)| value).collect())),
            "activity" => Box::new(self.start.server.activity().into_iter().map(|activity| {
                [activity.user, activity.state.text().to_string(), activity.query].map(Value::text).into()
            })),
            _ => Box::new(std::iter::once(vec![Value::Int4(1)])),
        };
        let mut given = 0;
        for row in rows.skip(portal.done) {
            if max_rows > 0 && given == max_rows {
                return Ok((given, Progress::Suspended));
            }
            self.start.interrupt.check()?;
            sink.row(&context, &row)?;
            sink.send(&mut || ())?;
            given += 1;
        }
        sink.command_complete(&format!("SELECT {}", portal.done + given))?;
        Ok((given, Progress::Complete))
    }

    fn run_command(&mut self, verb: &str, rest: &[&str], sink: &mut dyn Sink) -> Result<String> {
        let state = |code: &str| code.as_bytes().try_into().map_or(SqlState::INTERNAL_ERROR, SqlState::new);
        match (verb, rest) {
            ("begin" | "start", _) => self.state = TransactionState::Active,
            ("commit" | "end", _) if self.state == TransactionState::Failed => {
                self.state = TransactionState::Idle;
                return Ok("ROLLBACK".to_string());
            }
            ("commit" | "rollback" | "end", _) => self.state = TransactionState::Idle,
            ("error", [code, text @ ..]) => {
                let mut error = SqlError::new(state(code), text.join(" ")).detail("d").hint("h").at(7);
                error.table = Some("t".to_string());
                error.column = Some("c".to_string());
                error.constraint = Some("n".to_string());
                return Err(error);
            }
            ("fatal", [code, text @ ..]) => {
                return Err(SqlError::notice(Severity::Fatal, state(code), text.join(" ")));
            }
            ("panic", _) => panic!("a session that panics, as asked for"),
            ("notice", text) => {
                let notice =
                    SqlError::notice(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, text.join(" "));
                sink.notice(&notice)?;
            }
            ("sleep", [ms]) => {
                for _ in 0..number(Some(ms)) {
                    self.start.interrupt.check()?;
                    pause(Duration::from_millis(1));
                }
            }
            ("set", ["statement_timeout", ms]) => self.timeouts.statement_ms = number(Some(ms)) as u64,
            ("set", ["idle_session_timeout", ms]) => self.timeouts.idle_session_ms = number(Some(ms)) as u64,
            ("set", ["idle_in_transaction_session_timeout", ms]) => {
                self.timeouts.idle_in_transaction_ms = number(Some(ms)) as u64;
            }
            ("set", ["application_name", name]) => self.changed.push(("application_name", name.to_string())),
            ("set", ["client_encoding", name]) => {
                self.start.encoding.set(liger_sql::encoding::named(name).expect("a name"));
            }
            ("listen", [channel]) => {
                let mut listeners = self.listeners.lock().expect("no panic with it");
                listeners.push((channel.to_string(), self.start.client.clone()));
            }
            ("notify", [channel, text @ ..]) => self.notify(channel, &text.join(" ")),
            ("copy", ["in"]) => return copy_in(sink),
            ("copy", ["out", count]) => {
                sink.copy_out(&CopyShape { format: Format::Text, columns: 1 })?;
                for line in 1..=number(Some(count)) {
                    sink.copy_bytes(format!("{line}\n").as_bytes())?;
                    sink.send(&mut || ())?;
                }
                sink.copy_out_done()?;
                return Ok(format!("COPY {count}"));
            }
            ("", _) => return Ok(String::new()),
            _ => {
                let message = format!("syntax error at or near \"{verb}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(1));
            }
        }
        Ok(verb.to_uppercase())
    }

    fn notify(&self, channel: &str, payload: &str) {
        let listeners = self.listeners.lock().expect("no panic with it");
        for (_, client) in listeners.iter().filter(|(name, _)| name == channel) {
            client.notify(Notification {
                process_id: self.start.process_id,
                channel: channel.to_string(),
                payload: payload.to_string(),
            });
        }
    }

    fn after<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.fail();
        }
        result
    }

    fn do_bind(
        &mut self,
        portal: &str,
        statement: &str,
        parameters: Parameters<'_>,
        formats: Formats<'_>,
    ) -> Result<()> {
        let unknown = || {
            let message = format!("prepared statement \"{statement}\" does not exist");
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        };
        let prepared = self.statements.get(statement).ok_or_else(unknown)?;
        let mut values = Vec::new();
        for (format, bytes) in parameters.iter() {
            let Some(bytes) = bytes else {
                values.push(Value::Null);
                continue;
            };
            let text = match format {
                Format::Text => String::from_utf8_lossy(bytes).into_owned(),
                Format::Binary => format!("{bytes:?}"),
            };
            values.push(Value::text(text));
        }
        if values.len() != prepared.parameters.len() {
            let message = format!("bind message supplies {} parameters", values.len());
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        let (text, columns) = (prepared.text.clone(), prepared.columns.clone());
        let portal_made = Portal { text, values, columns, formats: formats.0.to_vec(), done: 0 };
        self.portals.insert(portal.to_string(), portal_made);
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "a session that takes its time")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Counts the bytes and the lines of a COPY; a line `bad` is an error.
fn copy_in(sink: &mut dyn Sink) -> Result<String> {
    sink.copy_in(&CopyShape { format: Format::Text, columns: 1 })?;
    let mut lines = 0;
    loop {
        match sink.copy_read(&mut || ())? {
            CopyInput::Data(b"bad\n") => {
                return Err(SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, "bad line"));
            }
            CopyInput::Data(bytes) => lines += bytes.iter().filter(|&&byte| byte == b'\n').count(),
            CopyInput::Done => return Ok(format!("COPY {lines}")),
            CopyInput::Fail(why) => {
                let message = format!("COPY from stdin failed: {why}");
                return Err(SqlError::new(SqlState::QUERY_CANCELED, message));
            }
        }
    }
}

impl Session for FakeSession {
    fn simple(&mut self, sql: &str, sink: &mut dyn Sink) -> Result<()> {
        let statements: Vec<&str> = sql.split(';').map(str::trim).filter(|text| !text.is_empty()).collect();
        if statements.is_empty() {
            return sink.empty();
        }
        for (at, text) in statements.into_iter().enumerate() {
            if at > 0 {
                sink.next_statement(self.timeouts.statement_ms);
            }
            let columns = columns_of(text, 0);
            let portal = Portal { text: text.into(), values: vec![], columns, formats: vec![], done: 0 };
            let result = self.run(&portal, 0, sink);
            self.after(result)?;
        }
        Ok(())
    }

    fn parse(&mut self, name: &str, sql: &str, parameter_types: &[Oid]) -> Result<()> {
        let text = sql.trim().trim_end_matches(';');
        let count = (1..10).take_while(|n| text.contains(&format!("${n}"))).count();
        if text.starts_with("wrong") {
            self.fail();
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"wrong\"").at(1));
        }
        let mut parameters = parameter_types.to_vec();
        parameters.resize(count.max(parameters.len()), oid::TEXT);
        parameters.iter_mut().filter(|ty| **ty == 0).for_each(|ty| *ty = oid::TEXT);
        let columns = columns_of(text, parameters.len());
        self.statements.insert(name.to_string(), Statement { text: text.into(), parameters, columns });
        Ok(())
    }

    fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        parameters: Parameters<'_>,
        result_formats: Formats<'_>,
    ) -> Result<()> {
        let result = self.do_bind(portal, statement, parameters, result_formats);
        self.after(result)
    }

    fn describe_statement(&mut self, name: &str) -> Result<Described<'_>> {
        match self.statements.get(name) {
            Some(Statement { parameters, columns, .. }) => {
                Ok(Described { parameters, columns: (!columns.is_empty()).then_some(columns) })
            }
            None => Err(SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, "no such statement")),
        }
    }

    fn describe_portal(&mut self, name: &str) -> Result<Option<(&[ColumnDescription], Formats<'_>)>> {
        match self.portals.get(name) {
            Some(portal) if portal.columns.is_empty() => Ok(None),
            Some(portal) => Ok(Some((&portal.columns, Formats(&portal.formats)))),
            None => Err(SqlError::new(SqlState::INVALID_CURSOR_NAME, "no such portal")),
        }
    }

    fn execute(&mut self, name: &str, max_rows: u32, last: bool, sink: &mut dyn Sink) -> Result<Progress> {
        self.lasts.push(if last { 'y' } else { 'n' });
        let Some(mut portal) = self.portals.remove(name) else {
            self.fail();
            return Err(SqlError::new(SqlState::INVALID_CURSOR_NAME, "no such portal"));
        };
        let result = self.run(&portal, max_rows as usize, sink);
        let (given, progress) = self.after(result)?;
        portal.done += given;
        self.portals.insert(name.to_string(), portal);
        Ok(progress)
    }

    fn close_statement(&mut self, name: &str) -> Result<()> {
        self.statements.remove(name);
        Ok(())
    }

    fn close_portal(&mut self, name: &str) -> Result<()> {
        self.portals.remove(name);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        if self.state == TransactionState::Idle {
            self.portals.clear();
        }
        Ok(())
    }

    fn statement_text(&self, name: &str) -> Option<Arc<str>> {
        self.statements.get(name).map(|statement| statement.text.clone())
    }

    fn fail(&mut self) {
        if self.state == TransactionState::Active {
            self.state = TransactionState::Failed;
        }
    }

    fn transaction_state(&self) -> TransactionState {
        self.state
    }

    fn changed_parameters(&mut self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut self.changed)
    }

    fn timeouts(&self) -> Timeouts {
        self.timeouts
    }
}
