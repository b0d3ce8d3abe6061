"""The Queue service through azure-storage-queue: every operation it has."""

import base64
import multiprocessing
from datetime import datetime, timedelta, timezone

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.queue import (
    AccessPolicy, AccountSasPermissions, BinaryBase64DecodePolicy, BinaryBase64EncodePolicy, CorsRule, QueueClient,
    QueueSasPermissions, QueueServiceClient, ResourceTypes, TextBase64DecodePolicy, TextBase64EncodePolicy,
    generate_account_sas, generate_queue_sas,
)
from azure.storage.queue.aio import QueueServiceClient as AsyncQueueServiceClient

import server as servers


def connect(endpoint, credential=servers.KEY, **options):
    return QueueServiceClient(endpoint, credential=credential, retry_total=0, **options)


@pytest.fixture(scope="session")
def queues(queue_endpoint):
    with connect(queue_endpoint) as one:
        yield one


@pytest.fixture
def queue(queues, tools):
    one = queues.create_queue(tools.fresh_name("q"))
    yield one
    try:
        one.delete_queue()
    except HttpResponseError:
        pass  # a test may have deleted it itself


def soon():
    return datetime.now(timezone.utc) + timedelta(hours=1)


def test_queues_come_and_go(queues, tools, refused):
    name = tools.fresh_name("q")
    one = queues.create_queue(name, metadata={"hello": "world"})
    with refused(204, "QueueAlreadyExists"):  # the service takes the same again; the client makes an error of it
        queues.create_queue(name, metadata={"hello": "world"})
    with refused(409, "QueueAlreadyExists"):
        queues.create_queue(name, metadata={"hello": "moon"})
    properties = one.get_queue_properties()
    assert properties.metadata == {"hello": "world"} and properties.approximate_message_count == 0
    one.set_queue_metadata({"a": "1", "b": ""})
    assert one.get_queue_properties().metadata == {"a": "1", "b": ""}
    one.set_queue_metadata({})
    assert not one.get_queue_properties().metadata
    queues.delete_queue(name)
    with refused(404, "QueueNotFound"):
        one.delete_queue()
    with refused(404, "QueueNotFound"):
        one.get_queue_properties()
    with refused(404, "QueueNotFound"):
        one.send_message("x")
    queues.create_queue(name).delete_queue()  # the name is free at once


@pytest.mark.parametrize("name, code", [
    ("ab", "OutOfRangeInput"), ("a" * 64, "OutOfRangeInput"), ("Abc", "InvalidResourceName"), ("a--b", "InvalidResourceName"),
])
def test_names(queues, refused, name, code):
    with refused(400, code):
        queues.create_queue(name)


def test_list(queues, tools):
    prefix = tools.fresh_name("list")
    names = [f"{prefix}-{n:02}" for n in range(7)]
    for n, name in enumerate(names):
        queues.create_queue(name, metadata={"n": str(n)})
    listed = list(queues.list_queues(name_starts_with=prefix, include_metadata=True))
    assert [one.name for one in listed] == names and [one.metadata for one in listed] == [{"n": str(n)} for n in range(7)]
    pages = queues.list_queues(name_starts_with=prefix, results_per_page=3).by_page()
    assert [[one.name for one in page] for page in pages] == [names[:3], names[3:6], names[6:]]
    assert [one.metadata for one in queues.list_queues(name_starts_with=prefix)] == [None] * 7
    for name in names:
        queues.delete_queue(name)
    assert list(queues.list_queues(name_starts_with=prefix)) == []


