"""Bearer tokens and what is delegated with them, over https: an issuer of our own, a configuration file with roles, the client as it comes."""

import asyncio
import http.client
import signal
import ssl
import time
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient, ContainerClient, generate_blob_sas, generate_container_sas
from azure.storage.blob.aio import BlobServiceClient as AsyncBlobServiceClient

import server as servers
from issuer import AUDIENCE, TENANT, Bearer, Issuer, certificate, configuration, fresh_id
from server import ACCOUNT, KEY
from test_old_clients import each_release, run

pytestmark = pytest.mark.skipif(servers.kind() != "lazuli", reason="the issuer is a setting of ours")

HOUR = timedelta(hours=1)
NAME = "dir/b 1.txt"
READER, CONTRIBUTOR, OWNER = (f"Storage Blob Data {word}" for word in ("Reader", "Contributor", "Owner"))
# One principal for each way of having a role.
IDS = {word: fresh_id() for word in ("reader", "contributor", "owner", "delegator", "here", "only here", "elsewhere", "nobody", "group")}
ASSIGNMENTS = [
    dict(principal=IDS["reader"], role=READER),
    dict(principal=IDS["contributor"], role=CONTRIBUTOR),
    dict(principal=IDS["owner"], role=OWNER, account=ACCOUNT),
    dict(principal=IDS["delegator"], role="Storage Blob Delegator"),
    dict(principal=IDS["here"], role=CONTRIBUTOR, within="here"),
    # A key is the account's to give, so a role within one container does not bring it.
    dict(principal=IDS["here"], role="Storage Blob Delegator"),
    dict(principal=IDS["only here"], role=OWNER, within="here"),
    dict(principal=IDS["elsewhere"], role=OWNER, account="otheraccount"),
    dict(principal=IDS["group"], role=READER),
    dict(principal="Lazuli.Write", role=CONTRIBUTOR),
]


def now():
    return datetime.now(timezone.utc)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    if servers.os.environ.get("LAZULI_BLOB_ENDPOINT"):
        pytest.skip("needs a server of its own")
    directory = tmp_path_factory.mktemp("tokens")
    issuer = Issuer()
    config = configuration(directory, [issuer], ASSIGNMENTS)
    tls = certificate(directory)
    with servers.Server(tls=tls, extra=["--config", str(config)]) as server:
        def client(token, endpoint=server.endpoint, kind=BlobServiceClient):
            credential = token if isinstance(token, (str, type(None), Bearer)) else Bearer(token)
            return kind(endpoint, credential=credential, retry_total=0, connection_verify=str(tls[0]))

        def bearer(who, **claims):
            return client(Bearer(issuer.token(IDS.get(who, who), **claims)))

        by_key = client(KEY)
        for name in ("here", "there"):
            by_key.create_container(name)
            for blob in (NAME, "other"):
                by_key.get_blob_client(name, blob).upload_blob(b"content")
        yield SimpleNamespace(server=server, issuer=issuer, directory=directory, tls=tls, client=client, bearer=bearer, by_key=by_key)


def reads(service, container="here"):
    return service.get_blob_client(container, NAME).download_blob().readall() == b"content"


def writes(service, container="here"):
    service.get_blob_client(container, "written").upload_blob(b"x", overwrite=True)
    return True


def lists(service, container="here"):
    return NAME in [blob.name for blob in service.get_container_client(container).list_blobs()]


def test_a_reader_reads(world, refused):
    reader = world.bearer("reader")
    assert reads(reader) and lists(reader) and "here" in [one.name for one in reader.list_containers()]
    assert reader.get_container_client("here").get_container_properties().name == "here"
    for act in (
        lambda: writes(reader),
        lambda: reader.create_container("new"),
        lambda: reader.get_blob_client("here", NAME).delete_blob(),
        lambda: reader.delete_container("here"),
        lambda: reader.get_container_client("here").get_container_access_policy(),
        lambda: reader.set_service_properties(cors=[]),
        lambda: reader.get_blob_client("here", NAME).get_blob_tags(),
    ):
        with refused(403, "AuthorizationPermissionMismatch"):
            act()


def test_a_contributor_writes(world, refused):
    contributor = world.bearer("contributor")
    contributor.create_container("made")
    assert writes(contributor, "made")
    contributor.get_blob_client("made", "written").delete_blob()
    contributor.delete_container("made")
    for act in (lambda: contributor.get_container_client("here").set_container_access_policy({}, public_access="blob"),
                lambda: contributor.set_service_properties(cors=[])):
        with refused(403, "AuthorizationPermissionMismatch"):
            act()


