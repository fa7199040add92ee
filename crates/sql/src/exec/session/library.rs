//! LOAD. There are no libraries: what some of PostgreSQL's do is always there, so that naming these changes
//! nothing, and all others are files that do not exist.

use super::LocalSession;
use crate::error::{Result, SqlError, SqlState};
use crate::exec::privilege;
use crate::exec::store::Store;

/// Libraries of PostgreSQL whose work is done here.
const BUILT_IN: [&str; 2] = ["auto_explain", "pg_stat_statements"];
/// The one that PostgreSQL always has, and that is missing here.
const PLPGSQL: &str = "plpgsql";
/// PostgreSQL's folder of libraries, and that of those which everybody may load.
const FOLDER: &str = "$libdir/";
const PLUGINS: &str = "$libdir/plugins/";

impl<S: Store> LocalSession<S> {
    /// Carries out LOAD; its tag.
    pub(super) fn load(&mut self, library: &str) -> Result<String> {
        self.ensure_open()?;
        let may_all = library.strip_prefix(PLUGINS).is_some_and(|name| !name.contains('/'));
        if !may_all && !self.is_superuser() {
            return Err(privilege::refused(format!("access to library \"{library}\" is not allowed")));
        }
        let name = library.strip_prefix(FOLDER).unwrap_or(library);
        let name = name.strip_suffix(".so").unwrap_or(name);
        if BUILT_IN.contains(&name) {
            return Ok("LOAD".to_string());
        }
        if name == PLPGSQL {
            return Err(SqlError::unsupported("PL/pgSQL", "Write what the function does as statements."));
        }
        let message = format!("could not access file \"{library}\": No such file or directory");
        Err(SqlError::new(SqlState::UNDEFINED_FILE, message))
    }
}
