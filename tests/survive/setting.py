"""Setup of each blocking call: a client, a stream, a server that can be frozen; and the list of calls."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jetarrow.sync
import pyarrow as pa

# Timeout in seconds that no call reaches during a test.
LONG = 60.0


class Setting:
    """A client, a stream with ten messages, a pull subscription to them, and how to freeze the server."""

    def __init__(self, name: str, url: str, pid: int) -> None:
        self.url, self.pid, self.stream, self.subject = url, pid, name, f"{name}.a"
        self.nc = jetarrow.sync.connect(url)
        self.js = self.nc.jetstream()
        self.js.add_stream(name=name, subjects=[f"{name}.>"], allow_batched=True, allow_atomic=True)
        self.js.publish_batch(self.subject, ["x"] * 10).raise_for_errors()
        self.sub = self.js.pull_subscribe(f"{name}.>", durable="d")

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        # A thread that is not stopped yet may still answer.
        while any(task.read_text().split()[2] != "T" for task in Path(f"/proc/{self.pid}/task").glob("*/stat")):
            time.sleep(0.001)
        print("go", flush=True)

    def rows_that_freeze(self) -> pa.RecordBatchReader:
        """Two blocks of rows; the server is frozen before the second is read."""

        def blocks() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"data": ["x"] * 10})
            self.freeze()
            yield pa.record_batch({"data": ["x"] * 10})

        return pa.RecordBatchReader.from_batches(pa.schema({"data": pa.string()}), blocks())


CALLS: dict[str, Callable[[Setting], object]] = {}
# The methods of `jetarrow.sync` that are called while the server is frozen.
COVERED: set[str] = set()


def call(covered: str) -> Callable[[Callable[[Setting], None]], None]:
    def add(function: Callable[[Setting], None]) -> None:
        CALLS[function.__name__] = function
        COVERED.add(covered)

    return add