def test_an_owner_sets_the_acl(world):
    container = world.bearer("owner").get_container_client("here")
    container.set_container_access_policy({})
    assert container.get_container_access_policy()["signed_identifiers"] == []


def test_roles_by_group_application_and_container(world, refused):
    assert reads(world.bearer("somebody", groups=[fresh_id(), IDS["group"]]))
    assert writes(world.bearer("somebody", roles=["Lazuli.Write"]))
    with refused(403, "AuthorizationPermissionMismatch"):
        writes(world.bearer("somebody", groups=[IDS["group"]]))
    here = world.bearer("here")
    assert reads(here) and writes(here) and lists(here)
    for act in (lambda: reads(here, "there"), lambda: writes(here, "there"), lambda: list(here.list_containers()), lambda: here.create_container("new")):
        with refused(403, "AuthorizationPermissionMismatch"):
            act()
    for who in ("nobody", "elsewhere", "delegator"):
        with refused(403, "AuthorizationPermissionMismatch"):
            reads(world.bearer(who))


def test_tokens_that_are_not_valid(world, refused):
    issuer, reader = world.issuer, IDS["reader"]
    for token in (
        issuer.token(reader, aud="https://vault.example"),
        issuer.token(reader, iss="https://stranger.example/"),
        issuer.token(reader, exp=int(time.time()) - 3600),
        issuer.token(reader, nbf=int(time.time()) + 3600),
        Issuer().token(reader),
        Issuer("two").token(reader),
        issuer.token(reader)[:-8] + "AAAAAAAA",
        "not-a-token",
    ):
        credential = Bearer(token)
        with refused(401, "InvalidAuthenticationInfo") as refusal:
            reads(world.client(credential))
        assert refusal.error.response.headers["WWW-Authenticate"].startswith("Bearer authorization_uri=https://")
        # The client takes the challenge and tries once more with what it is given, and then gives up.
        assert len(credential.asked) <= 2, credential.asked
    assert reads(world.bearer("reader", aud=[AUDIENCE + "/", "other"]))
    assert reads(world.bearer("reader", exp=int(time.time()) - 60)), "clocks may differ a little"


def test_the_challenge_says_where_to_get_a_token(world, refused):
    credential = Bearer(world.issuer.token(IDS["reader"], aud="https://vault.example"))
    with refused(401):
        reads(world.client(credential))
    assert [scopes for scopes, _ in credential.asked][0] == ("https://storage.azure.com/.default",)
    anybody = world.client(None)
    with refused(401, "NoAuthenticationInformation") as refusal:
        reads(anybody)
    assert "resource_id=https://storage.azure.com" in refusal.error.response.headers["WWW-Authenticate"]


def test_over_plain_http_a_token_is_refused(start, world):
    """The client refuses to send one; what another client sends is not accepted."""
    plain = start(extra=["--config", str(world.directory / "lazuli.toml")])
    token = world.issuer.token(IDS["reader"])
    with pytest.raises(Exception, match="(?i)https"):
        reads(world.client(Bearer(token), plain.endpoint))
    connection = http.client.HTTPConnection("127.0.0.1", plain.port)
    headers = {"Authorization": f"Bearer {token}", "x-ms-version": "2021-08-06"}
    connection.request("GET", f"/{ACCOUNT}/?comp=list", headers=headers)
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("x-ms-error-code")) == (403, "AuthenticationFailed")
    connection.close()


def test_old_versions_take_no_tokens(world):
    connection = http.client.HTTPSConnection("127.0.0.1", world.server.port, context=ssl.create_default_context(cafile=world.tls[0]))
    headers = {"Authorization": f"Bearer {world.issuer.token(IDS['reader'])}"}
    for version, status in (("2017-07-29", 403), ("2017-11-09", 200)):
        connection.request("GET", f"/{ACCOUNT}/?comp=list", headers=headers | {"x-ms-version": version})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
    connection.close()


def test_the_asynchronous_client(world):
    class AsyncBearer(Bearer):
        async def get_token(self, *scopes, **more):
            return super().get_token(*scopes, **more)

        async def close(self):
            pass

    async def read(token):
        async with AsyncBlobServiceClient(world.server.endpoint, credential=AsyncBearer(token), retry_total=0,
                                          connection_verify=str(world.tls[0])) as service:
            answer = await service.get_blob_client("here", NAME).download_blob()
            return await answer.readall()

    assert asyncio.run(read(world.issuer.token(IDS["reader"]))) == b"content"
    with pytest.raises(HttpResponseError) as error:
        asyncio.run(read(world.issuer.token(IDS["reader"], aud="x")))
    assert error.value.status_code == 401


# --- user delegation -----------------------------------------------------------------------------------------------


