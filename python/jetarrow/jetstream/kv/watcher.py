"""Watcher of keys, and its ordered subscription."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, ClassVar, cast

from jetarrow._jetarrow import Entries
from jetarrow.core.arguments import seconds
from jetarrow.core.errors import BadSubscriptionError, ConnectionClosedError, Error, TimeoutError
from jetarrow.jetstream import models
from jetarrow.jetstream.api import STREAM_NOT_FOUND, JetStreamApi
from jetarrow.jetstream.errors import APIError, BucketNotFoundError, StreamRecreatedError, StreamRolledBackError
from jetarrow.jetstream.kv.entry import Entry
from jetarrow.jetstream.literals import OnRollback
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.manage.consumers import put_consumer
from jetarrow.jetstream.push import HEARTBEAT, PushSubscription

# Seconds without a message after which the consumer is checked for pending initial values.
CHECK = 1.0
# Timeout in seconds of the deletion of the consumer.
DELETE_WAIT = 0.25
# Number of entries created at a time, after which the event loop runs other tasks.
BURST = 512
# Maximum number of buffered messages, and of their bytes; flow control of the server holds back more.
LIMITS = (512 * 1024, 128 * 1024 * 1024)


class Updates(PushSubscription):
    """Ordered subscription of a watch. A recreated consumer resumes at its position, even before the first message."""

    # The position to resume at depends on the messages taken by the watcher.
    _watched = False

    def __init__(
        self,
        api: JetStreamApi,
        stream: str,
        config: models.ConsumerConfig,
        created: datetime | None,
        on_rollback: OnRollback = "fail",
    ) -> None:
        config = config.evolve(
            deliver_subject=api.session.native.new_inbox(),
            flow_control=True,
            idle_heartbeat=HEARTBEAT,
            ack_policy=models.AckPolicy.NONE,
            max_deliver=1,
            ack_wait=22 * 3600,
            num_replicas=1,
            mem_storage=True,
        )
        super().__init__(api, stream, "", config, cb=None, ordered=True, limits=LIMITS, on_rollback=on_rollback)
        # Creation time of the stream of its revisions.
        self._of = created
        # Number of initial values of this consumer, and whether all of them were taken.
        self.initial = 0
        self.complete = False
        # Whether `_seq` is the position to resume at.
        self._known = False
        # Last revision after a rollback; `floor` is the same once the entries received before it were taken.
        self._back: int | None = None
        self.floor: int | None = None

    async def open(self) -> None:
        """Subscribe, then create the consumer."""
        await self._start()
        try:
            info = await put_consumer(self._api, self._stream, self._config)
        except BaseException:
            self._end()
            raise
        self._consumer = info.name
        self._on_recreated(info)

    async def _find_rollback(self) -> Error | None:
        info = await Management(self._api).stream_info(self._stream)
        if self._of not in (None, info.created):
            # Revisions of the new stream begin with 1, so a watch for the next revision of the old one would be silent.
            return StreamRecreatedError()
        return await super()._find_rollback()

    def _resume_after_rollback(self, error: StreamRolledBackError) -> None:
        super()._resume_after_rollback(error)
        self._back = self._seq
        if not self._seq:
            self._known = False

    def _recreated_config(self) -> models.ConsumerConfig:
        if not self.complete and self._config.deliver_policy == models.DeliverPolicy.LAST_PER_SUBJECT:
            # Values delivered before are delivered again and skipped: a consumer from the next sequence on would
            # deliver values that are not the last ones of their keys.
            return self._config
        config = super()._recreated_config()
        if self._known and not self._seq:
            # The bucket was empty, so all of its messages are new.
            return config.evolve(deliver_policy=models.DeliverPolicy.ALL)
        return config

    def _on_recreated(self, info: models.ConsumerInfo) -> None:
        self.floor, self._back = self._back, None
        sent, last = (0, 0) if info.delivered is None else (info.delivered.consumer_seq, info.delivered.stream_seq)
        self.initial = sent + (info.num_pending or 0)
        if not self.initial:
            # There are no initial values, so the watch continues after the last sequence.
            self.complete, self._seq, self._known = True, max(self._seq, last), True

    async def remove(self) -> None:
        """Stop the subscription and delete the consumer if the server is reachable."""
        if self._closed:
            return
        self._end()
        with suppress(Error):
            await self._api.request(f"CONSUMER.DELETE.{self._stream}.{self._consumer}", timeout=DELETE_WAIT)

    @property
    def failure(self) -> Error | None:
        """The error that ended the subscription; None if it is active or was stopped."""
        return self._failure

    async def check(self) -> None:
        """Set `complete` if the last initial values were deleted before they were delivered."""
        with suppress(Error):
            info = await Management(self._api).consumer_info(self._stream, self._consumer)
            sent = 0 if info.delivered is None else info.delivered.consumer_seq
            if not info.num_pending and sent <= self._native.delivered and not self._native.pending_msgs:
                self.complete = True


class StopIterSentinel:
    """Sentinel for the end of a watch."""


class KeyWatcher:
    """Watcher of keys. Created by `kv.watch`; public as `KeyValue.KeyWatcher`.

    It yields the existing values, then None exactly once, then every change: `async for entry in watcher`, or
    `await watcher.updates()`. It resumes after restarts, leader changes and the deletion of its consumer, without gaps
    or repeated revisions.
    """

    # Any, because it is returned only after `stop`.
    STOP_ITER: ClassVar[Any] = StopIterSentinel()

    def __init__(self, updates: Updates, bucket: str, prefix: str, *, ignore_deletes: bool) -> None:
        self._sub = updates
        self._bucket = bucket
        self._entries = Entries(Entry, bucket, len(prefix.encode()))
        # Created and not returned yet.
        self._waiting: deque[Entry | None] = deque()
        self._ignore_deletes = ignore_deletes
        self._last = 0
        self._initial_done = False
        self._stopped = False
        self._end_reported = False

    def __repr__(self) -> str:
        state = "stopped" if self._stopped else "watching" if self._initial_done else "reading the initial values"
        return f"<KeyWatcher: bucket {self._bucket!r}, {state}>"

    def _fill(self) -> None:
        """Create entries of the received messages."""
        sub = self._sub
        if sub.floor is not None:
            # After a rollback, later revisions are other messages.
            self._last, sub.floor = min(self._last, sub.floor), None
        entries, complete = sub._native.take_entries(
            self._entries, self._last, not self._ignore_deletes, sub.initial, BURST
        )
        if entries:
            self._last = entries[-1].revision
        if sub.complete:
            # There are no more initial values: further messages are changes.
            complete = 0
        if complete is not None and not self._initial_done:
            sub.complete = self._initial_done = True
            entries.insert(complete, None)
        self._waiting.extend(entries)

    async def _next(self, timeout: float | None) -> Entry | None:
        """Return the next entry, or the None after the initial values.

        Raises:
            BadSubscriptionError: The watch was stopped.
        """
        sub, waiting = self._sub, self._waiting
        session = sub._session
        timeout = seconds("timeout", timeout)
        deadline = None if timeout is None else session.now() + timeout
        while True:
            if not waiting:
                self._fill()
                if len(waiting) >= BURST:
                    # Runs other tasks. Entries remain buffered if the wait is cancelled.
                    await session.sleep(0)
            if waiting:
                return waiting.popleft()
            if self._stopped:
                raise BadSubscriptionError("the watch was stopped")
            left = None if deadline is None else max(deadline - session.now(), 0.0)
            limits = [limit for limit in (left, None if sub.complete else CHECK) if limit is not None]
            ready = await sub._wait_ready(min(limits) if limits else None)
            if ready == "ended" and not self._stopped:
                self._ended()
            elif ready == "late":
                if left == 0:
                    raise TimeoutError
                if not sub.complete:
                    await sub.check()

    def _ended(self) -> None:
        if self._sub._session.is_closed:
            raise ConnectionClosedError
        failure = self._sub.failure
        if isinstance(failure, APIError) and failure.err_code == STREAM_NOT_FOUND:
            raise BucketNotFoundError(
                failure.code,
                failure.description,
                failure.err_code,
                message=f"the watch has ended: bucket {self._bucket!r} was deleted",
            )
        raise failure or BadSubscriptionError("the watch has ended")

    async def updates(self, timeout: float | None = 5.0) -> Entry | None:
        """Returns the next entry.

        Args:
            timeout: Seconds to wait; None waits without limit.

        Returns:
            The entry; None, once, after the last of the initial values. After `stop` the received entries, then
            `STOP_ITER`, once, as in nats-py.

        Raises:
            TimeoutError: No entry arrived in time.
            BucketNotFoundError: The bucket was deleted.
            ConnectionClosedError: The connection is closed.
            BadSubscriptionError: The watch was stopped, and `timeout` is None.
        """
        try:
            return await self._next(timeout)
        except BadSubscriptionError:
            if not self._stopped:
                raise
            if not self._end_reported:
                self._end_reported = True
                return cast("None", self.STOP_ITER)
            if timeout is None:
                raise
            await self._sub._session.sleep(timeout)
            raise TimeoutError from None

    async def stop(self) -> None:
        """Stops the watch and removes its consumer. A pending wait gets the received entries, and then the end."""
        self._stopped = True
        await self._sub.remove()

    def __aiter__(self) -> AsyncIterator[Entry | None]:
        return self

    async def __anext__(self) -> Entry | None:
        if self._waiting:
            return self._waiting.popleft()
        try:
            return await self._next(None)
        except (BadSubscriptionError, ConnectionClosedError):
            raise StopAsyncIteration from None

    async def __aenter__(self) -> KeyWatcher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
