//! Liger inside a program: a pod in real memory, its hosts, their workers.
//!
//! ```
//! use liger_engine::db::{Pod, PodConfig};
//! use liger_engine::{Key, Session, Transaction, table};
//! use liger_fabric::HostId;
//! use liger_fabric::native::MemorySpec;
//!
//! table! {
//!     /// Counters by name.
//!     pub mod counters: "counters" {
//!         LABEL: Text<16>,
//!         VALUE: BigInt,
//!     }
//!     primary key (LABEL);
//! }
//!
//! let config = PodConfig::new(1, 2, 4 << 20, 64 << 20);
//! let pod = Pod::create(&MemorySpec::Memfd, &config, &[counters::schema()])?;
//! let table = pod.catalog().table_named("counters").expect("declared above");
//! let mut host = pod.join(HostId(0))?;
//! host.load(|rows| {
//!     let mut row = liger_engine::NewRow::new(counters::ROW_LEN);
//!     row.set(counters::LABEL, "visits").set(counters::VALUE, 0);
//!     rows.put(table, &row)
//! })?;
//! let key = Key::build().text("visits", 16).finish();
//! for worker in host.run(2, |session| {
//!     session.transact(|tx| {
//!         tx.update(table, &key, |row| {
//!             let visits = row.get(counters::VALUE);
//!             row.set(counters::VALUE, visits + 1);
//!         })
//!     })
//! }) {
//!     worker.expect("no worker panicked")?;
//! }
//! let visits = host.alone(|session| {
//!     session.transact(|tx| tx.get(table, &key, |row| row.get(counters::VALUE)))
//! })?;
//! assert_eq!(visits, Some(2));
//! # host.leave()?;
//! # Ok::<(), liger_engine::db::DbError>(())
//! ```
//!
//! Invariants:
//! 1. A host that has joined answers the others until it leaves: its workers do while they run, also those
//!    whose work is done; a service thread does the rest of the time.
//! 2. Every host checks that the pod has the configuration and the tables that it expects, and tests the
//!    memory together with a member, before it serves.
//!
//! This is the only part of the engine that knows a backend: it opens real memory and starts threads in it.
//! The simulator drives the parts below directly.

use std::ops::Range;
use std::sync::Arc;

use liger_fabric::native::{
    HostMemory, IDLE_NS, Mapping, MemoryError, MemorySpec, Native, NativeHost, Service, WorkerPanicked,
};
use liger_fabric::{Cx, HostId, Latch, WorkerId};
use liger_pod::PodError;
use liger_pod::bells::{Bell, bell};
use liger_pod::membership::{self, Member};
use liger_pod::plan::Plan;
pub use liger_pod::plan::PodConfig;
use liger_pod::selftest::Effort;
use liger_pod::superblock::{self, FormatOver};

use crate::catalog::Catalog;
use crate::log::HostLog;
use crate::protocol::engine::HostEngine;
use crate::protocol::load::Loader;
use crate::recovery::checkpointer::Checkpointer;
use crate::recovery::{self, Identity, Loaded, Loading};
use crate::row::{Options, RowHost, RowSession, Takeover, WorkerToken};
use crate::tables::record::NewRow;
use crate::tables::schema::TableSchema;
use crate::txn::{TableId, TxnError};

mod checkpoint;
mod error;
mod eye;
mod heartbeat;
mod moves;
pub mod storage;
mod watch;
mod worker_group;

use checkpoint::SharedCheckpointer;
use eye::Eye;
use heartbeat::Heartbeat;
use worker_group::Fuse;

pub use checkpoint::CheckpointHandle;
pub use error::DbError;
pub use liger_fabric::SyncMode;
pub use storage::{DataDirectory, HostStorage, StorageError};
pub use watch::{LogPoint, LogWatch, Onlooker};
pub use worker_group::{Borrowing, WorkerGroup};

/// A pod in this process's address space. Cheap to clone.
#[derive(Clone)]
pub struct Pod {
    mapping: Arc<Mapping>,
    plan: Plan,
    catalog: Arc<Catalog>,
}

