"""Many threads on one client: no lock of ours is held while Python runs."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Everything that takes a publisher's locks, in more threads than there are processors: acks that run the callers'
# callbacks, subjects that make exceptions, the wait for the last answer. Threads change between any two instructions.
PROGRAM = """
import gc, sys, threading, jetarrow.sync
from jetarrow.errors import BadSubjectError
url, stream, own = sys.argv[1:]
sys.setswitchinterval(1e-5)
gc.set_threshold(10)
with jetarrow.sync.connect(url) as nc:
    js = nc.jetstream(publish_async_max_pending=50)
    publisher = js.publisher(f"{stream}.a", max_inflight=50)
    failed = []

    def work():
        for _ in range(60):
            for _ in range(20):
                if own == "own":
                    future = publisher.publish(b"x")
                else:
                    future = js.publish_async(f"{stream}.a", b"x")
                future.add_done_callback(lambda future: [{} for _ in range(20)])
                try:
                    js.publish_async("bad subject", b"")
                except BadSubjectError:
                    pass
            if own == "own":
                publisher.flush()
            else:
                js.publish_async_completed()

    def guarded():
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    publisher.flush()
    js.publish_async_completed()
    print(failed, js.stream_info(stream).state.messages)
"""


@pytest.mark.parametrize("own", ["own", "shared"])
def test_threads_that_publish_and_wait(nats_url: str, stream: str, own: str) -> None:
    # In a process of its own: threads that lock each other out can be ended in no other way.
    command = [sys.executable, "-c", PROGRAM, nats_url, stream, own]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"[] {8 * 60 * 20}\n", "")
