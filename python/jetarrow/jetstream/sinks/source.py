"""Sources of a sink's rows, and the one that is a range of a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from jetarrow.core.errors import Error
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.errors import (
    DataLossError,
    ServiceUnavailableError,
    StreamRecreatedError,
)
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.reader import Reader
from jetarrow.jetstream.rollback import Mark, error_without_marks, thin, verify
from jetarrow.jetstream.sinks.state import State

if TYPE_CHECKING:
    import pyarrow

# Seconds between two checks for new messages.
POLL = 0.2

ShouldStop = Callable[[], bool]


def last_mark(batch: Any) -> Mark:
    """Return sequence and time of a batch's last row."""
    time = batch.column("timestamp")[-1]
    return batch.column("seq")[-1].as_py(), time.value * (1000 if time.type.unit == "us" else 1)


class Source(Protocol):
    """Source of a sink's rows."""

    # Whether all rows were returned.
    finished: bool
    # Whether the stream was rolled back since the last commit, which the next commit records.
    is_rolled_back: bool

    def rows(self, most: int, seconds: float, should_stop: ShouldStop) -> AsyncIterator[pyarrow.RecordBatch]:
        """Yield at most `most` rows in at most `seconds`; stop early once `should_stop` returns True."""

    async def state(self) -> State:
        """Return the state after the commit of the yielded rows."""

    async def committed(self, state: State) -> None:
        """Handle the commit of the yielded rows."""

    async def interrupt(self) -> None:
        """Stop waiting for more rows; received rows are still yielded."""

    async def close(self) -> None:
        """Stop reading and release uncommitted messages."""


class RangeSource:
    """A stream after a position, by reads that remove no messages."""

    def __init__(
        self,
        api: JetStreamApi,
        info: models.StreamInfo,
        state: State,
        read: Callable[..., Reader],
        *,
        start_seq: int | None,
        start_time: datetime | timedelta | str | None,
        follow: bool,
        lossy: bool,
    ) -> None:
        self.finished = self.is_rolled_back = False
        self._session, self._api = api.session, api
        self._manage = Management(api)
        self._committed = state
        self._read, self._follow, self._lossy = read, follow, lossy
        self._end = None if follow else info.state.last_seq + 1
        self._first: dict[str, Any] = {}
        if state.last_seq:
            self._position = state.last_seq + 1
        else:
            self._position = start_seq or 1
            self._first = {"start_seq": start_seq, "start_time": start_time}
        self._start = self._position
        self._info: models.StreamInfo | None = info
        self._reader: Reader | None = None
        self._rest: Any = None
        self._marks = list(state.marks)
        # Whether the marks must be checked again, and the number of connection losses at the last check.
        self._needs_check = True
        self._breaks = api.session.native.breaks

    @property
    def position(self) -> State:
        """The committed position."""
        return self._committed

    @property
    def progress(self) -> tuple[int, int | None]:
        """Number of sequences read, and their total."""
        total = None if self._end is None else max(self._end - self._start, 0)
        return self._position - self._start, total

    async def rows(self, most: int, seconds: float, should_stop: ShouldStop) -> AsyncIterator[pyarrow.RecordBatch]:
        """Yield rows, as `Source.rows`."""
        session = self._session
        deadline = session.now() + seconds
        while most > 0 and not should_stop():
            batch = self._rest if self._rest is not None else await self._next()
            self._rest = None
            if batch is None:
                if self.finished or (left := deadline - session.now()) <= 0:
                    return
                await session.sleep(min(POLL, left))
                continue
            if batch.num_rows > most:
                batch, self._rest = batch.slice(0, most), batch.slice(most)
            most -= batch.num_rows
            self._position = batch.column("seq")[-1].as_py() + 1
            self._marks = thin([*self._marks, last_mark(batch)])
            yield batch
            if session.now() >= deadline:
                return

    def end_at(self, seq: int) -> None:
        """End with this message, also if the source follows the stream; before the first row."""
        self._end, self._follow = seq + 1, False

    async def _next(self) -> Any:
        """Return the next rows; None if there are none at present."""
        if self._reader is None:
            if not await self._has_more():
                self.finished = not self._follow
                return None
            start = self._first or {"start_seq": self._position}
            self._reader = self._read(**start, end_seq=self._end, marks=self._marks if self._needs_check else ())
        reader = self._reader
        try:
            batch = await anext(reader)
        except StopAsyncIteration:
            native = reader._open_blocking()
            self._check_created(native.created)
            self._position, self._first, self._reader = reader.position or self._position, {}, None
            self._needs_check = False
            if native.opened and native.opened[0] == self._position - 1:
                # Messages that the filters exclude are also before the position.
                self._marks = thin([*self._marks, native.opened])
            self.finished = not self._follow
            return None
        except (TimeoutError, ServiceUnavailableError):
            if not self._follow or reader._native is not None:
                raise
            # As in `_has_more`: a request to open the reader went unanswered.
            self._reader, self._needs_check = None, True
            return None
        self._needs_check = False
        if self._first:
            self._first = {}
            self._start = reader._open_blocking().start
        self._check_created(reader._open_blocking().created)
        return batch.to_pyarrow()

    async def _has_more(self) -> bool:
        """Check that the stream is unchanged, and return whether it has unread messages."""
        try:
            info, self._info = self._info or await self._manage.stream_info(self._committed.stream), None
            self._check_created(info.created_raw)
            await self._check_rollback(info)
        except (TimeoutError, ServiceUnavailableError):
            if not self._follow:
                raise
            # The server is unavailable, or the stream has no leader: checked again later.
            self._needs_check = True
            return False
        first = info.state.first_seq
        if self._committed.last_seq and first > self._position:
            if not self._lossy:
                raise DataLossError(self._position, first)
            self._position = first
        return info.state.last_seq >= self._position if self._end is None else self._position < self._end

    async def _check_rollback(self, info: models.StreamInfo) -> None:
        """Schedule a check of the marks after a reconnect, and always in a cluster, whose servers restart unnoticed.

        Raises:
            StreamRolledBackError: The stream ends before the position.
        """
        breaks = self._session.native.breaks
        self._needs_check |= breaks != self._breaks or info.cluster is not None
        self._breaks = breaks
        if info.state.last_seq < self._position - 1 and self._committed.last_seq:
            error = await verify(self._api, self._committed.stream, self._marks)
            raise error or error_without_marks(self._committed.stream, info.state.last_seq, self._position - 1)

    def _check_created(self, created: str | None) -> None:
        if created != self._committed.created:
            raise StreamRecreatedError

    async def state(self) -> State:
        """Return the state, as `Source.state`."""
        last = max(self._position - 1, self._committed.last_seq)
        return replace(self._committed, last_seq=last, gaps=(), marks=tuple(self._marks))

    async def committed(self, state: State) -> None:
        """Store the committed state, as `Source.committed`."""
        self._committed = state

    async def interrupt(self) -> None:
        """Stop waiting, as `Source.interrupt`."""
        if self._reader is not None:
            with suppress(Error):
                await self._reader.close()

    async def close(self) -> None:
        """Stop reading, as `Source.close`."""
        reader, self._reader = self._reader, None
        if reader is not None:
            with suppress(Error):
                await reader.close()
