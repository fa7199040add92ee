//! What PostgreSQL has and Liger has not, where several places meet it: how statements about kinds of objects
//! begin, and what a refusal says to do instead.
//!
//! Invariant: a word that the parser refuses as not supported is listed here, and so has a hint.

use crate::error::SqlError;

/// An object that is in none of PostgreSQL's catalogs here.
struct Missing {
    /// What follows the verb, lower case.
    words: &'static str,
    /// First letters of the verbs that PostgreSQL has for it: CREATE, ALTER, DROP, and O for COMMENT ON.
    verbs: &'static str,
    instead: &'static str,
}

const OBJECTS: &[Missing] = &[
    Missing { words: "access method", verbs: "CDO", instead: ACCESS_METHODS },
    Missing { words: "aggregate", verbs: "CA", instead: AGGREGATES },
    Missing { words: "cast", verbs: "CDO", instead: "Cast over text: CAST(CAST(value AS text) AS type)." },
    Missing { words: "collation", verbs: "CADO", instead: COLLATIONS },
    Missing { words: "constraint trigger", verbs: "C", instead: TRIGGERS },
    Missing { words: "conversion", verbs: "CADO", instead: "Use convert_from and convert_to." },
    Missing {
        words: "database",
        verbs: "A",
        instead: "Use ALTER ROLE .. SET for settings; a pod is one database.",
    },
    Missing { words: "default conversion", verbs: "C", instead: "Use convert_from and convert_to." },
    Missing { words: "event trigger", verbs: "CADO", instead: EVENT_TRIGGERS },
    Missing { words: "extension", verbs: "A", instead: EXTENSIONS },
    Missing { words: "foreign data wrapper", verbs: "CADO", instead: FOREIGN_DATA },
    Missing { words: "foreign table", verbs: "CADO", instead: FOREIGN_DATA },
    Missing { words: "function", verbs: "CA", instead: FUNCTIONS },
    Missing { words: "language", verbs: "CADO", instead: FUNCTIONS },
    Missing { words: "large object", verbs: "AO", instead: "Use columns of type bytea." },
    Missing { words: "operator", verbs: "CADO", instead: "Use a built-in operator or function." },
    Missing { words: "policy", verbs: "CADO", instead: ROW_SECURITY },
    Missing { words: "procedural language", verbs: "CADO", instead: FUNCTIONS },
    Missing { words: "procedure", verbs: "CA", instead: FUNCTIONS },
    Missing { words: "publication", verbs: "CADO", instead: REPLICATION },
    Missing { words: "routine", verbs: "ADO", instead: FUNCTIONS },
    Missing { words: "rule", verbs: "CADO", instead: RULES },
    Missing { words: "server", verbs: "CADO", instead: FOREIGN_DATA },
    Missing { words: "statistics", verbs: "CADO", instead: "Leave it out: plans do not use statistics." },
    Missing { words: "subscription", verbs: "CADO", instead: REPLICATION },
    Missing { words: "system", verbs: "A", instead: "Use ALTER ROLE .. SET, or SET in the session." },
    Missing { words: "tablespace", verbs: "CADO", instead: TABLESPACES },
    Missing { words: "text search", verbs: "CADO", instead: TEXT_SEARCH },
    Missing { words: "transform", verbs: "CDO", instead: FUNCTIONS },
    Missing { words: "trigger", verbs: "CA", instead: TRIGGERS },
    Missing { words: "trusted language", verbs: "C", instead: FUNCTIONS },
    Missing { words: "trusted procedural language", verbs: "C", instead: FUNCTIONS },
    Missing { words: "user mapping", verbs: "CAD", instead: FOREIGN_DATA },
];

const ACCESS_METHODS: &str = "Use btree, which serves every index here.";
const AGGREGATES: &str = "Combine built-in aggregates, or collect the values with array_agg.";
const COLLATIONS: &str =
    "Texts sort by their bytes; sort by an expression, such as lower(name), for another order.";
const EVENT_TRIGGERS: &str = "Revoke CREATE on schemas from the roles that are not to change the catalog.";
const RULES: &str =
    "Use a view, or change other tables in the same statement: WITH .. AS (UPDATE .. RETURNING ..).";
const TABLESPACES: &str = "Leave it out: rows are in the memory of the pod.";
const TEXT_SEARCH: &str = "Use LIKE or a regular expression.";

/// Of views through which no rows are changed.
pub(crate) const CHANGED_VIEWS: &str = "Change the rows of its table.";
/// Of databases beside the pod's one.
pub(crate) const DATABASES: &str = "A pod is one database: use CREATE SCHEMA, or start another pod.";
/// Of extensions, and modules for LOAD.
pub(crate) const EXTENSIONS: &str =
    "Only what is built in can be used; plpgsql is taken for clients that ask for it.";
/// Of rows that another server has.
pub(crate) const FOREIGN_DATA: &str = "Load the rows of other servers with COPY .. FROM STDIN.";
/// Of functions in any language, and what calls or changes them.
pub(crate) const FUNCTIONS: &str =
    "Keep the expression in a view or a generated column, or send the statements from the client.";
/// Of inheriting tables.
pub(crate) const INHERITANCE: &str =
    "Copy the columns with LIKE, and read several tables through a view with UNION ALL.";
/// Of rights on what has none.
pub(crate) const PRIVILEGES: &str =
    "Rights are kept for tables, views, sequences, schemas, types and domains.";
/// Of a change that an object does not take.
pub(crate) const REMAKE: &str = "Drop it, and create it as it is to be.";
/// Of what an expression in an index cannot reach.
pub(crate) const BARE: &str = "Keep the value in a column, and index that.";
/// Of statements that cannot stand where they are met.
pub(crate) const STATEMENTS: &str = "Send the statement by itself.";
/// Of tables in parts.
pub(crate) const PARTITIONS: &str = "Use one table with an index on what would be the partition key.";
/// Of two-phase commit.
pub(crate) const PREPARED: &str = "Use COMMIT: one transaction reaches the rows of all hosts of the pod.";
/// Of copies of the rows elsewhere.
pub(crate) const REPLICATION: &str =
    "All hosts of a pod see the same rows; copy them to elsewhere with COPY .. TO STDOUT or `liger backup`.";
/// Of policies.
pub(crate) const ROW_SECURITY: &str =
    "Grant rights on a view that shows the rows a role may see, and none on its table.";
/// Of what would run when rows change.
pub(crate) const TRIGGERS: &str =
    "Use constraints, defaults and generated columns; change other tables by WITH .. AS (UPDATE ..).";
/// Where nothing better can be said.
pub(crate) const TYPES: &str = "See \"SQL: types and functions\" in docs/limitations.md.";

/// The refusal of a statement about an object that is not there. `follows` says whether the statement goes on
/// with these words.
pub(crate) fn object(verb: &str, follows: impl Fn(&[&str]) -> bool) -> Option<SqlError> {
    let letter = if verb == "COMMENT ON" { 'O' } else { verb.chars().next()? };
    let of_verb = OBJECTS.iter().filter(|missing| missing.verbs.contains(letter));
    let mut fitting = of_verb.filter(|missing| follows(&missing.words.split(' ').collect::<Vec<_>>()));
    let missing = fitting.next()?;
    Some(SqlError::unsupported(format_args!("{verb} {}", missing.words.to_uppercase()), missing.instead))
}
