"""Frames that no client sends: each ends its connection or is refused, and the server goes on (promise F1)."""

import re
import socket
import struct
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from smbprotocol.connection import SMB2Echo
from smbprotocol.open import SMB2ReadRequest

import smb
from common import file_client, fresh_name
from conftest import run

NEGOTIATE = 0


def frame(message):
    return struct.pack(">I", len(message)) + message


def header(command, message_id=0, session=0, next_at=0, flags=0, charge=1):
    return b"\xfeSMB" + struct.pack("<HHIHHIIQIIQ", 64, charge, 0, command, 31, flags, next_at, message_id, 0, 0, session) + bytes(16)


def negotiate(dialects=(0x0210,), count=None, message_id=0):
    body = struct.pack("<HHHHI16sIHH", 36, len(dialects) if count is None else count, 1, 0, 0, bytes(16), 0, 0, 0)
    return header(NEGOTIATE, message_id) + body + b"".join(struct.pack("<H", one) for one in dialects)


def ask(port, *frames):
    """What comes back, as far as it comes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as one:
        said = b""
        try:
            for each in frames:
                one.sendall(each)
            one.shutdown(socket.SHUT_WR)
            while part := one.recv(65536):
                said += part
        except (ConnectionError, OSError) as ended:
            assert not isinstance(ended, TimeoutError), "no answer and no end"
        return said


def status(said):
    return struct.unpack_from("<I", said, 4 + 8)[0]


SILENCE = {
    "nothing": b"",
    "half a length": b"\0\0",
    "a length and nothing": struct.pack(">I", 100),
    "a length without end": b"\xff\xff\xff\xff" + bytes(200),
    "too short for anything": frame(b"\xfeSMB"),
    "zeros": frame(bytes(200)),
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "SMB1 alone": frame(b"\xffSMB\x72" + bytes(27) + b"\0" + struct.pack("<H", 14) + b"\x02NT LM 0.12\0"),
    "SMB1 cut short": frame(b"\xffSMB\x72" + bytes(28)),
    "sealed for nobody": frame(b"\xfdSMB" + bytes(32) + struct.pack("<IHHQ", 100, 0, 1, 7) + bytes(100)),
    "sealed and cut short": frame(b"\xfdSMB" + bytes(30)),
    "a create before anything": frame(header(5) + bytes(57)),
    "a response": frame(header(NEGOTIATE, flags=1) + bytes(40)),
    "a message id of its own choice": frame(negotiate(message_id=5)),
    "a chain that goes back": frame(header(NEGOTIATE, next_at=8) + bytes(100)),
    "a chain that goes beyond": frame(header(NEGOTIATE, next_at=4096) + bytes(100)),
}


@pytest.mark.parametrize("what", SILENCE)
def test_what_has_no_answer_ends_the_connection(server, share, what):
    assert ask(server.smb_port, SILENCE[what]) == b""
    with smb.Client(server.smb_port, share.share_name) as client:
        client.make("f", b"alive")


REFUSED = {
    "no dialect": (negotiate(()), 0xC000000D),
    "more dialects than there are": (negotiate(count=9000), 0xC000000D),
    "only 2.0.2": (negotiate((0x0202,)), 0xC00000BB),
    "3.1.1 without its contexts": (negotiate((0x0311,)), 0xC000000D),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_in_its_own_words(server, what):
    message, expected = REFUSED[what]
    assert status(ask(server.smb_port, frame(message))) == expected


def test_the_old_words(server):
    """SMB1's NEGOTIATE that offers SMB2: the answer names no dialect yet (MS-SMB2 3.3.5.3.1), and the new words follow."""
    offered = b"".join(b"\x02" + name + b"\0" for name in (b"NT LM 0.12", b"SMB 2.002", b"SMB 2.???"))
    old = frame(b"\xffSMB\x72" + bytes(27) + b"\0" + struct.pack("<H", len(offered)) + offered)
    said = ask(server.smb_port, old, frame(negotiate((0x0210, 0x0300), message_id=1)))
    first, rest = said[4:4 + struct.unpack(">I", said[:4])[0]], said[4 + struct.unpack(">I", said[:4])[0]:]
    assert first[:4] == b"\xfeSMB" and struct.unpack_from("<H", first, 64 + 4)[0] == 0x02FF
    assert status(rest) == 0 and struct.unpack_from("<H", rest, 4 + 64 + 4)[0] == 0x0300
    # Only 2.0.2 is not enough.
    offered = b"\x02SMB 2.002\0"
    assert ask(server.smb_port, frame(b"\xffSMB\x72" + bytes(27) + b"\0" + struct.pack("<H", len(offered)) + offered)) == b""


