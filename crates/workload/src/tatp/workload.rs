//! The seven transactions (TATP 1.0, section 4).

use std::ops::ControlFlow;

use liger_engine::{Announced, NewRow, TableId, Transaction, TxnError};

use super::schema::{self, Subscriber, access_info, call_forwarding, special_facility, subscriber};
use super::{Tables, Tatp};
use crate::driver::{Effects, RunWorker, Workload};
use crate::random::Rng;

/// Sum of the values that updates have written: locations, flags and data.
pub const WRITTEN: &str = "values_written";
/// Sum of those that they have replaced.
pub const REPLACED: &str = "values_replaced";
/// Call forwardings inserted.
pub const INSERTS: &str = "inserts";
/// Call forwardings deleted.
pub const DELETES: &str = "deletes";
/// Sum of the hashes of the keys inserted.
pub const INSERTED_KEYS: &str = "inserted_keys";
/// Sum of the hashes of the keys deleted.
pub const DELETED_KEYS: &str = "deleted_keys";

/// What one worker runs.
#[derive(Clone, Debug)]
pub struct TatpWorker {
    pub(super) tables: Tables,
    pub(super) tatp: Tatp,
    /// Partitions of the worker's host.
    pub(super) homes: Vec<u16>,
}

/// The types of transactions, by the specification's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the specification's names")]
pub enum Kind {
    GetSubscriberData,
    GetNewDestination,
    GetAccessData,
    UpdateSubscriberData,
    UpdateLocation,
    InsertCallForwarding,
    DeleteCallForwarding,
}

const KINDS: [(Kind, u64); 7] = [
    (Kind::GetSubscriberData, 35),
    (Kind::GetNewDestination, 10),
    (Kind::GetAccessData, 35),
    (Kind::UpdateSubscriberData, 2),
    (Kind::UpdateLocation, 14),
    (Kind::InsertCallForwarding, 2),
    (Kind::DeleteCallForwarding, 2),
];

/// What a transaction is asked to do; every type uses its part.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    /// Its type.
    pub kind: Kind,
    /// The subscriber.
    pub who: Subscriber,
    /// Of access information or of the special facility.
    pub of_type: i16,
    /// 0, 8 or 16 hours.
    pub start_time: i16,
    /// In hours.
    pub end_time: i16,
    /// The new flag, datum or location.
    pub value: i32,
}

/// A worker's stream of inputs.
#[derive(Debug)]
pub struct Source {
    rng: Rng,
    row: NewRow,
}

/// A hash of 32 bits of a call forwarding's key, for sums over sets of them.
pub(super) fn forwarding_hash(who: Subscriber, sf_type: i16, start_time: i16) -> u64 {
    let (p, s_id) = (who.0 as u64, who.1 as u64);
    Rng::keyed(p, &[s_id, sf_type as u64, start_time as u64]).next_u64() >> 32
}

impl TatpWorker {
    /// The specification's non-uniform numbers (2.4): an OR of two uniform ones.
    fn number(&self, rng: &mut Rng) -> i32 {
        let n = u64::from(self.tatp.subscribers);
        let a = match n {
            ..=1_000_000 => 65_535,
            1_000_001..=10_000_000 => 1_048_575,
            _ => 2_097_151,
        };
        ((rng.below(a + 1) | (1 + rng.below(n))) % n + 1) as i32
    }

    /// The subscriber that has these 15 digits, by the index.
    fn find<T: Transaction>(&self, txn: &mut T, who: Subscriber) -> Result<Subscriber, TxnError> {
        let range = schema::number_range(who.0, &schema::sub_nbr(who));
        let mut found = None;
        txn.scan_index(self.tables.by_number, &range, |row| {
            found = Some((row.get(subscriber::P), row.get(subscriber::S_ID)));
            ControlFlow::Break(())
        })?;
        found.ok_or(self.missing(self.tables.subscriber, who))
    }

