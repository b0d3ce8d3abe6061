"""Frames that no client sends: each ends its connection or is refused, and the server goes on (promise F1)."""

import socket
import struct

import pytest

import smb

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
