//! What the catalog knows of each object: plain data that is saved as rows (saved.rs).
//!
//! Invariants:
//! 1. An oid is an object's for good; it is never given to another one. Oids below 16384 are PostgreSQL's.
//! 2. Expressions and queries are SQL text with all names resolved by whoever wrote it; what it refers to is
//!    in `depends`.
//! 3. A column keeps its number (from 0, PostgreSQL's `attnum - 1`) for good; a dropped one stays as a hole.
//!
//! Descriptions grow by fields with defaults, so that a newer version reads what an older one has saved.

use serde::{Deserialize, Serialize};

pub use super::expression::{Expression, Materialized};
pub use super::user_type::{UserType, UserTypeKind};
pub use crate::parse::ast::OnCommit;
pub use crate::storage::classes::RowsAt;
use crate::storage::classes::{ClassSize, ObjectId};
pub use crate::storage::table::Placing;
use crate::types::{Oid, Type};

/// The least oid of objects that users make.
pub const FIRST_USER_OID: Oid = 16384;
/// The schema `pg_catalog`.
pub const PG_CATALOG: Oid = 11;
/// The schema `public`.
pub const PUBLIC: Oid = 2200;
/// The role that made the pod.
pub const BOOTSTRAP_ROLE: Oid = 10;
/// The role that owns `public`: whoever owns the database.
pub const DATABASE_OWNER_ROLE: Oid = 6171;
/// The role whose members stop sessions of others.
pub const SIGNAL_ROLE: Oid = 4200;

/// An object of the catalog.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "named as what they hold")]
pub enum Object {
    Schema(Schema),
    Role(Role),
    Table(Table),
    Index(Index),
    Sequence(Sequence),
    View(View),
    Type(UserType),
}

/// A schema.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Schema {
    /// Its number.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// The role that owns it.
    pub owner: Oid,
    /// Who may do what.
    pub grants: Vec<Grant>,
    /// `COMMENT ON`.
    pub comment: Option<String>,
}

/// A role.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Role {
    /// Its number.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// It may do everything.
    pub superuser: bool,
    /// It may log in.
    pub login: bool,
    /// It has the privileges of the roles that it is a member of.
    pub inherit: bool,
    /// It may create roles.
    pub create_role: bool,
    /// It may create databases.
    pub create_db: bool,
    /// It may begin replication. Kept and shown: there is none.
    pub replication: bool,
    /// It may bypass row security. Kept and shown: there is none.
    pub bypass_rls: bool,
    /// What its password is checked against, as PostgreSQL's `rolpassword`: `SCRAM-SHA-256$...`.
    pub verifier: Option<String>,
    /// When the password ends to be valid, in microseconds since 2000-01-01.
    pub valid_until: Option<i64>,
    /// Most connections at once; -1: any number.
    pub connections: i32,
    /// Roles that it is a member of, and whether it may make others members.
    pub member_of: Vec<(Oid, bool)>,
    /// `ALTER ROLE ... SET`.
    pub settings: Vec<(String, String)>,
    /// `ALTER DEFAULT PRIVILEGES`.
    pub defaults: Vec<DefaultGrants>,
    /// `COMMENT ON`.
    pub comment: Option<String>,
}

/// Privileges of one role, given by another. Bits are PostgreSQL's `ACL_*`: 1 INSERT, 2 SELECT, 4 UPDATE,
/// 8 DELETE, 16 TRUNCATE, 32 REFERENCES, 64 TRIGGER, 128 EXECUTE, 256 USAGE, 512 CREATE.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Grant {
    /// Who has them; 0: everybody.
    pub grantee: Oid,
    /// Who gave them.
    pub grantor: Oid,
    /// Which ones.
    pub privileges: u32,
    /// Which of them may be given on.
    pub grantable: u32,
}

/// What objects that a role makes begin with.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DefaultGrants {
    /// In this schema; 0: in all.
    pub schema: Oid,
    /// What kind, as in `pg_default_acl`: r, S, n or T.
    pub kind: char,
    /// In all schemas: instead of the usual list. In one: besides.
    pub grants: Vec<Grant>,
}

