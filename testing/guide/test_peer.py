"""What stands in the tables beside Azurite was measured: the same request to both, one for each operation.

`testing/clients/azurite.txt` is what Azurite answered. README=write writes it anew; otherwise it must still be so.
"""

import os
import re

import pytest

import server as servers
from blocks import ROOT
from probes import NOT_ASKED, PROBES, Peer

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
