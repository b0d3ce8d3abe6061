"""Clients of one table, each in a partition of its own, who remember what they were told, and the judge of what is found afterwards.

  1. A partition holds what its client was told, with or without the one change that was in flight, and nothing between.
  2. Of a transaction that was in flight, everything happened or nothing.
"""

import random

from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import IncompleteReadError, ServiceRequestError, ServiceResponseError
from azure.data.tables import TableClient

from server import ACCOUNT, ANSWER_SECONDS_MAX, KEY

TABLE = "kill9"
GONE = (ServiceRequestError, ServiceResponseError, IncompleteReadError)
ROWS = [f"row-{n}" for n in range(12)]
SIZES = [0, 10, 1000, 20_000]


def connect(endpoint):
    return TableClient(endpoint, TABLE, credential=AzureNamedKeyCredential(ACCOUNT, KEY), retry_total=0, connection_timeout=10,
                       read_timeout=ANSWER_SECONDS_MAX)


class Worker:
    """Knows what its partition holds: row to number and text. One change is in flight at a time."""

    def __init__(self, number, seed):
        self.number, self.chance = number, random.Random(f"{seed} {number}")
        self.partition, self.rows, self.maybe = f"worker-{number}", {}, None
        self.done = 0

    def run(self, endpoint):
        with connect(endpoint) as table:
            try:
                while True:
                    self.step(table)
                    self.done += 1
            except GONE:
                return

    def step(self, table):
        after, changes = dict(self.rows), []
        for row in self.chance.sample(ROWS, self.chance.randint(1, 5)):
            key = {"PartitionKey": self.partition, "RowKey": row}
            if row in after and self.chance.random() < 0.3:
                del after[row]
                changes.append(("delete", key))
            else:
                after[row] = (self.done, "x" * self.chance.choice(SIZES))
                verb = "update" if row in self.rows else "create"
                changes.append((verb, dict(key, number=after[row][0], text=after[row][1])))
        self.maybe = after
        if len(changes) == 1:
            verb, entity = changes[0]
            getattr(table, f"{verb}_entity")(entity)
        else:
            table.submit_transaction(changes)
        self.rows, self.maybe = after, None


def judge(workers, endpoint):
    problems = []
    with connect(endpoint) as table:
        for worker in workers:
            found = {one["RowKey"]: (one["number"], one["text"])
                     for one in table.query_entities(f"PartitionKey eq '{worker.partition}'")}
            if found not in (worker.rows, worker.maybe):
                numbers = {row: number for row, (number, _) in found.items()}
                problems.append(f"{worker.partition} holds {numbers}, which nobody was told")
            worker.rows, worker.maybe = found, None
    return problems
