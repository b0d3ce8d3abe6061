"""Page blobs through the official client: pages, ranges, differences, sizes, sequence numbers."""

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceModifiedError

PAGE = 512


def pages(letters):
    """One page for each letter."""
    return b"".join(letter.encode() * PAGE for letter in letters)


def shown(blob, **options):
    content = blob.download_blob(**options).readall()
    return "".join("." if content[at] == 0 else chr(content[at]) for at in range(0, len(content), PAGE))


def ranges(blob, **options):
    valid, cleared = blob.get_page_ranges(**options)
    as_pages = lambda found: [(one["start"] // PAGE, (one["end"] + 1) // PAGE) for one in found]
    return as_pages(valid), as_pages(cleared)


@pytest.fixture
def blob(container):
    blob = container.get_blob_client("disk.vhd")
    blob.create_page_blob(size=8 * PAGE, sequence_number=3, metadata={"Kind": "disk"})
    return blob


def test_written_cleared_and_listed(blob):
    blob.upload_page(pages("aaaa"), offset=2 * PAGE, length=4 * PAGE)
    blob.upload_page(pages("b"), offset=3 * PAGE, length=PAGE, validate_content=True)
    assert shown(blob) == "..abaa.."
    assert shown(blob, offset=3 * PAGE, length=2 * PAGE) == "ba"
    blob.clear_page(offset=4 * PAGE, length=PAGE)
    assert shown(blob) == "..ab.a.."
    assert [(one.start // PAGE, (one.end + 1) // PAGE, one.cleared) for one in blob.list_page_ranges()] == [
        (2, 4, False), (5, 6, False)
    ]
    properties = blob.get_blob_properties()
    assert (properties.blob_type, properties.size, properties.page_blob_sequence_number) == ("PageBlob", 8 * PAGE, 3)
    assert properties.metadata == {"Kind": "disk"}


def test_differences_to_a_snapshot(container, blob):
    blob.upload_page(pages("aa"), offset=0, length=2 * PAGE)
    before = blob.create_snapshot()["snapshot"]
    blob.upload_page(pages("b"), offset=PAGE, length=PAGE)
    blob.upload_page(pages("c"), offset=6 * PAGE, length=PAGE)
    blob.clear_page(offset=0, length=PAGE)
    assert ranges(blob, previous_snapshot_diff=before) == ([(1, 2), (6, 7)], [(0, 1)])
    listed = list(blob.list_page_ranges(previous_snapshot=before, results_per_page=1))
    assert [(one.start // PAGE, one.cleared) for one in listed] == [(0, True), (1, False), (6, False)]
    assert shown(container.get_blob_client(blob.blob_name, snapshot=before)) == "aa......"


def test_sizes_and_sequence_numbers(blob):
    blob.upload_page(pages("abcdefgh"), offset=0, length=8 * PAGE)
    blob.resize_blob(2 * PAGE)
    assert shown(blob) == "ab"
    blob.resize_blob(4 * PAGE)
    assert shown(blob) == "ab.."
    assert blob.set_sequence_number("max", "7")["blob_sequence_number"] == 7
    assert blob.set_sequence_number("increment")["blob_sequence_number"] == 8
    assert blob.set_sequence_number("update", "5")["blob_sequence_number"] == 5
    blob.upload_page(pages("z"), offset=0, length=PAGE, if_sequence_number_lte=5)
    with pytest.raises(HttpResponseError) as refused:
        blob.upload_page(pages("y"), offset=0, length=PAGE, if_sequence_number_lt=5)
    assert (refused.value.status_code, refused.value.error_code) == (412, "SequenceNumberConditionNotMet")
    with pytest.raises(HttpResponseError) as refused:
        blob.upload_page(pages("y"), offset=4 * PAGE, length=PAGE)
    assert (refused.value.status_code, refused.value.error_code) == (416, "InvalidPageRange")


def test_stale_page_writes_change_nothing(blob):
    """B2: the writer that holds an old ETag is refused."""
    etag = blob.get_blob_properties().etag
    blob.upload_page(pages("a"), offset=0, length=PAGE, etag=etag, match_condition=MatchConditions.IfNotModified)
    with pytest.raises(ResourceModifiedError):
        blob.upload_page(pages("b"), offset=0, length=PAGE, etag=etag, match_condition=MatchConditions.IfNotModified)
    assert shown(blob)[0] == "a"


def test_as_large_as_can_be(container):
    """8 TiB cost nothing, and the last page can be written."""
    blob = container.get_blob_client("huge.vhd")
    size = 8 << 40
    blob.create_page_blob(size=size)
    blob.upload_page(pages("z"), offset=size - PAGE, length=PAGE)
    assert shown(blob, offset=size - 2 * PAGE, length=2 * PAGE) == ".z"
    assert ranges(blob) == ([(size // PAGE - 1, size // PAGE)], [])


def test_uploaded_in_pieces(container):
    """The client uploads a page blob in pieces of 4 MiB and leaves out what is empty."""
    content = bytes(5 << 20) + b"x" * (1 << 20) + bytes(3 << 20)
    blob = container.upload_blob("image", content, blob_type="PageBlob")
    assert blob.download_blob().readall() == content
