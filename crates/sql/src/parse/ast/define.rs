//! The parse tree of statements that define objects and control sessions.
use serde::{Deserialize, Serialize};

use super::{Expr, Ident, Path, Statement, TypeName};
use crate::error::SqlError;
use crate::parse::lexer::Pos;

#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(crate) enum Action {
    #[default]
    Nothing,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct References {
    pub(crate) table: Path,
    pub(crate) columns: Vec<Ident>,
    pub(crate) on_delete: Action,
    pub(crate) on_update: Action,
    /// What ON DELETE SET NULL or SET DEFAULT sets, if that is not every column.
    pub(crate) set_columns: Vec<Ident>,
    pub(crate) match_full: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ConstraintKind {
    NotNull,
    Null,
    Default(Expr, String),
    Identity {
        always: bool,
        options: Vec<SequenceOption>,
    },
    Generated(Expr, String),
    PrimaryKey(Vec<Ident>),
    /// Whether NULLs are equal to one another.
    Unique(Vec<Ident>, bool),
    /// With its text.
    Check(Expr, String),
    ForeignKey(Vec<Ident>, References),
    /// `ADD CONSTRAINT c UNIQUE USING INDEX i`.
    UsingIndex {
        primary: bool,
        index: Ident,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Constraint {
    pub(crate) name: Option<String>,
    pub(crate) kind: ConstraintKind,
    pub(crate) deferrable: bool,
    pub(crate) deferred: bool,
    pub(crate) not_valid: bool,
    pub(crate) no_inherit: bool,
    pub(crate) pos: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnDef {
    pub(crate) name: Ident,
    pub(crate) type_name: TypeName,
    pub(crate) collation: Option<Path>,
    pub(crate) compression: Option<String>,
    pub(crate) constraints: Vec<Constraint>,
}

/// How something is to be stored: of what PostgreSQL has, Liger takes what a dump may say, and refuses what
/// there is not.
#[derive(Clone, Default, Debug, PartialEq)]
pub(crate) struct Storing {
    pub(crate) options: Vec<(String, String)>,
    /// USING, of a table.
    pub(crate) method: Option<String>,
    pub(crate) tablespace: Option<String>,
    /// UNLOGGED, of a table.
    pub(crate) unlogged: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TableElement {
    Column(ColumnDef),
    Constraint(Constraint),
    Like(Path, Vec<(bool, String)>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateTable {
    pub(crate) name: Path,
    pub(crate) temporary: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) elements: Vec<TableElement>,
    pub(crate) storing: Storing,
    pub(crate) on_commit: Option<OnCommit>,
    /// The refusal of a clause that is not supported.
    pub(crate) unsupported: Option<SqlError>,
}

/// The table that a query makes: of CREATE TABLE AS and SELECT INTO.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Into {
    pub(crate) name: Path,
    pub(crate) temporary: bool,
    pub(crate) on_commit: Option<OnCommit>,
    pub(crate) storing: Storing,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IndexColumn {
    pub(crate) expr: Expr,
    /// Text of an expression; `None` for a plain column.
    pub(crate) text: Option<String>,
    pub(crate) collation: Option<Path>,
    pub(crate) opclass: Option<String>,
    pub(crate) descending: bool,
    pub(crate) nulls_first: Option<bool>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateIndex {
    pub(crate) name: Option<Ident>,
    pub(crate) if_not_exists: bool,
    pub(crate) unique: bool,
    /// `NULLS NOT DISTINCT`.
    pub(crate) nulls_equal: bool,
    pub(crate) table: Path,
    pub(crate) method: String,
    pub(crate) columns: Vec<IndexColumn>,
    pub(crate) include: Vec<Ident>,
    pub(crate) filter: Option<(Expr, String)>,
    pub(crate) storing: Storing,
    pub(crate) concurrently: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SequenceOption {
    /// SEQUENCE NAME, of identity columns only.
    Name(Path),
    As(TypeName),
    Start(i64),
    Restart(Option<i64>),
    Increment(i64),
    Min(Option<i64>),
    Max(Option<i64>),
    Cache(i64),
    Cycle(bool),
    OwnedBy(Option<Path>),
    /// One that stands there already.
    Again(Pos),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AlterColumn {
    SetDefault(Expr, String),
    DropDefault,
    SetNotNull,
    DropNotNull,
    Type {
        name: TypeName,
        collation: Option<Path>,
        using: Option<(Expr, String)>,
    },
    Compression(String),
    /// -1: as `default_statistics_target` says.
    Statistics(i64),
    Storage(String),
    /// SET GENERATED, SET INCREMENT BY .. and RESTART of an identity column.
    SetIdentity {
        always: Option<bool>,
        options: Vec<SequenceOption>,
    },
    AddIdentity {
        always: bool,
        options: Vec<SequenceOption>,
    },
    DropIdentity {
        if_exists: bool,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AlterTable {
    AddColumn {
        if_not_exists: bool,
        column: ColumnDef,
    },
    DropColumn {
        if_exists: bool,
        name: Ident,
        cascade: bool,
    },
    Column(Ident, AlterColumn),
    AddConstraint(Constraint),
    DropConstraint {
        if_exists: bool,
        name: Ident,
        cascade: bool,
    },
    ValidateConstraint(Ident),
    RenameColumn(Ident, Ident),
    RenameConstraint(Ident, Ident),
    Rename(Ident),
    SetSchema(Ident),
    Owner(Ident),
    /// SET (fillfactor = ..), SET TABLESPACE, SET ACCESS METHOD.
    Store(Storing),
    /// RESET (fillfactor).
    ResetOptions(Vec<(String, String)>),
    /// CLUSTER ON an index.
    ClusterOn(Ident),
    WithoutCluster,
    /// SET LOGGED (true) or UNLOGGED.
    Logged(bool),
    /// When a foreign key is checked: whether it may be deferred, and is at first.
    AlterConstraint {
        name: Ident,
        deferrable: bool,
        deferred: bool,
    },
    /// ENABLE or DISABLE TRIGGER: of this name; `None`: all, of users, or those of foreign keys too.
    Triggers {
        enable: bool,
        name: Option<Ident>,
        keys: bool,
    },
    /// ENABLE or DISABLE RULE.
    SwitchRule {
        enable: bool,
        name: Ident,
    },
    NoInherit(Path),
    /// What is so already, whatever is said: REPLICA IDENTITY, SET WITHOUT OIDS or CLUSTER, NO ROW LEVEL
    /// SECURITY, SET LOGGED.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ObjectKind {
    Table,
    View,
    MaterializedView,
    Index,
    Sequence,
    Type,
    Domain,
    Schema,
    Role,
    Database,
    Column,
    Constraint,
    Extension,
    Function,
    Trigger,
}

impl ObjectKind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            ObjectKind::Table => "table",
            ObjectKind::View => "view",
            ObjectKind::MaterializedView => "materialized view",
            ObjectKind::Index => "index",
            ObjectKind::Sequence => "sequence",
            ObjectKind::Type => "type",
            ObjectKind::Domain => "domain",
            ObjectKind::Schema => "schema",
            ObjectKind::Role => "role",
            ObjectKind::Database => "database",
            ObjectKind::Column => "column",
            ObjectKind::Constraint => "constraint",
            ObjectKind::Extension => "extension",
            ObjectKind::Function => "function",
            ObjectKind::Trigger => "trigger",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Transaction {
    Begin { start: bool, modes: Vec<TransactionMode> },
    Commit { chain: bool },
    Rollback { chain: bool },
    Savepoint(Ident),
    Release(Ident),
    RollbackTo(Ident),
    Prepared(&'static str),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TransactionMode {
    Isolation(&'static str),
    ReadOnly(bool),
    Deferrable(bool),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SetValue {
    Default,
    /// Each as text.
    List(Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FetchCount {
    /// Forward (positive) or backward (negative).
    Count(i64),
    All,
    BackwardAll,
    Absolute(i64),
    Relative(i64),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CopySource {
    Table(Path, Vec<Ident>),
    Query(Box<Statement>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Copy {
    pub(crate) source: CopySource,
    pub(crate) from: bool,
    /// STDIN or STDOUT where `None`, else a file or program.
    pub(crate) file: Option<String>,
    pub(crate) options: Vec<(String, Vec<String>)>,
    pub(crate) filter: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CreateType {
    Enum(Vec<String>),
    Composite(Vec<(Ident, TypeName)>),
    Other(SqlError),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RoleOption {
    Flag(&'static str, bool),
    Password(Option<String>),
    ConnectionLimit(i64),
    ValidUntil(String),
    /// It becomes a member of these.
    InRole(Vec<String>),
    /// These become members of it, with the right to make others members or without.
    Members(Vec<String>, bool),
    /// SYSID, which means nothing any more.
    Number,
}

/// What else is altered of a role.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AlterRole {
    Options(Vec<RoleOption>),
    Rename(String),
    /// SET a setting, or RESET it (`None`); all of them where no name is told.
    Setting(Option<String>, Option<SetValue>),
    /// ALTER GROUP: these become members, or are none any more.
    Members(Vec<String>, bool),
}

/// DROP OWNED BY, or REASSIGN OWNED BY to another role.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Owned {
    pub(crate) roles: Vec<String>,
    pub(crate) to: Option<String>,
    pub(crate) cascade: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Grant {
    pub(crate) grant: bool,
    /// Empty: ALL.
    pub(crate) privileges: Vec<(String, Vec<Ident>)>,
    /// `None`: role membership.
    pub(crate) on: Option<(String, Vec<Path>)>,
    pub(crate) roles: Vec<String>,
    pub(crate) with_option: bool,
    pub(crate) cascade: bool,
    /// ALTER DEFAULT PRIVILEGES: for objects that these roles (empty: the current one) make in these schemas.
    pub(crate) default: Option<(Vec<String>, Vec<String>)>,
}

/// REINDEX of an index, a table or all in a schema, and CLUSTER of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rebuild {
    pub(crate) tag: &'static str,
    /// What is named.
    pub(crate) kind: ObjectKind,
    pub(crate) name: Option<Path>,
    /// CLUSTER: USING an index.
    pub(crate) index: Option<Ident>,
    /// REINDEX SYSTEM.
    pub(crate) system: bool,
    pub(crate) concurrently: bool,
}

/// What ALTER DOMAIN changes, beside its name, owner and schema.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AlterDomain {
    Default(Option<(Expr, String)>),
    NotNull(bool),
    Add(Constraint),
    Drop { if_exists: bool, name: Ident },
    RenameConstraint(Ident, Ident),
    Validate(Ident),
}

/// DROP of objects of a kind of which there are the built-in ones only, or none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DropAbsent {
    /// What follows DROP, lower case.
    pub(crate) kind: &'static str,
    pub(crate) if_exists: bool,
    pub(crate) objects: Vec<Absent>,
}

/// How such an object is named.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Absent {
    Named(Path),
    /// A function, procedure or aggregate; without arguments where none were listed.
    Routine(Path, Option<Vec<TypeName>>),
    Operator(Path, Option<TypeName>, Option<TypeName>),
    /// Of a trigger, rule or policy: its name, and the table.
    OfTable(Ident, Path),
    /// An operator class or family, and its access method.
    OfMethod(Path, Ident),
    Cast(TypeName, TypeName),
}

/// What a commit does to a temporary table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum OnCommit {
    /// Nothing: `PRESERVE ROWS`.
    #[default]
    Preserve,
    /// It empties it.
    DeleteRows,
    /// It drops it.
    Drop,
}

/// VACUUM, ANALYZE, CHECKPOINT.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Maintenance {
    /// That answers.
    pub(crate) tag: &'static str,
    /// The tables, with the columns that were listed.
    pub(crate) tables: Vec<(Path, Vec<Ident>)>,
    /// ANALYZE, or VACUUM with it.
    pub(crate) analyzes: bool,
    pub(crate) verbose: bool,
}
