"""Samba's smbclient: trees up and down, every dialect, cipher and signature it can be made to choose, and who is not let in."""

import base64
import hashlib
import os
import random
import re
import signal
import subprocess

import pytest

from common import file_client, fresh_name
from conftest import run
from server import ACCOUNT, KEY
from smb import eventually

MIB = 1 << 20
DIALECTS = ["SMB2_10", "SMB3_00", "SMB3_02", "SMB3_11"]
CIPHERS = ["AES-128-CCM", "AES-128-GCM", "AES-256-CCM", "AES-256-GCM"]
SIGNATURES = ["HMAC-SHA256", "AES-128-CMAC", "AES-128-GMAC"]


class Failed(Exception):
    pass


@pytest.fixture(scope="session")
def conf(tmp_path_factory):
    """Settings of smbclient's own, whatever the machine has."""
    directory = tmp_path_factory.mktemp("samba")
    lines = ["[global]", "name resolve order = host", "client min protocol = SMB2_10", "client max protocol = SMB3_11"]
    for what in ("private dir", "lock directory", "state directory", "cache directory", "pid directory"):
        place = directory / what.replace(" ", "-")
        place.mkdir()
        lines.append(f"{what} = {place}")
    path = directory / "smb.conf"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def smbclient(conf, server, share, tmp_path):
    """smbclient(command, ...): what it said, or Failed with that."""

    def smbclient(*commands, on=server, name=share.share_name, user=f"{ACCOUNT}%{KEY}", protection=None, options=(), seconds=300):
        line = ["smbclient", f"//127.0.0.1/{name}", "-p", str(on.smb_port), "-s", str(conf), "-c", "; ".join(commands)]
        line += ["-U", user] if user else ["-N"]
        line += ["--client-protection", protection] if protection else []
        line += [f"--option={option}" for option in options]
        done = subprocess.run(line, capture_output=True, text=True, timeout=seconds, cwd=tmp_path, stdin=subprocess.DEVNULL,
                              env=dict(os.environ, LC_ALL="C.UTF-8", TZ="UTC"))
        said = done.stdout + done.stderr
        if done.returncode != 0 or "NT_STATUS_" in said:
            raise Failed(said)
        return said

    return smbclient


def only(dialect):
    return [f"client min protocol={dialect}", f"client max protocol={dialect}"]


def fails(match):
    return pytest.raises(Failed, match=match)


def make_tree(root, seed=1):
    """Names in several scripts, sizes around what a message holds."""
    chance, names = random.Random(seed), ["readme.txt", "Grüße aus Köln", "документ.doc", "文書", "with space", "emoji 🦀", "ÅÄÖ.TXT"]
    sizes = [0, 1, 511, 4096, 65535, 65536, 65537, 200_001, 1_100_000]
    for directory in ["", "a", "a/b", "a/b/çà et là", "空"]:
        (root / directory).mkdir(parents=True, exist_ok=True)
        for name in names:
            (root / directory / name).write_bytes(chance.randbytes(chance.choice(sizes)))
    (root / "a" / "empty").mkdir()


def read_tree(root):
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


def read_share(directory, path=""):
    """The same over REST."""
    found = {}
    for entry in directory.list_directories_and_files():
        name = f"{path}{entry['name']}"
        if entry["is_directory"]:
            found[name] = None
            found |= read_share(directory.get_subdirectory_client(entry["name"]), f"{name}/")
        else:
            found[name] = directory.get_file_client(entry["name"]).download_file().readall()
    return found


def test_f1_trees(smbclient, share, tmp_path):
    """F1: a tree that is written over SMB is the same over REST, and comes back byte for byte."""
    up, down = tmp_path / "up", tmp_path / "down"
    make_tree(up)
    down.mkdir()
    smbclient("recurse", "prompt", "lcd up", "mput *")
    tree = read_tree(up)
    assert read_share(share.get_directory_client()) == tree
    smbclient("recurse", "prompt", "lcd down", "mget *")
    assert read_tree(down) == tree


def test_f1_trees_from_rest(smbclient, share, tmp_path):
    share.create_directory("d")
    for name in ("d/ä", "x"):
        share.get_file_client(name).upload_file(name.encode() * 1000)
    smbclient("recurse", "prompt", "mget *")
    assert read_tree(tmp_path) == {"d": None, "d/ä": "d/ä".encode() * 1000, "x": b"x" * 1000}


def test_rename_and_delete(smbclient, share, tmp_path):
    (tmp_path / "f").write_bytes(b"f")
    smbclient("put f", "mkdir d", "rename f d/g", "put f h")
    assert read_share(share.get_directory_client()) == {"d": None, "d/g": b"f", "h": b"f"}
    with fails("NT_STATUS_OBJECT_NAME_COLLISION"):
        smbclient("rename h d/g")
    smbclient("rename h d/g -f")
    with fails("NT_STATUS_DIRECTORY_NOT_EMPTY"):
        smbclient("rmdir d")
    smbclient("del d/g", "rmdir d")
    assert read_share(share.get_directory_client()) == {}
    with fails("NT_STATUS_(NO_SUCH_FILE|OBJECT_NAME_NOT_FOUND)"):
        smbclient("del nothing")
    # `deltree` closes what it finds on the way down.
    make_tree(tmp_path / "t")
    smbclient("recurse", "prompt", "mkdir t", "lcd t", "cd t", "mput *")
    smbclient("deltree t")
    assert read_share(share.get_directory_client()) == {}