def test_no_stranger_gets_further(server):
    """Every command, before anybody said who they are."""
    for command in range(20):
        said = ask(server.smb_port, frame(negotiate()), frame(header(command, 1, session=12345) + bytes(120)))
        rest = said[4 + struct.unpack(">I", said[:4])[0]:]
        # An ECHO alone is answered, and the end of what was never there.
        if rest and command != 13:
            assert status(rest) >> 30 == 3, command


@pytest.mark.parametrize("bytes_cut", [1, 8, 20, 40])
@pytest.mark.parametrize("command", range(3, 19))
def test_bodies_cut_short(server, share, command, bytes_cut):
    """Lengths and offsets that lead out of the message, from a client that is known."""
    with smb.Client(server.smb_port, share.share_name) as client:
        if command == 12:
            return  # nobody answers a cancellation
        client.connection.supports_multi_credit = False  # smbprotocol would look into what it cannot read
        for filler in (b"\0", b"\xff"):
            try:
                client.ask(smb.Raw(command, filler * max(60 - bytes_cut, 2)))
            except smb.Refused:
                pass
            except smb.GONE:
                return


def memory_mib(server):
    return int(re.search(r"^VmRSS:\s+(\d+)", Path(f"/proc/{server.process.pid}/status").read_text(), re.MULTILINE).group(1)) >> 10


# What one connection may keep, and what a program that has begun to work takes besides.
CONNECTION_MIB, BESIDES_MIB = 64, 96
ASKED_MIB = 400


@pytest.mark.parametrize("is_sealed", [True, False], ids=["encrypted", "signed"])
def test_who_asks_and_takes_no_answers(server, offering, is_sealed):
    """Answers that are not taken take no more room than one connection has, and nobody else waits for that."""
    one = server if is_sealed else offering
    with file_client(one.endpoint_of("file")) as shares:
        share = shares.create_share(fresh_name("s"))
        share.get_file_client("f").upload_file(bytes(8 << 20))
        with smb.Client(one.smb_port, share.share_name, encrypts=is_sealed) as client:
            handle = client.open("f", smb.READ, "RWD")
            client.connection.echo(client.session.session_id, credit_request=8000)
            before, goes_on, receive = memory_mib(one), threading.Event(), client.connection.transport.recv
            client.connection.transport.recv = lambda *arguments: (goes_on.wait(60), receive(*arguments))[1]
            for at in range(ASKED_MIB):
                asked = SMB2ReadRequest()
                asked["length"], asked["offset"], asked["file_id"] = 1 << 20, at % 8 << 20, handle.id
                client.send(asked)
            with smb.Client(one.smb_port, share.share_name) as other, other.open("f", smb.READ, "RWD") as reading:
                for at in range(64):
                    assert reading.read(at % 8 << 20, 1 << 20) == bytes(1 << 20)
            assert memory_mib(one) < before + CONNECTION_MIB + BESIDES_MIB
            goes_on.set()


BUDGET_MIB = 64


@pytest.fixture
def narrow():
    """A server on which all SMB connections have little together; and a share of it with a file of 8 MiB."""
    with run(extra=["--smb-buffered-mib-max", str(BUDGET_MIB)]) as one, file_client(one.endpoint_of("file")) as shares:
        share = shares.create_share("narrow")
        share.get_file_client("f").upload_file(bytes(8 << 20))
        clients = []

        def connect():
            clients.append(smb.Client(one.smb_port, "narrow"))
            clients[-1].connection.echo(clients[-1].session.session_id, credit_request=8000)
            return clients[-1]

        yield SimpleNamespace(server=one, connect=connect)
        for client in clients:
            client.drop()
        assert one.process.poll() is None, "the server died:\n" + "".join(one.output[-40:])


def small_work(client, name):
    """What always goes on, however little room others leave."""
    client.make(name, b"x" * 4096)
    with client.open(name, smb.READ | smb.DELETE, "RWD") as file:
        file.lock()
        assert file.read(0, 4096) == b"x" * 4096
        file.unlock()
        file.mark_for_deletion()


def read_request(handle, at):
    asked = SMB2ReadRequest()
    asked["length"], asked["offset"], asked["file_id"] = 1 << 20, at % 8 << 20, handle.id
    return asked


