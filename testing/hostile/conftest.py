"""Fixtures of the suites that treat the program as a stranger would."""

import pytest

import issuer
import server as servers


@pytest.fixture
def start():
    """Starts a server of this test's own, with whatever arguments it needs; it must still be there at the end."""
    running = []

    def start(*arguments, **how):
        one = servers.Server(extra=[str(argument) for argument in arguments], **how)
        running.append(one)
        return one.start()

    yield start
    for one in running:
        died = one.process.poll() is not None
        one.__exit__(None, None, None)
        assert not died, "the server died:\n" + "".join(one.output[-40:])


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    return issuer.certificate(tmp_path_factory.mktemp("tls"))
