//! CREATE and ALTER SEQUENCE.
use crate::catalog::object::{Object, Sequence};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::store::{Store, lost};
use crate::parse::ast::{Path, SequenceOption};
use crate::types::{Oid, oid};

impl<S: Store> LocalSession<S> {
    pub(crate) fn create_sequence(
        &self,
        (path, temporary): (&Path, bool),
        fine: bool,
        options: &[SequenceOption],
    ) -> Result<()> {
        let place = || self.target_schema(path, temporary);
        if fine && self.relation_exists(place()?, path.last(), true)? {
            return Ok(());
        }
        let sequence = self.numbers(path.last(), oid::INT8, options)?;
        let schema = place()?;
        self.relation_exists(schema, path.last(), false)?;
        let sequence = self.placed(sequence, schema, options)?;
        self.store.create(self.own(Object::Sequence(sequence)))
    }

    pub(crate) fn new_sequence(
        &self,
        schema: Oid,
        name: &str,
        ty: Oid,
        options: &[SequenceOption],
    ) -> Result<Sequence> {
        self.placed(self.numbers(name, ty, options)?, schema, options)
    }

    /// A sequence that is nowhere yet, and nobody's.
    fn numbers(&self, name: &str, ty: Oid, options: &[SequenceOption]) -> Result<Sequence> {
        let mut sequence = Sequence {
            oid: 0,
            name: name.to_string(),
            schema: 0,
            owner: self.role(),
            type_oid: ty,
            start: 0,
            increment: 1,
            min: 0,
            max: 0,
            cache: 1,
            cycle: false,
            owned_by: None,
            grants: Vec::new(),
            comment: None,
        };
        self.apply_sequence(&mut sequence, options, None)?;
        Ok(sequence)
    }

    fn placed(&self, mut sequence: Sequence, schema: Oid, options: &[SequenceOption]) -> Result<Sequence> {
        (sequence.oid, sequence.schema) = (self.store.new_oid(schema)?, schema);
        self.apply_owned_by(&mut sequence, options)?;
        Ok(sequence)
    }

    /// Puts options into a sequence but for OWNED BY; where it is new, which has no `last` number, what was
    /// not said gets its default. Faults are told in PostgreSQL's order.
    fn apply_sequence(
        &self,
        sequence: &mut Sequence,
        options: &[SequenceOption],
        last: Option<i64>,
    ) -> Result<()> {
        for option in options {
            if let SequenceOption::Again(pos) = option {
                let message = "conflicting or redundant options";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(pos + 1));
            }
        }
        let mut again = (false, false);
        for option in options {
            if let SequenceOption::As(name) = option {
                let ty = self.with_binder(|binder| binder.resolve_type(name))?.oid;
                if !matches!(ty, oid::INT2 | oid::INT4 | oid::INT8) {
                    return invalid("sequence type must be smallint, integer, or bigint".to_string());
                }
                let were = give_type(sequence, ty);
                // As PostgreSQL has it: NO MAXVALUE is the type's then, whatever the direction.
                again = if last.is_some() { were } else { again };
            }
        }
        let (mut start, mut min, mut max, mut from) = (None, None, None, None);
        for option in options {
            match option {
                SequenceOption::Start(value) => start = Some(*value),
                SequenceOption::Increment(0) => return invalid("INCREMENT must not be zero".to_string()),
                SequenceOption::Increment(value) => sequence.increment = *value,
                SequenceOption::Min(value) => min = Some(*value),
                SequenceOption::Max(value) => max = Some(*value),
                SequenceOption::Cycle(value) => sequence.cycle = *value,
                SequenceOption::Restart(value) => from = Some(*value),
                _ => {}
            }
        }
        limit(sequence, (min, max), last.is_none(), again)?;
        match start {
            Some(value) => sequence.start = value,
            None if last.is_some() => {}
            None => sequence.start = if sequence.increment > 0 { sequence.min } else { sequence.max },
        }
        within(sequence, "START", sequence.start)?;
        let from = from.map(|value| value.unwrap_or(sequence.start));
        within(sequence, "RESTART", from.or(last).unwrap_or(sequence.start))?;
        for option in options {
            match option {
                SequenceOption::Cache(value) if *value < 1 => {
                    return invalid(format!("CACHE ({value}) must be greater than zero"));
                }
                SequenceOption::Cache(value) => sequence.cache = *value,
                _ => {}
            }
        }
        Ok(())
    }

    fn apply_owned_by(&self, sequence: &mut Sequence, options: &[SequenceOption]) -> Result<()> {
        for option in options {
            if let SequenceOption::OwnedBy(path) = option {
                let owner = path.as_ref().map(|path| self.owned_column(sequence, path)).transpose()?;
                self.stays_with_column(sequence)?;
                sequence.owned_by = owner;
            }
        }
        Ok(())
    }

    fn owned_column(&self, sequence: &Sequence, path: &Path) -> Result<(Oid, u16)> {
        let mut table = path.clone();
        let column = table.parts.pop().unwrap_or_default();
        match self.find(&table)?.as_deref() {
            Some(Object::Table(table)) => {
                let differs = match () {
                    () if table.owner != sequence.owner => Some("have same owner as"),
                    () if table.schema != sequence.schema => Some("be in same schema as"),
                    () => None,
                };
                if let Some(what) = differs {
                    let message = format!("sequence must {what} table it is linked to");
                    return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
                }
                match table.columns.iter().position(|c| !c.dropped && c.name == column) {
                    Some(at) => Ok((table.oid, at as u16)),
                    None => {
                        let message =
                            format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
                        Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
                    }
                }
            }
            _ => Err(SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!("relation \"{}\" does not exist", table.shown()),
            )),
        }
    }

    /// The sequence of an identity column stays with it.
    fn stays_with_column(&self, sequence: &Sequence) -> Result<()> {
        let Some((table, at)) = sequence.owned_by else { return Ok(()) };
        let object = self.store.object(table);
        let Some(Object::Table(table)) = object.as_deref() else { return Ok(()) };
        if table.columns[usize::from(at)].identity.is_none() {
            return Ok(());
        }
        let message = "cannot change ownership of identity sequence";
        let detail = format!("Sequence \"{}\" is linked to table \"{}\".", sequence.name, table.name);
        Err(SqlError::refused_by_postgresql(message).detail(detail))
    }

    pub(super) fn alter_sequence(
        &self,
        path: &Path,
        if_exists: bool,
        options: &[SequenceOption],
    ) -> Result<()> {
        let Some(Object::Sequence(sequence)) = self.find(path)?.as_deref().cloned() else {
            return self.missing("relation", SqlState::UNDEFINED_TABLE, path, if_exists);
        };
        self.must_own(&Object::Sequence(sequence.clone()))?;
        self.change_sequence(sequence.oid, None, options)
    }

    /// Changes a sequence, for an identity column also to another type.
    pub(super) fn change_sequence(
        &self,
        oid: Oid,
        ty: Option<Oid>,
        options: &[SequenceOption],
    ) -> Result<()> {
        let object = self.store.object(oid).ok_or_else(|| lost(oid))?;
        let Object::Sequence(sequence) = &*object else { return Err(lost(oid)) };
        let mut sequence = sequence.clone();
        if let Some(ty) = ty {
            give_type(&mut sequence, ty);
        }
        let is_owner = |option: &SequenceOption| matches!(option, SequenceOption::OwnedBy(_));
        if ty.is_none() && options.iter().all(is_owner) {
            self.apply_owned_by(&mut sequence, options)?;
            return self.store.replace(Object::Sequence(sequence));
        }
        let last = self.store.sequence_state(oid)?.0;
        self.apply_sequence(&mut sequence, options, Some(last))?;
        self.apply_owned_by(&mut sequence, options)?;
        let first = options.iter().find_map(|option| match option {
            SequenceOption::Restart(value) => Some(value.unwrap_or(sequence.start)),
            _ => None,
        });
        self.store.replace(Object::Sequence(sequence))?;
        self.store.begin_numbers(oid, first)
    }
}

