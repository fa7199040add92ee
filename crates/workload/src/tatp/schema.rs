//! The four tables of TATP, and what is in them at first (TATP 1.0, sections 2 and 3).
//!
//! 1. A subscriber is a number within a partition; its `SUB_NBR` is 15 digits that tell both. Every table is
//!    placed by the partition, so a subscriber's rows are on one host.
//! 2. Every row follows from (seed, subscriber) alone.

use liger_engine::{Key, KeyRange, NewRow, TableId, TableSchema, table};

use super::{Tables, Tatp};
use crate::random::Rng;

table! {
    /// Subscribers.
    pub mod subscriber: "subscriber" {
        P: SmallInt,
        S_ID: Int,
        SUB_NBR: Text<15>,
        BIT_1: SmallInt,
        VLR_LOCATION: Int,
        MSC_LOCATION: Int,
        BITS_2_TO_10: Bytes<9>,
        HEXES: Bytes<10>,
        BYTES: Bytes<10>,
    }
    primary key (P, S_ID);
    unique index "subscriber_by_number" (P, SUB_NBR);
}

table! {
    /// Access information: one to four kinds of each subscriber.
    pub mod access_info: "access_info" {
        P: SmallInt,
        S_ID: Int,
        AI_TYPE: SmallInt,
        DATA1: SmallInt,
        DATA2: SmallInt,
        DATA3: Text<3>,
        DATA4: Text<5>,
    }
    primary key (P, S_ID, AI_TYPE);
}

table! {
    /// Special facilities: one to four kinds of each subscriber.
    pub mod special_facility: "special_facility" {
        P: SmallInt,
        S_ID: Int,
        SF_TYPE: SmallInt,
        IS_ACTIVE: SmallInt,
        ERROR_CNTRL: SmallInt,
        DATA_A: SmallInt,
        DATA_B: Text<5>,
    }
    primary key (P, S_ID, SF_TYPE);
}

table! {
    /// Call forwardings: up to three of each special facility, which begin at different times.
    pub mod call_forwarding: "call_forwarding" {
        P: SmallInt,
        S_ID: Int,
        SF_TYPE: SmallInt,
        START_TIME: SmallInt,
        END_TIME: SmallInt,
        NUMBERX: Text<15>,
    }
    primary key (P, S_ID, SF_TYPE, START_TIME);
}

/// A subscriber: the partition, and its number there.
pub type Subscriber = (i16, i32);

/// The tables, in the order in which a catalog numbers them.
pub fn schemas() -> Vec<TableSchema> {
    vec![subscriber::schema(), access_info::schema(), special_facility::schema(), call_forwarding::schema()]
}

/// The key of a subscriber.
pub fn subscriber_key((p, s_id): Subscriber) -> Key {
    Key::build().i16(p).i32(s_id).finish()
}

/// The key of one kind of access information, or of one special facility.
pub fn kind_key((p, s_id): Subscriber, kind: i16) -> Key {
    Key::build().i16(p).i32(s_id).i16(kind).finish()
}

/// The key of a call forwarding.
pub fn forwarding_key((p, s_id): Subscriber, sf_type: i16, start_time: i16) -> Key {
    Key::build().i16(p).i32(s_id).i16(sf_type).i16(start_time).finish()
}

/// The call forwardings of a special facility that begin at this time or earlier.
pub fn forwardings_until((p, s_id): Subscriber, sf_type: i16, start_time: i16) -> KeyRange {
    let facility = || Key::build().i16(p).i32(s_id).i16(sf_type);
    KeyRange::from_through(facility(), facility().i16(start_time), 2)
}

/// The special facilities of a subscriber.
pub fn facilities_of((p, s_id): Subscriber) -> KeyRange {
    KeyRange::prefix(Key::build().i16(p).i32(s_id), 1)
}

/// The entry of a `SUB_NBR` in its index.
pub fn number_range(p: i16, sub_nbr: &str) -> KeyRange {
    KeyRange::point(Key::build().i16(p).text(sub_nbr, 15).finish())
}

/// The 15 digits of a subscriber.
pub fn sub_nbr((p, s_id): Subscriber) -> String {
    format!("{p:05}{s_id:010}")
}

/// Hands the rows of one subscriber to `emit`.
pub(super) fn load_subscriber<E>(
    tatp: &Tatp,
    tables: &Tables,
    who: Subscriber,
    row: &mut NewRow,
    emit: &mut impl FnMut(TableId, &NewRow) -> Result<(), E>,
) -> Result<(), E> {
    let (p, s_id) = who;
    let mut rng = Rng::keyed(tatp.seed, &[p as u64, s_id as u64]);
    let mut below = |bound: u8| std::array::from_fn::<u8, 10, _>(|_| rng.below(bound.into()) as u8);
    let (bits, hexes, bytes) = (below(2), below(16), below(255));
    {
        use subscriber::*;
        row.reset(ROW_LEN).set(P, p).set(S_ID, s_id).set(SUB_NBR, &sub_nbr(who));
        row.set(BIT_1, bits[0].into()).set(BITS_2_TO_10, &bits[1..]).set(HEXES, &hexes).set(BYTES, &bytes);
        row.set(MSC_LOCATION, rng.between(1, i32::MAX.into()) as i32);
        row.set(VLR_LOCATION, rng.between(1, i32::MAX.into()) as i32);
        emit(tables.subscriber, row)?;
    }
    for ai_type in some_of(&mut rng, [1, 2, 3, 4], 1) {
        use access_info::*;
        row.reset(ROW_LEN).set(P, p).set(S_ID, s_id).set(AI_TYPE, ai_type);
        row.set(DATA1, rng.below(256) as i16).set(DATA2, rng.below(256) as i16);
        row.set(DATA3, &rng.letters(3)).set(DATA4, &rng.letters(5));
        emit(tables.access_info, row)?;
    }
    for sf_type in some_of(&mut rng, [1, 2, 3, 4], 1) {
        {
            use special_facility::*;
            row.reset(ROW_LEN).set(P, p).set(S_ID, s_id).set(SF_TYPE, sf_type);
            row.set(IS_ACTIVE, rng.percent(85).into()).set(ERROR_CNTRL, rng.below(256) as i16);
            row.set(DATA_A, rng.below(256) as i16).set(DATA_B, &rng.letters(5));
            emit(tables.special_facility, row)?;
        }
        for start_time in some_of(&mut rng, [0, 8, 16], 0) {
            let end_time = start_time + rng.between(1, 8) as i16;
            forwarding(who, (sf_type, start_time, end_time), &rng.n_string(15, 15), row);
            emit(tables.call_forwarding, row)?;
        }
    }
    Ok(())
}

/// A row of call forwarding: of this special facility, from and until these times.
pub fn forwarding(
    (p, s_id): Subscriber,
    (sf_type, from, until): (i16, i16, i16),
    number: &str,
    row: &mut NewRow,
) {
    use call_forwarding::*;
    row.reset(ROW_LEN).set(P, p).set(S_ID, s_id).set(SF_TYPE, sf_type).set(START_TIME, from);
    row.set(END_TIME, until).set(NUMBERX, number);
}

/// At least so many of the values, ascending, every number of them alike.
fn some_of<const N: usize>(rng: &mut Rng, mut values: [i16; N], least: i64) -> Vec<i16> {
    rng.shuffle(&mut values);
    let mut some = values[..rng.between(least, N as i64) as usize].to_vec();
    some.sort_unstable();
    some
}
