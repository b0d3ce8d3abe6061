"""One process of client threads. Each thread owns its names alone, so it knows what must be found under each."""

import hashlib
import http.client
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from urllib.parse import urlsplit

from azure.core import MatchConditions
from azure.core.exceptions import (
    AzureError, HttpResponseError, IncompleteReadError, ResourceExistsError, ServiceRequestError, ServiceResponseError)
from azure.storage.blob import AccountSasPermissions, BlobServiceClient, ResourceTypes, generate_account_sas

from server import ACCOUNT, ANSWER_SECONDS_MAX, KEY

import race

MIB = 1024 * 1024
# Around the sizes where an engine may change its mind about where a body lives.
SIZES = [0, 1, 100, 1000, 4095, 4096, 4097, 8192, 16383, 16384, 16385, 65536, 200_000, MIB, 2 * MIB]
KEYS_PER_THREAD = 60
FILLERS = 16

# The server has gone: what was sent may or may not have happened.
GONE = (ServiceRequestError, ServiceResponseError, IncompleteReadError)

IF_EQUAL, IF_MISSING = MatchConditions.IfNotModified, MatchConditions.IfMissing


def client(endpoint):
    return BlobServiceClient(
        endpoint, credential=KEY, retry_total=0, connection_timeout=10, read_timeout=ANSWER_SECONDS_MAX,
        max_single_put_size=64 * MIB, max_single_get_size=64 * MIB)


def make_body(name, sequence, size, chance):
    """A body that says which write it is of, and can be seen to be whole."""
    head = f"{name} {sequence} {size}\n".encode()
    if size < len(head) + 32:
        return chance.randbytes(size)  # too short to speak for itself; compared byte for byte all the same
    filled = head + chance.randbytes(size - len(head) - 32)
    return filled + hashlib.sha256(filled).digest()


def describe(content):
    """For the report of a failure: which write this content is of."""
    if len(content) < 32:
        return f"{len(content)} bytes"
    whole = hashlib.sha256(content[:-32]).digest() == content[-32:]
    return f"{len(content)} bytes, {'whole' if whole else 'TORN'}, head {content[:60].split(bytes([10]))[0]!r}"


def first_line(error):
    return f"{type(error).__name__}: {str(error).splitlines()[0][:300] if str(error) else ''}"


class Version:
    """One write of one blob. An ETag that was never told (in flight at the kill) is None until it is seen."""

    __slots__ = ("sequence", "size", "hash", "etag")

    def __init__(self, sequence, body, etag=None):
        self.sequence, self.size, self.hash, self.etag = sequence, len(body), hashlib.sha256(body).digest(), etag


