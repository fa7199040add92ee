//! Tidy: the house rules that no compiler checks, over every source and document of the workspace.
//!
//! Doors (which crate may depend on which), where `unsafe` may stand, banned words, sizes of lines, functions
//! and files, how a file opens, how much is asserted, and that links in documents lead somewhere. Every rule
//! reports all its breaches at once, as `path:line: what is wrong and what to do`.
//!
//! Invariants:
//! 1. Only reads files; what git ignores (the patterns of `.gitignore`) and hidden folders other than `.ci`
//!    are skipped.
//! 2. An exception is an entry in a list here, never a comment at the place itself.
//! 3. The shape of a function is taken from rustfmt's indentation; `cargo fmt --check` makes that reliable.

#![forbid(unsafe_code)]

#[path = "tidy/extending.rs"]
mod extending;
#[path = "tidy/mutants.rs"]
mod mutants;
#[path = "tidy/words.rs"]
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Crates from the ground up. A crate may depend on any crate on a lower floor, never on its own floor or a
/// higher one.
const FLOORS: &[&str] =
    &["fabric", "pod", "store", "engine", "rivals", "sql", "server", "workload", "sim", "cli"];
/// Modules of one crate that do not import one another: (source folder, modules).
const APART: &[(&str, &[&str])] = &[("crates/store/src", &["bwtree", "local"])];
/// Rooms of one crate, each of which may import those before it: (source folder, rooms from the ground up).
const ROOMS: &[(&str, &str)] = &[
    (
        "crates/engine/src",
        "checksum names files tables txn catalog history protocol log instance recovery method host row db",
    ),
    (
        "crates/sql/src",
        "error missing panics encoding parse progress interrupt stop regex temporary types func session \
         observe storage catalog slots tree bind plan copy exec",
    ),
];
/// The only crate that may contain `unsafe`.
const UNSAFE_CRATE: &str = "crates/fabric/";

/// Of code and of comments; rustfmt keeps only code within it. Rows of Markdown tables cannot be wrapped and
/// may be wider.
const LINE_COLUMNS_MAX: usize = 110;
const FUNCTION_LINES_MAX: usize = 100;
const FILE_LINES_MAX: usize = 800;
const FILE_LINES_LISTED: usize = 600;
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Files over `FILE_LINES_LISTED` lines. The list may lose lines; a new one needs a reason why the file has
/// no seam.
const LONG_FILES: &[&str] = &[];

/// Words that no source or document contains, and what to do instead. Split, so that this file does not
/// contain them.
const BANNED: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "do it, or say in docs/limitations.md what is missing"),
    (concat!("FIX", "ME"), "fix it, or say in docs/limitations.md what is wrong"),
    (concat!("XX", "X"), "say what is meant"),
    (concat!("todo", "!("), "finish the function"),
    (concat!("unimplemented", "!("), "finish the function"),
    (concat!("dbg", "!("), "remove it"),
];

/// How much the crates below SQL assert: (crate, assertions, assertions in a hundred functions), each at
/// least. A ratchet: who asserts more raises the number, and nobody lowers it without saying why. Tests do
/// not count, neither as assertions nor as functions.
const ASSERTED: &[(&str, usize, usize)] =
    &[("fabric", 258, 30), ("pod", 117, 30), ("store", 114, 30), ("engine", 484, 30)];
/// What stands before an item that only tests compile.
const FOR_TESTS: &[&str] = &["#[cfg(test)]", "#[cfg(any(test, feature = \"testing\"))]"];

/// Phrases that may contain the verb "flush": names of instructions and of a hardware feature, the standard
/// library's method, and the quoted word itself.
const QUOTED_VERB: &[&str] = &["clflushopt", "clflush", "global persistent flush", ".flush()", "\"flush\""];

struct File {
    /// From the workspace root, with `/`.
    path: String,
    bytes: u64,
    /// Empty where the file is not text.
    text: String,
}

impl File {
    fn is(&self, extensions: &[&str]) -> bool {
        extensions.iter().any(|extension| self.path.ends_with(extension))
    }

