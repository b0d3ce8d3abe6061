"""Messages, entities, files, keys and properties through gateways in turn: what one of them was told holds on all, at once."""

import base64
import itertools
import os
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableTransactionError, UpdateMode
from azure.storage.blob import CorsRule, RetentionPolicy
from azure.storage.fileshare import ShareLeaseClient

from common import client, fresh_name
from server import ACCOUNT

ROUNDS = 20


def both_ways(sides):
    return itertools.permutations(sides, 2)


# --- queues


def test_each_message_has_one_consumer(sides, queue, compete):
    def work(mine, number):
        turns, got = itertools.cycle(mine), []
        for turn in range(ROUNDS):
            next(turns).queues.get_queue_client(queue).send_message(f"{number}/{turn}")
        empty = 0
        while empty < 3:
            one = next(turns).queues.get_queue_client(queue)
            page = list(one.receive_messages(messages_per_page=4, max_messages=4, visibility_timeout=120))
            empty = 0 if page else empty + 1
            for message in page:
                got.append(message.content)
                next(turns).queues.get_queue_client(queue).delete_message(message.id, message.pop_receipt)
        return got

    got = [text for mine in compete(work) for text in mine]
    assert sorted(got) == sorted(f"{number}/{turn}" for number in range(6) for turn in range(ROUNDS)), "each of them once"
    for side in sides:
        assert side.queues.get_queue_client(queue).get_queue_properties().approximate_message_count == 0


def test_receipts_hold_on_all(sides, queue, refused):
    for one, other in both_ways(sides):
        mine, theirs = one.queues.get_queue_client(queue), other.queues.get_queue_client(queue)
        sent = mine.send_message("text")
        got = next(iter(theirs.receive_messages(visibility_timeout=60)))
        assert got.id == sent.id
        assert list(mine.receive_messages()) == [], "hidden, whoever asks"
        with refused(404, "MessageNotFound"):
            mine.delete_message(sent.id, sent.pop_receipt)
        updated = mine.update_message(got.id, got.pop_receipt, visibility_timeout=60, content="other")
        with refused(404, "MessageNotFound"):
            theirs.delete_message(got.id, got.pop_receipt)
        theirs.delete_message(got.id, updated.pop_receipt)
        with refused(404, "MessageNotFound"):
            mine.delete_message(got.id, updated.pop_receipt)


def test_messages_are_visible_again_in_time_on_all(sides, queue):
    for one, other in both_ways(sides):
        mine, theirs = one.queues.get_queue_client(queue), other.queues.get_queue_client(queue)
        mine.send_message("text")
        asked = time.monotonic()
        message = next(iter(mine.receive_messages(visibility_timeout=3)))
        told = time.monotonic()
        while not (again := list(theirs.receive_messages(visibility_timeout=60))):
            assert time.monotonic() < told + 4, "hidden for too long"
        assert time.monotonic() > asked + 2.9, "visible too early"
        theirs.delete_message(message.id, again[0].pop_receipt)


# --- tables


def entity(row, **properties):
    return {"PartitionKey": "p", "RowKey": row, **properties}


def test_transactions_are_whole_for_readers_on_all(sides, table, compete):
    """Two rows that one transaction after the other keeps equal; every look at both is one query of one partition."""
    rows = ("a", "b", "c")
    sides[0].tables.get_table_client(table).submit_transaction([("create", entity(row, value=0)) for row in rows])

    def work(mine, number):
        turns, seen = itertools.cycle(mine), []
        for turn in range(ROUNDS):
            one = next(turns).tables.get_table_client(table)
            if number % 3 == 0:
                one.submit_transaction([("upsert", entity(row, value=turn * 10 + number)) for row in rows])
            else:
                found = {found["value"] for found in one.query_entities("PartitionKey eq 'p'")}
                assert len(found) == 1, f"half of a transaction: {found}"
                seen += found
        return seen

    assert sum(compete(work), [])


