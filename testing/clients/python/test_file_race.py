"""Files under contention, a connection for each of several clients: one creator, one mover, one deleter (F5), one holder of a lease; ranges that
do not disturb each other; the last writer wins (F2); a file that moves is always in one place (E2)."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.fileshare import ShareLeaseClient

import server as servers

pytestmark = pytest.mark.skipif(servers.kind() != "lazuli", reason="the peer has no files")

CLIENTS = 8
TURNS = 10


@pytest.fixture
def rivals(share, file_endpoint, tools):
    """The share as each client sees it."""
    services = [tools.file_client(file_endpoint) for _ in range(CLIENTS)]
    yield [service.get_share_client(share.share_name) for service in services]
    for service in services:
        service.close()


def race(rivals, act):
    """What came of `act(share, number)` for each, all let go at once: True, or the code of a refusal."""
    start = threading.Barrier(len(rivals))

    def run(rival, number):
        start.wait()
        try:
            act(rival, number)
            return True
        except HttpResponseError as error:
            return getattr(error.error_code, "value", error.error_code)

    with ThreadPoolExecutor(len(rivals)) as pool:
        return list(pool.map(run, rivals, range(len(rivals))))


def one_of(outcomes, refusal):
    return outcomes.count(True) == 1 and outcomes.count(refusal) == len(outcomes) - 1


def test_one_wins(share, rivals):
    for turn in range(TURNS):
        path = f"dir-{turn}"
        assert one_of(race(rivals, lambda rival, _: rival.create_directory(path)), "ResourceAlreadyExists")
        file = share.get_file_client(f"{path}/f")
        file.create_file(8)
        assert one_of(race(rivals, lambda rival, _: rival.get_file_client(f"{path}/f").acquire_lease()), "LeaseAlreadyPresent")
        ShareLeaseClient(file).break_lease()
        moved = race(rivals, lambda rival, number: rival.get_file_client(f"{path}/f").rename_file(f"{path}/to-{number}"))
        assert one_of(moved, "ResourceNotFound")
        target = f"{path}/to-{moved.index(True)}"
        assert one_of(race(rivals, lambda rival, _: rival.get_file_client(target).delete_file()), "ResourceNotFound")
        assert one_of(race(rivals, lambda rival, _: rival.delete_directory(path)), "ResourceNotFound")
    assert list(share.list_directories_and_files()) == []


def test_ranges_do_not_disturb_each_other(share, rivals):
    file = share.get_file_client("f")
    file.create_file(CLIENTS * TURNS * 1000)

    def write(rival, number):
        mine = rival.get_file_client("f")
        for turn in range(TURNS):
            mine.upload_range(bytes([number]) * 1000, (turn * CLIENTS + number) * 1000, 1000)

    assert race(rivals, write) == [True] * CLIENTS
    assert file.download_file().readall() == b"".join(bytes([number]) * 1000 for number in range(CLIENTS)) * TURNS


def test_the_last_writer_wins(share, rivals):
    """Each write is whole: what is left is what one of them wrote."""
    file = share.get_file_client("f")
    file.create_file(100_000)
    for _ in range(TURNS):
        race(rivals, lambda rival, number: rival.get_file_client("f").upload_range(bytes([number]) * 100_000, 0, 100_000))
        content = file.download_file().readall()
        assert content == content[:1] * 100_000


def test_a_file_that_moves_is_in_one_place(share, rivals):
    """Renamed to and fro, it is in every listing once, and what is read by either name is the file or nothing."""
    share.get_file_client("one").upload_file(b"content")
    moved = threading.Event()

    def move(rival):
        try:
            for _ in range(TURNS * 2):
                for old, new in (("one", "two"), ("two", "one")):
                    rival.get_file_client(old).rename_file(new)
        finally:
            moved.set()

    def look(rival):
        while not moved.is_set():
            assert len(list(rival.list_directories_and_files())) == 1
            for name in ("one", "two"):
                try:
                    assert rival.get_file_client(name).download_file().readall() == b"content"
                except HttpResponseError as error:
                    assert error.status_code == 404

    assert race(rivals, lambda rival, number: move(rival) if number == 0 else look(rival)) == [True] * CLIENTS
    assert [one.name for one in share.list_directories_and_files()] == ["one"]
