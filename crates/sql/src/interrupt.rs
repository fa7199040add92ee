//! Being told to stop: why, and where a session is and how far, for those who watch.
//!
//! Atomic words, so that any thread may raise or look at any time: the session looks wherever it can stop.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::{Severity, SqlError, SqlState};
use crate::progress::StatementProgress;

/// Why a session should stop what it does. Greater ones win over smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum InterruptReason {
    /// A cancel request of the client, or `pg_cancel_backend`.
    Cancel = 1,
    /// `statement_timeout` has passed.
    StatementTimeout = 2,
    /// `idle_in_transaction_session_timeout` has passed; ends the session.
    IdleInTransactionTimeout = 3,
    /// `idle_session_timeout` has passed; ends the session.
    IdleSessionTimeout = 4,
    /// Nobody is there any more to be told what the statement answers; ends the session.
    ClientGone = 5,
    /// The server shuts down, or `pg_terminate_backend`; ends the session.
    Terminate = 6,
}

impl InterruptReason {
    /// The error that the client shall see. The ones that end the session are FATAL.
    pub fn error(self) -> SqlError {
        let (severity, state, message) = match self {
            Self::Cancel => {
                (Severity::Error, SqlState::QUERY_CANCELED, "canceling statement due to user request")
            }
            Self::StatementTimeout => {
                (Severity::Error, SqlState::QUERY_CANCELED, "canceling statement due to statement timeout")
            }
            Self::IdleInTransactionTimeout => (
                Severity::Fatal,
                SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                "terminating connection due to idle-in-transaction timeout",
            ),
            Self::IdleSessionTimeout => (
                Severity::Fatal,
                SqlState::IDLE_SESSION_TIMEOUT,
                "terminating connection due to idle-session timeout",
            ),
            Self::ClientGone => (Severity::Fatal, SqlState::CONNECTION_FAILURE, "connection to client lost"),
            Self::Terminate => (
                Severity::Fatal,
                SqlState::ADMIN_SHUTDOWN,
                "terminating connection due to administrator command",
            ),
        };
        SqlError::notice(severity, state, message)
    }
}

/// The request to stop, shared by a session and whoever may stop it.
#[derive(Debug, Default)]
pub struct Interrupt {
    reason: AtomicU8,
    /// Where its statement is, see [`WaitEvent`].
    place: AtomicU8,
    progress: StatementProgress,
}

/// Where a session's statement is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitEvent {
    /// Nowhere, or with the session itself.
    #[default]
    Here,
    /// It waits for a worker.
    Queue,
    /// It waits for an advisory lock.
    Lock,
    /// It waits for somebody who changes or uses a table or view, or changes the catalog.
    Relation,
    /// It waits for its turn after a conflict.
    Turn,
    /// It waits until what it has committed is durable.
    Log,
    /// It waits until its client takes what it was sent.
    Client,
    /// In the engine, in the transaction with this number among those of its host.
    Running(u8),
}

impl Interrupt {
    /// Asks for a stop; a lesser reason does not replace a greater one.
    pub fn raise(&self, reason: InterruptReason) {
        self.reason.fetch_max(reason as u8, Ordering::Release);
    }

    /// The reason to stop, if there is one. One relaxed load where there is none: cheap enough for every
    /// row.
    pub fn raised(&self) -> Option<InterruptReason> {
        use InterruptReason::*;
        let raised = self.reason.load(Ordering::Relaxed);
        [Cancel, StatementTimeout, IdleInTransactionTimeout, IdleSessionTimeout, ClientGone, Terminate]
            .get(usize::from(raised).checked_sub(1)?)
            .copied()
    }

    /// Shows where the session's statement is, to those who watch.
    pub fn show(&self, place: WaitEvent) {
        let number = match place {
            WaitEvent::Here => 0,
            WaitEvent::Queue => 1,
            WaitEvent::Lock => 2,
            WaitEvent::Turn => 3,
            WaitEvent::Relation => 4,
            WaitEvent::Log => 5,
            WaitEvent::Client => 6,
            WaitEvent::Running(number) => 7 + number,
        };
        self.place.store(number, Ordering::Relaxed);
    }

    /// How far the session's statement is.
    pub fn progress(&self) -> &StatementProgress {
        &self.progress
    }

    /// Where the session's statement is.
    pub fn place(&self) -> WaitEvent {
        match self.place.load(Ordering::Relaxed) {
            0 => WaitEvent::Here,
            1 => WaitEvent::Queue,
            2 => WaitEvent::Lock,
            3 => WaitEvent::Turn,
            4 => WaitEvent::Relation,
            5 => WaitEvent::Log,
            6 => WaitEvent::Client,
            number => WaitEvent::Running(number - 7),
        }
    }

    /// The error to fail with, if somebody asked for a stop.
    pub fn check(&self) -> Result<(), SqlError> {
        self.raised().map_or(Ok(()), |reason| Err(reason.error()))
    }

    /// Forgets a statement's time-out; anything else stays.
    pub fn forget_timeout(&self) {
        let timeout = InterruptReason::StatementTimeout as u8;
        let _ = self.reason.compare_exchange(timeout, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Forgets a cancel or a statement's time-out; what ends the session stays. The server calls it before
    /// each statement, so that a cancel which comes too late does not hit the next one.
    pub fn rearm(&self) {
        let keep = InterruptReason::IdleInTransactionTimeout as u8;
        let _ = self.reason.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |raised| {
            (raised != 0 && raised < keep).then_some(0)
        });
    }
}
