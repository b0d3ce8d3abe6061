"""What nobody may read anywhere: keys, signatures, tokens. A server with keys like no other is asked for everything that makes it talk,
and whatever it printed, answered, or shows of itself to other users of the machine is searched for them."""

import base64
import os
import re
import signal
import time
from pathlib import Path
from urllib.parse import quote

import pytest

import issuer
import server as servers
import smb
from wire import ask, signed, status

ACCOUNT = "vault"
# Readable in any clothes.
KEYS = [base64.b64encode(f"secret-{n}-".encode() * 6).decode() for n in (1, 2)]


def forms(secret):
    """A secret as it is, as a part of a URL, as what it encodes."""
    found = {secret.encode(), quote(secret, safe="").encode()}
    try:
        raw = base64.b64decode(secret, validate=True)
        found |= {raw, raw.hex().encode(), repr(list(raw))[1:-1].encode()}
    except ValueError:
        pass
    return found


class Watched:
    """Collects what the server says to whomever."""

    def __init__(self, server):
        self.server, self.said = server, []

    def ask(self, service, request, source=None):
        answer = ask(self.server.ports[service], request, source)
        self.said.append(answer)
        return answer

    def everything(self):
        process = Path(f"/proc/{self.server.process.pid}")
        shown = [(process / name).read_bytes() for name in ("cmdline", "comm", "stat", "status", "limits", "mountinfo")]
        return b"\n".join([*self.said, *shown, "".join(self.server.output).encode()])


@pytest.fixture(params=["file", "environment"])
def watched(start, request, tmp_path):
    """The keys come from a file, or from the environment: both are this user's own. It talks in text, and in JSON."""
    tokens = issuer.configuration(tmp_path, [issuer.Issuer()], [])
    if request.param == "file":
        tokens.write_text(tokens.read_text() + f'\n[account.{ACCOUNT}]\nkeys = {KEYS}\n')
    extra = ["--log", "trace", "--config", tokens]
    if request.param == "environment":
        return Watched(start(*extra, environment={"LAZULI_ACCOUNT": ":".join([ACCOUNT, *KEYS]), "LAZULI_LOG_FORMAT": "json"}))
    return Watched(start(*extra))


def provoke(watched):
    """Answers and refusals of every kind; the secrets that were used."""
    secrets = set(KEYS)
    for service in servers.SERVICES:
        for key in [*KEYS, base64.b64encode(b"a wrong key, and secret all the same").decode()]:
            secrets.add(key)
            for target in ("/?comp=list", "/none/none", "/?comp=nonsense", "/%00"):
                request = signed("GET", target, account=ACCOUNT, key=key)
                secrets.add(re.search(rb"SharedKey \w+:(\S+)", request).group(1).decode())
                watched.ask(service, request)
        signature = base64.b64encode(os.urandom(32)).decode()
        secrets.add(signature)
        sas = f"sv=2026-04-06&ss=bqtf&srt=sco&sp=rl&se=2099-01-01T00:00:00Z&sig={quote(signature, safe='')}"
        watched.ask(service, f"GET /{ACCOUNT}/?comp=list&{sas} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        token = issuer.Issuer("stranger").token("somebody")
        secrets.add(token)
        for credential in (f"Bearer {token}", f"SharedKey {signature}", f"Basic {signature}", f"SharedKeyLite {ACCOUNT}:{signature}"):
            head = f"GET /{ACCOUNT}/?comp=list HTTP/1.1\r\nHost: a\r\nAuthorization: {credential}\r\nConnection: close\r\n\r\n"
            watched.ask(service, head.encode())
    put = {"x-ms-blob-type": "BlockBlob"}
    assert status(watched.ask("blob", signed("PUT", "/box?restype=container", account=ACCOUNT, key=KEYS[0]))) == 201
    source = f"http://example.invalid/x?sig={quote(signature, safe='')}"
    watched.ask("blob", signed("PUT", "/box/b", headers=put | {"x-ms-copy-source": source}, account=ACCOUNT, key=KEYS[1]))
    assert status(watched.ask("file", signed("PUT", "/share?restype=share", account=ACCOUNT, key=KEYS[1]))) == 201
    for key in (KEYS[1], "wrong password"):
        secrets.add(key)
        try:
            with smb.Client(watched.server.smb_port, "share", account=ACCOUNT, key=key) as client:
                client.make("f", b"content")
        except smb.Refused:
            assert key not in KEYS
    watched.server.process.send_signal(signal.SIGHUP)
    begun = time.monotonic()
    while "read again" not in "".join(watched.server.output) and time.monotonic() - begun < 20:
        time.sleep(0.05)
    return secrets


def test_no_secret_is_told(watched):
    secrets = provoke(watched)
    shown = watched.everything()
    assert b"AuthenticationFailed" in shown and b"read again" in shown, "it was made to talk"
    told = sorted(secret for secret in secrets if any(form in shown for form in forms(secret)))
    assert told == []


def test_the_search_finds_what_is_told(watched):
    """A control: what a careless line would have shown."""
    for clothes in forms(KEYS[0]):
        watched.said.append(b"key=" + clothes + b" of the account")
        assert any(form in watched.everything() for form in forms(KEYS[0]))
        watched.said.clear()
    assert not any(form in watched.everything() for form in forms(KEYS[0]))


def test_keys_on_the_command_line_are_warned_of(start):
    """Every user of the machine can read them there, until the server is ready. The other ways are not warned of."""
    for arguments in (["--account", f"{ACCOUNT}:{KEYS[0]}"], [f"--account={ACCOUNT}:{KEYS[0]}:{KEYS[1]}", "--account", f"other:{KEYS[1]}"]):
        given = start(*arguments)
        said = "".join(given.output)
        assert "command line" in said and KEYS[0] not in said
        shown = Path(f"/proc/{given.process.pid}/cmdline").read_bytes()
        assert b"serve" in shown and not any(key.encode() in shown for key in KEYS)
        assert Path(f"/proc/{given.process.pid}/comm").read_text() == Path(servers.binary()).name[:15] + "\n"
        assert status(ask(given.port, signed("GET", "/?comp=list", account=ACCOUNT, key=KEYS[0]))) == 200
    assert status(ask(given.port, signed("GET", "/?comp=list", account="other", key=KEYS[1]))) == 200
    quiet = start(environment={"LAZULI_ACCOUNT": f"{ACCOUNT}:{KEYS[0]}"})
    assert "command line" not in "".join(quiet.output)
