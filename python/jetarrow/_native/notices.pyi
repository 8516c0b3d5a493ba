"""Delivery of connection events to callbacks."""

from collections.abc import Callable
from typing import final

from jetarrow._native.bridge import Bridge

@final
class Notices:
    """The queue of a connection's events for the user's callbacks.

    Args:
        sink: Called in the event loop with the kind of event (error, disconnected, reconnected, closed,
            discovered_server, lame_duck_mode) and, for an error, the exception.
        bridge: The loop's mailbox.
        in_loop: False if a thread drains the bridge. The callbacks of `connect` do not run in that thread.
    """

    def __new__(
        cls, sink: Callable[[str, Exception | None], None], bridge: Bridge, *, in_loop: bool = True
    ) -> Notices: ...
    def wake(self) -> None:
        """Wake the thread that drains the bridge."""

    def deliver(self) -> None:
        """Call the sink for the events that have arrived so far."""
