//! Every mutant of `.ci/mutants.known` is in a function that is there.
//!
//! Invariants:
//! 1. Names alone are compared: whether the mutant itself is there is told by the gate, which has the tool.

use super::{assert_none, files, root};
use std::fs;

/// The function that a mutant is in, by the mutant's name without its file.
fn mutated(change: &str) -> &str {
    let function = match change.rsplit_once(" in ") {
        Some((_, function)) => function,
        None => {
            let function = change.strip_prefix("replace ").unwrap_or(change);
            function.split(" -> ").next().and_then(|f| f.split(" with ").next()).unwrap_or_default()
        }
    };
    function.rsplit("::").next().unwrap_or_default()
}

#[test]
fn mutants_that_are_known_are_in_functions_that_are_there() {
    let list = fs::read_to_string(root().join(".ci/mutants.known")).expect(".ci/mutants.known is there");
    let mut breaches = Vec::new();
    for (number, line) in list.lines().enumerate() {
        let name = line.split('\t').next().unwrap_or_default();
        let (path, change) = name.split_once(": ").unwrap_or((name, ""));
        let function = mutated(change);
        let there = files().iter().find(|file| file.path == path);
        if !there.is_some_and(|file| {
            file.text.contains(&format!("fn {function}(")) || file.text.contains(&format!("fn {function}<"))
        }) {
            breaches.push(format!(
                ".ci/mutants.known:{}: no `fn {function}` in {path}: where did it go?",
                number + 1
            ));
        }
    }
    assert_none("known mutants", &breaches);
}

#[test]
fn the_function_of_a_mutant_is_found() {
    assert_eq!(mutated("replace <impl A for B<M>>::c -> u64 with 1"), "c");
    assert_eq!(mutated("replace A::b with ()"), "b");
    assert_eq!(mutated("replace * with / in A<'_, F>::d"), "d");
}
