"""The development issuer: clients that sign in as they would with a directory, on a machine that has none."""

import json
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone

import pytest
from azure.core.exceptions import ClientAuthenticationError
from azure.data.tables import TableServiceClient
from azure.identity import ClientSecretCredential, DefaultAzureCredential, EnvironmentCredential, ManagedIdentityCredential
from azure.identity.aio import DefaultAzureCredential as AsyncDefaultAzureCredential
from azure.storage.blob import BlobServiceClient
from azure.storage.blob.aio import BlobServiceClient as AsyncBlobServiceClient
from azure.storage.fileshare import ShareServiceClient
from azure.storage.queue import QueueServiceClient

import server as servers
from test_example import EXAMPLES

pytestmark = pytest.mark.skipif(servers.kind() != "lazuli", reason="the issuer is ours")

SCOPE = "https://storage.azure.com/.default"
CLIENT = "11111111-2222-3333-4444-555555555555"
OURS = re.compile(r"\b(IDENTITY_\w+|AZURE_\w+)=(\S+)")


def started(start, *extra, **how):
    server = start(tls="auto", extra=["--dev-token-port", str(servers.free_port()), *extra], **how)
    said = "".join(server.output)
    server.variables = dict(OURS.findall(said))
    server.ca = str(server.data / "tls" / "ca.pem")
    assert "every program on this machine" in said, "it is loud"
    return server


@pytest.fixture
def environment(monkeypatch):
    """As the program says; nothing else that a credential could find."""
    for name in list(os.environ):
        if name.startswith(("AZURE_", "IDENTITY_", "MSI_")):
            monkeypatch.delenv(name)

    def take(server, *prefixes):
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", server.ca)
        monkeypatch.setenv("SSL_CERT_FILE", server.ca)
        for name, value in server.variables.items():
            if name.startswith(prefixes):
                monkeypatch.setenv(name, CLIENT if value == "ANY" else value)

    return take


def test_the_example(start, environment):
    server = started(start)
    environment(server, "IDENTITY_")
    told = dict(os.environ, BLOB_ENDPOINT=server.endpoint)
    ran = subprocess.run([sys.executable, str(EXAMPLES / "dev-tokens" / "demo.py")], env=told, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout == (EXAMPLES / "dev-tokens" / "README.md").read_text().split("```text\n")[1].split("```")[0]


@pytest.mark.parametrize("kind", [DefaultAzureCredential, ManagedIdentityCredential])
def test_every_service_for_a_managed_identity(start, environment, kind):
    server = started(start)
    environment(server, "IDENTITY_")
    credential = kind()
    by = dict(credential=credential, retry_total=0)
    BlobServiceClient(server.endpoint, **by).create_container("box").upload_blob("b", b"1")
    queue = QueueServiceClient(server.endpoint_of("queue"), **by).create_queue("jobs")
    queue.send_message("m")
    assert [message.content for message in queue.receive_messages()] == ["m"]
    table = TableServiceClient(server.endpoint_of("table"), audience="https://storage.azure.com", **by).create_table("things")
    table.create_entity(dict(PartitionKey="p", RowKey="r"))
    shares = ShareServiceClient(server.endpoint_of("file"), token_intent="backup", **by)
    shares.create_share("share").get_file_client("f").upload_file(b"1")


@pytest.mark.parametrize("kind", [DefaultAzureCredential, EnvironmentCredential])
def test_a_service_principal_of_the_environment(start, environment, kind):
    server = started(start)
    environment(server, "AZURE_")
    service = BlobServiceClient(server.endpoint, credential=kind(), retry_total=0)
    service.create_container("box").upload_blob("b", b"1")
    now = datetime.now(timezone.utc)
    assert service.get_user_delegation_key(now, now + timedelta(hours=1)).signed_oid == CLIENT


def test_a_service_principal_of_the_code(start, environment):
    server = started(start)
    environment(server, "none")
    authority = server.variables["AZURE_AUTHORITY_HOST"]
    for tenant in ("22222222-2222-2222-2222-222222222222", "adfs"):
        credential = ClientSecretCredential(tenant, CLIENT, "any", authority=authority, disable_instance_discovery=True)
        assert [*BlobServiceClient(server.endpoint, credential=credential, retry_total=0).list_containers()] == []


async def upload(server):
    async with AsyncDefaultAzureCredential() as credential, AsyncBlobServiceClient(
            server.endpoint, credential=credential, connection_verify=server.ca) as service:
        container = await service.create_container("async")
        await container.upload_blob("b", b"1")
        return await (await container.download_blob("b")).readall()


def test_asynchronous(start, environment):
    import asyncio
    server = started(start)
    environment(server, "IDENTITY_")
    assert asyncio.run(upload(server)) == b"1"


def test_roles_that_are_assigned_are_all_there_are(start, environment, tmp_path, refused):
    config = tmp_path / "lazuli.toml"
    config.write_text(f'[[tokens.assign]]\nprincipal = "{CLIENT}"\nrole = "Storage Blob Data Reader"\n')
    server = started(start, "--config", str(config))
    servers_own = BlobServiceClient(server.endpoint, credential=servers.KEY, connection_verify=server.ca)
    servers_own.create_container("box").upload_blob("b", b"1")
    environment(server, "IDENTITY_")
    reader = BlobServiceClient(server.endpoint, credential=ManagedIdentityCredential(client_id=CLIENT), retry_total=0)
    assert reader.get_blob_client("box", "b").download_blob().readall() == b"1"
    with refused(403, "AuthorizationPermissionMismatch"):
        reader.get_blob_client("box", "b").upload_blob(b"2", overwrite=True)
    with refused(403, "AuthorizationPermissionMismatch"):
        BlobServiceClient(server.endpoint, credential=ManagedIdentityCredential(), retry_total=0).get_blob_client("box", "b").download_blob()


def test_a_token_for_somebody_else_and_one_of_another_run(start, environment):
    server, other = started(start), started(start)
    environment(server, "IDENTITY_")
    own = ManagedIdentityCredential().get_token(SCOPE).token
    elsewhere = ManagedIdentityCredential().get_token("https://vault.azure.net/.default").token
    for where, token, status in ((server, own, 200), (server, elsewhere, 401), (other, own, 401)):
        request = urllib.request.Request(f"{where.endpoint}/?comp=list", headers={"Authorization": f"Bearer {token}", "x-ms-version": "2023-11-03"})
        try:
            with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=where.ca)) as answer:
                assert answer.status == status
        except urllib.error.HTTPError as error:
            assert error.code == status
            assert f"authorization_uri={where.variables['AZURE_AUTHORITY_HOST']}/" in error.headers["WWW-Authenticate"]


