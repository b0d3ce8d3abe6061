"""Files through azure-storage-file-share: content, ranges, properties, renaming and leases."""

import hashlib
import io
import os
import uuid
from datetime import datetime, timedelta

import pytest
from azure.storage.fileshare import ContentSettings, NTFSAttributes, ShareLeaseClient

import server as servers

pytestmark = pytest.mark.skipif(servers.kind() != "lazuli", reason="the peer has no files")

MIB = 1 << 20
TIB = 1 << 40
LONG_AGO = datetime(2001, 2, 3, 4, 5, 6, 789_012)


def ranges(file, **how):
    return [(one.start, one.end, one.cleared) for one in file.list_ranges(**how)]


def read(file, **how):
    return file.download_file(**how).readall()


def test_files_come_and_go(share, refused):
    file = share.get_file_client("f")
    assert not file.exists()
    made = file.create_file(10, metadata={"Hello": "world"})
    assert read(file) == bytes(10)
    seen = file.get_file_properties()
    assert (seen.etag, seen.last_modified, seen.size, seen.metadata) == (made["etag"], made["last_modified"], 10, {"Hello": "world"})
    assert (seen.file_id, seen.parent_id, seen.permission_key) == (made["file_id"], made["file_parent_id"], made["file_permission_key"])
    assert (str(seen.file_attributes), seen.file_type, seen.content_settings.content_type) == ("Archive", "File", "application/octet-stream")
    assert (seen.name, seen.share, seen.path) == ("f", share.share_name, "f")
    assert (seen.lease.status, seen.lease.state, seen.server_encrypted, seen.copy.id) == ("unlocked", "available", True, None)
    again = file.create_file(3)  # replaces what was there
    assert again["file_id"] == made["file_id"] or again["etag"] != made["etag"]
    assert read(file) == bytes(3) and not file.get_file_properties().metadata

    share.create_directory("d")
    with refused(409, "ResourceTypeMismatch"):
        share.get_file_client("d").create_file(1)
    with refused(409, "ResourceTypeMismatch"):
        share.get_directory_client("f").delete_directory()
    file.delete_file()
    for act in (file.delete_file, file.get_file_properties, file.download_file, lambda: file.upload_range(b"x", 0, 1), lambda: ranges(file),
                lambda: file.set_file_metadata({}), lambda: file.resize_file(1)):
        with refused(404, "ResourceNotFound"):
            act()
    with refused(404, "ParentNotFound"):
        share.get_file_client("absent/f").get_file_properties()


@pytest.mark.parametrize("size", [0, 1, 511, 512, 65_536, 4 * MIB, 4 * MIB + 1, 9_876_543])
def test_upload_and_download(share, size):
    content = os.urandom(size)
    file = share.get_file_client("f")
    file.upload_file(content, max_concurrency=3, content_settings=ContentSettings(content_type="a/b", content_md5=bytearray(hashlib.md5(content).digest())))
    downloaded = file.download_file(max_concurrency=3)
    assert downloaded.readall() == content and downloaded.properties.size == size
    assert bytes(file.get_file_properties().content_settings.content_md5) == hashlib.md5(content).digest()
    if size > 1000:
        assert read(file, offset=100, length=900) == content[100:1000]
        assert read(file, offset=size - 7) == content[-7:]
        assert read(file, offset=size - 7, length=100) == content[-7:]


def test_upload_of_many_kinds(share):
    file = share.get_file_client("f")
    file.upload_file("h\u00e9llo")
    assert file.download_file(encoding="utf-8").readall() == "h\u00e9llo"
    file.upload_file(io.BytesIO(b"stream"))
    assert read(file) == b"stream"
    file.upload_file((piece for piece in (b"one ", b"two")), length=7)
    assert read(file) == b"one two"
    file.upload_file(b"x" * 5_000_000, validate_content=True)
    assert b"".join(file.download_file(validate_content=True).chunks()) == b"x" * 5_000_000
    target = io.BytesIO()
    assert file.download_file().readinto(target) == 5_000_000


@pytest.mark.parametrize("how", [True, "md5", "crc64", "auto"])
def test_content_is_checked(share, how):
    content = os.urandom(5_000_000)
    file = share.get_file_client("f")
    file.upload_file(content, validate_content=how)
    assert read(file, validate_content=how) == content
    file.upload_range(b"y" * 1000, 100, 1000, validate_content=how)
    assert read(file, offset=50, length=100, validate_content=how) == content[50:100] + b"y" * 50


