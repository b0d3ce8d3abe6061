"""Large bodies pass through the server in bounded memory, both ways."""

import hashlib
import http.client
import io
import random
from datetime import datetime, timedelta, timezone
from urllib.parse import urlsplit

import pytest
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

from server import ACCOUNT, KEY, kind

MIB = 1024 * 1024
MEMORY_MAX = 200 * MIB


class Generated(io.RawIOBase):
    """A stream of the given size, made as it is read: repeatable, incompressible, and never whole in memory."""

    def __init__(self, size, seed):
        self.left, self.chance, self.hash = size, random.Random(seed), hashlib.sha256()
        self.chunk = self.chance.randbytes(MIB)

    def read(self, size=-1):
        size = min(self.left, MIB if size is None or size < 0 else size)
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
def test_single_put_of_5000_mib(start, tools):
    """The largest Put Blob there is, streamed over a plain connection: the client would hold all of it in memory."""
    running = start()
    size = 5000 * MIB
    service = tools.client(running.endpoint, read_timeout=1800)
    container = service.create_container(tools.fresh_name())
    sas = generate_account_sas(
        ACCOUNT, KEY, resource_types=ResourceTypes(object=True), permission=AccountSasPermissions(read=True, write=True),
        expiry=datetime.now(timezone.utc) + timedelta(hours=2))
    url = urlsplit(f"{container.url}/huge?{sas}")
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
    sas = generate_account_sas(
        ACCOUNT, KEY, resource_types=ResourceTypes(object=True), permission=AccountSasPermissions(write=True),
        expiry=datetime.now(timezone.utc) + timedelta(hours=2))
    url = urlsplit(f"{container.url}/huge?{sas}")
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    connection.putrequest("PUT", f"{url.path}?{url.query}")
    for name, value in {"x-ms-version": "2021-12-02", "x-ms-blob-type": "BlockBlob", "Expect": "100-continue",
                        "Content-Length": str(5000 * MIB + 1)}.items():
        connection.putheader(name, value)
    connection.endheaders()  # the body is never sent: the refusal has to come before it
    answer = connection.getresponse()
    assert answer.status == 413 and answer.getheader("x-ms-error-code") == "RequestBodyTooLarge"
