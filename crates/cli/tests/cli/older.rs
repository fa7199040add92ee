//! Data directories that older programs wrote, kept in the tree: they are started again for ever.
//!
//! `tests/data/pod-of-manifests-2.tar.gz`: two hosts, SQL; tables, an index, a sequence, a view, a type, a
//! role, rows in images and in logs, written by the last program that wrote manifests of format 2; every
//! process of it was killed.

use crate::backup::Connection;
use crate::pods::{Up, done};
use crate::sql::ports;
use crate::*;

/// Unpacks a pod's directory of the tree, for two hosts that listen at `port` and the one after it.
fn unpacked(folder: &Folder, archive: &str, port: u16) -> String {
    let dir = folder.file("pod");
    std::fs::create_dir_all(&dir).expect("a temporary folder");
    let archive = format!("{}/tests/data/{archive}", env!("CARGO_MANIFEST_DIR"));
    let unpacked = output(Command::new("tar").args(["-xzf", &archive, "-C", &dir]));
    assert!(unpacked.status.success(), "{}", text(&unpacked.stderr));
    let description = format!("{dir}/pod.json");
    let mut pod: Value = serde_json::from_slice(&bytes_of(&description)).expect("a pod");
    // Gone with the machine that it was on.
    pod["memory"] = folder.file("memory").into();
    pod["job"]["sql"]["port"] = port.into();
    pod["job"]["data"]["path"] = format!("{dir}/data").into();
    std::fs::write(&description, pod.to_string()).expect("a temporary file");
    dir
}

/// What the first one holds, and what later statements make of it.
#[track_caller]
fn check(port: u16, notes: i64) {
    let connection = Connection::new(port);
    let numbers = |sql: &str| connection.numbers(sql);
    let accounts = "select sum(balance * 100)::bigint, count(*), sum(opened - date '2026-01-01')::bigint, \
                    sum(cardinality(tags)) from account";
    assert_eq!(numbers(accounts), [[801_400, 39, 780, 78]]);
    assert_eq!(numbers("select count(*), max(id) from note"), [[notes, notes]]);
    assert_eq!(numbers("select count(*) from note where m = 'sad' and body->>'last' = 'true'"), [[1]]);
    assert_eq!(numbers("select id from account where owner = 'nobody'"), [[7]]);
    assert_eq!(numbers("select count(*) from rich"), [[30]]);
    let refused = connection.run("insert into account values (99, 'x', -1)").unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("23514"));
    assert_eq!(
        numbers("select count(*) from information_schema.role_table_grants where grantee = 'reader'"),
        [[1]]
    );
}

#[test]
fn a_pod_of_format_2_is_started_again_works_and_is_started_once_more() {
    let folder = Folder::new("older");
    let port = ports(2);
    let dir = unpacked(&folder, "pod-of-manifests-2.tar.gz", port);
    let up = Up::start(&format!("recover {dir}"));
    check(port, 21);
    let connection = Connection::new(port + 1);
    assert!(connection.numbers("select nextval('ticket')")[0][0] > 3);
    connection.run("insert into note(account, body, m) values (5, '{}', 'glad')").expect("a row");
    connection.run("create index on note(account)").expect("an index");
    up.end();
    let up = Up::start(&format!("recover {dir}"));
    check(port, 22);
    done(&format!("backup {dir} {}", folder.file("backup")));
    up.end();
    done(&format!("verify {dir}"));
    // The backup keeps the pod's identity as well.
    let restored = folder.file("restored");
    done(&format!("restore {} {restored} --port {port}", folder.file("backup")));
    let up = Up::start(&format!("recover {restored}"));
    check(port, 22);
    up.end();
}

#[test]
fn a_directory_of_a_newer_program_is_refused_and_stays_as_it_is() {
    let folder = Folder::new("newer");
    let dir = unpacked(&folder, "pod-of-manifests-2.tar.gz", ports(2));
    let manifest = format!("{dir}/data/host-0/pod");
    let mut bytes = bytes_of(&manifest);
    bytes[12..16].copy_from_slice(&9_u32.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[12..]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&manifest, &bytes).expect("a temporary file");
    refused(
        &mut liger(&format!("recover {dir}")),
        &["its format is 9, this program reads 2 to 4", "use the program"],
    );
    assert_eq!(bytes_of(&manifest), bytes);
}
