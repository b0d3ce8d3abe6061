"""SMB clients among themselves: share modes, byte-range locks, deletion, rename, what is durable when."""

import struct

import pytest

import smb

ACCESSES = {"R": smb.READ_DATA, "W": smb.WRITE_DATA, "D": smb.DELETE}
MODES = ["", "R", "W", "D", "RW", "RD", "WD", "RWD"]


@pytest.mark.parametrize("mode", MODES)
def test_f3_share_modes(connect, mode):
    """F3: who came first says what others may do, and who comes later must allow what the first does."""
    one, other = connect(), connect()
    one.make("f", b"x")
    for had, right in ACCESSES.items():
        with one.open("f", right, mode):
            for wanted, other_right in ACCESSES.items():
                for other_mode in MODES:
                    if wanted in mode and had in other_mode:
                        other.open("f", other_right, other_mode).close()
                    else:
                        with smb.refused("SHARING_VIOLATION"):
                            other.open("f", other_right, other_mode)
            # Who only looks at attributes is in nobody's way.
            other.open("f", smb.READ_ATTRIBUTES, "").close()


def test_f3_ends_with_the_handle(connect):
    """F3: a file is somebody's until it is closed, or until the connection is gone."""
    one, other = connect(), connect()
    one.make("f")
    held = one.open("f", smb.READ, "")
    with smb.refused("SHARING_VIOLATION"):
        other.open("f", smb.READ, "RWD")
    held.close()
    other.open("f", smb.READ, "RWD").close()
    one.open("f", smb.READ, "")
    one.drop()
    smb.eventually(lambda: other.open("f", smb.READ, "RWD").close())


def test_f6_locks(connect):
    """F6: shared locks let others read, exclusive ones nothing; each is given back as it was taken."""
    one, other = connect(), connect()
    one.make("f", b"0123456789")
    mine, theirs = one.open("f", share="RWD"), other.open("f", share="RWD")
    mine.lock(0, 4, exclusive=False)
    theirs.lock(2, 4, exclusive=False)
    assert theirs.read(0, 4) == b"0123"
    for writer in (mine, theirs):
        with smb.refused("FILE_LOCK_CONFLICT"):
            writer.write(b"x", 3)
    with smb.refused("LOCK_NOT_GRANTED"):
        theirs.lock(3, 1)
    with smb.refused("RANGE_NOT_LOCKED"):
        mine.unlock(0, 3)
    mine.unlock(0, 4)
    theirs.unlock(2, 4)
    mine.lock(4, 2)
    mine.write(b"ab", 4)
    assert mine.read(4, 2) == b"ab" and theirs.read(0, 4) == b"0123"
    for act in (lambda: theirs.read(0, 5), lambda: theirs.write(b"x", 5)):
        with smb.refused("FILE_LOCK_CONFLICT"):
            act()
    with smb.refused("LOCK_NOT_GRANTED"):
        theirs.lock(5, 1, exclusive=False)
    # Beyond the end of the file is a range, too.
    mine.lock(1 << 40, 10)
    mine.close()
    theirs.lock(1 << 40, 10)
    assert theirs.read(0, 10) == b"0123ab6789"


def test_f6_locks_that_wait(connect):
    """F6: who asks to wait is told so, and has the lock when it is free; or calls it off."""
    one, other = connect(), connect()
    one.make("f", b"x")
    mine, theirs = one.open("f", share="RWD"), other.open("f", share="RWD")
    mine.lock(0, 1)
    waiting = theirs.lock_later(0, 1)
    assert smb.is_pending(waiting)
    mine.unlock(0, 1)
    other.receive(waiting)
    with smb.refused("FILE_LOCK_CONFLICT"):
        mine.read(0, 1)

    waiting = mine.lock_later(0, 1)
    assert smb.is_pending(waiting)
    waiting.response_event.clear()
    waiting.cancel()
    with smb.refused("CANCELLED"):
        one.receive(waiting)
    theirs.unlock(0, 1)
    # It was called off and is nobody's.
    theirs.lock(0, 1)

    waiting = mine.lock_later(0, 1)
    assert smb.is_pending(waiting)
    other.drop()
    one.receive(waiting)


