"""Clients of all services, each with few names of its own: what they keep alive is bounded, and they know its size.

A client is a class with `step`, which asks for one thing by chance and holds the answer against what it knows, and
`live`, the bytes it keeps stored.
"""

import random

from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import ResourceExistsError
from azure.data.tables import TableServiceClient, UpdateMode
from azure.storage.blob import BlobBlock, BlobServiceClient
from azure.storage.fileshare import ShareServiceClient
from azure.storage.queue import QueueServiceClient

import smb
from server import ACCOUNT, KEY

KIB, MIB = 1024, 1024 * 1024
SIZES = [0, 1, 100, 1000, 4 * KIB, 8 * KIB, 8 * KIB + 1, 20 * KIB, 64 * KIB, 300 * KIB, MIB]
NAMES = 12
HOW = dict(retry_total=0, connection_timeout=20, read_timeout=60)


class Wrong(Exception):
    """An answer that contradicts what was told before."""


def hold(found, expected, what):
    if found != expected:
        raise Wrong(f"{what}: {len(found)} bytes are not the {len(expected)} that were written")


class Client:
    def __init__(self, number, server, seed):
        self.number, self.chance = number, random.Random(f"{seed} {type(self).__name__} {number}")
        self.connect(server)

    def live(self):
        raise NotImplementedError

    def body(self, sizes=SIZES):
        return self.chance.randbytes(self.chance.choice(sizes))

    def step(self):
        self.chance.choice(self.deeds)()


