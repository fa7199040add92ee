//! A host's SQL: its catalog, its workers for sessions, and the server that clients connect to.
//!
//! 1. The workers stop for orders; a session that has a transaction then is told that the host ends
//!    (57P01). Connections stay.
//! 2. Only clients of this machine are let in, and they prove nothing.

#![expect(clippy::disallowed_methods, reason = "SQL tells the time of day")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use liger_engine::db::Host;
use liger_engine::log::Durability;
use liger_fabric::native::HostMemory;
use liger_server::auth::hba::Rules;
use liger_server::{Config, Server};
use liger_sql::catalog::HostCatalog;
use liger_sql::exec::{EngineDatabase, SqlHost, Surroundings};
use liger_sql::storage::access::transact;
use liger_sql::storage::classes::Classes;
use liger_sql::storage::slots::Slots;

use crate::desks::show;
use crate::job::Sql;
use crate::orders::Shown;

/// From 1970 to 2000, in microseconds.
const EPOCH_US: i64 = 946_684_800_000_000;
/// Looks of worker 0 between two times that the host's state is shown.
const LOOKS_PER_SHOW: u32 = 1 << 10;

/// What serves clients of SQL.
pub(super) struct SqlDesk {
    host: Arc<SqlHost>,
    durability: Durability,
    /// It ends with this.
    _server: Server,
}

/// The machine's clock and randomness.
struct Machine;

impl Surroundings for Machine {
    fn clock_us(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_micros() as i64 - EPOCH_US
    }

    fn random_u64(&self) -> u64 {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(0)
    }
}

fn address(port: u16, host: u8) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port + u16::from(host)))
}

impl SqlDesk {
    /// Opens the catalog, and lets clients in.
    pub(super) fn open<M: HostMemory>(
        host: &mut Host<M>,
        sql: Sql,
        durability: Durability,
    ) -> Result<SqlDesk, String> {
        let catalog = HostCatalog::new(Classes::of(host.engine().catalog())).map_err(|e| e.to_string())?;
        let life = host.alone(|session| transact(session, |tx| catalog.open(tx)));
        catalog.opened(life.map_err(|error| error.to_string())?);
        let number = host.id().0;
        let host = Arc::new(SqlHost { slots: Slots::new(), catalog: Arc::new(catalog) });
        let config = Config {
            addresses: vec![address(sql.port, number)],
            host: number,
            route: Some(Arc::new(move |host| Some(address(sql.port, host)))),
            rules: Rules::standard(true),
            ..Config::default()
        };
        let database = EngineDatabase::new(host.clone(), || Box::new(Machine));
        let server = Server::start(config, Arc::new(database)).map_err(|error| error.to_string())?;
        Ok(SqlDesk { host, durability, _server: server })
    }

    /// Works for clients, with so many workers, until there is an order.
    ///
    /// # Errors
    /// What makes this host useless.
    pub(super) fn serve<M: HostMemory>(
        &self,
        host: &mut Host<M>,
        workers: u8,
        shown: &Shown,
    ) -> Result<(), String> {
        self.host.slots.open();
        let mut looks = 0u32;
        let work = (&self.host.catalog, self.durability);
        let worked = self.host.slots.work(host, workers, work, |session| {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS_PER_SHOW) {
                show(session.cx(), session.host(), shown);
            }
            !shown.wanted.load(Ordering::Relaxed)
        });
        worked.map_err(|error| error.to_string())
    }
}
