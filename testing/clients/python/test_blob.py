"""Block blobs by single put: upload, download, ranges, properties, metadata, delete."""

import os
from datetime import datetime, timedelta, timezone

import pytest
from azure.core import MatchConditions
from azure.storage.blob import BlobType, ContentSettings

MIB = 1024 * 1024


@pytest.mark.parametrize("size", [0, 1, 511, 1024, 4096, 16384, 65536, MIB, 4 * MIB + 1])
def test_round_trip(container, size):
    content = os.urandom(size)
    blob = container.get_blob_client(f"size-{size}")
    answer = blob.upload_blob(content)
    properties = blob.get_blob_properties()
    assert properties.size == size
    assert properties.blob_type == BlobType.BLOCKBLOB
    assert properties.etag == answer["etag"]
    assert properties.last_modified == answer["last_modified"]
    assert answer["request_server_encrypted"] is True
    download = blob.download_blob()
    assert download.readall() == content
    assert download.properties.etag == answer["etag"]


def test_text_and_stream_bodies(container, tmp_path):
    blob = container.get_blob_client("text")
    blob.upload_blob("h\u00e9llo")
    assert blob.download_blob(encoding="utf-8").readall() == "h\u00e9llo"
    content = os.urandom(300_000)
    path = tmp_path / "body"
    path.write_bytes(content)
    with path.open("rb") as stream:
        blob.upload_blob(stream, overwrite=True)
    assert b"".join(blob.download_blob().chunks()) == content


def test_overwrite_or_not(container, refused):
    blob = container.get_blob_client("b")
    first = blob.upload_blob(b"one", overwrite=False)
    with refused(409, "BlobAlreadyExists"):
        blob.upload_blob(b"two", overwrite=False)
    assert blob.download_blob().readall() == b"one"
    second = blob.upload_blob(b"three", overwrite=True)
    assert second["etag"] != first["etag"]
    assert blob.download_blob().readall() == b"three"


def test_every_put_makes_a_new_etag(container):
    blob = container.get_blob_client("b")
    etags = [blob.upload_blob(b"same", overwrite=True)["etag"] for _ in range(20)]
    assert len(set(etags)) == 20


def test_ranges(container):
    content = bytes(range(256)) * 40
    blob = container.get_blob_client("b")
    blob.upload_blob(content)
    for offset, length in [(0, 1), (0, 512), (100, 1000), (10239, 1), (10000, 5000), (5000, None), (0, 10240)]:
        expected = content[offset:] if length is None else content[offset:offset + length]
        assert blob.download_blob(offset=offset, length=length).readall() == expected, (offset, length)


@pytest.mark.parametrize("size,offset,length", [(10240, 10240, 1), (10240, 1 << 40, None), (0, 0, 1)])
@pytest.mark.azurite("answers 206 with nothing in it")
def test_range_outside_the_blob(container, refused, size, offset, length):
    blob = container.get_blob_client("b")
    blob.upload_blob(bytes(size))
    with refused(416, "InvalidRange"):
        blob.download_blob(offset=offset, length=length)


