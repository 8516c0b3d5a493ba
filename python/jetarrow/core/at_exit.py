"""Sends queued messages at the end of the process, also if the program has not closed its connections."""

from __future__ import annotations

import atexit
import time
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

from jetarrow import _jetarrow
from jetarrow.core.errors import Error
from jetarrow.core.weak_sets import members


class Publisher(Protocol):
    """A publisher of messages to streams."""

    native: _jetarrow.Publisher


# Seconds that the end of the process waits while acks still arrive.
SEND_TIMEOUT = 1.5
# Seconds without an ack after which the wait ends: Ctrl-C has to end a program within one second.
STALL = 0.3

_connections: WeakSet[_jetarrow.Connection] = WeakSet()
_publishers: WeakSet[Publisher] = WeakSet()


def register_connection(connection: _jetarrow.Connection) -> None:
    """Registers a connection whose queued messages are sent at the end of the process."""
    _connections.add(connection)


def register_publisher(publisher: Publisher) -> None:
    """Registers a publisher whose acks are awaited at the end of the process."""
    _publishers.add(publisher)


def _pending() -> int:
    total = 0
    for publisher in members(_publishers):
        with suppress(Error):
            total += publisher.native.pending
    return total


@atexit.register
def _flush_at_exit() -> None:
    # Objects that a forked child has inherited raise ForkError: the parent process sends their messages.
    begin = last_ack = time.monotonic()
    for publisher in members(_publishers):
        with suppress(Error):
            publisher.native.hand_over()
    before = -1
    while (pending := _pending()) and (now := time.monotonic()) - begin < SEND_TIMEOUT:
        if pending != before:
            before, last_ack = pending, now
        elif now - last_ack >= STALL:
            break
        time.sleep(0.002)
    connected = []
    for connection in members(_connections):
        with suppress(Error):
            if connection.is_connected:
                connected.append(connection)
    call = _jetarrow.last_words(connected, max(SEND_TIMEOUT - (time.monotonic() - begin), STALL))
    if call is not None:
        call.block()
