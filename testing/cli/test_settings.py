"""Settings: where they come from, and what is said of wrong ones."""

import socket
import tomllib

import pytest

from conftest import ANY_PORTS


def test_help_fits_a_screen(lazuli):
    for flag in ("-h", "--help"):
        help = lazuli("serve", flag)
        assert help.code == 0 and 24 <= len(help.out.splitlines()) <= 50, help
        assert all(len(line) <= 100 for line in help.out.splitlines()), help
    assert "--stall-timeout" not in help.out
    for words in (["settings"], ["help", "settings"]):
        assert "LAZULI_STALL_TIMEOUT" in lazuli(*words).out


def test_the_effective_configuration(lazuli, tmp_path):
    (tmp_path / "lazuli.toml").write_text('queue-port = 7\nlog = "warn"\n[account.abc]\nkeys = ["a2V5"]\n')
    shown = lazuli("config", "--config", "lazuli.toml", "--blob-port", "5", variables={"LAZULI_TABLE_PORT": "6"})
    assert shown.code == 0, shown
    lines = {line.split("#")[0].strip(): line.split("#")[-1].strip() for line in shown.out.splitlines() if "#" in line}
    assert lines["blob-port = 5"] == "command line"
    assert lines["table-port = 6"] == "LAZULI_TABLE_PORT"
    assert lines["queue-port = 7"] == "lazuli.toml:1"
    assert lines["file-port = 10003"] == "default"
    assert "a2V5" not in shown.out and 'keys = ["..."]' in lines
    assert tomllib.loads(shown.out)["queue-port"] == 7
    # It fails as serve would.
    for arguments in (["--tls-cert", "x"], ["--blob-port", "high"], ["--engine", "rados", "--data", "d"]):
        assert lazuli("config", *arguments).code != 0
        assert lazuli("serve", *arguments).code != 0


@pytest.mark.parametrize("text, words", [
    ("data = \"d\"\nblob-prot = 1\n", "lazuli.toml:2: blob-prot is no setting: did you mean blob-port?"),
    ("blob-port = 70000\n", "lazuli.toml:1: blob-port: a port is a number from 0 to 65535"),
    ("durability = \"ful\"\n", "did you mean full?"),
])
def test_wrong_lines_of_the_file(lazuli, tmp_path, text, words):
    (tmp_path / "lazuli.toml").write_text(text)
    for command in ("serve", "config"):
        refused = lazuli(command, "--config", "lazuli.toml")
        assert refused.code == 1 and words in refused.err, refused


def test_wrong_flags_and_variables(lazuli):
    refused = lazuli("serve", "--blob-prot", "1")
    assert refused.code == 2 and "--blob-port" in refused.err
    refused = lazuli("serve", variables={"LAZULI_BLOB_PORT": "high"})
    assert refused.code == 2 and "LAZULI_BLOB_PORT" in refused.err and "65535" in refused.err
    warned = lazuli("config", variables={"LAZULI_BLOB_PROT": "1"})
    assert warned.code == 0 and "LAZULI_BLOB_PROT" in warned.err and "did you mean LAZULI_BLOB_PORT?" in warned.err


@pytest.mark.parametrize("service", ["blob", "queue", "table", "file", "smb", "web"])
def test_a_port_in_use(lazuli, service):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        flags = dict(zip(ANY_PORTS[::2], ANY_PORTS[1::2])) | {f"--{service}-port": str(port)}
        refused = lazuli("serve", "--data", "d", *[word for pair in flags.items() for word in pair])
    assert refused.code == 1 and str(port) in refused.err and f"--{service}-port" in refused.err, refused


def test_what_is_said_at_the_start(serve):
    said = serve("--data", "here", *ANY_PORTS).said
    assert said[-1] == "ready" and len(said) <= 12, said
    text = "\n".join(said)
    assert "/here" in text and "AccountName=devstoreaccount1" in text and "//127.0.0.1/SHARE" in text


def test_completions_and_man_page(lazuli):
    for shell in ("bash", "zsh", "fish"):
        made = lazuli("completions", shell)
        assert made.code == 0 and "blob-port" in made.out and "account" in made.out, shell
    man = lazuli("man")
    assert man.code == 0 and man.out.startswith(".") and "blob\\-port" in man.out and ".TH" in man.out
