"""F1: the same files over both protocols. What one writes the other reads: content, sizes, attributes, times, permissions."""

import struct
import time
from datetime import datetime, timezone

import pytest
from azure.storage.fileshare import ContentSettings

import smb

READ_ONLY, HIDDEN, SYSTEM, ARCHIVE, NORMAL = 0x1, 0x2, 0x4, 0x20, 0x80
OWNER, GROUP, DACL = 1, 2, 4
WHEN = [datetime(1999, 12, 31, 23, 59, 59, 123456, timezone.utc), datetime(2030, 2, 28, 1, 2, 3, 7, timezone.utc),
        datetime(2024, 6, 1, tzinfo=timezone.utc)]
SDDL = "O:S-1-5-21-1-2-3-500G:S-1-5-21-1-2-3-513D:(A;;FA;;;S-1-5-21-1-2-3-1001)(D;;0x2;;;WD)"


def ticks(moment):
    """As REST writes a time: seven digits, so that nothing is lost."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06}0Z"


def test_content(share, client):
    file = share.get_file_client("f")
    client.make("f", b"by SMB.")
    assert file.download_file().readall() == b"by SMB."
    with client.open("f", share="RWD") as handle:
        file.upload_range(b"REST", offset=3, length=4)
        assert handle.read() == b"by REST" and handle.standard().bytes == 7
        handle.write(b"both", 3)
        assert file.download_file().readall() == b"by both"
        file.resize_file(2)
        assert handle.read() == b"by"
        handle.resize(4)
        assert file.get_file_properties().size == 4
    share.get_file_client("g").upload_file(b"whole")
    with client.open("G", smb.READ) as handle:
        assert handle.read() == b"whole"
    assert client.names() == ["f", "g"]


def test_what_only_rest_knows_stays(share, client):
    """Content settings and metadata are REST's; SMB writes leave them, and move the ETag."""
    file = share.get_file_client("f")
    file.create_file(4, content_settings=ContentSettings(content_type="text/x"), metadata={"a": "b"})
    before = file.get_file_properties()
    with client.open("f") as handle:
        handle.write(b"abcd")
    after = file.get_file_properties()
    assert after.content_settings.content_type == "text/x" and after.metadata == {"a": "b"}
    assert after.etag != before.etag
    with client.open("f") as handle:
        handle.set_basic(attributes=HIDDEN)
    assert file.get_file_properties().etag != after.etag


def test_ids_and_names(share, client):
    client.directory("D", disposition=smb.CREATE).close()
    client.make("D/f")
    with client.open("d/F", smb.READ) as handle:
        assert str(handle.file_id()) == share.get_file_client("d/f").get_file_properties().file_id
    assert [entry["name"] for entry in share.list_directories_and_files("d")] == ["f"]


def test_attributes_and_times_from_rest(share, client):
    created, written, changed = WHEN
    share.get_file_client("f").create_file(
        7, file_attributes="ReadOnly|Hidden|System|Archive", file_creation_time=ticks(created), file_last_write_time=ticks(written),
        file_change_time=ticks(changed))
    with client.open("f", smb.READ) as handle:
        basic = handle.basic()
        assert basic.attributes == READ_ONLY | HIDDEN | SYSTEM | ARCHIVE
        assert [basic.created, basic.written, basic.changed] == [smb.filetime(one) for one in WHEN]
        assert handle.standard().bytes == 7
    with smb.refused("ACCESS_DENIED"):
        client.open("f", smb.WRITE)
    share.get_file_client("f").set_http_headers(ContentSettings(), file_attributes="None")
    with client.open("f", smb.WRITE | smb.READ) as handle:
        assert handle.basic().attributes == NORMAL
    share.create_directory("d", file_attributes="Hidden|Directory", file_creation_time=ticks(created))
    with client.directory("d") as handle:
        assert handle.basic().attributes == HIDDEN | 0x10 and handle.basic().created == smb.filetime(created)


