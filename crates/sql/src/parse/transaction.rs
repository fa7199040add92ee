//! Transaction control, SET and its kin.

use super::ast::{SetValue, Statement, Transaction, TransactionMode};
use super::lexer::Tok;
use super::{Parser, Res};

impl Parser<'_> {
    pub(super) fn transaction(&mut self) -> Res<Statement> {
        let Tok::Word(word) = self.peek().clone() else { return self.error() };
        self.advance();
        let transaction = match word.as_str() {
            "begin" => {
                self.accept_any(&["work", "transaction"]);
                Transaction::Begin { start: false, modes: self.modes()? }
            }
            "start" => {
                self.expect_word("transaction")?;
                Transaction::Begin { start: true, modes: self.modes()? }
            }
            "commit" | "end" if self.accept_word("prepared") => return self.prepared("COMMIT PREPARED"),
            "commit" | "end" => {
                self.accept_any(&["work", "transaction"]);
                Transaction::Commit { chain: self.chain_clause()? }
            }
            "savepoint" => Transaction::Savepoint(self.name()?),
            "release" => {
                self.accept_word("savepoint");
                Transaction::Release(self.name()?)
            }
            "prepare" => {
                self.expect_word("transaction")?;
                return self.prepared("PREPARE TRANSACTION");
            }
            _ if self.accept_word("prepared") => return self.prepared("ROLLBACK PREPARED"),
            _ => {
                self.accept_any(&["work", "transaction"]);
                if self.accept_word("to") {
                    self.accept_word("savepoint");
                    Transaction::RollbackTo(self.name()?)
                } else {
                    Transaction::Rollback { chain: self.chain_clause()? }
                }
            }
        };
        Ok(Statement::Transaction(transaction))
    }

    fn chain_clause(&mut self) -> Res<bool> {
        if !self.accept_word("and") {
            return Ok(false);
        }
        let no = self.accept_word("no");
        self.expect_word("chain")?;
        Ok(!no)
    }

    fn modes(&mut self) -> Res<Vec<TransactionMode>> {
        let mut modes = Vec::new();
        loop {
            if self.accept_words(&["isolation", "level"]) {
                modes.push(TransactionMode::Isolation(self.isolation()?));
            } else if self.accept_words(&["read", "only"]) {
                modes.push(TransactionMode::ReadOnly(true));
            } else if self.accept_words(&["read", "write"]) {
                modes.push(TransactionMode::ReadOnly(false));
            } else if self.accept_word("deferrable") {
                modes.push(TransactionMode::Deferrable(true));
            } else if self.accept_words(&["not", "deferrable"]) {
                modes.push(TransactionMode::Deferrable(false));
            } else if modes.is_empty() || !self.accept(',') {
                return Ok(modes);
            }
        }
    }

    fn isolation(&mut self) -> Res<&'static str> {
        if self.accept_word("serializable") {
            return Ok("serializable");
        }
        if self.accept_words(&["repeatable", "read"]) {
            return Ok("repeatable read");
        }
        self.expect_word("read")?;
        if self.accept_word("committed") {
            return Ok("read committed");
        }
        self.expect_word("uncommitted")?;
        Ok("read uncommitted")
    }

    pub(super) fn set(&mut self) -> Res<Statement> {
        self.expect_word("set")?;
        if self.accept_words(&["session", "characteristics", "as", "transaction"]) {
            return Ok(Statement::SetTransaction { session: true, modes: self.modes()? });
        }
        if self.is_word("transaction") && !matches!(self.peek_at(1), Tok::Op(_)) {
            self.advance();
            if self.accept_word("snapshot") {
                return Ok(Statement::SetSnapshot(self.string()?));
            }
            return Ok(Statement::SetTransaction { session: false, modes: self.modes()? });
        }
        if self.accept_word("constraints") {
            let names = if self.accept_word("all") { Vec::new() } else { self.paths()? };
            let deferred = self.accept_word("deferred");
            if !deferred {
                self.expect_word("immediate")?;
            }
            return Ok(Statement::SetConstraints { names, deferred });
        }
        let authorization = self.is_word("session") && self.is_word_at(1, "authorization");
        let local = !authorization && !self.accept_word("session") && self.accept_word("local");
        self.set_rest(local)
    }

    pub(super) fn set_rest(&mut self, local: bool) -> Res<Statement> {
        let set = |name: &str, value| Ok(Statement::Set { local, name: name.to_string(), value });
        if self.accept_words(&["time", "zone"]) {
            let value = self.zone()?;
            return set("timezone", value);
        }
        if self.accept_word("names") {
            let value = if self.accept_word("default") || !matches!(self.peek(), Tok::Str(_)) {
                SetValue::Default
            } else {
                SetValue::List(vec![self.string()?])
            };
            return set("client_encoding", value);
        }
        if self.accept_word("role") || self.accept_words(&["session", "authorization"]) {
            let name = if self.tokens[self.at - 1].tok == Tok::Word("role".into()) {
                "role"
            } else {
                "session_authorization"
            };
            self.accept_word("to");
            self.accept_op("=");
            let value = self.set_value()?;
            return set(name, value);
        }
        if self.accept_word("schema") {
            let schema = self.string()?;
            return set("search_path", SetValue::List(vec![schema]));
        }
        let mut name = self.label()?.text;
        while self.accept('.') {
            name = format!("{name}.{}", self.label()?.text);
        }
        if !self.accept_word("to") && !self.accept_op("=") {
            return self.error();
        }
        if self.accept_word("default") {
            return set(&name, SetValue::Default);
        }
        let list = self.list(Parser::set_item)?;
        set(&name, SetValue::List(list))
    }

    fn set_value(&mut self) -> Res<SetValue> {
        if self.accept_any(&["default"]) {
            Ok(SetValue::Default)
        } else {
            Ok(SetValue::List(vec![self.set_item()?]))
        }
    }

    fn set_item(&mut self) -> Res<String> {
        let negative = self.accept_op("-");
        let text = match self.peek().clone() {
            Tok::Word(text) | Tok::Quoted(text) | Tok::Str(text) if !negative => text,
            Tok::Integer(text) | Tok::Float(text) => text,
            _ => return self.error(),
        };
        self.advance();
        Ok(if negative { format!("-{text}") } else { text })
    }

    fn zone(&mut self) -> Res<SetValue> {
        if self.accept_any(&["local", "default"]) {
            return Ok(SetValue::Default);
        }
        if self.accept_word("interval") {
            let text = self.string()?;
            self.interval_fields(&mut super::types::named(super::Path { parts: Vec::new(), pos: 0 }))?;
            return Ok(SetValue::List(vec![format!("INTERVAL '{text}'")]));
        }
        Ok(SetValue::List(vec![self.set_item()?]))
    }

    /// The name after SHOW or RESET.
    pub(super) fn setting_name(&mut self) -> Res<String> {
        if self.accept_words(&["time", "zone"]) {
            return Ok("timezone".to_string());
        }
        if self.accept_words(&["transaction", "isolation", "level"]) {
            return Ok("transaction_isolation".to_string());
        }
        if self.accept_words(&["session", "authorization"]) {
            return Ok("session_authorization".to_string());
        }
        let mut name = self.label()?.text;
        while self.accept('.') {
            name = format!("{name}.{}", self.label()?.text);
        }
        Ok(name)
    }

    fn prepared(&mut self, name: &'static str) -> Res<Statement> {
        self.string()?;
        Ok(Statement::Transaction(Transaction::Prepared(name)))
    }
}
