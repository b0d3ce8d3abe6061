"""What can be tried of packaging/ without a container engine, a cluster or systemd."""

import http.server
import re
import subprocess
import threading
import tomllib

import pytest

import server as servers
from blocks import ROOT

PACKAGING = ROOT / "packaging"


def test_the_image_is_built_with_the_oldest_compiler_that_will_do():
    oldest = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    assert re.search(r"^FROM rust:([\d.]+)-", (PACKAGING / "docker/Dockerfile").read_text(), re.MULTILINE).group(1) == oldest


def test_every_port_is_exposed():
    exposed = re.search(r"^EXPOSE (.*)$", (PACKAGING / "docker/Dockerfile").read_text(), re.MULTILINE).group(1).split()
    defaults = set(re.findall(r"^\| `--[a-z-]+-port N?.*?` \| `LAZULI_\w+` \| ([1-9]\d*) \|", (ROOT / "docs/settings.md").read_text(), re.MULTILINE))
    assert {"10000", "10001", "10002", "10003", "10445"} <= defaults <= set(exposed)


@pytest.mark.parametrize("status, expected", [(200, 0), (503, 1)])
def test_the_health_check_asks_whether_it_is_ready(status, expected):
    asked = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ran = subprocess.run([PACKAGING / "docker/healthy", str(server.server_port)], timeout=30)
        server.shutdown()
    assert (ran.returncode, asked) == (expected, ["/readyz"])


def test_the_health_check_of_nothing_fails():
    ran = subprocess.run([PACKAGING / "docker/healthy", str(servers.free_port())], capture_output=True, timeout=30)
    assert ran.returncode == 1


def test_the_packaged_settings_are_taken():
    """Flags go before the file: the directory and the ports are ours."""
    with servers.Server(extra=["--config", str(PACKAGING / "debian/lazuli.toml")]) as server:
        assert server.process.poll() is None


def test_the_unit_names_what_is_installed():
    unit = (PACKAGING / "systemd/lazuli.service").read_text()
    assets = tomllib.loads((ROOT / "server/Cargo.toml").read_text())["package"]["metadata"]["deb"]
    program, config = re.search(r"^ExecStart=/(\S+) serve --config /(\S+)$", unit, re.MULTILINE).groups()
    installed = {f"{target}{source.rsplit('/', 1)[1]}" for source, target, _ in assets["assets"]}
    assert {program, config} <= installed and f"/{config}" in assets["conf-files"]
    for source, _, _ in assets["assets"]:
        assert source.startswith("target/") or list((ROOT / "server").glob(source)), f"{source} is not there"
