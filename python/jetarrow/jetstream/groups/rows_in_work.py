"""The rows of a member until they are acknowledged: kept in progress, or rejected."""

from __future__ import annotations

from weakref import ref

from jetarrow import _jetarrow
from jetarrow.core.session import Session
from jetarrow.jetstream.batch_collector import PendingAcks
from jetarrow.jetstream.groups.order import MemberOrder, Release
from jetarrow.jetstream.literals import AckVerb


class RowsInWork:
    """Acknowledges rows that the program has not acknowledged: those that wait for it, and those in its hands."""

    def __init__(self, session: Session, order: MemberOrder[_jetarrow.Batch], ack_wait: float) -> None:
        self._session, self._order, self._ack_wait = session, order, ack_wait
        # Weakly: a batch that the program drops is delivered again.
        self._out: list[tuple[ref[PendingAcks], Release[_jetarrow.Batch]]] = []

    def add(self, hold: PendingAcks, release: Release[_jetarrow.Batch]) -> None:
        """Adds released rows, which the program gets now."""
        self._out.append((ref(hold), release))

    def forget_dropped(self) -> None:
        """Takes batches that the program has dropped as rejected: their rows are delivered again."""
        kept: list[tuple[ref[PendingAcks], Release[_jetarrow.Batch]]] = []
        for held, release in self._out:
            if held() is not None:
                kept.append((held, release))
                continue
            due = self._session.now() + self._ack_wait
            for part in release.parts:
                self._order.rejected(release.epoch, release.partition, part.seqs, due=due)
        self._out = kept

    async def keep(self) -> None:
        """Keeps them from redelivery while this program has the pin."""
        await self._send("in_progress")

    async def reject(self) -> None:
        """Has them delivered again at once, if this program has the pin."""
        await self._send("nak")

    async def _send(self, kind: AckVerb) -> None:
        order, session = self._order, self._session
        if not order.is_fresh(session.now()):
            return
        for rows in order.held_rows:
            await session.run(session.native.ack_rows(rows, kind, None))
        epoch = order.epoch
        for held, release in list(self._out):
            if release.epoch == epoch == order.epoch and (hold := held()) is not None:
                await hold.send_ack(kind)
