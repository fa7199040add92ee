//! What a run of TPC-C through SQL says.

use std::collections::BTreeMap;
use std::fmt::Write;

use liger_workload::Histogram;
use liger_workload::tpcc::input::Kind;
use serde::Serialize;

use super::clients::{Brought, OfKind};

/// One type of transaction.
#[derive(Serialize)]
pub struct Line {
    name: &'static str,
    committed: u64,
    committed_per_s: f64,
    rolled_back: u64,
    /// Attempts that were run again, by SQLSTATE.
    again: BTreeMap<String, u64>,
    p50_us: u64,
    p95_us: u64,
    p99_us: u64,
    max_us: u64,
}

/// A run.
#[derive(Serialize)]
pub struct Report {
    server: String,
    addresses: Vec<String>,
    warehouses: i16,
    items: i32,
    customers: i32,
    connections: usize,
    isolation: String,
    seconds: f64,
    committed_per_s: f64,
    new_orders_per_minute: f64,
    /// Of each type, and of all.
    transactions: Vec<Line>,
    acknowledged_new_orders: usize,
    in_doubt_new_orders: usize,
    lost_connections: BTreeMap<String, u64>,
    longest_pause_ms: f64,
    /// None: nobody looked.
    consistent: Option<bool>,
    findings: Vec<String>,
}

/// What is said about a run besides what clients brought.
pub struct About {
    pub server: String,
    pub addresses: Vec<String>,
    pub scale: liger_workload::tpcc::Scale,
    pub connections: usize,
    pub isolation: String,
    pub seconds: f64,
}

fn line(name: &'static str, of: &OfKind, seconds: f64) -> Line {
    let us = |quantile| of.latency.quantile(quantile) / 1000;
    Line {
        name,
        committed: of.committed,
        committed_per_s: of.committed as f64 / seconds,
        rolled_back: of.rolled_back,
        again: of.again.clone(),
        p50_us: us(0.5),
        p95_us: us(0.95),
        p99_us: us(0.99),
        max_us: of.latency.max() / 1000,
    }
}

impl Report {
    /// Puts it together; no findings (`None`): nobody looked.
    pub fn new(about: About, brought: &Brought, findings: Option<Vec<String>>) -> Report {
        let seconds = about.seconds;
        let mut all = OfKind { latency: Histogram::default(), ..OfKind::default() };
        let mut transactions = Vec::new();
        for kind in Kind::ALL {
            let none = OfKind::default();
            let of = brought.kinds.get(&kind).unwrap_or(&none);
            all.committed += of.committed;
            all.rolled_back += of.rolled_back;
            all.latency.merge(&of.latency);
            of.again.iter().for_each(|(code, n)| *all.again.entry(code.clone()).or_default() += n);
            transactions.push(line(kind.name(), of, seconds));
        }
        let new_orders = transactions[0].committed_per_s;
        transactions.push(line("all", &all, seconds));
        let looked = findings.is_some();
        let mut findings = findings.unwrap_or_default();
        findings.extend(brought.wrong.iter().cloned());
        Report {
            server: about.server,
            addresses: about.addresses,
            warehouses: about.scale.warehouses,
            items: about.scale.items,
            customers: about.scale.customers,
            connections: about.connections,
            isolation: about.isolation,
            seconds,
            committed_per_s: all.committed as f64 / seconds,
            new_orders_per_minute: 60.0 * new_orders,
            transactions,
            acknowledged_new_orders: brought.acknowledged.len(),
            in_doubt_new_orders: brought.in_doubt.len(),
            lost_connections: brought.lost.clone(),
            longest_pause_ms: brought.longest_pause_ns as f64 / 1e6,
            consistent: looked.then_some(findings.is_empty()),
            findings,
        }
    }

    /// Whether nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.findings.is_empty()
    }

    /// As one JSON object.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("a report can be written")
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{}\n{} warehouses, {} connections to {}, isolation {}, {:.1} s\n\n",
            self.server,
            self.warehouses,
            self.connections,
            self.addresses.join(" "),
            self.isolation,
            self.seconds
        );
        text += "transaction    committed/s   committed   run again   p50 us    p95 us    p99 us    max us\n";
        for Line { name, committed, committed_per_s, again, p50_us, p95_us, p99_us, max_us, .. } in
            &self.transactions
        {
            let again: u64 = again.values().sum();
            let _ = write!(text, "{name:<13} {committed_per_s:>12.1} {committed:>11} {again:>11} ");
            let _ = writeln!(text, "{p50_us:>8} {p95_us:>9} {p99_us:>9} {max_us:>9}");
        }
        let _ = write!(
            text,
            "\n{} New-Orders were acknowledged, {} are in doubt; connections lost: {:?}; \
             longest pause of a client {:.0} ms\n",
            self.acknowledged_new_orders,
            self.in_doubt_new_orders,
            self.lost_connections,
            self.longest_pause_ms
        );
        match self.consistent {
            None => text += "not checked\n",
            Some(true) => {
                text += "consistent: all conditions hold, and every acknowledged New-Order is there\n"
            }
            Some(false) => text += "NOT consistent\n",
        }
        self.findings.iter().for_each(|finding| text += &format!("  {finding}\n"));
        text
    }
}
