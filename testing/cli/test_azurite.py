"""The program called as Azurite."""

import re
from pathlib import Path

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueClient

from server import KEY

PORTS = ["--blobPort", "0", "--queuePort", "0", "--tablePort", "0"]


def listening(said):
    found = (re.fullmatch(r"Azurite (\w+) service is successfully listening at (http://\S+)", line) for line in said)
    return {match[1]: match[2] for match in found if match}


def blobs(url, account="devstoreaccount1", key=KEY):
    return BlobServiceClient(f"{url}/{account}", credential=key, retry_total=0)


@pytest.mark.parametrize("how", [dict(called="azurite"), dict()])
def test_its_flags(serve, tmp_path, how):
    words = [] if how else ["azurite"]
    server = serve(*words, "-s", "-l", "work", "-L", "--skipApiVersionCheck", "--disableProductStyleUrl", *PORTS, **how)
    urls = listening(server.said)
    assert set(urls) == {"Blob", "Queue", "Table"}
    blobs(urls["Blob"]).create_container("abc")
    assert (tmp_path / "work" / "lazuli-data" / "FORMAT").exists()
    assert not any(line.startswith(("smb", "file")) for line in server.said)
    assert server.stop() == 0


@pytest.mark.parametrize("name, service", [("azurite-blob", "Blob"), ("azurite-queue", "Queue"), ("azurite-table", "Table")])
def test_one_service(serve, name, service):
    server = serve("-s", f"--{service.lower()}Port", "0", called=name)
    assert set(listening(server.said)) == {service}


def test_its_accounts(serve):
    accounts = {"AZURITE_ACCOUNTS": "abc:a2V5MQ==:a2V5Mg==;def:a2V5Mw=="}
    for words in (["azurite", *PORTS], ["--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--file-port", "0", "--smb-port", "off"]):
        server = serve(*words, variables=accounts)
        url = next(line.split()[1] for line in server.said if line.startswith("blob ")).rsplit("/", 1)[0]
        for account, key in (("abc", "a2V5MQ=="), ("abc", "a2V5Mg=="), ("def", "a2V5Mw==")):
            list(blobs(url, account, key).list_containers())
        with pytest.raises(HttpResponseError):
            list(blobs(url).list_containers())
        server.stop()


def test_nothing_is_left_of_what_was_in_memory(serve):
    server = serve("azurite", "--inMemoryPersistence", *PORTS)
    place = next(line for line in server.said if line.startswith("data "))
    directory = Path(place.split(None, 1)[1].split(",")[0])
    blobs(listening(server.said)["Blob"]).create_container("abc").upload_blob("x", b"content")
    assert directory.is_dir() and "removed at the end" in place
    assert server.stop() == 0
    assert not directory.exists()


def test_the_debug_log(serve, tmp_path):
    server = serve("azurite", "-d", "debug.log", *PORTS)
    blobs(listening(server.said)["Blob"]).create_container("abc")
    server.stop()
    assert "CreateContainer" in (tmp_path / "debug.log").read_text()


@pytest.mark.parametrize("words, expected", [
    (["--oauth", "basic"], "--oauth"),
    (["--pwd", "x"], "--pwd"),
    (["--extentMemoryLimit", "5"], "--extentMemoryLimit"),
    (["--blobHost", "0.0.0.0"], "--queueHost"),
    (["--inMemoryPersistence", "-l", "."], "--location"),
    (["--blobPrt", "1"], "--blobPort"),
])
def test_refused_by_name(lazuli, words, expected):
    refused = lazuli("azurite", *words)
    assert refused.code != 0 and expected in refused.err, refused


def test_its_database_is_refused(lazuli):
    refused = lazuli("azurite", variables={"AZURITE_DB": "mysql://x"})
    assert refused.code == 1 and "AZURITE_DB" in refused.err


def test_a_port_in_use_in_its_words(lazuli, serve):
    port = listening(serve("azurite", *PORTS).said)["Blob"].rsplit(":", 1)[1]
    refused = lazuli("azurite", "-l", "other", "--blobPort", port, "--queuePort", "0", "--tablePort", "0")
    assert refused.code == 1 and f"127.0.0.1:{port}" in refused.err and "--blobPort" in refused.err
