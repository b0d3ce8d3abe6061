"""Limits that hold, tried from outside with bare sockets against limits that are short: who goes over one gets the service's own
error or is let go, and everybody else is served meanwhile."""

import os
import socket
import ssl
import struct
import threading
import time
from pathlib import Path

import pytest

import smb
from common import file_client, fresh_name
from wire import ask, code, connect, everything, seconds_until_closed, signed, status

IDLE, STALL = 2, 4
PUT = {"x-ms-blob-type": "BlockBlob"}


@pytest.fixture
def server(start):
    one = start("--idle-timeout", IDLE, "--smb-idle-timeout", IDLE, "--stall-timeout", STALL)
    assert status(ask(one.port, signed("PUT", "/box?restype=container"))) == 201
    return one


def is_served(server, source=None):
    return status(ask(server.port, signed("GET", "/box?comp=list&restype=container"), source)) == 200


# --- time ----------------------------------------------------------------------------------------------------------

def test_who_says_nothing_is_let_go(server):
    with connect(server.port) as one:
        seconds, said = seconds_until_closed(one)
    assert said == b"" and IDLE - 0.5 < seconds < IDLE + 3


def test_who_has_nothing_more_to_ask_is_let_go(server):
    with connect(server.port) as one:
        one.sendall(signed("GET", "/box?comp=list&restype=container", close=False))
        seconds, said = seconds_until_closed(one)
    assert status(said) == 200 and IDLE - 0.5 < seconds < IDLE + 3


def drip(connection, data, seconds_max):
    """A byte now and then; after how long it was let go, and what was said."""
    begun = time.monotonic()
    connection.settimeout(0.3)
    said = b""
    for byte in data:
        try:
            connection.sendall(bytes([byte]))
            part = connection.recv(65536)
        except TimeoutError:
            if time.monotonic() - begun > seconds_max:
                return None, said
            continue
        except ConnectionError:
            part = b""
        said += part
        if not part:
            break
    return time.monotonic() - begun, said


def test_a_head_that_drips(server):
    with connect(server.port) as one:
        seconds, said = drip(one, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 50, STALL + 5)
    assert said == b"" and seconds is not None and seconds < STALL / 2 + 2
    assert is_served(server)


def test_a_body_that_drips(server):
    """Never without a byte for long, and yet too slow: the service gives ten minutes to a megabyte."""
    with connect(server.port) as one:
        one.sendall(signed("PUT", "/box/slow", headers=PUT | {"Content-Length": "100000"}))
        seconds, said = drip(one, b"x" * 100, STALL + 6)
    assert (status(said), code(said)) == (500, "OperationTimedOut") and STALL - 0.5 < seconds < STALL + 4
    assert status(ask(server.port, signed("GET", "/box/slow"))) == 404, "nothing of it was stored"


def test_a_body_that_stops(server):
    with connect(server.port) as one:
        one.sendall(signed("PUT", "/box/half", b"half", headers=PUT | {"Content-Length": "8"}))
        seconds, said = seconds_until_closed(one)
    assert (status(said), code(said)) == (500, "OperationTimedOut") and STALL - 0.5 < seconds < STALL + 4


def test_an_answer_that_nobody_takes(server):
    body = b"z" * (16 << 20)
    assert status(ask(server.port, signed("PUT", "/box/large", body, headers=PUT))) == 201
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(30)
        one.connect(("127.0.0.1", server.port))
        one.sendall(signed("GET", "/box/large"))
        time.sleep(STALL + 3)
        assert len(everything(one)) < len(body), "what was under way when it was let go, and no more"
    assert is_served(server)


def test_answers_that_nobody_takes_over_tls(start, certificate):
    """TLS takes answers into memory of its own, so that writing them goes well for a while: many small ones as well as one."""
    server = start("--stall-timeout", STALL, tls=certificate)
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    before, clients = sockets_of(server), []
    for _ in range(4):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(2)
        one.connect(("127.0.0.1", server.port))
        clients.append(trusting.wrap_socket(one))
        try:
            clients[-1].sendall(b"GET /devstoreaccount1/x HTTP/1.1\r\nHost: a\r\n\r\n" * 60_000)
        except OSError:
            pass  # nobody takes more of it
    begun = time.monotonic()
    while sockets_of(server) > before and time.monotonic() - begun < 3 * STALL:
        time.sleep(0.2)
    assert sockets_of(server) <= before
    for one in clients:
        one.close()


