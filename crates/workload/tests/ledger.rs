//! The ledger on one host of a real pod: exactly once, and a check that finds what is wrong.

use liger_engine::Durability;
use liger_engine::db::{Host, Pod, PodConfig};
use liger_engine::protocol::HostEngine;
use liger_engine::{NewRow, Row, TableId};
use liger_fabric::HostId;
use liger_fabric::native::MemorySpec;
use liger_workload::Snapshot;
use liger_workload::ledger::check::{Fault, Findings, check};
use liger_workload::ledger::client::{Client, Told};
use liger_workload::ledger::request_queue::RequestQueue;
use liger_workload::ledger::schema::{self, Tables, accounts, transfers};
use liger_workload::ledger::{Book, Request, START_CENTS};

const BOOK: Book = Book { partitions: 2, accounts: 50, hot: 5, remote_percent: 30, seed: 11 };

/// Rows of both tables, to be looked at and to be damaged.
struct Rows {
    tables: Tables,
    accounts: Vec<NewRow>,
    transfers: Vec<NewRow>,
}

impl Snapshot for Rows {
    fn rows(&self, table: TableId, visit: &mut dyn FnMut(Row<'_>)) {
        let rows = if table == self.tables.accounts { &self.accounts } else { &self.transfers };
        rows.iter().for_each(|row| visit(row.row()));
    }
}

impl Rows {
    fn check(&self, told: &[Told]) -> Findings {
        check(self, &self.tables, &BOOK, 0, told)
    }

    /// Which faults are found after `damage`, which is undone.
    fn with(&mut self, told: &[Told], damage: impl FnOnce(&mut Self)) -> Findings {
        let before = (self.accounts.clone(), self.transfers.clone());
        damage(self);
        let found = self.check(told);
        (self.accounts, self.transfers) = before;
        found
    }

    fn pay(&mut self, account: i32, cents: i64) {
        let row = &mut self.accounts[account as usize];
        let balance = row.row().get(accounts::BALANCE);
        row.set(accounts::BALANCE, balance + cents);
    }
}

fn pod() -> (Host, Tables) {
    let config = PodConfig { partitions: BOOK.partitions, ..PodConfig::new(1, 1, 4 << 20, 64 << 20) };
    let pod = Pod::create(&MemorySpec::Memfd, &config, &schema::schemas()).expect("a pod");
    let tables = Tables::of(pod.catalog()).expect("the ledger's tables");
    let mut host = pod.join(HostId(0)).expect("the first host");
    host.load(|rows| schema::load(&BOOK, |row| rows.put(tables.accounts, row))).expect("room for all");
    (host, tables)
}

/// Carries out requests; hears the answers only if `heard`.
fn carry_out(host: &mut Host, tables: Tables, client: &mut Client, requests: Vec<Request>, heard: bool) {
    let mut queue = RequestQueue::new(tables, Durability::Pod);
    requests.into_iter().for_each(|request| queue.ask(request));
    host.alone(|session| {
        while !queue.is_empty() {
            let hear = |reply| {
                if heard {
                    client.hear(&reply, 5).expect("it had asked");
                }
            };
            queue.round(session, 100, hear).expect("only conflicts");
        }
    });
}

fn rows_of(host: &mut Host, tables: Tables) -> Rows {
    let mut rows = Rows { tables, accounts: Vec::new(), transfers: Vec::new() };
    host.alone(|session| {
        let (cx, engine) = (session.cx(), session.host());
        let account = |_: &_, row: Row<'_>| {
            let mut kept = NewRow::new(accounts::ROW_LEN);
            kept.set(accounts::ID, row.get(accounts::ID)).set(accounts::BALANCE, row.get(accounts::BALANCE));
            rows.accounts.push(kept);
        };
        engine.each_row(cx, tables.accounts, account).expect("a pod at rest");
        let transfer = |_: &_, row: Row<'_>| {
            use transfers::*;
            let mut kept = NewRow::new(ROW_LEN);
            kept.set(CLIENT, row.get(CLIENT)).set(REQUEST, row.get(REQUEST)).set(AMOUNT, row.get(AMOUNT));
            kept.set(FROM_ID, row.get(FROM_ID)).set(TO_ID, row.get(TO_ID));
            kept.set(FROM_BALANCE, row.get(FROM_BALANCE)).set(TO_BALANCE, row.get(TO_BALANCE));
            rows.transfers.push(kept);
        };
        engine.each_row(cx, tables.transfers, transfer).expect("a pod at rest");
    });
    rows.accounts.sort_by_key(|row| row.row().get(accounts::ID));
    rows
}

