"""A pod of one or two hosts in a temporary folder, for what is done to its SQL ports, and what can be seen of its processes."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "differential"))
sys.dont_write_bytecode = True
from client import Client, Lost  # noqa: E402

PASSWORD = "correct horse"
RULES = """host all guest all scram-sha-256
host all clear all password
host all closed all reject
hostssl all tlsonly all trust
hostnossl all tlsonly all reject
host all all 127.0.0.1/32 trust
"""


class Pod:
    def __init__(self, liger, port, *options, hosts=1, durability="storage"):
        self.port, self.hosts = port, hosts
        self.folder = pathlib.Path(tempfile.mkdtemp())
        rules = self.folder / "rules"
        rules.write_text(RULES)
        command = [liger, "up", str(self.folder / "pod"), "--hosts", str(hosts), "--port", str(port), "--durability", durability,
                   "--hba", str(rules), "--tls", "--metrics-port", str(port + 5), *options]
        self.log = self.folder / "up.log"
        with self.log.open("w") as log:
            self.up = subprocess.Popen(command, stdout=log, stderr=log)
        for host in range(hosts):
            self.wait(host)
        with self.client() as client:
            for role in ("guest", "clear"):
                client.run("simple", f"create role {role} login password '{PASSWORD}'")
            client.run("simple", "create role tlsonly login")

    def wait(self, host):
        for _ in range(240):
            try:
                Client("127.0.0.1", self.port + host).close()
                return
            except (OSError, Lost):
                time.sleep(0.5)
        raise SystemExit(f"host {host} did not start:\n{self.log.read_text()}")

    def client(self, host=0):
        return Client("127.0.0.1", self.port + host)

    def lines(self, name, host=0):
        """The lines of one of the host's figures at /metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port + 5 + host}/metrics", timeout=20) as page:
            return [line for line in page.read().decode().splitlines() if line.replace("{", " ").split(" ")[0] == name]

    def figure(self, name, host=0):
        return float(self.lines(name, host)[0].split(" ")[1])

    def process(self, host=0):
        return int((self.folder / "pod" / f"host-{host}" / "process").read_text().split()[0])

    def status(self, name, host=0):
        """A number of the process's /proc/PID/status: VmRSS (KiB), Threads."""
        for line in pathlib.Path(f"/proc/{self.process(host)}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1])
        raise KeyError(name)

    def said(self, host=0):
        return (self.folder / "pod" / f"host-{host}" / "said").read_text(errors="replace")

    def end(self):
        self.up.terminate()
        self.up.wait(60)
        shutil.rmtree(self.folder)