def test_a_delegation_key(world, refused):
    start, expiry = now() - HOUR, now() + HOUR
    key = world.bearer("reader").get_user_delegation_key(start, expiry)
    assert (key.signed_oid, key.signed_tid, key.signed_service) == (IDS["reader"], TENANT, "b")
    assert (key.signed_start, key.signed_expiry) == tuple(at.strftime("%Y-%m-%dT%H:%M:%SZ") for at in (start, expiry))
    assert key.value == world.bearer("reader").get_user_delegation_key(start, expiry).value
    assert key.value != world.bearer("contributor").get_user_delegation_key(start, expiry).value
    for start, expiry in ((now(), now() + timedelta(days=8)), (now() + HOUR, now()), (now() - 2 * HOUR, now() - HOUR)):
        with refused(400):
            world.bearer("reader").get_user_delegation_key(start, expiry)
    for who in ("nobody", "only here"):
        with refused(403, "AuthorizationPermissionMismatch"):
            world.bearer(who).get_user_delegation_key(now(), now() + HOUR)
    with refused(403, "AuthenticationFailed"):
        world.by_key.get_user_delegation_key(now(), now() + HOUR)


@pytest.fixture
def delegated(world):
    """Makes a client of a container that acts by a token signed with a delegation key of `who`."""
    def delegated(who="contributor", kind="container", container="here", at="here", key=None, headers=None, bearer=None, **words):
        key = key or world.bearer(who).get_user_delegation_key(now() - HOUR, now() + HOUR)
        words = dict(user_delegation_key=key, permission="racwdl", expiry=now() + HOUR) | words
        if kind == "container":
            token = generate_container_sas(ACCOUNT, container, **words)
        else:
            token = generate_blob_sas(ACCOUNT, container, NAME, **(words | dict(permission=words["permission"].replace("l", ""))))
        more = {}
        if headers:
            more["headers"] = headers
        url = f"{world.server.endpoint}/{at}?{token}"
        return ContainerClient.from_container_url(url, credential=bearer, retry_total=0, connection_verify=str(world.tls[0]), **more)

    return delegated


def read(container, name=NAME):
    return container.download_blob(name).readall() == b"content"


@pytest.mark.parametrize("kind", ["container", "blob"])
def test_delegated_tokens(delegated, kind, refused):
    def made(**words):
        return delegated(kind=kind, **words)

    assert read(made()) and read(made(permission="r"))
    made().upload_blob(NAME, b"content", overwrite=True)
    assert read(made(ip="127.0.0.1", protocol="https", start=now() - HOUR, correlation_id=fresh_id()))
    assert read(made(protocol="https,http", preauthorized_agent_object_id=fresh_id()))
    settings = made(content_type="text/x-mine", cache_control="no-store").get_blob_client(NAME).get_blob_properties().content_settings
    assert (settings.content_type, settings.cache_control) == ("text/x-mine", "no-store")
    for words, code in (
        (dict(expiry=now() - HOUR / 2), "AuthenticationFailed"),
        (dict(start=now() + HOUR / 2), "AuthenticationFailed"),
        (dict(ip="203.0.113.7"), "AuthorizationSourceIPMismatch"),
        (dict(permission="w"), "AuthorizationPermissionMismatch"),
        (dict(at="there"), "AuthenticationFailed"),
        (dict(container="there"), "AuthenticationFailed"),
        (dict(agent_object_id=fresh_id()), "AuthenticationFailed"),
    ):
        with refused(403, code):
            read(made(**words))
    with refused(403, "AuthorizationPermissionMismatch"):
        made(permission="r").upload_blob(NAME, b"x", overwrite=True)
    if kind == "container":
        assert read(made(), "other") and NAME in [blob.name for blob in made().list_blobs()]
    else:
        with refused(403, "AuthenticationFailed"):
            read(made(), "other")


def test_a_delegated_token_does_no_more_than_its_principal(delegated, refused):
    reader = delegated("reader")
    assert read(reader)
    for act in (lambda: reader.upload_blob("x", b"x"), lambda: reader.delete_blob(NAME)):
        with refused(403, "AuthorizationPermissionMismatch"):
            act()
    with refused(403, "AuthorizationPermissionMismatch"):
        read(delegated("delegator"))
    assert read(delegated("here"))
    with refused(403, "AuthorizationPermissionMismatch"):
        read(delegated("here", container="there", at="there"))
    with refused(403, "AuthorizationFailure"):
        delegated("owner").get_container_access_policy()


