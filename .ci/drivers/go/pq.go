// lib/pq by database/sql: text parameters, numbered statements, COPY by CopyIn.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lib/pq"
)

func pqOpen(port string) (*sql.DB, error) {
	return sql.Open("postgres", fmt.Sprintf("host=127.0.0.1 port=%s user=postgres dbname=postgres sslmode=disable", port))
}

func pqState(err error) string {
	var known *pq.Error
	if errors.As(err, &known) {
		return string(known.Code)
	}
	return fmt.Sprint(err)
}

func pqChecks() (passed, failed int) {
	for _, one := range []struct {
		name string
		body func(db *sql.DB) error
	}{
		{"setup", pqSetup}, {"types round trip", pqTypes}, {"prepared statements", pqPrepared},
		{"transactions, savepoints, errors", pqTransactions}, {"copy", pqCopy}, {"cancel", pqCancel},
		{"columns of results", pqColumns},
	} {
		db, err := pqOpen(os.Args[1])
		if err == nil {
			err = one.body(db)
			db.Close()
		}
		if err != nil {
			failed++
			fmt.Printf("  FAILED lib/pq: %s: %v\n", one.name, err)
		} else {
			passed++
		}
	}
	return
}

func pqSetup(db *sql.DB) error {
	if err := db.Ping(); err != nil {
		return err
	}
	_, err := db.Exec(`drop table if exists pq_t, pq_types; create table pq_t (id serial primary key, v text);
		create table pq_types (b bool, i8 int8, n numeric(10,2), f8 float8, t text, by bytea, d date, tz timestamptz,
			at text[], jb jsonb, nul int)`)
	return err
}

func pqTypes(db *sql.DB) error {
	at := time.Date(2024, 2, 29, 12, 34, 56, 789000, time.UTC)
	words := []string{"a", `b "c"`}
	_, err := db.Exec("insert into pq_types values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)", true, int64(-5),
		"12.50", 0.1, "grüß\n\\'", []byte{0, 255}, at, at, pq.Array(words), `{"a": [1]}`, nil)
	if err != nil {
		return err
	}
	other, err := pqOpen(os.Args[2])
	if err != nil {
		return err
	}
	defer other.Close()
	var b bool
	var i8 int64
	var n, t, jb string
	var f8 float64
	var by []byte
	var d, tz time.Time
	var ats []string
	var nul sql.NullInt64
	err = other.QueryRow("select * from pq_types where i8 = $1", -5).Scan(&b, &i8, &n, &f8, &t, &by, &d, &tz,
		pq.Array(&ats), &jb, &nul)
	if err != nil {
		return err
	}
	return same([]any{b, i8, n, f8, t, by, d.Format(time.DateOnly), tz.UTC(), ats, jb, nul.Valid},
		[]any{true, int64(-5), "12.50", 0.1, "grüß\n\\'", []byte{0, 255}, "2024-02-29", at, words, `{"a": [1]}`, false})
}

func pqPrepared(db *sql.DB) error {
	statement, err := db.Prepare("insert into pq_t (v) values ($1) returning id")
	if err != nil {
		return err
	}
	defer statement.Close()
	for n := range 20 {
		var id int
		if err := statement.QueryRow(fmt.Sprint(n)).Scan(&id); err != nil || id != n+1 {
			return fmt.Errorf("%d: %v", id, err)
		}
	}
	result, err := db.Exec("update pq_t set v = 'x' where id <= $1", 5)
	if err != nil {
		return err
	}
	count, err := result.RowsAffected()
	if err != nil {
		return err
	}
	return same(count, int64(5))
}

func pqTransactions(db *sql.DB) error {
	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		return err
	}
	if _, err := tx.Exec("insert into pq_t values (100, 'a'); savepoint s"); err != nil {
		return err
	}
	_, err = tx.Exec("insert into pq_t values ($1, 'a')", 100)
	if err := same(pqState(err), "23505"); err != nil {
		return err
	}
	if _, err := tx.Exec("rollback to s"); err != nil {
		return err
	}
	if err := tx.Rollback(); err != nil {
		return err
	}
	var count int
	if err := db.QueryRow("select count(*) from pq_t where id = 100").Scan(&count); err != nil {
		return err
	}
	return same(count, 0)
}

func pqCopy(db *sql.DB) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	statement, err := tx.Prepare(pq.CopyIn("pq_t", "id", "v"))
	if err != nil {
		return err
	}
	for n := range 500 {
		if _, err := statement.Exec(1000+n, "tab\t"); err != nil {
			return err
		}
	}
	if _, err := statement.Exec(); err != nil {
		return err
	}
	if err := statement.Close(); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	var count int
	if err := db.QueryRow(`select count(*) from pq_t where v = E'tab\t'`).Scan(&count); err != nil {
		return err
	}
	return same(count, 500)
}

func pqCancel(db *sql.DB) error {
	short, stop := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer stop()
	start := time.Now()
	_, err := db.ExecContext(short, "select pg_sleep(20)")
	if err == nil || time.Since(start) > 5*time.Second {
		return fmt.Errorf("after %v: %v", time.Since(start), err)
	}
	return db.Ping()
}

func pqColumns(db *sql.DB) error {
	rows, err := db.Query("select id, v, 1.5 as n from pq_t limit 1")
	if err != nil {
		return err
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return err
	}
	var seen []string
	for _, one := range types {
		seen = append(seen, one.Name()+" "+one.DatabaseTypeName())
	}
	return same(seen, []string{"id INT4", "v TEXT", "n NUMERIC"})
}