/// Rows between two rounds of serving other hosts while a host is being filled.
const ROWS_PER_ROUND: u64 = 256;

impl Pod {
    /// What `config` becomes for these tables: it has room for them, and hosts with other tables will be
    /// refused.
    pub fn config_for(config: &PodConfig, catalog: &Catalog) -> PodConfig {
        let relations = catalog.relations().len() as u16;
        assert_eq!(usize::from(relations), catalog.relations().len(), "an id has 16 bits");
        PodConfig {
            max_tables: config.max_tables.max(relations),
            content_hash: catalog.hash(),
            ..config.clone()
        }
    }

    /// Makes a pod in new memory, or on a device that holds none.
    pub fn create(spec: &MemorySpec, config: &PodConfig, tables: &[TableSchema]) -> Result<Self, DbError> {
        let over = match spec {
            MemorySpec::Dax(_) | MemorySpec::Pci(_) => FormatOver::Unknown,
            _ => FormatOver::Zeros,
        };
        Self::format(|len| spec.create(len), config, tables, over)
    }

    /// Makes a pod in memory that exists. What it holds is lost, and no host may be using it.
    pub fn create_over(
        spec: &MemorySpec,
        config: &PodConfig,
        tables: &[TableSchema],
    ) -> Result<Self, DbError> {
        Self::format(|_| spec.open(), config, tables, FormatOver::OldPod)
    }

    fn format(
        memory: impl FnOnce(u64) -> Result<Arc<Mapping>, MemoryError>,
        config: &PodConfig,
        tables: &[TableSchema],
        over: FormatOver,
    ) -> Result<Self, DbError> {
        let catalog = Arc::new(Catalog::new(tables)?);
        let config = Self::config_for(config, &catalog);
        let plan = Plan::new(&config).map_err(PodError::Plan)?;
        let mapping = memory(plan.len())?;
        let len = mapping.len() as u64;
        superblock::format(&control_cx(&mapping, config.sync_mode), &config, len, over)?;
        Ok(Self::checked(mapping, plan, catalog))
    }

    /// Makes this pod's memory anew. What it holds is lost, and no host may be using it.
    pub fn format_again(self, config: &PodConfig) -> Result<Self, DbError> {
        let (len, config) = (self.mapping.len() as u64, Self::config_for(config, &self.catalog));
        let plan = superblock::format(&self.control(), &config, len, FormatOver::OldPod)?;
        Ok(Self { plan, ..self })
    }

    /// Opens a pod that has these tables.
    pub fn open(spec: &MemorySpec, tables: &[TableSchema]) -> Result<Self, DbError> {
        Self::open_checked(spec, tables, None)
    }

    /// As [`Pod::open`], and the pod must have this configuration.
    pub fn open_as(spec: &MemorySpec, config: &PodConfig, tables: &[TableSchema]) -> Result<Self, DbError> {
        Self::open_checked(spec, tables, Some(config))
    }

    fn open_checked(
        spec: &MemorySpec,
        tables: &[TableSchema],
        config: Option<&PodConfig>,
    ) -> Result<Self, DbError> {
        let catalog = Arc::new(Catalog::new(tables)?);
        let mapping = spec.open()?;
        let len = mapping.len() as u64;
        // Before the mode is known: past the cache is right in both.
        let cx = control_cx(&mapping, SyncMode::Pcc);
        let found = superblock::open(&cx, len)?;
        let expected = Self::config_for(config.unwrap_or(found.config()), &catalog);
        let plan = superblock::open_as(&cx, len, &expected)?;
        Ok(Self::checked(mapping, plan, catalog))
    }

    /// A pod whose memory says that it is this one.
    fn checked(mapping: Arc<Mapping>, plan: Plan, catalog: Arc<Catalog>) -> Self {
        assert!(plan.len() <= mapping.len() as u64, "{} bytes of {}", plan.len(), mapping.len());
        assert_eq!(plan.config().content_hash, catalog.hash(), "the pod has these tables");
        assert!(usize::from(plan.config().max_tables) >= catalog.relations().len(), "and room for them");
        Self { mapping, plan, catalog }
    }

