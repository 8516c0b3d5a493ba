"""Errors of positions that a stream no longer has. Public as `jetarrow.js.errors`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Self

from jetarrow.jetstream.api_errors import Error

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DataLossError(Error):
    """The stream no longer has messages that were requested.

    Args:
        asked: The first requested sequence, or the range (first, end). Default: None.
        available: The first sequence that the stream still has. Default: None.
        message: The text. Default: made of the two.
    """

    def __init__(
        self,
        asked: int | tuple[int, int] | None = None,
        available: int | None = None,
        *,
        message: str | None = None,
    ) -> None:
        super().__init__(message)
        self.asked = asked
        self.available = available

    def _describe(self) -> str:
        return (
            f"data loss: sequence {self.asked} was requested, but the stream starts at {self.available} now: a limit, a"
            f' purge or a delete removed earlier messages; read from {self.available}, or set on_data_loss="warn"'
        )


class StreamRecreatedError(Error):
    """The stream was deleted and created again under the same name, so earlier sequences refer to other messages."""

    _default = (
        "the stream was deleted and created again since the position was recorded, so its sequences refer to other"
        " messages; start again from its first message"
    )


class StreamRolledBackError(Error):
    """The stream was rolled back: it ends before a message that was read, or has other messages under its sequences.

    Causes are a restored older copy of the store, a replica that lost its disk, or a power failure before
    `sync_interval` had passed. (A stream that `restore_stream` created is a different one: `StreamRecreatedError`.)
    Sequences that were read refer to other messages. `on_rollback=` selects the reaction: "fail" (this error),
    "continue" after the last message that the stream still has, or "earliest". See docs/rollback.md.

    Args:
        stream: The stream. Default: unknown.
        expected: Sequence and time of the newest message that was seen and that the stream no longer has; the time is
            None if it was not recorded. Default: None.
        found: Sequence and time of the message that the stream has instead; or its last sequence and None if it ends
            before `expected`. Default: None.
        last_good: Sequence and time of the newest message that was seen and that the stream still has. Default: None,
            unknown.
        message: The text. Default: made of the arguments above.
    """

    def __init__(
        self,
        stream: str | None = None,
        expected: tuple[int, datetime | None] | None = None,
        found: tuple[int, datetime | None] | None = None,
        last_good: tuple[int, datetime] | None = None,
        *,
        message: str | None = None,
    ) -> None:
        super().__init__(message)
        self.stream = stream
        self.expected = expected
        self.found = found
        self.last_good = last_good

    @classmethod
    def of_nanoseconds(
        cls, stream: str, expected: tuple[int, int], found: tuple[int, int | None], last_good: tuple[int, int] | None
    ) -> Self:
        """Creates the error from times in nanoseconds since 1970.

        Args:
            stream: As for the class, like the rest.
            expected: With its time in nanoseconds.
            found: With its time in nanoseconds, or None.
            last_good: With its time in nanoseconds.
        """

        def at(nanos: int) -> datetime:
            return _EPOCH + timedelta(microseconds=nanos // 1000)

        seq, nanos = found
        return cls(
            stream,
            (expected[0], at(expected[1])),
            (seq, None if nanos is None else at(nanos)),
            None if last_good is None else (last_good[0], at(last_good[1])),
        )

    @property
    def summary(self) -> str:
        """The first part of the text, without the advice."""
        text = f"{'the stream' if self.stream is None else f'stream {self.stream!r}'} was rolled back"
        if self.expected is not None:
            text += f": message {_at(*self.expected)} was seen"
        if self.found is not None:
            seq, time = self.found
            text += f", and the stream ends at {seq} now" if time is None else f", and it has {_at(seq, time)} now"
        if self.last_good is not None:
            text += f"; it still has message {_at(*self.last_good)}"
        return text

    def _describe(self) -> str:
        return (
            f"{self.summary}; messages read after it are of another history: examine the server, then continue with"
            ' on_rollback="continue" (after the last message that the stream still has) or "earliest" (from its first'
            " message)"
        )


def _at(seq: int, time: datetime | None) -> str:
    return str(seq) if time is None else f"{seq} of {time:%Y-%m-%d %H:%M:%S.%f} UTC"
