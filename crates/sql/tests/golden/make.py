#!/usr/bin/env python3
"""Asks a PostgreSQL 15 server for the answers to the cases in this folder (*.cases -> *.expected).

A case is a line: an expression of SQL; `rows f(..)` for all rows of a function; `agg f(x, ..) over array` for an
aggregate over the elements x of an array; `within f(..) over array` for an ordered-set aggregate; `send f x` for
the binary form of x, which PostgreSQL's function f makes. An answer is the text of the result, `NULL`, or `!` and the SQLSTATE. Usage: PGHOST=... PGUSER=... ./make.py
"""

import pathlib
import subprocess

HERE = pathlib.Path(__file__).parent
PRELUDE = r"""
\set QUIET on
set timezone = 'America/New_York';
set extra_float_digits = 1;
create or replace function pg_temp.answer(q text) returns text language plpgsql as $f$
declare r text;
begin
  execute q into r;
  return replace(replace(r, '\', '\\'), chr(10), '\n');
exception when others then
  return '!' || sqlstate;
end $f$;
"""


def query(case):
    if case.startswith("rows "):
        return f"select coalesce(string_agg(coalesce(format('%s', s), 'NULL'), '|'), '') from {case[5:]} s"
    if case.startswith("send "):
        function, expression = case[5:].split(" ", 1)
        return f"select encode({function}({expression}), 'hex')"
    for word in ("agg ", "within "):
        if case.startswith(word):
            call, array = case[len(word):].split(" over ")
            if word == "within ":
                call += " within group (order by x)"
            return (f"select case when r is null then 'NULL' else format('%s', r) end"
                    f" from (select {call} as r from unnest({array}) x) s")
    return f"select case when r is null then 'NULL' else format('%s', r) end from (select {case} as r) s"


def main():
    for cases in sorted(HERE.glob("*.cases")):
        lines = [line for line in cases.read_text().splitlines() if line and not line.startswith("#")]
        script = PRELUDE + "".join(f"select pg_temp.answer($case${query(line)}$case$);\n" for line in lines)
        done = subprocess.run(["psql", "-XAt"], input=script, capture_output=True, text=True, check=True)
        answers = done.stdout.splitlines()
        assert len(answers) == len(lines), (cases, len(answers), len(lines), done.stderr[:2000])
        cases.with_suffix(".expected").write_text("\n".join(answers) + "\n")
        print(cases.name, len(lines))


if __name__ == "__main__":
    main()
