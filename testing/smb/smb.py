"""An SMB client for tests: smbprotocol, and what it leaves out (oplock and lease breaks, some information classes).

A `Client` is a connection of its own with one session and one share. Its handles are `Handle`s; whatever the server
refuses is a `Refused` with the name of the status.
"""

import queue
import struct
import threading
import time
import uuid
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

from smbprotocol.connection import Connection, Dialects
from smbprotocol.create_contexts import CreateContextName, SMB2CreateContextRequest
from smbprotocol.exceptions import SMBConnectionClosed, SMBResponseException
from smbprotocol.header import Commands
from smbprotocol.open import (
    CreateOptions, ImpersonationLevel, LockFlags, Open, SMB2LockElement, SMB2QueryInfoRequest, SMB2QueryInfoResponse,
    SMB2SetInfoRequest)
from smbprotocol.ioctl import SMB2IOCTLRequest, SMB2IOCTLResponse
from smbprotocol.session import Session
from smbprotocol.tree import TreeConnect

from server import ACCOUNT, KEY

SECONDS_MAX = 60

DIALECTS = {"2.1": Dialects.SMB_2_1_0, "3.0": Dialects.SMB_3_0_0, "3.0.2": Dialects.SMB_3_0_2, "3.1.1": Dialects.SMB_3_1_1}

# MS-ERREF 2.3.1, as far as tests speak of them.
STATUSES = {
    0xC000000D: "INVALID_PARAMETER", 0xC000000F: "NO_SUCH_FILE", 0xC0000011: "END_OF_FILE", 0xC0000022: "ACCESS_DENIED",
    0xC0000033: "OBJECT_NAME_INVALID", 0xC0000034: "OBJECT_NAME_NOT_FOUND", 0xC0000035: "OBJECT_NAME_COLLISION",
    0xC000003A: "OBJECT_PATH_NOT_FOUND", 0xC0000043: "SHARING_VIOLATION", 0xC0000054: "FILE_LOCK_CONFLICT",
    0xC0000055: "LOCK_NOT_GRANTED", 0xC0000056: "DELETE_PENDING", 0xC000006D: "LOGON_FAILURE", 0xC000007E: "RANGE_NOT_LOCKED",
    0xC000007F: "DISK_FULL", 0xC00000A2: "MEDIA_WRITE_PROTECTED", 0xC00000BB: "NOT_SUPPORTED", 0xC00000C9: "NETWORK_NAME_DELETED",
    0xC00000CC: "BAD_NETWORK_NAME", 0xC0000101: "DIRECTORY_NOT_EMPTY", 0xC0000120: "CANCELLED", 0xC0000121: "CANNOT_DELETE",
    0xC0000128: "FILE_CLOSED", 0x80000006: "NO_MORE_FILES", 0x80000005: "BUFFER_OVERFLOW", 0xC0000003: "INVALID_INFO_CLASS",
    0xC0000004: "INFO_LENGTH_MISMATCH", 0xC0000010: "INVALID_DEVICE_REQUEST", 0xC000001F: "INVALID_VIEW_SIZE", 0xC0000023: "BUFFER_TOO_SMALL",
    0xC000004F: "EAS_NOT_SUPPORTED", 0xC0000225: "NOT_FOUND", 0xC000009A: "INSUFFICIENT_RESOURCES", 0xC00000E5: "INTERNAL_ERROR",
}

# Rights (MS-SMB2 2.2.13.1).
READ_DATA, WRITE_DATA, APPEND_DATA = 0x1, 0x2, 0x4
READ_ATTRIBUTES, WRITE_ATTRIBUTES = 0x80, 0x100
DELETE, READ_CONTROL, WRITE_DAC, WRITE_OWNER = 0x10000, 0x20000, 0x40000, 0x80000
READ, WRITE = READ_DATA | READ_ATTRIBUTES | READ_CONTROL, WRITE_DATA | APPEND_DATA | WRITE_ATTRIBUTES
EVERYTHING = READ | WRITE | DELETE | WRITE_DAC | WRITE_OWNER

# What others may do meanwhile, by its letters.
SHARE = {"R": 1, "W": 2, "D": 4}

OPEN, CREATE, OPEN_IF, OVERWRITE, OVERWRITE_IF = 1, 2, 3, 4, 5
WRITE_THROUGH, DELETE_ON_CLOSE = CreateOptions.FILE_WRITE_THROUGH, CreateOptions.FILE_DELETE_ON_CLOSE

