"""Copies: within the server, between accounts' containers by SAS, from a server outside that is listed, and what is refused."""

import base64
import hashlib
import http.server
import os
import threading
import time
from datetime import datetime, timedelta, timezone

import pytest
from azure.core import MatchConditions
from azure.storage.blob import BlobSasPermissions, BlobType, ContentSettings, generate_blob_sas

import server as servers
from common import client, fresh_name

MIB = 1024 * 1024


def readable(blob, permission="r"):
    """The blob's URL with a SAS that may read it."""
    token = generate_blob_sas(
        servers.ACCOUNT, blob.container_name, blob.blob_name, account_key=servers.KEY,
        permission=BlobSasPermissions.from_string(permission), expiry=datetime.now(timezone.utc) + timedelta(hours=1))
    return f"{blob.url}?{token}"


@pytest.fixture
def source(container):
    blob = container.get_blob_client("dir/a source")
    blob.upload_blob(os.urandom(3 * MIB + 17), metadata={"color": "blue"},
                     content_settings=ContentSettings(content_type="text/plain", cache_control="soon"))
    return blob


def content(blob):
    return blob.download_blob().readall()


def test_copy_within_the_account(container, source):
    copy = container.get_blob_client("copy")
    started = copy.start_copy_from_url(source.url)
    assert started["copy_status"] == "success"
    properties = copy.get_blob_properties()
    assert properties.copy.id == started["copy_id"]
    assert properties.copy.source == source.url
    assert properties.copy.progress == f"{3 * MIB + 17}/{3 * MIB + 17}"
    assert properties.etag == started["etag"]
    assert properties.metadata == {"color": "blue"}
    assert properties.content_settings.content_type == "text/plain"
    assert content(copy) == content(source)
    again = copy.start_copy_from_url(source.url, metadata={"color": "red"})
    assert again["copy_id"] != started["copy_id"]
    assert copy.get_blob_properties().metadata == {"color": "red"}
    [listed] = [blob for blob in container.list_blobs(include=["copy"]) if blob.name == "copy"]
    assert listed.copy.id == again["copy_id"] and listed.copy.status == "success"
    with pytest.raises(Exception):
        copy.abort_copy(again["copy_id"])
    copy.set_blob_metadata({})
    assert copy.get_blob_properties().copy.id is None


def test_copy_now(container, source, refused):
    copy = container.get_blob_client("copy")
    with refused(401, "CannotVerifyCopySource"):
        copy.start_copy_from_url(source.url, requires_sync=True)
    answer = copy.start_copy_from_url(readable(source), requires_sync=True)
    assert answer["copy_status"] == "success"
    assert content(copy) == content(source)
    assert "sig" not in copy.get_blob_properties().copy.source


def test_conditions_of_both_ends(container, source, refused):
    copy = container.get_blob_client("copy")
    etag = source.get_blob_properties().etag
    with refused(412, "SourceConditionNotMet"):
        copy.start_copy_from_url(source.url, source_etag='"0x1"', source_match_condition=MatchConditions.IfNotModified)
    copy.start_copy_from_url(source.url, source_etag=etag, source_match_condition=MatchConditions.IfNotModified)
    with refused(412, "TargetConditionNotMet"):
        copy.start_copy_from_url(source.url, etag='"0x1"', match_condition=MatchConditions.IfNotModified)
    with refused(409, "BlobAlreadyExists"):
        copy.start_copy_from_url(source.url, match_condition=MatchConditions.IfMissing)
    with refused(404):
        copy.start_copy_from_url(container.get_blob_client("absent").url)


