"""Containers and blobs: browsing, previews, uploads and downloads, metadata and tags under their conditions, what a blob was."""

import json
import struct
import zlib

import pytest
from azure.storage.blob import BlobServiceClient, ContentSettings

from common import fresh_name
from conftest import KEEPER, KEEPER_KEY


def png(width, height):
    """A picture of one colour."""
    part = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = zlib.compress(b"".join(b"\0" + b"\x26\x61\x9c" * width for _ in range(height)))
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + part(b"IDAT", rows) + part(b"IEND", b"")


@pytest.fixture
def container(blobs):
    one = blobs.create_container(fresh_name())
    yield one
    one.delete_container()


def put(container, name, content, content_type="text/plain", **more):
    return container.upload_blob(name, content, content_settings=ContentSettings(content_type=content_type), **more)


def show(page, container, name, tab="", **question):
    from urllib.parse import quote, urlencode
    asked = urlencode({k: v for k, v in dict(tab=tab, **question).items() if v})
    page.open(f"#/blob/{container.container_name}/{quote(name, safe='')}" + (f"?{asked}" if asked else ""))


def test_a_container_is_made_found_deleted_and_restored(page, blobs):
    name = fresh_name()
    page.open("#/blobs")
    page.click("New container")
    page.fill("Name", "No_Such_Name")
    page.click("Create")
    # Refused, the service says why, and what was typed is still there.
    page.sees("InvalidResourceName", "dialog")
    page.fill("Name", name)
    page.press("Enter")
    page.sees("No blob yet.")
    assert blobs.get_container_client(name).exists()
    page.open("#/blobs")
    page.fill("Prefix of the name", name[:-1])
    page.sees("1 container")
    page.click(f"Delete {name}")
    page.sees("Everything in it goes too.")
    page.click("Cancel")
    assert blobs.get_container_client(name).exists()
    page.click(f"Delete {name}")
    page.click("Delete", kind="dialog button[data-yes]")
    page.sees("No container has this prefix.")
    assert not blobs.get_container_client(name).exists()
    page.click("deleted", kind="label")
    page.sees(name, ".grid")
    page.click("Restore")
    page.sees(f"{name} restored.")
    assert blobs.get_container_client(name).exists()
    blobs.delete_container(name)


def test_folders_prefixes_and_keys(page, container):
    for name in ["read-me.txt", "2025/jan.csv", "2026/a/deep.txt", "2026/feb.csv", "2026/jan.csv"]:
        put(container, name, b"x")
    page.open(f"#/blobs/{container.container_name}")
    page.sees("3 blobs and folders")
    assert page.run("[...document.querySelectorAll('.grid tbody .name')].map((one) => one.textContent)") == ["2025/", "2026/", "read-me.txt"]
    # Down with j, in with Enter, up with u.
    page.press("j", "j", "Enter")
    page.sees("feb.csv")
    page.misses("read-me.txt", ".grid")
    page.press("u")
    page.sees("read-me.txt")
    page.press("j", "ArrowDown", "k", "End", "Enter")
    page.sees("Preview")
    page.open(f"#/blobs/{container.container_name}")
    page.fill("Prefix of the name", "2026/j")
    page.sees("1 blob or folder")
    page.sees("jan.csv", ".grid")
    page.fill("Prefix of the name", "")
    page.click("flat", kind="label")
    page.sees("5 blobs and folders")


def test_pages_of_a_long_list(page, container):
    for number in range(205):
        container.upload_blob(f"blob-{number:03}", b"")
    page.open(f"#/blobs/{container.container_name}")
    page.sees("200 blobs and folders so far")
    page.click("Load more")
    page.sees("205 blobs and folders")
    page.sees("blob-204")
    page.misses("Load more")


