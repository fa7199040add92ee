//! Bits of a pod's shared memory flip while clients work: what can be made good is, the rest is refused and
//! comes back when the pod starts again.

#![expect(clippy::disallowed_methods, reason = "real hosts look at their rows in real time")]

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;

use crate::backup::Connection;
use crate::pods::{Up, done};
use crate::sql::ports;
use crate::*;

const ROWS: i64 = 200;
/// Bytes of the longest text.
const LONGEST: usize = 12;

/// Flips a bit of every copy of texts that are in rows in shared memory; how many there were. Rows are
/// behind the rings, in which the text may be, too.
fn flip(dir: &str, texts: &[String]) -> usize {
    let pod: Value = serde_json::from_slice(&bytes_of(&format!("{dir}/pod.json"))).expect("an object");
    let memory = pod["memory"].as_str().expect("a memory").to_owned();
    let inspected = json(&mut liger(&format!("inspect {memory} --json")));
    let regions = inspected["regions"].as_array().expect("regions");
    let rows = regions.iter().find(|region| region["part"] == "BlockHeap").expect("a place for rows");
    let number = |key: &str| rows[key].as_u64().expect("a number") as usize;
    let (start, len) = (number("start"), number("bytes"));
    let path = memory.split_once(':').map_or(memory.as_str(), |(_, path)| path);
    let file = OpenOptions::new().read(true).write(true).open(path).expect("the pod's memory");
    let mut found = 0;
    let mut piece = vec![0; 1 << 20];
    // Texts do not reach over the ends of rows, and rows do not reach over those of pieces.
    for at in (start..start + len).step_by(piece.len()) {
        let read = file.read_at(&mut piece, at as u64).expect("the pod's memory");
        for (offset, bytes) in piece[..read].windows(LONGEST).enumerate() {
            if bytes[0] == b'l' && texts.iter().any(|text| bytes.starts_with(text.as_bytes())) {
                file.write_all_at(&[bytes[3] ^ 0x08], (at + offset + 3) as u64).expect("the pod's memory");
                found += 1;
            }
        }
    }
    found
}

/// What the hosts say at one moment, added up: the scrub goes on.
fn status<const N: usize>(dir: &str, keys: [&str; N]) -> [u64; N] {
    let hosts = json(&mut liger(&format!("status {dir} --json")))["hosts"].clone();
    let hosts = hosts.as_array().expect("hosts");
    keys.map(|key| hosts.iter().filter_map(|host| host[key].as_u64()).sum())
}

#[test]
fn damaged_rows_are_made_good_or_refused_and_come_back() {
    let folder = Folder::new("damage");
    let (dir, port) = (folder.file("pod"), ports(2));
    let mut up = Up::start(&format!("up {dir} --hosts 2 --port {port}"));
    let (first, second) = (Connection::new(port), Connection::new(port + 1));
    first.run("create table marks (id int primary key, name text, n int)").expect("a table");
    let filled = "insert into marks select g, 'early-' || g || '-mark', 0 from generate_series(1, 200) g";
    first.run(filled).expect("rows");
    // Each host reads all, so that all rows are shared; one of them changes all.
    second.run("update marks set name = 'late-' || id || '-mark', n = 1").expect("changed");
    assert_eq!(first.numbers("select count(*), sum(n) from marks")[0], [ROWS, ROWS]);
    let texts: Vec<String> = (1..=40).map(|id| format!("late-{id}-mark")).collect();
    let flipped = flip(&dir, &texts);
    assert!(flipped >= 10, "{flipped} rows are in shared memory");
    // The pod looks at its rows while it works: then nobody is shown what has flipped. (A copy that is no
    // row's block any more is nobody's.)
    let is_right = |connection: &Connection, id: i64| {
        let right = format!("select 1 / (name = 'late-{id}-mark')::int from marks where id = {id}");
        let answer = connection.run(&right);
        answer.is_ok() || answer.is_err_and(|error| error.code() == Some(&SqlState::DATA_CORRUPTED))
    };
    let start = Instant::now();
    while !(1..=40).all(|id| is_right(&first, id) && is_right(&second, id)) {
        assert!(start.elapsed() < Duration::from_secs(60), "{flipped} {:?}", status(&dir, ["rows_damaged"]));
    }
    let mut refused_rows = 0;
    for id in 1..=ROWS {
        let read = |from: &Connection| from.run(&format!("update marks set n = n + 1 where id = {id}"));
        for answer in [read(&first), read(&second)] {
            let Err(error) = answer else { continue };
            assert_eq!(error.code(), Some(&SqlState::DATA_CORRUPTED), "{error}");
            refused_rows += 1;
        }
    }
    let [damaged, healed, scrubbed] = status(&dir, ["rows_damaged", "rows_healed", "rows_scrubbed"]);
    assert!(damaged >= 10 && scrubbed >= damaged, "{damaged} of {scrubbed}");
    assert_eq!(refused_rows, 2 * (damaged - healed), "{damaged} damaged, {healed} made good");
    let output = output(&mut liger(&format!("verify {dir}")));
    let told = text(&output.stdout).lines().filter(|line| line.contains("is damaged")).count() as u64;
    assert_eq!(told, damaged - healed, "{}", text(&output.stdout));
    up.end();
    up = Up::start(&format!("recover {dir}"));
    let again = Connection::new(port);
    let whole = "select count(*), count(*) filter (where name = 'late-' || id || '-mark') from marks";
    assert_eq!(again.numbers(whole)[0], [ROWS, ROWS], "the log had the rows");
    assert_eq!(status(&dir, ["rows_damaged"]), [0]);
    done(&format!("verify {dir}"));
    up.end();
}

#[test]
fn a_pod_without_checksums_says_so() {
    let folder = Folder::new("no-sums");
    let dir = folder.file("pod");
    let up = Up::start(&format!("up {dir} --tables ledger --accounts 100 --row-checksums off"));
    assert!(done(&format!("status {dir}")).contains("no checksums"));
    assert_eq!(json(&mut liger(&format!("status {dir} --json")))["row_checksums"], false);
    up.end();
}
