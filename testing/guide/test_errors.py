"""The errors that a newcomer meets: every row of the guides' tables is met here, for the reason that stands beside it."""

import re
import subprocess
import uuid

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient, ContainerSasPermissions, generate_container_sas
from azure.storage.fileshare import ShareServiceClient
from azure.storage.queue import QueueServiceClient

import server as servers
from blocks import GUIDE
from test_guide import environment, running  # noqa: F401: fixtures

# Of two protocols at once: printed by programs of the guide, and in the SMB suite.
ELSEWHERE = {"SharingViolation": "concurrency.md", "FileLockConflict": "concurrency.md", "SMBDeletePending": "testing/smb/test_story.py"}


def named(page):
    """The codes of the page's table of errors."""
    table = (GUIDE / f"{page}.md").read_text().split("## Errors a newcomer meets\n")[1]
    return {name for row in table.splitlines() for name in re.findall(r"[1-5]\d\d `([A-Z]\w+)`", row.split("|")[1] if "|" in row else "")}


def fresh(word):
    return f"{word}{uuid.uuid4().hex[:10]}"


@pytest.fixture
def connection(environment):  # noqa: F811
    return environment["AZURE_STORAGE_CONNECTION_STRING"]


def check(page, cases):
    assert named(page) == set(cases) | (named(page) & set(ELSEWHERE))
    for code, act in cases.items():
        with pytest.raises(HttpResponseError) as caught:
            act()
        error = caught.value
        seen = error.response.headers.get("x-ms-error-code") or str(getattr(error.error_code, "value", error.error_code))
        assert seen == code, f"{seen}, where {code} was expected"
        known = re.search(rf"\b(\d\d\d) `{code}`", (GUIDE / f"{page}.md").read_text()).group(1)
        assert str(error.status_code) == known


def test_blobs(connection):
    service = BlobServiceClient.from_connection_string(connection, retry_total=0)
    container = service.create_container(fresh("c"))
    blob, leased = container.get_blob_client("b"), container.get_blob_client("leased")
    etag = blob.upload_blob(b"1")["etag"]
    blob.upload_blob(b"2", overwrite=True)
    leased.upload_blob(b"1")
    leased.acquire_lease()
    name = container.container_name
    sas = generate_container_sas(servers.ACCOUNT, name, servers.KEY, permission=ContainerSasPermissions(read=True), expiry="2099-01-01T00:00:00Z")
    reader = BlobServiceClient(service.url, credential=sas, retry_total=0).get_blob_client(name, "b")
    stranger = BlobServiceClient(service.url, credential={"account_name": servers.ACCOUNT, "account_key": "bm90IHRoZSBrZXk="}, retry_total=0)
    check("blob", {
        "AuthenticationFailed": lambda: stranger.get_container_client(name).get_container_properties(),
        "AuthorizationPermissionMismatch": lambda: reader.upload_blob(b"3", overwrite=True),
        "ContainerNotFound": lambda: service.get_blob_client(fresh("none"), "b").upload_blob(b"1"),
        "BlobNotFound": lambda: container.get_blob_client("B").download_blob(),
        "ContainerAlreadyExists": lambda: container.create_container(),
        "BlobAlreadyExists": lambda: blob.upload_blob(b"3"),
        "InvalidBlobType": lambda: blob.append_block(b"3"),
        "ConditionNotMet": lambda: blob.upload_blob(b"3", overwrite=True, etag=etag, match_condition=MatchConditions.IfNotModified),
        "LeaseIdMissing": lambda: leased.upload_blob(b"2", overwrite=True),
        "InvalidResourceName": lambda: service.create_container("Not_A_Name"),
        "OutOfRangeInput": lambda: service.create_container("ab"),
        "NotImplemented": lambda: blob.query_blob("select * from BlobStorage").readall(),
    })


def test_queues(connection):
    service = QueueServiceClient.from_connection_string(connection, retry_total=0)
    queue = service.create_queue(fresh("q"))
    queue.send_message("m")
    message = queue.receive_message(visibility_timeout=60)
    queue.delete_message(message)
    stranger = QueueServiceClient(service.url, credential={"account_name": servers.ACCOUNT, "account_key": "bm90IHRoZSBrZXk="}, retry_total=0)
    with pytest.raises(ResourceExistsError) as there:
        queue.create_queue()
    assert there.value.status_code == 204, "the service does not mind, this client does"
    check("queue", {
        "QueueNotFound": lambda: service.get_queue_client(fresh("none")).send_message("m"),
        "MessageNotFound": lambda: queue.delete_message(message),
        "QueueAlreadyExists": lambda: queue.create_queue(metadata={"a": "1"}),
        "RequestBodyTooLarge": lambda: queue.send_message("x" * 65537),
        "OutOfRangeQueryParameterValue": lambda: list(queue.receive_messages(visibility_timeout=7 * 24 * 3600 + 1)),
        "AuthenticationFailed": lambda: stranger.get_queue_client(queue.queue_name).get_queue_properties(),
    })


