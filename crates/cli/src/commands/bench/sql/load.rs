//! The nine tables in SQL, and their first rows by COPY.

use bytes::Bytes;
use futures_util::SinkExt;
use liger_engine::{IndexId, NewRow, TableId};
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::load::Loader;
use liger_workload::tpcc::schema::Tables;
use tokio_postgres::{Client, Error};

use super::columns::Texts;

/// Bytes of COPY that are sent at once.
const PIECE: usize = 256 << 10;

const SCHEMA: &str = include_str!("schema.sql");
const FOREIGN_KEYS: &str = include_str!("foreign_keys.sql");

/// The statements of a text, which has no semicolon within a statement. Each is a transaction of its own.
fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.split(';').map(str::trim).filter(|statement| !statement.is_empty())
}

/// Makes the tables anew.
pub async fn create(client: &Client) -> Result<(), Error> {
    let texts = Texts::new();
    client.batch_execute(&format!("drop table if exists {} cascade", texts.tables().join(", "))).await?;
    for statement in statements(SCHEMA) {
        client.batch_execute(statement).await?;
    }
    Ok(())
}

/// What is made when the rows are there.
pub async fn finish(client: &Client, foreign_keys: bool) -> Result<(), Error> {
    for statement in statements(if foreign_keys { FOREIGN_KEYS } else { "" }) {
        client.batch_execute(statement).await?;
    }
    client.batch_execute("analyze").await
}

/// The tables under the numbers that [`Texts`] gives them.
fn tables() -> Tables {
    let mut count = 0;
    let numbered = Tables::create(|schema| {
        let number = TableId(count);
        count += 1;
        Ok::<_, std::convert::Infallible>((number, vec![IndexId(number); schema.indexes.len()]))
    });
    numbered.expect("nothing fails")
}

/// Rows of one table on their way.
struct Piece {
    table: TableId,
    text: String,
}

/// Loads ITEM (warehouse 0) or the rows of a warehouse. Every piece is a COPY, and so a transaction.
pub async fn load(client: &Client, scale: Scale, seed: u64, warehouse: i16) -> Result<(), Error> {
    let loader = Loader::new(tables(), scale, seed, 0);
    // The loader calls for each row and cannot wait; a warehouse's rows are some 80 MB of text.
    let mut pieces: Vec<Piece> = Vec::new();
    let texts = Texts::new();
    let emit = |table: TableId, row: &NewRow| {
        let is_full = |last: &Piece| last.table != table || last.text.len() > PIECE;
        if pieces.last().is_none_or(is_full) {
            pieces.push(Piece { table, text: String::with_capacity(PIECE + 1000) });
        }
        texts.write(table, row.row(), &mut pieces.last_mut().expect("just made").text);
        Ok::<_, std::convert::Infallible>(())
    };
    let loaded = match warehouse {
        0 => loader.load_items(emit, |_| ()),
        w => loader.load_warehouse(w, emit, |_| ()),
    };
    loaded.expect("nothing fails");
    for Piece { table, text } in pieces {
        let copy = format!("copy {} ({}) from stdin", texts.table(table), texts.names(table));
        let sink = client.copy_in::<_, Bytes>(&copy).await?;
        let mut sink = std::pin::pin!(sink);
        sink.send(Bytes::from(text)).await?;
        sink.finish().await?;
    }
    Ok(())
}
