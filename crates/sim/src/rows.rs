//! Random transactions on the row engine of a simulated pod, their history checked.
//!
//! A run is a function of its [`RowsRun`] alone. Everything that the engine can do happens: reads,
//! updates, inserts, deletes, ranges, secondary indexes, aborts, rows of any host, moves in and out under a
//! tiny budget. At the end the history must be serializable in commit order, every invariant must hold, and
//! nothing may leak.

mod detached;
mod shape;

use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::host::{Host, HostSession, Txn};
use liger_engine::method::{Both, Method};
use liger_engine::protocol::HostEngine;
use liger_engine::row::policy::{Coherence, Policies, WaitDie, WaitPolicy};
use liger_engine::row::{Budget, KeepLimits, Rows};
use liger_engine::{
    Announced, IndexId, Key, KeyRange, NewRow, Row, RowMut, Session, TableId, Transaction, TxnError, table,
};
use liger_fabric::sim::{Adversary, Mode, Report, Sim, SimConfig, Site};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::plan::{Plan, PodConfig, SUPERBLOCK_BYTES};

use crate::history::{History, Key as HistoryKey};
use crate::plain::Plain;
use crate::pod::{Kept, PodSetup, SimPod};
use crate::serializability;
pub use shape::{Mix, PlainTables};

table! {
    /// Rows that transactions fight for.
    pub mod items: "items" {
        PART: SmallInt,
        ID: Int,
        GROUP: SmallInt,
        VALUE: BigInt,
        PAD: Text<40>,
    }
    primary key (PART, ID);
    partition by (PART);
    index "items_by_group" (PART, GROUP);
}

pub(crate) const ITEMS: TableId = TableId(0);
pub(crate) const BY_GROUP: IndexId = IndexId(TableId(1));
/// Groups of the secondary index.
pub(crate) const GROUPS: i16 = 3;
/// Index nodes of other hosts that each host keeps: few, so that it drops some.
const NODE_ENTRIES: usize = 64;

/// What to run.
#[derive(Clone, Debug)]
pub struct RowsRun {
    /// Decides everything.
    pub seed: u64,
    /// Hosts of the pod.
    pub hosts: u8,
    /// Workers of each host.
    pub workers: u8,
    /// Keys of each partition; there is one partition a host and one more.
    pub keys: i32,
    /// Transactions of each worker; of each session, if there are some.
    pub transactions: u32,
    /// Sessions of each host, whose transactions are lent workers an operation at a time, and how many of
    /// these rest with a number of their own. Worker 0 answers other hosts then. `None`: each worker has its
    /// own transactions.
    pub sessions: Option<(u8, u8)>,
    /// Most operations of a transaction.
    pub operations: u64,
    /// Shared rows that the budget admits, roughly; the fewer, the more move.
    pub budget_rows: u64,
    /// What transactions do.
    pub mix: Mix,
    /// Everybody works on host 0's first partition; what host 0 itself does there. `None`: all on all
    /// partitions.
    pub duel: Option<Mix>,
    /// Most turns that a worker leaves to others between two operations of a transaction.
    pub think: u64,
    /// Slots of a message lane; the fewer, the more messages wait.
    pub lane_slots: u32,
    /// Index nodes that a host may have waiting for the others' invalidation.
    pub retire_entries: u32,
    /// Entries of each host's cache of other hosts' rows.
    pub remote_entries: usize,
    /// Bits of the hashes by which that cache tells rows apart.
    pub remote_hash_bits: u32,
    /// Chunks of data memory beyond one for each host: with few of them there is no room for another size of
    /// record until a chunk is empty. `None`: plenty.
    pub spare_chunks: Option<u64>,
    /// Bytes of each worker's ring: transactions whose record takes half of it have several.
    pub ring_bytes: u64,
    /// How long transactions wait for rows that others hold; `None`: not at all.
    pub wait: Option<&'static (dyn WaitPolicy + Sync)>,
    /// How much is kept for readers of snapshots; `None`: as usual.
    pub keep: Option<KeepLimits>,
    /// What else hosts decide by: by host, from the first again where there are more hosts.
    pub policies: Vec<Policies>,
    /// Steps after which a run counts as stuck.
    pub max_verbs: u64,
    /// A call site of write_back, invalidate or fence to leave out.
    pub disabled_site: Option<Site>,
    /// A named protocol step to leave out.
    pub sabotage: Option<&'static str>,
    /// What is kept in plain maps.
    pub plain: PlainTables,
}

