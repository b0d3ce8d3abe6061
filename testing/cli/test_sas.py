"""Tokens: made, compared with the client's own, used, explained."""

from datetime import datetime, timezone
from urllib.parse import parse_qs

import pytest
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableClient, TableServiceClient, generate_table_sas
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.storage.blob import BlobClient, ContainerClient, generate_account_sas, generate_blob_sas, generate_container_sas
from azure.storage.fileshare import ShareFileClient, generate_file_sas, generate_share_sas
from azure.storage.queue import QueueClient, generate_queue_sas

from conftest import ANY_PORTS
from server import ACCOUNT, KEY

UNTIL = datetime(2037, 1, 1, tzinfo=timezone.utc)
EXPIRY = ["--expiry", "2037-01-01T00:00:00Z"]
SNAPSHOT = "2024-01-02T03:04:05.0000000Z"


def fields(token):
    return {name: values[0] for name, values in parse_qs(token.strip()).items()}


CASES = {
    "account": (["account", "-p", "rl", "--services", "b", "--resource-types", "co", "--https-only"],
                lambda: generate_account_sas(ACCOUNT, KEY, resource_types="co", permission="rl", expiry=UNTIL, services="b", protocol="https")),
    "container": (["blob/cont", "-p", "rl"], lambda: generate_container_sas(ACCOUNT, "cont", account_key=KEY, permission="rl", expiry=UNTIL)),
    "blob": (["blob/cont/dir/b 1+ü.txt", "-p", "r", "--content-type", "text/plain", "--start", "2024-01-01T00:00:00Z", "--ip", "10.0.0.1-10.0.0.9"],
             lambda: generate_blob_sas(ACCOUNT, "cont", "dir/b 1+ü.txt", account_key=KEY, permission="r", expiry=UNTIL, content_type="text/plain",
                                       start="2024-01-01T00:00:00Z", ip="10.0.0.1-10.0.0.9")),
    "snapshot": (["blob/cont/b", "-p", "r", "--snapshot", SNAPSHOT],
                 lambda: generate_blob_sas(ACCOUNT, "cont", "b", snapshot=SNAPSHOT, account_key=KEY, permission="r", expiry=UNTIL)),
    "version": (["blob/cont/b", "-p", "r", "--version-id", SNAPSHOT],
                lambda: generate_blob_sas(ACCOUNT, "cont", "b", version_id=SNAPSHOT, account_key=KEY, permission="r", expiry=UNTIL)),
    "queue": (["queue/line", "-p", "rp"], lambda: generate_queue_sas(ACCOUNT, "line", KEY, permission="rp", expiry=UNTIL)),
    "table": (["table/People", "-p", "r", "--from", "a,1", "--to", "b,2"],
              lambda: generate_table_sas(AzureNamedKeyCredential(ACCOUNT, KEY), "People", permission="r", expiry=UNTIL, start_pk="a", start_rk="1",
                                         end_pk="b", end_rk="2")),
    "share": (["share/files", "-p", "rl"], lambda: generate_share_sas(ACCOUNT, "files", KEY, permission="rl", expiry=UNTIL)),
    "file": (["share/files/d/f.txt", "-p", "r"], lambda: generate_file_sas(ACCOUNT, "files", ["d", "f.txt"], KEY, permission="r", expiry=UNTIL)),
}


@pytest.mark.parametrize("case", CASES)
def test_as_the_client_makes_it(lazuli, case):
    words, theirs = CASES[case]
    expected = fields(theirs())
    made = lazuli("sas", "make", *words, *EXPIRY, "--signed-version", expected["sv"])
    assert made.code == 0, made
    ours = fields(made.out)
    # The client leaves these to the address.
    for name in ("snapshot", "versionid"):
        expected.setdefault(name, ours.get(name)) if name in ours else None
    assert {name: value for name, value in ours.items()} == {name.lower() if name == "versionId" else name: value for name, value in expected.items()}


def test_a_stored_policy_as_the_client_does(lazuli):
    expected = fields(generate_container_sas(ACCOUNT, "cont", account_key=KEY, policy_id="p"))
    made = lazuli("sas", "make", "blob/cont", "--policy", "p", "--signed-version", expected["sv"])
    assert fields(made.out) == expected


def test_used_and_explained(lazuli, serve):
    server = serve("--data", "d", *ANY_PORTS)
    container = ContainerClient(server.url("blob"), "cont", credential=KEY)
    container.create_container()
    container.upload_blob("x y", b"content")
    url = lazuli("sas", "make", "blob/cont/x y", "-p", "r", "--endpoint", server.url("blob")).out.strip()
    assert BlobClient.from_blob_url(url).download_blob().readall() == b"content"
    good = lazuli("sas", "explain", url)
    assert good.code == 0 and "may: read" in good.out and "valid until" in good.out and "nothing speaks against it" in good.out, good
    for wrong, words in [
        (url.replace("sp=r", "sp=w"), "Signature did not match"),
        (url.replace("x%20y", "z"), "Signature did not match"),
        (url.replace("sv=2024-11-04", "sv=1"), "sv is not valid"),
    ]:
        refused = lazuli("sas", "explain", wrong)
        assert refused.code == 1 and words in refused.out, refused
        with pytest.raises(HttpResponseError):
            BlobClient.from_blob_url(wrong).download_blob()
    old = lazuli("sas", "make", "blob/cont", "-p", "r", "--start", "2020-01-01T00:00:00Z", "--expiry", "2020-01-02T00:00:00Z", "--endpoint", server.url("blob"))
    expired = lazuli("sas", "explain", old.out.strip())
    assert expired.code == 1 and "Signed expiry time" in expired.out
    # Of an account whose key is not known, what can be told is told.
    elsewhere = lazuli("sas", "explain", url.replace(ACCOUNT, "somebody"))
    assert elsewhere.code == 0 and "not known" in elsewhere.out
    assert lazuli("sas", "explain", "http://h/x").code == 2
    assert KEY not in good.out


def test_the_other_services(lazuli, serve):
    server = serve("--data", "d", *ANY_PORTS)
    QueueClient(server.url("queue"), "line", credential=KEY).create_queue()
    token = lazuli("sas", "make", "queue/line", "-p", "a").out.strip()
    QueueClient(server.url("queue"), "line", credential=token).send_message("hello")
    TableServiceClient(server.url("table"), credential=AzureNamedKeyCredential(ACCOUNT, KEY)).create_table("People")
    token = lazuli("sas", "make", "table/People", "-p", "ra", "--from", "a", "--to", "b").out.strip()
    table = TableClient(server.url("table"), "People", credential=AzureSasCredential(token))
    table.create_entity({"PartitionKey": "a", "RowKey": "1"})
    with pytest.raises(HttpResponseError):
        table.create_entity({"PartitionKey": "c", "RowKey": "1"})


def test_not_made(lazuli):
    for words, expected in [(["blob/cont"], "--permissions"), (["blob/cont", "-p", "q"], "unknown letter"), (["box/c", "-p", "r"], "it is account"),
                            (["blob/c", "-p", "r"], "blob/c")]:
        refused = lazuli("sas", "make", *words)
        assert refused.code == 1 and expected in refused.err, refused