    /// Where everything lies, and the configuration.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The tables.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The descriptor by which a child process opens this memory, if it has no name ([`MemorySpec::Memfd`]).
    pub fn inherited(&self) -> Option<MemorySpec> {
        self.mapping.inherited_fd().map(MemorySpec::Fd)
    }

    /// Joins as host `host`.
    pub fn join(&self, host: HostId) -> Result<Host, DbError> {
        self.join_with(host, JoinOptions::new(&self.plan))
    }

    /// As [`Pod::join`], with options.
    ///
    /// # Errors
    /// If the number is taken, the memory does not keep its promises, or there is no room for the host's
    /// indexes. The number is given back then where that is possible.
    pub fn join_with(&self, host: HostId, options: JoinOptions) -> Result<Host, DbError> {
        self.join_through(host, options, |memory| memory)
    }

    /// As [`Pod::join_with`], through what `over` puts before the pod's memory: a software cache, say
    /// (`liger_fabric::shadow`).
    pub fn join_through<M: HostMemory>(
        &self,
        host: HostId,
        options: JoinOptions,
        over: impl FnOnce(NativeHost) -> M,
    ) -> Result<Host<M>, DbError> {
        let memory = over(NativeHost::new(self.mapping.clone(), self.plan.config().sync_mode, host));
        assert_eq!(memory.host(), host, "the memory is another host's");
        let files_of = options.storage.as_ref().map(|storage| storage.directory.host());
        assert!(files_of.is_none_or(|of| of == host), "host {} joins with files of {files_of:?}", host.0);
        let cx = memory.cx(SERVICE_WORKER, options.seed);
        let joining = membership::join(&cx, &self.plan, cx.process())?;
        // Only pods with logs take a silent host for dead.
        let stored = options.storage.is_some();
        let heartbeat = stored.then(|| Heartbeat::start(&memory, &self.plan, &joining, options.seed));
        (options.waits_for)("the self-test of the memory with another host");
        let tested = joining.self_test(&cx, &options.self_test).map_err(DbError::from);
        (options.waits_for)("the end of its last log to be on storage");
        // As a member it holds nobody back: its log has begun.
        let begin = |storage: &HostStorage| {
            let (disk, incarnation) = (storage.directory.disk(), joining.incarnation());
            HostLog::new(&cx, &self.plan, incarnation, disk, storage.log)
        };
        let log = match tested.and_then(|_| Ok(options.storage.as_ref().map(begin).transpose()?)) {
            Ok(log) => log,
            Err(failed) => {
                drop(heartbeat);
                // The failure is what counts; that the number could not be given back as well shows in the
                // pod.
                let _ = joining.abandon(&cx);
                return Err(failed);
            }
        };
        assert_eq!(log.is_some(), options.storage.is_some(), "who has storage keeps a log");
        let mut engine_options = options.engine;
        let mut checkpointer = None;
        if let (Some(storage), Some(log)) = (options.storage, log) {
            let HostStorage { files, identity, directory, log: log_options, manifest, checkpoints } = storage;
            engine_options.takeover = Some(Takeover { files, identity, log: log_options });
            checkpointer = Some(Checkpointer::new(&cx, &log, directory, manifest, checkpoints));
            engine_options.log = Some(log);
        }
        let member = joining.finish(&cx)?;
        (options.waits_for)("room for its indexes");
        let engine = RowHost::new(&cx, &self.plan, self.catalog.clone(), member, engine_options)?;
        assert_eq!(
            (engine.id(), checkpointer.is_some()),
            (host, heartbeat.is_some()),
            "a host with all of it"
        );
        let engine = Arc::new(engine);
        heartbeat.iter().for_each(|heartbeat| heartbeat.serve(&engine));
        let shipped = engine.clone();
        let group = WorkerGroup::start(self.clone(), memory.clone(), engine.clone(), options.seed);
        let ship = move |cx: &_| {
            let _fuse = Fuse(&*shipped);
            shipped.ship(cx)
        };
        let storing = checkpointer.map(|checkpointer| {
            let checkpointer = Arc::new(Latch::new(Some(checkpointer)));
            let (its_own, imaged) = (checkpointer.clone(), engine.clone());
            // Whoever holds it takes a checkpoint.
            let turn = move |cx: &_| {
                let _fuse = Fuse(&*imaged);
                let Some(mut its_own) = its_own.try_lock() else { return IDLE_NS };
                let it = its_own.as_mut().expect("it is there until this service has ended");
                if it.turn(cx, &*imaged) > 0 { 0 } else { it.rest_ns(cx) }
            };
            let turns_bell = bell(&self.plan, host, Bell::Checkpoint);
            let turns = Service::start(&memory, SERVICE_WORKER, options.seed, Some(turns_bell), turn);
            let log_bell = bell(&self.plan, host, Bell::Log);
            Storing {
                checkpointer,
                turns,
                eye: Eye::open(&memory, &self.plan, &engine, options.seed),
                shipper: Service::start(&memory, SERVICE_WORKER, options.seed, Some(log_bell), ship),
            }
        });
        Ok(Host { group, storing, heartbeat })
    }

