"""worker.py QUEUE NAME: does jobs until it is told to stop with SIGTERM. Says on its output what it does."""

import json
import signal
import sys
import time

from azure.core.exceptions import ResourceNotFoundError

from common import connect

JOB_SECONDS = 0.3
HIDDEN_SECONDS = 2  # longer than a step of the work, shorter than anybody wants to wait for a dead worker's job

going = True


def stop(*_):
    global going
    going = False


def do(queue, message, me):
    job = json.loads(message.content)["job"]
    print(f"{me} begins {job}", flush=True)
    try:
        for _ in range(3):
            time.sleep(JOB_SECONDS / 3)  # the work
            message = queue.update_message(message, visibility_timeout=HIDDEN_SECONDS)  # and still at it
        queue.delete_message(message)
        print(f"{me} did {job}", flush=True)
    except ResourceNotFoundError:
        print(f"{me} was too slow for {job}", flush=True)  # somebody else has it


signal.signal(signal.SIGTERM, stop)
name, me = sys.argv[1:3]
with connect(name) as queue:
    while going:
        message = queue.receive_message(visibility_timeout=HIDDEN_SECONDS)
        if message:
            do(queue, message, me)
        else:
            time.sleep(0.1)
