"""Requests, and what is like one."""

import asyncio

from jetarrow._native.bridge import Bridge
from jetarrow._native.call import Call
from jetarrow._native.message import Msg
from jetarrow._native.types import Headers, Payload
from jetarrow.core.session import Session

class RequestVerbs:
    """Of a `Connection`."""

    def flush(self, timeout: float | None) -> Call[None]:
        """Make a round trip through the server.

        Args:
            timeout: Most seconds.
        """
    def new_inbox(self) -> str:
        """Return a subject that is used nowhere else."""
    def request(self, subject: str, payload: bytes, timeout: float | None) -> Call[bytes]:
        """Ask the JetStream API.

        Args:
            subject: An API subject.
            payload: JSON, or nothing.
            timeout: Most seconds.

        Returns:
            A call for the payload of the answer.

        Raises:
            BadSubjectError: The subject is not valid.
        """
    def request_msg(
        self,
        session: Session,
        subject: str,
        payload: Payload,
        *,
        timeout: float | None,
        headers: Headers | None = None,
    ) -> Call[Msg]:
        """Send one request.

        Args:
            session: What the verbs of the answer go through.
            subject: Where to.
            payload: What.
            timeout: Most seconds.
            headers: As in `send`. Default: none.

        Returns:
            A call for the answer.

        Raises:
            BadSubjectError: The subject is not valid.
            MaxPayloadError: The server does not take a message of this size.
        """
    def request_future(
        self,
        event_loop: asyncio.AbstractEventLoop,
        bridge: Bridge,
        session: Session,
        subject: str,
        payload: Payload,
        timeout: float | None,
        headers: Headers | None,
    ) -> asyncio.Future[Msg]:
        """Send one request without a task for it.

        Args:
            event_loop: The loop that the future is for.
            bridge: That loop's mailbox.
            session: As in `request_msg`, like the rest.
            subject: Where to.
            payload: What.
            timeout: Most seconds.
            headers: As in `send`.

        Returns:
            A future.

        Raises:
            BadSubjectError: The subject is not valid.
            MaxPayloadError: The server does not take a message of this size.
            OutboundBufferLimitError: The link is down, and `pending_size` bytes are queued.
            ConnectionClosedError: The connection is closed.
        """
    def cancel_request(self, future: asyncio.Future[Msg]) -> None:
        """End a request of `request_future` whose future was cancelled: where it was not sent it never will be.

        Args:
            future: What `request_future` returned.
        """
