//! `liger sql`: a small shell for SQL, where there is no `psql`.
//!
//! 1. Statements end with a semicolon, wherever that is no part of a text, a name or a comment; a line that
//!    begins with a backslash, between statements, is for the shell.
//! 2. Where nobody types (`-c`, a file, a pipe) the first error ends it, with exit code 1.

#![expect(clippy::disallowed_methods, reason = "statements are timed for those who watch")]

mod show;
mod split;

use std::io::{BufRead, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, ValueEnum};
use liger_server::client::{Client, ClientError, Encrypt, Event, Head, Login, Taker, Told};

use crate::failure::Failure;
use crate::pod::PodDir;
use show::{Form, Table, note_error};
use split::Splitter;

/// Where to ask, and what.
#[derive(Args)]
pub struct Arguments {
    /// HOST:PORT, or a pod's directory
    #[arg(default_value = "127.0.0.1:5432")]
    target: String,
    /// Which host of a pod's directory to ask
    #[arg(long, default_value_t = 0)]
    host: u8,
    /// The role
    #[arg(short = 'U', long, default_value = "postgres")]
    user: String,
    /// The database
    #[arg(short = 'd', long, default_value = "postgres")]
    database: String,
    /// Run this and end; may be said several times
    #[arg(short = 'c', long, value_name = "SQL")]
    command: Vec<String>,
    /// Print rows as JSON objects, a line each
    #[arg(long)]
    json: bool,
    /// Print how long each statement took
    #[arg(long)]
    timing: bool,
    /// Whether the connection is encrypted
    #[arg(long, value_enum, default_value = "prefer")]
    tls: Tls,
}

/// Whether a connection is encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Tls {
    /// If the server can
    Prefer,
    /// Always; whose certificate it is, is not asked
    Require,
    /// Never
    Never,
}

/// Reads the password that the environment or the terminal has.
fn password(user: &str, ask: bool) -> Option<String> {
    if let Ok(password) = std::env::var("PGPASSWORD") {
        return Some(password);
    }
    if !ask || !std::io::stdin().is_terminal() {
        return None;
    }
    eprint!("Password for {user}: ");
    let echo = show::Quiet::begin();
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    drop(echo);
    eprintln!();
    read.ok().map(|_| line.trim_end_matches(['\n', '\r']).to_owned())
}

/// Host and port of what was named.
fn place(target: &str, host: u8) -> Result<(String, u16), Failure> {
    if Path::new(target).join("pod.json").exists() {
        let dir = PodDir::open(&PathBuf::from(target))?;
        dir.check_host(host.into())?;
        let Some(sql) = dir.file.job.sql else {
            return Err(Failure::Refused(format!("{target} holds no SQL: it was made with other --tables")));
        };
        let address = dir.file.job.access.route(sql.port, host);
        return Ok((address.ip().to_string(), address.port()));
    }
    let parts = target.rsplit_once(':').and_then(|(name, port)| Some((name, port.parse().ok()?)));
    match parts {
        Some((name, port)) => Ok((name.trim_matches(['[', ']']).to_owned(), port)),
        None if !target.contains('/') && !target.is_empty() => Ok((target.to_owned(), 5432)),
        None => Err(Failure::Refused(format!("{target} is neither HOST:PORT nor a pod's directory"))),
    }
}

fn connect(arguments: &Arguments) -> Result<Client, Failure> {
    let (host, port) = place(&arguments.target, arguments.host)?;
    let encrypt = match arguments.tls {
        Tls::Prefer => Encrypt::Prefer,
        Tls::Require => Encrypt::Require,
        Tls::Never => Encrypt::Never,
    };
    let (user, database) = (arguments.user.clone(), arguments.database.clone());
    let mut login = Login { host, port, user, database, password: password(&arguments.user, false), encrypt };
    let connected = match Client::connect(&login) {
        Err(ClientError::NoPassword) => {
            login.password = password(&login.user, true);
            Client::connect(&login)
        }
        connected => connected,
    };
    connected.map_err(|error| Failure::Refused(format!("{}:{}: {error}", login.host, login.port)))
}

