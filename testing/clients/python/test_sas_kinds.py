"""Every kind of token this client can make: granted what it grants, refused the rest, worthless when a byte is changed."""

import string
from datetime import datetime, timedelta, timezone

import pytest
from azure.storage.blob import (AccessPolicy, AccountSasPermissions, BlobClient, BlobSasPermissions, ContainerClient, ContainerSasPermissions,
                                ResourceTypes, Services, generate_account_sas, generate_blob_sas, generate_container_sas)

from server import ACCOUNT, KEY

HOUR = timedelta(hours=1)
NAME = "dir/b 1+\u00fc.txt"
SNAPSHOT = "2024-01-02T03:04:05.0000000Z"


def now():
    return datetime.now(timezone.utc)


@pytest.fixture
def stored(container):
    container.upload_blob(NAME, b"content")
    container.upload_blob("other", b"other")
    return container


def account_token(**more):
    fields = dict(resource_types="sco", permission="rwdlacup", expiry=now() + HOUR, services="b")
    return generate_account_sas(ACCOUNT, KEY, **{**fields, **more})


def container_token(container, **more):
    fields = dict(account_key=KEY, permission="racwdl", expiry=now() + HOUR)
    return generate_container_sas(ACCOUNT, container.container_name, **{**fields, **more})


def blob_token(container, **more):
    fields = dict(blob_name=NAME, account_key=KEY, permission="racwd", expiry=now() + HOUR)
    return generate_blob_sas(ACCOUNT, container.container_name, **{**fields, **more})


def seen(container, token):
    return ContainerClient.from_container_url(container.url, credential=token, retry_total=0)


MAKERS = {
    "account": lambda container, **more: account_token(**more),
    "container": container_token,
    "blob": blob_token,
}
each_kind = pytest.mark.parametrize("kind", MAKERS)


@each_kind
def test_when_from_where_and_over_what(stored, kind, refused):
    def read(**more):
        return seen(stored, MAKERS[kind](stored, **more)).download_blob(NAME).readall()

    assert read(start=now() - HOUR, ip="127.0.0.1", protocol="https,http") == b"content"
    assert read(ip="127.0.0.0-127.255.255.255") == b"content"
    assert read(expiry="2099-01-01") == b"content"
    for words in (dict(expiry=now() - HOUR), dict(start=now() + HOUR, expiry=now() + 2 * HOUR)):
        with refused(403, "AuthenticationFailed"):
            read(**words)


@pytest.mark.azurite("does not look at the address")
@each_kind
def test_from_elsewhere(stored, kind, refused):
    for ip in ("203.0.113.7", "10.0.0.1-10.255.255.255"):
        with refused(403, "AuthorizationSourceIPMismatch"):
            seen(stored, MAKERS[kind](stored, ip=ip)).download_blob(NAME)


@each_kind
def test_https_only(stored, endpoint, kind, refused):
    if endpoint.startswith("https"):
        pytest.skip("the server speaks https")
    with refused(403, "AuthorizationProtocolMismatch"):
        seen(stored, MAKERS[kind](stored, protocol="https")).download_blob(NAME)


@pytest.mark.azurite("answers AuthorizationFailure")
@each_kind
def test_a_changed_byte(stored, kind, refused):
    """One letter of every field, the signature among them: whichever it is, the token is worth nothing."""
    token = MAKERS[kind](stored, start=now() - HOUR, ip="127.0.0.1", protocol="https,http")
    assert seen(stored, token).download_blob(NAME).readall() == b"content"
    fields = token.split("&")
    for at, field in enumerate(fields):
        name, value = field.split("=", 1)
        if name == "sv":
            continue  # another version is another question: the next test
        spot = 0 if name in ("sp", "sig") else len(value) - 1
        other = next(letter for letter in "rwdl" + string.digits if letter != value[spot])
        changed = f"{name}={value[:spot]}{other}{value[spot + 1:]}"
        with refused(403, "AuthenticationFailed"):
            seen(stored, "&".join(fields[:at] + [changed] + fields[at + 1:])).download_blob(NAME)
    with refused(403, "AuthenticationFailed"):
        seen(stored, "&".join(field for field in fields if not field.startswith("sp="))).download_blob(NAME)


@pytest.mark.azurite("answers AuthorizationFailure")
@each_kind
def test_another_version(stored, kind, refused):
    token = MAKERS[kind](stored)
    version = next(field for field in token.split("&") if field.startswith("sv="))
    for other in ("sv=2018-03-28", "sv=2012-02-12", "sv=2099-01-01", "sv=soon", "sv="):
        with refused(403, "AuthenticationFailed"):
            seen(stored, token.replace(version, other)).download_blob(NAME)