def test_f4_deletion(connect):
    """F4: a file that is to go is closed to newcomers, and goes with its last handle."""
    one, other = connect(), connect()
    one.make("f", b"x")
    holding, deleting = one.open("f", smb.READ, "RWD"), other.open("f", smb.DELETE, "RWD")
    with smb.refused("ACCESS_DENIED"):
        holding.mark_for_deletion()
    deleting.mark_for_deletion()
    assert holding.standard().is_delete_pending
    for disposition in (smb.OPEN, smb.CREATE, smb.OPEN_IF, smb.OVERWRITE_IF):
        with smb.refused("DELETE_PENDING"):
            one.open("f", smb.READ, "RWD", disposition)
    deleting.mark_for_deletion(False)
    one.open("f", smb.READ, "RWD").close()
    deleting.mark_for_deletion()
    deleting.close()
    assert holding.read() == b"x"
    holding.close()
    with smb.refused("OBJECT_NAME_NOT_FOUND"):
        one.open("f", smb.READ, "RWD")
    one.make("f")


def test_deletion_on_close(connect, share):
    one, other = connect(), connect()
    one.make("f", b"x")
    going = one.open("f", smb.READ | smb.DELETE, "RWD", options=smb.DELETE_ON_CLOSE)
    holding = other.open("f", smb.READ, "RWD")
    assert not holding.standard().is_delete_pending
    going.close()
    assert holding.standard().is_delete_pending
    holding.close()
    assert one.names() == [] == list(share.list_directories_and_files())
    # Also when nobody says goodbye.
    one.open("g", smb.EVERYTHING, "RWD", smb.CREATE, options=smb.DELETE_ON_CLOSE)
    one.drop()
    smb.eventually(lambda: other.names() == [])


def test_deletion_is_refused(client):
    client.directory("d", disposition=smb.CREATE).close()
    client.make("d/f")
    with client.directory("d", smb.DELETE) as directory, smb.refused("DIRECTORY_NOT_EMPTY"):
        directory.mark_for_deletion()
    with client.open("d/f", smb.EVERYTHING, "RWD") as file:
        file.set_basic(attributes=0x1)
        with smb.refused("CANNOT_DELETE"):
            file.mark_for_deletion()
        file.set_basic(attributes=0x80)
        file.mark_for_deletion()
    with client.directory("d", smb.DELETE) as directory:
        directory.mark_for_deletion()
    assert client.names() == []


def test_rename(client, connect):
    client.directory("d", disposition=smb.CREATE).close()
    client.make("a", b"a")
    client.make("b", b"b")
    with client.open("a", smb.EVERYTHING, "RWD") as file:
        with smb.refused("OBJECT_NAME_COLLISION"):
            file.rename("b")
        with smb.refused("OBJECT_PATH_NOT_FOUND"):
            file.rename("nowhere/b")
        # What is open cannot be replaced.
        with connect().open("b", smb.READ, "RWD"), smb.refused("ACCESS_DENIED"):
            file.rename("b", replaces=True)
        file.rename("b", replaces=True)
        assert file.read() == b"a"
        file.rename("d/C")
        file.rename("d/c")
    assert client.names() == ["d"] and client.names("d") == ["c"]
    # Not out of the directory of an open file, nor without the right to.
    with client.open("d/c", smb.READ, "RWD") as inside:
        with client.directory("d", smb.DELETE) as directory, smb.refused("ACCESS_DENIED"):
            directory.rename("e")
        with smb.refused("ACCESS_DENIED"):
            inside.rename("d/x")
    with client.directory("d", smb.DELETE) as directory:
        directory.rename("e")
    assert client.names("e") == ["c"]


def test_flush_and_write_through(client):
    """What they promise is tried by testing/kill9/smb; here, that they are answered and change nothing else."""
    with client.open("f", disposition=smb.CREATE) as file:
        assert file.write(b"a" * 10) == 10
        file.flush()
        file.write(b"b" * 10, 10, write_through=True)
        assert file.read() == b"a" * 10 + b"b" * 10
    with client.open("f", smb.READ) as file, smb.refused("ACCESS_DENIED"):
        file.flush()
    with client.open("f", options=smb.WRITE_THROUGH) as file:
        file.write(b"c")
        assert file.read(0, 2) == b"ca"


