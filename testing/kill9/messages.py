"""Producers and consumers of one queue, who remember what they were told, and the judge of what is found in it afterwards.

  1. A put that was acknowledged is there, text and all, unless its delete was acknowledged or in flight.
  2. A delete that was acknowledged stays.
  3. A put or delete that was in flight at the kill happened whole or not at all.
  4. A message that was being received when the server died is hidden or visible, never gone.
  5. The count the queue tells is the number of messages in it.
"""

import random
import time

from azure.core.exceptions import HttpResponseError, IncompleteReadError, ServiceRequestError, ServiceResponseError
from azure.storage.queue import QueueClient

from server import ANSWER_SECONDS_MAX, KEY

QUEUE = "kill9"
GONE = (ServiceRequestError, ServiceResponseError, IncompleteReadError)
HIDDEN_SECONDS = 2


class Broken(Exception):
    pass


def connect(endpoint):
    return QueueClient(endpoint, QUEUE, credential=KEY, retry_total=0, connection_timeout=10,
                       read_timeout=ANSWER_SECONDS_MAX)


class Worker:
    """Remembers what it was told. A text is never sent twice, so a text names its message."""

    def __init__(self, number, seed):
        self.number, self.chance, self.sent = number, random.Random(f"{seed} {number}"), 0
        self.forget()

    def forget(self):
        self.put, self.put_in_flight = {}, []  # id: text; texts
        self.deleted, self.delete_in_flight, self.received = set(), set(), 0

    def text(self):
        self.sent += 1
        size = self.chance.choice([0, 10, 1000, 20_000])
        return f"{self.number}/{self.sent} " + "x" * size

    def run(self, endpoint):
        with connect(endpoint) as queue:
            try:
                while True:
                    self.chance.choice([self.produce, self.produce, self.consume])(queue)
            except GONE:
                return

    def produce(self, queue):
        text = self.text()
        self.put_in_flight.append(text)
        answer = queue.send_message(text)
        self.put_in_flight.pop()
        self.put[answer.id] = text

    def consume(self, queue):
        for message in queue.receive_messages(messages_per_page=4, max_messages=4, visibility_timeout=HIDDEN_SECONDS):
            self.received += 1
            try:
                if self.chance.random() < 0.3:
                    message = queue.update_message(message, visibility_timeout=HIDDEN_SECONDS)
                if self.chance.random() < 0.7:
                    self.delete_in_flight.add(message.id)
                    queue.delete_message(message.id, message.pop_receipt)
                    self.deleted.add(message.id)
                    self.delete_in_flight.discard(message.id)
            except HttpResponseError as error:
                # Too slow: it was visible again and somebody else has it. Nothing was deleted.
                if error.status_code != 404:
                    raise
                self.delete_in_flight.discard(message.id)


def drain(endpoint):
    """Everything in the queue, hidden messages when their time has come: {id: text}."""
    found, deadline = {}, time.monotonic() + 60
    with connect(endpoint) as queue:
        told = queue.get_queue_properties().approximate_message_count
        while len(found) < told:
            for message in queue.receive_messages(messages_per_page=32, visibility_timeout=600):
                if message.id in found:
                    raise Broken(f"{message.id} was received twice while it was hidden")
                found[message.id] = message.content
            if time.monotonic() > deadline:
                raise Broken(f"{told} messages are counted, {len(found)} came out within a minute")
        if list(queue.receive_messages(messages_per_page=32, max_messages=32)):
            raise Broken(f"more than the {told} messages that are counted came out")
        queue.clear_messages()
        if queue.get_queue_properties().approximate_message_count != 0:
            raise Broken("messages are counted after the queue was cleared")
    return found


def judge(workers, found):
    put = {id: text for worker in workers for id, text in worker.put.items()}
    deleted = set().union(*(worker.deleted for worker in workers))
    doubtful = set().union(*(worker.delete_in_flight for worker in workers))
    in_flight = {text for worker in workers for text in worker.put_in_flight}
    problems = [f"{id} ({text[:20]}): acknowledged, and gone"
                for id, text in put.items() if id not in found and id not in deleted and id not in doubtful]
    for id, text in found.items():
        if id in deleted:
            problems.append(f"{id} ({text[:20]}): its delete was acknowledged, and it is there")
        elif id in put and put[id] != text:
            problems.append(f"{id}: {len(text)} bytes of text, {len(put[id])} were put")
        elif id not in put and text not in in_flight:
            problems.append(f"{id} ({text[:20]}): nobody put it")
    return problems
