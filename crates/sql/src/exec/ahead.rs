//! Rows that wait until the statement's store has been told of a batch of them.
//!
//! Invariant: everything that is seen from outside comes in the order of the rows. Where one cannot be made,
//! those before it are done first, and what is wrong with them is told first.

use crate::error::Result;

/// Bytes of rows that wait at most; one may be longer.
const MOST_BYTES: usize = 1 << 20;

/// Rows that are ready to be changed, added or removed.
pub(super) struct Batch<R> {
    most: usize,
    waiting: Vec<R>,
    bytes: usize,
}

impl<R> Batch<R> {
    /// At most so many wait.
    pub(super) fn new(most: usize) -> Self {
        assert!(most > 0, "a row may wait");
        Self { most, waiting: Vec::new(), bytes: 0 }
    }

    /// Another row, with the bytes that it takes, if it could be made (`None`: nothing is to be done). `act`
    /// does what there is to do with rows, as soon as there are enough.
    pub(super) fn offer(
        &mut self,
        made: Result<Option<(R, usize)>>,
        act: &mut dyn FnMut(Vec<R>) -> Result<()>,
    ) -> Result<()> {
        match made {
            Ok(None) => {}
            Ok(Some((row, bytes))) => {
                self.waiting.push(row);
                self.bytes += bytes;
            }
            Err(error) => {
                self.finish(act)?;
                return Err(error);
            }
        }
        let is_full = self.waiting.len() >= self.most || self.bytes >= MOST_BYTES;
        if is_full { self.finish(act) } else { Ok(()) }
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self, act: &mut dyn FnMut(Vec<R>) -> Result<()>) -> Result<()> {
        self.bytes = 0;
        if self.waiting.is_empty() { Ok(()) } else { act(std::mem::take(&mut self.waiting)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{SqlError, SqlState};

    fn error(message: &str) -> SqlError {
        SqlError::new(SqlState::INTERNAL_ERROR, message)
    }

    #[test]
    fn rows_are_done_in_their_order_and_before_what_is_wrong_behind_them() {
        let (mut batch, mut done) = (Batch::new(3), Vec::new());
        let mut act = |rows: Vec<u32>| {
            done.push(rows.clone());
            if rows.contains(&9) { Err(error("nine")) } else { Ok(()) }
        };
        for row in 0..4 {
            batch.offer(Ok(Some((row, 1))), &mut act).expect("no nine yet");
        }
        batch.offer(Ok(None), &mut act).expect("nothing to do");
        let told = batch.offer(Err(error("made")), &mut act).expect_err("it could not be made");
        assert_eq!(told.message, "made");
        batch.offer(Ok(Some((9, 1))), &mut act).expect("it waits");
        let told = batch.offer(Err(error("made")), &mut act).expect_err("nine comes first");
        assert_eq!(told.message, "nine");
        batch.offer(Ok(Some((5, MOST_BYTES))), &mut act).expect("it is long, and done at once");
        batch.finish(&mut act).expect("nothing waits");
        assert_eq!(done, [vec![0, 1, 2], vec![3], vec![9], vec![5]]);
    }
}
