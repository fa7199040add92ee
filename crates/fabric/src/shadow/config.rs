//! How large a shadow cache is, what it does unasked, and what is left out on purpose.

use std::fmt;
use std::panic::Location;
use std::str::FromStr;

/// A host's software cache. Rates are chances of 1024.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShadowConfig {
    /// Lines of the cache (rounded up to whole sets). Small enough that lines of a running database are
    /// pushed out, large enough that old copies of busy ones live long.
    pub lines: usize,
    /// Decides the cache's choices, with the host's number. Threads are real, so it does not replay a run.
    pub seed: u64,
    /// After a line is written: it is written back at once; every other time it is dropped too.
    pub write_backs_per_1024: u16,
    /// Whenever a line is touched: some line of the cache leaves it, dirty or not.
    pub drops_per_1024: u16,
    /// Whenever a line is touched, by an invalidate too: it or a neighbour is fetched, if it is not there.
    pub prefetches_per_1024: u16,
    /// A `write_back` or `invalidate` of a line takes effect at the fence only, not when it is called.
    pub delays_per_1024: u16,
    /// What workers of this host leave out.
    pub omission: Option<Omission>,
}

impl ShadowConfig {
    /// The usual cache: 4 MiB of lines.
    pub fn new(seed: u64) -> Self {
        Self {
            lines: 65_536,
            seed,
            write_backs_per_1024: 64,
            drops_per_1024: 16,
            prefetches_per_1024: 64,
            delays_per_1024: 512,
            omission: None,
        }
    }
}

/// One thing to leave out, to see that it is noticed; written like the simulator's mutants: a step's name
/// (`own.inherit-gap`), or a call site (`invalidate at crates/engine/src/row/shared.rs:344`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Omission {
    /// A step that the code asks for by name.
    Step(String),
    /// Every call of one verb on one line of the source.
    Site {
        /// `write_back`, `invalidate` or `fence`.
        verb: &'static str,
        /// Source file, as the compiler names it.
        file: String,
        /// Line, from 1.
        line: u32,
    },
}

/// A text that names nothing to leave out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "'{text}' cannot be left out: write a step's name, or 'write_back', 'invalidate' or 'fence' \
     and ' at FILE:LINE'"
)]
pub struct UnknownOmission {
    text: String,
}

impl FromStr for Omission {
    type Err = UnknownOmission;

    fn from_str(text: &str) -> Result<Self, UnknownOmission> {
        let unknown = || UnknownOmission { text: text.to_owned() };
        let Some((verb, place)) = text.split_once(" at ") else {
            let is_name = text.contains('.') && !text.contains([' ', ':', '/']);
            return if is_name { Ok(Self::Step(text.to_owned())) } else { Err(unknown()) };
        };
        let verb = ["write_back", "invalidate", "fence"].into_iter().find(|known| *known == verb);
        // A column may follow, as the simulator writes it.
        let mut parts = place.split(':');
        let (file, line) = (parts.next(), parts.next().and_then(|line| line.parse().ok()));
        match (verb, file, line) {
            (Some(verb), Some(file), Some(line)) => Ok(Self::Site { verb, file: file.to_owned(), line }),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(name) => f.write_str(name),
            Self::Site { verb, file, line } => write!(f, "{verb} at {file}:{line}"),
        }
    }
}

impl Omission {
    pub(super) fn is_step(&self, name: &str) -> bool {
        matches!(self, Self::Step(step) if step == name)
    }

    pub(super) fn is_site(&self, of: &str, at: &Location<'_>) -> bool {
        let Self::Site { verb, file, line } = self else { return false };
        *verb == of && *line == at.line() && file == at.file()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_leave_out_is_read_as_the_simulator_writes_it() {
        let site = |line| Omission::Site { verb: "invalidate", file: "crates/x/src/y.rs".to_owned(), line };
        assert_eq!("invalidate at crates/x/src/y.rs:12:8".parse(), Ok(site(12)));
        assert_eq!("invalidate at crates/x/src/y.rs:7".parse(), Ok(site(7)));
        assert_eq!("own.inherit-gap".parse(), Ok(Omission::Step("own.inherit-gap".to_owned())));
        assert_eq!(site(7).to_string().parse(), Ok(site(7)));
        for text in ["", "fences", "read at x.rs:1", "fence at x.rs", "fence at x.rs:y", "x.rs:12"] {
            assert!(text.parse::<Omission>().is_err(), "{text}");
        }
    }
}
