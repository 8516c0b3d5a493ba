"""Batches limited by rows, seconds and bytes, kept from redelivery until they are acknowledged."""

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
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.batch import MessageBatch
from jetarrow.jetstream.json_rules import JsonRules
from jetarrow.jetstream.literals import AckVerb, DecodeMode

# Default of nats-server (JsAckWaitDefault).
DEFAULT_ACK_WAIT = 30.0


class BatchSource(Protocol):
    """The members of a pull subscription that a collector uses."""

    _session: Session
    _api: JetStreamApi
    _closed: bool

    async def consumer_info(self) -> models.ConsumerInfo:
        """Requests configuration and state of the consumer."""

    @property
    def fetch_batch(self) -> Callable[..., Awaitable[MessageBatch]]:
        """The verb `fetch_batch`."""


class ConcatenatedBatch:
    """Several native batches with the interface of one."""

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

    def filter(self, mask: Any) -> Any:
        """The rows that a boolean array chooses."""
        pa = needs_pyarrow("a batch of several fetches")
        chosen, start, found = mask.to_pylist(), 0, []
        for part in self.parts:
            own = chosen[start : start + len(part)]
            start += len(part)
            if any(own):
                found.append(part.filter(pa.array(own)))
        return found[0] if len(found) == 1 else ConcatenatedBatch(found)

    def decode(self, schema: object, mode: DecodeMode, rules: JsonRules, *, binary: bool = False) -> ConcatenatedBatch:
        """Decodes payloads: `value` replaces `data`."""
        return ConcatenatedBatch([part.decode(schema, mode, rules, binary=binary) for part in self.parts])

    def __arrow_c_schema__(self) -> object:
        return self.parts[0].__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object | None = None) -> Any:
        pa = needs_pyarrow("a batch of several fetches")
        table = pa.Table.from_batches([pa.record_batch(part) for part in self.parts]).combine_chunks()
        return table.to_batches()[0].__arrow_c_array__(requested_schema)


class PendingAcks:
    """Fetched messages that are kept from redelivery until they are acknowledged or terminated."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.parts: list[_jetarrow.Batch] = []
        self._settled: set[int | None] = set()

    def settle(self, seqs: Iterable[int | None]) -> None:
        """Records messages as acknowledged, nak'd or terminated."""
        self._settled.update(seqs)

    async def send_ack(self, kind: AckVerb) -> None:
        """Sends an ack of a kind for all messages that are not settled."""
        session, settled = self._session, set(self._settled)
        for part in tuple(self.parts):
            rows = [row for row, seq in enumerate(part.seqs.to_pylist()) if seq not in settled] if settled else None
            if rows != []:
                await session.run(session.native.ack_rows(part, kind, rows))


class HeldBatch(MessageBatch):
    """A batch of `sub.batches(rows=...)`: kept from redelivery until it is acknowledged, nak'd or terminated."""

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
        """Each native batch, and its selected rows."""
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
    """Converts row numbers or a mask, of any library, to row numbers.

    Raises:
        IndexError: The row does not exist.
        ValueError: The mask has another length.
    """
    for name in ("to_pylist", "tolist", "to_list"):
        if hasattr(rows, name):
            rows = getattr(rows, name)()
            break
    rows = list(rows)
    if rows and all(isinstance(row, bool) or row is None for row in rows):
        if len(rows) != length:
            raise ValueError(f"the mask has {len(rows)} entries for {length} rows; pass one bool per row")
        return [number for number, chosen in enumerate(rows) if chosen]
    found = [int(row) + length if row < 0 else int(row) for row in rows]
    for row, number in zip(rows, found, strict=True):
        if not 0 <= number < length:
            raise IndexError(f"row {row} of {length}")
    return found


class BatchCollector:
    """One iteration of `batches`: the rows that it collects, and the batches that it has returned."""

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
        # Seconds of fetches without an answer since the last one that had one.
        self._silent = 0.0
        self._gathering = PendingAcks(sub._session)
        # Weak references: the server redelivers the messages of a batch that the program has dropped.
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
        """Requests the consumer's `ack_wait`, and starts to send in-progress acks."""
        sub = self._sub
        config = (await sub.consumer_info()).config
        if config.ack_policy != models.AckPolicy.NONE:
            ack_wait = min([*(config.backoff or ()), config.ack_wait or DEFAULT_ACK_WAIT])
            # A row is at most a quarter of `ack_wait` old when a fetch returns it, and three quarters when its first
            # in-progress ack is sent.
            self._slice = ack_wait / 4
            self._stop = sub._session.repeat(ack_wait / 2, self._keep)
            if config.max_ack_pending and config.max_ack_pending > 0:
                # The consumer delivers no more before it receives acks.
                self._rows = min(self._rows, config.max_ack_pending)

    def is_full(self, held: int) -> bool:
        """Whether the consumer delivers no more while `held` messages are unacknowledged."""
        return held >= self._rows

    async def end(self) -> None:
        """Sends a nak for all unacknowledged messages."""
        if self._stop is not None:
            self._stop()
            # The server redelivers them at once, maybe to other clients.
            with suppress(Error):
                for hold in self._holds():
                    await hold.send_ack("nak")

    async def gather(self, *, rows: int, seconds: float) -> HeldBatch | None:
        """Collects one batch; None if no message arrived."""
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
        # While the connection is down nothing can be sent; the next attempt may be early enough.
        with suppress(Error):
            for hold in self._holds():
                await hold.send_ack("in_progress")

    def _holds(self) -> list[PendingAcks]:
        return [self._gathering, *(hold for held in self._out if (hold := held()))]

    async def _gather(self, rows: int, seconds: float) -> None:
        """Collects rows until a limit is reached, or the subscription has ended."""
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
                # The next message is larger than the rest of the bytes.
                if hold.parts:
                    return
                raise
            except TimeoutError:
                # A fetch may have a fraction of the time that other requests wait for an answer.
                self._silent = self._silent + now() - begun if sub._session.native.is_connected else 0.0
                if self._silent > sub._api.timeout:
                    raise
                continue
            self._silent = 0.0
            if len(batch):
                hold.parts.append(batch._native)
                rows -= len(batch)
                room -= batch.nbytes
                if now() - begun < wait * 0.9:
                    # The fetch ended early: the limit of bytes is reached, or the consumer waits for acks.
                    return
