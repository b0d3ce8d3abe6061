#!/usr/bin/env python3
"""`rclone` with its azureblob and azurefiles backends: copy, sync, check and what else it does with containers and blobs, directories and files.

    with-server --tokens VENV/bin/python testing/clients/rclone.py RCLONE...

Each RCLONE is a release to try; those before 1.64 have no azurefiles. Path style is what azureblob calls the emulator, with an address of our
own. Releases before 1.61 know host style over https alone.
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

from azure.storage.blob import AccountSasPermissions, ResourceTypes, Services, generate_account_sas
from azure.storage.fileshare import ShareServiceClient

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
ENDPOINT, FILES = os.environ["LAZULI_BLOB_ENDPOINT"], os.environ.get("LAZULI_FILE_ENDPOINT")
SECURE, SECURE_FILES = os.environ.get("LAZULI_TOKENS_ENDPOINT"), os.environ.get("LAZULI_TOKENS_FILE_ENDPOINT")
SHARE = "rclone"
MIB = 1 << 20
done = []


class Remote:
    """One way to the server: a release of `rclone`, one of its backends, and the settings for it."""

    def __init__(self, program, backend, settings, environment=None):
        self.program, self.backend = program, backend
        configured = {f"RCLONE_CONFIG_LAZULI_{name.upper()}": value for name, value in dict(settings, type=backend).items()}
        self.environment = dict(os.environ, RCLONE_CONFIG="/dev/null", **configured, **environment or {})

    def __call__(self, words, *more, given=None, fails=False):
        """Runs `rclone WORDS...`; gives what it printed."""
        command = [self.program, *words.split(), *map(str, more), "--retries", "1", "--low-level-retries", "1"]
        ran = subprocess.run(command, env=self.environment, input=given, capture_output=True, timeout=120)
        if (ran.returncode != 0) != fails:
            sys.exit(f"{' '.join(command)}: ended with {ran.returncode}\n{ran.stdout.decode(errors='replace')}{ran.stderr.decode(errors='replace')}")
        done.append(words.split()[0])
        return ran.stdout


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: {got!r}, expected {wanted!r}")


def ask(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout


def version(program):
    return tuple(map(int, re.search(r"v(\d+)\.(\d+)", ask(program, "version")).groups()))


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
    """Everything it does, in chunks of 1 MiB so that several blocks make a blob, several ranges a file. `box` is a container or a directory."""
    cut = [f"--{rclone.backend}-chunk-size", "1Mi", f"--{rclone.backend}-upload-concurrency", "4"]
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
    if rclone.backend == "azureblob":
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
    expect("a dry run", "other/" in rclone("lsf lazuli:box").decode().split(), False)

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
    rclone("rcat lazuli:smoke/dir/x", f"--{rclone.backend}-chunk-size", "1Mi", given=content)
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


def token():
    return generate_account_sas(ACCOUNT, KEY, ResourceTypes(service=True, container=True, object=True),
                                AccountSasPermissions(read=True, write=True, delete=True, list=True, add=True, create=True),
                                datetime.now(timezone.utc) + timedelta(hours=1), services=Services(blob=True, fileshare=True))


def secure(proxy):
    """How to reach the server over https: what it presents is trusted, and names below localhost lead to it."""
    return dict(HTTPS_PROXY=proxy, RCLONE_CA_CERT=os.environ["LAZULI_CERTIFICATE"])


def blobs(program, folder):
    path_style = Remote(program, "azureblob", dict(use_emulator="true", endpoint=ENDPOINT))
    story(path_style, folder)
    copies(path_style)
    smoke(Remote(program, "azureblob", dict(sas_url=f"{ENDPOINT}?{token()}")))
    if SECURE:
        host = f"blob.localhost:{urlsplit(SECURE).port}"
        host = host if version(program) < (1, 61) else f"https://{ACCOUNT}.{host}"
        with tunnel() as proxy:
            smoke(Remote(program, "azureblob", dict(account=ACCOUNT, key=KEY, env_auth="false", endpoint=host), secure(proxy)))


def files(program, folder):
    share = dict(share_name=SHARE)
    ShareServiceClient(FILES, credential=KEY).create_share(SHARE)
    path_style = Remote(program, "azurefiles", dict(share, account=ACCOUNT, key=KEY, endpoint=FILES))
    story(path_style, folder)
    copies(path_style)
    smoke(Remote(program, "azurefiles", dict(share, sas_url=f"{FILES}?{token()}")))
    smoke(Remote(program, "azurefiles", dict(share, connection_string=f"AccountName={ACCOUNT};AccountKey={KEY};FileEndpoint={FILES}")))
    if SECURE_FILES:
        ShareServiceClient(SECURE_FILES, credential=KEY, connection_verify=os.environ["LAZULI_CERTIFICATE"]).create_share(SHARE)
        host = f"https://{ACCOUNT}.file.localhost:{urlsplit(SECURE_FILES).port}"
        with tunnel() as proxy:
            smoke(Remote(program, "azurefiles", dict(share, account=ACCOUNT, key=KEY, endpoint=host), secure(proxy)))


def main(programs):
    for program in programs:
        parts = [blobs]
        if FILES and "azurefiles" in ask(program, "help", "backends"):
            parts.append(files)
        for part in parts:
            done.clear()
            with tempfile.TemporaryDirectory() as folder:
                part(program, Path(folder))
            name = f"rclone {'.'.join(map(str, version(program)))}, {part.__name__}"
            print(f"{name}: {len(done)} commands, {len(set(done))} kinds, all as expected; path style with the key and with a token"
                  + ("; host style over https with the key" if SECURE else ""))


if __name__ == "__main__":
    main(sys.argv[1:] or ["rclone"])
