"""The client methods `request`, `request_many` and `new_inbox`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from jetarrow._jetarrow import Msg
from jetarrow.core.arguments import check_whole, seconds
from jetarrow.core.errors import ConnectionDrainingError, NoRespondersError, TimeoutError
from jetarrow.core.session import Headers, Session
from jetarrow.core.subscription import Subscription


class Request:
    """The methods `request` and `new_inbox` of a client."""

    _session: Session

    async def request(
        self,
        subject: str,
        payload: bytes | str = b"",
        timeout: float | None = 0.5,
        old_style: bool = False,
        headers: Headers | None = None,
    ) -> Msg:
        """Publishes a request and waits for the first reply.

        Args:
            subject: The subject of the request.
            payload: Bytes-like, or str, which is sent as UTF-8.
            timeout: Maximum seconds to wait for the reply; None has no limit.
            old_style: Creates an inbox and a subscription for this request, instead of sharing those of the client.
            headers: Value, or list of values, by header name.

        Raises:
            NoRespondersError: No subscription matches the subject.
            TimeoutError: No reply in time.
            BadSubjectError: The subject is invalid; the request was not sent.
            BadHeaderError: A header is invalid; the request was not sent.
            MaxPayloadError: Request and headers exceed the server's `max_payload`; the request was not sent.
            ConnectionClosedError: The connection is closed.
            ConnectionDrainingError: The connection is draining.
        """
        session = self._session
        if session.draining == "pubs":
            raise ConnectionDrainingError
        if old_style:
            return await _request_old_style(session, subject, payload, timeout, headers)
        return await session.request(subject, payload, timeout, headers)

    def new_inbox(self) -> str:
        """Returns a unique reply subject."""
        return self._session.native.new_inbox()


def no_responders(subject: str) -> NoRespondersError:
    """The error of a request on a subject that no subscription matches."""
    return NoRespondersError(
        f"no responders on {subject!r} (status 503); start the service that answers on it, or check the subject and the"
        " account"
    )


async def _request_old_style(
    session: Session, subject: str, payload: bytes | str, timeout: float | None, headers: Headers | None
) -> Msg:
    inbox = session.native.new_inbox()
    sub = Subscription(session, session.next_sid(), inbox, max_msgs=1)
    await sub._start()
    try:
        wait_for_room = session.send(subject, payload, inbox, headers)
        if wait_for_room is not None:
            await session.run(wait_for_room)
        msg = await sub.next_msg(timeout)
    finally:
        sub._end()
    if (msg.headers or {}).get("Status") == "503":
        raise no_responders(subject)
    return msg


@asynccontextmanager
async def open_request(
    session: Session, subject: str, payload: bytes | str, headers: Headers | None = None
) -> AsyncIterator[Subscription]:
    """Publishes a request, and yields the subscription of its reply subject.

    Args:
        session: The session.
        subject: The subject of the request.
        payload: The payload.
        headers: As `publish`.

    Raises:
        ConnectionDrainingError: The connection is draining.
    """
    if session.draining == "pubs":
        raise ConnectionDrainingError
    sub = Subscription(session, session.next_sid(), session.native.new_inbox())
    await sub._open()
    try:
        wait_for_room = session.send(subject, payload, sub.subject, headers)
        if wait_for_room is not None:
            await session.run(wait_for_room)
        yield sub
    finally:
        sub._end()


class RequestMany:
    """The method `request_many` of a client."""

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
        """Publishes a request and yields its replies (ADR-47): `async for msg in nc.request_many("services.ping")`.

        The iteration ends at the first limit that is reached; the end of `timeout` is not an error.

        Args:
            subject: The subject of the request.
            payload: Bytes-like, or str, which is sent as UTF-8.
            timeout: Maximum seconds of the iteration.
            max_messages: Maximum number of replies; None has no limit.
            stall: Maximum seconds between two replies; None has no limit other than `timeout`.
            sentinel: Function that returns whether a reply marks the end; that reply is not yielded. True: an empty
                reply marks the end.
            headers: Value, or list of values, by header name.

        Raises:
            NoRespondersError: No subscription matches the subject.
            BadSubjectError: The subject is invalid; the request was not sent.
            BadHeaderError: A header is invalid; the request was not sent.
            MaxPayloadError: Request and headers exceed the server's `max_payload`; the request was not sent.
            ConnectionClosedError: The connection is closed.
            ConnectionDrainingError: The connection is draining.
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
                    raise no_responders(subject)
                if is_last is not None and is_last(msg):
                    break
                count += 1
                yield msg


def _is_empty(msg: Msg) -> bool:
    return not msg.data
