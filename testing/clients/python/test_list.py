"""List Blobs: prefix, pages, metadata, delimiter, order."""

import pytest
from azure.storage.blob import BlobPrefix

NAMES = sorted(
    ["a", "a/1", "a/2", "a/b/1", "a/b/2", "b", "c/1", "c/2", "d//e", "Upper", "\u00fcber"]
    + [f"many/{n:03}" for n in range(30)])


@pytest.fixture(scope="module")
def full(service):
    from common import fresh_name
    container = service.create_container(fresh_name())
    for name in NAMES:
        container.upload_blob(name, name.encode(), metadata={"Name_Length": str(len(name))})
    yield container
    container.delete_container()


def test_everything_in_order(full):
    listed = list(full.list_blobs())
    assert [b.name for b in listed] == NAMES
    for blob in listed:
        assert blob.size == len(blob.name.encode())
        assert blob.container == full.container_name
        assert blob.blob_type == "BlockBlob"
        assert blob.etag and blob.last_modified and blob.creation_time
        assert blob.lease.state == "available"
        assert not blob.metadata
        assert blob.content_settings.content_type == "application/octet-stream"
        assert blob.content_settings.content_md5


def test_listing_agrees_with_properties(full):
    for blob in list(full.list_blobs())[:5]:
        seen = full.get_blob_client(blob.name).get_blob_properties()
        assert blob.etag.strip('"') == seen.etag.strip('"')
        assert blob.last_modified == seen.last_modified
        assert blob.creation_time == seen.creation_time
        assert blob.content_settings.content_md5 == seen.content_settings.content_md5


@pytest.mark.parametrize("prefix", ["a", "a/", "a/b/", "many/0", "many/01", "\u00fc", "zzz", "d//", "U"])
def test_prefix(full, prefix):
    assert [b.name for b in full.list_blobs(name_starts_with=prefix)] == [n for n in NAMES if n.startswith(prefix)]


@pytest.mark.parametrize("size", [1, 2, 7, 41, 5000])
def test_pages(full, size):
    pages = [[b.name for b in page] for page in full.list_blobs(results_per_page=size).by_page()]
    assert [name for page in pages for name in page] == NAMES
    assert all(len(page) <= size for page in pages)
    # A page may hold fewer and still have a marker, but an idle server has no reason to.
    assert len(pages) == -(-len(NAMES) // size)


def test_pages_resume_from_a_token(full):
    pages = full.list_blobs(name_starts_with="many/", results_per_page=10).by_page()
    first = [b.name for b in next(pages)]
    rest = full.list_blobs(name_starts_with="many/").by_page(continuation_token=pages.continuation_token)
    assert first + [b.name for page in rest for b in page] == [n for n in NAMES if n.startswith("many/")]


def test_include_metadata(full):
    for blob in full.list_blobs(include=["metadata"]):
        assert blob.metadata == {"Name_Length": str(len(blob.name))}


def level(names, prefix, delimiter):
    """What a walk shows at one level, in order."""
    seen = []
    for name in names:
        if name.startswith(prefix):
            head, found, _ = name[len(prefix):].partition(delimiter)
            item = (prefix + head + delimiter, True) if found else (name, False)
            if item not in seen:
                seen.append(item)
    return seen


@pytest.mark.parametrize("prefix", ["", "a", "a/", "a/b", "a/b/", "d/", "many/"])
def test_walk_with_delimiter(full, prefix):
    walked = [(item.name, isinstance(item, BlobPrefix)) for item in full.walk_blobs(name_starts_with=prefix)]
    # The client hands out what it gets page by page, prefixes and blobs apart: compare as sets.
    assert sorted(walked) == sorted(level(NAMES, prefix, "/"))


@pytest.mark.azurite("cuts at the first character of the delimiter")
def test_delimiter_of_several_characters(full):
    walked = [(item.name, isinstance(item, BlobPrefix)) for item in full.walk_blobs(delimiter="/0")]
    assert sorted(walked) == sorted(level(NAMES, "", "/0"))


def test_walk_with_delimiter_in_pages(full):
    pages = full.walk_blobs(results_per_page=2).by_page()
    sizes, walked = [], []
    for page in pages:
        items = [(item.name, isinstance(item, BlobPrefix)) for item in page]
        sizes.append(len(items))
        walked += items
    assert sorted(walked) == sorted(level(NAMES, "", "/")), "each prefix exactly once, however small the pages"
    assert all(size <= 2 for size in sizes)


def test_empty_container(container):
    assert list(container.list_blobs()) == []
    assert list(container.walk_blobs()) == []


def test_list_names_only(full):
    assert list(full.list_blob_names()) == NAMES


@pytest.mark.azurite("refuses without a code")
def test_bad_parameters(full, refused):
    with refused(400, "OutOfRangeQueryParameterValue"):
        next(full.list_blobs(results_per_page=-1).by_page())
    with refused(400, "InvalidQueryParameterValue"):
        list(full.list_blobs(include=["nonsense"]))


def test_deleted_blobs_leave_the_listing_at_once(container):
    for n in range(50):
        container.upload_blob(f"{n:02}", b"x")
    for n in range(0, 50, 2):
        container.delete_blob(f"{n:02}")
        assert f"{n:02}" not in [b.name for b in container.list_blobs(name_starts_with=f"{n // 10}")]
    assert [b.name for b in container.list_blobs(results_per_page=7)] == [f"{n:02}" for n in range(1, 50, 2)]
