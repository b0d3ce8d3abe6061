"""Shares through azure-storage-file-share: the service's properties, shares, snapshots, deletion and restoration, policies, leases, permissions."""

import uuid
from datetime import datetime, timedelta, timezone

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.fileshare import (
    AccessPolicy, CorsRule, Metrics, RetentionPolicy, ShareProtocolSettings, ShareSasPermissions, ShareSmbSettings, SmbMultichannel,
)

import server as servers

pytestmark = pytest.mark.skipif(servers.kind() != "lazuli", reason="the peer has no files")

GIB = 1 << 30
SDDL = "O:S-1-5-21-2127521184-1604012920-1887927527-21560751G:S-1-5-21-2127521184-1604012920-1887927527-513D:AI(A;;FA;;;SY)(A;;FA;;;BA)"


def soon():
    return datetime.now(timezone.utc) + timedelta(hours=1)


def test_shares_come_and_go(shares, tools, refused):
    name = tools.fresh_name("s")
    one = shares.create_share(name, metadata={"hello": "world"}, quota=7, access_tier="Hot")
    with refused(409, "ShareAlreadyExists"):
        shares.create_share(name)
    seen = one.get_share_properties()
    assert (seen.name, seen.quota, seen.metadata, seen.access_tier) == (name, 7, {"hello": "world"}, "Hot")
    assert (seen.lease.status, seen.lease.state, seen.protocols) == ("unlocked", "available", ["SMB"])

    changed = one.set_share_metadata({"Aa": "1", "b": ""})
    assert changed["etag"] != seen.etag and one.get_share_properties().metadata == {"Aa": "1", "b": ""}
    one.set_share_quota(9)
    one.set_share_properties(access_tier="Cool")
    seen = one.get_share_properties()
    assert (seen.quota, seen.access_tier, seen.metadata) == (9, "Cool", {"Aa": "1", "b": ""})
    assert one.get_share_stats() == 0

    shares.delete_share(name)
    for act in (one.delete_share, one.get_share_properties, one.get_share_stats, one.create_snapshot, lambda: one.create_directory("d")):
        with refused(404, "ShareNotFound"):
            act()
    assert not one.get_directory_client("d").exists() and not one.get_file_client("f").exists()


def test_the_quota_is_what_was_asked_for_or_as_large_as_can_be(share, shares, tools, refused):
    assert share.get_share_properties().quota == 5120
    for quota in (0, -1, 1 << 30):
        with refused(400, "InvalidHeaderValue"):
            shares.create_share(tools.fresh_name("s"), quota=quota)
    with refused(400, "InvalidHeaderValue"):
        shares.create_share(tools.fresh_name("s"), access_tier="Lukewarm")


def test_a_full_share_takes_no_more(shares, tools, refused):
    one = shares.create_share(tools.fresh_name("s"), quota=1)
    large, small = one.get_file_client("large"), one.get_file_client("small")
    large.create_file(GIB)
    assert one.get_share_stats() == GIB
    with refused(409):
        small.create_file(1)
    small.create_file(0)
    with refused(409):
        small.resize_file(1)
    large.resize_file(GIB - 1)
    small.resize_file(1)
    assert one.get_share_stats() == GIB
    one.set_share_quota(2)
    small.resize_file(GIB)
    large.delete_file()
    assert one.get_share_stats() == GIB
    one.delete_share()


@pytest.mark.parametrize("name, code", [
    ("ab", "OutOfRangeInput"), ("a" * 64, "OutOfRangeInput"), ("Abc", "InvalidResourceName"), ("a--b", "InvalidResourceName"),
    ("-ab", "InvalidResourceName"), ("a_b", "InvalidResourceName"),
])
def test_names(shares, refused, name, code):
    with refused(400, code):
        shares.create_share(name)


def test_metadata_that_cannot_be(share, refused):
    with refused(400, "InvalidMetadata"):
        share.set_share_metadata({"a-b": "1"})
    with refused(400, "MetadataTooLarge"):
        share.set_share_metadata({f"n{n}": "x" * 1000 for n in range(10)})
    assert not share.get_share_properties().metadata


