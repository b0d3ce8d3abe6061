"""Ways to the File service through azure-storage-file-share: tokens of every kind, stored policies, bearer tokens, host style, https, the async client."""

import asyncio
import os
from datetime import datetime, timedelta, timezone

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import HttpResponseError
from azure.storage.fileshare import (
    AccessPolicy, AccountSasPermissions, ContentSettings, CorsRule, FileSasPermissions, ResourceTypes, ShareClient, ShareFileClient,
    ShareSasPermissions, ShareServiceClient, generate_account_sas, generate_file_sas, generate_share_sas,
)
from azure.storage.fileshare.aio import ShareServiceClient as AsyncShareServiceClient

import server as servers
from issuer import Bearer, Issuer, configuration, fresh_id

pytestmark = pytest.mark.skipif(servers.kind() != "lazuli", reason="the peer has no files")

NAMED = {"account_name": servers.ACCOUNT, "account_key": servers.KEY}


def soon(hours=1):
    return datetime.now(timezone.utc) + timedelta(hours=hours)


def smoke(service, tools):
    share = service.create_share(tools.fresh_name("s"))
    directory = share.create_directory("dir +\u00fc")
    content = os.urandom(5_000_000)
    file = directory.upload_file("a b+\u00fc.txt", content, metadata={"Aa": "1"})
    assert file.download_file().readall() == content
    assert [one.name for one in directory.list_directories_and_files()] == ["a b+\u00fc.txt"]
    moved = file.rename_file("dir +\u00fc/moved")
    assert moved.get_file_properties().metadata == {"Aa": "1"}
    assert share.share_name in [one.name for one in service.list_shares()]
    moved.delete_file()
    directory.delete_directory()
    share.delete_share()


def test_connection_string(file_endpoint, tools):
    text = f"DefaultEndpointsProtocol=http;AccountName={servers.ACCOUNT};AccountKey={servers.KEY};FileEndpoint={file_endpoint};"
    smoke(ShareServiceClient.from_connection_string(text, retry_total=0), tools)


def test_named_key(file_endpoint, tools):
    smoke(tools.file_client(file_endpoint, credential=AzureNamedKeyCredential(servers.ACCOUNT, servers.KEY)), tools)


@pytest.mark.parametrize("host", ["file.localhost", "file.core.example.localhost"])
def test_host_style(file_endpoint, tools, host):
    port = file_endpoint.split(":")[2].split("/")[0]
    smoke(tools.file_client(f"http://{servers.ACCOUNT}.{host}:{port}", credential=NAMED), tools)


def test_https(start, certificate, tools):
    service = tools.file_client(start(tls=certificate).endpoint_of("file"), connection_verify=str(certificate[0]))
    smoke(service, tools)


@pytest.mark.filterwarnings("ignore:get_ranges is deprecated")  # its successor is for the newest versions alone
@pytest.mark.parametrize("version", ["2019-02-02", "2019-12-12", "2021-04-10", "2022-11-02", "2025-11-05", "2026-10-06"])
def test_versions_old_and_new(file_endpoint, tools, version):
    service = tools.file_client(file_endpoint, api_version=version)
    share = service.create_share(tools.fresh_name("s"), metadata={"a": "1"})
    directory = share.create_directory("dir", metadata={"b": "2"})
    file = directory.upload_file("f", b"content")
    assert file.download_file().readall() == b"content" and file.get_file_properties().size == 7
    assert file.get_ranges() == [{"start": 0, "end": 6}]
    assert [one.name for one in directory.list_directories_and_files()] == ["f"]
    assert share.get_share_properties().quota == 5120 and directory.get_directory_properties().metadata == {"b": "2"}
    assert list(file.list_handles()) == []
    file.delete_file()
    share.delete_share()


def test_account_tokens(shares, share, file_endpoint, tools, refused):
    share.create_directory("dir").upload_file("f", b"content")

    def with_token(permission, types="sco"):
        token = generate_account_sas(servers.ACCOUNT, servers.KEY, ResourceTypes.from_string(types), AccountSasPermissions.from_string(permission), soon())
        return tools.file_client(file_endpoint, credential=token)

    def file(service, name="dir/f"):
        return service.get_share_client(share.share_name).get_file_client(name)

    assert file(with_token("r")).download_file().readall() == b"content"
    with refused(403, "AuthorizationPermissionMismatch"):
        file(with_token("wdlc")).download_file()
    with refused(403, "AuthorizationPermissionMismatch"):
        file(with_token("rl")).delete_file()
    with refused(403, "AuthorizationResourceTypeMismatch"):
        file(with_token("rwdlc", "sc")).download_file()
    assert share.share_name in [one.name for one in with_token("l", "s").list_shares()]
    assert [one.name for one in with_token("l", "c").get_share_client(share.share_name).list_directories_and_files()] == ["dir"]
    new = file(with_token("c"), "dir/new")
    new.create_file(3)
    with refused(403):
        new.create_file(4)  # it may create, and not overwrite
    file(with_token("w"), "dir/new").upload_range(b"abc", 0, 3)
    file(with_token("w"), "dir/new").create_file(4)
    file(with_token("d"), "dir/new").delete_file()
    smoke(with_token("rwdlc"), tools)
    credential = generate_account_sas(servers.ACCOUNT, servers.KEY, ResourceTypes.from_string("sco"), AccountSasPermissions.from_string("rwdlc"), soon())
    smoke(tools.file_client(file_endpoint, credential=AzureSasCredential(credential)), tools)
    # No token reaches the policies.
    with refused(403):
        with_token("rwdlc").get_share_client(share.share_name).get_share_access_policy()