def test_upload_from_url(container, source, refused):
    copy = container.get_blob_client("copy")
    digest = hashlib.md5(content(source)).digest()
    with refused(400, "Md5Mismatch"):
        copy.upload_blob_from_url(readable(source), source_content_md5=bytearray(hashlib.md5(b"other").digest()))
    copy.upload_blob_from_url(readable(source), source_content_md5=bytearray(digest))
    assert content(copy) == content(source)
    properties = copy.get_blob_properties()
    assert properties.content_settings.content_type == "text/plain" and properties.metadata == {"color": "blue"}
    with refused(409, "BlobAlreadyExists"):
        copy.upload_blob_from_url(readable(source), overwrite=False)
    copy.upload_blob_from_url(readable(source), overwrite=True, include_source_blob_properties=False,
                              content_settings=ContentSettings(content_type="text/new"), metadata={"a": "1"})
    properties = copy.get_blob_properties()
    assert (properties.content_settings.content_type, properties.content_settings.cache_control) == ("text/new", None)
    assert properties.metadata == {"a": "1"}


def test_blocks_from_url(container, source):
    whole, blob = content(source), container.get_blob_client("blocks")
    ids = []
    for n, offset in enumerate(range(0, len(whole), MIB)):
        length = min(MIB, len(whole) - offset)
        ids.append(base64.b64encode(f"{n:05}".encode()).decode())
        blob.stage_block_from_url(ids[-1], readable(source), source_offset=offset, source_length=length,
                                  source_content_md5=bytearray(hashlib.md5(whole[offset:offset + length]).digest()))
    blob.commit_block_list(ids)
    assert content(blob) == whole


def test_append_from_url(container, source):
    whole, log = content(source), container.get_blob_client("log")
    log.create_append_blob()
    answer = log.append_block_from_url(readable(source), source_offset=100, source_length=5000)
    assert answer["blob_append_offset"] == "0" and answer["blob_committed_block_count"] == 1
    log.append_block_from_url(readable(source), source_offset=0, source_length=MIB, appendpos_condition=5000)
    assert content(log) == whole[100:5100] + whole[:MIB]
    copy = container.get_blob_client("log copy")
    copy.start_copy_from_url(log.url)
    assert copy.get_blob_properties().blob_type == BlobType.APPENDBLOB
    assert content(copy) == content(log)


def test_pages_from_url(container, source, refused):
    whole, disk = content(source), container.get_blob_client("disk")
    disk.create_page_blob(MIB)
    disk.upload_pages_from_url(readable(source), offset=512, length=4096, source_offset=100)
    expected = bytes(512) + whole[100:4196] + bytes(MIB - 512 - 4096)
    assert content(disk) == expected
    with refused(412, "CannotVerifyCopySource"):
        disk.upload_pages_from_url(readable(source), offset=0, length=512, source_offset=0, source_etag='"0x1"',
                                   source_match_condition=MatchConditions.IfNotModified)
    copy = container.get_blob_client("disk copy")
    copy.start_copy_from_url(disk.url)
    assert copy.get_blob_properties().blob_type == BlobType.PAGEBLOB
    assert content(copy) == expected
    assert copy.get_page_ranges() == disk.get_page_ranges()


def test_incremental_copies(container, refused):
    disk, copy = container.get_blob_client("disk"), container.get_blob_client("copy")
    disk.create_page_blob(4096)
    disk.upload_page(b"a" * 512, offset=0, length=512)
    snapshot = disk.create_snapshot()["snapshot"]
    copy.start_copy_from_url(f"{disk.url}?snapshot={snapshot}", incremental_copy=True)
    properties = copy.get_blob_properties()
    assert properties.copy.status == "success" and properties.copy.incremental_copy
    of_copy = container.get_blob_client("copy", snapshot=properties.copy.destination_snapshot)
    assert content(of_copy) == content(disk)
    with refused(409, "OperationNotAllowedOnIncrementalCopyBlob"):
        content(copy)
    with refused(409, "IncrementalCopySourceMustBeSnapshot"):
        copy.start_copy_from_url(disk.url, incremental_copy=True)
    copy.delete_blob(delete_snapshots="include")


