"""Where a sink's rows come from: ranges of a stream, or a durable consumer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from jetarrow.core.errors import Error
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.errors import DataLossError, ServiceUnavailableError, StreamRecreatedError
from jetarrow.jetstream.fetch import PullSubscription
from jetarrow.jetstream.held import Collector, HeldBatch
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.reader import Reader
from jetarrow.jetstream.sinks.state import State

if TYPE_CHECKING:
    import pyarrow

# Seconds between two looks whether there is something new.
POLL = 0.2
# Bytes that a durable consumer's rows may have until they are committed.
HELD_BYTES = 256 * 1024 * 1024

Over = Callable[[], bool]


class Source(Protocol):
    """What gives a sink its rows."""

    # Nothing more comes.
    finished: bool

    def rows(self, most: int, seconds: float, over: Over) -> AsyncIterator[pyarrow.RecordBatch]:
        """At most so many rows, in at most so many seconds; fewer once `over` says so."""

    async def state(self) -> State:
        """The state once the rows given are committed."""

    async def committed(self, state: State) -> None:
        """They are."""

    async def close(self) -> None:
        """No more is asked for; what is not committed is for another one."""


class Ranges:
    """A stream from a position on, by reads that take nothing away."""

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
        self.finished = False
        self._session = api.session
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

    @property
    def progress(self) -> tuple[int, int | None]:
        """Sequences done, and in all."""
        total = None if self._end is None else max(self._end - self._start, 0)
        return self._position - self._start, total

    async def rows(self, most: int, seconds: float, over: Over) -> AsyncIterator[pyarrow.RecordBatch]:
        """As `Source.rows`."""
        session = self._session
        deadline = session.now() + seconds
        while most > 0 and not over():
            batch = self._rest if self._rest is not None else await self._next()
            self._rest = None
            if batch is None:
                if self.finished or (left := deadline - session.now()) <= 0:
                    return
                await session.pause(min(POLL, left))
                continue
            if batch.num_rows > most:
                batch, self._rest = batch.slice(0, most), batch.slice(most)
            most -= batch.num_rows
            self._position = batch.column("seq")[-1].as_py() + 1
            yield batch
            if session.now() >= deadline:
                return

    async def _next(self) -> Any:
        """The next rows; None where there are none now."""
        if self._reader is None:
            if not await self._behind():
                self.finished = not self._follow
                return None
            start = self._first or {"start_seq": self._position}
            self._reader = self._read(**start, end_seq=self._end)
        reader = self._reader
        try:
            batch = await anext(reader)
        except StopAsyncIteration:
            self._check_created(reader._open_blocking().created)
            self._position, self._first, self._reader = reader.position or self._position, {}, None
            self.finished = not self._follow
            return None
        if self._first:
            self._first = {}
            self._start = reader._open_blocking().start
        self._check_created(reader._open_blocking().created)
        return batch.to_pyarrow()

    async def _behind(self) -> bool:
        """Whether the stream has more; that it is still the same, and has what was not read yet."""
        try:
            info, self._info = self._info or await self._manage.stream_info(self._committed.stream), None
        except (TimeoutError, ServiceUnavailableError):
            if not self._follow:
                raise
            # The server is away, or has no leader: the next look may find it.
            return False
        self._check_created(info.created_raw)
        first = info.state.first_seq
        if self._committed.last_seq and first > self._position:
            if not self._lossy:
                raise DataLossError(self._position, first)
            self._position = first
        return info.state.last_seq >= self._position if self._end is None else self._position < self._end

    def _check_created(self, created: str | None) -> None:
        if created != self._committed.created:
            raise StreamRecreatedError

    async def state(self) -> State:
        """As `Source.state`."""
        return State(
            self._committed.stream,
            self._committed.created,
            max(self._position - 1, self._committed.last_seq),
            schema=self._committed.schema,
        )

    async def committed(self, state: State) -> None:
        """As `Source.committed`."""
        self._committed = state

    async def close(self) -> None:
        """As `Source.close`."""
        reader, self._reader = self._reader, None
        if reader is not None:
            with suppress(Error):
                await reader.close()


class Durable:
    """The messages of a durable consumer, acknowledged once they are committed."""

    def __init__(
        self,
        api: JetStreamApi,
        state: State,
        sub: PullSubscription,
        *,
        decode: Callable[[Any], Any],
        follow: bool,
        rows: int,
    ) -> None:
        self.finished = False
        self._session = api.session
        self._sub, self._committed, self._decode, self._follow = sub, state, decode, follow
        self._collector = Collector(sub, rows=rows, seconds=POLL, bytes=HELD_BYTES, options={})
        self._held: list[HeldBatch] = []
        self._seqs: list[int] = []
        self._begun = False
        self.done = 0

    @property
    def progress(self) -> tuple[int, int | None]:
        """Rows done; how many there will be is not known."""
        return self.done, None

    async def rows(self, most: int, seconds: float, over: Over) -> AsyncIterator[pyarrow.RecordBatch]:
        """As `Source.rows`."""
        session = self._session
        if not self._begun:
            self._begun = True
            await self._collector.begin()
        deadline = session.now() + seconds
        room = HELD_BYTES
        while most > 0 and room > 0 and not over() and (left := deadline - session.now()) > 0:
            batch = await self._collector.gather(rows=most, seconds=min(left, POLL))
            if batch is None:
                if not self._follow and await self._is_at_end():
                    self.finished = True
                    return
                if self._held and self._collector.is_full(sum(map(len, self._held))):
                    # It gives no more before these are acknowledged.
                    return
                continue
            self._held.append(batch)
            most -= len(batch)
            room -= batch.nbytes
            fresh = self._fresh(batch.seqs.to_pylist())
            if fresh:
                rows = self._decode(batch)
                yield rows.take(fresh) if len(fresh) < len(batch) else rows

    async def _is_at_end(self) -> bool:
        """Whether all was delivered, and nothing is still to be delivered again that a writer before this one had."""
        info = await self._sub.consumer_info()
        held = {seq for batch in self._held for seq in batch.seqs.to_pylist()}
        return not info.num_pending and (info.num_ack_pending or 0) <= len(held)

    def _fresh(self, seqs: Sequence[int | None]) -> list[int]:
        """The rows that are not written yet: others are delivered again, as an acknowledgement was lost."""
        known = set(self._seqs)
        fresh = []
        for row, seq in enumerate(seqs):
            if seq is not None and seq not in known and self._committed.is_new(seq):
                known.add(seq)
                self._seqs.append(seq)
                fresh.append(row)
        return fresh

    async def state(self) -> State:
        """As `Source.state`."""
        info = await self._sub.consumer_info()
        held = {seq for batch in self._held for seq in batch.seqs.to_pylist()}
        return self._committed.after(
            sorted(self._seqs),
            delivered=info.delivered.stream_seq if info.delivered else 0,
            settled=info.ack_floor.stream_seq if info.ack_floor else 0,
            clean=(info.num_ack_pending or 0) <= len(held),
        )

    async def committed(self, state: State) -> None:
        """As `Source.committed`: acknowledges them. One that is lost is delivered again, and known by its sequence."""
        self._committed = state
        self.done += len(self._seqs)
        await self.again()

    async def again(self) -> None:
        """Acknowledges what is held, which is committed."""
        held, self._held, self._seqs = self._held, [], []
        with suppress(Error):
            for batch in held:
                await batch.ack_sync(timeout=30.0)

    async def close(self) -> None:
        """As `Source.close`: gives back what is held."""
        held, self._held = self._held, []
        with suppress(Error):
            for batch in held:
                await batch.nak()
        await self._collector.end()
        with suppress(Error):
            await self._sub.unsubscribe()
