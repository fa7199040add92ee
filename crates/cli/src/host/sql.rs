//! A host's SQL: its catalog, its workers for sessions, and the server that clients connect to.
//!
//! 1. The workers stop for the orders that come before the host's end, and for no others; a session that has
//!    a transaction then, or wants one, is told that the host ends (57P01), and its connection is closed.
//! 2. Who is let in, and what he proves, is as the pod was told (access.rs): by default clients of this
//!    machine, and nothing.

#![expect(clippy::disallowed_methods, reason = "SQL tells the time of day")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use liger_engine::Durability;
use liger_engine::db::Host;
use liger_fabric::disk::TemporaryDirectory;
use liger_fabric::native::HostMemory;
use liger_fabric::native::allocator::give_back;
use liger_server::{Config, Scrape, Server};
use liger_sql::catalog::HostCatalog;
use liger_sql::exec::{EngineDatabase, SqlHost, Surroundings};
use liger_sql::session::{Interrupt, InterruptReason};
use liger_sql::slots::Slots;
use liger_sql::storage::classes::Classes;
use liger_sql::temporary::TemporaryPlace;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::job::{Job, Sql};
use crate::orders::Shown;

/// From 1970 to 2000, in microseconds.
const EPOCH_US: i64 = 946_684_800_000_000;
/// Time between two times that the host's transactions are counted.
const COUNT_NS: u64 = 100_000_000;
/// Time between two looks for tables that have changed: `autovacuum_naptime`. The hosts of a pod do not look
/// at the same time.
const NAP: Duration = Duration::from_secs(60);
/// How often memory that is free is looked at.
const TURN: Duration = Duration::from_secs(3);
const APART: Duration = Duration::from_secs(3);

/// What serves clients of SQL.
pub(super) struct SqlService {
    host: Arc<SqlHost>,
    durability: Durability,
    /// They end with this.
    _analyzing: Analyzing,
    _server: Arc<Server>,
    _figures: Option<Scrape>,
}

/// The machine's clock and randomness, and a place on it.
struct Machine {
    temporary: Arc<TemporaryDirectory>,
}

impl Surroundings for Machine {
    fn clock_us(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_micros() as i64 - EPOCH_US
    }

    fn random_u64(&self) -> u64 {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(0)
    }

    fn temporary_place(&self) -> Arc<dyn TemporaryPlace> {
        self.temporary.clone()
    }
}

/// Where a host's temporary files are: beside the pod's data, or where the system has its own.
fn temporary(job: &Job, number: u8) -> Result<TemporaryDirectory, String> {
    let beside = job.data.as_ref().and_then(|data| data.path.parent()).map(|pod| pod.join("temporary"));
    let path = beside.unwrap_or_else(std::env::temp_dir);
    TemporaryDirectory::open(&path, &format!("liger-temporary.{number}."))
        .map_err(|error| format!("cannot use {} for temporary files: {error}", path.display()))
}

/// A connection is a file: the host may open as many as the system lets it have, not only the first 1,024.
fn permit_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, connections beyond the old limit wait until others have ended.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Bytes that have become free before they are given back to the system.
const GIVEN_BACK: usize = 64 << 20;

/// A thread that analyzes tables when many of their rows have changed, and gives back what large statements
/// have left of memory.
struct Analyzing {
    /// It ends when this is gone.
    goes_on: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    interrupt: Arc<Interrupt>,
}

impl Analyzing {
    fn start(database: Arc<EngineDatabase>, host: u8) -> Analyzing {
        let (goes_on, ends) = channel::<()>();
        let interrupt = Arc::new(Interrupt::default());
        let heard = interrupt.clone();
        let thread = std::thread::spawn(move || {
            let mut due_in = NAP + APART * u32::from(host);
            while ends.recv_timeout(TURN) == Err(RecvTimeoutError::Timeout) {
                give_back(GIVEN_BACK);
                due_in = due_in.saturating_sub(TURN);
                if due_in.is_zero() {
                    due_in = NAP;
                    // What fails, as where the host rests, is tried again.
                    let _ = database.analyze_changed(host, &heard);
                }
            }
        });
        Analyzing { goes_on: Some(goes_on), thread: Some(thread), interrupt }
    }
}

impl Drop for Analyzing {
    fn drop(&mut self) {
        self.goes_on.take();
        self.interrupt.raise(InterruptReason::Terminate);
        let ended = self.thread.take().map(JoinHandle::join);
        debug_assert!(ended.is_none_or(|ended| ended.is_ok()), "it panics never");
    }
}

impl SqlService {
    /// Opens the catalog, and lets clients in.
    pub(super) fn open<M: HostMemory>(
        host: &mut Host<M>,
        job: &Job,
        sql: Sql,
        shown: &Shown,
    ) -> Result<SqlService, String> {
        let catalog = HostCatalog::new(Classes::of(host.engine().catalog())).map_err(|e| e.to_string())?;
        let access = job.access.clone();
        let first = access.first_verifier(false).map_err(|error| error.to_string())?;
        let entered = host.alone(|session| catalog.enter(session, first.as_deref()));
        entered.map_err(|error| error.to_string())?;
        let number = host.id().0;
        let address = access.address(sql.port, number);
        let (slots, catalog, isolation) = (Slots::new(), Arc::new(catalog), sql.isolation.level());
        let host = Arc::new(SqlHost { slots, catalog, isolation });
        let config = Config {
            addresses: vec![address],
            host: number,
            connections_max: access.max_connections as usize,
            rules: access.rules().map_err(|error| error.to_string())?,
            certificate: access.certificate(),
            route: Some(Arc::new(move |host| Some(access.route(sql.port, host)))),
            log: Some(job.telling.logger()),
            log_slower_than: job.telling.slower_than(),
            ..Config::default()
        };
        permit_files();
        let temporary = Arc::new(temporary(job, number)?);
        let database =
            EngineDatabase::new(host.clone(), move || Box::new(Machine { temporary: temporary.clone() }));
        host.slots.observed().set_first_port(sql.port);
        let database = Arc::new(database);
        let server = Server::start(config, database.clone()).map_err(|error| error.to_string())?;
        let (server, slots) = (Arc::new(server), host.slots.clone());
        let drained = server.clone();
        let drain: Box<dyn Fn() -> usize + Send + Sync> = Box::new(move || drained.drain());
        // A host is opened once.
        let _ = shown.drain.set(drain);
        let of = server.clone();
        let render = move || slots.observed().render() + &of.metrics().render();
        let figures = job.telling.address(address, number);
        let figures = figures.map(|at| Scrape::start(at, Arc::new(render))).transpose();
        let figures = figures.map_err(|error| error.to_string())?;
        let durability = job.durability.into();
        let analyzing = Analyzing::start(database, number);
        Ok(SqlService { host, durability, _analyzing: analyzing, _server: server, _figures: figures })
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
        let mut counted_ns = 0;
        let work = (&self.host.catalog, self.durability);
        let worked = self.host.slots.work(host, workers, work, |session| {
            let now_ns = session.cx().now_ns();
            if now_ns.saturating_sub(counted_ns) >= COUNT_NS {
                counted_ns = now_ns;
                let committed = self.host.slots.observed().committed();
                shown.transactions.store(committed, Ordering::Relaxed);
            }
            !shown.wanted.load(Ordering::Relaxed)
        });
        worked.map_err(|error| error.to_string())
    }
}
