//! Rows of one width, their values one after the other: a row costs no allocation of its own.

use super::footprint;
use crate::exec::Row;
use crate::types::value::Value;

/// Rows by number.
#[derive(Default)]
pub(crate) struct FlatRows {
    width: usize,
    len: usize,
    values: Vec<Value>,
}

impl FlatRows {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends a row; bytes that it takes. The first row of all says how wide they are.
    pub(crate) fn push(&mut self, values: impl IntoIterator<Item = Value>) -> usize {
        let before = self.values.len();
        self.values.extend(values);
        let width = self.values.len() - before;
        if self.len == 0 {
            self.width = width;
        }
        assert_eq!(width, self.width, "rows are of one width");
        self.len += 1;
        footprint(&self.values[before..])
    }

    pub(crate) fn row(&self, number: usize) -> &[Value] {
        &self.values[number * self.width..][..self.width]
    }

    /// Takes the values of a row out; NULLs are left.
    pub(crate) fn taken(&mut self, number: usize) -> impl ExactSizeIterator<Item = Value> + '_ {
        let row = &mut self.values[number * self.width..][..self.width];
        row.iter_mut().map(|value| std::mem::replace(value, Value::Null))
    }

    /// Takes a row out.
    pub(crate) fn take(&mut self, number: usize) -> Row {
        self.taken(number).collect()
    }

    /// The rows with these numbers, in this order; the others go.
    pub(crate) fn arrange(&mut self, numbers: impl ExactSizeIterator<Item = usize>) {
        let mut values = Vec::with_capacity(numbers.len() * self.width);
        self.len = numbers.len();
        for number in numbers {
            values.extend(self.taken(number));
        }
        self.values = values;
    }
}
