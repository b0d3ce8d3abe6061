"""What is told of requests: lines of the log for people and for programs, and traces, which a small collector here reads."""

import http.server
import json
import os
import pty
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient, ContainerSasPermissions, generate_container_sas

import server as servers
from server import ACCOUNT, KEY

pytestmark = pytest.mark.skipif(servers.kind() != "lazuli", reason="the flags are ours")

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector(http.server.ThreadingHTTPServer):
    """Keeps what it is sent."""

    def __init__(self):
        self.sent = []
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def spans(self):
        resources = [one for _, _, body in self.sent for one in body["resourceSpans"]]
        return [span for one in resources for scope in one["scopeSpans"] for span in scope["spans"]]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.sent.append((self.path, dict(self.headers), json.loads(body)))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    one = Collector()
    yield one
    one.shutdown()
    one.server_close()


def attributes(span):
    return {one["key"]: next(iter(one["value"].values())) for one in span.get("attributes", [])}


def client(server):
    return BlobServiceClient(server.endpoint, credential=KEY, retry_total=0)


def said(server):
    """All but the connection string of the development account, whose key everybody knows."""
    return "".join(line for line in server.output if not line.startswith("connect "))


def sending(headers):
    return dict(raw_request_hook=lambda request: request.http_request.headers.update(headers))


def work(server):
    """A put, a get, a refusal, a stranger; under a trace of the client's. The secrets that were used."""
    service = client(server)
    service.create_container("box")
    under = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1"}
    blob = service.get_blob_client("box", "b")
    blob.upload_blob(b"x" * 1_000_000, **sending(under))
    assert blob.download_blob(**sending(under)).readall() == b"x" * 1_000_000
    with pytest.raises(HttpResponseError):
        blob.upload_blob(b"y", **sending(under))
    sas = generate_container_sas(ACCOUNT, "box", KEY, permission=ContainerSasPermissions(list=True), expiry=datetime.now(timezone.utc) + timedelta(hours=1))
    url = f"{server.endpoint}/box?restype=container&comp=list&{sas}"
    with urllib.request.urlopen(urllib.request.Request(url, headers=under)) as answer:
        assert answer.status == 200
    return [KEY, re.search("sig=([^&]*)", sas).group(1)]


def test_traces(start, collector):
    variables = {"OTEL_SERVICE_NAME": "storage-of-tests", "OTEL_RESOURCE_ATTRIBUTES": "team=blue", "OTEL_EXPORTER_OTLP_HEADERS": "api-key=hidden%21"}
    server = start(extra=["--otlp-endpoint", collector.url, "--log", "trace"], environment=variables)
    secrets = work(server) + ["hidden!"]
    assert server.stop() == 0, "the last ones are sent at the end"
    path, headers, first = collector.sent[0]
    headers = {name.lower(): value for name, value in headers.items()}
    assert path == "/v1/traces" and headers["content-type"] == "application/json" and headers["api-key"] == "hidden!"
    resource = {one["key"]: one["value"]["stringValue"] for one in first["resourceSpans"][0]["resource"]["attributes"]}
    assert resource["service.name"] == "storage-of-tests" and resource["team"] == "blue" and resource["service.version"]

    spans = collector.spans()
    assert len({span["spanId"] for span in spans}) == len(spans)
    requests = [span for span in spans if span["kind"] == 2]
    assert [span["name"] for span in requests] == ["CreateContainer", "PutBlockBlob", "GetBlob", "PutBlockBlob", "ListBlobs"]
    for span in requests:
        told = attributes(span)
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        assert told["lazuli.account"] == ACCOUNT and told["lazuli.service"] == "blob" and told["url.scheme"] == "http"
        assert len(told["az.service_request_id"]) == 36 and told["client.address"] == "127.0.0.1"
        is_under = span["name"] != "CreateContainer"
        assert (span["traceId"] == TRACE, span.get("parentSpanId") == SPAN, span.get("traceState") == "vendor=1") == (is_under,) * 3
    create, put, get, refused, listed = requests
    assert attributes(put)["http.request.body.size"] == "1000000" and attributes(get)["http.response.body.size"] == "1000000"
    assert attributes(refused)["http.response.status_code"] == "409" and attributes(refused)["lazuli.error_code"] == "BlobAlreadyExists"
    assert refused["status"] == {} and "error.type" not in attributes(refused), "the client's doing is no error of the server"
    assert "?" not in attributes(listed)["url.path"] and "url.query" not in attributes(listed)

    stages = [span for span in spans if span["kind"] == 1]
    of = lambda parent: [span for span in stages if span["parentSpanId"] == parent["spanId"]]
    assert [span["name"] for span in of(put)] == ["receive body", "wait for turn", "commit"] and of(get) == []
    for parent in requests:
        for stage in of(parent):
            assert stage["traceId"] == parent["traceId"]
            assert int(parent["startTimeUnixNano"]) <= int(stage["startTimeUnixNano"]) <= int(stage["endTimeUnixNano"]) <= int(parent["endTimeUnixNano"])
    shown = json.dumps([body for _, _, body in collector.sent]) + said(server)
    assert [secret for secret in secrets if secret in shown] == []


