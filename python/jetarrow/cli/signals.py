"""Signals that stop the command: SIGINT, SIGTERM and SIGHUP unwind the stack, so that files and consumers are closed.

All three raise KeyboardInterrupt, so code that handles Ctrl-C also handles the other two.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

# SIGHUP is sent when the terminal is closed. Windows does not have it.
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
# Exit code of a process killed by a signal, minus the number of the signal (POSIX shells).
_SIGNAL_CODE = 128
# Exit code that typer returns for every KeyboardInterrupt.
INTERRUPTED = _SIGNAL_CODE + signal.SIGINT


class _Handler:
    """Handler of the three signals.

    Attributes:
        stopped: The latest signal; None before the first one.
    """

    def __init__(self) -> None:
        self.stopped: int | None = None
        self._deferred = 0
        self._is_pending = False

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        # systemd and terminals send SIGTERM and SIGHUP together: the second signal must not interrupt the cleanup that
        # the first one started. A second Ctrl-C interrupts it.
        is_first = self.stopped is None
        if not is_first and signum != signal.SIGINT:
            return
        self.stopped = signum
        if self._deferred and is_first:
            self._is_pending = True
            return
        raise KeyboardInterrupt

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        self._deferred += 1
        try:
            yield
        finally:
            self._deferred -= 1
        if self._is_pending and not self._deferred:
            self._is_pending = False
            raise KeyboardInterrupt


_handler = _Handler()


def exit_code() -> int:
    """Return the exit code after a KeyboardInterrupt: 130, 143 or 129."""
    return _SIGNAL_CODE + (_handler.stopped or signal.SIGINT)


def deferred() -> contextlib.AbstractContextManager[None]:
    """Defer a first signal to the end of the block, for writes that must not be interrupted."""
    return _handler.deferred()


@contextlib.contextmanager
def handled() -> Iterator[None]:
    """Handle the signals within the block, except those that the parent process ignores, as `nohup` does."""
    global _handler
    _handler = handler = _Handler()
    former = {}
    # Python allows signal handlers in the main thread only.
    for number in _SIGNALS if threading.current_thread() is threading.main_thread() else ():
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            former[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, before in former.items():
            signal.signal(number, before)
