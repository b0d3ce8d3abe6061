"""The same questions for releases of the client of files of long ago; run by test_old_clients.py with such a release in front of the path.

old_file_client.py ENDPOINT: shares, directories, files, and every kind of token that the account's key signs.
"""

import logging
import sys
from datetime import datetime, timedelta, timezone

from server import KEY

try:
    import azure.storage.fileshare as client
    from azure.storage.fileshare._version import VERSION
    assert VERSION.startswith("12.0.")
except (ImportError, AssertionError):
    import azure.storage.file as client
    from azure.storage.file._constants import __version__ as VERSION

logging.disable(logging.ERROR)  # refusals are what is asked for
HOUR = timedelta(hours=1)
# These releases format times without looking at the zone.
NOW = datetime.now(timezone.utc).replace(tzinfo=None)
ENDPOINT = sys.argv[1]
ACCOUNT = ENDPOINT.rsplit("/", 1)[1]
SHARE = f"old-{VERSION.replace('.', '-')}"
SDDL = "O:S-1-5-21-2127521184-1604012920-1887927527-21560751G:S-1-5-21-2127521184-1604012920-1887927527-513D:AI(A;;FA;;;SY)(A;;FA;;;BA)"


class Twelve:
    """12.0.0, whose names are today's. A path is a directory and a name in it."""

    def __init__(self, credential):
        if credential == KEY:
            # A key alone would be taken to belong to the account that is the first part of the host's name.
            credential = dict(account_name=ACCOUNT, account_key=KEY)
        self.service = client.ShareServiceClient(ENDPOINT, credential=credential, retry_total=0)
        self.share = self.service.get_share_client(SHARE)

    def of(self, snapshot=None):
        return self.service.get_share_client(SHARE, snapshot=snapshot) if snapshot else self.share

    def file(self, directory, name, snapshot=None):
        return self.of(snapshot).get_file_client(f"{directory}/{name}" if directory else name)

    def create_share(self, **how):
        self.share.create_share(**how)

    def shares(self):
        return [one.name for one in self.service.list_shares(include_metadata=True)]

    def about_share(self, snapshot=None):
        seen = self.of(snapshot).get_share_properties()
        return seen.quota, seen.metadata

    def change_share(self, quota, metadata):
        self.share.set_share_quota(quota)
        self.share.set_share_metadata(metadata)

    def used_bytes(self):
        return self.share.get_share_stats()

    def allow(self, policy, permission):
        self.share.set_share_access_policy(signed_identifiers={policy: client.AccessPolicy(permission=permission, expiry=NOW + HOUR, start=NOW - HOUR)})
        return [one.id for one in self.share.get_share_access_policy()["signed_identifiers"]]

    def permission(self, text):
        return self.share.get_permission_for_share(self.share.create_permission_for_share(text))

    def snapshot(self):
        return self.share.create_snapshot()["snapshot"]

    def delete_share(self, with_snapshots=False):
        self.share.delete_share(delete_snapshots=with_snapshots)

    def make_directory(self, path):
        self.share.create_directory(path)
        self.share.get_directory_client(path).set_directory_metadata({"a": "1"})
        self.share.get_directory_client(path).set_http_headers(file_attributes="Hidden")
        return self.share.get_directory_client(path).get_directory_properties().metadata

    def remove_directory(self, path):
        self.share.delete_directory(path)

    def list(self, directory="", snapshot=None):
        return [one["name"] for one in self.of(snapshot).list_directories_and_files(directory)]

    def handles(self, directory):
        return list(self.share.get_directory_client(directory).list_handles(recursive=True))

    def write(self, directory, name, content):
        self.file(directory, name).upload_file(content, metadata={"of": "old"}, content_settings=client.ContentSettings(content_type="a/b"))

    def write_range(self, directory, name, content, first):
        self.file(directory, name).upload_range(content, first, len(content))

    def ranges(self, directory, name):
        return [(one["start"], one["end"]) for one in self.file(directory, name).get_ranges()]

    def read(self, directory, name, snapshot=None):
        return self.file(directory, name, snapshot).download_file().readall()

    def about_file(self, directory, name):
        seen = self.file(directory, name).get_file_properties()
        return seen.size, seen.content_settings.content_type, seen.metadata

    def change_file(self, directory, name, size, metadata):
        file = self.file(directory, name)
        file.resize_file(size)
        file.set_file_metadata(metadata)
        file.set_http_headers(client.ContentSettings(content_type="c/d"))

    def copy(self, directory, name, source):
        return self.file(directory, name).start_copy_from_url(f"{ENDPOINT}/{SHARE}/{source}")["copy_status"]

    def remove(self, directory, name):
        self.file(directory, name).delete_file()

    @staticmethod
    def account_token(permission, **more):
        return client.generate_account_sas(ACCOUNT, KEY, "sco", permission, **more)

    @staticmethod
    def share_token(**more):
        return client.generate_share_sas(ACCOUNT, SHARE, KEY, **more)

    @staticmethod
    def file_token(directory, name, **more):
        return client.generate_file_sas(ACCOUNT, SHARE, [directory, name], KEY, **more)


