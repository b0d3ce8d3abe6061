"""`--tls auto`, certificates that are replaced while connections are open, and the signal to stop under TLS."""

import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from datetime import datetime, timedelta, timezone

import pytest
from azure.storage.blob import BlobServiceClient, ContainerSasPermissions, generate_container_sas
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import issuer
import server as servers
from server import ACCOUNT, KEY

pytestmark = pytest.mark.skipif(servers.kind() != "lazuli", reason="the flags are ours")


def ca_of(server):
    return server.data / "tls" / "ca.pem"


def connect(port, ca, name="localhost", strict=False):
    context = ssl.create_default_context(cafile=ca)
    if strict:
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    # An end that TLS was not told of is an error.
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=10), server_hostname=name, suppress_ragged_eofs=False)


def shown(port, ca=None):
    """The certificate that a new connection is shown."""
    context = ssl.create_default_context(cafile=ca) if ca else ssl._create_unverified_context()
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=10), server_hostname="localhost") as stream:
        return stream.getpeercert(binary_form=True)


def waits_for(server, words, count=1):
    begun = time.monotonic()
    while "".join(server.output).count(words) < count:
        assert time.monotonic() - begun < 20, f"never said: {words}\n" + "".join(server.output[-20:])
        time.sleep(0.02)


def test_clients_trust_it_for_every_name(start):
    server = start(tls="auto")
    ca = ca_of(server)
    said = "".join(server.output)
    assert str(ca) in said and "NODE_EXTRA_CA_CERTS" in said and "update-ca-certificates" in said
    for host in ("127.0.0.1", "localhost"):
        service = BlobServiceClient(f"https://{host}:{server.port}/{ACCOUNT}", credential=KEY, connection_verify=str(ca), retry_total=0)
        name = "by-" + host.replace(".", "-")
        service.create_container(name).upload_blob("b", b"1")
        assert service.get_blob_client(name, "b").download_blob().readall() == b"1"
    service = BlobServiceClient(f"https://{ACCOUNT}.blob.localhost:{server.port}", credential=dict(account_name=ACCOUNT, account_key=KEY),
                                connection_verify=str(ca), retry_total=0)
    assert {"by-localhost", "by-127-0-0-1"} == {one.name for one in service.list_containers()}
    for service in servers.SERVICES:
        for name in ("localhost", "127.0.0.1", "::1", f"{ACCOUNT}.{service}.localhost", f"{ACCOUNT}-secondary.{service}.localhost", f"{ACCOUNT}.web.localhost"):
            connect(server.ports[service], ca, name, strict=True).close()
    for name in ("example.org", "blob.localhost", "192.0.2.1"):
        with pytest.raises(ssl.SSLCertVerificationError):
            connect(server.port, ca, name)
    with pytest.raises(ssl.SSLCertVerificationError):
        ssl.create_default_context(cafile=os.environ.get("NO_SUCH")).wrap_socket(
            socket.create_connection(("127.0.0.1", server.port)), server_hostname="localhost")


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_curl(start):
    server = start(tls="auto")
    url = f"https://localhost:{server.port}/{ACCOUNT}?comp=list"
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    ask = lambda *more: subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", *more, url], capture_output=True, text=True, env=environment)
    assert ask("--cacert", str(ca_of(server))).stdout == "404", "strangers are told of nothing"
    refused = ask()
    assert refused.returncode == 60, refused


def test_the_console_speaks_it_as_well(start):
    server = start(tls="auto", console=True)
    assert f"console   {server.console}/" in "".join(server.output)
    connection = http.client.HTTPSConnection("localhost", server.console_port, context=ssl.create_default_context(cafile=ca_of(server)), timeout=20)
    connection.request("GET", "/readyz")
    answer = connection.getresponse()
    assert (answer.status, answer.read().strip()) == (200, b"ready")
    headers = {"x-lazuli-console": "1", "Content-Type": "application/json"}
    connection.request("POST", "/api/sign-in", json.dumps({"account": ACCOUNT, "key": KEY}), headers)
    answer = connection.getresponse()
    assert answer.status == 200 and "; Secure" in answer.getheader("Set-Cookie")
    assert json.loads(answer.read())["endpoints"]["blob"] == server.endpoint
    connection.close()


def test_the_authority_stays(start):
    server = start(tls="auto")
    directory = server.data / "tls"
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert sorted(before) == ["ca.key", "ca.pem", "server.key", "server.pem"]
    assert [oct((directory / name).stat().st_mode & 0o777) for name in ("ca.key", "server.key")] == ["0o600"] * 2
    assert server.stop() == 0
    server.start()
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    assert server.stop() == 0
    # Another name is another authority's to vouch for, and that is said.
    server.extra += ["--tls-name", "storage.test"]
    server.start()
    assert "has to be trusted anew" in "".join(server.output)
    connect(server.port, ca_of(server), f"{ACCOUNT}.blob.storage.test").close()


