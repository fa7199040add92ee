//! Prints the rows of a table of TPC-H at a scale, as COPY reads them with `DELIMITER '|'`:
//! `cargo run -p liger-sql --example tpch -- lineitem 0.1`.

#[path = "../tests/tpch/data.rs"]
mod data;

use std::io::{BufWriter, Write, stdout};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (table, scale) = (arguments.next(), arguments.next().and_then(|scale| scale.parse().ok()));
    let (Some(table), Some(scale)) = (table.filter(|it| data::TABLES.contains(&it.as_str())), scale) else {
        eprintln!("tpch TABLE SCALE, TABLE being one of {}", data::TABLES.join(", "));
        std::process::exit(2);
    };
    let mut out = BufWriter::new(stdout().lock());
    let mut failed = None;
    data::rows(&table, scale, &mut |row| failed = failed.take().or(writeln!(out, "{row}").err()));
    if let Some(error) = failed.or(out.flush().err()) {
        eprintln!("the rows cannot be written: {error}");
        std::process::exit(1);
    }
}
