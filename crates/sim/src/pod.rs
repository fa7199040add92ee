//! A whole pod inside one simulation, of hosts whose tables are kept in rows, or in rows and plain maps.

use std::rc::Rc;
use std::sync::Arc;

use liger_engine::host::Host;
use liger_engine::log::HostLog;
use liger_engine::method::{Both, Method};
use liger_engine::recovery::directory::Directory;
use liger_engine::row::policy::{Coherence, Policies, WaitPolicy};
use liger_engine::row::{Budget, Checked, KeepLimits, Options, Rows, Takeover};
use liger_engine::{Catalog, TxnError};
use liger_fabric::disk::{Disk, SimDisks};
use liger_fabric::sim::{Outcome, Sim, SimConfig, Simulation};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::membership::{self, Joining, Member};
use liger_pod::plan::{Plan, PodConfig};
use liger_pod::superblock::{self, FormatOver};

use crate::plain::Plain;
use crate::recorder::Recorder;

/// What the tables of a simulated pod are kept in.
pub trait Kept: Method + Sized {
    /// A host, which has just become a member.
    ///
    /// # Errors
    /// If there is no room for its tables.
    fn host(
        cx: &Cx<Sim>,
        plan: &Plan,
        catalog: Arc<Catalog>,
        member: Member,
        options: Options,
    ) -> Result<Host<Self>, TxnError>;

    /// The rows among it.
    fn rows(&self) -> &Rows;
}

impl Kept for Rows {
    fn host(
        cx: &Cx<Sim>,
        plan: &Plan,
        catalog: Arc<Catalog>,
        member: Member,
        options: Options,
    ) -> Result<Host<Self>, TxnError> {
        Host::new(cx, plan, catalog, member, options)
    }

    fn rows(&self) -> &Rows {
        self
    }
}

impl Kept for Both<Rows, Plain> {
    fn host(
        cx: &Cx<Sim>,
        plan: &Plan,
        catalog: Arc<Catalog>,
        member: Member,
        options: Options,
    ) -> Result<Host<Self>, TxnError> {
        let both = |rows: Rows| {
            let plain = Plain::new(cx, rows.instance().clone());
            Both(rows, plain)
        };
        Host::with(cx, plan, catalog, member, options, both)
    }

    fn rows(&self) -> &Rows {
        &self.0
    }
}

/// A simulated pod.
pub struct SimPod<M = Rows> {
    /// The simulation underneath.
    pub sim: Simulation,
    /// Map of the shared memory.
    pub plan: Plan,
    /// The engines, by host.
    pub hosts: Vec<Rc<Host<M>>>,
    /// What they commit.
    pub recorder: Option<Arc<Recorder>>,
}

/// How to build a [`SimPod`].
#[derive(Clone)]
pub struct PodSetup {
    /// Layout of the pod.
    pub config: PodConfig,
    /// Its tables.
    pub catalog: Arc<Catalog>,
    /// Memory that shared rows may use; `None`: all there is.
    pub budget: Option<Budget>,
    /// Record committed transactions.
    pub record: bool,
    /// Entries of each host's cache of other hosts' rows.
    pub remote_entries: usize,
    /// Bits of the hashes by which that cache tells rows apart.
    pub remote_hash_bits: u32,
    /// Index nodes of other hosts that each host keeps in DRAM.
    pub node_entries: usize,
    /// What hosts need to take over from one another, if they may.
    pub takeover: Option<Takeover>,
    /// How long transactions wait for rows that others hold; `None`: not at all.
    pub wait: Option<&'static (dyn WaitPolicy + Sync)>,
    /// How much is kept for readers of snapshots; `None`: as usual.
    pub keep: Option<KeepLimits>,
    /// What else hosts decide by: by host, from the first again where there are more hosts.
    pub policies: Vec<Policies>,
}

impl PodSetup {
    /// A pod with small caches, without a record of transactions, budget or takeover.
    pub fn new(config: PodConfig, catalog: Arc<Catalog>) -> Self {
        Self {
            config,
            catalog,
            budget: None,
            record: false,
            remote_entries: 64,
            remote_hash_bits: 64,
            node_entries: 64,
            takeover: None,
            wait: None,
            keep: None,
            policies: vec![Policies::default()],
        }
    }

    /// What the engine of one host is to be told.
    pub fn options(&self, plan: &Plan, host: HostId, recorder: Option<Arc<Recorder>>) -> Options {
        let mut options = Options::new(plan);
        options.budget = self.budget.unwrap_or(options.budget);
        options.remote_entries = self.remote_entries;
        options.remote_hash_bits = self.remote_hash_bits;
        options.node_entries = self.node_entries;
        options.history = recorder.map(|r| r as Arc<dyn liger_engine::history::HistorySink>);
        options.takeover = self.takeover.clone();
        options.policies = self.policies[usize::from(host.0) % self.policies.len()];
        options.wait = self.wait.unwrap_or(options.wait);
        options.keep = self.keep.unwrap_or(options.keep);
        options
    }
}

impl<M: Kept> SimPod<M> {
    /// Builds the pod and starts the engines of all hosts, one after the other, without an adversary.
    /// `configure` gets the simulation's configuration for the plan's size.
    pub fn new(setup: &PodSetup, configure: impl FnOnce(&Plan) -> SimConfig) -> Result<Self, TxnError> {
        Self::build(setup, |plan| Simulation::new(configure(plan)), |_, _, _| None)
    }

    /// As [`Self::new`], with the disks of an earlier pod. `log` makes the log of the caller's host in its
    /// life of that number, if the pod is to keep one.
    pub fn with_disks(
        setup: &PodSetup,
        disks: SimDisks,
        log: impl Fn(&Cx<Sim>, &Plan, u16) -> Option<HostLog> + 'static,
        configure: impl FnOnce(&Plan) -> SimConfig,
    ) -> Result<Self, TxnError> {
        Self::build(setup, |plan| Simulation::with_disks(configure(plan), disks), log)
    }

