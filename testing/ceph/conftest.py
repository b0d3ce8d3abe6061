"""Fixtures of the checks of promises that several gateways keep together: clients of each gateway, without retries.

They run below `with-gateways`. With --osd-dies one of the cluster's OSDs is killed after half of them.
"""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient
from azure.storage.queue import QueueServiceClient

from common import Refused, client, file_client, fresh_name
from gateways import Cluster
from server import ACCOUNT, KEY

RIVALS = 6


def pytest_addoption(parser):
    parser.addoption("--osd-dies", action="store_true", help="kill an OSD on the way")


def pytest_runtest_protocol(item, nextitem):
    items = item.session.items
    if item.config.getoption("osd_dies") and item is items[len(items) // 2]:
        Cluster().osd("kill", 1)


class Side:
    """One gateway, as one client sees it."""

    def __init__(self, endpoints):
        self.endpoints = endpoints
        self.blobs = client(endpoints["blob"])
        self.queues = QueueServiceClient(endpoints["queue"], credential=KEY, retry_total=0)
        self.tables = TableServiceClient(endpoints["table"], credential=AzureNamedKeyCredential(ACCOUNT, KEY), retry_total=0)
        self.files = file_client(endpoints["file"])

    def blob(self, container, name):
        return self.blobs.get_blob_client(container, name)

    def close(self):
        for one in (self.blobs, self.queues, self.tables, self.files):
            one.close()


@pytest.fixture(scope="session")
def endpoints():
    if "LAZULI_GATEWAYS" not in os.environ:
        pytest.exit("run this below with-gateways", returncode=1)
    return json.loads(os.environ["LAZULI_GATEWAYS"])


@pytest.fixture(scope="session")
def sides(endpoints):
    both = [Side(each) for each in endpoints]
    yield both
    for side in both:
        side.close()


@pytest.fixture
def compete(endpoints):
    """What came of `act(sides, number)` for each of the rivals, all let go at once, each with connections of its own. The first
    gateway of one is the second of the next."""

    def compete(act, rivals=RIVALS):
        start = threading.Barrier(rivals)

        def run(number):
            first = number % len(endpoints)
            mine = [Side(each) for each in endpoints[first:] + endpoints[:first]]
            try:
                start.wait(60)
                return act(mine, number)
            finally:
                for side in mine:
                    side.close()

        with ThreadPoolExecutor(rivals) as pool:
            return list(pool.map(run, range(rivals)))

    return compete


@pytest.fixture
def container(sides):
    one = sides[0].blobs.create_container(fresh_name())
    yield one.container_name
    try:
        one.delete_container()
    except HttpResponseError:
        pass  # a test may have deleted it itself


@pytest.fixture
def queue(sides):
    one = sides[0].queues.create_queue(fresh_name("q"))
    yield one.queue_name
    one.delete_queue()


@pytest.fixture
def table(sides):
    one = sides[0].tables.create_table(fresh_name("t").replace("-", ""))
    yield one.table_name
    one.delete_table()


@pytest.fixture
def share(sides):
    one = sides[0].files.create_share(fresh_name("s"))
    yield one.share_name
    one.delete_share()


@pytest.fixture(scope="session")
def cluster():
    return Cluster()


@pytest.fixture
def refused():
    return Refused
