"""Block blobs of blocks: staging, committing, reading the list, and staging from many connections at once (promises B5, E4)."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.core import MatchConditions
from azure.storage.blob import BlobBlock, BlobType, ContentSettings

KIB, MIB = 1024, 1024 * 1024
EQUAL, MISSING = MatchConditions.IfNotModified, MatchConditions.IfMissing


def block_id(n):
    return f"{n:05}"


def ids(blocks):
    return [(block.id, block.size) for block in blocks]


@pytest.mark.azurite("lists staged blocks as they came")
def test_staged_from_many_connections_at_once(container):
    """Whatever order the blocks come in, the list says what the blob is."""
    blob = container.get_blob_client("b")
    parts = [os.urandom(KIB * (1 + n % 40)) for n in range(120)]
    with ThreadPoolExecutor(12) as pool:
        for done in pool.map(lambda n: blob.stage_block(block_id(n), parts[n]), reversed(range(120))):
            assert done.get("etag") is None, "Put Block returns no ETag (B5)"
    committed, uncommitted = blob.get_block_list("all")
    assert committed == []
    assert ids(uncommitted) == [(block_id(n), len(parts[n])) for n in range(120)], "by id, whenever they came"

    order = list(range(0, 120, 2)) + list(range(119, 0, -2))
    answer = blob.commit_block_list([BlobBlock(block_id(n)) for n in order])
    content = b"".join(parts[n] for n in order)
    assert blob.download_blob(max_concurrency=4).readall() == content
    seen = blob.get_blob_properties()
    assert (seen.etag, seen.size, seen.content_settings.content_md5) == (answer["etag"], len(content), None)
    committed, uncommitted = blob.get_block_list("all")
    assert ids(committed) == [(block_id(n), len(parts[n])) for n in order]
    assert uncommitted == []
    for offset, length in [(0, 1), (KIB - 1, 2), (100 * KIB, 300 * KIB), (len(content) - 5, 5)]:
        assert blob.download_blob(offset=offset, length=length).readall() == content[offset:offset + length]


def test_a_block_staged_again_replaces_itself(container):
    blob = container.get_blob_client("b")
    blob.stage_block("1", b"first")
    blob.stage_block("1", b"second, and longer")
    assert ids(blob.get_block_list("uncommitted")[1]) == [("1", 18)]
    blob.commit_block_list(["1", "1"])
    assert blob.download_blob().readall() == b"second, and longer" * 2


@pytest.mark.azurite("keeps staged blocks through a Put Blob")
def test_staging_changes_nothing_that_can_be_seen(container):
    blob = container.get_blob_client("b")
    before = blob.upload_blob(b"content")
    blob.stage_block("1", b"not yet")
    seen = blob.get_blob_properties()
    assert (seen.etag, seen.last_modified, seen.size) == (before["etag"], before["last_modified"], 7)
    assert blob.download_blob().readall() == b"content"
    assert ids(blob.get_block_list("uncommitted")[1]) == [("1", 7)]
    blob.upload_blob(b"put whole", overwrite=True)
    assert blob.get_block_list("all") == ([], []), "Put Blob drops what was staged"


@pytest.mark.azurite("takes a blob that is only staged for one that exists")
def test_a_blob_that_is_only_staged(container, refused):
    blob = container.get_blob_client("staged")
    blob.stage_block("1", b"x")
    for act in (blob.download_blob, blob.get_blob_properties, lambda: blob.set_blob_metadata({"a": "1"})):
        with refused(404, "BlobNotFound"):
            act()
    assert list(container.list_blobs()) == []
    assert ids(blob.get_block_list("all")[1]) == [("1", 1)]
    blob.delete_blob()
    with refused(404, "BlobNotFound"):
        blob.get_block_list("all")
    blob.stage_block("longer-id", b"x")
    blob.upload_blob(b"whole", overwrite=False)
    assert blob.get_block_list("uncommitted") == ([], [])


def test_what_a_list_may_name(container, refused):
    """`Latest` alone: this release of the client sends whatever it is given as that. The other two: ../js/legacy.test.cjs and ../rust."""
    blob = container.get_blob_client("b")
    for n, text in ((1, b"one "), (2, b"two "), (3, b"three ")):
        blob.stage_block(f"{n}", text)
    blob.commit_block_list(["1", "2", "3"])
    blob.stage_block("2", b"TWO ")
    blob.stage_block("4", b"FOUR ")
    with refused(400, "InvalidBlockList"):
        blob.commit_block_list(["1", "4", "5"])
    assert blob.download_blob().readall() == b"one two three ", "nothing changed"
    assert len(blob.get_block_list("uncommitted")[1]) == 2, "and nothing was dropped"

    blob.commit_block_list(["3", "2", "1"])
    assert blob.download_blob().readall() == b"three TWO one "
    assert blob.get_block_list("uncommitted")[1] == [], "what was not named is gone"
    with refused(400, "InvalidBlockList"):
        blob.commit_block_list(["4"])
    blob.commit_block_list([])
    assert blob.get_blob_properties().size == 0


@pytest.mark.azurite("takes empty blocks")
def test_bad_blocks(container, refused):
    blob = container.get_blob_client("b")
    blob.stage_block("01", b"x")
    with refused(400, "InvalidBlobOrBlock"):
        blob.stage_block("001", b"ids of one blob are of one length")
    with refused(400, "InvalidHeaderValue"):
        blob.stage_block("02", b"")
    with refused(400, "InvalidQueryParameterValue"):
        blob.stage_block("x" * 65, b"x")
    assert ids(blob.get_block_list("all")[1]) == [("01", 1)]
    container.get_blob_client("log").create_append_blob()
    for act in (lambda one: one.stage_block("01", b"x"), lambda one: one.commit_block_list([]), lambda one: one.get_block_list("all")):
        with refused(409, "InvalidBlobType"):
            act(container.get_blob_client("log"))


def test_a_commit_gives_properties_and_metadata_anew(container):
    blob = container.get_blob_client("b")
    blob.upload_blob(b"x", metadata={"old": "1"}, content_settings=ContentSettings(content_language="de"))
    blob.stage_block("1", b"content", validate_content=True)
    digest = hashlib.md5(b"content").digest()
    blob.commit_block_list(["1"], metadata={"New": "2"}, validate_content=True,
                           content_settings=ContentSettings(content_type="text/plain", content_md5=bytearray(digest)))
    seen = blob.get_blob_properties()
    assert seen.blob_type == BlobType.BLOCKBLOB and seen.metadata == {"New": "2"}
    assert (seen.content_settings.content_type, seen.content_settings.content_language) == ("text/plain", None)
    assert seen.content_settings.content_md5 == digest
    blob.commit_block_list(["1"])
    seen = blob.get_blob_properties()
    assert seen.metadata == {} and seen.content_settings.content_type == "application/octet-stream"


def test_conditions_of_a_commit(container, refused):
    blob = container.get_blob_client("b")
    stale = blob.upload_blob(b"1")["etag"]
    now = blob.upload_blob(b"2", overwrite=True)["etag"]
    blob.stage_block("1", b"3")
    with refused(412, "ConditionNotMet"):
        blob.commit_block_list(["1"], etag=stale, match_condition=EQUAL)
    with refused(409, "BlobAlreadyExists"):
        blob.commit_block_list(["1"], match_condition=MISSING)
    assert blob.download_blob().readall() == b"2"
    answer = blob.commit_block_list(["1"], etag=now, match_condition=EQUAL)
    assert answer["etag"] not in (stale, now)
    assert blob.download_blob().readall() == b"3"


def test_commits_that_compete(container):
    """Of writers that hold one ETag one wins (B2), and the blob is that one's alone."""
    blob = container.get_blob_client("b")
    for _ in range(5):
        etag = blob.upload_blob(b"", overwrite=True)["etag"]
        for n in range(8):
            blob.stage_block(f"{n}-a", b"%d" % n * 1000)
            blob.stage_block(f"{n}-b", b"%d" % n * 500)

        def commit(n):
            try:
                return blob.commit_block_list([f"{n}-a", f"{n}-b"], etag=etag, match_condition=EQUAL)["etag"]
            except Exception as error:
                return error.status_code

        with ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(commit, range(8)))
        winners = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, str)]
        assert len(winners) == 1 and outcomes.count(412) == 7, outcomes
        assert blob.download_blob().readall() == b"%d" % winners[0] * 1500
        assert blob.get_blob_properties().etag == outcomes[winners[0]]


@pytest.mark.parametrize("size", [MIB - 1, 3 * MIB + 17, 8 * MIB])
def test_uploads_that_the_client_cuts(container, tools, refused, size):
    service = tools.client(container.url.rsplit("/", 1)[0], max_single_put_size=MIB, max_block_size=MIB // 2)
    blob = service.get_blob_client(container.container_name, f"size-{size}")
    content = os.urandom(size)
    blob.upload_blob(content, max_concurrency=4, metadata={"a": "1"})
    assert blob.download_blob(max_concurrency=4).readall() == content
    assert blob.get_blob_properties().metadata == {"a": "1"}
    with refused(409, "BlobAlreadyExists"):
        blob.upload_blob(content[::-1], max_concurrency=4)
    assert blob.download_blob().readall() == content
    blob.upload_blob(content[::-1], max_concurrency=4, overwrite=True)
    assert blob.download_blob().readall() == content[::-1]
    assert sum(block.size for block in blob.get_block_list("all")[0]) == (size if size > MIB else 0)
