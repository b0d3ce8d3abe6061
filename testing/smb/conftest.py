"""Fixtures of the SMB suites: one server that both protocols are asked of, a share for each test.

Marks:
  gap(reason)   not done yet by Lazuli; the test must fail, so that the day it is mended shows.
"""

import pytest
from azure.core.exceptions import HttpResponseError

import server as servers
import smb
from common import Refused, file_client, fresh_name


def pytest_configure(config):
    config.addinivalue_line("markers", "gap(reason): known gap of Lazuli")


def pytest_collection_modifyitems(items):
    for item in items:
        gap = item.get_closest_marker("gap")
        if gap:
            item.add_marker(pytest.mark.xfail(reason=gap.args[0], strict=True))


def run(**how):
    try:
        return servers.Server(**how).start()
    except servers.StartFailed as failure:
        pytest.exit(str(failure), returncode=1)


@pytest.fixture(scope="session")
def server():
    """Encryption is required, as it is unless said otherwise."""
    with run() as running:
        yield running
        assert running.process.poll() is None, "the server died:\n" + "".join(running.output[-40:])


@pytest.fixture(scope="session")
def offering():
    """A server that encrypts for whoever wishes it."""
    with run(extra=["--smb-encryption", "offered"]) as running:
        yield running
        assert running.process.poll() is None, "the server died:\n" + "".join(running.output[-40:])


@pytest.fixture(scope="session")
def shares(server):
    with file_client(server.endpoint_of("file")) as one:
        yield one


@pytest.fixture
def share(shares):
    """A share, as REST knows it."""
    one = shares.create_share(fresh_name("s"))
    yield one
    try:
        one.delete_share(delete_snapshots="include-leased")
    except HttpResponseError:
        pass  # a test may have deleted it itself


@pytest.fixture
def connect(server, share):
    """One more SMB client of the test's share."""
    clients = []

    def connect(name=None, **how):
        clients.append(smb.Client(server.smb_port, name or share.share_name, **how))
        return clients[-1]

    yield connect
    for client in clients:
        client.drop()


@pytest.fixture
def client(connect):
    return connect()


@pytest.fixture
def refused():
    """What REST refuses."""
    return Refused
