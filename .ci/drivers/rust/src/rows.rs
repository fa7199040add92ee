//! What goes in and comes out: types, prepared statements, streams, pipelines, COPY, simple queries.

use std::collections::HashMap;
use std::pin::pin;

use bytes::Bytes;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use futures_util::future::{join_all, try_join_all};
use futures_util::{SinkExt, StreamExt, TryStreamExt};
use serde_json::{Value, json};
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use tokio_postgres::types::{Kind, ToSql, Type};
use tokio_postgres::{Client, SimpleQueryMessage};
use uuid::Uuid;

use crate::{Checked, connect, same, state};

/// Tables and types of all checks.
pub async fn setup(c: &mut Client) -> Checked {
    c.batch_execute(
        "drop table if exists rust_t, rust_types, rust_copied;
         drop type if exists rust_mood; drop domain if exists rust_name;
         create type rust_mood as enum ('sad', 'ok');
         create domain rust_name as text check (value <> '');
         create table rust_t (id int primary key, v text, n bigint);
         create table rust_copied (id int, v text, at timestamptz, by bytea);
         create table rust_types (b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric(20, 5),
           t text, v varchar(10), ch char(3), by bytea, d date, ti time, ts timestamp, tz timestamptz, u uuid,
           ai int4[], at text[], j json, jb jsonb, m rust_mood, o oid, c1 \"char\", nul int)",
    )
    .await?;
    Ok(())
}

/// Binary parameters and results of all common types: written on one host, read on the other.
pub async fn types(c: &mut Client) -> Checked {
    let day = NaiveDate::from_ymd_opt(2024, 2, 29).ok_or("a day")?;
    let time = NaiveTime::from_hms_micro_opt(12, 34, 56, 789_001).ok_or("a time")?;
    let at = day.and_time(time);
    let (key, document) = (Uuid::from_u128(7), json!({"a": [1, null, "x"]}));
    let (words, numbers) = (vec![Some("a"), None, Some("b \"c\"")], vec![1_i32, -2]);
    let statement = "insert into rust_types (b, i2, i4, i8, f4, f8, t, v, ch, by, d, ti, ts, tz, u, ai, at,
        j, jb, o, c1, nul, n, m)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
        $17, $18, $19, $20, $21, $22, $23::text::numeric, $24::text::rust_mood)";
    let sent: [&(dyn ToSql + Sync); 24] = [
        &true,
        &i16::MIN,
        &i32::MAX,
        &i64::MIN,
        &1.5_f32,
        &0.1_f64,
        &"gr\u{fc}\u{df}\n\\'",
        &"",
        &"ab",
        &&[0_u8, 255][..],
        &day,
        &time,
        &at,
        &at.and_utc(),
        &key,
        &numbers,
        &words,
        &document,
        &document,
        &4_000_000_000_u32,
        &7_i8,
        &None::<i32>,
        &"-123456789.01234",
        &"ok",
    ];
    same(c.execute(statement, &sent).await?, 1)?;
    let row =
        connect(1).await?.query_one("select *, n::text as nt, m::text as mt from rust_types", &[]).await?;
    same((row.get("b"), row.get("i2"), row.get("i4"), row.get("i8")), (true, i16::MIN, i32::MAX, i64::MIN))?;
    same((row.get("f4"), row.get("f8"), row.get("nul")), (1.5_f32, 0.1_f64, None::<i32>))?;
    same(
        (row.get("t"), row.get("v"), row.get("ch"), row.get("nt")),
        ("gr\u{fc}\u{df}\n\\'", "", "ab ", "-123456789.01234"),
    )?;
    same((row.get::<_, &[u8]>("by"), row.get("u"), row.get("mt")), (&[0, 255][..], key, "ok"))?;
    same((row.get::<_, NaiveDate>("d"), row.get::<_, NaiveTime>("ti")), (day, time))?;
    same((row.get::<_, NaiveDateTime>("ts"), row.get::<_, DateTime<Utc>>("tz")), (at, at.and_utc()))?;
    same((row.get("ai"), row.get("at")), (numbers, words))?;
    same((row.get::<_, Value>("j"), row.get::<_, Value>("jb")), (document.clone(), document))?;
    same((row.get("o"), row.get("c1")), (4_000_000_000_u32, 7_i8))
}

/// Types that the driver asks the catalog for before it can use them.
pub async fn looked_up(c: &mut Client) -> Checked {
    let statement = c.prepare("select $1::rust_mood[] as a, $2::rust_name as d").await?;
    let Kind::Array(member) = statement.params()[0].kind() else { return Err("no array".into()) };
    same(member.kind(), &Kind::Enum(vec!["sad".to_owned(), "ok".to_owned()]))?;
    same(matches!(statement.params()[1].kind(), Kind::Domain(base) if *base == Type::TEXT), true)?;
    Ok(())
}

/// Statements that are kept and described.
pub async fn prepared(c: &mut Client) -> Checked {
    let put = c.prepare("insert into rust_t values ($1, $2, $3) returning id, n as number").await?;
    same(put.params(), &[Type::INT4, Type::TEXT, Type::INT8])?;
    same(
        put.columns().iter().map(|c| (c.name(), c.type_())).collect(),
        vec![("id", &Type::INT4), ("number", &Type::INT8)],
    )?;
    for n in 0..50 {
        same(c.query_one(&put, &[&n, &"x", &i64::from(n)]).await?.get(0), n)?;
    }
    let some = c.prepare("select count(*) from rust_t where id = any($1) and v = $2").await?;
    same(c.query_one(&some, &[&vec![1, 2, 99], &"x"]).await?.get::<_, i64>(0), 2)?;
    let wrong = c.query_one(&some, &[&"x", &"x"]).await;
    same(wrong.is_err(), true)?;
    same(c.query_opt("select 1 where $1", &[&false]).await?.is_none(), true)?;
    drop((put, some)); // closes both
    same(c.execute("update rust_t set v = $1 where id < $2", &[&"y", &3]).await?, 3)
}

