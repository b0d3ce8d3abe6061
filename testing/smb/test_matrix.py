"""Every REST operation beside every way in which an SMB client can hold a file: its share mode, its locks, what it caches.

A cell is a real SMB connection and a real REST call on a file of its own. The tables are to be held against the service's
page on file locks: access and share modes (F3), byte-range locks (F6), opportunistic locks.
"""

import concurrent.futures
import itertools
import time
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.fileshare import ContentSettings, FileSasPermissions, generate_share_sas

import smb
from common import fresh_name
from server import ACCOUNT, KEY

BYTES = 1024
CONTENT = bytes(range(256)) * 4
# Long enough for a message on its way to be heard.
QUIET_SECONDS = 0.1

_numbers = itertools.count()


@pytest.fixture(scope="module")
def world(server, shares):
    """One share for all cells, and the client that holds files in it."""
    share = shares.create_share(fresh_name("matrix"))
    with smb.Client(server.smb_port, share.share_name) as client:
        yield World(share, client)
    share.delete_share()


class World:
    def __init__(self, share, client):
        self.share, self.client = share, client
        # A token for what the client library has no call for, and for sources of copies.
        self.token = generate_share_sas(ACCOUNT, share.share_name, KEY, permission=FileSasPermissions(read=True),
                                        expiry=datetime.now(timezone.utc) + timedelta(hours=2))

    def file(self, name=None):
        """A file that nobody has open."""
        name = name or f"f{next(_numbers)}"
        file = self.share.get_file_client(name)
        file.upload_file(CONTENT)
        return file

    def signed(self, file):
        return f"{file.url}?{self.token}"

    def metadata(self, file, **seconds):
        """Get File Metadata."""
        wait = "".join(f"&timeout={n}" for n in seconds.values())
        asked = urllib.request.Request(f"{self.signed(file)}&comp=metadata{wait}", headers={"x-ms-version": "2021-12-02"})
        try:
            urllib.request.urlopen(asked).close()
        except urllib.error.HTTPError as error:
            raise HttpResponseError(response=Told(error))


class Told:
    """An answer of urllib's as the client library would show it."""

    def __init__(self, error):
        self.status_code, self.reason, self.headers = error.code, error.reason, error.headers


# What REST does to the file that is held.
OPERATIONS = {
    "list": lambda world, file, **how: list(world.share.list_directories_and_files(name_starts_with=file.file_name, **how)),
    "list handles": lambda world, file, **how: list(file.list_handles(**how)),
    "get": lambda world, file, **how: file.download_file(**how).readall(),
    "get ranges": lambda world, file, **how: list(file.list_ranges(**how)),
    "get properties": lambda world, file, **how: file.get_file_properties(**how),
    "get metadata": lambda world, file, **how: world.metadata(file, **how),
    "copy from": lambda world, file, **how: world.share.get_file_client(f"c{next(_numbers)}").start_copy_from_url(file.url, **how),
    "put range": lambda world, file, **how: file.upload_range(b"put", 0, 3, **how),
    "clear range": lambda world, file, **how: file.clear_range(0, 512, **how),
    "put range from url": lambda world, file, **how: file.upload_range_from_url(world.signed(world.file()), 0, 3, 0, **how),
    "resize": lambda world, file, **how: file.resize_file(BYTES + 1, **how),
    "set properties": lambda world, file, **how: file.set_http_headers(ContentSettings(content_type="a/b"), **how),
    "set metadata": lambda world, file, **how: file.set_file_metadata({"a": "b"}, **how),
    "create": lambda world, file, **how: file.create_file(BYTES, **how),
    "copy to": lambda world, file, **how: file.start_copy_from_url(world.file().url, **how),
    "rename": lambda world, file, **how: file.rename_file(f"r{next(_numbers)}", **how),
    "rename to": lambda world, file, **how: world.file().rename_file(file.file_name, overwrite=True, **how),
    "delete": lambda world, file, **how: file.delete_file(**how),
}


