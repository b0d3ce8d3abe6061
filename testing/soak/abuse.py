"""Clients nobody asked for: uploads that are broken off, heads and bodies that never end, readers that hardly read,
storms of connections. All over plain sockets; none of them expects to be served well, only to cost nothing once it is gone.
"""

import asyncio
import random
import socket
import struct
from urllib.parse import urlsplit

KIB, MIB = 1024, 1024 * 1024
LARGE = "large"
LARGE_BYTES = 8 * MIB
CONTAINER = "abused"
STORM = 150
LINGER_SECONDS_MAX = 4


class Abuse:
    """`counts`: how often each of them was done."""

    def __init__(self, server, sas, seed):
        self.blob, self.file = urlsplit(server["blob"]), urlsplit(server["file"])
        self.smb_port, self.sas = server["smb"], sas
        self.chance = random.Random(f"{seed} abuse")
        self.counts = {}
        self.deeds = [self.break_off_upload] * 4 + [self.break_off_block] * 2 + [self.read_slowly] * 3 + [
            self.half_a_head, self.half_a_body, self.half_a_range, self.storm, self.smb_garbage, self.break_off_read, self.pipeline]

    async def run(self, until, at_once=6):
        """So many of them at a time, until the event is set."""
        async def one_after_another():
            while not until.is_set():
                deed = self.chance.choice(self.deeds)
                try:
                    await deed()
                except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                    pass  # the server may hang up on such clients
                self.counts[deed.__name__] = self.counts.get(deed.__name__, 0) + 1
        await asyncio.gather(*(one_after_another() for _ in range(at_once)))

    def head(self, method, name, length=0, query="", kind="BlockBlob", more=""):
        url = self.blob
        return (f"{method} {url.path}/{CONTAINER}/{name}?{query}{self.sas} HTTP/1.1\r\nHost: {url.netloc}\r\n"
                f"x-ms-version: 2021-12-02\r\nx-ms-blob-type: {kind}\r\nContent-Length: {length}\r\n{more}\r\n").encode()

    async def connect(self, port=None):
        return await asyncio.open_connection("127.0.0.1", port or self.blob.port)

    async def hang_up(self, writer):
        """Half of the time in order, half of the time with a reset."""
        if self.chance.random() < 0.5:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()
        await asyncio.sleep(0)

    async def linger(self):
        await asyncio.sleep(self.chance.uniform(0, LINGER_SECONDS_MAX))

    async def break_off_upload(self):
        length = self.chance.choice([10 * KIB, MIB, 64 * MIB])
        await self.send_part(self.head("PUT", f"broken-{self.chance.randrange(20)}", length), length)

    async def break_off_block(self):
        """Of the blocks that do arrive, one name keeps what one name may keep: its blob is put anew beside it."""
        name = f"blocks-{self.chance.randrange(5)}"
        query = f"comp=block&blockid={self.chance.choice(['YWFh', 'YmJi'])}&"
        await self.send_part(self.head("PUT", name, MIB, query), MIB)

    async def send_part(self, head, length):
        reader, writer = await self.connect()
        writer.write(head)
        left = self.chance.randrange(length)
        while left > 0:
            piece = min(left, 64 * KIB)
            writer.write(bytes(piece))
            await asyncio.wait_for(writer.drain(), 30)
            left -= piece
            if self.chance.random() < 0.02:
                break
        await self.hang_up(writer)

    async def read_slowly(self):
        """Some KiB at a time; then the rest, or nothing more."""
        reader, writer = await self.connect()
        writer.write(self.head("GET", LARGE))
        for _ in range(self.chance.randint(1, 20)):
            await asyncio.wait_for(reader.read(8 * KIB), 30)
            await asyncio.sleep(0.1)
        if self.chance.random() < 0.3:
            got = 0
            while got < LARGE_BYTES // 2:
                piece = await asyncio.wait_for(reader.read(256 * KIB), 30)
                if not piece:
                    break
                got += len(piece)
        await self.hang_up(writer)

    async def break_off_read(self):
        reader, writer = await self.connect()
        writer.write(self.head("GET", LARGE))
        await asyncio.wait_for(reader.read(KIB), 30)
        await self.hang_up(writer)

    async def half_a_head(self):
        reader, writer = await self.connect()
        head = self.head("GET", LARGE)
        writer.write(head[:self.chance.randrange(1, len(head) - 2)])
        await self.linger()
        await self.hang_up(writer)

    async def half_a_body(self):
        reader, writer = await self.connect()
        writer.write(self.head("PUT", "half", 200 * KIB))
        for _ in range(self.chance.randint(1, 20)):
            writer.write(bytes(512))
            await asyncio.sleep(0.1)
        await self.linger()
        await self.hang_up(writer)

    async def half_a_range(self):
        url = self.file
        reader, writer = await self.connect(url.port)
        writer.write(f"PUT {url.path}/{CONTAINER}/half?comp=range&{self.sas} HTTP/1.1\r\nHost: {url.netloc}\r\nx-ms-version: 2021-12-02\r\n"
                     f"x-ms-write: update\r\nRange: bytes=0-{MIB - 1}\r\nContent-Length: {MIB}\r\n\r\n".encode())
        writer.write(bytes(self.chance.randrange(MIB)))
        await self.linger()
        await self.hang_up(writer)

    async def pipeline(self):
        """Many requests at once, of which the answers are not waited for."""
        reader, writer = await self.connect()
        writer.write(self.head("GET", LARGE, more="Range: bytes=0-99999\r\n") * 30)
        await asyncio.wait_for(reader.read(KIB), 30)
        await self.hang_up(writer)

    async def storm(self):
        """Many connections at once: a third say nothing, a third ask for something, a third break off."""
        async def one(number):
            try:
                reader, writer = await asyncio.wait_for(self.connect(self.chance.choice([self.blob.port, self.smb_port])), 30)
                if number % 3 == 1:
                    writer.write(self.head("HEAD", LARGE))
                    await asyncio.wait_for(reader.read(KIB), 30)
                elif number % 3 == 2:
                    writer.write(self.head("PUT", "storm", MIB))
                await asyncio.sleep(self.chance.random())
                await self.hang_up(writer)
            except (OSError, asyncio.TimeoutError):
                pass
        await asyncio.gather(*(one(number) for number in range(STORM)))

    async def smb_garbage(self):
        """Frames that are cut short, too long, or not SMB."""
        reader, writer = await self.connect(self.smb_port)
        body = self.chance.randbytes(self.chance.randint(0, 500))
        announced = self.chance.choice([len(body), len(body) + 100, 1 << 23])
        writer.write(announced.to_bytes(4, "big") + self.chance.choice([b"\xfeSMB", b"\xfdSMB", b""]) + body)
        await self.linger()
        await self.hang_up(writer)
