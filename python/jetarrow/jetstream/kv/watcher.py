"""Watching the keys of a bucket."""

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

# Seconds without a message after which the server is asked whether more initial values will come.
CHECK = 1.0
# Seconds that the deletion of the consumer may take.
DELETE_WAIT = 0.25
# Entries made at a time, after which the event loop gets a turn.
BURST = 512
# Most entries that wait to be taken, and most bytes; the server's flow control holds back more.
LIMITS = (512 * 1024, 128 * 1024 * 1024)


class Updates(PushSubscription):
    """The ordered subscription of a watch. Made anew it goes on where it was, also before the first message."""

    # Where it goes on depends on what was taken.
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
        # When the stream was made that its revisions are of.
        self._of = created
        # How many messages of this consumer are initial values; and whether all of those were taken.
        self.initial = 0
        self.complete = False
        # Whether `_seq` says where it goes on.
        self._known = False
        # Where the stream went back to; and the same once the entries that came before it were taken.
        self._back: int | None = None
        self.floor: int | None = None

    async def open(self) -> None:
        """Listens, then makes the consumer."""
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
            # Its revisions begin anew: a watch that waits for the next one of the old would be silent.
            return StreamRecreatedError()
        return await super()._find_rollback()

    def _resume_after_rollback(self, error: StreamRolledBackError) -> None:
        super()._resume_after_rollback(error)
        self._back = self._seq
        if not self._seq:
            self._known = False

    def _recreated_config(self) -> models.ConsumerConfig:
        if not self.complete and self._config.deliver_policy == models.DeliverPolicy.LAST_PER_SUBJECT:
            # What was handed out comes again, and is passed over: from the next sequence on, values would come that
            # are not the last of their keys.
            return self._config
        config = super()._recreated_config()
        if self._known and not self._seq:
            # There was nothing: all that there is now is new.
            return config.evolve(deliver_policy=models.DeliverPolicy.ALL)
        return config

    def _on_recreated(self, info: models.ConsumerInfo) -> None:
        self.floor, self._back = self._back, None
        sent, last = (0, 0) if info.delivered is None else (info.delivered.consumer_seq, info.delivered.stream_seq)
        self.initial = sent + (info.num_pending or 0)
        if not self.initial:
            # All up to here is known, though nothing of it came.
            self.complete, self._seq, self._known = True, max(self._seq, last), True

    async def remove(self) -> None:
        """Ends it and deletes the consumer, if the server is there."""
        if self._closed:
            return
        self._end()
        with suppress(Error):
            await self._api.request(f"CONSUMER.DELETE.{self._stream}.{self._consumer}", timeout=DELETE_WAIT)

    @property
    def failure(self) -> Error | None:
        """Why it ended, where nobody had asked for it."""
        return self._failure

    async def check(self) -> None:
        """The initial values are over, too, where the last of them were deleted before they were sent."""
        with suppress(Error):
            info = await Management(self._api).consumer_info(self._stream, self._consumer)
            sent = 0 if info.delivered is None else info.delivered.consumer_seq
            if not info.num_pending and sent <= self._native.delivered and not self._native.pending_msgs:
                self.complete = True


class StopIterSentinel:
    """What stands for the end of a watch."""


class KeyWatcher:
    """Hands out what happens to keys. Made by `kv.watch`; public as `KeyValue.KeyWatcher`.

    First the values that are there, then None, exactly once, then every change as it happens: `async for entry in
    watcher`, or `await watcher.updates()`. It goes on over restarts and changes of leader, and where its consumer is
    deleted, without a gap and without repeating a revision.
    """

    # Any: who does not stop a watch, and then ask for more, never sees it.
    STOP_ITER: ClassVar[Any] = StopIterSentinel()

    def __init__(self, updates: Updates, bucket: str, prefix: str, *, ignore_deletes: bool) -> None:
        self._sub = updates
        self._bucket = bucket
        self._entries = Entries(Entry, bucket, len(prefix.encode()))
        # Made, and not handed out yet.
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
        """Makes entries of the messages that have come."""
        sub = self._sub
        if sub.floor is not None:
            # Later revisions are others now.
            self._last, sub.floor = min(self._last, sub.floor), None
        entries, complete = sub._native.take_entries(
            self._entries, self._last, not self._ignore_deletes, sub.initial, BURST
        )
        if entries:
            self._last = entries[-1].revision
        if sub.complete:
            # There were none, or none more: what comes is news.
            complete = 0
        if complete is not None and not self._initial_done:
            sub.complete = self._initial_done = True
            entries.insert(complete, None)
        self._waiting.extend(entries)

    async def _next(self, timeout: float | None) -> Entry | None:
        """The next entry, or None in its place.

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
                    # The loop has other work too. They stay here where the wait is cancelled.
                    await session.sleep(0)
            if waiting:
                return waiting.popleft()
            if self._stopped:
                raise BadSubscriptionError("the watch was stopped")
            left = None if deadline is None else deadline - session.now()
            if left is not None and left <= 0:
                raise TimeoutError
            limits = [limit for limit in (left, None if sub.complete else CHECK) if limit is not None]
            ready = await sub._wait_ready(min(limits) if limits else None)
            if ready == "ended" and not self._stopped:
                self._ended()
            elif ready == "late" and not sub.complete:
                await sub.check()

    def _ended(self) -> None:
        if self._sub._session.is_closed:
            raise ConnectionClosedError
        failure = self._sub.failure
        if isinstance(failure, APIError) and failure.err_code == STREAM_NOT_FOUND:
            raise BucketNotFoundError(
                failure.code, failure.description, failure.err_code, message=f"the bucket {self._bucket!r} was deleted"
            )
        raise failure or BadSubscriptionError("the watch has ended")

    async def updates(self, timeout: float | None = 5.0) -> Entry | None:
        """Takes the next entry.

        Args:
            timeout: Seconds to wait; None waits as long as it takes.

        Returns:
            The entry; None, once, after the last of the values that were there at the beginning. After `stop`: what had
            come, then `STOP_ITER`, once, as in nats-py.

        Raises:
            TimeoutError: Nothing happened in time.
            BucketNotFoundError: The bucket was deleted.
            ConnectionClosedError: The connection is closed.
            BadSubscriptionError: The watch was stopped, and there is no timeout to wait for.
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
        """Ends the watch and removes its consumer; whoever waits for an entry gets what had come, and then the end."""
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
