//! Real clients: tokio-postgres; psql and pgbench where they are installed.

use std::net::SocketAddr;
use std::process::{Command, Output};

use liger_server::auth::tls::Certificate;
use tokio_postgres::{Config, NoTls, SimpleQueryMessage};

use crate::start;

/// Runs one of PostgreSQL's programs; `None` if it is not installed.
fn program(name: &str, arguments: &[&str], password: &str) -> Option<Output> {
    let output = Command::new(name).args(arguments).env("PGPASSWORD", password).output();
    output.inspect_err(|error| eprintln!("left out, {name}: {error}")).ok()
}

fn tokio(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work);
}

async fn connect(address: SocketAddr, user: &str, password: &str) -> tokio_postgres::Client {
    let mut config = Config::new();
    config.host("127.0.0.1").port(address.port()).user(user).password(password).dbname("open");
    let (client, connection) = config.connect(NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}

#[test]
fn tokio_postgres_prepares_pipelines_and_copies() {
    let (_server, address) = start(|_| {});
    tokio(async {
        let mut client = connect(address, "alice", "secret").await;
        let row = client.query_one("select 1", &[]).await.expect("a row");
        assert_eq!(row.get::<_, i32>(0), 1);
        let statement = client.prepare("echo $1 $2").await.expect("prepared");
        let (first, second) = tokio::join!(
            client.query_one(&statement, &[&"a", &None::<String>]),
            client.query_one(&statement, &[&"b", &"c"]),
        );
        assert_eq!(first.expect("a row").get::<_, Option<String>>(1), None);
        assert_eq!(second.expect("a row").get::<_, String>(1), "[99]", "parameters came in binary");
        let rows = client.query("rows 1000", &[]).await.expect("rows");
        assert_eq!(rows[999].get::<_, &str>(1), "row 1000");
        let messages = client.simple_query("rows 1; select 1").await.expect("both");
        let count = messages.iter().filter(|message| matches!(message, SimpleQueryMessage::Row(_))).count();
        assert_eq!(count, 2);
        let error = client.query("error 40001 again", &[]).await.expect_err("an error");
        assert_eq!(error.code().map(|code| code.code()), Some("40001"));
        let transaction = client.transaction().await.expect("begun");
        let portal = transaction.bind("rows 5", &[]).await.expect("bound");
        assert_eq!(transaction.query_portal(&portal, 3).await.expect("rows").len(), 3);
        assert_eq!(transaction.query_portal(&portal, 3).await.expect("rows").len(), 2);
        transaction.commit().await.expect("committed");
    });
}

#[test]
fn values_of_many_types_arrive_in_both_formats() {
    let (_server, address) = start(|_| {});
    tokio(async {
        let client = connect(address, "trusty", "").await;
        let row = client.query_one("types", &[]).await.expect("a row");
        assert!(row.get::<_, bool>(0));
        assert_eq!(
            (row.get::<_, i16>(1), row.get::<_, i32>(2), row.get::<_, i64>(3)),
            (-2, i32::MIN, i64::MAX)
        );
        assert_eq!(
            (row.get::<_, u32>(4), row.get::<_, f32>(5), row.get::<_, f64>(6)),
            (u32::MAX, 0.1, -1e300)
        );
        assert_eq!((row.get::<_, &str>(7), row.get::<_, &[u8]>(8)), ("text", &[0, 255, b'a'][..]));
        let second = std::time::UNIX_EPOCH + std::time::Duration::from_secs(946_684_801);
        assert_eq!(row.get::<_, std::time::SystemTime>(9), second, "a second after the year 2000 began");
        assert_eq!(row.get::<_, Vec<Option<i32>>>(10), [Some(1), None, Some(3)]);
        assert_eq!(row.get::<_, Option<i32>>(11), None);
        let messages = client.simple_query("types").await.expect("a row");
        let SimpleQueryMessage::Row(row) = &messages[1] else { panic!("{messages:?}") };
        let texts: Vec<_> = (0..row.len()).map(|at| row.get(at)).collect();
        let numbers = ["t", "-2", "-2147483648", "9223372036854775807", "4294967295", "0.1", "-1e+300"];
        assert_eq!(texts[..7], numbers.map(Some));
        assert_eq!(texts[7..11], ["text", "\\x00ff61", "2000-01-01 00:00:01", "{1,NULL,3}"].map(Some));
        assert_eq!(texts[11], None);
    });
}

#[test]
fn tokio_postgres_is_told_of_a_wrong_password_and_can_cancel() {
    let (_server, address) = start(|_| {});
    tokio(async {
        for user in ["alice", "expired", "stranger"] {
            let mut config = Config::new();
            config.host("127.0.0.1").port(address.port()).user(user).dbname("open");
            config.password(if user == "alice" { "wrong" } else { "secret" });
            let error = config.connect(NoTls).await.err().expect("refused");
            assert_eq!(error.code().map(|code| code.code()), Some("28P01"), "{user}");
        }
        let client = connect(address, "trusty", "").await;
        let token = client.cancel_token();
        let (statement, cancelled) = tokio::join!(client.simple_query("sleep 60000"), async {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            token.cancel_query(NoTls).await
        });
        cancelled.expect("sent");
        assert_eq!(statement.expect_err("stopped").code().map(|code| code.code()), Some("57014"));
    });
}

#[test]
fn psql_works_in_clear_encrypted_and_locally() {
    let folder = std::env::temp_dir().join(format!("liger-psql-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (server, address) = start(|config| {
        config.certificate = Some(Certificate::Folder(folder.clone()));
        let rules =
            "local all all trust\nhostssl all alice all scram-sha-256\nhostnossl all trusty all trust";
        config.rules = liger_server::auth::hba::Rules::parse(rules).expect("well formed");
        config.local_sockets = vec![folder.join(".s.PGSQL.5432")];
    });
    let tcp = format!("host=127.0.0.1 port={} dbname=open", address.port());
    let local = format!("host={} dbname=open user=trusty", folder.display());
    let clear = format!("{tcp} sslmode=disable user=trusty");
    let encrypted = format!("{tcp} user=alice sslmode=require channel_binding=require");
    let pinned = format!("{tcp} user=alice sslmode=verify-ca sslrootcert={}/server.crt", folder.display());
    for connection in [clear, encrypted, pinned, local] {
        let arguments = [&connection, "-AtX", "-c", "rows 2", "-c", "copy out 2", "-c", "\\set x 1"];
        let Some(output) = program("psql", &arguments, "secret") else { return };
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text, "1|row 1\n2|row 2\n1\n2\n", "{connection}: {output:?}");
    }
    let wrong = format!("{tcp} user=alice sslmode=require");
    let output = program("psql", &[&wrong, "-c", "select 1"], "wrong").expect("it was there");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("FATAL:  password authentication failed for user \"alice\""), "{text}");
    assert!(server.metrics().render().contains("sqlstate=\"28P01\"} 1"));
    drop(server);
    std::fs::remove_dir_all(&folder).expect("the socket is gone, and all the rest");
}

#[test]
fn pgbench_works_in_its_three_modes() {
    let (_server, address) = start(|_| {});
    let script = std::env::temp_dir().join(format!("liger-pgbench-{}.sql", std::process::id()));
    std::fs::write(&script, "begin;\nselect 1;\nend;\n").expect("written");
    for mode in ["simple", "extended", "prepared"] {
        let connection = format!("host=127.0.0.1 port={} dbname=open user=trusty", address.port());
        let script = script.display().to_string();
        let arguments = ["-n", "-f", &script, "-M", mode, "-c", "4", "-t", "200", &connection];
        let Some(output) = program("pgbench", &arguments, "") else { break };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("number of transactions actually processed: 800/800"), "{mode}: {output:?}");
    }
    std::fs::remove_file(&script).expect("removed");
}