def test_a_body_that_is_not_what_its_hash_says(share, refused):
    file = share.get_file_client("f")
    file.create_file(100)
    wrong = "AAAAAAAAAAAAAAAAAAAAAA=="
    with refused(400, "Md5Mismatch"):
        file.upload_range(b"x" * 10, 0, 10, headers={"Content-MD5": wrong})
    assert read(file) == bytes(100)


def test_create_with_content(share):
    file = share.get_file_client("f")
    file.create_file(10, data=b"content")
    assert read(file) == b"content" + bytes(3)


def test_ranges(share, refused):
    file = share.get_file_client("f")
    file.create_file(10_000)
    assert ranges(file) == []
    file.upload_range(b"a" * 512, 0, 512)
    file.upload_range(b"b" * 1000, 4096, 1000)
    file.upload_range(b"c" * 512, 512, 512)
    assert [(start, end) for start, end, _ in ranges(file)] == [(0, 1023), (4096, 5095)]
    assert [(start, end) for start, end, _ in ranges(file, offset=512, length=4000)] == [(512, 1023), (4096, 4511)]
    assert read(file) == b"a" * 512 + b"c" * 512 + bytes(3072) + b"b" * 1000 + bytes(4904)
    file.clear_range(512, 4096)
    assert read(file) == b"a" * 512 + bytes(4096) + b"b" * 488 + bytes(4904)
    assert [(start, end) for start, end, _ in ranges(file)] == [(0, 511), (4608, 5095)]
    with refused(416, "InvalidRange"):
        file.upload_range(b"x" * 10, 9_995, 10)
    with refused(416, "InvalidRange"):
        read(file, offset=10_000, length=1)
    with refused(413, "RequestBodyTooLarge"):
        file.upload_range(bytes(4 * MIB + 1), 0, 4 * MIB + 1)
    assert file.get_file_properties().size == 10_000


def test_ranges_in_pages(share):
    file = share.get_file_client("f")
    file.create_file(100_000)
    for n in range(7):
        file.upload_range(b"x" * 512, n * 4096, 512)
    wanted = [(n * 4096, n * 4096 + 511, False) for n in range(7)]
    pages = file.list_ranges(results_per_page=3).by_page()
    assert [[(one.start, one.end, one.cleared) for one in page] for page in pages] == [wanted[:3], wanted[3:6], wanted[6:]]
    with pytest.warns(DeprecationWarning):
        assert file.get_ranges() == [{"start": start, "end": end} for start, end, _ in wanted]


def test_differences_between_snapshots(shares, share, refused):
    file = share.get_file_client("f")
    file.create_file(20_480)
    file.upload_range(b"a" * 8192, 0, 8192)
    first = share.create_snapshot()["snapshot"]
    file.upload_range(b"b" * 512, 512, 512)
    file.clear_range(4096, 2048)
    second = share.create_snapshot()["snapshot"]
    file.upload_range(b"c" * 512, 10_240, 512)

    def changes(of, since, **how):
        return [(one.start, one.end, one.cleared) for one in of.list_ranges_diff(since, **how)]

    assert changes(file, first) == [(512, 1023, False), (4096, 6143, True), (10_240, 10_751, False)]
    then = shares.get_share_client(share.share_name, snapshot=second).get_file_client("f")
    assert changes(then, first) == [(512, 1023, False), (4096, 6143, True)]
    assert changes(file, second) == [(10_240, 10_751, False)]
    assert changes(file, first, offset=0, length=4096) == [(512, 1023, False)]
    with pytest.warns(DeprecationWarning):
        assert file.get_ranges_diff(first) == (
            [{"start": 512, "end": 1023}, {"start": 10_240, "end": 10_751}], [{"start": 4096, "end": 6143}])
    with refused(409, "PreviousSnapshotNotFound"):
        changes(file, "2020-01-01T00:00:00.0000000Z")
    moved = file.rename_file("g")
    assert changes(moved, first, include_renames=True) == [(512, 1023, False), (4096, 6143, True), (10_240, 10_751, False)]
    with refused(409):
        changes(moved, first)


def test_a_sparse_file(share):
    file = share.get_file_client("sparse")
    file.create_file(4 * TIB)
    file.upload_range(b"far out", 3 * TIB + 12_345, 7)
    assert read(file, offset=3 * TIB + 12_340, length=20) == bytes(5) + b"far out" + bytes(8)
    [(start, end, _)] = ranges(file)
    assert start <= 3 * TIB + 12_345 and end >= 3 * TIB + 12_351 and end - start < 4096
    file.clear_range(0, 4 * TIB)
    assert ranges(file) == [] and file.get_file_properties().size == 4 * TIB
    file.delete_file()


