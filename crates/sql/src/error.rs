//! The one error type of SQL, and the table of its codes.
//!
//! Codes are PostgreSQL's (its manual, appendix A): clients and drivers act on them, never on messages.
//!
//! Invariants:
//! 1. An error that a client may see has a code that PostgreSQL gives in the same situation.
//! 2. Refusals of what is not supported (0A000) are made here alone: Liger's own say what to do instead, and
//!    PostgreSQL's have its words.
//! 3. A conflict that running the transaction again may cure is `SERIALIZATION_FAILURE` and nothing else.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// What every fallible function of SQL returns.
pub type Result<T> = std::result::Result<T, SqlError>;

/// A code of five characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SqlState([u8; 5]);

macro_rules! states {
    ($($visible:vis $name:ident = $code:literal;)*) => {
        #[allow(missing_docs, reason = "the names are PostgreSQL's condition names, listed in its manual")]
        impl SqlState {
            $($visible const $name: SqlState = SqlState(*$code);)*
        }

        /// All codes with PostgreSQL's names of the conditions (upper case).
        pub const CONDITIONS: &[(&str, SqlState)] = &[$((stringify!($name), SqlState::$name),)*];
    };
}

states! {
    pub SUCCESSFUL_COMPLETION = b"00000";
    pub WARNING = b"01000";
    pub WARNING_PRIVILEGE_NOT_REVOKED = b"01006";
    pub WARNING_PRIVILEGE_NOT_GRANTED = b"01007";
    pub NO_DATA = b"02000";
    pub CONNECTION_EXCEPTION = b"08000";
    pub CONNECTION_FAILURE = b"08006";
    pub PROTOCOL_VIOLATION = b"08P01";
    FEATURE_NOT_SUPPORTED = b"0A000";
    pub INVALID_GRANTOR = b"0L000";
    pub INVALID_GRANT_OPERATION = b"0LP01";
    pub CARDINALITY_VIOLATION = b"21000";
    pub DATA_EXCEPTION = b"22000";
    pub STRING_DATA_RIGHT_TRUNCATION = b"22001";
    pub NUMERIC_VALUE_OUT_OF_RANGE = b"22003";
    pub NULL_VALUE_NOT_ALLOWED = b"22004";
    pub INVALID_DATETIME_FORMAT = b"22007";
    pub DATETIME_FIELD_OVERFLOW = b"22008";
    pub INVALID_TIME_ZONE_DISPLACEMENT_VALUE = b"22009";
    pub SUBSTRING_ERROR = b"22011";
    pub DIVISION_BY_ZERO = b"22012";
    pub INVALID_PRECEDING_OR_FOLLOWING_SIZE = b"22013";
    pub INVALID_ARGUMENT_FOR_NTILE = b"22014";
    pub INTERVAL_FIELD_OVERFLOW = b"22015";
    pub INVALID_ARGUMENT_FOR_NTH_VALUE = b"22016";
    pub INVALID_CHARACTER_VALUE_FOR_CAST = b"22018";
    pub INVALID_ESCAPE_CHARACTER = b"22019";
    pub INVALID_REGULAR_EXPRESSION = b"2201B";
    pub INVALID_ARGUMENT_FOR_LOG = b"2201E";
    pub INVALID_ARGUMENT_FOR_POWER = b"2201F";
    pub INVALID_ARGUMENT_FOR_WIDTH_BUCKET = b"2201G";
    pub INVALID_ROW_COUNT_IN_LIMIT = b"2201W";
    pub INVALID_ROW_COUNT_IN_OFFSET = b"2201X";
    pub CHARACTER_NOT_IN_REPERTOIRE = b"22021";
    pub INVALID_PARAMETER_VALUE = b"22023";
    pub INVALID_ESCAPE_SEQUENCE = b"22025";
    pub STRING_DATA_LENGTH_MISMATCH = b"22026";
    pub TRIM_ERROR = b"22027";
    pub ARRAY_SUBSCRIPT_ERROR = b"2202E";
    pub DUPLICATE_JSON_OBJECT_KEY = b"22030";
    pub INVALID_ARGUMENT_FOR_SQL_JSON_DATETIME_FUNCTION = b"22031";
    pub INVALID_JSON_TEXT = b"22032";
    pub INVALID_SQL_JSON_SUBSCRIPT = b"22033";
    pub NON_NUMERIC_SQL_JSON_ITEM = b"22036";
    pub SINGLETON_SQL_JSON_ITEM_REQUIRED = b"22038";
    pub SQL_JSON_ARRAY_NOT_FOUND = b"22039";
    pub SQL_JSON_MEMBER_NOT_FOUND = b"2203A";
    pub SQL_JSON_NUMBER_NOT_FOUND = b"2203B";
    pub SQL_JSON_OBJECT_NOT_FOUND = b"2203C";
    pub FLOATING_POINT_EXCEPTION = b"22P01";
    pub INVALID_TEXT_REPRESENTATION = b"22P02";
    pub INVALID_BINARY_REPRESENTATION = b"22P03";
    pub BAD_COPY_FILE_FORMAT = b"22P04";
    pub UNTRANSLATABLE_CHARACTER = b"22P05";
    pub NONSTANDARD_USE_OF_ESCAPE_CHARACTER = b"22P06";
    pub SEQUENCE_GENERATOR_LIMIT_EXCEEDED = b"2200H";
    pub INTEGRITY_CONSTRAINT_VIOLATION = b"23000";
    pub RESTRICT_VIOLATION = b"23001";
    pub NOT_NULL_VIOLATION = b"23502";
    pub FOREIGN_KEY_VIOLATION = b"23503";
    pub UNIQUE_VIOLATION = b"23505";
    pub CHECK_VIOLATION = b"23514";
    pub EXCLUSION_VIOLATION = b"23P01";
    pub INVALID_CURSOR_STATE = b"24000";
    pub INVALID_TRANSACTION_STATE = b"25000";
    pub ACTIVE_SQL_TRANSACTION = b"25001";
    pub READ_ONLY_SQL_TRANSACTION = b"25006";
    pub SNAPSHOT_TOO_OLD = b"72000";
    pub NO_ACTIVE_SQL_TRANSACTION = b"25P01";
    pub IN_FAILED_SQL_TRANSACTION = b"25P02";
    pub IDLE_IN_TRANSACTION_SESSION_TIMEOUT = b"25P03";
    pub INVALID_SQL_STATEMENT_NAME = b"26000";
    pub INVALID_AUTHORIZATION_SPECIFICATION = b"28000";
    pub INVALID_PASSWORD = b"28P01";
    pub DEPENDENT_PRIVILEGE_DESCRIPTORS_STILL_EXIST = b"2B000";
    pub DEPENDENT_OBJECTS_STILL_EXIST = b"2BP01";
    pub INVALID_CURSOR_NAME = b"34000";
    pub INVALID_SAVEPOINT_SPECIFICATION = b"3B001";
    pub INVALID_CATALOG_NAME = b"3D000";
    pub INVALID_SCHEMA_NAME = b"3F000";
    pub SERIALIZATION_FAILURE = b"40001";
    pub STATEMENT_COMPLETION_UNKNOWN = b"40003";
    pub DEADLOCK_DETECTED = b"40P01";
    pub SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION = b"42000";
    pub INSUFFICIENT_PRIVILEGE = b"42501";
    pub SYNTAX_ERROR = b"42601";
    pub INVALID_NAME = b"42602";
    pub INVALID_COLUMN_DEFINITION = b"42611";
    pub NAME_TOO_LONG = b"42622";
    pub DUPLICATE_COLUMN = b"42701";
    pub AMBIGUOUS_COLUMN = b"42702";
    pub UNDEFINED_COLUMN = b"42703";
    pub UNDEFINED_OBJECT = b"42704";
    pub DUPLICATE_OBJECT = b"42710";
    pub DUPLICATE_ALIAS = b"42712";
    pub DUPLICATE_FUNCTION = b"42723";
    pub AMBIGUOUS_FUNCTION = b"42725";
    pub GROUPING_ERROR = b"42803";
    pub DATATYPE_MISMATCH = b"42804";
    pub WRONG_OBJECT_TYPE = b"42809";
    pub INVALID_FOREIGN_KEY = b"42830";
    pub CANNOT_COERCE = b"42846";
    pub UNDEFINED_FUNCTION = b"42883";
    pub RESERVED_NAME = b"42939";
    pub UNDEFINED_TABLE = b"42P01";
    pub UNDEFINED_PARAMETER = b"42P02";
    pub DUPLICATE_CURSOR = b"42P03";
    pub DUPLICATE_DATABASE = b"42P04";
    pub DUPLICATE_PREPARED_STATEMENT = b"42P05";
    pub DUPLICATE_SCHEMA = b"42P06";
    pub DUPLICATE_TABLE = b"42P07";
    pub AMBIGUOUS_PARAMETER = b"42P08";
    pub AMBIGUOUS_ALIAS = b"42P09";
    pub INVALID_COLUMN_REFERENCE = b"42P10";
    pub INVALID_CURSOR_DEFINITION = b"42P11";
    pub INVALID_DATABASE_DEFINITION = b"42P12";
    pub INVALID_FUNCTION_DEFINITION = b"42P13";
    pub INVALID_PREPARED_STATEMENT_DEFINITION = b"42P14";
    pub INVALID_SCHEMA_DEFINITION = b"42P15";
    pub INVALID_TABLE_DEFINITION = b"42P16";
    pub INVALID_OBJECT_DEFINITION = b"42P17";
    pub INDETERMINATE_DATATYPE = b"42P18";
    pub INVALID_RECURSION = b"42P19";
    pub WINDOWING_ERROR = b"42P20";
    pub COLLATION_MISMATCH = b"42P21";
    pub INDETERMINATE_COLLATION = b"42P22";
    pub WITH_CHECK_OPTION_VIOLATION = b"44000";
    pub INSUFFICIENT_RESOURCES = b"53000";
    pub DISK_FULL = b"53100";
    pub OUT_OF_MEMORY = b"53200";
    pub TOO_MANY_CONNECTIONS = b"53300";
    pub CONFIGURATION_LIMIT_EXCEEDED = b"53400";
    pub PROGRAM_LIMIT_EXCEEDED = b"54000";
    pub STATEMENT_TOO_COMPLEX = b"54001";
    pub TOO_MANY_COLUMNS = b"54011";
    pub TOO_MANY_ARGUMENTS = b"54023";
    pub OBJECT_NOT_IN_PREREQUISITE_STATE = b"55000";
    pub OBJECT_IN_USE = b"55006";
    pub CANT_CHANGE_RUNTIME_PARAM = b"55P02";
    pub LOCK_NOT_AVAILABLE = b"55P03";
    pub UNSAFE_NEW_ENUM_VALUE_USAGE = b"55P04";
    pub OPERATOR_INTERVENTION = b"57000";
    pub QUERY_CANCELED = b"57014";
    pub ADMIN_SHUTDOWN = b"57P01";
    pub CRASH_SHUTDOWN = b"57P02";
    pub CANNOT_CONNECT_NOW = b"57P03";
    pub IDLE_SESSION_TIMEOUT = b"57P05";
    pub SYSTEM_ERROR = b"58000";
    pub IO_ERROR = b"58030";
    pub UNDEFINED_FILE = b"58P01";
    pub RAISE_EXCEPTION = b"P0001";
    pub NO_DATA_FOUND = b"P0002";
    pub TOO_MANY_ROWS = b"P0003";
    pub INTERNAL_ERROR = b"XX000";
    pub DATA_CORRUPTED = b"XX001";
    pub INDEX_CORRUPTED = b"XX002";
}

