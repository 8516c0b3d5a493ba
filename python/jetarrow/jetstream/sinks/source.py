"""Where a sink's rows come from: ranges of a stream, or a durable consumer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from jetarrow.core.errors import Error
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.batch_collector import BatchCollector, HeldBatch
from jetarrow.jetstream.errors import (
    DataLossError,
    ServiceUnavailableError,
    StreamRecreatedError,
    StreamRolledBackError,
)
from jetarrow.jetstream.fetch import PullSubscription
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.reader import Reader
from jetarrow.jetstream.rollback import Mark, error_without_marks, thin, verify
from jetarrow.jetstream.sinks.state import State

if TYPE_CHECKING:
    import pyarrow

# Seconds between two looks whether there is something new.
POLL = 0.2
# Bytes that a durable consumer's rows may have until they are committed.
HELD_BYTES = 256 * 1024 * 1024

ShouldStop = Callable[[], bool]


def last_mark(batch: Any) -> Mark:
    """Sequence and time of a batch's last row."""
    time = batch.column("timestamp")[-1]
    return batch.column("seq")[-1].as_py(), time.value * (1000 if time.type.unit == "us" else 1)


class Source(Protocol):
    """What gives a sink its rows."""

    # Nothing more comes.
    finished: bool
    # The stream has gone back since the last commit, and that is to be recorded.
    is_rolled_back: bool

    def rows(self, most: int, seconds: float, should_stop: ShouldStop) -> AsyncIterator[pyarrow.RecordBatch]:
        """At most so many rows, in at most so many seconds; fewer once `should_stop` says so."""

    async def state(self) -> State:
        """The state once the rows given are committed."""

    async def committed(self, state: State) -> None:
        """They are."""

    async def interrupt(self) -> None:
        """Ends the wait for more rows; those that came are given."""

    async def close(self) -> None:
        """No more is asked for; what is not committed is for another one."""