def test_names(client):
    """Names keep their case and are found in any."""
    client.make("Grüße", b"x")
    assert client.names() == ["Grüße"]
    with client.open("gRÜßE", smb.READ) as file:
        assert file.read() == b"x"
    for name in ("a:b", "a?b", "a*b", 'a"b', "a<b", "a|b"):
        with smb.refused("OBJECT_NAME_INVALID"):
            client.open(name, disposition=smb.CREATE)
    with smb.refused("OBJECT_PATH_NOT_FOUND"):
        client.open("nowhere/f", disposition=smb.CREATE)
    client.make("x" * 255)
    with smb.refused("OBJECT_NAME_INVALID"):
        client.open("x" * 256, disposition=smb.CREATE)


def test_reading(client):
    client.make("f", b"abc")
    with client.open("f", smb.READ, "RWD") as file:
        assert file.read(1, 10) == b"bc"
        with smb.refused("END_OF_FILE"):
            file.read(3, 1)
        with smb.refused("ACCESS_DENIED"):
            file.write(b"x")
    with client.open("f", smb.WRITE, "RWD") as file:
        with smb.refused("ACCESS_DENIED"):
            file.read()
        # What lies between is zeros.
        file.write(b"d", 5)
    with client.open("f", smb.READ, "RWD") as file:
        assert file.read() == b"abc\0\0d"


def test_a_directory_that_is_to_go_has_nothing_in_it(client):
    client.directory("d", disposition=smb.CREATE).close()
    client.make("d/f", b"x")
    with smb.refused("DIRECTORY_NOT_EMPTY"):
        client.directory("d", smb.READ | smb.DELETE, options=smb.DELETE_ON_CLOSE)
    with smb.refused("DIRECTORY_NOT_EMPTY"):
        client.directory("d", smb.READ | smb.DELETE).mark_for_deletion()
    assert client.names("d") == ["f"]


@pytest.mark.parametrize("how", ["end", "allocation"])
def test_a_size_is_kept_from_moving_by_locks_on_what_moves(client, how):
    """Bytes that go or come must not be locked by others; what stays may be (MS-FSA 2.1.5.15.4)."""
    what = smb.END_OF_FILE if how == "end" else smb.ALLOCATION
    client.make("f", bytes(100))
    with client.open("f", share="RWD") as own, client.open("f", share="RWD") as other:
        def resize(size):
            own.set(what, struct.pack("<Q", size))

        other.lock(0, 10)
        other.lock(200, 10)
        resize(60)
        resize(60)
        resize(160)
        assert own.standard().bytes == (160 if how == "end" else 60)
        with smb.refused("FILE_LOCK_CONFLICT"):
            resize(5)
        if how == "end":
            with smb.refused("FILE_LOCK_CONFLICT"):
                resize(300)
        else:
            resize(300)


def test_who_may_only_append(client):
    """Bytes that are there stay (MS-SMB2 3.3.5.13)."""
    client.make("f", b"old")
    with client.open("f", smb.APPEND_DATA | smb.READ, "RWD") as file:
        with smb.refused("ACCESS_DENIED"):
            file.write(b"new", 0)
        with smb.refused("ACCESS_DENIED"):
            file.write(b"new", 2)
        file.write(b" and new", 3)
        assert file.read() == b"old and new"


@pytest.mark.parametrize("name", ["@GMT-2026.11.16-01.02.03", "@GMT-2026.11.16-01.02.03/f", "@GMT-now", "d/", "a*"])
def test_no_name_that_cannot_be_opened(client, name):
    """A rename takes the names that CREATE takes."""
    client.make("f", b"x")
    with client.open("f", smb.EVERYTHING, "RWD") as file:
        with smb.refused("OBJECT_NAME_INVALID"):
            file.rename(name)
    with client.open("f", smb.READ, "RWD") as file:
        assert file.read() == b"x"


def test_slashes_are_no_separators(client):
    """Neither to CREATE nor to a rename."""
    client.make("f", b"x")
    client.directory("d", disposition=smb.CREATE).close()
    with client.open("f", smb.EVERYTHING, "RWD") as file:
        name = "d/g".encode("utf-16-le")
        with smb.refused("OBJECT_NAME_INVALID"):
            file.set(smb.RENAME, struct.pack("<B7xQI", 0, 0, len(name)) + name)


def test_who_looks_at_attributes_locks_nothing(client):
    client.make("f", b"x")
    with client.open("f", smb.READ_ATTRIBUTES | smb.WRITE_ATTRIBUTES, "RWD") as file:
        with smb.refused("ACCESS_DENIED"):
            file.lock()


