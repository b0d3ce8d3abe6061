"""Directories through azure-storage-file-share: what they are, names, listings, renaming, handles and links."""

from datetime import datetime, timedelta, timezone

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.fileshare import NTFSAttributes, ShareDirectoryClient

import server as servers

pytestmark = pytest.mark.skipif(servers.kind() != "lazuli", reason="the peer has no files")

LONG_AGO = datetime(2001, 2, 3, 4, 5, 6, 789_012)


def names(listing):
    return [one.name for one in listing]


def test_directories_come_and_go(share, refused):
    one = share.get_directory_client("dir")
    assert not one.exists()
    made = one.create_directory(metadata={"Hello": "world"})
    with refused(409, "ResourceAlreadyExists"):
        one.create_directory()
    with refused(409, "ResourceAlreadyExists"):
        share.create_directory("DIR")  # names count without case
    seen = one.get_directory_properties()
    assert (seen.etag, seen.last_modified, seen.metadata) == (made["etag"], made["last_modified"], {"Hello": "world"})
    assert (seen.file_id, seen.parent_id, seen.permission_key) == (made["file_id"], made["file_parent_id"], made["file_permission_key"])
    assert str(seen.file_attributes) == "Directory" and seen.server_encrypted and seen.is_directory
    assert abs(datetime.now(timezone.utc) - seen.creation_time.replace(tzinfo=timezone.utc)) < timedelta(minutes=1)
    changed = one.set_directory_metadata({"Other": "1"})
    assert changed["etag"] != made["etag"] and one.get_directory_properties().metadata == {"Other": "1"}

    below = one.create_subdirectory("sub")
    assert below.get_directory_properties().parent_id == seen.file_id
    with refused(409, "DirectoryNotEmpty"):
        one.delete_directory()
    with refused(404, "ParentNotFound"):
        share.create_directory("absent/dir")
    with refused(404, "ParentNotFound"):
        share.get_file_client("absent/f").create_file(1)
    one.upload_file("f", b"x")
    with refused(409, "ResourceAlreadyExists"):
        one.create_subdirectory("F")
    one.delete_file("f")
    one.delete_subdirectory("sub")
    one.delete_directory()
    for act in (one.delete_directory, one.get_directory_properties, lambda: list(one.list_directories_and_files())):
        with refused(404, "ResourceNotFound"):
            act()


def test_attributes_and_times(share, refused):
    one = share.get_directory_client("dir")
    one.create_directory(file_attributes=NTFSAttributes(read_only=True, hidden=True), file_creation_time=LONG_AGO,
                         file_last_write_time=LONG_AGO + timedelta(days=1), file_change_time=LONG_AGO + timedelta(days=2))
    seen = one.get_directory_properties()
    assert set(str(seen.file_attributes).split(" | ")) == {"ReadOnly", "Hidden", "Directory"}
    times = [time.replace(tzinfo=None) for time in (seen.creation_time, seen.last_write_time, seen.change_time)]
    assert times == [LONG_AGO, LONG_AGO + timedelta(days=1), LONG_AGO + timedelta(days=2)]
    one.set_http_headers(file_attributes="System", file_last_write_time=LONG_AGO)
    after = one.get_directory_properties()
    assert set(str(after.file_attributes).split(" | ")) == {"System", "Directory"}
    assert (after.creation_time, after.last_write_time.replace(tzinfo=None), after.permission_key) == (seen.creation_time, LONG_AGO, seen.permission_key)
    assert after.change_time > seen.change_time and after.etag != seen.etag
    with refused(400, "InvalidHeaderValue"):
        one.set_http_headers(file_attributes="Shiny")
    with refused(400, "InvalidHeaderValue"):
        one.set_http_headers(file_creation_time="yesterday")


NAMES = ["a b", "a+b", "%41", "\u00fc\u4e2d\U0001f600", "semi;colon", "a&b=c", "#hash", "tilde~", "dash-", ".hidden", "two.dots.txt", "(brackets)", "x" * 255, "\u00e9" * 255,
         "'quote'", "comma,", "at@", "[1]", "{2}", "^", "!", "$", "con.txt", "odd\uffff\ufffe%41"]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names(share, name):
    directory = share.create_directory(name)
    file = directory.get_file_client(name)
    file.upload_file(name.encode())
    assert file.download_file().readall() == name.encode()
    assert names(share.list_directories_and_files()) == [name] and names(directory.list_directories_and_files()) == [name]
    moved = file.rename_file(f"{name}/Renamed{name[7:]}")
    assert moved.download_file().readall() == name.encode()
    assert names(directory.list_directories_and_files(name_starts_with="renamed")) == ["Renamed" + name[7:]]
    moved.delete_file()
    directory.delete_directory()