def test_a_message_from_put_to_delete(queue, refused):
    put = queue.send_message("hello")
    assert put.id and put.pop_receipt and put.expires_on - put.inserted_on == timedelta(days=7)
    [seen] = queue.peek_messages()
    assert (seen.id, seen.content, seen.dequeue_count, seen.pop_receipt) == (put.id, "hello", 0, None)
    got = queue.receive_message(visibility_timeout=60)
    assert (got.id, got.content, got.dequeue_count) == (put.id, "hello", 1)
    assert got.pop_receipt != put.pop_receipt
    assert timedelta(seconds=50) < got.next_visible_on - datetime.now(timezone.utc) <= timedelta(seconds=61)
    assert queue.receive_message() is None and queue.peek_messages() == []
    assert queue.get_queue_properties().approximate_message_count == 1
    with refused(404, "MessageNotFound"):
        queue.delete_message(put)  # its receipt died when it was received
    queue.delete_message(got)
    with refused(404, "MessageNotFound"):
        queue.delete_message(got)
    assert queue.get_queue_properties().approximate_message_count == 0


def test_the_receipt_of_a_put_works_until_the_first_receive(queue):
    put = queue.send_message("a")
    updated = queue.update_message(put, content="b", visibility_timeout=0)
    assert queue.peek_messages()[0].content == "b"
    queue.delete_message(updated)
    assert queue.peek_messages() == []


def test_update(queue, refused):
    queue.send_message("one")
    got = queue.receive_message(visibility_timeout=600)
    hidden = queue.update_message(got, visibility_timeout=300)  # visibility alone
    assert hidden.pop_receipt != got.pop_receipt and queue.receive_message() is None
    with refused(404, "MessageNotFound"):
        queue.update_message(got, visibility_timeout=0)  # the old receipt
    shown = queue.update_message(hidden, content="two <&> \r\n", visibility_timeout=0)
    again = queue.receive_message(visibility_timeout=30)
    assert (again.content, again.dequeue_count) == ("two <&> \r\n", 2)
    with refused(404, "MessageNotFound"):
        queue.delete_message(shown)
    with refused(400, "InvalidQueryParameterValue"):
        queue.delete_message(again.id, "no receipt")
    with refused(404, "MessageNotFound"):
        queue.delete_message("01234567-89ab-cdef-0123-456789abcdef", again.pop_receipt)


def test_visibility_and_time_to_live(queue, refused):
    later = queue.send_message("later", visibility_timeout=2, time_to_live=60)
    assert queue.receive_message() is None
    forever = queue.send_message("for ever", time_to_live=-1)
    assert forever.expires_on.year == 9999
    assert queue.receive_message(visibility_timeout=3600).content == "for ever"
    queue.send_message("gone", time_to_live=1)
    for how, code in [
        (dict(visibility_timeout=10, time_to_live=10), "InvalidQueryParameterValue"),
        (dict(visibility_timeout=604_801, time_to_live=-1), "OutOfRangeQueryParameterValue"),
        (dict(time_to_live=0), "InvalidQueryParameterValue"),
        (dict(time_to_live=-2), "InvalidQueryParameterValue"),
    ]:
        with refused(400, code):
            queue.send_message("x", **how)
    for timeout in (0, 604_801):
        with refused(400, "OutOfRangeQueryParameterValue"):
            queue.receive_message(visibility_timeout=timeout)
    # By the clock alone: asked until it is there, for as long as it may take.
    deadline = datetime.now(timezone.utc) + timedelta(seconds=20)
    got = None
    while got is None and datetime.now(timezone.utc) < deadline:
        got = queue.receive_message(visibility_timeout=3600)
        if got and got.content == "gone":
            got = None
    assert got is not None and got.id == later.id
    assert queue.peek_messages(max_messages=32) == []


def test_many_at_once(queue):
    for n in range(70):
        queue.send_message(str(n))
    assert len(queue.peek_messages(max_messages=32)) == 32
    pages = queue.receive_messages(messages_per_page=32, visibility_timeout=600).by_page()
    sizes, contents = [], []
    for page in pages:
        page = list(page)
        sizes.append(len(page))
        contents += [int(one.content) for one in page]
        if sum(sizes) == 70:
            break
    assert sizes == [32, 32, 6] and contents == list(range(70))  # first in, first out
    assert [one.content for one in queue.receive_messages(max_messages=5)] == []


