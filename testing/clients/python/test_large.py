"""Large bodies pass through the server in bounded memory, both ways."""

import hashlib
import http.client
import io
import os
import random
import time
from datetime import datetime, timedelta, timezone
from urllib.parse import urlsplit

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

from server import ACCOUNT, KEY, Server, kind

MIB = 1024 * 1024
MEMORY_MAX = 200 * MIB


class Generated(io.RawIOBase):
    """A stream of the given size, made as it is read: repeatable, incompressible, and never whole in memory."""

    def __init__(self, size, seed):
        self.left, self.chance, self.hash = size, random.Random(seed), hashlib.sha256()
        self.chunk = self.chance.randbytes(MIB)

    def read(self, size=-1):
        size = min(self.left, MIB, MIB if size is None or size < 0 else size)
        if size <= 0:
            return b""
        stamp = self.left.to_bytes(8, "big")
        piece = (stamp + self.chunk)[:size]
        self.left -= size
        self.hash.update(piece)
        return piece


def download_hash(blob):
    seen = hashlib.sha256()
    for chunk in blob.download_blob().chunks():
        seen.update(chunk)
    return seen.hexdigest()


def check_memory(running):
    if kind() == "lazuli":
        peak = running.memory_peak_bytes()
        assert peak < MEMORY_MAX, f"the server held {peak // MIB} MiB"


def test_single_put_of_300_mib(start, tools):
    """Through the client: one Put Blob request, not blocks."""
    running = start()
    options = dict(max_single_put_size=5000 * MIB, max_single_get_size=5000 * MIB, max_chunk_get_size=64 * MIB)
    service = tools.client(running.endpoint, read_timeout=600, **options)
    container = service.create_container(tools.fresh_name())
    body = b"".join(iter(Generated(300 * MIB, 1).read, b""))
    requests = []
    blob = container.get_blob_client("large")
    blob.upload_blob(body, length=len(body), raw_request_hook=lambda r: requests.append(r.http_request.method))
    assert requests == ["PUT"]
    assert blob.get_blob_properties().size == len(body)
    assert download_hash(blob) == hashlib.sha256(body).hexdigest()
    middle = blob.download_blob(offset=150 * MIB - 3, length=7).readall()
    assert middle == body[150 * MIB - 3:150 * MIB + 4]
    check_memory(running)


@pytest.mark.full
def test_10_gib_through_the_client_in_256_mib(start, tools):
    """Up in blocks and down in ranges, four at a time, with a server that the system gives no more than 256 MiB."""
    limit = 256 * MIB
    size = int(os.environ.get("LAZULI_LARGE_MIB", 10 * 1024)) * MIB
    running = start(memory_max_bytes=limit if kind() == "lazuli" else None)
    options = dict(max_block_size=8 * MIB, max_single_get_size=8 * MIB, max_chunk_get_size=8 * MIB)
    service = tools.client(running.endpoint, read_timeout=600, **options)
    blob = service.create_container(tools.fresh_name()).get_blob_client("large")
    body = Generated(size, 3)
    blob.upload_blob(body, length=size, max_concurrency=4)
    assert blob.get_blob_properties().size == size
    seen, count = hashlib.sha256(), 0
    for chunk in blob.download_blob(max_concurrency=4).chunks():
        seen.update(chunk)
        count += len(chunk)
    assert count == size and seen.hexdigest() == body.hash.hexdigest()
    if kind() == "lazuli":
        peak = running.memory_peak_bytes()
        print(f"the server held {peak // MIB} MiB at most")
        assert peak < limit, f"the server held {peak // MIB} MiB"


def object_url(container, name):
    """Where a plain connection reads and writes this blob."""
    sas = generate_account_sas(
        ACCOUNT, KEY, resource_types=ResourceTypes(object=True), permission=AccountSasPermissions(read=True, write=True),
        expiry=datetime.now(timezone.utc) + timedelta(hours=2))
    return urlsplit(f"{container.url}/{name}?{sas}")


def begin_put(url, size):
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=1800, blocksize=MIB)
    connection.putrequest("PUT", f"{url.path}?{url.query}")
    headers = {"x-ms-version": "2021-12-02", "x-ms-blob-type": "BlockBlob", "Content-Length": str(size)}
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    return connection


