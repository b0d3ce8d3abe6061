"""Tags: with writes, on their own, in conditions, in listings, and found by them."""

import pytest
from azure.core import MatchConditions

TAGS = {"project": "Alpha-1", "state": "in review", "empty": ""}


def test_tags_of_a_blob(container):
    blob = container.get_blob_client("a")
    first = blob.upload_blob(b"content")
    assert blob.get_blob_tags() == {} and blob.get_blob_properties().tag_count is None
    blob.set_blob_tags(TAGS)
    assert blob.get_blob_tags() == TAGS
    seen = blob.get_blob_properties()
    assert (seen.tag_count, seen.etag) == (3, first["etag"])
    assert blob.download_blob().properties.tag_count == 3
    listed = {one.name: one for one in container.list_blobs(include=["tags"])}
    assert (listed["a"].tags, listed["a"].tag_count) == (TAGS, 3)
    assert [one.tags for one in container.list_blobs()] == [None]
    blob.set_blob_tags()
    assert blob.get_blob_tags() == {}


def test_tags_come_with_writes_and_go_with_them(container):
    blob = container.get_blob_client("a")
    blob.upload_blob(b"content", tags=TAGS)
    assert blob.get_blob_tags() == TAGS
    blob.upload_blob(b"x" * 20, overwrite=True, tags={"a=b": "c/d:e+f"})
    assert blob.get_blob_tags() == {"a=b": "c/d:e+f"}
    blob.stage_block("MQ==", b"block")
    blob.commit_block_list(["MQ=="], tags=TAGS)
    assert blob.get_blob_tags() == TAGS
    blob.upload_blob(b"content", overwrite=True)
    assert blob.get_blob_tags() == {}
    log = container.get_blob_client("log")
    log.create_append_blob(tags=TAGS)
    log.append_block(b"line")
    assert log.get_blob_tags() == TAGS


def test_conditions_on_tags(container, refused):
    blob = container.get_blob_client("a")
    blob.upload_blob(b"content", tags=TAGS)
    good, bad = "\"project\" = 'Alpha-1' AND (state > 'a' OR state = 'b')", "project <> 'Alpha-1'"
    assert blob.download_blob(if_tags_match_condition=good).readall() == b"content"
    blob.get_blob_properties(if_tags_match_condition=good)
    blob.get_blob_tags(if_tags_match_condition=good)
    blob.set_blob_metadata({"a": "1"}, if_tags_match_condition=good)
    blob.set_standard_blob_tier("Cool", if_tags_match_condition=good)
    for attempt in (
        lambda: blob.download_blob(if_tags_match_condition=bad),
        lambda: blob.get_blob_properties(if_tags_match_condition=bad),
        lambda: blob.upload_blob(b"other", overwrite=True, if_tags_match_condition=bad),
        lambda: blob.set_blob_tags({}, if_tags_match_condition=bad),
        lambda: blob.set_standard_blob_tier("Hot", if_tags_match_condition=bad),
        lambda: blob.acquire_lease(if_tags_match_condition=bad),
        lambda: blob.create_snapshot(if_tags_match_condition=bad),
        lambda: blob.delete_blob(if_tags_match_condition=bad),
    ):
        with refused(412, "ConditionNotMet"):
            attempt()
    with refused(400, "InvalidHeaderValue"):
        blob.delete_blob(if_tags_match_condition="project = 1")
    blob.delete_blob(if_tags_match_condition=good)


def test_conditions_on_the_blob_of_the_tags(container, refused):
    blob = container.get_blob_client("a")
    etag = blob.upload_blob(b"content")["etag"]
    try:
        blob.set_blob_tags(TAGS, etag=etag, match_condition=MatchConditions.IfNotModified)
    except TypeError:
        pytest.skip("this release of the client does not know them")
    assert blob.get_blob_tags() == TAGS


def test_bad_tags(container, refused):
    blob = container.get_blob_client("a")
    blob.upload_blob(b"content")
    with refused(400, "InvalidTag"):
        blob.set_blob_tags({"a": "?"})
    with refused(400, "TagsTooLarge"):
        blob.set_blob_tags({str(n): "" for n in range(11)})
    with refused(400, "TagsTooLarge"):
        blob.set_blob_tags({"k" * 129: ""})
    with refused(404, "BlobNotFound"):
        container.get_blob_client("none").get_blob_tags()


def test_found_by_tags(service, container):
    mine = container.container_name
    for n in range(7):
        blob = container.get_blob_client(f"dir/{n}")
        blob.upload_blob(b"", tags={"run": mine, "n": f"{n:02}"} if n != 3 else {"run": "other"})
    names = lambda found: [one.name for one in found]
    wanted = [f"dir/{n}" for n in (0, 1, 2, 4, 5, 6)]
    assert names(container.find_blobs_by_tags(f"run = '{mine}'")) == wanted
    assert names(container.find_blobs_by_tags(f"\"run\" = '{mine}' AND n >= '02' AND n < '05'")) == ["dir/2", "dir/4"]
    found = list(service.find_blobs_by_tags(f"run = '{mine}' AND @container = '{mine}'"))
    assert names(found) == wanted and {one.container_name for one in found} == {mine}
    assert found[0].tags == {"run": mine}
    pages = service.find_blobs_by_tags(f"run = '{mine}'", results_per_page=2).by_page()
    assert [names(page) for page in pages] == [wanted[:2], wanted[2:4], wanted[4:]]
    container.get_blob_client("dir/0").set_blob_tags({})
    container.get_blob_client("dir/1").delete_blob()
    assert names(container.find_blobs_by_tags(f"run = '{mine}'")) == wanted[2:]