/// A database after 400 acknowledged transfers of two clients, every other one asked for twice.
fn after_a_run() -> (Rows, Vec<Told>) {
    let (mut host, tables) = pod();
    let mut told = Vec::new();
    for id in 0..2 {
        let mut client = Client::new(BOOK, id);
        for round in 0..20 {
            let requests: Vec<Request> = (0..10).map(|_| client.next(1)).collect();
            // The connection breaks after the transfers were made: nobody hears of them.
            let breaks = round % 2 == 0;
            carry_out(&mut host, tables, &mut client, requests, !breaks);
            let again: Vec<Request> = client.again().collect();
            assert_eq!(again.len(), if breaks { 10 } else { 0 });
            carry_out(&mut host, tables, &mut client, again, true);
        }
        assert_eq!((client.told().acknowledged, client.told().again, client.under_way()), (200, 100, 0));
        told.push(client.into_told());
    }
    let rows = rows_of(&mut host, tables);
    host.leave().expect("a pod at rest");
    (rows, told)
}

#[test]
fn asking_again_moves_no_money_twice() {
    let (rows, told) = after_a_run();
    let found = rows.check(&told);
    assert!(found.is_right(), "{:?}", found.lines());
    assert_eq!((found.transfers, rows.accounts.len()), (400, 100));
    // Somebody else's clients: only the money is looked at.
    let later = check(&rows, &rows.tables, &BOOK, 2, &[]);
    assert!(later.is_right(), "{:?}", later.lines());
}

#[test]
fn what_is_wrong_is_found() {
    let (mut rows, told) = after_a_run();
    let lost = rows.with(&told, |rows| {
        let gone = rows.transfers.pop().expect("transfers");
        let (from, to) = (gone.row().get(transfers::FROM_ID), gone.row().get(transfers::TO_ID));
        rows.pay(from, gone.row().get(transfers::AMOUNT));
        rows.pay(to, -gone.row().get(transfers::AMOUNT));
    });
    assert_eq!((lost.count(Fault::Lost), lost.count(Fault::Balance), lost.count(Fault::Total)), (1, 0, 0));
    let doubled = rows.with(&told, |rows| rows.transfers.push(rows.transfers[7].clone()));
    assert_eq!((doubled.count(Fault::Doubled), doubled.count(Fault::Balance)), (1, 2));
    let row_without_money = rows.with(&told, |rows| {
        let half = rows.transfers[3].clone();
        rows.pay(half.row().get(transfers::TO_ID), -half.row().get(transfers::AMOUNT));
    });
    assert_eq!((row_without_money.count(Fault::Balance), row_without_money.count(Fault::Total)), (1, 1));
    let money_without_row = rows.with(&told, |rows| {
        rows.pay(3, -5);
        rows.pay(8, 5);
    });
    assert_eq!((money_without_row.count(Fault::Balance), money_without_row.count(Fault::Total)), (2, 0));
    let other = rows.with(&told, |rows| {
        rows.transfers[0].set(transfers::AMOUNT, 101);
    });
    assert!(other.count(Fault::Foreign) == 1 && other.count(Fault::Balance) == 2, "{:?}", other.lines());
    let stale = rows.with(&told, |rows| {
        let cents = rows.transfers[5].row().get(transfers::FROM_BALANCE);
        rows.transfers[5].set(transfers::FROM_BALANCE, cents + 1);
    });
    assert_eq!((stale.count(Fault::Told), stale.count(Fault::Chain), stale.count(Fault::Balance)), (1, 1, 0));
    let account = rows.with(&told, |rows| drop(rows.accounts.remove(42)));
    assert_eq!((account.count(Fault::Account), account.count(Fault::Total)), (1, 1));
    assert!(account.lines()[0].contains("account 42"), "{:?}", account.lines());
    let stranger = rows.with(&told, |rows| {
        rows.transfers[9].set(transfers::CLIENT, 77);
    });
    assert_eq!((stranger.count(Fault::Foreign), stranger.count(Fault::Lost)), (1, 1));
}

#[test]
fn answers_that_differ_are_told() {
    let mut client = Client::new(BOOK, 1);
    let request = client.next(3);
    assert_eq!((request, client.oldest_ns()), (BOOK.request(1, 1), Some(3)));
    let from_cents = START_CENTS - request.amount_cents;
    let to_cents = START_CENTS + request.amount_cents;
    let reply = liger_workload::ledger::Reply { client: 1, number: 1, from_cents, to_cents, again: false };
    assert_eq!(client.hear(&reply, 10).map(|heard| heard.waited_ns), Some(7));
    assert_eq!(client.hear(&reply, 11), None);
    assert_eq!(client.told().contradictions, 0);
    let other = liger_workload::ledger::Reply { from_cents: 1, ..reply };
    assert_eq!(client.hear(&other, 12), None);
    let unknown = liger_workload::ledger::Reply { number: 9, ..reply };
    assert_eq!(client.hear(&unknown, 12), None);
    assert_eq!(client.told().contradictions, 2);
}