/// A table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Table {
    /// Its number.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// The schema that it is in.
    pub schema: Oid,
    /// The role that owns it.
    #[serde(default)]
    pub owner: Oid,
    /// Its columns, dropped ones included.
    pub columns: Vec<Column>,
    /// The columns that its rows are keyed by, in this order; empty: a hidden row number.
    #[serde(default)]
    pub key: Vec<u16>,
    /// How its rows are placed.
    #[serde(default)]
    pub placing: Placing,
    /// Where its rows are.
    pub rows: RowsAt,
    /// Where values are that do not fit its rows; `None`: all values fit.
    #[serde(default)]
    pub overflow: Option<RowsAt>,
    /// Constraints other than NOT NULL.
    #[serde(default)]
    pub constraints: Vec<Constraint>,
    /// Oid of the type of its rows.
    #[serde(default)]
    pub row_type: Oid,
    /// Who may do what.
    #[serde(default)]
    pub grants: Vec<Grant>,
    /// `WITH (...)`.
    #[serde(default)]
    pub options: Vec<(String, String)>,
    /// It was made UNLOGGED, which is kept and means nothing.
    #[serde(default)]
    pub unlogged: bool,
    /// What a commit does to its rows, if it is a temporary one.
    #[serde(default)]
    pub on_commit: OnCommit,
    /// It is a materialized view: its rows are those that this query gave.
    #[serde(default)]
    pub materialized: Option<Materialized>,
    /// `COMMENT ON`.
    #[serde(default)]
    pub comment: Option<String>,
}

/// A column.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type's oid.
    pub type_oid: Oid,
    /// Its type's modifier.
    pub modifier: i32,
    /// NULL is no value.
    pub not_null: bool,
    /// What it gets without a value.
    pub default: Option<Expression>,
    /// It is computed from others: `GENERATED ALWAYS AS (...) STORED`.
    pub generated: Option<Expression>,
    /// It numbers rows: `GENERATED ... AS IDENTITY`.
    pub identity: Option<Identity>,
    /// What rows have that were written before it was there, as storage/codec.rs writes it; `None`: NULL.
    pub missing: Option<Vec<u8>>,
    /// It is gone.
    pub dropped: bool,
    /// Its collation, if it was said.
    pub collation: Option<String>,
    /// How many common values, and parts of the others, ANALYZE keeps; `None`: as a setting says.
    pub statistics: Option<u16>,
    /// How it was said to be stored, PostgreSQL's letter for it.
    pub storage: Option<char>,
    /// `COMMENT ON`.
    pub comment: Option<String>,
}

/// `GENERATED ... AS IDENTITY`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// `ALWAYS`, not `BY DEFAULT`.
    pub always: bool,
    /// The sequence behind it.
    pub sequence: Oid,
}

/// A constraint of a table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Constraint {
    /// Its number.
    pub oid: Oid,
    /// Its name, unique in the table.
    pub name: String,
    /// What it demands.
    pub rule: Rule,
    /// It may be checked at the end of the transaction.
    #[serde(default)]
    pub deferrable: bool,
    /// It is, unless told otherwise.
    #[serde(default)]
    pub deferred: bool,
    /// Rows that were there before it have not been checked: `NOT VALID`.
    #[serde(default)]
    pub not_valid: bool,
    /// Children were not to have it: `NO INHERIT`.
    #[serde(default)]
    pub no_inherit: bool,
    /// `COMMENT ON`.
    #[serde(default)]
    pub comment: Option<String>,
}

/// What a constraint demands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Rule {
    /// These columns are different in all rows, and never NULL; `index` has the name.
    PrimaryKey {
        /// The columns.
        columns: Vec<u16>,
        /// The index with its name.
        index: Oid,
    },
    /// These columns are different in all rows.
    Unique {
        /// The columns.
        columns: Vec<u16>,
        /// The index that sees to it.
        index: Oid,
    },
    /// This is not false for any row.
    Check {
        /// The condition.
        condition: Expression,
    },
    /// These columns are in the other table.
    ForeignKey {
        /// The columns.
        columns: Vec<u16>,
        /// The other table.
        table: Oid,
        /// Its columns.
        references: Vec<u16>,
        /// The unique index of the other table.
        index: Oid,
        /// What happens when the other row is deleted.
        on_delete: Action,
        /// What SET NULL and SET DEFAULT set then; nothing: every column.
        #[serde(default)]
        set: Vec<u16>,
        /// What happens when the other row's columns change.
        on_update: Action,
        /// `MATCH FULL`.
        full: bool,
    },
}

