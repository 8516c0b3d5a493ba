"""What callbacks are told."""

from collections.abc import Callable
from typing import final

from jetarrow._native.bridge import Bridge

@final
class Notices:
    """The events of a connection, on their way to the user's callbacks.

    Args:
        sink: Called in the event loop with the kind of event (error, disconnected, reconnected, closed,
            discovered_server, lame_duck_mode) and, for an error, the exception.
        bridge: The loop's mailbox.
        in_loop: False where a thread of its own drains the bridge: the functions given to `connect` do not run there.
    """

    def __new__(
        cls, sink: Callable[[str, Exception | None], None], bridge: Bridge, *, in_loop: bool = True
    ) -> Notices: ...
    def wake(self) -> None:
        """Wake whoever drains the bridge."""

    def deliver(self) -> None:
        """Call the sink now for what has come so far."""
