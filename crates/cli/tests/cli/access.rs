//! Who may come to a pod with SQL, what its operators see, and the shell: roles and passwords through `psql`
//! where it is installed, everything else through `liger sql`.

#![expect(clippy::disallowed_methods, reason = "real processes are watched in real time")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::pods::Up;
use crate::sql::ports;
use crate::*;

/// Asks with the shell, as a role with a password: rows as JSON, or what was told.
fn ask(port: u16, (user, password): (&str, &str), sql: &str) -> Result<String, String> {
    let mut command = liger(&format!("sql 127.0.0.1:{port} -U {user} --json -c"));
    let output = output(command.arg(sql).env("PGPASSWORD", password));
    let said = text(&output.stdout).trim().to_owned();
    if output.status.success() { Ok(said) } else { Err(text(&output.stderr)) }
}

#[track_caller]
fn fine(port: u16, who: (&str, &str), sql: &str) -> String {
    ask(port, who, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

#[track_caller]
fn not(port: u16, who: (&str, &str), sql: &str, part: &str) {
    let error = ask(port, who, sql).expect_err(sql);
    assert!(error.contains(part), "'{part}' is not in: {error}");
}

const ROOT: (&str, &str) = ("postgres", "first secret");

/// The figures of a host.
fn figures(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("figures are served");
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered");
    text
}

#[test]
fn roles_are_the_pods_and_passwords_are_asked_for() {
    let (folder, port) = (Folder::new("access"), ports(4));
    let (dir, password) = (folder.file("pod"), folder.holding("password", b"first secret\n"));
    let metrics = port + 2;
    let up = Up::start(&format!(
        "up {dir} --hosts 2 --port {port} --lease 2s --auth scram-sha-256 --password-file {password} --tls \
         --metrics-port {metrics} --log-min-duration 0"
    ));
    not(port, ("postgres", "wrong"), "select 1", "28P01: password authentication failed");
    not(port, ("nobody", "wrong"), "select 1", "28P01: password authentication failed");
    fine(
        port,
        ROOT,
        "create role app login password 'one' connection limit 2; create table t (id int primary key)",
    );
    let app = ("app", "one");
    assert_eq!(fine(port + 1, app, "select current_user as who"), r#"{"who":"app"}"#);
    not(port + 1, app, "select * from t", "42501: permission denied for table t");
    fine(port + 1, ROOT, "grant select, insert on t to app");
    fine(port, app, "insert into t values (1)");
    assert_eq!(fine(port + 1, app, "select * from t"), r#"{"id":1}"#);
    not(port, app, "delete from t", "42501");
    not(port, app, "create role other", "42501");
    not(port, app, "select rolpassword from pg_authid", "42501: permission denied for table pg_authid");
    fine(port, ROOT, "revoke insert on t from app");
    not(port + 1, app, "insert into t values (2)", "42501");
    fine(port + 1, app, "alter role app password 'two'");
    not(port, app, "select 1", "28P01");
    fine(port, ("app", "two"), "select 1");
    let connected = |count: usize| {
        let (start, sql) =
            (Instant::now(), "select count(*) as n from pg_stat_activity where usename = 'app'");
        while fine(port, ROOT, sql) != format!(r#"{{"n":{count}}}"#) {
            assert!(start.elapsed() < Duration::from_secs(20), "{count} connections of app");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    connected(0);
    let held = [1, 2].map(|count| {
        let child = hold(port, ("app", "two"));
        connected(count);
        child
    });
    not(port, ("app", "two"), "select 1", "53300: too many connections for role");
    for mut child in held {
        drop(child.stdin.take());
        child.wait().expect("our child");
    }
    fine(port, ROOT, "alter role app valid until '2020-01-01'");
    not(port, ("app", "two"), "select 1", "28P01");
    fine(port, ROOT, "alter role app valid until 'infinity' nologin");
    not(port, ("app", "two"), "select 1", "28000: role \"app\" is not permitted to log in");
    let text = figures(metrics + 1);
    assert!(text.contains("liger_transactions_total{outcome=\"committed\"} "), "{text}");
    assert!(
        text.contains("liger_sql_logins_failed_total ") && text.contains("liger_host_up{host=\"0\"} 1"),
        "{text}"
    );
    let start = Instant::now();
    loop {
        let shown = json(&mut liger(&format!("status {dir} --json")));
        if shown["hosts"][0]["transactions"].as_u64() > Some(0) {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{shown}");
        std::thread::sleep(Duration::from_millis(50));
    }
    up.end();
    let said = text_of(&format!("{dir}/host-0/said"));
    assert!(said.contains("event=login_refused host=0") && said.contains("sqlstate=28P01"), "{said}");
    assert!(said.contains("event=slow_statement") && !said.contains("'one'"), "{said}");
    let up = Up::start(&format!("recover {dir}"));
    not(port, app, "select 1", "28");
    fine(port, ROOT, "drop owned by app; drop role app");
    up.end();
}

fn text_of(path: &str) -> String {
    text(&bytes_of(path))
}

/// A connection that stays until its standard input ends.
fn hold(port: u16, (user, password): (&str, &str)) -> std::process::Child {
    let mut command = liger(&format!("sql 127.0.0.1:{port} -U {user}"));
    command.env("PGPASSWORD", password).stdin(Stdio::piped()).stdout(Stdio::null());
    command.spawn().expect("the binary runs")
}

#[test]
fn a_host_is_drained_and_one_joins_by_hand() {
    let (folder, port) = (Folder::new("drain"), ports(2));
    let (dir, who) = (folder.file("liger-data"), ("postgres", ""));
    let up = Up::start(&format!("up --hosts 2 --port {port} --data {dir} --lease 1s"));
    fine(port, who, "create table t (id int primary key)");
    let mut busy = hold(port + 1, who);
    let mut input = busy.stdin.take().expect("piped");
    input.write_all(b"begin; insert into t values (1);\n").expect("it reads");
    let (open, start) =
        ("select state from pg_stat_activity where state = 'idle in transaction'", Instant::now());
    while fine(port + 1, who, open).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(20), "the transaction begins");
        std::thread::sleep(Duration::from_millis(20));
    }
    let early = output(&mut liger(&format!("drain {dir} 1 --within 200ms")));
    assert_eq!(early.status.code(), Some(1), "{}", text(&early.stderr));
    assert!(text(&early.stderr).contains("1 clients of host 1"), "{}", text(&early.stderr));
    not(port + 1, who, "select 1", "57P03");
    input.write_all(b"commit;\n").expect("it reads");
    crate::pods::done(&format!("drain {dir} 1"));
    drop(input);
    assert!(busy.wait().expect("our child").code().is_some());
    let start = Instant::now();
    while ask(port, who, "select id from t").as_deref() != Ok(r#"{"id":1}"#) {
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", ask(port, who, "select id from t"));
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut child =
        liger(&format!("host --join {dir} --host 1")).stdout(Stdio::null()).spawn().expect("it runs");
    let start = Instant::now();
    while ask(port + 1, who, "select id from t").is_err() {
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", ask(port + 1, who, "select id from t"));
        std::thread::sleep(Duration::from_millis(50));
    }
    refused(&mut liger(&format!("host --join {dir} --host 0")), &["host 0 runs already"]);
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.expect("kill runs").success());
    assert_eq!(child.wait().expect("our child").code(), Some(0));
    assert_eq!(fine(port, who, "select id from t"), r#"{"id":1}"#);
    up.end();
    // The directory that is meant where none is named.
    let here = std::path::Path::new(&dir).parent().expect("a folder");
    refused(liger("up").current_dir(here), &["liger-data holds a pod", "liger recover"]);
    refused(&mut liger(&format!("up {dir} --data {dir}")), &["--data"]);
}

#[test]
fn rules_may_demand_encryption() {
    let (folder, port) = (Folder::new("rules"), ports(1));
    let rules = b"hostssl all all 127.0.0.1/32 trust\nhost other all all trust\n";
    let (dir, rules) = (folder.file("pod"), folder.holding("rules", rules));
    let up = Up::start(&format!(
        "up {dir} --hosts 1 --port {port} --lease 2s --tls --hba {rules} --log-format json"
    ));
    let shell = |more: &str| output(liger(&format!("sql {dir} {more} -c")).arg("select 1 as one"));
    let plain = shell("--tls never");
    let said = text(&plain.stderr);
    assert!(said.contains("28000: no pg_hba.conf entry") && said.contains("no encryption"), "{said}");
    assert!(shell("--tls require").status.success());
    assert!(text(&shell("--json").stdout).contains(r#"{"one":1}"#));
    let log = text_of(&format!("{dir}/host-0/said"));
    assert!(log.contains(r#""event":"login_refused","host":"0""#), "{log}");
    up.end();
}

#[test]
fn what_would_leave_a_pod_open_is_refused() {
    let folder = Folder::new("open");
    let dir = folder.file("pod");
    let up = |more: &str| liger(&format!("up {dir} --listen 0.0.0.0 {more}"));
    refused(&mut up(""), &["--listen 0.0.0.0", "nothing is asked", "--auth scram-sha-256"]);
    refused(&mut up("--auth trust"), &["nothing is asked"]);
    let open = folder.holding("open", b"local all all trust\nhost all all 10.0.0.0/8 trust\n");
    refused(&mut up(&format!("--hba {open}")), &["line 2", "trusts them"]);
    let bad = folder.holding("bad", b"host all all everywhere trust\n");
    refused(&mut up(&format!("--hba {bad}")), &["line 1", "not an address"]);
    refused(&mut up("--auth scram-sha-256"), &["--password-file"]);
    refused(&mut up(&format!("--auth scram-sha-256 --password-file {dir}/nothing")), &["nothing"]);
    refused(&mut liger(&format!("up {dir} --port 6000 --metrics-port 6001")), &["--metrics-port 6001"]);
    let little = ["--transaction-memory is 1.0 MiB", "at least 16.0 MiB"];
    refused(&mut liger(&format!("up {dir} --transaction-memory 1M")), &little);
    let short = ["--replay-limit is 8.0 KiB", "at least 256.0 KiB"];
    refused(&mut liger(&format!("up {dir} --replay-limit 8K")), &short);
    refused(&mut liger(&format!("up {dir} --restore-percent 0")), &["--restore-percent", "1..=100"]);
    assert!(!exists(&dir), "nothing was made");
}

#[test]
fn operators_see_a_pod_and_the_shell_shows_it() {
    let (folder, port) = (Folder::new("watch"), ports(2));
    let dir = folder.file("pod");
    let up = Up::start(&format!("up {dir} --hosts 2 --port {port} --lease 2s"));
    let who = ("postgres", "");
    fine(
        port,
        who,
        "create table t (id int primary key, v text); \
         insert into t select g, 'v' from generate_series(1, 500) g",
    );
    let start = Instant::now();
    for host in 0..2 {
        let hosts = "select host, state, port from pod_hosts order by 1";
        let expected = format!(
            "{{\"host\":0,\"state\":\"ALIVE\",\"port\":{port}}}\n\
             {{\"host\":1,\"state\":\"ALIVE\",\"port\":{}}}",
            port + 1
        );
        while fine(port + host, who, hosts) != expected {
            assert!(start.elapsed() < Duration::from_secs(20), "{}", fine(port + host, who, hosts));
            std::thread::sleep(Duration::from_millis(50));
        }
        let memory =
            "select count(*) as n from pod_memory where size_bytes > used_bytes and budget_bytes > 0";
        assert_eq!(fine(port + host, who, memory), r#"{"n":2}"#);
    }
    let rows = |host: u16| {
        let found = fine(port + host, who, "select rows_local as n from pod_tables where relname = 't'");
        let found: Value = serde_json::from_str(&found).expect("a row");
        found["n"].as_u64().expect("a number")
    };
    assert_eq!(rows(0) + rows(1), 500);
    let sized = "select pg_table_size('t') > 5000 and pg_indexes_size('t') >= 0 as large from t limit 1";
    assert_eq!(fine(port, who, sized), r#"{"large":true}"#);
    for id in 0..3 {
        fine(port, who, &format!("select v from t where id = {id} + 1"));
    }
    let counted =
        "select calls, rows from pg_stat_statements where query = 'select v from t where id = $1 + $2'";
    assert_eq!(fine(port, who, counted), r#"{"calls":3,"rows":3}"#);
    let own = "select state, wait_event_type is null as works, query like 'select state%' as own from \
               pg_stat_activity where pid = pg_backend_pid()";
    assert_eq!(fine(port, who, own), r#"{"state":"active","works":true,"own":true}"#);
    let progress =
        "insert into t select 900, command || ' ' || phase from pod_progress where pid = pg_backend_pid()";
    fine(port, who, progress);
    let told = r#"{"v":"INSERT reading rows"}"#;
    assert_eq!(fine(port, who, "delete from t where id = 900 returning v"), told);
    let locks = "select count(*) as n from pg_locks where pid = pg_backend_pid() and granted";
    assert_eq!(fine(port, who, locks), r#"{"n":1}"#);
    let input = "select 1 as a,\n 'x;' as b;\n\\d t\ncopy t from stdin;\n501\tcopied\n\\.\n\
                 select v from t where id = 501;\n\
                 select nothing;\nselect 'never';\n";
    let mut child = liger(&format!("sql {dir} --host 1"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("our child");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    for part in
        [" a | b\n---+----\n 1 | x;\n(1 row)\n", " id     | integer | not null |", "COPY 1\n", "copied\n"]
    {
        assert!(out.contains(part), "'{part}' is not in: {out}{err}");
    }
    assert!(!out.contains("never"), "{out}");
    let place =
        "ERROR:  42703: column \"nothing\" does not exist\nLINE 1: select nothing;\n               ^\n";
    assert!(err.contains(place), "{err}");
    up.end();
}
