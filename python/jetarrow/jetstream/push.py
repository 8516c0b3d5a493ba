"""Push subscriptions: a consumer sends its messages to a subject."""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from contextlib import suppress
from dataclasses import replace

from jetarrow import _jetarrow
from jetarrow.core.closed_event import ClosedEvent
from jetarrow.core.errors import Error, PermissionsViolationError
from jetarrow.core.subscription import Callback, Subscription
from jetarrow.jetstream import models
from jetarrow.jetstream.api import CONSUMER_NOT_FOUND, JetStreamApi
from jetarrow.jetstream.errors import (
    APIError,
    ConsumerSequenceMismatchError,
    NotFoundError,
    StreamRolledBackError,
)
from jetarrow.jetstream.literals import OnRollback
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.manage.consumers import put_consumer
from jetarrow.jetstream.not_found import expect_not_found
from jetarrow.jetstream.rollback import Mark, thin, verify

# Missed heartbeats after which a consumer counts as lost (ADR-17).
MISSED_HEARTBEATS = 2
# Seconds between attempts to recreate a lost ordered consumer.
RETRY_DELAY = 0.25


# Seconds that the server has to answer whether a consumer still exists.
PROBE_TIMEOUT = 1.0

# Default seconds between heartbeats of an ordered consumer.
HEARTBEAT = 5.0


def ordered_config(config: models.ConsumerConfig) -> models.ConsumerConfig:
    """The configuration of an ordered consumer, which is recreated when messages are missing (ADR-17)."""
    return replace(
        config,
        flow_control=True,
        ack_policy=models.AckPolicy.NONE,
        max_deliver=1,
        ack_wait=22 * 3600,
        idle_heartbeat=config.idle_heartbeat or HEARTBEAT,
        num_replicas=1,
        mem_storage=True,
    )


