"""What has come, handed to an event loop."""

from collections.abc import Callable, Sized
from typing import final

@final
class Bridge:
    """One event loop's mailbox: native results wake the loop once for many."""

    def __new__(cls, wake: Callable[[], object] | None = None) -> Bridge:
        """Make a mailbox.

        Args:
            wake: Called from any thread when `drain` has something to do. Default: `fileno` becomes readable, which is
                cheaper, but Windows' selectors cannot watch it.

        Raises:
            OSError: There is no `wake`, and no descriptor can be watched here.
        """

    def fileno(self) -> int:
        """Return the file descriptor that becomes readable when `drain` has something to do.

        Raises:
            ValueError: A function is called instead.
        """

    def ring(self) -> None:
        """Wake whoever drains, though there may be nothing to do. From any thread."""

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