    fn missing(&self, table: TableId, who: Subscriber) -> TxnError {
        TxnError::Damaged { table, what: "database: a subscriber is missing", found: who.1 as u64 }
    }

    fn get_subscriber<T: Transaction>(&self, txn: &mut T, who: Subscriber) -> Result<Effects, TxnError> {
        let key = schema::subscriber_key(who);
        let read = txn.get(self.tables.subscriber, &key, |row| {
            std::hint::black_box((row.get(subscriber::VLR_LOCATION), row.get(subscriber::BIT_1)));
            std::hint::black_box((row.get(subscriber::HEXES), row.get(subscriber::BYTES)));
        })?;
        read.map(|()| Effects::NONE).ok_or(self.missing(self.tables.subscriber, who))
    }

    fn get_destination<T: Transaction>(&self, txn: &mut T, input: &Input) -> Result<Effects, TxnError> {
        let Input { who, of_type, start_time, end_time, .. } = *input;
        let key = schema::kind_key(who, of_type);
        let active =
            txn.get(self.tables.special_facility, &key, |row| row.get(special_facility::IS_ACTIVE))?;
        if active == Some(1) {
            let range = schema::forwardings_until(who, of_type, start_time);
            txn.scan(self.tables.call_forwarding, &range, |_, row| {
                if row.get(call_forwarding::END_TIME) > end_time {
                    std::hint::black_box(row.get(call_forwarding::NUMBERX));
                }
                ControlFlow::Continue(())
            })?;
        }
        Ok(Effects::NONE)
    }

    fn get_access<T: Transaction>(&self, txn: &mut T, input: &Input) -> Result<Effects, TxnError> {
        let key = schema::kind_key(input.who, input.of_type);
        txn.get(self.tables.access_info, &key, |row| {
            std::hint::black_box((row.get(access_info::DATA1), row.get(access_info::DATA4)));
        })?;
        Ok(Effects::NONE)
    }

    fn update_subscriber<T: Transaction>(&self, txn: &mut T, input: &Input) -> Result<Effects, TxnError> {
        let Input { who, of_type, value, .. } = *input;
        let Tables { subscriber: subscribers, special_facility: facilities, .. } = self.tables;
        let (key, facility) = (schema::subscriber_key(who), schema::kind_key(who, of_type));
        txn.announce(&[Announced::update(subscribers, key), Announced::update(facilities, facility)]);
        let bit = (value & 1) as i16;
        let old_bit = txn.update(subscribers, &key, |row| {
            let old = row.get(subscriber::BIT_1);
            row.set(subscriber::BIT_1, bit);
            old
        })?;
        let old_bit = old_bit.ok_or(self.missing(subscribers, who))?;
        let data = (value >> 1 & 0xff) as i16;
        let old_data = txn.update(facilities, &facility, |row| {
            let old = row.get(special_facility::DATA_A);
            row.set(special_facility::DATA_A, data);
            old
        })?;
        let old_data = old_data.ok_or(TxnError::Rollback)?;
        Ok(Effects::NONE.with(0, (bit + data) as u64).with(1, (old_bit + old_data) as u64))
    }

    fn update_location<T: Transaction>(&self, txn: &mut T, input: &Input) -> Result<Effects, TxnError> {
        let who = self.find(txn, input.who)?;
        let old = txn.update(self.tables.subscriber, &schema::subscriber_key(who), |row| {
            let old = row.get(subscriber::VLR_LOCATION);
            row.set(subscriber::VLR_LOCATION, input.value);
            old
        })?;
        let old = old.ok_or(self.missing(self.tables.subscriber, who))?;
        Ok(Effects::NONE.with(0, input.value as u64).with(1, old as u64))
    }