def test_clear(queue):
    put = [queue.send_message(str(n)) for n in range(40)]
    queue.clear_messages()
    assert queue.peek_messages() == [] and queue.get_queue_properties().approximate_message_count == 0
    with pytest.raises(HttpResponseError):
        queue.delete_message(put[0])
    queue.send_message("after")
    assert queue.receive_message().content == "after"


TEXTS = [
    "", " ", " both sides ", "a\nb", "a\r\nb\rc", "\ttab", "<tag attr='x'>&amp;</tag>", "]]>", "\u00e9\u4e2d\U0001f600", "\u0085\u007f",
    "&#xD;", "%20+/=", "x" * 65_536, "\u00e9" * 32_768, "\"quotes' ",
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_text_comes_back_as_it_was_sent(queue, text):
    queue.send_message(text)
    assert (queue.receive_message().content or "") == text


def test_text_that_is_too_long_or_no_text(queue, refused):
    for text in ("x" * 65_537, "x" * 200_000):
        with refused(413, "RequestBodyTooLarge"):
            queue.send_message(text)
    for text in ("\u0000", "\u0001", "\uffff"):
        with refused(400, "InvalidXmlDocument"):
            queue.send_message(text)
    assert queue.get_queue_properties().approximate_message_count == 0


def test_encodings(queues, queue_endpoint, queue):
    text = queues.get_queue_client(
        queue.queue_name, message_encode_policy=TextBase64EncodePolicy(), message_decode_policy=TextBase64DecodePolicy())
    text.send_message("h\u00e9llo <")
    assert queue.peek_messages()[0].content == base64.b64encode("h\u00e9llo <".encode()).decode()
    assert text.receive_message().content == "h\u00e9llo <"
    binary = queues.get_queue_client(
        queue.queue_name, message_encode_policy=BinaryBase64EncodePolicy(), message_decode_policy=BinaryBase64DecodePolicy())
    binary.send_message(bytes(range(256)))
    assert binary.receive_message().content == bytes(range(256))


def test_service_properties_and_stats(queues, queue_endpoint):
    before = queues.get_service_properties()
    rule = CorsRule(["http://page"], ["GET", "PUT"], allowed_headers=["x-ms-*"], exposed_headers=["x-ms-*"], max_age_in_seconds=60)
    queues.set_service_properties(cors=[rule])
    [stored] = queues.get_service_properties()["cors"]
    assert stored.allowed_origins == "http://page" and stored.max_age_in_seconds == 60
    queues.set_service_properties(cors=before["cors"])
    # Path style has no host of its own for the secondary: the account's name says it.
    secondary = connect(queue_endpoint.replace(servers.ACCOUNT, servers.ACCOUNT + "-secondary"))
    assert secondary.url.endswith("-secondary/")


def test_access_policies_and_sas(queues, queue_endpoint, queue, refused):
    name = queue.queue_name
    queue.set_queue_access_policy({"workers": AccessPolicy(permission=QueueSasPermissions(process=True, read=True), expiry=soon())})
    assert list(queue.get_queue_access_policy()) == ["workers"]
    queue.send_message("x")

    def with_token(**how):
        token = generate_queue_sas(servers.ACCOUNT, name, servers.KEY, **how)
        return QueueClient(queue_endpoint, name, credential=token, retry_total=0)

    by_policy = with_token(policy_id="workers")
    got = by_policy.receive_message()
    assert got.content == "x"
    by_policy.delete_message(got)
    with refused(403, "AuthorizationPermissionMismatch"):
        by_policy.send_message("y")
    adds = with_token(permission=QueueSasPermissions(add=True), expiry=soon())
    put = adds.send_message("y")
    with refused(403, "AuthorizationPermissionMismatch"):
        adds.receive_message()
    updates = with_token(permission=QueueSasPermissions(update=True), expiry=soon())
    put = updates.update_message(put, content="z", visibility_timeout=0)
    reads = with_token(permission=QueueSasPermissions(read=True), expiry=soon())
    assert reads.peek_messages()[0].content == "z" and reads.get_queue_properties().approximate_message_count == 1
    processes = with_token(permission=QueueSasPermissions(process=True), expiry=soon())
    processes.delete_message(put)
    with refused(403, "AuthorizationFailure"):
        processes.clear_messages()
    with refused(403, "AuthenticationFailed"):
        with_token(permission=QueueSasPermissions(read=True), expiry=soon() - timedelta(hours=2)).peek_messages()
    queue.set_queue_access_policy({})
    with refused(403, "AuthenticationFailed"):
        by_policy.peek_messages()

    token = generate_account_sas(
        servers.ACCOUNT, servers.KEY, resource_types=ResourceTypes(service=True, container=True, object=True),
        permission=AccountSasPermissions(read=True, list=True, add=True, process=True, create=True, delete=True), expiry=soon())
    with connect(queue_endpoint, credential=token) as account:
        one = account.get_queue_client(name)
        one.send_message("by account")
        one.delete_message(one.receive_message())
        assert name in [each.name for each in account.list_queues()]
        with refused(403):
            one.set_queue_metadata({"a": "b"})


def test_host_style(queue_endpoint):
    port = queue_endpoint.split(":")[2].split("/")[0]
    key = {"account_name": servers.ACCOUNT, "account_key": servers.KEY}
    with connect(f"http://{servers.ACCOUNT}.queue.localhost:{port}", credential=key) as service:
        one = service.create_queue("host-style")
        one.send_message("x")
        assert one.receive_message().content == "x"
        one.delete_queue()


def test_async_client(queue_endpoint, tools):
    import asyncio

    async def story():
        async with AsyncQueueServiceClient(queue_endpoint, credential=servers.KEY, retry_total=0) as service:
            one = await service.create_queue(tools.fresh_name("q"))
            await asyncio.gather(*(one.send_message(str(n)) for n in range(20)))
            seen = [message.content async for message in one.receive_messages(messages_per_page=8, max_messages=20)]
            assert sorted(map(int, seen)) == list(range(20))
            await one.delete_queue()

    asyncio.run(story())


# --- competing consumers ---------------------------------------------------------------------------------------------

PRODUCERS, CONSUMERS, EACH = 2, 4, 150


def produce(endpoint, name, number):
    with connect(endpoint) as service:
        one = service.get_queue_client(name)
        for n in range(EACH):
            one.send_message(f"{number}/{n}")


def consume(endpoint, name, deliveries):
    """Receives until it is told to stop, deletes what it received, and tries a receipt that is dead on the way."""
    with connect(endpoint) as service:
        one = service.get_queue_client(name)
        got, idle = [], 0
        while idle < 30:
            batch = list(one.receive_messages(messages_per_page=4, max_messages=4, visibility_timeout=600))
            idle = 0 if batch else idle + 1
            for message in batch:
                got.append((message.content, message.dequeue_count))
                newer = one.update_message(message, visibility_timeout=600)
                try:
                    one.delete_message(message.id, message.pop_receipt)
                    got.append(("a dead receipt was taken", 0))
                except HttpResponseError as error:
                    if error.status_code != 404:
                        got.append((f"a dead receipt gave {error.status_code}", 0))
                one.delete_message(newer)
        deliveries.put(got)


def test_competing_consumers_in_several_processes(queue_endpoint, queue):
    context = multiprocessing.get_context("spawn")
    deliveries = context.Queue()
    producers = [context.Process(target=produce, args=(queue_endpoint, queue.queue_name, n)) for n in range(PRODUCERS)]
    consumers = [context.Process(target=consume, args=(queue_endpoint, queue.queue_name, deliveries)) for _ in range(CONSUMERS)]
    for process in producers:
        process.start()
    for process in producers:
        process.join()
    for process in consumers:
        process.start()
    got = [one for _ in consumers for one in deliveries.get(timeout=120)]
    for process in consumers:
        process.join()
        assert process.exitcode == 0
    assert sorted(got) == sorted((f"{p}/{n}", 1) for p in range(PRODUCERS) for n in range(EACH))
    assert queue.get_queue_properties().approximate_message_count == 0
