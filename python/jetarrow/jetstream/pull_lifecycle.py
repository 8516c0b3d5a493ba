"""Lifecycle of a pull subscription: `pull` and its iteration, limits, unsubscribe and drain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Unpack

from jetarrow import _jetarrow
from jetarrow._jetarrow import Msg
from jetarrow.core.arguments import check_whole, seconds
from jetarrow.core.closed_event import ClosedEvent
from jetarrow.core.errors import BadSubscriptionError
from jetarrow.core.session import Session
from jetarrow.jetstream.errors import APIError, NotFoundError
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.models import DEFAULT_JS_SUB_PENDING_BYTES_LIMIT
from jetarrow.jetstream.not_found import expect_not_found
from jetarrow.jetstream.priority import GroupRequest, PriorityOptions, group_request

if TYPE_CHECKING:
    from jetarrow.jetstream.api import JetStreamApi


_T = TypeVar("_T")


class PullRequest(NamedTuple):
    """One call of `pull`."""

    batch: int
    expires: float
    no_wait: bool
    max_bytes: int | None
    heartbeat: float | None
    group: GroupRequest | None


class PendingLimits(NamedTuple):
    """The limits of nats-py's pending queue, which limit requests here. None is no limit."""

    msgs: int | None = None
    nbytes: int | None = None


NO_LIMITS = PendingLimits()


def pending_limits(msgs: int | None, nbytes: int | None) -> PendingLimits:
    """The limits for arguments of `pull_subscribe`.

    Raises:
        TypeError: One is not a whole number.
    """
    check_whole(pending_msgs_limit=msgs, pending_bytes_limit=nbytes)
    msgs, nbytes = msgs or 0, nbytes or 0
    # nats-py's default bounds a queue; a call for more bytes than that is no error here.
    has_bytes = nbytes > 0 and nbytes != DEFAULT_JS_SUB_PENDING_BYTES_LIMIT
    return PendingLimits(msgs if msgs > 0 else None, nbytes if has_bytes else None)


def message_size(msg: Msg) -> int:
    """Bytes of a message, approximately as the server counts them for a `max_bytes`."""
    headers = sum(len(name) + sum(map(len, values)) for name, values in (msg.headers_all or {}).items())
    return len(msg.subject) + len(msg.reply) + len(msg.data) + headers


