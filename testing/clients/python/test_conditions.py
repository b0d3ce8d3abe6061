"""Every conditional header, on every operation of the slice that takes one (promises B2, B3)."""

from datetime import timedelta

import pytest
from azure.core import MatchConditions

EQUAL, OTHER = MatchConditions.IfNotModified, MatchConditions.IfModified  # If-Match: etag, If-None-Match: etag
PRESENT, MISSING = MatchConditions.IfPresent, MatchConditions.IfMissing  # If-Match: *, If-None-Match: *
HOUR = timedelta(hours=1)
WRONG = '"0x8D6D418B6C08663"'


@pytest.fixture
def blob(container):
    one = container.get_blob_client("b")
    one.upload_blob(b"content")
    one.now = one.get_blob_properties()
    return one


def conditions(blob):
    """name: (keywords, holds). The pairs with holds=False make a read 304 or 412 and a write 412."""
    etag, date = blob.now.etag, blob.now.last_modified
    return {
        "if-match equal": (dict(etag=etag, match_condition=EQUAL), None),
        "if-match *": (dict(match_condition=PRESENT), None),
        "if-match different": (dict(etag=WRONG, match_condition=EQUAL), 412),
        "if-none-match different": (dict(etag=WRONG, match_condition=OTHER), None),
        "if-none-match equal": (dict(etag=etag, match_condition=OTHER), 304),
        "modified since before": (dict(if_modified_since=date - HOUR), None),
        "modified since now": (dict(if_modified_since=date), 304),
        "modified since later": (dict(if_modified_since=date + HOUR), 304),
        "unmodified since later": (dict(if_unmodified_since=date + HOUR), None),
        "unmodified since now": (dict(if_unmodified_since=date), None),
        "unmodified since before": (dict(if_unmodified_since=date - HOUR), 412),
    }


CASES = [
    "if-match equal", "if-match *", "if-match different", "if-none-match different", "if-none-match equal",
    "modified since before", "modified since now", "modified since later",
    "unmodified since later", "unmodified since now", "unmodified since before",
]

READS = {
    "get": lambda blob, how: blob.download_blob(**how).readall(),
    "get range": lambda blob, how: blob.download_blob(offset=1, length=2, **how).readall(),
    "head": lambda blob, how: blob.get_blob_properties(**how),
}
WRITES = {
    "put": lambda blob, how: blob.upload_blob(b"changed", overwrite=True, **how),
    "delete": lambda blob, how: blob.delete_blob(**how),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("read", READS)
def test_reads(blob, refused, read, case):
    how, failure = conditions(blob)[case]
    if failure is None:
        READS[read](blob, how)
    else:
        with refused(failure, "ConditionNotMet"):
            READS[read](blob, how)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("write", WRITES)
def test_writes(blob, refused, write, case):
    how, failure = conditions(blob)[case]
    if failure is None:
        WRITES[write](blob, how)
        if write == "delete":
            assert not blob.exists()
        else:
            assert blob.download_blob().readall() == b"changed"
            assert blob.get_blob_properties().etag != blob.now.etag
    else:
        with refused(412, "ConditionNotMet"):
            WRITES[write](blob, how)
        assert blob.download_blob().readall() == b"content"
        assert blob.get_blob_properties().etag == blob.now.etag


@pytest.mark.parametrize("case,failure", [
    ("if-match different", 412), ("if-match *", 412),
    ("if-none-match different", None), ("modified since later", None), ("unmodified since before", None),
])
def test_put_where_no_blob_is(container, blob, refused, case, failure):
    how = conditions(blob)[case][0]
    absent = container.get_blob_client("absent")
    if failure:
        with refused(failure, "ConditionNotMet"):
            absent.upload_blob(b"new", overwrite=True, **how)
        assert not absent.exists()
    else:
        absent.upload_blob(b"new", overwrite=True, **how)
        assert absent.download_blob().readall() == b"new"


def test_create_only(container, blob, refused):
    with refused(409, "BlobAlreadyExists"):
        blob.upload_blob(b"changed", overwrite=True, match_condition=MISSING)
    assert blob.download_blob().readall() == b"content"
    container.get_blob_client("absent").upload_blob(b"new", overwrite=True, match_condition=MISSING)


def test_if_none_match_star_on_reads_cannot_be_satisfied(blob, refused):
    for read in ("get", "head"):
        with refused(400, "UnsatisfiableCondition"):
            READS[read](blob, dict(match_condition=MISSING))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.azurite("answers 412 to If-Match on a missing blob")
def test_missing_blob_is_404_whatever_the_condition(container, blob, refused, name):
    how = conditions(blob)[name][0]
    absent = container.get_blob_client("absent")
    for read in READS.values():
        with refused(404, "BlobNotFound"):
            read(absent, how)


@pytest.mark.parametrize("match,unmodified,none_match,modified,result", [
    # If-Match AND If-Unmodified-Since AND (If-None-Match OR If-Modified-Since)
    (True, True, None, None, 200), (False, True, None, None, 412), (True, False, None, None, 412),
    (None, None, True, False, 200), (None, None, False, True, 200), (None, None, False, False, 304),
    (None, True, False, None, 304), (None, False, False, None, 412), (None, True, True, False, 200),
])
def test_reads_combine(blob, refused, match, unmodified, none_match, modified, result):
    how = {}
    etag, date = blob.now.etag, blob.now.last_modified
    if match is not None:
        how.update(etag=etag if match else WRONG, match_condition=EQUAL)
    if none_match is not None:
        how.update(etag=WRONG if none_match else etag, match_condition=OTHER)
    if unmodified is not None:
        how.update(if_unmodified_since=date + HOUR if unmodified else date - HOUR)
    if modified is not None:
        how.update(if_modified_since=date - HOUR if modified else date + HOUR)
    for read in READS.values():
        if result == 200:
            read(blob, how)
        else:
            with refused(result, "ConditionNotMet"):
                read(blob, how)


def test_writes_take_one_condition(blob, refused):
    etag, date = blob.now.etag, blob.now.last_modified
    for how in (
        dict(etag=etag, match_condition=EQUAL, if_modified_since=date - HOUR),
        dict(etag=WRONG, match_condition=OTHER, if_unmodified_since=date + HOUR),
        dict(if_modified_since=date - HOUR, if_unmodified_since=date + HOUR),
    ):
        for write in WRITES.values():
            with refused(400, "MultipleConditionHeadersNotSupported"):
                write(blob, how)
    # the two pairs that are allowed: only the ETag is judged
    blob.upload_blob(b"1", overwrite=True, etag=etag, match_condition=EQUAL, if_unmodified_since=date - HOUR)
    blob.upload_blob(b"2", overwrite=True, etag=WRONG, match_condition=OTHER, if_modified_since=date + HOUR)


def test_etag_without_quotes(blob, refused):
    bare = blob.now.etag.strip('"')
    blob.get_blob_properties(etag=bare, match_condition=EQUAL)
    with refused(304, "ConditionNotMet"):
        blob.get_blob_properties(etag=bare, match_condition=OTHER)


def test_stale_etag_loses(blob, refused):
    stale = blob.now.etag
    blob.upload_blob(b"theirs", overwrite=True)
    with refused(412, "ConditionNotMet"):
        blob.upload_blob(b"mine", overwrite=True, etag=stale, match_condition=EQUAL)
    with refused(412, "ConditionNotMet"):
        blob.delete_blob(etag=stale, match_condition=EQUAL)
    assert blob.download_blob().readall() == b"theirs"
