"""The end of the process: what was published before it is sent, also where the connection was never closed."""

from __future__ import annotations

import atexit
import time
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

from jetarrow import _jetarrow
from jetarrow.core.errors import Error


class Publisher(Protocol):
    """A publisher of messages to streams."""

    native: _jetarrow.Publisher


# Seconds that the end may take while messages and their answers move.
SEND_TIMEOUT = 1.5
# Seconds without any answer after which a publisher's server is given up: Ctrl-C ends a program within one second.
STALL = 0.3

_connections: WeakSet[_jetarrow.Connection] = WeakSet()
_publishers: WeakSet[Publisher] = WeakSet()


def register_connection(connection: _jetarrow.Connection) -> None:
    """Has this connection's messages sent at the end of the process."""
    _connections.add(connection)


def register_publisher(publisher: Publisher) -> None:
    """Waits at the end of the process until the server has this publisher's messages."""
    _publishers.add(publisher)


def _pending() -> int:
    total = 0
    for publisher in list(_publishers):
        with suppress(Error):
            total += publisher.native.pending
    return total


@atexit.register
def _flush_at_exit() -> None:
    # What a forked child has inherited raises ForkError, and is its parent's to send.
    begin = moved = time.monotonic()
    for publisher in list(_publishers):
        with suppress(Error):
            publisher.native.hand_over()
    before = -1
    while (pending := _pending()) and (now := time.monotonic()) - begin < SEND_TIMEOUT:
        if pending != before:
            before, moved = pending, now
        elif now - moved >= STALL:
            break
        time.sleep(0.002)
    up = []
    for connection in list(_connections):
        with suppress(Error):
            if connection.is_connected:
                up.append(connection)
    rest = _jetarrow.last_words(up, max(SEND_TIMEOUT - (time.monotonic() - begin), STALL))
    if rest is not None:
        rest.block()