class Thread:
    def __init__(self, name, seed, container):
        self.name, self.container_name = name, container
        self.chance = random.Random(f"{seed} {name}")
        self.blobs = {}  # name: Version, or None for one that is known to be absent
        self.in_flight = None  # (name, Version or None for a delete)
        self.touched = set()
        self.sequence = 0
        self.stale = {}

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self, endpoint, loop):
        """Works until the server has gone. Returns what happened."""
        self.touched = set()
        self.acknowledged, self.races, self.in_flight = 0, [], None
        chooser = [self.overwrite] * 4 + [self.swap] * 3 + [self.delete] * 2 + [
            self.create, self.stale_swap, self.create_again, self.read_back, self.race]
        try:
            with client(endpoint) as service:
                self.container = service.get_container_client(self.container_name)
                try:
                    self.container.create_container()
                except ResourceExistsError:
                    pass
                self.loop, self.raced = loop, 0
                while True:
                    self.chance.choice(chooser)()
        except GONE:
            return dict(acknowledged=self.acknowledged, in_flight=int(self.in_flight is not None), races=self.races, problems=[])
        except AssertionError as wrong:
            problem = str(wrong)
        except AzureError as error:
            problem = f"{self.name}: unexpected {first_line(error)}"
        return dict(acknowledged=self.acknowledged, in_flight=0, races=self.races, problems=[problem])

    def some_name(self):
        return f"{self.name}/{self.chance.randrange(KEYS_PER_THREAD):03}"

    def put(self, name, **conditions):
        self.sequence += 1
        body = make_body(name, self.sequence, self.chance.choice(SIZES) + self.chance.randrange(2), self.chance)
        version = Version(self.sequence, body)
        self.in_flight = (name, version)
        self.touched.add(name)
        answer = self.container.get_blob_client(name).upload_blob(body, overwrite=True, **conditions)
        version.etag = answer["etag"]
        old = self.blobs.get(name)
        assert old is None or old.etag != version.etag, f"{name}: two writes with the ETag {version.etag}"
        if old:
            self.stale[name] = old.etag
        self.blobs[name], self.in_flight = version, None
        self.acknowledged += 1

    def refused(self, status, act):
        try:
            act()
        except HttpResponseError as error:
            if error.status_code >= 500:
                raise  # that says nothing of what happened
            self.in_flight = None
            assert error.status_code == status, f"{self.name}: {error.status_code}, {status} expected: {first_line(error)}"
            return
        raise AssertionError(f"{self.name}: accepted what should have been refused with {status}")

    def create(self):
        self.put(f"{self.name}/new-{self.sequence:06}", match_condition=IF_MISSING)

    def overwrite(self):
        self.put(self.some_name())

    def swap(self):
        name = self.some_name()
        known = self.blobs.get(name)
        if known:
            self.put(name, etag=known.etag, match_condition=IF_EQUAL)
        else:
            self.put(name, match_condition=IF_MISSING)

    def stale_swap(self):
        name = self.some_name()
        if name in self.stale:
            self.refused(412, lambda: self.put(name, etag=self.stale[name], match_condition=IF_EQUAL))

    def create_again(self):
        name = self.some_name()
        if self.blobs.get(name):
            self.refused(409, lambda: self.put(name, match_condition=IF_MISSING))

    def delete(self):
        name = self.some_name()
        known = self.blobs.get(name)
        if known is None:
            return
        self.in_flight = (name, None)
        self.touched.add(name)
        conditions = dict(etag=known.etag, match_condition=IF_EQUAL) if self.chance.random() < 0.5 else {}
        self.container.delete_blob(name, **conditions)
        self.stale[name] = known.etag
        self.blobs[name], self.in_flight = None, None
        self.acknowledged += 1

    def read_back(self):
        name = self.some_name()
        if name in self.blobs:
            problem = self.compare(name, self.blobs[name])
            assert problem is None, problem

    def race(self):
        self.races.append(race.attempt(self.container, f"race/{self.loop:04}-{self.raced:04}", self.name, GONE))
        self.raced += 1
        if self.races[-1].outcome == race.IN_FLIGHT:
            raise ServiceResponseError("gone")

    # -- verifying ----------------------------------------------------------------------------------------------------

    def compare(self, name, expected):
        """None if what is there is what is expected, else a sentence."""
        try:
            answer = self.container.download_blob(name)
            content, etag = answer.readall(), answer.properties.etag
        except HttpResponseError as error:
            if error.status_code >= 500:
                raise
            if error.status_code != 404:
                return f"{name}: reading it gave {error.status_code}: {first_line(error)}"
            return None if expected is None else f"{name}: acknowledged write {expected.sequence} is gone"
        if expected is None:
            return f"{name}: deleted, and still there: {describe(content)}"
        if hashlib.sha256(content).digest() != expected.hash:
            return f"{name}: expected write {expected.sequence} of {expected.size} bytes, found {describe(content)}"
        if expected.etag is None:
            expected.etag = etag
        if etag != expected.etag:
            return f"{name}: content of write {expected.sequence}, but ETag {etag} instead of {expected.etag}"
        return None

    def settle(self):
        """The write that was in flight: all of it, or nothing of it; whichever is found is what holds from now on."""
        name, new = self.in_flight
        self.in_flight = None
        old = self.blobs.get(name)
        as_old, as_new = self.compare(name, old), self.compare(name, new)
        if as_old is None:
            return []
        if as_new is None:
            if old:
                self.stale[name] = old.etag
            self.blobs[name] = new
            return []
        return [f"in flight at the kill, neither old ({as_old}) nor new ({as_new})"]

    def verify(self, endpoint, everything):
        problems, checked = [], 0
        with client(endpoint) as service:
            self.container = service.get_container_client(self.container_name)
            if self.in_flight:
                problems += self.settle()
            names = sorted(self.blobs) if everything else sorted(self.touched) + self.sample()
            for name in names:
                if name in self.blobs:
                    checked += 1
                    problem = self.compare(name, self.blobs[name])
                    problems += [problem] if problem else []
            problems += self.verify_listing()
        return dict(checked=checked, problems=problems)

    def sample(self):
        untouched = sorted(set(self.blobs) - self.touched)
        return self.chance.sample(untouched, min(20, len(untouched)))

    def verify_listing(self):
        listed = {blob.name: blob for blob in self.container.list_blobs(name_starts_with=self.name + "/")}
        present = {name: version for name, version in self.blobs.items() if version}
        problems = [f"{name}: there, but not listed" for name in present if name not in listed]
        problems += [f"{name}: listed, but not there" for name in listed if name not in present]
        for name, version in present.items():
            seen = listed.get(name)
            if seen and (seen.size != version.size or (version.etag and seen.etag.strip('"') != version.etag.strip('"'))):
                problems.append(f"{name}: listed with {seen.size} bytes and {seen.etag}, it has {version.size} and {version.etag}")
        return problems