@pytest.mark.azurite("knows no encryption scopes")
@each_kind
def test_encryption_scopes_are_refused_in_words(stored, kind, refused):
    with refused(403, "AuthenticationFailed") as refusal:
        seen(stored, MAKERS[kind](stored, encryption_scope="mine")).download_blob(NAME)
    assert "ncryption scope" in str(refusal.error)


# What each letter opens, of what the server does. The letters of what it does not do yet (t, x, y, i, m, e, f) are asked below.
def try_all(container, fresh):
    """The letters' worth of acts, each as granted or refused."""
    acts = {
        "read": lambda: container.download_blob(NAME).readall(),
        "head": lambda: container.get_blob_client(NAME).get_blob_properties(),
        "write": lambda: container.upload_blob(NAME, b"content", overwrite=True),
        "create": lambda: container.upload_blob(fresh, b"x"),
        "list": lambda: list(container.list_blobs()),
        "delete": lambda: container.delete_blob("other"),
    }
    granted = set()
    for name, act in acts.items():
        try:
            act()
            granted.add(name)
        except Exception as error:
            assert getattr(error, "status_code", None) == 403, f"{name}: {error!r}"
    return granted


@pytest.mark.azurite("differs about e and about overwriting")
@each_kind
def test_each_letter(stored, kind):
    opens = dict(r={"read", "head"}, w={"write", "create"}, c={"create"}, l={"list"}, d={"delete"}, a=set(), t=set(), x=set(),
                 i=set(), m=set(), f=set(), e={"head"}, y=set(), u=set(), p=set())
    makes = dict(account="rwdxylactfipu", container="racwdxyltmefi", blob="racwdxytmei")
    for letter in makes[kind]:
        stored.upload_blob("other", b"other", overwrite=True)
        # A token for one blob reaches neither the list nor another blob.
        expected = opens[letter] - ({"create", "list", "delete"} if kind == "blob" else set())
        granted = try_all(seen(stored, MAKERS[kind](stored, permission=letter)), f"fresh-{letter}")
        assert granted == expected, letter


@each_kind
def test_permissions_as_objects(stored, kind):
    objects = dict(
        account=AccountSasPermissions(read=True, write=True, delete=True, list=True, add=True, create=True, update=True, process=True,
                                      delete_previous_version=True, tag=True, filter_by_tags=True, set_immutability_policy=True,
                                      permanent_delete=True),
        container=ContainerSasPermissions(read=True, write=True, delete=True, list=True, delete_previous_version=True, tag=True, add=True,
                                          create=True, permanent_delete=True, filter_by_tags=True, move=True, execute=True,
                                          set_immutability_policy=True),
        blob=BlobSasPermissions(read=True, add=True, create=True, write=True, delete=True, delete_previous_version=True, tag=True,
                                permanent_delete=True, move=True, execute=True, set_immutability_policy=True),
    )
    token = MAKERS[kind](stored, permission=objects[kind])
    assert seen(stored, token).download_blob(NAME).readall() == b"content"


def test_services_and_resource_types_as_objects(stored, refused):
    everything = dict(services=Services(blob=True, queue=True, fileshare=True), resource_types=ResourceTypes(service=True, container=True, object=True))
    assert seen(stored, account_token(**everything)).download_blob(NAME).readall() == b"content"
    with refused(403, "AuthorizationServiceMismatch"):
        seen(stored, account_token(services=Services(queue=True, fileshare=True))).download_blob(NAME)


@pytest.mark.azurite("answers AuthorizationFailure")
def test_a_token_of_another_container_or_blob(stored, service, tools, refused):
    other = service.create_container(tools.fresh_name())
    other.upload_blob(NAME, b"of another")
    try:
        for token in (container_token(stored), blob_token(stored)):
            with refused(403, "AuthenticationFailed"):
                seen(other, token).download_blob(NAME)
        for act in (lambda one: one.download_blob("other"), lambda one: list(one.list_blobs()), lambda one: one.upload_blob("dir", b"x")):
            with refused(403, "AuthenticationFailed"):
                act(seen(stored, blob_token(stored)))
        assert seen(stored, container_token(stored)).download_blob("other").readall() == b"other"
    finally:
        other.delete_container()


def test_response_headers(stored):
    words = dict(cache_control="no-store, max-age=1", content_disposition='attachment; filename="a b.txt"', content_encoding="identity",
                 content_language="de, en", content_type="text/x-mine; charset=utf-8")
    for token in (container_token(stored, **words), blob_token(stored, **words)):
        blob = seen(stored, token).get_blob_client(NAME)
        for settings in (blob.get_blob_properties().content_settings, blob.download_blob().properties.content_settings):
            assert {name: settings[name] for name in words} == words
    assert stored.get_blob_client(NAME).get_blob_properties().content_settings.content_language is None


