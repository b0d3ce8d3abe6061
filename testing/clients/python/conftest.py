"""Fixtures of the Python suite: one server for all tests that share one, clients without retries, a container per test.

Marks:
  gap(reason)      not done yet by Lazuli; the test must fail there, so that the day it is mended shows. See ../GAPS.md.
  azurite(reason)  the peer answers otherwise than the service; only looked at when the suite runs against the peer.
"""

import itertools
import os
import socket
import uuid
from types import SimpleNamespace

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient
from azure.storage.fileshare import ShareServiceClient

import issuer
import server as servers

_real_getaddrinfo = socket.getaddrinfo


def pytest_configure(config):
    config.addinivalue_line("markers", "gap(reason): known gap of Lazuli, listed in ../GAPS.md")
    config.addinivalue_line("markers", "azurite(reason): the peer differs from the service here")
    config.addinivalue_line("markers", "full: long; runs when LAZULI_TEST_FULL is set")


def pytest_collection_modifyitems(items):
    for item in items:
        gap, peer = item.get_closest_marker("gap"), item.get_closest_marker("azurite")
        if gap and servers.kind() == "lazuli":
            item.add_marker(pytest.mark.xfail(reason=gap.args[0], strict=True))
        if peer and servers.kind() == "azurite":
            item.add_marker(pytest.mark.xfail(reason=peer.args[0], strict=False))
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


def client(endpoint, credential=servers.KEY, **options):
    """A service client that shows the first answer instead of trying again."""
    return BlobServiceClient(endpoint, credential=credential, retry_total=0, **options)


@pytest.fixture(scope="session")
def service(endpoint):
    with client(endpoint) as one:
        yield one


_numbers = itertools.count()


def fresh_name(word="c"):
    return f"{word}{next(_numbers)}-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def container(service):
    one = service.create_container(fresh_name())
    yield one
    try:
        one.delete_container()
    except HttpResponseError:
        pass  # a test may have deleted it itself


def file_client(endpoint, credential=servers.KEY, **options):
    """The same for shares."""
    return ShareServiceClient(endpoint, credential=credential, retry_total=0, **options)


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


class Refused:
    """`with refused(412, "ConditionNotMet"):` - the block must fail with this status and this error code."""

    def __init__(self, status, code=None):
        self.status, self.code = status, code

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        assert error is not None, f"was accepted; {self.status} {self.code or ''} was expected"
        if not isinstance(error, HttpResponseError):
            return False
        self.error = error
        code = getattr(error, "error_code", None) or (
            error.response.headers.get("x-ms-error-code") if error.response is not None else None)
        code = getattr(code, "value", code)
        assert error.status_code == self.status, f"{error.status_code} {code}, expected {self.status} {self.code}"
        assert self.code is None or code == self.code, f"{code}, expected {self.code}"
        return True


@pytest.fixture
def refused():
    return Refused


@pytest.fixture
def tools():
    return SimpleNamespace(client=client, file_client=file_client, fresh_name=fresh_name)
