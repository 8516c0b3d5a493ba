"""Requests."""

from __future__ import annotations

from jetarrow._jetarrow import Msg
from jetarrow.core.errors import ConnectionDrainingError, NoRespondersError
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
