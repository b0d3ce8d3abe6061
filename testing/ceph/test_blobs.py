"""Blobs through gateways in turn: what one of them was told holds on all, at once."""

import itertools
import random
import time

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.storage.blob import BlobLeaseClient

from common import fresh_name

ROUNDS = 20
IF_EQUAL, IF_MISSING = MatchConditions.IfNotModified, MatchConditions.IfMissing
# Around the sizes where an engine may change its mind about where a body lives.
SIZES = [0, 1, 4096, 20_000, 5_000_000]


def code(error):
    return error.status_code, getattr(error.error_code, "value", error.error_code)


def both_ways(sides):
    """Each gateway as the writer, with another one as the reader."""
    return itertools.permutations(sides, 2)


def number_of(etag):
    return int(etag.strip('"'), 16)


def test_compare_and_swap_loses_no_update(sides, container, compete):
    sides[0].blob(container, "counter").upload_blob(b"0")

    def increment(mine, _):
        told, turns = [], itertools.cycle(mine)
        while len(told) < ROUNDS:
            seen = next(turns).blob(container, "counter").download_blob()
            value = int(seen.readall())
            try:
                answer = next(turns).blob(container, "counter").upload_blob(
                    str(value + 1).encode(), overwrite=True, etag=seen.properties.etag, match_condition=IF_EQUAL)
            except HttpResponseError as error:
                assert code(error) == (412, "ConditionNotMet")
                next(turns)  # otherwise this one would always write through the same gateway
            else:
                told.append((value + 1, number_of(answer["etag"])))
        return told

    told = sorted(one for mine in compete(increment) for one in mine)
    for side in sides:
        assert int(side.blob(container, "counter").download_blob().readall()) == len(told)
    assert [value for value, _ in told] == list(range(1, len(told) + 1)), "every value was somebody's"
    etags = [etag for _, etag in told]
    assert etags == sorted(set(etags)), "and ETags grew with them"


def test_create_once_has_one_winner(sides, container, compete):
    def create(mine, number):
        won = {}
        for turn in range(ROUNDS):
            name, side = f"once-{turn}", mine[turn % len(mine)]
            try:
                won[name] = side.blob(container, name).upload_blob(str(number), match_condition=IF_MISSING)["etag"]
            except ResourceExistsError as error:
                assert code(error) == (409, "BlobAlreadyExists")
        return won

    outcomes = compete(create)
    for name in (f"once-{turn}" for turn in range(ROUNDS)):
        winners = [(number, won[name]) for number, won in enumerate(outcomes) if name in won]
        assert len(winners) == 1, f"{name}: {len(winners)} winners"
        for side in sides:
            found = side.blob(container, name).download_blob()
            assert (int(found.readall()), found.properties.etag) == winners[0]


@pytest.mark.parametrize("size", SIZES)
def test_what_one_wrote_another_reads_and_lists(sides, container, size):
    for turn in range(3):
        for writer, reader in both_ways(sides):
            name, body = f"b-{turn}-{random.random()}", random.randbytes(size)
            told = writer.blob(container, name).upload_blob(body)["etag"]
            found = reader.blob(container, name).download_blob()
            assert (found.readall(), found.properties.etag) == (body, told)
            listed = reader.blobs.get_container_client(container).list_blobs(name_starts_with=name)
            assert [(one.name, one.size, one.etag) for one in listed] == [(name, size, told.strip('"'))]
            writer.blob(container, name).delete_blob()
            assert not reader.blob(container, name).exists()
            assert list(reader.blobs.get_container_client(container).list_blob_names(name_starts_with=name)) == []


def test_containers_come_and_go(sides, refused):
    for writer, reader in both_ways(sides):
        for _ in range(3):
            name = fresh_name()
            writer.blobs.create_container(name, metadata={"a": "1"}).upload_blob("old", b"x")
            seen = reader.blobs.get_container_client(name)
            assert seen.get_container_properties().metadata == {"a": "1"}
            with refused(409, "ContainerAlreadyExists"):
                seen.create_container()
            assert name in [one.name for one in reader.blobs.list_containers(name_starts_with=name)]
            seen.delete_container()
            with refused(404, "ContainerNotFound"):
                writer.blob(name, "old").upload_blob(b"y", overwrite=True)
            writer.blobs.create_container(name)
            assert list(seen.list_blobs()) == [], "what the earlier one held does not come back"
            seen.delete_container()


