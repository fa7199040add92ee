//! Transactions of two and three hosts, step by step in every order: a serial order explains each outcome.
//!
//! The scripts are `isolation/*.spec`. `ISOLATION=name` runs one, `ISOLATION_ORDERS=n` so many orders of each
//! at most.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads")]

mod client;
mod databases;
mod interleave;
mod sessions;
mod support;

use client::Printed;
use interleave::judge::Judge;
use interleave::orders::orders;
use interleave::script::Script;
use interleave::{End, Players, Ran};
use liger_sql::exec::EngineDatabase;
use sessions::{connect, with_logs};

const HOSTS: u8 = 3;
/// Orders of a script that are run at most, if nobody says.
const ORDERS: usize = 252;

fn most() -> usize {
    std::env::var("ISOLATION_ORDERS").ok().and_then(|n| n.parse().ok()).unwrap_or(ORDERS)
}

/// What was seen of a script.
#[derive(Default)]
struct Seen {
    runs: usize,
    /// Transactions by how they ended.
    ends: [usize; 3],
    /// Of each session's transactions, how many committed in some order.
    committed: Vec<Vec<usize>>,
    faults: Vec<String>,
}

/// Sessions on different hosts, the first on this one, and one more for what is between runs.
fn players<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    databases: &[EngineDatabase],
    sessions: usize,
    first: usize,
) -> Players {
    let host = |n: usize| &databases[(first + n) % databases.len()];
    let open = |n| -> Box<dyn liger_sql::session::Session + Send> {
        let mut session = connect(host(n));
        // Each step has to end: one that waits for a table is refused as one that conflicts is.
        let settings = "set lock_timeout = 10; set default_transaction_isolation = 'serializable'";
        session.simple(settings, &mut Printed::default()).expect("settings");
        session
    };
    Players::new(scope, (0..=sessions).map(open).collect())
}

/// A statement between runs: the end of a transaction and the removal of old rows may be in its way.
#[track_caller]
fn well(players: &Players, session: usize, sql: &str) -> Vec<String> {
    let mut lines = players.run(session, sql);
    for _ in 0..100 {
        if !lines.iter().any(|line| line == "ERROR 40001" || line == "ERROR 55P03") {
            break;
        }
        lines = players.run(session, sql);
    }
    assert!(!lines.iter().any(|line| line.starts_with("ERROR")), "{sql}: {lines:?}");
    lines
}

fn describe(script: &Script, order: &[usize], ran: &[Ran], state: &[Vec<String>], why: &str) -> String {
    let mut text = format!("{}: no serial order explains {order:?}\n", script.name);
    for ran in ran {
        text += &format!("  {}.{} {:?}: {:?}\n", ran.session, ran.transaction, ran.end, ran.heard);
    }
    text + &format!("  state {state:?}\n  serially:\n{why}")
}

/// Plays `played` in many orders and judges it by `script`.
fn try_all(databases: &[EngineDatabase], script: &Script, played: &Script, most: usize) -> Seen {
    let (orders, _) = orders(&script.lengths(), most);
    let mut judge = Judge::new(script);
    let count = script.sessions.len();
    let mut seen =
        Seen { committed: script.sessions.iter().map(|all| vec![0; all.len()]).collect(), ..Seen::default() };
    std::thread::scope(|scope| {
        let all: Vec<Players> =
            (0..databases.len()).map(|first| players(scope, databases, count, first)).collect();
        script.setup.iter().for_each(|sql| _ = well(&all[0], count, sql));
        for (at, order) in orders.iter().enumerate() {
            let players = &all[at % all.len()];
            script.reset.iter().for_each(|sql| _ = well(players, count, sql));
            let ran = players.play(played, order);
            let state: Vec<Vec<String>> = script.state.iter().map(|sql| well(players, count, sql)).collect();
            for sql in &script.holds {
                let lines = well(players, count, sql);
                if lines.iter().any(|line| line != "t") {
                    seen.faults.push(describe(script, order, &ran, &state, &format!("{sql}: {lines:?}")));
                }
            }
            for ran in &ran {
                let is_strange = |error: &String| !script.errors.is_empty() && !script.errors.contains(error);
                if let Some(error) = ran.error.as_ref().filter(|error| is_strange(error)) {
                    seen.faults.push(format!("{}: {order:?}: the error {error}", script.name));
                }
                if ran.end == End::Refused && script.unrefused.contains(&ran.session) {
                    let error = ran.error.as_deref().unwrap_or_default();
                    seen.faults.push(format!("{}: {order:?}: {} got {error}", script.name, ran.session + 1));
                }
                seen.ends[ran.end as usize] += 1;
                let well = ran.end != End::Refused;
                seen.committed[ran.session][ran.transaction] += usize::from(well);
            }
            if !script.apart
                && let Err(why) = judge.explains(&ran, &state)
            {
                seen.faults.push(describe(script, order, &ran, &state, &why));
            }
            seen.runs += 1;
        }
    });
    seen
}

#[test]
fn every_order_is_explained_by_a_serial_one() {
    let mut faults = Vec::new();
    for script in Script::all() {
        with_logs(HOSTS, 3, |databases| {
            let seen = try_all(databases, &script, &script, most());
            let [committed, rolled_back, refused] = seen.ends;
            println!(
                "{}: {} orders; {committed} committed, {rolled_back} rolled back, {refused} refused; \
                 {} faults",
                script.name,
                seen.runs,
                seen.faults.len()
            );
            let never = seen.committed.iter().flatten().filter(|times| **times == 0).count();
            assert_eq!(never, 0, "{}: transactions that conflicts ended in every order", script.name);
            faults.extend(seen.faults.into_iter().take(3));
        });
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn steps_that_are_no_transaction_are_found_out() {
    let mut missed = Vec::new();
    for script in Script::all() {
        let is_one = script.sessions.iter().flatten().any(|transaction| transaction.len() > 1);
        if script.apart || !is_one {
            continue;
        }
        let loosened = script.loosened();
        with_logs(HOSTS, 3, |databases| {
            let seen = try_all(databases, &script, &loosened, most().min(70));
            println!("{}: {} faults in {} orders", script.name, seen.faults.len(), seen.runs);
            if seen.faults.is_empty() {
                missed.push(script.name.clone());
            }
        });
    }
    assert!(missed.is_empty(), "nobody noticed that these were no transactions: {missed:?}");
}
