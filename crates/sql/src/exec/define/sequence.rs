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
        let schema = self.target_schema(path, temporary)?;
        if self.relation_exists(schema, path.last(), fine)? {
            return Ok(());
        }
        let sequence = self.new_sequence(schema, path.last(), oid::INT8, options)?;
        self.store.create(self.own(Object::Sequence(sequence)))
    }

    pub(crate) fn new_sequence(
        &self,
        schema: Oid,
        name: &str,
        ty: Oid,
        options: &[SequenceOption],
    ) -> Result<Sequence> {
        let mut sequence = Sequence {
            oid: self.store.new_oid(schema)?,
            name: name.to_string(),
            schema,
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
        self.apply_sequence(&mut sequence, options, true)?;
        Ok(sequence)
    }

    /// Puts options into a sequence; where it is new, what was not said gets its default.
    fn apply_sequence(&self, sequence: &mut Sequence, options: &[SequenceOption], new: bool) -> Result<()> {
        let invalid = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        let (mut start, mut min, mut max) = (None, None, None);
        for option in options {
            match option {
                SequenceOption::As(name) => {
                    sequence.type_oid = self.with_binder(|binder| binder.resolve_type(name))?.oid;
                    if !matches!(sequence.type_oid, oid::INT2 | oid::INT4 | oid::INT8) {
                        return invalid("sequence type must be smallint, integer, or bigint".to_string());
                    }
                }
                SequenceOption::Start(value) => start = Some(*value),
                SequenceOption::Increment(0) => return invalid("INCREMENT must not be zero".to_string()),
                SequenceOption::Increment(value) => sequence.increment = *value,
                SequenceOption::Min(value) => min = Some(*value),
                SequenceOption::Max(value) => max = Some(*value),
                SequenceOption::Cache(value) if *value < 1 => {
                    return invalid(format!("CACHE ({value}) must be greater than zero"));
                }
                SequenceOption::Cache(value) => sequence.cache = *value,
                SequenceOption::Cycle(value) => sequence.cycle = *value,
                SequenceOption::OwnedBy(None) => sequence.owned_by = None,
                SequenceOption::OwnedBy(Some(path)) => {
                    sequence.owned_by = Some(self.owned_column(sequence, path)?);
                }
                SequenceOption::Restart(_) | SequenceOption::Name(_) => {}
            }
        }
        let (low, high) = match sequence.type_oid {
            oid::INT2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
            oid::INT4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            _ => (i64::MIN, i64::MAX),
        };
        let up = sequence.increment > 0;
        match min {
            Some(value) => sequence.min = value.unwrap_or(if up { 1 } else { low }),
            None if new => sequence.min = if up { 1 } else { low },
            None => {}
        }
        match max {
            Some(value) => sequence.max = value.unwrap_or(if up { high } else { -1 }),
            None if new => sequence.max = if up { high } else { -1 },
            None => {}
        }
        let (min, max) = (sequence.min, sequence.max);
        if min >= max {
            return invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})"));
        }
        match start {
            Some(value) => sequence.start = value,
            None if new => sequence.start = if up { min } else { max },
            None => {}
        }
        for option in options {
            if let SequenceOption::Restart(value) = option {
                let value = value.unwrap_or(sequence.start);
                if value < min {
                    return invalid(format!("RESTART value ({value}) cannot be less than MINVALUE ({min})"));
                }
                if value > max {
                    return invalid(format!(
                        "RESTART value ({value}) cannot be greater than MAXVALUE ({max})"
                    ));
                }
            }
        }
        let start = sequence.start;
        if start < min {
            return invalid(format!("START value ({start}) cannot be less than MINVALUE ({min})"));
        }
        if start > max {
            return invalid(format!("START value ({start}) cannot be greater than MAXVALUE ({max})"));
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
        if options.iter().any(|option| matches!(option, SequenceOption::OwnedBy(_))) {
            self.stays_with_column(&sequence)?;
        }
        self.change_sequence(sequence.oid, options)
    }

    pub(super) fn change_sequence(&self, oid: Oid, options: &[SequenceOption]) -> Result<()> {
        let object = self.store.object(oid).ok_or_else(|| lost(oid))?;
        let Object::Sequence(sequence) = &*object else { return Err(lost(oid)) };
        let mut sequence = sequence.clone();
        self.apply_sequence(&mut sequence, options, false)?;
        let start = sequence.start;
        // Before the number is set, which then goes with the transaction.
        self.store.replace(Object::Sequence(sequence))?;
        for option in options {
            if let SequenceOption::Restart(value) = option {
                self.store.set_value(oid, value.unwrap_or(start), false)?;
            }
        }
        Ok(())
    }
}