    /// Joins as host `host` with an engine of the caller's, which `make` makes once the host is a member;
    /// `over` puts something before the pod's memory. There is no log and no takeover: what such a host has
    /// is gone with it.
    ///
    /// # Errors
    /// If the number is taken or the memory does not keep its promises; and those of `make`.
    pub fn join_engine<E: HostEngine, M: HostMemory>(
        &self,
        host: HostId,
        self_test: &Effort,
        seed: u64,
        over: impl FnOnce(NativeHost) -> M,
        make: impl FnOnce(&Cx<M::View>, &Plan, Arc<Catalog>, Member) -> Result<E, TxnError>,
    ) -> Result<WorkerGroup<E, M>, DbError> {
        let memory = over(NativeHost::new(self.mapping.clone(), self.plan.config().sync_mode, host));
        assert_eq!(memory.host(), host, "the memory is another host's");
        let cx = memory.cx(SERVICE_WORKER, seed);
        let joining = membership::join(&cx, &self.plan, cx.process())?;
        if let Err(failed) = joining.self_test(&cx, self_test) {
            // The failure is what counts; that the number could not be given back as well shows in the pod.
            let _ = joining.abandon(&cx);
            return Err(failed.into());
        }
        let engine = make(&cx, &self.plan, self.catalog.clone(), joining.finish(&cx)?)?;
        Ok(WorkerGroup::start(self.clone(), memory, Arc::new(engine), seed))
    }

    /// What all hosts of a pod with these files agree on; `pod` is the number of a new pod.
    pub fn identity(&self, pod: u64) -> Identity {
        // Sizes of memories may differ from generation to generation; what decides where a row is may not.
        let configuration = u64::from(self.plan.config().partitions);
        Identity::new(pod, configuration, &self.catalog, self.plan.config().hosts)
    }

    /// A context for work on a pod's files before a host has joined.
    pub fn control(&self) -> Cx<Native> {
        control_cx(&self.mapping, self.plan.config().sync_mode)
    }
}

/// The worker number of the service thread and of whoever makes it rest.
const SERVICE_WORKER: WorkerId = WorkerId(0);

fn control_cx(mapping: &Arc<Mapping>, mode: SyncMode) -> Cx<Native> {
    Cx::new(Native::with_sync_mode(mapping.clone(), mode), HostId(0), SERVICE_WORKER, 0)
}