def test_what_it_shows(smbclient, share, tmp_path):
    (tmp_path / "f").write_bytes(bytes(1000))
    share.set_share_quota(3)
    smbclient("put f", "setmode f +rh")
    shown = smbclient("ls f")
    written = share.get_file_client("f").get_file_properties().last_write_time
    assert re.search(rf"^  f +AHR +1000  {written:%a %b} +{written.day} {written:%H:%M:%S %Y}$", shown, re.MULTILINE), shown
    assert "786432 blocks of size 4096. 786431 blocks available" in shown


def large_bytes():
    """More than 32 bits count in the long run."""
    return 4096 * MIB + 12345 if os.environ.get("LAZULI_TEST_FULL") else 200 * MIB + 12345


def test_a_large_file(smbclient, share, tmp_path):
    size, chance, written = large_bytes(), random.Random(7), hashlib.sha256()
    piece = chance.randbytes(8 * MIB)
    with open(tmp_path / "large", "wb") as file:
        while file.tell() < size:
            part = (file.tell().to_bytes(8, "little") + piece[8:])[:size - file.tell()]
            file.write(part)
            written.update(part)
    smbclient("put large", seconds=3600)
    assert share.get_file_client("large").get_file_properties().size == size
    (tmp_path / "large").unlink()
    smbclient("get large", seconds=3600)
    with open(tmp_path / "large", "rb") as file:
        assert hashlib.file_digest(file, "sha256").digest() == written.digest()


@pytest.fixture
def offered_share(offering):
    with file_client(offering.endpoint_of("file")) as shares:
        yield shares.create_share(fresh_name("s")).share_name


def round_trip(smbclient, tmp_path, **how):
    content = random.randbytes(300_000)
    (tmp_path / "f").write_bytes(content)
    smbclient("put f", "get f g", "del f", **how)
    assert (tmp_path / "g").read_bytes() == content


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialects(smbclient, tmp_path, offering, offered_share, dialect):
    """One by one, and with every protection that a client can ask for; what is not encrypted is signed."""
    round_trip(smbclient, tmp_path, options=only(dialect))
    for protection in ["sign", "off"] + (["encrypt"] if dialect != "SMB2_10" else []):
        round_trip(smbclient, tmp_path, options=only(dialect), on=offering, name=offered_share, protection=protection)
    if dialect == "SMB2_10":
        with fails("encrypt|NOT_SUPPORTED|Unable"):
            smbclient("ls", options=only(dialect), on=offering, name=offered_share, protection="encrypt")


def test_who_begins_in_the_old_words(smbclient, tmp_path):
    """A client that also speaks SMB1 says so first, and is answered in SMB2."""
    round_trip(smbclient, tmp_path, options=["client min protocol=NT1", "client max protocol=SMB3_11"])


@pytest.mark.parametrize("cipher", CIPHERS)
def test_ciphers(smbclient, tmp_path, cipher):
    round_trip(smbclient, tmp_path, options=only("SMB3_11") + [f"client smb3 encryption algorithms={cipher}"])


@pytest.mark.parametrize("signature", SIGNATURES)
def test_signatures(smbclient, tmp_path, offering, offered_share, signature):
    round_trip(smbclient, tmp_path, on=offering, name=offered_share, protection="sign",
               options=only("SMB3_11") + [f"client smb3 signing algorithms={signature}"])


@pytest.mark.parametrize("dialect", ["NT1", "SMB2_02"])
def test_dialects_that_are_refused(smbclient, dialect):
    with fails("Protocol negotiation .* failed|NT_STATUS_"):
        smbclient("ls", options=only(dialect))


@pytest.mark.parametrize("user", [None, "%", "guest%", f"{ACCOUNT}%", f"{ACCOUNT}%not the key", f"somebody%{KEY}"])
def test_who_is_refused(smbclient, offering, offered_share, user):
    """Nobody comes in without a key: no guests, nobody without a name."""
    for where in ({}, dict(on=offering, name=offered_share)):
        with fails("NT_STATUS_(LOGON_FAILURE|ACCESS_DENIED)"):
            smbclient("ls", user=user, **where)


def test_shares_that_are_not_there(smbclient):
    with fails("NT_STATUS_BAD_NETWORK_NAME"):
        smbclient("ls", name="nothing")


def test_keys(smbclient, tmp_path):
    """Both keys of an account open sessions; a key that was taken away opens none, and who is in stays in."""
    one, two, three = (base64.b64encode(bytes([n]) * 64).decode() for n in (1, 2, 3))
    config = tmp_path / "lazuli.toml"

    def keys(*keys):
        config.write_text(f"[account.{ACCOUNT}]\nkeys = [{', '.join(repr(key) for key in keys)}]\n")

    keys(one, two)
    with run(extra=["--config", str(config)]) as server:
        with file_client(server.endpoint_of("file"), one) as shares:
            shares.create_share("keys")

        def opens(key):
            try:
                smbclient("ls", on=server, name="keys", user=f"{ACCOUNT}%{key}")
                return True
            except Failed as failed:
                assert "NT_STATUS_LOGON_FAILURE" in str(failed)
                return False

        assert opens(one) and opens(two) and not opens(three)
        # A name in front of the account's is whatever the client likes.
        smbclient("ls", on=server, name="keys", user=f"AZURE/{ACCOUNT}%{one}")
        keys(two, three)
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: opens(three))
        assert opens(two) and not opens(one)
