"""The examples that start a server for somebody's tests: they pass, leave nothing behind, and say so when there is no server to start."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import server as servers
from blocks import ROOT
from test_guide import NODE_MODULES, SECONDS_MAX, node

EXAMPLES = ROOT / "examples"


def run(command, directory, program, temporary):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAZULI_")}
    environment |= {"LAZULI_BIN": program, "TMPDIR": str(temporary)}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX)


@pytest.fixture(params=["tests-python", "tests-javascript"])
def example(request, tmp_path):
    """A copy, as somebody would have it, and what runs it; and where the system's temporary files go."""
    copied, temporary = tmp_path / "mine", tmp_path / "temporary"
    shutil.copytree(EXAMPLES / request.param, copied)
    temporary.mkdir()
    if request.param == "tests-python":
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    else:
        (copied / "node_modules").symlink_to(NODE_MODULES)
        command = [node(), "--test", "photos.test.mjs"]
    return lambda program: run(command, copied, program, temporary), temporary


def test_they_pass_and_leave_nothing_behind(example):
    start, temporary = example
    ran = start(str(Path(servers.binary()).resolve()))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    left = [one for one in temporary.iterdir() if one.name.startswith("lazuli-")]
    assert not left
    assert str(temporary) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def test_a_server_that_does_not_start_fails_the_tests(example, tmp_path):
    start, temporary = example
    program = tmp_path / "broken"
    program.write_text("#!/bin/sh\necho cannot start >&2\nexit 1\n")
    program.chmod(0o755)
    ran = start(str(program))
    assert ran.returncode != 0 and "cannot start" in ran.stdout + ran.stderr
    assert not [one for one in temporary.iterdir() if one.name.startswith("lazuli-")]
