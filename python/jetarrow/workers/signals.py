"""Signals that stop a worker."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def handled(stop: Callable[[], object], *, wanted: bool) -> Iterator[None]:
    """Calls `stop` at SIGTERM and SIGINT within the block, then restores the former handlers.

    Signals that the process ignores stay ignored. Outside the main thread, where Python permits no handlers, nothing
    is changed.

    Args:
        stop: Called in the main thread, between two instructions of any code: it must take no lock.
        wanted: False changes nothing.
    """
    former: dict[signal.Signals, Any] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        stop()

    if wanted and threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            before = signal.getsignal(number)
            # None: a handler that is not Python's, which could not be restored.
            if before not in (signal.SIG_IGN, None):
                former[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, before in former.items():
            signal.signal(number, before)