@pytest.mark.parametrize("name", ["a:b", "a|b", "a<b", "a>b", "a*b", 'a"b', "a\\b", "a\u0001b", "x" * 256], ids=range(9))
def test_names_that_cannot_be(share, refused, name):
    for act in (share.get_directory_client(name).create_directory, lambda: share.get_file_client(name).create_file(0)):
        with refused(400):
            act()
    assert names(share.list_directories_and_files()) == []


def test_names_keep_their_case(share):
    share.create_directory("Dir").upload_file("File.TXT", b"1")
    share.get_file_client("dir/file.txt").upload_file(b"22")  # the same file
    [seen] = share.list_directories_and_files("DIR")
    assert seen.size == 2 and share.get_file_client("DIR/FILE.txt").download_file().readall() == b"22"
    assert names(share.list_directories_and_files(name_starts_with="dI")) == ["Dir"]
    share.get_file_client("dir/file.txt").rename_file("dir/FILE.txt")
    assert names(share.list_directories_and_files("Dir")) == ["FILE.txt"]


def test_depth(share, refused):
    path = "d"
    share.create_directory(path)
    for _ in range(249):
        path += "/d"
        share.create_directory(path)
    with refused(400, "InvalidFileOrDirectoryPathName"):
        share.create_directory(path + "/d")
    assert share.get_directory_client(path).exists()


def test_trailing_dots(shares, share, file_endpoint, tools):
    share.create_directory("dir...").upload_file("file.", b"trimmed")
    assert names(share.list_directories_and_files()) == ["dir"] and names(share.list_directories_and_files("dir")) == ["file"]
    keeps = tools.file_client(file_endpoint, allow_trailing_dot=True, allow_source_trailing_dot=True).get_share_client(share.share_name)
    assert not keeps.get_file_client("dir/file.").exists()
    keeps.get_file_client("dir/file.").upload_file(b"kept")
    assert names(keeps.list_directories_and_files("dir")) == ["file", "file."]
    keeps.get_file_client("dir/file.").rename_file("dir/other..")
    assert keeps.get_file_client("dir/other..").download_file().readall() == b"kept"
    assert share.get_file_client("dir/file").download_file().readall() == b"trimmed"


def test_list(share):
    for name in ("b", "D", "f"):
        share.create_directory(name)
    for name in ("A", "c", "E", "g"):
        share.get_file_client(name).upload_file(name.encode() * 10)
    listed = list(share.list_directories_and_files())  # they come by name; the client puts the directories of a page first
    assert [(one.name, one.is_directory) for one in listed] == [
        ("b", True), ("D", True), ("f", True), ("A", False), ("c", False), ("E", False), ("g", False)]
    assert [one.size for one in listed if not one.is_directory] == [10] * 4
    assert not any(one.get("file_id") or one.get("etag") for one in listed)
    pages = share.list_directories_and_files(results_per_page=3).by_page()
    assert [names(page) for page in pages] == [["b", "A", "c"], ["D", "f", "E"], ["g"]]
    assert names(share.list_directories_and_files("b")) == []

    with_all = share.list_directories_and_files(include=["timestamps", "Etag", "Attributes", "PermissionKey"], include_extended_info=True)
    for one in with_all:
        client = share.get_directory_client(one.name) if one.is_directory else share.get_file_client(one.name)
        seen = client.get_directory_properties() if one.is_directory else client.get_file_properties()
        assert (one.file_id, one.etag.strip('"'), one.permission_key) == (seen.file_id, seen.etag.strip('"'), seen.permission_key)
        assert (one.last_modified, str(one.file_attributes)) == (seen.last_modified, str(seen.file_attributes))
        for when in ("creation_time", "last_write_time", "change_time"):
            assert datetime.fromisoformat(str(one[when])).replace(tzinfo=None) == seen[when].replace(tzinfo=None)
        assert one.last_access_time
    [only_ids] = share.list_directories_and_files(name_starts_with="a", include_extended_info=True)
    assert only_ids.file_id and not only_ids.etag
    [only_etag] = share.list_directories_and_files(name_starts_with="a", include=["Etag"])
    assert only_etag.etag and only_etag.file_id and not only_etag.creation_time


