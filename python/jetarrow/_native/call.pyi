"""Waiting: what every verb that waits gives."""

import asyncio
from typing import Generic, TypeVar, final

from jetarrow._native.bridge import Bridge
from jetarrow._native.connect import Connection

_T = TypeVar("_T")

def alive_tasks() -> int:
    """Count the native tasks of this process that have not ended; for tests of what is left behind."""

def last_words(connections: list[Connection], timeout: float) -> Call[None] | None:
    """Wait, at the end of the process, until the servers have all that was sent, or nothing moves any more.

    Args:
        connections: Those that are still there; what those had to send that are gone is waited for too.
        timeout: Most seconds to wait.

    Returns:
        A call, or None where there is nothing to wait for.
    """

def force_panic(spot: str) -> None:
    """Have the next task that comes to a spot panic there: for tests, in debug builds only.

    Args:
        spot: Name of the spot, as in `rust/src/task.rs`; empty takes the last one back.

    Raises:
        ValueError: There is no such spot.
    """

@final
class Call(Generic[_T]):
    """One piece of work: started once, then awaited or waited for."""

    def start(self, event_loop: asyncio.AbstractEventLoop, bridge: Bridge) -> asyncio.Future[_T]:
        """Start the work.

        Args:
            event_loop: The loop that the future is for.
            bridge: That loop's mailbox.

        Returns:
            A future that `bridge` resolves.

        Raises:
            RuntimeError: It was started before.
        """

    def block(self) -> _T:
        """Do the work while this thread waits, the GIL released. Ctrl-C ends it.

        Returns:
            The result.

        Raises:
            RuntimeError: It was started before.
        """

    def cancel(self) -> None:
        """End work that was started; its future is the caller's to cancel."""
