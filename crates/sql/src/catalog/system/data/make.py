#!/usr/bin/env python3
"""Makes relations.tsv (name, oid, column, its type's oid, whether it is never NULL) and rows.tsv (name, then a
row's values; \\N is NULL) in this folder from the file that PostgreSQL 15 bootstraps its catalog from: clients
know these relations by their oids, columns and types. Rows are kept of relations that no object of a user ever
adds to. Usage: make.py /usr/share/postgresql/15/postgres.bki"""
import pathlib, re, sys

here = pathlib.Path(__file__).parent
table = {}
for line in (here / "../../../func/data/types.tsv").read_text().splitlines():
    fields = line.split("\t")
    table[fields[1]] = (fields[0], int(fields[2]))
# Types that no value ever has: statistics of several columns.
for name in ("pg_ndistinct", "pg_dependencies", "pg_mcv_list", "_pg_statistic"):
    table[name] = table["text"]
known = {oid for oid, _ in table.values()}
kept = {"pg_am": None, "pg_language": None, "pg_tablespace": None, "pg_collation": None, "pg_opfamily": None,
        "pg_opclass": 6}
relations, rows, relation = [], [], None
for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
    if made := re.match(r"create (\w+) (\d+)", line):
        relation, oid, fixed, families = made[1], made[2], True, set()
    elif relation and (column := re.match(r" (\w+) = (\w+) ?(FORCE NOT NULL|FORCE NULL)? ?,?$", line)):
        name, ty, force = column.groups()
        number, length = table[ty]
        fixed = fixed and (length > 0 or ty in ("oidvector", "int2vector")) and force != "FORCE NULL"
        present = fixed if force is None else force == "FORCE NOT NULL"
        fixed = fixed and present
        relations.append("\t".join((relation, oid, name, number, "t" if present else "f")))
    elif relation in kept and line.startswith("insert"):
        values = re.findall(r"'(?:[^']|'')*'|[^\s]+", line[len("insert ("):-1])
        values = [v[1:-1].replace("''", "'") if v[0] == "'" else r"\N" if v == "_null_" else v for v in values]
        if kept[relation] is None or values[kept[relation]] in known:
            rows.append("\t".join([relation] + values))
# A view in PostgreSQL, over a function that is not here. Addresses are text.
activity = """datid oid, datname name, pid int4, leader_pid int4, usesysid oid, usename name, application_name text,
client_addr text, client_hostname text, client_port int4, backend_start timestamptz, xact_start timestamptz,
query_start timestamptz, state_change timestamptz, wait_event_type text, wait_event text, state text,
backend_xid xid, backend_xmin xid, query_id int8, query text, backend_type text"""
for column in activity.split(","):
    name, ty = column.split()
    relations.append("\t".join(("pg_stat_activity", "12900", name, table[ty][0], "f")))
(here / "relations.tsv").write_text("\n".join(relations) + "\n")
(here / "rows.tsv").write_text("\n".join(rows) + "\n")
