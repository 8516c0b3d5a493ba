"""A program that runs as a member of a consumer group."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import NoReturn

from jetarrow import _jetarrow
from jetarrow.core.errors import BadSubscriptionError, Error, TimeoutError, UnsupportedError
from jetarrow.jetstream.api_errors import APIError, NotFoundError, ServiceUnavailableError
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.group_errors import GroupError, GroupPinLostError
from jetarrow.jetstream.groups.config import PRIORITY_GROUP
from jetarrow.jetstream.groups.group import ConsumerGroup, open_group
from jetarrow.jetstream.groups.group_batch import GroupBatch, cut, group_batch, seqs_of
from jetarrow.jetstream.groups.membership import CORRECTION, Membership, pinned_id_of, pinned_time
from jetarrow.jetstream.groups.order import MemberOrder, Part
from jetarrow.jetstream.groups.rows_in_work import RowsInWork
from jetarrow.jetstream.kv.key_values import KeyValues
from jetarrow.jetstream.literals import GroupKind

# Most seconds of one fetch: the entry of the group is read between two.
SLICE = 0.5
# Seconds of a fetch in the background, or after a long pause: an answer with status 423 arrives within that.
SHORT = 0.05
# Seconds between two looks at a member without a consumer.
IDLE = 0.1
# Most seconds for which a rebalance waits for acknowledgements, and seconds between two looks.
ACK_GRACE, ACK_LOOK = 1.0, 0.002


class GroupMember:
    """A program that runs as a member of a partitioned consumer group. Created by `js.consumer_group`."""

    def __init__(
        self,
        js: KeyValues,
        stream: str,
        name: str,
        member: str,
        *,
        kind: GroupKind | None,
        ack_wait: float,
        max_ack_pending: int,
    ) -> None:
        self._js, self._stream, self._name, self._kind = js, stream, name, kind
        self._session = js._api.session
        self._ack_wait, self._max_ack_pending = ack_wait, max_ack_pending
        self.name = member
        self._order: MemberOrder[_jetarrow.Batch] = MemberOrder(ack_wait, pinned_time(ack_wait), cut)
        self._group: ConsumerGroup | None = None
        self._membership: Membership | None = None
        self._lock = self._session.lock()
        self._stop: Callable[[], None] | None = None
        self._columns: Sequence[str] | None = None
        self._is_iterating = self._is_closed = False
        self._rows = RowsInWork(self._session, self._order, ack_wait)
        # Acknowledgements that are being sent.
        self._sending: set[object] = set()
        self._failure: Error | None = None
        # Time and bytes at which the collection of the held rows ends, if a call has left it.
        self._collecting: tuple[float, int] | None = None
        self._ticks = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} of group {self._name} of {self._stream}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("could not pickle or copy a GroupMember: it belongs to a connection")

    @property
    def partitions(self) -> list[int]:
        """The partitions of the member; empty while it waits for its membership or for another one's partitions."""
        return [] if self._membership is None else self._membership.partitions

    @property
    def is_pinned(self) -> bool:
        """Whether this program gets the messages of the member. Others under its name are on standby."""
        return self._order.is_fresh(self._session.now())

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or the group has ended it."""
        return self._is_closed or (self._membership is not None and self._membership.is_over)

    async def open(self) -> None:
        """Joins the group; `async with` and the first iteration do so.

        Raises:
            GroupNotFoundError: The group, or the work queue of an elastic group, does not exist.
            GroupConfigError: The entry is invalid, or the consumer of a static group has other settings.
            GroupMemberError: The group is static and has no such member.
            GroupError: The member was closed.
        """
        if self._is_closed:
            raise GroupError(f"member {self.name!r} was closed: create another one with js.consumer_group()")
        if self._membership is not None:
            return
        with suppress(UnsupportedError):
            # Here: its import takes seconds on a busy machine, and a pin would be lost.
            needs_pyarrow("a consumer group")
        self._group = await open_group(self._js, self._stream, self._name, self._kind)
        wait, most = self._ack_wait, self._max_ack_pending
        membership = Membership(
            self._js, self._group, self.name, ack_wait=wait, max_ack_pending=most, quiet=self._quiet
        )
        try:
            await membership.open()
        except BaseException:
            await membership.close()
            raise
        self._membership = membership
        self._stop = self._session.repeat(pinned_time(self._ack_wait) / 4, self._tick)

    async def __aenter__(self) -> GroupMember:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def batches(
        self,
        *,
        rows: int = 50_000,
        seconds: float = 1.0,
        bytes: int = 64 * 1024 * 1024,
        columns: Sequence[str] | None = None,
    ) -> AsyncIterator[GroupBatch]:
        """Yields batches of one partition each: `async for batch in member.batches(rows=1000)`.

        The rows of a partition come in the order of the stream, also after a takeover or a rejected row: later rows of
        a partition wait for those that are delivered again. Batches are kept from redelivery until they are
        acknowledged or garbage collected. The iteration ends if the group is deleted. Acknowledgements raise
        `GroupPinLostError` if another program or member has the messages by then.

        Args:
            rows: Most rows that are collected, of all partitions; the member's `max_ack_pending`, if that is less.
            seconds: Seconds for which rows are collected.
            bytes: Bytes of messages, as the server counts them, at which collecting ends.
            columns: Columns of the batches, as for `fetch_batch`, with `subject` always.

        Raises:
            GroupNotFoundError: As `open`.
            GroupMemberError: As `open`.
            GroupConfigError: As `open`, or the entry became invalid.
            GroupChangedError: The group was changed so that its members end.
            GroupError: The member was closed, or another iteration runs.
            UnsupportedError: Rows were collected in several fetches, and pyarrow is not installed.
            ValueError: A limit is not positive, or a message is larger than `bytes`.
        """
        if rows < 1 or bytes < 1 or not seconds > 0:
            raise ValueError(f"rows, seconds and bytes must be positive, not {rows}, {seconds} and {bytes}")
        await self.open()
        if self._is_iterating:
            raise GroupError(f"member {self.name!r} is iterated already: share one iteration")
        self._columns = None if columns is None else list(dict.fromkeys([*columns, "subject"]))
        self._is_iterating = True
        try:
            while not self.is_closed:
                await self._collect(min(rows, self._max_ack_pending), seconds, bytes)
                while self._order.ready:
                    if (batch := await self._next_ready()) is not None:
                        yield batch
                    del batch
            if self._failure is not None:
                raise self._failure
        finally:
            self._is_iterating = False

    async def _next_ready(self) -> GroupBatch | None:
        """The batch of the next released rows; None if they belong to another program by then."""
        release = self._order.ready.popleft()
        try:
            await self._check_pin(release.epoch)
        except GroupPinLostError:
            return None
        except BaseException:
            self._order.ready.appendleft(release)
            raise
        batch, hold = group_batch(self, release)
        self._rows.add(hold, release)
        return batch

    async def _collect(self, rows: int, seconds: float, bytes: int, *, wait: float = math.inf) -> None:
        """Makes the next rows ready; none at the end, and if there are none within `wait` seconds."""
        session, order, membership = self._session, self._order, self._membership
        assert membership is not None
        deadline, room = self._collecting or (session.now() + seconds, bytes)
        self._collecting = None
        until = session.now() + wait
        while not self.is_closed and session.now() < until:
            with await self._lock.turn():
                await self._follow()
                if self.is_closed:
                    break
                self._rows.forget_dropped()
                order.take_back()
                begun = session.now()
                # Until it is known who has the pin, or while rows wait for others, each arrival may change that.
                is_hasty = order.is_waiting or not order.is_fresh(begun)
                left = min(deadline - begun, SLICE, self._ack_wait / 4)
                if membership.sub is None:
                    count = size = 0
                else:
                    most = self._max_ack_pending if is_hasty else max(1, rows - order.held)
                    wait = max(left, SHORT)
                    count, size = await self._fetch(
                        most, wait, 1 if is_hasty else most, room if room < bytes else bytes
                    )
                now = session.now()
                room -= size
                ended_early = count > 0 and now - begun < left * 0.9 and not is_hasty
                if order.held >= rows or now >= deadline or room <= 0 or ended_early:
                    if found := order.release(rows, now):
                        order.ready.extend(found)
                        return
                    deadline, room = now + seconds, bytes
            if not count and now - begun < SHORT:
                await session.sleep(IDLE if membership.sub is None else SHORT)
        if order.held:
            # The next call goes on: otherwise a short `wait` would never reach `seconds`.
            self._collecting = deadline, room

    async def _fetch(self, most: int, wait: float, min_messages: int, max_bytes: int) -> tuple[int, int]:
        """Fetches rows for the order. Returns their number and bytes."""
        membership, order, session = self._membership, self._order, self._session
        assert membership is not None
        sub = membership.sub
        assert sub is not None
        started = session.now()
        try:
            batch = await sub.fetch_batch(
                most,
                max_bytes=max_bytes,
                timeout=wait,
                min_messages=min_messages,
                columns=self._columns,
                group=PRIORITY_GROUP,
            )
        except (NotFoundError, APIError) as error:
            if not isinstance(error, NotFoundError) and "eleted" not in (error.description or ""):
                raise
            order.forget_consumer()
            await membership.rejoin(session.now())
            return 0, 0
        except (BadSubscriptionError, TimeoutError):
            # Closed, or the connection is down: the next fetch waits for it.
            return 0, 0
        native, count = batch._native, len(batch)
        size = batch.nbytes if count else 0
        parts = [Part(int(token), seqs_of(rows), rows) for token, rows in native.by_first_token()] if count else []
        refused = order.fetched(
            parts,
            pin=sub._native.pin(PRIORITY_GROUP),
            started=started,
            now=session.now(),
            is_last=count < most and size < max_bytes // 2,
        )
        for kind, batches in (("nak", refused.reject), ("ack", refused.repeat)):
            for rows in batches:
                await session.run(session.native.ack_rows(rows, kind, None))
        if order.is_waiting:
            await self._count()
        return count, size

    async def _count(self) -> None:
        assert self._membership is not None
        with suppress(TimeoutError, NotFoundError):
            info = await self._membership.info()
            if self._order.checked(pinned_id_of(info)):
                self._order.counted(info.num_ack_pending or 0)

    async def _follow(self) -> None:
        membership, order = self._membership, self._order
        assert membership is not None
        before = membership.sub
        try:
            await membership.follow(order.pin, self._session.now())
        except TimeoutError:
            pass
        except ServiceUnavailableError as error:
            # JetStream starts, or a leader is elected: the rebalance is repeated.
            self._session.report_error(error)
            await self._session.sleep(CORRECTION)
        except Error as error:
            self._failure = error
            membership.is_over = True
            membership.drop()
        finally:
            if membership.sub is not before:
                order.forget_consumer()

    async def _quiet(self) -> None:
        """Refuses acknowledgements from now on, and waits for those that are being sent."""
        self._order.forget_consumer()
        deadline = self._session.now() + min(ACK_GRACE, self._ack_wait / 4)
        while self._sending and self._session.now() < deadline:
            await self._session.sleep(ACK_LOOK)

    async def _check_pin(self, epoch: int) -> None:
        """Checks that rows of an epoch belong to this program.

        Raises:
            GroupPinLostError: They do not.
        """
        answer = self._order.may_ack(epoch, self._session.now())
        if answer == "ask":
            assert self._membership is not None
            answer = "yes" if self._order.checked(await self._membership.pinned_id()) else "no"
            if self._order.epoch != epoch:
                answer = "no"
        if answer == "no":
            raise self._pin_lost()

    def _pin_lost(self) -> GroupPinLostError:
        return GroupPinLostError(
            f"the messages of member {self.name!r} of group {self._name!r} belong to another program or member: this"
            " one hung, stepped down or was rebalanced; they are delivered again, so drop the batch"
        )

    async def _tick(self) -> None:
        """Keeps messages in progress, the pin and the membership while the program works on a batch."""
        self._ticks += 1
        with suppress(Error):
            if self._ticks % 2 == 0:
                await self._rows.keep()
            with await self._lock.turn():
                if self.is_closed:
                    return
                await self._follow()
                membership, now = self._membership, self._session.now()
                is_recent = now - self._order.confirmed < pinned_time(self._ack_wait) / 5
                if self._is_iterating and membership is not None and membership.sub is not None and not is_recent:
                    await self._fetch(1, SHORT, 1, 64 * 1024 * 1024)

    async def step_down(self) -> None:
        """Has another program that runs under the member's name take over, if there is one.

        Rows that this program has in work are delivered again, there; their acknowledgements are refused.

        Raises:
            GroupError: The member is not open.
        """
        if self._membership is None or self._group is None or self.is_closed:
            raise GroupError(f"member {self.name!r} is not open")
        with await self._lock.turn():
            await self._rows.reject()
            await self._group.step_down(self.name)
            self._order.checked(None)

    async def close(self) -> None:
        """Leaves: unacknowledged messages are delivered again, to another program under the member's name.

        The consumer stays. An elastic group keeps the messages until a program of the member starts.
        """
        if self._is_closed:
            return
        self._is_closed = True
        if self._stop is not None:
            self._stop()
        if self._membership is None or self._group is None:
            return
        with await self._lock.turn():
            with suppress(Error):
                if self.is_pinned:
                    await self._rows.reject()
                    await self._group.step_down(self.name)
            self._order.forget_consumer()
            await self._membership.close()