impl RowsRun {
    /// A mixed bag: the shape of the run follows from the seed too.
    pub fn from_seed(seed: u64) -> Self {
        let mut pick = crate::Picker::new(seed);
        let hosts = 2 + pick.below(3) as u8;
        Self {
            seed,
            hosts,
            workers: 1 + pick.below(2) as u8,
            keys: 3 + pick.below(12) as i32,
            transactions: 6 + pick.below(30) as u32,
            sessions: None,
            operations: 1 + pick.below(6),
            budget_rows: 2 + pick.below(40),
            mix: Mix::ALL,
            duel: None,
            think: 0,
            lane_slots: 16,
            retire_entries: 16,
            remote_entries: 64,
            remote_hash_bits: 64,
            spare_chunks: None,
            ring_bytes: 4 << 10,
            wait: None,
            keep: None,
            policies: vec![Policies::default()],
            max_verbs: 20_000_000,
            disabled_site: None,
            sabotage: None,
            plain: PlainTables::None,
        }
    }

    /// Transactions that are too long for one record of the log, of which a ring holds two.
    #[must_use]
    pub fn with_fragments(self) -> Self {
        let mut pick = crate::Picker::new(self.seed ^ 0x6672_6167);
        let (operations, keys) = (8 << pick.below(4), 12 + pick.below(40) as i32);
        let mix = [Mix { scan_rest: 0, ..Mix::ALL }, Mix { update: 6, insert: 6, delete: 3, ..Mix::NONE }];
        let (mix, wait): (_, &(dyn WaitPolicy + Sync)) = (mix[pick.below(2) as usize], &WaitDie::USUAL);
        Self { ring_bytes: 1 << 10, operations, keys, mix, wait: Some(wait), ..self }
    }

    /// What the policies promise of a history.
    pub(crate) fn promised(&self, history: History) -> History {
        let all = self.policies.iter().all(|policies| policies.next_key_locking);
        if all { history } else { history.without_gaps() }
    }

    pub(crate) fn partitions(&self) -> u16 {
        u16::from(self.hosts) + 1
    }

    /// All partitions, whoever works where.
    pub(crate) fn everywhere(&self) -> Ground {
        Ground { parts: self.partitions().into(), keys: self.keys }
    }

