"""Leases through BlobLeaseClient: their life (B6), what a leased blob refuses (B7, B8), what a leased container refuses (B9)."""

import time
import uuid

import pytest
from azure.core import MatchConditions
from azure.storage.blob import BlobLeaseClient, ContentSettings

OTHER = str(uuid.uuid4())


@pytest.fixture
def blob(container):
    one = container.get_blob_client("b")
    one.upload_blob(b"content")
    return one


@pytest.fixture(params=["blob", "container"])
def thing(request, container, blob):
    return blob if request.param == "blob" else container


def properties(thing):
    return thing.get_blob_properties() if hasattr(thing, "blob_name") else thing.get_container_properties()


def lease_of(thing):
    lease = properties(thing).lease
    return lease.state, lease.status, lease.duration


def test_a_lease_and_its_life(thing, refused):
    before = properties(thing)
    lease = thing.acquire_lease()
    assert lease_of(thing) == ("leased", "locked", "infinite")
    for another in ({}, {"lease_id": OTHER}):
        with refused(409, "LeaseAlreadyPresent"):
            thing.acquire_lease(**another)
    again = thing.acquire_lease(lease_duration=60, lease_id=lease.id)
    assert again.id == lease.id and lease_of(thing) == ("leased", "locked", "fixed")
    lease.renew()

    old, new = lease.id, str(uuid.uuid4())
    lease.change(proposed_lease_id=new)
    assert lease.id == new
    lease.change(proposed_lease_id=new)
    for act in (BlobLeaseClient(thing, old).renew, BlobLeaseClient(thing, old).release,
                lambda: BlobLeaseClient(thing, old).change(proposed_lease_id=OTHER)):
        with refused(409, "LeaseIdMismatchWithLeaseOperation"):
            act()

    lease.release()
    assert lease_of(thing) == ("available", "unlocked", None)
    lease = BlobLeaseClient(thing, new)  # the client itself forgets an id that it released
    for act in (lease.renew, lease.release):
        with refused(409, "LeaseIdMismatchWithLeaseOperation"):
            act()
    for act in (lease.break_lease, lambda: lease.change(proposed_lease_id=OTHER)):
        with refused(409, "LeaseNotPresentWithLeaseOperation"):
            act()
    after = properties(thing)
    assert (after.etag, after.last_modified) == (before.etag, before.last_modified), "no lease operation is a change"


def test_breaking(thing, refused):
    lease = thing.acquire_lease()
    assert lease.break_lease() == 0, "an infinite lease breaks at once"
    assert lease_of(thing) == ("broken", "unlocked", None)
    with refused(409, "LeaseIsBrokenAndCannotBeRenewed"):
        lease.renew()

    lease = thing.acquire_lease(lease_duration=30)
    assert 25 <= lease.break_lease() <= 30, "a finite one runs to its end"
    assert lease_of(thing)[:2] == ("breaking", "locked")
    assert 1 <= lease.break_lease(lease_break_period=10) <= 10, "which can only come nearer"
    assert lease.break_lease(lease_break_period=60) <= 10
    with refused(409, "LeaseAlreadyPresent"):
        thing.acquire_lease()
    with refused(409, "LeaseIsBreakingAndCannotBeAcquired"):
        thing.acquire_lease(lease_id=lease.id)
    with refused(409, "LeaseIsBreakingAndCannotBeChanged"):
        lease.change(proposed_lease_id=OTHER)
    with refused(409, "LeaseIsBrokenAndCannotBeRenewed"):
        lease.renew()
    assert BlobLeaseClient(thing).break_lease(lease_break_period=0) == 0, "anybody may break it"
    assert thing.acquire_lease(lease_id=OTHER).id == OTHER

    BlobLeaseClient(thing, OTHER).break_lease(lease_break_period=20)
    BlobLeaseClient(thing, OTHER).release()
    assert lease_of(thing) == ("available", "unlocked", None), "released while it was breaking"


@pytest.mark.azurite("takes ids that are no GUIDs")
def test_what_makes_no_sense(thing, refused):
    for seconds in (0, 14, 61, -2):
        with refused(400, "InvalidHeaderValue"):
            thing.acquire_lease(lease_duration=seconds)
    with refused(400, "InvalidHeaderValue"):
        thing.acquire_lease(lease_id="not-a-guid")
    lease = thing.acquire_lease(lease_duration=15)
    with refused(400, "InvalidHeaderValue"):
        lease.break_lease(lease_break_period=61)
    lease.release()


