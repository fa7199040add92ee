"""psycopg (3) against `examples/made_up`: simple, extended, prepared, binary, pipeline, COPY, notices, cancel.

Usage: pip install 'psycopg[binary]'; python psycopg_made_up.py "host=127.0.0.1 port=5433 user=trusty dbname=x"
Not part of `cargo test`: it needs a package from PyPI.
"""

import sys
import threading

import psycopg


def main(conninfo):
    with psycopg.connect(conninfo, autocommit=True) as conn:
        notices = []
        conn.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        assert conn.execute("select 1").fetchone() == (1,)
        conn.execute("notice hello there")
        assert notices == ["hello there"], notices
        rows = conn.execute("rows 500").fetchall()
        assert rows[499] == (500, "row 500")
        assert conn.execute("rows 3", binary=True).fetchall()[2] == (3, "row 3")
        for _ in range(8):  # prepared on the server from the sixth time on
            assert conn.execute("echo %s %s", ("a", None)).fetchone() == ("a", None)
        with conn.pipeline():
            cursors = [conn.execute("echo %s", (str(n),)) for n in range(200)]
        assert [cursor.fetchone() for cursor in cursors] == [(str(n),) for n in range(200)]
        try:
            conn.execute("error 40001 try again")
            raise AssertionError("no error")
        except psycopg.errors.SerializationFailure as error:
            assert error.diag.message_detail == "d" and error.diag.constraint_name == "n"
        with conn.cursor() as cursor:
            with cursor.copy("copy in") as copy:
                for n in range(1000):
                    copy.write(f"{n}\n")
            assert cursor.rowcount == 1000, cursor.rowcount
            with cursor.copy("copy out 1000") as copy:
                assert sum(1 for _ in copy) == 1000
        threading.Timer(0.1, conn.cancel).start()
        try:
            conn.execute("sleep 60000")
            raise AssertionError("not cancelled")
        except psycopg.errors.QueryCanceled:
            pass
        conn.execute("listen news")
        conn.execute("notify news text")
        notify = next(conn.notifies(timeout=5, stop_after=1))
        assert (notify.channel, notify.payload) == ("news", "text")
    with psycopg.connect(conninfo) as conn:
        conn.execute("select 1")
        assert conn.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    print("ok", psycopg.__version__)


if __name__ == "__main__":
    main(sys.argv[1])
