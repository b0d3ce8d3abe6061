"""Releases of the clients from years ago, each in a process of its own: old_client.py and old_file_client.py ask, and say what they did not expect."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import server as servers

HERE = Path(__file__).resolve().parent
RELEASES = sorted(path.stem for path in (HERE.parent / "old").glob("*.txt"))
each_release = pytest.mark.parametrize("release", RELEASES)


def run(release, *arguments, script="old_client.py", **environment):
    packages = servers.TARGET / "old" / release
    if not packages.is_dir():
        pytest.fail(f"{packages} is not there; ./test python brings it")
    path = os.pathsep.join([str(packages), str(HERE)])
    done = subprocess.run([sys.executable, "-W", "ignore", str(HERE / script), *arguments], capture_output=True, text=True, timeout=120,
                          env=os.environ | environment | dict(PYTHONPATH=path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(f"done with {release}\n")


@pytest.mark.azurite("does not look at the address")
@each_release
def test_tokens_signed_with_the_account_key(endpoint, release):
    run(release, endpoint)


@pytest.mark.skipif(servers.kind() != "lazuli", reason="the peer has no files")
@each_release
def test_files(start, release):
    # The older form will not have files in the account that the emulator has.
    server = start(extra=["--account", f"other:{servers.KEY}"])
    run(release, server.endpoint_of("file").replace(servers.ACCOUNT, "other"), script="old_file_client.py")