    /// Numbered from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line))
    }
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("crates/sim lies two folders below the root").to_path_buf()
}

fn files() -> &'static [File] {
    static FILES: OnceLock<Vec<File>> = OnceLock::new();
    FILES.get_or_init(|| {
        let ignored = fs::read_to_string(root().join(".gitignore")).unwrap_or_default();
        let ignored: Vec<&str> = ignored.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).collect();
        let mut files = Vec::new();
        walk(&root(), "", &ignored, &mut files);
        files.sort_by(|a: &File, b: &File| a.path.cmp(&b.path));
        assert!(files.iter().any(|file| file.path == "crates/fabric/src/lib.rs"), "not the workspace root");
        files
    })
}

fn walk(folder: &Path, prefix: &str, ignored: &[&str], files: &mut Vec<File>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries.map(|entry| entry.expect("a folder can be listed")) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().expect("a listed file has a type");
        let hidden_folder = kind.is_dir() && name.starts_with('.') && name != ".ci";
        if hidden_folder || name == ".git" || name == "target" || is_ignored(&path, &name, ignored) {
            continue;
        }
        if kind.is_dir() {
            walk(&entry.path(), &format!("{path}/"), ignored, files);
        } else if kind.is_file() {
            let bytes = entry.metadata().map_or(0, |m| m.len());
            let text = if bytes <= 8 * FILE_BYTES_MAX { fs::read(entry.path()).ok() } else { None };
            let text = text.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
            files.push(File { path, bytes, text });
        }
    }
}

/// The forms of pattern that a short .gitignore has: `/from/root`, `folder/`, `name`, `*.ending`.
fn is_ignored(path: &str, name: &str, patterns: &[&str]) -> bool {
    patterns.iter().any(|pattern| match (pattern.strip_prefix('/'), pattern.strip_prefix('*')) {
        (Some(from_root), _) => path == from_root.trim_end_matches('/'),
        (None, Some(ending)) => name.ends_with(ending),
        (None, None) => name == pattern.trim_end_matches('/'),
    })
}

fn sources() -> impl Iterator<Item = &'static File> {
    files().iter().filter(|file| file.is(&[".rs"]))
}

/// A line of Rust without its comments and the contents of its strings.
fn code_of(line: &str) -> String {
    let mut code = String::new();
    let mut rest = line.chars().peekable();
    let mut in_string = false;
    while let Some(c) = rest.next() {
        match c {
            '\\' if in_string => drop(rest.next()),
            '\'' if !in_string && rest.peek() == Some(&'"') => drop(rest.next()),
            '"' => in_string = !in_string,
            _ if in_string => {}
            '/' if rest.peek() == Some(&'/') => break,
            _ => code.push(c),
        }
    }
    code
}

fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|part| part == word)
}

fn assert_none(rule: &str, breaches: &[String]) {
    assert!(breaches.is_empty(), "{rule}: {} breaches\n  {}\n", breaches.len(), breaches.join("\n  "));
}

/// Names of the crates of this workspace that a Cargo.toml depends on, with line numbers; dev-dependencies
/// too.
fn workspace_dependencies(manifest: &File) -> Vec<(usize, String)> {
    let mut in_dependencies = false;
    let mut found = Vec::new();
    for (number, line) in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            in_dependencies = section.contains("dependencies");
        }
        let name = line.trim_start_matches(['[', ' ']).rsplit("dependencies.").next().unwrap_or(line);
        if let (true, Some(name)) = (in_dependencies, name.strip_prefix("liger-")) {
            let end = name.find(|c: char| !(c.is_alphanumeric() || c == '-')).unwrap_or(name.len());
            found.push((number, name[..end].to_string()));
        }
    }
    found
}