def test_etags_grow_when_a_name_is_used_again(sides, container):
    last = 0
    for turn, (writer, deleter) in zip(range(ROUNDS), itertools.cycle(both_ways(sides))):
        told = number_of(writer.blob(container, "again").upload_blob(f"{turn}".encode())["etag"])
        assert told > last, f"turn {turn}"
        changed = number_of(deleter.blob(container, "again").set_blob_metadata({"turn": str(turn)})["etag"])
        assert changed > told
        deleter.blob(container, "again").delete_blob()
        last = changed


def test_a_lease_excludes_on_all(sides, container, refused):
    for holder, other in both_ways(sides):
        name = fresh_name("b")
        holder.blob(container, name).upload_blob(b"1")
        lease = holder.blob(container, name).acquire_lease(lease_duration=60)
        theirs = other.blob(container, name)
        with refused(409, "LeaseAlreadyPresent"):
            theirs.acquire_lease(lease_duration=60)
        with refused(412, "LeaseIdMissing"):
            theirs.upload_blob(b"2", overwrite=True)
        with refused(412, "LeaseIdMissing"):
            theirs.delete_blob()
        theirs.upload_blob(b"2", overwrite=True, lease=lease)
        # Whoever knows the lease may do to it what he likes, wherever.
        same = BlobLeaseClient(theirs, lease.id)
        same.renew()
        same.change("00000000-0000-0000-0000-000000000001")
        with refused(409, "LeaseIdMismatchWithLeaseOperation"):
            lease.renew()
        BlobLeaseClient(holder.blob(container, name), same.id).release()
        again = theirs.acquire_lease(lease_duration=-1)
        assert BlobLeaseClient(holder.blob(container, name)).break_lease(lease_break_period=0) == 0
        with refused(409, "LeaseIsBrokenAndCannotBeRenewed"):
            again.renew()
        holder.blob(container, name).delete_blob()


def test_a_lease_has_one_holder(sides, container, compete):
    """Under the lease: read and write without any condition. Only a lock that holds makes that add up."""
    for name, body in (("lock", b""), ("counter", b"0")):
        sides[0].blob(container, name).upload_blob(body)

    def hold(mine, number):
        turns, waited = itertools.cycle(mine), 0
        for turn in range(5):
            while True:
                try:
                    lease = next(turns).blob(container, "lock").acquire_lease(lease_duration=60)
                    break
                except HttpResponseError as error:
                    assert code(error) == (409, "LeaseAlreadyPresent")
                    waited += 1
            value = int(next(turns).blob(container, "counter").download_blob().readall())
            next(turns).blob(container, "counter").upload_blob(str(value + 1).encode(), overwrite=True)
            # Half of them give the lock back, half are thrown out, by whichever gateway.
            given = BlobLeaseClient(next(turns).blob(container, "lock"), lease.id)
            given.release() if turn % 2 else given.break_lease(lease_break_period=0)
        return waited

    waited = compete(hold)
    assert int(sides[1].blob(container, "counter").download_blob().readall()) == len(waited) * 5
    assert sum(waited) > 0, "nobody ever had to wait: nothing was tried"


def test_leases_end_at_the_same_time_on_all(sides, container, refused):
    """Fifteen seconds, whichever gateway gave it and whichever is asked. All of them in one wait."""
    began = {}
    for number, (holder, other) in enumerate(both_ways(sides)):
        name = f"leased-{number}"
        holder.blob(container, name).upload_blob(b"")
        asked = time.monotonic()
        holder.blob(container, name).acquire_lease(lease_duration=15)
        began[name] = (asked, time.monotonic(), other)
    for name, (asked, _, other) in began.items():
        time.sleep(max(0, asked + 14.3 - time.monotonic()))
        if time.monotonic() < asked + 14.8:  # a machine that was asleep meanwhile proves nothing
            with refused(409, "LeaseAlreadyPresent"):
                other.blob(container, name).acquire_lease(lease_duration=15)
    for name, (_, told, other) in began.items():
        time.sleep(max(0, told + 15.5 - time.monotonic()))
        other.blob(container, name).acquire_lease(lease_duration=15)