def test_conditions(blob, refused):
    """B5: a lease is taken of the version that one has seen."""
    seen = blob.get_blob_properties().etag
    now = blob.upload_blob(b"changed", overwrite=True)["etag"]
    with refused(412, "ConditionNotMet"):
        blob.acquire_lease(etag=seen, match_condition=MatchConditions.IfNotModified)
    lease = blob.acquire_lease(etag=now, match_condition=MatchConditions.IfNotModified)
    for act in (lease.renew, lease.release, lease.break_lease):
        with refused(412, "ConditionNotMet"):
            act(etag=seen, match_condition=MatchConditions.IfNotModified)
    assert lease_of(blob)[0] == "leased"
    lease.release(etag=now, match_condition=MatchConditions.IfNotModified)


@pytest.mark.azurite("takes a lease id where no blob is")
def test_where_nothing_is(container, service, tools, refused):
    with refused(404, "BlobNotFound"):
        container.get_blob_client("absent").acquire_lease()
    with refused(404, "ContainerNotFound"):
        service.get_container_client(tools.fresh_name()).acquire_lease()
    with refused(412, "LeaseNotPresentWithBlobOperation"):
        container.get_blob_client("absent").upload_blob(b"x", lease=OTHER)
    assert not container.get_blob_client("absent").exists()