def test_tokens_for_a_share(share, file_endpoint, refused):
    def with_token(**how):
        token = generate_share_sas(servers.ACCOUNT, share.share_name, servers.KEY, **how)
        return ShareClient(file_endpoint, share.share_name, credential=token, retry_total=0)

    share.create_directory("dir").upload_file("f", b"content")
    reads = with_token(permission=ShareSasPermissions(read=True), expiry=soon())
    assert reads.get_file_client("dir/f").download_file().readall() == b"content"
    assert reads.get_directory_client("dir").exists()
    for act in (lambda: list(reads.list_directories_and_files()), lambda: reads.create_directory("new"), reads.get_file_client("dir/f").delete_file):
        with refused(403, "AuthorizationPermissionMismatch"):
            act()
    for act in (reads.get_share_properties, reads.get_share_stats, reads.delete_share):
        with refused(403):
            act()
    lists = with_token(permission=ShareSasPermissions(list=True), expiry=soon())
    assert [one.name for one in lists.list_directories_and_files("dir")] == ["f"]
    writes = with_token(permission=ShareSasPermissions(write=True, delete=True), expiry=soon(), start=soon(-1), protocol="https,http", ip="127.0.0.1")
    writes.get_file_client("dir/g").upload_file(b"new")
    writes.get_file_client("dir/g").rename_file("dir/h").delete_file()
    for refuses in (dict(expiry=soon(-1)), dict(expiry=soon(), start=soon(0.5)), dict(expiry=soon(), protocol="https"), dict(expiry=soon(), ip="203.0.113.7")):
        with pytest.raises(HttpResponseError) as refusal:
            with_token(permission=ShareSasPermissions(read=True), **refuses).get_file_client("dir/f").download_file()
        assert refusal.value.status_code == 403
    said = with_token(permission=ShareSasPermissions(read=True), expiry=soon(), content_type="text/x-mine", cache_control="no-store")
    seen = said.get_file_client("dir/f").get_file_properties().content_settings
    assert (seen.content_type, seen.cache_control) == ("text/x-mine", "no-store")


def test_tokens_for_a_file(share, file_endpoint, refused):
    share.create_directory("dir \u00fc").upload_file("f+1", b"content")
    share.get_directory_client("dir \u00fc").upload_file("other", b"other")

    def with_token(path="dir \u00fc/f+1", **how):
        token = generate_file_sas(servers.ACCOUNT, share.share_name, "dir \u00fc/f+1".split("/"), servers.KEY, **how)
        return ShareFileClient(file_endpoint, share.share_name, path, credential=token, retry_total=0)

    reads = dict(permission=FileSasPermissions(read=True), expiry=soon())
    assert with_token(**reads).download_file().readall() == b"content"
    with refused(403, "AuthenticationFailed"):
        with_token("dir \u00fc/other", **reads).download_file()
    with refused(403, "AuthorizationPermissionMismatch"):
        with_token(**reads).upload_range(b"x", 0, 1)
    writes = with_token(permission=FileSasPermissions(write=True), expiry=soon())
    writes.upload_range(b"C", 0, 1)
    lease = writes.acquire_lease()
    lease.release()
    with_token(permission=FileSasPermissions(delete=True), expiry=soon()).delete_file()
    with_token(permission=FileSasPermissions(create=True), expiry=soon()).create_file(1)


def test_tokens_by_policy(share, file_endpoint, refused):
    share.get_file_client("f").upload_file(b"content")
    share.set_share_access_policy({"readers": AccessPolicy(permission=ShareSasPermissions(read=True, list=True), expiry=soon())})
    of_share = generate_share_sas(servers.ACCOUNT, share.share_name, servers.KEY, policy_id="readers")
    of_file = generate_file_sas(servers.ACCOUNT, share.share_name, ["f"], servers.KEY, policy_id="readers")
    by_share = ShareClient(file_endpoint, share.share_name, credential=of_share, retry_total=0)
    by_file = ShareFileClient(file_endpoint, share.share_name, "f", credential=of_file, retry_total=0)
    assert [one.name for one in by_share.list_directories_and_files()] == ["f"]
    assert by_share.get_file_client("f").download_file().readall() == by_file.download_file().readall() == b"content"
    with refused(403, "AuthorizationPermissionMismatch"):
        by_share.create_directory("d")
    share.set_share_access_policy({})
    for act in (by_file.download_file, lambda: list(by_share.list_directories_and_files())):
        with refused(403, "AuthenticationFailed"):
            act()