def test_appends_lose_no_block(sides, container, compete):
    sides[0].blob(container, "log").create_append_blob()

    def append(mine, number):
        turns = itertools.cycle(mine)
        for turn in range(ROUNDS // 2):
            next(turns).blob(container, "log").append_block(f"{number:03} {turn:03}\n")

    compete(append)
    content = sides[1].blob(container, "log").download_blob().readall().decode().splitlines()
    expected = [f"{number:03} {turn:03}" for number in range(6) for turn in range(ROUNDS // 2)]
    assert sorted(content) == expected
    assert [line for line in content if line.startswith("002")] == [line for line in expected if line.startswith("002")]


def test_appends_at_a_known_end(sides, container, compete):
    sides[0].blob(container, "log").create_append_blob()

    def append(mine, _):
        turns, done = itertools.cycle(mine), 0
        while done < ROUNDS // 2:
            end = next(turns).blob(container, "log").get_blob_properties().size
            try:
                next(turns).blob(container, "log").append_block(f"{end:08}", appendpos_condition=end)
                done += 1
            except HttpResponseError as error:
                assert code(error) == (412, "AppendPositionConditionNotMet")
                next(turns)
        return done

    blocks = sum(compete(append))
    content = sides[1].blob(container, "log").download_blob().readall().decode()
    assert [content[at:at + 8] for at in range(0, len(content), 8)] == [f"{at:08}" for at in range(0, blocks * 8, 8)]


def test_blocks_staged_through_all_are_committed_through_one(sides, container, compete):
    def stage(mine, number):
        for turn in range(5):
            side = mine[turn % len(mine)]
            side.blob(container, "large").stage_block(f"{number:03}-{turn:03}", f"{number} {turn}\n" * 10_000)

    compete(stage)
    names = [f"{number:03}-{turn:03}" for number in range(6) for turn in range(5)]
    for side in sides:
        staged = side.blob(container, "large").get_block_list("uncommitted")[1]
        assert sorted(block.id for block in staged) == names
    sides[1].blob(container, "large").commit_block_list(names)
    expected = "".join(f"{number} {turn}\n" * 10_000 for number in range(6) for turn in range(5))
    for side in sides:
        assert side.blob(container, "large").download_blob().readall().decode() == expected
        assert side.blob(container, "large").get_block_list("uncommitted")[1] == []


def test_pages_are_written_through_all(sides, container, compete):
    sides[0].blob(container, "disk").create_page_blob(6 * 20 * 512)

    def write(mine, number):
        for turn in range(20):
            side = mine[turn % len(mine)]
            side.blob(container, "disk").upload_page(bytes([number + 1]) * 512, (turn * 6 + number) * 512, 512)

    compete(write)
    expected = b"".join(bytes([number + 1]) * 512 for number in range(6)) * 20
    for side in sides:
        assert side.blob(container, "disk").download_blob().readall() == expected


def test_readers_never_see_a_torn_blob(sides, container, compete):
    """Bodies of one letter each; some of them in the record, some in extents."""
    sides[0].blob(container, "shared").upload_blob(b"a" * 1000)

    def work(mine, number):
        looks = 0
        for turn in range(ROUNDS):
            blob = mine[turn % len(mine)].blob(container, "shared")
            if number % 2:
                blob.upload_blob(bytes([97 + turn]) * (1000 if turn % 3 else 200_000), overwrite=True)
            else:
                content = blob.download_blob().readall()
                assert content == content[:1] * len(content) and len(content) in (1000, 200_000)
                looks += 1
        return looks

    assert sum(compete(work)) > 0


def test_snapshots_and_copies_cross_gateways(sides, container):
    for writer, other in both_ways(sides):
        name = fresh_name("b")
        writer.blob(container, name).upload_blob(b"first" * 10_000)
        taken = other.blob(container, name).create_snapshot()["snapshot"]
        writer.blob(container, name).upload_blob(b"second", overwrite=True)
        then = other.blobs.get_blob_client(container, name, snapshot=taken)
        assert then.download_blob().readall() == b"first" * 10_000
        copied = other.blob(container, name + "-copy")
        copied.start_copy_from_url(other.blob(container, name).url + f"?snapshot={taken}")
        assert writer.blob(container, name + "-copy").download_blob().readall() == b"first" * 10_000
        writer.blob(container, name).delete_blob(delete_snapshots="include")
        assert not then.exists()
        assert copied.download_blob().readall() == b"first" * 10_000


def test_tags_are_found_through_all(sides, container):
    for writer, reader in both_ways(sides):
        word = fresh_name("w")
        writer.blob(container, word).upload_blob(b"", tags={"word": word})
        found = reader.blobs.find_blobs_by_tags(f"\"word\"='{word}'")
        assert [one.name for one in found] == [word]