#[test]
fn doors_open_downward_only() {
    let floor = |name: &str| FLOORS.iter().position(|&f| f == name);
    let mut breaches = Vec::new();
    let is_crate = |f: &&File| {
        let parts: Vec<_> = f.path.split('/').collect();
        matches!(parts[..], ["crates", _, "Cargo.toml"])
    };
    for manifest in files().iter().filter(is_crate) {
        let path = &manifest.path;
        let name = path.split('/').nth(1).unwrap_or_default();
        let Some(own) = floor(name) else {
            breaches
                .push(format!("{path}:1: crate `{name}` has no floor: add it to FLOORS and ARCHITECTURE.md"));
            continue;
        };
        if !manifest.text.contains(&format!("name = \"liger-{name}\"")) && name != "cli" {
            breaches.push(format!("{path}:1: the package in folder `{name}` is to be named `liger-{name}`"));
        }
        for (line, other) in workspace_dependencies(manifest) {
            match floor(&other) {
                Some(other_floor) if other_floor < own => {}
                Some(_) => {
                    breaches.push(format!("{path}:{line}: `{name}` may not depend on `{other}`: {FLOORS:?}"))
                }
                None => breaches.push(format!("{path}:{line}: `{other}` is not a crate on any floor")),
            }
        }
    }
    assert_none("doors", &breaches);
}

#[test]
fn modules_that_are_apart_stay_apart() {
    let mut breaches = Vec::new();
    for (folder, modules) in APART {
        for file in sources().filter(|file| file.path.starts_with(folder)) {
            let Some(own) = modules.iter().find(|m| file.path.split(['/', '.']).any(|part| part == **m))
            else {
                continue;
            };
            for other in modules.iter().filter(|other| *other != own) {
                for (number, line) in file.lines() {
                    let code = code_of(line);
                    let import = code.trim_start().starts_with("use ") && has_word(&code, other);
                    if import || code.contains(&format!("{other}::")) {
                        let path = &file.path;
                        breaches.push(format!("{path}:{number}: `{own}` may not import `{other}`"));
                    }
                }
            }
        }
    }
    assert_none("modules apart", &breaches);
}

#[test]
fn rooms_import_only_those_below() {
    let mut breaches = Vec::new();
    for (folder, rooms) in ROOMS {
        let rooms: Vec<&str> = rooms.split_whitespace().collect();
        for file in sources().filter(|file| file.path.starts_with(folder)) {
            let inside = file.path[folder.len() + 1..].split(['/', '.']).next().expect("a name");
            let Some(own) = rooms.iter().position(|room| *room == inside) else {
                if inside != "lib" {
                    breaches.push(format!("{}:1: no room of {folder}: list it in ROOMS", file.path));
                }
                continue;
            };
            // Tests may come from above.
            let code = file.lines().take_while(|(_, line)| *line != "#[cfg(test)]");
            for (number, line) in code.filter(|_| !file.path.ends_with("tests.rs")) {
                let code = code_of(line);
                let is_imported = |room: &&&str| {
                    [":", ";", " "].iter().any(|end| code.contains(&format!("crate::{room}{end}")))
                };
                for above in rooms[own + 1..].iter().filter(is_imported) {
                    breaches.push(format!("{}:{number}: `{inside}` may not import `{above}`", file.path));
                }
            }
        }
    }
    assert_none("rooms", &breaches);
}

#[test]
fn unsafe_stays_in_one_crate() {
    let mut breaches = Vec::new();
    for file in sources().filter(|file| !file.path.starts_with(UNSAFE_CRATE)) {
        let path = &file.path;
        let is_crate_root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
        if is_crate_root && !file.text.contains("#![forbid(unsafe_code)]") {
            breaches.push(format!("{path}:1: a crate root outside fabric says `#![forbid(unsafe_code)]`"));
        }
        for (number, _) in file.lines().filter(|(_, line)| has_word(&code_of(line), "unsafe")) {
            breaches.push(format!("{path}:{number}: `unsafe` outside {UNSAFE_CRATE}: add a safe verb there"));
        }
    }
    assert_none("unsafe", &breaches);
}