def test_wrong_header_and_strange_names(start, environment):
    server = started(start)
    environment(server, "IDENTITY_")
    os.environ["IDENTITY_HEADER"] = "other"
    with pytest.raises(ClientAuthenticationError):
        ManagedIdentityCredential().get_token(SCOPE)
    url = server.variables["IDENTITY_ENDPOINT"] + "?resource=https://storage.azure.com"
    for headers, status in (({"X-IDENTITY-HEADER": "lazuli"}, 200), ({"X-IDENTITY-HEADER": "lazuli", "Host": "evil.example"}, 400), ({}, 401)):
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
                body, found = json.load(answer), answer.status
        except urllib.error.HTTPError as error:
            body, found = json.load(error), error.code
        assert found == status and ("access_token" in body) == (status == 200), body


def test_where_it_is_refused(tmp_path):
    base = [servers.binary(), "serve", "--data", str(tmp_path / "data"), "--dev-token-port", "0", "--blob-port", "0", "--queue-port", "0"]
    for extra, words in ((["--host", "0.0.0.0", "--allow-published-key-on-network"], "loopback alone"), (["--engine", "rados"], "cluster")):
        command = [word for word in base if extra[0] != "--engine" or word not in ("--data", str(tmp_path / "data"))]
        ended = subprocess.run(command + extra, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 1 and words in ended.stderr, ended.stderr


def test_without_https_it_says_so(start):
    server = start(extra=["--dev-token-port", str(servers.free_port())])
    said = "".join(server.output)
    assert "https alone: say --tls auto" in said and "none will be accepted" in said


def test_tokens_go_on_after_sighup(start, environment):
    import signal
    server = started(start)
    environment(server, "IDENTITY_")
    service = BlobServiceClient(server.endpoint, credential=ManagedIdentityCredential(), retry_total=0)
    service.create_container("before")
    server.process.send_signal(signal.SIGHUP)
    begun = time.monotonic()
    while "read again" not in "".join(server.output) and time.monotonic() - begun < 20:
        time.sleep(0.05)
    service.create_container("after")
