//! A ledger whose clients are outside the hosts: they number their transfers, remember every acknowledgement,
//! and ask again when a connection is lost. It shows what a pod owes to somebody who survives its hosts.
//!
//! * [`schema`]: accounts and transfers. [`Book`]: what a client asks for, from a seed.
//! * [`transfer`]: the transaction. [`request_queue`]: a host's side, which answers when a transfer is
//!   durable.
//! * [`client`]: the other side, which remembers. [`wire`]: the bytes between them.
//! * [`check`]: every acknowledged transfer is there once, none twice, and no money was made or lost.
//!
//! 1. What request `number` of client `client` asks for follows from the seed, the client and the number
//!    alone: nobody has to remember contents, and a row that differs from what was asked is found.
//! 2. Exactly once: a transfer's row is inserted by the transaction that moves the money, under the client's
//!    number. Whoever asks again finds the row and is told what it says.
//! 3. A client's transfers, and the account that each of them has at home, are in one partition, the
//!    client's. The other account is in another partition for `remote_percent` of them, and then among the
//!    partition's first `hot` accounts, which hosts therefore share all the time.
//!
//! By 3 a client knows before it asks what a transfer needs of a host that is dead: nothing, one of its
//! rows in shared memory, or its partition.

pub mod check;
pub mod client;
pub mod request_queue;
pub mod schema;
pub mod transfer;
pub mod wire;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::random::Rng;

/// Size of a ledger, and what its clients do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Book {
    /// Partitions of the pod, and clients: client `c` is at home in partition `c`.
    pub partitions: u16,
    /// Accounts of each partition.
    pub accounts: u32,
    /// The first ones of each partition, which remote transfers use.
    pub hot: u32,
    /// Transfers, of 100, that touch an account of another partition.
    pub remote_percent: u32,
    /// Decides the transfers.
    pub seed: u64,
}

/// What every account holds at first, in cents.
pub const START_CENTS: i64 = 1_000_000;
/// The largest transfer, in cents.
pub const AMOUNT_MAX_CENTS: i64 = 100;

/// Why a book cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BookError {
    /// No partition, or more than a SMALLINT can number.
    #[error("{0} partitions: 1 to 32767 are possible")]
    Partitions(u16),
    /// A transfer needs two accounts, and all of them need numbers.
    #[error("{accounts} accounts in each of {partitions} partitions: at least 2, and less than 2^31 in all")]
    Accounts {
        /// Accounts of a partition.
        accounts: u32,
        /// Partitions.
        partitions: u16,
    },
    /// No account for remote transfers, or more than there are.
    #[error("{hot} of {accounts} accounts are for remote transfers: 1 to all of them can be")]
    Hot {
        /// Accounts for remote transfers.
        hot: u32,
        /// Accounts of a partition.
        accounts: u32,
    },
    /// More than all.
    #[error("{0} % of the transfers are remote: 0 to 100 are possible")]
    Remote(u32),
}

/// What a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Who asks.
    pub client: u32,
    /// The client's number for it, from 1.
    pub number: u64,
    /// The account that pays.
    pub from: i32,
    /// The account that is paid.
    pub to: i32,
    /// How much, in cents.
    pub amount_cents: i64,
}

/// What a host answers when a transfer is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Who had asked.
    pub client: u32,
    /// The client's number of the transfer.
    pub number: u64,
    /// What the payer has after it, in cents.
    pub from_cents: i64,
    /// What the payee has after it, in cents.
    pub to_cents: i64,
    /// It had been done before: somebody asks again.
    pub again: bool,
}

impl Book {
    /// Refuses sizes that the clients cannot work with.
    ///
    /// # Errors
    /// Which number is wrong.
    pub fn validate(&self) -> Result<(), BookError> {
        let Self { partitions, accounts, hot, remote_percent, .. } = *self;
        if partitions == 0 || partitions > i16::MAX as u16 {
            return Err(BookError::Partitions(partitions));
        }
        if accounts < 2 || u64::from(accounts) * u64::from(partitions) >= 1 << 31 {
            return Err(BookError::Accounts { accounts, partitions });
        }
        if hot == 0 || hot > accounts {
            return Err(BookError::Hot { hot, accounts });
        }
        if remote_percent > 100 {
            return Err(BookError::Remote(remote_percent));
        }
        Ok(())
    }