def test_a_handshake_that_stops(start, certificate):
    one = start("--stall-timeout", STALL, tls=certificate)
    for said in (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"):
        with connect(one.port) as client:
            client.sendall(said)
            seconds, _ = seconds_until_closed(client)
        assert seconds < STALL / 2 + 2, said


# --- SMB -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("said", [b"", b"\0\0", struct.pack(">I", 60000) + b"\xfeSMB"], ids=["nothing", "half a length", "half a frame"])
def test_who_does_not_say_who_it_is(server, said):
    with connect(server.smb_port) as one:
        one.sendall(said)
        seconds, answer = seconds_until_closed(one)
    assert answer == b"" and seconds < STALL / 2 + 2


def test_a_client_of_smb_that_rests(server):
    """With something open it may; without, it is let go."""
    with file_client(server.endpoint_of("file")) as shares:
        share = shares.create_share(fresh_name("s")).share_name
    with smb.Client(server.smb_port, share) as busy:
        opened = busy.open("f", disposition=smb.CREATE)
        idle = smb.Client(server.smb_port, share)
        time.sleep(IDLE + 2)
        with pytest.raises(smb.GONE):
            idle.open("g", disposition=smb.CREATE)
        opened.write(b"still here", 0)
        opened.close()


def test_a_frame_of_a_known_client_that_stops(server):
    with file_client(server.endpoint_of("file")) as shares:
        share = shares.create_share(fresh_name("s")).share_name
    client = smb.Client(server.smb_port, share)
    client.open("f", disposition=smb.CREATE)
    client.connection.transport._sock.sendall(struct.pack(">I", 1 << 20) + b"\xfdSMB")
    time.sleep(STALL + 2)
    with pytest.raises(smb.GONE):
        client.open("g", disposition=smb.CREATE)


# --- size ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("head, expected", [
    (b"GET /" + b"t" * 40_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", (414, "InvalidUri")),
    (b"GET /" + b"t" * 100_000, (414, "InvalidUri")),
    (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * 200 + b"\r\n", (431, "InvalidHeaderValue")),
    (b"GET / HTTP/1.1\r\nHost: a\r\na: " + b"b" * 100_000, (431, "InvalidHeaderValue")),
], ids=["target", "endless target", "many headers", "long header"])
def test_heads_that_are_too_much(server, head, expected):
    said = ask(server.port, head)
    assert (status(said), code(said)) == expected
    assert is_served(server)


@pytest.mark.parametrize("service, target, length, headers", [
    ("blob", "/box/b", 5000 << 20, PUT),
    ("blob", "/box/b?comp=blocklist", 8 << 20, {}),
    ("blob", "/box?comp=acl&restype=container", 64 << 10, {}),
    ("queue", "/?comp=properties&restype=service", 64 << 10, {}),
])
def test_bodies_that_are_too_much(server, service, target, length, headers):
    """Said at once: not a byte of such a body is waited for."""
    said = ask(server.ports[service], signed("PUT", target, headers=headers | {"Content-Length": str(length + 1)}))
    assert (status(said), code(said)) == (413, "RequestBodyTooLarge")


@pytest.mark.parametrize("sent", [
    b"1;" + b"e" * 3000 + b"\r\nx\r\n",
    b"0\r\n" + b"t: v\r\n" * 20_000,
    b"5 \r\nhello\r\n0\r\n\r\n",
    b"0\r\nno trailer\r\n\r\n",
], ids=["extensions", "trailers", "a blank", "no trailer"])
def test_chunks_that_are_none(server, sent):
    request = signed("PUT", "/box/chunked", headers=PUT | {"Content-Length": ""}, close=False)
    request = request.replace(b"Content-Length: \r\n", b"Transfer-Encoding: chunked\r\n")
    said = ask(server.port, request + (sent * 4 if sent.startswith(b"1;") else sent) + request)
    assert status(said) == 400 and said.count(b"HTTP/1.1 ") == 1, "what follows is not looked at"
    assert status(ask(server.port, signed("GET", "/box/chunked"))) == 404, "nothing of it was stored"


# --- number --------------------------------------------------------------------------------------------------------

def listed(server, source, service="blob"):
    return ask(server.ports[service], signed("GET", "/?comp=list"), source)


def is_let_in(server, source):
    """Soon: a place is given back a moment after its client has left."""
    begun = time.monotonic()
    while status(listed(server, source)) != 200:
        if time.monotonic() - begun > 10:
            return False
    return True


def test_connections_of_one_address_and_in_all(start):
    server = start("--connections-max", 4, "--connections-per-address-max", 2)
    here = [connect(server.port, "127.0.0.1") for _ in range(2)]
    refused = listed(server, "127.0.0.1")
    assert (status(refused), code(refused)) == (503, "ServerBusy") and b"Retry-After: 1" in refused
    assert is_let_in(server, "127.0.0.2"), "others are served"
    # The other services and SMB stand behind the same door.
    assert status(listed(server, "127.0.0.1", "queue")) == 503
    with connect(server.smb_port, "127.0.0.1") as one:
        assert everything(one) == b""
    time.sleep(0.5)  # the places of those who were asked are free again
    there = [connect(server.port, host) for host in ("127.0.0.3", "127.0.0.4")]
    assert status(listed(server, "127.0.0.2")) == 503, "as many as allowed are open"
    words = "".join(server.output).count("refused a connection")
    assert all(status(listed(server, "127.0.0.5")) == 503 for _ in range(30))
    assert "".join(server.output).count("refused a connection") <= words + 1, "one word, not one for each"
    for one in here + there:
        one.close()
    assert all(is_let_in(server, "127.0.0.1") for _ in range(10)), "places are given back"