def test_tables(connection):
    service = TableServiceClient.from_connection_string(connection, retry_total=0)
    table = service.create_table(fresh("t"))

    def entity(row, partition="p", **more):
        return {"PartitionKey": partition, "RowKey": row, **more}

    etag = table.create_entity(entity("1"))["etag"]
    table.upsert_entity(entity("1", a=1))
    under = {"etag": etag, "match_condition": MatchConditions.IfNotModified}
    check("table", {
        "TableNotFound": lambda: service.get_table_client(fresh("none")).create_entity(entity("1")),
        "ResourceNotFound": lambda: table.get_entity("P", "1"),
        "EntityAlreadyExists": lambda: table.create_entity(entity("1")),
        "TableAlreadyExists": lambda: table.create_table(),
        "UpdateConditionNotSatisfied": lambda: table.update_entity(entity("1"), **under),
        "InvalidInput": lambda: list(table.query_entities("name eq 'O'Neil'")),
        "CommandsInBatchActOnDifferentPartitions": lambda: table._batch_send(
            table.table_name, *[request for part in ("p", "q") for request in _creating(table, entity("9", part))]),
        "InvalidDuplicateRow": lambda: table._batch_send(
            table.table_name, *[request for _ in range(2) for request in _creating(table, entity("9"))]),
        "EntityTooLarge": lambda: table.create_entity(entity("2", **{f"a{n}": "x" * 32000 for n in range(17)})),
        "PropertyValueTooLarge": lambda: table.create_entity(entity("2", a="x" * 32769)),
    })


def _creating(table, entity):
    """The client looks at a transaction before it sends it; this is one that it did not look at."""
    from azure.data.tables._table_batch import TableBatchOperations
    batch = TableBatchOperations(config=table._client._config, endpoint=f"{table.scheme}://{table._primary_hostname}",
                                 table_name=table.table_name, is_cosmos_endpoint=False)
    batch.add_operation(("create", entity))
    return batch.requests


def test_files(connection):
    service = ShareServiceClient.from_connection_string(connection, retry_total=0)
    share = service.create_share(fresh("s"))
    full = share.create_directory("full")
    file = full.upload_file("f", b"1234")
    leased = full.upload_file("leased", b"1234")
    leased.acquire_lease()
    check("file", {
        "ShareNotFound": lambda: service.get_share_client(fresh("none")).create_directory("d"),
        "ParentNotFound": lambda: share.create_directory("none/below"),
        "ResourceNotFound": lambda: share.get_file_client("full").download_file(),
        "ShareAlreadyExists": lambda: share.create_share(),
        "DirectoryNotEmpty": lambda: full.delete_directory(),
        "LeaseIdMissing": lambda: leased.upload_range(b"5", 0, 1),
        "InvalidRange": lambda: file.upload_range(b"5", 4, 1),
    })


@pytest.mark.parametrize("share, password, more, status", [
    ("there", "bm90IHRoZSBrZXk=", [], "NT_STATUS_LOGON_FAILURE"),
    ("none", servers.KEY, [], "NT_STATUS_BAD_NETWORK_NAME"),
    ("there", servers.KEY, ["--option=client min protocol=NT1", "--max-protocol=NT1"], "NT_STATUS_CONNECTION_DISCONNECTED"),
    ("there", servers.KEY, ["--max-protocol=SMB2_02"], "NT_STATUS_NOT_SUPPORTED"),
], ids=lambda value: value if str(value).startswith("NT_") else "")
def test_smb(running, connection, share, password, more, status):  # noqa: F811
    assert f"`{status}`" in (GUIDE / "file.md").read_text()
    service = ShareServiceClient.from_connection_string(connection, retry_total=0)
    if share == "there":
        share = service.create_share(fresh("s")).share_name
    command = ["smbclient", f"//127.0.0.1/{share}", "--port", str(running.smb_port), "--user", f"{servers.ACCOUNT}%{password}", "--command", "ls", *more]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode != 0 and status in ran.stdout + ran.stderr, ran.stdout + ran.stderr