def test_list(shares, tools):
    prefix = tools.fresh_name("list")
    names = [f"{prefix}-{n:02}" for n in range(7)]
    for n, name in enumerate(names):
        shares.create_share(name, metadata={"n": str(n)}, quota=n + 1)
    taken = shares.get_share_client(names[3]).create_snapshot()["snapshot"]

    listed = list(shares.list_shares(name_starts_with=prefix, include_metadata=True))
    assert [(one.name, one.metadata, one.quota) for one in listed] == [(name, {"n": str(n)}, n + 1) for n, name in enumerate(names)]
    seen = shares.get_share_client(names[0]).get_share_properties()
    assert (listed[0].etag.strip('"'), listed[0].last_modified, listed[0].access_tier) == (seen.etag.strip('"'), seen.last_modified, seen.access_tier)
    assert (listed[0].lease.status, listed[0].lease.state, listed[0].snapshot, listed[0].deleted) == ("unlocked", "available", None, None)
    pages = shares.list_shares(name_starts_with=prefix, results_per_page=3).by_page()
    assert [[one.name for one in page] for page in pages] == [names[:3], names[3:6], names[6:]]
    assert not any(one.metadata for one in shares.list_shares(name_starts_with=prefix))
    with_snapshots = [(one.name, one.snapshot) for one in shares.list_shares(name_starts_with=names[3], include_snapshots=True)]
    assert with_snapshots == [(names[3], taken), (names[3], None)]

    for name in names:
        shares.delete_share(name, delete_snapshots=True)
    assert list(shares.list_shares(name_starts_with=prefix, include_snapshots=True)) == []


def test_snapshots(shares, share, refused):
    directory = share.create_directory("dir")
    directory.upload_file("f", b"first")
    before = share.get_share_properties()
    first = share.create_snapshot(metadata={"of": "first"})
    assert first["etag"] == before.etag
    directory.upload_file("f", b"second, and longer")
    directory.upload_file("g", b"new")
    second = share.create_snapshot()["snapshot"]
    share.get_file_client("dir/g").delete_file()
    then = [shares.get_share_client(share.share_name, snapshot=taken) for taken in (first, second)]
    contents = [one.get_file_client("dir/f").download_file().readall() for one in then]
    assert contents == [b"first", b"second, and longer"]
    assert [[entry.name for entry in one.list_directories_and_files("dir")] for one in then] == [["f"], ["f", "g"]]
    assert [one.get_share_properties().metadata for one in then] == [{"of": "first"}, {}]
    assert then[0].get_directory_client("dir").exists() and then[0].get_share_properties().snapshot == first["snapshot"]
    assert then[0].get_file_client("dir/f").get_file_properties().size == 5
    assert not then[0].get_file_client("dir/g").exists() and not share.get_file_client("dir/g").exists()
    for act in (lambda: then[0].get_file_client("dir/f").delete_file(), lambda: then[0].create_directory("new"),
                lambda: then[0].get_file_client("dir/f").upload_range(b"x", 0, 1), lambda: then[0].get_file_client("h").create_file(1)):
        with refused(409, "ShareSnapshotOperationNotSupported"):
            act()
    with refused(404, "ShareSnapshotNotFound"):
        shares.get_share_client(share.share_name, snapshot="2020-01-01T00:00:00.0000000Z").get_share_properties()
    with refused(409, "ShareHasSnapshots"):
        share.delete_share()
    then[0].delete_share()
    with refused(404, "ShareSnapshotNotFound"):
        then[0].get_file_client("dir/f").download_file()
    assert then[1].get_file_client("dir/g").download_file().readall() == b"new"
    share.delete_share(delete_snapshots=True)
    with refused(404, "ShareNotFound"):
        then[1].get_share_properties()