def test_a_large_directory_in_pages(share):
    directory = share.create_directory("many")
    wanted = [f"{n:04}" for n in range(120)]
    for name in wanted:
        directory.get_file_client(name).create_file(0)
    pages = [names(page) for page in directory.list_directories_and_files(results_per_page=50).by_page()]
    assert [len(page) for page in pages] == [50, 50, 20] and sum(pages, []) == wanted
    paged = directory.list_directories_and_files(results_per_page=50).by_page()
    next(paged)
    directory.delete_file("0049")
    directory.delete_file("0050")
    assert names(next(paged))[0] == "0051"
    assert sum([names(page) for page in directory.list_directories_and_files(name_starts_with="000", results_per_page=4).by_page()], []) == wanted[:10]


def test_rename(share, refused):
    one = share.create_directory("old")
    one.create_subdirectory("sub").upload_file("f", b"content")
    before = one.get_directory_properties()
    there = one.rename_directory("new", metadata={"a": "1"})
    assert isinstance(there, ShareDirectoryClient) and not one.exists()
    seen = there.get_directory_properties()
    assert (seen.file_id, seen.creation_time, seen.metadata) == (before.file_id, before.creation_time, {"a": "1"})
    assert seen.etag != before.etag and seen.change_time >= before.change_time
    assert share.get_file_client("new/sub/f").download_file().readall() == b"content"

    share.create_directory("other")
    with refused(409, "ResourceAlreadyExists"):
        there.rename_directory("other")
    with refused(404, "ParentNotFound"):
        there.rename_directory("absent/new")
    with refused(404, "ResourceNotFound"):
        one.rename_directory("anything")
    with pytest.raises(HttpResponseError):
        there.rename_directory("new/sub/itself")  # into itself
    deeper = there.rename_directory("other/new", file_attributes="Hidden", file_creation_time=LONG_AGO)
    assert set(str(deeper.get_directory_properties().file_attributes).split(" | ")) == {"Hidden", "Directory"}
    assert share.get_file_client("other/new/sub/f").exists() and not share.get_file_client("new/sub/f").exists()


def test_handles(share, refused):
    directory = share.create_directory("dir")
    file = directory.upload_file("f", b"x")
    root = share.get_directory_client()
    for one in (root, directory, file):
        assert list(one.list_handles()) == [] and list(one.list_handles(results_per_page=1)) == []
        assert one.close_all_handles() == {"closed_handles_count": 0, "failed_handles_count": 0}
        assert one.close_handle("123") == {"closed_handles_count": 0, "failed_handles_count": 0}
    assert list(root.list_handles(recursive=True)) == []
    assert root.close_all_handles(recursive=True)["closed_handles_count"] == 0
    with refused(404, "ResourceNotFound"):
        list(share.get_directory_client("absent").list_handles())
    with refused(404, "ResourceNotFound"):
        share.get_file_client("dir/absent").close_all_handles()


def test_links_on_a_share_for_nfs(shares, share, tools, refused):
    nfs = shares.create_share(tools.fresh_name("s"), protocols="NFS")
    directory = nfs.get_directory_client("dir")
    directory.create_directory(owner="7", group="8", file_mode="0755")
    seen = directory.get_directory_properties()
    assert (seen.owner, seen.group, seen.file_mode, seen.nfs_file_type) == ("7", "8", "0755", "Directory")
    file = directory.get_file_client("f")
    file.create_file(7, owner="1", group="2", file_mode="0640")
    file.upload_range(b"content", 0, 7)
    hard = nfs.get_file_client("hard")
    linked = hard.create_hardlink("/dir/f")
    assert (linked["link_count"], linked["file_id"]) == (2, file.get_file_properties().file_id)
    assert hard.download_file().readall() == b"content" and file.get_file_properties().link_count == 2
    file.delete_file()
    assert hard.get_file_properties().link_count == 1
    soft = nfs.get_file_client("soft")
    soft.create_symlink("dir/some where", metadata={"a": "1"}, owner="3", group="4")
    assert soft.get_symlink()["link_text"] == "dir/some where"
    hard.set_http_headers(hard.get_file_properties().content_settings, owner="5", group="6", file_mode="0600")
    seen = hard.get_file_properties()
    assert (seen.owner, seen.group, seen.file_mode, seen.nfs_file_type) == ("5", "6", "0600", "Regular")

    other = share.get_file_client("f")
    other.create_file(1)
    for act in (lambda: share.get_file_client("l").create_symlink("f"), lambda: share.get_file_client("l").create_hardlink("/f"), other.get_symlink):
        with refused(409, "UnsupportedShareProtocol"):
            act()
    with refused(400, "UnsupportedHeader"):
        share.get_file_client("l").create_file(1, owner="1")
    nfs.delete_share()
