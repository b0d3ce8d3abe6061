"""Promises under contention, with several processes: no lost update (B2), one creator, no torn read (E2)."""

import hashlib
import multiprocessing
import os

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.storage.blob import BlobServiceClient

from server import KEY

PROCESSES = 6
INCREMENTS = 25
NAMES = 20


def _increment(endpoint, container, start, results):
    blob = BlobServiceClient(endpoint, credential=KEY, retry_total=0).get_blob_client(container, "counter")
    start.wait()
    lost, etags = 0, []
    for _ in range(INCREMENTS):
        while True:
            seen = blob.download_blob()
            value = int(seen.readall())
            try:
                answer = blob.upload_blob(str(value + 1).encode(), overwrite=True, etag=seen.properties.etag,
                                          match_condition=MatchConditions.IfNotModified)
                etags.append(answer["etag"])
                break
            except HttpResponseError as error:
                if error.status_code != 412:
                    results.put(("error", str(error)))
                    return
                lost += 1
    results.put(("done", lost, etags))


def _create(endpoint, container, start, results):
    client = BlobServiceClient(endpoint, credential=KEY, retry_total=0).get_container_client(container)
    won = {}
    for n in range(NAMES):
        start.wait()
        try:
            won[f"once-{n}"] = client.upload_blob(f"once-{n}", f"{os.getpid()}").get_blob_properties().etag
        except ResourceExistsError as error:
            if error.status_code != 409:
                results.put(("error", str(error)))
                return
    results.put(("done", os.getpid(), won))


def _overwrite(endpoint, container, start, stop, results):
    blob = BlobServiceClient(endpoint, credential=KEY, retry_total=0).get_blob_client(container, "shared")
    rounds = 0
    start.wait()
    while not stop.is_set():
        body = os.urandom(1) * (200_000 + rounds % 1000)
        blob.upload_blob(hashlib.sha256(body).digest() + body, overwrite=True)
        rounds += 1
    results.put(("done", rounds))


def _read(endpoint, container, start, stop, results):
    blob = BlobServiceClient(endpoint, credential=KEY, retry_total=0).get_blob_client(container, "shared")
    torn = rounds = 0
    start.wait()
    while not stop.is_set():
        content = blob.download_blob().readall()
        torn += hashlib.sha256(content[32:]).digest() != content[:32]
        rounds += 1
    results.put(("read", rounds, torn))


def test_compare_and_swap_loses_no_update(endpoint, container):
    container.upload_blob("counter", b"0")
    context = multiprocessing.get_context("spawn")
    results, gate = context.Queue(), context.Barrier(PROCESSES)
    workers = [context.Process(target=_increment, args=(endpoint, container.container_name, gate, results))
               for _ in range(PROCESSES)]
    for worker in workers:
        worker.start()
    outcomes = [results.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert [o for o in outcomes if o[0] == "error"] == []
    assert int(container.download_blob("counter").readall()) == PROCESSES * INCREMENTS
    etags = [etag for o in outcomes for etag in o[2]]
    assert len(set(etags)) == PROCESSES * INCREMENTS, "every acknowledged write has an ETag of its own"


def test_create_once_has_exactly_one_winner(endpoint, container):
    context = multiprocessing.get_context("spawn")
    results, gate = context.Queue(), context.Barrier(PROCESSES)
    workers = [context.Process(target=_create, args=(endpoint, container.container_name, gate, results))
               for _ in range(PROCESSES)]
    for worker in workers:
        worker.start()
    outcomes = [results.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert [o for o in outcomes if o[0] == "error"] == []
    for n in range(NAMES):
        winners = [(pid, won[f"once-{n}"]) for _, pid, won in outcomes if f"once-{n}" in won]
        assert len(winners) == 1, f"once-{n}: {len(winners)} winners"
        blob = container.get_blob_client(f"once-{n}")
        assert blob.download_blob().readall().decode() == str(winners[0][0])
        assert blob.get_blob_properties().etag == winners[0][1]


def test_readers_never_see_a_torn_blob(endpoint, container):
    body = b"x" * 1000
    container.upload_blob("shared", hashlib.sha256(body).digest() + body)
    context = multiprocessing.get_context("spawn")
    kinds = (_overwrite, _overwrite, _read, _read)
    results, stop, gate = context.Queue(), context.Event(), context.Barrier(len(kinds) + 1)
    workers = [context.Process(target=work, args=(endpoint, container.container_name, gate, stop, results)) for work in kinds]
    for worker in workers:
        worker.start()
    gate.wait(60)  # on a busy machine a process takes seconds to be there
    stop.wait(4)  # long enough for some hundred overwrites; nothing sets it
    stop.set()
    outcomes = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    reads = [o for o in outcomes if o[0] == "read"]
    assert sum(o[1] for o in reads) > 0
    assert sum(o[2] for o in reads) == 0, "torn reads"
