"""A pod of Liger and a PostgreSQL 15 beside it, in a temporary folder, both on 127.0.0.1 and both gone at the end."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "differential"))
sys.dont_write_bytecode = True
from client import Client, Lost  # noqa: E402

PROGRAMS = pathlib.Path("/usr/lib/postgresql/15/bin")


def install(*packages):
    """Debian's packages, PostgreSQL's without a server that starts by itself."""
    common = pathlib.Path("/etc/postgresql-common")
    common.mkdir(exist_ok=True)
    if not (common / "createcluster.conf").exists():
        (common / "createcluster.conf").write_text("create_main_cluster = false\n")
    command = f"apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends {' '.join(packages)} >/dev/null"
    subprocess.run(command, shell=True, check=True)


def as_user(command):
    """Runs a command as a user who may start PostgreSQL: root may not."""
    words = ["su", "postgres", "-c", command] if os.getuid() == 0 else ["sh", "-c", command]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")


class Servers:
    """`pod_ports`, one for each host, and behind them `oracle_port`."""

    def __init__(self, liger, port, hosts=2, locale="C.UTF-8", settings=(), up=()):
        self.pod_ports, self.oracle_port = list(range(port, port + hosts)), port + hosts
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="servers-"))
        self.folder.chmod(0o755)
        self.log = self.folder / "up.log"
        with self.log.open("w") as log:
            self.pod = subprocess.Popen([liger, "up", str(self.folder / "pod"), "--hosts", str(hosts), "--port", str(port),
                                         "--durability", "storage", *up], stdout=log, stderr=log)
        if not PROGRAMS.exists():
            install("postgresql-15")
        self.data = self.folder / "oracle"
        self.data.mkdir()
        if os.getuid() == 0:
            shutil.chown(self.data, "postgres")
        as_user(f"{PROGRAMS}/initdb -D {self.data}/d -U postgres -A trust --locale={locale} -E UTF8 --no-sync")
        options = " ".join(f"-c {setting}" for setting in ("fsync=off", "autovacuum=off", *settings))
        as_user(f"{PROGRAMS}/pg_ctl -D {self.data}/d -l {self.data}/log -w start -o '-p {self.oracle_port} -k {self.data} {options}'")
        for host in range(hosts):
            self.wait(host)

    def wait(self, host, seconds=60):
        """Until a host takes connections, again or for the first time; False if it does not."""
        end = time.time() + seconds
        while time.time() < end:
            try:
                Client("127.0.0.1", self.pod_ports[host]).close()
                return True
            except (OSError, Lost):
                time.sleep(0.2)
        return False

    def end(self):
        self.pod.terminate()
        self.pod.wait(30)
        as_user(f"{PROGRAMS}/pg_ctl -D {self.data}/d -m immediate stop")
        shutil.rmtree(self.folder)
