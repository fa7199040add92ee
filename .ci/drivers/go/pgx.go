// pgx: binary formats, statements it prepares by itself, batches, COPY, cancellation by context.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

var all = context.Background()

func pgxConnect(port string) (*pgx.Conn, error) {
	return pgx.Connect(all, fmt.Sprintf("postgres://postgres@127.0.0.1:%s/postgres?sslmode=disable", port))
}

func same(seen, expected any) error {
	if !reflect.DeepEqual(seen, expected) {
		return fmt.Errorf("expected %#v, but there is %#v", expected, seen)
	}
	return nil
}

func state(err error) string {
	var known *pgconn.PgError
	if errors.As(err, &known) {
		return known.Code
	}
	return fmt.Sprint(err)
}

type check struct {
	name string
	body func(c *pgx.Conn) error
}

func pgxChecks() (passed, failed int) {
	for _, one := range []check{
		{"setup", pgxSetup}, {"types round trip", pgxTypes}, {"arrays, json, enums", pgxLooked},
		{"prepared statements", pgxPrepared}, {"batches", pgxBatch}, {"copy", pgxCopy},
		{"transactions and savepoints", pgxTransactions}, {"errors with states", pgxErrors},
		{"conflicts are retried", pgxConflicts}, {"rows as they come", pgxRows}, {"cancel and time-out", pgxCancel},
		{"modes of execution", pgxModes},
	} {
		c, err := pgxConnect(os.Args[1])
		if err == nil {
			err = one.body(c)
			c.Close(all)
		}
		if err != nil {
			failed++
			fmt.Printf("  FAILED pgx: %s: %v\n", one.name, err)
		} else {
			passed++
		}
	}
	return
}

func pgxSetup(c *pgx.Conn) error {
	_, err := c.Exec(all, `drop table if exists gx_t, gx_types; drop type if exists gx_mood;
		create type gx_mood as enum ('sad', 'ok');
		create table gx_t (id int primary key, v text, n bigint);
		create table gx_types (b bool, i2 int2, i4 int4, i8 int8, n numeric(20,5), f8 float8, f4 float4, t text,
			v varchar(10), by bytea, d date, ts timestamp, tz timestamptz, u uuid, ai int4[], at text[], j json,
			jb jsonb, iv interval, m gx_mood, nul int)`)
	return err
}

func pgxTypes(c *pgx.Conn) error {
	at := time.Date(2024, 2, 29, 12, 34, 56, 789000, time.UTC)
	number := pgtype.Numeric{Int: big.NewInt(-12345678901234), Exp: -5, Valid: true}
	word := "x"
	sent := []any{true, int16(-32768), int32(1), int64(-9223372036854775808), number, 0.1, float32(1.5), "grüß\n\\'",
		"", []byte{0, 1, 255}, at.Truncate(24 * time.Hour), at, at, [16]byte{1, 2, 3}, []int32{1, 2},
		[]*string{&word, nil}, map[string]any{"a": 1.0}, []any{"x", nil, 2.5}, 90 * time.Minute, "ok", nil}
	_, err := c.Exec(all, `insert into gx_types values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
		$15, $16, $17, $18, $19, $20, $21)`, sent...)
	if err != nil {
		return err
	}
	other, err := pgxConnect(os.Args[2])
	if err != nil {
		return err
	}
	defer other.Close(all)
	var b bool
	var i2 int16
	var i8 int64
	var n pgtype.Numeric
	var f8 float64
	var t string
	var by []byte
	var d, ts, tz time.Time
	var u [16]byte
	var ai []int32
	var ats []*string
	var jb any
	var iv time.Duration
	var m string
	var nul *int
	row := other.QueryRow(all, "select b, i2, i8, n, f8, t, by, d, ts, tz, u, ai, at, jb, iv, m, nul from gx_types")
	err = row.Scan(&b, &i2, &i8, &n, &f8, &t, &by, &d, &ts, &tz, &u, &ai, &ats, &jb, &iv, &m, &nul)
	if err != nil {
		return err
	}
	seen := []any{b, i2, i8, f8, t, by, d, ts, tz.UTC(), u, ai, *ats[0], ats[1] == nil, jb, iv, m, nul == nil}
	if err := same(seen, []any{true, int16(-32768), int64(-9223372036854775808), 0.1, "grüß\n\\'", []byte{0, 1, 255},
		at.Truncate(24 * time.Hour), at, at, [16]byte{1, 2, 3}, []int32{1, 2}, "x", true, []any{"x", nil, 2.5},
		90 * time.Minute, "ok", true}); err != nil {
		return err
	}
	text, err := n.Value()
	if err != nil {
		return err
	}
	return same(text, "-123456789.01234")
}

