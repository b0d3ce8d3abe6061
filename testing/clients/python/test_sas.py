"""Who may: the account key, account SAS tokens, and nobody else."""

import base64
from datetime import datetime, timedelta, timezone

import pytest
from azure.storage.blob import AccountSasPermissions, BlobClient, ResourceTypes, Services, generate_account_sas

from server import ACCOUNT, KEY

HOUR = timedelta(hours=1)
EVERYTHING = dict(resource_types=ResourceTypes(service=True, container=True, object=True), services=Services(blob=True))
ALL = AccountSasPermissions(read=True, write=True, delete=True, list=True, add=True, create=True, update=True, process=True)


def now():
    return datetime.now(timezone.utc)


def token(permission=ALL, key=KEY, expiry=None, **more):
    return generate_account_sas(ACCOUNT, key, permission=permission, expiry=expiry or now() + HOUR, **{**EVERYTHING, **more})


@pytest.fixture
def stored(container):
    container.upload_blob("b", b"content")
    return container


@pytest.fixture
def with_token(endpoint, stored, tools):
    """The container of this test, seen through a token."""
    return lambda sas: tools.client(endpoint, credential=sas).get_container_client(stored.container_name)


def test_full_token_does_everything(endpoint, tools):
    service = tools.client(endpoint, credential=token())
    container = service.create_container(tools.fresh_name())
    container.upload_blob("a b/\u00fc", b"x", metadata={"Aa": "1"})
    assert container.download_blob("a b/\u00fc").readall() == b"x"
    assert [b.name for b in container.list_blobs()] == ["a b/\u00fc"]
    assert container.container_name in [c.name for c in service.list_containers()]
    container.set_container_metadata({"x": "y"})
    assert container.get_container_properties().metadata == {"x": "y"}
    container.delete_blob("a b/\u00fc")
    container.delete_container()


def test_read_only_token_cannot_write(with_token, refused):
    container = with_token(token(AccountSasPermissions(read=True)))
    assert container.download_blob("b").readall() == b"content"
    container.get_container_properties()
    for act in (
        lambda: container.upload_blob("b", b"x", overwrite=True),
        lambda: container.upload_blob("new", b"x"),
        lambda: container.delete_blob("b"),
        lambda: list(container.list_blobs()),
        lambda: container.set_container_metadata({"a": "b"}),
        lambda: container.delete_container(),
    ):
        with refused(403, "AuthorizationPermissionMismatch"):
            act()
    assert container.download_blob("b").readall() == b"content"


def test_write_only_token_cannot_read(with_token, refused):
    container = with_token(token(AccountSasPermissions(write=True)))
    container.upload_blob("b", b"x", overwrite=True)
    with refused(403, "AuthorizationPermissionMismatch"):
        container.download_blob("b")


def test_create_only_token_cannot_overwrite(with_token, refused):
    container = with_token(token(AccountSasPermissions(create=True)))
    container.upload_blob("new", b"x")
    with refused(403):  # UnauthorizedBlobOverwrite
        container.upload_blob("b", b"x", overwrite=True)


def test_list_and_delete_letters(with_token, refused):
    lister = with_token(token(AccountSasPermissions(list=True)))
    assert [b.name for b in lister.list_blobs()] == ["b"]
    with refused(403, "AuthorizationPermissionMismatch"):
        lister.delete_blob("b")
    with_token(token(AccountSasPermissions(delete=True))).delete_blob("b")
    assert list(lister.list_blobs()) == []


@pytest.mark.azurite("answers AuthorizationFailure")
def test_time_window(with_token, refused):
    with refused(403, "AuthenticationFailed"):
        with_token(token(expiry=now() - HOUR)).download_blob("b")
    with refused(403, "AuthenticationFailed"):
        with_token(token(start=now() + HOUR, expiry=now() + 2 * HOUR)).download_blob("b")
    assert with_token(token(start=now() - HOUR)).download_blob("b").readall() == b"content"


def test_resource_types(endpoint, with_token, tools, refused):
    objects = token(resource_types=ResourceTypes(object=True))
    assert with_token(objects).download_blob("b").readall() == b"content"
    with refused(403, "AuthorizationResourceTypeMismatch"):
        list(with_token(objects).list_blobs())
    with refused(403, "AuthorizationResourceTypeMismatch"):
        list(tools.client(endpoint, credential=objects).list_containers())
    containers = token(resource_types=ResourceTypes(container=True))
    assert [b.name for b in with_token(containers).list_blobs()] == ["b"]
    with refused(403, "AuthorizationResourceTypeMismatch"):
        with_token(containers).download_blob("b")


def test_other_service(with_token, refused):
    with refused(403, "AuthorizationServiceMismatch"):
        with_token(token(services=Services(queue=True))).download_blob("b")


def test_protocol_and_address(endpoint, with_token, refused):
    if endpoint.startswith("http:"):
        with refused(403, "AuthorizationProtocolMismatch"):
            with_token(token(protocol="https")).download_blob("b")
    assert with_token(token(protocol="https,http", ip="127.0.0.1")).download_blob("b").readall() == b"content"
    assert with_token(token(ip="127.0.0.0-127.0.0.255")).download_blob("b").readall() == b"content"


@pytest.mark.azurite("does not look at the address")
def test_address_outside_the_range(with_token, refused):
    with refused(403, "AuthorizationSourceIPMismatch"):
        with_token(token(ip="203.0.113.7")).download_blob("b")


@pytest.mark.azurite("answers AuthorizationFailure")
def test_tampered_token(with_token, refused):
    sas = token(AccountSasPermissions(read=True))
    with refused(403, "AuthenticationFailed"):
        with_token(sas.replace("sp=r", "sp=rw")).download_blob("b")
    with refused(403, "AuthenticationFailed"):
        with_token(token(key=base64.b64encode(b"another key").decode())).download_blob("b")


@pytest.mark.azurite("answers AuthorizationFailure")
def test_wrong_key(endpoint, stored, tools, refused):
    service = tools.client(endpoint, credential=base64.b64encode(b"not the key of this account").decode())
    container = service.get_container_client(stored.container_name)
    with refused(403, "AuthenticationFailed"):
        container.upload_blob("b", b"x", overwrite=True)
    with refused(403, "AuthenticationFailed"):
        container.download_blob("b")
    with refused(403, "AuthenticationFailed"):
        list(container.list_blobs())
    with refused(403, "AuthenticationFailed"):
        list(service.list_containers())
    assert stored.download_blob("b").readall() == b"content"


@pytest.mark.azurite("answers 403")
def test_no_credential(stored, refused):
    blob = BlobClient.from_blob_url(stored.get_blob_client("b").url, retry_total=0)
    with refused(401, "NoAuthenticationInformation"):
        blob.download_blob()
    with refused(401, "NoAuthenticationInformation"):
        blob.upload_blob(b"x", overwrite=True)


@pytest.mark.azurite("does not look at the date")
def test_old_date_is_refused(stored, refused):
    def yesterday(request):
        date = (now() - timedelta(days=1)).strftime("%a, %d %b %Y %H:%M:%S GMT")
        request.http_request.headers["x-ms-date"] = date

    with refused(403, "AuthenticationFailed"):
        stored.get_blob_client("b").get_blob_properties(raw_request_hook=yesterday)
