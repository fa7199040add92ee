//! What evaluation may see besides its arguments: settings of the session, times, and the system behind it.

use std::borrow::Cow;
use std::sync::Arc;

use super::costs::Costs;
use super::datetime::date_style::DateStyle;
use super::datetime::interval_style::IntervalStyle;
use super::value::Value;
use super::{BuiltinTypes, Oid, TypeInfo, Types, oid};
use crate::encoding::{self, Encoding};
use crate::error::{Result, SqlError};
use crate::missing;
use crate::temporary::{KILOBYTE, TemporaryFiles};

/// Settings of a session that change what expressions give, or how rows are found.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `TimeZone`.
    pub time_zone: jiff::tz::TimeZone,
    /// The name that `SHOW timezone` gives.
    pub time_zone_name: String,
    /// `DateStyle`.
    pub date_style: DateStyle,
    /// `IntervalStyle`.
    pub interval_style: IntervalStyle,
    /// `bytea_output` is `escape` instead of `hex`.
    pub bytea_escape: bool,
    /// `extra_float_digits`: 1 and more prints the shortest digits that read back.
    pub extra_float_digits: i32,
    /// `client_encoding`: of texts in binary values, which come from the client or go to it.
    pub client_encoding: &'static Encoding,
    /// `work_mem`, in bytes: what a sort takes in memory.
    pub work_mem: usize,
    /// `hash_mem_multiplier`: how many times as much a hash table takes.
    pub hash_mem_multiplier: f64,
    /// What planning goes by.
    pub costs: Costs,
}

impl Settings {
    /// Bytes that a hash table takes in memory.
    pub fn hash_mem(&self) -> usize {
        (self.work_mem as f64 * self.hash_mem_multiplier) as usize
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            time_zone: jiff::tz::TimeZone::UTC,
            time_zone_name: "UTC".to_string(),
            date_style: DateStyle::default(),
            interval_style: IntervalStyle::default(),
            bytea_escape: false,
            extra_float_digits: 1,
            client_encoding: encoding::utf8(),
            work_mem: 4096 * KILOBYTE,
            hash_mem_multiplier: 2.0,
            costs: Costs::default(),
        }
    }
}

/// Rows of a function that returns a set: one value for each of its output columns.
pub type SetRows = Box<dyn Iterator<Item = Result<Vec<Value>>> + Send>;

/// The system behind an expression: clock, randomness, session and catalog. Methods that a small system has
/// no answer for have defaults.
pub trait System {
    /// Now, in microseconds since 2000-01-01 00:00 UTC (`clock_timestamp()`).
    fn clock_us(&self) -> i64;

    /// 64 random bits.
    fn random_u64(&self) -> u64;

    /// 64 random bits, those of the seed once there is one (`setseed`).
    fn seeded_u64(&self) -> u64 {
        self.random_u64()
    }

    /// A type, built in or a user's.
    fn type_info(&self, oid: Oid) -> Option<Cow<'_, TypeInfo>> {
        BuiltinTypes.type_info(oid)
    }

    /// The label of an enum type with this text.
    fn enum_label(&self, oid: Oid, _label: &str) -> Option<Value> {
        let _ = oid;
        None
    }

    /// Whether a label was added to an enum type by the transaction that runs.
    fn is_new_label(&self, _oid: Oid, _label: &str) -> bool {
        false
    }

    /// All labels of an enum type in its order.
    fn enum_labels(&self, _oid: Oid) -> Vec<Value> {
        Vec::new()
    }

    /// The oid of an object by its name, as input of the type `reg` (regclass, regtype, regproc...).
    fn reg_in(&self, reg: Oid, name: &str) -> Result<Oid>;

    /// The name of an object, as output of the type `reg`; `None` if there is no such object.
    fn reg_out(&self, reg: Oid, oid: Oid) -> Option<String>;

    /// Calls a function that only the system can carry out (`nextval`, `pg_get_indexdef`, `current_setting`,
    /// `format_type`...): `source` is the name in `func::Function::source`, `oid` tells overloads apart.
    fn call(&self, source: &str, oid: Oid, arguments: &[Value]) -> Result<Value>;

    /// The same for functions that return sets of rows.
    fn call_set(&self, source: &str, oid: Oid, _arguments: &[Value]) -> Result<SetRows> {
        let _ = oid;
        Err(SqlError::unsupported(format_args!("function {source}"), missing::TYPES))
    }

    /// The rows of a relation that the system makes (`pg_class` and its kin): all of them, or at least those
    /// that have this value in one of its columns.
    fn relation_rows(&self, _relation: Oid, _key: Option<(usize, &Value)>) -> Result<Vec<Vec<Value>>> {
        Ok(Vec::new())
    }

    /// Where statements put what they cannot hold in memory; without one they hold all of it.
    fn temporary_files(&self) -> Option<Arc<TemporaryFiles>> {
        None
    }

    /// Whether [`System::call`] or [`System::call_set`] knows this function.
    fn has(&self, _source: &str) -> bool {
        false
    }
}

/// What a function may look at besides its arguments.
#[derive(Clone, Copy)]
pub struct EvalContext<'a> {
    /// The session's settings.
    pub settings: &'a Settings,
    /// When the transaction began (`now()`), in microseconds since 2000-01-01 00:00 UTC.
    pub transaction_start_us: i64,
    /// When the statement began (`statement_timestamp()`), in the same unit.
    pub statement_start_us: i64,
    /// Everything else.
    pub system: &'a dyn System,
    /// Types of the call's arguments as resolved (polymorphic and "any" functions look at them); empty
    /// outside of a call.
    pub argument_types: &'a [Oid],
    /// Result type of the call as resolved; 0 outside of a call.
    pub result_type: Oid,
}

impl<'a> EvalContext<'a> {
    /// A context outside of any call.
    pub fn new(settings: &'a Settings, system: &'a dyn System, now_us: i64) -> EvalContext<'a> {
        EvalContext {
            settings,
            transaction_start_us: now_us,
            statement_start_us: now_us,
            system,
            argument_types: &[],
            result_type: 0,
        }
    }

    /// The context of one call.
    pub fn for_call(&self, argument_types: &'a [Oid], result_type: Oid) -> EvalContext<'a> {
        EvalContext { argument_types, result_type, ..*self }
    }
}

impl Types for EvalContext<'_> {
    fn type_info(&self, oid: Oid) -> Option<Cow<'_, TypeInfo>> {
        self.system.type_info(oid)
    }

    fn shown(&self, oid: Oid) -> Option<String> {
        self.system.reg_out(oid::REGTYPE, oid)
    }
}

/// A system without a clock, randomness or catalog: for constant expressions and tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSystem;

impl System for NoSystem {
    fn clock_us(&self) -> i64 {
        0
    }

    fn random_u64(&self) -> u64 {
        0
    }

    fn reg_in(&self, _reg: Oid, name: &str) -> Result<Oid> {
        Err(SqlError::unsupported(format_args!("looking up \"{name}\" here"), missing::BARE))
    }

    fn reg_out(&self, _reg: Oid, _oid: Oid) -> Option<String> {
        None
    }

    fn call(&self, source: &str, _oid: Oid, _arguments: &[Value]) -> Result<Value> {
        Err(SqlError::unsupported(format_args!("function {source}"), missing::TYPES))
    }
}