def test_resize(share, refused):
    file = share.get_file_client("f")
    file.upload_file(b"0123456789" * 1000, content_settings=ContentSettings(content_type="a/b"), metadata={"a": "1"})
    file.resize_file(5)
    assert read(file) == b"01234"
    file.resize_file(8)
    assert read(file) == b"01234\0\0\0"  # what was cut off does not come back
    seen = file.get_file_properties()
    assert (seen.content_settings.content_type, seen.metadata) == ("a/b", {"a": "1"})
    with refused(400):
        file.resize_file(4 * TIB + 1)
    assert share.get_share_stats() == 8


def test_properties(share):
    file = share.get_file_client("f")
    given = dict(content_type="text/plain", content_encoding="br", content_language="de", content_disposition="inline", cache_control="no-store")
    file.create_file(5, content_settings=ContentSettings(**given))
    settings = file.get_file_properties().content_settings
    assert {name: settings[name] for name in given} == given
    file.set_http_headers(ContentSettings(content_language="fr"))
    settings = file.get_file_properties().content_settings
    assert (settings.content_language, settings.content_encoding, settings.cache_control) == ("fr", None, None)
    first = file.set_file_metadata({"Aa": "1", "b": "2"})
    assert file.get_file_properties().metadata == {"Aa": "1", "b": "2"}
    assert file.set_file_metadata({})["etag"] != first["etag"] and not file.get_file_properties().metadata


def test_attributes_and_times(share, refused):
    file = share.get_file_client("f")
    file.create_file(5, file_attributes=NTFSAttributes(read_only=False, hidden=True, temporary=True), file_creation_time=LONG_AGO,
                     file_last_write_time=LONG_AGO + timedelta(days=1), file_change_time=LONG_AGO + timedelta(days=2))
    seen = file.get_file_properties()
    assert set(str(seen.file_attributes).split(" | ")) == {"Hidden", "Temporary", "Archive"}
    times = [time.replace(tzinfo=None) for time in (seen.creation_time, seen.last_write_time, seen.change_time)]
    assert times == [LONG_AGO, LONG_AGO + timedelta(days=1), LONG_AGO + timedelta(days=2)]
    file.upload_range(b"x", 0, 1, file_last_write_mode="Preserve")
    kept = file.get_file_properties()
    assert kept.last_write_time == seen.last_write_time and kept.etag != seen.etag
    file.upload_range(b"x", 0, 1)
    assert file.get_file_properties().last_write_time > seen.last_write_time
    file.set_file_metadata({"a": "1"})
    file.set_http_headers(ContentSettings(), file_attributes="None", file_creation_time="preserve", file_last_write_time=LONG_AGO)
    seen = file.get_file_properties()
    assert (str(seen.file_attributes), seen.creation_time.replace(tzinfo=None), seen.last_write_time.replace(tzinfo=None)) == ("None", LONG_AGO, LONG_AGO)
    with refused(400, "InvalidHeaderValue"):
        file.set_http_headers(ContentSettings(), file_attributes="Shiny")

    read_only = share.get_file_client("ro")
    read_only.upload_file(b"x", file_attributes="Archive")
    read_only.set_http_headers(ContentSettings(), file_attributes="ReadOnly")
    for act in (lambda: read_only.upload_range(b"y", 0, 1), lambda: read_only.resize_file(0), read_only.delete_file, lambda: read_only.create_file(1)):
        with refused(409, "ReadOnlyAttribute"):
            act()
    assert read(read_only) == b"x"
    read_only.set_http_headers(ContentSettings(), file_attributes="None")
    read_only.delete_file()


