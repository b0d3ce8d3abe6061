"""Starts the server under test, waits until it says it is ready, and stops it again.

Used by the client suite, by testing/kill9, by testing/ceph and by ../with-server. What is started is chosen by LAZULI_TEST_SERVER:
  lazuli    (default) the release binary, or the one named by LAZULI_BIN
  azurite   the peer, from node_modules under target/: a sanity check of the suites themselves
LAZULI_BLOB_ENDPOINT and so on, if set, name a server that is already running; then nothing is started.
LAZULI_TRIED, if set, names a file that learns which operations succeeded, and for which client; see ../tried.

A server is ready when it has said so on its standard output; nothing here polls a port or sleeps.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

READY_SECONDS_MAX = 60
# What no request may take: a gateway gives each operation of its cluster 30 s, and a request may be several.
ANSWER_SECONDS_MAX = 120

# The peer's ready line, and ours (design: one line that begins with `ready`).
READY = {
    "lazuli": re.compile(r"^ready\b"),
    "azurite": re.compile(r"Table service (is )?successfully listen", re.IGNORECASE),  # the last of its three
}
SERVICES = ["blob", "queue", "table", "file"]
# Said at log level debug for each request that succeeded.
ANSWERED = re.compile(r'DEBUG .*: answered .*operation=(\w+) status=(\d+) client="(.*)"$')


def kind():
    return os.environ.get("LAZULI_TEST_SERVER", "lazuli")


def binary():
    return os.environ.get("LAZULI_BIN") or str(TARGET / "release" / "lazuli")


def data_root():
    """Data directories live under target/: on a real disk, where sync means sync, and not on a small /tmp."""
    root = TARGET / "test-data"
    root.mkdir(parents=True, exist_ok=True)
    return root


def free_port():
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def port_is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def connection_string(endpoint, account=ACCOUNT, key=KEY):
    scheme = endpoint.split(":", 1)[0]
    return f"DefaultEndpointsProtocol={scheme};AccountName={account};AccountKey={key};BlobEndpoint={endpoint};"


class StartFailed(Exception):
    pass


class Server:
    """One running server. A context manager: leaving it stops the process and removes a data directory of its own."""

    def __init__(self, data=None, ports=None, tls=None, extra=(), memory_max_bytes=None, environment=None, console=False):
        self.kind = kind()
        self.own_data = data is None
        self.data = Path(data) if data else Path(tempfile.mkdtemp(prefix="server-", dir=data_root()))
        self.given_ports = dict(ports or {})
        self.has_console = console
        self.choose_ports()
        self.tls = tls
        self.extra = list(extra)
        self.memory_max_bytes = memory_max_bytes
        self.environment = dict(environment or {})
        self.process = None
        self.ready_seconds = None
        self.output = []
        self.tried = set()
        self._ready = threading.Event()

    def choose_ports(self):
        services = SERVICES if self.kind == "lazuli" else SERVICES[:3]
        self.ports = {service: self.given_ports.get(service) or free_port() for service in services}
        self.smb_port = free_port()
        self.console_port = free_port() if self.has_console else None

    @property
    def port(self):
        return self.ports["blob"]

    @property
    def endpoint(self):
        return self.endpoint_of("blob")

    def endpoint_of(self, service):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.ports[service]}/{ACCOUNT}"

    @property
    def console(self):
        """Its origin."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.console_port}"

    @property
    def queue_endpoint(self):
        return self.endpoint_of("queue")

    @property
    def table_endpoint(self):
        return self.endpoint_of("table")

    def command(self):
        if self.kind == "azurite":
            modules = TARGET / "js" / "node_modules"
            packaged = sorted(modules.glob("node-*/bin/node"))
            command = [
                str(packaged[0]) if packaged else "node", str(modules / "azurite/dist/src/azurite.js"),
                "--disableTelemetry", "--silent", "--skipApiVersionCheck",
                "--location", str(self.data),
            ]
            for service, port in self.ports.items():
                command += [f"--{service}Host", "127.0.0.1", f"--{service}Port", str(port)]
            return command + (["--cert", str(self.tls[0]), "--key", str(self.tls[1])] if self.tls else [])
        command = [binary(), "serve", *self.storage(), "--host", "127.0.0.1"]
        for service in SERVICES:
            command += [f"--{service}-port", str(self.ports.get(service, "off"))]
        command += ["--smb-port", str(self.smb_port), "--console-port", str(self.console_port or "off")]
        if os.environ.get("LAZULI_TRIED") and "--log" not in self.extra:
            command += ["--log", "debug"]
        if self.tls == "auto":
            command += ["--tls", "auto"]
        elif self.tls:
            command += ["--tls-cert", str(self.tls[0]), "--tls-key", str(self.tls[1])]
        return command + self.extra

    def storage(self):
        """Where it keeps what it is given."""
        return ["--data", str(self.data)]

    def start(self):
        """A free port may be somebody's by the time it is taken: then others are chosen, unless a client may know these already."""
        tries = 5 if self.process is None else 1
        for _ in range(tries - 1):
            try:
                return self._start()
            except StartFailed:
                if "Address already in use" not in "".join(self.output) or self.given_ports:
                    raise
                self.output.clear()
                self.choose_ports()
        return self._start()

    def _start(self):
        self._ready.clear()
        started = time.monotonic()
        # Tests read what the server says as text.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LAZULI_")} | {"LAZULI_LOG_FORMAT": "text"} | self.environment
        command = self.command()
        if self.memory_max_bytes:
            # The system refuses more private memory than this, and the server ends. What the allocator reserves without
            # using it would count too, so it is told to reserve without write access until it does.
            command = ["prlimit", f"--data={self.memory_max_bytes}"] + command
            environment["MIMALLOC_ARENA_EAGER_COMMIT"] = "0"
        try:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                env=environment, cwd=self.data,
            )
        except FileNotFoundError as missing:
            raise StartFailed(f"{missing.filename} is not there; build it with `cargo build --release`") from missing
        self._reader = threading.Thread(target=self._read, args=(self.process, started), daemon=True)
        self._reader.start()
        self._ready.wait(READY_SECONDS_MAX)
        if self.ready_seconds is None or self.process.poll() is not None:
            self.kill()
            raise StartFailed("the server did not become ready; it said:\n" + "".join(self.output[-40:]))
        return self

    def _read(self, process, started):
        self.ready_seconds = None
        for line in process.stdout:
            answered = ANSWERED.search(line)
            if answered:
                self.tried.add(answered.groups())
                continue
            self.output.append(line)
            if self.ready_seconds is None and READY[self.kind].search(line):
                self.ready_seconds = time.monotonic() - started
                self._ready.set()
        self._ready.set()  # the stream ended: whoever waits looks at ready_seconds

    def kill(self):
        """kill -9, as the crash tests mean it."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        if self.process:
            self.process.wait()
            self._reader.join()

    def stop(self):
        """SIGTERM; returns the exit code. A server that does not drain in time is killed, and that is an error."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError("the server did not exit within 30 s of SIGTERM")
        self._reader.join()
        return code

    def _tell_tried(self):
        path = os.environ.get("LAZULI_TRIED")
        if path and self.tried:
            with open(path, "a") as file:
                file.writelines(f"{operation}\t{status}\t{client}\n" for operation, status, client in sorted(self.tried))

    def memory_peak_bytes(self):
        """The most physical memory the process ever held (VmHWM)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE).group(1)) * 1024

    def __enter__(self):
        return self if self.process else self.start()

    def __exit__(self, *_):
        try:
            self.stop()
        finally:
            self._tell_tried()
            if self.own_data:
                shutil.rmtree(self.data, ignore_errors=True)


DEVELOPMENT_PORTS = {"blob": 10000, "queue": 10001, "table": 10002}


def start_on_development_port():
    """A running server where `UseDevelopmentStorage=true` looks for one, or None if a port is someone else's."""
    if not all(port_is_free(port) for port in DEVELOPMENT_PORTS.values()):
        return None
    server = Server(ports=DEVELOPMENT_PORTS)
    try:
        return server.start()
    except StartFailed:
        if "in use" in "".join(server.output):
            return None  # taken between the look and the start
        raise


if __name__ == "__main__":
    sys.exit("this is a module; see ../with-server")
