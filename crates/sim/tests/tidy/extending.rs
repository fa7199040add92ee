//! docs/extending.md says how many files outside its own folder a new thing changes; those that are there
//! show it.

use super::{assert_none, has_word, sources};

/// Names by which sources know a workload: words in lower case. Those that an evaluation is about
/// (`liger reproduce`) are known there, too, and are not listed.
const WORKLOADS: &[&str] = &["smallbank", "tatp"];
/// Where all workloads are listed.
const TABLE: &str = "crates/workload/src/lib.rs";

#[test]
fn a_workload_is_its_folder_and_a_line_of_the_table() {
    let mut breaches = Vec::new();
    for name in WORKLOADS {
        let folder = format!("crates/workload/src/{name}/");
        let is_its = |path: &str| path.starts_with(&folder) || path == TABLE;
        let table = sources().find(|file| file.path == TABLE).expect("the table is there");
        let in_table = table.lines().any(|(_, line)| line.trim().ends_with(&format!("mod {name};")));
        assert!(in_table && sources().any(|file| file.path.starts_with(&folder)), "no workload {name}");
        for file in sources().filter(|file| file.path.contains("/src/") && !is_its(&file.path)) {
            let named = file.lines().filter(|(_, line)| has_word(&line.to_lowercase(), name));
            let tell = |(number, _)| format!("{}:{number}: knows `{name}`: ask the table", file.path);
            breaches.extend(named.map(tell));
        }
    }
    assert_none("workloads", &breaches);
}
