//! Is every acknowledged transfer there, exactly once, and is the money right?
//!
//! 1. Every row of both tables is looked at once. Nothing is assumed of them: what is out of range, twice
//!    there or missing is a finding.
//! 2. A transfer that nobody was told of may be there or not, but if it is there then wholly: both accounts
//!    have it.
//! 3. Memory: 8 bytes for each number that a client has used, 24 for each account.
//!
//! Beyond sums: the balances that an account had before its transfers, and the last one, are those that it
//! had after them, and the first one. So a transfer that started from a balance which was never there is
//! found even where sums agree.

use std::collections::BTreeMap;
use std::fmt;

use liger_engine::Row;

use super::client::{Told, digest};
use super::schema::{Tables, accounts, transfers};
use super::{Book, Request, START_CENTS};
use crate::random::Rng;
use crate::snapshot::Snapshot;

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)*) => {
        /// What can be found wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Fault { $($(#[doc = $doc])+ $name,)* }

        impl Fault {
            /// Its description in findings.
            pub const fn text(self) -> &'static str {
                match self { $(Fault::$name => $text,)* }
            }
        }
    };
}

faults! {
    /// Somebody was told that it is done.
    Lost = "an acknowledged transfer is lost",
    /// It has more than one row.
    Doubled = "a transfer is there more than once",
    /// Nobody asked for it, or for something else.
    Foreign = "a transfer differs from what was asked for",
    /// The client was told other balances.
    Told = "a transfer differs from what its client was told",
    /// A client was told different things about one transfer.
    Contradiction = "a client was told different things about one transfer",
    /// Some transfer is only half there, or more than once.
    Balance = "an account does not hold its start and its transfers",
    /// Some transfer has used a balance that was never there.
    Chain = "the balances of an account's transfers do not follow from one another",
    /// It is not there, or twice.
    Account = "an account is not there exactly once",
    /// Money was made or lost.
    Total = "the sum of all balances has changed",
}

/// One finding: what, where, and both numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub fault: Fault,
    /// Where.
    pub key: String,
    /// The number that would be right.
    pub expected: i64,
    /// The number that is there.
    pub found: i64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, key, expected, found } = self;
        write!(f, "{}: {key}: expected {expected}, found {found}", fault.text())
    }
}

/// Findings of each fault that are kept in full.
pub const KEPT: usize = 20;

/// What the check found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    kept: Vec<Finding>,
    counts: BTreeMap<Fault, u64>,
    /// Transfers in the database.
    pub transfers: u64,
}

impl Findings {
    fn report(&mut self, fault: Fault, key: impl FnOnce() -> String, expected: i64, found: i64) {
        let count = self.counts.entry(fault).or_default();
        *count += 1;
        if *count <= KEPT as u64 {
            self.kept.push(Finding { fault, key: key(), expected, found });
        }
    }

    /// Whether nothing is wrong.
    pub fn is_right(&self) -> bool {
        self.counts.is_empty()
    }

    /// How often a fault was found.
    pub fn count(&self, fault: Fault) -> u64 {
        self.counts.get(&fault).copied().unwrap_or(0)
    }

    /// The first [`KEPT`] findings of each fault.
    pub fn findings(&self) -> &[Finding] {
        &self.kept
    }

    /// The findings in words.
    pub fn lines(&self) -> Vec<String> {
        let beyond = self.counts.iter().filter(|(_, n)| **n > KEPT as u64);
        let more = beyond.map(|(fault, n)| format!("{}: {n} findings in all", fault.text()));
        self.kept.iter().map(Finding::to_string).chain(more).collect()
    }
}

/// What is known of one account.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The sum of its transfers, in cents.
    moved_cents: i64,
    /// Digests of the balances before its transfers, less those of the balances after them.
    chain: u64,
    /// Rows of it.
    rows: u32,
}

/// One balance of an account, so that sums of many tell sets apart.
fn mixed(account: i32, cents: i64) -> u64 {
    Rng::keyed(0, &[account as u64, cents as u64]).next_u64()
}

struct Tally<'a> {
    book: &'a Book,
    /// Clients below it were others', and all that is known of them is what their rows say.
    first_client: u32,
    told: &'a [Told],
    accounts: Vec<Known>,
    /// By client and number: rows seen.
    seen: Vec<Vec<u8>>,
    found: Findings,
}

