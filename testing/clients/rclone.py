#!/usr/bin/env python3
"""`rclone` with its azureblob backend: copy, sync, check and what else it does with containers and blobs.

    with-server --tokens VENV/bin/python testing/clients/rclone.py

Path style is what it calls the emulator, with an address of our own. Releases before 1.61 know host style over https alone.
"""

import contextlib
import hashlib
import json
import os
import random
import re
import select
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import urlsplit

from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
ENDPOINT = os.environ["LAZULI_BLOB_ENDPOINT"]
SECURE = os.environ.get("LAZULI_TOKENS_ENDPOINT")
MIB = 1 << 20
done = []


class Remote:
    """One way to the server: `rclone` with the settings for it."""

    def __init__(self, settings, environment=None):
        configured = {f"RCLONE_CONFIG_LAZULI_{name.upper()}": value for name, value in dict(settings, type="azureblob").items()}
        self.environment = dict(os.environ, RCLONE_CONFIG="/dev/null", **configured, **environment or {})

    def __call__(self, words, *more, given=None, fails=False):
        """Runs `rclone WORDS...`; gives what it printed."""
        command = ["rclone", *words.split(), *map(str, more), "--retries", "1", "--low-level-retries", "1"]
        ran = subprocess.run(command, env=self.environment, input=given, capture_output=True, timeout=120)
        if (ran.returncode != 0) != fails:
            sys.exit(f"{' '.join(command)}: ended with {ran.returncode}\n{ran.stdout.decode(errors='replace')}{ran.stderr.decode(errors='replace')}")
        done.append(words.split()[0])
        return ran.stdout


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: {got!r}, expected {wanted!r}")


def version():
    said = subprocess.run(["rclone", "version"], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, re.search(r"v(\d+)\.(\d+)", said).groups()))


def make_tree(root):
    """Small files, files of several chunks, and names that need care."""
    draw = random.Random(6)
    files = {
        "a.txt": b"a", "empty": b"", "dir/b b.txt": b"b" * 1000, "dir/deep/c+%41&\u00fc.bin": draw.randbytes(70_000), "dir/deep/.hidden": b"x",
        "large/one.bin": draw.randbytes(5 * MIB), "large/uneven.bin": draw.randbytes(3 * MIB + 12_345),
    }
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return files


def md5(content):
    return hashlib.md5(content).hexdigest()


def story(rclone, folder):
    """Everything that is built, in chunks of 1 MiB so that several blocks make a blob."""
    cut = ["--azureblob-chunk-size", "1Mi", "--azureblob-upload-concurrency", "4"]
    source, back = folder / "source", folder / "back"
    files = make_tree(source)
    rclone("mkdir lazuli:box")
    rclone("mkdir lazuli:box")  # there already, and that is fine
    expect("containers", "box" in rclone("lsd lazuli:").decode().split(), True)

    rclone("copy", source, "lazuli:box/tree", *cut)
    listed = {one["Path"]: (one["Size"], one["Hashes"]["md5"]) for one in json.loads(rclone("lsjson -R --hash --files-only lazuli:box/tree"))}
    expect("lsjson", listed, {name: (len(content), md5(content)) for name, content in files.items()})
    rclone("check", source, "lazuli:box/tree")
    rclone("check --download", source, "lazuli:box/tree")
    sums = dict(reversed(line.split("  ", 1)) for line in rclone("hashsum MD5 lazuli:box/tree").decode().splitlines())
    expect("hashsum", sums, {name: md5(content) for name, content in files.items()})
    names = {line.strip().split(" ", 1)[1]: int(line.strip().split(" ", 1)[0]) for line in rclone("ls lazuli:box/tree").decode().splitlines()}
    expect("ls", names, {name: len(content) for name, content in files.items()})
    expect("lsl", len(rclone("lsl lazuli:box").splitlines()), len(files))
    expect("lsf", sorted(rclone("lsf lazuli:box/tree").decode().split()), ["a.txt", "dir/", "empty", "large/"])
    expect("lsf in pages", len(rclone("lsf -R --files-only --azureblob-list-chunk 2 lazuli:box").splitlines()), len(files))
    expect("size", json.loads(rclone("size --json lazuli:box"))["bytes"], sum(map(len, files.values())))
    expect("modification times", {one["Path"]: one["ModTime"][:19] for one in json.loads(rclone("lsjson lazuli:box/tree --files-only"))}["a.txt"],
           datetime.fromtimestamp((source / "a.txt").stat().st_mtime, timezone.utc).isoformat()[:19])

    rclone("copy lazuli:box/tree", back, "--multi-thread-cutoff", "2Mi", "--multi-thread-streams", "4")
    expect("what came back", {name: (back / name).read_bytes() for name in files} == files, True)
    expect("cat", rclone("cat lazuli:box/tree/a.txt"), b"a")
    expect("a part", rclone("cat --offset 1000 --count 50 lazuli:box/tree/large/one.bin"), files["large/one.bin"][1000:1050])
    rclone("rcat lazuli:box/said", given=b"said aloud")
    expect("rcat", rclone("cat lazuli:box/said"), b"said aloud")
    long = random.Random(7).randbytes(3 * MIB + 1)
    rclone("rcat lazuli:box/long", *cut, given=long)
    expect("rcat of several blocks", rclone("cat lazuli:box/long") == long, True)
    rclone("copyto", source / "a.txt", "lazuli:box/named differently")
    expect("copyto", rclone("cat", "lazuli:box/named differently"), b"a")
    rclone("touch -t 2020-01-02T03:04:05 lazuli:box/said")
    expect("touch", json.loads(rclone("lsjson lazuli:box/said"))[0]["ModTime"][:19], "2020-01-02T03:04:05")

    # A sync brings what changed and takes away what is gone, and nothing else.
    (source / "a.txt").write_bytes(b"changed")
    (source / "dir/b b.txt").unlink()
    (source / "new.txt").write_bytes(b"new")
    rclone("check", source, "lazuli:box/tree", fails=True)
    rclone("sync", source, "lazuli:box/tree", *cut)
    rclone("check --download", source, "lazuli:box/tree")
    expect("after a sync", rclone("cat lazuli:box/tree/a.txt"), b"changed")
    rclone("sync lazuli:box/tree", back)
    expect("synced back", (back / "dir/b b.txt").exists(), False)
    rclone("sync --dry-run", source, "lazuli:box/other")
    expect("a dry run", rclone("lsf lazuli:box/other"), b"")

    rclone("deletefile lazuli:box/said")
    rclone("delete --include *.bin lazuli:box/tree")
    left = sorted(rclone("lsf -R --files-only lazuli:box/tree").decode().splitlines())
    expect("after a delete", left, ["a.txt", "dir/deep/.hidden", "empty", "new.txt"])
    rclone("rmdir lazuli:box", fails=True)  # not empty
    rclone("purge lazuli:box/tree/dir")
    rclone("purge lazuli:box")
    rclone("mkdir lazuli:empty")
    rclone("rmdir lazuli:empty")
    expect("containers", {"box", "empty"} & set(rclone("lsd lazuli:").decode().split()), set())