/// How a host joins.
pub struct JoinOptions {
    /// What the engine may use and how it decides.
    pub engine: Options,
    /// How thoroughly the memory is tested.
    pub self_test: Effort,
    /// Where the host keeps its log and its checkpoints; without it, nothing outlives the hosts.
    pub storage: Option<HostStorage>,
    /// Decides the random numbers of the host's workers, together with host, worker and run.
    pub seed: u64,
    /// Hears what the join waits for from now on, in words.
    pub waits_for: fn(&'static str),
}

impl JoinOptions {
    /// The defaults for a pod.
    pub fn new(plan: &Plan) -> Self {
        Self {
            engine: Options::new(plan),
            self_test: Effort::USUAL,
            storage: None,
            seed: 1,
            waits_for: |_| (),
        }
    }
}

/// One host of a pod, in this process. It answers the others until it leaves.
pub struct Host<M: HostMemory = NativeHost> {
    group: WorkerGroup<RowHost, M>,
    storing: Option<Storing>,
    /// Shows that this process lives, whatever keeps the others from doing so.
    heartbeat: Option<Heartbeat>,
}

/// What a host with a log and checkpoints has running. They use no worker's number in shared memory.
struct Storing {
    checkpointer: SharedCheckpointer,
    /// Takes the checkpointer's turns.
    turns: Service,
    /// Watches the other hosts, and takes over from those that die; as a worker of its own.
    eye: Eye,
    /// Writes the log.
    shipper: Service,
}

/// A host that is being filled.
pub struct Rows<'h, M: HostMemory = NativeHost> {
    loader: Loader<'h, RowHost>,
    session: RowSession<'h, M::View>,
    put: u64,
}

impl<M: HostMemory> Rows<'_, M> {
    /// Adds a row. One that belongs to another host is passed over, so all hosts may be given the same rows;
    /// rows of replicated tables are for all hosts.
    pub fn put(&mut self, table: TableId, row: &NewRow) -> Result<(), TxnError> {
        self.loader.put(self.session.cx(), table, row)?;
        self.put += 1;
        if self.put.is_multiple_of(ROWS_PER_ROUND) {
            self.session.serve();
        }
        Ok(())
    }
}

impl<M: HostMemory> Host<M> {
    /// This host's number.
    pub fn id(&self) -> HostId {
        self.group.engine.id()
    }

    /// The host's workers and its engine.
    pub fn group(&mut self) -> &mut WorkerGroup<RowHost, M> {
        &mut self.group
    }

    /// The pod.
    pub fn pod(&self) -> &Pod {
        &self.group.pod
    }

    /// The host's way to the pod's memory.
    pub fn memory(&self) -> &M {
        &self.group.memory
    }

    /// The row engine below.
    pub fn engine(&self) -> &RowHost {
        &self.group.engine
    }

    /// Which thread that keeps this host in the pod has panicked, and what it said, if one has. The host is
    /// silent since then, and its transactions end with [`TxnError::Fenced`]: the others take it for dead.
    pub fn failure(&self) -> Option<String> {
        let storing = self.storing.iter().flat_map(|storing| {
            [
                ("failure detector", storing.eye.detector()),
                ("shipper", &storing.shipper),
                ("checkpointer", &storing.turns),
            ]
        });
        let mut all = storing.map(|(name, it)| Some(format!("the {name} has panicked: {}", it.failure()?)));
        all.find_map(|failure| failure).or_else(|| self.group.failure())
    }

    /// Runs `work` on `workers` threads, each with its own session, and waits for all of them; results come
    /// in worker order. A worker whose work is done goes on serving other hosts until all of this host are.
    ///
    /// # Panics
    /// If the pod was not configured for so many workers.
    pub fn run<T: Send>(
        &mut self,
        workers: u8,
        work: impl Fn(&mut RowSession<'_, M::View>) -> T + Sync,
    ) -> Vec<Result<T, WorkerPanicked>> {
        self.group.run(workers, |_, session| work(session))
    }

    /// Lends these workers to threads of their own that run steps of more transactions than there are workers
    /// ([`DetachedTxn`](crate::row::DetachedTxn)). They serve no other host while they rest: worker 0, which
    /// is not among them, has to meanwhile ([`Host::alone`]). Their tokens are for a
    /// [`WorkerPool`](crate::row::WorkerPool); until all transactions that they ran have ended, and the
    /// tokens are dropped, these numbers are nobody else's.
    ///
    /// # Panics
    /// If the pod was not configured for so many workers, or 0 is one of them.
    pub fn lend(&mut self, workers: Range<u8>) -> (Borrowing<M>, Vec<WorkerToken>) {
        self.group.lend(workers)
    }

    /// Wakes whoever answers other hosts here, if it sleeps ([`RowSession::doze`]); from any thread.
    pub fn waker(&self) -> impl Fn() + Send + Sync + 'static {
        let (memory, seed) = (self.group.memory.clone(), self.group.seed);
        let mail = bell(self.group.pod.plan(), self.id(), Bell::Work);
        move || {
            let cx = memory.cx(SERVICE_WORKER, seed);
            cx.fence();
            cx.ring(mail);
        }
    }