impl SqlState {
    /// The code with these five characters.
    pub const fn new(code: [u8; 5]) -> SqlState {
        SqlState(code)
    }

    /// The five characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a code is ASCII")
    }

    /// The first two characters: what kind of condition it is.
    pub const fn class(self) -> [u8; 2] {
        [self.0[0], self.0[1]]
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How bad it is. `Error` ends the statement, `Fatal` the session, `Panic` the host; the others are notices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum Severity {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
    #[default]
    Error,
    Fatal,
    Panic,
}

impl Severity {
    /// The word that the protocol sends.
    pub const fn as_str(self) -> &'static str {
        match self {
            Severity::Debug => "DEBUG",
            Severity::Log => "LOG",
            Severity::Info => "INFO",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Panic => "PANIC",
        }
    }
}

/// What an error or a notice says. Reached through [`SqlError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorFields {
    /// The code.
    pub state: SqlState,
    /// How bad it is.
    pub severity: Severity,
    /// One line, lower case, without a full stop.
    pub message: String,
    /// More about this occurrence.
    pub detail: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// What was being done: an input that was read, lines apart.
    pub context: Option<String>,
    /// Where in the statement, in characters from 1.
    pub position: Option<u32>,
    /// Name of the schema it is about.
    pub schema: Option<String>,
    /// Name of the table it is about.
    pub table: Option<String>,
    /// Name of the column it is about.
    pub column: Option<String>,
    /// Name of the constraint it is about.
    pub constraint: Option<String>,
    /// Name of the type it is about.
    pub data_type: Option<String>,
    /// The function of PostgreSQL's source that reports it, where drivers look at that.
    pub routine: Option<&'static str>,
}

