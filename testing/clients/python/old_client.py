"""The same questions for releases of azure-storage-blob of long ago; run by test_old_clients.py with such a release in front of the path.

old_client.py ENDPOINT: the account's key, and every kind of token that it signs.
old_client.py ENDPOINT TOKEN: a bearer token (of a contributor), and what is signed with a user delegation key.
"""

import logging
import sys
from datetime import datetime, timedelta, timezone

import azure.storage.blob as client

from server import ACCOUNT, KEY

logging.disable(logging.ERROR)  # refusals are what is asked for
HOUR = timedelta(hours=1)
NAME = "dir/b 1.txt"
# These releases format times without looking at the zone.
NOW = datetime.now(timezone.utc).replace(tzinfo=None)
ENDPOINT = sys.argv[1]
TOKEN = sys.argv[2] if len(sys.argv) > 2 else None


class Twelve:
    """12.0.0, whose names are today's."""

    def __init__(self, credential):
        if credential == KEY:
            # A key alone would be taken to belong to the account that is the first part of the host's name.
            credential = dict(account_name=ACCOUNT, account_key=KEY)
        self.service = client.BlobServiceClient(ENDPOINT, credential=credential, retry_total=0)

    def create(self, container):
        self.service.create_container(container)

    def drop(self, container):
        self.service.delete_container(container)

    def write(self, container, name=NAME):
        self.service.get_blob_client(container, name).upload_blob(b"content", overwrite=True)

    def read(self, container, name=NAME, snapshot=None):
        blob = self.service.get_blob_client(container, name, snapshot=snapshot)
        assert blob.download_blob().readall() == b"content"

    def content_type(self, container):
        return self.service.get_blob_client(container, NAME).get_blob_properties().content_settings.content_type

    def delete(self, container, name=NAME):
        self.service.get_blob_client(container, name).delete_blob()

    def list(self, container):
        return [blob.name for blob in self.service.get_container_client(container).list_blobs()]

    def allow(self, container, policy, permission):
        given = {policy: client.AccessPolicy(permission=permission, expiry=NOW + HOUR, start=NOW - HOUR)}
        self.service.get_container_client(container).set_container_access_policy(signed_identifiers=given)

    def delegation_key(self):
        return self.service.get_user_delegation_key(NOW - HOUR, NOW + HOUR)

    @staticmethod
    def account_token(resource_types, permission, **more):
        return client.generate_account_sas(ACCOUNT, KEY, resource_types, permission, **more)

    @staticmethod
    def container_token(container, key=None, **more):
        signed_by = dict(user_delegation_key=key) if key else dict(account_key=KEY)
        return client.generate_container_sas(ACCOUNT, container, **signed_by, **more)

    @staticmethod
    def blob_token(container, key=None, **more):
        signed_by = dict(user_delegation_key=key) if key else dict(account_key=KEY)
        return client.generate_blob_sas(ACCOUNT, container, NAME, **signed_by, **more)

    @staticmethod
    def bearer(token):
        from issuer import Bearer
        return Bearer(token)

    @staticmethod
    def refusal(error):
        return getattr(error, "status_code", None)


class Two:
    """2.1.0: one object for everything, and other words."""

    def __init__(self, credential):
        who = dict(sas_token=credential)
        if credential == KEY:
            who = dict(account_key=KEY)
        elif not isinstance(credential, str):
            who = dict(token_credential=credential)
        scheme, address = ENDPOINT.split("://")
        self.service = client.BlockBlobService(ACCOUNT, protocol=scheme, custom_domain=address, **who)
        self.service.retry = lambda context: None

    def create(self, container):
        assert self.service.create_container(container, fail_on_exist=True)

    def drop(self, container):
        self.service.delete_container(container)

    def write(self, container, name=NAME):
        self.service.create_blob_from_bytes(container, name, b"content")

    def read(self, container, name=NAME, snapshot=None):
        assert self.service.get_blob_to_bytes(container, name, snapshot=snapshot).content == b"content"

    def content_type(self, container):
        return self.service.get_blob_properties(container, NAME).properties.content_settings.content_type

    def delete(self, container, name=NAME):
        self.service.delete_blob(container, name)

    def list(self, container):
        return [blob.name for blob in self.service.list_blobs(container)]

    def allow(self, container, policy, permission):
        from azure.storage.common import AccessPolicy
        self.service.set_container_acl(container, {policy: AccessPolicy(permission, NOW + HOUR, NOW - HOUR)})

    def delegation_key(self):
        return self.service.get_user_delegation_key(NOW - HOUR, NOW + HOUR)

    @staticmethod
    def account_token(resource_types, permission, **more):
        from azure.storage.common import AccountPermissions, ResourceTypes
        service = client.BlockBlobService(ACCOUNT, KEY)
        return service.generate_account_shared_access_signature(
            ResourceTypes(_str=resource_types), AccountPermissions(_str=permission), **more)

    @staticmethod
    def words(key, permission=None, policy_id=None, **more):
        permission = client.ContainerPermissions(_str=permission) if permission else None
        return dict(permission=permission, id=policy_id, user_delegation_key=key, **more)

    def container_token(container, key=None, **more):
        service = client.BlockBlobService(ACCOUNT, KEY)
        return service.generate_container_shared_access_signature(container, **Two.words(key, **more))

    def blob_token(container, key=None, **more):
        service = client.BlockBlobService(ACCOUNT, KEY)
        return service.generate_blob_shared_access_signature(container, NAME, **Two.words(key, **more))

    @staticmethod
    def bearer(token):
        from azure.storage.common import TokenCredential
        return TokenCredential(token)

    @staticmethod
    def refusal(error):
        return getattr(error, "status_code", None)


