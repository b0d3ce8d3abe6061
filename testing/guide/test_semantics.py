"""What docs/semantics.md says and no other test shows. Each sentence of that page names its test; test_docs.py looks it up."""

import base64
import datetime
import hashlib
import hmac
import http.client
import json
import signal
import time
import uuid
from email.utils import formatdate

import pytest
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient
from azure.storage.blob import (
    BlobAnalyticsLogging, BlobSasPermissions, BlobServiceClient, ContentSettings, RetentionPolicy, StandardBlobTier,
    generate_blob_sas)
from azure.storage.fileshare import FileSasPermissions, ShareServiceClient, generate_file_sas

import issuer
import server as servers
import wire
from common import Refused as refused
from test_guide import environment, running  # noqa: F401: fixtures

CRASHES = 3
FAR = "2099-01-01T00:00:00Z"


def fresh(word):
    return f"{word}{uuid.uuid4().hex[:10]}"


@pytest.fixture
def connection(environment):  # noqa: F811
    return environment["AZURE_STORAGE_CONNECTION_STRING"]


@pytest.fixture
def blobs(connection):
    return BlobServiceClient.from_connection_string(connection, retry_total=0)


@pytest.fixture
def container(blobs):
    return blobs.create_container(fresh("c"))


@pytest.fixture
def share(connection):
    return ShareServiceClient.from_connection_string(connection, retry_total=0).create_share(fresh("s"))


def blobs_of(server):
    return BlobServiceClient(server.endpoint, credential=servers.KEY, retry_total=0)


def test_relaxed_durability_survives_a_kill():
    with servers.Server(extra=["--durability", "relaxed"]) as server:
        blobs_of(server).create_container("box").upload_blob("b", b"x" * 100_000)
        server.kill()
        server.start()
        assert blobs_of(server).get_blob_client("box", "b").download_blob().readall() == b"x" * 100_000


def test_timestamps_grow_over_a_crash_and_stay_near_the_clock():
    with servers.Server() as server:
        def write():
            service = TableServiceClient.from_connection_string(
                servers.connection_string("http://unused") + f"TableEndpoint={server.table_endpoint};", retry_total=0)
            table = service.create_table_if_not_exists("people")
            table.upsert_entity({"PartitionKey": "p", "RowKey": "r"})
            return table.get_entity("p", "r").metadata["timestamp"]

        seen = [write()]
        for _ in range(CRASHES):
            server.kill()
            server.start()
            seen.append(write())
        assert seen == sorted(set(seen))
        ahead = seen[-1] - datetime.datetime.now(datetime.timezone.utc)
        assert ahead <= datetime.timedelta(minutes=CRASHES)


def test_the_md5_that_is_stored_is_checked(container):
    wrong = ContentSettings(content_md5=bytearray(hashlib.md5(b"other").digest()))
    with refused(400, "Md5Mismatch"):
        container.upload_blob("b", b"content", content_settings=wrong)
    assert list(container.list_blobs()) == []


def test_keys_of_entities_sort_by_code_point(connection):
    """By UTF-16 the second would come first: its surrogates are smaller than the first's only unit."""
    table = TableServiceClient.from_connection_string(connection).create_table(fresh("t"))
    names = ["a", "\uff5e", "\U0001f600"]
    for name in reversed(names):
        table.create_entity({"PartitionKey": "p", "RowKey": name})
    assert [row["RowKey"] for row in table.list_entities()] == names
    assert [row["RowKey"] for row in table.query_entities("RowKey gt @last", parameters={"last": names[1]})] == names[2:]


def test_no_analytics_are_written():
    with servers.Server() as server:
        service = blobs_of(server)
        service.set_service_properties(analytics_logging=BlobAnalyticsLogging(
            read=True, write=True, delete=True, retention_policy=RetentionPolicy(enabled=True, days=1)))
        service.create_container("box").upload_blob("b", b"x")
        assert service.get_service_properties()["analytics_logging"].write
        assert [one.name for one in service.list_containers(include_system=True)] == ["box"]


def test_system_containers_are_listed_on_demand():
    with servers.Server() as server:
        service = blobs_of(server)
        for name in ("$blobchangefeed", "$logs", "$root", "$web"):
            service.create_container(name)
        assert [one.name for one in service.list_containers()] == ["$root", "$web"]
        assert len(list(service.list_containers(include_system=True))) == 4


