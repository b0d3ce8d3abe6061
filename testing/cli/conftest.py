"""The program as somebody at a keyboard has it: its commands, what they print and how they end."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "clients" / "python"))
import server as servers

PUBLISHED = f"{servers.ACCOUNT}:{servers.KEY}"


def environment(more=None):
    """Without what would be settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LAZULI_", "AZURITE_"))}
    return {**kept, **(more or {})}


class Ended:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def __repr__(self):
        return f"exit {self.code}\n{self.out}\n{self.err}"


@pytest.fixture
def lazuli(tmp_path):
    """Runs a command to its end, in a directory of its own."""

    def lazuli(*arguments, called=None, variables=None):
        program = servers.binary()
        if called:
            link = tmp_path / called
            if not link.exists():
                link.symlink_to(program)
            program = str(link)
        command = [program, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50, cwd=tmp_path, env=environment(variables))
        return Ended(done)

    return lazuli


class Serving:
    """A server that has said that it is ready."""

    def __init__(self, command, cwd, variables):
        self.process = subprocess.Popen(command, cwd=cwd, env=environment(variables), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.said, self.errors = [], []
        threading.Thread(target=self._errors, daemon=True).start()
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if line.startswith("ready"):
                return
        self.process.wait(10)
        raise AssertionError("it ended: " + "".join(self.said) + "".join(self.errors))

    def _errors(self):
        for line in self.process.stderr:
            self.errors.append(line)

    def url(self, service):
        return next(line.split()[1] for line in self.said if line.split()[:1] == [service])

    @property
    def connection(self):
        return next(line.split(None, 1)[1] for line in self.said if line.startswith("connect "))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


@pytest.fixture
def serve(tmp_path):
    running = []

    def serve(*arguments, called=None, variables=None):
        program = servers.binary()
        if called:
            link = tmp_path / called
            if not link.exists():
                link.symlink_to(program)
            program = str(link)
        one = Serving([program, *map(str, arguments)], tmp_path, variables)
        running.append(one)
        return one

    yield serve
    for one in running:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait(10)


ANY_PORTS = ["--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--file-port", "0", "--smb-port", "0", "--console-port", "off"]