def test_previews(page, container):
    put(container, "note.txt", "Grüße\n<b>as text</b>".encode())
    put(container, "data.json", json.dumps({"a": [1, 2], "big": 12345678901234567890}).encode(), "application/json")
    put(container, "broken.json", b"{not json", "application/json")
    put(container, "rows.csv", b'name,said\r\nAnn,"hello, ""you"""\r\nBob,<i>x</i>\r\n', "text/csv")
    put(container, "dot.png", png(40, 30), "image/png")
    put(container, "no-type.png", png(7, 5), "application/octet-stream")
    put(container, "bytes.bin", bytes(range(256)), "application/octet-stream")
    put(container, "long.txt", b"0123456789abcdef" * 65536)
    put(container, "empty.txt", b"")
    show(page, container, "note.txt")
    page.sees("Grüße\n<b>as text</b>")
    show(page, container, "data.json")
    page.sees('{\n  "a": [\n    1,\n    2\n  ],\n  "big": 12345678901234567890\n}')
    show(page, container, "broken.json")
    page.sees("Not valid JSON")
    page.sees("{not json")
    show(page, container, "rows.csv")
    page.sees("hello, \"you\"", ".csv")
    page.sees("<i>x</i>", ".csv")
    assert page.run("document.querySelectorAll('.csv tbody tr').length") == 2
    for name, words in [("dot.png", "40 × 30"), ("no-type.png", "7 × 5")]:
        show(page, container, name)
        page.sees(words)
    show(page, container, "bytes.bin")
    page.sees("00000010  10 11 12 13")
    show(page, container, "long.txt")
    page.sees("The first 512 KiB of 1.0 MiB")
    show(page, container, "empty.txt")
    page.sees("It is empty.")


def test_uploads_downloads_and_overwriting(page, container, tmp_path):
    for name, content in [("one.txt", b"first"), ("two.json", b"{}")]:
        (tmp_path / name).write_bytes(content)
    page.open(f"#/blobs/{container.container_name}?prefix=in/")
    page.sees("Nothing begins with this prefix.")
    page.choose_files(tmp_path / "one.txt", tmp_path / "two.json")
    page.sees("2 uploads ended")
    page.sees("2 blobs and folders")
    assert container.download_blob("in/one.txt").readall() == b"first"
    assert container.get_blob_client("in/two.json").get_blob_properties().content_settings.content_type == "application/json"
    # Once more: nothing is written over without a word.
    (tmp_path / "one.txt").write_bytes(b"second")
    page.choose_files(tmp_path / "one.txt")
    page.sees("It is there already")
    page.click("Skip")
    page.sees("skipped")
    assert container.download_blob("in/one.txt").readall() == b"first"
    page.choose_files(tmp_path / "one.txt")
    page.click("Overwrite")
    page.sees("4 uploads ended")
    assert container.download_blob("in/one.txt").readall() == b"second"
    page.click("Put finished uploads away")
    show(page, container, "in/one.txt")
    saved = tmp_path / "saved"
    saved.mkdir()
    page.downloads_to(saved)
    page.click("Download")
    assert page.downloaded(saved, "one.txt") == b"second"


def test_files_and_folders_are_dropped(page, container, tmp_path):
    folder = tmp_path / "folder" / "inner"
    folder.mkdir(parents=True)
    (folder / "deep.txt").write_bytes(b"deep")
    (tmp_path / "flat.txt").write_bytes(b"flat")
    page.open(f"#/blobs/{container.container_name}")
    page.sees("No blob yet.")
    page.drop_files(".content", tmp_path / "folder", tmp_path / "flat.txt")
    page.sees("2 uploads ended")
    assert sorted(one.name for one in container.list_blobs()) == ["flat.txt", "folder/inner/deep.txt"]


def test_a_big_file_goes_in_blocks(page, container, tmp_path):
    content = bytes(range(256)) * (20 << 12)  # 20 MiB
    (tmp_path / "big.bin").write_bytes(content)
    page.open(f"#/blobs/{container.container_name}")
    page.sees("No blob yet.")
    page.choose_files(tmp_path / "big.bin")
    page.sees("1 upload ended", seconds=60)
    assert container.download_blob("big.bin").readall() == content
    committed, _ = container.get_blob_client("big.bin").get_block_list("all")
    assert [one.size for one in committed] == [8 << 20, 8 << 20, 4 << 20]


