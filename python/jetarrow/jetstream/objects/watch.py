"""Watching a bucket, and listing it."""

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

# Seconds that the deletion of a watch's consumer may take; as that of a key-value watch.
DELETE_WAIT = 0.25


class ObjectWatcher:
    """What happens to the objects of a bucket: first those that are there, then None, then every change.

    Made by `store.watch()`. It goes on after reconnects and leader changes, without a gap and without repeating
    anything. Iterate it, or await `updates()`; `stop()` ends it, and so does `async with`.
    """

    def __init__(self, sub: PushSubscription, bucket: str, initial: int | None, *, ignore_deletes: bool) -> None:
        self._sub = sub
        self._bucket = bucket
        # How many messages there were at the beginning; None once None was handed out for them.
        self._initial = initial
        self._came = 0
        self._ignore_deletes = ignore_deletes

    async def updates(self, timeout: float | None = 5.0) -> models.ObjectInfo | None:
        """The next change: what is said about the object now; None once, after what was there at the beginning.

        Args:
            timeout: Seconds to wait; None waits as long as it takes.

        Raises:
            TimeoutError: Nothing happened in time.
            BadSubscriptionError: The watcher was stopped, or the bucket is gone, and there is no timeout to wait for.
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
            # Something that was counted went before it was sent.
            self._initial = self._came
        try:
            return parse_info(msg.data, metadata.timestamp, self._bucket, msg.subject)
        except BadObjectMetaError as error:
            # It is no object for anybody; the others are.
            self._sub._session.report_error(error)
            return None

    async def stop(self) -> None:
        """Ends it, and deletes its consumer: whoever waits for the next change gets what had come, and then the end.

        A second time it does nothing. When the server is away it deletes the consumer itself, after some seconds.
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
        """Watches the bucket: what is said about each object, then None, then every change.

        Args:
            ignore_deletes: Leaves deleted objects out.
            include_history: Also what was said before, where the bucket still has it: clients replace it.
            meta_only: Taken for nats-py's sake: data never comes.
            updates_only: Only what happens from now on; no None then.

        Returns:
            The watcher: iterate it, or await its `updates()`; `stop()` ends it, and so does `async with`.

        Raises:
            BucketNotFoundError: The bucket is gone.
        """
        everything = OBJ_ALL_META_PRE_TEMPLATE.format(bucket=self._name)
        config = models.ConsumerConfig(deliver_policy=models.DeliverPolicy.LAST_PER_SUBJECT)
        try:
            if updates_only:
                # A sequence, not "new": that would begin anew, with a gap, whenever the consumer is made again.
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
        """What is said about each object of the bucket, in the order in which they were stored.

        Args:
            ignore_deletes: Leaves deleted objects out.

        Raises:
            NotFoundError: There are none.
            BucketNotFoundError: The bucket is gone.
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
    """End a subscription and delete its consumer, if the server is there."""
    if sub.is_closed:
        return
    with suppress(Error):
        await sub.unsubscribe()
    with expect_not_found(), suppress(Error):
        await sub._api.request(f"CONSUMER.DELETE.{sub._stream}.{sub._consumer}", timeout=DELETE_WAIT)


async def initial_messages(sub: PushSubscription) -> int:
    """How many messages the subscription's consumer had to send when it was made."""
    try:
        info = await sub.consumer_info()
    except BaseException:
        await end(sub)
        raise
    sent = info.delivered.consumer_seq if info.delivered is not None else 0
    return (info.num_pending or 0) + (sent or 0)