def test_clients_decide_of_their_traces_and_the_ratio_of_ours(start, collector):
    server = start(extra=["--otlp-endpoint", collector.url, "--trace-ratio", "0"])
    service = client(server)
    service.create_container("box")
    service.get_container_client("box").get_container_properties(**sending({"traceparent": f"00-{TRACE}-{SPAN}-00"}))
    service.get_container_client("box").get_container_properties(**sending({"traceparent": f"00-{TRACE}-{SPAN}-01"}))
    service.get_container_client("box").get_container_properties(**sending({"traceparent": "nonsense"}))
    server.stop()
    assert [span["name"] for span in collector.spans()] == ["GetContainerProperties"]


def test_a_stranger_is_traced_without_a_name(start, collector):
    server = start(extra=["--otlp-endpoint", collector.url])
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"{server.endpoint}/box/b?sig=secret&sv=2023-11-03&sr=b&sp=r&se=2099-01-01")
    server.stop()
    (span,) = collector.spans()
    told = attributes(span)
    assert span["name"] == "GET" and told["http.response.status_code"] == "403" and "lazuli.account" not in told
    assert "secret" not in json.dumps(collector.sent[0][2])


def test_nobody_waits_for_a_collector_that_is_not_there(start):
    nowhere = f"http://127.0.0.1:{servers.free_port()}"
    server = start(extra=["--otlp-endpoint", nowhere])
    begun = time.monotonic()
    client(server).create_container("box")
    assert time.monotonic() - begun < 2
    begun = time.monotonic()
    while "traces were lost" not in "".join(server.output) and time.monotonic() - begun < 20:
        time.sleep(0.05)
    assert "no connection" in "".join(server.output)
    assert server.stop() == 0


def test_off_is_off(start, collector):
    server = start(environment={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}, extra=["--otlp-endpoint", "off"])
    client(server).create_container("box")
    server.stop()
    assert collector.sent == []


def test_opentelemetrys_own_variable(start, collector):
    server = start(environment={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url + "/"})
    client(server).create_container("box")
    server.stop()
    assert "CreateContainer" in [span["name"] for span in collector.spans()]


# --- the log ---------------------------------------------------------------------------------------------------------


def test_lines_of_json(start, tmp_path):
    server = start(extra=["--log", "debug"], environment={"LAZULI_LOG_FORMAT": "json"})
    secrets = work(server)
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"{server.endpoint}/box/b")
    server.stop()
    lines = [json.loads(line) for line in server.output if line.startswith("{")]
    assert all({"timestamp", "level", "message", "target"} <= line.keys() for line in lines)
    of_requests = [line for line in lines if line["message"] in ("answered", "refused", "not authenticated")]
    assert {line["message"] for line in of_requests} >= {"answered", "refused"}
    assert all(len(line["request"]) == 36 for line in of_requests)
    answered = next(line for line in lines if line["message"] == "answered")
    assert (answered["operation"], answered["status"]) == ("CreateContainer", 201) and "azsdk-python" in answered["client"]
    assert [secret for secret in secrets if secret in said(server)] == []


def command(tmp_path, *extra):
    ports = [word for service in [*servers.SERVICES, "smb"] for word in (f"--{service}-port", "0")]
    ports += ["--console-port", "off"]
    return [servers.binary(), "serve", "--data", str(tmp_path / "data"), *ports, *extra]


@pytest.mark.parametrize("extra, on_terminal, is_json, has_colours", [
    ([], True, False, True), ([], False, True, False), (["--log-format", "text"], False, False, False),
    (["--log-format", "json"], True, True, False), (["no-color"], True, False, False),
])
def test_a_terminal_and_a_pipe(tmp_path, extra, on_terminal, is_json, has_colours):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LAZULI_", "NO_COLOR"))}
    if extra == ["no-color"]:
        extra, environment["NO_COLOR"] = [], "1"
    reader, writer = pty.openpty() if on_terminal else os.pipe()
    process = subprocess.Popen(command(tmp_path, *extra, "--otlp-endpoint", "http://127.0.0.1:9"), stdout=subprocess.PIPE, stderr=writer, text=True, env=environment)
    while not process.stdout.readline().startswith("ready"):
        assert process.poll() is None
    process.terminate()
    assert process.wait(30) == 0
    os.close(writer)
    said = b""
    try:
        while piece := os.read(reader, 65536):
            said += piece
    except OSError:
        pass  # how the end of a terminal is told
    os.close(reader)
    text = said.decode()
    assert "stopping: finishing the requests under way" in text
    assert ("\x1b[" in text) == has_colours
    if is_json:
        assert [json.loads(line)["level"] for line in text.splitlines()]
    else:
        assert "INFO" in text and not text.startswith("{")
