"""Worker that is a member of a consumer group."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from jetarrow.core.errors import Error, TimeoutError
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.errors import FetchTimeoutError
from jetarrow.jetstream.groups.group_batch import GroupBatch
from jetarrow.jetstream.groups.member import GroupMember
from jetarrow.workers.core import BATCH_COLUMNS, Core
from jetarrow.workers.dead_letter import DeadLetterStore
from jetarrow.workers.ledger import Decision, Item
from jetarrow.workers.settlement import CONFIRM_TIME, Context, log

# Default of the members of a group.
_ACK_WAIT = 5.0
# Longest request in seconds: the stop of a worker waits for it.
_REQUEST_TIME = 1.0
# Seconds for which rows are collected for single messages.
_COLLECT = 0.02


class GroupSource:
    """The messages of a member, as a worker requests them."""

    def __init__(self, member: GroupMember, columns: Sequence[str] | None) -> None:
        self._member = member
        member._columns = None if columns is None else list(columns)

    @property
    def _closed(self) -> bool:
        return self._member.is_closed

    async def fetch_batch(
        self, rows: int, *, max_bytes: int | None, timeout: float, seconds: float = _COLLECT
    ) -> GroupBatch:
        """Returns the next batch of one partition.

        Raises:
            FetchTimeoutError: There is none within `timeout` seconds.
            Error: The group has ended the member.
        """
        member = self._member
        ready = member._order.ready
        while True:
            if not ready:
                most = min(rows, member._max_ack_pending)
                await member._collect(most, seconds, max_bytes or 1 << 26, wait=timeout)
            if not ready:
                if member._failure is not None:
                    raise member._failure
                if member.is_closed:
                    raise Error(f"group {member._name!r} has ended its member {member.name!r}")
                raise FetchTimeoutError
            if (batch := await member._next_ready()) is not None:
                return batch

    async def unsubscribe(self) -> None:
        """Leaves the group."""
        await self._member.close()


class GroupCore(Core):
    """A worker's core whose messages come from a member of a group, and are acknowledged through it."""

    def __init__(self, js: JetStreamContext, plan: Any, **more: Any) -> None:
        super().__init__(js, plan, **more)
        # Batch and row of each message in the ledger.
        self._rows: dict[int, tuple[GroupBatch, int]] = {}
        # One partition's messages are handled one after the other.
        self.ledger.ordered = True

    async def open(self) -> None:
        """Joins the group."""
        plan = self.plan
        self.ack_wait = plan.ack_wait or _ACK_WAIT
        name = str(plan.member)
        member = self.js.consumer_group(
            plan.stream,
            str(plan.group),
            member=name,
            ack_wait=self.ack_wait,
            max_ack_pending=max(self.ledger.limit, plan.rows if self.is_batch else 1, 1_000),
        )
        await member.open()
        group = member._group
        assert group is not None
        self.dead_letters = DeadLetterStore(self.js, group.work_queue, group.consumer_of(name), plan.dead_letter)
        try:
            await self.dead_letters.prepare([])
        except BaseException:
            await member.close()
            raise
        member._is_iterating = True
        self.source = GroupSource(member, BATCH_COLUMNS if self.is_batch else None)
        self.sub = self.source  # type: ignore[assignment]  # the part of it that a worker uses
        self.key = plan.key_function([]) or self._partition

    def _partition(self, message: Any) -> Hashable:
        return self._rows[message.seq][0].partition

    def _part(self, batch: Any, rows: list[int], of: int) -> Item:
        item = super()._part(batch, rows, of)
        item.key = batch.partition
        return item

    def kept(self) -> list[Item]:
        """Nothing: the member keeps the batches that it has released."""
        return []

    async def request(self, most: int, rows: int, *, wait: float, most_bytes: int | None) -> tuple[Decision, ...]:
        """Makes one request to the member."""
        wait = min(wait, _REQUEST_TIME)
        if self.is_batch:
            batch = await self.source.fetch_batch(rows, max_bytes=most_bytes, timeout=wait, seconds=self.plan.seconds)
            return self.arrive_batch(batch)
        batch = await self.source.fetch_batch(most, max_bytes=most_bytes, timeout=wait)
        messages = [batch[row] for row in range(len(batch))]
        for row, message in enumerate(messages):
            self._rows[message.seq or 0] = (batch, row)
        return self.arrive(messages, 0.0)

    def acknowledge(self, decisions: tuple[Decision, ...], context: Context) -> bool:
        """Leaves every ack to `settle`, which checks that the member still has its messages."""
        return False

    async def _send(self, decision: Decision, kind: str, context: Context, **options: Any) -> None:
        await self._through(decision.item, kind, decision.rows, context, **({} if kind == "ack" else options))

    async def _confirm(self, item: Item, context: Context) -> None:
        await self._through(item, "ack", None, context, confirm=CONFIRM_TIME)

    async def _through(
        self, item: Item, kind: Any, rows: Sequence[int] | None, context: Context, **options: Any
    ) -> None:
        """Sends an ack through the batch of a message."""
        if self.is_batch:
            batch: GroupBatch = item.message
            chosen = None if rows is None else list(rows)
        else:
            found = self._rows.pop(item.seqs[0], None)
            if found is None:
                # Its ack is being confirmed, and the drain ends: the server has the ack, or delivers it again.
                return
            batch, row = found
            chosen = [row]
            if not item.message._claim():
                # The handler has acknowledged or rejected it.
                batch._member._order.released(batch._release.epoch, item.seqs)
                return
        try:
            await context.store(batch._ack(kind, chosen, **options))
        except (Error, TimeoutError, ValueError) as error:
            # It is delivered again, maybe to another member.
            log.warning("could not send %s for %s: %s", kind, self.name_of(item), error)


def core_of(js: JetStreamContext, plan: Any, **more: Any) -> Core:
    """Returns the core of a worker.

    Args:
        js: The context.
        plan: The options.
        **more: As for `Core`.
    """
    return Core(js, plan, **more) if plan.group is None else GroupCore(js, plan, **more)