func pgxLooked(c *pgx.Conn) error {
	mood, err := c.LoadType(all, "gx_mood")
	if err != nil {
		return err
	}
	c.TypeMap().RegisterType(mood)
	moods, err := c.LoadType(all, "_gx_mood")
	if err != nil {
		return err
	}
	c.TypeMap().RegisterType(moods)
	var seen []string
	if err := c.QueryRow(all, "select $1::gx_mood[]", []string{"sad", "ok"}).Scan(&seen); err != nil {
		return err
	}
	var ids []int32
	if err := c.QueryRow(all, "select array_agg(g) from generate_series(1, 3) g").Scan(&ids); err != nil {
		return err
	}
	return same([]any{seen, ids}, []any{[]string{"sad", "ok"}, []int32{1, 2, 3}})
}

func pgxPrepared(c *pgx.Conn) error {
	described, err := c.Prepare(all, "one", "insert into gx_t values ($1, $2, $3) returning id")
	if err != nil {
		return err
	}
	if err := same(described.ParamOIDs, []uint32{23, 25, 20}); err != nil {
		return err
	}
	for n := range 20 {
		var id int
		if err := c.QueryRow(all, "one", n, "x", n).Scan(&id); err != nil || id != n {
			return fmt.Errorf("%d: %v", id, err)
		}
	}
	if _, err := c.Exec(all, "select * from gx_t where id = $1", 1); err != nil {
		return err
	}
	if _, err := c.Exec(all, "alter table gx_t add column later int"); err != nil {
		return err
	}
	if _, err := c.Exec(all, "alter table gx_t drop column later"); err != nil {
		return err
	}
	_, err = c.Exec(all, "select * from gx_t where id = $1", 1)
	return err
}

func pgxBatch(c *pgx.Conn) error {
	batch := &pgx.Batch{}
	for n := range 50 {
		batch.Queue("insert into gx_t values ($1, $2, $3)", 100+n, "b", n)
	}
	sum := 0
	batch.Queue("select sum(n)::int from gx_t where id between 100 and 149").QueryRow(func(row pgx.Row) error {
		return row.Scan(&sum)
	})
	if err := c.SendBatch(all, batch).Close(); err != nil {
		return err
	}
	if err := same(sum, 1225); err != nil {
		return err
	}
	batch = &pgx.Batch{}
	batch.Queue("insert into gx_t values (9000)")
	batch.Queue("insert into gx_t values (9000)")
	if seen := state(c.SendBatch(all, batch).Close()); seen != "23505" {
		return errors.New(seen)
	}
	var count int
	if err := c.QueryRow(all, "select count(*) from gx_t where id = 9000").Scan(&count); err != nil {
		return err
	}
	return same(count, 0)
}

func pgxCopy(c *pgx.Conn) error {
	var rows [][]any
	for n := range 1000 {
		rows = append(rows, []any{1000 + n, nil, int64(n)})
	}
	count, err := c.CopyFrom(all, pgx.Identifier{"gx_t"}, []string{"id", "v", "n"}, pgx.CopyFromRows(rows))
	if err != nil {
		return err
	}
	return same(count, int64(1000))
}

