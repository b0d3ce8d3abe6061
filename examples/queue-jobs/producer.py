"""producer.py QUEUE COUNT: puts so many jobs into the queue."""

import json
import sys

from azure.core.exceptions import ResourceExistsError

from common import connect

name, count = sys.argv[1], int(sys.argv[2])
with connect(name) as queue:
    try:
        queue.create_queue()
    except ResourceExistsError:
        pass
    for number in range(count):
        queue.send_message(json.dumps({"job": number}))
print(f"{count} jobs put", flush=True)
