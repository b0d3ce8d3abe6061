"""Many connections that do nothing cost little, and new clients are served meanwhile. The figures of the long run stand in docs/limits.md."""

import os
import re
import time
from pathlib import Path

import pytest

from wire import allow_files, ask, connect, everything, signed, status

FULL = bool(os.environ.get("LAZULI_TEST_FULL"))
CONNECTIONS = 10_000 if FULL else 1_000
# Per connection, the sockets' own memory in the kernel aside.
KIB_MAX = 16


def resident_kib(server):
    return int(re.search(r"^VmRSS:\s+(\d+)", Path(f"/proc/{server.process.pid}/status").read_text(), re.MULTILINE).group(1))


@pytest.mark.parametrize("what", ["http", "http after a request", "smb"])
def test_idle_connections(start, what):
    if allow_files(CONNECTIONS + 2000) < CONNECTIONS + 1100:
        pytest.skip("the system gives this process too few files")
    server = start("--connections-max", CONNECTIONS + 64, "--connections-per-address-max", CONNECTIONS + 64, "--idle-timeout", 600)
    request = signed("GET", "/?comp=list", close=False)
    assert status(ask(server.port, signed("GET", "/?comp=list"))) == 200
    before = resident_kib(server)
    port = server.smb_port if what == "smb" else server.port
    idle = []
    for _ in range(CONNECTIONS):
        idle.append(connect(port))
        if what == "http after a request":
            idle[-1].sendall(request)
            assert idle[-1].recv(65536).startswith(b"HTTP/1.1 200")
    begun = time.monotonic()
    answered = [status(ask(server.port, signed("GET", "/?comp=list"))) for _ in range(20)]
    seconds = (time.monotonic() - begun) / 20
    kib = (resident_kib(server) - before) / CONNECTIONS
    print(f"\n{CONNECTIONS} idle, {what}: {kib:.1f} KiB each; a new client is answered in {seconds * 1000:.1f} ms")
    assert answered == [200] * 20 and seconds < 1
    assert kib < KIB_MAX
    for one in idle:
        one.close()
