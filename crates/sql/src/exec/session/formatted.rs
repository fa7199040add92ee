//! A sink that tells columns in the formats of a portal: for statements that know nothing of the one they
//! run in (EXECUTE, FETCH, SHOW, EXPLAIN).
use crate::error::{Result, SqlError};
use crate::session::{ColumnDescription, CopyInput, CopyShape, Formats, Sink};
use crate::types::context::EvalContext;
use crate::types::value::Value;

pub(super) struct Formatted<'a> {
    pub(super) sink: &'a mut dyn Sink,
    pub(super) formats: &'a [u8],
}

impl Sink for Formatted<'_> {
    fn columns(&mut self, columns: &[ColumnDescription], _formats: Formats<'_>) -> Result<()> {
        self.sink.columns(columns, Formats(self.formats))
    }

    fn row(&mut self, context: &EvalContext<'_>, values: &[Value]) -> Result<()> {
        self.sink.row(context, values)
    }

    fn send(&mut self, waits: &mut dyn FnMut()) -> Result<()> {
        self.sink.send(waits)
    }

    fn command_complete(&mut self, tag: &str) -> Result<()> {
        self.sink.command_complete(tag)
    }

    fn empty(&mut self) -> Result<()> {
        self.sink.empty()
    }

    fn notice(&mut self, notice: &SqlError) -> Result<()> {
        self.sink.notice(notice)
    }

    fn copy_in(&mut self, shape: &CopyShape) -> Result<()> {
        self.sink.copy_in(shape)
    }

    fn copy_read(&mut self, waits: &mut dyn FnMut()) -> Result<CopyInput<'_>> {
        self.sink.copy_read(waits)
    }

    fn copy_out(&mut self, shape: &CopyShape) -> Result<()> {
        self.sink.copy_out(shape)
    }

    fn copy_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.copy_bytes(bytes)
    }

    fn copy_row(&mut self, row: &mut Vec<u8>) -> Result<()> {
        self.sink.copy_row(row)
    }

    fn copy_out_done(&mut self) -> Result<()> {
        self.sink.copy_out_done()
    }

    fn next_statement(&mut self, statement_ms: u64) {
        self.sink.next_statement(statement_ms);
    }

    fn told(&self) -> u64 {
        self.sink.told()
    }

    fn unsay(&mut self, told: u64) -> bool {
        self.sink.unsay(told)
    }
}
