//! Every statement ends soon after it is told to, whatever single value it computes.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "somebody else interrupts, and time passes")]

mod client;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use client::{Fixed, answer, start};
use liger_sql::exec::LocalSession;
use liger_sql::exec::memory::Memory;
use liger_sql::session::{Interrupt, InterruptReason};

/// When the statement is told, and how soon it ends then: the best of three tries, on a machine that does
/// other things too.
const WAIT: Duration = Duration::from_millis(50);
const SOON: Duration = Duration::from_millis(100);
const BUSY: u32 = 3;
const TRIES: usize = 3;
/// Who has not ended by then never does.
const NEVER: Duration = Duration::from_secs(3);
/// Bytes; see `liger_server::Config::stack_bytes`.
const STACK: usize = 64 << 20;

/// Prepared once: big values to compute with.
const BIG: &str = "create domain d as int;
    create table lots (a int, b d, c text);
    insert into lots select g, g % 100, repeat('x', 20) || g from generate_series(1, 20000) g;
    create table big (t text, n numeric, a int[], m int[], j json, b jsonb);
    insert into big select repeat('abcdefghij', 100000), repeat('123456789', 12000)::numeric,
    (select array_agg(g) from generate_series(1, 200000) g),
    (select array_agg(-g) from generate_series(1, 100000) g),
    (select json_agg(g) from generate_series(1, 100000) g),
    (select jsonb_agg(g) from generate_series(1, 100000) g)";

