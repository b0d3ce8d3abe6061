"""What a session demands of its messages, whatever a well-behaved client would do by itself."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
import spnego
from smbprotocol.connection import Ciphers, Connection
from smbprotocol.session import Session, SMB2SessionSetupRequest, SMB2SessionSetupResponse
from smbprotocol.tree import TreeConnect

import conftest
import smb
from common import file_client, fresh_name
from server import ACCOUNT, KEY

# What a client may call a cipher that nobody has heard of.
UNKNOWN_CIPHER = 0x7777


@pytest.fixture(params=[True, False], ids=["required", "offered"])
def where(request, server, offering):
    """A server of each kind, with a share; whether encryption is required there."""
    one = server if request.param else offering
    with file_client(one.endpoint_of("file")) as shares:
        yield one.smb_port, shares.create_share(fresh_name("s")).share_name, request.param


@pytest.mark.parametrize("dialect", smb.DIALECTS)
def test_dialects(where, dialect):
    port, share, is_required = where
    for encrypts in [False, True][:1 if dialect == "2.1" else 2]:
        with smb.Client(port, share, dialect=dialect, encrypts=encrypts) as client:
            assert client.session.encrypt_data == (encrypts or is_required and dialect != "2.1")
            client.make("f", b"x")
            with client.open("f") as file:
                assert file.read() == b"x"


@pytest.mark.parametrize("dialect", smb.DIALECTS)
def test_echo(where, dialect):
    """Answered with as many credits as it asks for."""
    port, share, _ = where
    with smb.Client(port, share, dialect=dialect) as client:
        for wanted in (1, 100, 4000):
            assert client.connection.echo(client.session.session_id, credit_request=wanted) >= wanted


def test_no_common_cipher(where, monkeypatch):
    """Who must encrypt and cannot is not let in; where it need not, it is."""
    monkeypatch.setattr(Ciphers, "UNKNOWN", UNKNOWN_CIPHER, raising=False)
    monkeypatch.setattr(Ciphers, "NONE", 0, raising=False)
    port, share, is_required = where
    if is_required:
        with smb.refused("ACCESS_DENIED"):
            smb.Client(port, share, encrypts=False, ciphers=[UNKNOWN_CIPHER])
    else:
        with smb.Client(port, share, encrypts=False, ciphers=[UNKNOWN_CIPHER]) as client:
            client.make("f", b"x")


def test_plain_messages_where_encryption_is_required(server, share):
    with smb.Client(server.smb_port, share.share_name) as client:
        client.make("f", b"x")
        client.session.encrypt_data = client.tree.encrypt_data = False
        with smb.refused("ACCESS_DENIED"):
            client.open("f")


@pytest.mark.parametrize("dialect", smb.DIALECTS)
def test_messages_without_a_signature(where, dialect):
    port, share, is_required = where
    if is_required and dialect != "2.1":
        pytest.skip("what is encrypted is not signed")
    with smb.Client(port, share, dialect=dialect, encrypts=False) as client:
        client.make("f", b"x")
        client.session.signing_required = False
        with smb.refused("ACCESS_DENIED"):
            client.open("f")


@pytest.mark.parametrize("dialect", smb.DIALECTS)
def test_messages_with_a_wrong_signature(where, dialect):
    port, share, is_required = where
    if is_required and dialect != "2.1":
        pytest.skip("what is encrypted is not signed")
    with smb.Client(port, share, dialect=dialect, encrypts=False) as client:
        client.make("f", b"x")
        client.session.signing_key = bytes(16)
        # smbprotocol cannot check the answer with that key either; that nothing was done is what counts.
        with pytest.raises(Exception):
            client.make("g", b"x")
    with smb.Client(port, share) as client:
        assert client.names() == ["f"]


def test_who_calls_itself_like_another():
    """What a client calls itself is sent in the clear: another account's client that says the same hears of none of its leases, and answers for
    none."""
    other, other_key, guid = "another", KEY, uuid.uuid4()
    accounts = ["--account", f"{ACCOUNT}:{KEY}", "--account", f"{other}:{other_key}"]
    with conftest.run(extra=accounts) as server, ExitStack() as stack:
        shares = {}
        for account in (other, ACCOUNT):
            endpoint = server.endpoint_of("file").replace(ACCOUNT, account)
            shares[account] = stack.enter_context(file_client(endpoint, {"account_name": account, "account_key": KEY})).create_share("work")
        thief = stack.enter_context(smb.Client(server.smb_port, "work", other, other_key, guid=guid))
        owner = stack.enter_context(smb.Client(server.smb_port, "work", guid=guid))
        owner.make("f", b"old")
        with owner.open("f", share="RWD", lease="RWH") as file, ThreadPoolExecutor() as pool:
            assert file.caching == "RWH"
            read = pool.submit(lambda: shares[ACCOUNT].get_file_client("f").download_file().readall())
            told = owner.heard()
            with smb.refused("OBJECT_NAME_NOT_FOUND"):
                thief.acknowledge(told)
            file.write(b"new")
            owner.acknowledge(told)
            assert read.result() == b"new"
            assert thief.heard(0) is None


def test_a_plain_cancellation_where_encryption_is_required(connect):
    """Whoever could send it does not have the key."""
    client = connect()
    client.make("f", b"x")
    with client.open("f", share="RWD") as holder, client.open("f", share="RWD") as waiter:
        holder.lock()
        waiting = waiter.lock_later()
        assert smb.is_pending(waiting)
        client.session.encrypt_data = client.tree.encrypt_data = False
        waiting.cancel()
        waiting.cancelled = False
        client.session.encrypt_data = client.tree.encrypt_data = True
        client.connection.echo(client.session.session_id)
        holder.unlock()
        client.receive(waiting)


def bind(client, port):
    """One more connection for a client's session (MS-SMB2 3.2.4.1.1, 3.3.5.5.2): what it says is signed with the session's own key."""
    connection, session = Connection(client.connection.client_guid, "127.0.0.1", port), client.session
    connection.connect(timeout=smb.SECONDS_MAX)
    connection.session_table[session.session_id] = SimpleNamespace(
        session_id=session.session_id, signing_key=session.signing_key, signing_required=True, encrypt_data=False, tree_connect_table={})
    context, heard = spnego.client(ACCOUNT, KEY, protocol="ntlm", options=spnego.NegotiateOptions.session_key), None
    while not context.complete and (said := context.step(heard)):
        asked = SMB2SessionSetupRequest()
        asked["flags"], asked["security_mode"], asked["buffer"] = 1, 1, said
        try:
            answer = smb.Client._asked(connection.receive, connection.send(asked, sid=session.session_id))
        except smb.Refused as more:
            if more.status != "0xc0000016":
                connection.disconnect(close=False)
                raise
            heard = SMB2SessionSetupResponse()
            heard.unpack(more.data)
            heard = heard["buffer"].get_value()
        else:
            assert answer["status"].get_value() == 0
    return connection


def test_a_session_outlives_its_first_connection(where):
    """More are bound to it with the key that it began with, whichever connections it has left."""
    port, share, _ = where
    client = smb.Client(port, share, guid=uuid.uuid4())
    second = bind(client, port)
    client.drop()
    time.sleep(0.5)  # until that is noticed
    third = bind(client, port)
    for one in (second, third):
        one.disconnect(close=False)


def test_who_proves_to_be_another_session(server, share):
    """What is encrypted for one session says nothing for another, of the same connection either: it is not asked who it is, and not ended."""
    with smb.Client(server.smb_port, share.share_name) as client:
        other = Session(client.connection, ACCOUNT, KEY, require_encryption=True, auth_protocol="ntlm")
        other.connect()
        sessions = client.connection.session_table
        sessions[other.session_id] = client.session
        asked = SMB2SessionSetupRequest()
        asked["security_mode"], asked["buffer"] = 1, b"nonsense"
        with smb.refused("ACCESS_DENIED"):
            smb.Client._asked(client.connection.receive, client.connection.send(asked, sid=other.session_id))
        sessions[other.session_id] = other
        TreeConnect(other, rf"\\127.0.0.1\{share.share_name}").connect()