/// An error or a notice, on the heap so that results stay small. Its fields are those of [`ErrorFields`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError(Box<ErrorFields>);

impl SqlError {
    /// An error with this code and message.
    #[cold]
    pub fn new(state: SqlState, message: impl Into<String>) -> SqlError {
        SqlError(Box::new(ErrorFields {
            state,
            severity: Severity::Error,
            message: message.into(),
            detail: None,
            hint: None,
            context: None,
            position: None,
            schema: None,
            table: None,
            column: None,
            constraint: None,
            data_type: None,
            routine: None,
        }))
    }

    /// A notice, warning or other message that is no error.
    pub fn notice(severity: Severity, state: SqlState, message: impl Into<String>) -> SqlError {
        let mut notice = SqlError::new(state, message);
        notice.severity = severity;
        notice
    }

    /// With more about this occurrence.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> SqlError {
        self.detail = Some(detail.into());
        self
    }

    /// With what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> SqlError {
        self.hint = Some(hint.into());
        self
    }

    /// With what was being done, unless it says so already.
    #[must_use]
    pub fn context(mut self, context: impl FnOnce() -> String) -> SqlError {
        self.context.get_or_insert_with(context);
        self
    }

    /// As the function of PostgreSQL's source that drivers know it by.
    #[must_use]
    pub fn routine(mut self, routine: &'static str) -> SqlError {
        self.routine = Some(routine);
        self
    }

    /// At this place of the statement (characters from 1), unless it has one already.
    #[must_use]
    pub fn at(mut self, position: u32) -> SqlError {
        self.position.get_or_insert(position);
        self
    }

    /// At no place: what is wrong does not stand in the statement.
    #[must_use]
    pub fn nowhere(mut self) -> SqlError {
        self.position = None;
        self
    }

    /// "... is not supported": a feature of PostgreSQL that is not there, and what to do instead: a sentence.
    #[cold]
    pub fn unsupported(what: impl fmt::Display, instead: impl Into<String>) -> SqlError {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported")).hint(instead)
    }

    /// Whether it is about something that is not there (0A000).
    pub fn is_unsupported(&self) -> bool {
        self.state == SqlState::FEATURE_NOT_SUPPORTED
    }

    /// What PostgreSQL 15 refuses as not supported (0A000), in its words; with a hint only where it has one.
    #[cold]
    pub fn refused_by_postgresql(message: impl Into<String>) -> SqlError {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
    }
}

impl Deref for SqlError {
    type Target = ErrorFields;

    fn deref(&self) -> &ErrorFields {
        &self.0
    }
}

impl DerefMut for SqlError {
    fn deref_mut(&mut self) -> &mut ErrorFields {
        &mut self.0
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.severity.as_str(), self.message, self.state)
    }
}

impl std::error::Error for SqlError {}

/// Bytes from 1 become characters from 1.
pub(crate) fn in_characters(mut error: SqlError, sql: &str) -> SqlError {
    if let Some(position) = error.position {
        let bytes = (position as usize - 1).min(sql.len());
        let chars = sql.char_indices().take_while(|(at, _)| *at < bytes).count();
        error.position = Some(chars as u32 + 1);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_errors_are_small() {
        let mut codes: Vec<_> = CONDITIONS.iter().map(|c| c.1).collect();
        codes.sort();
        codes.dedup();
        assert_eq!(codes.len(), CONDITIONS.len());
        assert_eq!(size_of::<SqlError>(), 8);
    }
}