def test_attributes_and_times_from_smb(share, client, refused):
    created, written, changed = WHEN
    client.make("f", b"x")
    file = share.get_file_client("f")
    with client.open("f") as handle:
        handle.set_basic(smb.filetime(created), 0, smb.filetime(written), smb.filetime(changed), READ_ONLY | ARCHIVE)
    seen = file.get_file_properties()
    assert [seen.creation_time, seen.last_write_time, seen.change_time] == WHEN
    assert set(seen.file_attributes.split(" | ")) == {"ReadOnly", "Archive"}
    with refused(409, "ReadOnlyAttribute"):
        file.upload_range(b"x", offset=0, length=1)
    # What is not named stays.
    with client.open("f", smb.READ | smb.WRITE_ATTRIBUTES) as handle:
        handle.set_basic(attributes=NORMAL)
    seen = file.get_file_properties()
    assert seen.file_attributes == "None" and seen.creation_time == created and seen.last_write_time == written
    file.upload_range(b"y", offset=0, length=1)


def test_the_time_of_the_last_write(share, client, connect):
    """Every write moves it, for everybody and at once; a time that a handle was given stays, as far as that handle goes."""
    file = share.get_file_client("f")
    with client.open("f", smb.EVERYTHING, "RWD", smb.CREATE) as one, connect().open("f", smb.EVERYTHING, "RWD") as other:
        def written():
            seen = {handle.basic().written for handle in (one, other)}
            assert len(seen) == 1
            # REST's client knows a tenth less of it.
            assert smb.filetime(file.get_file_properties().last_write_time) // 10 == min(seen) // 10
            return seen.pop()

        def moves(act):
            before = written()
            time.sleep(0.002)
            act()
            return written() > before

        assert moves(lambda: one.write(b"x")) and moves(lambda: one.write(b"x")) and moves(lambda: other.write(b"y"))
        assert not moves(one.flush) and not moves(lambda: one.set_basic(created=smb.filetime(WHEN[0])))
        # A size that is set is written, even if it is the same; room that is only asked for is not, unless it cuts.
        assert moves(lambda: one.resize(1)) and moves(lambda: one.resize(5000))
        assert not moves(lambda: one.set(smb.ALLOCATION, struct.pack("<Q", 1 << 20)))
        assert moves(lambda: one.set(smb.ALLOCATION, struct.pack("<Q", 0)))
        sticky = smb.filetime(WHEN[1])
        one.set_basic(written=sticky)
        for act in (lambda: one.write(b"z"), lambda: one.resize(7), lambda: one.resize(7)):
            act()
            assert written() == sticky
        other.write(b"z")
        latest = written()
        assert latest != sticky
        one.write(b"z")
        one.close()
        assert other.basic().written == latest


def descriptor_of(client, path, parts=OWNER | GROUP | DACL):
    with client.open(path, smb.READ, "RWD") as handle:
        return handle.security(parts)


def test_permissions(share, client):
    """A security descriptor that REST was given is read over SMB, and the other way around."""
    one, other = share.get_file_client("one"), share.get_file_client("other")
    one.create_file(0, file_permission=SDDL)
    other.create_file(0)
    assert descriptor_of(client, "one") != descriptor_of(client, "other")
    descriptor = descriptor_of(client, "one")
    # A self-relative one: revision 1, and the first trustee's entry has all rights (MS-DTYP 2.4.6).
    assert descriptor[0] == 1 and struct.unpack_from("<H", descriptor, 2)[0] & 0x8004 == 0x8004
    with client.open("other", smb.EVERYTHING, "RWD") as handle:
        handle.set_security(descriptor, OWNER | GROUP | DACL)
    key = other.get_file_properties().permission_key
    assert share.get_permission_for_share(key) == share.get_permission_for_share(one.get_file_properties().permission_key)
    assert share.get_permission_for_share(key).startswith(SDDL[:SDDL.index("D:")])
    # Of parts only those.
    with client.open("one", smb.EVERYTHING, "RWD") as handle:
        handle.set_security(struct.pack("<BBHIIII", 1, 0, 0x8004, 0, 0, 0, 0), DACL)
    changed = share.get_permission_for_share(one.get_file_properties().permission_key)
    assert changed.startswith(SDDL[:SDDL.index("D:")]) and "S-1-5-21-1-2-3-1001" not in changed