class Blobs(Client):
    def connect(self, server):
        self.service = BlobServiceClient(server["blob"], credential=KEY, max_single_put_size=4 * MIB, **HOW)
        self.container = self.service.get_container_client(f"blobs-{self.number}")
        self.container.create_container()
        self.held, self.snapshots = {}, {}
        self.deeds = [self.put] * 4 + [self.read] * 4 + [
            self.blocks, self.append, self.pages, self.snapshot, self.copy, self.delete, self.list, self.container_comes_and_goes]

    def live(self):
        return sum(map(len, self.held.values())) + sum(map(len, self.snapshots.values()))

    def name(self):
        return f"b{self.chance.randrange(NAMES)}"

    def put(self):
        name, body = self.name(), self.body()
        self.drop(name)
        self.container.upload_blob(name, body)
        self.held[name] = body

    def blocks(self):
        name, parts = self.name(), [self.body([1, 5000, 100_000]) for _ in range(self.chance.randint(1, 6))]
        self.drop(name)
        blob = self.container.get_blob_client(name)
        for number, part in enumerate(parts):
            blob.stage_block(f"block-{number:03}", part)
        blob.commit_block_list([BlobBlock(f"block-{number:03}") for number in range(len(parts))])
        self.held[name] = b"".join(parts)

    def append(self):
        name, parts = self.name(), [self.body([1, 700, 9000, 70_000]) for _ in range(self.chance.randint(1, 6))]
        self.drop(name)
        blob = self.container.get_blob_client(name)
        blob.create_append_blob()
        for part in parts:
            blob.append_block(part)
        self.held[name] = b"".join(parts)

    def pages(self):
        name, size = self.name(), 512 * self.chance.randint(1, 400)
        self.drop(name)
        blob = self.container.get_blob_client(name)
        blob.create_page_blob(size)
        content = bytearray(size)
        for _ in range(self.chance.randint(1, 6)):
            first = 512 * self.chance.randrange(size // 512)
            length = 512 * self.chance.randint(1, (size - first) // 512)
            piece = self.chance.randbytes(length)
            blob.upload_page(piece, first, length)
            content[first:first + length] = piece
        self.held[name] = bytes(content)

    def snapshot(self):
        """One snapshot is kept at a time; it holds what its blob had, whatever becomes of the blob."""
        for (name, when), body in self.snapshots.items():
            blob = self.container.get_blob_client(name, snapshot=when)
            hold(blob.download_blob().readall(), body, f"snapshot of {name}")
            blob.delete_blob()
        self.snapshots = {}
        if self.held:
            name = self.chance.choice(list(self.held))
            taken = self.container.get_blob_client(name).create_snapshot()
            self.snapshots[name, taken["snapshot"]] = self.held[name]

    def copy(self):
        if self.held:
            source, name = self.chance.choice(list(self.held)), self.name()
            if source != name:
                body = self.held[source]
                self.drop(name)
                self.container.get_blob_client(name).start_copy_from_url(self.container.get_blob_client(source).url)
                self.held[name] = body

    def read(self):
        name = self.name()
        if name not in self.held:
            return
        body, first = self.held[name], 0
        if body and self.chance.random() < 0.5:
            first = self.chance.randrange(len(body))
        hold(self.container.download_blob(name, offset=first or None).readall(), body[first:], name)

    def drop(self, name):
        if self.held.pop(name, None) is not None:
            self.container.delete_blob(name, delete_snapshots="include")
            self.snapshots = {of: body for of, body in self.snapshots.items() if of[0] != name}

    def delete(self):
        self.drop(self.name())

    def list(self):
        found = {blob.name: blob.size for blob in self.container.list_blobs()}
        if found != {name: len(body) for name, body in self.held.items()}:
            raise Wrong(f"{self.container.container_name} lists {sorted(found)}, it holds {sorted(self.held)}")

    def container_comes_and_goes(self):
        """With all that is in it: what housekeeping has to take away."""
        container = self.service.create_container(f"passing-{self.number}-{self.chance.randrange(1 << 60):x}")
        for number in range(10):
            container.upload_blob(f"p{number}", self.body())
        container.delete_container()


class Messages(Client):
    def connect(self, server):
        self.service = QueueServiceClient(server["queue"], credential=KEY, **HOW)
        self.queue = self.service.create_queue(f"queue-{self.number}")
        self.count = 0
        self.deeds = [self.put, self.put, self.consume, self.consume, self.update, self.queue_comes_and_goes]

    def live(self):
        return self.count * 2000

    def put(self):
        if self.count < 60:
            self.queue.send_message("m" * self.chance.randint(1, 4000))
            self.count += 1

    def consume(self):
        for message in self.queue.receive_messages(max_messages=4, visibility_timeout=30):
            self.queue.delete_message(message)
            self.count -= 1

    def update(self):
        for message in self.queue.receive_messages(max_messages=1, visibility_timeout=30):
            self.queue.update_message(message, content="updated", visibility_timeout=0)

    def queue_comes_and_goes(self):
        queue = self.service.create_queue(f"passing-{self.number}-{self.chance.randrange(1 << 60):x}")
        for _ in range(5):
            queue.send_message("passing")
        queue.delete_queue()


class Entities(Client):
    def connect(self, server):
        self.service = TableServiceClient(server["table"], credential=AzureNamedKeyCredential(ACCOUNT, KEY), **HOW)
        self.table = self.service.create_table(f"table{self.number}")
        self.rows = {}
        self.deeds = [self.put, self.put, self.merge, self.transaction, self.transaction, self.query, self.delete,
                      self.table_comes_and_goes]

    def live(self):
        return sum(len(text) for text in self.rows.values()) + 200 * len(self.rows)

    def entity(self):
        row = f"row-{self.chance.randrange(40)}"
        return row, {"PartitionKey": "p", "RowKey": row, "Text": "t" * self.chance.choice([0, 10, 1000, 9000])}

    def put(self):
        row, entity = self.entity()
        self.table.upsert_entity(entity, mode=UpdateMode.REPLACE)
        self.rows[row] = entity["Text"]

    def merge(self):
        row, entity = self.entity()
        self.table.upsert_entity(entity, mode=UpdateMode.MERGE)
        self.rows[row] = entity["Text"]

    def transaction(self):
        changes = dict(self.entity() for _ in range(self.chance.randint(1, 20)))
        self.table.submit_transaction([("upsert", entity, {"mode": UpdateMode.REPLACE}) for entity in changes.values()])
        self.rows.update({row: entity["Text"] for row, entity in changes.items()})

    def query(self):
        found = {one["RowKey"]: one["Text"] for one in self.table.query_entities("PartitionKey eq 'p'")}
        if found != self.rows:
            raise Wrong(f"table {self.number} shows {len(found)} rows that are not the {len(self.rows)} written")

    def delete(self):
        if self.rows:
            row = self.chance.choice(list(self.rows))
            self.table.delete_entity("p", row)
            del self.rows[row]

    def table_comes_and_goes(self):
        table = self.service.create_table(f"passing{self.chance.randrange(1 << 60):x}")
        for number in range(5):
            table.create_entity({"PartitionKey": "p", "RowKey": str(number)})
        table.delete_table()


class Files(Client):
    def connect(self, server):
        self.service = ShareServiceClient(server["file"], credential=KEY, **HOW)
        self.share = self.service.create_share(f"files-{self.number}")
        self.directory = self.share.create_directory("d")
        self.held, self.snapshot = {}, None
        self.deeds = [self.put, self.put, self.ranges, self.rename, self.read, self.read, self.delete, self.list,
                      self.share_snapshot, self.share_comes_and_goes]

    def live(self):
        return sum(map(len, self.held.values())) + (sum(map(len, self.snapshot[1].values())) if self.snapshot else 0)

    def name(self):
        return f"f{self.chance.randrange(NAMES)}"

    def put(self):
        name, body = self.name(), self.body()
        self.directory.get_file_client(name).upload_file(body)
        self.held[name] = body

    def ranges(self):
        if self.held:
            name = self.chance.choice(list(self.held))
            body = bytearray(self.held[name])
            if body:
                first = self.chance.randrange(len(body))
                piece = self.chance.randbytes(self.chance.randint(1, len(body) - first))
                self.directory.get_file_client(name).upload_range(piece, first, len(piece))
                body[first:first + len(piece)] = piece
                self.held[name] = bytes(body)

    def rename(self):
        if self.held:
            name, to = self.chance.choice(list(self.held)), self.name()
            if name != to:
                self.directory.get_file_client(name).rename_file(f"d/{to}", overwrite=True)
                self.held[to] = self.held.pop(name)

    def read(self):
        name = self.name()
        if name in self.held:
            hold(self.directory.get_file_client(name).download_file().readall(), self.held[name], name)

    def delete(self):
        name = self.name()
        if self.held.pop(name, None) is not None:
            self.directory.delete_file(name)

    def list(self):
        found = {entry["name"]: entry["size"] for entry in self.directory.list_directories_and_files()}
        if found != {name: len(body) for name, body in self.held.items()}:
            raise Wrong(f"{self.share.share_name} lists {sorted(found)}, it holds {sorted(self.held)}")

    def share_snapshot(self):
        if self.snapshot:
            when, held = self.snapshot
            past = self.service.get_share_client(self.share.share_name, snapshot=when)
            for name, body in held.items():
                hold(past.get_directory_client("d").get_file_client(name).download_file().readall(), body, f"snapshot of {name}")
            past.delete_share()
            self.snapshot = None
        else:
            self.snapshot = self.share.create_snapshot()["snapshot"], dict(self.held)

    def share_comes_and_goes(self):
        share = self.service.create_share(f"passing-{self.number}-{self.chance.randrange(1 << 60):x}")
        for number in range(5):
            share.get_file_client(f"p{number}").upload_file(self.body())
        share.delete_share()


class Smb(Client):
    """Over SMB, with a new connection now and then; half of the old ones go without a word, with files open."""

    def connect(self, server):
        service = ShareServiceClient(server["file"], credential=KEY, **HOW)
        try:
            service.create_share("smb")
        except ResourceExistsError:
            pass
        self.port, self.client, self.held = server["smb"], None, {}
        self.root = f"smb-{self.number}"
        self.reconnect()
        self.client.directory(self.root, disposition=smb.OPEN_IF).close()
        self.deeds = [self.put] * 3 + [self.read] * 3 + [self.rename, self.delete, self.lock, self.list, self.reconnect]

    def live(self):
        return sum(map(len, self.held.values()))

    def path(self):
        name = f"s{self.chance.randrange(NAMES)}"
        return name, f"{self.root}/{name}"

    def reconnect(self):
        if self.client:
            if self.chance.random() < 0.5:
                # Left open, by a durable handle or not; its name is not used for anything else.
                self.client.open(f"{self.root}/left-{self.chance.randrange(3)}", disposition=smb.OPEN_IF, share="RWD",
                                 lease=self.chance.choice(["", "RH", "RWH"]))
                self.client.drop()
            else:
                self.client.connection.disconnect(close=True)
        self.client = smb.Client(self.port, "smb")

    def put(self):
        (name, path), body = self.path(), self.body()
        with self.client.open(path, smb.EVERYTHING, "RWD", smb.OVERWRITE_IF) as file:
            for first in range(0, len(body), 64 * KIB):
                file.write(body[first:first + 64 * KIB], first)
            if self.chance.random() < 0.3:
                file.flush()
        self.held[name] = body

    def read(self):
        name, path = self.path()
        if name not in self.held:
            return
        with self.client.open(path, smb.READ, "RWD") as file:
            size, content = file.standard().bytes, bytearray()
            while len(content) < size:
                content += file.read(len(content), min(64 * KIB, size - len(content)))
        hold(bytes(content), self.held[name], path)

    def rename(self):
        name, path = self.path()
        to, to_path = self.path()
        if name in self.held and to != name:
            with self.client.open(path, smb.DELETE) as file:
                file.rename(to_path, replaces=True)
            self.held[to] = self.held.pop(name)

    def delete(self):
        name, path = self.path()
        if self.held.pop(name, None) is not None:
            self.client.open(path, smb.DELETE, options=smb.DELETE_ON_CLOSE).close()

    def lock(self):
        name, path = self.path()
        if name in self.held:
            with self.client.open(path, share="RW") as file:
                file.lock(0, 100)
                if self.chance.random() < 0.5:
                    file.unlock(0, 100)

    def list(self):
        found = {name for name in self.client.names(self.root) if not name.startswith("left-")}
        if found != set(self.held):
            raise Wrong(f"{self.root} lists {sorted(found)}, it holds {sorted(self.held)}")


KINDS = [Blobs, Messages, Entities, Files, Smb]