def test_what_is_deleted_goes_by_the_retention_of_that_moment():
    with servers.Server() as server:
        service = blobs_of(server)
        container = service.create_container("box")
        kept, gone = container.get_blob_client("kept"), container.get_blob_client("gone")
        kept.upload_blob(b"1")
        gone.upload_blob(b"1")
        service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=True, days=1))
        kept.delete_blob()
        service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=False))
        gone.delete_blob()
        kept.undelete_blob()
        assert kept.download_blob().readall() == b"1"
        with refused(404, "BlobNotFound"):
            gone.undelete_blob()


def test_a_copy_shows_its_source_without_the_token(container):
    source = container.get_blob_client("source")
    source.upload_blob(b"1")
    snapshot = source.create_snapshot()["snapshot"]
    token = generate_blob_sas(servers.ACCOUNT, container.container_name, "source", snapshot=snapshot, account_key=servers.KEY,
                              permission=BlobSasPermissions(read=True), expiry=FAR)
    copy = container.get_blob_client("copy")
    copy.start_copy_from_url(f"{source.url}?snapshot={snapshot}&{token}")
    shown = copy.get_blob_properties().copy.source
    assert "sig=" not in shown and "sv=" not in shown
    assert shown.split("?")[1].replace("%3A", ":") == f"snapshot={snapshot}"


def test_an_archived_blob_is_copied_at_once(container):
    source, copy = container.get_blob_client("source"), container.get_blob_client("copy")
    source.upload_blob(b"1")
    source.set_standard_blob_tier(StandardBlobTier.ARCHIVE)
    with refused(409, "BlobArchived"):
        source.download_blob()
    assert copy.start_copy_from_url(source.url, standard_blob_tier=StandardBlobTier.HOT)["copy_status"] == "success"
    assert copy.download_blob().readall() == b"1"


def test_a_source_that_is_too_large(container):
    source, pages = container.get_blob_client("source"), container.get_blob_client("pages")
    source.upload_blob(bytes(5 << 20))
    pages.create_page_blob(8 << 20)
    token = generate_blob_sas(servers.ACCOUNT, container.container_name, "source", account_key=servers.KEY,
                              permission=BlobSasPermissions(read=True), expiry=FAR)
    with refused(413, "RequestBodyTooLarge"):
        pages.upload_pages_from_url(f"{source.url}?{token}", offset=0, length=5 << 20, source_offset=0)


def test_the_last_access_of_a_file_is_its_last_write(share):
    file = share.get_file_client("f")
    file.upload_file(b"1")
    written = file.get_file_properties().last_write_time
    file.download_file().readall()
    entry = next(iter(share.get_directory_client("").list_directories_and_files(include=["timestamps"])))
    assert datetime.datetime.fromisoformat(entry.last_access_time[:26] + "+00:00") == written


def test_the_difference_of_a_file_that_was_renamed(share):
    file = share.get_file_client("before")
    file.upload_file(b"1" * 512)
    snapshot = share.create_snapshot()["snapshot"]
    renamed = file.rename_file("after")
    renamed.upload_range(b"2" * 512, 0, 512)

    def changed(file, **how):
        return [(one.start, one.end) for one in file.list_ranges_diff(previous_sharesnapshot=snapshot, **how)]

    with refused(409, "PreviousSnapshotOperationNotSupported"):
        changed(renamed)
    assert changed(renamed, include_renames=True) == [(0, 511)]
    new = share.get_file_client("new")
    new.upload_file(b"3" * 512)
    assert changed(new) == [(0, 511)]


def test_pages_of_a_query(connection):
    table = TableServiceClient.from_connection_string(connection).create_table(fresh("t"))

    def fill(partition, count, **more):
        for begin in range(0, count, 100):
            rows = range(begin, min(begin + 100, count))
            table.submit_transaction([("create", {"PartitionKey": partition, "RowKey": f"{row:05}", **more}) for row in rows])

    def sizes(partition):
        pages = table.query_entities(f"PartitionKey eq '{partition}'").by_page()
        return [len(list(page)) for page in pages]

    fill("many", 1001)
    assert sizes("many") == [1000, 1]
    fill("large", 200, text="x" * 30_000)
    assert 100 < sizes("large")[0] <= (4 << 20) // 30_000 + 1


