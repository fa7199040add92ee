// goose: migrations in SQL, up and down, by its own table of versions. By the library that its command is made of.
package main

import (
	"database/sql"
	"fmt"
	"os"
	"testing/fstest"

	"github.com/pressly/goose/v3"
)

var gooseFiles = map[string]string{
	"00001_tables.sql": `-- +goose Up
create schema goose_;
create type goose_.mood as enum ('sad', 'ok', 'great');
create table goose_.users (id bigint generated always as identity primary key, name text not null unique, mood goose_.mood default 'ok');
create table goose_.posts (id serial primary key, author bigint not null references goose_.users on delete cascade, title varchar(20));
-- +goose Down
drop schema goose_ cascade;
`,
	"00002_rows.sql": `-- +goose Up
insert into goose_.users (name) select 'user ' || g from generate_series(1, 10) g;
insert into goose_.posts (author, title) select id, name from goose_.users;
-- +goose Down
delete from goose_.users;
`,
	"00003_altered.sql": `-- +goose Up
alter table goose_.posts add column made timestamptz not null default now(), alter column title type text, alter column title set not null;
alter table goose_.posts rename column title to headline;
create index posts_author on goose_.posts (author, made desc);
alter table goose_.posts add constraint headline_given check (headline <> '');
create view goose_.latest as select author, max(made) as made from goose_.posts group by author;
-- +goose Down
drop view goose_.latest;
alter table goose_.posts drop constraint headline_given;
drop index goose_.posts_author;
alter table goose_.posts rename column headline to title;
alter table goose_.posts alter column title drop not null, alter column title type varchar(20), drop column made;
`,
	"00004_outside.sql": `-- +goose NO TRANSACTION
-- +goose Up
create index concurrently users_lower on goose_.users (lower(name));
-- +goose StatementBegin
update goose_.users
set mood = 'great';
-- +goose StatementEnd
-- +goose Down
drop index concurrently goose_.users_lower;
`,
	"00005_wrong.sql": `-- +goose Up
create table goose_.half (id int);
insert into goose_.nowhere values (1);
-- +goose Down
drop table goose_.half;
`,
}

func gooseChecks() (passed, failed int) {
	files := fstest.MapFS{}
	for name, text := range gooseFiles {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	goose.SetBaseFS(files)
	goose.SetLogger(goose.NopLogger())
	db, err := sql.Open("pgx", fmt.Sprintf("postgres://postgres@127.0.0.1:%s/postgres?sslmode=disable", os.Args[1]))
	if err == nil {
		defer db.Close()
		_, err = db.Exec("drop schema if exists goose_ cascade; drop table if exists goose_db_version")
	}
	if err == nil {
		err = goose.SetDialect("postgres")
	}
	for _, one := range []struct {
		name string
		body func(db *sql.DB) error
	}{
		{"up", gooseUp}, {"a migration that fails leaves nothing", gooseWrong}, {"down", gooseDown},
		{"back to nothing", gooseReset},
	} {
		ended := err
		if ended == nil {
			ended = one.body(db)
		}
		if ended != nil {
			failed++
			fmt.Printf("  FAILED goose: %s: %v\n", one.name, ended)
		} else {
			passed++
		}
	}
	return
}

func gooseSees(db *sql.DB, query string, expected int64) error {
	var seen int64
	if err := db.QueryRow(query).Scan(&seen); err != nil {
		return err
	}
	return same(seen, expected)
}

func gooseUp(db *sql.DB) error {
	if err := goose.UpTo(db, ".", 4); err != nil {
		return err
	}
	if err := gooseSees(db, "select max(version_id) from goose_db_version where is_applied", 4); err != nil {
		return err
	}
	other, err := pqOpen(os.Args[2])
	if err != nil {
		return err
	}
	defer other.Close()
	if err := gooseSees(other, "select count(*) from goose_.latest join goose_.users u on u.id = author where mood = 'great'", 10); err != nil {
		return err
	}
	version, err := goose.GetDBVersion(other)
	if err != nil {
		return err
	}
	return same(version, int64(4))
}

func gooseWrong(db *sql.DB) error {
	if err := goose.Up(db, "."); err == nil {
		return fmt.Errorf("no error")
	}
	if err := gooseSees(db, "select count(*) from information_schema.tables where table_name = 'half'", 0); err != nil {
		return err
	}
	version, err := goose.GetDBVersion(db)
	if err != nil {
		return err
	}
	return same(version, int64(4))
}

func gooseDown(db *sql.DB) error {
	if err := goose.DownTo(db, ".", 2); err != nil {
		return err
	}
	columns := "select count(*) from information_schema.columns where table_schema = 'goose_' and table_name = 'posts'"
	if err := gooseSees(db, columns, 3); err != nil {
		return err
	}
	if err := gooseSees(db, "select count(*) from goose_.posts where title like 'user %'", 10); err != nil {
		return err
	}
	return nil
}

func gooseReset(db *sql.DB) error {
	if err := goose.Reset(db, "."); err != nil {
		return err
	}
	if err := gooseSees(db, "select count(*) from pg_namespace where nspname = 'goose_'", 0); err != nil {
		return err
	}
	_, err := db.Exec("drop table goose_db_version")
	return err
}
