//! Rows of the loader as lines of COPY.

use std::fmt::Write;

use liger_engine::{ColumnType, Row, TableId, TableSchema, column_offset, presence_bit};
use liger_workload::tpcc::schema;

/// A column of a table.
struct At {
    name: String,
    ty: ColumnType,
    offset: usize,
    presence: Option<u16>,
}

/// How the rows of all tables are written, by the table's number: its place in `schema::schemas`.
pub struct Texts {
    tables: Vec<(String, Vec<At>)>,
}

impl Texts {
    /// Of the nine tables. HISTORY's number is left out: SQL's table has none.
    pub fn new() -> Texts {
        let columns = |schema: &TableSchema| {
            let types: Vec<(ColumnType, bool)> = schema.columns.iter().map(|c| (c.ty, c.nullable)).collect();
            let at = |(number, column): (usize, &liger_engine::Column)| At {
                name: column.name.to_lowercase(),
                ty: column.ty,
                offset: column_offset(&types, number),
                presence: presence_bit(&types, number),
            };
            schema.columns.iter().enumerate().map(at).filter(|column| column.name != "h_id").collect()
        };
        Texts { tables: schema::schemas().iter().map(|s| (s.name.clone(), columns(s))).collect() }
    }

    /// The names of all tables.
    pub fn tables(&self) -> Vec<&str> {
        self.tables.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The table's name.
    pub fn table(&self, table: TableId) -> &str {
        &self.tables[usize::from(table.0)].0
    }

    /// The names of the columns, as COPY wants them.
    pub fn names(&self, table: TableId) -> String {
        let names: Vec<&str> = self.tables[usize::from(table.0)].1.iter().map(|c| c.name.as_str()).collect();
        names.join(", ")
    }

    /// Appends a row as a line. No text of the loader has anything in it that COPY would want escaped.
    pub fn write(&self, table: TableId, row: Row<'_>, line: &mut String) {
        for (number, column) in self.tables[usize::from(table.0)].1.iter().enumerate() {
            if number > 0 {
                line.push('\t');
            }
            column.write(row.bytes(), line);
        }
        line.push('\n');
    }
}

impl At {
    fn write(&self, row: &[u8], line: &mut String) {
        let bytes = &row[self.offset..];
        let number = |size: usize| {
            let mut whole = [if bytes[size - 1] & 0x80 == 0 { 0 } else { 0xff }; 8];
            whole[..size].copy_from_slice(&bytes[..size]);
            i64::from_le_bytes(whole)
        };
        let is_null = self.presence.is_some_and(|bit| row[usize::from(bit) / 8] & (1 << (bit % 8)) == 0);
        let written = match self.ty {
            _ if is_null => line.write_str("\\N"),
            ColumnType::Decimal { scale } => {
                let unit = 10i64.pow(u32::from(scale));
                let (value, sign) = (number(8), if number(8) < 0 { "-" } else { "" });
                let (whole, rest) = (value.abs() / unit, value.abs() % unit);
                write!(line, "{sign}{whole}.{rest:0width$}", width = usize::from(scale))
            }
            // The loader's dates are all the same.
            ColumnType::Timestamp => line.write_str("2000-01-01 00:00:00"),
            ColumnType::Text { .. } => {
                let length = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
                let text = std::str::from_utf8(&bytes[2..2 + length]).expect("the loader writes UTF-8");
                line.write_str(text)
            }
            ColumnType::SmallInt | ColumnType::Int | ColumnType::BigInt => {
                write!(line, "{}", number(self.ty.size()))
            }
            other => unreachable!("TPC-C has no columns of {other:?}"),
        };
        written.expect("a string takes anything");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use liger_engine::NewRow;
    use liger_workload::tpcc::schema::{customer, orders};

    #[test]
    fn rows_are_lines() {
        let texts = Texts::new();
        let number = |name: &str| {
            let at = texts.tables.iter().position(|(table, _)| table == name).expect("a table");
            TableId(at as u16)
        };
        let mut row = NewRow::new(orders::ROW_LEN);
        row.set(orders::O_W_ID, 3).set(orders::O_D_ID, 4).set(orders::O_ID, 100_000).set(orders::O_C_ID, -1);
        let mut line = String::new();
        texts.write(number("orders"), row.row(), &mut line);
        assert_eq!(line, "3\t4\t100000\t-1\t2000-01-01 00:00:00\t\\N\t0\t0\n");
        let mut row = NewRow::new(customer::ROW_LEN);
        row.set(customer::C_BALANCE, -1005).set(customer::C_LAST, "BAR").set(customer::C_DISCOUNT, 123);
        line.clear();
        texts.write(number("customer"), row.row(), &mut line);
        assert!(line.starts_with("0\t0\t0\t-10.05\t0.00\t0\t0\t0.0123\t\tBAR\t"), "{line}");
    }
}
