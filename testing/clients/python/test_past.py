"""Snapshots, versions and what is deleted but kept, through the official client."""

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import BlobServiceClient, RetentionPolicy

import server as servers


@pytest.fixture(scope="module")
def keeping(tmp_path_factory):
    """A server whose account keeps versions."""
    config = tmp_path_factory.mktemp("keeping") / "lazuli.toml"
    config.write_text("[account.devstoreaccount1]\nversioning = true\n")
    with servers.Server(extra=["--config", str(config)]).start() as running:
        yield BlobServiceClient(running.endpoint, credential=servers.KEY, retry_total=0)


@pytest.fixture(scope="module")
def retaining():
    """A server that keeps what is deleted for a week."""
    with servers.Server().start() as running:
        service = BlobServiceClient(running.endpoint, credential=servers.KEY, retry_total=0)
        service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=True, days=7))
        policy = service.get_service_properties()["delete_retention_policy"]
        assert (policy.enabled, policy.days) == (True, 7)
        yield service


def listed(container, include):
    return [(one.name, one.snapshot is not None, bool(one.deleted)) for one in container.list_blobs(include=include)]


def test_snapshots(container):
    blob = container.upload_blob("b", b"first", metadata={"a": "1"})
    taken = blob.create_snapshot()
    again = blob.create_snapshot(metadata={"b": "2"})
    blob.upload_blob(b"second", overwrite=True)
    then = container.get_blob_client("b", snapshot=taken["snapshot"])
    assert then.download_blob().readall() == b"first"
    assert then.get_blob_properties().metadata == {"a": "1"}
    assert container.get_blob_client("b", snapshot=again["snapshot"]).get_blob_properties().metadata == {"b": "2"}
    assert blob.download_blob().readall() == b"second"
    assert [one.snapshot for one in container.list_blobs(include=["snapshots"])] == [
        taken["snapshot"], again["snapshot"], None
    ]
    with pytest.raises(HttpResponseError) as refused:
        blob.delete_blob()
    assert (refused.value.status_code, refused.value.error_code) == (409, "SnapshotsPresent")
    then.delete_blob()
    with pytest.raises(ResourceNotFoundError):
        then.get_blob_properties()
    blob.delete_blob(delete_snapshots="only")
    assert listed(container, ["snapshots"]) == [("b", False, False)]
    blob.create_snapshot()
    blob.delete_blob(delete_snapshots="include")
    assert listed(container, ["snapshots"]) == []


def test_a_snapshot_is_of_one_moment(container):
    """E2: what a snapshot shows is one committed state, whatever is written meanwhile."""
    blob = container.upload_blob("b", b"0" * 3_000_000)
    for digit in b"123":
        taken = blob.create_snapshot()
        blob.upload_blob(bytes([digit]) * 3_000_000, overwrite=True)
        content = container.get_blob_client("b", snapshot=taken["snapshot"]).download_blob().readall()
        assert content == bytes([digit - 1]) * 3_000_000


def test_deleted_and_restored(retaining):
    container = retaining.create_container("restored")
    blob = container.upload_blob("b", b"precious")
    blob.create_snapshot()
    blob.delete_blob(delete_snapshots="include")
    assert not blob.exists()
    assert listed(container, ["snapshots"]) == []
    assert listed(container, ["deleted", "snapshots"]) == [("b", True, True), ("b", False, True)]
    deleted = [one for one in container.list_blobs(include=["deleted"])]
    assert deleted[0].deleted_time is not None and deleted[0].remaining_retention_days == 6
    blob.undelete_blob()
    assert blob.download_blob().readall() == b"precious"
    assert listed(container, ["deleted", "snapshots"]) == [("b", True, False), ("b", False, False)]
    # What was overwritten comes back as a snapshot.
    blob.upload_blob(b"other", overwrite=True)
    blob.undelete_blob()
    contents = [
        container.get_blob_client("b", snapshot=one.snapshot).download_blob().readall()
        for one in container.list_blobs(include=["snapshots"])
    ]
    assert contents == [b"precious", b"precious", b"other"]


def test_versions(keeping):
    container = keeping.create_container("versions")
    blob = container.get_blob_client("b")
    ids = [blob.upload_blob(content, overwrite=True)["version_id"] for content in (b"1", b"22", b"333")]
    assert ids == sorted(ids) and len(set(ids)) == 3
    assert [blob.download_blob(version_id=one).readall() for one in ids] == [b"1", b"22", b"333"]
    versions = list(container.list_blobs(include=["versions"]))
    assert [(one.version_id, bool(one.is_current_version)) for one in versions] == [
        (ids[0], False), (ids[1], False), (ids[2], True)
    ]
    properties = blob.get_blob_properties()
    assert (properties.version_id, properties.is_current_version) == (ids[2], True)
    fourth = blob.set_blob_metadata({"a": "1"})["version_id"]
    assert fourth > ids[2] and blob.get_blob_properties(version_id=ids[2]).metadata == {}
    blob.delete_blob(version_id=ids[0])
    with pytest.raises(ResourceNotFoundError):
        blob.download_blob(version_id=ids[0])
    blob.delete_blob()
    assert not blob.exists()
    assert [one.version_id for one in container.list_blobs(include=["versions"])] == [ids[1], ids[2], fourth]
    # An earlier version becomes the blob again by putting it there.
    blob.upload_blob(blob.download_blob(version_id=ids[1]).readall())
    assert blob.download_blob().readall() == b"22"