    /// Runs `work` on the calling thread, as the host's only worker.
    pub fn alone<T>(&mut self, work: impl FnOnce(&mut RowSession<'_, M::View>) -> T) -> T {
        self.group.alone(|_, session| work(session))
    }

    /// Fills this host's partitions before the pod is used, without locks or transactions. Returns how many
    /// rows were put, those for other hosts included.
    ///
    /// # Errors
    /// The first of `fill`.
    pub fn load<E>(&mut self, fill: impl FnOnce(&mut Rows<'_, M>) -> Result<(), E>) -> Result<u64, E> {
        let _rest = self.group.service.rest();
        let cx = self.group.memory.cx(SERVICE_WORKER, self.group.seed);
        let session = RowSession::new(&cx, &self.group.engine);
        let mut rows = Rows { loader: Loader::new(&self.group.engine), session, put: 0 };
        fill(&mut rows)?;
        rows.loader.finish(&cx);
        Ok(rows.put)
    }

    /// Fills this host's partitions with what the pod's files hold, on `workers` threads. All hosts read the
    /// files of all hosts.
    ///
    /// # Errors
    /// If a file is missing or damaged.
    pub fn recover(
        &mut self,
        data: &DataDirectory,
        plan: &recovery::Plan,
        workers: u8,
    ) -> Result<Loaded, DbError> {
        assert!(workers > 0, "somebody reads the files");
        let directories = data.look_all()?;
        let engine = self.group.engine.clone();
        let loading = Loading::new(plan, &*engine);
        let worked = self.run(workers, |session| loading.work(session.cx(), &directories));
        for worker in worked {
            // A panic has said what it is.
            worker.expect("no worker panicked")?;
        }
        self.rows_are_whole();
        Ok(loading.loaded())
    }

    /// Fills this host's copies of replicated tables from the pod's files, while the pod goes on: for a host
    /// that has come back, and whose partitions others have taken over.
    ///
    /// # Errors
    /// If a file is missing or damaged.
    pub fn recover_replicas(&mut self, data: &DataDirectory) -> Result<u64, DbError> {
        let directories = data.look_all()?;
        let _rest = self.group.service.rest();
        let cx = self.group.memory.cx(SERVICE_WORKER, self.group.seed);
        let identity = data.identity();
        let rows = recovery::load_replicas(&cx, &*self.group.engine, &directories, &identity)?;
        self.rows_are_whole();
        Ok(rows)
    }

    /// Leaves the pod, once its log is on storage. Its rows go with it: call it when the pod comes to rest.
    ///
    /// # Errors
    /// If a thread has panicked ([`Host::failure`]), its log fails, or the others take it for dead: what it
    /// holds is theirs then, once the process has ended.
    pub fn leave(self) -> Result<(), DbError> {
        if let Some(failure) = self.failure() {
            return Err(DbError::Failed(failure));
        }
        if let Some(Storing { checkpointer, turns, eye, shipper }) = self.storing {
            // A checkpoint under way is given up: it may wait for the log. Whoever has ordered it is told.
            drop(turns);
            drop(checkpointer.lock(&self.group.memory.cx(SERVICE_WORKER, self.group.seed)).take());
            drop(eye);
            drop(shipper);
        }
        let (engine, cx) = self.group.dismiss();
        if let Some(log) = engine.log() {
            log.drain(&cx, || engine.members(&cx))?;
            log.close(&cx, engine.members(&cx))?;
            // What its images have is needed until other hosts have newer ones.
            log.note_dead(&cx, engine.id());
        }
        // Last of all, for a log may take longer than a lease; and before the number is another
        // incarnation's.
        drop(self.heartbeat);
        let engine = Arc::into_inner(engine).expect("only the service shared it");
        Ok(engine.leave(&cx)?)
    }
}
