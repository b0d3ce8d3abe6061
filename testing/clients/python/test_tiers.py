"""Access tiers, immutability policies and legal holds."""

from datetime import datetime, timedelta, timezone

import pytest
from azure.storage.blob import BlobServiceClient, ImmutabilityPolicy, RehydratePriority, StandardBlobTier

from server import KEY


def started(start, tmp_path, settings):
    """A server of its own whose account is set so."""
    config = tmp_path / "lazuli.toml"
    config.write_text("[account.devstoreaccount1]\n" + settings)
    server = start(extra=["--config", str(config)])
    return BlobServiceClient(server.endpoint, credential=KEY, retry_total=0)


def test_tiers_come_and_go(container, refused):
    blob = container.get_blob_client("a")
    first = blob.upload_blob(b"content")
    seen = blob.get_blob_properties()
    assert (seen.blob_tier, seen.blob_tier_inferred, seen.blob_tier_change_time) == ("Hot", True, None)
    for tier in (StandardBlobTier.COOL, StandardBlobTier.COLD, StandardBlobTier.HOT):
        blob.set_standard_blob_tier(tier)
        seen = blob.get_blob_properties()
        assert (seen.blob_tier, seen.blob_tier_inferred, seen.etag) == (tier, None, first["etag"])
        assert seen.blob_tier_change_time is not None
    blob.upload_blob(b"other", overwrite=True, standard_blob_tier=StandardBlobTier.COOL)
    assert [one.blob_tier for one in container.list_blobs()] == ["Cool"]
    blob.stage_block("MQ==", b"block")
    blob.commit_block_list(["MQ=="], standard_blob_tier=StandardBlobTier.COLD)
    blob.upload_blob(b"inherits", overwrite=True)
    assert blob.get_blob_properties().blob_tier == "Cold"
    with refused(400, "InvalidHeaderValue"):
        blob.set_standard_blob_tier("Lukewarm")
    log = container.get_blob_client("log")
    log.create_append_blob()
    with refused(409, "InvalidBlobType"):
        log.set_standard_blob_tier("Cool")


def test_archive_and_back(start, tmp_path, refused):
    with started(start, tmp_path, "archive-rehydration-seconds = 3600\n") as service:
        container = service.create_container("box")
        blob = container.get_blob_client("a")
        blob.upload_blob(b"content", standard_blob_tier=StandardBlobTier.ARCHIVE, metadata={"a": "1"}, tags={"k": "1"})
        for attempt in (
            lambda: blob.download_blob(),
            lambda: blob.upload_blob(b"other", overwrite=True),
            lambda: blob.stage_block("MQ==", b"block"),
            lambda: blob.create_snapshot(),
            lambda: blob.set_blob_metadata({}),
        ):
            with refused(409, "BlobArchived"):
                attempt()
        seen = blob.get_blob_properties()
        assert (seen.blob_tier, seen.metadata, seen.archive_status) == ("Archive", {"a": "1"}, None)
        assert blob.get_blob_tags() == {"k": "1"}
        blob.set_standard_blob_tier("Cool", rehydrate_priority=RehydratePriority.high)
        seen = blob.get_blob_properties()
        assert (seen.blob_tier, seen.archive_status, seen.rehydrate_priority) == ("Archive", "rehydrate-pending-to-cool", "High")
        assert [one.archive_status for one in container.list_blobs()] == ["rehydrate-pending-to-cool"]
        with refused(409, "BlobBeingRehydrated"):
            blob.set_standard_blob_tier("Hot")
        blob.delete_blob()
    with started(start, tmp_path, "archive-rehydration-seconds = 0\n") as service:
        blob = service.create_container("box").get_blob_client("a")
        blob.upload_blob(b"content", standard_blob_tier=StandardBlobTier.ARCHIVE)
        blob.set_standard_blob_tier("Hot")
        assert blob.download_blob().readall() == b"content"


def test_holds_are_for_accounts_that_have_them(container, refused):
    blob = container.get_blob_client("a")
    blob.upload_blob(b"content")
    with refused(409, "ImmutableStorageNotEnabled"):
        blob.set_legal_hold(True)


@pytest.fixture
def immutable(start, tmp_path):
    with started(start, tmp_path, "immutable-storage = true\n") as service:
        yield service.create_container("box")


def day(number):
    return (datetime.now(timezone.utc) + timedelta(days=number)).replace(microsecond=0)


def test_immutability_policies(immutable, refused):
    blob, until = immutable.get_blob_client("a"), day(2)
    blob.upload_blob(b"content", immutability_policy=ImmutabilityPolicy(expiry_time=until, policy_mode="Unlocked"))
    seen = blob.get_blob_properties().immutability_policy
    assert (seen.expiry_time, seen.policy_mode) == (until, "unlocked")
    for attempt in (
        lambda: blob.delete_blob(),
        lambda: blob.upload_blob(b"other", overwrite=True),
        lambda: blob.set_blob_metadata({"a": "1"}),
    ):
        with refused(409, "BlobImmutableDueToPolicy"):
            attempt()
    assert blob.download_blob().readall() == b"content"
    listed = list(immutable.list_blobs(include=["immutabilitypolicy", "legalhold"]))
    assert listed[0].immutability_policy.expiry_time == until and not listed[0].has_legal_hold
    blob.delete_immutability_policy()
    blob.set_immutability_policy(ImmutabilityPolicy(expiry_time=day(1), policy_mode="Locked"))
    with refused(409, "BlobImmutableDueToPolicy"):
        blob.delete_immutability_policy()
    answer = blob.set_immutability_policy(ImmutabilityPolicy(expiry_time=day(3), policy_mode="Locked"))
    assert answer["immutability_policy_mode"] == "locked"


def test_legal_holds(immutable, refused):
    blob = immutable.get_blob_client("a")
    blob.upload_blob(b"content", legal_hold=True)
    assert blob.get_blob_properties().has_legal_hold is True
    with refused(409, "BlobImmutableDueToLegalHold"):
        blob.delete_blob()
    with refused(409, "ContainerProtectedFromDeletion"):
        immutable.delete_container()
    assert blob.set_legal_hold(False)["legal_hold"] is False
    blob.delete_blob()
    immutable.delete_container()


def test_a_held_version_stays(start, tmp_path, refused):
    with started(start, tmp_path, "immutable-storage = true\nversioning = true\n") as service:
        blob = service.create_container("box").get_blob_client("a")
        held = blob.upload_blob(b"first", legal_hold=True)["version_id"]
        blob.upload_blob(b"second", overwrite=True)
        blob.delete_blob()
        assert blob.download_blob(version_id=held).readall() == b"first"
        with refused(409, "BlobImmutableDueToLegalHold"):
            blob.delete_blob(version_id=held)
        blob.set_legal_hold(False, version_id=held)
        blob.delete_blob(version_id=held)
