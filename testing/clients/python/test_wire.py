"""What no client shows: 100-continue, keep-alive, pipelining, bodies cut short, the drain on SIGTERM, a second server."""

import http.client
import re
import signal
import socket
import subprocess
import threading
from datetime import datetime, timedelta, timezone
from urllib.parse import urlsplit

import pytest
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

import server as servers
from server import ACCOUNT, KEY


class Wire:
    """One plain connection. Requests carry an account SAS, so that nothing has to be signed."""

    def __init__(self, endpoint):
        self.url = urlsplit(endpoint)
        self.socket = socket.create_connection((self.url.hostname, self.url.port), timeout=30)
        self.unread = b""
        self.token = generate_account_sas(
            ACCOUNT, KEY, resource_types=ResourceTypes(container=True, object=True),
            permission=AccountSasPermissions(read=True, write=True, delete=True, create=True),
            expiry=datetime.now(timezone.utc) + timedelta(hours=1))

    def request(self, method, path, headers=None, body=b""):
        lines = {"Host": self.url.netloc, "x-ms-version": "2021-12-02", **(headers or {})}
        if method == "PUT":
            lines.setdefault("Content-Length", str(len(body)))
            lines.setdefault("x-ms-blob-type", "BlockBlob")
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"{method} {self.url.path}{path}?{self.token} HTTP/1.1\r\n{head}\r\n".encode() + body

    def send(self, data):
        self.socket.sendall(data)

    def read(self, head_only=False):
        """Status, headers and body of the next answer; None if the server has closed."""
        while b"\r\n\r\n" not in self.unread:
            if not self._more():
                return None
        head, self.unread = self.unread.split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines[1:])}
        status = int(lines[0].split(" ")[1])
        length = 0 if head_only or status in (100, 304) else int(headers.get("content-length", 0))
        while len(self.unread) < length:
            assert self._more(), "the answer was cut short"
        body, self.unread = self.unread[:length], self.unread[length:]
        return status, headers, body

    def _more(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            return False
        self.unread += data
        return bool(data)

    def close(self):
        self.socket.close()


@pytest.fixture
def wire(endpoint):
    opened = []

    def connect(to=endpoint):
        opened.append(Wire(to))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


def test_continue_comes_before_the_body(container, wire):
    one = wire()
    body = b"x" * 100_000
    path = f"/{container.container_name}/b"
    one.send(one.request("PUT", path, {"Expect": "100-continue", "Content-Length": str(len(body))}))
    assert one.read()[0] == 100
    one.send(body)
    assert one.read()[0] == 201
    assert container.download_blob("b").readall() == body


@pytest.mark.azurite("asks for the body before it looks at the condition")
@pytest.mark.parametrize("name,headers,status,code", [
    ("b", {"If-None-Match": "*"}, 409, "BlobAlreadyExists"),
    ("b", {"If-Match": '"0x8D6D418B6C08663"'}, 412, "ConditionNotMet"),
    ("absent", {"If-Match": "*"}, 412, "ConditionNotMet"),
    ("b", {"x-ms-blob-type": "Nonsense"}, 400, "InvalidHeaderValue"),
])
def test_a_refusal_does_not_cost_an_upload(container, wire, name, headers, status, code):
    container.upload_blob("b", b"before")
    one = wire()
    length = {"Expect": "100-continue", "Content-Length": str(1 << 30)}
    one.send(one.request("PUT", f"/{container.container_name}/{name}", {**headers, **length}))
    seen = one.read()
    assert (seen[0], seen[1]["x-ms-error-code"]) == (status, code)
    assert container.download_blob("b").readall() == b"before"


@pytest.mark.parametrize("headers,status,code", [
    ({"If-None-Match": "*"}, 409, "BlobAlreadyExists"),
    ({"If-Match": '"0x8D6D418B6C08663"'}, 412, "ConditionNotMet"),
])
def test_who_sends_everything_first_sees_the_refusal(container, wire, headers, status, code):
    """As http.client does, which the SDK sends with: it reads no answer before the last byte of the body is gone."""
    container.upload_blob("b", b"before")
    body = bytes(64 << 20)
    one = wire()
    path = one.request("PUT", f"/{container.container_name}/b").split(b" ")[1].decode()
    for _ in range(5):
        client = http.client.HTTPConnection(one.url.hostname, one.url.port, timeout=60)
        client.request("PUT", path, body, {"x-ms-version": "2021-12-02", "x-ms-blob-type": "BlockBlob", **headers})
        answer = client.getresponse()
        assert (answer.status, answer.headers["x-ms-error-code"]) == (status, code)
        client.close()
    assert container.download_blob("b").readall() == b"before"


def test_keep_alive_and_pipelining(container, wire):
    one = wire()
    paths = [f"/{container.container_name}/{n}" for n in range(10)]
    one.send(b"".join(one.request("PUT", path, body=path.encode()) for path in paths))
    assert [one.read()[0] for _ in paths] == [201] * 10
    one.send(b"".join(one.request("GET", path) for path in paths))
    for path in paths:
        status, headers, body = one.read()
        assert (status, body) == (200, path.encode())
    one.send(one.request("HEAD", paths[0]) + one.request("GET", paths[1]))
    assert one.read(head_only=True)[1]["content-length"] == str(len(paths[0]))
    assert one.read()[2] == paths[1].encode()


@pytest.mark.azurite("answers errors in chunks, which this reader does not read")
def test_an_error_keeps_the_connection(container, wire):
    one = wire()
    one.send(one.request("GET", f"/{container.container_name}/absent"))
    status, headers, body = one.read()
    assert status == 404 and headers["x-ms-error-code"] == "BlobNotFound" and b"<Code>BlobNotFound</Code>" in body
    one.send(one.request("PUT", f"/{container.container_name}/b", body=b"x"))
    assert one.read()[0] == 201


@pytest.mark.parametrize("size", [2000, 500_000])
def test_a_body_cut_short_stores_nothing(container, wire, size):
    container.upload_blob("b", b"before")
    one = wire()
    one.send(one.request("PUT", f"/{container.container_name}/b", {"Content-Length": str(size)}, b"x" * (size // 2)))
    one.socket.shutdown(socket.SHUT_WR)
    answer = one.read()
    assert answer is None or answer[0] >= 400
    assert container.download_blob("b").readall() == b"before"


@pytest.mark.azurite("answers 400")
def test_chunked_upload(container, wire):
    one = wire()
    head = one.request("PUT", f"/{container.container_name}/b", {"Transfer-Encoding": "chunked"}).replace(b"Content-Length: 0\r\n", b"")
    one.send(head + b"5\r\nhello\r\n6;extension=1\r\n world\r\n0\r\n\r\n")
    status, headers, body = one.read()
    if status == 201:
        assert container.download_blob("b").readall() == b"hello world"
    else:  # a server may insist on a length, but must say so and store nothing
        assert status == 411 and headers["x-ms-error-code"] == "MissingContentLengthHeader"
        assert not container.get_blob_client("b").exists()


@pytest.mark.azurite("takes a PUT without a length as an empty one")
def test_put_without_a_length(container, wire):
    one = wire()
    one.send(one.request("PUT", f"/{container.container_name}/b").replace(b"Content-Length: 0\r\n", b""))
    status, headers, _ = one.read()
    assert (status, headers["x-ms-error-code"]) == (411, "MissingContentLengthHeader")


@pytest.mark.parametrize("junk", [b"\x16\x03\x01\x02\x00\x01", b"NONSENSE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                                  b"GET / HTTP/1.1\r\nbad header\r\n\r\n", b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n"])
def test_junk_is_refused_and_costs_one_connection(container, wire, junk):
    one = wire()
    one.send(junk)
    one.socket.shutdown(socket.SHUT_WR)
    answer = one.read()
    assert answer is None or 400 <= answer[0] < 600
    container.upload_blob("after", b"x", overwrite=True)


def test_headers_without_end_are_cut_off(wire, container):
    one = wire()
    try:
        one.send(b"GET / HTTP/1.1\r\n" + b"".join(b"x-%d: %s\r\n" % (n, b"y" * 1000) for n in range(5000)))
        answer = one.read()
        assert answer is None or 400 <= answer[0] < 600
    except (BrokenPipeError, ConnectionResetError):
        pass
    container.upload_blob("after", b"x")


# -- the process ---------------------------------------------------------------------------------------------------------


@pytest.mark.azurite("drops what is under way")
def test_sigterm_drains(start, tools):
    """A request under way is finished, and the process exits 0; what was acknowledged is there afterwards."""
    running = start()
    container = tools.client(running.endpoint).create_container(tools.fresh_name())
    one = Wire(running.endpoint)
    path = f"/{container.container_name}/b"
    one.send(one.request("PUT", path, {"Expect": "100-continue", "Content-Length": "300000"}))
    assert one.read()[0] == 100
    one.send(b"x" * 100_000)
    running.process.send_signal(signal.SIGTERM)
    sender = threading.Thread(target=lambda: one.send(b"x" * 200_000))
    sender.start()
    answer = one.read()
    sender.join()
    assert answer is not None and answer[0] == 201
    assert running.process.wait(30) == 0 or servers.kind() != "lazuli"
    again = servers.Server(data=running.data).start()
    try:
        assert tools.client(again.endpoint).get_blob_client(container.container_name, "b").get_blob_properties().size == 300_000
    finally:
        again.kill()


def lazuli_only():
    if servers.kind() != "lazuli":
        pytest.skip("about Lazuli's command line")


def test_a_directory_serves_one_process(start, tools):
    lazuli_only()
    running = start()
    second = servers.Server(data=running.data)
    with pytest.raises(servers.StartFailed):
        second.start()
    said = "".join(second.output)
    assert second.process.returncode != 0
    assert str(running.data) in said and re.search(r"in use|locked|another", said), said
    assert "panicked" not in said
    tools.client(running.endpoint).create_container(tools.fresh_name())  # the first is none the worse


def test_published_key_stays_on_this_machine():
    lazuli_only()
    one = servers.Server()
    command = [argument if argument != "127.0.0.1" else "0.0.0.0" for argument in one.command()]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except subprocess.TimeoutExpired:
        pytest.fail("served the published key to the network")
    finally:
        one.__exit__()
    assert ended.returncode != 0
    assert "key" in (ended.stdout + ended.stderr).lower()


def test_bad_flags_are_refused_in_words():
    lazuli_only()
    one = servers.Server()
    try:
        for bad in (["--blob-port", "nonsense"], ["--durability", "none"], ["--account", "no-key"], ["--config", "/nowhere/at/all"]):
            ended = subprocess.run(one.command() + bad, capture_output=True, text=True, timeout=30)
            assert ended.returncode != 0 and "panicked" not in ended.stderr, (bad, ended.stderr)
            assert ended.stderr.strip() or ended.stdout.strip(), bad
    finally:
        one.__exit__()


def test_relaxed_durability_serves_too(start, tools):
    lazuli_only()
    running = start(extra=["--durability", "relaxed"])
    container = tools.client(running.endpoint).create_container(tools.fresh_name())
    container.upload_blob("b", b"x" * 100_000)
    running.kill()
    again = servers.Server(data=running.data).start()  # a crash of the process loses nothing even so
    try:
        assert tools.client(again.endpoint).get_blob_client(container.container_name, "b").get_blob_properties().size == 100_000
    finally:
        again.kill()