# Information classes of files and of file systems (MS-FSCC 2.4, 2.5).
BASIC, STANDARD, INTERNAL, RENAME, DISPOSITION, ALLOCATION, END_OF_FILE, DIRECTORY_NAMES = 4, 5, 6, 10, 13, 19, 20, 12
FILE, FILE_SYSTEM, SECURITY = 1, 2, 3
FULL_SIZE = 7

FSCTL_SRV_ENUMERATE_SNAPSHOTS = 0x00144064

# Levels of oplocks, and rights of leases by their letters (MS-SMB2 2.2.13, 2.2.13.2.8).
OPLOCKS = {"": 0, "II": 1, "exclusive": 8, "batch": 9}
BY_LEASE = 0xFF
CACHING = {"R": 1, "H": 2, "W": 4}


# The server is there no more, or not yet; what was sent may or may not have happened.
GONE = (SMBConnectionClosed, OSError)


class Refused(Exception):
    """What the server did not do, and why; and what it said besides."""

    def __init__(self, status, data=b""):
        super().__init__(status)
        self.status, self.data = status, data


class refused:
    """`with smb.refused("SHARING_VIOLATION"):` - the block must fail with this status."""

    def __init__(self, status):
        self.status = status

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        assert error is not None, f"was done; {self.status} was expected"
        if not isinstance(error, Refused):
            return False
        assert error.status == self.status, f"{error.status}, expected {self.status}"
        return True


def letters(rights):
    return "".join(letter for letter in "RWH" if rights & CACHING[letter])


def bits(of, table):
    return sum(table[letter] for letter in of)


