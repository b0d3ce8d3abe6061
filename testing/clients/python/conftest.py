"""Fixtures of the Python suite: one server for all tests that share one, clients without retries, a container per test.

Marks:
  gap(reason)      not done yet by Lazuli; the test must fail there, so that the day it is mended shows. See ../GAPS.md.
  azurite(reason)  the peer answers otherwise than the service; only looked at when the suite runs against the peer.
  alone(reason)    not for a balancer with gateways behind it (testing/ceph).
"""

import os
import socket
from types import SimpleNamespace

import pytest
from azure.core.exceptions import HttpResponseError

import issuer
import server as servers
from common import Refused, client, file_client, fresh_name

_real_getaddrinfo = socket.getaddrinfo


def pytest_configure(config):
    config.addinivalue_line("markers", "gap(reason): known gap of Lazuli, listed in ../GAPS.md")
    config.addinivalue_line("markers", "azurite(reason): the peer differs from the service here")
    config.addinivalue_line("markers", "alone(reason): not through a balancer")
    config.addinivalue_line("markers", "full: long; runs when LAZULI_TEST_FULL is set")


def pytest_collection_modifyitems(items):
    for item in items:
        gap, peer = item.get_closest_marker("gap"), item.get_closest_marker("azurite")
        if gap and servers.kind() == "lazuli":
            item.add_marker(pytest.mark.xfail(reason=gap.args[0], strict=True))
        if peer and servers.kind() == "azurite":
            item.add_marker(pytest.mark.xfail(reason=peer.args[0], strict=False))
        alone = item.get_closest_marker("alone")
        if alone and os.environ.get("LAZULI_GATEWAYS"):
            item.add_marker(pytest.mark.skip(reason=alone.args[0]))
        if item.get_closest_marker("full") and not os.environ.get("LAZULI_TEST_FULL"):
            item.add_marker(pytest.mark.skip(reason="only in the full run"))


@pytest.fixture(scope="session", autouse=True)
def names_below_localhost():
    """`*.localhost` is this machine (RFC 6761 section 6.3); not every resolver knows."""

    def resolve(host, *args, **kwargs):
        name = host.decode() if isinstance(host, bytes) else host
        return _real_getaddrinfo("127.0.0.1" if name and name.endswith(".localhost") else host, *args, **kwargs)

    socket.getaddrinfo = resolve
    yield
    socket.getaddrinfo = _real_getaddrinfo


@pytest.fixture(scope="session")
def endpoints():
    """The server that most tests share: where each of its services is."""
    if os.environ.get("LAZULI_BLOB_ENDPOINT"):
        given = {service: os.environ.get(f"LAZULI_{service.upper()}_ENDPOINT") for service in servers.SERVICES}
        yield {service: url for service, url in given.items() if url}
        return
    try:
        running = servers.Server().start()
    except servers.StartFailed as failure:
        pytest.exit(str(failure), returncode=1)
    with running:
        yield {service: running.endpoint_of(service) for service in running.ports}
        assert running.process.poll() is None, "the server died:\n" + "".join(running.output[-40:])


@pytest.fixture(scope="session")
def endpoint(endpoints):
    return endpoints["blob"]


@pytest.fixture(scope="session")
def queue_endpoint(endpoints):
    if "queue" not in endpoints:
        pytest.skip("LAZULI_QUEUE_ENDPOINT is not set")
    return endpoints["queue"]


@pytest.fixture(scope="session")
def table_endpoint(endpoints):
    if "table" not in endpoints:
        pytest.skip("LAZULI_TABLE_ENDPOINT is not set")
    return endpoints["table"]


@pytest.fixture(scope="session")
def file_endpoint(endpoints):
    if "file" not in endpoints:
        pytest.skip("LAZULI_FILE_ENDPOINT is not set")
    return endpoints["file"]


@pytest.fixture
def start():
    """Starts a server of this test's own, with whatever arguments it needs."""
    if os.environ.get("LAZULI_BLOB_ENDPOINT"):
        pytest.skip("needs a server of its own")
    running = []

    def start(**how):
        running.append(servers.Server(**how))
        return running[-1].start()

    yield start
    for one in running:
        one.__exit__(None, None, None)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A certificate for this machine and its key, as files."""
    return issuer.certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def service(endpoint):
    with client(endpoint) as one:
        yield one


@pytest.fixture
def container(service):
    one = service.create_container(fresh_name())
    yield one
    try:
        one.delete_container()
    except HttpResponseError:
        pass  # a test may have deleted it itself


@pytest.fixture(scope="session")
def shares(file_endpoint):
    with file_client(file_endpoint) as one:
        yield one


@pytest.fixture
def share(shares):
    one = shares.create_share(fresh_name("s"))
    yield one
    try:
        one.delete_share(delete_snapshots="include-leased")
    except HttpResponseError:
        pass  # a test may have deleted it itself


@pytest.fixture
def refused():
    return Refused


@pytest.fixture
def tools():
    return SimpleNamespace(client=client, file_client=file_client, fresh_name=fresh_name)