def code_of(act):
    """What became of a call: nothing if it was done, or its error code."""
    try:
        act()
        return ""
    except HttpResponseError as error:
        code = getattr(error, "error_code", None) or error.response.headers["x-ms-error-code"]
        return f"{error.status_code} {getattr(code, 'value', code)}"


def cells(table, operations=OPERATIONS):
    """(operation, column, expected) of a table whose rows are lines of text and whose first line names the columns."""
    head, *rows = [line.split("|") for line in table.strip().splitlines()]
    columns, found = [column.strip() for column in head[1:]], []
    for row in rows:
        named, *answers = [part.strip() for part in row]
        assert named in operations and len(answers) == len(columns), named
        for column, expected in zip(columns, answers):
            found.append(pytest.param(named, column, expected, id=f"{named}-{column}"))
    return found


def covers_everything(table):
    return {line.split("|")[0].strip() for line in table.strip().splitlines()[1:]} == set(OPERATIONS)


# What a cell may be refused with. Of the source of a copy it is said as of any source.
REFUSALS = {"": "", "x": "409 SharingViolation", "l": "409 FileLockConflict", "c": "409 CannotVerifyCopySource"}

# By what the client lets others do.
SHARE_MODES = """
                   | - | R | W | D | RW | RD | WD | RWD
list               |   |   |   |   |    |    |    |
list handles       |   |   |   |   |    |    |    |
get                | x |   | x | x |    |    | x  |
get ranges         | x |   | x | x |    |    | x  |
get properties     |   |   |   |   |    |    |    |
get metadata       |   |   |   |   |    |    |    |
copy from          | c |   | c | c |    |    | c  |
put range          | x | x |   | x |    | x  |    |
clear range        | x | x |   | x |    | x  |    |
put range from url | x | x |   | x |    | x  |    |
resize             | x | x |   | x |    | x  |    |
set properties     | x | x |   | x |    | x  |    |
set metadata       | x | x |   | x |    | x  |    |
create             | x | x | x | x | x  | x  |    |
copy to            | x | x | x | x | x  | x  |    |
rename             | x | x | x |   | x  |    |    |
rename to          | x | x | x | x | x  | x  | x  | x
delete             | x | x | x | x | x  | x  | x  | x
"""


@pytest.mark.parametrize("operation, mode, expected", cells(SHARE_MODES))
def test_f3_share_modes(world, operation, mode, expected):
    """F3: a REST operation that an SMB open does not allow is refused; any handle at all stands in the way of deletion."""
    file = world.file()
    with world.client.open(file.file_name, smb.READ | smb.WRITE, mode.strip("-")):
        assert code_of(lambda: OPERATIONS[operation](world, file)) == REFUSALS[expected]
    if expected:
        assert code_of(lambda: OPERATIONS[operation](world, file)) == ""


@pytest.mark.parametrize("access", [smb.READ_DATA, smb.WRITE_DATA, smb.APPEND_DATA, smb.DELETE])
def test_f3_whatever_the_handle_is_for(world, access):
    """F3: REST shares everything, so what the SMB client does itself with the file makes no difference."""
    for mode, operation, expected in (("", "get", "409 SharingViolation"), ("R", "get", ""), ("R", "put range", "409 SharingViolation"),
                                      ("W", "put range", ""), ("RWD", "delete", "409 SharingViolation")):
        file = world.file()
        with world.client.open(file.file_name, access, mode):
            assert code_of(lambda: OPERATIONS[operation](world, file)) == expected


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name not in ("delete", "rename to")])
def test_f3_who_only_looks_at_attributes(world, operation):
    """F3: such a handle shares nothing and is in nobody's way."""
    file = world.file()
    with world.client.open(file.file_name, smb.READ_ATTRIBUTES, ""):
        assert code_of(lambda: OPERATIONS[operation](world, file)) == ""