def copies(rclone):
    rclone("mkdir lazuli:copies")
    rclone("rcat lazuli:copies/a", given=b"a")
    for words in ("copyto lazuli:copies/a lazuli:copies/b", "moveto lazuli:copies/a lazuli:copies/c"):
        rclone(words)
    expect("copies", rclone("lsf lazuli:copies").decode().split(), ["b", "c"])
    expect("copied", rclone("cat lazuli:copies/b"), b"a")
    rclone("purge lazuli:copies")


def smoke(rclone):
    rclone("mkdir lazuli:smoke")
    content = random.Random(8).randbytes(2 * MIB + 1)
    rclone("rcat lazuli:smoke/dir/x", "--azureblob-chunk-size", "1Mi", given=content)
    expect("round trip", rclone("cat lazuli:smoke/dir/x") == content, True)
    expect("names", rclone("lsf -R --files-only lazuli:smoke"), b"dir/x\n")
    rclone("purge lazuli:smoke")


class Tunnel(socketserver.BaseRequestHandler):
    """CONNECT to a name below localhost is a connection to this machine (RFC 6761 section 6.3); not every resolver knows."""

    def handle(self):
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.request.recv(4096)
        host, port = head.split()[1].decode().rsplit(":", 1)
        if not host.endswith(".localhost"):
            return
        with socket.create_connection(("127.0.0.1", int(port))) as there:
            self.request.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            ends = {self.request: there, there: self.request}
            while True:
                for end in select.select(list(ends), [], [])[0]:
                    piece = end.recv(1 << 16)
                    if not piece:
                        return
                    ends[end].sendall(piece)


@contextlib.contextmanager
def tunnel():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Tunnel) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def main():
    token = generate_account_sas(ACCOUNT, KEY, ResourceTypes(service=True, container=True, object=True),
                                 AccountSasPermissions(read=True, write=True, delete=True, list=True, add=True, create=True),
                                 datetime.now(timezone.utc) + timedelta(hours=1))
    path_style = Remote(dict(use_emulator="true", endpoint=ENDPOINT))
    with tempfile.TemporaryDirectory() as folder:
        story(path_style, Path(folder))
    copies(path_style)
    smoke(Remote(dict(sas_url=f"{ENDPOINT}?{token}")))
    ways = ["path style with the key and with a token"]
    if SECURE:
        host = f"blob.localhost:{urlsplit(SECURE).port}"
        with tunnel() as proxy:
            host = host if version() < (1, 61) else f"https://{ACCOUNT}.{host}"
            smoke(Remote(dict(account=ACCOUNT, key=KEY, env_auth="false", endpoint=host), dict(HTTPS_PROXY=proxy, RCLONE_CA_CERT=os.environ["LAZULI_CERTIFICATE"])))
        ways.append("host style over https with the key")
    print(f"rclone {'.'.join(map(str, version()))}: {len(done)} commands, {len(set(done))} kinds, all as expected; {'; '.join(ways)}")


if __name__ == "__main__":
    main()
