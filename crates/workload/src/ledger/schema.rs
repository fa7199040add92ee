//! The ledger's two tables, their keys, and what is in them at first.
//!
//! Both are placed by an integer modulo the number of partitions: an account by its number, a transfer by its
//! client's.

use liger_engine::{Catalog, Key, NewRow, TableId, TableSchema, table};

use super::{Book, Reply, Request, START_CENTS};

table! {
    /// Accounts.
    pub mod accounts: "accounts" {
        ID: Int,
        BALANCE: BigInt,
    }
    primary key (ID);
}

table! {
    /// Transfers; rows are only added.
    pub mod transfers: "transfers" {
        CLIENT: Int,
        REQUEST: BigInt,
        FROM_ID: Int,
        TO_ID: Int,
        AMOUNT: BigInt,
        FROM_BALANCE: BigInt,
        TO_BALANCE: BigInt,
    }
    primary key (CLIENT, REQUEST);
}

/// The tables' numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tables {
    /// [`accounts`].
    pub accounts: TableId,
    /// [`transfers`].
    pub transfers: TableId,
}

impl Tables {
    /// The tables of a pod; `None` if they are not there.
    pub fn of(catalog: &Catalog) -> Option<Self> {
        Some(Self {
            accounts: catalog.table_named(accounts::NAME)?,
            transfers: catalog.table_named(transfers::NAME)?,
        })
    }
}

/// All tables.
pub fn schemas() -> Vec<TableSchema> {
    vec![accounts::schema(), transfers::schema()]
}

/// The key of an account.
pub fn account_key(account: i32) -> Key {
    Key::build().i32(account).finish()
}

/// The key of a transfer.
pub fn transfer_key(client: u32, number: u64) -> Key {
    Key::build().i32(client as i32).i64(number as i64).finish()
}

/// The row of a transfer that was made.
pub fn transfer_row(request: &Request, reply: &Reply) -> NewRow {
    use transfers::*;
    let mut row = NewRow::new(ROW_LEN);
    row.set(CLIENT, request.client as i32).set(REQUEST, request.number as i64);
    row.set(FROM_ID, request.from).set(TO_ID, request.to).set(AMOUNT, request.amount_cents);
    row.set(FROM_BALANCE, reply.from_cents).set(TO_BALANCE, reply.to_cents);
    row
}

/// Hands all accounts to `emit` as they are at first.
///
/// # Errors
/// The first error of `emit`.
pub fn load<E>(book: &Book, mut emit: impl FnMut(&NewRow) -> Result<(), E>) -> Result<(), E> {
    let mut row = NewRow::new(accounts::ROW_LEN);
    (0..book.all_accounts()).try_for_each(|account| {
        row.set(accounts::ID, account as i32).set(accounts::BALANCE, START_CENTS);
        emit(&row)
    })
}