# By what the client has locked: the first bytes, which the operations touch, or bytes far behind the end; shared or exclusively.
# What names no range means all there could be. A rename and a deletion are about the handle that has the lock.
LOCKS = """
                   | shared here | shared elsewhere | exclusive here | exclusive elsewhere
list               |             |                  |                |
list handles       |             |                  |                |
get                |             |                  | l              |
get ranges         |             |                  | l              | l
get properties     |             |                  |                |
get metadata       |             |                  |                |
copy from          |             |                  | c              | c
put range          | l           | l                | l              | l
clear range        | l           | l                | l              | l
put range from url | l           | l                | l              | l
resize             | l           | l                | l              | l
set properties     |             |                  |                |
set metadata       |             |                  |                |
create             | l           | l                | l              | l
copy to            | l           | l                | l              | l
rename             |             |                  |                |
rename to          | x           | x                | x              | x
delete             | x           | x                | x              | x
"""


@pytest.mark.parametrize("operation, lock, expected", cells(LOCKS))
def test_f6_locks(world, operation, lock, expected):
    """F6: byte-range locks taken over SMB hold against REST: a write is refused wherever the lock is."""
    kind, place = lock.split()
    file = world.file()
    with world.client.open(file.file_name, smb.READ | smb.WRITE, "RWD") as handle:
        handle.lock(0 if place == "here" else 1 << 40, 10, exclusive=kind == "exclusive")
        assert code_of(lambda: OPERATIONS[operation](world, file)) == REFUSALS[expected]
        if expected in ("l", "c"):
            handle.unlock(0 if place == "here" else 1 << 40, 10)
            assert code_of(lambda: OPERATIONS[operation](world, file)) == ""


# By the lease the client has. `>RH`: it is asked to keep no more than RH, and the operation waits for its answer; `RH`: it is told so
# and not awaited; `-` is nothing at all. `x`: 409 SharingViolation in the end, because the client keeps its handle.
CACHING = """
                   | RWH     | RH     | RW   | R
list               |         |        |      |
list handles       |         |        |      |
get                | >RH     |        | >R   |
get ranges         | >RH     |        | >R   |
get properties     | >RH     |        | >R   |
get metadata       | >RH     |        | >R   |
copy from          | >RH     |        | >R   |
put range          | >-      | -      | >-   | -
clear range        | >-      | -      | >-   | -
put range from url | >-      | -      | >-   | -
resize             | >-      | -      | >-   | -
set properties     | >-      | -      | >-   | -
set metadata       | >-      | -      | >-   | -
create             | >-      | >-     | >-   | -
copy to            | >-      | >-     | >-   | -
rename             | >RW     | >R     |      |
rename to          | >RW x   | >R x   | x    | x
delete             | >RW x   | >R x   | x    | x
"""


@pytest.fixture(scope="module")
def pool():
    with concurrent.futures.ThreadPoolExecutor(2) as one:
        yield one


def is_waiting(running):
    return not concurrent.futures.wait([running], QUIET_SECONDS).done