def sockets_of(server):
    def is_socket(file):
        try:
            return os.readlink(file).startswith("socket:")
        except OSError:
            return False  # closed since
    return sum(map(is_socket, Path(f"/proc/{server.process.pid}/fd").iterdir()))


def test_a_storm_takes_no_files(start):
    """Whoever is turned away has a file of the program's for a moment. However many come, those who write do not feel it: a store that gets
    no file for its next journal would stop until the next start."""
    connections, told = 8, 64
    server = start("--connections-max", connections, "--connections-per-address-max", connections)
    assert status(ask(server.port, signed("PUT", "/box?restype=container"))) == 201
    others = sockets_of(server)
    most, stop = [0], threading.Event()

    def watch():
        while not stop.wait(0.02):
            most[0] = max(most[0], sockets_of(server))

    watching = threading.Thread(target=watch)
    watching.start()
    said = b""
    with connect(server.port, "127.0.0.2") as writer:
        storm = []
        for n in range(3000):
            one = socket.socket()
            one.setblocking(False)
            one.bind(("127.0.0.3", 0))
            one.connect_ex(("127.0.0.1", server.port))
            storm.append(one)
            if n % 100 == 0:
                writer.sendall(signed("PUT", f"/box/{n}", b"content", headers=PUT, close=False))
                said += writer.recv(65536)
            if len(storm) > 700:
                storm.pop(0).close()
        for one in storm:
            one.close()
    stop.set()
    watching.join()
    assert said.count(b"HTTP/1.1 ") == said.count(b"HTTP/1.1 201 ") == 30
    assert most[0] <= others + connections + told + 2, "those who wait in the kernel are not the program's yet"


def test_answers_that_are_held(start):
    """Listings that nobody reads are held whole, and there is room for so many; others are served, and content is."""
    server = start("--buffered-mib-max", 128, "--stall-timeout", STALL)
    assert status(ask(server.port, signed("PUT", "/box?restype=container"))) == 201
    names = [f"{'n' * 900}-{n}" for n in range(1500)]
    with connect(server.port) as one:
        for name in names:
            one.sendall(signed("PUT", f"/box/{name}", headers=PUT | {"x-ms-meta-m": "v" * 4000}, close=False))
            assert one.recv(65536).startswith(b"HTTP/1.1 201")
    listing = "/box?comp=list&include=metadata&restype=container"
    whole = len(ask(server.port, signed("GET", listing)))
    assert whole > 6 << 20
    greedy = []
    for _ in range((64 << 20) // whole + 4):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.bind(("127.0.0.3", 0))
        one.connect(("127.0.0.1", server.port))
        one.sendall(signed("GET", listing))
        greedy.append(one)
    busy, begun = b"", time.monotonic()
    while status(busy) != 503 and time.monotonic() - begun < STALL - 1:
        busy = ask(server.port, signed("GET", listing), "127.0.0.3")
    assert (status(busy), code(busy)) == (503, "ServerBusy") and b"Retry-After: 1" in busy
    assert status(ask(server.port, signed("GET", f"/box/{names[0]}"), "127.0.0.3")) == 200
    assert status(ask(server.port, signed("GET", listing), "127.0.0.2")) == 200, "others have room"
    for one in greedy:
        one.close()
    time.sleep(0.5)
    assert status(ask(server.port, signed("GET", listing), "127.0.0.3")) == 200, "room is given back"


def test_requests_under_way(start):
    server = start("--requests-max", 2, "--requests-per-address-max", 1)
    assert status(ask(server.port, signed("PUT", "/box?restype=container"))) == 201
    with connect(server.port, "127.0.0.1") as slow:
        whole = signed("PUT", "/box/b", b"content", headers=PUT)
        slow.sendall(whole[:-3])
        busy, begun = b"", time.monotonic()
        while status(busy) != 503 and time.monotonic() - begun < 10:  # until its head has arrived
            busy = ask(server.port, signed("GET", "/?comp=list"), "127.0.0.1")
        assert (status(busy), code(busy)) == (503, "ServerBusy") and b"Retry-After: 1" in busy
        assert status(ask(server.port, signed("GET", "/?comp=list"), "127.0.0.2")) == 200
        slow.sendall(whole[-3:])
        assert status(everything(slow)) == 201, "what was under way is done"
    assert status(ask(server.port, signed("GET", "/?comp=list"), "127.0.0.1")) == 200
