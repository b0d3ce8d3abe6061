"""Clients that write blobs, entities, files and messages over and over, and remember what they were told; and the judge of a copy.

Each thing says what it is: its content is made of its name and the number of the write, so a torn one shows.

  1. What was acknowledged before the copy began is in it: a later state may be there instead, an earlier one not.
  2. Nothing is in it whose writing began after the copy was done.
  3. Every state is one that was written, to its last byte.
"""

import random
import threading

from azure.core.exceptions import ResourceExistsError
from azure.data.tables import TableServiceClient, UpdateMode
from azure.core.credentials import AzureNamedKeyCredential
from azure.storage.blob import BlobServiceClient
from azure.storage.fileshare import ShareServiceClient
from azure.storage.queue import QueueServiceClient

from server import ACCOUNT, KEY

BOX = "kept"
SIZES = [10, 5_000, 100_000, 1_500_000]
THINGS = 6  # of each writer and kind


def content(name, number, size):
    stamp = f"{name} {number} {size};".encode()
    return (stamp * (size // len(stamp) + 1))[: max(size, len(stamp))]


def number_of(name, found):
    """The number of the write that made this; raises if it is of none."""
    words = found.split(b";", 1)[0].decode().split(" ")
    if words[0] != name or found != content(name, int(words[1]), int(words[2])):
        raise ValueError(f"{name}: {len(found)} bytes that nobody wrote, beginning {found[:40]!r}")
    return int(words[1])


class Clients:
    """What one thread talks through."""

    def __init__(self, server):
        self.blobs = BlobServiceClient(server.endpoint_of("blob"), KEY).get_container_client(BOX)
        self.queue = QueueServiceClient(server.endpoint_of("queue"), KEY).get_queue_client(BOX)
        credential = AzureNamedKeyCredential(ACCOUNT, KEY)
        self.table = TableServiceClient(server.endpoint_of("table"), credential=credential).get_table_client(BOX)
        self.share = ShareServiceClient(server.endpoint_of("file"), KEY).get_share_client(BOX)

    def create(self):
        for create in (self.blobs.create_container, self.queue.create_queue, self.table.create_table, self.share.create_share):
            try:
                create()
            except ResourceExistsError:
                pass


class Ledger:
    """What was begun and what was acknowledged, of everything. Numbers of writes grow for each name."""

    def __init__(self):
        self.lock = threading.Lock()
        self.begun, self.acknowledged = {}, {}
        self.sent, self.sending, self.deleting, self.deleted = set(), set(), set(), set()

    def put_steady(self, clients):
        """A blob that nobody writes again: the second backup need not copy it."""
        clients.blobs.upload_blob("steady", content("steady", 1, 3_000_000), metadata={"number": "1"})
        self.begun["steady"] = self.acknowledged["steady"] = 1

    def copy(self):
        with self.lock:
            copy = Ledger()
            copy.begun, copy.acknowledged = dict(self.begun), dict(self.acknowledged)
            copy.sent, copy.sending = set(self.sent), set(self.sending)
            copy.deleting, copy.deleted = set(self.deleting), set(self.deleted)
            return copy


class Writer(threading.Thread):
    def __init__(self, number, seed, server, ledger, stop):
        super().__init__(daemon=True)
        self.number, self.chance = number, random.Random(f"{seed} {number}")
        self.clients, self.ledger, self.stop = Clients(server), ledger, stop
        self.count, self.failure = 0, None

    def run(self):
        try:
            while not self.stop.is_set():
                self.step()
        except Exception as failure:  # told by whoever joins the thread
            self.failure = failure

    def step(self):
        self.count += 1
        kind = self.chance.choice(["blob", "blob", "entity", "file", "message"])
        if kind == "message":
            return self.message()
        name = f"{kind}-{self.number}-{self.chance.randrange(THINGS)}"
        with self.ledger.lock:
            number = self.ledger.begun.get(name, 0) + 1
            self.ledger.begun[name] = number
        getattr(self, kind)(name, number)
        with self.ledger.lock:
            self.ledger.acknowledged[name] = number

    def blob(self, name, number):
        body = content(name, number, self.chance.choice(SIZES))
        self.clients.blobs.upload_blob(name, body, overwrite=True, metadata={"number": str(number)})

    def entity(self, name, number):
        text = content(name, number, 200).decode()
        self.clients.table.upsert_entity({"PartitionKey": "p", "RowKey": name, "a": text, "b": text}, mode=UpdateMode.REPLACE)

    def file(self, name, number):
        # A file is created and then written: for a moment it is zeros. So it is made under another name and renamed.
        body = content(name, number, self.chance.choice(SIZES[:3]))
        file = self.clients.share.get_file_client(f"new-{name}")
        file.upload_file(body)
        file.rename_file(name, overwrite=True)

    def message(self):
        text = f"message-{self.number}-{self.count}"
        with self.ledger.lock:
            self.ledger.sending.add(text)
        sent = self.clients.queue.send_message(text)
        with self.ledger.lock:
            self.ledger.sent.add(text)
        if self.chance.random() < 0.5:
            with self.ledger.lock:
                self.ledger.deleting.add(text)
            self.clients.queue.delete_message(sent)
            with self.ledger.lock:
                self.ledger.deleted.add(text)


def found(server):
    """Everything that is there: the number of the write that made each thing, and the messages."""
    clients, numbers = Clients(server), {}
    for blob in clients.blobs.list_blobs(include=["metadata"]):
        number = number_of(blob.name, clients.blobs.download_blob(blob.name).readall())
        if blob.metadata["number"] != str(number):
            raise ValueError(f"{blob.name}: metadata of write {blob.metadata['number']}, content of {number}")
        numbers[blob.name] = number
    for entity in clients.table.list_entities():
        a, b = (number_of(entity["RowKey"], entity[name].encode()) for name in "ab")
        if a != b:
            raise ValueError(f"{entity['RowKey']}: half of write {a} and half of {b}")
        numbers[entity["RowKey"]] = a
    for file in clients.share.list_directories_and_files():
        if not file.name.startswith("new-"):
            numbers[file.name] = number_of(file.name, clients.share.get_file_client(file.name).download_file().readall())
    messages = set()
    while page := list(clients.queue.receive_messages(max_messages=32, visibility_timeout=600)):
        for message in page:
            if message.content in messages:
                raise ValueError(f"{message.content} is there twice")
            messages.add(message.content)
    return numbers, messages


def judge(there, before, after):
    """What is wrong with a copy that was begun at `before` and done at `after`."""
    (numbers, messages), problems = there, []
    for name, number in before.acknowledged.items():
        if numbers.get(name, 0) < number:
            problems.append(f"{name}: write {number} was acknowledged before the copy began; the copy has {numbers.get(name)}")
    for name, number in numbers.items():
        if number > after.begun.get(name, 0):
            problems.append(f"{name}: write {number} began after the copy was done")
    problems += [f"{text} was sent before the copy began, and is missing" for text in before.sent - after.deleting - messages]
    problems += [f"{text} was deleted before the copy began, and is there" for text in before.deleted & messages]
    problems += [f"{text} was sent after the copy was done" for text in messages - after.sending]
    return problems
