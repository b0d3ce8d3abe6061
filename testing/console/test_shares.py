"""Shares: directories and files, uploads and downloads, properties, snapshots, who has a file open."""

import pytest

import smb
from common import fresh_name


@pytest.fixture
def share(shares):
    one = shares.create_share(fresh_name("s"))
    yield one
    one.delete_share(delete_snapshots="include")


@pytest.fixture
def mounted(server, share):
    """An SMB client of the share."""
    client = smb.Client(server.smb_port, share.share_name)
    yield client
    client.drop()


def test_a_share_is_made_deleted_and_restored(page, shares):
    name = fresh_name("s")
    page.open("#/shares")
    page.click("New share")
    page.fill("Name", name)
    page.fill("Quota in GiB", "7")
    page.press("Enter")
    page.sees("Nothing here yet.")
    assert shares.get_share_client(name).get_share_properties().quota == 7
    page.open(f"#/shares?prefix={name}")
    page.click(f"Delete {name}")
    page.click("Delete", kind="dialog button[data-yes]")
    page.sees("No share has this prefix.")
    page.click("deleted", kind="label")
    page.click("Restore")
    page.sees(f"{name} restored.")
    assert shares.get_share_client(name).get_share_properties().quota == 7
    shares.delete_share(name)


def test_directories_and_files(page, share, tmp_path):
    page.open(f"#/share/{share.share_name}")
    page.click("New directory")
    page.fill("Name", "plans")
    page.press("Enter")
    page.sees("plans", ".grid")
    page.press("j", "Enter")
    page.sees("Nothing here yet.")
    (tmp_path / "a.txt").write_bytes(b"of a share")
    page.choose_files(tmp_path / "a.txt")
    page.sees("1 upload ended")
    page.sees("a.txt", ".grid")
    file = share.get_file_client("plans/a.txt")
    assert file.download_file().readall() == b"of a share"
    # Writing over it is asked about.
    (tmp_path / "a.txt").write_bytes(b"again")
    page.choose_files(tmp_path / "a.txt")
    page.click("Overwrite")
    page.sees("2 uploads ended")
    assert file.download_file().readall() == b"again"
    page.click("Put finished uploads away")
    page.click("a.txt", kind=".grid a")
    page.sees("again", ".panel")
    saved = tmp_path / "saved"
    saved.mkdir()
    page.downloads_to(saved)
    page.click("Download")
    assert page.downloaded(saved, "a.txt") == b"again"
    page.click("Properties", kind="[role=tab]")
    page.sees(file.get_file_properties().etag)
    page.sees("Archive")
    page.click("Delete")
    page.click("Delete", kind="dialog button[data-yes]")
    page.sees("Nothing here yet.")
    page.press("u")
    page.sees("plans", ".grid")
    page.click("Delete plans")
    page.click("Delete", kind="dialog button[data-yes]")
    page.sees("plans deleted.")


def test_a_big_file_and_a_dropped_folder(page, share, tmp_path):
    content = bytes(range(251)) * 40000  # not a multiple of anything
    (tmp_path / "in" / "side").mkdir(parents=True)
    (tmp_path / "in" / "side" / "big.bin").write_bytes(content)
    page.open(f"#/share/{share.share_name}")
    page.sees("Nothing here yet.")
    page.drop_files(".content", tmp_path / "in")
    page.sees("1 upload ended", seconds=60)
    assert share.get_file_client("in/side/big.bin").download_file().readall() == content


def test_a_directory_that_is_not_empty_stays(page, share):
    share.create_directory("full").upload_file("x", b"x")
    page.open(f"#/share/{share.share_name}")
    page.click("Delete full")
    page.click("Delete", kind="dialog button[data-yes]")
    page.sees("DirectoryNotEmpty")


def test_snapshots_of_a_share(page, share):
    share.get_directory_client("").upload_file("f.txt", b"then")
    page.open(f"#/share/{share.share_name}")
    page.click("Snapshot")
    page.sees("Snapshot of the share made.")
    share.get_file_client("f.txt").upload_file(b"now")
    page.open(f"#/shares?prefix={share.share_name}&snapshots=1")
    page.sees("2 shares")
    page.press("j", "Enter")
    page.sees("f.txt", ".grid")
    page.click("f.txt", kind=".grid a")
    page.sees("then", ".panel")
    page.misses("Delete")


def test_handles(page, share, mounted):
    mounted.make("open.txt", b"x")
    held = mounted.open("open.txt", smb.READ, "R")
    page.open(f"#/file/{share.share_name}/open.txt")
    page.click("Handles", kind="[role=tab]")
    page.sees("open.txt", ".panel")
    page.sees("127.0.0.1", ".panel")
    page.open(f"#/share/{share.share_name}")
    page.click("Open handles")
    page.sees("open.txt", "dialog")
    page.click("Close handle", kind="dialog .grid button")
    page.click("Close handle", kind="dialog button[data-yes]")
    page.sees("Handle closed.")
    page.sees("Nobody has it open.")
    with smb.refused("FILE_CLOSED"):
        held.read()
