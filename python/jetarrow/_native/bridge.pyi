"""What has come, handed to an event loop."""

from collections.abc import Callable, Sized
from typing import final

@final
class Bridge:
    """One event loop's mailbox: native results wake the loop once for many."""

    def __new__(cls) -> Bridge: ...
    def fileno(self) -> int:
        """Return the file descriptor that becomes readable when `drain` has something to do."""

    def wake_with(self, wake: Callable[[], object]) -> None:
        """Wake a loop without `add_reader` in another way.

        Args:
            wake: Called from any thread when `drain` has something to do.
        """

    def drain(self) -> None:
        """Resolve every future that is due. Runs in the loop's thread."""

    def watch_loop(self, selector: int, ready: Sized, scheduled: Sized, clock: Callable[[], float]) -> None:
        """Show `linger` what an event loop of asyncio's has to do.

        Args:
            selector: Descriptor of its selector.
            ready: Its queue of handles that are due.
            scheduled: Its heap of timers.
            clock: Its clock, in seconds.
        """

    def linger(self) -> None:
        """Wait here for the next result, at most 2 ms, where the loop has nothing else to do. Runs in its thread.

        Whoever awaits a short round trip calls it: this thread then drives the connection, and no result changes
        threads.
        """