DISPOSITION_EX, EX_DELETE, EX_POSIX, EX_ON_CLOSE, EX_IGNORE_READ_ONLY = 64, 1, 2, 8, 0x10


def test_deletion_with_flags(client):
    """FileDispositionInformationEx: what is not done is refused, and does nothing."""
    client.make("f", b"x", attributes=1)
    with client.open("f", smb.DELETE, "RWD") as file:
        for flags in (EX_DELETE | EX_POSIX, EX_ON_CLOSE, EX_DELETE | EX_ON_CLOSE):
            with smb.refused("NOT_SUPPORTED"):
                file.set(DISPOSITION_EX, struct.pack("<I", flags))
        with smb.refused("CANNOT_DELETE"):
            file.set(DISPOSITION_EX, struct.pack("<I", EX_DELETE))
    assert client.names() == ["f"]
    with client.open("f", smb.DELETE, "RWD") as file:
        file.set(DISPOSITION_EX, struct.pack("<I", EX_DELETE | EX_IGNORE_READ_ONLY))
    assert client.names() == []


NAME, ALL, NORMALIZED_NAME = 9, 18, 48


def told_name(handle, what, before=0):
    told = handle.query(what)[before:]
    length = struct.unpack_from("<I", told)[0]
    return told[4:4 + length].decode("utf-16-le")


def test_names_are_told_as_they_are_stored(share, client):
    """Whatever letters a client opened it with (MS-FSCC 2.4.32, 2.4.35): every name on the way, after a rename too."""
    share.create_directory("Outer")
    share.create_directory("Outer/Inner")
    client.make("Outer/Inner/File.TXT", b"x")
    with client.directory("OUTER/inner") as directory:
        assert told_name(directory, NORMALIZED_NAME) == "Outer\\Inner"
    with client.open("outer/INNER/file.txt", smb.EVERYTHING, "RWD") as file:
        assert told_name(file, NORMALIZED_NAME) == "Outer\\Inner\\File.TXT"
        assert told_name(file, NAME) == told_name(file, ALL, 96) == "\\Outer\\Inner\\File.TXT"
        assert [handle.path for handle in share.get_file_client("outer/inner/file.txt").list_handles()] == ["Outer/Inner/File.TXT"]
        file.rename("OUTER/Other.txt")
        assert told_name(file, NORMALIZED_NAME) == "Outer\\Other.txt"
        # Another spelling of the same name is the name from here on.
        file.rename("outer/OTHER.txt")
        assert told_name(file, NORMALIZED_NAME) == "Outer\\OTHER.txt"
        share.get_file_client("outer/other.txt").rename_file("outer/INNER/Third")
        assert told_name(file, NORMALIZED_NAME) == "Outer\\Inner\\Third"
    with client.open("OUTER/NEW", smb.EVERYTHING, "RWD", smb.CREATE) as file:
        assert told_name(file, NORMALIZED_NAME) == "Outer\\NEW"
    share.create_snapshot()
    with client.directory("") as root:
        moment = root.snapshots()[0]
        assert told_name(root, NORMALIZED_NAME) == ""
    with client.open(f"{moment}/outer/new", smb.READ, "RWD") as file:
        assert told_name(file, NORMALIZED_NAME) == "Outer\\NEW"


def test_a_lease_key_is_of_one_file(client):
    """Nothing else is opened with it while the file is (MS-SMB2 3.3.5.9.8), nor a directory, which has no leases."""
    with client.open("f", smb.EVERYTHING, "RWD", smb.CREATE, lease="RWH") as file:
        for act in (lambda: client.open("other", smb.EVERYTHING, "RWD", smb.CREATE, lease="R", key=file.key),
                    lambda: client.directory("new", disposition=smb.CREATE, lease="R", key=file.key),
                    lambda: client.directory("", lease="R", key=file.key)):
            with smb.refused("INVALID_PARAMETER"):
                act()
        assert client.names() == ["f"], "nothing was made by what was refused"
        client.open("f", smb.EVERYTHING, "RWD", lease="RWH", key=file.key).close()
    with client.directory("new", disposition=smb.CREATE, lease="RH", key=file.key) as directory:
        assert directory.caching is None
        # A directory holds no lease, so its key is free.
        client.open("f", smb.EVERYTHING, "RWD", lease="RWH", key=file.key).close()