    fn build(
        setup: &PodSetup,
        simulation: impl FnOnce(&Plan) -> Simulation,
        log: impl Fn(&Cx<Sim>, &Plan, u16) -> Option<HostLog> + 'static,
    ) -> Result<Self, TxnError> {
        let plan = Plan::new(&setup.config).expect("the caller's configuration is valid");
        let (mut sim, log) = (simulation(&plan), Rc::new(log));
        let recorder = setup.record.then(|| Arc::new(Recorder::default()));
        let mut hosts = Vec::new();
        for host in 0..setup.config.hosts {
            let (plan, setup, recorder) = (plan.clone(), setup.clone(), recorder.clone());
            let (log, config) = (Rc::clone(&log), setup.config.clone());
            let engine = join_first(&mut sim, HostId(host), config, move |cx, joining| {
                let mut options = setup.options(&plan, HostId(host), recorder);
                options.log = log(cx, &plan, joining.incarnation());
                let member = joining.finish(cx).expect("nobody else is there");
                M::host(cx, &plan, setup.catalog, member, options)
            })?;
            hosts.push(Rc::new(engine));
        }
        Ok(Self { sim, plan, hosts, recorder })
    }

    /// Runs `body` on worker 0 of every host in turn, alone.
    ///
    /// # Panics
    /// If `body` fails (see [`Simulation::alone`]).
    pub fn on_every_host<R: 'static>(&mut self, body: impl Fn(&Cx<Sim>, &Host<M>) -> R + 'static) -> Vec<R> {
        self.try_on_every_host(body).unwrap_or_else(|failure| panic!("a lone worker failed: {failure}"))
    }

    /// As [`Self::on_every_host`]; the first failure ends it.
    fn try_on_every_host<R: 'static>(
        &mut self,
        body: impl Fn(&Cx<Sim>, &Host<M>) -> R + 'static,
    ) -> Result<Vec<R>, Box<Outcome>> {
        let body = Rc::new(body);
        let hosts = self.hosts.clone();
        let run = |host: Rc<Host<M>>| {
            let body = Rc::clone(&body);
            self.sim.try_alone(host.id(), WorkerId(0), move |cx| body(cx, &host))
        };
        hosts.into_iter().map(run).collect()
    }

    /// Lets reclamation catch up and checks every host (see `Host::check`). Returns what is wrong.
    pub fn check(&mut self) -> Vec<String> {
        self.try_check().unwrap_or_else(|failure| vec![format!("while checking: {failure}")])
    }

    fn try_check(&mut self) -> Result<Vec<String>, Box<Outcome>> {
        // Each round moves the epoch by one at most; a retired node needs a few, and its batch a round per
        // host.
        for _ in 0..8 + 2 * self.hosts.len() {
            self.try_on_every_host(|cx, host| host.quiesce(cx))?;
        }
        let all: Vec<Checked> = self.try_on_every_host(|cx, host| host.check(cx))?;
        let trusting = all.iter().map(|checked| checked.trusting_hosts).max();
        let alone =
            |host: &Rc<Host<M>>| host.method().rows().policies().coherence == Coherence::NoSharedReader;
        let shared = self.hosts.iter().all(alone) && trusting > Some(1);
        let shared = shared.then(|| "several hosts trust their copies of one row".to_owned());
        // The first time for what they give back to one another.
        self.try_on_every_host(|cx, host| host.method().rows().used(cx))?;
        let of_hosts = self.try_on_every_host(|cx, host| host.method().rows().used(cx))?;
        let used = of_hosts.iter().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let accounts = self.try_on_every_host(|cx, host| host.usage(cx))?.pop();
        // Row engines have no tuple words beside cells.
        let said = accounts.map(|usage| (usage.bytes().wrapping_sub(usage.tuple_bytes), usage.rows));
        let off = said.filter(|&said| said != used);
        let off = off.map(|said| format!("{used:?} bytes and rows are in use, accounts say {said:?}"));
        let named = |(host, checked): (usize, Checked)| {
            checked.problems.into_iter().map(move |problem| format!("host {host}: {problem}"))
        };
        Ok(all.into_iter().enumerate().flat_map(named).chain(shared).chain(off).collect())
    }
}

/// Lets a host join a pod that nobody uses yet; host 0, the first, formats it. `start` makes its engine.
pub(crate) fn join_first<R: 'static>(
    sim: &mut Simulation,
    host: HostId,
    config: PodConfig,
    start: impl FnOnce(&Cx<Sim>, Joining) -> R + 'static,
) -> R {
    sim.alone(host, WorkerId(0), move |cx| {
        let bytes = Plan::new(&config).expect("the caller's configuration is valid").len();
        if host.0 == 0 {
            superblock::format(cx, &config, bytes, FormatOver::Zeros).expect("zeroed memory");
        }
        let plan = superblock::open_as(cx, bytes, &config).expect("formatted just now");
        start(cx, membership::join(cx, &plan, cx.process()).expect("nobody else is there"))
    })
}

/// The directories of so many hosts, held by the caller.
///
/// # Panics
/// If somebody else holds one.
pub fn directories(cx: &Cx<Sim>, hosts: u8) -> Vec<Directory> {
    (0..hosts).map(|host| directory(cx, HostId(host))).collect()
}

/// The directory of one host, held by the caller.
///
/// # Panics
/// If somebody else holds it.
pub fn directory(cx: &Cx<Sim>, host: HostId) -> Directory {
    Directory::new(host, Disk::simulated(cx, host).expect("nobody holds it"))
}
