"""A member of a consumer group as a program, which reports its work in lines of JSON: `python -m tests.groups.program`.

Lines: `["start", time, partition, [payloads]]` before a batch is worked on, `["end", time, error]` after its
acknowledgement or its refusal.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import jetarrow.sync
from jetarrow.errors import TimeoutError
from jetarrow.js.errors import GroupPinLostError


def report(*line: Any) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")


def is_first(path: str) -> bool:
    """Whether this is the first of several processes that asks with this path."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def main(url: str, given: dict[str, Any]) -> None:
    """Runs a member until it is killed, or stdin ends."""
    with jetarrow.sync.connect(url) as nc:
        js = nc.jetstream()
        options = {name: given[name] for name in ("member", "ack_wait", "max_ack_pending")}
        with js.consumer_group("ORDERS", "G", **options) as member:
            threading.Thread(target=lambda: (sys.stdin.read(), member.close()), daemon=True).start()
            report("joined")
            for batch in member.batches(rows=given["rows"], seconds=0.05):
                texts = [message.data.decode() for message in batch]
                report("start", time.time(), batch.partition, texts)
                if given["hangs"] and is_first(given["hangs"]):
                    os.kill(os.getpid(), signal.SIGSTOP)
                time.sleep(given["work"] * len(batch))
                error, ended = "", time.time()
                try:
                    # The server has the acknowledgement later than this, and maybe long before the answer is here.
                    batch.ack_sync()
                except GroupPinLostError as refused:
                    error, ended = type(refused).__name__, time.time()
                except TimeoutError as silence:
                    # The consumer was deleted before it answered: the outcome is unknown, and the work ended before.
                    error = type(silence).__name__
                report("end", ended, error)


class Program:
    """A running program, and the batches that it has reported.

    `hangs` is the path of a file: the first of the programs with it stops itself in the work on its first batch.
    """

    def __init__(self, url: str, member: str, **options: Any) -> None:
        given = {
            "member": member,
            "ack_wait": 1.0,
            "max_ack_pending": 200,
            "rows": 50,
            "work": 0.0,
            "hangs": "",
            **options,
        }
        command = [sys.executable, "-m", "tests.groups.program", url, json.dumps(given)]
        self.member = member
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.joined = threading.Event()
        # Each batch: start, end (0 if it was never acknowledged), payloads, error.
        self.batches: list[dict[str, Any]] = []
        # Times of SIGSTOP and SIGCONT.
        self.stops: list[tuple[float, float]] = []
        self.was_killed = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            kind, *line = json.loads(text)
            if kind == "joined":
                self.joined.set()
            elif kind == "start":
                self.batches.append({"start": line[0], "end": 0.0, "texts": line[2], "error": ""})
            else:
                self.batches[-1].update(end=line[0], error=line[1])

    def kill(self) -> None:
        """SIGKILL; its lines are complete afterwards."""
        self.was_killed = True
        self.process.kill()
        self._finish()

    def close(self) -> None:
        """Lets it leave the group."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._finish()

    def _finish(self) -> None:
        self.process.wait(30)
        self._reader.join(30)

    def wait_until_stopped(self) -> None:
        """Waits until it has stopped itself."""
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stops it until the end of the block."""
        begun = time.time()
        self.process.send_signal(signal.SIGSTOP)
        yield
        self.process.send_signal(signal.SIGCONT)
        self.stops.append((begun, time.time()))

    def stop(self, seconds: float) -> None:
        """Stops it for a time."""
        with self.stopped():
            time.sleep(seconds)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