Release = Twelve if client.__version__.startswith("12.") else Two


def refused(act, *arguments, statuses=(403,), **more):
    try:
        act(*arguments, **more)
    except AssertionError:
        raise
    except Exception as error:
        assert Release.refusal(error) in statuses, repr(error)
    else:
        raise AssertionError(f"{act.__name__} {arguments} was accepted")


def restrictions(container, make):
    """When, from where, over what: the same for every kind."""
    for words in (dict(ip="127.0.0.1"), dict(ip="127.0.0.0-127.0.0.9", start=NOW - HOUR), dict(protocol="https,http")):
        Release(make(permission="r", expiry=NOW + HOUR, **words)).read(container)
    elsewhere = [dict(ip="203.0.113.7"), dict(start=NOW + HOUR / 2)]
    if ENDPOINT.startswith("http:"):
        elsewhere.append(dict(protocol="https"))
    for words in elsewhere:
        refused(Release(make(permission="r", expiry=NOW + HOUR, **words)).read, container)
    refused(Release(make(permission="r", expiry=NOW - HOUR)).read, container)
    good = make(permission="r", expiry=NOW + HOUR)
    refused(Release(good.replace("sp=r", "sp=rw")).read, container)


def of_container_and_blob(container, other, key=None):
    def container_token(**more):
        return Release.container_token(container, key, **more)

    def blob_token(**more):
        return Release.blob_token(container, key, **more)

    hour = dict(expiry=NOW + HOUR)
    restrictions(container, container_token)
    restrictions(container, blob_token)
    lister = Release(container_token(permission="l", **hour))
    assert lister.list(container) == [NAME, "other"]
    refused(lister.read, container)
    reader = Release(container_token(permission="r", **hour))
    reader.read(container, "other")
    for act in (reader.write, reader.delete, reader.list):
        refused(act, container)
    refused(reader.read, other)
    writer = Release(container_token(permission="wd", **hour))
    writer.write(container, "third")
    writer.delete(container, "third")
    refused(writer.read, container)

    reader = Release(blob_token(permission="r", **hour))
    reader.read(container)
    for act, arguments in ((reader.read, (container, "other")), (reader.read, (other,)), (reader.list, (container,)), (reader.write, (container,)),
                           (reader.delete, (container,))):
        refused(act, *arguments)
    words = dict(cache_control="no-store", content_disposition="inline", content_language="de", content_type="text/x-mine")
    for make in (container_token, blob_token):
        assert Release(make(permission="r", **hour, **words)).content_type(container) == "text/x-mine"
    # A snapshot that is not there: who asks is known, and that is all this asks.
    at = "2024-01-02T03:04:05.0000000Z"
    refused(Release(blob_token(permission="r", snapshot=at, **hour)).read, container, snapshot=at, statuses=(400, 404, 501))
    refused(Release(blob_token(permission="r", **hour)).read, container, snapshot=at)


def main():
    container, other = (f"old-{word}-{client.__version__.replace('.', '-')}-{'t' if TOKEN else 'k'}" for word in ("one", "two"))
    mine = Release(Release.bearer(TOKEN) if TOKEN else KEY)
    for one in (container, other):
        mine.create(one)
        mine.write(one)
    mine.write(container, "other")
    mine.read(container)
    assert mine.list(container) == [NAME, "other"]

    if TOKEN:
        of_container_and_blob(container, other, mine.delegation_key())
    else:
        of_container_and_blob(container, other)
        restrictions(container, lambda **words: Release.account_token("sco", **words))
        everything = Release(Release.account_token("sco", "rwdlac", expiry=NOW + HOUR))
        everything.write(container)
        assert everything.list(container) == [NAME, "other"]
        refused(Release(Release.account_token("o", "rwdlac", expiry=NOW + HOUR)).list, container)
        refused(Release(Release.account_token("sco", "wdlac", expiry=NOW + HOUR)).read, container)
        mine.allow(container, "reader", "r")
        for token in (Release.container_token(container, policy_id="reader"), Release.blob_token(container, policy_id="reader")):
            Release(token).read(container)
            refused(Release(token).write, container)
        mine.allow(container, "somebody", "r")
        refused(Release(Release.container_token(container, policy_id="reader")).read, container)
    for one in (container, other):
        mine.drop(one)
    print("done with", client.__version__)


main()
