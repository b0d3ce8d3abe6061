"""Clients that go on working while the cluster fails, and the judges of what is found when it works again.

The work and the rules are those of testing/kill9. What was answered with 5xx, or not answered at all because a connection broke, is in
doubt: it may have happened, or may happen later. What it would have changed is left alone from then on, until it is judged: it
must be as it was before, or as it would be after. Everything that was acknowledged must be there. An answer that never comes is a failure of its own.
"""

import copy
import sys
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "kill9"))

from azure.core.exceptions import AzureError, HttpResponseError, ResourceExistsError  # noqa: E402
from azure.storage.fileshare import ShareClient  # noqa: E402

import entities  # noqa: E402
import messages  # noqa: E402
import tree  # noqa: E402
import worker  # noqa: E402
from server import ANSWER_SECONDS_MAX, KEY  # noqa: E402

CONTAINER = "kill9"
BREATH_SECONDS = 0.2


class Client:
    """What clients of every kind do: step after step, until they are told to stop. A kind says how it connects, what a step is, and
    what to leave alone after a doubt."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.acknowledged, self.failures, self.problems = 0, Counter(), []

    def work(self, endpoint, stop):
        with self.open(endpoint) as service:
            while not stop.is_set() and not self.problems:
                try:
                    self.one_step(service)
                    self.acknowledged += 1
                except AssertionError as wrong:
                    self.problems.append(str(wrong))
                except AzureError as error:
                    self.note(error)
                    stop.wait(BREATH_SECONDS)

    def note(self, error):
        status = getattr(error, "status_code", None)
        if "timed out" in str(error).lower():
            self.problems.append(f"{type(self).__name__}: no answer within {ANSWER_SECONDS_MAX} s")
        elif isinstance(error, worker.GONE) or (status or 0) >= 500:
            self.failures[status or "connection lost"] += 1
            self.doubt()
        else:
            self.problems.append(f"{type(self).__name__}: unexpected {worker.first_line(error)}")


class Blobs(Client, worker.Thread):
    open = staticmethod(worker.client)

    def __init__(self, number, seed):
        super().__init__(f"blobs-{number}", seed, CONTAINER)
        self.doubts = {}
        self.acts = [self.overwrite] * 4 + [self.swap] * 3 + [self.delete] * 2 + [
            self.create, self.stale_swap, self.create_again, self.read_back]

    def one_step(self, service):
        self.container = service.get_container_client(CONTAINER)
        self.chance.choice(self.acts)()

    def some_name(self):
        name = super().some_name()
        return f"{name}-{self.sequence}" if name in self.doubts else name

    def doubt(self):
        if self.in_flight:
            name, new = self.in_flight
            self.doubts[name], self.in_flight = new, None

    def judged(self, endpoint):
        problems = []
        with self.open(endpoint) as service:
            self.container = service.get_container_client(CONTAINER)
            for self.in_flight in self.doubts.items():
                problems += self.settle()
        self.doubts = {}
        return problems + self.verify(endpoint, True)["problems"]


class Messages(Client, messages.Worker):
    open = staticmethod(messages.connect)

    def one_step(self, queue):
        self.chance.choice([self.produce, self.produce, self.consume])(queue)

    def doubt(self):
        pass  # what is in flight stays among what was


class Retiring(Client):
    """One place after another: a place of which something is in doubt is left alone."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.past = []

    def doubt(self):
        self.past.append(copy.copy(self))
        self.begin(f"{len(self.past)}")

    def places(self):
        return self.past + [self]


class Trees(Retiring, tree.Worker):
    open = staticmethod(tree.connect)

    def begin(self, word):
        self.directory, self.files, self.maybe, self.snapshots = f"worker-{self.number}-{word}", None, None, {}

    def one_step(self, share):
        if self.files is None:
            share.get_directory_client(self.directory).create_directory()
            self.files = {}
        else:
            self.step(share)


class Entities(Retiring, entities.Worker):
    open = staticmethod(entities.connect)

    def begin(self, word):
        self.partition, self.rows, self.maybe = f"worker-{self.number}-{word}", {}, None

    def one_step(self, table):
        self.step(table)
        self.done += 1


KINDS = {"blob": Blobs, "queue": Messages, "file": Trees, "table": Entities}


class Load:
    """So many clients of each kind, on one set of endpoints."""

    def __init__(self, endpoints, seed, clients=3):
        self.endpoints = endpoints
        self.clients = {service: [kind(number, seed) for number in range(clients)] for service, kind in KINDS.items()}
        self.stop, self.threads = threading.Event(), []
        make(endpoints)

    def __enter__(self):
        self.stop.clear()
        self.threads = [threading.Thread(target=one.work, args=(self.endpoints[service], self.stop), daemon=True)
                        for service, one in self.everyone()]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def everyone(self):
        return [(service, one) for service, clients in self.clients.items() for one in clients]

    def acknowledged(self):
        return {service: sum(one.acknowledged for one in clients) for service, clients in self.clients.items()}

    def failures(self):
        return sum((one.failures for _, one in self.everyone()), Counter())

    def problems(self):
        return [problem for _, one in self.everyone() for problem in one.problems]

    def goes_on(self, seconds, steps=5):
        """Until every service has acknowledged so much more; what does not within the time, by name."""
        before, deadline = self.acknowledged(), time.monotonic() + seconds
        while True:
            now = self.acknowledged()
            behind = [service for service in now if now[service] < before[service] + steps]
            if not behind or self.problems() or time.monotonic() > deadline:
                return behind
            time.sleep(0.1)

    def judge(self):
        """Sentences about what is wrong, for each service. Afterwards the clients know what is there, and may go on from it."""
        judges = dict(blob=self.judge_blobs, queue=self.judge_queue, file=self.judge_share, table=self.judge_table)
        return {service: judge(self.clients[service], self.endpoints[service]) for service, judge in judges.items()}

    def judge_blobs(self, clients, endpoint):
        return [problem for one in clients for problem in one.judged(endpoint)]

    def judge_queue(self, clients, endpoint):
        try:
            return messages.judge(clients, messages.drain(endpoint))
        except messages.Broken as wrong:
            return [str(wrong)]
        finally:
            for one in clients:
                one.forget()

    def judge_share(self, clients, endpoint):
        places = [place for one in clients for place in one.places()]
        problems = tree.judge(places, endpoint)
        for place in places:
            for taken in place.snapshots:
                ShareClient(endpoint, tree.SHARE, snapshot=taken, credential=KEY).delete_share()
            place.snapshots = {}
        return problems

    def judge_table(self, clients, endpoint):
        return entities.judge([place for one in clients for place in one.places()], endpoint)


def make(endpoints):
    """What the clients work in."""
    makers = [
        (worker.client(endpoints["blob"]).get_container_client(CONTAINER), "create_container"),
        (messages.connect(endpoints["queue"]), "create_queue"),
        (tree.connect(endpoints["file"]), "create_share"),
        (entities.connect(endpoints["table"]), "create_table"),
    ]
    for client, verb in makers:
        with client:
            try:
                getattr(client, verb)()
            except (ResourceExistsError, HttpResponseError) as error:
                if error.status_code not in (204, 409):
                    raise
