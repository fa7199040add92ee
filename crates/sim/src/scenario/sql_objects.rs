//! SQL tables that several hosts create, fill, index, alter, empty and drop at the same time.
//!
//! Every transaction begins with the catalog, as all of SQL does, uses or changes one of a few tables, and
//! does one thing to it: so a host that goes by an old catalog, or does not keep others from changing what
//! it uses, puts rows where nobody looks, or leaves entries out. At the end all rows, entries, edges and
//! values outside must fit together, and the history must be serializable, the catalog's rows included.
//! Beside that hosts signal each other, and every signal arrives once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::Catalog as EngineCatalog;
use liger_engine::row::{Budget, RowHost, RowSession};
use liger_fabric::sim::{Adversary, Mode, Sim, SimConfig};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::plan::{Plan, PodConfig, SUPERBLOCK_BYTES};
use liger_sql::catalog::change::{NewIndex, NewTable, Working};
use liger_sql::catalog::definition::Held;
use liger_sql::catalog::object::{Column, IndexColumn, Object, PUBLIC};
use liger_sql::catalog::{Catalog, HostCatalog, check};
use liger_sql::storage::access::{Access, attempt, is_conflict};
use liger_sql::storage::bulk::at_once;
use liger_sql::storage::classes::{ClassSize, Classes};
use liger_sql::storage::scan::Range;
use liger_sql::storage::signals::{self, Kind, Signal};
use liger_sql::storage::table::{PlainColumns, RowChange};
use liger_sql::storage::{garbage, parts};
use liger_sql::types::{Oid, Type, oid};
use liger_sql::{Result, SqlError, SqlState, Value};

use super::{LeftOut, Ran, Scenario};
use crate::Picker;
use crate::pod::{PodSetup, SimPod};
use crate::serializability;

/// Tables that come and go.
pub const SCENARIOS: &[Scenario] = &[Scenario { name: "sql-objects", run: objects }];

/// Verbs after which a run counts as stuck: some ten times what the longest needs.
const MAX_VERBS: u64 = 8_000_000;
/// Names of tables.
const NAMES: [&str; 2] = ["a", "b"];
/// Rows of a table have ids below this.
const IDS: u64 = 5;
/// Tries of a transaction that meets conflicts.
const TRIES: u32 = 12;

/// What the workers have in common, outside of the pod.
#[derive(Default)]
struct Shared {
    running: Cell<u32>,
    checked: Cell<bool>,
    /// Hosts that have opened their catalogs: a new life forgets what was for the one before.
    opened: Cell<u8>,
    /// Hosts that have taken their last signals.
    received: Cell<u8>,
    problems: RefCell<Vec<String>>,
    /// Signals on their way: their numbers.
    sent: RefCell<BTreeSet<u64>>,
}

fn sizes() -> Vec<ClassSize> {
    let more = [(2, 64), (3, 16), (3, 1024)].map(|(words, body)| ClassSize { words, body });
    parts::SIZES.into_iter().chain(more).collect()
}

fn objects(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let mut pick = Picker::new(seed ^ 0x5351_4c00);
    let hosts = 2 + pick.below(2) as u8;
    let engine = Arc::new(EngineCatalog::new(&Classes::schemas_of(&sizes())).expect("the classes are right"));
    let mut pod_config = PodConfig::small(hosts, 1);
    (pod_config.partitions, pod_config.max_tables) = (u16::from(hosts), 16);
    let budget = Budget { hwcc_bytes: 1 << 20, cxl_bytes: 4096 + (pick.below(64) << 10) };
    let setup = PodSetup { budget: Some(budget), record: true, ..PodSetup::new(pod_config, engine) };
    let built = SimPod::new(&setup, |plan| config(plan, seed, hosts, left_out));
    let mut pod = built.expect("an empty pod has room");
    let shared = Rc::new(Shared::default());
    shared.running.set(u32::from(hosts));
    let transactions = 6 + pick.below(10) as u32;
    for host in 0..hosts {
        let (engine, shared) = (Rc::clone(&pod.hosts[usize::from(host)]), Rc::clone(&shared));
        pod.sim.spawn(HostId(host), WorkerId(0), move |cx| work(cx, &engine, transactions, &shared));
    }
    let report = pod.sim.run();
    Ran::new(report, || {
        let mut problems = shared.problems.take();
        problems.extend(shared.sent.take().iter().map(|number| format!("signal {number} did not arrive")));
        problems.extend(pod.check());
        let history = pod.recorder.as_ref().expect("recording is on").history(Vec::new());
        problems.extend(serializability::check(&history).anomalies.iter().map(|a| a.to_string()));
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
    })
}

