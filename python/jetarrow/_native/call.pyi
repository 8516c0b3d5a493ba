"""Calls: the results of all verbs that wait."""

import asyncio
from typing import Generic, TypeVar, final

from jetarrow._native.bridge import Bridge
from jetarrow._native.connect import Connection

_T = TypeVar("_T")

def alive_tasks() -> int:
    """Return the number of native tasks of this process that have not ended, for tests of leaks."""

def last_words(connections: list[Connection], timeout: float) -> Call[None] | None:
    """Wait at the end of the process until the servers have received all data, or there is no progress.

    Args:
        connections: The open connections. Data of dropped connections is waited for too.
        timeout: Maximum seconds to wait.

    Returns:
        A call, or None if there is nothing to wait for.
    """

def force_panic(spot: str) -> None:
    """Make the next task panic at a place, for tests. Debug builds only.

    Args:
        spot: Name of the place, see `rust/runtime/src/task.rs`; an empty name cancels the request.

    Raises:
        ValueError: The place is unknown.
    """

@final
class Call(Generic[_T]):
    """Work that is started once, and then awaited or waited for."""

    def start(self, event_loop: asyncio.AbstractEventLoop, bridge: Bridge) -> asyncio.Future[_T]:
        """Start the work.

        Args:
            event_loop: The loop that the future is for.
            bridge: That loop's mailbox.

        Returns:
            A future that `bridge` resolves.

        Raises:
            RuntimeError: The call is already started.
        """

    def block(self) -> _T:
        """Run the work while this thread waits with the GIL released. Ctrl-C cancels it.

        Returns:
            The result.

        Raises:
            RuntimeError: The call is already started.
        """

    def cancel(self) -> None:
        """Cancel work that was started. The caller cancels its future."""
