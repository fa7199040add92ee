//! A pod in this process's memory whose hosts have SQL catalogs, for tests.

#![allow(dead_code, reason = "every test uses a part of it")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use liger_engine::Durability;
use liger_engine::db::{DataDirectory, Host, JoinOptions, Pod, PodConfig};
use liger_engine::row::policy::{NoWait, WaitPolicy};
use liger_fabric::HostId;
use liger_fabric::native::MemorySpec;
use liger_sql::catalog::HostCatalog;
use liger_sql::catalog::change::{NewTable, Working};
use liger_sql::catalog::object::{Column, PUBLIC, Table};
use liger_sql::slots::Slots;
use liger_sql::storage::access::{Access, transact};
use liger_sql::storage::classes::Classes;
use liger_sql::types::{Oid, Type, oid};
use liger_sql::{Result, Value};

/// A host and its catalog.
pub struct SqlHost {
    pub host: Host,
    pub catalog: Arc<HostCatalog>,
}

/// A pod of so many hosts and four partitions each.
pub fn pod(hosts: u8) -> (Pod, Vec<SqlHost>) {
    pod_with(hosts, &NoWait)
}

/// As [`pod`], whose transactions wait so for locks.
pub fn pod_with(hosts: u8, wait: &'static (dyn WaitPolicy + Sync)) -> (Pod, Vec<SqlHost>) {
    pod_of(hosts, |options| options.engine.wait = wait)
}

/// As [`pod`], whose hosts have these options.
pub fn pod_of(hosts: u8, set: impl Fn(&mut JoinOptions)) -> (Pod, Vec<SqlHost>) {
    let pod = created(hosts);
    let hosts = joined(&pod, hosts, |_, options| set(options));
    (pod, hosts)
}

/// A folder that is removed in the end.
pub struct Folder(pub PathBuf);

impl Folder {
    /// A name that nobody uses: in memory, if there is such a place, for tests count on time, not on disks.
    pub fn new() -> Folder {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let memory = Path::new("/dev/shm");
        let place = if memory.exists() { memory.to_owned() } else { std::env::temp_dir() };
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = Folder(place.join(format!("liger-sql-{}-{number}", std::process::id())));
        let _ = std::fs::remove_dir_all(&folder.0);
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// As [`pod_of`], whose hosts keep logs: transactions can read snapshots.
pub fn pod_with_logs(hosts: u8, set: impl Fn(&mut JoinOptions)) -> (Folder, Pod, Vec<SqlHost>) {
    let (folder, pod) = (Folder::new(), created(hosts));
    let data = DataDirectory::create(&pod.control(), &folder.0, pod.identity(7)).expect("a new folder");
    let hold = |host| data.hold(&pod.control(), host).expect("its own files");
    let hosts = joined(&pod, hosts, |host, options| {
        options.storage = Some(hold(host));
        set(options);
    });
    (folder, pod, hosts)
}

fn created(hosts: u8) -> Pod {
    let config =
        PodConfig { partitions: 4 * u16::from(hosts), ..PodConfig::new(hosts, 3, 8 << 20, 96 << 20) };
    Pod::create(&MemorySpec::Memfd, &config, &Classes::schemas()).expect("a pod")
}

fn joined(pod: &Pod, hosts: u8, set: impl Fn(HostId, &mut JoinOptions)) -> Vec<SqlHost> {
    let join = |n| {
        let mut options = JoinOptions::new(pod.plan());
        set(HostId(n), &mut options);
        pod.join_with(HostId(n), options).expect("a free number")
    };
    // All of them first: the catalog has rows in every host's memory.
    let joined: Vec<Host> = (0..hosts).map(join).collect();
    joined.into_iter().map(|host| open(pod, host)).collect()
}

/// A host that has joined gets its catalog.
pub fn open(pod: &Pod, mut host: Host) -> SqlHost {
    let catalog = HostCatalog::new(Classes::of(pod.catalog())).expect("the pod has all classes");
    host.alone(|session| catalog.enter(session, None)).expect("the catalog opens");
    SqlHost { host, catalog: Arc::new(catalog) }
}

impl SqlHost {
    /// Lends this many workers until the slots are closed.
    pub fn lend(&mut self, slots: &Arc<Slots>, workers: u8) {
        let worked = slots.work(&mut self.host, workers, (&self.catalog, Durability::None), |_| true);
        worked.expect("the host is a member");
    }

    /// A transaction of this host, until it meets no conflict.
    pub fn transact<R>(
        &mut self,
        mut body: impl FnMut(&mut dyn Access, &mut Working) -> Result<R>,
    ) -> Result<R> {
        let catalog = &self.catalog;
        self.host.alone(|session| {
            transact(session, |tx| {
                let mut working = Working::new(catalog.begin(tx)?);
                let made = body(tx, &mut working)?;
                working.finish(tx)?;
                Ok(made)
            })
        })
    }

    /// As [`SqlHost::transact`], and nothing may go wrong.
    pub fn run<R>(&mut self, body: impl FnMut(&mut dyn Access, &mut Working) -> Result<R>) -> R {
        self.transact(body).unwrap_or_else(|error| panic!("{error} {:?}", error.detail))
    }
}

/// A table of these columns.
pub fn new_table(name: &str, columns: &[(&str, Type)], key: &[u16]) -> NewTable {
    NewTable {
        name: name.to_owned(),
        schema: PUBLIC,
        owner: 10,
        columns: columns.iter().map(|(name, ty)| Column::new(name, *ty)).collect(),
        primary_key: (!key.is_empty()).then(|| (format!("{name}_pkey"), key.to_vec())),
        ..NewTable::default()
    }
}

/// The number of a table of the schema `public`.
pub fn oid_of(working: &Working, name: &str) -> Option<Oid> {
    working.catalog().relation(PUBLIC, name).map(|object| object.oid())
}

/// Accounts: id int primary key, owner text, balance bigint.
pub fn accounts(working: &mut Working, tx: &mut dyn Access, name: &str) -> Result<Table> {
    let columns =
        [("id", Type::of(oid::INT4)), ("owner", Type::of(oid::TEXT)), ("balance", Type::of(oid::INT8))];
    working.create_table(tx, new_table(name, &columns, &[0]))
}

/// A row of accounts.
pub fn account(id: i32, owner: &str, balance: i64) -> Vec<Value> {
    vec![Value::Int4(id), Value::text(owner), Value::Int8(balance)]
}
