//! Why a command ended early: one line for people and an exit code for programs.

use std::fmt;

use liger_engine::db::DbError;
use liger_fabric::native::MemoryError;

/// Why a command ended early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// It could not start as asked: the arguments, or the memory they name.
    Refused(String),
    /// It ran and something went wrong.
    Broken(String),
    /// A signal ended it.
    Interrupted(i32),
}

impl Failure {
    /// The process's exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Refused(_) => 2,
            Self::Broken(_) => 1,
            Self::Interrupted(signal) => 128 + *signal as u8,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(what) | Self::Broken(what) => f.write_str(what),
            Self::Interrupted(signal) => {
                write!(f, "interrupted by signal {signal}; what this command had started was ended")
            }
        }
    }
}

impl From<MemoryError> for Failure {
    fn from(error: MemoryError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<DbError> for Failure {
    fn from(error: DbError) -> Self {
        Self::Refused(error.to_string())
    }
}