def test_an_upload_that_is_refused_says_why(page, container, tmp_path):
    (tmp_path / "held.txt").write_bytes(b"mine")
    container.upload_blob("held.txt", b"theirs").acquire_lease(-1)
    page.open(f"#/blobs/{container.container_name}")
    page.sees("held.txt")
    page.choose_files(tmp_path / "held.txt")
    page.sees("LeaseIdMissing", "#tray")
    assert container.download_blob("held.txt").readall() == b"theirs"


def test_properties_and_content_headers(page, container):
    blob = put(container, "a.txt", b"words")
    show(page, container, "a.txt", "Properties")
    page.sees(blob.get_blob_properties().etag)
    page.sees("BlockBlob")
    page.click("Edit content headers")
    page.fill("content-type", "text/markdown")
    page.fill("cache-control", "max-age=60")
    page.click("Save")
    page.sees("text/markdown", ".summary")
    now = blob.get_blob_properties().content_settings
    assert (now.content_type, now.cache_control) == ("text/markdown", "max-age=60")
    page.sees("max-age=60", ".facts")


def test_metadata_is_saved_only_over_what_was_read(page, container):
    blob = container.upload_blob("b", b"x", metadata={"Author": "Ann", "state": "draft"})
    show(page, container, "b", "Metadata")
    page.fill("Value of state", "final")
    page.click("Save")
    page.sees("Metadata saved.")
    # Names keep their letters, although browsers show those of headers small.
    assert blob.get_blob_properties().metadata == {"Author": "Ann", "state": "final"}
    blob.set_blob_metadata({"Author": "Bob", "state": "final"})
    page.click("Add")
    page.fill("Name", "note")
    page.fill("Value of the new one", "mine")
    page.click("Save")
    page.sees("changed by somebody else")
    assert page.run("[...document.querySelectorAll('.diff tbody tr')].map((one) => one.innerText.split('\\t'))") == [
        ["Author", "Ann", "Ann", "Bob"], ["note", "absent", "mine", "absent"]]
    page.click("Reload theirs")
    page.wait(lambda: page.run("[...document.querySelectorAll('.pairs input')].some((one) => one.value === 'Bob')"), "their value")
    page.fill("Value of Author", "Cleo")
    blob.set_blob_metadata({"state": "theirs"})
    page.click("Save")
    page.click("Overwrite theirs")
    page.wait(lambda: blob.get_blob_properties().metadata == {"Author": "Cleo", "state": "final"}, "ours")
    page.fill("Value of Author", "Grüße")
    page.click("Save")
    page.sees("only ASCII")


def test_tags(page, container):
    blob = container.upload_blob("b", b"x", tags={"project": "blue"})
    show(page, container, "b", "Tags")
    page.fill("Value of project", "it's 'green'") if False else page.fill("Value of project", "green")
    page.click("Save")
    page.sees("Tags saved.")
    assert blob.get_blob_tags() == {"project": "green"}
    # One that was added meanwhile would be lost; it is not.
    blob.set_blob_tags({"project": "green", "added": "1"})
    page.fill("Value of project", "red")
    page.click("Save")
    page.sees("changed by somebody else")
    page.click("Reload theirs")
    page.wait(lambda: page.run("[...document.querySelectorAll('.pairs input')].some((one) => one.value === 'added')"), "their tag")
    page.click("Remove added")
    page.click("Save")
    page.sees("Tags saved.")
    page.wait(lambda: blob.get_blob_tags() == {"project": "green"}, "the tags")