class PushSubscription(Subscription):
    """Receives the messages of a push consumer. Created by `js.subscribe`.

    An ordered one recreates its consumer at the next sequence when a message or the heartbeats are missing. On an event
    loop it watches the heartbeats also while the program reads no messages.
    """

    # Whether a lost consumer is replaced before the program reads the next message.
    _watched = True

    def __init__(
        self,
        api: JetStreamApi,
        stream: str,
        consumer: str,
        config: models.ConsumerConfig,
        *,
        cb: Callback | None,
        ordered: bool,
        limits: tuple[int, int],
        on_rollback: OnRollback = "fail",
    ) -> None:
        session = api.session
        super().__init__(session, session.next_sid(), config.deliver_subject or "", config.deliver_group or "", cb)
        self._limits = limits
        self._api = api
        self._stream = stream
        self._consumer = consumer
        self._config = config
        self._ordered = ordered
        heartbeat = config.idle_heartbeat
        self._silence = float(heartbeat) * MISSED_HEARTBEATS if ordered and heartbeat else None
        # For an ordered consumer: the last sequence, marks of received messages, and the numbers of messages that its
        # former consumers delivered, and that were dropped.
        self._seq = 0
        self._marks: list[Mark] = []
        self._on_rollback = on_rollback
        self._delivered = self._dropped = 0
        # Number of messages after which it ends.
        self._limit: int | None = None
        self._resetting = session.lock()
        # Consumers created while messages of the former one are still buffered; and the subscription that they replace.
        self._successors: deque[tuple[_jetarrow.Subscription, models.ConsumerInfo]] = deque()
        self._given_up: _jetarrow.Subscription | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._closed_event = ClosedEvent(session)
        # The error that prevents another consumer.
        self._failure: Error | None = None

    async def _start(self) -> None:
        await self._open("ordered" if self._ordered else "push")
        if self._watched and self._silence is not None and self._task is None and not self._session.is_blocking:
            self._watcher = asyncio.get_running_loop().create_task(self._watch(self._silence))

    async def _watch(self, silence: float) -> None:
        """Replaces a lost consumer, also while the program reads no messages."""
        try:
            while not self._closed:
                native = self._newest
                ready = await self._session.run(native.quiet(silence))
                if ready == "ended" and native is not self._given_up:
                    break
                if not await self._replace(native, sure=ready != "relinked"):
                    break
        except Exception as error:
            self._session.report_error(error)
        finally:
            self._unregister()

    async def _replace(self, native: _jetarrow.Subscription, *, sure: bool, deadline: float | None = None) -> bool:
        """Replaces a lost consumer unless another task has just done so; False if it cannot be replaced.

        Args:
            native: The subscription of the lost consumer.
            sure: Whether it is known to be lost; otherwise the server is asked.
            deadline: Time after which it is not tried again.
        """
        with await self._resetting.turn():
            if self._newest is not native or self._closed or not (sure or await self._lost()):
                return True
            return await self._reset(deadline)

    async def _lost(self) -> bool:
        """Whether the server answers that the consumer does not exist, for example after a restart of the server."""
        try:
            with expect_not_found():
                await self._api.request(f"CONSUMER.INFO.{self._stream}.{self._consumer}", timeout=PROBE_TIMEOUT)
        except NotFoundError as error:
            return error.err_code == CONSUMER_NOT_FOUND
        except Error:
            return False
        return False

    @property
    def _newest(self) -> _jetarrow.Subscription:
        return self._successors[-1][0] if self._successors else self._native

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of consumer {self._consumer} of stream {self._stream}>"

    @property
    def is_closed(self) -> bool:
        """Whether it has ended, or its connection has."""
        return self._closed or self._session.is_closed

    @property
    def closed(self) -> ClosedEvent:
        """An event of its end: `await sub.closed`; in threads `sub.closed.wait(timeout)`."""
        return self._closed_event.watch_connection()

    def _unregister(self) -> None:
        super()._unregister()
        self._closed_event.set()

    async def destroy(self) -> None:
        """Ends the subscription, and deletes its consumer if that still exists."""
        if not self.is_closed:
            await self.unsubscribe()
        with expect_not_found(), suppress(NotFoundError):
            await Management(self._api).delete_consumer(self._stream, self._consumer)

    async def consumer_info(self) -> models.ConsumerInfo:
        """Configuration and state of the consumer.

        Raises:
            NotFoundError: The consumer does not exist any more.
        """
        return await Management(self._api).consumer_info(self._stream, self._consumer)

    def _on_notice(self, dropped: int, missed: _jetarrow.Missed | None) -> None:
        if missed is not None:
            self._session.report_error(
                ConsumerSequenceMismatchError(
                    stream_resume_sequence=missed.seq,
                    consumer_sequence=missed.consumer_seq,
                    last_consumer_sequence=missed.last_consumer_seq,
                )
            )
        elif not self._ordered:
            super()._on_notice(dropped, missed)

    async def _wait_ready(self, wait: float | None) -> str:
        if not self._ordered:
            return await super()._wait_ready(wait)
        deadline = None if wait is None else self._session.now() + wait
        while True:
            left = None if deadline is None else max(deadline - self._session.now(), 0.0)
            native = self._native
            ready = await self._session.run(native.ready(self._silence, left))
            if ready in ("messages", "late"):
                return ready
            if ready == "relinked":
                await self._replace(native, sure=False, deadline=deadline)
                continue
            over = self._closed or self._session.is_closed or (ready == "ended" and native is not self._given_up)
            if self._successors or not over:
                if await self._reset_once(native, deadline):
                    continue
                if not self._closed and deadline is not None:
                    return "late"
            if native.pending_msgs:
                return "messages"
            if isinstance(self._failure, StreamRolledBackError):
                raise self._failure
            return "ended"

    def _end(self) -> None:
        super()._end()
        if self._watcher is not None:
            self._watcher.cancel()
        for native, _ in self._successors:
            native.unsubscribe()

    async def _drain(self) -> None:
        # No consumer replaces the one that is drained.
        self._limit = 0
        await super()._drain()

    def _unsubscribe_after(self, limit: int) -> bool:
        left = limit - self._kept
        if left <= 0 and not self.pending_msgs:
            return False
        self._limit, native = limit, self._newest
        if left > 0:
            native.unsubscribe(native.delivered - native.dropped + left)
        else:
            native.end()
        return True

    async def _reset_once(self, native: _jetarrow.Subscription, deadline: float | None) -> bool:
        """Recreates the consumer unless another waiting task has just done so; False if it was not recreated."""
        with await self._resetting.turn():
            if self._native_sub is native:
                if not self._successors and not await self._reset(deadline):
                    return False
                # Messages that arrived since the caller found none are delivered first; the successor follows them.
                if not native.pending_msgs:
                    self._delivered += native.delivered
                    self._dropped += native.dropped
                    self._native_sub, info = self._successors.popleft()
                    self._on_recreated(info)
            return True

    async def _reset(self, deadline: float | None) -> bool:
        """Creates a consumer that continues after the newest one; False if that is impossible.

        Also False, without being closed, if the deadline has passed after at least one attempt.
        """
        self._given_up = old = self._newest
        # A message that arrives from now on would be delivered by the new consumer too.
        old.end()
        self._seq = old.last_seq or self._seq
        self._marks = thin([*self._marks, *old.marks])
        session = self._session
        while not self._closed and not session.is_closed and self._left != 0:
            deliver = session.native.new_inbox()
            config = replace(self._recreated_config(), name=None, deliver_subject=deliver)
            fresh = self._subscribe(deliver, "", "ordered")
            self._limit_to_rest(fresh)
            try:
                info = await put_consumer(self._api, self._stream, config)
            except Error as error:
                fresh.unsubscribe()
                if isinstance(error, APIError) and error.code is not None and error.code < 500:
                    # The stream does not exist, or rejects this consumer.
                    session.report_error(error)
                    self._failure = error
                    break
                # Not connected, or no leader: retry until it succeeds.
                if deadline is not None and session.now() >= deadline:
                    return False
                await session.sleep(RETRY_DELAY)
                continue
            # Checked after the consumer was created, because a later rollback removes the consumer.
            same = await self._is_same_stream(fresh)
            # It may have been ended, or limited, meanwhile.
            if not same or self._closed or session.is_closed or self._left == 0:
                fresh.unsubscribe()
                with suppress(Error):
                    await Management(self._api).delete_consumer(self._stream, info.name)
                continue
            self._limit_to_rest(fresh)
            self._subject, self._consumer = deliver, info.name
            self._successors.append((fresh, info))
            return True
        self._closed = True
        self._unregister()
        return False

    def _limit_to_rest(self, fresh: _jetarrow.Subscription) -> None:
        if left := self._left:
            fresh.unsubscribe(left)

    async def _is_same_stream(self, fresh: _jetarrow.Subscription) -> bool:
        """Whether the stream is the one whose messages were received; False also if the check could not be made yet."""
        try:
            error = await self._find_rollback()
        except PermissionsViolationError:
            # The user has no permission to check the stream, so nothing contradicts it.
            return True
        except Error:
            await self._session.sleep(RETRY_DELAY)
            return False
        if error is None:
            return True
        if self._on_rollback != "fail" and isinstance(error, StreamRolledBackError):
            warnings.warn(str(error), stacklevel=2)
            self._resume_after_rollback(error)
            return False
        self._session.report_error(error)
        self._failure = error
        self._closed = True
        return False

    async def _find_rollback(self) -> Error | None:
        """The error of a stream that was rolled back; None if it was not."""
        return await verify(self._api, self._stream, self._marks)

    def _set_start(self, info: models.ConsumerInfo) -> None:
        """Records the start of a consumer of new messages, at which a replacement starts too.

        Args:
            info: The created consumer.
        """
        if info.config.deliver_policy == models.DeliverPolicy.NEW and info.delivered is not None:
            self._seq = info.delivered.stream_seq or 0

    def _resume_after_rollback(self, error: StreamRolledBackError) -> None:
        """Sets the position at which to continue in a stream that was rolled back."""
        good = error.last_good if self._on_rollback == "continue" else None
        self._seq = good[0] if good else 0
        if not good and self._config.deliver_policy != models.DeliverPolicy.LAST_PER_SUBJECT:
            # The configured start sequence or time was one of the other history.
            policy = models.DeliverPolicy.ALL
            self._config = replace(self._config, deliver_policy=policy, opt_start_seq=None, opt_start_time=None)
        self._marks = [mark for mark in self._marks if mark[0] <= self._seq]

    def _recreated_config(self) -> models.ConsumerConfig:
        """The configuration of a replacement for a lost consumer."""
        if not self._seq:
            return self._config
        return replace(
            self._config,
            deliver_policy=models.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._seq + 1,
            opt_start_time=None,
        )

    def _on_recreated(self, info: models.ConsumerInfo) -> None:
        """Called when a consumer has replaced a lost one."""

    @property
    def delivered(self) -> int:
        """The number of messages received so far."""
        return self._delivered + sum(native.delivered for native in self._natives)

    @property
    def dropped(self) -> int:
        """Number of messages dropped at the pending limits."""
        return self._dropped + sum(native.dropped for native in self._natives)

    @property
    def pending_msgs(self) -> int:
        """Number of received messages that are not consumed yet."""
        return sum(native.pending_msgs for native in self._natives)

    @property
    def pending_bytes(self) -> int:
        """Payload bytes of those messages."""
        return sum(native.pending_bytes for native in self._natives)

    @property
    def _natives(self) -> list[_jetarrow.Subscription]:
        return [self._native, *(native for native, _ in self._successors)]

    @property
    def _left(self) -> int | None:
        """Number of messages before its limit; None without one."""
        return None if self._limit is None else max(self._limit - self._kept, 0)

    @property
    def _kept(self) -> int:
        """Messages that the program gets or got; an ordered consumer delivers dropped ones again."""
        return self.delivered - self.dropped
