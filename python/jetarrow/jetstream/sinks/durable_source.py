"""The source of a sink's rows that is a durable consumer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from jetarrow.core.errors import Error
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.batch_collector import BatchCollector, HeldBatch
from jetarrow.jetstream.errors import ServiceUnavailableError, StreamRolledBackError
from jetarrow.jetstream.fetch import PullSubscription
from jetarrow.jetstream.rollback import Mark, thin, verify
from jetarrow.jetstream.sinks.source import POLL, ShouldStop
from jetarrow.jetstream.sinks.state import State

if TYPE_CHECKING:
    import pyarrow

# Maximum size in bytes of a durable consumer's uncommitted rows.
HELD_BYTES = 256 * 1024 * 1024


_T = TypeVar("_T")


class DurableSource:
    """The messages of a durable consumer, acknowledged after their commit."""

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
        # Uncommitted messages: sequences, and times in nanoseconds.
        self._times: dict[int, int] = {}
        # Latest known time of a committed message.
        self._latest = max((nanos for _, nanos in state.marks), default=None)
        # Number of connection losses at the last successful check of the stream.
        self._breaks = api.session.native.breaks
        self._begun = False
        self._should_stop: ShouldStop = bool
        self.done = 0

    @property
    def position(self) -> State:
        """The committed position."""
        return self._committed

    @property
    def progress(self) -> tuple[int, int | None]:
        """Number of rows committed; the total is unknown."""
        return self.done, None

    async def rows(self, most: int, seconds: float, should_stop: ShouldStop) -> AsyncIterator[pyarrow.RecordBatch]:
        """Yield rows, as `Source.rows`."""
        session, self._should_stop = self._session, should_stop
        if not self._begun:
            self._begun = True
            await self._repeated(self._collector.begin)
        deadline = session.now() + seconds
        room = HELD_BYTES
        while most > 0 and room > 0 and not should_stop() and (left := deadline - session.now()) > 0:
            try:
                batch = await self._collector.gather(rows=most, seconds=min(left, POLL))
            except TimeoutError:
                if not self._follow:
                    raise
                continue
            if session.native.breaks != self._breaks:
                # The batch may have messages from before and after the reconnect.
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
                    # The consumer delivers no more before these are acknowledged.
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
        """Return whether all messages were delivered, and none is pending for redelivery from an earlier writer."""
        info = await self._sub.consumer_info()
        held = {seq for batch in self._held for seq in batch.seqs.to_pylist()}
        return not info.num_pending and (info.num_ack_pending or 0) <= len(held)

    async def _new_rows(self, batch: Any) -> list[int]:
        """Return the rows that are not written yet; others were redelivered because an ack was lost.

        Raises:
            StreamRolledBackError: A message has the sequence of another message that is uncommitted or written.
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
                await self._repeated(partial(self._verify, [(seq, held)]))
            elif held is None and self._latest is not None and time > self._latest:
                # It was stored after all written messages. Marked messages of a work queue cannot be read.
                await self._repeated(partial(self._verify, self._committed.marks))
                last = (self._committed.last_seq, self._latest)
                raise StreamRolledBackError.of_nanoseconds(self._committed.stream, last, (seq, time), None)
        return fresh

    def _marks(self) -> list[Mark]:
        """Return marks of the last uncommitted message, and of earlier ones at exponential distances."""
        seqs = sorted(self._times)
        distances = [0, *(1 << power for power in range(len(seqs).bit_length()))]
        return [(seqs[~at], self._times[seqs[~at]]) for at in distances if at < len(seqs)]

    async def _verify(self, marks: Sequence[Mark]) -> None:
        if error := await verify(self._api, self._committed.stream, marks):
            raise error

    async def _repeated(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Ask until there is an answer if the source follows the stream and the sink is not closed; once otherwise."""
        while True:
            try:
                return await ask()
            except (TimeoutError, ServiceUnavailableError):
                if not self._follow or self._should_stop():
                    raise
            # The server is unavailable, or the stream has no leader.
            await self._session.sleep(POLL)

    async def state(self) -> State:
        """Return the state, as `Source.state`."""
        info = await self._repeated(self._checked)
        held = {seq for batch in self._held for seq in batch.seqs.to_pylist()}
        return self._committed.after(
            sorted(self._times),
            marks=self._marks(),
            delivered=info.delivered.stream_seq if info.delivered else 0,
            settled=info.ack_floor.stream_seq if info.ack_floor else 0,
            clean=(info.num_ack_pending or 0) <= len(held),
        )

    async def _checked(self) -> models.ConsumerInfo:
        """Return the consumer's info after a check that the stream was not rolled back.

        Raises:
            StreamRolledBackError: Uncommitted messages are of another history, and must not be acknowledged.
        """
        breaks = self._session.native.breaks
        info = await self._sub.consumer_info()
        delivered = info.delivered.stream_seq if info.delivered else 0
        # In a cluster the stream's server may restart without a reconnect of this client.
        if breaks != self._breaks or info.cluster is not None or delivered < max(self._times, default=0):
            await self._verify(thin([*self._committed.marks, *self._marks()]))
            self._breaks = breaks
        return info

    async def committed(self, state: State) -> None:
        """Acknowledge the committed messages. After a lost ack a message is redelivered and skipped by its sequence."""
        self._committed = state
        self.done += len(self._times)
        self._latest = max([*self._times.values(), self._latest or 0])
        await self.again()

    async def again(self) -> None:
        """Acknowledge the held messages, which are committed.

        Raises:
            StreamRolledBackError: The stream was rolled back since their delivery; nothing is acknowledged.
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
        """Do nothing: a fetch waits at most 0.2 s."""

    async def close(self) -> None:
        """Stop reading and nak the held messages."""
        held, self._held = self._held, []
        with suppress(Error):
            for batch in held:
                await batch.nak()
        await self._collector.end()
        with suppress(Error):
            await self._sub.unsubscribe()
