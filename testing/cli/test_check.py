"""`lazuli check`, of a directory that was damaged."""

import sys
from pathlib import Path

import pytest

import server as servers

sys.path.append(str(Path(__file__).resolve().parents[1] / "hostile"))

from wire import connect, signed  # noqa: E402


@pytest.fixture
def directory():
    """Of a server that has stopped, with tables on the disk."""
    with servers.Server() as server:
        with connect(server.port) as one:
            requests = [signed("PUT", "/box?restype=container", close=False)]
            requests += [signed("PUT", f"/box/{n}", b"%d" % n * 700, {"x-ms-blob-type": "BlockBlob"}, close=False) for n in range(9000)]
            for request in requests:
                one.sendall(request)
                assert one.recv(65536).startswith(b"HTTP/1.1 201")
        server.stop()
        yield server.data


def test_a_damaged_table_is_damage(lazuli, directory):
    """It is told of, and does not keep the rest from being looked at: what cannot be read because of it is no failure of the disk."""
    assert lazuli("check", directory).code == 0
    table = max(directory.glob("fjall/keyspaces/*/tables/*"), key=lambda path: path.stat().st_size)
    assert table.stat().st_size > 1 << 20
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 4
    table.write_bytes(content)
    checked = lazuli("check", directory)
    assert checked.code == 1, checked
    said = checked.out.splitlines()
    assert said[0] == f"{table} is damaged: its checksum does not match"
    assert any(line.startswith("account devstoreaccount1, container box: ") for line in said), "goes on"
    assert said[-1].startswith(f"{directory}: DAMAGED in ")
