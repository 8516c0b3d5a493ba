"""Requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from jetarrow._jetarrow import Msg
from jetarrow.core.arguments import check_whole, seconds
from jetarrow.core.errors import ConnectionDrainingError, NoRespondersError, TimeoutError
from jetarrow.core.session import Headers, Session
from jetarrow.core.subscription import Subscription


class Request:
    """The verbs `request` and `new_inbox` of a client."""

    _session: Session

    async def request(
        self,
        subject: str,
        payload: bytes | str = b"",
        timeout: float | None = 0.5,
        old_style: bool = False,
        headers: Headers | None = None,
    ) -> Msg:
        """Publishes a request and waits for the first answer.

        Args:
            subject: What to publish to.
            payload: Bytes-like, or str, which is sent as UTF-8.
            timeout: Seconds to wait for the answer; None waits as long as it takes.
            old_style: With an inbox and a subscription of its own, instead of one for all requests.
            headers: Name to value, or to a list of values.

        Raises:
            NoRespondersError: Nobody listens on the subject.
            TimeoutError: No answer in time.
            BadSubjectError: The subject is not valid; nothing was sent.
            BadHeaderError: A header cannot be sent; nothing was sent.
            MaxPayloadError: Larger than the server takes, headers counted; nothing was sent.
            ConnectionClosedError: The connection is closed.
            ConnectionDrainingError: The connection is draining, and takes nothing new.
        """
        session = self._session
        if session.draining == "pubs":
            raise ConnectionDrainingError
        if old_style:
            return await _request_old_style(session, subject, payload, timeout, headers)
        return await session.request(subject, payload, timeout, headers)

    def new_inbox(self) -> str:
        """A unique subject, for answers."""
        return self._session.native.new_inbox()


async def _request_old_style(
    session: Session, subject: str, payload: bytes | str, timeout: float | None, headers: Headers | None
) -> Msg:
    inbox = session.native.new_inbox()
    sub = Subscription(session, session.next_sid(), inbox, max_msgs=1)
    await sub._start()
    try:
        room = session.send(subject, payload, inbox, headers)
        if room is not None:
            await session.run(room)
        msg = await sub.next_msg(timeout)
    finally:
        sub._end()
    if (msg.headers or {}).get("Status") == "503":
        raise NoRespondersError
    return msg


@asynccontextmanager
async def open_request(
    session: Session, subject: str, payload: bytes | str, headers: Headers | None = None
) -> AsyncIterator[Subscription]:
    """Publishes a request; gives the subscription that its answers come to.

    Args:
        session: The connection.
        subject: What to publish to.
        payload: What to publish.
        headers: As `publish`.

    Raises:
        ConnectionDrainingError: The connection is draining.
    """
    if session.draining == "pubs":
        raise ConnectionDrainingError
    sub = Subscription(session, session.next_sid(), session.native.new_inbox())
    await sub._open()
    try:
        room = session.send(subject, payload, sub.subject, headers)
        if room is not None:
            await session.run(room)
        yield sub
    finally:
        sub._end()


class RequestMany:
    """The verb `request_many` of a client."""

    _session: Session

    async def request_many(
        self,
        subject: str,
        payload: bytes | str = b"",
        *,
        timeout: float = 1.0,
        max_messages: int | None = None,
        stall: float | None = None,
        sentinel: Callable[[Msg], bool] | bool = False,
        headers: Headers | None = None,
    ) -> AsyncIterator[Msg]:
        """Publishes a request and yields its answers (ADR-47): `async for msg in nc.request_many("services.ping")`.

        The iteration ends with the first of what is given; that the time is over is no error.

        Args:
            subject: What to publish to.
            payload: Bytes-like, or str, which is sent as UTF-8.
            timeout: Seconds in all.
            max_messages: Most answers; None is any number.
            stall: Seconds between one answer and the next; None is no limit but `timeout`.
            sentinel: Whether an answer says that it was the last; it is not yielded. True takes an empty one for that.
            headers: Name to value, or to a list of values.

        Raises:
            NoRespondersError: Nobody listens on the subject.
            BadSubjectError: The subject is not valid; nothing was sent.
            BadHeaderError: A header cannot be sent; nothing was sent.
            MaxPayloadError: Larger than the server takes, headers counted; nothing was sent.
            ConnectionClosedError: The connection is closed.
            ConnectionDrainingError: The connection is draining, and takes nothing new.
            ValueError: A number is not positive.
        """
        check_whole(max_messages=max_messages)
        seconds("timeout", timeout)
        seconds("stall", stall)
        for name, value in {"timeout": timeout, "max_messages": max_messages, "stall": stall}.items():
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, not {value}")
        session = self._session
        is_last = _is_empty if sentinel is True else sentinel or None
        deadline = session.now() + timeout
        count = 0
        async with open_request(session, subject, payload, headers) as sub:
            while max_messages is None or count < max_messages:
                left = deadline - session.now()
                if left <= 0:
                    break
                try:
                    msg = await sub.next_msg(left if stall is None or count == 0 else min(left, stall))
                except TimeoutError:
                    break
                if count == 0 and (msg.headers or {}).get("Status") == "503" and not msg.data:
                    raise NoRespondersError
                if is_last is not None and is_last(msg):
                    break
                count += 1
                yield msg


def _is_empty(msg: Msg) -> bool:
    return not msg.data
