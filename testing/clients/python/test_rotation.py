"""Keys are rotated by editing the configuration file and sending SIGHUP; no restart, no request lost."""

import base64
import signal
import time

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient

import server as under_test

OLD, NEW = (base64.b64encode(text * 4).decode() for text in (b"the old key ....", b"the new key ...."))


def test_keys_rotate_without_a_restart(tmp_path, refused):
    if under_test.kind() != "lazuli":
        pytest.skip("a setting of ours")
    config = tmp_path / "lazuli.toml"

    def keys(*keys):
        config.write_text(f"[account.{under_test.ACCOUNT}]\nkeys = [{', '.join(repr(key) for key in keys)}]\n")

    keys(OLD)
    with under_test.Server(extra=["--config", str(config)]) as server:
        def container(key):
            return BlobServiceClient(server.endpoint, credential=key, retry_total=0).get_container_client("box")

        def holds(key):
            try:
                container(key).get_container_properties()
                return True
            except HttpResponseError as error:
                assert error.status_code == 403
                return False

        def read_again(*now_valid, until):
            keys(*now_valid)
            server.process.send_signal(signal.SIGHUP)
            deadline = time.monotonic() + 10
            while not until() and time.monotonic() < deadline:
                pass
            assert until()

        container(OLD).create_container()
        assert holds(OLD) and not holds(NEW)
        read_again(OLD, NEW, until=lambda: holds(NEW))
        assert holds(OLD)
        read_again(NEW, until=lambda: not holds(OLD))
        assert holds(NEW)
        # A file that cannot be used changes nothing.
        config.write_text("[account.X]\nkeys = []\n")
        server.process.send_signal(signal.SIGHUP)
        container(NEW).upload_blob("b", b"x")
        assert holds(NEW) and not holds(OLD)
