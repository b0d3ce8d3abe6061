"""kill -9 in a loop, for threads of clients that remember what they were told.

Each loop starts the server on one data directory that is kept, lets the workers run (`worker.run(server)` returns when the server
has gone, `worker.done` counts what was acknowledged), kills it at a random moment, starts it again and has the judge look at
what is there. A failure prints the seed and keeps the data directory.
"""

import argparse
import random
import shutil
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

from azure.core.exceptions import ResourceExistsError

from server import Server, StartFailed, data_root


class Broken(Exception):
    pass


def one_loop(number, workers, chance, data, longest, create, judge):
    server = Server(data=data).start()
    try:
        create(server)
    except ResourceExistsError:
        pass
    before = sum(worker.done for worker in workers)
    with ThreadPoolExecutor(len(workers)) as pool:
        running = [pool.submit(worker.run, server) for worker in workers]
        stop = threading.Event()
        for one in running:
            one.add_done_callback(lambda _: stop.set())
        early = stop.wait(chance.uniform(0.2, longest))
        server.kill()
        for one in running:
            one.result()
    if early:
        raise Broken("a client stopped while the server was up:\n" + "".join(server.output[-20:]))
    again = Server(data=data).start()
    problems = judge(workers, again)
    again.kill() if chance.random() < 0.5 else again.stop()
    done = sum(worker.done for worker in workers) - before
    print(f"loop {number:3}: {done:5} operations acknowledged" + (f", {len(problems)} WRONG" if problems else ""), flush=True)
    if problems:
        raise Broken("\n".join(problems[:20]))
    return done


def main(name, Worker, create, judge):
    parser = argparse.ArgumentParser()
    parser.add_argument("--loops", type=int, default=10)
    parser.add_argument("--threads", type=int, default=6)
    parser.add_argument("--longest", type=float, default=2.0, help="seconds until the kill, at most")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    chance, data = random.Random(seed), tempfile.mkdtemp(prefix=f"kill9-{name}-", dir=data_root())
    workers = [Worker(n, seed) for n in range(options.threads)]
    acknowledged = 0
    try:
        for number in range(1, options.loops + 1):
            acknowledged += one_loop(number, workers, chance, data, options.longest, create, judge)
    except (Broken, StartFailed) as wrong:
        print(f"{wrong}\nseed {seed}; the data directory is kept: {data}", file=sys.stderr)
        return 1
    shutil.rmtree(data, ignore_errors=True)
    print(f"{options.loops} kills, {acknowledged} operations acknowledged, none lost")
    return 0
