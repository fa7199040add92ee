#!/usr/bin/env bash
# Liger and PostgreSQL by turns on this machine, both without durable commit and with their files in memory: pgbench, sysbench and TPC-C
# (4 warehouses), 1 and 4 clients. Both run with READ COMMITTED, PostgreSQL's default, and with SERIALIZABLE, Liger's. Where the example no_work is
# built beside LIGER (cargo build --release -p liger-server --example no_work), its answers show what client and system allow any server.
# Usage: versus.sh LIGER [ROUNDS [SECONDS]]; prints one line for each run: who, what, clients, transactions per second. Needs the packages
# postgresql and sysbench, and to be root (PostgreSQL runs as its own user). Ports 25500, 25600 and 25700.
set -euo pipefail
liger=$1 rounds=${2:-3} seconds=${3:-4}
bin=$(pg_config --bindir)
folder=$(mktemp -d -p /dev/shm)
chmod 755 "$folder"
mkdir "$folder/postgresql"
chown postgres "$folder/postgresql"
as_postgres() { su postgres -c "$1" >/dev/null; }
as_postgres "$bin/initdb -D $folder/postgresql -A trust"
options='-p 25500 -c fsync=off -c synchronous_commit=off -c shared_buffers=512MB -c unix_socket_directories=/tmp'
as_postgres "$bin/pg_ctl -D $folder/postgresql -o '$options' -w start"
"$liger" up "$folder/liger" --hosts 1 --port 25600 >"$folder/up.log" 2>&1 &
up=$!
no_work=$(dirname "$liger")/examples/no_work answers=
if [ -x "$no_work" ]; then
  mkfifo "$folder/ends"
  "$no_work" 127.0.0.1:25700 <"$folder/ends" &
  answers=$!
  exec 9>"$folder/ends"
fi
finish() {
  exec 9>&-
  [ -z "$answers" ] || wait "$answers" || true
  kill "$up" && wait "$up" || true
  as_postgres "$bin/pg_ctl -D $folder/postgresql -m fast stop"
  rm -rf "$folder"
}
trap finish EXIT

sysbench_at() { # PORT WORKLOAD ARGUMENTS...
  sysbench "$2" --db-driver=pgsql --pgsql-host=127.0.0.1 --pgsql-port="$1" --pgsql-user=postgres --pgsql-db=postgres --tables=1 \
    --table-size=10000 "${@:3}"
}

for port in 25500 25600; do
  until psql -X -q -h 127.0.0.1 -p "$port" -U postgres -c 'select 1' >/dev/null 2>&1; do sleep 0.5; done
  pgbench -h 127.0.0.1 -p "$port" -U postgres -i -q -s 1 postgres >/dev/null 2>&1
  sysbench_at "$port" oltp_read_write prepare >/dev/null
  "$liger" bench tpcc-sql "127.0.0.1:$port" --warehouses 4 --load-only >/dev/null 2>&1
done
for _ in $(seq "$rounds"); do
  for clients in ${answers:+1 4}; do
    tps=$(sysbench_at 25700 oltp_point_select --threads="$clients" --time="$seconds" run | sed -n 's/.*transactions:.*(\(.*\) per sec.*/\1/p')
    echo "no-work sysbench-oltp_point_select $clients $tps"
  done
  for who in postgresql postgresql-serializable liger liger-read-committed; do
    [[ "$who" = liger* ]] && port=25600 || port=25500
    unset PGOPTIONS
    level=()
    case "$who" in
      postgresql-serializable) export PGOPTIONS='-c default_transaction_isolation=serializable'; level=(--isolation serializable) ;;
      liger-read-committed) export PGOPTIONS='-c default_transaction_isolation=read\ committed'; level=(--isolation 'read committed') ;;
    esac
    for clients in 1 4; do
      for script in select-only tpcb-like; do
        tps=$(pgbench -h 127.0.0.1 -p "$port" -U postgres -n -b "$script" -M prepared -T "$seconds" -c "$clients" --max-tries=1000 postgres |
          awk '/^tps/ { print $3 }')
        echo "$who pgbench-$script $clients $tps"
      done
      for workload in oltp_point_select oltp_read_only oltp_read_write oltp_update_index; do
        tps=$(sysbench_at "$port" "$workload" --threads="$clients" --time="$seconds" run | sed -n 's/.*transactions:.*(\(.*\) per sec.*/\1/p') ||
          tps='broken off' # by a conflict that it does not know
        echo "$who sysbench-$workload $clients $tps"
      done
      tps=$("$liger" bench tpcc-sql "127.0.0.1:$port" --warehouses 4 --loaded --no-check --connections "$clients" --seconds "$seconds" \
        --warm-up 1 "${level[@]}" --json 2>/dev/null | sed -n 's/.*"committed_per_s":\([0-9.]*\).*/\1/p')
      echo "$who tpcc $clients $tps"
    done
  done
done