fn invalid(message: String) -> Result<()> {
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

/// The least and the greatest number of a type.
fn range(ty: Oid) -> (i64, i64) {
    match ty {
        oid::INT2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        oid::INT4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

/// Gives a sequence another type, or the same again; a limit that was the old one's becomes the new one's.
/// Which limits, the lower and the upper one, were the old one's.
fn give_type(sequence: &mut Sequence, ty: Oid) -> (bool, bool) {
    let (old, new) = (range(sequence.type_oid), range(ty));
    let were = (sequence.min == old.0, sequence.max == old.1);
    sequence.type_oid = ty;
    sequence.min = if were.0 { new.0 } else { sequence.min };
    sequence.max = if were.1 { new.1 } else { sequence.max };
    were
}

/// Puts MINVALUE and MAXVALUE into a sequence, where they are told, of which nothing is the default.
fn limit(
    sequence: &mut Sequence,
    (min, max): (Option<Option<i64>>, Option<Option<i64>>),
    new: bool,
    (low_again, high_again): (bool, bool),
) -> Result<()> {
    let (up, (low, high)) = (sequence.increment > 0, range(sequence.type_oid));
    if new || max.is_some() {
        sequence.max = max.flatten().unwrap_or(if up || high_again { high } else { -1 });
    }
    if new || min.is_some() {
        sequence.min = min.flatten().unwrap_or(if up && !low_again { 1 } else { low });
    }
    let (min, max) = (sequence.min, sequence.max);
    for (what, value) in [("MAXVALUE", max), ("MINVALUE", min)] {
        if !(low..=high).contains(&value) {
            let ty = if sequence.type_oid == oid::INT2 { "smallint" } else { "integer" };
            return invalid(format!("{what} ({value}) is out of range for sequence data type {ty}"));
        }
    }
    if min >= max {
        return invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})"));
    }
    Ok(())
}

/// Refuses a number that is outside of a sequence's limits.
fn within(sequence: &Sequence, what: &str, value: i64) -> Result<()> {
    let (min, max) = (sequence.min, sequence.max);
    if value < min {
        return invalid(format!("{what} value ({value}) cannot be less than MINVALUE ({min})"));
    }
    if value > max {
        return invalid(format!("{what} value ({value}) cannot be greater than MAXVALUE ({max})"));
    }
    Ok(())
}
