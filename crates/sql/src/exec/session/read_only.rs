//! Read-only transactions: statements that change rows or the catalog are refused in them.
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::parse::ast::{LockStrength, Query, Statement, With};

impl<S: Store> LocalSession<S> {
    /// 25006 for a statement that writes where the transaction may only read.
    pub(super) fn refuse_writing(&self, statement: &Statement) -> Result<()> {
        let is_read_only = self.shared.variables.borrow().is_read_only();
        match written(statement).filter(|_| is_read_only && !self.writes_temporary(statement)) {
            None => Ok(()),
            Some(what) => {
                let message = format!("cannot execute {what} in a read-only transaction");
                Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message))
            }
        }
    }
}

fn with(with: Option<&With>) -> Option<String> {
    // As PostgreSQL names it: by the whole statement, not by the part that writes.
    with.and_then(|with| with.tables.iter().find_map(|table| written(&table.statement)))
        .map(|_| "SELECT".to_string())
}

fn query(query: &Query) -> Option<String> {
    with(query.with.as_ref()).or_else(|| {
        let words = match query.locking.first()?.strength {
            LockStrength::KeyShare => "FOR KEY SHARE",
            LockStrength::Share => "FOR SHARE",
            LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
            LockStrength::Update => "FOR UPDATE",
        };
        Some(format!("SELECT {words}"))
    })
}

/// What of the statement writes, by its tag.
fn written(statement: &Statement) -> Option<String> {
    let name = match statement {
        Statement::Query(inner) => return query(inner),
        Statement::Explain { options, statement } => {
            let runs =
                options.iter().any(|(name, value)| name == "analyze" && value != "false" && value != "off");
            return written(statement).filter(|_| runs);
        }
        Statement::Insert(_) => "INSERT",
        Statement::Update(_) => "UPDATE",
        Statement::Delete(_) => "DELETE",
        Statement::Merge(_) => "MERGE",
        Statement::Copy(copy) if copy.from => "COPY FROM",
        Statement::CreateTable(_) => "CREATE TABLE",
        Statement::CreateTableAs { materialized: Some(_), .. } => "CREATE MATERIALIZED VIEW",
        Statement::CreateTableAs { .. } => "CREATE TABLE AS",
        Statement::Refresh { .. } => "REFRESH MATERIALIZED VIEW",
        Statement::CreateIndex(_) => "CREATE INDEX",
        Statement::CreateSequence { .. } => "CREATE SEQUENCE",
        Statement::AlterSequence { .. } => "ALTER SEQUENCE",
        Statement::CreateView { .. } => "CREATE VIEW",
        Statement::CreateType { .. } => "CREATE TYPE",
        Statement::CreateDomain { .. } => "CREATE DOMAIN",
        Statement::AlterDomain(..) => "ALTER DOMAIN",
        Statement::AlterTypeAddValue { .. } | Statement::AlterTypeRenameValue { .. } => "ALTER TYPE",
        Statement::CreateSchema { .. } => "CREATE SCHEMA",
        Statement::CreateRole { .. } => "CREATE ROLE",
        Statement::AlterRole { .. } => "ALTER ROLE",
        Statement::Owned(owned) if owned.to.is_some() => "REASSIGN OWNED",
        Statement::Owned(_) => "DROP OWNED",
        Statement::Truncate { .. } => "TRUNCATE TABLE",
        Statement::Comment { .. } => "COMMENT",
        Statement::Grant(grant) => match (grant.grant, grant.on.is_none() && grant.default.is_none()) {
            (true, false) => "GRANT",
            (false, false) => "REVOKE",
            (true, true) => "GRANT ROLE",
            (false, true) => "REVOKE ROLE",
        },
        Statement::AlterTable { kind, .. } => return Some(format!("ALTER {}", kind.word().to_uppercase())),
        Statement::DropAbsent(drop) => return Some(format!("DROP {}", drop.kind.to_uppercase())),
        Statement::Drop { kind, .. } => return Some(format!("DROP {}", kind.word().to_uppercase())),
        _ => return None,
    };
    Some(name.to_string())
}
