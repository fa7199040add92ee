//! A database of each host of a pod in this process, for tests.

#![allow(dead_code, reason = "every test uses a part of it")]

use std::sync::Arc;

use liger_sql::exec::{EngineDatabase, IsolationLevel, SqlHost};
use liger_sql::slots::Slots;

use crate::client::Fixed;
use crate::support::{self, pod};

/// Runs `body` with a database of each host of a pod.
pub fn with_pod(hosts: u8, workers: u8, body: impl FnOnce(&[EngineDatabase])) {
    with_hosts(hosts, workers, |all| {
        let database = |host: &Arc<SqlHost>| EngineDatabase::new(host.clone(), || Box::new(Fixed));
        body(&all.iter().map(database).collect::<Vec<_>>());
    });
}

/// Runs `body` with the hosts of a pod.
pub fn with_hosts(hosts: u8, workers: u8, body: impl FnOnce(&[Arc<SqlHost>])) {
    with_hosts_of(pod(hosts).1, workers, body);
}

/// Runs `body` with these hosts.
pub fn with_hosts_of(joined: Vec<support::SqlHost>, workers: u8, body: impl FnOnce(&[Arc<SqlHost>])) {
    std::thread::scope(|scope| {
        let mut all = Vec::new();
        for mut host in joined {
            let (slots, catalog) = (Slots::new(), host.catalog.clone());
            let sql = Arc::new(SqlHost { slots, catalog, isolation: IsolationLevel::default() });
            all.push(sql.clone());
            scope.spawn(move || host.lend(&sql.slots, workers));
        }
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&all)));
        all.iter().for_each(|host| host.slots.close());
        ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}
