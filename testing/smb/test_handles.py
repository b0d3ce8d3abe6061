"""What REST sees and does of files that SMB clients have open: handles, and leases of both kinds of client."""

from datetime import datetime, timedelta, timezone

import struct

import pytest

import smb


def test_list_handles(share, client, connect):
    other = connect()
    client.directory("D", disposition=smb.CREATE).close()
    client.make("D/f", b"x")
    began = datetime.now(timezone.utc) - timedelta(seconds=2)
    with client.open("d/F", smb.READ, "RWD"), other.open("d/f", smb.WRITE | smb.DELETE, "RWD"), client.directory("d"):
        seen = {handle.id: handle for handle in share.get_file_client("D/f").list_handles()}
        assert len(seen) == 2
        reads, writes = sorted(seen.values(), key=lambda handle: handle.access_rights)
        if reads.access_rights != ["Read"]:
            reads, writes = writes, reads
        assert reads.access_rights == ["Read"] and sorted(writes.access_rights) == ["Delete", "Write"]
        file_id = share.get_file_client("D/f").get_file_properties().file_id
        for handle in seen.values():
            # As it is stored, however it was opened.
            assert handle.path == "D/f" and handle.file_id == file_id
            assert handle.client_ip.startswith("127.0.0.1")
            assert began <= handle.open_time.replace(tzinfo=timezone.utc) <= datetime.now(timezone.utc) + timedelta(seconds=2)
        assert reads.session_id != writes.session_id
        directory = share.get_directory_client("D")
        assert [handle.path for handle in directory.list_handles()] == ["D"]
        assert sorted(handle.path for handle in directory.list_handles(recursive=True)) == ["D", "D/f", "D/f"]
    assert list(share.get_directory_client().list_handles(recursive=True)) == []


@pytest.mark.parametrize("which", ["one", "all", "below"])
def test_force_close(share, client, which):
    client.directory("d", disposition=smb.CREATE).close()
    client.make("d/f", b"x")
    open_file = client.open("d/f", smb.READ | smb.WRITE, "")
    open_file.lock(0, 1)
    file = share.get_file_client("d/f")
    if which == "one":
        [handle] = file.list_handles()
        closed = file.close_handle(handle)
    elif which == "all":
        closed = file.close_all_handles()
    else:
        closed = share.get_directory_client().close_all_handles(recursive=True)
    assert closed["closed_handles_count"] == 1 and closed["failed_handles_count"] == 0
    for act in (lambda: open_file.read(), lambda: open_file.write(b"y"), lambda: open_file.standard(), lambda: open_file.unlock(0, 1)):
        with smb.refused("FILE_CLOSED"):
            act()
    # What it kept others from is free.
    assert file.download_file().readall() == b"x"
    file.upload_range(b"z", offset=0, length=1)
    with client.open("d/f", smb.READ, "") as again:
        assert again.read() == b"z"


def test_force_close_of_a_file_that_is_to_go(share, client, refused):
    """Its last handle was closed, whoever closed it."""
    client.make("f", b"x")
    client.open("f", smb.DELETE, "RWD").mark_for_deletion()
    [handle] = share.get_directory_client().list_handles(recursive=True)
    share.get_directory_client().close_all_handles(recursive=True)
    with refused(404, "ResourceNotFound"):
        share.get_file_client("f").get_file_properties()
    assert handle.path == "f"


def test_a_rest_lease_keeps_smb_writers_out(share, client):
    client.make("f", b"x")
    lease = share.get_file_client("f").acquire_lease()
    for access in (smb.WRITE_DATA, smb.APPEND_DATA, smb.DELETE):
        with smb.refused("SHARING_VIOLATION"):
            client.open("f", access, "RWD")
    with smb.refused("SHARING_VIOLATION"):
        client.open("f", smb.READ, "RWD", smb.OVERWRITE)
    with client.open("f", smb.READ, "RWD") as file:
        assert file.read() == b"x"
    # Attributes are opened beside it, and not changed.
    with client.open("f", smb.READ_ATTRIBUTES | smb.WRITE_ATTRIBUTES, "RWD") as file:
        with smb.refused("SHARING_VIOLATION"):
            file.set_basic(attributes=1)
        lease.release()
        file.set_basic(attributes=0x20)
    with client.open("f", smb.WRITE, "RWD") as file:
        file.write(b"y")


@pytest.mark.parametrize("access, is_writer", [(smb.READ, False), (smb.WRITE, True), (smb.DELETE, True), (smb.READ_ATTRIBUTES, False)])
def test_an_smb_writer_keeps_acquire_lease_out(share, client, refused, access, is_writer):
    client.make("f", b"x")
    file = share.get_file_client("f")
    with client.open("f", access, "RWD"):
        if is_writer:
            with refused(409, "SharingViolation"):
                file.acquire_lease()
        else:
            file.acquire_lease().release()
    file.acquire_lease().release()


def test_who_watches_a_directory_hears_of_its_closing(share, client):
    """STATUS_NOTIFY_CLEANUP, as if it had closed it itself."""
    with client.directory() as directory:
        watching = client.send(smb.Raw(15, struct.pack("<HHI16sII", 32, 0, 1 << 16, directory.id, 1, 0)))
        assert smb.is_pending(watching)
        assert share.get_directory_client().close_all_handles()["closed_handles_count"] == 1
        with smb.refused("0x10b"):
            client.receive(watching)