def test_download_in_pieces(container):
    content = os.urandom(3 * MIB + 17)
    blob = container.get_blob_client("b")
    blob.upload_blob(content)
    pieces = type(blob).from_blob_url(blob.url, credential=blob.credential, max_single_get_size=MIB, max_chunk_get_size=MIB // 2)
    assert pieces.download_blob(max_concurrency=4).readall() == content


def test_empty_blob(container):
    blob = container.get_blob_client("empty")
    blob.upload_blob(b"")
    assert blob.get_blob_properties().size == 0
    assert blob.download_blob().readall() == b""


def test_content_settings_round_trip(container):
    settings = ContentSettings(
        content_type="text/x-odd; charset=utf-8", content_encoding="identity", content_language="de, en",
        content_disposition='attachment; filename="a b.txt"', cache_control="no-store, max-age=0",
    )
    blob = container.get_blob_client("b")
    blob.upload_blob(b"x", content_settings=settings)
    for seen in (blob.get_blob_properties().content_settings, blob.download_blob().properties.content_settings,
                 next(iter(container.list_blobs())).content_settings):
        assert seen.content_type == settings.content_type
        assert seen.content_encoding == settings.content_encoding
        assert seen.content_language == settings.content_language
        assert seen.content_disposition == settings.content_disposition
        assert seen.cache_control == settings.cache_control
    blob.upload_blob(b"x", overwrite=True)
    seen = blob.get_blob_properties().content_settings
    assert seen.content_type == "application/octet-stream"
    assert (seen.content_encoding, seen.content_language, seen.content_disposition, seen.cache_control) == (None,) * 4


def test_metadata_keeps_the_case_of_its_names(container):
    given = {"Hello": "World", "hyphen_x": "1", "UPPER": "a b  c", "Empty_": ""}
    blob = container.get_blob_client("b")
    blob.upload_blob(b"x", metadata=given)
    assert blob.get_blob_properties().metadata == given
    assert blob.download_blob().properties.metadata == given
    blob.upload_blob(b"x", overwrite=True)
    assert blob.get_blob_properties().metadata == {}


def test_creation_time_and_dates(container):
    before = datetime.now(timezone.utc) - timedelta(seconds=2)
    blob = container.get_blob_client("b")
    blob.upload_blob(b"x")
    seen = blob.get_blob_properties()
    after = datetime.now(timezone.utc) + timedelta(seconds=2)
    assert before <= seen.creation_time <= after
    assert before <= seen.last_modified <= after
    assert seen.lease.state == "available" and seen.lease.status == "unlocked"
    assert seen.server_encrypted is True
    assert seen.blob_tier == "Hot" and seen.blob_tier_inferred is True


def test_delete(container, refused):
    blob = container.get_blob_client("b")
    blob.upload_blob(b"x")
    assert blob.exists()
    blob.delete_blob()
    assert not blob.exists()
    with refused(404, "BlobNotFound"):
        blob.download_blob()
    with refused(404, "BlobNotFound"):
        blob.get_blob_properties()
    with refused(404, "BlobNotFound"):
        blob.delete_blob()
    blob.upload_blob(b"again", overwrite=False)
    assert blob.download_blob().readall() == b"again"


def test_missing_container(service, tools, refused):
    blob = service.get_blob_client(tools.fresh_name(), "b")
    for act in (blob.download_blob, blob.get_blob_properties, blob.delete_blob, lambda: blob.upload_blob(b"x")):
        with refused(404, "ContainerNotFound"):
            act()


def test_root_container(service):
    """A blob directly below the account is one of `$root`."""
    root = service.get_container_client("$root")
    if not root.exists():
        root.create_container()
    root.upload_blob("plain.txt", b"root", overwrite=True)
    assert service.get_blob_client("$root", "plain.txt").download_blob().readall() == b"root"
    root.delete_container()


def test_client_request_id_comes_back(container):
    seen = {}
    container.upload_blob("b", b"x", client_request_id="my-own-id-1",
                          raw_response_hook=lambda response: seen.update(response.http_response.headers))
    headers = {name.lower(): value for name, value in seen.items()}
    assert headers["x-ms-client-request-id"] == "my-own-id-1"
    assert headers["x-ms-request-id"]
    assert headers["x-ms-version"]
    assert headers["date"].endswith("GMT")


def test_a_snapshot_takes_conditions_and_minds_no_lease(container, refused):
    """B5, B8; it returns the ETag of the blob, and leaves it as it is."""
    blob = container.get_blob_client("b")
    etag = blob.upload_blob(b"x")["etag"]
    with refused(412, "ConditionNotMet"):
        blob.create_snapshot(etag='"0x1"', match_condition=MatchConditions.IfNotModified)
    lease = blob.acquire_lease()
    taken = blob.create_snapshot()
    with refused(412, "LeaseIdMismatchWithBlobOperation"):
        blob.create_snapshot(lease="aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee")
    lease.release()
    assert (taken["etag"], blob.get_blob_properties().etag) == (etag, etag)
