"""Copies through azure-storage-file-share: of files and blobs to files, of files to blobs, whole and by range."""

import os
import time
from datetime import datetime, timedelta, timezone

import pytest
from azure.storage.blob import generate_blob_sas
from azure.storage.fileshare import ContentSettings, FileSasPermissions, generate_file_sas

import server as servers
from test_copy import Slow, outside  # noqa: F401 (a fixture)

pytestmark = pytest.mark.skipif(servers.kind() != "lazuli", reason="the peer has no files")

LONG_AGO = datetime(2001, 2, 3, 4, 5, 6, 789_012)


def read(file, **how):
    return file.download_file(**how).readall()


def soon():
    return datetime.now(timezone.utc) + timedelta(hours=1)


def signed(file):
    token = generate_file_sas(servers.ACCOUNT, file.share_name, file.file_path, servers.KEY, permission=FileSasPermissions(read=True), expiry=soon())
    return f"{file.url}?{token}"


def signed_blob(blob):
    return f"{blob.url}?{generate_blob_sas(servers.ACCOUNT, blob.container_name, blob.blob_name, account_key=servers.KEY, permission='r', expiry=soon())}"


def test_copies(shares, share, refused):
    source = share.get_file_client("source")
    content = os.urandom(100_000)
    source.upload_file(content, metadata={"a": "1"}, content_settings=ContentSettings(content_type="a/b"))
    copy = share.get_file_client("copy")
    started = copy.start_copy_from_url(source.url)
    assert started["copy_status"] == "success"
    seen = copy.get_file_properties()
    assert read(copy) == content and (seen.metadata, seen.content_settings.content_type) == ({"a": "1"}, "a/b")
    assert (seen.copy.id, seen.copy.status, seen.copy.progress) == (started["copy_id"], "success", "100000/100000")
    with refused(409, "NoPendingCopyOperation"):
        copy.abort_copy(started["copy_id"])
    copy.start_copy_from_url(source.url, metadata={"b": "2"}, file_attributes="Hidden", file_creation_time=LONG_AGO, file_last_write_time="source")
    seen = copy.get_file_properties()
    assert seen.metadata == {"b": "2"} and "Hidden" in str(seen.file_attributes)
    assert (seen.creation_time.replace(tzinfo=None), seen.last_write_time) == (LONG_AGO, source.get_file_properties().last_write_time)
    taken = share.create_snapshot()
    source.upload_file(b"newer")
    then = shares.get_share_client(share.share_name, snapshot=taken).get_file_client("source")
    copy.start_copy_from_url(then.url)
    assert read(copy) == content
    with refused(404):
        copy.start_copy_from_url(share.get_file_client("absent").url)
    assert read(copy) == content
    lease = copy.acquire_lease()
    with refused(412, "LeaseIdMissing"):
        copy.start_copy_from_url(source.url)
    copy.start_copy_from_url(source.url, lease=lease)
    assert read(copy) == b"newer"


@pytest.mark.alone("a balancer's ports say nothing of services: the other one is outside, and copied from in the background")
def test_copies_between_files_and_blobs(container, share, refused):
    blob = container.upload_blob("b", b"from a blob", metadata={"of": "blob"})
    file = share.get_file_client("f")
    with refused(401, "CannotVerifyCopySource"):  # the key opens files of the account as sources, not blobs
        file.start_copy_from_url(blob.url)
    assert file.start_copy_from_url(signed_blob(blob))["copy_status"] == "success"
    assert read(file) == b"from a blob" and file.get_file_properties().metadata == {"of": "blob"}
    source = share.get_file_client("g")
    source.upload_file(b"from a file")
    container.get_blob_client("c").start_copy_from_url(signed(source))
    assert container.download_blob("c").readall() == b"from a file"


def test_ranges_from_elsewhere(share, container, refused):
    source, file = share.get_file_client("source"), share.get_file_client("f")
    source.upload_file(bytes(range(256)) * 40)
    file.create_file(10_000)
    file.upload_range_from_url(signed(source), 512, 1000, 256)
    assert read(file) == bytes(512) + (bytes(range(256)) * 40)[256:1256] + bytes(8488)
    blob = container.upload_blob("b", b"blob content")
    file.upload_range_from_url(signed_blob(blob), 0, 4, 5)
    assert read(file, offset=0, length=4) == b"cont"
    before = file.get_file_properties()
    file.upload_range_from_url(signed(source), 0, 10, 0, file_last_write_mode="Preserve")
    assert file.get_file_properties().last_write_time == before.last_write_time
    with refused(409, "CannotVerifyCopySource"):
        file.upload_range_from_url(signed(source), 0, 100, 10_200)
    with refused(416, "InvalidRange"):
        file.upload_range_from_url(signed(source), 9_990, 100, 0)
    with refused(404, "CannotVerifyCopySource"):
        file.upload_range_from_url(signed(share.get_file_client("absent")), 0, 100, 0)
    with refused(403, "CannotVerifyCopySource"):
        file.upload_range_from_url(signed(source).replace("sp=r", "sp=rw"), 0, 100, 0)


def test_nothing_outside_by_default(share, outside, refused):  # noqa: F811
    file = share.get_file_client("f")
    file.create_file(100)
    for act in (lambda: file.start_copy_from_url(f"{outside}/content"), lambda: file.upload_range_from_url(f"{outside}/content", 0, 10, 0)):
        with refused(403, "CannotVerifyCopySource"):
            act()


def test_outside_sources_that_are_listed(start, outside, tools, refused):  # noqa: F811
    running = start(extra=["--copy-source", outside.removeprefix("http://")])
    share = tools.file_client(running.endpoint_of("file")).create_share(tools.fresh_name("s"))
    file = share.get_file_client("f")
    file.create_file(100)
    file.upload_range_from_url(f"{outside}/content", 50, 10, 5)
    assert read(file, offset=50, length=10) == Slow.body[5:15]

    started = file.start_copy_from_url(f"{outside}/slow", metadata={"a": "1"})
    assert started["copy_status"] == "pending" and file.get_file_properties().copy.status == "pending"
    for act in (lambda: file.upload_range(b"x", 0, 1), lambda: file.set_file_metadata({}), lambda: file.resize_file(0)):
        with refused(409, "PendingCopyOperation"):
            act()
    with refused(409, "CopyIdMismatch"):
        file.abort_copy("01234567-89ab-cdef-0123-456789abcdef")
    file.abort_copy(started["copy_id"])
    seen = file.get_file_properties()
    assert (seen.copy.status, seen.size) == ("aborted", 0)
    with refused(409, "NoPendingCopyOperation"):
        file.abort_copy(started["copy_id"])

    file.start_copy_from_url(f"{outside}/slow")
    Slow.go_on.set()
    deadline = time.monotonic() + 10
    while (seen := file.get_file_properties()).copy.status == "pending" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (seen.copy.status, seen.copy.progress, read(file)) == ("success", f"{len(Slow.body)}/{len(Slow.body)}", Slow.body)