/// What is wrong with the words of a line.
fn banned_in(line: &str) -> Option<String> {
    if let Some((word, instead)) = BANNED.iter().find(|(word, _)| line.contains(word)) {
        return Some(format!("`{word}`: {instead}"));
    }
    let mut lower = line.to_lowercase();
    for phrase in QUOTED_VERB {
        lower = lower.replace(phrase, "");
    }
    lower
        .contains("flush")
        .then(|| "\"flush\" is no verb of ours: say write_back, invalidate or sync".to_string())
}

#[test]
fn banned_words_do_not_occur() {
    let mut breaches = Vec::new();
    for file in files().iter().filter(|f| f.is(&[".rs", ".md", ".toml", ".py", ".sh", ".yml", ".ci/run"])) {
        if file.path == "crates/sim/tests/tidy.rs" {
            continue;
        }
        for (number, line) in file.lines() {
            breaches.extend(banned_in(line).map(|what| format!("{}:{number}: {what}", file.path)));
        }
    }
    assert_none("banned words", &breaches);
}

#[test]
fn sources_are_ascii_and_fit_the_width() {
    let mut breaches = Vec::new();
    for file in sources() {
        let path = &file.path;
        for (number, line) in file.lines() {
            let columns = line.chars().count();
            if !line.is_ascii() {
                breaches.push(format!("{path}:{number}: not ASCII"));
            }
            let in_table = line
                .trim_start()
                .strip_prefix("//")
                .is_some_and(|rest| rest.trim_start_matches(['!', '/']).starts_with(" |"));
            if columns > LINE_COLUMNS_MAX && !in_table {
                breaches.push(format!("{path}:{number}: {columns} columns, {LINE_COLUMNS_MAX} at most"));
            }
        }
    }
    assert_none("lines", &breaches);
}

#[test]
fn files_open_with_what_they_are() {
    let silent = sources().filter(|file| !file.text.starts_with("//!"));
    let breaches: Vec<_> =
        silent.map(|f| format!("{}:1: opens with `//!`: what it is, its invariants", f.path)).collect();
    assert_none("openings", &breaches);
}

#[test]
fn files_are_short() {
    let mut breaches = Vec::new();
    for file in sources() {
        let (path, lines) = (&file.path, file.lines().count());
        let listed = LONG_FILES.contains(&path.as_str());
        if lines > FILE_LINES_MAX {
            breaches.push(format!("{path}:1: {lines} lines, {FILE_LINES_MAX} at most: split it"));
        } else if lines > FILE_LINES_LISTED && !listed {
            breaches.push(format!("{path}:1: {lines} lines: find the seam, or list it in LONG_FILES"));
        } else if lines <= FILE_LINES_LISTED && listed {
            breaches.push(format!("{path}:1: {lines} lines: take it off LONG_FILES"));
        }
    }
    for path in LONG_FILES.iter().filter(|path| !files().iter().any(|file| file.path == **path)) {
        breaches.push(format!("{path}:1: on LONG_FILES but not there"));
    }
    let large = files().iter().filter(|file| file.bytes > FILE_BYTES_MAX);
    breaches.extend(large.map(|f| format!("{}:1: {} bytes, {FILE_BYTES_MAX} at most", f.path, f.bytes)));
    assert_none("file sizes", &breaches);
}

/// First line, name and length in lines of every function of a source formatted by rustfmt: it ends at the
/// first closing brace that is indented like its `fn`.
fn functions(text: &str) -> Vec<(usize, String, usize)> {
    let mut functions = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let code = code_of(line);
        let indent = &line[..line.len() - line.trim_start().len()];
        let words: Vec<&str> = code.split_whitespace().collect();
        let Some(place) = words.iter().position(|&word| word == "fn") else { continue };
        let qualifiers = ["const", "unsafe", "extern", "async", "pub"];
        let is_item = words[..place].iter().all(|w| qualifiers.contains(w) || w.starts_with("pub("));
        let name = words.get(place + 1).and_then(|name| name.split(['(', '<']).next()).unwrap_or_default();
        if !is_item || code.trim_end().ends_with([';', '}']) {
            continue;
        }
        let closing = format!("{indent}}}");
        let without_body = format!("{indent})");
        let end = lines[at..].iter().position(|l| {
            *l == closing
                || (l.starts_with(&without_body) && l.ends_with(';'))
                || *l == format!("{indent}{{}}")
        });
        functions.push((at + 1, name.to_string(), end.map_or(1, |end| end + 1)));
    }
    functions
}