func pgxTransactions(c *pgx.Conn) error {
	err := pgx.BeginTxFunc(all, c, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(all, "insert into gx_t values (3000)"); err != nil {
			return err
		}
		inner := pgx.BeginFunc(all, tx, func(tx pgx.Tx) error {
			tx.Exec(all, "insert into gx_t values (3001)")
			_, err := tx.Exec(all, "insert into gx_t values (3000)")
			return err
		})
		if state(inner) != "23505" {
			return inner
		}
		var count int
		if err := tx.QueryRow(all, "select count(*) from gx_t where id between 3000 and 3999").Scan(&count); err != nil {
			return err
		}
		if err := same(count, 1); err != nil {
			return err
		}
		return errors.New("back")
	})
	if err == nil || err.Error() != "back" {
		return err
	}
	err = pgx.BeginTxFunc(all, c, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		_, err := tx.Exec(all, "insert into gx_t values (3000)")
		return err
	})
	return same(state(err), "25006")
}

func pgxErrors(c *pgx.Conn) error {
	for sql, code := range map[string]string{"selec": "42601", "select * from nowhere": "42P01", "select 1/0": "22012",
		"insert into gx_t values (1)": "23505", "insert into gx_t values (null)": "23502"} {
		_, err := c.Exec(all, sql)
		if err := same(state(err), code); err != nil {
			return err
		}
	}
	return nil
}

func pgxConflicts(c *pgx.Conn) error {
	if _, err := c.Exec(all, "insert into gx_t values (7777, '', 0)"); err != nil {
		return err
	}
	var group sync.WaitGroup
	for _, port := range os.Args[1:3] {
		pool, err := pgxpool.New(all, fmt.Sprintf("postgres://postgres@127.0.0.1:%s/postgres?sslmode=disable", port))
		if err != nil {
			return err
		}
		defer pool.Close()
		group.Go(func() {
			for range 20 {
				for {
					err := pgx.BeginTxFunc(all, pool, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
						var n int
						if err := tx.QueryRow(all, "select n from gx_t where id = 7777").Scan(&n); err != nil {
							return err
						}
						_, err := tx.Exec(all, "update gx_t set n = $1 where id = 7777", n+1)
						return err
					})
					if err == nil || state(err) != "40001" {
						break
					}
					time.Sleep(2 * time.Millisecond)
				}
			}
		})
	}
	group.Wait()
	var n int
	if err := c.QueryRow(all, "select n from gx_t where id = 7777").Scan(&n); err != nil {
		return err
	}
	return same(n, 40)
}

func pgxRows(c *pgx.Conn) error {
	rows, err := c.Query(all, "select g, g::text as t from generate_series(1, 5000) g")
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[struct {
		G int
		T string
	}])
	if err != nil {
		return err
	}
	return same([]any{len(found), found[4999].T}, []any{5000, "5000"})
}

func pgxCancel(c *pgx.Conn) error {
	start := time.Now()
	short, stop := context.WithTimeout(all, 300*time.Millisecond)
	defer stop()
	if _, err := c.Exec(short, "select pg_sleep(20)"); err == nil {
		return errors.New("nobody cancelled")
	}
	again, err := pgxConnect(os.Args[1])
	if err != nil {
		return err
	}
	defer again.Close(all)
	if _, err := again.Exec(all, "set statement_timeout = 200"); err != nil {
		return err
	}
	_, err = again.Exec(all, "select pg_sleep(20)")
	if time.Since(start) > 5*time.Second {
		return errors.New("slow to end")
	}
	return same(state(err), "57014")
}

func pgxModes(c *pgx.Conn) error {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		var id int
		var when time.Time
		row := c.QueryRow(all, "select id, now() from gx_t where id = $1 and v = $2", mode, 2, "x")
		if err := row.Scan(&id, &when); err != nil {
			return fmt.Errorf("%v: %w", mode, err)
		}
	}
	return nil
}
