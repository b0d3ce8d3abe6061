"""Handles that outlive the server: a client comes back after kill -9 and finds what it had (MS-SMB2 3.3.5.9.12)."""

import struct
import uuid

import pytest
from azure.core.exceptions import HttpResponseError
from smbprotocol.create_contexts import CreateContextName
from smbprotocol.open import LockFlags, SMB2LockElement

import smb
from common import file_client
from conftest import run

PERSISTENT = 2
MILLISECONDS = 60_000


@pytest.fixture
def mortal():
    """A server of the test's own, to be killed."""
    with run() as server:
        yield server


@pytest.fixture
def work(mortal):
    """A share of it, as REST knows it."""
    with file_client(mortal.endpoint_of("file")) as shares:
        yield shares.create_share("work")


def persistent(create):
    wanted = struct.pack("<IIQ16s", MILLISECONDS, PERSISTENT, 0, create)
    return smb.context(CreateContextName.SMB2_CREATE_DURABLE_HANDLE_REQUEST_V2, wanted)


def again(handle_id, create):
    wanted = struct.pack("<16s16sI", handle_id, create, PERSISTENT)
    return smb.context(CreateContextName.SMB2_CREATE_DURABLE_HANDLE_RECONNECT_V2, wanted)


def test_found_again_after_a_restart(mortal):
    with file_client(mortal.endpoint_of("file")) as shares:
        share = shares.create_share("work")
        create = uuid.uuid4().bytes
        client = smb.Client(mortal.smb_port, "work")
        handle = client.open("f", disposition=smb.CREATE, contexts=[persistent(create)])
        handle.write(b"before", write_through=True)
        passing = client.open("gone", disposition=smb.CREATE)
        mortal.kill()
        mortal.start()
        # It keeps everybody off as long as its client may come back (F3); what was not promised is gone.
        with pytest.raises(HttpResponseError) as refused:
            share.get_file_client("f").download_file()
        assert refused.value.error_code == "SharingViolation"
        share.get_file_client("gone").delete_file()
        with smb.Client(mortal.smb_port, "work") as another:
            with smb.refused("SHARING_VIOLATION"):
                another.open("f", smb.READ, "RWD")
            with smb.refused("OBJECT_NAME_NOT_FOUND"):
                another.open("f", contexts=[again(handle.id, uuid.uuid4().bytes)])
            with smb.refused("OBJECT_NAME_NOT_FOUND"):
                another.open("gone", contexts=[again(passing.id, uuid.uuid4().bytes)])
            found = another.open("f", contexts=[again(handle.id, create)])
            assert found.read() == b"before"
            found.write(b"after!")
            found.close()
        assert share.get_file_client("f").download_file().readall() == b"after!"
        mortal.kill()
        mortal.start()
        # What was closed does not come back.
        assert share.get_file_client("f").download_file().readall() == b"after!"


def test_closed_by_force(mortal, work):
    """It stays closed, although its client never heard of it."""
    create, file = uuid.uuid4().bytes, work.get_file_client("f")
    handle = smb.Client(mortal.smb_port, "work").open("f", disposition=smb.CREATE, contexts=[persistent(create)])
    handle.write(b"x", write_through=True)
    assert file.close_all_handles()["closed_handles_count"] == 1
    mortal.kill()
    mortal.start()
    assert file.download_file().readall() == b"x"
    with smb.Client(mortal.smb_port, "work") as client, smb.refused("OBJECT_NAME_NOT_FOUND"):
        client.open("f", contexts=[again(handle.id, create)])


def test_in_a_share_that_was_deleted(mortal, work):
    """What has its name afterwards is another."""
    create = uuid.uuid4().bytes
    handle = smb.Client(mortal.smb_port, "work").open("f", disposition=smb.CREATE, contexts=[persistent(create)])
    work.delete_share()
    work.create_share()
    mortal.kill()
    mortal.start()
    with smb.Client(mortal.smb_port, "work") as client:
        with smb.refused("OBJECT_NAME_NOT_FOUND"):
            client.open("f", contexts=[again(handle.id, create)])
        client.make("f", b"new")


def test_what_was_given_back_stays_so(mortal, work):
    """Also by a request that was refused for what came after it (MS-SMB2 3.3.5.14.1)."""
    create = uuid.uuid4().bytes
    client = smb.Client(mortal.smb_port, "work")
    handle = client.open("f", share="RWD", disposition=smb.CREATE, contexts=[persistent(create)])
    handle.lock(0, 10)
    handle.lock(20, 10)
    unlock = []
    for offset, length in ((0, 10), (5, 5)):
        unlock.append(SMB2LockElement())
        unlock[-1]["offset"], unlock[-1]["length"], unlock[-1]["flags"] = offset, length, LockFlags.SMB2_LOCKFLAG_UNLOCK
    with smb.refused("RANGE_NOT_LOCKED"):
        client.ask(handle.open.lock(unlock, send=False)[0])
    mortal.kill()
    mortal.start()
    with smb.Client(mortal.smb_port, "work") as another, another.open("f", share="RWD") as file:
        file.lock(0, 10)
        with smb.refused("LOCK_NOT_GRANTED"):
            file.lock(20, 10)