def test_leased_destination(container, source, refused):
    copy = container.get_blob_client("copy")
    copy.upload_blob(b"old")
    lease = copy.acquire_lease(15)
    with refused(412, "LeaseIdMissing"):
        copy.start_copy_from_url(source.url)
    with refused(412, "InfiniteLeaseDurationRequired"):
        copy.start_copy_from_url(source.url, destination_lease=lease)
    lease.release()
    lease = copy.acquire_lease(-1)
    copy.start_copy_from_url(source.url, destination_lease=lease)
    assert copy.get_blob_properties().lease.state == "leased"
    lease.release()


class Slow(http.server.BaseHTTPRequestHandler):
    """`/content` at once; `/slow` when it is let."""

    body, go_on = os.urandom(2 * MIB), threading.Event()

    def do_GET(self):
        status, body = (200, self.body) if self.path.split("?")[0] in ("/content", "/slow") else (404, b"")
        if self.headers.get("Range") and status == 200:
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            status, body = 206, body[int(first):int(last or len(body) - 1) + 1]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"one"')
        self.end_headers()
        try:
            self.wfile.write(body[:1000])
            if self.path == "/slow":
                self.go_on.wait(30)
            self.wfile.write(body[1000:])
        except OSError:
            pass  # the one who asked has left

    def log_message(self, *_):
        pass


@pytest.fixture
def outside():
    Slow.go_on.clear()
    one = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=one.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{one.server_port}"
    Slow.go_on.set()
    one.shutdown()
    one.server_close()


def settled(blob):
    for _ in range(1000):
        copy = blob.get_blob_properties().copy
        if copy.status != "pending":
            return copy
        time.sleep(0.01)
    raise AssertionError("pending for ever")


def test_nothing_outside_by_default(container, outside, refused):
    blob = container.get_blob_client("b")
    for act in (lambda: blob.start_copy_from_url(f"{outside}/content"),
                lambda: blob.upload_blob_from_url(f"{outside}/content"),
                lambda: blob.stage_block_from_url("YQ==", "http://169.254.169.254/latest")):
        with refused(403, "CannotVerifyCopySource"):
            act()


def test_outside_sources_that_are_listed(start, outside, refused):
    running = start(extra=["--copy-source", outside.removeprefix("http://")])
    service = client(running.endpoint_of("blob"))
    container = service.create_container(fresh_name())
    blob = container.get_blob_client("now")
    blob.upload_blob_from_url(f"{outside}/content")
    assert content(blob) == Slow.body
    blob.stage_block_from_url("YQ==", f"{outside}/content", source_offset=5, source_length=10)
    blob.commit_block_list(["YQ=="])
    assert content(blob) == Slow.body[5:15]

    blob = container.get_blob_client("later")
    started = blob.start_copy_from_url(f"{outside}/slow")
    assert started["copy_status"] == "pending"
    with refused(409, "PendingCopyOperation"):
        blob.upload_blob(b"x", overwrite=True)
    with refused(409, "CopyIdMismatch"):
        blob.abort_copy("01234567-89ab-cdef-0123-456789abcdef")
    blob.abort_copy(started["copy_id"])
    properties = blob.get_blob_properties()
    assert (properties.copy.status, properties.size) == ("aborted", 0)
    with refused(409, "NoPendingCopyOperation"):
        blob.abort_copy(started["copy_id"])

    started = blob.start_copy_from_url(f"{outside}/slow?sig=secret")
    Slow.go_on.set()
    copy = settled(blob)
    assert (copy.status, copy.id) == ("success", started["copy_id"])
    assert copy.source == f"{outside}/slow"
    assert content(blob) == Slow.body
    with refused(404, "CannotVerifyCopySource"):
        blob.start_copy_from_url(f"{outside}/absent")


def test_a_pending_copy_survives_a_kill(start, outside):
    running = start(extra=["--copy-source", outside.removeprefix("http://")])
    container = client(running.endpoint_of("blob")).create_container(fresh_name())
    blob = container.get_blob_client("later")
    blob.start_copy_from_url(f"{outside}/slow")
    running.kill()
    Slow.go_on.set()
    running.start()
    blob = client(running.endpoint_of("blob")).get_blob_client(container.container_name, "later")
    assert settled(blob).status == "success"
    assert content(blob) == Slow.body