fn config(plan: &Plan, seed: u64, hosts: u8, left_out: Option<&LeftOut>) -> SimConfig {
    let mut config = SimConfig {
        sync: Some(SUPERBLOCK_BYTES..plan.sync_end()),
        mode: Mode::Adversarial(Adversary::swarm(seed)),
        max_verbs: MAX_VERBS,
        ..SimConfig::adversarial(usize::from(hosts), plan.len() as usize, seed)
    };
    LeftOut::apply(left_out, &mut config);
    config
}

fn work(cx: &Cx<Sim>, host: &RowHost, transactions: u32, shared: &Shared) {
    let mut session = RowSession::new(cx, host);
    let catalog = HostCatalog::new(Classes::of(host.catalog())).expect("the pod has the classes");
    let life = again(&mut session, u32::MAX, |tx| catalog.open(tx, None)).expect("no limit to the tries");
    catalog.opened(life);
    shared.opened.set(shared.opened.get() + 1);
    for _ in 0..transactions {
        let number = cx.random();
        if u16::from(shared.opened.get()) == host.partition_count() && Picker::new(number).chance(30) {
            signal(&mut session, &catalog, shared, (number % u64::from(host.partition_count())) as u8);
            receive(&mut session, &catalog, shared);
            continue;
        }
        let tried = Cell::new(false);
        again(&mut session, TRIES, |tx| {
            let mut pick = Picker::new(number);
            // Many go by the picture that the host has, as if they had begun before, until that is too old.
            let picture = match catalog.cached() {
                cached if cached.version() > 0 && pick.chance(60) && !tried.replace(true) => cached,
                _ => catalog.begin(tx)?,
            };
            let mut working = Working::new(picture);
            operation(tx, &mut working, &catalog, &mut pick)?;
            working.finish(tx)
        });
    }
    shared.running.set(shared.running.get() - 1);
    if cx.host().0 == 0 {
        while shared.running.get() > 0 {
            session.serve();
            cx.pause();
        }
        for place in 0..host.partition_count() {
            let sweep = |tx: &mut dyn Access| garbage::sweep(tx, catalog.cached().classes(), place, 16);
            while again(&mut session, u32::MAX, sweep) == Some(true) {}
        }
        let found = again(&mut session, u32::MAX, |tx| {
            let now = catalog.begin(tx)?;
            check::problems(tx, &now, &PlainColumns)
        });
        shared.problems.borrow_mut().extend(found.expect("no limit to the tries"));
        shared.checked.set(true);
    }
    // Others may still need this host's rows.
    while !shared.checked.get() {
        session.serve();
        cx.pause();
    }
    receive(&mut session, &catalog, shared);
    shared.received.set(shared.received.get() + 1);
    while u16::from(shared.received.get()) < host.partition_count() {
        session.serve();
        cx.pause();
    }
    session.serve();
}

/// Asks a host about a session.
fn signal(session: &mut RowSession<'_, Sim>, catalog: &HostCatalog, shared: &Shared, to: u8) {
    let number = catalog.numbers().take();
    let question = Kind::Question { from: session.cx().host().0, stop: None };
    let signal = Signal { process_id: to.into(), number, kind: question };
    // It may arrive before this worker hears that it has been sent.
    shared.sent.borrow_mut().insert(number);
    let put =
        again(session, TRIES, |tx| signals::put(tx, catalog.classes(), catalog.numbers(), (to, &signal)));
    if put != Some(true) {
        shared.sent.borrow_mut().remove(&number);
    }
}

/// Takes what other hosts ask of this one.
fn receive(session: &mut RowSession<'_, Sim>, catalog: &HostCatalog, shared: &Shared) {
    let own = i32::from(session.cx().host().0);
    while let Some((taken, is_all)) = again(session, u32::MAX, |tx| signals::take(tx, catalog.classes())) {
        for Signal { process_id, number, .. } in taken {
            if process_id != own || !shared.sent.borrow_mut().remove(&number) {
                let problem = format!("host {own} took signal {number} for {process_id}, again or of nobody");
                shared.problems.borrow_mut().push(problem);
            }
        }
        if is_all {
            return;
        }
    }
}

/// Runs a transaction until it meets no conflict, at most so often.
fn again<R>(
    session: &mut RowSession<'_, Sim>,
    tries: u32,
    mut body: impl FnMut(&mut dyn Access) -> Result<R>,
) -> Option<R> {
    for conflicts in 1..=tries {
        match attempt(session, |tx| body(tx)) {
            Ok(result) => return Some(result),
            Err(error) if is_conflict(&error) => liger_engine::Session::back_off(session, conflicts),
            Err(error) => panic!("a transaction failed: {error}"),
        }
    }
    None
}

fn named(catalog: &Catalog, name: &str) -> Option<Oid> {
    catalog.relation(PUBLIC, name).map(Object::oid)
}

