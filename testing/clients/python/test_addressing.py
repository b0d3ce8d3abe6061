"""Ways to reach the server: development storage, host style, the secondary, https, the async client, new versions."""

import os

import pytest
from azure.storage.blob import BlobServiceClient
from azure.storage.blob.aio import BlobServiceClient as AsyncBlobServiceClient

import server as servers

def smoke(service, tools):
    container = service.create_container(tools.fresh_name())
    blob = container.get_blob_client("dir/a b+\u00fc.txt")
    blob.upload_blob(b"hello", metadata={"Aa": "1"})
    assert blob.download_blob().readall() == b"hello"
    assert blob.get_blob_properties().metadata == {"Aa": "1"}
    assert [b.name for b in container.list_blobs(name_starts_with="dir/")] == ["dir/a b+\u00fc.txt"]
    assert container.container_name in [c.name for c in service.list_containers()]
    blob.delete_blob()
    container.delete_container()


def test_connection_string(endpoint, tools):
    smoke(BlobServiceClient.from_connection_string(servers.connection_string(endpoint), retry_total=0), tools)


def test_use_development_storage(tools):
    running = servers.start_on_development_port()
    if running is None:
        pytest.skip("the port of development storage is taken")
    with running:
        smoke(BlobServiceClient.from_connection_string("UseDevelopmentStorage=true", retry_total=0), tools)


@pytest.mark.parametrize("host", ["blob.localhost", "blob.core.example.localhost"])
def test_host_style(endpoint, tools, host):
    port = endpoint.split(":")[2].split("/")[0]
    url = f"http://{servers.ACCOUNT}.{host}:{port}"
    credential = {"account_name": servers.ACCOUNT, "account_key": servers.KEY}
    smoke(tools.client(url, credential=credential), tools)


def test_localhost_by_name(endpoint, tools):
    smoke(tools.client(endpoint.replace("127.0.0.1", "localhost")), tools)


def test_secondary_reads(endpoint, service, container, tools):
    container.upload_blob("b", b"content")
    credential = {"account_name": servers.ACCOUNT, "account_key": servers.KEY}
    secondary = tools.client(endpoint + "-secondary", credential=credential)
    assert secondary.get_blob_client(container.container_name, "b").download_blob().readall() == b"content"


def test_both_styles_show_the_same_blobs(endpoint, container, tools):
    port = endpoint.split(":")[2].split("/")[0]
    credential = {"account_name": servers.ACCOUNT, "account_key": servers.KEY}
    host_style = tools.client(f"http://{servers.ACCOUNT}.blob.localhost:{port}", credential=credential)
    container.upload_blob("b", b"path")
    other = host_style.get_container_client(container.container_name)
    assert other.download_blob("b").readall() == b"path"
    other.upload_blob("c", b"host")
    assert sorted(b.name for b in container.list_blobs()) == ["b", "c"]


def test_async_client(endpoint, tools):
    import asyncio

    async def run():
        async with AsyncBlobServiceClient(endpoint, credential=servers.KEY, retry_total=0) as service:
            container = await service.create_container(tools.fresh_name())
            names = [f"{n:03}" for n in range(40)]
            await asyncio.gather(*(container.upload_blob(name, name.encode() * 1000) for name in names))
            assert [b.name async for b in container.list_blobs()] == names
            downloads = await asyncio.gather(*(container.download_blob(name) for name in names))
            contents = await asyncio.gather(*(one.readall() for one in downloads))
            assert contents == [name.encode() * 1000 for name in names]
            await container.delete_container()

    asyncio.run(run())


def test_https(start, certificate, tools):
    running = start(tls=certificate)
    smoke(tools.client(running.endpoint, connection_verify=str(certificate[0])), tools)
    content = os.urandom(5_000_000)
    service = tools.client(running.endpoint, connection_verify=str(certificate[0]))
    container = service.create_container(tools.fresh_name())
    container.upload_blob("big", content)
    assert container.download_blob("big").readall() == content


@pytest.mark.parametrize("version", ["2019-02-02", "2021-12-02", "2025-11-05", "2026-10-06", "2031-01-01"])
@pytest.mark.azurite("always names its own version in the answer")
def test_versions_old_and_new(endpoint, container, version):
    """A version newer than any known is served, and echoed: a new release of a client must never be refused."""
    def ask_for(request):
        request.http_request.headers["x-ms-version"] = version

    seen = {}
    blob = container.get_blob_client("b")
    blob.upload_blob(b"x", overwrite=True, raw_request_hook=ask_for,
                     raw_response_hook=lambda r: seen.update({k.lower(): v for k, v in r.http_response.headers.items()}))
    assert seen["x-ms-version"] == version
    assert blob.download_blob(raw_request_hook=ask_for).readall() == b"x"


def test_second_account(start, tools, refused):
    import base64
    if servers.kind() != "lazuli":
        pytest.skip("the peer takes accounts from its environment")
    key = base64.b64encode(b"the key of another account").decode()
    running = start(extra=["--account", f"other:{key}", "--account", f"{servers.ACCOUNT}:{servers.KEY}"])
    other_endpoint = running.endpoint.replace(servers.ACCOUNT, "other")
    credential = {"account_name": "other", "account_key": key}
    smoke(tools.client(other_endpoint, credential=credential), tools)
    first = tools.client(running.endpoint)
    name = tools.fresh_name()
    first.create_container(name).upload_blob("b", b"first")
    with refused(404, "ContainerNotFound"):
        tools.client(other_endpoint, credential=credential).get_blob_client(name, "b").download_blob()
    with refused(403, "AuthenticationFailed"):
        tools.client(running.endpoint, credential=credential).get_blob_client(name, "b").download_blob()
