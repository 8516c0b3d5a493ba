"""Progress of a publish, which an interrupt carries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jetarrow.jetstream.progress import Progress
from jetarrow.jetstream.publish_result import PartialPublish

# Rows of a list from which on a call without a progress function counts them, for its interrupts. The first report is
# after 100 ms, in which a call publishes about this number.
_MANY_ROWS = 10_000


class ProgressOfRows:
    """A progress function that keeps the last numbers.

    Args:
        report: Another progress function, which is called too.
    """

    def __init__(self, report: Progress | None) -> None:
        self._report = report
        self.done = 0
        self.total: int | None = None

    def __call__(self, done: int, total: int | None) -> None:
        """Take the numbers of a call: rows done, and total rows or None."""
        self.done, self.total = done, total
        if self._report is not None:
            self._report(self.done, self.total)

    def of_call(self, payloads: object) -> ProgressOfRows | None:
        """Return the progress function of a native call; None if a short call needs none.

        Args:
            payloads: The rows of the call.
        """
        if self._report is None and isinstance(payloads, list | tuple) and len(payloads) < _MANY_ROWS:
            return None
        return self

    @contextmanager
    def added_to_interrupts(self) -> Iterator[None]:
        """Add the rows done to Ctrl-C and to a cancellation within the block."""
        try:
            yield
        except (KeyboardInterrupt, asyncio.CancelledError) as interrupt:
            set_partial(interrupt, PartialPublish(self.done, self.total))
            raise


def set_partial(interrupt: BaseException, partial: PartialPublish) -> None:
    """Set the attribute `partial` of an interrupt.

    Args:
        interrupt: The exception.
        partial: The part that was done.
    """
    holder: Any = interrupt
    holder.partial = partial


class ProgressOfStep(ProgressOfRows):
    """The progress of one step of several.

    Args:
        report: A progress function of the whole.
        first: Number of rows before this step.
        total: Number of rows of the whole; None if it is unknown.
    """

    def __init__(self, report: Progress | None, *, first: int, total: int | None) -> None:
        super().__init__(report)
        self._first = first
        self._whole = total
        self.done, self.total = first, total

    def __call__(self, done: int, total: int | None) -> None:
        """Take the numbers of the step."""
        super().__call__(self._first + done, self._whole)