def test_rename(share, refused):
    file = share.get_file_client("old")
    file.upload_file(b"content", metadata={"a": "1"}, content_settings=ContentSettings(content_type="a/b"))
    before = file.get_file_properties()
    share.create_directory("dir")
    there = file.rename_file("dir/new")
    assert not file.exists() and read(there) == b"content"
    seen = there.get_file_properties()
    assert (seen.file_id, seen.creation_time, seen.last_write_time, seen.metadata) == (
        before.file_id, before.creation_time, before.last_write_time, {"a": "1"})
    assert (seen.content_settings.content_type, seen.parent_id) == ("a/b", share.get_directory_client("dir").get_directory_properties().file_id)
    assert seen.etag != before.etag
    with refused(404, "ResourceNotFound"):
        file.rename_file("anything")

    other = share.get_file_client("other")
    other.upload_file(b"other")
    with refused(409, "ResourceAlreadyExists"):
        there.rename_file("other")
    there = there.rename_file("other", overwrite=True, metadata={"b": "2"}, content_type="c/d")
    assert read(other) == b"content"
    assert (there.get_file_properties().metadata, there.get_file_properties().content_settings.content_type) == ({"b": "2"}, "c/d")
    locked = share.get_file_client("locked")
    locked.upload_file(b"locked")
    locked.set_http_headers(ContentSettings(), file_attributes="ReadOnly")
    with refused(409, "ReadOnlyAttribute"):
        there.rename_file("locked", overwrite=True)
    there = there.rename_file("locked", overwrite=True, ignore_read_only=True)
    assert read(share.get_file_client("locked")) == b"content"
    with refused(409):
        there.rename_file("dir", overwrite=True)  # a directory is not replaced by a file
    assert [one.name for one in share.list_directories_and_files()] == ["dir", "locked"]

    leased, target = share.get_file_client("leased"), share.get_file_client("target")
    leased.upload_file(b"leased")
    target.upload_file(b"target")
    leases = leased.acquire_lease(), target.acquire_lease()
    with refused(412, "LeaseIdMissing"):
        leased.rename_file("target", overwrite=True)
    with refused(412, "LeaseIdMissing"):
        leased.rename_file("target", overwrite=True, source_lease=leases[0])
    leased.rename_file("target", overwrite=True, source_lease=leases[0], destination_lease=leases[1])
    assert read(target) == b"leased"


def test_leases(share, refused):
    file = share.get_file_client("f")
    file.upload_file(b"content")
    etag = file.get_file_properties().etag
    mine, other = str(uuid.uuid4()), str(uuid.uuid4())
    lease = file.acquire_lease(lease_id=mine)
    seen = file.get_file_properties()
    assert (lease.id, seen.lease.status, seen.lease.state, seen.lease.duration, seen.etag) == (mine, "locked", "leased", "infinite", etag)
    with refused(409, "LeaseAlreadyPresent"):
        file.acquire_lease()
    file.acquire_lease(lease_id=mine)
    writes = [lambda **how: file.upload_range(b"x", 0, 1, **how), lambda **how: file.set_file_metadata({"a": "1"}, **how), lambda **how: file.resize_file(9, **how),
              lambda **how: file.set_http_headers(ContentSettings(), **how), lambda **how: file.clear_range(0, 512, **how), lambda **how: file.create_file(600, **how)]
    file.resize_file(600, lease=lease)
    for write in writes:
        with refused(412, "LeaseIdMissing"):
            write()
        with refused(412, "LeaseIdMismatchWithFileOperation"):
            write(lease=other)
    with refused(412, "LeaseIdMissing"):
        file.delete_file()
    assert read(file)[:7] == b"content"  # reads are free
    for write in writes[:2] + writes[-2:]:
        write(lease=lease)
    assert len(read(file, lease=mine)) == 600 and file.get_file_properties(lease=lease).size == 600
    with refused(412, "LeaseIdMismatchWithFileOperation"):
        read(file, lease=other)
    lease.change(other)
    with refused(409, "LeaseIdMismatchWithLeaseOperation"):
        ShareLeaseClient(file, mine).release()
    lease.release()
    with refused(412, "LeaseNotPresentWithFileOperation"):
        file.set_file_metadata({"a": "1"}, lease=other)
    with refused(409, "LeaseNotPresentWithLeaseOperation"):
        ShareLeaseClient(file, mine).break_lease()
    assert file.acquire_lease().break_lease() == 0
    assert file.get_file_properties().lease.state == "broken"
    file.set_file_metadata({"free": "again"})
    with refused(400, "InvalidHeaderValue"):
        ShareLeaseClient(file).acquire(lease_duration=60)
    again = file.acquire_lease()
    file.delete_file(lease=again)


def test_a_reader_sees_one_version(share):
    """Get File goes on with what it began, whatever is written meanwhile."""
    file = share.get_file_client("f")
    old, new = os.urandom(24 * MIB), os.urandom(24 * MIB)
    file.upload_file(old, max_concurrency=4)
    stream = file._client.file.download(cls=lambda response, body, headers: body)  # one request, nothing read ahead
    first = next(stream)
    file.upload_file(new, max_concurrency=4)
    assert first + b"".join(stream) == old
    assert read(file, max_concurrency=4) == new