/// The one thing that a transaction does.
fn operation(
    tx: &mut dyn Access,
    working: &mut Working,
    host: &HostCatalog,
    pick: &mut Picker,
) -> Result<()> {
    let name = NAMES[pick.below(NAMES.len() as u64) as usize];
    let Some(table) = named(working.catalog(), name) else { return create(tx, working, name) };
    let what = pick.below(16);
    if what > 3 && what != 5 {
        uses(tx, working, table)?;
    }
    match what {
        0 => {
            let indexes: Vec<Oid> = working.catalog().indexes_of(table).map(|index| index.oid).collect();
            indexes.into_iter().chain([table]).try_for_each(|oid| working.drop_object(tx, oid))
        }
        1 => working.truncate(tx, table),
        2 => index(tx, working, name, table),
        3 => {
            let mut changed = working.catalog().table(table).expect("named above").clone();
            changed.comment = Some(format!("a comment {}", pick.below(100)).repeat(8));
            working.replace(tx, Object::Table(changed))
        }
        4 => read_all(tx, working, table),
        5 => {
            let place = pick.below(tx.places().into()) as u16;
            garbage::sweep(tx, working.catalog().classes(), place, 4).map(drop)
        }
        _ => row(tx, working, host, table, pick),
    }
}

/// Uses a table, by a picture that is not older than it: otherwise this host looks again.
fn uses(tx: &mut dyn Access, working: &Working, table: Oid) -> Result<()> {
    match working.hold(tx, table)? {
        Held::Here => Ok(()),
        Held::Newer | Held::Busy => {
            let message = "the table is being changed, or has been";
            Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, message))
        }
    }
}

fn create(tx: &mut dyn Access, working: &mut Working, name: &str) -> Result<()> {
    let columns = [("id", Type::of(oid::INT4)), ("n", Type::of(oid::INT4)), ("note", Type::of(oid::TEXT))];
    let new = NewTable {
        name: name.to_owned(),
        schema: PUBLIC,
        columns: columns.iter().map(|(name, ty)| Column::new(name, *ty)).collect(),
        primary_key: Some((format!("{name}_pkey"), vec![0])),
        options: vec![("row_bytes".to_owned(), "48".to_owned())],
        ..NewTable::default()
    };
    working.create_table(tx, new).map(|_| ())
}

/// Makes the index of a table, or drops it.
fn index(tx: &mut dyn Access, working: &mut Working, name: &str, table: Oid) -> Result<()> {
    let name = format!("{name}_n");
    if let Some(there) = named(working.catalog(), &name) {
        return working.drop_object(tx, there);
    }
    let new = NewIndex { name, table, columns: vec![IndexColumn::of(1)], ..NewIndex::default() };
    let made = working.create_index(tx, new)?.oid;
    let rows = working.catalog().rows(table)?;
    rows.fill_index(&at_once(tx), made, &PlainColumns).map(drop)
}

/// All rows, by the key and by the index: they are the same.
fn read_all(tx: &mut dyn Access, working: &Working, table: Oid) -> Result<()> {
    let rows = working.catalog().rows(table)?;
    let mut by_key = Vec::new();
    let mut scan = rows.scan(tx, &Range::default())?;
    while let Some(row) = scan.next(tx, &rows)? {
        by_key.push(row.key);
    }
    let by_n = working.catalog().indexes_of(table).find(|index| !index.primary).map(|index| index.oid);
    if let Some(index) = by_n {
        let mut by_index = Vec::new();
        let mut scan = rows.scan(tx, &Range { index: Some(index), ..Range::default() })?;
        while let Some(row) = scan.next(tx, &rows)? {
            by_index.push(row.key);
        }
        by_index.sort_unstable();
        by_key.sort_unstable();
        assert_eq!(by_key, by_index, "an index leads to all rows and to no others");
    }
    Ok(())
}

/// Puts, changes or removes a row.
fn row(
    tx: &mut dyn Access,
    working: &Working,
    host: &HostCatalog,
    table: Oid,
    pick: &mut Picker,
) -> Result<()> {
    let rows = working.catalog().rows(table)?;
    let id = Value::Int4(pick.below(IDS) as i32);
    // Some do not fit their row.
    let note = if pick.chance(40) { "a long note".repeat(10) } else { "short".to_owned() };
    let values = [id.clone(), Value::Int4(pick.below(4) as i32), Value::text(note)];
    let key = rows.key_of(tx, &[&id])?;
    let Some(old) = rows.lock(tx, &key)? else {
        return rows.insert(tx, host.numbers(), &values, &PlainColumns).map(|_| ());
    };
    match pick.chance(25) {
        true => rows
            .delete(&at_once(tx), &[old], &PlainColumns)
            .map(|were| assert_eq!(were, [true], "it is locked")),
        false => {
            let change = RowChange::of(&old, &values, &[1, 2]);
            rows.update(tx, host.numbers(), &change, &PlainColumns).map(|_| ())
        }
    }
}
