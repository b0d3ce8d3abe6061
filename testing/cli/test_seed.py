"""What a file declares is there afterwards, once."""

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import TableClient
from azure.storage.blob import BlobServiceClient
from azure.storage.fileshare import ShareFileClient
from azure.storage.queue import QueueClient

from conftest import ANY_PORTS
from server import ACCOUNT, KEY

SEED = '''
[[container]]
name = "pictures"
public = "blob"
metadata = { Team = "a" }

[[container.blob]]
name = "a b/ü.txt"
text = "hello"
content-type = "text/plain"
metadata = { kind = "greeting" }
tags = { state = "new" }

[[container.blob]]
name = "raw"
base64 = "AAEC"

[[container.blob]]
name = "from a file"
file = "beside.bin"

[[queue]]
name = "jobs"
messages = ["one & <two>", "three"]

[[table]]
name = "People"
[[table.entity]]
PartitionKey = "a'b"
RowKey = "1"
age = 7
big = 5000000000
half = 0.5
whole = 2.0
is-here = true
since = 2024-01-02T03:04:05Z

[[share]]
name = "files"
quota = 5
directories = ["empty"]
[[share.file]]
path = "a/b.txt"
text = "content"
'''


@pytest.fixture
def seed(tmp_path):
    (tmp_path / "seed.toml").write_text(SEED.replace("is-here", "isHere"))
    (tmp_path / "beside.bin").write_bytes(bytes(range(256)) * 20)
    return tmp_path / "seed.toml"


def check(server):
    blobs = BlobServiceClient(server.url("blob"), credential=KEY)
    container = blobs.get_container_client("pictures")
    blob = container.get_blob_client("a b/ü.txt")
    assert blob.download_blob().readall() == b"hello"
    properties = blob.get_blob_properties()
    assert properties.metadata == {"kind": "greeting"} and properties.content_settings.content_type == "text/plain"
    assert blob.get_blob_tags() == {"state": "new"}
    assert container.download_blob("from a file").readall() == bytes(range(256)) * 20
    assert container.get_container_properties().public_access == "blob"
    queue = QueueClient(server.url("queue"), "jobs", credential=KEY)
    assert [message.content for message in queue.peek_messages(32)] == ["one & <two>", "three"]
    entity = TableClient(server.url("table"), "People", credential=AzureNamedKeyCredential(ACCOUNT, KEY)).get_entity("a'b", "1")
    assert entity["age"] == 7 and entity["big"].value == 5000000000 and entity["whole"] == 2.0 and entity["isHere"] is True
    file = ShareFileClient(server.url("file"), "files", "a/b.txt", credential=KEY, token_intent=None)
    assert file.download_file().readall() == b"content"


def test_by_its_address(lazuli, serve, seed):
    server = serve("--data", "d", *ANY_PORTS)
    variables = {"LAZULI_CONNECTION_STRING": server.connection}
    first = lazuli("seed", seed, variables=variables)
    assert first.code == 0 and "12 made, 0 there already, 0 in conflict" in first.out, first
    check(server)
    again = lazuli("seed", seed, variables=variables)
    assert again.code == 0 and "0 made, 12 there already, 0 in conflict" in again.out, again
    BlobServiceClient(server.url("blob"), credential=KEY).get_blob_client("pictures", "raw").upload_blob(b"abc", overwrite=True)
    third = lazuli("seed", seed, variables=variables)
    assert third.code == 1 and "CONFLICT  blob pictures/raw: it has other content" in third.out and "1 in conflict" in third.out, third


def test_into_a_directory(lazuli, serve, seed):
    first = lazuli("seed", seed, "--data", "d")
    assert first.code == 0 and "12 made" in first.out, first
    server = serve("--data", "d", *ANY_PORTS)
    check(server)
    busy = lazuli("seed", seed, "--data", "d")
    assert busy.code == 1 and "in use" in busy.err, busy


def test_nothing_is_written_of_a_wrong_file(lazuli, serve, seed):
    server = serve("--data", "d", *ANY_PORTS)
    seed.write_text(SEED + '\n[[queue]]\nname = "A"\n')
    refused = lazuli("seed", seed, variables={"LAZULI_CONNECTION_STRING": server.connection})
    assert refused.code == 1 and "queue A" in refused.err, refused
    assert list(BlobServiceClient(server.url("blob"), credential=KEY).list_containers()) == []
    seed.write_text("[[contaner]]\n")
    assert "did you mean container?" in lazuli("seed", seed).err


def test_nobody_there(lazuli, seed):
    text = f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint=http://127.0.0.1:1/{ACCOUNT}"
    refused = lazuli("seed", seed, variables={"LAZULI_CONNECTION_STRING": text})
    assert refused.code == 1 and "is the server running?" in refused.err
