"""Tokens as the clients of queues, tables and files make them, on plain requests: who asks is settled before what is asked.

An operation that is not built answers 501 to whoever may and 403 to whoever may not; once it is built these tests still hold.
"""

import http.client
import ssl
from datetime import datetime, timedelta, timezone
from urllib.parse import quote, urlsplit

import pytest

import server as servers
from issuer import Bearer, Issuer, certificate, configuration, fresh_id
from server import ACCOUNT, KEY

azure_queue = pytest.importorskip("azure.storage.queue")
azure_tables = pytest.importorskip("azure.data.tables")
azure_files = pytest.importorskip("azure.storage.fileshare")

from azure.core.credentials import AzureNamedKeyCredential  # noqa: E402

pytestmark = pytest.mark.skipif(servers.kind() != "lazuli", reason="the peer is started for blobs alone")

HOUR = timedelta(hours=1)
NAMED = AzureNamedKeyCredential(ACCOUNT, KEY)
VERSION = "2025-07-05"


def later():
    return datetime.now(timezone.utc) + HOUR


def ask(endpoint, method, path, token, query="", headers=None, trusted=None):
    """The status and code of the answer."""
    url = urlsplit(endpoint)
    if trusted:
        connection = http.client.HTTPSConnection(url.hostname, url.port, context=ssl.create_default_context(cafile=trusted))
    else:
        connection = http.client.HTTPConnection(url.hostname, url.port)
    body = headers.pop("body", "") if headers else ""
    target = f"{url.path}/{quote(path)}?{query}{'&' if query else ''}{token}"
    connection.request(method, target, body=body or None, headers={"x-ms-version": VERSION, "Content-Length": str(len(body))} | (headers or {}))
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, answer.getheader("x-ms-error-code")


MESSAGE = "<QueueMessage><MessageText>x</MessageText></QueueMessage>"


def queue_requests(token, name="line"):
    return {
        "a": ("POST", f"{name}/messages", token, "", {"body": MESSAGE, "Content-Type": "application/xml"}),
        "r": ("GET", f"{name}/messages", token, "peekonly=true"),
        "p": ("GET", f"{name}/messages", token, ""),
        "u": ("PUT", f"{name}/messages/some-id", token, "popreceipt=AgAAAAMAAAAAAAAA&visibilitytimeout=0"),
    }


def table_requests(token, name="people"):
    json = {"Accept": "application/json;odata=nometadata", "Content-Type": "application/json", "DataServiceVersion": "3.0"}
    entity = '{"PartitionKey":"p","RowKey":"r"}'
    return {
        "r": ("GET", f"{name}()", token, "", json),
        "a": ("POST", name, token, "", json | {"body": entity}),
        "u": ("PUT", f"{name}(PartitionKey='p',RowKey='r')", token, "", json | {"If-Match": "*", "body": entity}),
        "d": ("DELETE", f"{name}(PartitionKey='p',RowKey='r')", token, "", json | {"If-Match": "*"}),
    }


def file_requests(token, name="share"):
    return {
        "r": ("GET", f"{name}/dir/f.txt", token, ""),
        "w": ("PUT", f"{name}/dir/f.txt", token, "comp=metadata"),
        "c": ("PUT", f"{name}/dir/f.txt", token, "", {"x-ms-type": "file", "x-ms-content-length": "1"}),
        "d": ("DELETE", f"{name}/dir/f.txt", token, ""),
    }


def check(endpoint, letters, requests, make, accepts=lambda letter, of: letter == of, **more):
    """A token of each letter opens the request of that letter and no other."""
    for letter in letters:
        for of, request in requests(make(letter)).items():
            status, code = ask(endpoint, *request, **more)
            if accepts(letter, of):
                assert status not in (401, 403), (letter, of, status, code)
            else:
                assert (status, code) == (403, "AuthorizationPermissionMismatch"), (letter, of, status, code)


def not_authenticated(endpoint, requests, tokens, **more):
    for token in tokens:
        for request in requests(token).values():
            assert ask(endpoint, *request, **more) == (403, "AuthenticationFailed"), token


def test_queue_tokens(endpoints):
    def make(permission, name="line", **more):
        return azure_queue.generate_queue_sas(ACCOUNT, name, KEY, permission=permission, **(dict(expiry=later()) | more))

    endpoint = endpoints["queue"]
    check(endpoint, "raup", queue_requests, make)
    check(endpoint, "raup", queue_requests, lambda letter: make(letter, ip="127.0.0.1", protocol="https,http", start=later() - 2 * HOUR))
    good = make("raup")
    not_authenticated(endpoint, queue_requests, [
        make("raup", name="other"), make("raup", expiry=later() - 2 * HOUR), make("raup", start=later()), make("r").replace("sp=r", "sp=raup"),
        good.replace("sig=", "sig=A"), azure_queue.generate_queue_sas(ACCOUNT, "line", KEY, policy_id="nobody")])
    for method, path, query in (("PUT", "line", ""), ("DELETE", "line", ""), ("GET", "line", "comp=acl"), ("DELETE", "line/messages", "")):
        assert ask(endpoint, method, path, good, query) == (403, "AuthorizationFailure")


def test_table_tokens(endpoints):
    def make(permission, name="people", **more):
        return azure_tables.generate_table_sas(NAMED, name, permission=permission, **(dict(expiry=later()) | more))

    endpoint = endpoints["table"]
    check(endpoint, "raud", table_requests, make)
    check(endpoint, "raud", table_requests, lambda letter: make(letter, ip_address_or_range="127.0.0.1", protocol="https,http", start=later() - 2 * HOUR))
    ranged = dict(start_pk="a", start_rk="b", end_pk="q", end_rk="z")
    check(endpoint, "raud", table_requests, lambda letter: make(letter, **ranged))
    # The name counts without case.
    check(endpoint, "raud", table_requests, lambda letter: make(letter, name="People"))
    good = make("raud", **ranged)
    not_authenticated(endpoint, table_requests, [
        make("raud", name="other"), make("raud", expiry=later() - 2 * HOUR), make("raud", start=later()), make("r").replace("sp=r", "sp=raud"),
        good.replace("epk=q", "epk=z"), azure_tables.generate_table_sas(NAMED, "people", policy_id="nobody")])


