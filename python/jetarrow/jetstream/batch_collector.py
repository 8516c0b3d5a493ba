"""Batches of so many rows or so many seconds, kept from redelivery until they are acknowledged."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol, cast
from weakref import ref

from jetarrow import _jetarrow
from jetarrow.core.errors import BadSubscriptionError, Error
from jetarrow.core.session import Session
from jetarrow.jetstream import models
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.batch import MessageBatch
from jetarrow.jetstream.literals import AckVerb, DecodeMode

# The server's, where a consumer has none of its own.
DEFAULT_ACK_WAIT = 30.0


class BatchSource(Protocol):
    """A pull subscription, as far as it counts here."""

    _session: Session
    _closed: bool

    async def consumer_info(self) -> models.ConsumerInfo:
        """What the consumer is."""

    @property
    def fetch_batch(self) -> Callable[..., Awaitable[MessageBatch]]:
        """The verb."""


class ConcatenatedBatch:
    """Several native batches as one; it stands where a native one does."""

    def __init__(self, parts: Sequence[_jetarrow.Batch]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(part.nbytes for part in self.parts)

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return self.parts[0].column_names

    @property
    def seqs(self) -> Any:
        """The stream sequences."""
        pa = needs_pyarrow("a batch of several fetches")
        return pa.concat_arrays([pa.array(part.seqs) for part in self.parts])

    def message(self, session: Session, index: int) -> Any:
        """One row as a message."""
        row = index + len(self) if index < 0 else index
        if row >= 0:
            for part in self.parts:
                if row < len(part):
                    return part.message(session, row)
                row -= len(part)
        raise IndexError(f"row {index} of a batch of {len(self)}")

    def decode(self, schema: object, mode: DecodeMode) -> ConcatenatedBatch:
        """With `value` in the place of `data`."""
        return ConcatenatedBatch([part.decode(schema, mode) for part in self.parts])

    def __arrow_c_schema__(self) -> object:
        return self.parts[0].__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object | None = None) -> Any:
        pa = needs_pyarrow("a batch of several fetches")
        table = pa.Table.from_batches([pa.record_batch(part) for part in self.parts]).combine_chunks()
        return table.to_batches()[0].__arrow_c_array__(requested_schema)


class PendingAcks:
    """Fetched messages that the server shall not deliver again, until they are settled."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.parts: list[_jetarrow.Batch] = []
        self._settled: set[int | None] = set()

    def settle(self, seqs: Iterable[int | None]) -> None:
        """These are acknowledged, or given up."""
        self._settled.update(seqs)

    async def send_ack(self, kind: AckVerb) -> None:
        """Sends an acknowledgement of a kind for all that is not settled."""
        session, settled = self._session, set(self._settled)
        for part in tuple(self.parts):
            rows = [row for row, seq in enumerate(part.seqs.to_pylist()) if seq not in settled] if settled else None
            if rows != []:
                await session.run(session.native.ack_rows(part, kind, rows))


class HeldBatch(MessageBatch):
    """A batch of `sub.batches(rows=...)`: kept from redelivery until it is acknowledged, given back or given up."""

    def __init__(self, session: Session, native: _jetarrow.Batch, hold: PendingAcks) -> None:
        super().__init__(session, native)
        self._hold = hold

    def _like(self, native: _jetarrow.Batch) -> MessageBatch:
        return HeldBatch(self._session, native, self._hold)

    async def _ack(self, kind: AckVerb, rows: Iterable[int] | Iterable[bool] | None, **options: Any) -> None:
        session = self._session
        deadline = session.now() + options.get("confirm", 0.0)
        for part, chosen in self._by_part(rows):
            if "confirm" in options:
                options["confirm"] = max(deadline - session.now(), 0.001)
            await session.run(session.native.ack_rows(part, kind, chosen, **options))
            if kind != "in_progress":
                seqs = part.seqs.to_pylist()
                self._hold.settle(seqs if chosen is None else [seqs[row] for row in chosen])

    def _by_part(self, rows: Iterable[int] | Iterable[bool] | None) -> list[tuple[_jetarrow.Batch, list[int] | None]]:
        """Each native batch, and its chosen rows."""
        parts = native.parts if isinstance(native := cast(object, self._native), ConcatenatedBatch) else [self._native]
        if rows is None:
            return [(part, None) for part in parts]
        chosen = row_numbers(rows, len(self))
        found: list[tuple[_jetarrow.Batch, list[int] | None]] = []
        start = 0
        for part in parts:
            end = start + len(part)
            if own := [row - start for row in chosen if start <= row < end]:
                found.append((part, own))
            start = end
        return found


