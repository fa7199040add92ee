//! Transactions, portals, conflicts between hosts, errors, cancel, what changes under a prepared statement.

use std::time::{Duration, Instant};

use futures_util::future::try_join;
use futures_util::{StreamExt, stream};
use tokio_postgres::error::{ErrorPosition, SqlState};
use tokio_postgres::{AsyncMessage, Client, IsolationLevel, NoTls};

use crate::{Checked, connect, same, state};

/// Blocks, savepoints, read-only ones, and one that is dropped.
pub async fn blocks(c: &mut Client) -> Checked {
    {
        let mut outer = c.build_transaction().isolation_level(IsolationLevel::Serializable).start().await?;
        outer.execute("insert into rust_t values (1000)", &[]).await?;
        let inner = outer.savepoint("s").await?;
        inner.execute("insert into rust_t values (1001)", &[]).await?;
        same(state(inner.execute("insert into rust_t values (1000)", &[]).await), "23505".to_owned())?;
        same(state(inner.execute("select 1", &[]).await), "25P02".to_owned())?;
        inner.rollback().await?;
        let inner = outer.transaction().await?;
        inner.execute("insert into rust_t values (1002)", &[]).await?;
        inner.commit().await?;
        outer.commit().await?;
    }
    {
        let dropped = c.transaction().await?;
        dropped.execute("insert into rust_t values (1003)", &[]).await?;
    }
    let keys = c.query("select id from rust_t where id between 1000 and 1999 order by id", &[]).await?;
    same(keys.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), vec![1000, 1002])?;
    let only =
        c.build_transaction().read_only(true).deferrable(true).isolation_level(IsolationLevel::Serializable);
    let only = only.start().await?;
    same(state(only.execute("delete from rust_t", &[]).await), "25006".to_owned())?;
    only.rollback().await?;
    Ok(())
}

/// Two portals of one transaction, read in turns.
pub async fn portals(c: &mut Client) -> Checked {
    let block = c.transaction().await?;
    let up = block.bind("select g from generate_series(1, $1) g", &[&25]).await?;
    let down = block.bind("select id from rust_t where id < 50 order by id desc", &[]).await?;
    let (mut ups, mut downs) = (Vec::new(), Vec::new());
    loop {
        let (a, b) = (block.query_portal(&up, 7).await?, block.query_portal(&down, 10).await?);
        if a.is_empty() && b.is_empty() {
            break;
        }
        ups.extend(a.iter().map(|row| row.get::<_, i32>(0)));
        downs.extend(b.iter().map(|row| row.get::<_, i32>(0)));
    }
    same((ups, downs), ((1..=25).collect(), (0..50).rev().collect()))?;
    let put = block
        .bind("insert into rust_t select g from generate_series(2000, 2009) g returning id", &[])
        .await?;
    same(block.query_portal(&put, 3).await?.len(), 3)?;
    same(block.query_portal(&put, 0).await?.len(), 7)?;
    block.commit().await?;
    same(
        c.query_one("select count(*) from rust_t where id between 2000 and 2009", &[])
            .await?
            .get::<_, i64>(0),
        10,
    )
}

/// Adds one to a row, trying again after a conflict.
async fn add_one(c: &mut Client) -> Result<(), tokio_postgres::Error> {
    loop {
        let attempt = async {
            let block = c.build_transaction().isolation_level(IsolationLevel::Serializable).start().await?;
            let n: i64 = block.query_one("select n from rust_t where id = 7777", &[]).await?.get(0);
            block.execute("update rust_t set n = $1 where id = 7777", &[&(n + 1)]).await?;
            block.commit().await
        };
        match attempt.await {
            Err(error) if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {}
            end => return end,
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Both hosts add to one row, and nothing gets lost.
pub async fn conflicts(c: &mut Client) -> Checked {
    c.execute("insert into rust_t values (7777, '', 0)", &[]).await?;
    let adds = |host| async move {
        let mut own = connect(host).await?;
        for _ in 0..20 {
            add_one(&mut own).await?;
        }
        Checked::Ok(())
    };
    try_join(adds(0), adds(1)).await?;
    same(c.query_one("select n from rust_t where id = 7777", &[]).await?.get::<_, i64>(0), 40)
}

/// Errors say what, where, and of which table.
pub async fn errors(c: &mut Client) -> Checked {
    let sent = [
        "selec",
        "select * from nowhere",
        "select 1/0",
        "insert into rust_t values (null)",
        "select 1 +",
        "select nothing from rust_t",
        "select lower(1, 2)",
    ];
    let expected = ["42601", "42P01", "22012", "23502", "42601", "42703", "42883"];
    let seen: Vec<String> =
        stream::iter(sent).then(|sql| async { state(c.execute(sql, &[]).await) }).collect().await;
    same(seen, expected.map(str::to_owned).to_vec())?;
    let error = c.execute("select nothing from rust_t", &[]).await.err().ok_or("no error")?;
    let said = error.as_db_error().ok_or("not from the server")?;
    same(
        (said.message(), said.position()),
        ("column \"nothing\" does not exist", Some(&ErrorPosition::Original(8))),
    )?;
    let error = c.execute("insert into rust_t values (1)", &[]).await.err().ok_or("no error")?;
    let said = error.as_db_error().ok_or("not from the server")?;
    same(
        (said.table(), said.constraint(), said.schema()),
        (Some("rust_t"), Some("rust_t_pkey"), Some("public")),
    )?;
    same(said.detail(), Some("Key (id)=(1) already exists."))
}

/// A cancel request, and a limit of the server's.
pub async fn cancel(c: &mut Client) -> Checked {
    let start = Instant::now();
    let token = c.cancel_token();
    let later = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        token.cancel_query(NoTls).await
    };
    let (ended, cancelled) = futures_util::future::join(c.execute("select pg_sleep(20)", &[]), later).await;
    cancelled?;
    same(state(ended), "57014".to_owned())?;
    c.batch_execute("set statement_timeout = '200ms'").await?;
    same(state(c.execute("select pg_sleep(20)", &[]).await), "57014".to_owned())?;
    same(start.elapsed() < Duration::from_secs(5), true)?;
    same(c.query_one("show statement_timeout", &[]).await?.get(0), "200ms")
}

/// Whoever prepared before a change of the table is told, and prepares again.
pub async fn altered(c: &mut Client) -> Checked {
    let all = c.prepare("select * from rust_copied limit 1").await?;
    same(c.query_one(&all, &[]).await?.len(), 4)?;
    c.batch_execute("alter table rust_copied add column later int").await?;
    same(state(c.query_one(&all, &[]).await), "0A000".to_owned())?;
    let again = c.prepare("select * from rust_copied limit 1").await?;
    same(c.query_one(&again, &[]).await?.len(), 5)
}

/// Notices come while a statement runs, and settings that change are told.
pub async fn notices(_: &mut Client) -> Checked {
    let port = std::env::args().nth(2).ok_or("a port")?;
    let settings = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres application_name=rust");
    let (c, mut connection) = tokio_postgres::connect(&settings, NoTls).await?;
    same(connection.parameter("server_version").is_some_and(|v| v.starts_with("15")), true)?;
    let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |cx| connection.poll_message(cx));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notice(notice) = message {
                drop(send.send(notice.message().to_owned()));
            }
        }
    });
    c.batch_execute("drop table if exists rust_nothing").await?;
    let said = receive.recv().await.ok_or("no notice")?;
    same(said.as_str(), "table \"rust_nothing\" does not exist, skipping")?;
    same(c.query_one("show application_name", &[]).await?.get(0), "rust")
}