/// The lines of a source formatted by rustfmt without its items that only tests compile, and the names of the
/// modules among these that have a file of their own.
fn production(text: &str) -> (String, Vec<&str>) {
    let (mut kept, mut modules) = (String::new(), Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !FOR_TESTS.contains(&line.trim()) {
            kept.push_str(line);
            kept.push('\n');
            continue;
        }
        let indent = |line: &str| line.len() - line.trim_start().len();
        let item = lines.find(|line| !line.trim_start().starts_with("#[")).unwrap_or_default();
        if let Some((_, name)) = item.trim_end_matches(';').split_once("mod ").filter(|_| item.ends_with(';'))
        {
            modules.push(name);
        }
        let closes = |other: &&str| {
            let bracket = other.trim_start().starts_with(['}', ')', ']']) && !other.ends_with('{');
            bracket && indent(other) == indent(item)
        };
        if !item.ends_with([';', '}']) {
            lines.find(closes);
        }
    }
    (kept, modules)
}

/// Functions and assertions of a crate, without its tests. Assertions are counted by the lines of code: those
/// of the language's own macros, also in debug builds only, and also of constants.
fn asserted(name: &str) -> (usize, usize) {
    let source = format!("crates/{name}/src/");
    let own = || sources().filter(|file| file.path.starts_with(&source));
    let mut of_tests = Vec::new();
    for file in own() {
        let folder = file.path.trim_end_matches(".rs");
        let folder = folder.trim_end_matches("/mod").trim_end_matches("/lib");
        of_tests.extend(production(&file.text).1.iter().map(|module| format!("{folder}/{module}")));
    }
    let is_of_tests = |path: &str| {
        let behind = |module: &String| path.strip_prefix(module.as_str());
        of_tests.iter().filter_map(behind).any(|rest| rest.starts_with(['.', '/']))
    };
    own().filter(|file| !is_of_tests(&file.path)).fold((0, 0), |(functions_before, before), file| {
        let (text, _) = production(&file.text);
        let assertions = ["assert!(", "assert_eq!(", "assert_ne!("];
        let in_line =
            |line| assertions.map(|macro_| code_of(line).matches(macro_).count()).iter().sum::<usize>();
        (functions_before + functions(&text).len(), before + text.lines().map(in_line).sum::<usize>())
    })
}

#[test]
fn what_is_relied_on_is_asserted() {
    let mut breaches = Vec::new();
    for (name, least, least_in_hundred) in ASSERTED {
        let (functions, count) = asserted(name);
        let ratio = count as f64 / functions.max(1) as f64;
        println!("{name}: {count} assertions in {functions} functions, {ratio:.2} each; at least {least}");
        let place = format!("crates/{name}:1: {count} assertions in {functions} functions");
        if count < *least {
            breaches.push(format!(
                "{place}, {least} at least (ASSERTED in crates/sim/tests/tidy.rs): assert something that a \
                 mistake would break for what has gone, or lower the number and say in the commit why"
            ));
        }
        if 100 * count < least_in_hundred * functions {
            breaches.push(format!(
                "{place}, {least_in_hundred} at least in a hundred: assert what the new functions rely on, \
                 before and after, as the invariants in the heads of their files say"
            ));
        }
    }
    assert_none("assertions", &breaches);
}

#[test]
fn functions_fit_a_screen() {
    let mut breaches = Vec::new();
    for file in sources() {
        for (number, name, lines) in functions(&file.text).into_iter().filter(|f| f.2 > FUNCTION_LINES_MAX) {
            let path = &file.path;
            breaches
                .push(format!("{path}:{number}: fn {name} has {lines} lines, {FUNCTION_LINES_MAX} at most"));
        }
    }
    assert_none("functions", &breaches);
}