@pytest.mark.parametrize("operation, lease, expected", cells(CACHING))
def test_leases(world, pool, operation, lease, expected):
    """F1: what an SMB client keeps is taken back before REST acts, and what it has not written yet is awaited."""
    file = world.file()
    left, _, refusal = expected.partition(" ")
    left, refusal = ("", "x") if left == "x" else (left, refusal)
    with world.client.open(file.file_name, smb.READ | smb.WRITE, "RWD", lease=lease) as handle:
        assert handle.caching == lease
        running = pool.submit(code_of, lambda: OPERATIONS[operation](world, file))
        if left:
            told = world.client.heard(10)
            assert told is not None and (told.key, told.was, told.left) == (handle.key, lease, left.strip(">-"))
            if left.startswith(">"):
                assert told.is_to_be_acknowledged and is_waiting(running)
            else:
                running.result(10)
            if told.is_to_be_acknowledged:
                world.client.acknowledge(told)
        assert running.result(30) == REFUSALS[refusal]
        assert world.client.heard(QUIET_SECONDS) is None


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name not in ("list", "list handles", "get properties", "get metadata")])
def test_handles_that_are_only_kept(world, pool, operation):
    """F3: before a sharing violation is told the client is asked whether it still needs its handle. If it closes it, there is none."""
    file = world.file()
    with world.client.open(file.file_name, smb.READ | smb.WRITE, "", lease="RWH") as handle:
        running = pool.submit(code_of, lambda: OPERATIONS[operation](world, file))
        told = world.client.heard(10)
        assert (told.was, told.left) == ("RWH", "RW") and is_waiting(running)
        handle.close()
        assert running.result(30) == ""
    # If it keeps it, there is.
    file = world.file()
    with world.client.open(file.file_name, smb.READ | smb.WRITE, "", lease="RWH") as handle:
        running = pool.submit(code_of, lambda: OPERATIONS[operation](world, file))
        world.client.acknowledge(world.client.heard(10))
        assert running.result(30) == REFUSALS["c" if operation == "copy from" else "x"]


@pytest.mark.parametrize("operation", ["get", "get properties", "put range", "set metadata", "create", "delete"])
def test_clients_that_do_not_answer(world, operation):
    """Nobody waits longer than the request says; when the client has answered it is done."""
    file = world.file()
    with world.client.open(file.file_name, smb.READ | smb.WRITE, "RWD", lease="RWH") as handle:
        begun = time.monotonic()
        assert code_of(lambda: OPERATIONS[operation](world, file, timeout=1)) == "500 ClientCacheFlushDelay"
        assert 0.9 < time.monotonic() - begun < 10
        told = world.client.heard(10)
        if operation == "delete":
            handle.close()
        else:
            world.client.acknowledge(told)
        assert code_of(lambda: OPERATIONS[operation](world, file)) == ""


def test_nothing_stale(world, pool):
    """F1: what the client wrote before it answered is what REST reads."""
    file = world.file()
    with world.client.open(file.file_name, smb.READ | smb.WRITE, "RWD", lease="RWH") as handle:
        running = pool.submit(lambda: file.get_file_properties().size)
        told = world.client.heard(10)
        handle.write(b"kept back" * 300, 0)
        world.client.acknowledge(told)
        assert running.result(30) == len(b"kept back" * 300)
        assert file.download_file().readall() == b"kept back" * 300
        # Told before the write is answered; the client may go on reading what it has, and no longer.
        file.upload_range(b"REST", 0, 4)
        told = world.client.heard(10)
        assert (told.was, told.left) == ("RH", "")
        if told.is_to_be_acknowledged:
            world.client.acknowledge(told)
        assert handle.read(0, 4) == b"REST"


# Oplocks of the older kind, by their level: what is left of it, and whether that is awaited.
OPLOCK_LEVELS = {"": 0, "II": 1}
OPLOCKS = """
                   | batch | exclusive | II
list               |       |           |
list handles       |       |           |
get                | >II   | >II       |
get ranges         | >II   | >II       |
get properties     | >II   | >II       |
get metadata       | >II   | >II       |
copy from          | >II   | >II       |
put range          | >-    | >-        | -
clear range        | >-    | >-        | -
put range from url | >-    | >-        | -
resize             | >-    | >-        | -
set properties     | >-    | >-        | -
set metadata       | >-    | >-        | -
create             | >-    | >-        | -
copy to            | >-    | >-        | -
rename             | >II   |           |
rename to          | >II x | x         | x
delete             | >II x | x         | x
"""


