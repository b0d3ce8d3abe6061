"""IOCTLs: copies on the server, zeros, where something is written, what was negotiated; and those that are refused."""

import struct
import uuid

import pytest
from smbprotocol.ioctl import SMB2ValidateNegotiateInfoRequest
from smbprotocol.tree import TreeConnect

import smb

RESUME_KEY, COPY_CHUNK, COPY_CHUNK_WRITE = 0x00140078, 0x001440F2, 0x001480F2
ZERO_DATA, ALLOCATED_RANGES, VALIDATE_NEGOTIATE = 0x000980C8, 0x000940CF, 0x00140204
KEY_BYTES = 24


def key_of(handle):
    return handle.control(RESUME_KEY)[:KEY_BYTES]


def copy(key, target, *chunks, code=COPY_CHUNK):
    """(from, to, bytes) of each; how many were copied, how many bytes of one that was not, and how many bytes in all."""
    data = key + struct.pack("<II", len(chunks), 0) + b"".join(struct.pack("<QQII", *chunk, 0) for chunk in chunks)
    return struct.unpack("<III", target.control(code, data, 12))


@pytest.fixture
def both(client):
    """A file that is copied from, and one that is copied to."""
    client.make("from", bytes(range(256)) * 16)
    with client.open("from", smb.READ, "RWD") as source, client.open("to", smb.EVERYTHING, "RWD", smb.CREATE) as target:
        yield source, target


def test_copies(both, share, connect):
    source, target = both
    key = key_of(source)
    assert copy(key, target, (0, 0, 100), (4000, 100, 96), (256, 5000, 256)) == (3, 0, 452)
    content = bytes(range(256)) * 16
    expected = content[:100] + content[4000:4096]
    expected += bytes(5000 - len(expected)) + content[256:512]
    assert target.read() == expected
    assert share.get_file_client("to").download_file().readall() == expected
    # Within a file, and of nothing.
    assert copy(key_of(target), target, (0, 6000, 10)) == (1, 0, 10)
    assert copy(key, target) == (0, 0, 0)
    # What is only written need not be read.
    with connect().open("to", smb.WRITE, "RWD") as other, smb.refused("OBJECT_NAME_NOT_FOUND"):
        copy(key, other, (0, 0, 1), code=COPY_CHUNK_WRITE)
    with target.client.open("to", smb.WRITE, "RWD") as writing:
        with smb.refused("ACCESS_DENIED"):
            copy(key, writing, (0, 0, 1))
        assert copy(key, writing, (7, 0, 1), code=COPY_CHUNK_WRITE) == (1, 0, 1)
    assert target.read(0, 1) == b"\x07"


def test_copies_that_are_refused(both, connect):
    source, target = both
    key = key_of(source)
    with smb.refused("INVALID_VIEW_SIZE"):
        copy(key, target, (4000, 0, 97))
    with smb.refused("OBJECT_NAME_NOT_FOUND"):
        copy(bytes(KEY_BYTES), target, (0, 0, 1))
    with target.client.open("from", smb.WRITE, "RWD") as unread, smb.refused("ACCESS_DENIED"):
        copy(key_of(unread), target, (0, 0, 1))
    # What is too much is answered with what is not: chunks, bytes of each, bytes in all.
    for chunks in ([(0, 0, 1)] * 257, [(0, 0, (1 << 20) + 1)], [(0, 0, 1 << 20)] * 17, [(0, 0, 0)]):
        with pytest.raises(smb.Refused) as told:
            copy(key, target, *chunks)
        assert told.value.status == "INVALID_PARAMETER"
        assert struct.unpack("<III", smb.control_answer(told.value.data)) == (256, 1 << 20, 16 << 20)
    assert target.standard().bytes == 0
    # Locks of others hold for both sides.
    with connect().open("from", smb.READ | smb.WRITE, "RWD") as locking:
        locking.lock(10, 10)
        # However far it came, that is told.
        for chunks, expected in (([(0, 0, 11)], (0, 0, 0)), ([(0, 0, 5), (5, 5, 6)], (1, 0, 5))):
            with pytest.raises(smb.Refused) as told:
                copy(key, target, *chunks)
            assert told.value.status == "FILE_LOCK_CONFLICT"
            assert struct.unpack("<III", smb.control_answer(told.value.data)) == expected
        assert copy(key, target, (0, 0, 10)) == (1, 0, 10)


def ranges(handle, begin=0, length=1 << 30, bytes_max=1 << 16):
    told = handle.control(ALLOCATED_RANGES, struct.pack("<QQ", begin, length), bytes_max)
    return list(struct.iter_unpack("<QQ", told))


def zero(handle, begin, end):
    handle.control(ZERO_DATA, struct.pack("<QQ", begin, end))