def test_deleted_shares_are_kept_and_restored(tmp_path, start, tools, refused):
    config = tmp_path / "lazuli.toml"
    config.write_text(f"[account.{servers.ACCOUNT}]\nshare-retention-days = 7\n")
    service = tools.file_client(start(extra=["--config", str(config)]).endpoint_of("file"))
    name = tools.fresh_name("s")
    one = service.create_share(name, metadata={"a": "1"}, quota=3)
    one.create_directory("dir").upload_file("f", b"content")
    one.create_snapshot()
    one.delete_share(delete_snapshots=True)
    assert list(service.list_shares(name_starts_with=name)) == []
    with refused(404, "ShareNotFound"):
        one.get_share_properties()
    [gone] = [each for each in service.list_shares(name_starts_with=name, include_deleted=True, include_metadata=True) if not each.snapshot]
    assert (gone.name, gone.deleted, gone.metadata, gone.quota, gone.remaining_retention_days) == (name, True, {"a": "1"}, 3, 6)
    assert gone.version and abs(datetime.now(timezone.utc) - gone.deleted_time) < timedelta(minutes=1)
    with refused(404):
        service.undelete_share(name, "01D60F8BB59A4652")
    back = service.undelete_share(name, gone.version)
    assert (back.get_share_properties().metadata, back.get_share_properties().quota) == ({"a": "1"}, 3)
    assert back.get_file_client("dir/f").download_file().readall() == b"content"
    assert [each.deleted for each in service.list_shares(name_starts_with=name, include_deleted=True)] == [None]
    with refused(409, "ShareAlreadyExists"):
        service.undelete_share(name, gone.version)


def test_service_properties(shares):
    before = shares.get_service_properties()
    rule = CorsRule(["http://page"], ["GET", "PUT"], allowed_headers=["x-ms-*"], exposed_headers=["x-ms-*"], max_age_in_seconds=60)
    metrics = Metrics(enabled=True, include_apis=True, retention_policy=RetentionPolicy(enabled=True, days=5))
    smb = ShareProtocolSettings(smb=ShareSmbSettings(multichannel=SmbMultichannel(enabled=True)))
    shares.set_service_properties(hour_metrics=metrics, minute_metrics=metrics, cors=[rule], protocol=smb)
    stored = shares.get_service_properties()
    assert stored["cors"][0].allowed_origins == "http://page" and stored["cors"][0].max_age_in_seconds == 60
    assert (stored["hour_metrics"].enabled, stored["hour_metrics"].retention_policy.days) == (True, 5)
    assert stored["protocol"].smb.multichannel.enabled is True
    shares.set_service_properties(hour_metrics=Metrics(), minute_metrics=Metrics(), cors=before["cors"])
    after = shares.get_service_properties()
    assert after["cors"] == [] and not after["hour_metrics"].enabled


def test_access_policies(share):
    assert share.get_share_access_policy()["signed_identifiers"] == []
    given = AccessPolicy(permission=ShareSasPermissions(read=True, list=True), expiry=soon(), start=soon() - timedelta(hours=2))
    share.set_share_access_policy({"readers": given, "nobody": AccessPolicy()})
    stored = {one.id: one.access_policy for one in share.get_share_access_policy()["signed_identifiers"]}
    assert set(stored) == {"readers", "nobody"} and stored["readers"].permission == "rl"
    share.set_share_access_policy({})
    assert share.get_share_access_policy()["signed_identifiers"] == []