def filetime(moment):
    """A time as 100 ns since 1601."""
    return (moment - datetime(1601, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1) * 10


class Raw:
    """A message whose bytes are known; smbprotocol has no structure for it."""

    def __init__(self, command, data=b""):
        self.COMMAND, self.data = command, data

    def pack(self):
        return self.data

    def __len__(self):
        return len(self.data)


class Break:
    """The server takes back what a client may keep of a file: `key` and, by letters, what it was and what is left.

    Of an oplock only the level that is left is told.
    """

    def __init__(self, data):
        if struct.unpack_from("<H", data)[0] == 44:
            _, self.epoch, flags, self.key, was, left = struct.unpack_from("<HHI16sII", data)
            self.was, self.left, self.is_to_be_acknowledged = letters(was), letters(left), flags & 1 != 0
        else:
            _, self.left, _, _, self.key = struct.unpack_from("<HBBI16s", data)
            self.was, self.is_to_be_acknowledged = None, True

    def __repr__(self):
        return f"{self.was} -> {self.left}{', to be acknowledged' if self.is_to_be_acknowledged else ''}"


class _Breaks:
    """Takes the place of the request that nobody made: smbprotocol looks for one for each message that comes."""

    def __init__(self):
        self.heard = queue.Queue()
        self.session_id = self.async_id = None
        self.response_event, self.response_event_lock = threading.Event(), threading.Lock()
        self.message = {"reserved": SimpleNamespace(get_value=lambda: 0)}

    @property
    def response(self):
        return None

    @response.setter
    def response(self, header):
        self.heard.put(Break(header["data"].get_value()))


class _Outstanding(dict):
    """Requests by id; messages of the server's own have the id of none."""

    def __init__(self):
        super().__init__()
        self.breaks = _Breaks()

    def __missing__(self, message_id):
        if message_id != 0xFFFF_FFFF_FFFF_FFFF:
            raise KeyError(message_id)
        return self.breaks


class Client:
    def __init__(self, port, share, account=ACCOUNT, key=KEY, dialect=None, encrypts=None, ciphers=None, guid=None):
        self.connection = Connection(guid or uuid.uuid4(), "127.0.0.1", port)
        self.connection.outstanding_requests = _Outstanding()
        self.connection.connect(dialect=DIALECTS.get(dialect), timeout=SECONDS_MAX, preferred_encryption_algos=ciphers)
        if encrypts is None:
            encrypts = self.connection.dialect >= Dialects.SMB_3_0_0
        try:
            self.session = Session(self.connection, account, key, require_encryption=encrypts, auth_protocol="ntlm")
            self._asked(self.session.connect)
            self.tree = TreeConnect(self.session, rf"\\127.0.0.1\{share}")
            self._asked(self.tree.connect)
        except Exception:
            self.drop()
            raise

    @staticmethod
    def _asked(act, *arguments, **named):
        try:
            return act(*arguments, **named)
        except SMBResponseException as error:
            status = STATUSES.get(error.status, f"{error.status:#x}")
            raise Refused(status, error.header["data"].get_value()) from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.drop()

    def drop(self):
        """The connection goes without a word."""
        self.connection.disconnect(close=False)

    def open(self, path, access=READ | WRITE, share="", disposition=OPEN, options=0, lease=None, oplock="", attributes=0,
             contexts=(), key=None):
        """`share` by letters of R, W, D; `lease` by letters of R, W, H, under a key of its own unless one is given."""
        one = Open(self.tree, path.replace("/", "\\"))
        contexts, level = list(contexts), OPLOCKS[oplock]
        key = key or uuid.uuid4().bytes
        if lease is not None:
            level = BY_LEASE
            wanted = struct.pack("<16sIIQ", key, bits(lease, CACHING), 0, 0)
            contexts.append(context(CreateContextName.SMB2_CREATE_REQUEST_LEASE, wanted))
        if not options & CreateOptions.FILE_DIRECTORY_FILE:
            options |= CreateOptions.FILE_NON_DIRECTORY_FILE
        answered = self._asked(
            one.create, ImpersonationLevel.Impersonation, access, attributes, bits(share, SHARE), disposition, options,
            create_contexts=contexts, oplock_level=level)
        granted = [said for said in answered or [] if hasattr(said, "fields") and "lease_state" in said.fields]
        return Handle(self, one, key, letters(granted[0]["lease_state"].get_value()) if granted else None)

    def directory(self, path="", access=READ, share="RWD", disposition=OPEN, options=0, **more):
        return self.open(path, access, share, disposition, options | CreateOptions.FILE_DIRECTORY_FILE, **more)

    def make(self, path, content=b"", **how):
        """A file that holds this and is closed again."""
        with self.open(path, EVERYTHING, "RWD", OVERWRITE_IF, **how) as file:
            if content:
                file.write(content)

    def names(self, path=""):
        with self.directory(path) as directory:
            return directory.names()

    def heard(self, seconds=SECONDS_MAX):
        """The next break, or None if none comes in time."""
        try:
            return self.connection.outstanding_requests.breaks.heard.get(timeout=seconds)
        except queue.Empty:
            return None

    def acknowledge(self, told, keeps=None):
        """Answers a break: it keeps what it was left, or less."""
        if told.was is None:
            data = struct.pack("<HBBI16s", 24, told.left if keeps is None else keeps, 0, 0, told.key)
        else:
            keeps = told.left if keeps is None else keeps
            data = struct.pack("<HHI16sIQ", 36, 0, 0, told.key, bits(keeps, CACHING), 0)
        self.ask(Raw(Commands.SMB2_OPLOCK_BREAK, data))

    def send(self, message):
        return self.connection.send(message, self.session.session_id, self.tree.tree_connect_id)

    def send_chain(self, messages):
        """Several in one frame, each with its own ids."""
        return self.connection.send_compound(messages, self.session.session_id, self.tree.tree_connect_id)

    def receive(self, request, seconds=SECONDS_MAX):
        return self._asked(self.connection.receive, request, timeout=seconds)["data"].get_value()

    def ask(self, message):
        return self.receive(self.send(message))

    def control(self, code, data=b"", bytes_max=1 << 16, file=b"\xff" * 16):
        """An IOCTL, of a file or of the server."""
        asked = SMB2IOCTLRequest()
        asked["ctl_code"].enum_strict = False
        asked["ctl_code"], asked["file_id"], asked["buffer"] = code, file, data
        asked["max_output_response"], asked["flags"] = bytes_max, 1
        return control_answer(self.ask(asked))


class Handle:
    def __init__(self, client, one, key, caching):
        self.client, self.open, self.key, self.caching = client, one, key, caching
        self.id = one.file_id

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # The server may have closed it, or be gone.
        if self.open.connected and self.client.connection.transport.connected:
            try:
                self.close()
            except Refused:
                pass

    def close(self):
        return Client._asked(self.open.close)

    def read(self, offset=0, length=1 << 16):
        return Client._asked(self.open.read, offset, length)

    def write(self, content, offset=0, **how):
        return Client._asked(self.open.write, content, offset, **how)

    def flush(self):
        return Client._asked(self.open.flush)

    def query(self, what, kind=FILE, additional=0, bytes_max=1 << 16):
        asked = SMB2QueryInfoRequest()
        asked["file_info_class"].enum_strict = False
        asked["info_type"], asked["file_info_class"], asked["additional_information"] = kind, what, additional
        asked["output_buffer_length"], asked["file_id"] = bytes_max, self.id
        answer = SMB2QueryInfoResponse()
        answer.unpack(self.client.ask(asked))
        return answer["buffer"].get_value()

    def set(self, what, data, kind=FILE, additional=0):
        asked = SMB2SetInfoRequest()
        asked["file_info_class"].enum_strict = False
        asked["info_type"], asked["file_info_class"], asked["additional_information"] = kind, what, additional
        asked["file_id"], asked["buffer"] = self.id, data
        self.client.ask(asked)

    def basic(self):
        """Times as numbers, attributes as bits."""
        created, accessed, written, changed, attributes, _ = struct.unpack("<QQQQII", self.query(BASIC))
        return SimpleNamespace(created=created, accessed=accessed, written=written, changed=changed, attributes=attributes)

    def set_basic(self, created=0, accessed=0, written=0, changed=0, attributes=0):
        self.set(BASIC, struct.pack("<QQQQII", created, accessed, written, changed, attributes, 0))

    def standard(self):
        allocated, size, links, is_delete_pending, is_directory, _ = struct.unpack("<QQIBBH", self.query(STANDARD))
        return SimpleNamespace(allocated=allocated, bytes=size, links=links, is_delete_pending=bool(is_delete_pending),
                               is_directory=bool(is_directory))

    def file_id(self):
        return struct.unpack("<Q", self.query(INTERNAL))[0]

    def resize(self, length):
        self.set(END_OF_FILE, struct.pack("<Q", length))

    def mark_for_deletion(self, is_wanted=True):
        self.set(DISPOSITION, bytes([is_wanted]))

    def rename(self, to, replaces=False):
        name = to.replace("/", "\\").encode("utf-16-le")
        self.set(RENAME, struct.pack("<B7xQI", replaces, 0, len(name)) + name)

    def security(self, parts):
        """The security descriptor's bytes, of these parts."""
        return self.query(0, SECURITY, parts)

    def set_security(self, descriptor, parts):
        self.set(0, descriptor, SECURITY, parts)

    def names(self, pattern="*"):
        found = []
        try:
            while True:
                for entry in Client._asked(self.open.query_directory, pattern, DIRECTORY_NAMES):
                    found.append(entry["file_name"].get_value().decode("utf-16-le"))
        except Refused as error:
            if error.status not in ("NO_MORE_FILES", "NO_SUCH_FILE"):
                raise
        return sorted(name for name in found if name not in (".", ".."))

    def lock(self, offset=0, length=1, exclusive=True, waits=False):
        """Waits for the lock itself if it is to; `lock_later` does not."""
        self.client.ask(self._locking(offset, length, exclusive, waits))

    def lock_later(self, offset=0, length=1, exclusive=True):
        """Asks for a lock that may have to wait; returns the request."""
        return self.client.send(self._locking(offset, length, exclusive, True))

    def _locking(self, offset, length, exclusive, waits):
        flags = LockFlags.SMB2_LOCKFLAG_EXCLUSIVE_LOCK if exclusive else LockFlags.SMB2_LOCKFLAG_SHARED_LOCK
        return self._lock_message(offset, length, flags | (0 if waits else LockFlags.SMB2_LOCKFLAG_FAIL_IMMEDIATELY))

    def unlock(self, offset=0, length=1):
        self.client.ask(self._lock_message(offset, length, LockFlags.SMB2_LOCKFLAG_UNLOCK))

    def _lock_message(self, offset, length, flags):
        element = SMB2LockElement()
        element["offset"], element["length"], element["flags"] = offset, length, flags
        return self.open.lock([element], send=False)[0]

    def control(self, code, data=b"", bytes_max=1 << 16):
        """An IOCTL: what it answers."""
        return self.client.control(code, data, bytes_max, self.id)

    def snapshots(self):
        """The names of previous versions."""
        told = self.control(FSCTL_SRV_ENUMERATE_SNAPSHOTS)
        count, returned, size = struct.unpack_from("<III", told)
        names = told[12:12 + size].decode("utf-16-le").split("\0")
        names = [name for name in names if name]
        assert count == returned == len(names)
        return names


def control_answer(data):
    answer = SMB2IOCTLResponse()
    answer.unpack(data)
    return answer["buffer"].get_value()


def context(name, data):
    one = SMB2CreateContextRequest()
    one["buffer_name"], one["buffer_data"] = name, data
    return one


def is_pending(request, seconds=SECONDS_MAX):
    """Waits for the interim answer; whether there was one and not a final one."""
    assert request.response_event.wait(seconds), "no answer"
    return request.response["status"].get_value() == 0x103


def eventually(act):
    """Until it is done, or true: for what follows a connection that went without a word."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            if act() is not False:
                return
            left = "it is not so"
        except Refused as error:
            left = error.status
        assert time.monotonic() < deadline, left
        time.sleep(0.02)
