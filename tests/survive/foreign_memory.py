"""Programs for `test_foreign_memory.py`, each of which is to end with code 0.

`python -m tests.survive.foreign_memory break TIMES | exit URL | callback URL`, or a name of `CALLS` and URL
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import jetarrow
import jetarrow.sync
import pyarrow as pa
from jetarrow.server import NatsServer

ROWS = 64
# Bytes of a payload: one is large enough to be written without a copy, the other is not.
LARGE, SMALL = 32 << 10, 100


class Memory(bytearray):
    """Counts how many of its kind exist."""

    alive = 0

    def __init__(self, size: int) -> None:
        super().__init__(size)
        Memory.alive += 1

    def __del__(self) -> None:
        Memory.alive -= 1


def column(size: int) -> pa.Array:
    offsets = pa.py_buffer(struct.pack(f"<{ROWS + 1}q", *range(0, (ROWS + 1) * size, size)))
    return pa.Array.from_buffers(pa.large_binary(), ROWS, [None, offsets, pa.py_buffer(Memory(ROWS * size))])


async def ignore(*_event: object) -> None:
    pass


async def cancelled_while_the_link_breaks(times: int) -> None:
    for _ in range(times):
        with NatsServer() as server:
            nc = await jetarrow.connect(
                server.url, max_reconnect_attempts=-1, error_cb=ignore, disconnected_cb=ignore, reconnect_time_wait=0.01
            )
            js = nc.jetstream()
            await js.add_stream(name="S", subjects=["s.>"])
            # Nothing is read any more, so payloads wait in our buffer when they are cancelled, and the link breaks.
            os.kill(server.pid, signal.SIGSTOP)
            batches = [
                asyncio.ensure_future(js.publish_batch("s.a", column(LARGE), max_inflight=ROWS)) for _ in range(8)
            ]
            while nc.metrics()["in_flight"] < 2 * len(batches):
                await asyncio.sleep(0.001)
            # A loop's variable would keep the last one.
            assert {batch.cancel() for batch in batches} == {True}
            await asyncio.gather(*batches, return_exceptions=True)
            batches.clear()
            assert Memory.alive, "nothing waits: this proves nothing"
            os.kill(server.pid, signal.SIGKILL)
            # This thread holds the GIL and takes the buffer's lock all the time.
            while nc.is_connected:
                await nc.publish("x", b"y")
            await nc.close()
    while Memory.alive:
        await asyncio.sleep(0.001)


def pending_at_exit(url: str) -> None:
    nc = jetarrow.sync.connect(url)
    js = nc.jetstream()
    begun = threading.Event()

    def blocks(size: int) -> Iterator[pa.RecordBatch]:
        while True:
            yield pa.record_batch({"data": column(size)})
            begun.set()

    def publish(size: int) -> None:
        schema = pa.schema({"data": pa.large_binary()})
        # It ends with the connection, at the end of the process.
        with suppress(jetarrow.errors.Error):
            js.publish_batch("s.a", pa.RecordBatchReader.from_batches(schema, blocks(size)))

    for size in (SMALL, SMALL, LARGE):
        threading.Thread(target=publish, args=[size], daemon=True).start()
    begun.wait()


def callback_at_exit(url: str) -> None:
    js = jetarrow.sync.connect(url).jetstream()
    too_late = True

    def run_on(_future: object) -> None:
        nonlocal too_late
        # The future was resolved before it got its callback, which then runs in this thread.
        too_late = threading.current_thread() is threading.main_thread()
        while not too_late:
            sum(range(100))

    while too_late:
        too_late = False
        js.publish_async("s.a", b"x").add_done_callback(run_on)


class Code:
    """Python code that native code calls, in a thread that a program does not wait for: runs until after its end."""

    # Seconds: less than the end of the process waits for such code.
    RUNS = 0.05

    def __init__(self) -> None:
        self.begun = threading.Event()
        self._ending: float | None = None
        # Called before the hooks of the modules that are imported already.
        atexit.register(self._ends)

    def _ends(self) -> None:
        self._ending = time.monotonic()

    def __call__(self) -> None:
        self.begun.set()
        while self._ending is None or time.monotonic() < self._ending + self.RUNS:
            pass


class Producer:
    def __init__(self, code: Code) -> None:
        self._code, self._table = code, pa.table({"data": [b"x"]})

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        self._code()
        return self._table.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        self._code()
        return self._table.schema.__arrow_c_schema__()


class Rows:
    """A sequence of rows, a mapping of headers, and a mask."""

    def __init__(self, code: Code, rows: list[Any]) -> None:
        self._code, self._rows = code, rows

    def __iter__(self) -> Iterator[Any]:
        self._code()
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def items(self) -> Iterator[Any]:
        return iter(self)

    def tolist(self) -> list[Any]:
        return list(self)


class Loop(asyncio.SelectorEventLoop):
    code: Code | None = None

    def create_future(self) -> asyncio.Future[Any]:
        if self.code is not None:
            self.code()
        return super().create_future()


def publish_in_loop(url: str, code: Code) -> None:
    loop = Loop()

    async def publish() -> None:
        async with await jetarrow.connect(url) as nc:
            loop.code = code
            await nc.jetstream().publish("s.a", b"x")

    loop.run_until_complete(publish())


def ack_by_mask(js: jetarrow.sync.JetStream, code: Code) -> None:
    js.publish("s.a", b"x")
    js.pull_subscribe("s.a", durable="d").fetch_batch(1).ack(Rows(code, [True]))


def raise_error(js: jetarrow.sync.JetStream, code: Code) -> None:
    class Error(jetarrow.errors.BadSubjectError):
        def __init__(self, *_arguments: object) -> None:
            code()

    # The module that native code takes its classes from.
    jetarrow.core.errors.BadSubjectError = Error  # type: ignore[misc]
    with suppress(jetarrow.errors.BadSubjectError):
        js.publish("s. a", b"x")


CALLS: dict[str, Callable[[str, jetarrow.sync.JetStream, Code], object]] = {
    "producer": lambda _url, js, code: js.publish_batch("s.a", Producer(code)),
    "rows": lambda _url, js, code: js.publish_batch("s.a", Rows(code, [b"x"])),
    "subjects": lambda _url, js, code: js.publish_batch(Rows(code, ["s.a"]), [b"x"]),
    "headers": lambda _url, js, code: js.publish("s.a", b"x", headers=Rows(code, [("A", "b")])),
    "mask": lambda _url, js, code: ack_by_mask(js, code),
    "error": lambda _url, js, code: raise_error(js, code),
    "future": lambda url, _js, code: publish_in_loop(url, code),
    "schema": lambda _url, js, code: js.read(js.publish("s.a", b"{}").stream, schema=Producer(code)).read_all(),
    "table": lambda _url, js, code: js.publish_table(Producer(code), subject="s.a"),
}


def code_at_exit(name: str, url: str) -> None:
    js = jetarrow.sync.connect(url).jetstream()
    code = Code()
    threading.Thread(target=CALLS[name], args=[url, js, code], daemon=True).start()
    code.begun.wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    mode, argument = sys.argv[1:]
    if mode == "break":
        asyncio.run(cancelled_while_the_link_breaks(int(argument)))
    elif mode == "exit":
        pending_at_exit(argument)
    elif mode == "callback":
        callback_at_exit(argument)
    else:
        code_at_exit(mode, argument)