class PullLifecycle:
    """The end of a pull subscription, and `pull`."""

    _api: JetStreamApi
    _session: Session
    _manage: Management
    _native: _jetarrow.PullSubscription
    _stream: str
    _consumer: str
    _delivered: int
    _limits: PendingLimits

    def _init_lifecycle(self) -> None:
        self._closed = self._is_drained = False
        self._limit = 0
        self._closed_event = ClosedEvent(self._session)
        self._waiting_tasks: set[asyncio.Task[Any]] = set()
        self._requests: asyncio.Queue[PullRequest | None] = asyncio.Queue()

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
        raise NotImplementedError

    async def _return_messages(self, messages: list[Msg]) -> None:
        raise NotImplementedError

    @property
    def is_closed(self) -> bool:
        """Whether it has ended, or its connection has."""
        return self._closed or self._session.is_closed

    @property
    def closed(self) -> ClosedEvent:
        """An event of its end: `await sub.closed`; in threads `sub.closed.wait(timeout)`."""
        return self._closed_event.watch_connection()

    async def unsubscribe(self, limit: int = 0) -> None:
        """Ends the subscription. The consumer is not deleted.

        Args:
            limit: Number of messages, counted from the start of the subscription, after which it ends; 0 ends it now.

        Raises:
            BadSubscriptionError: It has ended already.
        """
        if self._closed:
            raise BadSubscriptionError
        if limit > self._delivered:
            self._limit = limit
        else:
            self._end()

    async def drain(self) -> None:
        """Sends no more requests. Iterations yield the buffered messages, then end.

        Raises:
            BadSubscriptionError: It has ended already.
        """
        if self._closed:
            raise BadSubscriptionError
        self._is_drained = True
        self._end()

    async def destroy(self) -> None:
        """Ends the subscription, and deletes its consumer if that still exists."""
        if not self._closed:
            self._end()
        with expect_not_found(), suppress(NotFoundError):
            await self._manage.delete_consumer(self._stream, self._consumer)

    def _end(self) -> None:
        self._closed = True
        self._native.give_back()
        self._requests.put_nowait(None)
        self._closed_event.set()
        for task in self._waiting_tasks:
            task.cancel()

    async def _until_closed(self, messages: Awaitable[_T]) -> _T:
        """Waits for messages until the subscription ends.

        Raises:
            BadSubscriptionError: It has ended.
        """
        task = None if self._session.is_blocking else asyncio.current_task()
        if task is not None:
            self._waiting_tasks.add(task)
        try:
            try:
                return await messages
            finally:
                # Before an error is explained, which takes a request: `_end` cancels only the wait for messages.
                if task is not None:
                    self._waiting_tasks.discard(task)
        except NotFoundError as error:
            raise await self._api.explain_not_found(error, self._stream, self._consumer) from None
        except APIError as error:
            text = f"could not fetch from consumer {self._consumer!r} of stream {self._stream!r}"
            raise error.about(text, stream=self._stream, consumer=self._consumer) from None
        except ValueError as error:
            limit = self._limits.nbytes
            if limit is None or not str(error).endswith(f"max_bytes={limit}"):
                raise
            raise ValueError(
                f"could not fetch from consumer {self._consumer!r} of stream {self._stream!r}: the next message is"
                f" larger than pending_bytes_limit={limit}, or than the consumer's max_request_max_bytes; raise it"
            ) from None
        except asyncio.CancelledError:
            # `_end` cancelled this task; a cancellation by another caller is raised.
            if self._closed and task is not None and task.uncancel() == 0:
                raise BadSubscriptionError from None
            raise

    def _remaining(self, most: int) -> int:
        """The number of messages that may still be requested, at most `most`.

        Raises:
            BadSubscriptionError: The subscription has ended.
        """
        if self._closed:
            raise BadSubscriptionError
        return min(most, self._limit - self._delivered) if self._limit else most

    def _most_bytes(self, max_bytes: int | None) -> int | None:
        """The bytes that a call may request: at most `max_bytes`, and the limit of the subscription."""
        limit = self._limits.nbytes
        if limit is None:
            return max_bytes
        check_whole(max_bytes=max_bytes)
        return limit if max_bytes is None else min(limit, max_bytes)

    def _count_delivered(self, messages: int) -> None:
        self._delivered += messages
        if self._limit and self._delivered >= self._limit and not self._closed:
            self._end()

    def pull(
        self,
        batch: int = 1,
        expires: float | None = None,
        *,
        no_wait: bool = False,
        max_bytes: int | None = None,
        idle_heartbeat: float | None = None,
        max_wait: float | None = None,
        **priority: Unpack[PriorityOptions],
    ) -> None:
        """Requests messages, which an iteration of the subscription yields.

        Args:
            batch: Most messages.
            expires: Seconds until the request expires, default 5.
            no_wait: Only the messages that the server has now.
            max_bytes: Most bytes of messages, as the server counts them; None is no limit.
            idle_heartbeat: Seconds between the server's heartbeats while it has no messages.
            max_wait: Another name for `expires`.
            **priority: `group`, `min_pending`, `min_ack_pending` and `priority`, for consumers with priority groups.

        Raises:
            ValueError: A number is not positive.
            TypeError: Both `expires` and `max_wait`.
        """
        if expires is not None and max_wait is not None:
            raise TypeError("expires and max_wait are names of one option: pass one of them")
        check_whole(batch=batch, max_bytes=max_bytes)
        for name, value in {"expires": expires, "max_wait": max_wait, "idle_heartbeat": idle_heartbeat}.items():
            seconds(name, value)
        wait = expires if expires is not None else 5.0 if max_wait is None else max_wait
        if batch < 1 or not wait > 0:
            raise ValueError(f"batch must be at least 1 and expires positive, not {batch} and {wait}")
        if max_bytes is not None and max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, not {max_bytes}")
        group = group_request(self._api, priority)
        self._requests.put_nowait(PullRequest(batch, wait, no_wait, max_bytes, idle_heartbeat, group))

    def __aiter__(self) -> AsyncIterator[Msg]:
        return self._pulled_messages(wait=True)

    async def _pulled_messages(self, *, wait: bool) -> AsyncIterator[Msg]:
        """The messages of each `pull`; then waits for the next `pull`, or ends."""
        rest: list[Msg] = []
        try:
            while wait or not self._requests.empty():
                asked = await self._requests.get()
                if asked is None:
                    # Ends the next iteration too.
                    self._requests.put_nowait(None)
                    return
                async for rest in self._fetch_request(asked):
                    while rest:
                        yield rest.pop(0)
        finally:
            # The iteration has ended: the server redelivers the messages that it did not yield.
            await self._return_messages(rest)

    async def _fetch_request(self, asked: PullRequest) -> AsyncIterator[list[Msg]]:
        """The messages of one `pull`, as they arrive."""
        now = self._session.now
        deadline = now() + asked.expires
        batch, room = asked.batch, asked.max_bytes
        while batch > 0 and (room is None or room > 0) and (left := deadline - now()) > 0 and not self._closed:
            try:
                messages = await self._fetch(
                    batch,
                    timeout=left,
                    heartbeat=asked.heartbeat,
                    max_bytes=room,
                    min_messages=0 if asked.no_wait else 1,
                    group=asked.group,
                )
            except BadSubscriptionError:
                return
            except ValueError:
                if room == asked.max_bytes:
                    raise
                # The next message is larger than the rest of `max_bytes`.
                return
            batch -= len(messages)
            if room is not None:
                room -= sum(map(message_size, messages))
            yield messages
            if asked.no_wait:
                return