def row_numbers(rows: Any, length: int) -> list[int]:
    """Row numbers out of numbers or a mask, of any library.

    Raises:
        IndexError: There is no such row.
        ValueError: The mask has another length.
    """
    for name in ("to_pylist", "tolist", "to_list"):
        if hasattr(rows, name):
            rows = getattr(rows, name)()
            break
    rows = list(rows)
    if rows and all(isinstance(row, bool) or row is None for row in rows):
        if len(rows) != length:
            raise ValueError(f"the mask has {len(rows)} entries, and there are {length} rows")
        return [number for number, chosen in enumerate(rows) if chosen]
    found = [int(row) + length if row < 0 else int(row) for row in rows]
    for row, number in zip(rows, found, strict=True):
        if not 0 <= number < length:
            raise IndexError(f"row {row} of {length}")
    return found


class BatchCollector:
    """One iteration of `batches`: what it gathers, and what it has handed out."""

    def __init__(self, sub: BatchSource, *, rows: int, seconds: float, bytes: int, options: dict[str, Any]) -> None:
        for name, value in (("rows", rows), ("bytes", bytes)):
            if value < 1:
                raise ValueError(f"{name} must be 1 or more, not {value}")
        if not seconds > 0:
            raise ValueError(f"seconds must be positive, not {seconds}")
        self._sub, self._options = sub, options
        self._rows, self._seconds, self._bytes = rows, seconds, bytes
        self._slice = math.inf
        self._stop: Callable[[], None] | None = None
        self._gathering = PendingAcks(sub._session)
        # Weakly: a batch that the program has thrown away is for the server to deliver again.
        self._out: list[ref[PendingAcks]] = []

    async def batches(self) -> AsyncIterator[MessageBatch]:
        """The batches, without end."""
        await self.begin()
        try:
            while not self._sub._closed:
                batch = await self.gather(rows=self._rows, seconds=self._seconds)
                if batch is not None:
                    yield batch
                    del batch
        finally:
            await self.end()

    async def begin(self) -> None:
        """Asks what the consumer is, and keeps from now on what is held."""
        sub = self._sub
        config = (await sub.consumer_info()).config
        if config.ack_policy != models.AckPolicy.NONE:
            ack_wait = min([*(config.backoff or ()), config.ack_wait or DEFAULT_ACK_WAIT])
            # A row is at most a quarter old when it is seen here, and three quarters when it is first spoken for.
            self._slice = ack_wait / 4
            self._stop = sub._session.repeat(ack_wait / 2, self._keep)
            if config.max_ack_pending and config.max_ack_pending > 0:
                # The consumer gives no more before it gets acks.
                self._rows = min(self._rows, config.max_ack_pending)

    def is_full(self, held: int) -> bool:
        """Whether the consumer gives no more while so many are not acknowledged."""
        return held >= self._rows

    async def end(self) -> None:
        """Gives back whatever is not acknowledged."""
        if self._stop is not None:
            self._stop()
            # Others may have them now.
            with suppress(Error):
                for hold in self._holds():
                    await hold.send_ack("nak")

    async def gather(self, *, rows: int, seconds: float) -> HeldBatch | None:
        """One batch; None where nothing came."""
        await self._gather(min(rows, self._rows), seconds)
        hold = self._gathering
        if not hold.parts:
            return None
        self._gathering = PendingAcks(self._sub._session)
        self._out = [*(held for held in self._out if held()), ref(hold)]
        parts = hold.parts
        native: Any = parts[0] if len(parts) == 1 else ConcatenatedBatch(parts)
        return HeldBatch(self._sub._session, native, hold)

    async def _keep(self) -> None:
        # While the link is down nothing can be said; the next time may be in time.
        with suppress(Error):
            for hold in self._holds():
                await hold.send_ack("in_progress")

    def _holds(self) -> list[PendingAcks]:
        return [self._gathering, *(hold for held in self._out if (hold := held()))]

    async def _gather(self, rows: int, seconds: float) -> None:
        """Fills `_gathering` until it has enough, or its time is over, or the subscription has ended."""
        sub, hold = self._sub, self._gathering
        now = sub._session.now
        room, deadline = self._bytes, now() + seconds
        while rows > 0 and room > 0 and (left := deadline - now()) > 0:
            begun, wait = now(), min(left, self._slice)
            try:
                batch = await sub.fetch_batch(rows, max_bytes=room, timeout=wait, min_messages=rows, **self._options)
            except BadSubscriptionError:
                return
            except ValueError:
                # The next message does not fit what is left of the bytes.
                if hold.parts:
                    return
                raise
            except TimeoutError:
                if sub._session.native.is_connected:
                    raise
                continue
            if len(batch):
                hold.parts.append(batch._native)
                rows -= len(batch)
                room -= batch.nbytes
                if now() - begun < wait * 0.9:
                    # It ended before its time: the bytes are there, or the consumer waits for acks.
                    return