class Two:
    """2.1.0: one object for everything, and other words."""

    def __init__(self, credential):
        who = f"AccountKey={KEY}" if credential == KEY else f"SharedAccessSignature={credential}"
        self.service = client.FileService(connection_string=f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};{who};FileEndpoint={ENDPOINT}")
        self.service.retry = lambda context: None

    def create_share(self, **how):
        self.service.create_share(SHARE, fail_on_exist=True, **how)

    def shares(self):
        return [one.name for one in self.service.list_shares(include_metadata=True)]

    def about_share(self, snapshot=None):
        seen = self.service.get_share_properties(SHARE, snapshot=snapshot)
        assert self.service.get_share_metadata(SHARE, snapshot=snapshot) == seen.metadata
        return seen.properties.quota, seen.metadata

    def change_share(self, quota, metadata):
        self.service.set_share_properties(SHARE, quota)
        self.service.set_share_metadata(SHARE, metadata)

    def used_bytes(self):
        return self.service.get_share_stats_in_bytes(SHARE)

    def allow(self, policy, permission):
        from azure.storage.common import AccessPolicy
        self.service.set_share_acl(SHARE, {policy: AccessPolicy(permission, NOW + HOUR, NOW - HOUR)})
        return list(self.service.get_share_acl(SHARE))

    def snapshot(self):
        return self.service.snapshot_share(SHARE).snapshot

    def delete_share(self, with_snapshots=False):
        how = dict(delete_snapshots=client.models.DeleteSnapshot.Include) if with_snapshots else {}
        self.service.delete_share(SHARE, fail_not_exist=True, **how)

    def make_directory(self, path):
        self.service.create_directory(SHARE, path, fail_on_exist=True)
        self.service.set_directory_metadata(SHARE, path, {"a": "1"})
        self.service.set_directory_properties(SHARE, path, smb_properties=client.models.SMBProperties(ntfs_attributes="Hidden"))
        seen = self.service.get_directory_properties(SHARE, path).metadata
        assert self.service.get_directory_metadata(SHARE, path) == seen
        return seen

    def remove_directory(self, path):
        self.service.delete_directory(SHARE, path, fail_not_exist=True)

    def list(self, directory="", snapshot=None):
        return [one.name for one in self.service.list_directories_and_files(SHARE, directory or None, snapshot=snapshot)]

    def handles(self, directory):
        return list(self.service.list_handles(SHARE, directory, recursive=True))

    def write(self, directory, name, content):
        self.service.create_file_from_bytes(
            SHARE, directory, name, content, metadata={"of": "old"}, content_settings=client.ContentSettings(content_type="a/b"))

    def write_range(self, directory, name, content, first):
        self.service.update_range(SHARE, directory, name, content, first, first + len(content) - 1)

    def clear(self, directory, name, first, count):
        self.service.clear_range(SHARE, directory, name, first, first + count - 1)

    def ranges(self, directory, name):
        return [(one.start, one.end) for one in self.service.list_ranges(SHARE, directory, name)]

    def read(self, directory, name, snapshot=None):
        return self.service.get_file_to_bytes(SHARE, directory, name, snapshot=snapshot).content

    def about_file(self, directory, name):
        seen = self.service.get_file_properties(SHARE, directory, name)
        assert self.service.get_file_metadata(SHARE, directory, name) == seen.metadata
        return seen.properties.content_length, seen.properties.content_settings.content_type, seen.metadata

    def change_file(self, directory, name, size, metadata):
        self.service.resize_file(SHARE, directory, name, size)
        self.service.set_file_metadata(SHARE, directory, name, metadata)
        self.service.set_file_properties(SHARE, directory, name, client.ContentSettings(content_type="c/d"))

    def copy(self, directory, name, source):
        return self.service.copy_file(SHARE, directory, name, f"{ENDPOINT}/{SHARE}/{source}").status

    def remove(self, directory, name):
        self.service.delete_file(SHARE, directory, name)

    @staticmethod
    def account_token(permission, **more):
        from azure.storage.common import AccountPermissions, ResourceTypes
        return Two(KEY).service.generate_account_shared_access_signature(ResourceTypes(_str="sco"), AccountPermissions(_str=permission), **more)

    @staticmethod
    def words(permission=None, policy_id=None, **more):
        return dict(permission=client.SharePermissions(_str=permission) if permission else None, id=policy_id, **more)

    @staticmethod
    def share_token(**more):
        return Two(KEY).service.generate_share_shared_access_signature(SHARE, **Two.words(**more))

    @staticmethod
    def file_token(directory, name, **more):
        return Two(KEY).service.generate_file_shared_access_signature(SHARE, directory, name, **Two.words(**more))