def test_what_names_the_key_cannot_be_changed(world, delegated, refused):
    def key(**changed):
        key = world.bearer("contributor").get_user_delegation_key(now() - HOUR, now() + HOUR)
        for name, value in changed.items():
            setattr(key, name, value)
        return key

    assert read(delegated(key=key()))
    for changed in (dict(signed_oid=IDS["owner"]), dict(signed_tid=fresh_id()), dict(signed_expiry="2099-01-01T00:00:00Z"),
                    dict(signed_start="2020-01-01T00:00:00Z"), dict(signed_service="q"), dict(signed_version="2020-02-10"), dict(value=KEY)):
        with refused(403, "AuthenticationFailed"):
            read(delegated(key=key(**changed)))
    later = world.bearer("contributor").get_user_delegation_key(now() + HOUR, now() + 2 * HOUR)
    with refused(403, "AuthenticationFailed"):
        read(delegated(key=later, expiry=now() + 3 * HOUR))


def test_a_token_for_one_user(world, delegated, refused):
    user, words = IDS["nobody"], dict(user_delegation_oid=IDS["nobody"])
    with refused(403, "AuthenticationFailed"):
        read(delegated(**words))
    assert read(delegated(bearer=Bearer(world.issuer.token(user)), **words)), "what the user may not, the token may"
    with refused(403, "AuthenticationFailed"):
        read(delegated(bearer=Bearer(world.issuer.token(IDS["owner"])), **words))
    with refused(401, "InvalidAuthenticationInfo"):
        read(delegated(bearer=Bearer(world.issuer.token(user, aud="x")), **words))
    key = world.bearer("contributor").get_user_delegation_key(now() - HOUR, now() + HOUR, delegated_user_tid=TENANT)
    assert key.signed_delegated_user_tid == TENANT
    assert read(delegated(key=key, bearer=Bearer(world.issuer.token(user)), **words))
    with refused(403, "AuthenticationFailed"):
        read(delegated(key=key, bearer=Bearer(world.issuer.token(user, tid=fresh_id())), **words))


def test_a_token_that_signs_headers_and_parameters(delegated, refused):
    """The client that makes the token leaves it to its user to send what was signed."""
    def ask(container, **more):
        return container.get_blob_client(NAME).get_blob_properties(**more).size == 7

    signs = dict(request_headers={"x-ms-foo": "1", "x-ms-bar": "a b"})
    assert ask(delegated(**signs), headers={"x-ms-foo": "1", "x-ms-bar": "a b"})
    for headers in ({"x-ms-foo": "1"}, {"x-ms-foo": "2", "x-ms-bar": "a b"}, {}):
        with refused(403, "AuthenticationFailed"):
            ask(delegated(**signs), headers=headers)
    signs = dict(request_query_params={"q": "2", "timeout": "9"})

    def with_query(query):
        def hook(request):
            request.http_request.url += f"&{query}"
        return dict(raw_request_hook=hook)

    assert ask(delegated(**signs), **with_query("q=2&timeout=9"))
    for query in ("q=3&timeout=9", "timeout=9"):
        with refused(403, "AuthenticationFailed"):
            ask(delegated(**signs), **with_query(query))


@each_release
def test_old_clients(world, release):
    run(release, world.server.endpoint, world.issuer.token(IDS["contributor"]), REQUESTS_CA_BUNDLE=str(world.tls[0]))


# --- what changes while it runs: last, because it changes what the others rely on ------------------------------------------


def test_roles_and_keys_change_on_sighup(world, delegated):
    def holds(service):
        try:
            return reads(service)
        except HttpResponseError as error:
            assert error.status_code in (401, 403)
            return False

    def read_again(issuers, assignments, until):
        configuration(world.directory, issuers, assignments)
        world.server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10
        while not until() and time.monotonic() < deadline:
            pass
        assert until()

    second = Issuer("two")
    nobody, reader = world.bearer("nobody"), world.bearer("reader")
    by_second = world.client(Bearer(second.token(IDS["reader"])))
    key = world.bearer("reader").get_user_delegation_key(now() - HOUR, now() + HOUR)
    assert holds(reader) and not holds(nobody) and not holds(by_second) and read(delegated(key=key))
    read_again([world.issuer, second], ASSIGNMENTS + [dict(principal="*", role=READER)], until=lambda: holds(nobody))
    assert holds(reader) and holds(by_second)
    read_again([second], [], until=lambda: not holds(by_second))
    assert not holds(reader) and not holds(nobody)
    # What was delegated goes with the role of the one who delegated it.
    with pytest.raises(HttpResponseError):
        read(delegated(key=key))
    read_again([world.issuer], ASSIGNMENTS, until=lambda: holds(reader))
    assert not holds(by_second) and read(delegated(key=key))