impl Tally<'_> {
    fn transfer(&mut self, row: Row<'_>) {
        let (client, number) = (row.get(transfers::CLIENT), row.get(transfers::REQUEST));
        let key = || format!("client {client}, number {number}");
        self.found.transfers += 1;
        let (from, to) = (row.get(transfers::FROM_ID), row.get(transfers::TO_ID));
        let amount_cents = row.get(transfers::AMOUNT);
        let (from_cents, to_cents) = (row.get(transfers::FROM_BALANCE), row.get(transfers::TO_BALANCE));
        for (account, cents, moved) in [(from, from_cents, -amount_cents), (to, to_cents, amount_cents)] {
            let Some(known) = usize::try_from(account).ok().and_then(|at| self.accounts.get_mut(at)) else {
                self.found.report(Fault::Foreign, key, 0, account.into());
                continue;
            };
            known.moved_cents = known.moved_cents.wrapping_add(moved);
            let (before, after) = (mixed(account, cents.wrapping_sub(moved)), mixed(account, cents));
            known.chain = known.chain.wrapping_add(before).wrapping_sub(after);
        }
        if (0..i64::from(self.first_client)).contains(&client.into()) {
            return;
        }
        let of = (client as u32).wrapping_sub(self.first_client) as usize;
        let at = (number as u64).wrapping_sub(1) as usize;
        let Some(seen) = self.seen.get_mut(of).and_then(|seen| seen.get_mut(at)) else {
            return self.found.report(Fault::Foreign, key, 0, amount_cents);
        };
        *seen = seen.saturating_add(1);
        if *seen > 1 {
            self.found.report(Fault::Doubled, key, 1, (*seen).into());
        }
        let asked = self.book.request(client as u32, number as u64);
        if asked != (Request { from, to, amount_cents, ..asked }) {
            self.found.report(Fault::Foreign, key, asked.amount_cents, amount_cents);
        }
        let told = self.told[of].digest(number as u64);
        if told.is_some_and(|told| told != digest(from_cents, to_cents)) {
            self.found.report(Fault::Told, key, 0, from_cents);
        }
    }

    fn account(&mut self, row: Row<'_>, total: &mut i128) {
        let (account, cents) = (row.get(accounts::ID), row.get(accounts::BALANCE));
        let key = || format!("account {account}");
        *total += i128::from(cents);
        let Some(known) = usize::try_from(account).ok().and_then(|at| self.accounts.get_mut(at)) else {
            return self.found.report(Fault::Account, key, 0, 1);
        };
        known.rows += 1;
        let Known { moved_cents, chain, .. } = *known;
        let expected = START_CENTS.wrapping_add(moved_cents);
        if cents != expected {
            self.found.report(Fault::Balance, key, expected, cents);
        }
        if chain.wrapping_add(mixed(account, cents)) != mixed(account, START_CENTS) {
            self.found.report(Fault::Chain, key, expected, cents);
        }
    }

    fn conclude(mut self, total: i128) -> Findings {
        for (account, known) in self.accounts.iter().enumerate().filter(|(_, known)| known.rows != 1) {
            self.found.report(Fault::Account, || format!("account {account}"), 1, known.rows.into());
        }
        let expected = i128::from(START_CENTS) * self.accounts.len() as i128;
        if total != expected {
            let short = |cents: i128| i64::try_from(cents).unwrap_or(i64::MAX);
            self.found.report(Fault::Total, || "all accounts".to_owned(), short(expected), short(total));
        }
        for (client, (told, seen)) in self.told.iter().zip(&self.seen).enumerate() {
            let lost =
                (1u64..).zip(seen).filter(|(number, rows)| **rows == 0 && told.is_acknowledged(*number));
            for (number, _) in lost {
                let key = || format!("client {}, number {number}", client + self.first_client as usize);
                self.found.report(Fault::Lost, key, 1, 0);
            }
            if told.contradictions > 0 {
                let n = told.contradictions as i64;
                let key = || format!("client {}", client + self.first_client as usize);
                self.found.report(Fault::Contradiction, key, 0, n);
            }
        }
        self.found
    }
}

/// Checks a database that was loaded as `book` says; `told` has what the clients from `first_client` on were
/// told. Of transfers of earlier clients only the money is checked.
///
/// # Panics
/// When the book does not validate.
pub fn check(
    snapshot: &dyn Snapshot,
    tables: &Tables,
    book: &Book,
    first_client: u32,
    told: &[Told],
) -> Findings {
    book.validate().expect("the book that was loaded");
    let mut tally = Tally {
        book,
        first_client,
        told,
        accounts: vec![Known::default(); book.all_accounts() as usize],
        seen: told.iter().map(|told| vec![0; told.asked() as usize]).collect(),
        found: Findings::default(),
    };
    snapshot.rows(tables.transfers, &mut |row| tally.transfer(row));
    let mut total = 0;
    snapshot.rows(tables.accounts, &mut |row| tally.account(row, &mut total));
    tally.conclude(total)
}
