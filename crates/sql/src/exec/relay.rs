//! Answers of a statement on their way from the worker that runs it to the session's own thread, which gives
//! them to the client's sink.
//!
//! Invariants:
//! 1. Nothing reaches the sink before the statement has ended, unless there is much of it, or the client has
//!    to act on it (COPY FROM): a statement that met a conflict can be run again as long as nobody was told
//!    anything.
//! 2. At most [`BATCHES`] batches wait: a client that does not read stops its statement, not the host.

use std::sync::mpsc::{Receiver, Sender, SyncSender};

use super::Row;
use crate::error::{Result, SqlError, SqlState};
use crate::func::{EvalContext, Settings};
use crate::session::{ColumnDescription, CopyInput, CopyShape, Formats, Sink};
use crate::storage::slots::After;
use crate::types::value::Value;

/// Batches that may wait for the client.
pub(super) const BATCHES: usize = 4;
/// Answers of a batch that is sent before the end, and bytes of COPY.
const ANSWERS: usize = 512;
const BYTES: usize = 64 << 10;

/// One call of a sink.
pub(super) enum Answer {
    Columns(Vec<ColumnDescription>, Vec<u8>),
    Row(Row),
    Complete(String),
    Empty,
    Notice(SqlError),
    CopyIn(CopyShape),
    CopyOut(CopyShape),
    CopyBytes(Vec<u8>),
    CopyOutDone,
}

/// What the worker says.
pub(super) enum Said<R> {
    /// Answers before the end.
    Answers(Vec<Answer>),
    /// The same, and the next bytes of COPY are wanted.
    Wanted(Vec<Answer>),
    /// The rest, the result, and what becomes of the transaction.
    Ended(Vec<Answer>, Result<R>, After),
}

/// Bytes of COPY FROM as they come.
pub(super) enum Copied {
    Data(Vec<u8>),
    Done,
    Fail(String),
    /// The client cannot be asked.
    Lost(SqlError),
}

/// The worker's end: a sink.
pub(super) struct Relay<R> {
    pub(super) answers: Vec<Answer>,
    bytes: usize,
    to: SyncSender<Said<R>>,
    copied: Receiver<Copied>,
    data: Vec<u8>,
}

fn gone<E>(_: E) -> SqlError {
    SqlError::new(SqlState::CONNECTION_FAILURE, "the client is gone")
}

impl<R> Relay<R> {
    pub(super) fn new(to: SyncSender<Said<R>>, copied: Receiver<Copied>) -> Relay<R> {
        Relay { answers: Vec::new(), bytes: 0, to, copied, data: Vec::new() }
    }

    fn push(&mut self, answer: Answer) -> Result<()> {
        self.answers.push(answer);
        if self.answers.len() < ANSWERS && self.bytes < BYTES {
            return Ok(());
        }
        self.bytes = 0;
        self.to.send(Said::Answers(std::mem::take(&mut self.answers))).map_err(gone)
    }

    /// Says how it ended.
    pub(super) fn end(self, result: Result<R>, after: After) {
        // Who does not listen any more does not want to know.
        let _ = self.to.send(Said::Ended(self.answers, result, after));
    }
}

impl<R> Sink for Relay<R> {
    fn columns(&mut self, columns: &[ColumnDescription], formats: Formats<'_>) -> Result<()> {
        self.push(Answer::Columns(columns.to_vec(), formats.0.to_vec()))
    }

    fn row(&mut self, _context: &EvalContext<'_>, values: &[Value]) -> Result<()> {
        self.push(Answer::Row(values.to_vec()))
    }

    fn command_complete(&mut self, tag: &str) -> Result<()> {
        self.push(Answer::Complete(tag.to_owned()))
    }

    fn empty(&mut self) -> Result<()> {
        self.push(Answer::Empty)
    }

    fn notice(&mut self, notice: &SqlError) -> Result<()> {
        self.push(Answer::Notice(notice.clone()))
    }

    fn copy_in(&mut self, shape: &CopyShape) -> Result<()> {
        self.push(Answer::CopyIn(shape.clone()))
    }

    fn copy_read(&mut self) -> Result<CopyInput<'_>> {
        self.to.send(Said::Wanted(std::mem::take(&mut self.answers))).map_err(gone)?;
        match self.copied.recv().map_err(gone)? {
            Copied::Data(data) => {
                self.data = data;
                Ok(CopyInput::Data(&self.data))
            }
            Copied::Done => Ok(CopyInput::Done),
            Copied::Fail(why) => Ok(CopyInput::Fail(why)),
            Copied::Lost(error) => Err(error),
        }
    }

    fn copy_out(&mut self, shape: &CopyShape) -> Result<()> {
        self.push(Answer::CopyOut(shape.clone()))
    }

    fn copy_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len();
        self.push(Answer::CopyBytes(bytes.to_vec()))
    }

    fn copy_out_done(&mut self) -> Result<()> {
        self.push(Answer::CopyOutDone)
    }
}

/// Gives answers to a client's sink.
pub(super) fn deliver(answers: Vec<Answer>, ctx: &EvalContext<'_>, sink: &mut dyn Sink) -> Result<()> {
    answers.into_iter().try_for_each(|answer| match answer {
        Answer::Columns(columns, formats) => sink.columns(&columns, Formats(&formats)),
        Answer::Row(values) => sink.row(ctx, &values),
        Answer::Complete(tag) => sink.command_complete(&tag),
        Answer::Empty => sink.empty(),
        Answer::Notice(notice) => sink.notice(&notice),
        Answer::CopyIn(shape) => sink.copy_in(&shape),
        Answer::CopyOut(shape) => sink.copy_out(&shape),
        Answer::CopyBytes(bytes) => sink.copy_bytes(&bytes),
        Answer::CopyOutDone => sink.copy_out_done(),
    })
}

/// Asks the client for the next bytes.
pub(super) fn fetch(sink: &mut dyn Sink, to: &Sender<Copied>) -> Result<()> {
    let (copied, lost) = match sink.copy_read() {
        Ok(CopyInput::Data(data)) => (Copied::Data(data.to_vec()), None),
        Ok(CopyInput::Done) => (Copied::Done, None),
        Ok(CopyInput::Fail(why)) => (Copied::Fail(why), None),
        Err(error) => (Copied::Lost(error.clone()), Some(error)),
    };
    // The worker waits for it.
    let _ = to.send(copied);
    lost.map_or(Ok(()), Err)
}

/// What the output of values looks at, as it was when the statement began.
pub(crate) struct Look {
    pub(crate) settings: Settings,
    pub(crate) search_path: Vec<String>,
}