def test_previous_versions(share, client):
    """Snapshots of the share are its previous versions."""
    client.directory("d", disposition=smb.CREATE).close()
    client.make("d/f", b"old")
    taken = share.create_snapshot()["snapshot"]
    client.make("d/f", b"new one")
    client.make("d/g", b"later")
    with client.directory() as root:
        tokens = root.snapshots()
    assert tokens == [f"@GMT-{taken[:10].replace('-', '.')}-{taken[11:19].replace(':', '.')}"]
    token = tokens[0]
    with client.open(f"{token}/d/f", smb.READ) as file:
        assert file.read() == b"old"
        with smb.refused("ACCESS_DENIED"):
            file.write(b"x")
    assert client.names(f"{token}/d") == ["f"]
    stamp = struct.pack("<Q", smb.filetime(datetime.strptime(token, "@GMT-%Y.%m.%d-%H.%M.%S").replace(tzinfo=timezone.utc)))
    with client.open("d/f", smb.READ, contexts=[smb.context(b"TWrp", stamp)]) as file:
        assert file.read() == b"old"
    for access, disposition in ((smb.WRITE, smb.OPEN), (smb.READ, smb.CREATE), (smb.DELETE, smb.OPEN)):
        with smb.refused("MEDIA_WRITE_PROTECTED"):
            client.open(f"{token}/d/{'h' if disposition == smb.CREATE else 'f'}", access, disposition=disposition)
    with smb.refused("OBJECT_NAME_NOT_FOUND"):
        client.open(f"{token}/d/g", smb.READ)
    with client.open("d/f", smb.READ) as file:
        assert file.read() == b"new one"
    with smb.refused("OBJECT_NAME_NOT_FOUND"):
        client.open("@GMT-2001.01.01-00.00.00/d/f", smb.READ)


GIB = 1 << 30


def test_a_share_that_is_full(share, client):
    share.set_share_quota(1)
    with client.open("f", smb.EVERYTHING, "RWD", smb.CREATE) as file:
        file.resize(GIB - 10)
        for act in (lambda: file.resize(GIB + 1), lambda: file.write(b"x" * 11, GIB - 10)):
            with smb.refused("DISK_FULL"):
                act()
        assert file.standard().bytes == GIB - 10
        file.write(b"x" * 10, GIB - 10)
        # Total, free to the caller, free, sectors in a unit, bytes in a sector.
        total, free, also_free, sectors, sector = struct.unpack("<QQQII", file.query(smb.FULL_SIZE, smb.FILE_SYSTEM))
        assert total * sectors * sector == GIB and free == also_free == 0
        file.resize(1)
    client.make("g", b"room again")


@pytest.mark.parametrize("again", [False, True])
def test_a_share_that_is_deleted(share, shares, client, connect, refused, again):
    """A handle is of the share that was; one of the same name that comes after is another."""
    file = client.open("f", smb.EVERYTHING, "RWD", smb.CREATE)
    file.write(b"x")
    share.delete_share()
    if again:
        # The name is free when what it was is gone.
        shares.create_share(share.share_name)
    for act in (lambda: file.read(), lambda: file.write(b"y"), lambda: file.flush(), lambda: client.open("f", smb.READ, "RWD")):
        with pytest.raises(smb.Refused) as told:
            act()
        assert told.value.status in ("NETWORK_NAME_DELETED", "FILE_CLOSED"), told.value.status
    if again:
        assert connect().names() == []
    else:
        with smb.refused("BAD_NETWORK_NAME"):
            connect()


def test_f5_rest_deletes_at_once(share, client, refused):
    """F5: what REST deletes is gone, and its name is free."""
    share.create_directory("d")
    file = share.get_file_client("d/f")
    file.create_file(3)
    file.delete_file()
    with smb.refused("OBJECT_NAME_NOT_FOUND"):
        client.open("d/f")
    client.make("d/f", b"x")
    with client.directory("d"), refused(409):
        share.delete_directory("d")
    file.delete_file()
    # Open as it is, the directory is in use.
    with client.directory("d"), refused(409, "CannotDeleteFileOrDirectory"):
        share.delete_directory("d")
    share.delete_directory("d")
    assert client.names() == []
