#!/usr/bin/env python3
"""Writes the expected answers of the logic files: runs each *.sql here through psql on a PostgreSQL 15 server and
writes *.slt beside it. Statements are separated by lines that end with a semicolon. Usage: PGHOST=... make.py [file]
A fresh database is made for each file."""
import pathlib, re, subprocess, sys

here = pathlib.Path(__file__).parent
only = sys.argv[1:]
for path in sorted(here.glob("*.sql")):
    if only and path.stem not in only:
        continue
    statements, lines = [], []
    for line in path.read_text().splitlines():
        if not lines and (not line.strip() or line.startswith("--")):
            continue
        lines.append(line)
        if line.rstrip().endswith(";"):
            statements.append("\n".join(lines))
            lines = []
    name = "logic_" + path.stem
    base = ["psql", "-X", "-U", "postgres", "-v", "ON_ERROR_STOP=0"]
    subprocess.run(base + ["-q", "-d", "postgres", "-c", f"drop database if exists {name}", "-c",
                           f"create database {name}", "-c",
                           f"alter database {name} set default_transaction_isolation = 'serializable'"], check=True,
                   stderr=subprocess.DEVNULL)
    script = "\\set VERBOSITY sqlstate\n\\pset null NULL\n"
    for number, statement in enumerate(statements):
        script += f"\\echo @@{number}\n{statement}\n"
    run = subprocess.run(base + ["-At", "-F", "|", "-d", name], input=script, text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    parts = re.split(r"^@@(\d+)\n", run.stdout, flags=re.M)
    answers = {int(parts[i]): parts[i + 1] for i in range(1, len(parts), 2)}
    out = []
    for number, statement in enumerate(statements):
        answer = []
        for line in answers.get(number, "").splitlines():
            if line.startswith(("NOTICE:", "WARNING:", "DETAIL:", "HINT:", "LINE ")):
                continue
            answer.append(re.sub(r"^(?:psql:[^:]*:\d+: )?(?:ERROR|FATAL):\s+", "ERROR ", line))
        out.append(statement + "\n----\n" + "".join(line + "\n" for line in answer) + "====\n")
    (here / (path.stem + ".slt")).write_text("".join(out))
    print(path.stem, len(statements))