def test_zeros_and_where_something_is_written(share, client):
    file = share.get_file_client("f")
    with client.open("f", smb.EVERYTHING, "RWD", smb.CREATE) as handle:
        handle.resize(100_000)
        assert ranges(handle) == []
        handle.write(b"a" * 1024, 0)
        handle.write(b"b" * 1024, 1024)
        handle.write(b"c" * 512, 65536)
        assert ranges(handle) == [(0, 2048), (65536, 512)]
        assert [(part.start, part.end + 1) for part in file.list_ranges()] == [(0, 2048), (65536, 66048)]
        assert ranges(handle, 1000, 100) == [(1000, 100)] and ranges(handle, 3000, 100) == [] == ranges(handle, 1 << 40, 5)
        # What does not fit is cut.
        with pytest.raises(smb.Refused) as told:
            ranges(handle, bytes_max=16)
        assert told.value.status == "BUFFER_OVERFLOW"
        assert smb.control_answer(told.value.data) == struct.pack("<QQ", 0, 2048)
        before = handle.basic()
        zero(handle, 512, 1536)
        assert handle.read(0, 2048) == b"a" * 512 + bytes(1024) + b"b" * 512
        assert ranges(handle) == [(0, 512), (1536, 512), (65536, 512)]
        assert handle.basic().written > before.written
        assert file.get_file_properties().last_write_time is not None
        # The file does not grow.
        zero(handle, 65536, 1 << 30)
        assert handle.standard().bytes == 100_000 and ranges(handle) == [(0, 512), (1536, 512)]
        zero(handle, 5, 5)
        with smb.refused("INVALID_PARAMETER"):
            zero(handle, 6, 5)
        # A time that was set by hand stays.
        handle.set_basic(written=before.written)
        zero(handle, 0, 1)
        assert handle.basic().written == before.written
        with client.open("f", smb.READ, "RWD") as reading, smb.refused("ACCESS_DENIED"):
            zero(reading, 0, 1)
        with client.open("f", smb.READ | smb.WRITE, "RWD") as locking:
            locking.lock(0, 10)
            with smb.refused("FILE_LOCK_CONFLICT"):
                zero(handle, 5, 6)


# As their numbers are, in the order of MS-FSCC 2.3: object ids, reparse points, compression, sparse files.
NOT_THERE = {"object id": 0x000900C0, "reparse point": 0x000900A8, "get compression": 0x0009003C, "set compression": 0x0009C040,
             "sparse": 0x000900C4, "volume": 0x00090064}


@pytest.mark.parametrize("what", NOT_THERE)
def test_what_azure_files_does_not_have(client, what):
    client.make("f", b"x")
    with client.open("f", smb.EVERYTHING, "RWD") as handle, smb.refused("INVALID_DEVICE_REQUEST"):
        handle.control(NOT_THERE[what])


def test_streams_and_extended_attributes(client):
    client.make("f", b"x")
    for name in ("f:stream", "f::$DATA:x", "f:"):
        with smb.refused("OBJECT_NAME_INVALID"):
            client.open(name, smb.READ, "RWD", smb.OPEN_IF)
    with client.open("f", smb.EVERYTHING | 0x10, "RWD") as handle, smb.refused("EAS_NOT_SUPPORTED"):
        handle.set(15, struct.pack("<IBBH", 0, 0, 1, 1) + b"a\0b")
    # A hard link: FileLinkInformation.
    with client.open("f", smb.EVERYTHING, "RWD") as handle, smb.refused("NOT_SUPPORTED"):
        handle.set(11, struct.pack("<B7xQI", 0, 0, 2) + "g".encode("utf-16-le"))


def test_no_list_of_shares(client):
    """There are no pipes: who asks for the server service hears so."""
    ipc = TreeConnect(client.session, r"\\127.0.0.1\IPC$")
    client._asked(ipc.connect)
    client.tree = ipc
    for pipe in ("srvsvc", "wkssvc", "lsarpc"):
        with pytest.raises(smb.Refused) as told:
            client.open(pipe, smb.READ | smb.WRITE, "RWD")
        assert told.value.status in ("ACCESS_DENIED", "OBJECT_NAME_NOT_FOUND", "NOT_SUPPORTED"), told.value.status


def said(client, guid=None, dialects=None):
    """What a client says it said when it negotiated (MS-SMB2 2.2.31.4)."""
    connection, one = client.connection, SMB2ValidateNegotiateInfoRequest()
    one["capabilities"], one["security_mode"] = connection.client_capabilities, connection.client_security_mode
    one["guid"], one["dialects"] = guid or connection.client_guid, dialects or connection.negotiated_dialects
    return one.pack()


@pytest.mark.parametrize("dialect", ["3.0", "3.0.2"])
def test_who_was_told_something_else(server, share, dialect):
    """Somebody on the way changed what the client said: the connection ends."""
    for wrong in (dict(guid=uuid.uuid4()), dict(dialects=[0x0302, 0x0311])):
        with smb.Client(server.smb_port, share.share_name, dialect=dialect) as client:
            told = client.control(VALIDATE_NEGOTIATE, said(client), 24)
            assert struct.unpack_from("<I16sHH", told)[3] == client.connection.dialect
            with pytest.raises((smb.Refused, *smb.GONE)):
                client.control(VALIDATE_NEGOTIATE, said(client, **wrong), 24)
                client.names()