def test_bearer_tokens_and_what_is_delegated_with_them(tmp_path, start, certificate, tools, refused):
    ids = {word: fresh_id() for word in ("reader", "contributor", "nobody")}
    issuer = Issuer()
    roles = [dict(principal=ids["reader"], role="Storage File Data Privileged Reader"),
             dict(principal=ids["contributor"], role="Storage File Data Privileged Contributor")]
    config = configuration(tmp_path, [issuer], roles)
    endpoint = start(tls=certificate, extra=["--config", str(config)]).endpoint_of("file")
    trusts = dict(connection_verify=str(certificate[0]))

    def bearer(who):
        return tools.file_client(endpoint, credential=Bearer(issuer.token(ids[who])), token_intent="backup", **trusts)

    with tools.file_client(endpoint, **trusts) as by_key:
        by_key.create_share("box")
    contributor, reader = (bearer(who).get_share_client("box") for who in ("contributor", "reader"))
    contributor.create_directory("dir").upload_file("f", b"content")
    assert reader.get_file_client("dir/f").download_file().readall() == b"content"
    assert [one.name for one in reader.list_directories_and_files("dir")] == ["f"]
    with refused(403, "AuthorizationPermissionMismatch"):
        reader.create_directory("other")
    with refused(403, "AuthorizationPermissionMismatch"):
        bearer("nobody").get_share_client("box").get_file_client("dir/f").download_file()

    key = bearer("contributor").get_user_delegation_key(expiry=soon(), start=soon(-1))
    token = generate_file_sas(servers.ACCOUNT, "box", ["dir", "f"], user_delegation_key=key, permission=FileSasPermissions(read=True), expiry=soon())
    delegated = ShareFileClient(endpoint, "box", "dir/f", credential=token, retry_total=0, **trusts)
    assert delegated.download_file().readall() == b"content"
    with refused(403):
        delegated.delete_file()


async def refused_async(what, status, code):
    with pytest.raises(HttpResponseError) as refusal:
        await what
    assert (refusal.value.status_code, getattr(refusal.value.error_code, "value", refusal.value.error_code)) == (status, code)


def test_async_client(file_endpoint, tools):
    """Every kind of operation once; the sync suite asks about the details."""

    async def story():
        async with AsyncShareServiceClient(file_endpoint, credential=servers.KEY, retry_total=0) as service:
            share = await service.create_share(tools.fresh_name("s"), metadata={"a": "1"})
            await refused_async(share.create_share(), 409, "ShareAlreadyExists")
            await share.set_share_quota(3)
            await share.set_share_metadata({"b": "2"})
            seen = await share.get_share_properties()
            assert (seen.quota, seen.metadata) == (3, {"b": "2"})
            await share.set_share_access_policy({"p": AccessPolicy(permission="r", expiry=soon())})
            assert len((await share.get_share_access_policy())["signed_identifiers"]) == 1
            lease = await share.acquire_lease(lease_duration=15)
            await lease.renew()
            await lease.release()

            directory = await share.create_directory("dir")
            await directory.set_directory_metadata({"c": "3"})
            assert (await directory.get_directory_properties()).metadata == {"c": "3"}
            names = [f"{n:02}" for n in range(30)]
            await asyncio.gather(*(directory.upload_file(name, name.encode() * 1000) for name in names))
            assert [one.name async for one in directory.list_directories_and_files(results_per_page=7)] == names
            downloads = await asyncio.gather(*(directory.get_file_client(name).download_file() for name in names))
            assert await asyncio.gather(*(one.readall() for one in downloads)) == [name.encode() * 1000 for name in names]

            file = directory.get_file_client("large")
            content = os.urandom(9_000_000)
            await file.upload_file(content, max_concurrency=3)
            assert await (await file.download_file(max_concurrency=3)).readall() == content
            snapshot = await share.create_snapshot()
            await file.upload_range(b"x" * 512, 0, 512)
            await file.clear_range(512, 512)
            assert [(one.start, one.end, one.cleared) async for one in file.list_ranges_diff(snapshot)] == [(0, 511, False), (512, 1023, True)]
            assert [(one.start, one.end) async for one in file.list_ranges()] == [(0, 511), (1024, 8_999_999)]
            await file.resize_file(600)
            await file.set_http_headers(ContentSettings(content_type="a/b"))
            await file.set_file_metadata({"d": "4"})
            lease = await file.acquire_lease()
            await refused_async(file.delete_file(), 412, "LeaseIdMissing")
            await lease.release()
            moved = await file.rename_file("dir/moved")
            assert (await moved.get_file_properties()).metadata == {"d": "4"}
            copy = share.get_file_client("copy")
            assert (await copy.start_copy_from_url(moved.url))["copy_status"] == "success"
            assert await (await copy.download_file()).readall() == b"x" * 512 + bytes(88)
            assert [one async for one in moved.list_handles()] == []
            assert (await directory.close_all_handles(recursive=True))["closed_handles_count"] == 0
            await (await directory.rename_directory("renamed")).get_directory_properties()
            await service.set_service_properties(cors=[CorsRule(["*"], ["GET"])])
            await service.set_service_properties(cors=[])
            assert share.share_name in [one.name async for one in service.list_shares()]
            await share.delete_share(delete_snapshots=True)

    asyncio.run(story())
