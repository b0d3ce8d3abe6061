"""QUERY_DIRECTORY: every class of information, patterns, one at a time, from the beginning; and CHANGE_NOTIFY beside REST."""

import struct

import pytest
from smbprotocol.change_notify import ChangeNotifyFlags, CompletionFilter, FileAction, FileSystemWatcher
from smbprotocol.exceptions import DeletePending
from smbprotocol.open import QueryDirectoryFlags, SMB2QueryDirectoryRequest, SMB2QueryDirectoryResponse

import smb

RESTART, SINGLE, INDEX, REOPEN = (QueryDirectoryFlags.SMB2_RESTART_SCANS, QueryDirectoryFlags.SMB2_RETURN_SINGLE_ENTRY,
                                  QueryDirectoryFlags.SMB2_INDEX_SPECIFIED, QueryDirectoryFlags.SMB2_REOPEN)

# By number: what comes before the name, and where of it the id is (MS-FSCC 2.4). All but names alone tell times, sizes, attributes.
CLASSES = {"directory": (1, 64, None), "full": (2, 68, None), "both": (3, 94, None), "names": (12, 12, None),
           "id both": (37, 104, 96), "id full": (38, 80, 72), "id extended": (60, 88, 72), "id extended both": (63, 114, 72),
           "id 64 extended": (78, 80, 72), "id 64 extended both": (79, 106, 72), "id all extended": (80, 96, 72),
           "id all extended both": (81, 122, 72)}


def ask(directory, pattern="*", number=12, flags=0, bytes_max=1 << 16):
    """The entries that come next, as bytes."""
    asked = SMB2QueryDirectoryRequest()
    asked["file_information_class"].enum_strict = False
    asked["file_information_class"], asked["flags"], asked["file_id"] = number, flags, directory.id
    asked["output_buffer_length"], asked["buffer"] = bytes_max, pattern.encode("utf-16-le")
    answer = SMB2QueryDirectoryResponse()
    answer.unpack(directory.client.ask(asked))
    data, entries = answer["buffer"].get_value(), []
    while True:
        after = struct.unpack_from("<I", data)[0]
        entries.append(data[:after or len(data)])
        if not after:
            return entries
        assert after % 8 == 0
        data = data[after:]


def name_of(entry, fixed):
    length = struct.unpack_from("<I", entry, 8 if fixed == 12 else 60)[0]
    return entry[fixed:fixed + length].decode("utf-16-le")


def names(entries, fixed=12):
    return [name_of(entry, fixed) for entry in entries]


def rest(directory, **how):
    """Everything up to the end."""
    found = []
    while True:
        try:
            found += names(ask(directory, **how))
        except smb.Refused as error:
            assert error.status == "NO_MORE_FILES"
            return found