def test_transactions_count(sides, table, compete):
    """Two rows are read, and raised by one if neither changed; a row that is only made once makes each transaction different."""
    one = sides[0].tables.get_table_client(table)
    one.submit_transaction([("create", entity(row, value=0)) for row in ("a", "b")])

    def work(mine, number):
        turns, done = itertools.cycle(mine), 0
        while done < ROUNDS // 2:
            side = next(turns).tables.get_table_client(table)
            rows = [side.get_entity("p", row) for row in ("a", "b")]
            changes = [
                ("update", dict(row, value=row["value"] + 1),
                 {"etag": row.metadata["etag"], "match_condition": MatchConditions.IfNotModified, "mode": UpdateMode.REPLACE})
                for row in rows]
            try:
                next(turns).tables.get_table_client(table).submit_transaction(
                    changes + [("create", entity(f"did-{number}-{done}"))])
                done += 1
            except TableTransactionError as error:
                assert error.status_code == 412, error
                next(turns)
        return done

    total = sum(compete(work, 4))
    for side in sides:
        found = {one["RowKey"]: one.get("value") for one in side.tables.get_table_client(table).list_entities()}
        assert (found["a"], found["b"]) == (total, total)
        assert len(found) == total + 2, "each that succeeded left its mark, and none that did not"


def test_entities_are_seen_at_once(sides, table, refused):
    for number, (writer, reader) in enumerate(both_ways(sides)):
        mine, theirs = (side.tables.get_table_client(table) for side in (writer, reader))
        for turn in range(5):
            row = f"{number}-{turn}"
            told = mine.create_entity(entity(row, text="x"))["etag"]
            assert theirs.get_entity("p", row).metadata["etag"] == told
            with refused(409, "EntityAlreadyExists"):
                theirs.create_entity(entity(row))
            theirs.update_entity(entity(row, text="y"))
            with refused(412, "UpdateConditionNotSatisfied"):
                mine.delete_entity("p", row, etag=told, match_condition=MatchConditions.IfNotModified)
            theirs.delete_entity("p", row)
            assert [one for one in mine.query_entities(f"RowKey eq '{row}'")] == []


# --- files


def test_files_are_seen_at_once(sides, share):
    for number, (writer, reader) in enumerate(both_ways(sides)):
        mine, theirs = (side.files.get_share_client(share) for side in (writer, reader))
        path = f"dir-{number}"
        mine.create_directory(path)
        mine.get_file_client(f"{path}/f").upload_file(b"content" * 1000)
        assert theirs.get_file_client(f"{path}/f").download_file().readall() == b"content" * 1000
        theirs.get_file_client(f"{path}/f").upload_range(b"CONTENT", 0, 7)
        assert mine.get_file_client(f"{path}/f").download_file().readall()[:14] == b"CONTENTcontent"
        theirs.get_file_client(f"{path}/f").rename_file(f"{path}/g")
        assert [one.name for one in mine.list_directories_and_files(path)] == ["g"]


def test_a_file_has_one_mover_and_one_holder(sides, share, compete):
    def attempt(act):
        try:
            act()
            return True
        except HttpResponseError as error:
            return getattr(error.error_code, "value", error.error_code)

    for turn in range(5):
        sides[turn % 2].files.get_share_client(share).get_file_client(f"f{turn}").create_file(8)
        def lease(mine, _):
            return attempt(mine[0].files.get_share_client(share).get_file_client(f"f{turn}").acquire_lease)
        outcomes = compete(lease)
        assert outcomes.count(True) == 1 and outcomes.count("LeaseAlreadyPresent") == len(outcomes) - 1, outcomes
        ShareLeaseClient(sides[1].files.get_share_client(share).get_file_client(f"f{turn}")).break_lease()
        def move(mine, number):
            file = mine[0].files.get_share_client(share).get_file_client(f"f{turn}")
            return attempt(lambda: file.rename_file(f"to-{turn}-{number}"))
        outcomes = compete(move)
        assert outcomes.count(True) == 1 and outcomes.count("ResourceNotFound") == len(outcomes) - 1, outcomes


