"""The programs of docs/guide are run as they stand, against a server of their own, and print what their pages say."""

import os
import re
import shutil
import subprocess
import sys

import pytest

import server as servers
from blocks import GUIDE, ROOT, blocks, programs

SECONDS_MAX = 100
SERVICES = ["blob", "queue", "table", "file"]
NODE_MODULES = servers.TARGET / "js" / "node_modules"


@pytest.fixture(scope="module")
def running():
    with servers.Server() as server:
        yield server
        assert server.process.poll() is None, "the server died:\n" + "".join(server.output[-40:])


@pytest.fixture(scope="module")
def environment(running):
    """What names the server to the programs, instead of the ports of custom."""
    endpoints = {service: running.endpoint_of(service) for service in SERVICES}
    connection = f"DefaultEndpointsProtocol=http;AccountName={servers.ACCOUNT};AccountKey={servers.KEY};"
    connection += "".join(f"{service.title()}Endpoint={url};" for service, url in endpoints.items())
    told = {f"LAZULI_{service.upper()}_ENDPOINT": url for service, url in endpoints.items()}
    return dict(os.environ, **told, AZURE_STORAGE_CONNECTION_STRING=connection, LAZULI_SMB_PORT=str(running.smb_port))


@pytest.fixture(scope="module")
def rust():
    """All of the pages' Rust, as one example of the clients' workspace: see its build.rs."""
    target = servers.TARGET / "clients-rust"
    manifest = ROOT / "testing/clients/rust/Cargo.toml"
    cargo = os.environ.get("CARGO", "cargo")
    command = [cargo, "build", "--quiet", "--locked", "--manifest-path", str(manifest), "--example", "guide"]
    subprocess.run(command, env=dict(os.environ, CARGO_TARGET_DIR=str(target)), check=True)
    return target / "debug" / "examples" / "guide"


def node():
    packaged = sorted(NODE_MODULES.glob("node-linux-*/bin/node"))
    return str(packaged[0]) if packaged else "node"


def rust_urls(program, environment):
    """Its own default address, token and all, at the port where the server is."""
    for service, query in re.findall(r'"http://127\.0\.0\.1:1000([0-3])/devstoreaccount1(\?[^"]*)?"', program):
        name = SERVICES[int(service)]
        yield f"AZURE_STORAGE_{name.upper()}_URL", environment[f"LAZULI_{name.upper()}_ENDPOINT"] + query


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_prints_what_the_page_says(program, environment, request, tmp_path):
    assert program.printed, f"{program.page}:{program.line}: no page says what this prints"
    if program.language == "python":
        path = tmp_path / "program.py"
        command = [sys.executable, str(path)]
    elif program.language == "javascript":
        # Modules are looked for beside the program.
        (tmp_path / "node_modules").symlink_to(NODE_MODULES)
        path = tmp_path / "program.mjs"
        command = [node(), str(path)]
    elif program.language == "bash":
        path = tmp_path / "program.sh"
        command = ["bash", "-eu", str(path)]
    else:
        path = tmp_path / "program.rs"
        urls = dict(rust_urls(program.text, environment))
        assert urls, f"{program.page}:{program.line}: it has no address"
        environment = environment | urls
        command = [str(request.getfixturevalue("rust")), program.page.stem]
    path.write_text(program.text)
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, cwd=tmp_path)
    assert ran.returncode == 0, f"{program.page}:{program.line}\n{ran.stdout}{ran.stderr}"
    assert ran.stdout == program.printed, f"{program.page}:{program.line}\n{ran.stderr}"


def test_the_first_program_that_anybody_sees(environment, tmp_path):
    """The README's, at the port where the server is."""
    [program] = [block.text for block in blocks(ROOT / "README.md") if block.language == "python"]
    shortcut = "UseDevelopmentStorage=true"
    assert shortcut in program
    path = tmp_path / "program.py"
    path.write_text(program.replace(shortcut, environment["AZURE_STORAGE_CONNECTION_STRING"]))
    ran = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert (ran.returncode, ran.stdout) == (0, "b'Hello, blob!'\n"), ran.stderr


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_has_every_language(service):
    languages = [block.language for block in blocks(GUIDE / f"{service}.md")]
    assert {"python", "javascript", "rust", "csharp"} <= set(languages)


def test_what_the_tests_need_is_there():
    """A program that was left out for want of a tool would look like one that works."""
    assert shutil.which("smbclient") and shutil.which("curl") and NODE_MODULES.is_dir()