def test_a_prefix_may_stand_for_expired_blobs_alone(running, container):  # noqa: F811
    container.upload_blob("folder/b", b"1")
    headers = {"x-ms-expiry-option": "RelativeToNow", "x-ms-expiry-time": "1"}
    said = wire.ask(running.port, wire.signed("PUT", f"/{container.container_name}/folder/b?comp=expiry", headers=headers))
    assert wire.status(said) == 200, said
    deadline = time.monotonic() + 10
    while list(container.list_blobs()) and time.monotonic() < deadline:
        pass
    assert list(container.list_blobs()) == []
    # Housekeeping takes it away some time after; until then the prefix may be shown, and nothing is below it.
    assert [one.name for one in container.walk_blobs()] in ([], ["folder/"])
    assert list(container.walk_blobs(name_starts_with="folder/")) == []


def test_a_token_of_a_file_opens_no_directory(share):
    share.create_directory("d")
    token = generate_file_sas(servers.ACCOUNT, share.share_name, ["d"], account_key=servers.KEY,
                              permission=FileSasPermissions(read=True, create=True, write=True, delete=True), expiry=FAR)
    other = ShareServiceClient(share.primary_endpoint.rsplit("/", 1)[0], credential=token, retry_total=0).get_share_client(share.share_name)
    for act in (lambda: other.get_directory_client("d").delete_directory(), lambda: list(other.list_directories_and_files("d"))):
        with pytest.raises(HttpResponseError) as caught:
            act()
        assert caught.value.status_code == 403
    share.get_directory_client("d").get_directory_properties()


@pytest.mark.parametrize("service", ["queue", "file"])
def test_a_version_is_asked_for(running, service):  # noqa: F811
    """Signed by hand: no client leaves it out."""
    date = formatdate(usegmt=True)
    text = "GET" + "\n" * 12 + f"x-ms-date:{date}\n/{servers.ACCOUNT}/{servers.ACCOUNT}\ncomp:list"
    signature = base64.b64encode(hmac.new(base64.b64decode(servers.KEY), text.encode(), hashlib.sha256).digest()).decode()
    connection = http.client.HTTPConnection("127.0.0.1", running.ports[service], timeout=30)
    connection.request("GET", f"/{servers.ACCOUNT}?comp=list", headers={"x-ms-date": date, "Authorization": f"SharedKey {servers.ACCOUNT}:{signature}"})
    answer = connection.getresponse()
    said = answer.read().decode()
    assert answer.status == 400 and "<Code>MissingRequiredHeader</Code>" in said and "<HeaderName>x-ms-version</HeaderName>" in said, said


def test_a_delegation_key_ends_with_the_account_key_that_it_comes_from(tmp_path):
    old, new = (base64.b64encode(text * 4).decode() for text in (b"the old key ....", b"the new key ...."))
    mine, me, tls = issuer.Issuer(), issuer.fresh_id(), issuer.certificate(tmp_path)
    config = issuer.configuration(tmp_path, [mine], [dict(principal=me, role="Storage Blob Data Contributor")])
    trusted = config.read_text()

    def keys(key):
        config.write_text(f"[account.{servers.ACCOUNT}]\nkeys = {json.dumps([key])}\n\n{trusted}")

    keys(old)
    with servers.Server(tls=tls, extra=["--config", str(config)]) as server:
        options = dict(retry_total=0, connection_verify=str(tls[0]))
        service = BlobServiceClient(server.endpoint, credential=issuer.Bearer(mine.token(me)), **options)
        service.create_container("box").upload_blob("b", b"1")
        now = datetime.datetime.now(datetime.timezone.utc)
        key = service.get_user_delegation_key(now - datetime.timedelta(hours=1), now + datetime.timedelta(hours=1))
        token = generate_blob_sas(servers.ACCOUNT, "box", "b", user_delegation_key=key, permission=BlobSasPermissions(read=True),
                                  expiry=now + datetime.timedelta(minutes=30))
        reader = BlobServiceClient(server.endpoint, credential=token, **options).get_blob_client("box", "b")
        assert reader.download_blob().readall() == b"1"
        keys(new)
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10
        while True:
            try:
                reader.download_blob().readall()
            except HttpResponseError as error:
                assert (error.status_code, error.response.headers["x-ms-error-code"]) == (403, "AuthenticationFailed")
                break
            assert time.monotonic() < deadline, "the key outlived what it was derived from"
