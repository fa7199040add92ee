//! The six transactions.

use liger_engine::{Announced, Key, TableId, Transaction, TxnError};

use super::{SmallBank, Tables, checking, customer_key, savings};
use crate::driver::{Effects, RunWorker, Workload};
use crate::random::Rng;

/// Cents that came into the bank.
pub const DEPOSITED: &str = "deposited_cents";
/// Cents that left it.
pub const WITHDRAWN: &str = "withdrawn_cents";
/// Changes of accounts.
pub const CHANGES: &str = "account_changes";

/// What one worker runs.
#[derive(Clone, Debug)]
pub struct SmallBankWorker {
    pub(super) tables: Tables,
    pub(super) bank: SmallBank,
    /// Partitions of the worker's host.
    pub(super) homes: Vec<u16>,
}

/// The types of transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Tells what a customer has.
    Balance,
    /// Pays into a checking account.
    DepositChecking,
    /// Pays into a savings account or, if there is enough, takes from it.
    TransactSavings,
    /// Moves all that a customer has to another one's checking account.
    Amalgamate,
    /// Takes from a checking account; a dollar more if the customer has too little.
    WriteCheck,
    /// Moves from one checking account to another, if there is enough.
    SendPayment,
}

const KINDS: [(Kind, u64); 6] = [
    (Kind::Balance, 15),
    (Kind::DepositChecking, 15),
    (Kind::TransactSavings, 15),
    (Kind::Amalgamate, 15),
    (Kind::WriteCheck, 15),
    (Kind::SendPayment, 25),
];

/// What a transaction is asked to do.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    /// Its type.
    pub kind: Kind,
    /// The customer.
    pub from: Key,
    /// The second one, of those that touch two.
    pub to: Key,
    /// The amount.
    pub cents: i64,
}

impl SmallBankWorker {
    fn customer(&self, rng: &mut Rng, partition: u16) -> Key {
        let SmallBank { customers, hot, hot_percent, .. } = self.bank;
        let among = if rng.percent(hot_percent) { hot } else { customers };
        customer_key(partition, rng.below(among.into()) as u32)
    }

    /// Whose balance `by` is added to; the new balance.
    fn pay<T: Transaction>(&self, txn: &mut T, table: TableId, key: &Key, by: i64) -> Result<i64, TxnError> {
        let is_savings = table == self.tables.savings;
        let (balance, changes) = if is_savings {
            (savings::BALANCE, savings::CHANGES)
        } else {
            (checking::BALANCE, checking::CHANGES)
        };
        let paid = txn.update(table, key, |row| {
            let new = row.get(balance).wrapping_add(by);
            row.set(balance, new);
            let count = row.get(changes).wrapping_add(1);
            row.set(changes, count);
            new
        })?;
        paid.ok_or(missing(table, key))
    }

    fn read<T: Transaction>(&self, txn: &mut T, table: TableId, key: &Key) -> Result<i64, TxnError> {
        let is_savings = table == self.tables.savings;
        let column = if is_savings { savings::BALANCE } else { checking::BALANCE };
        txn.get(table, key, |row| row.get(column))?.ok_or(missing(table, key))
    }

    fn amalgamate<T: Transaction>(&self, txn: &mut T, from: &Key, to: &Key) -> Result<Effects, TxnError> {
        let Tables { savings, checking } = self.tables;
        txn.announce(&[
            Announced::update(savings, *from),
            Announced::update(checking, *from),
            Announced::update(checking, *to),
        ]);
        let mut all = 0;
        for table in [savings, checking] {
            let had = self.read(txn, table, from)?;
            self.pay(txn, table, from, -had)?;
            all += had;
        }
        self.pay(txn, checking, to, all)?;
        Ok(Effects::NONE.with(2, 3))
    }

    fn write_check<T: Transaction>(&self, txn: &mut T, key: &Key, cents: i64) -> Result<Effects, TxnError> {
        let Tables { savings, checking } = self.tables;
        txn.announce(&[Announced::read(savings, *key), Announced::update(checking, *key)]);
        let all = self.read(txn, savings, key)? + self.read(txn, checking, key)?;
        let taken = if all < cents { cents + 100 } else { cents };
        self.pay(txn, checking, key, -taken)?;
        Ok(Effects::NONE.with(1, taken as u64).with(2, 1))
    }
}

fn missing(table: TableId, key: &Key) -> TxnError {
    TxnError::Damaged { table, what: "database: an account is missing", found: key.words()[0] }
}

impl Workload for SmallBankWorker {
    type Source = Rng;
    type Input = Input;

    const KINDS: &'static [&'static str] =
        &["balance", "deposit_checking", "transact_savings", "amalgamate", "write_check", "send_payment"];
    const EFFECTS: &'static [&'static str] = &[DEPOSITED, WITHDRAWN, CHANGES];

    fn source(&self, _: RunWorker, rng: Rng) -> Rng {
        rng
    }

    fn draw(&self, rng: &mut Rng, _: i64) -> Input {
        let mut card = rng.below(100);
        let drawn = KINDS.into_iter().find(|(_, share)| {
            let here = card < *share;
            card = card.wrapping_sub(*share);
            here
        });
        let kind = drawn.expect("a hundred cards").0;
        let home = self.homes[rng.below(self.homes.len() as u64) as usize];
        let all = self.bank.partitions;
        let two = matches!(kind, Kind::Amalgamate | Kind::SendPayment);
        let away = two && rng.percent(self.bank.cross_percent) && all > 1;
        let other = if away {
            let drawn = rng.below(u64::from(all) - 1) as u16;
            drawn + u16::from(drawn >= home)
        } else {
            home
        };
        let from = self.customer(rng, home);
        let mut to = self.customer(rng, other);
        while to == from {
            to = self.customer(rng, other);
        }
        let cents = match kind {
            // Now and then more is taken than there is.
            Kind::TransactSavings => rng.between(-2_000_000, 3_000_000),
            _ => rng.between(1, 10_000),
        };
        Input { kind, from, to, cents }
    }

    fn kind(&self, input: &Input) -> usize {
        input.kind as usize
    }

    fn run<T: Transaction>(&self, _: &mut Rng, txn: &mut T, input: &Input) -> Result<Effects, TxnError> {
        let Tables { savings, checking } = self.tables;
        let Input { kind, ref from, ref to, cents } = *input;
        Ok(match kind {
            Kind::Balance => {
                txn.announce(&[Announced::read(savings, *from), Announced::read(checking, *from)]);
                std::hint::black_box(self.read(txn, savings, from)? + self.read(txn, checking, from)?);
                Effects::NONE
            }
            Kind::DepositChecking => {
                self.pay(txn, checking, from, cents)?;
                Effects::NONE.with(0, cents as u64).with(2, 1)
            }
            Kind::TransactSavings => {
                if self.pay(txn, savings, from, cents)? < 0 {
                    return Err(TxnError::Rollback);
                }
                let (deposited, withdrawn) = (cents.max(0), (-cents).max(0));
                Effects::NONE.with(0, deposited as u64).with(1, withdrawn as u64).with(2, 1)
            }
            Kind::Amalgamate => self.amalgamate(txn, from, to)?,
            Kind::WriteCheck => self.write_check(txn, from, cents)?,
            Kind::SendPayment => {
                txn.announce(&[from, to].map(|key| Announced::update(checking, *key)));
                if self.pay(txn, checking, from, -cents)? < 0 {
                    return Err(TxnError::Rollback);
                }
                self.pay(txn, checking, to, cents)?;
                Effects::NONE.with(2, 2)
            }
        })
    }
}