def test_leases(shares, share, refused):
    mine, other = str(uuid.uuid4()), str(uuid.uuid4())
    lease = share.acquire_lease(lease_duration=60, lease_id=mine)
    assert lease.id == mine
    seen = share.get_share_properties().lease
    assert (seen.status, seen.state, seen.duration) == ("locked", "leased", "fixed")
    with refused(409, "LeaseAlreadyPresent"):
        share.acquire_lease()
    with refused(412, "LeaseIdMissing"):
        share.delete_share()
    share.set_share_metadata({"free": "1"})  # it guards the deletion alone
    with refused(412, "LeaseIdMismatchWithContainerOperation"):
        share.set_share_metadata({"a": "1"}, lease=other)
    share.set_share_metadata({"a": "1"}, lease=lease)
    share.set_share_quota(10, lease=lease)
    share.get_share_stats(lease=lease)
    share.get_share_access_policy(lease=lease)
    lease.renew()
    lease.change(other)
    assert lease.id == other and share.get_share_properties(lease=other).quota == 10
    with refused(409, "LeaseIdMismatchWithLeaseOperation"):
        shares_lease = type(lease)(share, mine)
        shares_lease.release()
    lease.release()
    with refused(412, "LeaseNotPresentWithContainerOperation"):
        share.get_share_properties(lease=other)
    for seconds in (14, 61):
        with refused(400, "InvalidHeaderValue"):
            share.acquire_lease(lease_duration=seconds)
    forever = share.acquire_lease()
    assert share.get_share_properties().lease.duration == "infinite"
    assert 0 < forever.break_lease(lease_break_period=30) <= 30
    assert share.get_share_properties().lease.state == "breaking"
    assert forever.break_lease(lease_break_period=0) == 0
    assert share.get_share_properties().lease.state == "broken"

    # A snapshot has a lease of its own.
    then = shares.get_share_client(share.share_name, snapshot=share.create_snapshot())
    of_then = then.acquire_lease()
    assert (then.get_share_properties().lease.state, share.get_share_properties().lease.state) == ("leased", "broken")
    with refused(412, "LeaseIdMissing"):
        then.delete_share()
    with refused(409, "DeleteShareWhenSnapshotLeased"):
        share.delete_share(delete_snapshots="include")
    then.delete_share(lease=of_then)
    share.acquire_lease(lease_id=mine)
    share.delete_share(lease=mine)


def test_permissions(share, refused):
    key = share.create_permission_for_share(SDDL)
    assert key == share.create_permission_for_share(SDDL)
    text = share.get_permission_for_share(key)
    assert text.startswith(SDDL)
    assert share.create_permission_for_share(text) == key
    with refused(400, "FileInvalidPermission"):
        share.create_permission_for_share("no permission")
    with refused(400, "FileInvalidPermissionKey"):
        share.get_permission_for_share("1*2")
    with refused(400, "InvalidHeaderValue"):
        share.get_permission_for_share("no key")
    long = SDDL + "".join(f"(A;;FR;;;S-1-5-21-1-2-3-{n})" for n in range(1000, 1500))
    assert len(long) > 8192
    assert share.get_permission_for_share(share.create_permission_for_share(long)).startswith(long)

    directory = share.get_directory_client("d")
    directory.create_directory(file_permission=SDDL)
    assert share.get_permission_for_share(directory.get_directory_properties().permission_key)
    file = directory.upload_file("f", b"x", permission_key=key)
    assert file.get_file_properties().permission_key == key
    # To make one of bytes this client does not ask; to set one it does.
    binary = share.get_permission_for_share(key, file_permission_format="binary")
    directory.set_http_headers(file_permission=binary, file_permission_format="binary")
    assert share.get_permission_for_share(directory.get_directory_properties().permission_key) == text


def test_what_does_not_exist_here_is_refused_and_not_left_aside(shares, tools, refused):
    with refused(400, "UnsupportedHeader"):
        shares.create_share(tools.fresh_name("s"), provisioned_iops=3000, provisioned_bandwidth_mibps=125)
    nfs = shares.create_share(tools.fresh_name("s"), protocols="NFS", root_squash="AllSquash")
    seen = nfs.get_share_properties()
    assert (seen.protocols, seen.root_squash, seen.enable_snapshot_virtual_directory_access) == (["NFS"], "AllSquash", True)
    nfs.set_share_properties(root_squash="NoRootSquash")
    assert nfs.get_share_properties().root_squash == "NoRootSquash"
    nfs.delete_share()
    with pytest.raises(HttpResponseError):
        nfs.get_share_properties()