@pytest.mark.parametrize("operation, level, expected", cells(OPLOCKS))
def test_oplocks(world, pool, operation, level, expected):
    file = world.file()
    left, _, refusal = expected.partition(" ")
    left, refusal = ("", "x") if left == "x" else (left, refusal)
    with world.client.open(file.file_name, smb.READ | smb.WRITE, "RWD", oplock=level) as handle:
        assert handle.open.oplock_level == smb.OPLOCKS[level]
        running = pool.submit(code_of, lambda: OPERATIONS[operation](world, file))
        if left:
            told = world.client.heard(10)
            assert told is not None and told.key == handle.id and told.left == OPLOCK_LEVELS[left.strip(">-")]
            if left.startswith(">"):
                assert is_waiting(running)
                world.client.acknowledge(told)
        assert running.result(30) == REFUSALS[refusal]
        assert world.client.heard(QUIET_SECONDS) is None


# What is to go with its last handle answers nobody, and is in no list; only its handles are told, so that they can be closed.
IS_TO_GO = "409 SMBDeletePending"
TOLD_OF_WHAT_IS_TO_GO = {"copy from": REFUSALS["c"], "list handles": ""}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_f4_delete_pending(world, operation):
    """F4: whatever REST does to a file that is to go; the flag is cleared, and it is done."""
    file = world.file()
    with world.client.open(file.file_name, smb.READ, "RWD") as handle:
        with world.client.open(file.file_name, smb.DELETE, "RWD") as deleting:
            deleting.mark_for_deletion()
            if operation == "list":
                assert OPERATIONS["list"](world, file) == []
            else:
                assert code_of(lambda: OPERATIONS[operation](world, file)) == TOLD_OF_WHAT_IS_TO_GO.get(operation, IS_TO_GO)
            deleting.mark_for_deletion(False)
        handle.close()
    if operation == "list":
        assert [entry["name"] for entry in OPERATIONS["list"](world, file)] == [file.file_name]
    else:
        assert code_of(lambda: OPERATIONS[operation](world, file)) == ""


# What REST does to a directory that an SMB client has open, or in which it has something open.
DIRECTORIES = {
    "properties": lambda one: one.get_directory_properties(),
    "list": lambda one: list(one.list_directories_and_files()),
    "create in it": lambda one: one.upload_file(f"n{next(_numbers)}", b"x"),
    "set metadata": lambda one: one.set_directory_metadata({"a": "b"}),
    "rename": lambda one: one.rename_directory(f"r{next(_numbers)}"),
    "delete": lambda one: one.delete_directory(),
}
HELD_DIRECTORIES = """
             | itself | a file in it | to go
properties   |        |              | p
list         |        |              | p
create in it |        |              | p
set metadata |        |              | p
rename       | x      | x            | p
delete       | d      | n            | p
"""
DIRECTORY_REFUSALS = {"": "", "x": "409 SharingViolation", "d": "409 CannotDeleteFileOrDirectory", "n": "409 DirectoryNotEmpty", "p": IS_TO_GO}


@pytest.mark.parametrize("operation, held, expected", cells(HELD_DIRECTORIES, DIRECTORIES))
def test_directories(world, operation, held, expected):
    name = f"d{next(_numbers)}"
    world.share.create_directory(name)
    directory = world.share.get_directory_client(name)
    if held == "a file in it":
        directory.upload_file("f", b"x")
        handle = world.client.open(f"{name}/f", smb.READ, "RWD")
    else:
        handle = world.client.directory(name, smb.READ | smb.DELETE, "RWD" if held == "to go" else "")
    with handle:
        if held == "to go":
            handle.mark_for_deletion()
        assert code_of(lambda: DIRECTORIES[operation](directory)) == DIRECTORY_REFUSALS[expected]
        if held == "to go":
            handle.mark_for_deletion(False)
    if expected and expected != "n":
        assert code_of(lambda: DIRECTORIES[operation](directory)) == ""


def test_the_tables_are_whole():
    assert all(covers_everything(table) for table in (SHARE_MODES, LOCKS, CACHING, OPLOCKS))
