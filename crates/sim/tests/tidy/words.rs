//! The words of the field are used, and not those that were ours alone.

use super::{assert_none, has_word, sources};

/// Words that were ours alone, and what to say: whole words of code and comments below SQL, in either case.
/// (In SQL and in documents they may be ordinary English.)
///
/// `inherit` is not among them: a new row inherits the lock of the gap that it divides, and a child process
/// its parent's files. Who takes over from a dead host is its successor.
const PRIVATE: &[(&str, &str)] = &[
    ("asker", "requester"),
    ("beaten", "refused, penalty"),
    ("buried", "fenced"),
    ("bury", "fence, of a host; close, of its log"),
    ("circle", "cycle of the wait-for graph"),
    ("circles", "cycles of the wait-for graph"),
    ("cold", "unrestored"),
    ("crew", "worker group"),
    ("desk", "request queue, handle"),
    ("doom", "mark as deleted"),
    ("doomed", "deleted"),
    ("heart", "heartbeat"),
    ("hearts", "heartbeats"),
    ("heir", "successor, of a dead host"),
    ("heirs", "successors"),
    ("keeper", "failure detector"),
    ("life", "incarnation, of a host"),
    ("overrule", "fence"),
    ("overruled", "fenced"),
    ("painter", "status writer"),
    ("relief", "eviction"),
    ("settle", "resolve locks, wait until durable, drain mail, quiesce"),
    ("settled", "resolved, durable, drained, at rest"),
    ("shortage", "out of memory"),
    ("trouble", "fault"),
    ("troubles", "faults"),
    ("unborn", "uncommitted"),
    ("warm", "restored, or of a cache: warmed up"),
    ("wish", "action, of a request"),
    ("wishes", "actions, of requests"),
];

/// Names of types that say nothing of what the type is, and what to say, below SQL.
const VAGUE_TYPES: &[(&str, &str)] = &[
    ("Place", "what lies there: a row's location, a log position"),
    ("Places", "index map"),
    ("Turn", "a step, a poll, a spin"),
];

/// True if the line declares a type of this name.
fn declares(line: &str, name: &str) -> bool {
    let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    let is_declared = |word: &str| matches!(word, "struct" | "enum" | "trait" | "type");
    words.by_ref().take(5).skip_while(|word| !is_declared(word)).nth(1) == Some(name)
}

#[test]
fn the_fields_words_are_used() {
    let below_sql = ["fabric", "pod", "store", "engine", "rivals"].map(|name| format!("crates/{name}/src/"));
    let mut breaches = Vec::new();
    for file in sources().filter(|file| below_sql.iter().any(|folder| file.path.starts_with(folder))) {
        // (The attribute is Rust's.)
        for (number, line) in file.lines().filter(|(_, line)| line.trim() != "#[cold]") {
            for (name, instead) in VAGUE_TYPES.iter().filter(|(name, _)| declares(line, name)) {
                breaches.push(format!("{}:{number}: a type `{name}`: say {instead}", file.path));
            }
            let line = line.to_lowercase();
            for (word, instead) in PRIVATE.iter().filter(|(word, _)| has_word(&line, word)) {
                breaches.push(format!("{}:{number}: `{word}`: say {instead}", file.path));
            }
        }
    }
    assert_none("private words", &breaches);
}