/// Each may take long in one call.
const LONG: &[&str] = &[
    "select length((n * n * n * n * n * n * n * n)::text) from big",
    "select n / (n + 1) / 3 from big, generate_series(1, 1000)",
    "select div(n, 7::numeric ^ 3000) from big, generate_series(1, 100)",
    "select n % (n / 1e40000) from big, generate_series(1, 100)",
    "select length(n::text) from big, generate_series(1, 100)",
    "select sqrt(n) from big",
    "select ln(n) from big",
    "select log(n) from big",
    "select log(3, n) from big, generate_series(1, 1000)",
    "select exp(5000.123456789::numeric) from generate_series(1, 10000)",
    "select exp(1.5::numeric(1000, 900))",
    "select 1.0000001::numeric(1000, 900) ^ 123456.789",
    "select 12345.678 ^ 12345.678",
    "select 3::numeric ^ 270000",
    "select factorial(32177)",
    "select gcd(n, n * 7 + 1) from big",
    "select lcm(n, n * 7 + 1) from big",
    "select power(1 + 1e-15, 1e15)",
    "select sum(g::numeric / 7) from generate_series(1, 100000000) g",
    "select stddev(g) from generate_series(1, 100000000) g",
    "select round(n, 16000) from big, generate_series(1, 1000)",
    "select length(replace(t, 'a', repeat('b', 900))) from big, generate_series(1, 100)",
    "select length(replace(t, 'abc', '')) from big, generate_series(1, 1000)",
    "select length(repeat('x', 100000000)) from generate_series(1, 1000)",
    "select length(lpad('x', 20000000, 'ab')) from generate_series(1, 1000)",
    "select length(rpad('x', 20000000, 'ab')) from generate_series(1, 1000)",
    "select length(reverse(t)) from big, generate_series(1, 10000)",
    "select length(upper(t)) from big, generate_series(1, 10000)",
    "select length(initcap(t)) from big, generate_series(1, 10000)",
    "select length(translate(t, 'abcdefghij', 'jihgfedcba')) from big, generate_series(1, 10000)",
    "select position(repeat('a', 5000) || 'b' in repeat('a', 1000000)) from generate_series(1, 1000)",
    "select strpos(repeat('ab', 500000), repeat('ab', 100000) || 'c') from generate_series(1, 1000)",
    "select split_part(t, 'a', 99999) from big, generate_series(1, 1000)",
    "select count(*) from big, string_to_array(t, 'a') x, generate_series(1, 1000)",
    "select count(*) from big, string_to_table(t, 'a') x, generate_series(1, 1000)",
    "select md5(t) from big, generate_series(1, 10000)",
    "select sha512(t::bytea) from big, generate_series(1, 10000)",
    "select length(encode(t::bytea, 'base64')) from big, generate_series(1, 10000)",
    "select length(decode(encode(t::bytea, 'hex'), 'hex')) from big, generate_series(1, 10000)",
    "select levenshtein from (select repeat('a', 300000) like repeat('%a', 2000) || 'b' as levenshtein) x",
    "select repeat('a', 100000) like '%a%a%a%a%a%a%a%a%a%a%b'",
    "select repeat('a', 300000) like '%' || repeat('a', 10000) || 'b'",
    "select repeat('a', 100000) ~ '(a+)+b'",
    "select repeat('a', 30) ~ '^(a|a)*(a|a)*(a|a)*(a|a)*\\1b$' from generate_series(1, 100000)",
    "select repeat('a', 3000) ~ '(a*)*(a*)*\\1\\2c'",
    "select length(regexp_replace(t, '[a-j]', 'xx', 'g')) from big, generate_series(1, 1000)",
    "select count(*) from big, regexp_matches(t, '.', 'g') x",
    "select count(*) from big, regexp_split_to_table(t, 'b') x, generate_series(1, 1000)",
    "select regexp_count(t, '(a|b|c)+(d|e)*') from big, generate_series(1, 1000)",
    "select 'x' similar to repeat('(a|b)*', 300) || 'x' from generate_series(1, 10000)",
    "select length(format(repeat('%s', 100000), variadic a)) from big, generate_series(1, 1000)",
    "select length(string_agg(t, ',')) from big, generate_series(1, 800)",
    "select length(to_char(1234.5678, repeat('9,', 500000))) from generate_series(1, 1000)",
    "select length(to_char(now(), repeat('YYYY-MM-DD ', 100000))) from generate_series(1, 1000)",
    "select to_timestamp(repeat('2000 ', 100000), repeat('YYYY ', 100000)) from generate_series(1, 1000)",
    "select cardinality(array_fill(1, array[100000000]))",
    "select cardinality(array_fill(1, array[10000, 10000]))",
    "select count(*) from unnest(array_fill(1, array[30000000])) x",
    "select cardinality(a || a || a || a) from big, generate_series(1, 1000)",
    "select array_remove(a, 7), array_replace(a, 5, 6) from big, generate_series(1, 1000)",
    "select array_position(a, -1) from big, generate_series(1, 10000)",
    "select a @> array[-1] from big, generate_series(1, 10000)",
    "select a && m from big",
    "select a <@ (m || a) from big",
    "select length(array_to_string(a, ',')) from big, generate_series(1, 1000)",
    "select length(a::text) from big, generate_series(1, 1000)",
    "select a::text::int[] = a from big, generate_series(1, 1000)",
    "select array(select x from unnest(a) x order by -x) from big, generate_series(1, 1000)",
    "select length(j::jsonb::text) from big, generate_series(1, 1000)",
    "select b || b from big, generate_series(1, 1000)",
    "select b @> '[1, 99999, -1]' from big, generate_series(1, 1000)",
    "select b @> b from big",
    "select count(*) from big, json_array_elements(j) x, generate_series(1, 1000)",
    "select count(*) from big, jsonb_array_elements(b) x, generate_series(1, 1000)",
    "select jsonb_set(b, '{5}', '1') - 7 from big, generate_series(1, 1000)",
    "select jsonb_pretty(b) from big, generate_series(1, 1000)",
    "select b @? '$[*] ? (@ < 0)' from big, generate_series(1, 1000)",
    "select b @@ '$[*] == $[*] + 100001' from big",
    "select b @? '$[*] ? (@ == -1 && $[*] == -2)' from big",
    "select b @@ 'strict $ == $' from (select b from big) s, generate_series(1, 1000)",
    "select jsonb_path_query_array(b, '$.**.**.** ? (@.size() > 1)[*]') from big, generate_series(1, 1000)",
    "select count(*) from jsonb_path_query('[[[1, 2, 3, 4]]]', '$.**.**.**.**.**.**.**.**.**.**.**.**.**')",
    "select count('$.a'::text::jsonpath) from generate_series(1, 100000000)",
    "select ('$' || repeat('.a', 30000000))::jsonpath is null",
    "select json_object_agg(g, g) from generate_series(1, 20000000) g",
    "select jsonb_object_agg(g, g) from generate_series(1, 20000000) g",
    "select array_agg(g) from generate_series(1, 100000000) g",
    "select percentile_cont(0.5) within group (order by -g) from generate_series(1, 30000000) g",
    "select g, sum(g) over (order by -g rows between 100000 preceding and 100000 following) \
     from generate_series(1, 1000000) g",
    "select count(*) from generate_series(1::numeric, 1e30, 1)",
    "select count(*) from generate_series('0001-01-01'::timestamp, '9999-01-01', '1 second')",
    "select count(*) from generate_series(1, 2000000000) g where g < 0",
    "select * from pg_attribute a, pg_attribute b where pg_get_indexdef(a.attrelid) = 'x'",
    "select count(format_type(a.atttypid, a.atttypmod)) from pg_attribute a, pg_attribute b",
    "select bit_count(repeat('x', 100000000)::bytea) from generate_series(1, 100)",
    "copy (select * from lots, generate_series(1, 10000)) to stdout",
    "insert into lots select g, 1, 'x' from generate_series(1, 10000000) g",
    "create table made as select x.* from lots x, generate_series(1, 10000)",
    "alter table lots alter a type bigint using length(repeat(c, 200000))",
    "alter table lots add check (repeat(c, 20000) !~ '(x+)+y')",
    "alter domain d add check (repeat('a', 20000 + value) !~ '(a+)+b')",
    "update lots set a = (select count(*) from lots x where x.b = lots.b)",
    "delete from lots where (select count(*) from lots x where x.b = lots.b) < 0",
    "select count(*) from lots x join lots y on x.b = y.b join lots z on z.b = x.b",
    "select x.c from lots x, lots y order by x.c || y.c",
    "select rank() over (partition by x.b order by y.c desc) from lots x, lots y",
    "select x.c from lots x, lots y union select 'q'",
    "select x.c, count(distinct y.c) from lots x, lots y group by cube (x.a, x.b, x.c)",
    "select json_agg(row_to_json(x)) from lots x, generate_series(1, 1000)",
    "select count(*) from lots x, lots y where x.c || y.c ~ '(x|y)+1*2(3|4)5?$'",
    "with recursive r(n) as (select 1 union select n + 1 from r) select count(*) from r",
];

