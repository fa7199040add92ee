//! How rows are read and changed: what a transaction below is asked for.

#![forbid(unsafe_code)]

mod support;
#[path = "support/watched.rs"]
mod watched;

use liger_sql::{SqlState, Value};
use liger_sql::storage::scan::Range;
use liger_sql::storage::table::PlainColumns;
use support::{account, accounts, pod};
use watched::Watched;

/// Decoding happens behind the partition's latch, when a row is given: what is wrong with a row that was
/// fetched with others says nothing of these.
#[test]
fn a_row_is_decoded_when_it_is_given() {
    let (_, mut hosts) = pod(1);
    let host = &mut hosts[0];
    let table = host.run(|tx, working| accounts(working, tx, "accounts")).oid;
    let numbers = liger_sql::catalog::Numbers::default();
    host.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        (0..6).try_for_each(|id| rows.insert(tx, &numbers, &account(id, "o", 1), &PlainColumns).map(drop))
    });
    host.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        let mut tx = Watched::new(tx);
        tx.damaged = Some(rows.key_of(&tx, &[&Value::Int4(2)])?);
        let mut scan = rows.scan(&tx, &Range::default())?;
        for id in [0, 1] {
            let row = scan.next(&mut tx, &rows)?.expect("it is there");
            assert_eq!(row.values[0].as_i64(), Some(id));
        }
        let error = scan.next(&mut tx, &rows).expect_err("the third one is damaged");
        assert_eq!(error.state, SqlState::DATA_CORRUPTED);
        assert_eq!(scan.next(&mut tx, &rows)?.expect("it is there").values[0].as_i64(), Some(3));
        assert_eq!(scan.visited(), 6, "they were fetched together");
        Ok(())
    });
}