def test_snapshots_and_leases(page, container):
    blob = put(container, "s.txt", b"as it was")
    show(page, container, "s.txt")
    page.click("Snapshot")
    page.sees("Snapshot made.")
    blob.upload_blob(b"as it is", overwrite=True)
    page.click("History", kind="[role=tab]")
    taken = next(one for one in container.list_blobs(include=["snapshots"]) if one.snapshot).snapshot
    page.click(taken, kind=".grid a")
    page.sees("as it was", ".panel")
    page.sees("Restore this")
    page.click("Delete")
    page.sees("This one alone goes")
    page.click("Delete", kind="dialog button[data-yes]")
    page.sees("s.txt deleted.")
    assert not any(one.snapshot for one in container.list_blobs(include=["snapshots"]))
    lease = blob.acquire_lease(60)
    show(page, container, "s.txt")
    page.sees("leased", ".summary")
    page.click("Break lease")
    page.click("Break lease", kind="dialog button[data-yes]")
    page.sees("Lease broken.")
    assert blob.get_blob_properties().lease.state == "broken", lease.id


def test_deleted_and_back(page, container):
    blob = put(container, "gone.txt", b"still here")
    show(page, container, "gone.txt")
    page.sees("still here")
    page.click("Delete")
    page.click("Delete", kind="dialog button[data-yes]")
    page.sees("gone.txt deleted.")
    assert not blob.exists()
    page.sees("No blob yet.")
    page.click("deleted", kind="label")
    page.sees("gone.txt", ".grid")
    page.click("gone.txt", kind=".grid a")
    page.sees("This blob was deleted.")
    page.click("Undelete")
    page.sees("still here")
    assert blob.download_blob().readall() == b"still here"


def test_several_are_deleted_at_once(page, container):
    for name in ["a", "b", "c"]:
        container.upload_blob(name, b"x")
    container.get_blob_client("a").create_snapshot()
    page.open(f"#/blobs/{container.container_name}")
    page.sees("3 blobs and folders")
    page.press("j", " ", "j", " ")
    # Somebody writes one of them meanwhile: what was not seen is not deleted.
    container.upload_blob("b", b"changed", overwrite=True)
    page.click("Delete 2 blobs")
    page.click("Delete", kind="dialog button[data-yes]")
    page.sees("b was not deleted.")
    page.sees("ConditionNotMet")
    page.sees("1 blob deleted.")
    assert [one.name for one in container.list_blobs()] == ["b", "c"]


def test_a_deletion_that_a_lease_forbids(page, container):
    blob = put(container, "held.txt", b"x")
    lease = blob.acquire_lease(-1)
    show(page, container, "held.txt")
    page.click("Delete")
    page.click("Delete", kind="dialog button[data-yes]")
    page.sees("LeaseIdMissing")
    page.sees("status 412")
    lease.release()


def test_properties_of_a_container(page, blobs, container):
    container.set_container_metadata({"owner": "ann"})
    container.acquire_lease(-1)
    page.open(f"#/blobs/{container.container_name}")
    page.click("Properties")
    page.sees("ann", "dialog")
    page.click("Break lease")
    page.sees("Lease broken.")


def test_versions(stranger, server):
    if not server.own:
        pytest.skip("needs a server of its own")
    with BlobServiceClient(f"http://127.0.0.1:{server.port}/{KEEPER}", credential={"account_name": KEEPER, "account_key": KEEPER_KEY}) as service:
        container = service.create_container(fresh_name())
        blob = put(container, "v.txt", b"version one")
        put(container, "v.txt", b"version two", overwrite=True)
        stranger.fill("Account", KEEPER)
        stranger.fill("Account key", KEEPER_KEY)
        stranger.press("Enter")
        stranger.sees("This server")
        show(stranger, container, "v.txt", "History")
        stranger.sees("2 entries")
        first = min(one.version_id for one in container.list_blobs(include=["versions"]))
        stranger.click(first, kind=".grid a")
        stranger.sees("version one", ".panel")
        stranger.click("Restore this")
        stranger.click("Restore", kind="dialog button[data-yes]")
        stranger.sees("Restored.")
        stranger.sees("version one", ".panel")
        assert blob.download_blob().readall() == b"version one"
        stranger.open(f"#/blobs/{container.container_name}?show=versions")
        stranger.sees("3 blobs and folders")
        container.delete_container()
