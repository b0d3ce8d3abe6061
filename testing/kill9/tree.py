"""Clients of one share, each in a directory of its own, who remember what they were told, and the judge of what is found afterwards.

  1. A directory holds what its client was told, with or without the one operation that was in flight, and nothing between.
  2. A snapshot that was acknowledged shows each directory as it was at some moment of its taking; the taker's own, exactly.
  3. The bytes the share says it uses are the sizes of the files in it.
"""

import random

from azure.core.exceptions import IncompleteReadError, ServiceRequestError, ServiceResponseError
from azure.storage.fileshare import ShareClient

from server import ANSWER_SECONDS_MAX, KEY

SHARE = "kill9"
GONE = (ServiceRequestError, ServiceResponseError, IncompleteReadError)
NAMES = ["a", "b", "c", "d"]
SNAPSHOTS_MAX = 20  # of one client; a share has 200 and no more
SIZES = [0, 1, 511, 512, 4096, 10_000, 70_000]


def connect(endpoint, snapshot=None):
    return ShareClient(endpoint, SHARE, snapshot=snapshot, credential=KEY, retry_total=0, connection_timeout=10,
                       read_timeout=ANSWER_SECONDS_MAX)


class Worker:
    """Knows what its directory holds: name to bytes. One operation is in flight at a time."""

    def __init__(self, number, seed):
        self.number, self.chance = number, random.Random(f"{seed} {number}")
        self.directory, self.files, self.maybe = f"worker-{number}", None, None
        self.snapshots, self.done = {}, 0

    def run(self, endpoint):
        with connect(endpoint) as share:
            try:
                if self.files is None:
                    share.get_directory_client(self.directory).create_directory()
                    self.files = {}
                while True:
                    self.step(share)
                    self.done += 1
            except GONE:
                return

    def step(self, share):
        chance, name = self.chance, self.chance.choice(NAMES)
        file = share.get_directory_client(self.directory).get_file_client(name)
        after = dict(self.files)
        there = name in after
        kind = chance.choice(["create", "write", "write", "write", "clear", "resize", "rename", "delete", "snapshot"])
        if kind == "snapshot" and chance.random() < 0.2 and len(self.snapshots) < SNAPSHOTS_MAX:
            taken = share.create_snapshot()["snapshot"]
            self.snapshots[taken] = after
            return
        if not there or kind == "create":
            after[name] = bytes(chance.choice(SIZES))
            act = lambda: file.create_file(len(after[name]))  # noqa: E731
        elif kind in ("write", "clear") and after[name]:
            content = bytearray(after[name])
            first = chance.randrange(len(content))
            count = chance.randint(1, len(content) - first)
            if kind == "write":
                piece = bytes([chance.randrange(1, 256)]) * count
                act = lambda: file.upload_range(piece, offset=first, length=count)  # noqa: E731
            else:
                first, count = first // 512 * 512, max(512, count // 512 * 512)
                if first + count > len(content):
                    return
                piece = bytes(count)
                act = lambda: file.clear_range(offset=first, length=count)  # noqa: E731
            content[first:first + count] = piece
            after[name] = bytes(content)
        elif kind == "resize":
            size = chance.choice(SIZES)
            after[name] = (after[name] + bytes(size))[:size]
            act = lambda: file.resize_file(size)  # noqa: E731
        elif kind == "rename":
            other = chance.choice(NAMES)
            content = after.pop(name)
            after[other] = content
            act = lambda: file.rename_file(f"{self.directory}/{other}", overwrite=True)  # noqa: E731
        else:
            del after[name]
            act = lambda: file.delete_file()  # noqa: E731
        self.maybe = after
        act()
        self.files, self.maybe = after, None


def read(share, directory):
    client = share.get_directory_client(directory)
    return {entry["name"]: client.get_file_client(entry["name"]).download_file().readall() for entry in client.list_directories_and_files()}


def judge(workers, endpoint):
    problems, used = [], 0
    with connect(endpoint) as share:
        there = {entry["name"] for entry in share.list_directories_and_files()}
        for worker in workers:
            if worker.directory not in there:
                if worker.files is not None:
                    problems.append(f"{worker.directory} is gone")
                continue
            found = read(share, worker.directory)
            used += sum(len(content) for content in found.values())
            if found not in (worker.files or {}, worker.maybe):
                sizes = {name: len(content) for name, content in found.items()}
                problems.append(f"{worker.directory} holds {sizes}, which nobody was told")
            worker.files, worker.maybe = found, None
        if share.get_share_stats() != used:
            problems.append(f"{share.get_share_stats()} bytes are counted, {used} are there")
    for worker in workers:
        for taken, files in worker.snapshots.items():
            with connect(endpoint, snapshot=taken) as share:
                if read(share, worker.directory) != files:
                    problems.append(f"the snapshot {taken} of {worker.directory} is not what it was")
    return problems