Release = Twelve if VERSION.startswith("12.") else Two


def refused(status, act, *arguments, **more):
    try:
        act(*arguments, **more)
    except AssertionError:
        raise
    except Exception as error:
        assert getattr(error, "status_code", None) == status, repr(error)
    else:
        raise AssertionError(f"{act.__name__} {arguments} was accepted")


def tokens():
    hour = dict(expiry=NOW + HOUR)
    reader = Release(Release.share_token(permission="r", **hour))
    assert reader.read("dir", "f 1") == b"content"
    refused(403, reader.write, "dir", "g", b"x")
    refused(403, reader.list, "dir")
    assert Release(Release.share_token(permission="l", **hour)).list("dir") == ["f 1"]
    writer = Release(Release.share_token(permission="wd", ip="127.0.0.1", protocol="https,http", start=NOW - HOUR, **hour))
    writer.write("dir", "g", b"x")
    writer.remove("dir", "g")
    of_file = Release(Release.file_token("dir", "f 1", permission="r", content_type="text/x-mine", **hour))
    assert of_file.read("dir", "f 1") == b"content" and of_file.about_file("dir", "f 1")[1] == "text/x-mine"
    refused(403, of_file.read, "dir", "other")
    refused(403, Release(Release.share_token(permission="r", expiry=NOW - HOUR)).read, "dir", "f 1")
    refused(403, Release(Release.share_token(permission="r", **hour).replace("sp=r", "sp=rw")).read, "dir", "f 1")
    everything = Release(Release.account_token("rwdlc", **hour))
    assert SHARE in everything.shares() and everything.read("dir", "f 1") == b"content"
    refused(403, Release(Release.account_token("wdlc", **hour)).read, "dir", "f 1")
    assert Release(KEY).allow("reader", "r") == ["reader"]
    for token in (Release.share_token(policy_id="reader"), Release.file_token("dir", "f 1", policy_id="reader")):
        assert Release(token).read("dir", "f 1") == b"content"
        refused(403, Release(token).write, "dir", "f 1", b"x")
    Release(KEY).allow("somebody", "r")
    refused(403, Release(Release.share_token(policy_id="reader")).read, "dir", "f 1")


def main():
    mine = Release(KEY)
    mine.create_share(quota=7, metadata={"hello": "world"})
    refused(409, mine.create_share)
    assert SHARE in mine.shares() and mine.about_share() == (7, {"hello": "world"})
    mine.change_share(8, {"b": "2"})
    assert mine.about_share() == (8, {"b": "2"})
    if Release is Twelve:  # the older form makes a text of the body and then will not send a text
        assert mine.permission(SDDL).startswith(SDDL)

    assert mine.make_directory("dir") == {"a": "1"}
    refused(409, mine.make_directory, "dir")
    large = bytes(range(256)) * 20_000
    mine.write("dir", "large", large)
    assert mine.read("dir", "large") == large and mine.about_file("dir", "large") == (len(large), "a/b", {"of": "old"})
    assert mine.used_bytes() == len(large)
    mine.write_range("dir", "large", b"x" * 512, 1024)
    assert mine.ranges("dir", "large") == [(0, len(large) - 1)]
    if Release is Two:
        mine.clear("dir", "large", 0, 512)
        assert mine.ranges("dir", "large") == [(512, len(large) - 1)]
    else:  # this one says "update" where it means "clear"
        mine.write_range("dir", "large", bytes(512), 0)
    assert mine.read("dir", "large") == bytes(512) + large[512:1024] + b"x" * 512 + large[1536:]
    mine.change_file("dir", "large", 1024, {"c": "3"})
    assert mine.about_file("dir", "large") == (1024, "c/d", {"c": "3"})
    assert mine.copy("dir", "copy", "dir/large") == "success" and mine.read("dir", "copy") == mine.read("dir", "large")
    mine.write("", "at the root", b"")
    assert mine.list() == ["dir", "at the root"] or mine.list() == ["at the root", "dir"]
    assert mine.read("", "at the root") == b"" and mine.handles("dir") == []

    taken = mine.snapshot()
    for name in ("large", "copy"):
        mine.remove("dir", name)
    assert mine.list("dir") == [] and mine.list("dir", taken) == ["copy", "large"]
    assert len(mine.read("dir", "large", taken)) == 1024 and mine.about_share(taken) == (8, {"b": "2"})
    refused(404, mine.read, "dir", "large")
    mine.write("dir", "f 1", b"content")
    tokens()
    refused(409, mine.remove_directory, "dir")
    mine.remove("dir", "f 1")
    mine.remove_directory("dir")
    refused(409, mine.delete_share)
    mine.delete_share(with_snapshots=True)
    refused(404, mine.about_share)
    print("done with", VERSION)


main()
