"""What the README promises a stranger: the program started with nothing, in a directory that has nothing."""

import os
import signal
import subprocess

import pytest
import server


@pytest.mark.skipif(server.kind() != "lazuli", reason="about our own program")
def test_started_without_a_data_directory(tmp_path):
    ports = [f"--{service}-port=0" for service in ("blob", "queue", "table", "file", "console")]
    binary = os.environ.get("LAZULI_BIN") or str(server.TARGET / "release" / "lazuli")
    process = subprocess.Popen([binary, *ports], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("ready"):
                break
        assert lines and lines[-1].startswith("ready"), lines
        assert (tmp_path / "lazuli-data").is_dir()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