def test_file_and_share_tokens(endpoints):
    def share(permission, name="share", **more):
        return azure_files.generate_share_sas(ACCOUNT, name, KEY, permission=permission, **(dict(expiry=later()) | more))

    def file(permission, path=("dir", "f.txt"), **more):
        return azure_files.generate_file_sas(ACCOUNT, "share", list(path), KEY, permission=permission, **(dict(expiry=later()) | more))

    endpoint = endpoints["file"]

    def accepts(letter, of):
        return letter == of or (letter, of) == ("w", "c")  # whoever may write may create

    for make in (share, file):
        check(endpoint, "rcwd", file_requests, make, accepts)
        words = dict(ip="127.0.0.1", protocol="https,http", cache_control="no-store", content_type="text/plain", content_disposition="inline")
        check(endpoint, "rcwd", file_requests, lambda letter: make(letter, **words), accepts)
        not_authenticated(endpoint, file_requests, [
            make("rcwd", expiry=later() - 2 * HOUR), make("rcwd", start=later()), make("r").replace("sp=r", "sp=rw"),
            make("rcwd", content_type="text/plain").replace("rsct=text", "rsct=test")])
    not_authenticated(endpoint, file_requests, [share("rcwd", name="other"), file("rcwd", path=("f.txt",))])


@pytest.mark.parametrize("service", ["queue", "table", "file"])
def test_account_tokens(endpoints, service):
    def make(permission, resource_types="sco", **more):
        words = dict(expiry=later()) | more
        if service == "table":
            return azure_tables.generate_account_sas(NAMED, azure_tables.ResourceTypes.from_string(resource_types), permission, **words)
        module = azure_queue if service == "queue" else azure_files
        return module.generate_account_sas(ACCOUNT, KEY, resource_types, permission, **words)

    endpoint = endpoints[service]
    letters, requests = dict(queue=("raup", queue_requests), table=("raud", table_requests), file=("rcwd", file_requests))[service]
    check(endpoint, letters, requests, make, lambda letter, of: letter == of or (service, letter, of) == ("file", "w", "c"))
    not_authenticated(endpoint, requests, [make(letters, expiry=later() - 2 * HOUR), make("r").replace("sp=r", "sp=raup")])
    for request in requests(make(letters, "sc")).values():
        assert ask(endpoint, *request) == (403, "AuthorizationResourceTypeMismatch")
    for request in requests(make(letters).replace("ss=", "ss=b&was=")).values():
        assert ask(endpoint, *request) == (403, "AuthenticationFailed")
    # A token of this service alone opens no other.
    elsewhere = next(other for other in ("queue", "file") if other != service)
    other = dict(queue=queue_requests, file=file_requests)[elsewhere]
    for request in other(make(letters)).values():
        assert ask(endpoints[elsewhere], *request) == (403, "AuthorizationServiceMismatch")


def test_delegated_queue_and_file_tokens(tmp_path, start):
    principal, issuer, tls = fresh_id(), Issuer(), certificate(tmp_path)
    roles = ["Storage Queue Data Contributor", "Storage File Data Privileged Contributor"]
    config = configuration(tmp_path, [issuer], [dict(principal=principal, role=role) for role in roles])
    server = start(tls=tls, extra=["--config", str(config)])
    options = dict(credential=Bearer(issuer.token(principal)), retry_total=0, connection_verify=str(tls[0]))
    trusted = dict(trusted=tls[0])

    queue = server.endpoint_of("queue")
    key = azure_queue.QueueServiceClient(queue, **options).get_user_delegation_key(expiry=later(), start=later() - 2 * HOUR)
    assert (key.signed_oid, key.signed_service) == (principal, "q")

    def queue_token(permission, name="line", key=key, **more):
        return azure_queue.generate_queue_sas(ACCOUNT, name, user_delegation_key=key, permission=permission, expiry=later(), **more)

    check(queue, "raup", queue_requests, queue_token, **trusted)
    check(queue, "raup", queue_requests, lambda letter: queue_token(letter, ip="127.0.0.1", protocol="https"), **trusted)
    not_authenticated(queue, queue_requests, [queue_token("raup", name="other"), queue_token("r").replace("sp=r", "sp=a"),
                                              queue_token("raup", user_delegation_oid=fresh_id())], **trusted)

    files = server.endpoint_of("file")
    options["token_intent"] = "backup"
    key = azure_files.ShareServiceClient(files, **options).get_user_delegation_key(expiry=later(), start=later() - 2 * HOUR)
    assert (key.signed_oid, key.signed_service) == (principal, "f")

    def accepts(letter, of):
        return letter == of or (letter, of) == ("w", "c")

    def share_token(permission, **more):
        return azure_files.generate_share_sas(ACCOUNT, "share", user_delegation_key=key, permission=permission, expiry=later(), **more)

    def file_token(permission, **more):
        return azure_files.generate_file_sas(ACCOUNT, "share", ["dir", "f.txt"], user_delegation_key=key, permission=permission, expiry=later(), **more)

    for make in (share_token, file_token):
        check(files, "rcwd", file_requests, make, accepts, **trusted)
        not_authenticated(files, file_requests, [make("r").replace("sp=r", "sp=w"), make("rcwd", user_delegation_oid=fresh_id())], **trusted)
