//! The one transaction: money from one account to another, and a row that says so.

use liger_engine::{Announced, Key, Transaction, TxnError};

use super::schema::{Tables, account_key, accounts, transfer_key, transfer_row, transfers};
use super::{Reply, Request};

/// Makes a transfer.
///
/// # Errors
/// [`TxnError::DuplicateKey`] if it has been made: [`find`] tells what came of it. Otherwise whatever the
/// engine says.
pub fn make<T: Transaction>(txn: &mut T, tables: &Tables, request: &Request) -> Result<Reply, TxnError> {
    let Request { client, number, from, to, amount_cents } = *request;
    let keys = [account_key(from), account_key(to)];
    txn.announce(&keys.map(|key| Announced::update(tables.accounts, key)));
    let mut move_by = |key: &Key, cents: i64| {
        let moved = txn.update(tables.accounts, key, |row| {
            let balance = row.get(accounts::BALANCE).wrapping_add(cents);
            row.set(accounts::BALANCE, balance);
            balance
        })?;
        let missing = "database: an account is missing";
        moved.ok_or(TxnError::Damaged { table: tables.accounts, what: missing, found: key.words()[0] })
    };
    let from_cents = move_by(&keys[0], -amount_cents)?;
    let to_cents = move_by(&keys[1], amount_cents)?;
    let reply = Reply { client, number, from_cents, to_cents, again: false };
    txn.insert(tables.transfers, &transfer_row(request, &reply))?;
    Ok(reply)
}

/// What came of a transfer, if it was made.
///
/// # Errors
/// Whatever the engine says.
pub fn find<T: Transaction>(
    txn: &mut T,
    tables: &Tables,
    request: &Request,
) -> Result<Option<Reply>, TxnError> {
    let Request { client, number, .. } = *request;
    txn.get(tables.transfers, &transfer_key(client, number), |row| {
        let (from_cents, to_cents) = (row.get(transfers::FROM_BALANCE), row.get(transfers::TO_BALANCE));
        Reply { client, number, from_cents, to_cents, again: true }
    })
}
