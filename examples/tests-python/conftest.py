"""A storage server for your tests: copy this file. It starts `lazuli` on free ports with a directory of its own, once for all tests, and
takes both away at the end. Nothing is shared with another run, so runs may be side by side.

The program is looked for in LAZULI_BIN, then in PATH.
"""

import os
import re
import shutil
import subprocess
import tempfile
import threading

import pytest

FLAGS = ["--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--file-port", "0", "--smb-port", "0", "--console-port", "off"]
READY_SECONDS_MAX = 30


@pytest.fixture(scope="session")
def storage():
    """A connection string for BlobServiceClient.from_connection_string and its like: all four services."""
    program = os.environ.get("LAZULI_BIN") or shutil.which("lazuli")
    assert program, "no lazuli: set LAZULI_BIN, or put it into PATH"
    with tempfile.TemporaryDirectory(prefix="lazuli-") as directory:
        process = subprocess.Popen([program, "serve", "--data", directory, *FLAGS], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        too_late = threading.Timer(READY_SECONDS_MAX, process.kill)
        too_late.start()
        try:
            said = []
            for line in process.stdout:
                said.append(line)
                if line.startswith("ready"):
                    break
            else:
                pytest.fail("lazuli did not start:\n" + "".join(said))
            too_late.cancel()
            # What it says later is read and dropped: a pipe that nobody reads would fill.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield re.search(r"DefaultEndpointsProtocol=\S+", "".join(said)).group()
        finally:
            too_late.cancel()
            process.terminate()
            process.wait()