def test_many_who_ask_and_take_no_answers(narrow):
    """Together they keep no more than all connections may; who asks for little goes on; and each gets its answers in the end."""
    before, goes_on, waiting = memory_mib(narrow.server), threading.Event(), []
    for _ in range(12):
        client = narrow.connect()
        handle, receive = client.open("f", smb.READ, "RWD"), client.connection.transport.recv
        client.connection.transport.recv = lambda *arguments, receive=receive: (goes_on.wait(60), receive(*arguments))[1]
        waiting.append((client, [client.send(read_request(handle, at)) for at in range(60)]))
    other = narrow.connect()
    for number in range(20):
        small_work(other, f"small{number}")
    assert memory_mib(narrow.server) < before + BUDGET_MIB + BESIDES_MIB
    goes_on.set()
    for client, requests in waiting:
        assert all(len(client.receive(request)) > 1 << 20 for request in requests)


def begin_frame(plug):
    """Most of one, as far as it is taken."""
    try:
        plug.sendall(struct.pack(">I", 8 << 20) + bytes(7 << 20))
    except OSError:
        pass  # it was cut off


def test_many_who_begin_long_frames(narrow):
    """What is announced is not read before there is room for it; when those who hold it leave, others go on."""
    before, begun, sending = memory_mib(narrow.server), [], []
    for _ in range(12):
        begun.append(narrow.connect())
        plug = begun[-1].connection.transport._sock
        sending.append(threading.Thread(target=begin_frame, args=(plug,), daemon=True))
        sending[-1].start()
    # Half of the budget is for frames, which has room for three of them.
    smb.eventually(lambda: sum(not one.is_alive() for one in sending) >= 3)
    assert memory_mib(narrow.server) < before + BUDGET_MIB + BESIDES_MIB
    other = narrow.connect()
    small_work(other, "small")
    with other.open("large", smb.EVERYTHING, "RWD", smb.CREATE) as file:
        writing = threading.Thread(target=file.write, args=(bytes(8 << 20),), daemon=True)
        writing.start()
        writing.join(2)
        assert writing.is_alive(), "there is no room for it"
        small_work(narrow.connect(), "another")
        for client in begun:
            client.connection.transport._sock.shutdown(socket.SHUT_RDWR)
        writing.join(20)
        assert not writing.is_alive() and file.standard().bytes == 8 << 20


def test_who_waits_for_others_holds_no_room(narrow):
    """A lock may be waited for without end, by a request of any length."""
    with narrow.connect().open("f", smb.EVERYTHING, "RWD") as holder:
        holder.lock(0, 10)
        waiting = []
        for _ in range(10):
            client = narrow.connect()
            handle = client.open("f", smb.EVERYTHING, "RWD")
            lock = struct.pack("<HHI16sQQII", 48, 1, 0, handle.id, 0, 10, 1, 0)
            waiting.append((client, client.send(smb.Raw(10, lock + bytes(8 << 20)))))
            assert smb.is_pending(waiting[-1][1])
        narrow.connect().make("large", bytes(8 << 20))
        holder.unlock(0, 10)
        for client, request in waiting:
            client.receive(request)
            client.drop()


def test_no_frame_is_longer_than_a_frame_can_be(narrow):
    """A length has three bytes (MS-SMB2 2.1). What does not fit into the answer to a chain is refused; what comes after it is not."""
    client = narrow.connect()
    handle = client.open("f", smb.READ, "RWD")

    def read(length):
        asked = SMB2ReadRequest()
        asked["length"], asked["offset"], asked["file_id"] = length, 0, handle.id
        return asked

    requests = client.send_chain([read(8 << 20), read(7 << 20), read(2 << 20), read(8 << 20), read(4096)])
    answers = []
    for request in requests:
        try:
            answers.append(len(client.receive(request)) - 16)
        except smb.Refused as refused:
            answers.append(refused.status)
    assert answers == [8 << 20, 7 << 20, "INSUFFICIENT_RESOURCES", "INSUFFICIENT_RESOURCES", 4096]


def test_nothing_waits_in_the_middle_of_a_chain(share, client):
    """What waits for something that may never happen would keep all behind it from being done (MS-SMB2 3.3.5.2.7)."""
    with client.directory() as root:
        watch = smb.Raw(15, struct.pack("<HHI16sII", 32, 0, 4096, root.id, 1, 0))
        requests = client.send_chain([watch, SMB2Echo()])
        with smb.refused("INTERNAL_ERROR"):
            client.receive(requests[0], 10)
        client.receive(requests[1], 10)
        # At its end it may.
        requests = client.send_chain([SMB2Echo(), watch])
        client.receive(requests[0], 10)
        assert smb.is_pending(requests[1])
        client.make("f")
        client.receive(requests[1], 10)