def test_the_authority_can_vouch_for_nobody_else(start, tmp_path):
    """Who has its key makes a certificate for another site; clients that trust the authority do not take it."""
    server = start(tls="auto")
    directory = server.data / "tls"
    ca = x509.load_pem_x509_certificate((directory / "ca.pem").read_bytes())
    signer = serialization.load_pem_private_key((directory / "ca.key").read_bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    paths = tmp_path / "other.pem", tmp_path / "other.key"
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    for name, is_taken in (("localhost", True), ("login.microsoftonline.com", False)):
        made = (
            x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(ca.subject).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(ca.not_valid_before_utc).not_valid_after(ca.not_valid_after_utc)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=True)
            .sign(signer, hashes.SHA256())
        )
        paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
        shower = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        shower.load_cert_chain(*paths)
        listener = socket.create_server(("127.0.0.1", 0))

        def show():
            try:
                shower.wrap_socket(listener.accept()[0], server_side=True).close()
            except (ssl.SSLError, OSError):
                pass

        thread = threading.Thread(target=show)
        thread.start()
        try:
            connect(listener.getsockname()[1], directory / "ca.pem", name).close()
            assert is_taken, name
        except ssl.SSLCertVerificationError as error:
            assert not is_taken and "permitted subtree" in str(error), error
        thread.join()
        listener.close()


def test_words_that_do_not_go_together(tmp_path):
    for extra, words in (
        (["--tls", "auto", "--tls-cert", "c", "--tls-key", "k"], "one or the other"),
        (["--tls-name", "x"], "--tls auto"),
        (["--tls", "auto", "--tls-name", "a b"], "neither a domain nor an address"),
        (["--tls", "automatic"], "auto"),
    ):
        ended = subprocess.run([servers.binary(), "serve", "--data", str(tmp_path / "data"), *extra], capture_output=True, text=True, timeout=60)
        assert ended.returncode != 0 and words in ended.stderr, (extra, ended.stderr)
        assert not (tmp_path / "data").exists()


def test_a_new_certificate_while_connections_are_open(start, tmp_path):
    one, two = (issuer.certificate(directory) for directory in ((tmp_path / "one"), (tmp_path / "two")) if not directory.mkdir())
    place = tmp_path / "server.pem", tmp_path / "server.key"
    put = lambda pair: [shutil.copy(source, target) for source, target in zip(pair, place)]
    put(one)
    server = start(tls=place)
    first = shown(server.port, one[0])

    old = http.client.HTTPSConnection("localhost", server.port, context=ssl.create_default_context(cafile=one[0]))
    ask = lambda connection: (connection.request("GET", f"/{ACCOUNT}?comp=list"), connection.getresponse())[1]
    assert ask(old).read() and old.sock
    stream = old.sock

    # A certificate without its key, then nothing at all: nothing changes, and it is said why.
    shutil.copy(two[0], place[0])
    server.process.send_signal(signal.SIGHUP)
    waits_for(server, "the certificate stays as it is")
    assert shown(server.port, one[0]) == first and "cannot be used" in "".join(server.output)
    place[0].write_text("nothing")
    server.process.send_signal(signal.SIGHUP)
    waits_for(server, "the certificate stays as it is", 2)
    assert shown(server.port, one[0]) == first

    put(two)
    server.process.send_signal(signal.SIGHUP)
    waits_for(server, "new connections get the new certificate")
    assert shown(server.port, two[0]) != first
    with pytest.raises(ssl.SSLCertVerificationError):
        shown(server.port, one[0])
    assert ask(old).read() and old.sock is stream, "the old connection goes on"


def test_the_signal_to_stop_lets_an_upload_finish(start):
    server = start(tls="auto")
    ca = ca_of(server)
    service = BlobServiceClient(server.endpoint, credential=KEY, connection_verify=str(ca), retry_total=0)
    service.create_container("box")
    idle = connect(server.port, ca)
    stream = connect(server.port, ca)
    body = b"x" * 300_000
    path = f"/{ACCOUNT}/box/late"
    soon = datetime.now(timezone.utc) + timedelta(hours=1)
    sas = generate_container_sas(ACCOUNT, "box", KEY, permission=ContainerSasPermissions(write=True), expiry=soon)
    head = f"PUT {path}?{sas} HTTP/1.1\r\nHost: localhost\r\nx-ms-version: 2023-11-03\r\nx-ms-blob-type: BlockBlob\r\nContent-Length: {len(body)}\r\n\r\n"
    stream.sendall(head.encode() + body[:1000])
    time.sleep(0.3)
    server.process.send_signal(signal.SIGTERM)
    waits_for(server, "finishing the requests under way")
    assert idle.recv(1) == b"", "an idle connection is closed, and properly"
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", server.port), timeout=5)
    stream.sendall(body[1000:])
    answer = b""
    while piece := stream.recv(65536):  # the end is said: a cut would be an error
        answer += piece
    assert answer.startswith(b"HTTP/1.1 201 "), answer
    assert server.process.wait(30) == 0
    server.start()
    assert service.get_blob_client("box", "late").download_blob().readall() == body
