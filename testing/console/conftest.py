"""Fixtures of the console's tests: a server with its console, one browser, and a page of it that is signed in.

Every test that takes `page` runs twice: as on a desk in light, and as on a phone in dark. At its end the page has logged no
error, broken no policy and asked no other origin anything; and nothing on it is wider than its window.

LAZULI_CONSOLE_ORIGIN, if set, names a console that is running already, beside LAZULI_BLOB_ENDPOINT and so on.
"""

import os
from types import SimpleNamespace

import pytest
from azure.data.tables import TableServiceClient
from azure.core.credentials import AzureNamedKeyCredential
from azure.storage.blob import RetentionPolicy
from azure.storage.queue import QueueServiceClient

import server as servers
from browser import Browser
from common import client, file_client

LOOKS = {"desk": dict(width=1280, height=900), "phone": dict(width=320, height=640, dark=True, touch=True)}

# An account that keeps versions, with a key that is not the published one.
KEEPER, KEEPER_KEY = "keeper", "a2VlcGVyLWtlZXBlci1rZWVwZXIta2VlcGVyLWtlZXBlcg=="

CONFIG = f"""
[account.{servers.ACCOUNT}]
container-retention-days = 7
share-retention-days = 7

[account.{KEEPER}]
keys = ["{KEEPER_KEY}"]
versioning = true
"""


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    if os.environ.get("LAZULI_CONSOLE_ORIGIN"):
        ends = {service: os.environ[f"LAZULI_{service.upper()}_ENDPOINT"] for service in servers.SERVICES}
        yield SimpleNamespace(console=os.environ["LAZULI_CONSOLE_ORIGIN"], endpoint_of=ends.get, smb_port=int(os.environ.get("LAZULI_SMB_PORT", "0")), own=False)
        return
    config = tmp_path_factory.mktemp("console") / "lazuli.toml"
    config.write_text(CONFIG)
    try:
        running = servers.Server(console=True, extra=["--config", str(config)]).start()
    except servers.StartFailed as failure:
        pytest.exit(str(failure), returncode=1)
    with running:
        running.own = True
        yield running
        assert running.process.poll() is None, "the server died:\n" + "".join(running.output[-40:])


@pytest.fixture(scope="session")
def blobs(server):
    with client(server.endpoint_of("blob")) as one:
        one.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=True, days=7))
        yield one


@pytest.fixture(scope="session")
def queues(server):
    with QueueServiceClient(server.endpoint_of("queue"), credential=servers.KEY, retry_total=0) as one:
        yield one


@pytest.fixture(scope="session")
def tables(server):
    with TableServiceClient(server.endpoint_of("table"), credential=AzureNamedKeyCredential(servers.ACCOUNT, servers.KEY), retry_total=0) as one:
        yield one


@pytest.fixture(scope="session")
def shares(server):
    with file_client(server.endpoint_of("file")) as one:
        yield one


@pytest.fixture(scope="session")
def browser():
    one = Browser()
    yield one
    one.close()


@pytest.fixture(params=LOOKS)
def look(request):
    return request.param


def signed_in(page):
    page.click("devstoreaccount1")
    page.sees("This server")
    return page


def judge(page):
    assert page.run("document.documentElement.scrollWidth <= innerWidth"), "something is wider than the window"
    page.judge()


@pytest.fixture
def stranger(look, browser, server):
    """A page on which nobody is signed in."""
    page = browser.page(server.console, **LOOKS[look])
    page.look_name = look
    page.open()
    page.sees("Sign in")
    yield page
    try:
        judge(page)
    finally:
        page.close()


@pytest.fixture
def fresh(stranger):
    """A page of one's own, signed in."""
    return signed_in(stranger)


@pytest.fixture(scope="session")
def visits(browser, server):
    """The pages that tests share, one for each look, as somebody works for hours in one."""
    pages = {}

    def visit(look):
        if look not in pages:
            page = browser.page(server.console, **LOOKS[look])
            page.look_name = look
            page.open()
            pages[look] = signed_in(page)
        return pages[look]

    visit.drop = lambda look: pages.pop(look).close()
    yield visit
    for page in pages.values():
        page.close()


@pytest.fixture
def page(look, visits):
    """A page that is signed in, on its first page, with nothing open."""
    page = visits(look)
    page.open("#/")
    page.run("""[...document.querySelectorAll("dialog")].map((one) => one.close())""")
    page.run("""[...document.querySelectorAll("#notices > *")].map((one) => one.remove())""")
    page.run("""document.querySelector("#tray header button")?.click()""")
    page.sees("This server")
    try:
        yield page
        judge(page)
    except BaseException:
        visits.drop(look)
        raise
