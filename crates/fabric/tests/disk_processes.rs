//! Storage between processes: one holds a directory at a time, until it dies; a full disk says so.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use liger_fabric::disk::{Disk, DiskErrorKind};
use liger_fabric::native::{Mapping, Native};
use liger_fabric::{Cx, HostId, WorkerId};

const DIRECTORY: &str = "LIGER_TEST_DISK";

fn context() -> Cx<Native> {
    Cx::new(Native::new(Mapping::anonymous(4096).expect("memory")), HostId(0), WorkerId(0), 1)
}

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("liger-disk-{}-{name}", std::process::id()));
    // A run that was killed may have left it.
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// Holds the directory and waits to be killed. Only does something in a child.
#[test]
fn holder() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let cx = context();
    let disk = Disk::native(directory.as_ref()).expect("free");
    disk.create(&cx, "left").and_then(|file| file.append(&cx, b"written")).expect("a file");
    println!("\nheld");
    let _ = std::io::stdin().lines().next();
}

/// Fills a file up to the limit of its size. Only does something in a child.
#[test]
fn filler() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let cx = context();
    let file = Disk::native(directory.as_ref()).and_then(|disk| disk.create(&cx, "full")).expect("a file");
    let mut appended = 0;
    let error = loop {
        match file.append(&cx, &[7; 3000]) {
            Ok(at) => appended = at + 3000,
            Err(error) => break error,
        }
        assert!(appended < 1 << 20, "there is no limit");
    };
    assert_eq!(error.kind, DiskErrorKind::Full);
    assert_eq!(file.len(&cx), Ok(appended), "nothing of the failed append is left");
    file.sync(&cx).expect("what fitted is synced");
    println!("\nfull");
}

fn command(test: &str, directory: &PathBuf, limits: &str) -> Command {
    let mut command = Command::new("sh");
    let own = std::env::current_exe().expect("this program");
    command.arg("-c").arg(format!("{limits} exec \"$0\" --exact {test} --nocapture")).arg(own);
    command.env(DIRECTORY, directory).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn await_line(child: &mut Child, line: &str) {
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let found = output.lines().any(|read| read.expect("text") == line);
    assert!(found, "the child ended without saying {line:?}");
}

#[test]
fn a_directory_is_let_go_when_its_process_dies() {
    let directory = scratch("killed");
    let mut child = command("holder", &directory, "").spawn().expect("a child");
    await_line(&mut child, "held");
    assert_eq!(Disk::native(&directory).err().expect("held").kind, DiskErrorKind::Locked);
    child.kill().expect("killed");
    child.wait().expect("ended");
    let (cx, mut bytes) = (context(), [0; 7]);
    let disk = Disk::native(&directory).expect("free");
    disk.open(&cx, "left").and_then(|file| file.read_exact_at(&cx, 0, &mut bytes)).expect("it was written");
    assert_eq!(&bytes, b"written");
    std::fs::remove_dir_all(&directory).expect("removed");
}

#[test]
fn a_full_disk_says_so_and_half_says_nothing() {
    let directory = scratch("full");
    // Ignored, the signal of the limit becomes an error of the write.
    let child = command("filler", &directory, "trap '' XFSZ; ulimit -f 16;").output().expect("a child");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("\nfull\n"), "{said}");
    std::fs::remove_dir_all(&directory).expect("removed");
}