def data_bytes(running):
    """Bytes of disk below the data directory."""
    return sum(file.stat().st_blocks * 512 for file in running.data.rglob("*") if file.is_file())


def send_part_and_kill(start, tools, size, part):
    """A Put Blob over an old blob and one over none, each cut by kill -9 after `part` of `size` bytes."""
    running = start()
    container = tools.client(running.endpoint).create_container(tools.fresh_name())
    old = b"".join(iter(Generated(20 * MIB, 4).read, b""))
    before = container.upload_blob("old", old).get_blob_properties()
    puts = [begin_put(object_url(container, name), size) for name in ("old", "new")]
    body = Generated(part, 5)
    while piece := body.read():
        for put in puts:
            put.send(piece)
    assert container.get_blob_client("old").get_blob_properties().etag == before.etag
    assert not container.get_blob_client("new").exists()
    held = data_bytes(running)
    running.kill()
    assert held > part, "the parts were not on their way to the disk, and nothing was tried"

    again = Server(data=running.data).start()
    try:
        container = tools.client(again.endpoint).get_container_client(container.container_name)
        blob = container.get_blob_client("old")
        assert blob.get_blob_properties().etag == before.etag
        assert blob.download_blob().readall() == old
        with pytest.raises(ResourceNotFoundError):
            container.get_blob_client("new").get_blob_properties()
        assert [one.name for one in container.list_blobs(include=["uncommittedblobs"])] == ["old"]
        # What the dead uploads left is given back in the background, a piece every second.
        latest = time.monotonic() + 120
        while (left := data_bytes(again)) > 150 * MIB and time.monotonic() < latest:
            time.sleep(0.2)
        assert left < 150 * MIB, f"{left // MIB} MiB of disk are held for a blob of 20 MiB; before the kill it was {held // MIB}"
        # The name is free, and the next upload is whole.
        assert container.upload_blob("new", old).download_blob().readall() == old
    finally:
        again.kill()


@pytest.mark.skipif(kind() != "lazuli", reason="the peer acknowledges what is not on disk")
def test_kill_in_the_middle_of_a_put_of_5000_mib(start, tools):
    send_part_and_kill(start, tools, 5000 * MIB, 200 * MIB)


@pytest.mark.full
@pytest.mark.skipif(kind() != "lazuli", reason="the peer acknowledges what is not on disk")
def test_kill_late_in_a_put_of_5000_mib(start, tools):
    send_part_and_kill(start, tools, 5000 * MIB, 3000 * MIB)


@pytest.mark.full
def test_single_put_of_5000_mib(start, tools):
    """The largest Put Blob there is, streamed over a plain connection: the client would hold all of it in memory."""
    running = start()
    size = 5000 * MIB
    service = tools.client(running.endpoint, read_timeout=1800)
    container = service.create_container(tools.fresh_name())
    url = object_url(container, "huge")
    headers = {"x-ms-version": "2021-12-02", "x-ms-blob-type": "BlockBlob", "Content-Length": str(size)}

    body = Generated(size, 2)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=1800, blocksize=MIB)
    connection.request("PUT", f"{url.path}?{url.query}", body=body, headers=headers)
    answer = connection.getresponse()
    assert answer.status == 201, (answer.status, answer.read())
    answer.read()

    connection.request("GET", f"{url.path}?{url.query}", headers={"x-ms-version": "2021-12-02"})
    answer = connection.getresponse()
    assert answer.status == 200
    seen = hashlib.sha256()
    while piece := answer.read(4 * MIB):
        seen.update(piece)
    assert seen.hexdigest() == body.hash.hexdigest()
    check_memory(running)


@pytest.mark.full
def test_one_byte_more_is_refused(start, tools):
    running = start()
    container = tools.client(running.endpoint).create_container(tools.fresh_name())
    url = object_url(container, "huge")
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    connection.putrequest("PUT", f"{url.path}?{url.query}")
    for name, value in {"x-ms-version": "2021-12-02", "x-ms-blob-type": "BlockBlob", "Expect": "100-continue",
                        "Content-Length": str(5000 * MIB + 1)}.items():
        connection.putheader(name, value)
    connection.endheaders()  # the body is never sent: the refusal has to come before it
    answer = connection.getresponse()
    assert answer.status == 413 and answer.getheader("x-ms-error-code") == "RequestBodyTooLarge"