/// Targets of the Markdown links and images of a document outside its code blocks, with line numbers.
fn links(document: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in document.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for after in prose.split("](").skip(1).filter(|_| !in_code) {
            if let Some((target, _)) = after.split_once(')') {
                found.push((number + 1, target.split_whitespace().next().unwrap_or_default().to_string()));
            }
        }
    }
    found
}

#[test]
fn links_lead_somewhere() {
    let mut breaches = Vec::new();
    for file in files().iter().filter(|file| file.is(&[".md"])) {
        for (number, target) in links(&file.text) {
            let (to, _) = target.split_once('#').unwrap_or((&target, ""));
            if to.is_empty() || to.contains("://") || to.starts_with("mailto:") {
                continue;
            }
            let base = root().join(&file.path);
            if !base.parent().expect("a file is in a folder").join(to).exists() {
                breaches.push(format!("{}:{number}: `{target}` is not there", file.path));
            }
        }
    }
    assert_none("links", &breaches);
}

#[test]
fn every_room_is_on_the_map() {
    let map = files().iter().find(|file| file.path == "ARCHITECTURE.md").expect("ARCHITECTURE.md exists");
    let rooms: BTreeSet<&str> =
        files().iter().filter_map(|f| f.path.strip_prefix("crates/")?.split('/').next()).collect();
    let missing = rooms.iter().filter(|room| !map.text.contains(&format!("`crates/{room}`")));
    let breaches: Vec<_> =
        missing.map(|room| format!("ARCHITECTURE.md:1: no `crates/{room}` in the code map")).collect();
    assert_none("code map", &breaches);
}

#[test]
fn the_rules_see_what_they_should() {
    assert_eq!(code_of(r#"let a = "un // \" safe"; // unsafe"#).trim_end(), "let a = ;");
    assert_eq!(code_of("let quote = '\"'; unsafe {}").trim_end(), "let quote = '; unsafe {}");
    assert!(has_word("unsafe { x }", "unsafe") && !has_word("forbid(unsafe_code)", "unsafe"));
    assert!(banned_in("we flush the line").is_some() && banned_in("Flushes it").is_some());
    assert!(
        banned_in("uses clflushopt; out.flush()?; the word \"flush\"; Global Persistent Flush").is_none()
    );
    assert!(banned_in(concat!("// TO", "DO later")).is_some());
    let text =
        "fn a() {}\n\nimpl A {\n    pub(crate) fn b(\n        x: u8,\n    ) -> u8 {\n        x\n    }\n}\n";
    assert_eq!(functions(text), [(4, "b".to_string(), 5)]);
    assert_eq!(functions("trait T {\n    fn c(\n        x: u8,\n    );\n}\n"), [(2, "c".to_string(), 3)]);
    assert_eq!(
        links("a [b](c.md#d) `[e](f)`\n```\n[g](h)\n```\n![i](j.svg \"k\")"),
        [(1, "c.md#d".to_string()), (5, "j.svg".to_string())]
    );
    let text = "[dependencies]\nliger-fabric = \"1\"\nserde = \"1\"\n[dev-dependencies.liger-pod]\n[lints]\n";
    let manifest = File { path: String::new(), bytes: 0, text: text.to_string() };
    assert_eq!(workspace_dependencies(&manifest), [(2, "fabric".to_string()), (4, "pod".to_string())]);
    assert!(is_ignored("target", "target", &["/target"]) && !is_ignored("a/target", "target", &["/target"]));
    let text = concat!(
        "fn a() {
    1
}
#[cfg(test)]
mod tests;
#[cfg(test)]
#[path = \"x\"]
mod b {
",
        "    fn c(
        x: u8,
    ) {
        assert!(x);
    }
}
assert!(y);
impl A {
",
        "    #[cfg(test)]
    fn d() {
        1
    }
}
"
    );
    let rest = "fn a() {\n    1\n}\nassert!(y);\nimpl A {\n}\n".to_string();
    assert_eq!(production(text), (rest, vec!["tests"]));
    assert!(is_ignored("a/b.tmp", "b.tmp", &["*.tmp"]) && is_ignored("x/data", "data", &["data/"]));
}