@pytest.mark.parametrize("what", CLASSES)
def test_classes(share, client, what):
    number, fixed, id_at = CLASSES[what]
    share.create_directory("Dir")
    share.get_file_client("file.txt").upload_file(b"x" * 5000)
    with client.directory() as root:
        entries = {name_of(entry, fixed): entry for entry in ask(root, number=number)}
    assert sorted(entries) == [".", "..", "Dir", "file.txt"]
    for name, known in (("Dir", share.get_directory_client("Dir").get_directory_properties()),
                        ("file.txt", share.get_file_client("file.txt").get_file_properties())):
        if what != "names":
            created, _, written, changed, size, allocated, attributes = struct.unpack_from("<QQQQQQI", entries[name], 8)
            times = [known.creation_time, known.last_write_time, known.change_time]
            assert [created // 10, written // 10, changed // 10] == [smb.filetime(one) // 10 for one in times]
            assert (size, allocated) == ((5000, 8192) if name == "file.txt" else (0, 0))
            assert attributes & 0x10 == (0x10 if name == "Dir" else 0)
        # Entries have no numbers (MS-FSA 2.1.5.6.3).
        assert struct.unpack_from("<I", entries[name], 4) == (0,)
        if what.startswith("id all"):
            assert struct.unpack_from("<QQ", entries[name], 80) == (int(known.file_id), 0)
        if id_at:
            assert str(struct.unpack_from("<Q", entries[name], id_at)[0]) == known.file_id


def test_the_id_of_a_file(share, client):
    client.make("f")
    known = share.get_file_client("f").get_file_properties().file_id
    with client.open("f", smb.READ, "RWD") as file:
        volume, low, high = struct.unpack("<QQQ", file.query(59))
    assert (str(low), high) == (known, 0) and volume != 0


def test_classes_that_are_none(client):
    with client.directory() as root:
        for number in (0, 4, 5, 64, 255):
            with smb.refused("INVALID_INFO_CLASS"):
                ask(root, number=number)
    client.make("f")
    with client.open("f", smb.READ, "RWD") as file, smb.refused("INVALID_PARAMETER"):
        ask(file)


PATTERNS = {"*": ["a.txt", "ab.TXT", "b", "c.d.txt"], "*.txt": ["a.txt", "ab.TXT", "c.d.txt"], "A*": ["a.txt", "ab.TXT"], "?": ["b"],
            "a?.txt": ["ab.TXT"], "b": ["b"], "<.txt": ["a.txt", "ab.TXT", "c.d.txt"], "a>>.txt": ["a.txt", "ab.TXT"], 'a"txt': ["a.txt"],
            # What Windows makes of `*.`, `a*.*` and `*b.txt`, and no pattern at all.
            "<": ["b"], 'a<"*': ["a.txt", "ab.TXT"], "<b.txt": ["ab.TXT"], "": ["a.txt", "ab.TXT", "b", "c.d.txt"]}


@pytest.fixture
def four(client):
    for name in PATTERNS["*"]:
        client.make(name)
    return client


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(four, pattern):
    with four.directory() as root:
        found = [name for name in rest(root, pattern=pattern) if name not in (".", "..")]
        assert found == PATTERNS[pattern]
    with four.directory() as root, smb.refused("NO_SUCH_FILE"):
        ask(root, "nothing*")


def test_one_at_a_time_and_again(four):
    every = [".", "..", *PATTERNS["*"]]
    with four.directory() as root:
        assert [names(ask(root, flags=SINGLE))[0] for _ in every] == every
        with smb.refused("NO_MORE_FILES"):
            ask(root, flags=SINGLE)
        # From the beginning: with the pattern there was, and with another.
        assert names(ask(root, "", flags=RESTART | SINGLE)) == ["."]
        assert rest(root) == every[1:]
        assert names(ask(root, "b", flags=RESTART)) == ["b"] and names(ask(root, "a*", flags=REOPEN)) == ["a.txt", "ab.TXT"]
        # Entries have no numbers; who names one goes on where it was, with the pattern that it had.
        assert names(ask(root, flags=RESTART | SINGLE)) == ["."]
        assert names(ask(root, "b", flags=INDEX | SINGLE)) == [".."]
        # As many as fit.
        assert names(ask(root, flags=RESTART, bytes_max=32)) == [".", ".."]
        assert rest(root, bytes_max=40) == PATTERNS["*"]
        with smb.refused("INFO_LENGTH_MISMATCH"):
            ask(root, flags=RESTART, bytes_max=12)
        # Not even for one whose name is longer; and it is not passed over.
        with smb.refused("INFO_LENGTH_MISMATCH"):
            ask(root, "c*", flags=RESTART, bytes_max=20)
        assert names(ask(root, bytes_max=40)) == ["c.d.txt"]


def test_nothing_is_found_once_and_then_there_is_no_more(four):
    """MS-FSA 2.1.5.6.3: the first that asks is told that there is no such file; later ones have seen all, unless they begin anew."""
    with four.directory() as root:
        for flags, expected in ((0, "NO_SUCH_FILE"), (0, "NO_MORE_FILES"), (RESTART, "NO_MORE_FILES"), (REOPEN, "NO_SUCH_FILE")):
            with smb.refused(expected):
                ask(root, "nothing", flags=flags)
        assert names(ask(root, "b", flags=RESTART)) == ["b"]
        with smb.refused("NO_MORE_FILES"):
            ask(root, "nothing", flags=RESTART)


@pytest.mark.parametrize("pattern", ["a\\b", "a/b", "a:b", "a|b", "a\0b", "x" * 256])
def test_no_pattern_that_no_name_could_match(four, pattern):
    with four.directory() as root:
        with smb.refused("OBJECT_NAME_INVALID"):
            ask(root, pattern)
        assert names(ask(root, "b")) == ["b"]


def test_listings_that_are_asked_for_at_once(client):
    """Each goes on where the one before it ended, though nobody waits for its answer."""
    for number in range(60):
        client.make(f"file{number:02}")
    with client.directory() as root:
        asked = SMB2QueryDirectoryRequest()
        asked["file_information_class"], asked["file_id"], asked["output_buffer_length"] = 12, root.id, 200
        asked["buffer"] = "*".encode("utf-16-le")
        found = []
        for request in [client.send(asked) for _ in range(14)]:
            answer = SMB2QueryDirectoryResponse()
            try:
                answer.unpack(client.receive(request))
            except smb.Refused as error:
                assert error.status == "NO_MORE_FILES"
                continue
            data = answer["buffer"].get_value()
            while data:
                after = struct.unpack_from("<I", data)[0]
                found.append(name_of(data, 12))
                data = data[after:] if after else b""
        assert found == [".", "..", *(f"file{number:02}" for number in range(60))]


def test_what_is_told_of_a_directory(share, client):
    """Who watches hears of what SMB clients do, and not of what REST does."""
    share.create_directory("d")
    with client.directory("d") as directory, client.directory() as root:
        watcher = FileSystemWatcher(directory.open)
        watcher.start(CompletionFilter.FILE_NOTIFY_CHANGE_FILE_NAME, flags=ChangeNotifyFlags.NONE)
        share.get_file_client("d/rest").create_file(1)
        share.get_file_client("d/rest").delete_file()
        client.make("d/smb")
        told = watcher.wait()
        assert [(one["action"].get_value(), one["file_name"].get_value()) for one in told] == [(FileAction.FILE_ACTION_ADDED, "smb")]
        watcher = FileSystemWatcher(root.open)
        watcher.start(CompletionFilter.FILE_NOTIFY_CHANGE_FILE_NAME, flags=ChangeNotifyFlags.SMB2_WATCH_TREE)
        with client.open("d/smb", smb.EVERYTHING, "RWD") as file:
            file.rename("d/other")
        told = watcher.wait()
        assert [one["file_name"].get_value() for one in told] == ["d\\smb", "d\\other"]


def test_a_directory_that_is_to_go_is_not_watched(share, client):
    """Also by whoever asks only when it is known already; who takes it back is told of changes again."""
    with client.directory("going", smb.EVERYTHING, disposition=smb.CREATE) as held, client.directory("going") as other:
        held.mark_for_deletion()
        watcher = FileSystemWatcher(other.open)
        watcher.start(CompletionFilter.FILE_NOTIFY_CHANGE_FILE_NAME, flags=ChangeNotifyFlags.NONE)
        with pytest.raises(DeletePending):
            watcher.wait()
        held.mark_for_deletion(False)
        watcher = FileSystemWatcher(other.open)
        watcher.start(CompletionFilter.FILE_NOTIFY_CHANGE_FILE_NAME, flags=ChangeNotifyFlags.NONE)
        client.make("going/file")
        assert [one["file_name"].get_value() for one in watcher.wait()] == ["file"]


def test_a_watcher_goes_with_its_directory(share, client):
    """It is told of what happens where the directory is now, and of nothing in another of the old name."""
    client.directory("old", disposition=smb.CREATE).close()
    with client.directory("old") as watched, client.directory("old", smb.EVERYTHING) as other:
        watcher = FileSystemWatcher(watched.open)
        watcher.start(CompletionFilter.FILE_NOTIFY_CHANGE_FILE_NAME, flags=ChangeNotifyFlags.NONE)
        other.rename("new")
        client.directory("old", disposition=smb.CREATE).close()
        client.make("old/not this")
        client.make("new/this")
        assert [one["file_name"].get_value() for one in watcher.wait()] == ["this"]
