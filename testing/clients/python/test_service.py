"""Batches, deleted containers, structured bodies and the static website, through the client and a plain visitor."""

import os

import pytest
import requests
from azure.storage.blob import PartialBatchErrorException, StaticWebsite

import server as servers


def put(container, *names):
    for name in names:
        container.upload_blob(name, name.encode())
    return names


@pytest.mark.azurite("has no batches of containers in path style")
def test_delete_blobs(container, tools, endpoint):
    names = put(container, *(f"dir/{n} +\u00fc" for n in range(20)))
    statuses = [answer.status_code for answer in container.delete_blobs(*names)]
    assert statuses == [202] * 20 and not list(container.list_blobs())

    put(container, "a", "b")
    etag = container.get_blob_client("a").get_blob_properties().etag
    mixed = [{"name": "a", "etag": etag}, "none", {"name": "b", "etag": "\"0x1\""}]
    answers = list(container.delete_blobs(*mixed, raise_on_any_failure=False))
    assert [answer.status_code for answer in answers] == [202, 404, 412]
    assert answers[1].headers["x-ms-error-code"] == "BlobNotFound"
    with pytest.raises(PartialBatchErrorException):
        container.delete_blobs("b", "none")
    assert not list(container.list_blobs())


def test_delete_blobs_with_a_token(container, tools, endpoint):
    from datetime import datetime, timedelta, timezone
    from azure.storage.blob import ContainerSasPermissions, generate_container_sas
    put(container, "a", "b")
    hour = datetime.now(timezone.utc) + timedelta(hours=1)

    def open_with(letters):
        token = generate_container_sas(servers.ACCOUNT, container.container_name, account_key=servers.KEY,
                                       permission=ContainerSasPermissions(**{word: True for word in letters}), expiry=hour)
        return tools.client(endpoint, credential=token).get_container_client(container.container_name)

    answers = list(open_with(["read"]).delete_blobs("a", raise_on_any_failure=False))
    assert [answer.status_code for answer in answers] == [403]
    answers = list(open_with(["delete"]).delete_blobs("a", "b"))
    assert [answer.status_code for answer in answers] == [202, 202]


def test_too_many_in_one_batch(container, refused):
    with refused(400):
        container.delete_blobs(*(f"n{n}" for n in range(257)))


def test_tiers_of_many(container):
    put(container, "a", "b")
    answers = list(container.set_standard_blob_tier_blobs("Cool", "a", "b", raise_on_any_failure=False))
    assert [answer.status_code for answer in answers] == [200, 200]
    assert container.get_blob_client("a").get_blob_properties().blob_tier == "Cool"


@pytest.mark.azurite("does not keep containers")
def test_deleted_containers_come_back(start, tools, tmp_path, refused):
    config = tmp_path / "lazuli.toml"
    config.write_text(f'[account.{servers.ACCOUNT}]\nkeys = ["{servers.KEY}"]\ncontainer-retention-days = 7\n')
    service = tools.client(start(extra=["--config", str(config)]).endpoint)
    container = service.create_container("kept", metadata={"colour": "blue"})
    container.upload_blob("b", b"content")
    container.delete_container()
    assert not container.exists() and not list(service.list_containers())
    [deleted] = service.list_containers(include_deleted=True, include_metadata=True)
    assert (deleted.name, deleted.deleted, deleted.metadata) == ("kept", True, {"colour": "blue"})
    restored = service.undelete_container("kept", deleted.version)
    assert restored.get_blob_client("b").download_blob().readall() == b"content"
    with refused(409):
        service.undelete_container("kept", deleted.version)


@pytest.mark.azurite("knows no structured bodies")
@pytest.mark.parametrize("size", [0, 5, 9 * 1024 * 1024])
def test_content_that_is_checked_on_the_way(container, size):
    pytest.importorskip("azure.storage.extensions")
    content = os.urandom(size)
    blob = container.get_blob_client("b")
    blob.upload_blob(content, validate_content="crc64")
    assert blob.download_blob(validate_content="crc64").readall() == content
    # Framed on the way in, too, whatever the client would choose.
    seen = []
    blob.upload_blob(content, overwrite=True, validate_content="crc64-sm", raw_response_hook=lambda answer: seen.append(answer.http_request.headers))
    assert all("x-ms-structured-body" in headers for headers in seen if "x-ms-blob-type" in headers) and seen
    assert blob.download_blob().readall() == content
    if size:
        assert blob.download_blob(offset=1, length=size - 1, validate_content="crc64").readall() == content[1:]
        log = container.get_blob_client("log")
        log.create_append_blob()
        log.append_block(content, validate_content="crc64-sm")
        assert log.download_blob(validate_content="crc64").readall() == content


@pytest.mark.azurite("serves no websites")
def test_website(start, tools):
    web_port = servers.free_port()
    server = start(extra=["--web-port", str(web_port)])
    service = tools.client(server.endpoint)
    by_path = f"http://127.0.0.1:{web_port}/{servers.ACCOUNT}"
    by_name = f"http://{servers.ACCOUNT}.web.localhost:{server.port}"
    for url in (by_path, by_name):
        assert requests.get(f"{url}/").status_code == 404
    service.set_service_properties(static_website=StaticWebsite(enabled=True, index_document="index.html", error_document404_path="404.html"))
    web = service.get_container_client("$web")
    for name in ("index.html", "a/index.html", "404.html", "style.css"):
        web.upload_blob(name, f"this is {name}")
    for url in (by_path, by_name):
        assert requests.get(f"{url}/").text == "this is index.html"
        assert requests.get(f"{url}/a/").text == "this is a/index.html"
        missing = requests.get(f"{url}/none")
        assert (missing.status_code, missing.text) == (404, "this is 404.html")
        part = requests.get(f"{url}/style.css", headers={"Range": "bytes=0-3"})
        assert (part.status_code, part.text) == (206, "this")
        whole = requests.head(f"{url}/style.css")
        assert whole.headers["Content-Length"] == str(len("this is style.css"))
        assert requests.get(f"{url}/style.css", headers={"If-None-Match": whole.headers["ETag"]}).status_code == 304
        assert requests.put(f"{url}/style.css", data=b"x").status_code == 405
