"""Delivery of native results to an event loop."""

from collections.abc import Callable, Sized
from typing import Any, final

from jetarrow._native.call import Call

@final
class Bridge:
    """The mailbox of an event loop. Many native results wake the loop once."""

    def __new__(cls, wake: Callable[[], object] | None = None) -> Bridge:
        """Create a mailbox.

        Args:
            wake: Called from any thread when `drain` has work. Default: `fileno` becomes readable, which is cheaper.
                Windows' selectors cannot watch it.

        Raises:
            OSError: There is no `wake`, and this system cannot watch a descriptor.
        """

    def fileno(self) -> int:
        """Return the file descriptor that becomes readable when `drain` has work.

        Raises:
            ValueError: The mailbox calls a function instead.
        """

    def ring(self) -> None:
        """Wake the loop, even if `drain` has no work. Can be called from any thread."""

    def drain(self) -> None:
        """Resolve the futures of all waiting results. Runs in the loop's thread."""

    def watch_loop(self, selector: int, ready: Sized, scheduled: Sized, clock: Callable[[], float]) -> None:
        """Let `linger` detect the work of an asyncio event loop.

        Args:
            selector: Descriptor of the loop's selector.
            ready: The loop's queue of ready handles.
            scheduled: The loop's heap of timers.
            clock: The loop's clock, in seconds.
        """

    def linger(self, call: Call[Any] | None = None) -> None:
        """Wait for the next result, if the loop has no other work. Runs in the loop's thread.

        It is called before a short round trip is awaited. This thread then drives the connection, so the result does
        not change threads. Waits at most 2 ms, or 50 ms if `call` receives many messages.
        """
