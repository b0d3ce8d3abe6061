"""A small measurement runs, and leaves nothing."""

from azure.storage.blob import BlobServiceClient

from conftest import ANY_PORTS
from server import KEY


def rows(out):
    found = (line.rsplit(None, 4) for line in out.splitlines())
    return {parts[0]: [float(part) for part in parts[1:]] for parts in found if len(parts) == 5 and parts[1].replace(".", "").isdigit()}


def test_of_its_own(lazuli, tmp_path):
    done = lazuli("bench", "--seconds", "1", "--connections", "2", "--scratch", tmp_path)
    assert done.code == 0 and len(rows(done.out)) == 4, done
    assert all(rate > 0 and p50 <= p95 <= p99 for rate, p50, p95, p99 in rows(done.out).values())
    assert not list(tmp_path.glob("lazuli-bench-*"))


def test_of_one_that_runs(lazuli, serve):
    server = serve("--data", "d", *ANY_PORTS)
    done = lazuli("bench", "--seconds", "1", "--connections", "2", variables={"LAZULI_CONNECTION_STRING": server.connection})
    assert done.code == 0 and len(rows(done.out)) == 4, done
    assert list(BlobServiceClient(server.url("blob"), credential=KEY).list_containers()) == []
