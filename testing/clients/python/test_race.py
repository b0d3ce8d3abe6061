"""Promises under contention, with several processes: no lost update (B2), one creator, no torn read (E2), one holder of a lease (B6),
appends without gap or overlap, one whole winner among commits."""

import hashlib
import itertools
import multiprocessing
import os
import random

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.storage.blob import BlobServiceClient

from server import KEY

PROCESSES = 6
INCREMENTS = 25
NAMES = 20
TURNS = 8
BLOCKS = 40


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


def _hold(endpoint, container, start, results):
    """Under the lease: read and write without any condition. Only a lock that holds makes that add up."""
    client = BlobServiceClient(endpoint, credential=KEY, retry_total=0).get_container_client(container)
    lock, counter = client.get_blob_client("lock"), client.get_blob_client("counter")
    start.wait()
    waited = 0
    for turn in range(TURNS):
        while True:
            try:
                lease = lock.acquire_lease(lease_duration=60)
                break
            except HttpResponseError as error:
                if (error.status_code, error.error_code) != (409, "LeaseAlreadyPresent"):
                    results.put(("error", str(error)))
                    return
                waited += 1
        value = int(counter.download_blob().readall())
        counter.upload_blob(str(value + 1).encode(), overwrite=True)
        # Half of them give the lock back, half are thrown out.
        lease.release() if turn % 2 else lease.break_lease(lease_break_period=0)
    results.put(("done", waited))


def _append(endpoint, container, start, results):
    log = BlobServiceClient(endpoint, credential=KEY, retry_total=0).get_blob_client(container, "log")
    start.wait()
    written = []
    for _ in range(BLOCKS):
        block = os.urandom(random.randrange(1, 20_000))
        answer = log.append_block(block)
        written.append((int(answer["blob_append_offset"]), len(block), hashlib.sha256(block).hexdigest(), answer["etag"],
                        answer["blob_committed_block_count"]))
    results.put(("done", written))


def _append_in_order(endpoint, container, start, results):
    """As a log with one writer at a time: each append says where the end is thought to be."""
    log = BlobServiceClient(endpoint, credential=KEY, retry_total=0).get_blob_client(container, "log")
    start.wait()
    for n in range(BLOCKS // 4):
        while True:
            end = log.get_blob_properties().size
            try:
                log.append_block(f"{end:08}", appendpos_condition=end)
                break
            except HttpResponseError as error:
                if (error.status_code, error.error_code) != (412, "AppendPositionConditionNotMet"):
                    results.put(("error", str(error)))
                    return
    results.put(("done",))


def _commit(endpoint, container, start, results):
    client = BlobServiceClient(endpoint, credential=KEY, retry_total=0).get_container_client(container)
    me, won = os.getpid(), {}
    for n in range(NAMES):
        blob, ids = client.get_blob_client(f"whole-{n}"), [f"{me:08}-{block}" for block in range(3)]
        for block, name in enumerate(ids):
            blob.stage_block(name, f"{me} {block}\n" * 1000)
        start.wait()
        try:
            won[f"whole-{n}"] = blob.commit_block_list(ids, match_condition=MatchConditions.IfMissing)["etag"]
        except HttpResponseError as error:
            # The winner's commit drops every block that it does not name.
            if (error.status_code, error.error_code) not in ((409, "BlobAlreadyExists"), (400, "InvalidBlockList")):
                results.put(("error", str(error)))
                return
    results.put(("done", me, won))


def processes():
    """Forked from one that has the client loaded already: to load it is most of what a process costs here."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["azure.storage.blob"])
    return context


def compete(work, endpoint, container):
    """PROCESSES of them, let loose together; what each of them has to tell."""
    context = processes()
    results, gate = context.Queue(), context.Barrier(PROCESSES)
    workers = [context.Process(target=work, args=(endpoint, container.container_name, gate, results)) for _ in range(PROCESSES)]
    for worker in workers:
        worker.start()
    outcomes = [results.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert [outcome for outcome in outcomes if outcome[0] == "error"] == []
    return outcomes


def test_compare_and_swap_loses_no_update(endpoint, container):
    container.upload_blob("counter", b"0")
    outcomes = compete(_increment, endpoint, container)
    assert int(container.download_blob("counter").readall()) == PROCESSES * INCREMENTS
    etags = [etag for o in outcomes for etag in o[2]]
    assert len(set(etags)) == PROCESSES * INCREMENTS, "every acknowledged write has an ETag of its own"


def test_create_once_has_exactly_one_winner(endpoint, container):
    outcomes = compete(_create, endpoint, container)
    for n in range(NAMES):
        winners = [(pid, won[f"once-{n}"]) for _, pid, won in outcomes if f"once-{n}" in won]
        assert len(winners) == 1, f"once-{n}: {len(winners)} winners"
        blob = container.get_blob_client(f"once-{n}")
        assert blob.download_blob().readall().decode() == str(winners[0][0])
        assert blob.get_blob_properties().etag == winners[0][1]


def test_a_lease_has_one_holder(endpoint, container):
    container.upload_blob("lock", b"")
    container.upload_blob("counter", b"0")
    outcomes = compete(_hold, endpoint, container)
    assert int(container.download_blob("counter").readall()) == PROCESSES * TURNS
    assert sum(waited for _, waited in outcomes) > 0, "nobody ever had to wait: nothing was tried"


@pytest.mark.azurite("counts wrongly among appenders that compete")
def test_appends_have_no_gap_and_no_overlap(endpoint, container):
    log = container.get_blob_client("log")
    log.create_append_blob()
    outcomes = compete(_append, endpoint, container)
    written = sorted(block for _, blocks in outcomes for block in blocks)
    assert len(written) == PROCESSES * BLOCKS == log.get_blob_properties().append_blob_committed_block_count
    content, end = log.download_blob().readall(), 0
    for n, (offset, size, digest, _, count) in enumerate(written, 1):
        assert (offset, count) == (end, n), "one after the other"
        assert hashlib.sha256(content[offset:offset + size]).hexdigest() == digest, "and each of them whole"
        end += size
    assert end == len(content)
    assert len({etag for _, _, _, etag, _ in written}) == len(written)
    owners = [mine for _, blocks in outcomes for mine in itertools.pairwise(offset for offset, *_ in blocks)]
    assert all(first < second for first, second in owners), "what one wrote later comes later"


def test_appends_at_a_known_end(endpoint, container):
    log = container.get_blob_client("log")
    log.create_append_blob()
    compete(_append_in_order, endpoint, container)
    content = log.download_blob().readall().decode()
    assert [content[at:at + 8] for at in range(0, len(content), 8)] == [f"{at:08}" for at in range(0, PROCESSES * (BLOCKS // 4) * 8, 8)]


def test_commits_leave_one_whole_winner(endpoint, container):
    outcomes = compete(_commit, endpoint, container)
    for n in range(NAMES):
        winners = [(pid, won[f"whole-{n}"]) for _, pid, won in outcomes if f"whole-{n}" in won]
        assert len(winners) == 1, f"whole-{n}: {len(winners)} winners"
        pid, etag = winners[0]
        blob = container.get_blob_client(f"whole-{n}")
        assert blob.download_blob().readall().decode() == "".join(f"{pid} {block}\n" * 1000 for block in range(3))
        assert blob.get_blob_properties().etag == etag
        assert blob.get_block_list("uncommitted")[1] == []


def test_readers_never_see_a_torn_blob(endpoint, container):
    body = b"x" * 1000
    container.upload_blob("shared", hashlib.sha256(body).digest() + body)
    context = processes()
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
