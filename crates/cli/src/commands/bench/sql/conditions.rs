//! The consistency conditions (TPC-C 3.3.2) and more, as queries that count what breaks them.

use std::collections::BTreeSet;

use liger_workload::tpcc::Scale;
use liger_workload::tpcc::load::initial_quantity;
use tokio_postgres::Client;

use super::clients::Brought;
use super::transactions::OrderId;
use super::trouble::Trouble;

/// Titles and queries.
const CONDITIONS: &str = include_str!("conditions.sql");

/// Each condition's title and its query.
fn conditions() -> impl Iterator<Item = (&'static str, &'static str)> {
    // What stands before the first empty line says what it is.
    let all = CONDITIONS.split("\n\n").skip(1);
    all.map(|one| one.trim_start_matches("-- ").split_once('\n').expect("a title and a query"))
}

/// Looks for what is wrong.
pub async fn check(client: &Client, scale: &Scale, seed: u64) -> Result<Vec<String>, Trouble> {
    let mut findings = Vec::new();
    for (what, query) in conditions() {
        let query = query.replace("{initial}", &scale.orders().to_string());
        let query = query.replace("{delivered}", &scale.delivered().to_string());
        let count: i64 = client.query_one(query.trim_end().trim_end_matches(';'), &[]).await?.try_get(0)?;
        if count != 0 {
            findings.push(format!("{what}: {count} times not"));
        }
    }
    let mut wrong = 0;
    let mut rows = 0;
    for w in 1..=scale.warehouses {
        let stock = client
            .query("select s_i_id, s_quantity, s_ytd from stock where s_w_id = $1", &[&i32::from(w)])
            .await?;
        rows += stock.len();
        for row in stock {
            let (item, quantity, ytd): (i32, i32, i32) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let initial = i32::from(initial_quantity(seed, w, item));
            wrong += usize::from((initial - ytd - quantity) % 91 != 0 || !(10..=100).contains(&quantity));
        }
    }
    if wrong > 0 {
        findings.push(format!("stock: S_QUANTITY does not follow from the lines: {wrong} times"));
    }
    let expected = scale.items as usize * scale.warehouses as usize;
    if rows != expected {
        findings.push(format!("stock: {rows} rows, not {expected}"));
    }
    Ok(findings)
}

/// Looks for the New-Orders that clients were told of.
pub async fn look_for(client: &Client, scale: &Scale, brought: &Brought) -> Result<Vec<String>, Trouble> {
    let query = "select o_w_id, o_d_id, o_id from orders where o_id > $1";
    let mut there: BTreeSet<OrderId> = BTreeSet::new();
    for row in client.query(query, &[&scale.orders()]).await? {
        there.insert((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
    }
    let mut findings = Vec::new();
    let mut told = BTreeSet::new();
    for order in &brought.acknowledged {
        if !told.insert(*order) {
            findings.push(format!("two clients were told that they entered the order {order:?}"));
        }
        if !there.contains(order) {
            findings.push(format!("the order {order:?} was acknowledged and is not there"));
        }
    }
    let doubtful: BTreeSet<OrderId> = brought.in_doubt.iter().copied().collect();
    for order in there.iter().filter(|order| !told.contains(*order) && !doubtful.contains(*order)) {
        findings.push(format!("the order {order:?} is there, and nobody asked for its commit"));
    }
    let count = findings.len();
    if count > 20 {
        findings.truncate(20);
        findings.push(format!("{count} findings of this kind in all"));
    }
    Ok(findings)
}

#[test]
fn there_are_all_conditions() {
    assert_eq!(conditions().count(), 18);
    let first_words = |query: &str| query.starts_with("select count(*) from ");
    assert!(conditions().all(|(what, query)| first_words(query) && !what.is_empty()));
}