/// What happens to a row when the one that it refers to goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "SQL's words")]
pub enum Action {
    #[default]
    NoAction,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

/// An index.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Index {
    /// Its number.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// The schema that it is in: its table's.
    pub schema: Oid,
    /// Its table.
    pub table: Oid,
    /// What it is sorted by.
    pub columns: Vec<IndexColumn>,
    /// Columns that it is said to hold besides.
    #[serde(default)]
    pub include: Vec<u16>,
    /// What its columns are called: as those of the table were when it was made.
    #[serde(default)]
    pub names: Vec<String>,
    /// Two rows must differ in its columns.
    #[serde(default)]
    pub unique: bool,
    /// NULL is equal to NULL there.
    #[serde(default)]
    pub nulls_not_distinct: bool,
    /// It is the primary key's.
    #[serde(default)]
    pub primary: bool,
    /// Only rows for which this is true have entries.
    #[serde(default)]
    pub predicate: Option<Expression>,
    /// `USING` what: btree, hash, gin... All are kept sorted.
    #[serde(default)]
    pub method: String,
    /// Where its entries are; `None`: it is the key by which the table's rows are kept.
    pub rows: Option<RowsAt>,
    /// Every row has its entry: it may be used for searching.
    pub valid: bool,
    /// Whether two rows differ is looked at behind a statement, or the transaction: until then they may not.
    #[serde(default)]
    pub deferrable: bool,
    /// The table was said to lie in its order.
    #[serde(default)]
    pub clustered: bool,
    /// `COMMENT ON`.
    #[serde(default)]
    pub comment: Option<String>,
}

impl Index {
    /// Whether it keeps two rows from being the same, at any time.
    pub fn is_unique_at_once(&self) -> bool {
        self.unique && !self.deferrable
    }

    /// Whether its table's rows are kept by it.
    pub fn keeps_rows(&self) -> bool {
        self.primary && !self.deferrable
    }
}

/// A column of an index.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct IndexColumn {
    /// What it is.
    pub of: Indexed,
    /// Larger values first.
    #[serde(default)]
    pub descending: bool,
    /// NULLs before all values.
    #[serde(default)]
    pub nulls_first: bool,
    /// The class of operators that was named for it, if it is not the type's own.
    #[serde(default)]
    pub class: Option<Oid>,
}

/// What a column of an index is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Indexed {
    /// A column of the table.
    Column(u16),
    /// Computed from the row.
    Expression {
        /// How.
        expression: Expression,
        /// Type of the result: its oid.
        type_oid: Oid,
        /// Type of the result: its modifier.
        modifier: i32,
    },
}

/// A sequence. Its numbers are in rows of their own (sequence.rs).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sequence {
    /// Its number.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// The schema that it is in.
    pub schema: Oid,
    /// The role that owns it.
    #[serde(default)]
    pub owner: Oid,
    /// Type of its numbers.
    pub type_oid: Oid,
    /// The first number.
    pub start: i64,
    /// From one number to the next.
    pub increment: i64,
    /// The least number.
    pub min: i64,
    /// The greatest number.
    pub max: i64,
    /// How many numbers a host takes at once.
    pub cache: i64,
    /// It starts over at its end.
    pub cycle: bool,
    /// The table and column that it goes with.
    #[serde(default)]
    pub owned_by: Option<(Oid, u16)>,
    /// Who may do what.
    #[serde(default)]
    pub grants: Vec<Grant>,
    /// `COMMENT ON`.
    #[serde(default)]
    pub comment: Option<String>,
}