    /// Accounts of all partitions.
    pub fn all_accounts(&self) -> u64 {
        u64::from(self.accounts) * u64::from(self.partitions)
    }

    /// The partition that an account is in.
    pub fn partition_of(&self, account: i32) -> u16 {
        (account as u32 % u32::from(self.partitions)) as u16
    }

    /// The account number `index` (from 0) of a partition: numbers go round the partitions.
    fn account(&self, partition: u16, index: u64) -> i32 {
        (index * u64::from(self.partitions) + u64::from(partition)) as i32
    }

    /// The partition of another account than its own that a client's transfer touches, if any.
    pub fn far_partition(&self, request: &Request) -> Option<u16> {
        let home = self.home(request.client);
        let far = |account| Some(self.partition_of(account)).filter(|partition| *partition != home);
        far(request.from).or(far(request.to))
    }

    /// The partition that a client's transfers and the accounts it is at home with are in.
    pub fn home(&self, client: u32) -> u16 {
        (client % u32::from(self.partitions)) as u16
    }

    /// What request `number` of `client` asks for.
    pub fn request(&self, client: u32, number: u64) -> Request {
        let mut rng = Rng::keyed(self.seed, &[u64::from(client), number]);
        let home = self.home(client);
        let near = rng.below(self.accounts.into());
        let is_remote = self.partitions > 1 && rng.percent(self.remote_percent);
        let other = if is_remote {
            let step = 1 + rng.below(u64::from(self.partitions) - 1);
            let far = (u64::from(home) + step) % u64::from(self.partitions);
            self.account(far as u16, rng.below(self.hot.into()))
        } else {
            let step = 1 + rng.below(u64::from(self.accounts) - 1);
            self.account(home, (near + step) % u64::from(self.accounts))
        };
        let near = self.account(home, near);
        let (from, to) = if rng.percent(50) { (near, other) } else { (other, near) };
        Request { client, number, from, to, amount_cents: rng.between(1, AMOUNT_MAX_CENTS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOK: Book = Book { partitions: 4, accounts: 100, hot: 10, remote_percent: 40, seed: 3 };

    #[test]
    fn requests_follow_from_their_numbers() {
        let mut remote = 0;
        for number in 1..=10_000 {
            let request = BOOK.request(2, number);
            assert_eq!(request, BOOK.request(2, number));
            assert_ne!(request.from, request.to);
            let partitions = [request.from, request.to].map(|account| BOOK.partition_of(account));
            assert!(partitions.contains(&2), "{request:?}");
            assert!((1..=AMOUNT_MAX_CENTS).contains(&request.amount_cents));
            if let Some(far) = BOOK.far_partition(&request) {
                remote += 1;
                let account = if partitions[0] == far { request.from } else { request.to };
                assert!(far != 2 && (account as u32 / 4) < BOOK.hot, "{request:?}");
            }
        }
        assert!((3700..4300).contains(&remote), "{remote}");
    }

    #[test]
    fn sizes_are_checked() {
        assert_eq!(BOOK.validate(), Ok(()));
        assert_eq!(Book { partitions: 0, ..BOOK }.validate(), Err(BookError::Partitions(0)));
        assert_eq!(
            Book { accounts: 1 << 30, ..BOOK }.validate(),
            Err(BookError::Accounts { accounts: 1 << 30, partitions: 4 })
        );
        assert_eq!(Book { hot: 101, ..BOOK }.validate(), Err(BookError::Hot { hot: 101, accounts: 100 }));
        assert_eq!(Book { remote_percent: 101, ..BOOK }.validate(), Err(BookError::Remote(101)));
        let lonely = Book { partitions: 1, ..BOOK };
        assert_eq!(lonely.far_partition(&lonely.request(0, 1)), None);
    }
}
