"""Append blobs: positions, the conditions of their own, the seal, and what is not theirs."""

import os

import pytest
from azure.core import MatchConditions
from azure.storage.blob import BlobType, ContentSettings

EQUAL, MISSING = MatchConditions.IfNotModified, MatchConditions.IfMissing
MIB = 1024 * 1024


@pytest.fixture
def log(container):
    one = container.get_blob_client("log")
    one.create_append_blob()
    return one


def test_appends_come_one_after_the_other(log):
    written, etags = b"", [log.get_blob_properties().etag]
    for n in range(1, 30):
        block = os.urandom(n * 137)
        answer = log.append_block(block, validate_content=n % 2 == 0)
        assert int(answer["blob_append_offset"]) == len(written)
        assert answer["blob_committed_block_count"] == n
        etags.append(answer["etag"])
        written += block
    assert len(set(etags)) == len(etags), "every append is a change (E4)"
    assert log.download_blob().readall() == written
    assert log.download_blob(offset=1000, length=20_000).readall() == written[1000:21_000]
    seen = log.get_blob_properties()
    assert (seen.blob_type, seen.size, seen.append_blob_committed_block_count) == (BlobType.APPENDBLOB, len(written), 29)
    assert (seen.etag, bool(seen.is_append_blob_sealed), seen.content_settings.content_md5) == (etags[-1], False, None)


def test_a_block_of_some_size(log):
    content = os.urandom(9 * MIB)
    log.append_block(content)
    assert log.download_blob().readall() == content


@pytest.mark.azurite("seals wherever the end is")
def test_position_and_size(log, refused):
    log.append_block(b"12345", appendpos_condition=0)
    for position in (0, 4, 6):
        with refused(412, "AppendPositionConditionNotMet"):
            log.append_block(b"x", appendpos_condition=position)
    log.append_block(b"678", appendpos_condition=5, maxsize_condition=8)
    with refused(412, "MaxBlobSizeConditionNotMet"):
        log.append_block(b"9", maxsize_condition=8)
    with refused(412, "AppendPositionConditionNotMet"):
        log.seal_append_blob(appendpos_condition=7)
    assert log.download_blob().readall() == b"12345678"
    assert log.get_blob_properties().append_blob_committed_block_count == 2


def test_the_other_conditions(log, refused):
    stale = log.get_blob_properties().etag
    now = log.append_block(b"1", etag=stale, match_condition=EQUAL)["etag"]
    with refused(412, "ConditionNotMet"):
        log.append_block(b"2", etag=stale, match_condition=EQUAL)
    with refused(412, "ConditionNotMet"):
        log.create_append_blob(etag=stale, match_condition=EQUAL)
    with refused(412, "ConditionNotMet"):
        log.seal_append_blob(etag=stale, match_condition=EQUAL)
    with refused(409, "BlobAlreadyExists"):
        log.create_append_blob(match_condition=MISSING)
    assert (log.get_blob_properties().etag, log.download_blob().readall()) == (now, b"1")


def test_the_seal(container, log, refused):
    log.append_block(b"all there is")
    log.seal_append_blob(appendpos_condition=12)
    log.seal_append_blob()
    for act in (lambda: log.append_block(b"x"), lambda: log.append_block(b"x", appendpos_condition=12)):
        with refused(409, "BlobIsSealed"):
            act()
    assert log.get_blob_properties().is_append_blob_sealed is True
    assert log.download_blob().readall() == b"all there is"
    assert [bool(one.is_append_blob_sealed) for one in container.list_blobs()] == [True]
    log.set_blob_metadata({"a": "1"})
    log.set_http_headers(ContentSettings(content_type="text/plain"))
    seen = log.get_blob_properties()
    assert (seen.metadata, seen.content_settings.content_type, seen.is_append_blob_sealed) == ({"a": "1"}, "text/plain", True)
    log.create_append_blob()
    assert not log.get_blob_properties().is_append_blob_sealed
    log.append_block(b"anew")


def test_by_the_clients_own_loop(container):
    """upload_blob appends to what is there, in as many blocks as it takes, unless it is told to overwrite."""
    log = container.get_blob_client("log")
    first, second = os.urandom(5 * MIB), os.urandom(70_000)
    log.upload_blob(first, blob_type=BlobType.APPENDBLOB, metadata={"a": "1"}, content_settings=ContentSettings(content_type="text/x-log"))
    log.upload_blob(second, blob_type=BlobType.APPENDBLOB)
    assert log.download_blob().readall() == first + second
    seen = log.get_blob_properties()
    assert (seen.metadata, seen.content_settings.content_type) == ({"a": "1"}, "text/x-log")
    log.upload_blob(second, blob_type=BlobType.APPENDBLOB, overwrite=True)
    assert log.download_blob().readall() == second


@pytest.mark.azurite("overwrites a blob of another type")
def test_what_is_not_theirs(container, log, refused):
    with refused(404, "BlobNotFound"):
        container.get_blob_client("absent").append_block(b"x")
    with refused(409, "InvalidBlobType"):
        log.upload_blob(b"a block blob", overwrite=True)
    plain = container.get_blob_client("plain")
    plain.upload_blob(b"x")
    for act in (lambda: plain.append_block(b"x"), plain.seal_append_blob, plain.create_append_blob):
        with refused(409, "InvalidBlobType"):
            act()
    assert plain.download_blob().readall() == b"x"
    assert {one.name: one.blob_type for one in container.list_blobs()} == {"log": "AppendBlob", "plain": "BlockBlob"}
