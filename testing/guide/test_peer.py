"""What stands in the tables beside Azurite was measured: the same request to both, one for each operation.

`testing/clients/azurite.txt` is what Azurite answered. README=write writes it anew; otherwise it must still be so.
"""

import os
import re

import pytest

import server as servers
from blocks import ROOT
from probes import BEHAVIOURS, NOT_ASKED, PROBES, Peer

COMPARED = ROOT / "docs/compare.md"
WORDS = """# Beside Azurite
Measured by `testing/guide/test_peer.py`, which writes this page and fails when it is no longer so: each request was sent to both, with the account's key, in a
world made for it. The first column of answers is what the service documents. How many operations each has: [operations.md](operations.md). What else
differs, as the client suites meet it: [GAPS.md](../testing/clients/GAPS.md).

| what is asked for | as documented | Lazuli | {} |
| --- | --- | --- | --- |
"""
KEPT = 200
RECORD = ROOT / "testing/clients/azurite.txt"
HEAD = "# Operation: what Azurite {} answered to a request that does it here. Written by testing/guide/test_peer.py with README=write.\n"


def built():
    """The operations of blobs, queues and tables that are built, and the status with which each succeeds."""
    rows = {}
    for line in (ROOT / "docs/operations.md").read_text().split("\n## file")[0].splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) >= 4 and cells[3] == "built":
            rows[cells[0]] = int(cells[2])
    return rows


def start(kind, tmp_path):
    before = os.environ.get("LAZULI_TEST_SERVER")
    os.environ["LAZULI_TEST_SERVER"] = kind
    try:
        extra = []
        if kind == "lazuli":
            config = tmp_path / "lazuli.toml"
            config.write_text(f"[account.{servers.ACCOUNT}]\nimmutable-storage = true\ncontainer-retention-days = 1\n")
            extra = ["--config", str(config), "--log", "debug"]
        return servers.Server(extra=extra).start()
    finally:
        if before is None:
            del os.environ["LAZULI_TEST_SERVER"]
        else:
            os.environ["LAZULI_TEST_SERVER"] = before


def test_every_operation_is_asked():
    assert set(built()) == set(PROBES) | NOT_ASKED and not set(PROBES) & NOT_ASKED


def test_each_request_is_what_it_is_taken_for(tmp_path):
    """Here each succeeds, and the server says which operation it was."""
    rows = built()
    with start("lazuli", tmp_path) as server:
        peer = Peer(server.ports)
        answers = {operation: peer.ask(steps, client=operation) for operation, steps in PROBES.items()}
        server.stop()
        said = {(operation, client) for operation, _, client in server.tried}
    wrong = [f"{operation}: {status} {code}" for operation, (status, code) in answers.items() if status != rows[operation]]
    wrong += [f"{operation}: was another" for operation in PROBES if (operation, operation) not in said]
    assert not wrong, "\n".join(wrong)


def test_what_the_peer_answers(tmp_path):
    version = re.search(r'"version": "([\d.]+)"', (servers.TARGET / "js/node_modules/azurite/package.json").read_text()).group(1)
    with start("azurite", tmp_path) as server:
        peer = Peer(server.ports)
        answers = {operation: peer.ask(steps) for operation, steps in PROBES.items()}
    text = HEAD.format(version) + "".join(f"{operation}: {status} {code}".rstrip() + "\n" for operation, (status, code) in sorted(answers.items()))
    if os.environ.get("README") == "write":
        RECORD.write_text(text)
        pytest.skip("written")
    assert RECORD.read_text() == text


def survivors(server):
    """Of so many acknowledged writes, how many are there after kill -9."""
    peer = Peer(server.ports)
    told = peer.world()
    for number in range(KEPT):
        assert peer.send("blob", f"PUT {told['c']}/{number}", {"x-ms-blob-type": "BlockBlob"}, "content")[0] == 201
    server.kill()
    server.start()
    return sum(peer.send("blob", f"GET {told['c']}/{number}")[2] == "content" for number in range(KEPT))


def test_side_by_side(tmp_path):
    answers, kept = {}, {}
    for kind in ("lazuli", "azurite"):
        with start(kind, tmp_path) as server:
            peer = Peer(server.ports)
            answers[kind] = [" ".join(str(part) for part in peer.ask(steps)).strip() for _, _, steps in BEHAVIOURS]
            kept[kind] = survivors(server)
    assert kept["lazuli"] == KEPT
    assert answers["lazuli"] == [documented for _, documented, _ in BEHAVIOURS]
    version = re.search(r"Azurite [\d.]+", RECORD.read_text()).group()
    rows = zip([words for words, _, _ in BEHAVIOURS], [documented for _, documented, _ in BEHAVIOURS], answers["lazuli"], answers["azurite"])
    text = WORDS.format(version) + "".join(f"| {' | '.join(row)} |\n" for row in rows)
    lost = "all are there" if kept["azurite"] == KEPT else "some are lost"
    text += f"| {KEPT} blobs that were acknowledged, after `kill -9` and a new start | all are there | all are there | {lost} |\n"
    text += "| the File service, over REST and SMB | there | there | not there |\n"
    if os.environ.get("README") == "write":
        COMPARED.write_text(text)
        pytest.skip("written")
    assert COMPARED.read_text() == text