/// A view.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct View {
    /// Its number.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// The schema that it is in.
    pub schema: Oid,
    /// The role that owns it.
    pub owner: Oid,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its query.
    pub query: Expression,
    /// Oid of the type of its rows.
    pub row_type: Oid,
    /// `WITH CHECK OPTION` and the like.
    pub options: Vec<(String, String)>,
    /// Who may do what.
    pub grants: Vec<Grant>,
    /// `COMMENT ON`.
    pub comment: Option<String>,
}

impl Table {
    /// A table without columns, and without anybody's privileges.
    pub(crate) fn empty(oid: Oid, name: &str, schema: Oid, owner: Oid) -> Table {
        Table {
            oid,
            name: name.to_string(),
            schema,
            owner,
            columns: Vec::new(),
            key: Vec::new(),
            placing: Placing::default(),
            rows: RowsAt { object: ObjectId(oid), size: ClassSize { words: 2, body: 16 } },
            overflow: None,
            constraints: Vec::new(),
            row_type: 0,
            grants: Vec::new(),
            options: Vec::new(),
            unlogged: false,
            on_commit: OnCommit::default(),
            materialized: None,
            comment: None,
        }
    }

    /// What rows have in columns that came later is no one else's to say than who puts the rows: takes that
    /// over from the description before.
    pub(crate) fn keep_missing(&mut self, before: &Table) {
        for (old, new) in before.columns.iter().zip(&mut self.columns) {
            new.missing = old.missing.clone().filter(|_| !new.dropped);
        }
    }

    /// All rows have been written with all columns.
    pub(crate) fn forget_missing(&mut self) {
        self.columns.iter_mut().for_each(|column| column.missing = None);
    }

    /// The tables that its foreign keys refer to, one for each.
    pub fn parents(&self) -> impl Iterator<Item = Oid> {
        self.constraints.iter().filter_map(|constraint| match constraint.rule {
            Rule::ForeignKey { table, .. } => Some(table),
            _ => None,
        })
    }
}

impl Column {
    /// A nullable column without a default.
    pub fn new(name: &str, ty: Type) -> Column {
        Column { name: name.to_owned(), type_oid: ty.oid, modifier: ty.modifier, ..Column::default() }
    }

    /// With `NOT NULL`.
    #[must_use]
    pub fn not_null(self) -> Column {
        Column { not_null: true, ..self }
    }

    /// Its type.
    pub fn ty(&self) -> Type {
        Type { oid: self.type_oid, modifier: self.modifier }
    }
}

impl IndexColumn {
    /// A column of the table, ascending with NULLs last.
    pub fn of(column: u16) -> IndexColumn {
        IndexColumn { of: Indexed::Column(column), descending: false, nulls_first: false, class: None }
    }
}

macro_rules! of_each {
    ($object:expr, $it:ident => $value:expr) => {
        match $object {
            Object::Schema($it) => $value,
            Object::Role($it) => $value,
            Object::Table($it) => $value,
            Object::Index($it) => $value,
            Object::Sequence($it) => $value,
            Object::View($it) => $value,
            Object::Type($it) => $value,
        }
    };
}

impl Object {
    /// Its number.
    pub fn oid(&self) -> Oid {
        of_each!(self, it => it.oid)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        of_each!(self, it => &it.name)
    }

    /// The schema that it is in; 0 for schemas and roles.
    pub fn schema(&self) -> Oid {
        match self {
            Object::Schema(_) | Object::Role(_) => 0,
            Object::Table(it) => it.schema,
            Object::Index(it) => it.schema,
            Object::Sequence(it) => it.schema,
            Object::View(it) => it.schema,
            Object::Type(it) => it.schema,
        }
    }

    /// What `COMMENT ON` said of it.
    pub fn comment_mut(&mut self) -> &mut Option<String> {
        of_each!(self, it => &mut it.comment)
    }

    /// The word that messages use.
    pub fn kind(&self) -> &'static str {
        match self {
            Object::Schema(_) => "schema",
            Object::Role(_) => "role",
            Object::Table(it) if it.materialized.is_some() => "materialized view",
            Object::Table(_) => "table",
            Object::Index(_) => "index",
            Object::Sequence(_) => "sequence",
            Object::View(_) => "view",
            Object::Type(_) => "type",
        }
    }
}
