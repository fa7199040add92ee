//! Puts many mutants into one tree, each behind a switch (`liger_mutant::on`).
//!
//! `schemata TREE` reads mutants as `cargo mutants --list --json` describes them, each with a number, from
//! its input, and rewrites their files. It prints where each stands afterwards, by numbers of bytes, and
//! those for which there is no form with a switch.
//!
//! Invariants:
//! 1. While no mutant is on, a rewritten file does what it did.
//! 2. While one is on, it does what the file with this mutant's replacement alone does: an operator of
//!    another precedence than the one before takes the whole chain of operators with it.

#![forbid(unsafe_code)]

mod places;
mod rewrite;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// One mistake in one file.
#[derive(Deserialize)]
struct Mutant {
    number: u32,
    file: String,
    genre: String,
    replacement: String,
    span: Span,
}

#[derive(Deserialize)]
struct Span {
    start: Position,
    end: Position,
}

/// Lines and columns count from one, columns in characters.
#[derive(Deserialize)]
struct Position {
    line: usize,
    column: usize,
}

/// Where a mutant stands in the rewritten file.
#[derive(Serialize)]
struct Place {
    number: u32,
    file: String,
    begin: usize,
    end: usize,
}

#[derive(Default, Serialize)]
struct Answer {
    places: Vec<Place>,
    without: Vec<u32>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let tree = std::env::args().nth(1).ok_or("the tree is missing")?;
    let mutants: Vec<Mutant> = serde_json::from_reader(std::io::stdin())?;
    let mut by_file: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in &mutants {
        by_file.entry(&mutant.file).or_default().push(mutant);
    }
    let mut answer = Answer::default();
    for (file, mutants) in by_file {
        let path = Path::new(&tree).join(file);
        let text = std::fs::read_to_string(&path)?;
        let edits = places::edits(&text, &mutants)?;
        let (rewritten, places) = rewrite::rewrite(&text, &edits);
        std::fs::write(&path, rewritten)?;
        let found: Vec<u32> = places.iter().map(|(number, _)| *number).collect();
        answer.without.extend(mutants.iter().map(|m| m.number).filter(|number| !found.contains(number)));
        answer.places.extend(places.into_iter().map(|(number, at)| Place {
            number,
            file: file.to_string(),
            begin: at.start,
            end: at.end,
        }));
    }
    serde_json::to_writer(std::io::stdout(), &answer)?;
    Ok(())
}