/// Statements whose types the client says.
pub async fn given_types(c: &mut Client) -> Checked {
    let statement = c.prepare_typed("select $1 || $2, $3 + 1", &[Type::TEXT, Type::TEXT, Type::INT8]).await?;
    let row = c.query_one(&statement, &[&"a", &"b", &41_i64]).await?;
    same((row.get(0), row.get(1)), ("ab", 42_i64))?;
    let rows = c.query_typed("select $1::int8 * 2", &[(&21_i64, Type::INT8)]).await?;
    same(rows[0].get(0), 42_i64)
}

/// Rows while they come, and a stream that is given up.
pub async fn streams(c: &mut Client) -> Checked {
    let none: [i32; 0] = [];
    let mut sum = 0_i64;
    {
        let mut rows = pin!(c.query_raw("select g, g::text from generate_series(1, 20000) g", none).await?);
        while let Some(row) = rows.try_next().await? {
            sum += i64::from(row.get::<_, i32>(0));
        }
    }
    same(sum, 200_010_000)?;
    {
        let mut rows = pin!(c.query_raw("select g from generate_series(1, 20000) g", none).await?);
        same(rows.next().await.ok_or("a row")??.get(0), 1)?;
    }
    same(c.query_one("select 7", &[]).await?.get(0), 7)
}

/// Many statements on their way at once, on one connection.
pub async fn pipelines(c: &mut Client) -> Checked {
    let one = c.prepare("select $1::int4 * 2").await?;
    let numbers: Vec<i32> = (0..200).collect();
    let rows = try_join_all(numbers.iter().map(|n| {
        let (c, one) = (&*c, &one);
        async move { c.query_one(one, &[n]).await }
    }))
    .await?;
    same(rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), numbers.iter().map(|n| n * 2).collect())?;
    let put = c.prepare("insert into rust_t values ($1)").await?;
    let keys = [500, 501, 500, 502];
    let ends = join_all(keys.iter().map(|key| {
        let (c, put) = (&*c, &put);
        async move { state(c.execute(put, &[key]).await) }
    }))
    .await;
    same(ends.iter().map(String::as_str).collect(), vec!["no error", "no error", "23505", "no error"])
}

/// COPY as text and in binary, in and out, and one that is given up.
pub async fn copy(c: &mut Client) -> Checked {
    let mut sink = pin!(c.copy_in("copy rust_copied (id, v) from stdin").await?);
    let lines = (0..2000).map(|n| Ok(Bytes::from(format!("{n}\ttab\\t{n}\n"))));
    sink.send_all(&mut futures_util::stream::iter(lines)).await?;
    same(sink.finish().await?, 2000)?;
    let types = [Type::INT4, Type::TEXT, Type::TIMESTAMPTZ, Type::BYTEA];
    let at: DateTime<Utc> = DateTime::from_timestamp(1_700_000_000, 123_456_000).ok_or("a time")?;
    let sink = c.copy_in("copy rust_copied from stdin (format binary)").await?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
    for n in 5000..5100 {
        writer.as_mut().write(&[&n, &None::<&str>, &at, &vec![n as u8]]).await?;
    }
    same(writer.finish().await?, 100)?;
    let out = c
        .copy_out("copy (select * from rust_copied where id >= 5000 order by id) to stdout (format binary)")
        .await?;
    let rows: Vec<_> = BinaryCopyOutStream::new(out, &types).try_collect().await?;
    same((rows.len(), rows[99].get(0), rows[99].get(2)), (100, 5099, at))?;
    let out = c
        .copy_out("copy (select id, v from rust_copied where id < 2 order by id) to stdout (format csv)")
        .await?;
    let text: Vec<Bytes> = out.try_collect().await?;
    same(text.concat(), b"0,tab\t0\n1,tab\t1\n".to_vec())?;
    {
        let mut sink = pin!(c.copy_in::<_, Bytes>("copy rust_copied (id) from stdin").await?);
        sink.send(Bytes::from_static(b"9000\n")).await?;
    }
    same(c.query_one("select count(*) from rust_copied", &[]).await?.get::<_, i64>(0), 2100)?;
    let mut sink = pin!(c.copy_in("copy rust_copied (id) from stdin").await?);
    sink.send(Bytes::from_static(b"x\n")).await?;
    same(state(sink.finish().await), "22P02".to_owned())
}

/// Several statements in one text, with texts as results.
pub async fn simple(c: &mut Client) -> Checked {
    let messages =
        c.simple_query("select 1 as a, null as b; insert into rust_t values (300); select 2 as c").await?;
    let mut seen: Vec<HashMap<String, Option<String>>> = Vec::new();
    let mut counts = Vec::new();
    for message in &messages {
        match message {
            SimpleQueryMessage::Row(row) => {
                let names = row.columns().iter().map(|c| c.name().to_owned());
                seen.push(
                    names.enumerate().map(|(at, name)| (name, row.get(at).map(str::to_owned))).collect(),
                );
            }
            SimpleQueryMessage::CommandComplete(count) => counts.push(*count),
            _ => {}
        }
    }
    same(counts, vec![1, 1, 1])?;
    same(
        (seen[0]["a"].as_deref(), seen[0]["b"].as_deref(), seen[1]["c"].as_deref()),
        (Some("1"), None, Some("2")),
    )
}
