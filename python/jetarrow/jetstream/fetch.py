"""Subscriptions of a JetStream context."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Sequence
from typing import Unpack

from jetarrow import _jetarrow
from jetarrow._jetarrow import Msg
from jetarrow.core.arguments import FOREVER, check_whole, seconds
from jetarrow.core.bridges import bridge_of
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.batch import MessageBatch
from jetarrow.jetstream.batch_collector import BatchCollector
from jetarrow.jetstream.errors import FetchTimeoutError
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.messages import REQUEST_MESSAGES, REQUEST_TIMEOUT, Messages
from jetarrow.jetstream.models.values import checked_name, user_level
from jetarrow.jetstream.priority import GroupRequest, PriorityOptions, group_request
from jetarrow.jetstream.pull_lifecycle import PullLifecycle


class PullSubscription(PullLifecycle):
    """Takes messages from a pull consumer when asked. Made by `js.pull_subscribe`."""

    def __init__(
        self,
        api: JetStreamApi,
        *,
        stream: str,
        consumer: str,
        info: models.ConsumerInfo | None = None,
        pending_msgs_limit: int = 0,
    ) -> None:
        self._api = api
        self._session = api.session
        self._id = api.session.next_sid()
        self._manage = Management(api)
        self._native = api.session.native.pull_subscribe(
            api.prefix, checked_name("stream", stream), checked_name("consumer", consumer)
        )
        self._stream = stream
        self._consumer = consumer
        self._delivered = 0
        # That a batch cannot be so large was said.
        self._warned = False
        if info is not None:
            self._apply_config(info.config)
        if pending_msgs_limit > 0:
            self._native.limit_request(pending_msgs_limit)
        self._init_lifecycle()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of consumer {self._consumer} of stream {self._stream}>"

    def _apply_config(self, config: models.ConsumerConfig) -> None:
        """Saves the native core the questions whether acks are wanted, and how many messages are given before."""
        wants_acks = config.ack_policy != models.AckPolicy.NONE
        self._native.set_ways(wants_acks, bool(config.headers_only))
        limited = wants_acks and (config.max_ack_pending or 0) > 0
        self._native.set_ack_window(config.max_ack_pending if limited else None)

    def _warn_over_ack_window(self, most: int) -> None:
        window = self._native.ack_window
        if window is not None and most > window and not self._warned:
            self._warned = True
            warnings.warn(
                f"consumer {self._consumer!r} of stream {self._stream!r} gives at most {window} messages before it"
                f" wants acks (its max_ack_pending): batches of {most} end there. Change it with"
                f" update_consumer({self._stream!r}, name={self._consumer!r}, max_ack_pending={most})",
                stacklevel=user_level(),
            )

    async def consumer_info(self) -> models.ConsumerInfo:
        """Configuration and state of the consumer.

        Raises:
            NotFoundError: The consumer is gone.
        """
        return await self._manage.consumer_info(self._stream, self._consumer)

    async def fetch(
        self,
        batch: int | None = None,
        timeout: float | None = 5.0,
        heartbeat: float | None = None,
        *,
        batch_size: int | None = None,
        max_messages: int | None = None,
        max_bytes: int | None = None,
        no_wait: bool = False,
        **priority: Unpack[PriorityOptions],
    ) -> list[Msg]:
        """Fetches messages into a list.

        Returns what is there, up to `batch`; waits for the first one only.

        Args:
            batch: Most messages, default 1.
            batch_size: Another name for `batch`.
            max_messages: Another name for `batch`.
            timeout: Seconds to wait for the first message, with `no_wait` for the server's answer; None waits as long
                as it takes.
            heartbeat: Seconds between the server's signs of life while it has nothing.
            max_bytes: Most bytes of messages, as the server counts them; None is no limit.
            no_wait: Only what the server has now; an empty list where there is nothing.
            **priority: `group`, `min_pending`, `min_ack_pending` and `priority`, for consumers with priority groups.

        Raises:
            FetchTimeoutError: No message within `timeout`.
            NotFoundError: The consumer is gone.
            APIError: The server refuses the request, such as a heartbeat of more than half of `timeout`.
            TypeError: More than one of `batch`, `batch_size`, `max_messages`.
        """
        check_whole(batch=batch, batch_size=batch_size, max_messages=max_messages, max_bytes=max_bytes)
        timeout, heartbeat = seconds("timeout", timeout), seconds("heartbeat", heartbeat)
        given = [size for size in (batch, batch_size, max_messages) if size is not None]
        if len(given) > 1:
            raise TypeError("batch, batch_size and max_messages are one number: give one of them")
        if given and given[0] < 1:
            raise ValueError(f"nats: invalid batch size: {given[0]}; at least one message")
        if timeout is not None and timeout <= 0 and not no_wait:
            raise ValueError(f"nats: invalid fetch timeout: {timeout}; give no_wait=True to take what is there")
        try:
            messages = await self._fetch(
                given[0] if given else 1,
                timeout=FOREVER if timeout is None else max(timeout, 0.0),
                heartbeat=heartbeat,
                max_bytes=max_bytes,
                min_messages=0 if no_wait else 1,
                group=group_request(self._api, priority),
            )
        except TimeoutError as error:
            # The server is away, or said nothing.
            raise FetchTimeoutError(str(error)) from None
        if not messages and not no_wait:
            raise FetchTimeoutError
        return messages

    async def _fetch(
        self,
        most: int,
        *,
        timeout: float,
        heartbeat: float | None = None,
        max_bytes: int | None = None,
        min_messages: int = 1,
        group: GroupRequest | None = None,
    ) -> list[Msg]:
        session = self._session
        call = self._native.fetch(
            session,
            self._id,
            self._remaining(most),
            max_bytes=max_bytes,
            timeout=timeout,
            min_messages=min_messages,
            heartbeat=heartbeat,
            group=group,
        )
        messages = await self._until_closed(session.run(call, self._native.put_back))
        self._count_delivered(len(messages))
        return messages

    def _start_fetch(
        self, most: int, max_bytes: int | None, group: GroupRequest | None
    ) -> tuple[asyncio.Future[list[Msg]], _jetarrow.Call[list[Msg]]]:
        """A fetch that is under way when this returns, not only at the loop's next turn."""
        call = self._native.fetch(
            self._session,
            self._id,
            most,
            max_bytes=max_bytes,
            timeout=REQUEST_TIMEOUT,
            min_messages=1,
            heartbeat=None,
            group=group,
        )
        loop = asyncio.get_running_loop()
        return call.start(loop, bridge_of(loop)), call

    async def _return_messages(self, messages: list[Msg]) -> None:
        """Gives messages that were not handed out back to the server; without acks they are for the next call."""
        if messages:
            await self._session.run(self._native.put_back(messages))

    @property
    def messages(self) -> Messages:
        """All messages as they come, without end: `async for msg in sub.messages` (or `sub.messages()`)."""
        return Messages(self)

    def consume(
        self,
        max_messages: int = REQUEST_MESSAGES,
        *,
        max_bytes: int | None = None,
        threshold: int | None = None,
        **priority: Unpack[PriorityOptions],
    ) -> Messages:
        """As `messages`, with the sizes of its requests: `async for msg in sub.consume()`.

        Args:
            max_messages: Most messages of one request.
            max_bytes: Most bytes of one request, as the server counts them; None is no limit.
            threshold: With so few left at hand the next request is sent, so that its messages come while these are
                processed; default half of `max_messages`, 0 sends it when none is left.
            **priority: As `fetch`.
        """
        check_whole(max_messages=max_messages, max_bytes=max_bytes, threshold=threshold)
        ahead = max_messages // 2 if threshold is None else threshold
        group = group_request(self._api, priority)
        return Messages(self, max_messages, max_bytes=max_bytes, threshold=ahead, group=group)

    @property
    def pending_msgs(self) -> int:
        """0: nothing comes that was not asked for."""
        return 0

    @property
    def pending_bytes(self) -> int:
        """0: nothing comes that was not asked for."""
        return 0

    @property
    def delivered(self) -> int:
        """Messages that were fetched so far."""
        return self._delivered

    async def fetch_batch(
        self,
        max_messages: int = 1000,
        *,
        max_bytes: int | None = None,
        timeout: float = 5.0,
        min_messages: int = 1,
        heartbeat: float | None = None,
        columns: Sequence[str] | None = None,
        **priority: Unpack[PriorityOptions],
    ) -> MessageBatch:
        """Fetches messages into Arrow columns.

        Returns when `max_messages` or `max_bytes` are there, or at `timeout` with what came (an empty batch is a value,
        not an error: the server has nothing); earlier only once `min_messages` are there and no more are waiting at the
        server, or once the consumer gives no more before it gets acks (its `max_ack_pending`). To ask for more than
        that is warned of once.

        Args:
            max_messages: Most rows.
            max_bytes: Most bytes of messages, as the server counts them; None is 1 GiB, the most of one batch.
            timeout: Seconds. What comes later belongs to the next call; `unsubscribe` gives it back.
            min_messages: Rows worth waiting for.
            heartbeat: Seconds between the server's signs of life while it has nothing; default a quarter of the wait,
                none under 2 s. Two missed ones and the request is sent again.
            columns: What is built; default stream, seq, subject, timestamp, headers, data. There are also delivered,
                consumer_seq, pending, reply.
            **priority: As `fetch`.

        Raises:
            NotFoundError: The consumer is gone.
            APIError: The server refuses the request.
            ValueError: A limit is not positive, a column is unknown, or the next message is larger than `max_bytes`.
            ConnectionClosedError: The connection is closed.
            TimeoutError: The connection was down until `timeout`, or the server did not answer.
        """
        most = self._remaining(max_messages)
        call = self._native.fetch_batch(
            most,
            max_bytes=max_bytes,
            timeout=timeout,
            min_messages=min(min_messages, most) if self._limit else min_messages,
            heartbeat=heartbeat,
            columns=columns,
            group=group_request(self._api, priority),
        )
        session = self._session
        batch = await self._until_closed(session.run(call, self._native.put_back_rows))
        self._count_delivered(len(batch))
        self._warn_over_ack_window(max_messages)
        return MessageBatch(session, batch)

    def batches(
        self,
        *,
        rows: int = 50_000,
        seconds: float = 60.0,
        bytes: int = 64 * 1024 * 1024,
        columns: Sequence[str] | None = None,
        **priority: Unpack[PriorityOptions],
    ) -> AsyncIterator[MessageBatch]:
        """Batches of so many rows, or of what came in so many seconds: `async for batch in sub.batches(rows=10_000)`.

        What it holds is kept from redelivery (the server is told every half `ack_wait` that work goes on): the rows
        that it gathers, and the batches that it has handed out, until they are acknowledged (`await batch.ack_sync()`)
        or thrown away. When the iteration ends, whatever is not acknowledged is given back, so that others get it at
        once: keep the iteration open until the last batch is acknowledged. It goes on without end; a time in which
        nothing came makes no batch.

        Args:
            rows: Most rows of a batch; the consumer's `max_ack_pending`, if that is less.
            seconds: A batch waits no longer for more rows.
            bytes: Nor does it once its messages have this number of bytes, as the server counts them.
            columns: What is built, as for `fetch_batch`.
            **priority: As `fetch`.

        Raises:
            NotFoundError: As `fetch_batch`.
            APIError: As `fetch_batch`.
            ValueError: A number is not positive, or a message is larger than `bytes`.
            UnsupportedError: A batch was gathered in several fetches (`seconds` is more than a quarter of the
                `ack_wait`), and pyarrow is not installed.
        """
        collector = BatchCollector(
            self, rows=rows, seconds=seconds, bytes=bytes, options={"columns": columns, **priority}
        )
        return collector.batches()
