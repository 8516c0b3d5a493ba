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
from jetarrow.core.docstrings import with_entries_of
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.batch import MessageBatch
from jetarrow.jetstream.batch_collector import BatchCollector
from jetarrow.jetstream.errors import FetchTimeoutError
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.messages import REQUEST_MESSAGES, REQUEST_TIMEOUT, Messages
from jetarrow.jetstream.models.values import checked_name, user_level
from jetarrow.jetstream.priority import GroupRequest, PriorityOptions, group_request
from jetarrow.jetstream.pull_lifecycle import NO_LIMITS, PendingLimits, PullLifecycle


class PullSubscription(PullLifecycle):
    """Fetches messages from a pull consumer. Created by `js.pull_subscribe`."""

    def __init__(
        self,
        api: JetStreamApi,
        *,
        stream: str,
        consumer: str,
        info: models.ConsumerInfo | None = None,
        limits: PendingLimits = NO_LIMITS,
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
        # A batch larger than the ack window was warned of.
        self._warned = False
        if info is not None:
            self._apply_config(info.config)
        self._limits = limits
        if limits.msgs is not None:
            self._native.limit_request(limits.msgs)
        self._init_lifecycle()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of consumer {self._consumer} of stream {self._stream}>"

    def _apply_config(self, config: models.ConsumerConfig) -> None:
        """Passes the ack policy and the ack window to the native core, so that it need not request them."""
        wants_acks = config.ack_policy != models.AckPolicy.NONE
        self._native.set_ways(wants_acks, bool(config.headers_only))
        limited = wants_acks and (config.max_ack_pending or 0) > 0
        self._native.set_ack_window(config.max_ack_pending if limited else None)

    def _warn_over_ack_window(self, most: int) -> None:
        window = self._native.ack_window
        if window is not None and most > window and not self._warned:
            self._warned = True
            warnings.warn(
                f"batches of {most} messages end at {window}: consumer {self._consumer!r} of stream {self._stream!r}"
                f" delivers at most {window} unacknowledged messages (max_ack_pending); raise it with"
                f" update_consumer({self._stream!r}, name={self._consumer!r}, max_ack_pending={most})",
                stacklevel=user_level(),
            )

    async def consumer_info(self) -> models.ConsumerInfo:
        """Configuration and state of the consumer.

        Raises:
            NotFoundError: The consumer does not exist any more.
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

        Returns the available messages, up to `batch`; waits for the first one only.

        Args:
            batch: Most messages, default 1.
            batch_size: Another name for `batch`.
            max_messages: Another name for `batch`.
            timeout: Seconds to wait for the first message, with `no_wait` for the server's response; None waits without
                a limit.
            heartbeat: Seconds between the server's heartbeats while it has no messages; default a quarter of `timeout`,
                at most 5 s, none below a timeout of 2 s. After two missed heartbeats the request is sent again, and
                after 5 s if the server does not respond to the request for the messages that it has now.
            max_bytes: Most bytes of messages, as the server counts them; None is no limit.
            no_wait: Only the messages that the server has now; an empty list if it has none.
            **priority: `group`, `min_pending`, `min_ack_pending` and `priority`, for consumers with priority groups.

        Raises:
            FetchTimeoutError: No message within `timeout`.
            NotFoundError: The consumer does not exist any more.
            APIError: The server rejects the request, such as a heartbeat of more than half of `timeout`.
            ValueError: A number is out of range, or the next message is larger than `max_bytes`, or than the
                subscription's `pending_bytes_limit`.
            TypeError: More than one of `batch`, `batch_size`, `max_messages`.
        """
        check_whole(batch=batch, batch_size=batch_size, max_messages=max_messages, max_bytes=max_bytes)
        timeout, heartbeat = seconds("timeout", timeout), seconds("heartbeat", heartbeat)
        given = [size for size in (batch, batch_size, max_messages) if size is not None]
        if len(given) > 1:
            raise TypeError("batch, batch_size and max_messages are names of one option: pass one of them")
        if given and given[0] < 1:
            raise ValueError(f"nats: invalid batch size: {given[0]}; it must be at least 1")
        if timeout is not None and timeout <= 0 and not no_wait:
            raise ValueError(
                f"nats: invalid fetch timeout: {timeout}; pass no_wait=True to fetch only available messages"
            )
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
            # The server is not reachable, or sent no response.
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
            max_bytes=self._most_bytes(max_bytes),
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
        """Starts a fetch at once, not at the next iteration of the loop."""
        call = self._native.fetch(
            self._session,
            self._id,
            most,
            max_bytes=self._most_bytes(max_bytes),
            timeout=REQUEST_TIMEOUT,
            min_messages=1,
            heartbeat=None,
            group=group,
        )
        loop = asyncio.get_running_loop()
        return call.start(loop, bridge_of(loop)), call

    async def _return_messages(self, messages: list[Msg]) -> None:
        """Sends a nak for messages that the program has not received; without acks they are kept for the next call."""
        if messages:
            await self._session.run(self._native.put_back(messages))

    @property
    def messages(self) -> Messages:
        """All messages as they arrive, without end: `async for msg in sub.messages` (or `sub.messages()`)."""
        return Messages(self)

    @with_entries_of(fetch)
    def consume(
        self,
        max_messages: int = REQUEST_MESSAGES,
        *,
        max_bytes: int | None = None,
        threshold: int | None = None,
        **priority: Unpack[PriorityOptions],
    ) -> Messages:
        """As `messages`, with given request sizes: `async for msg in sub.consume()`.

        Args:
            max_messages: Most messages of one request.
            max_bytes: Most bytes of one request, as the server counts them; None is no limit.
            threshold: Number of unprocessed messages below which the next request is sent, so that its messages arrive
                meanwhile; default half of `max_messages`, 0 sends it when none is left.
            **priority: As `fetch`.
        """
        check_whole(max_messages=max_messages, max_bytes=max_bytes, threshold=threshold)
        ahead = max_messages // 2 if threshold is None else threshold
        group = group_request(self._api, priority)
        return Messages(self, max_messages, max_bytes=max_bytes, threshold=ahead, group=group)

    @property
    def pending_msgs(self) -> int:
        """Always 0: a pull consumer delivers only requested messages."""
        return 0

    @property
    def pending_bytes(self) -> int:
        """Always 0: a pull consumer delivers only requested messages."""
        return 0

    @property
    def delivered(self) -> int:
        """The number of messages fetched so far."""
        return self._delivered

    @with_entries_of(fetch)
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

        Returns when `max_messages` or `max_bytes` have arrived, or at `timeout` with the messages that arrived until
        then (an empty batch is not an error). It returns earlier if `min_messages` have arrived and the server has no
        more, or if the consumer delivers no more before it receives acks (its `max_ack_pending`). A larger request is
        warned of once.

        Args:
            max_messages: Most rows.
            max_bytes: Most bytes of messages, as the server counts them; None is 1 GiB, the maximum of a batch.
            timeout: Seconds. Later messages are part of the next call; `unsubscribe` sends a nak for them.
            min_messages: Rows before which the call does not return early.
            heartbeat: As `fetch`.
            columns: Columns of the batch; default stream, seq, subject, timestamp, headers, data. Others are delivered,
                consumer_seq, pending, reply.
            **priority: As `fetch`.

        Raises:
            NotFoundError: The consumer does not exist any more.
            APIError: The server rejects the request.
            ValueError: A limit is not positive, a column is unknown, or the next message is larger than `max_bytes`.
            ConnectionClosedError: The connection is closed.
            TimeoutError: The connection was down until `timeout`, or the server did not answer.
        """
        most = self._remaining(max_messages)
        call = self._native.fetch_batch(
            most,
            max_bytes=self._most_bytes(max_bytes),
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

    @with_entries_of(fetch, fetch_batch)
    def batches(
        self,
        *,
        rows: int = 50_000,
        seconds: float = 60.0,
        bytes: int = 64 * 1024 * 1024,
        columns: Sequence[str] | None = None,
        **priority: Unpack[PriorityOptions],
    ) -> AsyncIterator[MessageBatch]:
        """Batches limited by rows, seconds and bytes: `async for batch in sub.batches(rows=10_000)`.

        Collected rows and returned batches are kept from redelivery by in-progress acks, which are sent every half
        `ack_wait`, until they are acknowledged (`await batch.ack_sync()`) or garbage collected. When the iteration
        ends, unacknowledged messages get a nak, so that the server redelivers them at once: keep the iteration open
        until the last batch is acknowledged. The iteration does not end by itself; an interval without messages
        yields no batch.

        Args:
            rows: Most rows of a batch; the consumer's `max_ack_pending`, if that is less.
            seconds: Seconds after which a batch ends.
            bytes: Bytes of messages, as the server counts them, at which a batch ends.
            columns: Columns of the batches, as for `fetch_batch`.
            **priority: As `fetch`.

        Raises:
            NotFoundError: As `fetch_batch`.
            APIError: As `fetch_batch`.
            ValueError: A number is not positive, or a message is larger than `bytes`.
            TimeoutError: The server does not answer for the timeout of `js` (5 s by default). While the connection is
                down, the iteration waits for it.
            UnsupportedError: A batch was collected in several fetches (`seconds` is more than a quarter of the
                `ack_wait`), and pyarrow is not installed.
        """
        collector = BatchCollector(
            self, rows=rows, seconds=seconds, bytes=bytes, options={"columns": columns, **priority}
        )
        return collector.batches()