def main(pipe, number, thread_count, seed, container):
    threads = [Thread(f"p{number}t{n}", seed, container) for n in range(thread_count)]
    with ThreadPoolExecutor(thread_count) as pool:
        pipe.send("hello")
        while True:
            try:
                what, endpoint, argument = pipe.recv()
            except EOFError:
                return
            if what == "run":
                parts = pool.map(lambda t: t.run(endpoint, argument), threads)
            elif what == "verify":
                parts = pool.map(lambda t: guarded(t.verify, endpoint, argument), threads)
            else:
                parts = [guarded(fill, endpoint, number, argument)]
            whole = dict(acknowledged=0, in_flight=0, checked=0, races=[], problems=[])
            for part in parts:
                for key, value in part.items():
                    whole[key] += value
            pipe.send(whole)


def guarded(act, *arguments):
    try:
        return act(*arguments)
    except Exception as error:  # whatever it is, it belongs in the report
        return dict(problems=[first_line(error)])


# -- filling: plain connections, one signature for all ------------------------------------------------------------------


def token():
    return generate_account_sas(
        ACCOUNT, KEY, resource_types=ResourceTypes(container=True, object=True),
        permission=AccountSasPermissions(read=True, write=True, list=True, create=True),
        expiry=datetime.now(timezone.utc) + timedelta(hours=2))


FILL_PROCESSES = 3


def fill(endpoint, number, blobs):
    """This process's share of `blobs` blobs of 1 KiB. The workers are FILL_PROCESSES; others have nothing to do."""
    if number >= FILL_PROCESSES:
        return {}
    url, sas, body = urlsplit(endpoint), token(), bytes(1024)
    service = client(endpoint)
    try:
        service.create_container("many")
    except ResourceExistsError:
        pass
    problems = []

    def share(first):
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
        headers = {"x-ms-version": "2021-12-02", "x-ms-blob-type": "BlockBlob", "Content-Length": str(len(body))}
        for n in range(first, blobs, FILL_PROCESSES * FILLERS):
            connection.request("PUT", f"{url.path}/many/{n:07}?{sas}", body=body, headers=headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 201:
                problems.append(f"fill: {answer.status} {answer.reason}")
                return

    workers = [threading.Thread(target=share, args=(number * FILLERS + n,)) for n in range(FILLERS)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    return dict(problems=problems)


def count(endpoint):
    with client(endpoint) as service:
        return sum(1 for _ in service.get_container_client("many").list_blob_names())
