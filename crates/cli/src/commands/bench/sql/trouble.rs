//! What can go wrong for a client: what it may try again, and what not.

use tokio_postgres::Error;

use super::transactions::OrderId;

/// Why a transaction did not end well.
#[derive(Debug)]
pub enum Trouble {
    /// It may be run again; the SQLSTATE.
    Again(String),
    /// The connection is of no more use: it broke, or the server said that it will.
    Lost {
        /// What was said last.
        why: String,
        /// An order that may have been entered.
        in_doubt: Option<OrderId>,
    },
    /// Nothing that a client should ever see.
    Wrong(String),
}

impl Trouble {
    /// Of the answer to a commit.
    pub fn of_commit(error: &Error, order: Option<OrderId>) -> Trouble {
        match Trouble::from_ref(error) {
            Trouble::Lost { why, .. } => Trouble::Lost { why, in_doubt: order },
            other => other,
        }
    }

    fn from_ref(error: &Error) -> Trouble {
        let Some(said) = error.as_db_error() else {
            // A connection that ended has no answer; an answer that cannot be read is the server's fault.
            let broke = error.is_closed()
                || std::error::Error::source(error).is_some_and(|e| e.is::<std::io::Error>());
            return match broke {
                true => Trouble::Lost { why: "broken".to_owned(), in_doubt: None },
                false => Trouble::Wrong(error.to_string()),
            };
        };
        let code = said.code().code();
        match code {
            "40001" | "40P01" => Trouble::Again(code.to_owned()),
            // 57P01 to 57P05: it ends, or starts; 08: the connection; 53300: too many of them.
            _ if code.starts_with("57P0") || code.starts_with("08") || code == "53300" => {
                Trouble::Lost { why: code.to_owned(), in_doubt: None }
            }
            _ => Trouble::Wrong(format!("{code}: {} {}", said.message(), said.detail().unwrap_or(""))),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::from_ref(&error)
    }
}
