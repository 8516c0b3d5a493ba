"""For how long a task waits in the middle of a read: option `reconnectTimeout`.

The native reader waits for a minute by itself. Who wants more has a new one go on; who wants less has it closed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from threading import Event, Thread

import jetarrow.sync
from jetarrow.core.errors import Error, TimeoutError
from jetarrow.spark._core import Batch, Loss, RangeReader, is_transient

# What the native reader waits for servers, in seconds.
READER_TIMEOUT = 60.0


def items(
    opened: Callable[[int, float], RangeReader],
    client: Callable[[], jetarrow.sync.Client],
    *,
    start: int,
    timeout: float,
) -> Generator[Batch | Loss, None, None]:
    """Yield what the readers of a range hand out, until its end.

    Args:
        opened: Opens a reader at a sequence, and waits for the servers for so many seconds.
        client: The connection that they use.
        start: The first sequence.
        timeout: Seconds for which the servers may be away.

    Raises:
        Exception: As the readers, and where the servers are away for longer.
    """
    left, until = timeout, None
    while True:
        reader = opened(start, left)
        watch = Watch(client(), reader, timeout) if timeout < READER_TIMEOUT else None
        try:
            while (item := reader.next()) is not None:
                start, until = _after(item), None
                yield item
        except Exception as error:
            if not is_transient(error) or timeout <= READER_TIMEOUT:
                raise
            if until is None:
                until = time.monotonic() + timeout - READER_TIMEOUT
            left = until - time.monotonic()
            if left <= 0:
                raise
        else:
            if watch is not None:
                watch.check()
            return
        finally:
            if watch is not None:
                watch.stop()
            reader.close()


def _after(item: Batch | Loss) -> int:
    return item.available if isinstance(item, Loss) else (item.seqs[-1] or 0) + 1


class Watch:
    """Closes a reader once the server has not answered for some time.

    Args:
        client: The reader's connection.
        reader: What is closed.
        timeout: Seconds.
    """

    def __init__(self, client: jetarrow.sync.Client, reader: RangeReader, timeout: float) -> None:
        self._client, self._reader, self._timeout = client, reader, timeout
        self._done, self._late = Event(), False
        self._thread = Thread(target=self._run, name="jetarrow-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        answered = time.monotonic()
        while not self._done.wait(self._timeout / 4):
            try:
                self._client.flush(timeout=self._timeout / 4)
                answered = time.monotonic()
            except Error:
                if time.monotonic() - answered >= self._timeout and not self._done.is_set():
                    self._late = True
                    self._reader.close()
                    return

    def check(self) -> None:
        """Say why the reader has ended.

        Raises:
            TimeoutError: The server has not answered.
        """
        if self._late:
            raise TimeoutError(
                f"jetstream: no server has answered for {self._timeout:g} s in the middle of a read; with a larger"
                " reconnectTimeout it waits for longer"
            )

    def stop(self) -> None:
        """End the watch."""
        self._done.set()
        self._thread.join()