/// A session on a thread of its own, with what there is to compute with.
struct Worker {
    interrupt: Arc<Interrupt>,
    ask: Sender<&'static str>,
    answers: Receiver<Vec<String>>,
}

impl Worker {
    fn new() -> Worker {
        let start = start();
        let interrupt = start.interrupt.clone();
        let ((ask, asked), (said, answers)) = (channel::<&str>(), channel());
        let body = move || {
            let mut session = LocalSession::new(Memory::default(), start, Box::new(Fixed)).expect("it opens");
            assert_eq!(answer(&mut session, BIG).last().map(String::as_str), Some("INSERT 0 1"));
            let _ = said.send(Vec::new());
            for sql in asked {
                let _ = said.send(answer(&mut session, sql));
            }
        };
        std::thread::Builder::new().stack_size(STACK).spawn(body).expect("a thread");
        answers.recv().expect("it is ready");
        Worker { interrupt, ask, answers }
    }

    /// How long a statement took that was told to end, and how it ended; `None`: it has not.
    fn told(&self, sql: &'static str) -> Option<(Duration, String)> {
        let begun = Instant::now();
        self.ask.send(sql).expect("it lives");
        let got = self.answers.recv_timeout(WAIT).or_else(|_| {
            self.interrupt.raise(InterruptReason::StatementTimeout);
            self.answers.recv_timeout(NEVER)
        });
        let took = begun.elapsed();
        self.interrupt.rearm();
        let got = got.ok()?;
        Some((took, got.last().map_or(String::new(), |last| last.chars().take(60).collect())))
    }
}

#[test]
fn a_long_computation_hears_it() {
    let mut worker = Worker::new();
    assert_eq!(worker.told("select 1").map(|(_, last)| last).as_deref(), Some("1"));
    let mut late = Vec::new();
    for sql in LONG {
        let mut best = NEVER;
        for _ in 0..TRIES {
            match worker.told(sql) {
                Some((took, last)) => {
                    best = best.min(took);
                    println!("{took:?} {last} {sql}");
                }
                // It is left behind.
                None => worker = Worker::new(),
            }
            if best < WAIT + SOON || best == NEVER {
                break;
            }
        }
        if best > WAIT + SOON * BUSY {
            println!("late: {best:?} {sql}");
            late.push(format!("{best:?}: {sql}"));
        }
    }
    assert!(late.is_empty(), "{late:#?}");
}