# --- accounts and properties


def fresh_key():
    return base64.b64encode(os.urandom(64)).decode()


def test_a_rotated_key_holds_on_all_at_once(sides, cluster):
    name, keys = "rotating" + os.urandom(4).hex(), [fresh_key() for _ in range(3)]
    cluster.account("create", name, "--key1", keys[0], "--key2", keys[1])

    def holds(side, key):
        try:
            with client(side.endpoints["blob"].replace(ACCOUNT, name), credential={"account_name": name, "account_key": key}) as one:
                list(one.list_containers())
            return True
        except HttpResponseError as error:
            assert error.status_code in (403, 404), error  # a wrong key, no such account
            return False

    def who_holds():
        return [[holds(side, key) for key in keys] for side in sides]

    assert who_holds() == [[True, True, False]] * len(sides)
    cluster.account("rotate", name, "key1", "--key", keys[2])
    assert who_holds() == [[False, True, True]] * len(sides)
    cluster.account("delete", name)
    assert who_holds() == [[False, False, False]] * len(sides)


def test_service_properties_hold_on_all(sides):
    before = sides[0].blobs.get_service_properties()
    for writer, reader in both_ways(sides):
        rule = CorsRule([f"http://{fresh_name('host')}.example"], ["GET"], max_age_in_seconds=7)
        writer.blobs.set_service_properties(cors=[rule])
        assert [found.allowed_origins for found in reader.blobs.get_service_properties()["cors"]] == [rule.allowed_origins]
    sides[0].blobs.set_service_properties(cors=before["cors"])


def test_retention_set_through_one_holds_for_what_another_deletes(sides, container):
    def is_kept(deleter, looker):
        name = fresh_name("b")
        deleter.blob(container, name).upload_blob(b"kept")
        deleter.blob(container, name).delete_blob()
        found = looker.blobs.get_container_client(container).list_blobs(name_starts_with=name, include=["deleted"])
        return [one.name for one in found] == [name]

    try:
        for _ in range(10):
            for writer, other in both_ways(sides):
                for enabled in (True, False):
                    list(other.blobs.get_container_client(container).list_blobs())  # it has the properties at hand now
                    policy = RetentionPolicy(enabled=True, days=1) if enabled else RetentionPolicy(enabled=False)
                    writer.blobs.set_service_properties(delete_retention_policy=policy)
                    assert is_kept(other, writer) == enabled
    finally:
        sides[0].blobs.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=False))


def test_what_is_set_while_others_ask_all_the_time_holds_when_it_is_answered(sides):
    """Others read the properties just before, during and after the change; nobody goes on with what was before."""
    origins, over = [f"http://{fresh_name('host')}.example" for _ in range(20)], Event()

    def allows(side, origin):
        request = urllib.request.Request(side.endpoints["blob"] + "/?comp=list", method="OPTIONS")
        request.add_header("Origin", origin)
        request.add_header("Access-Control-Request-Method", "GET")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.headers["Access-Control-Allow-Origin"] == origin
        except urllib.error.HTTPError as error:
            assert error.code == 403, error
            return False

    def ask(side):
        asked = 0
        while not over.is_set():
            allows(side, origins[0])
            asked += 1
        return asked

    before = sides[0].blobs.get_service_properties()
    with ThreadPoolExecutor(len(sides) * 2) as pool:
        asking = [pool.submit(ask, side) for side in sides * 2]
        try:
            for number, origin in enumerate(origins):
                sides[number % len(sides)].blobs.set_service_properties(cors=[CorsRule([origin], ["GET"])])
                for side in sides:
                    assert allows(side, origin), f"{number}: what was answered does not hold"
                    assert not allows(side, origins[number - 1])
        finally:
            over.set()
            sides[0].blobs.set_service_properties(cors=before["cors"])
        assert all(one.result() > 10 for one in asking)