/// Runs the shell.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut shell = Shell {
        client: connect(arguments)?,
        form: if arguments.json { Form::Json } else { Form::Table },
        timing: arguments.timing,
        input: Box::new(std::io::BufReader::new(std::io::stdin())),
        talks: false,
    };
    if !arguments.command.is_empty() {
        for command in &arguments.command {
            let fine = match command.strip_prefix('\\') {
                Some(own) => shell.own(own)?.is_some_and(|fine| fine),
                None => shell.ask(command)?,
            };
            if !fine {
                return Ok(ExitCode::FAILURE);
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    shell.talks = std::io::stdin().is_terminal();
    if shell.talks {
        println!(
            "liger sql: the server is PostgreSQL {}; \\? for help, \\q to leave",
            shell.client.version()
        );
    }
    shell.listen()
}

struct Shell {
    client: Client,
    form: Form,
    timing: bool,
    input: Box<dyn BufRead>,
    /// Somebody types.
    talks: bool,
}

const HELP: &str = "\
  \\d [NAME]   tables, views and sequences, or the columns and indexes of one
  \\dt         tables        \\du   roles        \\l   databases
  \\pod        hosts of the pod
  \\timing     say how long statements take, or do not
  \\json       print rows as JSON objects, or as a table
  \\q          leave
A statement ends with a semicolon.";

impl Shell {
    /// Reads statements until there are none.
    fn listen(&mut self) -> Result<ExitCode, Failure> {
        let mut splitter = Splitter::default();
        loop {
            self.prompt(splitter.is_empty());
            let mut line = String::new();
            let read = self.input.read_line(&mut line);
            if read.map_err(|error| Failure::Broken(error.to_string()))? == 0 {
                break;
            }
            if splitter.is_empty()
                && let Some(own) = line.trim().strip_prefix('\\')
            {
                match self.own(own)? {
                    None => return Ok(ExitCode::SUCCESS),
                    Some(fine) if fine || self.talks => continue,
                    Some(_) => return Ok(ExitCode::FAILURE),
                }
            }
            for statement in splitter.add(&line) {
                if !self.ask(statement.trim_start())? && !self.talks {
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
        let rest = splitter.rest();
        if self.talks {
            println!();
        }
        let fine = rest.trim().is_empty() || self.ask(&rest)?;
        Ok(if fine || self.talks { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn prompt(&self, first: bool) {
        if self.talks {
            let mark = match self.client.state() {
                'T' => "*",
                'E' => "!",
                _ => "",
            };
            print!("liger{}{mark}> ", if first { "=" } else { "-" });
            // A prompt that nobody sees is nothing lost.
            let _ = std::io::stdout().flush();
        }
    }

    /// A line for the shell: whether it went well; `None` ends it.
    fn own(&mut self, line: &str) -> Result<Option<bool>, Failure> {
        let (word, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        let sql = match word {
            "q" | "quit" => return Ok(None),
            "?" | "h" | "help" => {
                println!("{HELP}");
                return Ok(Some(true));
            }
            "timing" => {
                self.timing = !self.timing;
                println!("Timing is {}.", if self.timing { "on" } else { "off" });
                return Ok(Some(true));
            }
            "json" => {
                self.form = if self.form == Form::Json { Form::Table } else { Form::Json };
                return Ok(Some(true));
            }
            "dt" => show::RELATIONS.replace("$kinds", "'r', 'p'"),
            "d" if rest.trim().is_empty() => show::RELATIONS.replace("$kinds", "'r', 'p', 'v', 'm', 'S'"),
            "d" => show::DESCRIBE.replace("$name", &rest.trim().trim_end_matches(';').replace('\'', "''")),
            "du" => show::ROLES.to_owned(),
            "l" => "select datname as \"Name\" from pg_database order by 1".to_owned(),
            "pod" => "select * from pod_hosts order by host".to_owned(),
            other => {
                eprintln!("\\{other} is not known: \\? tells what is");
                return Ok(Some(false));
            }
        };
        self.ask(&sql).map(Some)
    }

    /// Runs a text and shows what comes of it; whether it went well.
    fn ask(&mut self, sql: &str) -> Result<bool, Failure> {
        let began = Instant::now();
        let input = &mut self.input;
        let mut shown = Shown { sql, form: self.form, table: None, failed: false, input };
        let asked = self.client.query(sql, &mut shown);
        let failed = shown.failed;
        asked.map_err(|error| Failure::Broken(format!("the connection has ended: {error}")))?;
        if self.timing {
            println!("Time: {:.3} ms", began.elapsed().as_secs_f64() * 1e3);
        }
        Ok(!failed)
    }
}

/// Shows what comes of a text.
struct Shown<'s> {
    sql: &'s str,
    form: Form,
    table: Option<Table>,
    failed: bool,
    /// Where the bytes of COPY FROM STDIN come from.
    input: &'s mut Box<dyn BufRead>,
}

impl Taker for Shown<'_> {
    fn take(&mut self, event: Event) {
        match event {
            Event::Columns(columns) => self.table = Some(Table::new(columns)),
            Event::Row(row) => match (&mut self.table, self.form) {
                (Some(table), Form::Json) => table.print_json(&row),
                (Some(table), Form::Table) => table.rows.push(row),
                (None, _) => {}
            },
            Event::Complete(tag) => match self.table.take() {
                Some(table) if self.form == Form::Table => table.print(),
                Some(_) => {}
                None if self.form == Form::Table => println!("{tag}"),
                None => {}
            },
            Event::Empty | Event::CopyIn => {}
            Event::Notice(told) => note_error(self.sql, &told),
            Event::Error(told) => {
                self.failed = true;
                note_error(self.sql, &told);
            }
            Event::CopyOut(bytes) => {
                // Whoever reads this may be gone.
                let _ = std::io::stdout().write_all(&bytes);
            }
        }
    }

    fn copy(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        let read = self.input.read_until(b'\n', &mut line);
        let ended = read.is_ok_and(|bytes| bytes == 0) || line.trim_ascii_end() == b"\\.";
        (!ended).then_some(line)
    }
}

/// A column is shown to the right if it holds numbers.
fn is_number(head: &Head) -> bool {
    [20, 21, 23, 26, 700, 701, 1700].contains(&head.ty)
}

/// An error's place in its statement: the line, its number, and the column in it.
fn line_of(sql: &str, told: &Told) -> Option<(String, usize, usize)> {
    let before: Vec<char> = sql.chars().take(told.position?.checked_sub(1)?).collect();
    let number = before.iter().filter(|c| **c == '\n').count();
    let column = before.iter().rev().take_while(|c| **c != '\n').count();
    Some((sql.lines().nth(number)?.to_owned(), number + 1, column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_a_line() {
        let told = |position| Told { position: Some(position), ..Told::default() };
        assert_eq!(line_of("select 1,\n  x", &told(13)), Some(("  x".to_owned(), 2, 2)));
        assert_eq!(line_of("\u{e4}\u{e4} x", &told(4)), Some(("\u{e4}\u{e4} x".to_owned(), 1, 3)));
        assert_eq!(line_of("select", &Told::default()), None);
    }

    #[test]
    fn places_are_read() {
        let of = |target| place(target, 0).map_err(|failure| failure.to_string());
        assert_eq!(of("db:5433"), Ok(("db".to_owned(), 5433)));
        assert_eq!(of("[::1]:5433"), Ok(("::1".to_owned(), 5433)));
        assert_eq!(of("db"), Ok(("db".to_owned(), 5432)));
        assert!(of("/nowhere/pod").is_err());
    }
}
