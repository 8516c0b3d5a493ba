"""Signals that stop the command: SIGINT, SIGTERM and SIGHUP unwind the stack, so that files and consumers are closed.

All three raise KeyboardInterrupt, so code that handles Ctrl-C also handles the other two.
"""

from __future__ import annotations

import _thread
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from types import CodeType, FrameType
from typing import Any

# SIGHUP is sent when the terminal is closed. Windows does not have it.
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
# Exit code of a process killed by a signal, minus the number of the signal (POSIX shells).
_SIGNAL_CODE = 128
# Seconds after which a KeyboardInterrupt that was lost in a destructor is raised again.
_REPEAT = 0.01
# Maximum delay in seconds of a signal by a write to stdout, which may be a pipe that nothing reads.
STDOUT_DELAY = 1.0
# Exit code that typer returns for every KeyboardInterrupt.
INTERRUPTED = _SIGNAL_CODE + signal.SIGINT
TERMINATED = _SIGNAL_CODE + signal.SIGTERM


class _Handler:
    """Handler of the three signals.

    Attributes:
        stopped: The latest signal; None before the first one.
        stop: Called in a thread at the first signal, which then interrupts nothing; None interrupts.
    """

    def __init__(self) -> None:
        self.stopped: int | None = None
        self.stop: Callable[[], object] | None = None
        self._deferred = 0
        self._is_pending = self._is_late = False
        # Code of the hook that repeats a signal: a KeyboardInterrupt in it is lost too.
        self.hook: CodeType | None = None
        # Whether the repeated signal was handled, one entry for each attempt; None if none is repeated.
        self._outcomes: SimpleQueue[bool] | None = None
        # Maximum delay in seconds of the current deferral; None for none.
        self._most: float | None = None

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        if self._outcomes is not None:
            is_lost = _is_within(frame, self.hook)
            self._outcomes.put(not is_lost)
            if is_lost:
                return
            self._outcomes = None
        # systemd and terminals send SIGTERM and SIGHUP together: the second signal must not interrupt the cleanup that
        # the first one started. A second Ctrl-C interrupts it.
        is_first = self.stopped is None
        if not is_first and signum != signal.SIGINT:
            return
        if self._is_late:
            # Unless the block has ended meanwhile.
            is_deferred, self._is_late, self._is_pending = self._is_pending, False, False
            if is_deferred:
                raise KeyboardInterrupt
            return
        self.stopped = signum
        if self._deferred and is_first:
            self._is_pending = True
            if self._most is not None:
                _after(self._most, self._interrupt)
            return
        if self.stop is not None and is_first:
            # Daemon, so that a second Ctrl-C ends the process while this one still waits.
            threading.Thread(target=self.stop, name="stop", daemon=True).start()
            return
        raise KeyboardInterrupt

    def _interrupt(self) -> None:
        """Interrupt a block that still defers a signal, such as a write to a pipe that nothing reads."""
        # Windows cannot interrupt a thread that blocks.
        if sys.platform != "win32" and self._is_pending:
            self._is_late = True
            _send(signal.SIGINT)

    def repeat(self) -> None:
        """Send the latest signal again soon: it interrupted a destructor, which cannot raise KeyboardInterrupt."""
        number = self.stopped or signal.SIGINT
        if self.stop is None:
            # It is handled as the first one, so that a write or a stop that began meanwhile is respected.
            self.stopped = None
        outcomes: SimpleQueue[bool] = SimpleQueue()
        self._outcomes = outcomes

        def send() -> None:
            is_handled = False
            while not is_handled:
                time.sleep(_REPEAT)
                if self._outcomes is not outcomes:
                    return
                _send(number)
                is_handled = outcomes.get()

        threading.Thread(target=send, name="signal", daemon=True).start()

    def end(self) -> None:
        """Send nothing any more: the process may go on without these handlers."""
        outcomes, self._outcomes = self._outcomes, None
        if outcomes is not None:
            outcomes.put(True)

    @contextlib.contextmanager
    def deferred(self, most: float | None = None) -> Iterator[None]:
        self._deferred += 1
        self._most, former = most, self._most
        try:
            yield
        finally:
            self._deferred -= 1
            self._most = former
        if self._is_pending and not self._deferred:
            self._is_pending = False
            raise KeyboardInterrupt


def _after(seconds: float, call: Callable[[], object]) -> None:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


def _is_within(frame: FrameType | None, code: CodeType | None) -> bool:
    """Return whether a frame runs this code, or was called by it."""
    while frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False


def _send(number: int) -> None:
    """Send a signal to the main thread."""
    if sys.platform == "win32":
        _thread.interrupt_main(signal.Signals(number))
    else:
        # Interrupts a system call too.
        signal.pthread_kill(threading.main_thread().ident or 0, number)


_handler = _Handler()


def exit_code() -> int:
    """Return the exit code after a KeyboardInterrupt: 130, 143 or 129."""
    return _SIGNAL_CODE + (_handler.stopped or signal.SIGINT)


def deferred(most: float | None = None) -> contextlib.AbstractContextManager[None]:
    """Defer a first signal to the end of the block, for writes that must not be interrupted.

    Args:
        most: Maximum delay in seconds, after which the block is interrupted. Default: unlimited.
    """
    return _handler.deferred(most)


def has_stopped() -> bool:
    """Return whether a signal was received."""
    return _handler.stopped is not None


@contextlib.contextmanager
def stopping(stop: Callable[[], object]) -> Iterator[None]:
    """Have a first signal call a function instead of interrupting the block, so that the block completes its work.

    A second Ctrl-C interrupts the block. The caller checks `has_stopped` after it.

    Args:
        stop: Ends the work of the block soon; called in another thread.
    """
    _handler.stop = stop
    try:
        yield
    finally:
        _handler.stop = None


@contextlib.contextmanager
def handled() -> Iterator[None]:
    """Handle the signals within the block, except those that the parent process ignores, as `nohup` does."""
    global _handler
    _handler = handler = _Handler()
    former = {}
    report = sys.unraisablehook

    def repeat_interrupts(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            handler.repeat()
        else:
            report(unraisable)

    handler.hook = repeat_interrupts.__code__
    # Python allows signal handlers in the main thread only.
    for number in _SIGNALS if threading.current_thread() is threading.main_thread() else ():
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            former[number] = signal.signal(number, handler)
    sys.unraisablehook = repeat_interrupts
    try:
        yield
    finally:
        handler.end()
        sys.unraisablehook = report
        for number, before in former.items():
            signal.signal(number, before)
