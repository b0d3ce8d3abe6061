"""Service SAS tokens for one container or one blob, stored access policies, and public containers."""

from datetime import datetime, timedelta, timezone

import pytest
import requests
from azure.storage.blob import (AccessPolicy, BlobClient, BlobSasPermissions, ContainerClient, ContainerSasPermissions,
                                generate_blob_sas, generate_container_sas)

from server import ACCOUNT, KEY


def later():
    return datetime.now(timezone.utc) + timedelta(hours=1)


@pytest.fixture
def stored(container):
    container.upload_blob("dir/b 1.txt", b"content")
    container.upload_blob("other", b"other")
    return container


def blob_client(container, name, **more):
    """A blob seen through a token for the blob `dir/b 1.txt`, or for what `more` says."""
    fields = dict(blob_name="dir/b 1.txt", account_key=KEY, permission=BlobSasPermissions(read=True), expiry=later())
    sas = generate_blob_sas(ACCOUNT, container.container_name, **{**fields, **more})
    return BlobClient.from_blob_url(container.get_blob_client(name).url, credential=sas)


def test_a_blob_token_reads_its_blob_and_nothing_else(stored, refused):
    assert blob_client(stored, "dir/b 1.txt").download_blob().readall() == b"content"
    with refused(403, "AuthenticationFailed"):
        blob_client(stored, "other").download_blob()
    with refused(403, "AuthorizationPermissionMismatch"):
        blob_client(stored, "dir/b 1.txt").delete_blob()
    with refused(403, "AuthenticationFailed"):
        blob_client(stored, "dir/b 1.txt", expiry="2020-01-01T00:00:00Z").download_blob()


def test_a_token_may_create_without_overwriting(stored, refused):
    create = dict(blob_name="new", permission=BlobSasPermissions(create=True))
    blob_client(stored, "new", **create).upload_blob(b"x")
    with refused(403, "UnauthorizedBlobOverwrite"):
        blob_client(stored, "new", **create).upload_blob(b"y", overwrite=True)


def test_a_token_overrides_content_headers(stored):
    blob = blob_client(stored, "dir/b 1.txt", content_type="text/x-mine", content_disposition="inline", cache_control="no-store")
    settings = blob.get_blob_properties().content_settings
    assert (settings.content_type, settings.content_disposition, settings.cache_control) == ("text/x-mine", "inline", "no-store")
    assert stored.get_blob_client("dir/b 1.txt").get_blob_properties().content_settings.content_type == "application/octet-stream"


def test_blanks_of_a_token_may_be_pluses(stored):
    """So .NET and Go write them; what is signed is the blank."""
    shown = 'attachment; filename="a + b.txt"'
    sas = generate_blob_sas(ACCOUNT, stored.container_name, "other", account_key=KEY, permission="r", expiry=later(),
                            content_disposition=shown)
    sas = sas.replace("%20", "+")
    assert "a+%2B+b" in sas
    answer = requests.get(f"{stored.get_blob_client('other').url}?{sas}", timeout=30)
    assert (answer.status_code, answer.headers["Content-Disposition"]) == (200, shown), answer.text
    copy = stored.get_blob_client("copy")
    copy.upload_blob_from_url(f"{stored.get_blob_client('other').url}?{sas}")
    assert copy.download_blob().readall() == b"other"


def test_a_container_token(stored, refused):
    def client(permission):
        sas = generate_container_sas(ACCOUNT, stored.container_name, account_key=KEY, permission=permission, expiry=later())
        return ContainerClient.from_container_url(stored.url, credential=sas)

    lists = client(ContainerSasPermissions(list=True))
    assert [blob.name for blob in lists.list_blobs()] == ["dir/b 1.txt", "other"]
    with refused(403, "AuthorizationPermissionMismatch"):
        lists.download_blob("other")
    everything = client(ContainerSasPermissions(read=True, write=True, delete=True, list=True, create=True, add=True))
    everything.upload_blob("third", b"3")
    everything.delete_blob("third")
    # A service SAS never reaches the container itself.
    for act in (everything.get_container_properties, everything.delete_container, lambda: everything.set_container_metadata({"a": "b"})):
        with refused(403, "AuthorizationFailure"):
            act()


def test_a_policy_that_is_not_there(stored, refused):
    sas = generate_container_sas(ACCOUNT, stored.container_name, account_key=KEY, policy_id="nobody")
    client = ContainerClient.from_container_url(stored.url, credential=sas)
    with refused(403, "AuthenticationFailed"):
        list(client.list_blobs())


def test_a_policy_is_effective_and_revoked_at_once(stored, refused):
    def client(policy_id):
        sas = generate_container_sas(ACCOUNT, stored.container_name, account_key=KEY, policy_id=policy_id)
        return ContainerClient.from_container_url(stored.url, credential=sas)

    def allow(**policies):
        stored.set_container_access_policy(signed_identifiers=policies)

    reading = AccessPolicy(permission=ContainerSasPermissions(read=True), expiry=later())
    allow(reader=reading, lister=AccessPolicy(permission=ContainerSasPermissions(list=True), expiry=later()))
    assert client("reader").download_blob("other").readall() == b"other"
    with refused(403, "AuthorizationPermissionMismatch"):
        list(client("reader").list_blobs())
    assert len(list(client("lister").list_blobs())) == 2
    kept = {one.id: one for one in stored.get_container_access_policy()["signed_identifiers"]}
    assert kept["reader"].access_policy.permission == "r" and set(kept) == {"reader", "lister"}

    allow(lister=reading)
    with refused(403, "AuthenticationFailed"):
        client("reader").download_blob("other")
    assert client("lister").download_blob("other").readall() == b"other"
    allow(lister=AccessPolicy(permission=ContainerSasPermissions(read=True), expiry="2020-01-01T00:00:00Z"))
    with refused(403, "AuthenticationFailed"):
        client("lister").download_blob("other")


def test_a_policy_and_a_token_do_not_say_the_same_thing_twice(stored, refused):
    stored.set_container_access_policy(signed_identifiers={"p": AccessPolicy(permission=ContainerSasPermissions(read=True))})
    fields = dict(account_key=KEY, policy_id="p", expiry=later())
    once = generate_container_sas(ACCOUNT, stored.container_name, **fields)
    assert ContainerClient.from_container_url(stored.url, credential=once).download_blob("other").readall() == b"other"
    twice = generate_container_sas(ACCOUNT, stored.container_name, permission=ContainerSasPermissions(read=True), **fields)
    with refused(403, "AuthenticationFailed"):
        ContainerClient.from_container_url(stored.url, credential=twice).download_blob("other")


def test_a_public_container(stored, refused):
    anybody = ContainerClient.from_container_url(stored.url)
    with refused(401, "NoAuthenticationInformation"):
        anybody.download_blob("other")
    stored.set_container_access_policy(signed_identifiers={}, public_access="blob")
    assert anybody.download_blob("other").readall() == b"other"
    with refused(401, "NoAuthenticationInformation"):
        list(anybody.list_blobs())
    stored.set_container_access_policy(signed_identifiers={}, public_access="container")
    assert [blob.name for blob in anybody.list_blobs()] == ["dir/b 1.txt", "other"]
    with refused(401, "NoAuthenticationInformation"):
        anybody.upload_blob("new", b"x")
    assert stored.get_container_properties().public_access == "container"
