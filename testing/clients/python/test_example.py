"""The examples do what they say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import server as servers

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def test_background_jobs(queue_endpoint):
    connection = servers.connection_string("http://unused") + f"QueueEndpoint={queue_endpoint};"
    environment = dict(os.environ, AZURE_STORAGE_CONNECTION_STRING=connection)
    command = [sys.executable, str(EXAMPLES / "queue-jobs" / "demo.py"), "12"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "all 12 jobs are done" in ran.stdout


def test_blob_concurrency(endpoint):
    """E3: the three strategies, and what is refused."""
    folder = EXAMPLES / "blob-concurrency"
    environment = dict(os.environ, AZURE_STORAGE_CONNECTION_STRING=servers.connection_string(endpoint))
    ran = subprocess.run([sys.executable, str(folder / "demo.py")], env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout == (folder / "README.md").read_text().split("```text\n")[1].split("```")[0]


def test_table_concurrency(endpoint, table_endpoint):
    environment = dict(os.environ, AZURE_STORAGE_CONNECTION_STRING=servers.connection_string(endpoint) + f"TableEndpoint={table_endpoint};")
    ran = subprocess.run([sys.executable, str(EXAMPLES / "table-concurrency" / "demo.py")], env=environment, capture_output=True, text=True,
                         timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "refused with 412 UpdateConditionNotSatisfied" in ran.stdout and "refused with 409 LeaseAlreadyPresent" in ran.stdout


def test_blob_events(tmp_path):
    """A webhook and a queue hear of blobs; docs/events.md shows what the example prints."""
    if servers.kind() != "lazuli":
        pytest.skip("the peer has no events")
    port, config = servers.free_port(), tmp_path / "lazuli.toml"
    config.write_text((EXAMPLES / "blob-events" / "lazuli.toml").read_text().replace("28080", str(port)))
    with servers.Server(extra=["--config", str(config)]).start() as server:
        connection = servers.connection_string(server.endpoint) + f"QueueEndpoint={server.queue_endpoint};"
        environment = dict(os.environ, AZURE_STORAGE_CONNECTION_STRING=connection, WEBHOOK_PORT=str(port))
        command = [sys.executable, str(EXAMPLES / "blob-events" / "demo.py")]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0, ran.stdout + ran.stderr + "".join(server.output)
    assert ran.stdout == (EXAMPLES.parent / "docs" / "events.md").read_text().split("```text\n")[1].split("```")[0]
    assert not any("secret" in line for line in server.output)
