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


# Seconds that all connections together may take.
SEND_TIMEOUT = 1.5

_connections: WeakSet[_jetarrow.Connection] = WeakSet()
_publishers: WeakSet[Publisher] = WeakSet()


def watch(connection: _jetarrow.Connection) -> None:
    """Has this connection's messages sent at the end of the process."""
    _connections.add(connection)


def watch_publisher(publisher: Publisher) -> None:
    """Waits at the end of the process until the server has this publisher's messages."""
    _publishers.add(publisher)


@atexit.register
def _send_the_rest() -> None:
    # What a forked child has inherited raises ForkError, and is its parent's to send.
    deadline = time.monotonic() + SEND_TIMEOUT
    for publisher in list(_publishers):
        with suppress(Error):
            publisher.native.hand_over()
            while publisher.native.pending and time.monotonic() < deadline:
                time.sleep(0.002)
    for connection in list(_connections):
        left = deadline - time.monotonic()
        with suppress(Error):
            if left > 0 and connection.is_connected:
                connection.flush(left).block()
    rest = _jetarrow.lingering(max(deadline - time.monotonic(), 0.1))
    if rest is not None:
        rest.block()
