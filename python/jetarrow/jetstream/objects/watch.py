"""Watching and listing of a bucket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from types import TracebackType

from jetarrow._jetarrow import Msg
from jetarrow.core.arguments import seconds
from jetarrow.core.errors import BadSubscriptionError, Error
from jetarrow.jetstream import models
from jetarrow.jetstream.api import STREAM_NOT_FOUND
from jetarrow.jetstream.errors import BadObjectMetaError, NotFoundError
from jetarrow.jetstream.not_found import expect_not_found
from jetarrow.jetstream.objects.bucket import Bucket, parse_info
from jetarrow.jetstream.objects.names import OBJ_ALL_META_PRE_TEMPLATE
from jetarrow.jetstream.push import PushSubscription

# Timeout in seconds of the deletion of a watch's consumer; as for a key-value watch.
DELETE_WAIT = 0.25


class ObjectWatcher:
    """Watcher of a bucket: yields existing objects, then None, then every change.

    Created by `store.watch()`. It resumes after reconnects and leader changes without gaps or repetitions. Iterate it,
    or await `updates()`; `stop()` or the end of its `async with` block stops it.
    """

    def __init__(self, sub: PushSubscription, bucket: str, initial: int | None, *, ignore_deletes: bool) -> None:
        self._sub = sub
        self._bucket = bucket
        # Number of initial messages; None once the None after them was returned.
        self._initial = initial
        self._came = 0
        self._ignore_deletes = ignore_deletes

    async def updates(self, timeout: float | None = 5.0) -> models.ObjectInfo | None:
        """Returns the metadata of the next change; None once, after the existing objects.

        Args:
            timeout: Seconds to wait; None waits without limit.

        Raises:
            TimeoutError: No change arrived in time.
            BadSubscriptionError: The watcher was stopped or the bucket was deleted, and `timeout` is None.
            ConnectionClosedError: The connection is closed.
        """
        timeout = seconds("timeout", timeout)
        deadline = None if timeout is None else self._sub._session.now() + timeout
        while True:
            if self._initial is not None and self._came >= self._initial:
                self._initial = None
                return None
            left = None if deadline is None else max(deadline - self._sub._session.now(), 0.0)
            info = self._taken(await self._sub.next_msg(left))
            if info is not None and not (info.deleted and self._ignore_deletes):
                return info

    def _taken(self, msg: Msg) -> models.ObjectInfo | None:
        metadata = msg.metadata
        self._came += 1
        if self._initial is not None and metadata.num_pending == 0:
            # An initial message was removed before it was delivered.
            self._initial = self._came
        try:
            return parse_info(msg.data, metadata.timestamp, self._bucket, msg.subject)
        except BadObjectMetaError as error:
            # Reported and skipped, so that the other objects are still delivered.
            self._sub._session.report_error(error)
            return None

    async def stop(self) -> None:
        """Stops the watcher and deletes its consumer. A pending wait gets the received changes, and then the end.

        Further calls have no effect. If the connection is down, the server deletes the consumer after some seconds.
        """
        await end(self._sub)

    def __aiter__(self) -> AsyncIterator[models.ObjectInfo | None]:
        return self

    async def __anext__(self) -> models.ObjectInfo | None:
        try:
            return await self.updates(None)
        except BadSubscriptionError:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> ObjectWatcher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class Watch(Bucket):
    """The verbs `watch` and `list`."""

    async def watch(
        self,
        ignore_deletes: bool = False,
        include_history: bool = False,
        meta_only: bool = False,
        updates_only: bool = False,
    ) -> ObjectWatcher:
        """Watches the bucket: yields the metadata of each object, then None, then every change.

        Args:
            ignore_deletes: Skip deleted objects.
            include_history: Include earlier metadata that the bucket still has; clients usually replace it.
            meta_only: No effect, for compatibility with nats-py: data is never delivered.
            updates_only: Yield only later changes, without the None.

        Returns:
            The watcher: iterate it, or await its `updates()`; `stop()` or the end of its `async with` block stops it.

        Raises:
            BucketNotFoundError: The bucket does not exist.
        """
        everything = OBJ_ALL_META_PRE_TEMPLATE.format(bucket=self._name)
        config = models.ConsumerConfig(deliver_policy=models.DeliverPolicy.LAST_PER_SUBJECT)
        try:
            if updates_only:
                # A sequence instead of "new", because "new" would leave a gap whenever the consumer is recreated.
                last = (await self._js.stream_info(self._stream)).state.last_seq
                config.deliver_policy, config.opt_start_seq = models.DeliverPolicy.BY_START_SEQUENCE, last + 1
            elif include_history:
                config.deliver_policy = models.DeliverPolicy.ALL
            sub = await self._js.subscribe(everything, stream=self._stream, config=config, ordered_consumer=True)
            initial = None if updates_only else await initial_messages(sub)
        except NotFoundError as error:
            if error.err_code == STREAM_NOT_FOUND:
                raise self._bucket_not_found(error) from None
            raise
        return ObjectWatcher(sub, self._name, initial, ignore_deletes=ignore_deletes)

    async def list(self, ignore_deletes: bool = False) -> list[models.ObjectInfo]:
        """Returns the metadata of each object of the bucket, in the order in which they were stored.

        Args:
            ignore_deletes: Skip deleted objects.

        Raises:
            NotFoundError: The bucket has no objects.
            BucketNotFoundError: The bucket does not exist.
        """
        session = self._js._api.session
        found = []
        try:
            metas = await self._all_metas()
        except NotFoundError as error:
            raise self._bucket_not_found(error) from None
        for subject, (text, stored) in metas.items():
            try:
                found.append(parse_info(text, stored, self._name, subject))
            except BadObjectMetaError as error:
                session.report_error(error)
        infos = [info for info in found if not (ignore_deletes and info.deleted)]
        if not infos:
            raise NotFoundError(message=f"bucket {self._name!r} has no objects")
        return infos


async def end(sub: PushSubscription) -> None:
    """Stop a subscription and delete its consumer if the server is reachable."""
    if sub.is_closed:
        return
    with suppress(Error):
        await sub.unsubscribe()
    with expect_not_found(), suppress(Error):
        await sub._api.request(f"CONSUMER.DELETE.{sub._stream}.{sub._consumer}", timeout=DELETE_WAIT)


async def initial_messages(sub: PushSubscription) -> int:
    """Return the number of messages that the subscription's consumer had to deliver when it was created."""
    try:
        info = await sub.consumer_info()
    except BaseException:
        await end(sub)
        raise
    sent = info.delivered.consumer_seq if info.delivered is not None else 0
    return (info.num_pending or 0) + (sent or 0)
