"""demo.py [JOBS]: a producer, two workers, one of which is killed in the middle of a job. Every job is done."""

import queue as lines
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

from common import connect

HERE = Path(__file__).resolve().parent
JOBS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
QUEUE = f"jobs-{uuid.uuid4().hex[:8]}"
SECONDS_MAX = 60

said = lines.Queue()


def start(program, *arguments):
    command = [sys.executable, str(HERE / program), QUEUE, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def listen():
        for line in process.stdout:
            said.put(line.strip())

    threading.Thread(target=listen, daemon=True).start()
    return process


start("producer.py", str(JOBS)).wait()
workers = {name: start("worker.py", name) for name in ("ann", "bob")}
done, killed, deadline = set(), None, time.monotonic() + SECONDS_MAX
try:
    while len(done) < JOBS:
        line = said.get(timeout=max(0.1, deadline - time.monotonic()))
        print(line)
        who, what, *job = line.split()
        if what == "did":
            done.add(int(job[0]))
        if who == "bob" and what == "begins" and len(done) >= JOBS // 4 and killed is None:
            workers["bob"].kill()  # SIGKILL: no chance to say goodbye
            killed = int(job[0])
            print(f"bob is killed while he does {killed}")
except lines.Empty:
    sys.exit(f"only {len(done)} of {JOBS} jobs were done within {SECONDS_MAX} seconds")
finally:
    for process in workers.values():
        process.terminate()
        process.wait()
    with connect(QUEUE) as queue:
        left = queue.get_queue_properties().approximate_message_count
        queue.delete_queue()

if killed is None:
    sys.exit("bob got no job to be killed in")
if left:
    sys.exit(f"every job was done, and {left} messages were left")
print(f"all {JOBS} jobs are done, the one bob had when he was killed ({killed}) too")