    fn insert_forwarding<T: Transaction>(
        &self,
        txn: &mut T,
        input: &Input,
        row: &mut NewRow,
    ) -> Result<Effects, TxnError> {
        let Input { of_type, start_time, end_time, value, .. } = *input;
        let who = self.find(txn, input.who)?;
        let mut has = false;
        txn.scan(self.tables.special_facility, &schema::facilities_of(who), |_, row| {
            has |= row.get(special_facility::SF_TYPE) == of_type;
            ControlFlow::Continue(())
        })?;
        if !has {
            return Err(TxnError::Rollback);
        }
        schema::forwarding(who, (of_type, start_time, end_time), &format!("{value:015}"), row);
        match txn.insert(self.tables.call_forwarding, row) {
            Err(TxnError::DuplicateKey { .. }) => Err(TxnError::Rollback),
            inserted => inserted,
        }?;
        Ok(Effects::NONE.with(2, 1).with(4, forwarding_hash(who, of_type, start_time)))
    }

    fn delete_forwarding<T: Transaction>(&self, txn: &mut T, input: &Input) -> Result<Effects, TxnError> {
        let Input { of_type, start_time, .. } = *input;
        let who = self.find(txn, input.who)?;
        let key = schema::forwarding_key(who, of_type, start_time);
        if !txn.delete(self.tables.call_forwarding, &key)? {
            return Err(TxnError::Rollback);
        }
        Ok(Effects::NONE.with(3, 1).with(5, forwarding_hash(who, of_type, start_time)))
    }
}

impl Workload for TatpWorker {
    type Source = Source;
    type Input = Input;

    const KINDS: &'static [&'static str] = &[
        "get_subscriber",
        "get_destination",
        "get_access",
        "upd_subscriber",
        "upd_location",
        "ins_forwarding",
        "del_forwarding",
    ];
    const EFFECTS: &'static [&'static str] =
        &[WRITTEN, REPLACED, INSERTS, DELETES, INSERTED_KEYS, DELETED_KEYS];

    fn source(&self, _: RunWorker, rng: Rng) -> Source {
        Source { rng, row: NewRow::default() }
    }

    fn draw(&self, Source { rng, .. }: &mut Source, _: i64) -> Input {
        let mut card = rng.below(100);
        let drawn = KINDS.into_iter().find(|(_, share)| {
            let here = card < *share;
            card = card.wrapping_sub(*share);
            here
        });
        let home = self.homes[rng.below(self.homes.len() as u64) as usize];
        let all = self.tatp.partitions;
        let away = rng.percent(self.tatp.cross_percent) && all > 1;
        let partition = if away {
            let drawn = rng.below(u64::from(all) - 1) as u16;
            drawn + u16::from(drawn >= home)
        } else {
            home
        };
        let kind = drawn.expect("a hundred cards").0;
        let start_time = 8 * rng.below(3) as i16;
        let end_time = match kind {
            Kind::InsertCallForwarding => start_time + rng.between(1, 8) as i16,
            _ => rng.between(1, 24) as i16,
        };
        Input {
            kind,
            who: (partition as i16, self.number(rng)),
            of_type: rng.between(1, 4) as i16,
            start_time,
            end_time,
            value: rng.below(1 << 31) as i32,
        }
    }

    fn kind(&self, input: &Input) -> usize {
        input.kind as usize
    }

    fn run<T: Transaction>(
        &self,
        source: &mut Source,
        txn: &mut T,
        input: &Input,
    ) -> Result<Effects, TxnError> {
        match input.kind {
            Kind::GetSubscriberData => self.get_subscriber(txn, input.who),
            Kind::GetNewDestination => self.get_destination(txn, input),
            Kind::GetAccessData => self.get_access(txn, input),
            Kind::UpdateSubscriberData => self.update_subscriber(txn, input),
            Kind::UpdateLocation => self.update_location(txn, input),
            Kind::InsertCallForwarding => self.insert_forwarding(txn, input, &mut source.row),
            Kind::DeleteCallForwarding => self.delete_forwarding(txn, input),
        }
    }
}