def policies(container, **given):
    container.set_container_access_policy(signed_identifiers=given)


@pytest.mark.parametrize("kind", ["container", "blob"])
def test_stored_policies(stored, kind, refused):
    def client(policy_id, **more):
        return seen(stored, MAKERS[kind](stored, **{**dict(permission=None, expiry=None, policy_id=policy_id), **more}))

    policies(
        stored,
        all=AccessPolicy(permission="r", expiry=now() + HOUR, start=now() - HOUR),
        permission=AccessPolicy(permission="r"),
        expiry=AccessPolicy(expiry=now() + HOUR),
        late=AccessPolicy(permission="r", expiry=now() + 2 * HOUR, start=now() + HOUR),
        empty=AccessPolicy(),
    )
    assert client("all").download_blob(NAME).readall() == b"content"
    assert client("permission", expiry=now() + HOUR).download_blob(NAME).readall() == b"content"
    assert client("expiry", permission="r").download_blob(NAME).readall() == b"content"
    assert client("empty", permission="r", expiry=now() + HOUR).download_blob(NAME).readall() == b"content"
    with refused(403, "AuthorizationPermissionMismatch"):
        client("all").upload_blob(NAME, b"x", overwrite=True)
    for policy_id, more in (("permission", {}), ("expiry", {}), ("late", {}), ("empty", {}), ("nobody", {}), ("all", dict(ip="127.0.0.1", permission="r"))):
        with refused(403, "AuthenticationFailed"):
            client(policy_id, **more).download_blob(NAME)
    # Gone, and so are its tokens; back, and so are they.
    policies(stored)
    with refused(403, "AuthenticationFailed"):
        client("all").download_blob(NAME)
    policies(stored, all=AccessPolicy(permission="r", expiry=now() + HOUR))
    assert client("all").download_blob(NAME).readall() == b"content"


@pytest.mark.azurite("snapshots and versions are another matter there")
def test_snapshot_and_version_tokens(stored, refused):
    """The signature is good, so what is answered is about snapshots and versions and not about authorization."""
    def blob(token, **which):
        return BlobClient.from_blob_url(stored.get_blob_client(NAME).url, credential=token, retry_total=0, **which)

    snapshot = blob_token(stored, snapshot=SNAPSHOT)
    with refused_otherwise():
        blob(snapshot, snapshot=SNAPSHOT).get_blob_properties()
    version = blob_token(stored, version_id=SNAPSHOT)
    with refused_otherwise():
        blob(version, version_id=SNAPSHOT).get_blob_properties(version_id=SNAPSHOT)
    # Signed for one snapshot, it opens no other and not the blob; signed for the blob, it opens no snapshot.
    for act in (
        lambda: blob(snapshot).get_blob_properties(),
        lambda: blob(snapshot, snapshot=SNAPSHOT.replace("05.", "06.")).get_blob_properties(),
        lambda: blob(version).get_blob_properties(),
        lambda: blob(blob_token(stored), snapshot=SNAPSHOT).get_blob_properties(),
    ):
        with refused(403, "AuthenticationFailed"):
            act()


class refused_otherwise:
    """Whatever the answer is, it is not about who asks."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        assert error is None or getattr(error, "status_code", 403) not in (401, 403), error
        return True


def test_directory_tokens_are_refused(stored, refused):
    token = blob_token(stored, blob_name="dir", is_directory=True, sdd=1)
    with refused(403, "AuthenticationFailed"):
        seen(stored, token).download_blob(NAME)


@pytest.mark.azurite("differs about these letters")
def test_the_letters_of_tags_tiers_and_holds(stored):
    """403 for whoever may not; whoever may gets an answer, if only that the account has no holds."""
    acts = {
        "t": lambda blob: blob.get_blob_tags(),
        "i": lambda blob: blob.set_legal_hold(True),
        "w": lambda blob: blob.set_standard_blob_tier("Cool"),
    }
    for letter, act in acts.items():
        for granted in "tiw":
            for kind in MAKERS:
                client = seen(stored, MAKERS[kind](stored, permission=granted)).get_blob_client(NAME)
                if granted == letter == "i":
                    with refused_otherwise():
                        act(client)
                elif granted == letter:
                    act(client)
                else:
                    with pytest.raises(Exception) as error:
                        act(client)
                    assert error.value.status_code == 403, (letter, granted, kind)