    fn ground(&self) -> Ground {
        let parts = if self.duel.is_some() { 1 } else { u64::from(self.partitions()) };
        Ground { parts, keys: self.keys }
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct RowsResult {
    /// The simulator's report.
    pub report: Report,
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that met a conflict.
    pub conflicts: u64,
    /// Rows moved in and out.
    pub moves: (u64, u64),
    /// What they saw and did.
    pub history: History,
    /// Everything that is wrong; empty if all is well.
    pub problems: Vec<String>,
}

/// Runs it.
pub fn run(run: &RowsRun) -> RowsResult {
    match run.plain {
        PlainTables::None => run_on::<Rows>(run),
        _ => run_on::<Both<Rows, Plain>>(run),
    }
}

fn run_on<M: Kept>(run: &RowsRun) -> RowsResult {
    let built = SimPod::<M>::new(&setup(run, run.workers), |plan| config(run, plan));
    let mut pod = built.expect("an empty pod has room");
    load(&mut pod, run);
    let tally = start_workers(&mut pod, run);
    let report = pod.sim.run();
    let mut problems = Vec::new();
    if report.completed() {
        problems.extend(pod.check());
    } else {
        problems.push(format!("{}", report.outcome));
    }
    let initial = run.everywhere().initial_keys();
    let history = run.promised(pod.recorder.as_ref().expect("recording is on").history(initial));
    let verdict = serializability::check(&history);
    problems.extend(verdict.anomalies.iter().map(|anomaly| format!("{anomaly}")));
    let moves =
        pod.hosts.iter().map(|host| host.method().rows().moves()).fold((0, 0), |(ins, outs), moves| {
            let read =
                |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
            (ins + read(&moves.moved_in), outs + read(&moves.moved_out))
        });
    let committed = history.transactions.len() as u64;
    RowsResult { report, committed, conflicts: tally.conflicts.get(), moves, history, problems }
}

/// The pod of a run, with so many workers a host.
pub(crate) fn setup(run: &RowsRun, workers: u8) -> PodSetup {
    let catalog = Arc::new(run.plain.catalog());
    let mut config = PodConfig::small(run.hosts, workers);
    config.partitions = run.partitions();
    config.max_tables = 4;
    config.log_ring_bytes = run.ring_bytes;
    config.lane_slots = run.lane_slots;
    config.retire_entries = run.retire_entries;
    if let Some(spare) = run.spare_chunks {
        let chunk = u64::from(config.block_chunk_bytes);
        let mut sizes = (0..).map(|chunks| chunks * chunk);
        let fits = |bytes: &u64| Plan::new(&PodConfig { cxl_bytes: *bytes, ..config.clone() }).is_ok();
        config.cxl_bytes = sizes.find(fits).expect("some size will do");
        config.cxl_bytes += spare * chunk;
    }
    let budget = Budget { hwcc_bytes: 1 << 20, cxl_bytes: 128 * run.budget_rows + 4096 };
    let (remote_entries, node_entries) = (run.remote_entries, NODE_ENTRIES);
    PodSetup {
        budget: Some(budget),
        record: true,
        remote_entries,
        remote_hash_bits: run.remote_hash_bits,
        node_entries,
        wait: run.wait,
        keep: run.keep,
        policies: run.policies.clone(),
        ..PodSetup::new(config, catalog)
    }
}

/// Its simulation.
pub(crate) fn config(run: &RowsRun, plan: &Plan) -> SimConfig {
    let coherent_data = run.policies.iter().any(|policies| policies.coherence == Coherence::AllHwcc);
    SimConfig {
        sync: Some(SUPERBLOCK_BYTES..plan.sync_end()),
        mode: Mode::Adversarial(Adversary { coherent_data, ..Adversary::swarm(run.seed) }),
        max_verbs: run.max_verbs,
        disabled_site: run.disabled_site.clone(),
        sabotage: run.sabotage,
        ..SimConfig::adversarial(usize::from(run.hosts), plan.len() as usize, run.seed)
    }
}

pub(crate) fn new_row(part: i16, id: i32, value: i64) -> NewRow {
    let mut row = NewRow::new(items::ROW_LEN);
    row.set(items::PART, part).set(items::ID, id).set(items::GROUP, (id % i32::from(GROUPS)) as i16);
    row.set(items::VALUE, value).set(items::PAD, &pad(value));
    row
}

/// What a row with this value ends with, which is in another line than the value: whoever sees parts of two
/// versions notices.
fn pad(value: i64) -> String {
    format!("{value:>40}")
}

/// Changes the value of a row.
pub(crate) fn set_value(row: &mut RowMut<'_>, value: i64) {
    row.set(items::VALUE, value);
    row.set(items::PAD, &pad(value));
}

/// The value of a row, which is one version of it.
pub(crate) fn value_of(row: Row<'_>) -> i64 {
    let value = row.get(items::VALUE);
    assert_eq!(row.get(items::PAD), pad(value), "a row is shown whole");
    value
}

pub(crate) fn item_key(part: i16, id: i32) -> Key {
    Key::build().i16(part).i32(id).finish()
}

/// Fills every host.
pub(crate) fn load<M: Kept>(pod: &mut SimPod<M>, run: &RowsRun) {
    let everywhere = run.everywhere();
    pod.on_every_host(move |cx, host| everywhere.fill(cx, host));
}

/// A row's key, and that of its index entry.
pub(crate) fn keys_of(part: i16, id: i32) -> [HistoryKey; 2] {
    let layout = items::schema().layout().expect("a valid schema");
    let row = new_row(part, id, 0);
    let entry = layout.indexes[0].key.key_of(row.bytes());
    let keys = [(ITEMS, item_key(part, id)), (BY_GROUP.0, entry)];
    keys.map(|(table, key)| HistoryKey::new(table.0, key.words()))
}

#[derive(Default)]
struct Tally {
    running: Cell<u32>,
    conflicts: Cell<u64>,
}

fn start_workers<M: Kept>(pod: &mut SimPod<M>, run: &RowsRun) -> Rc<Tally> {
    let tally = Rc::new(Tally::default());
    if let Some(sessions) = run.sessions {
        detached::start(pod, run, sessions, &tally);
        return tally;
    }
    tally.running.set(u32::from(run.hosts) * u32::from(run.workers));
    for host in 0..run.hosts {
        for worker in 0..run.workers {
            let (engine, tally, run) =
                (Rc::clone(&pod.hosts[usize::from(host)]), Rc::clone(&tally), run.clone());
            pod.sim.spawn(HostId(host), WorkerId(worker), move |cx| work(cx, &engine, &run, &tally));
        }
    }
    tally
}

fn work<M: Method>(cx: &Cx<Sim>, host: &Host<M>, run: &RowsRun, tally: &Tally) {
    let mut session = HostSession::new(cx, host);
    let mix = run.duel.filter(|_| cx.host().0 == 0).unwrap_or(run.mix);
    for _ in 0..run.transactions {
        let first = cx.random();
        let ended = session.attempt(|txn| transaction(cx, txn, run, &mix, first));
        match ended {
            Ok(()) | Err(TxnError::Rollback) => {}
            Err(TxnError::Conflict(_)) => {
                tally.conflicts.set(tally.conflicts.get() + 1);
                session.back_off(1);
            }
            Err(TxnError::OutOfMemory { .. }) => {}
            Err(other) => panic!("a transaction failed: {other}"),
        }
    }
    tally.running.set(tally.running.get() - 1);
    tally.attend(cx, &mut session);
}

impl Tally {
    /// Others may still need this host's rows.
    fn attend<M: Method>(&self, cx: &Cx<Sim>, session: &mut HostSession<'_, Sim, M>) {
        while self.running.get() > 0 {
            session.serve();
            cx.pause();
        }
        session.serve();
    }
}

/// The transaction that a number stands for; all values that it writes are that number.
pub(crate) fn transaction<M: Method>(
    cx: &Cx<Sim>,
    txn: &mut Txn<'_, Sim, M>,
    run: &RowsRun,
    mix: &Mix,
    number: u64,
) -> Result<(), TxnError> {
    let mut pick = crate::Picker::new(number);
    for _ in 0..=pick.below(run.operations) {
        operation(txn, run, mix, &mut pick, number as i64)?;
        let turns = if run.think == 0 { 0 } else { pick.below(run.think + 1) };
        (0..turns).for_each(|_| cx.pause());
    }
    if pick.below(8) == 0 { Err(TxnError::Rollback) } else { Ok(()) }
}

fn operation<M: Method>(
    txn: &mut Txn<'_, Sim, M>,
    run: &RowsRun,
    mix: &Mix,
    pick: &mut crate::Picker,
    value: i64,
) -> Result<(), TxnError> {
    let aim = run.ground().aim(pick);
    match mix.choose(pick) {
        TAKE => take(txn, aim.part, &aim.range, pick.below(4) as usize, value),
        choice => operate(txn, &aim, choice, value),
    }
}

/// Where transactions work.
#[derive(Clone, Copy)]
pub(crate) struct Ground {
    /// Partitions.
    pub parts: u64,
    /// Keys of each.
    pub keys: i32,
}

/// What an operation is about.
pub(crate) struct Aim {
    part: i16,
    id: i32,
    range: KeyRange,
    /// Rows of a range that it visits at most.
    visits: u64,
    /// What it says before that it will touch; some of that it does not.
    announced: Vec<Announced>,
}

impl Ground {
    /// The rows that exist at the start: every other key.
    pub(crate) fn initial(self) -> impl Iterator<Item = (i16, i32)> {
        (0..self.parts as i16).flat_map(move |part| (0..self.keys).step_by(2).map(move |id| (part, id)))
    }

    /// Their keys, and those of their index entries, with their version.
    pub(crate) fn initial_keys(self) -> Vec<(HistoryKey, u64)> {
        self.initial().flat_map(|(part, id)| keys_of(part, id).map(|key| (key, 0))).collect()
    }

    /// Puts those of a host's partitions into it.
    pub(crate) fn fill<E: HostEngine>(self, cx: &Cx<Sim>, host: &E) {
        self.try_fill(cx, host).expect("loading a small table");
    }

    /// The same where there may be no room for them.
    pub(crate) fn try_fill<E: HostEngine>(self, cx: &Cx<Sim>, host: &E) -> Result<(), TxnError> {
        let mut rows = self.initial();
        host.load(cx, |put| rows.try_for_each(|(part, id)| put(ITEMS, &new_row(part, id, 100))))
    }

    /// Somewhere.
    pub(crate) fn aim(self, pick: &mut crate::Picker) -> Aim {
        let part = if self.parts == 1 { 0 } else { pick.below(self.parts) as i16 };
        let id = pick.below(self.keys as u64) as i32;
        let span = 1 + pick.below(4) as i32;
        let range = KeyRange::between(item_key(part, id), item_key(part, id + span));
        let visits = pick.below(6);
        let announced = if pick.chance(20) { self.announced(pick, part, id) } else { Vec::new() };
        Aim { part, id, range, visits, announced }
    }

    /// Some rows, most of them near that one.
    fn announced(self, pick: &mut crate::Picker, part: i16, id: i32) -> Vec<Announced> {
        let row = |n| {
            let part = if pick.chance(80) { part } else { pick.below(self.parts) as i16 };
            let key = item_key(part, (id + n) % self.keys);
            match pick.below(4) {
                0 => Announced::read(ITEMS, key),
                1 => Announced::update(ITEMS, key),
                _ => Announced::insert(ITEMS, key),
            }
        };
        (0..4).map(row).collect()
    }
}

/// The choice that only the row engine has.
const TAKE: usize = 8;

/// One operation on any engine, by its number in the [`Mix`].
pub(crate) fn operate<T: Transaction>(
    txn: &mut T,
    aim: &Aim,
    choice: usize,
    value: i64,
) -> Result<(), TxnError> {
    let Aim { part, id, range, mut visits, ref announced } = *aim;
    let key = item_key(part, id);
    if !announced.is_empty() {
        txn.announce(announced);
    }
    let mut go_on = || {
        visits = visits.saturating_sub(1);
        if visits == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    match choice {
        0 => drop(txn.get(ITEMS, &key, value_of)?),
        1 => drop(txn.update(ITEMS, &key, |row| set_value(row, value))?),
        // Some are inserted with another value, and changed in the same transaction.
        2 => match txn.insert(ITEMS, &new_row(part, id, if value & 1 == 0 { value } else { !value })) {
            Ok(()) => drop(txn.update(ITEMS, &key, |row| set_value(row, value))?),
            Err(TxnError::DuplicateKey { .. }) => {}
            Err(error) => return Err(error),
        },
        3 => drop(txn.delete(ITEMS, &key)?),
        4 => txn.scan(ITEMS, &range, |_, row| {
            value_of(row);
            go_on()
        })?,
        5 => txn.update_range(ITEMS, &range, |_, row| {
            set_value(row, value);
            go_on()
        })?,
        6 => {
            let group = (id % i32::from(GROUPS)) as i16;
            let width = 1;
            let range = KeyRange::prefix(Key::build().i16(part).i16(group), width);
            txn.scan_index(BY_GROUP, &range, |row| {
                assert_eq!(row.get(items::GROUP), group, "an index entry leads to a row of its group");
                value_of(row);
                go_on()
            })?;
        }
        7 => {
            let open = KeyRange { low: key, high: None };
            let bounded = KeyRange::prefix(Key::build().i16(part), 1);
            let range = KeyRange { low: open.low, high: bounded.high };
            txn.scan(ITEMS, &range, |_, row| {
                value_of(row);
                ControlFlow::Continue(())
            })?;
        }
        9 => {
            let mut shown = Vec::new();
            txn.scan(ITEMS, &range, |key, _| {
                shown.push(*key);
                go_on()
            })?;
            for key in shown {
                if !txn.delete(ITEMS, &key)? {
                    let what = "table: a row that was shown is missing";
                    return Err(TxnError::Damaged { table: ITEMS, what, found: key.words()[0] });
                }
            }
        }
        other => unreachable!("operation {other}"),
    }
    Ok(())
}

/// Looks at rows that nobody holds, and changes those of them that are free; what is shown is a whole row.
fn take<M: Method>(
    txn: &mut Txn<'_, Sim, M>,
    part: i16,
    range: &KeyRange,
    most: usize,
    value: i64,
) -> Result<(), TxnError> {
    let mut free = Vec::new();
    txn.peek_range(ITEMS, range, &mut |key, bytes| {
        let row = Row::new(bytes);
        let (id, written) = (row.get(items::ID), row.get(items::VALUE));
        assert!(
            item_key(part, id) == *key && new_row(part, id, written).bytes() == bytes,
            "a row is shown whole"
        );
        free.push(*key);
        if free.len() <= most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    for key in &free {
        txn.take_if_free(ITEMS, key, &mut |row| set_value(row, value))?;
    }
    Ok(())
}

/// A row as somebody found it.
pub(crate) struct Found {
    pub key: Key,
    pub value: i64,
    /// Its other columns are what all rows with this key have.
    pub whole: bool,
}

/// Reads this host's rows in transactions, so that their versions are compared.
pub(crate) fn look_at_everything<M: Method>(
    cx: &Cx<Sim>,
    host: &Host<M>,
    mut show: impl FnMut(Found),
) -> Result<(), TxnError> {
    let mut session = HostSession::new(cx, host);
    for part in host.own_partitions().map(|part| part.0 as i16).collect::<Vec<_>>() {
        session.attempt(|txn| {
            let all = KeyRange::prefix(Key::build().i16(part), 1);
            txn.scan(ITEMS, &all, |key, row| {
                let (id, value) = (row.get(items::ID), row.get(items::VALUE));
                let whole = row.bytes() == new_row(part, id, value).bytes();
                show(Found { key: *key, value, whole });
                ControlFlow::Continue(())
            })?;
            (0..GROUPS).try_for_each(|group| {
                let all = KeyRange::prefix(Key::build().i16(part).i16(group), 1);
                txn.scan_index(BY_GROUP, &all, |_| ControlFlow::Continue(()))
            })
        })?;
    }
    Ok(())
}