MORE_THAN_PAID_FOR = (64 << 10) + 1

UNPAID = {
    "read": (8, lambda handle, size: struct.pack("<HBBIQ16sIIIHHB", 49, 0, 0, size, 0, handle.id, 0, 0, 0, 0, 0, 0)),
    "control": (11, lambda handle, size: struct.pack("<HHI16sIIIIIIII", 57, 0, 0x001400_78, handle.id, 0, 0, 0, 0, 0, size, 1, 0)),
    "directory": (14, lambda handle, size: struct.pack("<HBBI16sHHI", 33, 12, 1, 0, handle.id, 96, 2, size) + b"*\0"),
    "watch": (15, lambda handle, size: struct.pack("<HHI16sII", 32, 0, size, handle.id, 1, 0)),
    "information": (16, lambda handle, size: struct.pack("<HBBIHHIII16s", 41, 1, 4, size, 0, 0, 0, 0, 0, handle.id)),
}


@pytest.mark.parametrize("what", UNPAID)
def test_no_answer_is_longer_than_was_paid_for(share, client, what):
    """A credit for every 64 KiB, whatever is asked (MS-SMB2 3.3.5.2.5)."""
    client.make("f", b"x")
    client.connection.supports_multi_credit = False
    command, asked = UNPAID[what]
    with client.open("f", smb.READ, "RWD") if what == "read" else client.directory() as handle:
        if what != "watch":
            client.ask(smb.Raw(command, asked(handle, MORE_THAN_PAID_FOR - 1)))
        with smb.refused("INVALID_PARAMETER"):
            client.ask(smb.Raw(command, asked(handle, MORE_THAN_PAID_FOR)))


STRANGERS = {
    "sessions": [negotiate(), lambda number: header(1, number) + struct.pack("<HBBIIHHQ", 25, 0, 1, 0, 0, 88, 0, 0)],
    "dialects": [negotiate((0x0202,)), lambda number: negotiate((0x0202,), message_id=number)],
}


@pytest.mark.parametrize("what", STRANGERS)
def test_strangers_who_take_no_answers(server, share, what):
    """Nobody has to say who they are to be answered; whoever does not read the answers is not heard any longer."""
    first, more = STRANGERS[what]
    before, sent_bytes = memory_mib(server), 0
    with socket.create_connection(("127.0.0.1", server.smb_port), timeout=10) as one:
        one.sendall(frame(first))
        one.recv(65536)
        one.settimeout(3)
        try:
            # Far more than sockets hold.
            for number in range(1, 1_000_000, 1000):
                sent_bytes += one.send(b"".join(frame(more(number + at)) for at in range(1000)))
        except (ConnectionError, TimeoutError):
            pass
        assert sent_bytes < 64 << 20
        assert memory_mib(server) < before + 32
    with smb.Client(server.smb_port, share.share_name) as client:
        client.make("f", b"alive")


def test_strangers_who_begin_and_do_not_end(server):
    """Only so many are asked at a time who they are, as long as nobody has said it."""
    token = b"NTLMSSP\0" + struct.pack("<II", 1, 0xE2088297) + bytes(16)
    asked = [header(1, number) + struct.pack("<HBBIIHHQ", 25, 0, 1, 0, 0, 88, len(token), 0) + token for number in range(1, 31)]
    said, statuses = ask(server.smb_port, frame(negotiate()), *map(frame, asked)), []
    while said:
        statuses.append(status(said))
        said = said[4 + struct.unpack(">I", said[:4])[0]:]
    assert statuses == [0] + [0xC0000016] * 16 + [0xC000009A] * 14


def test_strangers_who_begin_with_nonsense(server):
    """Nothing is kept of whoever is refused with the first word, so that the next may still say who it is."""
    asked = [header(1, number) + struct.pack("<HBBIIHHQ", 25, 0, 1, 0, 0, 88, 8, 0) + b"nonsense" for number in range(1, 41)]
    said, statuses = ask(server.smb_port, frame(negotiate()), *map(frame, asked)), []
    while said:
        statuses.append(status(said))
        said = said[4 + struct.unpack(">I", said[:4])[0]:]
    assert statuses == [0] + [0xC000000D] * 40
