"""Sockets, and requests as bytes."""

import base64
import hashlib
import hmac
import resource
import socket
import time
from email.utils import formatdate

from server import ACCOUNT, KEY

# Whoever waits longer waits for ever.
SECONDS_MAX = 30


def allow_files(count):
    """Lets this process, and what it starts, have so many sockets; how many it may really have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = count if hard == resource.RLIM_INFINITY else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    return count


def connect(port, source=None):
    """From any address of the loopback network: each is a client of its own."""
    return socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX, source_address=source and (source, 0))


def everything(connection):
    """What the server says until it closes."""
    said = b""
    try:
        while part := connection.recv(65536):
            said += part
    except ConnectionError:
        pass
    return said


def seconds_until_closed(connection):
    begun = time.monotonic()
    said = everything(connection)
    return time.monotonic() - begun, said


def status(said):
    return int(said.split(b" ", 2)[1]) if said.startswith(b"HTTP/1.1 ") else 0


def code(said):
    for line in said.split(b"\r\n\r\n")[0].split(b"\r\n"):
        if line.lower().startswith(b"x-ms-error-code: "):
            return line.split(b": ")[1].decode()
    return None


def signed(method, target, body=b"", headers=(), account=ACCOUNT, key=KEY, close=True):
    """A request that the account's key signed, as far as `body` goes; `Content-Length` among the headers says more of it."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2026-04-06"} | dict(headers)
    if body or method == "PUT":
        headers.setdefault("Content-Length", str(len(body)))
    path, _, query = target.partition("?")
    length = headers.get("Content-Length", "")
    lines = [method, "", "", "" if length == "0" else length, "", headers.get("Content-Type", ""), "", "", "", "", "", ""]
    lines += sorted(f"{name.lower()}:{value}" for name, value in headers.items() if name.lower().startswith("x-ms-"))
    lines.append(f"/{account}/{account}{path}")
    lines += sorted(part.replace("=", ":", 1) for part in query.split("&") if part)
    mac = hmac.new(base64.b64decode(key), "\n".join(lines).encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(mac).decode()}"
    head = f"{method} /{account}{target} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return (head + ("Connection: close\r\n" if close else "") + "\r\n").encode() + body


def ask(port, request, source=None):
    with connect(port, source) as one:
        one.sendall(request)
        return everything(one)
