//! Explorations: what is varied, what is said about it, and what is not run again.

use crate::*;

fn explore(out: &Path, rest: &str) -> Command {
    let mut command =
        liger("explore --workload ycsb --keys 1000 --hosts 2 --workers 1 --virtual-ms 1 --json");
    command.args(rest.split(' ')).arg("--out").arg(out);
    command
}

#[test]
fn a_slower_memory_costs_throughput_and_is_simulated_once() {
    let scratch = Folder::new("explore");
    let vary = "--vary cxl-latency=100,2000 --engine row,sundial+ --cross 100";
    let first = json(&mut explore(&scratch.0, vary));
    let points = first["points"].as_array().expect("points");
    let lines: Vec<_> =
        points.iter().map(|p| (p["line"].as_str().unwrap(), p["x"].as_f64().unwrap())).collect();
    assert_eq!(lines, [("row", 100.0), ("row", 2000.0), ("sundial+", 100.0), ("sundial+", 2000.0)]);
    let rate = |at: usize| points[at]["committed_per_s"].as_f64().expect("a rate");
    assert!(rate(0) > 1.2 * rate(1) && rate(2) > rate(3), "{first}");
    let page = std::fs::read_to_string(scratch.0.join("explore.html")).expect("a report");
    assert!(
        page.contains("<svg") && page.contains("cxl-latency, ns") && page.contains("virtual time"),
        "{page}"
    );
    // What is kept is taken, also by another exploration; what is damaged is run again, and comes out the
    // same.
    let files = || std::fs::read_dir(scratch.0.join("points")).expect("a folder").map(|f| f.unwrap().path());
    assert_eq!(files().count(), 4);
    std::fs::write(files().next().expect("a file"), "{ damaged").expect("writable");
    assert_eq!(json(&mut explore(&scratch.0, vary)), first);
    let more = json(&mut explore(&scratch.0, "--vary cxl-latency=100,300,2000 --engine row --cross 100"));
    assert_eq!((files().count(), &more["points"][2]["trace_hash"]), (5, &points[1]["trace_hash"]));
}

#[test]
fn a_second_parameter_gives_lines() {
    let scratch = Folder::new("explore-two");
    let both = json(&mut explore(&scratch.0, "--vary hosts=1,2 --vary hwcc=0.003,1 --cross 100"));
    let lines: Vec<_> =
        both["points"].as_array().expect("points").iter().map(|p| p["line"].as_str()).collect();
    assert_eq!(lines, [Some("hwcc 0.003"), Some("hwcc 0.003"), Some("hwcc 1"), Some("hwcc 1")]);
    let moves = |at: usize| both["points"][at]["moves_in"].as_f64().expect("a number");
    // 3 KB do not hold the cells of two thousand rows; 1 MB does.
    assert!(moves(1) > 0.05 && moves(3) == 0.0, "{both}");
}

#[test]
fn what_cannot_be_varied_is_refused() {
    let scratch = Folder::new("explore-refused");
    refused(&mut explore(&scratch.0, "--vary latency=1"), &["no parameter \"latency\"", "cxl-latency"]);
    refused(&mut explore(&scratch.0, "--vary hosts=40"), &["hosts: 40", "1 to 16"]);
    refused(&mut explore(&scratch.0, "--vary hosts=1 --vary hosts=2"), &["varied twice"]);
    let three = "--vary hosts=1 --vary workers=1 --vary hwcc=1";
    refused(&mut explore(&scratch.0, three), &["one parameter, or two"]);
    refused(&mut explore(&scratch.0, "--vary hosts=2 --profile nowhere"), &["nowhere"]);
    refused(&mut explore(&scratch.0, "--vary hosts=2 --remote 60/90"), &["--remote", "--workload tpcc"]);
    refused(&mut explore(&scratch.0, "--vary hosts=2 --engine sundial-net --profile dram"), &["[net]"]);
}