class RangeSource:
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
        # Whether the stream may have gone back since it was compared with the marks; how often the link had broken.
        self._needs_check = True
        self._breaks = api.session.native.breaks

    @property
    def progress(self) -> tuple[int, int | None]:
        """Sequences done, and in all."""
        total = None if self._end is None else max(self._end - self._start, 0)
        return self._position - self._start, total

    async def rows(self, most: int, seconds: float, should_stop: ShouldStop) -> AsyncIterator[pyarrow.RecordBatch]:
        """As `Source.rows`."""
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

    async def _next(self) -> Any:
        """The next rows; None where there are none now."""
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
                # What the filters leave out is dealt with, too.
                self._marks = thin([*self._marks, native.opened])
            self.finished = not self._follow
            return None
        self._needs_check = False
        if self._first:
            self._first = {}
            self._start = reader._open_blocking().start
        self._check_created(reader._open_blocking().created)
        return batch.to_pyarrow()

    async def _has_more(self) -> bool:
        """Whether the stream has more; that it is still the same, and has what was not read yet."""
        try:
            info, self._info = self._info or await self._manage.stream_info(self._committed.stream), None
        except (TimeoutError, ServiceUnavailableError):
            if not self._follow:
                raise
            # The server is away, or has no leader: the next look may find it.
            self._needs_check = True
            return False
        self._check_created(info.created_raw)
        await self._check_rollback(info)
        first = info.state.first_seq
        if self._committed.last_seq and first > self._position:
            if not self._lossy:
                raise DataLossError(self._position, first)
            self._position = first
        return info.state.last_seq >= self._position if self._end is None else self._position < self._end

    async def _check_rollback(self, info: models.StreamInfo) -> None:
        """Notes a doubt: after a break, and always in a cluster, where the stream's server may restart without one.

        Raises:
            StreamRolledBackError: It ends before the position, which leaves no doubt.
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
        """As `Source.state`."""
        return State(
            self._committed.stream,
            self._committed.created,
            max(self._position - 1, self._committed.last_seq),
            schema=self._committed.schema,
            marks=tuple(self._marks),
            epoch=self._committed.epoch,
        )

    async def committed(self, state: State) -> None:
        """As `Source.committed`."""
        self._committed = state

    async def interrupt(self) -> None:
        """As `Source.interrupt`."""
        if self._reader is not None:
            with suppress(Error):
                await self._reader.close()

    async def close(self) -> None:
        """As `Source.close`."""
        reader, self._reader = self._reader, None
        if reader is not None:
            with suppress(Error):
                await reader.close()


class DurableSource:
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
        self.finished = self.is_rolled_back = False
        self._session, self._api = api.session, api
        self._sub, self._committed, self._decode, self._follow = sub, state, decode, follow
        self._collector = BatchCollector(sub, rows=rows, seconds=POLL, bytes=HELD_BYTES, options={})
        self._held: list[HeldBatch] = []
        # What is held and not committed: sequences, and times in nanoseconds.
        self._times: dict[int, int] = {}
        # The latest time of a message that is committed, as far as is known.
        self._latest = max((nanos for _, nanos in state.marks), default=None)
        # How often the link had broken when the stream was last known to be the same.
        self._breaks = api.session.native.breaks
        self._begun = False
        self.done = 0

    @property
    def progress(self) -> tuple[int, int | None]:
        """Rows done; how many there will be is not known."""
        return self.done, None

    async def rows(self, most: int, seconds: float, should_stop: ShouldStop) -> AsyncIterator[pyarrow.RecordBatch]:
        """As `Source.rows`."""
        session = self._session
        if not self._begun:
            self._begun = True
            await self._collector.begin()
        deadline = session.now() + seconds
        room = HELD_BYTES
        while most > 0 and room > 0 and not should_stop() and (left := deadline - session.now()) > 0:
            batch = await self._collector.gather(rows=most, seconds=min(left, POLL))
            if session.native.breaks != self._breaks:
                # It may be of both sides of the break.
                if batch is not None:
                    await batch.nak()
                with suppress(TimeoutError, ServiceUnavailableError):
                    await self._checked()
                continue
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
            fresh = await self._new_rows(batch)
            if fresh:
                rows = self._decode(batch)
                yield rows.take(fresh) if len(fresh) < len(batch) else rows

    async def _is_at_end(self) -> bool:
        """Whether all was delivered, and nothing is still to be delivered again that a writer before this one had."""
        info = await self._sub.consumer_info()
        held = {seq for batch in self._held for seq in batch.seqs.to_pylist()}
        return not info.num_pending and (info.num_ack_pending or 0) <= len(held)

    async def _new_rows(self, batch: Any) -> list[int]:
        """The rows that are not written yet: others are delivered again, as an acknowledgement was lost.

        Raises:
            StreamRolledBackError: A message has the sequence of another one that is held or written.
        """
        columns = needs_pyarrow("a sink").record_batch(batch)
        seqs, times = columns.column("seq").to_pylist(), columns.column("timestamp").cast("int64").to_pylist()
        fresh = []
        for row, (seq, time) in enumerate(zip(seqs, times, strict=True)):
            held = self._times.get(seq)
            if held is None and self._committed.is_new(seq):
                self._times[seq] = time
                fresh.append(row)
            elif held not in (None, time):
                await self._verify([(seq, held)])
            elif held is None and self._latest is not None and time > self._latest:
                # It was stored after all that is written. Of a work queue no marked message can be looked up.
                await self._verify(self._committed.marks)
                last = (self._committed.last_seq, self._latest)
                raise StreamRolledBackError.of_nanoseconds(self._committed.stream, last, (seq, time), None)
        return fresh

    def _marks(self) -> list[Mark]:
        """Marks of the last held message, and of some at growing distances before it."""
        seqs = sorted(self._times)
        distances = [0, *(1 << power for power in range(len(seqs).bit_length()))]
        return [(seqs[~at], self._times[seqs[~at]]) for at in distances if at < len(seqs)]

    async def _verify(self, marks: Sequence[Mark]) -> None:
        if error := await verify(self._api, self._committed.stream, marks):
            raise error

    async def state(self) -> State:
        """As `Source.state`."""
        info = await self._checked()
        held = {seq for batch in self._held for seq in batch.seqs.to_pylist()}
        return self._committed.after(
            sorted(self._times),
            marks=self._marks(),
            delivered=info.delivered.stream_seq if info.delivered else 0,
            settled=info.ack_floor.stream_seq if info.ack_floor else 0,
            clean=(info.num_ack_pending or 0) <= len(held),
        )

    async def _checked(self) -> models.ConsumerInfo:
        """What the server says of the consumer, once it is known that the stream has not gone back.

        Raises:
            StreamRolledBackError: It has: what is held are messages of another history, and must not be acknowledged.
        """
        breaks = self._session.native.breaks
        info = await self._sub.consumer_info()
        delivered = info.delivered.stream_seq if info.delivered else 0
        # In a cluster the stream's server may restart without a break of our link.
        if breaks != self._breaks or info.cluster is not None or delivered < max(self._times, default=0):
            await self._verify(thin([*self._committed.marks, *self._marks()]))
            self._breaks = breaks
        return info

    async def committed(self, state: State) -> None:
        """As `Source.committed`: acknowledges them. One that is lost is delivered again, and known by its sequence."""
        self._committed = state
        self.done += len(self._times)
        self._latest = max([*self._times.values(), self._latest or 0])
        await self.again()

    async def again(self) -> None:
        """Acknowledges what is held, which is committed.

        Raises:
            StreamRolledBackError: The stream has gone back since that was delivered: nothing is acknowledged.
        """
        with suppress(TimeoutError, ServiceUnavailableError):
            await self._checked()
            await self._acknowledge()

    async def _acknowledge(self) -> None:
        held, self._held, self._times = self._held, [], {}
        with suppress(Error):
            for batch in held:
                await batch.ack_sync(timeout=30.0)

    async def interrupt(self) -> None:
        """As `Source.interrupt`: it never waits for long."""

    async def close(self) -> None:
        """As `Source.close`: gives back what is held."""
        held, self._held = self._held, []
        with suppress(Error):
            for batch in held:
                await batch.nak()
        await self._collector.end()
        with suppress(Error):
            await self._sub.unsubscribe()
