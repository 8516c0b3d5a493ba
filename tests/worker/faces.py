"""A worker of each face for the tests of this folder. This file contains no tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jetarrow
import jetarrow.sync

# Coroutine handlers, functions called in threads by an async worker, and the blocking worker.
FACES = ("async", "threads", "sync")


class Running:
    """A running worker; its verbs are the same for all faces."""

    def __init__(self) -> None:
        self.worker: Any = None
        self.error: BaseException | None = None
        self.thread: threading.Thread

    def end(self) -> None:
        """Stops the worker, and waits for its end."""
        self.worker.stop()
        self.thread.join(60)
        assert not self.thread.is_alive()


def _coroutine(function: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    if function is None:
        return None

    async def handle(received: Any) -> None:
        await asyncio.sleep(0)
        await asyncio.to_thread(function, received)

    return handle


@contextmanager
def running(face: str, url: str, stream: str, **options: Any) -> Iterator[Running]:
    """Runs a worker in a thread until the end of the block. `handler` and `batch_handler` are plain functions."""
    run, ready = Running(), threading.Event()
    options = {"durable": "w", "signals": False, **options}
    if face == "async":
        options = {**options, **{name: _coroutine(options.get(name)) for name in ("handler", "batch_handler")}}

    async def on_loop() -> None:
        async with await jetarrow.connect(url, max_reconnect_attempts=0, reconnect_time_wait=0.05) as nc:
            run.worker = jetarrow.worker(nc.jetstream(), stream, **options)
            async with run.worker:
                ready.set()
                await run.worker.run()

    def in_threads() -> None:
        with jetarrow.sync.connect(url, max_reconnect_attempts=0, reconnect_time_wait=0.05) as nc:
            run.worker = jetarrow.sync.worker(nc.jetstream(), stream, **options)
            with run.worker:
                ready.set()
                run.worker._inner.wait()

    def work() -> None:
        try:
            if face == "sync":
                in_threads()
            else:
                asyncio.run(on_loop())
        except BaseException as error:
            run.error = error
        finally:
            ready.set()

    run.thread = threading.Thread(target=work, daemon=True)
    run.thread.start()
    assert ready.wait(30)
    try:
        yield run
    finally:
        if run.worker is not None:
            run.worker.stop()
        run.thread.join(60)
        assert not run.thread.is_alive()
