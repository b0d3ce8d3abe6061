"""Gateways on one Ceph cluster, and a balancer in front of them.

The cluster is the one that `with-cluster` started: LAZULI_CEPH_CLUSTER is its directory. Its account is the one of
development storage, so that the client suites find what they expect.
"""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients" / "python"))

from server import ACCOUNT, SERVICES, Server, binary  # noqa: E402

COPIED_BYTES = 1 << 16
CONNECT_SECONDS = 5


class Cluster:
    """What a test may do to the cluster; `cluster` does it."""

    def __init__(self, directory=None):
        self.directory = Path(directory or os.environ["LAZULI_CEPH_CLUSTER"])

    def engine(self):
        """The options that make the program use it."""
        return ["--engine", "rados", "--ceph-conf", str(self.directory / "ceph.conf"), "--ceph-user", "lazuli"]

    def do(self, *words, last=()):
        subprocess.run([HERE / "cluster", *words, self.directory, *(str(word) for word in last)], check=True)

    def osd(self, verb, number):
        self.do("osd", verb, last=[number])

    def wait_clean(self, seconds=120):
        self.do("wait-clean", last=[seconds])

    def account(self, *words):
        """`lazuli account …`, as somebody with the cluster's credentials runs it."""
        command = [binary(), "account", *words, *self.engine()]
        done = subprocess.run(command, env=without_ours(), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"lazuli account {words[0]}: {done.stderr}"
        return done.stdout


def without_ours():
    """Words of this test, as LAZULI_CEPH_CONF, are settings of the program, too."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LAZULI_")}


class Gateway(Server):
    """One of them. `ahead` is by how many seconds its clock is wrong."""

    def __init__(self, cluster, ahead=0, **how):
        super().__init__(**how)
        self.cluster, self.ahead = cluster, ahead

    def storage(self):
        return self.cluster.engine()

    def command(self):
        if not self.ahead:
            return super().command()
        # What the program `faketime` does, but that it would stay in between and keep signals to itself.
        library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
        return ["env", f"LD_PRELOAD={library}", f"FAKETIME={self.ahead:+}s", *super().command()]


class Balancer:
    """Each connection goes to the next gateway in turn, and to another one if that does not take it. One port for each service.

    On plain sockets: the streams of asyncio forget what they have read when the connection is reset after it, and so would lose the
    answer of a gateway that refuses a body and closes."""

    def __init__(self):
        self.gateways, self.turn, self.ports = [], 0, {}
        self.tasks = set()  # the loop itself would forget those that wait
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        for service in SERVICES:
            listener = socket.create_server(("127.0.0.1", 0), backlog=512)
            listener.setblocking(False)
            self.ports[service] = listener.getsockname()[1]
            asyncio.run_coroutine_threadsafe(self.listen(service, listener), self.loop).result()
        return self

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self.drop(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    async def drop(self):
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def endpoint_of(self, service):
        return f"http://127.0.0.1:{self.ports[service]}/{ACCOUNT}"

    def spawn(self, work):
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def listen(self, service, listener):
        self.spawn(self.accept(service, listener))

    async def accept(self, service, listener):
        with listener:
            while True:
                client, _ = await self.loop.sock_accept(listener)
                self.spawn(self.serve(service, client))

    async def serve(self, service, client):
        with client:
            for _ in self.gateways:
                self.turn += 1
                port = self.gateways[self.turn % len(self.gateways)].ports[service]
                with socket.socket() as gateway:
                    gateway.setblocking(False)
                    try:
                        await asyncio.wait_for(self.loop.sock_connect(gateway, ("127.0.0.1", port)), CONNECT_SECONDS)
                    except (OSError, asyncio.TimeoutError):
                        continue
                    await asyncio.gather(self.copy(client, gateway), self.copy(gateway, client))
                return

    async def copy(self, source, target):
        """One direction, to its end. Who does not listen any more may still have something to say: what is said to him is lost."""
        with contextlib.suppress(OSError):
            while piece := await self.loop.sock_recv(source, COPIED_BYTES):
                with contextlib.suppress(OSError):
                    await self.loop.sock_sendall(target, piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def running(cluster, number=2, ahead=0):
    """So many gateways, the last of them with a clock that is wrong, and their balancer."""
    if ACCOUNT not in cluster.account("list").split():
        cluster.account("create", ACCOUNT, "--published-development-key")
    with Balancer() as balancer, contextlib.ExitStack() as stack:
        # A service may copy from another one, which the gateways know by their own ports only.
        known = [word for port in balancer.ports.values() for word in ("--copy-source", f"127.0.0.1:{port}")]
        for n in range(number):
            gateway = Gateway(cluster, ahead=ahead if n == number - 1 else 0, extra=known)
            balancer.gateways.append(stack.enter_context(gateway))
        yield balancer.gateways, balancer


def environment(gateways, balancer):
    """What tells the suites where they are. Where the cluster is they need not know: servers they start are not of it."""
    told = {f"LAZULI_{service.upper()}_ENDPOINT": balancer.endpoint_of(service) for service in SERVICES}
    each = [{service: gateway.endpoint_of(service) for service in SERVICES} for gateway in gateways]
    blobs = balancer.endpoint_of("blob").rsplit("/", 1)[0]
    ours = {name: value for name, value in os.environ.items() if name not in ("LAZULI_CEPH_CONF", "LAZULI_CEPH_USER")}
    return dict(ours, **told, LAZULI_GATEWAYS=json.dumps(each), AZURITE_BLOB_STORAGE_URL=blobs)
