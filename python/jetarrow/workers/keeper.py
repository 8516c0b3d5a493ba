"""The thread that keeps held messages from redelivery, and wakes retries in place."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from jetarrow.core.errors import Error
from jetarrow.workers.core import Core
from jetarrow.workers.ledger import Item


class Keeper:
    """Sends in-progress acks every half `ack_wait`. A thread, so that a blocked event loop loses no message.

    Args:
        core: The worker.
        on_ready: Called in the thread when an item has become ready.
        ends_late: Whether handlers that run longer than `handler_timeout` are no longer kept: threads cannot be
            cancelled, so another worker receives their messages.
    """

    def __init__(self, core: Core, on_ready: Callable[[], object], *, ends_late: bool) -> None:
        self._core, self._on_ready = core, on_ready
        self._limit = core.plan.handler_timeout if ends_late else None
        self._is_over = False
        self._alarm = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jetarrow-keeper", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def alarm(self) -> None:
        """Makes the thread look at the retries: one was added."""
        self._alarm.set()

    def stop(self) -> None:
        """Ends the thread."""
        self._is_over = True
        self._alarm.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        core = self._core
        interval = core.ack_wait / 2
        beat = time.monotonic() + interval
        while not self._is_over:
            now = time.monotonic()
            if now >= beat:
                beat = now + interval
                self._keep(now)
            with core.lock:
                due = core.ledger.wake(now)
                is_ready = bool(core.ledger.ready)
            if is_ready:
                self._on_ready()
            self._alarm.wait(max(min(beat, due if due is not None else beat) - time.monotonic(), 0.0))
            self._alarm.clear()

    def _keep(self, now: float) -> None:
        core = self._core
        with core.lock:
            items = core.kept()
        native = core.session.native if not core.session.is_closed else None
        for item in items:
            if native is not None and not self._is_late(item, now):
                # While the connection is down nothing can be sent; the next time may be early enough.
                with suppress(Error):
                    if core.is_batch:
                        native.ack_rows(item.message._native, "in_progress", None).block()
                    else:
                        native.ack_one(None, item.message.reply, "in_progress")

    def _is_late(self, item: Item, now: float) -> bool:
        return self._limit is not None and item.started is not None and now - item.started > self._limit
