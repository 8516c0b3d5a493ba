"""Batches of a member."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from jetarrow import _jetarrow
from jetarrow.core.errors import NoRespondersError
from jetarrow.core.session import Session
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.batch import MessageBatch
from jetarrow.jetstream.batch_collector import ConcatenatedBatch, HeldBatch, PendingAcks
from jetarrow.jetstream.group_errors import GroupPinLostError
from jetarrow.jetstream.groups.order import MemberOrder, Release
from jetarrow.jetstream.literals import AckVerb


class BatchOwner(Protocol):
    """The part of a member that its batches use."""

    _session: Session
    _order: MemberOrder[_jetarrow.Batch]
    _sending: set[object]

    async def _check_pin(self, epoch: int) -> None:
        """Raises `GroupPinLostError` if rows of an epoch belong to another program."""

    def _pin_lost(self) -> GroupPinLostError:
        """Returns that error."""


class GroupBatch(HeldBatch):
    """Messages of one partition of a consumer group, in their order.

    Acknowledgements raise `GroupPinLostError` if the messages belong to another program or member by then.
    """

    def __init__(
        self,
        member: BatchOwner,
        native: _jetarrow.Batch,
        hold: PendingAcks,
        release: Release[_jetarrow.Batch],
    ) -> None:
        super().__init__(member._session, native, hold)
        self._member, self._release = member, release

    @property
    def partition(self) -> int:
        """Number of the partition."""
        return self._release.partition

    def _like(self, native: _jetarrow.Batch) -> MessageBatch:
        return GroupBatch(self._member, native, self._hold, self._release)

    async def _ack(self, kind: AckVerb, rows: Iterable[int] | Iterable[bool] | None, **options: Any) -> None:
        chosen = self._by_part(rows)
        # A rebalance waits for it: a consumer that is deleted with a confirmation on the way never answers. Before the
        # check, because a rebalance in another thread may follow it.
        call = object()
        self._member._sending.add(call)
        try:
            await self._member._check_pin(self._release.epoch)
            await self._send(kind, chosen, options)
        finally:
            self._member._sending.discard(call)

    async def _send(
        self, kind: AckVerb, chosen: list[tuple[_jetarrow.Batch, list[int] | None]], options: dict[str, Any]
    ) -> None:
        session, order, release = self._session, self._member._order, self._release
        deadline = session.now() + options.get("confirm", 0.0)
        for part, own in chosen:
            if kind != "in_progress":
                # Before it is sent: rows that the server has taken must not count as in work here.
                seqs = part.seqs.to_pylist() if own is None else [part.seqs[row] for row in own]
                known = [seq for seq in seqs if seq is not None]
                self._hold.settle(known)
                if kind == "nak":
                    due = session.now() + (options.get("delay") or 0.0)
                    order.rejected(release.epoch, release.partition, known, due=due)
                else:
                    order.acknowledged(release.epoch, known)
            if "confirm" in options:
                options["confirm"] = max(deadline - session.now(), 0.001)
            try:
                await session.run(session.native.ack_rows(part, kind, own, **options))
            except BaseException as error:
                if kind in ("ack", "term"):
                    order.unconfirmed(release.epoch, release.partition, known, now=session.now())
                if isinstance(error, NoRespondersError):
                    # A rebalance has deleted the consumer since the check.
                    raise self._member._pin_lost() from error
                raise


def group_batch(member: BatchOwner, release: Release[_jetarrow.Batch]) -> tuple[GroupBatch, PendingAcks]:
    """Returns the batch of released rows, and what keeps them in progress while the batch exists."""
    hold = PendingAcks(member._session)
    hold.parts = [part.rows for part in release.parts]
    native: Any = hold.parts[0] if len(hold.parts) == 1 else ConcatenatedBatch(hold.parts)
    return GroupBatch(member, native, hold, release), hold


def seqs_of(rows: _jetarrow.Batch) -> list[int]:
    """Returns the sequences of rows."""
    return rows.seqs.to_pylist()  # type: ignore[return-value]  # without nulls


def cut(rows: _jetarrow.Batch, chosen: list[int]) -> _jetarrow.Batch:
    """Returns chosen rows, by their numbers."""
    pa: Any = needs_pyarrow("a consumer group after a takeover")
    # Not `pa.array`: it imports pandas, which takes seconds on a busy machine.
    bits = bytearray((len(rows) + 7) // 8)
    for row in chosen:
        bits[row >> 3] |= 1 << (row & 7)
    return rows.filter(pa.Array.from_buffers(pa.bool_(), len(rows), [None, pa.py_buffer(bits)]))