WRITES = {
    "put": lambda blob, **how: blob.upload_blob(b"changed", overwrite=True, **how),
    "metadata": lambda blob, **how: blob.set_blob_metadata({"a": "1"}, **how),
    "properties": lambda blob, **how: blob.set_http_headers(ContentSettings(content_type="a/b"), **how),
    "block": lambda blob, **how: blob.stage_block("0001", b"x", **how),
    "block list": lambda blob, **how: blob.commit_block_list([], **how),
    "delete": lambda blob, **how: blob.delete_blob(**how),
}
READS = {
    "get": lambda blob, **how: blob.download_blob(**how).readall(),
    "range": lambda blob, **how: blob.download_blob(offset=1, length=2, **how).readall(),
    "head": lambda blob, **how: blob.get_blob_properties(**how),
    "block list": lambda blob, **how: blob.get_block_list("all", **how),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.azurite("calls a lost lease one that is not present")
def test_writes_need_the_id(blob, refused, write):
    act, etag = WRITES[write], blob.get_blob_properties().etag
    with refused(412, "LeaseNotPresentWithBlobOperation"):
        act(blob, lease=OTHER)
    lease = blob.acquire_lease()
    with refused(412, "LeaseIdMissing"):
        act(blob)
    with refused(412, "LeaseIdMismatchWithBlobOperation"):
        act(blob, lease=OTHER)
    lease.break_lease(lease_break_period=60)
    with refused(412, "LeaseIdMissing"):
        act(blob)
    lease.break_lease(lease_break_period=0)
    with refused(412, "LeaseLost"):
        act(blob, lease=lease)
    seen = blob.get_blob_properties()
    assert (seen.etag, blob.download_blob().readall()) == (etag, b"content"), "a refused write changes nothing"

    lease = blob.acquire_lease()
    act(blob, lease=lease)
    if write == "delete":
        blob.upload_blob(b"anew", overwrite=False)
        assert lease_of(blob)[0] == "available", "a lease goes with its blob"
    else:
        assert lease_of(blob) == ("leased", "locked", "infinite"), "and stays through a write"
        lease.release()
        act(blob)


@pytest.mark.parametrize("read", READS)
@pytest.mark.azurite("calls a lost lease one that is not present")
def test_reads_are_shared_unless_they_carry_an_id(blob, refused, read):
    act = READS[read]
    with refused(412, "LeaseNotPresentWithBlobOperation"):
        act(blob, lease=OTHER)
    lease = blob.acquire_lease()
    act(blob)
    act(blob, lease=lease)
    with refused(412, "LeaseIdMismatchWithBlobOperation"):
        act(blob, lease=OTHER)
    lease.break_lease(lease_break_period=0)
    act(blob)
    with refused(412, "LeaseLost"):
        act(blob, lease=lease)


def test_a_write_ends_a_broken_lease(blob, refused):
    lease = blob.acquire_lease()
    lease.break_lease(lease_break_period=0)
    blob.upload_blob(b"changed", overwrite=True)
    assert lease_of(blob)[0] == "available"
    with refused(409, "LeaseIdMismatchWithLeaseOperation"):
        lease.renew()


def test_a_blob_that_is_only_staged(container, refused):
    blob = container.get_blob_client("staged")
    blob.stage_block("0001", b"x")
    lease = blob.acquire_lease()
    with refused(412, "LeaseIdMissing"):
        blob.commit_block_list(["0001"])
    blob.commit_block_list(["0001"], lease=lease)
    assert lease_of(blob)[0] == "leased"


def test_append_blobs(container, refused):
    blob = container.get_blob_client("log")
    blob.create_append_blob()
    lease = blob.acquire_lease()
    for act in (lambda **how: blob.append_block(b"x", **how), lambda **how: blob.seal_append_blob(**how),
                lambda **how: blob.create_append_blob(**how)):
        with refused(412, "LeaseIdMissing"):
            act()
        with refused(412, "LeaseIdMismatchWithBlobOperation"):
            act(lease=OTHER)
    blob.append_block(b"x", lease=lease)
    blob.seal_append_blob(lease=lease)


@pytest.mark.azurite("calls a lost lease one that is not present")
def test_a_leased_container_refuses_its_deletion_alone(container, refused):
    acts = {
        "properties": lambda **how: container.get_container_properties(**how),
        "metadata": lambda **how: container.set_container_metadata({"a": "1"}, **how),
        "get acl": lambda **how: container.get_container_access_policy(**how),
        "set acl": lambda **how: container.set_container_access_policy({}, **how),
    }
    delete = container.delete_container
    for act in [*acts.values(), delete]:
        with refused(412, "LeaseNotPresentWithContainerOperation"):
            act(lease=OTHER)
    lease = container.acquire_lease()
    for act in acts.values():
        act()
        act(lease=lease)
    for act in [*acts.values(), delete]:
        with refused(412, "LeaseIdMismatchWithContainerOperation"):
            act(lease=OTHER)
    with refused(412, "LeaseIdMissing"):
        delete()
    container.upload_blob("b", b"its blobs are free")
    container.delete_blob("b")
    lease.break_lease(lease_break_period=0)
    for act in [*acts.values(), delete]:
        with refused(412, "LeaseLost"):
            act(lease=lease)
    lease = container.acquire_lease()
    delete(lease=lease)
    assert not container.exists()


def test_a_leased_blob_does_not_hold_its_container(container, blob):
    blob.acquire_lease()
    container.delete_container()
    assert not container.exists()


def test_listings_tell(service, container, blob):
    free = container.get_blob_client("free")
    free.upload_blob(b"x")
    blob.acquire_lease(lease_duration=60)
    shown = {one.name: (one.lease.state, one.lease.status, one.lease.duration) for one in container.list_blobs()}
    assert shown == {"b": ("leased", "locked", "fixed"), "free": ("available", "unlocked", None)}
    lease = container.acquire_lease()
    listed = next(iter(service.list_containers(name_starts_with=container.container_name)))
    assert (listed.lease.state, listed.lease.status, listed.lease.duration) == ("leased", "locked", "infinite")
    lease.release()


@pytest.mark.full
def test_a_lease_frees_itself(container, blob, refused):
    """The one test that waits: fifteen seconds are the shortest lease there is."""
    changed = container.get_blob_client("changed")
    changed.upload_blob(b"content")
    on_blob, on_container, on_changed = (one.acquire_lease(lease_duration=15) for one in (blob, container, changed))
    time.sleep(16)
    for thing in (blob, container):
        assert lease_of(thing) == ("expired", "unlocked", None)
    with refused(412, "LeaseLost"):
        blob.upload_blob(b"late", overwrite=True, lease=on_blob)
    on_blob.renew()
    on_container.renew()
    changed.upload_blob(b"theirs", overwrite=True)
    with refused(409, "LeaseIdMismatchWithLeaseOperation"):
        on_changed.renew()
    on_container.release()
