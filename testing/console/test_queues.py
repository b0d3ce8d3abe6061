"""Queues: made and deleted, messages put, peeked at, hidden ones counted down, cleared."""

import base64

import pytest

from common import fresh_name


@pytest.fixture
def queue(queues):
    one = queues.create_queue(fresh_name("q"))
    yield one
    try:
        one.delete_queue()
    except Exception:
        pass  # a test may have deleted it itself


def test_a_queue_is_made_counted_and_deleted(page, queues):
    name = fresh_name("q")
    page.open("#/queues")
    page.click("New queue")
    page.fill("Name", name)
    page.press("Enter")
    page.sees("No message can be received now.")
    queues.get_queue_client(name).send_message("one")
    page.open(f"#/queues?prefix={name}")
    page.wait(lambda: page.run("document.querySelector('.grid tbody .end .number')?.textContent") == "1", "the count")
    page.click(f"Delete {name}")
    page.click("Delete", kind="dialog button[data-yes]")
    page.sees("No queue has this prefix.")
    assert name not in [one.name for one in queues.list_queues()]


def test_messages_are_put_and_peeked_at(page, queue):
    page.open(f"#/queue/{queue.queue_name}")
    page.click("Put message")
    page.fill("Text", "<order id='1'>&amp;</order>")
    page.click("Put", kind="dialog button")
    page.sees("<order id='1'>&amp;</order>")
    page.click("Put message")
    page.fill("Text", "Grüße")
    page.click("as Base64", kind="label")
    page.click("Put", kind="dialog button")
    page.sees("Base64", ".grid")
    page.sees("2 messages, hidden ones included")
    assert [one.content for one in queue.peek_messages(max_messages=5)] == ["<order id='1'>&amp;</order>", base64.b64encode("Grüße".encode()).decode()]
    # Looking is not receiving.
    assert [one.dequeue_count for one in queue.peek_messages(max_messages=5)] == [0, 0]
    page.click("Put message")
    page.fill("Text", "later")
    page.fill("Hidden for, in seconds", "600")
    page.click("Put", kind="dialog button")
    page.sees("3 messages, hidden ones included")
    page.misses("later", ".grid")


def test_hidden_messages_count_down(page, queue):
    queue.send_message("work")
    taken = queue.receive_message(visibility_timeout=600)
    page.open(f"#/queue/{queue.queue_name}")
    page.sees(taken.id)
    page.sees("1 ×")
    left = lambda: page.run("document.querySelector('.countdown')?.textContent")
    before = page.wait(left, "a countdown")
    assert before.startswith("9 min") or before.startswith("10 min"), before
    page.wait(lambda: left() != before, "the next second")


def test_clearing_asks_first(page, queue):
    for _ in range(3):
        queue.send_message("x")
    page.open(f"#/queue/{queue.queue_name}")
    page.sees("3 messages")
    page.click("Clear")
    page.sees("There is no way back.")
    page.press("Escape")
    assert queue.get_queue_properties().approximate_message_count == 3
    page.click("Clear")
    page.click("Clear", kind="dialog button[data-yes]")
    page.sees("No message can be received now.")
    assert queue.get_queue_properties().approximate_message_count == 0


def test_a_queue_that_is_not_there(page):
    page.open("#/queue/no-such-queue")
    page.sees("QueueNotFound")
    page.sees("status 404")
    page.sees("Try again")
