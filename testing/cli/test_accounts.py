"""Accounts of a data directory, served or not."""

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient

from conftest import ANY_PORTS


def client(server, account, key):
    root = server.url("blob").rsplit("/", 1)[0]
    return BlobServiceClient(f"{root}/{account}", credential=key, retry_total=0)


def keys(text):
    return dict(line.split("=", 1) for line in text.splitlines() if line.startswith("key"))


def reaches(server, account, key):
    try:
        list(client(server, account, key).list_containers())
        return True
    except HttpResponseError as error:
        assert error.status_code in (403, 404)
        return False


def test_in_a_running_server(lazuli, serve, tmp_path):
    server = serve("--data", "d", *ANY_PORTS)
    made = lazuli("account", "add", "abc", "--data", "d")
    assert made.code == 0 and set(keys(made.out)) == {"key1", "key2"}, made
    key1, key2 = keys(made.out)["key1"], keys(made.out)["key2"]
    assert reaches(server, "abc", key1) and reaches(server, "abc", key2)
    assert lazuli("account", "list", "--data", "d").out.splitlines() == ["abc"]
    assert key1 in lazuli("account", "list", "--show-keys", "--data", "d").out
    turned = lazuli("account", "rotate", "abc", "key1", "--data", "d")
    new = keys(turned.out)["key1"]
    assert reaches(server, "abc", new) and reaches(server, "abc", key2) and not reaches(server, "abc", key1)
    assert lazuli("account", "set", "abc", "versioning=true", "--data", "d").code == 0
    assert "versioning=true" in lazuli("account", "show", "abc", "--data", "d").out
    client(server, "abc", new).create_container("here")
    refused = lazuli("account", "remove", "abc", "--data", "d")
    assert refused.code == 1 and "blob" in refused.err
    client(server, "abc", new).delete_container("here")
    again = lazuli("account", "add", "abc", "--data", "d")
    assert again.code == 1 and "already" in again.err
    # And after it has stopped, and again when it has started.
    server.stop()
    assert lazuli("account", "list", "--data", "d").out.splitlines() == ["abc"]
    other = keys(lazuli("account", "create", "other", "--data", "d").out)["key1"]
    server = serve("--data", "d", *ANY_PORTS)
    assert reaches(server, "abc", new) and reaches(server, "other", other)
    assert lazuli("account", "remove", "other", "--data", "d").code == 0
    assert not reaches(server, "other", other)


def test_the_development_account_stays_if_it_holds_something(lazuli, serve):
    from server import ACCOUNT, KEY
    server = serve("--data", "d", *ANY_PORTS)
    client(server, ACCOUNT, KEY).create_container("mine")
    made = lazuli("account", "add", "abc", "--data", "d")
    assert made.code == 0 and ACCOUNT in made.out, made
    assert reaches(server, ACCOUNT, KEY)
    assert sorted(lazuli("account", "list", "--data", "d").out.split()) == ["abc", ACCOUNT]


def test_and_goes_if_not(lazuli, serve):
    from server import ACCOUNT, KEY
    server = serve("--data", "d", *ANY_PORTS)
    made = lazuli("account", "add", "abc", "--data", "d")
    assert "development account" in made.out
    assert not reaches(server, ACCOUNT, KEY)
    assert lazuli("account", "remove", "abc", "--data", "d").code == 0
    assert reaches(server, ACCOUNT, KEY)


def test_given_and_kept(lazuli, serve):
    server = serve("--data", "d", "--account", "abc:a2V5", *ANY_PORTS)
    for words in (["add", "abc"], ["rotate", "abc", "key1"], ["remove", "abc"], ["show", "abc"]):
        refused = lazuli("account", *words, "--data", "d")
        assert refused.code == 1 and "given to the server" in refused.err, refused
    assert lazuli("account", "add", "def", "--key1", "a2V5", "--data", "d").code == 0
    assert reaches(server, "abc", "a2V5") and reaches(server, "def", "a2V5")
    assert lazuli("account", "list", "--data", "d").out.splitlines()[0] == "def"
    server.stop()
    refused = lazuli("serve", "--data", "d", "--account", "def:a2V5", *ANY_PORTS)
    assert refused.code == 1 and "def" in refused.err and "--keep-data" in refused.err
    assert lazuli("account", "remove", "def", "--keep-data", "--data", "d").code == 0
    serve("--data", "d", "--account", "def:a2V5", *ANY_PORTS)


def test_wrong_words(lazuli, tmp_path):
    for words, expected in [
        (["list", "--data", "nowhere"], "no data directory"),
        (["add", "ABC", "--data", "d"], "lower-case"),
        (["add", "abc", "--key1", "***", "--data", "d"], "Base64"),
        (["set", "abc", "colour=red", "--data", "d"], "no setting of an account"),
    ]:
        refused = lazuli("account", *words)
        assert refused.code == 1 and expected in refused.err, refused
    assert not (tmp_path / "d").exists()
